"""The exact law of finite-N SGD at a cost that does not depend on N.

SGD on Gaussian inputs is a Markov chain on the overlaps alone. Held in coordinates of the vectors' own span
(coordinates.py), one step needs, per level, a standard normal e for each coordinate in use, and of the n_l - w_l other
dimensions only their length: a chi variable c with as many degrees of freedom. With delta_k = Delta v_k g'(lambda_k),
    lambda = sum_l sqrt(p_l lam_l) (coordinates . e_l),
    coordinates += (eta/N) sqrt(lam_l/p_l) delta e_l,    one new column (eta/N) sqrt(lam_l/p_l) delta c_l,
and a rotation folds the new column back into Z. For a batch, B new columns with Bartlett's factor; since they enter only
through the K x K matrix delta delta^T, K columns are enough. This is the law of the overlaps of real weights, not an
approximation to it: N = 10^6 costs what N = 100 does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax
import numpy as np

from tutelage.errors import Status
from tutelage.simulation import coordinates
from tutelage.simulation.coordinates import PlacedStart
from tutelage.simulation.jax_steps import OverlapsLoop
from tutelage.simulation.numba_kernels import ParameterState, Records, advance_overlaps
from tutelage.simulation.runs import Ended, Watch, next_stop, stream, write_overlaps
from tutelage.simulation.step_constants import RateTable, has_kernels, step_constants, teacher_table, with_heads

if TYPE_CHECKING:
    from tutelage.simulation.request import Request

STRETCH = 2**16  # coordinate updates (steps x levels x batch) between two looks at the watch


class OverlapsMethod:
    """Everything that the runs of one request share; `run` is one of them."""

    def __init__(self, request: "Request"):
        problem, dims, self.request = request.problem, request.dims, request
        self.layout = coordinates.level_layout(problem, dims)
        self.constants, self.rates = step_constants(problem, request.dim), RateTable(problem, request.dim)
        self.placed = [coordinates.place_start(problem, start, dims, self.layout) for start in request.starts]
        self.table = teacher_table(problem)
        self.roots = [coordinates.teacher_roots(problem, start) for start in request.starts]
        self.stretch = max(64, STRETCH // (dims.size * problem.samples_per_step))
        steps = max(1, min(self.stretch, 1024, int(request.steps[-1])))
        self.loop = None if has_kernels(problem) else OverlapsLoop(problem, self.constants, self.layout, steps)

    def run(self, index: int, records: Records, watch: Watch) -> Ended:
        """Run `index`, written into its records."""
        which = index % len(self.placed)
        advance, rng = self._in_numba if self.loop is None else self._in_jax, stream(self.request.seed, index)
        taken = 0
        for taken, fine in advance(rng, self.placed[which], self.roots[which], records):
            if not fine:
                return Status.DIVERGED, taken
            if not watch.goes_on(index, taken) and taken < records.steps[-1]:
                return Status.INTERRUPTED, taken
        return Status.FINISHED, taken

    def _in_numba(
        self, rng: np.random.Generator, placed: PlacedStart, roots: np.ndarray, records: Records
    ) -> Iterator[tuple[int, bool]]:
        """Advance by stretches of steps: steps taken, and whether all is within bounds."""
        students, teachers, params = jax.tree.map(np.copy, placed[:3])  # they move in place
        params, records, last = with_heads(params), with_heads(records), int(records.steps[-1])
        for first in range(0, max(last, 1), self.stretch):
            end = min(first + self.stretch, last)
            moving = students, teachers, roots, params, placed.lengths, placed.bound
            steps = self.rates.table(first, end), first, end, records
            reached = advance_overlaps(rng, self.constants, self.table, self.layout, *moving, *steps)
            yield (end, True) if reached >= 0 else (-int(reached) - 1, False)

    def _in_jax(
        self, rng: np.random.Generator, placed: PlacedStart, roots: np.ndarray, records: Records
    ) -> Iterator[tuple[int, bool]]:
        """The same in JAX, up to each recorded step and the end of each block of random numbers."""
        loop, last, state = self.loop, int(records.steps[-1]), placed[:3]
        assert loop is not None
        self._write(records, 0, *state)
        for first in range(0, last, loop.steps):
            draws = loop.draw(rng, self.rates.table(first, first + loop.steps))
            taken, end = first, min(first + loop.steps, last)
            while taken < end:
                stop = next_stop(records.steps, taken, end)
                state = loop.advance(state, roots, placed.lengths, draws, taken - first, stop - first)
                taken = stop
                students, teachers, params = jax.tree.map(np.asarray, state)
                fine = bool(np.all(students**2 < placed.bound))
                if fine:
                    self._write(records, taken, students, teachers, params)
                yield taken, fine

    def _write(
        self, records: Records, taken: int, students: np.ndarray, teachers: np.ndarray, params: ParameterState
    ) -> None:
        if not np.any(records.steps == taken):
            return
        rows = students[:, : self.request.problem.student.hidden]
        r = rows[:, :, : teachers.shape[2]] @ teachers.transpose(0, 2, 1)
        q, t = rows @ rows.transpose(0, 2, 1), teachers @ teachers.transpose(0, 2, 1)
        write_overlaps(records, taken, self.request.field_weights, r, q, t, params.readout, params.bias)
