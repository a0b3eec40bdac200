"""Sign-SGD: every coordinate moves by the same amount, in the direction of its gradient."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array
from tutelage.training.optimizers.base import Optimizer, as_static_batch
from tutelage.training.optimizers.changed_rule import ChangedRule
from tutelage.training.rules import Context, Parameters, Rule, Sample, Update

LARGEST_COSINE = 1.0 - 1e-15  # between the updates of two units


class SignedRule(ChangedRule):
    """A rule of which only the signs of its updates remain; 0 stays 0."""

    @property
    def jumps(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return True

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        update = self.rule.update(sample, parameters, context)
        return Update(
            delta=jnp.sign(update.delta),
            parameters=jax.tree.map(jnp.sign, update.parameters),
            loss=update.loss,
        )


class SignSGD(Optimizer):
    """Sign-SGD: each parameter moves in the direction of its gradient, by a fixed amount.

        w_ki += (eta / sqrt(N)) sign(sum_b delta_kb x_bi) - (eta kappa / N) w_ki
        v_k += (eta_v / N) sign(sum_b h_kb),    b_k += (eta_b / N) sign(sum_b delta_kb)

    A sum of zero moves nothing. The coordinates i are the eigenvectors of the inputs.
    The theory holds for weights and teachers that are spread over all coordinates.

    With batch=1, squared loss, a monotone activation and positive readouts all hidden
    units receive the same update: w_1 - w_2 is conserved and nothing specializes. Any
    larger batch breaks this.

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples in the sum of a step.
    weight_decay, readout_lr, bias_lr, trainable
        As in `SGD`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.optimizers.SignSGD(0.3, batch=4)
    SignSGD(lr=0.3, batch=4)
    """

    kind: ClassVar[str] = "sign_sgd"
    on_stream: ClassVar[bool] = True
    fixed_batch: ClassVar[bool] = True

    # the theory averages over batches of this size: a number of the program
    batch: int = eqx.field(static=True, converter=as_static_batch, default=1)

    def averaged_rule(self, rule: Rule) -> Rule:
        """Return the signs of single samples, where a step has one."""
        if self.batch > 1:
            return rule
        return SignedRule(rule)

    @property
    def averages_batches(self) -> bool:
        return self.batch > 1

    @property
    def takes_signs_of_samples(self) -> bool:
        return self.batch == 1

    def responses(
        self, delta: Float[Array, "B K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "1 B K"]:
        """Return delta_bk / |delta_k|, with the norm over the batch."""
        return directions(delta)[None]

    def step_covariance(
        self, delta: Float[Array, "B K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "1 K K"]:
        """Return (2 / pi) arcsin of the cosine of delta_i and delta_j over the batch.

        It is the mean product of the signs of two correlated Gaussian numbers.
        """
        unit = directions(delta)
        # the slope of arcsin is infinite at one, where equal units are
        cosines = jnp.clip(unit.T @ unit, -LARGEST_COSINE, LARGEST_COSINE)
        moves = jnp.sum(unit**2, axis=0)
        products = 2.0 / jnp.pi * jnp.arcsin(cosines)
        same = jnp.eye(delta.shape[1], dtype=bool)
        return jnp.where(same, moves, products)[None]

    def of_parameters(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.sign(mean)


def directions(delta: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """Return delta_bk / |delta_k|; zero where all updates are zero."""
    squared = jnp.sum(delta**2, axis=0)
    moves = squared > 0
    return jnp.where(moves, delta / jnp.sqrt(jnp.where(moves, squared, 1.0)), 0.0)
