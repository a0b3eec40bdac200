"""`make figures`: demo.png (from the quickstart of the README), quickstart.png (the page of that name) and explorer.png."""

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
    """Error and overlaps of the README's quickstart: theory as lines, the mean of the runs as marks on them."""
    names: dict[str, Any] = {}
    exec(blocks((DOCS.parent / "README.md").read_text())[0], names)
    theory, runs = names["theory"], names["runs"]
    own = tu.analysis.specialization(theory).permutation
    times, marked = theory.times, slice(4, None, 9)
    conditions = (
        f"random initial weights, learning rate {float(theory.problem.optimizer.lr):g}"
    )
    what = f"mean of {len(runs.error)} networks, N = {runs.dim}"
    with tu.plot.style():
        figure, ((left, right),) = tu.plot.panel_grid(
            1, 2, TITLE, conditions, height=3.1, width=9.6
        )
        tu.plot.draw_phases([left], tu.analysis.phases(theory))
        left.plot(times, theory.error, color=COLORS[0], linewidth=2.0, label="theory")
        left.plot(
            times[marked],
            runs.error.mean(axis=0)[marked],
            **tu.plot.plain_dots(1),
            label=what,
        )
        left.set(yscale="log", ylabel=tu.plot.ERROR, xlabel=tu.plot.TIME)
        left.legend(loc="upper right", frameon=True)
        for k, m in np.ndindex(theory.R.shape[1:]):
            mine = own[k] == m
            name = f"unit {k + 1} and the teacher unit it learns" if mine else None
            right.plot(
                times,
                theory.R[:, k, m],
                color=COLORS[k],
                linewidth=2.0 if mine else 1.0,
                label=name,
            )
            right.plot(
                times[marked],
                runs.R.mean(axis=0)[marked, k, m],
                **tu.plot.plain_dots(k, 4.2 if mine else 2.8),
            )
        right.set(ylabel="student–teacher overlaps $R_{km}$", xlabel=tu.plot.TIME)
        right.legend(loc="center right", bbox_to_anchor=(1.0, 0.46), frameon=True)
    tu.plot.save_figure(figure, target)


def quickstart(target: Path) -> None:
    """What the code of the quickstart draws."""
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
    """The page of `tutelage explore` at the 120th of its 200 times, when all is drawn."""
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
