"""Where the dynamics stands still, and what happens beside it: plateaus, perfect learning, noisy asymptotic states.

A plateau is approached by a solve inside the symmetric subspace (symmetry.py), which neither the solve nor the search for
the root can leave. Perfect learning is known (dynamics/perfect.py); noise and weight decay move it, and it is followed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage import _checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.mode_names import named_modes
from tutelage.analysis.modes import Mode, rate_in_words
from tutelage.analysis.roots import MARGIN, Field, Root, approach, least_eigenvalue
from tutelage.analysis.symmetry import Subspace, classes, copied_subspace, free_subspace, same, symmetric_subspace
from tutelage.averages import Quadrature
from tutelage.dynamics import OrderParameters, generalisation_error, initial_overlaps
from tutelage.dynamics.copies import copies_of_teachers, perfect_overlaps
from tutelage.dynamics.linearised import drift_at, flatten, jacobian
from tutelage.dynamics.overlaps import Overlaps
from tutelage.dynamics.perfect import is_kinked, perfect_jacobian, perfection, quadrature_of
from tutelage.problem import Constant, Problem, SlowMomentum, Start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 0.1  # length of the student vectors from which a plateau is approached
FAR = 0.1  # a change of an overlap that is no longer small
SHORTEST = 1e-4  # smallest share of noise and weight decay by which the perfect solution is followed


@dataclass(frozen=True)
class FixedPoint:
    """A state at which the drift vanishes. modes: all of them, fastest growing first (flat coordinates).

    error: generalisation error there. residual: the largest drift that is left. t: overlaps of the teachers per level.
    distance: how far (largest change of an overlap) the root lies from where the search for it began: the given start, the
    perfect solution without noise and decay, or the end of the approach to a plateau.
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
    def is_far(self) -> bool:
        """Did the search end far from where it began, so that the root may not be the one that was meant?"""
        return self.distance > FAR

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
            f"R = {_shown(self.R)}",
            f"Q = {_shown(self.Q)}",
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

    def plot(self, *, title: str | None = None) -> "Figure":
        """The overlaps as heat maps and the modes by rate and name, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.fixed_point import plot_fixed_point

        return plot_fixed_point(self, title=title)

    def __repr__(self) -> str:
        return f"<FixedPoint: e_g = {self.error:.6g}, {len(self.unstable)} unstable of {len(self.modes)} modes>"


def _shown(matrix: np.ndarray) -> str:
    """Every entry of a small matrix, the range of a large one."""
    if matrix.size <= 16:
        return _checks.shown(matrix)
    return f"{matrix.shape[0]} x {matrix.shape[1]} entries from {matrix.min():.6g} to {matrix.max():.6g}"


def fixed_point(
    problem: Problem, near: Any = "plateau", *, gradient_flow: bool = False, quadrature: Quadrature | None = None
) -> FixedPoint:
    """The fixed point of the dynamics near a place, to machine precision, with its modes.

    near: "plateau", where equal units are still alike: the end of a solve from small weights inside the symmetric
    subspace. "perfect": every teacher has its copy among the students, extra students are zero; label noise and weight
    decay move this point, and the moved one is returned: the state that learning ends in. Or a `Start`, from which the
    nearest root is sought (`distance` says how far away it was). Learning rates must be constant.
    gradient_flow: terms of order eta only. Equal students are then copies of each other on a plateau (q_ij = q_ii), for
    nothing of that order drives them apart. quadrature: as in `solve`.
    """
    problem = with_constant_rates(problem)
    gradient_flow = _checks.as_flag("gradient_flow", gradient_flow)
    if isinstance(near, Start):
        return _from_start(problem, near, gradient_flow, quadrature)
    find = _perfect if _checks.known("near", near, ("plateau", "perfect")) == "perfect" else _plateau
    if problem.sgd.trainable is not None:
        raise InputError("some levels are frozen, at overlaps that only a start knows; give a Start instead of a word.")
    K, M = problem.student.hidden, problem.teacher.hidden
    blank, t = initial_overlaps(problem, Start(np.zeros((K, M)), np.zeros((K, K))))
    return find(OrderParameters(problem, t, gradient_flow, quadrature=quadrature), blank)


def with_constant_rates(problem: Any) -> Problem:
    """The problem, its `Constant` schedules as numbers; refuses what has no fixed points, or other modes than these."""
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
            raise InputError(f"{name} is a schedule; this needs a constant rate. Use problem.replace({name}=0.5).")
    return problem.replace(**changes) if changes else problem


def _from_start(problem: Problem, start: Start, gradient_flow: bool, quadrature: Quadrature | None) -> FixedPoint:
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
    field = Field(system, state, free_subspace(problem, state))
    found = field.root(field.subspace.coordinates(flatten(state)))
    if found is None:
        raise InputError("no fixed point was found from this start; give a nearer one, such as the end of a long solve.")
    least = least_eigenvalue(found.state, t)
    if least < -1e-8:
        raise InputError(
            f"the root nearest to this start has overlaps of no real vectors (eigenvalue {least:.3g}); give a nearer start."
        )
    return describe(system, found)


def _plateau(system: OrderParameters, blank: Overlaps) -> FixedPoint:
    problem, t = system.problem, system.t
    state = _small_symmetric_state(problem, t, blank)
    even = problem.student.activation.parity == 1
    subspace = symmetric_subspace(problem, t, state, copies=system.gradient_flow and not even)
    if subspace.size == free_subspace(problem, state).size:
        raise InputError("no two units of this problem are equal, so no symmetry holds it on a plateau; give a Start.")
    found = approach(Field(system, state, subspace), subspace.coordinates(flatten(state)))
    return describe(system, found)


def _small_symmetric_state(problem: Problem, t: Array, blank: Overlaps) -> Overlaps:
    """Small student vectors that see all teachers alike, along v_k (v* . w*), each with as long a part of its own."""
    v, v_teacher = np.asarray(blank.readout), np.asarray(problem.teacher.readout)
    direction = np.asarray(t) @ v_teacher  # (L, M)
    length = np.einsum("l,lm,m->", np.asarray(problem.inputs.weights), direction, v_teacher)
    along = SMALL / np.sqrt(max(float(length), 1e-12)) * v / max(float(np.max(np.abs(v))), 1e-12)
    r = along[:, None] * direction[:, None, :]
    q = along[:, None] * along * (direction @ v_teacher)[:, None, None] + SMALL**2 * np.eye(v.size)
    return Overlaps(jnp.asarray(r), jnp.asarray(q), blank.readout, blank.bias, None)


def _perfect(system: OrderParameters, blank: Overlaps) -> FixedPoint:
    problem, t = system.problem, system.t
    U0 = copies_of_teachers(problem)
    state = perfect_overlaps(problem, t, U0)
    noise, decay = float(problem.noise), float(problem.sgd.weight_decay)
    if decay == 0 and (noise == 0 or system.gradient_flow):
        if is_kinked(system):
            raise InputError(
                f"{problem.student.activation.name!r} has a kink: the dynamics has no derivative, and so no modes, where a "
                "student meets its teacher. Use a smooth activation, such as 'softplus' or 'gelu', or add noise."
            )
        return describe(system, Root(state, 0.0, True), perfect_jacobian(system, state))
    extra, v = np.abs(U0).sum(axis=1) == 0, np.asarray(state.readout)
    alike = classes(v.size, lambda i, j: bool(extra[i] and extra[j]) and same(v[i], v[j]))
    return describe(system, _moved(system, state, copied_subspace(problem, state, alike)))


def _moved(system: OrderParameters, state: Overlaps, subspace: Subspace) -> Root:
    """The perfect solution followed to the noise and weight decay of the problem; equal extra units stay copies.

    Where it is one of many (or its modes are unknown), the dynamics itself must choose: integrate from there.
    """
    problem, y = system.problem, subspace.coordinates(flatten(state))
    if is_kinked(system) or not perfection(problem.replace(weight_decay=0.0), system.t, quadrature_of(system)).isolated:
        return approach(Field(system, state, subspace), y)
    share, step, found = 0.0, 0.01, None
    while share < 1.0:
        tried = min(1.0, share + step)
        lighter = problem.replace(noise=problem.noise * np.sqrt(tried), weight_decay=problem.sgd.weight_decay * tried)
        found = Field(eqx.tree_at(lambda s: s.problem, system, lighter), state, subspace).root(y)
        if found is not None and found.distance < FAR and least_eigenvalue(found.state, system.t) > -1e-8:
            share, step, y = tried, 3 * step, subspace.coordinates(flatten(found.state))
        else:
            step /= 4
        if step < SHORTEST:
            raise InputError(
                f"the perfect solution is lost at {share:.3g} of this noise and weight decay, at learning rate "
                f"{float(problem.sgd.lr):g}; lower them (see critical_learning_rate)."
            )
    assert found is not None
    return Root(found.state, float(np.max(np.abs(flatten(found.state) - flatten(state)))), found.stable)


def describe(system: OrderParameters, found: Root, J: np.ndarray | None = None) -> FixedPoint:
    """Error, residual and modes at a root. J: the Jacobian there, if it needed care."""
    state, free = found.state, free_subspace(system.problem, found.state)
    J = np.asarray(jacobian(system, 0.0, state)) if J is None else J
    drift = np.asarray(drift_at(system, flatten(state), state)) @ free.embed
    R, Q, T = system.covariances(state)
    return FixedPoint(
        problem=system.problem,
        gradient_flow=system.gradient_flow,
        state=state,
        t=np.asarray(system.t),
        error=float(generalisation_error(system.problem, R, Q, T, state.readout, state.bias, quadrature_of(system))),
        residual=float(np.max(np.abs(drift), initial=0.0)),
        modes=named_modes(state, np.asarray(system.t), J, free),
        distance=found.distance,
    )
