"""Escape times and permutations of networks that start from random weights.

The law of the escape times stays wide however large N is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, INK, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_least, below, close
from tutelage_papers.drawing import GUIDE, legend_below, line_of
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
    """Return the law of escape times at every N, and networks at some; for each K = M.

    runs: for each K, at each of run_dims. samples: of the law, for each K; at every N
    with the same random numbers, so that what chance does to a width it does at all N
    alike, more or less.

    law_times, run_times: NaN where there is no such sample or run. Not escaped: inf by
    law, `end` in the runs. same: p-value of the Kolmogorov-Smirnov test between runs
    and the law at their N; same_far: and the law at the largest N; same_slow: between
    times multiplied by SLOWER and the law (both are controls). share, count: of each
    permutation, by law and in the runs at the first N of run_dims; "other": no
    permutation.
    """
    import xarray as xr

    cases: list[Dataset] = []
    for K, counts, drawn in zip(units, runs, samples, strict=True):
        cases.append(
            _one_pair(K, lr, dims, run_dims, counts, drawn, points, seed + 100 * K)
        )
    students = xr.DataArray(units, dims="units", name="units")
    return xr.concat(cases, dim=students, join="outer").assign(lr=lr)


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
    """The part of the Dataset for one number of units."""
    import xarray as xr

    student = tu.Network(K, "erf")
    teacher = tu.Network(K, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))
    laws = {
        n: tu.analysis.escape_distribution(problem, dim=n, samples=samples, seed=seed)
        for n in dims
    }
    far = laws[max(dims)]
    ends = np.empty(len(run_dims))
    run_times = np.full((len(run_dims), max(runs)), np.nan)
    same = np.empty(len(run_dims))
    same_far = np.empty(len(run_dims))
    same_slow = np.empty(len(run_dims))
    chosen = []
    for row, (n, count) in enumerate(zip(run_dims, runs, strict=True)):
        law = laws[n]
        end = float(law.quantiles([CENSORED])[0])
        networks = _networks(problem, n, end, points, count, seed + 10 * (row + 1))
        times, teachers = law.measured(networks)
        censored = np.minimum(times, end)
        law_times = np.minimum(law.times, end)
        ends[row] = end
        run_times[row, :count] = censored
        same[row] = _same_law(censored, law_times)
        same_far[row] = _same_law(censored, np.minimum(far.times, end))
        same_slow[row] = _same_law(np.minimum(SLOWER * times, end), law_times)
        chosen.append(_shares(law, teachers))
    names, share, count = chosen[0]
    coordinates = {
        "dim": dims,
        "run_dim": run_dims,
        "permutation": names,
        "sample": np.arange(samples),
        "run": np.arange(max(runs)),
    }
    data = xr.Dataset(coords=coordinates)
    data["law_times"] = (("dim", "sample"), [law.times for law in laws.values()])
    data["width"] = ("dim", [law.width for law in laws.values()])
    data["mean"] = ("dim", [law.mean for law in laws.values()])
    data["rate"] = far.rate
    data["start_to_noise"] = far.start_to_noise
    data["run_times"] = (("run_dim", "run"), run_times)
    data["end"] = ("run_dim", ends)
    data["same"] = ("run_dim", same)
    data["same_far"] = ("run_dim", same_far)
    data["same_slow"] = ("run_dim", same_slow)
    data["share"] = ("permutation", share)
    data["count"] = ("permutation", count)
    return data


def _networks(
    problem: "tu.Problem", dim: int, end: float, points: int, count: int, seed: int
) -> "tu.Trajectory":
    """Runs, each from random weights of its own."""
    starts = [
        tu.random_start(problem, dim=dim, seed=10_000 * seed + run)
        for run in range(count)
    ]
    times = tu.linear_times(end, points)
    return tu.simulate(problem, starts, dim=dim, times=times, runs=count, seed=seed)


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
    names = []
    share = []
    count = []
    for choice in choices:
        names.append("".join(str(teacher + 1) for teacher in choice))
        share.append(law.probability(choice))
        count.append(int(np.sum(np.all(teachers == choice, axis=1))))
    names.append("other")
    share.append(1 - sum(share))
    count.append(len(teachers) - sum(count))
    return names, share, count


def odds(part: "Dataset") -> float:
    """Return the p-value of the counts of permutations against their probabilities.

    This is a chi-square test; rare permutations are put together.
    """
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


def claims_escape(data: "Dataset") -> Iterator[Claim]:
    """Runs follow the law, their permutations its odds; its width does not shrink.

    Times that are off by a quarter fail.
    """
    few = int(data["dim"].min())
    many = int(data["dim"].max())
    for K in data["units"].values:
        part = data.sel(units=K)
        for n in part["run_dim"].values:
            yield from _run_claims(part.sel(run_dim=n), f"K = M = {K}, N = {n}", many)
        yield at_least(
            f"K = M = {K}: permutations of the runs against their odds, p-value",
            odds(part),
            ALARM,
        )
        widths = part["width"].sel(dim=[few, many]).values
        drawn = int(np.isfinite(part["law_times"].sel(dim=few)).sum())
        # Four standard errors of the ratio of two widths.
        chance = max(0.1, 4.0 / np.sqrt(drawn))
        yield close(
            f"K = M = {K}: width of the law at N = {many} over that at N = {few}",
            widths[1] / widths[0],
            1.0,
            rel=chance,
        )


def _run_claims(part: "Dataset", name: str, many: int) -> Iterator[Claim]:
    """Escape times of runs at one N, against the right law and two wrong ones."""
    runs = int(np.isfinite(part["run_times"]).sum())
    test = f"{name}: KS test of the escape times of {runs} runs"
    yield at_least(f"{test} against their law, p-value", part["same"], ALARM)
    yield below(
        f"{test} against that of N = {many}, which must fail", part["same_far"], ALARM
    )
    yield below(
        f"{test}, all {SLOWER:g} times as long, which must fail",
        part["same_slow"],
        ALARM,
    )


def draw_escape(data: "Dataset") -> "Figure":
    """Distribution functions, mean and width against N, permutations, for each K."""
    title = "When networks leave their plateau, and to which teachers"
    small = (
        f"erf, η = {float(data['lr']):g}, every network draws its own weights. Lines: "
        "law; marks: runs. Start and noise both shrink as N^(-1/2), so the width does "
        "not."
    )
    rows = data["units"].size
    figure, axes = panel_grid(rows, 3, title, small, height=2.8, width=10.0)
    for row, K in zip(axes, data["units"].values, strict=True):
        part = data.sel(units=K)
        _draw_times(row[0], part)
        _draw_widths(row[1], part)
        _draw_permutations(row[2], part)
        label_panel(row[0], f"K = M = {K}: share that has escaped")
        label_panel(row[1], "mean and standard deviation")
        label_panel(row[2], f"teachers chosen, N = {int(part['run_dim'].values[0])}")
    for panel in axes[-1]:  # the same lines in every row
        legend_below(panel, drop=0.22, handlelength=2.0)
    return figure


def _draw_times(panel: Any, part: "Dataset") -> None:
    """Distribution functions of escape times: the law at every N, runs at some."""
    dims = list(part["dim"].values)
    for look, n in enumerate(dims):
        times = part["law_times"].sel(dim=n).values
        times = np.sort(times[~np.isnan(times)])
        share = np.arange(1, times.size + 1) / times.size
        panel.plot(times, share, **line_of(look), label=f"N = {n:,}")
    for n in part["run_dim"].values:
        end = float(part["end"].sel(run_dim=n))
        times = part["run_times"].sel(run_dim=n).values
        times = np.sort(times[np.isfinite(times)])
        share = (np.arange(times.size) + 0.5) / times.size
        gone = times < end
        look = dims.index(n)
        marks = {
            "color": COLORS[look],
            "marker": MARKERS[look],
            "markerfacecolor": "white",
            "markersize": 3.2,
            "linestyle": "none",
            "markevery": max(1, times.size // 24),
        }
        panel.plot(times[gone], share[gone], **marks)
    law_times = part["law_times"]
    latest = float(law_times.where(np.isfinite(law_times)).quantile(0.998))
    panel.set(
        xlabel=r"escape time $\alpha$", ylabel="share of networks", xlim=(0, latest)
    )


def _draw_widths(panel: Any, part: "Dataset") -> None:
    """Mean and width of escape times against N, by law and in the runs.

    ln N / (2 rate) is a guide: it becomes exact only when the slow symmetric modes have
    come to rest, at very large N.
    """
    dims = part["dim"].values
    mean = {"color": COLORS[0]}
    width = {"color": COLORS[1]}
    panel.plot(dims, part["mean"], **mean, marker=".", label="mean")
    panel.plot(dims, part["width"], **width, marker=".", label="sd")
    first = float(part["mean"].values[0])
    guide = first + np.log(dims / dims[0]) / (2 * float(part["rate"]))
    panel.plot(dims, guide, **GUIDE, label=r"+ $\ln N$ / (2 rate)")
    marks = {"markerfacecolor": "white", "linestyle": "none"}
    for n in part["run_dim"].values:
        times = part["run_times"].sel(run_dim=n)
        spread = float(times.std(ddof=1))
        panel.plot(n, float(times.mean()), **mean, **marks, marker=MARKERS[0])
        panel.plot(n, spread, **width, **marks, marker=MARKERS[1])
    panel.set(
        xlabel="dimension $N$",
        ylabel=r"escape time $\alpha$",
        xscale="log",
        ylim=(0, None),
    )
    panel.margins(x=0.05)


def _draw_permutations(panel: Any, part: "Dataset") -> None:
    """The share of each permutation: bars by law, marks in the runs."""
    known = np.isfinite(part["share"].values)
    share = part["share"].values[known]
    count = part["count"].values[known]
    places = np.arange(share.size)
    spread = 2 * np.sqrt(share * (1 - share) / count.sum())
    panel.bar(places, share, width=0.6, color=COLORS[0], alpha=0.35, label="law")
    bars = {
        "color": INK,
        "linestyle": "none",
        "elinewidth": 0.8,
        "capsize": 2,
        "clip_on": False,
    }
    panel.errorbar(places, share, spread, label=r"$\pm$ 2 sd of runs", **bars)
    marks = {
        "marker": MARKERS[1],
        "markerfacecolor": "white",
        "linestyle": "none",
        "clip_on": False,
        "zorder": 3,
    }
    panel.plot(places, count / count.sum(), color=COLORS[1], label="runs", **marks)
    panel.set(
        ylabel="share of networks",
        xlabel="teacher of unit 1, 2, ...",
        xlim=(-0.6, share.size - 0.4),
    )
    panel.set_xticks(places, part["permutation"].values[known])


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
            "samples": [2000, 2000],
        },
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
