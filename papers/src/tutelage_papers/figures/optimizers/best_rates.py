"""The time that each optimizer needs to learn through a plateau, by its learning rate.

A committee of two begins almost symmetric. The time is the first one after which the
error stays below 1e-3. At a constant rate the steps of sign-SGD, RMSprop, Adam and Muon
do not shrink with the error: they have a noise floor, so large rates never arrive.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    ERROR,
    MARKERS,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_least, below, close
from tutelage_papers.drawing import GUIDE, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

R = [[1e-3, 0.0], [0.0, 1e-3]]
Q = [[0.2, 0.0], [0.0, 0.3]]
TARGET = 1e-3
BASIN = 2.0  # times the least time, within which a rate is good
# The least time of plain SGD and its rate, by an independent program.
SGD_TIME = 115.6
SGD_RATE = 1.5
GOAL = 0.03  # relative


def optimizers() -> dict[str, "tu.optimizers.Optimizer"]:
    """Return the optimizers by name, at a rate that is replaced."""
    return {
        "SGD": tu.SGD(1.0),
        "RMSprop": tu.optimizers.RMSprop(1.0),
        "Adam": tu.optimizers.Adam(1.0),
        "AdaGrad": tu.optimizers.AdaGrad(1.0),
        "sign-SGD, batch 4": tu.optimizers.SignSGD(1.0, 4),
        "Muon, batch 4": tu.optimizers.Muon(1.0, 4),
    }


def compute_2(
    rates: dict[str, list[float]], ends: dict[str, float], points: int
) -> "Dataset":
    """Return the time to the target of each optimizer at each of its rates.

    ends: the last time of each; infinite times are later. points: of averages over
    batches. error: the curve at the best rate.
    """
    import xarray as xr

    network = tu.Network(2, "erf")
    start = tu.Start(R=R, Q=Q)
    parts: list[Dataset] = []
    for name, own_rates in rates.items():
        problem = tu.Problem(network, network, optimizer=optimizers()[name])
        times = np.linspace(0.0, ends[name], 801)
        errors = _errors(problem, start, own_rates, times, points)
        reached = np.array([time_to_target(times, error) for error in errors])
        best = int(np.argmin(reached))
        part = xr.Dataset(
            {
                "lr": ("place", np.array(own_rates)),
                "reached": ("place", reached),
                "time": ("moment", times),
                "error": ("moment", errors[best]),
            }
        )
        # the lists of rates differ in length: the rest is NaN
        part = part.assign_coords(place=np.arange(part.sizes["place"]))
        part["best_rate"] = own_rates[best]
        part["best_time"] = reached[best]
        part["basin"] = width_of_basin(np.array(own_rates), reached)
        parts.append(part)
    names = xr.DataArray(list(rates), dims="optimizer", name="optimizer")
    return xr.concat(parts, dim=names, join="outer")


def _errors(
    problem: "tu.Problem",
    start: "tu.Start",
    rates: list[float],
    times: np.ndarray,
    points: int,
) -> list[np.ndarray]:
    """Return the learning curve at each rate."""
    if not problem.optimizer.averages_batches:
        curves = tu.solve_batch(problem, {"lr": rates}, start, times)
        return list(np.asarray(curves.error))
    sampled = tu.Sampled(points)
    return [
        np.asarray(
            tu.solve(problem.replace(lr=lr), start, times, moments=sampled).error
        )
        for lr in rates
    ]


def time_to_target(times: np.ndarray, error: np.ndarray) -> float:
    """Return the time from which on the error is below the target, else infinity."""
    above_target = np.flatnonzero(~(error < TARGET))
    if above_target.size == 0:
        return float(times[0])
    last = int(above_target[-1])
    if last == times.size - 1:
        return float("inf")
    height = np.log(error[last : last + 2] / TARGET)
    share = height[0] / (height[0] - height[1])
    return float(times[last] + share * (times[last + 1] - times[last]))


def width_of_basin(rates: np.ndarray, reached: np.ndarray) -> float:
    """Return the largest over the smallest rate that needs at most twice the least time.

    Between rates the logarithm of the time is interpolated; a rate that never arrives
    ends the basin.
    """
    level = np.log(BASIN * reached.min())
    best = int(np.argmin(reached))
    heights = np.log(reached)

    def edge(step: int) -> float:
        place = best
        while 0 <= place + step < rates.size and heights[place + step] <= level:
            place += step
        beyond = place + step
        if not 0 <= beyond < rates.size or not np.isfinite(heights[beyond]):
            return float(np.log(rates[place]))
        share = (level - heights[place]) / (heights[beyond] - heights[place])
        return float((1 - share) * np.log(rates[place]) + share * np.log(rates[beyond]))

    return float(np.exp(edge(1) - edge(-1)))


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """The time of plain SGD, and who is slower at a constant rate."""
    plain = data.sel(optimizer="SGD")
    yield close("SGD: least time", plain["best_time"], SGD_TIME, rel=GOAL)
    at_rate = np.nanargmin(np.abs(plain["lr"].values - SGD_RATE))
    words = f"SGD: time at rate {SGD_RATE:g} over the least time"
    yield below(words, plain["reached"][at_rate] / plain["best_time"], 1 + GOAL)
    for name in data["optimizer"].values:
        part = data.sel(optimizer=name)
        known = np.isfinite(part["lr"].values)
        best = int(np.nanargmin(part["reached"].values))
        is_inner = 0 < best < known.sum() - 1
        yield at_least(f"{name}: the best rate is not at an end", float(is_inner), 1.0)
    for name in ("RMSprop", "Adam", "AdaGrad"):
        words = f"{name}: least time over that of SGD"
        ratio = data["best_time"].sel(optimizer=name) / plain["best_time"]
        yield above(words, ratio, 1.0)
        words = f"{name}: basin of good rates over that of SGD"
        ratio = data["basin"].sel(optimizer=name) / plain["basin"]
        if name == "AdaGrad":
            yield above(words, ratio, 1.0)
        else:
            yield below(words, ratio, 1.0)
    adaptive = data.sel(optimizer="RMSprop")
    known = np.isfinite(adaptive["lr"].values)
    never = np.isinf(adaptive["reached"].values[known][-1])
    words = "RMSprop: the largest rate never arrives (noise floor)"
    yield at_least(words, float(never), 1.0)


def draw_2(data: "Dataset") -> "Figure":
    """Draw the time against the rate, and the curve of each at its best rate."""
    small = (
        f"Two erf units, almost symmetric start. Left: time after which e_g < {TARGET:g}; "
        "a curve ends where a larger rate never arrives. Right: best rates. Theory."
    )
    title = "From a plateau to a small error: the learning rate of each optimizer"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=9.8)
    left, right = axes[0]
    for look, name in enumerate(data["optimizer"].values):
        part = data.sel(optimizer=name)
        rates = part["lr"].values
        reached = part["reached"].values
        known = np.isfinite(rates) & np.isfinite(reached)
        left.plot(
            rates[known],
            reached[known],
            color=COLORS[look],
            marker=MARKERS[look],
            markersize=3.5,
        )
        words = f"{name}: η = {float(part['best_rate']):.3g}"
        right.plot(part["time"], part["error"], **line_of(look), label=words)
    right.axhline(TARGET, **GUIDE)
    longest = 1.5 * float(np.max(data["best_time"]))
    left.set(xlabel="η", ylabel="time to the target", xscale="log", yscale="log")
    right.set(xlabel=TIME, ylabel=ERROR, yscale="log", xlim=(0.0, longest))
    right.set_ylim(bottom=1e-6)
    label_panel(left, "every rate")
    label_panel(right, "best rates")
    outside_legend(right)
    return figure


def _rates(low: float, high: float, count: int) -> list[float]:
    return [float(rate) for rate in np.geomspace(low, high, count).round(4)]


PLAIN = [0.4, 0.6, 0.9, 1.2, 1.4, 1.5, 1.6, 1.8, 2.2]
QUICK: dict[str, Any] = {
    "rates": {
        "SGD": PLAIN,
        "RMSprop": _rates(0.02, 0.09, 9),
        "Adam": _rates(0.02, 0.09, 9),
        "AdaGrad": _rates(0.6, 7.2, 9),
    },
    "ends": {"SGD": 500.0, "RMSprop": 800.0, "Adam": 800.0, "AdaGrad": 500.0},
    "points": 2**10,
}
FULL: dict[str, Any] = {
    "rates": QUICK["rates"]
    | {
        "sign-SGD, batch 4": _rates(0.01, 0.32, 11),
        "Muon, batch 4": _rates(0.01, 0.32, 11),
    },
    "ends": QUICK["ends"] | {"sign-SGD, batch 4": 300.0, "Muon, batch 4": 300.0},
    "points": 2**12,
}

FIGURES = (
    Replica(
        id="optim-2",
        source="optim",
        figure="best rates",
        title="time through a plateau against the learning rate of each optimizer",
        full=FULL,
        quick=QUICK,
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
