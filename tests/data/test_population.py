"""Eigenvalues of the law behind a sample: known laws, and SGD on new samples."""

import numpy as np
import pytest

import tutelage as tu
from tests.data.cases import mixture_samples
from tutelage.data.population import isotropic_range, population_eigenvalues
from tutelage.errors import ValidityWarning

N = 60
SAMPLES = 200
LAWS = {
    "isotropic": np.ones(N),
    "two levels": np.repeat([4.0, 0.25], [12, 48]),
    "power law": 1 / np.arange(1.0, N + 1),
}
LAWS = {name: law / law.mean() for name, law in LAWS.items()}


def samples_of(law, count, seed):
    return np.random.default_rng(seed).standard_normal((count, N)) * np.sqrt(law)


def measured_eigenvalues(samples):
    covariance = np.cov(samples.T)
    return np.linalg.eigvalsh(covariance)[::-1]


def log_distance(eigenvalues, law):
    return np.sqrt(np.mean(np.log(eigenvalues / law) ** 2))


@pytest.mark.parametrize("name", LAWS)
def test_corrected_eigenvalues_are_those_of_the_law(name):
    """Over ten samples: at least twice as close, the smallest one within 30%."""
    law = LAWS[name]
    distances = []
    smallest = []
    for seed in range(10):
        measured = measured_eigenvalues(samples_of(law, SAMPLES, seed))
        corrected = population_eigenvalues(measured, SAMPLES - 1)
        assert np.all(np.diff(corrected) <= 1e-12)
        assert corrected.mean() == pytest.approx(measured.mean())
        distances.append((log_distance(measured, law), log_distance(corrected, law)))
        smallest.append((measured[-1] / law[-1], corrected[-1] / law[-1]))
    before, after = np.mean(distances, axis=0)
    assert after < before / 2
    assert np.mean(smallest, axis=0)[0] < 0.45
    assert 0.7 < np.mean(smallest, axis=0)[1] < 1.3


def test_shares_of_two_levels_are_found():
    """The share of the large level, and both values, from 600 samples."""
    measured = measured_eigenvalues(samples_of(LAWS["two levels"], 600, 1))
    corrected = population_eigenvalues(measured, 599)
    np.testing.assert_allclose(corrected[:12].mean(), 4.0, rtol=0.1)
    np.testing.assert_allclose(corrected[12:].mean(), 0.25, rtol=0.1)


def test_many_samples_need_no_correction():
    law = LAWS["power law"]
    measured = measured_eigenvalues(samples_of(law, 50_000, 2))
    corrected = population_eigenvalues(measured, 49_999)
    assert log_distance(corrected, measured) < 0.06


def test_equal_eigenvalues_stay():
    np.testing.assert_allclose(population_eigenvalues(np.full(5, 3.0), 100), 3.0)


def test_range_of_an_isotropic_law():
    measured = measured_eigenvalues(
        np.random.default_rng(3).standard_normal((2000, 500))
    )
    low, high = isotropic_range(0.25)
    assert (low, high) == (0.25, 2.25)
    assert measured[-1] == pytest.approx(low, rel=0.1)
    assert measured[0] == pytest.approx(high, rel=0.1)


def sgd_on_the_law(law, lr, times, runs, seed):
    """Plain SGD of linear units on new samples; the error is that on the law."""
    rng = np.random.default_rng(seed)
    missing = rng.standard_normal((runs, N))  # teacher minus student, which begins at 0
    curves = np.zeros((runs, times.size))
    steps = np.round(times * N).astype(int)
    for step in range(steps[-1] + 1):
        for place in np.flatnonzero(steps == step):
            curves[:, place] = 0.5 * np.mean(law * missing**2, axis=1)
        x = rng.standard_normal((runs, N)) * np.sqrt(law)
        field = np.sum(missing * x, axis=1, keepdims=True) / np.sqrt(N)
        missing = missing - lr * field * x / np.sqrt(N)
    return curves.mean(axis=0)


