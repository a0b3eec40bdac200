"""The exact law of finite-N SGD at a cost that does not depend on N.

SGD on Gaussian inputs is a Markov chain on the overlaps alone. Held in coordinates of the vectors' own span
(prepare.py), one step needs, per level, a standard normal e for each coordinate in use, and of the n_l - w_l other
dimensions only their length: a chi variable c with as many degrees of freedom. With delta_k = Delta v_k g'(lambda_k),
    lambda = sum_l sqrt(p_l lam_l) (coordinates . e_l),
    coordinates += (eta/N) sqrt(lam_l/p_l) delta e_l,    one new column (eta/N) sqrt(lam_l/p_l) delta c_l,
and a rotation folds the new column back into Z. For a batch, B new columns with Bartlett's factor; since they enter only
through the K x K matrix delta delta^T, K columns are enough. This is the law of the overlaps of real weights, not an
approximation to it: N = 10^6 costs what N = 100 does.

Runs step one by one in numba or JAX, or all together in one JAX program, for GPUs and thousands of runs.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from tutelage._types import Array
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import Status
from tutelage.progress import progress_bar
from tutelage.simulation import draws, jax_steps, prepare
from tutelage.simulation.draws import Keys
from tutelage.simulation.jax_steps import OverlapsStep
from tutelage.simulation.numba_kernels import Snapshots, advance_overlaps
from tutelage.simulation.prepare import OverlapsState, RateTable, has_kernels, step_constants, with_heads
from tutelage.simulation.runs import Ended, GoesOn, Records, Request, Runs, next_stop, stream

STRETCH = 2**16  # coordinate updates (steps x levels x batch) between two looks at the watch
ON_CPU, ON_GPU = 2**20, 2**26  # random numbers that are drawn at a time in JAX
STEPS = 1024  # and at most for so many steps


class OverlapsMethod:
    """Everything that the runs of one request share. `run` is one of them, `run_together` all."""

    def __init__(self, request: Request, together: bool = False):
        problem, dims, self.request, self.last = request.problem, request.dims, request, int(request.steps[-1])
        self.layout = prepare.level_layout(problem, dims)
        self.constants, self.rates = step_constants(problem, request.dim), RateTable(problem, request.dim)
        self.placed = [prepare.place_start(problem, start, dims, self.layout) for start in request.starts]
        self.stretch = max(64, STRETCH // (dims.size * problem.samples_per_step))
        self.step, self.in_jax = OverlapsStep(problem, self.constants, self.layout), together or not has_kernels(problem)
        self.keys = draws.run_keys(request.seed, request.runs) if self.in_jax else None

    def run(self, index: int, records: Records, goes_on: GoesOn) -> Ended:
        """Run `index`, written into its records."""
        placed = self.placed[index % len(self.placed)]
        if self.keys is None:
            return self._in_numba(placed, stream(self.request.seed, index), records, goes_on)
        status, taken = self._in_jax([placed], self.keys[:, index : index + 1], records.of(np.newaxis), goes_on)
        return status[0], taken[0]

    def run_together(self, progress: bool) -> Runs:
        """All runs in one program, on one device."""
        runs, records = self.request.runs, self.request.empty_records()
        assert self.keys is not None
        with progress_bar(self.last * runs, "simulating", progress, unit=" steps", unit_scale=True) as bar:

            def goes_on(taken: int) -> bool:
                bar.update(taken * runs - bar.n)
                return True

            return records, *self._in_jax(self.placed, self.keys, records, goes_on)

    def _in_numba(self, placed: OverlapsState, rng: np.random.Generator, records: Records, goes_on: GoesOn) -> Ended:
        """One run, by stretches of steps."""
        students, teachers, params = jax.tree.map(np.copy, placed[:3])  # they move in place
        params = with_heads(params)
        for first in range(0, max(self.last, 1), self.stretch):
            end = min(first + self.stretch, self.last)
            part = slice(np.searchsorted(records.steps, first), np.searchsorted(records.steps, end, side="right"))
            steps = records.steps[part]
            kept = students, teachers, params.readout, params.bias
            states = Snapshots(steps, *(np.full((steps.size, *x.shape), np.nan) for x in kept))
            moving, rates = (students, teachers, params, *placed[3:]), self.rates.table(first, end)
            reached = advance_overlaps(rng, self.constants, self.layout, *moving, rates, first, end, states)
            self._write(records, part, *states[1:])
            if reached < 0:
                return Status.DIVERGED, -int(reached) - 1
            if not goes_on(end) and end < self.last:
                return Status.INTERRUPTED, end
        return Status.FINISHED, self.last

    def _in_jax(
        self, placed: list[OverlapsState], keys: Keys, records: Records, goes_on: GoesOn
    ) -> tuple[np.ndarray, np.ndarray]:
        """Runs side by side, up to each recorded step and the end of each block of random numbers: status, steps taken."""
        runs, taken, going, problem = keys.shape[1], 0, True, as_arrays(self.request.problem)
        drawn: Any = None
        numbers = runs * self.constants.batch * self.layout.width.size * (self.step.width + 2)
        fitting = (ON_CPU if jax.default_backend() == "cpu" else ON_GPU) // numbers
        block = max(1, min(fitting, STEPS, self.last))
        state = jax.tree.map(lambda *x: jnp.stack(x, axis=-1), *placed)
        moving = ("students", "params", *(("teachers",) if self.step.drifts else ()))  # one set of the others may serve all
        each = {name: getattr(state, name) for name in moving}
        state = state._replace(**jax.tree.map(lambda x: jnp.broadcast_to(x, (*x.shape[:-1], runs)), each))
        ended, checked = np.full(runs, -1), (0, _within(state))  # where a run has diverged

        def note(taken: int, within: Bool[Array, " runs"]) -> None:
            ended[(ended < 0) & ~np.asarray(within)] = taken

        try:
            self._write_state(records, 0, state)
            while going and taken < self.last:
                first = taken - taken % block
                if taken == first:
                    drawn = draws.from_counters(self.step, problem, keys, np.asarray(first), block)
                rates = self.rates.table(first, first + block)
                stop = next_stop(records.steps, taken, min(first + block, self.last))
                whole = block if stop - taken == block and jax.default_backend() != "cpu" else None
                span = np.asarray(taken - first), np.asarray(stop - first)
                state = jax_steps.advance_overlaps(self.step, whole, state, drawn, rates, *span)
                note(*checked)  # the device is busy with the next stretch meanwhile
                checked, taken = (stop, _within(state)), stop
                self._write_state(records, taken, state)
                going = goes_on(taken) and not np.all(ended >= 0)
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

    def _write_state(self, records: Records, taken: int, state: OverlapsState) -> None:
        for at in np.flatnonzero(records.steps == taken):
            parts = state.students, state.teachers, state.params.readout, state.params.bias
            self._write(records, (slice(None), at), *(np.moveaxis(np.asarray(x), -1, 0) for x in parts))

    def _write(self, records: Records, at: Any, students: np.ndarray, teachers: np.ndarray, *params: np.ndarray) -> None:
        """Record states by their overlaps per level."""
        rows = students[..., : self.request.problem.student.hidden, :]
        r = rows[..., : teachers.shape[-1]] @ teachers.mT
        records.write(at, r, rows @ rows.mT, teachers @ teachers.mT, *params)


@eqx.filter_jit
def _within(state: OverlapsState) -> Bool[Array, " runs"]:
    """Are all squared coordinates, and readout and biases, within the bound? Not so if one is no number."""
    params = sum(jnp.sum(x**2, axis=tuple(range(x.ndim - 1))) for x in state.params[:2])
    return jnp.all(state.students**2 < state.bound, axis=(0, 1, 2)) & (params < state.bound)
