"""Hidden units are brought into the theory's order, and only where that is meant."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import TIMES, permuted, runs, theory, with_
from tutelage.comparison.matching import match, relabel
from tutelage.comparison.pairing import pair


def apart():
    """Made-up theory and runs whose units have parted: at the end R is near one."""
    s = (TIMES / TIMES[-1])[:, None, None]
    R = 0.3 + s * np.array([[0.6, -0.3], [-0.28, 0.65]])
    Q = 0.3 + s * np.array([[0.6, -0.2], [-0.2, 0.7]])
    both = {
        "R": R,
        "Q": Q,
        "r": R[:, None],
        "q": Q[:, None],
        "readout": np.ones((41, 2)),
    }
    noise = np.random.default_rng(0).standard_normal((12, 1, 1, 1)) * 0.01
    many = {
        n: v + noise.reshape(12, *[1] * v.ndim) * (n != "readout")
        for n, v in both.items()
    }
    error = np.linspace(1.0, 0.1, 41)
    ours = with_(theory(), variables=both, error=error)
    return ours, with_(runs(12), variables=many, error=error + noise[:, 0, 0] * 0.1)


@pytest.mark.parametrize("since", [0, 15])
def test_permuted_runs_are_matched(since):
    ours, plain = apart()
    shuffled = permuted(plain, (1, 4, 5), (1, 0), since)
    matching = match(pair(ours, shuffled))
    assert np.flatnonzero(matching.relabeled).tolist() == [1, 4, 5]
    for name in ("R", "Q", "r", "q", "readout"):
        # the units are nearly equal at first: there the moment of the swap is free
        late = slice(max(since, 5), None)
        np.testing.assert_allclose(
            matching.pair.runs[name][:, late], plain[name][:, late], atol=1e-14
        )
    result = tu.compare(ours, shuffled)
    assert any(
        "3 of 12 runs had their hidden units relabeled" in note for note in result.notes
    )
    assert result.to_dict()["relabeled"] == 3


def test_units_that_are_alike_are_not_swapped():
    """On a plateau the nearest labeling is an accident, which would hide noise."""
    ours, plain = apart()
    rng = np.random.default_rng(1)
    flat = {n: np.full_like(v, 0.3) for n, v in ours.variables.items()}
    noisy = {
        n: 0.3 + 0.05 * rng.standard_normal(v.shape) for n, v in plain.variables.items()
    }
    together = pair(with_(ours, variables=flat), with_(plain, variables=noisy))
    assert not match(together).relabeled.any()


def test_units_with_different_readouts_are_not_exchanged():
    ours, plain = apart()
    other = ours.problem.replace(**{"student.readout": [1.0, 0.5]})
    swapped = with_(permuted(plain, (2,), (1, 0)), problem=other)
    together = pair(with_(ours, problem=other), swapped)
    assert not match(together).relabeled.any()


def test_signs_of_odd_units_with_trained_readouts():
    ours, plain = apart()
    trained = ours.problem.replace(**{"student.train_readout": True})
    signs = np.array([1.0, -1.0])
    variables = {n: np.array(v) for n, v in plain.variables.items()}
    for name in variables:
        variables[name][3] = relabel(name, variables[name][3], np.array([1, 0]), signs)
    flipped = with_(plain, variables=variables, problem=trained)
    matching = match(pair(with_(ours, problem=trained), flipped))
    assert np.flatnonzero(matching.relabeled).tolist() == [3]
    matched = matching.pair.runs
    np.testing.assert_allclose(matched["R"][3, 5:], plain.R[3, 5:])
    np.testing.assert_allclose(matched["readout"][3, 5:], plain.readout[3, 5:])
    # with fixed readouts a sign is no symmetry: a negative control
    fixed = match(pair(ours, with_(flipped, problem=ours.problem))).pair
    negative = np.sum(fixed.runs["R"][3, -1] < 0)
    assert negative == np.sum(flipped.R[3, -1] < 0) > 0
