"""A linear network the slow way: all second moments of the weights, step by step, in any coordinates."""

import numpy as np

import tutelage as tu


def linear_problem(
    levels=5, beta=1.0, lr=0.5, noise=0.0, inputs=None, readouts=(1.0, 1.0), **optimizer
):
    """One linear unit learns from one linear unit on a power law."""
    student, teacher = (tu.Network(1, "linear", readout=v) for v in readouts)
    inputs = tu.PowerLaw(beta, levels) if inputs is None else inputs
    return tu.Problem(
        student, teacher, inputs=inputs, optimizer=tu.SGD(lr, **optimizer), noise=noise
    )


def exact_moments(
    covariance, a, b, steps, *, rate, decay=0.0, batch=1, noise=0.0, trained=None
):
    """sum_ij Sigma_ij E[e_i e_j] / N and diag E[e e^T], e = a - b, after each of the recorded steps (a sorted list).

    a <- a - (h/N) P C e - (h k/N) P a + (h/sqrt N) P mean(sigma xi x), C the covariance of one batch, P what is trained.
    With Gaussian inputs E[C e e^T C] = Sigma X Sigma + (Sigma X Sigma + Sigma tr(Sigma X))/B, X = E[e e^T].
    """
    N = len(a)
    P = np.eye(N) if trained is None else np.diag(np.asarray(trained, float))
    mean, second = a.copy(), np.outer(a, a)
    keep = np.eye(N) - rate / N * P @ (covariance + decay * np.eye(N))
    push = rate / N * P @ covariance @ b
    errors, squares = [], []
    for step in range(max(steps) + 1):
        X = second - np.outer(mean, b) - np.outer(b, mean) + np.outer(b, b)
        if step in steps:
            errors.append(np.sum(covariance * X) / N)
            squares.append(np.diag(X).copy())
        spread = (
            (covariance @ X @ covariance + covariance * np.sum(covariance * X))
            * rate**2
            / (N**2 * batch)
        )
        spread = spread + rate**2 * noise**2 / (N * batch) * covariance
        moved = keep @ mean
        second = (
            keep @ second @ keep.T
            + np.outer(moved, push)
            + np.outer(push, moved)
            + np.outer(push, push)
            + P @ spread @ P
        )
        mean = moved + push
    return np.array(errors), np.array(squares)


def sgd_errors(
    covariance, a, b, steps, runs, seed, *, rate, trained, batch=1, noise=0.0
):
    """e_g of `runs` networks with given weights after `steps` of plain SGD on raw inputs, by moving the weights."""
    rng, N = np.random.default_rng(seed), len(a)
    factor = np.linalg.cholesky(covariance)
    weights = np.repeat(a[None], runs, axis=0)
    for _ in range(steps):
        x = rng.standard_normal((runs, batch, N)) @ factor.T
        delta = np.einsum("rbn,rn->rb", x, b - weights) / np.sqrt(
            N
        ) + noise * rng.standard_normal((runs, batch))
        weights += (
            rate / np.sqrt(N) * trained * np.einsum("rb,rbn->rn", delta, x) / batch
        )
    e = weights - b
    return np.einsum("rn,nm,rm->r", e, covariance, e) / (2 * N)
