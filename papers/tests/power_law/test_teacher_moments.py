"""Moments of random teachers: variances against draws, condition numbers against explicit matrices."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tutelage_papers.power_law.plots import plot_teacher_moments

ORDERS = np.array([0, 1, 2, 3])


def test_mean_and_spread_of_drawn_teachers():
    """A hundred thousand pairs of teachers; false-alarm level: 4.5 standard errors of a mean or a variance, 16 numbers."""
    inputs, dim = tu.Spectrum([2.0, 0.5], [1 / 3, 2 / 3]), 30
    found = tutelage_papers.power_law.teacher_moments(inputs, dim, ORDERS)
    rng = np.random.default_rng(0)
    lam = np.repeat(inputs.eigenvalues, inputs.level_dims(dim))
    a, b = rng.standard_normal((2, 100_000, dim))
    for entry, mean, sd in (
        (a * a, found.mean, found.diagonal_sd),
        (a * b, 0 * found.mean, found.other_sd),
    ):
        T = entry @ (lam[:, None] ** ORDERS) / dim
        squares = (T - mean) ** 2
        assert np.all(np.abs(T.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(len(T)))
        assert np.all(
            np.abs(squares.mean(axis=0) - sd**2)
            < 4.5 * squares.std(axis=0) / np.sqrt(len(T))
        )
        printed = (
            np.sqrt(np.sum(lam**2)) / dim * (sd / found.other_sd)
        )  # lam^2 for every order, as the source reads
        assert np.all(np.abs(printed[2:] / sd[2:] - 1) > 0.2)


def test_the_spread_falls_with_the_dimension_only_at_a_fixed_spectrum():
    fixed = [
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, 10), dim).other_sd[1]
        for dim in (100, 10_000)
    ]
    growing = [
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, dim)).other_sd[1]
        for dim in (100, 10_000)
    ]
    assert fixed[0] / fixed[1] == pytest.approx(10.0)
    assert growing[0] / growing[1] == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("levels", [2, 5])
def test_condition_of_the_moment_form(levels):
    inputs = tu.PowerLaw(1.0, levels)
    V = np.vander(inputs.eigenvalues, increasing=True).T
    found = tutelage_papers.power_law.teacher_moments(inputs)
    assert found.condition == pytest.approx(
        np.log10(np.linalg.cond(V, np.inf)), rel=1e-9
    )
    assert found.growth == pytest.approx(
        np.log10(np.mean(inputs.eigenvalues ** (levels - 1))), rel=1e-12
    )
    assert (
        tutelage_papers.power_law.teacher_moments(tu.Isotropic(), 10).condition == 0.0
    )


def test_words_and_refusals():
    found = tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, 8))
    assert "T^(2): " in str(found)
    (axes,) = found.plot().axes
    assert [len(line.get_xdata()) for line in axes.get_lines()] == [5, 5, 5]
    with pytest.raises(tu.InputError, match="give it what teacher_moments returned"):
        plot_teacher_moments(3)
    assert np.isfinite(
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, 1000)).condition
    ), "logarithms do not overflow"
    with pytest.raises(
        tu.InputError, match="orders is -1; it must be a whole number, 0 or more"
    ):
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, 8), orders=[-1])
    with pytest.raises(tu.InputError, match="4; 8 levels need at least 8 dimensions"):
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, 8), 4)
    with pytest.raises(
        tu.InputError, match="inputs is 'power law'; it must be Isotropic"
    ):
        tutelage_papers.power_law.teacher_moments("power law")
