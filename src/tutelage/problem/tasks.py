"""Several tasks over time: teachers that share one student.

A schedule says which teacher labels a sample; heads may be separate, and teachers may
drift. Switch times, fractions and similarities are numbers: they are batched,
differentiated and changed without compiling again.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._part import Part, by_name
from tutelage._types import Array, ArrayLike, Numbers, NumpyOrJax, Schedule, Table
from tutelage.errors import InputError, explained
from tutelage.problem.network import Network, as_gram
from tutelage.training.schedules import list_field, rate_at, schedules_of, switch_times

CHECKED_TIMES = 1025  # at which a custom schedule of tasks is checked
SHARES = "shares (the probabilities of the tasks)"


def _phase(times: ArrayLike, t: ArrayLike) -> Array:
    """Return the number of switches that have passed at time t."""
    return jnp.searchsorted(jnp.asarray(times), jnp.asarray(t), side="right")


class TaskSchedule(Part):
    """A law of the task of a sample: the probability of each task at any time."""

    @abstractmethod
    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        """Return the probability of each of `count` tasks at time t."""

    @property
    def begins(self) -> ArrayLike:
        """Times at which the next task begins."""
        return getattr(self, "times", getattr(self, "after", np.zeros(0)))

    @property
    def needs(self) -> int:
        """The least number of tasks; for `Interleave` the exact number."""
        return np.size(self.begins) + 1

    @property
    def schedules(self) -> dict[str, Any]:
        """Its numbers that are functions of time, by name."""
        return schedules_of(self)


def _as_order(order: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if order is None else tuple(order)


class Switch(TaskSchedule):
    """One task at a time; the next one begins at each of the times.

    Parameters
    ----------
    times : float or list
        One switch time or several, increasing.
    order : list of int, optional
        The task of each phase, counted from 0. Default: 0, 1, 2, ...
        `Switch([60.0, 120.0], order=[0, 1, 0])` returns to the first task.

    Examples
    --------
    >>> import tutelage as tu
    >>> schedule = tu.Switch(60.0)
    >>> [schedule.probabilities(time, 2).tolist() for time in (59.0, 60.0)]
    [[1.0, 0.0], [0.0, 1.0]]
    """

    times: ArrayLike = list_field("times (the switches)", checks.require_increasing)
    order: tuple[int, ...] | None = eqx.field(
        static=True, default=None, converter=_as_order
    )

    def __check_init__(self) -> None:
        for task in self.order or ():
            checks.as_count("a task in order", task, least=0)
        phases = len(self._task_of_phase)
        switches = np.size(self.times)
        if phases != switches + 1:
            raise InputError(
                f"order names {phases} phases and there are {switches} switches; "
                "give one phase more."
            )

    @property
    def _task_of_phase(self) -> tuple[int, ...]:
        if self.order is None:
            return tuple(range(np.size(self.times) + 1))
        return self.order

    @property
    def needs(self) -> int:
        """The least number of tasks that it is for."""
        return max(self._task_of_phase) + 1

    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        """Return one for the task of this phase, zero for the others."""
        one_hot = jnp.asarray(np.eye(count)[np.array(self._task_of_phase)])
        return one_hot[_phase(self.times, t)]


class Interleave(TaskSchedule):
    """A random task at every sample.

    Parameters
    ----------
    shares : list, float or schedule
        The probability of each task, numbers or schedules; of two tasks also one number
        or schedule, that of the first.

    Examples
    --------
    >>> import tutelage as tu
    >>> share = tu.schedules.Linear([0.0, 100.0], [1.0, 0.0])
    >>> tu.Interleave(share).probabilities(25.0, 2).tolist()
    [0.75, 0.25]
    """

    shares: Any = eqx.field(converter=lambda shares: _as_shares(shares))

    def __check_init__(self) -> None:
        if not self.schedules:
            checks.require_probabilities(SHARES, self.shares)

    @property
    def schedules(self) -> dict[str, Any]:
        """Return the shares that are functions of time, by name."""
        shares = self.shares if isinstance(self.shares, tuple) else [self.shares]
        named = {f"share {task}": share for task, share in enumerate(shares)}
        return {name: share for name, share in named.items() if callable(share)}

    @property
    def needs(self) -> int:
        """The number of tasks that it is for."""
        return 2 if callable(self.shares) else len(self.shares)

    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        """Return the shares at time t."""
        if isinstance(self.shares, tuple):
            return jnp.stack([rate_at(share, t) for share in self.shares])
        share = rate_at(self.shares, t)
        if jnp.ndim(share) == 0:  # of the first of two tasks
            return jnp.stack([share, 1 - share])
        return share


def _as_shares(shares: Any) -> Any:
    """Convert the shares of tasks.

    Numbers become an array, one for each task. A schedule stays as it is, a list with
    schedules becomes a tuple.
    """
    if callable(shares):
        return shares
    is_list = isinstance(shares, list | tuple)
    if is_list and any(callable(share) for share in shares):
        return tuple(
            share if callable(share) else checks.as_array("a share", share)
            for share in shares
        )
    fix = "A list of probabilities, one for each task."
    array = checks.as_array(SHARES, shares, shapes=[(), ("tasks",)], fix=fix)
    if array.ndim == 0:
        # p and 1 - p, also of a traced p
        return array * np.array([1.0, -1.0]) + np.array([0.0, 1.0])
    return array


class Replay(TaskSchedule):
    """One task after the other, with a fraction of samples of the earlier tasks.

    Parameters
    ----------
    fraction : float or schedule
        The probability of an earlier task from the first switch on, equal for all
        earlier ones. fraction=0 is `Switch(after)`.
    after : float or list
        The switch time, or several; at each of them the next task begins.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.Replay(0.2, after=60.0).probabilities(70.0, 2).tolist()
    [0.2, 0.8]
    """

    fraction: Any = checks.number_field(
        "fraction", checks.require_probability, schedule=True
    )
    after: ArrayLike = list_field("after (the switches)", checks.require_increasing)

    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        """Return 1 - fraction for the present task, the rest for all earlier ones."""
        phase = _phase(self.after, t)
        is_earlier = np.arange(count) < phase
        share_of_earlier = jnp.where(is_earlier, 1 / jnp.maximum(phase, 1), 0.0)
        fraction = jnp.where(phase > 0, rate_at(self.fraction, t), 0.0)
        return (1 - fraction) * jnp.eye(count)[phase] + fraction * share_of_earlier


class Drift(Part):
    """Teacher vectors that move at random while the student learns, with rate omega.

        w* <- (1 - omega / N) w* + sqrt(2 omega / N) zeta     at every step

    zeta is Gaussian with the overlaps of the teachers. Their own overlaps T stay; those
    with the student decay, dr_l = ... - omega r_l.
    """

    rate: ArrayLike = checks.number_field(
        "rate (of the drift)", checks.require_nonnegative
    )


NAMED_TASK_SCHEDULES = by_name(Switch, Interleave, Replay)


class Tasks(Part):
    """Several tasks in place of a teacher: one teacher labels each sample.

        Delta = y_s - sum_k v^s_k g(lambda_k)

    The task s is drawn with the probabilities of the schedule at every sample. All
    tasks train the first layer of the student; to freeze it at a switch use
    SGD(lr=Piecewise([60.0], [0.5, 0.0]), readout_lr=0.5). `error` and `loss` of a
    trajectory have shape (time, task). R has one column for each teacher unit, all
    tasks in order. With separate heads `readout` has shape (time, task, K). `Start`
    takes the same shapes.

    Parameters
    ----------
    teachers : list of Network
        One for each task, of any width and activation.
    schedule : Switch, Interleave, Replay or function, optional
        `Switch(60.0)`, `Interleave([0.5, 0.5])`, `Replay(0.2, after=60.0)`, or a JAX
        function of time that returns one probability for each task. Default: equal
        probabilities.
    similarity : float or array
        Overlap of unit m of one teacher with unit m of another: one number for all
        pairs, or a matrix (tasks, tasks).
    gram : array, optional
        Instead of similarity the overlaps of all teacher units, (M, M) or per level
        (L, M, M).
    heads : str
        "separate": each task has a readout v^s, which learns from its samples only.
        "shared": one readout for all tasks.
    drift : Drift, optional
        `Drift(rate)` if the teachers move.
    freeze_heads : float or array, optional
        Times from which the heads no longer learn, one for all tasks or one for each
        (inf: never).

    Examples
    --------
    >>> import tutelage as tu
    >>> teachers = [tu.Network(1, "erf"), tu.Network(1, "erf")]
    >>> tasks = tu.Tasks(teachers, tu.Switch(60.0), similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> times = tu.linear_times(120, 13)
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=times)
    >>> theory.error.shape, theory.R.shape, theory.readout.shape
    ((13, 2), (13, 2, 2), (13, 2, 2))
    """

    teachers: tuple[Network, ...]
    count: int = eqx.field(static=True)  # of tasks
    hidden: int = eqx.field(static=True)  # teacher units of all tasks
    outputs: int = eqx.field(static=True)  # of each task
    schedule: Any  # a schedule of this module, or a function of time
    heads: str = eqx.field(static=True)
    similarity: Float[NumpyOrJax, "..."] | None
    given_gram: Float[NumpyOrJax, "*L M M"] | None
    drift: Drift | None
    freeze_heads: Float[NumpyOrJax, "*tasks"] | None

    def __init__(
        self,
        teachers: Sequence[Network],
        schedule: Any = None,
        heads: str = "separate",
        *,
        similarity: Numbers | None = None,
        gram: Numbers | None = None,
        drift: Drift | None = None,
        freeze_heads: Numbers | None = None,
    ):
        self.teachers = _as_teachers(teachers)
        self.count = len(self.teachers)
        self.outputs = self.teachers[0].outputs
        self.hidden = sum(teacher.hidden for teacher in self.teachers)
        self.schedule = _as_task_schedule(schedule, self.count)
        self.heads = checks.known("heads", heads, ("separate", "shared"))
        must = "a Drift, such as Drift(0.01)"
        self.drift = checks.as_kind("drift", drift, Drift | None, must)
        self.freeze_heads = _as_freeze_times(freeze_heads, self.heads, self.count)
        if similarity is not None and gram is not None:
            raise InputError(
                "similarity and gram are both given; they say the same. "
                "Give one of them."
            )
        self.similarity = checks.as_array(
            "similarity",
            similarity,
            shapes=[(), (self.count, self.count)],
            fix="One number, or one for each pair.",
            optional=True,
        )
        self.given_gram = as_gram(gram, self.hidden)
        if any(np.ndim(t.gram) == 3 for t in self.teachers if t.gram is not None):
            raise InputError(
                "a teacher has a gram for each level; "
                "give the overlaps of all tasks: Tasks(gram=...)."
            )
        if gram is None and self.gram is not None:
            checks.require_gram("the Gram matrix of the teachers", self.gram)

    def arguments(self) -> Table:
        """Return the constructor arguments that build these tasks again."""
        return super().arguments() | {"gram": self.given_gram}

    @property
    def readout(self) -> Float[NumpyOrJax, "*outputs M"]:
        """The readouts of all teachers, side by side."""
        return _joined([teacher.readout for teacher in self.teachers])

    @property
    def bias(self) -> Float[NumpyOrJax, " M"] | None:
        """Biases of all teacher units; None if no teacher has any."""
        if all(teacher.bias is None for teacher in self.teachers):
            return None
        biases = [
            np.zeros(teacher.hidden) if teacher.bias is None else teacher.bias
            for teacher in self.teachers
        ]
        return _joined(biases)

    @property
    def gram(self) -> Float[NumpyOrJax, "*L M M"] | None:
        """Overlaps of all teacher units; None if none are given."""
        if self.given_gram is not None:
            return self.given_gram
        grams = [teacher.gram for teacher in self.teachers]
        if self.similarity is None and all(gram is None for gram in grams):
            return None
        similarity = 0.0 if self.similarity is None else self.similarity
        return self._blocks(grams, similarity)

    @property
    def unseen(self) -> Float[NumpyOrJax, "M M"] | None:
        """Covariance of the part of all teachers' fields that the inputs do not carry.

        It is None if they carry everything. A sample has one task only, so that parts
        of different teachers are independent.
        """
        if all(teacher.unseen is None for teacher in self.teachers):
            return None
        parts = []
        for teacher in self.teachers:
            nothing = np.zeros((teacher.hidden, teacher.hidden))
            parts.append(nothing if teacher.unseen is None else teacher.unseen)
        return self._blocks(parts, 0.0)

    def _blocks(
        self, diagonal: Sequence[Any], between: Any
    ) -> Float[NumpyOrJax, "M M"]:
        """Return a matrix (M, M) of blocks.

        diagonal: the blocks of single teachers; None is the identity. between: the
        multiple of the identity in the block of two teachers.
        """
        xp: Any = jnp if checks.is_traced(between, diagonal) else np
        V = xp.broadcast_to(xp.asarray(between), (self.count, self.count))
        widths = [teacher.hidden for teacher in self.teachers]
        rows = []
        for i, n in enumerate(widths):
            row = [V[i, j] * np.eye(n, m) for j, m in enumerate(widths)]
            row[i] = np.eye(n) if diagonal[i] is None else diagonal[i]
            rows.append(row)
        return xp.block(rows)

    def units(self, task: int) -> slice:
        """Return the places of a task's units among those of all tasks."""
        first = sum(teacher.hidden for teacher in self.teachers[:task])
        return slice(first, first + self.teachers[task].hidden)

    @property
    def task_of_units(self) -> Int[np.ndarray, " M"]:
        """The task of each teacher unit, counted from 0."""
        widths = [teacher.hidden for teacher in self.teachers]
        return np.repeat(np.arange(self.count), widths)

    def probabilities(self, t: ArrayLike) -> Float[Array, " tasks"]:
        """Return the probability of each task at time t."""
        if isinstance(self.schedule, TaskSchedule):
            return self.schedule.probabilities(t, self.count)
        return jnp.asarray(self.schedule(jnp.asarray(t)), float)

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        """Return times up to `end` across which the solver must not step."""
        frozen = np.zeros(0) if self.freeze_heads is None else self.freeze_heads
        if isinstance(self.schedule, TaskSchedule):
            shares = self.schedule.schedules.values()
            return switch_times(end, *shares, known=[self.schedule.begins, frozen])

        def probability_of(task: int) -> Schedule:
            return cast(Schedule, lambda t: self.probabilities(t)[task])

        # the probabilities sum to one, so the last follows from the others
        shares = [probability_of(task) for task in range(max(1, self.count - 1))]
        return switch_times(end, *shares, known=[frozen])

    def head_rates(self, t: ArrayLike) -> Float[Array, "..."]:
        """Return 1 for a head that learns at time t, 0 for a frozen one.

        It is a factor of the readout's force (task, outputs, K).
        """
        frozen_from = jnp.asarray(self.freeze_heads)
        learns = jnp.where(jnp.asarray(t) < frozen_from, 1.0, 0.0)
        if learns.ndim == 0:
            return learns
        axes_of_head = 1 if self.outputs == 1 else 2
        return learns.reshape(*learns.shape, *[1] * axes_of_head)

    def head(self, readout: NumpyOrJax, task: int) -> Any:
        """Return the readout that serves a task."""
        return readout[task] if self.heads == "separate" else readout

    def require_probabilities_on(self, times: Float[np.ndarray, " S"]) -> None:
        """Refuse a schedule that leaves the probabilities at or between the times."""
        is_schedule = isinstance(self.schedule, TaskSchedule)
        is_numbers = is_schedule and not self.schedule.schedules
        if is_numbers or checks.is_traced(self.schedule):
            return  # checked when it was made
        times = np.union1d(times, np.linspace(0.0, times[-1], CHECKED_TIMES))
        fix = "write it with jax.numpy, as a function of time."
        with explained("the schedule of tasks cannot be traced by JAX", fix):
            values = jax.vmap(self.probabilities)(jnp.asarray(times))
        if values.shape != (len(times), self.count):
            raise InputError(
                f"the schedule of tasks returns shape {values.shape[1:]}; "
                f"give {self.count} probabilities."
            )
        if not checks.is_traced(values):
            for t, row in zip(times, np.asarray(values), strict=True):
                name = "the probabilities of the tasks"
                checks.require_probabilities(name, row, f" at time {t:g}")


