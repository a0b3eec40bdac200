"""The landscape of the population error at a point: gradient and all curvatures.

They are those in the space of weights. In coordinates J = W / sqrt(N), with Q = J Om
J^T, R = J Om J*^T and the matrices A, B of the dynamics,
    gradient:            -(A J + B J*) Om
    Hessian times D:     -(A D + dA J + dB J*) Om,
        dA, dB: along dQ = D Om J^T + J Om D^T and dR = D Om J*^T.
A direction orthogonal, within its level, to all students and teachers changes no
overlap: the Hessian is -lam_l A there. All of these are equal, so one in each level
stands for them. With the span of the vectors that is at most K (K + M + 1) numbers a
level, at any N.

Directions of equal eigenvalues are split wherever each of them either has or lacks a
property (in the span of the teachers? all students together?); elsewhere the word is
left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tutelage._html import ResultCard
from tutelage._types import Array, Numbers
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError
from tutelage.problem import Network, Problem
from tutelage.problem.problem import require_problem
from tutelage.problem.start import weights_by_level
from tutelage.stream.moments.averages import Averages, ReluAverages
from tutelage.stream.moments.matrices import (
    joint_covariance,
    mean_update,
    population_error,
    shared_parity,
)
from tutelage.stream.moments.quadrature import Quadrature, QuadratureAverages
from tutelage.stream.order_parameters import averages_of, field_means

LEAST_LENGTH = 1e-9  # a vector shorter than this share of the longest one spans nothing
PARALLEL_TOLERANCE = 1e-9  # vectors whose correlation is this close to one are parallel
# Singular values below this share of the vectors' length are zero.
RANK_TOLERANCE = 1e-8
# Eigenvalues this close, in units of the largest, are one; this close to zero they are
# flat.
EQUAL_CURVATURE = 1e-7
# The least distance of the share of a direction in a subspace from 0 and 1 at which the
# direction lies partly inside.
CLEAR_SHARE = 1e-5
# A gradient below this, in units of the largest curvature times the size of the
# weights, is none.
CRITICAL_GRADIENT = 1e-7
LARGEST_MATRIX = 4000  # rows of a matrix that is formed as a whole
EQUAL_ERROR = "along equal error"  # the family of flat directions from a symmetry

# The kinds of directions in a span.
TAUGHT = 0  # in the span of the teachers
STUDENT = 1  # in the span of all vectors, orthogonal to the teachers
OUTSIDE = 2  # orthogonal to all vectors


class Family(NamedTuple):
    """Directions (count, K, S), and the words that describe all of them."""

    words: list[str]
    directions: np.ndarray


@dataclass(frozen=True)
class Span:
    """The directions that student and teacher vectors span, level by level.

    In each level those of the teachers come first, and one outside comes last.

    Attributes
    ----------
    basis
        The directions of each level, (s_l, n_l), orthonormal.
    students, teachers
        Coordinates of J, (K, S), and J*, (M, S), in all of them.
    level
        The level of each direction, (S,).
    taught, outside
        True for a direction in the span of the teachers, and for one that is orthogonal
        to all vectors, (S,).
    count
        The number of dimensions that a direction stands for, (S,).
    dims, lam
        Dimensions and eigenvalues of the levels.
    axes
        The axes (N, N) of the levels in the coordinates of the weights; None: they are
        the same.
    """

    basis: list[np.ndarray]
    students: Float[np.ndarray, "K S"]
    teachers: Float[np.ndarray, "M S"]
    level: Int[np.ndarray, " S"]
    taught: Bool[np.ndarray, " S"]
    outside: Bool[np.ndarray, " S"]
    count: Int[np.ndarray, " S"]
    dims: Int[np.ndarray, " L"]
    lam: Float[np.ndarray, " L"]
    axes: Float[np.ndarray, "N N"] | None

    def in_weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return directions (..., S) of the span in the coordinates of the weights.

        They have shape (..., N).
        """
        edges = np.cumsum([u.shape[0] for u in self.basis])[:-1]
        parts = np.split(coordinates, edges, axis=-1)
        by_level = [x @ u for x, u in zip(parts, self.basis, strict=True)]
        directions = np.concatenate(by_level, axis=-1)
        if self.axes is None:
            return directions
        return directions @ self.axes


