"""One step of the overlaps method for many runs side by side: a run is a lane, and no lane looks at another.

The same step as in compiled.py (its docstring has the equations), written so that a GPU does it in a few kernels: small
matrices are Python lists of entries, each an array (levels, runs), so that everything is elementwise and XLA fuses it.
Random numbers belong to a run and a step (numbered.py), whatever the block of steps in which they are drawn.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.integrate import as_arrays
from tutelage.problem import Problem
from tutelage.problem.sample import context_of, label_of, normals_needed, update_of
from tutelage.rules import Parameters, Update
from tutelage.simulation.layout import Blocks, Rule
from tutelage.simulation.numbered import chi, normal

NUMBERS = ("label_number", "draws", "loss_number", "update_number", "dim", "decay", "keep", "beta")  # of a Rule
Matrix = list[list[Any]]  # entries are arrays (levels, runs), or what broadcasts to them


class State(NamedTuple):
    """rows: coordinates of the K students, then of their velocities. The rest: arrays (..., runs), as `Heads` has them."""

    rows: Matrix
    readout: Any
    bias: Any
    readout_momentum: Any
    bias_momentum: Any


class Draws(NamedTuple):
    """Random numbers of a block of steps."""

    normals: Any  # (steps, B, W, L, runs)
    references: Any  # (steps, B, M, runs): fields of the teacher, biases included
    labels: Any  # (steps, B, ..., runs): what the teacher says
    own: Any  # (steps, B, D, runs): normals of the label and the rule
    outside: Matrix  # Bartlett's factors, lower triangular of size min(B, K): rows of arrays (steps, L, runs)


class Lanes(eqx.Module):
    """The step of one problem, and its random numbers. Numbers are data to a compiled program, shapes are not.

    scale, decay: (K, L, 1), what multiplies the pull of a sample, and what decays.
    """

    rule: Rule
    blocks: Blocks
    scale: np.ndarray
    decay: np.ndarray
    problem: Problem
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    outer: tuple[bool, ...] = eqx.field(static=True)

    def __init__(self, problem: Problem, rule: Rule, blocks: Blocks):
        numbers = {name: np.asarray(getattr(rule, name), dtype=float) for name in NUMBERS}
        self.rule, self.blocks = rule._replace(**numbers), blocks
        self.problem = as_arrays(problem)
        self.K, self.M = problem.student.hidden, problem.teacher.hidden
        self.width, self.columns = int(blocks.width.max()), min(rule.batch, self.K)
        self.outer = tuple((blocks.dof > 0).tolist())
        self.scale = (blocks.step[:, None] * blocks.mask / rule.batch).T[..., None]
        self.decay = (rule.decay * blocks.mask).T[..., None]

    def draw(self, teachers: Matrix, keys: Array, first: Array, steps: int) -> Draws:
        """Numbers for steps first .. first + steps - 1 of every run; keys: (2, runs). No label waits for the students."""
        B, W, L, at = self.rule.batch, self.width, len(self.outer), first + jnp.arange(steps)
        there = (np.arange(W)[:, None] < self.blocks.width)[..., None]
        inputs = normal(keys, at, np.arange(B * W * L).reshape(B, W, L)) * there
        inputs = jax.lax.optimization_barrier(inputs)  # labels read them: to draw them again would take longer
        D = normals_needed(self.problem)
        own = normal(keys, at, B * W * L + np.arange(B * D).reshape(B, D))
        fields = [self._field(teacher, [inputs[:, :, c] for c in range(W)]) for teacher in teachers]
        references = jnp.stack(fields, axis=2) + self.rule.teacher_bias[:, None]
        each = lambda reference, normals: label_of(self.problem, reference, normals)  # noqa: E731
        labels = jax.vmap(jax.vmap(jax.vmap(each, -1, -1)))(references, own)
        outside = self._bartlett(keys, at, B * W * L + B * D) if any(self.outer) else []
        return Draws(inputs, references, labels, own, outside)

    def _bartlett(self, keys: Array, steps: Array, first: int) -> Matrix:
        """Bartlett's factors: normal below the diagonal, lengths on it, from numbers `first` onwards."""
        J, L = self.columns, len(self.outer)
        below = first + np.arange(J * (J - 1) // 2 * L).reshape(-1, L)
        entries = iter(jnp.moveaxis(normal(keys, steps, below), 1, 0))
        dof = jnp.maximum(self.blocks.dof - np.arange(J)[:, None], 1)
        lengths = chi(keys, steps, first + below.size, dof)
        return [[*(next(entries) for _ in range(i)), lengths[:, i]] for i in range(J)]

    def step(self, state: State, teachers: Matrix, lengths: Any, draws: Draws, rates: Array) -> State:
        """One step; lengths: squared norms to hold, per student; draws: of this step."""
        B, scale, decay = self.rule.batch, self.scale, self.decay
        batch: list[tuple[list[Any], list[Any]]] = []
        forces: Any = 0.0, 0.0
        overlaps = self._overlaps(state.rows[: self.K], teachers)  # what the rule does not use is not computed
        for s in range(B):
            normals = [draws.normals[s, c] for c in range(self.width)]
            fields = [self._field(row, normals) for row in state.rows[: self.K]]
            update = self._respond(state, fields, draws.references[s], draws.labels[s], draws.own[s], rates, overlaps)
            batch.append((normals, list(update.delta)))
            forces = forces[0] + update.parameters.readout, forces[1] + update.delta
        pull = [[sum(delta[k] * z[c] for z, delta in batch) for c in range(self.width)] for k in range(self.K)]
        inside = [[scale[k] * p - decay[k] * w for p, w in zip(pull[k], state.rows[k], strict=True)] for k in range(self.K)]
        rows = self._kick(state.rows, inside, rates)
        if any(self.outer):
            factor = self._factor([delta for _, delta in batch])
            rows = self._fold_outside(rows, factor, scale, draws.outside, rates)
        if self.rule.spherical:
            rows = self._onto_sphere(rows, lengths)
        return self._move_heads(state._replace(rows=rows), forces, rates)

    def _field(self, row: list[Any], normals: list[Any]) -> Any:
        terms = sum(w * z for w, z in zip(row, normals, strict=False))  # teachers have fewer columns
        return jnp.sum(self.blocks.field[:, None] * terms, axis=-2)

    def _overlaps(self, students: Matrix, teachers: Matrix) -> tuple[Array, Array, Array]:
        """R, Q, T of every run, runs last."""
        weights = (self.blocks.share * self.blocks.eigenvalue)[:, None]

        def product(a: list[Any], b: list[Any]) -> Array:
            return jnp.sum(weights * sum(x * y for x, y in zip(a, b, strict=False)), axis=0)

        pairs = ((students, teachers), (students, students), (teachers, teachers))
        R, Q, T = (jnp.stack([jnp.stack([product(a, b) for b in B]) for a in A]) for A, B in pairs)
        return R, Q, jnp.broadcast_to(T, (*T.shape[:2], R.shape[2]))  # one teacher may serve all runs

    def _respond(
        self, state: State, fields: list[Any], references: Any, labels: Any, normals: Any, rates: Array, overlaps: Any
    ) -> Update:
        """The update of one sample in each run; its arrays have the runs last."""

        def one(
            student: Array, reference: Array, label: Array, normals: Array, readout: Array, bias: Array, overlaps: Any
        ) -> Update:
            context = context_of(self.problem, rates[4], rates[5], overlaps)
            return update_of(self.problem, student, reference, label, normals, Parameters(readout, bias), context)

        arguments = (jnp.stack(fields) + state.bias, references, labels, normals, state.readout, state.bias, overlaps)
        return jax.vmap(one, in_axes=-1, out_axes=-1)(*arguments)

    def _factor(self, deltas: Matrix) -> Matrix:
        """(K, J) with factor factor^T = sum_s delta_s delta_s^T: all that the other dimensions see of a batch."""
        across = [[delta[k] for delta in deltas] for k in range(self.K)]
        if self.rule.batch <= self.K:
            return across
        return fold([[0.0 * across[0][0]] * self.K for _ in range(self.K)], across)

    def _fold_outside(self, rows: Matrix, factor: Matrix, scale: Any, bartlett: Matrix, rates: Array) -> Matrix:
        """The step along all other dimensions: new columns, folded back into Z where a level has an outside."""
        K, J, first, span = self.K, self.columns, self.M, len(rows)
        new = [[scale[k] * sum(factor[k][i] * bartlett[i][j] for i in range(j, J)) for j in range(J)] for k in range(K)]
        extra = self._kick([[0.0] * J for _ in rows], new, rates)
        folded = fold([row[first : first + span] for row in rows], extra)
        if not all(self.outer):
            there = np.array(self.outer)[:, None]
            folded = [
                [jnp.where(there, a, b) for a, b in zip(new, row[first : first + span], strict=True)]
                for new, row in zip(folded, rows, strict=True)
            ]
        return [[*row[:first], *z, *row[first + span :]] for row, z in zip(rows, folded, strict=True)]

    def _kick(self, rows: Matrix, gradient: Matrix, rates: Array) -> Matrix:
        """Students (and velocities) after a gradient on their coordinates."""
        K, force, push = self.K, rates[0], rates[1]
        kicks = [[force * g for g in row] for row in gradient]
        if self.rule.momentum:
            kicks = [
                [self.rule.keep * m + kick for m, kick in zip(*pair, strict=True)]
                for pair in zip(rows[K:], kicks, strict=True)
            ]
        moved = [[w + push * kick for w, kick in zip(*pair, strict=True)] for pair in zip(rows[:K], kicks, strict=True)]
        return moved + (kicks if self.rule.momentum else [])

    def _onto_sphere(self, rows: Matrix, lengths: Any) -> Matrix:
        share = self.blocks.share[:, None]
        scales = [jnp.sqrt(lengths[k] / jnp.sum(share * sum(w**2 for w in rows[k]), axis=0)) for k in range(self.K)]
        return [[w * s for w in row] for row, s in zip(rows, scales, strict=False)] + rows[self.K :]

    def _move_heads(self, state: State, forces: Any, rates: Array) -> State:
        """Readout and biases learn from the batch's sums."""
        rule, scale = self.rule, 1.0 / (self.rule.dim * self.rule.batch)
        readout, bias, v_momentum, b_momentum = state[1:]
        if rule.train_readout:
            v_momentum = rule.beta * v_momentum + scale * forces[0]
            readout = readout + rates[2] * v_momentum
        if rule.train_bias:
            b_momentum = rule.beta * b_momentum + scale * forces[1]
            bias = bias + rates[3] * b_momentum
        return State(state.rows, readout, bias, v_momentum, b_momentum)


def fold(Z: Matrix, extra: Matrix) -> Matrix:
    """Lower triangular Z' with Z' Z'^T = Z Z^T + extra extra^T (Householder, as `fold` in compiled.py)."""
    count = len(Z)
    rows = [[*z, *e] for z, e in zip(Z, extra, strict=True)]
    for j in range(count):
        head, rest = rows[j][j], rows[j][j + 1 :]
        tail = sum(x * x for x in rest)
        moves = tail >= 1e-280
        norm = jnp.sqrt(head * head + tail)
        image = jnp.where(head > 0, -norm, norm)
        u0 = head - image
        strength = jnp.where(moves, 1.0 / jnp.where(moves, norm * (norm + jnp.abs(head)), 1.0), 0.0)
        for i in range(j + 1, count):
            dot = strength * (u0 * rows[i][j] + sum(a * b for a, b in zip(rest, rows[i][j + 1 :], strict=True)))
            rows[i][j] = rows[i][j] - dot * u0
            rows[i][j + 1 :] = [b - dot * a for a, b in zip(rest, rows[i][j + 1 :], strict=True)]
        rows[j] = rows[j][:j] + [jnp.where(moves, image, head)] + [jnp.zeros_like(tail)] * len(rest)
    return [row[:count] for row in rows]
