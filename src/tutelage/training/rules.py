"""Learning rules: one sample in, one update out.

    w_k     += (eta / sqrt(N)) mean_a(delta_ak x_a) - (eta kappa / N) w_k
    readout += (eta_v / N) h
    bias    += (eta_b / N) h_b                      (h_b = delta in most rules)

A sample is one vector x, or an episode of several vectors x_a.

Theory, simulations and error bars follow from a rule, which is written once, for one
sample, with jax.numpy. To write a custom rule, subclass `Rule` and define `update`.

The classical rules (Hebb, Rosenblatt, AdaTron) and the perceptron that learns from
rewards are made for a single unit and labels -1 and 1. They use its field, whose sign
is the class, but not activation, readout or loss, and they do not change the readout.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

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
from tutelage.training.schedules import rate_at

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
SMALLEST_READOUT = 1e-12  # a smaller readout is divided by as if it had this size
UNROLLED = 8  # uses of a sample that are written out one after the other


class Sample(eqx.Module):
    """The quantities of a sample that a rule may read.

    A sample of several vectors has a leading axis for them in every array: so a rule
    of episodes (`Rule.samples`) gets all samples of one episode.

    Parameters
    ----------
    student : array (K,) or (vectors, K)
        Fields lambda_k of the student, biases included.
    reference : array (M,) or (vectors, M)
        Fields of the teacher's vectors.
    label : array
        The teacher's label.
    xi : array, optional
        A draw of the rule's own randomness; None for a rule without one.
    norm2 : float or array (K,)
        |x|^2 / N. Frozen levels do not count in it; there is then one number per unit.
    """

    student: Float[Array, "*vectors K"]
    reference: Float[Array, "*vectors M"]
    label: Label
    xi: Float[Array, "..."] | None = None
    norm2: ArrayLike = 1.0


class Parameters(eqx.Module):
    """The parameters of a student besides its vectors."""

    readout: Readout
    bias: Float[Array, " K"] | None = None


class Context(eqx.Module):
    """The quantities besides the sample that a rule may read.

    Parameters
    ----------
    student : Network
        The network that learns.
    loss : Loss
        The loss of the problem.
    lr, time : float
        The learning rate and the time of the step.
    overlaps : tuple of arrays, optional
        (R, Q, T).
    """

    student: Any  # a `Network`
    loss: Loss
    lr: ArrayLike = 0.0
    time: ArrayLike = 0.0
    overlaps: (
        tuple[Float[Array, "K M"], Float[Array, "K K"], Float[Array, "M M"]] | None
    ) = None


class Update(eqx.Module):
    """The effect of one sample on the student.

    The vectors move along the inputs, and may move along themselves and along the
    teacher's vectors; the parameters move by numbers of order one:

        w += (eta / sqrt(N)) mean_a(delta_a x_a) + (eta / N) (along w + along_teacher w*)
        parameters += (eta / N) change

    Parameters
    ----------
    delta : array (K,) or (vectors, K)
        The multiple of each vector of the sample that is added to each student vector.
        It has the shape of `sample.student`.
    parameters : Parameters
        The changes of readout and bias by the whole sample: a tree of the same
        structure as the `parameters` that `Rule.update` gets.
    loss : float
        The loss of the sample before the update; NaN for rules that follow no loss.
    along : array (K, K), optional
        The multiples of the student vectors. No theory supports it yet: a `Problem` of
        such a rule raises `InputError`.
    along_teacher : array (K, M), optional
        The multiples of the teacher's vectors, not supported yet either.
    """

    delta: Float[Array, "*vectors K"]
    parameters: Parameters
    loss: ArrayLike = jnp.nan
    along: Float[Array, "K K"] | None = None
    along_teacher: Float[Array, "K M"] | None = None


class Rule(Part):
    """A learning rule: subclass it and define `update`.

    Set the class variables that differ.

    Attributes
    ----------
    jumps : bool
        `update` jumps as a function of a student field, or may: averages are then never
        differentiated through it. Set it to False for a continuous update: averages are
        then more accurate and faster.
    uses_loss : bool
        `update` uses the derivatives of loss and activation, which must then exist and
        fit the labels.
    uses_norm : bool
        `update` uses `sample.norm2`, which needs batch=1.
    moves_fields : bool
        `update` evaluates the network at other fields than those of the sample, so
        `breaks` cannot list where it bends.
    samples : int
        Samples per update. Several samples are an episode: the arrays of `sample` and
        the `delta` of the `Update` have a leading axis. Its `parameters` and `loss` are
        those of the whole episode.

    Examples
    --------
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
        """Return the law of xi, independent of the sample, or None for no randomness.

        `PerUnit(law)` stands for one draw per hidden unit.
        """
        return None

    def law(self, units: int, time: ArrayLike) -> Law | None:
        """Return the law of xi for a student with this number of hidden units."""
        law = self.randomness(time)
        return PerUnit(law.law, units) if isinstance(law, PerUnit) else law

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        """Return numbers of the rule that belong to single hidden units.

        Units can be exchanged only if these numbers are equal.
        """
        return np.zeros((0, np.shape(readout)[-1]))

    @property
    def couples_samples(self) -> bool:
        """True if only averages over whole episodes give the theory of the rule."""
        return self.samples > 1 and type(self).of_one_sample is Rule.of_one_sample

    @abstractmethod
    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        """Return the update of the student by one sample."""

    def of_one_sample(self, mean_loss: "Callable[[Rule], Array]") -> "Rule":
        """Return a rule of one sample whose updates have the same mean and covariance.

        A rule of episodes may return the rule of their average sample, where the others
        matter only through averages over one sample: the theory is then faster. If it
        does not define this method, the theory averages over whole episodes.

        Parameters
        ----------
        mean_loss : function
            Returns the mean of the loss of another rule of one sample.
        """
        return self

    def mean_rule(
        self, C: Float[Array, "n n"], units: int
    ) -> "tuple[Rule, Float[Array, 'n n']]":
        """Return a simpler rule, and a covariance, with the same mean update.

        C: the covariance of the fields, student units first.
        """
        return self, C

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        """Return the fields of a single unit at which the update jumps or bends.

        They belong to this label. Averages are split there.
        """
        return ()

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        """Return all outputs that the update compares with the label by the loss.

        None: they are not known.
        """
        return None

    @staticmethod
    def result(
        delta: Float[Array, "*vectors K"],
        parameters: Parameters,
        readout: Readout | None = None,
        loss: ArrayLike = jnp.nan,
    ) -> Update:
        """Return an update that moves vectors and biases by delta.

        The readout moves by `readout`; by default it does not move. Biases move by the
        mean of delta over the samples of an episode.
        """
        if readout is None:
            readout = jnp.zeros_like(parameters.readout)
        bias = None
        if parameters.bias is not None:
            bias = delta if jnp.ndim(delta) == 1 else jnp.mean(delta, axis=0)
        return Update(
            delta=delta, parameters=Parameters(readout=readout, bias=bias), loss=loss
        )


