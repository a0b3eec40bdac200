"""Figures 2 and 13 of the power-law paper: learning curves of a linear network.

The exact solution, its small-rate limit, networks of finite N, and local slopes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import (
    Claim,
    above,
    at_least,
    at_most,
    below,
    between,
    close,
    refuted,
)
from tutelage_papers.drawing import legend_below, line_of
from tutelage_papers.figures.power.linear_units import (
    diagonal_error,
    gaussian,
    linear_sgd,
    problem_of,
    steps_at,
    z_scores,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEN = 10.0  # time at which the curves of the left panel are compared
SHOWN = 5  # runs drawn, as many as in the source; the mean is over all


def network_of(
    levels: int, beta: float, rate: float, scale: float
) -> "tutelage_papers.power_law.LinearNetwork":
    """Return one linear unit on a power law.

    Its start is the mean over teacher weights N(0, 1) and student weights N(0, scale^2).
    """
    problem = problem_of(tu.PowerLaw(beta, levels), rate)
    start = tu.Start(R=[[0.0]], Q=[[scale**2]], T=[[1.0]])
    return tutelage_papers.power_law.linear_network(problem, start)


def step_by_step(
    network: "tutelage_papers.power_law.LinearNetwork", dim: int, time: float
) -> float:
    """Return the exact mean error at finite N by iterating its recursion.

    E_l of every component, one step after another.
    """
    lam = np.asarray(network.problem.inputs.eigenvalues)
    h = float(network.problem.optimizer.lr) / dim
    E = network.levels(0.0)
    for _ in range(round(time * dim)):
        noise = lam * np.sum(lam * E) + 2 * lam**2 * E
        E = E - 2 * h * lam * E + h * h * noise
    return float(np.sum(lam * E) / (2 * dim))


def runs_of(
    levels: int,
    beta: float,
    rate: float,
    scale: float,
    runs: int,
    times: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return errors of runs from random weights, (run, time).

    And the exact mean and the small-rate error for the weights of each.
    """
    rng = np.random.default_rng(seed)
    lam = np.asarray(tu.PowerLaw(beta, levels).eigenvalues)
    W_teacher = rng.standard_normal((runs, levels))
    W = scale * rng.standard_normal((runs, levels))
    errors = linear_sgd(
        (W_teacher - W)[None],
        gaussian(rng, lam, runs),
        rate,
        steps_at(times, levels),
        diagonal_error(lam),
    )
    problem = network_of(levels, beta, rate, scale).problem
    means = []
    small_rates = []
    for student, teacher in zip(W, W_teacher, strict=True):
        start = tu.start_from_weights(problem, student[None], teacher[None])
        network = tutelage_papers.power_law.linear_network(problem, start)
        means.append(network.exact_mean(times, levels))
        small_rates.append(network.small_rate(times))
    return errors[0], np.array(means), np.array(small_rates)


def compute_2(
    left: list[float],
    left_runs: int,
    left_end: float,
    right: list[float],
    runs: int,
    end: float,
    points: int,
    seed: int,
) -> "Dataset":
    """Return curves and runs of both panels.

    left, right: levels, beta, rate, scale of each panel.
    """
    data = _left_panel(left, left_runs, left_end, points, seed)
    return data.merge(_right_panel(right, runs, end, points, seed + 1))


def _left_panel(
    setting: list[float], runs: int, end: float, points: int, seed: int
) -> "Dataset":
    """A network near its critical rate: the limit of large N, its mean, and runs."""
    import xarray as xr

    number, beta, rate, scale = setting
    L = int(number)
    network = network_of(L, beta, rate, scale)
    finite = network.finite(L)
    times = np.geomspace(0.1, 100.0, points)
    seen = times[times <= end * (1 + 1e-9)]
    errors, _, _ = runs_of(L, beta, rate, scale, runs, seen, seed)
    at_ten = [network.small_rate(TEN), network.error(TEN), finite.error(TEN)]
    data = xr.Dataset(coords={"time": times, "seen": seen})
    data["ode"] = ("time", network.error(times))
    data["small_rate"] = ("time", network.small_rate(times))
    data["exact"] = ("time", network.exact_mean(times, L))
    data["left_runs"] = (("left_run", "seen"), errors)
    data["at_ten"] = ("form", [float(error) for error in at_ten])
    data["by_steps"] = step_by_step(network, L, TEN)
    data["critical"] = finite.critical_rate
    return data


