"""The forty problems: what `compare` counts as a difference.

(Their arrays are not computed here.)
"""

import numpy as np
import pytest
from benchmarks import forty


def written(path, **arrays):
    np.savez(path, about=np.asarray("{}"), **arrays)
    return path


def test_there_are_forty_problems():
    assert len(forty.PROBLEMS) == 40


def test_equal_bits_are_identical(tmp_path, capsys):
    values = np.array([1.0, np.nan, -0.0])
    first = written(tmp_path / "a.npz", **{"one/error": values})
    second = written(tmp_path / "b.npz", **{"one/error": values.copy()})
    assert forty.main(["compare", str(first), str(second)]) == 0
    assert "one: bit-identical (1 arrays)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changed",
    [
        {"one/error": np.array([1.0, np.nextafter(2.0, 3.0)])},
        {"one/error": np.array([1.0, np.nan])},
        {"one/error": np.array([1.0])},
        {"one/loss": np.array([1.0, 2.0])},
        {},
    ],
)
def test_a_difference_is_found(tmp_path, changed):
    """One unit in the last place, a NaN, another shape, another name, nothing."""
    first = written(tmp_path / "a.npz", **{"one/error": np.array([1.0, 2.0])})
    second = written(tmp_path / "b.npz", **changed)
    assert forty.main(["compare", str(first), str(second)]) == 1


def test_the_sign_of_zero_is_a_difference(tmp_path):
    first = written(tmp_path / "a.npz", **{"one/error": np.array([1.0, 0.0])})
    second = written(tmp_path / "b.npz", **{"one/error": np.array([1.0, -0.0])})
    assert forty.main(["compare", str(first), str(second)]) == 1


@pytest.mark.parametrize(("rtol", "code"), [(1e-3, 1), (1e-1, 0)])
def test_a_tolerance_is_relative(tmp_path, rtol, code):
    first = written(tmp_path / "a.npz", **{"one/error": np.array([100.0, 2.0])})
    second = written(tmp_path / "b.npz", **{"one/error": np.array([100.0, 2.02])})
    arguments = ["compare", str(first), str(second), "--rtol", str(rtol)]
    assert forty.main(arguments) == code
