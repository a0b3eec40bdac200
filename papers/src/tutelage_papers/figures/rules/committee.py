"""A committee that learns classes, and one that learns numbers, from the same teacher.

Classes are learned by logistic loss, numbers by squared loss.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import draw_error, legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

LOSSES = {"logistic": "sign", "squared": "real"}  # and the labels that each is made for
# Overlaps and mean losses of the logistic committee at alpha = 40 and at these times.
R_DIGITS = [[2.23793, 0.82963], [2.16204, 0.84527]]
Q_DIGITS = [[5.81200, 5.64589], [5.64589, 5.50433]]
LOSS_DIGITS = {10.0: 0.336697, 40.0: 0.250309}
START: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}
WITHIN = 0.01


def committee(loss: str, second: float, lr: float) -> "tu.Problem":
    """Two erf units learn from two others, whose readouts are 1 and `second`."""
    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf", readout=[1.0, second])
    return tu.Problem(
        student,
        teacher,
        loss=loss,
        labels=LOSSES[loss],
        optimizer=tu.SGD(lr=lr),
    )


def compute_3(
    lr: float,
    end: float,
    points: int,
    sampled: int,
    dim: int,
    runs: int,
    runs_end: float,
    asymmetry: float,
    last: float,
    seed: int,
) -> "Dataset":
    """Return theory and runs of both losses, and specialization from near symmetry.

    X_late: the theory; runs lie beside it up to `runs_end`. X_long: from a nearly
    symmetric start, with equal teachers.
    """
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start(**START)
    even = 0.2 * np.ones((2, 2))
    tilt = asymmetry * (2 * np.eye(2) - 1)
    near_symmetric = tu.Start(even + tilt, even + 0.3 * np.eye(2))
    times = tu.linear_times(end, points)
    early = tu.linear_times(runs_end, points)
    long = tu.linear_times(last, points)
    parts: list[Dataset] = []
    for place, loss in enumerate(LOSSES):
        options: dict[str, Any] = {}
        if loss == "logistic":
            options["moments"] = tu.Sampled(sampled)
        uneven = committee(loss, 0.5, lr)
        equal = committee(loss, 1.0, lr)
        part = against_runs(
            uneven, start, dim=dim, times=early, runs=runs, seed=seed + place, **options
        )
        late = tu.solve(uneven, start, times, **options)
        plateau = tu.solve(equal, near_symmetric, long, **options)
        specialized = specialization(np.asarray(plateau.R), np.asarray(plateau.Q))
        part["R_late"] = (("late", "student", "teacher"), np.asarray(late.R))
        part["Q_late"] = (("late", "student", "student2"), np.asarray(late.Q))
        part["loss_late"] = ("late", np.asarray(late.loss))
        part["error_late"] = ("late", np.asarray(late.error))
        part["sampling_error"] = ("late", np.asarray(late.sampling_error))
        part["error_long"] = ("long", np.asarray(plateau.error))
        part["specialized"] = ("long", specialized)
        parts.append(part)
    names = xr.DataArray(list(LOSSES), dims="loss", name="loss")
    data = xr.concat(parts, dim=names).assign_coords(late=times, long=long)
    return data.assign(dim=dim, runs=runs, lr=lr)


def specialization(R: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the cosine of units with their own teacher less that with the other one.

    It is averaged over both units.
    """
    lengths = np.sqrt(np.diagonal(Q, axis1=1, axis2=2))
    cosine = R / lengths[:, :, None]
    return (cosine[:, 0, 0] + cosine[:, 1, 1] - cosine[:, 0, 1] - cosine[:, 1, 0]) / 2


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Digits of the logistic loss, bands of both, and the symmetry between units."""
    from tutelage_papers.bands import inside_claims

    part = data.sel(loss="logistic")
    last = part.isel(late=-1)
    yield at_most(
        "logistic: largest relative gap to the digits of R at alpha = 40",
        np.abs(last["R_late"].values / R_DIGITS - 1).max(),
        WITHIN,
    )
    yield at_most(
        "logistic: largest relative gap to the digits of Q at alpha = 40",
        np.abs(last["Q_late"].values / Q_DIGITS - 1).max(),
        WITHIN,
    )
    for time, digits in LOSS_DIGITS.items():
        yield close(
            f"logistic: mean loss at alpha = {time:g}",
            part["loss_late"].sel(late=time),
            digits,
            rel=WITHIN,
        )
    for loss in data["loss"].values:
        yield from inside_claims(data.sel(loss=loss), str(loss))
    yield from _specialization_claims(data)


def _specialization_claims(data: "Dataset") -> Iterator[Claim]:
    """Classes do not tell the units apart, numbers do: measured, not from a source."""
    logistic = data["specialized"].sel(loss="logistic").values
    squared = data["specialized"].sel(loss="squared").values
    times = data["long"].values
    words = (
        f"specialization from a nearly symmetric start ({squared[0]:.3f} there), "
        f"alpha = {times[-1]:g}"
    )
    yield below(f"logistic: {words} (measured)", np.abs(logistic[-1]), squared[0])
    yield above(f"squared: {words} (measured)", squared[-1], 0.5)
    half = np.interp(0.5, np.maximum.accumulate(squared), times)
    yield below("squared: time at which it is 1/2 (measured)", half, times[-1])


def draw_3(data: "Dataset") -> "Figure":
    """Errors with runs, overlaps of the logistic committee, and the symmetric state."""
    small = (
        f"η = {float(data['lr']):g}. Lines: theory; marks: mean of {int(data['runs'])} "
        f"runs, N = {int(data['dim'])}; bands: ± 2 standard errors of it. Right: equal "
        "teachers, nearly symmetric start."
    )
    title = "A committee learns classes and numbers from the same teacher"
    figure, axes = panel_grid(1, 3, title, small, height=3.1, width=10.5)
    errors, overlaps, specialized = axes[0]
    labels = {
        "logistic": "logistic: wrong classes",
        "squared": r"squared: $\epsilon_g$",
    }
    for look, (loss, label) in enumerate(labels.items()):
        part = data.sel(loss=loss)
        draw_error(errors, part, look=look, label=label)
        line = line_of(look) | {"label": f"{loss} loss"}
        specialized.plot(data["long"], part["specialized"], **line)
    _draw_overlaps(overlaps, data.sel(loss="logistic"))
    errors.set(xlabel=TIME, ylabel="error", yscale="log")
    overlaps.set(xlabel=TIME, ylabel="overlaps")
    specialized.set(xlabel=TIME, ylabel="specialization")
    label_panel(errors, "errors")
    label_panel(overlaps, "overlaps, logistic loss")
    label_panel(specialized, "out of the symmetric state")
    for panel in axes[0]:
        legend_below(panel)
    return figure


def _draw_overlaps(panel: Any, part: "Dataset") -> None:
    late = part["late"].values
    for k in range(2):
        for m in range(2):
            label = f"$R_{{{k + 1}{m + 1}}}$"
            line = line_of(k, dashes=m) | {"label": label}
            panel.plot(late, part["R_late"][:, k, m], **line)
        label = f"$Q_{{{k + 1}{k + 1}}}$"
        panel.plot(late, part["Q_late"][:, k, k], color=COLORS[2 + k], label=label)


PRINTED: dict[str, Any] = {
    "lr": 1.0,
    "end": 40.0,
    "points": 21,
    "asymmetry": 0.02,
    "last": 200.0,
    "seed": 3,
}

FIGURES = (
    Replica(
        id="rules-3",
        source="rules",
        figure="committee",
        title="a committee learns classes and numbers from the same teacher",
        full=PRINTED | {"sampled": 2**16, "dim": 1000, "runs": 100, "runs_end": 40.0},
        quick=PRINTED | {"sampled": 2**15, "dim": 500, "runs": 24, "runs_end": 10.0},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
