"""The verbs: `solve`, `solve_batch` and `simulate` ask the theory of the problem.

`theories.TABLE` lists the theories. A custom `Equations` or `ClosedSystem` goes to the
integrators of `stream` at once.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from os import PathLike
from typing import Any

from jaxtyping import PyTree

from tutelage import checks, theories
from tutelage._types import ArrayLike, Numbers
from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.result.trajectory import Trajectory
from tutelage.solvers import ClosedSystem
from tutelage.solvers.program import MAX_STEPS
from tutelage.stream.moments import Quadrature, Sampled
from tutelage.stream.solve import solve_on_stream


def solve(
    problem: Problem | ClosedSystem,
    start: PyTree = None,
    times: ArrayLike | Sequence[float] = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    solver: str = "auto",
    quadrature: Quadrature | None = None,
    moments: Sampled | None = None,
    accuracy: float | str | None = "usual",
    keep: str | None = None,
    gradient: str = "reverse",
    max_steps: int = MAX_STEPS,
    observe: Mapping[str, Callable[..., ArrayLike]] | None = None,
    progress: bool = False,
    **options: Any,
) -> Trajectory:
    """Solve the exact dynamics of learning in the limit of large N.

    The first theory that covers the problem solves it (`theories.TABLE`). The options
    below are those of fresh samples; another theory may not support all of them.

    Parameters
    ----------
    problem : Problem, Equations or ClosedSystem
        What to solve.
    start : Start, optional
        The initial condition; for custom equations their initial values. Default:
        `random_start(problem, dim=1000)`.
    times : array or float
        Increasing times alpha >= 0 to record, or the last one of 201 even times.
    gradient_flow : bool
        Include terms of order eta only; G is omitted.
    rtol, atol : float, optional
        Tolerances of a step. Default: 1e-8 and 1e-12; 1e-4 and 1e-6 if JAX computes in
        float32. For sampled averages rtol is 1e-6, or 8/points if the update jumps,
        because smaller steps do not resolve a finite set. Quadrature averages G of
        functions with kinks over 2^17 points: there rtol is 6e-5.
    solver : str
        "explicit": Dormand-Prince 8(5,3). "stiff": Rodas5P with the structure of the
        overlaps, whose cost does not grow with the largest eigenvalue. "implicit":
        Kvaerno5 with dense matrices, for stiff custom equations. "auto": stiff if it
        saves more time than it takes to compile, else explicit; always explicit inside
        jit, vmap and grad.
    quadrature : Quadrature, optional
        The resolution of averages without a closed form.
    moments : Sampled, optional
        Average over a quasi-random set of so many points, `Sampled(points, seed)`, also
        where a closed form or a grid exists. Its error is estimated when
        `sampling_error`, `validity` or `compare` needs it.
    accuracy : float or str, optional
        Where averages are sampled and ``moments`` does not fix the points: the relative
        error of the error curve that they may leave (95% confidence). `solve` estimates
        it by eight more solves with an eighth of the points each, and takes from 2^14
        up to 2^17 points until it is reached or the curve would cost more than some
        seconds. `accuracy` of the result is what was reached; above 1e-2 there is a
        warning. "usual" is 1e-3; for a data set it is 5e-3, one standard error relative
        to the largest entry of each curve. None, and inside jit, vmap and grad: 2^14
        points without an estimate.
    keep : str, optional
        "blocks" records r and q per level, "fields" only R and Q. Default: blocks up to
        16 levels.
    gradient : str
        "reverse" for jax.grad, "forward" for jax.jvp and jacfwd.
    max_steps : int
        The largest number of steps.
    observe : dict of functions, optional
        {name: f} records f(R, Q, readout) under that name.
    progress : bool
        Show a progress bar.
    options
        What another theory of the table takes besides.

    Returns
    -------
    Trajectory
        Error, loss, overlaps and readouts at the recorded times, with a `validity`
        report.

    Examples
    --------
    >>> import tutelage as tu
    >>> erf = tu.Network(2, "erf")
    >>> problem = tu.Problem(erf, erf, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem)
    >>> theory = tu.solve(problem, start, times=tu.linear_times(10, 11))
    >>> round(float(theory.error[-1]), 6), theory.R.shape
    (0.014469, (11, 2, 2))
    """
    chosen = _chosen(solve, locals(), options)
    if not isinstance(problem, Problem):
        return solve_on_stream(problem, start, times, **chosen)
    theory = theories.theory_of(problem, "solve")
    _require_options(theory.solve, f"solve by the theory of {theory.name}", chosen)
    return theory.solve(problem, start, times, **chosen)


def solve_batch(
    problem: Problem,
    over: Mapping[str, Numbers],
    start: Start | Sequence[Start] | None = None,
    times: ArrayLike | Sequence[float] = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    solver: str = "auto",
    quadrature: Quadrature | None = None,
    keep: str = "fields",
    max_steps: int = MAX_STEPS,
    chunk: int | None = None,
    workers: int | None = None,
) -> Trajectory:
    """Solve many problems that differ in numbers.

    The result is one `Trajectory` with a leading axis `batch`.

    Parameters
    ----------
    problem : Problem
        What all members share.
    over : dict of lists
        What differs, by the names of `Problem.replace`, with one entry per member:
        {"lr": rates, "noise": sigmas}. All lists have one length; make combinations
        with np.meshgrid.
    start : Start or list of Start, optional
        One initial condition for all members, or one each.
    times, gradient_flow, rtol, atol, solver, quadrature, max_steps
        As in `solve`.
    keep : str
        "blocks" also records r and q per level.
    chunk : int, optional
        Members that step together. Default: 32 on a CPU, as many as fit on a GPU.
    workers : int, optional
        Threads. Default: the cores.

    Returns
    -------
    Trajectory
        Each member equals the result of `solve`, to the tolerance. A member that
        diverges is NaN from there on; `status_code` marks it.

    Examples
    --------
    >>> import tutelage as tu
    >>> erf = tu.Network(2, "erf")
    >>> problem = tu.Problem(erf, erf, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem)
    >>> times = tu.linear_times(10, 11)
    >>> curves = tu.solve_batch(problem, {"lr": [0.1, 0.2, 0.5]}, start, times=times)
    >>> curves.error.shape, curves.error[:, -1].round(4)
    ((3, 11), array([0.028 , 0.0163, 0.0145]))
    """
    chosen = _chosen(solve_batch, locals(), {})
    theory = theories.theory_of(problem, "solve_batch")
    _require_options(
        theory.solve_batch, f"solve_batch by the theory of {theory.name}", chosen
    )
    return theory.solve_batch(problem, over, start=start, times=times, **chosen)


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
    **options: Any,
) -> Trajectory:
    """Train networks of input dimension N, by the simulator of the problem's theory.

    All `runs` networks begin at the same initial condition. The options below are those
    of one-pass SGD on fresh samples; another simulator may not support all of them.

    Parameters
    ----------
    problem : Problem
        What to learn, and how.
    start : Start or list of Start, optional
        The initial condition, or one for each run. Default: `random_start(problem,
        dim)`.
    dim : int, optional
        N, if neither start nor inputs give it.
    times : array or float
        As in `solve`. The state after ceil(alpha N) steps is recorded; `step` has these
        numbers.
    runs : int, optional
        The number of networks. Default: 20.
    seed : int
        Run i depends only on the seed, on i and on `together`.
    method : str, optional
        "overlaps": the exact law for Gaussian inputs, at a cost independent of N (the
        default). "weights": the actual weights (the default if weights or inputs are
        given, and for optimizers whose steps depend on every coordinate).
    weights : pair of arrays, optional
        (W, W_teacher) of shapes (K, N) and (M, N) in input coordinates. Default:
        weights in a random frame with exactly the overlaps of `start`.
    inputs : str or array, optional
        "gaussian", "rademacher", "uniform", "student_t" or "student_t3" (unit variance,
        in eigencoordinates), or samples: rows (samples, N), images, or the name of a
        .npy file.
    order : str
        The order of given samples: "given", "shuffled" (each once) or "sampled" (with
        replacement).
    keep : str, optional
        "blocks" or "fields", as in `solve`.
    workers : int, optional
        Threads; they do not change the results. Default: the cores.
    together : bool, optional
        Run all networks in one JAX program (overlaps only), from other random numbers
        of the same law. Default: on a GPU for 1000 runs or more.
    progress : bool
        Show a progress bar.
    options
        What the simulator of another theory takes besides.

    Returns
    -------
    Trajectory
        With a leading axis of runs. The error is the exact population error at the
        recorded overlaps. A run that diverges, or that Ctrl-C interrupts, is NaN from
        there on; `status_code` marks it.

    Examples
    --------
    >>> import tutelage as tu
    >>> erf = tu.Network(2, "erf")
    >>> problem = tu.Problem(erf, erf, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem)
    >>> times = tu.linear_times(10, 11)
    >>> runs = tu.simulate(problem, start, dim=1000, times=times, runs=4, seed=1)
    >>> runs.error.shape
    (4, 11)
    """
    chosen = _chosen(simulate, locals(), options)
    theory = theories.theory_of(problem, "simulate")
    simulator = theory.simulator
    if simulator is None:
        raise InputError(
            f"the theory of {theory.name} has no simulator of finite networks; "
            "only solve it."
        )
    _require_options(simulator, f"simulate for the theory of {theory.name}", chosen)
    return simulator(problem, start, times=times, **chosen)


# Arguments of the verbs that every theory takes.
COMMON = ("problem", "over", "start", "times", "options")


def _chosen(
    verb: Callable[..., Any], given: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a call that differ from the defaults of the verb."""
    defaults = _defaults(verb)
    chosen = {
        name: given[name]
        for name, default in defaults.items()
        if not _is_default(given[name], default)
    }
    return chosen | dict(options)


def _is_default(value: object, default: object) -> bool:
    """Return True for the default itself, and for an equal plain value of its type."""
    if value is default:
        return True
    is_plain = isinstance(value, bool | int | float | str)
    return is_plain and type(value) is type(default) and value == default


@cache
def _defaults(verb: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a verb that not every theory takes, with their defaults."""
    parameters = signature(verb).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in COMMON}


def _require_options(
    function: Callable[..., Any], what: str, chosen: Mapping[str, Any]
) -> None:
    """Refuse an option that a theory does not take."""
    known = _option_names(function)
    if known is None:
        return
    for name in chosen:
        if name not in known:
            raise InputError(
                f"{what} takes no {name!r}; leave it out.{checks.nearest(name, known)}"
            )


def understood_options(
    function: Callable[..., Any] | None, **options: Any
) -> dict[str, Any]:
    """Return those of the options that a function of a theory takes."""
    if function is None:
        return {}
    known = _option_names(function)
    if known is None:
        return options
    return {name: value for name, value in options.items() if name in known}


@cache
def _option_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of the options that a function takes; None: any."""
    parameters = signature(function).parameters.values()
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters if p.name not in COMMON)
