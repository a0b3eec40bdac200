"""The steps in JAX, for GPUs and for all that numba_kernels.py does not have.

These are any rule, loss, label and activation. Both methods follow the equations of
numba_kernels.py. JAX traces the whole step, once for each shape: numbers are data to
the compiled programs. Random numbers are drawn outside, in blocks of fixed size; a loop
with moving ends walks through a block, so that stopping to record compiles nothing
anew. `Step` moves many runs side by side: runs are the last axis of all its arrays and
are independent of each other, so that a GPU computes whole axes of runs elementwise.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage._types import Array, NumpyOrJax
from tutelage.problem import Mixture, Problem
from tutelage.problem.sample import class_of, context_of, learn
from tutelage.simulation import optimizer_steps
from tutelage.simulation.numba_kernels import (
    BIAS_RATE,
    CLIPPED,
    DECAY,
    FORCE,
    LR,
    MUON,
    PLAIN,
    PUSH,
    READOUT_RATE,
    TIME,
    LevelLayout,
    ParameterState,
    StepConstants,
)
from tutelage.simulation.prepare import OverlapsState, RateTable
from tutelage.stream.order_parameters import as_arrays
from tutelage.training.rules import Context, Parameters, Update

# Constants of a step that no compiled program depends on.
NUMBERS = (
    "loss_number",
    "update_number",
    "drift",
    "dim",
    "momentum_factor",
    "beta",
    "clip",
    "gain",
    "forget",
    "beta1",
)


def as_data(constants: StepConstants) -> StepConstants:
    """Return constants whose numbers are data to a compiled program."""
    numbers = {
        name: np.asarray(getattr(constants, name), dtype=float) for name in NUMBERS
    }
    return constants._replace(**numbers)


def respond(
    problem: Problem,
    params: ParameterState,
    student: Array,
    teacher: Array,
    xi: Array,
    context: Context,
    norm2: Any,
) -> Update:
    """Return the updates of the problem's rule by a batch.

    Its fields are (B, K) and (B, M), its numbers xi (B, D). norm2: |x|^2 / N (B, K),
    for rules that use it.
    """
    teacher_bias = problem.references.bias
    if teacher_bias is None:
        teacher_bias = 0.0
    bias = None if problem.student.bias is None else jnp.asarray(params.bias)
    return learn(
        problem,
        student=student + params.bias,
        reference=teacher + teacher_bias,
        normals=xi,
        parameters=Parameters(readout=jnp.asarray(params.readout), bias=bias),
        context=context,
        norm2=norm2,
    )


def mean_forces(update: Update) -> Parameters:
    """Return the batch's mean changes of the parameters."""
    return jax.tree.map(lambda x: jnp.mean(x, axis=0), update.parameters)


def move_parameters(
    constants: StepConstants, params: ParameterState, forces: Parameters, rates: Array
) -> ParameterState:
    """Return readout and biases after a step with the batch's mean forces."""
    if constants.train_readout:
        kept = constants.beta * params.readout_momentum
        momentum = kept + forces.readout / constants.dim
        readout = params.readout + rates[READOUT_RATE] * momentum
        params = params._replace(readout=readout, readout_momentum=momentum)
    if constants.train_bias:
        kept = constants.beta * params.bias_momentum
        assert forces.bias is not None
        momentum = kept + forces.bias / constants.dim
        bias = params.bias + rates[BIAS_RATE] * momentum
        params = params._replace(bias=bias, bias_momentum=momentum)
    return params


class Draws(NamedTuple):
    """Random numbers of a block of steps."""

    normals: Float[Array, "steps B L W runs"]  # inputs, in the weights method
    noise: Float[Array, "steps B D runs"]
    # the part of the teachers' fields that the inputs do not carry; None if they carry
    # all
    unseen: Float[Array, "steps B M runs"] | None
    # Bartlett's factors, J = min(B, K), if a level has an outside
    outside: Float[Array, "steps L J J runs"] | None
    # zeta of teachers that drift; None if they stay
    moves: Float[Array, "steps L M W runs"] | None
    # Bartlett's factors of zeta outside
    far_moves: Float[Array, "steps L M M runs"] | None


