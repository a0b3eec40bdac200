"""The common part of both methods: one run in numba, or runs side by side in JAX.

Both methods step coordinates of the vectors (prepare.py). They differ in the
coordinates, in the source of the samples, and in how overlaps follow from coordinates.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from tutelage._types import Array, NumpyOrJax
from tutelage.errors import Status
from tutelage.simulation.jax_steps import Draws, Step, stops
from tutelage.simulation.numba_kernels import LevelLayout, Samples, Snapshots, advance
from tutelage.simulation.prepare import (
    OverlapsState,
    RateTable,
    step_constants,
    with_heads,
)
from tutelage.simulation.runs import Ended, Records, Request, ShouldContinue

NOT_DIVERGED = -1


class Method:
    """Everything that the runs of one request share."""

    def __init__(self, request: Request, layout: LevelLayout, given: bool):
        self.request = request
        self.layout = layout
        self.last = int(request.steps[-1])
        self.constants = step_constants(request.problem, request.dim)
        self.rates = RateTable(request.problem, request.dim, self.last)
        self.step = Step(request.problem, self.constants, layout, given=given)

    def level_overlaps(
        self,
        a: Float[np.ndarray, "*lead L A W"],
        b: Float[np.ndarray, "*lead L B columns"],
    ) -> Float[np.ndarray, "*lead levels A B"]:
        """Return the overlaps of vectors in each level of the spectrum."""
        raise NotImplementedError

    def in_numba(
        self,
        state: OverlapsState,
        rng: np.random.Generator,
        stretches: Iterator[tuple[int, int, Samples]],
        records: Records,
        should_continue: ShouldContinue,
    ) -> Ended:
        """Compute one run, by stretches of steps: the first, the end, and samples."""
        # they move in place
        students = np.copy(state.students)
        teachers = np.copy(state.teachers)
        params = with_heads(jax.tree.map(np.copy, state.params))
        for first, end, samples in stretches:
            first_record = np.searchsorted(records.steps, first)
            end_record = np.searchsorted(records.steps, end, side="right")
            places = slice(first_record, end_record)
            steps = records.steps[places]
            states = Snapshots(
                steps=steps,
                students=_empty_snapshots(steps.size, students),
                teachers=_empty_snapshots(steps.size, teachers),
                readout=_empty_snapshots(steps.size, params.readout),
                bias=_empty_snapshots(steps.size, params.bias),
            )
            reached = advance(
                rng,
                self.constants,
                self.layout,
                samples,
                students,
                teachers,
                params,
                state.roots,
                state.lengths,
                state.bound,
                self.rates.table(first, end),
                first,
                end,
                states,
            )
            if steps.size:
                self._write(
                    records,
                    places,
                    states.students,
                    states.teachers,
                    states.readout,
                    states.bias,
                )
            if reached < 0:
                return Status.DIVERGED, -int(reached) - 1
            if not should_continue(end) and end < self.last:
                return Status.INTERRUPTED, end
        return Status.FINISHED, self.last

    def in_jax(
        self,
        states: list[OverlapsState],
        runs: int,
        block: int,
        draws: Iterator[Draws],
        records: Records,
        should_continue: ShouldContinue,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute runs side by side, and return status and steps taken of each.

        states: the initial state of each run, or one for all. draws: of blocks of
        steps.
        """
        state = self._side_by_side(states, runs)
        diverged_at = np.full(runs, NOT_DIVERGED)
        taken = 0
        checked_step = 0
        checked = _within_bounds(state)

        def note_divergence() -> None:
            is_new = (diverged_at == NOT_DIVERGED) & ~np.asarray(checked)
            diverged_at[is_new] = checked_step

        try:
            for taken, now in stops(
                self.step, self.rates, state, records.steps, block, draws
            ):
                # of the stretch before: the device is busy with the next one meanwhile
                note_divergence()
                checked_step = taken
                checked = _within_bounds(now)
                self._record(records, taken, now)
                all_diverged = np.all(diverged_at != NOT_DIVERGED)
                if not should_continue(taken) or all_diverged:
                    break
        except KeyboardInterrupt:
            if not np.isfinite(records.R[:, 0]).any():
                raise
        note_divergence()
        diverged = diverged_at != NOT_DIVERGED
        beyond = diverged[:, None] & (records.steps >= diverged_at[:, None])
        for record in records.arrays:
            if record.size:
                record[beyond] = np.nan
        status = Status.FINISHED if taken == self.last else Status.INTERRUPTED
        return (
            np.where(diverged, Status.DIVERGED, status),
            np.where(diverged, diverged_at, taken),
        )

    def _side_by_side(self, states: list[OverlapsState], runs: int) -> OverlapsState:
        """Return the state of all runs, a last axis, in all that moves.

        One set of the other fields may serve all runs.
        """

        def for_all_runs(x: Array) -> Array:
            return jnp.broadcast_to(x, (*x.shape[:-1], runs))

        state = jax.tree.map(lambda *x: jnp.stack(x, axis=-1), *states)
        state = state._replace(
            students=for_all_runs(state.students),
            params=jax.tree.map(for_all_runs, state.params),
        )
        if self.step.drifts:
            state = state._replace(teachers=for_all_runs(state.teachers))
        return state

    def _record(self, records: Records, taken: int, state: OverlapsState) -> None:
        """Record the states of all runs, if this step is recorded."""
        for place in np.flatnonzero(records.steps == taken):
            self._write(
                records,
                (slice(None), place),
                _runs_first(state.students),
                _runs_first(state.teachers),
                _runs_first(state.params.readout),
                _runs_first(state.params.bias),
            )

    def _write(
        self,
        records: Records,
        at: Any,
        students: np.ndarray,
        teachers: np.ndarray,
        readout: np.ndarray,
        bias: np.ndarray,
    ) -> None:
        """Record states by their overlaps per level."""
        weights = students[..., : self.request.problem.student.hidden, :]
        records.write(
            at,
            r=self.level_overlaps(weights, teachers),
            q=self.level_overlaps(weights, weights),
            t=self.level_overlaps(teachers, teachers),
            readout=readout,
            bias=bias,
        )


def _empty_snapshots(count: int, like: NumpyOrJax) -> np.ndarray:
    """Return an array full of NaN for so many copies of an array."""
    return np.full((count, *like.shape), np.nan)


def _runs_first(x: NumpyOrJax) -> np.ndarray:
    """Return an array with its last axis, of runs, in front."""
    return np.moveaxis(np.asarray(x), -1, 0)


@eqx.filter_jit
def _within_bounds(state: OverlapsState) -> Bool[Array, " runs"]:
    """Return True if all squared coordinates, readouts and biases are within the bound.

    NaN is outside.
    """
    size = 0
    for x in (state.params.readout, state.params.bias):
        size = size + jnp.sum(x**2, axis=tuple(range(x.ndim - 1)))
    coordinates = jnp.all(state.students**2 < state.bound, axis=(0, 1, 2))
    return coordinates & (size < state.bound)
