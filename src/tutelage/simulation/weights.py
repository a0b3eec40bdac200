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

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._types import Array
from tutelage.problem import Mixture, Problem, Spectrum
from tutelage.problem.inputs import HiddenManifold
from tutelage.problem.sample import class_of, normals_needed
from tutelage.simulation import prepare
from tutelage.simulation.draws import unseen_fields
from tutelage.simulation.jax_steps import Draws
from tutelage.simulation.method import Method
from tutelage.simulation.numba_kernels import Samples, normal_numbers
from tutelage.simulation.runs import Ended, GoesOn, Records, Request, stream

Rows = Float[np.ndarray, "samples N"]
FRAME, INPUTS, NOISE, DRIFT, UNSEEN = range(5)  # the random streams of a run
BLOCK = 2**16  # numbers drawn at a time: small enough for a cache, large enough to hide a function call
ORDERS = ("given", "shuffled", "sampled")
Source = Callable[[int, int], Rows]  # samples first .. first + count - 1, in eigencoordinates


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    bits = np.unpackbits(np.frombuffer(rng.bytes((count + 7) // 8), dtype=np.uint8), count=count)
    return 2.0 * bits.reshape(shape) - 1.0


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "gaussian": normal_numbers,
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


class WeightsMethod(Method):
    """`run` is one of the runs, in numba or in JAX."""

    def __init__(self, request: Request):
        problem, dims = request.problem, request.dims
        super().__init__(request, prepare.weights_layout(problem, dims), given=True)
        features = isinstance(request.inputs, str) and request.inputs == "features"
        self.features = problem.inputs.realized() if features and isinstance(problem.inputs, HiddenManifold) else None
        self.roots = [prepare.matrix_roots(start.blocks(problem)[2]) for start in request.starts]
        starts = request.starts if request.weights is None else []
        self.coordinates = [prepare.level_coordinates(problem, start, dims) for start in starts]
        self.block = min(max(1, BLOCK // (request.dim * self.constants.batch)), max(self.last, 1))  # steps drawn at a time

    def run(self, index: int, records: Records, goes_on: GoesOn) -> Ended:
        """Run `index`, written into its records."""
        request, which = self.request, index % len(self.request.starts)
        W, W_teacher = self._build(index, which)
        state = prepare.place_weights(request.problem, request.starts[which], W, W_teacher, self.layout)
        if prepare.has_kernels(request.problem):
            labels = stream(request.seed, index, NOISE)
            return self.in_numba(state, labels, self._samples(index, which, W_teacher), records, goes_on)
        draws = self._draws(index, which, W_teacher)
        status, taken = self.in_jax([state], 1, self.block, draws, records.of(np.newaxis), goes_on)
        return status[0], taken[0]

    def level_overlaps(
        self, a: Float[np.ndarray, "*lead 1 A N"], b: Float[np.ndarray, "*lead 1 B N"]
    ) -> Float[np.ndarray, "*lead L A B"]:
        """By the coordinates of each level; they are those of w / sqrt(N)."""
        return self.request.dim * prepare.level_overlaps(a[..., 0, :, :], b[..., 0, :, :], self.request.dims)

    def _draws(self, index: int, which: int, W_teacher: Float[np.ndarray, "M N"]) -> Iterator[Draws]:
        """Samples for the steps in JAX, and the numbers of labels, rules and tasks. All blocks have one size, for one compilation."""
        problem, labels = self.request.problem, stream(self.request.seed, index, NOISE)

        def padded(x: np.ndarray) -> Array:
            return jnp.asarray(np.pad(x, [(0, self.block - len(x)), *[(0, 0)] * (x.ndim - 1)]))[..., None]

        for _, _, (x, unseen, moves) in self._samples(index, which, W_teacher):
            noise = labels.standard_normal((*x.shape[:2], normals_needed(problem)))
            if isinstance(problem.inputs, Mixture):
                x = self._in_classes(problem.inputs, x, noise, W_teacher)
            beyond = unseen if unseen.size else unseen_fields(problem, noise)
            given = None if beyond is None else padded(np.asarray(beyond))
            moving = padded(moves[:, None]) if moves.size else None
            yield Draws(padded(x), padded(noise), given, None, moving, None)

    def _samples(self, index: int, which: int, W_teacher: Float[np.ndarray, "M N"]) -> Iterator[tuple[int, int, Samples]]:
        """The first step, the end and the samples of each block of steps."""
        request, problem, B, latent = self.request, self.request.problem, self.constants.batch, np.zeros((0, 0))
        inputs, drift, hidden = (stream(request.seed, index, key) for key in (INPUTS, DRIFT, UNSEEN))
        if self.features is not None:
            latent = self.features.latent_teacher(W_teacher, np.asarray(problem.unseen), hidden)
            source = lambda first, count: inputs.standard_normal((count, latent.shape[1]))  # noqa: E731
        elif isinstance(request.inputs, str):
            source = drawn_rows(problem, request.dims, request.inputs, inputs)
        else:
            source = given_rows(problem, request.inputs, request.order, inputs)
        for first in range(0, max(self.last, 1), self.block):
            end = min(first + self.block, self.last)
            rows, unseen = source(first * B, (end - first) * B), np.zeros((0, B, 0))
            if self.features is not None:
                rows, beyond = self._of_latent(rows, latent, W_teacher)
                unseen = beyond.reshape(end - first, B, -1)
            x = rows.reshape(end - first, B, 1, request.dim)
            yield first, end, Samples(x, unseen, self._moves(which, drift, end - first))

    def _of_latent(self, c: np.ndarray, latent: np.ndarray, W_teacher: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Samples of a `HiddenManifold` with latent vectors c, and what they do not carry of the fields of one teacher."""
        assert self.features is not None
        N, D = self.features.matrix.shape
        x = np.asarray(self.features.inputs.samples(c, self.features.matrix)) @ self.features.basis.T
        return x, c @ latent.T / np.sqrt(D) - x @ W_teacher.T / np.sqrt(N)

    def _in_classes(
        self, mixture: Mixture, x: Float[np.ndarray, "steps B 1 N"], noise: np.ndarray, W_teacher: Float[np.ndarray, "M N"]
    ) -> Float[np.ndarray, "steps B 1 N"]:
        """Samples of drawn classes: noise with the spectrum of its class, and its mean."""
        vectors = W_teacher[self.request.problem.label_fields :]
        means = np.asarray(mixture.coefficients) @ vectors / np.sqrt(self.request.dim)
        widths = np.sqrt(np.asarray(mixture.spectra) / np.asarray(mixture.eigenvalues))
        classes = np.asarray(class_of(mixture, jnp.asarray(noise)))[..., None]
        return x * np.repeat(widths, self.request.dims, axis=1)[classes] + means[classes]

    def _moves(self, which: int, rng: np.random.Generator, steps: int) -> Float[np.ndarray, "steps M N"]:
        """zeta of teachers that drift, one for each step; empty if they stay."""
        M, dim = self.request.problem.references.hidden, self.request.dim
        if not self.constants.drift:
            return np.zeros((0, M, dim))
        moves, edges = rng.standard_normal((steps, M, dim)), np.cumsum([0, *self.request.dims])
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
