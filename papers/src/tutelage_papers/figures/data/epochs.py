"""A committee on four samples per dimension: drawn with replacement or in epochs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import GUIDE
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RATIO = 4.0
ORDERS = ("replacement", "epochs")
# Training loss and Q of the first unit with replacement, by a slow prototype of the
# theory, which 150 networks of N = 1000 have confirmed.
DIGITS = {
    2.4: (0.11224, 0.64283),
    7.2: (0.06985, 0.67065),
    14.4: (0.06238, 0.69127),
    24.0: (0.05700, 0.72986),
}


def problem(order: str) -> "tu.Problem":
    """Two units learn from two others."""
    units = tu.Network(2, "erf")
    return tu.Problem(
        units,
        units,
        noise=0.3,
        optimizer=tu.SGD(1.0, weight_decay=0.02),
        data=tu.DataSet(RATIO, order),
    )


def compute_2(end: float, accuracy: float) -> "Dataset":
    """Return the curves of both orders and of fresh samples."""
    import xarray as xr

    start = tu.Start(R=[[0.3, 0.05], [0.02, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
    times = np.arange(0.0, end + 0.2, 0.4)
    parts = []
    for order in ORDERS:
        theory = tu.solve(problem(order), start, times, accuracy=accuracy)
        parts.append(_curves(theory))
    by_order = xr.concat(
        parts, dim=xr.DataArray(list(ORDERS), dims="order", name="order")
    )
    fresh = tu.solve(problem("epochs").replace(data=None), start, times)
    matrix = ("time", "row", "column")
    of_fresh = {
        "R_fresh": (matrix, fresh.R),
        "Q_fresh": (matrix, fresh.Q),
        "error_fresh": ("time", fresh.error),
    }
    data: Any = by_order.assign(of_fresh)
    return data.assign(accuracy=accuracy)


def _curves(theory: "tu.Trajectory") -> "Dataset":
    """R, Q, errors and their bounds along time."""
    import xarray as xr

    bounds = theory.sampling_errors
    matrix = ("time", "row", "column")
    return xr.Dataset(
        {
            "R": (matrix, theory.R),
            "Q": (matrix, theory.Q),
            "error": ("time", theory.error),
            "train": ("time", theory.train_loss),
            "error_bound": ("time", bounds["error"]),
        },
        coords={"time": theory.times},
    )


def first_epoch_gap(data: "Dataset", order: str) -> float:
    """The largest difference of R and Q from fresh samples within the first epoch."""
    early = data.sel(order=order, time=slice(0.0, RATIO + 1e-6))
    gaps = [float(abs(early[x] - early[f"{x}_fresh"]).max()) for x in ("R", "Q")]
    return max(gaps)


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """The digits, the first epoch, and which order learns faster."""
    accuracy = float(data["accuracy"])
    replaced = data.sel(order="replacement")
    for time, (train, norm) in DIGITS.items():
        if time > float(data["time"][-1]) + 1e-6:
            continue
        now = replaced.sel(time=time, method="nearest")
        norm_now = now["Q"].values[0, 0]
        by_name = {
            "training loss": (now["train"], train, replaced["train"].max()),
            "Q of unit 1": (norm_now, norm, replaced["Q"].max()),
        }
        for name, (value, digit, largest) in by_name.items():
            yield close(
                f"{name} at alpha = {time:g}",
                value,
                digit,
                absolute=2 * accuracy * float(largest) + 2e-3 * digit,
            )
    yield at_most(
        "first epoch of permutations: difference from fresh samples",
        first_epoch_gap(data, "epochs"),
        1e-3 + accuracy / 2,
    )
    yield above(
        "the same with replacement, which must differ",
        first_epoch_gap(data, "replacement"),
        0.01,
    )
    for epoch in range(1, int(float(data["time"][-1]) / RATIO) + 1):
        now = data.sel(time=RATIO * epoch, method="nearest")
        errors = [float(now["error"].sel(order=order)) for order in ORDERS]
        yield below(
            f"test error of permutations over that with replacement, epoch {epoch}",
            errors[1] / errors[0],
            1.0,
        )


def draw_2(data: "Dataset") -> "Figure":
    """Test and training error against epochs, for both orders."""
    title = "Permutations learn faster per epoch"
    small = "Committee of two erf units, four samples per dimension, label noise 0.3"
    figure, axes = panel_grid(1, 2, title, small, height=3.2)
    epochs = data["time"].values / RATIO
    for place, order in enumerate(ORDERS):
        curves = data.sel(order=order)
        look: dict[str, Any] = {"color": COLORS[place], "linestyle": DASHES[place]}
        axes[0, 0].plot(epochs, curves["error"], **look, label=order)
        axes[0, 1].plot(epochs, curves["train"], **look, label=order)
    axes[0, 0].plot(epochs, data["error_fresh"], **GUIDE, label="fresh samples")
    for panel, name in zip(axes[0], ("test error", "training loss"), strict=True):
        panel.set_yscale("log")
        panel.set_xlabel("epochs")
        panel.set_ylabel(name)
        panel.legend()
    label_panel(axes[0, 0], "Generalization error")
    label_panel(axes[0, 1], "Loss on the stored labels")
    return figure


FIGURES = (
    Replica(
        id="data-2",
        source="data",
        figure="Orders",
        title="samples drawn with replacement and in epochs, K = M = 2",
        full={"end": 24.0, "accuracy": 2e-3},
        quick={"end": 8.0, "accuracy": 5e-3},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
