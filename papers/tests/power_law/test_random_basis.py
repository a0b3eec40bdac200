"""Floors in a random basis: the law of large numbers against covariance matrices that were drawn."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers


def drawn(inputs, dim, counts, seeds):
    linear = tu.Network(1, "linear")
    problem = tu.Problem(linear, linear, inputs=inputs, optimizer=tu.SGD(0.1))
    return np.array(
        [
            tutelage_papers.power_law.raw_features(
                problem, 1, dim=dim, seed=s, scale=0.5
            ).floors(counts)
            for s in range(seeds)
        ]
    )


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_equals_the_mean_over_drawn_covariances(beta):
    inputs, counts = tu.PowerLaw(beta, 150), np.array([30, 75, 130])
    floors = drawn(inputs, 150, counts, 24)
    expected = tutelage_papers.power_law.random_basis_floors(
        inputs, counts / 150, scale=0.5
    )
    error = floors.std(axis=0, ddof=1) / np.sqrt(24)
    assert np.all(
        np.abs(floors.mean(axis=0) - expected) < 4 * error + 0.02 * expected
    )  # a bias of order 1/n
    aligned = [1.25 / 2 * np.sum(inputs.eigenvalues[n:]) / 150 for n in counts]
    assert np.all(aligned < expected - 4 * error), "the eigenbasis is another law"


def test_levels_count_by_their_fractions():
    inputs = tu.Spectrum([3.0, 1.0, 0.2], [0.25, 0.25, 0.5])
    floors = drawn(inputs, 160, np.array([40, 120]), 12)
    np.testing.assert_allclose(
        tutelage_papers.power_law.random_basis_floors(inputs, [0.25, 0.75], scale=0.5),
        floors.mean(axis=0),
        rtol=0.03,
    )


def test_ends_and_isotropic_inputs():
    inputs = tu.PowerLaw(1.0, 50)
    np.testing.assert_allclose(
        tutelage_papers.power_law.random_basis_floors(inputs, [0.0, 1.0]), [0.5, 0.0]
    )
    np.testing.assert_allclose(
        tutelage_papers.power_law.random_basis_floors(tu.Isotropic(), [0.1, 0.5, 0.9]),
        [0.45, 0.25, 0.05],
        rtol=1e-12,
    )
    assert np.all(
        np.diff(
            tutelage_papers.power_law.random_basis_floors(inputs, np.linspace(0, 1, 21))
        )
        < 0
    )
    assert tutelage_papers.power_law.random_basis_floors(inputs, 0.5).shape == ()


def test_few_of_very_many_inputs_follow_the_power_law():
    """kappa = lam_1 (c/n)^(1+beta), c = (pi/(1+beta))/sin(pi/(1+beta)): n^-beta, beta c^(1+beta) above the eigenbasis."""
    levels, n, beta = 1_000_000, np.array([100, 200]), 1.0
    inputs = tu.PowerLaw(beta, levels)
    c = (np.pi / 2) / np.sin(np.pi / 2)
    found = tutelage_papers.power_law.random_basis_floors(inputs, n / levels)
    np.testing.assert_allclose(
        found, inputs.eigenvalues[0] * c**2 / n / (2 * levels), rtol=0.02
    )


def test_refusals():
    with pytest.raises(
        tu.InputError,
        match=r"trained is 1.2; it must be a share of the inputs, from 0 to 1",
    ):
        tutelage_papers.power_law.random_basis_floors(tu.PowerLaw(1.0, 5), 1.2)
    with pytest.raises(tu.InputError, match="must be Isotropic, PowerLaw or Spectrum"):
        tutelage_papers.power_law.random_basis_floors([1.0, 2.0], 0.5)
