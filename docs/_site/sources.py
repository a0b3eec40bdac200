"""Writes docs/sources.md from docs/sources.toml: every item of the four sources, and where it is.

python docs/_site/sources.py
"""

import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))

FILE = DOCS / "sources.toml"
PAGE = DOCS / "sources.md"
PACKAGES = {"tu": "tutelage", "papers": "tutelage_papers"}
HEAD = """# The sources, item by item

Each equation, figure, code block and named result of the four sources, with the name or page that has
it here, and what tests it: the claims of a figure, a test, or the code of a page, which runs. A mark (e)
says that the [errata](errata.md) correct the item. [What became of the primer's list](primer-list.md)
goes through the works that the primer cites at its end."""


def sources() -> dict[str, dict[str, Any]]:
    """The table, by source."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def items() -> Iterator[tuple[str, dict[str, Any]]]:
    """(source, item), in the order of the file."""
    for source, part in sources().items():
        for item in part["items"]:
            yield source, item


def full_name(name: str) -> str:
    """`tu.` stays short; `papers.` becomes the name of the package."""
    package, _, rest = name.partition(".")
    return f"tutelage_papers.{rest}" if package == "papers" else name


def resolve(name: str) -> Any:
    """What a name stands for; `AttributeError` if it does not exist."""
    package, *parts = name.split(".")
    value: Any = import_module(PACKAGES[package])
    for part in parts:
        if part in getattr(value, "__annotations__", {}):
            return value.__annotations__[part]  # a field of a dataclass
        value = getattr(value, part)
    return value


def page() -> str:
    """The text of the page."""
    lines = [HEAD]
    for part in sources().values():
        lines += ["", f"## {part['title']}", ""]
        lines += ["| item | here | tested by | status |", "|---|---|---|---|"]
        lines += [_row(item) for item in part["items"]]
    return "\n".join([*lines, ""])


def _row(item: dict[str, Any]) -> str:
    here = []
    for name in item["here"]:
        is_page = name.endswith(".md")
        here.append(
            f"[{Path(name).stem}]({name})" if is_page else f"`{full_name(name)}`"
        )
    check = item["check"]
    if check == "page":
        tested = "code of the page"
    elif "::" in check:
        tested = f"`{check.split('::')[1]}`"
    else:
        tested = f"claims of {check}"
    mark = " (e)" if item.get("errata") else ""
    status = item.get("status", "done")
    return f"| {_text(item['item'])}{mark} | {', '.join(here)} | {tested} | {status} |"


def _text(words: str) -> str:
    """Words of the table, with * and _ as themselves."""
    return words.replace("*", "\\*").replace("_", "\\_")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
