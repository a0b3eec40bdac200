"""All runs of an ensemble in one JAX program: the overlaps method for GPUs and thousands of runs.

The runs stay on the device; random numbers are drawn there in blocks of steps, and a loop walks through a block (lanes.py),
a few unrolled steps at a time, up to the next step that is recorded. The law is that of the compiled loop, the numbers are
not: another generator draws them.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError, Status
from tutelage._types import Array
from tutelage.problem import Problem, Start
from tutelage.simulation import coordinates
from tutelage.simulation.ensemble import Runs, bar_for
from tutelage.simulation.lanes import Draws, Lanes, State
from tutelage.simulation.layout import Blocks, Heads, Records
from tutelage.simulation.numbered import run_keys
from tutelage.simulation.overlaps import divergence_bound, field_weights
from tutelage.simulation.rates import Rates, rule_of
from tutelage.simulation.records import empty_records, next_stop

ON_CPU, ON_GPU = 2**20, 2**26  # random numbers drawn at a time
STEPS = 1024  # and at most for so many steps
UNROLLED = 72  # on a GPU, coordinates times steps that become one piece of a program: compilation time against launches
LARGEST = 600  # coordinates of one run beyond which programs compile for too long
MANY = 1000  # runs from which a GPU pays


def refuse_if_unfit(problem: Problem, dims: np.ndarray, method: str) -> None:
    """One sentence for what cannot run together."""
    if method != "overlaps":
        raise InputError("together=True holds for method='overlaps' only; leave it out to learn on actual weights.")
    size = _size(problem, coordinates.blocks_of(problem, dims))
    if size > LARGEST:
        raise InputError(
            f"each level has {size} coordinates per run, and programs for more than {LARGEST} compile for too long; use "
            "together=False."
        )


def pays(problem: Problem, dims: np.ndarray, method: str, runs: int) -> bool:
    """Is there a GPU, and enough work for it?"""
    fits = method == "overlaps" and _size(problem, coordinates.blocks_of(problem, dims)) <= LARGEST
    return fits and runs >= MANY and jax.default_backend() != "cpu"


def _size(problem: Problem, blocks: Blocks) -> int:
    return coordinates.rows_of(problem) * int(blocks.width.max())


class Ensemble:
    """The runs of one problem on one device."""

    def __init__(
        self, problem: Problem, starts: list[Start], dims: np.ndarray, steps: np.ndarray, seed: int, keep: bool, runs: int
    ):
        self.problem, self.starts, self.dims, self.steps = problem, starts, dims, steps
        self.seed, self.keep, self.runs, self.dim = seed, keep, runs, int(dims.sum())
        self.blocks = coordinates.blocks_of(problem, dims)
        self.lanes = Lanes(problem, rule_of(problem, self.dim), self.blocks)
        self.rates = Rates(problem, self.dim)
        on_cpu = jax.default_backend() == "cpu"
        self.unrolled = 1 if on_cpu else max(1, UNROLLED // _size(problem, self.blocks))
        numbers = runs * problem.sgd.batch * dims.size * (self.lanes.width + 2)
        fitting = (ON_CPU if on_cpu else ON_GPU) // numbers
        turns = int(np.clip(fitting, self.unrolled, min(STEPS, max(self.unrolled, int(steps[-1]))))) // self.unrolled
        self.turns, self.block = None if on_cpu else turns, turns * self.unrolled

    def run(self, progress: bool) -> Runs:
        """All runs to the last step; after Ctrl-C, what was recorded so far."""
        (state, teachers, lengths, bound), last = self._begin(), int(self.steps[-1])
        keys = run_keys(self.seed, self.runs)
        seen: list[tuple[int, Any]] = []
        ended, taken = np.full(self.runs, -1), 0  # where a run has diverged
        checked = (0, _within(state, bound))
        bar = bar_for(last * self.runs) if progress else None
        try:
            self._look(seen, 0, state, teachers)
            for first in range(0, last, self.block):
                draws = _draw(self.lanes, teachers, keys, np.asarray(first), self.block)
                rates, end = self.rates.table(first, first + self.block), min(first + self.block, last)
                while taken < end:
                    stop = next_stop(self.steps, taken, end)
                    turns = self.turns if stop - taken == self.block else None
                    span = np.asarray(taken - first), np.asarray(stop - first)
                    state = _advance(self.lanes, self.unrolled, turns, state, teachers, lengths, draws, rates, *span)
                    _note(ended, *checked)  # the device is busy with the next stretch meanwhile
                    checked, taken = (stop, _within(state, bound)), stop
                    self._look(seen, taken, state, teachers)
                    if bar is not None:
                        bar.update(taken * self.runs - bar.n)
        except KeyboardInterrupt:
            if not seen:
                raise
        finally:
            if bar is not None:
                bar.close()
        _note(ended, *checked)
        return self._runs(seen, ended, taken)

    def _begin(self) -> tuple[State, Any, Any, Any]:
        """State, teachers, held lengths and bounds of all runs, from one start or one each."""
        levels = [coordinates.level_coordinates(self.problem, start, self.dims) for start in self.starts]
        placed = [coordinates.place(self.problem, level, self.blocks) for level in levels]
        heads = [coordinates.heads_of(self.problem, start) for start in self.starts]
        K = self.problem.student.hidden
        own = [students[:, :K] @ students[:, :K].transpose(0, 2, 1) for students, _ in placed]
        lengths = np.stack([coordinates.lengths_of(self.problem, q, self.dims) for q in own], axis=-1)
        bound = np.array([divergence_bound(students) for students, _ in placed])
        across = lambda arrays: jnp.asarray(np.stack(arrays, axis=-1))  # noqa: E731
        spread = lambda x: jnp.broadcast_to(x, (*x.shape[:-1], self.runs))  # noqa: E731
        students, teachers = (_matrix(across([pair[i] for pair in placed])) for i in range(2))
        columns = [spread(across([getattr(head, name) for head in heads])) for name in Heads._fields[:4]]
        state = State([[spread(x) for x in row] for row in students], *columns)
        return state, teachers, list(jnp.asarray(lengths)), jnp.asarray(bound)

    def _look(self, seen: list[tuple[int, Any]], taken: int, state: State, teachers: Any) -> None:
        if np.any(self.steps == taken):
            seen.append((taken, jax.tree.map(np.asarray, _overlaps(self.lanes, state, teachers))))

    def _runs(self, seen: list[tuple[int, Any]], ended: np.ndarray, reached: int) -> Runs:
        """What was seen, sorted into runs; NaN from where a run had diverged."""
        weights, alive = field_weights(self.blocks), ended < 0
        blank = empty_records(self.problem, self.steps, self.keep)
        records = Records(self.steps, *(np.broadcast_to(x, (self.runs, *x.shape)).copy() for x in blank[1:]))
        for taken, state in seen:
            well = alive | (taken < ended)
            r, q, readout, bias = (np.where(well.reshape(-1, *[1] * (x.ndim - 1)), x, np.nan) for x in state)
            fields = np.einsum("l,nlkm->nkm", weights, r), np.einsum("l,nlkj->nkj", weights, q)
            for at in np.flatnonzero(self.steps == taken):
                parts = (*fields, *((r, q) if self.keep else (None, None)), readout, bias)
                for record, part in zip(records[1:], parts, strict=True):
                    if part is not None:
                        record[:, at] = part
        status = Status.FINISHED if reached == self.steps[-1] else Status.INTERRUPTED
        return Runs(records, np.where(alive, int(status), int(Status.DIVERGED)), np.where(alive, reached, ended))


def _note(ended: np.ndarray, taken: int, within: Array) -> None:
    """Runs that are no longer within bounds have ended here, unless they had before."""
    ended[(ended < 0) & ~np.asarray(within)] = taken


def _matrix(array: Array) -> Any:
    """(levels, rows, columns, runs) as a list of lists of arrays (levels, runs)."""
    return [[array[:, i, j] for j in range(array.shape[2])] for i in range(array.shape[1])]


@eqx.filter_jit
def _draw(lanes: Lanes, teachers: Any, keys: Array, first: Any, steps: int) -> Draws:
    return lanes.draw(teachers, keys, first, steps)


@eqx.filter_jit
def _advance(
    lanes: Lanes,
    unrolled: int,
    turns: int | None,
    state: State,
    teachers: Any,
    lengths: Any,
    draws: Draws,
    rates: Any,
    first: Any,
    last: Any,
) -> State:
    """Steps first .. last - 1 of a block of draws, `unrolled` at a time. turns: how often, where that is known before.

    The kernels of a loop of known length are launched without asking the device after each turn whether to go on.
    """

    def one(at: Array, state: State) -> State:
        return lanes.step(state, teachers, lengths, jax.tree.map(lambda x: x[at], draws), rates[at])

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
def _within(state: State, bound: Array) -> Array:
    """(runs,): are all squared coordinates, and readout and biases, within the bound? Not so if one is no number."""
    heads = sum(jnp.sum(x**2, axis=tuple(range(x.ndim - 1))) for x in (state.readout, state.bias))
    inside = [jnp.all(x**2 < bound, axis=0) for row in state.rows for x in row]
    return jnp.all(jnp.stack([*inside, heads < bound]), axis=0)


@eqx.filter_jit
def _overlaps(lanes: Lanes, state: State, teachers: Any) -> tuple[Array, ...]:
    """r (runs, L, K, M), q (runs, L, K, K), readout and bias (runs, K)."""
    students = state.rows[: lanes.K]
    dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=False))  # noqa: E731
    r, q = (jnp.array([[dot(a, b) for b in others] for a in students]) for others in (teachers, students))
    heads = (jnp.moveaxis(x, -1, 0) for x in (state.readout, state.bias))
    return jnp.transpose(r, (3, 2, 0, 1)), jnp.transpose(q, (3, 2, 0, 1)), *heads
