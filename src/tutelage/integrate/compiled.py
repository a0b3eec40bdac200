"""Which solves machine code takes over from the JAX program, and the way into it and back.

The kernel (dynamics/committee_kernel.py) needs no tracing and no compilation for a new shape, and is up to six times as
fast. It has squared loss with one teacher, erf (or sign as teacher), any spectrum, readouts fixed or trained, and rates
that are numbers. Everything else, and everything inside jit, vmap and grad, takes the JAX program.
"""

from typing import Any

import numpy as np

from tutelage.dynamics.committee import committee_of, is_committee
from tutelage.dynamics.error import Point, population_errors, shared_parity
from tutelage.errors import Status
from tutelage.integrate.dormand_prince import ALL, ERRORS, STAGES, WEIGHTS
from tutelage.integrate.program import BOUND, FINE, GROWN, SHORTEST, Options, Raw
from tutelage.moments import ClosedMoments, Moments
from tutelage.problem import Problem, Start
from tutelage.problem.start import Blocks


def covers(problem: object, moments: Moments | None, options: Options) -> bool:
    """Does the kernel integrate this problem? Its numbers must be known: no part of it may be traced."""
    explicit = options.solver == "explicit" and options.gradient == "forward" and not options.progress
    return explicit and is_committee(problem, moments)


def integrate(
    problem: object,
    moments: Moments | None,
    start: Start,
    blocks: Blocks | None,
    times: np.ndarray,
    tolerances: np.ndarray,
    options: Options,
) -> Raw:
    """What `program.integrate` returns, as NumPy arrays. blocks: r, q, t per level."""
    assert isinstance(problem, Problem)
    assert isinstance(moments, ClosedMoments)
    assert blocks is not None
    from tutelage.dynamics import committee_kernel as kernel  # numba takes a third of a second to import

    r, q, t = (np.asarray(x, float) for x in blocks)
    (L, K, M), v = r.shape, np.asarray(start.readout_of(problem), float)
    n, one = K + M, committee_of(problem, moments, t, options.gradient_flow, FINE)
    R, Q = (np.tensordot(one.weights, x, 1) for x in (r, q))
    error = population_errors(moments.averages, Point(R, Q, one.T, v, one.v_teacher), None)  # only guides the steps
    y = np.concatenate([np.moveaxis(np.concatenate([q, r], 2), 0, -1).ravel(), v, [FINE * error]])
    bound, times = 1.0 + np.max(np.abs(y[:-1])), np.array(times, float)
    states = np.full((times.size, y.size), np.nan)
    code, end, steps, size = kernel.integrate(
        one,
        kernel.room_for(one),
        y,
        times,
        float(tolerances[0]),
        float(tolerances[1]),
        BOUND * bound,
        SHORTEST * max(times[-1], 1.0),
        options.max_steps,
        (STAGES, ERRORS, WEIGHTS),
        np.zeros((ALL, y.size)),
        np.empty((3, y.size)),
        states,
    )
    if code == Status.FAILED and size > GROWN * bound:
        code = int(Status.DIVERGED)
    overlaps, v = states[:, : K * n * L].reshape(-1, K, n, L), states[:, K * n * L : -1].copy()
    fields = overlaps @ one.weights
    R, Q = fields[..., K:].copy(), fields[..., :K].copy()
    errors = population_errors(moments.averages, Point(R, Q, one.T, v, one.v_teacher), shared_parity(problem))
    variables = {"R": R, "Q": Q, "readout": v}
    if options.keep:
        levels = np.moveaxis(overlaps, -1, 1)
        variables |= {"r": levels[..., K:].copy(), "q": levels[..., :K].copy()}
    found: Any = (variables, errors, errors + one.sigma_2 / 2, *map(np.array, (code, end, steps)), one.T)
    return Raw(*found)
