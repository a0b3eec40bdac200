"""What the results of all analyses share, and the single curves that analyses of a trajectory read: one per run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tutelage import checks, plot
from tutelage._html import ResultCard
from tutelage._types import NumpyOrJax
from tutelage.errors import InputError, Status, require_fields
from tutelage.moments.averages import array_module
from tutelage.problem import Problem
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRINTED_RUNS = 12  # runs whose line is printed
STRIDES = 50  # of a curve; within one, what changes is noise

Item = TypeVar("Item")
Found = TypeVar("Found")


class AnalysisResult(ResultCard):
    """A result that can draw itself. figure: the function of tutelage.plot that draws this class."""

    figure = ""

    def __init_subclass__(cls, figure: str = ""):
        super().__init_subclass__()
        cls.figure = figure or cls.figure

    def plot(self, *, ax: "Axes | None" = None, title: str | None = None) -> "Figure":
        """The result as a Matplotlib figure (see `plot.save_figure`).

        ax: draw into these axes, and return them; only for results that have one panel. title: "" leaves the head out.
        """
        draw = getattr(plot, self.figure)  # Matplotlib is imported only now
        if ax is None:
            return draw(self, title=title)
        if "ax" not in signature(draw).parameters:
            raise InputError(f"ax is given; the figure of {type(self).__name__} has several panels. Leave ax out.")
        return draw(self, ax=ax, title=title)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).splitlines()[0]}>"


class ResultSequence(AnalysisResult, Sequence[Item]):
    """A result whose first field is what it is a sequence of."""

    def __len__(self) -> int:
        return len(self[:])

    def __getitem__(self, index: Any) -> Any:
        return getattr(self, fields(self)[0].name)[index]  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Curve:
    """One member of a trajectory: times and error (time,), variables (time, ...) by name; diverged: everything grew."""

    times: Float[np.ndarray, " time"]
    error: Float[np.ndarray, " time"]
    variables: dict[str, np.ndarray]
    T: Float[np.ndarray, "M M"] | None
    problem: Problem | None
    label_noise: float
    kind: str
    diverged: bool

    @property
    def noisy(self) -> bool:
        """Does the curve carry the fluctuations of a finite network?"""
        return self.kind == "simulation"

    @property
    def log_error(self) -> np.ndarray:
        """ln e_g, flat where rounding takes over; of a run the running median, in which falls stay as steep."""
        y = np.log(np.maximum(self.error, self.rounding))
        if not self.noisy:
            return y
        from scipy.ndimage import median_filter

        return median_filter(y, size=2 * max(1, y.size // STRIDES) + 1, mode="nearest")

    @property
    def fluctuation(self) -> float:
        """Relative standard deviation of the error from time to time; zero for theory."""
        return roughness(self.times, np.log(np.maximum(self.error, self.rounding))) if self.noisy else 0.0

    @property
    def rounding(self) -> float:
        """The error below which digits are lost."""
        return float(max(1e-13 * np.max(np.abs(self.error)), np.finfo(float).tiny))

    @property
    def rows(self) -> np.ndarray | None:
        """(time, unit, component): R of the student; for custom equations every number is a row."""
        if self.kind == "equations":
            return np.concatenate([v.reshape(len(self.times), -1, 1) for v in self.variables.values()], axis=1)
        return self.variables.get("R")


@dataclass(frozen=True)
class RunResults(ResultSequence[Any], figure="plot_per_run"):
    """The results of all runs, in their order: a sequence. `marks` has the times that were found."""

    answers: tuple[Any, ...]

    @property
    def marks(self) -> dict[str, np.ndarray]:
        """The times that each run's result marks, by name: (run,), NaN where a run has none."""
        names = dict.fromkeys(name for answer in self for name in answer.marks)
        return {name: np.array([answer.marks.get(name, np.nan) for answer in self]) for name in names}

    def __str__(self) -> str:
        lines = [f"{len(self)} runs"]
        for name, times in self.marks.items():
            found = times[np.isfinite(times)]
            at = f"{found.mean():.4g}"
            if found.size > 1:
                at += f" ± {found.std(ddof=1):.3g} (mean ± sd), from {found.min():.4g} to {found.max():.4g}"
            lines.append(f"{name}: {found.size} of {len(self)} runs, at {at}")
        lines += [f"run {i}: {str(answer).splitlines()[0]}" for i, answer in enumerate(self.answers[:PRINTED_RUNS])]
        return "\n".join(lines + [f"... and {len(self) - PRINTED_RUNS} more"] * (len(self) > PRINTED_RUNS))


