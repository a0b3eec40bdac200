"""erf and sign against tensor quadrature, one term at a time."""

import equinox as eqx
import numpy as np
import pytest

from tests.stream.moments import reference as ref
from tutelage.problem.activation import as_activation
from tutelage.stream.moments.averages import ErfAverages
from tutelage.stream.moments.matrices import averages_for

WEIGHTS = np.array([-0.8, 1.3, 0.4, -1.1, 0.7])


def family(student, teacher, K, M):
    averages = averages_for(as_activation(student), as_activation(teacher), K, M)
    assert isinstance(averages, ErfAverages)
    return averages


@eqx.filter_jit
def all_of(averages, C, w):
    pairs = [
        averages.outputs(C, None),
        averages.slopes(C, None),
        averages.curvatures(C, None),
    ]
    return [*pairs, averages.slopes_squared_error(C, None, w)]


def largest_errors(averages, g, K, C, w, **options):
    """Worst error of outputs, slopes (where the teacher has them), curvatures and the four-field average."""
    outputs, slopes, curvatures, squared = all_of(averages, C, w)
    pairs = [(outputs, ref.outputs(g, C, **options))]
    if g[-1].slope is not None:
        pairs.append((slopes, ref.rows(g, K, C, **options)))
    pairs.append((curvatures, ref.rows(g, K, C, orders=(2, 0), **options)))
    pairs.append((squared, ref.contrast(g, K, C, w, **options)))
    return [float(np.max(np.abs(np.asarray(a) - b))) for a, b in pairs]


@pytest.mark.parametrize(
    ("K", "M", "seed", "scale"),
    [(2, 3, 1, 0.6), (3, 2, 2, 0.6), (1, 1, 3, 1.5), (2, 2, 4, 0.01)],
)
def test_erf_averages(K, M, seed, scale):
    C = ref.random_covariance(K + M, seed, scale)
    nodes = 41 if K + M > 2 else 101
    errors = largest_errors(
        family("erf", "erf", K, M),
        ref.units("erf", "erf", K, M),
        K,
        C,
        WEIGHTS[: K + M],
        nodes=nodes,
    )
    assert max(errors) < 1e-11


@pytest.mark.parametrize(("K", "M"), [(2, 1), (1, 2)])
def test_erf_learns_from_sign(K, M):
    C = ref.random_covariance(K + M, 5, 0.7)
    averages = family("erf", "sign", K, M)
    g = ref.units("erf", "sign", K, M)
    assert (
        max(largest_errors(averages, g, K, C, WEIGHTS[: K + M], nodes=61, panel=80))
        < 1e-11
    )
    # sign has no slope: E[g'_i delta(z_a)] 2 is the derivative of E[g_i sign_a] with
    # respect to C_ia
    step = 1e-4
    slopes = all_of(averages, C, WEIGHTS[: K + M])[1]
    for i in range(K):
        for a in range(K, K + M):
            bump = np.zeros_like(C)
            bump[i, a] = bump[a, i] = step
            up, down = (
                ref.average([(i, g[i], 0), (a, g[a], 0)], C + sign * bump, nodes=61)
                for sign in (1, -1)
            )
            assert slopes[i, a] == pytest.approx((up - down) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("wrong", ["softness", "covariance", "sign of a weight"])
def test_a_wrong_formula_is_caught(wrong, monkeypatch):
    """The tolerance of the tests above is far below the effect of a small mistake."""
    C = ref.random_covariance(4, 1, 0.6)
    w = WEIGHTS[:4].copy()
    averages = family("erf", "erf", 2, 2)
    g = ref.units("erf", "erf", 2, 2)
    reference = ref.contrast(g, 2, C, w, nodes=33)
    if wrong == "softness":
        monkeypatch.setattr(ErfAverages, "softness", (1.0, 1.0, 1.0, 1.0 + 1e-6))
    elif wrong == "covariance":
        C = C.copy()
        C[0, 3] = C[3, 0] = C[0, 3] + 1e-7
    else:
        w[3] = -w[3]
    assert np.max(np.abs(averages.slopes_squared_error(C, None, w) - reference)) > 1e-9


def test_four_fields_when_student_is_teacher():
    C = ref.random_covariance(3, 1, 0.8)
    same = [0, 1, 1, 2]  # teacher 0 is student 1
    C = C[np.ix_(same, same)]
    g = ref.units("erf", "erf", 2, 2)
    w = WEIGHTS[:4]
    errors = largest_errors(family("erf", "erf", 2, 2), g, 2, C, w, nodes=41)
    assert max(errors) < 1e-11


def test_a_student_without_norm():
    C = ref.random_covariance(3, 1, 0.8)
    C[0] = C[:, 0] = 0.0
    errors = largest_errors(
        family("erf", "erf", 2, 1),
        ref.units("erf", "erf", 2, 1),
        2,
        C,
        WEIGHTS[:3],
        nodes=61,
    )
    assert max(errors) < 1e-11


def test_biases_leave_the_closed_form():
    erf = as_activation("erf")
    assert not isinstance(averages_for(erf, erf, 2, 2, biased=True), ErfAverages)
