"""Fixed points of the dynamics and their modes.

They are plateaus, perfect learning and noisy asymptotic states. A plateau lives in the
subspace of states that exchanges of equal units (and, for even activations, changes of
sign) leave alone: one coordinate per orbit of entries. A root of the drift inside a
subspace is approached by integration, then found by least squares down to rounding.
Perfect learning is known (dynamics/perfect_learning.py) unless noise and weight decay
move it.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.traits import OPTIMIZERS, SMOOTH, VISIBLE, require_traits
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream import perfect_learning as perfect
from tutelage.stream.linearized import LATE, LocalDynamics
from tutelage.stream.moments.quadrature import Quadrature
from tutelage.stream.optimizers import Scales
from tutelage.stream.order_parameters import Overlaps, flatten, unflatten

Teachers: TypeAlias = Float[NumpyOrJax, "L M M"]
Labels: TypeAlias = Int[np.ndarray, " units"]  # equal for equal units

# What a fixed point needs of an optimizer.
SETTLING = (
    OPTIMIZERS,
    "settling scales",
    "steps at equal units",
    "steps without jumps",
)

EQUAL_NUMBERS = 1e-9  # relative difference up to which two numbers are the same
EQUAL_OVERLAPS = 1e-7  # such a difference for overlaps of a state that was solved for
EQUAL_RATES = 1e-7  # rates closer than this, relative to the largest, are one rate
ZERO_RATE = 1e-9  # rates below this, relative to the largest, are zero
ABSENT_SHARE = 1e-6  # share of a mode below which something is absent
MINOR_SHARE = 0.1  # share of a mode below which something is minor
FAR_DISTANCE = 0.1  # a change of an overlap that is no longer small
ROOT_RESIDUAL = 1e-11  # largest drift, per unit learning rate, of what is called a root
DIVERGED_OVERLAP = 1e6  # overlaps beyond this have diverged
LEAST_EIGENVALUE = -1e-8  # of a Gram matrix that real vectors may have
APPROACH_LENGTH = 0.1  # length of student vectors from which a plateau is approached
APPROACHES = 9  # integrations, each four times as long as the last
FIRST_APPROACH = 10.0  # length of the first of them, in units of 1/eta
NEARBY = 0.05  # a root this close, relatively, to the end of an approach attracts it


@dataclass(frozen=True)
class Subspace:
    """States `base` + `embed` y in flat coordinates.

    There is one y per set of entries that move as one; all other entries are held at
    base. average: the mean over each set of entries, which turns a flat vector into
    coordinates.
    """

    embed: Float[np.ndarray, "n d"]
    average: Float[np.ndarray, "d n"]
    base: Float[np.ndarray, " n"]

    def coordinates(self, vector: Float[NumpyOrJax, " n"]) -> Float[np.ndarray, " d"]:
        """Return y of the nearest state inside."""
        return self.average @ np.asarray(vector)

    def inside(self, y: Float[NumpyOrJax, " d"]) -> Float[np.ndarray, " n"]:
        """Return the flat vector with coordinates y."""
        return self.base + self.embed @ np.asarray(y)


def subspace_of(
    problem: Problem,
    state: Overlaps,
    *units: Labels,
    copies: bool = False,
    zero: np.ndarray | bool = False,
) -> Subspace:
    """Return the states that exchanges of units with equal labels do not alter.

    units: labels of the student units, and of the teachers (default: all are
    different). copies: equal units have equal vectors too (q_ij = q_ii). state:
    supplies what does not learn. zero: entries forced to 0.
    """
    labels = orbits(state, *units, copies=copies)
    learns = _learning_entries(problem, state)
    free = learns & ~np.broadcast_to(zero, learns.shape)
    _, orbit = np.unique(labels[free], return_inverse=True)
    embed = np.zeros((labels.size, int(orbit.max(initial=-1)) + 1))
    embed[free, orbit.ravel()] = 1.0
    return Subspace(
        embed=embed,
        average=embed.T / embed.sum(axis=0)[:, None],
        base=np.where(learns, 0.0, np.asarray(flatten(state))),
    )


def _learning_entries(problem: Problem, state: Overlaps) -> np.ndarray:
    """Return true for the flat coordinates that change with what is trained."""
    L, K, M = state.r.shape
    mask = problem.trainable_mask()
    if mask is None:
        mask = np.ones((L, K))
    bias = np.full(K, problem.student.train_bias) if problem.biased else None
    scales = None
    if state.scales is not None:
        scales = jax.tree.map(np.ones_like, state.scales)
        scales = scales._replace(vectors=mask)
    learning = Overlaps(
        r=np.repeat(mask[:, :, None], M, axis=2),
        q=np.maximum(mask[:, :, None], mask[:, None, :]),
        readout=np.full(K, problem.student.train_readout),
        bias=bias,
        scales=scales,
    )
    return flatten(learning) > 0


def symmetric_subspace(
    problem: Problem, t: Teachers, state: Overlaps, *, copies: bool
) -> Subspace:
    """Return the states that no exchange of equal units alters.

    For even activations no change of sign alters them either.
    """
    L, K, M = state.r.shape
    t = np.asarray(t)
    v = np.asarray(state.readout)
    marks = problem.rule.unit_marks(v)
    students = interchangeable(K, (v, (0,)), (state.bias, (0,)), (marks, (1,)))
    teachers = interchangeable(
        M, (t, (1, 2)), (problem.labeler.readout, (0,)), (problem.labeler.bias, (0,))
    )
    even = problem.student.activation.parity == 1 and not problem.biased
    even_teacher = problem.labeler.activation.parity == 1 and not problem.biased
    largest = max(1.0, float(np.max(np.abs(t))))
    orthogonal = np.max(np.abs(t - t * np.eye(M))) <= EQUAL_NUMBERS * largest
    # even units may flip: their overlaps with others vanish
    vanishing = Overlaps(
        r=np.full((L, K, M), even or (even_teacher and orthogonal)),
        q=np.broadcast_to(even & ~np.eye(K, dtype=bool), (L, K, K)),
        readout=np.zeros(K, bool),
        bias=None if state.bias is None else np.zeros(K, bool),
        scales=jax.tree.map(lambda x: np.zeros(np.shape(x), bool), state.scales),
    )
    return subspace_of(
        problem, state, students, teachers, copies=copies, zero=flatten(vanishing)
    )


def orbits(
    like: Overlaps,
    students: Labels | None = None,
    teachers: Labels | None = None,
    *,
    copies: bool = False,
) -> np.ndarray:
    """Return a label for every flat coordinate.

    It is equal for entries that exchanges within the classes of units can reach.
    """
    L, K, M = like.r.shape
    second = np.arange(K) if students is None else students
    first = second[:, None]
    teacher = np.arange(M) if teachers is None else teachers
    level = np.arange(L)[:, None, None]
    r = (level * K + first) * M + teacher
    distinct = ~np.eye(K, dtype=bool) & ~(copies & (first == second))
    pair = (level * K + np.minimum(first, second)) * K + np.maximum(first, second)
    readout = L * K * (M + 2 * K) + second
    scales = None
    if like.scales is not None:
        scales = Scales(
            vectors=readout + 2 * K + K * level[:, :, 0],
            readout=None if like.scales.readout is None else readout + (2 + L) * K,
            bias=None if like.scales.bias is None else readout + (3 + L) * K,
        )
    labels = Overlaps(
        r=r,
        q=L * K * M + (pair * 2 + distinct),
        readout=readout,
        bias=None if like.bias is None else readout + K,
        scales=scales,
    )
    return flatten(labels)


def interchangeable(
    count: int,
    *arrays: tuple[ArrayLike | None, tuple[int, ...]],
    tolerance: float = EQUAL_NUMBERS,
) -> Int[np.ndarray, " count"]:
    """Return a label per unit: the first unit that may be exchanged with it.

    The exchange, along the given axes, leaves every array as it is.
    """
    known = [(np.asarray(array), axes) for array, axes in arrays if array is not None]

    def equivalent(i: int, j: int) -> bool:
        swap = np.arange(count)
        swap[[i, j]] = j, i
        for array, axes in known:
            exchanged = array
            for axis in axes:
                exchanged = np.take(exchanged, swap, axis)
            size = max(1.0, np.max(np.abs(array), initial=0.0))
            if not np.allclose(exchanged, array, rtol=0, atol=tolerance * size):
                return False
        return True

    labels = []
    for j in range(count):
        # a unit may be exchanged with itself
        first = next(i for i in range(j + 1) if i == j or equivalent(i, j))
        labels.append(first)
    return np.array(labels)


@dataclass(frozen=True)
class Mode(ResultCard):
    """A mode of the linear dynamics around a fixed point.

    rate: per unit of alpha, a float where it is real. right, left: flat vectors with
    left @ right = 1. multiplicity: the number of modes that share this rate (each is
    listed). name: the effect of the mode, in words.
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


