"""What both methods share: one run in numba, or runs side by side in JAX, and what they record.

Both methods step coordinates of the vectors (prepare.py). They differ in the coordinates, in where the samples come from, and in
how overlaps follow from coordinates.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from tutelage._types import Array
from tutelage.errors import Status
from tutelage.simulation.jax_steps import Draws, Step, stops
from tutelage.simulation.numba_kernels import LevelLayout, Samples, Snapshots, advance
from tutelage.simulation.prepare import OverlapsState, RateTable, step_constants, with_heads
from tutelage.simulation.runs import Ended, GoesOn, Records, Request


class Method:
    """Everything that the runs of one request share."""

    def __init__(self, request: Request, layout: LevelLayout, given: bool):
        problem, dim, self.request, self.layout = request.problem, request.dim, request, layout
        self.last = int(request.steps[-1])
        self.constants, self.rates = step_constants(problem, dim), RateTable(problem, dim, self.last)
        self.step = Step(problem, self.constants, layout, given=given)

    def level_overlaps(
        self, a: Float[np.ndarray, "*lead L A W"], b: Float[np.ndarray, "*lead L B columns"]
    ) -> Float[np.ndarray, "*lead levels A B"]:
        """The overlaps of vectors in each level of the spectrum."""
        raise NotImplementedError

    def in_numba(
        self,
        state: OverlapsState,
        rng: np.random.Generator,
        stretches: Iterator[tuple[int, int, Samples]],
        records: Records,
        goes_on: GoesOn,
    ) -> Ended:
        """One run, by stretches of steps: their first one, their end, and samples."""
        students, teachers, params = jax.tree.map(np.copy, state[:3])  # they move in place
        params = with_heads(params)
        for first, end, samples in stretches:
            part = slice(np.searchsorted(records.steps, first), np.searchsorted(records.steps, end, side="right"))
            steps = records.steps[part]
            kept = students, teachers, params.readout, params.bias
            states = Snapshots(steps, *(np.full((steps.size, *x.shape), np.nan) for x in kept))
            moving, rates = (students, teachers, params, *state[3:]), self.rates.table(first, end)
            reached = advance(rng, self.constants, self.layout, samples, *moving, rates, first, end, states)
            if steps.size:
                self._write(records, part, *states[1:])
            if reached < 0:
                return Status.DIVERGED, -int(reached) - 1
            if not goes_on(end) and end < self.last:
                return Status.INTERRUPTED, end
        return Status.FINISHED, self.last

    def in_jax(
        self, states: list[OverlapsState], runs: int, block: int, draws: Iterator[Draws], records: Records, goes_on: GoesOn
    ) -> tuple[np.ndarray, np.ndarray]:
        """Runs side by side, from states of their own or from the same: status, steps taken. draws: of blocks of steps."""
        state = jax.tree.map(lambda *x: jnp.stack(x, axis=-1), *states)
        moving = ("students", "params", *(("teachers",) if self.step.drifts else ()))  # one set of the others may serve all
        each = {name: getattr(state, name) for name in moving}
        state = state._replace(**jax.tree.map(lambda x: jnp.broadcast_to(x, (*x.shape[:-1], runs)), each))
        ended, taken, checked = np.full(runs, -1), 0, (0, _within(state))  # ended: where a run has diverged

        def note(taken: int, within: Bool[Array, " runs"]) -> None:
            ended[(ended < 0) & ~np.asarray(within)] = taken

        try:
            for taken, now in stops(self.step, self.rates, state, records.steps, block, draws):
                note(*checked)  # the device is busy with the next stretch meanwhile
                checked = taken, _within(now)
                for at in np.flatnonzero(records.steps == taken):
                    parts = now.students, now.teachers, now.params.readout, now.params.bias
                    self._write(records, (slice(None), at), *(np.moveaxis(np.asarray(x), -1, 0) for x in parts))
                if not goes_on(taken) or np.all(ended >= 0):
                    break
        except KeyboardInterrupt:
            if not np.isfinite(records.R[:, 0]).any():
                raise
        note(*checked)
        diverged = ended >= 0
        beyond = diverged[:, None] & (records.steps >= ended[:, None])
        for record in (x for x in records[2:] if x.size):
            record[beyond] = np.nan
        status = Status.FINISHED if taken == self.last else Status.INTERRUPTED
        return np.where(diverged, Status.DIVERGED, status), np.where(diverged, ended, taken)

    def _write(self, records: Records, at: Any, students: np.ndarray, teachers: np.ndarray, *params: np.ndarray) -> None:
        """Record states by their overlaps per level."""
        rows = students[..., : self.request.problem.student.hidden, :]
        pairs = (rows, teachers), (rows, rows), (teachers, teachers)
        records.write(at, *(self.level_overlaps(a, b) for a, b in pairs), *params)


@eqx.filter_jit
def _within(state: OverlapsState) -> Bool[Array, " runs"]:
    """Are all squared coordinates, and readout and biases, within the bound? Not so if one is no number."""
    params = sum(jnp.sum(x**2, axis=tuple(range(x.ndim - 1))) for x in state.params[:2])
    return jnp.all(state.students**2 < state.bound, axis=(0, 1, 2)) & (params < state.bound)
