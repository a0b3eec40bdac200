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
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from tutelage.errors import InputError, Status
from tutelage.problem import Mixture, Problem, Spectrum, Tasks
from tutelage.problem.hidden_manifold import HiddenManifold, Realized
from tutelage.problem.sample import class_of, normals_needed, unseen_root
from tutelage.simulation import coordinates
from tutelage.simulation.numba_kernels import ParameterState, Records, advance_weights, fill_normal
from tutelage.simulation.overlaps import divergence_bound
from tutelage.simulation.runs import Run, Watch, empty_records, next_stop, stream, write_overlaps
from tutelage.simulation.step_constants import RateTable, has_kernels, step_constants, teacher_table, with_heads

if TYPE_CHECKING:
    from tutelage.simulation.request import Request

Rows = Float[np.ndarray, "samples N"]
FRAME, INPUTS, NOISE, DRIFT, UNSEEN = range(5)  # the random streams of a run
BLOCK = 2**16  # numbers drawn at a time: small enough for a cache, large enough to hide a function call
STRETCH = 4096  # steps whose rates are computed at once
ORDERS = ("given", "shuffled", "sampled")

Fill = Callable[[np.random.Generator, np.ndarray], None]


def rows_per_block(problem: Problem, dim: int) -> int:
    """Samples drawn at a time: whole episodes."""
    return max(1, BLOCK // dim // problem.rule.samples) * problem.rule.samples


def _gaussian(rng: np.random.Generator, rows: np.ndarray) -> None:
    fill_normal(rng, rows)


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
    "gaussian": _gaussian,
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


class WeightsMethod:
    """Everything that the runs of one request share; `run` is one of them."""

    def __init__(self, request: "Request"):
        problem, dims = request.problem, request.dims
        self.problem, self.starts, self.dims, self.steps, self.dim = (
            problem,
            request.starts,
            dims,
            request.steps,
            request.dim,
        )
        self.seed, self.keep, self.weights = request.seed, request.keep, request.weights
        self.inputs, self.order = request.inputs, request.order
        inputs, real = problem.inputs, isinstance(self.inputs, str) and self.inputs == "features"
        self.features = inputs.realized() if real and isinstance(inputs, HiddenManifold) else None
        self.constants, self.rates = step_constants(problem, self.dim), RateTable(problem, self.dim)
        self.tasks, self.table = isinstance(problem.teacher, Tasks), teacher_table(problem)
        self.roots = [coordinates.teacher_roots(problem, start) for start in self.starts]
        self.coordinates = None
        if self.weights is None:
            self.coordinates = [coordinates.level_coordinates(problem, start, dims) for start in self.starts]
        self.field_weights = dims / self.dim * np.asarray(problem.inputs.eigenvalues, dtype=float)
        mask = problem.trainable_mask()
        self.mask = np.empty((0, 0)) if mask is None else np.ascontiguousarray(np.repeat(mask, dims, axis=0).T)
        self.loop: Any = None
        if not has_kernels(problem):
            from tutelage.simulation.jax_steps import WeightsLoop

            self.loop = WeightsLoop(problem.all_seen(), self.constants, self.mask, dims)

    def run(self, index: int, watch: Watch) -> Run:
        which = index % len(self.starts)
        W, W_teacher = self._build(index, which)
        own = self._overlaps(W, W)
        params = coordinates.initial_parameters(self.problem, self.starts[which])
        lengths, bound = coordinates.lengths_of(self.problem, own, self.dims), divergence_bound(own) * self.dim
        network = (_NumbaNetwork if self.loop is None else _JaxNetwork)(self, W, W_teacher, params, lengths)
        records = empty_records(self.problem, self.steps, self.keep)
        source = self._source(index, W_teacher)
        noise, drift, hidden = (stream(self.seed, index, purpose) for purpose in (NOISE, DRIFT, UNSEEN))
        B, block = self.constants.batch, rows_per_block(self.problem, self.dim)
        total = int(self.steps[-1]) * B
        self._write(records, 0, network)
        for first in range(0, total, block):
            last = min(first + block, total)
            rows, xi = source.rows(first, last - first), np.zeros(self._draws(last - first))
            if self.constants.draws or self.tasks or self.loop is not None:
                noise.standard_normal(out=xi)
            if self.tasks and self.loop is None:
                xi[:, 1] = ndtr(xi[:, 1])
            if isinstance(self.problem.inputs, Mixture):
                rows = self._in_classes(self.problem.inputs, rows, xi, W_teacher)
            moves, unseen = self._moves(which, drift, last - first), self._unseen(source, hidden, last - first)
            for begin, end in self._stretches(first, last):
                taken = network.take(rows, unseen, xi, moves, first, begin, end)
                if taken < end or not np.all(bound > network.W**2):
                    return Run(records, Status.DIVERGED, taken // B)
                if end % B == 0:
                    self._write(records, end // B, network)
            if not watch.goes_on(index, last // B) and last < total:
                return Run(records, Status.INTERRUPTED, last // B)
        return Run(records, Status.FINISHED, int(self.steps[-1]))

    def _in_classes(self, mixture: Mixture, rows: Rows, xi: np.ndarray, W_teacher: Float[np.ndarray, "M N"]) -> Rows:
        """Samples of drawn classes: noise with the spectrum of its class, and its mean."""
        means = np.asarray(mixture.coefficients) @ W_teacher[self.problem.label_fields :] / np.sqrt(self.dim)
        widths = np.sqrt(np.asarray(mixture.spectra) / np.asarray(mixture.eigenvalues))
        classes = np.asarray(class_of(mixture, jnp.asarray(xi)))
        return rows * np.repeat(widths, self.dims, axis=1)[classes] + means[classes]

    def _draws(self, samples: int) -> tuple[int, ...]:
        """The shape of the normals that labels and rule need for so many samples."""
        return (samples, 1 + self.tasks) if self.loop is None else (samples, normals_needed(self.loop.problem))

    def _unseen(self, source: "Source", rng: np.random.Generator, samples: int) -> Float[np.ndarray, "samples M"]:
        """What the inputs do not carry of the teacher's fields; empty if they carry all."""
        if isinstance(source, FeatureInputs):
            return source.unseen
        if self.problem.unseen is None:
            return np.zeros((0, 0))
        return rng.standard_normal((samples, self.problem.teacher.hidden)) @ unseen_root(self.problem).T

    def _moves(self, which: int, rng: np.random.Generator, samples: int) -> Float[np.ndarray, "samples M N"]:
        """zeta of teachers that drift, one for each sample; empty if they stay."""
        M = self.problem.references.hidden
        if not self.constants.drift:
            return np.zeros((0, M, self.dim))
        moves, edges = rng.standard_normal((samples, M, self.dim)), np.cumsum([0, *self.dims])
        for root, (i, j) in zip(self.roots[which], itertools.pairwise(edges), strict=True):
            moves[:, :, i:j] = np.einsum("mn,sni->smi", root, moves[:, :, i:j])
        return moves

    def _stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Samples first .. last - 1 as intervals that end at recorded steps."""
        B = self.constants.batch
        while first < last:
            end = min(next_stop(self.steps, first // B, last) * B, last)
            yield first, end
            first = end

    def _build(self, index: int, which: int) -> tuple[Float[np.ndarray, "K N"], Float[np.ndarray, "M N"]]:
        """W and W*: as given, or the start's coordinates in a random frame of each eigenspace."""
        if self.weights is not None:
            return self.weights[0].copy(), self.weights[1].copy()
        assert self.coordinates is not None
        vectors = coordinates.in_random_frames(self.coordinates[which], self.dims, stream(self.seed, index, FRAME))
        M = self.problem.references.hidden
        W, W_teacher = np.ascontiguousarray(vectors[M:]), np.ascontiguousarray(vectors[:M])
        if self.features is not None:
            W_teacher = self.features.with_amplitudes(W_teacher, np.repeat(np.sqrt(self.features.inputs.visible), self.dims))
        return W, W_teacher

    def _source(self, index: int, W_teacher: Float[np.ndarray, "M N"]) -> "Source":
        rng = stream(self.seed, index, INPUTS)
        if self.features is not None:
            frame = stream(self.seed, index, UNSEEN)
            beta = self.features.latent_teacher(W_teacher, np.asarray(self.problem.unseen), frame)
            return FeatureInputs(self.features, beta, W_teacher, rng)
        if isinstance(self.inputs, str):
            return DrawnInputs(self.problem, self.dims, self.inputs, rng)
        return RowInputs(self.problem, self.inputs, self.order, rng)

    def _overlaps(self, a: Float[np.ndarray, "A N"], b: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "L A B"]:
        """a P_l b^T / n_l for every level."""
        spans = itertools.pairwise([0, *np.cumsum(self.dims)])
        return np.stack([a[:, i:j] @ b[:, i:j].T / (j - i) for i, j in spans])

    def _write(self, records: Records, taken: int, network: "_NumbaNetwork | _JaxNetwork") -> None:
        if np.any(records.steps == taken):
            W, W_teacher, params = network.W, network.W_teacher, network.params
            r, q, t = self._overlaps(W, W_teacher), self._overlaps(W, W), self._overlaps(W_teacher, W_teacher)
            readout = np.reshape(params.readout, records.readout.shape[1:])
            write_overlaps(records, taken, r, q, self.field_weights, readout, params.bias, t)


Source = DrawnInputs | RowInputs | FeatureInputs


class _NumbaNetwork:
    """A network that learns in the numba loop, in place."""

    def __init__(
        self, method: WeightsMethod, W: np.ndarray, W_teacher: np.ndarray, params: ParameterState, lengths: np.ndarray
    ):
        self.constants, self.table, self.rates, self.mask = method.constants, method.table, method.rates, method.mask
        self.W, self.W_teacher, self.params, self.lengths = W, W_teacher, with_heads(params), lengths
        self.velocity = np.zeros(W.shape if self.constants.momentum else (0, 0))
        self.gradient, self.last = np.zeros_like(W), int(method.steps[-1])

    def take(
        self, rows: Rows, unseen: np.ndarray, xi: np.ndarray, moves: np.ndarray, first: int, begin: int, end: int
    ) -> int:
        """Learn from samples begin .. end - 1 of a block that begins at `first`; returns the samples seen."""
        B, part = self.constants.batch, slice(begin - first, end - first)
        step, stop = begin // B, (end - 1) // B + 1
        origin = step - step % STRETCH
        rates = self.rates.table(origin, min(max(origin + STRETCH, stop), self.last))[step - origin : stop - origin]
        moving = (self.W, self.W_teacher, self.velocity, self.gradient, self.mask, self.params, self.lengths)
        drawn = rows[part], unseen[part], xi[part], moves[part]
        return begin + int(advance_weights(self.constants, self.table, *drawn, *moving, rates, begin))


class _JaxNetwork:
    """The same in a JAX loop, for what the numba loop does not have."""

    def __init__(
        self, method: WeightsMethod, W: np.ndarray, W_teacher: np.ndarray, params: ParameterState, lengths: np.ndarray
    ):
        self.loop, self.rates, self.batch = method.loop, method.rates, method.constants.batch
        self.block = min(rows_per_block(method.problem, W.shape[1]), max(1, int(method.steps[-1]) * self.batch))
        self.fixed = (lengths,)
        self.state = (W, np.zeros_like(W), np.zeros_like(W), W_teacher, params)

    @property
    def W(self) -> Float[np.ndarray, "K N"]:
        return np.asarray(self.state[0])

    @property
    def W_teacher(self) -> Float[np.ndarray, "M N"]:
        return np.asarray(self.state[3])

    @property
    def params(self) -> ParameterState:
        return ParameterState(*(np.asarray(x) for x in self.state[4]))

    def take(
        self, rows: Rows, unseen: np.ndarray, xi: np.ndarray, moves: np.ndarray, first: int, begin: int, end: int
    ) -> int:
        missing, B = self.block - rows.shape[0], self.batch
        steps = np.arange(first, first + self.block) // B
        rates = self.rates.table(int(steps[0]), int(steps[-1]) + 1)[steps - steps[0]]
        moves = np.pad(moves, ((0, self.block - len(moves)), (0, 0), (0, 0))) if len(moves) else np.zeros(self.block)
        unseen = np.pad(unseen, ((0, missing), (0, 0))) if len(unseen) else np.zeros((self.block, 1))
        block = np.pad(rows, ((0, missing), (0, 0))), unseen, np.pad(xi, ((0, missing), (0, 0))), moves, rates
        self.state = self.loop.advance(self.state, self.fixed, block, first, begin - first, end - first)
        return end
