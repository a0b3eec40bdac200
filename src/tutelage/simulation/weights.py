"""Ordinary SGD on the actual weights, for any N and any data, in bounded memory.

The weights live in eigencoordinates (those of the data, rotated, if the spectrum was measured). Samples come in blocks of
about BLOCK numbers and are used once; nothing of the size samples x N is ever held. Given weights and given rows, a run is
the plain loop
    Delta = y - sum_k v_k g(w_k.x/sqrt(N)),   w_k += (eta/sqrt(N)) Delta v_k g'(w_k.x/sqrt(N)) x.

Samples are drawn, x_i = sqrt(lam_i) z_i, level by level, with independent z of unit variance: gaussian, rademacher (signs),
uniform, student_t (five degrees of freedom) or student_t3 (three: an infinite fourth moment, and with it an infinite
variance of one step). Or they are rows of an array, which is then the user's x itself; with a spectrum measured on data,
rows are centered, scaled and rotated as recorded there. Blocks of rows have a fixed size, so that the samples of a run
depend on its seed alone. The samples of a `HiddenManifold` are sigma(F c / sqrt(D)) itself; what they do not carry of the
teacher's fields beta . c / sqrt(D) is added to the fields, sample by sample.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from tutelage.errors import InputError, Status
from tutelage.problem import Mixture, Problem, Spectrum, Tasks
from tutelage.problem.inputs import HiddenManifold, Realized
from tutelage.problem.sample import class_of, normals_needed, unseen_root
from tutelage.simulation import coordinates
from tutelage.simulation.jax_steps import WeightsLoop, WeightsState
from tutelage.simulation.numba_kernels import advance_weights, fill_normal
from tutelage.simulation.runs import Ended, Records, Request, Watch, next_stop, stream, write_overlaps
from tutelage.simulation.step_constants import RateTable, has_kernels, step_constants, teacher_table, with_heads

Rows = Float[np.ndarray, "samples N"]
FRAME, INPUTS, NOISE, DRIFT, UNSEEN = range(5)  # the random streams of a run
BLOCK = 2**16  # numbers drawn at a time: small enough for a cache, large enough to hide a function call
STRETCH = 4096  # steps whose rates are computed at once
ORDERS = ("given", "shuffled", "sampled")

Fill = Callable[[np.random.Generator, np.ndarray], None]


def rows_per_block(problem: Problem, dim: int) -> int:
    """Samples drawn at a time: whole episodes."""
    return max(1, BLOCK // dim // problem.rule.samples) * problem.rule.samples


def _rademacher(rng: np.random.Generator, rows: np.ndarray) -> None:
    bits = np.unpackbits(np.frombuffer(rng.bytes((rows.size + 7) // 8), dtype=np.uint8), count=rows.size)
    np.multiply(bits.reshape(rows.shape), 2.0, out=rows)
    rows -= 1.0


def _uniform(rng: np.random.Generator, rows: np.ndarray) -> None:
    rng.random(out=rows)
    rows -= 0.5
    rows *= np.sqrt(12.0)


def _student_t(degrees: float) -> Fill:
    def fill(rng: np.random.Generator, rows: np.ndarray) -> None:
        rows[:] = rng.standard_t(degrees, size=rows.shape)
        rows *= np.sqrt((degrees - 2) / degrees)

    return fill


FILL: dict[str, Fill] = {
    "gaussian": fill_normal,
    "rademacher": _rademacher,
    "uniform": _uniform,
    "student_t": _student_t(5.0),
    "student_t3": _student_t(3.0),
}
LAWS = tuple(FILL)


class DrawnInputs:
    """Independent coordinates of a law, scaled to the spectrum."""

    def __init__(self, problem: Problem, dims: Int[np.ndarray, " L"], law: str, rng: np.random.Generator):
        lam = np.repeat(np.asarray(problem.inputs.eigenvalues, dtype=float), dims)
        self.root = None if np.all(lam == 1.0) else np.sqrt(lam)
        self.fill, self.rng = FILL[law], rng
        self.buffer = np.empty((rows_per_block(problem, lam.size), lam.size))

    def rows(self, first: int, count: int) -> Rows:
        """The next `count` samples; the array is reused at the next call."""
        block = self.buffer[:count]
        self.fill(self.rng, block)
        if self.root is not None:
            block *= self.root
        return block


class RowInputs:
    """Rows of a user's array: as given, each once in random order, or sampled with replacement."""

    def __init__(self, problem: Problem, data: np.ndarray, order: str, rng: np.random.Generator):
        self.data, self.order, self.rng = data, order, rng
        self.shuffled = rng.permutation(data.shape[0]) if order == "shuffled" else None
        inputs = problem.inputs
        self.basis = inputs.basis
        self.center, self.scale = None, 1.0
        if isinstance(inputs, Spectrum) and self.basis is not None:
            self.center, self.scale = inputs.center, 1.0 / np.sqrt(float(np.asarray(inputs.scale)))

    def rows(self, first: int, count: int) -> Rows:
        if self.order == "sampled":
            which: Any = self.rng.integers(self.data.shape[0], size=count)
        else:
            which = slice(first, first + count) if self.shuffled is None else self.shuffled[first : first + count]
        block = np.array(self.data[which], dtype=float, order="C")
        if not np.isfinite(block).all():
            raise InputError(f"inputs contain {block[~np.isfinite(block)][0]}; every entry must be a finite number.")
        if self.basis is None:
            return block
        if self.center is not None:
            block -= self.center
        return np.ascontiguousarray(block @ self.basis.T) * self.scale


