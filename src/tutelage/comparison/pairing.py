"""Do a theory and a set of runs belong together? If so: the arrays of both, hidden units in the same order.

Each run is relabeled before averaging, from the moment on at which that fits best, by the assignment that brings its last R
nearest to the theory's (Hungarian method). The nearest of K! labelings also moves noise towards the theory, so a run keeps its
labels unless relabeling makes it clearly nearer: identical units, as on a plateau, are never swapped.
"""

from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from tutelage import checks
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem, Start
from tutelage.trajectory import Trajectory

KNOWN = ("R", "Q", "readout", "bias")  # order parameters of a problem; r and q per level are their parts
STILL = 1e-12  # a readout that moves less than this is not learned
SAME = 1e-9  # starts and times that differ by less are the same
CLEARLY = 0.25  # relabel if the squared distance falls below this share
ROWS = {"R": (-2,), "Q": (-2, -1), "r": (-2,), "q": (-2, -1), "readout": (-1,), "bias": (-1,)}  # axes that count units


@dataclass(frozen=True)
class Pair:
    """times: (time,). theory: arrays (time, ...) by name. runs: arrays (run, time, ...). dim: N of the runs, if known."""

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
        return self.runs["error"].shape[0]


def pair(theory: Trajectory, runs: Trajectory) -> Pair:
    """Check that both are about the same problem, start and times, and drop the runs that did not finish."""
    for name, value in (("theory", theory), ("runs", runs)):
        if not isinstance(value, Trajectory):
            raise InputError(f"{name} is {kind_of(value)}; compare takes two Trajectories, compare(theory, runs).")
        checks.require_untraced(name, "compare", value)
    if theory.kind == "simulation":
        raise InputError("the first trajectory is a simulation; call compare(theory, runs), the theory first.")
    axes, run_axes = (np.ndim(x.error) - (x.tasks is not None) for x in (theory, runs))
    if axes != 1:
        raise InputError(f"the theory has an error of shape {np.shape(theory.error)}; compare one solution at a time.")
    if run_axes not in (1, 2):
        raise InputError(f"the runs have an error of shape {np.shape(runs.error)}; it must be (run, time).")
    _require_same_problem(theory, runs)
    times, notes = _shared_times(theory, runs)
    names = [name for name in theory.variables if name in runs.variables]
    if not names:
        theirs, ours = (", ".join(x.variables) for x in (theory, runs))
        raise InputError(f"the theory has the variables {theirs} and the runs {ours}; they must share at least one name.")
    model, seen = {}, {}
    for name in (*names, "error"):
        one, many = (np.asarray(x.error if name == "error" else x[name], dtype=float) for x in (theory, runs))
        model[name], seen[name] = one[: times.size], (many if run_axes > 1 else many[None])[:, : times.size]
        ours, theirs = model[name].shape, seen[name].shape[1:]
        if ours != theirs:
            raise InputError(f"{name} has shape {ours} in the theory and {theirs} in each run; they must be equal.")
    whole = np.all([np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in seen.values()], axis=0)
    if not whole.any():
        raise InputError("no run reached the last time; compare up to an earlier one, or lower the learning rate.")
    if not whole.all():
        early = f"{int(np.sum(~whole))} of {whole.size} runs ended early (diverged or interrupted) and are left out"
        notes, seen = (*notes, early), {name: value[whole] for name, value in seen.items()}
    problem = theory.problem if theory.problem is not None else runs.problem
    if problem is not None:  # readouts and biases are compared only where they are learned
        still = [n for n in ("readout", "bias") if n in names and _is_still(model[n]) and _is_still(seen[n][0])]
        names = [name for name in KNOWN if name in names and name not in still]
    start = theory.start if theory.start is not None else runs.start
    flow = bool(dict(theory.settings).get("gradient_flow", False))
    return Pair(times, model, seen, ("error", *names), problem, start, runs.dim or theory.dim, flow, notes)


def _is_still(values: np.ndarray) -> bool:
    return bool(np.max(np.abs(values - values[:1]), initial=0.0) <= STILL)


def _require_same_problem(theory: Trajectory, runs: Trajectory) -> None:
    """And the same start, where both are known."""
    if theory.problem is not None and runs.problem is not None:
        try:
            where = _difference(theory.problem.to_dict(), runs.problem.to_dict())
        except InputError:  # a function of one's own has no text
            same = eqx.tree_equal(theory.problem, runs.problem) is True
            where = None if same else "(custom functions are compared by identity)"
        if where is not None:
            raise InputError(f"the theory and the runs are about different problems: {where}; compare the same problem.")
    for name in ("R", "Q", "T", "readout", "bias"):
        a, b = getattr(theory.start, name, None), getattr(runs.start, name, None)
        if a is not None and b is not None and not (np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=0, atol=SAME)):
            raise InputError(f"the theory and the runs begin at different {name}; give solve and simulate the same `start`.")


