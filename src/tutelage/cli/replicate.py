"""`tutelage replicate`: published figures, computed again and judged.

The figures are those of the package tutelage_papers, which the entry point
`tutelage.papers` leads to. Several figures are computed by several processes, which leave
their results in the folder, where they are found like those of any earlier run; numbers do
not depend on how many processes there are. Compiling programs uses one core only, so that
several processes are faster.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from cyclopts import Parameter

from tutelage._namespace import INSTALL_PAPERS
from tutelage._pool import WorkerLost, cores, results
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

GROUP = "tutelage.papers"  # of the entry point
MOST_WORKERS = 4  # a process holds a whole JAX
VERDICT_WORDS = {"pass": "pass", "fail": "FAIL", "does_not_hold": "does not hold"}


Around = Callable[[str], AbstractContextManager[Any]]


class Papers(Protocol):
    """The parts of the package of figures that the command uses.

    They are those of tutelage_papers.command.

    A figure has id, title, figure and source, a key of `SOURCES`; a result has replica,
    claims, seconds, files by ending, computed, failed and to_dict().
    """

    SOURCES: Mapping[str, str]
    replicas: Callable[[], dict[str, Any]]
    find: Callable[[Sequence[str]], list[Any]]
    replicate: Callable[..., Any]  # (figure, folder, *, quick, formats, around): result
    is_kept: Callable[[Any, Path, bool], bool]  # (figure, folder, quick)
    found: Callable[[Any, Path, bool], tuple[str, float | None, Sequence[Any]]]
    count: Callable[[Sequence[Any]], dict[str, int]]  # of claims, by verdict
    expectation: Callable[[Any], str]  # of a claim, in words
    duration: Callable[[float], str]
    gallery: Callable[[Sequence[Any]], str]  # of results, as one page


def load_papers() -> Papers:
    """Return the package of figures; without it, say what to install."""
    for point in entry_points(group=GROUP):
        return point.load()
    raise InputError(INSTALL_PAPERS)


def replicate(
    *ids: str,
    all_: Annotated[Switch, Parameter(name="--all")] = False,
    list_: Annotated[Switch, Parameter(name="--list")] = False,
    quick: Switch = False,
    out: Path = Path("output/replicate"),
    format_: Annotated[Literal["pdf", "svg"] | None, Parameter(name="--format")] = None,
    workers: Whole = None,
    json: Switch = False,
) -> int:
    """Recompute published figures and check every claim by its number.

    The figures are in the package tutelage_papers (in a clone: pip install ./papers).
    Without ids, prints the list of figures and their results so far. Results are kept
    in the folder and reused as long as parameters and code are the same: a second run
    is instant, an interrupted run continues. Exit code 1: a claim fails.

    Parameters
    ----------
    ids: str
        Figures, such as primer-1.
    all_: bool
        All figures, and one page (gallery.html) with all of them.
    list_: bool
        Print the list of figures and their results so far, as without ids.
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
    papers = load_papers()
    if all_ and ids:
        raise InputError(
            f"--all and {ids[0]!r} are given; name figures, or ask for all of them."
        )
    if list_ and (all_ or ids):
        asked = repr(ids[0]) if ids else "--all"
        raise InputError(
            f"--list and {asked} are given; --list computes nothing. Leave one out."
        )
    if workers is not None and workers < 1:
        raise InputError(
            f"--workers is {workers}; it must be a whole number, 1 or more."
        )
    if not all_ and not ids:
        _print_list(papers, out, json)
        return 0
    if all_:
        chosen = list(papers.replicas().values())
    else:
        chosen = papers.find(ids)
    keep_compiled_programs()
    if quick:
        compile_quickly()
    from tutelage.plot.style import write_text

    report.check_folder(out)
    formats = ["png"]
    if all_:
        formats.append("svg")  # the gallery holds SVG
    if format_ is not None and format_ not in formats:
        formats.append(format_)
    finished = []
    for result in run_all(
        papers,
        chosen,
        out,
        quick=quick,
        formats=tuple(formats),
        workers=workers,
        around=_computing,
        waiting=working,
        inside=_with_notes,
    ):
        finished.append(result)
        origin = "computed" if result.computed else "found"
        print(
            f"[{len(finished)}/{len(chosen)}] {result.replica.id}: "
            f"{_score(papers.count(result.claims))} "
            f"({origin}, {papers.duration(result.seconds)})",
            file=sys.stderr,
            flush=True,
        )
        if not json:
            _print_result(papers, result)
    page = None
    if all_:
        name = "gallery-quick.html" if quick else "gallery.html"
        page = write_text(out / name, papers.gallery(finished))
    if json:
        print(report.dumps({"figures": [result.to_dict() for result in finished]}))
    elif page is not None:
        claims = [claim for result in finished for claim in result.claims]
        score = _score(papers.count(claims))
        report.print_field("total", [f"{len(finished)} figures: {score}"])
        report.print_field("gallery", [str(page)])
    return 1 if any(result.failed for result in finished) else 0


