"""Learning rules: one sample in, one update out. Everything else (theory, simulation, error bars) follows from it.

    w_k += (eta / sqrt(N)) delta_k x - (eta kappa / N) w_k,    readout += (eta_v / N) h,    bias += (eta_b / N) delta
A rule is written once, for one sample, with jax.numpy. To write your own, subclass `Rule` and define `update`.

The classical rules (Hebb, Rosenblatt, AdaTron) and the perceptron that learns from rewards are made for a single unit and
labels -1 and 1. They look at its field alone, whose sign is the class, not at activation, readout or loss, and leave the
readout as it is.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Choice, Part, by_name
from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.errors import InputError
from tutelage.randomness import Discrete, Law, Normal, PerUnit, Quantile
from tutelage.training.losses import Loss

__all__ = [
    "AdaTron",
    "Dropout",
    "FeedbackAlignment",
    "Gradient",
    "Hebbian",
    "NodePerturbation",
    "Perceptron",
    "Reinforce",
]
__all__ += ["Context", "Parameters", "Reuse", "Rule", "Sample", "Update"]
__all__ += ["Discrete", "Law", "Normal", "PerUnit", "Quantile"]

Label: TypeAlias = Float[Array, "*outputs"]
Readout: TypeAlias = Float[Array, "*outputs K"]


class Sample(eqx.Module):
    """What one sample shows. student: fields lambda_k (biases included); reference: fields of the teacher's vectors.

    label: what the teacher says. xi: a draw of the rule's own randomness, None without one. norm2: |x|^2 / N, in which frozen
    levels do not count; then one number per unit. A rule of episodes gets all samples of one, along a leading axis.
    """

    student: Float[Array, " K"]
    reference: Float[Array, " M"]
    label: Label
    xi: Float[Array, "..."] | None = None
    norm2: ArrayLike = 1.0


class Parameters(eqx.Module):
    """What a student has besides its vectors."""

    readout: Readout
    bias: Float[Array, " K"] | None = None


class Context(eqx.Module):
    """What a rule may look at besides the sample: the student network, the loss, rate, time, and the overlaps (R, Q, T)."""

    student: Any  # a `Network`
    loss: Loss
    lr: ArrayLike = 0.0
    time: ArrayLike = 0.0
    overlaps: (
        tuple[Float[Array, "K M"], Float[Array, "K K"], Float[Array, "M M"]] | None
    ) = None


class Update(eqx.Module):
    """What one sample does. delta: how much of x each student vector takes; parameters: how readout and bias move.

    loss: what the sample costs before the update; NaN for rules that follow no loss.
    """

    delta: Float[Array, " K"]
    parameters: Parameters
    loss: ArrayLike = jnp.nan


class Rule(Part):
    """A learning rule. Subclass it and define `update`; set the class variables where they differ.

    jumps: `update` jumps as a function of a student field, or may: averages are then never differentiated through it. Set it
    to False for a continuous update: averages are then more accurate and faster. uses_loss: `update` uses the derivatives of
    loss and activation, which must then exist and fit the labels. uses_norm: `update` uses `sample.norm2`, which needs
    batch=1. moves_fields: `update` looks at other fields than those of the sample, so `breaks` cannot list where it bends.
    samples: per update. More than one are an episode: the arrays of `sample` and of the `Update` have a leading axis.

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> class Clipped(tu.Rule):
    ...     jumps = False
    ...     def update(self, sample, parameters, context):
    ...         delta = jnp.clip(sample.label - sample.student, -1.0, 1.0)
    ...         return self.result(delta, parameters)
    """

    jumps: ClassVar[bool] = True
    uses_loss: ClassVar[bool] = False
    uses_norm: ClassVar[bool] = False
    moves_fields: ClassVar[bool] = False
    samples: ClassVar[int] = 1

    def randomness(self, time: ArrayLike) -> Law | None:
        """The law of xi, independent of the sample; None: the rule draws nothing. `PerUnit(law)`: one draw per unit."""
        return None

    def law(self, units: int, time: ArrayLike) -> Law | None:
        """The law of xi for a student with so many hidden units."""
        law = self.randomness(time)
        return PerUnit(law.law, units) if isinstance(law, PerUnit) else law

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        """Numbers of the rule that belong to single hidden units. Units can be exchanged only if these are equal."""
        return np.zeros((0, np.shape(readout)[-1]))

    @abstractmethod
    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        """What one sample does to the student."""

    def of_one_sample(self, mean_loss: "Callable[[Rule], Array]") -> "Rule":
        """A rule of one sample with the mean and the covariance of this rule's updates: for episodes, their average sample.

        The samples of an episode are independent, so all that one of them has to do with the other ones are averages over one
        sample. mean_loss: the mean of the loss of another rule of one sample.
        """
        if self.samples > 1:
            given = f"the theory of {type(self).__name__} needs one sample of an episode of {self.samples}"
            raise InputError(f"{given}; define of_one_sample(mean_loss), or simulate.")
        return self

    def mean_rule(
        self, C: Float[Array, "n n"], units: int
    ) -> "tuple[Rule, Float[Array, 'n n']]":
        """A rule and a covariance of the fields (student units first) with the mean update of this rule: where that is simpler."""
        return self, C

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        """Fields of a single unit at which the update jumps or bends, for this label: averages are split there."""
        return ()

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        """All outputs that the update compares with the label by the loss; None if these are not known."""
        return None

    @staticmethod
    def result(
        delta: Float[Array, " K"],
        parameters: Parameters,
        readout: Readout | None = None,
        loss: ArrayLike = jnp.nan,
    ) -> Update:
        """An update that moves vectors and biases by delta, and the readout by `readout` (default: not at all)."""
        readout = jnp.zeros_like(parameters.readout) if readout is None else readout
        return Update(
            delta, Parameters(readout, None if parameters.bias is None else delta), loss
        )


class Gradient(Rule):
    """delta_k = psi . v_k g'(lambda_k) and h = psi g(lambda), psi = -d loss / d output: backpropagation."""

    jumps: ClassVar[bool] = False  # loss and activation decide
    uses_loss: ClassVar[bool] = True

    def feedback_at(self, readout: Readout, time: ArrayLike) -> Readout:
        """What takes psi back to the units at this time: the readout."""
        return readout

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        feedback = self.feedback_at(parameters.readout, context.time)
        return self.result(
            *_sent_back(sample, parameters, context, feedback, mask=sample.xi)
        )

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        return (parameters.readout @ context.student.activation(sample.student),)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        """Where the activation breaks; and where the loss does, if a single unit is linear (or ReLU) in its field."""
        if self.moves_fields:
            return ()
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
    `trajectory.alignment` is the cosine between readout and feedback.
    """

    feedback: ArrayLike = eqx.field(
        converter=lambda x: checks.as_array("feedback", x, checks.require_finite),
        default=1.0,
    )
    strength: Any = checks.number_field(
        "strength", checks.require_nonnegative, schedule=True, default=1.0
    )

    def feedback_at(self, readout: Readout, time: ArrayLike) -> Readout:
        return jnp.broadcast_to(
            _at(self.strength, time) * jnp.asarray(self.feedback), jnp.shape(readout)
        )

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        return np.atleast_2d(
            np.broadcast_to(np.asarray(self.feedback), np.shape(readout))
        )


class Dropout(Gradient):
    """Backpropagation through hidden units that are kept with probability `keep`, independently at each sample.

    A kept unit's output is divided by keep, m_k = 1 / keep, else m_k = 0: output = sum_k v_k m_k g(lambda_k). `error` and
    `loss` of a trajectory are those of the network without mask. keep: a number in (0, 1], or a schedule of time.
    """

    keep: Any = checks.number_field(
        "keep",
        checks.require_positive,
        checks.require_probability,
        schedule=True,
        default=0.5,
    )

    def keep_at(self, time: ArrayLike) -> Float[Array, ""]:
        """The probability that a unit is kept, at this time."""
        return _at(self.keep, time)

    def randomness(self, time: ArrayLike) -> Law:
        keep = self.keep_at(time)
        return PerUnit(
            Discrete(jnp.stack([jnp.zeros(()), 1 / keep]), jnp.stack([1 - keep, keep]))
        )

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        g = context.student.activation(sample.student)
        return parameters.readout @ g, parameters.readout @ (sample.xi * g)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        kept = Parameters(
            parameters.readout / self.keep_at(context.time), parameters.bias
        )
        return super().breaks(label, kept, context)


class Reuse(Gradient):
    """Backpropagation that uses each sample `times` in a row: so many steps on one sample before the next one.

    A step moves the field that the next one sees, lambda_k <- lambda_k + eta (|x|^2 / N) delta_k; |x|^2 / N is the trace of
    the input covariance divided by N in the limit, and the actual length in simulations. The sample moves the vectors by the
    sum of all delta, once. So do readout and biases with their sums: within one sample they would move by 1/N only, and the
    sums by 1/N of themselves. Weight decay acts, and spherical weights are rescaled, once per sample. Time counts samples.
    It needs batch=1 and no momentum.
    """

    uses_norm: ClassVar[bool] = True
    times: int = eqx.field(
        static=True, converter=lambda x: checks.as_count("times", x), default=2
    )

    @property
    def moves_fields(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.times > 1

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        def use(fields: Array, at: None) -> tuple[Array, tuple[Array, Array, Array]]:
            seen = Sample(fields, sample.reference, sample.label)
            delta, _, h, loss = _sent_back(
                seen, parameters, context, parameters.readout
            )
            return jnp.asarray(fields + context.lr * sample.norm2 * delta), (
                delta,
                h,
                loss,
            )

        _, each = jax.lax.scan(
            use, sample.student, length=self.times, unroll=self.times <= UNROLLED
        )
        deltas, readouts, losses = each
        return self.result(
            deltas.sum(axis=0), parameters, readouts.sum(axis=0), losses[0]
        )

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        return None if self.times > 1 else super().compared(sample, parameters, context)


class NodePerturbation(Gradient):
    """Learning from the change of the loss under noise in the hidden fields, without any backward pass.

        delta_k = -(loss(lambda + scale xi) - loss(lambda)) xi_k / scale,    xi_k standard normal, one for each hidden unit
    The readout, whose input is at hand, follows its gradient at the unperturbed fields. The mean update is that of the loss
    smoothed over the noise: (A, B) are those of backpropagation at Q + scale^2 1. As scale -> 0 the mean is the gradient, and
    G becomes 2 G + tr(G) 1 (fourth moments of xi): the variance of the update grows with the number of units. `error` and
    `loss` of a trajectory are those without noise.
    """

    moves_fields: ClassVar[bool] = True
    scale: ArrayLike = checks.number_field(
        "scale", checks.require_positive, default=0.1
    )

    def randomness(self, time: ArrayLike) -> Law:
        return PerUnit(Normal())

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        assert sample.xi is not None
        v = parameters.readout
        _, _, readout, loss = _sent_back(sample, parameters, context, v)
        outputs = v @ context.student.activation(
            sample.student + self.scale * sample.xi
        )
        change = context.loss(outputs, sample.label) - loss
        return self.result(
            -(change / self.scale) * sample.xi, parameters, readout, loss
        )

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        assert sample.xi is not None
        moved = sample.student + self.scale * sample.xi
        fields = (sample.student, moved)
        return tuple(parameters.readout @ context.student.activation(x) for x in fields)

    def mean_rule(
        self, C: Float[Array, "n n"], units: int
    ) -> tuple[Rule, Float[Array, "n n"]]:
        """Stein in xi: E[delta] = -E[d loss(lambda + scale xi) / d lambda], at fields of larger variance."""
        return Gradient(), C + self.scale**2 * jnp.diag(jnp.arange(C.shape[0]) < units)


UNROLLED = 8  # uses of a sample that are written out one after the other


def _sent_back(
    sample: Sample,
    parameters: Parameters,
    context: Context,
    feedback: Readout,
    mask: ArrayLike | None = None,
) -> tuple[Float[Array, " K"], Parameters, Readout, Float[Array, ""]]:
    """delta, the parameters, h, and the loss of the network without mask. mask: factors of the units' outputs."""
    v, activation = parameters.readout, context.student.activation
    whole, slope = jax.jvp(
        activation, (sample.student,), (jnp.ones_like(sample.student),)
    )
    g, slope = (whole, slope) if mask is None else (mask * whole, mask * slope)
    psi = context.loss.descent(v @ g, sample.label)
    delta = jnp.tensordot(psi, feedback, axes=min(jnp.ndim(psi), 1)) * slope
    readout = psi * g if jnp.ndim(psi) == 0 else jnp.outer(psi, g)
    return delta, parameters, readout, context.loss(v @ whole, sample.label)


