"""What a sweep is asked, as plain data: its points, its options, and the chunks in which they are computed.

The spec holds everything that the numbers depend on, and nothing else. A point gives names a plain value: names of
`Problem.replace`, and "dim" and "scale", which belong to the start. "student.hidden, teacher.hidden" take the same value.

A chunk holds `points_per_chunk` points of equal shape (hidden units, levels, activations: whatever makes another program), which
are computed together and kept in one file. By default it is BATCH solves (of one start each), or LOOPED where a measure is
computed point by point, but never more than fit into MEMORY:

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
from tutelage.problem.serialize import Plain, as_modules, imported, modules_in, path_of, paths_in
from tutelage.problem.start import OVERLAPS, start_from_table
from tutelage.problem.traits import MIXTURES
from tutelage.sweeps.measures import QUICK, resolve
from tutelage.sweeps.store import Task

OF_START = ("dim", "scale")  # names that belong to the start rather than to the problem
MOST_POINTS = 10**8
BATCH, LOOPED = 64, 8  # solves per chunk: enough to share one program's start, few enough to be lost without regret
MEMORY = 2**28  # bytes that the curves of one chunk may take
COPIES = 4  # of a curve while it is computed: padded times, the program's and ours


def parts_of(name: object) -> tuple[str, ...]:
    """The names that take one value: "a, b" are two."""
    return tuple(part.strip() for part in str(name).split(","))


def start_values(point: Table) -> Table:
    """What the point says about its start: dim, scale."""
    return {part: value for name, value in point.items() for part in parts_of(name) if part in OF_START}


def _label(value: Plain) -> str:
    """Equal for equal values, also for lists and tables."""
    return json.dumps(value, sort_keys=True)


def plain_points(over: object, listed: object) -> tuple[dict[str, list[Plain]], list[Table] | None]:
    """The axes of a grid, or the list of points, as plain data. `SweepSpec.alone` checks whether a problem has them."""
    if (over is None) == (listed is None):
        given = "neither over nor points" if over is None else "both over and points"
        raise InputError(f"a sweep was given {given}; give over={{'lr': [0.1, 0.2]}}, or points=[{{'lr': 0.1}}, ...].")
    if listed is not None:
        if not isinstance(listed, list | tuple) or not listed:
            raise InputError(f"points is {checks.shown(listed)}; it must be a list of points, such as [{{'lr': 0.1}}].")
        for i, point in enumerate(listed):
            if not isinstance(point, Mapping) or set(point) != set(listed[0]):
                raise InputError(f"point {i} is {checks.shown(point)}; every point must name the same as point 0.")
        _require_different(listed[0])
        return {}, [{name: serialize.plain(name, point[name]) for name in listed[0]} for point in listed]
    if not isinstance(over, Mapping) or not over:
        raise InputError(f"over is {checks.shown(over)}; it must be names with lists of values, as {{'lr': [0.1, 0.2]}}.")
    _require_different(over)
    grid = {", ".join(parts_of(name)): _plain_values(name, values) for name, values in over.items()}
    checks.as_count("the number of points", math.prod(map(len, grid.values())), most=MOST_POINTS)
    return grid, None


def _require_different(names: Iterable[str]) -> None:
    """No name twice, such as "lr" and "sgd.lr"; `Problem.replace` refuses those that a problem does not have."""
    for one, other in combinations([f".{part}" for name in names for part in parts_of(name)], 2):
        if one.endswith(other) or other.endswith(one):
            raise InputError(f"the points change {one[1:]} and {other[1:]}, which are the same; leave one out.")


def _plain_values(name: str, values: object) -> list[Plain]:
    """The values of an axis as plain data, at least one, none twice."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple | range) or len(values) == 0:
        raise InputError(f"over gives {name} the value {checks.shown(values)}; it must be a list of values, at least one.")
    plain = [serialize.plain(name, value) for value in values]
    count = Counter(map(_label, plain))
    if twice := [value for value in plain if count[_label(value)] > 1]:
        raise InputError(f"over gives {name} the value {checks.shown(twice[0])} twice; each value must occur once.")
    return plain


