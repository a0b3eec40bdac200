"""The course:

its order, exercises, committed outputs, drawings, and the notebooks made of its pages
and of the examples.
"""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _site import notebooks, outputs, runner  # noqa: E402

CHAPTERS = notebooks.chapters()
INDEX = (outputs.COURSE / "index.md").read_text()
CHEAPEST = "few-numbers"

every_chapter = pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)


def test_outputs_are_replaced():
    page = "```python\nprint(1)\n```\n\n```text\nold\n```\n\n![old](figures/x-1.png)\n\nwords ![kept](figures/saddle.svg)\n"
    shown = [{"text": "1 \n", "images": [{"alt": "R [1]"}]}]
    text = outputs.with_outputs(page, "x", shown)
    assert (
        text
        == "```python\nprint(1)\n```\n\n```text\n1\n```\n\n![R (1)](figures/x-1.png)\n\nwords ![kept](figures/saddle.svg)\n"
    )
    assert outputs.with_outputs(text, "x", shown) == text


def test_drawings_are_used_and_small():
    used = {
        name
        for page in CHAPTERS
        for name in re.findall(r"\(figures/([\w-]+\.\w+)\)", page.read_text())
    }
    present = {
        path.name: path.stat().st_size
        for path in (outputs.COURSE / "figures").iterdir()
    }
    assert used == set(present)
    assert max(present.values()) < 150_000


# Notebooks


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """Name -> notebook, as written."""
    return {
        path.stem: json.loads(path.read_text())
        for path in notebooks.write(tmp_path_factory.mktemp("notebooks"))
    }


def test_every_chapter_and_example_is_a_notebook(books):
    examples = {f"example-{path.stem}" for path in notebooks.EXAMPLES.glob("*.py")}
    pages = {page.stem for page in [*CHAPTERS, notebooks.TOUR]}
    assert set(books) == pages | examples
    for book in books.values():
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
        assert all(
            cell["outputs"] == [] and cell["execution_count"] is None
            for cell in book["cells"]
            if "outputs" in cell
        )


@every_chapter
def test_a_notebook_holds_its_page(page, books):
    cells = books[page.stem]["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.strip() for block in runner.blocks(page.read_text())]
    text = "\n".join(
        cell["source"] for cell in cells if cell["cell_type"] == "markdown"
    )
    assert not re.search(r"```text|\]\(figures/|\.md[)#]|details>", text)
    assert {f"{name}.ipynb" for name in books} >= set(
        re.findall(r"\]\(([\w-]+\.ipynb)\)", text)
    )
    attached = {name for cell in cells for name in cell.get("attachments", {})}
    assert attached == set(re.findall(r"attachment:([\w-]+\.svg)", text))
    assert any(cell["metadata"] for cell in cells if cell["cell_type"] == "code"), (
        "solutions are folded"
    )


def execute(book, folder):
    """Run all code cells in a new kernel, in this folder; a cell that raises fails the test."""
    from jupyter_client.manager import run_kernel

    with run_kernel(cwd=str(folder)) as client:
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                reply = client.execute_interactive(
                    cell["source"], timeout=300, output_hook=lambda message: None
                )
                assert reply["content"]["status"] == "ok", (
                    f"{cell['source']}\n{reply['content']}"
                )


@pytest.mark.pages
def test_the_cheapest_chapter_runs_as_a_notebook(books, tmp_path):
    execute(books[CHEAPEST], tmp_path)


@pytest.mark.pages
def test_the_tour_runs_as_a_notebook(books, tmp_path):
    """Twelve cells, from a problem to its citation."""
    tour = books[notebooks.TOUR.stem]
    assert sum(cell["cell_type"] == "code" for cell in tour["cells"]) == 12
    execute(tour, tmp_path)
    assert (tmp_path / "theory.csv").is_file()
    assert (tmp_path / "explorer.html").is_file()


def test_a_cell_that_raises_is_noticed(tmp_path):
    """A negative control."""
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        execute({"cells": [{"cell_type": "code", "source": "1 / 0"}]}, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [page.stem for page in CHAPTERS if page.stem != CHEAPEST]
)
def test_chapters_run_as_notebooks(name, books, tmp_path):
    execute(books[name], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", sorted(path.stem for path in notebooks.EXAMPLES.glob("*.py"))
)
def test_examples_run_as_notebooks(name, books, tmp_path):
    execute(books[f"example-{name}"], tmp_path)
    assert (tmp_path / f"{name}.png").is_file()