# Backpropagation


class Gradient(Rule):
    """Backpropagation: delta_k = psi . v_k g'(lambda_k), h = psi g(lambda).

    psi = -d loss / d output.
    """

    jumps: ClassVar[bool] = False  # loss and activation decide
    uses_loss: ClassVar[bool] = True

    def feedback_at(self, readout: Readout, time: ArrayLike) -> Readout:
        """Return the weights by which psi returns to the units: the readout."""
        return readout

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        feedback = self.feedback_at(parameters.readout, context.time)
        step = _backpropagate(sample, parameters, context, feedback, mask=sample.xi)
        return self.result(step.delta, parameters, step.readout, step.loss)

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        return (parameters.readout @ context.student.activation(sample.student),)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        """Return the breaks of the activation, and those of the loss if known.

        The loss breaks at known fields if a single unit is linear (or ReLU) in its
        field.
        """
        if self.moves_fields:
            return ()
        activation = context.student.activation
        of_activation = tuple(jnp.asarray(x) for x in activation.breaks)
        if np.size(parameters.readout) != 1 or not is_proportional(activation):
            return of_activation
        v = jnp.reshape(parameters.readout, ())
        v = jnp.where(jnp.abs(v) > SMALLEST_READOUT, v, SMALLEST_READOUT)
        of_loss = tuple(output / v for output in context.loss.breaks(label))
        return of_activation + of_loss


