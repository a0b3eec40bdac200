"""The suite of the public interface imports public names only."""

import ast
from collections.abc import Iterator

from tests.lint.findings import ROOT, Finding
from tests.lint.imports import imports_of

FOLDER = ROOT / "tests" / "public"
ALLOWED = {  # what a test may import besides the root
    "tutelage",
    "tutelage.checks",
    "tutelage.cli.main",  # the installed command
}


def check() -> Iterator[Finding]:
    for file in sorted(FOLDER.glob("*.py")):
        for line, name in deep_imports(file.read_text()):
            yield Finding(file, line, f"imports {name}; use names of `tu` only")


def deep_imports(source: str) -> list[tuple[int, str]]:
    """Imports of the package beyond its root, and of helpers of other tests."""
    found = []
    for one in imports_of(ast.parse(source), "tests.public"):
        ours = one.module.split(".")[0] in ("tutelage", "tests")
        if ours and one.full_name not in ALLOWED:
            found.append((one.line, one.full_name))
    return found
