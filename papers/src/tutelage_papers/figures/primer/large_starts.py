"""Figure 3 of the primer: large initial weights.

It shows networks and their own theories, the times at which they escape, and how far
their weights move.
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
    panel_grid,
)
from tutelage_papers.claims import Claim, at_least, at_most, below, refuted
from tutelage_papers.drawing import GUIDE
from tutelage_papers.figures.primer.movement import by_hand, movements
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 4
SHOWN = 6  # curves drawn of each kind
# Recorded times of every solve and run: one compiled program for each number of units.
POINTS = 241
ALARM = 1e-3  # false alarms of the test of escape times
SLOWER = 1.25  # escape times so much too long must be seen
WITHOUT = 1e-3  # the control is a theory with this share of G: practically none
# Weights that move by less than this share of their length stay close to their start.
LAZY = 0.1
SAYS = (
    "network parameters stay close to their initialization ..., which can be induced "
    "by initializing with small weights"
)


def problem(hidden: int, lr: float, orthonormal: bool = True) -> "tu.Problem":
    """`hidden` erf units learn from four.

    The teacher's vectors are orthonormal, or random like those of the student.
    """
    gram = np.eye(TEACHERS) if orthonormal else None
    student = tu.Network(hidden, "erf")
    teacher = tu.Network(TEACHERS, "erf", gram=gram)
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))


def compute_3(
    units: list[int],
    lrs: list[float],
    std: float,
    dim: int,
    starts: int,
    before: float,
    law_units: list[int],
    ends: list[float],
    escapes: list[int],
    samples: int,
    stds: list[float],
    moved_lr: float,
    moved_dim: int,
    moved_runs: int,
    moved_end: float,
    hand_stds: list[float],
    hand_runs: int,
    hand_points: int,
    seed: int,
) -> "Dataset":
    """Return curves for every K and eta, escape times at the largest, and movements.

    The escape times are those of runs, of own theories and of the law. dim: the law is
    linear in what tells units apart, which at std 1 takes N of 1000 or more (at 400 it
    is 5% too early). starts: networks at the smaller rates, up to the time before /
    eta. At the largest there are `escapes` of them for each K, up to `ends`, which is
    late enough to escape.
    """
    import xarray as xr

    fastest = max(lrs)
    parts: list[Dataset] = []
    for row, K in enumerate(units):
        curves: list[Dataset] = []
        for column, lr in enumerate(lrs):
            if lr == fastest:
                count = escapes[row]
                end = ends[row]
            else:
                count = starts
                end = before / lr
            case_seed = seed + 100 * row + column
            curves.append(_curves(K, lr, std, dim, count, end, case_seed))
        rates = xr.DataArray(lrs, dims="lr", name="lr")
        part = xr.concat(curves, dim=rates, join="outer")
        moved = movements(
            K,
            TEACHERS,
            moved_lr,
            stds,
            moved_dim,
            moved_runs,
            moved_end,
            seed + row,
        )
        parts.append(part.merge(moved))
    students = xr.DataArray(units, dims="units", name="units")
    data = xr.concat(parts, dim=students, join="outer")

    laws: list[Dataset] = []
    for K in law_units:
        curves_of_law = data.sel(units=K, lr=fastest)
        laws.append(_law(curves_of_law, K, fastest, std, dim, samples, seed))
    law_students = xr.DataArray(law_units, dims="law_units", name="law_units")
    data = data.merge(xr.concat(laws, dim=law_students, join="outer"))

    # Movements by SGD on the weights, an independent route.
    settings = (moved_dim, moved_end, hand_runs, hand_points, seed + 1)
    data = data.merge(_movements_by_hand(units[0], moved_lr, hand_stds, settings))
    return data.assign(
        moved_runs=moved_runs,
        hand_runs=hand_runs,
        moved_dim=moved_dim,
        dim=dim,
        weight_std=std,
        before=before,
        moved_end=moved_end,
    )


def _movements_by_hand(
    K: int, lr: float, stds: list[float], settings: tuple[Any, ...]
) -> "Dataset":
    """Means and standard deviations over networks of the movements of `by_hand`."""
    import xarray as xr

    hands = np.array([by_hand(K, TEACHERS, lr, std, *settings) for std in stds])
    by_name = {"hand_weights": hands[..., 0], "hand_kernel": hands[..., 1]}
    data = xr.Dataset(coords={"hand_std": stds})
    for name, moved in by_name.items():
        data[name] = ("hand_std", moved.mean(axis=1))
        data[f"{name}_sd"] = ("hand_std", moved.std(axis=1, ddof=1))
    return data


def _curves(
    K: int, lr: float, std: float, dim: int, count: int, end: float, seed: int
) -> "Dataset":
    """Errors of networks from weights of their own and of the theory of each start.

    without: the first of these theories without G.
    """
    import xarray as xr

    from tutelage_papers.bands import wrong_theory

    task = problem(K, lr)
    times = end * np.linspace(0.0, 1.0, POINTS) ** 2
    begin = [
        tu.random_start(task, dim=dim, scale=std, seed=1000 * seed + place)
        for place in range(count)
    ]
    runs = tu.simulate(task, begin, dim=dim, times=times, seed=seed)
    own = [tu.solve(task, start, times).error for start in begin]
    without = wrong_theory(task, begin[0], times, WITHOUT)
    data = xr.Dataset(coords={"start": np.arange(count)})
    data["run"] = (("start", "time"), runs.error)
    data["own"] = (("start", "time"), np.array(own))
    data["without"] = ("time", without.error)
    data["alpha"] = ("time", times)
    return data


def _law(
    part: "Dataset", K: int, lr: float, std: float, dim: int, samples: int, seed: int
) -> "Dataset":
    """Escape times by the law (docs/how-to/escape-times.md) and by the curves.

    free_times: those of theories of random teachers.
    """
    import xarray as xr

    law = tu.analysis.escape_distribution(
        problem(K, lr), dim=dim, scale=std, samples=samples, seed=seed
    )
    part = part.dropna("start", how="all", subset=["run"])
    times = part["alpha"].values
    last = times[-1]

    def escapes(curves: Any) -> np.ndarray:
        found = [fall_time(times, curve, law.threshold) for curve in curves]
        return np.minimum(found, last)

    task = problem(K, lr, orthonormal=False)
    free = []
    for start_seed in range(10**6, 10**6 + part.sizes["start"]):
        start = tu.random_start(task, dim=dim, scale=std, seed=start_seed)
        free.append(tu.solve(task, start, times).error)
    data = xr.Dataset(coords={"start": part["start"].values})
    data["law_times"] = ("sample", np.minimum(law.times, last))
    data["run_times"] = ("start", escapes(part["run"].values))
    data["own_times"] = ("start", escapes(part["own"].values))
    data["free_times"] = ("start", escapes(free))
    data["rate"] = law.rate
    data["start_to_noise"] = law.start_to_noise
    data["last"] = last
    return data


def fall_time(times: np.ndarray, error: np.ndarray, threshold: float) -> float:
    """Return the time at which a curve falls below a threshold for good.

    Infinite: it has not.
    """
    above = np.flatnonzero(error >= threshold)
    if above.size == 0:
        return float(times[0])
    last = int(above[-1])
    if last == times.size - 1:
        return np.inf
    around = [last + 1, last]
    return float(np.interp(np.log(threshold), np.log(error[around]), times[around]))


def explained(part: "Dataset", before: float, theory: str = "own") -> np.ndarray:
    """Return the share of the variance of ln e_g of each run that a theory explains.

    The variance is that along time, while eta alpha < before.
    """
    early = part["alpha"].values * float(part["lr"]) <= before * (1 + 1e-9)
    part = part.dropna("start", how="all", subset=["run"])
    runs = np.log(part["run"].values[:, early])
    curve = np.log(part[theory].values[..., early])
    return 1 - np.mean((runs - curve) ** 2, axis=1) / np.var(runs, axis=1)


def same_law(one: Any, other: Any) -> float:
    """Return the p-value of the two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import ks_2samp

    test: Any = ks_2samp(one, other)
    return float(test.pvalue)


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Own theories before the escape; the law of escape times; movements."""
    before = float(data["before"])
    fastest = float(data["lr"].max())
    for K in data["units"].values:
        for lr in data["lr"].values:
            yield at_least(
                f"K = {K}, eta = {lr:g}: variance of ln e_g explained by the own "
                "theory",
                explained(data.sel(units=K, lr=lr), before).min(),
                0.99,
            )
        yield below(
            f"K = {K}, eta = {fastest:g}: the same without G, which must fail",
            explained(data.sel(units=K, lr=fastest), before, "without").min(),
            0.99,
        )
    for K in data["law_units"].values:
        yield from _escape_claims(data.sel(law_units=K))
    yield from _movement_claims(data)


def _escape_claims(part: "Dataset") -> Iterator[Claim]:
    """Runs escape as the law says, and own theories know more than the law."""
    runs = part["run_times"].dropna("start").values
    own = part["own_times"].dropna("start").values
    free = part["free_times"].dropna("start").values
    law = part["law_times"].dropna("sample").values
    last = float(part["last"])
    name = f"K = {int(part['law_units'])}, N = {int(part['dim'])}"
    spread = np.std(free) / np.std(own)
    reach = (
        f"starts weigh {float(part['start_to_noise']):.2g} times the noise. The law "
        "takes the teacher's vectors as given, orthonormal; with random ones the "
        f"theories' own escape times spread {spread:.2g} times as much"
    )
    yield at_least(
        f"{name}: KS test of {runs.size} escape times against their law, p-value",
        same_law(runs, law),
        ALARM,
        evidence=reach,
    )
    yield below(
        f"{name}: the same with times {SLOWER:g} times as long, which must fail",
        same_law(np.minimum(SLOWER * runs, last), law),
        ALARM,
    )
    yield below(
        f"{name}: spread of run less own theory, over that of the runs",
        np.std(runs - own) / np.std(runs),
        1.0,
    )


def _movement_claims(data: "Dataset") -> Iterator[Claim]:
    """Weights move less the larger they are; the kernel of large weights moves."""
    yield below(
        "movements by SGD on weights and by overlaps: largest gap in standard errors",
        max(_routes_apart(data, "weights"), _routes_apart(data, "kernel")),
        5.0,
    )
    small = float(data["std"][0])
    large = float(data["std"][-1])
    for K in data["units"].values:
        weights = data["weights"].sel(units=K).values
        kernel = data["kernel"].sel(units=K).values
        stays = at_most(
            f"K = {K}: movement of the weights from std {small:g} over their length",
            weights[0],
            LAZY,
            says=SAYS,
        )
        yield refuted(
            stays,
            "relative movement falls with the std of the weights, from "
            f"{weights[0]:.3g} at {small:g} to {weights[-1]:.2g} at {large:g}, and the "
            f"kernel of the smallest moves by {kernel[0]:.2g}; SGD on weights agrees",
        )
        yield below(
            f"K = {K}: movement at each std over that at the next smaller, largest",
            (weights[1:] / weights[:-1]).max(),
            1.0,
        )
        yield below(
            f"K = {K}: movement of the weights from std {large:g} over their length",
            weights[-1],
            1.0,
        )
        fixed_kernel = at_most(
            f"K = {K}: movement of the kernel from std {large:g} over that from "
            f"{small:g}",
            kernel[-1] / kernel[0],
            1.0,
            says="the same sentence turned round: large weights give a fixed kernel",
        )
        yield refuted(
            fixed_kernel,
            "large weights saturate erf, so that a little turn changes which inputs a "
            "unit responds to; kernels between fresh inputs agree. Large weights alone "
            "are not lazy in their kernel",
        )


def _routes_apart(data: "Dataset", name: str) -> float:
    """The largest gap of a movement between its two routes, in standard errors."""
    part = data.isel(units=0).sel(std=data["hand_std"].values)
    variance = part[f"{name}_sd"].values ** 2 / float(data["moved_runs"])
    hand_variance = data[f"hand_{name}_sd"].values ** 2 / float(data["hand_runs"])
    gap = data[f"hand_{name}"].values - part[name].values
    return float(np.max(np.abs(gap) / np.sqrt(variance + hand_variance)))


def draw_3(data: "Dataset") -> "Figure":
    """Curves for each K; escape times with theory and law; movements."""
    dim = int(data["dim"])
    std = float(data["weight_std"])
    units = data["units"].values
    title = (
        "Large initial weights: every network is an individual, and has a theory of "
        "its own"
    )
    small = (
        f"M = 4, N = {dim}, weights of std {std:g}. Top: thin lines, single networks; "
        "dashed, the theory of each start; thick, the mean over starts."
    )
    figure, axes = panel_grid(2, 3, title, small, height=3.0)
    grid = axes[0, 0].get_gridspec()
    for panel in axes[0]:
        panel.remove()
    # A single K has a wide panel, and another one for its escapes.
    if len(units) == 1:
        places = [grid[0, :2]]
        _draw_escaping(figure.add_subplot(grid[0, 2]), data.isel(units=0, lr=-1))
    else:
        places = [grid[0, column] for column in range(len(units))]
    for column, K in enumerate(units):
        panel = figure.add_subplot(places[column])
        _draw_curves(panel, data.sel(units=K), legend=column == 0)
        label_panel(panel, f"$K = {K}$")
    _draw_escapes(axes[1, 0], data)
    _draw_movement(axes[1, 1], data, "weights", r"$\|W(\alpha) - W(0)\|\;/\;\|W(0)\|$")
    _draw_movement(axes[1, 2], data, "kernel", r"$\|k_\alpha - k_0\|\;/\;\|k_0\|$")
    end = float(data["moved_end"])
    label_panel(axes[1, 1], f"movement of the weights until α = {end:g}")
    label_panel(axes[1, 2], "and of the tangent kernel")
    return figure


def _draw_curves(panel: Any, data: "Dataset", legend: bool) -> None:
    """Runs, their mean and their own theories, for each rate."""
    dashed = {"color": INK, "linewidth": 0.7, "linestyle": DASHES[1]}
    for look, lr in enumerate(data["lr"].values):
        part = data.sel(lr=lr).dropna("start", how="all", subset=["run"])
        part = part.isel(time=slice(1, None))
        times = part["alpha"].values
        color = COLORS[look % len(COLORS)]
        mean = part["run"].mean("start")
        panel.plot(times, mean, color=color, linewidth=2.6, alpha=0.35)
        panel.plot(times, part["run"].values[:SHOWN].T, color=color, linewidth=0.8)
        panel.plot(times, part["own"].values[:SHOWN].T, **dashed)
        panel.plot([], [], color=color, label=rf"$\eta = {lr:g}$")
    lowest = max(1e-5, 0.7 * float(data["run"].min()))
    panel.set(
        xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log", ylim=(lowest, None)
    )
    panel.set_xlim(0.1, None)
    if legend:
        panel.plot([], [], **dashed, label="theories")
        panel.legend(loc="lower left", fontsize=7)


def _draw_escaping(panel: Any, part: "Dataset") -> None:
    """The largest rate again, from the plateau on."""
    late = part["alpha"].values > float(part["before"]) / float(part["lr"])
    for place in range(SHOWN):
        curve = part.isel(start=place, time=late)
        run = {"color": COLORS[place % len(COLORS)], "linewidth": 0.8}
        own = run | {"linewidth": 1.2, "linestyle": DASHES[1]}
        panel.plot(curve["alpha"], curve["run"], **run)
        panel.plot(curve["alpha"], curve["own"], **own)
    panel.set(xlabel=TIME, ylabel=ERROR)
    label_panel(panel, f"six escape, a color each, η = {float(part['lr']):g}")


def _draw_escapes(panel: Any, data: "Dataset") -> None:
    """The share of networks that have escaped: law, runs and own theories."""
    for look, K in enumerate(data["law_units"].values):
        part = data.sel(law_units=K)
        law = np.sort(part["law_times"].dropna("sample").values)
        runs = np.sort(part["run_times"].dropna("start").values)
        own = np.sort(part["own_times"].dropna("start").values)
        color = COLORS[look]
        law_share = np.arange(1, law.size + 1) / law.size
        panel.plot(law, law_share, color=color, label=f"law, $K = {K}$")
        share = (np.arange(runs.size) + 0.5) / runs.size
        marks = {"linestyle": "none", "markersize": 3.4, "color": color}
        circles = marks | {"marker": MARKERS[0], "markerfacecolor": "white"}
        crosses = marks | {"marker": "x"}
        if look == 0:  # one entry of the legend for all K
            circles["label"] = "runs"
            crosses["label"] = "own theories"
        panel.plot(runs, share, **circles)
        panel.plot(own, share, **crosses)
    panel.set(xlabel=r"escape time $\alpha$", ylabel="share of networks")
    panel.legend(loc="lower right", fontsize=7)
    label_panel(panel, f"who has escaped, η = {float(data['lr'].max()):g}")


def _draw_movement(panel: Any, data: "Dataset", name: str, label: str) -> None:
    for look, K in enumerate(data["units"].values):
        line = {
            "color": COLORS[look],
            "marker": MARKERS[look],
            "markersize": 3.6,
            "markerfacecolor": "white",
        }
        panel.plot(data["std"], data[name].sel(units=K), label=f"$K = {K}$", **line)
    hand = data[f"hand_{name}"]
    crosses = {"color": INK, "markersize": 9, "label": "SGD on weights"}
    panel.plot(data["hand_std"], hand, "+", **crosses)
    panel.axhline(1.0, **GUIDE, linewidth=0.8)
    panel.set(xlabel="std of the initial weights", ylabel=label, xscale="log")
    if name == "weights":
        panel.set_yscale("log")
    panel.margins(x=0.06)
    panel.legend(fontsize=7)


PRINTED_3: dict[str, Any] = {
    "lrs": [0.05, 0.2, 0.5],
    "std": 1.0,
    "before": 40.0,
    "stds": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
    "moved_lr": 0.5,
    "moved_end": 100.0,
    "hand_stds": [0.01, 10.0],
    "seed": 1,
}

FIGURES = (
    Replica(
        id="primer-3",
        source="primer",
        figure="Fig. 3",
        title="large initial weights: individual differences, and how far weights and "
        "kernels move",
        full=PRINTED_3
        | {
            "units": [2, 4, 6],
            "dim": 10_000,
            "starts": 3,
            "law_units": [2, 4],
            "ends": [350.0, 500.0, 800.0],
            "escapes": [32, 24, 6],
            "samples": 400,
            "moved_dim": 400,
            "moved_runs": 16,
            "hand_runs": 6,
            "hand_points": 400,
        },
        quick=PRINTED_3
        | {
            "units": [2],
            "dim": 1000,
            "starts": 2,
            "law_units": [2],
            "ends": [300.0],
            "escapes": [20],
            "samples": 192,
            "moved_dim": 100,
            "moved_runs": 16,
            "hand_runs": 6,
            "hand_points": 400,
        },
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
