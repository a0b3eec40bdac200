"""The start from which theory and runs pass the plateau together."""

from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.cli.request import build_start

KINDS = ("asymmetric", "random")
SHARED, OWN, REST = 0.2, 0.1, 0.1  # overlap with every teacher, more of it with one's own, squared length beside them


def asymmetric_start(problem: Any, dim: int) -> Any:
    """Student k is a mixture of all teachers with a little more of teacher k: w_k = sum_m a_km w*_m + what is orthogonal.

    a_km = 0.2 + 0.1 (1 - k/2K) [m = k mod M], so R = a T and Q = a T a^T + 0.1. The asymmetry does not shrink with N: noise
    has no say in when, and into which permutation, the units part. The factor keeps any two units from being alike.
    """
    from tutelage import Start

    K, M = problem.student.hidden, problem.teacher.hidden
    units = np.arange(K)
    a = np.full((K, M), SHARED)
    a[units, units % M] += OWN * (1 - units / (2 * K))
    T = np.eye(M) if problem.teacher.gram is None else np.asarray(problem.teacher.gram, dtype=float)
    R = a @ T
    Q = R @ a.T + REST * np.eye(K)
    return Start(R=R, Q=(Q + np.swapaxes(Q, -1, -2)) / 2, dim=dim)


def build_compare_start(problem: Any, table: dict[str, Any], from_file: bool, kind: str | None) -> Any:
    """The start of a comparison: as a file gives it, else the kind asked for. N is always known."""
    from tutelage import Start, _checks

    overlaps = "R" in table or "Q" in table
    if kind is not None:
        _checks.known("--start", kind, KINDS)
        if overlaps:
            raise InputError(f"the file gives a start by its overlaps, and --start {kind} another; leave one of them out.")
    dim = table.get("dim") or problem.inputs.known_dim or max(1000, problem.inputs.levels)
    if overlaps or kind == "random" or (kind is None and from_file):
        start = build_start(problem, table | {"dim": dim} if not overlaps else _without_seed(table))
        return start if start.dim is not None else Start(start.R, start.Q, start.T, start.readout, start.bias, dim=dim)
    if "scale" in table:
        raise InputError("--scale is the size of random weights; it goes with --start random.")
    return asymmetric_start(problem, _checks.as_count("dim", dim))


def _without_seed(table: dict[str, Any]) -> dict[str, Any]:
    """A seed given with overlaps is that of the runs."""
    return {name: value for name, value in table.items() if name != "seed"}
