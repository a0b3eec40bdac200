"""How much a quadratic student can say, and in how many ways it can say the same: counted, and measured as ranks.

A quadratic student is the matrix W^T W. With p units in N dimensions and m = min(p, N)
    degrees of freedom (the dimension of all W^T W)            N m - m (m - 1) / 2
and the students with the teacher's matrix of rank k = min(p*, N) <= p are W = S W0, S^T S = 1, which form a manifold of
    dimension                                                   p k - k (k + 1) / 2
(Bocchi et al. 2026, sec. 7.5). Its tangent vectors are dS = S Omega + S_perp K (sec. 7.2.3): Omega antisymmetric mixes the
k directions that are used, k (k - 1) / 2 ways; K brings in units that are not used, k (p - k) ways.
Locally both counts are ranks: of dW -> dW^T W + W^T dW at a random W, and of Psi -> Psi W (Psi
antisymmetric) at a solution.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from tutelage import InputError, checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANK = 1e-9  # singular values below this share of the largest are zero
LARGEST = 4000  # rows or columns of a matrix whose rank is measured


def manifold_dimension(students: int, rank: int) -> int:
    """Dimension of all W with a given W^T W of this rank."""
    return students * rank - rank * (rank + 1) // 2


def degrees_of_freedom(students: int, dim: int) -> int:
    """Dimension of all W^T W, W (students, dim)."""
    m = min(students, dim)
    return dim * m - m * (m - 1) // 2


@dataclass(frozen=True)
class Tangents:
    """Directions along the manifold of solutions at W (p, N), in its two families.

    rotations, exchanges: (count, p, N), S Omega W0 and S_perp K W0 for W = S W0
    (Bocchi et al. 2026, section 7.2.3). The counts of a `SolutionManifold` are ranks.
    """

    W: np.ndarray
    rotations: np.ndarray
    exchanges: np.ndarray

    @property
    def ranks(self) -> tuple[int, int]:
        """How many directions each family has."""
        return self._rank_of(self.rotations), self._rank_of(self.exchanges)

    @property
    def common_rank(self) -> int:
        """How many directions both have together."""
        return self._rank_of(np.concatenate([self.rotations, self.exchanges]))

    def _rank_of(self, directions: np.ndarray) -> int:
        return _rank(directions.reshape(len(directions), self.W.size))


@dataclass(frozen=True)
class SolutionManifold:
    """How much a quadratic student can say, and in how many ways it can say the same.

    degrees_of_freedom: N m - m (m - 1)/2, m = min(p, N). dimension: of the manifold of its solutions, p k - k (k + 1)/2,
    k = min(p*, N); None if it cannot be perfect (Bocchi et al. 2026, sec. 7.5).
    """

    students: int
    teachers: int
    dim: int
    degrees_of_freedom: int
    dimension: int | None

    def measured_degrees_of_freedom(self, seed: int = 0) -> int:
        """The rank of dW -> dW^T W + W^T dW at a random W."""
        p = self.students
        n = self.dim
        W = _rng(seed).standard_normal((p, n))
        rows, columns = np.triu_indices(n)
        _require_small(p * n)
        change = np.zeros((p, n, n, n))
        for a in range(n):
            change[:, a, a, :] += W
            change[:, a, :, a] += W
        return _rank(change.reshape(p * n, n, n)[:, rows, columns])

    def measured_dimension(self, seed: int = 0) -> int:
        """The rank of Psi -> Psi W at a random solution W."""
        self._require_solution()
        p = self.students
        n = self.dim
        rng = _rng(seed)
        rank = min(self.teachers, n)
        _require_small(p * (p - 1) // 2, p * n)
        W = np.linalg.qr(rng.standard_normal((p, rank)))[0] @ rng.standard_normal(
            (rank, n)
        )
        turned = np.zeros((p * (p - 1) // 2, p, n))
        for i, (a, b) in enumerate(combinations(range(p), 2)):
            turned[i, a], turned[i, b] = W[b], -W[a]
        return _rank(turned.reshape(-1, p * n))

    @property
    def rotations(self) -> int | None:
        """Tangent directions S Omega: the used directions mix (section 7.2.3)."""
        return None if self.dimension is None else self._rank * (self._rank - 1) // 2

    @property
    def exchanges(self) -> int | None:
        """Tangent directions S_perp K: other units take their share (section 7.2.3)."""
        if self.dimension is None:
            return None
        return self._rank * (self.students - self._rank)

    def tangents(self, seed: int = 0) -> "Tangents":
        """Return a random solution W = S W0 and a basis of each family there."""
        self._require_solution()
        rank = self._rank
        _require_small(rank * self.students, self.students * self.dim)
        rng = _rng(seed)
        units = np.linalg.qr(rng.standard_normal((self.students, self.students)))[0]
        used = units[:, :rank]
        W0 = rng.standard_normal((rank, self.dim))
        rotations = [used @ omega @ W0 for omega in _antisymmetric_basis(rank)]
        exchanges = [np.outer(other, row) for other in units[:, rank:].T for row in W0]
        shape = (-1, self.students, self.dim)
        return Tangents(
            W=used @ W0,
            rotations=np.array(rotations).reshape(shape),
            exchanges=np.array(exchanges).reshape(shape),
        )

    @property
    def _rank(self) -> int:
        return min(self.teachers, self.dim)

    def _require_solution(self) -> None:
        if self.dimension is None:
            raise InputError(
                f"{self.students} units cannot copy {self.teachers}; there is no solution to measure at. "
                "Give the student as many units as the teacher."
            )

    def plot(self, *, title: str | None = None) -> "Figure":
        """Both counts against the number of students, up to twice as many as this, with ranks measured for small ones."""
        from tutelage_papers.quadratic.plots import plot_solution_manifold

        family = [
            solution_manifold(p, self.teachers, self.dim)
            for p in range(1, 2 * max(self.students, self.dim) + 1)
        ]
        return plot_solution_manifold(self, family, title=title)

    def __str__(self) -> str:
        who = f"{self.students} quadratic units in {self.dim} dimensions"
        says = f"{who}: {self.degrees_of_freedom} degrees of freedom of {self.students * self.dim} weights"
        if self.dimension is None:
            return f"{says}; they cannot copy {self.teachers} teachers"
        return (
            f"{says}; the perfect copies of {self.teachers} teachers form a manifold of dimension {self.dimension}: "
            f"{self.rotations} rotations of the used directions, {self.exchanges} exchanges with unused units"
        )


def solution_manifold(students: int, teachers: int, dim: int) -> SolutionManifold:
    """Degrees of freedom of a quadratic student, and the dimension of the manifold of its zero-error solutions.

    For any widths, also more students than dimensions; the measured_... methods check both counts as ranks.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> count = tutelage_papers.quadratic.solution_manifold(students=6, teachers=3, dim=5)
    >>> count.degrees_of_freedom, count.dimension
    (15, 12)
    """
    p = checks.as_count("students", students)
    p_teacher = checks.as_count("teachers", teachers)
    n = checks.as_count("dim", dim)
    rank = min(p_teacher, n)
    return SolutionManifold(
        p,
        p_teacher,
        n,
        degrees_of_freedom(p, n),
        manifold_dimension(p, rank) if p >= rank else None,
    )


def _antisymmetric_basis(size: int) -> list[np.ndarray]:
    """Return the matrices e_a e_b^T - e_b e_a^T."""
    basis = []
    for a, b in combinations(range(size), 2):
        matrix = np.zeros((size, size))
        matrix[a, b] = 1.0
        matrix[b, a] = -1.0
        basis.append(matrix)
    return basis


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(checks.as_count("seed", seed, least=0))


def _require_small(*sizes: int) -> None:
    if max(sizes) > LARGEST:
        raise InputError(
            f"the rank of a matrix of {max(sizes)} rows was asked for; at most {LARGEST} are measured. Lower dim."
        )


def _rank(matrix: np.ndarray) -> int:
    if matrix.size == 0:
        return 0
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(sizes > RANK * sizes[0]))
