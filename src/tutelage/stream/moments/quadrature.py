"""Any activation, any biases: averages by quadrature, with an error estimate.

Pairs of fields with means m, deviations s and correlation c: by Mehler's formula

    E[f(a) h(b)] = sum_k f_k h_k c^k,
    f_k = E[f(m_a + s_a z) h_k(z)],  h_k = He_k / sqrt(k!),

so functions are evaluated on one axis only, at even nodes, and the sum goes as far as
these resolve h_k. Both converge exponentially for smooth functions. Where g, g' or g''
jumps, a rule on two independent normals over [-7, 7]^2 is used instead (`_PairNodes`):
Gauss-Legendre panels that end at the jumps (problem/activation.py finds them); of more
than `MANY` jumps, fixed random points are averaged. The first normal carries the
student field, the second what is left of the other, so a field paired with itself is
exact. Where g'' is not a function, it is moved onto the Gaussian by Stein's lemma,

    E[z g'_i g_a] = s_i E[g''_i g_a] + (C_ia/s_i) E[g'_i g'_a].

Four fields, E[g'_i g'_j Delta^2]: hold the student fields i and j; given them the
others are Gaussian with shifted means m_a, deviations s_a and correlations c_ab, and by
Mehler's formula again

    E[g_a g_b | i, j] = sum_k f_ak f_bk c_ab^k,    f_ak = E[g_a(m_a + s_a z) h_k(z)].

So the integral over n fields costs three axes however large n is, and stays a sum of
squares where Delta is small. The sum converges too slowly for functions with kinks:
those are averaged over all n fields at once on one fixed scrambled Sobol set (the same
points at each call, so the right-hand side stays repeatable), to about 1e-3; where the
integrand grows fast, more of the points lie far out (tail_points.py). G multiplies
eta^2. Such a G has steps where points cross the kinks of g; an integrator
must not try to resolve them (`random_points`).

Derivatives of pairs of smooth functions are again such averages (Price's theorem),

    d E[f(a) h(b)] = E[f' h'] dC_ab + E[f'' h] dC_aa / 2 + E[f h''] dC_bb / 2
                     + E[f' h] dm_a + E[f h'] dm_b,

so nothing is differentiated through a square root: derivatives of any order hold also
where one of the fields vanishes.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float
from scipy.special import gammaincinv

from tutelage import checks
from tutelage._jump_search import ArrayFunction, breaks_of, elementwise_derivative
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.problem.activation import Activation
from tutelage.randomness import even_nodes
from tutelage.stream.moments import tail_points
from tutelage.stream.moments.averages import (
    ROOM,
    Averages,
    Covariance,
    Means,
    array_module,
    in_turn,
    safe_ratio,
    safe_sqrt,
)

# Standard deviations that a rule covers, and those that `hermite_transform` covers:
# high degrees reach farther out.
REACH = 7.0
TAIL = 9.0
# Radius of the held axes at the usual number of points: 3e-7 lies outside.
BALL = 5.5
# Kinks farther out than NEAR are left to the smooth rule of G; more than MANY kinks are
# not followed one by one. FAR stands for "no kink": clipped away, with a harmless
# gradient.
NEAR = 12.0
MANY = 12
FAR = 1e6
# Nodes of a Gauss-Hermite rule: NumPy's weights overflow beyond.
MOST_HERMITE = 280
# Relative variance below which a field is a combination of the fields before it.
DEPENDENT = 1e-15
# Relative variance below which a conditional field has none.
LOST = 1e-13
# Field at which the growth of a function is read off; degrees up to which the tails of
# an integrand need no points of their own; the largest degree that is followed.
DISTANT = 20.0
MILD = 2
STEEPEST = 20
# Independent scramblings of a sampled set: their spread estimates its error.
SETS = 8
# Correlations that rounding, or a step that is tried, has pushed farther are cut.
BEYOND = 1.01
# Up to so many fields a sum over pairs is written out, which XLA joins into one loop.
FEW_FIELDS = 8
# Relative variance added to every field where the four-field average is differentiated.
NUDGE = 1e-6
# Standard deviation of the fields for which a rule is chosen beforehand, and the
# relative errors that it aims at.
WIDTH = 1.25
ENOUGH_FOR_PAIRS = 1e-8
ENOUGH_FOR_G = 1e-3
# Nodes and reach of the rule that stands for the truth.
TRUTH = 3000
EDGE = 9.0
# A standard deviation or mean that is zero is divided by in place of this.
TINY = 1e-300
LEGENDRE = lru_cache(np.polynomial.legendre.leggauss)  # nodes and weights on (-1, 1)


class FieldFunctions(NamedTuple):
    """A function of the students' fields and one of the teachers' fields."""

    students: ArrayFunction
    teachers: ArrayFunction


class Quadrature(eqx.Module):
    """The resolution of averages of functions without a closed form.

    nodes: per axis, for pairs of fields (tanh: 1e-8 needs 49 at variance 1, 129 at 10,
    401 at 100).
    points: for the four-field average of the eta^2 term, shared by its three axes
    (2**15: 32 x 32 x 28).
    """

    nodes: int = eqx.field(static=True, default=64)
    points: int = eqx.field(static=True, default=2**15)

    def __check_init__(self) -> None:
        checks.as_count("nodes", self.nodes, least=8)
        checks.as_count("points", self.points, least=2**9)

    @property
    def held(self) -> int:
        """Nodes (trapezoid) on each axis of the two student fields that are held."""
        return round(self.points ** (1 / 3))

    @property
    def reach(self) -> float:
        """Radius of the held axes.

        More points are spent on both, smaller steps and what lies outside.
        """
        return BALL * max(1.0, self.points / 2**15) ** (1 / 6)

    @property
    def given(self) -> int:
        """Nodes (Gauss-Hermite) on the axis of a field given the student fields.

        There are fewer of them, for such a field varies less.
        """
        return min(round(0.875 * self.points ** (1 / 3)), MOST_HERMITE)

    def finer(self) -> "Quadrature":
        """Return the rule that estimates this one's error.

        It has 3/2 the nodes and four times the points.
        """
        return Quadrature(self.nodes * 3 // 2, self.points * 4)


class Sampled(eqx.Module):
    """Averages over a fixed quasi-random set of `points` samples.

    The set consists of eight scrambled Sobol sets, whitened. The same points serve at
    every time, so a solve is repeatable; `trajectory.sampling_error` estimates what
    they miss.

    points: a power of two from 2^9 up. seed: the number of the set.
    """

    points: int = eqx.field(static=True, default=2**14)
    seed: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        count = checks.as_count("points", self.points, least=2**9)
        checks.as_count("seed", self.seed, least=0)
        if count & (count - 1):
            raise InputError(
                f"points is {count}; it must be a power of two, "
                f"such as {1 << count.bit_length()}."
            )
        if count > 2**22:
            raise InputError(
                f"points is {count}; it must be at most {2**22}. Memory grows with it."
            )


def panels(
    breaks: Float[Any, "... count"],
    nodes: int,
    fixed: Sequence[float] = (-REACH, 0.0, REACH),
) -> tuple[Float[Any, "... nodes"], Float[Any, "... nodes"]]:
    """Return nodes and weights of a standard normal by Gauss-Legendre panels.

    Panels end at the breaks and at the fixed ends, whose first and last bound them all.
    """
    xp = array_module(breaks)
    ends = xp.broadcast_to(np.asarray(fixed), (*breaks.shape[:-1], len(fixed)))
    inside = xp.clip(breaks, fixed[0], fixed[-1])
    ends = xp.sort(xp.concatenate([ends, inside], axis=-1), axis=-1)
    x, weights_of_x = LEGENDRE(nodes)
    length = xp.diff(ends)[..., None]
    z = ends[..., :-1, None] + length * (x + 1) / 2
    z = z.reshape(*breaks.shape[:-1], -1)
    weights = (length * weights_of_x).reshape(z.shape)
    # half the length times the density, exp(-z^2 / 2) / sqrt(2 pi)
    return z, weights * xp.exp(-(z**2) / 2) / np.sqrt(8 * np.pi)


@lru_cache
def hermite_rule(
    nodes: int,
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "nodes degrees"]]:
    """Return Gauss-Hermite nodes, and weights times the normalized Hermite polynomials.

    Their degrees are below the number of nodes.
    """
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return z, hermites(z, nodes) * (weights / weights.sum())[:, None]


@lru_cache
def hermite_transform(
    nodes: int,
) -> tuple[Float[np.ndarray, " z"], Float[np.ndarray, "z degrees"]]:
    """Return even nodes, and weights times the Hermite polynomials that they resolve.

    `nodes` of them lie within `REACH`.
    """
    # h_k oscillates with the frequency sqrt(k): nodes at a distance d resolve it up to
    # sqrt(k) = pi / d.
    step = 2 * REACH / (nodes - 1)
    half = int(np.ceil(TAIL / step))
    z, weights = even_nodes(2 * half + 1, half * step)
    degrees = int((np.pi / step) ** 2)
    return z, hermites(z, degrees) * weights[:, None]


def hermites(z: Float[np.ndarray, " z"], count: int) -> Float[np.ndarray, "z degrees"]:
    """Return the normalized Hermite polynomials of degrees below `count`."""
    h = [np.ones_like(z), z]
    for k in range(1, count - 1):
        h.append((z * h[k] - np.sqrt(k) * h[k - 1]) / np.sqrt(k + 1))
    return np.stack(h, axis=1)


@lru_cache
def disc(
    nodes: int, reach: float, axes: int, even: bool = False
) -> tuple[Float[np.ndarray, "points axes"], Float[np.ndarray, " points"]]:
    """Return the trapezoid rule on several normals within a ball.

    even: for even functions, with one of each two mirror images.
    """
    z = np.linspace(-reach, reach, nodes)
    grid = np.stack(np.meshgrid(*[z] * axes), -1).reshape(-1, axes)
    grid = grid[np.sum(grid**2, axis=1) < (1.001 * reach) ** 2]
    density = np.exp(-np.sum(grid**2, axis=1) / 2)
    if even:
        # the mirror image of a point stands as far from the end of the list as the
        # point from its beginning; the point in the middle, if any, is its own
        half = len(grid) // 2
        count = len(grid) - half
        grid = grid[:count]
        multiplicity = np.where(np.arange(count) < half, 2.0, 1.0)
        density = multiplicity * density[:count]
    return grid, density / density.sum()


@lru_cache(maxsize=8)
def sobol(
    points: int, axes: int, seed: int, sets: int = SETS
) -> Float[np.ndarray, "points axes"]:
    """Return scrambled Sobol sets one after the other, at least `points` in all.

    Each has exactly mean zero and unit covariance.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    log2_points = int(np.ceil(np.log2(points / sets)))
    whitened = []
    for rng in np.random.default_rng(seed).spawn(sets):
        uniform = qmc.Sobol(axes, scramble=True, rng=rng).random_base2(log2_points)
        normals = ndtri(np.clip(uniform, 1e-15, 1 - 1e-15))
        normals = normals - normals.mean(axis=0)
        root = np.linalg.cholesky(normals.T @ normals / len(normals))
        whitened.append(np.linalg.solve(root, normals.T).T)
    return np.concatenate(whitened)


