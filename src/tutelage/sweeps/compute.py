"""The computation of one chunk: from plain data to numbers, the same on any machine.

The theory of all points is one batched solve for each shape. The measures then read
each point. The message of an analysis without a result is kept in `note`. A point that
cannot be computed has a `failure`, and the other points are computed. On a CPU, LANES
members are solved in one vectorized loop that lasts as long as its slowest member; on a
GPU, the whole chunk.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter

import jax
import numpy as np

from tutelage import theories
from tutelage._solve import simulate, solve, understood_options
from tutelage._types import ArrayLike, Table
from tutelage.errors import InputError, TutelageWarning
from tutelage.problem import Problem, Start
from tutelage.solvers.program import Options, step_tolerances
from tutelage.stream.moments import moments_for
from tutelage.stream.order_parameters import as_arrays
from tutelage.stream.program import choose
from tutelage.stream.solve import assemble, prepare, side_by_side
from tutelage.sweeps.measures import NOT_SOLVED, Case, Measure, resolve, simulation_seed
from tutelage.sweeps.run import message_of
from tutelage.sweeps.spec import SweepSpec, shape_of
from tutelage.sweeps.store import Chunk, Task

LANES = 8
Member = tuple[int, int]  # place of the point in the chunk, start
Cases = dict[Member, Case]


def compute(task: Task) -> Chunk:
    """Return the numbers of one chunk (`spec.tasks_of` makes the payload)."""
    spec: SweepSpec = task.payload["spec"]
    functions = task.payload["functions"]
    points = spec.points or [spec.point(number) for number in task.points]
    measures = [resolve(name, functions) for name in spec.measure]
    needs = frozenset().union(*(measure.needs for measure in measures))
    results = _ChunkResults(spec, len(points))
    with warnings.catch_warnings():
        # their texts are in the notes and the status of a point
        warnings.simplefilter("ignore", TutelageWarning)
        cases = _cases(results, points, task.points, needs)
        for measure in measures:
            results.evaluate(measure, cases)
    return results.chunk()


class _ChunkResults:
    """The variables of a chunk, and the failures and notes of each of its points."""

    def __init__(self, spec: SweepSpec, count: int):
        self.spec = spec
        self.count = count
        self.starts = spec.starts or 1
        self.variables: Chunk = {}
        self.messages: dict[str, list[list[str]]] = {
            "failure": [[] for _ in range(count)],
            "note": [[] for _ in range(count)],
        }

    def chunk(self) -> Chunk:
        """Return the variables, with the messages of each point, each once.

        Notes are left out if there are none.
        """
        chunk = dict(self.variables)
        for name, messages_of_points in self.messages.items():
            texts = ["; ".join(dict.fromkeys(m)) for m in messages_of_points]
            values = np.array(texts, object)
            if name == "failure" or values.any():
                chunk[name] = ((), values)
        return chunk

    @contextmanager
    def errors(self, places: Iterable[int], measure: str = "") -> Iterator[None]:
        """Return a context in which an error is a failure of these points.

        It does not end the sweep. The `InputError` of a measure without a result is a
        note.
        """
        try:
            yield
        except Exception as error:
            kind = "failure"
            if measure and isinstance(error, InputError):
                kind = "note"
            message = message_of(error)
            if measure:
                message = f"{measure}: {message}"
            for place in places:
                self.messages[kind][place].append(message.rstrip("."))

    def evaluate(self, measure: Measure, cases: Cases) -> None:
        """Compute a measure at every point.

        A measure of the problem alone is computed once for all starts.
        """
        values_by_name: dict[str, dict[Member, np.ndarray]] = {}
        for name in measure.dims:
            values_by_name[name] = {}
        per_start = measure.needs != {"problem"}
        for (place, start), case in cases.items():
            if start > 0 and not per_start:
                continue
            with self.errors([place], measure.name):
                for name, value in measure.values(case).items():
                    values = values_by_name.setdefault(name, {})
                    values[place, start] = np.asarray(value, dtype=float)
        for name, values in values_by_name.items():
            self.put(name, values, measure.dims.get(name, ()), per_start)

    def put(
        self,
        name: str,
        values: Mapping[Member, ArrayLike],
        dims: tuple[str, ...] = (),
        per_start: bool = True,
    ) -> None:
        """Set a variable to the values of the members.

        It is blank where there is none, or where a curve ends early.
        """
        blank = np.int8(NOT_SOLVED) if name == "status" else np.nan
        sizes = {"time": len(self.spec.times), "run": self.spec.runs}
        shape = np.array([sizes.get(dim, 0) for dim in dims], dtype=int)
        for value in values.values():
            shape = np.maximum(shape, np.shape(value))
        array = np.full((self.count, self.starts, *shape), blank)
        for member, value in values.items():
            region = tuple(slice(size) for size in np.shape(value))
            array[(*member, *region)] = value
        if per_start and self.spec.starts is not None:
            self.variables[name] = (("start", *dims), array)
        else:
            self.variables[name] = (dims, array[:, 0])


def _cases(
    results: _ChunkResults,
    points: list[Table],
    numbers: tuple[int, ...],
    needs: frozenset[str],
) -> Cases:
    """Return every point with each of its starts, solved where that is needed.

    Points that fail are left out. numbers: those of the points in the sweep.
    """
    spec = results.spec
    times = np.array(spec.times)
    cases: Cases = {}
    needs_start = needs != {"problem"}
    for place, point in enumerate(points):
        with results.errors([place]):
            problem = spec.problem_at(point)
            starts: Sequence[Start | None] = [None]
            if needs_start:
                starts = _starts(spec, problem, point, results.starts)
            theory = theories.theory_of(problem)
            options = understood_options(theory.simulator, keep="fields", workers=1)
            for i, start in enumerate(starts):
                simulate_runs = partial(
                    simulate,
                    problem,
                    start,
                    seed=simulation_seed(spec.seed, numbers[place], i),
                    times=times,
                    runs=spec.runs,
                    **options,
                )
                cases[place, i] = Case(
                    problem=problem,
                    start=start,
                    simulate=simulate_runs,
                    gradient_flow=spec.gradient_flow,
                )
    if needs & {"end", "curve"}:
        solve_times = times if "curve" in needs else times[-1:]
        _solve(results, cases, solve_times)
        for member, case in list(cases.items()):
            if case.trajectory is None:
                del cases[member]
    return cases


def _starts(spec: SweepSpec, problem: Problem, point: Table, count: int) -> list[Start]:
    """Return the starts of a point, which fit its problem."""
    starts = [spec.start_at(problem, point, number) for number in range(count)]
    for start in starts:
        start.blocks(problem)  # refuses a start that does not fit
    return starts


def _solve(results: _ChunkResults, cases: Cases, times: np.ndarray) -> None:
    """Give the cases their trajectories, as `solve` does.

    Note how they ended, and the warnings of `solve`.
    """
    spec = results.spec
    groups: dict[tuple[str, str], list[Member]] = {}
    for (place, i), case in cases.items():
        with (
            results.errors([place]),
            warnings.catch_warnings(record=True) as recorded,
        ):
            warnings.simplefilter("always", TutelageWarning)
            if theories.theory_of(case.problem).side_by_side:
                group = _group_of(spec, case, times)
                groups.setdefault(group, []).append((place, i))
            else:
                case.trajectory = solve(
                    case.problem, case.start, times, **_solve_options(spec)
                )
        for warning in recorded:
            if issubclass(warning.category, TutelageWarning):
                message = str(warning.message).rstrip(".")
                results.messages["note"][place].append(message)
    for (solver, _), members in groups.items():
        places = [place for place, _ in members]
        with results.errors(places):
            _solve_group(spec, times, solver, [cases[member] for member in members])
    status_codes = {}
    end_times = {}
    for member, case in cases.items():
        if case.trajectory is not None:
            status_codes[member] = case.trajectory.status_code
            end_times[member] = case.trajectory.end_time
    results.put("status", status_codes)
    results.put("end_time", end_times)


def _group_of(spec: SweepSpec, case: Case, times: np.ndarray) -> tuple[str, str]:
    """Return the solver of a case and its shape: one program solves all of a group."""
    start, _ = prepare(case.problem, case.start, times)
    solver = choose(spec.solver, case.problem, np.array(spec.times))
    return solver, shape_of((case.problem, start.without_dim()))


def _solve_options(spec: SweepSpec) -> Table:
    """Return the options of a single solve that differ from the usual ones."""
    options: Table = {}
    if spec.gradient_flow:
        options["gradient_flow"] = True
    if spec.solver != "auto":
        options["solver"] = spec.solver
    if spec.rtol != float(step_tolerances(None)[0]):
        options["rtol"] = spec.rtol
    return options


def _solve_group(
    spec: SweepSpec, times: np.ndarray, solver: str, cases: Sequence[Case]
) -> None:
    """Solve cases of one shape by one program.

    Each trajectory ends where its solve stopped.
    """
    options = Options(spec.gradient_flow, solver, keep=False)
    if jax.default_backend() == "cpu":
        lanes = LANES
    else:
        lanes = spec.points_per_chunk * (spec.starts or 1)
    problems_and_starts = []
    for case in cases:
        problems_and_starts.append((as_arrays(case.problem), as_arrays(case.start)))
    problems, starts = jax.tree.map(_stack, *problems_and_starts)
    others = [case.problem for case in cases[1:]]
    averages = moments_for(cases[0].problem, others=others)
    raw = side_by_side(
        problems,
        averages,
        starts,
        times,
        step_tolerances(spec.rtol),
        options,
        size=lanes,
        workers=1,
    )
    for i, case in enumerate(cases):
        member = jax.tree.map(itemgetter(i), raw)
        case.trajectory = assemble(member, times, case.problem, case.start, settings=())


def _stack(
    *leaves: jax.Array | np.ndarray | float | Callable,
) -> np.ndarray | Callable:
    """Return leaves of several cases as one array; functions are equal in all cases."""
    if callable(leaves[0]):
        return leaves[0]
    return np.stack([np.asarray(leaf, dtype=float) for leaf in leaves])
