"""Figure 6 of the notes: the phases of learning found automatically, and when to stop if labels are noisy.

Left: two erf units learn from two others. Where `phases` puts its boundaries is compared with what the two fixed points of
the problem say, the symmetric plateau and the noisy solution. Near a fixed point deviations follow its modes. A curve that
leaves the plateau from a small asymmetry a runs along the plateau's unstable manifold, ln(1/a) / rate later than one that
starts on it, so one solve from the plateau, tilted along its growing mode, predicts every escape. Right: when to stop
(when_to_stop.py).
"""

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
# What begins, what predicts it, and how well it should: modes are a first-order theory, the manifold is solved.
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
    """Phases with their boundaries as found and as predicted; stopping times as found, and from finely solved curves.

    length: Q_kk at the start. asymmetries: of the start, R_11 - R_12; the first one is drawn. settled: the time
    at which its part of the growing mode is read. tilt: R_11 - R_12 from which the unstable manifold is solved.
    """
    problem = tu.Problem(
        tu.Network(UNITS, "erf"),
        tu.Network(UNITS, "erf"),
        optimizer=tu.SGD(lr),
        noise=noise,
    )
    times = tu.linear_times(end, points)
    curves = [tu.solve(problem, _start(a, length), times) for a in asymmetries]
    plateau = tu.analysis.fixed_point(problem)
    final = tu.analysis.fixed_point(problem, "perfect")
    manifold = tu.solve(problem, _tilted(plateau, tilt), times)
    found: Any = tu.analysis.phases(curves[0])
    predicted = [
        _arrival(problem, plateau, curves[0]),
        *_escape(plateau, curves[0], manifold, tilt, settled),
        _arrival(problem, final, curves[0]),
    ]
    return stopping(
        lr,
        eigenvalues,
        fractions,
        noises,
        shown,
        stop_end,
        stop_points,
        dim,
        runs,
        seed,
    ).assign(
        alpha=times,
        curve=("alpha", curves[0].error),
        phase_name=("phase", [phase.name for phase in found]),
        phase_start=("phase", [phase.start for phase in found]),
        phase_end=("phase", [phase.end for phase in found]),
        boundary_found=("boundary", [phase.start for phase in found][1:]),
        boundary_predicted=("boundary", predicted),
        height=found.plateaus[0].height,
        height_predicted=plateau.error,
        floor=float(curves[0].error[-1]),
        floor_predicted=final.error,
        asymmetry=asymmetries,
        plateau_end=("asymmetry", [_plateau_end(curve) for curve in curves]),
        rate=plateau.unstable[0].growth,
        rate_small_lr=2
        * UNITS
        * lr
        / (np.pi * np.sqrt(2 * UNITS - 1) * (2 * UNITS + 1) ** 1.5),
    )


def _start(asymmetry: float, length: float) -> "tu.Start":
    return tu.Start(R=asymmetry * np.eye(UNITS), Q=length * np.eye(UNITS))


def _plateau_end(theory: "tu.Trajectory") -> float:
    found: Any = tu.analysis.plateaus(theory)
    return found[0].end


# Predictions. Flat coordinates are those of the modes: R, then the upper triangle of Q, then the readouts.


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
    """When specialization and convergence begin: those times of the unstable manifold, later by ln(tilt / a) / rate.

    a: what the state at the time `settled` holds of the growing mode.
    """
    mode = plateau.unstable[0]
    at = int(np.searchsorted(curve.times, settled))
    dR, _ = _overlaps(
        mode.right
        * (mode.left @ (_flat(curve.R[at], curve.Q[at]) - _flat(plateau.R, plateau.Q)))
    )
    delay = float(curve.times[at]) + np.log(tilt / (dR[0, 0] - dR[0, 1])) / mode.growth
    learned: Any = tu.analysis.specialization(manifold)
    below = int(np.argmax(np.log(plateau.error / manifold.error) > BAND))
    left = np.interp(
        BAND,
        np.log(plateau.error / manifold.error)[below - 1 : below + 1],
        manifold.times[below - 1 : below + 1],
    )
    return delay + float(left), delay + (learned.reaches(0.9) or np.nan)


def _arrival(
    problem: "tu.Problem", point: "tu.analysis.FixedPoint", curve: "tu.Trajectory"
) -> float:
    """When the error comes within the band of a fixed point's, if deviations fade with its modes once it is FAR times that.

    Deviations of R and of Q - R R^T are taken as small: the error is quadratic in the former, linear in the latter. To first
    order only: what the former feed into the latter, through G, is of the order of the error and left out.
    """
    from scipy.optimize import root_scalar

    at = int(np.argmax(curve.error < FAR * point.error))
    dR = curve.R[at] - point.R
    dX = _outside(curve.R[at], curve.Q[at]) - _outside(point.R, point.Q)
    first = _flat(dR, dX + dR @ point.R.T + point.R @ dR.T)
    fading = [mode for mode in point.modes if mode.growth < 0]
    parts = np.stack([mode.right * (mode.left @ first) for mode in fading])
    rates = np.array([mode.rate for mode in fading])

    def excess(later: float) -> float:
        dR, dQ = _overlaps(np.real(np.exp(rates * later) @ parts))
        R = point.R + dR
        Q = _outside(point.R, point.Q) + dQ - dR @ point.R.T - point.R @ dR.T + R @ R.T
        return (
            float(np.log(tu.generalization_error(problem, R, Q, point.T) / point.error))
            - BAND
        )

    left = float(curve.times[-1] - curve.times[at])
    return (
        float(curve.times[at])
        + root_scalar(excess, bracket=(0.0, left), method="brentq", xtol=1e-3).root
    )


