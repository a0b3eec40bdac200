"""Transfer: the time that a second task takes after the first, and from scratch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, FAINT, label_panel, panel_grid
from tutelage_papers.claims import Claim, between, close
from tutelage_papers.drawing import legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START: dict[str, Any] = {
    "R": [[0.05, 0.02], [-0.01, 0.03]],
    "Q": [[0.3, 0.02], [0.02, 0.2]],
    "readout": [[0.3, 0.1], [0.2, -0.1]],
}
# By similarity: the time to the target; then the time from scratch.
DIGITS = {0.0: 11.9, 0.1: 12.4, 0.3: 12.0, 0.5: 10.75, 0.6: 9.75, 0.8: 7.05, 1.0: 2.9}
SCRATCH = 10.45
SHOWN = (0.1, 0.5, 0.9)  # similarities whose curves are drawn


def compute_3(
    lr: float,
    switch: float,
    end: float,
    points: int,
    count: int,
    target: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return times to the target by similarity, from scratch, and of runs.

    The runs are those at one similarity.
    """
    import xarray as xr

    unit = tu.Network(1, "erf")
    student = tu.Network(2, "erf", train_readout=True)
    tasks = tu.Tasks([unit, unit], tu.Switch(switch), similarity=0.8)
    problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr))
    start = tu.Start(**START)
    first_task = np.linspace(0.0, end - switch, points)
    second_task = np.linspace(switch, end, points)
    times = np.union1d(first_task, second_task)
    later = times >= switch - 1e-9
    early = times <= end - switch + 1e-9
    since = times[later] - switch

    similarity = np.linspace(0.0, 0.99, count)
    solved = tu.analysis.interference(problem, start, times, similarity)
    scratch = tu.analysis.transfer(problem, start, times, target=target)
    # At similarity one the teachers are the same; the compiled program takes that
    # value.
    at_one = _second_error(problem, start, times, 1.0)
    seen = tu.simulate(
        problem, start, dim=dim, times=times[later][::4], runs=runs, seed=seed
    )
    seen_error = np.asarray(seen.error)[..., 1].mean(axis=0)

    data = xr.Dataset(attrs={"target": target, "dim": dim, "runs": runs})
    data["similarity"] = similarity
    data["time_to"] = ("similarity", solved.time_to(target))
    data["time_at_one"] = _first_below(since, at_one[later], target)
    data["time_scratch"] = scratch.scratch
    data["time_theory"] = scratch.after
    data["time_runs"] = _first_below(seen.times - switch, seen_error, target)
    data["shown"] = list(SHOWN)
    data["since"] = since
    curves = np.array([_curve(solved, shown)[later] for shown in SHOWN])
    data["curves"] = (("shown", "since"), curves)
    data["early"] = times[early]
    data["scratch_curve"] = ("early", np.asarray(scratch.alone.error)[early])
    return data


def _second_error(
    problem: "tu.Problem", start: "tu.Start", times: np.ndarray, similarity: float
) -> np.ndarray:
    """The error of the second task."""
    import jax

    def error(similarity: Any) -> Any:
        return tu.solve(problem.replace(similarity=similarity), start, times).error

    return np.asarray(jax.jit(error)(similarity))[:, 1]


def _curve(solved: Any, similarity: float) -> np.ndarray:
    """The error of the second task at the nearest similarity."""
    nearest = int(np.argmin(np.abs(solved.similarity - similarity)))
    return solved.error[nearest, :, 1]


def _first_below(times: np.ndarray, error: np.ndarray, target: float) -> float:
    """The first time below the target, interpolated in the logarithm of the error."""
    below = int(np.argmax(error <= target))
    around = slice(below - 1, below + 1)
    return float(np.interp(-np.log(target), -np.log(error[around]), times[around]))


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Digits, the sign of the transfer, the slowest similarity, and networks."""
    V = data["similarity"].values
    time = data["time_to"].values
    for similarity, expected in DIGITS.items():
        if similarity == 1:
            measured = float(data["time_at_one"])
        else:
            measured = float(np.interp(similarity, V, time))
        yield close(
            f"time to the target at V = {similarity:g}",
            measured,
            expected,
            absolute=0.06,
        )
    scratch = float(data["time_scratch"])
    yield close("time to the target from scratch", scratch, SCRATCH, absolute=0.06)
    slowest = np.argmax(time)
    late = np.arange(V.size) >= slowest
    yield close(
        "similarity beyond which transfer is positive",
        np.interp(-scratch, -time[late], V[late]),
        0.53,
        absolute=0.01,
    )
    yield between("similarity of the slowest transfer", V[slowest], 0.05, 0.2)
    yield close(
        "mean of runs at V = 0.8: time to the target",
        data["time_runs"],
        data["time_theory"],
        rel=0.05,
    )


def draw_3(data: "Dataset") -> "Figure":
    """Learning curves of the second task, and the time to the target by similarity."""
    small = (
        "Task 2 after 60 units of time on task 1, compared with task 2 alone. "
        f"Target: error {data.attrs['target']:g}."
    )
    title = "Transfer against similarity"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=9.5)
    curves, time_to = axes[0]
    _draw_curves(curves, data)
    _draw_times(time_to, data)
    label_panel(curves, "learning curves of task 2")
    label_panel(time_to, "time to learn task 2")
    for panel in axes[0]:
        legend_below(panel)
    return figure


FROM_SCRATCH = line_of(3) | {"label": "from scratch"}


def _draw_curves(panel: Any, data: "Dataset") -> None:
    for look, similarity in enumerate(data["shown"].values):
        curve = data["curves"].sel(shown=similarity)
        label = f"after task 1, $V={similarity:g}$"
        panel.plot(data["since"], curve, **line_of(look), label=label)
    panel.plot(data["early"], data["scratch_curve"], **FROM_SCRATCH)
    panel.axhline(data.attrs["target"], color=FAINT, linewidth=0.9, label="target")
    panel.set(xlabel=r"time $\alpha$ since the task began", ylabel=ERROR, yscale="log")


def _draw_times(panel: Any, data: "Dataset") -> None:
    color = COLORS[0]
    panel.plot(data["similarity"], data["time_to"], color=color, label="after task 1")
    at_one = [float(data["time_at_one"])]
    panel.plot([1.0], at_one, "o", color=color, markersize=4.5, clip_on=False)
    panel.axhline(float(data["time_scratch"]), **FROM_SCRATCH)
    label = f"mean of {data.attrs['runs']} runs, $N={data.attrs['dim']}$"
    measured = [float(data["time_runs"])]
    panel.plot([0.8], measured, "s", color=COLORS[1], markersize=5, label=label)
    panel.set(xlabel="similarity $V$ of the tasks", ylabel="time to the target")
    panel.set_ylim(bottom=0.0)


PRINTED: dict[str, Any] = {
    "lr": 1.0,
    "switch": 60.0,
    "end": 76.0,
    "target": 0.01,
    "seed": 73,
}

FIGURES = (
    Replica(
        id="tasks-3",
        source="tasks",
        figure="transfer",
        title="Transfer: a second task after the first, against learning from scratch",
        full=PRINTED | {"points": 161, "count": 100, "dim": 1000, "runs": 40},
        quick=PRINTED | {"points": 81, "count": 34, "dim": 300, "runs": 20},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
