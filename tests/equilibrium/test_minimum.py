"""The minimum of a convex loss: published digits, closed forms, second routes."""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.equilibrium.cases import UNIT, linear, ridge_regression
from tutelage import InputError
from tutelage.equilibrium import minimum
from tutelage.equilibrium.averages import averages_for
from tutelage.equilibrium.setting import setting_of

solve = tu.analysis.empirical_minimum

DIGITS = {  # m, q, V, train loss, test loss, test error, train error
    ("logistic", 3.0, 0.03, 0.0): (
        3.485527, 14.485819, 6.783099, 0.098094, 0.288815, 0.131564, 0.001593,
    ),
    ("hinge", 2.0, 0.5, 0.1): (
        0.755374, 1.143317, 0.753217, 0.271448, 0.691200, 0.250298, 0.094566,
    ),
    ("squared", 2.0, 0.5, 0.1): (
        0.459086, 0.428696, 0.561553, 0.172778, 0.421310, 0.252664, 0.070724,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DIGITS)
def test_digits_of_an_independent_prototype(case):
    loss, ratio, ridge, flip = case
    found = solve(linear(loss=loss, labels=tu.labels.Sign(flip)), ratio, ridge=ridge)
    numbers = (
        found.R[0, 0], found.Q[0, 0], found.susceptibility, found.train_loss,
        found.loss, found.error, found.train_error,
    )  # fmt: skip
    # the prototype's trapezoids miss kinks of the hinge by 2e-6
    np.testing.assert_allclose(numbers, DIGITS[case], atol=3e-6)


@pytest.mark.parametrize(
    ("loss", "ratio", "decay", "digits"),
    [
        ("logistic", 2.0, 0.05, (1.720313, 4.145804, 0.182150)),
        ("squared", 2.0, 0.1, (0.679533, 0.676516, 0.097604)),
    ],
)
def test_the_default_ridge_is_weight_decay_times_ratio(loss, ratio, decay, digits):
    """Digits of long full-batch gradient descent, by another theory."""
    problem = linear(
        loss=loss, labels="sign", optimizer=tu.SGD(0.5, weight_decay=decay)
    )
    found = solve(problem, ratio)
    assert found.ridge == pytest.approx(ratio * decay)
    numbers = (found.R[0, 0], found.Q[0, 0], found.train_loss)
    np.testing.assert_allclose(numbers, digits, atol=1e-6)


@pytest.mark.parametrize(
    ("ratio", "ridge", "noise", "error", "train"),
    [
        (2.0, 0.1, 0.3, 0.03860658, 0.02458004),
        (0.5, 0.2, 0.0, 0.27074971, 0.01603993),
        (3.0, 1.0, 0.5, 0.0788721, 0.12012089),
    ],
)
def test_ridge_regression(ratio, ridge, noise, error, train):
    """The closed form by Marchenko and Pastur, to 1e-8."""
    m, q = ridge_regression(ratio, ridge, noise)
    found = solve(linear(noise=noise), ratio, ridge=ridge)
    assert found.R[0, 0] == pytest.approx(m, abs=1e-8)
    assert found.Q[0, 0] == pytest.approx(q, abs=1e-8)
    assert found.error == pytest.approx(error, abs=1e-8)
    assert found.train_loss == pytest.approx(train, abs=1e-8)
    # squared loss is the error on stored labels
    assert found.train_error == pytest.approx(found.train_loss, abs=1e-12)
    assert found.loss == pytest.approx(found.error + noise**2 / 2, abs=1e-12)


def test_without_the_reaction_of_a_sample_ridge_regression_fails(monkeypatch):
    """A negative control: the term Vhat m of mhat."""

    def conjugates(self, found, overlaps, ratio):
        V = ratio * found.slope
        field = self._inverse_T @ (ratio * found.with_fields)
        return minimum.Conjugates(V=V, q=ratio * found.second, m=field)

    monkeypatch.setattr(minimum.StateEvolution, "conjugates", conjugates)
    found = solve(linear(noise=0.3), 2.0, ridge=0.1)
    m, _ = ridge_regression(2.0, 0.1, 0.3)
    assert abs(found.R[0, 0] - m) > 0.1


def test_a_stretched_teacher_and_readout():
    """Weights and labels may be measured in other units."""
    usual = solve(linear(noise=0.3), 2.0, ridge=0.1)
    stretched = tu.Problem(
        tu.Network(1, "linear", readout=3.0),
        tu.Network(1, "linear", readout=0.5, gram=[[4.0]]),
        noise=0.3,
    )
    found = solve(stretched, 2.0, ridge=0.9)
    # the output is 3 w.x, the teacher's vector has length 2
    assert found.error == pytest.approx(usual.error, abs=1e-9)
    assert found.Q[0, 0] == pytest.approx(usual.Q[0, 0] / 9, abs=1e-9)
    assert found.R[0, 0] == pytest.approx(usual.R[0, 0] * 2 / 3, abs=1e-9)
    assert found.train_loss == pytest.approx(usual.train_loss, abs=1e-9)


def test_two_linear_teacher_units_are_one():
    """Their labels depend on the sum of their fields."""
    teacher = tu.Network(2, "linear", readout=[0.6, 0.8])
    usual = solve(linear(loss="huber", noise=0.5), 2.0, ridge=0.1)
    found = solve(tu.Problem(UNIT, teacher, loss="huber", noise=0.5), 2.0, ridge=0.1)
    assert found.R.shape == (1, 2)
    np.testing.assert_allclose(found.R, usual.R * [0.6, 0.8], atol=1e-9)
    assert found.error == pytest.approx(usual.error, abs=1e-9)


def test_squared_loss_sees_a_nonlinear_teacher_as_noise():
    """f(rho) = b rho + an uncorrelated rest, which acts as noise of its variance."""
    teacher = tu.Network(1, "erf")
    b = np.sqrt(2 / np.pi) / np.sqrt(2)  # E[erf(z / sqrt 2)'] = E[z erf(z / sqrt 2)]
    rest = np.sqrt(1 / 3 - b**2)  # E[erf(z / sqrt 2)^2] = 1/3
    found = solve(tu.Problem(UNIT, teacher), 2.0, ridge=0.1)
    m, q = ridge_regression(2.0, 0.1, rest / b)
    assert found.R[0, 0] == pytest.approx(b * m, abs=1e-8)
    assert found.Q[0, 0] == pytest.approx(b**2 * q, abs=1e-8)


def test_levels_act_as_blocks_of_a_ridge_regression():
    """The equations of a spectrum, solved as a scalar fixed point of V."""
    lam = np.array([2.5, 0.5])
    p = np.array([0.25, 0.75])
    t = np.array([1.3, 0.7])
    noise, ratio, ridge = 0.4, 1.5, 0.2
    problem = tu.Problem(
        UNIT,
        tu.Network(1, "linear", gram=t[:, None, None]),
        inputs=tu.Spectrum(lam, p),
        noise=noise,
    )
    found = solve(problem, ratio, ridge=ridge)
    # deterministic equivalents: w = (k + lam)^-1 lam w*, kappa by the trace
    kappa = 1.0
    for _ in range(2000):
        kappa = ridge / (ratio - np.sum(p * lam / (kappa + lam)))
    shrink = lam / (lam + kappa)
    second = np.sum(p * shrink**2)
    bias = np.sum(p * lam * t * (1 - shrink) ** 2)
    risk = (bias + noise**2) / (1 - second / ratio)  # E(y - h)^2 of fresh labels
    assert found.R[0, 0] == pytest.approx(np.sum(p * lam * t * shrink), abs=1e-8)
    assert found.loss == pytest.approx(risk / 2, abs=1e-8)


def random_feature_risk(ratio: float, ridge: float, psi: float, noise: float) -> float:
    """E(h - y)^2 of ridge regression on erf features, by Marchenko and Pastur's law."""
    k1 = 1 / np.pi  # E[z erf(z / sqrt 2)]^2
    rest = 1 / 3 - k1
    angle = np.arange(1, 4001) * np.pi / 4001
    s = 1 + psi + 2 * np.sqrt(psi) * np.cos(angle)
    weight = np.sin(angle) ** 2 / s
    weight /= weight.sum()
    u = k1 * s + rest
    m, q, V = 0.1, 1.0, 1.0
    for _ in range(3000):
        second = (1 + noise**2 - 2 * m + q) / (1 + V) ** 2
        hat = ratio / (1 + V)
        D = ridge + hat * u
        D0 = ridge + hat * rest
        V = weight @ (u / D) / psi + (1 - 1 / psi) * rest / D0
        m = hat * (weight @ (k1 * s / D))
        flat = weight @ (u**2 / D**2) / psi + (1 - 1 / psi) * rest**2 / D0**2
        q = ratio * second * flat + hat**2 * (weight @ (k1 * s * u / D**2))
    return 1 + noise**2 - 2 * m + q


def test_random_features():
    """erf features of a latent vector, two for each of its dimensions."""
    inputs = tu.HiddenManifold("random", "erf", dim_latent=600, dim=1200, levels=400)
    problem = tu.Problem(UNIT, UNIT, inputs=inputs, noise=0.1)
    ratios = [0.25, 1.0, 4.0]
    found = solve(problem, ratios, ridge=0.01)
    expected = [random_feature_risk(ratio, 0.01, 2.0, 0.1) for ratio in ratios]
    np.testing.assert_allclose(2 * found.loss, expected, rtol=1e-4)


def test_explicit_covariances():
    """Psi, Phi, Omega of features: teacher with teacher, with student, among student."""
    rng = np.random.default_rng(3)
    N, D = 40, 60
    F = rng.standard_normal((N, D)) / np.sqrt(D)
    Omega = F @ F.T + 0.1 * np.eye(N)
    theta = rng.standard_normal(D) * np.sqrt(N / D)
    Phi = F
    Psi = np.eye(D)
    lam, vectors = np.linalg.eigh(Omega)
    visible = vectors.T @ np.linalg.solve(Omega, Phi @ theta)
    unseen = (theta @ Psi @ theta - visible**2 @ lam) / N
    problem = tu.Problem(
        UNIT,
        tu.Network(
            1, "linear", gram=(visible**2)[:, None, None], unseen=[[max(unseen, 0.0)]]
        ),
        inputs=tu.Spectrum(lam, normalize=False),
        noise=0.2,
    )
    found = solve(problem, 2.0, ridge=0.1)
    kappa = 1.0
    for _ in range(2000):
        kappa = 0.1 / (2.0 - np.mean(lam / (kappa + lam)))
    shrink = lam / (lam + kappa)
    bias = np.mean(lam * visible**2 * (1 - shrink) ** 2) + unseen + 0.04
    risk = bias / (1 - np.mean(shrink**2) / 2.0)
    assert 2 * found.loss == pytest.approx(risk, rel=1e-7)


# Custom losses and labels


@pytest.mark.parametrize(
    ("named", "function", "labels", "tolerance"),
    [
        ("logistic", lambda o, y: jnp.logaddexp(0.0, -y * o), tu.labels.Sign(0.1), 1e-8),
        ("huber", lambda o, y: jnp.where(
            jnp.abs(o - y) < 1, (o - y) ** 2 / 2, jnp.abs(o - y) - 0.5
        ), "real", 2e-5),
        ("absolute", lambda o, y: jnp.abs(o - y), "real", 2e-5),
    ],
)  # fmt: skip
def test_a_custom_loss_agrees_with_the_named_one(named, function, labels, tolerance):
    """Newton's method inside a bracket, on a grid, against clipped lines."""
    noise = 0.5 if labels == "real" else 0.0
    usual = solve(linear(loss=named, labels=labels, noise=noise), 3.0, ridge=0.3)
    custom = solve(linear(loss=function, labels=labels, noise=noise), 3.0, ridge=0.3)
    for name in ("R", "Q", "loss", "train_loss", "train_error", "error"):
        expected = getattr(usual, name)
        np.testing.assert_allclose(getattr(custom, name), expected, rtol=tolerance)


def test_a_custom_label_law_agrees_with_the_named_one():
    def label(rho, xi):
        return jnp.where(xi < 1 / (1 + jnp.exp(-rho[0])), 1.0, -1.0)

    labels = tu.labels.Function(label, metric="class")
    usual = solve(linear(loss="hinge", labels="logistic"), 3.0, ridge=0.5)
    custom = solve(linear(loss="hinge", labels=labels), 3.0, ridge=0.5)
    np.testing.assert_allclose(custom.R, usual.R, rtol=1e-5)
    np.testing.assert_allclose(custom.train_loss, usual.train_loss, rtol=1e-5)
    # its error is averaged over xi, as the library defines it
    assert custom.error == pytest.approx(usual.label_error, rel=1e-5)


def test_any_convex_loss_of_real_labels():
    """A loss that depends on output and label separately, averaged over all nodes."""
    weighted = solve(
        linear(loss=lambda o, y: (o - y) ** 2 / 2 * (1 + 1e-7 * y**2), noise=0.5),
        3.0,
        ridge=1.0,
    )
    usual = solve(linear(noise=0.5), 3.0, ridge=1.0)
    np.testing.assert_allclose(weighted.Q, usual.Q, rtol=1e-5)


def test_the_averages_by_monte_carlo():
    """E[g^2], -E[g'] and E[g rho] of the hinge, on samples."""
    problem = linear(loss="hinge", labels=tu.labels.Sign(0.1))
    averages = averages_for(setting_of(problem))
    overlaps = minimum.MinimumState(m=np.array([0.7]), q=1.2, V=0.8)
    found = averages.at(overlaps, everything=True)
    rng = np.random.default_rng(0)
    n = 400_000
    rho = rng.standard_normal(n)
    omega = 0.7 * rho + np.sqrt(1.2 - 0.49) * rng.standard_normal(n)
    y = np.sign(rho) * np.where(rng.random(n) < 0.1, -1, 1)
    g = y * np.clip((1 - y * omega) / 0.8, 0, 1)
    h = omega + 0.8 * g
    inside = (y * omega > 1 - 0.8) & (y * omega < 1)
    expected = {
        "second": g**2,
        "slope": inside / 0.8,
        "loss": np.maximum(1 - y * h, 0),
        "test_loss": np.maximum(1 - y * omega, 0),
        "residual": (y - h) ** 2,
    }
    for name, values in expected.items():
        error = values.std() / np.sqrt(n)
        assert abs(getattr(found, name) - values.mean()) < 4 * error, name
    values = g * rho
    error = values.std() / np.sqrt(n)
    assert abs(found.with_fields[0] - values.mean()) < 4 * error


# The end of gradient descent


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "ratio", "decay", "lr", "end"),
    [
        ({"noise": 0.5}, 2.0, 0.05, 0.6, 60.0),
        ({"loss": "logistic", "labels": "sign"}, 2.0, 0.1, 3.0, 40.0),
    ],
)
def test_gradient_descent_ends_in_the_minimum(options, ratio, decay, lr, end):
    """By the theory of a data set, and by simulated descent."""
    problem = linear(
        data=tu.DataSet(ratio),
        optimizer=tu.optimizers.GradientDescent(lr=lr, weight_decay=decay),
        **options,
    )
    found = solve(problem)
    assert found.ridge == pytest.approx(ratio * decay)
    start = tu.Start(np.zeros((1, 1)), np.array([[0.01]]))
    times = [0.0, end / 2, end]
    curve = tu.solve(problem, start, times, accuracy=5e-4)
    runs = tu.simulate(problem, start, dim=1000, times=times, runs=20, seed=1)
    expected = {
        "R": found.R[0, 0],
        "Q": found.Q[0, 0],
        "train_loss": found.train_loss,
    }
    for name, value in expected.items():
        final = np.ravel(curve[name][-1])[0]
        assert final == pytest.approx(value, abs=1e-3, rel=1e-3), name
        of_runs = np.ravel(np.reshape(runs[name], (20, 3, -1))[:, -1, 0])
        error = of_runs.std(ddof=1) / np.sqrt(20)
        assert abs(of_runs.mean() - value) < 4 * error, name
    # a negative control: half of the ridge is far from these numbers
    half = solve(problem, ridge=0.5 * ratio * decay)
    assert abs(half.Q[0, 0] - found.Q[0, 0]) > 0.01


