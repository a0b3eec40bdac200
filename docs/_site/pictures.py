"""`make figures`: demo.png, quickstart.png and explorer.png.

demo.png is drawn from the quickstart of the README, quickstart.png by the page of that
name.
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))

from _site.runner import blocks  # noqa: E402

PROGRAM = [sys.executable, "-m", "tutelage.cli"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TITLE = "Two hidden units learn from two: a plateau, then each unit specializes"
PAGE = "?dim=10000&runs=3"


def learning_curve(target: Path) -> None:
    """Draw error and overlaps of the README's quickstart.

    Theory is drawn as lines, the mean of the runs as marks on them.
    """
    names: dict[str, Any] = {}
    exec(blocks((DOCS.parent / "README.md").read_text())[0], names)
    theory = names["theory"]
    runs = names["runs"]
    lr = float(theory.problem.optimizer.lr)
    conditions = f"random initial weights, learning rate {lr:g}"
    with tu.plot.style():
        figure, ((error, overlaps),) = tu.plot.panel_grid(
            1, 2, TITLE, conditions, height=3.1, width=9.6
        )
        _draw_error(error, theory, runs)
        _draw_overlaps(overlaps, theory, runs)
    tu.plot.save_figure(figure, target)


MARKED = slice(4, None, 9)  # times at which the mean of the runs has a mark


def _draw_error(axes: Any, theory: Any, runs: Any) -> None:
    times = theory.times
    mean = runs.error.mean(axis=0)
    label = f"mean of {len(runs.error)} networks, N = {runs.dim}"
    tu.plot.draw_phases([axes], tu.analysis.phases(theory))
    axes.plot(times, theory.error, color=COLORS[0], linewidth=2.0, label="theory")
    axes.plot(times[MARKED], mean[MARKED], **tu.plot.plain_dots(1), label=label)
    axes.set(yscale="log", ylabel=tu.plot.ERROR, xlabel=tu.plot.TIME)
    axes.legend(loc="upper right", frameon=True)


def _draw_overlaps(axes: Any, theory: Any, runs: Any) -> None:
    """Overlaps of both units; thick: with the teacher unit that a unit learns."""
    times = theory.times
    mean = runs.R.mean(axis=0)
    learned = tu.analysis.specialization(theory).permutation
    for k, m in np.ndindex(theory.R.shape[1:]):
        line: dict[str, Any] = {"color": COLORS[k], "linewidth": 1.0}
        dots = tu.plot.plain_dots(k, 2.8)
        if learned[k] == m:
            label = f"unit {k + 1} and the teacher unit it learns"
            line |= {"linewidth": 2.0, "label": label}
            dots = tu.plot.plain_dots(k, 4.2)
        axes.plot(times, theory.R[:, k, m], **line)
        axes.plot(times[MARKED], mean[MARKED, k, m], **dots)
    axes.set(ylabel="student–teacher overlaps $R_{km}$", xlabel=tu.plot.TIME)
    axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.46), frameon=True)


def quickstart(target: Path) -> None:
    """Store the figure that the code of the quickstart draws."""
    with tempfile.TemporaryDirectory() as folder:
        code = "\n".join(blocks((DOCS / "getting-started.md").read_text()))
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
        shutil.copyfile(Path(folder) / target.name, target)


def explorer(target: Path) -> None:
    """Store the page of `tutelage explore` at the 120th of its 200 times."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)))
    server = subprocess.Popen(
        [*PROGRAM, "explore", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox"]
            ).new_page(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
            page.goto(address + PAGE)
            page.wait_for_selector("body[data-state=done]", timeout=300_000)
            page.evaluate("tutelagePage.setTime(120)")
            page.wait_for_timeout(500)
            page.screenshot(path=target)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)


if __name__ == "__main__":
    learning_curve(DOCS / "demo.png")
    quickstart(DOCS / "quickstart.png")
    explorer(DOCS / "explorer.png")
