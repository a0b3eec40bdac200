"""The best protocol: against closed forms, Pontryagin's condition, brute force and finite differences."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.special import lambertw

import tutelage as tu
from tests.problem.messages import require_refusal
from tests.problems import linear_regression, pair
from tutelage.analysis import protocols
from tutelage.analysis.protocols import checked_controls
from tutelage.plot import save_figure
from tutelage.solvers.program import step_tolerances

LEVELS, SHARES = np.array([1.8, 0.2]), np.array([0.5, 0.5])
R0, Q0, END = 0.2, 0.5, 30.0
E0 = (1 - 2 * R0 + Q0) / 2  # e_g of the linear start, whatever the spectrum
LINE = tu.Start([[R0]], [[Q0]])
KNOTS = END * (1 - np.cos(np.pi * np.arange(13) / 12)) / 2  # dense at both ends
SMOOTH = {"segments": KNOTS, "shape": "smooth"}


def line(levels=LEVELS, noise=0.5, batch=1, lr=0.5):
    """One linear unit on two levels (equal ones are isotropic inputs in the same program)."""
    return pair(
        1,
        1,
        "linear",
        inputs=tu.Spectrum(levels, SHARES),
        noise=noise,
        batch=batch,
        lr=lr,
    )


# ---- one linear unit, isotropic inputs: e' = -2 eta e + (eta^2 / B) (e + sigma^2 / 2), so eta* = B e / (e + sigma^2 / 2).
# The error alone is a closed system, so that the rate that lowers it fastest at every moment is the best of all.
def closed_form(times, noise, batch):
    """e' = -B e^2 / (e + s): with y = s / e, y + ln y grows as B alpha, so e = s / W(y0 exp(y0 + B alpha))."""
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
    decay, floor = 2 * rates - rates**2 / batch, rates**2 / batch * 0.125
    final = floor / decay + (E0 - floor / decay) * np.exp(-decay * END)
    assert found.best_constant.value == pytest.approx(final.min(), rel=1e-6)
    assert found.best_constant.controls["lr"] == pytest.approx(
        rates[final.argmin()], rel=2e-3
    )


def test_noise_with_a_budget_comes_first():
    """At a fixed rate e(T) adds eta^2/2 sigma^2 exp(-c (T - t)), c = 2 eta - eta^2. With the integral of sigma given, sigma is
    proportional to exp(c (T - t)), and one where that is more: noisy samples first, clean ones last."""
    eta, end, segments, most = 0.2, 10.0, 5, 1.0
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


# ---- one linear unit, two levels, by NumPy alone: E_l' = -2 eta lam_l E_l + eta^2 lam_l (sum_k p_k lam_k E_k + sigma^2)
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
    """The rate of smallest Hamiltonian along a path: costate p' = -p df/dE - running de/dE, p(T) = de/dE (running: 0)."""
    E, weights, h = follow(schedule, noise), SHARES * LEVELS / 2, GRID[1]
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
    knots, values = (
        np.asarray(two_levels.schedule.times),
        np.asarray(two_levels.schedule.values),
    )
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
    wanted, rates = pontryagin(ours, running=1.0), np.array([ours(t) for t in GRID])
    early = GRID < 0.8 * END  # later the integral hardly depends on the rate
    assert roughness(np.where(early, rates, 1.0), np.where(early, wanted, 1.0)) < 0.1
    E = follow(ours) @ (SHARES * LEVELS) / 2
    assert found.value == pytest.approx(np.trapezoid(E, GRID), rel=1e-3)


