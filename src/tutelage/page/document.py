"""A trajectory as one text: plain data, template, style, script and Plotly, with a policy that lets no request leave it.

The data are the one schema between Python and the script:

    title, conditions    sentences: who learns from whom, and how
    note                 a sentence about the rows, or "" (the order of the students)
    warning              a sentence, or "": the solve did not finish
    time_name            what time is: "α = steps / N"
    log_time, log_error  booleans: which axes are logarithmic at first
    times, error         (frame,): numbers
    phases               in the order of time, without gaps: {name, start, end, color}
    maps                 {name, title, rows, columns, values, bound}: rows, columns {name, labels}; values (frame, row, column);
                         bound: the largest |value| of the map; its colors run from -bound to bound at every time
    frames               (frame,): which of the recorded times are shown
    runs                 errors of simulated networks next to the curve, (frame,) each
    band                 {dim, low, high}: where single networks of N = dim are expected, (frame,) each; or null
    escape               the time at which the curve is predicted to leave its plateau; or null
    code                 {name, text, file}: the problem as text to copy or keep
Several tasks add
    tasks                {name, error, color}: the curve of each task; `error` is that of the first
Several trajectories add
    variants             {name, labels, list}: a second slider; list: the parts of the data that differ, one for each label

A number that is not finite is null. Everything is rounded to six digits: the page is for looking, `Trajectory.save` for
computing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._types import Numbers
from tutelage._version import __version__
from tutelage.analysis.curve_phases import phases
from tutelage.analysis.result import Curve, RunResults, read_curves
from tutelage.errors import InputError, kind_of
from tutelage.plot.labels import capital, columns_of_R, settings_in_words, title_and_conditions
from tutelage.plot.style import COLORS, FAINT, PHASE_COLORS, document, is_log_spaced, wants_log, write_text
from tutelage.problem import Problem, Tasks
from tutelage.trajectory import Trajectory

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
BEGIN = 'tutelagePage.render(JSON.parse(document.getElementById("data").textContent));'
MOST_FRAMES, LEAST_FRAMES = 1001, 20
MOST_NUMBERS = 150_000  # in all maps: more than a page should carry
COLUMNS = {"readout": ("v", "readouts"), "bias": ("b", "biases")}
Content = dict[str, Any]  # of this schema
Nested = list["float | Nested | None"]


class Page(str):
    """A page as text. A notebook shows it where it stands, inside a frame."""

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self)}" width="100%" height="760" style="border: 0"></iframe>'


def trajectory_page(
    trajectory: Trajectory | Sequence[Trajectory],
    title: str | None = None,
    run: int | None = None,
    *,
    over: Mapping[str, Numbers] | None = None,
) -> Page:
    """A solved trajectory, or one run of a simulation, as an HTML page with a slider for time.

    It shows the learning curve with its phases and a marker that moves, and R and Q at the marked time as heat maps. The
    page is self-contained: it holds its data and its charts, and works without a network. A notebook shows it
    inline. Records of more than a thousand times are thinned evenly. title: instead of the problem in words. Several tasks
    are one curve each; the phases are then those of their schedule. A list of trajectories that differ in one number gets a
    second slider, over={"similarity": V}.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> tu.page.trajectory_page(theory).startswith("<!doctype html>")
    True
    """
    if over is not None or isinstance(trajectory, list | tuple):
        return page_of(family_content(trajectory, over, title))
    content = trajectory_content(trajectory, title, run)
    problem = getattr(trajectory, "problem", None)
    try:
        if problem is not None:
            content["code"] = [{"name": "TOML", "text": problem.to_toml(), "file": "problem.toml"}]
    except InputError:  # a file cannot hold it
        pass
    return page_of(content)


def save_page(
    trajectory: Trajectory | Sequence[Trajectory],
    path: str | Path,
    title: str | None = None,
    run: int | None = None,
    *,
    over: Mapping[str, Numbers] | None = None,
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


def page_of(content: Content) -> Page:
    """The page that shows data of the schema above."""
    parts = [f"{p['name']} from {p['start']:.4g} to {p['end']:.4g}" for p in content["phases"]]
    body, script = _template(capital("; ".join(parts)) + "."), _part("page.js") + BEGIN
    return _document(content["title"], body, _part("page.css"), _inside_script(content), script, POLICY)


def explorer_page(table: Content, local: bool) -> Page:
    """The same page with controls. It fetches its data from the server that it came from, or (local) solves by itself.

    table: controls, presets and initial settings (settings.py), for explorer.js.
    """
    body = f'<div class="beside">{_part("aside.html")}<div>{_template("")}</div></div>'
    scripts = ["page.js", "formulas.js", *(["theory.js", "local.js"] if local else []), "explorer.js"]
    css, js = _part("page.css") + _part("explorer.css"), "\n".join(map(_part, scripts))
    return _document(
        "tutelage explorer", body, css, _inside_script(table), js, POLICY if local else f"{POLICY}; connect-src 'self'"
    )


def _template(without_scripts: str) -> str:
    return _part("template.html").replace("{{without-scripts}}", escape(without_scripts)).replace("{{version}}", __version__)


def _document(title: str, body: str, style: str, data: str, script: str, policy: str) -> Page:
    scripts = [
        f"<script>{_part('vendor/plotly-cartesian.min.js')}</script>",
        f'<script id="data" type="application/json">{data}</script>',
        f"<script>{script}</script>",
    ]
    return Page(document(title, [body, *scripts], style, head(policy)))


def head(policy: str) -> str:
    """What a browser must know before anything else: whom the page may ask."""
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,">'


def _part(name: str) -> str:
    return files("tutelage.page").joinpath(name).read_text(encoding="utf-8")


def _inside_script(content: Content) -> str:
    """JSON in which nothing can end the script element."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def trajectory_content(trajectory: object, title: str | None = None, run: int | None = None) -> Content:
    """The data of a trajectory's page; `run` chooses one of several runs. Long records are thinned evenly."""
    if not isinstance(trajectory, Trajectory):
        raise InputError(f"trajectory is {kind_of(trajectory)}; give what solve or simulate returned.")
    if trajectory.kind == "equations":
        raise InputError(
            "the page shows the overlaps R and Q of a Problem, and custom equations have none; use plot.plot_trajectory."
        )
    curve, error, order, colored = (_phased if trajectory.tasks is None else _scheduled)(trajectory, run)
    who, how = title_and_conditions(trajectory)
    which = [] if run is None else [f"run {run}"]
    conditions = [how, *(words.replace("$", "") for words in settings_in_words(trajectory)), *which]
    reordered = not np.array_equal(order, np.arange(order.size))
    maps, log_time = _maps(curve.variables, order, trajectory.problem), is_log_spaced(curve.times)
    shown = np.flatnonzero(curve.times > 0) if log_time else np.arange(curve.times.size)
    frames = shown[_frames(shown.size, sum(m["values"][0].size for m in maps))]
    tasks = [
        {"name": f"task {s + 1}", "error": numbers(each), "color": COLORS[s % len(COLORS)]}
        for s, each in enumerate(error[frames].T)
    ]
    ended = f"The {'run' if trajectory.kind == 'simulation' else 'solve'} {trajectory.status}"
    return {
        "title": title or who,
        "conditions": ", ".join(words for words in conditions if words),
        "note": "Student units are in the order of the teacher units to which they specialize." if reordered else "",
        "warning": "" if trajectory.finished else ended,
        "time_name": "α = steps / N",
        "log_time": log_time,
        "log_error": wants_log(error),
        "times": numbers(curve.times[frames]),
        "error": tasks[0]["error"],
        **({} if trajectory.tasks is None else {"tasks": tasks}),
        "phases": colored,
        "maps": [m | {"values": numbers(m["values"][frames])} for m in maps],
        "frames": frames.tolist(),
        "runs": [],
        "band": None,
        "escape": None,
        "code": [],
    }


