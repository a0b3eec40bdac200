"""A and B of the mean drift:

against Monte Carlo averages of the update, the equations of `solve`, and bad input.
"""

import jax
import numpy as np
import pytest

import tutelage as tu

PROBLEM = tu.Problem(
    tu.Network(2, "erf", readout=[1.0, -0.5]),
    tu.Network(3, "erf"),
    optimizer=tu.SGD(lr=0.5),
)
R = np.array([[0.3, 0.1, -0.2], [0.0, 0.2, 0.1]])
Q = np.array([[0.5, 0.1], [0.1, 0.4]])
T = np.eye(3)


def test_they_are_the_mean_update_by_the_fields():
    """E[delta_k (lambda, rho)] = (A, B) C, with delta_k the update of `v_k g'(lambda_k) (y - yhat)`."""
    A, B = tu.analysis.drift_matrices(PROBLEM, R, Q, T)
    C = np.block([[Q, R], [R.T, T]])
    fields = np.random.default_rng(0).multivariate_normal(
        np.zeros(5), C, size=400_000, method="cholesky"
    )
    g = PROBLEM.student.activation.function
    slope = jax.vmap(jax.vmap(jax.grad(PROBLEM.student.activation.function)))
    v = np.asarray(PROBLEM.student.readout)
    v_teacher = np.asarray(PROBLEM.teacher.readout)
    gap = np.asarray(g(fields[:, 2:])) @ v_teacher - np.asarray(g(fields[:, :2])) @ v
    delta = gap[:, None] * v * np.asarray(slope(fields[:, :2]))
    samples = delta[:, :, None] * fields[:, None, :]
    error = samples.std(axis=0) / np.sqrt(len(samples))
    expected = np.concatenate([A, B], axis=1) @ C
    assert np.max(np.abs(samples.mean(axis=0) - expected) / error) < 4.5
    assert (
        np.max(np.abs(samples.mean(axis=0) - 1.2 * expected) / error) > 10
    )  # a negative control


def test_they_move_the_overlaps_as_solve_does():
    """To order eta, dR = eta (A R + B T) at the start of gradient flow."""
    A, B = tu.analysis.drift_matrices(PROBLEM, R, Q, T)
    step = 1e-4
    theory = tu.solve(PROBLEM, tu.Start(R, Q, T), times=[0.0, step], gradient_flow=True)
    np.testing.assert_allclose(
        (theory.R[1] - theory.R[0]) / step, 0.5 * (A @ R + B @ T), atol=1e-4
    )


def test_the_result_is_named_and_differentiable():
    found = tu.analysis.drift_matrices(PROBLEM, R, Q, T)
    assert found.A is found[0]
    assert found.B.shape == (2, 3)
    slope = jax.jacfwd(
        jax.jit(lambda r: tu.analysis.drift_matrices(PROBLEM, r, Q, T).A)
    )(R)
    higher = tu.analysis.drift_matrices(PROBLEM, R + 1e-6 * np.eye(2, 3), Q, T).A
    np.testing.assert_allclose(
        (higher - found.A) / 1e-6, slope[:, :, 0, 0] + slope[:, :, 1, 1], atol=1e-5
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("problem", R, Q, T),
            "problem is of type str; drift_matrices takes a tutelage Problem",
        ),
        ((PROBLEM, R.T, Q, T), r"R has shape \(3, 2\)"),
        ((PROBLEM, R, [[1.0]], T), "Q has shape"),
        ((PROBLEM, R, Q, "T"), "T is 'T'; it must be a number or an array"),
        ((PROBLEM, R, Q * np.nan, T), "Q contains nan"),
        ((PROBLEM, R, [[0.5, 0.1], [0.3, 0.4]], T), "must be symmetric"),
        ((PROBLEM, 3 * R, Q, T), r"\[\[Q, R\], \[R.T, T\]\] has the eigenvalue -"),
        (
            (PROBLEM.replace(loss="huber"), R, Q, T),
            "drift_matrices does not support this problem: the loss is",
        ),
    ],
)
def test_bad_input_is_explained(arguments, words):
    with pytest.raises(tu.InputError, match=words):
        tu.analysis.drift_matrices(*arguments)
