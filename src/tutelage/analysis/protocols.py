"""`optimize` and `greedy`: the best learning rates, tasks and other numbers in time.

A protocol is a point. It holds one number for each segment of each control (or for each
knot of a smooth one), from 0 at the lower bound to 1 at the upper one. More than two
tasks have one number each, whose softmax gives the probabilities. A point with one
number for each row is a constant protocol. docs/how-to/protocols.md says how the best
point is searched for.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of
two controls that is as fast as reverse mode and compiles in a quarter of the time.
Values, times and initial condition are data to the compiled program, so that searches
of equal shape share it. Values without a derivative come from the program of `solve`,
which costs a small part of that: they choose the protocols from which descents begin.
To add a control, let the core take a schedule in its place (`Problem.schedules`) and
add a row to `KNOBS`.

The maximum over tasks bends where two tasks are equal. A descent first follows a smooth
maximum and then minimizes s subject to e_task <= s, for all tasks. An integral over
time is a variable of the differential equations. The time to a level is read off a
solve, and its derivative from two times next to it.

The drift of the overlaps is a quadratic in the rate, and so is the change of the error
along it. So the greedy rate is known:
    d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u),    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own. A readout or bias that shares lr adds its
|gradient|^2 to a and nothing to b. Only the next moment counts: on a plateau a -> 0,
the rate follows and the escape is delayed. `optimize` and D. Saad and M. Rattray, Phys.
Rev. Lett. 79, 2578 (1997), optimize over the whole time instead.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import (
    NonlinearConstraint,
    OptimizeResult,
    approx_fprime,
    linprog,
    minimize,
)
from scipy.special import logsumexp, softmax
from scipy.stats import qmc

from tutelage import checks
from tutelage._solve import simulate, solve
from tutelage._types import Array, ArrayLike, NumpyOrJax, Table
from tutelage.analysis.noise import states_of
from tutelage.analysis.result import AnalysisResult, first_time_at
from tutelage.errors import InputError, TutelageWarning, explained
from tutelage.problem import (
    Interleave,
    Interpolated,
    Linear,
    Piecewise,
    Problem,
    Replay,
    Start,
)
from tutelage.problem.labels import Real
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLOSED, MIXTURES, TASKS
from tutelage.progress import progress_bar
from tutelage.result.trajectory import Trajectory
from tutelage.solvers.program import Options, step_tolerances
from tutelage.stream import OrderParameters, Overlaps, initial_overlaps
from tutelage.stream.moments import Moments, moments_for
from tutelage.stream.moments.averages import array_module
from tutelage.stream.order_parameters import as_arrays
from tutelage.stream.program import integrate_equations, run
from tutelage.stream.solve import assemble, keeps_blocks, prepare, sampled_rtol

Objective: TypeAlias = str | Callable[[Trajectory], ArrayLike]
Limits: TypeAlias = tuple[float, float]
OBJECTIVES = ("final", "integrated", "worst", "time")
SHAPES = ("piecewise", "smooth")

# Points and values
FEASIBLE = 1e-6  # of the range: by which the mean of a control may exceed its budget
LOGIT = 8.0  # largest logit of a task's probability
TINY = np.finfo(float).tiny  # the smallest number whose logarithm is taken
FAILED = 50.0  # the value, in logarithms, of a protocol that diverges
SMALLEST = 1e-12  # errors below this are not solved to a digit
NUDGE = 0.05  # of the range of a control: the change whose cost `sensitivity` tells

# Times
PER_SEGMENT = 8  # intervals of the recorded times in each segment
LOOKS = 33  # recorded times in an interval in which the level is reached
ZOOMS = 2  # how often such an interval is divided by so many times
BESIDE = 1e-4  # of the time to a level: distance at which its derivative is read

# The protocols from which descents begin
SCANNED = 16  # constant protocols that are tried for each control
CORNERS = 16  # protocols between extreme values that are tried
PHASES = 8  # of the greedy protocol from which a descent may begin, at most
LEVELS = 5  # values of each control that are tried in each of these phases
SHORT = 10  # iterations of the first descents, after which the best ones go on
MORE = 3  # of these first descents than of those that go on
CONSTANT_STARTS = 2  # descents among constant protocols
CONSTANT_ITERATIONS = 100
APART = 0.15  # of the range: protocols this far apart are different starts

# Descents
SHARPNESS = 20.0  # of the smooth maximum over tasks, which a descent follows first
ACTIVE = 1e-4  # tasks whose error is this close to the largest, relatively, decide
# Of the range: distances from the best point to which a descent goes, one by one.
REACHES = (1.0, 0.2, 0.05, 1.0)
CONVERGED = 1e-3  # a slope that is small enough
AT_BOUND = 1e-6  # of the range: a control this close to a bound lies on it

GREEDY_TIMES = 128  # at which the greedy rate is kept, dense at both ends


class Knob(NamedTuple):
    """A control.

    path: the name of its schedule in the problem. has: true for problems that have it.
    fix: advice for the others. highest: the largest value that makes sense.
    """

    path: str
    has: Callable[[Problem], bool]
    fix: str
    highest: float = np.inf


def _moves_first_layer_with_lr(problem: Problem) -> bool:
    return getattr(problem.optimizer.momentum, "k", None) is None


def _replays(problem: Problem) -> bool:
    return isinstance(getattr(problem.teacher, "schedule", None), Replay)


KNOBS: dict[str, Knob] = {
    "lr": Knob(
        path="optimizer.lr",
        has=_moves_first_layer_with_lr,
        fix="k of SlowMomentum moves the first layer; omit k",
    ),
    "readout_lr": Knob(
        path="optimizer.readout_lr",
        has=lambda problem: problem.student.train_readout,
        fix="the readout is fixed; use train_readout=True",
    ),
    "bias_lr": Knob(
        path="optimizer.bias_lr",
        has=lambda problem: problem.student.train_bias,
        fix="the biases are fixed; use train_bias=True",
    ),
    "weight_decay": Knob(
        path="optimizer.weight_decay",
        has=lambda problem: not problem.optimizer.spherical,
        fix="the length is fixed; use spherical=False",
    ),
    "noise": Knob(
        path="noise",
        has=lambda problem: type(problem.labels) is Real,
        fix="only labels='real' have noise; control 'flip' instead",
    ),
    "flip": Knob(
        path="labels.flip",
        has=lambda problem: hasattr(problem.labels, "flip"),
        fix="use labels='sign', or control 'noise'",
        highest=1.0,
    ),
    "keep": Knob(
        path="rule.keep",
        has=lambda problem: hasattr(problem.rule, "keep"),
        fix="no unit is dropped; use rule=rules.Dropout(0.8)",
        highest=1.0,
    ),
    "feedback": Knob(
        path="rule.strength",
        has=lambda problem: hasattr(problem.rule, "strength"),
        fix="use rule=tu.rules.FeedbackAlignment(...)",
    ),
    "tasks": Knob(
        path="teacher.schedule.shares",
        has=lambda problem: problem.several_tasks is not None,
        fix="use several teachers, tu.Tasks([...])",
        highest=1.0,
    ),
    "replay": Knob(
        path="teacher.schedule.fraction",
        has=_replays,
        fix=(
            "its tasks are not replayed; "
            "use Tasks(..., schedule=tu.Replay(0.2, after=60.0))"
        ),
        highest=1.0,
    ),
}


def changed(problem: Problem, controls: Mapping[str, Any]) -> Problem:
    """Return the problem under numbers or schedules of its controls.

    Tasks may also have a law of their own, which `Tasks(schedule=...)` takes.
    """
    changes = {KNOBS[name].path: value for name, value in controls.items()}
    if "tasks" in controls:
        shares = changes.pop(KNOBS["tasks"].path)
        is_schedule = callable(shares) or hasattr(shares, "probabilities")
        changes["teacher.schedule"] = shares if is_schedule else Interleave(shares)
    if not changes:
        return problem
    return problem.replace(**changes)


def schedule_of(name: str, shape: str, edges: np.ndarray, rows: np.ndarray) -> Any:
    """Return the schedule of a control with values (rows, segments).

    That of tasks is an `Interleave`.
    """
    schedules: list[Any] = []
    for row in rows:
        if shape == "smooth":
            schedules.append(Linear(edges, row))
        else:
            schedules.append(Piecewise(edges[1:-1], row))
    # a tuple for more than two tasks
    shares = tuple(schedules) if len(schedules) > 1 else schedules[0]
    if name == "tasks":
        return Interleave(shares)
    return shares


class AccumulatedError(OrderParameters):
    """The dynamics of a problem next to the integral of its error over time.

    A state is a pair: the overlaps, and the integral of the mean error over tasks. The
    tolerance of the integral guides the steps, not the error itself.
    """

    def drift_and_error_rate(self, t: ArrayLike, state: Any) -> tuple[Any, Array]:
        """Return the drift of both; no rate of the error."""
        overlaps = state[0]
        error = self.error_and_loss(OrderParameters.observe(self, overlaps), t)[0]
        drift = OrderParameters.drift(self, t, overlaps)
        return (drift, jnp.mean(error)), jnp.zeros_like(error)

    def observe(self, state: Any) -> dict[str, Array]:
        """Return the recorded overlaps, and the integral."""
        overlaps, integral = state
        return OrderParameters.observe(self, overlaps) | {"integral": integral}


PROGRAM = Options(gradient_flow=False, solver="explicit", keep=False)


def integrated_error(
    problem: Problem, start: Start, times: Any, moments: Moments, steps: Any
) -> Any:
    """Return the integral of the mean error over tasks, up to each of the times.

    It is NaN after a divergence.
    """
    overlaps, t = initial_overlaps(problem, start)
    system = AccumulatedError(
        problem, t, gradient_flow=False, keep_blocks=False, moments=moments
    )
    initial = (overlaps, np.zeros(()))
    solved = integrate_equations(system, moments, initial, times, steps, PROGRAM)
    return solved.variables["integral"]


def over_tasks(error: Any) -> Any:
    """Return the mean error over tasks, at each time."""
    return error.mean(axis=1) if error.ndim > 1 else error


def time_to_level(
    level: float, times: np.ndarray, error_at: Callable[[np.ndarray], np.ndarray]
) -> float:
    """Return the time at which an error first falls to a level.

    It is infinite if the error does not do so up to the last time. error_at(times)
    solves. The interval in which the level is reached is solved again at more times, so
    that nothing is interpolated over more than a thousandth of it.
    """
    error = error_at(times)
    for _ in range(ZOOMS):
        below = np.flatnonzero(error <= level)
        if not below.size:
            return np.inf
        first = below[0]
        if first == 0:
            return float(times[0])
        times = np.linspace(times[first - 1], times[first], LOOKS)
        error = error_at(times)
    return float(first_time_at(level, times, error))


def _rows_of(control: str, problem: Problem) -> int:
    """Return the number of schedules of a control: one for each of many tasks."""
    if control == "tasks" and problem.teacher.count > 2:
        return problem.teacher.count
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
            schedule: Any = attrgetter(KNOBS[name].path)(problem)
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


@eqx.filter_jit
def value_and_slope(search: Search, point: Array) -> tuple[Array, Array]:
    """Return ln(objective), (parts,), and its derivative, (parts, size).

    A custom objective is returned itself. Only "worst" has several parts, one for each
    task.
    """

    def value(point: Array) -> tuple[Array, Array]:
        measured = search.measure(point)
        if callable(search.objective):
            return measured, measured
        logarithm = jnp.log(jnp.maximum(measured, jnp.finfo(float).tiny))
        return logarithm, logarithm

    slope, parts = jax.jacfwd(value, has_aux=True)(point)
    return parts, slope


class Evaluation(NamedTuple):
    """A point, the parts of its value, and their slopes (parts, size).

    Of "worst" there is one part for each task.
    """

    point: np.ndarray
    parts: np.ndarray
    slopes: np.ndarray

    @property
    def value(self) -> float:
        """The value that is minimized: FAILED where the protocol diverges."""
        return float(np.max(self.parts))

    @property
    def smooth(self) -> tuple[float, np.ndarray]:
        """A maximum of the parts that is smooth everywhere, and its derivative."""
        value = logsumexp(SHARPNESS * self.parts, b=1 / self.parts.size) / SHARPNESS
        return float(value), softmax(SHARPNESS * self.parts) @ self.slopes


by_value = attrgetter("value")  # the key by which points are compared


def evaluate(search: Search, point: np.ndarray) -> Evaluation:
    """Return value and slopes of a point.

    It may have fewer numbers than there are segments.
    """
    whole = search.whole(point)
    if search.objective == "time":
        search = search.at_its_time(whole)
    values, derivatives = value_and_slope(search, jnp.asarray(whole))
    parts = np.asarray(values)
    slopes = np.asarray(derivatives)
    if not (np.all(np.isfinite(parts)) and np.all(np.isfinite(slopes))):
        return Evaluation(
            point=point.copy(),
            parts=np.full(parts.shape, FAILED),
            slopes=np.zeros((parts.size, point.size)),
        )
    # the segments that each number of the point stands for
    members = np.stack([search.whole(row) for row in np.eye(point.size)])
    return Evaluation(point.copy(), parts, slopes @ members.T)


def _no_tick() -> None:
    """Count no iteration."""


def descend(
    search: Search,
    point: np.ndarray,
    iterations: int,
    kept: list[Evaluation],
    tick: Callable[[], object] = _no_tick,
) -> None:
    """Descend from a point, and keep what is met within bounds and budgets.

    tick: called after each iteration.
    """
    first = len(kept)
    latest: list[Evaluation] = []

    def evaluated(point: np.ndarray) -> Evaluation:
        """Return value and slopes, which SciPy asks for separately."""
        if latest and np.array_equal(latest[0].point, point):
            return latest[0]
        evaluation = evaluate(search, np.clip(point, 0.0, 1.0))
        latest[:] = [evaluation]
        whole = search.whole(evaluation.point)
        if evaluation.value < FAILED and search.keeps_budgets(whole):
            kept.append(evaluation)
        return evaluation

    def best() -> Evaluation:
        return min(kept[first:], key=by_value)

    def has_converged() -> bool:
        return bool(kept[first:]) and free_slope(search, best()) < CONVERGED

    budgets = _budget_constraints(search)
    used = 0
    # After a first step that is too long all further points diverge: then look nearby.
    for reach in REACHES:
        center = best().point if kept[first:] else point
        bounds = np.stack([center - reach, center + reach], axis=1)
        result: OptimizeResult = minimize(
            lambda point: evaluated(point).smooth,
            center,
            jac=True,
            method="SLSQP" if budgets else "L-BFGS-B",
            bounds=np.clip(bounds, 0.0, 1.0),
            constraints=budgets,
            callback=lambda _: tick(),
            options={"maxiter": max(iterations - used, 1), "ftol": 1e-9},
        )
        used += result.nit
        if used >= iterations or has_converged():
            break
    is_long = iterations > SHORT
    if is_long and kept[first:] and best().parts.size > 1:
        lower_the_largest(best(), evaluated, budgets, iterations)


def _budget_constraints(search: Search) -> list[Any]:
    """Return the budgets as constraints of SciPy; none if no control has one."""
    limited = np.isfinite(search.budgets).any(axis=1)
    if not limited.any():
        return []

    def spent(point: np.ndarray) -> np.ndarray:
        return search.spent(search.whole(point))[limited]

    least, most = search.budgets[limited].T
    return [NonlinearConstraint(spent, least, most)]


def lower_the_largest(
    best: Evaluation,
    evaluated: Callable[[np.ndarray], Evaluation],
    budgets: list[Any],
    iterations: int,
) -> None:
    """Go on from a point to the least maximum of the parts.

    Minimize s subject to parts <= s: the smooth maximum is lowest elsewhere, and the
    maximum bends where two parts are equal. The variables are the point and, last, s.
    """
    size = best.point.size
    slope_of_s = np.eye(size + 1)[-1]

    def below(variables: np.ndarray) -> np.ndarray:
        return variables[-1] - evaluated(variables[:-1]).parts

    def slopes_below(variables: np.ndarray) -> np.ndarray:
        slopes = evaluated(variables[:-1]).slopes
        return np.concatenate([-slopes, np.ones((len(slopes), 1))], axis=1)

    constraints: list[Any] = [{"type": "ineq", "fun": below, "jac": slopes_below}]
    constraints += [_without_last(budget) for budget in budgets]
    minimize(
        lambda variables: (variables[-1], slope_of_s),
        np.append(best.point, best.value),
        jac=True,
        method="SLSQP",
        bounds=[*[(0.0, 1.0)] * size, (best.value - 5.0, best.value + 5.0)],
        constraints=constraints,
        options={"maxiter": iterations, "ftol": 1e-10},
    )


def _without_last(budget: Any) -> NonlinearConstraint:
    """Return a constraint of a point as one of variables with one number more."""
    return NonlinearConstraint(
        lambda variables: budget.fun(variables[:-1]), budget.lb, budget.ub
    )


def free_slope(search: Search, evaluation: Evaluation) -> float:
    """Return the largest slope that bounds, budgets and equal parts leave free.

    It is 0 at an optimum. It follows from the multipliers of Karush, Kuhn and Tucker
    that make it smallest, a linear program: those of the parts that are largest (zero
    or more, with the sum one), and those of the budgets that are used up (of the sign
    that their side has).
    """
    z = evaluation.point
    spent = search.spent(search.whole(z))
    spent_slopes: Any = approx_fprime(z, lambda z: search.spent(search.whole(z)))
    rows = np.atleast_2d(spent_slopes)
    least, most = search.budgets.T
    at_most = rows[most - spent < 10 * FEASIBLE]
    at_least = -1.0 * rows[spent - least < 10 * FEASIBLE]
    is_largest = evaluation.parts >= evaluation.value - ACTIVE
    largest = evaluation.slopes[is_largest]
    slopes = np.concatenate([largest, at_most, at_least])
    falling = slopes[:, z < 1 - AT_BOUND]  # may still be raised: -slope <= t
    rising = slopes[:, z > AT_BOUND]  # may still be lowered: slope <= t
    if len(slopes) == 1:
        return float(np.max(np.append(-falling[0], rising[0]), initial=0.0))
    # variables: the multipliers and, last, t
    table = np.concatenate([-falling.T, rising.T])
    result = linprog(
        np.append(np.zeros(len(slopes)), 1.0),
        A_ub=np.concatenate([table, -np.ones((len(table), 1))], axis=1),
        b_ub=np.zeros(len(table)),
        A_eq=[np.append(np.arange(len(slopes)) < len(largest), 0.0)],
        b_eq=[1.0],
        bounds=(0.0, None),
    )
    if not result.success:
        return float(np.max(np.abs(largest)))
    return float(result.fun)


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


class Candidate(NamedTuple):
    """A protocol from which a descent may begin, and its value."""

    point: np.ndarray
    value: float


def candidate_at(search: Search, point: np.ndarray) -> Candidate:
    """Return a candidate at a point."""
    return Candidate(point, search.value_at(point))


def _finite(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates that do not diverge, best first."""
    finite = [candidate for candidate in candidates if candidate.value < FAILED]
    return sorted(finite, key=by_value)


