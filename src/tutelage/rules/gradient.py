"""Stochastic gradient descent on the problem's loss, the rule that `Problem` uses by default, and its variants.

Backpropagation sends back psi = -d loss / d output. Feedback alignment sends it through fixed random weights instead of the
readout, dropout through the units that are kept for this sample. Reuse takes several steps on each sample. Node perturbation
sends nothing back: it measures how noise in the hidden fields changes the loss.
"""

from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, ArrayLike, NumpyOrJax, Schedule
from tutelage.randomness import Discrete, Law, Normal, PerUnit
from tutelage.rules.base import Context, Elementwise, Label, Parameters, Readout, Rule, Sample, Update


class Gradient(Rule):
    """delta_k = psi . v_k g'(lambda_k) and h = psi g(lambda), psi = -d loss / d output: backpropagation.

    >>> import tutelage as tu
    >>> tu.rules.Gradient()
    Gradient()
    """

    jumps: ClassVar[bool] = False  # loss and activation decide
    uses_loss: ClassVar[bool] = True

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        return self.result(*_sent_back(sample, parameters, context, parameters.readout))

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        """Where the activation breaks; and where the loss does, if a single unit is linear (or ReLU) in its field."""
        activation = context.student.activation
        kinks = tuple(jnp.asarray(x) for x in activation.breaks)
        if np.size(parameters.readout) != 1 or not is_proportional(activation):
            return kinks
        v = jnp.reshape(parameters.readout, ())
        v = jnp.where(jnp.abs(v) > 1e-12, v, 1e-12)
        return (*kinks, *(at / v for at in context.loss.breaks(label)))


class FeedbackAlignment(Gradient):
    """delta_k = psi . f_k g'(lambda_k): the error returns through fixed weights f, not through the readout.

    The readout learns as in backpropagation, h = psi g(lambda) (direct feedback alignment). feedback: f, one number for all
    units, or an array with the shape of the readout, (K,) or (outputs, K). strength: a factor of it, a number or a schedule.
    `trajectory.alignment` is the cosine between
    readout and feedback.

    >>> import tutelage as tu
    >>> tu.rules.FeedbackAlignment([1.0, 0.5])
    FeedbackAlignment(feedback=[1.0, 0.5])
    """

    feedback: ArrayLike = eqx.field(converter=lambda x: checks.as_array("feedback", x), default=1.0)
    strength: Any = checks.number_field("strength", checks.require_nonnegative, schedule=True, default=1.0)

    def __check_init__(self) -> None:
        checks.require_finite("feedback", self.feedback)

    def for_readout(self, readout: ArrayLike, time: ArrayLike) -> Readout:
        """The feedback at this time, in the shape of the readout."""
        return jnp.broadcast_to(_at(self.strength, time) * jnp.asarray(self.feedback), jnp.shape(readout))

    def schedules(self) -> dict[str, Schedule]:
        return {"strength": cast(Schedule, self.strength)} if callable(self.strength) else {}

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        return np.atleast_2d(np.broadcast_to(np.asarray(self.feedback), np.shape(readout)))

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        return self.result(*_sent_back(sample, parameters, context, self.for_readout(parameters.readout, context.time)))


class Dropout(Gradient):
    """Backpropagation through hidden units that are kept with probability `keep`, independently at each sample.

    A kept unit's output is divided by keep, m_k = 1 / keep, else m_k = 0: output = sum_k v_k m_k g(lambda_k). `error` and
    `loss` of a trajectory are those of the network without mask. keep: a number in (0, 1], or a schedule of time.

    >>> import tutelage as tu
    >>> tu.rules.Dropout(keep=0.8)
    Dropout(keep=0.8)
    """

    keep: Any = checks.number_field("keep", checks.require_positive, checks.require_probability, schedule=True, default=0.5)

    def keep_at(self, time: ArrayLike) -> Float[Array, ""]:
        """The probability that a unit is kept, at this time."""
        return _at(self.keep, time)

    def randomness(self, time: ArrayLike) -> Law:
        keep = self.keep_at(time)
        return PerUnit(Discrete(jnp.stack([jnp.zeros(()), 1 / keep]), jnp.stack([1 - keep, keep])))

    def schedules(self) -> dict[str, Schedule]:
        return {"keep": cast(Schedule, self.keep)} if callable(self.keep) else {}

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        return self.result(*_sent_back(sample, parameters, context, parameters.readout, sample.xi))

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        kept = Parameters(parameters.readout / self.keep_at(context.time), parameters.bias)
        return super().breaks(label, kept, context)


