"""Gradient flow of the weights is that of their overlaps; the stabilized solver is second order and stable when stiff."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tutelage.errors import InputError
from tutelage_papers.power_law.structured.gradient_flow import Chebyshev


@pytest.fixture(scope="module")
def case():
    problem = tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    rng = np.random.default_rng(1)
    return problem, (0.01 * rng.standard_normal((3, 24)), rng.standard_normal((3, 24)))


def test_overlaps_are_those_of_solve(case):
    problem, weights = case
    times = tu.linear_times(400, 81)
    solved = tu.solve(
        problem, tu.start_from_weights(problem, *weights), times, gradient_flow=True
    )
    for solver, rtol, gap in (("stabilized", 1e-8, 1e-4), ("explicit", 1e-9, 1e-6)):
        flow = tutelage_papers.power_law.weight_flow(
            problem, weights, times, solver=solver, rtol=rtol, atol=1e-12
        )
        np.testing.assert_allclose(flow.trajectory.error, solved.error, rtol=gap)
        np.testing.assert_allclose(flow.trajectory.R, solved.R, atol=gap)
    W, lam = flow.weights[-1], flow.eigenvalues
    np.testing.assert_allclose((W * lam) @ W.T / 24, flow.trajectory.Q[-1], rtol=1e-10)
    assert "3 x 24 weights" in str(flow)
    assert flow.trajectory.finished


def test_linear_flow_is_the_late_decay(case):
    problem, (_, W_teacher) = case
    rng, times = np.random.default_rng(3), tu.linear_times(400, 81)
    W = W_teacher[[1, 2, 0]] + 0.1 * rng.standard_normal((3, 24))
    decay = tutelage_papers.power_law.asymptotic_decay(
        problem, tu.start_from_weights(problem, W, W_teacher)
    )
    flow = tutelage_papers.power_law.weight_flow(
        problem, (W, W_teacher), times, linear=True, rtol=1e-8, atol=1e-12
    )
    np.testing.assert_allclose(flow.trajectory.error, decay.error(times), rtol=1e-3)
    whole = tutelage_papers.power_law.weight_flow(
        problem, (W, W_teacher), times, rtol=1e-8, atol=1e-12
    )
    assert (
        np.abs(flow.trajectory.error / whole.trajectory.error - 1).max() > 0.01
    )  # the force is not linear


def test_specialization_rates_are_those_of_the_whole_jacobian(case):
    """Numerical derivative of the force on all weights, at alike students that are not at rest."""
    problem, (_, W_teacher) = case
    rng, N, K = np.random.default_rng(2), 24, 3
    common = 0.3 * W_teacher.sum(axis=0) + 0.1 * rng.standard_normal(N)
    flow = tutelage_papers.power_law.weight_flow(
        problem, (np.tile(common, (K, 1)), W_teacher), [0.0, 1e-3]
    )
    step = 1e-5

    def force(deviation):
        W = np.tile(common, (K, 1))
        W[0] += deviation
        W[1] -= deviation
        return _naive_force(problem, W, W_teacher)[0]

    matrix = np.stack(
        [(force(step * e) - force(-step * e)) / (2 * step) for e in np.eye(N)], axis=1
    )
    expected = np.sort(np.linalg.eigvals(matrix).real)[::-1]
    np.testing.assert_allclose(flow.specialization_rates(0), expected, atol=1e-7)
    assert expected[0] > 1e-3


def _naive_force(problem, W, W_teacher):
    """eta (A W + B W*) Omega for erf, term by term."""
    lam = np.repeat(problem.inputs.eigenvalues, W.shape[1] // 4)
    vectors, N, K = np.concatenate([W, W_teacher]), W.shape[1], len(W)
    C = (vectors * lam) @ vectors.T / N
    d = 1 + np.diag(C)
    w = np.concatenate(
        [-np.asarray(problem.student.readout), np.asarray(problem.teacher.readout)]
    )
    out = np.zeros_like(W)
    for k in range(K):
        for a in range(len(C)):
            root = np.sqrt(d[k] * d[a] - C[k, a] ** 2)
            out[k] += (
                -w[k] * w[a] * (2 / np.pi) / root * (vectors[a] - C[k, a] / d[k] * W[k])
            )
    return float(problem.optimizer.lr) * lam * out


def test_the_asymmetry_vanishes_for_alike_students(case):
    problem, (W, W_teacher) = case
    flow = tutelage_papers.power_law.weight_flow(
        problem, (np.tile(W[:1], (3, 1)), W_teacher), [0.0, 5.0]
    )
    assert np.all(flow.asymmetry < 1e-14)


def _decay(rate, rtol):
    """y' = -rate (y - cos t) with y(0) = 0, to t = 2."""
    lam = jnp.array([1.0, rate])
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: -lam * (y - jnp.cos(t))),
        Chebyshev(),
        0.0,
        2.0,
        None,
        jnp.zeros(2),
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.5, 2.0, 7)),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol),
        max_steps=20_000,
    )
    t = np.linspace(0.5, 2.0, 7)[:, None]
    lam = np.array([1.0, rate])
    exact = lam / (1 + lam**2) * (lam * np.cos(t) + np.sin(t) - lam * np.exp(-lam * t))
    return np.abs(np.asarray(solution.ys) - exact).max(), int(
        solution.stats["num_steps"]
    )


def test_the_stabilized_solver_is_accurate_and_takes_long_steps():
    gap, steps = _decay(1e4, 1e-5)
    assert gap < 3e-4
    assert (
        steps < 500
    )  # an explicit step would be shorter than 3 / 10^4, so 10^4 of them
    finer, more = _decay(1e4, 1e-7)
    assert finer < gap / 5
    assert more < 10 * steps


def test_bad_input_gets_a_sentence(case):
    problem, weights = case
    with pytest.raises(InputError, match="pair"):
        tutelage_papers.power_law.weight_flow(problem, weights[0], 1.0)
    with pytest.raises(InputError, match="increase"):
        tutelage_papers.power_law.weight_flow(problem, weights, [1.0, 0.5])
    with pytest.raises(InputError, match="max_steps"):
        tutelage_papers.power_law.weight_flow(problem, weights, 100.0, max_steps=3)
    with pytest.raises(InputError, match="readout learns"):
        tutelage_papers.power_law.weight_flow(
            problem.replace(**{"student.train_readout": True}), weights, 1.0
        )
