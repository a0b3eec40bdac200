"""The steps as a JAX loop, for every rule, loss, label and activation that numba_kernels.py does not have.

A numba loop cannot call a JAX function. Here JAX traces the whole step, which is slower by an order of magnitude. Random
numbers are drawn outside, by the run's own generator, in blocks of fixed size; a loop with moving ends walks through a
block, so that stopping to record compiles nothing anew.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax
from tutelage.problem import Mixture, Problem
from tutelage.problem.sample import class_of, context_of, learn, normals_needed
from tutelage.rules import Context, Parameters, Update
from tutelage.simulation.numba_kernels import LevelLayout, ParameterState, StepConstants

Arrays = tuple[NumpyOrJax, ...]
OverlapsState = tuple[NumpyOrJax, NumpyOrJax, ParameterState]  # students (L, rows, W), teachers (L, M, columns)
WeightsState = tuple[NumpyOrJax, NumpyOrJax, NumpyOrJax, NumpyOrJax, ParameterState]  # W, velocity, gradient, (K, N); W*


def respond(
    problem: Problem,
    params: ParameterState,
    student_fields: Float[Array, "B K"],
    teacher_fields: Float[Array, "B M"],
    normals: Float[Array, "B D"],
    context: Context,
    norm2: Float[Array, "B K"] | None,
) -> Update:
    """The updates of the problem's rule by a batch. norm2: |x|^2 / N, for rules that look at it."""
    bias = 0.0 if problem.references.bias is None else problem.references.bias
    parameters = Parameters(jnp.asarray(params.readout), jnp.asarray(params.bias))
    return learn(problem, student_fields + params.bias, teacher_fields + bias, normals, parameters, context, norm2)


def move_parameters(
    constants: StepConstants,
    params: ParameterState,
    readout_force: NumpyOrJax,
    bias_force: NumpyOrJax,
    rates: Float[Array, " 6"],
) -> ParameterState:
    """Readout and biases learn from the batch's mean forces."""
    v, b, v_momentum, b_momentum, *sums = params
    if constants.train_readout:
        v_momentum = constants.beta * v_momentum + readout_force / constants.dim
        v = v + rates[2] * v_momentum
    if constants.train_bias:
        b_momentum = constants.beta * b_momentum + bias_force / constants.dim
        b = b + rates[3] * b_momentum
    return ParameterState(v, b, v_momentum, b_momentum, *sums)


class Draws(NamedTuple):
    """Random numbers and rates of a block of steps."""

    normals: Float[np.ndarray, "steps B L W"]
    noise: Float[np.ndarray, "steps B D"]
    outside: Float[np.ndarray, "steps outer J J"]  # Bartlett's factors, J = min(B, K), of the levels with an outside
    moves: Float[np.ndarray, "steps L M W"]  # zeta of teachers that drift; one number if they stay
    far_moves: Float[np.ndarray, "steps outer M M"]  # Bartlett's factors of what lies outside
    rates: Float[np.ndarray, "steps columns"]


