"""Perfect learning, where each teacher has its copy among the students, and deviations.

Extra students are silent. Write W = U W* + Z with Z orthogonal to all teachers. Near
W = U0 W* the overlaps deviate by
    dr_l = dU t_l,
    dq_l = dr_l U0^T + U0 dr_l^T + X_l,
    X_l = Z P_l Z^T / (N p_l) + dU t_l dU^T,
so X is of second order in the weights. Three things follow:
- In the coordinates (dr, dv, db | X) the Jacobian is block triangular: X moves by
  itself.
- The error is linear in X alone, e_g = -tr(A sum_l p_l lam_l X_l) / 2. So deviations
  *inside* the teachers' span (dr, dv, db), which decay at rate mu, enter e_g squared,
  at 2 mu.
- The eta^2 term acts on X alone:
    dX_l = eta lam_l (A X_l + X_l A) + (eta^2/batch) lam_l (G'[X] - sigma^2 A),
    A = -v_k v_j E[g'_k g'_j].
A and G' preserve positive semidefinite matrices, so the slowest mode of X is real, and
positive; it is the one that is lost where eta grows too large.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tutelage._types import NumpyOrJax
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.problem.traits import require_traits
from tutelage.stream.linearized import LocalDynamics
from tutelage.stream.moments import Moments
from tutelage.stream.moments.averages import ReluAverages
from tutelage.stream.moments.quadrature import QuadratureAverages
from tutelage.stream.order_parameters import OrderParameters, Overlaps, flatten

PLAIN = (
    "visible teacher",
    "fixed momentum",
    "free norms",
    "all levels",
    "no weight decay",
)
# The displacement (relative to the norms) by which averages by quadrature are
# differentiated.
DIFFERENCE_STEP = 1e-5
# Overlaps of the largest state whose modes are computed.
LARGEST = 2500
# A number that is smaller than this, relative to the largest, is zero.
FLAT = 1e-7


def teacher_assignment(problem: Problem) -> Float[np.ndarray, "K M"]:
    """Return U0: the teacher unit that each student unit copies.

    An entry is 1 for a copy and -1 for a mirror image; extra students have a row of
    zeros.
    """
    student = problem.student
    teacher = problem.labeler
    K = student.hidden
    M = teacher.hidden
    _require_copies(problem)
    is_odd = student.activation.parity == -1
    mirror = -1.0 if is_odd and not problem.biased else 1.0
    U0 = np.zeros((K, M))
    for sign in (1.0, mirror):  # copies first
        fits = _fits(problem, sign)
        for m in np.flatnonzero(~U0.any(axis=0)):
            is_candidate = fits[:, m] & ~U0.any(axis=1)
            if is_candidate.any():
                k = m if is_candidate[m] else np.argmax(is_candidate)
                U0[k, m] = sign
    if not U0.any(axis=0).all():
        student_readout = np.asarray(student.readout).tolist()
        teacher_readout = np.asarray(teacher.readout).tolist()
        raise InputError(
            f"no assignment of units matches readouts {student_readout} to "
            f"{teacher_readout} (and biases); set them equal, or train them."
        )
    return U0


def _require_copies(problem: Problem) -> None:
    """Raise InputError unless students can copy all teachers, with the rest silent."""
    student = problem.student
    teacher = problem.labeler
    K = student.hidden
    M = teacher.hidden
    if student.activation != teacher.activation:
        raise InputError(
            f"the student is {student.activation.name!r} and the teacher "
            f"{teacher.activation.name!r}; only equal activations have a perfect "
            "solution. Give both the same."
        )
    if K < M:
        raise InputError(
            f"{K} student units cannot copy {M} teacher units: there is no perfect "
            f"solution; use hidden={M}."
        )
    if K > M and not _extra_students_are_silent(problem):
        raise InputError(
            f"{K - M} student units are left over and their outputs are not held at "
            "zero (trained readouts or biases, or g(0) != 0); there is no isolated "
            f"perfect solution. Use hidden={M}."
        )


def _extra_students_are_silent(problem: Problem) -> bool:
    """Return True if a student vector of length zero has no output, for good."""
    student = problem.student
    if student.train_readout or problem.biased:
        return False
    is_odd = student.activation.parity == -1  # then g(0) = 0
    return is_odd or abs(float(student.activation(jnp.zeros(())))) < 1e-12


def _fits(problem: Problem, sign: float) -> Bool[np.ndarray, "K M"]:
    """Return True where a student unit can be a teacher unit, or its mirror image.

    Readouts and biases that do not learn must agree.
    """
    student = problem.student
    v = np.asarray(student.readout)
    v_teacher = np.asarray(problem.labeler.readout)
    fits = np.full((v.size, v_teacher.size), True)
    if not student.train_readout:
        fits &= np.isclose(v[:, None], sign * v_teacher, rtol=1e-12, atol=0)
    if problem.biased and not student.train_bias:
        b = _biases(student)
        b_teacher = _biases(problem.labeler)
        fits &= np.isclose(b[:, None], b_teacher, rtol=1e-12, atol=0)
    return fits


def _biases(network: Any) -> Float[np.ndarray, " units"]:
    """Return the biases of a network, zero if it has none."""
    if network.bias is None:
        return np.zeros(network.hidden)
    return np.asarray(network.bias)


def perfect_overlaps(
    problem: Problem, t: Float[NumpyOrJax, "L M M"], U0: Float[np.ndarray, "K M"]
) -> Overlaps:
    """Return the state in which students are U0 times the teachers.

    They have the readouts and biases of these.
    """
    student = problem.student
    teacher = problem.labeler
    is_copy = np.abs(U0).sum(axis=1) > 0
    is_odd = student.activation.parity == -1
    signs = U0 if is_odd else np.abs(U0)
    readout_of_copies = signs @ np.asarray(teacher.readout)
    bias = None
    if problem.biased:
        bias = U0 @ _biases(teacher)
    r = U0 @ np.asarray(t)
    return Overlaps(
        r=r,
        q=r @ U0.T,
        readout=np.where(is_copy, readout_of_copies, np.asarray(student.readout)),
        bias=bias,
    )


def is_kinked(system: OrderParameters) -> bool:
    """Return True if the drift has no derivative where a student meets a teacher.

    So it is for ReLU and for custom functions with a kink.
    """
    if not system.closed:
        return False
    averages = system.averages
    if isinstance(averages, QuadratureAverages):
        return averages.kinked
    return isinstance(averages, ReluAverages)


def perfect_jacobian(
    system: OrderParameters, state: Overlaps
) -> Float[np.ndarray, "size size"]:
    """Return the Jacobian at perfect overlaps."""
    averages = system.averages
    local = LocalDynamics(system, state)
    if not isinstance(averages, QuadratureAverages) or averages.student.smooth:
        return local.jacobian(np.asarray(flatten(state)))
    # For a custom function (not known to be smooth) quadrature splits a field into a
    # part along another and a rest; where the rest vanishes its square root has no
    # derivative, although the average has one. There J is extrapolated from two small
    # displacements of q.
    norm = max(float(np.max(np.abs(state.q))), float(np.max(np.abs(system.t))))
    step = DIFFERENCE_STEP * norm
    K = state.q.shape[-1]
    displaced = [
        flatten(state._replace(q=state.q + n * step * np.eye(K))) for n in (1, 2)
    ]
    near, far = local.jacobians(np.stack(displaced))
    return 2 * near - far


@dataclass(frozen=True)
class PerfectLearning:
    """The linear dynamics around perfect learning of a problem, per unit learning rate.

    The top of this file has the equations.
    hessian: of (dr, dv, db), at unit rates (decay: negative).
    slow, fast: of X at order eta and eta^2 (batch 1).
    gradient: e_g per X.
    noise: the part of dX at order eta^2 that the variance of the label noise
    multiplies. leak: the distance of the Jacobian from block triangular (differences,
    or the error
        of quadrature).
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
        """1 / (1 - beta), the factor of every rate with a fixed momentum beta."""
        return 1.0 / (1.0 - float(self.problem.optimizer.momentum))

    def inside(self, lr: float) -> Float[np.ndarray, "i i"]:
        """Return the Jacobian of (dr, dv, db) at a learning rate.

        Rates of readouts and biases follow it unless they are set.
        """
        optimizer = self.problem.optimizer
        student = self.problem.student
        L, K, M = self.state.r.shape
        rates = [np.full(L * K * M, lr)]
        if student.train_readout:
            rates.append(np.full(K, _rate_or(lr, optimizer.readout_lr)))
        if student.train_bias:
            rates.append(np.full(K, _rate_or(lr, optimizer.bias_lr)))
        return self.momentum * np.concatenate(rates)[:, None] * self.hessian

    def outside(self, lr: float) -> Float[np.ndarray, "x x"]:
        """Return the Jacobian of X at a learning rate."""
        eta = self.momentum * lr
        return eta * self.slow + eta**2 / self.problem.optimizer.batch * self.fast

    @cached_property
    def isolated(self) -> bool:
        """True if every deviation changes the error, inside and outside of the span.

        Levels count equally: their eigenvalues are divided out.
        """
        L, K, M = self.state.r.shape
        lam = np.asarray(self.problem.inputs.eigenvalues)
        others = len(self.hessian) - L * K * M
        scale_inside = np.concatenate([np.repeat(lam, K * M), np.ones(others)])
        scale_outside = np.repeat(lam, K * (K + 1) // 2)
        return _is_regular(self.hessian, scale_inside) and _is_regular(
            self.slow, scale_outside
        )

    def require_isolated(self) -> None:
        """Raise InputError for a solution along which one can move without error."""
        if not self.isolated:
            raise InputError(
                "this perfect solution is not isolated: some changes of the weights "
                "alter nothing, so it has no decay rate. Use fixed_point to see its "
                "flat modes."
            )

    @cached_property
    def critical_rate(self) -> float:
        """The learning rate at which the slowest mode of X stands still.

        It is 1 / spectral radius of (-slow)^-1 fast.
        """
        self.require_isolated()
        ratios = np.linalg.eigvals(np.linalg.solve(-self.slow, self.fast))
        radius = float(np.max(ratios.real))
        if not radius > 0:
            return float("inf")
        return self.problem.optimizer.batch / (self.momentum * radius)

    def is_stable(self, lr: float) -> bool:
        """Return True if no overlap outside the span grows at this learning rate."""
        rates = np.linalg.eigvals(self.outside(lr)).real
        return bool(np.max(rates) <= FLAT * np.max(np.abs(rates)))

    def noise_floor(self, lr: float) -> float:
        """Return e_g / sigma^2 as sigma -> 0, by linear response.

        It belongs to the X at which decay balances the noise of the labels.
        """
        eta = self.momentum * lr
        source = eta**2 / self.problem.optimizer.batch * self.noise
        J = self.outside(lr)
        if not self.is_stable(lr):
            raise InputError(
                f"lr is {lr:g}, where zero error is unstable even without noise; "
                "lower it."
            )
        X = np.linalg.lstsq(J, -source, rcond=1e-11)[0]
        if np.max(np.abs(J @ X + source)) > 1e-8 * np.max(np.abs(source)):
            raise InputError(
                "label noise drives the weights along a flat direction, without end: "
                "there is no noise floor."
            )
        return float(self.gradient @ X)


def _rate_or(lr: float, rate: Any) -> float:
    """Return a rate, by default the learning rate of the vectors."""
    if rate is None:
        return lr
    return float(rate)


def _is_regular(
    matrix: Float[np.ndarray, "a a"], row_scale: Float[np.ndarray, " a"]
) -> bool:
    """Return True if no singular value vanishes, in units of each row."""
    values = np.linalg.svd(matrix / row_scale[:, None], compute_uv=False)
    return bool(values[-1] > FLAT * values[0])


def perfect_learning(
    problem: Problem, t: Float[NumpyOrJax, "L M M"], moments: Moments | None = None
) -> PerfectLearning:
    """Return the linear dynamics around the perfect solution of a problem.

    Raises InputError, with the reason, if it has none.
    """
    require_traits(problem, "the linear dynamics around zero error", PLAIN)
    require_small(problem)
    t = np.asarray(t)
    U0 = teacher_assignment(problem)
    state = perfect_overlaps(problem, t, U0)

    def system_at(lr: float) -> OrderParameters:
        plain = problem.replace(
            lr=lr, readout_lr=None, bias_lr=None, batch=1, momentum=0.0, noise=0.0
        )
        return OrderParameters(plain, t, moments=moments)

    once = system_at(1.0)
    twice = system_at(2.0)
    if is_kinked(once):
        raise InputError(
            f"{problem.student.activation.name!r} has a kink: the dynamics has no "
            "derivative where a student meets its teacher. Use a smooth activation, "
            "such as 'softplus' or 'gelu'."
        )
    # J = lr J1 + lr^2 J2 at the learning rates 1 and 2 gives J1 and J2
    J_once = perfect_jacobian(once, state)
    J_twice = perfect_jacobian(twice, state)
    change, inside, outside = _coordinates(problem, state, U0)
    # each other's inverse
    into = np.eye(len(change)) - change
    back = np.eye(len(change)) + change
    slow = into @ (2 * J_once - J_twice / 2) @ back
    fast = into @ (J_twice / 2 - J_once) @ back
    vector = flatten(state)
    gradient = LocalDynamics(once, state).gradients(vector[None])[0, outside]
    # The noise is -lam A_ij: without error the gradient is -p lam A_ij / 2 on the
    # diagonal, and twice as much off it.
    K = len(U0)
    multiplicity = (1.0 - np.eye(K) / 2)[np.triu_indices(K)]
    share = np.asarray(problem.inputs.fractions)[:, None] * multiplicity
    leaks = [slow[np.ix_(outside, inside)], fast[np.ix_(outside, inside)]]
    return PerfectLearning(
        problem=problem,
        state=state,
        t=t,
        hessian=slow[np.ix_(inside, inside)],
        slow=slow[np.ix_(outside, outside)],
        fast=fast[np.ix_(outside, outside)],
        gradient=gradient,
        noise=gradient / share.ravel(),
        leak=float(np.max(np.abs(leaks))),
    )


def require_small(problem: Problem) -> None:
    """Raise InputError for a state whose Jacobian would take minutes to decompose."""
    K = problem.student.hidden
    M = problem.labeler.hidden
    size = problem.inputs.levels * (K * M + K * (K + 1) // 2)
    if size > LARGEST:
        raise InputError(
            f"this state has {size} overlaps; its modes are found for up to {LARGEST}. "
            "Use fewer levels or units (from_data(X, levels=...) groups them)."
        )


class _Coordinates(NamedTuple):
    """The change from flat coordinates (r, q, v, b) to (r, v, b | X).

    change: the dq of each dr that keeps X = 0. inside, outside: the places of (r, v, b)
    and of X.
    """

    change: Float[np.ndarray, "size size"]
    inside: Int[np.ndarray, " i"]
    outside: Int[np.ndarray, " x"]


def _coordinates(
    problem: Problem, state: Overlaps, U0: Float[np.ndarray, "K M"]
) -> _Coordinates:
    """Return the change of coordinates around students that are U0 times teachers."""
    L, K, M = state.r.shape
    size = flatten(state).size
    rows, columns = np.triu_indices(K)
    end_of_r = L * K * M
    end_of_q = end_of_r + L * rows.size
    r = np.arange(end_of_r)
    q = np.arange(end_of_r, end_of_q)
    along = np.eye(r.size).reshape(-1, L, K, M) @ U0.T
    dq = along + np.swapaxes(along, -1, -2)
    change = np.zeros((size, size))
    change[np.ix_(q, r)] = dq[..., rows, columns].reshape(r.size, -1).T
    # the flat vector has readouts before biases
    inside = [r]
    if problem.student.train_readout:
        inside.append(end_of_q + np.arange(K))
    if problem.student.train_bias:
        inside.append(end_of_q + K + np.arange(K))
    return _Coordinates(change=change, inside=np.concatenate(inside), outside=q)


def critical_rate(problem: Problem, t: Float[NumpyOrJax, "L M M"]) -> float | None:
    """Return the constant learning rate above which zero error is unstable.

    The result is None if there is no isolated perfect solution.
    """
    try:
        return perfect_learning(problem, t).critical_rate
    except InputError:
        return None
