"""Theory as a curve: integrate a closed system with diffrax and hold the result in a `Trajectory`.

`jax.grad`, `jax.vmap` and `jax.jit` go through `solve`; problems of equal shape share one program (integrate/program.py).
"""

import warnings
from typing import Any

import jax
import numpy as np

from tutelage import _checks
from tutelage._errors import DivergenceWarning, InputError, SymmetryWarning, ValidityWarning, kind_of
from tutelage.averages import Quadrature, as_rule
from tutelage.dynamics import ClosedSystem
from tutelage.integrate import (
    SOLVERS,
    Options,
    Raw,
    anonymous,
    as_arrays,
    choose,
    first_times,
    integrate,
    padded,
    tolerances,
)
from tutelage.problem import Problem, random_start
from tutelage.problem.arguments import require_start
from tutelage.problem.schedules import require_rates_on
from tutelage.status import Status
from tutelage.times import check_times
from tutelage.trajectory import Trajectory, eager
from tutelage.validity import Validity, limit_warning, quadrature_warning, symmetry_warning

MAX_STEPS = 100_000
KEEP_LEVELS = 16  # overlaps per level are kept by default up to this many levels


def solve(
    problem: Problem | ClosedSystem,
    start: Any = None,
    times: Any = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    solver: str = "auto",
    quadrature: Quadrature | None = None,
    keep: str | None = None,
    gradient: str = "reverse",
    max_steps: int = MAX_STEPS,
    progress: bool = False,
) -> Trajectory:
    """The exact order-parameter dynamics of a problem in the limit of large N.

    problem: a `Problem`, or a user's own `Equations` or `ClosedSystem`. start: a `Start` (default: `random_start(problem,
    dim=1000)`), or the initial values of the equations. times: increasing times alpha >= 0 to record, or the last one (201
    even times).
    gradient_flow: terms of order eta only (G dropped). solver: "explicit" (Dopri8), "stiff" (Rodas5P with the structure of
    the overlaps: its cost does not grow with the largest eigenvalue; compiles for longer), "implicit" (Kvaerno5, dense: for
    stiff equations of one's own), or "auto": stiff where that saves more than it costs to compile, else explicit (also
    inside jit, vmap and grad, where numbers are not known). quadrature: how finely what has no closed form is averaged.
    keep: "blocks" or "fields", whether to keep r and q per level (default: up to 16 levels).
    gradient: "reverse" for jax.grad, "forward" for jax.jvp and jacfwd.
    rtol, atol: tolerances of a step (default: 1e-8 and 1e-12; 1e-4 and 1e-6 where JAX computes in float32).

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> round(float(theory.error[-1]), 6)
    0.014469
    >>> np.round(theory.R[-1], 3)
    array([[0.472, 0.364],
           [0.355, 0.461]])
    """
    solver = _checks.known("solver", solver, ("auto", *SOLVERS))
    gradient = _checks.known("gradient", gradient, ("reverse", "forward"))
    steps = tolerances(rtol, atol)
    times = check_times(times)
    problem_, start = prepare(problem, start, times)
    options = Options(
        gradient_flow=_checks.as_flag("gradient_flow", gradient_flow),
        solver=choose(problem, times) if solver == "auto" else solver,
        quadrature=as_rule(quadrature),
        keep=keeps_blocks(problem, keep),
        gradient=gradient if _may_be_differentiated(problem_, start) else "forward",  # which is sooner compiled
        max_steps=_checks.as_count("max_steps", max_steps),
        progress=_checks.as_flag("progress", progress),
    )
    raw = integrate(as_arrays(problem_), as_arrays(anonymous(start)), padded(times, problem), steps, options)
    raw = first_times(raw if _checks.is_traced(raw) else eager(raw), times.size)
    settings = (("gradient_flow", gradient_flow), ("rtol", float(steps[0])), ("solver", options.solver))
    if _checks.is_traced(raw):
        return assemble(raw, times, problem, start, settings)
    return _finish(raw, times, problem, start, settings, options)


def prepare(problem: Any, start: Any, times: np.ndarray) -> tuple[Any, Any]:
    """Check problem and start against each other; warn where the answer will need a sentence beside it."""
    if isinstance(problem, ClosedSystem):
        return problem, problem.initial_state(start)
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {kind_of(problem)}; solve takes a Problem, Equations or a ClosedSystem.")
    start = random_start(problem, dim=problem.inputs.usual_dim) if start is None else require_start(start)
    blocks = start.blocks(problem)
    require_rates_on(problem.sgd, times)
    require_records(problem, times, 1, False)
    if not _checks.is_traced((problem, blocks)):
        for category, sentence in (
            (SymmetryWarning, symmetry_warning(problem, start, blocks)),
            (ValidityWarning, limit_warning(problem, start.dim)),
        ):
            if sentence:
                warnings.warn(sentence, category, stacklevel=3)
    return problem, start


def require_records(problem: Problem, times: np.ndarray, runs: int, keep: bool) -> None:
    """Refuse more recorded overlaps than this machine can hold."""
    K, M = problem.student.hidden, problem.teacher.hidden
    each = (K * M + K * K) * (1 + keep * problem.inputs.levels) + 2 * K + 1
    what = f"{times.size} records of {K} student units" + (f" in {runs} runs" if runs > 1 else "")
    _checks.require_memory(
        what, float(runs) * times.size * each, f"Record fewer {'times or runs' if runs > 1 else 'times'}."
    )


def _may_be_differentiated(problem: Any, start: Any) -> bool:
    """Not where all that the answer depends on is numbers; a function may hold what JAX traces."""
    functions = any(callable(leaf) for leaf in jax.tree.leaves(problem))
    return isinstance(problem, ClosedSystem) or functions or _checks.is_traced(problem, start)


def assemble(raw: Any, times: Any, problem: Any, start: Any, settings: Any, report: Any = None) -> Trajectory:
    known = isinstance(problem, Problem)
    return Trajectory(
        times=times,
        variables=raw.variables,
        error=raw.error,
        status_code=raw.status_code,
        end_time=raw.end_time,
        steps=raw.steps,
        T=raw.T,
        problem=problem if known else None,
        start=start if known else None,
        report=report,
        kind="theory" if known else "equations",
        settings=settings,
    )


def _finish(raw: Raw, times: np.ndarray, problem: Any, start: Any, settings: Any, options: Options) -> Trajectory:
    """Outside JAX transformations: cut at a divergence, say so, and attach the validity report."""
    end = int(np.searchsorted(times, raw.end_time, side="right"))
    if raw.status_code != Status.FINISHED:
        raw, times = first_times(raw, end), times[:end]
    trajectory = assemble(raw, times, problem, start, settings)
    if isinstance(problem, Problem):
        report = Validity.lazy(trajectory, options.quadrature, options.gradient_flow)
        trajectory = assemble(raw, times, problem, start, settings, report)
        sentence = quadrature_warning(trajectory, options.quadrature, options.gradient_flow)
        if sentence:
            warnings.warn(sentence, ValidityWarning, stacklevel=3)
    if not trajectory.finished:
        warnings.warn(f"the solve {trajectory.status}", DivergenceWarning, stacklevel=3)
    return trajectory


def keeps_blocks(problem: Any, keep: str | None) -> bool:
    if keep is not None:
        return _checks.known("keep", keep, ("blocks", "fields")) == "blocks"
    return isinstance(problem, Problem) and problem.inputs.levels <= KEEP_LEVELS
