"""Every benchmark still runs, at a tiny size; nothing is timed here.

The page is what the committed numbers say.
"""

import importlib

import pytest
from benchmarks import measure, page
from benchmarks.__main__ import cells, table

PARTS = ("core", "hand", "cold", "finite", "growth", "gpu")
LONG = ("core", "hand", "finite", "growth", "gpu")  # with compilation


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(measure, "OPTIONS", {"clock": "cpu", "size": "tiny"})
    for name in ("ROWS", "GROWTH"):
        monkeypatch.setattr(measure, name, [])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in LONG else ())
        for name in PARTS
    ],
)
def test_benchmarks_run(name, tiny):
    for part in importlib.import_module(f"benchmarks.{name}").ALL:
        part()
    assert measure.ROWS or measure.GROWTH
    assert all(len(cells(row)) == 8 for row in measure.ROWS)
    assert all(len(one["x"]) == len(one["y"]) for one in measure.GROWTH)


def test_a_miss_keeps_its_reason(tiny):
    measure.record("a", 2.0, 1.0, target=">= 1x", met=False, reason="because")
    measure.record("b", 0.5, 1.0, rate=7.0, unit="problems/s", target=">= 1x", met=True)
    missed, met = (cells(row) for row in measure.ROWS)
    assert missed[1:] == ["2 s", "1 s", "0.5", "", ">= 1x", "missed", "because"]
    assert met[1:4] == ["7 problems/s (0.5 s)", "1 s", "2"]
    assert met[6] == "met"
    assert table().row_count == 0  # that of the real run, which this one is not


def test_the_page_is_written_from_the_committed_numbers():
    assert (page.DOCS / "benchmarks.md").read_text() == page.page(page.data())
