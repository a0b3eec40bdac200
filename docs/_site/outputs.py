"""`make outputs`: write the output of the code of a page into the page itself.

    python docs/_site/outputs.py docs/learn/plateaus.md ...

Readers without a build see it there. Below each ```python block stands a ```text block
with its output. If the folder of the page has a subfolder `figures`, as the course
does, the figures follow (figures/PAGE-1.png, ...). Without arguments all pages of the
course are run. Each run replaces both. The site removes them and shows the outputs of
its own run (blocks.py).
"""

import json
import re
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))

from _site.runner import main as run  # noqa: E402

COURSE = DOCS / "learn"
PRINTED = r"\n```text\n(?P<text>.*?)^```\n"
DRAWN = r"(?:\n!\[[^\n]*\]\(figures/[\w-]+-\d+\.png\)\n)*"
BLOCK = re.compile(
    rf"^```python\n(?P<code>.*?)^```\n(?:{PRINTED})?(?P<drawn>{DRAWN})",
    flags=re.MULTILINE | re.DOTALL,
)


def printed(page: str) -> list[str]:
    """Return the outputs below the blocks of a page, empty where there are none."""
    return [found["text"] or "" for found in BLOCK.finditer(page)]


def without_outputs(page: str) -> str:
    """Return a page with its code alone."""
    return BLOCK.sub(lambda found: f"```python\n{found['code']}```\n", page)


def with_outputs(page: str, name: str, outputs: list[dict]) -> str:
    """Return the page with these outputs below its blocks.

    Pictures are called figures/NAME-1.png and so on.
    """
    waiting = iter(outputs)
    pictures = 0

    def place(found: re.Match[str]) -> str:
        nonlocal pictures
        entry = next(waiting)
        text = f"```python\n{found['code']}```\n"
        printed = entry["text"].rstrip()
        if printed.strip():
            lines = [line.rstrip() for line in printed.splitlines()]
            text += "\n```text\n" + "\n".join(lines) + "\n```\n"
        for image in entry["images"]:
            pictures += 1
            alt = image["alt"].replace("[", "(").replace("]", ")")
            text += f"\n![{alt}](figures/{name}-{pictures}.png)\n"
        return text

    return BLOCK.sub(place, page)


def update(page: Path) -> None:
    """Run one page and write its outputs into it."""
    figures = page.parent / "figures"
    with tempfile.TemporaryDirectory() as scratch:
        run(f"{page}={scratch}/outputs")
        folder = Path(scratch) / "outputs"
        outputs = json.loads((folder / "outputs.json").read_text())
        if not figures.is_dir():
            outputs = [entry | {"images": []} for entry in outputs]
        for old in figures.glob(f"{page.stem}-[0-9]*.png"):
            old.unlink()
        images = [image for entry in outputs for image in entry["images"]]
        for number, image in enumerate(images, start=1):
            target = figures / f"{page.stem}-{number}.png"
            _keep_small(folder / image["file"], image["width"], target)
    page.write_text(with_outputs(page.read_text(), page.stem, outputs))


def _keep_small(path: Path, shown: int, target: Path) -> None:
    """Store a figure a quarter finer than it is shown, in 96 colors."""
    from PIL import Image

    with Image.open(path) as picture:
        width = round(1.25 * shown)
        height = round(1.25 * shown * picture.height / picture.width)
        resized = picture.convert("RGB").resize(
            (width, height), Image.Resampling.LANCZOS
        )
        resized.quantize(96).save(target, optimize=True)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:] or sorted(COURSE.glob("*.md"))):
        update(page.resolve())
