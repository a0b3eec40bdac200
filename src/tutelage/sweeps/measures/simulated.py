"""Finite networks at a point: means with standard errors over the runs, or every run.

All measures of a point read the same runs. Their seed depends on the sweep's seed, the point and the start alone
(`simulation_seed`), so that points are independent of each other and of how they are computed.
"""

from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.sweeps.measures.base import Case, Measure

NEEDS = frozenset({"start", "runs"})
WORDS = "error of finite networks"


def simulation_seed(seed: int, point: int, start: int) -> int:
    """The seed of the runs at a point from a start: different wherever any of the three differs."""
    return int(np.random.SeedSequence((seed, point, start)).generate_state(1, np.uint64)[0] >> 1)


def _errors(case: Case) -> np.ndarray:
    errors = np.asarray(case.runs.error)
    unfinished = int(np.sum(np.asarray(case.runs.status_code) != 0))
    if unfinished:
        raise InputError(f"{unfinished} of {len(errors)} runs diverged. Lower the learning rate.")
    return errors


def _mean(name: str, errors: np.ndarray) -> dict[str, Any]:
    return {name: errors.mean(axis=0), f"{name}_se": errors.std(axis=0, ddof=1) / np.sqrt(len(errors))}


def _averaged(name: str, values: Any, dims: tuple[str, ...], when: str) -> Measure:
    words = {name: f"mean {WORDS}{when}", f"{name}_se": f"standard error of the mean {WORDS}{when}"}
    return Measure(name, values, {name: dims, f"{name}_se": dims}, NEEDS, words, looped=True)


def _every(name: str, values: Any, dims: tuple[str, ...], when: str) -> Measure:
    return Measure(name, values, {name: dims}, NEEDS, {name: f"{WORDS}{when}, each"}, looped=True)


SIMULATED = (
    _averaged("simulated_error", lambda case: _mean("simulated_error", _errors(case)), ("time",), ""),
    _averaged("simulated_final_error", lambda case: _mean("simulated_final_error", _errors(case)[:, -1]), (), " at the end"),
    _every("run_error", lambda case: {"run_error": _errors(case)}, ("run", "time"), ""),
    _every("run_final_error", lambda case: {"run_final_error": _errors(case)[:, -1]}, ("run",), " at the end"),
)
