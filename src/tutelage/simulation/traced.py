"""The steps as a JAX loop, for every rule, loss, label and activation that compiled.py does not have.

It cannot call a JAX function; here the whole step is traced instead, slower by an order of magnitude. Random
numbers are drawn outside, by the run's own generator, in blocks of fixed size; a loop with moving ends walks through a
block, so that stopping to record compiles nothing anew.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.problem import Problem
from tutelage.problem.sample import context_of, label_of, normals_needed, update_of
from tutelage.rules import Context, Parameters, Update
from tutelage.simulation.layout import Blocks, Heads, Rule


class Sums(NamedTuple):
    """What one batch says: delta (B, K) and the mean forces on readout and bias."""

    delta: Array
    readout: Array
    bias: Array


def respond(
    problem: Problem,
    rule: Rule,
    heads: Heads,
    student_fields: Array,
    teacher_fields: Array,
    normals: Array,
    context: Context,
) -> Sums:
    """Fields (B, K), (B, M) and normals (B, D) to delta and the mean forces on the heads, by the problem's rule."""

    def one(student: Array, teacher: Array, normals: Array) -> Update:
        reference, parameters = teacher + rule.teacher_bias, Parameters(jnp.asarray(heads.readout), jnp.asarray(heads.bias))
        label = label_of(problem, reference, normals)
        return update_of(problem, student + heads.bias, reference, label, normals, parameters, context)

    update = jax.vmap(one)(student_fields, teacher_fields, normals)
    return Sums(update.delta, jnp.mean(update.parameters.readout, axis=0), jnp.mean(update.delta, axis=0))


def move_heads(rule: Rule, heads: Heads, sums: Sums, rates: Array) -> Heads:
    v, b, v_momentum, b_momentum = heads[:4]
    if rule.train_readout:
        v_momentum = rule.beta * v_momentum + sums.readout / rule.dim
        v = v + rates[2] * v_momentum
    if rule.train_bias:
        b_momentum = rule.beta * b_momentum + sums.bias / rule.dim
        b = b + rates[3] * b_momentum
    return Heads(v, b, v_momentum, b_momentum, heads.readout_force, heads.bias_force)


class Draws(NamedTuple):
    """Random numbers and rates of a block of steps."""

    normals: Any  # (steps, B, L, W)
    noise: Any  # (steps, B, D)
    outside: Any  # (steps, outer levels, J, J): Bartlett's factors, J = min(B, K)
    rates: Any  # (steps, 6)


class OverlapsLoop:
    """The overlaps method; state: (students (L, rows, W), heads). Compiled once for all runs of a problem."""

    def __init__(self, problem: Problem, rule: Rule, blocks: Blocks, steps: int):
        self.problem, self.rule, self.blocks, self.steps = problem, rule, blocks, steps
        self.columns = min(rule.batch, problem.student.hidden)
        self.outer = np.flatnonzero(blocks.dof > 0)
        self.width = int(blocks.width.max())
        self.advance = jax.jit(self._advance)

    def begin(self, students: np.ndarray, heads: Heads) -> Any:
        return jnp.asarray(students), jax.tree.map(jnp.asarray, heads)

    def look(self, state: Any) -> tuple[np.ndarray, Heads]:
        return np.asarray(state[0]), jax.tree.map(np.asarray, state[1])

    def draw(self, rng: np.random.Generator, rates: np.ndarray) -> Draws:
        steps, B, J = rates.shape[0], self.rule.batch, self.columns
        normals = rng.standard_normal((steps, B, self.blocks.width.size, self.width))
        normals *= np.arange(self.width) < self.blocks.width[:, None]
        outside = np.tril(rng.standard_normal((steps, self.outer.size, J, J)), -1)
        for j in range(J):
            dof = self.blocks.dof[self.outer] - j
            outside[:, :, j, j] = np.sqrt(rng.chisquare(np.maximum(dof, 1), size=(steps, self.outer.size)))
        return Draws(normals, rng.standard_normal((steps, B, normals_needed(self.problem))), outside, rates)

    def _advance(self, state: Any, teachers: Array, lengths: Array, draws: Draws, first: Array, last: Array) -> Any:
        """Steps first .. last - 1 of a block of draws."""
        draws = Draws(*(jnp.asarray(x) for x in draws))

        def step(i: Array, state: Any) -> Any:
            return self._step(state, teachers, lengths, *(x[i] for x in draws))

        return jax.lax.fori_loop(first, last, step, state)

    def _step(
        self, state: Any, teachers: Array, lengths: Array, normals: Array, xi: Array, outside: Array, rates: Array
    ) -> Any:
        (students, heads), blocks, rule = state, self.blocks, self.rule
        K, M, B = self.problem.student.hidden, self.problem.teacher.hidden, rule.batch
        student_fields = jnp.einsum("l,lkc,slc->sk", blocks.field, students[:, :K], normals)
        teacher_fields = jnp.einsum("l,lmc,slc->sm", blocks.field, teachers, normals[..., : teachers.shape[2]])
        weights, near = blocks.share * blocks.eigenvalue, students[:, :K, : teachers.shape[2]]
        overlaps = (
            jnp.einsum("l,lkc,lmc->km", weights, near, teachers),
            jnp.einsum("l,lkc,ljc->kj", weights, students[:, :K], students[:, :K]),
            jnp.einsum("l,lmc,lnc->mn", weights, teachers, teachers),
        )
        context = context_of(self.problem, rates[4], rates[5], overlaps)  # what the rule does not use is not computed
        sums = respond(self.problem, rule, heads, student_fields, teacher_fields, xi, context)
        scale = jnp.asarray(blocks.step[:, None] * blocks.mask)[..., None] / B
        inside = scale * jnp.einsum("sk,slc->lkc", sums.delta, normals)
        inside = inside - rule.decay * blocks.mask[..., None] * students[:, :K]
        moved = self._kick(students, inside, rates)
        if self.outer.size:
            factor = sums.delta.T if B <= K else jnp.linalg.qr(sums.delta, mode="r").T
            new = self._kick(
                jnp.zeros((self.outer.size, students.shape[1], 1)), scale[self.outer] * (factor @ outside), rates
            )
            span = slice(M, M + students.shape[1])
            grown = jnp.concatenate([moved[self.outer, :, span], new], axis=2)
            moved = moved.at[self.outer, :, span].set(_transpose(jnp.linalg.qr(_transpose(grown), mode="r")))
        if rule.spherical:
            present = jnp.einsum("l,lkc->k", blocks.share, moved[:, :K] ** 2)
            moved = moved.at[:, :K].multiply(jnp.sqrt(lengths / present)[:, None])
        return moved, move_heads(rule, heads, sums, rates)

    def _kick(self, rows: Array, gradient: Array, rates: Array) -> Array:
        """Students (and velocities) after a gradient on their coordinates."""
        K, rule = self.problem.student.hidden, self.rule
        kick = rates[0] * gradient
        if not rule.momentum:
            return rows[:, :K] + rates[1] * kick
        velocity = rule.keep * rows[:, K:] + kick
        return jnp.concatenate([rows[:, :K] + rates[1] * velocity, velocity], axis=1)


