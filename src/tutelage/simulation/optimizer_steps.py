"""One step of the weights under an optimizer other than plain SGD, in JAX.

The equations are those of `move_weights` and `move_adapted` in numba_kernels.py. All arrays
have a last axis of runs.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax
from tutelage.simulation.numba_kernels import (
    ADAGRAD_NORM,
    ADAM,
    BIAS_RATE,
    CLIPPED,
    DECAY,
    MUON,
    PUSH,
    READOUT_RATE,
    SIGN_SGD,
    TIME,
    ParameterState,
    StepConstants,
)
from tutelage.training.optimizers.muon import inverse_root
from tutelage.training.rules import Parameters


class Adapted(NamedTuple):
    """The step of parameters, their new mean gradients and their new scales."""

    move: Array
    mean: NumpyOrJax
    scale: NumpyOrJax


def moved_weights(
    constants: StepConstants,
    rows: Float[Array, "rows N runs"],
    sums: Float[Array, "K N runs"],
    mask: Float[NumpyOrJax, "K N 1"],
    rates: Float[Array, " cols"],
) -> Float[Array, "rows N runs"]:
    """Return students w / sqrt(N), mean gradients and scales after one step.

    sums: sum_b delta_kb x_b, zero in frozen levels.
    """
    K, N, _ = sums.shape
    eta = rates[PUSH]
    students = rows[:K]
    kept = rows[K:]
    gradient = sums / constants.batch
    if constants.optimizer == SIGN_SGD:
        move = jnp.sign(sums) / N
    elif constants.optimizer == CLIPPED:
        move = jnp.clip(gradient, -constants.clip, constants.clip) / N
    elif constants.optimizer == MUON:
        products = jnp.einsum("kwr,jwr->rkj", sums, sums)
        roots = jnp.vectorize(inverse_root, signature="(k,k)->(k,k)")(products)
        move = jnp.einsum("rkj,jwr->kwr", roots, sums) / jnp.sqrt(N)
    elif constants.optimizer == ADAGRAD_NORM:
        total = jnp.sum(gradient**2, axis=(0, 1)) / N
        kept = kept + constants.gain * total
        move = gradient / (N * jnp.sqrt(kept[0, 0]))
    else:
        adapted = _adapted(constants, gradient, kept[:K], kept[-K:], rates)
        move = adapted.move / N
        kept = adapted.scale
        if constants.optimizer == ADAM:
            kept = jnp.concatenate([adapted.mean, adapted.scale])
    students = students + eta * (move - rates[DECAY] * mask * students)
    return jnp.concatenate([students, kept])


def moved_parameters(
    constants: StepConstants,
    params: ParameterState,
    forces: Parameters,
    rates: Float[Array, " cols"],
) -> ParameterState:
    """Return readout and biases after a step with the batch's mean forces.

    Under Muon and clipped coordinates they follow plain SGD instead.
    """
    if constants.train_readout:
        moved = _parameter_step(
            constants,
            forces.readout,
            params.readout_momentum,
            params.readout_scale,
            rates,
        )
        rate = rates[READOUT_RATE] / constants.dim
        params = params._replace(
            readout=params.readout + rate * moved.move,
            readout_momentum=moved.mean,
            readout_scale=moved.scale,
        )
    if constants.train_bias:
        assert forces.bias is not None
        moved = _parameter_step(
            constants, forces.bias, params.bias_momentum, params.bias_scale, rates
        )
        rate = rates[BIAS_RATE] / constants.dim
        params = params._replace(
            bias=params.bias + rate * moved.move,
            bias_momentum=moved.mean,
            bias_scale=moved.scale,
        )
    return params


def _parameter_step(
    constants: StepConstants,
    force: Array,
    mean: NumpyOrJax,
    scale: NumpyOrJax,
    rates: Float[Array, " cols"],
) -> Adapted:
    """Return the change of one kind of parameters and their new scales."""
    mean = jnp.asarray(mean)
    scale = jnp.asarray(scale)
    if constants.optimizer == SIGN_SGD:
        return Adapted(move=jnp.sign(force), mean=mean, scale=scale)
    return _adapted(constants, force, mean, scale, rates)


def _adapted(
    constants: StepConstants,
    gradient: Array,
    mean: NumpyOrJax,
    scale: NumpyOrJax,
    rates: Float[Array, " cols"],
) -> Adapted:
    """Return the step by a gradient over the root of its scale."""
    of_mean = 1.0
    of_scale = 1.0
    mean_gradient = gradient
    if constants.optimizer == ADAM:
        count = jnp.round(rates[TIME] * constants.dim) + 1.0
        of_mean = 1.0 / (1.0 - constants.beta1**count)
        of_scale = -1.0 / jnp.expm1(count * jnp.log1p(-constants.forget))
        mean_gradient = constants.beta1 * mean + (1.0 - constants.beta1) * gradient
    scale = scale + constants.gain * gradient**2 - constants.forget * scale
    used = of_scale * scale
    moves = used > 0
    root = jnp.sqrt(jnp.where(moves, used, 1.0))
    move = jnp.where(moves, of_mean * mean_gradient / root, 0.0)
    return Adapted(move=move, mean=mean_gradient, scale=scale)