def _at(value: Any, time: ArrayLike) -> Float[Array, ""]:
    """A number, or a schedule at this time."""
    return jnp.asarray(value(jnp.asarray(time)) if callable(value) else value, float)


def is_proportional(activation: Any) -> bool:
    """Is the output proportional to the field (on one side of zero, for ReLU)?"""
    return activation.polynomial == (0.0, 1.0) or activation.function is jax.nn.relu


class Hebbian(Rule):
    """delta = label: each sample adds its label times itself. The error falls as 1/sqrt(2 pi alpha)."""

    jumps: ClassVar[bool] = False

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        return self.result(sample.label * jnp.ones_like(sample.student), parameters)


class Perceptron(Rule):
    """delta = label where label lambda < margin, else 0: learn from mistakes only (margin 0: Rosenblatt's rule)."""

    margin: ArrayLike = checks.number_field("margin", default=0.0)

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        wrong = sample.label * sample.student < self.margin
        return self.result(jnp.where(wrong, sample.label, 0.0), parameters)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        return (jnp.asarray(self.margin * label),)


class SignRule(Rule):
    """A rule that looks at the student's class, the sign of its field (1 at zero)."""

    @staticmethod
    def sign(field: Array) -> Array:
        """The class that a unit chooses."""
        return jnp.where(field < 0, -1.0, 1.0)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        return (jnp.zeros(()),)


