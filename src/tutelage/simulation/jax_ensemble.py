"""All runs of an ensemble in one JAX program: the overlaps method for GPUs and thousands of runs.

The runs stay on the device. Random numbers are drawn there in blocks of steps (counter_rng.py). A loop walks through a
block, a few unrolled steps at a time, up to the next step that is recorded. The law is that of the numba loop, the numbers
are not: another generator draws them.

`EnsembleStep` is the step of numba_kernels.py (its docstring has the equations), written so that a GPU does it in a few
kernels: small matrices are Python lists of entries, each an array (levels, runs), so that everything is elementwise and XLA
fuses it. No run looks at another. Such programs are fast but compile for long, some seconds for K = 2 and minutes for K = 10:
jax_steps.py, which has the same step on whole arrays, serves single runs of any size on a CPU.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from tutelage import checks
from tutelage._types import Array, NumpyOrJax
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, Status
from tutelage.problem import Mixture, Problem, Tasks
from tutelage.problem.sample import context_of, label_of, normals_needed, updates_of, with_unseen
from tutelage.rules import Parameters, Update
from tutelage.simulation import coordinates
from tutelage.simulation.counter_rng import chi, normal, run_keys
from tutelage.simulation.jax_steps import move_parameters
from tutelage.simulation.numba_kernels import LevelLayout, ParameterState, Records, StepConstants
from tutelage.simulation.runs import Runs, empty_records, next_stop, progress_bar, write_overlaps
from tutelage.simulation.step_constants import RateTable, step_constants

if TYPE_CHECKING:
    from tutelage.simulation.request import Request

ON_CPU, ON_GPU = 2**20, 2**26  # random numbers drawn at a time
STEPS = 1024  # and at most for so many steps
UNROLLED = 72  # on a GPU, coordinates times steps that become one piece of a program: compilation time against launches
LARGEST = 600  # coordinates of one run beyond which programs compile for too long
MANY = 1000  # runs from which a GPU pays
NUMBERS = ("draws", "loss_number", "update_number", "dim", "keep", "beta")  # of a StepConstants
Row = list[Any]  # entries are arrays (levels, runs), or what broadcasts to them
Matrix = list[Row]
Overlaps = tuple[Array, Array, Array]  # R, Q, T


class State(NamedTuple):
    """rows: coordinates of the K students, then of their velocities. params: arrays (..., runs)."""

    rows: Matrix
    params: ParameterState


class Draws(NamedTuple):
    """Random numbers of a block of steps."""

    normals: Float[Array, "steps B W L runs"]
    references: Float[Array, "steps B M runs"]  # fields of the teacher, biases included
    labels: Float[Array, "steps B *label runs"]  # what the teacher says
    own: Float[Array, "steps B D runs"]  # normals of the label and the rule
    outside: Matrix  # Bartlett's factors, lower triangular of size min(B, K): rows of arrays (steps, L, runs)


class EnsembleStep(eqx.Module):
    """The step of one problem, and its random numbers. Numbers are data to a compiled program, shapes are not.

    scale: what multiplies the gradient of a sample. decays: 1 for what decays, 0 for what is frozen.
    """

    constants: StepConstants
    layout: LevelLayout
    scale: Float[np.ndarray, "K L 1"]
    decays: Float[np.ndarray, "K L 1"]
    problem: Problem
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    outer: tuple[bool, ...] = eqx.field(static=True)

    def __init__(self, problem: Problem, constants: StepConstants, layout: LevelLayout):
        numbers = {name: np.asarray(getattr(constants, name), dtype=float) for name in NUMBERS}
        self.constants, self.layout = constants._replace(**numbers), layout
        self.problem = as_arrays(problem)
        self.K, self.M = problem.student.hidden, problem.references.hidden
        self.width, self.columns = int(layout.width.max()), min(constants.batch, self.K)
        self.outer = tuple((layout.dof > 0).tolist())
        self.scale = (layout.step[:, None] * layout.mask / constants.batch).T[..., None]
        self.decays = layout.mask.T[..., None].astype(float)

    @eqx.filter_jit
    def draw(self, teachers: Matrix, keys: UInt32[Array, "2 runs"], first: NumpyOrJax, steps: int) -> Draws:
        """Numbers for steps first .. first + steps - 1 of every run. No label waits for the students."""
        B, W, L, at = self.constants.batch, self.width, len(self.outer), jnp.asarray(first) + jnp.arange(steps)
        there = (np.arange(W)[:, None] < self.layout.width)[..., None]
        inputs = normal(keys, at, np.arange(B * W * L).reshape(B, W, L)) * there
        inputs = jax.lax.optimization_barrier(inputs)  # labels read them: to draw them again would take longer
        D = normals_needed(self.problem)
        own = normal(keys, at, B * W * L + np.arange(B * D).reshape(B, D))
        fields = [self._field(teacher, [inputs[:, :, c] for c in range(W)]) for teacher in teachers]
        references = jnp.stack(fields, axis=2) + self.constants.teacher_bias[:, None]
        if self.problem.unseen is not None:
            references = jnp.broadcast_to(references, (*references.shape[:3], own.shape[3]))
            references = jnp.moveaxis(with_unseen(self.problem, *(jnp.moveaxis(x, 2, 3) for x in (references, own))), 3, 2)

        def of_step(step: Array, references: Array, own: Array) -> Array:
            problem = self.problem.labeled_at(step / self.constants.dim)
            return jax.vmap(jax.vmap(lambda reference, z: label_of(problem, reference, z), -1, -1))(references, own)

        labels = jax.vmap(of_step)(at, references, own)
        outside = self._bartlett(keys, at, B * W * L + B * D) if any(self.outer) else []
        return Draws(inputs, references, labels, own, outside)

    def _bartlett(self, keys: Array, steps: Array, first: int) -> Matrix:
        """Bartlett's factors: normal below the diagonal, lengths on it, from numbers `first` onwards."""
        J, L = self.columns, len(self.outer)
        below = first + np.arange(J * (J - 1) // 2 * L).reshape(-1, L)
        entries = iter(jnp.moveaxis(normal(keys, steps, below), 1, 0))
        dof = jnp.maximum(self.layout.dof - np.arange(J)[:, None], 1)
        lengths = chi(keys, steps, first + below.size, dof)
        return [[*(next(entries) for _ in range(i)), lengths[:, i]] for i in range(J)]

    def step(self, state: State, teachers: Matrix, lengths: Row, draws: Draws, rates: Float[Array, " 6"]) -> State:
        """One step; lengths: squared norms to hold, per student; draws: of this step."""
        B, scale, decay = self.constants.batch, self.scale, rates[-2] * self.decays
        overlaps = self._overlaps(state.rows[: self.K], teachers)  # what the rule does not use is not computed
        normals = [[draws.normals[s, c] for c in range(self.width)] for s in range(B)]
        fields = jnp.stack([jnp.stack([self._field(row, z) for row in state.rows[: self.K]]) for z in normals])
        update = self._respond(state, fields, draws, rates, overlaps)
        batch = [(z, list(update.delta[s])) for s, z in enumerate(normals)]
        forces = jnp.mean(update.parameters.readout, axis=0), jnp.mean(update.delta, axis=0)
        pushed = [[sum(delta[k] * z[c] for z, delta in batch) for c in range(self.width)] for k in range(self.K)]
        pairs = [zip(new, old, strict=True) for new, old in zip(pushed, state.rows, strict=False)]
        inside = [[scale[k] * x - decay[k] * w for x, w in pair] for k, pair in enumerate(pairs)]
        rows = self._kick(state.rows, inside, rates)
        if any(self.outer):
            factor = self._factor([delta for _, delta in batch])
            rows = self._fold_outside(rows, factor, scale, draws.outside, rates)
        if self.constants.spherical:
            rows = self._onto_sphere(rows, lengths)
        return State(rows, move_parameters(self.constants, state.params, *forces, rates))

    def _field(self, row: Row, normals: Row) -> Array:
        terms = sum(w * z for w, z in zip(row, normals, strict=False))  # teachers have fewer columns
        return jnp.sum(self.layout.field[:, None] * terms, axis=-2)

    def _overlaps(self, students: Matrix, teachers: Matrix) -> Overlaps:
        """R, Q, T of every run, runs last."""
        weights = (self.layout.share * self.layout.eigenvalue)[:, None]
        pairs = (students, teachers), (students, students), (teachers, teachers)
        R, Q, T = (jnp.sum(weights * products(a, b), axis=2) for a, b in pairs)
        return R, Q, jnp.broadcast_to(T, (*T.shape[:2], R.shape[2]))  # one teacher may serve all runs

    def _respond(
        self, state: State, fields: Float[Array, "B K runs"], draws: Draws, rates: Array, overlaps: Overlaps
    ) -> Update:
        """The updates of the samples of one step in each run, (B, ..., runs)."""
        readout, bias = map(jnp.asarray, state.params[:2])

        def one(student: Array, *of: Any) -> Update:
            reference, label, normals, norm2, readout, bias, overlaps = of
            context, parameters = context_of(self.problem, rates[4], rates[5], overlaps), Parameters(readout, bias)
            return updates_of(self.problem, student + bias, reference, label, normals, parameters, context, norm2)

        norm2 = self._norm2(draws) if self.problem.rule.uses_norm else None
        of = (fields, draws.references, draws.labels, draws.own, norm2, readout, bias, overlaps)
        return jax.vmap(one, in_axes=-1, out_axes=-1)(*of)

    def _norm2(self, draws: Draws) -> Float[Array, "1 K runs"]:
        """|x|^2 / N of a single sample, as in jax_steps.py."""
        length = jnp.sum(draws.normals[0] ** 2, axis=0)
        if any(self.outer):
            length = length + jnp.where(np.array(self.outer)[:, None], draws.outside[0][0] ** 2, 0.0)
        scale = self.layout.eigenvalue[:, None] * self.layout.mask / self.constants.dim
        return jnp.einsum("lk,lr->kr", scale, length)[None]

    def _factor(self, deltas: Matrix) -> Matrix:
        """(K, J) with factor factor^T = sum_s delta_s delta_s^T: all that the other dimensions see of a batch."""
        across = [[delta[k] for delta in deltas] for k in range(self.K)]
        if self.constants.batch <= self.K:
            return across
        return fold([[0.0 * across[0][0]] * self.K for _ in range(self.K)], across)

    def _fold_outside(
        self, rows: Matrix, factor: Matrix, scale: np.ndarray, bartlett: Matrix, rates: Float[Array, " 6"]
    ) -> Matrix:
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

    def _kick(self, rows: Matrix, gradient: Matrix, rates: Float[Array, " 6"]) -> Matrix:
        """Students (and velocities) after a gradient on their coordinates."""
        K, force, push = self.K, rates[0], rates[1]
        kicks = [[force * g for g in row] for row in gradient]
        if self.constants.momentum:
            kicks = [
                [self.constants.keep * m + kick for m, kick in zip(*pair, strict=True)]
                for pair in zip(rows[K:], kicks, strict=True)
            ]
        moved = [[w + push * kick for w, kick in zip(*pair, strict=True)] for pair in zip(rows[:K], kicks, strict=True)]
        return moved + (kicks if self.constants.momentum else [])

    def _onto_sphere(self, rows: Matrix, lengths: Row) -> Matrix:
        share = self.layout.share[:, None]
        scales = [jnp.sqrt(lengths[k] / jnp.sum(share * sum(w**2 for w in rows[k]), axis=0)) for k in range(self.K)]
        return [[w * s for w in row] for row, s in zip(rows, scales, strict=False)] + rows[self.K :]


def products(a: Matrix, b: Matrix) -> Float[Array, "A B L runs"]:
    """Inner products of all rows, level by level; teachers have fewer columns."""
    return jnp.stack([jnp.stack([sum(x * y for x, y in zip(p, q, strict=False)) for q in b]) for p in a])


def fold(Z: Matrix, extra: Matrix) -> Matrix:
    """Lower triangular Z' with Z' Z'^T = Z Z^T + extra extra^T (Householder, as `fold` in numba_kernels.py)."""
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


def run_together(request: "Request", together: bool | None) -> bool:
    """All runs in one program? As asked, or if there are a GPU and enough runs for it."""
    obstacle = None
    size = _size(request.problem, coordinates.level_layout(request.problem, request.dims))
    if request.method != "overlaps":
        obstacle = "holds for method='overlaps' only; leave it out to learn on actual weights"
    elif isinstance(request.problem.teacher, Tasks):
        obstacle = "does not support several tasks (Tasks); use together=False"
    elif isinstance(request.problem.inputs, Mixture):
        obstacle = "does not support mixtures; use together=False"
    elif size > LARGEST:
        obstacle = (
            f"does not support {size} coordinates per run in each level; programs for more than {LARGEST} compile for too "
            "long. Use together=False"
        )
    if together is None:
        return obstacle is None and request.runs >= MANY and jax.default_backend() != "cpu"
    if checks.as_flag("together", together) and obstacle is not None:
        raise InputError(f"together=True {obstacle}.")
    return together


def _size(problem: Problem, layout: LevelLayout) -> int:
    """Coordinates of one run in each level."""
    return coordinates.rows_of(problem) * int(layout.width.max())


class Ensemble:
    """The runs of one request on one device."""

    def __init__(self, request: "Request"):
        problem, last, self.request = request.problem, int(request.steps[-1]), request
        self.layout = coordinates.level_layout(problem, request.dims)
        self.step = EnsembleStep(problem, step_constants(problem, request.dim), self.layout)
        self.rates = RateTable(problem, request.dim)
        on_cpu = jax.default_backend() == "cpu"
        self.unrolled = 1 if on_cpu else max(1, UNROLLED // _size(problem, self.layout))
        numbers = request.runs * problem.samples_per_step * request.dims.size * (self.step.width + 2)
        fitting = (ON_CPU if on_cpu else ON_GPU) // numbers
        turns = int(np.clip(fitting, self.unrolled, min(STEPS, max(self.unrolled, last)))) // self.unrolled
        self.turns, self.block = None if on_cpu else turns, turns * self.unrolled

    def run(self, progress: bool) -> Runs:
        """All runs to the last step; after Ctrl-C, what was recorded so far."""
        request, runs = self.request, self.request.runs
        (state, teachers, lengths, bound), last = self._begin(), int(request.steps[-1])
        keys, records = run_keys(request.seed, runs), empty_records(request)
        ended, taken = np.full(runs, -1), 0  # where a run has diverged
        checked = (0, _within(state, bound))
        try:
            with progress_bar(last * runs, progress) as bar:
                self._write(records, 0, state, teachers)
                for first in range(0, last, self.block):
                    draws = self.step.draw(teachers, keys, np.asarray(first), self.block)
                    rates, end = self.rates.table(first, first + self.block), min(first + self.block, last)
                    while taken < end:
                        stop = next_stop(request.steps, taken, end)
                        turns = self.turns if stop - taken == self.block else None
                        span = np.asarray(taken - first), np.asarray(stop - first)
                        state = _advance(self.step, self.unrolled, turns, state, teachers, lengths, draws, rates, *span)
                        _note(ended, *checked)  # the device is busy with the next stretch meanwhile
                        checked, taken = (stop, _within(state, bound)), stop
                        self._write(records, taken, state, teachers)
                        if bar is not None:
                            bar.update(taken * runs - bar.n)
        except KeyboardInterrupt:
            if not np.isfinite(records.R[:, 0]).any():
                raise
        _note(ended, *checked)
        diverged = ended >= 0
        beyond = diverged[:, None] & (request.steps >= ended[:, None])
        for record in (x for x in records[1:] if x.size):
            record[beyond] = np.nan
        status = Status.FINISHED if taken == last else Status.INTERRUPTED
        return Runs(records, np.where(diverged, Status.DIVERGED, status), np.where(diverged, ended, taken))

    def _begin(self) -> tuple[State, Matrix, Row, Array]:
        """State, teachers, held lengths and bounds of all runs, from one start or one each."""
        problem, dims, runs = self.request.problem, self.request.dims, self.request.runs
        placed = [coordinates.place_start(problem, start, dims, self.layout) for start in self.request.starts]
        students, teachers, params, lengths, bound = jax.tree.map(lambda *x: jnp.stack(x, axis=-1), *placed)
        every_run = lambda x: jnp.broadcast_to(x, (*x.shape[:-1], runs))  # noqa: E731
        state = jax.tree.map(every_run, State(_matrix(students), params))
        return state, _matrix(teachers), list(lengths), bound

    def _write(self, records: Records, taken: int, state: State, teachers: Matrix) -> None:
        if np.any(records.steps == taken):
            r, q, readout, bias = jax.tree.map(np.asarray, _level_overlaps(self.step, state, teachers))
            write_overlaps(records, taken, self.request.field_weights, r, q, None, readout, bias)


def _note(ended: Int[np.ndarray, " runs"], taken: int, within: Bool[Array, " runs"]) -> None:
    """Runs that are no longer within bounds have ended here, unless they had before."""
    ended[(ended < 0) & ~np.asarray(within)] = taken


def _matrix(array: Float[Array, "L rows columns runs"]) -> Matrix:
    """The array as a list of lists of arrays (levels, runs)."""
    return [[array[:, i, j] for j in range(array.shape[2])] for i in range(array.shape[1])]


@eqx.filter_jit
def _advance(
    ensemble: EnsembleStep,
    unrolled: int,
    turns: int | None,
    state: State,
    teachers: Matrix,
    lengths: Row,
    draws: Draws,
    rates: NumpyOrJax,
    first: NumpyOrJax,
    last: NumpyOrJax,
) -> State:
    """Steps first .. last - 1 of a block of draws, `unrolled` at a time. turns: how often, where that is known before.

    The kernels of a loop of known length are launched without asking the device after each turn whether to go on.
    """

    def one(at: NumpyOrJax, state: State) -> State:
        return ensemble.step(state, teachers, lengths, jax.tree.map(lambda x: x[at], draws), rates[at])

    def some(turn: Array, state: State) -> State:
        for i in range(unrolled):
            state = one(first + turn * unrolled + i, state)
        return state

    if turns is not None:
        return jax.lax.fori_loop(0, turns, some, state)
    most = (last - first) // unrolled
    state = jax.lax.fori_loop(0, most, some, state)
    return jax.lax.fori_loop(first + most * unrolled, last, one, state) if unrolled > 1 else state


@jax.jit
def _within(state: State, bound: Array) -> Bool[Array, " runs"]:
    """Are all squared coordinates, and readout and biases, within the bound? Not so if one is no number."""
    params = sum(jnp.sum(x**2, axis=tuple(range(x.ndim - 1))) for x in state.params[:2])
    inside = [jnp.all(x**2 < bound, axis=0) for row in state.rows for x in row]
    return jnp.all(jnp.stack([*inside, params < bound]), axis=0)


@eqx.filter_jit
def _level_overlaps(ensemble: EnsembleStep, state: State, teachers: Matrix) -> tuple[Array, ...]:
    """r (runs, L, K, M), q (runs, L, K, K), readout and bias (runs, K)."""
    students = state.rows[: ensemble.K]
    r, q = (jnp.transpose(products(students, others), (3, 2, 0, 1)) for others in (teachers, students))
    return r, q, *(jnp.moveaxis(x, -1, 0) for x in state.params[:2])