@lru_cache(maxsize=512)
def nearest_breaks(activation: Activation) -> tuple[float, ...]:
    """Return the places where g, g' or g'' jumps, sorted.

    They are the `MANY` nearest to zero, or all within `NEAR` if these are more.
    """
    places = sorted(activation.breaks, key=abs)
    within = sum(abs(x) < NEAR for x in places)
    return tuple(sorted(places[: max(MANY, within)]))


def factor(C: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Return the lower triangular L with L L^T = C.

    A field that the fields before it determine has an empty column.
    """
    n = C.shape[0]
    L = jnp.zeros_like(C)
    for column in range(n):
        rest = C[:, column] - L @ L[column]
        is_independent = rest[column] > DEPENDENT * C[column, column]
        pivot = jnp.where(is_independent, rest[column], 0.0)
        values = safe_ratio(rest, safe_sqrt(pivot))
        L = L.at[:, column].set(jnp.where(jnp.arange(n) < column, 0.0, values))
    return L


def apply(functions: FieldFunctions, fields: Array, K: int, axis: int) -> Array:
    """Return the students' function of the first K fields, the teachers' of the others.

    axis: of the fields.
    """
    students, teachers = jnp.split(fields, [K], axis=axis)
    values = [functions.students(students), functions.teachers(teachers)]
    return jnp.concatenate(values, axis=axis)


def hermite_coefficients(
    nodes: int, functions: FieldFunctions, K: int, C: Array, mean: Array
) -> Float[Array, "n degrees"]:
    """Return f_k = E[f(m_a + s_a z) h_k(z)] of each field's own function.

    `C` may be the block of the first fields alone.
    """
    z, weighted = hermite_transform(nodes)
    s = safe_sqrt(jnp.diagonal(C))[:, None]
    return apply(functions, mean[:, None] + s * z, K, axis=0) @ weighted


def powers(x: Float[Array, "..."], count: int) -> Float[Array, "... count"]:
    """Return x^0 to x^(count - 1) on a new last axis.

    They are made of squares of squares: a loop that is vectorized, unlike `pow`.
    """
    exponents = np.arange(count)
    square = x[..., None]
    result = jnp.ones((*x.shape, count))
    for bit in range(max(count - 1, 0).bit_length()):
        result = result * jnp.where(exponents >> bit & 1, square, 1.0)
        square = square**2
    return result


def mehler_sums(
    first: Float[Array, "rows k"], second: Float[Array, "n k"], C: Array
) -> Float[Array, "rows n"]:
    """Return E[f_i h_a] = sum_k f_ik h_ak c_ia^k, Mehler's formula.

    first, second: the coefficients of the first fields and of all fields.
    """
    rows = first.shape[0]
    n = C.shape[0]
    s = safe_sqrt(jnp.diagonal(C))
    c = jnp.clip(safe_ratio(C[:rows], s[:rows, None] * s), -BEYOND, BEYOND)
    c = jnp.where(np.eye(rows, n, dtype=bool), 1.0, c)

    def of_row(f: Array, c: Array) -> Array:
        return jnp.sum(f * second * powers(c, second.shape[1]), axis=1)

    return in_turn(of_row, first, c, size=second.size)


def plain_pair_averages(
    nodes: int,
    K: int,
    rows: int,
    first: FieldFunctions,
    second: FieldFunctions,
    C: Array,
    mean: Array,
) -> Array:
    """Return E[f_i h_a] for the first `rows` fields i and all fields a, (rows, n)."""
    of_all = hermite_coefficients(nodes, second, K, C, mean)
    if first is second:
        return mehler_sums(of_all[:rows], of_all, C)
    of_rows = hermite_coefficients(nodes, first, K, C[:rows, :rows], mean[:rows])
    return mehler_sums(of_rows, of_all, C)


# the same, with the derivatives of Price's theorem
pair_averages = jax.custom_jvp(plain_pair_averages, nondiff_argnums=(0, 1, 2, 3, 4))


@partial(pair_averages.defjvp, symbolic_zeros=True)
def _price_derivative(
    nodes: int,
    K: int,
    rows: int,
    first: FieldFunctions,
    second: FieldFunctions,
    primals: Any,
    tangents: Any,
) -> Any:
    """Return E[f_i h_a] and its derivative by Price's theorem.

    d E[f h] = E[f' h'] dC_ia + E[f'' h] dC_ii / 2 + E[f h''] dC_aa / 2
    + E[f' h] dm_i + E[f h'] dm_a.
    """
    C, mean = primals
    dC, d_mean = tangents

    def average(f: FieldFunctions, h: FieldFunctions) -> Array:
        return pair_averages(nodes, K, rows, f, h, C, mean)

    slope_1 = _derivatives(first)
    slope_2 = _derivatives(second)
    curvature_1 = _derivatives(slope_1)
    curvature_2 = _derivatives(slope_2)
    total = jnp.zeros((rows, C.shape[0]))
    if not isinstance(dC, SymbolicZero):
        d_variance = jnp.diagonal(dC)
        total = total + average(slope_1, slope_2) * dC[:rows]
        of_first = average(curvature_1, second) * d_variance[:rows, None]
        of_second = average(first, curvature_2) * d_variance
        total = total + (of_first + of_second) / 2
    if not isinstance(d_mean, SymbolicZero):
        total = total + average(slope_1, second) * d_mean[:rows, None]
        total = total + average(first, slope_2) * d_mean
    return average(first, second), total


def _derivatives(functions: FieldFunctions) -> FieldFunctions:
    return FieldFunctions(
        students=elementwise_derivative(functions.students),
        teachers=elementwise_derivative(functions.teachers),
    )


def _means_or_zeros(mean: Means, C: Covariance) -> Array:
    return jnp.zeros(C.shape[0]) if mean is None else mean


class QuadratureAverages(Averages):
    """Averages of students and teachers with any activations that do not break.

    Pairs of fields go by Mehler's formula, G with two fields held.
    """

    rule: Quadrature = eqx.field(static=True)

    @property
    def kinked(self) -> bool:
        """True if g or g' of any field jumps."""
        for activation in (self.student, self.teacher):
            if activation.smooth:
                continue
            if any(breaks_of(activation.function, order) for order in (0, 1)):
                return True
        return False

    @property
    def _activations(self) -> FieldFunctions:
        return FieldFunctions(self.student, self.teacher)

    @property
    def _slopes(self) -> FieldFunctions:
        return FieldFunctions(self.student.slope, self.teacher.slope)

    def _average(
        self,
        rows: int,
        first: FieldFunctions,
        second: FieldFunctions,
        C: Covariance,
        mean: Means,
    ) -> Array:
        """Return E[f_i h_a] for the first `rows` fields i and all fields a."""
        is_smooth = self.student.smooth and self.teacher.smooth
        averages = pair_averages if is_smooth else plain_pair_averages
        means = _means_or_zeros(mean, C)
        return averages(self.rule.nodes, self.K, rows, first, second, C, means)

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        g = self._activations
        return self._average(self.K + self.M, g, g, C, mean)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        slopes = self._slopes
        return self._average(self.K, slopes, slopes, C, mean)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self.student.smooth:
            curvatures = FieldFunctions(self.student.curvature, self.teacher.curvature)
            return self._average(self.K, curvatures, self._activations, C, mean)
        # by Stein's lemma the coefficients of g'' are sqrt(k + 1) / s times those of g'
        K = self.K
        nodes = self.rule.nodes
        means = _means_or_zeros(mean, C)
        slopes = hermite_coefficients(nodes, self._slopes, K, C[:K, :K], means[:K])
        factors = np.sqrt(np.arange(1, slopes.shape[1]))
        raised = jnp.pad(slopes[:, 1:] * factors, ((0, 0), (0, 1)))
        s = safe_sqrt(jnp.diagonal(C)[:K, None])
        outputs = hermite_coefficients(nodes, self._activations, K, C, means)
        return mehler_sums(safe_ratio(raised, s), outputs, C)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        return self._average(self.K, self._slopes, self._activations, C, mean)

    def slopes_squared_error(
        self, C: Covariance, mean: Means, w: Float[Array, " n"]
    ) -> Float[Array, "K K"]:
        # all activations even, or all odd: the integrand is even in all fields at once
        have_one_parity = self.student.parity == self.teacher.parity != 0
        even = mean is None and have_one_parity
        return _held_error(self, even, C, _means_or_zeros(mean, C), w)

    def by_held_fields(self, even: bool, C: Array, mean: Array, w: Array) -> Array:
        """Return `slopes_squared_error` of functions without kinks.

        Every pair of students is held in turn (or the only student).
        """
        K = self.K
        n = self.K + self.M
        C = jnp.asarray(C)
        w = jnp.asarray(w)
        pairs = np.array(list(combinations(range(K), min(K, 2))))
        others = np.array([np.delete(np.arange(n), pair) for pair in pairs])

        def of_pair(held: Array, others: Array) -> Array:
            return self._held(even, C, mean, w, held, others)

        size = self.rule.held**2 * self.rule.given * others.shape[1]
        blocks = in_turn(of_pair, pairs, others, size=size)
        total = jnp.zeros((K, K)).at[pairs[:, :, None], pairs[:, None]].add(blocks)
        # each pair of students gives their diagonal again
        total = total / np.where(np.eye(K), max(K - 1, 1), 1)
        return (total + total.T) / 2

    def _held(
        self, even: bool, C: Array, mean: Array, w: Array, held: Array, others: Array
    ) -> Array:
        """Return E[g'_i g'_j Delta^2] among the students held.

        The other fields are averaged given them, these at last.
        """
        count = held.shape[0]
        nodes = self.rule.held
        conditional_nodes = self.rule.given
        if count == 1:  # one axis less: more nodes on the other two
            nodes = 2 * nodes
            conditional_nodes = min(2 * conditional_nodes, MOST_HERMITE)
        # Gram-Schmidt: the loads of all fields on the axes of the held ones, and the
        # covariance that is left
        loads = []
        left = C
        for i in held:
            variance = jnp.where(left[i, i] > LOST * C[i, i], left[i, i], 0.0)
            load = safe_ratio(left[i], safe_sqrt(variance))
            left = left - jnp.outer(load, load)
            loads.append(load)
        y, weights = disc(nodes, self.rule.reach, count, even)
        shifts = sum(
            load[:, None] * axis
            for load, axis in zip(_turned(loads, held), y.T, strict=True)
        )
        means = mean[:, None] + shifts  # (n, points)
        # deviations and correlations of the other fields given the held ones
        left = left[others][:, others]
        variances = jnp.diagonal(left)
        has_variance = variances > LOST * jnp.diagonal(C)[others]
        s = safe_sqrt(jnp.where(has_variance, variances, 0.0))
        c = jnp.clip(safe_ratio(left, s[:, None] * s), -1.0, 1.0)
        c = jnp.where(np.eye(s.size, dtype=bool), 1.0, c)
        # f_ak = w_a E[g_a(m_a + s_a z) h_k(z)] at every point
        z, inner = hermite_rule(conditional_nodes)
        fields = means[others][..., None] + s[:, None, None] * z  # (m, points, z)
        outputs = apply(self._activations, fields, self.K - count, axis=0)
        waves = w[others][:, None, None] * outputs @ inner
        # the held outputs are known: of degree zero, and added to any one field
        known = jnp.sum(w[held][:, None] * self.student(means[held]), axis=0)
        first_wave = waves[0] + known[:, None] * np.eye(1, conditional_nodes)
        parts = [first_wave, *waves[1:]]
        # E[Delta^2 | i, j] = sum_k sum_ab f_ak f_bk c_ab^k, then the average over i, j
        squared_error = _correlated_squares(parts, powers(c, conditional_nodes))
        slopes = self.student.slope(means[held])
        products = (weights * slopes[:, None] * slopes).reshape(count**2, -1)
        return jnp.sum(products @ squared_error, axis=1).reshape(count, count)


def _turned(loads: list[Array], held: Array) -> list[Array]:
    """Return the loads on other axes, so that two held fields are treated alike.

    Then the held fields are S y with a symmetric matrix S.
    """
    if len(loads) == 1:
        return loads
    first, second = loads
    along = first[held[0]] + second[held[1]]
    across = first[held[1]]
    is_positive = along > 0
    size = jnp.where(is_positive, jnp.hypot(along, across), 1.0)
    cosine = jnp.where(is_positive, along, 1.0) / size
    sine = jnp.where(is_positive, across, 0.0) / size
    return [cosine * first - sine * second, sine * first + cosine * second]


def _correlated_squares(
    parts: list[Array], powers_of_c: Float[Array, "m m k"]
) -> Float[Array, "points k"]:
    """Return sum_ab f_ak f_bk c_ab^k at every point; small where the f_ak cancel."""
    if len(parts) > FEW_FIELDS:
        waves = jnp.stack(parts)
        correlated = jnp.einsum("bpk,abk->apk", waves, powers_of_c)
        return jnp.sum(waves * correlated, axis=0)
    total = 0
    for part, row in zip(parts, powers_of_c, strict=True):
        correlated = sum(power * other for power, other in zip(row, parts, strict=True))
        total = total + part * correlated
    return jnp.asarray(total)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _held_error(
    averages: QuadratureAverages, even: bool, C: Array, mean: Array, w: Array
) -> Array:
    return averages.by_held_fields(even, C, mean, w)


@_held_error.defjvp
def _held_error_derivative(
    averages: QuadratureAverages, even: bool, primals: Any, tangents: Any
) -> Any:
    """Return the average, and its derivative with fields a little apart, at 1e-6.

    The rule has no derivative where fields coincide, but the average has.
    """
    C, mean, w = primals
    apart = C + NUDGE * jnp.max(jnp.diagonal(C)) * jnp.eye(C.shape[0])
    average = partial(averages.by_held_fields, even)
    _, derivative = jax.jvp(average, (apart, mean, w), tangents)
    return average(*primals), derivative


class BrokenAverages(QuadratureAverages):
    """Averages of activations that break: g, g' or g'' of a field jumps.

    Pairs go by panels that end there, G over random points.
    """

    @property
    def kinks(self) -> np.ndarray:
        """Places where g, g' or g'' of each field jumps, (n, count)."""
        of_students = [nearest_breaks(self.student)] * self.K
        of_teachers = [nearest_breaks(self.teacher)] * self.M
        of_fields = of_students + of_teachers
        count = max(map(len, of_fields))
        padded = [kinks + (FAR,) * (count - len(kinks)) for kinks in of_fields]
        return np.array(padded)

    @property
    def _has_smooth_G(self) -> bool:
        """True if no kink is near enough to disturb the smooth rule of G."""
        return bool(np.all(np.abs(self.kinks) >= NEAR))

    def _average(
        self,
        rows: int,
        first: FieldFunctions,
        second: FieldFunctions,
        C: Covariance,
        mean: Means,
    ) -> Array:
        return _pair_nodes(self, C, mean, rows).average(first, second)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self.teacher.trainable:
            return super().slopes(C, mean)
        # a teacher that jumps: E[g'_i g'_a] = E[g'_i g_a y] / across, with y the second
        # normal
        K = self.K
        pairs = _pair_nodes(self, C, mean, K)

        def teacher_times_normal(x: Array) -> Array:
            return self.teacher(x) * pairs.y[:, K:]

        second = FieldFunctions(self.student.slope, teacher_times_normal)
        average = pairs.average(self._slopes, second)
        is_student = np.arange(K + self.M) < K
        return jnp.where(is_student, average, safe_ratio(average, pairs.across))

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self.student.smooth:
            return super().curvatures(C, mean)
        # Stein's lemma: s_i E[g''_i g_a] = E[z g'_i g_a] - (C_ia / s_i) E[g'_i g'_a]
        pairs = _pair_nodes(self, C, mean, self.K)

        def normal_times_slope(x: Array) -> Array:
            return pairs.z * self.student.slope(x)

        first = FieldFunctions(normal_times_slope, self.teacher)
        moment = pairs.average(first, self._activations)
        return safe_ratio(moment - pairs.along * self.slopes(C, mean), pairs.s)

    def slopes_squared_error(
        self, C: Covariance, mean: Means, w: Float[Array, " n"]
    ) -> Float[Array, "K K"]:
        if self._has_smooth_G:
            return super().slopes_squared_error(C, mean, w)
        K = self.K
        normals, weights = tail_normals(
            4 * self.rule.points, K + self.M, degree_of_G(self.student, self.teacher)
        )
        fields = self._fields_at(normals, C, _means_or_zeros(mean, C))
        students = fields[:, :K]
        error = self.student(students) @ w[:K] + self.teacher(fields[:, K:]) @ w[K:]
        delta = error[:, None] * self.student.slope(students)
        return delta.T @ (weights * delta)

    def random_points(self, flow: bool) -> int:
        """Return the smallest number of random points behind an average.

        It is 0 if there are none. flow: G is not needed.
        """
        numbers = []
        if not flow and not self._has_smooth_G:
            numbers.append(4 * self.rule.points)
        if self.kinks.shape[1] > MANY:
            n = self.K + self.M
            numbers.append(pair_points(self.rule, self.K, n))
            numbers.append(pair_points(self.rule, n, n))
        return min(numbers, default=0)

    def sample(self, C: Array, mean: Array, points: int) -> Array:
        """Return a fixed set of points with the law of all fields, (points, n)."""
        return self._fields_at(points_of_normals(points, self.K + self.M), C, mean)

    def _fields_at(self, normals: np.ndarray, C: Array, mean: Array) -> Array:
        """Return all fields at independent normals, (points, n)."""
        M = self.M
        # teachers first: their block never degenerates
        L = factor(jnp.roll(jnp.roll(C, M, 0), M, 1))
        return mean + normals @ jnp.roll(L, -M, 0).T


def points_of_normals(points: int, axes: int) -> Float[np.ndarray, "points axes"]:
    """Return a Sobol set; another number of points has other points.

    A finer rule therefore knows nothing of the errors of a coarser one.
    """
    return sobol(points, axes, seed=points, sets=1)


@lru_cache(maxsize=8)
def tail_normals(
    points: int, axes: int, degree: int
) -> tuple[Float[np.ndarray, "points axes"], Float[np.ndarray, "points 1"]]:
    """Return the points and weights for functions that grow like |x|^degree."""
    normals = points_of_normals(points, axes)
    if degree <= MILD:
        return normals, np.full((points, 1), 1 / points)
    moved, weights = tail_points.widened(normals, degree)
    return moved, weights[:, None]


def degree_of_G(student: Activation, teacher: Activation) -> int:
    """Return the power with which g'_i g'_j Delta^2 grows."""
    slopes = max(growth(student) - 1.0, 0.0)
    outputs = max(growth(student), growth(teacher))
    return min(round(2 * slopes + 2 * outputs), STEEPEST)


@lru_cache(maxsize=512)
def growth(activation: Activation) -> float:
    """Return p where |g(x)| grows like |x|^p far from zero."""
    sizes = []
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
        for x in (DISTANT, 2 * DISTANT):
            values = np.asarray(activation(jnp.array([-x, x])))
            sizes.append(np.max(np.abs(values)))
    near, far = sizes
    ratio = np.log2(far / near) if near > 0 else 0.0
    # What overflows grows faster than any power.
    return float(np.clip(np.nan_to_num(ratio, nan=STEEPEST), 0.0, STEEPEST))


def pair_points(rule: Quadrature, rows: int, n: int) -> int:
    """Return the number of random points for all pairs of fields.

    They serve where there are too many kinks for panels.
    """
    return max(2**12, min(4 * rule.points, 4 * ROOM // (rows * n)))


class _PairNodes(NamedTuple):
    """A rule for every pair (i, a) of a student field and a field, if functions break.

    With `rows` = n field i is any field. It is m_i + s_i z, and field a is
    m_a + along z + across y, with independent normals z and y.
    """

    K: int
    s: Float[Array, "rows 1"]
    along: Float[Array, "rows n"]
    across: Float[Array, "rows n"]
    z: Array
    y: Array
    weights: Any  # of z
    inner: Any  # of y
    first: Array  # values of field i, (rows, 1 or n, z)
    second: Array  # values of field a given it, (rows, n, z, y)

    def average(
        self, first: FieldFunctions, second: FieldFunctions
    ) -> Float[Array, "rows n"]:
        """Return E[f_i h_a] over both normals."""
        f = apply(first, self.first, self.K, axis=0)
        h = apply(second, self.second, self.K, axis=1)
        if np.ndim(self.inner) == 1:
            h_given_z = h @ self.inner
        else:
            h_given_z = jnp.sum(h * self.inner, axis=-1)
        return jnp.sum(f * self.weights * h_given_z, axis=-1)


def _pair_nodes(
    averages: BrokenAverages, C: Covariance, mean: Means, rows: int
) -> _PairNodes:
    """Return panels, or random points if there are too many kinks for panels."""
    means = _means_or_zeros(mean, C)
    variance = jnp.diagonal(C)
    s = safe_sqrt(variance)[:rows, None]
    along = safe_ratio(C[:rows], s)
    rest = variance - along**2
    across = safe_sqrt(jnp.where(rest > LOST * variance, rest, 0.0))
    if averages.kinks.shape[1] > MANY:
        return _sampled_pairs(averages, C, means, s, along, across)
    return _panel_pairs(averages, means, s, along, across)


def _panel_pairs(
    averages: BrokenAverages, mean: Array, s: Array, along: Array, across: Array
) -> _PairNodes:
    """Return Gauss-Legendre panels that end where a function of either field breaks."""
    rows = s.shape[0]
    kinks = averages.kinks
    nodes = averages.rule.nodes // 2
    own = safe_ratio(kinks[:rows] - mean[:rows, None], s)[:, None]
    # given field i the kink of field a is smooth over a width that shrinks as the two
    # become alike
    met = safe_ratio(kinks - mean[:, None], along[..., None])
    width = safe_ratio(6 * across[..., None], along[..., None])
    own = jnp.broadcast_to(own, met.shape)
    ends = jnp.concatenate([own, met - width, met + width], axis=-1)
    z, weights = panels(ends, nodes)
    second_mean = (mean[:, None] + along[..., None] * z)[..., None]
    second_deviation = across[..., None, None]
    y, inner = panels(safe_ratio(kinks[:, None] - second_mean, second_deviation), nodes)
    return _PairNodes(
        K=averages.K,
        s=s,
        along=along,
        across=across,
        z=z,
        y=y,
        weights=weights,
        inner=inner,
        first=mean[:rows, None, None] + s[..., None] * z,
        second=second_mean + second_deviation * y,
    )


def _sampled_pairs(
    averages: BrokenAverages,
    C: Array,
    mean: Array,
    s: Array,
    along: Array,
    across: Array,
) -> _PairNodes:
    """Return one set of points for all pairs.

    The cost of panels grows with the square of the number of kinks.
    """
    rows, n = along.shape
    points = pair_points(averages.rule, rows, n)
    centered = averages.sample(C, mean, points).T - mean[:, None]  # (n, points)
    z = safe_ratio(centered[:rows], s)[:, None]
    y = safe_ratio(centered - along[..., None] * z, across[..., None])[..., None]
    count = centered.shape[1]  # of a Sobol set, a power of two
    return _PairNodes(
        K=averages.K,
        s=s,
        along=along,
        across=across,
        z=z,
        y=y,
        weights=np.full(count, 1 / count),
        inner=np.ones(1),
        first=(centered[:rows] + mean[:rows, None])[:, None],
        second=jnp.broadcast_to((centered + mean[:, None])[..., None], y.shape),
    )


@lru_cache(maxsize=256)
def chosen_rule(student: Activation, teacher: Activation) -> Quadrature:
    """Return the usual rule, or a finer one.

    It is made finer where the usual one does not resolve the functions and a finer one
    does better.
    """

    def error_of_pairs(rule: Quadrature) -> float:
        return shortfall(student, teacher, rule, WIDTH, WIDTH).pairs

    def error_of_G(rule: Quadrature) -> float:
        return shortfall(student, teacher, rule, WIDTH, WIDTH).G

    usual = Quadrature()
    by_nodes = [Quadrature(nodes=n) for n in (usual.nodes, 96, 144, 216, 324)]
    nodes = _first_sufficient(by_nodes, error_of_pairs, ENOUGH_FOR_PAIRS).nodes
    by_points = [Quadrature(nodes, usual.points)]
    samples_pairs = _has_sampled_pairs(student, teacher)
    # random points gain too little from more of them
    if not (samples_pairs or _has_sampled_G(student, teacher)):
        by_points += [Quadrature(nodes, 2**17), Quadrature(nodes, 2**19)]
    return _first_sufficient(by_points, error_of_G, ENOUGH_FOR_G)


def _first_sufficient(
    rules: list[Quadrature], error_of: Callable[[Quadrature], float], enough: float
) -> Quadrature:
    """Return the first rule whose error is small enough.

    If none is, return the best one if it is much better than the first, else the first.
    """
    errors = []
    for rule in rules:
        error = error_of(rule)
        if error <= enough:
            return rule
        errors.append(error)
    best = int(np.argmin(errors))
    return rules[best] if errors[best] < 0.1 * errors[0] else rules[0]


class Shortfall(NamedTuple):
    """Relative errors of a rule for averages of pairs of fields, and for G."""

    pairs: float
    G: float


def shortfall(
    student: Activation,
    teacher: Activation,
    rule: Quadrature,
    s_student: float,
    s_teacher: float,
    axes: int = 2,
) -> Shortfall:
    """Return relative errors of a rule in one dimension, where the truth costs nothing.

    A pair of fields that coincide, and four of them, are averages over one normal:

        pairs  E[g^2], E[g'^2], E[g'' g]
        G      E[g'^2], E[(g' g)^2] on a held axis, E[g^2] = sum_k f_k^2 on the other.

    Fast functions (sin 5x) and those that grow fast fail here as they fail there.
    s_student, s_teacher: deviations of the fields. axes: how many fields there are,
    over which random points spread.
    """
    of_student = _errors(student, rule, s_student)
    of_teacher = _errors(teacher, rule, s_teacher)
    if _has_sampled_pairs(student, teacher):
        pairs = max(of_student.sampled_outputs, of_teacher.sampled_outputs)
    else:
        pairs = max(of_student.pairs, of_teacher.outputs)
    if _has_sampled_G(student, teacher):
        G = _sampled_share(student, teacher, rule, s_student, axes)
    else:
        G = max(of_student.held, of_student.hermite, of_teacher.hermite)
    return Shortfall(pairs, G)


def _has_sampled_pairs(student: Activation, teacher: Activation) -> bool:
    """Return True if pairs are averaged over random points."""
    return max(len(nearest_breaks(student)), len(nearest_breaks(teacher))) > MANY


def _has_sampled_G(student: Activation, teacher: Activation) -> bool:
    """Return True if G is averaged over random points."""
    places = nearest_breaks(student) + nearest_breaks(teacher)
    return any(abs(x) < NEAR for x in places)


class _RuleErrors(NamedTuple):
    """Relative errors of a rule for averages of one function on one normal."""

    outputs: float  # E[g^2]
    pairs: float  # E[g^2], E[g'^2], E[g'' g]
    held: float  # E[g'^2], E[(g' g)^2]
    hermite: float  # what is wrong with, and missing from, sum_k f_k^2 = E[g^2]
    sampled_outputs: float  # E[g^2] over random points, a standard error


@lru_cache(maxsize=512)
def _errors(activation: Activation, rule: Quadrature, s: float) -> _RuleErrors:
    """Return the errors of a rule at standard deviation s of the field."""
    kinks = np.array(nearest_breaks(activation)[:MANY]) / max(s, TINY)
    z, weights = panels(kinks, TRUTH // (kinks.size + 2), (-EDGE, 0.0, EDGE))
    if kinks.size:
        pair_z, pair_weights = panels(kinks, rule.nodes // 2)
    else:
        pair_z, pair_weights = hermite_transform(rule.nodes)
    held_z, held_weights = disc(rule.held, rule.reach, 1)
    conditional_z, inner = hermite_rule(rule.given)
    grids = [z, pair_z, held_z[:, 0], conditional_z]
    true, by_rule, on_held, on_conditional = _values_on(activation, s, grids)
    g, _, _ = true

    def by_pair_rule(f: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return E[f h] of a field paired with itself.

        It goes by panels, or by the sum of products of Hermite coefficients.
        """
        if kinks.size:
            return pair_weights @ (f * h)
        return (f @ pair_weights) @ (h @ pair_weights)

    # E[g^2], E[g'^2], E[g'' g]; the last one only if g'' is a function
    orders = [(0, 0), (1, 1)]
    if activation.smooth:
        orders.append((2, 0))
    means = [weights @ (true[i] * true[j]) for i, j in orders]
    gaps = []
    for (i, j), mean in zip(orders, means, strict=True):
        gaps.append(by_pair_rule(by_rule[i], by_rule[j]) - mean)
    # an average much smaller than the others counts by their size
    least = 1e-3 * np.max(np.abs(means))
    pairs = [
        _share(gap, max(abs(mean), least))
        for gap, mean in zip(gaps, means, strict=True)
    ]

    coefficients = (weights * g) @ hermites(z, rule.given)
    squares = (on_conditional[0] @ inner) ** 2
    wrong = np.sum(np.abs(squares - coefficients**2))
    wrong_or_missing = wrong + means[0] - coefficients @ coefficients

    def of_sampling(f: np.ndarray) -> float:
        """Return the standard error of E[f] over random points, as a share of it."""
        mean = weights @ f
        variance = max(weights @ f**2 - mean**2, 0.0)
        return _share(np.sqrt(variance / (4 * rule.points)), mean)

    return _RuleErrors(
        outputs=_share(gaps[0], means[0]),
        pairs=max(pairs),
        held=_held_share(weights, true, held_weights, on_held),
        hermite=_share(wrong_or_missing, means[0]),
        sampled_outputs=of_sampling(g**2),
    )


@lru_cache(maxsize=512)
def _sampled_share(
    student: Activation, teacher: Activation, rule: Quadrature, s: float, axes: int
) -> float:
    """Return the standard error of E[(g' g)^2] over random points, as a share of it."""
    kinks = np.array(nearest_breaks(student)[:MANY]) / max(s, TINY)
    z, density = panels(kinks, TRUTH // (kinks.size + 2), (-EDGE, 0.0, EDGE))
    ((g, slope, _),) = _values_on(student, s, [z])
    f = (g * slope) ** 2
    mean = density @ f
    degree = degree_of_G(student, teacher)
    weights = np.ones_like(z)
    if degree > MILD:
        # the other axes at even quantiles of their radius
        ranks = (np.arange(64) + 0.5) / 64
        others = np.sqrt(2 * gammaincinv((axes - 1) / 2, ranks))
        radii = np.hypot(z, others[:, None])
        weights = tail_points.weights_at(radii, axes, degree).mean(axis=0)
    variance = max(density @ (weights * f**2) - mean**2, 0.0)
    return _share(np.sqrt(variance / (4 * rule.points)), mean)


def _held_share(
    weights: np.ndarray,
    true: np.ndarray,
    held_weights: np.ndarray,
    on_held: np.ndarray,
) -> float:
    """Return the larger error of E[g'^2] and E[(g' g)^2] on a held axis.

    true, on_held: g, g' and g'' at the nodes of the true rule and of the held axis.
    """
    g, slope, _ = true
    g_held, slope_held, _ = on_held
    true_slopes = weights @ slope**2
    true_products = weights @ (slope * g) ** 2
    held_slopes = held_weights @ slope_held**2
    held_products = held_weights @ (slope_held * g_held) ** 2
    return max(
        _share(held_slopes - true_slopes, true_slopes),
        _share(held_products - true_products, true_products),
    )


def _values_on(
    activation: Activation, s: float, grids: list[np.ndarray]
) -> list[np.ndarray]:
    """Return g, g' and g'' at the nodes of each grid, times s: (3, nodes) for each."""
    x = s * np.concatenate(grids)
    padded = np.pad(x, (0, -x.size % 2**13))  # compiled for few shapes
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
        values = np.asarray(_values(activation, padded))[:, : x.size]
    ends = np.cumsum([grid.size for grid in grids])[:-1]
    return np.split(values, ends, axis=1)


def _share(part: ArrayLike, whole: ArrayLike) -> float:
    """Return |part / whole|; infinite if it is not a number."""
    share = np.abs(part) / np.maximum(np.abs(whole), TINY)
    return float(share) if np.isfinite(share) else np.inf


@partial(jax.jit, static_argnums=0)
def _values(activation: Activation, x: Any) -> Array:
    return jnp.stack([activation(x), activation.slope(x), activation.curvature(x)])
