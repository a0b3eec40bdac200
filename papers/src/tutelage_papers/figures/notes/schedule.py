"""The best learning-rate schedule of the notes: by differentiating through the solve, against constant and greedy rates.

The notes say that optimal schedules follow from the theory and print none; the expectations are ours.
"""

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
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

FINE = 1e-10  # tolerance where derivatives are compared: differences divide the error of a solve by their step
GAINS = {
    0.0: 1.5,
    0.1: 4.0,
}  # by label noise: how far below the best constant rate the designed schedule must end


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
    """For each label noise: schedules and curves of the designed, the greedy, the best constant and the `shown` rates.

    final_constant: the error in which each of `rates`, held constant, ends. slope, slope_differences: derivative of the
    logarithm of the final error with respect to that of the rate at each knot, where all are the best constant rate, by
    differentiating through the solve and by central differences of the given step.
    """
    import xarray as xr

    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=lr)
    )
    start = tu.Start(R=R, Q=Q)
    cases = [
        _one_noise(
            problem.replace(noise=x), start, end, pieces, iterations, rates, shown, step
        )
        for x in noises
    ]
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
    import xarray as xr

    greedy = tu.schedules.greedy(problem, start, end)
    edges = (
        end * (1 - np.cos(np.pi * np.arange(pieces + 1) / pieces)) / 2
    )  # dense at both ends
    design = tu.schedules.optimize(
        problem,
        start,
        end,
        {"lr": (0.0, 5.0)},
        segments=edges,
        shape="smooth",
        iterations=iterations,
        baselines={"greedy": {"lr": greedy}},
    )
    times = design.trajectory.times
    knots = edges
    constant = design.best_constant
    rate = float(constant.controls["lr"])
    curves = {
        x: _error(problem, start, knots, np.full(knots.size, x), times)
        for x in {*rates, *shown}
    }
    at_best = np.full(knots.size, np.log(rate))
    return xr.Dataset(
        {
            "designed_rate": ("knot", np.asarray(design.schedule.values)),
            "greedy_rate": (
                "time",
                np.exp(
                    np.interp(
                        times,
                        np.asarray(greedy.times),
                        np.log(np.asarray(greedy.values)),
                    )
                ),
            ),
            "constant_rate": rate,
            "designed": ("time", np.asarray(design.trajectory.error)),
            "greedy": ("time", np.asarray(design.baselines["greedy"].trajectory.error)),
            "constant": ("time", np.asarray(constant.trajectory.error)),
            "shown": (("shown_rate", "time"), [curves[x] for x in shown]),
            "final_constant": ("rate", [curves[x][-1] for x in rates]),
            "slope": ("knot", _slope(problem, start, knots, at_best, end)),
            "slope_differences": (
                "knot",
                _differences(problem, start, knots, at_best, times, step),
            ),
        },
        coords={"time": times, "knot": knots, "rate": rates, "shown_rate": shown},
    )


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

    def final(at: Any) -> Any:
        return jnp.log(
            _error(problem, start, knots, jnp.exp(at), np.array([end]), FINE)[-1]
        )

    def along(direction: Any) -> Any:
        return jax.jvp(final, (jnp.asarray(logs),), (direction,))

    return np.asarray(jax.vmap(along, out_axes=(None, 0))(jnp.eye(knots.size))[1])


def _differences(
    problem: "tu.Problem",
    start: "tu.Start",
    knots: np.ndarray,
    logs: np.ndarray,
    times: Any,
    step: float,
) -> np.ndarray:
    """The same by central differences of fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h."""

    def final(shift: np.ndarray) -> float:
        return float(
            np.log(_error(problem, start, knots, np.exp(logs + shift), times, FINE)[-1])
        )

    shifts = step * np.eye(knots.size)
    return np.array(
        [
            (8 * (final(h) - final(-h)) - (final(2 * h) - final(-2 * h))) / (12 * step)
            for h in shifts
        ]
    )


def claims_5(data: "Dataset") -> list[Claim]:
    """What the designed schedule gains, over the best constant and the greedy rate; its gradient is right."""
    claims = []
    for noise in data["noise"].values:
        part = data.sel(noise=noise)
        name = f"sigma = {noise:g}"
        designed, greedy, constant = (
            float(part[which][-1]) for which in ("designed", "greedy", "constant")
        )
        slope = part["slope"].values
        differences = part["slope_differences"].values
        gap = np.max(np.abs(slope - differences)) / np.max(np.abs(differences))
        claims += [
            at_least(
                f"{name}: final error of the best constant rate over that of the design",
                constant / designed,
                GAINS[noise],
            ),
            above(
                f"{name}: final error of the greedy rate over that of the design",
                greedy / designed,
                1.0,
            ),
            at_least(
                f"{name}: final error of {part['rate'].size} other constant rates over that of the best, smallest",
                float(part["final_constant"].min()) / constant,
                1.0,
            ),
            at_most(
                f"{name}: gradient through the solve against finite differences, relative gap",
                gap,
                1e-5,
            ),
        ]
    return claims


def draw_5(data: "Dataset") -> "Figure":
    """A row for each noise: schedules, learning curves, and the final error of every constant rate."""
    title = "Which learning-rate schedule ends with the smallest error?"
    small = f"Two erf units learn from two others; final time {float(data['time'][-1]):g}. Dots: knots of the designed schedule."
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
    for panel, across in zip(
        axes[-1], (TIME, TIME, r"constant rate $\eta$"), strict=True
    ):
        panel.set_xlabel(across)
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, columnspacing=0.8
        )
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
    panel.plot(
        times, np.interp(times, knots, values), label="designed", **LOOKS["designed"]
    )
    panel.plot(
        knots,
        values,
        linestyle="none",
        marker=MARKERS[0],
        markersize=3.6,
        color=COLORS[0],
        zorder=3,
    )
    panel.plot(times, part["greedy_rate"], label="greedy", **LOOKS["greedy"])
    panel.axhline(
        float(part["constant_rate"]), label="best constant", **LOOKS["best constant"]
    )
    panel.set(ylabel=r"learning rate $\eta$", yscale="log")


def _draw_curves(panel: Any, part: "Dataset") -> None:
    times = part["time"].values
    for i, rate in enumerate(part["shown_rate"].values):
        curve = part["shown"].sel(shown_rate=rate)
        panel.plot(
            times,
            curve,
            color=FAINT,
            linestyle=DASHES[i % len(DASHES)],
            linewidth=1.0,
            label=rf"$\eta$ = {rate:g}",
        )
    for name, look in LOOKS.items():
        panel.plot(times, part[name.split()[-1]], label=name, **look)
    panel.set(ylabel=ERROR, yscale="log")


def _draw_constants(panel: Any, part: "Dataset") -> None:
    marks = {"marker": MARKERS[1], "markersize": 4.0, "markerfacecolor": "white"}
    panel.plot(
        part["rate"],
        part["final_constant"],
        color=FAINT,
        linewidth=1.0,
        label="constant rates",
        **marks,
    )
    panel.plot(
        part["constant_rate"],
        part["constant"][-1],
        color=COLORS[2],
        marker="*",
        markersize=10,
        linestyle="none",
        label="best",
    )
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
