"""A trajectory as one text: plain data, template, style, script and Plotly, with a policy that lets no request leave it.

The data are the one schema between Python and the script:

    title, conditions    sentences: who learns from whom, and how
    note, warning        sentences, or "": about the order of the students; the solve did not finish
    time_name            what time is: "α = steps / N"
    error_name           what the error is, such as "generalization error"
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
    tasks                of several tasks: {name, error, color}, the curve of each; `error` is that of the first
    variants             of several trajectories: {name, labels, list}, a second slider and what differs for each label

A number that is not finite is null. Everything is rounded to six digits.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._types import Numbers
from tutelage._version import __version__
from tutelage.analysis.curve_phases import phases
from tutelage.analysis.result import Curve, RunResults, read_curves
from tutelage.errors import InputError, kind_of
from tutelage.integrate import dormand_prince
from tutelage.page.settings import Settings, Value, digit_spectrum, explorer_table, is_local
from tutelage.plot.labels import capital, columns_of_R, settings_in_words, title_and_conditions
from tutelage.plot.style import COLORS, FAINT, PHASE_COLORS, color_at, document, is_log_spaced, wants_log, write_text
from tutelage.problem import Problem, Start, Tasks
from tutelage.storage import error_name
from tutelage.trajectory import Trajectory

HEAD = '<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,">'
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
BEGIN = 'tutelagePage.render(JSON.parse(document.getElementById("data").textContent));'
MOST_FRAMES, LEAST_FRAMES = 1001, 20
MOST_NUMBERS = 150_000  # in all maps: more than a page should carry
Content = dict[str, Any]  # of this schema
Trajectories = Trajectory | Sequence[Trajectory]
Over = Mapping[str, Numbers] | None  # the name of the number in which trajectories differ, and its values
Axis = tuple[str, Iterable[object]]  # of a map: its name, and its labels


class Page(str):
    """A page as text. A notebook shows it where it stands, inside a frame."""

    def save(self, path: str | Path) -> Path:
        """Write the page as a file, complete or not there at all; returns the path."""
        return write_text(path, self)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self)}" width="100%" height="760" style="border: 0"></iframe>'


def trajectory_page(
    trajectory: Trajectories, title: str | None = None, run: int | None = None, *, over: Over = None
) -> Page:
    """A solved trajectory, or one run of a simulation, as an HTML page with a slider for time.

    It shows the learning curve with its phases and a marker that moves, and R and Q at the marked time as heat maps. The
    page is self-contained: it holds its data and its charts, and works without a network. A notebook shows it
    inline; `.save("theory.html")` writes it as a file. Records of more than a thousand times are thinned evenly. title:
    instead of the problem in words. Several tasks are one curve each; the phases are then those of their schedule. A list
    of trajectories that differ in one number gets a second slider, over={"similarity": V}.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> tu.page.trajectory_page(theory).startswith("<!doctype html>")
    True
    """
    if over is not None or isinstance(trajectory, list | tuple):
        return page_of(family_content(trajectory, over, title))
    content, problem = trajectory_content(trajectory, title, run), getattr(trajectory, "problem", None)
    if problem is not None:
        with suppress(InputError):  # a file cannot hold it
            content["code"] = [{"name": "TOML", "text": problem.to_toml(), "file": "problem.toml"}]
    return page_of(content)


def page_of(content: Content) -> Page:
    """The page that shows data of the schema above."""
    parts = [f"{p['name']} from {p['start']:.4g} to {p['end']:.4g}" for p in content["phases"]]
    body = _template(capital("; ".join(parts)) + ".")
    return _page(content["title"], body, ["page.css"], content, ["page.js"], POLICY, BEGIN)


def explorer_page(table: Content, local: bool) -> Page:
    """The same page with controls. It fetches its data from the server that it came from, or (local) solves by itself.

    table: controls, presets and initial settings (settings.py), for explorer.js.
    """
    body = f'<div class="beside">{_part("aside.html")}<div>{_template("")}</div></div>'
    scripts = ["page.js", "formulas.js", *(["theory.js", "local.js"] if local else []), "explorer.js"]
    policy = POLICY if local else f"{POLICY}; connect-src 'self'"
    return _page("tutelage explorer", body, ["page.css", "explorer.css"], table, scripts, policy)


def _template(without_scripts: str) -> str:
    return _part("template.html").replace("{{without-scripts}}", escape(without_scripts)).replace("{{version}}", __version__)


def _page(title: str, body: str, styles: list[str], data: Content, scripts: list[str], policy: str, begin: str = "") -> Page:
    """One text of these parts. The data are JSON in which nothing can end the script element."""
    inside = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    end = [
        f"<script>{_part('vendor/plotly-cartesian.min.js')}</script>",
        f'<script id="data" type="application/json">{inside}</script>',
        *(f"<script>{script}</script>" for script in [*map(_part, scripts), begin] if script),
    ]
    return Page(document(title, [body, *end], "".join(map(_part, styles)), HEAD.format(policy=policy)))


def _part(name: str) -> str:
    return files("tutelage.page").joinpath(name).read_text(encoding="utf-8")


def trajectory_content(trajectory: object, title: str | None = None, run: int | None = None) -> Content:
    """The data of a trajectory's page; `run` chooses one of several runs. Long records are thinned evenly."""
    if not isinstance(trajectory, Trajectory):
        raise InputError(f"trajectory is {kind_of(trajectory)}; give what solve or simulate returned.")
    if trajectory.kind == "equations":
        raise InputError("the page shows overlaps R and Q, and custom equations have none; use plot.plot_trajectory.")
    curve, error, order, colored = (_phased if trajectory.tasks is None else _scheduled)(trajectory, run)
    who, how = title_and_conditions(trajectory)
    conditions = [how, *(words.replace("$", "").replace("N=", "N = ") for words in settings_in_words(trajectory))]
    conditions += [] if run is None else [f"run {run}"]
    reordered = not np.array_equal(order, np.arange(order.size))
    maps, log_time = _maps(curve.variables, order, trajectory.problem), is_log_spaced(curve.times)
    shown = np.flatnonzero(curve.times > 0) if log_time else np.arange(curve.times.size)
    frames = shown[_frames(shown.size, sum(m["values"][0].size for m in maps))]
    errors = enumerate(error[frames].T)
    tasks = [{"name": f"task {s + 1}", "error": numbers(each), "color": color_at(s)} for s, each in errors]
    ended = f"The {'run' if trajectory.kind == 'simulation' else 'solve'} {trajectory.status}"
    return {
        "title": title or who,
        "conditions": ", ".join(words for words in conditions if words),
        "note": "Student units are in the order of the teacher units to which they specialize." if reordered else "",
        "warning": "" if trajectory.finished else ended,
        "time_name": "α = steps / N",
        "error_name": error_name(trajectory.problem).removesuffix(" e_g"),
        "log_time": log_time,
        "log_error": wants_log(error),
        "times": numbers(curve.times[frames]),
        "error": tasks[0]["error"],
        **({} if trajectory.tasks is None else {"tasks": tasks}),
        "phases": [dict(zip(("name", "start", "end", "color"), phase, strict=True)) for phase in colored],
        "maps": [m | {"values": numbers(m["values"][frames])} for m in maps],
        "frames": frames.tolist(),
        "runs": [],
        "band": None,
        "escape": None,
        "code": [],
    }


