"""Ordinary SGD on the actual weights, for any N and any data, in bounded memory.

The weights live in eigencoordinates (those of the data, rotated, if the spectrum was measured). Samples come in blocks of
about BLOCK numbers (sources.py) and are used once; nothing of the size samples x N is ever held. Given weights and given
rows, a run is the plain loop
    Delta = y - sum_k v_k g(w_k.x/sqrt(N)),   w_k += (eta/sqrt(N)) Delta v_k g'(w_k.x/sqrt(N)) x.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tutelage._errors import Status
from tutelage.problem import Problem, Start
from tutelage.problem.sample import normals_needed
from tutelage.simulation import coordinates
from tutelage.simulation.ensemble import Run, Watch, stream
from tutelage.simulation.layout import Heads, Records
from tutelage.simulation.overlaps import divergence_bound
from tutelage.simulation.rates import Rates, compiles, rule_of
from tutelage.simulation.records import empty_records, next_stop, write_overlaps
from tutelage.simulation.sources import DrawnInputs, RowInputs, rows_per_block

if TYPE_CHECKING:
    from tutelage.simulation.traced import WeightsLoop

FRAME, INPUTS, NOISE = range(3)  # the random streams of a run


class WeightsMethod:
    """Everything that the runs of one problem share; `run` is one of them.

    weights: (W, W*) in eigencoordinates, or None: built with the start's overlaps. inputs: a law's name or an array.
    """

    def __init__(
        self,
        problem: Problem,
        starts: list[Start],
        dims: np.ndarray,
        steps: np.ndarray,
        seed: int,
        keep: bool,
        weights: tuple[np.ndarray, np.ndarray] | None,
        inputs: str | np.ndarray,
        order: str,
    ):
        self.problem, self.starts, self.dims, self.steps = problem, starts, dims, steps
        self.seed, self.keep, self.weights, self.inputs, self.order = seed, keep, weights, inputs, order
        self.dim = int(dims.sum())
        self.rule, self.rates = rule_of(problem, self.dim), Rates(problem, self.dim)
        self.levels = None if weights else [coordinates.level_coordinates(problem, start, dims) for start in starts]
        self.field_weights = dims / self.dim * np.asarray(problem.inputs.eigenvalues, dtype=float)
        mask = problem.trainable_mask()
        self.mask = np.empty((0, 0)) if mask is None else np.ascontiguousarray(np.repeat(mask, dims, axis=0).T)
        self.loop = None if compiles(problem) else self._loop()

    def _loop(self) -> "WeightsLoop":
        from tutelage.simulation.traced import WeightsLoop

        return WeightsLoop(self.problem, self.rule, self.mask, self.dims)

    def run(self, index: int, watch: Watch) -> Run:
        which = index % len(self.starts)
        W, W_teacher = self._build(index, which)
        own = self._overlaps(W, W)
        heads = coordinates.heads_of(self.problem, self.starts[which])
        lengths, bound = coordinates.lengths_of(self.problem, own, self.dims), divergence_bound(own) * self.dim
        network = (_Compiled if self.loop is None else _Traced)(self, W, W_teacher, heads, lengths)
        records = empty_records(self.problem, self.steps, self.keep)
        source, noise = self._source(index), stream(self.seed, index, NOISE)
        B, block = self.rule.batch, rows_per_block(self.dim)
        total = int(self.steps[-1]) * B
        self._write(records, 0, network, W_teacher)
        for first in range(0, total, block):
            last = min(first + block, total)
            rows, xi = source.rows(first, last - first), np.zeros(self._draws(last - first))
            if self.rule.draws or self.loop is not None:
                noise.standard_normal(out=xi)
            for begin, end in self._stretches(first, last):
                taken = network.take(rows, xi, first, begin, end)
                if taken < end or not np.all(bound > network.W**2):
                    return Run(records, Status.DIVERGED, taken // B)
                if end % B == 0:
                    self._write(records, end // B, network, W_teacher)
            if not watch.goes_on(index, last // B) and last < total:
                return Run(records, Status.INTERRUPTED, last // B)
        return Run(records, Status.FINISHED, int(self.steps[-1]))

    def _draws(self, samples: int) -> tuple[int, ...]:
        """The shape of the normals that labels and rule need for so many samples."""
        return (samples,) if self.loop is None else (samples, normals_needed(self.problem))

    def _stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Samples first .. last - 1 as intervals that end at recorded steps."""
        while first < last:
            end = min(next_stop(self.steps, first // self.rule.batch, last) * self.rule.batch, last)
            yield first, end
            first = end

    def _build(self, index: int, which: int) -> tuple[np.ndarray, np.ndarray]:
        """W (K, N) and W* (M, N): as given, or the start's coordinates in a random frame of each eigenspace."""
        if self.weights is not None:
            return self.weights[0].copy(), self.weights[1]
        assert self.levels is not None
        vectors = coordinates.in_random_frames(self.levels[which], self.dims, stream(self.seed, index, FRAME))
        M = self.problem.teacher.hidden
        return np.ascontiguousarray(vectors[M:]), np.ascontiguousarray(vectors[:M])

    def _source(self, index: int) -> DrawnInputs | RowInputs:
        rng = stream(self.seed, index, INPUTS)
        if isinstance(self.inputs, str):
            return DrawnInputs(self.problem, self.dims, self.inputs, rng)
        return RowInputs(self.problem, self.inputs, self.order, rng)

    def _overlaps(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """a P_l b^T / n_l for every level."""
        edges = np.concatenate([[0], np.cumsum(self.dims)])
        spans = itertools.pairwise(edges)
        return np.stack([a[:, i:j] @ b[:, i:j].T / (j - i) for i, j in spans])

    def _write(self, records: Records, taken: int, network: "_Compiled | _Traced", W_teacher: np.ndarray) -> None:
        if np.any(records.steps == taken):
            W, heads = network.W, network.heads
            r, q = self._overlaps(W, W_teacher), self._overlaps(W, W)
            write_overlaps(records, taken, r, q, self.field_weights, heads.readout, heads.bias)


class _Compiled:
    """A network that learns in the compiled loop, in place."""

    def __init__(self, method: WeightsMethod, W: np.ndarray, W_teacher: np.ndarray, heads: Heads, lengths: np.ndarray):
        self.rule, self.rates, self.mask = method.rule, method.rates, method.mask
        self.W, self.W_teacher, self.heads, self.lengths = W, W_teacher, heads, lengths
        self.velocity = np.zeros(W.shape if self.rule.momentum else (0, 0))
        self.gradient = np.zeros_like(W)

    def take(self, rows: np.ndarray, xi: np.ndarray, first: int, begin: int, end: int) -> int:
        """Learn from samples begin .. end - 1 of a block that begins at `first`; returns the samples seen."""
        from tutelage.simulation.compiled import advance_weights

        B, part = self.rule.batch, slice(begin - first, end - first)
        rates = self.rates.table(begin // B, (end - 1) // B + 1)
        moving = (self.W, self.W_teacher, self.velocity, self.gradient, self.mask, self.heads, self.lengths)
        return begin + int(advance_weights(self.rule, rows[part], xi[part], *moving, rates, begin))


class _Traced:
    """The same in a JAX loop, for what the compiled loop does not have."""

    def __init__(self, method: WeightsMethod, W: np.ndarray, W_teacher: np.ndarray, heads: Heads, lengths: np.ndarray):
        assert method.loop is not None
        self.loop, self.rates, self.batch = method.loop, method.rates, method.rule.batch
        self.block = min(rows_per_block(W.shape[1]), max(1, int(method.steps[-1]) * self.batch))
        self.fixed = (W_teacher, lengths)
        self.state = (W, np.zeros_like(W), np.zeros_like(W), heads)

    @property
    def W(self) -> np.ndarray:
        return np.asarray(self.state[0])

    @property
    def heads(self) -> Heads:
        return Heads(*(np.asarray(x) for x in self.state[3]))

    def take(self, rows: np.ndarray, xi: np.ndarray, first: int, begin: int, end: int) -> int:
        missing, B = self.block - rows.shape[0], self.batch
        steps = np.arange(first, first + self.block) // B
        rates = self.rates.table(int(steps[0]), int(steps[-1]) + 1)[steps - steps[0]]
        block = np.pad(rows, ((0, missing), (0, 0))), np.pad(xi, ((0, missing), (0, 0))), rates
        self.state = self.loop.advance(self.state, self.fixed, block, first, begin - first, end - first)
        return end