def span_of(problem: Problem, W: list[np.ndarray], W_teacher: list[np.ndarray]) -> Span:
    """Return the span of weights by level (`weights_by_level`)."""
    dims = np.array([w.shape[1] for w in W])
    dim = dims.sum()
    # The library weighs a level with p_l lam_l; levels of whole dimensions realize p_l
    # only up to rounding.
    lam = np.asarray(problem.inputs.weights) * dim / dims
    J = [w / np.sqrt(dim) for w in W]
    J_teacher = [w / np.sqrt(dim) for w in W_teacher]
    longest = [_longest(w) for w in (*J, *J_teacher)]
    least = LEAST_LENGTH * max(longest)
    basis = []
    kinds = []
    for n, w, t in zip(dims, J, J_teacher, strict=True):
        taught = row_space(t, least)
        student = row_space(w - w @ taught.T @ taught, least)
        inside = np.concatenate([taught, student])
        other = _outside_axis(inside, n)
        basis.append(np.concatenate([inside, other]))
        lengths = [len(taught), len(student), len(other)]
        kinds.append(np.repeat([TAUGHT, STUDENT, OUTSIDE], lengths))
    level = np.repeat(np.arange(dims.size), [len(u) for u in basis])
    kind = np.concatenate(kinds)
    used = np.bincount(level[kind != OUTSIDE], minlength=dims.size)
    left = dims - used
    return Span(
        basis=basis,
        students=_coordinates(J, basis),
        teachers=_coordinates(J_teacher, basis),
        level=level,
        taught=kind == TAUGHT,
        outside=kind == OUTSIDE,
        count=np.where(kind == OUTSIDE, left[level], 1),
        dims=dims,
        lam=lam,
        axes=problem.inputs.basis,
    )


def _longest(rows: np.ndarray) -> float:
    """Return the length of the longest row; 0 without rows."""
    return float(np.max(np.linalg.norm(rows, axis=1), initial=0.0))


def _outside_axis(inside: np.ndarray, n: int) -> np.ndarray:
    """Return a direction (1, n) orthogonal to these rows; (0, n) if they span all."""
    if n <= len(inside):
        other = np.empty((0, n))
    else:
        farthest = int(np.argmin(np.sum(inside**2, axis=0)))
        other = np.eye(1, n, farthest)
    return row_space(other - other @ inside.T @ inside, 0.0)


def _coordinates(vectors: list[np.ndarray], basis: list[np.ndarray]) -> np.ndarray:
    """Return the coordinates of vectors by level in the directions of all levels."""
    return np.hstack([w @ u.T for w, u in zip(vectors, basis, strict=True)])


def row_space(rows: np.ndarray, least: float) -> np.ndarray:
    """Return an orthonormal basis, as rows, of the span of these rows.

    Singular values up to `least` are rounding.
    """
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > least]


class Expansion(NamedTuple):
    """The error to second order in the coordinates of a span.

    A (K, K), gradient (K, S) and Hessian (K S, K S).
    """

    error: float
    A: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray


def hessian_at(problem: Problem, span: Span, averages: Averages) -> Expansion:
    """Return e_g, A, gradient and Hessian in the coordinates of the span."""
    K = len(span.students)
    lam = span.lam[span.level]
    vectors = np.concatenate([span.students, span.teachers])
    error, matrices, derivatives = _error_and_derivatives(
        averages,
        shared_parity(problem),
        field_means(problem, problem.student.bias),
        jnp.asarray(vectors * lam @ vectors.T),
        jnp.asarray(problem.student.readout),
        jnp.asarray(problem.labeler.readout),
    )
    AB = np.asarray(matrices)
    # dA J + dB J*; a direction of a student changes Q on both sides
    sides = np.repeat([2.0, 1.0], [K, len(vectors) - K])[:, None]
    block = np.einsum(
        "ijab,bs,jr->iras",
        np.asarray(derivatives),
        sides * lam * vectors,
        vectors,
        optimize=True,
    )
    block += np.einsum("ia,rs->iras", AB[:, :K], np.eye(lam.size))
    matrix = -(lam[:, None, None] * block).reshape(span.students.size, -1)
    return Expansion(
        error=float(error),
        A=AB[:, :K],
        gradient=-(AB @ vectors) * lam,
        hessian=(matrix + matrix.T) / 2,
    )