class Reuse(Gradient):
    """Backpropagation that uses each sample `times` in a row: so many steps on one sample before the next one.

    A step moves the field that the next one sees, lambda_k <- lambda_k + eta (|x|^2 / N) delta_k; |x|^2 / N is the trace of
    the input covariance divided by N in the limit, and the actual length in simulations. The sample moves the vectors by the
    sum of all delta, once. So do readout and biases with their sums: within one sample they would move by 1/N only, and the
    sums by 1/N of themselves. Weight decay acts, and spherical weights are rescaled, once per sample. Time counts samples.
    It needs batch=1 and no momentum.

    >>> import tutelage as tu
    >>> tu.rules.Reuse(times=3)
    Reuse(times=3)
    """

    uses_norm: ClassVar[bool] = True
    times: int = eqx.field(static=True, converter=lambda x: checks.as_count("times", x), default=2)

    @property
    def moves_fields(self) -> bool:
        return self.times > 1

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        v = parameters.readout

        def use(carry: tuple[Array, Array, Array], at: None) -> tuple[tuple[Array, Array, Array], Array]:
            fields, total, readout = carry
            seen = Sample(fields, sample.reference, sample.label)
            delta, _, h, loss = _sent_back(seen, parameters, context, v)
            moved = jnp.asarray(fields + context.lr * sample.norm2 * delta)
            return (moved, total + delta, readout + h), loss

        begin = sample.student, jnp.zeros_like(sample.student), jnp.zeros_like(v)
        (_, delta, readout), losses = jax.lax.scan(use, begin, length=self.times, unroll=self.times <= UNROLLED)
        return self.result(delta, parameters, readout, losses[0])

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        return () if self.moves_fields else super().breaks(label, parameters, context)


class NodePerturbation(Gradient):
    """Learning from the change of the loss under noise in the hidden fields, without any backward pass.

        delta_k = -(loss(lambda + scale xi) - loss(lambda)) xi_k / scale,    xi_k standard normal, one for each hidden unit
    The readout, whose input is at hand, follows its gradient at the unperturbed fields. The mean update is that of the loss
    smoothed over the noise: (A, B) are those of backpropagation at Q + scale^2 1. As scale -> 0 the mean is the gradient, and
    G becomes 2 G + tr(G) 1 (fourth moments of xi): the variance of the update grows with the number of units. `error` and
    `loss` of a trajectory are those without noise.

    >>> import tutelage as tu
    >>> tu.rules.NodePerturbation(scale=0.2)
    NodePerturbation(scale=0.2)
    """

    scale: ArrayLike = checks.number_field("scale", checks.require_positive, default=0.1)

    @property
    def moves_fields(self) -> bool:
        return True

    def randomness(self, time: ArrayLike) -> Law:
        return PerUnit(Normal())

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        assert sample.xi is not None
        v = parameters.readout
        _, _, readout, loss = _sent_back(sample, parameters, context, v)
        outputs = v @ context.student.activation(sample.student + self.scale * sample.xi)
        change = context.loss(outputs, sample.label) - loss
        return self.result(-(change / self.scale) * sample.xi, parameters, readout, loss)

    def mean_rule(self, C: Float[Array, "n n"], units: int) -> tuple[Rule, Float[Array, "n n"]]:
        """Stein in xi: E[delta] = -E[d loss(lambda + scale xi) / d lambda], at fields of larger variance."""
        return Gradient(), C + self.scale**2 * jnp.diag(jnp.arange(C.shape[0]) < units)

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        return ()


UNROLLED = 8  # uses of a sample that are written out one after the other
CLOSED_FORMS = (Gradient, FeedbackAlignment, Dropout)  # rules whose averages for squared loss have a closed form


def has_closed_form(rule: Rule) -> bool:
    """Do the averages of the rule for squared loss have a closed form? A sample that is used once is backpropagation."""
    return type(rule) in CLOSED_FORMS or (type(rule) is Reuse and rule.times == 1)


def is_affine_in_label(rule: Rule) -> bool:
    """Is the update for squared loss an affine function of the label? So is the difference of two squared errors."""
    return has_closed_form(rule) or type(rule) is NodePerturbation


def _sent_back(
    sample: Sample, parameters: Parameters, context: Context, feedback: Readout, mask: ArrayLike | None = None
) -> tuple[Float[Array, " K"], Parameters, Readout, Float[Array, ""]]:
    """delta, the parameters, h, and the loss of the network without mask.

    feedback: what takes psi back to the units. mask: factors of the units' outputs.
    """
    v, activation = parameters.readout, context.student.activation
    whole, slope = jax.jvp(activation, (sample.student,), (jnp.ones_like(sample.student),))
    g, slope = (whole, slope) if mask is None else (mask * whole, mask * slope)
    psi = context.loss.descent(v @ g, sample.label)
    delta = jnp.tensordot(psi, feedback, axes=min(jnp.ndim(psi), 1)) * slope
    readout = psi * g if jnp.ndim(psi) == 0 else jnp.outer(psi, g)
    return delta, parameters, readout, context.loss(v @ whole, sample.label)


def _at(value: Any, time: ArrayLike) -> Float[Array, ""]:
    """A number, or a schedule at this time."""
    return jnp.asarray(value(jnp.asarray(time)) if callable(value) else value, float)


def is_proportional(activation: Elementwise) -> bool:
    """Is the output proportional to the field (on one side of zero, for ReLU)?"""
    return activation.polynomial == (0.0, 1.0) or getattr(activation, "function", None) is jax.nn.relu
