"""`best_replay`: the fraction of replayed samples with the smallest final error."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._solve import solve_batch
from tutelage._types import Numbers
from tutelage.analysis.continual.task_curves import (
    begins_and_left,
    errors_at,
    increasing,
    require_tasks,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError
from tutelage.problem import Problem, Replay, Start

FRACTIONS = 21  # of the grid of `best_replay`
ROUNDS = 3  # grids of `best_replay`, each closer around the best fraction


@dataclass(frozen=True, repr=False)
class BestReplay(AnalysisResult, figure="plot_best_replay"):
    """The fraction of replayed samples with the smallest error at the end.

    Attributes
    ----------
    fraction, value
        The best fraction, and the mean of the final errors there.
    fractions
        (F,), all fractions that were solved, increasing.
    final, forgetting
        (F, task), the errors at the end, and those minus the errors when each task was
        left.
    values
        (F,), the mean of the final errors.
    """

    fraction: float
    value: float
    fractions: np.ndarray
    final: np.ndarray
    forgetting: np.ndarray
    values: np.ndarray
    problem: Problem

    @property
    def gain(self) -> float:
        """The value at the smallest fraction over the best value."""
        return float(self.values[0] / self.value) if self.value > 0 else 1.0

    def __str__(self) -> str:
        return (
            f"best replay fraction {self.fraction:.4g}: mean final error "
            f"{self.value:.4g}, {self.gain:.4g} times below that at "
            f"{self.fractions[0]:.4g}"
        )


def best_replay(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    fractions: Numbers | None = None,
    **options: Any,
) -> BestReplay:
    """Return the replay fraction that makes the mean of the final errors smallest.

    Parameters
    ----------
    problem, start, times, options
        As for `solve_batch`, with the schedule `Replay(fraction, after)`. Its fraction
        is replaced.
    fractions
        The first grid, increasing, between 0 and 1. Default: 21 from 0 to 1. Two more
        rounds look closer at the best one.

    Returns
    -------
    A `BestReplay`.

    Examples
    --------
    >>> import tutelage as tu
    >>> schedule = tu.Replay(0.0, after=60.0)
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, schedule, similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> best = tu.analysis.best_replay(problem, times=tu.linear_times(120, 13))
    >>> bool(best.gain > 10)
    True
    """
    tasks = require_tasks(problem, "best_replay")
    if not isinstance(tasks.schedule, Replay):
        kind = type(tasks.schedule).__name__
        raise InputError(
            f"the schedule is a {kind}; "
            "best_replay varies the fraction of Replay(0.1, after=60.0)."
        )
    if fractions is None:
        fractions = np.linspace(0, 1, FRACTIONS)
    grid = increasing("fractions", fractions)
    times = checks.as_times(times)
    replayed = problem.replace(**{"schedule.fraction": 0.5}).several_tasks
    assert replayed is not None
    left = begins_and_left(replayed, float(times[-1])).left
    solved = np.empty(0)
    error = np.empty((0, times.size, tasks.count))
    best = 0
    for _ in range(ROUNDS):
        batch = solve_batch(
            problem, {"schedule.fraction": grid}, start, times, **options
        )
        solved, first = np.unique(np.append(solved, grid), return_index=True)
        error = np.concatenate([error, batch.error])[first]
        best = int(np.argmin(error[:, -1].mean(axis=1)))
        low = solved[max(best - 1, 0)]
        high = solved[min(best + 1, solved.size - 1)]
        grid = np.linspace(low, high, grid.size)
    final = error[:, -1]
    values = final.mean(axis=1)
    return BestReplay(
        fraction=float(solved[best]),
        value=float(values[best]),
        fractions=solved,
        final=final,
        forgetting=final - errors_at(times, error, left),
        values=values,
        problem=problem,
    )
