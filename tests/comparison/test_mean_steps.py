"""The mean of one step beyond the limit: machine code against JAX, and by hand."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import linear_problem
from tests.stream.test_committee import PROBLEMS, both
from tutelage.comparison.mean_steps import mean_steps
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics
from tutelage.stream.order_parameters import flatten, unflatten

TIMES = np.zeros(3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_machine_code_and_jax_give_the_same(name):
    problem = PROBLEMS[name].replace(momentum=0.0)
    committee, by_jax, vectors = both(problem)
    states = unflatten(vectors, by_jax.like)
    exact = mean_steps(by_jax, TIMES, states).beyond
    found = mean_steps(committee, TIMES, states).beyond
    scale = np.max(np.abs(exact))
    # dG by differences is good to eleven digits
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-10 * scale)
    other_batch = problem.replace(batch=int(problem.optimizer.batch) + 1)
    wrong = mean_steps(both(other_batch)[0], TIMES, states).beyond
    assert np.max(np.abs(wrong - exact)) > 1e-3 * scale  # a negative control


@pytest.mark.parametrize(("batch", "decay"), [(1, 0.0), (3, 0.4)])
def test_one_linear_unit_by_hand(batch, decay):
    """Of one linear unit, N^2 times the squared step is known at any N.

    With x.x of mean N and variance 2 N it is eta^2 ((N + 2) E + N noise) / batch + eta^2
    E (1 - 1/batch) + eta^2 (kappa^2 Q - 2 kappa (R - Q)), E = 1 - 2 R + Q: the limit
    keeps the terms of order N, c the rest.
    """
    eta = 0.8
    optimizer = tu.SGD(eta, batch=batch, weight_decay=decay)
    problem = linear_problem().replace(optimizer=optimizer)
    R = 0.3
    Q = 0.4
    like, t = initial_overlaps(problem, tu.Start(R=[[R]], Q=[[Q]]))
    local = LocalDynamics(OrderParameters(problem, t, False, True), like)
    states = unflatten(np.asarray(flatten(like))[None], local.like)
    steps = mean_steps(local, np.zeros(1), states)
    E = 1 - 2 * R + Q
    squared = 2 * E / batch + E * (1 - 1 / batch)
    decayed = decay**2 * Q - 2 * decay * (R - Q)
    expected = eta**2 * (squared + decayed)
    np.testing.assert_allclose(steps.beyond[0, 0, 0, 0], expected, rtol=1e-9)
