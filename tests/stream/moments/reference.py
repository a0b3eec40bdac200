"""Gaussian averages by brute force: slow, plain, and nothing in common with the library but the definition.

`grid` is a tensor rule on the joint law of a few fields: trapezoid along smooth directions, Gauss-Legendre panels that end
at the kinks where there are any. `positive` integrates over positive orthants, two fields in polar coordinates and the rest
in closed form (Owen's T), which stays accurate when fields almost coincide.
"""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from scipy.special import erf, expit, ndtr, owens_t

ROOT = np.sqrt(2 * np.pi)


@dataclass(frozen=True)
class Unit:
    """An activation written by hand:

    value, first and second derivative (None where it is not a function), kinks.
    """

    value: object
    slope: object = None
    curvature: object = None
    kinks: tuple = ()

    def order(self, n):
        return (self.value, self.slope, self.curvature)[n]


def _phi(x):
    return np.exp(-(x**2) / 2) / ROOT


def _sech2(x):
    return 1 / np.cosh(x) ** 2


UNITS = {
    "erf": Unit(
        lambda x: erf(x / np.sqrt(2)), lambda x: 2 * _phi(x), lambda x: -2 * x * _phi(x)
    ),
    "linear": Unit(lambda x: x, np.ones_like, np.zeros_like),
    "quadratic": Unit(lambda x: x**2, lambda x: 2 * x, lambda x: 2 * np.ones_like(x)),
    "he2": Unit(lambda x: x**2 - 1, lambda x: 2 * x, lambda x: 2 * np.ones_like(x)),
    "he3": Unit(lambda x: x**3 - 3 * x, lambda x: 3 * x**2 - 3, lambda x: 6 * x),
    "he4": Unit(
        lambda x: x**4 - 6 * x**2 + 3,
        lambda x: 4 * x**3 - 12 * x,
        lambda x: 12 * x**2 - 12,
    ),
    "tanh": Unit(np.tanh, _sech2, lambda x: -2 * np.tanh(x) * _sech2(x)),
    "gelu": Unit(
        lambda x: x * ndtr(x),
        lambda x: ndtr(x) + x * _phi(x),
        lambda x: (2 - x**2) * _phi(x),
    ),
    "sigmoid": Unit(
        expit,
        lambda x: expit(x) * expit(-x),
        lambda x: expit(x) * expit(-x) * (1 - 2 * expit(x)),
    ),
    "softplus": Unit(
        lambda x: np.logaddexp(0, x), expit, lambda x: expit(x) * expit(-x)
    ),
    "swish": Unit(
        lambda x: x * expit(x),
        lambda x: expit(x) * (1 + x * expit(-x)),
        lambda x: expit(x) * expit(-x) * (2 + x * (1 - 2 * expit(x))),
    ),
    "relu": Unit(lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0, None, (0.0,)),
    "leaky": Unit(
        lambda x: np.where(x > 0, x, 0.1 * x),
        lambda x: np.where(x > 0, 1.0, 0.1),
        None,
        (0.0,),
    ),
    "clipped": Unit(
        lambda x: np.clip(x, -1, 1), lambda x: (np.abs(x) < 1) * 1.0, None, (-1.0, 1.0)
    ),
    "sign": Unit(np.sign, None, None, (0.0,)),
}


def cholesky(C):
    """Lower factor of a covariance that may be singular."""
    n = len(C)
    F = np.zeros((n, n))
    for a in range(n):
        rest = C[a, a] - F[a] @ F[a]
        F[a, a] = np.sqrt(rest) if rest > 1e-15 * max(C[a, a], 1e-300) else 0.0
        if F[a, a] > 0:
            F[a + 1 :, a] = (C[a + 1 :, a] - F[a + 1 :] @ F[a]) / F[a, a]
    return F


def grid(C, mean=None, kinks=None, nodes=33, panel=40, reach=7.5):
    """Fields (n, points) and weights (points,) of a rule for N(mean, C); kinks[a] lists where field a has one."""
    C = np.asarray(C, float)
    n = len(C)
    mean = np.zeros(n) if mean is None else np.asarray(mean, float)
    F = cholesky(C)
    y = np.zeros((0, 1))
    weights = np.ones(1)
    for a in range(n):
        at = () if kinks is None else kinks[a]
        if F[a, a] == 0:
            y = np.concatenate([y, np.zeros((1, y.shape[1]))])
            continue
        center = mean[a] + F[a, :a] @ y
        x, w = (
            _trapezoid(nodes, reach, center)
            if not at
            else _panels((np.array(at)[:, None] - center) / F[a, a], panel, reach)
        )
        weights = (weights[:, None] * w).ravel()
        y = np.concatenate([np.repeat(y, x.shape[1], axis=1), x.reshape(1, -1)])
        keep = weights > 1e-17
        y = y[:, keep]
        weights = weights[keep]
    return mean[:, None] + F @ y, weights


