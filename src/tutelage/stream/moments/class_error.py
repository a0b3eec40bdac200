"""The error of a student as an average over nodes, and wrong classes in closed form."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfinv
from jaxtyping import Float

from tutelage._jump_search import breaks_of
from tutelage._types import Array
from tutelage.problem import Network
from tutelage.problem.activation import NAMED_ACTIVATIONS, Activation, erf
from tutelage.stream.moments.averages import safe_sqrt
from tutelage.stream.moments.node_sums import RuleAtState, Weights
from tutelage.stream.moments.quadrature import NEAR
from tutelage.training.rules import (
    SMALLEST_READOUT,
    Context,
    Label,
    Parameters,
    Rule,
    Sample,
    Update,
)

FAR_AWAY = 1e150  # a boundary that is not met
# Outputs that differ by less, in units of their terms, are equal: fields are rounded.
TIE = 1e-12
# The field at which an increasing activation has a given value.
INVERSES = {
    NAMED_ACTIVATIONS["linear"]: lambda y: y,
    NAMED_ACTIVATIONS["erf"]: lambda y: np.sqrt(2.0) * erfinv(y),
    NAMED_ACTIVATIONS["tanh"]: jnp.arctanh,
}


class ErrorMetric(Rule):
    """The error of a student as a rule that never learns: its loss is the metric.

    Parameters
    ----------
    metric : str
        "squared": |label - output|^2 / 2. "class": 1 if the student's class is not the
        label's. Ties are broken at random: n equal largest outputs, the label's among
        them, cost 1 - 1/n, and an output of zero costs 1/2 where the class is its sign.
    """

    metric: str = eqx.field(static=True)

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        g = context.student.activation(sample.student)
        output = parameters.readout @ g
        if self.metric == "squared":
            loss = jnp.sum((sample.label - output) ** 2) / 2
        else:
            # identical units whose readouts cancel leave a rounding error, which
            # decides nothing
            rounding = TIE * (jnp.abs(parameters.readout) @ jnp.abs(g))
            loss = _wrong_class(output, sample.label, rounding)
        return self.result(jnp.zeros_like(sample.student), parameters, loss=loss)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        """Return where the output of a single unit changes its sign, or breaks."""
        activation = context.student.activation
        if self.metric == "squared":
            places = activation.breaks
        else:
            places = sign_changes(activation)
        return tuple(jnp.asarray(x) for x in places)


def _wrong_class(
    output: Label, label: Label, rounding: Float[Array, "*outputs"]
) -> Float[Array, ""]:
    """Return the probability that the student's class is not the label's.

    Ties are broken at random. rounding: outputs that differ by no more than this are
    equal.
    """
    if jnp.ndim(output) == 0:
        sign = jnp.where(jnp.abs(output) <= rounding, 0.0, jnp.sign(output))
        return (1.0 - sign * jnp.sign(label)) / 2
    is_largest = output >= jnp.max(output) - jnp.max(rounding)
    return 1.0 - jnp.sum(label * is_largest) / jnp.sum(is_largest)


@lru_cache(maxsize=64)
def sign_changes(activation: Activation) -> tuple[float, ...]:
    """Return the fields at which the class that a single unit predicts changes."""
    places = breaks_of(lambda x: jnp.sign(activation(x[..., None])), 0)
    return tuple(x for x in places if abs(x) < NEAR)


def has_boundary(student: Network) -> bool:
    """Return True if the output changes its sign at one value of each field.

    The other fields may have any values.
    """
    return student.activation in INVERSES and student.outputs == 1


def wrong_sign_by_angle(
    C: Float[Array, "2 2"],
    student_readout: Float[Array, " 1"],
    teacher_readout: Float[Array, " 1"],
) -> Float[Array, ""]:
    """Return the probability of unequal signs of two units without biases.

    It is the angle between the vectors (or a mirror image) divided by pi; this form is
    accurate and differentiable down to zero.
    """
    across = C[0, 0] * C[1, 1] - C[0, 1] ** 2
    along = jnp.sign(student_readout[0] * teacher_readout[0]) * C[0, 1]
    # a zero vector or readout has no angle: its output is zero, and the class a guess
    is_angle = (across > 0) | (along != 0)
    across = jnp.where(is_angle, safe_sqrt(across), 1.0)
    along = jnp.where(is_angle, along, 0.0)
    return jnp.arctan2(across, along) / np.pi


def wrong_sign_by_last_field(
    state: RuleAtState, e: Float[Array | np.ndarray, "P m"], weights: Weights
) -> Float[Array, ""]:
    """Return the probability of a wrong class, by nodes of all fields but the last.

    Given the other fields, the output v_K g(lambda_K) + rest is positive beyond one
    value of the last student field, for g is increasing. So the jump of the class is
    integrated exactly, and the sum over nodes can be differentiated.
    """
    M = state.problem.labeler.hidden
    v = state.parameters.readout
    g = state.problem.student.activation
    # the other fields, and mean and deviation of the last one given these
    fields = state.mean[:-1, None] + state.L[:-1, :-1] @ e.T
    mean = state.mean[-1] + e @ state.L[-1, :-1]
    deviation = state.L[-1, -1]
    rho = fields[:M]
    output = jax.vmap(state.problem.labeler.output, -1, -1)(rho)
    label_sign = state.over_labels(rho, output, list, jnp.sign)
    # the value of g(lambda_K) at which the output is zero, and its field
    last_readout = jnp.where(jnp.abs(v[-1]) > SMALLEST_READOUT, v[-1], SMALLEST_READOUT)
    limit = -(v[:-1] @ g(fields[M:])) / last_readout
    largest = 1.0 if g.polynomial is None else jnp.inf  # of erf and tanh
    is_met = jnp.abs(limit) < largest
    field_at_limit = INVERSES[g](jnp.where(is_met, limit, 0.0))
    boundary = jnp.where(is_met, field_at_limit, jnp.sign(limit) * FAR_AWAY)
    beyond = (mean - boundary) / jnp.maximum(deviation, 1e-150)
    mean_sign = erf(jnp.sign(v[-1]) * beyond * 0.5**0.5)  # of the output
    # If the other fields determine the last one (identical units), the terms of the
    # output may cancel: a tie.
    terms = jnp.concatenate([v[:-1, None] * g(fields[M:]), v[-1] * g(mean)[None]])
    mean_size = jnp.sum(jnp.abs(terms), axis=0) @ weights
    is_tie = jnp.abs(jnp.sum(terms, axis=0)) <= TIE * mean_size
    mean_sign = jnp.where((deviation == 0) & is_tie, 0.0, mean_sign)
    return ((1 - mean_sign * label_sign) / 2) @ weights
