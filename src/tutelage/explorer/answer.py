"""Answers to the explorer's page, in parts: the curve, then details that take longer.

Each part has its name. A part that does not apply to these settings says so in one
sentence (`note`), and is not an error. The page also offers files to keep: the curve as
NetCDF, and the explorer without a server. A server asks for one part at a time, to stop
after any.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

import tutelage as tu
from tutelage import InputError
from tutelage.analysis.noise import Fluctuations, fluctuations_along
from tutelage.page.controls import CLUSTERS, DECAYING, XOR
from tutelage.page.document import numbers, standalone, trajectory_content
from tutelage.page.settings import Settings
from tutelage.problem.traits import CLASSIC, missing_traits
from tutelage.result.trajectory import Trajectory
from tutelage.training.schedules import rate_at

# Shares of the time up to which a long solve sends its curve, one after the other
STRETCHES = (0.03, 0.2, 1.0)
SLOW = {"tanh", "gelu"}  # averaged by quadrature
MOST_STEPS = 40_000_000  # of one simulated network: about twenty seconds
MAX_SOLVER_STEPS = 1_000_000
TOO_FEW = 20  # recorded times that make no curve
SEARCH: dict[str, Any] = {  # for a schedule
    "segments": 8,
    "shape": "smooth",
    "starts": 1,
    "iterations": 30,
}
RTOL_ON_PAGE = 1e-7  # relative tolerance of a curve that is only looked at
RTOL_IN_FILE = 1e-8  # and of one that is kept

Part = dict[str, Any]  # of an answer, as JSON


class _Detail(NamedTuple):
    """A part of the details, with the words of the progress bar."""

    name: str
    words: str
    compute: Callable[[], Part]


def curve(settings: Settings) -> Iterator[Part]:
    """Yield the learning curve and the share of the time that it covers.

    A long solve comes in stretches, each with more of the time.
    """
    shares = STRETCHES if is_long(settings) else (1.0,)
    for share in shares:
        theory = theory_of(settings, share, rtol=RTOL_ON_PAGE)
        content = trajectory_content(theory)
        code = {"name": "TOML", "text": settings.as_toml(), "file": "problem.toml"}
        content["code"] = [code]
        if not theory.finished:
            # it ends before: there are no more stretches
            yield {"part": "curve", "content": content, "share": 1.0}
            return
        yield {"part": "curve", "content": content, "share": share}


def theory_of(
    settings: Settings, share: float = 1.0, rtol: float = RTOL_IN_FILE
) -> Trajectory:
    """Return the trajectory up to a share of the time.

    One that ends after few recorded times is solved again at more of them.
    """
    problem = settings.problem()
    start = settings.first(problem)
    theory = tu.solve(
        problem,
        start,
        share * settings.times(),
        rtol=rtol,
        accuracy=None,
        max_steps=MAX_SOLVER_STEPS,
    )
    if theory.finished or theory.times.size > TOO_FEW:
        return theory
    times = tu.linear_times(0.999 * float(theory.end_time))
    finer = tu.solve(problem, start, times, accuracy=None, max_steps=MAX_SOLVER_STEPS)
    ending = (theory.status_code, theory.end_time)
    return eqx.tree_at(lambda t: (t.status_code, t.end_time), finer, ending)


def is_long(settings: Settings) -> bool:
    """Return True if a solve may take more than a second or so."""
    if settings.toml:
        return not settings.problem().closed_form
    is_slow = (
        settings["loss"] != "squared"
        or settings["labels"] != "real"
        or settings["spectrum"] in (CLUSTERS, XOR)
        or settings["activation"] in SLOW
    )  # averages over points
    units = settings["students"] * settings["teachers"]
    most_units = 4 if is_slow else 25
    levels = 1
    if settings["spectrum"] == DECAYING:
        levels = settings["levels"]
    return (
        units > most_units
        or units * levels > 150
        or settings["lr"] * settings["end"] > 5000
    )


def details(settings: Settings) -> Iterator[Part]:
    """Yield results that take longer than the curve.

    A detail that does not apply has a note, and the others follow.
    """
    yield {"part": "doing", "words": "solving to full accuracy", "share": 0.0}
    todo = _details_of(settings, theory_of(settings))
    for i, detail in enumerate(todo, 1):
        yield {"part": "doing", "words": detail.words, "share": i / (len(todo) + 1)}
        try:
            yield {"part": detail.name, **detail.compute()}
        except InputError as error:
            yield {"part": detail.name, "note": str(error)}


def _details_of(settings: Settings, theory: Trajectory) -> list[_Detail]:
    """Return the details that the page shows for these settings."""
    problem = settings.problem()
    start = settings.first(problem)
    frames = trajectory_content(theory)["frames"]
    runs = settings["runs"]
    todo = []
    for i in range(runs):
        words = f"simulating network {i + 1} of {runs}"
        compute = partial(_run, problem, start, theory, i, frames)
        todo.append(_Detail("runs", words, compute))
    # rate and noise do not change the critical rates: one cached result serves all
    plain = problem.replace(lr=1.0, noise=0.0)
    words = "critical and best learning rate"
    todo.append(_Detail("rates", words, lambda: _rates(plain.to_toml())))
    if theory.finished and problem.closed_form:  # else they take minutes
        if settings["band"]:
            dim = start.dim or settings["dim"]
            compute = partial(_band, theory, dim, frames)
            todo.append(_Detail("band", "band of single networks", compute))
        compute = partial(_escape, problem, start)
        todo.append(_Detail("escape", "time of escape", compute))
    return todo


def _escape(problem: tu.Problem, start: tu.Start) -> Part:
    return {"escape": tu.analysis.escape_time(problem, start).time}


@lru_cache(maxsize=256)
def _rates(toml: str) -> Part:
    """Return the rates of a problem file.

    They take seconds; moving the slider of the learning rate does not compute them
    again.
    """
    problem = tu.Problem.from_toml(toml)
    if missing_traits(problem, (*CLASSIC, "plain SGD")):
        raise InputError(
            "No critical rate is marked; it is known for one teacher, real labels, "
            "squared loss and one Gaussian as input law."
        )
    critical = tu.analysis.critical_learning_rate(problem)
    best = tu.analysis.best_constant_rate(problem)
    return {"critical": float(critical), "best": float(best)}


def _run(
    problem: tu.Problem,
    start: tu.Start,
    theory: Trajectory,
    index: int,
    frames: list[int],
) -> Part:
    """Return the error of one simulated network at the frames of the page."""
    end = theory.times[-1]
    steps = (start.dim or 0) * float(end)
    if steps > MOST_STEPS:
        raise InputError(
            f"a run of N = {start.dim} to alpha = {end:g} has {steps:.2g} steps, "
            f"the page at most {MOST_STEPS:.0e}. Lower N or the last time, "
            "or use `tutelage simulate`."
        )
    run = tu.simulate(problem, start, times=theory.times, runs=1, seed=index)
    errors = np.asarray(run.error)[0, frames]  # (frame,), or (frame, task)
    error_of_tasks = np.atleast_2d(errors.T)  # (task, frame)
    return {"index": index, "errors": numbers(error_of_tasks)}


def _band(theory: Trajectory, dim: int, frames: list[int]) -> Part:
    """Return the band of two standard deviations, as far as it can be trusted."""
    fluctuations = fluctuations_along(theory, dim)
    trusted = fluctuations.trusted_times[frames]
    count = trusted.size
    if not trusted.all():
        count = int(np.argmin(trusted))
    error = np.asarray(theory.error)[frames][:count]
    sd = fluctuations.sd("error")[frames][:count]
    low = np.maximum(error - 2 * sd, error / 10)  # above zero on a logarithmic axis
    band: Part | None = None
    extent = "None is drawn."
    if count > 1:  # one point is no band
        band = {"dim": dim, "low": numbers(low), "high": numbers(error + 2 * sd)}
        end = float(theory.times[frames[count - 1]])
        extent = f"It ends at α = {end:.4g}."
    if count == trusted.size:
        return {"band": band}
    reason = _end_of_band(fluctuations, frames[count])
    return {"band": band, "note": f"{extent} {reason}"}


def _end_of_band(fluctuations: Fluctuations, index: int) -> str:
    """Say why there is no band from this recorded time on, and what to do."""
    if fluctuations.wide[index]:
        return (
            "From there the scatter of single networks is not small against the error; "
            "raise N."
        )
    return (
        "From there SGD noise, not only the initial condition, decides when a single "
        "network escapes from the plateau "
        f"(asymmetry/noise = {fluctuations.start_to_noise:.2g})."
    )


def protocol(settings: Settings, what: str) -> Iterator[Part]:
    """Yield the best schedule for the smallest final error, and its curve.

    what: the schedule, "lr" or "tasks".
    """
    yield {
        "part": "doing",
        "words": "searching for the best schedule",
        "share": None,
    }
    problem = settings.problem()
    times = settings.times()
    start = settings.first(problem)
    end = float(times[-1])
    highest = 1.0
    if what == "lr":
        present = problem.optimizer.lr
        highest = _highest_rate(problem, times)
    else:
        present = getattr(problem.teacher, "schedule", None)
    try:
        best = tu.schedules.optimize(
            problem,
            start,
            end,
            {what: (0.0, highest)},
            baselines={"these settings": {what: present}},
            **SEARCH,
        )
    except InputError as error:
        yield {"part": "protocol", "note": str(error)}
        return
    yield {"part": "doing", "words": "drawing the best schedule", "share": 0.9}
    theory = tu.solve(best.problem, start, times, rtol=RTOL_ON_PAGE, accuracy=None)
    content = trajectory_content(theory)
    curves = content.get("tasks", [content])
    schedule = best.schedule.shares if what == "tasks" else best.schedule
    schedule_times = np.linspace(0.0, end, 81)
    values = [rate_at(schedule, t) for t in schedule_times]
    gains = []
    for name, gain in best.gains.items():
        gains.append(f"{gain:.3g} times smaller than with {name}")
    yield {
        "part": "protocol",
        "what": what,
        "schedule": {"times": numbers(schedule_times), "values": numbers(values)},
        "times": content["times"],
        "errors": [curve["error"] for curve in curves],
        "words": f"The final error is {' and '.join(gains)}.",
        "toml": best.problem.to_toml(),
    }


def _highest_rate(problem: tu.Problem, times: np.ndarray) -> float:
    """Return the largest rate to search: twice the present one, or the critical one."""
    rates = [np.max(rate_at(problem.optimizer.lr, t)) for t in times]
    highest = 2.0 * float(np.max(rates))
    with suppress(InputError):
        critical = float(tu.analysis.critical_learning_rate(problem))
        highest = max(highest, critical)
    return highest


def netcdf(settings: Settings) -> Iterator[bytes]:
    """Yield the theory's trajectory, as `Trajectory.save` writes it."""
    dataset = theory_of(settings).to_dataset()
    yield bytes(dataset.to_netcdf(engine="h5netcdf"))


def page(settings: Settings) -> Iterator[bytes]:
    """Yield the explorer as a page that needs no server."""
    yield standalone(**settings.values).encode()


ANSWERS: dict[str, Callable[[Settings], Iterator[Part | bytes]]] = {
    "curve": curve,
    "details": details,
    "optimize lr": partial(protocol, what="lr"),
    "optimize tasks": partial(protocol, what="tasks"),
    "curve.nc": netcdf,
    "explorer.html": page,
}


# In a worker. The import of this module imports JAX, before the first request.


def prepare() -> None:
    """Hide warnings, whose texts are in the answers too."""
    warnings.simplefilter("ignore")


# The parts that are left of the answer under way
_parts: Iterator[Part | bytes] = iter(())


def next_part(kind: str = "", settings: Settings | None = None) -> str | bytes | None:
    """Return the next part of an answer, as JSON or a file; None after the last.

    kind, settings: of a new answer.
    """
    global _parts
    try:
        if settings is not None:
            _parts = ANSWERS[kind](settings)
        part = next(_parts, None)
    except MemoryError:
        raise InputError(
            "This problem needs more memory than there is; make it smaller."
        ) from None
    if isinstance(part, dict):
        return json.dumps(part, allow_nan=False)
    return part