def _trapezoid(nodes, reach, center):
    x = np.linspace(-reach, reach, nodes)
    w = _phi(x) * (x[1] - x[0])
    shape = (center.size, nodes)
    return np.broadcast_to(x, shape), np.broadcast_to(w, shape)


def _panels(breaks, panel, reach):
    """Gauss-Legendre between the breaks (kinks, points), each half-line cut once more so that no panel is too long."""
    ends = np.clip(np.sort(breaks, axis=0), -reach, reach)
    low = np.full_like(ends[:1], -reach)
    high = np.full_like(ends[:1], reach)
    ends = np.concatenate(
        [low, (low + ends[:1]) / 2, ends, (high + ends[-1:]) / 2, high]
    )
    node, weight = np.polynomial.legendre.leggauss(panel)
    left = ends[:-1].T[..., None]
    length = np.diff(ends, axis=0).T[..., None]
    x = left + length * (node + 1) / 2
    w = length * weight / 2 * _phi(x)
    return x.reshape(x.shape[0], -1), w.reshape(w.shape[0], -1)


def hermite_grid(C, mean=None, nodes=9):
    """A product Gauss-Hermite rule on all fields at once:

    exact for polynomials of degree below 2 nodes.
    """
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    n = len(C)
    points = np.array(list(product(z, repeat=n))).T
    weight = np.array(list(product(weights / ROOT, repeat=n))).prod(axis=1)
    return (np.zeros(n) if mean is None else np.asarray(mean))[:, None] + cholesky(
        C
    ) @ points, weight


def average(factors, C, mean=None, moment=None, **options):
    """E[prod of f_a(z_a)] over factors [(field, Unit, derivative order), ...], times field `moment` if given.

    Only the fields that occur are integrated over, each once.
    """
    used = sorted({a for a, _, _ in factors} | (set() if moment is None else {moment}))
    kinks = [
        tuple({k for b, unit, _ in factors if b == a for k in unit.kinks}) for a in used
    ]
    # kinked fields first: the smooth ones then see nothing of the panels
    order = sorted(range(len(used)), key=lambda p: not kinks[p])
    used = [used[p] for p in order]
    kinks = [kinks[p] for p in order]
    means = None if mean is None else np.asarray(mean)[used]
    fields, weights = grid(np.asarray(C)[np.ix_(used, used)], means, kinks, **options)
    value = weights
    for a, unit, derivative in factors:
        value = value * unit.order(derivative)(fields[used.index(a)])
    if moment is not None:
        value = value * (
            fields[used.index(moment)] - (0.0 if mean is None else mean[moment])
        )
    return value.sum()


def units(student, teacher, K, M):
    return [UNITS[student]] * K + [UNITS[teacher]] * M


def outputs(g, C, mean=None, **options):
    n = len(C)
    return np.array(
        [
            [
                average([(a, g[a], 0), (b, g[b], 0)], C, mean, **options)
                for b in range(n)
            ]
            for a in range(n)
        ]
    )


def rows(g, K, C, mean=None, orders=(1, 1), moment=None, **options):
    """E[g_i^(p) g_a^(q)] for students i and all fields a, times (z_j - its mean) where a moment j is given."""
    p, q = orders
    return np.array(
        [
            [
                average([(i, g[i], p), (a, g[a], q)], C, mean, moment, **options)
                for a in range(len(C))
            ]
            for i in range(K)
        ]
    )


def contrast(g, K, C, w, mean=None, **options):
    """E[g'_i g'_j (sum_a w_a g_a)^2], one term at a time; each average over the distinct fields it contains."""
    n = len(C)
    out = np.zeros((K, K))
    for i, j in product(range(K), repeat=2):
        if j < i:
            out[i, j] = out[j, i]
            continue
        for a in range(n):
            for b in range(a, n):
                factors = [(i, g[i], 1), (j, g[j], 1), (a, g[a], 0), (b, g[b], 0)]
                out[i, j] += (
                    (1 if a == b else 2)
                    * w[a]
                    * w[b]
                    * average(factors, C, mean, **options)
                )
    return out


