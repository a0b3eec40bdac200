"""The page of errata, from errata.toml: entries with the numbers of their claims.

An entry may name a test instead. An entry whose claim or test does not exist ends the
build. A refuted claim of the registry without an entry gets a line of its own.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from _site.markdown import plain, table, write
from tutelage_papers import Claim, Result, replicas
from tutelage_papers.gallery import expectation
from tutelage_papers.registry import SOURCES

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "errata.toml"


def entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (source, entry), in the order of the file."""
    for source, part in tomllib.loads(FILE.read_text()).items():
        for entry in part["errata"]:
            yield source, entry


def names(entry: dict[str, Any]) -> list[str]:
    """Return the parts of names of claims that an entry gives."""
    parts = entry.get("claim", [])
    if isinstance(parts, str):
        return [parts]
    return parts


def claims_of(entry: dict[str, Any], results: dict[str, Result]) -> list[Claim]:
    """Return the claims that an entry points to."""
    parts = names(entry)
    claims = []
    for claim in results[entry["figure"]].claims:
        if any(part in claim.name for part in parts):
            claims.append(claim)
    return claims


def problems(results: dict[str, Result]) -> list[str]:
    """Return entries that point nowhere. Figures without a result are left alone."""
    found = []
    for source, entry in entries():
        words = f"{source}, {entry['where']}"
        if "test" in entry:
            path, _, name = entry["test"].partition("::")
            if not name or f"def {name}(" not in _text(ROOT / path):
                found.append(f"{words}: there is no test {entry['test']}")
        elif entry["figure"] in results and not claims_of(entry, results):
            found.append(f"{words}: {entry['figure']} has no claim {entry['claim']!r}")
    return found


def without_entry(results: dict[str, Result]) -> list[tuple[Result, Claim]]:
    """Return refuted claims that no entry covers."""
    covered = set()
    for _, entry in entries():
        figure = entry.get("figure")
        if figure in results:
            for claim in claims_of(entry, results):
                covered.add((figure, claim.name))
    missing = []
    for result in results.values():
        for claim in result.claims:
            known = (result.replica.id, claim.name) in covered
            if claim.verdict == "does_not_hold" and not known:
                missing.append((result, claim))
    return missing


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def page(results: dict[str, Result]) -> list[str]:
    """Return all errata, by source."""
    lines: list[str] = []
    others = without_entry(results)
    columns = ["where", "as printed", "what holds", "check"]
    for source, part in tomllib.loads(FILE.read_text()).items():
        rows = []
        for entry in part["errata"]:
            words = [plain(entry[name]) for name in ("where", "printed", "holds")]
            rows.append([*words, _check(entry, results)])
        for result, claim in others:
            if result.replica.source == source:
                rows.append(_own_line(result, claim))
        lines += [f"## {SOURCES[source]}", "", part["about"], ""]
        lines += [*table(columns, rows, "errata"), ""]
    return lines


def _own_line(result: Result, claim: Claim) -> list[str]:
    """A row in the words of the claim."""
    words = [result.replica.figure, claim.says or claim.name, claim.evidence]
    check = f"{_link(result.replica.id)}: {_numbers(claim)}"
    return [*(plain(text) for text in words), check]


def _check(entry: dict[str, Any], results: dict[str, Result]) -> str:
    """The test of an entry, or its figure with the numbers of two claims."""
    if "test" in entry:
        return f"`{entry['test']}`"
    link = _link(entry["figure"])
    if entry["figure"] not in results:
        return link
    claims = claims_of(entry, results)[:2]
    numbers = "; ".join(_numbers(claim) for claim in claims)
    return f"{link}: {numbers}" if numbers else link


def _link(figure: str) -> str:
    return f"[{figure}](generated/gallery/{replicas()[figure].source}.md#{figure})"


def _numbers(claim: Claim) -> str:
    expected = plain(expectation(claim))
    return f"{plain(claim.name)}: {claim.measured:.4g}, expected {expected}"


def write_page(app: Sphinx) -> None:
    """Write the page before Sphinx looks for pages, after the gallery."""
    results = app.replica_results  # type: ignore[attr-defined]
    wrong = problems(results)
    if wrong:
        raise ExtensionError("errata.toml: " + "; ".join(wrong))
    write(Path(app.srcdir) / "generated" / "errata.inc", page(results))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension; Sphinx calls it."""
    app.connect("builder-inited", write_page, priority=450)
    return {"parallel_read_safe": True}
