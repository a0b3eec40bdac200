"""Many problems of one shape, solved together on all cores or on a GPU.

A batch is one program: its members take their steps side by side, each with its own step size, until the slowest has
finished. On a CPU a few members at a time fit into the cache and end at about the same step, and threads keep every core
busy with chunks of them (compiled programs hold no lock); on a GPU as many as its memory allows run at once.
"""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import _checks
from tutelage._cores import cores
from tutelage._errors import DivergenceWarning, InputError
from tutelage.averages import Quadrature
from tutelage.problem import Problem, Start, random_start
from tutelage.solve import (
    SOLVERS,
    _anonymous,
    _arrays,
    _assemble,
    _check_times,
    _integrate,
    _keep,
    _Options,
    _padded,
    _positive,
    _prepare,
)
from tutelage.trajectory import Trajectory, eager

ON_CPU = 16  # members that step together
ON_GPU = 2**27  # numbers recorded by the members that step together


def solve_many(
    problem: Problem,
    over: Mapping[str, Any],
    start: Start | Sequence[Start] | None = None,
    times: Any = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float = 1e-8,
    atol: float = 1e-12,
    solver: str = "explicit",
    quadrature: Quadrature | None = None,
    keep: str | None = None,
    max_steps: int = 100_000,
    chunk: int | None = None,
    workers: int | None = None,
) -> Trajectory:
    """The theory of many problems that differ in numbers: one `Trajectory` with a leading axis `batch`.

    over: what differs, by the names that `Problem.replace` knows, one entry per member: {"lr": rates, "noise": sigmas}.
    All lists have one length; every combination is the caller's to make (np.meshgrid). start: one for all, or one each.
    The other arguments are those of `solve`. chunk: members that step together (default: 16 on a CPU, what fits on a GPU).
    workers: threads (default: the cores). A member that diverges is NaN from there on; `status_code` says which did.

    Each member is what `solve` gives for it, to the tolerance: members share no step sizes.
    """
    values, count = _values(problem, over)
    times, starts = _check_times(times), _starts(problem, start, count)
    for index in (0, count - 1):
        _prepare(problem.replace(**{name: value[index] for name, value in values.items()}), starts[index], times)
    options = _Options(
        gradient_flow=_checks.as_flag("gradient_flow", gradient_flow),
        solver=_checks.known("solver", solver, SOLVERS),
        quadrature=quadrature,
        keep=_keep(problem, keep),
        gradient="forward",
        max_steps=_checks.as_count("max_steps", max_steps),
        progress=False,
    )
    problems = _host(jax.vmap(lambda each: _arrays(problem.replace(**each)))(values))
    begin = jax.tree.map(lambda *x: np.stack(x), *(_host(_arrays(_anonymous(one))) for one in starts))
    shared = _padded(times, problem), jnp.array([_positive("rtol", rtol), _positive("atol", atol)]), options
    size = min(count, _fitting(problem, times) if chunk is None else _checks.as_count("chunk", chunk))
    raw = _until(_in_chunks((problems, begin), shared, count, size, workers), times.size)
    settings = (("gradient_flow", gradient_flow), ("rtol", float(rtol)), ("solver", solver))
    trajectory = _assemble(raw, times, problems, begin, settings)
    if not trajectory.finished:
        warnings.warn(f"of these problems {trajectory.status}", DivergenceWarning, stacklevel=2)
    return trajectory


def _values(problem: Any, over: Any) -> tuple[dict[str, np.ndarray], int]:
    """What differs, as arrays with a leading axis of members; the extremes of each are tried on the problem."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is of type {type(problem).__name__}; solve_many takes a tutelage Problem.")
    if not isinstance(over, Mapping) or not over:
        raise InputError(f"over is {_checks.shown(over)}; name what differs between the problems, as {{'lr': rates}}.")
    values = {name: np.asarray(_checks.as_array(name, value), dtype=float) for name, value in over.items()}
    lengths = {name: value.shape[0] if value.ndim else 0 for name, value in values.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(f"over has lists of lengths {lengths}; give one entry per problem to each, and at least one.")
    for name, value in values.items():
        for extreme in (value.min(axis=0), value.max(axis=0)):
            problem.replace(**{name: extreme})
    return values, next(iter(lengths.values()))


def _starts(problem: Problem, start: Any, count: int) -> list[Start]:
    if start is None:
        start = random_start(problem, dim=problem.inputs.known_dim or max(1000, problem.inputs.levels))
    if isinstance(start, Sequence):
        if len(start) != count:
            raise InputError(f"{len(start)} starts are given for {count} problems; give one for all, or one for each.")
        return list(start)
    return [start] * count


def _fitting(problem: Problem, times: np.ndarray) -> int:
    """Members that step together on this device."""
    if jax.default_backend() == "cpu":
        return ON_CPU
    K, M, L = problem.student.hidden, problem.teacher.hidden, problem.inputs.levels
    return max(1, ON_GPU // (K * (K + M) * (times.size + 1 + 20 * L)))


def _in_chunks(members: Any, shared: Any, count: int, size: int, workers: int | None) -> Any:
    """All members, `size` at a time; the last chunk repeats its last member, so that one program serves all."""
    workers = cores() if workers is None else _checks.as_count("workers", workers)
    chunks = [np.minimum(np.arange(first, first + size), count - 1) for first in range(0, count, size)]
    on_cpu = jax.default_backend() == "cpu"

    def one(which: np.ndarray) -> Any:
        return eager(_together(jax.tree.map(lambda x: x[which], members), *shared))

    with ThreadPoolExecutor(workers if on_cpu else 1) as pool:
        try:
            parts = list(pool.map(one, chunks))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


@eqx.filter_jit
def _together(members: Any, times: Any, tolerances: Any, options: _Options) -> Any:
    return jax.vmap(lambda problem, start: _integrate(problem, start, times, tolerances, options))(*members)


def _host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _until(raw: Any, count: int) -> Any:
    """What was recorded at the first times."""
    kept = jax.tree.map(lambda x: x[:, :count], (raw.variables, raw.error))
    return eqx.tree_at(lambda w: (w.variables, w.error), raw, kept)
