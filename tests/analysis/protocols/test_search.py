"""Points of a search."""

from types import SimpleNamespace

import numpy as np

from tutelage.analysis.protocols.search import Search


def test_points_of_phases_stand_for_segments():
    search = SimpleNamespace(rows=(1, 1), size=12)
    whole = Search.whole(search, np.array([0.0, 1.0, 0.2, 0.7]))
    np.testing.assert_array_equal(
        whole, [0, 0, 0, 1, 1, 1, 0.2, 0.2, 0.2, 0.7, 0.7, 0.7]
    )
    np.testing.assert_array_equal(Search.whole(search, whole), whole)
