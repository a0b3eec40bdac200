"""Perfect learning: each teacher has its copy among the students, extra students are silent. And small deviations from it.

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

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tutelage._types import NumpyOrJax
from tutelage.dynamics.linearized import LocalDynamics
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten
from tutelage.errors import InputError
from tutelage.moments import Moments
from tutelage.moments.averages import ReluAverages
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.problem import Problem
from tutelage.problem.traits import require_traits

PLAIN = ("visible teacher", "fixed momentum", "free norms", "all levels", "no weight decay")
STEP = 1e-5  # displacement (relative to the norms) at which averages by quadrature are differentiated
LARGEST = 2500  # overlaps of a state whose modes are found
FLAT = 1e-7  # what is smaller than this, relative to the largest, is zero


def teacher_assignment(problem: Problem) -> Float[np.ndarray, "K M"]:
    """U0: which student is a copy (1) or a mirror image (-1) of which teacher; extra students have a row of zeros."""
    student, teacher = problem.student, problem.teacher
    K, M = student.hidden, teacher.hidden
    if student.activation != teacher.activation:
        names = f"the student is {student.activation.name!r} and the teacher {teacher.activation.name!r}"
        raise InputError(f"{names}; only equal activations have a perfect solution. Give both the same.")
    if K < M:
        raise InputError(f"{K} student units cannot copy {M} teacher units: there is no perfect solution; use hidden={M}.")
    free, odd = student.train_readout or problem.biased, student.activation.parity == -1  # odd: g(0) = 0
    if K > M and (free or (not odd and abs(float(student.activation(jnp.zeros(())))) >= 1e-12)):
        why = "their outputs are not held at zero (trained readouts or biases, or g(0) != 0)"
        raise InputError(
            f"{K - M} student units are left over and {why}; there is no isolated perfect solution. Use hidden={M}."
        )
    mirror = -1.0 if odd and not problem.biased else 1.0
    U0 = np.zeros((K, M))
    for sign in (1.0, mirror):  # copies first
        fits = _fits(problem, sign)
        for m in np.flatnonzero(~U0.any(axis=0)):
            free = fits[:, m] & ~U0.any(axis=1)
            if free.any():
                U0[m if free[m] else np.argmax(free), m] = sign
    if not U0.any(axis=0).all():
        given, wanted = np.asarray(student.readout).tolist(), np.asarray(teacher.readout).tolist()
        raise InputError(
            f"no assignment of units matches readouts {given} to {wanted} (and biases); set them equal, or train them."
        )
    return U0


def _fits(problem: Problem, sign: float) -> Bool[np.ndarray, "K M"]:
    """Can this student, with its fixed readout and bias, be this teacher (or its mirror image)?"""
    student, teacher = problem.student, problem.teacher
    v, v_teacher = np.asarray(student.readout), np.asarray(teacher.readout)
    fits = np.full((v.size, v_teacher.size), True)
    if not student.train_readout:
        fits &= np.isclose(v[:, None], sign * v_teacher, rtol=1e-12, atol=0)
    if problem.biased and not student.train_bias:
        b, b_teacher = (np.zeros(n.hidden) if n.bias is None else np.asarray(n.bias) for n in (student, teacher))
        fits &= np.isclose(b[:, None], b_teacher, rtol=1e-12, atol=0)
    return fits


def perfect_overlaps(problem: Problem, t: Float[NumpyOrJax, "L M M"], U0: Float[np.ndarray, "K M"]) -> Overlaps:
    """The state in which students are U0 times the teachers, with the readouts and biases of those."""
    copied, student, teacher = np.abs(U0).sum(axis=1) > 0, problem.student, problem.teacher
    signs = U0 if student.activation.parity == -1 else np.abs(U0)
    readout = np.where(copied, signs @ np.asarray(teacher.readout), np.asarray(student.readout))
    bias = None
    if problem.biased:
        bias = U0 @ (np.zeros(teacher.hidden) if teacher.bias is None else np.asarray(teacher.bias))
    r = U0 @ np.asarray(t)
    return Overlaps(r, r @ U0.T, readout, bias)


def is_kinked(system: OrderParameters) -> bool:
    """Does the drift have no derivative where a student meets a teacher (ReLU, and custom functions with a kink)?"""
    averages = system.averages if system.closed else None
    return isinstance(averages, ReluAverages) or (isinstance(averages, QuadratureAverages) and averages.kinked)


def perfect_jacobian(system: OrderParameters, state: Overlaps) -> Float[np.ndarray, "size size"]:
    """The Jacobian at perfect overlaps."""
    # For a custom function (not known to be smooth) quadrature splits a field into a part along another
    # and a rest; where the rest vanishes its square root has no derivative, although the average has one. There J is
    # extrapolated from two small displacements of q.
    averages, local, vector = system.averages, LocalDynamics(system, state), np.asarray(flatten(state))
    if not isinstance(averages, QuadratureAverages) or averages.student.smooth:
        return local.jacobian(vector)
    step = STEP * max(float(np.max(np.abs(state.q))), float(np.max(np.abs(system.t))))
    away = [state._replace(q=state.q + n * step * np.eye(state.q.shape[-1])) for n in (1, 2)]
    near, far = local.jacobians(np.stack([flatten(displaced) for displaced in away]))
    return 2 * near - far


@dataclass(frozen=True)
class PerfectLearning:
    """The linear dynamics around perfect learning of a problem, per unit learning rate (see the top of this file).

    hessian: of (dr, dv, db), at unit rates (decay: negative). slow, fast: of X at order eta and eta^2 (batch 1).
    gradient: e_g per X. noise: what the variance of the label noise feeds into X at order eta^2. leak: how far the
    Jacobian is from block triangular (differences, or the error of quadrature).
    """

    problem: Problem
    state: Overlaps
    t: Float[np.ndarray, "L M M"]
    hessian: Float[np.ndarray, "i i"]
    slow: Float[np.ndarray, "x x"]
    fast: Float[np.ndarray, "x x"]
    gradient: Float[np.ndarray, " x"]
    noise: Float[np.ndarray, " x"]
    leak: float

    @cached_property
    def momentum(self) -> float:
        """1 / (1 - beta): what a fixed momentum multiplies every rate with."""
        return 1.0 / (1.0 - float(self.problem.sgd.momentum))

    def inside(self, lr: float) -> Float[np.ndarray, "i i"]:
        """The Jacobian of (dr, dv, db) at a learning rate; rates of readouts and biases follow it unless they are set."""
        sgd, student, (L, K, M) = self.problem.sgd, self.problem.student, self.state.r.shape
        trained = (student.train_readout, sgd.readout_lr), (student.train_bias, sgd.bias_lr)
        own = [np.full(K, lr if rate is None else float(rate)) for learns, rate in trained if learns]
        return self.momentum * np.concatenate([np.full(L * K * M, lr), *own])[:, None] * self.hessian

    def outside(self, lr: float) -> Float[np.ndarray, "x x"]:
        """The Jacobian of X at a learning rate."""
        eta = self.momentum * lr
        return eta * self.slow + eta**2 / self.problem.sgd.batch * self.fast

    @cached_property
    def isolated(self) -> bool:
        """Does every deviation, inside the teachers' span and outside, change the error? (Levels are weighed alike.)"""
        (L, K, M), lam = self.state.r.shape, np.asarray(self.problem.inputs.eigenvalues)
        inside = np.concatenate([np.repeat(lam, K * M), np.ones(len(self.hessian) - L * K * M)])
        pairs = (self.hessian, inside), (self.slow, np.repeat(lam, K * (K + 1) // 2))
        values = [np.linalg.svd(matrix / scale[:, None], compute_uv=False) for matrix, scale in pairs]
        return all(bool(each[-1] > FLAT * each[0]) for each in values)

    def require_isolated(self) -> None:
        """Raise InputError for a solution along which one can move without error."""
        if not self.isolated:
            why = "some changes of the weights alter nothing, so it has no decay rate"
            raise InputError(f"this perfect solution is not isolated: {why}. Use fixed_point to see its flat modes.")

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


def perfect_learning(problem: Problem, t: Float[NumpyOrJax, "L M M"], moments: Moments | None = None) -> PerfectLearning:
    """The linear dynamics around the perfect solution of a problem; InputError, with the reason, if it has none."""
    require_traits(problem, "the linear dynamics around zero error", PLAIN)
    require_small(problem)
    t, U0 = np.asarray(t), teacher_assignment(problem)
    state = perfect_overlaps(problem, t, U0)
    plain: dict[str, object] = {"readout_lr": None, "bias_lr": None, "batch": 1, "momentum": 0.0, "noise": 0.0}
    once, twice = (OrderParameters(problem.replace(lr=lr, **plain), t, moments=moments) for lr in (1.0, 2.0))
    if is_kinked(once):
        has = f"{problem.student.activation.name!r} has a kink: the dynamics has no derivative where a student meets its teacher"
        raise InputError(f"{has}. Use a smooth activation, such as 'softplus' or 'gelu'.")
    first, second = perfect_jacobian(once, state), perfect_jacobian(twice, state)  # J = lr J1 + lr^2 J2
    change, inside, outside = _coordinates(problem, state, U0)
    into, back = np.eye(len(change)) - change, np.eye(len(change)) + change  # each other's inverse
    slow, fast = into @ (2 * first - second / 2) @ back, into @ (second / 2 - first) @ back
    gradient = LocalDynamics(once, state).gradients(flatten(state)[None])[0, outside]
    # -lam A_ij: without error the gradient is -p lam A_ij / 2 on the diagonal, and twice as much off it
    share = np.asarray(problem.inputs.fractions)[:, None] * (1.0 - np.eye(len(U0)) / 2)[np.triu_indices(len(U0))]
    return PerfectLearning(
        problem=problem,
        state=state,
        t=t,
        hessian=slow[np.ix_(inside, inside)],
        slow=slow[np.ix_(outside, outside)],
        fast=fast[np.ix_(outside, outside)],
        gradient=gradient,
        noise=gradient / share.ravel(),
        leak=float(np.max(np.abs([slow[np.ix_(outside, inside)], fast[np.ix_(outside, inside)]]))),
    )


def require_small(problem: Problem) -> None:
    """Raise InputError for a state whose Jacobian would take minutes to decompose."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    size = L * (K * M + K * (K + 1) // 2)
    if size > LARGEST:
        fix = "Use fewer levels or units (from_data(X, levels=...) groups them)."
        raise InputError(f"this state has {size} overlaps; its modes are found for up to {LARGEST}. {fix}")


def _coordinates(
    problem: Problem, state: Overlaps, U0: Float[np.ndarray, "K M"]
) -> tuple[Float[np.ndarray, "size size"], Int[np.ndarray, " i"], Int[np.ndarray, " x"]]:
    """From flat coordinates (r, q, v, b) to (r, v, b | X): the dq of each dr that keeps X = 0, and the places of both."""
    (L, K, M), size = state.r.shape, flatten(state).size
    rows, columns = np.triu_indices(K)
    r, q = np.split(np.arange(L * (K * M + rows.size)), [L * K * M])
    along = np.eye(r.size).reshape(-1, L, K, M) @ U0.T
    change = np.zeros((size, size))
    change[np.ix_(q, r)] = (along + np.swapaxes(along, -1, -2))[..., rows, columns].reshape(r.size, -1).T
    trained = problem.student.train_readout, problem.student.train_bias
    units = [r.size + q.size + i * K + np.arange(K) for i, learns in enumerate(trained) if learns]
    return change, np.concatenate([r, *units]), q


def critical_rate(problem: Problem, t: Float[NumpyOrJax, "L M M"]) -> float | None:
    """The constant learning rate above which zero error is unstable; None where there is no isolated perfect solution."""
    try:
        return perfect_learning(problem, t).critical_rate
    except InputError:
        return None
