"""The theory of all points of a chunk at once: one compiled program for each shape, its numbers as data.

On a CPU the members are solved LANES at a time, side by side in one vectorised loop, which lasts as long as its slowest
member; neighbours of a sweep take about equally many steps. On a GPU all go together. A batch is filled up to the full
chunk with copies of its last member, so that the last chunk needs no program of its own.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np

from tutelage._errors import InputError
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
    groups: dict[str, list[tuple[int, int]]] = {}
    for key, (problem, start) in members.items():
        try:
            require_rate_on("lr", problem.sgd.lr, np.array(times))
        except InputError as error:
            failed(key[0], error)
            continue
        groups.setdefault(shape_of((problem, _anonymous(start))), []).append(key)
    found = {}
    for keys in groups.values():
        try:
            found |= _solve_group(spec, times, {key: members[key] for key in keys})
        except InputError as error:
            for place in dict.fromkeys(key[0] for key in keys):
                failed(place, error)
    return found


def _solve_group(spec: SweepSpec, times: tuple[float, ...], members: Members) -> dict[tuple[int, int], Trajectory]:
    size = spec.points_per_chunk * (spec.starts or 1)
    pairs = [(problem, _anonymous(start)) for problem, start in members.values()]
    pairs += [pairs[-1]] * (size - len(pairs))
    batch = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, dtype=float) for leaf in leaves]), *pairs)
    program = _program(times, spec.gradient_flow, spec.rtol, spec.solver, jax.default_backend())
    raw = eager(program(*batch))
    return {key: _member(raw, i, times, *pair) for i, (key, pair) in enumerate(members.items())}


@cache
def _program(times: tuple[float, ...], gradient_flow: bool, rtol: float, solver: str, backend: str) -> Any:
    """The compiled batch for these times and options; JAX keeps one program for each shape."""

    def one(pair: Any) -> Any:
        problem, start = pair
        result = solve(problem, start, np.array(times), gradient_flow=gradient_flow, rtol=rtol, solver=solver, keep="fields")
        return result.variables, result.error, result.status_code, result.end_time, result.steps, result.T

    def batch(problems: Any, starts: Any) -> Any:
        if backend == "cpu":
            return jax.lax.map(one, (problems, starts), batch_size=LANES)
        return jax.vmap(one)((problems, starts))

    return jax.jit(batch)


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
