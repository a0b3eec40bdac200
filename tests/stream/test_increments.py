"""Sampled single steps: their mean is the drift."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.problems import sample_increments
from tests.stream.test_order_parameters import SPECTRUM, overlaps, problem_of
from tutelage.stream import OrderParameters
from tutelage.stream.order_parameters import flatten, unflatten

CASES = {
    "erf, three levels, noise": {
        "student": "erf",
        "inputs": SPECTRUM,
        "train_readout": True,
        "readout_lr": 0.3,
    },
    "relu": {"student": "relu", "inputs": SPECTRUM},
    "quadratic, biases": {
        "student": "quadratic",
        "inputs": SPECTRUM,
        "bias": np.array([0.3, -0.5]),
        "bias_lr": 0.2,
    },
}
COUNT = 200_000


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_mean_increment_is_the_drift(case):
    problem = problem_of(**case)
    state, t = overlaps(2, 2, 3, bias=case.get("bias"))
    system = OrderParameters(problem, t)
    time = jnp.asarray(0.0)

    @eqx.filter_jit
    def moments(system, state):
        samples = sample_increments(system, time, state, jax.random.key(0), COUNT)
        return (
            samples.mean(axis=0),
            samples.std(axis=0),
            flatten(system.drift(time, state)),
        )

    mean, deviation, drift = map(np.asarray, moments(system, state))
    error = deviation / np.sqrt(COUNT)
    assert np.max(np.abs(mean - drift) / (error + 1e-15)) < 4.5
    moved = np.abs(drift) > 0
    assert (
        np.median(error[moved] / np.abs(drift[moved])) < 0.05
    )  # the test could see a wrong drift
    assert np.max(np.abs(mean - 1.2 * drift) / (error + 1e-15)) > 10  # negative control


def test_flat_coordinates_round_trip():
    state, _ = overlaps(2, 2, 3, bias=np.array([0.3, -0.5]))
    back = unflatten(flatten(state), state)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(back), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-16)
