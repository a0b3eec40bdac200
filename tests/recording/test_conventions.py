"""Conversions:

a loop by automatic differentiation with converted settings is the same SGD.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu

N = 30
STEPS = 40
CASES = [
    ("linear", "half", {}),
    ("linear", "mean_squared", {"batch": 3, "weight_decay": 0.4}),
    ("scaled", "half", {"momentum": 0.6, "weight_decay": 0.4}),
    ("scaled", "mean_squared", {"batch": 3, "weight_decay": 0.4}),
]


def problem_of(options):
    student = tu.Network(2, "erf", train_readout=True, train_bias=True)
    rates = {"readout_lr": 0.7, "bias_lr": 0.2}
    return tu.Problem(
        student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5, **rates, **options)
    )


def loop(convention, problem, w, teacher, X):
    """Train as a user does: jax.grad of a loss, and the rates of the convention."""
    rates = convention.hyperparameters(problem.optimizer)
    scale = 1.0 if convention.layer == "linear" else 1 / np.sqrt(N)
    factor = 1.0 if convention.loss == "mean_squared" else 0.5

    def output(p, x):
        return jax.lax.erf((scale * p["W"] @ x + p["b"]) / np.sqrt(2)) @ p["v"]

    def loss(p, batch):
        def of_sample(x):
            y = jnp.sum(jax.lax.erf(teacher @ x / np.sqrt(2 * N)))
            return factor * (y - output(p, x)) ** 2

        return jnp.mean(jax.vmap(of_sample)(batch))

    lr = {"W": rates["lr"], "v": rates["readout_lr"], "b": rates["bias_lr"]}
    decay = {"W": rates["weight_decay"], "v": 0.0, "b": 0.0}

    @jax.jit
    def update(p, u, batch):
        g = jax.grad(loss)(p, batch)
        u = {k: rates["momentum"] * u[k] + g[k] + decay[k] * p[k] for k in p}
        return {k: p[k] - lr[k] * u[k] for k in p}, u

    p = {"W": convention.layer_weights(w), "v": jnp.ones(2), "b": jnp.zeros(2)}
    u = {k: jnp.zeros_like(x) for k, x in p.items()}
    recorder = tu.Recorder(problem, teacher)
    for step, batch in enumerate(X.reshape(-1, rates["batch"], N)):
        W = convention.weights(p["W"])
        recorder(step, W, readout=p["v"], bias=p["b"])
        p, u = update(p, u, batch)
    return recorder.runs()


@pytest.mark.parametrize(("layer", "loss", "options"), CASES)
def test_a_loop_with_converted_settings_makes_the_steps_of_simulate(
    layer, loss, options
):
    rng = np.random.default_rng(3)
    w = 0.4 * rng.standard_normal((2, N))
    teacher = rng.standard_normal((2, N))
    X = rng.standard_normal((STEPS * options.get("batch", 1), N))
    problem = problem_of(options)
    convention = tu.conventions.Convention(dim=N, layer=layer, loss=loss)
    own = loop(convention, problem, w, teacher, X)
    exact = tu.simulate(
        problem, weights=(w, teacher), inputs=X, times=own.times, runs=1
    )
    assert np.ptp(own.error) > 0.02  # something was learned
    for name in ("R", "Q", "readout", "bias"):
        np.testing.assert_allclose(own[name], exact[name], rtol=1e-8, atol=1e-10)


def test_rates_convert_back():
    for layer in ("linear", "scaled"):
        for loss in ("half", "mean_squared"):
            c = tu.conventions.Convention(dim=784, layer=layer, loss=loss)
            assert c.eta(c.lr(0.3)) == pytest.approx(0.3)
            assert c.kappa(c.weight_decay(0.3)) == pytest.approx(0.3)
            assert c.readout_eta(c.readout_lr(0.3)) == pytest.approx(0.3)
            w = np.arange(6.0).reshape(2, 3)
            np.testing.assert_allclose(c.weights(c.layer_weights(w)), w)


def test_clocks():
    assert tu.conventions.alpha(5000, dim=1000) == 5.0
    assert tu.conventions.steps(0.07, dim=100) == 7
    assert tu.conventions.samples(2.0, dim=100, batch=8) == 1600
    assert tu.conventions.epochs(2.0, dim=100, size=400, batch=8) == 4.0
    np.testing.assert_array_equal(tu.conventions.alpha([0, 50], 100), [0.0, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tu.conventions.Convention(dim=0), "dim is 0"),
        (lambda: tu.conventions.Convention(9, layer="Linear"), "layer is 'Linear'"),
        (lambda: tu.conventions.Convention(9, loss="mse"), "loss is 'mse'"),
        (lambda: tu.conventions.Convention(9).lr(-1.0), "eta is -1"),
        (lambda: tu.conventions.alpha(-1, 9), "steps is -1"),
        (lambda: tu.conventions.epochs(1.0, 9, size=0), "size is 0"),
        (lambda: tu.conventions.Convention(9).hyperparameters(0.5), "holds for SGD"),
        (
            lambda: tu.conventions.Convention(9).hyperparameters(
                tu.SGD(tu.schedules.PowerDecay(0.5))
            ),
            "lr is a schedule",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(tu.InputError, match=message):
        call()
