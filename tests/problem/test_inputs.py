"""Laws of the inputs:

unit mean, whole dimensions per level, and spectra measured on data.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tutelage as tu

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
spectra = st.lists(
    st.tuples(st.floats(1e-3, 1e3), st.floats(0.01, 1.0)), min_size=1, max_size=12
)


def spectrum(levels, normalize=True):
    eigenvalues, shares = np.array(levels).T
    return tu.Spectrum(eigenvalues, shares / shares.sum(), normalize=normalize)


@PROPERTY
@given(spectra, st.integers(0, 500))
def test_level_dims_are_whole_positive_and_sum_to_dim(levels, more):
    inputs = spectrum(levels)
    dim = inputs.levels + more
    dims = inputs.level_dims(dim)
    assert dims.sum() == dim
    assert dims.min() >= 1
    assert dims.dtype.kind == "i"
    exact = inputs.fractions * dim
    if exact.min() >= 1:
        assert np.max(np.abs(dims - exact)) < 1


@PROPERTY
@given(spectra)
def test_a_spectrum_has_unit_mean_and_remembers_its_scale(levels):
    ours = spectrum(levels)
    free = spectrum(levels, normalize=False)
    assert np.isclose(ours.weights.sum(), 1.0)
    assert np.allclose(ours.eigenvalues * ours.scale, np.array(levels)[:, 0])
    assert np.array_equal(free.eigenvalues, np.array(levels)[:, 0])
    assert free.scale == 1.0
    assert np.isclose(ours.fractions.sum(), 1.0)
    assert (ours.known_dim, ours.basis, ours.center, ours.dropped) == (
        None,
        None,
        None,
        0,
    )


@PROPERTY
@given(st.floats(0, 4), st.integers(1, 30))
def test_a_power_law_decays_as_it_says(beta, levels):
    inputs = tu.PowerLaw(beta, levels)
    assert inputs.levels == levels
    assert np.isclose(inputs.weights.sum(), 1.0)
    assert np.allclose(
        inputs.eigenvalues / inputs.eigenvalues[0],
        np.arange(1, levels + 1.0) ** -(1 + beta),
    )


def test_isotropic_is_one_level_of_one():
    assert tu.Isotropic().eigenvalues.tolist() == [1.0]
    assert tu.Isotropic().level_dims(7).tolist() == [7]


@pytest.fixture(scope="module")
def data():
    """Correlated rows around a center far from zero, with one constant column and one that copies another."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((60, 7)) @ rng.standard_normal((7, 7)) + 5.0
    return np.column_stack([rows, np.full(60, 2.0), rows[:, 0]])


def test_from_data_centres_drops_rescales_and_records(data):
    inputs = tu.from_data(data).inputs
    covariance = (data - data.mean(0)).T @ (data - data.mean(0)) / len(data)
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1][:7]
    assert np.allclose(inputs.center, data.mean(0))
    assert (inputs.dropped, inputs.known_dim, inputs.levels) == (2, 7, 7)
    assert np.isclose(inputs.scale, values.mean())
    assert np.allclose(inputs.eigenvalues, values / values.mean())
    assert np.allclose(inputs.basis @ inputs.basis.T, np.eye(7))
    assert np.allclose(
        inputs.basis @ covariance @ inputs.basis.T / inputs.scale,
        np.diag(inputs.eigenvalues),
    )
    assert inputs.level_dims(7).tolist() == [1] * 7


def test_from_covariance_agrees_with_from_data(data):
    covariance = np.cov(data, rowvar=False, bias=True)
    ours = tu.Spectrum.from_covariance(covariance)
    theirs = tu.from_data(data).inputs
    assert np.allclose(ours.eigenvalues, theirs.eigenvalues)
    assert (ours.dropped, ours.known_dim, ours.center) == (2, 7, None)


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 7])
def test_levels_group_neighbors_and_keep_the_mean(data, levels):
    fine = tu.from_data(data).inputs
    coarse = tu.from_data(data, levels=levels).inputs
    dims = coarse.level_dims(7)
    assert dims.tolist() == [
        len(group) for group in np.array_split(np.arange(7), levels)
    ]
    edges = np.r_[0, np.cumsum(dims)]
    means = [fine.eigenvalues[a:b].mean() for a, b in pairwise(edges)]
    assert np.allclose(coarse.eigenvalues, means)
    assert np.isclose(coarse.weights.sum(), 1.0)
    assert np.isclose(coarse.scale, fine.scale)
    assert np.array_equal(coarse.basis, fine.basis)


def test_data_of_one_feature_and_of_few_samples():
    assert tu.from_data([[1.0], [2.0], [4.0]]).inputs.eigenvalues.tolist() == [1.0]
    with pytest.warns(tu.errors.TutelageWarning, match="4 samples of 10 features"):
        few = tu.from_data(np.random.default_rng(0).standard_normal((4, 10))).inputs
    assert (few.levels, few.dropped) == (3, 7)


def test_without_basis_keeps_all_that_the_theory_needs(data):
    inputs = tu.from_data(data, levels=3).inputs
    bare = inputs.without_basis()
    assert bare.basis is None
    assert bare.center is None
    assert inputs.basis is not None
    assert np.array_equal(bare.eigenvalues, inputs.eigenvalues)
    assert (bare.known_dim, bare.dropped, bare.scale) == (
        inputs.known_dim,
        inputs.dropped,
        inputs.scale,
    )
