"""The best rate on two eigenvalue levels, against Pontryagin's condition in NumPy.

E_l' = -2 eta lam_l E_l + eta^2 lam_l (sum_k p_k lam_k E_k + sigma^2) for the error E_l
of level l.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.analysis.protocols.cases import E0, END, LEVELS, LINE, SHARES, SMOOTH, line

GRID = np.linspace(0.0, END, 1501)


def flow(E, eta, noise):
    eta = np.asarray(eta)[..., None]
    return -2 * eta * LEVELS * E + eta**2 * LEVELS * (
        (E @ (SHARES * LEVELS))[..., None] + noise**2
    )


def follow(schedule, noise=0.5):
    """E_l (..., time, level) by Runge-Kutta on the grid, for a batch of schedules t -> (...,)."""
    h = GRID[1]
    E = [np.broadcast_to(np.full(2, 2 * E0), (*np.shape(schedule(0.0)), 2))]
    for t in GRID[:-1]:
        k1 = flow(E[-1], schedule(t), noise)
        k2 = flow(E[-1] + h / 2 * k1, schedule(t + h / 2), noise)
        k3 = flow(E[-1] + h / 2 * k2, schedule(t + h / 2), noise)
        k4 = flow(E[-1] + h * k3, schedule(t + h), noise)
        E.append(E[-1] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return np.stack(E, axis=-2)


def straight(knots, values):
    """The rate of knots (..., n) at a time, independently of the library."""

    def rate(t):
        i = np.clip(np.searchsorted(knots, t) - 1, 0, knots.size - 2)
        w = np.clip((t - knots[i]) / (knots[i + 1] - knots[i]), 0.0, 1.0)
        return (1 - w) * values[..., i] + w * values[..., i + 1]

    return rate


def pontryagin(schedule, running=0.0, noise=0.5):
    """The rate of smallest Hamiltonian along a path:

    costate p' = -p df/dE - running de/dE, p(T) = de/dE (running: 0).
    """
    E = follow(schedule, noise)
    weights = SHARES * LEVELS / 2
    h = GRID[1]
    p = (0.0 if running else 1.0) * weights

    def back(p, eta):
        return (
            -(-2 * eta * LEVELS * p + eta**2 * 2 * weights * (p @ LEVELS))
            - running * weights
        )

    rates = np.empty(GRID.size)
    for i in reversed(range(GRID.size)):
        force = E[i] @ (SHARES * LEVELS) + noise**2
        rates[i] = (p * LEVELS) @ E[i] / max((p @ LEVELS) * force, 1e-300)
        eta, mid, before = (
            float(schedule(max(GRID[i] - s * h, 0.0))) for s in (0.0, 0.5, 1.0)
        )
        k1 = back(p, eta)
        k2 = back(p - h / 2 * k1, mid)
        k3 = back(p - h / 2 * k2, mid)
        p = p - h / 6 * (k1 + 2 * k2 + 2 * k3 + back(p - h * k3, before))
    return rates


@pytest.fixture(scope="module")
def two_levels():
    greedy = {"lr": tu.schedules.greedy(line(), LINE, END)}
    return tu.schedules.optimize(
        line(),
        LINE,
        END,
        {"lr": (0.0, 5.0)},
        baselines={"greedy": greedy},
        starts=1,
        **SMOOTH,
    )


def own_schedule(found):
    return straight(np.asarray(found.schedule.times), np.asarray(found.schedule.values))


def test_the_value_is_that_of_an_independent_integration(two_levels):
    E = follow(own_schedule(two_levels))
    assert two_levels.value == pytest.approx(E[-1] @ (SHARES * LEVELS) / 2, rel=1e-6)


def test_optimal_beats_greedy_beats_constant_on_two_levels(two_levels):
    values = [
        two_levels.value,
        two_levels.baselines["greedy"].value,
        two_levels.best_constant.value,
    ]
    assert values == sorted(values)
    assert two_levels.gains["greedy"] > 2


def roughness(rates, wanted):
    """Root mean square of ln(rate / wanted), over all but the first instants."""
    return np.sqrt(np.mean(np.log(rates / wanted)[GRID > 0.5] ** 2))


def test_the_schedule_satisfies_pontryagins_condition(two_levels):
    """Within what twelve pieces can follow; the greedy one does not, except at the end, where nothing is left to come."""
    ours = own_schedule(two_levels)
    wanted = pontryagin(ours)
    rates = np.array([ours(t) for t in GRID])
    assert roughness(rates, wanted) < 0.15
    assert rates[-1] == pytest.approx(wanted[-1], rel=0.1)
    rate = two_levels.baselines["greedy"].controls["lr"]
    greedy = straight(np.asarray(rate.times), np.asarray(rate.values))
    assert roughness(np.array([greedy(t) for t in GRID]), pontryagin(greedy)) > 1.0


def test_no_perturbation_of_the_schedule_is_better(two_levels):
    rng = np.random.default_rng(0)
    knots = np.asarray(two_levels.schedule.times)
    values = np.asarray(two_levels.schedule.values)
    sizes = np.geomspace(1e-3, 0.5, 300)[:, None]
    tried = values * np.exp(sizes * rng.standard_normal((300, knots.size)))
    final = follow(straight(knots, tried))[:, -1] @ (SHARES * LEVELS) / 2
    assert final.min() > two_levels.value * (1 - 1e-5)
    assert (
        np.median(final[:100] / two_levels.value - 1) < 1e-2
    )  # the small ones are close by: the search is not empty


@pytest.mark.full
def test_the_integrated_error_satisfies_pontryagins_condition():
    found = tu.schedules.optimize(
        line(), LINE, END, {"lr": (0.0, 5.0)}, "integrated", **SMOOTH
    )
    ours = own_schedule(found)
    wanted = pontryagin(ours, running=1.0)
    rates = np.array([ours(t) for t in GRID])
    early = GRID < 0.8 * END  # later the integral hardly depends on the rate
    assert roughness(np.where(early, rates, 1.0), np.where(early, wanted, 1.0)) < 0.1
    E = follow(ours) @ (SHARES * LEVELS) / 2
    assert found.value == pytest.approx(np.trapezoid(E, GRID), rel=1e-3)
