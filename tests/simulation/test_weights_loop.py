"""The weights method against a plain NumPy loop:

same weights, same inputs, same numbers to 1e-12.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.simulation.cases import CASES, FOUR, softened
from tutelage.problem.activation import NAMED_ACTIVATIONS
from tutelage.simulation.numba_kernels import activate
from tutelage.simulation.prepare import step_constants
from tutelage.simulation.runs import stream


def plain_loop(problem, W, W_teacher, X, steps, noise=None):
    """SGD as one would write it: x is a row of X.

    Yields (W, readout, bias) after each number of steps.
    """
    student = problem.student
    teacher = problem.teacher
    optimizer = problem.optimizer
    g = lambda x: np.asarray(student.activation(jnp.asarray(x)))  # noqa: E731
    g_slope = lambda x: np.asarray(student.activation.slope(jnp.asarray(x)))  # noqa: E731
    N = W.shape[1]
    K = student.hidden
    B = optimizer.batch
    v = np.array(student.readout)
    b = np.zeros(K) if student.bias is None else np.array(student.bias)
    b_teacher = 0.0 if teacher.bias is None else teacher.bias
    slow = isinstance(optimizer.momentum, tu.SlowMomentum)
    beta = 0.0 if slow else float(optimizer.momentum)
    W, m, mv, mb = W.copy(), np.zeros_like(W), np.zeros(K), np.zeros(K)
    norms = np.linalg.norm(W, axis=1)
    mask = problem.trainable_mask()
    mask = (
        1.0 if mask is None else np.repeat(mask, problem.inputs.level_dims(N), axis=0).T
    )
    rate = lambda lr, t: float(lr(t)) if callable(lr) else float(lr)  # noqa: E731
    out = []
    for step in range(max(steps) + 1):
        if step in steps:
            out.append((W.copy(), v.copy(), b.copy()))
        x = X[step * B : (step + 1) * B]
        if len(x) < B:
            break
        fields = x @ W.T / np.sqrt(N) + b
        labels = (
            np.asarray(
                teacher.activation(
                    jnp.asarray(x @ W_teacher.T / np.sqrt(N) + b_teacher)
                )
            )
            @ teacher.readout
        )
        if noise is not None:
            labels = labels + problem.noise * noise[step * B : (step + 1) * B]
        delta = labels - g(fields) @ v
        pull = delta[:, None] * v * g_slope(fields)
        lr = rate(optimizer.lr, step / N)
        gradient = mask * (
            pull.T @ x / (B * np.sqrt(N)) - optimizer.weight_decay / N * W
        )
        mv = beta * mv + delta @ g(fields) / (B * N)
        mb = beta * mb + pull.mean(axis=0) / N
        if slow:
            gamma = float(optimizer.momentum.gamma)
            k = (
                gamma * lr
                if optimizer.momentum.k is None
                else rate(optimizer.momentum.k, step / N)
            )
            m = (1 - gamma / N) * m + k * gradient
            W = W + m / N
        else:
            m = beta * m + gradient
            W = W + lr * m
        if optimizer.spherical:
            W = W * (norms / np.linalg.norm(W, axis=1))[:, None]
        if student.train_readout:
            v = (
                v
                + (
                    lr
                    if optimizer.readout_lr is None
                    else rate(optimizer.readout_lr, step / N)
                )
                * mv
            )
        if student.train_bias:
            b = (
                b
                + (
                    lr
                    if optimizer.bias_lr is None
                    else rate(optimizer.bias_lr, step / N)
                )
                * mb
            )
    return out


def check_against_loop(problem, dim=24, seed=0):
    rng = np.random.default_rng(5)
    K = problem.student.hidden
    M = problem.teacher.hidden
    B = problem.optimizer.batch
    W = rng.standard_normal((K, dim))
    W_teacher = rng.standard_normal((M, dim))
    times = [0.0, 0.3, 1.0, 2.0]
    X = rng.standard_normal((2 * dim * B, dim))
    runs = tu.simulate(
        problem, weights=(W, W_teacher), inputs=X, times=times, seed=seed
    )
    xi = stream(seed, 0, 2).standard_normal(2 * dim * B)
    states = plain_loop(problem, W, W_teacher, X, list(runs.step), xi)
    lam = np.repeat(problem.inputs.eigenvalues, problem.inputs.level_dims(dim))
    assert runs.error.shape == (1, 4)
    for i, (w, v, b) in enumerate(states):
        np.testing.assert_allclose(
            runs.R[0, i], (w * lam) @ W_teacher.T / dim, rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(
            runs.Q[0, i], (w * lam) @ w.T / dim, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(runs.readout[0, i], v, rtol=0, atol=1e-12)
        if "bias" in runs.variables:
            np.testing.assert_allclose(runs.bias[0, i], b, rtol=0, atol=1e-12)
    assert not np.allclose(runs.Q[0, 0], runs.Q[0, -1], atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_loop(name):
    check_against_loop(CASES[name][0])


@pytest.mark.parametrize(
    "name",
    ["batch of five", "momentum", "slow momentum", "sphere, frozen parts, biases"],
)
def test_traced_loop_equals_plain_loop(name):
    """The JAX loop, forced by a function of the user's own."""
    problem = CASES[name][0]
    check_against_loop(problem.replace(**{"student.activation": softened}))


@pytest.mark.parametrize("name", NAMED_ACTIVATIONS)
def test_compiled_activations(name):
    """g and g' of the compiled loops are those of the problem."""
    activation = NAMED_ACTIVATIONS[name]
    x = np.concatenate([np.linspace(-9.0, 9.0, 38), [-60.0, 60.0]])
    constants = step_constants(
        tu.Problem(tu.Network(1, "erf"), tu.Network(1, activation)), 10
    )
    ours = np.transpose(
        [
            activate(constants.teacher[0], constants.teacher_coefficients[0], y)
            for y in x
        ]
    )
    np.testing.assert_allclose(
        ours[0], activation(jnp.asarray(x)), rtol=1e-13, atol=1e-15
    )
    np.testing.assert_allclose(
        ours[1], activation.slope(jnp.asarray(x)), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("activation", ["linear", "he3", softened])
def test_polynomials_and_a_function_of_the_users_own(activation):
    student = tu.Network(2, activation, readout=0.3, train_readout=True)
    check_against_loop(
        tu.Problem(
            student,
            tu.Network(1, activation, readout=0.3),
            optimizer=tu.SGD(0.02),
            noise=0.1,
        )
    )


def test_schedules_act_at_the_time_of_their_step():
    optimizer = tu.SGD(
        tu.schedules.PowerDecay(0.8),
        readout_lr=tu.schedules.Piecewise([0.5], [0.3, 0.1]),
        bias_lr=lambda t: 0.2 + 0.1 * t,
    )
    student = tu.Network(2, "erf", train_readout=True, bias=0.1, train_bias=True)
    check_against_loop(
        tu.Problem(student, tu.Network(2, "erf"), inputs=FOUR, optimizer=optimizer)
    )


def test_blocks_of_rows_do_not_show(monkeypatch):
    """A batch may span blocks of rows, and a block may hold many records."""
    from tutelage.simulation import weights

    problem = CASES["batch of five"][0]
    monkeypatch.setattr(weights, "BLOCK", 24 * 7)
    check_against_loop(problem)
    check_against_loop(problem.replace(**{"student.activation": softened}))
