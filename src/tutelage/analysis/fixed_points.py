"""Fixed points of the dynamics and their modes: plateaus, perfect learning, noisy asymptotic states.

A plateau lives in the subspace of states that exchanges of equal units (and, for even activations, changes of sign) leave
alone: one coordinate per orbit of entries. A root of the drift inside a subspace is approached by integration, then found by
least squares down to rounding. Perfect learning is known (dynamics/perfect_learning.py) unless noise and weight decay move it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._html import ResultCard
from tutelage._types import NumpyOrJax
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics import perfect_learning as perfect
from tutelage.dynamics.linearized import LocalDynamics
from tutelage.dynamics.order_parameters import Overlaps, flatten, unflatten
from tutelage.errors import InputError
from tutelage.moments.quadrature import Quadrature
from tutelage.problem import Problem, Start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.traits import SMOOTH, VISIBLE, require_traits

Teachers: TypeAlias = Float[NumpyOrJax, "L M M"]
Labels: TypeAlias = Int[np.ndarray, " units"]  # equal for units that are the same

EQUAL_NUMBERS = 1e-9  # relative difference up to which two numbers are the same
EQUAL_OVERLAPS = 1e-7  # the same for overlaps of a state that was solved for
EQUAL_RATES = 1e-7  # rates closer than this, relative to the largest, are one rate
ZERO_RATE = 1e-9  # rates below this, relative to the largest, are zero
ABSENT_SHARE, MINOR_SHARE = 1e-6, 0.1  # shares of a mode below which something is absent, or minor
FAR_DISTANCE = 0.1  # a change of an overlap that is no longer small
ROOT_RESIDUAL = 1e-11  # largest drift, per unit learning rate, of what is called a root
DIVERGED_OVERLAP = 1e6  # overlaps beyond this have diverged
APPROACH_LENGTH = 0.1  # length of the student vectors from which a plateau is approached


@dataclass(frozen=True)
class Subspace:
    """States `base` + `embed` y in flat coordinates: one y per set of entries that move as one; the rest is held at base.

    average: the mean over each set of entries, which turns a flat vector into coordinates.
    """

    embed: Float[np.ndarray, "n d"]
    average: Float[np.ndarray, "d n"]
    base: Float[np.ndarray, " n"]

    def coordinates(self, vector: Float[NumpyOrJax, " n"]) -> Float[np.ndarray, " d"]:
        """y of the nearest state inside."""
        return self.average @ np.asarray(vector)

    def inside(self, y: Float[NumpyOrJax, " d"]) -> Float[np.ndarray, " n"]:
        """The flat vector with coordinates y."""
        return self.base + self.embed @ np.asarray(y)


def subspace_of(
    problem: Problem, state: Overlaps, *units: Labels, copies: bool = False, zero: np.ndarray | bool = False
) -> Subspace:
    """States that exchanges of student units, and of teachers, with equal labels do not alter (default: all are different).

    copies: equal units have equal vectors too (q_ij = q_ii). state: supplies what does not learn. zero: entries forced to 0.
    """
    L, K, M = state.r.shape
    labels = orbits(state, *units, copies=copies)
    mask = problem.trainable_mask()
    mask = np.ones((L, K)) if mask is None else mask
    r, q = np.repeat(mask[:, :, None], M, axis=2), np.maximum(mask[:, :, None], mask[:, None, :])
    bias = np.full(K, problem.student.train_bias) if problem.biased else None
    learns = flatten(Overlaps(r, q, np.full(K, problem.student.train_readout), bias)) > 0
    free = learns & ~np.broadcast_to(zero, learns.shape)
    _, orbit = np.unique(labels[free], return_inverse=True)
    embed = np.zeros((labels.size, int(orbit.max(initial=-1)) + 1))
    embed[free, orbit.ravel()] = 1.0
    return Subspace(embed, embed.T / embed.sum(axis=0)[:, None], np.where(learns, 0.0, np.asarray(flatten(state))))


def symmetric_subspace(problem: Problem, t: Teachers, state: Overlaps, *, copies: bool) -> Subspace:
    """States that no exchange of equal units (nor change of sign, for even activations) alters."""
    (L, K, M), t, v = state.r.shape, np.asarray(t), np.asarray(state.readout)
    students = interchangeable(K, (v, (0,)), (state.bias, (0,)), (problem.rule.unit_marks(v), (1,)))
    teachers = interchangeable(M, (t, (1, 2)), (problem.teacher.readout, (0,)), (problem.teacher.bias, (0,)))
    even, even_teacher = (x.activation.parity == 1 and not problem.biased for x in (problem.student, problem.teacher))
    orthogonal = np.max(np.abs(t - t * np.eye(M))) <= EQUAL_NUMBERS * max(1.0, float(np.max(np.abs(t))))
    r = np.full((L, K, M), even or (even_teacher and orthogonal))  # even units may flip: overlaps with others vanish
    q = np.broadcast_to(even & ~np.eye(K, dtype=bool), (L, K, K))
    zero = flatten(Overlaps(r, q, np.zeros(K, bool), None if state.bias is None else np.zeros(K, bool)))
    return subspace_of(problem, state, students, teachers, copies=copies, zero=zero)


def orbits(
    like: Overlaps, students: Labels | None = None, teachers: Labels | None = None, *, copies: bool = False
) -> np.ndarray:
    """A label for every flat coordinate; equal for entries that exchanges within the classes of units can reach."""
    L, K, M = like.r.shape
    students, teachers = np.arange(K) if students is None else students, np.arange(M) if teachers is None else teachers
    level, s, s2 = np.arange(L)[:, None, None], students[:, None], students
    r = (level * K + s) * M + teachers
    distinct = ~np.eye(K, dtype=bool) & ~(copies & (s == s2))
    q = ((level * K + np.minimum(s, s2)) * K + np.maximum(s, s2)) * 2 + distinct
    readout = L * K * (M + 2 * K) + students
    return flatten(Overlaps(r, L * K * M + q, readout, None if like.bias is None else readout + K))


def interchangeable(
    count: int, *arrays: tuple[ArrayLike | None, tuple[int, ...]], tolerance: float = EQUAL_NUMBERS
) -> Int[np.ndarray, " count"]:
    """A label per unit: the first one whose exchange with it, along the given axes, leaves every array as it is."""
    known = [(np.asarray(array), axes) for array, axes in arrays if array is not None]

    def equivalent(i: int, j: int) -> bool:
        swap = np.arange(count)
        swap[[i, j]] = j, i
        for array, axes in known:
            other = reduce(lambda x, axis: np.take(x, swap, axis), axes, array)
            if not np.allclose(other, array, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(array), initial=0.0))):
                return False
        return True

    return np.array([next(i for i in range(j + 1) if i == j or equivalent(i, j)) for j in range(count)])


@dataclass(frozen=True)
class Mode(ResultCard):
    """One mode of the linear dynamics around a fixed point.

    rate: per unit of alpha, a float where it is real. right, left: flat vectors with left @ right = 1.
    multiplicity: how many modes share this rate (each is listed). name: what the mode does, in words.
    """

    rate: float | complex
    right: np.ndarray
    left: np.ndarray
    multiplicity: int
    name: str

    @property
    def growth(self) -> float:
        """The real part of the rate: positive for a deviation that grows."""
        return float(np.real(self.rate))

    def __str__(self) -> str:
        times = f"  x{self.multiplicity}" if self.multiplicity > 1 else ""
        return f"{self.rate:+.6g}{times}  {self.name}"


def named_modes(state: Overlaps, t: np.ndarray, J: np.ndarray, free: Subspace) -> tuple[Mode, ...]:
    """All modes, fastest growing first, of a Jacobian in flat coordinates (only what learns counts)."""
    from scipy.sparse.csgraph import connected_components

    values, vectors = np.linalg.eig(free.embed.T @ J @ free.embed)
    largest = float(np.max(np.abs(values), initial=0.0))
    width = EQUAL_RATES * max(largest, 1e-300)
    count, group = connected_components(np.abs(values[:, None] - values) <= width)
    groups: list[tuple[float | complex, np.ndarray]] = []  # (rate, right vectors (n, multiplicity))
    for members in (group == i for i in range(count)):
        mean, span = complex(values[members].mean()), vectors[:, members]
        if abs(mean.imag) <= width:  # rounding splits a repeated real rate into complex pairs: take their real span
            basis = np.linalg.svd(np.concatenate([np.real(span), np.imag(span)], axis=1), full_matrices=False)[0]
            span, mean = basis[:, : span.shape[1]], mean.real
            span = span * np.sign(np.take_along_axis(span, np.argmax(np.abs(span), axis=0)[None], axis=0))
        groups.append((mean, span))
    groups.sort(key=lambda group: (-np.real(group[0]), -np.imag(group[0])))
    left = np.linalg.pinv(np.concatenate([vectors for _, vectors in groups], axis=1), rcond=1e-13)
    modes = []
    for rate, right in groups:
        name = mode_name(state, t, rate, free.embed @ right, ZERO_RATE * largest)
        for r, l in zip(right.T, left[len(modes) :], strict=False):
            r, l = (r.real, l.real) if isinstance(rate, float) else (r, l)
            modes.append(Mode(rate, free.embed @ r, free.embed @ l, right.shape[1], name))
    return tuple(modes)


def mode_name(state: Overlaps, t: np.ndarray, rate: float | complex, vectors: np.ndarray, still: float = 0.0) -> str:
    """What the modes with these right vectors (n, count) do at a state: the first words that hold for their parts."""
    if abs(rate) <= still:
        return "moves along a flat direction"
    at, t, absent = np.asarray(state.r), np.asarray(t), ABSENT_SHARE
    own = (at, (1,)), (state.q, (1, 2)), (state.readout, (0,)), (state.bias, (0,))
    students = interchangeable(at.shape[1], *own, tolerance=EQUAL_OVERLAPS)
    teachers = interchangeable(at.shape[2], (at, (2,)), (t, (1, 2)), tolerance=EQUAL_OVERLAPS)
    equal = [np.flatnonzero(students == label) + 1 for label in np.unique(students)]
    equal = [", ".join(map(str, units)) for units in equal if units.size > 1]
    one_class, one_teacher = (np.ptp(labels) == 0 and labels.size > 1 for labels in (students, teachers))
    total, d = _square(vectors), unflatten(vectors.T, state)
    r, q = _square(d.r) / total, _square(d.q[..., *np.triu_indices(at.shape[1])]) / total
    turn = d.r @ np.linalg.pinv(t, rcond=1e-9, hermitian=True) @ np.swapaxes(at, -1, -2)  # half of the dq inside the span
    left = _square(d.q - turn - np.swapaxes(turn, -1, -2)) / total
    in_students = _unchanged(vectors, orbits(state, students)) / total  # what exchanges of equal units leave as it is
    in_teachers = _unchanged(vectors, orbits(state, teachers=teachers)) / total
    together = one_class and in_students > 1 - absent
    who = "student units" if one_class else f"the equal student units {' and '.join(equal)}"
    how = "each turns to different teacher units" if q < absent else "some grow, some shrink"
    choices = (
        (r + q < absent, "changes readouts and biases alone"),
        (equal and in_students < absent, f"breaks the symmetry between {who}: {how}"),
        (together and q < absent, "turns all student units together toward some teacher units"),
        (one_teacher and in_teachers < absent, "turns student units toward some teacher units"),
        (together, "changes norms and overlaps of all student units equally"),
        (q < absent, "changes the overlaps of student units with teachers"),
        (left > MINOR_SHARE**2 * (left + r), f"{'grows' if np.real(rate) > 0 else 'decays'} outside the teachers' span"),
        (True, "moves student units inside the teachers' span"),
    )
    return next(words for holds, words in choices if holds)


def _square(vectors: np.ndarray) -> float:
    return float(np.sum(np.abs(vectors) ** 2))


def _unchanged(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Squared length of the part that is equal within every orbit of entries."""
    member = np.unique(labels)[:, None] == labels
    return _square((member @ vectors) / np.sqrt(member.sum(axis=1, keepdims=True)))


