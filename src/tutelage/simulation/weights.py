"""Ordinary SGD on the actual weights, for any N and any data, in bounded memory.

The weights live in eigencoordinates (those of the data, rotated, if the spectrum was measured). Samples come in blocks of
about BLOCK numbers and are used once. Given weights and given rows, a run is the plain loop
    Delta = y - sum_k v_k g(w_k.x/sqrt(N)),   w_k += (eta/sqrt(N)) Delta v_k g'(w_k.x/sqrt(N)) x.

Samples are drawn level by level, x_i = sqrt(lam_i) z_i, with independent z of unit variance (LAWS; student_t3 has an infinite
fourth moment, and with it an infinite variance of one step). Or they are rows of an array; with a spectrum measured on data,
rows are centered, scaled and rotated as recorded there. The samples of a `HiddenManifold` are sigma(F c / sqrt(D)) itself; what
they do not carry of the teacher's fields beta . c / sqrt(D) is added to the fields. Blocks have a fixed size, so that the
samples of a run depend on its seed alone.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from tutelage import checks
from tutelage.errors import Status
from tutelage.integrate.program import BOUND
from tutelage.problem import Mixture, Problem, Spectrum, Tasks
from tutelage.problem.inputs import HiddenManifold
from tutelage.problem.sample import class_of, normals_needed, unseen_root
from tutelage.simulation import prepare
from tutelage.simulation.jax_steps import WeightsLoop, WeightsState
from tutelage.simulation.numba_kernels import advance_weights, draw_normals
from tutelage.simulation.prepare import RateTable, has_kernels, level_overlaps, step_constants, with_heads
from tutelage.simulation.runs import Ended, GoesOn, Records, Request, next_stop, stream

Rows = Float[np.ndarray, "samples N"]
FRAME, INPUTS, NOISE, DRIFT, UNSEEN = range(5)  # the random streams of a run
BLOCK = 2**16  # numbers drawn at a time: small enough for a cache, large enough to hide a function call
STRETCH = 4096  # steps whose rates are computed at once
ORDERS = ("given", "shuffled", "sampled")
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # rows, unseen fields, noise and moves of samples (`_blocks`)
Source = Callable[[int, int], Rows]  # samples first .. first + count - 1, in eigencoordinates


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    bits = np.unpackbits(np.frombuffer(rng.bytes((count + 7) // 8), dtype=np.uint8), count=count)
    return 2.0 * bits.reshape(shape) - 1.0


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "gaussian": draw_normals,
    "rademacher": _signs,
    "uniform": lambda rng, shape: np.sqrt(12.0) * (rng.random(shape) - 0.5),
    "student_t": lambda rng, shape: np.sqrt(3 / 5) * rng.standard_t(5.0, shape),
    "student_t3": lambda rng, shape: np.sqrt(1 / 3) * rng.standard_t(3.0, shape),
}


def drawn_rows(problem: Problem, dims: Int[np.ndarray, " L"], law: str, rng: np.random.Generator) -> Source:
    """Independent coordinates of a law, scaled to the spectrum."""
    root = np.sqrt(np.repeat(np.asarray(problem.inputs.eigenvalues, dtype=float), dims))
    isotropic = np.all(root == 1.0)

    def rows(first: int, count: int) -> Rows:
        block = LAWS[law](rng, (count, root.size))
        if not isotropic:
            block *= root  # in place: another array of this size costs more than the numbers
        return block

    return rows


def given_rows(problem: Problem, data: np.ndarray, order: str, rng: np.random.Generator) -> Source:
    """Rows of a user's array: as given, each once in random order, or sampled with replacement."""
    shuffled, inputs = rng.permutation(len(data)) if order == "shuffled" else None, problem.inputs
    center, scale = (inputs.center, float(np.asarray(inputs.scale))) if isinstance(inputs, Spectrum) else (None, 1.0)

    def rows(first: int, count: int) -> Rows:
        if order == "sampled":
            which: Any = rng.integers(len(data), size=count)
        else:
            which = slice(first, first + count) if shuffled is None else shuffled[first : first + count]
        block = np.array(data[which], dtype=float, order="C")
        checks.require_finite("inputs", block)
        if inputs.basis is None:
            return block
        return np.ascontiguousarray((block if center is None else block - center) @ inputs.basis.T / np.sqrt(scale))

    return rows


