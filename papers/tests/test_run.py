"""Results are found again by content; a stopped run continues; none is stale."""

import json

import pytest
import xarray as xr
from papers.tests import toys
from papers.tests.toys import CALLS, toy

from tutelage_papers import cache, replicate
from tutelage_papers.registry import MODULES
from tutelage_papers.run import found


def test_a_second_run_computes_and_draws_nothing(tmp_path):
    first, second = replicate(toy(), tmp_path), replicate(toy(), tmp_path)
    assert CALLS == {"compute": 1, "draw": 1}
    assert (first.computed, second.computed) == (True, False)
    assert second.claims == first.claims
    assert second.seconds == first.seconds
    xr.testing.assert_identical(second.data["y"], first.data["y"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy-1.nc", "toy-1.png"]


def test_quick_and_full_do_not_meet(tmp_path):
    quick, full = replicate(toy(), tmp_path, quick=True), replicate(toy(), tmp_path)
    assert CALLS["compute"] == 2
    assert (quick.data.sizes["x"], full.data.sizes["x"]) == (4, 8)
    assert {"toy-1-quick.nc", "toy-1.nc"} < {path.name for path in tmp_path.iterdir()}


def test_other_parameters_are_computed_again_and_drawn_again(tmp_path):
    replicate(toy(), tmp_path, formats=("png", "pdf"))
    before = (tmp_path / "toy-1.png").read_bytes()
    again = replicate(toy(slope=5.0), tmp_path)
    assert CALLS == {"compute": 2, "draw": 2}
    assert float(again.data["slope"]) == 5.0
    assert (tmp_path / "toy-1.png").read_bytes() != before
    assert not (tmp_path / "toy-1.pdf").exists(), "a drawing of what is no longer there"


@pytest.mark.parametrize("what", ["_versions", "_library", "_digest"])
def test_other_code_is_computed_again(tmp_path, monkeypatch, what):
    replicate(toy(), tmp_path)
    assert found(toy(), tmp_path, quick=False)[0] == "done"
    monkeypatch.setattr(cache, what, lambda *files: "changed")
    assert found(toy(), tmp_path, quick=False)[0] == "stale"
    replicate(toy(), tmp_path)
    assert CALLS["compute"] == 2


def test_the_key_reads_the_code(tmp_path, monkeypatch):
    """A changed byte in the library or in the figure's own module changes the key.

    One in another module does not.
    """
    figure = f"papers/figures/{MODULES[0].replace('.', '/')}.py"
    names = ("library/solve.py", figure, "papers/bands.py", "library/cli/app.py")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(cache, "LIBRARY", tmp_path / "library")
    monkeypatch.setattr(cache, "PAPERS", tmp_path / "papers")

    def library():
        cache._library.cache_clear()
        return cache._library()

    try:
        first = library()
        for name in (figure, "library/cli/app.py"):
            (tmp_path / name).write_text("x = 2\n")
            assert library() == first
        for name in ("library/solve.py", "papers/bands.py"):
            (tmp_path / name).write_text("x = 2\n")
            assert library() != first
            (tmp_path / name).write_text("x = 1\n")
    finally:
        monkeypatch.undo()
        cache._library.cache_clear()
    own = cache.key(toy(), quick=True)
    monkeypatch.setattr(cache, "_digest", lambda files: str(files))
    assert cache.key(toy(), quick=True) != own
    assert "toys.py" in cache._digest([__import__("pathlib").Path(toys.__file__)])


def test_a_stopped_run_continues(tmp_path):
    def stopped(size, slope):
        raise KeyboardInterrupt

    replicate(toy("toy-1"), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        replicate(toy("toy-2", compute=stopped), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy-1.nc", "toy-1.png"]
    for name in ("toy-1", "toy-2"):
        replicate(toy(name), tmp_path)
    assert CALLS["compute"] == 2


def test_a_failed_drawing_keeps_the_numbers(tmp_path):
    with pytest.raises(RuntimeError, match="no ink"):
        replicate(toy(draw=toys.refuse), tmp_path)
    replicate(toy(), tmp_path)
    assert CALLS == {"compute": 1, "draw": 1}


@pytest.mark.parametrize("content", [b"", b"not a file of ours"])
def test_a_broken_file_is_computed_anew(tmp_path, content):
    (tmp_path / "toy-1.nc").write_bytes(content)
    assert found(toy(), tmp_path, quick=False) == ("", None, ())
    assert replicate(toy(), tmp_path).computed


def test_a_file_says_what_it_is(tmp_path):
    result = replicate(toy(), tmp_path, quick=True)
    with xr.open_dataset(result.files["nc"], engine="h5netcdf") as data:
        assert data.attrs["schema"] == cache.SCHEMA
        assert data.attrs["replica"] == "toy-1"
        assert json.loads(data.attrs["parameters"]) == {"size": 4, "slope": 2.0}
        assert data.attrs["seconds"] > 0


def test_verdicts_of_a_result(tmp_path):
    good, bad = (
        replicate(toy("toy-1"), tmp_path),
        replicate(toy("toy-2", slope=4.0), tmp_path),
    )
    assert (good.failed, bad.failed) == (False, True)
    assert list(good.to_dict()) == ["id", "source", "seconds", "claims"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def no_space(self, data):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr("pathlib.Path.write_bytes", no_space)
    with pytest.raises(OSError, match="No space") as caught:
        replicate(toy(), tmp_path)
    assert caught.value.filename == str(tmp_path / "toy-1.nc")
    assert list(tmp_path.iterdir()) == []
