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

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage.errors import Status
from tutelage.integrate.program import BOUND
from tutelage.problem import Problem, Start
from tutelage.simulation import coordinates
from tutelage.simulation.numba_kernels import LevelLayout, ParameterState, Records, advance_overlaps
from tutelage.simulation.runs import Run, Watch, empty_records, next_stop, stream, write_overlaps
from tutelage.simulation.step_constants import RateTable, has_kernels, step_constants, teacher_table, with_heads

if TYPE_CHECKING:
    from tutelage.simulation.request import Request

STRETCH = 2**16  # coordinate updates (steps x levels x batch) between two looks at the watch


class OverlapsMethod:
    """Everything that the runs of one request share; `run` is one of them."""

    def __init__(self, request: "Request"):
        problem, dims = request.problem, request.dims
        self.problem, self.starts, self.dims, self.steps = problem, request.starts, dims, request.steps
        self.seed, self.keep = request.seed, request.keep
        self.layout = coordinates.level_layout(problem, dims)
        self.constants, self.rates = step_constants(problem, request.dim), RateTable(problem, request.dim)
        self.placed = [place_start(problem, start, dims, self.layout) for start in self.starts]
        self.table = teacher_table(problem)
        self.roots = [coordinates.teacher_roots(problem, start) for start in self.starts]
        self.stretch = max(64, STRETCH // (dims.size * problem.samples_per_step))
        self.loop: Any = None
        if not has_kernels(problem):
            from tutelage.simulation.jax_steps import OverlapsLoop

            steps = max(1, min(self.stretch, 1024, int(self.steps[-1])))
            self.loop = OverlapsLoop(problem, self.constants, self.layout, steps)

    def run(self, index: int, watch: Watch) -> Run:
        students, teachers, params, lengths, bound = self.placed[index % len(self.starts)]
        students, teachers, params = (
            students.copy(),
            teachers.copy(),
            ParameterState(*(x.copy() for x in params)),
        )  # in place
        records = empty_records(self.problem, self.steps, self.keep)
        advance, rng = self._numba_loop if self.loop is None else self._jax_loop, stream(self.seed, index)
        return Run(records, *advance(rng, students, teachers, params, lengths, bound, records, index, watch))

    def _numba_loop(
        self, rng, students, teachers, params, lengths, bound, records: Records, index: int, watch: Watch
    ) -> tuple[Status, int]:
        taken, last = 0, int(self.steps[-1])
        roots, params, records = self.roots[index % len(self.roots)], with_heads(params), with_heads(records)
        while True:
            end = min(taken + self.stretch, last)
            rates = self.rates.table(taken, end)
            moving = (students, teachers, roots, params, lengths, bound, rates, taken, end, records)
            reached = advance_overlaps(rng, self.constants, self.table, self.layout, *moving)
            if reached < 0:
                return Status.DIVERGED, -int(reached) - 1
            taken = end
            if not watch.goes_on(index, taken) and taken < last:
                return Status.INTERRUPTED, taken
            if taken == last:
                return Status.FINISHED, taken

    def _jax_loop(
        self, rng, students, teachers, params, lengths, bound, records: Records, index: int, watch: Watch
    ) -> tuple[Status, int]:
        loop, last, roots = self.loop, int(self.steps[-1]), self.roots[index % len(self.roots)]
        state, size = loop.begin(students, teachers, params), loop.steps
        self._write(records, 0, students, teachers, params)
        for first in range(0, last, size):
            chunk = loop.draw(rng, self.rates.table(first, first + size))
            taken, end = first, min(first + size, last)
            while taken < end:
                stop = next_stop(self.steps, taken, end)
                state = loop.advance(state, roots, lengths, chunk, taken - first, stop - first)
                taken = stop
                students, teachers, params = loop.look(state)
                if not np.all(students**2 < bound):
                    return Status.DIVERGED, taken
                self._write(records, taken, students, teachers, params)
            if not watch.goes_on(index, taken) and taken < last:
                return Status.INTERRUPTED, taken
        return Status.FINISHED, last

    def _write(
        self,
        records: Records,
        taken: int,
        students: Float[np.ndarray, "L rows W"],
        teachers: Float[np.ndarray, "L M columns"],
        params: ParameterState,
    ) -> None:
        if not np.any(records.steps == taken):
            return
        rows = students[:, : self.problem.student.hidden]
        r = rows[:, :, : teachers.shape[2]] @ teachers.transpose(0, 2, 1)
        q, t = rows @ rows.transpose(0, 2, 1), teachers @ teachers.transpose(0, 2, 1)
        write_overlaps(records, taken, r, q, field_weights(self.layout), params.readout, params.bias, t)


class PlacedStart(NamedTuple):
    """A start as the loops hold it. lengths: |w_k|^2 / N. bound: squared coordinates beyond it have diverged."""

    students: Float[np.ndarray, "L rows W"]
    teachers: Float[np.ndarray, "L M columns"]
    params: ParameterState
    lengths: Float[np.ndarray, " K"]
    bound: float


def place_start(problem: Problem, start: Start, dims: Int[np.ndarray, " L"], layout: LevelLayout) -> PlacedStart:
    """A start in the coordinates of its levels."""
    students, teachers = coordinates.place(problem, coordinates.level_coordinates(problem, start, dims), layout)
    K, params = problem.student.hidden, coordinates.initial_parameters(problem, start)
    lengths = coordinates.lengths_of(problem, students[:, :K] @ students[:, :K].transpose(0, 2, 1), dims)
    return PlacedStart(students, teachers, params, lengths, divergence_bound(students))


def field_weights(layout: LevelLayout) -> Float[np.ndarray, " L"]:
    """p_l lam_l with the actual share n_l / N of each level."""
    return layout.share * layout.eigenvalue


def divergence_bound(students: np.ndarray) -> float:
    """Squared coordinates beyond this have diverged (the same factor as in `solve`)."""
    return BOUND * (1.0 + float(np.max(students**2)))