class Step(eqx.Module):
    """One step of all runs.

    response: the function that returns the updates of samples with given fields. given:
    the normals are inputs, with the mean of their class if any.
    """

    problem: Problem
    constants: StepConstants
    layout: LevelLayout
    response: Callable[..., Update] = eqx.field(static=True)
    given: bool = eqx.field(static=True)
    outer: tuple[bool, ...] = eqx.field(static=True)  # levels with an outside
    drifts: bool = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        constants: StepConstants,
        layout: LevelLayout,
        response: Callable[..., Update] = respond,
        given: bool = False,
    ):
        self.problem = as_arrays(problem.all_seen())
        self.constants = as_data(constants)
        self.layout = layout
        self.response = response
        self.given = given
        self.outer = tuple((layout.dof > 0).tolist())
        self.drifts = constants.drift > 0

    def __call__(
        self, state: OverlapsState, draws: Draws, rates: Float[Array, " cols"]
    ) -> OverlapsState:
        """Return the state after one step; draws: of this step."""
        layout = self.layout
        constants = self.constants
        students = state.students
        teachers = state.teachers
        K = self.problem.student.hidden
        M = teachers.shape[1]
        normals = draws.normals
        spread = None
        mixture = self.problem.mixture
        if mixture is not None and not self.given:
            normals, spread = self._in_classes(mixture, teachers, draws)
        update = self._updates(state, normals, spread, draws, rates)
        if constants.optimizer != PLAIN:
            moved = self._optimized(state, update, normals, rates)
            if draws.moves is None:
                return moved
            students, teachers = self._move_teachers(
                moved.students, state.teachers, state.roots, draws.moves, None
            )
            return moved._replace(students=students, teachers=teachers)
        mask = layout.mask[..., None]
        scale = (layout.step / constants.batch)[:, None, None, None]
        if normals.shape[-1] == 1:  # a single run: matrix products
            inside = jnp.einsum("bkr,blwr->lkwr", update.delta, normals)
        else:
            products = update.delta[:, None, :, None] * normals[:, :, None]
            inside = jnp.sum(products, axis=0)
        gradient = mask * (scale * inside - rates[DECAY] * students[:, :K])
        moved = self._kick(students, gradient, rates)
        if draws.outside is not None:
            factor = self._factor_outside(update.delta, spread)
            new = jnp.asarray(mask[:, :, :1] * scale) * times(factor, draws.outside)
            nothing = jnp.zeros((new.shape[0], students.shape[1], *new.shape[2:]))
            extra = self._kick(nothing, new, rates)
            moved = self._folded(moved, extra, M)
        if constants.spherical:
            share = layout.share[:, None, None, None]
            lengths = jnp.sum(share * moved[:, :K] ** 2, axis=(0, 2))
            rescale = jnp.sqrt(state.lengths / lengths)[:, None]
            moved = moved.at[:, :K].multiply(rescale)
        params = move_parameters(constants, state.params, mean_forces(update), rates)
        if draws.moves is not None:
            moved, teachers = self._move_teachers(
                moved, teachers, state.roots, draws.moves, draws.far_moves
            )
        return state._replace(students=moved, teachers=teachers, params=params)

    def _optimized(
        self,
        state: OverlapsState,
        update: Update,
        x: Float[Array, "B 1 N runs"],
        rates: Float[Array, " cols"],
    ) -> OverlapsState:
        """Return the state after one step on the weights, not of plain SGD."""
        sums = jnp.einsum("bkr,bwr->kwr", update.delta, x[:, 0])
        mask = self.layout.mask[0][..., None]
        rows = optimizer_steps.moved_weights(
            self.constants, state.students[0], mask * sums, mask, rates
        )
        move = optimizer_steps.moved_parameters
        if self.constants.optimizer in (CLIPPED, MUON):
            move = move_parameters
        params = move(self.constants, state.params, mean_forces(update), rates)
        return state._replace(students=rows[None], params=params)

    def _updates(
        self,
        state: OverlapsState,
        normals: Array,
        spread: Array | None,
        draws: Draws,
        rates: Float[Array, " cols"],
    ) -> Update:
        """Return the updates of the samples of one step in each run, (B, ..., runs)."""
        K = self.problem.student.hidden
        layout = self.layout
        runs = normals.shape[-1]
        students = state.students[:, :K]
        teachers = state.teachers

        def fields(vectors: Array) -> Float[Array, "B vectors runs"]:
            scaled = layout.field[:, None, None, None] * vectors
            in_use = normals[:, :, : vectors.shape[2]]
            if runs == 1:
                return jnp.einsum("lkwr,blwr->bkr", scaled, in_use)
            return jnp.sum(scaled * in_use[:, :, None], axis=(1, 3))

        share = layout.share[:, None, None, None]
        weights = share * layout.eigenvalue[:, None, :, None]

        def overlaps(a: Array, b: Array) -> Array:
            summed = jnp.sum(times(a, (weights * b).swapaxes(1, 2)), axis=0)
            return jnp.broadcast_to(summed, (*summed.shape[:2], runs))

        reference = fields(teachers)
        if draws.unseen is not None:
            reference = reference + draws.unseen
        # XLA computes the overlaps only if a rule uses them
        RQT = [
            overlaps(students, teachers),
            overlaps(students, students),
            overlaps(teachers, teachers),
        ]
        norm2 = None
        if self.problem.rule.uses_norm:
            norm2 = self.norm2(normals, draws.outside, spread)

        def of_run(
            params: ParameterState,
            student: Array,
            reference: Array,
            xi: Array,
            RQT: Any,
            norm2: Any,
        ) -> Update:
            context = context_of(self.problem, rates[LR], rates[TIME], tuple(RQT))
            return self.response(
                self.problem, params, student, reference, xi, context, norm2
            )

        return jax.vmap(of_run, -1, -1)(
            state.params, fields(students), reference, draws.noise, RQT, norm2
        )

    def norm2(
        self, normals: Array, outside: Array | None, spread: Array | None
    ) -> Float[Array, "1 K runs"]:
        """Return |x|^2 / N of a sample, over the levels that each unit learns on.

        It is sum_l (lam_l / N) (|e_l|^2 + chi^2_l).
        """
        mask = self.layout.mask[..., None]
        length = jnp.sum(mask * normals[0][:, None] ** 2, axis=2)
        if outside is not None:
            far = outside[:, 0, 0]
            if spread is not None:
                far = far * spread[0]
            has_outside = np.array(self.outer)[:, None]
            far2 = jnp.where(has_outside, far**2, 0.0)
            length = length + mask[:, :, 0] * far2[:, None]
        scale = self.layout.field * self.layout.step  # lam_l / N
        return jnp.sum(scale[:, None, None] * length, axis=0)[None]

    def _in_classes(
        self, mixture: Mixture, teachers: Array, draws: Draws
    ) -> tuple[Float[Array, "B L W runs"], Float[Array, "B L runs"]]:
        """Return the numbers e of samples of drawn classes, with the mean of the class.

        The second array is the factor by which the noise of the class is wider.
        """
        share = self.layout.share
        lam = self.layout.eigenvalue[:, 0]
        per_level = jnp.sqrt(share / lam)[:, None, None, None]
        vectors = teachers[:, self.problem.label_fields :] * per_level  # b_m
        coefficients = jnp.asarray(mixture.coefficients)
        means = jnp.einsum("cm,lmir->clir", coefficients, vectors)
        beyond = draws.normals.shape[2] - vectors.shape[2]
        means = jnp.pad(means, ((0, 0), (0, 0), (0, beyond), (0, 0)))
        classes = jax.vmap(lambda xi: class_of(mixture, xi), -1, -1)(draws.noise)
        widths = jnp.sqrt(jnp.asarray(mixture.spectra) / lam)
        spread = jnp.moveaxis(widths[classes], 2, 1)
        one_hot = jax.nn.one_hot(classes, means.shape[0], axis=0)
        chosen = one_hot[:, :, None, None]  # (classes, B, 1, 1, runs)
        mean = jnp.sum(chosen * means[:, None], axis=0)
        return spread[:, :, None] * draws.normals + mean, spread

    def _kick(self, rows: Array, gradient: Array, rates: Array) -> Array:
        """Return students (and velocities) after a gradient on their coordinates."""
        K = self.problem.student.hidden
        kick = rates[FORCE] * gradient
        if not self.constants.momentum:
            return rows[:, :K] + rates[PUSH] * kick
        velocity = self.constants.momentum_factor * rows[:, K:] + kick
        students = rows[:, :K] + rates[PUSH] * velocity
        return jnp.concatenate([students, velocity], axis=1)

    def _factor_outside(self, delta: Array, spread: Array | None) -> Array:
        """Return a factor (L or 1, K, J, runs) of delta delta^T.

        The dimensions outside of the span depend on a batch through this product alone.
        """
        K = delta.shape[1]
        factor = jnp.swapaxes(delta, 0, 1)[None]
        if spread is not None:
            factor = factor * jnp.swapaxes(spread, 0, 1)[:, None]
        if self.constants.batch <= K:
            return factor
        return fold(factor[:, :, :K], factor[:, :, K:])

    def _move_teachers(
        self,
        students: Array,
        teachers: Array,
        roots: Array,
        moves: Array,
        far_moves: Array | None,
    ) -> tuple[Array, Array]:
        """Return students and teachers after a drift of the teachers.

        w* <- (1 - omega/N) w* + sqrt(2 omega/N) zeta.

        The new basis is one in which the teachers are lower triangular again.
        """
        drift = self.constants.drift
        M, columns = teachers.shape[1:3]
        W = students.shape[2]
        dims = self.layout.width + self.layout.dof
        scaled = roots * jnp.sqrt(2.0 * drift / dims)[:, None, None, None]
        kept = (1.0 - drift) * teachers
        kept = jnp.pad(kept, ((0, 0), (0, 0), (0, W - columns), (0, 0)))
        vectors = jnp.concatenate([kept + times(scaled, moves), students], axis=1)
        if far_moves is not None:
            far = times(scaled, far_moves)
            far = jnp.pad(far, ((0, 0), (0, students.shape[1]), (0, 0), (0, 0)))
            vectors = self._folded(vectors, far, 0)
        return vectors[:, M:], vectors[:, :M, :columns]

    def _folded(self, rows: Array, extra: Array, first: int) -> Array:
        """Return rows whose columns from `first` on take up new columns.

        Levels without an outside stay.
        """
        end = first + rows.shape[1]
        span = rows[:, :, first:end]
        has_outside = np.array(self.outer)[:, None, None, None]
        folded = jnp.where(has_outside, fold(span, extra), span)
        return jnp.concatenate([rows[:, :, :first], folded, rows[:, :, end:]], axis=2)