class AdaTron(SignRule):
    """delta = -lambda where label lambda < 0, else 0: a mistake is corrected by as much as it is wrong."""

    jumps: ClassVar[bool] = False

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        wrong = sample.label * sample.student < 0
        return self.result(jnp.where(wrong, -sample.student, 0.0), parameters)


class Reinforce(SignRule):
    """The RL perceptron (Patel et al. 2024), which learns only whether a whole episode of decisions was right.

    In an episode the student makes T decisions, the signs of its fields at T independent samples, and then moves once:
        w += (eta / sqrt(N)) (1/T) sum_t delta_t x_t,    delta_t = sign(lambda_t) (reward if all T are right, else -penalty).
    Time counts episodes: alpha = episodes / N. decisions: T, samples per episode. With one decision, reward 0 and penalty 1
    the rule is `Perceptron()`; with reward and penalty 1 it is `Hebbian()`. For a single unit.
    """

    decisions: int = eqx.field(
        static=True, converter=lambda x: checks.as_count("decisions", x), default=3
    )
    reward: ArrayLike = checks.number_field(
        "reward", checks.require_nonnegative, default=1.0
    )
    penalty: ArrayLike = checks.number_field(
        "penalty", checks.require_nonnegative, default=0.0
    )

    def __check_init__(self) -> None:
        if (
            not checks.is_traced(self.reward, self.penalty)
            and float(self.reward) == float(self.penalty) == 0
        ):
            raise InputError(
                "reward and penalty are both 0, so nothing is learned; one of them must be positive."
            )

    @property
    def samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.decisions

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        """The update of a whole episode; arrays have the decisions, if there are several, as their first axis."""
        decision = self.sign(sample.student)
        all_right = jnp.all(decision == jnp.asarray(sample.label)[..., None])
        delta = decision * jnp.where(all_right, self.reward, -jnp.asarray(self.penalty))
        if self.decisions == 1:
            return self.result(delta, parameters)
        return jax.vmap(lambda each: self.result(each, parameters))(delta)

    def of_one_sample(self, mean_loss: Callable[[Rule], Array]) -> Rule:
        """One decision sees the other ones only through the probability P^(T-1) that they are all right."""
        right = 1.0 - mean_loss(OneDecision(self.reward, self.penalty, 1.0))
        return OneDecision(self.reward, self.penalty, right ** (self.decisions - 1))


class OneDecision(SignRule):
    """One decision of an episode; its loss is 1 where it is wrong.

    xi: 1 if the other ones are all right, which has probability `others_right`, else 0.
    """

    reward: ArrayLike
    penalty: ArrayLike
    others_right: ArrayLike

    def randomness(self, time: ArrayLike) -> Law:
        p = jnp.asarray(self.others_right, float)
        return Discrete(jnp.array([1.0, 0.0]), jnp.stack([p, 1.0 - p]))

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        assert sample.xi is not None
        decision = self.sign(sample.student)
        right = decision == sample.label
        reward = (
            jnp.where(right, sample.xi * (self.reward + self.penalty), 0.0)
            - self.penalty
        )
        return self.result(
            decision * reward, parameters, loss=jnp.where(jnp.all(right), 0.0, 1.0)
        )


NAMED: dict[str, type[Rule]] = {
    **by_name(Gradient, Hebbian, Perceptron),
    "adatron": AdaTron,
    **by_name(FeedbackAlignment, Dropout, Reinforce, NodePerturbation, Reuse),
}
OTHERS = (
    "or a Rule: subclass tutelage.Rule and define update(sample, parameters, context)"
)
as_rule = Choice("rule", Rule, NAMED, "gradient", OTHERS)
