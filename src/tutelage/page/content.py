"""What the page shows, as plain data: the one schema between Python and the script.

    title, conditions    sentences: who learns from whom, and how
    note                 a sentence about the rows, or "" (the order of the students)
    warning              a sentence, or "": the solve did not finish
    time_name            what time is: "α = steps / N"
    log_time, log_error  booleans: which axes are logarithmic at first
    times, error         (frame,): numbers
    phases               in the order of time, without gaps: {name, start, end, color}
    maps                 {name, title, rows, columns, values}: rows, columns {name, labels}; values (frame, row, column)
    bound                the largest |value| of all maps: colors run from -bound to bound at every time
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

from itertools import pairwise
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError, kind_of
from tutelage.analysis.curves.curve import Curve, RunResults
from tutelage.analysis.curves.phases import Phases, phases
from tutelage.plot.axes import is_log_spaced, wants_log
from tutelage.plot.labels import capital, problem_in_words, settings_in_words
from tutelage.plot.learning_curve import PHASE_COLORS
from tutelage.plot.style import COLORS, FAINT
from tutelage.trajectory import Trajectory

MOST_FRAMES, LEAST_FRAMES = 1001, 20
MOST_NUMBERS = 150_000  # in all maps: more than a page should carry
COLUMNS = {"readout": ("v", "readouts"), "bias": ("b", "biases")}


def trajectory_content(trajectory: Trajectory, title: str | None = None, run: int | None = None) -> dict[str, Any]:
    """The data of a trajectory's page; `run` chooses one of several runs. Long records are thinned evenly."""
    if getattr(trajectory, "tasks", None) is not None:
        return _tasks_content(trajectory, title, run)
    found = _phases(trajectory, run)
    curve = found.curve
    who, how = problem_in_words(curve.problem) if curve.problem is not None else ("Order parameters", "")
    order, note = _order(found)
    maps = _maps(curve, order)
    log_time = is_log_spaced(curve.times)
    shown = np.flatnonzero(curve.times > 0) if log_time else np.arange(curve.times.size)
    frames = shown[_frames(shown.size, sum(m["values"][0].size for m in maps))]
    bound = max(float(np.max(np.abs(m["values"]))) for m in maps)
    which = [] if run is None else [f"run {run}"]
    conditions = [how, *(words.replace("$", "") for words in settings_in_words(trajectory)), *which]
    return {
        "title": title or who,
        "conditions": ", ".join(words for words in conditions if words),
        "note": note,
        "warning": "" if trajectory.finished else f"The {'run' if curve.noisy else 'solve'} {trajectory.status}",
        "time_name": "α = steps / N",
        "log_time": log_time,
        "log_error": wants_log(curve.error),
        "times": numbers(curve.times[frames]),
        "error": numbers(curve.error[frames]),
        "phases": [
            {"name": p.name, "start": p.start, "end": p.end, "color": PHASE_COLORS.get(p.name, FAINT)} for p in found
        ],
        "maps": [m | {"values": numbers(m["values"][frames])} for m in maps],
        "bound": float(f"{bound:.3g}") or 1.0,
        "frames": frames.tolist(),
        "runs": [],
        "band": None,
        "escape": None,
        "code": [],
    }


def _tasks_content(trajectory: Any, title: str | None, run: int | None) -> dict[str, Any]:
    """The data of several tasks: a curve for each, the phases of the schedule, overlaps by task."""
    problem, tasks = trajectory.problem, trajectory.problem.teacher
    times, error = np.asarray(trajectory.times, dtype=float), np.asarray(trajectory.error, dtype=float)
    variables = {name: np.asarray(value, dtype=float) for name, value in trajectory.variables.items()}
    if error.ndim == 3:
        if run is None:
            raise InputError(f"the trajectory has {len(error)} runs; the page shows one. Choose one, such as run=0.")
        if not 0 <= run < len(error):
            raise InputError(f"run is {run}; this trajectory has runs 0 to {len(error) - 1}.")
        error, variables = error[run], {name: value[run] for name, value in variables.items()}
    kept = np.all(np.isfinite(error), axis=1)
    times, error = times[kept], error[kept]
    variables = {name: value[kept] for name, value in variables.items()}
    students, columns = _axis("student", range(1, problem.student.hidden + 1)), _task_axis(tasks)
    maps = [
        _map("R", "students and teachers", students, columns, variables["R"]),
        _map("Q", "students and students", students, students, variables["Q"]),
    ]
    readout = variables.get("readout")
    if readout is not None and readout.ndim == 2:
        readout = readout[:, None]
    if readout is not None and readout.ndim == 3 and np.ptp(readout, axis=0).max() > 0:
        heads = _axis("task", range(1, tasks.count + 1)) if readout.shape[1] == tasks.count else _axis("", ["v"])
        maps.append(_map("v", "readouts", students, heads, np.swapaxes(readout, 1, 2)))
    frames = _frames(times.size, sum(m["values"][0].size for m in maps))
    who, how = problem_in_words(problem)
    which = [] if run is None else [f"run {run}"]
    bound = max(float(np.max(np.abs(m["values"]))) for m in maps)
    curves = [
        {"name": f"task {s + 1}", "error": numbers(error[frames, s]), "color": COLORS[s % len(COLORS)]}
        for s in range(tasks.count)
    ]
    return {
        "title": title or who,
        "conditions": ", ".join([how, *(words.replace("$", "") for words in settings_in_words(trajectory)), *which]),
        "note": "",
        "warning": "" if trajectory.finished else f"The {'solve' if run is None else 'run'} {trajectory.status}",
        "time_name": "α = steps / N",
        "log_time": False,
        "log_error": wants_log(error.T.ravel()),
        "times": numbers(times[frames]),
        "error": curves[0]["error"],
        "tasks": curves,
        "phases": _task_phases(tasks, float(times[-1])),
        "maps": [m | {"values": numbers(m["values"][frames])} for m in maps],
        "bound": float(f"{bound:.3g}") or 1.0,
        "frames": frames.tolist(),
        "runs": [],
        "band": None,
        "escape": None,
        "code": [],
    }


