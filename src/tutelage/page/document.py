"""The page as one text: content, template, style, script and Plotly, with a policy that lets no request leave it."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from tutelage._version import __version__
from tutelage.page.content import code_of, family_content, phases_in_words, trajectory_content
from tutelage.plot.html import document, write_text
from tutelage.trajectory import Trajectory

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
BEGIN = 'tutelagePage.render(JSON.parse(document.getElementById("data").textContent));'


def trajectory_page(
    trajectory: Trajectory | Sequence[Trajectory],
    title: str | None = None,
    run: int | None = None,
    *,
    over: Mapping[str, Any] | None = None,
) -> str:
    """A solved trajectory, or one run of a simulation, as an HTML page with a slider for time.

    It shows the learning curve with its phases and a marker that moves, and R and Q at the marked time as heat maps. The
    page is self-contained: it holds its data and its charts, and works without a network. Records of more than a thousand
    times are thinned evenly. title: instead of the problem in words. Several tasks are one curve each; the phases are then
    those of their schedule. A list of trajectories that differ in one number gets a second slider, over={"similarity": V}.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> tu.page.trajectory_page(theory).startswith("<!doctype html>")
    True
    """
    if over is not None or isinstance(trajectory, list | tuple):
        return page_of(family_content(trajectory, over, title))
    trajectory = cast(Trajectory, trajectory)
    return page_of(trajectory_content(trajectory, title, run) | {"code": code_of(trajectory.problem)})


def save_page(
    trajectory: Trajectory | Sequence[Trajectory],
    path: str | Path,
    title: str | None = None,
    run: int | None = None,
    *,
    over: Mapping[str, Any] | None = None,
) -> Path:
    """Write `trajectory_page` as a file, complete or not there at all; returns the path.

    >>> import tutelage as tu
    >>> import tempfile, pathlib
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tu.page.save_page(theory, pathlib.Path(folder) / "theory.html").name
    'theory.html'
    """
    return write_text(path, trajectory_page(trajectory, title, run, over=over))


def page_of(content: dict[str, Any]) -> str:
    """The page that shows data of the schema in content.py."""
    body, script = _template(phases_in_words(content)), _part("page.js") + BEGIN
    return _document(content["title"], body, _part("page.css"), _inside_script(content), script, POLICY)


def live_page_of(title: str, aside: str, style: str, script: str, table: dict[str, Any]) -> str:
    """The same page without data, for a script that fetches them from where the page came from.

    aside, style, script: beside, after and after those of the page. table: what the script reads from the element "data".
    """
    body = f'<div class="beside">{aside}<div>{_template("")}</div></div>'
    css, js = _part("page.css") + style, _part("page.js") + script
    return _document(title, body, css, _inside_script(table), js, f"{POLICY}; connect-src 'self'")


def _template(without_scripts: str) -> str:
    return _part("template.html").replace("{{without-scripts}}", escape(without_scripts)).replace("{{version}}", __version__)


def _document(title: str, body: str, style: str, data: str, script: str, policy: str) -> str:
    scripts = [
        f"<script>{_part('vendor/plotly-cartesian.min.js')}</script>",
        f'<script id="data" type="application/json">{data}</script>',
        f"<script>{script}</script>",
    ]
    return document(title, [body, *scripts], style, head(policy))


def head(policy: str) -> str:
    """What a browser must know before anything else: whom the page may ask."""
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,">'


def _part(name: str) -> str:
    return files("tutelage.page").joinpath(name).read_text(encoding="utf-8")


def _inside_script(content: dict[str, Any]) -> str:
    """JSON in which nothing can end the script element."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
