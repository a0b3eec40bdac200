"""Every block of Python in the documents runs as printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p.read_text())], ids=name_of)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks(page.read_text()):
        exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_resolve(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_blocks_are_found():
    assert blocks("a\n```python\nx = 1\n```\nb\n```python\ny = 2\n```\n") == ["x = 1\n", "y = 2\n"]
