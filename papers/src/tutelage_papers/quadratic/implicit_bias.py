"""Which of its many solutions does a quadratic network reach? The one closest to where it began, if its start is in order.

The solutions are W = sqrt(v*/v) S W*, S^T S = 1. The closest to W(0) in Euclidean distance has S = R0 (R0^T R0)^(-1/2), the
polar factor of the first overlaps (Bocchi et al. 2026, eqs. 19-22). It is where learning ends if S(t), the polar factor of
R(t), is conserved, and it is, at any learning rate, if R0 = U D V^T with Q(0) diagonal in U and T in V: then R, Q and all
that A, B and G make of them stay so. That is,
    [Q(0), R0 R0^T] = 0   and   [T, R0^T R0] = 0;
orthonormal students and teachers satisfy both. Otherwise S moves, and the end is another solution (the paper's claim lacks
this condition). Fewer students than (orthonormal) teachers are never perfect; they end among the best fits,
W = sqrt(alpha) S W*, S S^T = 1, with alpha of the class (p, 0) of critical points, at small rates (what cannot be learned is
like noise); S = (R0 R0^T)^(-1/2) R0 is conserved at any.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage import InputError, checks
from tutelage_papers.assumptions import (
    constant_rate,
    quadratic_readouts,
    require_first_layer_sgd,
    require_start,
)
from tutelage_papers.quadratic.solution_manifold import (
    degrees_of_freedom,
    manifold_dimension,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_ORDER = (
    1e-10  # commutators below this, in units of the product of the norms, are rounding
)
FAINT = 1e-12  # smallest singular value of R0, in units of sqrt(tr Q tr T), that still has a direction
DECADES = 7.0  # how far below its final size an overlap is followed by `follow`
SMALL = 5e-4  # norm to which it follows the units that vanish


@dataclass(frozen=True)
class ImplicitBias:
    """What `implicit_bias` predicts from a start.

    S (p, p*): orthonormal columns (rows, if p < p*, where solution means best fit). R, Q: overlaps at the closest solution.
    distance: |W(0) - W|^2 / N to it.
    disorder: (student, teacher), the relative sizes of the two commutators that must vanish for S to be conserved.
    manifold_dimension: of all solutions. degrees_of_freedom: of the student in N dimensions, None if the start has no N.
    """

    problem: tu.Problem
    start: tu.Start
    S: np.ndarray
    R: np.ndarray
    Q: np.ndarray
    distance: float
    disorder: tuple[float, float]
    manifold_dimension: int
    degrees_of_freedom: int | None

    @property
    def conserved(self) -> bool:
        """Is S conserved, so that learning ends at this solution?"""
        return max(self.disorder) <= IN_ORDER

    def along(self, trajectory: tu.Trajectory) -> "BiasPath":
        """S(t) and the distance to the predicted end along any trajectory of these widths, its own or another."""
        R = np.asarray(trajectory.R)
        if R.shape[-2:] != self.S.shape:
            raise InputError(
                f"the trajectory has R of shape {R.shape}; this prediction is for (..., time, {_by(self.S)})."
            )
        S = polar_factor(R)
        gap = np.sqrt(np.sum((R - self.R) ** 2, axis=(-2, -1)))
        moved = np.max(np.abs(S - S[..., :1, :, :]), axis=(-2, -1))
        return BiasPath(
            self,
            np.asarray(trajectory.times),
            S,
            moved,
            gap,
            np.asarray(trajectory.error),
        )

    def follow(self, times: Any = None, *, gradient_flow: bool = False) -> "BiasPath":
        """Solve from the start and look along the way. times: default until R must be within 1e-3 of its end."""
        times = self._times() if times is None else times
        return self.along(
            tu.solve(self.problem, self.start, times, gradient_flow=gradient_flow)
        )

    def _times(self) -> np.ndarray:
        """Overlaps grow, and most errors decay, at rate 4 eta v v*. Units beyond p* vanish more slowly: their norms obey
        dq = -4 eta v^2 (2 + 2 (p - p*) / (2 + p*)) q^2, along the directions in which the solution is merely flat."""
        (v, v_teacher), (p, p_teacher) = (
            quadratic_readouts(self.problem, "implicit_bias"),
            self.S.shape,
        )
        eta = constant_rate(self.problem, "follow", "Give times.")
        least = float(
            np.min(
                np.linalg.svd(self.start.blocks(self.problem)[0][0], compute_uv=False)
            )
        )
        growth = (np.log(1 / min(least, 0.5)) + DECADES * np.log(10)) / (
            4 * eta * v * v_teacher
        )
        vanishing = 1 / (
            4 * eta * v**2 * (2 + 2 * (p - p_teacher) / (2 + p_teacher)) * SMALL
        )
        return tu.log_times(
            0.01 * growth, growth + (vanishing if p > p_teacher else 0.0)
        )

    def plot(self, *others: tu.Trajectory, title: str | None = None) -> "Figure":
        """The figure of `follow()`, with other trajectories beside it."""
        return self.follow().plot(*others, title=title)

    def __str__(self) -> str:
        p, p_teacher = self.S.shape
        what = "solutions" if p >= p_teacher else "best fits"
        lines = [
            f"the closest of the {what} lies at |W(0) - W|^2/N = {self.distance:.6g}; all of them form a manifold of "
            f"dimension {self.manifold_dimension}",
            f"S, the polar factor of R0, {p} x {p_teacher}: "
            + ", ".join(f"{x:.4g}" for x in self.S.ravel()[:12]),
        ]
        if self.conserved:
            lines.append("S is conserved, at any learning rate: learning ends there")
        else:
            q, t = self.disorder
            lines.append(
                f"S moves: Q(0) and R0 R0^T fail to commute by {q:.2g}, T and R0^T R0 by {t:.2g} (relative)"
            )
        if p < p_teacher:
            lines.append(
                "what cannot be learned acts as noise: a finite learning rate keeps the network at a distance from it"
            )
        if float(np.asarray(self.problem.noise)) > 0:
            lines.append(
                "label noise keeps the network at a distance from the solution"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class BiasPath:
    """How a prediction fares along a trajectory. S (..., time, p, p*): the polar factor of R(t), conserved if it holds.

    moved: largest change of an entry of S. gap: |R(t) - R| to the predicted solution.
    """

    bias: ImplicitBias
    times: np.ndarray
    S: np.ndarray
    moved: np.ndarray
    gap: np.ndarray
    error: np.ndarray

    @property
    def confirmed(self) -> bool:
        """Does the trajectory end at the predicted solution, within 1e-3?"""
        return bool(np.all(self.gap[..., -1] < 1e-3))

    def plot(self, *others: Any, title: str | None = None) -> "Figure":
        """Distance to the predicted end (black), that of other trajectories (gray), and the entries of S(t)."""
        from tutelage_papers.quadratic.plots import plot_bias

        paths = [
            other if isinstance(other, BiasPath) else self.bias.along(other)
            for other in others
        ]
        return plot_bias(self, paths, title=title)

    def __str__(self) -> str:
        end = float(np.max(self.gap[..., -1]))
        where = "as predicted" if self.confirmed else "elsewhere"
        return (
            f"after alpha = {self.times[-1]:g}: {where}, |R - R predicted| = {end:.3g}; "
            f"S has moved by {float(np.max(self.moved)):.2g}; e_g = {float(np.max(self.error[..., -1])):.3g}"
        )


def polar_factor(R: np.ndarray) -> np.ndarray:
    """R (R^T R)^(-1/2) of matrices (..., p, p*), p >= p*; (R R^T)^(-1/2) R for p < p*."""
    left, _, right = np.linalg.svd(R, full_matrices=False)
    return left @ right


def implicit_bias(problem: tu.Problem, start: tu.Start) -> ImplicitBias:
    """Which solution (or best fit) a quadratic network will reach from a start, and whether that can be known from it alone.

    Equal readouts on each side, isotropic inputs, first layer trained by plain SGD (any constant or changing rate). If there
    are more teachers than students, they must be orthonormal.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.quadratic.quadratic_network(3, 2).problem
    >>> start = tu.Start(R=[[0.1, 0.0], [0.0, 0.05], [0.02, 0.0]], Q=np.eye(3), T=np.eye(2))
    >>> bias = tutelage_papers.quadratic.implicit_bias(problem, start)
    >>> bias.conserved, np.allclose(bias.S.T @ bias.S, np.eye(2))
    (True, True)
    """
    v, v_teacher = quadratic_readouts(problem, "implicit_bias")
    require_first_layer_sgd(problem, "implicit_bias")
    p = problem.student.hidden
    p_teacher = problem.labeler.hidden
    checks.require_untraced("start", "implicit_bias", require_start(start))
    R, Q, T = (np.asarray(x)[0] for x in start.blocks(problem))
    if p < p_teacher and np.max(np.abs(T - np.eye(p_teacher))) > IN_ORDER:
        raise InputError(
            f"the student has {p} units for {p_teacher} teachers that are not orthonormal; their best fit is not known. Use "
            f"orthonormal teachers, or {p_teacher} units or more."
        )
    sizes = np.linalg.svd(R, compute_uv=False)
    if sizes[-1] <= FAINT * np.sqrt(np.trace(Q) * np.trace(T)):
        rank = int(np.sum(sizes > FAINT * np.sqrt(np.trace(Q) * np.trace(T))))
        raise InputError(
            f"the initial R has rank {rank}; it must have rank {min(p, p_teacher)}, or several solutions are equally near. "
            "Start with overlaps, such as random_start(problem, dim=1000) has."
        )
    missing = (
        v_teacher * max(p_teacher - p, 0) / (2 + p)
    )  # tau / 2 of the class (p, 0), critical_points.py
    S = polar_factor(R)
    scale = np.sqrt((v_teacher + missing) / v)
    end = scale**2 * S @ T @ S.T
    return ImplicitBias(
        problem=problem,
        start=start,
        S=S,
        R=scale * S @ T,
        Q=end,
        distance=float(np.trace(Q) + np.trace(end) - 2 * scale * np.sum(S * R)),
        disorder=(_commutator(Q, R @ R.T), _commutator(T, R.T @ R)),
        manifold_dimension=manifold_dimension(max(p, p_teacher), min(p, p_teacher)),
        degrees_of_freedom=None
        if start.dim is None
        else degrees_of_freedom(p, start.dim),
    )


def _commutator(X: np.ndarray, Y: np.ndarray) -> float:
    size = float(np.linalg.norm(X) * np.linalg.norm(Y))
    return float(np.linalg.norm(X @ Y - Y @ X)) / size


def _by(matrix: np.ndarray) -> str:
    return ", ".join(str(n) for n in matrix.shape)