class FeatureInputs:
    """Samples of a `HiddenManifold`, in eigencoordinates, and what they do not carry of the fields of one teacher."""

    def __init__(self, features: Realized, latent: np.ndarray, teacher: np.ndarray, rng: np.random.Generator):
        self.features, self.latent, self.teacher, self.rng = features, latent, teacher, rng
        self.unseen = np.zeros((0, 0))

    def rows(self, first: int, count: int) -> Rows:
        N, D = self.features.matrix.shape
        c = self.rng.standard_normal((count, D))
        x = np.asarray(self.features.inputs.samples(c, self.features.matrix)) @ self.features.basis.T
        self.unseen = c @ self.latent.T / np.sqrt(D) - x @ self.teacher.T / np.sqrt(N)
        return x


Source = DrawnInputs | RowInputs | FeatureInputs


class Block(NamedTuple):
    """Samples first, first + 1, ... of a run, with all their random numbers.

    unseen: what the inputs do not carry of the teacher's fields, empty if they carry all. noise: the numbers of labels, rules
    and tasks. moves: zeta of teachers that drift, empty if they stay.
    """

    first: int
    rows: Rows
    unseen: Float[np.ndarray, "samples M"]
    noise: Float[np.ndarray, "samples D"]
    moves: Float[np.ndarray, "samples M N"]