@dataclass(frozen=True, repr=False)
class FixedPoint(AnalysisResult, figure="plot_fixed_point"):
    """A state at which the drift vanishes. modes: all of them, fastest growing first (flat coordinates).

    state: overlaps r and q per level, readout, bias. t: overlaps of the teachers per level. R, Q, T: covariances of student and
    teacher fields. error: generalization error there. residual: the largest drift that is left.
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
    def start(self) -> Start:
        """The fixed point as a `Start`, per level."""
        return Start(self.state.r, self.state.q, self.t, readout=self.state.readout, bias=self.state.bias)

    @property
    def unstable(self) -> tuple[Mode, ...]:
        """The modes that grow."""
        margin = ZERO_RATE * max((abs(mode.rate) for mode in self.modes), default=0.0)
        return tuple(mode for mode in self.modes if mode.growth > margin)

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
            first, count = self.unstable[0], len(self.unstable)
            grow = f"{count} of {len(self.modes)} modes grow{'s' * (count == 1)}"
            return f"Unstable: {grow}, the fastest as exp({first.rate:.6g} alpha); it {first.name}."
        rates = np.abs([mode.rate for mode in self.modes])
        flat = int(np.sum(rates <= ZERO_RATE * rates.max(initial=0.0)))
        if flat:
            return f"Marginal: no mode grows to first order, but {flat} of {len(self.modes)} modes do not decay."
        return f"Stable: the slowest of {len(self.modes)} modes decays as exp({self.modes[0].rate:.6g} alpha)."

    def __str__(self) -> str:
        of = "gradient flow" if self.gradient_flow else "SGD"
        lines = [f"fixed point of {of}: e_g = {self.error:.8g}, residual {self.residual:.1e}"]
        for name, x in (("R", self.R), ("Q", self.Q)):
            many = f"{x.shape[0]} x {x.shape[1]} entries from {x.min():.6g} to {x.max():.6g}"
            lines.append(f"{name} = {checks.shown(x) if x.size <= 16 else many}")
        lines.append(self.stability)
        if self.is_far:
            lines.append(f"FAR: an overlap changed by {self.distance:.3g} on the way from where the search began")
        return "\n".join(lines + [f"  {mode}" for mode in self.distinct])

    @property
    def distinct(self) -> list[Mode]:
        """One mode for each rate, and for each pair of conjugates."""
        rates = groupby(self.modes, lambda mode: (np.real(mode.rate), abs(np.imag(mode.rate))))
        return [next(modes) for _, modes in rates]


class Root(NamedTuple):
    """Where the drift vanishes, the largest change of an overlap on the way there, and: does no deviation inside grow?"""

    state: Overlaps
    distance: float
    stable: bool = True


class SubspaceDrift:
    """The drift of a system inside a subspace, as plain functions of its coordinates."""

    def __init__(self, system: OrderParameters, like: Overlaps, subspace: Subspace):
        self.local, self.subspace = LocalDynamics(system, like), subspace
        self.eta = float(system.problem.sgd.lr) / (1.0 - float(system.problem.sgd.momentum))

    def drift(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """dy / dalpha."""
        return self.subspace.average @ self.local.drift(self.subspace.inside(y))

    def jacobian(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
        """Its derivative."""
        return self.subspace.average @ self.local.jacobian(self.subspace.inside(y)) @ self.subspace.embed

    def root(self, y: np.ndarray) -> Root | None:
        """The root that least squares reaches from y (damped: it stays near, and may end on a manifold of roots), or None."""
        from scipy.optimize import root

        unit, eta = max(1.0, float(np.max(np.abs(y), initial=0.0))), self.eta
        options = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 0.0, "maxiter": 400}
        out = root(lambda y: self.drift(y) / eta, y, jac=lambda y: self.jacobian(y) / eta, method="lm", options=options)
        if not np.all(np.isfinite(out.x)) or np.max(np.abs(out.fun), initial=0.0) > ROOT_RESIDUAL * unit:
            return None
        rates = np.linalg.eigvals(self.jacobian(out.x))
        stable = bool(np.all(rates.real <= ZERO_RATE * np.max(np.abs(rates), initial=0.0)))
        state = unflatten(self.subspace.inside(out.x), self.local.like)
        return Root(state, float(np.max(np.abs(out.x - y), initial=0.0)), stable)


def integrated(drift: Callable[[np.ndarray], np.ndarray], y: np.ndarray, times: np.ndarray, **how: Any) -> np.ndarray | None:
    """The solution from y at time zero at these times, (time, n); None if it diverges. how: tolerances and method."""
    from scipy.integrate import solve_ivp

    def distance_to_divergence(_: float, y: np.ndarray) -> float:
        return DIVERGED_OVERLAP - float(np.max(np.abs(y)))

    distance_to_divergence.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    how = {"method": "LSODA", "t_eval": times, "events": distance_to_divergence} | how
    out = solve_ivp(lambda _, y: drift(y), (0.0, times[-1]), y, **how)
    return out.y.T if out.status == 0 and np.all(np.isfinite(out.y)) else None


def _approach(system: OrderParameters, state: Overlaps, subspace: Subspace) -> Root:
    """The root that attracts a state inside a subspace: integrate, then look for a root nearby; longer, until one is there."""
    field, y = SubspaceDrift(system, state, subspace), subspace.coordinates(flatten(state))
    span = 10.0 / field.eta
    for _ in range(9):
        reached = integrated(field.drift, y, np.array([span]), rtol=1e-6, atol=1e-9)  # a root is sought from there
        if reached is None:
            lr = float(system.problem.sgd.lr)
            raise InputError(f"the overlaps diverge at learning rate {lr:g}, so there is no fixed point; lower the rate.")
        y = reached[-1]
        found = field.root(y)
        if found is not None and found.stable and found.distance < 0.05 * max(1.0, float(np.max(np.abs(y)))):
            return found
        span *= 4
    raise InputError(f"the overlaps still move at alpha = {span / 3:.3g}; there may be no fixed point. Give a near Start.")


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
    >>> round(float(plateau.Q[0, 0]), 6), round(plateau.error, 8), len(plateau.unstable)  # Q = 1/(2K - 1)
    (0.333333, 0.01161084, 1)
    """
    problem = with_constant_rates(problem, "fixed_point", SMOOTH)
    gradient_flow = checks.as_flag("gradient_flow", gradient_flow)
    perfect.require_small(problem)
    K, M = problem.student.hidden, problem.teacher.hidden
    start, find = near, _find_nearest
    if not isinstance(start, Start):
        start, find = Start(np.zeros((K, M)), np.zeros((K, K))), _find_plateau
        if checks.known("near", near, ("plateau", "perfect")) == "perfect":
            find = _find_perfect
            require_traits(problem, "fixed_point near 'perfect'", VISIBLE)
        if problem.sgd.trainable is not None:
            raise InputError("some levels are frozen, and their overlaps are not specified; give a Start instead of a word.")
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
    state, distance, _ = find(system, state)
    free, local, vector = subspace_of(problem, state), LocalDynamics(system, state), np.asarray(flatten(state))
    state, t, R, Q, T = jax.tree.map(np.asarray, (state, t, *system.covariances(state)))
    error = float(local.errors(vector[None])[0])
    residual = float(np.max(np.abs(local.drift(vector) @ free.embed), initial=0.0))
    modes = named_modes(state, t, perfect.perfect_jacobian(system, state), free)
    return FixedPoint(problem, gradient_flow, state, t, R, Q, T, error, residual, modes, distance)


