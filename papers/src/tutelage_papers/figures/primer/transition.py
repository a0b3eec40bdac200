"""Figure 2 of the primer: order parameters through the specialization transition.

It is also a page with a slider for time.

The plateau of a start whose asymmetry is small lasts long, but one symmetric mode of
its fixed point (the parts of the students that are orthogonal to everything) fades even
more slowly than the transition comes. A start reaches the fixed point itself only if
its lengths hardly excite that mode; squared lengths of 0.05 do at eta = 0.5, and the
figure shows others.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    TIME,
    draw_phases,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.drawing import GUIDE, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

UNITS = 2
TITLE = "The specialization transition: two erf units learn from two others"


def compute_2(
    lr: float,
    asymmetry: float,
    length: float,
    lengths: list[float],
    window: list[float],
    end: float,
    points: int,
) -> "Dataset":
    """Return the solved curve, its phases, its fixed point, and more starts.

    length, lengths: Q_kk at the start. window: values of R - S between which growth is
    fitted.
    """
    student = tu.Network(UNITS, "erf")
    teacher = tu.Network(UNITS, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))
    times = tu.linear_times(end, points)
    theory = tu.solve(problem, _start(asymmetry, length), times)
    stored = theory.to_dataset()
    data = stored.assign_attrs(trajectory_schema=stored.attrs["schema"])

    phases: Any = tu.analysis.phases(theory)
    data["phase_name"] = ("phase", [phase.name for phase in phases])
    data["phase_start"] = ("phase", [phase.start for phase in phases])
    data["phase_end"] = ("phase", [phase.end for phase in phases])

    plateau = tu.analysis.fixed_point(problem)
    level = _symmetric(plateau.R, plateau.Q, plateau.error)
    small_rate_level = _small_rate_level()
    small_rate_gap = _gap(theory, small_rate_level)
    rest = _time_of_rest(theory)
    data["fixed"] = ("overlap", level)
    data["fixed_small_lr"] = ("overlap", small_rate_level)
    data["gap"] = ("time", _gap(theory, level))
    data["rest"] = rest
    data["rest_gap_small_lr"] = float(np.interp(rest, times, small_rate_gap))

    # R - S grows with the rate of the unstable mode, the loss departs with twice that
    # rate.
    split = _split(theory.R)
    departure = plateau.error - theory.error
    data["split"] = ("time", split)
    data["departure"] = ("time", departure)
    data["rate"] = float(plateau.unstable[0].rate.real)
    data["rate_small_lr"] = _small_rate_growth(lr)
    data["rate_found"] = float(phases.plateaus[0].growth_rate or np.nan)
    data["rate_split"] = _fitted_rate(times, split, split, window)
    data["rate_loss"] = _fitted_rate(times, departure, split, window)
    data["window"] = ("edge", window)
    fading = [
        -mode.growth
        for mode in plateau.modes
        if "all student units equally" in mode.name
    ]
    data["slowest"] = min(fading)

    others = [tu.solve(problem, _start(asymmetry, q), times) for q in lengths]
    other_gaps = [_gap(other, level) for other in others]
    data["other_gap"] = (("length", "time"), other_gaps)
    data["other_rest"] = ("length", [_time_of_rest(other) for other in others])
    return data.assign_coords(length=lengths)


def _start(asymmetry: float, length: float) -> "tu.Start":
    """Students of equal length, orthogonal to all but a little of their own teacher."""
    return tu.Start(R=asymmetry * np.eye(UNITS), Q=length * np.eye(UNITS))


def _symmetric(R: Any, Q: Any, error: Any) -> np.ndarray:
    """The overlaps of units that are not told apart, and the error; shape (4, ...).

    These are the mean of R, the means of Q on and off its diagonal, and e_g.
    """
    own = np.trace(Q, axis1=-2, axis2=-1)
    others = np.sum(Q, axis=(-2, -1)) - own
    mean_R = np.mean(R, axis=(-2, -1))
    mean_Q = own / UNITS
    mean_C = others / (UNITS * (UNITS - 1))
    return np.stack([mean_R, mean_Q, mean_C, np.asarray(error)])


def _split(R: np.ndarray) -> np.ndarray:
    """R - S: overlap with the own teacher less that with the others."""
    own = np.trace(R, axis1=-2, axis2=-1)
    others = np.sum(R, axis=(-2, -1)) - own
    return own / UNITS - others / (UNITS * (UNITS - 1))


def _gap(theory: "tu.Trajectory", level: np.ndarray) -> np.ndarray:
    """Largest distance of the symmetric overlaps, and of e_g, to a level; (time,)."""
    symmetric = _symmetric(theory.R, theory.Q, theory.error)
    return np.max(np.abs(symmetric - level[:, None]), axis=0)


def _time_of_rest(theory: "tu.Trajectory") -> float:
    """The time before units part at which the symmetric overlaps move least.

    This is a time on the plateau, wherever that is.
    """
    before = _split(theory.R) < 0.1
    symmetric = _symmetric(theory.R, theory.Q, theory.error)
    speed = np.abs(np.gradient(symmetric, theory.times, axis=1)).max(axis=0)
    return float(theory.times[np.argmin(np.where(before, speed, np.inf))])


def _small_rate_level() -> np.ndarray:
    """The fixed point for eta -> 0, with its error (Saad and Solla 1995).

    R = 1/sqrt(K (2K - 1)), Q = C = 1/(2K - 1).
    """
    K = UNITS
    R = 1 / np.sqrt(K * (2 * K - 1))
    Q = 1 / (2 * K - 1)
    error = K / np.pi * (np.pi / 6 - K * np.arcsin(0.5 / K))
    return np.array([R, Q, Q, error])


def _small_rate_growth(lr: float) -> float:
    """The rate of R - S for eta -> 0, 2 K eta / (pi sqrt(2K-1) (2K+1)^(3/2))."""
    K = UNITS
    return 2 * K * lr / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)


def _fitted_rate(
    times: np.ndarray, grows: np.ndarray, split: np.ndarray, window: list[float]
) -> float:
    """Slope of ln(grows) against time while R - S first is inside the window."""
    first = int(np.argmax(split >= window[0]))
    last = int(np.argmax(split >= window[1]))
    slope, _ = np.polyfit(times[first:last], np.log(grows[first:last]), 1)
    return float(slope)


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """The plateau is the fixed point of this eta, and is left as its Jacobian says.

    The formulas for eta -> 0 fail.
    """
    yield at_most(
        "gap of the plateau to the fixed point at this eta",
        data["gap"].sel(time=float(data["rest"])),
        1e-4,
    )
    yield above(
        "gap to the fixed point for eta -> 0, which must fail",
        data["rest_gap_small_lr"],
        1e-4,
    )
    rate = float(data["rate"])
    yield close(
        "growth rate of R - S, against the Jacobian", data["rate_split"], rate, rel=0.02
    )
    yield close(
        "growth rate found by tu.analysis.plateaus, against the Jacobian",
        data["rate_found"],
        rate,
        rel=0.02,
    )
    yield close(
        "rate at which the loss departs, against twice the Jacobian",
        data["rate_loss"],
        2 * rate,
        rel=0.02,
    )
    yield above(
        "relative gap of the measured rate to the formula for eta -> 0, "
        "which must fail",
        abs(float(data["rate_split"] / data["rate_small_lr"]) - 1),
        0.02,
    )
    other = data.isel(length=-1)
    slowest = float(data["slowest"])
    yield above(
        f"gap to the fixed point from squared lengths {float(other['length']):g}",
        other["other_gap"].sel(time=other["other_rest"]),
        1e-3,
        evidence=f"a symmetric mode fades as exp(-{slowest:.3g} alpha), more slowly "
        "than the transition comes",
    )


def draw_2(data: "Dataset") -> "Figure":
    """Error and overlaps by phase, growth, other starts, and heat maps of overlaps."""
    small = (
        "Shaded: phases found by tu.analysis.phases; dotted: the fixed point at this "
        "learning rate. Below: R and Q at four times."
    )
    figure, axes = panel_grid(
        3, 4, TITLE, small, height=2.35, height_ratios=(1.0, 1.0, 0.62)
    )
    # The upper two rows have two panels each, twice as wide as a heat map.
    grid = axes[0, 0].get_gridspec()
    for panel in axes[:2].ravel():
        panel.remove()
    error = figure.add_subplot(grid[0, 0:2])
    overlaps = figure.add_subplot(grid[0, 2:4])
    growth = figure.add_subplot(grid[1, 0:2])
    others = figure.add_subplot(grid[1, 2:4])
    draw_phases([error, overlaps], _phases(data))
    _draw_error(error, data)
    _draw_overlaps(overlaps, data)
    _draw_growth(growth, data)
    _draw_others(others, data)
    for panel, moment in zip(axes[2], _moments(data), strict=True):
        _draw_maps(panel, moment)
    return figure


def _phases(data: "Dataset") -> "list[tu.analysis.Phase]":
    names = data["phase_name"].values
    starts = data["phase_start"].values
    ends = data["phase_end"].values
    return [
        tu.analysis.Phase(str(name), float(start), float(end))
        for name, start, end in zip(names, starts, ends, strict=True)
    ]


def _draw_error(panel: Any, data: "Dataset") -> None:
    panel.plot(data["time"], data["error"], color=INK)
    panel.set(ylabel=ERROR, yscale="log", xlabel=TIME)
    panel.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=2,
        fontsize=7,
        handlelength=1.2,
        columnspacing=0.9,
    )


def _draw_overlaps(panel: Any, data: "Dataset") -> None:
    R = data["R"].values
    Q = data["Q"].values
    level_R, level_Q, level_C, _ = data["fixed"].values
    curves = [
        ("$R_{11}$", R[:, 0, 0], level_R),
        ("$R_{12}$", R[:, 0, 1], level_R),
        ("$Q_{11}$", Q[:, 0, 0], level_Q),
        ("$Q_{12}$", Q[:, 0, 1], level_C),
    ]
    for look, (label, values, level) in enumerate(curves):
        panel.plot(data["time"].values, values, **line_of(look), label=label)
        panel.axhline(level, **line_of(look, dashes=2), linewidth=0.8)
    panel.set(ylabel="order parameters", xlabel=TIME)
    outside_legend(panel)


def _draw_growth(panel: Any, data: "Dataset") -> None:
    """R - S and the departure of the error, with the slopes of the Jacobian."""
    part = _until_convergence(data)
    rate = float(data["rate"])
    times = part["time"].values
    split = part["split"].values
    first, last = data["window"].values
    middle = int(np.argmax(split >= float(np.sqrt(first * last))))
    near = (split >= first) & (times < times[middle] + 60)
    curves = [
        ("split", "$R - S$", rate, f"Jacobian: {rate:.4f}"),
        (
            "departure",
            r"$\epsilon_g^* - \epsilon_g$",
            2 * rate,
            f"Jacobian: 2 × {rate:.4f}",
        ),
    ]
    for look, (name, label, slope, words) in enumerate(curves):
        values = part[name].values
        positive = values > 0
        color = COLORS[look]
        panel.plot(times[positive], values[positive], color=color, label=label)
        line = values[middle] * np.exp(slope * (times[near] - times[middle]))
        dashes = DASHES[1 + look]
        panel.plot(
            times[near], line, color=INK, linestyle=dashes, linewidth=1.1, label=words
        )
    panel.set(yscale="log", ylabel="departure", xlabel=TIME, ylim=(1e-7, 2))
    panel.legend(loc="lower right", fontsize=7)


def _draw_others(panel: Any, data: "Dataset") -> None:
    """The gap to the fixed point for other starts."""
    part = _until_convergence(data)
    for look, length in enumerate(data["length"].values):
        gap = part["other_gap"].sel(length=length)
        label = f"$Q_{{kk}}(0) = {length:g}$"
        panel.plot(gap["time"], gap, **line_of(look), label=label)
    panel.axhline(1e-4, **GUIDE, label="claimed: below")
    panel.set(yscale="log", ylabel="gap to the\nfixed point", xlabel=TIME)
    outside_legend(panel)


def _until_convergence(data: "Dataset") -> "Dataset":
    """The times before the last phase."""
    return data.sel(time=slice(0, float(data["phase_end"][-2])))


def _moments(data: "Dataset") -> "list[Dataset]":
    """One time in each phase.

    These are the first one, one on the plateau, the middle of the transition and the
    end.
    """
    half = float(data["time"].values[np.argmax(data["split"].values > 0.5)])
    moments = (0.0, float(data["rest"]), half, float(data["time"][-1]))
    return [data.sel(time=time, method="nearest") for time in moments]


def _draw_maps(panel: Any, part: "Dataset") -> None:
    """R and Q side by side, numbers in the cells."""
    blank = np.full((UNITS, 1), np.nan)
    values = np.hstack([part["R"].values, blank, part["Q"].values])
    panel.imshow(values, cmap="PuOr_r", vmin=-1.7, vmax=1.7, aspect="equal")
    words = {"ha": "center", "va": "center", "fontsize": 7, "color": INK}
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            panel.text(column, row, f"{value:.2f}", **words)
    center_R = (UNITS - 1) / 2
    center_Q = UNITS + 1 + center_R
    panel.set_xticks([center_R, center_Q], ["$R$", "$Q$"])
    students = [f"student {k + 1}" for k in range(UNITS)]
    panel.set_yticks(range(UNITS), students, fontsize=7)
    panel.tick_params(length=0)
    panel.grid(False)
    for spine in panel.spines.values():
        spine.set_visible(False)
    label_panel(panel, rf"$\alpha$ = {float(part['time']):g}")


def page_2(data: "Dataset") -> str:
    """The curve with a slider for time."""
    trajectory = tu.Trajectory.from_dataset(
        data.assign_attrs(schema=data.attrs["trajectory_schema"])
    )
    return tu.page.trajectory_page(trajectory, TITLE)


PRINTED_2 = {
    "lr": 0.5,
    "asymmetry": 1e-3,
    "length": 0.05,
    "window": [0.01, 0.05],
    "end": 500.0,
}

FIGURES = (
    Replica(
        id="primer-2",
        source="primer",
        figure="Fig. 2",
        title="order parameters through the specialization transition",
        full=PRINTED_2 | {"lengths": [0.02, 0.05, 0.1, 0.2], "points": 1001},
        quick=PRINTED_2 | {"lengths": [0.05, 0.2], "points": 251},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
        page=page_2,
    ),
)
