"""What a mode does, in words, measured on its vectors."""

import numpy as np

from tutelage.analysis.modes import Mode, decompose, left_vectors
from tutelage.analysis.symmetry import Subspace
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.overlaps import Overlaps


def named_modes(system: OrderParameters, state: Overlaps, J: np.ndarray, free: Subspace) -> tuple[Mode, ...]:
    """All modes of the Jacobian J of the entries that learn, named."""
    groups = decompose(J)
    right = np.concatenate([vectors for _, vectors in groups], axis=1)
    left = left_vectors(right)
    modes, at = [], 0
    for rate, vectors in groups:
        for column in range(at, at + vectors.shape[1]):
            r, l = (x.real if isinstance(rate, float) else x for x in (right[:, column], left[column]))
            modes.append(Mode(rate, free.embed @ r, free.embed @ l, vectors.shape[1], "unnamed"))
        at += vectors.shape[1]
    return tuple(modes)
