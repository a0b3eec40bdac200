"""The landscape at a point: error, gradient and all curvatures of the population error in the space of weights.

In coordinates J = W / sqrt(N), with Q = J Om J^T, R = J Om J*^T and the matrices A, B of the dynamics,
    gradient:            -(A J + B J*) Om
    Hessian times D:     -(A D + dA J + dB J*) Om,    dA, dB: along dQ = D Om J^T + J Om D^T and dR = D Om J*^T.
A direction orthogonal, within its level, to all students and teachers changes no overlap: the Hessian is -lam_l A there.
All of these are equal, so one in each level stands for them. With the span of the vectors that is at most K (K + M + 1)
numbers a level, at any N.

Directions of equal eigenvalues are split wherever each of them either has or lacks a property (in the span of the teachers?
all students together?); elsewhere the word is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tutelage._html import ResultCard
from tutelage._types import Array, Numbers
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics.order_parameters import averages_of, field_means
from tutelage.errors import InputError
from tutelage.moments.averages import Averages, ReluAverages
from tutelage.moments.matrices import joint_covariance, mean_update, population_error, shared_parity
from tutelage.moments.quadrature import Quadrature, QuadratureAverages
from tutelage.problem import Network, Problem
from tutelage.problem.problem import require_problem
from tutelage.problem.start import weights_by_level

LEAST_LENGTH = 1e-9  # a vector shorter than this share of the longest one spans nothing
PARALLEL_TOLERANCE = 1e-9  # vectors whose correlation is this close to one are parallel
RANK_TOLERANCE = 1e-8  # singular values below this share of the vectors' length are zero
EQUAL_CURVATURE = 1e-7  # eigenvalues this close, in units of the largest, are one; this close to zero they are flat
CLEAR_SHARE = 1e-5  # how far from 0 and 1 the share of a direction in a subspace may be
EQUAL_ERROR = "along equal error"  # the family of flat directions that a symmetry explains
CRITICAL_GRADIENT = 1e-7  # a gradient below this, in units of the largest curvature times the size of the weights, is none
LARGEST_MATRIX = 4000  # rows of a matrix that is formed as a whole
Families = list[tuple[list[str], np.ndarray]]  # words, and the directions (count, K, S) that they describe


@dataclass(frozen=True)
class Span:
    """The directions that student and teacher vectors span, level by level, those of the teachers first, and one outside.

    basis: per level (s_l, n_l), orthonormal. students c (K, S), teachers t (M, S): coordinates of J and J* in all of them.
    level (S,): level of each. taught, outside (S,): does it lie in the span of the teachers, is it orthogonal to all vectors?
    count (S,): how many dimensions it stands for. dims, lam: dimensions and eigenvalues of the levels. axes (N, N): those of the
    levels in the coordinates of the weights; None: they are the same.
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
        """Directions (..., S) of the span as arrays (..., N), in the coordinates of the weights."""
        parts = np.split(coordinates, np.cumsum([u.shape[0] for u in self.basis])[:-1], axis=-1)
        directions = np.concatenate([x @ u for x, u in zip(parts, self.basis, strict=True)], axis=-1)
        return directions if self.axes is None else directions @ self.axes