def _as_teachers(teachers: Sequence[Network]) -> tuple[Network, ...]:
    """Check the teachers of all tasks, which have equally many outputs."""
    is_list = isinstance(teachers, Sequence) and not isinstance(teachers, Network)
    if not is_list or not teachers:
        raise InputError(
            f"teachers is {checks.shown(teachers)}; "
            "it must be a list of Networks, one for each task."
        )
    must = "a Network, such as Network(3, 'erf')"
    for teacher in teachers:
        checks.as_kind("a teacher", teacher, Network, must).require_fixed()
    outputs = [teacher.outputs for teacher in teachers]
    if len(set(outputs)) > 1:
        raise InputError(
            f"the teachers have {', '.join(str(count) for count in outputs)} outputs; "
            "give all of them equally many."
        )
    return tuple(teachers)


def _as_task_schedule(schedule: Any, count: int) -> Any:
    """Check the schedule of `count` tasks; by default they are equally probable."""
    if schedule is None:
        return Interleave(np.full(count, 1 / count))
    if isinstance(schedule, TaskSchedule):
        needs = schedule.needs
        names_each = isinstance(schedule, Interleave)
        if needs > count or (names_each and needs < count):
            raise InputError(
                f"{schedule!r} is for {needs} tasks; there are {count} tasks. "
                "Change one of them."
            )
    elif not callable(schedule) or isinstance(schedule, type):
        raise InputError(
            f"schedule is {checks.shown(schedule)}; "
            "give one such as Switch(60.0), or a function of time."
        )
    return schedule


def _as_freeze_times(times: Numbers | None, heads: str, count: int) -> Any:
    """Check the times from which the heads no longer learn."""
    frozen = checks.as_array(
        "freeze_heads",
        times,
        shapes=[(), (count,)] if heads == "separate" else [()],
        fix="One time for all heads, or one for each task.",
        optional=True,
    )
    if frozen is None or checks.is_traced(frozen):
        return frozen
    if not np.all(frozen >= 0):
        raise InputError(
            f"freeze_heads is {checks.shown(frozen)}; every time must be zero or more."
        )
    return frozen


def _joined(parts: list[Any]) -> Any:
    """Concatenate arrays along the last axis."""
    xp: Any = jnp if checks.is_traced(parts) else np
    return xp.concatenate(parts, axis=-1)
