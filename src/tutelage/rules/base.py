"""One learning rule: one sample in, one update out. Everything else (theory, simulation, error bars) follows from it.

    w_k += (eta / sqrt(N)) delta_k x - (eta kappa / N) w_k,    readout += (eta_v / N) h,    bias += (eta_b / N) delta
A rule is written once, for one sample, with jax.numpy. To write your own, subclass `Rule` and define `update`.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._part import Part
from tutelage._types import Array, ArrayLike, NumpyOrJax, Schedule
from tutelage.errors import InputError
from tutelage.losses import Loss
from tutelage.randomness import Law

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


class Elementwise(Protocol):
    """What a rule may ask of an activation (`Activation` has it all)."""

    @property
    def polynomial(self) -> tuple[float, ...] | None: ...
    @property
    def breaks(self) -> tuple[float, ...]: ...
    def __call__(self, x: Array, /) -> Array: ...


class Student(Protocol):
    """What a rule may ask of the student network (`Network` has it all)."""

    @property
    def activation(self) -> Elementwise: ...


class Context(eqx.Module):
    """What a rule may look at besides the sample: the student network, the loss, rate, time, and the overlaps (R, Q, T)."""

    student: Student
    loss: Loss
    lr: ArrayLike = 0.0
    time: ArrayLike = 0.0
    overlaps: tuple[Float[Array, "K M"], Float[Array, "K K"], Float[Array, "M M"]] | None = None


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

    @property
    def samples(self) -> int:
        """Samples per update."""
        return 1

    @property
    def moves_fields(self) -> bool:
        """Does `update` look at other fields than those of the sample?"""
        return False

    def randomness(self, time: ArrayLike) -> Law | None:
        """The law of xi, independent of the sample; None: the rule draws nothing. `PerUnit(law)`: one draw per unit."""
        return None

    def law(self, units: int, time: ArrayLike) -> Law | None:
        """The law of xi for a student with so many hidden units."""
        law = self.randomness(time)
        return None if law is None else law.for_units(units)

    def unit_marks(self, readout: NumpyOrJax) -> Float[np.ndarray, "rows K"]:
        """Numbers of the rule that belong to single hidden units. Units can be exchanged only if these are equal."""
        return np.zeros((0, np.shape(readout)[-1]))

    def schedules(self) -> dict[str, Schedule]:
        """Fields that are functions of time, by name: the solver does not step across their jumps."""
        return {}

    @abstractmethod
    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        """What one sample does to the student."""

    def of_one_sample(self, mean_loss: "Callable[[Rule], Array]") -> "Rule":
        """A rule of one sample with the mean and the covariance of this rule's updates: for episodes, their average sample.

        The samples of an episode are independent, so all that one of them has to do with the other ones are averages over one
        sample. mean_loss: the mean of the loss of another rule of one sample.
        """
        if self.samples > 1:
            raise InputError(
                f"the theory of {type(self).__name__} needs one sample of an episode of {self.samples}; define "
                "of_one_sample(mean_loss), or simulate."
            )
        return self

    def mean_rule(self, C: Float[Array, "n n"], units: int) -> "tuple[Rule, Float[Array, 'n n']]":
        """A rule and a covariance of the fields (student units first) with the mean update of this rule: where that is simpler."""
        return self, C

    def breaks(self, label: Label, parameters: Parameters, context: Context) -> tuple[Float[Array, ""], ...]:
        """Fields of a single unit at which the update jumps or bends, for this label: averages are split there."""
        return ()

    @staticmethod
    def result(
        delta: Float[Array, " K"], parameters: Parameters, readout: Readout | None = None, loss: ArrayLike = jnp.nan
    ) -> Update:
        """An update that moves vectors and biases by delta, and the readout by `readout` (default: not at all)."""
        readout = jnp.zeros_like(parameters.readout) if readout is None else readout
        return Update(delta, Parameters(readout, None if parameters.bias is None else delta), loss)
