"""One chunk: from plain data to numbers, the same wherever it is computed.

The theory of all points is one batched solve for each shape, its numbers as data. The measures then read each point. Where
an analysis has no result its message is kept in `note`. A point that cannot be computed at all is a `Failure`, and the
others go on. On a CPU, LANES members are solved side by side in one vectorized loop that lasts as long as its slowest
member; neighbors of a sweep take about equally many steps. On a GPU the whole chunk goes together.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from tutelage._errors import InputError, Status, TutelageWarning
from tutelage._solve import assemble, limit_warning, symmetry_warning
from tutelage._solve_batch import side_by_side
from tutelage.integrate.program import Options, Raw, anonymous, as_arrays, choose, first_times, tolerances
from tutelage.moments import moments_for
from tutelage.problem import Start
from tutelage.problem.schedules import require_rates_on
from tutelage.simulation import simulate
from tutelage.sweeps.chunks import shape_of
from tutelage.sweeps.measures import Case, Measure, resolve, simulation_seed
from tutelage.sweeps.points import start_values
from tutelage.sweeps.spec import SweepSpec, start_at
from tutelage.sweeps.tasks import Failure, Outcome
from tutelage.trajectory import Trajectory

LANES = 8
NOT_SOLVED = -1  # status of a point that has no solve
Members = Mapping[tuple[int, int], tuple[Any, Start]]  # (point of the chunk, start): problem and start


def compute(payload: dict[str, Any]) -> Outcome:
    """The numbers of one chunk (see chunks.tasks for what the payload holds)."""
    spec = SweepSpec.from_dict(payload["spec"], payload.get("imports", ()))
    points: list[Mapping[str, Any]] = payload.get("values") or [spec.all_points[number] for number in payload["points"]]
    measures = [resolve(name, payload.get("functions")) for name in spec.measure]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # what they say is in the notes and the status of a point
        chunk = _Chunk(spec, payload["points"], points, frozenset().union(*(m.needs for m in measures)))
        for measure in measures:
            chunk.measure(measure)
        return chunk.outcome()


class _Chunk:
    """The points of a chunk, their cases, and what has been measured so far."""

    def __init__(self, spec: SweepSpec, numbers: list[int], points: list[Mapping[str, Any]], needs: frozenset[str]):
        self.spec, self.numbers = spec, numbers
        self.count, self.starts = len(points), spec.starts or 1
        self.values: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
        self.dims: dict[str, tuple[str, ...]] = {}
        self.errors: list[dict[str, None]] = [{} for _ in points]  # sentences, each once, in order
        self.notes: list[dict[str, None]] = [{} for _ in points]
        self.status = np.full((self.count, self.starts), NOT_SOLVED, dtype=np.int8)
        self.end_time = np.full((self.count, self.starts), np.nan)
        self.solves = bool(needs & {"end", "curve", "overlaps"})
        self.cases = self._cases(points, needs)

    def _cases(self, points: list[Mapping[str, Any]], needs: frozenset[str]) -> dict[tuple[int, int], Case]:
        """Every point with each of its starts, solved where that is needed."""
        members = {}
        for place, point in enumerate(points):
            try:
                problem = self.spec.problem_at(point)
                starts = self._starts(problem, point) if needs != {"problem"} else [None] * self.starts
            except Exception as error:
                self._failed(place, error)
                continue
            members |= {(place, i): (problem, start) for i, start in enumerate(starts)}
        curves = solve_members(self.spec, members, self._failed, "curve" in needs) if self.solves else {}
        cases = {}
        for (place, i), (problem, start) in members.items():
            if not self.solves or (place, i) in curves:
                run = self._simulation(problem, start, place, i)
                cases[place, i] = Case(problem, start, curves.get((place, i)), run, self.spec.gradient_flow)
        for (place, i), curve in curves.items():
            self.status[place, i], self.end_time[place, i] = curve.status_code, curve.end_time
            self.notes[place] |= dict.fromkeys(_warnings_of(curve.problem, curve.start))
        return cases

    def _starts(self, problem: Any, point: Mapping[str, Any]) -> list[Any]:
        starts = [start_at(self.spec, problem, start_values(point), i) for i in range(self.starts)]
        for start in starts:
            start.blocks(problem)  # refuses a start that does not fit
        return starts

    def _simulation(self, problem: Any, start: Any, place: int, number: int) -> Any:
        spec, seed = self.spec, simulation_seed(self.spec.seed, self.numbers[place], number)
        return lambda: simulate(
            problem, start, times=np.array(spec.times), runs=spec.runs, seed=seed, keep="fields", workers=1
        )

    def measure(self, measure: Measure) -> None:
        """Ask one measure at every point."""
        for name, dims in measure.dims.items():
            self.values.setdefault(name, {})
            self.dims[name] = ("start", *dims) if self.spec.starts is not None and measure.per_start else dims
        for (place, i), case in self.cases.items():
            if i and not measure.per_start:
                continue
            try:
                values = {name: np.asarray(value, dtype=float) for name, value in measure.values(case).items()}
            except InputError as refusal:
                self.notes[place][f"{measure.name}: {_sentence(refusal)}"] = None
                continue
            except Exception as error:  # such as one of a user's function: it is this point's failure, not the sweep's
                self._failed(place, error, f"{measure.name}: ")
                continue
            for name, value in values.items():
                lead = self.spec.starts is not None and measure.per_start
                self.dims.setdefault(name, ("start",) if lead else ())
                self.values.setdefault(name, {})[(place, i) if lead else (place,)] = value

    def _failed(self, place: int, error: Exception, what: str = "") -> None:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        self.errors[place][f"{what}{kind}{_sentence(error)}".rstrip(": ")] = None

    def outcome(self) -> Outcome:
        """Arrays over all points of the chunk, NaN where there is no number, and the sentences that say why."""
        arrays, dims = {}, dict(self.dims)
        for name, found in self.values.items():
            arrays[name] = self._array(found, self.dims[name])
            dims[name] = dims[name][: arrays[name].ndim - 1]
        if self.solves:
            one = self.spec.starts is None
            arrays["status"] = self.status[:, 0] if one else self.status
            arrays["end_time"] = self.end_time[:, 0] if one else self.end_time
            dims["status"] = dims["end_time"] = () if one else ("start",)
        if any(self.notes):
            arrays["note"] = np.array(["; ".join(notes) for notes in self.notes], dtype=object)
        failures = (Failure(place, "; ".join(errors)) for place, errors in enumerate(self.errors) if errors)
        return Outcome(arrays, tuple(failures), dims)

    def _array(self, found: Mapping[tuple[int, ...], np.ndarray], dims: tuple[str, ...]) -> np.ndarray:
        sizes = {"time": len(self.spec.times), "run": self.spec.runs, "start": self.starts}
        lead = (self.count, self.starts) if dims[:1] == ("start",) else (self.count,)
        own = dims[len(lead) - 1 :]
        shapes = [value.shape for value in found.values()] or [tuple(sizes.get(dim, 0) for dim in own)]
        shape = tuple(max(sizes.get(dim, 0), *(s[i] for s in shapes)) for i, dim in enumerate(own))
        array = np.full((*lead, *shape), np.nan)
        for key, value in found.items():
            array[(*key, *(slice(size) for size in value.shape))] = value
        return array


def _warnings_of(problem: Any, start: Any) -> list[str]:
    """What `solve` would warn of."""
    said = (symmetry_warning(problem, start, start.blocks(problem)), limit_warning(problem, start.dim))
    return [sentence.rstrip(".") for sentence in said if sentence]


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


# The theory of all members of a chunk.


def solve_members(
    spec: SweepSpec, members: Members, failed: Callable[[int, Exception], None], whole: bool
) -> dict[tuple[int, int], Trajectory]:
    """The solved trajectory of each member, as `solve` gives it: cut where it diverges.

    failed: called with a point that cannot be solved and its error. whole: at all times, or at the last alone.
    """
    times = spec.times if whole else spec.times[-1:]
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for key, (problem, start) in members.items():
        try:
            require_rates_on(problem, np.array(times))
        except InputError as error:
            failed(key[0], error)
            continue
        solver = choose(problem, np.array(spec.times)) if spec.solver == "auto" else spec.solver
        groups.setdefault((solver, shape_of((problem, anonymous(start)))), []).append(key)
    found = {}
    for (solver, _), keys in groups.items():
        try:
            found |= _solve_group(spec, times, solver, {key: members[key] for key in keys})
        except InputError as error:
            for place in dict.fromkeys(key[0] for key in keys):
                failed(place, error)
    return found


def _solve_group(
    spec: SweepSpec, times: tuple[float, ...], solver: str, members: Members
) -> dict[tuple[int, int], Trajectory]:
    """Members of one shape: one program."""
    options = Options(spec.gradient_flow, solver, keep=False)
    lanes = LANES if jax.default_backend() == "cpu" else spec.points_per_chunk * (spec.starts or 1)
    problems, starts = _stacked([(as_arrays(problem), anonymous(start)) for problem, start in members.values()])
    each = [problem for problem, _ in members.values()]
    averages = moments_for(each[0], others=each[1:])
    raw = side_by_side(problems, averages, starts, np.array(times), tolerances(spec.rtol), options, size=lanes, workers=1)
    return {key: _member(raw, i, np.array(times), *members[key]) for i, key in enumerate(members)}


def _stacked(pairs: list[tuple[Any, Start]]) -> Any:
    """Problems and starts of one shape as one problem and one start with a leading axis."""

    def stack(*leaves: Any) -> Any:
        return leaves[0] if callable(leaves[0]) else np.stack([np.asarray(leaf, dtype=float) for leaf in leaves])

    return jax.tree.map(stack, *pairs)


def _member(raw: Raw, i: int, times: np.ndarray, problem: Any, start: Start) -> Trajectory:
    """One trajectory of the batch, cut where it stopped."""
    own = jax.tree.map(lambda x: x[i], raw)
    count = times.size if own.status_code == Status.FINISHED else int(np.searchsorted(times, own.end_time, side="right"))
    return assemble(first_times(own, count), times[:count], problem, start, settings=())