# ---- all controls: derivatives
ORDER_ONE = tu.Start([[0.4, 0.05], [0.05, 0.41]], 0.5 * np.eye(2))
UNIT = tu.Network(1, "erf")
TWO = tu.Problem(
    tu.Network(2, "erf", train_readout=True),
    tu.Tasks([UNIT, UNIT], similarity=0.5),
    optimizer=tu.SGD(lr=1.0),
)
TWO_START = tu.Start(
    [[0.05, 0.02], [-0.01, 0.03]],
    [[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)  # case 7 of the notes
SIGNS = tu.Problem(
    tu.Network(1, "linear"),
    tu.Network(1, "linear"),
    optimizer=tu.SGD(1.0),
    loss="logistic",
    labels="sign",
)
EVERYTHING = {
    "tasks, dropout": (
        TWO.replace(rule=tu.rules.Dropout(0.8), noise=0.1),
        TWO_START,
        {
            "lr": (0, 2),
            "readout_lr": (0, 2),
            "tasks": (0, 1),
            "noise": (0, 1),
            "weight_decay": (0, 0.1),
            "keep": (0.5, 1),
        },
    ),
    "flips": (SIGNS, tu.Start([[0.1]], [[0.5]]), {"flip": (0, 0.4)}),
    "feedback": (
        pair(2, 2).replace(rule=tu.rules.FeedbackAlignment([1.0, 0.5])),
        ORDER_ONE,
        {"feedback": (0, 2), "lr": (0, 1)},
    ),
    "replay": (
        TWO.replace(schedule=tu.Replay(0.2, after=5.0)),
        TWO_START,
        {"replay": (0, 1)},
    ),
}


def search_of(
    problem,
    start,
    controls,
    end=10.0,
    segments=2,
    objective="worst",
    shape="piecewise",
    level=1.0,
):
    """A search with fine steps: differences divide the error of a solve by their step."""
    edges = np.linspace(0.0, end, segments + 1)
    search = protocols.Search(
        problem,
        checked_controls(problem, controls),
        start=start,
        edges=edges,
        shape=shape,
        objective=objective,
        level=level,
        budgets={},
    )
    return eqx.tree_at(lambda s: s.steps, search, step_tolerances(1e-11, 1e-14))


def require_derivative(search, seed=2, step=2e-3):
    rng = np.random.default_rng(seed)
    point, direction = (
        rng.uniform(0.3, 0.7, search.size),
        rng.standard_normal(search.size),
    )
    f = [
        protocols.evaluate(search, point + k * step * direction).parts
        for k in (-2, -1, 1, 2)
    ]
    finite = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    slopes = protocols.evaluate(search, point).slopes
    np.testing.assert_allclose(slopes @ direction, finite, rtol=1e-6)
    assert np.all(np.abs(finite) > 1e-3)
    return slopes[0]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=[] if "tasks" in c else pytest.mark.full)
        for c in EVERYTHING
    ],
)
def test_gradient_equals_finite_differences(case):
    problem, start, controls = EVERYTHING[case]
    slope = require_derivative(search_of(problem, start, controls))
    rows = np.abs(slope).reshape(len(controls), -1).max(axis=1)
    assert np.all(rows > 1e-4), dict(
        zip(controls, rows, strict=True)
    )  # every control has a say


@pytest.mark.full
@pytest.mark.parametrize("objective", ["final", "integrated", "worst", "time"])
@pytest.mark.parametrize("shape", ["piecewise", "smooth"])
def test_gradient_of_every_objective(objective, shape):
    require_derivative(
        search_of(
            TWO,
            TWO_START,
            {"lr": (0, 2), "tasks": (0, 1)},
            objective=objective,
            shape=shape,
            level=0.12,
        ),
        step=2e-4
        if objective == "time"
        else 2e-3,  # it bends where the level is reached at a recorded time
    )


# ---- objectives
def last_overlap(trajectory):
    return -trajectory.R[-1, 0, 0]


def finely_integrated(problem):
    times = np.linspace(0.0, 5.0, 4001)
    return np.trapezoid(tu.solve(problem, LINE, times, gradient="forward").error, times)


def time_at_level(problem, level):
    """Return when the error of a curve falls to a level, by bisection with solves."""

    def excess(time):
        error = tu.solve(problem, LINE, times=np.array([0.0, time])).error
        return float(error[-1]) - level

    return scipy.optimize.brentq(excess, 1e-3, 5.0, xtol=1e-10)


