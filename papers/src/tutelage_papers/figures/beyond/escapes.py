"""Escape times and permutations of networks that start from random weights: a law that stays wide however large N is."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, FAINT, INK, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_least, below, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

ALARM = 1e-3  # false alarms of every test
CENSORED = 0.99  # runs end when this share of networks should have escaped
SLOWER = 1.25  # a rate of escape so much too large must be seen
RARE = 3.0  # expected counts below this are put together


def compute_escape(
    lr: float,
    units: list[int],
    dims: list[int],
    run_dims: list[int],
    runs: list[list[int]],
    samples: list[int],
    points: int,
    seed: int,
) -> "Dataset":
    """The law of escape times at every N, and networks at some; for each number of units K = M.

    runs: for each K, at each of run_dims. samples: of the law, for each K; at every N with the same random numbers, so that
    what chance does to a width it does at all N alike, more or less.
    law_times, run_times: NaN where there is no such sample or run. Not escaped: inf by law, `end` in the runs.
    same: p-value of the Kolmogorov-Smirnov test between runs and the law at their N; same_far: and the law at the largest N;
    same_slow: between times multiplied by SLOWER and the law (both are controls).
    share, count: of each permutation, by law and in the runs at the first N of run_dims; "other": no permutation.
    """
    import xarray as xr

    cases = [
        _one_pair(K, lr, dims, run_dims, some, drawn, points, seed + 100 * K)
        for K, some, drawn in zip(units, runs, samples, strict=True)
    ]
    return xr.concat(
        cases, dim=xr.DataArray(units, dims="units", name="units"), join="outer"
    ).assign(lr=lr)


def _one_pair(
    K: int,
    lr: float,
    dims: list[int],
    run_dims: list[int],
    runs: list[int],
    samples: int,
    points: int,
    seed: int,
) -> "Dataset":
    import xarray as xr

    problem = tu.Problem(
        tu.Network(K, "erf"), tu.Network(K, "erf"), optimizer=tu.SGD(lr=lr)
    )
    laws = {
        n: tu.analysis.escape_distribution(problem, dim=n, samples=samples, seed=seed)
        for n in dims
    }
    far = laws[max(dims)]
    ends = []
    run_times = np.full((len(run_dims), max(runs)), np.nan)
    same = np.empty((3, len(run_dims)))
    chosen = []
    for i, (n, count) in enumerate(zip(run_dims, runs, strict=True)):
        end = float(laws[n].quantiles([CENSORED])[0])
        times, teachers = laws[n].measured(
            _networks(problem, n, end, points, count, seed + 10 * (i + 1))
        )
        run_times[i, :count] = np.minimum(times, end)
        near, away = (np.minimum(law.times, end) for law in (laws[n], far))
        same[:, i] = [
            _same_law(run_times[i, :count], near),
            _same_law(run_times[i, :count], away),
            _same_law(np.minimum(SLOWER * times, end), near),
        ]
        ends.append(end)
        chosen.append(_shares(laws[n], teachers))
    names, share, count = chosen[0]
    return xr.Dataset(
        {
            "law_times": (("dim", "sample"), [law.times for law in laws.values()]),
            "width": ("dim", [law.width for law in laws.values()]),
            "mean": ("dim", [law.mean for law in laws.values()]),
            "rate": far.rate,
            "start_to_noise": far.start_to_noise,
            "run_times": (("run_dim", "run"), run_times),
            "end": ("run_dim", ends),
            "same": ("run_dim", same[0]),
            "same_far": ("run_dim", same[1]),
            "same_slow": ("run_dim", same[2]),
            "share": ("permutation", share),
            "count": ("permutation", count),
        },
        coords={
            "dim": dims,
            "run_dim": run_dims,
            "permutation": names,
            "sample": np.arange(samples),
            "run": np.arange(max(runs)),
        },
    )


def _networks(
    problem: "tu.Problem", dim: int, end: float, points: int, count: int, seed: int
) -> "tu.Trajectory":
    """Runs, each from random weights of its own."""
    starts = [
        tu.random_start(problem, dim=dim, seed=10_000 * seed + i) for i in range(count)
    ]
    return tu.simulate(
        problem,
        starts,
        dim=dim,
        times=tu.linear_times(end, points),
        runs=count,
        seed=seed,
    )


def _same_law(one: np.ndarray, other: np.ndarray) -> float:
    """p-value of the two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import ks_2samp

    test: Any = ks_2samp(one, other)
    return float(test.pvalue)


