"""The best learning-rate schedule: against closed forms, against Pontryagin's condition, against brute force."""

import numpy as np
import pytest
from scipy.special import lambertw
from tutelage.analysis.schedule_search import Search, _knots, descend, greedy_rates

import tutelage as tu
from tests.problem.messages import require_refusal
from tests.problems import pair
from tutelage.plot import save_figure
from tutelage.simulation.step_constants import RateTable

PIECES = 8
LEVELS, SHARES = np.array([1.8, 0.2]), np.array([0.5, 0.5])
R0, Q0, END = 0.2, 0.5, 30.0
E0 = (1 - 2 * R0 + Q0) / 2  # e_g of the linear start, whatever the spectrum
LINE = tu.Start([[R0]], [[Q0]])


def line(levels=LEVELS, noise=0.5, batch=1):
    """One linear unit on two levels (equal ones are isotropic inputs in the same program)."""
    return pair(1, 1, "linear", inputs=tu.Spectrum(levels, SHARES), noise=noise, batch=batch)


# ---- one linear unit, isotropic inputs: e' = -2 eta e + (eta^2 / B) (e + sigma^2 / 2), so eta* = B e / (e + sigma^2 / 2)
def closed_form(times, noise, batch):
    """e' = -B e^2 / (e + s): with y = s / e, y + ln y grows as B alpha, so e = s / W(y0 exp(y0 + B alpha))."""
    s = noise**2 / 2
    return s / lambertw(s / E0 * np.exp(s / E0 + batch * np.asarray(times))).real


@pytest.fixture(scope="module", params=[1, 3])
def isotropic(request):
    batch = request.param
    return batch, tu.schedules.optimize(line([1.0, 1.0], batch=batch), LINE, END, pieces=PIECES)


def test_greedy_is_the_closed_form(isotropic):
    batch, design = isotropic
    greedy = design.greedy
    exact = closed_form(greedy.times, 0.5, batch)
    np.testing.assert_allclose(greedy.error, exact, rtol=1e-6)
    np.testing.assert_allclose(greedy.rate.values, batch * exact / (exact + 0.125), rtol=1e-6)


def test_optimal_is_the_closed_form_too_as_nothing_but_the_error_matters(isotropic):
    batch, design = isotropic
    exact = closed_form(END, 0.5, batch)
    assert exact * (1 - 1e-8) < design.value < exact * (1 + 2e-3)
    assert design.value < 0.6 * design.best_constant.value
    assert design.value == design.final_error == pytest.approx(design.trajectory.error[-1])


