"""The numbers of a gap: what is allowed, what the solver resolves, z-scores."""

from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import (
    permuted,
    runs,
    sampled_theory_and_runs,
    theory,
)
from tutelage.comparison.gaps import measure_gap, z_score

RUNS = np.array([[0.9], [1.1]])


@pytest.mark.parametrize(("rough", "allowed"), [(False, 0.3), (True, 0.6)])
def test_twice_the_expected_gap_is_allowed(rough, allowed):
    """From 0 to 2 x 0.3, or from -0.6 to 0.6 where the sign is not known."""
    gap = measure_gap(
        "error", np.array([1.0]), RUNS, expected=np.array([0.3]), rough=rough
    )
    np.testing.assert_allclose(gap.allowed, allowed)


def test_equal_runs_have_the_resolution_of_the_solver():
    """1e-6 of an error and 1e-8 of the largest overlap, where runs do not scatter."""
    equal = np.full((3, 1), 0.5)
    nothing = np.zeros(1)
    error = measure_gap("error", np.array([0.5]), equal, expected=nothing)
    np.testing.assert_allclose(error.unit, 0.5e-6, rtol=1e-6)
    overlap = measure_gap("R", np.array([0.5]), equal, expected=nothing)
    np.testing.assert_allclose(overlap.unit, 0.5e-8, rtol=1e-6)


def test_half_the_sampling_error_joins_the_standard_error():
    """The runs 0.9 and 1.1 have the standard error 0.1; theirs and 0.6 / 2 add up."""
    gap = measure_gap(
        "error", np.array([1.0]), RUNS, expected=np.zeros(1), sampling=0.6
    )
    np.testing.assert_allclose(gap.unit, np.hypot(0.1, 0.3))


@pytest.mark.parametrize("count", [2, 5, 20, 200])
def test_z_is_standard_normal_for_any_number_of_runs(count):
    """Four in ten thousand are beyond 3.54, whatever the number of runs.

    Without the conversion there are far more with few runs: a negative control.
    """
    normals = np.random.default_rng(count).standard_normal((count, 100_000))
    ratio = normals.mean(axis=0) / (normals.std(axis=0, ddof=1) / np.sqrt(count))
    z = z_score(ratio, count)
    assert np.std(z) == pytest.approx(1.0, abs=0.02)
    assert np.sum(np.abs(z) > 3.54) < 40 + 5 * np.sqrt(40)
    assert np.sum(np.abs(ratio) > 3.54) > np.sum(np.abs(z) > 3.54)


def test_the_sampling_error_of_the_theory_counts():
    """Half of what sampled averages may miss counts like a standard error."""
    theory, runs = sampled_theory_and_runs()
    result = tu.compare(theory, runs, fluctuations=False)
    assert result.agrees
    assert any("sampled" in note for note in result.notes)
    assert set(theory.sampling_errors) >= {"error", "R", "Q"}
    errors = theory.sampling_errors
    np.testing.assert_array_equal(theory.sampling_error, errors["error"])
    assert result.verdict.by_sampling
    assert "decides this" in result.verdict.sentence
    assert result.verdict.without_sampling == "differ"
    assert "the theory's own sampled averages decides" in result.verdict.sentence
    assert result.to_dict()["without_sampling_error"] == "differ"


def test_without_its_sampling_error_the_theory_differs():
    """A negative control: 512 points are too few."""
    theory, runs = sampled_theory_and_runs()
    settings = tuple(item for item in theory.settings if item[0] != "moments")
    unaware = replace(theory, settings=settings)
    assert not tu.compare(unaware, runs, fluctuations=False).agrees


def test_closed_forms_have_no_sampling_error():
    theory, _ = sampled_theory_and_runs()
    squared = theory.problem.replace(loss="squared", labels="real")
    assert tu.solve(squared, theory.start, theory.times).sampling_errors == {}


# `gaps`, without a verdict


def test_they_are_the_gaps_of_compare():
    found = tu.gaps(theory(), runs())
    compared = tu.compare(theory(), runs(), fluctuations=False).gaps
    assert list(found) == list(compared)
    for name, gap in found.items():
        np.testing.assert_array_equal(gap.gap, compared[name].gap)
        np.testing.assert_allclose(gap.z, compared[name].z_of_runs)
        assert np.max(np.abs(gap.expected)) == 0


def test_the_standard_error_by_hand():
    found = tu.gaps(theory(), runs())["R"]
    np.testing.assert_allclose(found.mean, runs().R.mean(axis=0))
    scatter = runs().R.std(axis=0, ddof=1) / np.sqrt(100)
    np.testing.assert_allclose(found.standard_error, scatter)


def test_units_are_matched():
    swapped = permuted(runs(), range(0, 100, 3), [1, 0])
    for name, gap in tu.gaps(theory(), swapped).items():
        np.testing.assert_allclose(gap.mean, tu.gaps(theory(), runs())[name].mean)


def test_a_theory_that_is_off_has_a_gap():
    """A negative control: without the noise of SGD."""
    flow = theory(gradient_flow=True)
    assert np.max(np.abs(tu.gaps(flow, runs())["error"].z)) > 10


def test_other_values_get_one_message():
    with pytest.raises(tu.InputError, match="Trajector"):
        tu.gaps(theory(), 3)
