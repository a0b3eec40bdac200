"""Stochastic gradient descent on the problem's loss: the rule that `Problem` uses by default."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array
from tutelage.rules.base import Context, Elementwise, Label, Parameters, Rule, Sample, Update


class Gradient(Rule):
    """delta_k = psi . v_k g'(lambda_k) and h = psi g(lambda), psi = -d loss / d output: backpropagation.

    >>> import tutelage as tu
    >>> tu.rules.Gradient()
    Gradient()
    """

    jumps: ClassVar[bool] = False  # loss and activation decide
    gradient: ClassVar[bool] = True

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        v, activation = parameters.readout, context.student.activation
        g, slope = jax.jvp(activation, (sample.student,), (jnp.ones_like(sample.student),))
        output = v @ g
        psi = context.loss.descent(output, sample.label)
        delta = jnp.tensordot(psi, v, axes=min(jnp.ndim(psi), 1)) * slope
        readout = psi * g if jnp.ndim(psi) == 0 else jnp.outer(psi, g)
        return self.result(delta, parameters, readout, context.loss(output, sample.label))

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        """Where the activation breaks; and where the loss does, if a single unit is linear (or ReLU) in its field."""
        activation = context.student.activation
        kinks = tuple(jnp.asarray(x) for x in activation.breaks)
        if np.size(parameters.readout) != 1 or not is_proportional(activation):
            return kinks
        v = jnp.reshape(parameters.readout, ())
        v = jnp.where(jnp.abs(v) > 1e-12, v, 1e-12)
        return (*kinks, *(at / v for at in context.loss.breaks(label)))


def is_proportional(activation: Elementwise) -> bool:
    """Is the output proportional to the field (on one side of zero, for ReLU)?"""
    return activation.polynomial == (0.0, 1.0) or getattr(activation, "function", None) is jax.nn.relu
