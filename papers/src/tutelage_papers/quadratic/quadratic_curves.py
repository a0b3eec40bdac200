"""Learning curves of quadratic networks that start in order, mode by mode: exact at any rate, and quick.

If R0 = U D V^T, and Q(0) is diagonal in U and T in V (orthonormal students and teachers are), all three stay so (implicit_bias.py).
Mode i is then a student direction of squared length q, a teacher direction of squared length t and their overlap d; what
the students have beside the teachers is z = q - d^2/t. With s = sum (v* t - v q) and 2 e_g = s^2 + 2 tr,
    tr = sum (v q - v* t)^2 + 2 v v* t z
    d' = 2 eta v d (s + 2 (v* t - v q))
    z' = 4 eta v z (s - 2 v q) + (eta^2/B) 4 v^2 (q (s^2 + 2 tr + sigma^2) + 4 s X + 8 Y)
    X = v* d^2 - v q^2,   Y = v* d Z - v q X,   Z = d (v* t - v q)
which is `solve` for p + min(p, p*) numbers instead of p (p + p*). Students beyond p* have t = d = 0. No term is a difference
of large ones near perfect learning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import InputError, Problem, Start, checks
from tutelage_papers.assumptions import (
    constant_rate,
    quadratic_readouts,
    require_first_layer_sgd,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_ORDER = (
    1e-9  # what Q and T may have off their diagonals, in units of the largest entry
)
DIVERGED = 1e3  # squared lengths this much larger than at the start have diverged
RTOL = 1e-9
ATOL = 1e-14
STIFF_SIZE = 40  # up to so many numbers a solver for stiff curves (slow extra units, noise) is affordable


@dataclass(frozen=True)
class QuadraticCurves:
    """Learning curves mode by mode: R = U diag(d) V^T, Q = U diag(d^2 / t + z) U^T, T = V diag(t) V^T.

    d, z (..., time, p), error (..., time); leading axis: starts, if several were given.
    t (..., p): squared lengths of the teachers' directions, 0 for students beyond p*. left (..., p, p), right (..., p*, p*):
    U and V. A start that has diverged is NaN from then on.
    """

    problem: Problem
    times: np.ndarray
    d: np.ndarray
    z: np.ndarray
    t: np.ndarray
    error: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @property
    def q(self) -> np.ndarray:
        """Squared lengths of the student directions, the eigenvalues of Q."""
        return self.z + self.d**2 / _positive(self.t)[..., None, :]

    @property
    def R(self) -> np.ndarray:
        """(..., time, p, p*)."""
        p_teacher = self.right.shape[-1]
        k = min(self.d.shape[-1], p_teacher)
        left = self.left[..., None, :, :k]
        right = self.right[..., None, :, :k]
        return left * self.d[..., None, :k] @ np.swapaxes(right, -1, -2)

    @property
    def Q(self) -> np.ndarray:
        """(..., time, p, p)."""
        left = self.left[..., None, :, :]
        return left * self.q[..., None, :] @ np.swapaxes(left, -1, -2)

    def time_below(self, level: Any) -> np.ndarray:
        """When e_g first falls below a level (one for all starts, or one for each); inf: not within these times."""
        level = np.asarray(level, float)
        below = np.nan_to_num(self.error, nan=np.inf) < level[..., None]
        last = self.error.shape[-1] - 1
        after = np.where(below.any(-1), np.argmax(below, -1), last)
        before = np.maximum(after - 1, 0)
        high, low = (
            np.take_along_axis(self.error, i[..., None], -1)[..., 0]
            for i in (before, after)
        )
        share = np.where(
            high > low, (high - level) / np.where(high > low, high - low, 1.0), 0.0
        )
        crossing = self.times[before] + np.clip(share, 0.0, 1.0) * (
            self.times[after] - self.times[before]
        )
        return np.where(below.any(-1), crossing, np.inf)

    def plot(self, *, title: str | None = None) -> "Figure":
        """Overlaps, squared lengths and error of every mode, as a figure."""
        from tutelage_papers.quadratic.plots import plot_quadratic_curves

        return plot_quadratic_curves(self, title=title)

    def __str__(self) -> str:
        end = np.atleast_1d(self.error[..., -1])
        many = f"{end.size} starts: " if end.size > 1 else ""
        lost = int(np.sum(~np.isfinite(end)))
        known = end[np.isfinite(end)]
        text = (
            f"e_g = {np.median(known):.4g} at alpha = {self.times[-1]:g}"
            if known.size
            else "no start has an end"
        )
        return f"{many}{text}" + (f"; {lost} diverged" if lost else "")


def quadratic_curves(
    problem: Problem,
    start: Start | Sequence[Start],
    times: Any,
    *,
    gradient_flow: bool = False,
) -> QuadraticCurves:
    """`solve` for quadratic networks whose starts are in order; one start or several, which are solved together.

    Equal readouts on each side, isotropic inputs, plain SGD on the first layer with constant rates; any widths, noise and
    batch. A start that is not in order is refused; `solve` knows those.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> network = tutelage_papers.quadratic.quadratic_network(3, 2)
    >>> start = network.start(overlap=0.01, seed=0)
    >>> curves = tutelage_papers.quadratic.quadratic_curves(network.problem, start, [0.0, 1000.0])
    >>> curves.error.shape, curves.R.shape
    ((2,), (2, 3, 2))
    """
    v, v_teacher = quadratic_readouts(problem, "quadratic_curves")
    require_first_layer_sgd(problem, "quadratic_curves")
    eta = constant_rate(problem, "quadratic_curves")
    square = (
        0.0
        if checks.as_flag("gradient_flow", gradient_flow)
        else eta**2 / float(np.asarray(problem.optimizer.batch))
    )
    times = _times(times)
    starts = (
        [start]
        if isinstance(start, Start)
        else list(start)
        if isinstance(start, Sequence)
        else []
    )
    if not starts or not all(isinstance(x, Start) for x in starts):
        raise InputError(
            f"start is {checks.shown(start)}; it must be a Start or a list of them. Make one with Start or random_start."
        )
    modes = [_in_modes(x, problem) for x in starts]
    d, z, t, left, right, unseen = (np.stack(x) for x in zip(*modes, strict=True))
    noise = float(np.asarray(problem.noise))
    law = _Law(v, v_teacher, eta, square, noise, t, unseen)
    d, z = _integrate(law, d, z, times)
    error = np.stack([law.error(a, b) for a, b in zip(d, z, strict=True)], axis=-1)
    d = np.moveaxis(d, 0, -2)
    z = np.moveaxis(z, 0, -2)
    pick = (lambda x: x[0]) if isinstance(start, Start) else (lambda x: x)
    return QuadraticCurves(
        problem, times, *(pick(x) for x in (d, z, t, error, left, right))
    )


@dataclass(frozen=True)
class _Law:
    """The drift of d and z (starts, p); unseen (starts,): (sum t, sum t^2) of teachers beyond the students."""

    v: float
    v_teacher: float
    eta: float
    square: float
    noise: float
    t: np.ndarray
    unseen: np.ndarray

    def _sums(self, d: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        q = z + d**2 / _positive(self.t)
        missing = self.v_teacher * self.t - self.v * q
        s = missing.sum(-1, keepdims=True) + self.v_teacher * self.unseen[:, :1]
        squares = (missing**2 + 2 * self.v * self.v_teacher * self.t * z).sum(
            -1, keepdims=True
        )
        return q, missing, s, squares + self.v_teacher**2 * self.unseen[:, 1:]

    def error(self, d: np.ndarray, z: np.ndarray) -> np.ndarray:
        _, _, s, squares = self._sums(d, z)
        return (s**2 / 2 + squares)[:, 0]

    def drift(self, d: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, missing, s, squares = self._sums(d, z)
        v = self.v
        u = self.v_teacher
        X = u * d**2 - v * q**2
        Y = u * d * (d * missing) - v * q * X
        noise = (
            4 * v**2 * (q * (s**2 + 2 * squares + self.noise**2) + 4 * s * X + 8 * Y)
        )
        return 2 * self.eta * v * d * (s + 2 * missing), 4 * self.eta * v * z * (
            s - 2 * v * q
        ) + self.square * noise


def _integrate(
    law: _Law, d: np.ndarray, z: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """d and z at the times (time, start, p), by scipy; a start that diverges stands still where it does, and becomes NaN."""
    from scipy.integrate import solve_ivp

    shape = d.shape
    bound = DIVERGED * (1.0 + z.max() + (d**2).max())

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        d, z = y.reshape(2, *shape)
        moving = (np.maximum(np.abs(z), d**2).max(-1, keepdims=True) < bound).astype(
            float
        )
        return np.concatenate([(x * moving).ravel() for x in law.drift(d, z)])

    first = np.concatenate([d.ravel(), z.ravel()])
    if times[-1] == 0.0:
        return np.repeat(d[None], times.size, 0), np.repeat(z[None], times.size, 0)
    method = "LSODA" if first.size <= STIFF_SIZE else "DOP853"
    found = solve_ivp(
        rates,
        (0.0, times[-1]),
        first,
        method=method,
        t_eval=times,
        rtol=RTOL,
        atol=ATOL,
    )
    if not found.success:
        raise InputError(
            f"these curves could not be followed to alpha = {times[-1]:g}; lower the learning rate."
        )
    d, z = found.y.T.reshape(-1, 2, *shape).swapaxes(0, 1)
    lost = np.maximum(np.abs(z), d**2).max(-1, keepdims=True) >= bound
    return np.where(lost, np.nan, d), np.where(lost, np.nan, z)


def _in_modes(start: Start, problem: Problem) -> tuple[np.ndarray, ...]:
    """d, z, t (p,), U, V and the teachers beyond the students of one start."""
    R, Q, T = (np.asarray(x)[0] for x in start.blocks(problem))
    p, p_teacher = R.shape
    k = min(p, p_teacher)
    left, sizes, right = np.linalg.svd(R)
    right = right.T
    left[:, k:] = left[:, k:] @ np.linalg.eigh(left[:, k:].T @ Q @ left[:, k:])[1]
    right[:, k:] = right[:, k:] @ np.linalg.eigh(right[:, k:].T @ T @ right[:, k:])[1]
    inside_Q = left.T @ Q @ left
    inside_T = right.T @ T @ right
    for name, matrix in (("Q(0) and R0 R0^T", inside_Q), ("T and R0^T R0", inside_T)):
        off = float(np.max(np.abs(matrix - np.diag(np.diag(matrix)))))
        if off > IN_ORDER * float(np.max(np.abs(matrix))):
            raise InputError(
                f"{name} do not commute (by {off:.2g}); quadratic_curves needs matrices that commute. Use solve."
            )
    d = np.zeros(p)
    t = np.zeros(p)
    lengths = np.diag(inside_T)
    d[:k], t[:k], rest = sizes, lengths[:k], lengths[k:]
    return (
        d,
        np.diag(inside_Q) - d**2 / _positive(t),
        t,
        left,
        right,
        np.array([rest.sum(), np.sum(rest**2)]),
    )


def _positive(t: np.ndarray) -> np.ndarray:
    """t, with 1 where a student has no teacher (and d = 0)."""
    return np.where(t > 0, t, 1.0)


def _times(times: Any) -> np.ndarray:
    values = np.asarray(checks.as_array("times", times), float)
    if (
        values.ndim != 1
        or values.size < 2
        or np.any(np.diff(values) <= 0)
        or values[0] < 0
        or not np.all(np.isfinite(values))
    ):
        raise InputError(
            f"times is {checks.shown(times)}; it must hold two or more increasing times from 0 on."
        )
    return values
