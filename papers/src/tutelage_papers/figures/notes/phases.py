"""Figure 6 of the notes: the phases of learning, found automatically, and when to stop.

Left: two erf units learn from two others. The boundaries that `phases` finds are
compared with what the two fixed points of the problem say, the symmetric plateau and
the noisy solution. Near a fixed point deviations follow its modes. A curve that leaves
the plateau from a small asymmetry a runs along the plateau's unstable manifold, ln(1/a)
/ rate later than one that starts on it, so one solve from the plateau, tilted along its
growing mode, predicts every escape. Right: when to stop if labels are noisy
(when_to_stop.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    INK,
    MARKERS,
    TIME,
    draw_phases,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.drawing import GUIDE
from tutelage_papers.figures.notes.when_to_stop import (
    draw_minimum,
    draw_stopping,
    stopping,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

UNITS = 2
EXPECTED = [
    "search",
    "symmetric plateau",
    "specialization",
    "convergence",
    "noise floor",
]
BAND = np.log(1.1)  # the error is on a level while it is within ten per cent of it
FAR = 2.0  # times the level: from there on deviations are taken to follow the modes
# The phase, what predicts its beginning, and the tolerance: modes are a first-order
# theory, the manifold is solved.
BOUNDARIES = (
    ("the plateau begins", "against the modes that fade", 0.05),
    ("specialization begins", "against the unstable manifold", 0.02),
    ("convergence begins", "against the unstable manifold", 0.02),
    ("the noise floor begins", "against the modes that fade", 0.05),
)


def compute_6(
    lr: float,
    noise: float,
    length: float,
    asymmetries: list[float],
    tilt: float,
    settled: float,
    end: float,
    points: int,
    eigenvalues: list[float],
    fractions: list[float],
    noises: list[float],
    shown: float,
    stop_end: float,
    stop_points: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return phases with boundaries as found and as predicted, and stopping times.

    length: Q_kk at the start. asymmetries: of the start, R_11 - R_12; the first one is
    drawn. settled: the time at which its part of the growing mode is read. tilt: R_11 -
    R_12 from which the unstable manifold is solved. The other parameters are those of
    `stopping`.
    """
    data = stopping(
        lr=lr,
        eigenvalues=eigenvalues,
        fractions=fractions,
        noises=noises,
        shown=shown,
        end=stop_end,
        points=stop_points,
        dim=dim,
        runs=runs,
        seed=seed,
    )
    student = tu.Network(UNITS, "erf")
    teacher = tu.Network(UNITS, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr), noise=noise)
    times = tu.linear_times(end, points)
    curves = [tu.solve(problem, _start(a, length), times) for a in asymmetries]
    curve = curves[0]
    data["alpha"] = times
    data["curve"] = ("alpha", curve.error)

    phases: Any = tu.analysis.phases(curve)
    starts = [phase.start for phase in phases]
    data["phase_name"] = ("phase", [phase.name for phase in phases])
    data["phase_start"] = ("phase", starts)
    data["phase_end"] = ("phase", [phase.end for phase in phases])

    plateau = tu.analysis.fixed_point(problem)
    final = tu.analysis.fixed_point(problem, "perfect")
    manifold = tu.solve(problem, _tilted(plateau, tilt), times)
    predicted = [
        _arrival(problem, plateau, curve),
        *_escape(plateau, curve, manifold, tilt, settled),
        _arrival(problem, final, curve),
    ]
    data["boundary_found"] = ("boundary", starts[1:])
    data["boundary_predicted"] = ("boundary", predicted)
    data["height"] = phases.plateaus[0].height
    data["height_predicted"] = plateau.error
    data["floor"] = float(curve.error[-1])
    data["floor_predicted"] = final.error

    data["asymmetry"] = asymmetries
    data["plateau_end"] = ("asymmetry", [_plateau_end(curve) for curve in curves])
    data["rate"] = plateau.unstable[0].growth
    data["rate_small_lr"] = _small_rate_growth(lr)
    return data


def _small_rate_growth(lr: float) -> float:
    """The rate of R - S for eta -> 0, 2 K eta / (pi sqrt(2K-1) (2K+1)^(3/2))."""
    K = UNITS
    return 2 * K * lr / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)


def _start(asymmetry: float, length: float) -> "tu.Start":
    return tu.Start(R=asymmetry * np.eye(UNITS), Q=length * np.eye(UNITS))


def _plateau_end(theory: "tu.Trajectory") -> float:
    plateaus: Any = tu.analysis.plateaus(theory)
    return plateaus[0].end


# Predictions. Flat coordinates are those of the modes: R, then the upper triangle of Q,
# then the readouts.


def _flat(R: np.ndarray, Q: np.ndarray) -> np.ndarray:
    return np.concatenate([R.ravel(), Q[np.triu_indices(UNITS)], np.zeros(UNITS)])


