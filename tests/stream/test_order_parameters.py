"""The drift of the overlaps:

against raw averages of one step, against naive loops, and in the limits that must
agree.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.stream.moments import reference as ref
from tutelage.stream import OrderParameters, Overlaps, Velocity

SPECTRUM = tu.Spectrum([3.0, 1.0, 0.25], [0.2, 0.5, 0.3])
READOUT = np.array([0.7, -1.2])
TEACHER = np.array([1.1, -0.6])
TIME = jnp.asarray(0.0)


def overlaps(K, M, L, seed=0, bias=None, velocity=False, scale=0.5):
    """A random state of L levels and the teacher's overlaps; real vectors, so everything is a Gram matrix."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(L, K + M + (K if velocity else 0), 9)) / 3
    vectors[:, :K] *= scale
    gram = vectors @ np.swapaxes(vectors, 1, 2)
    q = gram[:, :K, :K]
    r = gram[:, :K, K : K + M]
    t = gram[:, K : K + M, K : K + M]
    extra = None
    if velocity:
        s = slice(K + M, None)
        extra = Velocity(
            *map(jnp.asarray, (gram[:, s, K : K + M], gram[:, :K, s], gram[:, s, s]))
        )
    return Overlaps(
        *map(jnp.asarray, (r, q, READOUT[:K])),
        None if bias is None else jnp.asarray(bias),
        extra,
    ), jnp.asarray(t)


def problem_of(
    student="erf",
    teacher=None,
    K=2,
    M=2,
    inputs=None,
    noise=0.3,
    train_readout=False,
    bias=None,
    **optimizer,
):
    teacher_bias = None if bias is None else np.array([0.4, -0.2])[:M]
    return tu.Problem(
        tu.Network(
            K,
            student,
            readout=READOUT[:K],
            train_readout=train_readout,
            bias=bias,
            train_bias=bias is not None,
        ),
        tu.Network(M, teacher or student, readout=TEACHER[:M], bias=teacher_bias),
        inputs=inputs,
        optimizer=tu.SGD(**({"lr": 0.8} | optimizer)),
        noise=noise,
    )


@eqx.filter_jit
def drift_of(system, state):
    return system.drift(TIME, state)


@eqx.filter_jit
def matrices_of(system, state):
    p, G = system.matrices(state)
    return p.A, p.B, G


@pytest.mark.parametrize(
    ("student", "teacher", "bias"),
    [("erf", "erf", None), ("he3", "quadratic", np.array([0.3, -0.5]))],
)
def test_drift_is_the_mean_of_one_step(student, teacher, bias):
    """No Stein, no A, B, G:

    E[delta rho], E[delta lambda], E[delta delta], E[Delta g] on a grid over all fields
    at once.
    """
    eta = 0.8
    eta_v = 0.3
    batch = 3
    sigma = 0.3
    problem = problem_of(
        student,
        teacher,
        train_readout=True,
        bias=bias,
        batch=batch,
        readout_lr=eta_v,
        noise=sigma,
    )
    state, t = overlaps(2, 2, 1, bias=bias)
    C = np.block([[state.q[0], state.r[0]], [state.r[0].T, t[0]]])
    mean = None if bias is None else np.concatenate([bias, [0.4, -0.2]])
    fields, weight = (
        ref.hermite_grid(C, mean, 9)
        if student == "he3"
        else ref.grid(C, mean, nodes=37)
    )
    centered = fields - (0 if mean is None else mean[:, None])
    g = ref.UNITS[student]
    h = ref.UNITS[teacher]
    Delta = TEACHER @ h.value(fields[2:]) - READOUT @ g.value(fields[:2])
    slopes = READOUT[:, None] * g.slope(fields[:2])
    delta = Delta * slopes
    dr = eta * (delta * weight) @ centered[2:].T
    pulled = eta * (delta * weight) @ centered[:2].T
    dq = (
        pulled
        + pulled.T
        + eta**2
        / batch
        * ((delta * weight) @ delta.T + sigma**2 * (slopes * weight) @ slopes.T)
    )
    d = drift_of(OrderParameters(problem, t), state)
    np.testing.assert_allclose(d.r[0], dr, atol=2e-11 * (1 + np.max(np.abs(dr))))
    np.testing.assert_allclose(d.q[0], dq, atol=2e-11 * (1 + np.max(np.abs(dq))))
    np.testing.assert_allclose(
        d.readout, eta_v * g.value(fields[:2]) @ (Delta * weight), atol=2e-11
    )
    if bias is not None:
        np.testing.assert_allclose(d.bias, eta * delta @ weight, rtol=1e-11)


