"""Averages over several samples at once: whole batches, and episodes.

`BatchMoments`: the step of a whole batch is no sum over its samples (signs of sums, Muon,
clipped coordinates). With Gaussian fields lam = (fields of student and teacher) of B
independent samples, the optimizer's response u_b(delta_1 .. delta_B) takes the place of
delta_b,

    D = sum_b E[u_b e_b^T],    (B | A) = D L^-1,

where e_b are standard normal and fields_b = mean + L e_b (node_moments.py), and its
covariance of a step takes the place of G. One point of a quasi-random set holds all numbers
of a batch: those of the fields, and those of labels and rule.

`EpisodeMoments`: the samples of an episode, of a rule that couples them. The response
is delta_b itself, and both averages are means over the samples, so that the step is

    w += (eta / sqrt(N)) (1 / B) sum_b delta_b x_b.

Samples are independent of each other: E[delta_b delta_c^T] with b != c does not enter
the noise, since x_b . x_c / N vanishes.

`SquaresMoments`: the mean square of the readout's update, next to the usual averages.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array
from tutelage.problem import Problem
from tutelage.problem.sample import label_of, normals_needed, updates_of
from tutelage.problem.traits import missing_traits
from tutelage.stream.moments.averages import FieldState, MeanUpdate, Moments
from tutelage.stream.moments.node_moments import NodeMoments
from tutelage.stream.moments.node_sums import Nodes, RuleAtState, Weights, divided
from tutelage.stream.moments.quadrature import Sampled, sobol
from tutelage.training.optimizers.changed_rule import ChangedRule
from tutelage.training.rules import Context, Parameters, Sample, Update


class BatchSums(NamedTuple):
    """Averages over batches. levels: those of the inputs, or 1 if all are equal."""

    D: Float[Array, "levels K n"]  # sum_b E[u_b e_b^T], teacher axes first
    covariance: Float[Array, "levels K K"]
    readout: Float[Array, "*outputs K"]
    bias: Float[Array, " K"]
    loss: Float[Array, ""]


class BatchStep(NamedTuple):
    """The effect of the updates delta (B, K) of a batch on its step.

    Both results have a leading axis: the levels of the inputs, or 1 if all are equal.
    """

    responses: Callable[[Float[Array, "B K"]], Float[Array, "levels B K"]]
    covariance: Callable[[Float[Array, "B K"]], Float[Array, "levels K K"]]


class BatchMoments(NodeMoments):
    """Response and noise of an optimizer whose step depends on a batch as a whole.

    Each point of the set e has the numbers of `batch` samples, one after the other: the
    fields' (teachers first), then those that labels and rule are made from. `single` has
    error and loss, which are averages over one sample.
    """

    single: Moments | None = None
    batch: int = eqx.field(static=True, default=1)

    def matrices(
        self, state: FieldState, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "*levels K K"]]:
        own = self._of_batch(state)
        sums = self._over_batches(own)
        coefficients = [divided(own.L, D.T, trans=1).T for D in sums.D]
        M = state.problem.labeler.hidden
        B, A = jnp.split(jnp.stack(coefficients), [M], axis=-1)
        covariance = sums.covariance
        if flow:
            covariance = jnp.zeros_like(covariance)
        if sums.D.shape[0] == 1:
            A, B, covariance = A[0], B[0], covariance[0]
        mean = MeanUpdate(A=A, B=B, readout=sums.readout, bias=sums.bias)
        return mean, covariance

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        assert self.single is not None
        return self.single.error_and_loss(state)

    def _of_batch(self, state: FieldState) -> RuleAtState:
        """Return the rule of a sample at a state."""
        return self._of(state.problem.optimizer.sample_rule(state.problem.rule), state)

    def _over_batches(self, state: RuleAtState) -> BatchSums:
        """Return the averages over all points."""
        if self.blocks is not None:
            return self._over_blocks(self._averages, state)
        assert self.e is not None
        return self._averages(state, self.e, np.full(self.points, 1 / self.points))

    def _averages(self, state: RuleAtState, e: Nodes, weights: Weights) -> BatchSums:
        """Return the averages over some of the points."""
        optimizer = state.problem.optimizer
        eigenvalues = jnp.asarray(state.problem.inputs.eigenvalues)
        step = BatchStep(
            responses=lambda delta: optimizer.responses(delta, eigenvalues),
            covariance=lambda delta: optimizer.step_covariance(delta, eigenvalues),
        )
        return _batch_sums(state, e, weights, self.batch, step)


class EpisodeMoments(BatchMoments):
    """Averages of a rule whose samples depend on each other (`Rule.couples_samples`).

    Each point of the set has the numbers of an episode; `batch` is its length. The loss
    is that of the rule, the error that of a single sample.
    """

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        assert self.single is not None
        error, _ = self.single.error_and_loss(state)
        return error, self._over_batches(self._of_batch(state)).loss

    def _averages(self, state: RuleAtState, e: Nodes, weights: Weights) -> BatchSums:
        step = BatchStep(
            responses=lambda delta: delta[None] / self.batch,
            covariance=lambda delta: (delta.T @ delta)[None] / self.batch,
        )
        return _batch_sums(state, e, weights, self.batch, step)


def _batch_sums(
    at: RuleAtState, e: Nodes, weights: Weights, batch: int, step: BatchStep
) -> BatchSums:
    """Return the averages over the points e (P, batch * numbers of a sample)."""
    problem = at.problem
    optimizer = problem.optimizer
    K = problem.student.hidden
    M = problem.labeler.hidden
    points = e.shape[0]
    numbers = jnp.reshape(e, (points * batch, -1))
    of_fields, normals = jnp.split(numbers, [K + M], axis=1)
    fields = at.mean + of_fields @ at.L.T
    rho, student = jnp.split(fields, [M], axis=1)
    labels = jax.vmap(partial(label_of, problem))(rho, normals)
    update = updates_of(
        problem, student, rho, labels, normals, at.parameters, at.context
    )

    def by_batch(x: Array) -> Array:
        return x.reshape(points, batch, *x.shape[1:])

    delta = by_batch(update.delta)
    responses = jax.vmap(step.responses)(delta)
    covariances = jax.vmap(step.covariance)(delta)
    of_readout = jnp.mean(by_batch(update.parameters.readout), axis=1)
    bias = update.parameters.bias
    of_bias = jnp.mean(delta if bias is None else by_batch(bias), axis=1)
    of_loss = jnp.mean(by_batch(jnp.asarray(update.loss, float)), axis=1)
    weighted = responses * jnp.asarray(weights)[:, None, None, None]
    return BatchSums(
        D=jnp.einsum("plbk,pba->lka", weighted, by_batch(of_fields)),
        covariance=jnp.tensordot(weights, covariances, 1),
        readout=jnp.tensordot(weights, optimizer.of_parameters(of_readout), 1),
        bias=jnp.tensordot(weights, optimizer.of_parameters(of_bias), 1),
        loss=jnp.tensordot(weights, of_loss, 1),
    )


def batch_moments(
    problem: Problem, single: Moments, sampled: Sampled | None
) -> BatchMoments:
    """Return the averages over batches of a problem, by a quasi-random set.

    single: the averages of one sample, for the error.
    """
    batch = problem.optimizer.batch
    checks.require_untraced("batch", "an optimizer of whole batches", batch)
    e = _points_of_batches(problem, int(batch), sampled, "Use a smaller batch.")
    return BatchMoments(
        e=e,
        grid=0,
        jumps=_jumps(problem),
        noisy=True,
        single=single,
        batch=int(batch),
    )


def episode_moments(
    problem: Problem, single: Moments, sampled: Sampled | None
) -> EpisodeMoments:
    """Return the averages over episodes of a rule that couples their samples."""
    count = problem.rule.samples
    fix = "Use a rule of fewer samples, or moments=tu.Sampled(2**12)."
    e = _points_of_batches(problem, count, sampled, fix)
    return EpisodeMoments(
        e=e,
        grid=0,
        jumps=_jumps(problem),
        noisy=True,
        single=single,
        batch=count,
    )


def _points_of_batches(
    problem: Problem, batch: int, sampled: Sampled | None, fix: str
) -> Float[np.ndarray, "P numbers"]:
    """Return a set whose points have the numbers of so many samples."""
    sampled = Sampled() if sampled is None else sampled
    numbers = problem.student.hidden + problem.labeler.hidden + normals_needed(problem)
    checks.require_memory(
        f"the averages over {batch} samples at once",
        sampled.points * batch * numbers,
        fix,
    )
    return sobol(sampled.points, batch * numbers, sampled.seed)


def _jumps(problem: Problem) -> bool:
    """Return True if the update jumps as a function of the fields."""
    return bool(missing_traits(problem, ("smooth",)))


class SquaredReadout(ChangedRule):
    """A rule whose update of the readout is squared."""

    def update(
        self, sample: Sample, parameters: Parameters, context: Context
    ) -> Update:
        update = self.rule.update(sample, parameters, context)
        squared = replace(
            update.parameters, readout=jnp.square(update.parameters.readout)
        )
        return replace(update, parameters=squared)


class SquaresMoments(Moments):
    """The averages of a rule, and E[h^2] of the readout's update h by nodes."""

    usual: Moments
    nodes: NodeMoments

    def matrices(
        self, state: FieldState, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        mean, G = self.usual.matrices(state, flow)
        rule = SquaredReadout(state.problem.optimizer.averaged_rule(state.problem.rule))
        squared = replace(state, problem=state.problem.with_parts(rule=rule))
        squares, _ = self.nodes.matrices(squared, True)
        return replace(mean, readout_squares=squares.readout), G

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return self.usual.error_and_loss(state)
