"""The page of errata, from errata.toml: each entry beside the numbers of its claim, or the test that shows it.

An entry whose claim or test does not exist ends the build, and so does a refuted claim of the registry without an entry.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from _site.markdown import plain, table, write
from tutelage.replicate import Claim, Result
from tutelage.replicate.gallery import expectation
from tutelage.replicate.registry import SOURCES

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "errata.toml"


def entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """(source, entry), in the order of the file."""
    for source, part in tomllib.loads(FILE.read_text()).items():
        for entry in part["errata"]:
            yield source, entry


def names(entry: dict[str, Any]) -> list[str]:
    """The parts of names of claims that an entry gives."""
    given = entry.get("claim", [])
    return [given] if isinstance(given, str) else given


def claims_of(entry: dict[str, Any], results: dict[str, Result]) -> list[Claim]:
    """The claims that an entry points to."""
    found = results[entry["figure"]].claims
    return [claim for claim in found if any(part in claim.name for part in names(entry))]


def problems(results: dict[str, Result]) -> list[str]:
    """Entries that point nowhere, and refuted claims that no entry covers. Figures without a result are left alone."""
    found, covered = [], set()
    for source, entry in entries():
        words = f"{source}, {entry['where']}"
        if "test" in entry:
            path, _, name = entry["test"].partition("::")
            if not name or f"def {name}(" not in _text(ROOT / path):
                found.append(f"{words}: there is no test {entry['test']}")
        elif entry["figure"] in results:
            claims = claims_of(entry, results)
            covered |= {(entry["figure"], claim.name) for claim in claims}
            if not claims:
                found.append(f"{words}: {entry['figure']} has no claim {entry['claim']!r}")
    refuted = [(r.replica.id, c.name) for r in results.values() for c in r.claims if c.verdict == "does_not_hold"]
    return found + [
        f"{figure}: {name!r} does not hold, and no erratum says so"
        for figure, name in refuted
        if (figure, name) not in covered
    ]


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


INTRODUCTION = """# Errata of the sources

Sentences and equations that do not hold as printed, and what does. Each stands beside the check that shows it: a claim of a
figure, with its numbers, or a test. `tutelage replicate ID` computes a claim again.
"""


def page(results: dict[str, Result]) -> list[str]:
    """All errata, by source."""
    lines = [INTRODUCTION]
    for source, part in tomllib.loads(FILE.read_text()).items():
        rows = [
            [plain(entry["where"]), plain(entry["printed"]), plain(entry["holds"]), _check(entry, results)]
            for entry in part["errata"]
        ]
        lines += [f"## {SOURCES[source]}", "", part["about"], ""]
        lines += [*table(["where", "as printed", "what holds", "check"], rows, "errata"), ""]
    return lines


def _check(entry: dict[str, Any], results: dict[str, Result]) -> str:
    if "test" in entry:
        return f"`{entry['test']}`"
    figure = entry["figure"]
    link = f"[{figure}](gallery/{figure.partition('-')[0] if figure.partition('-')[0] in SOURCES else 'beyond'}.md#{figure})"
    if figure not in results:
        return link
    numbers = [f"{plain(c.name)}: {c.measured:.4g}, expected {plain(expectation(c))}" for c in claims_of(entry, results)[:2]]
    return f"{link}: {'; '.join(numbers)}"


def write_page(app: Sphinx) -> None:
    """Before Sphinx looks for pages, after the gallery."""
    results = app.replica_results  # type: ignore[attr-defined]
    wrong = problems(results)
    if wrong:
        raise ExtensionError("errata.toml: " + "; ".join(wrong))
    write(Path(app.srcdir) / "generated" / "errata.md", page(results))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("builder-inited", write_page, priority=450)
    return {"parallel_read_safe": True}
