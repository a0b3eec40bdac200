"""Single steps of real weights: the loop of `simulate`, the theory's drift and diffusion, and how they concentrate."""

from functools import cache

import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair
from tutelage.analysis.single_steps.concentrations import judged
from tutelage.analysis.single_steps.one_step import _inputs, take_steps
from tutelage.analysis.single_steps.step_moments import coordinate_names, theory_moments
from tutelage.analysis.single_steps.vanishing import mean_gap, start_scatter
from tutelage.simulation.coordinates import in_random_frames, level_coordinates

R = np.array([[0.4, 0.1], [0.05, 0.3]])
START = tu.Start(R, R @ R.T + 0.2 * np.eye(2))
PLAIN = pair(2, 2, lr=1.0, noise=0.1)
RICH = pair(
    2,
    2,
    lr=1.0,
    inputs=tu.Spectrum([1.8, 0.2], [0.5, 0.5]),
    weight_decay=0.3,
    batch=3,
    student={"train_readout": True, "readout": [0.7, 1.3]},
)
DIMS = np.array([16, 32, 64, 128, 256, 512])


@cache
def measured(inputs="gaussian"):
    return tu.analysis.step_moments(PLAIN, START, 400, samples=40_000, inputs=inputs)


@cache
def concentrated():
    return tu.analysis.concentration(PLAIN, START, end=2.0, runs=32)


def test_a_step_is_the_step_that_simulate_takes():
    """Two levels, batch, decay, readout: the same weights and the same rows, to rounding."""
    dim, count = 40, 3
    steps = take_steps(RICH, START, dim, count, "uniform", 5)
    dims = RICH.inputs.level_dims(dim)
    frame, drawn, _ = np.random.default_rng(5).spawn(3)
    vectors = in_random_frames(level_coordinates(RICH, START, dims), dims, frame)
    rows = np.concatenate(list(_inputs(RICH, dims, count, "uniform", drawn)))
    for own, batch in zip(steps.increments, rows, strict=True):
        run = tu.simulate(RICH, weights=(vectors[2:], vectors[:2]), inputs=batch, times=[0, 1 / dim], runs=1)
        change = {name: dim * (run[name][0, 1] - run[name][0, 0]) for name in ("r", "q", "readout")}
        upper = change["q"][:, *np.triu_indices(2)]
        np.testing.assert_allclose(own, np.concatenate([change["r"].ravel(), upper.ravel(), change["readout"]]), atol=1e-12)


@pytest.mark.parametrize("inputs", ["gaussian", "rademacher", "student_t"])
def test_drift_and_diffusion_of_real_weights_are_the_theorys(inputs):
    """35 numbers, |z| < 5: a false alarm in ten thousand (somewhat more for the heavy tails of covariances)."""
    result = measured(inputs)
    assert result.agrees, str(result)
    assert result.names == ("R_11", "R_12", "R_21", "R_22", "Q_11", "Q_12", "Q_22")
    assert np.median(result.drift_error / np.abs(result.drift_theory)) < 0.02  # a wrong drift would be seen


def test_levels_batches_decay_and_readouts_of_real_weights():
    """16 drifts and 136 covariances of a rich problem: every part of a step by a second route."""
    result = tu.analysis.step_moments(RICH, START, 400, samples=40_000)
    assert result.agrees, str(result)
    assert len(result.names) == 16


def test_a_wrong_theory_is_seen():
    """A learning rate 5% off, and a diffusion 20% off."""
    result = measured()
    drift, D, _ = theory_moments(pair(2, 2, lr=1.05, noise=0.1), START)
    assert np.max(np.abs((result.drift - drift[:7]) / result.drift_error)) > 5
    assert np.max(np.abs((result.diffusion - 1.2 * D[:7, :7]) / result.diffusion_error)) > 5


def test_exponents_of_gaussian_inputs():
    result = concentrated()
    assert result.holds
    for name, expected in {"mean": -1.0, "variance": -1.0, "start": -0.5, "runs": -0.5}.items():
        assert result[name].exponent.slope == pytest.approx(expected, abs=0.15), name
    np.testing.assert_allclose(result["variance"].values[2:], result["variance"].theory[2:], rtol=0.08)
    for condition in (result["start"],):
        assert np.max(np.abs(condition.values - condition.theory) / condition.errors) < 4.5
    assert str(result).count("holds") == 4


def test_a_drift_that_does_not_fit_fails():
    """A negative control: the mean step against a drift that is 10% off does not vanish, and the verdict says so."""
    f = 1.1 * theory_moments(PLAIN, START)[0]
    gaps = [mean_gap(PLAIN, START, take_steps(PLAIN, START, int(n), 20_000), int(n), f, False) for n in DIMS]
    condition = judged("mean", "mean", DIMS, *np.array(gaps).T, None, -1.0)
    assert not condition.holds
    assert condition.verdict.startswith("FAILS")


def test_what_is_lost_in_noise_is_called_so():
    condition = judged("mean", "mean", DIMS, 0.5 / DIMS, np.full(6, 0.2), None, -1.0)
    assert condition.exponent is None
    assert "lost in noise" in condition.verdict
    slow = judged("mean", "mean", DIMS, DIMS**-0.3, 1e-3 * DIMS**-0.3, None, -1.0)
    assert slow.holds
    assert "but falls as" in slow.verdict


def test_scatter_of_starts_against_random_weights():
    """The same law by drawing the weights themselves."""
    dim, rng = 30, np.random.default_rng(0)
    joint = np.block([[START.Q, START.R], [START.R.T, np.eye(2)]])
    vectors = np.linalg.cholesky(joint) @ rng.standard_normal((4000, 4, dim))
    away = vectors @ np.swapaxes(vectors, 1, 2) / dim - joint
    squares = np.sum(away[:, :2, 2:] ** 2, axis=(1, 2)) + np.sum(away[:, *np.triu_indices(2)] ** 2, axis=1)
    found, error, exact = start_scatter(PLAIN, START, dim, 0)
    assert np.sqrt(squares.mean()) == pytest.approx(exact, rel=0.04)
    assert found == pytest.approx(exact, abs=4 * error)


def test_names_of_coordinates():
    assert coordinate_names(RICH)[:5] == ["r_1,11", "r_1,12", "r_1,21", "r_1,22", "r_2,11"]
    assert coordinate_names(RICH)[8:] == ["q_1,11", "q_1,12", "q_1,22", "q_2,11", "q_2,12", "q_2,22", "v_1", "v_2"]


def test_they_draw_themselves():
    labels = [axes.get_ylabel() for axes in concentrated().plot().axes]
    assert sum("step" in label or "runs" in label for label in labels) == 2
    assert [axes.get_xlabel()[:5] for axes in measured().plot().axes] == ["drift", "diffu"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"problem": 3}, "problem is of type int"),
        ({"start": None}, "start is None"),
        ({"problem": pair(2, 2, momentum=0.5)}, "momentum"),
        ({"problem": pair(2, 2, spherical=True)}, "spherical is set"),
        ({"inputs": "normal"}, "inputs is 'normal'; it must be one of gaussian"),
        ({"dims": (16, 32)}, "give 5 or more increasing sizes"),
        ({"dims": (2, 4, 8, 16, 32)}, "at dim = 2 a level has 2 dimensions"),
        ({"samples": 5}, "samples is 5"),
    ],
)
def test_what_it_cannot_answer_is_refused(arguments, words):
    given = {"problem": PLAIN, "start": START, "dims": DIMS} | arguments
    with pytest.raises(tu.InputError, match=words):
        tu.analysis.concentration(given.pop("problem"), given.pop("start"), **given)
