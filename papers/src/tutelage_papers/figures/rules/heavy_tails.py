"""Huber's loss against squared loss when label noise has heavy tails: Student's t with 1.5 degrees of freedom.

The variance of that noise is infinite, so the squared loss has no finite G and no theory; Huber's has both.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import PASS, Claim, above, at_least, at_most, close, refuted
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

FREEDOM = 1.5
SIZE = 0.3
DELTA = 0.5
DIGITS = {2.0: 0.128358, 10.0: 0.033714, 20.0: 0.013226, 40.0: 0.010739}
TAIL = (
    "The ratio is itself heavy-tailed: a jump of Q grows as the square of a label. For sums of 400 squared Student t "
    "numbers (2000 samples of 100 runs in plain NumPy) the largest over the median has the median 162 and exceeds 10^3 in "
    "16% of samples, 10^2 in 63%. Above 10^3 is luck."
)
RTOL = 1e-5  # each step of the theory averages over 400 values of the noise


def heavy(u: Any) -> Any:
    """The quantile function of the noise."""
    from scipy import stats

    return SIZE * stats.t(FREEDOM).ppf(u)


def unit(loss: Any) -> "tu.Problem":
    """An erf unit with a trained readout learns from another, at rate one."""
    student = tu.Network(1, "erf", readout=0.5, train_readout=True)
    return tu.Problem(
        student, tu.Network(1, "erf"), loss=loss, noise=heavy, optimizer=tu.SGD(lr=1.0)
    )


def compute_4(
    R: float,
    Q: float,
    end: float,
    points: int,
    dim: int,
    runs: int,
    late_dim: int,
    late_runs: int,
    tail_dims: list[int],
    tail_runs: int,
    tail_times: list[float],
    seed: int,
) -> "Dataset":
    """Huber: theory, runs and the wrong theory up to `end`; theory at the times of the digits (late).

    Squared loss: e_g of every run at those times (rare); Q of every run of several dimensions at the tail times.
    """
    from tutelage_papers.bands import against_runs

    start = tu.Start([[R]], [[Q]])
    times = tu.linear_times(end, points)
    huber = unit(tu.losses.Huber(DELTA))
    data = against_runs(
        huber, start, dim=dim, times=times, runs=runs, seed=seed, rtol=RTOL
    )
    knots = np.linspace(0.0, points - 1.0, 1 + len(DIGITS))
    digits = np.interp(
        np.arange(points), knots, [0.0, *DIGITS]
    )  # as many times: the program is the same
    late = tu.solve(huber, start, digits, rtol=RTOL)
    rare = np.array([0.0, *DIGITS])
    squared = tu.simulate(
        unit("squared"), start, dim=late_dim, times=rare, runs=late_runs, seed=seed + 1
    )
    tails = [
        tu.simulate(
            unit("squared"),
            start,
            dim=n,
            times=[0.0, *tail_times],
            runs=tail_runs,
            seed=seed + n,
        ).Q[:, 1:, 0, 0]
        for n in tail_dims
    ]
    return data.assign(
        late_error=("late", np.asarray(late.error)),
        squared_error=(("late_run", "rare"), np.asarray(squared.error)),
        tail_Q=(("tail_dim", "run", "tail_time"), np.array(tails)),
        late=digits,
        rare=rare,
        dim=dim,
        runs=runs,
        late_dim=late_dim,
        tail_dim=tail_dims,
        tail_time=tail_times,
    )


def claims_4(data: "Dataset") -> list[Claim]:
    """Digits and band of Huber's loss; what squared loss does."""
    from tutelage_papers.bands import inside_claims

    late = data["late_error"]
    claims = [
        close(f"Huber: e_g({t:g})", float(late.sel(late=t)), value, rel=0.01)
        for t, value in DIGITS.items()
    ]
    claims += inside_claims(data, f"Huber, N = {int(data['dim'])}")
    Q = data["tail_Q"]
    error = data["squared_error"].isel(rare=-1)
    huber = float(late.sel(late=float(data["rare"][-1])))
    ratio = Q.max("run") / Q.median("run")
    sizes = (
        f"{Q.sizes['run']} runs each, N = {', '.join(map(str, Q['tail_dim'].values))}"
    )
    name = f"squared loss, {error.sizes['late_run']} runs, N = {int(data['late_dim'])}, alpha = 40"
    return [
        *claims,
        _tail_claim(
            f"squared loss, {sizes}: largest Q over its median, largest of all N and times",
            float(ratio.max()),
        ),
        at_most(f"{name}: largest e_g, bounded", float(error.max()), 1e3),
        at_least(f"{name}: mean e_g over Huber's", float(error.mean()) / huber, 10.0),
    ]