class WeightsMethod:
    """Everything that the runs of one request share; `run` is one of them."""

    def __init__(self, request: Request):
        problem, dims, self.request = request.problem, request.dims, request
        features = isinstance(request.inputs, str) and request.inputs == "features"
        self.features = problem.inputs.realized() if features and isinstance(problem.inputs, HiddenManifold) else None
        self.constants, self.rates = step_constants(problem, request.dim), RateTable(problem, request.dim)
        self.tasks, self.table = isinstance(problem.teacher, Tasks), teacher_table(problem)
        self.roots = [coordinates.teacher_roots(problem, start) for start in request.starts]
        starts = request.starts if request.weights is None else []
        self.coordinates = [coordinates.level_coordinates(problem, start, dims) for start in starts]
        mask = problem.trainable_mask()
        self.mask = np.empty((0, 0)) if mask is None else np.ascontiguousarray(np.repeat(mask, dims, axis=0).T)
        self.loop = None if has_kernels(problem) else WeightsLoop(problem.all_seen(), self.constants, self.mask, dims)
        self.last, self.size = int(request.steps[-1]), rows_per_block(problem, request.dim)

    def run(self, index: int, records: Records, watch: Watch) -> Ended:
        """Run `index`, written into its records."""
        request, problem, B = self.request, self.request.problem, self.constants.batch
        which, total = index % len(request.starts), self.last * B
        W, W_teacher = self._build(index, which)
        own = self._overlaps(W, W)
        params = coordinates.initial_parameters(problem, request.starts[which])
        params = with_heads(params) if self.loop is None else params
        lengths, bound = coordinates.lengths_of(problem, own, request.dims), coordinates.divergence_bound(own) * request.dim
        state: WeightsState = W, np.zeros_like(W), np.zeros_like(W), W_teacher, params
        take = self._in_numba if self.loop is None else self._in_jax
        self._write(records, 0, state)
        for block in self._blocks(index, which, W_teacher, total):
            begin, last = block.first, block.first + len(block.rows)
            while begin < last:
                end = min(next_stop(request.steps, begin // B, last) * B, last)
                state, taken = take(state, lengths, block, begin, end)
                if taken < end or not np.all(bound > state[0] ** 2):
                    return Status.DIVERGED, taken // B
                if end % B == 0:
                    self._write(records, end // B, state)
                begin = end
            if not watch.goes_on(index, last // B) and last < total:
                return Status.INTERRUPTED, last // B
        return Status.FINISHED, self.last

    def _in_numba(
        self, state: WeightsState, lengths: np.ndarray, block: Block, begin: int, end: int
    ) -> tuple[WeightsState, int]:
        """The state after samples begin .. end - 1 of a block (in place), and the samples seen."""
        B, part = self.constants.batch, slice(begin - block.first, end - block.first)
        step, stop = begin // B, (end - 1) // B + 1
        origin = step - step % STRETCH
        rates = self.rates.table(origin, min(max(origin + STRETCH, stop), self.last))[step - origin : stop - origin]
        drawn = (x[part] for x in block[1:])
        seen = advance_weights(self.constants, self.table, *drawn, *state, self.mask, lengths, rates, begin)
        return state, begin + int(seen)

    def _in_jax(
        self, state: WeightsState, lengths: np.ndarray, block: Block, begin: int, end: int
    ) -> tuple[WeightsState, int]:
        """The same in JAX. Blocks are padded to one size, for one compilation; what is empty has one number per sample."""
        size, first = min(self.size, max(1, self.last * self.constants.batch)), block.first

        def padded(x: np.ndarray) -> np.ndarray:
            x = x if len(x) else np.zeros((len(block.rows), 1))
            return np.pad(x, [(0, size - len(x)), *[(0, 0)] * (x.ndim - 1)])

        steps = np.arange(first, first + size) // self.constants.batch
        rates = self.rates.table(int(steps[0]), int(steps[-1]) + 1)[steps - steps[0]]
        span = (np.asarray(n) for n in (first, begin - first, end - first))
        assert self.loop is not None
        state = self.loop.advance(state, lengths, (*map(padded, block[1:]), rates), *span)
        return jax.tree.map(np.asarray, state), end

    def _blocks(self, index: int, which: int, W_teacher: Float[np.ndarray, "M N"], total: int) -> Iterator[Block]:
        """The samples of a run, and their random numbers."""
        problem, source = self.request.problem, self._source(index, W_teacher)
        labels, drift, hidden = (stream(self.request.seed, index, purpose) for purpose in (NOISE, DRIFT, UNSEEN))
        width = 1 + self.tasks if self.loop is None else normals_needed(self.loop.problem)
        for first in range(0, total, self.size):
            samples = min(self.size, total - first)
            rows, noise = source.rows(first, samples), np.zeros((samples, width))
            if self.constants.draws or self.tasks or self.loop is not None:
                labels.standard_normal(out=noise)
            if self.tasks and self.loop is None:
                noise[:, 1] = ndtr(noise[:, 1])
            if isinstance(problem.inputs, Mixture):
                rows = self._in_classes(problem.inputs, rows, noise, W_teacher)
            unseen = source.unseen if isinstance(source, FeatureInputs) else np.zeros((0, 0))
            if self.features is None and problem.unseen is not None:
                unseen = hidden.standard_normal((samples, problem.teacher.hidden)) @ unseen_root(problem).T
            yield Block(first, rows, unseen, noise, self._moves(which, drift, samples))

    def _in_classes(self, mixture: Mixture, rows: Rows, noise: np.ndarray, W_teacher: Float[np.ndarray, "M N"]) -> Rows:
        """Samples of drawn classes: noise with the spectrum of its class, and its mean."""
        vectors = W_teacher[self.request.problem.label_fields :]
        means = np.asarray(mixture.coefficients) @ vectors / np.sqrt(self.request.dim)
        widths = np.sqrt(np.asarray(mixture.spectra) / np.asarray(mixture.eigenvalues))
        classes = np.asarray(class_of(mixture, jnp.asarray(noise)))
        return rows * np.repeat(widths, self.request.dims, axis=1)[classes] + means[classes]

    def _moves(self, which: int, rng: np.random.Generator, samples: int) -> Float[np.ndarray, "samples M N"]:
        """zeta of teachers that drift, one for each sample; empty if they stay."""
        M, dim = self.request.problem.references.hidden, self.request.dim
        if not self.constants.drift:
            return np.zeros((0, M, dim))
        moves, edges = rng.standard_normal((samples, M, dim)), np.cumsum([0, *self.request.dims])
        for root, (i, j) in zip(self.roots[which], itertools.pairwise(edges), strict=True):
            moves[:, :, i:j] = np.einsum("mn,sni->smi", root, moves[:, :, i:j])
        return moves

    def _build(self, index: int, which: int) -> tuple[Float[np.ndarray, "K N"], Float[np.ndarray, "M N"]]:
        """W and W*: as given, or the start's coordinates in a random frame of each eigenspace."""
        request, M = self.request, self.request.problem.references.hidden
        if request.weights is not None:
            return request.weights[0].copy(), request.weights[1].copy()
        frame = stream(request.seed, index, FRAME)
        vectors = coordinates.in_random_frames(self.coordinates[which], request.dims, frame)
        W, W_teacher = np.ascontiguousarray(vectors[M:]), np.ascontiguousarray(vectors[:M])
        if self.features is not None:
            amplitudes = np.repeat(np.sqrt(self.features.inputs.visible), request.dims)
            W_teacher = self.features.with_amplitudes(W_teacher, amplitudes)
        return W, W_teacher

    def _source(self, index: int, W_teacher: Float[np.ndarray, "M N"]) -> Source:
        request, rng = self.request, stream(self.request.seed, index, INPUTS)
        if self.features is not None:
            frame = stream(request.seed, index, UNSEEN)
            beta = self.features.latent_teacher(W_teacher, np.asarray(request.problem.unseen), frame)
            return FeatureInputs(self.features, beta, W_teacher, rng)
        if isinstance(request.inputs, str):
            return DrawnInputs(request.problem, request.dims, request.inputs, rng)
        return RowInputs(request.problem, request.inputs, request.order, rng)

    def _overlaps(self, a: Float[np.ndarray, "A N"], b: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "L A B"]:
        """a P_l b^T / n_l for every level."""
        spans = itertools.pairwise([0, *np.cumsum(self.request.dims)])
        return np.stack([a[:, i:j] @ b[:, i:j].T / (j - i) for i, j in spans])

    def _write(self, records: Records, taken: int, state: WeightsState) -> None:
        for at in np.flatnonzero(records.steps == taken):
            W, _, _, W_teacher, params = state
            r, q, t = self._overlaps(W, W_teacher), self._overlaps(W, W), self._overlaps(W_teacher, W_teacher)
            write_overlaps(records, at, self.request.field_weights, r, q, t, params.readout, params.bias)
