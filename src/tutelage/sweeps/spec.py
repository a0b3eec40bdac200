"""The spec of a sweep as plain data: its points, its options and its chunks.

The spec holds everything that the numbers depend on, and nothing else. A point gives
names a plain value: names of `Problem.replace`, and "dim" and "scale", which belong to
the start. "student.hidden, teacher.hidden" take the same value.

A chunk holds `points_per_chunk` points of equal shape (hidden units, levels,
activations: whatever makes another program), which are computed together and kept in
one file. By default it is BATCH solves (of one start each), or LOOPED where a measure
is computed point by point, but never more than fit into MEMORY:

    bytes per point = 8 starts times (K M + K^2 + K + 2) COPIES (1 + runs, if simulated)
"""

import hashlib
import inspect
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import jax
import numpy as np

from tutelage import checks
from tutelage._types import Table
from tutelage.errors import InputError
from tutelage.problem import Problem, Start, serialize
from tutelage.problem.problem import require_problem
from tutelage.problem.serialize import (
    Plain,
    as_modules,
    imported,
    modules_in,
    path_of,
    paths_in,
)
from tutelage.problem.start import OVERLAPS, start_from_table
from tutelage.problem.traits import ANY_THEORY, MIXTURES, OPTIMIZERS
from tutelage.sweeps.measures import QUICK, resolve
from tutelage.sweeps.store import Task

OF_START = ("dim", "scale")  # names that belong to the start rather than to the problem
MOST_POINTS = 10**8
# Solves per chunk: enough to share one program's start, few enough to be lost without
# regret. LOOPED is for measures that are computed point by point.
BATCH = 64
LOOPED = 8
MEMORY = 2**28  # bytes that the curves of one chunk may take
COPIES = 4  # of a curve while it is computed: padded times, the program's and ours


def parts_of(name: object) -> tuple[str, ...]:
    """Return the names that take one value: "a, b" are two."""
    return tuple(part.strip() for part in str(name).split(","))


def start_values(point: Table) -> Table:
    """Return the values of a point that belong to its start: dim, scale."""
    values = _by_part(point)
    return {name: value for name, value in values.items() if name in OF_START}


def _by_part(point: Table) -> Table:
    """Return the values of a point with one entry for each name."""
    values = {}
    for names, value in point.items():
        for name in parts_of(names):
            values[name] = value
    return values


def _label(value: Plain) -> str:
    """Return a text that is equal for equal values, also for lists and tables."""
    return json.dumps(value, sort_keys=True)


def plain_points(
    over: object, listed: object
) -> tuple[dict[str, list[Plain]], list[Table] | None]:
    """Return the axes of a grid, or the list of points, as plain data.

    `SweepSpec.alone` checks whether a problem has them.
    """
    if (over is None) == (listed is None):
        arguments = "both over and points"
        if over is None:
            arguments = "neither over nor points"
        raise InputError(
            f"a sweep was given {arguments}; "
            "give over={'lr': [0.1, 0.2]}, or points=[{'lr': 0.1}, ...]."
        )
    if listed is not None:
        return {}, _plain_list(listed)
    if not isinstance(over, Mapping) or not over:
        raise InputError(
            f"over is {checks.shown(over)}; "
            "it must be names with lists of values, as {'lr': [0.1, 0.2]}."
        )
    _require_different(over)
    grid = {}
    for name, values in over.items():
        grid[", ".join(parts_of(name))] = _plain_values(name, values)
    count = math.prod(len(values) for values in grid.values())
    checks.as_count("the number of points", count, most=MOST_POINTS)
    return grid, None


def _plain_list(listed: object) -> list[Table]:
    """Return a list of points as plain data; all have the names of the first."""
    if not isinstance(listed, list | tuple) or not listed:
        raise InputError(
            f"points is {checks.shown(listed)}; "
            "it must be a list of points, such as [{'lr': 0.1}]."
        )
    for i, point in enumerate(listed):
        if not isinstance(point, Mapping) or set(point) != set(listed[0]):
            raise InputError(
                f"point {i} is {checks.shown(point)}; "
                "every point must name the same as point 0."
            )
    names = list(listed[0])
    _require_different(names)
    points = []
    for point in listed:
        points.append({name: serialize.plain(name, point[name]) for name in names})
    return points


def _require_different(names: Iterable[str]) -> None:
    """Refuse two names of one number, such as "lr" and "optimizer.lr".

    `Problem.replace` refuses the names that a problem does not have.
    """
    parts = [part for name in names for part in parts_of(name)]
    for first, second in combinations(parts, 2):
        # one is the end of the other
        path = f".{first}"
        other_path = f".{second}"
        if path.endswith(other_path) or other_path.endswith(path):
            raise InputError(
                f"the points change {first} and {second}, which are the same; "
                "leave one out."
            )


