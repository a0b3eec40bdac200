"""The objective as a function of a point, with and without its derivative.

A protocol is a point. It holds one number for each segment of each control (or for each
knot of a smooth one), from 0 at the lower bound to 1 at the upper one. More than two
tasks have one number each, whose softmax gives the probabilities. A point with one
number for each row is a constant protocol.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of
two controls that is as fast as reverse mode and compiles in a quarter of the time.
Values, times and initial condition are data to the compiled program, so that searches
of equal shape share it. Values without a derivative come from the program of `solve`,
which costs a small part of that: they choose the protocols from which descents begin.
"""

from operator import attrgetter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import Array, NumpyOrJax
from tutelage.analysis.protocols.controls import CONTROLS, Limits, changed, schedule_of
from tutelage.analysis.protocols.objectives import (
    PROGRAM,
    Objective,
    integrated_error,
    over_tasks,
    time_to_level,
)
from tutelage.errors import InputError, explained
from tutelage.problem import Problem, Start
from tutelage.result.trajectory import Trajectory
from tutelage.solvers.program import step_tolerances
from tutelage.stream import initial_overlaps
from tutelage.stream.moments import Moments, moments_for
from tutelage.stream.moments.averages import array_module
from tutelage.stream.order_parameters import as_arrays
from tutelage.stream.program import integrate_equations, run
from tutelage.stream.solve import assemble, keeps_blocks, prepare, sampled_rtol

# Points and values
FEASIBLE = 1e-6  # of the range: by which the mean of a control may exceed its budget
LOGIT = 8.0  # largest logit of a task's probability
TINY = np.finfo(float).tiny  # the smallest number whose logarithm is taken
FAILED = 50.0  # the value, in logarithms, of a protocol that diverges

# Times
PER_SEGMENT = 8  # intervals of the recorded times in each segment
BESIDE = 1e-4  # of the time to a level: distance at which its derivative is read


def _rows_of(control: str, problem: Problem) -> int:
    """Return the number of schedules of a control: one for each of many tasks."""
    tasks = problem.several_tasks
    if control == "tasks" and tasks is not None and tasks.count > 2:
        return tasks.count
    return 1