@eqx.filter_jit
def _error_and_derivatives(
    averages: Averages,
    parity: int | None,
    mean: Array | None,
    C: Array,
    v: Array,
    v_teacher: Array,
) -> tuple[Array, Array, Array]:
    """Return e_g, [A, B] (K, n), and its derivatives with respect to [Q, R].

    The derivatives have shape (K, n, K, n).
    """
    K = v.size

    def matrices(QR: Array) -> Array:
        Q = QR[:, :K]
        R = QR[:, K:]
        covariance = joint_covariance(R, (Q + Q.T) / 2, C[K:, K:])
        update = mean_update(averages, covariance, mean, v, v_teacher)
        return jnp.concatenate([update.A, update.B], axis=1)

    error = population_error(averages, C, mean, v, v_teacher, parity)
    return error, matrices(C[:K]), jax.jacfwd(matrices)(C[:K])


def require_second_derivative(
    problem: Problem, students: np.ndarray, teachers: np.ndarray
) -> None:
    """Raise InputError where the Hessian does not exist, or is not known to.

    The vectors have shapes (K, S) and (M, S).
    """
    student = problem.student.activation
    teacher = problem.labeler.activation
    averages = averages_of(problem)
    smooth = student.smooth and teacher.smooth
    by_rule = isinstance(averages, QuadratureAverages) and not smooth
    if not by_rule and not isinstance(averages, ReluAverages):
        return
    rough_activation = teacher if student.smooth else student
    rough = f"where {rough_activation.name!r} may not be smooth"
    declare = ""
    if by_rule:
        declare = ", or declare a smooth function with Activation(name, function)"
    K = len(students)
    vectors = np.concatenate([students, teachers])
    lengths = np.linalg.norm(vectors, axis=1)
    if np.any(lengths[:K] == 0):
        raise InputError(
            f"student unit {np.argmin(lengths) + 1} has weights 0, {rough}; "
            f"move it away from 0{declare}."
        )
    unit = vectors / np.maximum(lengths, 1e-300)[:, None]
    correlations = np.abs(np.triu(unit @ unit.T, 1))
    parallel = np.argwhere(correlations[:K] > 1 - PARALLEL_TOLERANCE)
    if by_rule and parallel.size:
        i, j = parallel[0] + 1
        other = f"student {j}" if j <= K else f"teacher {j - K}"
        raise InputError(
            f"student {i} and {other} are parallel, {rough}; turn one{declare}."
        )


def orbit_of(problem: Problem, span: Span) -> Float[np.ndarray, "count K S"]:
    """Return orthonormal directions along symmetries.

    Students may be moved by rotations of the inputs within a level that leave the
    teacher as it is, or among themselves.
    """
    c = span.students
    moves = _moves_of_units(problem, c) + _moves_of_inputs(problem, span)
    least = RANK_TOLERANCE * float(np.linalg.norm(c))
    rows = np.reshape(moves, (len(moves), c.size))
    return row_space(rows, least).reshape(-1, *c.shape)


def _moves_of_units(problem: Problem, c: np.ndarray) -> list[np.ndarray]:
    """Return directions (K, S) that mix the students c among themselves.

    sum_k v_k lambda_k^2 keeps its value under D = V^-1 Psi J with Psi antisymmetric, a
    linear student under D = x d with v.x = 0, and a unit with readout 0 may move
    freely.
    """
    readout = np.asarray(problem.student.readout)
    is_linear = len(problem.student.activation.polynomial or ()) == 2
    free = np.eye(readout.size)[readout == 0]  # combinations that move freely
    inverse = np.zeros_like(readout)  # V^-1 of units that rotate among themselves
    if is_linear and np.any(readout):  # only v.w matters
        free = np.linalg.svd(readout[None])[2][1:]
    elif _is_quadratic_form(problem.student):
        np.divide(1.0, readout, out=inverse, where=readout != 0)
    moves = []
    for generator in _generators(np.flatnonzero(inverse), c.shape[0]):
        moves.append(inverse[:, None] * (generator @ c))
    for combination in free:
        for axis in np.eye(c.shape[1]):
            moves.append(np.outer(combination, axis))
    return moves


