"""Replay: a fraction of the samples after the switch belongs to the first task; and interleaving from the beginning."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, INK, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, below, between, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START: dict[str, Any] = {
    "R": [[0.05, 0.02], [-0.01, 0.03]],
    "Q": [[0.3, 0.02], [0.02, 0.2]],
    "readout": [[0.3, 0.1], [0.2, -0.1]],
}


def replayed(schedule: Any, similarity: float, lr: float) -> "tu.Problem":
    """Two erf units with a head for each of two tasks, whose teachers have one unit each."""
    tasks = tu.Tasks(
        [tu.Network(1, "erf"), tu.Network(1, "erf")], schedule, similarity=similarity
    )
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr)
    )


def compute_2(
    lr: float,
    switch: float,
    end: float,
    similarity: float,
    fractions: int,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Final errors and forgetting for fractions up to one half, the best one, and runs of 50/50."""
    from tutelage_papers.bands import against_runs

    start = tu.Start(**START)
    times = tu.linear_times(end, 13)
    problem = replayed(tu.Replay(0.0, after=switch), similarity, lr)
    found = tu.analysis.best_replay(
        problem, start, times, np.linspace(0.0, 0.5, fractions)
    )
    half = replayed(tu.Interleave([0.5, 0.5]), similarity, lr)
    data = against_runs(
        half, start, dim=dim, times=tu.linear_times(runs_end, 21), runs=runs, seed=seed
    )
    return data.assign(
        final=(("fraction", "task"), found.final),
        forgetting=(("fraction",), found.forgetting[:, 0]),
        mean_error=(("fraction",), found.values),
        best=found.fraction,
        best_error=found.value,
        fraction=found.fractions,
        shown=similarity,
        switch=switch,
        dim=dim,
        runs=runs,
    )


def claims_2(data: "Dataset") -> list[Claim]:
    """Forgetting falls with the fraction; a fraction in between is best for both tasks together; runs of 50/50."""
    from tutelage_papers.bands import inside_claims

    forgetting = data["forgetting"]
    mean = data["mean_error"]
    falls = float(np.max(np.diff(forgetting.values)))
    return [
        close("forgetting without replay", float(forgetting[0]), 0.1549, absolute=1e-4),
        at_most("largest rise of the forgetting between two fractions", falls, 1e-9),
        below(
            "forgetting with half of the samples replayed",
            float(forgetting[-1]),
            0.1 * float(forgetting[0]),
        ),
        between(
            "best fraction for the mean of both errors", float(data["best"]), 0.2, 0.35
        ),
        below(
            "mean error there, against a tenth of that without replay",
            float(data["best_error"]),
            0.1 * float(mean[0]),
        ),
        *inside_claims(data, f"50/50 from the beginning, N = {int(data['dim'])}"),
    ]


def draw_2(data: "Dataset") -> "Figure":
    """Forgetting and final errors against the fraction, and runs of 50/50."""
    small = (
        f"Two erf units, similarity {float(data['shown']):g}; replay after {float(data['switch']):g}. Right: lines: theory; "
        f"marks: mean of {int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors of it."
    )
    figure, axes = panel_grid(
        1, 3, "Replay and interleaving", small, height=3.0, width=10.5
    )
    left, middle, right = axes[0]
    left.plot(data["fraction"], data["forgetting"], color=COLORS[0], label="task 1")
    for task in range(2):
        look: dict[str, Any] = {
            "color": COLORS[task],
            "linestyle": DASHES[task],
            "label": f"task {task + 1}",
        }
        middle.plot(data["fraction"], data["final"].isel(task=task), **look)
    middle.plot(
        data["fraction"],
        data["mean_error"],
        color=INK,
        linestyle=DASHES[3],
        linewidth=1.2,
        label="mean",
    )
    middle.plot(
        [float(data["best"])],
        [float(data["best_error"])],
        "o",
        color=INK,
        markersize=5,
        label="best",
    )
    for task in range(2):
        columns = [
            data[name].isel(task=task) for name in ("error", "error_mean", "error_se")
        ]
        draw_band(
            right, data["time"].values, *columns, look=task, label=f"task {task + 1}"
        )
    left.set(xlabel="replay fraction", ylabel=r"forgetting, $\Delta\epsilon_1$")
    left.set_yticks([0.0, 0.05, 0.1, 0.15])
    left.set_ylim(bottom=0.0)
    middle.set(xlabel="replay fraction", ylabel="final error", yscale="log")
    right.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    for panel, text in zip(
        axes[0], ("forgetting", "final errors", "50/50 from the beginning"), strict=True
    ):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


PRINTED: dict[str, Any] = {
    "lr": 1.0,
    "switch": 60.0,
    "end": 120.0,
    "similarity": 0.5,
    "fractions": 26,
    "seed": 72,
}

FIGURES = (
    Replica(
        id="tasks-2",
        source="tasks",
        figure="replay",
        title="Replay and interleaving against forgetting",
        full=PRINTED | {"runs_end": 60.0, "dim": 1000, "runs": 200},
        quick=PRINTED | {"runs_end": 20.0, "dim": 300, "runs": 80},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
)
