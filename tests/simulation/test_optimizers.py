"""Steps of every optimizer on weights, next to a plain NumPy loop on the same samples."""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu

o = tu.optimizers
N = 24
K = 2
M = 2
STEPS = 30
EACH = [
    o.SGD(0.5, clip=0.4),
    o.SGD(0.5, clip_coordinates=0.2, weight_decay=0.3),
    o.SignSGD(0.3, readout_lr=0.4, weight_decay=0.3),
    o.SignSGD(0.3, 3),
    o.RMSprop(0.3, memory=0.5, initial_scale=0.7, batch=2, bias_lr=0.2),
    o.Adam(0.3, beta1=0.8, memory=0.5, weight_decay=0.2),
    o.AdaGrad(0.3, initial_scale=0.7),
    o.AdaGrad(0.8, initial_scale=0.7, norm=True, batch=2),
    o.Muon(0.2, 3, weight_decay=0.2),
]


def number(value, default):
    return default if value is None else float(value)


def adapted(optimizer, g, state, step):
    """The step of one group of parameters; state: mean gradient and scale."""
    mean, scale = state
    if isinstance(optimizer, o.AdaGrad):
        scale = scale + g**2 / N
    else:
        c = 1 / (N * float(optimizer.memory))
        scale = scale + c * (g**2 - scale)
    if not isinstance(optimizer, o.Adam):
        return g / np.sqrt(scale), (mean, scale)
    beta1 = float(optimizer.beta1)
    mean = beta1 * mean + (1 - beta1) * g
    of_mean = mean / (1 - beta1 ** (step + 1))
    of_scale = scale / (1 - (1 - c) ** (step + 1))
    return of_mean / np.sqrt(of_scale), (mean, scale)


def naive(optimizer, W, W_teacher, X, v, b):
    """Weights, readout and biases after all steps."""
    w = W.copy()
    v = v.copy()
    b = b.copy()
    start = float(getattr(optimizer, "initial_scale", 0.0))
    states = [(np.zeros_like(x), np.full_like(x, start)) for x in (w, v, b)]
    norm_scale = start
    eta = float(optimizer.lr)
    kappa = float(optimizer.weight_decay)
    batch = int(optimizer.batch)
    for step in range(STEPS):
        x = X[step * batch : (step + 1) * batch]
        fields = x @ w.T / np.sqrt(N) + b
        g = erf(fields / np.sqrt(2))
        slope = np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
        y = np.sum(erf(x @ W_teacher.T / np.sqrt(2 * N)), axis=1)
        gap = y - g @ v
        delta = gap[:, None] * v * slope
        h = np.mean(gap[:, None] * g, axis=0)
        h_bias = np.mean(delta, axis=0)
        if isinstance(optimizer, o.SGD) and optimizer.clip is not None:
            length = np.linalg.norm(delta, axis=1, keepdims=True)
            delta = delta * np.minimum(1, float(optimizer.clip) / length)
            h_bias = np.mean(delta, axis=0)  # biases follow the clipped delta
        gradient = delta.T @ x / batch
        move = gradient
        v_move = h
        b_move = h_bias
        if isinstance(optimizer, o.SGD):
            if optimizer.clip_coordinates is not None:
                most = float(optimizer.clip_coordinates)
                move = np.clip(gradient, -most, most)
        elif isinstance(optimizer, o.SignSGD):
            move, v_move, b_move = map(np.sign, (gradient, h, h_bias))
        elif isinstance(optimizer, o.Muon):
            left, _, right = np.linalg.svd(gradient, full_matrices=False)
            move = np.sqrt(N) * left @ right
        else:
            v_move, states[1] = adapted(optimizer, h, states[1], step)
            b_move, states[2] = adapted(optimizer, h_bias, states[2], step)
            if isinstance(optimizer, o.AdaGrad) and optimizer.norm:
                norm_scale += np.sum(gradient**2) / N / N
                move = gradient / np.sqrt(norm_scale)
            else:
                move, states[0] = adapted(optimizer, gradient, states[0], step)
        w = w + eta / np.sqrt(N) * move - eta * kappa / N * w
        v = v + number(optimizer.readout_lr, eta) / N * v_move
        b = b + number(optimizer.bias_lr, eta) / N * b_move
    return w, v, b


