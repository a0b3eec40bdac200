"""Where the dynamics stands still, and what happens beside it: plateaus, perfect learning, noisy asymptotic states.

The root of the drift is found by Newton's method (optimistix) in the flat coordinates of `dynamics.linearised`. A plateau is
first approached by a solve inside the symmetric subspace (symmetry.py), which neither the solve nor Newton can leave.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx

from tutelage import _checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.mode_names import named_modes
from tutelage.analysis.modes import Mode, rate_in_words
from tutelage.analysis.symmetry import Subspace, free_subspace, symmetric_subspace
from tutelage.averages import Quadrature
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearised import flat_drift, flatten, jacobian, unflatten
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Constant, Problem, SlowMomentum, Start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 1e-9  # rates below this, relative to the largest, are zero
EXACT = 1e-11  # largest drift, per unit learning rate, of what is called a fixed point
SMALL = 0.1  # length of the student vectors from which a plateau is approached


@dataclass(frozen=True)
class FixedPoint:
    """A state at which the drift vanishes. modes: all of them, fastest growing first (flat coordinates).

    error: generalisation error there. residual: the largest drift that is left. t: overlaps of the teachers per level.
    distance: how far (largest change of an overlap) the root lies from the state that was given or approached.
    """

    problem: Problem
    gradient_flow: bool
    state: Overlaps
    t: np.ndarray
    error: float
    residual: float
    modes: tuple[Mode, ...]
    distance: float = 0.0

    @property
    def r(self) -> np.ndarray:
        """Overlaps of students and teachers per level, (L, K, M)."""
        return np.asarray(self.state.r)

    @property
    def q(self) -> np.ndarray:
        """Overlaps of students per level, (L, K, K)."""
        return np.asarray(self.state.q)

    @property
    def R(self) -> np.ndarray:
        """Covariance of student and teacher fields, (K, M)."""
        return self._fields(self.r)

    @property
    def Q(self) -> np.ndarray:
        """Covariance of student fields, (K, K)."""
        return self._fields(self.q)

    @property
    def T(self) -> np.ndarray:
        """Covariance of teacher fields, (M, M)."""
        return self._fields(self.t)

    def _fields(self, blocks: np.ndarray) -> np.ndarray:
        return np.einsum("l,lab->ab", np.asarray(self.problem.inputs.weights), blocks)

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
        return MARGIN * max((abs(mode.rate) for mode in self.modes), default=0.0)

    @property
    def unstable(self) -> tuple[Mode, ...]:
        """The modes that grow."""
        return tuple(mode for mode in self.modes if mode.growth > self._margin)

    @property
    def stable(self) -> bool:
        """Does no mode grow?"""
        return not self.unstable

    @property
    def stability(self) -> str:
        """One sentence: stable, or which modes leave it and how fast."""
        if self.unstable:
            count, first = len(self.unstable), self.unstable[0]
            modes = f"{count} mode{'s' * (count > 1)}"
            return (
                f"Unstable: it is left along {modes} of {len(self.modes)}, the fastest growing as "
                f"exp({rate_in_words(first.rate).removeprefix('+')} alpha), which {first.name}."
            )
        flat = sum(abs(mode.rate) <= self._margin for mode in self.modes)
        if flat:
            return f"Not left by any mode to first order, but {flat} of {len(self.modes)} modes neither grow nor fade."
        return f"Stable: the slowest of {len(self.modes)} modes fades as exp({rate_in_words(self.modes[0].rate)} alpha)."

    def __str__(self) -> str:
        lines = [
            f"fixed point of {'gradient flow' if self.gradient_flow else 'SGD'}: e_g = {self.error:.8g}, "
            f"residual {self.residual:.1e}",
            f"R = {_checks.shown(self.R)}",
            f"Q = {_checks.shown(self.Q)}",
            self.stability,
        ]
        return "\n".join(lines + [f"  {mode}" for mode in self._distinct()])

    def _distinct(self) -> list[Mode]:
        """One mode per rate (and per pair of conjugates)."""
        out: list[Mode] = []
        for mode in self.modes:
            if not out or (mode.rate != out[-1].rate and mode.rate != np.conj(out[-1].rate)):
                out.append(mode)
        return out

    def plot(self, *, title: str | None = None) -> "Figure":
        """The overlaps as heat maps and the modes by rate and name, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.fixed_point import plot_fixed_point

        return plot_fixed_point(self, title=title)

    def __repr__(self) -> str:
        return f"<FixedPoint: e_g = {self.error:.6g}, {len(self.unstable)} unstable of {len(self.modes)} modes>"


