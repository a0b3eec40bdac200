"""Samples used twice: a tanh unit finds a target that single uses do not find.

The target is -He3(rho) / sqrt(6). With single uses the force on the overlap m is of
order m^2. At small m it loses against the noise of SGD, which turns a vector of fixed
length away at a rate of order m. The second use sees the field that the first has
moved, and its force does not vanish with m.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, TIME, label_panel, panel_grid
from tutelage_papers.claims import PASS, Claim, at_least, at_most, below, close, refuted
from tutelage_papers.drawing import legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# By time: m of samples used twice.
DIGITS = {10.0: 0.273, 20.0: 0.459, 30.0: 0.770, 50.0: 0.948}
ONCE = 0.006  # at time 50
LEARNED = 0.5
UNLEARNED = 0.1
OVERLAP = "overlap $m$"
TAIL = (
    "Single runs scatter. Of 200 runs of N = 1000 that use samples twice, 198 pass 0.5 "
    "before time 50, two reach 0.48. Of 20 runs of N = 10^4 that use them once, 19 "
    "stay below 0.1, one reaches 0.107."
)


def correlation(output: Any, label: Any) -> Any:
    """Minus the product of output and label: delta = y g'(lambda)."""
    return -(output * label).sum()


def reused(times: int, lr: float) -> "tu.Problem":
    """A tanh unit of fixed length learns -He3 / sqrt(6)."""
    return tu.Problem(
        student=tu.Network(1, "tanh"),
        teacher=tu.Network(1, "he3", readout=-1 / np.sqrt(6)),
        loss=correlation,
        rule=tu.rules.Reuse(times),
        optimizer=tu.SGD(lr, spherical=True),
    )


def begin(dim: int) -> "tu.Start":
    """The overlap of random vectors of this length."""
    return tu.Start([[1 / np.sqrt(dim)]], [[1.0]])


def compute_8(
    lr: float,
    dim: int,
    runs: int,
    large: int,
    large_runs: int,
    end: float,
    points: int,
    fast: list[float],
    seed: int,
) -> "Dataset":
    """Return m of theory and runs: twice and once, and once at a larger N.

    fast_theory: the theory of samples used twice at larger rates.
    """
    import xarray as xr

    times = tu.linear_times(end, points)
    coordinates = {"time": times, "rate": fast, "lr": lr, "dim": dim, "large": large}
    data = xr.Dataset(coords=coordinates)
    cases = [
        ("twice", 2, dim, runs),
        ("once", 1, dim, runs),
        ("large", 1, large, large_runs),
    ]
    for place, (name, uses, N, count) in enumerate(cases):
        problem = reused(uses, lr)
        start = begin(N)
        theory = tu.solve(problem, start, times)
        seen = tu.simulate(
            problem,
            start,
            dim=N,
            times=times,
            runs=count,
            seed=seed + place,
            together=True,
        )
        runs_m = np.asarray(seen.R[:, :, 0, 0])
        data[f"{name}_theory"] = ("time", np.asarray(theory.R[:, 0, 0]))
        data[f"{name}_runs"] = ((f"{name}_run", "time"), runs_m)
    rates = [tu.solve(reused(2, rate), begin(dim), times).R[:, 0, 0] for rate in fast]
    data["fast_theory"] = (("rate", "time"), np.array(rates))
    return data


def claims_8(data: "Dataset") -> Iterator[Claim]:
    """Digits of the theory, and the behavior of every run."""
    N = int(data["dim"])
    for time, m in DIGITS.items():
        theory = data["twice_theory"].sel(time=time, method="nearest")
        yield close(f"twice: m({time:g})", theory, m, absolute=6e-4)
    yield close("once: m(50)", data["once_theory"][-1], ONCE, absolute=6e-4)
    highest = data["twice_runs"].max("time")
    yield _of_every_run(
        at_least(
            f"twice, N = {N}: smallest over runs of the largest m",
            highest.min(),
            LEARNED,
        )
    )
    yield at_least(
        f"twice, N = {N}: share of runs that pass {LEARNED:g}",
        (highest > LEARNED).mean(),
        0.98,
    )
    yield below(
        f"once, N = {N}: median of |m| over runs, largest of all times",
        abs(data["once_runs"]).median("once_run").max(),
        UNLEARNED,
    )
    large = int(data["large"])
    largest = abs(data["large_runs"]).max()
    yield _of_every_run(
        below(f"once, N = {large}: largest |m| of all runs", largest, UNLEARNED)
    )
    yield below(f"once, N = {large}: largest m of all runs", largest, LEARNED)
    for rate in data["rate"].values:
        theory = data["fast_theory"].sel(rate=rate)
        yield at_most(f"twice, rate {rate:g}: largest m", theory.max(), LEARNED)


def _of_every_run(claim: Claim) -> Claim:
    """A sentence about every run: true of tens of runs, not of hundreds."""
    if claim.verdict == PASS:
        return claim
    return refuted(claim, TAIL)


def draw_8(data: "Dataset") -> "Figure":
    """m against time: samples used twice, used once, and larger rates."""
    small = (
        "Thick: theory from m = N^(-1/2); thin: single runs, "
        f"N = {int(data['dim'])}; rate {float(data['lr']):g}."
    )
    figure, axes = panel_grid(1, 3, "Samples used twice", small, height=3.0, width=10.5)
    twice, once, rates = axes[0]
    _draw_uses(twice, data, "twice", 0)
    _draw_uses(once, data, "once", 1)
    _draw_rates(rates, data)
    label_panel(twice, "used twice")
    label_panel(once, "used once")
    label_panel(rates, "twice, by rate")
    for panel in axes[0]:
        panel.set(xlabel=TIME, ylabel=OVERLAP, ylim=(-0.3, 1.05))
        legend_below(panel)
    return figure


def _draw_uses(panel: Any, data: "Dataset", name: str, look: int) -> None:
    """Theory and twenty single runs."""
    times = data["time"].values
    thin = {"color": COLORS[2], "linewidth": 0.5}
    first, *others = data[f"{name}_runs"].values[:20]
    panel.plot(times, first, **thin, label="runs")
    for run in others:
        panel.plot(times, run, **thin)
    line = line_of(look) | {"linewidth": 2, "label": f"theory, {name}"}
    panel.plot(times, data[f"{name}_theory"], **line)


def _draw_rates(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    label = f"rate {float(data['lr']):g}"
    panel.plot(times, data["twice_theory"], color=COLORS[0], label=label)
    for look, rate in enumerate(data["rate"].values, start=1):
        theory = data["fast_theory"].sel(rate=rate)
        panel.plot(times, theory, **line_of(look), label=f"rate {rate:g}")


PRINTED: dict[str, Any] = {
    "lr": 0.4,
    "dim": 1000,
    "large": 10_000,
    "end": 50.0,
    "points": 51,
    "seed": 8,
}

FIGURES = (
    Replica(
        id="rules-8",
        source="rules",
        figure="reuse",
        title="Samples used twice find a target that single uses miss",
        full=PRINTED | {"runs": 200, "large_runs": 20, "fast": [0.8, 1.2]},
        quick=PRINTED | {"runs": 30, "large_runs": 3, "fast": [0.8]},
        compute=compute_8,
        draw=draw_8,
        claims=claims_8,
    ),
)
