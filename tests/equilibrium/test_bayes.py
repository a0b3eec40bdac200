"""Bayes-optimal learning: digits, closed forms, free entropies, and a bound."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.equilibrium.cases import UNIT, linear
from tutelage import InputError
from tutelage.equilibrium import two_units
from tutelage.equilibrium.information import Posterior, evidence_of
from tutelage.equilibrium.setting import setting_of

bayes = tu.analysis.bayes_optimal
FUNCTION = tu.labels.Function


def overlap(found) -> float:
    return float(np.ravel(found.Q)[0])


@pytest.mark.parametrize(
    ("flip", "ratio", "q", "error", "label_error"),
    [
        (0.0, 1.0, 0.48626364, 0.25437297, 0.25437297),
        (0.0, 2.0, 0.72829817, 0.17453419, 0.17453419),
        (0.0, 5.0, 0.93206425, 0.08393517, 0.08393517),
        (0.1, 5.0, 0.80118474, 0.14711170, 0.21768936),
    ],
)
def test_signs(flip, ratio, q, error, label_error):
    found = bayes(linear(loss="logistic", labels=tu.labels.Sign(flip)), ratio)
    assert overlap(found) == pytest.approx(q, abs=1e-8)
    assert found.error == pytest.approx(error, abs=1e-8)
    assert found.label_error == pytest.approx(label_error, abs=1e-8)
    assert overlap(found) == float(found.R[0, 0])


def test_signs_of_many_samples():
    """ratio * error tends to 0.4416."""
    found = bayes(linear(labels="sign"), [20.0, 80.0])
    np.testing.assert_allclose(found.error * [20, 80], [0.44018, 0.44160], atol=1e-5)


def test_real_labels():
    """Ridge regression with ridge sigma^2 is Bayes-optimal."""
    problem = linear(noise=0.3)
    best = bayes(problem, [0.5, 2.0])
    ridge = tu.analysis.empirical_minimum(problem, [0.5, 2.0], ridge=0.09)
    np.testing.assert_allclose(best.error, ridge.error, atol=1e-9)
    np.testing.assert_allclose(best.loss, ridge.loss, atol=1e-9)


def test_levels():
    """The same for two levels of inputs, where ridge is sigma^2 / t for equal t."""
    problem = tu.Problem(UNIT, UNIT, inputs=tu.Spectrum([2.5, 0.5], [0.25, 0.75]))
    problem = problem.replace(noise=0.4)
    best = bayes(problem, 1.5)
    ridge = tu.analysis.empirical_minimum(problem, 1.5, ridge=0.16)
    assert best.error == pytest.approx(ridge.error, abs=1e-9)
    np.testing.assert_allclose(best.R, ridge.R, atol=1e-8)


@pytest.fixture(scope="module")
def absolute():
    labels = FUNCTION(lambda rho, xi: jnp.abs(rho[0]))
    return bayes(linear(labels=labels), [0.4, 0.6, 1.05, 1.2])


def test_the_absolute_value_has_three_thresholds(absolute):
    assert absolute.weak_recovery == pytest.approx(0.5, abs=1e-4)
    assert absolute.algorithmic_threshold == pytest.approx(1.1285, abs=1e-4)
    assert absolute.information_threshold == pytest.approx(1.0, abs=1e-4)
    assert absolute.perfect_above == pytest.approx(1.0, abs=1e-4)
    assert "jumps at ratio 1;" in str(absolute)


def test_the_fixed_points_of_the_absolute_value(absolute):
    nothing, few, between, many = absolute.fixed_points
    assert [(point.Q[0, 0], point.stable) for point in nothing] == [(0.0, True)]
    assert [point.stable for point in few] == [False, True]
    assert few[1].Q[0, 0] == pytest.approx(0.0518203, abs=1e-7)
    assert [point.stable for point in between] == [False, True, False, True]
    assert absolute.error[2] == 0.0
    assert absolute.reached_error[2] > 0.05
    assert absolute.reached_error[3] == 0.0
    assert many[-1].free_entropy == np.inf


def test_free_entropies_are_stationary_at_fixed_points():
    """A negative control of the bookkeeping: d/d ln qhat vanishes there only."""
    from tutelage.equilibrium.bayes import BayesCurve

    setting = setting_of(linear(labels=tu.labels.Sign(0.1)))
    curve = BayesCurve(setting, evidence_of(setting, "a test"))
    (point,) = curve.fixed_points(2.0)
    u = np.log(point.information)

    def full(x, y):
        """The free entropy with qhat = exp(x) and q of exp(y)."""
        prior = (np.exp(x) - np.log1p(np.exp(x))) / 2
        q = curve.posterior(y).q
        integral = np.interp(y, curve.u, curve._integral)
        return prior - q * np.exp(x) / 2 + 2.0 * integral

    step = 0.05
    by_qhat = (full(u + step, u) - full(u - step, u)) / (2 * step)
    by_q = (full(u, u + 0.3) - full(u, u - 0.3)) / 0.6
    assert abs(by_qhat) < 1e-3
    assert abs(by_q) < 2e-2
    assert abs(full(u + 1 + step, u + 1) - full(u + 1 - step, u + 1)) / (2 * step) > 0


def test_information_by_monte_carlo():
    """E[(E[rho | y, omega] - omega)^2] / V^2 for erf labels with noise, on samples."""
    setting = setting_of(tu.Problem(UNIT, tu.Network(1, "erf"), noise=0.3))
    evidence = evidence_of(setting, "a test")
    found = evidence.information(Posterior(q=0.4, V=0.6))
    rng = np.random.default_rng(0)
    from scipy.special import erf

    omega = np.sqrt(0.4) * rng.standard_normal(4000)
    rho = omega + np.sqrt(0.6) * rng.standard_normal(4000)
    y = erf(rho / np.sqrt(2)) + 0.3 * rng.standard_normal(4000)
    x = np.linspace(-7, 7, 401)
    near = omega[:, None] + np.sqrt(0.6) * x
    weight = np.exp(-((y[:, None] - erf(near / np.sqrt(2))) ** 2) / 0.18 - x**2 / 2)
    score = (weight @ x) / weight.sum(axis=1) / np.sqrt(0.6)
    error = np.std(score**2) / np.sqrt(4000)
    assert abs(found - np.mean(score**2)) < 4 * error


def test_relu_without_noise():
    """Half of the labels are exact equations: zero error needs twice as many samples."""
    found = bayes(tu.Problem(UNIT, tu.Network(1, "relu")), 1.0)
    assert found.perfect_above == pytest.approx(2.0, abs=1e-4)
    assert 0 < found.error < 0.2


@pytest.mark.full
def test_a_custom_law_agrees_with_the_named_one():
    def label(rho, xi):
        return jnp.where(xi < 1 / (1 + jnp.exp(-rho[0])), 1.0, -1.0)

    custom = bayes(linear(labels=FUNCTION(label, metric="class")), 2.0)
    named = bayes(linear(loss="logistic", labels="logistic"), 2.0)
    assert overlap(custom) == pytest.approx(overlap(named), rel=1e-5)
    assert custom.error == pytest.approx(named.label_error, rel=1e-5)


@pytest.mark.parametrize(
    "seed",
    [*range(6), *(pytest.param(i, marks=pytest.mark.full) for i in range(6, 100))],
)
def test_nothing_is_below_bayes(seed):
    """The bound holds for every loss, ridge, law of labels and ratio."""
    rng = np.random.default_rng(seed)
    flip = float(rng.choice([0.0, rng.uniform(0, 0.3)]))
    labels = [tu.labels.Sign(flip), tu.labels.Logistic(rng.uniform(0.5, 4)), "real"]
    law = labels[rng.integers(3)]
    losses = ["squared", "huber", "absolute"]
    noise = float(rng.uniform(0.05, 1.0)) if law == "real" else 0.0
    if law != "real":
        losses += ["hinge", "logistic"]
    problem = linear(loss=losses[rng.integers(len(losses))], labels=law, noise=noise)
    ratios = np.exp(rng.uniform(-1, 2, 5))
    ridge = float(np.exp(rng.uniform(-4, 1)))
    best = bayes(problem, ratios)
    found = tu.analysis.empirical_minimum(problem, ratios, ridge=ridge)
    assert np.all(best.error <= found.error + 1e-9)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8))
def test_no_stream_is_below_bayes(seed):
    """One pass of SGD from R = 0 has used ratio = alpha at time alpha."""
    rng = np.random.default_rng(seed)
    options = {"noise": float(rng.uniform(0.05, 1.0))}
    if seed % 2:
        options = {"loss": "logistic", "labels": tu.labels.Sign(rng.uniform(0, 0.3))}
    problem = linear(optimizer=tu.SGD(float(rng.uniform(0.1, 1.5))), **options)
    start = tu.Start(np.zeros((1, 1)), np.array([[rng.uniform(0.0, 1.0)]]))
    ratios = np.sort(np.exp(rng.uniform(-2, 3, 6)))
    curve = tu.solve(problem, start, np.concatenate([[0.0], ratios]))
    best = bayes(problem, ratios)
    assert np.all(best.error <= curve.error[1:] + 1e-6)
    # a negative control: with knowledge of the teacher the bound does not hold
    known = tu.Start(np.array([[0.999]]), np.array([[1.0]]))
    close = tu.solve(problem, known, [0.0, 0.01]).error[-1]
    assert close < bayes(problem, 0.01).error


def test_what_has_no_likelihood():
    student_t = tu.Problem(UNIT, UNIT, noise=lambda u: np.tan(np.pi * (u - 0.5) / 1.1))
    with pytest.raises(InputError, match="quantile function"):
        bayes(student_t, 1.0)
    with pytest.raises(InputError, match="3 teacher fields"):
        bayes(tu.Problem(UNIT, tu.Network(3, "erf")), 1.0)
    with pytest.raises(InputError, match="ratio is missing"):
        bayes(linear())


# Two units


def three_labels(rho, xi):
    return (jnp.sign(rho[0]) + jnp.sign(rho[1])) / 2


def test_sign_units_are_distinguished_above_a_ratio():
    """Three labels: near 2.04 in the literature."""
    problem = tu.Problem(UNIT, tu.Network(2, "linear"), labels=three_labels)
    found = bayes(problem, [1.0, 3.0])
    assert found.algorithmic_threshold == pytest.approx(2.0524, abs=1e-3)
    np.testing.assert_allclose(found.Q[0], np.full((2, 2), found.Q[0, 0, 0]))
    assert found.Q[1, 0, 0] > 2 * found.Q[1, 0, 1]
    assert "distinguished above ratio 2.05" in str(found)


def test_quadrants_by_grids():
    """Both kinds of evidence on labels that fall on no edge of the grids."""
    problem = tu.Problem(UNIT, tu.Network(2, "sign"), noise=0.5)
    setting = setting_of(problem)
    exact = two_units.pair_evidence(setting, "a test")
    assert isinstance(exact, two_units.QuadrantEvidence)
    grids = two_units._on_grids(setting, exact.T, 0.5, False, "a test")
    for overlaps in ((0.3, 0.0), (0.5, 0.3)):
        one, other = exact.averages(*overlaps), grids.averages(*overlaps)
        assert one.plus == pytest.approx(other.plus, rel=0.03)
        error = one.prediction.error
        assert error == pytest.approx(other.prediction.error, rel=0.03)


def test_two_erf_units_by_sampled_evidence():
    """I+ and I- of random labels, their evidence by a plane of fields."""
    from scipy.special import erf

    problem = tu.Problem(UNIT, tu.Network(2, "erf"), noise=0.3)
    evidence = two_units.pair_evidence(setting_of(problem), "a test")
    found = evidence.averages(0.5, 0.3)
    rng = np.random.default_rng(0)
    n = 600
    omega = np.sqrt([0.5, 0.3]) * rng.standard_normal((n, 2))
    spread = np.sqrt([0.5, 0.7])
    own = omega + spread * rng.standard_normal((n, 2))

    def output(up, down):
        return erf((up + down) / 2) + erf((up - down) / 2)

    y = output(own[:, 0], own[:, 1]) + 0.3 * rng.standard_normal(n)
    x = np.linspace(-5.5, 5.5, 61)
    up, down = (values.ravel() for values in np.meshgrid(x, x))
    scores = np.empty((n, 2))
    for i in range(n):
        f = output(omega[i, 0] + spread[0] * up, omega[i, 1] + spread[1] * down)
        weight = np.exp(-((y[i] - f) ** 2) / 0.18 - (up**2 + down**2) / 2)
        scores[i] = [weight @ up, weight @ down] / weight.sum() / spread
    for side, value in enumerate((found.plus, found.minus)):
        squares = scores[:, side] ** 2
        assert abs(value - squares.mean()) < 4 * squares.std() / np.sqrt(n)


def test_units_that_differ_are_not_supported():
    readout = tu.Network(2, "erf", readout=[1.0, 0.5])
    with pytest.raises(InputError, match="change places"):
        bayes(tu.Problem(UNIT, readout, noise=0.3), 1.0)
    with pytest.raises(InputError, match=r"noise of 0\.1 or more"):
        bayes(tu.Problem(UNIT, tu.Network(2, "erf"), noise=0.01), 1.0)


def test_bounds_of_errors_on_grids_cover_finer_grids():
    """Two erf units at a ratio where they are distinguished: 25 x 61 grid points."""
    setting = setting_of(tu.Problem(UNIT, tu.Network(2, "erf"), noise=0.3))
    evidence = two_units.pair_evidence(setting, "a test")
    usual = evidence.averages(0.5, 0.3)
    coarse = evidence.coarser().averages(0.5, 0.3)
    fine = replace(evidence, outer=25, inner=61).averages(0.5, 0.3)
    for name in ("plus", "minus"):
        value = getattr(usual, name)
        distance = abs(value - getattr(fine, name))
        assert distance < abs(value - getattr(coarse, name)) + 2e-4 * value
        # the coarse grids are visibly worse, or no estimate could come from them
        assert coarse != usual


@pytest.mark.full
def test_the_bound_of_a_threshold_covers_its_error():
    problem = tu.Problem(UNIT, tu.Network(2, "erf"), noise=0.3)
    evidence = two_units.pair_evidence(setting_of(problem), "a test")
    fine = replace(evidence, outer=25, inner=61)
    found = bayes(problem, [4.0])
    expected = two_units.PairCurve(fine)
    threshold = expected.thresholds.algorithmic
    distance = abs(found.algorithmic_threshold - threshold)
    assert 1e-4 < distance < found.threshold_bound < 0.02 * threshold
    points = [point for point in expected.fixed_points(4.0) if point.stable]
    error = expected.prediction(points[0]).error
    assert abs(found.error[0] - error) < found.error_bound[0] < 0.01 * error
    assert "±" in str(found)