class OverlapsLoop:
    """The overlaps method. Compiled once for all runs of a problem."""

    def __init__(self, problem: Problem, constants: StepConstants, layout: LevelLayout, steps: int):
        self.problem, self.constants, self.layout, self.steps = problem, constants, layout, steps
        self.columns = min(constants.batch, problem.student.hidden)
        self.outer = np.flatnonzero(layout.dof > 0)
        self.width = int(layout.width.max())
        self.advance = jax.jit(self._advance)

    def draw(self, rng: np.random.Generator, rates: np.ndarray) -> Draws:
        steps, B, J = rates.shape[0], self.constants.batch, self.columns
        normals = rng.standard_normal((steps, B, self.layout.width.size, self.width))
        there = np.arange(self.width) < self.layout.width[:, None]
        normals *= there
        outside = self._bartlett(rng, steps, J)
        own = rng.standard_normal((steps, B, normals_needed(self.problem)))
        if not self.constants.drift:
            return Draws(normals, own, outside, np.zeros(steps), np.zeros(steps), rates)
        M = self.problem.references.hidden
        moves = rng.standard_normal((steps, self.layout.width.size, M, self.width)) * there[:, None]
        return Draws(normals, own, outside, moves, self._bartlett(rng, steps, M), rates)

    def _bartlett(self, rng: np.random.Generator, steps: int, size: int) -> Float[np.ndarray, "steps outer size size"]:
        factor = np.tril(rng.standard_normal((steps, self.outer.size, size, size)), -1)
        for j in range(size):
            dof = self.layout.dof[self.outer] - j
            factor[:, :, j, j] = np.sqrt(rng.chisquare(np.maximum(dof, 1), size=(steps, self.outer.size)))
        return factor

    def _advance(
        self, state: OverlapsState, roots: Array, lengths: Array, draws: Draws, first: Array, last: Array
    ) -> OverlapsState:
        """Steps first .. last - 1 of a block of draws. roots: of the teachers' overlaps, for teachers that drift."""

        def step(i: Array, state: OverlapsState) -> OverlapsState:
            now = jax.tree.map(lambda x: jnp.asarray(x)[i], draws)
            students, teachers, params = self._step(state, lengths, now)
            if self.constants.drift:
                students, teachers = self._move_teachers(students, teachers, roots, now.moves, now.far_moves)
            return students, teachers, params

        return jax.lax.fori_loop(first, last, step, state)

    def _move_teachers(
        self, students: Array, teachers: Array, roots: Array, moves: Array, far_moves: Array
    ) -> tuple[Array, Array]:
        """w* <- (1 - omega/N) w* + sqrt(2 omega/N) zeta, in a basis in which the teachers are lower triangular again."""
        drift, M, columns = self.constants.drift, teachers.shape[1], teachers.shape[2]
        scaled = roots * jnp.sqrt(2.0 * drift / (self.layout.width + self.layout.dof))[:, None, None]
        wide = jnp.pad((1.0 - drift) * teachers, ((0, 0), (0, 0), (0, self.width - columns))) + scaled @ moves
        vectors = jnp.concatenate([wide, students], axis=1)
        if self.outer.size:
            span = slice(0, vectors.shape[1])
            far = jnp.pad(scaled[self.outer] @ far_moves, ((0, 0), (0, students.shape[1]), (0, 0)))
            grown = jnp.concatenate([vectors[self.outer, :, span], far], axis=2)
            vectors = vectors.at[self.outer, :, span].set(_transpose(jnp.linalg.qr(_transpose(grown), mode="r")))
        return vectors[:, M:], vectors[:, :M, :columns]

    def _step(self, state: OverlapsState, lengths: Array, draws: Any) -> tuple[Array, Array, ParameterState]:
        """One step of the student; draws: of this step."""
        layout, constants, params = self.layout, self.constants, state[2]
        students, teachers = (jnp.asarray(x) for x in state[:2])
        normals, xi, outside, rates, spread = draws.normals, draws.noise, draws.outside, draws.rates, None
        if isinstance(self.problem.inputs, Mixture):
            normals, spread = self._in_classes(self.problem.inputs, teachers, normals, xi)
        K, M, B = self.problem.student.hidden, self.problem.references.hidden, constants.batch
        student_fields = jnp.einsum("l,lkc,slc->sk", layout.field, students[:, :K], normals)
        teacher_fields = jnp.einsum("l,lmc,slc->sm", layout.field, teachers, normals[..., : teachers.shape[2]])
        weights, near = layout.share * layout.eigenvalue, students[:, :K, : teachers.shape[2]]
        overlaps = (
            jnp.einsum("l,lkc,lmc->km", weights, near, teachers),
            jnp.einsum("l,lkc,ljc->kj", weights, students[:, :K], students[:, :K]),
            jnp.einsum("l,lmc,lnc->mn", weights, teachers, teachers),
        )
        context = context_of(self.problem, rates[4], rates[5], overlaps)  # what the rule does not use is not computed
        norm2 = None
        if self.problem.rule.uses_norm:  # a single sample
            wider = outside if spread is None else outside * spread[0, self.outer, None, None]
            norm2 = self._norm2(normals, wider)
        update = respond(self.problem, params, student_fields, teacher_fields, xi, context, norm2)
        scale = jnp.asarray(layout.step[:, None] * layout.mask)[..., None] / B
        inside = scale * jnp.einsum("sk,slc->lkc", update.delta, normals)
        inside = inside - rates[-2] * layout.mask[..., None] * students[:, :K]
        moved = self._kick(students, inside, rates)
        if self.outer.size:
            delta = update.delta if spread is None else update.delta * spread.T[self.outer, :, None]
            factor = _transpose(delta if B <= K else jnp.linalg.qr(delta, mode="r"))
            new = self._kick(
                jnp.zeros((self.outer.size, students.shape[1], 1)), scale[self.outer] * (factor @ outside), rates
            )
            span = slice(M, M + students.shape[1])
            grown = jnp.concatenate([moved[self.outer, :, span], new], axis=2)
            moved = moved.at[self.outer, :, span].set(_transpose(jnp.linalg.qr(_transpose(grown), mode="r")))
        if constants.spherical:
            present = jnp.einsum("l,lkc->k", layout.share, moved[:, :K] ** 2)
            moved = moved.at[:, :K].multiply(jnp.sqrt(lengths / present)[:, None])
        forces = jnp.mean(update.parameters.readout, axis=0), jnp.mean(update.delta, axis=0)
        return moved, teachers, move_parameters(constants, params, *forces, rates)

    def _in_classes(
        self,
        mixture: Mixture,
        teachers: Float[Array, "L M columns"],
        normals: Float[Array, "B L W"],
        xi: Float[Array, "B D"],
    ) -> tuple[Float[Array, "B L W"], Float[Array, "B L"]]:
        """The numbers e of samples of drawn classes: their noise is wider by sqrt(lam_cl / lam_l) (also returned, for what lies
        outside), and the mean of the class, in the coordinates of the level, is added to it."""
        which, share, lam = class_of(mixture, xi), self.layout.share, self.layout.eigenvalue
        spread = jnp.sqrt(jnp.asarray(mixture.spectra) / lam)[which]
        vectors = teachers[:, self.problem.label_fields :]  # b_m
        means = jnp.einsum("cm,lmi->cli", jnp.asarray(mixture.coefficients), vectors) * np.sqrt(share / lam)[:, None]
        means = jnp.pad(means, ((0, 0), (0, 0), (0, self.width - vectors.shape[2])))
        return spread[..., None] * normals + means[which], spread

    def _norm2(self, normals: Float[Array, "1 L W"], outside: Float[Array, "outer 1 1"]) -> Float[Array, "1 K"]:
        """|x|^2 / N = sum_l (lam_l / N) (|e_l|^2 + chi^2_l) of a single sample, over the levels that each unit learns on."""
        length = jnp.sum(normals**2, axis=2).at[:, self.outer].add(outside[:, 0, 0] ** 2)
        return length @ (self.layout.eigenvalue[:, None] * self.layout.mask) / self.constants.dim

    def _kick(self, rows: NumpyOrJax, gradient: Array, rates: Array) -> Array:
        """Students (and velocities) after a gradient on their coordinates."""
        K, constants = self.problem.student.hidden, self.constants
        kick = rates[0] * gradient
        if not constants.momentum:
            return jnp.asarray(rows[:, :K] + rates[1] * kick)
        velocity = constants.keep * rows[:, K:] + kick
        return jnp.concatenate([rows[:, :K] + rates[1] * velocity, velocity], axis=1)


