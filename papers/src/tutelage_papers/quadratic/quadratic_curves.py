"""Learning curves of quadratic networks that start in order, mode by mode.

Exact at any rate, and quick. If R0 = U D V^T, and Q(0) is diagonal in U and T in V
(orthonormal students and teachers are), all three stay so (implicit_bias.py). Mode i is then
a student direction of squared length q, a teacher direction of squared length t and their
overlap d; beside the teachers the students have z = q - d^2/t. With s = sum (v* t - v q) and
2 e_g = s^2 + 2 tr,

    tr = sum (v q - v* t)^2 + 2 v v* t z
    d' = 2 eta v d (s + 2 (v* t - v q))
    z' = 4 eta v z (s - 2 v q) + (eta^2/B) 4 v^2 (q (s^2 + 2 tr + sigma^2) + 4 s X + 8 Y)
    X = v* d^2 - v q^2,   Y = v* d Z - v q X,   Z = d (v* t - v q)

which is `solve` for p + min(p, p*) numbers instead of p (p + p*). Students beyond p* have
t = d = 0. No term is a difference of large ones near perfect learning.
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

# Largest entries of Q and T off their diagonals, in units of the largest entry.
IN_ORDER = 1e-9
DIVERGED = 1e3  # squared lengths this much larger than at the start have diverged
RTOL = 1e-9
ATOL = 1e-14
# Up to so many numbers a solver for stiff curves (slow extra units, noise) is affordable.
STIFF_SIZE = 40


@dataclass(frozen=True)
class QuadraticCurves:
    """Learning curves mode by mode.

    R = U diag(d) V^T, Q = U diag(d^2 / t + z) U^T, T = V diag(t) V^T. d, z (..., time, p),
    error (..., time); leading axis: starts, if several were given. t (..., p): squared
    lengths of the teachers' directions, 0 for students beyond p*. left (..., p, p),
    right (..., p*, p*): U and V. A start that has diverged is NaN from then on.
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
        """Overlaps with the teachers, (..., time, p, p*)."""
        p_teacher = self.right.shape[-1]
        k = min(self.d.shape[-1], p_teacher)
        left = self.left[..., None, :, :k]
        right = self.right[..., None, :, :k]
        return left * self.d[..., None, :k] @ np.swapaxes(right, -1, -2)

    @property
    def Q(self) -> np.ndarray:
        """Overlaps between the students, (..., time, p, p)."""
        left = self.left[..., None, :, :]
        return left * self.q[..., None, :] @ np.swapaxes(left, -1, -2)

    def time_below(self, level: Any) -> np.ndarray:
        """Return the time at which e_g first falls below a level.

        One for all starts, or one for each; inf: not within these times.
        """
        level = np.asarray(level, float)
        below = np.nan_to_num(self.error, nan=np.inf) < level[..., None]
        falls = below.any(-1)
        last = self.error.shape[-1] - 1
        after = np.where(falls, np.argmax(below, -1), last)
        before = np.maximum(after - 1, 0)
        high = np.take_along_axis(self.error, before[..., None], -1)[..., 0]
        low = np.take_along_axis(self.error, after[..., None], -1)[..., 0]
        drop = np.where(high > low, high - low, 1.0)
        share = np.where(high > low, (high - level) / drop, 0.0)
        step = self.times[after] - self.times[before]
        crossing = self.times[before] + np.clip(share, 0.0, 1.0) * step
        return np.where(falls, crossing, np.inf)

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw overlaps, squared lengths and error of every mode."""
        from tutelage_papers.quadratic.plots import plot_quadratic_curves

        return plot_quadratic_curves(self, title=title)

    def __str__(self) -> str:
        end = np.atleast_1d(self.error[..., -1])
        finite = np.isfinite(end)
        text = "no start has an end"
        if finite.any():
            median = np.median(end[finite])
            text = f"e_g = {median:.4g} at alpha = {self.times[-1]:g}"
        if end.size > 1:
            text = f"{end.size} starts: {text}"
        if not finite.all():
            text += f"; {int(np.sum(~finite))} diverged"
        return text


def quadratic_curves(
    problem: Problem,
    start: Start | Sequence[Start],
    times: Any,
    *,
    gradient_flow: bool = False,
) -> QuadraticCurves:
    """Return what `solve` would, for quadratic networks whose starts are in order.

    One start or several, which are solved together. Equal readouts on each side, isotropic
    inputs, plain SGD on the first layer with constant rates; any widths, noise and batch. A
    start that is not in order is refused; `solve` knows those.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> network = tutelage_papers.quadratic.quadratic_network(3, 2)
    >>> start = network.start(overlap=0.01, seed=0)
    >>> curves = tutelage_papers.quadratic.quadratic_curves(
    ...     network.problem, start, [0.0, 1000.0]
    ... )
    >>> curves.error.shape, curves.R.shape
    ((2,), (2, 3, 2))
    """
    v, v_teacher = quadratic_readouts(problem, "quadratic_curves")
    require_first_layer_sgd(problem, "quadratic_curves")
    eta = constant_rate(problem, "quadratic_curves")
    # The factor of the terms of order eta^2.
    square = eta**2 / float(np.asarray(problem.optimizer.batch))
    if checks.as_flag("gradient_flow", gradient_flow):
        square = 0.0
    times = _times(times)
    modes = [_in_modes(each, problem) for each in _starts(start)]
    columns = [np.stack(column) for column in zip(*modes, strict=True)]
    d, z, t, left, right, unseen = columns
    law = _Law(
        v=v,
        v_teacher=v_teacher,
        eta=eta,
        square=square,
        noise=float(np.asarray(problem.noise)),
        t=t,
        unseen=unseen,
    )
    d, z = _integrate(law, d, z, times)
    pairs = zip(d, z, strict=True)
    error = np.stack([law.error(each_d, each_z) for each_d, each_z in pairs], axis=-1)
    d = np.moveaxis(d, 0, -2)
    z = np.moveaxis(z, 0, -2)
    # Of a single start, without an axis for starts.
    chosen = 0 if isinstance(start, Start) else slice(None)
    return QuadraticCurves(
        problem=problem,
        times=times,
        d=d[chosen],
        z=z[chosen],
        t=t[chosen],
        error=error[chosen],
        left=left[chosen],
        right=right[chosen],
    )


def _starts(start: Any) -> list[Start]:
    """One start or several, as a list."""
    if isinstance(start, Start):
        return [start]
    starts = list(start) if isinstance(start, Sequence) else []
    if not starts or not all(isinstance(each, Start) for each in starts):
        raise InputError(
            f"start is {checks.shown(start)}; it must be a Start or a list of them. "
            "Make one with Start or random_start."
        )
    return starts


@dataclass(frozen=True)
class _Law:
    """The drift of d and z (starts, p), by the equations of the module's docstring.

    unseen (starts, 2): sum t and sum t^2 of teachers beyond the students.
    """

    v: float
    v_teacher: float
    eta: float
    square: float
    noise: float
    t: np.ndarray
    unseen: np.ndarray

    def _sums(self, d: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        """q, v* t - v q, s and tr."""
        q = z + d**2 / _positive(self.t)
        missing = self.v_teacher * self.t - self.v * q
        s = missing.sum(-1, keepdims=True) + self.v_teacher * self.unseen[:, :1]
        squares = missing**2 + 2 * self.v * self.v_teacher * self.t * z
        seen = squares.sum(-1, keepdims=True)
        return q, missing, s, seen + self.v_teacher**2 * self.unseen[:, 1:]

    def error(self, d: np.ndarray, z: np.ndarray) -> np.ndarray:
        _, _, s, squares = self._sums(d, z)
        return (s**2 / 2 + squares)[:, 0]

    def drift(self, d: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, missing, s, squares = self._sums(d, z)
        v = self.v
        u = self.v_teacher
        X = u * d**2 - v * q**2
        Y = u * d * (d * missing) - v * q * X
        moment = q * (s**2 + 2 * squares + self.noise**2) + 4 * s * X + 8 * Y
        noise = 4 * v**2 * moment
        d_rate = 2 * self.eta * v * d * (s + 2 * missing)
        z_rate = 4 * self.eta * v * z * (s - 2 * v * q) + self.square * noise
        return d_rate, z_rate


def _integrate(
    law: _Law, d: np.ndarray, z: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """d and z at the times (time, start, p), by scipy.

    A start that diverges stands still where it does, and becomes NaN.
    """
    from scipy.integrate import solve_ivp

    shape = d.shape
    bound = DIVERGED * (1.0 + z.max() + (d**2).max())

    def size(d: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The largest squared length of each start."""
        return np.maximum(np.abs(z), d**2).max(-1, keepdims=True)

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        d, z = y.reshape(2, *shape)
        moving = (size(d, z) < bound).astype(float)
        d_rate, z_rate = law.drift(d, z)
        return np.concatenate([(d_rate * moving).ravel(), (z_rate * moving).ravel()])

    first = np.concatenate([d.ravel(), z.ravel()])
    if times[-1] == 0.0:
        return np.repeat(d[None], times.size, 0), np.repeat(z[None], times.size, 0)
    method = "LSODA" if first.size <= STIFF_SIZE else "DOP853"
    solution = solve_ivp(
        rates,
        (0.0, times[-1]),
        first,
        method=method,
        t_eval=times,
        rtol=RTOL,
        atol=ATOL,
    )
    if not solution.success:
        raise InputError(
            f"these curves could not be followed to alpha = {times[-1]:g}; lower the "
            "learning rate."
        )
    d, z = solution.y.T.reshape(-1, 2, *shape).swapaxes(0, 1)
    lost = size(d, z) >= bound
    return np.where(lost, np.nan, d), np.where(lost, np.nan, z)