def span_of(problem: Problem, W: list[np.ndarray], W_teacher: list[np.ndarray]) -> Span:
    """From weights by level (`weights_by_level`)."""
    dims = np.array([w.shape[1] for w in W])
    # the library weighs a level with p_l lam_l; levels of whole dimensions realize p_l only up to rounding
    lam = np.asarray(problem.inputs.weights) * dims.sum() / dims
    J, J_teacher = ([w / np.sqrt(dims.sum()) for w in weights] for weights in (W, W_teacher))
    least = LEAST_LENGTH * max(float(np.max(np.linalg.norm(w, axis=1), initial=0.0)) for w in (*J, *J_teacher))
    basis, kinds = [], []
    for n, w, t in zip(dims, J, J_teacher, strict=True):
        taught = row_space(t, least)
        own = row_space(w - w @ taught.T @ taught, least)
        inside = np.concatenate([taught, own])
        farthest = int(np.argmin(np.sum(inside**2, axis=0)))
        other = np.eye(1, n, farthest) if n > len(inside) else np.empty((0, n))
        basis.append(np.concatenate([inside, row_space(other - other @ inside.T @ inside, 0.0)]))
        kinds.append(np.repeat([0, 1, 2], [len(taught), len(own), len(other)]))
    students, teachers = (np.hstack([w @ u.T for w, u in zip(each, basis, strict=True)]) for each in (J, J_teacher))
    level, kind = np.repeat(np.arange(dims.size), [len(u) for u in basis]), np.concatenate(kinds)
    left = dims - np.bincount(level[kind < 2], minlength=dims.size)
    count = np.where(kind == 2, left[level], 1)
    return Span(basis, students, teachers, level, kind == 0, kind == 2, count, dims, lam, problem.inputs.basis)


