"""Time from the move of a slider to the redrawn curve, in a real browser.

Each shape has been compiled before.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import record

MOVES = 60
MEASURE = """async (moves) => {
  const taken = [];
  for (let i = 0; i < moves; i++) {
    const began = performance.now();
    const answered = { attributeFilter: ["data-answered"] };
    const drawn = new Promise((resolve) => {
      new MutationObserver(resolve).observe(document.body, answered);
    });
    tutelageExplorer.change({ lr: 0.3 + 0.005 * (i % 40) });
    await drawn;
    await new Promise((resolve) => requestAnimationFrame(resolve));
    taken.push(performance.now() - began);
  }
  return taken;
}"""


def slider_moves() -> None:
    """Slider to curve."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return
    server = subprocess.Popen(
        [sys.executable, "-m", "tutelage.cli", "explore", "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    greeting = server.stdout.readline()
    address = re.search(r"http://\S+", greeting)[0]  # type: ignore[index]
    try:
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox"]
            ).new_page(reduced_motion="reduce")
            for units in (2, 3, 4):
                page.goto(
                    f"{address}?students={units}&teachers={units}&runs=0&band=false"
                )
                page.wait_for_function(
                    "() => document.body.dataset.state === 'done'", timeout=300_000
                )
                taken = page.evaluate(MEASURE, MOVES)
                note = (
                    f"median of {MOVES} moves, isotropic, alpha = 300; "
                    f"slowest {max(taken):.0f} ms"
                )
                record(
                    f"explorer: slider to redrawn curve, K = M = {units}",
                    statistics.median(taken) / 1000,
                    note=note,
                )
    finally:
        server.terminate()
        server.wait()


def slider_moves_without_server() -> None:
    """Record a slider that moves on a page that solves by itself."""
    from playwright.sync_api import sync_playwright

    import tutelage as tu

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = tu.page.standalone().save(Path(folder) / "explorer.html")
        page = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        ).new_page(reduced_motion="reduce")
        for units in (2, 3, 4):
            page.goto("about:blank")
            page.goto(f"{path.as_uri()}#students={units}&teachers={units}")
            page.wait_for_timeout(2000)
            taken = page.evaluate(MEASURE, MOVES)
            note = (
                f"median of {MOVES} moves, isotropic, alpha = 300, solved in the "
                f"browser; slowest {max(taken):.0f} ms"
            )
            record(
                f"standalone page: slider to redrawn curve, K = M = {units}",
                statistics.median(taken) / 1000,
                note=note,
            )


ALL = (slider_moves, slider_moves_without_server)