OBJECTIVES = {
    "integrated": ("integrated", {}, lambda t: finely_integrated(t.problem), 1e-4),
    "time": (
        "time",
        {"level": 0.3},
        lambda t: time_at_level(t.problem, 0.3),
        1e-6,  # the root of the solved curve, whose own error is 1e-8 in the error
    ),
    "function": (last_overlap, {}, lambda t: -float(t.R[-1, 0, 0]), 1e-9),
}


@pytest.mark.full
@pytest.mark.parametrize("case", OBJECTIVES)
def test_objectives_mean_what_they_say(case):
    objective, options, measure, rtol = OBJECTIVES[case]
    found = tu.schedules.optimize(
        line(), LINE, 5.0, {"lr": (0.0, 1.0)}, objective, segments=3, **options
    )
    assert found.value == pytest.approx(measure(found.trajectory), rel=rtol)
    assert found.best_constant.value == pytest.approx(
        measure(found.best_constant.trajectory), rel=rtol
    )
    assert found.value <= found.best_constant.value + 1e-9
    assert str(found).startswith("protocol of lr")


@pytest.mark.full
def test_a_level_out_of_reach_is_said_and_drawn(tmp_path):
    found = tu.schedules.optimize(
        line(), LINE, 2.0, {"lr": (0.0, 1.0)}, "time", level=1e-6, segments=2, starts=1
    )
    assert found.value == np.inf
    assert str(found).count("not reached within 2") >= 3
    assert (
        found.trajectory.error[-1] < 0.999 * found.best_constant.trajectory.error[-1]
    )  # the search still lowers it
    save_figure(found.plot(), tmp_path / "protocol.png")


@pytest.mark.full
def test_the_worst_of_three_tasks():
    teachers = tu.Tasks([tu.Network(1, "erf", readout=v) for v in (1.0, 0.7, 1.3)])
    problem = tu.Problem(
        tu.Network(3, "erf", train_readout=True), teachers, optimizer=tu.SGD(lr=1.0)
    )
    start = tu.random_start(problem, dim=100, seed=1)
    found = tu.schedules.optimize(
        problem,
        start,
        20.0,
        {"tasks": (0, 1)},
        "worst",
        segments=3,
        iterations=15,
        starts=1,
    )
    last = np.asarray(found.trajectory.error)[-1]
    assert found.value == pytest.approx(last.max())
    assert found.gain > 1
    shares = np.array([s.values for s in found.schedules["tasks"].shares])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=1e-12)
    assert found.sensitivity["tasks"].shape == (3, 3)
    assert len(found.plot().axes[0].get_lines()) == 3


# ---- two tasks
@pytest.fixture(scope="module")
def two_tasks():
    """All controls of "tasks, dropout" at once, by the program of their derivatives."""
    problem, start, controls = EVERYTHING["tasks, dropout"]
    half = {name: (low + high) / 2 for name, (low, high) in controls.items()}
    return tu.schedules.optimize(
        problem,
        start,
        4.0,
        controls,
        "worst",
        segments=2,
        starts=1,
        iterations=30,
        baselines={"half": half},
    )


@pytest.mark.full
def test_two_tasks_gain_from_their_order():
    two_tasks = tu.schedules.optimize(
        TWO,
        TWO_START,
        60.0,
        {"lr": (0, 3), "tasks": (0, 1)},
        segments=6,
        starts=1,
        iterations=30,
        baselines={"half": {"tasks": 0.5, "lr": 0.86}},
    )
    assert "lr lies at its upper bound 3" in str(two_tasks)
    assert two_tasks.gain > 4
    half = two_tasks.baselines["half"]
    assert half.controls["tasks"] == 0.5
    assert half.value == pytest.approx(
        0.00615, rel=2e-3
    )  # as printed in the notes, near its best constant rate
    assert two_tasks.best_constant.value < half.value
    assert two_tasks.value == pytest.approx(
        np.asarray(two_tasks.trajectory.error)[-1].mean()
    )
    assert [two_tasks.sensitivity[name].shape for name in ("lr", "tasks")] == [
        (6,),
        (6,),
    ]
    assert all(
        np.all(x > -1e-3) for x in two_tasks.sensitivity.values()
    )  # no move helps