def _overlaps(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    R = flat[: UNITS**2].reshape(UNITS, UNITS)
    upper = flat[UNITS**2 : -UNITS]
    Q = np.zeros((UNITS, UNITS))
    Q[np.triu_indices(UNITS)] = upper
    return R, Q + np.triu(Q, 1).T


def _tilted(plateau: "tu.analysis.FixedPoint", tilt: float) -> "tu.Start":
    """The plateau, moved along its growing mode until R_11 - R_12 is `tilt`."""
    dR, dQ = _overlaps(plateau.unstable[0].right)
    size = tilt / (dR[0, 0] - dR[0, 1])
    return tu.Start(R=plateau.R + size * dR, Q=plateau.Q + size * dQ)


def _escape(
    plateau: "tu.analysis.FixedPoint",
    curve: "tu.Trajectory",
    manifold: "tu.Trajectory",
    tilt: float,
    settled: float,
) -> tuple[float, float]:
    """The times at which specialization and convergence begin.

    These are the times of the unstable manifold, later by ln(tilt / a) / rate, where a
    is what the state at the time `settled` holds of the growing mode.
    """
    mode = plateau.unstable[0]
    place = int(np.searchsorted(curve.times, settled))
    state = _flat(curve.R[place], curve.Q[place])
    amplitude = mode.left @ (state - _flat(plateau.R, plateau.Q))
    dR, _ = _overlaps(mode.right * amplitude)
    a = dR[0, 0] - dR[0, 1]
    delay = float(curve.times[place]) + np.log(tilt / a) / mode.growth
    # Specialization begins where the manifold leaves the level of the plateau,
    # convergence where nine tenths of it are done.
    depth = np.log(plateau.error / manifold.error)
    below = int(np.argmax(depth > BAND))
    around = slice(below - 1, below + 1)
    leaves = np.interp(BAND, depth[around], manifold.times[around])
    learned: Any = tu.analysis.specialization(manifold)
    return delay + float(leaves), delay + (learned.reaches(0.9) or np.nan)


def _arrival(
    problem: "tu.Problem", point: "tu.analysis.FixedPoint", curve: "tu.Trajectory"
) -> float:
    """The time at which the error comes within the band of a fixed point's.

    Deviations fade with its modes once the error is FAR times that of the fixed point.
    Those of R and of Q - R R^T are taken as small: the error is quadratic in the
    former, linear in the latter. To first order only: what the former feed into the
    latter, through G, is of the order of the error and left out.
    """
    from scipy.optimize import root_scalar

    place = int(np.argmax(curve.error < FAR * point.error))
    outside = _outside(point.R, point.Q)
    dR = curve.R[place] - point.R
    dX = _outside(curve.R[place], curve.Q[place]) - outside
    deviation = _flat(dR, dX + dR @ point.R.T + point.R @ dR.T)
    fading = [mode for mode in point.modes if mode.growth < 0]
    parts = np.stack([mode.right * (mode.left @ deviation) for mode in fading])
    rates = np.array([mode.rate for mode in fading])

    def excess(later: float) -> float:
        dR, dQ = _overlaps(np.real(np.exp(rates * later) @ parts))
        R = point.R + dR
        Q = outside + dQ - dR @ point.R.T - point.R @ dR.T + R @ R.T
        error = tu.generalization_error(problem, R, Q, point.T)
        return float(np.log(error / point.error)) - BAND

    left = float(curve.times[-1] - curve.times[place])
    wait = root_scalar(excess, bracket=(0.0, left), method="brentq", xtol=1e-3).root
    return float(curve.times[place]) + wait


def _outside(R: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Overlaps of the students outside the span of the (orthonormal) teachers."""
    return Q - R @ R.T


def claims_6(data: "Dataset") -> Iterator[Claim]:
    """Levels, boundaries and delays against the fixed points; stopping times.

    The stopping times are held against the minimum of the solved curve.
    """
    yield from _phase_claims(data)
    yield from _delay_claims(data)
    yield from _stopping_claims(data)


def _phase_claims(data: "Dataset") -> Iterator[Claim]:
    names = [str(name) for name in data["phase_name"].values]
    yield close(
        f"phases found in order: {', '.join(EXPECTED)}",
        names == EXPECTED,
        1.0,
        absolute=0.0,
    )
    yield close(
        "height of the plateau, against its fixed point",
        data["height"],
        data["height_predicted"],
        rel=0.01,
    )
    yield close(
        "height of the noise floor, against its own",
        data["floor"],
        data["floor_predicted"],
        rel=0.01,
    )
    for place, (beginning, prediction, tolerance) in enumerate(BOUNDARIES):
        yield close(
            f"{beginning}, {prediction}",
            data["boundary_found"][place],
            data["boundary_predicted"][place],
            rel=tolerance,
        )


def _delay_claims(data: "Dataset") -> Iterator[Claim]:
    """The escape comes later by ln(1/a) / rate."""
    e_folds = -np.log(data["asymmetry"].values)
    delay = np.polyfit(e_folds, data["plateau_end"].values, 1)[0]
    yield close(
        "delay of the escape per e-th of the asymmetry, times the rate",
        delay * float(data["rate"]),
        1.0,
        rel=0.02,
    )
    yield above(
        "the same with the rate for eta -> 0, which must be off",
        abs(delay * float(data["rate_small_lr"]) - 1),
        0.02,
    )


def _stopping_claims(data: "Dataset") -> Iterator[Claim]:
    from tutelage_papers.bands import inside_claims

    noisy = data.sel(noise=data["noise"] > 0)
    gap = np.max(np.abs(noisy["stop_time"] / noisy["stop_solved"] - 1))
    yield at_most(
        "largest relative gap of the stopping time to the minimum of the solved curve",
        gap,
        1e-3,
    )
    end = float(data["time"][-1])
    yield close(
        "without noise, the stopping time over the last time",
        float(data["stop_time"].sel(noise=0.0)) / end,
        1.0,
        absolute=0,
    )
    yield above(
        "gain of stopping early at the noise that is drawn",
        data["stop_gain"].sel(noise=data["shown"]),
        1.1,
    )
    yield from inside_claims(data, "a minimum of the error")


def draw_6(data: "Dataset") -> "Figure":
    """Phases with predictions, escapes, the minimum with runs, stopping times."""
    title = "The phases of learning, and when to stop"
    small = (
        "Left: two erf units, boundaries found (lines) and predicted from fixed points "
        "(triangles). Right: one erf unit."
    )
    figure, axes = panel_grid(2, 2, title, small, height=2.9, width_ratios=(1.25, 1.0))
    _draw_curve(axes[0, 0], data)
    _draw_delays(axes[1, 0], data)
    draw_minimum(axes[0, 1], data)
    draw_stopping(axes[1, 1], data)
    return figure


def _draw_curve(panel: Any, data: "Dataset") -> None:
    """The error with its phases, and the boundaries that are predicted."""
    draw_phases([panel], _phases(data))
    panel.plot(data["alpha"], data["curve"], color=INK)
    for level in ("height_predicted", "floor_predicted"):
        panel.axhline(float(data[level]), **GUIDE)
    predicted = data["boundary_predicted"].values
    heights = np.interp(predicted, data["alpha"], data["curve"])
    triangles = {"color": COLORS[1], "markersize": 6, "markerfacecolor": "white"}
    panel.plot(predicted, heights, "v", **triangles, label="predicted")
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    panel.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        fontsize=7,
        handlelength=1.4,
        columnspacing=0.9,
    )


def _phases(data: "Dataset") -> "list[tu.analysis.Phase]":
    names = data["phase_name"].values
    starts = data["phase_start"].values
    ends = data["phase_end"].values
    return [
        tu.analysis.Phase(str(name), float(start), float(end))
        for name, start, end in zip(names, starts, ends, strict=True)
    ]


def _draw_delays(panel: Any, data: "Dataset") -> None:
    """Ends of the plateau by asymmetry, and the slope of the growing mode."""
    asymmetries = data["asymmetry"].values
    ends = data["plateau_end"].values
    rate = float(data["rate"])
    marks = {"linestyle": "none", "marker": MARKERS[0], "markerfacecolor": "white"}
    panel.plot(asymmetries, ends, **marks, color=COLORS[0], label="plateaus")
    line = ends[0] - np.log(asymmetries / asymmetries[0]) / rate
    label = rf"slope $1/\lambda$, $\lambda = {rate:.4f}$"
    panel.plot(asymmetries, line, color=FAINT, linestyle=DASHES[1], label=label)
    panel.set(
        xscale="log",
        xlabel=r"asymmetry of the start, $R_{11} - R_{12}$",
        ylabel="end of the plateau",
    )
    panel.margins(x=0.05)
    panel.legend(loc="upper right")


PRINTED_6 = {
    "lr": 0.5,
    "noise": 0.05,
    "length": 0.05,
    "asymmetries": [1e-3, 1e-4, 1e-5],
    "tilt": 0.03,
    "settled": 30.0,
    "end": 600.0,
    "points": 1201,
    "eigenvalues": [25.0, 0.5 / 0.98],
    "fractions": [0.02, 0.98],
    "shown": 0.5,
    "stop_end": 12.0,
    "stop_points": 401,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="notes-6",
        source="notes",
        figure="phases of learning",
        title="phases found automatically, and early stopping with noisy labels",
        full=PRINTED_6
        | {"noises": [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0], "dim": 10000, "runs": 200},
        quick=PRINTED_6 | {"noises": [0.0, 0.2, 0.5, 1.0], "dim": 4000, "runs": 60},
        compute=compute_6,
        draw=draw_6,
        claims=claims_6,
    ),
)
