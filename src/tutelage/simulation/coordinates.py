"""From overlaps to vectors: coordinates of students and teachers in a basis of their own span, level by level.

Rotations within an eigenspace change nothing that SGD on Gaussian inputs can see, so the n_l dimensions of a level enter
only through the span of the vectors in it: M teachers, K students (and K velocities with momentum). Scaled by 1/sqrt(n_l):
    r_l = (student coordinates) (teacher coordinates)^T,   q_l = (student coordinates) (student coordinates)^T.
Teachers come first and never move: their coordinates are M columns (lower triangular); students have M columns U and,
beyond, a lower triangular Z. All that lies outside is isotropic to them. A level too small to have an outside (n_l below the
span plus the columns that one batch adds) is held in its actual n_l coordinates.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage.errors import InputError
from tutelage.integrate.program import BOUND
from tutelage.problem import Problem, SlowMomentum, Start, Tasks
from tutelage.simulation.numba_kernels import LevelLayout, ParameterState

Gram = Float[np.ndarray, "vectors vectors"]
RANK = 1e-12  # eigenvalues of a Gram matrix below this share of the largest are rounding


def level_coordinates(problem: Problem, start: Start, dims: Int[np.ndarray, " L"]) -> list[np.ndarray]:
    """Per level, (M + K, d) with d = min(n_l, M + K): teachers first, then students; lower triangular if there is room."""
    r, q, t = (np.asarray(x, dtype=float) for x in start.blocks(problem))
    grams = np.block([[t, np.swapaxes(r, 1, 2)], [r, q]])
    return [_root((gram + gram.T) / 2, int(dims[i]), i, len(dims)) for i, gram in enumerate(grams)]


def in_random_frames(
    levels: list[np.ndarray], dims: Int[np.ndarray, " L"], rng: np.random.Generator
) -> Float[np.ndarray, "vectors N"]:
    """Vectors (M + K, N) with these coordinates in a random orthonormal frame of each eigenspace, teachers first."""
    parts = []
    for n, coordinate in zip(dims, levels, strict=True):
        frame = np.linalg.qr(rng.standard_normal((n, coordinate.shape[1])))[0]
        parts.append(np.sqrt(n) * coordinate @ frame.T)
    return np.concatenate(parts, axis=1)


def _root(gram: Gram, n: int, level: int, levels: int) -> Float[np.ndarray, "vectors d"]:
    """Coordinates of vectors with this Gram matrix in n dimensions."""
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gram / np.outer(unit, unit))
    rank = int(np.sum(values > RANK * max(values[-1], 1e-300)))
    if rank > n:
        where = f"level {level + 1}" if levels > 1 else "the network"
        raise InputError(
            f"the overlaps of the Start in {where} need {rank} dimensions, but it has only {n}; raise dim, or take a Start that "
            "fits, such as random_start(problem, dim=dim)."
        )
    root = size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    if n < gram.shape[0]:
        return root[:, gram.shape[0] - n :]
    return np.asarray(np.linalg.qr(root.T, mode="r")).T


def level_layout(problem: Problem, dims: Int[np.ndarray, " L"]) -> LevelLayout:
    """How each level is held: columns in use, dimensions beyond them, and the scales of its fields and steps."""
    dim, K, M = int(dims.sum()), problem.student.hidden, problem.references.hidden
    span = M + rows_of(problem)
    added = max(min(problem.samples_per_step, K), M if drift_rate(problem) else 0)  # columns that a step adds
    outside = dims - span >= added
    lam, share = np.asarray(problem.inputs.eigenvalues, dtype=float), dims / dim
    mask = problem.trainable_mask()
    return LevelLayout(
        width=np.where(outside, span, dims).astype(np.int64),
        dof=np.where(outside, dims - span, 0).astype(np.int64),
        field=np.sqrt(lam * share),
        step=np.sqrt(lam / share) / dim,
        share=share,
        eigenvalue=np.ascontiguousarray(lam),
        mask=np.ones((dims.size, K)) if mask is None else np.ascontiguousarray(mask),
    )


def drift_rate(problem: Problem) -> float:
    """omega of teachers that drift; 0 if they stay."""
    drift = problem.teacher.drift if isinstance(problem.teacher, Tasks) else None
    return 0.0 if drift is None else float(np.asarray(drift.rate))


def teacher_roots(problem: Problem, start: Start) -> Float[np.ndarray, "L M M"]:
    """Factors F_l of the teachers' overlaps, t_l = F_l F_l^T: what a drift adds has these overlaps."""
    values, vectors = np.linalg.eigh(np.asarray(start.blocks(problem)[2], dtype=float))
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def rows_of(problem: Problem) -> int:
    """Moving vectors: K students, and as many velocities with momentum."""
    momentum = problem.sgd.momentum
    moving = isinstance(momentum, SlowMomentum) or float(np.asarray(momentum)) > 0
    return problem.student.hidden * (2 if moving else 1)