Shown = tuple[Curve, np.ndarray, np.ndarray, list[Content]]  # a curve; errors (time, task); the order of units; phases


def _phased(trajectory: Trajectory, run: int | None) -> Shown:
    """A curve with its phases; student units in the order of the teacher units that they end with, those without one last."""
    found = _one_of(phases(trajectory, run))
    order = np.arange(found.curve.variables["R"].shape[1])
    if found.specialization is not None:
        own = found.specialization.permutation
        order = np.argsort(np.where(own < 0, order.size + own.max(), own), kind="stable")
    colored = [{"name": p.name, "start": p.start, "end": p.end, "color": PHASE_COLORS.get(p.name, FAINT)} for p in found]
    return found.curve, found.curve.error[:, None], order, colored


def _scheduled(trajectory: Trajectory, run: int | None) -> Shown:
    """The curves of several tasks, with the phases of their schedule."""
    problem = trajectory.problem
    if problem is None or not isinstance(problem.teacher, Tasks):
        raise InputError("the trajectory has no problem; the page of several tasks needs it.")
    error = np.asarray(trajectory.error, dtype=float)
    variables = trajectory.variables | {"errors": error}
    together = replace(trajectory, error=error.mean(axis=-1), variables=variables, problem=None)
    curve = _one_of(read_curves(together, run, "the page", lambda curve: curve))  # pyright: ignore[reportArgumentType]
    order = np.arange(problem.student.hidden)
    return curve, curve.variables["errors"], order, _task_phases(problem.teacher, float(curve.times[-1]))


def _one_of(found: Any) -> Any:
    """What was found on one curve; a trajectory of several runs has several."""
    if isinstance(found, RunResults):
        raise InputError(f"the trajectory has {len(found)} runs; the page shows one curve. Choose one, such as run=0.")
    return found


