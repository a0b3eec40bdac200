"""One chunk: from plain data to numbers, the same wherever it is computed.

The theory of all points is one batched solve for each shape, its numbers as data. The measures then read each point. Where
an analysis has no result its message is kept in `note`. A point that cannot be computed at all has a `failure`, and the
others go on. On a CPU, LANES members are solved side by side in one vectorized loop that lasts as long as its slowest
member; neighbors of a sweep take about equally many steps. On a GPU the whole chunk goes together.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial

import jax
import numpy as np

from tutelage._solve import assemble, limit_warning, side_by_side, symmetry_warning
from tutelage._types import ArrayLike, Table
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, TutelageWarning
from tutelage.integrate.program import Options, choose, tolerances
from tutelage.moments import moments_for
from tutelage.problem import Problem, Start
from tutelage.problem.schedules import require_rates_on
from tutelage.simulation import simulate
from tutelage.sweeps.measures import NOT_SOLVED, Case, Measure, resolve, simulation_seed
from tutelage.sweeps.run import message_of
from tutelage.sweeps.spec import SweepSpec, shape_of
from tutelage.sweeps.store import Chunk, Task
from tutelage.trajectory import Trajectory

LANES = 8
Member = tuple[int, int]  # place of the point in the chunk, start


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
    texts = {name: np.array(["; ".join(each) for each in told], object) for name, told in found.sentences.items()}
    return found.variables | {name: ((), text) for name, text in texts.items() if name == "failure" or text.any()}


class _Found:
    """What has been found at the points of a chunk: variables, and for each point its failures and notes, each once."""

    def __init__(self, spec: SweepSpec, count: int):
        self.spec, self.count, self.starts = spec, count, spec.starts or 1
        self.variables: Chunk = {}
        self.sentences = {name: [dict[str, None]() for _ in range(count)] for name in ("failure", "note")}

    def say(self, name: str, place: int, sentence: str) -> None:
        """A failure or a note of a point."""
        self.sentences[name][place][sentence.rstrip(".")] = None

    def ask(self, measure: Measure, cases: Mapping[Member, Case]) -> None:
        """One measure at every point; of the problem alone, once for all starts."""
        found: dict[str, dict[Member, np.ndarray]] = {name: {} for name in measure.dims}
        per_start = measure.needs != {"problem"}
        for (place, i), case in cases.items():
            if i and not per_start:
                continue
            try:
                for name, value in measure.values(case).items():
                    found.setdefault(name, {})[place, i] = np.asarray(value, dtype=float)
            except InputError as refusal:
                self.say("note", place, f"{measure.name}: {message_of(refusal)}")
            except Exception as error:  # such as one of a user's function: it is this point's failure, not the sweep's
                self.say("failure", place, f"{measure.name}: {message_of(error)}")
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


def _cases(found: _Found, points: list[Table], numbers: tuple[int, ...], needs: frozenset[str]) -> dict[Member, Case]:
    """Every point with each of its starts, solved where that is needed; those that fail are left out."""
    spec, solves = found.spec, bool(needs & {"end", "curve"})
    members: dict[Member, tuple[Problem, Start | None]] = {}
    for place, point in enumerate(points):
        try:
            problem, count = spec.problem_at(point), 0 if needs == {"problem"} else found.starts
            starts = [spec.start_at(problem, point, i) for i in range(count)]
            for start in starts:
                start.blocks(problem)  # refuses a start that does not fit
            members |= {(place, i): (problem, starts[i] if starts else None) for i in range(found.starts)}
        except Exception as error:
            found.say("failure", place, message_of(error))
    begun = {member: (problem, start) for member, (problem, start) in members.items() if start is not None}
    curves = _solve(found, begun, "curve" in needs) if solves else {}
    cases, options = {}, {"times": np.array(spec.times), "runs": spec.runs, "keep": "fields", "workers": 1}
    for (place, i), (problem, start) in members.items():
        if (place, i) in curves or not solves:
            seed = simulation_seed(spec.seed, numbers[place], i)
            run = partial(simulate, problem, start, seed=seed, **options)
            cases[place, i] = Case(problem, start, curves.get((place, i)), run, spec.gradient_flow)
    return cases


def _solve(found: _Found, members: Mapping[Member, tuple[Problem, Start]], whole: bool) -> dict[Member, Trajectory]:
    """The trajectory of each member, as `solve` gives it, at all times (whole) or the last; with status and warnings."""
    spec = found.spec
    times = np.array(spec.times if whole else spec.times[-1:])
    groups: dict[tuple[str, str], list[Member]] = {}
    for key, (problem, start) in members.items():
        try:
            require_rates_on(problem, times)
        except InputError as error:
            found.say("failure", key[0], message_of(error))
            continue
        solver = choose(problem, np.array(spec.times)) if spec.solver == "auto" else spec.solver
        groups.setdefault((solver, shape_of((problem, start.without_dim()))), []).append(key)
    curves: dict[Member, Trajectory] = {}
    for (solver, _), keys in groups.items():
        try:
            curves |= _solve_group(spec, times, solver, {key: members[key] for key in keys})
        except InputError as error:
            for place, _ in keys:
                found.say("failure", place, message_of(error))
    found.put("status", {member: curve.status_code for member, curve in curves.items()})
    found.put("end_time", {member: curve.end_time for member, curve in curves.items()})
    for member in curves:
        problem, start = members[member]
        for warning in (symmetry_warning(problem, start, start.blocks(problem)), limit_warning(problem, start.dim)):
            if warning:
                found.say("note", member[0], warning)
    return curves


def _solve_group(
    spec: SweepSpec, times: np.ndarray, solver: str, members: Mapping[Member, tuple[Problem, Start]]
) -> dict[Member, Trajectory]:
    """Members of one shape: one program. Each trajectory is cut where it stopped."""

    def stack(*leaves: jax.Array | np.ndarray | float | Callable) -> np.ndarray | Callable:
        return leaves[0] if callable(leaves[0]) else np.stack([np.asarray(leaf, dtype=float) for leaf in leaves])

    options = Options(spec.gradient_flow, solver, keep=False)
    lanes = LANES if jax.default_backend() == "cpu" else spec.points_per_chunk * (spec.starts or 1)
    pairs = [(as_arrays(problem), as_arrays(start)) for problem, start in members.values()]
    first, *others = (problem for problem, _ in members.values())
    problems, starts = jax.tree.map(stack, *pairs)  # one of each, with a leading axis
    averages = moments_for(first, others=others)
    raw = side_by_side(problems, averages, starts, times, tolerances(spec.rtol), options, size=lanes, workers=1)
    found = {}
    for i, (key, member) in enumerate(members.items()):
        found[key] = assemble(jax.tree.map(lambda x, i=i: x[i], raw), times, *member, settings=())
    return found
