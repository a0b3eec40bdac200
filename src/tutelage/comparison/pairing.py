"""Pairs of a theory and its runs, with the hidden units in the same order.

Each run is relabeled before averaging, from the moment on at which that fits best, by
the assignment that brings its last R nearest to the theory's (Hungarian method). The
nearest of K! labelings also moves noise towards the theory, so a run keeps its labels
unless relabeling makes it clearly nearer: identical units, as on a plateau, are never
swapped.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
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
CLEARLY = 0.25  # relabel if the squared distance falls below this share
FORBIDDEN = 1e12  # cost of an assignment that the problem does not allow
# The axes of each variable that count student units.
UNIT_AXES = {
    "R": (-2,),
    "Q": (-2, -1),
    "r": (-2,),
    "q": (-2, -1),
    "readout": (-1,),
    "bias": (-1,),
}


@dataclass(frozen=True)
class Pair:
    """A theory and its runs at the same times, by the names of the variables.

    times: (time,). theory: arrays (time, ...) by name. runs: arrays (run, time, ...) by
    name. compared: the names that the verdict counts. dim: N of the runs, if known.
    """

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
    names = [name for name in theory.variables if name in runs.variables]
    if not names:
        of_theory = ", ".join(theory.variables)
        of_runs = ", ".join(runs.variables)
        raise InputError(
            f"the theory has the variables {of_theory} and the runs {of_runs}; "
            "they must share at least one name."
        )
    theory_values = {}
    run_values = {}
    for name in (*names, "error"):
        curve = _values(theory, name)[: times.size]
        curves = _values(runs, name)
        if _error_axes(runs) == 1:  # a single run, without an axis of runs
            curves = curves[None]
        curves = curves[:, : times.size]
        if curve.shape != curves.shape[1:]:
            raise InputError(
                f"{name} has shape {curve.shape} in the theory and "
                f"{curves.shape[1:]} in each run; they must be equal."
            )
        theory_values[name] = curve
        run_values[name] = curves
    finished = _finite_runs(run_values)
    if not finished.all():
        left_out = f"{int(np.sum(~finished))} of {finished.size} runs"
        early = f"{left_out} ended early (diverged or interrupted) and are left out"
        notes = (*notes, early)
        run_values = {name: value[finished] for name, value in run_values.items()}
    problem = theory.problem if theory.problem is not None else runs.problem
    if problem is not None:
        names = _learned(names, theory_values, run_values)
    return Pair(
        times=times,
        theory=theory_values,
        runs=run_values,
        compared=("error", *names),
        problem=problem,
        start=theory.start if theory.start is not None else runs.start,
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


def _values(trajectory: Trajectory, name: str) -> np.ndarray:
    """Return a variable or the error of a trajectory."""
    values = trajectory.error if name == "error" else trajectory[name]
    return np.asarray(values, dtype=float)


def _finite_runs(run_values: dict[str, np.ndarray]) -> Bool[np.ndarray, " run"]:
    """Return True for each run that is finite up to the last time; at least one is."""
    finite = [
        np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in run_values.values()
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


def match(pair: Pair) -> tuple[Pair, Bool[np.ndarray, " run"]]:
    """Return the pair with its runs relabeled, and which of them were permuted."""
    relabeled = np.zeros(pair.count, bool)
    if pair.problem is None or "R" not in pair.theory:
        return pair, relabeled
    if pair.theory["R"].shape[-2] < 2:
        return pair, relabeled
    exchangeable = _exchangeable(pair.problem)
    sign_free = _sign_free(pair.problem)
    theory_features = _unit_features(pair.theory)
    runs = {name: value.copy() for name, value in pair.runs.items()}
    for run in range(pair.count):
        features = _unit_features({name: x[run] for name, x in pair.runs.items()})
        labels = _relabeling(theory_features, features, exchangeable, sign_free)
        relabeled[run] = labels.first < pair.times.size
        for name in UNIT_AXES.keys() & runs.keys():
            later = runs[name][run, labels.first :]
            runs[name][run, labels.first :] = relabel(
                name, later, labels.permutation, labels.signs
            )
    return replace(pair, runs=runs), relabeled


def relabel(
    name: str, values: np.ndarray, permutation: np.ndarray, signs: np.ndarray
) -> np.ndarray:
    """Return a variable with its units in another order (and sign)."""
    for axis in UNIT_AXES[name]:
        units_last = np.moveaxis(values, axis, -1)
        values = np.moveaxis(units_last[..., permutation] * signs, -1, axis)
    return values


class Relabeling(NamedTuple):
    """New labels of the units of a run: first is the index of the first such time."""

    permutation: np.ndarray
    signs: np.ndarray
    first: int


def _relabeling(
    theory: Float[np.ndarray, "time K columns"],
    run: Float[np.ndarray, "time K columns"],
    exchangeable: Bool[np.ndarray, "K K"],
    sign_free: bool,
) -> Relabeling:
    """Return the labels that bring the features of a run nearest to the theory's."""
    from scipy.optimize import linear_sum_assignment

    units = np.arange(theory.shape[1])
    # squared distances of unit k of the theory and unit l of the run at the last time
    plain = np.sum((theory[-1][:, None] - run[-1]) ** 2, axis=-1)
    flipped = np.sum((theory[-1][:, None] + run[-1]) ** 2, axis=-1)
    cost = np.minimum(plain, flipped) if sign_free else plain
    allowed_cost = np.where(exchangeable, cost, FORBIDDEN)
    permutation = linear_sum_assignment(allowed_cost)[1]
    all_signs = np.where(sign_free & (flipped < plain), -1.0, 1.0)
    signs = all_signs[units, permutation]
    is_unchanged = np.array_equal(permutation, units) and np.all(signs > 0)
    distance = cost[units, permutation].sum()
    if is_unchanged or distance > CLEARLY * np.trace(plain):
        return Relabeling(units, np.ones(units.size), first=len(theory))

    # the first relabeled time minimizes the distance along the whole curve
    old_distance = np.sum((theory - run) ** 2, axis=(1, 2))
    new_run = run[:, permutation] * signs[:, None]
    new_distance = np.sum((theory - new_run) ** 2, axis=(1, 2))
    before = np.cumsum(old_distance) - old_distance
    after = np.cumsum(new_distance[::-1])[::-1]
    return Relabeling(permutation, signs, first=int(np.argmin(before + after)))