def row_space(rows: np.ndarray, least: float) -> np.ndarray:
    """An orthonormal basis, as rows, of what these rows span; singular values up to `least` are rounding."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > least]


def hessian_at(problem: Problem, span: Span, averages: Averages) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """e_g; A (K, K); gradient (K, S) and Hessian (K S, K S) in the coordinates of the span."""
    K, lam, vectors = len(span.students), span.lam[span.level], np.concatenate([span.students, span.teachers])
    C, mean = vectors * lam @ vectors.T, field_means(problem, problem.student.bias)
    at = tuple(jnp.asarray(x) for x in (C, problem.student.readout, problem.teacher.readout))
    error, AB, derivatives = map(np.asarray, _error_and_derivatives(averages, shared_parity(problem), mean, *at))
    sides = np.repeat([2.0, 1.0], [K, len(vectors) - K])[:, None]  # a direction of a student changes Q on both sides
    block = np.einsum("ijab,bs,jr->iras", derivatives, sides * lam * vectors, vectors, optimize=True)
    block += np.einsum("ia,rs->iras", AB[:, :K], np.eye(lam.size))
    matrix = -(lam[:, None, None] * block).reshape(span.students.size, -1)
    return float(error), AB[:, :K], -(AB @ vectors) * lam, (matrix + matrix.T) / 2


@eqx.filter_jit
def _error_and_derivatives(
    averages: Averages, parity: int | None, mean: Array | None, C: Array, v: Array, v_teacher: Array
) -> tuple[Array, Array, Array]:
    """e_g, [A, B] (K, n), and its derivatives with respect to [Q, R], (K, n, K, n)."""
    K = v.size

    def matrices(QR: Array) -> Array:
        Q, R = QR[:, :K], QR[:, K:]
        p = mean_update(averages, joint_covariance(R, (Q + Q.T) / 2, C[K:, K:]), mean, v, v_teacher)
        return jnp.concatenate([p.A, p.B], axis=1)

    return population_error(averages, C, mean, v, v_teacher, parity), matrices(C[:K]), jax.jacfwd(matrices)(C[:K])


def require_second_derivative(problem: Problem, students: np.ndarray, teachers: np.ndarray) -> None:
    """Raise InputError for vectors (K, S), (M, S) at which the Hessian does not exist, or is not known to."""
    student, teacher, family = problem.student.activation, problem.teacher.activation, averages_of(problem)
    by_rule = isinstance(family, QuadratureAverages) and not (student.smooth and teacher.smooth)
    if not by_rule and not isinstance(family, ReluAverages):
        return
    rough = f"where {(teacher if student.smooth else student).name!r} may not be smooth"
    declare = ", or declare a smooth function with Activation(name, function)" if by_rule else ""
    vectors = np.concatenate([students, teachers])
    lengths = np.linalg.norm(vectors, axis=1)
    if np.any(lengths[: len(students)] == 0):
        raise InputError(f"student unit {np.argmin(lengths) + 1} has weights 0, {rough}; move it away from 0{declare}.")
    unit = vectors / np.maximum(lengths, 1e-300)[:, None]
    parallel = np.argwhere(np.abs(np.triu(unit @ unit.T, 1))[: len(students)] > 1 - PARALLEL_TOLERANCE)
    if by_rule and parallel.size:
        i, j = parallel[0] + 1
        other = f"student {j}" if j <= len(students) else f"teacher {j - len(students)}"
        raise InputError(f"student {i} and {other} are parallel, {rough}; turn one{declare}.")


def orbit_of(problem: Problem, span: Span) -> Float[np.ndarray, "count K S"]:
    """Orthonormal directions along symmetries.

    Students may be moved by rotations of the inputs within a level that leave the teacher as it is: any activation allows
    those of the directions that the teachers do not span, a quadratic teacher also some of its own. Or among themselves:
    sum_k v_k lambda_k^2 keeps its value under D = V^-1 Psi J with Psi antisymmetric, a linear student under D = x d with
    v.x = 0, and a unit with readout 0 may move freely.
    """
    c, t, readout = span.students, span.teachers, np.asarray(problem.student.readout)
    free, rotating = np.eye(readout.size)[readout == 0], np.zeros_like(readout)  # combinations of units that move freely
    if len(problem.student.activation.polynomial or ()) == 2 and np.any(readout):  # linear: only v.w matters
        free = np.linalg.svd(readout[None])[2][1:]
    elif _is_quadratic_form(problem.student):  # units that rotate among themselves
        np.divide(1.0, readout, out=rotating, where=readout != 0)
    moves = [rotating[:, None] * (x @ c) for x in _generators(np.flatnonzero(rotating), c.shape[0])]
    moves += [np.outer(x, axis) for x in free for axis in np.eye(c.shape[1])]
    of_inputs = [x for l in range(span.dims.size) for x in _generators(np.flatnonzero(span.level == l), c.shape[1])]
    if of_inputs:  # rotations within levels, of which those that keep the teacher count
        form = t.T * np.asarray(problem.teacher.readout) @ t
        quadratic = _is_quadratic_form(problem.teacher)
        change = [x @ form - form @ x if quadratic else t @ x for x in of_inputs]
        sides, sizes, _ = np.linalg.svd(np.reshape(change, (len(of_inputs), -1)))
        kept = sides[:, np.sum(sizes > RANK_TOLERANCE * max(1.0, float(sizes.max(initial=0.0)))) :]
        moves += [c @ np.tensordot(x, of_inputs, 1) for x in kept.T]
    least = RANK_TOLERANCE * float(np.linalg.norm(c))
    return row_space(np.reshape(moves, (len(moves), c.size)), least).reshape(-1, *c.shape)


def _is_quadratic_form(network: Network) -> bool:
    """Is the output sum_k v_k lambda_k^2, up to a constant?"""
    polynomial = network.activation.polynomial or ()
    return len(polynomial) == 3 and polynomial[1] == 0 and network.bias is None


def _generators(chosen: np.ndarray, size: int) -> list[np.ndarray]:
    """Generators of rotations: antisymmetric matrices, one for each pair of the chosen indices."""
    axes = np.eye(size)
    return [np.outer(axes[a], axes[b]) - np.outer(axes[b], axes[a]) for a, b in combinations(chosen, 2)]


@dataclass(frozen=True, eq=False)
class Curvature(ResultCard):
    """One eigenvalue: value (0 where flat), multiplicity, family (what its directions do).

    directions: (count, K, S) in coordinates of the span; outside it one of the dimensions of a level stands for all. None
    where the value is predicted, not computed.
    """

    value: float
    multiplicity: int
    family: str
    directions: np.ndarray | None = None


def spectrum_of(span: Span, matrix: np.ndarray, width: float, orbit: np.ndarray | None) -> tuple[Curvature, ...]:
    """All eigenvalues, lowest first; those within `width` are one. orbit: what names flat directions along it apart."""
    (K, S), found = span.students.shape, []
    for block in (~span.outside, *np.eye(S, dtype=bool)[span.outside]):  # which the Hessian does not mix
        values, vectors = np.linalg.eigh(matrix[np.ix_(np.tile(block, K), np.tile(block, K))])
        directions = np.zeros((values.size, K, S))
        directions[:, :, block] = vectors.T.reshape(values.size, K, -1)
        breaks = np.flatnonzero(np.diff(values) > width) + 1
        for chosen in np.split(np.arange(values.size), breaks) if values.size else ():
            value = float(values[chosen].mean())
            value = 0.0 if abs(value) <= width else value
            for words, some in _families(span, block, directions[chosen], orbit if value == 0.0 else None):
                count = len(some) * int(span.count[block][0])
                found.append(Curvature(value, count, ", ".join(words) or "in the span", some))
    return tuple(sorted(found, key=lambda c: (c.value, c.family)))


def _families(span: Span, block: np.ndarray, directions: np.ndarray, orbit: np.ndarray | None) -> Families:
    """Directions of one eigenvalue, split by each property that each of them clearly has or lacks."""
    families: Families = [([], directions)]
    if orbit is not None:
        project = lambda x: np.tensordot(np.tensordot(x, orbit, ((1, 2), (1, 2))), orbit, 1)  # noqa: E731
        families = _split(families, project, EQUAL_ERROR, "merely flat")
    if span.outside[block].any():
        where = "outside the span" + (f" (level {span.level[block][0] + 1})" if span.dims.size > 1 else "")
        families = [([*words, where], some) for words, some in families]
    else:
        families = _split(families, lambda x: x * span.taught, "in the teachers' span", "next to the teachers' span")
    if len(span.students) > 1:
        families = _split(families, lambda x: x.mean(1, keepdims=True) + 0 * x, "units equal", "units apart")
    return families


def _split(families: Families, project: Callable[[np.ndarray], np.ndarray], yes: str, no: str) -> Families:
    """Split into directions inside and outside of a subspace, unless one of them is partly inside."""
    found: Families = []
    for words, some in families:
        shares, rotation = np.linalg.eigh(np.tensordot(project(some), some, ((1, 2), (1, 2))))
        inside = shares > 0.5
        if np.any(np.abs(shares - inside) >= CLEAR_SHARE):
            found.append((words, some))
            continue
        parts = (yes, rotation[:, inside]), (no, rotation[:, ~inside])
        found += [([*words, word], np.tensordot(part.T, some, 1)) for word, part in parts if part.size]
    return found


@dataclass(frozen=True, repr=False)
class Landscape(AnalysisResult, figure="plot_landscape"):
    """What `landscape` found; coordinates are W / sqrt(N) (docs/how-to/landscape.md).

    kind: minimum, maximum or saddle in words, or that it is not a critical point. error: e_g. gradient: (K, N), of length
    gradient_norm. is_critical: does it vanish, up to rounding? spectrum: every eigenvalue of the Hessian, lowest first, as
    `Curvature` (value, multiplicity, family). index: how many directions lead downwards. flat: how many have no curvature.
    orbit: dimension of the manifold of equal error that symmetries make through this point. dim: N. parameters: K N, how many
    directions there are. span, A, matrix: the Hessian in parts, in the span of the vectors with one direction outside it in each
    level, and (A) in all others.
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
        """Flat directions that no symmetry explains: the error may change along them, but not to second order."""
        if not self.is_critical:
            raise InputError(f"the gradient is {self.gradient_norm:.3g}; merely_flat needs a critical point. Move W to one.")
        return self.flat - sum(c.multiplicity for c in self.spectrum if c.family.startswith(EQUAL_ERROR))

    def eigenvalues(self) -> np.ndarray:
        """All K N eigenvalues, lowest first."""
        return np.repeat([c.value for c in self.spectrum], [c.multiplicity for c in self.spectrum])

    def hessian(self) -> np.ndarray:
        """The whole matrix (K N, K N), unit by unit; rows and columns are those of W.ravel()."""
        if self.gradient.size > LARGEST_MATRIX:
            raise InputError(f"the Hessian has {self.gradient.size} rows, of at most {LARGEST_MATRIX}; use .spectrum.")
        K, lam, axes = len(self.A), np.repeat(self.span.lam, self.span.dims), self.span.axes
        omega = np.diag(lam) if axes is None else axes.T * lam @ axes
        inside = self.span.in_weights(np.eye(self.span.level.size))  # (S, N)
        whole = np.einsum("ksjt,sn,tm->knjm", self.matrix.reshape(K, len(inside), K, -1), inside, inside)
        whole -= np.einsum("kj,nm->knjm", self.A, omega - inside.T @ inside @ omega)
        return whole.reshape(self.gradient.size, -1)

    def directions(self, curvature: Curvature) -> np.ndarray:
        """Orthonormal directions (count, K, N) of an eigenvalue; outside the span along one dimension of a level."""
        if curvature.directions is None:
            raise InputError("this eigenvalue was predicted; directions needs one that a landscape has in .spectrum.")
        return self.span.in_weights(curvature.directions)

    def __str__(self) -> str:
        lines = [f"{self.kind}: e_g = {self.error:.6g}, gradient {self.gradient_norm:.2g}"]
        lines += [f"{c.value:>13.6g}  x {c.multiplicity:<7d} {c.family}" for c in self.spectrum]
        down, flat, count = self.index, self.flat, self.parameters
        lines.append(f"of {count} directions {down} lead down, {flat} are flat, {count - down - flat} lead up")
        if self.is_critical and flat:
            mere = self.merely_flat
            lines.append(f"of the flat ones {flat - mere} lead along equal error, {mere} are merely flat")
        return "\n".join(lines)


