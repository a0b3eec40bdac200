"""One chunk: from plain data to numbers, the same wherever it is computed.

The theory of all points is one batched solve for each shape, its numbers as data. The measures then read each point. Where
an analysis has no result its message is kept in `note`. A point that cannot be computed at all is a `Failure`, and the
others go on. On a CPU, LANES members are solved side by side in one vectorized loop that lasts as long as its slowest
member; neighbors of a sweep take about equally many steps. On a GPU the whole chunk goes together.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial

import jax
import numpy as np

from tutelage._solve import assemble, limit_warning, symmetry_warning
from tutelage._solve_batch import side_by_side
from tutelage._types import Table
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, Status, TutelageWarning
from tutelage.integrate.program import Options, anonymous, choose, first_times, tolerances
from tutelage.moments import moments_for
from tutelage.problem import Problem, Start
from tutelage.problem.schedules import require_rates_on
from tutelage.simulation import simulate
from tutelage.sweeps.executors import Failure, Outcome, Payload, in_one_line
from tutelage.sweeps.measures import Case, Measure, resolve, simulation_seed
from tutelage.sweeps.spec import SweepSpec, shape_of, start_at, start_values
from tutelage.trajectory import Trajectory

LANES = 8
NOT_SOLVED = -1  # status of a point that has no solve
Member = tuple[int, int]  # point of the chunk, start


def compute(payload: Payload) -> Outcome:
    """The numbers of one chunk (see spec.tasks for what the payload holds)."""
    spec = SweepSpec.from_dict(payload["spec"], payload.get("imports", ()))
    points: list[Table] = payload.get("values") or [spec.all_points[number] for number in payload["points"]]
    measures = [resolve(name, payload.get("functions")) for name in spec.measure]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # what they say is in the notes and the status of a point
        chunk = _Chunk(spec, payload["points"], points, frozenset().union(*(m.needs for m in measures)))
        for measure in measures:
            chunk.measure(measure)
        return chunk.outcome()


class _Chunk:
    """The points of a chunk, their cases, and what has been measured so far."""

    def __init__(self, spec: SweepSpec, numbers: list[int], points: list[Table], needs: frozenset[str]):
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

    def _cases(self, points: list[Table], needs: frozenset[str]) -> dict[Member, Case]:
        """Every point with each of its starts, solved where that is needed."""
        members: dict[Member, tuple[Problem, Start | None]] = {}
        for place, point in enumerate(points):
            try:
                problem, starts = self.spec.problem_at(point), {}
                for i in range(self.starts if needs != {"problem"} else 0):
                    starts[i] = start_at(self.spec, problem, start_values(point), i)
                    starts[i].blocks(problem)  # refuses a start that does not fit
                members |= {(place, i): (problem, starts.get(i)) for i in range(self.starts)}
            except Exception as error:
                self._failed(place, error)
        begun = {key: (problem, start) for key, (problem, start) in members.items() if start is not None}
        curves = solve_members(self.spec, begun, self._failed, "curve" in needs) if self.solves else {}
        cases, times = {}, np.array(self.spec.times)
        for (place, i), (problem, start) in members.items():
            curve = curves.get((place, i))
            if self.solves and curve is None:
                continue
            seed = simulation_seed(self.spec.seed, self.numbers[place], i)
            run = partial(simulate, problem, start, times=times, runs=self.spec.runs, seed=seed, keep="fields", workers=1)
            cases[place, i] = Case(problem, start, curve, run, self.spec.gradient_flow)
            if curve is not None and start is not None:
                self.status[place, i], self.end_time[place, i] = curve.status_code, curve.end_time
                would_warn = symmetry_warning(problem, start, start.blocks(problem)), limit_warning(problem, start.dim)
                self.notes[place] |= {sentence.rstrip("."): None for sentence in would_warn if sentence}
        return cases

    def measure(self, measure: Measure) -> None:
        """Ask one measure at every point."""
        lead = ("start",) if self.spec.starts is not None and measure.per_start else ()
        for name, dims in measure.dims.items():
            self.values.setdefault(name, {})
            self.dims[name] = (*lead, *dims)
        for (place, i), case in self.cases.items():
            if i and not measure.per_start:
                continue
            try:
                values = {name: np.asarray(value, dtype=float) for name, value in measure.values(case).items()}
            except InputError as refusal:
                self.notes[place][f"{measure.name}: {in_one_line(refusal).rstrip('.')}"] = None
                continue
            except Exception as error:  # such as one of a user's function: it is this point's failure, not the sweep's
                self._failed(place, error, f"{measure.name}: ")
                continue
            for name, value in values.items():
                self.dims.setdefault(name, lead)
                self.values.setdefault(name, {})[(place, i) if lead else (place,)] = value

    def _failed(self, place: int, error: Exception, what: str = "") -> None:
        self.errors[place][f"{what}{in_one_line(error).rstrip('.')}"] = None

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


def solve_members(
    spec: SweepSpec,
    members: Mapping[Member, tuple[Problem, Start]],
    failed: Callable[[int, Exception], None],
    whole: bool,
) -> dict[Member, Trajectory]:
    """The solved trajectory of each member, as `solve` gives it: cut where it diverges.

    failed: called with a point that cannot be solved and its error. whole: at all times, or at the last alone.
    """
    times = np.array(spec.times if whole else spec.times[-1:])
    groups: dict[tuple[str, str], list[Member]] = {}
    for key, (problem, start) in members.items():
        try:
            require_rates_on(problem, times)
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
    spec: SweepSpec, times: np.ndarray, solver: str, members: Mapping[Member, tuple[Problem, Start]]
) -> dict[Member, Trajectory]:
    """Members of one shape: one program. Each trajectory is cut where it stopped."""

    def stack(*leaves: jax.Array | np.ndarray | float | Callable) -> np.ndarray | Callable:
        return leaves[0] if callable(leaves[0]) else np.stack([np.asarray(leaf, dtype=float) for leaf in leaves])

    options = Options(spec.gradient_flow, solver, keep=False)
    lanes = LANES if jax.default_backend() == "cpu" else spec.points_per_chunk * (spec.starts or 1)
    pairs = [(as_arrays(problem), anonymous(start)) for problem, start in members.values()]
    first, *others = (problem for problem, _ in members.values())
    problems, starts = jax.tree.map(stack, *pairs)  # one of each, with a leading axis
    averages = moments_for(first, others=others)
    raw = side_by_side(problems, averages, starts, times, tolerances(spec.rtol), options, size=lanes, workers=1)
    found = {}
    for i, (key, member) in enumerate(members.items()):
        own = jax.tree.map(lambda x, i=i: x[i], raw)
        reached = np.searchsorted(times, own.end_time, side="right")
        count = times.size if own.status_code == Status.FINISHED else int(reached)
        found[key] = assemble(first_times(own, count), times[:count], *member, settings=())
    return found