def _task_phases(tasks: Tasks, end: float) -> list[Content]:
    """What the schedule shows between its switches: the task, or the mixture."""
    known = tasks.switches(end)
    times = np.unique([0.0] if known is None else np.append(np.asarray(known, dtype=float), 0.0))
    edges = [*times[times < end], end]
    phases = []
    for begin, stop in pairwise(edges):
        p = np.asarray(tasks.probabilities((begin + stop) / 2))
        main = int(np.argmax(p))
        name = (
            f"task {main + 1}"
            if p[main] > 1 - 1e-9
            else " + ".join(f"{x:.0%} task {s + 1}" for s, x in enumerate(p) if x > 0)
        )
        color = COLORS[main % len(COLORS)] if p[main] > 0.5 + 1e-9 else FAINT
        phases.append({"name": name, "start": float(begin), "end": float(stop), "color": color})
    return phases


def family_content(
    trajectories: Trajectory | Sequence[Trajectory], over: Mapping[str, Numbers] | None, title: str | None = None
) -> Content:
    """The data of several trajectories that differ in one number: that of the first, and what differs in the others."""
    if not isinstance(over, dict) or len(over) != 1:
        raise InputError(f"over is {checks.shown(over)}; name the one number that differs: over={{'similarity': values}}.")
    ((name, values),) = over.items()
    labels = [f"{float(value):.4g}" for value in np.ravel(values)]
    each = [trajectories] if isinstance(trajectories, Trajectory) else trajectories
    contents = [trajectory_content(trajectory, title) for trajectory in each]
    if len(labels) != len(contents) or not contents:
        raise InputError(
            f"over has {len(labels)} values of {name} and there are {len(contents)} trajectories; give one each."
        )
    first = contents[0]
    if any(c["times"] != first["times"] or len(c["maps"]) != len(first["maps"]) for c in contents):
        raise InputError("the trajectories have different times or overlaps; solve all of them at the same times.")
    parts = ("conditions", "warning", "note", "error", "tasks", "phases", "maps")
    variants = [{part: c[part] for part in parts if part in c} for c in contents]
    for same in zip(*(c["maps"] for c in contents), strict=True):  # one range of colors for all variants
        bound = max(m["bound"] for m in same)
        for m in same:
            m["bound"] = bound
    return first | {"variants": {"name": str(name), "labels": labels, "list": variants}}


def _maps(variables: dict[str, np.ndarray], order: np.ndarray, problem: Problem | None) -> list[Content]:
    """R and Q, and what else of the student units is trained."""
    R, Q, students = variables["R"], variables["Q"], _axis("student", order + 1)
    kind, columns = columns_of_R(problem, R.shape[2])
    words = {"mean": "student units and means", "": "student units with teacher units and means"}
    maps = [
        _map("R", words.get(kind, "student and teacher units"), students, _axis(kind, columns), R[:, order]),
        _map("Q", "student units", students, students, Q[:, order][:, :, order]),
    ]
    for name, (letter, title) in COLUMNS.items():
        values = variables.get(name)
        if values is None or np.ptp(values, axis=0).max() == 0:
            continue
        heads = _axis("", [letter])
        if values.ndim == 3:  # heads of tasks, or several outputs
            heads = _axis("task" if kind.startswith("task") else "output", range(1, values.shape[1] + 1))
        by_unit = values[:, :, None] if values.ndim == 2 else np.swapaxes(values, 1, 2)
        maps.append(_map(letter, title, students, heads, by_unit[:, order]))
    return maps


def _axis(name: str, labels: Iterable[object]) -> Content:
    return {"name": name, "labels": [str(label) for label in labels]}


def _map(name: str, words: str, rows: Content, columns: Content, values: np.ndarray) -> Content:
    bound = float(f"{np.max(np.abs(values)):.3g}") or 1.0
    return {"name": name, "title": f"{name}: {words}", "rows": rows, "columns": columns, "values": values, "bound": bound}


def _frames(count: int, entries: int) -> np.ndarray:
    """Which recorded times to show: all, or evenly many of them, the first and the last included."""
    most = min(MOST_FRAMES, MOST_NUMBERS // entries)
    if most < LEAST_FRAMES:
        raise InputError(
            f"there are {entries} overlaps; a page shows at most {MOST_NUMBERS // LEAST_FRAMES}. Use plot.plot_trajectory."
        )
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def numbers(values: np.ndarray) -> Nested:
    """Nested lists of six digits; null where there is no number."""
    values = np.asarray(values, dtype=float)
    finite = np.isfinite(values)
    size = np.abs(np.where(finite & (values != 0), values, 1.0))
    power = 10.0 ** np.clip(5 - np.floor(np.log10(size)), -300, 300)
    rounded = (np.round(np.where(finite, values, 0.0) * power) / power).astype(object)
    rounded[~finite] = None
    return rounded.tolist()
