"""The steps in JAX, for every rule, loss, label and activation that numba_kernels.py does not have, and for GPUs.

Both methods follow the equations of numba_kernels.py. JAX traces the whole step, once for each shape: numbers are data to the
compiled programs. Random numbers are drawn outside, in blocks of fixed size; a loop with moving ends walks through a block, so
that stopping to record compiles nothing anew. `Step` moves many runs side by side: runs are the last axis of all its
arrays and none looks at another, so that a GPU computes whole axes of runs elementwise.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage._types import Array, NumpyOrJax
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.problem import Mixture, Problem
from tutelage.problem.sample import class_of, context_of, learn
from tutelage.rules import Context, Parameters, Update
from tutelage.simulation.numba_kernels import LevelLayout, ParameterState, StepConstants
from tutelage.simulation.prepare import OverlapsState, RateTable

NUMBERS = ("loss_number", "update_number", "drift", "dim", "keep", "beta")  # constants that no program depends on


def as_data(constants: StepConstants) -> StepConstants:
    """Constants whose numbers are data to a compiled program."""
    return constants._replace(**{name: np.asarray(getattr(constants, name), dtype=float) for name in NUMBERS})


def respond(
    problem: Problem, params: ParameterState, student: Array, teacher: Array, xi: Array, context: Context, norm2: Any
) -> Update:
    """The updates of the problem's rule by a batch with these fields (B, K), (B, M) and numbers xi (B, D).

    norm2: |x|^2 / N (B, K), for rules that look at it.
    """
    bias = 0.0 if problem.references.bias is None else problem.references.bias
    parameters = Parameters(jnp.asarray(params.readout), jnp.asarray(params.bias))
    return learn(problem, student + params.bias, teacher + bias, xi, parameters, context, norm2)


def move_parameters(
    constants: StepConstants, params: ParameterState, readout_force: NumpyOrJax, bias_force: NumpyOrJax, rates: Array
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
    """Random numbers of a block of steps. normals: inputs, in the weights method. moves: zeta of teachers that drift; None if
    they stay."""

    normals: Float[Array, "steps B L W runs"]
    noise: Float[Array, "steps B D runs"]
    unseen: Float[Array, "steps B M runs"] | None  # what the inputs do not carry of the teachers' fields
    outside: Float[Array, "steps L J J runs"] | None  # Bartlett's factors, J = min(B, K), if a level has an outside
    moves: Float[Array, "steps L M W runs"] | None
    far_moves: Float[Array, "steps L M M runs"] | None  # Bartlett's factors of what lies outside


class Step(eqx.Module):
    """One step. response: what samples with given fields do. given: they are inputs, with the mean of their class if any."""

    problem: Problem
    constants: StepConstants
    layout: LevelLayout
    response: Callable[..., Update] = eqx.field(static=True)
    given: bool = eqx.field(static=True)
    outer: tuple[bool, ...] = eqx.field(static=True)
    drifts: bool = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        constants: StepConstants,
        layout: LevelLayout,
        response: Callable[..., Update] = respond,
        given: bool = False,
    ):
        self.problem, self.constants, self.layout = as_arrays(problem.all_seen()), as_data(constants), layout
        self.response, self.given = response, given
        self.outer, self.drifts = tuple((layout.dof > 0).tolist()), constants.drift > 0

    def __call__(self, state: OverlapsState, draws: Draws, rates: Float[Array, " cols"]) -> OverlapsState:
        """One step of all runs; draws: of this step."""
        (students, teachers, params, roots, lengths, _), layout, constants = state, self.layout, self.constants
        K, M, B = self.problem.student.hidden, teachers.shape[1], constants.batch
        normals, spread = draws.normals, None
        if isinstance(self.problem.inputs, Mixture) and not self.given:
            normals, spread = self._in_classes(self.problem.inputs, teachers, draws)
        update = self._respond(state, normals, spread, draws, rates)
        mask, scale = layout.mask[..., None], (layout.step / B)[:, None, None, None]
        if normals.shape[-1] == 1:  # a single run: matrix products
            inside = jnp.einsum("bkr,blwr->lkwr", update.delta, normals)
        else:
            inside = jnp.sum(update.delta[:, None, :, None] * normals[:, :, None], axis=0)
        moved = self._kick(students, mask * (scale * inside - rates[-2] * students[:, :K]), rates)
        if draws.outside is not None:
            factor = jnp.swapaxes(update.delta, 0, 1)[None]  # (1, K, B, runs): all that the other dimensions see
            factor = factor if spread is None else factor * jnp.swapaxes(spread, 0, 1)[:, None]
            factor = factor if B <= K else fold(factor[:, :, :K], factor[:, :, K:])
            new = jnp.asarray(mask[:, :, :1] * scale) * times(factor, draws.outside)
            extra = self._kick(jnp.zeros((new.shape[0], students.shape[1], *new.shape[2:])), new, rates)
            moved = self._folded(moved, extra, M)
        if constants.spherical:
            present = jnp.sum(layout.share[:, None, None, None] * moved[:, :K] ** 2, axis=(0, 2))
            moved = moved.at[:, :K].multiply(jnp.sqrt(lengths / present)[:, None])
        forces = jnp.mean(update.parameters.readout, axis=0), jnp.mean(update.delta, axis=0)
        params = move_parameters(constants, params, *forces, rates)
        if draws.moves is not None:
            moved, teachers = self._move_teachers(moved, teachers, roots, draws.moves, draws.far_moves)
        return state._replace(students=moved, teachers=teachers, params=params)

    def _respond(
        self, state: OverlapsState, normals: Array, spread: Array | None, draws: Draws, rates: Float[Array, " cols"]
    ) -> Update:
        """The updates of the samples of one step in each run, (B, ..., runs)."""
        K, layout = self.problem.student.hidden, self.layout
        students, teachers = state.students[:, :K], state.teachers

        def fields(vectors: Array) -> Float[Array, "B vectors runs"]:
            scaled, seen = layout.field[:, None, None, None] * vectors, normals[:, :, : vectors.shape[2]]
            if normals.shape[-1] == 1:
                return jnp.einsum("lkwr,blwr->bkr", scaled, seen)
            return jnp.sum(scaled * seen[:, :, None], axis=(1, 3))

        reference = fields(teachers) if draws.unseen is None else fields(teachers) + draws.unseen
        weights, runs = layout.share[:, None, None, None] * layout.eigenvalue[:, None, :, None], normals.shape[-1]
        pairs = (students, teachers), (students, students), (teachers, teachers)
        R, Q, T = (jnp.sum(times(a, (weights * b).swapaxes(1, 2)), axis=0) for a, b in pairs)  # computed if a rule uses them
        overlaps = [jnp.broadcast_to(x, (*x.shape[:2], runs)) for x in (R, Q, T)]
        norm2 = self.norm2(normals, draws.outside, spread) if self.problem.rule.uses_norm else None

        def one(params: ParameterState, student: Array, reference: Array, xi: Array, overlaps: Any, norm2: Any) -> Update:
            context = context_of(self.problem, rates[4], rates[5], tuple(overlaps))
            return self.response(self.problem, params, student, reference, xi, context, norm2)

        return jax.vmap(one, -1, -1)(state.params, fields(students), reference, draws.noise, overlaps, norm2)

    def norm2(self, normals: Array, outside: Array | None, spread: Array | None) -> Float[Array, "1 K runs"]:
        """|x|^2 / N = sum_l (lam_l / N) (|e_l|^2 + chi^2_l) of a single sample, over the levels that each unit learns on."""
        mask = self.layout.mask[..., None]
        length = jnp.sum(mask * normals[0][:, None] ** 2, axis=2)
        if outside is not None:
            far = outside[:, 0, 0] if spread is None else outside[:, 0, 0] * spread[0]
            length = length + mask[:, :, 0] * jnp.where(np.array(self.outer)[:, None], far**2, 0.0)[:, None]
        scale = self.layout.field * self.layout.step  # lam_l / N
        return jnp.sum(scale[:, None, None] * length, axis=0)[None]

    def _in_classes(
        self, mixture: Mixture, teachers: Array, draws: Draws
    ) -> tuple[Float[Array, "B L W runs"], Float[Array, "B L runs"]]:
        """The numbers e of samples of drawn classes, with the mean of the class, and how much wider their noise is."""
        share, lam = self.layout.share, self.layout.eigenvalue[:, 0]
        vectors = teachers[:, self.problem.label_fields :] * jnp.sqrt(share / lam)[:, None, None, None]  # b_m
        means = jnp.einsum("cm,lmir->clir", jnp.asarray(mixture.coefficients), vectors)
        means = jnp.pad(means, ((0, 0), (0, 0), (0, draws.normals.shape[2] - vectors.shape[2]), (0, 0)))
        which = jax.vmap(lambda xi: class_of(mixture, xi), -1, -1)(draws.noise)
        spread = jnp.moveaxis(jnp.sqrt(jnp.asarray(mixture.spectra) / lam)[which], 2, 1)
        chosen = jax.nn.one_hot(which, means.shape[0], axis=0)[:, :, None, None]  # (classes, B, 1, 1, runs)
        return spread[:, :, None] * draws.normals + jnp.sum(chosen * means[:, None], axis=0), spread

    def _kick(self, rows: Array, gradient: Array, rates: Array) -> Array:
        """Students (and velocities) after a gradient on their coordinates."""
        K, kick = self.problem.student.hidden, rates[0] * gradient
        if not self.constants.momentum:
            return rows[:, :K] + rates[1] * kick
        velocity = self.constants.keep * rows[:, K:] + kick
        return jnp.concatenate([rows[:, :K] + rates[1] * velocity, velocity], axis=1)

    def _move_teachers(
        self, students: Array, teachers: Array, roots: Array, moves: Array, far_moves: Array | None
    ) -> tuple[Array, Array]:
        """w* <- (1 - omega/N) w* + sqrt(2 omega/N) zeta, in a basis in which the teachers are lower triangular again."""
        drift, (M, columns), W = self.constants.drift, teachers.shape[1:3], students.shape[2]
        scaled = roots * jnp.sqrt(2.0 * drift / (self.layout.width + self.layout.dof))[:, None, None, None]
        wide = jnp.pad((1.0 - drift) * teachers, ((0, 0), (0, 0), (0, W - columns), (0, 0)))
        vectors = jnp.concatenate([wide + times(scaled, moves), students], axis=1)
        if far_moves is not None:
            far = jnp.pad(times(scaled, far_moves), ((0, 0), (0, students.shape[1]), (0, 0), (0, 0)))
            vectors = self._folded(vectors, far, 0)
        return vectors[:, M:], vectors[:, :M, :columns]

    def _folded(self, rows: Array, extra: Array, first: int) -> Array:
        """Rows whose columns from `first` onwards take up new columns, where a level has an outside."""
        span = slice(first, first + rows.shape[1])
        there = np.array(self.outer)[:, None, None, None]
        folded = jnp.where(there, fold(rows[:, :, span], extra), rows[:, :, span])
        return jnp.concatenate([rows[:, :, :first], folded, rows[:, :, span.stop :]], axis=2)


def times(a: Float[Array, "L A C runs"], b: Float[Array, "L D B runs"]) -> Float[Array, "L A B runs"]:
    """Products of the first D columns of a with b, elementwise: a GPU does them in one kernel with what is next to them."""
    return jnp.sum(a[:, :, : b.shape[1], None] * b[:, None], axis=2)


def fold(Z: Float[Array, "L n n runs"], extra: Float[Array, "L n c runs"]) -> Float[Array, "L n n runs"]:
    """Lower triangular Z' with Z' Z'^T = Z Z^T + extra extra^T (Householder, as `fold` in numba_kernels.py)."""
    rows, columns = jnp.concatenate([Z, extra], axis=2), []
    for j in range(Z.shape[1]):  # rows: those from j onwards, in the columns from j onwards
        head, tail = rows[:, 0, 0], jnp.sum(rows[:, 0, 1:] ** 2, axis=1)
        moves, norm = tail >= 1e-280, jnp.sqrt(head * head + tail)
        image = jnp.where(moves, jnp.where(head > 0, -norm, norm), head)
        mirror = jnp.concatenate([(head - image)[:, None], rows[:, 0, 1:]], axis=1)
        strength = jnp.where(moves, 1.0 / jnp.where(moves, norm * (norm + jnp.abs(head)), 1.0), 0.0)
        dots = strength[:, None] * jnp.sum(mirror[:, None] * rows[:, 1:], axis=2)
        rows = rows[:, 1:] - dots[:, :, None] * mirror[:, None]
        column = jnp.concatenate([image[:, None], rows[:, :, 0]], axis=1)
        columns.append(jnp.pad(column, ((0, 0), (j, 0), (0, 0))))
        rows = rows[:, :, 1:]
    return jnp.stack(columns, axis=2)