def _right_panel(
    setting: list[float], runs: int, end: float, points: int, seed: int
) -> "Dataset":
    """A network at a small rate: eq. 50, its mean, runs, and local slopes."""
    import xarray as xr

    number, beta, rate, scale = setting
    N = int(number)
    law = tutelage_papers.power_law.PowerLawSum(beta, N, rate, scale)
    network = network_of(N, beta, rate, scale)
    late = np.geomspace(1.0, 1000.0, points)
    watched = late[late <= end * (1 + 1e-9)]
    errors, expected, wrong = runs_of(N, beta, rate, scale, runs, watched, seed)
    sizes = [N, 10**3, 10**4, 10**5, 10**6]
    middle_slopes = []
    for size in sizes:
        wider = tutelage_papers.power_law.PowerLawSum(beta, size, rate)
        middle = np.sqrt(np.prod(wider.window))
        middle_slopes.append(float(wider.local_slope(middle)))
    data = xr.Dataset(coords={"late": late, "watched": watched, "size": sizes})
    data["integral"] = ("late", law.integral(late))
    data["late_exact"] = ("late", network.exact_mean(late, N))
    data["slope_integral"] = ("late", law.local_slope(late, "integral"))
    data["slope_exact"] = ("late", network.finite(N).local_slope(late))
    data["runs"] = (("run", "watched"), errors)
    data["expected"] = (("run", "watched"), expected)
    data["wrong"] = (("run", "watched"), wrong)
    data["slope_middle"] = ("size", middle_slopes)
    data["exponent"] = -law.exponent
    return data


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Compare curves on the left and local slopes on the right."""
    yield from _left_claims(data)
    yield from _right_claims(data)


def _left_claims(data: "Dataset") -> Iterator[Claim]:
    """Who lies above whom near the critical rate, and the mean that the ODE misses."""
    small, ode, exact = data["at_ten"].values
    words = "left: smallest ratio of the ODE solution to the small-rate one"
    yield above(words, (data["ode"] / data["small_rate"]).min(), 1.0)
    yield close("left: ODE solution at alpha = 10", ode, 0.0184, rel=0.01)
    words = "left: exact mean at N = 128, alpha = 10"
    yield close(words, exact, 1.43, rel=0.01)
    yield close("left: the same, step by step", data["by_steps"], exact, rel=1e-8)
    words = "left: exact mean at N = 128 over the small-rate solution, alpha = 10"
    yield above(words, exact / small, 100.0)
    words = "left: critical rate at N = 128"
    yield close(words, data["critical"], 1.0013, rel=1e-3)
    typical = np.median(data["left_runs"].sel(seen=TEN, method="nearest"))
    words = "left: median run over the ODE solution, alpha = 10"
    yield between(words, typical / ode, 1.0, 2.0)
    words = "left: median run over the exact mean, alpha = 10"
    yield below(words, typical / exact, 0.1)


def _right_claims(data: "Dataset") -> Iterator[Claim]:
    """Local slopes at a small rate, and runs against their exact means."""
    gaps = np.abs(data["slope_exact"] / data["slope_integral"] - 1)
    words = "right: largest gap of the exact mean's local slope to that of eq. 50"
    yield at_most(words, gaps.max(), 0.02)
    slope_of_runs = _fitted_slope(data, "runs")
    words = "right: slope of the runs over that of the exact means of their starts"
    yield close(words, slope_of_runs / _fitted_slope(data, "expected"), 1.0, rel=0.02)
    words = (
        "right: share of the times at which |z| < 4, runs against exact means of their "
        "starts"
    )
    yield at_least(words, _share_inside(data, "expected"), 0.95)
    words = "right: the same share against the small-rate solution (must fail)"
    yield below(words, _share_inside(data, "wrong"), 0.95)
    middle = data["slope_middle"].values
    exponent = data["exponent"]
    words = "right: local slope in the middle of the window, L = 256"
    yield refuted(
        close(words, middle[0], exponent, rel=0.1),
        evidence=f"it is {middle[2]:.4f} at L = 10^4 and {middle[-1]:.4f} at 10^6: at "
        "L = 256 the window has no power-law middle",
    )
    yield close("right: the same at L = 10^6", middle[-1], exponent, rel=0.01)


def _share_inside(data: "Dataset", name: str) -> float:
    """The share of times at which the mean of the runs is near an expected one."""
    scores = z_scores(data["runs"].values, data[name].values)
    return float(np.mean(np.abs(scores) < 4))


def _fitted_slope(data: "Dataset", name: str) -> float:
    """The slope of a straight line through the logarithm of the mean over runs."""
    mean = data[name].values.mean(axis=0)
    return float(np.polyfit(np.log(data["watched"].values), np.log(mean), 1)[0])


def draw_2(data: "Dataset") -> "Figure":
    """Draw the exact solution and its small-rate limit, runs and eq. 50, slopes."""
    title = "A linear network on a power law: any rate, any size"
    small = (
        "Left: at this rate a network of N = 128 is about to diverge; rare runs carry "
        "the mean."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.1)
    left, middle, right = axes[0]
    _draw_left(left, data)
    _draw_middle(middle, data)
    right.plot(data["late"], data["slope_exact"], label="exact mean", **line_of(2))
    right.plot(data["late"], data["slope_integral"], label="eq. 50", **line_of(1))
    right.axhline(float(data["exponent"]), color=FAINT, label=r"$-\beta/(1+\beta)$")
    right.set(xlabel=TIME, xscale="log")
    right.set_ylabel(r"local slope $d\ln\epsilon_g/d\ln\alpha$")
    for panel in (left, middle):
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
    for panel in axes[0]:
        legend_below(panel)
    return figure


def _draw_left(panel: Any, data: "Dataset") -> None:
    """The error near the critical rate, and half of the runs."""
    labels = {
        "small_rate": "small rate",
        "ode": "limit of large N",
        "exact": "exact mean, N = 128",
    }
    for look, (name, label) in enumerate(labels.items()):
        panel.plot(data["time"], data[name], label=label, **line_of(look))
    runs = data["left_runs"]
    median = runs.median("left_run")
    wide = {"color": FAINT, "linewidth": 2.0}
    panel.plot(data["seen"], median, label="median run, N = 128", **wide)
    low = runs.quantile(0.25, "left_run")
    high = runs.quantile(0.75, "left_run")
    panel.fill_between(data["seen"], low, high, color=FAINT, alpha=0.3, linewidth=0)
    label_panel(panel, r"$N = 128$, $\beta = 1$, $\eta = 1$")


def _draw_middle(panel: Any, data: "Dataset") -> None:
    """Some runs, their mean, eq. 50, and the exact mean."""
    watched = data["watched"]
    thin = {"color": FAINT, "linewidth": 0.7}
    first, *others = data["runs"].values[:SHOWN]
    panel.plot(watched, first, label="runs, N = 256", **thin)
    for run in others:
        panel.plot(watched, run, **thin)
    mean = data["runs"].mean("run")
    panel.plot(watched, mean, color=COLORS[0], label="mean of all")
    panel.plot(data["late"], data["integral"], label="eq. 50", **line_of(1))
    panel.plot(data["late"], data["late_exact"], label="exact mean", **line_of(2))
    label_panel(panel, r"$N = L = 256$, $\beta = 0.75$, $\eta = 0.1$")


def compute_13(levels: int, beta: float, rates: list[float], points: int) -> "Dataset":
    """Return error and local slope at each rate.

    Beside those of the small-rate limit and of a network with N = levels.
    """
    import xarray as xr

    times = np.geomspace(1.0, 100.0, points)
    rows: list[Dataset] = []
    for rate in rates:
        network = network_of(levels, beta, rate, 0.0)
        law = tutelage_papers.power_law.PowerLawSum(beta, levels, rate)
        modes = network.modes
        shares = np.log(levels * modes.weights / modes.levels)
        row = xr.Dataset(coords={"time": times})
        row["ode"] = ("time", network.error(times))
        row["small_rate"] = ("time", network.small_rate(times))
        row["exact"] = ("time", network.exact_mean(times, levels))
        row["slope"] = ("time", network.local_slope(times))
        row["slope_small"] = ("time", law.local_slope(times))
        row["slope_exact"] = ("time", network.finite(levels).local_slope(times))
        row["deviation"] = np.abs(shares).max()
        rows.append(row)
    return xr.concat(rows, dim=xr.DataArray(rates, dims="rate", name="rate"))


def claims_13(data: "Dataset") -> Iterator[Claim]:
    """Compare rates: the slope hardly changes, height and shares of the modes do."""
    changes = abs(data["slope"] - data["slope_small"])
    for rate in data["rate"].values:
        case = data.sel(rate=rate)
        change = changes.sel(rate=rate).max()
        words = f"change of the local slope of the error, eta = {rate:g}"
        yield at_most(words, change, 0.01)
        words = (
            f"largest |ln| of shares over eigenvalues, over that change, eta = {rate:g}"
        )
        yield above(words, case["deviation"] / change, 10.0)
        late = (case["ode"] / case["small_rate"])[-1]
        words = (
            f"late error over the small-rate one, against 2/(2 - eta), eta = {rate:g}"
        )
        yield close(words, late, 2 / (2 - rate), rel=0.02)
    edge = data.isel(rate=-1)
    gap = np.abs(edge["slope_exact"] - edge["slope_small"]).max()
    yield above("the same change for the exact mean at N = 128, eta = 1", gap, 0.1)


def draw_13(data: "Dataset") -> "Figure":
    """Draw one panel for each rate, and the slopes."""
    title = "A large learning rate raises the error and keeps its slope"
    small = (
        r"$N = 128$, $\beta = 1$, student starts at zero. A network with 128 inputs is "
        r"on its edge at $\eta = 1$."
    )
    figure, axes = panel_grid(2, 2, title, small, height=2.5)
    slopes = axes[1, 1]
    for i, rate in enumerate(data["rate"].values):
        case = data.sel(rate=rate)
        _draw_rate(axes.flat[i], case, rate)
        color = COLORS[3 + i]
        dotted = {"color": color, "linestyle": DASHES[2], "linewidth": 2.4}
        label = rf"slope, $\eta = {rate:g}$"
        slopes.plot(case["time"], case["slope"], color=color, label=label)
        slopes.plot(case["time"], case["slope_small"], **dotted)
    slopes.set(xlabel=TIME, ylabel=r"$d\ln\epsilon_g/d\ln\alpha$", xscale="log")
    label_panel(slopes, "lines: no approximation; dotted: small rate")
    for panel in axes[:, 1]:
        outside_legend(panel)
    return figure


def _draw_rate(panel: Any, case: "Dataset", rate: float) -> None:
    """The error at one rate, with and without approximation."""
    labels = {
        "small_rate": "small rate",
        "ode": "no approximation",
        "exact": "exact mean, N = 128",
    }
    for look, (name, label) in enumerate(labels.items()):
        panel.plot(case["time"], case[name], label=label, **line_of(look))
    panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
    label_panel(panel, rf"$\eta = {rate:g}$")


TWO = {
    "left": [128, 1.0, 1.0, 1.0],
    "right": [256, 0.75, 0.1, 0.01],
    "runs": 60,
    "seed": 1,
}
THIRTEEN = {"levels": 128, "beta": 1.0, "rates": [0.1, 0.5, 1.0]}

FIGURES = (
    Replica(
        id="power-2",
        source="power",
        figure="Fig. 2",
        title="linear network: exact solution against a small rate and finite N; local "
        "slope against the power law",
        full=TWO | {"left_runs": 300, "left_end": 100.0, "end": 1000.0, "points": 121},
        quick=TWO | {"left_runs": 100, "left_end": 10.0, "end": 30.0, "points": 61},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
    Replica(
        id="power-13",
        source="power",
        figure="Fig. 13",
        title="linear network: error and its local slope at small and large learning "
        "rates",
        full=THIRTEEN | {"points": 201},
        quick=THIRTEEN | {"points": 41},
        compute=compute_13,
        draw=draw_13,
        claims=claims_13,
    ),
)
