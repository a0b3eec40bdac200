"""One erf unit learns noisy labels for ten epochs: training and test error part."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import INK, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_least, at_most, below, between, close
from tutelage_papers.drawing import GUIDE, draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RATIO = 2.0
# Training loss, R and Q at alpha = 2, 6, 12, 20 by a slow prototype of the theory, which
# 150 networks of N = 1000 have confirmed.
DIGITS = {
    2.0: (0.15100, 0.54507, 0.69971),
    6.0: (0.09726, 0.76352, 1.01365),
    12.0: (0.08238, 0.89801, 1.34940),
    20.0: (0.07459, 0.99848, 1.69050),
}


def problem() -> "tu.Problem":
    """One unit learns from another one with label noise, two samples per dimension."""
    unit = tu.Network(1, "erf")
    return tu.Problem(
        unit, unit, noise=0.5, optimizer=tu.SGD(1.0), data=tu.DataSet(RATIO)
    )


def compute_1(accuracy: float, dim: int, runs: int, seed: int) -> "Dataset":
    """Return the theory, runs with a data set each, and the theory of fresh samples."""
    import equinox as eqx

    from tutelage_papers.bands import band

    start = tu.Start(R=[[0.2]], Q=[[0.5]])
    times = tu.linear_times(20.0, 41)
    theory = tu.solve(problem(), start, times, accuracy=accuracy)
    fresh = tu.solve(problem().replace(data=None), start, times)
    networks = tu.simulate(problem(), start, dim=dim, times=times, runs=runs, seed=seed)
    # compared with the same networks, as if it were a theory of their problem
    wrong = eqx.tree_at(lambda t: t.problem, fresh, problem())
    data = band(theory, networks, wrong)
    stop = tu.analysis.early_stopping(theory)
    assert isinstance(stop, tu.analysis.EarlyStopping)
    data["epoch"] = ("time", theory.epochs)
    data["train"] = ("time", theory.train_loss)
    data["train_mean"] = ("time", networks.train_loss.mean(axis=0))
    scatter = networks.train_loss.std(axis=0, ddof=1) / np.sqrt(runs)
    data["train_se"] = ("time", scatter)
    data["train_bound"] = ("time", theory.sampling_errors["train_loss"])
    return data.assign(
        stop_time=stop.time, stop_error=stop.value, accuracy=accuracy, runs=runs
    )


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """The digits, the minimum of the test error, runs, and the theory that must fail."""
    accuracy = float(data["accuracy"])
    for time, digits in DIGITS.items():
        now = data.sel(time=time)
        for name, digit in zip(("train", "R", "Q"), digits, strict=True):
            largest = float(abs(data[name]).max())
            yield close(
                f"{name} at alpha = {time:g}",
                np.ravel(now[name])[0],
                digit,
                absolute=2 * accuracy * largest + 3e-3 * digit,
            )
    bound = data["train_bound"].values
    rise = np.diff(data["train"].values) - np.hypot(bound[1:], bound[:-1])
    yield at_most("largest rise of the training loss beyond its error", rise.max(), 0.0)
    yield between("time of the least test error", data["stop_time"], 5.5, 9.0)
    yield close("least test error", data["stop_error"], 0.0858, rel=0.015)
    last = data["error"][-1] / data["stop_error"]
    yield between("test error after ten epochs over the least one", last, 1.1, 1.25)
    yield at_least("share of times inside the band of the runs", data["inside"], 0.95)
    yield below(
        "the same with the theory of fresh samples, which must fail",
        data["inside_wrong"],
        0.5,
    )
    fresh = data["error_wrong"][-1] / data["error"][-1]
    yield below("test error with fresh samples after ten epochs, over that", fresh, 0.9)


def draw_1(data: "Dataset") -> "Figure":
    """Training and test error against epochs, and the overlaps."""
    title = "Ten epochs with noisy labels"
    small = f"One erf unit, two samples per dimension; {int(data['runs'])} networks"
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    _draw_errors(axes[0, 0], data)
    _draw_overlaps(axes[0, 1], data)
    for panel in axes[0]:
        panel.set_xlabel("epochs")
        panel.legend()
    return figure


def _draw_errors(panel: Any, data: "Dataset") -> None:
    epochs = data["epoch"].values
    draw_band(
        panel,
        epochs,
        data["train"],
        data["train_mean"],
        data["train_se"],
        look=0,
        label="training loss",
    )
    draw_band(
        panel,
        epochs,
        data["error"],
        data["error_mean"],
        data["error_se"],
        look=1,
        label="test error, noiseless label",
    )
    panel.plot(epochs, data["error_wrong"], **GUIDE, label="fresh samples")
    stop = float(data["stop_time"]) / RATIO
    panel.axvline(stop, color=INK, linewidth=0.8, label="least test error")
    panel.set_yscale("log")
    panel.set_ylabel("error")
    label_panel(panel, "Training and test error")


def _draw_overlaps(panel: Any, data: "Dataset") -> None:
    epochs = data["epoch"].values
    for place, name in enumerate(("R", "Q")):
        values = data[name].values.ravel()
        mean = data[f"{name}_mean"].values.ravel()
        error = data[f"{name}_se"].values.ravel()
        draw_band(panel, epochs, values, mean, error, look=place, label=name)
        panel.plot(epochs, data[f"{name}_wrong"].values.ravel(), **GUIDE)
    panel.set_ylabel("overlap")
    label_panel(panel, "Overlaps; dotted: fresh samples")


FIGURES = (
    Replica(
        id="data-1",
        source="data",
        figure="Overfitting",
        title="training and test error of one unit over ten epochs",
        full={"accuracy": 2e-3, "dim": 1000, "runs": 150, "seed": 1},
        quick={"accuracy": 5e-3, "dim": 400, "runs": 40, "seed": 1},
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
