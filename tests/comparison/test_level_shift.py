"""Shares n_l / N of the runs: the gap that they cause is known exactly."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import TIMES, compared

THIRDS = tu.Problem(
    tu.Network(2, "erf"),
    tu.Network(2, "erf"),
    inputs=tu.PowerLaw(1.0, levels=3),
    optimizer=tu.SGD(lr=0.5),
    noise=0.1,
)


@pytest.mark.parametrize("random", [True, pytest.param(False, marks=pytest.mark.full)])
def test_fractions_that_are_not_whole_at_this_N_are_no_disagreement(random):
    start = tu.asymmetric_start(THIRDS, dim=100)
    if random:
        start = tu.random_start(THIRDS, dim=100, scale=0.5, seed=1)
    theory = tu.solve(THIRDS, start, TIMES)
    result = compared(theory, THIRDS, start, TIMES, runs=40, seed=1)
    assert result.agrees
    assert result.verdict.within_bias == 1.0
    assert any(
        "level 1: 0.34 of them instead of 0.33333" in note for note in result.notes
    )
    # the shift is known exactly at time zero: sum_l (n_l/N) lam_l r_l, in plain NumPy
    lam = THIRDS.inputs.eigenvalues
    r = start.blocks(THIRDS)[0]
    first = np.einsum("l,lkm->km", np.array([34, 33, 33]) / 100 * lam, r)
    np.testing.assert_allclose(result["R"].expected[0], first - theory.R[0], atol=1e-12)
    np.testing.assert_allclose(result["R"].gap[0], first - theory.R[0], atol=1e-12)
    wrong = compared(theory, THIRDS.replace(lr=0.8), start, TIMES, runs=40, seed=1)
    assert not wrong.agrees  # a negative control


def test_a_given_gram_of_the_teacher_keeps_its_levels():
    problem = THIRDS.replace(**{"teacher.gram": [[1.0, 0.3], [0.3, 1.2]]})
    start = tu.random_start(problem, dim=100, scale=0.5, seed=2)
    result = compared(
        tu.solve(problem, start, TIMES), problem, start, TIMES, runs=20, seed=1
    )
    assert result.agrees


def test_where_p_N_is_whole_nothing_is_added():
    start = tu.asymmetric_start(THIRDS, dim=999)
    result = compared(
        tu.solve(THIRDS, start, TIMES), THIRDS, start, TIMES, runs=10, seed=1
    )
    assert result.notes == ()
    assert np.all(result["R"].expected[0] == 0)
