"""Committees of erf units without JAX: which problems these are, their numbers, and the drift and single steps of states.

committee_kernel.py has the formulas as machine code, so that nothing is traced or compiled for a new problem; they are the
twin of order_parameters.py, matrices.py, erf.py and diffusion.py, with the same letters. Tests compare the two.
"""

from typing import TYPE_CHECKING, TypeGuard

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import ArrayLike
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, unflatten
from tutelage.moments import ClosedMoments, Moments
from tutelage.moments.erf import ErfAverages
from tutelage.problem import Problem, SlowMomentum

if TYPE_CHECKING:
    from tutelage.dynamics.committee_kernel import Committee

Vectors = Float[np.ndarray, "moments size"]


def is_committee(problem: object, moments: Moments | None) -> TypeGuard[Problem]:
    """Squared loss with one teacher, erf (or sign as teacher), plain SGD, known numbers?"""
    if not isinstance(problem, Problem) or not problem.classic:
        return False
    if not isinstance(moments, ClosedMoments) or not isinstance(moments.averages, ErfAverages):
        return False
    sgd = problem.sgd
    if sgd.spherical or sgd.trainable is not None or isinstance(sgd.momentum, SlowMomentum) or problem.schedules():
        return False
    return not checks.is_traced(problem) and jnp.result_type(float) == np.float64


def committee_of(
    problem: Problem, moments: ClosedMoments, t: Float[np.ndarray, "L M M"], gradient_flow: bool, fine: float = 1.0
) -> "Committee":
    """The numbers of the equations, for the machine code."""
    from tutelage.dynamics.committee_kernel import Committee  # numba takes a third of a second to import

    inputs, sgd, averages = problem.inputs, problem.sgd, moments.averages
    assert isinstance(averages, ErfAverages)
    weights, gain, unseen = np.array(inputs.weights, float), 1.0 - float(sgd.momentum), problem.unseen
    (L, M, _), K, T, eta = t.shape, problem.student.hidden, np.tensordot(weights, t, 1), float(sgd.lr) / gain
    return Committee(
        K=K,
        M=M,
        L=L,
        softness=np.array(averages.softness),
        lam=np.tile(np.asarray(inputs.eigenvalues, float), K + M),
        weights=weights,
        t=np.moveaxis(t, 0, -1).reshape(M, M * L).copy(),
        T=T if unseen is None else T + np.asarray(unseen, float),
        v_teacher=np.array(problem.teacher.readout, float),
        eta=eta,
        eta_v=eta if sgd.readout_lr is None else float(sgd.readout_lr) / gain,
        pull=eta * float(sgd.weight_decay),
        eta_2=0.0 if gradient_flow else eta**2 / problem.samples_per_step,
        sigma_2=float(problem.noise) ** 2,
        train_readout=bool(problem.student.train_readout),
        fine=fine,
    )


class CommitteeDynamics:
    """Drift and single steps of a committee at flat vectors."""

    def __init__(self, system: OrderParameters, like: Overlaps):
        from tutelage.dynamics import committee_kernel

        problem, moments, self.kernel = system.problem, system.moments, committee_kernel
        assert isinstance(moments, ClosedMoments)
        self.one = committee_of(problem, moments, np.asarray(system.t, float), system.gradient_flow)
        self.room = committee_kernel.room_for(self.one)
        self.like, self.fractions = like, np.array(problem.inputs.fractions, float)
        numbered = unflatten(np.arange(np.asarray(flatten(like)).size), like)  # where each entry of a state is from
        overlaps = np.moveaxis(np.concatenate([numbered.q, numbered.r], 2), 0, -1)
        self.source = np.concatenate([overlaps.ravel(), numbered.readout])
        self.place = np.unique(self.source, return_index=True)[1]

    def drifts(self, vectors: Vectors) -> Vectors:
        """d vector / d alpha at each of the vectors."""
        states = np.zeros((len(vectors), self.source.size + 1))  # the last entry is the error, which moves nothing
        states[:, :-1] = vectors[:, self.source]
        found = np.empty_like(states)
        for state, out in zip(states, found, strict=True):
            self.kernel.drift(self.one, self.room, state, out)
        return found[:, self.place]

    def update_covariances(
        self, C: Float[np.ndarray, "count n n"], v: Float[np.ndarray, "count K"]
    ) -> Float[np.ndarray, "count K K"]:
        """G at covariances of the fields, those of the teachers included."""
        one, found = self.one._replace(eta_2=1.0), np.empty((len(C), self.one.K, self.one.K))
        room = self.kernel.room_for(one)
        for i in range(len(C)):
            room.C[:], room.w[: one.K] = C[i], -v[i]
            self.kernel.matrices(one, room)
            found[i] = room.G
        return found

    def shares(
        self,
        _t: ArrayLike,
        vector: Float[np.ndarray, " size"],
        gains: Float[np.ndarray, "L n n"],
        normals: Float[np.ndarray, "count dims"],
    ) -> tuple[Float[np.ndarray, "count K"], Float[np.ndarray, "count size"]]:
        """As `diffusion.SampledSteps.shares`."""
        deltas, samples = np.empty((len(normals), self.one.K)), np.empty((len(normals), vector.size))
        readout = unflatten(vector, self.like).readout
        self.kernel.shares(self.one, readout, self.fractions, gains, normals, deltas, samples)
        return deltas, samples

    def linear_shares(
        self, _t: ArrayLike, _vector: Float[np.ndarray, " size"], moved: Float[np.ndarray, "count L K n"]
    ) -> Float[np.ndarray, "count size"]:
        """As `diffusion.SampledSteps.linear_shares`."""
        K, moved = self.one.K, self.one.eta * moved / self.fractions[:, None, None]
        half, still = moved[..., :K], np.zeros((len(moved), K))
        return flatten(Overlaps(moved[..., K:], half + np.swapaxes(half, -1, -2), still, None, None))
