"""A teacher that drifts: the error of a unit that follows it, and the best rate."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import draw_band, draw_power, legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# By drift: the best rate of a linear unit at label noise 0.3.
LINEAR = {1e-4: 0.0459, 1e-3: 0.1374, 1e-2: 0.3644}
# By drift: the best rate of an erf unit at label noise 0.1, and its error.
ERF = {
    0.001: (0.611, 0.001627),
    0.003: (0.925, 0.003211),
    0.01: (1.311, 0.007442),
    0.03: (1.562, 0.017895),
    0.1: (1.472, 0.050010),
}
# Rate and drift of the runs.
RATE = 0.3
DRIFT = 0.03


def drifting(activation: str, noise: float, drift: float, lr: float) -> "tu.Problem":
    """One unit learns from one that drifts."""
    unit = tu.Network(1, activation)
    tasks = tu.Tasks([unit], drift=tu.Drift(drift))
    return tu.Problem(unit, tasks, noise=noise, optimizer=tu.SGD(lr))


def linear_floor(lr: Any, drift: Any, noise: float) -> Any:
    """The stationary error of a linear unit."""
    return (lr * noise**2 + 2 * drift / (lr + drift)) / (2 * (2 - lr))


def floors(
    activation: str, noise: float, drifts: Any, rates: Any, end: float
) -> np.ndarray:
    """Return the error after a long time, (drift, rate), by one batch of solves."""
    start = tu.Start([[0.1]], [[0.5]])
    drift_grid, rate_grid = np.meshgrid(drifts, rates, indexing="ij")
    problem = drifting(activation, noise, float(drifts[0]), float(rates[0]))
    columns = {"drift.rate": drift_grid.ravel(), "lr": rate_grid.ravel()}
    late = tu.solve_batch(problem, columns, start, [0.0, end])
    return np.asarray(late.error)[:, -1, 0].reshape(drift_grid.shape)


def best(rates: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """Return the rate of the smallest error, and that error.

    Both are those of the parabola through three points in the logarithm of the rate.
    """
    lowest = int(np.clip(np.argmin(error), 1, rates.size - 2))
    around = slice(lowest - 1, lowest + 2)
    a, b, c = np.polyfit(np.log(rates[around] / rates[lowest]), error[around], 2)
    return float(rates[lowest] * np.exp(-b / (2 * a))), float(c - b**2 / (4 * a))


def compute_4(
    noise: float,
    erf_noise: float,
    count: int,
    end: float,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return stationary errors over grids of rates, their minima, and runs.

    The runs are those of the linear unit.
    """
    from tutelage_papers.bands import against_runs

    slow = np.geomspace(0.02, 1.2, count)
    fast = np.geomspace(0.3, 2.4, count)
    linear = floors("linear", noise, list(LINEAR), slow, end)
    quiet = floors("linear", 0.0, list(LINEAR), slow, end)
    erf = floors("erf", erf_noise, list(ERF), fast, end)
    data = against_runs(
        drifting("linear", noise, DRIFT, RATE),
        tu.Start([[0.1]], [[0.5]]),
        dim=dim,
        times=tu.linear_times(runs_end, 31),
        runs=runs,
        seed=seed,
    )
    data["drift"] = list(LINEAR)
    data["erf_drift"] = list(ERF)
    data["slow"] = slow
    data["fast"] = fast
    data["linear"] = (("drift", "slow"), linear)
    data["linear_quiet"] = (("drift", "slow"), quiet)
    data["erf"] = (("erf_drift", "fast"), erf)
    of_best = ("drift", "of_best")
    data["linear_best"] = (of_best, np.array([best(slow, row) for row in linear]))
    data["quiet_best"] = (of_best, np.array([best(slow, row) for row in quiet]))
    erf_best = np.array([best(fast, row) for row in erf])
    data["erf_best"] = (("erf_drift", "of_best"), erf_best)
    return data.assign(noise=noise, dim=dim, runs=runs)


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """The exact floor, the best rates by the drift, and the runs."""
    from tutelage_papers.bands import inside_claims

    yield from _linear_claims(data)
    for drift, (rate, error) in ERF.items():
        found_rate, found_error = data["erf_best"].sel(erf_drift=drift).values
        yield close(f"erf: best rate at drift {drift:g}", found_rate, rate, rel=0.01)
        yield close(
            f"erf: smallest error at drift {drift:g}", found_error, error, rel=0.01
        )
    settled = data["time"] >= 0.5 * float(data["time"][-1])
    yield close(
        "linear, runs: stationary error",
        data["error_mean"].isel(task=0).where(settled).mean(),
        linear_floor(RATE, DRIFT, float(data["noise"])),
        rel=0.03,
    )
    yield from inside_claims(data, f"linear, drift 0.03, N = {int(data['dim'])}")


