"""What a sweep is asked, as plain data: its points, its options, and the chunks in which they are computed.

The spec holds everything that the numbers depend on, and nothing else. Two sweeps with equal specs give equal numbers,
whoever computes them; the store refuses to mix different ones.

A point gives names such as "lr" or "student.hidden" a value. A name is one that `Problem.replace` takes, or "dim" and
"scale", which belong to the start. Several names joined by commas ("student.hidden, teacher.hidden") take the same value.
Values are plain data (numbers, words, lists, tables): the same in a file, in another process and on another machine.

A chunk holds points that are computed together and kept in one file. Points of equal shape (hidden units, levels,
activations: whatever makes another program) are put together, in their order, `points_per_chunk` at a time. The size never
depends on who computes, so neither do the numbers. By default a chunk holds as many points as make BATCH solves (of one start
each), or LOOPED where a measure is computed point by point, but never more than fit into MEMORY:

    bytes per point = 8 starts times (K M + K^2 + K + 2) COPIES (1 + runs, if simulated)
"""

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

import jax
import numpy as np

from tutelage import checks
from tutelage._part import argument_names
from tutelage._types import Table
from tutelage.errors import InputError
from tutelage.problem import Problem, Start, asymmetric_start, random_start, serialize
from tutelage.problem.problem import require_problem
from tutelage.problem.serialize import Plain, as_modules, imported, modules_in, paths_in
from tutelage.problem.traits import MIXTURES
from tutelage.sweeps.executors import Task
from tutelage.sweeps.measures import resolve
from tutelage.times import check_times

OF_START = ("dim", "scale")  # names that belong to the start rather than to the problem
OVERLAPS = ("R", "Q", "T", "readout", "bias")
KINDS = ("random", "asymmetric")
MOST_POINTS = 10**8
BATCH, LOOPED = 64, 8  # solves per chunk: enough to share one program's start, few enough to be lost without regret
MEMORY = 2**28  # bytes that the curves of one chunk may take
COPIES = 4  # of a curve while it is computed: padded times, the program's and ours

# The points.


def parts_of(name: str) -> tuple[str, ...]:
    """The names that take one value: "a, b" are two."""
    return tuple(part.strip() for part in name.split(","))


def known_names(problem: Problem) -> dict[str, str]:
    """Every name that a sweep over this problem can change, with its full name; shared ones only with their part."""
    fields = [(part, field) for part in serialize.PARTS for field in argument_names(getattr(problem, part))]
    plain = [field for _, field in fields]
    names = {name: name for name in ("noise", "inputs", *serialize.LEARNING, *OF_START)}
    names |= {field: f"{part}.{field}" for part, field in fields if plain.count(field) == 1}
    return names | {f"{part}.{field}": f"{part}.{field}" for part, field in fields}


def require_known(problem: Problem, names: Sequence[str]) -> None:
    """Refuse a name that nothing has, that two parts share, or that is there twice."""
    known, seen = known_names(problem), {}
    for part in (part for name in names for part in parts_of(name)):
        if part not in known:
            owners = [name for name in known if name.endswith(f".{part}")]
            if owners:
                which = f"which {len(owners)} parts have; say {owners[0]!r}, or {', '.join(owners)!r} for all"
                raise InputError(f"over names {part!r}, {which}.")
            short = dict.fromkeys(next(name for name, full in known.items() if full == of) for of in known.values())
            here = f"which a sweep cannot change here; it can change {', '.join(short)}"
            raise InputError(f"over names {part!r}, {here}.{checks.nearest(part, short)}")
        if known[part] in seen:
            raise InputError(f"over names {seen[known[part]]} and {part}, which are the same; leave one out.")
        seen[known[part]] = part


