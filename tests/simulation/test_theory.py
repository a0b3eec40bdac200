"""Runs against theory from a start of order one:

what theory drops is of order 1/N, and nothing else is missing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
from tutelage.stream import OrderParameters, Overlaps
from tutelage.stream.order_parameters import generalization_error

PROBLEM = tu.Problem(tu.Network(1, "erf"), tu.Network(1, "erf"), optimizer=tu.SGD(3.0))
START = tu.Start(R=[[0.5]], Q=[[0.8]])
ALPHA = 4.0


def theory(scale: float = 1.0) -> float:
    """The error at ALPHA, with the term of order eta^2 multiplied by `scale`."""
    t = jnp.ones((1, 1, 1))
    full, flow = (
        OrderParameters(PROBLEM, t, gradient_flow=drop) for drop in (False, True)
    )

    @jax.jit
    def drift(time, y):
        state = Overlaps(
            jnp.full((1, 1, 1), y[0]),
            jnp.full((1, 1, 1), y[1]),
            jnp.ones(1),
            None,
            None,
        )
        d = full.drift(time, state)
        d_flow = flow.drift(time, state)
        return jnp.stack(
            [d.r[0, 0, 0], d_flow.q[0, 0, 0] + scale * (d.q - d_flow.q)[0, 0, 0]]
        )

    R, Q = solve_ivp(drift, (0.0, ALPHA), [0.5, 0.8], rtol=1e-7, atol=1e-9).y[:, -1]
    return float(generalization_error(PROBLEM, [[R]], [[Q]]))


def mean_error(dim: int, runs: int) -> tuple[float, float, float]:
    """Mean, its standard error, and spread over runs."""
    error = tu.simulate(
        PROBLEM, START, dim=dim, times=[ALPHA], runs=runs, seed=dim
    ).error[:, 0]
    return float(error.mean()), float(error.std() / np.sqrt(runs)), float(error.std())


def test_theory_here_is_the_theory_of_solve():
    assert (
        abs(theory() / tu.solve(PROBLEM, START, times=[0.0, ALPHA]).error[-1] - 1)
        < 1e-5
    )


@pytest.mark.full
def test_bias_shrinks_as_one_over_N_and_nothing_is_left():
    (small, se_small, sd_small), (large, se_large, sd_large) = (
        mean_error(30, 6000),
        mean_error(120, 12000),
    )
    limit = theory()
    wrong = theory(0.9)
    exponent = np.log((small - limit) / (large - limit)) / np.log(4)
    assert se_small < 0.1 * abs(small - limit)
    assert se_large < 0.1 * abs(large - limit)
    assert abs(exponent - 1) < 0.25
    assert abs(np.log(sd_small / sd_large) / np.log(4) - 0.5) < 0.1
    extrapolated = (4 * large - small) / 3
    se = np.hypot(4 * se_large, se_small) / 3
    assert abs(extrapolated - limit) < 4 * se
    assert abs(extrapolated - wrong) > 8 * se  # negative control: 0.9 of the eta^2 term


@pytest.mark.full
def test_bias_and_spread_over_five_sizes():
    limit = theory()
    sizes = np.array([50, 100, 200, 400, 800])
    bias = np.empty(5)
    spread = np.empty(5)
    for i, dim in enumerate(sizes):
        mean, se, spread[i] = mean_error(int(dim), int(90 * dim))
        bias[i] = mean - limit
        assert se < 0.1 * abs(bias[i])
    assert abs(np.polyfit(np.log(sizes), np.log(bias), 1)[0] + 1) < 0.15
    assert abs(np.polyfit(np.log(sizes), np.log(spread), 1)[0] + 0.5) < 0.05
