"""The ingredients of SGD in the notes, one at a time: batches, decay, a schedule, momentum, hidden biases.

Our copy of the notes lacks its displayed equations, so claims are held against our own derivations (docs/notation.md).
"""

from typing import TYPE_CHECKING, Any

import tutelage as tu
from tutelage.plot import DASHES, FAINT, TIME, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def ingredients() -> "dict[str, tu.Problem]":
    """Two erf units learn from two others, each time with one ingredient."""

    def problem(
        optimizer: tu.SGD,
        student: tu.Network | None = None,
        teacher: tu.Network | None = None,
    ) -> tu.Problem:
        return tu.Problem(
            student or tu.Network(2, "erf"),
            teacher or tu.Network(2, "erf"),
            optimizer=optimizer,
            noise=0.2,
        )

    biased = (
        tu.Network(2, "erf", train_bias=True),
        tu.Network(2, "erf", bias=[0.5, -0.3]),
    )
    return {
        "batches of 3": problem(tu.SGD(2.0, batch=3)),
        "weight decay": problem(tu.SGD(1.0, weight_decay=0.05)),
        "falling rate": problem(
            tu.SGD(tu.schedules.PowerDecay(2.0, exponent=0.5, timescale=5.0))
        ),
        "momentum": problem(tu.SGD(0.5, momentum=0.5)),
        "slow momentum": problem(tu.SGD(1.0, momentum=tu.SlowMomentum(gamma=1.0))),
        "hidden biases": problem(tu.SGD(1.0), *biased),
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
    """A band for each ingredient. dims: N where it is not `dim`."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    bands = {
        name: against_runs(
            problem,
            start,
            dim=dims.get(name, dim),
            times=times,
            runs=runs,
            seed=seed + i,
        )
        for i, (name, problem) in enumerate(ingredients().items())
    }
    return xr.concat(
        bands.values(), dim=xr.DataArray(list(bands), dims="case", name="case")
    )


def claims_4(data: "Dataset") -> list[Claim]:
    """Inside the band, each."""
    from tutelage_papers.bands import inside_claims

    return [
        claim
        for case in data["case"].values
        for claim in inside_claims(data.sel(case=case), str(case))
    ]


def draw_4(data: "Dataset") -> "Figure":
    """For each ingredient the error above, and the overlaps below."""
    title = "The ingredients of SGD, one at a time: two erf units learn from two others"
    small = "Lines: theory; marks: mean of the runs; bands: ± 2 standard errors of it; dotted gray: theory with 0.9 G."
    figure, axes = panel_grid(4, 3, title, small, height=2.0, sharex=True, sharey=False)
    for i, case in enumerate(data["case"].values):
        part = data.sel(case=case)
        row = 2 * (i // 3)
        column = i % 3
        _draw_ingredient(axes[row, column], axes[row + 1, column], part)
        label_panel(axes[row, column], str(case))
        if column == 0:
            axes[row, column].set_ylabel(r"error $\epsilon_g$")
            axes[row + 1, column].set_ylabel("overlaps, biases")
        if column == 2:
            outside_legend(axes[row + 1, column])
    for panel in axes[-1]:
        panel.set_xlabel(TIME)
    figure.align_ylabels(axes[:, 0])
    return figure


def _draw_ingredient(above: Any, below: Any, part: "Dataset") -> None:
    times = part["time"].values
    draw_band(above, times, part["error"], part["error_mean"], part["error_se"])
    above.plot(
        times, part["error_wrong"], color=FAINT, linestyle=DASHES[2], linewidth=1.2
    )
    above.set_yscale("log")
    entries = [
        ("R", (0, 0)),
        ("R", (0, 1)),
        ("R", (1, 1)),
        ("Q", (0, 0)),
        ("Q", (0, 1)),
        ("bias", (0,)),
        ("bias", (1,)),
    ]
    shown = [
        (name, index)
        for name, index in entries
        if name in part and bool(part[name].notnull().all())
    ]
    for look, (name, index) in enumerate(shown):
        columns = [
            part[f"{name}{ending}"].values[(slice(None), *index)]
            for ending in ("", "_mean", "_se")
        ]
        below_text = "".join(str(i + 1) for i in index)
        label = f"${'b' if name == 'bias' else name}_{{{below_text}}}$"
        draw_band(below, times, *columns, look=look, label=label)


START_4 = {"R": [[0.45, 0.1], [-0.05, 0.35]], "Q": [[0.5, 0.1], [0.1, 0.4]]}

FIGURES = (
    Replica(
        id="notes-4",
        source="notes",
        figure="extensions",
        title="batches, weight decay, a schedule, both limits of momentum, hidden biases",
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
