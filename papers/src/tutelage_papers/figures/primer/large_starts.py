"""Large initial weights (primer): networks and their own theories, when they escape, and how far their weights move."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    INK,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_least, at_most, below, refuted
from tutelage_papers.figures.primer.movement import by_hand, movements
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 4
SHOWN = 6  # curves drawn of each kind
POINTS = 241  # recorded times of every solve and run: one compiled program for each number of units
ALARM = 1e-3  # false alarms of the test of escape times
SLOWER = 1.25  # escape times so much too long must be seen
WITHOUT = 1e-3  # the control is a theory with this share of G: practically none
LAZY = 0.1  # weights that move by less than this share of their length stay close to their start
SAYS = "network parameters stay close to their initialization ..., which can be induced by initializing with small weights"


def problem(hidden: int, lr: float, orthonormal: bool = True) -> "tu.Problem":
    """`hidden` erf units learn from four; the teacher's vectors are orthonormal, or random like those of the student."""
    teacher = tu.Network(
        TEACHERS, "erf", gram=np.eye(TEACHERS) if orthonormal else None
    )
    return tu.Problem(tu.Network(hidden, "erf"), teacher, optimizer=tu.SGD(lr=lr))


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
    """Curves for every K and eta; escape times at the largest eta, by runs, own theories and law; movements.

    dim: the law is linear in what tells units apart, which at std 1 takes N of 1000 or more (at 400 it is 5% too early).
    starts: networks at the smaller rates, up to the time before / eta. At the largest there are `escapes` of them for each
    K, up to `ends`, which is late enough to escape.
    """
    import xarray as xr
    from xarray import Dataset

    parts: list[Dataset] = []
    for i, (K, count, end) in enumerate(zip(units, escapes, ends, strict=True)):
        cases = [
            (lr, count, end) if lr == max(lrs) else (lr, starts, before / lr)
            for lr in lrs
        ]
        curves = [
            _curves(K, lr, std, dim, n, last, seed + 100 * i + j)
            for j, (lr, n, last) in enumerate(cases)
        ]
        part = xr.concat(
            curves, dim=xr.DataArray(lrs, dims="lr", name="lr"), join="outer"
        )
        parts.append(
            part.merge(
                movements(
                    K,
                    TEACHERS,
                    moved_lr,
                    stds,
                    moved_dim,
                    moved_runs,
                    moved_end,
                    seed + i,
                )
            )
        )
    data = xr.concat(
        parts, dim=xr.DataArray(units, dims="units", name="units"), join="outer"
    )
    laws = [
        _law(data.sel(units=K, lr=max(lrs)), K, max(lrs), std, dim, samples, seed)
        for K in law_units
    ]
    data = data.merge(
        xr.concat(
            laws,
            dim=xr.DataArray(law_units, dims="law_units", name="law_units"),
            join="outer",
        )
    )
    settings = (moved_dim, moved_end, hand_runs, hand_points, seed + 1)
    hands = np.array(
        [by_hand(units[0], TEACHERS, moved_lr, one, *settings) for one in hand_stds]
    )
    hand: dict[str, Any] = {}
    for i, name in enumerate(("hand_weights", "hand_kernel")):
        hand[name], hand[f"{name}_sd"] = (
            ("hand_std", f)
            for f in (hands[..., i].mean(1), hands[..., i].std(1, ddof=1))
        )
    data = data.merge(xr.Dataset(hand, coords={"hand_std": hand_stds}))
    counts = {"moved_runs": moved_runs, "hand_runs": hand_runs, "moved_dim": moved_dim}
    return data.assign(
        counts
        | {"dim": dim, "weight_std": std, "before": before, "moved_end": moved_end}
    )


