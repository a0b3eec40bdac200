"""Activations in NumPy are those of JAX."""

import numpy as np
import pytest

from tutelage.problem.activation import IN_NUMPY, NAMED_ACTIVATIONS

FIELDS = np.concatenate([np.linspace(-9.0, 9.0, 1001), [0.0, 1e-9, 40.0]])


@pytest.mark.parametrize("name", IN_NUMPY)
def test_in_numpy(name):
    activation = NAMED_ACTIVATIONS[name]
    responses = activation.in_numpy(FIELDS)
    np.testing.assert_allclose(
        responses.outputs, activation(FIELDS), rtol=1e-14, atol=1e-300
    )
    if activation.trainable:
        slopes = np.asarray(activation.slope(FIELDS))
        np.testing.assert_allclose(responses.slopes, slopes, rtol=1e-13, atol=1e-300)


def test_another_scale_is_noticed():
    """Negative control: erf(x) in place of erf(x / sqrt(2))."""
    activation = NAMED_ACTIVATIONS["erf"]
    responses = activation.in_numpy(np.sqrt(2) * FIELDS)
    assert np.max(np.abs(responses.outputs - activation(FIELDS))) > 0.1
