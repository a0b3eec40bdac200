"""The page as one text: content, template, style, script and Plotly, with a policy that lets no request leave it."""

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from tutelage._version import __version__
from tutelage.page.content import phases_in_words, trajectory_content
from tutelage.plot.html import document, write_text
from tutelage.trajectory import Trajectory

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
HEAD = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">'
BEGIN = 'tutelagePage.render(JSON.parse(document.getElementById("data").textContent));'


def trajectory_page(trajectory: Trajectory, title: str | None = None, run: int | None = None) -> str:
    """A solved trajectory, or one run of a simulation, as an HTML page with a slider for time.

    It shows the learning curve with its phases and a marker that moves, and R and Q at the marked time as heat maps. The
    page is self-contained: it holds its data and its charts, and works without a network. Records of more than a thousand
    times are thinned evenly. title: instead of the problem in words.
    """
    return _assemble(trajectory_content(trajectory, title, run))


def save_page(trajectory: Trajectory, path: str | Path, title: str | None = None, run: int | None = None) -> Path:
    """Write `trajectory_page` as a file, complete or not there at all; returns the path."""
    return write_text(path, trajectory_page(trajectory, title, run))


def _assemble(content: dict[str, Any]) -> str:
    body = (
        _part("template.html")
        .replace("{{without-scripts}}", escape(phases_in_words(content)))
        .replace("{{version}}", __version__)
    )
    scripts = [
        f"<script>{_part('vendor/plotly-cartesian.min.js')}</script>",
        f'<script id="data" type="application/json">{_inside_script(content)}</script>',
        f"<script>{_part('page.js')}{BEGIN}</script>",
    ]
    return document(content["title"], [body, *scripts], _part("page.css"), HEAD)


def _part(name: str) -> str:
    return files("tutelage.page").joinpath(name).read_text(encoding="utf-8")


def _inside_script(content: dict[str, Any]) -> str:
    """JSON in which nothing can end the script element."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
