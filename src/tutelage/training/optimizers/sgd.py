"""Stochastic gradient descent, its momentum and its clipping."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Part
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.training.optimizers.base import (
    Optimizer,
    rate_field,
    require_positive_rate,
)
from tutelage.training.optimizers.changed_rule import ChangedRule
from tutelage.training.rules import Context, Parameters, Rule, Sample, Update

SQRT_HALF = 0.5**0.5
ROOT = (2.0 / np.pi) ** 0.5
FAR = 40.0  # deviations of a Gaussian number, beyond which there is nothing


class SlowMomentum(Part):
    """Momentum that forgets on the time scale of learning: 1 - beta = gamma / N.

        Om <- (1 - gamma/N) Om + (k / sqrt(N)) delta x,    w <- w + Om / N

    A fixed beta is simply `momentum=beta`: in the limit, plain SGD with eta / (1 - beta).

    Parameters
    ----------
    gamma : float
        The rate of forgetting.
    k : float or schedule, optional
        Strength of the force. Default: gamma * lr, which tends to plain SGD as gamma
        grows. With k given, lr moves only the readout and the biases.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5, momentum=tu.SlowMomentum(gamma=2.0))
    SGD(lr=0.5, momentum=SlowMomentum(gamma=2))
    """

    gamma: ArrayLike = checks.number_field("gamma", checks.require_positive)
    k: Any = rate_field("k", require_positive_rate, optional=True, default=None)


def _as_momentum(momentum: ArrayLike | SlowMomentum) -> Any:
    """Convert `momentum`: a fixed beta in [0, 1), or a `SlowMomentum`."""
    if isinstance(momentum, SlowMomentum):
        return momentum
    beta = checks.as_number("momentum", momentum, checks.require_nonnegative)
    if not checks.is_traced(beta) and beta >= 1:
        raise InputError(
            f"momentum is {float(beta):g}; it must be below 1. "
            "Try 0.9 or SlowMomentum(gamma)."
        )
    return beta


class ClippedRule(ChangedRule):
    """A rule whose update of the vectors is at most `clip` long: delta min(1, clip/|delta|).

    |delta| is the norm over all hidden units. Biases follow the clipped delta; the
    readout is not clipped.
    """

    clip: ArrayLike

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        update = self.rule.update(sample, parameters, context)
        factor = self._factor(update.delta)
        changes = update.parameters
        if changes.bias is not None:
            changes = replace(changes, bias=changes.bias * jnp.squeeze(factor, -1))
        return replace(update, delta=update.delta * factor, parameters=changes)

    def _factor(self, delta: Float[Array, "*S K"]) -> Float[Array, "*S 1"]:
        """Return the factor by which the update is shortened."""
        squared = jnp.sum(delta**2, axis=-1, keepdims=True)
        is_long = squared > jnp.asarray(self.clip) ** 2
        # inside, the root would have no derivative at zero
        norm = jnp.sqrt(jnp.where(is_long, squared, 1.0))
        return jnp.where(is_long, self.clip / norm, 1.0)


class SGD(Optimizer):
    """Stochastic gradient descent in one pass over fresh batches.

    One step, with Delta = y - yhat, fields lambda_k = w_k . x / sqrt(N) + b_k, and means
    over the batch:

        w_k += (eta / sqrt(N)) mean[ Delta v_k g'(lambda_k) x ] - (eta kappa / N) w_k
        v_k += (eta_v / N) mean[ Delta g(lambda_k) ]
        b_k += (eta_b / N) mean[ Delta v_k g'(lambda_k) ]

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples averaged per step.
    weight_decay : float or schedule
        kappa, of the first layer.
    readout_lr, bias_lr : float or schedule, optional
        eta_v and eta_b. Default: lr.
    trainable : list or mask, optional
        Indices of the levels that learn, or a mask of shape (L,) or (K, L); the rest is
        frozen. Default: all learn.
    momentum : float or SlowMomentum
        A fixed beta in [0, 1), or `SlowMomentum`.
    spherical : bool
        Rescale each student vector to its initial norm after every step.
    clip : float, optional
        The longest update of a sample, sqrt(sum_k delta_k^2) over all hidden units. It
        needs batch=1.
    clip_coordinates : float, optional
        The largest update of a coordinate, |delta_k x_i|. It needs batch=1.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5)
    SGD(lr=0.5)
    >>> decay = tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0)
    >>> tu.SGD(lr=decay, batch=4, weight_decay=1e-3)
    SGD(lr=PowerDecay(initial=0.5, timescale=50), batch=4, weight_decay=0.001)
    """

    kind: ClassVar[str] = "sgd"
    on_stream: ClassVar[bool] = True

    momentum: Any = eqx.field(converter=_as_momentum, default=0.0, kw_only=True)
    spherical: bool = eqx.field(
        static=True,
        converter=partial(checks.as_flag, "spherical"),
        default=False,
        kw_only=True,
    )
    clip: Any = checks.number_field(
        "clip", checks.require_positive, optional=True, default=None, kw_only=True
    )
    clip_coordinates: Any = checks.number_field(
        "clip_coordinates",
        checks.require_positive,
        optional=True,
        default=None,
        kw_only=True,
    )

    def __check_init__(self) -> None:
        if self.spherical and self.slow_momentum is not None:
            raise InputError(
                "spherical is True and momentum is a SlowMomentum; "
                "they contradict each other. Drop one."
            )
        decay = self.weight_decay
        decays = callable(decay) or (not checks.is_traced(decay) and decay > 0)
        if self.spherical and decays:
            raise InputError(
                f"weight_decay is {checks.shown(decay)} and spherical is True; "
                "a held norm cannot decay."
            )
        self._check_clipping()

    @property
    def slow_momentum(self) -> SlowMomentum | None:
        """The `SlowMomentum`, or None."""
        return self.momentum if isinstance(self.momentum, SlowMomentum) else None

    def _check_clipping(self) -> None:
        """Refuse options that do not go with clipping."""
        if self.clip is not None and self.clip_coordinates is not None:
            raise InputError(
                "clip and clip_coordinates are both given; "
                "the theory has either of them. Leave one out."
            )
        is_traced = checks.is_traced(self.batch)
        if self.clip is not None and not is_traced and self.batch > 1:
            raise InputError(
                f"clip is {checks.shown(self.clip)} and batch is {self.batch}; "
                "the norm of single samples is clipped. Use batch=1, or "
                "clip_coordinates."
            )
        if self.clip_coordinates is None:
            return
        if not is_traced and self.batch > 1:
            raise InputError(
                f"clip_coordinates is {checks.shown(self.clip_coordinates)} and batch is "
                f"{self.batch}; coordinates are clipped sample by sample. Use batch=1."
            )
        if self.has_momentum:
            raise InputError(
                "clip_coordinates and momentum are both given; their equations do not "
                "close. Use momentum=0."
            )
        if self.spherical:
            raise InputError(
                "clip_coordinates and spherical=True are both given; "
                "their equations do not close. Use spherical=False."
            )

    @property
    def steps(self) -> str:
        """Return the name of its steps in the loops of simulations."""
        return "plain" if self.clip_coordinates is None else "clipped"

    @property
    def lag(self) -> float:
        """Return 1 / (1 - beta); 0 for a momentum that is part of the theory."""
        if isinstance(self.momentum, SlowMomentum):
            return 0.0
        return 1.0 / (1.0 - float(self.momentum))

    def sample_rule(self, rule: Rule) -> Rule:
        if self.clip is None:
            return rule
        return ClippedRule(rule, self.clip)

    @property
    def averages_batches(self) -> bool:
        return self.clip_coordinates is not None

    def responses(
        self, delta: Float[Array, "1 K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "L 1 K"]:
        """Return E[x clip(delta x)] over x of variance lam: lam delta erf(t / sqrt 2).

        t = clip / (sqrt(lam) |delta|). The eigenvalue is included.
        """
        lam = eigenvalues[:, None, None]
        return lam * delta * erf(self._thresholds(delta, eigenvalues) * SQRT_HALF)

    def step_covariance(
        self, delta: Float[Array, "1 K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "L K K"]:
        """Return E[clip(delta_i x) clip(delta_j x)] over x of variance lam.

        With a >= b the sizes sqrt(lam) |delta| and s <= t their thresholds it is
            a b (erf(s / sqrt 2) - sqrt(2 / pi) s e^(-s^2 / 2))
            + c b sqrt(2 / pi) (e^(-s^2 / 2) - e^(-t^2 / 2)) + c^2 erfc(t / sqrt 2).
        """
        clip = jnp.asarray(self.clip_coordinates)
        size = jnp.sqrt(eigenvalues)[:, None] * jnp.abs(delta[0])
        threshold = self._thresholds(delta, eigenvalues)[:, 0]
        larger = jnp.maximum(size[:, :, None], size[:, None])
        smaller = jnp.minimum(size[:, :, None], size[:, None])
        s = jnp.minimum(threshold[:, :, None], threshold[:, None])
        t = jnp.maximum(threshold[:, :, None], threshold[:, None])
        tail_s = jnp.exp(-(s**2) / 2)
        tail_t = jnp.exp(-(t**2) / 2)
        both_inside = larger * smaller * (erf(s * SQRT_HALF) - ROOT * s * tail_s)
        one_inside = clip * smaller * ROOT * (tail_s - tail_t)
        both_clipped = clip**2 * (1.0 - erf(t * SQRT_HALF))
        signs = jnp.sign(delta[0])
        return signs[:, None] * signs * (both_inside + one_inside + both_clipped)

    def _thresholds(
        self, delta: Float[Array, "1 K"], eigenvalues: Float[Array, " L"]
    ) -> Float[Array, "L 1 K"]:
        """Return t = clip / (sqrt(lam) |delta|), a large number where nothing is clipped."""
        size = jnp.sqrt(eigenvalues)[:, None, None] * jnp.abs(delta)
        smallest = self.clip_coordinates / FAR
        return self.clip_coordinates / jnp.maximum(size, smallest)