def _curves(
    K: int, lr: float, std: float, dim: int, count: int, end: float, seed: int
) -> "Dataset":
    """e_g of networks from weights of their own, of the theory of each start, and of the first theory without G."""
    import xarray as xr

    from tutelage_papers.bands import wrong_theory

    task = problem(K, lr)
    times = end * np.linspace(0.0, 1.0, POINTS) ** 2
    begin = [
        tu.random_start(task, dim=dim, scale=std, seed=1000 * seed + i)
        for i in range(count)
    ]
    runs = tu.simulate(task, begin, dim=dim, times=times, seed=seed)
    own = [tu.solve(task, start, times).error for start in begin]
    variables: dict[str, Any] = {
        "run": (("start", "time"), runs.error),
        "own": (("start", "time"), np.array(own)),
    }
    variables |= {
        "without": ("time", wrong_theory(task, begin[0], times, WITHOUT).error),
        "alpha": ("time", times),
    }
    return xr.Dataset(variables, coords={"start": np.arange(count)})


def _law(
    part: "Dataset", K: int, lr: float, std: float, dim: int, samples: int, seed: int
) -> "Dataset":
    """When networks escape, by the law (MATH: b = b_0 + noise) and by the curves; and theories of random teachers."""
    import xarray as xr

    law = tu.analysis.escape_distribution(
        problem(K, lr), dim=dim, scale=std, samples=samples, seed=seed
    )
    part = part.dropna("start", how="all", subset=["run"])
    times = part["alpha"].values
    threshold = law.threshold
    found = {
        name: [fall_time(times, curve, threshold) for curve in part[name].values]
        for name in ("run", "own")
    }
    task = problem(K, lr, orthonormal=False)
    seeds = range(10**6, 10**6 + part.sizes["start"])
    free = [
        tu.solve(task, tu.random_start(task, dim=dim, scale=std, seed=s), times).error
        for s in seeds
    ]
    late = np.minimum(law.times, times[-1])
    return xr.Dataset(
        {
            "law_times": ("sample", late),
            "run_times": ("start", np.minimum(found["run"], times[-1])),
            "own_times": ("start", np.minimum(found["own"], times[-1])),
            "free_times": (
                "start",
                np.minimum(
                    [fall_time(times, curve, threshold) for curve in free], times[-1]
                ),
            ),
            "rate": law.rate,
            "start_to_noise": law.start_to_noise,
            "last": times[-1],
        },
        coords={"start": part["start"].values},
    )


def fall_time(times: np.ndarray, error: np.ndarray, threshold: float) -> float:
    """When a curve falls below a threshold for good; infinite if it has not."""
    above_it = np.flatnonzero(error >= threshold)
    if above_it.size == 0 or above_it[-1] == times.size - 1:
        return float(times[0]) if above_it.size == 0 else np.inf
    i = int(above_it[-1])
    return float(
        np.interp(np.log(threshold), np.log(error[[i + 1, i]]), times[[i + 1, i]])
    )


def explained(part: "Dataset", before: float, theory: str = "own") -> np.ndarray:
    """The share of the variance of ln e_g of each run along time that a theory explains, while eta alpha < before."""
    early = part["alpha"].values * float(part["lr"]) <= before * (1 + 1e-9)
    part = part.dropna("start", how="all", subset=["run"])
    runs = np.log(part["run"].values[:, early])
    curve = np.log(part[theory].values[..., early])
    return 1 - np.mean((runs - curve) ** 2, axis=1) / np.var(runs, axis=1)


