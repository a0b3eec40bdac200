"""Critical points of quadratic networks: predicted spectra against dense Hessians, published tables, and a blind search."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares

import tutelage as tu
import tutelage_papers
from tests.problem.messages import require_refusal
from tests.problems import pair
from tutelage_papers.quadratic.critical_points import compare_spectra

# p, p*, N: p = p* = 1, equal, more students, fewer, more students than dimensions, no room beside the teachers
WIDTHS = [
    *((1, 1, 5), (1, 1, 1), (2, 2, 7), (3, 3, 9), (2, 1, 6), (3, 1, 4), (3, 2, 8)),
    *((4, 2, 5), (6, 3, 10), (2, 3, 8), (1, 3, 6), (2, 4, 9), (7, 2, 5), (3, 2, 2)),
]


def quadratic(p, p_teacher, v=None, v_teacher=None):
    """Readouts 1/p and 1/p*, unless given."""
    student, teacher = {"readout": v or 1 / p}, {"readout": v_teacher or 1 / p_teacher}
    return pair(p, p_teacher, "quadratic", student=student, teacher=teacher)


def risk(J, J_teacher):
    """The paper's population risk, eq. 23, written out."""
    (p, p_teacher), Q, rho = (len(J), len(J_teacher)), J @ J.T, J @ J_teacher.T
    squares = sum(
        Q[k, k] * Q[l, l] + 2 * Q[k, l] ** 2 for k in range(p) for l in range(p)
    )
    return (
        (p_teacher + 2) / p_teacher
        - 2 / p * np.trace(Q)
        - 4 / (p * p_teacher) * np.sum(rho**2)
        + squares / p**2
    )


def gradient(J, J_teacher):
    """The paper's eq. 24."""
    (p, p_teacher), Q, rho = (len(J), len(J_teacher)), J @ J.T, J @ J_teacher.T
    return (
        -4
        / p
        * (J + 2 / p_teacher * rho @ J_teacher - (np.trace(Q) * J + 2 * Q @ J) / p)
    )


def hessian(J, J_teacher):
    """The paper's eq. 25, block by block."""
    p, p_teacher, n, Q = len(J), len(J_teacher), J.shape[1], J @ J.T
    one = np.eye(n)
    blocks = [[None] * p for _ in range(p)]
    for k in range(p):
        for l in range(p):
            block = (
                -2 / p * (Q[k, l] * one + np.outer(J[l], J[k]) + np.outer(J[k], J[l]))
            )
            if k == l:
                block = (
                    block
                    + (1 - np.trace(Q) / p) * one
                    + 2 / p_teacher * J_teacher.T @ J_teacher
                    - 2 / p * J.T @ J
                )
            blocks[k][l] = -4 / p * block
    return np.block(blocks)


def expanded(point):
    return np.repeat(
        [c.value for c in point.spectrum], [c.multiplicity for c in point.spectrum]
    )


@pytest.mark.parametrize(("p", "p_teacher", "dim"), WIDTHS)
def test_every_eigenvalue_and_multiplicity(p, p_teacher, dim):
    """Ours are half of those of a loss without the factor 1/2."""
    points = tutelage_papers.quadratic.critical_points(quadratic(p, p_teacher), dim)
    for point in points:
        J, J_teacher = (w / np.sqrt(dim) for w in point.weights(seed=p))
        np.testing.assert_allclose(
            J_teacher @ J_teacher.T, np.eye(p_teacher), atol=1e-12
        )
        np.testing.assert_allclose(gradient(J, J_teacher), 0.0, atol=1e-12)
        assert 2 * point.error == pytest.approx(risk(J, J_teacher), abs=1e-12)
        found = np.linalg.eigvalsh(hessian(J, J_teacher))
        np.testing.assert_allclose(2 * expanded(point), found, atol=1e-11)
        assert point.merely_flat == (
            (p - p_teacher) * (dim - p_teacher) if point.name == "zero error" else 0
        )
        assert sum(c.multiplicity for c in point.spectrum) == p * dim


