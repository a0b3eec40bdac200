"""Options of `solve`: schedules, solvers, what is kept, how it ends."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
from tests.problems import generic_overlaps, pair

R, Q, T = generic_overlaps(2, 2)
START = tu.Start(R, Q, T)
TIMES = np.linspace(0.0, 10.0, 11)


def test_a_piecewise_rate_equals_two_solves_in_a_row():
    """The jump falls between two recorded times and inside what would be one step."""
    rate = tu.schedules.Piecewise([3.7], [0.9, 0.2])
    whole = tu.solve(pair(2, 2, lr=rate, noise=0.2), START, TIMES, rtol=1e-10)
    first = tu.solve(pair(2, 2, lr=0.9, noise=0.2), START, [0, 3.7], rtol=1e-10)
    middle = tu.Start(first.R[-1], first.Q[-1], T)
    second = tu.solve(pair(2, 2, lr=0.2, noise=0.2), middle, [0, 10 - 3.7], rtol=1e-10)
    np.testing.assert_allclose(whole.R[-1], second.R[-1], atol=1e-8)
    np.testing.assert_allclose(whole.error[-1], second.error[-1], atol=1e-9)


def decay(t):
    return 0.8 / (1 + t / 3.0) ** 0.6


def half_wave(t):
    return 0.1 + 0.7 * (1 + np.cos(np.pi * np.minimum(t / 7.0, 1.0))) / 2


def knots(t):
    return 0.8 * 4.0 ** (
        np.clip(2 - t, -2.0, 0.0) / 2 + 1.5 * np.clip(t - 4, 0.0, 4.0) / 4
    )


@pytest.mark.parametrize(
    ("schedule", "rate"),
    [
        (tu.schedules.PowerDecay(0.8, 0.6, 3.0), decay),
        (tu.schedules.Cosine(0.8, 7.0, 0.1), half_wave),
        (tu.schedules.Constant(0.8), lambda t: 0.8),
        (tu.schedules.Interpolated([2.0, 4.0, 8.0], [0.8, 0.2, 1.6]), knots),
        (lambda t: 0.8 / (1 + t / 3.0) ** 0.6, decay),  # a user's own function
    ],
    ids=["power", "cosine", "constant", "interpolated", "function"],
)
def test_schedules_are_functions_of_time(schedule, rate):
    """One linear unit:

    e' = -2 eta e + eta^2 (e + sigma^2 / 2), by scipy, with the rate written out.
    """

    def slope(t, e, eta):
        return -2 * eta(t) * e + eta(t) ** 2 * (e + 0.045)

    def by_scipy(eta):
        return solve_ivp(
            slope,
            (0, 10),
            [0.65],
            "DOP853",
            TIMES,
            args=(eta,),
            rtol=1e-11,
            atol=1e-13,
            max_step=0.1,
        ).y[0]

    ours = tu.solve(
        pair(1, 1, "linear", lr=schedule, noise=0.3),
        tu.Start([[0.1]], [[0.5]]),
        TIMES,
        rtol=1e-10,
    )
    np.testing.assert_allclose(ours.error, by_scipy(rate), rtol=1e-7)
    assert np.abs(ours.error / by_scipy(lambda t: 0.75) - 1).max() > 1e-2


def test_gradient_flow_does_not_see_noise_batch_or_the_size_of_the_rate():
    slow = tu.solve(pair(2, 2, lr=0.1), START, TIMES * 5, gradient_flow=True)
    fast = tu.solve(
        pair(2, 2, lr=0.5, noise=0.7, batch=3), START, TIMES, gradient_flow=True
    )
    np.testing.assert_allclose(slow.error, fast.error, rtol=1e-6)


def test_rounding_does_not_carry_a_curve_away_at_large_learning_rates():
    """Q - Q^T, of no meaning and of the size of rounding, would grow through G and leave a stable fixed point."""
    start = tu.Start(
        [[0.9, 0.05], [-0.05, 0.85]], [[0.95, 0.02], [0.02, 0.9]], np.eye(2)
    )
    late = tu.solve(pair(2, 2, lr=3.0), start, TIMES * 300)
    np.testing.assert_allclose(late.Q, late.Q.swapaxes(-1, -2), atol=1e-10)
    np.testing.assert_allclose(late.error[-1], late.error[1], rtol=1e-6)
    assert (
        late.error[-1] > 0.01
    )  # control: zero error is unstable there, so the state is one that G holds


def test_the_implicit_solver_agrees():
    problem = pair(
        1, 1, "linear", noise=0.1, inputs=tu.Spectrum([30.0, 1.0], [0.02, 0.98])
    )
    start = tu.Start([[0.1]], [[0.5]])
    explicit = tu.solve(problem, start, TIMES)
    implicit = tu.solve(problem, start, TIMES, solver="implicit", rtol=1e-7)
    np.testing.assert_allclose(implicit.error, explicit.error, rtol=1e-5)


def test_levels_are_kept_when_few_or_asked_for():
    problem = pair(2, 2, inputs=tu.PowerLaw(1.0, 3))
    assert tu.solve(problem, START, [0, 1]).r.shape == (2, 3, 2, 2)
    with pytest.raises(tu.InputError, match="keep='blocks'"):
        _ = tu.solve(problem, START, [0, 1], keep="fields").r
    weights = np.asarray(problem.inputs.weights)
    out = tu.solve(problem, START, [0, 1], keep="blocks")
    np.testing.assert_allclose(
        np.einsum("l,tlab->tab", weights, out.q), out.Q, atol=1e-14
    )


def test_a_divergence_keeps_what_came_before():
    problem = pair(1, 1, "linear", lr=5.0)
    with pytest.warns(tu.errors.DivergenceWarning, match="with learning rate 5"):
        out = tu.solve(problem, tu.Start([[0.1]], [[0.5]]), np.linspace(0, 100, 401))
    assert not out.finished
    assert 0 < len(out.times) < 401
    assert out.times[-1] <= out.end_time
    assert all(np.all(np.isfinite(x)) for x in (out.error, out.R, out.Q))
    np.testing.assert_allclose(
        out.error, 0.65 * np.exp((5**2 - 2 * 5) * out.times), rtol=1e-6
    )


def test_a_blow_up_in_finite_time_is_a_divergence():
    problem = pair(2, 2, "quadratic", lr=1.0)
    with pytest.warns(tu.errors.DivergenceWarning, match="diverged at alpha"):
        out = tu.solve(problem, START, 10.0)
    assert out.end_time < 1


def test_running_out_of_steps_says_what_to_do():
    with pytest.warns(tu.errors.DivergenceWarning, match="Raise max_steps"):
        out = tu.solve(
            pair(1, 1, "linear"), tu.Start([[0.1]], [[0.5]]), 1000.0, max_steps=5
        )
    assert np.all(np.isfinite(out.error))


def test_times_may_be_one_number_a_list_or_time_zero():
    assert (
        tu.solve(pair(2, 2), START, 5.0).times.tolist()
        == np.linspace(0, 5, 201).tolist()
    )
    only = tu.solve(pair(2, 2), START, [0.0])
    np.testing.assert_allclose(only.R[0], R, atol=1e-12)
    log = tu.log_times(0.1, 100.0, 5)
    np.testing.assert_allclose(log, [0, 0.1, 1, 10, 100])


def test_a_default_start_is_drawn_at_a_thousand_dimensions():
    out = tu.solve(pair(2, 2), times=[0, 1])
    assert out.start.dim == 1000


def test_the_loss_adds_the_noise_of_the_labels():
    out = tu.solve(pair(2, 2, noise=0.3), START, TIMES)
    np.testing.assert_allclose(out.loss - out.error, 0.045)


def test_the_error_of_a_perfect_student_decays_cleanly():
    """Down to 1e-11, far below where a difference of arcsines would be noise; K = M = 1 in 40-digit arithmetic."""
    exact = {
        20: 2.620392972794415e-06,
        30: 6.15679964959203e-08,
        40: 1.5496936460225388e-09,
        50: 3.9230824401056924e-11,
    }
    out = tu.solve(
        pair(1, 1, lr=1.5), tu.Start([[0.1]], [[0.5]]), [0, *exact, 100, 200]
    )
    np.testing.assert_allclose(
        out.error[1:5], list(exact.values()), rtol=5e-6, atol=5e-16
    )  # overlaps are rounded
    assert np.all(out.error >= 0)


def test_rounding_refuses_no_step_of_perfect_relu_students():
    """Their drift has roots of rounding errors in it; an error of 1e-14 must not ask for more than that allows."""
    problem = pair(3, 3, "relu")
    theory = tu.solve(
        problem,
        tu.asymmetric_start(problem, dim=500),
        tu.linear_times(300, 21),
        max_steps=2000,
    )
    assert theory.finished
    assert theory.steps < 300
    assert theory.error[-1] < 1e-13


def test_the_progress_bar_is_silent_for_short_solves(capfd):
    quiet = tu.solve(pair(2, 2), START, TIMES)
    shown = tu.solve(pair(2, 2), START, TIMES, progress=True)
    np.testing.assert_allclose(
        quiet.error, shown.error, rtol=5e-12
    )  # another program, which rounds otherwise
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "solver", ["explicit", pytest.param("stiff", marks=pytest.mark.full)]
)
def test_default_tolerances_suit_single_precision(solver):
    problem = pair(2, 2, lr=0.5)
    start = tu.asymmetric_start(problem)
    times = [0.0, 50.0, 100.0, 200.0]
    exact = tu.solve(problem, start, times)
    with jax.enable_x64(False):
        rough = tu.solve(problem, start, times, solver=solver)
    assert rough.finished
    assert rough.error.dtype == np.float32
    assert (
        int(rough.steps) < 200
    )  # 1e-8 asks for more digits than there are: all steps are used up
    np.testing.assert_allclose(rough.error, exact.error, rtol=3e-3)
    assert dict(exact.settings)["rtol"] == 1e-8


@pytest.mark.parametrize(
    ("activation", "solver"),
    [
        ("erf", "explicit"),
        ("linear", "explicit"),
        pytest.param("erf", "stiff", marks=pytest.mark.full),
    ],
)
def test_a_rate_that_no_step_can_follow_keeps_the_initial_state(activation, solver):
    """By the machine code, the JAX program and diffrax:

    time zero is known, and another solver would not help.
    """
    problem = tu.Problem(
        tu.Network(2, activation), tu.Network(2, activation), optimizer=tu.SGD(lr=1e9)
    )
    start = tu.Start(R=[[0.2, 0.0], [0.1, 0.3]], Q=[[0.5, 0.1], [0.1, 0.5]])
    with pytest.warns(
        tu.errors.DivergenceWarning, match="Lower the learning rate"
    ) as warned:
        theory = tu.solve(problem, start, [0.0, 1.0], solver=solver)
    assert not any("stiff" in str(one.message) for one in warned)
    np.testing.assert_array_equal(theory.times, [0.0])
    np.testing.assert_array_equal(theory.R[0], start.R)
    expected = tu.generalization_error(problem, start.R, start.Q)
    assert theory.error[0] == pytest.approx(float(expected), rel=1e-12)