Phase = tuple[str, float, float, str]  # name, start, end, color
Shown = tuple[Curve, np.ndarray, np.ndarray, list[Phase]]  # a curve; errors (time, task); the order of units; phases


def _phased(trajectory: Trajectory, run: int | None) -> Shown:
    """A curve with its phases; student units in the order of the teacher units that they end with, those without one last."""
    found = _one_of(phases(trajectory, run))
    order = np.arange(found.curve.variables["R"].shape[1])
    if found.specialization is not None:
        own = found.specialization.permutation
        order = np.argsort(np.where(own < 0, order.size + own.max(), own), kind="stable")
    colored = [(p.name, p.start, p.end, PHASE_COLORS.get(p.name, FAINT)) for p in found]
    return found.curve, found.curve.error[:, None], order, colored


def _scheduled(trajectory: Trajectory, run: int | None) -> Shown:
    """The curves of several tasks. Between two switches a phase is the task that the schedule shows, or the mixture."""
    problem = trajectory.problem
    if problem is None or not isinstance(problem.teacher, Tasks):
        raise InputError("the trajectory has no problem; the page of several tasks needs it.")
    error, tasks = np.asarray(trajectory.error, dtype=float), problem.teacher
    variables = trajectory.variables | {"errors": error}
    together = replace(trajectory, error=error.mean(axis=-1), variables=variables, problem=None)
    curve = _one_of(read_curves(together, run, "the page", lambda curve: curve))
    end, colored = float(curve.times[-1]), []
    known = tasks.switches(end)
    times = np.unique([0.0, end, *(np.ravel(known) if known is not None else ())])
    for begin, stop in pairwise(times[times <= end].tolist()):
        p = np.asarray(tasks.probabilities((begin + stop) / 2))
        main = int(np.argmax(p))
        mixture = " + ".join(f"{x:.0%} task {s + 1}" for s, x in enumerate(p) if x > 0)
        name = f"task {main + 1}" if p[main] > 1 - 1e-9 else mixture
        colored.append((name, begin, stop, color_at(main) if p[main] > 0.5 + 1e-9 else FAINT))
    return curve, curve.variables["errors"], np.arange(problem.student.hidden), colored