def _shares(
    law: "tu.analysis.EscapeDistribution", teachers: np.ndarray
) -> tuple[list[str], list[float], list[int]]:
    """Probability and count of each permutation of the teachers, and of all else."""
    from itertools import permutations

    choices = list(permutations(range(teachers.shape[1])))
    share = [law.probability(p) for p in choices]
    count = [int(np.sum(np.all(teachers == p, axis=1))) for p in choices]
    names = ["".join(str(m + 1) for m in p) for p in choices]
    return (
        [*names, "other"],
        [*share, 1 - sum(share)],
        [*count, len(teachers) - sum(count)],
    )


def odds(part: "Dataset") -> float:
    """p-value of the counts of permutations against their probabilities (chi-square; rare ones are put together)."""
    from scipy.stats import chisquare

    known = np.isfinite(part["share"].values)
    share = part["share"].values[known]
    count = part["count"].values[known]
    often = share * count.sum() > RARE
    share = np.append(share[often], share[~often].sum())
    count = np.append(count[often], count[~often].sum())
    if share[-1] * count.sum() < 1.0:  # next to never expected: judged by the others
        share = share[:-1]
        count = count[:-1]
    return float(chisquare(count, share / share.sum() * count.sum()).pvalue)


def claims_escape(data: "Dataset") -> list[Claim]:
    """Runs follow the law, their permutations its odds; its width does not shrink with N. Times off by a quarter fail."""
    claims = []
    for K in data["units"].values:
        part = data.sel(units=K)
        dims = data["dim"].values
        few = int(dims.min())
        many = int(dims.max())
        for n in part["run_dim"].values:
            runs = int(np.isfinite(part["run_times"].sel(run_dim=n)).sum())
            at = part.sel(run_dim=n)
            text = f"K = M = {K}, N = {n}: KS test of the escape times of {runs} runs"
            claims.append(
                at_least(f"{text} against their law, p-value", float(at["same"]), ALARM)
            )
            claims.append(
                below(
                    f"{text} against that of N = {many}, which must fail",
                    float(at["same_far"]),
                    ALARM,
                )
            )
            claims.append(
                below(
                    f"{text}, all {SLOWER:g} times as long, which must fail",
                    float(at["same_slow"]),
                    ALARM,
                )
            )
        width = part["width"].sel(dim=[few, many]).values
        drawn = int(np.isfinite(part["law_times"].sel(dim=few)).sum())
        chance = max(
            0.1, 4.0 / np.sqrt(drawn)
        )  # four standard errors of the ratio of two widths
        claims += [
            at_least(
                f"K = M = {K}: permutations of the runs against their odds, p-value",
                odds(part),
                ALARM,
            ),
            close(
                f"K = M = {K}: width of the law at N = {many} over that at N = {few}",
                width[1] / width[0],
                1.0,
                rel=chance,
            ),
        ]
    return claims


def draw_escape(data: "Dataset") -> "Figure":
    """For each K: distribution functions, mean and width against N, permutations."""
    small = (
        f"erf, η = {float(data['lr']):g}, every network draws its own weights. Lines: law; marks: runs. "
        "Start and noise both shrink as N^(-1/2), so the width does not."
    )
    figure, axes = panel_grid(
        data["units"].size,
        3,
        "When networks leave their plateau, and to which teachers",
        small,
        height=2.8,
        width=10.0,
    )
    for row, K in zip(axes, data["units"].values, strict=True):
        part = data.sel(units=K)
        _draw_times(row[0], part)
        _draw_widths(row[1], part)
        _draw_permutations(row[2], part)
        label_panel(row[0], f"K = M = {K}: share that has escaped")
        label_panel(row[1], "mean and standard deviation")
        label_panel(row[2], f"teachers chosen, N = {int(part['run_dim'].values[0])}")
    for panel in axes[-1]:  # the same lines in every row
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, handlelength=2.0
        )
    return figure


