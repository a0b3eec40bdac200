"""Several tasks over time: teachers that share one student, a schedule that says which of them is shown, heads, drift.

Switch times, fractions and similarities are numbers: they are batched, differentiated and changed without compiling again.
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
from tutelage.problem.schedules import list_field, rate_at, schedules_of, switch_times

LOOKS = 1025  # times at which a custom schedule of tasks is checked


def _phase(times: ArrayLike, t: ArrayLike) -> Array:
    """How many switches have passed."""
    return jnp.searchsorted(jnp.asarray(times), jnp.asarray(t), side="right")


class TaskSchedule(Part):
    """Which task a sample belongs to: the probability of each task at any time."""

    @abstractmethod
    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        """The probability of each task at time t."""

    @property
    def begins(self) -> ArrayLike:
        """Times at which the next task begins."""
        return getattr(self, "times", getattr(self, "after", np.zeros(0)))

    @property
    def needs(self) -> int:
        """The number of tasks that it is for: at least so many, of `Interleave` exactly."""
        return np.size(self.begins) + 1

    def schedules(self) -> dict[str, Any]:
        """Its numbers that are functions of time, by name."""
        return schedules_of(self)


class Switch(TaskSchedule):
    """One task at a time; the next one begins at each of the times.

    times: one switch time or several, increasing. order: the task of each phase, counted from 0 (default: 0, 1, 2, ...).
    `Switch([60.0, 120.0], order=[0, 1, 0])` returns to the first task.

    >>> import tutelage as tu
    >>> tu.Switch(60.0).probabilities(59.0, 2).tolist(), tu.Switch(60.0).probabilities(60.0, 2).tolist()
    ([1.0, 0.0], [0.0, 1.0])
    """

    times: ArrayLike = list_field("times (the switches)", checks.require_increasing)
    order: tuple[int, ...] | None = eqx.field(static=True, default=None, converter=lambda x: None if x is None else tuple(x))

    def __check_init__(self) -> None:
        for task in self.order or ():
            checks.as_count("a task in order", task, least=0)
        phases, switches = len(self._order), np.size(self.times)
        if phases != switches + 1:
            raise InputError(f"order names {phases} phases and there are {switches} switches; give one phase more.")

    @property
    def _order(self) -> tuple[int, ...]:
        return tuple(range(np.size(self.times) + 1)) if self.order is None else self.order

    @property
    def needs(self) -> int:
        return max(self._order) + 1

    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        return jnp.asarray(np.eye(count)[np.array(self._order)])[_phase(self.times, t)]


class Interleave(TaskSchedule):
    """A random task at every sample.

    shares: the probability of each task, numbers or schedules; of two tasks also one number or schedule, that of the first.

    >>> import tutelage as tu
    >>> tu.Interleave(tu.schedules.Linear([0.0, 100.0], [1.0, 0.0])).probabilities(25.0, 2).tolist()
    [0.75, 0.25]
    """

    shares: Any = eqx.field(converter=lambda shares: _shares(shares))

    def __check_init__(self) -> None:
        if not self.schedules():
            checks.require_probabilities("shares (the probabilities of the tasks)", self.shares)

    def schedules(self) -> dict[str, Any]:
        shares = self.shares if isinstance(self.shares, tuple) else [self.shares]
        return {f"share {task}": share for task, share in enumerate(shares) if callable(share)}

    @property
    def needs(self) -> int:
        return 2 if callable(self.shares) else len(self.shares)

    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        if isinstance(self.shares, tuple):
            return jnp.stack([rate_at(share, t) for share in self.shares])
        first = rate_at(self.shares, t)
        return first if jnp.ndim(first) else jnp.stack([first, 1 - first])


def _shares(shares: Any) -> Any:
    """Numbers as an array, one for each task; a schedule, or a list with schedules (as a tuple), as it is."""
    if callable(shares):
        return shares
    if isinstance(shares, list | tuple) and any(callable(share) for share in shares):
        return tuple(share if callable(share) else checks.as_array("a share", share) for share in shares)
    fix = "A list of probabilities, one for each task."
    array = checks.as_array("shares (the probabilities of the tasks)", shares, shapes=[(), ("tasks",)], fix=fix)
    return array if array.ndim else array * np.array([1.0, -1.0]) + np.array([0.0, 1.0])  # p and 1 - p


class Replay(TaskSchedule):
    """One task after the other; from the first switch on, a fraction of the samples belongs to earlier tasks.

    fraction: the probability of an earlier task, a number or a schedule, equal for all earlier ones. after: the switch time,
    or several; at each of them the next task begins. fraction=0 is `Switch(after)`.

    >>> import tutelage as tu
    >>> tu.Replay(0.2, after=60.0).probabilities(70.0, 2).tolist()
    [0.2, 0.8]
    """

    fraction: Any = checks.number_field("fraction", checks.require_probability, schedule=True)
    after: ArrayLike = list_field("after (the switches)", checks.require_increasing)

    def probabilities(self, t: ArrayLike, count: int) -> Float[Array, " tasks"]:
        phase = _phase(self.after, t)
        earlier = jnp.where(np.arange(count) < phase, 1 / jnp.maximum(phase, 1), 0.0)
        fraction = jnp.where(phase > 0, rate_at(self.fraction, t), 0.0)
        return (1 - fraction) * jnp.eye(count)[phase] + fraction * earlier


class Drift(Part):
    """Teacher vectors that move at random while the student learns, with the rate omega:

        w* <- (1 - omega / N) w* + sqrt(2 omega / N) zeta     at every step, zeta Gaussian with the overlaps of the teachers
    Their own overlaps T stay; those with the student decay, dr_l = ... - omega r_l.
    """

    rate: ArrayLike = checks.number_field("rate (of the drift)", checks.require_nonnegative)


NAMED = by_name(Switch, Interleave, Replay)


class Tasks(Part):
    """Several tasks in place of a teacher: each sample is labeled by one of the teachers.

        Delta = y_s - sum_k v^s_k g(lambda_k),   s drawn with the probabilities of the schedule at every sample

    All tasks train the first layer of the student; to freeze it at a switch use SGD(lr=Piecewise([60.0], [0.5, 0.0]),
    readout_lr=0.5). `error` and `loss` of a trajectory have shape (time, task). R has one column for each teacher unit, all
    tasks in order. With separate heads `readout` has shape (time, task, K). `Start` takes the same shapes.

    Parameters
    ----------
    teachers : list of Network
        One for each task, of any width and activation.
    schedule : Switch, Interleave, Replay or function, optional
        `Switch(60.0)`, `Interleave([0.5, 0.5])`, `Replay(0.2, after=60.0)`, or a JAX function of time that returns one
        probability for each task. Default: equal probabilities.
    similarity : float or array
        Overlap of unit m of one teacher with unit m of another: one number for all pairs, or a matrix (tasks, tasks).
    gram : array, optional
        Instead of similarity the overlaps of all teacher units, (M, M) or per level (L, M, M).
    heads : str
        "separate": each task has a readout v^s, which learns from its samples only. "shared": one readout for all tasks.
    drift : Drift, optional
        `Drift(rate)` if the teachers move.
    freeze_heads : float or array, optional
        Times from which the heads no longer learn, one for all tasks or one for each (inf: never).

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(120, 13))
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
        if isinstance(teachers, Network) or not isinstance(teachers, Sequence) or not teachers:
            raise InputError(f"teachers is {checks.shown(teachers)}; it must be a list of Networks, one for each task.")
        for teacher in teachers:
            checks.as_kind("a teacher", teacher, Network, "a Network, such as Network(3, 'erf')").require_fixed()
        outputs = [teacher.outputs for teacher in teachers]
        if len(set(outputs)) > 1:
            raise InputError(f"the teachers have {', '.join(map(str, outputs))} outputs; give all of them equally many.")
        self.teachers, self.outputs = tuple(teachers), outputs[0]
        self.count = count = len(teachers)
        self.hidden = sum(teacher.hidden for teacher in teachers)
        self.schedule = Interleave(np.full(count, 1 / count)) if schedule is None else schedule
        if isinstance(self.schedule, TaskSchedule):
            needs = self.schedule.needs
            if needs > count or (isinstance(self.schedule, Interleave) and needs < count):
                raise InputError(f"{self.schedule!r} is for {needs} tasks; there are {count} tasks. Change one of them.")
        elif not callable(self.schedule) or isinstance(self.schedule, type):
            raise InputError(f"schedule is {checks.shown(schedule)}; give one such as Switch(60.0), or a function of time.")
        self.heads = checks.known("heads", heads, ("separate", "shared"))
        self.drift = checks.as_kind("drift", drift, Drift | None, "a Drift, such as Drift(0.01)")
        shapes, fix = [(), (count,)] if self.heads == "separate" else [()], "One time for all heads, or one for each task."
        frozen = checks.as_array("freeze_heads", freeze_heads, shapes=shapes, fix=fix, optional=True)
        if frozen is not None and not checks.is_traced(frozen) and not np.all(frozen >= 0):
            raise InputError(f"freeze_heads is {checks.shown(frozen)}; every time must be zero or more.")
        self.freeze_heads = frozen
        if similarity is not None and gram is not None:
            raise InputError("similarity and gram are both given; they say the same. Give one of them.")
        shapes, fix = [(), (count, count)], "One number, or one for each pair."
        self.similarity = checks.as_array("similarity", similarity, shapes=shapes, fix=fix, optional=True)
        self.given_gram = as_gram(gram, self.hidden)
        if any(np.ndim(t.gram) == 3 for t in self.teachers if t.gram is not None):
            raise InputError("a teacher has a gram for each level; give the overlaps of all tasks: Tasks(gram=...).")
        if gram is None and self.gram is not None:
            checks.require_gram("the Gram matrix of the teachers", self.gram)

    def arguments(self) -> Table:
        return super().arguments() | {"gram": self.given_gram}

    @property
    def readout(self) -> Float[NumpyOrJax, "*outputs M"]:
        """The readouts of all teachers, side by side."""
        return _joined([teacher.readout for teacher in self.teachers])

    @property
    def bias(self) -> Float[NumpyOrJax, " M"] | None:
        """Biases of all teacher units; None if there are none."""
        if all(teacher.bias is None for teacher in self.teachers):
            return None
        return _joined([np.zeros(t.hidden) if t.bias is None else t.bias for t in self.teachers])

    @property
    def gram(self) -> Float[NumpyOrJax, "*L M M"] | None:
        """Overlaps of all teacher units; None if nothing is said about them."""
        if self.given_gram is not None:
            return self.given_gram
        own = [teacher.gram for teacher in self.teachers]
        if self.similarity is None and all(gram is None for gram in own):
            return None
        return self._blocks(own, 0.0 if self.similarity is None else self.similarity)

    @property
    def unseen(self) -> Float[NumpyOrJax, "M M"] | None:
        """What the inputs do not carry of the fields of all teachers; None if they carry all. A sample has one task only."""
        own = [teacher.unseen for teacher in self.teachers]
        if all(each is None for each in own):
            return None
        return self._blocks([np.zeros((t.hidden, t.hidden)) if t.unseen is None else t.unseen for t in self.teachers], 0.0)

    def _blocks(self, own: Sequence[Any], between: Any) -> Float[NumpyOrJax, "M M"]:
        """A matrix (M, M) of blocks: those of single teachers (None: the identity), and between two of them a multiple of it."""
        xp: Any = jnp if checks.is_traced(between, own) else np
        V = xp.broadcast_to(xp.asarray(between), (self.count, self.count))
        units = [teacher.hidden for teacher in self.teachers]
        rows = [[V[i, j] * np.eye(n, m) for j, m in enumerate(units)] for i, n in enumerate(units)]
        for i, n in enumerate(units):
            rows[i][i] = np.eye(n) if own[i] is None else own[i]
        return xp.block(rows)

    def units(self, task: int) -> slice:
        """The places of a task's units among those of all tasks."""
        first = sum(teacher.hidden for teacher in self.teachers[:task])
        return slice(first, first + self.teachers[task].hidden)

    @property
    def task_of_units(self) -> Int[np.ndarray, " M"]:
        """The task of each teacher unit, counted from 0."""
        return np.repeat(np.arange(self.count), [teacher.hidden for teacher in self.teachers])

    def probabilities(self, t: ArrayLike) -> Float[Array, " tasks"]:
        """The probability of each task at time t."""
        if isinstance(self.schedule, TaskSchedule):
            return self.schedule.probabilities(t, self.count)
        return jnp.asarray(self.schedule(jnp.asarray(t)), float)

    def switches(self, end: ArrayLike) -> Float[Array, " S"] | None:
        """Times up to `end` across which the solver must not step."""
        frozen = np.zeros(0) if self.freeze_heads is None else self.freeze_heads
        if isinstance(self.schedule, TaskSchedule):
            return switch_times(end, *self.schedule.schedules().values(), known=[self.schedule.begins, frozen])
        one = lambda task: cast(Schedule, lambda t: self.probabilities(t)[task])  # noqa: E731
        return switch_times(end, *(one(task) for task in range(max(1, self.count - 1))), known=[frozen])

    def head_rates(self, t: ArrayLike) -> Float[Array, "..."]:
        """1 for a head that learns at time t, 0 for a frozen one; a factor of the readout's force (task, outputs, K)."""
        learns = jnp.where(jnp.asarray(t) < jnp.asarray(self.freeze_heads), 1.0, 0.0)
        axes = 1 if self.outputs == 1 else 2
        return learns.reshape(*learns.shape, *[1] * axes) if learns.ndim else learns

    def head(self, readout: NumpyOrJax, task: int) -> Any:
        """The readout that serves a task."""
        return readout[task] if self.heads == "separate" else readout

    def require_probabilities_on(self, times: Float[np.ndarray, " S"]) -> None:
        """A function of time must return probabilities, also between the given times."""
        numbers = isinstance(self.schedule, TaskSchedule) and not self.schedule.schedules()
        if numbers or checks.is_traced(self.schedule):
            return
        times = np.union1d(times, np.linspace(0.0, times[-1], LOOKS))
        with explained("the schedule of tasks cannot be traced by JAX", "write it with jax.numpy, as a function of time."):
            values = jax.vmap(self.probabilities)(jnp.asarray(times))
        if values.shape != (len(times), self.count):
            raise InputError(f"the schedule of tasks returns shape {values.shape[1:]}; give {self.count} probabilities.")
        if not checks.is_traced(values):
            for t, row in zip(times, np.asarray(values), strict=True):
                checks.require_probabilities("the probabilities of the tasks", row, f" at time {t:g}")


def _joined(parts: list[Any]) -> Any:
    xp: Any = jnp if checks.is_traced(parts) else np
    return xp.concatenate(parts, axis=-1)