def read_curves(
    trajectory: Trajectory, run: int | None, function: str, read: Callable[[Curve], Found], least_times: int = 2
) -> Found | RunResults:
    """The result for the one curve, for the chosen run, or for every run as `RunResults`, by `read`, a function of a curve."""
    require_fields(function, trajectory, ("times", "variables", "error", "status_code"), "what solve or simulate returned")
    checks.require_untraced("the trajectory", function, trajectory.times, trajectory.error)
    if (tasks := getattr(trajectory, "tasks", None)) is not None:
        raise InputError(f"{function} reads one task; this trajectory has {tasks} tasks. Give trajectory.task(0).")
    if run is None and np.ndim(trajectory.error) > 1:
        runs = range(int(np.prod(np.shape(trajectory.error)[:-1])))
        return RunResults(tuple(read(curve_of(trajectory, index, function, least_times)) for index in runs))
    return read(curve_of(trajectory, run, function, least_times))


def curve_of(trajectory: Trajectory, run: int | None, function: str, least_times: int = 2) -> Curve:
    """The curve of a trajectory that has one, or of one run, up to a divergence."""
    lead, count = np.ndim(trajectory.error) - 1, int(np.prod(np.shape(trajectory.error)[:-1]))
    if run is None and lead:
        raise InputError(f"the trajectory has {count} runs; {function} looks at one. Choose run=0.")
    if run is not None and not lead:
        raise InputError(f"run is {checks.shown(run)}; this trajectory is a single curve. Leave run out.")
    index = checks.as_count("run", 0 if run is None else run, least=0, most=count - 1)

    def pick(value: ArrayLike, own: int) -> np.ndarray:
        """Entry `index` of the leading axes, or the value itself if all share it (`own`: axes without a lead)."""
        array = np.asarray(value, dtype=float)
        return array.reshape(-1, *array.shape[lead:])[index] if array.ndim > own else array

    error = pick(trajectory.error, 1)
    kept = int(np.argmin(np.append(np.isfinite(error), False)))
    if kept < least_times:
        who, fix = f"run {index}" if lead else "the curve", "Record more times, or choose another run"
        raise InputError(f"{who} has {kept} recorded times; {function} needs at least {least_times}. {fix}.")
    problem, code = trajectory.problem, np.broadcast_to(trajectory.status_code, np.shape(trajectory.error)[:-1])
    variables = {name: pick(x, np.ndim(x) - lead)[:kept] for name, x in trajectory.variables.items()}
    T = None if trajectory.T is None else pick(trajectory.T, 2)
    noise = 0.0 if problem is None or callable(problem.noise) else float(pick(problem.noise, 0))
    diverged = int(code.flat[index]) == Status.DIVERGED
    return Curve(pick(trajectory.times, 1)[:kept], error[:kept], variables, T, problem, noise, trajectory.kind, diverged)


def off_the_line(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, stride: int = 1) -> np.ndarray:
    """How far points lie off the line between the points a stride away, over the deviation that independent noise gives."""
    variance = np.ones_like(x) if weights is None else 1 / weights
    before, here, after = slice(None, -2 * stride), slice(stride, -stride), slice(2 * stride, None)
    share = (x[here] - x[before]) / (x[after] - x[before])
    off = y[here] - (1 - share) * y[before] - share * y[after]
    return off / np.sqrt(variance[here] + (1 - share) ** 2 * variance[before] + share**2 * variance[after])


def roughness(x: np.ndarray, y: np.ndarray) -> float:
    """Standard deviation of the noise in a curve, by the median: a few sharp turns do not count."""
    off = off_the_line(x, y, stride=max(1, x.size // STRIDES))
    return float(1.4826 * np.median(np.abs(off))) if off.size else 0.0


def final_crossing(times: np.ndarray, y: np.ndarray, level: float) -> float:
    """When y falls below a level for good, between recorded times by interpolation. -inf: before the first; inf: not yet."""
    above = np.flatnonzero(y > level)
    if above.size == 0 or above[-1] == times.size - 1:
        return np.inf if above.size else -np.inf
    i = int(above[-1])
    return float(times[i] + (times[i + 1] - times[i]) * (y[i] - level) / (y[i] - y[i + 1]))


def first_time_at(level: NumpyOrJax | float, times: np.ndarray, error: NumpyOrJax) -> Any:
    """When ln error, linear between recorded times, first falls to the level; later than all times if never."""
    xp = array_module(error)
    above = xp.log(xp.maximum(error, np.finfo(float).tiny) / level)
    first = xp.clip(xp.argmax(above <= 0), 1, None)
    t, around = xp.asarray(times), first - np.arange(2)  # the first time below, and the one before
    found = xp.where(above[0] <= 0, t[0], xp.interp(0.0, above[around], t[around]))
    return xp.where(xp.any(above <= 0), found, t[-1] * (1 + above[-1]))
