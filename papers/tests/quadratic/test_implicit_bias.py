"""Which solution a quadratic network reaches, what is conserved on the way, and how many solutions there are."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
import tutelage_papers
from tests.problem.messages import require_refusal
from tests.problems import pair
from tutelage_papers.quadratic.implicit_bias import polar_factor

P, Q = 3, 2


def quadratic(p=P, p_teacher=Q, lr=0.02, **optimizer):
    student, teacher = {"readout": 1 / p}, {"readout": 1 / p_teacher}
    return pair(
        p, p_teacher, "quadratic", lr=lr, student=student, teacher=teacher, **optimizer
    )


def start(seed=0, scale=0.05, norms=1.0):
    return tu.Start(
        scale * np.random.default_rng(seed).standard_normal((P, Q)),
        norms * np.eye(P),
        np.eye(Q),
    )


TILTED = np.array([[1.0, 0.3, 0.0], [0.3, 0.7, -0.2], [0.0, -0.2, 1.2]])


def test_polar_factor_is_that_of_the_definition():
    R = start().R
    values, vectors = np.linalg.eigh(R.T @ R)
    np.testing.assert_allclose(
        polar_factor(R), R @ vectors @ np.diag(values**-0.5) @ vectors.T, atol=1e-12
    )


@pytest.mark.parametrize("lr", [0.02, 0.4])
@pytest.mark.parametrize("norms", [1.0, 0.2])
def test_learning_ends_at_the_closest_solution(lr, norms):
    """Q(0) proportional to the identity, at a small rate and at a large one."""
    bias = tutelage_papers.quadratic.implicit_bias(quadratic(lr=lr), start(norms=norms))
    path = bias.follow()
    assert bias.conserved
    assert path.confirmed
    assert path.moved.max() < 1e-6
    assert path.gap[-1] < 2e-4
    assert path.error[-1] < 1e-6
    np.testing.assert_allclose(path.S[-1], bias.S, atol=1e-6)


def test_a_start_in_order_need_not_be_isotropic():
    """Q(0) a function of R0 R0^T, and T one of R0^T R0."""
    R = np.asarray(start().R)
    left, right = R @ R.T, R.T @ R
    at = tu.Start(R, np.eye(P) + 40 * left, np.eye(Q) + 30 * right)
    bias = tutelage_papers.quadratic.implicit_bias(quadratic(), at)
    path = bias.follow()
    assert bias.conserved
    assert path.confirmed
    assert path.moved.max() < 1e-6
    np.testing.assert_allclose(
        bias.R, np.sqrt(P / Q) * bias.S @ np.asarray(at.T), atol=1e-14
    )


def test_otherwise_it_ends_elsewhere():
    """The published claim fails without its condition: still a solution, but not the closest."""
    for at in (
        tu.Start(start().R, TILTED, np.eye(Q)),
        tu.Start(start().R, np.eye(P), [[1.0, 0.4], [0.4, 1.0]]),
    ):
        bias = tutelage_papers.quadratic.implicit_bias(quadratic(), at)
        path = bias.follow()
        assert not bias.conserved
        assert max(bias.disorder) > 0.01
        assert path.error[-1] < 1e-6
        assert not path.confirmed
        assert path.moved.max() > 0.02
        assert "S moves" in str(bias)
        assert "elsewhere" in str(path)


def test_other_starts_end_at_other_solutions():
    bias = tutelage_papers.quadratic.implicit_bias(quadratic(), start())
    other = tutelage_papers.quadratic.implicit_bias(quadratic(), start(seed=5)).follow()
    seen = bias.along(tu.solve(quadratic(), start(seed=5), other.times))
    assert seen.gap[-1] > 0.3
    assert seen.moved.max() < 1e-6


def test_the_prediction_is_the_closest_of_all_solutions():
    """Against explicit weights: no other S^T S = 1 is closer, and R, Q, distance are those of the weights."""
    n, rng = 40, np.random.default_rng(3)
    W, T = rng.standard_normal((P, n)), rng.standard_normal((Q, n))
    bias = tutelage_papers.quadratic.implicit_bias(
        quadratic(), tu.start_from_weights(quadratic(), W, T)
    )
    reached = np.sqrt(P / Q) * bias.S @ T
    np.testing.assert_allclose(bias.R, reached @ T.T / n, atol=1e-12)
    np.testing.assert_allclose(bias.Q, reached @ reached.T / n, atol=1e-12)
    assert bias.distance == pytest.approx(np.sum((W - reached) ** 2) / n, rel=1e-12)
    assert tu.analysis.landscape(quadratic(), reached, T).error < 1e-14
    for step in (1e-3, 0.1, 1.0):
        for _ in range(20):
            S = polar_factor(bias.S + step * rng.standard_normal((P, Q)))
            assert np.sum((W - np.sqrt(P / Q) * S @ T) ** 2) / n > bias.distance


def test_runs_have_a_leading_axis():
    bias = tutelage_papers.quadratic.implicit_bias(quadratic(lr=0.4), start())
    runs = tu.simulate(
        quadratic(lr=0.4), start(), dim=200, times=[0.0, 1.0, 2.0], runs=3
    )
    path = bias.along(runs)
    assert path.S.shape == (3, 3, P, Q)
    assert path.gap.shape == path.moved.shape == (3, 3)
    np.testing.assert_allclose(path.moved[:, 0], 0.0)


def test_extra_units_vanish_algebraically():
    """The merely flat directions: norms of idle units fall as 1/alpha, the error as 1/alpha^2."""
    path = tutelage_papers.quadratic.implicit_bias(quadratic(), start()).follow()
    late = path.times > 0.1 * path.times[-1]
    slope = np.polyfit(np.log(path.times[late]), np.log(path.error[late]), 1)[0]
    assert slope == pytest.approx(-2.0, abs=0.05)


@pytest.mark.parametrize(("p", "p_teacher"), [(1, 3), (2, 3), (2, 5)])
def test_fewer_students_end_at_the_closest_best_fit(p, p_teacher):
    """By the flow of explicit weights, which knows nothing of modes; the error and alpha are those of the critical point."""
    n, rng = p_teacher + 4, np.random.default_rng(p)
    J_teacher = np.eye(n)[:p_teacher]
    J = np.concatenate(
        [0.1 * rng.standard_normal((p, p_teacher)), np.eye(4)[:p]], axis=1
    )
    values, vectors = np.linalg.eigh(J @ J.T)
    J = (vectors / np.sqrt(values)) @ vectors.T @ J

    def rates(_, y):
        J = y.reshape(p, n)
        E = J_teacher.T @ J_teacher / p_teacher - J.T @ J / p
        return (2 / p * J @ (np.trace(E) * np.eye(n) + 2 * E)).ravel()

    end = (
        solve_ivp(rates, (0, 400), J.ravel(), rtol=1e-10, atol=1e-12)
        .y[:, -1]
        .reshape(p, n)
    )
    problem = quadratic(p, p_teacher)
    bias = tutelage_papers.quadratic.implicit_bias(
        problem, tu.start_from_weights(problem, np.sqrt(n) * J, np.sqrt(n) * J_teacher)
    )
    best = tutelage_papers.quadratic.critical_points(problem, n)[p, 0]
    assert bias.conserved
    np.testing.assert_allclose(end @ J_teacher.T, bias.R, atol=1e-6)
    np.testing.assert_allclose(end @ end.T, bias.Q, atol=1e-6)
    np.testing.assert_allclose(bias.Q, best.alpha * np.eye(p), atol=1e-12)
    assert bias.distance == pytest.approx(np.sum((J - end) ** 2), rel=1e-6)
    assert bias.manifold_dimension == best.manifold_dimension
    assert "best fits" in str(bias)


def test_noise_is_mentioned_and_the_figure_drawn():
    bias = tutelage_papers.quadratic.implicit_bias(
        quadratic(lr=0.4, noise=0.1), start()
    )
    assert "label noise" in str(bias)
    noisy = bias.follow()
    assert noisy.moved.max() < 1e-6  # S is conserved all the same
    assert noisy.error[-1] > 1e-5
    bias = tutelage_papers.quadratic.implicit_bias(quadratic(), start())
    assert bias.manifold_dimension == 3
    assert bias.degrees_of_freedom is None
    far, error, kept = bias.plot(
        tu.solve(quadratic(), start(seed=5), bias.follow().times)
    ).axes
    assert [line.get_label() for line in far.lines] == [
        "other initial conditions",
        "this initial condition",
    ]
    assert len(kept.lines) == P * Q
    assert all(axes.get_ylabel() for axes in (far, error, kept))
    assert "alpha" in kept.get_xlabel()


# students, teachers, N: also more students than dimensions, and more teachers
WIDTHS = [
    (1, 1, 4),
    (2, 1, 4),
    (5, 1, 4),
    (3, 3, 5),
    (6, 3, 5),
    (9, 3, 5),
    (8, 7, 5),
    (12, 3, 6),
    (5, 5, 5),
    (2, 3, 5),
]


@pytest.mark.parametrize(("p", "p_teacher", "dim"), WIDTHS)
def test_counts_are_ranks(p, p_teacher, dim):
    found = tutelage_papers.quadratic.solution_manifold(p, p_teacher, dim)
    assert found.degrees_of_freedom == found.measured_degrees_of_freedom(seed=1)
    if p >= min(p_teacher, dim):
        assert found.dimension == found.measured_dimension(seed=1)
    assert str(found.degrees_of_freedom) in str(found)


@pytest.mark.parametrize(("p", "p_teacher", "dim"), WIDTHS)
def test_tangent_families_are_counted_apart(p, p_teacher, dim):
    """S Omega and S_perp K of section 7.2.3: their ranks add up to the dimension."""
    found = tutelage_papers.quadratic.solution_manifold(p, p_teacher, dim)
    if p < min(p_teacher, dim):
        assert found.rotations is None
        assert found.exchanges is None
        with pytest.raises(tu.InputError, match="no solution to measure at"):
            found.tangents()
        return
    tangents = found.tangents(seed=2)
    assert tangents.ranks == (found.rotations, found.exchanges)
    assert tangents.common_rank == found.dimension
    # a direction along the manifold leaves W^T W as it is; a random one does not
    directions = np.concatenate([tangents.rotations, tangents.exchanges])
    changes = np.einsum("cki,kj->cij", directions, tangents.W)
    changes += np.swapaxes(changes, 1, 2)
    np.testing.assert_allclose(changes, 0.0, atol=1e-10)
    other = np.random.default_rng(3).standard_normal(tangents.W.shape)
    change = other.T @ tangents.W
    assert np.max(np.abs(change + change.T)) > 0.1


def test_tangent_families_are_those_of_the_hessian():
    """The flat families of the spectrum at zero error, apart from the merely flat one."""
    problem = tutelage_papers.quadratic.quadratic_network(5, 3).problem
    point = tutelage_papers.quadratic.critical_points(problem, dim=9)[3, 0]
    flat = {c.family: c.multiplicity for c in point.spectrum if c.value == 0}
    found = tutelage_papers.quadratic.solution_manifold(5, 3, 9)
    assert (found.rotations, found.exchanges) == (3, 6)
    assert flat["along equal error: student units rotate among themselves"] == 3
    assert flat["along equal error: idle units take their share"] == 6
    assert flat["merely flat: idle units grow anywhere else"] == (9 - 3) * (5 - 3)
    assert "3 rotations of the used directions, 6 exchanges" in str(found)


def test_counts_as_published():
    assert (
        tutelage_papers.quadratic.solution_manifold(7, 1, 20).dimension == 6
    )  # p* = 1: p - 1
    assert (
        tutelage_papers.quadratic.solution_manifold(6, 3, 20).degrees_of_freedom
        == 20 * 6 - 15
    )
    assert {
        tutelage_papers.quadratic.solution_manifold(p, 3, 5).degrees_of_freedom
        for p in (5, 6, 9, 30)
    } == {15}  # N (N + 1) / 2
    assert tutelage_papers.quadratic.solution_manifold(2, 3, 20).dimension is None
    top, bottom = tutelage_papers.quadratic.solution_manifold(3, 2, 4).plot().axes
    np.testing.assert_array_equal(
        top.lines[0].get_ydata()[::2], top.lines[1].get_ydata()[::2]
    )
    assert "student units" in bottom.get_xlabel()


@pytest.mark.parametrize(
    ("call", "mentions"),
    [
        (
            lambda: tutelage_papers.quadratic.implicit_bias(pair(3, 2), start()),
            ("erf", "quadratic"),
        ),
        (
            lambda: tutelage_papers.quadratic.implicit_bias(
                pair(3, 2, "quadratic", student={"readout": [1, 1, 0.5]}), start()
            ),
            ("readout",),
        ),
        (
            lambda: tutelage_papers.quadratic.implicit_bias(
                quadratic(1, 2),
                tu.Start([[0.1, 0.1]], [[1.0]], [[1.0, 0.3], [0.3, 1.0]]),
            ),
            ("1 units", "orthonormal"),
        ),
        (
            lambda: tutelage_papers.quadratic.implicit_bias(
                quadratic(), tu.Start(np.zeros((3, 2)), np.eye(3))
            ),
            ("rank 0", "rank 2"),
        ),
        (
            lambda: tutelage_papers.quadratic.implicit_bias(
                quadratic(weight_decay=0.1), start()
            ),
            ("weight_decay",),
        ),
        (lambda: tutelage_papers.quadratic.implicit_bias(quadratic(), 0.1), ("start",)),
        (
            lambda: tutelage_papers.quadratic.implicit_bias(
                quadratic(lr=tu.schedules.PowerDecay(0.1)), start()
            ).follow(),
            ("learning rate", "times"),
        ),
        (
            lambda: tutelage_papers.quadratic.implicit_bias(quadratic(), start()).along(
                SimpleNamespace(R=np.ones((5, 2, 2)))
            ),
            ("3, 2",),
        ),
        (
            lambda: tutelage_papers.quadratic.solution_manifold(
                2, 3, 5
            ).measured_dimension(),
            ("cannot copy",),
        ),
        (lambda: tutelage_papers.quadratic.solution_manifold(0, 3, 5), ("students",)),
        (
            lambda: tutelage_papers.quadratic.solution_manifold(
                100, 3, 500
            ).measured_degrees_of_freedom(),
            ("50000", "4000"),
        ),
    ],
)
def test_what_is_refused(call, mentions):
    with pytest.raises(tu.InputError) as refusal:
        call()
    require_refusal(refusal.value, *mentions)


def test_traced_problems_are_refused():
    def through(lr):
        return tutelage_papers.quadratic.implicit_bias(
            quadratic(lr=lr), start()
        ).distance

    with pytest.raises(tu.InputError) as refusal:
        jax.jit(through)(0.1)
    require_refusal(refusal.value, "traced", "implicit_bias")