class FeedbackAlignment(Gradient):
    """Feedback alignment: the error returns through fixed weights, not the readout.

        delta_k = psi . f_k g'(lambda_k)

    The readout learns as in backpropagation, h = psi g(lambda) (direct feedback
    alignment). `trajectory.alignment` is the cosine between readout and feedback.

    Parameters
    ----------
    feedback : float or array
        f: one number for all units, or an array with the shape of the readout, (K,) or
        (outputs, K).
    strength : float or schedule
        A factor of the feedback.
    """

    feedback: ArrayLike = eqx.field(
        converter=lambda x: checks.as_array("feedback", x, checks.require_finite),
        default=1.0,
    )
    strength: Any = checks.number_field(
        "strength", checks.require_nonnegative, schedule=True, default=1.0
    )

    def feedback_at(self, readout: Readout, time: ArrayLike) -> Readout:
        feedback = rate_at(self.strength, time) * jnp.asarray(self.feedback)
        return jnp.broadcast_to(feedback, jnp.shape(readout))

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        feedback = np.broadcast_to(np.asarray(self.feedback), np.shape(readout))
        return np.atleast_2d(feedback)


class Dropout(Gradient):
    """Backpropagation with hidden units that are dropped at random at each sample.

    output = sum_k v_k m_k g(lambda_k), where m_k = 1 / keep with probability keep, else
    0. `error` and `loss` of a trajectory are those of the network without mask.

    Parameters
    ----------
    keep : float or schedule
        The probability that a unit is kept, in (0, 1].
    """

    keep: Any = checks.number_field(
        "keep",
        checks.require_positive,
        checks.require_probability,
        schedule=True,
        default=0.5,
    )

    def keep_at(self, time: ArrayLike) -> Float[Array, ""]:
        """Return the probability that a unit is kept, at this time."""
        return rate_at(self.keep, time)

    def randomness(self, time: ArrayLike) -> Law:
        keep = self.keep_at(time)
        factors = jnp.stack([jnp.zeros(()), 1 / keep])
        probabilities = jnp.stack([1 - keep, keep])
        return PerUnit(Discrete(factors, probabilities))

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        g = context.student.activation(sample.student)
        return parameters.readout @ g, parameters.readout @ (sample.xi * g)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        readout_of_kept_unit = parameters.readout / self.keep_at(context.time)
        kept = Parameters(readout_of_kept_unit, parameters.bias)
        return super().breaks(label, kept, context)