def naive(problem, state, t, A, B, G, eta):
    """d r_l and d q_l entry by entry."""
    lam = problem.inputs.eigenvalues
    kappa = float(problem.optimizer.weight_decay)
    batch = problem.optimizer.batch
    r, q, t = (np.asarray(x) for x in (state.r, state.q, t))
    L, K, M = r.shape
    dr = np.zeros_like(r)
    dq = np.zeros_like(q)
    for l in range(L):
        for k in range(K):
            for m in range(M):
                pull = sum(A[k, j] * r[l, j, m] for j in range(K)) + sum(
                    B[k, n] * t[l, n, m] for n in range(M)
                )
                dr[l, k, m] = eta * lam[l] * pull - eta * kappa * r[l, k, m]
            for i in range(K):
                one = sum(A[k, j] * q[l, j, i] for j in range(K)) + sum(
                    B[k, m] * r[l, i, m] for m in range(M)
                )
                two = sum(A[i, j] * q[l, j, k] for j in range(K)) + sum(
                    B[i, m] * r[l, k, m] for m in range(M)
                )
                dq[l, k, i] = (
                    eta * lam[l] * (one + two)
                    - 2 * eta * kappa * q[l, k, i]
                    + eta**2 / batch * lam[l] * G[k, i]
                )
    return dr, dq


def test_every_level_follows_the_naive_loop():
    problem = problem_of(inputs=SPECTRUM, weight_decay=0.1, batch=2, M=1)
    state, t = overlaps(2, 1, 3)
    system = OrderParameters(problem, t)
    d = drift_of(system, state)
    dr, dq = naive(problem, state, t, *map(np.asarray, matrices_of(system, state)), 0.8)
    np.testing.assert_allclose(d.r, dr, atol=1e-14)
    np.testing.assert_allclose(d.q, dq, atol=1e-14)
    assert (
        np.max(np.abs(d.q - np.swapaxes(dq, 1, 2)[::-1])) > 1e-2
    )  # negative control: levels in another order


def test_levels_with_equal_eigenvalues_are_one_level():
    """Splitting a level in two changes nothing: the fields of a naive problem."""
    state, t = overlaps(2, 2, 1)
    split = tu.Spectrum([1.0, 1.0], [0.3, 0.7])
    double = Overlaps(
        *(jnp.repeat(x, 2, axis=0) for x in (state.r, state.q)),
        state.readout,
        None,
        None,
    )
    one = drift_of(OrderParameters(problem_of(), t), state)
    two = drift_of(
        OrderParameters(problem_of(inputs=split), jnp.repeat(t, 2, axis=0)), double
    )
    for l in range(2):
        np.testing.assert_allclose(two.q[l], one.q[0], atol=1e-14)
        np.testing.assert_allclose(two.r[l], one.r[0], atol=1e-14)


def test_gradient_flow_drops_the_spread():
    problem, (state, t) = problem_of(inputs=SPECTRUM), overlaps(2, 2, 3)
    full, flow = (
        drift_of(OrderParameters(problem, t, gradient_flow=flag), state)
        for flag in (False, True)
    )
    G = matrices_of(OrderParameters(problem, t), state)[2]
    lam = SPECTRUM.eigenvalues[:, None, None]
    np.testing.assert_allclose(full.q - flow.q, 0.8**2 * lam * G, atol=1e-14)
    np.testing.assert_allclose(full.r, flow.r, atol=1e-15)


