"""Any rule by sampling, against its closed form.

The units are erf, ReLU and quadratic, with squared loss. The general machinery averages
a rule over a quasi-random set. Where a closed form exists, the error of that is known,
and so is whether `sampling_error`, its own estimate from eight scramblings, covers it.
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
    MARKERS,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_least, below
from tutelage_papers.drawing import line_of
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
    """Return the error by closed forms (exact) and by sampling of every set.

    estimate: the error bar of the sampling. rtol: tolerance of a step for ReLU units,
    whose update a finite set makes a staircase.
    """
    import xarray as xr

    when = tu.linear_times(end, times)
    start = tu.Start(**START)
    shape = (len(UNITS), len(log2_points), seeds, times)
    exact = np.zeros((len(UNITS), times))
    sampled = np.zeros(shape)
    estimate = np.zeros(shape)
    for row, (name, lr) in enumerate(UNITS.items()):
        network = tu.Network(2, name)
        problem = tu.Problem(network, network, optimizer=tu.SGD(lr=lr), noise=noise)
        tolerance = rtol if name == "relu" else 1e-6
        exact[row] = tu.solve(problem, start, when).error
        for column, log2 in enumerate(log2_points):
            for seed in range(seeds):
                sampling = tu.Sampled(2**log2, seed)
                theory = tu.solve(
                    problem, start, when, moments=sampling, rtol=tolerance
                )
                sampled[row, column, seed] = theory.error
                estimate[row, column, seed] = theory.sampling_error
    dims = ("unit", "log2_points", "seed", "time")
    coordinates = {"unit": list(UNITS), "log2_points": log2_points, "time": when}
    data = xr.Dataset(coords=coordinates)
    data["exact"] = (("unit", "time"), exact)
    data["sampled"] = (dims, sampled)
    data["estimate"] = (dims, estimate)
    return data


def _worst(data: "Dataset", error: Any) -> Any:
    """The largest relative error along the curve, root mean square over the sets.

    Its dimensions are (unit, log2_points).
    """
    return np.sqrt(((error / data["exact"]).max("time") ** 2).mean("seed"))


def _gap(data: "Dataset") -> Any:
    return abs(data["sampled"] - data["exact"])


def claims_9(data: "Dataset") -> Iterator[Claim]:
    """The error falls with the number of points, and its estimate covers it."""
    worst = _worst(data, _gap(data))
    first = int(data["log2_points"][0])
    last = int(data["log2_points"][-1])
    for unit in data["unit"].values:
        part = worst.sel(unit=unit)
        yield below(
            f"{NAMES[str(unit)]}: relative error of the curve with 2^{last} points, "
            f"and with 2^{first}",
            part.sel(log2_points=last),
            part.sel(log2_points=first),
        )
    covered = _gap(data) <= data["estimate"]
    sizes = covered.sizes
    sets = sizes["unit"] * sizes["log2_points"] * sizes["seed"]
    yield at_least(
        f"share of {sets} sets and {sizes['time']} times at which the estimate covers "
        "the error",
        covered.mean(),
        0.95,
    )


def draw_9(data: "Dataset") -> "Figure":
    """Curves of the smallest set; error against points; error over its estimate."""
    small = (
        "Left: lines: closed forms; marks: smallest set. Middle: filled: error at the "
        "worst time; open: its estimate. Right: one mark for each set."
    )
    title = "Any rule by sampling, against its closed form"
    figure, axes = panel_grid(1, 3, title, small, height=3.0, width=10.5)
    curves, errors, ratios = axes[0]
    _draw_curves(curves, data)
    _draw_errors(errors, data)
    _draw_ratios(ratios, data)
    label_panel(curves, "curves")
    label_panel(errors, "error against points")
    label_panel(ratios, "is it covered?")
    outside_legend(ratios)
    return figure


def _open_marks(look: int) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": MARKERS[look],
        "markersize": 4.0,
        "markerfacecolor": "white",
        "color": COLORS[look],
    }


def _draw_curves(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    for look, unit in enumerate(data["unit"].values):
        part = data.sel(unit=unit)
        smallest = part["sampled"].isel(log2_points=0, seed=0)
        panel.plot(times, part["exact"], **line_of(look))
        panel.plot(times, smallest, **_open_marks(look))
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")


# A power law with exponent -1/2: drawn in the middle, named in the legend on the right.
SLOPE = {"color": INK, "linewidth": 0.9, "linestyle": DASHES[2]}


def _draw_errors(panel: Any, data: "Dataset") -> None:
    """The error at the worst time and its estimate, against the number of points."""
    points = 2.0 ** data["log2_points"].values
    gap = _worst(data, _gap(data))
    estimate = _worst(data, data["estimate"])
    for look, unit in enumerate(data["unit"].values):
        line = line_of(look) | {"marker": MARKERS[look], "markersize": 4.0}
        panel.plot(points, gap.sel(unit=unit), **line)
        panel.plot(points, estimate.sel(unit=unit), **_open_marks(look))
    guide = float(gap.max()) * (points / points[0]) ** -0.5
    panel.plot(points, guide, **SLOPE)
    panel.set(
        xlabel="points",
        ylabel="relative error of the curve",
        xscale="log",
        yscale="log",
    )


def _draw_ratios(panel: Any, data: "Dataset") -> None:
    """Error over its estimate, largest along the curve, for each set."""
    points = 2.0 ** data["log2_points"].values
    ratio = (_gap(data) / data["estimate"]).max("time")
    for look, unit in enumerate(data["unit"].values):
        ratios = ratio.sel(unit=unit).values
        shifted = np.repeat(points * 1.12 ** (look - 1), ratios.shape[1])
        label = NAMES[str(unit)]
        panel.plot(shifted, ratios.ravel(), **_open_marks(look), label=label)
    level = SLOPE | {"linestyle": DASHES[1]}
    panel.plot([], [], **SLOPE, label="exponent -1/2")
    panel.axhline(1.0, **level, label="covered below")
    panel.set(
        xlabel="points",
        ylabel="error / estimate",
        xscale="log",
        xlim=(points[0] / 2, points[-1] * 2),
    )


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
