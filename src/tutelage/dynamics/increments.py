"""One step of the finite network: N times the change of the overlaps, as a function of the sample it sees.

The fields of each level, x_l = (lambda_l, rho_l), are Gaussian with that level's covariance; Delta and delta_k = Delta v_k
g'(lambda_k) follow from their sum, and with them a sample's share of a step with batch B,
    N dr_l = eta delta_k rho_ml / p_l,
    N dq_l = eta (delta_i lambda_kl + delta_k lambda_il) / p_l + (eta^2 / B) lam_l delta_i delta_k,
    N dv   = eta_v Delta g(lambda_k),    N db = eta_b delta_k.
A step is the mean of the shares of its B samples: what two samples do to q together, (eta/B)^2 x.x' delta_i delta'_k / N,
is smaller by N^(-1/2), for x.x' is of order sqrt(N). So the mean share is the drift (but for weight decay, which is the same
for all samples and left out) and Cov(share) / B the diffusion D (diffusion.py). Frozen parts lose their force, spherical
weights are pulled back as in the drift, a fixed momentum divides every rate by 1 - beta.
"""

import jax
import jax.numpy as jnp

from tutelage._types import Array
from tutelage.dynamics.error import field_means
from tutelage.dynamics.linearized import flatten
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.overlaps import Overlaps, joint_covariance
from tutelage.problem.sample import label_of, normals_needed, update_of
from tutelage.rules import Parameters


def sample_increments(system: OrderParameters, t: Array, state: Overlaps, key: Array, count: int) -> Array:
    """`count` samples' shares of a step, in flat coordinates: (count, size)."""
    covariances = level_covariances(system, state)
    values, vectors = jnp.linalg.eigh(covariances)
    roots = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
    key, noise_key = jax.random.split(key)
    normals = jax.random.normal(key, (count, *covariances.shape[:2]))
    parts = jnp.einsum("lab,clb->cla", roots, normals)
    return shares(system, t, state, parts, jax.random.normal(noise_key, (count, normals_needed(system.problem))))


def level_covariances(system: OrderParameters, state: Overlaps) -> Array:
    """Covariance of the fields of each level, (L, n, n)."""
    joint = jax.vmap(joint_covariance)(state.r, state.q, system.t)
    return jnp.asarray(system.problem.inputs.weights)[:, None, None] * joint


def shares(system: OrderParameters, t: Array, state: Overlaps, parts: Array, noise: Array) -> Array:
    """Shares in a step of samples with these fields by level (count, L, n) and these normals for their draws (count, D)."""

    def one(parts: Array, normals: Array) -> Array:
        force, readout = response(system, t, state, parts, normals)
        moved = jnp.einsum("k,la->lka", force, parts)
        return assemble(system, t, state, moved, jnp.outer(force, force), readout, force)

    return jax.vmap(one)(parts, noise)


def response(system: OrderParameters, t: Array, state: Overlaps, parts: Array, normals: Array) -> tuple[Array, Array]:
    """delta_k, and what moves the readout, of one sample with fields (L, n) by level."""
    problem, fields = system.problem, parts.sum(axis=0)
    mean, K = field_means(problem, state.bias), problem.student.hidden
    fields = fields if mean is None else fields + mean
    label = label_of(problem, fields[K:], normals)
    context = system.context(t, *system.covariances(state))
    parameters = Parameters(state.readout, state.bias)
    update = update_of(problem, fields[:K], fields[K:], label, normals, parameters, context)
    return update.delta, update.parameters.readout


def assemble(
    system: OrderParameters, t: Array, state: Overlaps, moved: Array, pairs: Array, readout: Array, bias: Array
) -> Array:
    """The share in flat coordinates, linear in delta_k x_la (L, K, n), delta_i delta_k (K, K), Delta g and delta (K,)."""
    problem, (eta, eta_v, eta_b) = system.problem, system.rates(t)
    student, inputs, K = problem.student, problem.inputs, problem.student.hidden
    lam, p = (jnp.asarray(x)[:, None, None] for x in (inputs.eigenvalues, inputs.fractions))
    mask = problem.trainable_mask()
    if mask is not None:
        mask = jnp.asarray(mask)
        moved, pairs = mask[:, :, None] * moved, mask[:, :, None] * pairs * mask[:, None, :]
    dr, half = eta * moved[..., K:] / p, eta * moved[..., :K] / p
    kicks = 0.0 if system.gradient_flow else eta**2 / problem.sgd.batch * lam * pairs
    dq = half + jnp.swapaxes(half, 1, 2) + kicks
    dr, dq = system.onto_sphere(state, dr, dq) if problem.sgd.spherical else (dr, dq)
    dv = eta_v * float(student.train_readout) * readout
    db = None if state.bias is None else eta_b * float(student.train_bias) * bias
    return flatten(Overlaps(dr, dq, dv, db, None))