def run_all(
    papers: Papers,
    figures: Sequence[Any],
    folder: Path,
    *,
    quick: bool = False,
    formats: tuple[str, ...] = ("png",),
    workers: int | None = None,
    around: Around = nullcontext,
    waiting: Around = nullcontext,
    inside: Around = nullcontext,
) -> Iterator[Any]:
    """Yield the results in the order of the figures; each is kept in the folder.

    workers: processes (default: the cores, up to four; 1: this process). Contexts, called
    with the id: around, in which this process computes; waiting, in which it waits for
    another; inside, in which another computes (it must be picklable).
    """
    missing = deque(
        figure for figure in figures if not papers.is_kept(figure, folder, quick)
    )
    most = min(cores(), MOST_WORKERS) if workers is None else workers
    count = min(len(missing), most)
    compute = partial(papers.replicate, folder=folder, quick=quick, formats=formats)
    if count <= 1:
        for figure in figures:
            yield compute(figure, around=around)
        return
    missing_ids = {figure.id for figure in missing}
    ended = {}
    with closing(results(partial(compute, around=inside), missing, count)) as found:
        for figure in figures:
            if figure.id in missing_ids:
                with waiting(figure.id):
                    while figure.id not in ended:
                        done, result = next(found)
                        ended[done.id] = result
                _require_computed(figure, ended[figure.id])
            yield replace(compute(figure), computed=figure.id in missing_ids)


def _require_computed(figure: Any, result: object) -> None:
    """Raise the exception of another process."""
    if isinstance(result, WorkerLost):
        raise InputError(
            f"the process of the figure {figure.id} {result} (out of memory?); "
            "compute it with one worker."
        )
    if isinstance(result, BaseException):
        raise result


def _print_result(papers: Papers, result: Any) -> None:
    """Print the claims of a figure and the names of its files."""
    from rich.table import Table

    table = Table("claim", box=None, padding=(0, 2), pad_edge=False)
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("verdict", justify="left", no_wrap=True)
    for claim in result.claims:
        table.add_row(
            claim.name,
            papers.expectation(claim),
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


def _print_list(papers: Papers, folder: Path, json: bool) -> None:
    """Print every figure, with the results of it that the folder holds."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), pad_edge=False, header_style="bold")
    for name in ("figure", "", "quick", "full"):
        table.add_column(name, no_wrap=name != "")
    figures = []
    source = None
    for replica in papers.replicas().values():
        if replica.source != source:
            source = replica.source
            table.add_row("", f"[{papers.SOURCES[source]}]", "", "")
        figure = {
            "id": replica.id,
            "source": source,
            "figure": replica.figure,
            "title": replica.title,
        }
        cells = []
        for mode in ("quick", "full"):
            status, seconds, claims = papers.found(replica, folder, mode == "quick")
            counts = papers.count(claims)
            figure[mode] = {"status": status or "not computed", "seconds": seconds}
            figure[mode] |= counts
            if seconds is None:
                cells.append("-")
            else:
                cells.append(f"{_score(counts) or status}, {papers.duration(seconds)}")
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
