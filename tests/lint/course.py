"""The course: chapters in order, exercises with solutions, outputs below the code."""

import re
import sys
from collections.abc import Iterator

from tests.lint.findings import ROOT, Finding, line_of

sys.path.insert(0, str(ROOT / "docs"))

from _site import notebooks, outputs, runner

CHAPTERS = notebooks.chapters()
INDEX = outputs.COURSE / "index.md"
LINK = re.compile(r"\[[Cc]hapter (\d+)\]\((?:[\w./]*/)?([\w-]+)\.md")
SOLUTIONS = "<details>\n<summary>Solutions</summary>\n\n"


def check() -> Iterator[Finding]:
    names = [chapter.stem for chapter in CHAPTERS]
    for message in wrong_index(INDEX.read_text(), names):
        yield Finding(INDEX, 1, message)
    for page in (ROOT / "docs").rglob("*.md"):
        for line, message in wrong_numbers(page.read_text(), names):
            yield Finding(page, line, message)
    for number, chapter in enumerate(CHAPTERS, 1):
        text = chapter.read_text()
        if not text.startswith(f"# {number}. "):
            yield Finding(chapter, 1, f"the title must begin with '{number}.'")
        for message in (*wrong_exercises(text), *wrong_outputs(text)):
            yield Finding(chapter, 1, message)


def wrong_index(text: str, names: list[str]) -> list[str]:
    """The index lists all chapters in their order, in its table and for the menu."""
    wrong = []
    rows = re.findall(r"^\| \d+ \[[^\]]+\]\(([\w-]+)\.md\)", text, flags=re.MULTILINE)
    if rows != names:
        wrong.append("the table does not list the chapters in their order")
    menu = text.split(":hidden:")[1].split("```")[0].split()
    if menu != names:
        wrong.append("the menu does not list the chapters in their order")
    return wrong


def wrong_numbers(text: str, names: list[str]) -> list[tuple[int, str]]:
    """Links to chapters by number."""
    found = []
    for match in LINK.finditer(text):
        if names[int(match[1]) - 1] != match[2]:
            message = (
                f"chapter {match[1]} is {names[int(match[1]) - 1]}, not {match[2]}"
            )
            found.append((line_of(text, match.start()), message))
    return found


def wrong_exercises(text: str) -> list[str]:
    """Each chapter has two exercises on paper and one with code, and three solutions."""
    exercises, _, solutions = text.partition("## Exercises\n")[2].partition(SOLUTIONS)
    wrong = []
    kinds = re.findall(
        r"^\d\. \((paper|code), ★{1,3}\) ", exercises, flags=re.MULTILINE
    )
    if sorted(kinds) != ["code", "paper", "paper"]:
        wrong.append("there must be two exercises on paper and one with code")
    if re.findall(r"^\*\*(\d)\.\*\*", solutions, flags=re.MULTILINE) != ["1", "2", "3"]:
        wrong.append("there must be three solutions")
    if "```python\n" not in solutions:
        wrong.append("the solutions have no code")
    if text.count("<details>") != 1 or text.count("</details>") != 1:
        wrong.append("the solutions must be in one folded block")
    return wrong


def wrong_outputs(text: str) -> list[str]:
    """A block that prints has its output below it, and no other block has."""
    wrong = []
    blocks = runner.blocks(text)
    for block, output in zip(blocks, outputs.printed(text), strict=True):
        prints = bool(re.search(r"^ *print\(", block, flags=re.MULTILINE))
        if bool(output) != prints:
            wrong.append(f"code and output do not fit: {block.strip().splitlines()[0]}")
    if any(outputs.printed(outputs.without_outputs(text))):
        wrong.append("an output is left when the outputs are taken away")
    return wrong