class RateGroup(NamedTuple):
    """The right vectors (d, multiplicity) of the modes that share a rate."""

    rate: float | complex
    vectors: np.ndarray


def named_modes(
    state: Overlaps, t: np.ndarray, J: np.ndarray, free: Subspace
) -> tuple[Mode, ...]:
    """Return all modes, fastest growing first, of a Jacobian in flat coordinates.

    Only what learns counts.
    """
    values, vectors = np.linalg.eig(free.embed.T @ J @ free.embed)
    largest = float(np.max(np.abs(values), initial=0.0))
    groups = _groups_of_equal_rates(values, vectors, EQUAL_RATES * max(largest, 1e-300))
    all_vectors = np.concatenate([group.vectors for group in groups], axis=1)
    left = np.linalg.pinv(all_vectors, rcond=1e-13)
    modes = []
    for rate, right in groups:
        name = mode_name(state, t, rate, free.embed @ right, ZERO_RATE * largest)
        for r, l in zip(right.T, left[len(modes) :], strict=False):
            if isinstance(rate, float):
                r = r.real
                l = l.real
            mode = Mode(
                rate=rate,
                right=free.embed @ r,
                left=free.embed @ l,
                multiplicity=right.shape[1],
                name=name,
            )
            modes.append(mode)
    return tuple(modes)


