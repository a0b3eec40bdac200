"""The table of all items of the sources: every name, page, test and figure in it exists."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tutelage_papers import replicas

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from _site.sources import PAGE, full_name, items, page, resolve, sources  # noqa: E402

LIST = ROOT / "docs" / "primer-list.md"
NAME = re.compile(r"`((?:tu|papers|tutelage_papers)\.[\w.]+)`")
FIGURE = re.compile(r"\b(?:ext|notes|inputs|rules|tasks|control|goldt)-\d+\b")


def test_the_page_is_that_of_the_table():
    def one_line_each(text):
        return re.sub(r"\s+", " ", text)

    assert one_line_each(PAGE.read_text()) == one_line_each(page())


def test_every_name_exists():
    for _, item in items():
        assert item["here"], item["item"]
        for name in item["here"]:
            if name.endswith(".md"):
                assert (ROOT / "docs" / name).is_file(), name
            else:
                resolve(name)


def test_every_item_is_checked_by_something_that_exists():
    for _, item in items():
        check = item["check"]
        if "::" in check:
            path, test = check.split("::")
            functions = {
                node.name
                for node in ast.parse((ROOT / path).read_text()).body
                if isinstance(node, ast.FunctionDef)
            }
            assert test in functions, check
        elif check == "page":
            pages = [name for name in item["here"] if name.endswith(".md")]
            assert pages, item["item"]
        else:
            assert check in replicas(), check


def test_the_figures_of_the_power_law_paper_are_all_there():
    """And the equations without a gap: 1 to 122 there, 1 to 48 for quadratic networks."""
    for source, last, figures in (("power", 122, 20), ("quad", 48, 6)):
        text = [item["item"] for item in sources()[source]["items"]]
        equations = set()
        shown = set()
        for words in text:
            for kind, found in re.findall(r"\b(eqs?|Figs?)\. ([\d, -]+\d|\d)", words):
                (equations if kind.startswith("eq") else shown).update(numbers(found))
        assert equations == set(range(1, last + 1)), source
        assert shown == set(range(1, figures + 1)), source


def numbers(text):
    """The numbers of "6, 54-57"."""
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def test_names_and_figures_of_the_primers_list_exist():
    text = LIST.read_text()
    names = NAME.findall(text)
    assert len(names) > 25
    for name in names:
        resolve(name)
    figures = set(FIGURE.findall(text))
    assert {"ext-1", "ext-2", "ext-3", "ext-4"} <= figures <= set(replicas())


@pytest.mark.parametrize("name", ["tu.no_such_name", "papers.power_law.no_such_name"])
def test_a_name_that_does_not_exist_is_seen(name):
    with pytest.raises(AttributeError):
        resolve(name)
    assert full_name("papers.notes.x") == "tutelage_papers.notes.x"
