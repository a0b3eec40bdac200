"""The exponent of a spectrum: exact laws, sampled data, and data that follow none."""

import numpy as np
import pytest

import tutelage as tu


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_an_exact_law_is_found(beta):
    found = tu.analysis.spectral_exponent(tu.PowerLaw(beta, 200))
    assert found.beta == pytest.approx(beta, abs=1e-10)
    assert found.error < 1e-9
    assert found.fit.constant
    np.testing.assert_allclose(found.ranks, np.arange(1, 201))


def test_grouped_levels_stand_at_the_middle_of_their_ranks():
    whole = tu.PowerLaw(1.0, 400)
    grouped = tu.Spectrum.from_covariance(np.diag(whole.eigenvalues), levels=100)
    found = tu.analysis.spectral_exponent(grouped, window=(20, 400))
    assert found.ranks[0] == pytest.approx(2.5)
    assert found.beta == pytest.approx(1.0, abs=0.02)
    by_level = np.polyfit(
        np.log(np.arange(6, 101)), np.log(grouped.eigenvalues[5:]), 1
    )[0]
    assert abs(-1 - by_level - 1.0) > 2 * abs(found.beta - 1.0), (
        "counting levels instead of dimensions is worse"
    )


def test_sampled_data_give_beta_within_the_error():
    """Two thousand samples of a hundred features, the first thirty ranks:

    the error is twice the gap or more.
    """
    rng = np.random.default_rng(5)
    data = rng.standard_normal((2000, 100)) * np.sqrt(tu.PowerLaw(0.5, 100).eigenvalues)
    found = tu.analysis.spectral_exponent(tu.from_data(data).inputs, window=(1, 30))
    assert abs(found.beta - 0.5) < 3 * found.error
    assert 0.003 < found.error < 0.1


def test_digits_are_no_power_law():
    found = tu.analysis.spectral_exponent(
        tu.from_data(tu.digits()).inputs, window=(1, 40)
    )
    assert not found.fit.constant
    assert "NOT a power law there: beta runs" in str(found)
    assert 0.2 < found.beta < 0.6
    runs = np.ptp(found.fit.parts)
    assert runs > 5 * found.fit.statistical
    assert found.error == pytest.approx(np.hypot(found.fit.statistical, runs / 2))
    top, bottom = found.plot().axes
    assert top.get_ylabel() == r"eigenvalue $\lambda_k$"
    assert bottom.get_xlabel() == "rank $k$"
    with pytest.raises(
        tu.InputError,
        match=r"inputs are of type ndarray; measure one first, `tu\.from_data",
    ):
        tu.analysis.spectral_exponent(tu.digits())
