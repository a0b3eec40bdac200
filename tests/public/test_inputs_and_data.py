"""Mixtures, hidden manifolds and samples of data."""

import numpy as np
import pytest

import tutelage as tu


def test_a_mixture_of_two_gaussians_follows_its_closed_error():
    """Means +-m, noise 1:

    a linear unit of overlap R and norm Q errs with Phi(-R / sqrt Q).
    """
    from scipy.stats import norm

    mixture = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    task = tu.Problem(tu.Network(1, "linear"), inputs=mixture, loss="logistic")
    theory = tu.solve(task, tu.Start(R=[[0.1]], Q=[[0.5]]), [0.0, 1.0])
    overlap = theory.R[:, 0, 0]
    length = np.sqrt(theory.Q[:, 0, 0])
    np.testing.assert_allclose(theory.error, norm.cdf(-overlap / length), rtol=1e-8)
    np.testing.assert_allclose(theory.class_errors[:, 0], theory.error, rtol=1e-8)


def test_the_mixture_of_exclusive_or_has_four_classes():
    mixture = tu.Mixture.xor(norm=2.0)
    assert mixture.coefficients.shape == (4, 2)
    assert sorted(np.asarray(mixture.labels).tolist()) == [-1.0, -1.0, 1.0, 1.0]


def test_a_hidden_manifold_has_the_two_levels_of_orthogonal_features():
    """k1^2 N / D + k*^2 on D / N of the directions, k*^2 on the rest (Goldt et al.

    2020).
    """
    inputs = tu.HiddenManifold("orthogonal", "erf", dim_latent=250, dim=1000)
    k1 = np.sqrt(1 / np.pi)  # E[z erf(z / sqrt 2)]
    second = 1 / 3  # E[erf(z / sqrt 2)^2]
    rest = second - k1**2
    np.testing.assert_allclose(inputs.eigenvalues, [k1**2 * 4 + rest, rest], rtol=1e-9)
    np.testing.assert_allclose(inputs.fractions, [0.25, 0.75])


@pytest.fixture(scope="module")
def data():
    return tu.from_data(tu.digits(), levels=8)


def test_the_digits_are_images_with_labels():
    images, shown = tu.digits(labels=True)
    assert images.shape == (1797, 8, 8)
    assert set(shown) == set(range(10))


def test_the_spectrum_of_data_is_that_of_its_covariance():
    samples = tu.digits().reshape(1797, 64)
    inputs = tu.from_data(samples).inputs
    expected = np.linalg.eigvalsh(np.cov(samples, rowvar=False, ddof=0))[::-1][:61]
    np.testing.assert_allclose(
        inputs.eigenvalues / inputs.eigenvalues[0], expected / expected[0], rtol=1e-9
    )


def test_data_makes_a_problem(data):
    task = data.problem(tu.Network(2, "erf"), tu.Network(2, "erf"), noise=0.1)
    assert isinstance(task, tu.Problem)
    assert task.inputs.known_dim == 61
    assert task.inputs.levels == 8
    assert data.plot(title="") is not None


def test_data_of_classes_is_a_mixture():
    images, shown = tu.digits(labels=True)
    chosen = shown < 2
    # The means of digits are far apart: longer than the theory assumes.
    with pytest.warns(tu.errors.ValidityWarning, match="class mean"):
        data = tu.from_data(images[chosen], shown[chosen], levels=4)
    task = data.problem(tu.Network(1, "linear"), loss="logistic")
    assert isinstance(task.inputs, tu.Mixture)
    np.testing.assert_allclose(np.sum(data.probabilities), 1.0)
