"""The folder of a sweep: what is written is read back, nothing else is believed."""

import os
from contextlib import nullcontext

import numpy as np
import pytest
import xarray as xr

from tests.sweeps import toys
from tests.sweeps.toys import run
from tutelage import InputError
from tutelage.sweeps.store import Store, Task, spec_key

FAILURES = ["", "the rate 9 is above the critical one" * 100, ""]
CHUNK = {
    "error": ((), np.array([0.1, np.nan, 1e-300])),
    "R": (("student", "teacher"), np.arange(12.0).reshape(3, 2, 2)),
    "curve": (("time",), np.linspace(0, 1, 12).reshape(3, 4)),
    "steps": ((), np.array([3, 4, 2**60])),
    "note": ((), np.array(["finished", "", "außer Schritt"], dtype=object)),
    "failure": ((), np.array(FAILURES, dtype=object)),
}
TASK = Task(1, (3, 4, 5), {})


@pytest.fixture
def store(tmp_path):
    return Store.create(
        tmp_path / "s", {"lr": [0.1, 0.2], "seed": 0}, chunks=2, points=6
    )


def put(store, task=TASK, chunk=CHUNK):
    with store.writing():
        store.put(task, chunk)


def only_file(store):
    return next((store.folder / "chunks").glob("*.nc"))


def test_a_chunk_is_read_back_exactly(store):
    put(store)
    points, kept = Store(store.folder).read(1)
    assert list(points) == [3, 4, 5]
    assert set(kept) == set(CHUNK)
    for name, (dims, values) in CHUNK.items():
        assert kept[name][0] == dims
        np.testing.assert_array_equal(kept[name][1], values)
        assert kept[name][1].dtype == values.dtype


def test_plain_xarray_reads_a_chunk(store):
    put(store)
    with xr.open_dataset(only_file(store)) as data:
        assert data["curve"].dims == ("point", "time")
        np.testing.assert_array_equal(data["error"].sel(point=[3, 5]), [0.1, 1e-300])
        assert list(data["failure"].values) == FAILURES
        assert data.attrs["sweep"] == store.key
        assert data.attrs["tutelage_version"] == store.version


def test_the_bytes_depend_on_the_outcome_alone(store, tmp_path):
    put(store)
    other = Store.create(tmp_path / "other", store.spec, chunks=2, points=6)
    put(other)
    assert toys.files(other.folder) == toys.files(store.folder)


def test_bytes_are_on_the_disk_before_the_name_is(store, monkeypatch):
    events = []

    def observed(name, function):
        def call(*args, **more):
            events.append(
                (
                    name,
                    os.readlink(f"/proc/self/fd/{args[0]}")
                    if name == "fsync"
                    else str(args[1]),
                )
            )
            return function(*args, **more)

        monkeypatch.setattr(os, name, call)

    with store.writing():
        observed("fsync", os.fsync)
        observed("replace", os.replace)
        store.put(TASK, CHUNK)
        monkeypatch.undo()
    final = str(only_file(store))
    kinds = [kind for kind, _ in events]
    assert kinds == ["fsync", "replace"]
    assert events[0][1].endswith(".part")
    assert events[1][1] == final


def test_a_failed_write_leaves_nothing(store, monkeypatch):
    def fails(*_):
        raise OSError(5, "Input/output error")

    with store.writing():
        monkeypatch.setattr(os, "replace", fails)
        with pytest.raises(
            InputError,
            match=r"cannot be written to \(Input/output error\); 0 of 2 chunks are kept",
        ):
            store.put(TASK, CHUNK)
        monkeypatch.undo()
    assert toys.files(store.folder) == {}
    assert store.done == frozenset()


@pytest.mark.parametrize("harm", ["flip", "truncate", "empty"])
def test_a_damaged_chunk_is_never_read(store, harm):
    put(store)
    damage(only_file(store), harm)
    with pytest.raises(
        InputError, match=r"chunk 1 .* is damaged .* run the sweep again"
    ):
        Store(store.folder).read(1)
    assert len(Store(store.folder).remove_damaged()) == 1


def damage(path, harm):
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 1
    path.write_bytes({"flip": data, "truncate": data[:-100], "empty": b""}[harm])


@pytest.mark.parametrize("harm", ["flip", "truncate", "empty"])
def test_a_damaged_chunk_is_computed_again_with_a_notice(tmp_path, harm):
    whole = sweep(tmp_path / "s", tmp_path / "log")
    before = toys.files(tmp_path / "s")
    name = list(before)[2]
    damage(tmp_path / "s" / "chunks" / name, harm)
    assert toys.begun(tmp_path / "log") == [0, 1, 2, 3]
    report = sweep(tmp_path / "s", tmp_path / "log")
    assert toys.begun(tmp_path / "log") == [0, 1, 2, 3, 2]
    assert (whole.computed, report.computed, report.kept) == (4, 1, 3)
    (notice,) = report.notices
    assert name in notice
    assert "does not match its hash" in notice
    assert toys.files(tmp_path / "s") == before
    assert sweep(tmp_path / "s", tmp_path / "log").notices == ()


def sweep(folder, log, count=4, **more):
    return run(
        toys.store(folder, count),
        toys.tasks(count, log=str(log)),
        toys.numbers,
        "serial",
        **more,
    )


