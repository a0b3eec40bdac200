"""Figure 2 of the primer: order parameters through the specialization transition, also as a page with a slider for time.

The plateau of a start whose asymmetry is small lasts long, but one symmetric mode of its fixed point (the parts of the
students that are orthogonal to everything) fades even more slowly than the transition comes. A start reaches the fixed point
itself only if its lengths hardly excite that mode; squared lengths of 0.05 do at eta = 0.5, and the figure shows others.
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
    TIME,
    draw_phases,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close
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
    """The solved curve, its phases, the fixed point that it passes with its growing mode, and starts of other lengths.

    length, lengths: Q_kk at the start. window: values of R - S between which growth is fitted.
    """
    problem = tu.Problem(
        tu.Network(UNITS, "erf"), tu.Network(UNITS, "erf"), optimizer=tu.SGD(lr=lr)
    )
    times = tu.linear_times(end, points)
    theory = tu.solve(problem, _start(asymmetry, length), times)
    phases: Any = tu.analysis.phases(theory)
    plateau = tu.analysis.fixed_point(problem)
    level = _symmetric(plateau.R, plateau.Q, plateau.error)
    split = _split(theory.R)
    departure = plateau.error - theory.error
    others = [tu.solve(problem, _start(asymmetry, q), times) for q in lengths]
    stored = theory.to_dataset()
    return (
        stored.assign_attrs(trajectory_schema=stored.attrs["schema"])
        .assign(
            phase_name=("phase", [phase.name for phase in phases]),
            phase_start=("phase", [phase.start for phase in phases]),
            phase_end=("phase", [phase.end for phase in phases]),
            fixed=("overlap", level),
            fixed_small_lr=("overlap", _small_rate_level()),
            split=("time", split),
            departure=("time", departure),
            gap=("time", _gap(theory, level)),
            rest=_time_of_rest(theory),
            rest_gap_small_lr=float(
                np.interp(
                    _time_of_rest(theory), times, _gap(theory, _small_rate_level())
                )
            ),
            rate=float(plateau.unstable[0].rate.real),
            rate_small_lr=_small_rate_growth(lr),
            rate_found=float(phases.plateaus[0].growth_rate or np.nan),
            rate_split=_fitted_rate(times, split, split, window),
            rate_loss=_fitted_rate(times, departure, split, window),
            window=("edge", window),
            slowest=min(
                -mode.growth
                for mode in plateau.modes
                if "all student units equally" in mode.name
            ),
            other_gap=(("length", "time"), [_gap(other, level) for other in others]),
            other_rest=("length", [_time_of_rest(other) for other in others]),
        )
        .assign_coords(length=lengths)
    )


def _start(asymmetry: float, length: float) -> "tu.Start":
    """Students of equal length, orthogonal to all but a little of their own teacher."""
    return tu.Start(R=asymmetry * np.eye(UNITS), Q=length * np.eye(UNITS))


def _symmetric(R: Any, Q: Any, error: Any) -> np.ndarray:
    """What stays if units are not told apart: the mean of R, Q on and off its diagonal, and e_g; (4, ...)."""
    off = UNITS * (UNITS - 1)
    own = np.trace(Q, axis1=-2, axis2=-1)
    return np.stack(
        [
            np.mean(R, axis=(-2, -1)),
            own / UNITS,
            (np.sum(Q, axis=(-2, -1)) - own) / off,
            np.asarray(error),
        ]
    )


def _split(R: np.ndarray) -> np.ndarray:
    """R - S: overlap with the own teacher less that with the others."""
    own = np.trace(R, axis1=-2, axis2=-1)
    return own / UNITS - (np.sum(R, axis=(-2, -1)) - own) / (UNITS * (UNITS - 1))


def _gap(theory: "tu.Trajectory", level: np.ndarray) -> np.ndarray:
    """Largest distance of the symmetric overlaps, and of e_g, to a level; (time,)."""
    return np.max(
        np.abs(_symmetric(theory.R, theory.Q, theory.error) - level[:, None]), axis=0
    )


def _time_of_rest(theory: "tu.Trajectory") -> float:
    """When the symmetric overlaps move least, before the units part: on the plateau, wherever that is."""
    still = _split(theory.R) < 0.1
    moving = np.abs(
        np.gradient(_symmetric(theory.R, theory.Q, theory.error), theory.times, axis=1)
    ).max(axis=0)
    return float(theory.times[np.argmin(np.where(still, moving, np.inf))])


def _small_rate_level() -> np.ndarray:
    """The fixed point for eta -> 0 (Saad and Solla): R = 1/sqrt(K(2K-1)), Q = C = 1/(2K-1), and its error."""
    K = UNITS
    return np.array(
        [
            1 / np.sqrt(K * (2 * K - 1)),
            *2 * [1 / (2 * K - 1)],
            K / np.pi * (np.pi / 6 - K * np.arcsin(0.5 / K)),
        ]
    )


def _small_rate_growth(lr: float) -> float:
    """The rate of R - S for eta -> 0, 2 K eta / (pi sqrt(2K-1) (2K+1)^(3/2))."""
    K = UNITS
    return 2 * K * lr / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5)


def _fitted_rate(
    times: np.ndarray, grows: np.ndarray, split: np.ndarray, window: list[float]
) -> float:
    """Slope of ln(grows) against time while R - S first is inside the window."""
    first, last = (int(np.argmax(split >= edge)) for edge in window)
    return float(np.polyfit(times[first:last], np.log(grows[first:last]), 1)[0])


def claims_2(data: "Dataset") -> list[Claim]:
    """The plateau is the fixed point of this eta, and it is left as its Jacobian says; formulas for eta -> 0 fail."""
    rate = float(data["rate"])
    rest = float(data["rest"])
    other = data.isel(length=-1)
    off = float(other["other_gap"].sel(time=other["other_rest"]))
    slow = f"a symmetric mode fades as exp(-{float(data['slowest']):.3g} alpha), more slowly than the transition comes"
    return [
        at_most(
            "gap of the plateau to the fixed point at this eta",
            float(data["gap"].sel(time=rest)),
            1e-4,
        ),
        above(
            "gap to the fixed point for eta -> 0, which must fail",
            float(data["rest_gap_small_lr"]),
            1e-4,
        ),
        close(
            "growth rate of R - S, against the Jacobian",
            float(data["rate_split"]),
            rate,
            rel=0.02,
        ),
        close(
            "growth rate found by tu.analysis.plateaus, against the Jacobian",
            float(data["rate_found"]),
            rate,
            rel=0.02,
        ),
        close(
            "rate at which the loss departs, against twice the Jacobian",
            float(data["rate_loss"]),
            2 * rate,
            rel=0.02,
        ),
        above(
            "relative gap of the measured rate to the formula for eta -> 0, which must fail",
            abs(float(data["rate_split"] / data["rate_small_lr"]) - 1),
            0.02,
        ),
        above(
            f"gap to the fixed point from squared lengths {float(other['length']):g}",
            off,
            1e-3,
            evidence=slow,
        ),
    ]


def draw_2(data: "Dataset") -> "Figure":
    """Error and overlaps, shaded by phase; what grows; other starts; and the overlaps as heat maps, one for each phase."""
    small = "Shaded: phases found by tu.analysis.phases; dotted: the fixed point at this learning rate. Below: R and Q at four times."
    figure, axes = panel_grid(
        3, 4, TITLE, small, height=2.35, height_ratios=(1.0, 1.0, 0.62)
    )
    grid = axes[0, 0].get_gridspec()
    for panel in axes[:2].ravel():
        panel.remove()
    error, overlaps, growth, others = (
        figure.add_subplot(grid[i, 2 * j : 2 * j + 2])
        for i in range(2)
        for j in range(2)
    )
    _draw_curves(error, overlaps, data)
    _draw_growth(growth, data)
    _draw_others(others, data)
    for panel, part in zip(axes[2], _moments(data), strict=True):
        _draw_maps(panel, part)
    return figure


def _draw_curves(error: Any, overlaps: Any, data: "Dataset") -> None:
    times = data["time"].values
    rows = zip(
        data["phase_name"].values,
        data["phase_start"].values,
        data["phase_end"].values,
        strict=True,
    )
    draw_phases(
        [error, overlaps],
        [tu.analysis.Phase(str(n), float(s), float(e)) for n, s, e in rows],
    )
    error.plot(times, data["error"], color=INK)
    error.set(ylabel=ERROR, yscale="log", xlabel=TIME)
    error.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=2,
        fontsize=7,
        handlelength=1.2,
        columnspacing=0.9,
    )
    R = data["R"].values
    Q = data["Q"].values
    level = data["fixed"].values
    curves = {
        "R_{11}": R[:, 0, 0],
        "R_{12}": R[:, 0, 1],
        "Q_{11}": Q[:, 0, 0],
        "Q_{12}": Q[:, 0, 1],
    }
    for look, (name, values) in enumerate(curves.items()):
        overlaps.plot(
            times, values, color=COLORS[look], linestyle=DASHES[look], label=f"${name}$"
        )
        overlaps.axhline(
            level[max(look - 1, 0)],
            color=COLORS[look],
            linestyle=DASHES[2],
            linewidth=0.8,
        )
    overlaps.set(ylabel="order parameters", xlabel=TIME)
    outside_legend(overlaps)


def _draw_growth(panel: Any, data: "Dataset") -> None:
    """What tells units apart, and how far the loss has fallen, with the slopes of the Jacobian."""
    part = data.sel(time=slice(0, float(data["phase_end"][-2])))
    times = part["time"].values
    inside = part["split"].values >= float(data["window"][0])
    middle = int(
        np.argmax(
            part["split"].values >= float(np.sqrt(np.prod(data["window"].values)))
        )
    )
    for look, (name, label, power) in enumerate(
        (("split", "$R - S$", 1), ("departure", r"$\epsilon_g^* - \epsilon_g$", 2))
    ):
        values = part[name].values
        panel.plot(
            times[values > 0], values[values > 0], color=COLORS[look], label=label
        )
        slope = power * float(data["rate"])
        near = inside & (times < times[middle] + 60)
        line = values[middle] * np.exp(slope * (times[near] - times[middle]))
        words = rf"Jacobian: {'2 × ' if power == 2 else ''}{float(data['rate']):.4f}"
        panel.plot(
            times[near],
            line,
            color=INK,
            linestyle=DASHES[1 + look],
            linewidth=1.1,
            label=words,
        )
    panel.set(yscale="log", ylabel="departure", xlabel=TIME, ylim=(1e-7, 2))
    panel.legend(loc="lower right", fontsize=7)


def _draw_others(panel: Any, data: "Dataset") -> None:
    for look, length in enumerate(data["length"].values):
        gap = data["other_gap"].sel(
            length=length, time=slice(0, float(data["phase_end"][-2]))
        )
        panel.plot(
            gap["time"],
            gap,
            color=COLORS[look],
            linestyle=DASHES[look % 4],
            label=f"$Q_{{kk}}(0) = {length:g}$",
        )
    panel.axhline(1e-4, color=FAINT, linestyle=DASHES[2], label="claimed: below")
    panel.set(yscale="log", ylabel="gap to the\nfixed point", xlabel=TIME)
    outside_legend(panel)


def _moments(data: "Dataset") -> "list[Dataset]":
    """One time in each phase: at first, on the plateau, in the middle of the transition, and at the end."""
    half = float(data["time"].values[np.argmax(data["split"].values > 0.5)])
    return [
        data.sel(time=t, method="nearest")
        for t in (0.0, float(data["rest"]), half, float(data["time"][-1]))
    ]


def _draw_maps(panel: Any, part: "Dataset") -> None:
    """R and Q side by side, numbers in the cells."""
    blank = np.full((UNITS, 1), np.nan)
    values = np.hstack([part["R"].values, blank, part["Q"].values])
    panel.imshow(values, cmap="PuOr_r", vmin=-1.7, vmax=1.7, aspect="equal")
    for (i, j), x in np.ndenumerate(values):
        if np.isfinite(x):
            panel.text(
                j, i, f"{x:.2f}", ha="center", va="center", fontsize=7, color=INK
            )
    panel.set_xticks([(UNITS - 1) / 2, UNITS + 1 + (UNITS - 1) / 2], ["$R$", "$Q$"])
    panel.set_yticks(
        range(UNITS), [f"student {k + 1}" for k in range(UNITS)], fontsize=7
    )
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