def _one_of(found: Any) -> Any:
    """What was found on one curve; a trajectory of several runs has several."""
    if isinstance(found, RunResults):
        raise InputError(f"the trajectory has {len(found)} runs; the page shows one curve. Choose one, such as run=0.")
    return found


def family_content(trajectories: Trajectories, over: Over, title: str | None = None) -> Content:
    """The data of several trajectories that differ in one number: that of the first, and what differs in the others."""
    if not isinstance(over, dict) or len(over) != 1:
        raise InputError(f"over is {checks.shown(over)}; name the one number that differs: over={{'similarity': values}}.")
    ((name, values),) = over.items()
    labels = [f"{float(value):.4g}" for value in np.ravel(values)]
    each = [trajectories] if isinstance(trajectories, Trajectory) else trajectories
    contents = [trajectory_content(trajectory, title) for trajectory in each]
    if len(labels) != len(contents) or not contents:
        raise InputError(f"over has {len(labels)} values of {name} for {len(contents)} trajectories; give one each.")
    first = contents[0]
    if any(c["times"] != first["times"] or len(c["maps"]) != len(first["maps"]) for c in contents):
        raise InputError("the trajectories have different times or overlaps; solve all of them at the same times.")
    parts = ("conditions", "warning", "note", "error", "tasks", "phases", "maps")
    variants = [{part: c[part] for part in parts if part in c} for c in contents]
    for same in zip(*(c["maps"] for c in contents), strict=True):  # one range of colors for all variants
        for m in same:
            m["bound"] = max(other["bound"] for other in same)
    return first | {"variants": {"name": str(name), "labels": labels, "list": variants}}


def _maps(variables: dict[str, np.ndarray], order: np.ndarray, problem: Problem | None) -> list[Content]:
    """R and Q, and what else of the student units is trained."""
    R, Q, students = variables["R"], variables["Q"], ("student", order + 1)
    kind, columns = columns_of_R(problem, R.shape[2])
    words = {"mean": "student units and means", "": "student units with teacher units and means"}
    maps = [
        _map("R", words.get(kind, "student and teacher units"), students, (kind, columns), R[:, order]),
        _map("Q", "student units", students, students, Q[:, order][:, :, order]),
    ]
    for name, letter, title in (("readout", "v", "readouts"), ("bias", "b", "biases")):
        values = variables.get(name)
        if values is None or np.ptp(values, axis=0).max() == 0:
            continue
        heads = ("", [letter])
        if values.ndim == 3:  # heads of tasks, or several outputs
            heads = ("task" if kind.startswith("task") else "output", range(1, values.shape[1] + 1))
        by_unit = values[:, :, None] if values.ndim == 2 else np.swapaxes(values, 1, 2)
        maps.append(_map(letter, title, students, heads, by_unit[:, order]))
    return maps