# Where no minimum exists


def test_separable_signs_have_no_minimum_without_ridge():
    """Half of the signs flipped: n < 2 N random signs are separable (Cover 1965)."""
    random = linear(loss="logistic", labels=tu.labels.Sign(0.5))
    found = solve(random, [1.9, 2.1, 4.0], ridge=0.0)
    assert found.fits_below == pytest.approx(2.0, abs=1e-6)
    assert found.exists.tolist() == [False, True, True]
    assert np.isnan(found.error[0])
    assert "no finite" in str(found)
    with pytest.raises(InputError, match="at every ratio"):
        solve(linear(loss="hinge", labels="sign"), 5.0, ridge=0.0)


@pytest.mark.full
def test_the_norm_diverges_at_the_threshold():
    """Above 2.99229, by the minimum over t of E[(y t rho - z)_+^2] on a fine grid."""
    flipped = linear(loss="logistic", labels=tu.labels.Sign(0.1))
    found = solve(flipped, [3.0, 3.2, 4.0], ridge=0.0)
    assert found.fits_below == pytest.approx(2.992286, abs=1e-5)
    assert found.Q[0, 0, 0] > 30 * found.Q[2, 0, 0]


def test_real_labels_need_as_many_samples_as_weights():
    found = solve(linear(noise=0.3), [0.9, 2.0], ridge=0.0)
    assert found.exists.tolist() == [False, True]
    # least squares: error sigma^2 / (2 (ratio - 1))
    assert found.error[1] == pytest.approx(0.09 / 2, abs=1e-9)
    exact = solve(linear(), 2.0, ridge=0.0)
    assert exact.error == 0.0
    np.testing.assert_allclose(exact.R, 1.0)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (tu.Problem(tu.Network(2, "linear"), UNIT), "2 units"),
        (tu.Problem(tu.Network(1, "erf"), UNIT), "'erf'"),
        (linear(loss=lambda o, y: jnp.log1p((o - y) ** 2)), "not a convex"),
        (
            tu.Problem(tu.Network(1, "linear", train_readout=True), UNIT),
            "readout learns",
        ),
        (linear(rule="hebbian", labels="sign"), "Hebbian"),
        (linear(optimizer=tu.SGD(0.5, spherical=True)), "spherical"),
        (linear(optimizer=tu.SGD(0.5, trainable=[0])), "trainable"),
    ],
)
def test_what_has_no_single_minimum(problem, reason):
    with pytest.raises(InputError, match=reason):
        solve(problem, 2.0, ridge=0.1)


def test_bad_ratios_and_ridges():
    with pytest.raises(InputError, match="ratio is missing"):
        solve(linear())
    with pytest.raises(InputError, match="positive"):
        solve(linear(), -1.0)
    with pytest.raises(InputError, match="zero or more"):
        solve(linear(), 1.0, ridge=-0.1)
    with pytest.raises(InputError, match="ridge has shape"):
        solve(linear(), [1.0, 2.0], ridge=[0.1, 0.2, 0.3])


def test_an_array_of_ratios_equals_single_ratios():
    problem = linear(loss="logistic", labels=tu.labels.Sign(0.1))
    ratios = np.geomspace(0.3, 10, 12)
    curve = solve(problem, ratios, ridge=0.05)
    for place in (0, 5, 11):
        point = solve(problem, ratios[place], ridge=0.05)
        assert curve.error[place] == pytest.approx(point.error, abs=1e-9)
        np.testing.assert_allclose(curve.Q[place], point.Q, rtol=1e-7)
    assert curve.R.shape == (12, 1, 1)
    assert np.ndim(point.error) == 0