def _in_modes(start: Start, problem: Problem) -> tuple[np.ndarray, ...]:
    """d, z, t (p,), U, V and the teachers beyond the students of one start."""
    R, Q, T = (np.asarray(blocks)[0] for blocks in start.blocks(problem))
    p, p_teacher = R.shape
    k = min(p, p_teacher)
    left, sizes, right = np.linalg.svd(R)
    right = right.T
    # Directions beyond min(p, p*) are free: those that make Q and T diagonal.
    left[:, k:] = _diagonal_basis(left[:, k:], Q)
    right[:, k:] = _diagonal_basis(right[:, k:], T)
    inside_Q = left.T @ Q @ left
    inside_T = right.T @ T @ right
    _require_diagonal("Q(0) and R0 R0^T", inside_Q)
    _require_diagonal("T and R0^T R0", inside_T)
    lengths = np.diag(inside_T)
    unseen = lengths[k:]
    d = np.zeros(p)
    t = np.zeros(p)
    d[:k] = sizes
    t[:k] = lengths[:k]
    z = np.diag(inside_Q) - d**2 / _positive(t)
    return d, z, t, left, right, np.array([unseen.sum(), np.sum(unseen**2)])


def _diagonal_basis(basis: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """A basis of the same space in which the matrix is diagonal."""
    _, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
    return basis @ vectors


def _require_diagonal(names: str, matrix: np.ndarray) -> None:
    """Refuse a start whose matrices do not commute."""
    off = float(np.max(np.abs(matrix - np.diag(np.diag(matrix)))))
    if off > IN_ORDER * float(np.max(np.abs(matrix))):
        raise InputError(
            f"{names} do not commute (by {off:.2g}); quadratic_curves needs matrices "
            "that commute. Use solve."
        )


def _positive(t: np.ndarray) -> np.ndarray:
    """t, with 1 where a student has no teacher (and d = 0)."""
    return np.where(t > 0, t, 1.0)


def _times(times: Any) -> np.ndarray:
    """The user's times, checked."""
    values = np.asarray(checks.as_array("times", times), float)
    several = values.ndim == 1 and values.size >= 2
    if several and np.all(np.isfinite(values)):
        increasing = bool(np.all(np.diff(values) > 0))
        if increasing and values[0] >= 0:
            return values
    raise InputError(
        f"times is {checks.shown(times)}; it must hold two or more increasing times from "
        "0 on."
    )
