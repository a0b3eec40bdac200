"""`StepTheory`: what the theory asks of an optimizer.

With A, B and G of the rule (or of what takes the place of its update), student vectors
move in level l of the spectrum as

    dr_l = eta (f_l o (A r_l + B t_l) - kappa r_l)
    dq_l = eta (f_l o (A q_l + B r_l^T) - kappa q_l) + transpose + noise_l

where o multiplies rows. `Motion` has f, noise and the rest. Plain SGD has f_l = lam_l and
noise_l = (eta^2 / batch) lam_l G.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.stream.moments.averages import MeanUpdate
from tutelage.training.optimizers import Optimizer


class Scales(NamedTuple):
    """The state of an adaptive optimizer: averages or sums of squared updates.

    vectors: one for each level and student unit, or one number for all. readout, bias:
    None if these do not learn.
    """

    vectors: Float[Any, "*lead_L_K"]
    readout: Float[Any, "*lead_outputs_K"] | None = None
    bias: Float[Any, "*lead K"] | None = None


class Motion(NamedTuple):
    """The motion that averages of updates bring about.

    force: the factor f of A and B, (L, K or 1, 1). noise: what dq gains, at the rate eta.
    update: its readout and bias move readout and biases. scales: the drift of `Scales`.
    """

    force: Float[Array, "L K 1"]
    noise: Float[Array, "L K K"]
    update: MeanUpdate
    scales: Scales | None = None


class Moment(NamedTuple):
    """A state with its averages, as a `StepTheory` reads it.

    eigenvalues: the factors of A, B and G, (L, 1, 1). samples: those of a step.
    """

    problem: Problem
    eigenvalues: Float[Array, "L 1 1"]
    samples: ArrayLike
    time: ArrayLike
    scales: Scales | None
    update: MeanUpdate
    G: Float[Array, "*L K K"]
    eta: Float[Array, ""]
    gradient_flow: bool


SPREAD_NOTE = (
    "optimizer: exact for weights and teachers that are spread over all coordinates"
)


class StepTheory:
    """The theory of one optimizer, or of several with the same form. Subclass it.

    serves: the classes of these optimizers. needs_G: `motion` reads G in gradient flow,
    too.
    """

    serves: ClassVar[tuple[type[Optimizer], ...]] = ()
    needs_G: ClassVar[bool] = False

    def initial(
        self,
        problem: Problem,
        readout: Float[Any, "*outputs K"],
        bias: Float[Any, " K"] | None,
        xp: Any,
    ) -> Scales | None:
        """Return the scales at time zero, None without any. xp: NumPy or jax.numpy."""
        return None

    def motion(self, moment: Moment) -> Motion:
        """Return the motion at a state."""
        raise NotImplementedError

    # the next two serve the scatter of networks, of optimizers that add samples
    # (`Optimizer.adds_samples`)

    def vector_factors(
        self,
        problem: Problem,
        scales: Scales | None,
        times: Float[np.ndarray, " moments"],
    ) -> Float[np.ndarray, "moments L_or_1 K_or_1"]:
        """Return the factors of updates of vectors at many states, after time zero."""
        return np.ones((times.size, 1, 1))

    def scale_shares(
        self, problem: Problem, squares: Float[Any, "*lead L K"]
    ) -> Scales | None:
        """Return what mean squares of coordinates add to the scales of vectors."""
        return None

    def notes(self, problem: Problem, dim: int | None) -> list[str]:
        """Return sentences for the validity report: what the limit needs."""
        return []


def step_theory_of(optimizer: Optimizer) -> StepTheory:
    """Return the theory that serves an optimizer."""
    theories = _all_subclasses(StepTheory)
    for cls in type(optimizer).__mro__:
        for theory in theories:
            if cls in theory.serves:
                return theory()
    raise InputError(
        f"the optimizer {type(optimizer).__name__} has no theory; subclass StepTheory in "
        "a file of stream/optimizers, or simulate."
    )


def _all_subclasses(cls: type[StepTheory]) -> list[type[StepTheory]]:
    found = []
    for subclass in cls.__subclasses__():
        found += [subclass, *_all_subclasses(subclass)]
    return found
