"""Our docstrings are plain text, not reStructuredText: this turns the one into the other for the reference.

Paragraphs; `code`, a link where it is a public name; indented lines: an equation, kept as it is; examples (>>>); sections as
in NumPy's docstrings. Names of parameters and fields before a colon are set in bold.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from sphinx.application import Sphinx

from _site.reference import all_public_names

SPECIAL = re.compile(r"([\\*_|])")
CODE = re.compile(r"`([^`]+)`")
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", flags=re.MULTILINE)
LISTS = ("Parameters", "Attributes", "Raises", "Returns")


def to_rst(text: str, names: Iterable[str] = ()) -> str:
    """A docstring as reStructuredText. names: of parameters and fields."""
    first, *sections = SECTION.split(text)
    parts = [_paragraphs(first, names)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts.append(f".. rubric:: {title}\n")
        parts.append(_entries(body) if title in LISTS else _paragraphs(body, names))
    return "\n".join(parts)


def _entries(text: str) -> str:
    """The entries of a section: a line for the name, indented lines for its meaning; a paragraph where nothing is indented."""
    lines, found = text.splitlines(), []
    for i, line in enumerate(lines):
        is_name = (
            line[:1].strip() and i + 1 < len(lines) and lines[i + 1].startswith(" ")
        )
        if not line.strip():
            found.append("")
        elif is_name:
            found += ["", "**" + SPECIAL.sub(r"\\\1", line.strip()) + "**"]
        else:
            found.append(
                ("    " if line.startswith(" ") else "") + _prose(line.strip(), ())
            )
    return "\n".join(found).strip() + "\n"


def _paragraphs(text: str, names: Iterable[str]) -> str:
    chunks = []
    for kind, lines in _chunks(text.splitlines()):
        if kind == "equation":
            chunks.append("::\n\n" + "\n".join(f"    {line}" for line in lines))
        else:
            chunks.append(
                "\n".join(
                    lines
                    if kind == "example"
                    else [_prose("\n".join(lines), tuple(names))]
                )
            )
    return "\n\n".join(chunks) + "\n"


def _chunks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Runs of lines of one kind: "text", "equation" (indented) or "example" (from >>> up to an empty line)."""
    kind, run = "", []
    for line in [*lines, ""]:
        now = _kind(line, kind)
        if now != kind and run:
            yield kind, run
            run = []
        kind = now
        if kind:
            run.append(line)


def _kind(line: str, before: str) -> str:
    if not line.strip():
        return ""
    if line.startswith(">>>") or before == "example":
        return "example"
    return "equation" if line.startswith("    ") else "text"


def _prose(text: str, names: tuple[str, ...]) -> str:
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        parts[i] = _code(part) if i % 2 else _bold(SPECIAL.sub(r"\\\1", part), names)
    return "".join(parts)


def _code(code: str) -> str:
    bare = code.removeprefix("tu.").split("(")[0]
    path = _homes().get(bare)
    return f":py:obj:`{code} <{path}>`" if path else f"``{code}``"


@lru_cache
def _homes() -> dict[str, str]:
    """The full name of each public name, by its path from the root and by the bare name."""
    found: dict[str, str] = {}
    spaces = all_public_names()
    for space, names in spaces.items():
        for name in names:
            path = f"{space}.{name}"
            if name[0] != "_" and path not in spaces:
                found |= {
                    path.removeprefix("tutelage."): path,
                    **({} if name in found else {name: path}),
                }
    return found


def _bold(text: str, names: tuple[str, ...]) -> str:
    if not names:
        return text
    one = "|".join(
        re.escape(SPECIAL.sub(r"\\\1", name))
        for name in sorted(names, key=len, reverse=True)
    )
    return re.sub(rf"(?<![\w.\\])((?:{one})(?:, (?:{one}))*):(?=\s)", r"**\1**:", text)


def names_of(value: Any) -> tuple[str, ...]:
    """Parameters of a function; fields and parameters of a class."""
    fields = tuple(getattr(value, "__dataclass_fields__", ()))
    try:
        return (*fields, *inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return fields


def convert(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """For autodoc's event."""
    lines[:] = to_rst(
        "\n".join(lines), names_of(value) if callable(value) else ()
    ).splitlines()


def shorten(
    app: Sphinx,
    what: str,
    name: str,
    value: Any,
    options: Any,
    signature: str,
    returns: str,
) -> Any:
    """The constructor of what a verb returns is of no use to its reader: only its fields are."""
    is_result = (
        what == "class"
        and getattr(value, "__module__", "").startswith(RESULTS)
        and value.__name__ not in MADE_BY_HAND
    )
    return ("", None) if is_result else (signature, returns)


RESULTS = (
    "tutelage.analysis",
    "tutelage.comparison",
    "tutelage.sweeps",
    "tutelage.result",
    "tutelage.stream.validity",
    "tutelage.errors",
)
MADE_BY_HAND = {"PowerLawSum", "SolutionManifold"}


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True}
