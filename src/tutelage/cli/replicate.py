"""`tutelage replicate`: published figures, computed again and judged."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tutelage._errors import InputError
from tutelage.cli.compile_cache import keep_compiled_programs
from tutelage.cli.flags import Switch, Whole
from tutelage.cli.terminal import leave_on_interrupt, notes, working

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

    Without ids, prints the list of figures and their results so far. Results are kept in the folder and reused as long as
    parameters and code are the same: a second run is instant, an interrupted run continues. Exit code 1: a claim fails.

    Parameters
    ----------
    ids: str
        Figures, such as primer-1.
    all_: bool
        All figures, and one page (gallery.html) with all of them.
    quick: bool
        Smaller networks and fewer runs, the same claims.
    out: Path
        Folder of the figures (PNG), the data (NetCDF) and the page; created if it does not exist.
    format_: str
        Save every figure as pdf or svg, too.
    workers: int
        Number of processes for several figures (default: the cores, up to four); the numbers do not depend on it.
    json: bool
        Print JSON on standard output, and nothing else.
    """
    from tutelage.papers.registry import find, replicas

    if all_ and ids:
        raise InputError(f"--all and {ids[0]!r} are given; name figures, or ask for all of them.")
    if workers is not None and workers < 1:
        raise InputError(f"--workers is {workers}; it must be a whole number, 1 or more.")
    if not all_ and not ids:
        return _list(out, json)
    chosen = list(replicas().values()) if all_ else find(ids)
    keep_compiled_programs()
    from tutelage.cli.report import check_folder

    check_folder(out)
    results = _results(chosen, out, quick, _formats(svg=all_, also=format_), workers, talks=not json)
    page = _write_gallery(results, out, quick) if all_ else None
    _finish(results, page, json)
    return 1 if any(result.failed for result in results) else 0


def _formats(svg: bool, also: str | None) -> tuple[str, ...]:
    """PNG always; SVG for the gallery; what was asked for."""
    wanted = {"png": True, "svg": svg or also == "svg", "pdf": also == "pdf"}
    return tuple(ending for ending, asked in wanted.items() if asked)


def _list(folder: Path, json: bool) -> int:
    """Every figure, with what the folder holds of it."""
    from tutelage.cli import report
    from tutelage.papers.registry import SOURCES, replicas
    from tutelage.papers.run import found

    rows = [(replica, [found(replica, folder, quick) for quick in (True, False)]) for replica in replicas().values()]
    if json:
        print(report.dumps({"figures": [_listed(replica, states) for replica, states in rows]}))
        return 0
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), pad_edge=False, header_style="bold")
    for name in ("figure", "", "quick", "full"):
        table.add_column(name, no_wrap=name != "")
    source = None
    for replica, states in rows:
        if replica.source != source:
            source = replica.source
            table.add_row("", f"[{SOURCES[source]}]", "", "")
        table.add_row(replica.id, replica.title, *(_state(state) for state in states))
    report.plain_console().print(table)
    return 0


def _listed(replica: Any, states: list[Any]) -> dict[str, Any]:
    from tutelage.papers.run import count

    known = {
        mode: {"status": status or "not computed", "seconds": seconds} | count(claims)
        for mode, (status, seconds, claims) in zip(("quick", "full"), states, strict=True)
    }
    return {"id": replica.id, "source": replica.source, "figure": replica.figure, "title": replica.title} | known


def _state(state: Any) -> str:
    from tutelage.papers.gallery import duration

    status, seconds, claims = state
    if status == "":
        return "-"
    return f"stale, {duration(seconds)}" if status == "stale" else f"{_score(claims)}, {duration(seconds)}"


def _score(claims: Any) -> str:
    from tutelage.papers.run import count

    return ", ".join(f"{number} {VERDICT_WORDS[verdict]}" for verdict, number in count(claims).items() if number)


def _results(
    chosen: list[Any], folder: Path, quick: bool, formats: tuple[str, ...], workers: int | None, talks: bool
) -> list[Any]:
    """Compute the figures; each is reported as soon as it is there."""
    from tutelage.cli.compile_cache import compile_quickly

    if quick:
        compile_quickly()
    from tutelage.papers.gallery import duration
    from tutelage.papers.run import run_all

    results: list[Any] = []
    ways = {"around": _computing, "waiting": working, "inside": _with_notes}
    for result in run_all(chosen, folder, quick=quick, formats=formats, workers=workers, **ways):
        results.append(result)
        how = "computed" if result.computed else "found"
        line = f"{result.replica.id}: {_score(result.claims)} ({how}, {duration(result.seconds)})"
        print(f"[{len(results)}/{len(chosen)}] {line}", file=sys.stderr, flush=True)
        if talks:
            _print_claims(result)
    return results


@contextmanager
def _computing(name: str) -> Iterator[None]:
    with leave_on_interrupt(), working(name), notes():
        yield


@contextmanager
def _with_notes(name: str) -> Iterator[None]:
    with notes():
        yield


def _print_claims(result: Any) -> None:
    from rich.table import Table

    from tutelage.cli import report
    from tutelage.papers.gallery import expectation

    console = report.plain_console()
    console.print(f"{result.replica.id}: {result.replica.title}", style="bold")
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    table.add_column("claim")
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for claim in result.claims:
        table.add_row(claim.name, expectation(claim), f"{claim.measured:.5g}", VERDICT_WORDS[claim.verdict])
        if claim.evidence:
            table.add_row(f"({claim.evidence})", style="dim")
    console.print(table)
    report.print_field("wrote", [str(path) for path in result.files.values()])
    console.print()


def _write_gallery(results: list[Any], folder: Path, quick: bool) -> Path:
    from tutelage.papers.gallery import gallery
    from tutelage.plot.html import write_text

    return write_text(folder / ("gallery-quick.html" if quick else "gallery.html"), gallery(results))


def _finish(results: list[Any], page: Path | None, json: bool) -> None:
    from tutelage.cli import report

    if json:
        print(report.dumps({"figures": [result.to_dict() for result in results]}))
    elif page is not None:
        claims = [claim for result in results for claim in result.claims]
        report.print_field("total", [f"{len(results)} figures: {_score(claims)}"])
        report.print_field("gallery", [str(page)])