def same_law(one: Any, other: Any) -> float:
    """p-value of the two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import ks_2samp

    test: Any = ks_2samp(one, other)
    return float(test.pvalue)


def claims_3(data: "Dataset") -> list[Claim]:
    """Own theories before the escape; the law of escape times; what moves and what does not."""
    before = float(data["before"])
    fastest = float(data["lr"].max())
    claims = []
    for K in data["units"].values:
        for lr in data["lr"].values:
            worst = float(explained(data.sel(units=K, lr=lr), before).min())
            claims.append(
                at_least(
                    f"K = {K}, eta = {lr:g}: variance of ln e_g explained by the own theory",
                    worst,
                    0.99,
                )
            )
        control = float(
            explained(data.sel(units=K, lr=fastest), before, "without").min()
        )
        claims.append(
            below(
                f"K = {K}, eta = {fastest:g}: the same without G, which must fail",
                control,
                0.99,
            )
        )
    for K in data["law_units"].values:
        claims += _escape_claims(data.sel(law_units=K))
    return claims + _movement_claims(data)


def _escape_claims(part: "Dataset") -> list[Claim]:
    runs, own, free = (
        part[name].dropna("start").values
        for name in ("run_times", "own_times", "free_times")
    )
    law = part["law_times"].dropna("sample").values
    last = float(part["last"])
    name = f"K = {int(part['law_units'])}, N = {int(part['dim'])}"
    reach = (
        f"starts weigh {float(part['start_to_noise']):.2g} times the noise. The law takes the teacher's vectors as given, "
        f"orthonormal; with random ones the theories' own escape times spread {np.std(free) / np.std(own):.2g} times as much"
    )
    test = f"{name}: KS test of {runs.size} escape times against their law, p-value"
    return [
        at_least(test, same_law(runs, law), ALARM, evidence=reach),
        below(
            f"{name}: the same with times {SLOWER:g} times as long, which must fail",
            same_law(np.minimum(SLOWER * runs, last), law),
            ALARM,
        ),
        below(
            f"{name}: spread of run less own theory, over that of the runs",
            float(np.std(runs - own) / np.std(runs)),
            1.0,
        ),
    ]


def _movement_claims(data: "Dataset") -> list[Claim]:
    claims = []
    small = float(data["std"][0])
    large = float(data["std"][-1])
    worst = max(_routes_apart(data, name) for name in ("weights", "kernel"))
    claims.append(
        below(
            "movements by SGD on weights and by overlaps: largest gap in standard errors",
            worst,
            5.0,
        )
    )
    for K in data["units"].values:
        weights = data["weights"].sel(units=K).values
        kernel = data["kernel"].sel(units=K).values
        evidence = (
            f"relative movement falls with the std of the weights, from {weights[0]:.3g} at {small:g} to {weights[-1]:.2g} "
            f"at {large:g}, and the kernel of the smallest moves by {kernel[0]:.2g}; SGD on weights agrees"
        )
        close_by = at_most(
            f"K = {K}: movement of the weights from std {small:g} over their length",
            weights[0],
            LAZY,
            says=SAYS,
        )
        saturated = (
            "large weights saturate erf, so that a little turn changes which inputs a unit responds to; kernels between "
            "fresh inputs agree. Large weights alone are not lazy in their kernel"
        )
        claims += [
            refuted(close_by, evidence),
            below(
                f"K = {K}: movement at each std over that at the next smaller, largest",
                _ratios(weights).max(),
                1.0,
            ),
            below(
                f"K = {K}: movement of the weights from std {large:g} over their length",
                weights[-1],
                1.0,
            ),
            refuted(
                at_most(
                    f"K = {K}: movement of the kernel from std {large:g} over that from {small:g}",
                    kernel[-1] / kernel[0],
                    1.0,
                    says="the same sentence turned round: large weights give a fixed kernel",
                ),
                saturated,
            ),
        ]
    return claims


def _routes_apart(data: "Dataset", name: str) -> float:
    """The largest gap of a movement between its two routes, over the standard error of their difference."""
    mean, sd = (
        data[column].isel(units=0).sel(std=data["hand_std"].values).values
        for column in (name, f"{name}_sd")
    )
    error = np.sqrt(
        sd**2 / float(data["moved_runs"])
        + data[f"hand_{name}_sd"].values ** 2 / float(data["hand_runs"])
    )
    return float(np.max(np.abs(data[f"hand_{name}"].values - mean) / error))


def _ratios(values: np.ndarray) -> np.ndarray:
    return values[1:] / values[:-1]


def draw_3(data: "Dataset") -> "Figure":
    """Curves for each K; escape times against the own theory and their law; movements of weights and kernel."""
    dim = int(data["dim"])
    std = float(data["weight_std"])
    units = data["units"].values
    title = "Large initial weights: every network is an individual, and has a theory of its own"
    small = (
        f"M = 4, N = {dim}, weights of std {std:g}. Top: thin lines, single networks; dashed, the theory of each start; "
        "thick, the mean over starts."
    )
    figure, axes = panel_grid(2, 3, title, small, height=3.0)
    grid = axes[0, 0].get_gridspec()
    for panel in axes[0]:
        panel.remove()
    for i, K in enumerate(units):
        panel = figure.add_subplot(grid[0, i] if len(units) > 1 else grid[0, :2])
        _draw_curves(panel, data.sel(units=K), legend=i == 0)
        label_panel(panel, f"$K = {K}$")
    if len(units) == 1:
        _draw_escaping(figure.add_subplot(grid[0, 2]), data.isel(units=0, lr=-1))
    _draw_escapes(axes[1, 0], data)
    _draw_movement(axes[1, 1], data, "weights", r"$\|W(\alpha) - W(0)\|\;/\;\|W(0)\|$")
    _draw_movement(axes[1, 2], data, "kernel", r"$\|k_\alpha - k_0\|\;/\;\|k_0\|$")
    label_panel(
        axes[1, 1], f"movement of the weights until α = {float(data['moved_end']):g}"
    )
    label_panel(axes[1, 2], "and of the tangent kernel")
    return figure


def _draw_curves(panel: Any, data: "Dataset", legend: bool) -> None:
    for look, lr in enumerate(data["lr"].values):
        part = (
            data.sel(lr=lr)
            .dropna("start", how="all", subset=["run"])
            .isel(time=slice(1, None))
        )
        alpha = part["alpha"].values
        color = COLORS[look % len(COLORS)]
        panel.plot(
            alpha, part["run"].mean("start"), color=color, linewidth=2.6, alpha=0.35
        )
        panel.plot(alpha, part["run"].values[:SHOWN].T, color=color, linewidth=0.8)
        panel.plot(
            alpha,
            part["own"].values[:SHOWN].T,
            color=INK,
            linewidth=0.7,
            linestyle=DASHES[1],
        )
        panel.plot([], [], color=color, label=rf"$\eta = {lr:g}$")
    panel.set(
        xlabel=TIME,
        ylabel=ERROR,
        xscale="log",
        yscale="log",
        ylim=(max(1e-5, 0.7 * float(data["run"].min())), None),
    )
    panel.set_xlim(0.1, None)
    if legend:
        panel.plot(
            [], [], color=INK, linewidth=0.7, linestyle=DASHES[1], label="theories"
        )
        panel.legend(loc="lower left", fontsize=7)


def _draw_escaping(panel: Any, part: "Dataset") -> None:
    """The largest rate again, from the plateau on."""
    late = part["alpha"].values > float(part["before"]) / float(part["lr"])
    for i in range(SHOWN):
        curve = part.isel(start=i, time=late)
        color = COLORS[i % len(COLORS)]
        panel.plot(curve["alpha"], curve["run"], color=color, linewidth=0.8)
        panel.plot(
            curve["alpha"],
            curve["own"],
            color=color,
            linewidth=1.2,
            linestyle=DASHES[1],
        )
    panel.set(xlabel=TIME, ylabel=ERROR)
    label_panel(panel, f"six escape, a color each, η = {float(part['lr']):g}")


def _draw_escapes(panel: Any, data: "Dataset") -> None:
    for look, K in enumerate(data["law_units"].values):
        part = data.sel(law_units=K)
        color = COLORS[look]
        law = np.sort(part["law_times"].dropna("sample").values)
        runs, own = (
            np.sort(part[name].dropna("start").values)
            for name in ("run_times", "own_times")
        )
        panel.plot(
            law,
            np.arange(1, law.size + 1) / law.size,
            color=color,
            label=f"law, $K = {K}$",
        )
        marks = {"linestyle": "none", "markersize": 3.4, "color": color}
        share = (np.arange(runs.size) + 0.5) / runs.size
        panel.plot(
            runs,
            share,
            marker=MARKERS[0],
            markerfacecolor="white",
            label=None if look else "runs",
            **marks,
        )
        panel.plot(
            own, share, marker="x", label=None if look else "own theories", **marks
        )
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
    panel.plot(
        data["hand_std"],
        data[f"hand_{name}"],
        "+",
        color=INK,
        markersize=9,
        label="SGD on weights",
    )
    panel.axhline(1.0, color=FAINT, linewidth=0.8, linestyle=DASHES[2])
    panel.set(
        xlabel="std of the initial weights",
        ylabel=label,
        xscale="log",
        yscale="log" if name == "weights" else "linear",
    )
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
        title="large initial weights: individual differences, and how far weights and kernels move",
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
