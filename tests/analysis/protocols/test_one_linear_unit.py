"""The best protocols of one linear unit with isotropic inputs, in closed form.

e' = -2 eta e + (eta^2 / B) (e + sigma^2 / 2), so that eta* = B e / (e + sigma^2 / 2).
The error alone is a closed system, so that the rate that lowers it fastest at every
moment is the best of all.
"""

import numpy as np
import pytest
from scipy.special import lambertw

import tutelage as tu
from tests.analysis.protocols.cases import E0, END, KNOTS, LINE, SMOOTH, line


def closed_form(times, noise, batch):
    """e' = -B e^2 / (e + s):

    with y = s / e, y + ln y grows as B alpha, so e = s / W(y0 exp(y0 + B alpha)).
    """
    s = noise**2 / 2
    return s / lambertw(s / E0 * np.exp(s / E0 + batch * np.asarray(times))).real


@pytest.fixture(scope="module", params=[1, pytest.param(3, marks=pytest.mark.full)])
def isotropic(request):
    batch = request.param
    return batch, tu.schedules.optimize(
        line([1.0, 1.0], batch=batch), LINE, END, {"lr": (0.0, 5.0)}, **SMOOTH
    )


def test_greedy_is_the_closed_form(isotropic):
    batch, _ = isotropic
    problem = line([1.0, 1.0], batch=batch)
    rate = tu.schedules.greedy(problem, LINE, END)
    exact = closed_form(rate.times, 0.5, batch)
    np.testing.assert_allclose(rate.values, batch * exact / (exact + 0.125), rtol=1e-6)
    found = tu.solve(
        problem.replace(lr=rate), LINE, [0.0, END], gradient="forward"
    ).error[-1]
    assert found == pytest.approx(exact[-1], rel=1e-4)
    late = rate.times > END / 2
    assert np.polyfit(np.log(rate.times[late]), np.log(rate.values[late]), 1)[
        0
    ] == pytest.approx(-1, abs=0.15)


def test_the_linear_network_has_the_known_optimal_schedule(isotropic):
    batch, found = isotropic
    exact = closed_form(END, 0.5, batch)
    assert (
        exact * (1 - 1e-8) < found.value < exact * (1 + 5e-3)
    )  # within what twelve pieces can follow
    inside = slice(3, -1)
    wanted = closed_form(KNOTS, 0.5, batch)
    wanted = batch * wanted / (wanted + 0.125)
    np.testing.assert_allclose(
        np.asarray(found.schedule.values)[inside], wanted[inside], rtol=0.1
    )
    assert found.value < 0.6 * found.best_constant.value
    assert found.slope < 1e-2
    assert np.ptp(found.starts) < 1e-3 * found.value


def test_best_constant_rate_of_the_linear_unit(isotropic):
    """e' = -2 eta e + (eta^2/B)(e + s): e(T) in closed form, minimized on a grid."""
    batch, found = isotropic
    rates = np.linspace(0.02, 0.4, 200_001)
    decay = 2 * rates - rates**2 / batch
    floor = rates**2 / batch * 0.125
    final = floor / decay + (E0 - floor / decay) * np.exp(-decay * END)
    assert found.best_constant.value == pytest.approx(final.min(), rel=1e-6)
    assert found.best_constant.controls["lr"] == pytest.approx(
        rates[final.argmin()], rel=2e-3
    )


def test_noise_with_a_budget_comes_first():
    """At a fixed rate e(T) adds eta^2/2 sigma^2 exp(-c (T - t)), c = 2 eta - eta^2. With the integral of sigma given, sigma is
    proportional to exp(c (T - t)), and one where that is more: noisy samples first, clean ones last."""
    eta = 0.2
    end = 10.0
    segments = 5
    most = 1.0
    problem = line([1.0, 1.0], noise=0.1, lr=eta)
    found = tu.schedules.optimize(
        problem,
        LINE,
        end,
        {"noise": (0.0, most)},
        segments=segments,
        budgets={"noise": (4.0, None)},
        starts=1,
    )
    edges = np.linspace(0.0, end, segments + 1)
    c = 2 * eta - eta**2
    weight = (
        np.exp(-c * (end - edges[1:])) - np.exp(-c * (end - edges[:-1]))
    ) / c  # of sigma_i^2 in e(T)
    scale = np.linspace(0.0, 5.0, 2_000_001)
    totals = (
        np.minimum(scale[:, None] / weight * weight.min(), most).sum(axis=1)
        * end
        / segments
    )
    wanted = np.minimum(
        scale[np.searchsorted(totals, 4.0)] / weight * weight.min(), most
    )
    np.testing.assert_allclose(found.schedule.values, wanted, atol=2e-3)
    assert found.totals["noise"] == pytest.approx(4.0, abs=1e-4)
    assert found.slope < 1e-3
    assert found.best_constant.controls["noise"] == pytest.approx(
        0.4, abs=1e-4
    )  # it keeps the budget too
    assert found.gain > 1.2
    from_noise = np.sum(weight * wanted**2) * eta**2 / 2
    assert found.value == pytest.approx(from_noise + E0 * np.exp(-c * end), rel=1e-4)