def _map(name: str, words: str, rows: Axis, columns: Axis, values: np.ndarray) -> Content:
    bound = float(f"{np.max(np.abs(values)):.3g}") or 1.0
    down, across = ({"name": axis, "labels": list(map(str, labels))} for axis, labels in (rows, columns))
    return {"name": name, "title": f"{name}: {words}", "rows": down, "columns": across, "values": values, "bound": bound}


def _frames(count: int, entries: int) -> np.ndarray:
    """Which recorded times to show: all, or evenly many of them, the first and the last included."""
    most = min(MOST_FRAMES, MOST_NUMBERS // entries)
    if most < LEAST_FRAMES:
        limit = MOST_NUMBERS // LEAST_FRAMES
        raise InputError(f"there are {entries} overlaps; a page shows at most {limit}. Use plot.plot_trajectory.")
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def numbers(values: ArrayLike) -> list[Any]:
    """Nested lists of six digits; null where there is no number."""
    six_digits = np.vectorize(lambda x: float(f"{x:.6g}") if math.isfinite(x) else None, otypes=[object])
    return six_digits(np.asarray(values, dtype=float)).tolist()


# The explorer: its controls move a theory that is solved in the browser (theory.js)


def standalone(
    problem: Problem | None = None, start: Start | str | None = None, times: ArrayLike | None = None, **settings: Value
) -> Page:
    """The explorer as one HTML page that solves by itself: it needs no server, no network and no installation.

    The page covers erf, linear and quadratic networks with up to 6 units each, squared loss, one or two tasks, and isotropic
    or power-law inputs with up to 16 levels. Put it on a website, or show it inside another page: `<iframe src="...">`.

    Parameters
    ----------
    problem, start, times : Problem, Start, array_like, optional
        What the page shows first, as `solve` takes them. Without a problem the page begins with the default settings. A
        start may also be a word of the control: "random weights" or "asymmetric".
    **settings
        Values of controls to begin with, such as `lr=0.3, students=2`; the defaults are those of `tutelage explore`.

    Returns
    -------
    Page
        The page as text. A notebook shows it inline; its method `save(path)` writes it as a file.

    Examples
    --------
    >>> import tutelage as tu
    >>> page = tu.page.standalone(students=2, teachers=2, lr=1.0)
    >>> len(page) < 2_500_000
    True
    """
    if isinstance(start, str):
        start, settings = None, settings | {"start": start}
    if problem is None and (start is not None or times is not None):
        raise InputError("start or times is given without a problem; give the problem first, or settings such as lr=0.3.")
    begun = Settings.read({}) if problem is None else Settings.of(problem, start, times)
    given = None if "start" in settings else begun.given
    chosen = replace(Settings.read(begun.values | settings), toml=begun.toml, given=given)
    if not is_local(chosen):
        raise InputError(
            "a page without a server solves erf, linear and quadratic networks of up to 6 units with squared loss and up to 16 "
            f"levels; {'these settings need' if problem is None else 'this problem needs'} more. Use `tutelage explore`"
            f"{'' if problem is None else ' and drop a file with problem.to_toml() onto its page'}."
        )
    names = ("nodes", "stages", "errors", "weights")
    method = {name: getattr(dormand_prince, name.upper()).tolist() for name in names}
    spectrum = digit_spectrum()
    digits = {"lam": spectrum.eigenvalues.tolist(), "fractions": spectrum.fractions.tolist()}
    tables = {"method": method, "phaseColors": PHASE_COLORS, "colors": COLORS, "faint": FAINT, "digits": digits}
    table = explorer_table(chosen, local=True) | {"tables": tables | {"given": chosen.given}}
    return explorer_page(table, local=True)


def trajectory_widget(trajectory: Trajectory) -> Page:
    """The explorer at the problem, start and times of a solve; where it cannot solve in the browser, the page of the curve."""
    problem, start = trajectory.problem, trajectory.start
    if trajectory.kind == "theory" and problem is not None and np.ndim(trajectory.times) == 1:
        with suppress(InputError):
            return standalone(problem, start, trajectory.times)
    return trajectory_page(trajectory)