def plain_values(name: str, values: object) -> list[Plain]:
    """The values of an axis as plain data, at least one, none twice."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple | range):
        raise InputError(f"over gives {name} the value {checks.shown(values)}; it must be a list of values.")
    plain: dict[str, Plain] = {}
    for value in (serialize.plain(name, value) for value in values):
        if _label(value) in plain:
            raise InputError(f"over gives {name} the value {checks.shown(value)} twice; each value must occur once.")
        plain[_label(value)] = value
    if not plain:
        raise InputError(f"over gives {name} no values; it must have at least one.")
    return list(plain.values())


def _label(value: Plain) -> str:
    """Equal for equal values, also for lists and tables."""
    return json.dumps(value, sort_keys=True)


def problem_at(base: Problem, point: Table, allow: tuple[str, ...] = ()) -> Problem:
    """The problem with the values of this point; those of the start are left out. allow: modules that may be imported."""
    changes = {part: value for name, value in point.items() for part in parts_of(name) if part not in OF_START}
    return base.replace(**{part: serialize.revived(part, value, allow) for part, value in changes.items()})


def start_values(point: Table) -> Table:
    """What the point says about its start: dim, scale."""
    return {part: value for name, value in point.items() for part in parts_of(name) if part in OF_START}


@dataclass(frozen=True)
class Points:
    """All points in their order: a grid (the last axis runs fastest), or a list.

    axes: names with their values, of a grid. listed: the points themselves, of a list; all with the same names.
    """

    axes: dict[str, list[Plain]]
    listed: list[Table] | None = None

    def __len__(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return (len(self.listed),) if self.listed is not None else tuple(len(values) for values in self.axes.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What changes."""
        return tuple(self.axes) if self.listed is None else tuple(self.listed[0])

    def __getitem__(self, index: int) -> Table:
        """The values of one point."""
        if self.listed is not None:
            return dict(self.listed[index])
        places = np.unravel_index(index, self.shape)
        return {name: values[place] for (name, values), place in zip(self.axes.items(), places, strict=True)}

    def choices(self) -> dict[str, list[Plain]]:
        """The values that each name takes, each once."""
        if self.listed is None:
            return self.axes
        return {name: list({_label(point[name]): point[name] for point in self.listed}.values()) for name in self.names}

    def codes(self) -> np.ndarray:
        """(points, names): which of its choices each name takes at each point."""
        if self.listed is None:
            return np.stack(np.unravel_index(np.arange(len(self)), self.shape), axis=1)
        places = {name: {_label(v): i for i, v in enumerate(values)} for name, values in self.choices().items()}
        return np.array([[place[_label(point[name])] for name, place in places.items()] for point in self.listed])


def given_modules(problem: Table, over: object, listed: object) -> tuple[str, ...]:
    """The modules of functions that are given themselves, in the problem or as values; not those that a text names."""
    axes = [over] if isinstance(over, Mapping) else listed if isinstance(listed, list | tuple) else []
    pairs = [(name, value) for axis in axes if isinstance(axis, Mapping) for name, value in axis.items()]
    each = [(name, one) for name, value in pairs for one in (value if isinstance(value, list | tuple) else [value])]
    given = [serialize.plain(parts_of(str(name))[0], one) for name, one in each if callable(one)]
    return modules_in([problem, given])


def as_points(problem: Problem, over: object, listed: object, allow: tuple[str, ...] = ()) -> Points:
    """The points of a sweep as the user gave them, every name and kind of value checked."""
    if (over is None) == (listed is None):
        given = "neither over nor points" if over is None else "both over and points"
        raise InputError(f"a sweep was given {given}; give over={{'lr': [0.1, 0.2]}}, or points=[{{'lr': 0.1}}, ...].")
    if listed is not None:
        if isinstance(listed, Mapping | str) or not isinstance(listed, Sequence) or not listed:
            raise InputError(f"points is {checks.shown(listed)}; it must be a list of points, such as [{{'lr': 0.1}}].")
        _require_reasonable(len(listed))
        for i, point in enumerate(listed):
            if not isinstance(point, Mapping) or set(point) != set(listed[0]):
                raise InputError(f"point {i} is {checks.shown(point)}; every point must name the same as point 0.")
        require_known(problem, tuple(listed[0]))
        return Points({}, [{name: serialize.plain(name, point[name]) for name in listed[0]} for point in listed])
    if not isinstance(over, Mapping) or not over:
        raise InputError(
            f"over is {checks.shown(over)}; it must be names with lists of values, such as {{'lr': [0.1, 0.2]}}."
        )
    require_known(problem, tuple(over))
    sizes = (v.size if isinstance(v, np.ndarray) else len(v) for v in over.values() if isinstance(v, Sized))
    _require_reasonable(math.prod(sizes))
    axes = {", ".join(parts_of(name)): plain_values(name, values) for name, values in over.items()}
    for name, value in ((name, value) for name, values in axes.items() for value in values):
        try:
            if name == "dim":
                checks.as_count("dim", value)
            elif name == "scale":
                checks.require_nonnegative("scale", checks.as_array("scale", value))
            else:
                problem_at(problem, {name: value}, allow)
        except InputError as error:
            raise InputError(f"over gives {name} the value {checks.shown(value)}: {error}") from None
    return Points(axes)