def fixed_point(
    problem: Problem, near: Any = "plateau", *, gradient_flow: bool = False, quadrature: Quadrature | None = None
) -> FixedPoint:
    """The fixed point of the dynamics near a place, to machine precision, with its modes.

    near: "plateau", where equal units are still alike: the end of a solve from small weights inside the symmetric
    subspace. Or a `Start`, from which Newton's method runs (`distance` says how far it went). The learning rate must be
    constant. gradient_flow: terms of order eta only; equal students are then copies of each other (q_ij = q_ii), for
    nothing of that order drives them apart.
    """
    gradient_flow = _checks.as_flag("gradient_flow", gradient_flow)
    problem = with_constant_rates(problem)
    if isinstance(near, Start):
        state, t = initial_overlaps(problem, near)
        system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
        found = _polish(system, state, free_subspace(problem, state), flatten(state))
    else:
        _checks.known("near", near, ("plateau",))
        found, system, state = _plateau(problem, gradient_flow, quadrature)
    return describe(system, unflatten(jnp.asarray(found.vector), state), found.distance)


def with_constant_rates(problem: Any) -> Problem:
    """The problem, its `Constant` schedules as numbers; refuses what has no fixed points or other modes than these."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is of type {type(problem).__name__}; give a tutelage Problem.")
    sgd = problem.sgd
    if isinstance(sgd.momentum, SlowMomentum):
        raise InputError(
            "momentum is a SlowMomentum; its velocities have modes of their own, which are not covered. Use momentum=beta."
        )
    if sgd.spherical:
        raise InputError(
            "spherical is True; the lengths are then fixed by the start, not by the dynamics. Use spherical=False."
        )
    changes = {}
    for name in ("lr", "readout_lr", "bias_lr"):
        rate = getattr(sgd, name)
        if isinstance(rate, Constant):
            changes[name] = rate.value
        elif callable(rate):
            raise InputError(f"{name} is a schedule; a fixed point needs a constant rate. Use problem.replace({name}=0.5).")
    return problem.replace(**changes) if changes else problem


@dataclass(frozen=True)
class _Root:
    vector: np.ndarray
    distance: float
    stable: bool  # inside the subspace in which it was sought


def _polish(system: OrderParameters, like: Overlaps, subspace: Subspace, vector: Any) -> _Root:
    """Newton's method inside a subspace; refuses where it does not converge, or ends at overlaps of no vectors."""
    root = newton(system, like, subspace, subspace.coordinates(vector))
    if root is None:
        raise InputError(
            "Newton's method found no fixed point from this start; give a nearer one, such as the end of a long solve."
        )
    least = least_eigenvalue(unflatten(jnp.asarray(root.vector), like), system.t)
    if least < -1e-8:
        raise InputError(
            f"the root near this start has overlaps of no real vectors (eigenvalue {least:.3g}); give a nearer start."
        )
    return root


def newton(system: OrderParameters, like: Overlaps, subspace: Subspace, y: np.ndarray) -> _Root | None:
    """The root of the drift inside a subspace from coordinates y; None if Newton's method does not converge."""
    found, drift, J = (np.asarray(x) for x in _newton(system, like, subspace.embed, subspace.average, subspace.base, y))
    scale = float(np.asarray(system.rates(jnp.zeros(()))[0])) * max(1.0, float(np.max(np.abs(found), initial=0.0)))
    if not np.all(np.isfinite(found)) or np.max(np.abs(drift), initial=0.0) > EXACT * scale:
        return None
    rates = np.linalg.eigvals(J)
    stable = bool(np.all(rates.real <= MARGIN * np.max(np.abs(rates), initial=0.0)))
    return _Root(subspace.inside(found), float(np.max(np.abs(found - y), initial=0.0)), stable)


@eqx.filter_jit
def _newton(system: Any, like: Overlaps, embed: Any, average: Any, base: Any, y: Any) -> tuple[Array, Array, Array]:
    drift = flat_drift(system, like)

    def inside(y: Array, _: Any = None) -> Array:
        return jnp.asarray(average) @ drift(jnp.zeros(()), jnp.asarray(base) + jnp.asarray(embed) @ y)

    solver = optx.Newton(rtol=1e-12, atol=1e-14, linear_solver=lx.SVD(rcond=1e-10))
    solution = optx.root_find(inside, solver, jnp.asarray(y), max_steps=40, throw=False)
    return solution.value, inside(solution.value), jax.jacfwd(inside)(solution.value)