def same_loss(output, label):
    """Squared loss as a custom function, which the loop in JAX computes."""
    return (label - output) ** 2 / 2


def weights_and_rows(batch):
    rng = np.random.default_rng(3)
    W = 0.5 * rng.standard_normal((K, N))
    W_teacher = rng.standard_normal((M, N))
    return W, W_teacher, rng.standard_normal((STEPS * batch, N))


IN_JAX = pytest.param(same_loss, marks=pytest.mark.full, id="jax")


@pytest.mark.parametrize("loss", ["squared", IN_JAX])
@pytest.mark.parametrize("optimizer", EACH, ids=repr)
def test_a_run_takes_the_steps_of_a_plain_loop(optimizer, loss):
    student = tu.Network(
        K, readout=[0.8, 1.1], bias=[0.1, -0.2], train_readout=True, train_bias=True
    )
    problem = tu.Problem(student, tu.Network(M), optimizer=optimizer, loss=loss)
    W, W_teacher, X = weights_and_rows(int(optimizer.batch))
    runs = tu.simulate(
        problem, weights=(W, W_teacher), inputs=X, times=[0.0, STEPS / N], runs=1
    )
    readout = np.array(student.readout)
    bias = np.array(student.bias)
    w, v, b = naive(optimizer, W, W_teacher, X, readout, bias)
    np.testing.assert_allclose(runs.R[0, -1], w @ W_teacher.T / N, atol=1e-11)
    np.testing.assert_allclose(runs.Q[0, -1], w @ w.T / N, atol=1e-11)
    np.testing.assert_allclose(runs.variables["readout"][0, -1], v, atol=1e-11)
    np.testing.assert_allclose(runs.variables["bias"][0, -1], b, atol=1e-11)


def test_another_optimizer_takes_other_steps():
    """A negative control of the loop."""
    W, W_teacher, X = weights_and_rows(1)
    ends = [
        naive(optimizer, W, W_teacher, X, np.ones(K), np.zeros(K))[0]
        for optimizer in (o.RMSprop(0.3), o.Adam(0.3), o.AdaGrad(0.3), o.SignSGD(0.3))
    ]
    for i, first in enumerate(ends):
        for second in ends[:i]:
            assert np.max(np.abs(first - second)) > 1e-3


def test_the_law_of_the_overlaps_is_refused():
    problem = tu.Problem(tu.Network(2), tu.Network(2), optimizer=o.Adam(0.3))
    start = tu.asymmetric_start(problem, dim=100)
    with pytest.raises(tu.InputError, match="depend on every coordinate"):
        tu.simulate(problem, start, dim=100, method="overlaps", times=1.0)


def test_a_teacher_along_the_axes_warns():
    problem = tu.Problem(tu.Network(2), tu.Network(2), optimizer=o.SignSGD(0.3))
    rng = np.random.default_rng(0)
    W = rng.standard_normal((2, 200))
    along_axes = np.sqrt(200) * np.eye(2, 200)
    with pytest.warns(
        tu.errors.ValidityWarning, match="teacher unit 1 lie along about 1"
    ):
        tu.simulate(problem, weights=(W, along_axes), times=0.1, runs=1)


def test_memory_below_one_step_is_refused():
    problem = tu.Problem(
        tu.Network(2), tu.Network(2), optimizer=o.Adam(0.3, memory=0.01)
    )
    with pytest.raises(tu.InputError, match=r"memory is 0.01 at N = 50"):
        tu.simulate(problem, dim=50, times=0.1, runs=1)