def _linear_claims(data: "Dataset") -> Iterator[Claim]:
    """Floors and best rates of a linear unit, with label noise and without."""
    noise = float(data["noise"])
    drifts = data["drift"].values
    exact = linear_floor(data["slow"].values, drifts[:, None], noise)
    yield at_most(
        "linear: largest relative gap to the exact floor",
        np.max(np.abs(data["linear"] / exact - 1)),
        1e-4,
    )
    rates = data["linear_best"].values[:, 0]
    for drift, rate in zip(LINEAR, rates, strict=True):
        yield close(
            f"linear: best rate at drift {drift:g}", rate, LINEAR[drift], rel=0.01
        )
    yield close(
        "linear: best rate at the smallest drift, over sqrt(2 omega) / sigma",
        rates[0] / (np.sqrt(2 * drifts[0]) / noise),
        1.0,
        absolute=0.05,
    )
    quiet_rates = data["quiet_best"].values[:, 0]
    quiet_errors = data["quiet_best"].values[:, 1]
    yield close(
        "linear, no label noise: best rate at the smallest drift",
        quiet_rates[0],
        1.0,
        absolute=0.02,
    )
    decades = np.log(drifts[-1] / drifts[0])
    yield close(
        "linear, no label noise: exponent of the smallest error",
        np.log(quiet_errors[-1] / quiet_errors[0]) / decades,
        1.0,
        absolute=0.01,
    )


def draw_4(data: "Dataset") -> "Figure":
    """Runs of the linear unit, floors by the rate, best rates by the drift."""
    noise = float(data["noise"])
    small = (
        f"One unit. Left: rate 0.3, drift 0.03, label noise {noise:g}; marks: mean of "
        f"{int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors."
        " Middle: linear unit, dots: best."
    )
    title = "A teacher that drifts"
    figure, axes = panel_grid(1, 3, title, small, height=3.0, width=10.5)
    runs, errors, rates = axes[0]
    _draw_runs(runs, data)
    _draw_floors(errors, data)
    _draw_best_rates(rates, data)
    label_panel(runs, "networks")
    label_panel(errors, "error against the rate")
    label_panel(rates, "best rate")
    for panel in axes[0]:
        legend_below(panel)
    return figure


def _draw_runs(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    part = data.isel(task=0)
    mean = part["error_mean"]
    draw_band(panel, times, part["error"], mean, part["error_se"], label="theory")
    floor = linear_floor(RATE, DRIFT, float(data["noise"]))
    line = line_of(1, dashes=2) | {"linewidth": 1.2}
    panel.axhline(floor, **line, label="exact floor")
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")


def _draw_floors(panel: Any, data: "Dataset") -> None:
    """Stationary errors of a linear unit, with the best rate of each drift."""
    for look, drift in enumerate(data["drift"].values):
        line = line_of(look)
        error = data["linear"].sel(drift=drift)
        panel.plot(data["slow"], error, **line, label=rf"$\omega={drift:g}$")
        rate, lowest = data["linear_best"].isel(drift=look).values
        panel.plot(rate, lowest, "o", color=line["color"], markersize=4.5)
    panel.set(
        xlabel=r"learning rate $\eta$",
        ylabel="stationary error",
        xscale="log",
        yscale="log",
    )


def _draw_best_rates(panel: Any, data: "Dataset") -> None:
    drifts = data["drift"].values
    curves = [
        ("o-", drifts, data["linear_best"], "linear"),
        ("s--", drifts, data["quiet_best"], "linear, no label noise"),
        ("^-.", data["erf_drift"], data["erf_best"], "erf"),
    ]
    for look, (line, x, best_of, label) in enumerate(curves):
        rate = best_of.isel(of_best=0)
        panel.plot(x, rate, line, color=COLORS[look], markersize=4, label=label)
    first = np.sqrt(2 * drifts[0]) / float(data["noise"])
    draw_power(panel, drifts, first, 0.5, r"$\sqrt{2\omega}/\sigma$")
    panel.set(
        xlabel=r"drift $\omega$",
        ylabel="best learning rate",
        xscale="log",
        yscale="log",
    )


PRINTED: dict[str, Any] = {
    "noise": 0.3,
    "erf_noise": 0.1,
    "end": 2000.0,
    "runs_end": 30.0,
    "seed": 74,
}

FIGURES = (
    Replica(
        id="tasks-4",
        source="tasks",
        figure="drift",
        title="A drifting teacher: the rate that follows it best",
        full=PRINTED | {"count": 120, "dim": 400, "runs": 200},
        quick=PRINTED | {"count": 40, "dim": 400, "runs": 60},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
