"""The length of a plateau against solved curves; eqs. 12 and 117 as printed fail."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tutelage import InputError

plateau_length = tutelage_papers.power_law.plateau_length


@pytest.fixture(scope="module")
def curve():
    """Three units on four levels, with so many inputs that the rows are alike."""
    problem = tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.5)
    start = tu.random_start(problem, dim=8000, scale=0.01, seed=1)
    times = tu.linear_times(800, 401)
    return tu.solve(problem, start, times, gradient_flow=True)


def test_the_predicted_end_is_that_of_the_curve(curve):
    found = plateau_length(curve, begin=60.0)
    assert found.observed is not None
    assert found.end == pytest.approx(found.observed, rel=0.1)
    # as printed, with a further ln(N) / 2, the length is far too long
    assert found.begin + found.printed_length > 1.4 * found.observed
    assert found.deviation == pytest.approx((np.e - 1) * found.height)
    assert "it ends at" in str(found)


def test_the_end_does_not_depend_on_where_the_plateau_begins(curve):
    ends = [plateau_length(curve, begin=begin).end for begin in (60.0, 90.0, 120.0)]
    np.testing.assert_allclose(ends, ends[0], rtol=0.03)


def test_numbers_are_those_of_the_definition(curve):
    """Written out from the text of appendix C.4."""
    found = plateau_length(curve, begin=90.0)
    index = int(np.flatnonzero(curve.times >= 90.0)[0])
    R = curve.R[index]
    variance = sum((R[k, m] - R[:, m].mean()) ** 2 for k in range(3) for m in range(3))
    sigma_P = np.sqrt(variance / 9)
    sigma_J = 0.01
    formulas = tutelage_papers.power_law.plateau_formulas(curve.problem, curve.start)
    D = np.log((np.e - 1) * R.mean() / (sigma_P / sigma_J))
    as_printed = D - np.log(sigma_J**2) / 2 + np.log(8000) / 2
    assert found.printed_length == pytest.approx(formulas.time_constant * as_printed)
    assert found.time_constant == formulas.time_constant
    exact = tutelage_papers.power_law.symmetric_plateau(curve.problem, curve.start)
    faster = plateau_length(curve, begin=90.0, time_constant=exact.time_constant)
    ratio = exact.time_constant / formulas.time_constant
    assert faster.length == pytest.approx(ratio * found.length)


def test_two_units_never_reach_e_times_their_height():
    """An erratum of C.4: R would have to pass 1.1 on its way to 1."""
    problem = tutelage_papers.power_law.committee(2, lr=1.0)
    start = tu.Start([[0.41, 0.40], [0.40, 0.41]], 1 / 3 + 0.01 * np.eye(2))
    theory = tu.solve(problem, start, tu.linear_times(400), gradient_flow=True)
    height = theory.R[0].mean()
    assert theory.R.max() < 1.001 < np.e * height
    with pytest.raises(InputError, match=r"factor is 2\.718"):
        plateau_length(theory, begin=10.0)
    found = plateau_length(theory, begin=10.0, factor=1.5)
    assert found.end == pytest.approx(found.observed, rel=0.1)


def test_what_is_no_plateau_is_refused(curve):
    with pytest.raises(InputError, match="between 0 and 800"):
        plateau_length(curve, begin=5000.0)
    with pytest.raises(InputError, match="Choose another begin"):
        plateau_length(curve, begin=790.0)
    with pytest.raises(InputError, match="committee"):
        plateau_length("theory", begin=1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="time_constant"):
        plateau_length(curve, begin=60.0, time_constant=-1.0)
    equal = curve.problem, tu.Start(0.1 * np.ones((3, 3)), 0.1 * np.ones((3, 3)))
    with pytest.warns(tu.errors.SymmetryWarning):
        still = tu.solve(*equal, times=[0.0, 1.0, 2.0], gradient_flow=True)
    with pytest.raises(InputError, match="never leave"):
        plateau_length(still, begin=1.0)