def test_the_protocol_is_a_value_for_solve_simulate_and_files(two_tasks):
    again = tu.Problem.from_toml(two_tasks.problem.to_toml())
    assert again.to_json() == two_tasks.problem.to_json()
    error = tu.solve(again, TWO_START, [0.0, 4.0], gradient="forward").error[-1]
    np.testing.assert_allclose(
        error, np.asarray(two_tasks.trajectory.error)[-1], rtol=1e-6
    )
    runs = two_tasks.simulate(dim=200, runs=3)
    assert np.shape(runs.error) == (3, two_tasks.trajectory.times.size, 2)


def test_the_worst_error_is_one_number_and_a_minimum(two_tasks):
    """The largest error itself, not a smooth stand-in: no random protocol near it is better."""
    last = np.asarray(two_tasks.trajectory.error)[-1]
    assert two_tasks.value == pytest.approx(last.max(), rel=1e-12)
    assert two_tasks.starts.min() == pytest.approx(two_tasks.value, rel=1e-6)
    assert f"descents ended at {two_tasks.value:.4g}; largest free slope" in str(
        two_tasks
    )
    assert two_tasks.slope < 1e-3
    problem, start, controls = EVERYTHING["tasks, dropout"]
    search = search_of(problem, start, controls, end=4.0)
    rows = [two_tasks.schedules[name] for name in controls]
    values = [
        np.asarray(row.shares.values if isinstance(row, tu.Interleave) else row.values)
        for row in rows
    ]
    bounds = np.array(list(controls.values()), float)
    point = ((np.array(values) - bounds[:, :1]) / np.diff(bounds)).ravel()
    rng = np.random.default_rng(0)
    steps = np.geomspace(1e-3, 0.1, 60)[:, None] * rng.standard_normal((60, point.size))
    others = np.exp(
        [search.value_at(near) for near in np.clip(point + steps, 0.0, 1.0)]
    )
    assert np.min(others) > two_tasks.value * (1 - 1e-5)
    assert (
        np.median(others) < 1.05 * two_tasks.value
    )  # the protocols tried are close by


def test_words_and_figure(two_tasks, tmp_path):
    text = str(two_tasks)
    assert "worst error up to alpha = 4" in text
    assert "\nlr lies at its upper bound 2" in text
    figure = two_tasks.plot()
    rates, _, shares, *_, errors = figure.axes  # one for each control
    assert len(figure.axes) == 7
    assert rates.get_ylabel().startswith("learning rate")
    assert shares.get_ylabel() == "share of task 1"
    (drawn,) = (line for line in shares.get_lines() if line.get_label() == "protocol")
    first = [
        float(two_tasks.schedules["tasks"].probabilities(t, 2)[0]) for t in (0.0, 4.0)
    ]
    assert drawn.get_ydata()[[0, -1]] == pytest.approx(first)
    labels = [
        line.get_label()
        for line in errors.get_lines()
        if not line.get_label().startswith("_")
    ]
    assert labels == ["protocol", "best constant", "half"]
    assert save_figure(figure, tmp_path / "protocol.png").stat().st_size > 10_000


@pytest.mark.full
def test_the_printed_case_of_two_tasks():
    """Ten times below the best 50/50 protocol; the shape of the protocol; runs of both sizes agree."""
    found = tu.schedules.optimize(
        TWO,
        TWO_START,
        60.0,
        {"lr": (0, 3), "tasks": (0, 1)},
        baselines={"half": {"tasks": 0.5}},
    )
    assert found.gains["half"] > 10
    assert found.baselines["half"].controls["lr"] == pytest.approx(
        0.86, abs=0.01
    )  # chosen best
    assert found.value == pytest.approx(0.00047, rel=0.05)
    assert np.ptp(found.starts) < 0.05 * found.value
    shares, rates = (
        np.asarray(found.schedules["tasks"].shares.values),
        np.asarray(found.schedules["lr"].values),
    )
    assert 0.4 < shares[6:18].mean() < 0.6
    assert np.all(np.diff(rates[-4:]) < 0)
    times = tu.linear_times(60, 13)
    theory = tu.solve(found.problem, TWO_START, times)
    for dim in (500, 2000):
        runs = tu.simulate(
            found.problem, TWO_START, dim=dim, times=times, runs=40, seed=1
        )
        assert tu.compare(theory, runs).agrees