def _plain_values(name: str, values: object) -> list[Plain]:
    """Return the values of an axis as plain data: at least one, none twice."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple | range) or len(values) == 0:
        raise InputError(
            f"over gives {name} the value {checks.shown(values)}; "
            "it must be a list of values, at least one."
        )
    plain = [serialize.plain(name, value) for value in values]
    counts = Counter(_label(value) for value in plain)
    for value in plain:
        if counts[_label(value)] > 1:
            raise InputError(
                f"over gives {name} the value {checks.shown(value)} twice; "
                "each value must occur once."
            )
    return plain


@dataclass(frozen=True)
class SweepSpec:
    """The arguments of `sweep`, checked and as plain data.

    over: a grid whose last axis runs fastest; empty if there are points. start: a table
    as in a problem file. starts: None for one without an axis. sources: hashes of the
    user's own functions. imports: modules that the user allows for functions in the
    problem and the points; never read from a folder.
    """

    problem: Table
    over: dict[str, list[Plain]]
    points: list[Table] | None
    measure: list[str]
    times: list[float]
    start: Table
    starts: int | None
    runs: int
    seed: int
    gradient_flow: bool
    rtol: float
    solver: str
    points_per_chunk: int
    sources: dict[str, str]
    imports: tuple[str, ...] = ()

    @cached_property
    def base(self) -> Problem:
        """The problem that the points change."""
        return Problem.from_dict(self.problem, self.imports)

    def problem_at(self, point: Table) -> Problem:
        """Return the problem with the values of a point, without those of the start."""
        changes = {}
        for name, value in _by_part(point).items():
            if name not in OF_START:
                changes[name] = serialize.revived(name, value, self.imports)
        return self.base.replace(**changes)

    def start_at(self, problem: Problem, point: Table, number: int) -> Start:
        """Return a start of a point, with the dim and the scale that the point gives.

        number: of the random initial condition, which is added to the seed.
        """
        table = self.start | start_values(point)
        if not set(OVERLAPS) & set(table):
            table = table | {"seed": self.seed + number}
        return start_from_table(problem, table)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of points along each axis."""
        if self.points is not None:
            return (len(self.points),)
        return tuple(len(values) for values in self.over.values())

    @property
    def count(self) -> int:
        """The number of points."""
        return math.prod(self.shape)

    def point(self, number: int) -> Table:
        """Return the values of one point."""
        if self.points is not None:
            return self.points[number]
        places = np.unravel_index(number, self.shape)
        point = {}
        for name, place in zip(self.over, places, strict=True):
            point[name] = self.over[name][place]
        return point

    @cached_property
    def alone(self) -> dict[str, dict[str, Problem | None]]:
        """The problem with each value of each name alone, by the label of the value.

        None if a list of points has a value that is not possible alone.
        """
        columns = self.over
        if self.points is not None:
            columns = {}
            for name in self.points[0]:
                columns[name] = [point[name] for point in self.points]
        problems = {}
        for name, values in columns.items():
            distinct = {_label(value): value for value in values}
            problems[name] = {}
            for label, value in distinct.items():
                problems[name][label] = self._alone(name, value)
        return problems

    def _alone(self, name: str, value: Plain) -> Problem | None:
        point = {name: value}
        try:
            values_of_start = start_values(point)
            if values_of_start:
                start_from_table(self.base, values_of_start)
            return self.problem_at(point)
        except InputError as error:
            if self.points is None:
                raise InputError(
                    f"over gives {name} the value {checks.shown(value)}: {error}"
                ) from None
            return None

    def to_dict(self) -> Table:
        """Return numbers, texts, lists and tables: all fields but `imports`.

        SweepSpec(**table) is the same spec.
        """
        table = asdict(self)
        del table["imports"]
        return table


def build_spec(
    problem: object,
    *,
    over: Any,
    points: Any,
    measure: Sequence[str],
    times: Any,
    start: object,
    starts: object,
    runs: object,
    seed: object,
    gradient_flow: object,
    rtol: Any,
    solver: str,
    points_per_chunk: object,
    imports: object = (),
) -> SweepSpec:
    """Return the spec of these arguments of `sweep`, checked and made plain."""
    from tutelage.solvers.program import SOLVERS, step_tolerances

    supported = (MIXTURES, OPTIMIZERS, ANY_THEORY)
    stored = require_problem(problem, "sweep", needs=supported).to_dict()
    grid, listed = plain_points(over, points)
    measures = list(measure)
    allowed = (*as_modules(imports), *_modules_of_functions(stored, over, points))
    paths = paths_in([stored, grid, listed])
    paths = [*paths, *(name for name in measures if ":" in name[1:])]
    allowed_here = (*allowed, *modules_in(measures))
    start_arguments = start_table(start)
    points_given = 0  # until the default is known
    if points_per_chunk is not None:
        points_given = checks.as_count("points_per_chunk", points_per_chunk)
    spec = SweepSpec(
        problem=stored,
        over=grid,
        points=listed,
        measure=measures,
        times=checks.as_times(times).tolist(),
        start=start_arguments,
        starts=_count_of_starts(starts, start_arguments),
        runs=checks.as_count("runs", runs, least=2),
        seed=checks.as_count("seed", seed, least=0),
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        rtol=float(step_tolerances(rtol)[0]),
        solver=checks.known("solver", solver, ("auto", *SOLVERS)),
        points_per_chunk=points_given,
        sources={path: source_hash(path, allowed_here) for path in paths},
        imports=allowed,
    )
    if listed is not None:
        spec.problem_at(listed[0])
    spec.start_at(spec.base, spec.point(0), 0)  # refuses what no point could use
    if spec.points_per_chunk == 0:
        return replace(spec, points_per_chunk=default_points_per_chunk(spec))
    return spec