def _draw_times(panel: Any, part: "Dataset") -> None:
    dims = list(part["dim"].values)
    for i, n in enumerate(dims):
        times = part["law_times"].sel(dim=n).values
        times = np.sort(times[~np.isnan(times)])
        share = np.arange(1, times.size + 1) / times.size
        panel.plot(
            times,
            share,
            color=COLORS[i],
            linestyle=DASHES[i % len(DASHES)],
            label=f"N = {n:,}",
        )
    for n in part["run_dim"].values:
        end = float(part["end"].sel(run_dim=n))
        times = part["run_times"].sel(run_dim=n).values
        times = np.sort(times[np.isfinite(times)])
        share = (np.arange(times.size) + 0.5) / times.size
        i = dims.index(n)
        gone = times < end
        marks = {
            "marker": MARKERS[i],
            "markerfacecolor": "white",
            "markersize": 3.2,
            "linestyle": "none",
        }
        panel.plot(
            times[gone],
            share[gone],
            color=COLORS[i],
            markevery=max(1, times.size // 24),
            **marks,
        )
    latest = float(
        part["law_times"].where(np.isfinite(part["law_times"])).quantile(0.998)
    )
    panel.set(
        xlabel=r"escape time $\alpha$", ylabel="share of networks", xlim=(0, latest)
    )


def _draw_widths(panel: Any, part: "Dataset") -> None:
    """ln N / (2 rate) is a guide: it becomes exact only when the slow symmetric modes have come to rest, at very large N."""
    dims = part["dim"].values
    rate = float(part["rate"])
    for look, name in enumerate(("mean", "width")):
        panel.plot(
            dims,
            part[name],
            color=COLORS[look],
            marker=".",
            label={"mean": "mean", "width": "sd"}[name],
        )
    first = float(part["mean"].values[0])
    panel.plot(
        dims,
        first + np.log(dims / dims[0]) / (2 * rate),
        color=FAINT,
        linestyle=DASHES[2],
        label=r"+ $\ln N$ / (2 rate)",
    )
    for n in part["run_dim"].values:
        times = part["run_times"].sel(run_dim=n)
        for look, value in enumerate((times.mean(), times.std(ddof=1))):
            panel.plot(
                n,
                float(value),
                color=COLORS[look],
                marker=MARKERS[look],
                markerfacecolor="white",
                linestyle="none",
            )
    panel.set(
        xlabel="dimension $N$",
        ylabel=r"escape time $\alpha$",
        xscale="log",
        ylim=(0, None),
    )
    panel.margins(x=0.05)


def _draw_permutations(panel: Any, part: "Dataset") -> None:
    known = np.isfinite(part["share"].values)
    share = part["share"].values[known]
    count = part["count"].values[known]
    at = np.arange(share.size)
    spread = 2 * np.sqrt(share * (1 - share) / count.sum())
    panel.bar(at, share, width=0.6, color=COLORS[0], alpha=0.35, label="law")
    bars = {
        "color": INK,
        "linestyle": "none",
        "elinewidth": 0.8,
        "capsize": 2,
        "clip_on": False,
    }
    panel.errorbar(at, share, spread, label=r"$\pm$ 2 sd of runs", **bars)
    marks = {
        "marker": MARKERS[1],
        "markerfacecolor": "white",
        "linestyle": "none",
        "clip_on": False,
        "zorder": 3,
    }
    panel.plot(at, count / count.sum(), color=COLORS[1], label="runs", **marks)
    panel.set(
        ylabel="share of networks",
        xlabel="teacher of unit 1, 2, ...",
        xlim=(-0.6, share.size - 0.4),
    )
    panel.set_xticks(at, part["permutation"].values[known])


PRINTED: dict[str, Any] = {"lr": 0.5, "units": [2, 3], "points": 401, "seed": 5}

FIGURES = (
    Replica(
        id="escape-1",
        source="beyond",
        figure="escape times",
        title="escape times and permutations from random weights",
        full=PRINTED
        | {
            "dims": [1000, 10_000, 100_000, 1_000_000],
            "run_dims": [1000, 10_000],
            "runs": [[200, 32], [200, 32]],
        }
        | {"samples": [2000, 2000]},
        quick=PRINTED
        | {
            "dims": [400, 1_000_000],
            "run_dims": [400],
            "runs": [[48], [24]],
            "samples": [500, 300],
        },
        compute=compute_escape,
        draw=draw_escape,
        claims=claims_escape,
    ),
)
