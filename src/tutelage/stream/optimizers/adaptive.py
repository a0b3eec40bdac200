"""RMSprop, Adam and AdaGrad: updates divided by the root of a scale.

With c = 1 / memory and s the number of samples of a step, the scale v of a unit's
coordinates in one level follows their mean square,

    RMSprop, Adam   dv_lk = c (lam_l G_kk / s - v_lk)
    AdaGrad         dv_lk = lam_l G_kk / s
    AdaGrad-norm    dv = sum_l p_l lam_l tr G / s,

and f_lk = lam_l / sqrt(v_lk), noise_l = (eta^2 / s) lam_l G_kj / sqrt(v_lk v_lj). A fixed
beta1 of Adam changes nothing in the limit; its v, from zero, is divided by
1 - e^(-c alpha). A readout weight or a bias with the update h has the scale of
E[mean(h)^2] = E[h^2] / s + (1 - 1/s) E[h]^2.
"""

from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.problem import Problem
from tutelage.stream.moments.averages import MeanUpdate, array_module
from tutelage.stream.optimizers.base import (
    SPREAD_NOTE,
    Moment,
    Motion,
    Scales,
    StepTheory,
)
from tutelage.training.optimizers import AdaGrad, Adam, RMSprop

FEW_STEPS = 100  # of memory, below which scales scatter visibly
Squares: TypeAlias = Scales  # mean squares of the same parameters


class AdaptiveTheory(StepTheory):
    """The common part of adaptive optimizers; subclasses say how scales move."""

    needs_G = True

    def initial_scale(self, problem: Problem) -> ArrayLike:
        """Return all scales at time zero."""
        optimizer: Any = problem.optimizer
        return optimizer.initial_scale

    def rate(self, problem: Problem) -> tuple[ArrayLike, ArrayLike]:
        """Return the rates at which a scale gains squares, and forgets."""
        raise NotImplementedError

    def corrected(
        self,
        problem: Problem,
        scale: Float[Array, "..."],
        squares: Float[Array, "..."],
        t: ArrayLike,
    ) -> Float[Array, "..."]:
        """Return the scale by whose root an update is divided.

        squares: the present mean squares, to which a scale that begins at zero is equal
        at time zero.
        """
        return scale

    def notes(self, problem: Problem, dim: int | None) -> list[str]:
        optimizer = problem.optimizer
        notes = []
        if not _has_one_scale(problem):
            notes.append(SPREAD_NOTE)
        memory = getattr(optimizer, "memory", None)
        if memory is not None and dim is not None:
            steps = float(memory) * dim
            word = "enough" if steps > FEW_STEPS else "NOT enough"
            notes.append(
                f"optimizer: its memory of {steps:.3g} steps is {word} for the limit"
            )
        return notes

    def initial(
        self,
        problem: Problem,
        readout: Float[Any, "*outputs K"],
        bias: Float[Any, " K"] | None,
        xp: Any,
    ) -> Scales:
        scale = self.initial_scale(problem)
        student = problem.student
        levels = problem.inputs.levels
        of_readout = None
        if student.train_readout:
            of_readout = scale * xp.ones(readout.shape)
        of_bias = None
        if bias is not None and student.train_bias:
            of_bias = scale * xp.ones(bias.shape)
        return Scales(
            vectors=scale * xp.ones(self._shape_of_vectors(problem, levels)),
            readout=of_readout,
            bias=of_bias,
        )

    def _shape_of_vectors(self, problem: Problem, levels: int) -> tuple[int, ...]:
        return (levels, problem.student.hidden)

    def motion(self, moment: Moment) -> Motion:
        scales = moment.scales
        assert scales is not None
        squares = self.squares(moment)
        gained, forgotten = self.rate(moment.problem)

        def gain(scale: Any, square: Any) -> Any:
            if scale is None:
                return 1.0
            used = self.corrected(moment.problem, scale, square, moment.time)
            # nothing moves a parameter whose updates have all been zero
            moved = used > 0
            return jnp.where(moved, 1.0 / jnp.sqrt(jnp.where(moved, used, 1.0)), 0.0)

        def drift(scale: Any, square: Any) -> Any:
            return None if scale is None else gained * square - forgotten * scale

        vectors = gain(scales.vectors, squares.vectors)
        vectors = jnp.broadcast_to(vectors, self._per_unit(moment))[:, :, None]
        lam = moment.eigenvalues
        noise = jnp.zeros_like(lam * moment.G)
        if not moment.gradient_flow:
            noise = (moment.eta**2 / moment.samples) * lam * moment.G
            noise = noise * vectors * jnp.swapaxes(vectors, 1, 2)
        update = moment.update
        moved = MeanUpdate(
            A=update.A,
            B=update.B,
            readout=update.readout * gain(scales.readout, squares.readout),
            bias=update.bias * gain(scales.bias, squares.bias),
        )
        return Motion(
            force=lam * vectors,
            noise=noise,
            update=moved,
            scales=Scales(
                vectors=drift(scales.vectors, squares.vectors),
                readout=drift(scales.readout, squares.readout),
                bias=drift(scales.bias, squares.bias),
            ),
        )

    def _per_unit(self, moment: Moment) -> tuple[int, int]:
        levels = moment.eigenvalues.shape[0]
        return levels, moment.problem.student.hidden

    def vector_factors(
        self,
        problem: Problem,
        scales: Scales | None,
        times: Float[np.ndarray, " moments"],
    ) -> Float[np.ndarray, "moments L K"]:
        assert scales is not None
        levels = problem.inputs.levels
        vectors = jnp.asarray(scales.vectors)
        if _has_one_scale(problem):
            vectors = vectors[:, None, None]
        times = times[:, None, None]
        used = np.asarray(self.corrected(problem, vectors, jnp.zeros(()), times))
        factors = np.where(used > 0, 1.0 / np.sqrt(np.where(used > 0, used, 1.0)), 0.0)
        return np.broadcast_to(factors, (times.size, levels, problem.student.hidden))

    def scale_shares(
        self, problem: Problem, squares: Float[Any, "*lead L K"]
    ) -> Scales:
        gained, _ = self.rate(problem)
        return Scales(vectors=gained * self.of_vectors(problem, squares))

    def squares(self, moment: Moment) -> Squares:
        """Return the mean squares of a step's updates."""
        samples = moment.samples
        G = jnp.diagonal(moment.G, axis1=-2, axis2=-1)
        update = moment.update
        readout = None
        if update.readout_squares is not None:
            readout = _of_mean(update.readout_squares, update.readout, samples)
        return Squares(
            vectors=self.of_vectors(
                moment.problem, moment.eigenvalues[:, :, 0] * G / samples
            ),
            readout=readout,
            bias=_of_mean(_all_levels(G), update.bias, samples),
        )

    def of_vectors(
        self, problem: Problem, squares: Float[Array, "*lead L K"]
    ) -> Float[Array, "..."]:
        """Return the mean squares of coordinates that the scales of vectors follow."""
        return squares