def _find_nearest(system: OrderParameters, state: Overlaps) -> Root:
    """The root that is nearest to a state."""
    subspace = subspace_of(system.problem, state)
    found = SubspaceDrift(system, state, subspace).root(subspace.coordinates(flatten(state)))
    if found is None:
        raise InputError("no fixed point was found near this Start; give a nearer one, such as the end of a long solve.")
    r, q, t = found.state.r, found.state.q, np.asarray(system.t)
    least = float(np.min(np.linalg.eigvalsh(np.block([[q, r], [np.swapaxes(r, -1, -2), t]]))))  # of the Gram matrices
    if least < -1e-8:
        raise InputError(f"the nearest root does not belong to real vectors (eigenvalue {least:.3g}); give a nearer Start.")
    return found


def _find_plateau(system: OrderParameters, blank: Overlaps) -> Root:
    """From small random student vectors."""
    problem = system.problem
    state = blank._replace(q=np.asarray(blank.q) + APPROACH_LENGTH**2 * np.eye(problem.student.hidden))
    even = problem.student.activation.parity == 1
    subspace = symmetric_subspace(problem, system.t, state, copies=system.gradient_flow and not even)
    if subspace.embed.shape == subspace_of(problem, state).embed.shape:
        raise InputError("no two units of this problem are equal, so it has no symmetric plateau; give a Start.")
    return _approach(system, state, subspace)


