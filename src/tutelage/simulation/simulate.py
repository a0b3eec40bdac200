"""`simulate`: the network itself, at any size, as a `Trajectory` with a run axis."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import DivergenceWarning, Status, TutelageWarning
from tutelage.problem import Problem, Start
from tutelage.simulation import cost
from tutelage.simulation.ensemble import Runs, spread
from tutelage.simulation.request import Request, understand
from tutelage.trajectory import Trajectory


def simulate(
    problem: Problem,
    start: Start | Sequence[Start] | None = None,
    *,
    dim: int | None = None,
    times: Any = 100.0,
    runs: int | None = None,
    seed: int = 0,
    method: str | None = None,
    weights: tuple[Any, Any] | None = None,
    inputs: Any = None,
    order: str = "given",
    keep: str | None = None,
    workers: int | None = None,
    together: bool | None = None,
    progress: bool = False,
) -> Trajectory:
    """One-pass SGD of a network with N inputs, `runs` times (default 20) from the same start.

    start: a `Start`, or one for each run; default `random_start(problem, dim)`. dim: N, where nothing else says it.
    times: as in `solve`; the state after ceil(alpha N) steps is recorded (`step` holds these counts).
    method: "overlaps", the exact law on Gaussian inputs at a cost that does not depend on N (default), or "weights", the
    actual weights (default when weights or inputs are given).
    weights: (W, W_teacher) of shapes (K, N), (M, N) in input coordinates; default: built in a random frame with exactly the
    start's overlaps. inputs: "gaussian", "rademacher", "uniform", "student_t", "student_t3" (unit variance, in
    eigencoordinates), or samples: rows (samples, N), images, or the name of a .npy file, used in the order "given",
    "shuffled" (each once) or "sampled" (with replacement).
    keep: "blocks" or "fields", as in `solve`. workers: threads (default: the cores); they never change the numbers.
    together: all runs side by side in one JAX program (overlaps only), for thousands of runs on a GPU: the same law from
    other random numbers. None: where JAX has a GPU, from 1000 runs on.
    seed: same seed, same runs; run i depends on the seed and i (and together) alone.

    A run that diverges, and after Ctrl-C a run that was under way, keeps what it recorded and is NaN after; `status_code`
    says which. The error is the exact population error at the recorded overlaps.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> runs = tu.simulate(problem, tu.asymmetric_start(problem), dim=1000, times=tu.linear_times(10, 11), runs=4, seed=1)
    >>> runs.error.shape
    (4, 11)
    >>> bool(np.all(runs.step == 1000 * runs.times))
    True
    """
    request = understand(problem, start, dim, times, runs, seed, method, weights, inputs, order, keep)
    progress = checks.as_flag("progress", progress)
    if _together(request, together):
        done = _ensemble(request).run(progress)
    else:
        _warn_if_long(request, workers)
        done = Runs.of(spread(_method(request).run, request.runs, int(request.steps[-1]), workers, progress))
    trajectory = _assemble(request, done, _together(request, together))
    _warn(trajectory, request)
    return trajectory


def _warn_if_long(request: Request, workers: int | None) -> None:
    """Never silent about hours of work."""
    steps = int(request.steps[-1])
    estimate = cost.seconds(request.problem, request.dim, steps, request.runs, request.method, workers)
    if estimate > cost.LONG:
        warnings.warn(f"{cost.sentence(estimate, steps, request.runs)}.", TutelageWarning, stacklevel=3)


def _together(request: Request, together: Any) -> bool:
    """All runs in one program: as asked, or if that pays here."""
    from tutelage.simulation.together import pays, refuse_if_unfit

    if together is None:
        return pays(request.problem, request.dims, request.method, request.runs)
    if checks.as_flag("together", together):
        refuse_if_unfit(request.problem, request.dims, request.method)
    return together


def _ensemble(request: Request) -> Any:
    from tutelage.simulation.together import Ensemble

    shared = (request.problem, request.starts, request.dims, request.steps, request.seed, request.keep)
    return Ensemble(*shared, request.runs)


def _method(request: Request) -> Any:
    from tutelage.simulation.overlaps import OverlapsMethod
    from tutelage.simulation.weights import WeightsMethod

    shared = (request.problem, request.starts, request.dims, request.steps, request.seed, request.keep)
    if request.method == "overlaps":
        return OverlapsMethod(*shared)
    return WeightsMethod(*shared, request.weights, request.inputs, request.order)


def _assemble(request: Request, done: Runs, together: bool) -> Trajectory:
    from tutelage.simulation.recorded_error import errors_of

    problem, count = request.problem, done.status.size
    names = ["R", "Q", "readout", *(["bias"] if problem.biased else []), *(["r", "q"] if request.keep else [])]
    variables = {name: getattr(done.records, name) for name in names}
    T = _teachers(request)
    each = np.broadcast_to(T if T.ndim == 2 else T[:count, None], (count, request.steps.size, *T.shape[-2:]))
    error, loss = errors_of(problem, variables["R"], variables["Q"], each, variables["readout"], done.records.bias)
    law = request.inputs if isinstance(request.inputs, str) else f"rows, {request.order}"
    settings = {"method": request.method, "dim": request.dim, "runs": request.runs, "seed": request.seed, "inputs": law}
    settings |= {"together": True} if together else {}
    return Trajectory(
        times=request.times,
        variables=variables,
        error=error,
        loss=loss,
        status_code=done.status,
        end_time=np.where(done.status == Status.FINISHED, float(request.times[-1]), done.taken / request.dim),
        steps=done.taken,
        T=T,
        problem=problem,
        start=request.starts[0] if len(request.starts) == 1 else None,
        kind="simulation",
        settings=tuple(settings.items()),
    )


def _teachers(request: Request) -> np.ndarray:
    """T of the fields: (M, M) from one start, (run, M, M) from one each."""
    weights = request.dims / request.dim * np.asarray(request.problem.inputs.eigenvalues, dtype=float)
    T = np.stack([np.einsum("l,lab->ab", weights, np.asarray(s.blocks(request.problem)[2])) for s in request.starts])
    return T[0] if len(request.starts) == 1 else T


def _warn(trajectory: Trajectory, request: Request) -> None:
    """Never silent about runs that did not finish."""
    codes = np.asarray(trajectory.status_code)
    for status, category in ((Status.DIVERGED, DivergenceWarning), (Status.INTERRUPTED, TutelageWarning)):
        which = np.flatnonzero(codes == status)
        if which.size or (status == Status.INTERRUPTED and codes.size < request.runs):
            first = float(np.min(np.asarray(trajectory.end_time)[which], initial=float(request.times[-1])))
            word, fix = {
                Status.DIVERGED: ("diverged", "lower the learning rate"),
                Status.INTERRUPTED: ("were interrupted", "the finished ones are whole"),
            }[status]
            missing = request.runs - codes.size if status == Status.INTERRUPTED else 0
            also = f" and {missing} never began" if missing else ""
            warnings.warn(
                f"{which.size} of {request.runs} runs {word}{also}, the first at alpha = {first:.6g}; their later "
                f"values are NaN, {fix}.",
                category,
                stacklevel=3,
            )