CASES = {
    "erf, trained readout": {
        "student": "erf",
        "train_readout": True,
        "readout_lr": 0.3,
    },
    "erf from sign": {"student": "erf", "teacher": "sign"},
    "linear from quadratic": {
        "student": "linear",
        "teacher": "quadratic",
        "train_readout": True,
    },
    "he3, biases": {"student": "he3", "bias": np.array([0.3, -0.5]), "bias_lr": 0.2},
    "relu": {"student": "relu", "train_readout": True},
    "tanh, biases": {
        "student": "tanh",
        "bias": np.array([0.3, -0.5]),
        "train_readout": True,
    },
    "relu, biases": {"student": "relu", "bias": np.array([0.3, -0.5])},
    "frozen levels": {"student": "erf", "trainable": [0, 2]},
    "spherical": {"student": "erf", "spherical": True},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_error_rate_is_the_derivative_of_the_error(case):
    """A/2 and B are the gradient of e_g:

    the shortcut equals forward differentiation, with three levels.
    """
    problem = problem_of(inputs=SPECTRUM, **case)
    state, t = overlaps(2, 2, 3, bias=case.get("bias"), scale=0.8)
    system = OrderParameters(problem, t)

    @eqx.filter_jit
    def both(system, state):
        drift, rate = system.drift_and_error_rate(TIME, state)
        along = jax.jvp(lambda s: system.error(system.observe(s)), (state,), (drift,))[
            1
        ]
        return rate, along

    rate, along = both(system, state)
    assert abs(along) > 1e-3
    assert rate == pytest.approx(float(along), rel=1e-9)


def test_frozen_components_do_not_move():
    mask = np.array([[True, False, True], [False, True, True]])  # (students, levels)
    state, t = overlaps(2, 2, 3)
    free = problem_of(inputs=SPECTRUM)
    held = problem_of(inputs=SPECTRUM, trainable=mask)
    A, B, G = map(np.asarray, matrices_of(OrderParameters(free, t), state))
    d = drift_of(OrderParameters(held, t), state)
    lam = SPECTRUM.eigenvalues
    for l in range(3):
        r = np.asarray(state.r[l])
        q = np.asarray(state.q[l])
        force = 0.8 * lam[l] * (A @ q + B @ r.T)
        for k in range(2):
            on = float(mask[k, l])
            np.testing.assert_allclose(
                d.r[l, k],
                on * 0.8 * lam[l] * (A @ r + B @ np.asarray(t[l]))[k],
                atol=1e-14,
            )
            for i in range(2):
                also = float(mask[i, l])
                expected = (
                    on * force[k, i]
                    + also * force[i, k]
                    + on * also * 0.64 * lam[l] * G[k, i]
                )
                assert d.q[l, k, i] == pytest.approx(expected, abs=1e-14)
    levels = drift_of(
        OrderParameters(problem_of(inputs=SPECTRUM, trainable=[1]), t), state
    )
    assert np.all(np.asarray(levels.q)[[0, 2]] == 0)
    assert np.all(np.asarray(levels.q)[1] != 0)


def test_spherical_keeps_the_norm():
    """|w_k|^2 / N = sum_l p_l q_l,kk is conserved; the rest is the free drift minus its radial part."""
    state, t = overlaps(2, 2, 3)
    free = drift_of(OrderParameters(problem_of(inputs=SPECTRUM), t), state)
    d = drift_of(OrderParameters(problem_of(inputs=SPECTRUM, spherical=True), t), state)
    p = SPECTRUM.fractions
    np.testing.assert_allclose(np.einsum("l,lkk->k", p, d.q), 0.0, atol=1e-14)
    length, change = (np.einsum("l,lkk->k", p, x) for x in (state.q, free.q))
    assert np.all(np.abs(change) > 1e-3)
    for l in range(3):
        for k in range(2):
            mu = change[k] / (2 * length[k])
            np.testing.assert_allclose(
                d.r[l, k], free.r[l, k] - mu * state.r[l, k], atol=1e-14
            )
            for i in range(2):
                nu = change[i] / (2 * length[i])
                assert d.q[l, k, i] == pytest.approx(
                    float(free.q[l, k, i] - (mu + nu) * state.q[l, k, i]), abs=1e-14
                )


def test_fixed_momentum_is_a_larger_rate():
    state, t = overlaps(2, 2, 3)
    rates = {
        "train_readout": True,
        "readout_lr": 0.1,
        "weight_decay": 0.05,
        "inputs": SPECTRUM,
    }
    beta = drift_of(OrderParameters(problem_of(momentum=0.75, **rates), t), state)
    large = drift_of(
        OrderParameters(problem_of(**(rates | {"lr": 3.2, "readout_lr": 0.4})), t),
        state,
    )
    for a, b in zip(jax.tree.leaves(beta), jax.tree.leaves(large), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_slow_momentum_follows_the_naive_loop():
    gamma = 2.0
    k = 1.5
    problem = problem_of(
        inputs=SPECTRUM, momentum=tu.SlowMomentum(gamma, k=k), weight_decay=0.1, batch=2
    )
    state, t = overlaps(2, 2, 3, velocity=True)
    system = OrderParameters(problem, t)
    A, B, G = map(np.asarray, matrices_of(system, state))
    d = drift_of(system, state)
    v = state.velocity
    lam = SPECTRUM.eigenvalues
    kappa = 0.1
    for l in range(3):
        r, q, tl, U, V, W = (
            np.asarray(x[l]) for x in (state.r, state.q, t, v.teacher, v.student, v.own)
        )
        for i in range(2):
            for m in range(2):
                force = lam[l] * (A[i] @ r[:, m] + B[i] @ tl[:, m]) - kappa * r[i, m]
                assert d.r[l, i, m] == pytest.approx(U[i, m], abs=1e-15)
                assert d.velocity.teacher[l, i, m] == pytest.approx(
                    -gamma * U[i, m] + k * force, abs=1e-13
                )
            for j in range(2):  # V_ij = w_i . Om_j: the force on Om_j meets w_i
                on_student = lam[l] * (A[j] @ q[:, i] + B[j] @ r[i]) - kappa * q[j, i]
                on_i = lam[l] * (A[i] @ V[:, j] + B[i] @ U[j]) - kappa * V[i, j]
                on_j = lam[l] * (A[j] @ V[:, i] + B[j] @ U[i]) - kappa * V[j, i]
                assert d.q[l, i, j] == pytest.approx(V[i, j] + V[j, i], abs=1e-14)
                assert d.velocity.student[l, i, j] == pytest.approx(
                    W[i, j] - gamma * V[i, j] + k * on_student, abs=1e-13
                )
                own = (
                    -2 * gamma * W[i, j]
                    + k * (on_i + on_j)
                    + k**2 / 2 * lam[l] * G[i, j]
                )
                assert d.velocity.own[l, i, j] == pytest.approx(own, abs=1e-13)


def test_fast_slow_momentum_is_plain_sgd():
    """gamma -> infinity with k = gamma lr: the same curve, up to 1/gamma."""
    start = tu.Start(R=[[0.3, 0.1], [0.05, 0.2]], Q=[[0.3, 0.05], [0.05, 0.25]])
    plain = problem_of(noise=0.1, lr=0.5)
    times = [0.0, 1.0]
    reference = tu.solve(plain, start, times)
    gaps = []
    for gamma in (50.0, 200.0):
        slow = tu.solve(
            plain.replace(momentum=tu.SlowMomentum(gamma)),
            start,
            times,
            rtol=1e-7,
            atol=1e-9,
        )
        gaps.append(
            max(
                float(np.max(np.abs(np.asarray(slow[x]) - np.asarray(reference[x]))))
                for x in ("R", "Q")
            )
        )
    assert gaps[0] < 0.03
    assert gaps[1] == pytest.approx(gaps[0] / 4, rel=0.1)
