"""The ingredients of SGD in the notes, one at a time.

They are batches, decay, a schedule, momentum and hidden biases. Our copy of the notes
lacks its displayed equations, so claims are held against our own derivations
(docs/notation.md).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tutelage as tu
from tutelage.plot import TIME, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim
from tutelage_papers.drawing import GUIDE, draw_band, draw_error
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def ingredients() -> "dict[str, tu.Problem]":
    """Two erf units learn from two others, each time with one ingredient."""

    plain = tu.Network(2, "erf")

    def problem(
        optimizer: tu.SGD, student: tu.Network = plain, teacher: tu.Network = plain
    ) -> tu.Problem:
        return tu.Problem(student, teacher, optimizer=optimizer, noise=0.2)

    falling = tu.schedules.PowerDecay(2.0, exponent=0.5, timescale=5.0)
    return {
        "batches of 3": problem(tu.SGD(2.0, batch=3)),
        "weight decay": problem(tu.SGD(1.0, weight_decay=0.05)),
        "falling rate": problem(tu.SGD(falling)),
        "momentum": problem(tu.SGD(0.5, momentum=0.5)),
        "slow momentum": problem(tu.SGD(1.0, momentum=tu.SlowMomentum(gamma=1.0))),
        "hidden biases": problem(
            tu.SGD(1.0),
            student=tu.Network(2, "erf", train_bias=True),
            teacher=tu.Network(2, "erf", bias=[0.5, -0.3]),
        ),
    }


def compute_4(
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
    points: int,
    dim: int,
    dims: dict[str, int],
    runs: int,
    seed: int,
) -> "Dataset":
    """Return a band for each ingredient. dims: N where it is not `dim`."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    bands: dict[str, Dataset] = {}
    for place, (name, problem) in enumerate(ingredients().items()):
        bands[name] = against_runs(
            problem,
            start,
            dim=dims.get(name, dim),
            times=times,
            runs=runs,
            seed=seed + place,
        )
    cases = xr.DataArray(list(bands), dims="case", name="case")
    return xr.concat(bands.values(), dim=cases)


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """Each theory is inside the band of its runs."""
    from tutelage_papers.bands import inside_claims

    for case in data["case"].values:
        yield from inside_claims(data.sel(case=case), str(case))


def draw_4(data: "Dataset") -> "Figure":
    """For each ingredient the error above, and the overlaps below."""
    title = "The ingredients of SGD, one at a time: two erf units learn from two others"
    small = (
        "Lines: theory; marks: mean of the runs; bands: ± 2 standard errors of it; "
        "dotted gray: theory with 0.9 G."
    )
    figure, axes = panel_grid(4, 3, title, small, height=2.0, sharex=True, sharey=False)
    for place, case in enumerate(data["case"].values):
        part = data.sel(case=case)
        column = place % 3
        error = axes[2 * (place // 3), column]
        overlaps = axes[2 * (place // 3) + 1, column]
        draw_error(error, part)
        error.plot(part["time"], part["error_wrong"], **GUIDE, linewidth=1.2)
        error.set_yscale("log")
        _draw_overlaps(overlaps, part)
        label_panel(error, str(case))
        if column == 0:
            error.set_ylabel(r"error $\epsilon_g$")
            overlaps.set_ylabel("overlaps, biases")
        if column == 2:
            outside_legend(overlaps)
    for panel in axes[-1]:
        panel.set_xlabel(TIME)
    figure.align_ylabels(axes[:, 0])
    return figure


# Entries that are drawn, where a problem has them, with their labels.
ENTRIES = (
    ("R", (0, 0), "$R_{11}$"),
    ("R", (0, 1), "$R_{12}$"),
    ("R", (1, 1), "$R_{22}$"),
    ("Q", (0, 0), "$Q_{11}$"),
    ("Q", (0, 1), "$Q_{12}$"),
    ("bias", (0,), "$b_{1}$"),
    ("bias", (1,), "$b_{2}$"),
)


def _draw_overlaps(panel: Any, part: "Dataset") -> None:
    times = part["time"].values
    look = 0
    for name, index, label in ENTRIES:
        if name not in part or not bool(part[name].notnull().all()):
            continue
        entry = (slice(None), *index)
        theory = part[name].values[entry]
        mean = part[f"{name}_mean"].values[entry]
        error = part[f"{name}_se"].values[entry]
        draw_band(panel, times, theory, mean, error, look=look, label=label)
        look += 1


START_4 = {"R": [[0.45, 0.1], [-0.05, 0.35]], "Q": [[0.5, 0.1], [0.1, 0.4]]}

FIGURES = (
    Replica(
        id="notes-4",
        source="notes",
        figure="extensions",
        title="batches, weight decay, a schedule, both limits of momentum, hidden "
        "biases",
        full=START_4
        | {
            "end": 40.0,
            "points": 81,
            "dim": 1000,
            "dims": {"momentum": 5000},
            "runs": 100,
            "seed": 5,
        },
        quick=START_4
        | {
            "end": 20.0,
            "points": 21,
            "dim": 500,
            "dims": {"momentum": 1000},
            "runs": 40,
            "seed": 5,
        },
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