def _task_axis(tasks: Any) -> dict[str, Any]:
    """Teacher units by their task: "1", "2", or "1.1", "1.2", "2.1" where a task has several."""
    own = tasks.task_of_units
    if own.size == tasks.count:
        return _axis("task", own + 1)
    return _axis("task.unit", [f"{s + 1}.{np.sum(own[:m] == s) + 1}" for m, s in enumerate(own)])


def _task_phases(tasks: Any, end: float) -> list[dict[str, Any]]:
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


def family_content(trajectories: Any, over: Any, title: str | None = None) -> dict[str, Any]:
    """The data of several trajectories that differ in one number: that of the first, and what differs in the others."""
    if not isinstance(over, dict) or len(over) != 1:
        raise InputError(f"over is {checks.shown(over)}; name the one number that differs: over={{'similarity': values}}.")
    ((name, values),) = over.items()
    labels = [f"{float(value):.4g}" for value in np.ravel(values)]
    contents = [trajectory_content(each, title) for each in trajectories]
    if len(labels) != len(contents) or not contents:
        raise InputError(
            f"over has {len(labels)} values of {name} and there are {len(contents)} trajectories; give one each."
        )
    first = contents[0]
    if any(c["times"] != first["times"] or len(c["maps"]) != len(first["maps"]) for c in contents):
        raise InputError("the trajectories have different times or overlaps; solve all of them at the same times.")
    parts = ("conditions", "warning", "note", "error", "tasks", "phases", "maps")
    variants = [{part: c[part] for part in parts if part in c} for c in contents]
    bound = max(c["bound"] for c in contents)
    return first | {"bound": bound, "variants": {"name": str(name), "labels": labels, "list": variants}}


def _phases(trajectory: Any, run: int | None) -> Phases:
    if not isinstance(trajectory, Trajectory):
        raise InputError(f"trajectory is {kind_of(trajectory)}; give what solve or simulate returned.")
    if trajectory.kind == "equations":
        raise InputError(
            "the page shows the overlaps R and Q of a Problem; a system of one's own has none. Use plot.plot_trajectory."
        )
    found = phases(trajectory, run)
    if isinstance(found, RunResults):
        raise InputError(f"the trajectory has {len(found)} runs; the page shows one curve. Choose one, such as run=0.")
    return found


def _order(found: Phases) -> tuple[np.ndarray, str]:
    """Students in the order of the teachers that they end with, those without one last; and a sentence that says so."""
    count = found.curve.variables["R"].shape[1]
    if found.specialization is None:
        return np.arange(count), ""
    own = found.specialization.permutation
    order = np.argsort(np.where(own < 0, count + own.max(), own), kind="stable")
    if np.array_equal(order, np.arange(count)):
        return order, ""
    return order, "Students are in the order of the teachers that they end with."


def _maps(curve: Curve, order: np.ndarray) -> list[dict[str, Any]]:
    """R and Q, and what else of the students is trained."""
    R, Q = curve.variables["R"], curve.variables["Q"]
    students = _axis("student", order + 1)
    maps = [
        _map("R", "students and teachers", students, _axis("teacher", np.arange(R.shape[2]) + 1), R[:, order]),
        _map("Q", "students and students", students, students, Q[:, order][:, :, order]),
    ]
    for name, (letter, words) in COLUMNS.items():
        values = curve.variables.get(name)
        if values is not None and np.ptp(values, axis=0).max() > 0:
            maps.append(_map(letter, words, students, _axis("", [letter]), values[:, order, None]))
    return maps


def _axis(name: str, labels: Any) -> dict[str, Any]:
    return {"name": name, "labels": [str(label) for label in labels]}


def _map(name: str, words: str, rows: dict[str, Any], columns: dict[str, Any], values: np.ndarray) -> dict[str, Any]:
    return {"name": name, "title": f"{name}: {words}", "rows": rows, "columns": columns, "values": values}


def _frames(count: int, entries: int) -> np.ndarray:
    """Which recorded times to show: all, or evenly many of them, the first and the last included."""
    most = min(MOST_FRAMES, MOST_NUMBERS // entries)
    if most < LEAST_FRAMES:
        raise InputError(
            f"there are {entries} overlaps; a page shows at most {MOST_NUMBERS // LEAST_FRAMES}. Use plot.plot_trajectory."
        )
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def numbers(values: np.ndarray) -> Any:
    """Nested lists of six digits; null where there is no number."""
    values = np.asarray(values, dtype=float)
    finite = np.isfinite(values)
    size = np.abs(np.where(finite & (values != 0), values, 1.0))
    power = 10.0 ** np.clip(5 - np.floor(np.log10(size)), -300, 300)
    rounded = (np.round(np.where(finite, values, 0.0) * power) / power).astype(object)
    rounded[~finite] = None
    return rounded.tolist()


def code_of(problem: Any) -> list[dict[str, str]]:
    """The problem as a file for the command line, if a file can hold it."""
    try:
        text = problem.to_toml()
    except (AttributeError, InputError):
        return []
    return [{"name": "TOML", "text": text, "file": "problem.toml"}]


def phases_in_words(content: dict[str, Any]) -> str:
    """For a reader without scripts."""
    parts = [f"{p['name']} from {p['start']:.4g} to {p['end']:.4g}" for p in content["phases"]]
    return capital("; ".join(parts)) + "."
