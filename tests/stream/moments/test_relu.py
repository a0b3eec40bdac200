"""ReLU, and above all its four-field average, against orthant integrals in polar coordinates."""

from itertools import combinations

import equinox as eqx
import numpy as np
import pytest

from tests.stream.moments import reference as ref
from tutelage.problem.activation import as_activation
from tutelage.stream.moments.averages import ReluAverages
from tutelage.stream.moments.matrices import averages_for

RELU = as_activation("relu")


def family(K, M):
    averages = averages_for(RELU, RELU, K, M)
    assert isinstance(averages, ReluAverages)
    return averages


PAIRS = ("outputs", "slopes", "slopes_outputs", "curvatures")


@eqx.filter_jit
def pair_averages(averages, C):
    return [getattr(averages, name)(C, None) for name in PAIRS]


@eqx.filter_jit
def contrast(averages, C, w):
    return averages.slopes_squared_error(C, None, w)


def four(C, i, j, a, b):
    """E[th_i th_j z_a+ z_b+] out of the quadratic form, with the first three fields as students."""
    e = np.eye(4)
    plus, minus = (
        contrast(family(3, 1), C, w)[i, j] for w in (e[a] + e[b], e[a] - e[b])
    )
    return float(plus - minus) / 4


def pair_matrix(powers, C, rows):
    """E[z_i^p z_a^q; both positive]; the diagonal merges the powers."""
    p, q = powers
    pair = lambda i, a: C[np.ix_([i, a], [i, a])]  # noqa: E731
    merged = lambda i: ref.positive([p + q], C[i : i + 1, i : i + 1])  # noqa: E731
    return np.array(
        [
            [
                merged(i) if i == a else ref.positive([p, q], pair(i, a))
                for a in range(len(C))
            ]
            for i in range(rows)
        ]
    )