def _groups_of_equal_rates(
    values: np.ndarray, vectors: np.ndarray, width: float
) -> list[RateGroup]:
    """Return the eigenvectors by rate, fastest growing first.

    Rates that differ by at most `width` belong to one group.
    """
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(np.abs(values[:, None] - values) <= width)
    groups: list[RateGroup] = []
    for i in range(count):
        members = label == i
        mean = complex(values[members].mean())
        span = vectors[:, members]
        if abs(mean.imag) <= width:
            groups.append(RateGroup(mean.real, _real_span(span)))
        else:
            groups.append(RateGroup(mean, span))
    groups.sort(key=lambda group: (-np.real(group.rate), -np.imag(group.rate)))
    return groups


def _real_span(vectors: np.ndarray) -> np.ndarray:
    """Return a real basis of the span, the largest entry of each vector positive.

    Rounding splits a repeated real rate into complex pairs.
    """
    both = np.concatenate([np.real(vectors), np.imag(vectors)], axis=1)
    basis = np.linalg.svd(both, full_matrices=False)[0]
    span = basis[:, : vectors.shape[1]]
    largest = np.argmax(np.abs(span), axis=0)[None]
    return span * np.sign(np.take_along_axis(span, largest, axis=0))


def mode_name(
    state: Overlaps,
    t: np.ndarray,
    rate: float | complex,
    vectors: np.ndarray,
    still: float = 0.0,
) -> str:
    """Return in words what the modes with these right vectors (n, count) do at a state.

    The words are the first ones that hold for their parts.
    """
    if abs(rate) <= still:
        return "moves along a flat direction"
    is_growing = bool(np.real(rate) > 0)
    return _words_of_modes(state, t, vectors, is_growing)


