"""The gap that whole numbers of dimensions per level cause, known exactly.

A network of N inputs has n_l / N of its dimensions in level l, the theory p_l. Where
p_l N is no integer, the theory is solved again with the shares of the runs.
"""

from dataclasses import dataclass, field

import numpy as np

from tutelage.comparison.pairing import Pair
from tutelage.comparison.variants import solve_variant
from tutelage.problem import Spectrum, Start

SAME_SHARES = 1e-9  # relative difference of shares that counts as none


@dataclass(frozen=True)
class LevelShift:
    """The change of the theory by the shares of the runs.

    values: arrays (time, ...) by name; empty if nothing changes or it is not known.
    note: a remark on the level that changes most; None if nothing changes.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    note: str | None = None


def level_shift(pair: Pair) -> LevelShift:
    """Compute what solving with the shares n_l / N of the runs changes."""
    problem = pair.problem
    start = pair.start
    dim = pair.dim
    if problem is None or start is None or dim is None:
        return LevelShift()
    if dim < problem.inputs.levels:
        return LevelShift()
    shares = problem.inputs.level_dims(dim) / dim
    fractions = np.asarray(problem.inputs.fractions)
    differences = np.abs(shares / fractions - 1)
    if np.max(differences) < SAME_SHARES:
        return LevelShift()
    # the same weights, level by level
    r, q, t = (np.asarray(overlaps) for overlaps in start.blocks(problem))
    changes_of_teacher = {}
    T = t
    if problem.mixture is not None:
        gram = t[:, problem.label_fields :, problem.label_fields :]
        inputs = problem.mixture.with_shares(shares, gram)
    else:
        inputs = Spectrum(problem.inputs.eigenvalues, shares, normalize=False)
        if problem.references.gram is not None:
            changes_of_teacher["teacher.gram"] = t
            T = None
    changed_start = Start(R=r, Q=q, T=T, readout=start.readout, bias=start.bias)
    changed_problem = problem.replace(inputs=inputs, **changes_of_teacher)
    shifted = solve_variant(pair, changed_problem, changed_start)
    if shifted is None:
        return LevelShift()
    level = int(np.argmax(differences))
    counts = f"{shares[level]:.5g} of them instead of {fractions[level]:.5g}"
    return LevelShift(
        values={name: shifted[name] - pair.theory[name] for name in pair.compared},
        note=(
            f"of {dim} dimensions the levels hold whole numbers (level {level + 1}: "
            f"{counts}), which is part of the expected gap"
        ),
    )
