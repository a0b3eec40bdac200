"""`simulate`: the network itself, at any size, as a `Trajectory` with a run axis."""

import warnings
from collections.abc import Sequence
from os import PathLike

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.errors import DivergenceWarning, Status, TutelageWarning
from tutelage.problem import Mixture, Problem, Start
from tutelage.simulation import recorded_error
from tutelage.simulation.overlaps import OverlapsMethod
from tutelage.simulation.request import LONG_SECONDS, Request, checked_request, duration_warning, estimated_seconds
from tutelage.simulation.runs import Runs, run_in_threads
from tutelage.simulation.weights import WeightsMethod
from tutelage.trajectory import Trajectory


def simulate(
    problem: Problem,
    start: Start | Sequence[Start] | None = None,
    *,
    dim: int | None = None,
    times: ArrayLike | Sequence[float] = 100.0,
    runs: int | None = None,
    seed: int = 0,
    method: str | None = None,
    weights: tuple[ArrayLike, ArrayLike] | None = None,
    inputs: str | PathLike | ArrayLike | None = None,
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
    request = checked_request(problem, start, dim, times, runs, seed, method, weights, inputs, order, keep)
    progress = checks.as_flag("progress", progress)
    vectorized = _in_one_program(request, together)
    if vectorized:
        from tutelage.simulation.jax_ensemble import Ensemble

        done = Ensemble(request).run(progress)
    else:
        _warn_if_long(request, workers)
        one = (OverlapsMethod if request.method == "overlaps" else WeightsMethod)(request).run
        done = Runs.stacked(run_in_threads(one, request.runs, int(request.steps[-1]), workers, progress))
    trajectory = _as_trajectory(request, done, vectorized)
    _warn_if_unfinished(trajectory, request)
    return trajectory


def _in_one_program(request: Request, together: bool | None) -> bool:
    """All runs in one program: as asked, or if that pays here."""
    from tutelage.simulation.jax_ensemble import gpu_pays, require_fit

    if together is None:
        return gpu_pays(request.problem, request.dims, request.method, request.runs)
    if checks.as_flag("together", together):
        require_fit(request.problem, request.dims, request.method)
    return together


def _as_trajectory(request: Request, done: Runs, vectorized: bool) -> Trajectory:
    problem, records, count = request.problem, done.records, done.status.size
    names = ["R", "Q", "readout", *(["bias"] if problem.biased else []), *(["r", "q"] if request.keep else [])]
    T, moving = _teachers(request), bool(records.T.size)  # teachers that drift are recorded
    names += ["T"] if moving else []
    each = np.broadcast_to(T if T.ndim == 2 else T[:count, None], (count, request.steps.size, *T.shape[-2:]))
    if moving:
        each = records.T if problem.unseen is None else records.T + np.asarray(problem.unseen)
        records = records._replace(T=each)
    if isinstance(problem.inputs, Mixture):
        t = np.stack([np.asarray(s.blocks(problem)[2], dtype=float) for s in request.starts])
        t = t[0] if len(t) == 1 else t[:count, None]
        state = records.r, records.q, t, records.readout, records.bias
        both = recorded_error.mixture_errors(problem, request.dims / request.dim, *state, request.times)
        error, loss = (x @ np.asarray(problem.inputs.probabilities) for x in both)
    else:
        seen = records.R, records.Q, each, records.readout, records.bias
        error, loss = recorded_error.errors_at_records(problem, *seen, request.times)
    law = request.inputs if isinstance(request.inputs, str) else f"rows, {request.order}"
    settings = {"method": request.method, "dim": request.dim, "runs": request.runs, "seed": request.seed, "inputs": law}
    settings |= {"together": True} if vectorized else {}
    return Trajectory(
        times=request.times,
        variables={name: getattr(records, name) for name in names},
        error=error,
        loss=loss,
        status_code=done.status,
        end_time=np.where(done.status == Status.FINISHED, float(request.times[-1]), done.taken / request.dim),
        steps=done.taken,
        T=None if moving else T,
        problem=problem,
        start=request.starts[0] if len(request.starts) == 1 else None,
        kind="simulation",
        settings=tuple(settings.items()),
    )


def _teachers(request: Request) -> Float[np.ndarray, "*run M M"]:
    """T of the fields: (M, M) from one start, (run, M, M) from one each."""
    weights = request.dims / request.dim * np.asarray(request.problem.inputs.eigenvalues, dtype=float)
    T = np.stack([np.einsum("l,lab->ab", weights, np.asarray(s.blocks(request.problem)[2])) for s in request.starts])
    T = T if request.problem.unseen is None else T + np.asarray(request.problem.unseen)
    return T[0] if len(request.starts) == 1 else T


def _warn_if_long(request: Request, workers: int | None) -> None:
    """Never silent about hours of work."""
    steps = int(request.steps[-1])
    estimate = estimated_seconds(request.problem, request.dim, steps, request.runs, request.method, workers)
    if estimate > LONG_SECONDS:
        warnings.warn(f"{duration_warning(estimate, steps, request.runs)}.", TutelageWarning, stacklevel=3)


def _warn_if_unfinished(trajectory: Trajectory, request: Request) -> None:
    """Never silent about runs that did not finish."""
    codes = np.asarray(trajectory.status_code)
    diverged = Status.DIVERGED, DivergenceWarning, "diverged", "lower the learning rate"
    interrupted = Status.INTERRUPTED, TutelageWarning, "were interrupted", "the finished ones are whole"
    for status, category, word, fix in (diverged, interrupted):
        which = np.flatnonzero(codes == status)
        if which.size or (status == Status.INTERRUPTED and codes.size < request.runs):
            first = float(np.min(np.asarray(trajectory.end_time)[which], initial=float(request.times[-1])))
            missing = request.runs - codes.size if status == Status.INTERRUPTED else 0
            also = f" and {missing} never began" if missing else ""
            warnings.warn(
                f"{which.size} of {request.runs} runs {word}{also}, the first at alpha = {first:.6g}; their later "
                f"values are NaN, {fix}.",
                category,
                stacklevel=3,
            )
