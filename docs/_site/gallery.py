"""Pages of the gallery, one for each source: every figure of the registry with its claims, its command and its time.

Nothing is pasted. A figure is taken from output/replicate, where `tutelage replicate` leaves the full versions, else from
output/quick, where the test suite leaves the quick ones (the content key of both must be that of the code as it is). What is
in neither is computed, quick, into output/quick: four minutes for all on two cores, nothing after `make test-papers`.
A draft (-D draft=1) leaves it out: its command stands in its place.
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
FULL, QUICK = ROOT / "output" / "replicate", ROOT / "output" / "quick"


def collect(compute: bool) -> dict[str, Result]:
    """The results of all figures by id: full if there is one, else quick."""
    figures = replicas()
    places = {name: _place(figure) for name, figure in figures.items()}
    missing = [name for name, place in places.items() if place is None]
    if missing and compute:
        _compute(missing)
        places |= dict.fromkeys(missing, (QUICK, True))
    return {
        name: replicate(figures[name], place[0], quick=place[1])
        for name, place in places.items()
        if place
    }


def _place(figure: Replica) -> tuple[Path, bool] | None:
    for folder, quick in ((FULL, False), (FULL, True), (QUICK, True)):
        if is_kept(figure, folder, quick):
            return folder, quick
    return None


def _compute(names: list[str]) -> None:
    """With the command that readers use; a claim that fails (exit code 1) is for the tests to report."""
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
    """What gallery.md includes: a picture of each figure that leads to it, and a table for each source."""
    figures = replicas()
    counts = count([claim for result in results.values() for claim in result.claims])
    text = f"{len(figures)} figures, {sum(counts.values())} claims: {counts['pass']} pass, {counts['fail']} fail, and "
    text += (
        f"{counts['does_not_hold']} of the sources do not hold ([errata](errata.md))."
    )
    lines = [
        text,
        "",
        "```{toctree}",
        ":hidden:",
        *(f"generated/gallery/{source}" for source in SOURCES),
        "```",
        "",
    ]
    for source, title in SOURCES.items():
        names = [name for name, figure in figures.items() if figure.source == source]
        rows = [
            [
                f"[{name}](generated/gallery/{source}.md#{name})",
                plain(figures[name].title),
                _score(results.get(name)),
                _time(results.get(name)),
            ]
            for name in names
        ]
        lines += [
            f"## {title}",
            "",
            *_cards([name for name in names if name in pictures]),
            "",
        ]
        lines += [
            *table(["figure", "what it shows", "claims", "time"], rows, "figures"),
            "",
        ]
    return lines


def _cards(names: list[str]) -> list[str]:
    """A grid of thumbnails, each a link to its figure."""
    lines = ["::::{grid} 2 3 4 4", ":gutter: 2", ""] if names else []
    for name in names:
        lines += [
            ":::{grid-item-card}",
            f":img-top: generated/gallery/thumbnails/{name}.png",
            f":link: {name}",
        ]
        lines += [":link-type: ref", ":text-align: center", f"{name}", ":::", ""]
    return [*lines, "::::"] if names else []


def _thumbnail(picture: Path, target: Path) -> None:
    """A small copy of a figure: its upper part, 360 pixels wide."""
    from PIL import Image

    with Image.open(picture) as image:
        width, height = image.size
        part = image.convert("RGB").crop((0, 0, width, min(height, round(0.8 * width))))
        part.thumbnail((360, 288))
        part.save(target, optimize=True)


def _score(result: Result | None) -> str:
    return (
        " ".join(
            f"{n} {SIGNS[verdict]}" for verdict, n in count(result.claims).items() if n
        )
        if result
        else "-"
    )


def _time(result: Result | None) -> str:
    return (
        duration(result.seconds) + (", quick" if result.quick else "")
        if result
        else "-"
    )


def source_page(source: str, results: dict[str, Result]) -> list[str]:
    """All figures of one source."""
    lines = [f"# {SOURCES[source]}", ""]
    for name, figure in replicas().items():
        if figure.source == source:
            lines += [
                f"({name})=",
                f"## {name}: {plain(capital(figure.title))}",
                "",
                f"*{plain(figure.figure)}*",
                "",
            ]
            lines += (
                _section(results[name])
                if name in results
                else ["Not computed in this build.", ""]
            )
            lines += [
                "```text",
                figure.command(name in results and results[name].quick),
                "```",
                "",
            ]
    return lines


def _section(result: Result) -> list[str]:
    rows = [
        [
            _sentence(c),
            plain(expectation(c)),
            f"{c.measured:.5g}",
            f"{SIGNS[c.verdict]} {WORDS[c.verdict]}",
        ]
        for c in result.claims
    ]
    version = (
        "quick version: smaller networks, fewer runs, the same claims"
        if result.quick
        else "the parameters of the source"
    )
    lines = [
        "::::{container} picture",
        f"```{{image}} images/{result.files['png'].name}",
    ]
    lines += [f":alt: {result.replica.title}", "```", "::::", ""]
    lines += [*table(["claim", "expected", "measured", "verdict"], rows, "claims"), ""]
    if "html" in result.files:
        lines += [
            f"[The same with a slider for time](images/{result.files['html'].name}).",
            "",
        ]
    return [*lines, f"Computed in {duration(result.seconds)}; {version}.", ""]


def _sentence(claim: Claim) -> str:
    says = f"the source: “{plain(claim.says)}”" if claim.says else ""
    return "; ".join(filter(None, (plain(claim.name), says, plain(claim.evidence))))


def write_pages(app: Sphinx) -> None:
    """Before Sphinx looks for pages. The results stay with the app, for the errata."""
    folder = Path(app.srcdir) / "generated" / "gallery"
    images, small = folder / "images", folder / "thumbnails"
    for target in (images, small):
        target.mkdir(parents=True, exist_ok=True)
    results = collect(compute=not app.config.draft)
    for name, result in results.items():
        if "png" in result.files:
            _thumbnail(result.files["png"], small / f"{name}.png")
        for ending in ("png", "html"):
            if ending in result.files:
                shutil.copyfile(
                    result.files[ending], images / result.files[ending].name
                )
    pictures = {name for name, result in results.items() if "png" in result.files}
    write(folder / "index.inc", index_lines(results, pictures))
    for source in SOURCES:
        write(folder / f"{source}.md", source_page(source, results))
    app.replica_results = results  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("builder-inited", write_pages, priority=400)
    return {"parallel_read_safe": False}
