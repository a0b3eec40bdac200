"""Single steps of real weights:

the loop of `simulate`, the theory's drift and diffusion.
"""

from functools import cache

import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair
from tutelage.analysis.single_steps import coordinate_names, take_steps, theory_moments
from tutelage.simulation.prepare import in_random_frames, level_coordinates
from tutelage.simulation.weights import drawn_rows

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


@cache
def measured(inputs="gaussian"):
    return tu.analysis.step_moments(PLAIN, START, 400, samples=40_000, inputs=inputs)


def test_a_step_is_the_step_that_simulate_takes():
    """Two levels, batch, decay, readout:

    the same weights and the same rows, to rounding.
    """
    dim = 40
    count = 3
    steps = take_steps(RICH, START, dim, count, "uniform", 5)
    dims = RICH.inputs.level_dims(dim)
    frame, drawn, _ = np.random.default_rng(5).spawn(3)
    vectors = in_random_frames(level_coordinates(RICH, START, dims), dims, frame)
    rows = drawn_rows(RICH, dims, "uniform", drawn)(0, 3 * count).reshape(count, 3, dim)
    for own, batch in zip(steps.increments, rows, strict=True):
        run = tu.simulate(
            RICH,
            weights=(vectors[2:], vectors[:2]),
            inputs=batch,
            times=[0, 1 / dim],
            runs=1,
        )
        change = {
            name: dim * (run[name][0, 1] - run[name][0, 0])
            for name in ("r", "q", "readout")
        }
        upper = change["q"][:, *np.triu_indices(2)]
        np.testing.assert_allclose(
            own,
            np.concatenate([change["r"].ravel(), upper.ravel(), change["readout"]]),
            atol=1e-12,
        )


@pytest.mark.parametrize("inputs", ["gaussian", "rademacher", "student_t"])
def test_drift_and_diffusion_of_real_weights_are_the_theorys(inputs):
    """35 numbers, |z| < 5:

    a false alarm in ten thousand (somewhat more for the heavy tails of covariances).
    """
    result = measured(inputs)
    assert result.agrees, str(result)
    assert result.names == ("R_11", "R_12", "R_21", "R_22", "Q_11", "Q_12", "Q_22")
    assert (
        np.median(result.drift_error / np.abs(result.drift_theory)) < 0.02
    )  # a wrong drift would be seen


def test_levels_batches_decay_and_readouts_of_real_weights():
    """16 drifts and 136 covariances of a rich problem:

    every part of a step by a second route.
    """
    result = tu.analysis.step_moments(RICH, START, 400, samples=40_000)
    assert result.agrees, str(result)
    assert len(result.names) == 16


def test_a_wrong_theory_is_seen():
    """A learning rate 5% off, and a diffusion 20% off."""
    result = measured()
    drift, D, _ = theory_moments(pair(2, 2, lr=1.05, noise=0.1), START)
    assert np.max(np.abs((result.drift - drift[:7]) / result.drift_error)) > 5
    assert (
        np.max(np.abs((result.diffusion - 1.2 * D[:7, :7]) / result.diffusion_error))
        > 5
    )


def test_names_of_coordinates():
    assert coordinate_names(RICH)[:5] == [
        "r_1,11",
        "r_1,12",
        "r_1,21",
        "r_1,22",
        "r_2,11",
    ]
    assert coordinate_names(RICH)[8:] == [
        "q_1,11",
        "q_1,12",
        "q_1,22",
        "q_2,11",
        "q_2,12",
        "q_2,22",
        "v_1",
        "v_2",
    ]


def test_it_draws_itself():
    assert [axes.get_xlabel()[:5] for axes in measured().plot().axes] == [
        "drift",
        "diffu",
    ]


def test_the_samples_of_a_step_are_in_the_result():
    """The drift is their mean, and the limit of the same samples takes most noise off."""
    step = measured()
    np.testing.assert_allclose(step.increments.mean(axis=0), step.drift)
    assert step.limit.shape == step.increments.shape == (40_000, len(step.names))
    apart = (step.increments - step.limit).std(axis=0)
    assert np.all(apart < 0.5 * step.increments.std(axis=0))