def _require_reasonable(count: int) -> None:
    """Before the values are looked at, which takes long."""
    checks.as_count("the number of points", count, least=0, most=MOST_POINTS)


# The spec.


@dataclass(frozen=True)
class SweepSpec:
    """problem: the base, as `Problem.to_dict` gives it. over: axes of a grid, or None; points: a list of points, or None.

    measure: names (measures.py). times: those of every solve and simulation. start: a table as in a problem file (dim, scale;
    or R, Q, T, ...; or kind = "asymmetric"). starts: how many random starts, None for one without an axis; number i has the
    seed `seed + i` at every point. runs: of each simulation. sources: hashes of the user's own functions.
    points_per_chunk: how many points are computed together. imports: modules that the user allows for functions
    in the problem and the points; not part of the question, and never read from a folder.
    """

    problem: Table
    over: dict[str, list[Plain]] | None
    points: list[Table] | None
    measure: tuple[str, ...]
    times: tuple[float, ...]
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
        """The problem of a point."""
        return problem_at(self.base, point, self.imports)

    @cached_property
    def all_points(self) -> Points:
        """Every point, in order."""
        return Points(self.over or {}, self.points)

    def to_dict(self) -> Table:
        """Numbers, words, lists and tables."""
        table = asdict(self)
        table.pop("imports")
        return table | {"measure": list(self.measure), "times": list(self.times)}

    @classmethod
    def from_dict(cls, table: Table, imports: tuple[str, ...] = ()) -> "SweepSpec":
        """The spec that `to_dict` wrote. imports: modules that may be imported for it."""
        values: Table = {field.name: table[field.name] for field in fields(cls) if field.name != "imports"}
        values["imports"] = tuple(imports)
        values["measure"], values["times"] = tuple(values["measure"]), tuple(values["times"])
        return cls(**values)


def build_spec(
    problem: object,
    *,
    over: object,
    points: object,
    measure: Sequence[str],
    times: object,
    start: object,
    starts: object,
    runs: object,
    seed: object,
    gradient_flow: object,
    rtol: float | None,
    solver: object,
    points_per_chunk: object,
    sources: dict[str, str],
    imports: object = (),
) -> SweepSpec:
    """Every argument checked and made plain."""
    from tutelage.integrate.program import SOLVERS, tolerances

    stored = require_problem(problem, "sweep", needs=(MIXTURES,)).to_dict()
    allowed = (*as_modules(imports), *given_modules(stored, over, points))
    base = Problem.from_dict(stored, allowed)  # only what a file holds can be changed
    chosen = as_points(base, over, points, allowed)
    functions = paths_in([stored, chosen.axes, chosen.listed])
    table = start_table(start)
    count = None if starts is None else checks.as_count("starts", starts)
    if count is not None and (table.get("kind") == "asymmetric" or "R" in table):
        raise InputError(
            f"starts is {count} and start is given; only random initial conditions differ. Leave one of them out."
        )
    spec = SweepSpec(
        problem=stored,
        over=None if chosen.listed is not None else chosen.axes,
        points=chosen.listed,
        measure=tuple(measure),
        times=tuple(check_times(times).tolist()),
        start=table,
        starts=count,
        runs=checks.as_count("runs", runs, least=2),
        seed=checks.as_count("seed", seed, least=0),
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        rtol=float(tolerances(rtol)[0]),
        solver=checks.known("solver", solver, ("auto", *SOLVERS)),
        points_per_chunk=0 if points_per_chunk is None else checks.as_count("points_per_chunk", points_per_chunk),
        sources=sources | {path: source_hash(path, allowed) for path in functions},
        imports=allowed,
    )
    start_at(spec, base, start_values(chosen[0]), 0)  # refuses what no point could use
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
    """A start as plain data: a `Start`, the word "random" or "asymmetric", or a table as in a problem file."""
    if start is None:
        return {}
    if isinstance(start, Start):
        given = {name: getattr(start, name) for name in OVERLAPS if getattr(start, name) is not None}
        table = {name: np.asarray(value).tolist() for name, value in given.items()}
        return table | ({} if start.dim is None else {"dim": start.dim})
    table = {"kind": start} if isinstance(start, str) else start
    if not isinstance(table, Mapping):
        raise InputError(f"start is {checks.shown(start)}; it must be a Start, 'random', 'asymmetric', or a table.")
    for name in table:
        checks.known("a name in start", name, ("kind", *OF_START, *OVERLAPS))
    if "kind" in table:
        checks.known("the kind of start", table["kind"], KINDS)
    if ("R" in table) != ("Q" in table):
        raise InputError(f"start gives {'R' if 'R' in table else 'Q'} alone; give R and Q, or dim and scale.")
    if "R" in table and ("scale" in table or table.get("kind") is not None):
        raise InputError("start gives overlaps (R, Q) and also how to draw them; leave one of them out.")
    return {name: serialize.plain(name, value) for name, value in table.items()}


