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

from typing import TYPE_CHECKING

import numpy as np

from tutelage._errors import Status
from tutelage.problem import Problem, Start
from tutelage.simulation import coordinates
from tutelage.simulation.ensemble import Run, Watch, stream
from tutelage.simulation.layout import Blocks, Heads, Records
from tutelage.simulation.rates import Rates, compiles, rule_of
from tutelage.simulation.records import empty_records, next_stop, write_overlaps

if TYPE_CHECKING:
    from tutelage.simulation.traced import OverlapsLoop

STRETCH = 2**16  # coordinate updates (steps x levels x batch) between two looks at the watch


class OverlapsMethod:
    """Everything that the runs of one problem share; `run` is one of them."""

    def __init__(self, problem: Problem, starts: list[Start], dims: np.ndarray, steps: np.ndarray, seed: int, keep: bool):
        self.problem, self.starts, self.dims = problem, starts, dims
        self.steps, self.seed, self.keep = steps, seed, keep
        self.dim = int(dims.sum())
        self.blocks = coordinates.blocks_of(problem, dims)
        self.rule = rule_of(problem, self.dim)
        self.rates = Rates(problem, self.dim)
        self.levels = [coordinates.level_coordinates(problem, start, dims) for start in starts]
        self.stretch = max(64, STRETCH // (dims.size * problem.sgd.batch))
        self.traced = None if compiles(problem) else self._loop()

    def _loop(self) -> "OverlapsLoop":
        from tutelage.simulation.traced import OverlapsLoop

        return OverlapsLoop(self.problem, self.rule, self.blocks, max(1, min(self.stretch, 1024, int(self.steps[-1]))))

    def run(self, index: int, watch: Watch) -> Run:
        which = index % len(self.starts)
        students, teachers = coordinates.place(self.problem, self.levels[which], self.blocks)
        K = self.problem.student.hidden
        lengths = coordinates.lengths_of(self.problem, students[:, :K] @ students[:, :K].transpose(0, 2, 1), self.dims)
        bound = divergence_bound(students)
        heads = coordinates.heads_of(self.problem, self.starts[which])
        records = empty_records(self.problem, self.steps, self.keep)
        rng = stream(self.seed, index)
        loop = self._compiled if self.traced is None else self._traced
        status, taken = loop(rng, students, teachers, heads, lengths, bound, records, index, watch)
        return Run(records, status, taken)

    def _compiled(self, rng, students, teachers, heads, lengths, bound, records: Records, index: int, watch: Watch):
        from tutelage.simulation.compiled import advance_overlaps

        taken, last = 0, int(self.steps[-1])
        while True:
            end = min(taken + self.stretch, last)
            rates = self.rates.table(taken, end)
            reached = advance_overlaps(
                rng, self.rule, self.blocks, students, teachers, heads, lengths, bound, rates, taken, end, records
            )
            if reached < 0:
                return Status.DIVERGED, -int(reached) - 1
            taken = end
            if not watch.goes_on(index, taken) and taken < last:
                return Status.INTERRUPTED, taken
            if taken == last:
                return Status.FINISHED, taken

    def _traced(self, rng, students, teachers, heads, lengths, bound, records: Records, index: int, watch: Watch):
        loop, last = self.traced, int(self.steps[-1])
        assert loop is not None
        state, size = loop.begin(students, heads), loop.steps
        self._write(records, 0, students, teachers, heads)
        for first in range(0, last, size):
            chunk = loop.draw(rng, self.rates.table(first, first + size))
            taken, end = first, min(first + size, last)
            while taken < end:
                stop = next_stop(self.steps, taken, end)
                state = loop.advance(state, teachers, lengths, chunk, taken - first, stop - first)
                taken = stop
                students, heads = loop.look(state)
                if not np.all(students**2 < bound):
                    return Status.DIVERGED, taken
                self._write(records, taken, students, teachers, heads)
            if not watch.goes_on(index, taken) and taken < last:
                return Status.INTERRUPTED, taken
        return Status.FINISHED, last

    def _write(self, records: Records, taken: int, students: np.ndarray, teachers: np.ndarray, heads: Heads) -> None:
        if not np.any(records.steps == taken):
            return
        rows, blocks = students[:, : self.problem.student.hidden], self.blocks
        r = rows[:, :, : teachers.shape[2]] @ teachers.transpose(0, 2, 1)
        q = rows @ rows.transpose(0, 2, 1)
        write_overlaps(records, taken, r, q, field_weights(blocks), heads.readout, heads.bias)


def field_weights(blocks: Blocks) -> np.ndarray:
    """p_l lam_l with the actual share n_l / N of each level."""
    return blocks.share * blocks.eigenvalue


def divergence_bound(students: np.ndarray) -> float:
    """Squared coordinates beyond this have diverged (the same factor as in `solve`)."""
    from tutelage.integrate import BOUND

    return BOUND * (1.0 + float(np.max(students**2)))
