"""The theory of all points of a chunk at once: one compiled program for each shape, its numbers as data.

On a CPU the members are solved LANES at a time, side by side in one vectorised loop that lasts as long as its slowest
member; neighbours of a sweep take about equally many steps. On a GPU the whole chunk goes together. The last lanes are
filled up with copies, so that they need no program of their own.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np

from tutelage._errors import InputError
from tutelage.integrate import choose
from tutelage.problem import Start
from tutelage.problem.schedules import require_rate_on
from tutelage.solve import solve
from tutelage.status import Status
from tutelage.sweep.chunks import shape_of
from tutelage.sweep.spec import SweepSpec
from tutelage.trajectory import Trajectory, eager

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
            require_rate_on("lr", problem.sgd.lr, np.array(times))
        except InputError as error:
            failed(key[0], error)
            continue
        solver = choose(problem, np.array(spec.times)) if spec.solver == "auto" else spec.solver
        groups.setdefault((solver, shape_of((problem, _anonymous(start)))), []).append(key)
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
    lanes = LANES if jax.default_backend() == "cpu" else spec.points_per_chunk * (spec.starts or 1)
    program = _program(times, spec.gradient_flow, spec.rtol, solver)
    keys, found = list(members), {}
    for first in range(0, len(keys), lanes):
        side_by_side = [members[key] for key in keys[first : first + lanes]]
        raw = eager(program(*_stacked(side_by_side, lanes)))
        for i, key in enumerate(keys[first : first + lanes]):
            found[key] = _member(raw, i, times, *members[key])
    return found


def _stacked(pairs: list[tuple[Any, Start]], lanes: int) -> Any:
    """Problems and starts of one shape as one problem and one start with a leading axis, filled up with the last."""
    pairs = [(problem, _anonymous(start)) for problem, start in pairs]
    pairs += [pairs[-1]] * (lanes - len(pairs))
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, dtype=float) for leaf in leaves]), *pairs)


@cache
def _program(times: tuple[float, ...], gradient_flow: bool, rtol: float, solver: str) -> Any:
    """The compiled batch for these times and options; JAX keeps one program for each shape."""

    def one(problem: Any, start: Any) -> Any:
        options = {"gradient_flow": gradient_flow, "rtol": rtol, "solver": solver}
        result = solve(problem, start, np.array(times), keep="fields", **options)
        return result.variables, result.error, result.status_code, result.end_time, result.steps, result.T

    return jax.jit(jax.vmap(one))


def _member(raw: Any, i: int, times: tuple[float, ...], problem: Any, start: Start) -> Trajectory:
    """One trajectory of the batch, cut where it stopped."""
    variables, error, status, end_time, steps, T = jax.tree.map(lambda x: x[i], raw)
    count = len(times) if status == Status.FINISHED else int(np.searchsorted(times, end_time, side="right"))
    return Trajectory(
        times=np.array(times[:count]),
        variables={name: values[:count] for name, values in variables.items()},
        error=error[:count],
        status_code=status,
        end_time=end_time,
        steps=steps,
        T=T,
        problem=problem,
        start=start,
        kind="theory",
    )


def _anonymous(start: Start) -> Start:
    """Without its N, on which the limit does not depend."""
    return Start(start.R, start.Q, start.T, start.readout, start.bias)
