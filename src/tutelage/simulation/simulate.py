"""`simulate`: the network itself, at any size, as a `Trajectory` with a run axis."""

import warnings
from collections.abc import Sequence
from os import PathLike

import numpy as np

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.errors import DivergenceWarning, Status, TutelageWarning
from tutelage.problem import Mixture, Problem, Start
from tutelage.simulation import recorded_error
from tutelage.simulation.jax_ensemble import Ensemble, run_together
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
    """One-pass SGD on networks of input dimension N, `runs` times from the same initial condition.

    Parameters
    ----------
    problem : Problem
        What to learn, and how.
    start : Start or list of Start, optional
        The initial condition, or one for each run. Default: `random_start(problem, dim)`.
    dim : int, optional
        N, if neither start nor inputs give it.
    times : array or float
        As in `solve`. The state after ceil(alpha N) steps is recorded; `step` has these numbers.
    runs : int, optional
        The number of networks. Default: 20.
    seed : int
        Run i depends only on the seed, on i and on `together`.
    method : str, optional
        "overlaps": the exact law for Gaussian inputs, at a cost independent of N (the default). "weights": SGD on the
        weights (the default if weights or inputs are given).
    weights : pair of arrays, optional
        (W, W_teacher) of shapes (K, N) and (M, N) in input coordinates. Default: weights in a random frame with exactly
        the overlaps of `start`.
    inputs : str or array, optional
        "gaussian", "rademacher", "uniform", "student_t" or "student_t3" (unit variance, in eigencoordinates), or
        samples: rows (samples, N), images, or the name of a .npy file.
    order : str
        The order of given samples: "given", "shuffled" (each once) or "sampled" (with replacement).
    keep : str, optional
        "blocks" or "fields", as in `solve`.
    workers : int, optional
        Threads; they do not change the results. Default: the cores.
    together : bool, optional
        Run all networks in one JAX program (overlaps only), from other random numbers of the same law. Default: on a GPU
        for 1000 runs or more.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Trajectory
        With a leading axis of runs. The error is the exact population error at the recorded overlaps.

    Notes
    -----
    A run that diverges is NaN from there on, as is a run that Ctrl-C interrupts; `status_code` marks them.

    Examples
    --------
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
    vectorized = run_together(request, together)
    if vectorized:
        done = Ensemble(request).run(progress)
    else:
        _warn_if_long(request, workers)
        one = (OverlapsMethod if request.method == "overlaps" else WeightsMethod)(request).run
        done = run_in_threads(one, request, workers, progress)
    trajectory = _as_trajectory(request, done, vectorized)
    _warn_if_unfinished(trajectory, request)
    return trajectory


def _as_trajectory(request: Request, done: Runs, vectorized: bool) -> Trajectory:
    problem, records = request.problem, done.records
    names = ["R", "Q", "readout", *(["bias"] if problem.biased else []), *(["r", "q"] if request.keep else [])]
    t = np.stack([np.asarray(start.blocks(problem)[2], dtype=float) for start in request.starts])
    T = np.einsum("l,slab->sab", request.field_weights, t)
    begun = slice(0, done.status.size)
    t, T = (t[0], T[0]) if len(request.starts) == 1 else (t[begun, None], T[begun, None])  # of all runs, or one each
    moving = bool(records.T.size)  # teachers that drift are recorded
    T = records.T if moving else T
    T = T if problem.unseen is None else T + np.asarray(problem.unseen)
    variables = {name: getattr(records, name) for name in names} | ({"T": T} if moving else {})
    parameters = records.readout, records.bias, request.times
    if isinstance(problem.inputs, Mixture):
        shared = recorded_error.with_shares(problem, request.dims / request.dim)
        both = recorded_error.errors_at_records(shared, records.r, records.q, t, *parameters)
        error, loss = (x @ np.asarray(problem.inputs.probabilities) for x in both)
    else:
        error, loss = recorded_error.errors_at_records(problem, records.R, records.Q, T, *parameters)
    law = request.inputs if isinstance(request.inputs, str) else f"rows, {request.order}"
    settings = {"method": request.method, "dim": request.dim, "runs": request.runs, "seed": request.seed, "inputs": law}
    settings |= {"together": True} if vectorized else {}
    return Trajectory(
        times=request.times,
        variables=variables,
        error=error,
        loss=loss,
        status_code=done.status,
        end_time=np.where(done.status == Status.FINISHED, float(request.times[-1]), done.taken / request.dim),
        steps=done.taken,
        T=None if moving else T if T.ndim == 2 else T[:, 0],
        problem=problem,
        start=request.starts[0] if len(request.starts) == 1 else None,
        kind="simulation",
        settings=tuple(settings.items()),
    )


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