def _transpose(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


class WeightsLoop:
    """The weights method; state: (W, velocity, gradient, heads). Compiled once for all runs of a problem."""

    def __init__(self, problem: Problem, rule: Rule, mask: np.ndarray, dims: np.ndarray):
        self.problem, self.rule = problem, rule
        self.eigenvalues = np.repeat(np.asarray(problem.inputs.eigenvalues, dtype=float), dims)
        self.mask = mask if mask.size else np.ones((1, 1))
        self.advance = jax.jit(self._advance)

    def _advance(self, state: Any, fixed: Any, block: Any, seen: Array, first: Array, last: Array) -> Any:
        """Samples first .. last - 1 of a block.

        fixed: (W*, lengths). block: rows, noise and rates, one each per sample. seen: samples before the block.
        """
        (W_teacher, lengths), (rows, noise, rates) = fixed, (jnp.asarray(x) for x in block)

        def one(i: Array, state: Any) -> Any:
            state = self._feel(state, W_teacher, rows[i], noise[i], rates[i])
            ends = (seen + i) % self.rule.batch == self.rule.batch - 1
            return jax.lax.cond(ends, lambda s: self._move(s, lengths, rates[i]), lambda s: s, state)

        return jax.lax.fori_loop(first, last, one, state)

    def _feel(self, state: Any, W_teacher: Array, x: Array, xi: Array, rates: Array) -> Any:
        W, velocity, gradient, heads = state
        rule, root = self.rule, 1.0 / np.sqrt(self.rule.dim)
        pairs = ((W, W_teacher), (W, W), (W_teacher, W_teacher))
        overlaps = tuple((a * self.eigenvalues) @ b.T / rule.dim for a, b in pairs)
        context = context_of(self.problem, rates[4], rates[5], overlaps)
        sums = respond(self.problem, rule, heads, (W @ x)[None] * root, (W_teacher @ x)[None] * root, xi[None], context)
        gradient = gradient + (root / rule.batch) * sums.delta[0][:, None] * x
        forces: Any = (heads.readout_force + sums.readout / rule.batch, heads.bias_force + sums.bias / rule.batch)
        return W, velocity, gradient, heads._replace(readout_force=forces[0], bias_force=forces[1])

    def _move(self, state: Any, lengths: Array, rates: Array) -> Any:
        (W, velocity, gradient, heads), rule = state, self.rule
        kick = rates[0] * self.mask * (gradient - rule.decay * W)
        if rule.momentum:
            velocity = kick = rule.keep * velocity + kick
        W = W + rates[1] * kick
        if rule.spherical:
            W = W * jnp.sqrt(lengths * rule.dim / jnp.sum(W**2, axis=1))[:, None]
        sums = Sums(heads.readout, heads.readout_force, heads.bias_force)
        heads = move_heads(rule, heads, sums, rates)
        rested: Any = jnp.zeros_like(heads.readout), jnp.zeros_like(heads.bias)
        return W, velocity, jnp.zeros_like(gradient), heads._replace(readout_force=rested[0], bias_force=rested[1])
