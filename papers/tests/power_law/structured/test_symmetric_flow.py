"""Alike units: four numbers per level are the whole gradient flow, for any number of units."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tutelage.errors import InputError


def _committee(K=3, L=4):
    return tutelage_papers.power_law.committee(K, inputs=tu.PowerLaw(1.0, L), lr=0.2)


def _start(K=3, own=0.05, other=0.02):
    return tu.Start(own * np.eye(K) + other, 0.1 * np.eye(K) + 0.03, np.eye(K))


def test_it_is_the_gradient_flow_of_the_overlaps():
    problem, start, times = _committee(), _start(), tu.linear_times(1500, 41)
    solved = tu.solve(problem, start, times, gradient_flow=True, keep="blocks")
    flow = tutelage_papers.power_law.symmetric_flow(
        problem, start, times, rtol=1e-8, atol=1e-11
    )
    assert (
        solved.error[0] / solved.error[-1] > 30
    )  # plateau, escape and last stage are all there
    np.testing.assert_allclose(flow.trajectory.error, solved.error, rtol=1e-5)
    np.testing.assert_allclose(flow.trajectory.R, solved.R, atol=1e-5)
    np.testing.assert_allclose(flow.trajectory.Q, solved.Q, atol=1e-5)
    own, other = solved.r[:, :, 0, 0], solved.r[:, :, 0, 1]
    np.testing.assert_allclose(flow.inside[:, 0], own - other, atol=1e-5)
    np.testing.assert_allclose(flow.inside[:, 1], own + 2 * other, atol=1e-5)
    squared = solved.q[:, :, 0, 0] - solved.q[:, :, 0, 1]
    np.testing.assert_allclose(
        flow.inside[:, 0] ** 2 + flow.outside[:, 0] ** 2, squared, atol=1e-5
    )
    assert "3 symmetric units on 4 levels" in str(flow)


def test_many_units_are_those_of_the_flow_of_their_weights():
    """Twelve units, teachers orthonormal in each of two levels: weights of 48 inputs instead of two units in their name."""
    K, L, per = 12, 2, 24
    problem, rng = (
        tutelage_papers.power_law.committee(K, inputs=tu.PowerLaw(1.0, L), lr=0.2),
        np.random.default_rng(0),
    )
    start, times = _start(K, own=0.2, other=0.01), tu.linear_times(2000, 21)
    bases = [
        np.linalg.qr(rng.standard_normal((per, per)))[0] * np.sqrt(per)
        for _ in range(L)
    ]
    root = np.linalg.cholesky(
        np.asarray(start.Q) - np.asarray(start.R) @ np.asarray(start.R).T
    )
    teachers = np.concatenate([basis[:K] for basis in bases], axis=1)
    students = np.concatenate(
        [start.R @ basis[:K] + root @ basis[K:] for basis in bases], axis=1
    )
    expected = tutelage_papers.power_law.weight_flow(
        problem, (students, teachers), times, rtol=1e-7, atol=1e-10
    ).trajectory
    flow = tutelage_papers.power_law.symmetric_flow(
        problem, start, times, rtol=1e-7, atol=1e-10
    ).trajectory
    np.testing.assert_allclose(flow.error, expected.error, rtol=1e-3)
    np.testing.assert_allclose(flow.R, expected.R, atol=1e-4)
    other = tutelage_papers.power_law.symmetric_flow(
        problem, _start(K, own=0.21, other=0.01), times, rtol=1e-7, atol=1e-10
    ).trajectory
    assert np.abs(other.error / expected.error - 1).max() > 0.01


def test_levels_may_start_differently():
    problem, times = _committee(3, 4), tu.linear_times(1500, 41)
    own = np.array([0.1, 0.2, 0.3, 0.4])[:, None, None]
    start = tu.Start(
        own * np.eye(3), (own**2 + 0.05) * np.eye(3), np.eye(3) * np.ones((4, 1, 1))
    )
    solved = tu.solve(problem, start, times, gradient_flow=True, keep="blocks")
    flow = tutelage_papers.power_law.symmetric_flow(
        problem, start, times, rtol=1e-8, atol=1e-11
    )
    np.testing.assert_allclose(flow.trajectory.error, solved.error, rtol=1e-5)


def test_slopes_are_local_exponents():
    near, times = (
        tu.Start(0.95 * np.eye(3), 0.91 * np.eye(3), np.eye(3)),
        np.concatenate([[0.0], np.geomspace(1, 100, 40)]),
    )
    flow = tutelage_papers.power_law.symmetric_flow(_committee(), near, times)
    t, error = flow.trajectory.times[1:], flow.trajectory.error[1:]
    middle = np.log(error[2:] / error[:-2]) / np.log(t[2:] / t[:-2])
    np.testing.assert_allclose(flow.slopes[2:-1], middle, rtol=1e-9)
    assert np.isnan(flow.slopes[0])
    one = SimpleNamespace(times=np.array([0.0, 1.0]), error=np.array([0.2, 0.1]))
    assert np.isnan(replace(flow, trajectory=one).slopes).all()


@pytest.mark.parametrize(
    ("problem", "start", "words"),
    [
        (
            lambda: tutelage_papers.power_law.committee(3, 2),
            lambda: tu.Start(np.zeros((3, 2)), np.eye(3)),
            "K = M",
        ),
        (
            lambda: _committee(),
            lambda: tu.random_start(_committee(), dim=100),
            "not symmetric",
        ),
        (
            lambda: _committee(),
            lambda: tu.Start(np.zeros((3, 3)), np.eye(3), 2 * np.eye(3)),
            "orthonormal",
        ),
        (lambda: _committee(), lambda: _start(2), "3 units"),
        (
            lambda: _committee(),
            lambda: tu.Start(np.eye(3), 0.5 * np.eye(3)),
            "negative",
        ),
    ],
)
def test_what_is_refused(problem, start, words):
    with pytest.raises(InputError, match=words):
        tutelage_papers.power_law.symmetric_flow(problem(), start(), 1.0)