class Search(eqx.Module):
    """The objective as a function of a point, which descents minimize.

    Attributes
    ----------
    problem, start, moments, steps
        The problem has a schedule in place of each control, whose values a point
        replaces.
    level
        The error to reach, for the objective "time".
    times
        Times at which the program with derivatives records.
    reached
        True if the level is reached between the two times of the objective "time".
    bounds
        Lowest and highest value of each control, (control, 2).
    budgets
        Limits (control, 2) on means over time, 0 at the lower bound and 1 at the upper
        one.
    shares
        The share of the time that each segment or knot rules.
    grid
        Recorded times of a solve.
    rows
        Schedules of each control, several for more than two tasks.
    """

    problem: Problem
    start: Start
    moments: Moments
    steps: Any  # arrays here and below
    level: Any
    times: Any
    reached: Any
    bounds: Any
    budgets: Any
    shares: Any
    grid: np.ndarray
    edges: np.ndarray
    objective: Objective = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        limits: dict[str, Limits],
        *,
        start: Start,
        edges: np.ndarray,
        shape: str,
        objective: Objective,
        level: float,
        budgets: dict[str, Limits],
    ):
        """Search the protocols of this shape between the edges, within the limits."""
        end = edges[-1]
        lengths = np.diff(edges)
        if shape == "piecewise":
            self.shares = lengths / end
        else:  # a knot rules half of the segments next to it
            self.shares = np.convolve(lengths, [0.5, 0.5]) / end
        self.edges = edges
        self.grid = recorded_times(edges)
        self.names = tuple(limits)
        self.objective = objective
        self.level = np.array(level)
        self.rows = tuple(_rows_of(name, problem) for name in limits)
        self.bounds = np.array(list(limits.values()))
        schedules = {}
        for name, rows in self.values(np.full(self.size, 0.5)).items():
            schedules[name] = schedule_of(name, shape, edges, rows)
        controlled = changed(problem, schedules)
        prepare(controlled, start, self.grid)  # checks that they belong together
        self.problem = as_arrays(controlled)
        self.start = as_arrays(start)
        self.moments = moments_for(controlled)
        self.steps = step_tolerances(sampled_rtol(self.moments))
        if callable(objective):
            self.times = self.grid
        elif objective == "time":
            self.times = np.array([1 - BESIDE, 1.0]) * end
        else:
            self.times = self.grid[-1:]
        self.reached = np.array(False)
        unlimited = (-np.inf, np.inf)
        integrals = np.array([budgets.get(name, unlimited) for name in limits])
        ranges = np.diff(self.bounds)
        self.budgets = (integrals / end - self.bounds[:, :1]) / ranges

    @property
    def size(self) -> int:
        """The length of a point."""
        return sum(self.rows) * self.shares.shape[0]

    def by_control(self, numbers: Any) -> dict[str, Any]:
        """Return the numbers of a point by control, (rows, segments)."""
        last = np.cumsum(self.rows)
        table = numbers.reshape(last[-1], -1)
        by_name = {}
        for name, rows, end in zip(self.names, self.rows, last, strict=True):
            by_name[name] = table[end - rows : end]
        return by_name

    def values(self, point: NumpyOrJax) -> dict[str, Any]:
        """Return the values of each control, (rows, segments)."""
        exp = array_module(point).exp
        values = {}
        controls = self.by_control(point).items()
        for (name, numbers), (low, high) in zip(controls, self.bounds, strict=True):
            if len(numbers) == 1:
                values[name] = low + numbers * (high - low)
            else:  # the softmax of more than two tasks
                weights = exp(2 * LOGIT * numbers)
                values[name] = weights / weights.sum(axis=0)
        return values

    def spent(self, point: np.ndarray) -> np.ndarray:
        """Return the mean of each control over time, as `budgets` limit it.

        That of tasks is the mean probability of the first one.
        """
        means = [np.sum(self.shares * rows[0]) for rows in self.values(point).values()]
        return (np.array(means) - self.bounds[:, 0]) / np.ptp(self.bounds, axis=1)

    def keeps_budgets(self, point: np.ndarray) -> bool:
        """Return true for a point within the budgets."""
        spent = self.spent(point)
        least, most = self.budgets.T
        return bool(np.all((spent > least - FEASIBLE) & (spent < most + FEASIBLE)))

    def whole(self, point: np.ndarray) -> np.ndarray:
        """Return a point of all segments for one with fewer numbers for each row."""
        rows = sum(self.rows)
        segments = self.size // rows
        phases = point.size // rows
        phase_of_segment = np.arange(segments) * phases // segments
        return point.reshape(rows, phases)[:, phase_of_segment].ravel()

    def problem_at(self, point: NumpyOrJax) -> Problem:
        """Return the problem under the protocol of a point."""
        rows = [row for values in self.values(point).values() for row in values]
        return eqx.tree_at(self._schedule_values, self.problem, rows)

    def _schedule_values(self, problem: Problem) -> list[Any]:
        """Return the numbers of all schedules that are controlled, in order."""
        numbers = []
        for name in self.names:
            schedule: Any = attrgetter(CONTROLS[name].path)(problem)
            # more than two tasks have a schedule each
            schedules = schedule if isinstance(schedule, tuple) else (schedule,)
            numbers += [part.values for part in schedules]
        return numbers

    def measure(self, point: Array) -> Array:
        """Return the objective under the protocol of a point, (1,).

        Of "worst" return the error of each task.
        """
        problem = self.problem_at(point)
        if self.objective == "integrated":
            integral = integrated_error(
                problem, self.start, self.times, self.moments, self.steps
            )
            return integral[-1:]
        initial = initial_overlaps(problem, self.start)
        solved = integrate_equations(
            problem, self.moments, initial, self.times, self.steps, PROGRAM
        )
        if callable(self.objective):
            trajectory = assemble(solved, self.times, problem, self.start, ())
            return self.of_function(trajectory)[None]
        if self.objective == "worst":
            return jnp.ravel(solved.error[-1])
        mean = over_tasks(solved.error)
        if self.objective == "final":
            return mean[-1:]
        return self._time_from_errors(mean)

    def _time_from_errors(self, error: Array) -> Array:
        """Return the time to the level from the errors at the two recorded times.

        It is on the line through their logarithms. If the level is not reached, a value
        after the end stands for it: the lower the error is, the earlier.
        """
        begin, end = self.times
        above = jnp.log(jnp.maximum(error, jnp.finfo(float).tiny) / self.level)
        fall = jnp.where(self.reached, above[0] - above[1], 1.0)
        crossing = begin + (end - begin) * above[0] / fall
        late = end * (1 + above[1])
        return jnp.atleast_1d(jnp.where(self.reached, crossing, late))

    def of_function(self, trajectory: Trajectory) -> Array:
        """Return the number of a custom objective."""
        assert callable(self.objective)
        return jnp.asarray(self.objective(trajectory))

    def value_at(self, point: np.ndarray, end: float | None = None) -> float:
        """Return the value that is minimized, without a derivative.

        It is FAILED if the protocol diverges. end: the time at which the protocol is
        judged; default: the last one.
        """
        end = float(self.edges[-1]) if end is None else end
        problem = self.problem_at(self.whole(point))
        if self.objective == "integrated":
            integral = integrated_error(
                problem, self.start, np.array([end]), self.moments, self.steps
            )
            return self.as_value(float(integral[-1]))
        if self.objective == "time":
            time = self.time_to_level(problem, end)
            if np.isfinite(time):
                return self.as_value(time)
            last = over_tasks(self.solved(problem, np.array([end])).error)[-1]
            return self.as_value(end * (1 + np.log(last / self.level)))
        if callable(self.objective):
            times = self.grid[self.grid < end]
        else:
            times = np.zeros(0)
        trajectory = self.solved(problem, np.append(times, end))
        if trajectory.times.size <= times.size:
            return FAILED
        return self.as_value(self.value(trajectory))

    def as_value(self, measured: float) -> float:
        """Return what descents follow: the logarithm of an objective.

        A custom objective is followed itself.
        """
        if not np.isfinite(measured):
            return FAILED
        if callable(self.objective):
            return float(measured)
        return float(np.log(max(measured, TINY)))

    def solved(self, problem: Problem, times: np.ndarray) -> Trajectory:
        """Solve a problem with the averages and tolerances of the search."""
        options = PROGRAM._replace(keep=keeps_blocks(problem, None))
        initial = initial_overlaps(problem, self.start)
        output = run(problem, self.moments, initial, times, self.steps, options)
        return assemble(output, times, problem, self.start, ())

    def time_to_level(self, problem: Problem, end: float) -> float:
        """Return the time at which the error first falls to the level.

        It is infinite if that is later than the end.
        """
        return time_to_level(
            float(self.level),
            np.append(self.grid[self.grid < end], end),
            lambda times: over_tasks(self.solved(problem, times).error),
        )

    def at_its_time(self, point: np.ndarray) -> "Search":
        """Return the search whose two recorded times enclose the time to the level.

        They lie at the end if the level is not reached.
        """
        end = self.edges[-1]
        time = self.time_to_level(self.problem_at(point), end)
        reached = np.isfinite(time)
        if reached:
            times = time + BESIDE * time * np.array([-1.0, 1.0])
        else:
            times = end + BESIDE * end * np.array([-1.0, 0.0])
        return eqx.tree_at(
            lambda search: (search.times, search.reached),
            self,
            (times, np.array(reached)),
        )

    def value(self, trajectory: Trajectory) -> float:
        """Return the objective of a trajectory: "final", "worst" or a custom one."""
        if callable(self.objective):
            return float(self.of_function(trajectory))
        last = trajectory.error[-1]
        if self.objective == "worst":
            return float(np.max(last))
        return float(np.mean(last))


