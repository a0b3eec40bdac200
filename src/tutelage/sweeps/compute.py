"""One chunk: from plain data to numbers, the same wherever it is computed.

The theory of all points is one batched solve for each shape. The measures then read each point. Where an analysis has no
result its message is kept in `note`; a point that cannot be computed has a `failure`, and the others go on. On a CPU, LANES
members are solved in one vectorized loop that lasts as long as its slowest member; on a GPU, the whole chunk.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import jax
import numpy as np

from tutelage._solve import assemble, prepare, side_by_side
from tutelage._types import ArrayLike, Table
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, TutelageWarning
from tutelage.integrate.program import Options, choose, tolerances
from tutelage.moments import moments_for
from tutelage.simulation import simulate
from tutelage.sweeps.measures import NOT_SOLVED, Case, Measure, resolve, simulation_seed
from tutelage.sweeps.run import message_of
from tutelage.sweeps.spec import SweepSpec, shape_of
from tutelage.sweeps.store import Chunk, Task

LANES = 8
Member = tuple[int, int]  # place of the point in the chunk, start
Cases = dict[Member, Case]


def compute(task: Task) -> Chunk:
    """The numbers of one chunk (see spec.tasks for what the payload holds)."""
    spec: SweepSpec = task.payload["spec"]
    points = spec.points or [spec.point(number) for number in task.points]
    measures = [resolve(name, task.payload["functions"]) for name in spec.measure]
    found = _Found(spec, len(points))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # what they say is in the notes and the status of a point
        cases = _cases(found, points, task.points, frozenset().union(*(measure.needs for measure in measures)))
        for measure in measures:
            found.ask(measure, cases)
    texts = {name: np.array(["; ".join(dict.fromkeys(t)) for t in told], object) for name, told in found.sentences.items()}
    return found.variables | {name: ((), text) for name, text in texts.items() if name == "failure" or text.any()}


class _Found:
    """What has been found at the points of a chunk: variables, and for each point its failures and notes, each once."""

    def __init__(self, spec: SweepSpec, count: int):
        self.spec, self.count, self.starts = spec, count, spec.starts or 1
        self.variables: Chunk = {}
        self.sentences = {name: [list[str]() for _ in range(count)] for name in ("failure", "note")}

    @contextmanager
    def errors(self, places: Iterable[int], measure: str = "") -> Iterator[None]:
        """Inside, an error is the failure of these points, not that of the sweep; of a measure without a result, a note."""
        try:
            yield
        except Exception as error:
            kind = "note" if measure and isinstance(error, InputError) else "failure"
            sentence = f"{measure}: {message_of(error)}" if measure else message_of(error)
            for place in places:
                self.sentences[kind][place].append(sentence.rstrip("."))

    def ask(self, measure: Measure, cases: Cases) -> None:
        """One measure at every point; of the problem alone, once for all starts."""
        found: dict[str, dict[Member, np.ndarray]] = {name: {} for name in measure.dims}
        per_start = measure.needs != {"problem"}
        for (place, i), case in cases.items():
            if i and not per_start:
                continue
            with self.errors([place], measure.name):
                for name, value in measure.values(case).items():
                    found.setdefault(name, {})[place, i] = np.asarray(value, dtype=float)
        for name, values in found.items():
            self.put(name, values, measure.dims.get(name, ()), per_start)

    def put(self, name: str, values: Mapping[Member, ArrayLike], dims: tuple[str, ...] = (), per_start: bool = True) -> None:
        """A variable with the value of each member; blank where there is none, or a curve ends early."""
        blank = np.int8(NOT_SOLVED) if name == "status" else np.nan
        sizes = {"time": len(self.spec.times), "run": self.spec.runs}
        shape = np.array([sizes.get(dim, 0) for dim in dims], dtype=int)
        for value in values.values():
            shape = np.maximum(shape, np.shape(value))
        array = np.full((self.count, self.starts, *shape), blank)
        for member, value in values.items():
            array[(*member, *map(slice, np.shape(value)))] = value
        with_starts = per_start and self.spec.starts is not None
        self.variables[name] = (("start", *dims), array) if with_starts else (dims, array[:, 0])


def _cases(found: _Found, points: list[Table], numbers: tuple[int, ...], needs: frozenset[str]) -> Cases:
    """Every point with each of its starts, solved where that is needed; those that fail are left out."""
    spec, cases = found.spec, {}
    options = {"times": np.array(spec.times), "runs": spec.runs, "keep": "fields", "workers": 1}
    count = 0 if needs == {"problem"} else found.starts
    for place, point in enumerate(points):
        with found.errors([place]):
            problem = spec.problem_at(point)
            starts = [spec.start_at(problem, point, i) for i in range(count)]
            for start in starts:
                start.blocks(problem)  # refuses a start that does not fit
            for i, start in enumerate(starts or [None]):
                run = partial(simulate, problem, start, seed=simulation_seed(spec.seed, numbers[place], i), **options)
                cases[place, i] = Case(problem, start, run, spec.gradient_flow)
    if needs & {"end", "curve"}:
        _solve(found, cases, np.array(spec.times if "curve" in needs else spec.times[-1:]))
        cases = {member: case for member, case in cases.items() if case.trajectory is not None}
    return cases


def _solve(found: _Found, cases: Cases, times: np.ndarray) -> None:
    """Give the cases their trajectories, as `solve` does, and note how they ended and what it warns of."""
    spec, groups = found.spec, {}
    for (place, i), case in cases.items():
        with found.errors([place]), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", TutelageWarning)
            start, _ = prepare(case.problem, case.start, times)
            for warning in warned:
                if issubclass(warning.category, TutelageWarning):
                    found.sentences["note"][place].append(str(warning.message).rstrip("."))
            solver = choose(spec.solver, case.problem, np.array(spec.times))
            groups.setdefault((solver, shape_of((case.problem, start.without_dim()))), []).append((place, i))
    for (solver, _), members in groups.items():
        with found.errors(place for place, _ in members):
            _solve_group(spec, times, solver, [cases[member] for member in members])
    curves = {member: case.trajectory for member, case in cases.items() if case.trajectory is not None}
    found.put("status", {member: curve.status_code for member, curve in curves.items()})
    found.put("end_time", {member: curve.end_time for member, curve in curves.items()})


def _solve_group(spec: SweepSpec, times: np.ndarray, solver: str, cases: Sequence[Case]) -> None:
    """Cases of one shape: one program. Each trajectory is cut where it stopped."""

    def stack(*leaves: jax.Array | np.ndarray | float | Callable) -> np.ndarray | Callable:
        return leaves[0] if callable(leaves[0]) else np.stack([np.asarray(leaf, dtype=float) for leaf in leaves])

    options = Options(spec.gradient_flow, solver, keep=False)
    lanes = LANES if jax.default_backend() == "cpu" else spec.points_per_chunk * (spec.starts or 1)
    problems, starts = jax.tree.map(stack, *((as_arrays(case.problem), as_arrays(case.start)) for case in cases))
    averages = moments_for(cases[0].problem, others=[case.problem for case in cases[1:]])
    raw = side_by_side(problems, averages, starts, times, tolerances(spec.rtol), options, size=lanes, workers=1)
    for i, case in enumerate(cases):
        case.trajectory = assemble(jax.tree.map(lambda x, i=i: x[i], raw), times, case.problem, case.start, settings=())
