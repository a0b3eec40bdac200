"""What the page of errata includes, from errata.toml: each entry with the numbers of its claim, or the test that shows it.

An entry whose claim or test does not exist ends the build. A refuted claim of the registry without an entry gets a line of
its own.
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
    return [
        claim for claim in found if any(part in claim.name for part in names(entry))
    ]


def problems(results: dict[str, Result]) -> list[str]:
    """Entries that point nowhere. Figures without a result are left alone."""
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
    """Refuted claims that no entry covers."""
    known = [entry for _, entry in entries() if entry.get("figure") in results]
    covered = {
        (entry["figure"], claim.name)
        for entry in known
        for claim in claims_of(entry, results)
    }
    refuted = [
        (r, claim)
        for r in results.values()
        for claim in r.claims
        if claim.verdict == "does_not_hold"
    ]
    return [
        (r, claim) for r, claim in refuted if (r.replica.id, claim.name) not in covered
    ]


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def page(results: dict[str, Result]) -> list[str]:
    """All errata, by source."""
    lines: list[str] = []
    others = without_entry(results)
    for source, part in tomllib.loads(FILE.read_text()).items():
        rows = [
            [
                plain(entry["where"]),
                plain(entry["printed"]),
                plain(entry["holds"]),
                _check(entry, results),
            ]
            for entry in part["errata"]
        ]
        rows += [
            _own_line(r, claim) for r, claim in others if r.replica.source == source
        ]
        lines += [f"## {SOURCES[source]}", "", part["about"], ""]
        lines += [
            *table(["where", "as printed", "what holds", "check"], rows, "errata"),
            "",
        ]
    return lines


def _own_line(result: Result, claim: Claim) -> list[str]:
    """In the words of the claim."""
    words = [result.replica.figure, claim.says or claim.name, claim.evidence]
    return [*map(plain, words), f"{_link(result.replica.id)}: {_numbers(claim)}"]


def _check(entry: dict[str, Any], results: dict[str, Result]) -> str:
    if "test" in entry:
        return f"`{entry['test']}`"
    shown = claims_of(entry, results)[:2] if entry["figure"] in results else []
    return (
        f"{_link(entry['figure'])}{': ' * bool(shown)}{'; '.join(map(_numbers, shown))}"
    )


def _link(figure: str) -> str:
    return f"[{figure}](generated/gallery/{replicas()[figure].source}.md#{figure})"


def _numbers(claim: Claim) -> str:
    return f"{plain(claim.name)}: {claim.measured:.4g}, expected {plain(expectation(claim))}"


def write_page(app: Sphinx) -> None:
    """Before Sphinx looks for pages, after the gallery."""
    results = app.replica_results  # type: ignore[attr-defined]
    wrong = problems(results)
    if wrong:
        raise ExtensionError("errata.toml: " + "; ".join(wrong))
    write(Path(app.srcdir) / "generated" / "errata.inc", page(results))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("builder-inited", write_page, priority=450)
    return {"parallel_read_safe": True}
