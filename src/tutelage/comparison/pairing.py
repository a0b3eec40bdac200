"""A theory and its runs as one `Pair`: the input of all analyses of a comparison.

`pair` checks that both are about the same problem, initial condition and times. It
leaves out runs that ended early, and names the variables that the verdict counts.
"""

from dataclasses import dataclass

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from tutelage import checks
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem, Start
from tutelage.problem.start import OVERLAPS
from tutelage.recording.recorded import METHOD
from tutelage.result.trajectory import Trajectory

# Order parameters of a problem; r and q per level are their parts.
KNOWN = ("R", "Q", "readout", "bias")
STILL = 1e-12  # a readout that moves less than this is not learned
SAME = 1e-9  # starts and times that differ by less are the same


@dataclass(frozen=True)
class Pair:
    """A theory and its runs at the same times, by the names of the variables.

    Attributes
    ----------
    solution : Trajectory
        The theory as it was solved, with its settings.
    times : array (time,)
        The times that both have.
    theory, runs : dicts of arrays (time, ...) and (run, time, ...)
        Their variables and "error", by name.
    compared : tuple of str
        The names that the verdict counts.
    problem, start
        Those of the theory, else those of the runs; None if neither is known.
    dim : int or None
        N of the runs, if known.
    gradient_flow : bool
        True if the theory lacks the terms of order eta^2.
    notes : tuple of str
        Remarks on times and runs that are left out.
    """

    solution: Trajectory
    times: Float[np.ndarray, " time"]
    theory: dict[str, np.ndarray]
    runs: dict[str, np.ndarray]
    compared: tuple[str, ...]
    problem: Problem | None
    start: Start | None
    dim: int | None
    gradient_flow: bool
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of runs."""
        return self.runs["error"].shape[0]


def pair(theory: Trajectory, runs: Trajectory) -> Pair:
    """Pair a theory with its finished runs, of the same problem, start and times."""
    _require_theory_and_runs(theory, runs)
    _require_same_problem(theory, runs)
    _require_same_start(theory, runs)
    times, notes = _shared_times(theory, runs)
    names = _shared_names(theory, runs)
    theory_values = {}
    run_values = {}
    for name in (*names, "error"):
        theory_values[name] = values_of(theory, name)[: times.size]
        run_values[name] = _values_by_run(runs, name)[:, : times.size]
        _require_same_shape(name, theory_values[name], run_values[name])
    finished = _finished_runs(run_values)
    if not finished.all():
        left_out = f"{int(np.sum(~finished))} of {finished.size} runs"
        early = f"{left_out} ended early (diverged or interrupted) and are left out"
        notes = (*notes, early)
        run_values = {name: value[finished] for name, value in run_values.items()}
    problem = theory.problem
    if problem is None:
        problem = runs.problem
    start = theory.start
    if start is None:
        start = runs.start
    if problem is not None:
        names = _learned(names, theory_values, run_values)
    return Pair(
        solution=theory,
        times=times,
        theory=theory_values,
        runs=run_values,
        compared=("error", *names),
        problem=problem,
        start=start,
        dim=runs.dim or theory.dim,
        gradient_flow=bool(dict(theory.settings).get("gradient_flow", False)),
        notes=notes,
    )


def _require_theory_and_runs(theory: Trajectory, runs: Trajectory) -> None:
    """Refuse all but one solution and a set of runs (or a single one)."""
    for name, value in (("theory", theory), ("runs", runs)):
        if not isinstance(value, Trajectory):
            raise InputError(
                f"{name} is {kind_of(value)}; compare takes two Trajectories, "
                "compare(theory, runs)."
            )
        checks.require_untraced(name, "compare", value)
    if theory.kind == "simulation":
        raise InputError(
            "the first trajectory is a simulation; call compare(theory, runs), "
            "the theory first."
        )
    if _error_axes(theory) != 1:
        raise InputError(
            f"the theory has an error of shape {np.shape(theory.error)}; "
            "compare one solution at a time."
        )
    if _error_axes(runs) not in (1, 2):
        raise InputError(
            f"the runs have an error of shape {np.shape(runs.error)}; "
            "it must be (run, time)."
        )


def _error_axes(trajectory: Trajectory) -> int:
    """Return the number of axes of the error, without that of several tasks."""
    return np.ndim(trajectory.error) - (trajectory.tasks is not None)


def values_of(trajectory: Trajectory, name: str) -> np.ndarray:
    """Return a variable of a trajectory, or its "error"."""
    if name == "error":
        return np.asarray(trajectory.error, dtype=float)
    return np.asarray(trajectory[name], dtype=float)


def _values_by_run(runs: Trajectory, name: str) -> np.ndarray:
    """Return a variable of runs, (run, time, ...); a single run has no axis of runs."""
    values = values_of(runs, name)
    if _error_axes(runs) == 1:
        values = values[None]
    return values


def _shared_names(theory: Trajectory, runs: Trajectory) -> list[str]:
    """Return the names of the variables that both have; there is at least one."""
    names = [name for name in theory.variables if name in runs.variables]
    if not names:
        of_theory = ", ".join(theory.variables)
        of_runs = ", ".join(runs.variables)
        raise InputError(
            f"the theory has the variables {of_theory} and the runs {of_runs}; "
            "they must share at least one name."
        )
    return names


def _require_same_shape(name: str, theory: np.ndarray, runs: np.ndarray) -> None:
    """Refuse a variable that has another shape in the theory than in each run."""
    if theory.shape != runs.shape[1:]:
        raise InputError(
            f"{name} has shape {theory.shape} in the theory and "
            f"{runs.shape[1:]} in each run; they must be equal."
        )


def _finished_runs(run_values: dict[str, np.ndarray]) -> Bool[np.ndarray, " run"]:
    """Return True for each run that is finite up to the last time; at least one is."""
    finite = [
        np.isfinite(values).reshape(len(values), -1).all(axis=1)
        for values in run_values.values()
    ]
    finished = np.all(finite, axis=0)
    if not finished.any():
        raise InputError(
            "no run reached the last time; compare up to an earlier one, or lower the "
            "learning rate."
        )
    return finished


def _learned(
    names: list[str],
    theory_values: dict[str, np.ndarray],
    run_values: dict[str, np.ndarray],
) -> list[str]:
    """Return the order parameters, without readouts and biases that do not move."""
    learned = []
    for name in KNOWN:
        if name not in names:
            continue
        is_still = _is_still(theory_values[name]) and _is_still(run_values[name][0])
        if name in ("R", "Q") or not is_still:
            learned.append(name)
    return learned


def _is_still(values: np.ndarray) -> bool:
    """Return True if a variable stays where it was at the first time."""
    return bool(np.max(np.abs(values - values[:1]), initial=0.0) <= STILL)


def _require_same_problem(theory: Trajectory, runs: Trajectory) -> None:
    """Refuse two different problems, where both are known."""
    if theory.problem is None or runs.problem is None:
        return
    try:
        difference = _difference(theory.problem.to_dict(), runs.problem.to_dict())
    except InputError:  # a custom function has no text
        difference = None
        if eqx.tree_equal(theory.problem, runs.problem) is not True:
            difference = "(custom functions are compared by identity)"
    if difference is not None:
        raise InputError(
            f"the theory and the runs are about different problems: {difference}; "
            "compare the same problem."
        )


def _require_same_start(theory: Trajectory, runs: Trajectory) -> None:
    """Refuse two different starts, where both are known.

    Runs that were recorded elsewhere are compared all the same: the verdict then says
    which factor their weights may have missed.
    """
    if dict(runs.settings).get("method") == METHOD:
        return
    for name in OVERLAPS:
        of_theory = getattr(theory.start, name, None)
        of_runs = getattr(runs.start, name, None)
        if of_theory is None or of_runs is None:
            continue
        same_shape = np.shape(of_theory) == np.shape(of_runs)
        if not same_shape or not np.allclose(of_theory, of_runs, rtol=0, atol=SAME):
            raise InputError(
                f"the theory and the runs begin at different {name}; "
                "give solve and simulate the same `start`."
            )


def _difference(of_theory: object, of_runs: object, path: str = "") -> str | None:
    """Return the first place where two nested tables differ, in words."""
    if isinstance(of_theory, dict) and isinstance(of_runs, dict):
        for name in dict.fromkeys([*of_theory, *of_runs]):
            inner_path = f"{path}.{name}".lstrip(".")
            inner = _difference(of_theory.get(name), of_runs.get(name), inner_path)
            if inner is not None:
                return inner
        return None
    if of_theory == of_runs:
        return None
    in_theory = f"{checks.shown(of_theory)} in the theory"
    return f"{path} is {in_theory} and {checks.shown(of_runs)} in the runs"


def _shared_times(
    theory: Trajectory, runs: Trajectory
) -> tuple[Float[np.ndarray, " time"], tuple[str, ...]]:
    """Return the times that both have, with a note.

    A theory that diverged has fewer times than its runs.
    """
    times = np.asarray(theory.times, dtype=float)
    run_times = np.asarray(runs.times, dtype=float)
    if times.size == 0 or run_times.size == 0:
        raise InputError(
            "the theory has no recorded times; solve for times that the theory reaches."
        )
    is_cut = not theory.finished and times.size < run_times.size
    is_same = times.size == run_times.size or is_cut
    if is_same:
        tolerance = SAME * max(1.0, float(times[-1]))
        is_same = np.max(np.abs(times - run_times[: times.size])) <= tolerance
    if not is_same:
        of_theory = f"{times.size} times up to {times[-1]:g}"
        of_runs = f"{run_times.size} up to {run_times[-1]:g}"
        raise InputError(
            f"the theory has {of_theory} and the runs {of_runs}; they must be the "
            "same. Give the same times to solve and simulate."
        )
    if is_cut:
        note = f"the theory {theory.status} Only the times before that are compared."
        return times, (note,)
    return times, ()
