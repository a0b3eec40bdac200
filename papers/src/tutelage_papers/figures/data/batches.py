"""From single samples to the whole data set in each step, at equal rate per sample.

A batch of b with learning rate b eta has, in the limit of large N, the law of single
samples with learning rate eta: its samples overlap by O(1 / sqrt(N)) only, and time runs
b times slower. So differences fall like b / N. A share of the data set in each step is
another law: there, samples of one step act on each other. The noise of SGD disappears
only when the step uses all samples.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, between
from tutelage_papers.drawing import draw_power, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RATIO = 2.0
RATE = 1.0  # of single samples
BATCH = 10


def problem(optimizer: Any) -> "tu.Problem":
    """One erf unit learns from another one with label noise."""
    unit = tu.Network(1, "erf")
    data = tu.DataSet(RATIO)
    return tu.Problem(unit, unit, noise=0.5, optimizer=optimizer, data=data)


def start() -> "tu.Start":
    """The common initial condition."""
    return tu.Start(R=[[0.2]], Q=[[0.5]])


def optimizers() -> dict[str, tuple[Any, float]]:
    """Return each optimizer with the length of an epoch in its units of time.

    In one epoch all of them move the weights by the same multiple of the mean gradient.
    """
    Descent = tu.optimizers.GradientDescent
    return {
        "single samples": (tu.SGD(RATE), RATIO),
        "batch 10": (tu.SGD(RATE * BATCH, batch=BATCH), RATIO / BATCH),
        "a tenth of the data": (Descent(RATE * RATIO / 10, share=0.1), 10.0),
        "half of the data": (Descent(RATE * RATIO / 2, share=0.5), 2.0),
        "all data": (Descent(RATE * RATIO), 1.0),
    }


def compute_7(
    epochs: int, accuracy: float, dims: list[int], runs: int, seed: int
) -> "Dataset":
    """Return curves of all optimizers, and gaps between batches of 10 and of 1 by N."""
    import xarray as xr

    counted = np.arange(epochs + 1)
    kinds = optimizers()
    curves = np.empty((len(kinds), 3, epochs + 1))
    for row, (optimizer, length) in enumerate(kinds.values()):
        theory = tu.solve(
            problem(optimizer), start(), counted * length, accuracy=accuracy
        )
        curves[row] = [theory.error, theory.train_loss, theory.Q[:, 0, 0]]
    data = xr.Dataset(
        {"curve": (("kind", "quantity", "epoch"), curves)},
        coords={
            "kind": list(kinds),
            "quantity": ["error", "train", "Q"],
            "epoch": counted,
        },
    )
    gap = np.empty(len(dims))
    error = np.empty(len(dims))
    wrong = np.empty(len(dims))
    for i, dim in enumerate(dims):
        gap[i], error[i], wrong[i] = batch_gap(dim, runs, seed + i)
    data = data.assign_coords(dim=dims)
    data["gap"] = ("dim", gap)
    data["gap_se"] = ("dim", error)
    data["gap_wrong"] = ("dim", wrong)
    return data.assign(accuracy=accuracy)


def batch_gap(dim: int, runs: int, seed: int) -> tuple[float, float, float]:
    """Return Q of batches of 10 minus Q of single samples, its error, and a control.

    After two epochs. The same seed gives both the same data sets and the same order of
    samples, so that their difference is known far better than each. The control has a
    learning rate that is 5% too large.
    """
    end = 2 * RATIO
    single = _last_Q(tu.SGD(RATE), dim, end, runs, seed)
    scaled = tu.SGD(RATE * BATCH, batch=BATCH)
    gap = _last_Q(scaled, dim, end / BATCH, runs, seed) - single
    faster = tu.SGD(1.05 * RATE * BATCH, batch=BATCH)
    wrong = _last_Q(faster, dim, end / BATCH, runs, seed) - single
    error = gap.std(ddof=1) / np.sqrt(runs)
    return float(gap.mean()), float(error), float(wrong.mean())


def _last_Q(optimizer: Any, dim: int, end: float, runs: int, seed: int) -> np.ndarray:
    networks = tu.simulate(
        problem(optimizer), start(), dim=dim, times=[0.0, end], runs=runs, seed=seed
    )
    return networks.Q[:, -1, 0, 0]


def claims_7(data: "Dataset") -> Iterator[Claim]:
    """Batches of ten are single samples; shares lie between SGD and descent."""
    curve = data["curve"]
    scale = abs(curve).max(("kind", "epoch"))
    batch = curve.sel(kind="batch 10")
    difference = abs(batch - curve.sel(kind="single samples")) / scale
    yield at_most(
        "theory: batch 10 with ten times the rate against single samples",
        difference.max(),
        3 * float(data["accuracy"]),
    )
    last = curve.sel(quantity="error").isel(epoch=-1)
    order = ["single samples", "half of the data", "all data"]
    for one, other in itertools.pairwise(order):
        yield below(
            f"test error at the end, {other} over {one}",
            float(last.sel(kind=other) / last.sel(kind=one)),
            1.0,
        )
    gap = data["gap"].values
    error = data["gap_se"].values
    z = np.abs(gap / error)
    small = data["dim"].values[0]
    yield above(f"networks of N = {small}: |z| of batch 10 against 1", z[0], 3.0)
    weights = 1 / error**2
    share = BATCH / data["dim"].values
    slope = np.sum(weights * share * gap) / np.sum(weights * share**2)
    chi = np.sum(((gap - slope * share) / error) ** 2)
    yield at_most(
        "gaps of all N against a law b / N: chi squared per degree of freedom",
        chi / (gap.size - 1),
        4.0,
    )
    yield between("gap of Q times N / b", slope, 0.1, 0.3)
    control = (float(data["gap_wrong"][-1]) - slope * share[-1]) / error[-1]
    yield above(
        "a rate that is 5% too large, which must differ: |z| at the largest N",
        abs(control),
        5.0,
    )


def draw_7(data: "Dataset") -> "Figure":
    """Test and training error against epochs, and the gap of batches against N."""
    title = "From single samples to gradient descent"
    small = "Equal rate per sample; one erf unit, two samples per dimension"
    figure, axes = panel_grid(1, 3, title, small, height=3.2, width=11.0)
    names = ("error", "train")
    for place, kind in enumerate(data["kind"].values):
        look = {"color": COLORS[place], "linestyle": DASHES[place % len(DASHES)]}
        for panel, name in zip(axes[0], names, strict=False):
            values = data["curve"].sel(kind=kind, quantity=name)
            panel.plot(data["epoch"], values, **look, label=str(kind))
    labels = ("Test error", "Training loss")
    for panel, label in zip(axes[0], labels, strict=False):
        label_panel(panel, label)
        panel.set_xlabel("epochs")
        panel.set_yscale("log")
    axes[0, 0].legend()
    panel = axes[0, 2]
    dims = data["dim"].values
    size = abs(data["gap"].values)
    panel.errorbar(
        dims, size, data["gap_se"], color=COLORS[0], marker=MARKERS[0], linestyle="none"
    )
    draw_power(panel, dims, size[0], -1.0, "1 / N")
    panel.set_xscale("log")
    panel.set_yscale("log")
    tick_each(panel, dims)
    panel.set_xlabel("N")
    label_panel(panel, "|Q of batch 10 - Q of batch 1|, two epochs")
    panel.legend()
    return figure


FIGURES = (
    Replica(
        id="data-7",
        source="data",
        figure="Batches",
        title="batches and shares of the data set at equal rate per sample",
        full={
            "epochs": 10,
            "accuracy": 2e-3,
            "dims": [50, 100, 200, 400],
            "runs": 400,
            "seed": 1,
        },
        quick={
            "epochs": 4,
            "accuracy": 5e-3,
            "dims": [40, 80, 160],
            "runs": 60,
            "seed": 1,
        },
        compute=compute_7,
        draw=draw_7,
        claims=claims_7,
    ),
)
