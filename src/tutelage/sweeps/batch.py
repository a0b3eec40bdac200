"""The theory of all points of a chunk at once: one compiled program for each shape, its numbers as data.

On a CPU the members are solved LANES at a time, side by side in one vectorized loop that lasts as long as its slowest
member; neighbors of a sweep take about equally many steps. On a GPU the whole chunk goes together. The last lanes are
filled up with copies, so that they need no program of their own.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from tutelage._errors import InputError, Status
from tutelage._solve import assemble
from tutelage._solve_batch import side_by_side
from tutelage.integrate import Options, Raw, anonymous, as_arrays, choose, first_times, tolerances
from tutelage.moments import moments_for
from tutelage.problem import Start
from tutelage.problem.schedules import require_rates_on
from tutelage.sweeps.chunks import shape_of
from tutelage.sweeps.spec import SweepSpec
from tutelage.trajectory import Trajectory

LANES = 8
Members = Mapping[tuple[int, int], tuple[Any, Start]]


def solved(
    spec: SweepSpec, members: Members, failed: Callable[[int, Exception], None], whole: bool
) -> dict[tuple[int, int], Trajectory]:
    """The solved trajectory of each member, as `solve` gives it: cut where it diverges.

    failed: told of a point that cannot be solved. whole: at all times, or at the last alone.
    """
    times = spec.times if whole else spec.times[-1:]
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for key, (problem, start) in members.items():
        try:
            require_rates_on(problem.sgd, np.array(times))
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
