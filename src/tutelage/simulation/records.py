"""What a run keeps, and the steps at which it keeps it."""

import numpy as np

from tutelage.problem import Problem
from tutelage.simulation.layout import Records


def empty_records(problem: Problem, steps: np.ndarray, keep: bool) -> Records:
    """Records full of NaN, to be written as the run passes its steps."""
    count, L, K, M = steps.size, problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    kept = count if keep else 0
    shapes = (
        (count, K, M),
        (count, K, K),
        (kept, L, K, M),
        (kept, L, K, K),
        (count, *np.shape(problem.student.readout)),
        (count, K),
    )
    return Records(steps, *(np.full(shape, np.nan) for shape in shapes))


def next_stop(steps: np.ndarray, taken: int, last: int) -> int:
    """The next recorded step after `taken`, or `last` if that comes first."""
    at = int(np.searchsorted(steps, taken, side="right"))
    return min(last, int(steps[at])) if at < steps.size else last


def write_overlaps(
    records: Records, taken: int, r: np.ndarray, q: np.ndarray, weights: np.ndarray, readout: np.ndarray, bias: np.ndarray
) -> None:
    """Record a state given by its overlaps per level wherever `taken` steps were asked for; weights: p_l lam_l."""
    for at in np.flatnonzero(records.steps == taken):
        records.R[at] = np.einsum("l,lkm->km", weights, r)
        records.Q[at] = np.einsum("l,lkj->kj", weights, q)
        records.readout[at], records.bias[at] = readout, bias
        if records.r.shape[0]:
            records.r[at], records.q[at] = r, q