def test_a_file_of_another_sweep_does_not_count(store, tmp_path):
    other = Store.create(tmp_path / "other", {"lr": [3.0]}, chunks=2, points=6)
    put(other)
    file = only_file(other)
    (store.folder / "chunks" / file.name).write_bytes(file.read_bytes())
    assert Store(store.folder).remove_damaged() == (file.name,)


def test_a_chunk_that_comes_out_differently_replaces_the_old_one(store):
    put(store)
    put(
        store,
        chunk={
            "error": ((), np.zeros(3)),
            "failure": ((), np.full(3, "", dtype=object)),
        },
    )
    assert len(toys.files(store.folder)) == 1
    assert set(store.read(1)[1]) == {"error", "failure"}
    assert store.status().points_failed == 0


def test_no_chunk_without_failures_is_opened_to_list_them(tmp_path, monkeypatch):
    sweep(tmp_path / "s", tmp_path / "log")
    monkeypatch.setattr(Store, "_bytes", lambda *_: pytest.fail("a chunk was read"))
    status = Store(tmp_path / "s").status()
    assert (status.chunks_done, status.points_done, status.points_failed) == (4, 18, 0)


def test_many_chunks_are_listed_by_one_look_at_the_folder(tmp_path, monkeypatch):
    """Not one per chunk, nor one per point:

    the mechanism behind benchmarks/sweeps.py.
    """
    sweep(tmp_path / "s", tmp_path / "log", count=40)
    looks = []

    def counted(look):
        return lambda *args, **more: looks.append(look) or look(*args, **more)

    for name in ("listdir", "scandir", "stat"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    store = Store(tmp_path / "s")
    assert len(store.done) == 40
    store.status()
    monkeypatch.undo()
    assert len(looks) <= 5


def test_a_file_that_a_killed_process_left_unfinished_is_not_read(store):
    leftover = (
        store.folder
        / "chunks"
        / ".chunk-000001-3-0-0123456789abcdef.nc.0123456789abcdef0123456789abcdef.part"
    )
    leftover.write_bytes(b"half")
    assert Store(store.folder).done == frozenset()
    put(store)
    assert Store(store.folder).done == {1}


def test_the_same_sweep_is_opened_and_another_is_refused(store):
    assert (
        Store.create(
            store.folder, {"seed": 0, "lr": [0.1, 0.2]}, chunks=2, points=6
        ).key
        == store.key
    )
    with pytest.raises(
        InputError,
        match="holds another sweep, which differs in lr, noise; give another folder",
    ):
        Store.create(
            store.folder,
            {"lr": [0.1, 0.3], "seed": 0, "noise": 0.1},
            chunks=2,
            points=6,
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:40], "is damaged"),
        (lambda text: "[]", "is damaged"),
        (
            lambda text: text.replace("tutelage-sweep/2", "tutelage-sweep/3"),
            "another folder",
        ),
    ],
)
def test_a_spec_that_was_tampered_with_is_refused(store, change, said):
    path = store.folder / "spec.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=said):
        Store(store.folder)


def test_numbers_of_a_spec_that_was_edited_are_not_read(store):
    put(store)
    path = store.folder / "spec.json"
    path.write_text(path.read_text().replace("0.2", "0.3"))
    with pytest.raises(InputError, match="its hash differs"):
        Store(store.folder).read(1)


def test_folders_that_are_none_of_a_sweep_are_refused(tmp_path):
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        Store(tmp_path)
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="holds other files and no sweep"):
        Store.create(tmp_path, {}, chunks=1, points=1)
    with pytest.raises(InputError, match="is a file"):
        Store.create(tmp_path / "thesis.tex", {}, chunks=1, points=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_status_in_words(tmp_path):
    tasks = toys.tasks(4, bad=[0.0, 0.1 * 7])
    store = toys.store(tmp_path / "s", 4)
    run(store, tasks[:2], toys.numbers, "serial")
    status = store.status()
    assert not status.complete
    assert str(status).splitlines() == [
        f"{tmp_path / 's'}: 10 of 18 points (55 %), 2 of 4 chunks, tutelage {store.version}",
        "  not running; run the same sweep into the same folder to go on",
        "  2 points failed:",
        "    1 x x is 0; it must not be",
        "    1 x x is 0.7; it must not be",
    ]
    with store.writing():
        assert f"running: process {os.getpid()} on " in str(
            Store(tmp_path / "s").status()
        )


def test_the_key_does_not_depend_on_the_order():
    assert (
        spec_key({"a": 1, "b": [1.5]})
        == spec_key({"b": [1.5], "a": 1})
        != spec_key({"a": 1, "b": [1.6]})
    )


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_the_target_of_a_lock_that_is_a_link_is_kept(store, tmp_path, link):
    target = tmp_path / "thesis.txt"
    target.write_text("years of work")
    (store.folder / "lock").unlink(missing_ok=True)
    link(target, store.folder / "lock")
    with (
        nullcontext()
        if link is os.link
        else pytest.raises(
            InputError, match=r"lock cannot be opened \(.* symbolic links"
        )
    ):
        put(store)
    assert target.read_text() == "years of work"
    assert store.status().writer is None
