"""Write docs/benchmarks.md and its figure: python -m benchmarks.page."""

import json
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.__main__ import cells
from tutelage.plot.style import style

DOCS = Path(__file__).parent.parent / "docs"
DATA = DOCS / "data"
COLUMNS = [
    "work",
    "measured",
    "baseline",
    "ratio",
    "error",
    "target",
    "verdict",
    "note",
]
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"


SECTIONS = {
    "cpu": "On two idle cores",
    "other": "On two idle cores of another machine",
    "gpu": "On a GPU",
}


def main() -> None:
    """Write the page and its figure."""
    found = data()
    draw(found["cpu"]["growth"]).savefig(DOCS / "benchmarks.png", dpi=130)
    (DOCS / "benchmarks.md").write_text(page(found))


def data() -> dict[str, dict]:
    """Return the committed numbers of each section.

    `python -m benchmarks --out docs/data/benchmarks-SECTION.json` writes them.
    """
    return {
        name: json.loads((DATA / f"benchmarks-{name}.json").read_text())
        for name in SECTIONS
    }


def page(found: dict[str, dict]) -> str:
    """The page as Markdown."""
    parts = [
        "# Benchmarks",
        "",
        "`make bench` runs these measurements on your machine "
        "(`python -m benchmarks core finite --quick` runs parts of them) and",
        "writes `output/benchmarks.json`. Each ratio compares with a baseline timed "
        "in the same run: a vectorized NumPy",
        "right-hand side with SciPy's LSODA at 1e-6, a plain SGD loop, or drawing "
        "random inputs. The error is the largest",
        "deviation of e_g from a solution at 1e-12. Missed targets stay in the table "
        "with the reason.",
        "",
    ]
    for name, title in SECTIONS.items():
        parts += [
            f"## {title}",
            "",
            words(found[name]["about"]),
            "",
            HEAD + rows(found[name]),
            "",
        ]
    return "\n".join(
        [
            *parts,
            "## Scaling of the cost",
            "",
            "Time as a function of units, levels, dimensions and problems per batch, "
            "on the idle cores.",
            "",
            "![Seconds per solve by units and levels, per step by dimensions, problems "
            "per second](benchmarks.png)",
            "",
            "The numbers are in `docs/data/`; `python -m benchmarks.page` writes this "
            "page from them.",
            "",
        ]
    )


def rows(data: dict) -> str:
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "/") for cell in cells(row)) + " |"
        for row in data["rows"]
    )


def words(about: dict) -> str:
    """Device, versions, load and clock in one sentence each."""
    clock = {
        "wall": "Times are by the wall clock.",
        "cpu": "The machine was busy: times are processor seconds of all threads, "
        "divided by the cores in rates.",
    }[about["clock"]]
    versions = ", ".join(
        f"{name} {about[name]}"
        for name in ("tutelage", "jax", "diffrax", "numpy", "scipy", "numba")
        if name in about
    )
    device = about["device"]
    if device == "cpu":
        device = about["processor"] or "CPU"
    return (
        f"{device}, {about['cores']} cores, load {about['load']:.1f}; "
        f"Python {about['python']}, {versions}. {clock}"
    )


def draw(growth: list[dict]) -> Figure:
    """One panel for each kind of growth."""
    panels = list(dict.fromkeys(one["panel"] for one in growth))
    with style():
        figure = Figure(figsize=(10, 7), layout="constrained")
        axes = figure.subplots(2, 2).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            for one in (g for g in growth if g["panel"] == panel):
                axis.loglog(one["x"], one["y"], "o-", label=one["label"])
                axis.set(xlabel=one["xlabel"], ylabel=one["ylabel"])
            axis.legend(
                loc="lower center",
                bbox_to_anchor=(0.5, 1.0),
                ncols=3,
                frameon=False,
                fontsize="small",
            )
        for axis in axes[len(panels) :]:
            axis.remove()
    return figure


if __name__ == "__main__":
    main()
