"""The greedy rate against brute force:

which rate lowers the error most over the next moment?
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests import naive
from tests.problems import generic_overlaps
from tutelage.analysis.protocols.greedy_rate import rate_expansion, steepest_rate
from tutelage.stream import OrderParameters, initial_overlaps

R, Q, T = generic_overlaps(2, 2, size=0.8)
V = np.array([0.9, -0.6])
V_TEACHER = np.array([1.1, 0.7])
MOMENT = 1e-6


def greedy_at_start(problem):
    """a / (2 b) at the start, unclipped."""
    state, t = initial_overlaps(problem, tu.Start(R, Q, T))
    linear, quadratic = expansion(OrderParameters(problem, t), jnp.zeros(()), state)
    return -float(linear) / (2 * float(quadratic))


expansion = eqx.filter_jit(rate_expansion)


def brute_force(near, *, readout_lr=0.0, **options):
    """The minimum of the parabola through the error after a moment, by an independent integration at four rates."""
    rates = near * np.array([0.4, 0.8, 1.2, 1.6])
    own = readout_lr if not callable(readout_lr) else None
    errors = []
    for rate in rates:
        train = readout_lr(rate) if own is None else own
        times = [0.0, MOMENT]
        _, e = naive.solve(
            naive.Erf, R, Q, T, V, V_TEACHER, rate, times, readout_lr=train, **options
        )
        errors.append((e[1] - e[0]) / MOMENT)
    c, b, a = np.polynomial.Polynomial.fit(rates, errors, 2).convert().coef
    return -b / (2 * a), c


CASES = {
    "noise": ({"noise": 0.4}, {}, {"sigma": 0.4}),
    "batch and decay": (
        {"noise": 0.4},
        {"batch": 3, "weight_decay": 0.2},
        {"sigma": 0.4, "batch": 3, "decay": 0.2},
    ),
    "readout at the same rate": (
        {"train": True},
        {},
        {"readout_lr": lambda rate: rate},
    ),
    "readout at its own rate": (
        {"train": True, "noise": 0.2},
        {"readout_lr": 0.3},
        {"readout_lr": 0.3, "sigma": 0.2},
    ),
}


def problem_of(case, lr=0.5, momentum=0.0):
    parts, optimizer, _ = CASES[case]
    return tu.Problem(
        tu.Network(2, readout=V, train_readout=parts.get("train", False)),
        tu.Network(2, readout=V_TEACHER),
        optimizer=tu.SGD(lr, momentum=momentum, **optimizer),
        noise=parts.get("noise", 0.0),
    )


@pytest.mark.parametrize("case", CASES)
def test_no_other_rate_lowers_the_error_faster(case):
    ours = greedy_at_start(problem_of(case))
    theirs, unmoved = brute_force(ours, **CASES[case][2])
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert (abs(unmoved) > 1e-3) == (
        case == "readout at its own rate"
    )  # what moves without lr


def test_each_ingredient_changes_the_rate():
    """Negative control: with one ingredient missing, the brute force disagrees."""
    ours = greedy_at_start(problem_of("batch and decay"))
    full = CASES["batch and decay"][2]
    for missing in full:
        other, _ = brute_force(ours, **{k: v for k, v in full.items() if k != missing})
        assert abs(other / ours - 1) > 0.02, missing


def test_a_fixed_momentum_divides_the_rate():
    plain, heavy = (
        greedy_at_start(problem_of("noise", momentum=m)) for m in (0.0, 0.8)
    )
    assert heavy == pytest.approx(0.2 * plain, rel=1e-12)


@pytest.mark.parametrize("slope", [-2.0, -0.01, 0.0, 0.3])
@pytest.mark.parametrize("curvature", [-1.0, 0.0, 0.5, 40.0])
def test_within_bounds_the_best_of_all_rates_is_chosen(slope, curvature):
    """Also where the parabola opens downwards, and where the error can only rise."""
    bounds = (0.1, 3.0)
    rates = np.linspace(*bounds, 100_001)
    chosen = float(steepest_rate(jnp.asarray(slope), jnp.asarray(curvature), bounds))
    changes = rates * slope + rates**2 * curvature
    assert chosen * slope + chosen**2 * curvature <= changes.min() + 1e-8