def test_with_noise_the_rate_falls_as_one_over_time(isotropic):
    _, design = isotropic
    times, rate = design.greedy.times, np.asarray(design.greedy.rate.values)
    late = times > END / 2
    slope = np.polyfit(np.log(times[late]), np.log(rate[late]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.15)


def test_best_constant_rate_of_the_linear_unit(isotropic):
    """e' = -2 eta e + (eta^2/B)(e + s): e(T) in closed form, minimized on a grid."""
    batch, design = isotropic
    rates = np.linspace(0.02, 0.4, 200_001)
    decay, floor = 2 * rates - rates**2 / batch, rates**2 / batch * 0.125
    final = floor / decay + (E0 - floor / decay) * np.exp(-decay * END)
    assert design.best_constant.value == pytest.approx(final.min(), rel=1e-6)
    assert design.best_constant.rate == pytest.approx(rates[final.argmin()], rel=2e-3)


def test_the_integral_of_the_error_is_exact(isotropic):
    """int e dalpha = [(e0 - e(T)) + s ln(e0 / e(T))] / B along the greedy path."""
    batch, design = isotropic
    search = Search(design.problem, LINE, ("lr",), _knots(PIECES, END), END, False, (1e-3, 9.0))
    last = closed_form(END, 0.5, batch)
    integral = (E0 - last + 0.125 * np.log(E0 / last)) / batch
    assert search.value(design.greedy.error) == pytest.approx(integral, rel=1e-6)


@pytest.mark.full
def test_the_greedy_design_is_its_own_schedule():
    """Solved as a schedule, the feedback gives its own curve again; its figure says by how much it wins or loses."""
    design = tu.schedules.optimize(line(), LINE, END, pieces=PIECES, objective="integrated", method="greedy")
    assert design.slope is None
    np.testing.assert_allclose(design.trajectory.error, design.greedy.error, rtol=1e-3)
    assert design.value == pytest.approx(design.greedy.value, rel=1e-3)
    assert design.value < design.best_constant.value
    assert [curve.get_label() for curve in design.plot().axes[0].get_lines()] == ["greedy", "best constant"]


# ---- one linear unit, two levels, by NumPy alone: E_l' = -2 eta lam_l E_l + eta^2 lam_l (sum_k p_k lam_k E_k + sigma^2)
GRID = np.linspace(0.0, END, 1501)


def flow(E, eta, noise):
    eta = np.asarray(eta)[..., None]
    return -2 * eta * LEVELS * E + eta**2 * LEVELS * ((E @ (SHARES * LEVELS))[..., None] + noise**2)


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


def logarithmic(knots, values):
    """The rate of knots (..., n) at a time, independently of the library."""
    logs = np.log(values)

    def rate(t):
        i = np.clip(np.searchsorted(knots, t) - 1, 0, knots.size - 2)
        w = np.clip((t - knots[i]) / (knots[i + 1] - knots[i]), 0.0, 1.0)
        return np.exp((1 - w) * logs[..., i] + w * logs[..., i + 1])

    return rate


def pontryagin(schedule, running=0.0, noise=0.5):
    """The rate of smallest Hamiltonian along a path: costate p' = -p df/dE - running de/dE, p(T) = de/dE (running: 0)."""
    E, weights, h = follow(schedule, noise), SHARES * LEVELS / 2, GRID[1]
    p = (0.0 if running else 1.0) * weights

    def back(p, eta):
        return -(-2 * eta * LEVELS * p + eta**2 * 2 * weights * (p @ LEVELS)) - running * weights

    rates = np.empty(GRID.size)
    for i in reversed(range(GRID.size)):
        force = E[i] @ (SHARES * LEVELS) + noise**2
        rates[i] = (p * LEVELS) @ E[i] / max((p @ LEVELS) * force, 1e-300)
        eta, mid, before = (float(schedule(max(GRID[i] - s * h, 0.0))) for s in (0.0, 0.5, 1.0))
        k1 = back(p, eta)
        k2 = back(p - h / 2 * k1, mid)
        k3 = back(p - h / 2 * k2, mid)
        p = p - h / 6 * (k1 + 2 * k2 + 2 * k3 + back(p - h * k3, before))
    return rates


@pytest.fixture(scope="module")
def two_levels():
    return tu.schedules.optimize(line(), LINE, END, pieces=PIECES)


def own_schedule(design):
    return logarithmic(np.asarray(design.schedule.times), np.asarray(design.schedule.values))


def test_the_value_is_that_of_an_independent_integration(two_levels):
    E = follow(own_schedule(two_levels))
    assert two_levels.value == pytest.approx(E[-1] @ (SHARES * LEVELS) / 2, rel=1e-6)


def test_optimal_beats_greedy_beats_constant_on_two_levels(two_levels):
    values = [two_levels.value, two_levels.greedy.value, two_levels.best_constant.value]
    assert values == sorted(values)
    assert two_levels.value < 0.5 * two_levels.greedy.value
    assert two_levels.slope < 1e-3


def roughness(rates, wanted):
    """Root mean square of ln(rate / wanted), over all but the first instants."""
    return np.sqrt(np.mean(np.log(rates / wanted)[GRID > 0.5] ** 2))


def test_the_schedule_satisfies_pontryagins_condition(two_levels):
    """Within what eight pieces can follow; the greedy one does not, except at the end, where nothing is left to come."""
    ours = own_schedule(two_levels)
    wanted = pontryagin(ours)
    rates = np.array([ours(t) for t in GRID])
    assert roughness(rates, wanted) < 0.12
    assert rates[-1] == pytest.approx(wanted[-1], rel=0.05)
    greedy = logarithmic(two_levels.greedy.times, np.asarray(two_levels.greedy.rate.values))
    assert roughness(np.array([greedy(t) for t in GRID]), pontryagin(greedy)) > 1.0
    assert float(greedy(END)) == pytest.approx(pontryagin(greedy)[-1], rel=1e-3)


def test_no_perturbation_of_the_schedule_is_better(two_levels):
    rng = np.random.default_rng(0)
    knots, values = np.asarray(two_levels.schedule.times), np.asarray(two_levels.schedule.values)
    sizes = np.geomspace(1e-3, 0.5, 300)[:, None]
    tried = values * np.exp(sizes * rng.standard_normal((300, knots.size)))
    final = follow(logarithmic(knots, tried))[:, -1] @ (SHARES * LEVELS) / 2
    assert final.min() > two_levels.value * (1 - 1e-6)
    assert np.median(final[:100] / two_levels.value - 1) < 1e-2  # the small ones are close by: the search is not empty


def test_no_smooth_change_between_the_knots_gains_much(two_levels):
    rng = np.random.default_rng(1)
    ours, waves = own_schedule(two_levels), np.arange(1, 9)
    amplitudes = 0.15 * rng.standard_normal((300, waves.size)) / waves

    def tried(t):
        return ours(t) * np.exp(amplitudes @ np.cos(np.pi * waves * t / END))

    final = follow(tried)[:, -1] @ (SHARES * LEVELS) / 2
    assert final.min() > 0.99 * two_levels.value


# ---- two erf units, where the problem has a plateau
ORDER_ONE = tu.Start([[0.4, 0.05], [0.05, 0.41]], 0.5 * np.eye(2))
SMALL = tu.Start([[0.004, -0.001], [-0.002, 0.003]], 0.01 * np.eye(2))


@pytest.fixture(scope="module")
def noisy():
    return tu.schedules.optimize(pair(2, 2, noise=0.1), ORDER_ONE, 100.0, pieces=PIECES)


def test_two_erf_units_gain_a_factor_of_four_with_noise(noisy):
    assert noisy.gain > 4
    assert noisy.gain == pytest.approx(noisy.best_constant.value / noisy.final_error)
    assert noisy.history[0] >= noisy.history[-1]
    assert noisy.slope < 1e-3


@pytest.mark.full
def test_two_erf_units_gain_half_without_noise(noisy):
    clean = tu.schedules.optimize(pair(2, 2), ORDER_ONE, 100.0, pieces=PIECES)
    assert clean.gain > 1.5
    assert clean.final_error < noisy.final_error


def test_at_the_end_the_best_rate_is_the_greedy_one_of_the_state_reached(noisy):
    """There the costate is the gradient of the error, so Pontryagin's rate is a / (2 b)."""
    last = tu.Start(noisy.trajectory.R[-1], noisy.trajectory.Q[-1])
    onwards, _ = greedy_rates(pair(2, 2, noise=0.1), last, noisy.trajectory.times, (1e-3, 50.0))
    assert noisy.schedule.values[-1] == pytest.approx(onwards[0], rel=0.05)
    assert noisy.schedule.values[0] != pytest.approx(noisy.greedy.rate.values[0], rel=0.05)  # at the start it is not


def search_at(noise=0.1, start=ORDER_ONE, end=100.0):
    return Search(pair(2, 2, noise=noise), start, ("lr",), _knots(PIECES, end), end, True, (5e-4, 50.0))


def test_gradient_equals_finite_differences(noisy):
    search, rng = search_at(), np.random.default_rng(2)
    point = np.log(np.asarray(noisy.schedule.values)) + 0.3 * rng.standard_normal(PIECES + 1)
    direction, step = rng.standard_normal(PIECES + 1), 5e-3
    f = [np.log(search.value(search.error_at(point + k * step * direction))) for k in (-2, -1, 1, 2)]
    finite = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    value, slope = search.log_value_and_slope(point)
    assert slope @ direction == pytest.approx(finite, rel=1e-5)
    assert abs(finite) > 1e-2
    assert value == pytest.approx(np.log(search.value(search.error_at(point))), abs=1e-7)


def test_through_a_plateau_greedy_stays_and_optimal_leaves():
    """Greedy lowers its rate on the plateau and is caught; so is a descent from the best constant rate alone."""
    design = tu.schedules.optimize(pair(2, 2, noise=0.1), SMALL, 60.0, pieces=PIECES)
    caught = 0.0116108403  # e_g of the plateau for vanishing rates
    assert design.greedy.value == pytest.approx(caught, rel=0.04)
    assert design.value < 0.5 * min(caught, design.greedy.value, design.best_constant.value)
    search = search_at(start=SMALL, end=60.0)
    alone = descend(search, search.constant(np.log(design.best_constant.rate)), 100)
    assert np.exp(alone.log_value) == pytest.approx(caught, rel=0.04)


def test_the_schedule_is_an_ordinary_rate(noisy):
    """It solves to the same error by itself, goes through TOML, and the finite network's loop reads it."""
    again = tu.solve(noisy.problem, ORDER_ONE, noisy.trajectory.times, gradient="forward")
    assert again.error[-1] == pytest.approx(noisy.final_error, rel=1e-8)
    copy = tu.Problem.from_toml(noisy.problem.to_toml())
    assert copy.to_json() == noisy.problem.to_json()
    np.testing.assert_allclose(copy.sgd.lr.values, noisy.schedule.values, rtol=1e-15)
    table = RateTable(noisy.problem, dim=10).table(0, 1000)
    knots, values = np.asarray(noisy.schedule.times), np.log(np.asarray(noisy.schedule.values))
    np.testing.assert_allclose(table[:, 1], np.exp(np.interp(np.arange(1000) / 10, knots, values)), rtol=1e-12)


def test_words_and_figure(noisy, tmp_path):
    text = str(noisy)
    assert "final error at alpha = 100" in text
    assert f"gain over the best constant rate: {noisy.gain:.3g}" in text
    assert "greedy is worse than the best constant rate" in text
    figure = noisy.plot()
    rates, errors = figure.axes
    assert [line.get_label() for line in errors.get_lines()] == ["optimal", "greedy", "best constant"]
    assert rates.get_ylabel().startswith("learning rate")
    np.testing.assert_allclose(errors.get_lines()[0].get_ydata()[-1], noisy.final_error)
    assert save_figure(figure, tmp_path / "schedule.png").stat().st_size > 10_000


# ---- what else can be asked
def test_knots_and_a_guess_may_be_given(two_levels):
    times = np.linspace(0.0, END, PIECES + 1)
    design = tu.schedules.optimize(
        line(), LINE, END, pieces=times, guess=tu.schedules.PowerDecay(0.8, 1.0, 5.0), iterations=30
    )
    np.testing.assert_allclose(design.schedule.times, times)
    assert two_levels.value * 0.9 < design.value < design.best_constant.value


def test_bounds_hold_and_are_named():
    design = tu.schedules.optimize(line(), LINE, END, pieces=PIECES, bounds=(0.1, 0.5))
    values = np.asarray(design.schedule.values)
    assert values.min() == pytest.approx(0.1)
    assert values.max() == pytest.approx(0.5)
    assert "lr lies at its lower bound 0.1" in str(design)
    assert "lr lies at its upper bound 0.5" in str(design)


PLAIN = pair(2, 2)
READOUT = pair(2, 2, student={"train_readout": True})
REFUSED = {
    "equations": (lambda: tu.schedules.optimize(tu.papers.notes.linear_regression(), LINE, 5.0), ["Equations", "Problem"]),
    "no start": (lambda: tu.schedules.optimize(PLAIN, None, 5.0), ["start", "random_start"]),
    "a schedule already": (
        lambda: tu.schedules.optimize(pair(2, 2, lr=tu.schedules.Cosine(0.5, 9.0)), SMALL, 5.0),
        ["lr", "number"],
    ),
    "a function already": (lambda: tu.schedules.optimize(pair(2, 2, lr=lambda t: 0.1), SMALL, 5.0), ["lr", "schedule"]),
    "zero time": (lambda: tu.schedules.optimize(PLAIN, SMALL, 0.0), ["t_max", "0", "positive"]),
    "negative time": (lambda: tu.schedules.optimize(PLAIN, SMALL, -3.0), ["t_max", "-3"]),
    "times": (lambda: tu.schedules.optimize(PLAIN, SMALL, [0.0, 5.0]), ["t_max", "(2,)"]),
    "objective": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, objective="finale"), ["objective", "'final'"]),
    "method": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, method="best"), ["method", "greedy"]),
    "which": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, which="bias_lr"), ["which", "readout_lr"]),
    "pieces": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, pieces=0), ["pieces", "0"]),
    "knots beyond": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, pieces=[0.0, 6.0]), ["pieces", "t_max = 5"]),
    "iterations": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, iterations=0), ["iterations", "0"]),
    "bounds": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, bounds=(1.0, 0.5)), ["bounds", "below"]),
    "three bounds": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, bounds=(1.0, 2.0, 3.0)), ["bounds", "(2,)"]),
    "fixed readout": (lambda: tu.schedules.optimize(PLAIN, SMALL, 5.0, which="both"), ["readout", "train_readout=True"]),
    "greedy readout": (
        lambda: tu.schedules.optimize(READOUT, SMALL, 5.0, which="both", method="greedy"),
        ["greedy", "bounds"],
    ),
    "greedy slow": (
        lambda: tu.schedules.optimize(pair(2, 2, momentum=tu.SlowMomentum(2.0)), SMALL, 5.0, method="greedy"),
        ["greedy", "SlowMomentum"],
    ),
    "force": (
        lambda: tu.schedules.optimize(pair(2, 2, momentum=tu.SlowMomentum(2.0, 0.3)), SMALL, 5.0),
        ["k", "first layer"],
    ),
    "divergence": (
        lambda: tu.schedules.optimize(line(), LINE, END, pieces=PIECES, bounds=(9.0, 90.0)),
        ["9 to 90", "lower"],
    ),
    "nothing to learn": (
        lambda: tu.schedules.optimize(line(noise=0.0), tu.Start([[1.0]], [[1.0]]), END, pieces=PIECES),
        ["rounding", "t_max"],
    ),
    "guess": (lambda: tu.schedules.optimize(line(), LINE, END, pieces=PIECES, guess=-1.0), ["guess", "-1"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused_in_one_sentence(case):
    call, mentions = REFUSED[case]
    with pytest.raises(tu.InputError) as caught:
        call()
    require_refusal(caught.value, *mentions)


@pytest.mark.full
def test_the_integrated_error_satisfies_pontryagins_condition():
    design = tu.schedules.optimize(line(), LINE, END, objective="integrated")
    ours = own_schedule(design)
    wanted, rates = pontryagin(ours, running=1.0), np.array([ours(t) for t in GRID])
    early = GRID < 0.8 * END  # later the integral hardly knows the rate
    assert roughness(np.where(early, rates, 1.0), np.where(early, wanted, 1.0)) < 0.05
    assert design.value < design.greedy.value < design.best_constant.value


@pytest.mark.full
def test_finite_networks_gain_as_much(noisy):
    """40 runs at N = 2000, two means within 4 standard errors each: a right theory fails once in 1800 (Student, 39)."""
    constant = noisy.problem.replace(lr=noisy.best_constant.rate)
    for problem, theory in ((noisy.problem, noisy.final_error), (constant, noisy.best_constant.final_error)):
        runs = tu.simulate(problem, ORDER_ONE, dim=2000, times=[0.0, 100.0], runs=40, seed=1)
        error = np.asarray(runs.error)[:, -1]
        assert abs(error.mean() - theory) < 4 * error.std(ddof=1) / np.sqrt(40)
        assert error.std() / theory < 0.1  # so the two, a factor of five apart, are told apart by a single run


@pytest.mark.full
def test_fewer_students_than_teachers():
    problem = tu.Problem(tu.Network(1), tu.Network(2), sgd=tu.SGD(0.5), noise=0.1)
    assert tu.schedules.optimize(problem, tu.Start([[0.3, 0.1]], [[0.4]]), 20.0, pieces=PIECES).gain > 1


@pytest.mark.full
def test_both_rates_do_better_than_one():
    problem = pair(2, 2, noise=0.1, student={"train_readout": True}, teacher={"readout": [1.0, 1.5]})
    one = tu.schedules.optimize(problem, ORDER_ONE, 100.0, pieces=PIECES)
    two = tu.schedules.optimize(problem, ORDER_ONE, 100.0, pieces=PIECES, which="both")
    assert list(two.schedules) == ["lr", "readout_lr"]
    assert two.value < one.value
    assert two.best_constant.value < one.best_constant.value * (1 + 1e-6)
    assert two.gain > 1
    assert len(two.plot().axes[0].get_lines()) == 5  # two rates twice, and greedy with one for both
    only = tu.schedules.optimize(problem, ORDER_ONE, 100.0, pieces=PIECES, which="readout_lr", bounds=(1e-3, 20.0))
    assert only.greedy is None
    assert only.gain > 1


@pytest.mark.full
def test_slow_momentum_has_a_best_schedule_too():
    problem = pair(1, 1, "linear", noise=0.5, momentum=tu.SlowMomentum(2.0))
    design = tu.schedules.optimize(problem, LINE, END, pieces=PIECES)
    assert design.greedy is None
    assert design.gain > 1.2