def start_at(spec: SweepSpec, problem: Problem, own: Table, number: int) -> Start:
    """Start `number` of a point; own: what the point itself says (dim, scale)."""
    table = {name: value for name, value in spec.start.items() if name != "kind"} | dict(own)
    if "R" in table:
        if "scale" in own:
            raise InputError("the sweep changes scale and start gives overlaps; only random weights have a scale.")
        return Start(**table)
    dim = table.pop("dim", problem.inputs.usual_dim)
    if spec.start.get("kind") == "asymmetric":
        if "scale" in table:
            raise InputError("scale is the size of random weights; it goes with start='random'.")
        return asymmetric_start(problem, dim)
    return random_start(problem, dim=dim, seed=spec.seed + number, **table)


# The chunks.


def default_points_per_chunk(spec: SweepSpec) -> int:
    """As many as the module docstring says."""
    measures, starts = [resolve(name) for name in spec.measure], spec.starts or 1
    solves = LOOPED if any(measure.looped for measure in measures) else BATCH
    curves = 1 + spec.runs * any("runs" in measure.needs for measure in measures)
    alone = [_alone(spec, name, value) for name, values in spec.all_points.choices().items() for value in values]
    units = [(p.student.hidden, p.references.hidden) for p in (spec.base, *alone) if p is not None]
    numbers = max(K * M + K * K + K + 2 for K, M in units)  # recorded at each time
    return max(1, min(solves // starts, MEMORY // (8 * starts * len(spec.times) * numbers * COPIES * curves)))


def _alone(spec: SweepSpec, name: str, value: Plain) -> Problem | None:
    """The problem with this value; None if it cannot stand alone."""
    try:
        return spec.problem_at({name: value})
    except InputError:
        return None


def shape_of(problem: object) -> str:
    """What must be equal for two problems to be members of one batch, as text: everything but their numbers."""
    leaves, structure = jax.tree.flatten(problem)
    return f"{structure} {[repr(leaf) if callable(leaf) else np.shape(leaf) for leaf in leaves]}"


def groups(spec: SweepSpec) -> list[np.ndarray]:
    """The numbers of the points of each shape, in their order; shapes in the order in which they first occur.

    A name's values are told apart by the shape that each gives alone; what cannot stand alone is a shape of its own.
    """
    points, kinds = spec.all_points, []
    for name, values in points.choices().items():
        built = ((value, _alone(spec, name, value)) for value in values)
        shapes = [repr(value) if problem is None else shape_of(problem) for value, problem in built]
        kinds.append(np.array([list(dict.fromkeys(shapes)).index(shape) for shape in shapes]))
    codes = points.codes()
    rows = np.stack([kind[codes[:, i]] for i, kind in enumerate(kinds)], axis=1)
    _, first, label = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return [np.flatnonzero(label.ravel() == i) for i in np.argsort(first)]


def chunks(spec: SweepSpec) -> list[np.ndarray]:
    """The numbers of the points of each chunk."""
    size = spec.points_per_chunk
    return [group[i : i + size] for group in groups(spec) for i in range(0, group.size, size)]


def tasks(spec: SweepSpec, functions: Mapping[str, Callable] | None = None) -> Iterator[Task]:
    """Every chunk as a task. functions: the user's own that have no place of their own to be imported from."""
    table = spec.to_dict()
    listed = table.pop("points")
    for index, numbers in enumerate(chunks(spec)):
        payload = {"spec": table | {"points": None}, "points": numbers.tolist()}
        if listed is not None:
            payload["values"] = [listed[number] for number in numbers]
        yield Task(index, payload | {"functions": functions, "imports": spec.imports}, tuple(payload["points"]))
