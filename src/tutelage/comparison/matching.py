"""Hidden units in the same order: each run is relabeled to match the theory.

A permutation of hidden units and their readouts gives the same network. Each run is
relabeled before averaging, from the recorded time on at which that fits best, by the
assignment that brings its last R nearest to the theory's (Hungarian method). The
nearest of K! labelings also moves noise towards the theory, so a run keeps its labels
unless relabeling makes it clearly nearer: identical units, as on a plateau, are never
swapped.
"""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tutelage.comparison.pairing import Pair
from tutelage.problem import Problem

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
class Matching:
    """The pair with its runs relabeled, and which of them were permuted, (run,)."""

    pair: Pair
    relabeled: Bool[np.ndarray, " run"]

    @property
    def count(self) -> int:
        """The number of relabeled runs."""
        return int(self.relabeled.sum())


@dataclass(frozen=True)
class Relabeling:
    """The new labels of the units of a run.

    Unit k gets the values of the unit `permutation[k]` times `signs[k]`, from the time
    with index `first` on.
    """

    permutation: Int[np.ndarray, " K"]
    signs: Float[np.ndarray, " K"]
    first: int


def match(pair: Pair) -> Matching:
    """Relabel the hidden units of each run to match those of the theory."""
    relabeled = np.zeros(pair.count, bool)
    if pair.problem is None or "R" not in pair.theory:
        return Matching(pair=pair, relabeled=relabeled)
    if pair.theory["R"].shape[-2] < 2:
        return Matching(pair=pair, relabeled=relabeled)
    exchangeable = _exchangeable(pair.problem)
    sign_free = _sign_free(pair.problem)
    theory_features = _unit_features(pair.theory)
    runs = {name: values.copy() for name, values in pair.runs.items()}
    for run in range(pair.count):
        values_of_run = {name: values[run] for name, values in pair.runs.items()}
        features = _unit_features(values_of_run)
        relabeling = _best_relabeling(
            theory_features, features, exchangeable, sign_free
        )
        relabeled[run] = relabeling.first < pair.times.size
        for name in UNIT_AXES.keys() & runs.keys():
            later = runs[name][run, relabeling.first :]
            runs[name][run, relabeling.first :] = relabel(
                name, later, relabeling.permutation, relabeling.signs
            )
    return Matching(pair=replace(pair, runs=runs), relabeled=relabeled)


def relabel(
    name: str, values: np.ndarray, permutation: np.ndarray, signs: np.ndarray
) -> np.ndarray:
    """Return a variable with its units in another order (and sign)."""
    for axis in UNIT_AXES[name]:
        units_last = np.moveaxis(values, axis, -1)
        values = np.moveaxis(units_last[..., permutation] * signs, -1, axis)
    return values


def _best_relabeling(
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
    cost = plain
    if sign_free:
        cost = np.minimum(plain, flipped)
    allowed_cost = np.where(exchangeable, cost, FORBIDDEN)
    permutation = linear_sum_assignment(allowed_cost)[1]
    all_signs = np.where(sign_free & (flipped < plain), -1.0, 1.0)
    signs = all_signs[units, permutation]
    is_unchanged = np.array_equal(permutation, units) and np.all(signs > 0)
    distance = cost[units, permutation].sum()
    if is_unchanged or distance > CLEARLY * np.trace(plain):
        return Relabeling(
            permutation=units, signs=np.ones(units.size), first=len(theory)
        )

    # the first relabeled time minimizes the distance along the whole curve
    old_distance = np.sum((theory - run) ** 2, axis=(1, 2))
    relabeled_run = run[:, permutation] * signs[:, None]
    new_distance = np.sum((theory - relabeled_run) ** 2, axis=(1, 2))
    before = np.cumsum(old_distance) - old_distance
    after = np.cumsum(new_distance[::-1])[::-1]
    return Relabeling(
        permutation=permutation, signs=signs, first=int(np.argmin(before + after))
    )


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
