"""The times at which tasks begin and are left."""

from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.analysis.continual.cases import LINE, two_tasks
from tutelage.analysis import forgetting
from tutelage.analysis.continual.task_curves import begins_and_left


def test_a_task_that_fades_smoothly_is_left_in_the_middle_of_its_fall(theory):
    import jax.numpy as jnp

    def fading(t):
        p = jnp.clip((90.0 - t) / 60.0, 0.0, 1.0)
        return jnp.stack([p, 1 - p])

    found = forgetting(replace(theory, problem=two_tasks(fading)))
    assert found.left[0] == pytest.approx(60.0, abs=0.01)
    assert found.left[1] == 120.0


FALLS = {
    "from the start": (LINE([0.0, 120.0], [1.0, 0.0]), 60.0),
    "in part": (LINE([0.0, 120.0], [0.8, 0.2]), 60.0),
    "after a while": (LINE([0.0, 30.0, 90.0], [1.0, 1.0, 0.0]), 60.0),
    "in steps": (
        tu.schedules.Piecewise([20.0, 30.0, 40.0], [1.0, 0.7, 0.3, 0.0]),
        30.0,
    ),
    "and returns": (LINE([0.0, 20.0, 40.0, 60.0], [1.0, 1.0, 0.0, 1.0]), 30.0),
    "nearly at once": (LINE([0.0, 59.99, 60.01], [1.0, 1.0, 0.0]), 60.0),
    "never": (LINE([0.0, 120.0], [0.2, 0.9]), 120.0),
}


@pytest.mark.parametrize("case", FALLS)
def test_shares_that_fade_are_left_in_the_middle_of_their_fall(theory, case):
    """As a jump is the limit of steep falls."""
    share, wanted = FALLS[case]
    found = forgetting(replace(theory, problem=two_tasks(tu.Interleave(share))))
    assert found.left[0] == pytest.approx(wanted, abs=1e-6 * wanted)
    learned = np.interp(wanted, theory.times, theory.error[:, 0])
    assert found.learned[0] == pytest.approx(learned, rel=1e-6)


def test_a_task_whose_share_rises_from_zero_begins_in_the_middle():
    rising = two_tasks(tu.Interleave(LINE([0.0, 20.0], [1.0, 0.0]))).teacher
    begins, left = begins_and_left(rising, 60.0)
    np.testing.assert_allclose(begins, [[0.0], [10.0]], atol=1e-6)
    np.testing.assert_allclose(left, [10.0, 60.0], atol=1e-6)