@dataclass(frozen=True)
class SweepSpec:
    """The arguments of `sweep`, checked and as plain data. over: a grid whose last axis runs fastest; empty if there are points.

    start: a table as in a problem file. starts: None for one without an axis. sources: hashes of the user's own functions.
    imports: modules that the user allows for functions in the problem and the points; never read from a folder.
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
        """The problem with the values of a point; those of the start are left out."""
        changes = {part: value for name, value in point.items() for part in parts_of(name) if part not in OF_START}
        return self.base.replace(**{part: serialize.revived(part, value, self.imports) for part, value in changes.items()})

    def start_at(self, problem: Problem, point: Table, number: int) -> Start:
        """Start `number` of a point, with the dim and the scale that the point gives."""
        table = self.start | start_values(point)
        return start_from_table(problem, table if set(OVERLAPS) & set(table) else table | {"seed": self.seed + number})

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(map(len, self.over.values())) if self.points is None else (len(self.points),)

    @property
    def count(self) -> int:
        """How many points there are."""
        return math.prod(self.shape)

    def point(self, number: int) -> Table:
        """The values of one point."""
        if self.points is not None:
            return self.points[number]
        places = np.unravel_index(number, self.shape)
        return {name: values[place] for (name, values), place in zip(self.over.items(), places, strict=True)}

    @cached_property
    def alone(self) -> dict[str, dict[str, Problem | None]]:
        """The problem with each value of each name alone, by the label of the value; None if a list has it, not alone."""
        columns = self.over if self.points is None else {n: [p[n] for p in self.points] for n in self.points[0]}
        distinct = {name: {_label(value): value for value in values} for name, values in columns.items()}
        return {name: {label: self._alone(name, v) for label, v in values.items()} for name, values in distinct.items()}

    def _alone(self, name: str, value: Plain) -> Problem | None:
        try:
            if own := start_values({name: value}):
                start_from_table(self.base, own)
            return self.problem_at({name: value})
        except InputError as error:
            if self.points is None:
                raise InputError(f"over gives {name} the value {checks.shown(value)}: {error}") from None
            return None

    def to_dict(self) -> Table:
        """Numbers, words, lists and tables: all but `imports`, so that SweepSpec(**table) is the same spec."""
        return {name: value for name, value in asdict(self).items() if name != "imports"}


def build_spec(
    problem: object, *, over: Any, points: Any, measure: Sequence[str], imports: object = (), **given: Any
) -> SweepSpec:
    """Every argument checked and made plain. given: the other arguments of `sweep` that the numbers depend on."""
    from tutelage.integrate.program import SOLVERS, tolerances

    stored = require_problem(problem, "sweep", needs=(MIXTURES,)).to_dict()
    grid, listed = plain_points(over, points)
    functions = filter(callable, jax.tree.leaves([list(axis.values()) for axis in ([over] if points is None else points)]))
    # modules of functions that are given themselves are allowed; not those that a text names
    allowed = (*as_modules(imports), *modules_in([stored, *map(path_of, functions)]))
    paths = [*paths_in([stored, grid, listed]), *(name for name in measure if ":" in name[1:])]
    table, count, size = start_table(given["start"]), given["starts"], given["points_per_chunk"]
    count = None if count is None else checks.as_count("starts", count)
    if count is not None and (table.get("kind") == "asymmetric" or "R" in table):
        raise InputError(f"starts is {count} and start is given; only random initial conditions differ. Leave one out.")
    spec = SweepSpec(
        problem=stored,
        over=grid,
        points=listed,
        measure=list(measure),
        times=checks.as_times(given["times"]).tolist(),
        start=table,
        starts=count,
        runs=checks.as_count("runs", given["runs"], least=2),
        seed=checks.as_count("seed", given["seed"], least=0),
        gradient_flow=checks.as_flag("gradient_flow", given["gradient_flow"]),
        rtol=float(tolerances(given["rtol"])[0]),
        solver=checks.known("solver", given["solver"], ("auto", *SOLVERS)),
        points_per_chunk=0 if size is None else checks.as_count("points_per_chunk", size),
        sources={path: source_hash(path, (*allowed, *modules_in(list(measure)))) for path in paths},
        imports=allowed,
    )
    if listed is not None:
        spec.problem_at(listed[0])
    spec.start_at(spec.base, spec.point(0), 0)  # refuses what no point could use
    return spec if spec.points_per_chunk else replace(spec, points_per_chunk=default_points_per_chunk(spec))


def source_hash(path: str, allow: tuple[str, ...]) -> str:
    """Changes when the text of the function "module:function" does: an edited function makes another sweep."""
    function = imported("a function", path, allow)
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def start_table(start: object) -> Table:
    """A start as the table [start] of a file: a `Start`, the word "random" or "asymmetric", or such a table."""
    if isinstance(start, Start):
        given = {name: getattr(start, name) for name in (*OVERLAPS, "dim")}
        return {name: np.asarray(value).tolist() for name, value in given.items() if value is not None}
    table = {"kind": start} if isinstance(start, str) else {} if start is None else start
    if not isinstance(table, Mapping):
        raise InputError(f"start is {checks.shown(start)}; it must be a Start, 'random', 'asymmetric', or a table.")
    if "seed" in table:
        raise InputError("start gives a seed; the initial conditions have the seeds seed, seed + 1, ... Give seed=.")
    return {name: serialize.plain(name, value) for name, value in table.items()}


def default_points_per_chunk(spec: SweepSpec) -> int:
    """As the docstring of the module says."""
    measures, starts = [resolve(name) for name in spec.measure], spec.starts or 1
    solves = BATCH if all(name.partition(".")[0] in QUICK for name in spec.measure) else LOOPED
    curves = 1 + spec.runs * any("runs" in measure.needs for measure in measures)
    problems = [spec.base, *(problem for of_name in spec.alone.values() for problem in of_name.values())]
    units = [(p.student.hidden, p.references.hidden) for p in problems if p is not None]
    numbers = max(K * M + K * K + K + 2 for K, M in units)  # recorded at each time
    return max(1, min(solves // starts, MEMORY // (8 * starts * len(spec.times) * numbers * COPIES * curves)))


def shape_of(problem: object) -> str:
    """What must be equal for two problems to be members of one batch, as text: everything but their numbers."""
    leaves, structure = jax.tree.flatten(problem)
    return f"{structure} {[repr(leaf) if callable(leaf) else np.shape(leaf) for leaf in leaves]}"


def tasks_of(spec: SweepSpec, functions: Mapping[str, Callable] | None = None) -> Iterator[Task]:
    """Every chunk as a task; of a list, its spec has only its own points. functions: the user's own that cannot be imported.

    Values are told apart by the shape that each gives alone; what cannot stand alone is a shape of its own.
    """
    shapes = {
        name: {label: label if problem is None else shape_of(problem) for label, problem in of_name.items()}
        for name, of_name in spec.alone.items()
    }
    groups: dict[tuple[str, ...], list[int]] = {}  # the points of each shape
    for number in range(spec.count):
        shape = tuple(shapes[name][_label(value)] for name, value in spec.point(number).items())
        groups.setdefault(shape, []).append(number)
    size = spec.points_per_chunk
    chunks = [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]
    for index, numbers in enumerate(chunks):
        own = None if spec.points is None else [spec.points[number] for number in numbers]
        yield Task(index, tuple(numbers), {"spec": replace(spec, points=own), "functions": functions})