def _difference(a: object, b: object, path: str = "") -> str | None:
    """The first place where two nested tables differ, in words."""
    if isinstance(a, dict) and isinstance(b, dict):
        each = (_difference(a.get(name), b.get(name), f"{path}.{name}".lstrip(".")) for name in dict.fromkeys([*a, *b]))
        return next((found for found in each if found is not None), None)
    return None if a == b else f"{path} is {checks.shown(a)} in the theory and {checks.shown(b)} in the runs"


def _shared_times(theory: Trajectory, runs: Trajectory) -> tuple[Float[np.ndarray, " time"], tuple[str, ...]]:
    """The times that both have, with a note; a theory that diverged has fewer than its runs."""
    a, b = (np.asarray(x, dtype=float) for x in (theory.times, runs.times))
    if min(a.size, b.size) == 0:
        raise InputError("the theory has no recorded times; solve for times that the theory reaches.")
    cut = not theory.finished and a.size < b.size
    if (a.size != b.size and not cut) or np.max(np.abs(a - b[: a.size])) > SAME * max(1.0, float(a[-1])):
        both = f"the theory has {a.size} times up to {a[-1]:g} and the runs {b.size} up to {b[-1]:g}"
        raise InputError(f"{both}; they must be the same. Give the same times to solve and simulate.")
    return a, (f"the theory {theory.status} Only the times before that are compared.",) if cut else ()


def match(pair: Pair) -> tuple[Pair, Bool[np.ndarray, " run"]]:
    """The pair with its runs relabeled, and which of them took another permutation than the theory."""
    relabeled = np.zeros(pair.count, bool)
    if pair.problem is None or "R" not in pair.theory or pair.theory["R"].shape[-2] < 2:
        return pair, relabeled
    allowed, odd, model = _exchangeable(pair.problem), _sign_free(pair.problem), _rows(pair.theory)
    runs = {name: value.copy() for name, value in pair.runs.items()}
    for run in range(pair.count):
        seen = _rows({name: value[run] for name, value in pair.runs.items()})
        permutation, signs, since = _match_one(model, seen, allowed, odd)
        relabeled[run] = since < pair.times.size
        for name in ROWS.keys() & runs.keys():
            runs[name][run, since:] = relabel(name, runs[name][run, since:], permutation, signs)
    return replace(pair, runs=runs), relabeled


def relabel(name: str, values: np.ndarray, permutation: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """A variable with its units in another order (and sign)."""
    for axis in ROWS[name]:
        values = np.moveaxis(np.moveaxis(values, axis, -1)[..., permutation] * signs, -1, axis)
    return values


def _match_one(model: np.ndarray, seen: np.ndarray, allowed: np.ndarray, odd: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Permutation, signs and the index of the first relabeled time of a run, by the rows (time, K, columns) of both."""
    from scipy.optimize import linear_sum_assignment

    never, units = len(model), np.arange(model.shape[1])
    plain, flipped = (np.sum((model[-1][:, None] - s * seen[-1]) ** 2, axis=-1) for s in (1.0, -1.0))
    cost = np.minimum(plain, flipped) if odd else plain
    permutation = linear_sum_assignment(np.where(allowed, cost, 1e12))[1]
    signs = np.where(odd & (flipped < plain), -1.0, 1.0)[units, permutation]
    same = np.array_equal(permutation, units) and np.all(signs > 0)
    if same or cost[units, permutation].sum() > CLEARLY * np.trace(plain):
        return units, np.ones(units.size), never
    as_is = np.sum((model - seen) ** 2, axis=(1, 2))
    swapped = np.sum((model - seen[:, permutation] * signs[:, None]) ** 2, axis=(1, 2))
    before, after = np.cumsum(as_is) - as_is, np.cumsum(swapped[::-1])[::-1]
    return permutation, signs, int(np.argmin(before + after))


def _rows(values: dict[str, np.ndarray]) -> Float[np.ndarray, "time K columns"]:
    """What tells units apart, their overlaps with the teachers and their readouts, one for each output and head."""
    R = values["R"]
    readout = values.get("readout", np.zeros(R.shape[:-1])).reshape(R.shape[0], -1, R.shape[1])
    return np.concatenate([R, np.swapaxes(readout, -2, -1)], axis=-1)


def _exchangeable(problem: Problem) -> Bool[np.ndarray, "K K"]:
    """Units that the problem treats identically (equal readouts and biases at first, equal frozen parts and feedback)."""
    student, mask = problem.student, problem.trainable_mask()
    marks = [*np.atleast_2d(student.readout), *problem.rule.unit_marks(student.readout)]  # one for each output
    marks += [*([] if student.bias is None else [student.bias]), *([] if mask is None else mask)]
    alike = [np.broadcast_to(np.asarray(mark, dtype=float), (student.hidden,)) for mark in marks]
    return np.all([mark[:, None] == mark for mark in alike], axis=0)


def _sign_free(problem: Problem) -> bool:
    """g(-x) = -g(x) with a trained readout: (w, v, b) and (-w, -v, -b) are the same unit, unless feedback fixes its sign."""
    student, x = problem.student, jnp.linspace(0.1, 3.0, 7)
    if not student.train_readout or problem.rule.unit_marks(student.readout).size:
        return False
    return bool(np.allclose(student.activation(-x), -student.activation(x), atol=1e-12))
