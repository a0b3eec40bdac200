"""Any activation, any biases: averages by quadrature, with an error estimate.

Pairs of fields with means m, deviations s and correlation c: by Mehler's formula
    E[f(a) h(b)] = sum_k f_k h_k c^k,    f_k = E[f(m_a + s_a z) h_k(z)],  h_k = He_k / sqrt(k!),
so functions are evaluated on one axis only, at even nodes, and the sum goes as far as these resolve h_k. Both converge
exponentially for smooth functions. Where g, g' or g'' jumps, a rule on two independent normals over [-7, 7]^2 is used
instead (`_Pairs`): Gauss-Legendre panels that end at the jumps (problem/activation.py finds them); of more than `MANY`
jumps, fixed random points are averaged. The first normal carries the student field, the second what is left of the other,
so a field paired with itself is exact. Where g'' is not a function, it is moved onto the Gaussian by Stein's lemma,
    E[z g'_i g_a] = s_i E[g''_i g_a] + (C_ia/s_i) E[g'_i g'_a].

Four fields, E[g'_i g'_j Delta^2]: hold the student fields i and j; given them the others are Gaussian with shifted means
m_a, deviations s_a and correlations c_ab, and by Mehler's formula again
    E[g_a g_b | i, j] = sum_k f_ak f_bk c_ab^k,    f_ak = E[g_a(m_a + s_a z) h_k(z)].
So the integral over n fields costs three axes however large n is, and stays a sum of squares where Delta is small. The sum
converges too slowly for functions with kinks: those are averaged over all n fields at once on one fixed scrambled Sobol set
(the same points at each call, so the right-hand side stays repeatable), to about 1e-3. G multiplies eta^2. Such a G has
steps where points cross the kinks of g; an integrator must not try to resolve them (`random_points`).

Derivatives of pairs of smooth functions are again such averages (Price's theorem),
    d E[f(a) h(b)] = E[f' h'] dC_ab + E[f'' h] dC_aa / 2 + E[f h''] dC_bb / 2 + E[f' h] dm_a + E[f h'] dm_b,
so nothing is differentiated through a square root: derivatives of any order hold also where one of the fields vanishes.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float

from tutelage import checks
from tutelage._jump_search import Function, breaks_of, elementwise_derivative
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.moments.averages import ROOM, Averages, Covariance, Means, array_module, in_turn, safe_ratio, safe_sqrt
from tutelage.problem.activation import Activation
from tutelage.randomness import even_nodes

REACH = 7.0  # standard deviations that a rule covers
TAIL = 9.0  # those that `hermite_transform` covers: high degrees reach farther out
BALL = 5.5  # radius of the held axes at the usual number of points: 3e-7 lies outside
NEAR, MANY = 12.0, 12  # kinks farther out are left to the smooth rule of G; more kinks than that are not followed one by one
MOST_HERMITE = 280  # nodes of a Gauss-Hermite rule: NumPy's weights overflow beyond
DEPENDENT = 1e-15  # relative variance below which a field is a combination of the fields before it
SETS = 8  # independent scramblings of a sampled set: their spread estimates its error
FAR = 1e6  # stands for "no kink": clipped away, with a harmless gradient
LOST = 1e-13  # relative variance below which a conditional field has none
BEYOND = 1.01  # correlations that rounding, or a step that is tried, has pushed farther are cut
FEW_FIELDS = 8  # up to so many a sum over pairs of fields is written out, which XLA joins into one loop
NUDGE = 1e-6  # relative variance added to every field where the four-field average is differentiated
WIDTH = 1.25  # standard deviation of the fields for which a rule is chosen beforehand
ENOUGH = (1e-8, 1e-3)  # what a chosen rule aims at: (pairs, G)
TRUTH, EDGE = 3000, 9.0  # nodes and reach of the rule that stands for the truth
LEGENDRE = lru_cache(np.polynomial.legendre.leggauss)  # nodes and weights on (-1, 1)
Functions = tuple[Function, Function]  # each field's own function: (of the students, of the teachers)


class Quadrature(eqx.Module):
    """How finely to average functions without a closed form.

    nodes: per axis, for pairs of fields (tanh: 1e-8 needs 49 at variance 1, 129 at 10, 401 at 100).
    points: for the four-field average of the eta^2 term, shared by its three axes (2**15: 32 x 32 x 28).
    """

    nodes: int = eqx.field(static=True, default=64)
    points: int = eqx.field(static=True, default=2**15)

    def __check_init__(self) -> None:
        checks.as_count("nodes", self.nodes, least=8)
        checks.as_count("points", self.points, least=2**9)

    @property
    def held(self) -> int:
        """Nodes (trapezoid) on each of the two axes of the student fields that are held."""
        return round(self.points ** (1 / 3))

    @property
    def reach(self) -> float:
        """How far the held axes go: more points are spent on both, smaller steps and what lies outside."""
        return BALL * max(1.0, self.points / 2**15) ** (1 / 6)

    @property
    def given(self) -> int:
        """Nodes (Gauss-Hermite) on the axis of a field given those; fewer, for such a field varies less."""
        return min(round(0.875 * self.points ** (1 / 3)), MOST_HERMITE)

    def finer(self) -> "Quadrature":
        """The rule that estimates this one's error: 3/2 the nodes, four times the points."""
        return Quadrature(self.nodes * 3 // 2, self.points * 4)


class Sampled(eqx.Module):
    """Average over a fixed quasi-random set of `points` samples (scrambled Sobol, eight scramblings, whitened).

    The same points serve at every time, so a solve is repeatable; `trajectory.sampling_error` estimates what they miss.
    points: a power of two from 2^9 up. seed: which set.
    """

    points: int = eqx.field(static=True, default=2**14)
    seed: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        count = checks.as_count("points", self.points, least=2**9)
        checks.as_count("seed", self.seed, least=0)
        if count & (count - 1):
            raise InputError(f"points is {count}; it must be a power of two, such as {1 << count.bit_length()}.")
        if count > 2**22:
            raise InputError(f"points is {count}; it must be at most {2**22}. Memory grows with it.")


def panels(
    breaks: Float[Any, "... count"], nodes: int, fixed: Sequence[float] = (-REACH, 0.0, REACH)
) -> tuple[Float[Any, "... nodes"], Float[Any, "... nodes"]]:
    """Nodes and weights: Gauss-Legendre between the breaks and the fixed ends, whose first and last bound them."""
    xp = array_module(breaks)
    ends = xp.broadcast_to(np.asarray(fixed), (*breaks.shape[:-1], len(fixed)))
    ends = xp.sort(xp.concatenate([ends, xp.clip(breaks, fixed[0], fixed[-1])], axis=-1), axis=-1)
    x, weights = LEGENDRE(nodes)
    length = xp.diff(ends)[..., None]
    z = (ends[..., :-1, None] + length * (x + 1) / 2).reshape(*breaks.shape[:-1], -1)
    return z, (length * weights).reshape(z.shape) * xp.exp(-(z**2) / 2) / np.sqrt(8 * np.pi)


@lru_cache
def hermite_rule(nodes: int) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "nodes degrees"]]:
    """Gauss-Hermite nodes, and weights times the normalized Hermite polynomials for degrees below nodes."""
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return z, hermites(z, nodes) * (weights / weights.sum())[:, None]