@eqx.filter_jit
def advance(
    step: Step, whole: int | None, state: OverlapsState, draws: Draws, rates: Any, first: Any, last: Any
) -> OverlapsState:
    """Steps first .. last - 1 of a block of draws. whole: the steps of the block, if they are all of it.

    The kernels of a loop of known length are launched without asking the device after each step whether to go on; two steps
    in a turn are a tenth faster.
    """

    def one(at: Array, state: OverlapsState) -> OverlapsState:
        return step(state, jax.tree.map(lambda x: x[at], draws), jnp.asarray(rates)[at])

    return jax.lax.fori_loop(first, last, one, state) if whole is None else jax.lax.fori_loop(0, whole, one, state, unroll=2)


def stops(
    step: Step, rates: RateTable, state: OverlapsState, steps: Int[np.ndarray, " time"], block: int, draws: Iterator[Draws]
) -> Iterator[tuple[int, OverlapsState]]:
    """The steps taken and the state after them: at the start, at each recorded step and at the end of each block of draws."""
    taken, last = 0, int(steps[-1])
    drawn: Any = None
    yield taken, state
    while taken < last:
        first = taken - taken % block
        if taken == first:
            drawn = next(draws)
        later = steps[np.searchsorted(steps, taken, side="right")]
        stop = min(first + block, int(later))
        whole = block if stop - taken == block and jax.default_backend() != "cpu" else None
        span = np.asarray(taken - first), np.asarray(stop - first)
        state = advance(step, whole, state, drawn, rates.table(first, first + block), *span)
        taken = stop
        yield taken, state
