"""Rates that are functions of time with short features: none may be stepped over.

Truth: LSODA in pieces, in plain NumPy.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
from tutelage.training.schedules import STOPS_PER_SWING, switch_times

END = 1000.0
RHO = 1.0
NOISE = 0.5
TIMES = np.linspace(0.0, END, 11)


def linear(**optimizer):
    """One linear unit learns another:

    m' = eta (1 - m), q' = 2 eta (m - q) + eta^2 (1 - 2m + q + noise^2).
    """
    return tu.Problem(
        tu.Network(1, "linear"),
        tu.Network(1, "linear"),
        optimizer=tu.SGD(**optimizer),
        noise=NOISE,
    )


START = tu.Start(R=[[0.0]], Q=[[0.0]], T=[[RHO]])


def truth(rate, pieces, gradient_flow=False):
    """e_g at the end, integrated separately in each piece, so that nothing is stepped over."""

    def drift(t, y):
        (m, q), eta = y, rate(t)
        spread = 0.0 if gradient_flow else eta**2 * (RHO - 2 * m + q + NOISE**2)
        return [eta * (RHO - m), 2 * eta * (m - q) + spread]

    y = [0.0, 0.0]
    for low, high in pairwise(pieces):
        y = solve_ivp(drift, (low, high), y, method="LSODA", rtol=1e-11, atol=1e-14).y[
            :, -1
        ]
    return (RHO - 2 * y[0] + y[1]) / 2


def burst(
    t, np=jnp
):  # quiet, then two units of time in which all is learned, and quiet again
    return np.where((t > 500.3) & (t < 502.3), 0.9, 1e-4)


def bump(t, np=jnp):
    return 1e-4 + 0.8 * np.exp(-(((t - 700.0) / 0.05) ** 2))


def early(t, np=jnp):
    return 1e-3 + 0.7 * np.exp(-(((t - 2.0) / 0.01) ** 2))


def hidden_by_a_large_decay(t, np=jnp):
    return 1.0 * np.exp(-t / 5) + 1e-5 + 0.02 * np.where(np.abs(t - 600) < 3, 1.0, 0.0)


def sawtooth(t, np=jnp):
    return 1e-3 + 0.3 * ((t / 40.0) % 1.0) ** 8


CASES = {
    burst: [0, 500.3, 502.3, END],
    bump: [0, *np.linspace(699, 701, 41), END],
    early: [0, *np.linspace(1.8, 2.2, 41), END],
    hidden_by_a_large_decay: [0, *np.linspace(1, 60, 21), 597, 603, END],
    sawtooth: [i * 20.0 for i in range(51)],
}


LONG = (bump, early, hidden_by_a_large_decay, sawtooth)


@pytest.mark.parametrize(
    "rate",
    [pytest.param(f, marks=pytest.mark.full if f in LONG else ()) for f in CASES],
    ids=lambda f: f.__name__,
)
def test_no_feature_of_a_rate_is_stepped_over(rate):
    solved = tu.solve(linear(lr=rate), START, TIMES)
    expected = truth(lambda t: rate(t, np), CASES[rate])
    assert solved.finished
    assert solved.error[-1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("solver", "gradient_flow"),
    [
        ("explicit", True),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (
                ("stiff", False),
                ("implicit", True),
                ("stiff", True),
                ("implicit", False),
            )
        ),
    ],
)
def test_with_every_solver_and_in_gradient_flow(solver, gradient_flow):
    solved = tu.solve(
        linear(lr=burst), START, TIMES, solver=solver, gradient_flow=gradient_flow
    )
    assert solved.error[-1] == pytest.approx(
        truth(lambda t: burst(t, np), CASES[burst], gradient_flow), rel=1e-5
    )


def test_many_problems_at_once():
    expected = truth(lambda t: burst(t, np), CASES[burst])
    many = tu.solve_batch(linear(lr=burst), {"noise": [0.1, NOISE]}, START, TIMES)
    assert many.error[1, -1] == pytest.approx(expected, rel=1e-5)


def trained(bias, **optimizer):
    student = tu.Network(
        1,
        "linear",
        train_readout=True,
        train_bias=bias,
        readout=[0.5],
        bias=[0.1] if bias else None,
    )
    return tu.Problem(
        student,
        tu.Network(1, "linear"),
        optimizer=tu.SGD(
            **{"lr": 1e-3, "readout_lr": 1e-3, "bias_lr": 1e-3} | optimizer
        ),
    )


@pytest.mark.parametrize(
    "name",
    [
        "readout_lr",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("bias_lr", "momentum")
        ),
    ],
)
def test_every_rate_equals_the_same_steps_as_a_piecewise_schedule(name):
    """Piecewise schedules are stopped at exactly, and tested against two solves in a row elsewhere."""
    as_steps = tu.schedules.Piecewise([500.3, 502.3], [1e-4, 0.9, 1e-4])
    wrap = (
        (lambda rate: tu.SlowMomentum(5.0, rate))
        if name == "momentum"
        else (lambda rate: rate)
    )
    start = tu.Start(R=[[0.3]], Q=[[0.4]])
    times = [0.0, 510.0]
    errors = [
        tu.solve(trained(name == "bias_lr", **{name: wrap(rate)}), start, times).error
        for rate in (burst, as_steps)
    ]
    assert errors[0][-1] == pytest.approx(errors[1][-1], rel=1e-6)
    assert abs(errors[0][-1] / errors[0][0] - 1) > 0.1  # the burst does something


@pytest.mark.parametrize(
    "gradient", ["forward", pytest.param("reverse", marks=pytest.mark.full)]
)
def test_inside_transformations_of_jax(gradient):
    """A schedule that holds a traced number:

    its height is differentiated, and its features are found all the same.
    """

    def final(height):
        rate = lambda t: jnp.where((t > 500.3) & (t < 502.3), height, 1e-4)  # noqa: E731
        return tu.solve(linear(lr=rate), START, TIMES, gradient=gradient).error[-1]

    exact = [
        truth(lambda t, h=h: h if 500.3 < t < 502.3 else 1e-4, CASES[burst])
        for h in (0.8999, 0.9, 0.9001)
    ]
    value, slope = (
        jax.jvp(final, (0.9,), (1.0,))
        if gradient == "forward"
        else jax.value_and_grad(final)(0.9)
    )
    assert float(value) == pytest.approx(exact[1], rel=1e-5)
    assert float(slope) == pytest.approx((exact[2] - exact[0]) / 2e-4, rel=1e-3)


def test_jumps_are_found_to_the_last_digit():
    stops = np.unique(np.asarray(switch_times(END, burst)))
    np.testing.assert_allclose(stops[stops < END], [500.3, 502.3], rtol=1e-14)


def test_a_function_without_features_costs_few_stops():
    stops = np.asarray(switch_times(END, lambda t: 0.5 / (1 + t / 50)))
    assert np.sum(stops < END) <= STOPS_PER_SWING
    assert np.all(np.asarray(switch_times(END, lambda t: 0.5)) >= END)


def test_more_features_than_can_be_resolved_are_announced():
    with pytest.warns(
        tu.errors.ValidityWarning, match="lr rises and falls about (1999|2000) times"
    ):
        tu.solve(linear(lr=lambda t: 0.1 + 0.1 * jnp.sin(2 * np.pi * t)), START, TIMES)


def test_a_rate_that_is_negative_between_recorded_times_is_named():
    with pytest.raises(tu.InputError, match=r"lr is -0\.5 at time"):
        tu.solve(
            linear(lr=lambda t: jnp.where(jnp.abs(t - 55) < 1, -0.5, 0.5)), START, TIMES
        )
    slow = tu.SlowMomentum(1.0, lambda t: jnp.where(jnp.abs(t - 55) < 1, jnp.nan, 0.5))
    with pytest.raises(tu.InputError, match="k is nan at time"):
        tu.simulate(linear(lr=0.5, momentum=slow), START, times=TIMES, dim=10)
