"""Theory against direct minimization, and the convex solvers against another route."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import tutelage as tu
from tests.equilibrium.cases import UNIT, linear
from tutelage import InputError
from tutelage.equilibrium import minimum
from tutelage.equilibrium.direct import Samples, minimizer
from tutelage.equilibrium.proximal import descents_of

simulate = tu.analysis.simulate_minimum

CASES = {
    "squared": linear(noise=0.3),
    "huber": linear(loss="huber", noise=0.8),
    "absolute": linear(loss="absolute", noise=0.5),
    "hinge": linear(loss="hinge", labels=tu.labels.Sign(0.1)),
    "logistic": linear(loss="logistic", labels="logistic"),
    "squared on signs": linear(labels=tu.labels.Sign(0.1)),
    "logistic on signs": linear(loss="logistic", labels="sign"),
    "levels": tu.Problem(
        UNIT,
        tu.Network(1, "linear", gram=np.array([1.5, 0.5])[:, None, None]),
        inputs=tu.Spectrum([1.6, 0.4], [0.5, 0.5]),
        loss="huber",
        noise=0.3,
    ),
    "erf teacher": tu.Problem(
        UNIT, tu.Network(2, "erf", readout=[1.0, -0.5]), loss="huber", noise=0.2
    ),
    "custom loss": linear(loss=lambda o, y: jnp.log(jnp.cosh(o - y)), noise=0.5),
}


def samples_of(n=60, N=30, seed=0) -> Samples:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N)) / np.sqrt(N)
    labels = np.sign(X @ rng.standard_normal(N) + 0.3 * rng.standard_normal(n))
    return Samples(X=X, labels=labels, truth=labels)


@pytest.mark.parametrize("name", ["squared", "hinge", "logistic", "squared on signs"])
def test_theory_and_direct_minimization(name):
    runs = simulate(CASES[name], [0.8, 2.0], dim=200, runs=12, ridge=0.2, seed=1)
    assert runs.verdict == "agree", str(runs)
    assert runs.error.shape == (12, 2)
    assert runs.R.shape == (12, 2, 1, 1)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_ten_problems_at_a_large_dimension(name):
    runs = simulate(CASES[name], [0.7, 2.5], dim=1000, runs=10, ridge=0.2, seed=2)
    assert runs.verdict == "agree", str(runs)
    z = np.concatenate([np.ravel(values) for values in runs.z.values()])
    assert np.sqrt(np.mean(z**2)) < 2.0


def test_without_the_reaction_of_a_sample_theory_fails(monkeypatch):
    """A negative control: the comparison sees a theory without the term Vhat m."""

    def conjugates(self, found, overlaps, ratio):
        return minimum.Conjugates(
            V=ratio * found.slope,
            q=ratio * found.second,
            m=self._inverse_T @ (ratio * found.with_fields),
        )

    monkeypatch.setattr(minimum.StateEvolution, "conjugates", conjugates)
    runs = simulate(CASES["hinge"], 2.0, dim=100, runs=8, ridge=0.2)
    assert runs.verdict == "disagree"


@pytest.mark.full
def test_features_of_a_hidden_manifold():
    inputs = tu.HiddenManifold("random", "erf", dim_latent=150, dim=300, seed=1)
    problem = tu.Problem(UNIT, UNIT, inputs=inputs, noise=0.1)
    runs = simulate(problem, [0.5, 2.0], dim=300, runs=10, ridge=0.05)
    assert runs.verdict == "agree", str(runs)
    with pytest.raises(InputError, match="N = 300"):
        simulate(problem, 1.0, dim=200, runs=3, ridge=0.05)


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_a_loss_with_kinks_by_a_quadratic_program(loss):
    """min sum u + ridge |w|^2 / 2 with u above the lines of the loss, by SLSQP."""
    data = samples_of(n=24, N=8)
    ridge = 0.3
    w = minimizer(descents_of(linear(loss=loss, labels="sign").loss), data, 1.0, ridge)
    n, N = data.X.shape
    y = data.labels

    def objective(v):
        return np.sum(v[N:]) + ridge * v[:N] @ v[:N] / 2

    rows = [
        {"type": "ineq", "fun": lambda v: v[N:] - 1 + y * (data.X @ v[:N])},
        {"type": "ineq", "fun": lambda v: v[N:]},
    ]
    if loss == "absolute":
        rows = [
            {"type": "ineq", "fun": lambda v: v[N:] - y + data.X @ v[:N]},
            {"type": "ineq", "fun": lambda v: v[N:] + y - data.X @ v[:N]},
        ]
    start = np.concatenate([np.zeros(N), np.full(n, 2.0)])
    found = minimize(
        objective,
        start,
        constraints=rows,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    slack = np.abs(y - data.X @ w)
    if loss == "hinge":
        slack = np.maximum(1 - y * (data.X @ w), 0)
    ours = objective(np.concatenate([w, slack]))
    assert ours == pytest.approx(found.fun, rel=1e-5)
    np.testing.assert_allclose(w, found.x[:N], atol=5e-3)


def test_absolute_loss_without_ridge_is_a_linear_program():
    data = samples_of()
    w = minimizer(descents_of(linear(loss="absolute").loss), data, 1.0, 0.0)
    n, N = data.X.shape
    # residuals as differences of positive numbers: the textbook form
    equal = np.hstack([data.X, np.eye(n), -np.eye(n)])
    cost = np.concatenate([np.zeros(N), np.ones(2 * n)])
    bounds = [(None, None)] * N + [(0, None)] * (2 * n)
    best = linprog(cost, A_eq=equal, b_eq=data.labels, bounds=bounds).fun
    assert np.sum(np.abs(data.labels - data.X @ w)) == pytest.approx(best, rel=1e-8)


def test_ridge_regression_by_both_normal_equations():
    loss = descents_of(linear().loss)
    few = samples_of(n=10, N=30)
    w = minimizer(loss, few, 1.0, 0.2)
    matrix = few.X.T @ few.X + 0.2 * np.eye(30)
    np.testing.assert_allclose(w, np.linalg.solve(matrix, few.X.T @ few.labels))


def test_what_has_no_simulation():
    with pytest.raises(InputError, match="no unique minimum"):
        simulate(linear(noise=0.1), [0.5, 2.0], dim=50, runs=3, ridge=0.0)
    with pytest.raises(InputError, match="runs is 1"):
        simulate(linear(noise=0.1), 2.0, dim=50, runs=1, ridge=0.1)
    kinked = linear(loss=lambda o, y: 2.0 * jnp.abs(o - y), noise=0.5)
    with pytest.raises(InputError, match="may jump"):
        simulate(kinked, 2.0, dim=50, runs=3, ridge=0.1)