# ---- interruption
def test_an_interruption_returns_the_best_so_far(monkeypatch):
    calls, real = [], protocols.value_and_slope

    def interrupted(search, point):
        calls.append(point)
        if len(calls) > 60:
            raise KeyboardInterrupt
        return real(search, point)

    monkeypatch.setattr(protocols, "value_and_slope", interrupted)
    found = tu.schedules.optimize(line(), LINE, END, {"lr": (0.0, 5.0)}, **SMOOTH)
    assert "interrupted" in str(found)
    assert found.gain > 1
    assert found.starts.min() == pytest.approx(found.value, rel=1e-6)


# ---- other problems
SMALL = tu.Start([[0.004, -0.001], [-0.002, 0.003]], 0.01 * np.eye(2))


@pytest.mark.full
def test_through_a_plateau_greedy_stays_and_the_protocol_leaves():
    """Greedy lowers its rate on the plateau and is caught."""
    problem = pair(2, 2, noise=0.1)
    caught = 0.0116108403  # e_g of the plateau for vanishing rates
    times = np.linspace(0.0, 60.0, 121)
    greedy = problem.replace(lr=tu.schedules.greedy(problem, SMALL, 60.0, (1e-3, 50.0)))
    assert tu.solve(greedy, SMALL, times).error[-1] == pytest.approx(caught, rel=0.04)
    found = tu.schedules.optimize(problem, SMALL, 60.0, {"lr": (0.0, 5.0)}, segments=12)
    assert found.value < 0.5 * min(caught, found.best_constant.value)


@pytest.mark.full
def test_at_the_end_the_best_rate_is_the_greedy_one_of_the_state_reached():
    """There the costate is the gradient of the error, so Pontryagin's rate is a / (2 b)."""
    problem = pair(2, 2, noise=0.1)
    found = tu.schedules.optimize(
        problem, ORDER_ONE, 100.0, {"lr": (0.0, 5.0)}, shape="smooth"
    )
    assert found.gain > 5
    last = tu.Start(found.trajectory.R[-1], found.trajectory.Q[-1])
    onwards = tu.schedules.greedy(problem, last, 1.0, (1e-3, 50.0))
    assert found.schedule.values[-1] == pytest.approx(onwards.values[0], rel=0.05)


@pytest.mark.full
def test_slow_momentum_has_a_best_schedule_too():
    problem = pair(1, 1, "linear", noise=0.5, momentum=tu.SlowMomentum(2.0))
    assert (
        tu.schedules.optimize(problem, LINE, END, {"lr": (0.0, 2.0)}, segments=8).gain
        > 1.2
    )