def _words_of_modes(
    state: Overlaps, t: np.ndarray, vectors: np.ndarray, is_growing: bool
) -> str:
    """Return in words what modes that are not flat do at a state."""
    R = np.asarray(state.r)
    t = np.asarray(t)
    K = R.shape[1]
    students = interchangeable(
        K,
        (R, (1,)),
        (state.q, (1, 2)),
        (state.readout, (0,)),
        (state.bias, (0,)),
        tolerance=EQUAL_OVERLAPS,
    )
    teachers = interchangeable(
        R.shape[2], (R, (2,)), (t, (1, 2)), tolerance=EQUAL_OVERLAPS
    )
    equal_units = _lists_of_equal_units(students)
    one_class = _is_one_class(students)
    # shares of the modes in r, in q, and in the part of q outside the teachers' span
    total = _square(vectors)
    change = unflatten(vectors.T, state)
    r = _square(change.r) / total
    q = _square(change.q[..., *np.triu_indices(K)]) / total
    inverse = np.linalg.pinv(t, rcond=1e-9, hermitian=True)
    turn = change.r @ inverse @ np.swapaxes(R, -1, -2)  # half of dq inside the span
    outside = _square(change.q - turn - np.swapaxes(turn, -1, -2)) / total
    # shares that exchanges of equal units leave as they are
    in_students = _unchanged(vectors, orbits(state, students)) / total
    in_teachers = _unchanged(vectors, orbits(state, teachers=teachers)) / total
    together = one_class and in_students > 1 - ABSENT_SHARE
    only_r = q < ABSENT_SHARE
    if r + q < ABSENT_SHARE:
        if state.scales is not None:
            return "changes the scales of the optimizer, readouts and biases alone"
        return "changes readouts and biases alone"
    if equal_units and in_students < ABSENT_SHARE:
        who = f"the equal student units {' and '.join(equal_units)}"
        if one_class:
            who = "student units"
        how = "some grow, some shrink"
        if only_r:
            how = "each turns to different teacher units"
        return f"breaks the symmetry between {who}: {how}"
    if together and only_r:
        return "turns all student units together toward some teacher units"
    if _is_one_class(teachers) and in_teachers < ABSENT_SHARE:
        return "turns student units toward some teacher units"
    if together:
        return "changes norms and overlaps of all student units equally"
    if only_r:
        return "changes the overlaps of student units with teachers"
    if outside > MINOR_SHARE**2 * (outside + r):
        verb = "grows" if is_growing else "decays"
        return f"{verb} outside the teachers' span"
    return "moves student units inside the teachers' span"


def _lists_of_equal_units(labels: Labels) -> list[str]:
    """Return the numbers, from 1, of the units in each class of several, as text."""
    lists = []
    for label in np.unique(labels):
        units = np.flatnonzero(labels == label) + 1
        if units.size > 1:
            lists.append(", ".join([str(unit) for unit in units]))
    return lists


def _is_one_class(labels: Labels) -> bool:
    """Return true if there are several units and all are equal."""
    return bool(np.ptp(labels) == 0 and labels.size > 1)


def _square(vectors: np.ndarray) -> float:
    return float(np.sum(np.abs(vectors) ** 2))


