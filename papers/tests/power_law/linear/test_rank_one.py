"""diag(d) - a a^T against 50-digit arithmetic and a dense solver."""

import mpmath
import numpy as np
import pytest

from tutelage_papers.power_law.linear import rank_one
from tutelage_papers.power_law.linear.rank_one import rank_one_shift


def reference(d, a, digits=50):
    """Eigenvalues in long arithmetic, ascending."""
    with mpmath.workdps(digits):
        matrix = mpmath.matrix([[-mpmath.mpf(x) * mpmath.mpf(y) for y in a] for x in a])
        for i, x in enumerate(d):
            matrix[i, i] += mpmath.mpf(x)
        return np.array([float(s) for s in mpmath.eigsy(matrix, eigvals_only=True)])


def spread(rng, size):
    return np.exp(rng.choice([0.1, 3.0, 8.0]) * rng.standard_normal(size))


@pytest.mark.parametrize("seed", range(12))
def test_every_eigenvalue_has_all_its_digits(seed):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 8)
    d, a = spread(rng, size), spread(rng, size)
    found = rank_one_shift(d, a)
    exact = reference(d, a)
    lowest = np.abs(
        d.min() - exact[0]
    )  # the lowest may cancel against d: then it is absolute in d and a^2
    assert np.abs(found.values[0] - exact[0]) <= 1e-15 * max(
        np.abs(exact[0]), d.min(), lowest
    )
    np.testing.assert_allclose(found.values[1:], exact[1:], rtol=1e-15)


def test_vectors_are_orthonormal_and_rebuild_the_matrix():
    lam = np.arange(1, 301.0) ** -2
    d, a = 2 * lam, np.sqrt(1 / 300) * lam
    found = rank_one_shift(d, a)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(300), atol=1e-13)
    np.testing.assert_allclose(
        (found.vectors.T * found.values) @ found.vectors,
        np.diag(d) - np.outer(a, a),
        atol=1e-15,
    )
    np.testing.assert_allclose(found.vectors @ a, found.along, atol=1e-15)


def test_a_dense_solver_loses_what_this_keeps():
    """The smallest eigenvalue of a steep power law, in ascending order: 1e-16 of the largest."""
    lam = np.arange(40.0, 0.0, -1) ** -10.0
    a = 0.3 * lam
    exact = reference(2 * lam, a, 80)
    np.testing.assert_allclose(rank_one_shift(2 * lam, a).values, exact, rtol=1e-15)
    dense = np.linalg.eigvalsh(np.diag(2 * lam) - np.outer(a, a))
    assert np.max(np.abs(dense / exact - 1)) > 1e-3


@pytest.mark.parametrize(
    "d",
    [
        [1.0, 1.0, 1.0, 2.0],
        [1.0, np.nextafter(1.0, 2.0), 1.0],
        [-1.0, -1.0, 0.0],
        [0.0, 0.0],
    ],
)
def test_equal_entries(d):
    d, a = np.array(d), 0.5 + 0.1 * np.arange(len(d))
    found = rank_one_shift(d, a)
    np.testing.assert_allclose(
        found.values, np.linalg.eigvalsh(np.diag(d) - np.outer(a, a)), atol=1e-14
    )
    np.testing.assert_allclose(
        found.vectors @ found.vectors.T, np.eye(len(d)), atol=1e-14
    )


def test_few_passes_are_enough(monkeypatch):
    monkeypatch.setattr(rank_one, "MAX_PASSES", 25)
    lam = np.arange(1, 129.0) ** -1.5
    for size in (1e-6, 0.1, 1.0, 10.0):
        a = size * lam
        np.testing.assert_allclose(
            rank_one_shift(lam, a).values,
            np.linalg.eigvalsh(np.diag(lam) - np.outer(a, a)),
            atol=1e-13 * max(1, size**2),
        )
