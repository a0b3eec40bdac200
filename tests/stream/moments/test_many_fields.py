"""Each pair once, and in turns:

the same numbers as plain loops, in memory that does not grow as K^2 (K + M)^2.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import naive
from tests.stream.moments import reference as ref
from tutelage.problem.activation import as_activation
from tutelage.stream.moments import Quadrature, averages
from tutelage.stream.moments.matrices import averages_for

RULE = Quadrature(24, 2**9)


def family(name, K, M, rule=RULE):
    return averages_for(as_activation(name), as_activation(name), K, M, quadrature=rule)


def four_fields(name, K, M):
    return jax.jit(lambda C, w: family(name, K, M).slopes_squared_error(C, None, w))


def random_fields(n, seed=0):
    return ref.random_covariance(n, seed, 0.8), np.random.default_rng(seed).normal(
        size=n
    )


def gap_to_loops(K, M):
    C, w = random_fields(K + M, K)
    return np.max(
        np.abs(
            four_fields("erf", K, M)(C, w)
            - naive.spread(naive.Erf, C.tolist(), w, K, 0.0)
        )
    )


@pytest.mark.parametrize(("K", "M"), [(1, 1), (1, 3), (2, 1), (4, 2), (5, 1)])
def test_erf_sums_over_pairs_as_loops_do(K, M):
    assert gap_to_loops(K, M) < 1e-13


def test_a_pair_that_is_mistaken_for_another_is_noticed(monkeypatch):
    right = averages.triangle

    def wrong(K):
        i, j, place = right(K)
        return i, j, np.where(place == 2, 3, place)

    monkeypatch.setattr(averages, "triangle", wrong)
    assert gap_to_loops(5, 2) > 1e-3


def test_derivatives_of_the_loop():
    """Forward and reverse mode, against differences; memory of an earlier turn is not kept (jax.checkpoint)."""
    C, w = random_fields(5, 3)
    total = lambda C: jnp.sum(jnp.sin(four_fields("erf", 3, 2)(C, w)))  # noqa: E731
    direction = ref.random_covariance(5, 9) - 0.5 * np.eye(5)
    along = (total(C + 1e-5 * direction) - total(C - 1e-5 * direction)) / 2e-5
    assert float(jax.jvp(total, (C,), (direction,))[1]) == pytest.approx(
        float(along), rel=1e-8
    )
    assert float(jnp.sum(jax.grad(total)(C) * direction)) == pytest.approx(
        float(along), rel=1e-8
    )


@pytest.mark.full
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_in_turns_as_at_once(name, monkeypatch):
    C, w = random_fields(5, 4)
    C[1] = C[4]  # a student that is a teacher
    C[:, 1] = C[:, 4]
    compute = lambda: (  # noqa: E731
        four_fields(name, 3, 2)(C, w),
        jax.jit(jax.grad(lambda w: jnp.sum(four_fields(name, 3, 2)(C, w))))(w),
        jax.jit(lambda C: family(name, 3, 2).outputs(C, None))(C),
    )
    at_once = compute()
    # two rows of pairs, one pair of students
    monkeypatch.setattr(averages, "ROOM", 2 * 5 * RULE.nodes**2)
    for one, other in zip(compute(), at_once, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["erf", "relu", "tanh", "quadratic"])
def test_hundred_fields_fit(name):
    """K = M = 50:

    at once it would be 200 MB for each array of erf, and 10 GB for each of relu (48
    nodes).
    """
    averages = family(name, 50, 50, Quadrature())
    program = (
        jax.jit(lambda C, w: averages.slopes_squared_error(C, None, w))
        .lower(jnp.eye(100), jnp.ones(100))
        .compile()
    )
    assert program.memory_analysis().temp_size_in_bytes < 2**29
