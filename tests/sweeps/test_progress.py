"""What is seen of a running sweep:

nothing unless asked for; rate, time left and failures if so.
"""

import io
import sys

from tests.sweeps import toys
from tests.sweeps.toys import run
from tutelage.sweeps import run as run_module
from tutelage.sweeps.run import Progress


def sweep(folder, progress=None, **payload):
    progress = progress or Progress()
    return run(
        toys.store(folder, 6),
        toys.tasks(6, **payload),
        toys.numbers,
        "serial",
        progress=progress,
    )


def test_the_library_says_nothing(tmp_path, capfd):
    sweep(tmp_path / "s", bad=[0.2])
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_with_rate_time_left_and_failures(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    sweep(tmp_path / "s", Progress(shown=True), bad=[0.2, 0.5, 1.0], seconds=0.15)
    shown = terminal.getvalue()
    assert "/28 [" in shown
    assert " points/s" in shown
    assert "<00:0" in shown, "the time left"
    assert ", 2 failed" in shown
    assert shown.count("note: points fail: x is 0.5; it must not be") == 1


def test_what_is_kept_counts_as_done_but_not_for_the_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    store = toys.store(tmp_path / "s", 6)
    run(store, toys.tasks(6)[:4], toys.numbers, "serial")
    sweep(tmp_path / "s", Progress(shown=True), seconds=0.3)
    assert "| 20/28 [" in terminal.getvalue()
    assert "71%" in terminal.getvalue()


def test_without_a_terminal_there_are_notices_and_no_bar(tmp_path, capfd):
    sweep(tmp_path / "s")
    next((tmp_path / "s" / "chunks").iterdir()).write_bytes(b"")
    sweep(tmp_path / "s", Progress(shown=True))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("note: chunk-")
    assert err.count("\n") == 1


def test_a_report_in_words(tmp_path):
    run(toys.store(tmp_path / "s", 6), toys.tasks(6)[:1], toys.numbers, "serial")
    assert str(sweep(tmp_path / "s")) == "5 computed, 1 already computed"


def test_few_of_many_different_errors_are_shown(tmp_path, capfd):
    sweep(
        tmp_path / "s",
        Progress(shown=True),
        bad=[0.0, 0.1, 0.2, 0.4, 0.5, 0.8, 1.0, 1.1],
    )
    assert capfd.readouterr().err.count("note: points fail:") == run_module.MOST_SHOWN