def _moves_of_inputs(problem: Problem, span: Span) -> list[np.ndarray]:
    """Return directions (K, S) by rotations within levels that keep the teacher.

    Any activation allows those of the directions that the teachers do not span, a
    quadratic teacher also some of its own.
    """
    c = span.students
    t = span.teachers
    rotations = []
    for level in range(span.dims.size):
        members = np.flatnonzero(span.level == level)
        rotations += _generators(members, c.shape[1])
    if not rotations:
        return []
    if _is_quadratic_form(problem.labeler):
        form = t.T * np.asarray(problem.labeler.readout) @ t
        change = [x @ form - form @ x for x in rotations]
    else:
        change = [t @ x for x in rotations]
    # combinations of rotations that change nothing
    table = np.reshape(change, (len(rotations), -1))
    sides, sizes, _ = np.linalg.svd(table)
    least = RANK_TOLERANCE * max(1.0, float(sizes.max(initial=0.0)))
    kept = sides[:, np.sum(sizes > least) :]
    return [c @ np.tensordot(x, rotations, 1) for x in kept.T]


def _is_quadratic_form(network: Network) -> bool:
    """Return true if the output is sum_k v_k lambda_k^2, up to a constant."""
    polynomial = network.activation.polynomial or ()
    is_square = len(polynomial) == 3 and polynomial[1] == 0
    return is_square and network.bias is None


def _generators(chosen: np.ndarray, size: int) -> list[np.ndarray]:
    """Return generators of rotations, one for each pair of the chosen indices.

    They are antisymmetric matrices.
    """
    axes = np.eye(size)
    generators = []
    for a, b in combinations(chosen, 2):
        product = np.outer(axes[a], axes[b])
        generators.append(product - np.outer(axes[b], axes[a]))
    return generators


@dataclass(frozen=True, eq=False)
class Curvature(ResultCard):
    """An eigenvalue of the Hessian.

    value: 0 where flat. family: the words for its directions. directions: (count, K, S)
    in coordinates of the span; outside it one of the dimensions of a level stands for
    all. They are None where the value is predicted, not computed.
    """

    value: float
    multiplicity: int
    family: str
    directions: np.ndarray | None = None


def spectrum_of(
    span: Span, matrix: np.ndarray, width: float, orbit: np.ndarray | None
) -> tuple[Curvature, ...]:
    """Return all eigenvalues, lowest first; those within `width` are one.

    orbit: the directions that tell flat directions along it from others.
    """
    K, S = span.students.shape
    spectrum = []
    # blocks of directions that the Hessian does not mix
    blocks = (~span.outside, *np.eye(S, dtype=bool)[span.outside])
    for block in blocks:
        rows = np.tile(block, K)
        values, vectors = np.linalg.eigh(matrix[np.ix_(rows, rows)])
        directions = np.zeros((values.size, K, S))
        directions[:, :, block] = vectors.T.reshape(values.size, K, -1)
        for members in _runs_of_equal(values, width):
            value = float(values[members].mean())
            is_flat = abs(value) <= width
            if is_flat:
                value = 0.0
            flat_along = orbit if is_flat else None
            families = _families(span, block, directions[members], flat_along)
            for words, chosen in families:
                curvature = Curvature(
                    value=value,
                    multiplicity=len(chosen) * int(span.count[block][0]),
                    family=", ".join(words) or "in the span",
                    directions=chosen,
                )
                spectrum.append(curvature)
    return tuple(sorted(spectrum, key=lambda c: (c.value, c.family)))


def _runs_of_equal(values: np.ndarray, width: float) -> list[np.ndarray]:
    """Return the indices of increasing values, split at gaps wider than `width`."""
    if not values.size:
        return []
    breaks = np.flatnonzero(np.diff(values) > width) + 1
    return np.split(np.arange(values.size), breaks)


def _families(
    span: Span, block: np.ndarray, directions: np.ndarray, orbit: np.ndarray | None
) -> list[Family]:
    """Split directions of one eigenvalue by each property that they have or lack.

    All of them must clearly have it, or lack it.
    """

    def in_teachers(x: np.ndarray) -> np.ndarray:
        return x * span.taught

    def equal_units(x: np.ndarray) -> np.ndarray:
        return x.mean(1, keepdims=True) + 0 * x

    families = [Family([], directions)]
    if orbit is not None:
        along_orbit = partial(_projected, subspace=orbit)
        families = _split(families, along_orbit, EQUAL_ERROR, "merely flat")
    if span.outside[block].any():
        where = "outside the span"
        if span.dims.size > 1:
            where += f" (level {span.level[block][0] + 1})"
        families = [Family([*words, where], chosen) for words, chosen in families]
    else:
        families = _split(
            families, in_teachers, "in the teachers' span", "next to the teachers' span"
        )
    if len(span.students) > 1:
        families = _split(families, equal_units, "units equal", "units apart")
    return families