def times(
    a: Float[NumpyOrJax, "L A C runs"], b: Float[NumpyOrJax, "L D B runs"]
) -> Float[Array, "L A B runs"]:
    """Return products of the first D columns of a with b, elementwise.

    A GPU computes them in one kernel with the operations around them.
    """
    return jnp.sum(a[:, :, : b.shape[1], None] * b[:, None], axis=2)


def fold(
    Z: Float[Array, "L n n runs"], extra: Float[Array, "L n c runs"]
) -> Float[Array, "L n n runs"]:
    """Return lower triangular Z' with Z' Z'^T = Z Z^T + extra extra^T.

    Householder reflections, as `fold` in numba_kernels.py.
    """
    rows = jnp.concatenate([Z, extra], axis=2)
    columns = []
    for j in range(Z.shape[1]):
        # rows: those from j on, in the columns from j on
        head = rows[:, 0, 0]
        tail = jnp.sum(rows[:, 0, 1:] ** 2, axis=1)
        moves = tail >= 1e-280
        norm = jnp.sqrt(head * head + tail)
        image = jnp.where(moves, jnp.where(head > 0, -norm, norm), head)
        mirror = jnp.concatenate([(head - image)[:, None], rows[:, 0, 1:]], axis=1)
        squared = jnp.where(moves, norm * (norm + jnp.abs(head)), 1.0)
        strength = jnp.where(moves, 1.0 / squared, 0.0)
        dots = strength[:, None] * jnp.sum(mirror[:, None] * rows[:, 1:], axis=2)
        rows = rows[:, 1:] - dots[:, :, None] * mirror[:, None]
        column = jnp.concatenate([image[:, None], rows[:, :, 0]], axis=1)
        columns.append(jnp.pad(column, ((0, 0), (j, 0), (0, 0))))
        rows = rows[:, :, 1:]
    return jnp.stack(columns, axis=2)


