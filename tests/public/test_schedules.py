"""Schedules of the learning rate, and those that are optimal."""

import numpy as np
import pytest

import tutelage as tu


@pytest.mark.parametrize(
    ("schedule", "time", "value"),
    [
        (tu.schedules.Constant(0.3), 7.0, 0.3),
        (tu.schedules.Cosine(1.0, 100.0), 50.0, 0.5),
        (tu.schedules.Cosine(1.0, 100.0, final=0.2), 100.0, 0.2),
        (tu.schedules.Interpolated([0.0, 100.0], [1.0, 0.01]), 50.0, 0.1),
        (tu.schedules.Linear([0.0, 100.0], [1.0, 0.0]), 25.0, 0.75),
        (tu.schedules.Piecewise([100.0], [0.5, 0.05]), 99.0, 0.5),
        (tu.schedules.Piecewise([100.0], [0.5, 0.05]), 101.0, 0.05),
        (tu.schedules.PowerDecay(0.5, exponent=2.0, timescale=50.0), 50.0, 0.125),
        (tu.schedules.Restarted(tu.schedules.PowerDecay(1.0), at=[60.0]), 61.0, 0.5),
    ],
)
def test_a_schedule_has_its_value(schedule, time, value):
    assert float(schedule(time)) == pytest.approx(value)


NOISY = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), noise=0.5)
ZERO = tu.Start([[0.0]], [[0.0]])


def test_the_greedy_rate_of_a_linear_unit_is_known():
    """eta = e_g / (e_g + sigma^2 / 2): it minimizes the rate of change of the error.

    With e = 2 e_g and that rate, de / dalpha = -e^2 / (e + sigma^2).
    """
    sigma = 0.5
    greedy = tu.schedules.greedy(NOISY, ZERO, t_max=5.0)
    assert float(greedy(0.0)) == pytest.approx(1 / (1 + sigma**2), rel=1e-4)
    theory = tu.solve(NOISY.replace(lr=greedy), ZERO, [0.0, 5.0])
    e = 2 * theory.error[-1]
    # The integral of -(e + sigma^2) / e^2 de is ln(1 / e) + sigma^2 (1 / e - 1).
    assert np.log(1 / e) + sigma**2 * (1 / e - 1) == pytest.approx(5.0, rel=2e-3)


def test_an_optimal_protocol_beats_the_best_constant_rate():
    found = tu.schedules.optimize(
        NOISY, ZERO, 5.0, {"lr": (0.0, 1.0)}, segments=3, starts=1, iterations=20
    )
    assert isinstance(found, tu.schedules.OptimalProtocol)
    assert found.gain > 1.01
    rates = [float(found.schedules["lr"](time)) for time in (0.5, 2.0, 4.5)]
    assert rates[0] > rates[1] > rates[2]
    assert tu.plot.plot_protocol(found) is not None
