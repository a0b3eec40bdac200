"""The perceptron that learns from rewards: it is told only whether a whole episode of decisions was right.

In an episode the student makes T decisions, the signs of its fields at T independent samples, and then moves once:
    w += (eta / sqrt(N)) (1/T) sum_t delta_t x_t,    delta_t = sign(lambda_t) (reward if all T are right, else -penalty).
One decision sees the other ones only through the probability P^(T-1) that they are all right. Given P, an episode has the
averages of a rule of one sample (`OneDecision`).
"""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.randomness import Discrete, Law
from tutelage.rules.base import Context, Label, Parameters, Rule, Sample, Update


def _decision(field: Array) -> Array:
    """The class that a unit chooses: the sign of its field, 1 at zero."""
    return jnp.where(field < 0, -1.0, 1.0)


class DecisionRule(Rule):
    """A rule that looks at the student's decision, which jumps where its field is zero."""

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        return (jnp.zeros(()),)


class Reinforce(DecisionRule):
    """The RL perceptron (Patel et al. 2024): delta_t = sign(lambda_t) times the reward of its episode of decisions.

    The reward is `reward` if all decisions of the episode equal their labels, else minus `penalty`. Time counts episodes:
    alpha = episodes / N. decisions: T, samples per episode. With one decision, reward 0 and penalty 1 the rule is
    `Perceptron()`; with reward and penalty 1 it is `Hebbian()`. For a single unit.

    >>> import tutelage as tu
    >>> tu.rules.Reinforce(decisions=5, reward=1.0, penalty=0.1)
    Reinforce(decisions=5, penalty=0.1)
    """

    decisions: int = eqx.field(static=True, converter=lambda x: checks.as_count("decisions", x), default=3)
    reward: ArrayLike = checks.number_field("reward", checks.require_nonnegative, default=1.0)
    penalty: ArrayLike = checks.number_field("penalty", checks.require_nonnegative, default=0.0)

    def __check_init__(self) -> None:
        if not checks.is_traced(self.reward, self.penalty) and float(self.reward) == float(self.penalty) == 0:
            raise InputError("reward and penalty are both 0, so nothing is learned; one of them must be positive.")

    @property
    def samples(self) -> int:
        return self.decisions

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        """The update of a whole episode; arrays have the decisions, if there are several, as their first axis."""
        decision = _decision(sample.student)
        all_right = jnp.all(decision == jnp.asarray(sample.label)[..., None])
        delta = decision * jnp.where(all_right, self.reward, -jnp.asarray(self.penalty))
        if self.decisions == 1:
            return self.result(delta, parameters)
        return jax.vmap(lambda each: self.result(each, parameters))(delta)

    def of_one_sample(self, mean_loss: Callable[[Rule], Array]) -> Rule:
        right = 1.0 - mean_loss(WrongDecision())
        return OneDecision(self.reward, self.penalty, right ** (self.decisions - 1))


class WrongDecision(DecisionRule):
    """No update; its loss is 1 where the decision differs from the label."""

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        wrong = jnp.any(_decision(sample.student) != sample.label)
        return self.result(jnp.zeros_like(sample.student), parameters, loss=jnp.where(wrong, 1.0, 0.0))


class OneDecision(DecisionRule):
    """One decision of an episode. xi: 1 if the other ones are all right, which has probability `others_right`, else 0."""

    jumps: ClassVar[bool] = True
    reward: ArrayLike
    penalty: ArrayLike
    others_right: ArrayLike

    def randomness(self, time: ArrayLike) -> Law:
        p = jnp.asarray(self.others_right, float)
        return Discrete(jnp.array([1.0, 0.0]), jnp.stack([p, 1.0 - p]))

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        assert sample.xi is not None
        decision = _decision(sample.student)
        reward = jnp.where(decision == sample.label, sample.xi * (self.reward + self.penalty), 0.0) - self.penalty
        return self.result(decision * reward, parameters)
