"""From settings to what the page shows, in parts: the curve, then details that take longer, each with the name of its part.

A part that does not apply to these settings says so in one sentence (`note`), and is not an error. The page also offers files
to keep: the curve as NetCDF, and the explorer without a server. A server asks for one part at a time, to stop after any.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import numpy as np

import tutelage as tu
from tutelage import InputError
from tutelage.analysis.noise import Fluctuations, fluctuations_along
from tutelage.page.document import numbers, standalone, trajectory_content
from tutelage.page.settings import CLUSTERS, DECAYING, XOR, Settings
from tutelage.problem.schedules import rate_at
from tutelage.problem.traits import CLASSIC, missing_traits
from tutelage.trajectory import Trajectory

STRETCHES = (0.03, 0.2, 1.0)  # of a long solve: it comes in curves up to these shares of the time
SLOW = {"tanh", "gelu"}  # averaged by quadrature
MOST_STEPS = 40_000_000  # of one simulated network: about twenty seconds
MAX_SOLVER_STEPS = 1_000_000
TOO_FEW = 20  # recorded times that make no curve
SEARCH: dict[str, Any] = {"segments": 8, "shape": "smooth", "starts": 1, "iterations": 30}  # for a schedule
DRAWN, KEPT = 1e-7, 1e-8  # relative tolerances: of a curve that is looked at, and of one that is kept

Part = dict[str, Any]


def curve(settings: Settings) -> Iterator[Part]:
    """The learning curve and how much of the time it covers; a long solve comes in stretches, each with more of it."""
    for share in STRETCHES if is_long(settings) else (1.0,):
        theory = theory_of(settings, share, rtol=DRAWN)
        content = trajectory_content(theory)
        content["code"] = [{"name": "TOML", "text": settings.as_toml(), "file": "problem.toml"}]
        yield {"part": "curve", "content": content, "share": share if theory.finished else 1.0}
        if not theory.finished:
            return


def theory_of(settings: Settings, share: float = 1.0, rtol: float = KEPT) -> Trajectory:
    """The trajectory up to a share of the time. One that ends after few recorded times is solved again at more of them."""
    problem, times = settings.problem(), share * settings.times()
    start = settings.first(problem)
    theory = tu.solve(problem, start, times, rtol=rtol, accuracy=None, max_steps=MAX_SOLVER_STEPS)
    if theory.finished or theory.times.size > TOO_FEW:
        return theory
    times = tu.linear_times(0.999 * float(theory.end_time))
    within = tu.solve(problem, start, times, accuracy=None, max_steps=MAX_SOLVER_STEPS)
    return eqx.tree_at(lambda t: (t.status_code, t.end_time), within, (theory.status_code, theory.end_time))


def is_long(settings: Settings) -> bool:
    """Whether a solve may take more than a second or so."""
    if settings.toml:
        return not settings.problem().closed_form
    size = settings["students"] * settings["teachers"]
    classic = (settings["loss"], settings["labels"]) == ("squared", "real") and settings["spectrum"] not in (CLUSTERS, XOR)
    slow = not classic or settings["activation"] in SLOW  # averages over points
    levels = settings["levels"] if settings["spectrum"] == DECAYING else 1
    return size > (4 if slow else 25) or size * levels > 150 or settings["lr"] * settings["end"] > 5000


def details(settings: Settings) -> Iterator[Part]:
    """What is worth knowing once the curve is there; what does not apply does not spoil the rest."""
    yield {"part": "doing", "words": "solving to full accuracy", "share": 0.0}
    theory, problem, runs = theory_of(settings), settings.problem(), settings["runs"]
    start, frames = settings.first(problem), trajectory_content(theory)["frames"]
    plain = problem.replace(lr=1.0, noise=0.0)  # neither has to do with the rates
    parts: list[tuple[str, str, Callable[[], Part]]] = [
        ("runs", f"simulating network {index + 1} of {runs}", partial(_run, problem, start, theory, index, frames))
        for index in range(runs)
    ]
    parts.append(("rates", "critical and best learning rate", lambda: _rates(plain.to_toml())))
    if theory.finished and problem.closed_form:  # else they take minutes
        if settings["band"]:
            dim = start.dim or settings["dim"]
            parts.append(("band", "band of single networks", lambda: _band(theory, dim, frames)))
        parts.append(("escape", "time of escape", lambda: {"escape": tu.analysis.escape_time(problem, start).time}))
    for done, (name, words, work) in enumerate(parts, 1):
        yield {"part": "doing", "words": words, "share": done / (len(parts) + 1)}
        try:
            yield {"part": name, **work()}
        except InputError as error:
            yield {"part": name, "note": str(error)}


@lru_cache(maxsize=256)
def _rates(toml: str) -> Part:
    """The rates of a problem file. They take seconds, and moving a slider of the learning rate does not ask again."""
    problem = tu.Problem.from_toml(toml)
    if missing_traits(problem, CLASSIC):
        known = "one teacher, real labels, squared loss and one Gaussian as input law"
        raise InputError(f"No critical rate is marked; it is known for {known}.")
    critical, best = tu.analysis.critical_learning_rate(problem), tu.analysis.best_constant_rate(problem)
    return {"critical": float(critical), "best": float(best)}


def _run(problem: tu.Problem, start: tu.Start, theory: Trajectory, index: int, frames: list[int]) -> Part:
    steps = (start.dim or 0) * float(theory.times[-1])
    if steps > MOST_STEPS:
        what = f"a run of N = {start.dim} to alpha = {theory.times[-1]:g} has {steps:.2g} steps"
        raise InputError(f"{what}, the page at most {MOST_STEPS:.0e}. Lower N or the last time, or use `tutelage simulate`.")
    run = tu.simulate(problem, start, times=theory.times, runs=1, seed=index)
    errors = np.asarray(run.error)[0, frames]  # (frame,), or (frame, task)
    return {"index": index, "errors": numbers(errors[None] if errors.ndim == 1 else errors.T)}


def _band(theory: Trajectory, dim: int, frames: list[int]) -> Part:
    found = fluctuations_along(theory, dim)
    trusted = found.trusted_times[frames]
    count = trusted.size if trusted.all() else int(np.argmin(trusted))
    error = np.asarray(theory.error)[frames][:count]
    sd = found.sd("error")[frames][:count]
    low = np.maximum(error - 2 * sd, error / 10)  # above zero on a logarithmic axis
    band = {"dim": dim, "low": numbers(low), "high": numbers(error + 2 * sd)}
    answer: Part = {"band": band if count > 1 else None}
    if count < trusted.size:
        end = float(theory.times[frames[max(count - 1, 0)]])
        answer["note"] = f"{_band_ends(end, count > 1)} {_end_of_band(found, frames[count])}"
    return answer


def _band_ends(time: float, drawn: bool) -> str:
    return f"It ends at α = {time:.4g}." if drawn else "None is drawn."


def _end_of_band(found: Fluctuations, index: int) -> str:
    """Why there is no band from this recorded time on, and what to do."""
    if found.wide[index]:
        return "From there the scatter of single networks is not small against the error; raise N."
    return (
        "From there SGD noise, not only the initial condition, decides when a single network "
        f"escapes from the plateau (asymmetry/noise = {found.start_to_noise:.2g})."
    )


def protocol(settings: Settings, what: str) -> Iterator[Part]:
    """The best schedule of `what`, "lr" or "tasks", for the smallest final error, and its curve."""
    yield {"part": "doing", "words": "searching for the best schedule", "share": None}
    problem, times = settings.problem(), settings.times()
    start, end, highest = settings.first(problem), float(times[-1]), 1.0
    now = problem.sgd.lr if what == "lr" else getattr(problem.teacher, "schedule", None)
    baselines = {"these settings": {what: now}}
    if what == "lr":  # search up to twice the present rate, or to the critical one
        highest = 2.0 * float(np.max([np.max(rate_at(problem.sgd.lr, t)) for t in times]))
        with suppress(InputError):
            highest = max(highest, float(tu.analysis.critical_learning_rate(problem)))
    try:
        found = tu.schedules.optimize(problem, start, end, {what: (0.0, highest)}, baselines=baselines, **SEARCH)
    except InputError as error:
        yield {"part": "protocol", "note": str(error)}
        return
    yield {"part": "doing", "words": "drawing the best schedule", "share": 0.9}
    content = trajectory_content(tu.solve(found.problem, start, times, rtol=DRAWN, accuracy=None))
    course = found.schedule.shares if what == "tasks" else found.schedule
    at = np.linspace(0.0, end, 81)
    smaller = " and ".join(f"{gain:.3g} times smaller than with {name}" for name, gain in found.gains.items())
    yield {
        "part": "protocol",
        "what": what,
        "schedule": {"times": numbers(at), "values": numbers([rate_at(course, t) for t in at])},
        "times": content["times"],
        "errors": [task["error"] for task in content.get("tasks", [content])],
        "words": f"The final error is {smaller}.",
        "toml": found.problem.to_toml(),
    }


def netcdf(settings: Settings) -> Iterator[bytes]:
    """The theory's trajectory, as `Trajectory.save` writes it."""
    yield bytes(theory_of(settings).to_dataset().to_netcdf(engine="h5netcdf"))


ANSWERS: dict[str, Callable[[Settings], Iterator[Part | bytes]]] = {
    "curve": curve,
    "details": details,
    "optimize lr": partial(protocol, what="lr"),
    "optimize tasks": partial(protocol, what="tasks"),
    "curve.nc": netcdf,
    "explorer.html": lambda settings: iter([standalone(**settings.values).encode()]),
}


# In a worker. To import it is to import JAX and all, before the first request.


def prepare() -> None:
    """What warnings say is in the answers, too."""
    warnings.simplefilter("ignore")


_parts: Iterator[Part | bytes] = iter(())  # that are left of the answer under way


def next_part(kind: str = "", settings: Settings | None = None) -> str | bytes | None:
    """The next part of an answer, as JSON or a file; None after the last. kind, settings: of a new answer."""
    global _parts
    try:
        if settings is not None:
            _parts = ANSWERS[kind](settings)
        part = next(_parts, None)
    except MemoryError:
        raise InputError("This problem needs more memory than there is; make it smaller.") from None
    return json.dumps(part, allow_nan=False) if isinstance(part, dict) else part