def recorded_times(edges: np.ndarray) -> np.ndarray:
    """Return times that are even in each segment."""
    places = np.arange(edges.size)
    intervals = PER_SEGMENT * places[-1]
    return np.interp(np.linspace(0.0, places[-1], intervals + 1), places, edges)


def require_number(search: Search) -> None:
    """Raise InputError unless a custom objective is one number of a trajectory."""
    if not callable(search.objective):
        return
    name = checks.name_of(search.objective)
    fix = "write it with jax.numpy, as a function of the trajectory."
    with explained(f"the objective {name!r} fails", fix):
        result = jax.eval_shape(search.measure, jnp.full(search.size, 0.5))
    if result.shape != (1,) or not jnp.issubdtype(result.dtype, jnp.floating):
        raise InputError(
            f"the objective {name!r} is {result.dtype} of shape {result.shape[1:]}; "
            "it must be one number."
        )


def require_work_for_time(search: Search) -> None:
    """Raise InputError if the level of the objective "time" is reached at time 0."""
    if search.objective != "time":
        return
    problem = search.problem_at(np.full(search.size, 0.5))
    begins = over_tasks(search.solved(problem, search.grid[:2]).error)[0]
    if begins <= search.level:
        raise InputError(
            f"level is {search.level:g}; the error is {begins:.4g} already at time 0. "
            "Give a smaller level."
        )


def objective_of(
    search: Search, problem: Problem, start: Start, theory: Trajectory
) -> float:
    """Return the objective of a search for a problem with any schedules, and its solve.

    It is infinite where the solve does not reach the end.
    """
    if not theory.finished:
        return np.inf
    if search.objective == "integrated":
        moments = moments_for(problem)
        integral = integrated_error(
            as_arrays(problem),
            as_arrays(start),
            search.grid[-1:],
            moments,
            step_tolerances(sampled_rtol(moments)),
        )
        return float(integral[-1])
    if search.objective == "time":

        def error_at(times: np.ndarray) -> Any:
            solution = solve(problem, start, times, gradient="forward", accuracy=None)
            return over_tasks(solution.error)

        return time_to_level(float(search.level), search.grid, error_at)
    return search.value(theory)
