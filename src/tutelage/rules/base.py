"""One learning rule: one sample in, one update out. Everything else (theory, simulation, error bars) follows from it.

    w_k += (eta / sqrt(N)) delta_k x - (eta kappa / N) w_k,    readout += (eta_v / N) h,    bias += (eta_b / N) delta
A rule is written once, for one sample, with jax.numpy. To write your own, subclass `Rule` and define `update`.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from tutelage._types import Array
from tutelage.randomness import Law


class Sample(eqx.Module):
    """What one sample shows. student: fields lambda_k (biases included); reference: fields of the teacher's vectors.

    label: what the teacher says. xi: a draw of the rule's own randomness, None without one. norm2: |x|^2 / N.
    """

    student: Float[Array, " K"]
    reference: Float[Array, " M"]
    label: Array
    xi: Any = None
    norm2: Any = 1.0


class Parameters(eqx.Module):
    """What a student has besides its vectors. readout: (K,) or (outputs, K); bias: (K,) or None."""

    readout: Array
    bias: Array | None = None


class Context(eqx.Module):
    """What a rule may look at besides the sample: the student network, the loss, rate, time, and the overlaps (R, Q, T)."""

    student: Any
    loss: Any
    lr: Any = 0.0
    time: Any = 0.0
    overlaps: Any = None


class Update(eqx.Module):
    """What one sample does. delta: how much of x each student vector takes; parameters: how readout and bias move.

    loss: what the sample costs before the update; NaN for rules that follow no loss.
    """

    delta: Float[Array, " K"]
    parameters: Parameters
    loss: Any = jnp.nan


class Rule(eqx.Module):
    """A learning rule. Subclass it and define `update`; set the class variables where they differ.

    jumps: `update` jumps as a function of a student field (or may): averages are then never differentiated through it.
    gradient: `update` follows minus the gradient of the loss. samples: per update.

    >>> import jax.numpy as jnp
    >>> import tutelage as tu
    >>> class Clipped(tu.Rule):
    ...     def update(self, sample, parameters, context):
    ...         delta = jnp.clip(sample.label - sample.student, -1.0, 1.0)
    ...         return self.result(delta, parameters)
    """

    jumps: ClassVar[bool] = False
    gradient: ClassVar[bool] = False
    samples: ClassVar[int] = 1

    def randomness(self, time: Any) -> Law | None:
        """The law of xi, independent of the sample; None: the rule draws nothing."""
        return None

    @abstractmethod
    def update(self, sample: Sample, parameters: Parameters, context: Context) -> Update:
        """What one sample does to the student."""

    def breaks(self, label: Array, parameters: Parameters, context: Context) -> tuple[Array, ...]:
        """Fields of a single unit at which the update jumps or bends, for this label: averages are split there."""
        return ()

    @staticmethod
    def result(delta: Array, parameters: Parameters, readout: Any = None, loss: Any = jnp.nan) -> Update:
        """An update that moves vectors and biases by delta, and the readout by `readout` (default: not at all)."""
        readout = jnp.zeros_like(parameters.readout) if readout is None else readout
        return Update(delta, Parameters(readout, None if parameters.bias is None else delta), loss)
