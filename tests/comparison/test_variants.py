"""The theory of a changed problem is solved as the theory itself was."""

from dataclasses import replace

import numpy as np

import tutelage as tu
from tests.comparison.cases import runs, sampled_theory_and_runs, theory
from tutelage.comparison.pairing import pair
from tutelage.comparison.variants import solve_variant


def test_the_same_problem_has_the_same_sampled_averages():
    sampled, simulated = sampled_theory_and_runs()
    together = pair(sampled, simulated)
    again = solve_variant(together, sampled.problem, sampled.start)
    assert again is not None
    np.testing.assert_array_equal(again["R"], sampled.R)


def test_another_problem_has_another_theory():
    together = pair(theory(), runs())
    faster = theory().problem.replace(lr=1.1)
    changed = solve_variant(together, faster, theory().start)
    assert set(changed) == {"error", "R", "Q"}
    direct = tu.solve(faster, theory().start, together.times)
    np.testing.assert_allclose(changed["Q"], direct.Q, rtol=1e-12)


def test_a_theory_that_solve_did_not_make_has_no_variant():
    together = pair(replace(theory(), settings=()), runs())
    assert solve_variant(together, theory().problem, theory().start) is None