class PlacedStart(NamedTuple):
    """A start as the loops hold it. roots: of the teachers' overlaps. lengths: |w_k|^2 / N. bound: squared coordinates beyond
    it have diverged."""

    students: Float[np.ndarray, "L rows W"]
    teachers: Float[np.ndarray, "L M columns"]
    params: ParameterState
    roots: Float[np.ndarray, "L M M"]
    lengths: Float[np.ndarray, " K"]
    bound: float


def place_start(problem: Problem, start: Start, dims: Int[np.ndarray, " L"], layout: LevelLayout) -> PlacedStart:
    """A start in the coordinates of its levels; velocities begin at rest."""
    K, M = problem.student.hidden, problem.references.hidden
    columns = int(np.max(np.where(layout.dof > 0, M, layout.width)))
    students = np.zeros((dims.size, rows_of(problem), int(layout.width.max())))
    teachers = np.zeros((dims.size, M, columns))
    for level, coordinates in enumerate(level_coordinates(problem, start, dims)):
        used = min(coordinates.shape[1], columns)
        teachers[level, :, :used] = coordinates[:M, :used]
        students[level, :K, : coordinates.shape[1]] = coordinates[M:]
    lengths = lengths_of(problem, students[:, :K] @ students[:, :K].transpose(0, 2, 1), dims)
    params, roots = initial_parameters(problem, start), teacher_roots(problem, start)
    return PlacedStart(students, teachers, params, roots, lengths, divergence_bound(students))


def divergence_bound(students: np.ndarray) -> float:
    """Squared coordinates beyond this have diverged (the same factor as in `solve`)."""
    return BOUND * (1.0 + float(np.max(students**2)))


def initial_parameters(problem: Problem, start: Start) -> ParameterState:
    """Readout and biases at the start, at rest."""
    K, student = problem.student.hidden, problem.student
    readout = start.readout_of(problem)
    bias = student.bias if start.bias is None else start.bias
    if start.bias is not None and not problem.biased:
        raise InputError("the Start has biases, but neither network of the problem has; give the student Network(bias=0.0).")
    readout, bias = np.array(readout, dtype=float), np.zeros(K) if bias is None else np.array(bias, dtype=float)
    rest = [np.zeros_like(x) for _ in range(2) for x in (readout, bias)]
    return ParameterState(readout, bias, *rest)


def lengths_of(problem: Problem, q: Float[np.ndarray, "L K K"], dims: Int[np.ndarray, " L"]) -> Float[np.ndarray, " K"]:
    """|w_k|^2 / N of each student vector."""
    lengths = np.einsum("l,lkk->k", dims / dims.sum(), q)
    if problem.sgd.spherical and lengths.min() <= 0:
        raise InputError(
            f"spherical=True, but student {int(lengths.argmin()) + 1} starts at zero, which has no direction; move it away "
            "from there."
        )
    return lengths