def _tail_claim(name: str, ratio: float) -> Claim:
    """Above 10^3? The ratio is a random number with a heavy tail itself, so no number of it is certain."""
    claim = above(name, ratio, 1e3)
    return claim if claim.verdict == PASS else refuted(claim, TAIL)


def draw_4(data: "Dataset") -> "Figure":
    """Huber's theory and runs; single runs of squared loss; the tail of their Q."""
    small = (
        f"Noise: {SIZE:g} × Student's t, {FREEDOM:g} d.o.f. Left: line: theory; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; bands: ± 2 standard errors of it. Middle: N = {int(data['late_dim'])}."
    )
    figure, axes = panel_grid(
        1,
        3,
        "Heavy-tailed label noise: Huber's loss and squared loss",
        small,
        height=3.0,
        width=10.5,
    )
    left, middle, right = axes[0]
    times = data["time"].values
    draw_band(
        left, times, data["error"], data["error_mean"], data["error_se"], label="Huber"
    )
    left.plot(
        times,
        data["error_wrong"],
        color=FAINT,
        linestyle=DASHES[2],
        linewidth=1.2,
        label="Huber, 0.9 G",
    )
    error = data["squared_error"].values
    rare = data["rare"].values
    for i in range(min(20, len(error))):
        middle.plot(rare, error[i], color=COLORS[1], linewidth=0.5, alpha=0.5)
    middle.plot(
        rare,
        error.mean(axis=0),
        color=COLORS[1],
        linestyle=DASHES[1],
        label="squared, mean",
    )
    middle.plot([], [], color=COLORS[1], linewidth=0.5, label="squared, single runs")
    middle.plot(
        data["late"].values,
        data["late_error"].values,
        color=COLORS[0],
        label="Huber, theory",
    )
    final = data["tail_Q"].isel(tail_time=-1)
    for look, n in enumerate(data["tail_dim"].values, start=1):
        largest = np.sort(final.sel(tail_dim=n).values)[::-1]
        share = np.arange(1, largest.size + 1) / largest.size
        marks = {
            "linestyle": "none",
            "marker": MARKERS[look],
            "markersize": 3.8,
            "markerfacecolor": "white",
        }
        right.plot(
            largest, share, color=COLORS[look], label=f"squared, N = {n}", **marks
        )
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    middle.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(
        xlabel=rf"$Q$ at $\alpha$ = {float(data['tail_time'][-1]):g}",
        ylabel="share of runs with a larger one",
        xscale="log",
        yscale="log",
    )
    right.margins(0.06)
    for panel, text in zip(
        axes[0], ("Huber's loss", "squared loss", "the tail of $Q$"), strict=True
    ):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)
    return figure


PRINTED: dict[str, Any] = {
    "R": 0.2,
    "Q": 0.5,
    "points": 21,
    "late_dim": 1000,
    "tail_runs": 100,
    "seed": 4,
}

FIGURES = (
    Replica(
        id="rules-4",
        source="rules",
        figure="heavy tails",
        title="Huber's loss against squared loss under heavy-tailed label noise",
        full=PRINTED
        | {"end": 40.0, "dim": 1000, "runs": 100, "late_runs": 100}
        | {
            "tail_dims": [500, 1000, 2000, 4000],
            "tail_times": [1.0, 2.0, 5.0, 10.0, 20.0],
        },
        quick=PRINTED
        | {"end": 10.0, "dim": 500, "runs": 40, "late_runs": 40}
        | {"tail_dims": [1000, 2000, 4000], "tail_times": [0.5, 1.0, 1.5, 2.0]},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