def _plateau(
    problem: Problem, gradient_flow: bool, quadrature: Quadrature | None
) -> tuple[_Root, OrderParameters, Overlaps]:
    """Approach by a solve inside the symmetric subspace, then Newton: until it stays near, at a root that attracts there."""
    if problem.sgd.trainable is not None:
        raise InputError(
            "some levels are frozen, at overlaps that only a start knows; a plateau cannot be found without it. Give a Start."
        )
    state, t = small_symmetric_state(problem)
    system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
    even = problem.student.activation.parity == 1
    subspace = symmetric_subspace(problem, t, state, copies=gradient_flow and not even)
    if subspace.embed.shape[1] == free_subspace(problem, state).embed.shape[1]:
        raise InputError(
            "no two units of this problem are equal, so there is no symmetry to keep and no plateau to find; give a Start."
        )
    eta = float(np.asarray(system.rates(jnp.zeros(()))[0]))
    y = subspace.coordinates(flatten(state))
    for span in 10.0 * 4.0 ** np.arange(9):
        y = _settle(system, state, subspace, y, span / eta)
        root = newton(system, state, subspace, y)
        if root is not None and root.stable and root.distance < 0.05 * max(1.0, float(np.max(np.abs(y)))):
            return root, system, state
    raise InputError(
        f"the symmetric state is still moving at alpha = {span / eta:.3g}; there may be no plateau. Give a Start near it."
    )


def small_symmetric_state(problem: Problem) -> tuple[Overlaps, Array]:
    """Small student vectors that see all teachers alike, each with a part of its own: v_k (v* . w*) and noise."""
    K, M = problem.student.hidden, problem.teacher.hidden
    blank, t = initial_overlaps(problem, Start(np.zeros((K, M)), np.zeros((K, K))))
    v, v_teacher = np.asarray(blank.readout), np.asarray(problem.teacher.readout)
    direction = np.asarray(t) @ v_teacher  # (L, M)
    length = np.einsum("l,lm,m->", np.asarray(problem.inputs.weights), direction, v_teacher)
    unit = v / max(float(np.max(np.abs(v))), 1e-300)
    along = SMALL / np.sqrt(max(float(length), 1e-300))
    r = along * unit[:, None] * direction[:, None, :]
    own = along**2 * (direction @ v_teacher)[:, None, None] * unit[:, None] * unit
    q = own + SMALL**2 * np.eye(K)
    return Overlaps(jnp.asarray(r), jnp.asarray(q), blank.readout, blank.bias, None), t


def _settle(system: OrderParameters, like: Overlaps, subspace: Subspace, y: np.ndarray, span: float) -> np.ndarray:
    """The coordinates after a time `span` inside the subspace."""
    from scipy.integrate import solve_ivp

    pieces = (system, like, subspace.embed, subspace.average, subspace.base)
    drift = lambda _, y: np.asarray(_inside(*pieces, y))  # noqa: E731
    out = solve_ivp(drift, (0.0, span), y, method="LSODA", rtol=1e-8, atol=1e-11)
    if out.status != 0 or not np.all(np.isfinite(out.y)) or np.max(np.abs(out.y)) > 1e6:
        raise InputError(
            f"the symmetric state diverges at learning rate {_checks.shown(system.problem.sgd.lr)}; there is no plateau. "
            "Lower the rate."
        )
    return out.y[:, -1]


@eqx.filter_jit
def _inside(system: Any, like: Overlaps, embed: Any, average: Any, base: Any, y: Any) -> Array:
    return jnp.asarray(average) @ flat_drift(system, like)(jnp.zeros(()), jnp.asarray(base) + jnp.asarray(embed) @ y)


def least_eigenvalue(state: Overlaps, t: Any) -> float:
    """Of the joint Gram matrix [[q, r], [r^T, t]], over all levels."""
    r, q, t = (np.asarray(x) for x in (state.r, state.q, t))
    return float(np.min(np.linalg.eigvalsh(np.block([[q, r], [np.swapaxes(r, -1, -2), t]]))))


def describe(system: OrderParameters, state: Overlaps, distance: float) -> FixedPoint:
    """Error, residual and modes at a state where the drift vanishes."""
    free = free_subspace(system.problem, state)
    columns = free.embed.argmax(axis=0)
    J = np.asarray(jacobian(system, 0.0, state))[np.ix_(columns, columns)]
    drift = np.asarray(flatten(system.drift(jnp.zeros(()), state)))[columns]
    return FixedPoint(
        problem=system.problem,
        gradient_flow=system.gradient_flow,
        state=state,
        t=np.asarray(system.t),
        error=float(system.error(system.observe(state))),
        residual=float(np.max(np.abs(drift), initial=0.0)),
        modes=named_modes(system, state, J, free),
        distance=distance,
    )
