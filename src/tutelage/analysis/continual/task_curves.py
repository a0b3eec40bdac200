"""Errors of tasks over time, and the times at which tasks begin and are left.

Tasks follow each other. A task *begins* where its probability rises, and it is *left*
where its probability falls. A gradual fall, or one in several steps, counts from the
time at which half of it has passed; so does the gradual rise of a task that never
begins by a jump. A fall ends where the probability rises again. Between recorded times
errors are interpolated linearly, and the time at which an error falls to a target in
the logarithm of the error.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage.analysis.result import first_time_at
from tutelage.errors import InputError, require_fields
from tutelage.problem import Tasks
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import TASKS

# Relative to the end: the distance from a jump at which probabilities are compared.
ASIDE = 1e-6
LEAST_JUMP = 1e-3  # of a probability; a smaller one is none
SMOOTH_POINTS = 201  # at which schedules are looked at between their jumps


def require_tasks(problem: object, function: str) -> Tasks:
    """Return the tasks of a problem; refuse one that has none."""
    tasks = require_problem(problem, function, needs=(TASKS,)).several_tasks
    if tasks is None:
        raise InputError(
            f"{function} compares tasks; this problem has one teacher. "
            "Use Tasks([...], Switch(60.0)) instead."
        )
    return tasks


class TaskTimes(NamedTuple):
    """The times at which each task begins, at 0 too, and is left for the first time.

    left: (tasks,); the end for a task that is never left.
    """

    begins: list[np.ndarray]
    left: Float[np.ndarray, " tasks"]


def begins_and_left(tasks: Tasks, end: float) -> TaskTimes:
    """Return the times at which each task begins, and is left for the first time.

    Gradual changes count from their middle.
    """
    known = tasks.switches(end)
    aside = ASIDE * end  # a jump of a function is known up to less than this
    jumps = np.unique(np.append(0.0, [] if known is None else known))
    jumps = jumps[(jumps >= 0) & (jumps < end)]
    shares_at = jax.vmap(tasks.probabilities)
    before = np.array(shares_at(jumps - aside))
    before[0] = 0.0
    after = np.array(shares_at(jumps + aside))
    late = jumps[1:]
    grid = np.linspace(0.0, end, SMOOTH_POINTS)
    times = np.unique(np.concatenate([grid, late - aside, late, late + aside]))
    shares = np.array(shares_at(times))
    begins = []
    left = []
    for task in range(tasks.count):
        begun = jumps[after[:, task] - before[:, task] > LEAST_JUMP]
        if not begun.size:
            begun = _middle_of_first_fall(times, -shares[:, task])
        fallen = _middle_of_first_fall(times, shares[:, task])
        begins.append(_at_jumps(begun, jumps, aside))
        left.append(_at_jumps(np.append(fallen, end), jumps, aside)[0])
    return TaskTimes(begins, np.array(left))


def _middle_of_first_fall(times: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the time at which half of the first fall of a curve has passed.

    The array is empty if the curve never falls.
    """
    fallen = np.maximum.accumulate(share) - share > LEAST_JUMP
    if not fallen.any():
        return np.empty(0)
    begin = int(np.argmax(fallen))
    risen = share[begin:] - np.minimum.accumulate(share[begin:]) > LEAST_JUMP
    stop = begin + int(np.argmax(risen)) if risen.any() else share.size
    highest = share[:begin].max()
    middle = (highest + share[begin:stop].min()) / 2
    last = int(np.flatnonzero(share[:begin] == highest)[-1])
    below = last + int(np.argmax(share[last:stop] <= middle))
    around = slice(below - 1, below + 1)
    return np.array([np.interp(-middle, -share[around], times[around])])


def _at_jumps(times: np.ndarray, jumps: np.ndarray, aside: float) -> np.ndarray:
    """Return the times, those near a jump moved onto it."""
    nearest = jumps[np.argmin(np.abs(times[:, None] - jumps), axis=1)]
    return np.where(np.abs(times - nearest) <= 2 * aside, nearest, times)


class TaskCurves(NamedTuple):
    """The tasks of a trajectory, and its errors (run, time, task)."""

    tasks: Tasks
    times: np.ndarray
    errors: np.ndarray


def read_tasks(trajectory: Any, function: str) -> TaskCurves:
    """Return the tasks, times and errors of a trajectory.

    Runs that did not reach the end are left out.
    """
    fields = ("times", "error", "problem", "tasks")
    require_fields(function, trajectory, fields, "what solve or simulate returned")
    if trajectory.problem is None or trajectory.tasks is None:
        raise InputError(
            f"{function} needs a trajectory of several tasks; "
            "solve or simulate a Problem with Tasks."
        )
    tasks = require_tasks(trajectory.problem, function)
    checks.require_untraced("the trajectory", function, trajectory.error)
    error = np.asarray(trajectory.error, dtype=float)
    times = np.asarray(trajectory.times, dtype=float)
    is_batch = error.ndim == 3 and trajectory.kind != "simulation"
    if times.ndim > 1 or error.ndim > 3 or is_batch:
        raise InputError(
            f"{function} takes one solution or one simulation; "
            f"this trajectory has {error.shape[0]} problems."
        )
    errors = error.reshape(-1, *error.shape[-2:])
    whole = np.all(np.isfinite(errors), axis=(1, 2))
    if times.size < 2 or not whole.any():
        raise InputError(
            f"{function} needs at least two recorded times, "
            "and a run that did not diverge."
        )
    return TaskCurves(tasks, times, errors[whole])


def errors_at(
    times: np.ndarray, error: np.ndarray, when: np.ndarray
) -> Float[np.ndarray, "curve task"]:
    """Return errors (curve, time, task) at one time for each task."""
    rows = []
    for curve in error:
        rows.append([np.interp(t, times, curve[:, s]) for s, t in enumerate(when)])
    return np.array(rows)


def time_below(
    times: np.ndarray, error: np.ndarray, target: float, begin: float = 0.0
) -> float | None:
    """Return the time from `begin` until the error is at the target or below it.

    It is None if the error never is.
    """
    t = np.concatenate([[begin], times[times > begin]])
    reached = float(first_time_at(target, t, np.interp(t, times, error)))
    return reached - begin if reached <= t[-1] else None


def increasing(name: str, values: Any) -> np.ndarray:
    """Return at least two finite numbers in increasing order; refuse others."""
    array = checks.as_array(name, values)
    is_list = array.ndim == 1 and array.size >= 2
    if not is_list or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise InputError(
            f"{name} is {checks.shown(array)}; "
            "it must be a list of at least two increasing numbers."
        )
    return array
