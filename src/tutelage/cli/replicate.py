"""`tutelage replicate`: published figures, computed again and judged."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tutelage.cli import report
from tutelage.cli.process import (
    compile_quickly,
    keep_compiled_programs,
    leave_on_interrupt,
    notes,
    working,
)
from tutelage.cli.request import Switch, Whole
from tutelage.errors import InputError

VERDICT_WORDS = {"pass": "pass", "fail": "FAIL", "does_not_hold": "does not hold"}


def replicate(
    *ids: str,
    all_: Annotated[Switch, Parameter(name="--all")] = False,
    quick: Switch = False,
    out: Path = Path("output/replicate"),
    format_: Annotated[Literal["pdf", "svg"] | None, Parameter(name="--format")] = None,
    workers: Whole = None,
    json: Switch = False,
) -> int:
    """Recompute published figures and check every claim by its number.

    Without ids, prints the list of figures and their results so far. Results are kept
    in the folder and reused as long as parameters and code are the same: a second run
    is instant, an interrupted run continues. Exit code 1: a claim fails.

    Parameters
    ----------
    ids: str
        Figures, such as primer-1.
    all_: bool
        All figures, and one page (gallery.html) with all of them.
    quick: bool
        Smaller networks and fewer runs, the same claims.
    out: Path
        Folder of the figures (PNG), the data (NetCDF) and the page; created if it does
        not exist.
    format_: str
        Save every figure as pdf or svg, too.
    workers: int
        Number of processes for several figures (default: the cores, up to four); the
        numbers do not depend on it.
    json: bool
        Print JSON on standard output, and nothing else.
    """
    from tutelage.papers.registry import find, replicas

    if all_ and ids:
        raise InputError(
            f"--all and {ids[0]!r} are given; name figures, or ask for all of them."
        )
    if workers is not None and workers < 1:
        raise InputError(
            f"--workers is {workers}; it must be a whole number, 1 or more."
        )
    if not all_ and not ids:
        _print_list(out, json)
        return 0
    if all_:
        chosen = list(replicas().values())
    else:
        chosen = find(ids)
    keep_compiled_programs()
    if quick:
        compile_quickly()
    from tutelage.papers.gallery import duration, gallery
    from tutelage.papers.run import count, run_all
    from tutelage.plot.style import write_text

    report.check_folder(out)
    formats = ["png"]
    if all_:
        formats.append("svg")  # the gallery holds SVG
    if format_ is not None and format_ not in formats:
        formats.append(format_)
    results = []
    for result in run_all(
        chosen,
        out,
        quick=quick,
        formats=tuple(formats),
        workers=workers,
        around=_computing,
        waiting=working,
        inside=_with_notes,
    ):
        results.append(result)
        origin = "computed" if result.computed else "found"
        print(
            f"[{len(results)}/{len(chosen)}] {result.replica.id}: "
            f"{_score(count(result.claims))} ({origin}, {duration(result.seconds)})",
            file=sys.stderr,
            flush=True,
        )
        if not json:
            _print_result(result)
    page = None
    if all_:
        name = "gallery-quick.html" if quick else "gallery.html"
        page = write_text(out / name, gallery(results))
    if json:
        print(report.dumps({"figures": [result.to_dict() for result in results]}))
    elif page is not None:
        claims = [claim for result in results for claim in result.claims]
        score = _score(count(claims))
        report.print_field("total", [f"{len(results)} figures: {score}"])
        report.print_field("gallery", [str(page)])
    return 1 if any(result.failed for result in results) else 0


def _print_result(result: Any) -> None:
    """Print the claims of a figure and the names of its files.

    result: a `Result` of `papers.run`, which is imported inside functions only.
    """
    from rich.table import Table

    from tutelage.papers.gallery import expectation

    table = Table("claim", box=None, padding=(0, 2), pad_edge=False)
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("verdict", justify="left", no_wrap=True)
    for claim in result.claims:
        table.add_row(
            claim.name,
            expectation(claim),
            f"{claim.measured:.5g}",
            VERDICT_WORDS[claim.verdict],
        )
        if claim.evidence:
            table.add_row(f"({claim.evidence})", style="dim")
    console = report.plain_console()
    console.print(f"{result.replica.id}: {result.replica.title}", style="bold")
    console.print(table)
    report.print_field("wrote", [str(path) for path in result.files.values()])
    console.print()


def _print_list(folder: Path, json: bool) -> None:
    """Print every figure, with the results of it that the folder holds."""
    from rich.table import Table

    from tutelage.papers.gallery import duration
    from tutelage.papers.registry import SOURCES, replicas
    from tutelage.papers.run import count, found

    table = Table(box=None, padding=(0, 2), pad_edge=False, header_style="bold")
    for name in ("figure", "", "quick", "full"):
        table.add_column(name, no_wrap=name != "")
    figures = []
    source = None
    for replica in replicas().values():
        if replica.source != source:
            source = replica.source
            table.add_row("", f"[{SOURCES[source]}]", "", "")
        figure = {
            "id": replica.id,
            "source": source,
            "figure": replica.figure,
            "title": replica.title,
        }
        cells = []
        for mode in ("quick", "full"):
            status, seconds, claims = found(replica, folder, mode == "quick")
            counts = count(claims)
            figure[mode] = {"status": status or "not computed", "seconds": seconds}
            figure[mode] |= counts
            if seconds is None:
                cells.append("-")
            else:
                cells.append(f"{_score(counts) or status}, {duration(seconds)}")
        table.add_row(replica.id, replica.title, *cells)
        figures.append(figure)
    if json:
        print(report.dumps({"figures": figures}))
    else:
        report.plain_console().print(table)


def _score(counts: dict[str, int]) -> str:
    words = []
    for verdict, number in counts.items():
        if number:
            words.append(f"{number} {VERDICT_WORDS[verdict]}")
    return ", ".join(words)


@contextmanager
def _computing(name: str) -> Iterator[None]:
    with leave_on_interrupt(), working(name), notes():
        yield


def _with_notes(_: str) -> AbstractContextManager[None]:
    return notes()
