"""`make outputs`: writes what the code of a page prints and draws into the page itself, for readers without a build.

    python docs/_site/outputs.py docs/learn/plateaus.md ...

Below each ```python block stands a ```text block with its output. If the folder of the page has a subfolder `figures`, as the course
does, the figures follow (figures/PAGE-1.png, ...). Without arguments all pages of the course are run. Each run
replaces both. The site removes them and shows the outputs of its own run (blocks.py).
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
    """The outputs that stand below the blocks of a page, empty where there are none."""
    return [found["text"] or "" for found in BLOCK.finditer(page)]


def without_outputs(page: str) -> str:
    """A page with its code alone."""
    return BLOCK.sub(lambda found: f"```python\n{found['code']}```\n", page)


def with_outputs(page: str, name: str, outputs: list[dict]) -> str:
    """The page with these outputs below its blocks; pictures are called figures/NAME-1.png and so on."""
    waiting, pictures = iter(outputs), 0

    def place(found: re.Match[str]) -> str:
        nonlocal pictures
        entry = next(waiting)
        text = f"```python\n{found['code']}```\n"
        if entry["text"].strip():
            text += (
                "\n```text\n"
                + "\n".join(
                    line.rstrip() for line in entry["text"].rstrip().splitlines()
                )
                + "\n```\n"
            )
        for image in entry["images"]:
            pictures += 1
            text += f"\n![{image['alt'].translate(str.maketrans('[]', '()'))}](figures/{name}-{pictures}.png)\n"
        return text

    return BLOCK.sub(place, page)


def update(page: Path) -> None:
    """Run one page and write its outputs into it."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as scratch:
        run(f"{page}={scratch}/outputs")
        folder = Path(scratch) / "outputs"
        outputs = json.loads((folder / "outputs.json").read_text())
        if not (page.parent / "figures").is_dir():
            outputs = [entry | {"images": []} for entry in outputs]
        for old in (page.parent / "figures").glob(f"{page.stem}-[0-9]*.png"):
            old.unlink()
        for i, image in enumerate(
            [image for entry in outputs for image in entry["images"]]
        ):
            with Image.open(folder / image["file"]) as picture:
                size = (
                    round(1.25 * image["width"]),
                    round(1.25 * image["width"] * picture.height / picture.width),
                )
                small = (
                    picture.convert("RGB")
                    .resize(size, Image.Resampling.LANCZOS)
                    .quantize(96)
                )
                small.save(
                    page.parent / "figures" / f"{page.stem}-{i + 1}.png", optimize=True
                )
    page.write_text(with_outputs(page.read_text(), page.stem, outputs))


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:] or sorted(COURSE.glob("*.md"))):
        update(page.resolve())