def _projected(x: np.ndarray, subspace: np.ndarray) -> np.ndarray:
    """Return directions projected on a subspace with this orthonormal basis."""
    coordinates = np.tensordot(x, subspace, ((1, 2), (1, 2)))
    return np.tensordot(coordinates, subspace, 1)


def _split(
    families: list[Family],
    project: Callable[[np.ndarray], np.ndarray],
    yes: str,
    no: str,
) -> list[Family]:
    """Split into directions inside and outside of a subspace.

    A family with a direction that is partly inside stays whole.
    """
    split = []
    for words, directions in families:
        projected = project(directions)
        overlaps = np.tensordot(projected, directions, ((1, 2), (1, 2)))
        shares, rotation = np.linalg.eigh(overlaps)
        inside = shares > 0.5
        if np.any(np.abs(shares - inside) >= CLEAR_SHARE):
            split.append(Family(words, directions))
            continue
        for word, members in ((yes, inside), (no, ~inside)):
            part = rotation[:, members]
            if part.size:
                chosen = np.tensordot(part.T, directions, 1)
                split.append(Family([*words, word], chosen))
    return split


@dataclass(frozen=True, repr=False)
class Landscape(AnalysisResult, figure="plot_landscape"):
    """Error, gradient and curvatures at a point, in coordinates W / sqrt(N).

    docs/how-to/landscape.md has an example.

    Attributes
    ----------
    kind
        Minimum, maximum or saddle in words, or that it is not a critical point.
    error
        The generalization error e_g.
    gradient
        (K, N), of length gradient_norm.
    is_critical
        True if the gradient vanishes, up to rounding.
    spectrum
        Every eigenvalue of the Hessian, lowest first, as `Curvature` (value,
        multiplicity, family).
    index
        The number of directions that lead downwards.
    flat
        The number of directions without curvature.
    orbit
        Dimension of the manifold of equal error that symmetries make through this
        point.
    dim
        N.
    parameters
        The number of all directions, K N.
    span, A, matrix
        The Hessian in parts: in the span of the vectors with one direction outside it
        in each level, and (A) in all others.
    """

    problem: Problem
    kind: str
    error: float
    gradient: Float[np.ndarray, "K N"]
    gradient_norm: float
    is_critical: bool
    spectrum: tuple[Curvature, ...]
    index: int
    flat: int
    orbit: int
    dim: int
    parameters: int
    span: Span
    A: Float[np.ndarray, "K K"]
    matrix: Float[np.ndarray, "KS KS"]

    @property
    def merely_flat(self) -> int:
        """The number of flat directions that no symmetry explains.

        The error may change along them, but not to second order.
        """
        if not self.is_critical:
            raise InputError(
                f"the gradient is {self.gradient_norm:.3g}; "
                "merely_flat needs a critical point. Move W to one."
            )
        explained = 0
        for curvature in self.spectrum:
            if curvature.family.startswith(EQUAL_ERROR):
                explained += curvature.multiplicity
        return self.flat - explained

    def eigenvalues(self) -> np.ndarray:
        """Return all K N eigenvalues, lowest first."""
        values = [curvature.value for curvature in self.spectrum]
        counts = [curvature.multiplicity for curvature in self.spectrum]
        return np.repeat(values, counts)

    def hessian(self) -> np.ndarray:
        """Return the whole matrix (K N, K N), unit by unit.

        Rows and columns are those of W.ravel().
        """
        if self.gradient.size > LARGEST_MATRIX:
            raise InputError(
                f"the Hessian has {self.gradient.size} rows, "
                f"of at most {LARGEST_MATRIX}; use .spectrum."
            )
        K = len(self.A)
        lam = np.repeat(self.span.lam, self.span.dims)
        axes = self.span.axes
        omega = np.diag(lam) if axes is None else axes.T * lam @ axes
        inside = self.span.in_weights(np.eye(self.span.level.size))  # (S, N)
        blocks = self.matrix.reshape(K, len(inside), K, -1)
        whole = np.einsum("ksjt,sn,tm->knjm", blocks, inside, inside)
        # -A Om in the directions outside the span
        whole -= np.einsum("kj,nm->knjm", self.A, omega - inside.T @ inside @ omega)
        return whole.reshape(self.gradient.size, -1)

    def directions(self, curvature: Curvature) -> np.ndarray:
        """Return orthonormal directions (count, K, N) of an eigenvalue.

        Outside the span they lie along one dimension of a level.
        """
        if curvature.directions is None:
            raise InputError(
                "this eigenvalue was predicted; "
                "directions needs one that a landscape has in .spectrum."
            )
        return self.span.in_weights(curvature.directions)

    def __str__(self) -> str:
        lines = [
            f"{self.kind}: e_g = {self.error:.6g}, gradient {self.gradient_norm:.2g}"
        ]
        for c in self.spectrum:
            lines.append(f"{c.value:>13.6g}  x {c.multiplicity:<7d} {c.family}")
        up = self.parameters - self.index - self.flat
        lines.append(
            f"of {self.parameters} directions {self.index} lead down, "
            f"{self.flat} are flat, {up} lead up"
        )
        if self.is_critical and self.flat:
            mere = self.merely_flat
            lines.append(
                f"of the flat ones {self.flat - mere} lead along equal error, "
                f"{mere} are merely flat"
            )
        return "\n".join(lines)