class WeightsMethod:
    """Everything that the runs of one request share; `run` is one of them."""

    def __init__(self, request: Request):
        problem, dims, self.request = request.problem, request.dims, request
        features = isinstance(request.inputs, str) and request.inputs == "features"
        self.features = problem.inputs.realized() if features and isinstance(problem.inputs, HiddenManifold) else None
        self.constants, self.rates = step_constants(problem, request.dim), RateTable(problem, request.dim)
        self.tasks = isinstance(problem.teacher, Tasks)
        self.roots = [prepare.matrix_roots(start.blocks(problem)[2]) for start in request.starts]
        starts = request.starts if request.weights is None else []
        self.coordinates = [prepare.level_coordinates(problem, start, dims) for start in starts]
        mask = problem.trainable_mask()
        self.mask = np.empty((0, 0)) if mask is None else np.ascontiguousarray(np.repeat(mask, dims, axis=0).T)
        self.loop = None if has_kernels(problem) else WeightsLoop(problem.all_seen(), self.constants, dims)
        self.last, T = int(request.steps[-1]), problem.rule.samples
        self.size = max(1, BLOCK // request.dim // T) * T  # samples drawn at a time: whole episodes

    def run(self, index: int, records: Records, goes_on: GoesOn) -> Ended:
        """Run `index`, written into its records."""
        request, problem, B = self.request, self.request.problem, self.constants.batch
        which, total = index % len(request.starts), self.last * B
        W, W_teacher = self._build(index, which)
        own = level_overlaps(W, W, request.dims)
        params = prepare.initial_parameters(problem, request.starts[which])
        params = with_heads(params) if self.loop is None else params
        lengths, bound = prepare.lengths_of(problem, own, request.dims), BOUND * (1.0 + np.max(own**2)) * request.dim
        state: WeightsState = W, np.zeros_like(W), np.zeros_like(W), W_teacher, params
        take = self._in_numba if self.loop is None else self._in_jax
        self._write(records, 0, state)
        for first, drawn in self._blocks(index, which, W_teacher, total):
            begin, last = first, first + len(drawn[0])
            while begin < last:
                end = min(next_stop(request.steps, begin // B, last) * B, last)
                state, taken = take(state, lengths, first, drawn, begin, end)
                if taken < end or not np.all(bound > state[0] ** 2):
                    return Status.DIVERGED, taken // B
                if end % B == 0:
                    self._write(records, end // B, state)
                begin = end
            if not goes_on(last // B) and last < total:
                return Status.INTERRUPTED, last // B
        return Status.FINISHED, self.last

    def _in_numba(
        self, state: WeightsState, lengths: np.ndarray, first: int, drawn: Drawn, begin: int, end: int
    ) -> tuple[WeightsState, int]:
        """The state after samples begin .. end - 1 of a block (in place), and the samples seen. first: of the block."""
        B, part = self.constants.batch, [x[begin - first : end - first] for x in drawn]
        step, stop = begin // B, (end - 1) // B + 1
        origin = step - step % STRETCH
        rates = self.rates.table(origin, min(max(origin + STRETCH, stop), self.last))[step - origin : stop - origin]
        seen = advance_weights(self.constants, *part, *state, self.mask, lengths, rates, begin)
        return state, begin + int(seen)

    def _in_jax(
        self, state: WeightsState, lengths: np.ndarray, first: int, drawn: Drawn, begin: int, end: int
    ) -> tuple[WeightsState, int]:
        """The same in JAX. Blocks are padded to one size, for one compilation; what is empty has one number per sample."""
        size = min(self.size, max(1, self.last * self.constants.batch))

        def padded(x: np.ndarray) -> np.ndarray:
            x = x if len(x) else np.zeros((len(drawn[0]), 1))
            return np.pad(x, [(0, size - len(x)), *[(0, 0)] * (x.ndim - 1)])

        steps = np.arange(first, first + size) // self.constants.batch
        rates = self.rates.table(int(steps[0]), int(steps[-1]) + 1)[steps - steps[0]]
        span = (np.asarray(n) for n in (first, begin - first, end - first))
        assert self.loop is not None
        state = self.loop.advance(state, lengths, (*map(padded, drawn), rates), *span)
        return jax.tree.map(np.asarray, state), end

    def _blocks(
        self, index: int, which: int, W_teacher: Float[np.ndarray, "M N"], total: int
    ) -> Iterator[tuple[int, Drawn]]:
        """Samples first, first + 1, ... of a run: rows, what they do not carry of the teacher's fields (empty if they carry
        all), the numbers of labels, rules and tasks, and zeta of teachers that drift (empty if they stay)."""
        request, problem, latent = self.request, self.request.problem, np.zeros((0, 0))
        inputs, labels, drift, hidden = (stream(request.seed, index, key) for key in (INPUTS, NOISE, DRIFT, UNSEEN))
        if self.features is not None:
            latent = self.features.latent_teacher(W_teacher, np.asarray(problem.unseen), hidden)
            source = lambda first, count: inputs.standard_normal((count, latent.shape[1]))  # noqa: E731
        elif isinstance(request.inputs, str):
            source = drawn_rows(problem, request.dims, request.inputs, inputs)
        else:
            source = given_rows(problem, request.inputs, request.order, inputs)
        width = 1 + self.tasks if self.loop is None else normals_needed(self.loop.problem)
        for first in range(0, total, self.size):
            samples = min(self.size, total - first)
            rows, unseen, noise = source(first, samples), np.zeros((0, 0)), np.zeros((samples, width))
            if self.constants.draws or self.tasks or self.loop is not None:
                labels.standard_normal(out=noise)
            if self.tasks and self.loop is None:
                noise[:, 1] = ndtr(noise[:, 1])
            if isinstance(problem.inputs, Mixture):
                rows = self._in_classes(problem.inputs, rows, noise, W_teacher)
            if self.features is not None:
                rows, unseen = self._of_latent(rows, latent, W_teacher)
            elif problem.unseen is not None:
                unseen = hidden.standard_normal((samples, problem.teacher.hidden)) @ unseen_root(problem).T
            yield first, (rows, unseen, noise, self._moves(which, drift, samples))

    def _of_latent(self, c: np.ndarray, latent: np.ndarray, W_teacher: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Samples of a `HiddenManifold` with latent vectors c, and what they do not carry of the fields of one teacher."""
        assert self.features is not None
        N, D = self.features.matrix.shape
        x = np.asarray(self.features.inputs.samples(c, self.features.matrix)) @ self.features.basis.T
        return x, c @ latent.T / np.sqrt(D) - x @ W_teacher.T / np.sqrt(N)

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
        vectors = prepare.in_random_frames(self.coordinates[which], request.dims, frame)
        W, W_teacher = np.ascontiguousarray(vectors[M:]), np.ascontiguousarray(vectors[:M])
        if self.features is not None:
            amplitudes = np.repeat(np.sqrt(self.features.inputs.visible), request.dims)
            W_teacher = self.features.with_amplitudes(W_teacher, amplitudes)
        return W, W_teacher

    def _write(self, records: Records, taken: int, state: WeightsState) -> None:
        for at in np.flatnonzero(records.steps == taken):
            W, _, _, W_teacher, params = state
            r, q, t = (level_overlaps(a, b, self.request.dims) for a, b in ((W, W_teacher), (W, W), (W_teacher, W_teacher)))
            records.write(at, r, q, t, params.readout, params.bias)