def correlated(first, second, r, seed):
    """Unit vectors of four fields of which two have correlation r; their Gram matrix, with variances that differ."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, 6))
    X /= np.linalg.norm(X, axis=1)[:, None]
    u = rng.normal(size=6)
    u -= (u @ X[first]) * X[first]
    u /= np.linalg.norm(u)
    X[second] = r * X[first] + np.sqrt(1 - r**2) * u
    s = np.array([1.3, 0.7, 1.1, 0.9])
    return s[:, None] * (X @ X.T) * s


def test_pair_averages():
    C = ref.random_covariance(5, 1)
    K = 3
    outputs, ours, slopes_outputs, curvatures = pair_averages(family(K, 2), C)
    slopes = pair_matrix((0, 0), C, K)
    np.testing.assert_allclose(outputs, pair_matrix((1, 1), C, 5), atol=1e-13)
    np.testing.assert_allclose(ours, slopes, atol=1e-13)
    np.testing.assert_allclose(slopes_outputs, pair_matrix((0, 1), C, K), atol=1e-13)
    # E[delta(z_i) z_a+] from Stein's lemma: E[z_i th_i z_a+] = C_ii E[delta_i z_a+] +
    # C_ia E[th_i th_a]
    by_stein = (pair_matrix((1, 1), C, K) - C[:K] * slopes) / np.diag(C)[:K, None]
    np.testing.assert_allclose(curvatures, by_stein, atol=1e-13)


@pytest.mark.parametrize(("K", "M", "scale"), [(2, 3, 1.0), (3, 2, 0.01), (1, 2, 4.0)])
def test_four_field_average(K, M, scale):
    C = ref.random_covariance(K + M, 2, scale)
    w = np.array([-0.8, 1.3, 0.4, -1.1, 0.7])[: K + M]
    np.testing.assert_allclose(
        contrast(family(K, M), C, w), ref.relu_contrast(C, K, w), atol=1e-11 * scale
    )


COINCIDENCES = {
    "none": (0, 1, 2, 3),
    "1=2": (0, 0, 1, 3),
    "3=4": (0, 1, 3, 3),
    "1=3": (0, 1, 0, 3),
    "2=4": (0, 1, 3, 1),
    "1=2, 3=4": (0, 0, 3, 3),
    "1=3=4": (0, 1, 0, 0),
    "2=3=4": (0, 1, 1, 1),
    "{1,2}={3,4}": (0, 1, 0, 1),
    "1=2=3": (0, 0, 0, 3),
    "all": (2, 2, 2, 2),
}


@pytest.mark.parametrize("indices", COINCIDENCES.values(), ids=COINCIDENCES)
def test_equal_indices(indices):
    C = ref.random_covariance(4, 3)
    assert four(C, *indices) == pytest.approx(ref.relu_four(C, *indices), abs=1e-12)


@pytest.mark.parametrize("same", list(combinations(range(4), 2)), ids=str)
def test_equal_values_of_different_fields(same):
    """A student that has become a teacher (or another student), with an index of its own."""
    index = np.arange(4)
    index[same[1]] = same[0]
    C = ref.random_covariance(4, 4)[np.ix_(index, index)]
    assert four(C, 0, 1, 2, 3) == pytest.approx(ref.relu_four(C, 0, 1, 2, 3), abs=1e-12)


def test_all_students_are_teachers():
    index = [0, 1, 0, 1]
    C = ref.random_covariance(2, 4)[np.ix_(index, index)]
    w = np.array([-0.8, 1.3, 0.4, -1.1])
    np.testing.assert_allclose(
        contrast(family(2, 2), C, w), ref.relu_contrast(C, 2, w), atol=1e-12
    )


@pytest.mark.parametrize(
    "r", [0.999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-13, 1 - 3e-15, -0.99, -1 + 1e-6, -1 + 1e-9]
)
def test_nearly_equal_and_nearly_opposite(r):
    for seed, (first, second) in enumerate(combinations(range(4), 2)):
        C = correlated(first, second, r, seed)
        expected = ref.positive([0, 0, 1, 1], C, nodes=110)
        assert four(C, 0, 1, 2, 3) == pytest.approx(
            expected, abs=5e-9 if r > 1 - 4e-15 else 1e-11
        ), (first, second)


@pytest.mark.parametrize("opposite", list(combinations(range(4), 2)), ids=str)
def test_opposite_fields_never_fire_together(opposite):
    C = correlated(*opposite, -1.0, 0)
    assert four(C, 0, 1, 2, 3) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("distance", [0.3, 0.1, 1e-2, 1e-3])
def test_spread_stays_accurate_near_the_solution(distance):
    """Delta^2 cancels here; an error of 1e-6 in the four-field average would be a relative error of one."""
    C = ref.near_teacher(2, 2, 0, distance)
    w = np.array([-1.0, -1.0, 1.0, 1.0])
    expected = ref.relu_contrast(C, 2, w)
    assert np.max(np.abs(expected)) < distance**2
    np.testing.assert_allclose(
        contrast(family(2, 2), C, w),
        expected,
        atol=2e-12 + 1e-9 * np.max(np.abs(expected)),
    )


def test_a_student_without_norm():
    C = ref.random_covariance(4, 3)
    C[0] = C[:, 0] = 0.0
    averages = family(2, 2)
    w = np.array([-1.0, -1.0, 1.0, 1.0])
    small = C + 0.0
    small[0, 0] = 1e-30
    for name, values in zip(PAIRS, pair_averages(averages, C), strict=True):
        assert np.all(np.isfinite(values)), name
    np.testing.assert_allclose(
        contrast(averages, C, w), contrast(averages, small, w), atol=1e-12
    )


def test_a_wrong_formula_is_caught():
    """Dropping one square root of the closed form, or one node in six, moves the result far beyond the tolerance."""
    from tutelage.stream.moments.averages import orthant, step_relu_relu

    C = correlated(0, 1, 0.3, 1)
    r = C / np.sqrt(np.outer(np.diag(C), np.diag(C)))
    truth = ref.positive([0, 1, 1], r[:3, :3])
    right = step_relu_relu(r[0, 1], r[0, 2], r[1, 2])
    assert right == pytest.approx(truth, abs=1e-13)
    assert abs(r[1, 2] * orthant(r[0, 1], r[0, 2], r[1, 2]) - truth) > 1e-3
    assert abs(right - 2 * np.sqrt(1 - r[1, 2] ** 2) / (4 * np.pi) - truth) > 1e-3


def test_monte_carlo_agrees():
    C = ref.random_covariance(4, 6)
    z = np.random.default_rng(0).normal(size=(400_000, 4)) @ np.linalg.cholesky(C).T
    on = z > 0
    up = np.maximum(z, 0)
    samples = on[:, 0] * on[:, 1] * up[:, 2] * up[:, 3]
    assert abs(samples.mean() - four(C, 0, 1, 2, 3)) < 5 * samples.std() / np.sqrt(
        len(samples)
    )
