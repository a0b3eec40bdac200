"""One step of real weights at finite N, many times from the same start: what the limit replaces by a drift.

Weights W (K, N) and W* (M, N) with exactly the start's overlaps, in a random frame of each eigenspace; one step of SGD on
fresh inputs of a chosen law, from these weights every time. With the fields x_l = P_l (w, w*).x / sqrt(N) of each level, the
force delta_ks = Delta_s v_k g'(lambda_ks), n_l dimensions in level l and the batch s = 1..B, exactly:
    N dr_l = eta mean_s[delta_k rho_l] N/n_l - eta kappa r_l
    N dq_l = (1 - eta kappa/N) eta mean_s[delta_i lambda_kl + delta_k lambda_il] N/n_l - (2 eta kappa - (eta kappa)^2/N) q_l
             + (eta/B)^2 sum_ss' delta_is delta_ks' x_s.P_l x_s' / n_l
    N dv = eta_v mean_s[Delta g],    N db = eta_b mean_s[delta]
"""

import itertools
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.error import field_means
from tutelage.problem import Problem, SlowMomentum, Start
from tutelage.problem.arguments import require_problem
from tutelage.problem.sample import label_of, normals_needed, update_of
from tutelage.rules import Context, Parameters, Update
from tutelage.simulation.coordinates import in_random_frames, level_coordinates
from tutelage.simulation.sources import FILL, LAWS

BLOCK = 2**19  # numbers drawn at a time


@dataclass(frozen=True)
class Steps:
    """increments: N times the change of the flat coordinates, (count, size). fields: by level, (count, batch, L, K + M).

    noise: standard normal numbers that labels and rule are made from, (count, batch, D).
    """

    increments: np.ndarray
    fields: np.ndarray
    noise: np.ndarray


def take_steps(problem: Problem, start: Start, dim: int, count: int, inputs: str = "gaussian", seed: int = 0) -> Steps:
    """`count` single steps of a network with N = `dim` inputs, each from the start."""
    dims, batch = problem.inputs.level_dims(dim), problem.sgd.batch
    frame, drawn, labels = np.random.default_rng(seed).spawn(3)
    vectors = in_random_frames(level_coordinates(problem, start, dims), dims, frame)
    vectors = np.roll(vectors, -problem.teacher.hidden, axis=0)  # students first
    fields, grams = [], []
    for rows in _inputs(problem, dims, count, inputs, drawn):
        edges = itertools.pairwise(np.concatenate([[0], np.cumsum(dims)]))
        levels = [(rows[..., i:j], vectors[:, i:j]) for i, j in edges]
        fields.append(np.stack([x @ v.T for x, v in levels], axis=-2) / np.sqrt(dim))
        grams.append(np.stack([x @ np.swapaxes(x, -1, -2) / x.shape[-1] for x, _ in levels], axis=1))
    noise = labels.standard_normal((count, batch, normals_needed(problem)))
    every = np.concatenate(fields)
    return Steps(_increments(problem, start, dims, every, np.concatenate(grams), noise), every, noise)


def _inputs(problem: Problem, dims: np.ndarray, count: int, law: str, rng: np.random.Generator) -> Any:
    """Inputs in eigencoordinates, a few steps' batches at a time: (steps, batch, N)."""
    dim, batch = int(dims.sum()), problem.sgd.batch
    scale = np.sqrt(np.repeat(np.asarray(problem.inputs.eigenvalues, dtype=float), dims))
    together = max(1, BLOCK // (dim * batch))
    for first in range(0, count, together):
        rows = np.empty((min(together, count - first) * batch, dim))
        FILL[law](rng, rows)
        yield (rows * scale).reshape(-1, batch, dim)


def _increments(
    problem: Problem, start: Start, dims: np.ndarray, fields: np.ndarray, grams: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """The exact step from fields (count, B, L, n), inner products of inputs (count, L, B, B) and label noise (count, B)."""
    state, t = initial_overlaps(problem, start)
    r, q, v = (np.asarray(x) for x in (state.r, state.q, state.readout))
    system = OrderParameters(problem, t)
    eta, eta_v, eta_b = (float(x) for x in system.rates(jnp.zeros(())))
    context = system.context(jnp.zeros(()), *system.covariances(state))
    K, dim, batch, kappa = problem.student.hidden, int(dims.sum()), problem.sgd.batch, float(problem.sgd.weight_decay)
    force, output = _response(problem, state.bias, v, fields.sum(axis=2), noise, context)
    share = (dim / dims)[:, None, None] * eta / batch
    dr = share * np.einsum("csk,cslm->clkm", force, fields[..., K:]) - eta * kappa * r
    half = share * np.einsum("csi,cslk->clik", force, fields[..., :K])
    kicks = (eta / batch) ** 2 * np.einsum("csi,clsz,czk->clik", force, grams, force, optimize=True)
    decay = (2 - eta * kappa / dim) * eta * kappa * q
    dq = (1 - eta * kappa / dim) * (half + np.swapaxes(half, 2, 3)) - decay + kicks
    dv = eta_v * float(problem.student.train_readout) * output.mean(axis=1)
    parts = [dr, dq[:, :, *np.triu_indices(K)], dv]
    if state.bias is not None:
        parts.append(eta_b * float(problem.student.train_bias) * force.mean(axis=1))
    return np.concatenate([part.reshape(len(dr), -1) for part in parts], axis=1)


def _response(
    problem: Problem, bias: Any, v: np.ndarray, fields: np.ndarray, noise: np.ndarray, context: Context
) -> tuple[np.ndarray, np.ndarray]:
    """delta_k, and what moves the readout, of every sample, (count, B, ...)."""
    K, mean = problem.student.hidden, field_means(problem, bias)
    fields = fields if mean is None else fields + np.asarray(mean)
    student, teacher = (jnp.asarray(x) for x in (fields[..., :K], fields[..., K:]))
    parameters = Parameters(jnp.asarray(v), None if bias is None else jnp.asarray(bias))
    update = _updates(problem, student, teacher, jnp.asarray(noise), parameters, context)
    return np.asarray(update.delta), np.asarray(update.parameters.readout)


@eqx.filter_jit
def _updates(
    problem: Problem, student: Array, teacher: Array, normals: Array, parameters: Parameters, context: Context
) -> Update:
    """The update of every sample, arrays (count, B, ...)."""

    def one(student: Array, teacher: Array, normals: Array) -> Update:
        label = label_of(problem, teacher, normals)
        return update_of(problem, student, teacher, label, normals, parameters, context)

    return jax.vmap(jax.vmap(one))(student, teacher, normals)


def require_free_steps(problem: Any, inputs: Any, verb: str) -> None:
    """Refuse what one step from rest does not show, and laws of inputs that do not exist."""
    sgd = require_problem(problem, verb, needs=()).sgd
    if isinstance(sgd.momentum, SlowMomentum) or float(sgd.momentum) != 0.0:
        raise InputError("the problem has momentum, of which one step from rest shows nothing; use momentum=0.")
    for name, given in (("spherical", sgd.spherical), ("trainable", sgd.trainable is not None)):
        if given:
            raise InputError(f"{name} is set; single steps are measured for weights that move freely. Leave it out.")
    checks.known("inputs", inputs, LAWS)
