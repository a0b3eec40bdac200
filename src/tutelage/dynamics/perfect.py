"""The dynamics of small deviations from perfect learning (copies.py).

Write W = U W* + Z with Z orthogonal to all teachers. Near W = U0 W* the overlaps deviate by
    dr_l = dU t_l,    dq_l = dr_l U0^T + U0 dr_l^T + X_l,    X_l = Z P_l Z^T / (N p_l) + dU t_l dU^T,
so X is of second order in the weights. Three things follow. In the coordinates (dr, dv, db | X) the Jacobian is block
triangular: X moves by itself. The error is linear in X alone, e_g = -tr(A sum_l p_l lam_l X_l) / 2, so that deviations
*inside* the teachers' span (dr, dv, db), which decay at rate mu, enter e_g squared, at 2 mu. And the eta^2 term acts on X
alone:
    dX_l = eta lam_l (A X_l + X_l A) + (eta^2/batch) lam_l (G'[X] - sigma^2 A),      A = -v_k v_j E[g'_k g'_j]
A and G' preserve positive semidefinite matrices, so the slowest mode of X is real, and positive; it is the one that is lost
where eta grows too large.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.averages import Quadrature
from tutelage.averages.quadrature import QuadratureAverages
from tutelage.averages.relu import ReluAverages
from tutelage.dynamics.copies import copies_of_teachers, perfect_overlaps
from tutelage.dynamics.error import field_means
from tutelage.dynamics.linearized import jacobian
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.overlaps import Overlaps, joint_covariance
from tutelage.moments import ClosedMoments
from tutelage.problem import Problem, SlowMomentum

STEP = 1e-5  # displacement (relative to the norms) at which averages by quadrature are differentiated
LARGEST = 2500  # overlaps of a state whose modes are found
FLAT = 1e-7  # what is smaller than this, relative to the largest, is zero


def is_kinked(system: OrderParameters) -> bool:
    """Does the drift have no derivative where a student meets a teacher (ReLU, and functions of one's own with a kink)?"""
    if not isinstance(system.moments, ClosedMoments):
        return False
    averages = system.averages
    return isinstance(averages, ReluAverages) or (isinstance(averages, QuadratureAverages) and averages.kinked)


def quadrature_of(system: OrderParameters) -> Quadrature | None:
    """The rule by which the averages of a system are found, None for closed forms."""
    closed = isinstance(system.moments, ClosedMoments) and isinstance(system.moments.averages, QuadratureAverages)
    return system.averages.rule if closed else None  # pyright: ignore[reportAttributeAccessIssue]


def perfect_jacobian(system: OrderParameters, state: Overlaps) -> np.ndarray:
    """The Jacobian at perfect overlaps.

    For a function of one's own (of which nobody says that it is smooth) quadrature splits a field into a part along another
    and a rest; where the rest vanishes its square root has no derivative, although the average has one. There J is
    extrapolated from two small displacements of q.
    """
    averages = system.averages
    if not isinstance(averages, QuadratureAverages) or averages.student.smooth:
        return np.asarray(jacobian(system, 0.0, state))
    step = STEP * max(float(jnp.max(jnp.abs(state.q))), float(jnp.max(jnp.abs(system.t))))
    away = [eqx.tree_at(lambda s: s.q, state, state.q + n * step * jnp.eye(state.q.shape[-1])) for n in (1, 2)]
    near, far = (np.asarray(jacobian(system, 0.0, displaced)) for displaced in away)
    return 2 * near - far


@dataclass(frozen=True)
class Perfection:
    """The linear dynamics around perfect learning of a problem, per unit learning rate (see the top of this file).

    hessian: of (dr, dv, db), at unit rates (decay: negative). slow, fast: of X at order eta and eta^2 (batch 1).
    gradient: e_g per X. noise: what the variance of the label noise feeds into X at order eta^2. leak: how far the
    Jacobian is from block triangular (rounding, or the error of quadrature).
    """

    problem: Problem
    state: Overlaps
    t: np.ndarray
    hessian: np.ndarray
    slow: np.ndarray
    fast: np.ndarray
    gradient: np.ndarray
    noise: np.ndarray
    leak: float

    @cached_property
    def momentum(self) -> float:
        """1 / (1 - beta): what a fixed momentum multiplies every rate with."""
        return 1.0 / (1.0 - float(self.problem.sgd.momentum))

    def inside(self, lr: float) -> np.ndarray:
        """The Jacobian of (dr, dv, db) at a learning rate; rates of readouts and biases follow it unless they are set."""
        sgd, student = self.problem.sgd, self.problem.student
        L, K, M = self.state.r.shape
        parts = [np.full(L * K * M, lr)]
        parts += [np.full(K, lr if sgd.readout_lr is None else float(sgd.readout_lr))] if student.train_readout else []
        parts += [np.full(K, lr if sgd.bias_lr is None else float(sgd.bias_lr))] if student.train_bias else []
        return self.momentum * np.concatenate(parts)[:, None] * self.hessian

    def outside(self, lr: float) -> np.ndarray:
        """The Jacobian of X at a learning rate."""
        eta = self.momentum * lr
        return eta * self.slow + eta**2 / self.problem.sgd.batch * self.fast

    @cached_property
    def isolated(self) -> bool:
        """Does every deviation, inside the teachers' span and outside, change the error? (Levels are weighed alike.)"""
        L, K, M = self.state.r.shape
        lam = np.asarray(self.problem.inputs.eigenvalues)
        inside = np.concatenate([np.repeat(lam, K * M), np.ones(len(self.hessian) - L * K * M)])
        outside = np.repeat(lam, K * (K + 1) // 2)
        return _is_regular(self.hessian / inside[:, None]) and _is_regular(self.slow / outside[:, None])

    def require_isolated(self) -> None:
        """Refuse solutions along which one can move without error."""
        if not self.isolated:
            raise InputError(
                "this perfect solution is not isolated: some changes of the weights alter nothing (linear units, units that "
                "can cancel each other, ...), so it has no rate of its own. Use fixed_point to see its flat modes."
            )

    @cached_property
    def critical_rate(self) -> float:
        """The learning rate at which the slowest mode of X stands still: 1 / spectral radius of (-slow)^-1 fast."""
        self.require_isolated()
        radius = float(np.max(np.linalg.eigvals(np.linalg.solve(-self.slow, self.fast)).real))
        return self.problem.sgd.batch / (self.momentum * radius) if radius > 0 else float("inf")

    def is_stable(self, lr: float) -> bool:
        """Does no overlap outside the span grow at this learning rate?"""
        rates = np.linalg.eigvals(self.outside(lr)).real
        return bool(np.max(rates) <= FLAT * np.max(np.abs(rates)))

    def noise_floor(self, lr: float) -> float:
        """e_g / sigma^2 as sigma -> 0 by linear response: the X at which decay balances what the noise feeds."""
        fed = (self.momentum * lr) ** 2 / self.problem.sgd.batch * self.noise
        J = self.outside(lr)
        if not self.is_stable(lr):
            raise InputError(f"lr is {lr:g}, where zero error is unstable even without noise; lower it.")
        X = np.linalg.lstsq(J, -fed, rcond=1e-11)[0]
        if np.max(np.abs(J @ X + fed)) > 1e-8 * np.max(np.abs(fed)):
            raise InputError("label noise drives the weights along a flat direction, without end: there is no noise floor.")
        return float(self.gradient @ X)


def perfection(problem: Problem, t: Any, quadrature: Quadrature | None = None) -> Perfection:
    """The linear dynamics around the perfect solution of a problem; refuses, with the reason, those that have none."""
    _require_plain(problem)
    require_small(problem)
    t = jnp.asarray(t)
    U0 = copies_of_teachers(problem)
    state = perfect_overlaps(problem, t, U0)
    once, twice = (OrderParameters(_at_rate(problem, lr), t, quadrature=quadrature) for lr in (1.0, 2.0))
    if is_kinked(once):
        raise InputError(
            f"{problem.student.activation.name!r} has a kink: the dynamics has no derivative where a student meets its "
            "teacher. Use a smooth activation, such as 'softplus' or 'gelu'."
        )
    first, second = perfect_jacobian(once, state), perfect_jacobian(twice, state)  # J = lr J1 + lr^2 J2
    split = _Split(problem, state, U0)
    hessian, slow, leak = split.blocks(2 * first - second / 2)
    _, fast, leak_of_noise = split.blocks(second / 2 - first)
    lam, weights = np.asarray(problem.inputs.eigenvalues), np.asarray(problem.inputs.weights)
    A = _pull_at_zero_error(once, state)
    pairs = 2 - np.eye(A.shape[0])  # an entry off the diagonal stands for two
    return Perfection(
        problem=problem,
        state=state,
        t=np.asarray(t),
        hessian=hessian,
        slow=slow,
        fast=fast,
        gradient=split.upper(-weights[:, None, None] * A * pairs / 2),
        noise=split.upper(-lam[:, None, None] * A),
        leak=max(leak, leak_of_noise),
    )


def _at_rate(problem: Problem, lr: float) -> Problem:
    """The problem at one rate for all parameters, batch 1, without momentum and noise."""
    return problem.replace(lr=lr, readout_lr=None, bias_lr=None, batch=1, momentum=0.0, noise=0.0)


def _pull_at_zero_error(system: OrderParameters, state: Overlaps) -> np.ndarray:
    """A = -v_k v_j E[g'_k g'_j]: what remains of it without error."""
    C = joint_covariance(*system.covariances(state))
    v = np.asarray(state.readout)
    return -v[:, None] * v * np.asarray(system.averages.slopes(C, field_means(system.problem, state.bias)))[:, : v.size]


def require_small(problem: Problem) -> None:
    """Refuse states whose Jacobian would take minutes to decompose."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    size = L * (K * M + K * (K + 1) // 2)
    if size > LARGEST:
        raise InputError(
            f"this state has {size} overlaps; its modes are found for up to {LARGEST}. Use fewer levels or units "
            "(Spectrum.from_data groups levels)."
        )


def _require_plain(problem: Problem) -> None:
    sgd = problem.sgd
    reasons = (
        (isinstance(sgd.momentum, SlowMomentum), "momentum is a SlowMomentum", "use a fixed momentum"),
        (sgd.spherical, "spherical is True", "use spherical=False"),
        (sgd.trainable is not None, "some levels are frozen", "use trainable=None"),
        (float(sgd.weight_decay) > 0, f"weight_decay is {float(sgd.weight_decay):g}", "set it to 0, or see fixed_point"),
    )
    for applies, given, fix in reasons:
        if applies:
            raise InputError(f"{given}; the linear dynamics around zero error is known for plain SGD only: {fix}.")


def _is_regular(matrix: np.ndarray) -> bool:
    values = np.linalg.svd(matrix, compute_uv=False)
    return bool(values[-1] > FLAT * values[0])


class _Split:
    """From flat coordinates (r, q, v, b) to (r, v, b | X) at a perfect state."""

    def __init__(self, problem: Problem, state: Overlaps, U0: np.ndarray):
        L, K, M = state.r.shape
        self.rows, self.columns = np.triu_indices(K)
        nr, nq = L * K * M, L * self.rows.size
        basis = np.eye(nr).reshape(nr, L, K, M)
        along = np.einsum("nlkm,jm->nlkj", basis, U0)
        self.turn = self.upper(along + np.swapaxes(along, -1, -2)).T  # dq of a dr that keeps X = 0
        self.r, self.q = np.arange(nr), np.arange(nr, nr + nq)
        trained = [problem.student.train_readout, problem.student.train_bias]
        units = [nr + nq + i * K + np.arange(K) for i, learns in enumerate(trained) if learns]
        self.own = np.concatenate([self.r, *units])

    def upper(self, matrices: np.ndarray) -> np.ndarray:
        """(..., L, K, K) to (..., L * upper triangle)."""
        picked = matrices[..., self.rows, self.columns]
        return picked.reshape(*picked.shape[:-2], -1)

    def blocks(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """The Jacobian of (r, v, b), that of X, and the largest entry by which the former moves the latter."""
        size = self.r.size
        columns = J[:, self.own].copy()
        columns[:, :size] += J[:, self.q] @ self.turn  # a change of r alone, at X = 0
        inside, outside = columns[self.own], J[np.ix_(self.q, self.q)] - self.turn @ J[np.ix_(self.r, self.q)]
        leak = columns[self.q] - self.turn @ columns[self.r]
        return inside, outside, float(np.max(np.abs(leak), initial=0.0))


def critical_rate(problem: Problem, t: Array) -> float | None:
    """The constant learning rate above which zero error is unstable; None where there is no isolated perfect solution."""
    try:
        return perfection(problem, t).critical_rate
    except InputError:
        return None
