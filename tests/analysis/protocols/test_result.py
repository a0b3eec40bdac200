"""The result of `optimize` in words."""

from types import SimpleNamespace

import numpy as np

from tutelage.analysis.protocols.result import OptimalProtocol


def test_a_level_that_is_not_reached_is_said():
    found = SimpleNamespace(
        objective="time", trajectory=SimpleNamespace(times=np.array([0.0, 40.0]))
    )
    assert OptimalProtocol._shown(found, np.inf) == "not reached within 40"
    assert OptimalProtocol._shown(found, 25.571) == "25.57"