@pytest.mark.parametrize(
    ("p", "p_teacher", "dim"), [(3, 2, 8), (3, 2, 10_000), (2, 3, 8)]
)
def test_check_compares_with_the_numerical_landscape(p, p_teacher, dim):
    for point in tutelage_papers.quadratic.critical_points(
        quadratic(p, p_teacher), dim
    ):
        check = point.check()
        assert check.passed, str(check)
        assert check.eigenvalue_gap < 1e-12
        assert "agrees" in str(check)


def test_check_finds_a_wrong_prediction():
    """A negative control: another class, another width."""
    points = tutelage_papers.quadratic.critical_points(quadratic(3, 2), 8)
    assert not compare_spectra(points[0, 2], points[1, 1].landscape()).passed
    assert not compare_spectra(
        replace(points[0, 2], dim=9), points[0, 2].landscape()
    ).passed
    assert "DIFFERS" in str(compare_spectra(points[0, 2], points[1, 1].landscape()))


def test_other_readouts():
    for point in tutelage_papers.quadratic.critical_points(
        quadratic(3, 2, v=1.0, v_teacher=0.6), 6
    ):
        assert point.check(seed=2).passed


def test_published_tables():
    """The paper's four spectra, eigenvalues halved: tabula rasa, plateau, zero error, all students on one teacher."""
    p, q, n = 4, 3, 12
    points = tutelage_papers.quadratic.critical_points(quadratic(p, q), n)
    tables = {
        (0, 0): {-2 / p * (1 + 2 / q): p * q, -2 / p: p * (n - q)},
        (0, p): {
            -4 / (p * q): p * q,
            0: p * (n - q - p) + p * (p - 1) // 2,
            8 / (p * (p + 2)): p * (p + 1) // 2 - 1,
            4 / p: 1,
        },
        (q, 0): {
            0: (n - q) * (p - q) + q * (p - q) + q * (q - 1) // 2,
            4 / (p * q): q * (n - q),
            8 / (p * q): q * (q + 1) // 2 - 1,
            4 / (p * q) * (2 + q): 1,
        },
        (1, 0): {
            -4 * (q - 1) / (3 * p * q): (n - q) * (p - 1),
            -4 * (q + 2) / (3 * p * q): (q - 1) * (p - 1),
            0: p + q - 2,
            4 / (p * q): n - q,
            4 * (2 + q) / (p * q): 1,
        },
    }
    for place, table in tables.items():
        wanted = np.sort(np.repeat(list(table), list(table.values())))
        np.testing.assert_allclose(expanded(points[place]), wanted, atol=1e-14)
    plateau, solution = points[0, p], points[q, 0]
    assert plateau.index / plateau.flat == pytest.approx(
        q / (n - q - p / 2 - 1 / 2)
    )  # eq. 29
    assert plateau.error == pytest.approx((1 + 2 / q - p / (p + 2)) / 2)
    assert plateau.beta == pytest.approx(p / (p + 2))
    assert solution.manifold_dimension == p * q - q * (q + 1) // 2


def test_one_student_and_one_teacher_meet():
    """p = p* = 1: the aligned class is the solution."""
    points = tutelage_papers.quadratic.critical_points(quadratic(1, 1), 5)
    assert [c.name for c in points] == [
        "tabula rasa",
        "plateau of rank 1",
        "zero error",
    ]
    np.testing.assert_allclose(expanded(points[1, 0]), [4, 4, 4, 4, 12])


def test_mixed_points_lie_beyond_the_published_classes():
    p, q = 3, 2
    point = tutelage_papers.quadratic.critical_points(quadratic(p, q), 8)[1, 1]
    assert (point.beta, point.alpha) == (
        pytest.approx(p * (1 - 1 / q) / 4),
        pytest.approx(p * (1 - 1 / q) / 4 + p / q),
    )
    W, T = point.weights()
    assert tu.analysis.landscape(point.problem, W, T).is_critical
    assert not tu.analysis.landscape(point.problem, 1.001 * W, T).is_critical
    assert 0 < np.linalg.norm(W @ T.T) < np.linalg.norm(W) * np.linalg.norm(T)


