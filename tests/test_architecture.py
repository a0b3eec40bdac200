"""ARCHITECTURE.md: its drawings show the code, and its table tells the truth."""

import re
import sys
from pathlib import Path

import pytest

from tests.lint.layers import RANK

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tutelage"
sys.path.insert(0, str(ROOT / "docs"))

from _site import architecture  # noqa: E402

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
TABLE = TEXT.split("## To add something")[1].split("\n## ")[0]
ROWS = [line.strip("| ").split(" | ") for line in TABLE.splitlines() if "`" in line]
ROWS = [row for row in ROWS if len(row) == 3]


@pytest.mark.parametrize("name", architecture.DIAGRAMS)
def test_the_drawings_are_those_of_the_script(name):
    """`make diagrams` draws them again after a folder or its docstring has changed."""
    drawn = (architecture.DRAWINGS / f"{name}.svg").read_text()
    assert drawn == architecture.DIAGRAMS[name]()


def test_every_folder_has_a_place():
    drawn = [name for _, names in architecture.BANDS for name in names]
    folders = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert sorted(set(drawn)) == sorted(drawn)
    assert {name for name in drawn if not name.endswith(".py")} == folders


def test_the_rows_are_layers():
    """The order of the drawing, from below and from the left, is that of the layers."""
    drawn = [name for _, names in architecture.BANDS for name in names]
    ranks = [RANK[name.removesuffix(".py")] for name in drawn]
    assert ranks == sorted(ranks)


def test_the_rule_fails_for_a_folder_in_a_wrong_row():
    ranks = [RANK[name] for name in ("problem", "comparison", "solvers")]
    assert ranks != sorted(ranks)


def test_the_flow_names_what_there_is():
    for name, (_, _, folders, _) in architecture.STEPS.items():
        for folder in folders.split(", "):
            assert (PACKAGE / folder).is_dir(), folder
        sources = [
            file.read_text()
            for folder in folders.split(", ")
            for file in (PACKAGE / folder).rglob("*.py")
        ]
        word = name.split(".")[-1]
        pattern = rf"(class|def) {word}\w*\b|^\"\"\"Analyses"
        assert any(re.search(pattern, source) for source in sources), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_touches_two_files_at_most_and_is_exercised(row):
    _, touched, exercised = row
    files = re.findall(r"`([\w/.]+)`", touched)
    assert len(files) + ("custom" in touched or "a folder" in touched) <= 2
    assert touched.count(",") <= 1
    for file in files:
        assert any((home / file).exists() for home in (PACKAGE, ROOT)), file
    source, test = re.findall(r"`([\w/.]+)`", exercised)
    assert re.search(rf"^def {test}\(", (ROOT / source).read_text(), re.MULTILINE)


def test_there_are_rows():
    assert len(ROWS) >= 12