def _find_perfect(system: OrderParameters, blank: Overlaps) -> Root:
    """Perfect learning, or the state that it becomes under noise and weight decay; equal extra units stay copies."""
    problem, t, U0 = system.problem, system.t, perfect.teacher_assignment(system.problem)
    state, kinked, lr = perfect.perfect_overlaps(problem, t, U0), perfect.is_kinked(system), float(problem.sgd.lr)
    if problem.sgd.weight_decay == 0 and (problem.noise == 0 or system.gradient_flow):
        if kinked:
            name, fix = problem.student.activation.name, "use a smooth activation, such as 'gelu', or add noise"
            raise InputError(f"{name!r} has a kink: there are no modes where a student meets its teacher; {fix}.")
        return Root(state, 0.0)
    known = not (kinked or system.gradient_flow)
    if known and not perfect.perfect_learning(problem.replace(weight_decay=0.0), t, system.moments).is_stable(lr):
        raise InputError(f"the perfect solution is lost at lr = {lr:g}; lower it (see critical_learning_rate).")
    extra, v = np.abs(U0).sum(axis=1) == 0, np.asarray(state.readout)
    copies = interchangeable(v.size, (np.where(extra, 0, 1 + np.arange(v.size)), (0,)), (v, (0,)))
    found = _approach(system, state, subspace_of(problem, state, copies, copies=True))
    return found._replace(distance=float(np.max(np.abs(flatten(found.state) - flatten(state)))))
