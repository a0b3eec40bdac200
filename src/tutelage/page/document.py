"""A trajectory as one text that needs nothing else.

The text contains plain data, template, style, script and Plotly, with a policy that
lets no request leave it. The data are the one schema between Python and the script:

    title, conditions    sentences: who learns from whom, and how
    note, warning        sentences, or "": about the order of the student units; the
                         solve did not finish
    time_name            the name of time: "α = steps / N"
    error_name           the name of the error, such as "generalization error"
    log_time, log_error  booleans: which axes are logarithmic at first
    times, error         (frame,): numbers
    phases               in the order of time, without gaps: {name, start, end, color}
    maps                 {name, title, rows, columns, values, bound}: rows, columns
                         {name, labels}; values (frame, row, column); bound: the largest
                         |value| of the map; its colors run from -bound to bound at
                         every time
    frames               (frame,): which of the recorded times are shown
    runs                 errors of simulated networks next to the curve, (frame,) each
    band                 {dim, low, high}: where single networks of N = dim are
                         expected, (frame,) each; or null
    escape               the time at which the curve is predicted to leave its plateau;
                         or null
    code                 {name, text, file}: the problem as text to copy or keep
    tasks                of several tasks: {name, error, color}, the curve of each;
                         `error` is that of the first
    variants             of several trajectories: {name, labels, list}, a second slider
                         and what differs for each label

A number that is not finite is null. Everything is rounded to six digits.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._types import Numbers
from tutelage._version import __version__
from tutelage.analysis.curve_events import phases
from tutelage.analysis.result import Curve, RunResults, read_curves
from tutelage.errors import InputError, kind_of
from tutelage.page.controls import Value
from tutelage.page.presets import explorer_table, is_local
from tutelage.page.settings import Settings, digit_spectrum
from tutelage.plot.labels import (
    capital,
    columns_of_R,
    settings_in_words,
    title_and_conditions,
)
from tutelage.plot.style import (
    COLORS,
    FAINT,
    PHASE_COLORS,
    color_at,
    document,
    is_log_spaced,
    wants_log,
    write_text,
)
from tutelage.problem import Problem, Start, Tasks
from tutelage.result.storage import error_name
from tutelage.result.trajectory import Trajectory
from tutelage.solvers import dormand_prince

HEAD = (
    '<meta http-equiv="Content-Security-Policy" content="{policy}">'
    '<link rel="icon" href="data:,">'
)
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:"
)
BEGIN = 'tutelagePage.render(JSON.parse(document.getElementById("data").textContent));'
MOST_FRAMES = 1001
LEAST_FRAMES = 20
MOST_NUMBERS = 150_000  # in all maps: more than a page should carry
# The parts of the data in which several trajectories of one page may differ.
VARIANT_PARTS = ("conditions", "warning", "note", "error", "tasks", "phases", "maps")
COLUMNS_IN_WORDS = {
    "mean": "student units and means",
    "": "student units with teacher units and means",
}

Content = dict[str, Any]  # of this schema
Trajectories = Trajectory | Sequence[Trajectory]
# The name of the number in which trajectories differ, and its values.
Over = Mapping[str, Numbers] | None


class Page(str):
    """A page as text. A notebook shows it inline, inside a frame."""

    def save(self, path: str | Path) -> Path:
        """Write the page as a file, completely or not at all; returns the path."""
        return write_text(path, self)

    def _repr_html_(self) -> str:
        size = 'width="100%" height="760" style="border: 0"'
        return f'<iframe srcdoc="{escape(self)}" {size}></iframe>'


def trajectory_page(
    trajectory: Trajectories,
    title: str | None = None,
    run: int | None = None,
    *,
    over: Over = None,
) -> Page:
    """A solved trajectory, or one run of a simulation, as a page with a time slider.

    It shows the learning curve with its phases and a marker that moves, and R and Q at
    the marked time as heat maps. The page is self-contained: it holds its data and its
    charts, and works without a network. A notebook shows it inline;
    `.save("theory.html")` writes it as a file. Records of more than a thousand times
    are thinned evenly. title: instead of the problem in words. Several tasks are one
    curve each; the phases are then those of their schedule. A list of trajectories that
    differ in one number gets a second slider, over={"similarity": V}.

    >>> import tutelage as tu
    >>> student = tu.Network(2, "erf")
    >>> problem = tu.Problem(student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem)
    >>> theory = tu.solve(problem, start, times=tu.linear_times(10, 11))
    >>> tu.page.trajectory_page(theory).startswith("<!doctype html>")
    True
    """
    if over is not None or isinstance(trajectory, list | tuple):
        return page_of(family_content(trajectory, over, title))
    content = trajectory_content(trajectory, title, run)
    problem = getattr(trajectory, "problem", None)
    if problem is not None:
        with suppress(InputError):  # a file cannot contain it
            toml = problem.to_toml()
            content["code"] = [{"name": "TOML", "text": toml, "file": "problem.toml"}]
    return page_of(content)


def page_of(content: Content) -> Page:
    """The page that shows data of the schema above."""
    phase_sentences = [
        f"{phase['name']} from {phase['start']:.4g} to {phase['end']:.4g}"
        for phase in content["phases"]
    ]
    return _page(
        title=content["title"],
        body=_template(capital("; ".join(phase_sentences)) + "."),
        styles=["page.css"],
        data=content,
        scripts=["page.js"],
        policy=POLICY,
        begin=BEGIN,
    )


def explorer_page(table: Content, local: bool) -> Page:
    """A page with controls, which is otherwise that of a trajectory.

    It fetches its data from the server that it came from, or (local) solves by itself.
    table: controls, presets and initial settings (presets.py), for explorer.js.
    """
    scripts = ["page.js", "formulas.js"]
    policy = POLICY
    if local:
        scripts += ["theory.js", "local.js"]
    else:
        policy = f"{POLICY}; connect-src 'self'"
    scripts += ["code.js", "explorer.js"]
    aside = _part("aside.html")
    return _page(
        title="tutelage explorer",
        body=f'<div class="beside">{aside}<div>{_template("")}</div></div>',
        styles=["page.css", "explorer.css"],
        data=table,
        scripts=scripts,
        policy=policy,
    )


def _template(without_scripts: str) -> str:
    """The body of a page, with a text for browsers that run no scripts."""
    template = _part("template.html")
    template = template.replace("{{without-scripts}}", escape(without_scripts))
    return template.replace("{{version}}", __version__)


def _page(
    *,
    title: str,
    body: str,
    styles: list[str],
    data: Content,
    scripts: list[str],
    policy: str,
    begin: str = "",
) -> Page:
    """One text of these parts; styles and scripts are names of files.

    begin: a statement to run at the end. The data are JSON in which nothing can end the
    script element.
    """
    json_data = json.dumps(
        data, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    json_data = json_data.replace("<", "\\u003c")
    plotly = _part("vendor/plotly-cartesian.min.js")
    elements = [
        body,
        f"<script>{plotly}</script>",
        f'<script id="data" type="application/json">{json_data}</script>',
    ]
    elements += [f"<script>{_part(name)}</script>" for name in scripts]
    if begin:
        elements.append(f"<script>{begin}</script>")
    css = "".join(_part(name) for name in styles)
    return Page(document(title, elements, css, HEAD.format(policy=policy)))


def _part(name: str) -> str:
    """The text of a file of this package."""
    return files("tutelage.page").joinpath(name).read_text(encoding="utf-8")


class Phase(NamedTuple):
    """An interval of time with a name and a color."""

    name: str
    start: float
    end: float
    color: str


class ShownCurve(NamedTuple):
    """A curve as a page shows it.

    errors: (time, task). unit_order: the student units in the order of the maps.
    """

    curve: Curve
    errors: np.ndarray
    unit_order: np.ndarray
    phases: list[Phase]


def trajectory_content(
    trajectory: object, title: str | None = None, run: int | None = None
) -> Content:
    """The data of a trajectory's page; `run` chooses one of several runs.

    Long records are thinned evenly.
    """
    if not isinstance(trajectory, Trajectory):
        raise InputError(
            f"trajectory is {kind_of(trajectory)}; give what solve or simulate "
            "returned."
        )
    if trajectory.kind == "equations":
        raise InputError(
            "the page shows overlaps R and Q, and custom equations have none; use "
            "plot.plot_trajectory."
        )
    if trajectory.tasks is None:
        shown = _curve_with_phases(trajectory, run)
    else:
        shown = _curve_with_schedule(trajectory, run)
    curve = shown.curve
    log_time = is_log_spaced(curve.times)
    maps = _maps(curve.variables, shown.unit_order, trajectory.problem)
    frames = _frames_of(curve.times, log_time, maps)
    errors = [numbers(error) for error in shown.errors[frames].T]
    heading, conditions = _heading_and_conditions(trajectory, run)

    content = {
        "title": title or heading,
        "conditions": conditions,
        "note": _note_on_order(shown.unit_order),
        "warning": _warning(trajectory),
        "time_name": "α = steps / N",
        "error_name": error_name(trajectory.problem).removesuffix(" e_g"),
        "log_time": log_time,
        "log_error": wants_log(shown.errors),
        "times": numbers(curve.times[frames]),
        "error": errors[0],
    }
    if trajectory.tasks is not None:
        content["tasks"] = [
            {"name": f"task {task + 1}", "error": error, "color": color_at(task)}
            for task, error in enumerate(errors)
        ]
    content["phases"] = [phase._asdict() for phase in shown.phases]
    content["maps"] = [
        heat_map | {"values": numbers(heat_map["values"][frames])} for heat_map in maps
    ]
    content["frames"] = frames.tolist()
    # The explorer fills what follows.
    return content | {"runs": [], "band": None, "escape": None, "code": []}


def _heading_and_conditions(trajectory: Trajectory, run: int | None) -> tuple[str, str]:
    """Title and conditions of a page, without the marks of mathematics in figures."""
    heading, conditions = title_and_conditions(trajectory)
    sentences = [conditions]
    for words in settings_in_words(trajectory):
        sentences.append(words.replace("$", "").replace("N=", "N = "))
    if run is not None:
        sentences.append(f"run {run}")
    return heading, ", ".join(words for words in sentences if words)


def _note_on_order(unit_order: np.ndarray) -> str:
    """A sentence if the student units are not in their own order."""
    if np.array_equal(unit_order, np.arange(unit_order.size)):
        return ""
    return (
        "Student units are in the order of the teacher units to which they specialize."
    )


def _warning(trajectory: Trajectory) -> str:
    """A sentence if the solve or the run did not finish."""
    if trajectory.finished:
        return ""
    if trajectory.kind == "simulation":
        return f"The run {trajectory.status}"
    return f"The solve {trajectory.status}"


def _curve_with_phases(trajectory: Trajectory, run: int | None) -> ShownCurve:
    """A curve with its phases.

    Student units are in the order of the teacher units that they end with, units
    without a teacher unit last.
    """
    result = _single_result(phases(trajectory, run))
    unit_order = np.arange(result.curve.variables["R"].shape[1])
    if result.specialization is not None:
        teacher_of_unit = result.specialization.permutation
        # Units without a teacher unit, which is negative, come after all others.
        after_all = unit_order.size + teacher_of_unit.max()
        rank = np.where(teacher_of_unit < 0, after_all, teacher_of_unit)
        unit_order = np.argsort(rank, kind="stable")
    colored = []
    for phase in result:
        color = PHASE_COLORS.get(phase.name, FAINT)
        colored.append(Phase(phase.name, phase.start, phase.end, color))
    return ShownCurve(
        curve=result.curve,
        errors=result.curve.error[:, None],
        unit_order=unit_order,
        phases=colored,
    )


def _curve_with_schedule(trajectory: Trajectory, run: int | None) -> ShownCurve:
    """The curves of several tasks.

    A phase lies between two switches. It is the task that the schedule shows, or the
    mixture of several tasks.
    """
    problem = trajectory.problem
    if problem is None or problem.several_tasks is None:
        raise InputError(
            "the trajectory has no problem; the page of several tasks needs it."
        )
    # An analysis reads one error: the mean over tasks. Those of the tasks go with the
    # variables, so that they are those of the same run.
    errors = np.asarray(trajectory.error, dtype=float)
    with_one_error = replace(
        trajectory,
        error=errors.mean(axis=-1),
        variables=trajectory.variables | {"errors": errors},
        problem=None,
    )
    curves = read_curves(with_one_error, run, "the page", lambda curve: curve)
    curve = _single_result(curves)
    end = float(curve.times[-1])
    tasks = problem.several_tasks
    assert tasks is not None
    return ShownCurve(
        curve=curve,
        errors=curve.variables["errors"],
        unit_order=np.arange(problem.student.hidden),
        phases=list(_phases_of_schedule(tasks, end)),
    )


def _phases_of_schedule(tasks: Tasks, end: float) -> Iterator[Phase]:
    """One phase between each two switches."""
    boundaries = [0.0, end]
    switches = tasks.switches(end)
    if switches is not None:
        boundaries += np.ravel(switches).tolist()
    times = np.unique(boundaries)
    for start, stop in pairwise(times[times <= end].tolist()):
        shares = np.asarray(tasks.probabilities((start + stop) / 2))
        main_task = int(np.argmax(shares))
        main_share = shares[main_task]
        color = FAINT
        if main_share > 0.5 + 1e-9:  # a majority
            color = color_at(main_task)
        yield Phase(name=_shares_in_words(shares), start=start, end=stop, color=color)


def _shares_in_words(shares: np.ndarray) -> str:
    """The only task that is shown, or the mixture of tasks with their shares."""
    main_task = int(np.argmax(shares))
    if shares[main_task] > 1 - 1e-9:
        return f"task {main_task + 1}"
    return " + ".join(
        f"{share:.0%} task {task + 1}" for task, share in enumerate(shares) if share > 0
    )


def _single_result(result: Any) -> Any:
    """The result of an analysis of one curve; several runs have several."""
    if isinstance(result, RunResults):
        raise InputError(
            f"the trajectory has {len(result)} runs; the page shows one curve. Choose "
            "one, such as run=0."
        )
    return result


def family_content(
    trajectories: Trajectories, over: Over, title: str | None = None
) -> Content:
    """The data of several trajectories that differ in one number.

    They are those of the first, and what differs in the others.
    """
    if not isinstance(over, dict) or len(over) != 1:
        raise InputError(
            f"over is {checks.shown(over)}; name the one number that differs: "
            "over={'similarity': values}."
        )
    ((name, values),) = over.items()
    labels = [f"{float(value):.4g}" for value in np.ravel(values)]
    if isinstance(trajectories, Trajectory):
        trajectories = [trajectories]
    contents = [trajectory_content(trajectory, title) for trajectory in trajectories]
    if len(labels) != len(contents) or not contents:
        raise InputError(
            f"over has {len(labels)} values of {name} for {len(contents)} "
            "trajectories; give one each."
        )
    first = contents[0]
    for content in contents:
        same_times = content["times"] == first["times"]
        if not same_times or len(content["maps"]) != len(first["maps"]):
            raise InputError(
                "the trajectories have different times or overlaps; solve all of them "
                "at the same times."
            )
    variants = [
        {part: content[part] for part in VARIANT_PARTS if part in content}
        for content in contents
    ]
    _share_color_ranges(contents)
    family = {"name": str(name), "labels": labels, "list": variants}
    return first | {"variants": family}


def _share_color_ranges(contents: list[Content]) -> None:
    """Give each map the same range of colors in all contents."""
    maps_of_contents = [content["maps"] for content in contents]
    for same_map in zip(*maps_of_contents, strict=True):
        bound = max(heat_map["bound"] for heat_map in same_map)
        for heat_map in same_map:
            heat_map["bound"] = bound


class MapAxis(NamedTuple):
    """The axis of a map: its name, and the labels of its rows or columns."""

    name: str
    labels: Iterable[object]


def _maps(
    variables: dict[str, np.ndarray], unit_order: np.ndarray, problem: Problem | None
) -> list[Content]:
    """R and Q, and readouts and biases if they are trained."""
    R = variables["R"]
    Q = variables["Q"]
    kind, columns = columns_of_R(problem, R.shape[2])
    students = MapAxis("student", unit_order + 1)
    maps = [
        _map(
            name="R",
            title=COLUMNS_IN_WORDS.get(kind, "student and teacher units"),
            rows=students,
            columns=MapAxis(kind, columns),
            values=R[:, unit_order],
        ),
        _map(
            name="Q",
            title="student units",
            rows=students,
            columns=students,
            values=Q[:, unit_order][:, :, unit_order],
        ),
    ]
    for name, letter, title in (("readout", "v", "readouts"), ("bias", "b", "biases")):
        values = variables.get(name)
        # What is not trained stays constant.
        if values is None or np.ptp(values, axis=0).max() == 0:
            continue
        if values.ndim == 3:  # (time, head, unit)
            heads = _axis_of_heads(kind, values.shape[1])
            by_unit = np.swapaxes(values, 1, 2)
        else:
            heads = MapAxis("", [letter])
            by_unit = values[:, :, None]
        maps.append(
            _map(
                name=letter,
                title=title,
                rows=students,
                columns=heads,
                values=by_unit[:, unit_order],
            )
        )
    return maps


def _axis_of_heads(kind: str, count: int) -> MapAxis:
    """The axis of heads of tasks, or of several outputs."""
    numbers_from_one = range(1, count + 1)
    if kind.startswith("task"):
        return MapAxis("task", numbers_from_one)
    return MapAxis("output", numbers_from_one)


def _map(
    *, name: str, title: str, rows: MapAxis, columns: MapAxis, values: np.ndarray
) -> Content:
    """One heat map over time."""
    largest = np.max(np.abs(values))
    bound = float(f"{largest:.3g}")  # as many digits as a reader needs
    return {
        "name": name,
        "title": f"{name}: {title}",
        "rows": {"name": rows.name, "labels": [str(label) for label in rows.labels]},
        "columns": {
            "name": columns.name,
            "labels": [str(label) for label in columns.labels],
        },
        "values": values,
        "bound": bound or 1.0,
    }


def _frames_of(
    times: np.ndarray, log_time: bool, maps: Sequence[Content]
) -> np.ndarray:
    """The indices of the recorded times that are shown.

    On a logarithmic axis there is no time zero.
    """
    on_axis = np.arange(times.size)
    if log_time:
        on_axis = np.flatnonzero(times > 0)
    entries = sum(heat_map["values"][0].size for heat_map in maps)
    return on_axis[_frames(on_axis.size, entries)]


def _frames(count: int, entries: int) -> np.ndarray:
    """The indices of the frames out of `count` times, for maps with so many entries.

    They are all, or evenly many of them, the first and the last included.
    """
    most = min(MOST_FRAMES, MOST_NUMBERS // entries)
    if most < LEAST_FRAMES:
        limit = MOST_NUMBERS // LEAST_FRAMES
        raise InputError(
            f"there are {entries} overlaps; a page shows at most {limit}. Use "
            "plot.plot_trajectory."
        )
    places = np.linspace(0, count - 1, min(count, most))
    return np.unique(places.round().astype(int))


def numbers(values: ArrayLike) -> list[Any]:
    """Nested lists of numbers with six digits; null for those that are not finite."""
    rounded = np.vectorize(_six_digits, otypes=[object])
    return rounded(np.asarray(values, dtype=float)).tolist()


def _six_digits(number: float) -> float | None:
    if not math.isfinite(number):
        return None
    return float(f"{number:.6g}")


# The explorer: its controls move a theory that is solved in the browser (theory.js)


def standalone(
    problem: Problem | None = None,
    start: Start | str | None = None,
    times: ArrayLike | None = None,
    **settings: Value,
) -> Page:
    """The explorer as one HTML page that solves by itself.

    It needs no server, no network and no installation. The page covers erf, linear and
    quadratic networks with up to 6 units each, squared loss, one or two tasks, and
    isotropic or power-law inputs with up to 16 levels. Put it on a website, or show it
    inside another page: `<iframe src="...">`.

    Parameters
    ----------
    problem, start, times : Problem, Start, array_like, optional
        What the page shows first, as `solve` takes them. Without a problem the page
        begins with the default settings. A start may also be a word of the control:
        "random weights" or "asymmetric".
    **settings
        Values of controls to begin with, such as `lr=0.3, students=2`; the defaults are
        those of `tutelage explore`.

    Returns
    -------
    Page
        The page as text. A notebook shows it inline; its method `save(path)` writes it
        as a file.

    Examples
    --------
    >>> import tutelage as tu
    >>> page = tu.page.standalone(students=2, teachers=2, lr=1.0)
    >>> len(page) < 2_500_000
    True
    """
    if isinstance(start, str):
        settings = settings | {"start": start}
        start = None
    if problem is None and (start is not None or times is not None):
        raise InputError(
            "start or times is given without a problem; give the problem first, or "
            "settings such as lr=0.3."
        )
    if problem is None:
        of_problem = Settings.read({})
    else:
        of_problem = Settings.of(problem, start, times)
    start_overlaps = of_problem.start_overlaps
    if "start" in settings:  # the control replaces the start of the problem
        start_overlaps = None
    chosen = replace(
        Settings.read(of_problem.values | settings),
        toml=of_problem.toml,
        start_overlaps=start_overlaps,
    )
    if not is_local(chosen):
        raise _not_local(problem)
    table = explorer_table(chosen, local=True)
    tables = _tables_of_solver() | {"given": chosen.start_overlaps}
    return explorer_page(table | {"tables": tables}, local=True)


def _not_local(problem: Problem | None) -> InputError:
    """The error for settings, or a problem, that the browser cannot solve."""
    who = "this problem needs"
    file_hint = " and drop a file with problem.to_toml() onto its page"
    if problem is None:
        who = "these settings need"
        file_hint = ""
    return InputError(
        "a page without a server solves erf, linear and quadratic networks of up to 6 "
        f"units with squared loss and up to 16 levels; {who} more. Use `tutelage "
        f"explore`{file_hint}."
    )


def _tables_of_solver() -> Content:
    """Numbers that the solver and the charts in the browser share with Python."""
    method = {
        "nodes": dormand_prince.NODES.tolist(),
        "stages": dormand_prince.STAGES.tolist(),
        "errors": dormand_prince.ERRORS.tolist(),
        "weights": dormand_prince.WEIGHTS.tolist(),
    }
    spectrum = digit_spectrum()
    digits = {
        "lam": spectrum.eigenvalues.tolist(),
        "fractions": spectrum.fractions.tolist(),
    }
    return {
        "method": method,
        "phaseColors": PHASE_COLORS,
        "colors": COLORS,
        "faint": FAINT,
        "digits": digits,
    }


def trajectory_widget(trajectory: Trajectory) -> Page:
    """The explorer at the problem, start and times of a solve.

    If it cannot solve in the browser, the page of the curve.
    """
    problem = trajectory.problem
    is_single_solve = trajectory.kind == "theory" and np.ndim(trajectory.times) == 1
    if is_single_solve and problem is not None:
        with suppress(InputError):
            return standalone(problem, trajectory.start, trajectory.times)
    return trajectory_page(trajectory)
