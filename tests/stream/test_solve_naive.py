"""`solve` against an independent implementation:

plain loops, scipy's DOP853 at 1e-11, or at COARSE (tests/naive.py).
"""

import numpy as np
import pytest

import tutelage as tu
from tests import naive
from tests.problems import generic_overlaps

TIMES = np.linspace(0.0, 8.0, 9)
COARSE = 1e-9  # of slow loops; fine enough for a gap of 1e-7


def both(
    family,
    activation,
    K,
    M,
    *,
    lr,
    times=TIMES,
    size=1.0,
    seed=0,
    v=None,
    v_teacher=None,
    train=0.0,
    **more,
):
    R, Q, T = generic_overlaps(K, M, seed, size)
    v = np.ones(K) if v is None else np.array(v)
    v_teacher = np.ones(M) if v_teacher is None else np.array(v_teacher)
    reference = naive.solve(
        family, R, Q, T, v, v_teacher, lr, times, readout_lr=train, **more
    )
    problem = tu.Problem(
        tu.Network(K, activation, readout=v, train_readout=train > 0),
        tu.Network(M, activation, readout=v_teacher),
        optimizer=tu.SGD(
            lr,
            batch=more.get("batch", 1),
            weight_decay=more.get("decay", 0.0),
            readout_lr=train if train else None,
        ),
        noise=more.get("sigma", 0.0),
    )
    return tu.solve(
        problem, tu.Start(R, Q, T), times, gradient_flow=more.get("flow", False)
    ), reference


def gap(ours, reference):
    (R, Q, v), error = reference
    return max(
        np.abs(a - b).max()
        for a, b in ((ours.R, R), (ours.Q, Q), (ours.readout, v), (ours.error, error))
    )


ERF = {
    "K": 3, "M": 2, "lr": 0.7, "v": [1.0, -0.6, 0.8], "v_teacher": [1.2, -0.7], "sigma": 0.3, "batch": 4, "decay": 0.02,
}  # fmt: skip


def test_erf_with_general_teacher_signed_readouts_noise_batch_and_decay():
    assert gap(*both(naive.Erf, "erf", **ERF)) < 1e-7


@pytest.mark.parametrize(
    "change", [{"sigma": 0.31}, {"batch": 5}, {"decay": 0.021}, {"lr": 0.701}]
)
def test_a_slightly_different_problem_is_told_apart(change):
    """Negative control: the tolerance of 1e-7 sees a change of 1% in any ingredient."""
    ours, _ = both(naive.Erf, "erf", **ERF)
    _, other = both(naive.Erf, "erf", **(ERF | change))
    assert gap(ours, other) > 1e-5


def test_erf_with_trained_readout():
    assert (
        gap(*both(naive.Erf, "erf", 2, 2, lr=0.5, train=0.3, sigma=0.1, v=[0.5, -0.3]))
        < 1e-7
    )


def test_quadratic():
    assert (
        gap(
            *both(
                naive.Wick(2),
                "quadratic",
                2,
                2,
                lr=0.02,
                sigma=0.2,
                size=0.7,
                v=[0.5, 0.4],
                decay=0.01,
            )
        )
        < 1e-7
    )


def test_linear():
    assert (
        gap(
            *both(
                naive.Wick(1), "linear", 2, 2, lr=0.3, sigma=0.2, batch=2, v=[0.5, -0.7]
            )
        )
        < 1e-7
    )


@pytest.mark.full  # averages of cubic units are compared in moments/test_polynomial.py
def test_hermite_three_equals_its_monomials_only_through_the_library():
    """x^3 by pairings, one at a time, against the same polynomial in the library."""
    ours = tu.Activation("cube", lambda x: x**3, polynomial=(0.0, 0.0, 0.0, 1.0))
    assert (
        gap(
            *both(
                naive.Wick(3),
                ours,
                2,
                1,
                lr=2e-3,
                size=0.5,
                sigma=0.1,
                times=TIMES[:5],
                rtol=COARSE,
            )
        )
        < 1e-7
    )


def test_relu():
    assert (
        gap(
            *both(
                naive.Relu(),
                "relu",
                2,
                2,
                lr=0.4,
                sigma=0.1,
                times=TIMES[:2],
                rtol=COARSE,
            )
        )
        < 1e-7
    )


@pytest.mark.full
def test_tanh_gradient_flow():
    family = naive.Grid(np.tanh, lambda x: 1 / np.cosh(x) ** 2)
    assert (
        gap(
            *both(family, "tanh", 2, 2, lr=0.5, flow=True, times=TIMES[:5], rtol=COARSE)
        )
        < 1e-7
    )


def test_tanh_with_all_terms():
    """Three fields:

    every average directly on a tensor grid, no textbook integrals at all.
    """
    K = 2
    M = 1
    lr = 0.8
    sigma = 0.2
    R, Q, T = generic_overlaps(K, M, seed=1)
    problem = tu.Problem(
        tu.Network(K, "tanh"), tu.Network(M, "tanh"), optimizer=tu.SGD(lr), noise=sigma
    )
    ours = tu.solve(problem, tu.Start(R, Q, T), TIMES[:4])
    _, error = naive.solve_on_grid(
        np.tanh, lambda x: 1 / np.cosh(x) ** 2, R, Q, T, lr, TIMES[:4], sigma
    )
    flow = tu.solve(problem.replace(batch=10**6), tu.Start(R, Q, T), TIMES[:4])
    assert np.abs(ours.error / error - 1).max() < 1e-4
    assert np.abs(flow.error / error - 1).max() > 1e-2  # the eta^2 term matters here
