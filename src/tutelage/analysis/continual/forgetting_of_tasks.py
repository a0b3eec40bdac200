"""`forgetting` of each task, and `interference`: forgetting by similarity."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve_batch
from tutelage._types import Numbers
from tutelage.analysis.continual.task_curves import (
    begins_and_left,
    errors_at,
    increasing,
    read_tasks,
    require_tasks,
    time_below,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError
from tutelage.few_runs import error_of_mean
from tutelage.problem import Problem, Start
from tutelage.result.trajectory import Trajectory


@dataclass(frozen=True, repr=False)
class Forgetting(AnalysisResult, figure="plot_forgetting"):
    """The loss of each task after the student has left it.

    Attributes
    ----------
    left
        (task,), the time at which each task was left: the middle of the first fall of
        its probability; the end for a task that is never left.
    learned, final
        (task,), the error at that time and at the end.
    amount
        (task,), final - learned: the forgetting; zero for a task that is never left.
    standard_error
        (task,), of the amount, from the runs of a simulation, widened where these are
        few or skewed: two of them cover 95%. Zero for theory.
    times, error
        (time,) and (time, task): the curves, the mean over runs for a simulation.
    """

    left: np.ndarray
    learned: np.ndarray
    final: np.ndarray
    amount: np.ndarray
    standard_error: np.ndarray
    times: np.ndarray
    error: np.ndarray
    trajectory: Trajectory

    def __str__(self) -> str:
        lines = []
        end = self.times[-1]
        for s, t in enumerate(self.left):
            if t >= end:
                lines.append(
                    f"task {s + 1}: not left up to {end:.4g}; error {self.final[s]:.4g}"
                )
                continue
            uncertainty = ""
            if self.standard_error[s] > 0:
                uncertainty = f" ± {self.standard_error[s]:.2g}"
            lines.append(
                f"task {s + 1}: left at {t:.4g} with error {self.learned[s]:.4g}; "
                f"at {end:.4g} the error is {self.final[s]:.4g}: "
                f"forgetting {self.amount[s]:.4g}{uncertainty}"
            )
        return "\n".join(lines)


def forgetting(trajectory: Trajectory) -> Forgetting:
    """Return the rise of each task's error after the student has turned to others.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a problem with `Tasks`. Runs of a
        simulation are averaged.

    Returns
    -------
    A `Forgetting`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, times=tu.linear_times(120, 13))
    >>> print(tu.analysis.forgetting(theory))
    task 1: left at 60 with error 0.002716; at 120 the error is 0.1981: forgetting 0.1954
    task 2: not left up to 120; error 0.001406
    """
    tasks, times, errors = read_tasks(trajectory, "forgetting")
    left = begins_and_left(tasks, float(times[-1])).left
    learned = errors_at(times, errors, left)
    amounts = errors[:, -1] - learned
    standard_error = np.zeros(tasks.count)
    if len(errors) > 1:
        standard_error = error_of_mean(amounts)
    mean = errors.mean(axis=0)
    return Forgetting(
        left=left,
        learned=learned.mean(axis=0),
        final=mean[-1],
        amount=amounts.mean(axis=0),
        standard_error=standard_error,
        times=times,
        error=mean,
        trajectory=trajectory,
    )


@dataclass(frozen=True, repr=False)
class Interference(AnalysisResult, figure="plot_interference"):
    """Forgetting against the similarity of the tasks.

    Attributes
    ----------
    similarity
        (V,), the overlaps between the units of different teachers.
    forgetting
        (V, task), final error minus the error when the task was left.
    final
        (V, task), the errors at the end.
    left
        (task,), the time at which each task was left.
    times, error
        (time,) and (V, time, task): all curves.
    """

    similarity: np.ndarray
    forgetting: np.ndarray
    final: np.ndarray
    left: np.ndarray
    times: np.ndarray
    error: np.ndarray
    problem: Problem

    def worst(self, task: int = 0) -> tuple[float, float]:
        """Return the similarity with the largest forgetting of a task, and the latter.

        They are those of a parabola through three points.
        """
        values = self.forgetting[:, task]
        i = int(np.argmax(values))
        if not 0 < i < values.size - 1:
            return float(self.similarity[i]), float(values[i])
        near = slice(i - 1, i + 2)
        distance = self.similarity[near] - self.similarity[i]
        a, b, c = np.polyfit(distance, values[near], 2)
        shift = -b / (2 * a) if a < 0 else 0.0
        largest = c + b * shift + a * shift**2
        return float(self.similarity[i] + shift), float(largest)

    def time_to(self, target: float, task: int = 1) -> Float[np.ndarray, " V"]:
        """Return the time from the beginning of a task to an error, by similarity.

        It is NaN where the error is not reached.
        """
        level = checks.as_positive("target", target)
        tasks = self.problem.several_tasks
        assert tasks is not None
        task = checks.as_count("task", task, least=0, most=tasks.count - 1)
        begins = begins_and_left(tasks, float(self.times[-1])).begins[task]
        if not begins.size:
            raise InputError(
                f"task {task + 1} (index {task}) does not begin before "
                f"{self.times[-1]:g}."
            )
        begin = float(begins[0])
        durations = []
        for curve in self.error:
            durations.append(time_below(self.times, curve[:, task], level, begin))
        return np.array(durations, dtype=float)  # None becomes NaN

    def __str__(self) -> str:
        lines = [
            f"{self.similarity.size} similarities from {self.similarity[0]:.4g} "
            f"to {self.similarity[-1]:.4g}"
        ]
        for s in np.flatnonzero(self.left < self.times[-1]):
            V, amount = self.worst(int(s))
            lines.append(
                f"task {s + 1}: forgetting is largest, {amount:.4g}, "
                f"at similarity {V:.3g}; {self.forgetting[0, s]:.4g} and "
                f"{self.forgetting[-1, s]:.4g} at the ends"
            )
        return "\n".join(lines)


def interference(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    similarity: Numbers | None = None,
    **options: Any,
) -> Interference:
    """Return the forgetting of each task against the similarity of the teachers.

    One `solve_batch` computes the whole curve.

    Parameters
    ----------
    problem, start, times, options
        As for `solve_batch`. `similarity` of the problem's `Tasks` is replaced; its
        teachers must not have a `gram`.
    similarity
        Increasing overlaps between unit m of one teacher and unit m of every other one.
        Default: 50 from 0 to 0.98. The initial overlaps must belong to vectors at each
        of them.

    Returns
    -------
    An `Interference`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> times = tu.linear_times(120, 13)
    >>> V = [0.2, 0.3, 0.4, 0.5]
    >>> curve = tu.analysis.interference(problem, times=times, similarity=V)
    >>> curve.forgetting[:, 0].round(4)
    array([0.3176, 0.2766, 0.2359, 0.1954])
    """
    tasks = require_tasks(problem, "interference")
    if tasks.given_gram is not None:
        raise InputError(
            "the tasks have a gram; interference varies the similarity. "
            "Use Tasks(similarity=0.5) instead."
        )
    if similarity is None:
        similarity = np.linspace(0.0, 0.98, 50)
    V = increasing("similarity", similarity)
    times = checks.as_times(times)
    solved = solve_batch(problem, {"similarity": V}, start, times, **options)
    error = np.asarray(solved.error)
    left = begins_and_left(tasks, float(times[-1])).left
    final = error[:, -1]
    return Interference(
        similarity=V,
        forgetting=final - errors_at(times, error, left),
        final=final,
        left=left,
        times=times,
        error=error,
        problem=problem,
    )