def _all_levels(G: Float[Array, "*L K"]) -> Float[Array, " K"]:
    return G if G.ndim == 1 else jnp.mean(G, axis=0)


def _of_mean(square: Array, mean: Array, samples: ArrayLike) -> Array:
    """Return E[mean(h)^2] over independent samples."""
    return square / samples + (1.0 - 1.0 / samples) * mean**2


def _forgetting(problem: Problem) -> ArrayLike:
    """Return c = 1 / memory."""
    optimizer: Any = problem.optimizer
    return 1.0 / optimizer.memory


def _has_one_scale(problem: Problem) -> bool:
    """Return True if one scale serves all vectors (AdaGrad-norm)."""
    return bool(getattr(problem.optimizer, "norm", False))


class RMSpropTheory(AdaptiveTheory):
    """dv = c (squares - v)."""

    serves = (RMSprop,)

    def rate(self, problem: Problem) -> tuple[ArrayLike, ArrayLike]:
        return _forgetting(problem), _forgetting(problem)


class AdamTheory(AdaptiveTheory):
    """dv = c (squares - v) from zero, with v / (1 - e^(-c alpha)) used."""

    serves = (Adam,)

    def initial_scale(self, problem: Problem) -> ArrayLike:
        return 0.0

    def rate(self, problem: Problem) -> tuple[ArrayLike, ArrayLike]:
        return _forgetting(problem), _forgetting(problem)

    def corrected(
        self,
        problem: Problem,
        scale: Float[Array, "..."],
        squares: Float[Array, "..."],
        t: ArrayLike,
    ) -> Float[Array, "..."]:
        share = -jnp.expm1(-jnp.asarray(t) * _forgetting(problem))
        begun = share > 0
        return jnp.where(begun, scale / jnp.where(begun, share, 1.0), squares)


class AdaGradTheory(AdaptiveTheory):
    """dv = squares; with norm=True one v for all vectors."""

    serves = (AdaGrad,)

    def rate(self, problem: Problem) -> tuple[ArrayLike, ArrayLike]:
        return 1.0, 0.0

    def _shape_of_vectors(self, problem: Problem, levels: int) -> tuple[int, ...]:
        if _has_one_scale(problem):
            return ()
        return super()._shape_of_vectors(problem, levels)

    def of_vectors(
        self, problem: Problem, squares: Float[Array, "*lead L K"]
    ) -> Float[Array, "..."]:
        if not _has_one_scale(problem):
            return squares
        xp = array_module(squares)
        mask = problem.trainable_mask()
        if mask is not None:
            squares = squares * xp.asarray(mask)
        fractions = xp.asarray(problem.inputs.fractions)
        return xp.sum(fractions[:, None] * squares, axis=(-2, -1))
