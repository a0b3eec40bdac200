"""The power-law sum: against quadrature, its bounds everywhere, and the published claims that hold or do not."""

import numpy as np
import pytest
from papers.tests.power_law.linear.reference import linear_problem
from scipy.integrate import quad
from scipy.special import zeta

import tutelage as tu
import tutelage_papers

TIMES = np.array([0.0, 1e-9, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e3])
CASES = [
    (1.0, 128, None),
    (0.5, 128, None),
    (0.01, 128, None),
    (0.3, 300, 40),
    (2.5, 40, 7),
    (1.0, 1, None),
]


@pytest.mark.parametrize(("beta", "levels", "trained"), CASES)
def test_sum_is_the_small_rate_error_of_the_network(beta, levels, trained):
    problem = linear_problem(
        levels, beta, 0.01, trainable=None if trained is None else list(range(trained))
    )
    network = tutelage_papers.power_law.linear_network(
        problem, tu.Start([[0.0]], [[0.25]], [[1.0]])
    )
    law = tutelage_papers.power_law.PowerLawSum(beta, levels, 0.01, 0.5, trained)
    np.testing.assert_allclose(law.sum(TIMES), network.small_rate(TIMES), rtol=1e-11)
    assert law.largest == pytest.approx(problem.inputs.eigenvalues[0], rel=1e-13)
    assert law.floor == pytest.approx(
        float(network.small_rate(1e12)), rel=1e-11, abs=1e-300
    )


@pytest.mark.parametrize(("beta", "levels", "trained"), CASES)
def test_integral_equals_quadrature(beta, levels, trained):
    law = tutelage_papers.power_law.PowerLawSum(beta, levels, 0.01, 0.5, trained)
    end, A = trained or levels, 1.25 * law.largest / (2 * levels)
    for t, value in zip(TIMES, law.integral(TIMES), strict=True):
        x = 2 * 0.01 * law.largest * t
        exact = quad(
            lambda k: A * k ** -(1 + beta) * np.exp(-x * k ** -(1 + beta)),
            1,
            end,
            epsabs=0,
            epsrel=1e-11,
            limit=200,
        )[0]
        assert value == pytest.approx(exact + law.floor, rel=1e-10)


@pytest.mark.parametrize(("beta", "levels", "trained"), CASES)
def test_bounds_hold_everywhere(beta, levels, trained):
    law = tutelage_papers.power_law.PowerLawSum(beta, levels, 0.01, 0.5, trained)
    times = np.concatenate([[0.0], np.geomspace(1e-4, 300.0, 300)]) / (
        0.02 * law.largest
    )
    total, integral, (low, high) = (
        law.sum(times),
        law.integral(times),
        law.bounds(times),
    )
    slack = 1e-14 * total
    assert np.all(low - slack <= total)
    assert np.all(total <= high + slack)
    assert np.all(total - integral <= law.zeta_gap + slack)
    assert np.all(high <= integral + law.zeta_gap + slack)
    assert law.zeta_gap < 1.02 * (total[0] - integral[0]) + 2 * law.corrections(0.0) * (
        levels < 10
    ), "tight at time zero"


def test_the_published_tighter_bound_does_not_hold():
    """Equation 49: sum - integral < f(1)/2 for x > 1. At x = 1, beta = 1 it is 0.1917 against 0.1839 (in units of A)."""
    law = tutelage_papers.power_law.PowerLawSum(1.0, 128, 0.01, 1.0)
    A, x_one = law.largest / 128, law.window[0]
    gap, bound = law.sum(x_one) - law.integral(x_one), law.half_first_term(x_one)
    assert f"{gap / A:.4f} {bound / A:.4f}" == "0.1917 0.1839"
    times = x_one * np.linspace(1.0, 20.0, 100)
    broken = np.abs(law.sum(times) - law.integral(times)) > law.half_first_term(times)
    assert broken.mean() > 0.3


def test_zeta_gap():
    law = tutelage_papers.power_law.PowerLawSum(0.7, 50, 0.1)
    assert law.zeta_gap == pytest.approx(
        law.largest / 100 * (zeta(1.7) - 1 / 0.7 + 50**-1.7), rel=1e-12
    )


@pytest.mark.parametrize("beta", [0.01, 0.5, 1.0])
def test_corrections_tighten_the_sum(beta):
    """Euler and Maclaurin: the ends halve the gap and more at small times; the slopes at the ends tighten it again."""
    law = tutelage_papers.power_law.PowerLawSum(beta, 128, 0.01)
    early = np.array([0.0, 0.3, 0.7]) / (0.02 * law.largest)
    gaps = [
        law.sum(early)
        - law.integral(early)
        - (0 if n is None else law.corrections(early, n))
        for n in (None, 0, 1)
    ]
    assert np.all(np.abs(gaps[1]) < 0.3 * np.abs(gaps[0]))
    assert np.all(np.abs(gaps[2]) < 0.35 * np.abs(gaps[1]))
    k = np.array([1.0, 128.0])
    A, pull = law.largest / 256, 0.02 * law.largest
    f = lambda k: A * k ** -(1 + beta) * np.exp(-pull * k ** -(1 + beta))  # noqa: E731
    ends = f(k).sum() / 2
    slopes = (f(k * (1 + 1e-6)) - f(k * (1 - 1e-6))) / (2e-6 * k)
    assert law.corrections(1.0) == pytest.approx(ends, rel=1e-12)
    assert law.corrections(1.0, 1) == pytest.approx(
        ends + (slopes[1] - slopes[0]) / 12, rel=1e-7
    )