def test_a_blind_search_finds_no_other_class():
    """Zeros of the gradient from random places: each has the error of a predicted class, and mixed ones are among them."""
    p, q, n = 2, 2, 4
    points = tutelage_papers.quadratic.critical_points(quadratic(p, q), n)
    J_teacher, rng, seen = np.eye(n)[:q], np.random.default_rng(0), []
    for scale in np.linspace(0.2, 1.5, 100):
        start = scale * rng.standard_normal(p * n)
        found = least_squares(
            lambda x: gradient(x.reshape(p, n), J_teacher).ravel(),
            start,
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
        )
        if found.cost < 1e-22:
            error = risk(found.x.reshape(p, n), J_teacher) / 2
            gaps = {(c.aligned, c.orthogonal): abs(c.error - error) for c in points}
            seen.append(min(gaps, key=lambda place: gaps[place]))
            assert gaps[seen[-1]] < 1e-9
    assert len(seen) > 50
    assert {(0, 0), (0, 1), (1, 1), (2, 0)} <= set(seen)


def test_only_the_best_fit_has_no_way_down():
    for p, q, n in WIDTHS:
        points = tutelage_papers.quadratic.critical_points(quadratic(p, q), n)
        minima = [c for c in points if c.index == 0]
        assert [(c.aligned, c.orthogonal) for c in minima] == [(min(p, q), 0)]
        assert minima[0].error == min(c.error for c in points)


def test_fewer_students_settle_on_a_manifold_of_equal_error():
    p, q, n = 2, 3, 8
    best = tutelage_papers.quadratic.critical_points(quadratic(p, q), n)[2, 0]
    assert best.name == "best fit"
    assert best.manifold_dimension == best.flat == p * (p - 1) // 2 + p * (q - p)
    W, T = best.weights()
    rotated = [
        np.array([[np.cos(x), np.sin(x)], [-np.sin(x), np.cos(x)]]) @ W
        for x in (0.3, 1.2)
    ]
    assert [tu.analysis.landscape(best.problem, w, T).error for w in rotated] == [
        pytest.approx(best.error)
    ] * 2
    assert best.error > 0.1


def test_words_and_figures():
    points = tutelage_papers.quadratic.critical_points(quadratic(3, 2), 8)
    assert len(points) == 8
    assert "mixed: 1 aligned, 2 orthogonal" in str(points)
    assert "6 merely flat" in str(points[2, 0])
    axes = points.plot().axes[0]
    assert "lead down" in axes.get_xlabel()
    np.testing.assert_allclose(
        axes.lines[0].get_ydata(), [points[0, r].error for r in range(4)]
    )
    labels = [
        " ".join(t.get_text().split())
        for t in points[1, 1].plot().axes[0].get_yticklabels()
    ]
    assert any(
        label.endswith(": idle units turn to missing teachers") for label in labels
    )


@pytest.mark.parametrize(
    ("call", "mentions"),
    [
        (
            lambda: tutelage_papers.quadratic.critical_points(pair(2, 2), 8),
            ("erf", "quadratic"),
        ),
        (
            lambda: tutelage_papers.quadratic.critical_points(
                pair(2, 2, "quadratic", student={"readout": [1.0, 0.5]}), 8
            ),
            ("readout",),
        ),
        (
            lambda: tutelage_papers.quadratic.critical_points(
                pair(2, 2, "quadratic", inputs=tu.PowerLaw(1.0, 3)), 8
            ),
            ("PowerLaw", "Isotropic"),
        ),
        (
            lambda: tutelage_papers.quadratic.critical_points(
                pair(2, 2, "quadratic", teacher={"gram": [[1, 0.3], [0.3, 1]]}), 8
            ),
            ("gram",),
        ),
        (
            lambda: tutelage_papers.quadratic.critical_points(
                pair(2, 2, "quadratic", student={"bias": 0.1}), 8
            ),
            ("biases",),
        ),
        (
            lambda: tutelage_papers.quadratic.critical_points(quadratic(2, 2), 1),
            ("dim", "2 or more"),
        ),
        (
            lambda: tutelage_papers.quadratic.critical_points(quadratic(3, 2), 8)[2, 1],
            ("(2, 1)", "zero error"),
        ),
        (lambda: tutelage_papers.quadratic.critical_points(3, 8), ("Problem",)),
    ],
)
def test_what_is_refused(call, mentions):
    with pytest.raises(tu.InputError) as refusal:
        call()
    require_refusal(refusal.value, *mentions)
