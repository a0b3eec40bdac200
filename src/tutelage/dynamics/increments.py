"""One step of the finite network, sampled: N times the change of the overlaps.

Fields of each level are drawn with that level's covariance; Delta and delta_k = Delta v_k g'(lambda_k) follow, and with them
    N dr_l = eta delta_k rho_ml / p_l,
    N dq_l = eta (delta_i lambda_kl + delta_k lambda_il) / p_l + eta^2 lam_l delta_i delta_k,
    N dv   = eta_v Delta g(lambda_k).
Their mean is the drift and their covariance, divided by N, the diffusion: what the limit drops.
"""

import jax
import jax.numpy as jnp

from tutelage._types import Array
from tutelage.dynamics.error import field_means
from tutelage.dynamics.linearised import flatten
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.overlaps import Overlaps


def sample_increments(system: OrderParameters, t: Array, state: Overlaps, key: Array, count: int) -> Array:
    """`count` samples of N times the increments of one step (batch 1), in flat coordinates: (count, size)."""
    problem = system.problem
    K, M = problem.student.hidden, problem.teacher.hidden
    lam, p = jnp.asarray(problem.inputs.eigenvalues), jnp.asarray(problem.inputs.fractions)
    key, noise_key = jax.random.split(key)
    joint = jnp.concatenate(
        [
            jnp.concatenate([state.q, state.r], axis=2),
            jnp.concatenate([jnp.swapaxes(state.r, 1, 2), system.t], axis=2),
        ],
        axis=1,
    )
    values, vectors = jnp.linalg.eigh(joint)
    roots = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
    normals = jax.random.normal(key, (count, lam.shape[0], K + M))
    parts = jnp.einsum("lab,clb->cla", roots, normals) * jnp.sqrt(p * lam)[:, None]  # fields by level
    fields = parts.sum(axis=1)
    mean = field_means(problem, state.bias)
    fields = fields if mean is None else fields + mean
    g, slope = problem.student.activation(fields[:, :K]), problem.student.activation.slope(fields[:, :K])
    labels = problem.teacher.activation(fields[:, K:]) @ jnp.asarray(problem.teacher.readout)
    delta = labels + problem.noise * jax.random.normal(noise_key, (count,)) - g @ state.readout
    force = delta[:, None] * state.readout * slope
    eta, eta_v, eta_b = system.rates(t)
    dr = eta * jnp.einsum("ck,clm->clkm", force, parts[..., K:]) / p[:, None, None]
    fq = eta * jnp.einsum("ci,clk->clik", force, parts[..., :K]) / p[:, None, None]
    dq = fq + jnp.swapaxes(fq, 2, 3) + eta**2 * lam[:, None, None] * jnp.einsum("ci,ck->cik", force, force)[:, None]
    trained = problem.student.train_readout
    dv = eta_v * delta[:, None] * g if trained else jnp.zeros_like(g)
    db = None if state.bias is None else eta_b * force * float(problem.student.train_bias)
    return jax.vmap(flatten)(Overlaps(dr, dq, dv, db, None))