@pytest.mark.parametrize("name", LAWS)
def test_the_corrected_theory_is_nearer_to_sgd_on_the_law(name):
    lr = 0.2
    times = np.linspace(0.0, 20.0, 6)
    runs = sgd_on_the_law(LAWS[name], lr, times, runs=200, seed=4)
    samples = samples_of(LAWS[name], SAMPLES, 5)
    with pytest.warns(ValidityWarning, match="200 samples spread the eigenvalues"):
        measured = tu.from_data(samples)
    corrected = tu.from_data(samples, spectrum="corrected")
    gaps = []
    for data in (measured, corrected):
        student = tu.Network(1, "linear")
        problem = data.problem(
            student, tu.Network(1, "linear"), optimizer=tu.SGD(lr=lr)
        )
        theory = tu.solve(problem, tu.Start(R=[[0.0]], Q=[[0.0]]), times)
        gaps.append(np.max(np.abs(np.log(np.asarray(theory.error) / runs))))
    assert gaps[1] < gaps[0] / 2


def test_the_report_says_that_the_eigenvalues_are_spread():
    samples = samples_of(LAWS["isotropic"], SAMPLES, 6)
    labels = np.random.default_rng(7).standard_normal(SAMPLES)
    with pytest.warns(ValidityWarning, match="would go from 0.2 to 2.4"):
        data = tu.from_data(samples, labels)
    assert "eigenvalues spread by the few samples" in repr(data)
    assert "from 0.2 to 2.4" in str(data)
    assert data.explained > 0.2  # of labels that have nothing to do with the samples
    assert abs(data.adjusted) < 0.15
    assert f"by chance: {max(0.0, data.adjusted):.1%}" in str(data)
    corrected = tu.from_data(samples, spectrum="corrected")
    assert "corrected for the number of samples" in repr(corrected)
    assert "spread by the few samples" not in repr(corrected)
    many = tu.from_data(samples_of(LAWS["isotropic"], 2000, 6))  # no warning
    assert "spread by" not in repr(many)


def test_levels_of_corrected_eigenvalues_are_means():
    samples = samples_of(LAWS["power law"], SAMPLES, 8)
    fine = tu.from_data(samples, spectrum="corrected")
    coarse = tu.from_data(samples, levels=6, spectrum="corrected")
    means = fine.inputs.eigenvalues.reshape(6, 10).mean(axis=1)
    np.testing.assert_allclose(coarse.inputs.eigenvalues, means)
    assert coarse.inputs.basis.shape == (N, N)
    assert float(fine.spectrum.scale) == pytest.approx(np.trace(np.cov(samples.T)) / N)


def test_where_eigenvalues_cannot_be_corrected():
    samples = samples_of(LAWS["isotropic"], SAMPLES, 9)
    with pytest.raises(tu.InputError, match="spectrum is 'correct'"):
        tu.from_data(samples, spectrum="correct")
    with pytest.raises(tu.InputError, match="there are labels"):
        tu.from_data(*mixture_samples(300, 40, 7), spectrum="corrected")
    with (
        pytest.warns(tu.errors.TutelageWarning, match="at most 49 directions"),
        pytest.raises(tu.InputError, match="more samples than directions"),
    ):
        tu.from_data(samples[:50], spectrum="corrected")
    data = tu.from_data(samples, spectrum="corrected")
    problem = data.problem(tu.Network(1, "linear"), tu.Network(1, "linear"))
    with pytest.raises(tu.InputError, match="measure the data again"):
        data.compare(problem)


def test_off_diagonal_parts_by_chance():
    """Classes of 100 samples with the same diagonal covariance have nothing else."""
    samples = samples_of(LAWS["two levels"], 1000, 10)
    data = tu.from_data(samples, np.arange(1000) % 10)
    assert data.off_diagonal > 0.25
    assert data.chance_off_diagonal == pytest.approx(data.off_diagonal, rel=0.1)
    assert f"by chance {data.chance_off_diagonal:.1%}" in str(data)
