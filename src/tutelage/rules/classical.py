"""The classical rules of a single unit that learns from labels -1 and 1 (Hebb, Rosenblatt, AdaTron).

They look at the unit's field alone, not at an activation or a loss: the student's class is the sign of its field. A rule
applies to each unit of a wider student by itself. Readouts do not move.
"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.rules.base import Context, Label, Parameters, Rule, Sample, Update


class Hebbian(Rule):
    """delta = label: each sample adds its label times itself. The error falls as 1/sqrt(2 pi alpha).

    >>> import tutelage as tu
    >>> tu.rules.Hebbian()
    Hebbian()
    """

    jumps: ClassVar[bool] = False

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        return self.result(sample.label * jnp.ones_like(sample.student), parameters)


class Perceptron(Rule):
    """delta = label where label lambda < margin, else 0: learn from mistakes only (margin 0: Rosenblatt's rule).

    >>> import tutelage as tu
    >>> tu.rules.Perceptron()
    Perceptron()
    """

    margin: ArrayLike = checks.number_field("margin", default=0.0)

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        wrong = sample.label * sample.student < self.margin
        return self.result(jnp.where(wrong, sample.label, 0.0), parameters)

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        return (jnp.asarray(self.margin * label),)


class AdaTron(Rule):
    """delta = -lambda where label lambda < 0, else 0: a mistake is corrected by as much as it is wrong.

    >>> import tutelage as tu
    >>> tu.rules.AdaTron()
    AdaTron()
    """

    jumps: ClassVar[bool] = False

    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        wrong = sample.label * sample.student < 0
        return self.result(jnp.where(wrong, -sample.student, 0.0), parameters)

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        return (jnp.zeros(()),)