class Reuse(Gradient):
    """Backpropagation that makes several steps on each sample before the next one.

    A step moves the field that the next step uses:

        lambda_k <- lambda_k + eta (|x|^2 / N) delta_k

    Here |x|^2 / N is the trace of the input covariance divided by N in the limit, and
    the actual length in simulations. The sample moves the vectors once, by the sum of
    all delta. Readout and biases also move by their sums: within one sample they would
    move by 1/N only, and the sums by 1/N of themselves. Weight decay acts, and
    spherical weights are rescaled, once per sample. Time counts samples. The rule needs
    batch=1 and no momentum.

    Parameters
    ----------
    times : int
        Steps on each sample.
    """

    uses_norm: ClassVar[bool] = True
    times: int = eqx.field(
        static=True, converter=lambda x: checks.as_count("times", x), default=2
    )

    @property
    def moves_fields(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Later steps evaluate the network at moved fields."""
        return self.times > 1

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        def use(fields: Array, _: None) -> tuple[Array, BackwardPass]:
            moved = Sample(fields, sample.reference, sample.label)
            step = _backpropagate(moved, parameters, context, parameters.readout)
            next_fields = fields + context.lr * sample.norm2 * step.delta
            return jnp.asarray(next_fields), step

        _, steps = jax.lax.scan(
            use, sample.student, length=self.times, unroll=self.times <= UNROLLED
        )
        return self.result(
            delta=steps.delta.sum(axis=0),
            parameters=parameters,
            readout=steps.readout.sum(axis=0),
            loss=steps.loss[0],
        )

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        return None if self.times > 1 else super().compared(sample, parameters, context)


class NodePerturbation(Gradient):
    """Learning from the change of the loss under noise in the hidden fields.

        delta_k = -(loss(lambda + scale xi) - loss(lambda)) xi_k / scale

    xi_k is standard normal, one number for each hidden unit; there is no backward pass.
    The readout, whose input is at hand, follows its gradient at the unperturbed fields.
    The mean update is that of the loss smoothed over the noise: (A, B) are those of
    backpropagation at Q + scale^2 1. As scale -> 0 the mean is the gradient, and G
    becomes 2 G + tr(G) 1 (fourth moments of xi): the variance of the update grows with
    the number of units. `error` and `loss` of a trajectory are those without noise.

    Parameters
    ----------
    scale : float
        Standard deviation of the noise.
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
        step = _backpropagate(sample, parameters, context, v)
        perturbed_fields = sample.student + self.scale * sample.xi
        output = v @ context.student.activation(perturbed_fields)
        change = context.loss(output, sample.label) - step.loss
        delta = -(change / self.scale) * sample.xi
        return self.result(delta, parameters, step.readout, step.loss)

    def compared(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> tuple[Label, ...] | None:
        assert sample.xi is not None
        v = parameters.readout
        g = context.student.activation
        perturbed_fields = sample.student + self.scale * sample.xi
        return v @ g(sample.student), v @ g(perturbed_fields)

    def mean_rule(
        self, C: Float[Array, "n n"], units: int
    ) -> tuple[Rule, Float[Array, "n n"]]:
        """Return backpropagation, at student fields of larger variance.

        Stein's lemma in xi: E[delta] = -E[d loss(lambda + scale xi) / d lambda].
        """
        is_student = jnp.arange(C.shape[0]) < units
        return Gradient(), C + self.scale**2 * jnp.diag(is_student)


class BackwardPass(NamedTuple):
    """The result of backpropagation: delta, h, and the loss without a mask."""

    delta: Float[Array, " K"]
    readout: Readout
    loss: Float[Array, ""]


def _backpropagate(
    sample: Sample,
    parameters: Parameters,
    context: Context,
    feedback: Readout,
    mask: ArrayLike | None = None,
) -> BackwardPass:
    """Return delta = psi . feedback g'(lambda), h = psi g(lambda) and the loss.

    mask: factors of the units' outputs.
    """
    v = parameters.readout
    ones = jnp.ones_like(sample.student)
    unmasked, slope = jax.jvp(context.student.activation, (sample.student,), (ones,))
    g = unmasked
    if mask is not None:
        g = mask * unmasked
        slope = mask * slope
    psi = context.loss.descent(v @ g, sample.label)
    has_one_output = jnp.ndim(psi) == 0
    return BackwardPass(
        delta=jnp.tensordot(psi, feedback, axes=0 if has_one_output else 1) * slope,
        readout=psi * g if has_one_output else jnp.outer(psi, g),
        loss=context.loss(v @ unmasked, sample.label),
    )


def is_proportional(activation: Any) -> bool:
    """Return True if the output is proportional to the field (for ReLU on one side)."""
    return activation.polynomial == (0.0, 1.0) or activation.function is jax.nn.relu


# Perceptrons


class Hebbian(Rule):
    """Hebb's rule, delta = label: the error falls as 1/sqrt(2 pi alpha)."""

    jumps: ClassVar[bool] = False

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        return self.result(sample.label * jnp.ones_like(sample.student), parameters)


class Perceptron(Rule):
    """Learning from mistakes only: delta = label where label lambda < margin, else 0.

    Parameters
    ----------
    margin : float
        Margin 0 is Rosenblatt's rule.
    """

    margin: ArrayLike = checks.number_field("margin", default=0.0)

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        is_wrong = sample.label * sample.student < self.margin
        return self.result(jnp.where(is_wrong, sample.label, 0.0), parameters)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        return (jnp.asarray(self.margin * label),)


class SignRule(Rule):
    """A rule that uses the student's class, the sign of its field (1 at zero)."""

    @staticmethod
    def sign(field: Array) -> Array:
        """Return the class that a unit chooses."""
        return jnp.where(field < 0, -1.0, 1.0)

    def breaks(
        self, label: Label, parameters: Parameters, context: Context
    ) -> tuple[Float[Array, ""], ...]:
        return (jnp.zeros(()),)


class AdaTron(SignRule):
    """AdaTron: delta = -lambda where label lambda < 0, else 0.

    A mistake is corrected in proportion to its size.
    """

    jumps: ClassVar[bool] = False

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        is_wrong = sample.label * sample.student < 0
        return self.result(jnp.where(is_wrong, -sample.student, 0.0), parameters)


class Reinforce(SignRule):
    """The RL perceptron, rewarded only if a whole episode of decisions was right.

    In an episode the student makes T decisions, the signs of its fields at T
    independent samples, and then moves once (Patel et al. 2024):

        w += (eta / sqrt(N)) (1/T) sum_t delta_t x_t
        delta_t = sign(lambda_t) (reward if all T are right, else -penalty)

    Time counts episodes: alpha = episodes / N. With one decision, reward 0 and penalty
    1 the rule is `Perceptron()`; with reward and penalty 1 it is `Hebbian()`. For a
    single unit.

    Parameters
    ----------
    decisions : int
        T, samples per episode.
    reward, penalty : float
        The step after a right and after a wrong episode.
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
        if checks.is_traced(self.reward, self.penalty):
            return
        if float(self.reward) == float(self.penalty) == 0:
            raise InputError(
                "reward and penalty are both 0, so nothing is learned; "
                "one of them must be positive."
            )

    @property
    def samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Samples per update: the decisions of an episode."""
        return self.decisions

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        """Return the update of a whole episode.

        The decisions, if there are several, are the first axis of all arrays.
        """
        decision = self.sign(sample.student)
        all_right = jnp.all(decision == jnp.asarray(sample.label)[..., None])
        delta = decision * jnp.where(all_right, self.reward, -jnp.asarray(self.penalty))
        return self.result(delta, parameters)

    def of_one_sample(self, mean_loss: Callable[[Rule], Array]) -> Rule:
        """Return the rule of one decision.

        It depends on the others only through the probability P^(T-1) that they are all
        right.
        """
        p_right = 1.0 - mean_loss(OneDecision(self.reward, self.penalty, 1.0))
        others_right = p_right ** (self.decisions - 1)
        return OneDecision(self.reward, self.penalty, others_right)


class OneDecision(SignRule):
    """One decision of an episode; its loss is 1 where it is wrong.

    xi is 1 if the other decisions are all right, which has probability `others_right`,
    else 0.
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
        is_right = decision == sample.label
        # reward if this decision and all others are right, else -penalty
        step = sample.xi * (self.reward + self.penalty)
        step = jnp.where(is_right, step, 0.0) - self.penalty
        loss = jnp.where(jnp.all(is_right), 0.0, 1.0)
        return self.result(decision * step, parameters, loss=loss)


NAMED_RULES: dict[str, type[Rule]] = {
    **by_name(Gradient, Hebbian, Perceptron),
    "adatron": AdaTron,
    **by_name(FeedbackAlignment, Dropout, Reinforce, NodePerturbation, Reuse),
}
as_rule = Choice(
    name="rule",
    base=Rule,
    named=NAMED_RULES,
    default="gradient",
    others=(
        "or a Rule: subclass tutelage.Rule and define "
        "update(sample, parameters, context)"
    ),
)