def _count_of_starts(starts: object, start_arguments: Table) -> int | None:
    """Return the number of random initial conditions; None without an axis of these."""
    if starts is None:
        return None
    count = checks.as_count("starts", starts)
    if start_arguments.get("kind") == "asymmetric" or "R" in start_arguments:
        raise InputError(
            f"starts is {count} and start is given; "
            "only random initial conditions differ. Leave one out."
        )
    return count


def _modules_of_functions(problem: Table, over: Any, points: Any) -> tuple[str, ...]:
    """Return the modules of the functions that the problem and the points hold.

    Functions that are given themselves are allowed; not those that a text names.
    """
    axes = [over] if points is None else points
    values = jax.tree.leaves([list(axis.values()) for axis in axes])
    paths = [path_of(value) for value in values if callable(value)]
    return modules_in([problem, *paths])


def source_hash(path: str, allow: tuple[str, ...]) -> str:
    """Return a hash of the text of a function "module:function".

    An edited function thus makes another sweep.
    """
    function = imported("a function", path, allow)
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def start_table(start: object) -> Table:
    """Return a start as the table [start] of a file.

    start: a `Start`, the word "random" or "asymmetric", or such a table.
    """
    if start is None:
        return {}
    if isinstance(start, Start):
        table = {}
        for name in (*OVERLAPS, "dim"):
            value = getattr(start, name)
            if value is not None:
                table[name] = np.asarray(value).tolist()
        return table
    if isinstance(start, str):
        start = {"kind": start}
    if not isinstance(start, Mapping):
        raise InputError(
            f"start is {checks.shown(start)}; "
            "it must be a Start, 'random', 'asymmetric', or a table."
        )
    if "seed" in start:
        raise InputError(
            "start gives a seed; the initial conditions have the seeds seed, "
            "seed + 1, ... Give seed=."
        )
    return {name: serialize.plain(name, value) for name, value in start.items()}


def default_points_per_chunk(spec: SweepSpec) -> int:
    """Return the number of points that the docstring of the module derives."""
    starts = spec.starts or 1
    is_batch = all(name.partition(".")[0] in QUICK for name in spec.measure)
    solves = BATCH if is_batch else LOOPED
    curves = 1
    if any("runs" in resolve(name).needs for name in spec.measure):
        curves += spec.runs
    problems = [spec.base]
    for problem_of in spec.alone.values():
        problems += [problem for problem in problem_of.values() if problem is not None]
    numbers = max(_numbers_at_a_time(problem) for problem in problems)
    bytes_per_point = 8 * starts * len(spec.times) * numbers * COPIES * curves
    return max(1, min(solves // starts, MEMORY // bytes_per_point))


def _numbers_at_a_time(problem: Problem) -> int:
    """Return the size of R, Q, readout, error and loss at one time."""
    K = problem.student.hidden
    M = problem.references.hidden
    return K * M + K * K + K + 2


def shape_of(problem: object) -> str:
    """Return a text that is equal for the members of one batch.

    They differ in their numbers only.
    """
    leaves, structure = jax.tree.flatten(problem)
    shapes: list[object] = []
    for leaf in leaves:
        if callable(leaf):
            shapes.append(repr(leaf))
        else:
            shapes.append(np.shape(leaf))
    return f"{structure} {shapes}"


def tasks_of(
    spec: SweepSpec, functions: Mapping[str, Callable] | None = None
) -> Iterator[Task]:
    """Yield every chunk as a task; of a list, its spec has only its own points.

    functions: the user's own that cannot be imported. Values are told apart by the
    shape that each gives alone; what cannot stand alone is a shape of its own.
    """
    shapes: dict[str, dict[str, str]] = {}
    for name, problem_of in spec.alone.items():
        shapes[name] = {}
        for label, problem in problem_of.items():
            if problem is None:
                shapes[name][label] = label
            else:
                shapes[name][label] = shape_of(problem)
    groups: dict[tuple[str, ...], list[int]] = {}  # the points of each shape
    for number in range(spec.count):
        point = spec.point(number)
        shape = tuple(shapes[name][_label(value)] for name, value in point.items())
        groups.setdefault(shape, []).append(number)
    size = spec.points_per_chunk
    chunks = []
    for group in groups.values():
        for first in range(0, len(group), size):
            chunks.append(group[first : first + size])
    for index, numbers in enumerate(chunks):
        points = None
        if spec.points is not None:
            points = [spec.points[number] for number in numbers]
        yield Task(
            index=index,
            points=tuple(numbers),
            payload={"spec": replace(spec, points=points), "functions": functions},
        )
