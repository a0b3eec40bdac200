"""jit, grad and vmap go through `solve`; equal shapes compile once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problems import generic_overlaps, pair

TIMES = np.linspace(0.0, 10.0, 11)
R, Q, T = generic_overlaps(2, 2)
START = tu.Start(R, Q, T)
PROBLEM = pair(2, 2, noise=0.1)


def final_error(problem, start=START, **options):
    return tu.solve(problem, start, TIMES, rtol=1e-10, **options).error[-1]


VALUES = {"lr": 0.5, "noise": 0.1, "readout": np.array([1.1, 0.8]), "R": R}


def error_of(values, **options):
    problem = PROBLEM.replace(
        lr=values["lr"], noise=values["noise"], **{"student.readout": values["readout"]}
    )
    return final_error(problem, tu.Start(values["R"], Q, T), **options)


@pytest.fixture(scope="module")
def gradient(value_and_gradient):
    """One reverse pass gives the error, and its derivatives with respect to all of them."""
    return value_and_gradient[1]


@pytest.fixture(scope="module")
def value_and_gradient():
    return jax.value_and_grad(error_of)(jax.tree.map(jnp.asarray, VALUES))


@pytest.mark.parametrize("name", VALUES)
def test_gradient_equals_finite_differences(name, gradient):
    direction = np.random.default_rng(1).standard_normal(np.shape(VALUES[name]))
    step = 1e-4
    ahead, behind = (
        error_of(VALUES | {name: VALUES[name] + sign * step * direction})
        for sign in (1, -1)
    )
    finite = (ahead - behind) / (2 * step)
    assert np.sum(gradient[name] * direction) == pytest.approx(finite, rel=1e-5)
    assert abs(finite) > 1e-4  # something to measure


def test_forward_mode_agrees_with_reverse_mode(gradient):
    _, forward = jax.jvp(
        lambda lr: error_of(VALUES | {"lr": lr}, gradient="forward"), (0.5,), (1.0,)
    )
    assert forward == pytest.approx(float(gradient["lr"]), rel=1e-7)


@pytest.mark.full
def test_gradient_through_a_schedule():
    def function(x):
        return final_error(pair(2, 2, lr=tu.schedules.PowerDecay(0.5, x, 2.0)))

    finite = (function(0.5 + 1e-4) - function(0.5 - 1e-4)) / 2e-4
    assert jax.grad(function)(0.5) == pytest.approx(float(finite), rel=1e-5)


def test_vmap_over_learning_rates_equals_the_loop():
    rates = np.geomspace(0.05, 2.0, 10)
    batched = jax.vmap(lambda lr: tu.solve(PROBLEM.replace(lr=lr), START, TIMES))(rates)
    assert batched.error.shape == (10, 11)
    for i in range(0, 10, 3):
        single = tu.solve(PROBLEM.replace(lr=rates[i]), START, TIMES)
        np.testing.assert_allclose(batched.error[i], single.error, rtol=1e-6)
        np.testing.assert_allclose(batched.Q[i], single.Q, atol=1e-7)


def test_diverged_members_of_a_batch_say_so_and_leave_the_others_alone():
    problem = pair(1, 1, "linear")
    start = tu.Start([[0.1]], [[0.5]])
    times = np.array([0.0, 1.0, 200.0])
    out = jax.vmap(lambda lr: tu.solve(problem.replace(lr=lr), start, times))(
        np.array([0.5, 5.0])
    )
    assert out.status_code.tolist() == [
        tu.errors.Status.FINISHED,
        tu.errors.Status.DIVERGED,
    ]
    assert np.all(np.isfinite(out.error[0]))
    assert np.isnan(out.error[1, -1])
    assert "1 of 2 did not finish" in out.status


def test_a_jitted_solve():
    jitted = jax.jit(
        lambda lr: (
            tu.solve(PROBLEM.replace(lr=lr), START, TIMES, gradient="forward").error
        )
    )
    np.testing.assert_allclose(
        jitted(0.5), tu.solve(PROBLEM, START, TIMES).error, rtol=1e-9
    )


def test_a_traced_solve_by_diffrax_has_the_same_error(value_and_gradient):
    assert float(value_and_gradient[0]) == pytest.approx(
        float(error_of(VALUES)), rel=3e-7
    )


@pytest.fixture
def compilations():
    """Counts what XLA compiles while the test runs."""
    seen = []

    def listen(name, *_, **__):
        if name == "/jax/core/compile/backend_compile_duration":
            seen.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def test_equal_shapes_compile_once(compilations):
    """Of problems that take the JAX program; erf committees take a kernel (tests/stream/test_compiled.py)."""
    relu = pair(2, 2, "relu", lr=0.1, noise=0.1)
    tu.solve(relu, START, TIMES)
    compilations.clear()
    for lr, noise in ((0.3, 0.0), (0.7, 0.2), (1.1, 0.5)):
        problem = relu.replace(
            lr=lr / 10, noise=noise, weight_decay=0.01, **{"student.readout": [lr, 1.0]}
        )
        tu.solve(problem, tu.Start(R * 0.9, Q, T), TIMES + 1.0)
    assert compilations == []
    tu.solve(
        relu, START, TIMES[:-1]
    )  # up to a standard count, the number of times is data, too
    tu.solve(relu, START, TIMES, rtol=1e-7)
    assert compilations == []
    tu.solve(
        relu, tu.Start(R, Q), TIMES
    )  # the way to give an initial condition is none of its shape
    tu.solve(
        relu, tu.Start(R[None], Q[None], T[None], readout=[1.0, 0.5], dim=100), TIMES
    )
    assert compilations == []
    tu.solve(
        relu, START, np.linspace(0.0, 1.0, 300)
    )  # control: another shape is another program
    assert len(compilations) > 0


def test_averages_over_nodes_compile_once_for_any_number_of_times(compilations):
    unit = tu.Network(1, "linear")
    problem = tu.Problem(
        unit, unit, loss="logistic", labels="sign", optimizer=tu.SGD(lr=0.5)
    )
    start = tu.Start([[0.3]], [[0.5]])
    many = tu.solve(problem, start, np.linspace(0.0, 2.0, 21))
    compilations.clear()
    few = tu.solve(problem, start, [0.0, 1.0, 2.0])
    assert compilations == []
    for name in ("error", "loss"):
        curve = getattr(many, name)
        assert np.isfinite(curve).all()
        np.testing.assert_allclose(getattr(few, name), curve[::10], rtol=1e-7)


def test_a_trajectory_is_a_pytree():
    out = tu.solve(PROBLEM, START, TIMES)
    doubled = jax.tree.map(lambda x: 2 * x if eqx.is_array_like(x) else x, out)
    np.testing.assert_allclose(doubled.error, 2 * out.error)
