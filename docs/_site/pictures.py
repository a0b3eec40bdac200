"""`make figures`: the pictures of the README, demo.png (`tutelage compare`) and explorer.png (`tutelage explore`), and of the
quickstart (quickstart.png, which its code draws)."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
PROGRAM = [sys.executable, "-m", "tutelage.cli"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE = "?dim=10000&runs=3"


def comparison(target: Path) -> None:
    """What `make demo` draws."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*PROGRAM, "compare", "--out-dir", folder], check=True, stdout=subprocess.DEVNULL)
        shutil.copyfile(Path(folder) / "compare.png", target)


def quickstart(target: Path) -> None:
    """What the code of the quickstart draws."""
    from _site.runner import blocks

    with tempfile.TemporaryDirectory() as folder:
        code = "\n".join(blocks((DOCS / "getting-started.md").read_text()))
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        shutil.copyfile(Path(folder) / target.name, target)


def explorer(target: Path) -> None:
    """The page of `tutelage explore` at the 120th of its 200 times, when all is drawn."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)))
    server = subprocess.Popen(
        [*PROGRAM, "explore", "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]).new_page(
                viewport={"width": 1280, "height": 720}, reduced_motion="reduce"
            )
            page.goto(address + PAGE)
            page.wait_for_selector("body[data-state=done]", timeout=300_000)
            page.evaluate("tutelagePage.setTime(120)")
            page.wait_for_timeout(500)
            page.screenshot(path=target)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)


if __name__ == "__main__":
    sys.path.insert(0, str(DOCS))
    comparison(DOCS / "demo.png")
    quickstart(DOCS / "quickstart.png")
    explorer(DOCS / "explorer.png")
