"""Which solves machine code takes over from the JAX program, and the way into it and back.

The kernel (committee_kernel.py) needs no tracing and no compilation for a new shape, and is up to six times as fast. It
has squared loss with one teacher, erf (or sign as teacher), any spectrum, readouts fixed or trained, and rates that are
numbers. Everything else, and everything inside jit, vmap and grad, takes the JAX program.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage.dynamics.error import NEAR, PATH, shared_parity
from tutelage.errors import Status
from tutelage.integrate.dormand_prince import ALL, ERRORS, STAGES, WEIGHTS
from tutelage.integrate.program import BOUND, FINE, GROWN, SHORTEST, Options, Raw
from tutelage.moments import ClosedMoments, Moments
from tutelage.moments.erf import ErfAverages
from tutelage.problem import Problem, SlowMomentum, Start
from tutelage.problem.start import Blocks


def covers(problem: object, moments: Moments | None, options: Options) -> bool:
    """Does the kernel integrate this problem? Its numbers must be known: no part of it may be traced."""
    if not isinstance(problem, Problem) or not problem.classic:
        return False
    if not isinstance(moments, ClosedMoments) or not isinstance(moments.averages, ErfAverages):
        return False
    sgd = problem.sgd
    if sgd.spherical or sgd.trainable is not None or isinstance(sgd.momentum, SlowMomentum) or problem.schedules():
        return False
    return (
        not checks.is_traced(problem)
        and options.solver == "explicit"
        and options.gradient == "forward"
        and not options.progress
        and jnp.result_type(float) == np.float64
    )


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
    averages = moments.averages
    assert isinstance(averages, ErfAverages)
    from tutelage.integrate import committee_kernel as kernel  # numba takes a third of a second to import

    r, q, t = (np.asarray(x, float) for x in blocks)
    (L, K, M), v = r.shape, np.asarray(start.readout_of(problem), float)
    n, inputs, sgd = K + M, problem.inputs, problem.sgd
    weights, gain, unseen = np.array(inputs.weights, float), 1.0 - float(sgd.momentum), problem.unseen
    T = np.tensordot(weights, t, 1)
    T = T if unseen is None else T + np.asarray(unseen, float)
    eta = float(sgd.lr) / gain
    one = kernel.Committee(
        K=K,
        M=M,
        L=L,
        softness=np.array(averages.softness),
        lam=np.tile(np.asarray(inputs.eigenvalues, float), n),
        weights=weights,
        t=np.moveaxis(t, 0, -1).reshape(M, M * L).copy(),
        T=T,
        v_teacher=np.array(problem.teacher.readout, float),
        eta=eta,
        eta_v=eta if sgd.readout_lr is None else float(sgd.readout_lr) / gain,
        pull=eta * float(sgd.weight_decay),
        eta_2=0.0 if options.gradient_flow else eta**2 / problem.samples_per_step,
        sigma_2=float(problem.noise) ** 2,
        train_readout=bool(problem.student.train_readout),
        fine=FINE,
    )
    parity = shared_parity(problem)
    w = np.concatenate([-v, one.v_teacher])
    C = _joint(np.tensordot(weights, r, 1)[None], np.tensordot(weights, q, 1)[None], T)
    error = max(w @ _outputs(one, C)[0] @ w / 2, 0.0)  # guides the steps only; rounding is far below the tolerance
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
    fields = overlaps @ weights
    R, Q = fields[..., K:].copy(), fields[..., :K].copy()
    errors = _errors(one, R, Q, v, parity)
    variables = {"R": R, "Q": Q, "readout": v}
    if options.keep:
        levels = np.moveaxis(overlaps, -1, 1)
        variables |= {"r": levels[..., K:].copy(), "q": levels[..., :K].copy()}
    found: Any = (variables, errors, errors + one.sigma_2 / 2, *map(np.array, (code, end, steps)), T)
    return Raw(*found)


def _errors(
    one: Any,
    R: Float[np.ndarray, "time K M"],
    Q: Float[np.ndarray, "time K K"],
    v: Float[np.ndarray, "time K"],
    parity: int | None,
) -> Float[np.ndarray, " time"]:
    """e_g at all times, as `dynamics.error.population_error`."""
    K, T, reached = one.K, one.T, np.isfinite(v[:, 0])
    R, Q, w = R[reached], Q[reached], np.concatenate([-v[reached], np.tile(one.v_teacher, (reached.sum(), 1))], 1)
    found = (w[:, None] @ _outputs(one, _joint(R, Q, T)) @ w[..., None])[:, 0, 0] / 2
    if parity is not None:
        nearest = np.argmax(np.abs(R) / np.sqrt(np.diagonal(T)), axis=2)
        sign = (
            np.where(np.take_along_axis(R, nearest[..., None], 2) < 0, -1.0, 1.0) if parity else np.ones((*nearest.shape, 1))
        )
        copy = sign * np.eye(one.M)[nearest]
        R0 = copy @ T
        Q0 = R0 @ np.swapaxes(copy, 1, 2)
        dR, dQ = R - R0, Q - Q0
        near = np.maximum(np.abs(dR).max((1, 2)), np.abs(dQ).max((1, 2))) < NEAR
        if near.any():
            R0, Q0, dR, dQ, w, copy = (x[near] for x in (R0, Q0, dR, dQ, w, copy))
            acts = copy if parity < 0 else np.abs(copy)
            left = one.v_teacher + np.einsum("tk,tkm->tm", w[:, :K], acts)
            path = np.einsum("tm,mo,to->t", left, _outputs(one, _joint(R0, Q0, T)[:1])[0, K:, K:], left) / 2
            for node, weight in zip((PATH[0] + 1) / 2, PATH[1] / 2, strict=True):
                both = _mean_update(one, _joint(R0 + node * dR, Q0 + node * dQ, T), w)
                slope = np.sum(both[..., :K] * dQ, (1, 2)) / 2 + np.sum(both[..., K:] * dR, (1, 2))
                path -= weight * slope
            found[near] = path
    errors = np.full(reached.size, np.nan)
    errors[reached] = np.maximum(found, 0.0)
    return errors


def _joint(R: np.ndarray, Q: np.ndarray, T: np.ndarray) -> Float[np.ndarray, "time n n"]:
    """The covariance of all fields, as `joint_covariance`."""
    across = np.swapaxes(R, 1, 2)
    upper = np.concatenate([(Q + np.swapaxes(Q, 1, 2)) / 2, R], 2)
    return np.concatenate([upper, np.concatenate([across, np.broadcast_to(T, (len(R), *T.shape))], 2)], 1)


def _outputs(one: Any, C: Float[np.ndarray, "time n n"]) -> Float[np.ndarray, "time n n"]:
    """E[g_a g_b]."""
    variance = np.diagonal(C, axis1=1, axis2=2)
    root = np.sqrt(variance + one.softness)
    sines = np.clip(C / (root[:, :, None] * root[:, None]), -1.0, 1.0)
    hard = one.softness == 0
    sines[:, hard, hard] = 1.0  # sign times itself, whatever rounding says
    return (2 / np.pi) * np.arcsin(sines)


def _mean_update(
    one: Any, C: Float[np.ndarray, "time n n"], w: Float[np.ndarray, "time n"]
) -> Float[np.ndarray, "time K n"]:
    """A beside B."""
    K, variance, rows = one.K, np.diagonal(C, axis1=1, axis2=2), C[:, : one.K]
    d = variance + one.softness
    slopes = (2 / np.pi) / np.sqrt(d[:, :K, None] * d[:, None] - rows**2)
    bend = -np.sum(slopes * rows * w[:, None], axis=2) / d[:, :K]
    both = slopes * w[:, None]
    both[:, np.arange(K), np.arange(K)] += bend
    return -w[:, :K, None] * both
