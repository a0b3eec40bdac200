"""Any rule by sampling, against its closed form: erf, ReLU and quadratic units with squared loss.

The general machinery averages a rule over a quasi-random set. Where a closed form exists, the error of that is known, and so
is whether `sampling_error`, its own estimate from eight scramblings, covers it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    MARKERS,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_least, below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

UNITS = {"erf": 0.3, "relu": 0.3, "quadratic": 0.05}  # and their rates
NAMES = {"erf": "erf", "relu": "ReLU", "quadratic": "quadratic"}
START: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}


def compute_9(
    log2_points: list[int],
    seeds: int,
    rtol: float,
    noise: float,
    end: float,
    times: int,
) -> "Dataset":
    """exact: e_g by closed forms; sampled and estimate: e_g by sampling and its own error bar, for every set.

    rtol: tolerance of a step for ReLU units, whose update a finite set makes a staircase.
    """
    import xarray as xr

    when = tu.linear_times(end, times)
    start = tu.Start(**START)
    shape = (len(UNITS), len(log2_points), seeds, times)
    exact = np.zeros((len(UNITS), times))
    sampled = np.zeros(shape)
    estimate = np.zeros(shape)
    for i, (name, lr) in enumerate(UNITS.items()):
        network = tu.Network(2, name)
        problem = tu.Problem(network, network, optimizer=tu.SGD(lr=lr), noise=noise)
        exact[i] = tu.solve(problem, start, when).error
        for j, log2 in enumerate(log2_points):
            for seed in range(seeds):
                sampling = tu.Sampled(2**log2, seed)
                theory = tu.solve(
                    problem,
                    start,
                    when,
                    moments=sampling,
                    rtol=rtol if name == "relu" else 1e-6,
                )
                sampled[i, j, seed], estimate[i, j, seed] = (
                    theory.error,
                    theory.sampling_error,
                )
    dims = ("unit", "log2_points", "seed", "time")
    return xr.Dataset(
        {
            "exact": (("unit", "time"), exact),
            "sampled": (dims, sampled),
            "estimate": (dims, estimate),
        },
        coords={"unit": list(UNITS), "log2_points": log2_points, "time": when},
    )


def _worst(data: "Dataset", what: str) -> Any:
    """The largest relative gap or estimate along the curve, root mean square over the sets: (unit, log2_points)."""
    gap = abs(data["sampled"] - data["exact"]) if what == "gap" else data["estimate"]
    return np.sqrt(((gap / data["exact"]).max("time") ** 2).mean("seed"))


def claims_9(data: "Dataset") -> list[Claim]:
    """The error falls with the number of points, and its estimate covers it."""
    gap = _worst(data, "gap")
    first = int(data["log2_points"][0])
    last = int(data["log2_points"][-1])
    covered = abs(data["sampled"] - data["exact"]) <= data["estimate"]
    claims = []
    for unit in data["unit"].values:
        ends = (
            gap.sel(unit=unit, log2_points=first),
            gap.sel(unit=unit, log2_points=last),
        )
        name = f"{NAMES[str(unit)]}: relative error of the curve"
        claims.append(
            below(
                f"{name} with 2^{last} points, and with 2^{first}",
                float(ends[1]),
                float(ends[0]),
            )
        )
    sets = covered.sizes["unit"] * covered.sizes["log2_points"] * covered.sizes["seed"]
    name = f"share of {sets} sets and {covered.sizes['time']} times at which the estimate covers the error"
    return [*claims, at_least(name, float(covered.mean()), 0.95)]


def draw_9(data: "Dataset") -> "Figure":
    """Curves of the smallest set; error against points; error over its estimate."""
    small = (
        "Left: lines: closed forms; marks: smallest set. Middle: filled: error at the worst time; open: its estimate. "
        "Right: one mark for each set."
    )
    figure, axes = panel_grid(
        1,
        3,
        "Any rule by sampling, against its closed form",
        small,
        height=3.0,
        width=10.5,
    )
    left, middle, right = axes[0]
    times = data["time"].values
    points = 2.0 ** data["log2_points"].values
    gap = _worst(data, "gap")
    estimate = _worst(data, "estimate")
    ratio = (abs(data["sampled"] - data["exact"]) / data["estimate"]).max("time")
    for look, unit in enumerate(data["unit"].values):
        part = data.sel(unit=unit)
        color = COLORS[look]
        marker = MARKERS[look]
        open_ = {
            "linestyle": "none",
            "marker": marker,
            "markersize": 4.0,
            "markerfacecolor": "white",
            "color": color,
        }
        left.plot(times, part["exact"], color=color, linestyle=DASHES[look])
        left.plot(times, part["sampled"].isel(log2_points=0, seed=0), **open_)
        middle.plot(
            points,
            gap.sel(unit=unit),
            color=color,
            linestyle=DASHES[look],
            marker=marker,
            markersize=4.0,
        )
        middle.plot(points, estimate.sel(unit=unit), **open_)
        each = ratio.sel(unit=unit).values
        shifted = np.repeat(points * 1.12 ** (look - 1), each.shape[1])
        right.plot(shifted, each.ravel(), **open_, label=NAMES[str(unit)])
    middle.plot(
        points,
        float(gap.max()) * (points / points[0]) ** -0.5,
        color=INK,
        linewidth=0.9,
        linestyle=DASHES[2],
    )
    right.plot(
        [], [], color=INK, linewidth=0.9, linestyle=DASHES[2], label="exponent -1/2"
    )
    right.axhline(
        1.0, color=INK, linewidth=0.9, linestyle=DASHES[1], label="covered below"
    )
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    middle.set(
        xlabel="points",
        ylabel="relative error of the curve",
        xscale="log",
        yscale="log",
    )
    right.set(
        xlabel="points",
        ylabel="error / estimate",
        xscale="log",
        xlim=(points[0] / 2, points[-1] * 2),
    )
    for panel, text in zip(
        axes[0], ("curves", "error against points", "is it covered?"), strict=True
    ):
        label_panel(panel, text)
    outside_legend(right)
    return figure


PRINTED: dict[str, Any] = {"noise": 0.1, "times": 11}

FIGURES = (
    Replica(
        id="rules-9",
        source="rules",
        figure="sampled averages",
        title="any rule by sampling, against its closed form: erf, ReLU, quadratic",
        full=PRINTED
        | {"log2_points": [10, 12, 14, 16, 18], "seeds": 4, "rtol": 1e-4, "end": 5.0},
        quick=PRINTED | {"log2_points": [10, 12], "seeds": 1, "rtol": 1e-3, "end": 3.0},
        compute=compute_9,
        draw=draw_9,
        claims=claims_9,
    ),
)
