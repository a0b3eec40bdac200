"""The landscape at a point: error, gradient and all curvatures of the population error in the space of weights.

In coordinates J = W / sqrt(N), with Q = J Om J^T, R = J Om J*^T and the matrices A, B of the dynamics,
    gradient:            -(A J + B J*) Om
    Hessian times D:     -(A D + dA J + dB J*) Om,    dA, dB: along dQ = D Om J^T + J Om D^T and dR = D Om J*^T.
A direction orthogonal, within its level, to all students and teachers changes no overlap: the Hessian is -lam_l A there. What
is left is the span of the vectors, at most K (K + M) numbers a level, at any N.

Directions of equal eigenvalues are split wherever each of them either has or lacks a property (in the span of the teachers?
all students together?); elsewhere the word is left out.
"""

from collections.abc import Callable, Iterator
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
# (project directions (count, K, S) on a subspace, its name, the name of the rest)
Property = tuple[Callable[[np.ndarray], np.ndarray], str, str]
Orbit = dict[int | None, np.ndarray]  # directions in the span (None), and outside of it by level


@dataclass(frozen=True)
class Span:
    """The directions that student and teacher vectors span, level by level, those of the teachers first.

    basis: per level (s_l, n_l), orthonormal. students c (K, S), teachers t (M, S): coordinates of J and J* in all of them;
    level (S,), lam (S,): level and eigenvalue of each; taught (S,): does it lie in the span of the teachers? dims, lam_levels:
    dimensions and eigenvalues of the levels; places: how many of the dimensions are left by level, and 1 for None, the span
    itself. axes (N, N): those of the levels in the coordinates of the weights; None: they are the same.
    """

    basis: list[np.ndarray]
    students: Float[np.ndarray, "K S"]
    teachers: Float[np.ndarray, "M S"]
    level: Int[np.ndarray, " S"]
    lam: Float[np.ndarray, " S"]
    taught: Bool[np.ndarray, " S"]
    dims: Int[np.ndarray, " L"]
    lam_levels: Float[np.ndarray, " L"]
    places: dict[int | None, int]
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
    of_teachers = [row_space(t, least) for t in J_teacher]
    own = [row_space(w - w @ u.T @ u, least) for w, u in zip(J, of_teachers, strict=True)]
    basis = [np.concatenate(both) for both in zip(of_teachers, own, strict=True)]
    students, teachers = (np.hstack([w @ u.T for w, u in zip(each, basis, strict=True)]) for each in (J, J_teacher))
    sizes = np.array([u.shape[0] for u in basis])
    level = np.repeat(np.arange(dims.size), sizes)
    taught = np.concatenate([np.arange(len(u)) < len(t) for t, u in zip(of_teachers, basis, strict=True)])
    places = {None: 1, **dict(enumerate((dims - sizes).tolist()))}
    return Span(basis, students, teachers, level, lam[level], taught, dims, lam, places, problem.inputs.basis)


def row_space(rows: np.ndarray, least: float) -> np.ndarray:
    """An orthonormal basis, as rows, of what these rows span; singular values up to `least` are rounding."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > least]


def hessian_at(problem: Problem, span: Span, averages: Averages) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """e_g; A (K, K); gradient (K, S) and Hessian (K S, K S) inside the span, in its coordinates."""
    K, lam, vectors = len(span.students), span.lam, np.concatenate([span.students, span.teachers])
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


def orbit_of(problem: Problem, span: Span) -> Orbit:
    """Directions along symmetries: (count, K, S) in the span; (count, K, 1) for every dimension of a level outside it.

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
    of_inputs = [x for l in range(span.dims.size) for x in _generators(np.flatnonzero(span.level == l), span.lam.size)]
    if of_inputs:  # rotations within levels, inside the span, of which those that keep the teacher count
        form = t.T * np.asarray(problem.teacher.readout) @ t
        quadratic = _is_quadratic_form(problem.teacher)
        change = [x @ form - form @ x if quadratic else t @ x for x in of_inputs]
        sides, sizes, _ = np.linalg.svd(np.reshape(change, (len(of_inputs), -1)))
        kept = sides[:, np.sum(sizes > RANK_TOLERANCE * max(1.0, float(sizes.max(initial=0.0)))) :]
        moves += [c @ np.tensordot(x, of_inputs, 1) for x in kept.T]
    least = RANK_TOLERANCE * float(np.linalg.norm(c))
    orbit: Orbit = {None: row_space(np.reshape(moves, (len(moves), c.size)), least).reshape(-1, *c.shape)}
    for l in range(span.dims.size):
        orbit[l] = row_space(np.concatenate([c[:, (span.level == l) & ~span.taught].T, free]), least)[:, :, None]
    return orbit


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

    directions: (count, K, S) in coordinates of the span where level is None; else (count, K, 1), combinations of units
    that take any of the dimensions of that level outside the span. None where the value is predicted, not computed.
    """

    value: float
    multiplicity: int
    family: str
    directions: np.ndarray | None = None
    level: int | None = None


def spectrum_of(span: Span, A: np.ndarray, matrix: np.ndarray, orbit: Orbit | None) -> tuple[Curvature, ...]:
    """All eigenvalues, lowest first. orbit: if given, flat directions along it are named apart from others."""
    values, units = np.linalg.eigh(-A)
    parts = [(None, *np.linalg.eigh(matrix))]
    parts += [(l, values * lam, units) for l, lam in enumerate(span.lam_levels) if span.places[l] > 0]
    width = EQUAL_CURVATURE * max(float(np.max(np.abs(values), initial=0.0)) for _, values, _ in parts)
    found = []
    for level, values, vectors in parts:
        breaks = np.flatnonzero(np.diff(values) > width) + 1
        for chosen in np.split(np.arange(values.size), breaks) if values.size else ():
            value = float(values[chosen].mean())
            value = 0.0 if abs(value) <= width else value
            directions = vectors[:, chosen].T.reshape(chosen.size, len(A), -1)
            for words, some in _split_directions(directions, _properties(span, level, orbit if value == 0.0 else None)):
                count = len(some) * span.places[level]
                found.append(Curvature(value, count, ", ".join(words) or "in the span", some, level))
    return tuple(sorted(found, key=lambda c: (c.value, c.family)))


def _properties(span: Span, level: int | None, orbit: Orbit | None) -> list[Property]:
    properties: list[Property] = []
    if orbit is not None:
        moves = orbit[level]
        project = lambda x: np.tensordot(np.tensordot(x, moves, ((1, 2), (1, 2))), moves, 1)  # noqa: E731
        properties.append((project, EQUAL_ERROR, "merely flat"))
    if level is None:
        properties.append((lambda x: x * span.taught, "in the teachers' span", "next to the teachers' span"))
    else:
        where = "outside the span" + (f" (level {level + 1})" if span.dims.size > 1 else "")
        properties.append((lambda x: x, where, ""))
    if len(span.students) > 1:
        properties.append((lambda x: np.broadcast_to(x.mean(1, keepdims=True), x.shape), "units equal", "units apart"))
    return properties


def _split_directions(directions: np.ndarray, properties: list[Property]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Split directions by each property that each of them clearly has or lacks; the words, and the directions."""
    if not properties:
        yield [], directions
        return
    (project, yes, no), rest = properties[0], properties[1:]
    shares, rotation = np.linalg.eigh(np.tensordot(project(directions), directions, ((1, 2), (1, 2))))
    inside = shares > 0.5
    if np.all(np.abs(shares - inside) < CLEAR_SHARE):
        for chosen, word in ((inside, yes), (~inside, no)):
            if chosen.any():
                for words, some in _split_directions(np.tensordot(rotation[:, chosen].T, directions, 1), rest):
                    yield [word, *words], some
    else:
        yield from _split_directions(directions, rest)