def _unit_features(
    values: dict[str, np.ndarray],
) -> Float[np.ndarray, "time K columns"]:
    """Return the numbers that distinguish units.

    They are overlaps with the teachers and readouts, one for each output and head.
    """
    R = values["R"]
    readout = values.get("readout", np.zeros(R.shape[:-1]))
    readout = readout.reshape(R.shape[0], -1, R.shape[1])
    return np.concatenate([R, np.swapaxes(readout, -2, -1)], axis=-1)


def _exchangeable(problem: Problem) -> Bool[np.ndarray, "K K"]:
    """Return True for units that the problem treats identically.

    They have equal readouts and biases at first, equal frozen parts and equal feedback.
    """
    student = problem.student
    marks = [  # one number per unit in each, for each output
        *np.atleast_2d(student.readout),
        *problem.rule.unit_marks(student.readout),
    ]
    if student.bias is not None:
        marks.append(student.bias)
    mask = problem.trainable_mask()
    if mask is not None:
        marks += [*mask]
    equal = []
    for mark in marks:
        of_units = np.broadcast_to(np.asarray(mark, dtype=float), (student.hidden,))
        equal.append(of_units[:, None] == of_units)
    return np.all(equal, axis=0)


def _sign_free(problem: Problem) -> bool:
    """Return True if (w, v, b) and (-w, -v, -b) are the same unit.

    So it is for g(-x) = -g(x) with a trained readout, unless feedback fixes the sign.
    """
    student = problem.student
    has_feedback = problem.rule.unit_marks(student.readout).size > 0
    if not student.train_readout or has_feedback:
        return False
    x = jnp.linspace(0.1, 3.0, 7)
    return bool(np.allclose(student.activation(-x), -student.activation(x), atol=1e-12))
