"""SGD on the actual weights, for any N and any data, in bounded memory.

The weights live in eigencoordinates (those of the data, rotated, if the spectrum was
measured). Samples come in blocks of about BLOCK numbers and are used once. Given
weights and given rows, a run is the plain loop

    Delta = y - sum_k v_k g(w_k.x/sqrt(N))
    w_k += (eta/sqrt(N)) Delta v_k g'(w_k.x/sqrt(N)) x

Samples are drawn level by level, x_i = sqrt(lam_i) z_i, with independent z of unit
variance (LAWS; student_t3 has an infinite fourth moment, and with it an infinite
variance of one step). Or they are rows of an array; with a spectrum measured on data,
rows are centered, scaled and rotated as recorded there. The samples of a
`HiddenManifold` are sigma(F c / sqrt(D)) itself. The part of the teacher's fields
beta . c / sqrt(D) that they do not carry is added to the fields. Blocks have a fixed
size, so that the samples of a run depend on its seed alone.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._types import Array
from tutelage.problem import Mixture, Problem, Spectrum
from tutelage.problem.sample import class_of, normals_needed
from tutelage.simulation import prepare
from tutelage.simulation.draws import unseen_fields
from tutelage.simulation.jax_steps import Draws
from tutelage.simulation.method import Method
from tutelage.simulation.numba_kernels import Samples, normal_numbers
from tutelage.simulation.prepare import OverlapsState
from tutelage.simulation.runs import Ended, Records, Request, ShouldContinue, stream

Rows = Float[np.ndarray, "samples N"]
# Samples first .. first + count - 1, in eigencoordinates.
Source = Callable[[int, int], Rows]
FRAME, INPUTS, NOISE, DRIFT, UNSEEN = range(5)  # the random streams of a run
# Numbers drawn at a time: small enough for a cache, large enough to hide a function
# call.
BLOCK = 2**16
ORDERS = ("given", "shuffled", "sampled")


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw -1 and 1 with equal probabilities."""
    count = math.prod(shape)
    packed = np.frombuffer(rng.bytes((count + 7) // 8), dtype=np.uint8)
    bits = np.unpackbits(packed, count=count)
    return 2.0 * bits.reshape(shape) - 1.0


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw uniform numbers of variance one."""
    return np.sqrt(12.0) * (rng.random(shape) - 0.5)


def _student_t(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw Student's t with 5 degrees of freedom, of variance one."""
    return np.sqrt(3 / 5) * rng.standard_t(5.0, shape)


def _student_t3(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw Student's t with 3 degrees of freedom, of variance one."""
    return np.sqrt(1 / 3) * rng.standard_t(3.0, shape)


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "gaussian": normal_numbers,
    "rademacher": _signs,
    "uniform": _uniform,
    "student_t": _student_t,
    "student_t3": _student_t3,
}


def drawn_rows(
    problem: Problem, dims: Int[np.ndarray, " L"], law: str, rng: np.random.Generator
) -> Source:
    """Return a source of independent coordinates of a law, scaled to the spectrum."""
    eigenvalues = np.asarray(problem.inputs.eigenvalues, dtype=float)
    root = np.sqrt(np.repeat(eigenvalues, dims))
    is_isotropic = np.all(root == 1.0)

    def rows(first: int, count: int) -> Rows:
        block = LAWS[law](rng, (count, root.size))
        if not is_isotropic:
            block *= (
                root  # in place: another array of this size costs more than drawing
            )
        return block

    return rows


def given_rows(
    problem: Problem, data: np.ndarray, order: str, rng: np.random.Generator
) -> Source:
    """Return a source of rows of a user's array.

    order: as given, each once in random order, or sampled with replacement.
    """
    inputs = problem.inputs
    permutation = rng.permutation(len(data)) if order == "shuffled" else None
    center = None
    scale = 1.0
    if isinstance(inputs, Spectrum):
        center = inputs.center
        scale = float(np.asarray(inputs.scale))

    def rows(first: int, count: int) -> Rows:
        which: Any = slice(first, first + count)
        if order == "sampled":
            which = rng.integers(len(data), size=count)
        elif permutation is not None:
            which = permutation[which]
        block = np.array(data[which], dtype=float, order="C")
        checks.require_finite("inputs", block)
        if inputs.basis is None:
            return block
        if center is not None:
            block = block - center
        return np.ascontiguousarray(block @ inputs.basis.T / np.sqrt(scale))

    return rows


class Weights(NamedTuple):
    """Initial weights in eigencoordinates."""

    student: Float[np.ndarray, "K N"]
    teacher: Float[np.ndarray, "M N"]


class WeightsMethod(Method):
    """SGD on actual weights: `run` computes one run, in numba or in JAX."""

    def __init__(self, request: Request):
        problem = request.problem
        dims = request.dims
        super().__init__(request, prepare.weights_layout(problem, dims), given=True)
        self.features = None
        uses_features = isinstance(request.inputs, str) and request.inputs == "features"
        if uses_features and problem.hidden_manifold is not None:
            self.features = problem.hidden_manifold.realized()
        self.roots = []
        self.coordinates = []
        for start in request.starts:
            _, _, t = start.blocks(problem)
            self.roots.append(prepare.matrix_roots(t))
            if request.weights is None:
                coordinates = prepare.level_coordinates(problem, start, dims)
                self.coordinates.append(coordinates)
        # steps whose samples are drawn at a time
        fitting = max(1, BLOCK // (request.dim * self.constants.batch))
        self.block = min(fitting, max(self.last, 1))

    def run(
        self, index: int, records: Records, should_continue: ShouldContinue
    ) -> Ended:
        """Compute run `index` and write its records."""
        request = self.request
        which = index % len(request.starts)
        weights = self._initial_weights(index, which)
        state: OverlapsState = prepare.place_weights(
            request.problem,
            request.starts[which],
            weights.student,
            weights.teacher,
            self.layout,
        )
        if prepare.has_kernels(request.problem):
            rng = stream(request.seed, index, NOISE)
            samples = self._samples(index, which, weights.teacher)
            return self.in_numba(state, rng, samples, records, should_continue)
        draws = self._draws(index, which, weights.teacher)
        one_run = records.of(np.newaxis)
        status, taken = self.in_jax(
            [state], 1, self.block, draws, one_run, should_continue
        )
        return status[0], taken[0]

    def level_overlaps(
        self, a: Float[np.ndarray, "*lead 1 A N"], b: Float[np.ndarray, "*lead 1 B N"]
    ) -> Float[np.ndarray, "*lead L A B"]:
        """Return overlaps by the coordinates of each level, which are w / sqrt(N)."""
        overlaps = prepare.level_overlaps(
            a[..., 0, :, :], b[..., 0, :, :], self.request.dims
        )
        return self.request.dim * overlaps

    def _draws(
        self, index: int, which: int, W_teacher: Float[np.ndarray, "M N"]
    ) -> Iterator[Draws]:
        """Yield the samples and other random numbers of blocks of steps in JAX.

        All blocks have one size, for one compilation.
        """
        problem = self.request.problem
        rng = stream(self.request.seed, index, NOISE)

        def padded(x: np.ndarray) -> Array:
            missing = [(0, self.block - len(x)), *[(0, 0)] * (x.ndim - 1)]
            return jnp.asarray(np.pad(x, missing))[..., None]

        for _, _, samples in self._samples(index, which, W_teacher):
            x = samples.x
            noise = rng.standard_normal((*x.shape[:2], normals_needed(problem)))
            if problem.mixture is not None:
                x = self._in_classes(problem.mixture, x, noise, W_teacher)
            unseen = samples.unseen
            if not unseen.size:
                unseen = unseen_fields(problem, noise)
            moves = samples.moves
            yield Draws(
                normals=padded(x),
                noise=padded(noise),
                unseen=None if unseen is None else padded(np.asarray(unseen)),
                outside=None,
                moves=padded(moves[:, None]) if moves.size else None,
                far_moves=None,
            )

    def _samples(
        self, index: int, which: int, W_teacher: Float[np.ndarray, "M N"]
    ) -> Iterator[tuple[int, int, Samples]]:
        """Yield the first step, the end and the samples of each block of steps."""
        request = self.request
        problem = request.problem
        batch = self.constants.batch
        input_rng = stream(request.seed, index, INPUTS)
        drift_rng = stream(request.seed, index, DRIFT)
        latent = np.zeros((0, 0))
        if self.features is not None:
            unseen = np.asarray(problem.unseen)
            rng = stream(request.seed, index, UNSEEN)
            latent = self.features.latent_teacher(W_teacher, unseen, rng)

            def latent_rows(first: int, count: int) -> Rows:
                return input_rng.standard_normal((count, latent.shape[1]))

            source = latent_rows
        elif isinstance(request.inputs, str):
            source = drawn_rows(problem, request.dims, request.inputs, input_rng)
        else:
            source = given_rows(problem, request.inputs, request.order, input_rng)
        for first in range(0, max(self.last, 1), self.block):
            end = min(first + self.block, self.last)
            steps = end - first
            rows = source(first * batch, steps * batch)
            unseen = np.zeros((0, batch, 0))
            if self.features is not None:
                rows, unseen = self._of_latent(rows, latent, W_teacher)
                unseen = unseen.reshape(steps, batch, -1)
            yield (
                first,
                end,
                Samples(
                    x=rows.reshape(steps, batch, 1, request.dim),
                    unseen=unseen,
                    moves=self._moves(which, drift_rng, steps),
                ),
            )

    def _of_latent(
        self, c: np.ndarray, latent: np.ndarray, W_teacher: np.ndarray
    ) -> tuple[Rows, np.ndarray]:
        """Return samples of a `HiddenManifold` with latent vectors c.

        The second array is the part of one teacher's fields that they do not carry.
        """
        assert self.features is not None
        N, D = self.features.matrix.shape
        samples = np.asarray(self.features.inputs.samples(c, self.features.matrix))
        x = samples @ self.features.basis.T
        fields = c @ latent.T / np.sqrt(D)
        return x, fields - x @ W_teacher.T / np.sqrt(N)

    def _in_classes(
        self,
        mixture: Mixture,
        x: Float[np.ndarray, "steps B 1 N"],
        noise: np.ndarray,
        W_teacher: Float[np.ndarray, "M N"],
    ) -> Float[np.ndarray, "steps B 1 N"]:
        """Return samples of drawn classes: the mean plus noise of the class."""
        vectors = W_teacher[self.request.problem.label_fields :]
        coefficients = np.asarray(mixture.coefficients)
        means = coefficients @ vectors / np.sqrt(self.request.dim)
        ratio = np.asarray(mixture.spectra) / np.asarray(mixture.eigenvalues)
        widths = np.repeat(np.sqrt(ratio), self.request.dims, axis=1)
        classes = np.asarray(class_of(mixture, jnp.asarray(noise)))[..., None]
        return x * widths[classes] + means[classes]

    def _moves(
        self, which: int, rng: np.random.Generator, steps: int
    ) -> Float[np.ndarray, "steps M N"]:
        """Return zeta of teachers that drift, one for each step; empty if they stay."""
        M = self.request.problem.references.hidden
        dim = self.request.dim
        if not self.constants.drift:
            return np.zeros((0, M, dim))
        moves = rng.standard_normal((steps, M, dim))
        edges = np.cumsum([0, *self.request.dims])
        for root, (i, j) in zip(
            self.roots[which], itertools.pairwise(edges), strict=True
        ):
            moves[:, :, i:j] = np.einsum("mn,sni->smi", root, moves[:, :, i:j])
        return moves

    def _initial_weights(self, index: int, which: int) -> Weights:
        """Return W and W*.

        They are as given, or the start's coordinates in a random frame of each
        eigenspace.
        """
        request = self.request
        if request.weights is not None:
            W, W_teacher = request.weights
            return Weights(student=W.copy(), teacher=W_teacher.copy())
        M = request.problem.references.hidden
        rng = stream(request.seed, index, FRAME)
        coordinates = self.coordinates[which]
        vectors = prepare.in_random_frames(coordinates, request.dims, rng)
        W_teacher = np.ascontiguousarray(vectors[:M])
        if self.features is not None:
            visible = np.sqrt(self.features.inputs.visible)
            amplitudes = np.repeat(visible, request.dims)
            W_teacher = self.features.with_amplitudes(W_teacher, amplitudes)
        return Weights(student=np.ascontiguousarray(vectors[M:]), teacher=W_teacher)