def positive(powers, C, nodes=72, reach=9.0):
    """E[prod_a z_a^powers_a; all z_a > 0] for one to four fields; the third and fourth, if both there, have power one.

    The first two fields in polar coordinates, whatever remains in closed form given them. Kinks and thin layers lie on
    rays through the origin, so panels end on those rays and tanh-sinh nodes crowd towards them.
    """
    C = np.asarray(C, float)
    F = cholesky(C)
    if len(C) == 1:
        return float((0.5, np.sqrt(C[0, 0]) / ROOT, C[0, 0] / 2)[powers[0]])
    rays = [np.pi / 2, -np.arctan2(F[1, 0], F[1, 1])]
    low = rays[1]
    high = rays[0]
    for f in F[2:]:
        ray = -np.arctan2(f[0], f[1])
        rays += [ray + turn for turn in (-np.pi, 0.0, np.pi) if low < ray + turn < high]
    rays = np.sort(rays)
    share, slope = _tanh_sinh(nodes)
    radius = reach * share
    along = (
        reach
        * slope
        * reach
        * share
        * np.exp(-((reach * share) ** 2) / 2)
        / (2 * np.pi)
    )
    total = 0.0
    for start, end in pairwise(rays):
        angle = start + (end - start) * share
        across = (end - start) * slope
        first = np.sin(
            (high - end) + (end - start) * share[::-1]
        )  # cos(angle), exact near its zero
        second = np.hypot(F[1, 0], F[1, 1]) * np.sin(
            (start - low) + (end - start) * share
        )
        rest = _given(
            [f[0] * np.cos(angle) + f[1] * np.sin(angle) for f in F[2:]],
            radius,
            powers[2:],
            F[2:, 2:],
        )
        z = (F[0, 0] * first[:, None] * radius) ** powers[0] * (
            second[:, None] * radius
        ) ** powers[1]
        total += np.einsum("i,j,ij->", across, along, z * rest)
    return float(total)


def _tanh_sinh(nodes):
    """Points in (0, 1) that crowd doubly exponentially at both ends, and their weights."""
    t = np.linspace(-3.1, 3.1, nodes)
    share = expit(np.pi * np.sinh(t))
    return share, share * share[::-1] * np.pi * np.cosh(t) * (t[1] - t[0])


def _given(slopes, radius, powers, F):
    """E of the remaining positive parts, whose means are slope * radius and whose factor is F."""
    means = [m[:, None] * radius for m in slopes]
    if not means:
        return 1.0
    if len(means) == 1:
        m = means[0]
        s = F[0, 0]
        if s == 0:
            return np.where(m > 0, np.maximum(m, 0) ** powers[0], 0.0)
        Phi = ndtr(m / s)
        phi = _phi(m / s)
        return (Phi, m * Phi + s * phi, (m**2 + s**2) * Phi + m * s * phi)[powers[0]]
    assert tuple(powers) == (1, 1)
    s = F[0, 0]
    t = np.hypot(F[1, 0], F[1, 1])
    c = F[1, 0] / t
    q = F[1, 1] / t
    x = means[0] / s
    y = means[1] / t
    mixed = y * _phi(x) * ndtr((y - c * x) / q) + x * _phi(y) * ndtr((x - c * y) / q)
    return (
        s
        * t
        * (
            (x * y + c) * _quadrant(x, y, c, q)
            + mixed
            + q / ROOT * _phi(np.sqrt(x**2 - 2 * c * x * y + y**2) / q)
        )
    )


def _quadrant(x, y, c, q):
    """P(u < x, v < y) for standard normals of correlation c, by Owen's T function (q = sqrt(1 - c^2))."""
    x, y = (np.where(z == 0, 1e-300, z) for z in (x, y))
    value = (
        (ndtr(x) + ndtr(y)) / 2
        - owens_t(x, (y / x - c) / q)
        - owens_t(y, (x / y - c) / q)
    )
    return value - np.where(x * y < 0, 0.5, 0.0)


def relu_four(C, i, j, a, b):
    """E[th_i th_j z_a+ z_b+]:

    equal indices, and distinct fields with the same values, are merged first.
    """
    powers = {}
    for field, power in ((i, 0), (j, 0), (a, 1), (b, 1)):
        twin = next(
            (
                f
                for f in powers
                if np.array_equal(C[f], C[field]) and C[f, f] == C[f, field]
            ),
            field,
        )
        powers[twin] = powers.get(twin, 0) + power
    fields = list(powers)
    return positive([powers[f] for f in fields], np.asarray(C)[np.ix_(fields, fields)])


def relu_contrast(C, K, w):
    n = len(C)
    out = np.zeros((K, K))
    for i, j in product(range(K), repeat=2):
        out[i, j] = (
            sum(
                w[a] * w[b] * relu_four(C, i, j, a, b)
                for a in range(n)
                for b in range(n)
            )
            if i <= j
            else out[j, i]
        )
    return out


def random_covariance(n, seed, scale=1.0, rank=None):
    """A covariance with variances around `scale`."""
    X = np.random.default_rng(seed).normal(size=(n, rank or n + 2))
    return scale * X @ X.T / X.shape[1]


def near_teacher(K, M, seed, distance, T=None):
    """C of students that sit at `distance` from teachers 0..K-1 (in turn)."""
    rng = np.random.default_rng(seed)
    teachers = np.linalg.cholesky(np.eye(M) if T is None else T)
    teachers = np.concatenate([teachers, np.zeros((M, K))], axis=1)
    students = teachers[np.arange(K) % M] + distance * rng.normal(
        size=(K, M + K)
    ) / np.sqrt(M + K)
    rows_ = np.concatenate([students, teachers])
    return rows_ @ rows_.T
