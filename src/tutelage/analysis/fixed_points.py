"""Fixed points of the dynamics and their modes: plateaus, perfect learning, noisy asymptotic states.

A plateau is approached by a solve inside the symmetric subspace (modes.py), which neither the solve nor the search for
the root can leave. Perfect learning is known (dynamics/perfect_learning.py); noise and weight decay move it, and it is followed.
A root of the drift inside a subspace is approached by integration, then found by least squares down to rounding.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array
from tutelage.analysis.modes import (
    Mode,
    Subspace,
    copied_subspace,
    free_subspace,
    interchangeable,
    named_modes,
    rate_in_words,
    symmetric_subspace,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearized import LocalDynamics
from tutelage.dynamics.order_parameters import Overlaps, flatten, unflatten
from tutelage.dynamics.perfect_learning import (
    is_kinked,
    perfect_jacobian,
    perfect_learning,
    perfect_overlaps,
    require_small,
    teacher_assignment,
)
from tutelage.errors import InputError
from tutelage.moments import as_quadrature
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Problem, SlowMomentum, Start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.traits import SMOOTH, VISIBLE, require_traits

FAR_DISTANCE = 0.1  # a change of an overlap that is no longer small
ROOT_RESIDUAL = 1e-11  # largest drift, per unit learning rate, of what is called a root
GROWTH_MARGIN = 1e-9  # rates of growth below this, relative to the largest rate, are zero
DIVERGED_OVERLAP = 1e6  # overlaps beyond this have diverged
APPROACH_LENGTH = 0.1  # length of the student vectors from which a plateau is approached
SHORTEST_STEP = 1e-4  # smallest share of noise and weight decay by which the perfect solution is followed


@dataclass(frozen=True, repr=False)
class FixedPoint(AnalysisResult, figure="plot_fixed_point"):
    """A state at which the drift vanishes. modes: all of them, fastest growing first (flat coordinates).

    R, Q, T: covariances of student and teacher fields. t: overlaps of the teachers per level.
    error: generalization error there. residual: the largest drift that is left.
    distance: how far (largest change of an overlap) the root lies from where the search for it began: the given start, the
    perfect solution without noise and decay, or the end of the approach to a plateau.
    """

    problem: Problem
    gradient_flow: bool
    state: Overlaps
    t: Float[np.ndarray, "L M M"]
    R: Float[np.ndarray, "K M"]
    Q: Float[np.ndarray, "K K"]
    T: Float[np.ndarray, "M M"]
    error: float
    residual: float
    modes: tuple[Mode, ...]
    distance: float = 0.0

    @property
    def r(self) -> np.ndarray:
        """Overlaps of student and teacher units per level, (L, K, M)."""
        return np.asarray(self.state.r)

    @property
    def q(self) -> np.ndarray:
        """Overlaps of student units per level, (L, K, K)."""
        return np.asarray(self.state.q)

    @property
    def readout(self) -> np.ndarray:
        """v, (K,)."""
        return np.asarray(self.state.readout)

    @property
    def bias(self) -> np.ndarray | None:
        """b, (K,), or None."""
        return None if self.state.bias is None else np.asarray(self.state.bias)

    @property
    def start(self) -> Start:
        """The fixed point as a `Start`, per level."""
        return Start(self.r, self.q, self.t, readout=self.readout, bias=self.bias)

    @property
    def _margin(self) -> float:
        return GROWTH_MARGIN * max((abs(mode.rate) for mode in self.modes), default=0.0)

    @property
    def unstable(self) -> tuple[Mode, ...]:
        """The modes that grow."""
        return tuple(mode for mode in self.modes if mode.growth > self._margin)

    @property
    def stable(self) -> bool:
        """Does no mode grow?"""
        return not self.unstable

    @property
    def is_far(self) -> bool:
        """Did the search end far from where it began, so that the root may not be the one that was meant?"""
        return self.distance > FAR_DISTANCE

    @property
    def stability(self) -> str:
        """In words: stable, or which modes leave it and how fast."""
        if self.unstable:
            count, first = len(self.unstable), self.unstable[0]
            return (
                f"Unstable: {count} of {len(self.modes)} modes grow{'s' * (count == 1)}, the fastest as "
                f"exp({rate_in_words(first.rate).removeprefix('+')} alpha); it {first.name}."
            )
        flat = sum(abs(mode.rate) <= self._margin for mode in self.modes)
        if flat:
            return f"Marginal: no mode grows to first order, but {flat} of {len(self.modes)} modes do not decay."
        return f"Stable: the slowest of {len(self.modes)} modes decays as exp({rate_in_words(self.modes[0].rate)} alpha)."

    def __str__(self) -> str:
        lines = [
            f"fixed point of {'gradient flow' if self.gradient_flow else 'SGD'}: e_g = {self.error:.8g}, "
            f"residual {self.residual:.1e}",
            *(
                f"{name} = {checks.shown(x)}"
                if x.size <= 16
                else f"{name} = {x.shape[0]} x {x.shape[1]} entries from {x.min():.6g} to {x.max():.6g}"
                for name, x in (("R", self.R), ("Q", self.Q))
            ),
            self.stability,
        ]
        if self.is_far:
            lines.append(f"FAR: an overlap changed by {self.distance:.3g} on the way from where the search began")
        return "\n".join(lines + [f"  {mode}" for mode in self.distinct])

    @property
    def distinct(self) -> list[Mode]:
        """One mode for each rate, and for each pair of conjugates."""
        out: list[Mode] = []
        for mode in self.modes:
            if not out or (mode.rate != out[-1].rate and mode.rate != np.conj(out[-1].rate)):
                out.append(mode)
        return out


class Root(NamedTuple):
    """state: where the drift vanishes. distance: largest change of an overlap on the way there. stable: does no deviation
    inside the subspace grow?"""

    state: Overlaps
    distance: float
    stable: bool


class SubspaceDrift:
    """The drift of a system inside a subspace, as plain functions of its coordinates."""

    def __init__(self, system: OrderParameters, like: Overlaps, subspace: Subspace):
        self.system, self.like, self.subspace = system, like, subspace
        self.local = LocalDynamics(system, like)
        sgd = system.problem.sgd
        self.eta = float(sgd.lr) / (1.0 if isinstance(sgd.momentum, SlowMomentum) else 1.0 - float(sgd.momentum))

    def state(self, y: Float[np.ndarray, " d"]) -> Overlaps:
        """The state with coordinates y."""
        return unflatten(self.subspace.inside(y), self.like)

    def drift(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """dy / dalpha."""
        return self.subspace.average @ self.local.drift(self.subspace.inside(y))

    def jacobian(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
        """Its derivative."""
        return self.subspace.average @ self.local.jacobian(self.subspace.inside(y)) @ self.subspace.embed

    def after(self, y: np.ndarray, span: float) -> np.ndarray:
        """The coordinates a time `span` later (three digits do: a root is sought from there); NaN if they diverge."""
        from scipy.integrate import solve_ivp

        def distance_to_divergence(_: float, y: np.ndarray) -> float:
            return DIVERGED_OVERLAP - float(np.max(np.abs(y)))

        distance_to_divergence.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
        drift, stop = lambda _, y: self.drift(y), distance_to_divergence
        out = solve_ivp(drift, (0.0, span), y, method="LSODA", rtol=1e-6, atol=1e-9, events=stop)
        return out.y[:, -1] if out.status == 0 else np.full(y.shape, np.nan)

    def root(self, y: np.ndarray) -> Root | None:
        """The root that least squares (Levenberg and Marquardt; finally Newton's method) reaches from y, or None.

        The damping keeps it near, and lets it end on a manifold of roots, where the Jacobian has no inverse.
        """
        from scipy.optimize import root

        unit = max(1.0, float(np.max(np.abs(y), initial=0.0)))
        options = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 0.0, "maxiter": 400}
        out = root(
            lambda y: self.drift(y) / self.eta, y, jac=lambda y: self.jacobian(y) / self.eta, method="lm", options=options
        )
        if not np.all(np.isfinite(out.x)) or np.max(np.abs(out.fun), initial=0.0) > ROOT_RESIDUAL * unit:
            return None
        rates = np.linalg.eigvals(self.jacobian(out.x))
        stable = bool(np.all(rates.real <= GROWTH_MARGIN * np.max(np.abs(rates), initial=0.0)))
        return Root(self.state(out.x), float(np.max(np.abs(out.x - y), initial=0.0)), stable)


def approach(field: SubspaceDrift, y: np.ndarray) -> Root:
    """The root that attracts y inside the subspace: integrate, then look for a root nearby; longer, until one is there."""
    span = 10.0 / field.eta
    for _ in range(9):
        y = field.after(y, span)
        if not np.all(np.isfinite(y)):
            raise InputError(
                f"the overlaps diverge at learning rate {float(field.system.problem.sgd.lr):g}, so there is no fixed point "
                "to settle at; lower the rate."
            )
        found = field.root(y)
        if found is not None and found.stable and found.distance < 0.05 * max(1.0, float(np.max(np.abs(y)))):
            return found
        span *= 4
    raise InputError(
        f"the overlaps are still moving at alpha = {span / 3:.3g}; there may be no fixed point here. Give a Start near it."
    )


def least_eigenvalue(state: Overlaps, t: Float[Array | np.ndarray, "L M M"]) -> float:
    """Of the joint Gram matrix [[q, r], [r^T, t]], over all levels: negative for overlaps of no real vectors."""
    r, q, t = (np.asarray(x) for x in (state.r, state.q, t))
    return float(np.min(np.linalg.eigvalsh(np.block([[q, r], [np.swapaxes(r, -1, -2), t]]))))


def fixed_point(
    problem: Problem, near: str | Start = "plateau", *, gradient_flow: bool = False, quadrature: Quadrature | None = None
) -> FixedPoint:
    """The fixed point of the dynamics near a given place, to machine precision, with its modes.

    Parameters
    ----------
    problem : Problem
        With constant learning rates.
    near : str or Start
        "plateau": equal units have equal overlaps; the end of a solve from small weights in the symmetric subspace.
        "perfect": every teacher unit has a copy, extra student units are zero; label noise and weight decay move this
        point, and the moved one is returned. Or a `Start`: the nearest root (`distance` is its distance).
    gradient_flow : bool
        Include terms of order eta only. Equal units of a plateau are then copies of each other (q_ij = q_ii), because
        only SGD noise separates them.
    quadrature : Quadrature, optional
        As in `solve`.

    Returns
    -------
    FixedPoint

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> plateau = tu.analysis.fixed_point(problem, gradient_flow=True)
    >>> plateau.Q.round(6)                                                # 1/(2K - 1)
    array([[0.333333, 0.333333],
           [0.333333, 0.333333]])
    >>> round(plateau.error, 8), len(plateau.unstable)
    (0.01161084, 1)
    """
    problem, quadrature = with_constant_rates(problem, "fixed_point", SMOOTH), as_quadrature(quadrature)
    gradient_flow = checks.as_flag("gradient_flow", gradient_flow)
    require_small(problem)
    if isinstance(near, Start):
        return _from_start(problem, near, gradient_flow, quadrature)
    find = _find_plateau
    if checks.known("near", near, ("plateau", "perfect")) == "perfect":
        find = _find_perfect
        require_traits(problem, "fixed_point near 'perfect'", VISIBLE)
    if problem.sgd.trainable is not None:
        raise InputError("some levels are frozen, and their overlaps are not specified; give a Start instead of a word.")
    K, M = problem.student.hidden, problem.teacher.hidden
    blank, t = initial_overlaps(problem, Start(np.zeros((K, M)), np.zeros((K, K))))
    return find(OrderParameters(problem, t, gradient_flow, quadrature=quadrature), blank)


def _from_start(problem: Problem, start: Start, gradient_flow: bool, quadrature: Quadrature | None) -> FixedPoint:
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
    field = SubspaceDrift(system, state, free_subspace(problem, state))
    found = field.root(field.subspace.coordinates(flatten(state)))
    if found is None:
        raise InputError("no fixed point was found near this Start; give a nearer one, such as the end of a long solve.")
    least = least_eigenvalue(found.state, t)
    if least < -1e-8:
        raise InputError(
            f"the root nearest to this Start does not belong to real vectors (eigenvalue {least:.3g}); give a nearer Start."
        )
    return characterize(system, found)


def _find_plateau(system: OrderParameters, blank: Overlaps) -> FixedPoint:
    """From small student vectors along v_k (v* . w*), the same direction for all, each with as long a random part."""
    problem, v, v_teacher = system.problem, np.asarray(blank.readout), np.asarray(system.problem.teacher.readout)
    direction = np.asarray(system.t) @ v_teacher  # (L, M)
    length = np.einsum("l,lm,m->", np.asarray(problem.inputs.weights), direction, v_teacher)
    along = APPROACH_LENGTH / np.sqrt(max(float(length), 1e-12)) * v / max(float(np.max(np.abs(v))), 1e-12)
    r = along[:, None] * direction[:, None, :]
    q = along[:, None] * along * (direction @ v_teacher)[:, None, None] + APPROACH_LENGTH**2 * np.eye(v.size)
    state = Overlaps(r, q, blank.readout, blank.bias, None)
    even = problem.student.activation.parity == 1
    subspace = symmetric_subspace(problem, system.t, state, copies=system.gradient_flow and not even)
    if subspace.size == free_subspace(problem, state).size:
        raise InputError("no two units of this problem are equal, so it has no symmetric plateau; give a Start.")
    found = approach(SubspaceDrift(system, state, subspace), subspace.coordinates(flatten(state)))
    return characterize(system, found)


def _find_perfect(system: OrderParameters, blank: Overlaps) -> FixedPoint:
    problem, t = system.problem, system.t
    U0 = teacher_assignment(problem)
    state = perfect_overlaps(problem, t, U0)
    noise, decay = float(problem.noise), float(problem.sgd.weight_decay)
    if decay == 0 and (noise == 0 or system.gradient_flow):
        if is_kinked(system):
            raise InputError(
                f"{problem.student.activation.name!r} has a kink: the dynamics has no derivative, and so no modes, where a "
                "student meets its teacher. Use a smooth activation, such as 'softplus' or 'gelu', or add noise."
            )
        return characterize(system, Root(state, 0.0, True), perfect_jacobian(system, state))
    extra, v = np.abs(U0).sum(axis=1) == 0, np.asarray(state.readout)
    copies = interchangeable(v.size, (np.where(extra, 0, 1 + np.arange(v.size)), (0,)), (v, (0,)))
    return characterize(system, _continued(system, state, copied_subspace(problem, state, copies)))


def _continued(system: OrderParameters, state: Overlaps, subspace: Subspace) -> Root:
    """The perfect solution followed to the noise and weight decay of the problem; equal extra units stay copies.

    Where it is one of many (or its modes are unknown), the dynamics itself must choose: integrate from there.
    """
    problem, y = system.problem, subspace.coordinates(flatten(state))
    if is_kinked(system) or not perfect_learning(problem.replace(weight_decay=0.0), system.t, system.moments).isolated:
        return approach(SubspaceDrift(system, state, subspace), y)
    share, step, found = 0.0, 0.01, None
    while share < 1.0:
        tried = min(1.0, share + step)
        lighter = problem.replace(noise=problem.noise * np.sqrt(tried), weight_decay=problem.sgd.weight_decay * tried)
        found = SubspaceDrift(eqx.tree_at(lambda s: s.problem, system, lighter), state, subspace).root(y)
        if found is not None and found.distance < FAR_DISTANCE and least_eigenvalue(found.state, system.t) > -1e-8:
            share, step, y = tried, 3 * step, subspace.coordinates(flatten(found.state))
        else:
            step /= 4
        if step < SHORTEST_STEP:
            raise InputError(
                f"the perfect solution is lost at {share:.3g} of this noise and weight decay, at learning rate "
                f"{float(problem.sgd.lr):g}; lower them (see critical_learning_rate)."
            )
    assert found is not None
    return Root(found.state, float(np.max(np.abs(flatten(found.state) - flatten(state)))), found.stable)


def characterize(system: OrderParameters, found: Root, J: np.ndarray | None = None) -> FixedPoint:
    """Error, residual and modes at a root. J: the Jacobian there, if it needed care."""
    state, free = found.state, free_subspace(system.problem, found.state)
    local, vector = LocalDynamics(system, state), np.asarray(flatten(state))
    J = local.jacobian(vector) if J is None else J
    drift = local.drift(vector) @ free.embed
    R, Q, T = system.covariances(state)
    return FixedPoint(
        problem=system.problem,
        gradient_flow=system.gradient_flow,
        state=state,
        t=np.asarray(system.t),
        R=np.asarray(R),
        Q=np.asarray(Q),
        T=np.asarray(T),
        error=float(local.errors(vector[None])[0]),
        residual=float(np.max(np.abs(drift), initial=0.0)),
        modes=named_modes(state, np.asarray(system.t), J, free),
        distance=found.distance,
    )
