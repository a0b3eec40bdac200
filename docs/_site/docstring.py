"""Docstrings, which are plain text, as reStructuredText for the reference.

Paragraphs; `code`, a link where it is a public name; indented lines: an equation, kept
as it is; examples (>>>); sections as in NumPy's docstrings. Names of parameters and
fields before a colon are set in bold.
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
    """Return a docstring as reStructuredText. names: of parameters and fields."""
    first, *sections = SECTION.split(text)
    parts = [_paragraphs(first, names)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts.append(f".. rubric:: {title}\n")
        if title in LISTS:
            parts.append(_entries(body))
        else:
            parts.append(_paragraphs(body, names))
    return "\n".join(parts)


def _entries(text: str) -> str:
    """The entries of a section: a line for the name, indented lines for its meaning.

    Where nothing is indented, it is a paragraph.
    """
    lines = text.splitlines()
    entries = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        prose = _prose(line.strip(), ())
        if not line.strip():
            entries.append("")
        elif line.startswith(" "):
            entries.append(f"    {prose}")
        elif following.startswith(" "):
            name = SPECIAL.sub(r"\\\1", line.strip())
            entries += ["", f"**{name}**"]
        else:
            entries.append(prose)
    return "\n".join(entries).strip() + "\n"


def _paragraphs(text: str, names: Iterable[str]) -> str:
    chunks = []
    for kind, lines in _chunks(text.splitlines()):
        whole = "\n".join(lines)
        if kind == "equation":
            chunks.append("::\n\n" + "\n".join(f"    {line}" for line in lines))
        elif kind == "example":
            chunks.append(whole)
        else:
            chunks.append(_prose(whole, tuple(names)))
    return "\n\n".join(chunks) + "\n"


def _chunks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Runs of lines of one kind: "text", "equation" or "example".

    An equation is indented; an example goes from >>> up to an empty line.
    """
    kind = ""
    run: list[str] = []
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
    """A paragraph with its code and its names marked."""
    parts = []
    for place, part in enumerate(CODE.split(text)):
        is_code = place % 2 == 1
        if is_code:
            parts.append(_code(part))
        else:
            parts.append(_bold(SPECIAL.sub(r"\\\1", part), names))
    return "".join(parts)


def _code(code: str) -> str:
    bare = code.removeprefix("tu.").split("(")[0]
    path = _homes().get(bare)
    if path is None:
        return f"``{code}``"
    return f":py:obj:`{code} <{path}>`"


@lru_cache
def _homes() -> dict[str, str]:
    """The full name of each public name, by its path and by the bare name."""
    homes: dict[str, str] = {}
    spaces = all_public_names()
    for space, names in spaces.items():
        for name in names:
            path = f"{space}.{name}"
            if name.startswith("_") or path in spaces:
                continue
            homes.setdefault(name, path)  # the bare name belongs to the first
            homes[path.removeprefix("tutelage.")] = path
    return homes


def _bold(text: str, names: tuple[str, ...]) -> str:
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    escaped = [re.escape(SPECIAL.sub(r"\\\1", name)) for name in longest_first]
    one = "|".join(escaped)
    several = rf"(?<![\w.\\])((?:{one})(?:, (?:{one}))*):(?=\s)"
    return re.sub(several, r"**\1**:", text)


def names_of(value: Any) -> tuple[str, ...]:
    """Return the parameters of a function, or fields and parameters of a class."""
    fields = tuple(getattr(value, "__dataclass_fields__", ()))
    try:
        return (*fields, *inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return fields


def convert(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Replace the lines of a docstring, for autodoc's event."""
    names = names_of(value) if callable(value) else ()
    lines[:] = to_rst("\n".join(lines), names).splitlines()


def shorten(
    app: Sphinx,
    what: str,
    name: str,
    value: Any,
    options: Any,
    signature: str,
    returns: str,
) -> Any:
    """Leave out the constructor of results: a reader needs their fields only."""
    is_result = (
        what == "class"
        and getattr(value, "__module__", "").startswith(RESULTS)
        and value.__name__ not in MADE_BY_HAND
    )
    if is_result:
        return "", None
    return signature, returns


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
    """Connect this extension; Sphinx calls it."""
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True}
