"""A committee that learns classes (logistic loss) against one that learns numbers (squared loss) from the same teacher."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

LOSSES = {"logistic": "sign", "squared": "real"}  # and the labels that each is made for
R_DIGITS = [[2.23793, 0.82963], [2.16204, 0.84527]]
Q_DIGITS = [[5.81200, 5.64589], [5.64589, 5.50433]]
LOSS_DIGITS = {10.0: 0.336697, 40.0: 0.250309}
START: dict[str, Any] = {"R": [[0.3, 0.05], [0.02, 0.2]], "Q": [[0.5, 0.1], [0.1, 0.4]]}
WITHIN = 0.01


def committee(loss: str, second: float, lr: float) -> "tu.Problem":
    """Two erf units learn from two others, whose readouts are 1 and `second`."""
    teacher = tu.Network(2, "erf", readout=[1.0, second])
    return tu.Problem(
        tu.Network(2, "erf"),
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
    """X_late: the theory of both losses; runs beside it up to `runs_end`; X_long: from a nearly symmetric start."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start(**START)
    times = tu.linear_times(end, points)
    long = tu.linear_times(last, points)
    size = 0.2
    even = np.ones((2, 2))
    near = tu.Start(
        size * even + asymmetry * (2 * np.eye(2) - 1), size * even + 0.3 * np.eye(2)
    )
    parts = []
    for i, loss in enumerate(LOSSES):
        options: dict[str, Any] = (
            {"moments": tu.Sampled(sampled)} if loss == "logistic" else {}
        )
        uneven = committee(loss, 0.5, lr)
        equal = committee(loss, 1.0, lr)
        early = tu.linear_times(runs_end, points)
        data = against_runs(
            uneven, start, dim=dim, times=early, runs=runs, seed=seed + i, **options
        )
        late = tu.solve(uneven, start, times, **options)
        plateau = tu.solve(equal, near, long, **options)
        parts.append(
            data.assign(
                R_late=(("late", "student", "teacher"), np.asarray(late.R)),
                Q_late=(("late", "student", "student2"), np.asarray(late.Q)),
                loss_late=("late", np.asarray(late.loss)),
                error_late=("late", np.asarray(late.error)),
                error_long=("long", np.asarray(plateau.error)),
                specialized=(
                    "long",
                    specialization(np.asarray(plateau.R), np.asarray(plateau.Q)),
                ),
                sampling_error=("late", np.asarray(late.sampling_error)),
            )
        )
    names = xr.DataArray(list(LOSSES), dims="loss", name="loss")
    return (
        xr.concat(parts, dim=names)
        .assign_coords(late=times, long=long)
        .assign(dim=dim, runs=runs, lr=lr)
    )


def specialization(R: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """By how much the cosine of a unit with its own teacher exceeds that with the other one, mean of both units."""
    cosine = R / np.sqrt(np.diagonal(Q, axis1=1, axis2=2))[:, :, None]
    return (cosine[:, 0, 0] + cosine[:, 1, 1] - cosine[:, 0, 1] - cosine[:, 1, 0]) / 2


def claims_3(data: "Dataset") -> list[Claim]:
    """Digits of the logistic loss, bands of both, and what becomes of the symmetry between the units."""
    from tutelage_papers.bands import inside_claims

    part = data.sel(loss="logistic")
    last = part.isel(late=-1)
    R_gap = np.abs(last["R_late"].values / R_DIGITS - 1).max()
    Q_gap = np.abs(last["Q_late"].values / Q_DIGITS - 1).max()
    claims = [
        at_most(
            "logistic: largest relative gap to the digits of R at alpha = 40",
            R_gap,
            WITHIN,
        ),
        at_most(
            "logistic: largest relative gap to the digits of Q at alpha = 40",
            Q_gap,
            WITHIN,
        ),
    ]
    for t, digits in LOSS_DIGITS.items():
        claims.append(
            close(
                f"logistic: mean loss at alpha = {t:g}",
                float(part["loss_late"].sel(late=t)),
                digits,
                rel=WITHIN,
            )
        )
    for loss in data["loss"].values:
        claims += inside_claims(data.sel(loss=loss), str(loss))
    return claims + _measured(data)


def _measured(data: "Dataset") -> list[Claim]:
    """Plateau and specialization: what was found. Classes do not tell the units apart, numbers do."""
    logistic, squared = (data["specialized"].sel(loss=loss).values for loss in LOSSES)
    long = data["long"].values
    half = float(np.interp(0.5, np.maximum.accumulate(squared), long))
    what = f"specialization from a nearly symmetric start ({squared[0]:.3f} there), alpha = {long[-1]:g}"
    return [
        below(
            f"logistic: {what} (measured)",
            float(np.abs(logistic[-1])),
            float(squared[0]),
        ),
        above(f"squared: {what} (measured)", float(squared[-1]), 0.5),
        below("squared: time at which it is 1/2 (measured)", half, float(long[-1])),
    ]


def draw_3(data: "Dataset") -> "Figure":
    """Errors with runs, overlaps of the logistic committee, and the way out of the symmetric state."""
    small = (
        f"η = {float(data['lr']):g}. Lines: theory; marks: mean of {int(data['runs'])} runs, N = {int(data['dim'])}; "
        "bands: ± 2 standard errors of it. Right: equal teachers, nearly symmetric start."
    )
    title = "A committee learns classes and numbers from the same teacher"
    figure, axes = panel_grid(1, 3, title, small, height=3.1, width=10.5)
    left, middle, right = axes[0]
    times = data["time"].values
    late = data["late"].values
    units = {"logistic": "logistic: wrong classes", "squared": r"squared: $\epsilon_g$"}
    for look, (loss, label) in enumerate(units.items()):
        part = data.sel(loss=loss)
        draw_band(
            left,
            times,
            *(part[f"error{ending}"].values for ending in ("", "_mean", "_se")),
            look=look,
            label=label,
        )
        right.plot(
            data["long"],
            part["specialized"],
            color=COLORS[look],
            linestyle=DASHES[look],
            label=f"{loss} loss",
        )
    part = data.sel(loss="logistic")
    for k in range(2):
        for m in range(2):
            middle.plot(
                late,
                part["R_late"][:, k, m],
                color=COLORS[k],
                linestyle=DASHES[m],
                label=f"$R_{{{k + 1}{m + 1}}}$",
            )
        middle.plot(
            late,
            part["Q_late"][:, k, k],
            color=COLORS[2 + k],
            label=f"$Q_{{{k + 1}{k + 1}}}$",
        )
    left.set(xlabel=TIME, ylabel="error", yscale="log")
    middle.set(xlabel=TIME, ylabel="overlaps")
    right.set(xlabel=TIME, ylabel="specialization")
    for panel, text in zip(
        axes[0],
        ("errors", "overlaps, logistic loss", "out of the symmetric state"),
        strict=True,
    ):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


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