def _unchanged(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Return the squared length of the part that is equal in every orbit of entries."""
    member = np.unique(labels)[:, None] == labels
    sizes = member.sum(axis=1, keepdims=True)
    return _square((member @ vectors) / np.sqrt(sizes))


@dataclass(frozen=True, repr=False)
class FixedPoint(AnalysisResult, figure="plot_fixed_point"):
    """A state at which the drift vanishes.

    Attributes
    ----------
    state
        Overlaps r and q per level, readout, bias.
    t
        Overlaps of the teachers per level.
    R, Q, T
        Covariances of student and teacher fields.
    error
        The generalization error there.
    residual
        The largest drift that is left.
    modes
        All modes, fastest growing first (flat coordinates).
    distance
        The largest change of an overlap from the beginning of the search to the root.
        It begins at the given start, the perfect solution without noise and decay, or
        the end of the approach to a plateau.
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
        return Start(
            R=self.state.r,
            Q=self.state.q,
            T=self.t,
            readout=self.state.readout,
            bias=self.state.bias,
        )

    @property
    def unstable(self) -> tuple[Mode, ...]:
        """The modes that grow."""
        sizes = [abs(mode.rate) for mode in self.modes]
        margin = ZERO_RATE * max(sizes, default=0.0)
        return tuple(mode for mode in self.modes if mode.growth > margin)

    @property
    def stable(self) -> bool:
        """True if no mode grows."""
        return not self.unstable

    @property
    def is_far(self) -> bool:
        """True if the search ended far from where it began.

        The root may then not be the one that was meant.
        """
        return self.distance > FAR_DISTANCE

    @property
    def stability(self) -> str:
        """The stability in words: stable, or the modes that leave it and their rate."""
        if self.unstable:
            fastest = self.unstable[0]
            count = len(self.unstable)
            verb = "grows" if count == 1 else "grow"
            return (
                f"Unstable: {count} of {len(self.modes)} modes {verb}, the fastest as "
                f"exp({fastest.rate:.6g} alpha); it {fastest.name}."
            )
        rates = np.abs([mode.rate for mode in self.modes])
        flat = int(np.sum(rates <= ZERO_RATE * rates.max(initial=0.0)))
        if flat:
            return (
                f"Marginal: no mode grows to first order, but {flat} of "
                f"{len(self.modes)} modes do not decay."
            )
        return (
            f"Stable: the slowest of {len(self.modes)} modes decays as "
            f"exp({self.modes[0].rate:.6g} alpha)."
        )

    def __str__(self) -> str:
        dynamics = type(self.problem.optimizer).__name__
        if self.gradient_flow:
            dynamics = "gradient flow"
        lines = [
            f"fixed point of {dynamics}: e_g = {self.error:.8g}, "
            f"residual {self.residual:.1e}",
            f"R = {_entries_in_words(self.R)}",
            f"Q = {_entries_in_words(self.Q)}",
            self.stability,
        ]
        if self.is_far:
            lines.append(
                f"FAR: an overlap changed by {self.distance:.3g} "
                "on the way from where the search began"
            )
        lines += [f"  {mode}" for mode in self.distinct]
        return "\n".join(lines)

    @property
    def distinct(self) -> list[Mode]:
        """One mode for each rate, and for each pair of conjugates."""

        def rate_up_to_conjugation(mode: Mode) -> tuple[float, float]:
            return np.real(mode.rate), abs(np.imag(mode.rate))

        groups = groupby(self.modes, rate_up_to_conjugation)
        return [next(modes) for _, modes in groups]


def _entries_in_words(matrix: np.ndarray) -> str:
    """Return the entries of a small matrix, the range of those of a large one."""
    if matrix.size <= 16:
        return checks.shown(matrix)
    rows, columns = matrix.shape
    return f"{rows} x {columns} entries from {matrix.min():.6g} to {matrix.max():.6g}"


class Root(NamedTuple):
    """A state at which the drift vanishes.

    distance: the largest change of an overlap on the way there. stable: true if no
    deviation inside the subspace grows.
    """

    state: Overlaps
    distance: float
    stable: bool = True


class SubspaceDrift:
    """The drift of a system inside a subspace, as functions of its coordinates."""

    def __init__(self, system: OrderParameters, like: Overlaps, subspace: Subspace):
        optimizer = system.problem.optimizer
        self.local = LocalDynamics(system, like, LATE)
        self.subspace = subspace
        self.eta = float(optimizer.lr) / (1.0 - float(optimizer.momentum))

    def drift(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Return dy / dalpha."""
        return self.subspace.average @ self.local.drift(self.subspace.inside(y))

    def jacobian(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
        """Return the derivative of the drift."""
        J = self.local.jacobian(self.subspace.inside(y))
        return self.subspace.average @ J @ self.subspace.embed

    def root(self, y: np.ndarray) -> Root | None:
        """Return the root that least squares reaches from y, or None.

        Damping keeps it near; it may end on a manifold of roots.
        """
        from scipy.optimize import root

        unit = max(1.0, float(np.max(np.abs(y), initial=0.0)))
        result = root(
            lambda y: self.drift(y) / self.eta,
            y,
            jac=lambda y: self.jacobian(y) / self.eta,
            method="lm",
            options={"xtol": 1e-15, "ftol": 1e-15, "gtol": 0.0, "maxiter": 400},
        )
        residual = np.max(np.abs(result.fun), initial=0.0)
        if not np.all(np.isfinite(result.x)) or residual > ROOT_RESIDUAL * unit:
            return None
        rates = np.linalg.eigvals(self.jacobian(result.x))
        margin = ZERO_RATE * np.max(np.abs(rates), initial=0.0)
        return Root(
            state=unflatten(self.subspace.inside(result.x), self.local.like),
            distance=float(np.max(np.abs(result.x - y), initial=0.0)),
            stable=bool(np.all(rates.real <= margin)),
        )


def integrated(
    drift: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    times: np.ndarray,
    **options: Any,
) -> np.ndarray | None:
    """Return the solution from y at time zero at these times, (time, n).

    It is None if the solution diverges. options: tolerances and method of `solve_ivp`.
    """
    from scipy.integrate import solve_ivp

    def distance_to_divergence(_: float, y: np.ndarray) -> float:
        return DIVERGED_OVERLAP - float(np.max(np.abs(y)))

    stop: Any = distance_to_divergence
    stop.terminal = True  # by this attribute SciPy ends the solution at the event
    defaults = {"method": "LSODA", "t_eval": times, "events": stop}
    solution = solve_ivp(
        lambda _, y: drift(y), (0.0, times[-1]), y, **(defaults | options)
    )
    if solution.status != 0 or not np.all(np.isfinite(solution.y)):
        return None
    return solution.y.T


def _approach(system: OrderParameters, state: Overlaps, subspace: Subspace) -> Root:
    """Return the root that attracts a state inside a subspace.

    Integrate, then look for a root nearby; longer, until one is there.
    """
    field = SubspaceDrift(system, state, subspace)
    y = subspace.coordinates(flatten(state))
    duration = FIRST_APPROACH / field.eta
    for _ in range(APPROACHES):
        # no more than the place from which a root is sought
        path = integrated(field.drift, y, np.array([duration]), rtol=1e-6, atol=1e-9)
        if path is None:
            lr = float(system.problem.optimizer.lr)
            raise InputError(
                f"the overlaps diverge at learning rate {lr:g}, "
                "so there is no fixed point; lower the rate."
            )
        y = path[-1]
        root = field.root(y)
        reach = NEARBY * max(1.0, float(np.max(np.abs(y))))
        if root is not None and root.stable and root.distance < reach:
            return root
        duration *= 4
    # all durations add up to a third of the next one
    raise InputError(
        f"the overlaps still move at alpha = {duration / 3:.3g}; "
        "there may be no fixed point. Give a near Start."
    )


def fixed_point(
    problem: Problem,
    near: str | Start = "plateau",
    *,
    gradient_flow: bool = False,
    quadrature: Quadrature | None = None,
) -> FixedPoint:
    """Return the fixed point of the dynamics near a given place, with its modes.

    It is known to machine precision.

    Parameters
    ----------
    problem : Problem
        With constant learning rates. RMSprop and Adam have settled scales and, for
        Adam, no bias correction any more. The scale of AdaGrad never settles.
    near : str or Start
        "plateau": equal units have equal overlaps; the end of a solve from small
        weights in the symmetric subspace. "perfect": every teacher unit has a copy,
        extra student units are zero; label noise and weight decay move this point, and
        the moved one is returned (plain SGD only: other optimizers do not stay there). Or a `Start`: the nearest root (`distance` is its
        distance).
    gradient_flow : bool
        Include terms of order eta only. Equal units of a plateau are then copies of
        each other (q_ij = q_ii), because only SGD noise separates them.
    quadrature : Quadrature, optional
        As in `solve`.

    Returns
    -------
    FixedPoint

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> plateau = tu.analysis.fixed_point(problem, gradient_flow=True)
    >>> round(float(plateau.Q[0, 0]), 6)  # Q = 1/(2K - 1)
    0.333333
    >>> round(plateau.error, 8), len(plateau.unstable)
    (0.01161084, 1)
    """
    problem = with_constant_rates(problem, "fixed_point", (*SMOOTH, *SETTLING))
    gradient_flow = checks.as_flag("gradient_flow", gradient_flow)
    perfect.require_small(problem)
    find_root = _finder(problem, near)
    if isinstance(near, Start):
        start = near
    else:  # a blank one, whose units are all zero
        K = problem.student.hidden
        M = problem.labeler.hidden
        start = Start(np.zeros((K, M)), np.zeros((K, K)))
    initial, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
    root = find_root(system, initial)
    free = subspace_of(problem, root.state)
    local = LocalDynamics(system, root.state, LATE)
    vector = np.asarray(flatten(root.state))
    residual = np.max(np.abs(local.drift(vector) @ free.embed), initial=0.0)
    covariances = system.covariances(root.state)
    state, t, R, Q, T = jax.tree.map(np.asarray, (root.state, t, *covariances))
    if system.closed and state.scales is None:
        J = perfect.perfect_jacobian(system, state)
    else:
        J = local.jacobian(vector)
    return FixedPoint(
        problem=problem,
        gradient_flow=gradient_flow,
        state=state,
        t=t,
        R=R,
        Q=Q,
        T=T,
        error=float(local.errors(vector[None])[0]),
        residual=float(residual),
        modes=named_modes(state, t, J, free),
        distance=root.distance,
    )


def _finder(
    problem: Problem, near: str | Start
) -> Callable[[OrderParameters, Overlaps], Root]:
    """Return the search for the root near a place; refuse a place without meaning."""
    if isinstance(near, Start):
        return _find_nearest
    find_root = _find_plateau
    if checks.known("near", near, ("plateau", "perfect")) == "perfect":
        find_root = _find_perfect
        require_traits(problem, "fixed_point near 'perfect'", VISIBLE)
    if problem.optimizer.trainable is not None:
        raise InputError(
            "some levels are frozen, and their overlaps are not specified; "
            "give a Start instead of a word."
        )
    return find_root


def with_settled_scales(system: OrderParameters, state: Overlaps) -> Overlaps:
    """Return a state with the scales that its optimizer would have after a long stay.

    A scale moves at the rate (squares - scale) / memory.
    """
    if state.scales is None:
        return state
    optimizer: Any = system.problem.optimizer  # RMSprop or Adam: it has scales
    memory = float(optimizer.memory)
    state = state._replace(scales=jax.tree.map(np.ones_like, state.scales))
    drift = LocalDynamics(system, state, LATE).drift(np.asarray(flatten(state)))
    drift_of_scales = unflatten(drift, state).scales
    settled = jax.tree.map(lambda rate: 1.0 + memory * rate, drift_of_scales)
    return state._replace(scales=settled)


def _find_nearest(system: OrderParameters, state: Overlaps) -> Root:
    """Return the root that is nearest to a state."""
    state = with_settled_scales(system, state)
    subspace = subspace_of(system.problem, state)
    field = SubspaceDrift(system, state, subspace)
    root = field.root(subspace.coordinates(flatten(state)))
    if root is None:
        raise InputError(
            "no fixed point was found near this Start; "
            "give a nearer one, such as the end of a long solve."
        )
    r = root.state.r
    q = root.state.q
    gram = np.block([[q, r], [np.swapaxes(r, -1, -2), np.asarray(system.t)]])
    least = float(np.min(np.linalg.eigvalsh(gram)))
    if least < LEAST_EIGENVALUE:
        raise InputError(
            "the nearest root does not belong to real vectors "
            f"(eigenvalue {least:.3g}); give a nearer Start."
        )
    return root


def _find_plateau(system: OrderParameters, blank: Overlaps) -> Root:
    """Return the plateau that small random student vectors reach."""
    problem = system.problem
    lengths = APPROACH_LENGTH**2 * np.eye(problem.student.hidden)
    state = blank._replace(q=np.asarray(blank.q) + lengths)
    state = with_settled_scales(system, state)
    even = problem.student.activation.parity == 1
    subspace = symmetric_subspace(
        problem, system.t, state, copies=system.gradient_flow and not even
    )
    if subspace.embed.shape == subspace_of(problem, state).embed.shape:
        raise InputError(
            "no two units of this problem are equal, so it has no symmetric plateau; "
            "give a Start."
        )
    return _approach(system, state, subspace)


def _find_perfect(system: OrderParameters, blank: Overlaps) -> Root:
    """Return perfect learning, or the state that noise and weight decay make of it.

    Equal extra units stay copies.
    """
    problem = system.problem
    t = system.t
    lr = float(problem.optimizer.lr)
    U0 = perfect.teacher_assignment(problem)
    state = perfect.perfect_overlaps(problem, t, U0)
    kinked = perfect.is_kinked(system)
    has_noise = problem.noise != 0 and not system.gradient_flow
    if problem.optimizer.weight_decay == 0 and not has_noise:
        if kinked:
            raise InputError(
                f"{problem.student.activation.name!r} has a kink: there are no modes "
                "where a student meets its teacher; use a smooth activation, "
                "such as 'gelu', or add noise."
            )
        return Root(state, 0.0)
    if not kinked and not system.gradient_flow:
        undecayed = problem.replace(weight_decay=0.0)
        dynamics = perfect.perfect_learning(undecayed, t, system.moments)
        if not dynamics.is_stable(lr):
            raise InputError(
                f"the perfect solution is lost at lr = {lr:g}; "
                "lower it (see critical_learning_rate)."
            )
    v = np.asarray(state.readout)
    is_extra = np.abs(U0).sum(axis=1) == 0
    role = np.where(is_extra, 0, 1 + np.arange(v.size))
    copies = interchangeable(v.size, (role, (0,)), (v, (0,)))
    root = _approach(system, state, subspace_of(problem, state, copies, copies=True))
    change = np.abs(flatten(root.state) - flatten(state))
    return root._replace(distance=float(np.max(change)))
