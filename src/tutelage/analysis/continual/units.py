"""`node_reuse`: the student units that serve each task."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage.analysis.continual.task_curves import begins_and_left, read_tasks
from tutelage.analysis.result import AnalysisResult, curve_of
from tutelage.problem import Problem
from tutelage.result.trajectory import Trajectory
from tutelage.stream.order_parameters import generalization_error

SERVES = 0.1  # a unit with at least this share of a task is said to serve it


@dataclass(frozen=True, repr=False)
class NodeReuse(AnalysisResult, figure="plot_node_reuse"):
    """The student units that serve each task.

    Attributes
    ----------
    importance
        (task, K), the rise of the task's error if the unit is cut off from its head.
    shares
        (task, K), the importance as shares of each task's sum; negative importance
        counts as zero.
    times
        (task,), the time of the measurement: the recorded time next to when the task
        was left.
    reuse
        (task, task), sum_k min(share_sk, share_tk): 1 if two tasks use the same units,
        0 for different ones.
    """

    importance: np.ndarray
    shares: np.ndarray
    times: np.ndarray
    reuse: np.ndarray

    def __str__(self) -> str:
        lines = []
        for s, t in enumerate(self.times):
            lines.append(f"task {s + 1} at {t:.4g}: {self._units_of(s) or 'no unit'}")
        tasks = len(self.shares)
        for s in range(tasks):
            for t in range(s + 1, tasks):
                overlap = self.reuse[s, t]
                lines.append(f"re-use of tasks {s + 1} and {t + 1}: {overlap:.3f}")
        return "\n".join(lines)

    def _units_of(self, task: int) -> str:
        """Return the units that serve a task, the most important first."""
        shares = self.shares[task]
        units = []
        for k in np.argsort(-shares):
            if shares[k] >= SERVES:
                units.append(f"unit {k + 1} ({100 * shares[k]:.0f}%)")
        return ", ".join(units)


def node_reuse(trajectory: Trajectory, run: int | None = None) -> NodeReuse:
    """Return the importance of each unit for each task.

    Each unit is cut off from a task's head in turn, and the error of the task computed
    again.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a problem with `Tasks`.
    run
        The run of a simulation, counted from 0.

    Returns
    -------
    A `NodeReuse`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.0)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, times=tu.linear_times(120, 13))
    >>> tu.analysis.node_reuse(theory).shares.shape
    (2, 2)
    """
    tasks, recorded, _ = read_tasks(trajectory, "node_reuse")
    assert trajectory.problem is not None
    measured = []
    importance = []
    for task, left in enumerate(begins_and_left(tasks, float(recorded[-1])).left):
        problem = trajectory.problem.task(task)
        curve = curve_of(trajectory.task(task), run, "node_reuse")
        nearest = int(np.argmin(np.abs(curve.times - left)))
        variables = {name: values[nearest] for name, values in curve.variables.items()}
        measured.append(curve.times[nearest])
        importance.append(_importance(problem, variables, curve.T))
    positive = np.maximum(importance, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    shares = positive / np.maximum(sums, np.finfo(float).tiny)
    reuse = np.minimum(shares[:, None], shares[None]).sum(axis=-1)
    return NodeReuse(
        importance=np.array(importance),
        shares=shares,
        times=np.array(measured),
        reuse=reuse,
    )


def _importance(
    problem: Problem, variables: dict[str, np.ndarray], T: Any
) -> Float[np.ndarray, " K"]:
    """Return the rise of the error of one task without each of the units."""
    units = np.ones(problem.student.hidden)
    kept = np.vstack([units, 1 - np.diag(units)])  # all units, and all but one
    head = np.asarray(variables.get("readout", problem.student.readout))
    bias = variables.get("bias")
    R = variables["R"]
    Q = variables["Q"]
    errors = []
    for v in head * kept:
        errors.append(float(generalization_error(problem, R, Q, T, v, bias)))
    return np.array(errors[1:]) - errors[0]
