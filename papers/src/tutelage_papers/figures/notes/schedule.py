"""The best learning-rate schedule of the notes, against constant and greedy rates.

It is found by differentiating through the solve. The notes say that optimal schedules
follow from the theory and print none; the expectations are ours.
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
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_least, at_most
from tutelage_papers.drawing import legend_below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# Tolerance where derivatives are compared: differences divide the error of a solve by
# their step.
FINE = 1e-10
# By label noise: the final error of the best constant rate over that of the design is
# at least this.
GAINS = {0.0: 1.5, 0.1: 4.0}


def compute_5(
    lr: float,
    noises: list[float],
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
    pieces: int,
    iterations: int,
    rates: list[float],
    shown: list[float],
    step: float,
) -> "Dataset":
    """Return schedules and curves for each label noise.

    They are those of the designed, the greedy, the best constant and the `shown` rates.
    final_constant: the error in which each of `rates`, held constant, ends. slope,
    slope_differences: derivative of the logarithm of the final error with respect to
    that of the rate at each knot, where all are the best constant rate, by
    differentiating through the solve and by central differences of the given step.
    """
    import xarray as xr

    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf")
    start = tu.Start(R=R, Q=Q)
    cases: list[Dataset] = []
    for noise in noises:
        problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)
        cases.append(
            _one_noise(problem, start, end, pieces, iterations, rates, shown, step)
        )
    return xr.concat(cases, dim=xr.DataArray(noises, dims="noise", name="noise"))


def _one_noise(
    problem: "tu.Problem",
    start: "tu.Start",
    end: float,
    pieces: int,
    iterations: int,
    rates: list[float],
    shown: list[float],
    step: float,
) -> "Dataset":
    """The part of the Dataset for one level of label noise."""
    import xarray as xr

    # The knots are dense at both ends, where the best rate changes most.
    knots = end * (1 - np.cos(np.pi * np.arange(pieces + 1) / pieces)) / 2
    greedy = tu.schedules.greedy(problem, start, end)
    design = tu.schedules.optimize(
        problem,
        start,
        end,
        {"lr": (0.0, 5.0)},
        segments=knots,
        shape="smooth",
        iterations=iterations,
        baselines={"greedy": {"lr": greedy}},
    )
    times = design.trajectory.times
    constant = design.best_constant
    rate = float(constant.controls["lr"])
    greedy_error = design.baselines["greedy"].trajectory.error
    log_greedy = np.interp(
        times, np.asarray(greedy.times), np.log(np.asarray(greedy.values))
    )
    coordinates = {"time": times, "knot": knots, "rate": rates, "shown_rate": shown}
    data = xr.Dataset(coords=coordinates)
    data["designed_rate"] = ("knot", np.asarray(design.schedule.values))
    data["greedy_rate"] = ("time", np.exp(log_greedy))
    data["constant_rate"] = rate
    data["designed"] = ("time", np.asarray(design.trajectory.error))
    data["greedy"] = ("time", np.asarray(greedy_error))
    data["constant"] = ("time", np.asarray(constant.trajectory.error))

    curves = {}
    for value in {*rates, *shown}:
        held = np.full(knots.size, value)
        curves[value] = _error(problem, start, knots, held, times)
    data["shown"] = (("shown_rate", "time"), [curves[value] for value in shown])
    data["final_constant"] = ("rate", [curves[value][-1] for value in rates])

    at_best = np.full(knots.size, np.log(rate))
    differences = _differences(problem, start, knots, at_best, times, step)
    data["slope"] = ("knot", _slope(problem, start, knots, at_best, end))
    data["slope_differences"] = ("knot", differences)
    return data


def _error(
    problem: "tu.Problem",
    start: "tu.Start",
    knots: Any,
    values: Any,
    times: Any,
    rtol: float | None = None,
) -> Any:
    """e_g of the theory under the rates at the knots."""
    scheduled = problem.replace(lr=tu.schedules.Interpolated(knots, values))
    return tu.solve(scheduled, start, times, gradient="forward", rtol=rtol).error


def _slope(
    problem: "tu.Problem",
    start: "tu.Start",
    knots: np.ndarray,
    logs: np.ndarray,
    end: float,
) -> np.ndarray:
    """d ln e_g(end) / d ln eta at the knots, by differentiating through the solve."""
    import jax
    import jax.numpy as jnp

    times = np.array([end])

    def final(log_rates: Any) -> Any:
        error = _error(problem, start, knots, jnp.exp(log_rates), times, FINE)
        return jnp.log(error[-1])

    def along(direction: Any) -> Any:
        return jax.jvp(final, (jnp.asarray(logs),), (direction,))

    _, slopes = jax.vmap(along, out_axes=(None, 0))(jnp.eye(knots.size))
    return np.asarray(slopes)


def _differences(
    problem: "tu.Problem",
    start: "tu.Start",
    knots: np.ndarray,
    logs: np.ndarray,
    times: Any,
    step: float,
) -> np.ndarray:
    """That derivative by central differences of fourth order.

    f' = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h.
    """

    def final(shift: np.ndarray) -> float:
        error = _error(problem, start, knots, np.exp(logs + shift), times, FINE)
        return float(np.log(error[-1]))

    slopes = []
    for h in step * np.eye(knots.size):
        near = final(h) - final(-h)
        far = final(2 * h) - final(-2 * h)
        slopes.append((8 * near - far) / (12 * step))
    return np.array(slopes)


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """The designed schedule beats the best constant and the greedy rate.

    The gradient of the design is right.
    """
    for noise in data["noise"].values:
        part = data.sel(noise=noise)
        name = f"sigma = {noise:g}"
        designed = float(part["designed"][-1])
        greedy = float(part["greedy"][-1])
        constant = float(part["constant"][-1])
        yield at_least(
            f"{name}: final error of the best constant rate over that of the design",
            constant / designed,
            GAINS[noise],
        )
        yield above(
            f"{name}: final error of the greedy rate over that of the design",
            greedy / designed,
            1.0,
        )
        yield at_least(
            f"{name}: final error of {part['rate'].size} other constant rates "
            "over that of the best, smallest",
            float(part["final_constant"].min()) / constant,
            1.0,
        )
        differences = part["slope_differences"].values
        largest = np.max(np.abs(part["slope"].values - differences))
        yield at_most(
            f"{name}: gradient through the solve against finite differences, "
            "relative gap",
            largest / np.max(np.abs(differences)),
            1e-5,
        )


def draw_5(data: "Dataset") -> "Figure":
    """A row for each noise: schedules, learning curves, constant rates."""
    title = "Which learning-rate schedule ends with the smallest error?"
    small = (
        "Two erf units learn from two others; final time "
        f"{float(data['time'][-1]):g}. Dots: knots of the designed schedule."
    )
    figure, axes = panel_grid(
        data["noise"].size, 3, title, small, height=2.9, sharex="col"
    )
    for row, noise in zip(axes, data["noise"].values, strict=True):
        part = data.sel(noise=noise)
        _draw_rates(row[0], part)
        _draw_curves(row[1], part)
        _draw_constants(row[2], part)
        label_panel(row[0], rf"learning rates, label noise $\sigma$ = {noise:g}")
        label_panel(row[1], "learning curves")
        label_panel(row[2], "held constant")
    axes[-1, 0].set_xlabel(TIME)
    axes[-1, 1].set_xlabel(TIME)
    axes[-1, 2].set_xlabel(r"constant rate $\eta$")
    for panel in axes[-1]:
        legend_below(panel, columnspacing=0.8)
    figure.align_ylabels(axes[:, 0])
    return figure


LOOKS: dict[str, dict[str, Any]] = {
    "designed": {"color": COLORS[0], "linewidth": 2.0, "zorder": 3},
    "greedy": {"color": COLORS[1], "linewidth": 1.6, "linestyle": DASHES[1]},
    "best constant": {"color": COLORS[2], "linewidth": 1.6, "linestyle": DASHES[3]},
}


def _draw_rates(panel: Any, part: "Dataset") -> None:
    times = part["time"].values
    knots = part["knot"].values
    values = part["designed_rate"].values
    designed = np.interp(times, knots, values)
    dots = {"linestyle": "none", "marker": MARKERS[0], "markersize": 3.6}
    panel.plot(times, designed, label="designed", **LOOKS["designed"])
    panel.plot(knots, values, **dots, color=COLORS[0], zorder=3)
    panel.plot(times, part["greedy_rate"], label="greedy", **LOOKS["greedy"])
    constant = float(part["constant_rate"])
    panel.axhline(constant, label="best constant", **LOOKS["best constant"])
    panel.set(ylabel=r"learning rate $\eta$", yscale="log")


def _draw_curves(panel: Any, part: "Dataset") -> None:
    times = part["time"].values
    for place, rate in enumerate(part["shown_rate"].values):
        curve = part["shown"].sel(shown_rate=rate)
        look = {"color": FAINT, "linestyle": DASHES[place % len(DASHES)]}
        panel.plot(times, curve, **look, linewidth=1.0, label=rf"$\eta$ = {rate:g}")
    for name, look in LOOKS.items():
        panel.plot(times, part[name.split()[-1]], label=name, **look)
    panel.set(ylabel=ERROR, yscale="log")


def _draw_constants(panel: Any, part: "Dataset") -> None:
    """Final errors of constant rates, with the best of them as a star."""
    marks = {"marker": MARKERS[1], "markersize": 4.0, "markerfacecolor": "white"}
    line = {"color": FAINT, "linewidth": 1.0, "label": "constant rates"}
    panel.plot(part["rate"], part["final_constant"], **line, **marks)
    star = {"marker": "*", "markersize": 10, "linestyle": "none", "label": "best"}
    panel.plot(part["constant_rate"], part["constant"][-1], **star, color=COLORS[2])
    for name in ("designed", "greedy"):
        panel.axhline(float(part[name][-1]), label=name, **LOOKS[name])
    panel.set(ylabel=r"final error $\epsilon_g$", xscale="log", yscale="log")


PRINTED_5: dict[str, Any] = {
    "lr": 0.5,
    "noises": [0.0, 0.1],
    "R": [[0.45, 0.1], [-0.05, 0.35]],
    "Q": [[0.5, 0.1], [0.1, 0.4]],
    "end": 100.0,
    "shown": [0.2, 0.5, 1.0, 2.0],
    "step": 0.005,
}

FIGURES = (
    Replica(
        id="notes-5",
        source="notes",
        figure="learning-rate schedules",
        title="the best learning-rate schedule against constant and greedy rates",
        full=PRINTED_5
        | {
            "pieces": 15,
            "iterations": 100,
            "rates": [round(0.05 * 1.2**i, 4) for i in range(22)],
        },
        quick=PRINTED_5
        | {
            "pieces": 6,
            "iterations": 30,
            "rates": [round(0.1 * 1.4**i, 4) for i in range(10)],
        },
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
)