def best_constants(search: Search) -> tuple[Evaluation, list[Candidate]]:
    """Return the best constant protocol, and all that were tried and stay finite.

    The latter are ordered, best first.
    """
    size = sum(search.rows)
    halton = qmc.Halton(size, scramble=False).random(SCANNED * size + 1)
    points = np.vstack([np.full(size, 0.5), halton[1:]])
    candidates = _finite([candidate_at(search, point) for point in points])
    kept: list[Evaluation] = []
    for point in _apart(candidates, CONSTANT_STARTS):
        descend(search, point, CONSTANT_ITERATIONS, kept)
    if not kept:
        raise InputError(
            f"no constant protocol stays finite up to t_max = {search.edges[-1]:g}; "
            "give lower bounds."
        )
    best = min(kept, key=by_value)
    if not callable(search.objective) and np.exp(best.value) < SMALLEST:
        raise InputError(
            f"a constant protocol reaches {np.exp(best.value):.1g}, mere rounding; "
            "shorten t_max or add noise."
        )
    return best, candidates


def within_budgets(search: Search, point: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the point nearest to `point` that keeps the budgets.

    It lies on the line to a point inside them.
    """
    for share in np.linspace(1.0, 0.0, 21):
        mixed = inside + share * (point - inside)
        if search.keeps_budgets(mixed):
            return mixed
    return inside


def corner_protocols(search: Search) -> list[np.ndarray]:
    """Return some protocols whose controls jump between their bounds.

    Constant ones are left out.
    """
    rows = sum(search.rows)
    most_phases = 3 if rows == 1 else 2
    phases = min(search.shares.size, most_phases)
    size = rows * phases
    if size <= np.log2(CORNERS):
        corners = np.array(list(np.ndindex(*[2] * size)), float)
    else:
        halton = qmc.Halton(size, scramble=False).random(CORNERS)
        corners = np.unique(np.round(halton), axis=0)
    changing = np.ptp(corners.reshape(-1, rows, phases), axis=2).max(axis=1) > 0
    return [search.whole(corner) for corner in corners[changing]]


def greedy_protocol(search: Search) -> np.ndarray:
    """Return the protocol that is best at the end of each phase in turn."""
    rows = sum(search.rows)
    phases = min(search.shares.size, PHASES)
    table = np.full((rows, phases), 0.5)
    ends = search.edges[-1] * np.arange(1, phases + 1) / phases
    for phase, end in enumerate(ends):
        for row in range(rows):
            choices = []
            for level in np.linspace(0.0, 1.0, LEVELS):
                table[row, phase:] = level
                choices.append((search.value_at(table.ravel(), end), level))
            _, best_level = min(choices)
            table[row, phase:] = best_level
    return search.whole(table.ravel())


def first_points(
    search: Search, constant: Evaluation, constants: list[Candidate], count: int
) -> list[np.ndarray]:
    """Return the points from which descents begin.

    These are the best constant protocol, the middle, the greedy protocol and then the
    best ones of all constants and corners that differ from those before them.
    """
    inside = search.whole(constant.point)
    middle = search.whole(np.full(sum(search.rows), 0.5))
    first = [inside, middle]
    if not callable(search.objective):
        first.append(greedy_protocol(search))
    more = [search.whole(candidate.point) for candidate in constants]
    if search.shares.size > 1:
        more += corner_protocols(search)
    always = [
        Candidate(within_budgets(search, point, inside), -np.inf) for point in first
    ]
    scanned = [
        candidate_at(search, within_budgets(search, point, inside)) for point in more
    ]
    return _apart([*always, *_finite(scanned)], count)


def _apart(candidates: list[Candidate], count: int) -> list[np.ndarray]:
    """Return the first points that differ; fewer if there are no more."""
    chosen: list[np.ndarray] = []
    for point, _ in candidates:
        if all(np.max(np.abs(point - other)) >= APART for other in chosen):
            chosen.append(point)
    return chosen[:count]


@dataclass(frozen=True)
class Baseline:
    """Another protocol for comparison.

    controls: numbers and schedules by name. value: its objective.
    """

    controls: Table
    trajectory: Trajectory
    value: float


@dataclass(frozen=True, repr=False)
class OptimalProtocol(AnalysisResult, figure="plot_protocol"):
    """The best protocol that `optimize` reached, and those that it was compared with.

    Attributes
    ----------
    problem
        With the protocol in it, as `solve`, `simulate` and files take it.
    schedules
        The schedule of each control by name; of "tasks" for `Tasks(schedule=...)`.
    value
        The objective under the protocol; infinite for a level that is not reached.
    trajectory
        The theory under the protocol.
    baselines
        Other protocols by name; the first is "best constant".
    starts
        The objective that each descent reached, best first.
    first
        The objectives after the first, short descents, of which the best ones went on.
    slope
        The largest d ln(objective) / d control that bounds, budgets and tasks of equal
        error leave free, the control in units of its range; 0 at an optimum.
    sensitivity
        The growth of the objective, as a share of itself, if one segment of a control
        moves by 5% of its range.
    totals
        The integral of each control over time.
    notes
        Remarks on bounds that are met, or an interruption.
    """

    problem: Problem
    start: Start
    objective: Objective
    bounds: dict[str, Limits]
    schedules: Table
    value: float
    trajectory: Trajectory
    baselines: dict[str, Baseline]
    starts: np.ndarray
    first: np.ndarray
    slope: float
    sensitivity: dict[str, np.ndarray]
    totals: dict[str, float]
    notes: tuple[str, ...]

    @property
    def schedule(self) -> Any:
        """The schedule of the first control."""
        return next(iter(self.schedules.values()))

    @property
    def best_constant(self) -> Baseline:
        """The best protocol that does not change in time."""
        return self.baselines["best constant"]

    @property
    def gain(self) -> float:
        """The objective under the best constant protocol, divided by `value`."""
        return self.gains["best constant"]

    @property
    def gains(self) -> dict[str, float]:
        """The objective under each baseline, divided by `value`.

        It is NaN where neither reaches the level.
        """
        gains = {}
        with np.errstate(invalid="ignore"):
            for name, baseline in self.baselines.items():
                gains[name] = float(np.divide(baseline.value, self.value))
        return gains

    @property
    def spread(self) -> float:
        """The worst of `starts` in units of the best, less one.

        It is 0 if all descents ended at one value.
        """
        with np.errstate(invalid="ignore"):
            return float(np.ptp(self.starts) / np.abs(np.min(self.starts)))

    def simulate(
        self, dim: int, runs: int = 20, *, seed: int = 0, **options: Any
    ) -> Trajectory:
        """Simulate networks of finite size under the protocol.

        They are recorded at the times of the trajectory. Options: those of
        `tu.simulate`.
        """
        return simulate(
            self.problem,
            self.start,
            dim=dim,
            times=self.trajectory.times,
            runs=runs,
            seed=seed,
            **options,
        )

    def __str__(self) -> str:
        end = float(self.trajectory.times[-1])
        names = " and ".join(self.schedules)
        lines = [
            f"protocol of {names} for the smallest {self._objective_in_words()} "
            f"up to alpha = {end:g}: {self._shown(self.value)}"
        ]
        lines += [self._baseline_line(name) for name in self.baselines]
        for name, total in self.totals.items():
            schedule = _in_words(self.schedules[name])
            lines.append(f"  {name}: {schedule}; mean {total / end:.4g}")
        lines.append(self._descents_line())
        if self.first.size > 1:
            least = self._shown(self.first.min())
            most = self._shown(self.first.max())
            lines.append(
                f"chosen from {self.first.size} short descents, "
                f"which reached {least} to {most}"
            )
        return "\n".join([*lines, *self.notes])

    def _objective_in_words(self) -> str:
        if callable(self.objective):
            return "objective"
        if self.objective == "time":
            return "time to the level"
        return f"{self.objective} error"

    def _baseline_line(self, name: str) -> str:
        """Return a baseline, its value and its controls in one line."""
        baseline = self.baselines[name]
        gain = self.gains[name]
        settings = []
        for control, value in baseline.controls.items():
            settings.append(f"{control} {_in_words(value)}")
        value = self._shown(baseline.value)
        if np.isfinite(gain):
            value += f", {gain:.4g} times as much"
        return f"  {name}: {value} ({', '.join(settings)})"

    def _descents_line(self) -> str:
        """Return the values at which descents ended, and the slope at the best."""
        ends = ", ".join(self._shown(value) for value in self.starts)
        spread = ""
        if self.starts.size > 1 and np.isfinite(self.spread):
            spread = f" (spread {100 * self.spread:.2g}%)"
        return f"descents ended at {ends}{spread}; largest free slope {self.slope:.1e}"

    def _shown(self, value: float) -> str:
        """Return a value of the objective as text; words for a level not reached."""
        if self.objective == "time" and np.isinf(value):
            return f"not reached within {float(self.trajectory.times[-1]):g}"
        return f"{value:.4g}"


def _in_words(value: Any) -> str:
    """Return a number or schedule of a control as text."""
    if isinstance(value, Interleave):
        value = value.shares
    if isinstance(value, tuple | list):
        return " / ".join([_in_words(part) for part in value])
    if hasattr(value, "values"):
        numbers = np.asarray(value.values)
        return (
            f"from {numbers[0]:.3g} to {numbers[-1]:.3g}, "
            f"within [{numbers.min():.3g}, {numbers.max():.3g}]"
        )
    if hasattr(value, "probabilities") or callable(value):
        return checks.shown(value)
    return f"{float(value):.4g}"


def optimize(
    problem: Problem,
    start: Start,
    t_max: float,
    controls: Mapping[str, tuple[float, float]],
    objective: Objective = "final",
    *,
    level: float | None = None,
    segments: ArrayLike = 24,
    shape: str = "piecewise",
    budgets: Mapping[str, Any] | None = None,
    baselines: Mapping[str, Mapping[str, Any]] | None = None,
    starts: int = 2,
    iterations: int = 200,
    progress: bool = False,
) -> OptimalProtocol:
    """Return the protocol on [0, t_max] that makes an objective smallest at large N.

    Parameters
    ----------
    problem : Problem
        A number or schedule of it that is controlled only has to exist; the protocol
        replaces it.
    start, t_max : Start, float
        The initial condition, and the last time.
    controls : dict of (low, high)
        Bounds of each control by name: "lr", "readout_lr", "bias_lr", "weight_decay",
        "noise" and "flip" (of labels), "keep" (dropout), "feedback" (strength of
        feedback alignment), "tasks" (probability of the first of two tasks; of more
        tasks the probabilities of all, bounds (0, 1)), "replay". A readout_lr that is
        None follows lr.
    objective : str or callable
        "final", the error at t_max; "integrated", its integral over time; "worst", the
        final error of the worst task; "time", the time at which the error first falls
        to `level`, infinite if it does not (then the search lowers the final error); or
        a JAX function of the trajectory that returns one number. The error is the mean
        over tasks.
    level : float, optional
        The error to reach, for "time".
    segments : int or list of float
        Number of segments of equal length, or the times at which they begin and end.
    shape : str
        "piecewise", constant on each segment; "smooth", straight between the ends of
        segments.
    budgets : dict, optional
        Limits on the integral of a control over time: the largest, or (smallest,
        largest); None: no limit.
    baselines : dict of dict, optional
        Protocols to compare with, as {"half": {"tasks": 0.5}}: numbers or schedules.
        Others are constants, chosen best.
    starts : int
        Descents that are followed to their end. They are the best ones of short
        descents from the best constant protocol, the middle of the bounds, the greedy
        protocol, and protocols between extreme values.
    iterations : int
        The most of each descent.
    progress : bool
        Show a progress bar after two seconds. Ctrl-C returns the best protocol found so
        far.

    Returns
    -------
    OptimalProtocol

    Examples
    --------
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, optimizer=tu.SGD(lr=0.5), noise=0.1)
    >>> start = tu.Start([[0.0]], [[0.0]])
    >>> bounds = {"lr": (0.0, 1.0)}
    >>> best = tu.schedules.optimize(problem, start, 20.0, bounds, segments=4)
    >>> best.gain > 1.2
    True
    """
    problem = require_problem(
        problem, "optimize", needs=("differentiable", TASKS, MIXTURES)
    )
    checks.require_untraced("start", "optimize", require_start(start))
    t_max = checks.as_positive("t_max", t_max)
    limits = checked_controls(problem, controls)
    other_controls = _checked_baselines(problem, baselines or {})
    edges = _checked_edges(segments, t_max)
    objective = _checked_objective(objective, level)
    shape = checks.known("shape", shape, SHAPES)
    level = 1.0 if level is None else checks.as_positive("level", level)
    integrals = _checked_budgets(budgets or {}, limits, t_max)
    starts = checks.as_count("starts", starts)
    iterations = checks.as_count("iterations", iterations)
    progress = checks.as_flag("progress", progress)
    make_search = partial(
        Search,
        start=start,
        edges=edges,
        shape=shape,
        objective=objective,
        level=level,
        budgets=integrals,
    )
    search = make_search(problem, limits)
    require_number(search)
    require_work_for_time(search)

    judged = partial(_judged, search, problem, start)

    def schedules_at(point: np.ndarray) -> Table:
        """Return the schedules of all controls."""
        schedules = {}
        for name, rows in search.values(search.whole(point)).items():
            schedules[name] = schedule_of(name, shape, edges, np.asarray(rows))
        return schedules

    short = min(SHORT, iterations)
    longest = (starts + MORE) * short + starts * iterations
    with (
        progress_bar(longest, "optimizing", progress) as bar,
        warnings.catch_warnings(),
    ):
        # a trial may diverge; the final choice warns
        warnings.simplefilter("ignore", TutelageWarning)
        constant, candidates = best_constants(search)
        constant_numbers = _numbers(search, constant)
        compared = {
            "best constant": judged(constant_numbers, schedules_at(constant.point))
        }
        for name, fixed in other_controls.items():
            # controls that a baseline leaves out are constants, chosen best
            free = {key: pair for key, pair in limits.items() if key not in fixed}
            if free:
                rest = make_search(changed(problem, fixed), free)
                fixed = fixed | _numbers(rest, best_constants(rest)[0])
            compared[name] = judged(fixed)
        descents = run_descents(
            search, constant, candidates, starts, iterations, bar.update
        )
    first = _best_of_each(descents.short)
    ended = _sorted_ends(descents)
    best = ended[0]
    notes = _bound_notes(search, best.point)
    if descents.interrupted:
        notes.append("interrupted: the best protocol so far")
    schedules = schedules_at(best.point)
    solution = judged(schedules)
    return OptimalProtocol(
        problem=changed(problem, schedules),
        start=start,
        objective=objective,
        bounds=limits,
        schedules=schedules,
        value=solution.value,
        trajectory=solution.trajectory,
        baselines=compared,
        starts=_objectives(search, ended),
        first=_objectives(search, first),
        slope=free_slope(search, best),
        sensitivity=_sensitivity(search, best, descents.interrupted),
        totals=_totals(search, best.point, t_max),
        notes=tuple(notes),
    )


def _judged(
    search: Search,
    problem: Problem,
    start: Start,
    controls: Table,
    solved: Table | None = None,
) -> Baseline:
    """Solve the theory under controls, and return its objective.

    The objective is infinite if the theory does not reach the end. solved: the same
    controls as schedules, if a program for these is compiled anyway.
    """
    if solved is None:
        solved = controls
    under = changed(problem, solved)
    theory = solve(under, start, search.grid, gradient="forward", accuracy=None)
    return Baseline(
        controls=controls,
        trajectory=replace(theory, problem=changed(problem, controls)),
        value=objective_of(search, under, start, theory),
    )


def _totals(search: Search, point: np.ndarray, t_max: float) -> dict[str, float]:
    """Return the integral of each control over time."""
    totals = {}
    for name, rows in search.values(point).items():
        totals[name] = t_max * float(np.asarray(rows)[0] @ search.shares)
    return totals


def _sorted_ends(descents: "Descents") -> list[Evaluation]:
    """Return the best point of each descent, of the full ones if there are any."""
    ended = sorted(_best_of_each(descents.full or descents.short), key=by_value)
    if not ended:
        raise InputError(
            "cannot optimize: no finite derivative at the best constant protocol. "
            "Narrow the bounds."
        )
    return ended


@dataclass
class Descents:
    """All that was kept of each descent. short: of the first, short ones."""

    short: list[list[Evaluation]]
    full: list[list[Evaluation]]
    interrupted: bool = False


def _best_of_each(descents: list[list[Evaluation]]) -> list[Evaluation]:
    """Return the best point of each descent that kept one."""
    return [min(kept, key=by_value) for kept in descents if kept]


def run_descents(
    search: Search,
    constant: Evaluation,
    candidates: list[Candidate],
    starts: int,
    iterations: int,
    tick: Callable[[], object],
) -> Descents:
    """Descend shortly from several points, and follow the best descents to their end.

    A keyboard interrupt ends the search; what was kept up to then is returned.
    """
    descents = Descents(short=[], full=[])
    try:
        for point in first_points(search, constant, candidates, starts + MORE):
            descents.short.append([])
            short = min(SHORT, iterations)
            descend(search, point, short, descents.short[-1], tick)
        begun = sorted(_best_of_each(descents.short), key=by_value)
        for evaluation in begun[:starts]:
            descents.full.append([evaluation])
            descend(search, evaluation.point, iterations, descents.full[-1], tick)
    except KeyboardInterrupt:
        descents.interrupted = True
    return descents


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


def _objectives(search: Search, evaluations: list[Evaluation]) -> np.ndarray:
    """Return the objectives of points, increasing.

    They are infinite where a level is not reached.
    """
    values = np.sort([evaluation.value for evaluation in evaluations])
    if callable(search.objective):
        return values
    values = np.exp(values)
    late = search.objective == "time"
    return np.where(late & (values > search.edges[-1]), np.inf, values)


def _numbers(search: Search, constant: Evaluation) -> Table:
    """Return the values of a constant protocol by name.

    Those of more than two tasks are lists.
    """
    by_name: Table = {}
    for name, rows in search.values(constant.point).items():
        numbers = np.ravel(rows).tolist()
        by_name[name] = numbers if len(numbers) > 1 else numbers[0]
    return by_name


def _sensitivity(
    search: Search, best: Evaluation, interrupted: bool
) -> dict[str, np.ndarray]:
    """Return the growth of the objective for a change of each number of the point.

    The number moves by NUDGE towards the middle of its range. An interrupted search
    skips this: all values are NaN.
    """
    growth = np.full(search.size, np.nan)
    value = search.value_at(best.point)
    if not interrupted:
        for i, z in enumerate(best.point):
            moved = best.point.copy()
            moved[i] += NUDGE if z < 0.5 else -NUDGE
            growth[i] = search.value_at(moved) - value
    if callable(search.objective):
        growth = growth / abs(value)
    else:
        growth = np.expm1(growth)
    sensitivity = {}
    for name, rows in search.by_control(growth).items():
        sensitivity[name] = rows[0] if len(rows) == 1 else rows
    return sensitivity


def _bound_notes(search: Search, point: np.ndarray) -> list[str]:
    """Return a note for each control on a bound that could be another one."""
    notes = []
    controls = search.by_control(point).items()
    for (name, numbers), (low, high) in zip(controls, search.bounds, strict=True):
        sides = (
            ("lower", low, numbers < AT_BOUND),
            ("upper", high, numbers > 1 - AT_BOUND),
        )
        for word, bound, met in sides:
            if met.any() and bound not in (0.0, KNOBS[name].highest):
                notes.append(
                    f"{name} lies at its {word} bound {bound:g} at {met.sum()} of "
                    f"{numbers.size} places; other bounds may gain more"
                )
    return notes


# Checks of the arguments of `optimize`


def _checked_objective(objective: Objective, level: float | None) -> Objective:
    """Return the objective; "time" needs a level, and no other one may have it."""
    if not callable(objective):
        objective = checks.known("objective", objective, OBJECTIVES)
    if (objective == "time") != (level is not None):
        raise InputError(
            f"objective is {checks.shown(objective)} and level is "
            f"{checks.shown(level)}; 'time' needs a level, the error to reach, "
            "and no other objective has one."
        )
    return objective


def _as_table(name: str, value: object, example: str, least: int = 0) -> Table:
    if not isinstance(value, Mapping) or len(value) < least:
        raise InputError(
            f"{name} is {checks.shown(value)}; it must be a table, such as {example}."
        )
    return dict(value)


def checked_controls(problem: Problem, controls: object) -> dict[str, Limits]:
    """Return the bounds of each control, every name and number checked."""
    table = _as_table("controls", controls, "{'lr': (0.0, 3.0)}", least=1)
    limits = {}
    for name, pair in table.items():
        knob = _known_control(problem, name)
        limits[name] = checked_bounds(name, pair, knob.highest)
    if "keep" in limits and limits["keep"][0] == 0:
        raise InputError(
            "the lower bound of keep is 0; some units must stay active. "
            "Use a positive one, such as 0.1."
        )
    if {"tasks", "replay"} <= set(limits):
        raise InputError(
            "controls has tasks and replay; both decide which task is shown. "
            "Control one of them."
        )
    has_many_tasks = "tasks" in limits and problem.teacher.count > 2
    if has_many_tasks and limits["tasks"] != (0.0, 1.0):
        raise InputError(
            f"the bounds of tasks are {limits['tasks']}; "
            "they must be (0, 1) for more than two tasks."
        )
    return limits


def _known_control(problem: Problem, name: str) -> Knob:
    """Return a control that the problem has; refuse others."""
    knob = KNOBS[checks.known("the name of a control", name, KNOBS)]
    if not knob.has(problem):
        raise InputError(
            f"controls has {name!r}, which this problem does not have: {knob.fix}."
        )
    return knob


def checked_bounds(name: str, bounds: object, highest: float = np.inf) -> Limits:
    """Return the lowest and the highest value of a control."""
    pair = checks.as_array(
        f"the bounds of {name}",
        bounds,
        shapes=[(2,)],
        fix="The lowest and the highest value.",
    )
    low = float(pair[0])
    high = float(pair[1])
    if not (0 <= low < high <= highest and np.isfinite(high)):
        most = "finite" if np.isinf(highest) else f"at most {highest:g}"
        raise InputError(
            f"the bounds of {name} are {low:g} and {high:g}; the first must be zero or "
            f"more and below the second, the second {most}."
        )
    return low, high


def _checked_budgets(
    budgets: object, bounds: dict[str, Limits], t_max: float
) -> dict[str, Limits]:
    """Return (smallest, largest) integral of each control that has a budget."""
    limits: dict[str, Limits] = {}
    for name, budget in _as_table("budgets", budgets, "{'tasks': 20.0}").items():
        pair_of_bounds = bounds[checks.known("the name of a budget", name, bounds)]
        low, high = t_max * np.array(pair_of_bounds)
        least, most = _smallest_and_largest(name, budget)
        slack = FEASIBLE * (high - low)
        if not (least <= most and most >= low - slack and least <= high + slack):
            raise InputError(
                f"the budget of {name} is {least:g} to {most:g}; its bounds allow "
                f"integrals from {low:g} to {high:g}. Change one of them."
            )
        limits[name] = (least, most)
    return limits


def _smallest_and_largest(name: str, budget: Any) -> Limits:
    """Return a budget as two numbers; infinite where there is no limit."""
    is_number = np.ndim(np.asarray(budget, dtype=object)) == 0
    pair = (None, budget) if is_number else tuple(budget)
    if len(pair) != 2:
        raise InputError(
            f"the budget of {name} is {checks.shown(budget)}; "
            "it must be a number or (smallest, largest)."
        )
    title = f"the budget of {name}"
    smallest, largest = pair
    least = -np.inf
    if smallest is not None:
        least = float(checks.as_number(title, smallest))
    most = np.inf
    if largest is not None:
        most = float(checks.as_number(title, largest))
    return least, most


def _checked_baselines(problem: Problem, baselines: object) -> dict[str, Table]:
    """Return protocols to compare with: numbers or schedules by control."""
    tables = {}
    outer = _as_table("baselines", baselines, "{'half': {'tasks': 0.5}}")
    for name, table in outer.items():
        tables[name] = _as_table(f"the baseline {name!r}", table, "{'tasks': 0.5}")
    for table in tables.values():
        for control in table:
            _known_control(problem, control)
    return tables


def _checked_edges(segments: ArrayLike, t_max: float) -> np.ndarray:
    """Return the times at which segments begin and end."""
    if np.ndim(segments) == 0:
        return np.linspace(0.0, t_max, checks.as_count("segments", segments) + 1)
    edges = checks.as_array("segments", segments, checks.require_increasing)
    if edges[0] != 0 or edges[-1] != t_max:
        raise InputError(
            f"segments run from {edges[0]:g} to {edges[-1]:g}; "
            f"they must run from 0 to t_max = {t_max:g}."
        )
    return edges


# The greedy learning rate


def greedy(
    problem: Problem,
    start: Start,
    t_max: float,
    bounds: tuple[float, float] = (1e-3, 1e2),
) -> Interpolated:
    """Return the learning rate that lowers the error fastest at every moment.

    Parameters
    ----------
    problem : Problem
        Its learning rate is ignored.
    start, t_max : Start, float
        The initial condition, and the last time.
    bounds : (float, float)
        The lowest and the highest rate.

    Returns
    -------
    Interpolated
        A schedule for `SGD(lr=...)`, or a baseline of `optimize`.

    Examples
    --------
    At first e_g = 1/2, and the rate is e_g / (e_g + noise^2 / 2).

    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, optimizer=tu.SGD(lr=0.5), noise=1.0)
    >>> rate = tu.schedules.greedy(problem, tu.Start([[0.0]], [[0.0]]), t_max=10.0)
    >>> round(float(rate(0.0)), 4)
    0.5
    """
    require_problem(problem, "greedy", needs=(*CLOSED, "fixed momentum"))
    checks.require_untraced("start", "greedy", require_start(start))
    t_max = checks.as_positive("t_max", t_max)
    limits = np.array(checked_bounds("lr", bounds))
    # Chebyshev points: dense at both ends
    angles = np.pi * np.arange(GREEDY_TIMES + 1) / GREEDY_TIMES
    times = t_max * (1 - np.cos(angles)) / 2
    state, t = initial_overlaps(problem, start)
    dynamics = GreedyDynamics(problem, t, limits)
    options = Options(gradient_flow=False, solver="explicit", keep=True)
    path = integrate_equations(dynamics, None, state, times, step_tolerances(), options)
    rate_at = eqx.filter_jit(eqx.filter_vmap(GreedyDynamics.rate, in_axes=(None, 0, 0)))
    rates = np.asarray(rate_at(dynamics, times, states_of(path.variables, state)))
    if not np.all(np.isfinite(rates) & np.isfinite(path.error)):
        raise InputError(
            f"the greedy rate diverges before t_max = {t_max:g}; "
            "lower t_max or the upper bound."
        )
    return Interpolated(times, rates)


def drift_at_rate(
    system: OrderParameters, eta: Array, t: ArrayLike, state: Overlaps
) -> tuple[Overlaps, Array]:
    """Return the drift of a system, and the change of its error, at a rate eta."""
    at_eta = eqx.tree_at(lambda system: system.problem.optimizer.lr, system, eta)
    return OrderParameters.drift_and_error_rate(at_eta, t, state)


def rate_expansion(
    system: OrderParameters, t: ArrayLike, state: Overlaps
) -> tuple[Array, Array]:
    """Return the coefficients of eta and eta^2 in d error / d alpha.

    They are exact, because the change of the error is quadratic in eta.
    """
    slope = jax.jacfwd(lambda eta: drift_at_rate(system, eta, t, state)[1])
    linear, twice = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return linear, twice / 2


def steepest_rate(
    linear: Array, quadratic: Array, bounds: tuple[ArrayLike, ArrayLike]
) -> Array:
    """Return the eta within bounds that makes a change of the error smallest.

    The change is eta * linear + eta^2 * quadratic.
    """
    low = jnp.asarray(bounds[0])
    high = jnp.asarray(bounds[1])
    a = -linear
    b = quadratic
    bottom = a / jnp.where(b > 0, 2 * b, 1.0)  # of a parabola that opens upwards
    better_end = jnp.where(a > b * (low + high), high, low)
    return jnp.clip(jnp.where(b > 0, bottom, better_end), low, high)


class GreedyDynamics(OrderParameters):
    """The dynamics under the greedy learning rate, within bounds (2,)."""

    bounds: Any

    def __init__(self, problem: Problem, t: Any, bounds: np.ndarray):
        super().__init__(as_arrays(problem.replace(lr=bounds[0])), t, keep_blocks=True)
        self.bounds = bounds

    def rate(self, t: ArrayLike, state: Overlaps) -> Array:
        """Return the greedy rate at a state."""
        linear, quadratic = rate_expansion(self, t, state)
        return steepest_rate(linear, quadratic, self.bounds)

    def drift_and_error_rate(
        self, t: ArrayLike, state: Overlaps
    ) -> tuple[Overlaps, Array]:
        return drift_at_rate(self, self.rate(t, state), t, state)

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        return self.drift_and_error_rate(t, state)[0]