@lru_cache
def hermite_transform(nodes: int) -> tuple[Float[np.ndarray, " z"], Float[np.ndarray, "z degrees"]]:
    """Even nodes, `nodes` of them within `REACH`, and weights times the Hermite polynomials that they resolve."""
    # h_k oscillates with the frequency sqrt(k): nodes at a distance d resolve it up to sqrt(k) = pi / d.
    step = 2 * REACH / (nodes - 1)
    half = int(np.ceil(TAIL / step))
    z, weights = even_nodes(2 * half + 1, half * step)
    return z, hermites(z, int((np.pi / step) ** 2)) * weights[:, None]


def hermites(z: Float[np.ndarray, " z"], count: int) -> Float[np.ndarray, "z degrees"]:
    """The normalized Hermite polynomials of degrees below `count`."""
    h = [np.ones_like(z), z]
    for k in range(1, count - 1):
        h.append((z * h[k] - np.sqrt(k) * h[k - 1]) / np.sqrt(k + 1))
    return np.stack(h, axis=1)


@lru_cache
def disc(
    nodes: int, reach: float, axes: int, even: bool = False
) -> tuple[Float[np.ndarray, "points axes"], Float[np.ndarray, " points"]]:
    """The trapezoid rule on several normals within a ball; of even functions, one of each two mirror images."""
    z = np.linspace(-reach, reach, nodes)
    grid = np.stack(np.meshgrid(*[z] * axes), -1).reshape(-1, axes)
    grid = grid[np.sum(grid**2, axis=1) < (1.001 * reach) ** 2]
    density = np.exp(-np.sum(grid**2, axis=1) / 2)
    if even:  # the mirror image of a point stands as far from the end of the list as the point from its beginning
        half = len(grid) // 2
        grid, density = (x[: len(grid) - half] for x in (grid, density))
        density = np.where(np.arange(len(grid)) < half, 2.0, 1.0) * density
    return grid, density / density.sum()