@eqx.filter_jit
def advance(
    step: Step,
    whole: int | None,
    state: OverlapsState,
    draws: Draws,
    rates: Any,
    first: Any,
    last: Any,
) -> OverlapsState:
    """Return the state after steps first .. last - 1 of a block of draws.

    whole: the steps of the block, if they are all of it. The kernels of a loop of known
    length are launched without asking the device after each step whether to continue;
    two steps in a turn are a tenth faster.
    """

    def take(place: Array, state: OverlapsState) -> OverlapsState:
        draws_of_step = jax.tree.map(lambda x: x[place], draws)
        return step(state, draws_of_step, jnp.asarray(rates)[place])

    if whole is None:
        return jax.lax.fori_loop(first, last, take, state)
    return jax.lax.fori_loop(0, whole, take, state, unroll=2)


def stops(
    step: Step,
    rates: RateTable,
    state: OverlapsState,
    steps: Int[np.ndarray, " time"],
    block: int,
    draws: Iterator[Draws],
) -> Iterator[tuple[int, OverlapsState]]:
    """Yield the steps taken and the state after them.

    The loop stops at the start, at each recorded step and at the end of each block of
    draws.
    """
    taken = 0
    last = int(steps[-1])
    block_draws: Any = None
    yield taken, state
    while taken < last:
        first = taken - taken % block
        if taken == first:
            block_draws = next(draws)
        next_record = steps[np.searchsorted(steps, taken, side="right")]
        stop = min(first + block, int(next_record))
        is_whole = stop - taken == block and jax.default_backend() != "cpu"
        state = advance(
            step,
            block if is_whole else None,
            state,
            block_draws,
            rates.table(first, first + block),
            np.asarray(taken - first),
            np.asarray(stop - first),
        )
        taken = stop
        yield taken, state
