"""Replay of the first task after the switch, and interleaving from the beginning.

Replay means that a fraction of the samples after the switch belongs to the first task.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, INK, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, below, between, close
from tutelage_papers.drawing import draw_band, legend_below, line_of
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
    """Two erf units with a head for each of two tasks, whose teachers have one unit."""
    unit = tu.Network(1, "erf")
    student = tu.Network(2, "erf", train_readout=True)
    tasks = tu.Tasks([unit, unit], schedule, similarity=similarity)
    return tu.Problem(student, tasks, optimizer=tu.SGD(lr))


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
    """Return final errors and forgetting by the fraction, and runs of 50/50.

    best: the best fraction.
    """
    from tutelage_papers.bands import against_runs

    start = tu.Start(**START)
    times = tu.linear_times(end, 13)
    problem = replayed(tu.Replay(0.0, after=switch), similarity, lr)
    shares = np.linspace(0.0, 0.5, fractions)
    replay = tu.analysis.best_replay(problem, start, times, shares)
    half = replayed(tu.Interleave([0.5, 0.5]), similarity, lr)
    run_times = tu.linear_times(runs_end, 21)
    data = against_runs(half, start, dim=dim, times=run_times, runs=runs, seed=seed)
    data["fraction"] = replay.fractions
    data["final"] = (("fraction", "task"), replay.final)
    data["forgetting"] = (("fraction",), replay.forgetting[:, 0])
    data["mean_error"] = (("fraction",), replay.values)
    data["best"] = replay.fraction
    data["best_error"] = replay.value
    return data.assign(shown=similarity, switch=switch, dim=dim, runs=runs)


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Forgetting falls with the fraction; one in between is best; runs of 50/50.

    It is best for both tasks together.
    """
    from tutelage_papers.bands import inside_claims

    forgetting = data["forgetting"].values
    yield close("forgetting without replay", forgetting[0], 0.1549, absolute=1e-4)
    yield at_most(
        "largest rise of the forgetting between two fractions",
        np.max(np.diff(forgetting)),
        1e-9,
    )
    yield below(
        "forgetting with half of the samples replayed",
        forgetting[-1],
        0.1 * forgetting[0],
    )
    yield between("best fraction for the mean of both errors", data["best"], 0.2, 0.35)
    yield below(
        "mean error there, against a tenth of that without replay",
        data["best_error"],
        0.1 * data["mean_error"][0],
    )
    name = f"50/50 from the beginning, N = {int(data['dim'])}"
    yield from inside_claims(data, name)


def draw_2(data: "Dataset") -> "Figure":
    """Forgetting and final errors against the fraction, and runs of 50/50."""
    small = (
        f"Two erf units, similarity {float(data['shown']):g}; replay after "
        f"{float(data['switch']):g}. Right: lines: theory; marks: mean of "
        f"{int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors "
        "of it."
    )
    title = "Replay and interleaving"
    figure, axes = panel_grid(1, 3, title, small, height=3.0, width=10.5)
    forgetting, final, half = axes[0]
    fraction = data["fraction"]
    forgetting.plot(fraction, data["forgetting"], color=COLORS[0], label="task 1")
    forgetting.set(xlabel="replay fraction", ylabel=r"forgetting, $\Delta\epsilon_1$")
    forgetting.set_yticks([0.0, 0.05, 0.1, 0.15])
    forgetting.set_ylim(bottom=0.0)
    _draw_final(final, data)
    _draw_half(half, data)
    label_panel(forgetting, "forgetting")
    label_panel(final, "final errors")
    label_panel(half, "50/50 from the beginning")
    for panel in axes[0]:
        legend_below(panel)
    return figure


def _draw_final(panel: Any, data: "Dataset") -> None:
    """Final errors of both tasks and their mean, with the best fraction."""
    fraction = data["fraction"]
    for task in range(2):
        line = line_of(task) | {"label": f"task {task + 1}"}
        panel.plot(fraction, data["final"].isel(task=task), **line)
    mean = {"color": INK, "linestyle": DASHES[3], "linewidth": 1.2}
    panel.plot(fraction, data["mean_error"], **mean, label="mean")
    best = [float(data["best"])]
    best_error = [float(data["best_error"])]
    panel.plot(best, best_error, "o", color=INK, markersize=5, label="best")
    panel.set(xlabel="replay fraction", ylabel="final error", yscale="log")


def _draw_half(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    for task in range(2):
        part = data.isel(task=task)
        mean = part["error_mean"]
        error = part["error_se"]
        label = f"task {task + 1}"
        draw_band(panel, times, part["error"], mean, error, look=task, label=label)
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")


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