@lru_cache(maxsize=8)
def sobol(points: int, axes: int, seed: int, sets: int = SETS) -> Float[np.ndarray, "points axes"]:
    """Scrambled Sobol sets one after the other, each with exact mean zero and unit covariance; at least `points` in all."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    log2_points, each = int(np.ceil(np.log2(points / sets))), []
    for rng in np.random.default_rng(seed).spawn(sets):
        uniform = qmc.Sobol(axes, scramble=True, rng=rng).random_base2(log2_points)
        e = ndtri(np.clip(uniform, 1e-15, 1 - 1e-15))
        e = e - e.mean(axis=0)
        each.append(np.linalg.solve(np.linalg.cholesky(e.T @ e / len(e)), e.T).T)
    return np.concatenate(each)


@lru_cache(maxsize=512)
def nearest_breaks(activation: Activation) -> tuple[float, ...]:
    """Where g, g' or g'' jumps, sorted: the `MANY` nearest to zero, or all within `NEAR` if these are more."""
    places = sorted(activation.breaks, key=abs)
    within = sum(abs(x) < NEAR for x in places)
    return tuple(sorted(places[: max(MANY, within)]))


def factor(C: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Lower triangular L with L L^T = C. A field that the fields before it determine has an empty column."""
    n = C.shape[0]
    L = jnp.zeros_like(C)
    for column in range(n):
        rest = C[:, column] - L @ L[column]
        pivot = jnp.where(rest[column] > DEPENDENT * C[column, column], rest[column], 0.0)
        values = safe_ratio(rest, safe_sqrt(pivot))
        L = L.at[:, column].set(jnp.where(jnp.arange(n) < column, 0.0, values))
    return L


def apply(functions: Functions, fields: Array, K: int, axis: int) -> Array:
    """The students' function on the first K fields along an axis, the teachers' on the others."""
    students, teachers = jnp.split(fields, [K], axis=axis)
    return jnp.concatenate([functions[0](students), functions[1](teachers)], axis=axis)


def hermite_coefficients(nodes: int, functions: Functions, K: int, C: Array, mean: Array) -> Float[Array, "n degrees"]:
    """f_k of each field's own function; `C` may be the block of the first fields alone."""
    z, weighted = hermite_transform(nodes)
    return apply(functions, mean[:, None] + safe_sqrt(jnp.diagonal(C))[:, None] * z, K, axis=0) @ weighted


def powers(x: Float[Array, "..."], count: int) -> Float[Array, "... count"]:
    """x^0 to x^(count - 1) on a new last axis, from squares of squares: a loop that is vectorized, unlike `pow`."""
    exponents, square = np.arange(count), x[..., None]
    found = jnp.ones((*x.shape, count))
    for bit in range(max(count - 1, 0).bit_length()):
        found = found * jnp.where(exponents >> bit & 1, square, 1.0)
        square = square**2
    return found


def mehler_sums(first: Float[Array, "rows k"], second: Float[Array, "n k"], C: Array) -> Float[Array, "rows n"]:
    """E[f_i h_a] from the coefficients of the first fields and of all fields."""
    rows, n = first.shape[0], C.shape[0]
    s = safe_sqrt(jnp.diagonal(C))
    c = jnp.clip(safe_ratio(C[:rows], s[:rows, None] * s), -BEYOND, BEYOND)
    c = jnp.where(np.eye(rows, n, dtype=bool), 1.0, c)
    row = lambda f, c: jnp.sum(f * second * powers(c, second.shape[1]), axis=1)  # noqa: E731
    return in_turn(row, first, c, size=second.size)


def plain_pair_averages(nodes: int, K: int, rows: int, first: Functions, second: Functions, C: Array, mean: Array) -> Array:
    """E[f_i h_a] for the first `rows` fields i and all fields a, (rows, n)."""
    of_all = hermite_coefficients(nodes, second, K, C, mean)
    if first is second:
        return mehler_sums(of_all[:rows], of_all, C)
    return mehler_sums(hermite_coefficients(nodes, first, K, C[:rows, :rows], mean[:rows]), of_all, C)


# the same, with the derivatives of Price's theorem
pair_averages = jax.custom_jvp(plain_pair_averages, nondiff_argnums=(0, 1, 2, 3, 4))


@partial(pair_averages.defjvp, symbolic_zeros=True)
def _price_derivative(
    nodes: int, K: int, rows: int, first: Functions, second: Functions, primals: Any, tangents: Any
) -> Any:
    C, mean = primals
    dC, d_mean = tangents

    def average(f: Functions, h: Functions) -> Array:
        return pair_averages(nodes, K, rows, f, h, C, mean)

    slopes = _derivatives(first), _derivatives(second)
    curvatures = _derivatives(slopes[0]), _derivatives(slopes[1])
    total = jnp.zeros((rows, C.shape[0]))
    if not isinstance(dC, SymbolicZero):
        d_own = jnp.diagonal(dC)
        total = total + average(*slopes) * dC[:rows]
        total = total + (average(curvatures[0], second) * d_own[:rows, None] + average(first, curvatures[1]) * d_own) / 2
    if not isinstance(d_mean, SymbolicZero):
        total = total + average(slopes[0], second) * d_mean[:rows, None] + average(first, slopes[1]) * d_mean
    return average(first, second), total


def _derivatives(functions: Functions) -> Functions:
    return elementwise_derivative(functions[0]), elementwise_derivative(functions[1])


def _known(mean: Means, C: Covariance) -> Array:
    return jnp.zeros(C.shape[0]) if mean is None else mean


class QuadratureAverages(Averages):
    """Students and teachers with any activations that do not break: pairs by Mehler's formula, G with two fields held."""

    rule: Quadrature = eqx.field(static=True)

    @property
    def kinked(self) -> bool:
        """Does g or g' of any field jump?"""
        functions = [g.function for g in (self.student, self.teacher) if not g.smooth]
        return any(breaks_of(function, order) for function in functions for order in (0, 1))

    @property
    def _activations(self) -> Functions:
        return self.student, self.teacher

    @property
    def _slopes(self) -> Functions:
        return self.student.slope, self.teacher.slope

    def _average(self, rows: int, first: Functions, second: Functions, C: Covariance, mean: Means) -> Array:
        """E[f_i h_a] for the first `rows` fields i and all fields a, (rows, n)."""
        averages = pair_averages if self.student.smooth and self.teacher.smooth else plain_pair_averages
        return averages(self.rule.nodes, self.K, rows, first, second, C, _known(mean, C))

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        g = self._activations
        return self._average(self.K + self.M, g, g, C, mean)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        slopes = self._slopes
        return self._average(self.K, slopes, slopes, C, mean)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self.student.smooth:
            return self._average(self.K, (self.student.curvature, self.teacher.curvature), self._activations, C, mean)
        # by Stein's lemma the coefficients of g'' are sqrt(k + 1) / s times those of g'
        K, nodes, mean = self.K, self.rule.nodes, _known(mean, C)
        slopes = hermite_coefficients(nodes, self._slopes, K, C[:K, :K], mean[:K])
        raised = jnp.pad(slopes[:, 1:] * np.sqrt(np.arange(1, slopes.shape[1])), ((0, 0), (0, 1)))
        s = safe_sqrt(jnp.diagonal(C)[:K, None])
        return mehler_sums(safe_ratio(raised, s), hermite_coefficients(nodes, self._activations, K, C, mean), C)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        return self._average(self.K, self._slopes, self._activations, C, mean)

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        even = mean is None and self.student.parity == self.teacher.parity != 0  # in all fields at once
        return _held_error(self, even, C, _known(mean, C), w)

    def by_held_fields(self, even: bool, C: Array, mean: Array, w: Array) -> Array:
        """`slopes_squared_error` of functions without kinks: every pair of students held in turn (or the only student)."""
        K, n, C, w = self.K, self.K + self.M, jnp.asarray(C), jnp.asarray(w)
        held = np.array(list(combinations(range(K), min(K, 2))))
        others = np.array([np.delete(np.arange(n), students) for students in held])
        one = lambda held, others: self._held(even, C, mean, w, held, others)  # noqa: E731
        found = in_turn(one, held, others, size=self.rule.held**2 * self.rule.given * others.shape[1])
        total = jnp.zeros((K, K)).at[held[:, :, None], held[:, None]].add(found)
        total = total / np.where(np.eye(K), max(K - 1, 1), 1)  # each pair of students gives their diagonal again
        return (total + total.T) / 2

    def _held(self, even: bool, C: Array, mean: Array, w: Array, held: Array, others: Array) -> Array:
        """E[g'_i g'_j Delta^2] among the students held: the other fields averaged given them, these at last."""
        count, nodes, given = held.shape[0], self.rule.held, self.rule.given
        if count == 1:  # one axis less: more nodes on the other two
            nodes, given = 2 * nodes, min(2 * given, MOST_HERMITE)
        loads, left = [], C
        for i in held:
            loads.append(safe_ratio(left[i], safe_sqrt(jnp.where(left[i, i] > LOST * C[i, i], left[i, i], 0.0))))
            left = left - jnp.outer(loads[-1], loads[-1])
        y, weights = disc(nodes, self.rule.reach, count, even)
        means = mean[:, None] + sum(load[:, None] * axis for load, axis in zip(_turned(loads, held), y.T, strict=True))
        left, variance = left[others][:, others], jnp.diagonal(C)[others]
        s = safe_sqrt(jnp.where(jnp.diagonal(left) > LOST * variance, jnp.diagonal(left), 0.0))
        c = jnp.where(np.eye(s.size, dtype=bool), 1.0, jnp.clip(safe_ratio(left, s[:, None] * s), -1.0, 1.0))
        z, inner = hermite_rule(given)
        fields = means[others][..., None] + s[:, None, None] * z  # (m, points, z)
        waves = w[others][:, None, None] * apply(self._activations, fields, self.K - count, axis=0) @ inner
        known = jnp.sum(w[held][:, None] * self.student(means[held]), axis=0)  # of degree zero: added to any one field
        parts = [waves[0] + known[:, None] * np.eye(1, given), *waves[1:]]
        slopes = self.student.slope(means[held])
        squares = (weights * slopes[:, None] * slopes).reshape(count**2, -1) @ _correlated_squares(parts, powers(c, given))
        return jnp.sum(squares, axis=1).reshape(count, count)


def _turned(loads: list[Array], held: Array) -> list[Array]:
    """The loads on other axes, so that two held fields are treated alike: the fields are S y with a symmetric S."""
    if len(loads) == 1:
        return loads
    first, second = loads
    along, across = first[held[0]] + second[held[1]], first[held[1]]
    size = jnp.where(along > 0, jnp.hypot(along, across), 1.0)
    cosine, sine = jnp.where(along > 0, along, 1.0) / size, jnp.where(along > 0, across, 0.0) / size
    return [cosine * first - sine * second, sine * first + cosine * second]


def _correlated_squares(parts: list[Array], powers_of_c: Float[Array, "m m k"]) -> Float[Array, "points k"]:
    """sum_ab f_ak f_bk c_ab^k at every point; small where the f_ak cancel."""
    if len(parts) > FEW_FIELDS:
        waves = jnp.stack(parts)
        return jnp.sum(waves * jnp.einsum("bpk,abk->apk", waves, powers_of_c), axis=0)
    each = [part * sum(map(jnp.multiply, row, parts)) for part, row in zip(parts, powers_of_c, strict=True)]
    return jnp.asarray(sum(each))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _held_error(averages: QuadratureAverages, even: bool, C: Array, mean: Array, w: Array) -> Array:
    return averages.by_held_fields(even, C, mean, w)


@_held_error.defjvp
def _nearby(averages: QuadratureAverages, even: bool, primals: Any, tangents: Any) -> Any:
    """Where fields coincide the rule has no derivative, but the average has: it is taken a little apart, at 1e-6."""
    C, mean, w = primals
    apart = C + NUDGE * jnp.max(jnp.diagonal(C)) * jnp.eye(C.shape[0])
    average = partial(averages.by_held_fields, even)
    return average(*primals), jax.jvp(average, (apart, mean, w), tangents)[1]


class BrokenAverages(QuadratureAverages):
    """The same where g, g' or g'' of a field jumps: pairs by panels that end there, G over random points."""

    @property
    def kinks(self) -> np.ndarray:
        """Where each field's activation, its slope or its curvature jumps, (n, count)."""
        each = [nearest_breaks(self.student)] * self.K + [nearest_breaks(self.teacher)] * self.M
        count = max(map(len, each))
        return np.array([kinks + (FAR,) * (count - len(kinks)) for kinks in each])

    def _average(self, rows: int, first: Functions, second: Functions, C: Covariance, mean: Means) -> Array:
        return _Pairs(self, C, mean, rows).average(first, second)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self.teacher.trainable:
            return super().slopes(C, mean)
        # a teacher that jumps: E[g'_i g'_a] = E[g'_i g_a y] / across, with y the second normal
        K, pairs = self.K, _Pairs(self, C, mean, self.K)
        average = pairs.average(self._slopes, (self.student.slope, lambda x: self.teacher(x) * pairs.y[:, K:]))
        return jnp.where(np.arange(K + self.M) < K, average, safe_ratio(average, pairs.across))

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self.student.smooth:
            return super().curvatures(C, mean)
        pairs = _Pairs(self, C, mean, self.K)
        moment = pairs.average((lambda x: pairs.z * self.student.slope(x), self.teacher), self._activations)
        return safe_ratio(moment - pairs.along * self.slopes(C, mean), pairs.s)

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        if np.all(np.abs(self.kinks) >= NEAR):
            return super().slopes_squared_error(C, mean, w)
        K, fields = self.K, self.sample(C, _known(mean, C), 4 * self.rule.points)
        error = self.student(fields[:, :K]) @ w[:K] + self.teacher(fields[:, K:]) @ w[K:]
        delta = error[:, None] * self.student.slope(fields[:, :K])
        return delta.T @ delta / fields.shape[0]

    def random_points(self, flow: bool) -> int:
        """The smallest number of random points behind an average; 0: there are none. flow: G is not needed."""
        found = [] if flow or np.all(np.abs(self.kinks) >= NEAR) else [4 * self.rule.points]
        if self.kinks.shape[1] > MANY:
            n = self.K + self.M
            found += [pair_points(self.rule, self.K, n), pair_points(self.rule, n, n)]
        return min(found, default=0)

    def sample(self, C: Array, mean: Array, points: int) -> Array:
        """A fixed set of points with the law of all fields, (points, n)."""
        M = self.M
        L = factor(jnp.roll(jnp.roll(C, M, 0), M, 1))  # teachers first: their block never degenerates
        # another number of points has other points, so that a finer rule knows nothing of the errors of this one
        return mean + sobol(points, self.K + M, seed=points, sets=1) @ jnp.roll(L, -M, 0).T


def pair_points(rule: Quadrature, rows: int, n: int) -> int:
    """Random points for all pairs of fields, where there are too many kinks for panels."""
    return max(2**12, min(4 * rule.points, 4 * ROOM // (rows * n)))


class _Pairs:
    """A rule for every pair (i, a) of a student field (or any, with `rows` = n) and a field, where functions break.

    first: values of field i, (rows, 1 or n, z). second: values of field a given it, (rows, n, z, y).
    """

    def __init__(self, averages: BrokenAverages, C: Covariance, mean: Means, rows: int):
        self.K, kinks, nodes = averages.K, averages.kinks, averages.rule.nodes
        mean = _known(mean, C)
        variance = jnp.diagonal(C)
        self.s = safe_sqrt(variance)[:rows, None]
        self.along = safe_ratio(C[:rows], self.s)
        rest = variance - self.along**2
        self.across = safe_sqrt(jnp.where(rest > LOST * variance, rest, 0.0))
        if kinks.shape[1] > MANY:
            self._sample(averages, C, mean)
            return
        own = safe_ratio(kinks[:rows] - mean[:rows, None], self.s)[:, None]
        # given field i the kink of field a is smooth over a width that shrinks as the two become alike
        met, width = (safe_ratio(x, self.along[..., None]) for x in (kinks - mean[:, None], 6 * self.across[..., None]))
        ends = jnp.concatenate([jnp.broadcast_to(own, met.shape), met - width, met + width], axis=-1)
        self.z, self.weights = panels(ends, nodes // 2)
        at = (mean[:, None] + self.along[..., None] * self.z)[..., None]
        self.y, self.inner = panels(safe_ratio(kinks[:, None] - at, self.across[..., None, None]), nodes // 2)
        self.first = mean[:rows, None, None] + self.s[..., None] * self.z
        self.second = at + self.across[..., None, None] * self.y

    def _sample(self, averages: BrokenAverages, C: Array, mean: Array) -> None:
        """One set of points for all pairs: the cost of panels grows with the square of the number of kinks."""
        rows, n = self.along.shape
        points = pair_points(averages.rule, rows, n)
        fields = averages.sample(C, mean, points).T - mean[:, None]  # (n, points)
        self.z = safe_ratio(fields[:rows], self.s)[:, None]
        rest = safe_ratio(fields - self.along[..., None] * self.z, self.across[..., None])
        self.y, self.weights, self.inner = rest[..., None], np.full(rest.shape[-1], 1 / rest.shape[-1]), np.ones(1)
        self.first = (fields[:rows] + mean[:rows, None])[:, None]
        self.second = jnp.broadcast_to((fields + mean[:, None])[..., None], self.y.shape)

    def average(self, first: Functions, second: Functions) -> Float[Array, "rows n"]:
        """E[f_i h_a] over both normals."""
        f, h = apply(first, self.first, self.K, axis=0), apply(second, self.second, self.K, axis=1)
        given = h @ self.inner if np.ndim(self.inner) == 1 else jnp.sum(h * self.inner, axis=-1)
        return jnp.sum(f * self.weights * given, axis=-1)


@lru_cache(maxsize=256)
def chosen_rule(student: Activation, teacher: Activation) -> Quadrature:
    """The usual rule, made finer where it does not resolve the functions and a finer one does better."""
    usual = Quadrature()

    def first_enough(index: int, rules: list[Quadrature]) -> Quadrature:
        errors = []
        for rule in rules:
            errors.append(shortfall(student, teacher, rule, WIDTH, WIDTH)[index])
            if errors[-1] <= ENOUGH[index]:
                return rule
        best = int(np.argmin(errors))
        return rules[best] if errors[best] < 0.1 * errors[0] else rules[0]

    nodes = first_enough(0, [Quadrature(nodes=n) for n in (usual.nodes, 96, 144, 216, 324)]).nodes
    most = 1 if any(_sampled(student, teacher)) else 3  # random points gain too little from more of them
    return first_enough(1, [Quadrature(nodes, points) for points in (usual.points, 2**17, 2**19)[:most]])


def shortfall(
    student: Activation, teacher: Activation, rule: Quadrature, s_student: float, s_teacher: float
) -> tuple[float, float]:
    """Relative errors of a rule for (pairs, G) in one dimension, where the truth costs nothing, at these deviations.

    A pair of fields that coincide, and four of them, are averages over one normal:
        pairs  E[g^2], E[g'^2], E[g'' g];    G  E[g'^2], E[(g' g)^2] on a held axis, E[g^2] = sum_k f_k^2 on the other.
    Fast functions (sin 5x) and those that grow fast fail here as they fail there.
    """
    pairs_sampled, spread_sampled = _sampled(student, teacher)
    own, other = _errors(student, rule, s_student), _errors(teacher, rule, s_teacher)
    of_student, of_teacher = ("sampled outputs",) * 2 if pairs_sampled else ("pairs", "outputs")
    spread = own["sampled spread"] if spread_sampled else max(own["held"], own["hermite"], other["hermite"])
    return max(own[of_student], other[of_teacher]), spread


def _sampled(student: Activation, teacher: Activation) -> tuple[bool, bool]:
    """Are (pairs, G) averaged over random points?"""
    places = [nearest_breaks(student), nearest_breaks(teacher)]
    return max(map(len, places)) > MANY, any(abs(x) < NEAR for each in places for x in each)


@lru_cache(maxsize=512)
def _errors(activation: Activation, rule: Quadrature, s: float) -> dict[str, float]:
    """Relative errors of a rule for averages of one function on one normal, at standard deviation s of the field."""
    kinks = np.array(nearest_breaks(activation)[:MANY]) / max(s, 1e-300)
    z, weights = panels(kinks, TRUTH // (kinks.size + 2), (-EDGE, 0.0, EDGE))
    plain, plain_weights = panels(kinks, rule.nodes // 2) if kinks.size else hermite_transform(rule.nodes)
    held, held_weights = disc(rule.held, rule.reach, 1)
    given, inner = hermite_rule(rule.given)
    grids = [z, plain, held[:, 0], given]
    x = s * np.concatenate(grids)
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):  # padded: compiled for few shapes
        values = np.asarray(_values(activation, np.pad(x, (0, -x.size % 2**13))))[:, : x.size]
    true, by_rule, on_held, on_given = np.split(values, np.cumsum([grid.size for grid in grids])[:-1], axis=1)

    def found(f: np.ndarray, h: np.ndarray) -> np.ndarray:
        """E[f h] of a field paired with itself: by panels, or the sum of products of Hermite coefficients."""
        return plain_weights @ (f * h) if kinks.size else (f @ plain_weights) @ (h @ plain_weights)

    g, slope, _ = true
    products = [(0, 0), (1, 1), (2, 0)][: 3 if activation.smooth else 2]  # E[g^2], E[g'^2], E[g'' g]
    means = [weights @ (true[i] * true[j]) for i, j in products]
    gaps = [found(by_rule[i], by_rule[j]) - mean for (i, j), mean in zip(products, means, strict=True)]
    size = 1e-3 * np.max(np.abs(means))
    squares = [weights @ slope**2, weights @ (slope * g) ** 2]
    held_squares = [held_weights @ on_held[1] ** 2, held_weights @ (on_held[1] * on_held[0]) ** 2]
    coefficients = (weights * g) @ hermites(z, rule.given)
    wrong = np.sum(np.abs((on_given[0] @ inner) ** 2 - coefficients**2)) + means[0] - coefficients @ coefficients

    def of_sampling(f: np.ndarray) -> float:
        mean = weights @ f
        return _share(np.sqrt(max(weights @ f**2 - mean**2, 0.0) / (4 * rule.points)), mean)

    return {
        "outputs": _share(gaps[0], means[0]),
        "pairs": max(_share(gap, max(abs(mean), size)) for gap, mean in zip(gaps, means, strict=True)),
        "held": max(_share(a - b, b) for a, b in zip(held_squares, squares, strict=True)),  # E[g'^2], E[(g' g)^2]
        "hermite": _share(wrong, means[0]),  # what is wrong with, and missing from, sum_k f_k^2 = E[g^2]
        "sampled outputs": of_sampling(g**2),  # standard errors over random points
        "sampled spread": of_sampling((g * slope) ** 2),
    }


def _share(part: ArrayLike, whole: ArrayLike) -> float:
    share = np.abs(part) / np.maximum(np.abs(whole), 1e-300)
    return float(share) if np.isfinite(share) else np.inf


@partial(jax.jit, static_argnums=0)
def _values(activation: Activation, x: Any) -> Array:
    return jnp.stack([activation(x), activation.slope(x), activation.curvature(x)])
