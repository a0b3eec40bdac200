"""The quickstart of the README: its code, run as it stands, and the output printed below it."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.compile(r"```python\n(?P<code>.*?)```\n+```text\n(?P<output>.*?)```\n", re.DOTALL)


def blocks() -> tuple[str, str]:
    """The code, and the output that the README shows."""
    found = BLOCKS.search(README.read_text())
    assert found is not None, "README.md needs a block of Python and, next to it, a block of text with its output"
    return found["code"], found["output"]


def run() -> tuple[str, dict[str, Any]]:
    """What the code prints, and the names that it defines."""
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        exec(blocks()[0], names)
    return printed.getvalue(), names


def write_output(printed: str) -> None:
    """Put this output into the README."""
    text = README.read_text()
    place = BLOCKS.search(text)
    assert place is not None
    README.write_text(text[: place.start("output")] + printed + text[place.end("output") :])
