"""The modes of a state: how small deviations grow, fade or turn, with the vectors that say so.

J = sum_i rate_i right_i left_i^T, in the flat coordinates of `dynamics.linearized`; entries that do not learn are left out
of J and are zero in the vectors. A deviation u contains mode i with amplitude left_i . u, which grows as exp(rate_i alpha).
"""

from dataclasses import dataclass

import numpy as np

EQUAL = 1e-7  # rates closer than this, relative to the largest, are one rate


@dataclass(frozen=True)
class Mode:
    """One mode of the linear dynamics around a fixed point.

    rate: per unit of alpha, a float where it is real. right, left: flat vectors with left @ right = 1.
    multiplicity: how many modes share this rate (each is listed). name: what the mode does, in words.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> mode = tu.analysis.fixed_point(problem, "plateau").unstable[0]
    >>> round(mode.growth, 5), mode.multiplicity
    (0.03162, 1)
    >>> print(mode.name)
    breaks the symmetry between student units: each turns to teachers of its own
    """

    rate: float | complex
    right: np.ndarray
    left: np.ndarray
    multiplicity: int
    name: str

    @property
    def growth(self) -> float:
        """The real part of the rate: positive for a deviation that grows."""
        return float(np.real(self.rate))

    def __str__(self) -> str:
        times = f"  x{self.multiplicity}" if self.multiplicity > 1 else ""
        return f"{rate_in_words(self.rate)}{times}  {self.name}"


def rate_in_words(rate: float | complex) -> str:
    """+0.031618, or +0.01 ± 0.3i."""
    if isinstance(rate, complex):
        return f"{rate.real:+.6g} ± {abs(rate.imag):.6g}i"
    return f"{rate:+.6g}"


def decompose(J: np.ndarray) -> list[tuple[float | complex, np.ndarray]]:
    """(rate, right vectors (n, multiplicity)) of each group of equal rates, fastest growing first.

    Rounding splits a repeated real rate into complex pairs; the real span of their vectors is what they stand for.
    """
    values, vectors = np.linalg.eig(J)
    scale = max(float(np.max(np.abs(values), initial=0.0)), 1e-300)
    groups = []
    for members in _clusters(values, EQUAL * scale):
        mean = complex(values[members].mean())
        if abs(mean.imag) > EQUAL * scale:
            groups.append((mean, vectors[:, members]))
        else:
            groups.append((mean.real, _real_span(vectors[:, members])))
    return sorted(groups, key=lambda group: (-np.real(group[0]), -np.imag(group[0])))


def left_vectors(right: np.ndarray) -> np.ndarray:
    """Rows of the inverse of the matrix of right vectors."""
    return np.linalg.pinv(right, rcond=1e-13)


def _clusters(values: np.ndarray, width: float) -> list[np.ndarray]:
    """Indices of values that a chain of steps shorter than `width` connects."""
    left, out = list(range(values.size)), []
    while left:
        group = [left.pop(0)]
        for member in group:
            near = [i for i in left if abs(values[i] - values[member]) <= width]
            left = [i for i in left if i not in near]
            group.extend(near)
        out.append(np.array(group))
    return out


def _real_span(vectors: np.ndarray) -> np.ndarray:
    """An orthonormal real basis of the span; one vector keeps its direction and gets a positive largest entry."""
    count = vectors.shape[1]
    basis = np.linalg.svd(np.concatenate([np.real(vectors), np.imag(vectors)], axis=1), full_matrices=False)[0][:, :count]
    largest = np.argmax(np.abs(basis), axis=0)
    return basis * np.sign(basis[largest, np.arange(count)])