def _outside(R: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """What the students have outside the teachers' span (the teachers are orthonormal)."""
    return Q - R @ R.T


def claims_6(data: "Dataset") -> list[Claim]:
    """Levels, boundaries and their delays against the fixed points; stopping times against the solved minimum."""
    from tutelage_papers.bands import inside_claims

    names = [str(name) for name in data["phase_name"].values]
    delay = np.polyfit(
        -np.log(data["asymmetry"].values), data["plateau_end"].values, 1
    )[0]
    noisy = data.sel(noise=data["noise"] > 0)
    gap = np.max(np.abs(noisy["stop_time"] / noisy["stop_solved"] - 1))
    end = float(data["time"][-1])
    boundaries = zip(
        BOUNDARIES,
        data["boundary_found"].values,
        data["boundary_predicted"].values,
        strict=True,
    )
    return [
        close(
            f"phases found in order: {', '.join(EXPECTED)}",
            float(names == EXPECTED),
            1.0,
            absolute=0.0,
        ),
        close(
            "height of the plateau, against its fixed point",
            float(data["height"]),
            float(data["height_predicted"]),
            rel=0.01,
        ),
        close(
            "height of the noise floor, against its own",
            float(data["floor"]),
            float(data["floor_predicted"]),
            rel=0.01,
        ),
        *(
            close(f"{what}, {how}", x, y, rel=rel)
            for (what, how, rel), x, y in boundaries
        ),
        close(
            "delay of the escape per e-th of the asymmetry, times the rate",
            delay * float(data["rate"]),
            1.0,
            rel=0.02,
        ),
        above(
            "the same with the rate for eta -> 0, which must be off",
            abs(delay * float(data["rate_small_lr"]) - 1),
            0.02,
        ),
        at_most(
            "largest relative gap of the stopping time to the minimum of the solved curve",
            float(gap),
            1e-3,
        ),
        close(
            "without noise, the stopping time over the last time",
            float(data["stop_time"].sel(noise=0.0)) / end,
            1.0,
            absolute=0,
        ),
        above(
            "gain of stopping early at the noise that is drawn",
            float(data["stop_gain"].sel(noise=data["shown"])),
            1.1,
        ),
        *inside_claims(data, "a minimum of the error"),
    ]


def draw_6(data: "Dataset") -> "Figure":
    """The phases and what predicts them; escapes of several asymmetries; the minimum with runs; stopping times."""
    title = "The phases of learning, and when to stop"
    small = "Left: two erf units, boundaries found (lines) and predicted from fixed points (triangles). Right: one erf unit."
    figure, axes = panel_grid(2, 2, title, small, height=2.9, width_ratios=(1.25, 1.0))
    _draw_curve(axes[0, 0], data)
    _draw_delays(axes[1, 0], data)
    draw_minimum(axes[0, 1], data)
    draw_stopping(axes[1, 1], data)
    return figure


def _draw_curve(panel: Any, data: "Dataset") -> None:
    rows = zip(
        data["phase_name"].values,
        data["phase_start"].values,
        data["phase_end"].values,
        strict=True,
    )
    draw_phases(
        [panel], [tu.analysis.Phase(str(n), float(s), float(e)) for n, s, e in rows]
    )
    panel.plot(data["alpha"], data["curve"], color=INK)
    for level in ("height_predicted", "floor_predicted"):
        panel.axhline(float(data[level]), color=FAINT, linestyle=DASHES[2])
    at = data["boundary_predicted"].values
    heights = np.interp(at, data["alpha"], data["curve"])
    panel.plot(
        at,
        heights,
        "v",
        color=COLORS[1],
        markersize=6,
        markerfacecolor="white",
        label="predicted",
    )
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    panel.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        fontsize=7,
        handlelength=1.4,
        columnspacing=0.9,
    )


def _draw_delays(panel: Any, data: "Dataset") -> None:
    x = data["asymmetry"].values
    y = data["plateau_end"].values
    panel.plot(
        x,
        y,
        linestyle="none",
        marker=MARKERS[0],
        markerfacecolor="white",
        color=COLORS[0],
        label="plateaus",
    )
    line = y[0] - np.log(x / x[0]) / float(data["rate"])
    panel.plot(
        x,
        line,
        color=FAINT,
        linestyle=DASHES[1],
        label=rf"slope $1/\lambda$, $\lambda = {float(data['rate']):.4f}$",
    )
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