def landscape(
    problem: Problem, weights: Numbers, teacher_weights: Numbers, *, quadrature: Quadrature | None = None
) -> Landscape:
    """Error, gradient and Hessian of e_g with respect to the first-layer weights W / sqrt(N), at W (K, N) and W* (M, N).

    Under gradient flow a direction of curvature h decays as exp(-lr h alpha). Neither curvatures nor cost depend on N.

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
    >>> problem = tu.papers.quadratic.quadratic_network(2, 2).problem
    >>> W = np.sqrt(5) * np.eye(2, 5)
    >>> tu.analysis.landscape(problem, W, W).kind
    'minimum'
    """
    problem = require_problem(problem, "landscape")
    span = span_of(problem, *weights_by_level(problem, weights, teacher_weights))
    if span.students.size > LARGEST_MATRIX:
        rows = span.students.size
        raise InputError(f"the Hessian in the span would have {rows} rows, of at most {LARGEST_MATRIX}; use fewer levels.")
    lam = span.lam[span.level]
    require_second_derivative(problem, span.students * np.sqrt(lam), span.teachers * np.sqrt(lam))
    error, A, slope, matrix = hessian_at(problem, span, averages_of(problem, quadrature))
    gradient, orbit, dim = span.in_weights(slope), orbit_of(problem, span), int(span.dims.sum())
    largest = float(np.max(np.abs(np.linalg.eigvalsh(matrix)), initial=0.0))
    size, length = max(map(np.linalg.norm, (span.students, span.teachers))), float(np.linalg.norm(gradient))
    critical = bool(length <= CRITICAL_GRADIENT * largest * size)
    spectrum = spectrum_of(span, matrix, EQUAL_CURVATURE * largest, orbit if critical else None)
    down, flat, up = (sum(c.multiplicity for c in spectrum if np.sign(c.value) == sign) for sign in (-1, 0, 1))
    kind = "not a critical point"
    if critical:
        kind = ("saddle" if up else "maximum") if down else "minimum" if up else "flat to second order"
    manifold = round(float(np.sum(orbit**2 * span.count)))  # the trace of the projection on the orbit
    found = kind, error, gradient, length, critical, spectrum, down, flat, manifold, dim, len(A) * dim
    return Landscape(problem, *found, span, A, matrix)
