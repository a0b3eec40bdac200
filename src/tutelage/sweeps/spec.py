"""What a sweep is asked, as plain data: everything that its numbers depend on, and nothing else.

Two sweeps with equal specs give equal numbers, whoever computes them; the store refuses to mix different ones.
"""

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.problem import Problem, Start, serialize
from tutelage.problem.problem import require_problem
from tutelage.problem.serialize import as_modules, imported, paths_in
from tutelage.sweeps.points import Points, as_points, given_modules, problem_at, start_values

START_NAMES = ("kind", "dim", "scale", "R", "Q", "T", "readout", "bias")
OVERLAPS = ("R", "Q", "T", "readout", "bias")
KINDS = ("random", "asymmetric")
MOST_POINTS = 10**8


@dataclass(frozen=True)
class SweepSpec:
    """problem: the base, as `Problem.to_dict` gives it. over: axes of a grid, or None; points: a list of points, or None.

    measure: names (measures/). times: those of every solve and simulation. start: a table as in a problem file (dim, scale;
    or R, Q, T, ...; or kind = "asymmetric"). starts: how many random starts, None for one without an axis; number i has the
    seed `seed + i` at every point. runs: of each simulation. sources: hashes of the user's own functions.
    points_per_chunk: how many points are computed together (chunks.py). imports: modules that the user allows for functions
    in the problem and the points; not part of the question, and never read from a folder.
    """

    problem: dict[str, Any]
    over: dict[str, list[Any]] | None
    points: list[dict[str, Any]] | None
    measure: tuple[str, ...]
    times: tuple[float, ...]
    start: dict[str, Any]
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

    def problem_at(self, point: Mapping[str, Any]) -> Problem:
        """The problem of a point."""
        return problem_at(self.base, point, self.imports)

    @cached_property
    def all_points(self) -> Points:
        """Every point, in order."""
        return Points(self.over or {}, self.points)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, words, lists and tables."""
        table = asdict(self)
        table.pop("imports")
        return table | {"measure": list(self.measure), "times": list(self.times)}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], imports: tuple[str, ...] = ()) -> "SweepSpec":
        """The spec that `to_dict` wrote. imports: modules that may be imported for it."""
        values: dict[str, Any] = {field.name: table[field.name] for field in fields(cls) if field.name != "imports"}
        values["imports"] = tuple(imports)
        values["measure"], values["times"] = tuple(values["measure"]), tuple(values["times"])
        return cls(**values)


def build_spec(
    problem: Any,
    *,
    over: Any,
    points: Any,
    measure: Sequence[str],
    times: Any,
    start: Any,
    starts: Any,
    runs: Any,
    seed: Any,
    gradient_flow: Any,
    rtol: Any,
    solver: Any,
    points_per_chunk: Any,
    sources: dict[str, str],
    chunk_size: Callable[[SweepSpec], int],
    imports: Any = (),
) -> SweepSpec:
    """Every argument checked and made plain. chunk_size: chooses points_per_chunk where it is None."""
    from tutelage.integrate.program import SOLVERS, tolerances

    stored = require_problem(problem, "sweep", needs=()).to_dict()
    allowed = (*as_modules(imports), *given_modules(stored, over, points))
    chosen = as_points(Problem.from_dict(stored, allowed), over, points, allowed)  # only what a file holds can be changed
    checks.as_count("the number of points", math.prod(chosen.shape), most=MOST_POINTS)
    table = start_table(start)
    count = None if starts is None else checks.as_count("starts", starts)
    if count is not None and (table.get("kind") == "asymmetric" or "R" in table):
        raise InputError(f"starts is {count} and the start is given; only random starts differ. Leave one of them out.")
    spec = SweepSpec(
        problem=stored,
        over=None if chosen.listed is not None else chosen.axes,
        points=chosen.listed,
        measure=tuple(measure),
        times=plain_times(times),
        start=table,
        starts=count,
        runs=checks.as_count("runs", runs, least=2),
        seed=checks.as_count("seed", seed, least=0),
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        rtol=float(tolerances(rtol)[0]),
        solver=checks.known("solver", solver, ("auto", *SOLVERS)),
        points_per_chunk=0 if points_per_chunk is None else checks.as_count("points_per_chunk", points_per_chunk),
        sources=sources,
        imports=allowed,
    )
    spec = replace(spec, sources=spec.sources | _sources(spec))
    start_at(spec, problem, start_values(chosen[0]), 0)  # refuses what no point could use
    return spec if spec.points_per_chunk else replace(spec, points_per_chunk=chunk_size(spec))


def _sources(spec: SweepSpec) -> dict[str, str]:
    """Hashes of the functions in the problem and the points."""
    paths = paths_in([spec.problem, spec.over, spec.points])
    return {path: source_hash(imported("a function", path, spec.imports)) for path in paths}


def source_hash(function: Callable) -> str:
    """Changes when the text of the function does: an edited function makes another sweep."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def start_table(start: Any) -> dict[str, Any]:
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
        checks.known("a name in start", name, START_NAMES)
    if "kind" in table:
        checks.known("the kind of start", table["kind"], KINDS)
    if ("R" in table) != ("Q" in table):
        raise InputError(f"the start gives {'R' if 'R' in table else 'Q'} alone; give R and Q, or dim and scale.")
    if "R" in table and ("scale" in table or table.get("kind") is not None):
        raise InputError("the start gives overlaps (R, Q) and also how to draw them; leave one of them out.")
    return {name: serialize.plain(name, value) for name, value in table.items()}


def plain_times(times: Any) -> tuple[float, ...]:
    """Increasing times, or even ones up to a last one, as `solve` takes them."""
    from tutelage.times import check_times

    return tuple(float(t) for t in check_times(times))


def start_at(spec: SweepSpec, problem: Problem, own: Mapping[str, Any], number: int) -> Start:
    """Start `number` of a point; own: what the point itself says (dim, scale)."""
    from tutelage.problem import asymmetric_start, random_start

    table = {name: value for name, value in spec.start.items() if name != "kind"} | dict(own)
    if "R" in table:
        if "scale" in own:
            raise InputError("the sweep changes scale and the start gives overlaps; only random weights have a scale.")
        return Start(**table)
    dim = table.pop("dim", problem.inputs.usual_dim)
    if spec.start.get("kind") == "asymmetric":
        if "scale" in table:
            raise InputError("scale is the size of random weights; it goes with the start 'random'.")
        return asymmetric_start(problem, dim)
    return random_start(problem, dim=dim, seed=spec.seed + number, **table)
