"""How long a simulation will take, before it begins: right within a factor of about three on a present-day core.

Seconds per step, fitted to measurements (K, M from 1 to 30, up to 50 levels, batches up to 10):
    overlaps   1e-6 (1 + B) + 1e-8 B L (K + M)^2
    weights    1e-8 B N (1 + (2 K + M) / 10)
"""

import math

from tutelage._cores import cores
from tutelage.problem import Problem

LONG = 3600.0  # seconds: `simulate` warns above
UNITS = {"years": 365.25 * 86400, "months": 30.4 * 86400, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


def seconds(problem: Problem, dim: int, steps: float, runs: int, method: str, workers: int | None = None) -> float:
    """The estimated time of `runs` runs of so many steps, spread over the workers (default: the cores)."""
    K, M, L, B = problem.student.hidden, problem.teacher.hidden, problem.inputs.levels, problem.sgd.batch
    if method == "overlaps":
        step = 1e-6 * (1 + B) + 1e-8 * B * L * (K + M) ** 2
    else:
        step = 1e-8 * B * dim * (1 + (2 * K + M) / 10)
    return step * steps * math.ceil(runs / (workers or cores()))


def in_words(duration: float) -> str:
    """A duration to one digit or two, in its own unit."""
    name, unit = next(((name, unit) for name, unit in UNITS.items() if duration >= 2 * unit), ("seconds", 1))
    return f"{duration / unit:.2g} {name}" if duration < 100 * unit else f"{duration / unit:.0f} {name}"


def sentence(duration: float, steps: float, runs: int) -> str:
    """What the estimate says and what shortens it."""
    return (
        f"{runs} run{'s' * (runs != 1)} of {steps:.3g} steps will take about {in_words(duration)}; "
        "lower N, the last time or the number of runs"
    )