@dataclass(frozen=True, repr=False)
class Landscape(AnalysisResult, figure="plot_landscape"):
    """What `landscape` found; coordinates are W / sqrt(N) (docs/how-to/landscape.md).

    kind: minimum, maximum or saddle in words, or that it is not a critical point. error: e_g. gradient: (K, N), of length
    gradient_norm. is_critical: does it vanish, up to rounding? spectrum: every eigenvalue of the Hessian, lowest first, as
    `Curvature` (value, multiplicity, family). index: how many directions lead downwards. flat: how many have no curvature.
    orbit: dimension of the manifold of equal error that symmetries make through this point. dim: N. parameters: K N, how many
    directions there are. span, A, matrix: the Hessian in parts, in the span of the vectors and (A) outside it.
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
        K, lam, axes = len(self.A), np.repeat(self.span.lam_levels, self.span.dims), self.span.axes
        omega = np.diag(lam) if axes is None else axes.T * lam @ axes
        inside = self.span.in_weights(np.eye(self.span.lam.size))  # (S, N)
        whole = np.einsum("ksjt,sn,tm->knjm", self.matrix.reshape(K, len(inside), K, -1), inside, inside)
        whole -= np.einsum("kj,nm->knjm", self.A, omega - inside.T @ inside @ omega)
        return whole.reshape(self.gradient.size, -1)

    def directions(self, curvature: Curvature) -> np.ndarray:
        """Orthonormal directions (count, K, N) of an eigenvalue inside the span of student and teacher vectors."""
        if curvature.level is not None or curvature.directions is None:
            fix = "give a curvature inside it, or use curvature.directions, the combinations of student units"
            raise InputError(f"{curvature.family!r} is every direction outside the span; {fix}.")
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
    require_second_derivative(problem, span.students * np.sqrt(span.lam), span.teachers * np.sqrt(span.lam))
    error, A, slope, matrix = hessian_at(problem, span, averages_of(problem, quadrature))
    gradient, orbit, dim = span.in_weights(slope), orbit_of(problem, span), int(span.dims.sum())
    largest = max(float(np.max(np.abs(np.linalg.eigvalsh(m)), initial=0.0)) for m in (matrix, A))
    size, length = max(map(np.linalg.norm, (span.students, span.teachers))), float(np.linalg.norm(gradient))
    critical = bool(length <= CRITICAL_GRADIENT * largest * size)
    spectrum = spectrum_of(span, A, matrix, orbit if critical else None)
    down, flat, up = (sum(c.multiplicity for c in spectrum if np.sign(c.value) == sign) for sign in (-1, 0, 1))
    kind = "not a critical point"
    if critical:
        kind = ("saddle" if up else "maximum") if down else "minimum" if up else "flat to second order"
    manifold = sum(len(moves) * span.places[level] for level, moves in orbit.items())
    found = kind, error, gradient, length, critical, spectrum, down, flat, manifold, dim, len(A) * dim
    return Landscape(problem, *found, span, A, matrix)
