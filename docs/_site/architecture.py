"""`make diagrams`: the two drawings of ARCHITECTURE.md, docs/architecture/*.svg.

The words of a folder are the first line of its docstring, so that the drawing and the
code say the same. tests/test_architecture.py draws both again and compares them.
"""

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tutelage"
DRAWINGS = ROOT / "docs" / "architecture"

# From the bottom to the top. A file imports only what stands below it, or to its left.
BANDS = (
    ("what is learned", ("training", "problem")),
    ("tools of theories", ("equilibrium", "solvers", "result")),
    ("theories and runs", ("stream", "simulation", "dataset", "recording")),
    ("functions", ("theories.py", "_solve.py")),
    ("reading results", ("plot", "analysis", "data", "comparison")),
    ("faces", ("page", "sweeps", "explorer", "cli")),
)
# The flow of one comparison: boxes by column and row, with the folder that has them.
STEPS = {
    "Rule.update": (0, 1, "training", "one sample, one update"),
    "Problem": (1, 1, "problem", "task and training"),
    "Moments": (2, 0, "stream/moments", "averages A, B, G"),
    "OrderParameters": (3, 0, "stream", "the equations"),
    "integrate": (4, 0, "solvers", "one compiled program"),
    "Step": (2, 2, "simulation", "SGD at finite N"),
    "Trajectory": (5, 1, "result", "curves of either"),
    "analyses": (6, 0, "analysis, plot", "what the curves say"),
    "compare": (6, 2, "comparison", "do both agree?"),
}
ARROWS = (
    ("Rule.update", "Problem"),
    ("Problem", "Moments"),
    ("Moments", "OrderParameters"),
    ("OrderParameters", "integrate"),
    ("integrate", "Trajectory"),
    ("Problem", "Step"),
    ("Step", "Trajectory"),
    ("Trajectory", "analyses"),
    ("Trajectory", "compare"),
)

INK = "#222222"
FILLS = ("#d7e3f4", "#dcefe3", "#f6e7cf", "#eadcf0", "#f4dbdb", "#e2e2e2")
FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"
TITLE_SIZE = 15
WORD_SIZE = 12


class Box(NamedTuple):
    """A rectangle with a title and words, in pixels from the upper left corner."""

    left: float
    top: float
    width: float
    height: float
    fill: str
    title: str
    words: str

    def lines(self) -> Iterator[str]:
        """Yield the elements of the box."""
        yield (
            f"<rect x='{self.left:g}' y='{self.top:g}' width='{self.width:g}' "
            f"height='{self.height:g}' rx='6' fill='{self.fill}' stroke='{INK}'/>"
        )
        x = self.left + 10
        yield text(x, self.top + 21, self.title, TITLE_SIZE, bold=True)
        characters = int((self.width - 16) / (0.56 * WORD_SIZE))
        for row, line in enumerate(wrap(self.words, characters)):
            yield text(x, self.top + 40 + 16 * row, line, WORD_SIZE)


def text(x: float, y: float, words: str, size: int, bold: bool = False) -> str:
    """Return words whose left end is at a place."""
    weight = " font-weight='bold'" if bold else ""
    return (
        f"<text x='{x:g}' y='{y:g}' font-size='{size}'{weight} {FONT} fill='{INK}'>"
        f"{escape(words)}</text>"
    )


def drawing(width: float, height: float, elements: list[str]) -> str:
    """Return a drawing on a white ground, which is legible on dark pages, too."""
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' "
        f"width='{width:g}' height='{height:g}'>"
    )
    ground = f"<rect width='{width:g}' height='{height:g}' fill='white'/>"
    return "\n".join([head, ground, *elements, "</svg>", ""])


def first_line(name: str) -> str:
    """Return the first sentence of the docstring of a folder or file of the package."""
    path = PACKAGE / name
    file = path / "__init__.py" if path.is_dir() else path
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    paragraph = docstring.split("\n\n")[0].replace("\n", " ").replace("`", "")
    return paragraph.split(". ")[0].rstrip(".:")


def folders() -> str:
    """Draw the folders of the package in bands."""
    width = 236
    height = 92
    gap = 12
    margin = 20
    label = 172
    total_width = label + 4 * (width + gap) + margin
    total_height = len(BANDS) * (height + gap) + margin + 30
    elements = []
    for place, (title, names) in enumerate(BANDS):
        top = total_height - 40 - (place + 1) * (height + gap) + gap
        elements.append(text(margin, top + height / 2, title, TITLE_SIZE))
        room = 4 * (width + gap) - gap
        wide = (room - gap * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            box = Box(
                left=label + column * (wide + gap),
                top=top,
                width=wide,
                height=height,
                fill=FILLS[place],
                title=name,
                words=first_line(name),
            )
            elements += box.lines()
    rule = (
        "A file imports only what stands below it, or to its left in its row. "
        "papers/ is a package of its own, on top."
    )
    elements.append(text(label, total_height - 16, rule, TITLE_SIZE))
    return drawing(total_width, total_height, elements)


def flow() -> str:
    """Draw the way from one sample's update to the verdict of a comparison."""
    width = 166
    height = 62
    across = 196
    down = 92
    margin = 16
    elements = [
        "<defs><marker id='head' markerWidth='9' markerHeight='9' refX='8' refY='4' "
        f"orient='auto'><path d='M0,0 L8,4 L0,8 z' fill='{INK}'/></marker></defs>"
    ]
    boxes = {}
    for name, (column, row, folder, words) in STEPS.items():
        fill = FILLS[_band_of(folder.split("/")[0].split(",")[0])]
        boxes[name] = Box(
            left=margin + column * across,
            top=margin + row * down,
            width=width,
            height=height,
            fill=fill,
            title=name,
            words=words,
        )
        elements += boxes[name].lines()
        below = boxes[name].top + height + 16
        elements.append(text(boxes[name].left + 10, below, folder, WORD_SIZE))
    for tail, head in ARROWS:
        start = boxes[tail]
        end = boxes[head]
        elements.append(
            f"<line x1='{start.left + width:g}' y1='{start.top + height / 2:g}' "
            f"x2='{end.left:g}' y2='{end.top + height / 2:g}' stroke='{INK}' "
            "stroke-width='1.5' marker-end='url(#head)'/>"
        )
    total_width = 2 * margin + 6 * across + width
    return drawing(total_width, 2 * margin + 2 * down + height + 16, elements)


def _band_of(folder: str) -> int:
    """Return the place of the band of a folder."""
    for place, (_, names) in enumerate(BANDS):
        if folder in names:
            return place
    raise ValueError(f"{folder} is in no band")


DIAGRAMS = {"folders": folders, "flow": flow}


def draw() -> None:
    """Write both drawings."""
    DRAWINGS.mkdir(exist_ok=True)
    for name, function in DIAGRAMS.items():
        (DRAWINGS / f"{name}.svg").write_text(function())


if __name__ == "__main__":
    draw()