def landscape(
    problem: Problem,
    weights: Numbers,
    teacher_weights: Numbers,
    *,
    quadrature: Quadrature | None = None,
) -> Landscape:
    """Return error, gradient and Hessian of e_g at weights W (K, N) and W* (M, N).

    Derivatives are with respect to the first-layer weights W / sqrt(N). Under gradient
    flow a direction of curvature h decays as exp(-lr h alpha). Neither curvatures nor
    cost depend on N.

    Parameters
    ----------
    problem : Problem
        Any activation and spectrum.
    weights, teacher_weights : arrays (K, N) and (M, N)
        W and W*, in the coordinates of `start_from_weights`.
    quadrature : Quadrature, optional
        As in `solve`.

    Returns
    -------
    Landscape

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> network = tu.Network(2, "quadratic")
    >>> problem = tu.Problem(network, network)
    >>> W = np.sqrt(5) * np.eye(2, 5)
    >>> tu.analysis.landscape(problem, W, W).kind
    'minimum'
    """
    problem = require_problem(problem, "landscape")
    span = span_of(problem, *weights_by_level(problem, weights, teacher_weights))
    if span.students.size > LARGEST_MATRIX:
        raise InputError(
            f"the Hessian in the span would have {span.students.size} rows, "
            f"of at most {LARGEST_MATRIX}; use fewer levels."
        )
    width = np.sqrt(span.lam[span.level])  # standard deviations of the inputs
    require_second_derivative(problem, span.students * width, span.teachers * width)
    averages = averages_of(problem, quadrature)
    error, A, slope, matrix = hessian_at(problem, span, averages)
    gradient = span.in_weights(slope)
    gradient_norm = float(np.linalg.norm(gradient))
    curvatures = np.linalg.eigvalsh(matrix)
    largest = float(np.max(np.abs(curvatures), initial=0.0))
    size = max(np.linalg.norm(span.students), np.linalg.norm(span.teachers))
    is_critical = bool(gradient_norm <= CRITICAL_GRADIENT * largest * size)
    orbit = orbit_of(problem, span)
    known_orbit = orbit if is_critical else None
    spectrum = spectrum_of(span, matrix, EQUAL_CURVATURE * largest, known_orbit)
    index = _directions_of_sign(spectrum, -1)
    dim = int(span.dims.sum())
    return Landscape(
        problem=problem,
        kind=_kind(is_critical, index, _directions_of_sign(spectrum, 1)),
        error=error,
        gradient=gradient,
        gradient_norm=gradient_norm,
        is_critical=is_critical,
        spectrum=spectrum,
        index=index,
        flat=_directions_of_sign(spectrum, 0),
        # the trace of the projection on the orbit
        orbit=round(float(np.sum(orbit**2 * span.count))),
        dim=dim,
        parameters=len(A) * dim,
        span=span,
        A=A,
        matrix=matrix,
    )


def _directions_of_sign(spectrum: tuple[Curvature, ...], sign: int) -> int:
    """Return the number of directions whose curvature has this sign."""
    return sum(c.multiplicity for c in spectrum if np.sign(c.value) == sign)


def _kind(is_critical: bool, down: int, up: int) -> str:
    """Return the kind of a point in words."""
    if not is_critical:
        return "not a critical point"
    if down:
        return "saddle" if up else "maximum"
    return "minimum" if up else "flat to second order"
