"""Pages: links resolve, no text is markup, how-to pages are complete, names exist."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import tutelage as tu
from tests.lint.findings import PACKAGE, ROOT, Finding, line_of

TOP_PAGES = ("README.md", "papers/README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
GENERATED = ROOT / "docs" / "generated"
PAGES = [ROOT / name for name in TOP_PAGES]
PAGES += [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if GENERATED not in page.parents
]
HOW_TO = [
    page for page in PAGES if page.parent.name == "how-to" and page.name != "index.md"
]
DRAWN = ("plots", "notebooks")  # how-to pages whose blocks draw and print nothing
OUTPUT = re.compile(r"^```text$", re.MULTILINE)
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
IS_PATH = re.compile(r"[\w./-]+(?:/|\.py|\.pyi|\.md)")
HTML_ALLOWED = ("details", "summary")


def check() -> Iterator[Finding]:
    for page in PAGES:
        text = page.read_text()
        for line, target in broken_links(text, page.parent):
            yield Finding(page, line, f"the link {target} leads to no file")
        for line, tag in markup(text):
            yield Finding(
                page, line, f"{tag} outside code and formulas is taken for HTML"
            )
    for page in HOW_TO:
        for message in missing_parts(page.read_text(), draws=page.stem in DRAWN):
            yield Finding(page, 1, message)
    how_we_know = ROOT / "docs" / "how-we-know.md"
    for line, name in missing_tests(how_we_know.read_text()):
        yield Finding(how_we_know, line, f"{name} is named and does not exist")
    architecture = ROOT / "ARCHITECTURE.md"
    for name in missing_from_source(architecture.read_text()):
        offset = architecture.read_text().find(f"`{name}`")
        line = line_of(architecture.read_text(), max(offset, 0))
        yield Finding(architecture, line, f"`{name}` does not exist")


def without_code(text: str) -> str:
    """A page without code, formulas and addresses, of as many lines."""
    pattern = r"^```.*?^```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|^    .*?$"
    return re.sub(pattern, only_line_breaks, text, flags=re.MULTILINE | re.DOTALL)


def only_line_breaks(match: re.Match) -> str:
    return "\n" * match[0].count("\n")


def broken_links(text: str, folder: Path) -> list[tuple[int, str]]:
    """Links inside the repository, as a code host follows them."""
    found = []
    for match in re.finditer(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not (folder / match[1]).resolve().exists():
            found.append((line_of(text, match.start()), match[1]))
    return found


def markup(text: str) -> list[tuple[int, str]]:
    """What a Markdown reader takes for HTML tags, outside code and formulas.

    A mean written as <u> underlines the rest of its page.
    """
    pattern = r"^```.*?^```|^    .*?$|`[^`]*`|\$[^$]*\$"
    prose = re.sub(pattern, only_line_breaks, text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for match in re.finditer(r"</?[A-Za-z][^>\n]*>", prose):
        if match[0].strip("</>") not in HTML_ALLOWED:
            found.append((line_of(prose, match.start()), match[0]))
    return found


def missing_parts(text: str, draws: bool) -> list[str]:
    """A how-to page shows its output and its limitations."""
    missing = []
    if "\n## Limitations\n" not in text:
        missing.append("the section Limitations is missing")
    if not draws and not OUTPUT.search(text):
        missing.append("no block shows what the code prints")
    return missing


def missing_tests(text: str) -> list[tuple[int, str]]:
    """Test files that a page names and that do not exist."""
    found = []
    for match in re.finditer(r"`((?:papers/)?tests/[\w/]+\.py)`", text):
        if not (ROOT / match[1]).is_file():
            found.append((line_of(text, match.start()), match[1]))
    return found


@lru_cache
def defined(file: Path) -> set[str]:
    """Functions, classes, methods (also as Class.method) and constants of a file."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.Assign):
            found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def missing_from_source(text: str) -> list[str]:
    """Words in backticks that exist nowhere.

    They are files, commands, public names, or names in the files of their paragraph.
    """
    missing = []
    for paragraph in re.split(r"\n\n|\n(?=- |\d+\. )", text):
        quoted = re.findall(r"`([^`]+)`", paragraph)
        paths = [word for word in quoted if IS_PATH.fullmatch(word)]
        folders = [
            ROOT,
            PACKAGE,
            *(
                home / path
                for home in (PACKAGE, ROOT)
                for path in paths
                if path.endswith("/")
            ),
        ]
        names = set()
        for path in paths:
            files = [folder / path for folder in folders if (folder / path).exists()]
            if not files:
                missing.append(path)
            for file in files:
                if file.is_file():
                    names |= defined(file)
        for word in quoted:
            if word not in paths and not is_known(word, names):
                missing.append(word)
    return missing


def is_known(word: str, names: set[str]) -> bool:
    """A target of the Makefile, a public name, or one of these names."""
    if word.startswith("make "):
        return word.removeprefix("make ") in TARGETS
    if word.startswith("tu."):
        return hasattr(tu, word.removeprefix("tu."))
    return word.strip(".()") in names