def _transpose(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


class WeightsLoop:
    """The weights method. Compiled once for all runs of a problem. respond: what samples with given fields do."""

    def __init__(
        self,
        problem: Problem,
        constants: StepConstants,
        mask: np.ndarray,
        dims: np.ndarray,
        respond: Callable[..., Update] = respond,
    ):
        self.problem, self.constants, self.respond = problem, constants, respond
        self.eigenvalues = np.repeat(np.asarray(problem.inputs.eigenvalues, dtype=float), dims)
        self.mask = mask if mask.size else np.ones((1, self.eigenvalues.size))
        self.advance = jax.jit(self._advance)

    def _advance(
        self, state: WeightsState, lengths: NumpyOrJax, block: Arrays, seen: Array, first: Array, last: Array
    ) -> WeightsState:
        """Samples first .. last - 1 of a block, which are whole episodes for a rule of these.

        block: rows, unseen parts of the teacher's fields, noise, moves (of teachers that drift) and rates, one each per
        sample. seen: samples before the block.
        """
        T = self.problem.rule.samples
        rows, unseen, noise, moves, rates = (jnp.asarray(x).reshape(x.shape[0] // T, T, *x.shape[1:]) for x in block)

        def one(i: Array, state: WeightsState) -> WeightsState:
            state = self._feel(state, rows[i], unseen[i], noise[i], rates[i, 0])
            ends = (seen + (i + 1) * T) % self.constants.batch == 0
            return jax.lax.cond(ends, lambda s: self._move(s, lengths, moves[i, -1], rates[i, 0]), lambda s: s, state)

        return jax.lax.fori_loop(first // T, last // T, one, state)

    def _feel(
        self, state: WeightsState, x: Float[Array, "T N"], unseen: Float[Array, "T M"], xi: Float[Array, "T D"], rates: Array
    ) -> WeightsState:
        W, velocity, gradient, W_teacher, params = state
        constants, root = self.constants, 1.0 / np.sqrt(self.constants.dim)
        R, Q, T = (
            jnp.asarray((a * self.eigenvalues) @ b.T / constants.dim)
            for a, b in ((W, W_teacher), (W, W), (W_teacher, W_teacher))
        )
        context = context_of(self.problem, rates[4], rates[5], (R, Q, T))
        fields = x @ W.T * root, x @ W_teacher.T * root + unseen
        norm2 = x**2 @ self.mask.T / constants.dim if self.problem.rule.uses_norm else None
        update = self.respond(self.problem, params, *fields, xi, context, norm2)
        gradient = gradient + (root / constants.batch) * (update.delta.T @ x)
        readout = params.readout_sum + jnp.sum(update.parameters.readout, axis=0) / constants.batch
        bias = params.bias_sum + jnp.sum(update.delta, axis=0) / constants.batch
        return W, velocity, gradient, W_teacher, params._replace(readout_sum=readout, bias_sum=bias)

    def _move(self, state: WeightsState, lengths: NumpyOrJax, moves: Array, rates: Array) -> WeightsState:
        (W, velocity, gradient, W_teacher, params), constants = state, self.constants
        kick = rates[0] * self.mask * (gradient - rates[-2] * W)
        if constants.momentum:
            velocity = kick = constants.keep * velocity + kick
        W = W + rates[1] * kick
        if constants.spherical:
            W = W * jnp.sqrt(lengths * constants.dim / jnp.sum(W**2, axis=1))[:, None]
        params = move_parameters(constants, params, params.readout_sum, params.bias_sum, rates)
        rest = [jnp.zeros_like(x) for x in params[4:]]
        if constants.drift:
            W_teacher = (1.0 - constants.drift) * W_teacher + np.sqrt(2.0 * constants.drift) * moves
        return W, velocity, jnp.zeros_like(gradient), W_teacher, ParameterState(*params[:4], *rest)
