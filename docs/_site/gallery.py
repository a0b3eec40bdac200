"""Pages of the gallery, one for each source: figures with claims, command and time.

Nothing is pasted. A figure is taken from output/replicate, where `tutelage replicate`
leaves the full versions, else from output/quick, where the test suite leaves the quick
ones (the content key of both must be that of the code as it is). What is in neither is
computed, quick, into output/quick: four minutes for all on two cores, nothing after
`make test-papers`. A draft (-D draft=1) leaves it out: its command stands in its place.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from _site.markdown import plain, table, write
from tutelage.plot.labels import capital
from tutelage_papers import Claim, Replica, Result, replicas, replicate
from tutelage_papers.gallery import SIGNS, WORDS, duration, expectation
from tutelage_papers.registry import SOURCES
from tutelage_papers.run import count, is_kept

ROOT = Path(__file__).resolve().parents[2]
FULL = ROOT / "output" / "replicate"
QUICK = ROOT / "output" / "quick"


def collect(compute: bool) -> dict[str, Result]:
    """Return the results of all figures by id: full if there is one, else quick."""
    figures = replicas()
    places = {name: _place(figure) for name, figure in figures.items()}
    missing = [name for name, place in places.items() if place is None]
    if missing and compute:
        _compute(missing)
        for name in missing:
            places[name] = (QUICK, True)
    results = {}
    for name, place in places.items():
        if place is not None:
            folder, quick = place
            results[name] = replicate(figures[name], folder, quick=quick)
    return results


def _place(figure: Replica) -> tuple[Path, bool] | None:
    """The folder of a kept result, and whether it is quick."""
    for folder, quick in ((FULL, False), (FULL, True), (QUICK, True)):
        if is_kept(figure, folder, quick):
            return folder, quick
    return None


def _compute(names: list[str]) -> None:
    """Compute figures with the command that readers use.

    A claim that fails (exit code 1) is for the tests to report.
    """
    command = [
        str(Path(sys.executable).with_name("tutelage")),
        "replicate",
        *names,
        "--quick",
        "--workers",
        "2",
    ]
    done = subprocess.run(
        [*command, "--out", str(QUICK)], capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise ExtensionError(
            f"the gallery could not be computed: {done.stderr[-2000:]}"
        )


def index_lines(results: dict[str, Result], pictures: set[str]) -> list[str]:
    """Return the lines that gallery.md includes.

    They are a picture of each figure that leads to it, and a table for each source.
    """
    figures = replicas()
    counts = count([claim for result in results.values() for claim in result.claims])
    lines = [
        f"{len(figures)} figures, {sum(counts.values())} claims: "
        f"{counts['pass']} pass, {counts['fail']} fail, and "
        f"{counts['does_not_hold']} of the sources do not hold ([errata](errata.md)).",
        "",
        "```{toctree}",
        ":hidden:",
    ]
    lines += [f"generated/gallery/{source}" for source in SOURCES]
    lines += ["```", ""]
    for source, title in SOURCES.items():
        names = [name for name, figure in figures.items() if figure.source == source]
        rows = []
        for name in names:
            result = results.get(name)
            link = f"[{name}](generated/gallery/{source}.md#{name})"
            rows.append(
                [link, plain(figures[name].title), _score(result), _time(result)]
            )
        shown = [name for name in names if name in pictures]
        columns = ["figure", "what it shows", "claims", "time"]
        lines += [f"## {title}", "", *_cards(shown), ""]
        lines += [*table(columns, rows, "figures"), ""]
    return lines


def _cards(names: list[str]) -> list[str]:
    """A grid of thumbnails, each a link to its figure."""
    if not names:
        return []
    lines = ["::::{grid} 2 3 4 4", ":gutter: 2", ""]
    for name in names:
        lines += [
            ":::{grid-item-card}",
            f":img-top: generated/gallery/thumbnails/{name}.png",
            f":link: {name}",
            ":link-type: ref",
            ":text-align: center",
            f"{name}",
            ":::",
            "",
        ]
    return [*lines, "::::"]


def _thumbnail(picture: Path, target: Path) -> None:
    """A small copy of a figure: its upper part, 360 pixels wide."""
    from PIL import Image

    with Image.open(picture) as image:
        width, height = image.size
        part = image.convert("RGB").crop((0, 0, width, min(height, round(0.8 * width))))
        part.thumbnail((360, 288))
        part.save(target, optimize=True)


def _score(result: Result | None) -> str:
    """The number of claims of each verdict."""
    if result is None:
        return "-"
    counts = count(result.claims)
    parts = [f"{n} {SIGNS[verdict]}" for verdict, n in counts.items() if n]
    return " ".join(parts)


def _time(result: Result | None) -> str:
    if result is None:
        return "-"
    time = duration(result.seconds)
    return f"{time}, quick" if result.quick else time


def source_page(source: str, results: dict[str, Result]) -> list[str]:
    """Return the page of all figures of one source."""
    lines = [f"# {SOURCES[source]}", ""]
    for name, figure in replicas().items():
        if figure.source != source:
            continue
        lines += [
            f"({name})=",
            f"## {name}: {plain(capital(figure.title))}",
            "",
            f"*{plain(figure.figure)}*",
            "",
        ]
        quick = False
        if name in results:
            quick = results[name].quick
            lines += _section(results[name])
        else:
            lines += ["Not computed in this build.", ""]
        lines += ["```text", figure.command(quick), "```", ""]
    return lines


def _section(result: Result) -> list[str]:
    """The picture of a figure and the table of its claims."""
    rows = []
    for claim in result.claims:
        expected = plain(expectation(claim))
        verdict = f"{SIGNS[claim.verdict]} {WORDS[claim.verdict]}"
        rows.append([_sentence(claim), expected, f"{claim.measured:.5g}", verdict])
    version = "the parameters of the source"
    if result.quick:
        version = "quick version: smaller networks, fewer runs, the same claims"
    lines = [
        "::::{container} picture",
        f"```{{image}} images/{result.files['png'].name}",
        f":alt: {result.replica.title}",
        "```",
        "::::",
        "",
    ]
    columns = ["claim", "expected", "measured", "verdict"]
    lines += [*table(columns, rows, "claims"), ""]
    if "html" in result.files:
        page = result.files["html"].name
        lines += [f"[The same with a slider for time](images/{page}).", ""]
    return [*lines, f"Computed in {duration(result.seconds)}; {version}.", ""]


def _sentence(claim: Claim) -> str:
    """A claim with the sentence of its source and its evidence."""
    parts = [plain(claim.name)]
    if claim.says:
        parts.append(f"the source: “{plain(claim.says)}”")
    if claim.evidence:
        parts.append(plain(claim.evidence))
    return "; ".join(parts)


def write_pages(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them.

    The results stay with the app, for the errata.
    """
    folder = Path(app.srcdir) / "generated" / "gallery"
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    thumbnails = folder / "thumbnails"
    thumbnails.mkdir(parents=True, exist_ok=True)
    results = collect(compute=not app.config.draft)
    for name, result in results.items():
        if "png" in result.files:
            _thumbnail(result.files["png"], thumbnails / f"{name}.png")
        for ending in ("png", "html"):
            if ending in result.files:
                path = result.files[ending]
                shutil.copyfile(path, images / path.name)
    pictures = {name for name, result in results.items() if "png" in result.files}
    write(folder / "index.inc", index_lines(results, pictures))
    for source in SOURCES:
        write(folder / f"{source}.md", source_page(source, results))
    app.replica_results = results  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension; Sphinx calls it."""
    app.connect("builder-inited", write_pages, priority=400)
    return {"parallel_read_safe": False}