# ---- messages
PLAIN = pair(2, 2)
optimize, LR = tu.schedules.optimize, {"lr": (0.0, 1.0)}
FUNCTIONS = {
    "vector": lambda trajectory: trajectory.error[-1] * jnp.ones(2),
    "fails": lambda trajectory: trajectory.eror[-1],
    "integer": lambda trajectory: jnp.argmax(trajectory.error),
}
REFUSED = {
    "equations": (
        lambda: optimize(linear_regression(), LINE, 5.0, LR),
        ["Equations", "Problem"],
    ),
    "no start": (lambda: optimize(PLAIN, None, 5.0, LR), ["start", "random_start"]),
    "zero time": (lambda: optimize(PLAIN, SMALL, 0.0, LR), ["t_max", "0", "positive"]),
    "unknown control": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"learning_rate": (0, 1)}),
        ["learning_rate", "'lr'"],
    ),
    "near control": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"weight_deccay": (0, 1)}),
        ["'weight_decay'"],
    ),
    "no controls": (lambda: optimize(PLAIN, SMALL, 5.0, {}), ["controls", "'lr'"]),
    "batch": (lambda: optimize(PLAIN, SMALL, 5.0, {"batch": (1, 4)}), ["batch", "lr"]),
    "empty bounds": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"lr": (1.0, 1.0)}),
        ["lr", "1", "below"],
    ),
    "negative bounds": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"lr": (-1.0, 1.0)}),
        ["lr", "-1"],
    ),
    "three bounds": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"lr": (0.0, 1.0, 2.0)}),
        ["lr", "(2,)"],
    ),
    "a probability": (
        lambda: optimize(TWO, TWO_START, 5.0, {"tasks": (0.0, 2.0)}),
        ["tasks", "at most 1"],
    ),
    "one teacher": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"tasks": (0, 1)}),
        ["tasks", "tu.Tasks"],
    ),
    "no dropout": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"keep": (0.1, 1)}),
        ["keep", "Dropout"],
    ),
    "no feedback": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"feedback": (0, 1)}),
        ["feedback", "FeedbackAlignment"],
    ),
    "no replay": (
        lambda: optimize(TWO, TWO_START, 5.0, {"replay": (0, 1)}),
        ["replay", "Replay"],
    ),
    "no flips": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"flip": (0, 0.5)}),
        ["flip", "noise"],
    ),
    "fixed readout": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"readout_lr": (0, 1)}),
        ["readout", "train_readout=True"],
    ),
    "force": (
        lambda: optimize(
            pair(2, 2, momentum=tu.SlowMomentum(2.0, 0.3)), SMALL, 5.0, LR
        ),
        ["k", "first layer"],
    ),
    "objective": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, "finale"),
        ["objective", "'final'"],
    ),
    "a level reached at once": (
        lambda: optimize(
            line(), LINE, END, {"lr": (0.0, 5.0)}, "time", level=0.6, **SMOOTH
        ),
        ["0.6", "time 0", "0.55"],
    ),
    "no level": (lambda: optimize(PLAIN, SMALL, 5.0, LR, "time"), ["level"]),
    "not a number": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, FUNCTIONS["vector"]),
        ["objective", "(2,)", "number"],
    ),
    "a failing objective": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, FUNCTIONS["fails"]),
        ["objective", "fails", "eror"],
    ),
    "an integer": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, FUNCTIONS["integer"]),
        ["objective", "int", "number"],
    ),
    "segments": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, segments=0),
        ["segments", "0"],
    ),
    "edges beyond": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, segments=[0.0, 6.0]),
        ["segments", "t_max = 5"],
    ),
    "shape": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, shape="round"),
        ["shape", "smooth"],
    ),
    "infeasible budget": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, budgets={"lr": (6.0, 9.0)}),
        ["budget", "6", "5"],
    ),
    "a word as a budget": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, budgets={"lr": "much"}),
        ["budget", "lr", "number"],
    ),
    "unknown budget": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, budgets={"noise": 1.0}),
        ["budget", "noise", "lr"],
    ),
    "baseline": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, baselines={"a": 0.5}),
        ["baseline", "'a'", "table"],
    ),
    "baselines": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, baselines=[0.5]),
        ["baselines", "table"],
    ),
    "divergence": (
        lambda: optimize(line(), LINE, END, {"lr": (9.0, 90.0)}, **SMOOTH),
        ["finite", "lower"],
    ),
    "nothing to learn": (
        lambda: optimize(
            line(noise=0.0),
            tu.Start([[1.0]], [[1.0]]),
            END,
            {"lr": (0.0, 5.0)},
            **SMOOTH,
        ),
        ["rounding", "t_max"],
    ),
    "greedy bounds": (
        lambda: tu.schedules.greedy(PLAIN, SMALL, 5.0, (1.0, 0.5)),
        ["bounds", "below"],
    ),
    "greedy slow": (
        lambda: tu.schedules.greedy(
            pair(2, 2, momentum=tu.SlowMomentum(2.0)), SMALL, 5.0
        ),
        ["greedy", "SlowMomentum"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused_in_one_sentence(case):
    call, mentions = REFUSED[case]
    with pytest.raises(tu.InputError) as caught:
        call()
    require_refusal(caught.value, *mentions)