def test_single_gamma_and_power_law_are_the_middle_of_the_window():
    law = tutelage_papers.power_law.PowerLawSum(1.0, 4096, 0.1)
    first, last = law.window
    assert first == pytest.approx(1 / (0.2 * law.largest))
    assert last == pytest.approx(
        first * (np.pi / 4) * 4096**2, rel=1e-12
    )  # Gamma(3/2)^2 = pi/4
    late = np.geomspace(10 * first, last, 20)
    np.testing.assert_allclose(law.single_gamma(late), law.integral(late), rtol=1e-4)
    assert law.single_gamma(first / 10) > 1.5 * law.integral(first / 10)
    middle = np.sqrt(first * last)
    assert law.power_law(middle) == pytest.approx(float(law.integral(middle)), rel=0.02)


def test_local_slopes():
    law = tutelage_papers.power_law.PowerLawSum(0.75, 256, 0.1, 0.01, 200)
    t = np.array([0.05, 1.0, 30.0])
    for form, curve in (("sum", law.sum), ("integral", law.integral)):
        numerical = (np.log(curve(t * 1.0001)) - np.log(curve(t / 1.0001))) / (
            2 * np.log(1.0001)
        )
        np.testing.assert_allclose(law.local_slope(t, form), numerical, rtol=1e-6)


def test_exponent_is_reached_as_levels_grow():
    gaps = []
    for levels in (100, 10_000, 1_000_000):
        law = tutelage_papers.power_law.PowerLawSum(1.0, levels, 0.1)
        gaps.append(
            abs(float(law.local_slope(np.sqrt(np.prod(law.window)))) + law.exponent)
        )
    assert gaps[0] > 0.03
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]
    assert gaps[2] < 1e-3


def test_floor_and_its_integral():
    for trained in (1, 10, 99):
        law = tutelage_papers.power_law.PowerLawSum(1.0, 100, 0.1, 0.5, trained)
        assert law.floor_integral == pytest.approx(
            1.25 / 2 * law.largest / 100 * (1 / trained - 0.01), rel=1e-12
        )
        assert law.floor < law.floor_integral
        zeroth = 1.25 / 4 * law.largest / 100 * (trained**-2.0 + 1e-4)
        assert law.floor_integral - law.floor < 2 * zeroth
    assert tutelage_papers.power_law.PowerLawSum(1.0, 100, 0.1).floor == 0


def test_printed_equation_79_counts_the_frozen_levels_twice():
    """With L where N_l belongs, it is 58% too high at alpha = 100 in the setting of its figure 3."""
    law, whole = (
        tutelage_papers.power_law.PowerLawSum(1.0, 256, 0.05, 0.01, 50),
        tutelage_papers.power_law.PowerLawSum(1.0, 256, 0.05, 0.01),
    )
    printed = whole.integral(100.0) + law.floor_integral
    assert printed / law.sum(100.0) > 1.5
    assert law.integral(100.0) == pytest.approx(float(law.sum(100.0)), rel=0.01)


def test_words_and_figure():
    law = tutelage_papers.power_law.PowerLawSum(1.0, 64, 0.1, trained=32)
    assert "exponent there -0.5" in str(law)
    assert "floor" in str(law)
    upper, lower = law.plot().axes
    assert [line.get_label() for line in upper.lines] == [
        "sum over levels",
        "integral",
        "power law",
    ]
    assert lower.get_xlabel()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 10, 0.1), "beta is 0"),
        ((1.0, 0, 0.1), "levels is 0"),
        ((1.0, 10, -0.1), "rate is -0.1"),
        ((1.0, 10, 0.1, -1.0), "scale is -1"),
        ((1.0, 10, 0.1, 0.0, 11), "at most 10"),
        ((1.0, 10, [0.1, 0.2]), "single number"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(tu.InputError, match=words):
        tutelage_papers.power_law.PowerLawSum(*arguments)


def test_refused_questions():
    law = tutelage_papers.power_law.PowerLawSum(1.0, 10, 0.1)
    for ask, words in (
        (lambda: law.power_law([0.0, 1.0]), "contain 0"),
        (lambda: law.corrections(1.0, 2), "order is 2"),
        (lambda: law.local_slope(1.0, "sums"), "nearest is 'sum'"),
        (lambda: law.sum(-1.0), "zero or more"),
        (lambda: law.local_slope(1e9), "has no slope"),
        (lambda: law.plot([0.0]), "no positive number"),
    ):
        with pytest.raises(tu.InputError, match=words):
            ask()
