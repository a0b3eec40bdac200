"""The base class of results of analyses, and the single curves that analyses read.

A trajectory of a simulation has one curve for each run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tutelage import checks, plot
from tutelage._html import ResultCard
from tutelage._types import NumpyOrJax
from tutelage.errors import InputError, Status, require_fields
from tutelage.problem import Problem
from tutelage.result.citations import References, behind_analysis
from tutelage.result.trajectory import Trajectory
from tutelage.stream.moments.averages import array_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRINTED_RUNS = 12  # runs whose line is printed
STRIDES = 50  # of a curve; within one, what changes is noise
RELATIVE_ROUNDING = 1e-13  # of the largest error of a curve
# Standard deviation of a normal number, divided by the median of its size.
DEVIATIONS_PER_MEDIAN = 1.4826

Item = TypeVar("Item")
Result = TypeVar("Result")


class AnalysisResult(ResultCard):
    """A result that can draw itself.

    figure: the function of tutelage.plot that draws this class. sources: keys of the
    works that the analysis follows (result/bibliography.toml).
    """

    figure = ""
    sources: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, figure: str = "", sources: tuple[str, ...] = ()):
        super().__init_subclass__()
        cls.figure = figure or cls.figure
        cls.sources = sources or cls.sources

    def cite(self) -> References:
        """Return the papers behind this result; print them, or use `.bibtex`."""
        return behind_analysis(self.sources)

    def plot(self, *, ax: "Axes | None" = None, title: str | None = None) -> "Figure":
        """Draw the result as a Matplotlib figure (see `plot.save_figure`).

        ax: draw into these axes, and return them; only for results that have one panel.
        title: "" leaves the head out.
        """
        draw = getattr(plot, self.figure)  # Matplotlib is imported only now
        if ax is None:
            return draw(self, title=title)
        if "ax" not in signature(draw).parameters:
            raise InputError(
                f"ax is given; the figure of {type(self).__name__} has several panels. "
                "Leave ax out."
            )
        return draw(self, ax=ax, title=title)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).splitlines()[0]}>"


class ResultSequence(AnalysisResult, Sequence[Item]):
    """A result that is the sequence in its first field."""

    def __len__(self) -> int:
        return len(self[:])

    def __getitem__(self, index: Any) -> Any:
        first, *_ = fields(self)  # pyright: ignore[reportArgumentType]
        return getattr(self, first.name)[index]


@dataclass(frozen=True)
class Curve:
    """One member of a trajectory.

    times and error: (time,). variables: (time, ...), by name. diverged: everything
    grew.
    """

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
        """True if the curve carries the fluctuations of a finite network."""
        return self.kind == "simulation"

    @property
    def log_error(self) -> np.ndarray:
        """ln e_g, flat where rounding takes over.

        Of a run it is the running median, in which falls stay as steep.
        """
        y = np.log(np.maximum(self.error, self.rounding))
        if not self.noisy:
            return y
        from scipy.ndimage import median_filter

        half_width = max(1, y.size // STRIDES)
        return median_filter(y, size=2 * half_width + 1, mode="nearest")

    @property
    def fluctuation(self) -> float:
        """Relative deviation of the error from time to time; zero for theory."""
        if not self.noisy:
            return 0.0
        y = np.log(np.maximum(self.error, self.rounding))
        return roughness(self.times, y)

    @property
    def rounding(self) -> float:
        """The error below which digits are lost."""
        largest = np.max(np.abs(self.error))
        return float(max(RELATIVE_ROUNDING * largest, np.finfo(float).tiny))

    @property
    def rows(self) -> np.ndarray | None:
        """R of the student, (time, unit, component).

        For custom equations every number is a row.
        """
        if self.kind != "equations":
            return self.variables.get("R")
        count = len(self.times)
        numbers = [values.reshape(count, -1, 1) for values in self.variables.values()]
        return np.concatenate(numbers, axis=1)


@dataclass(frozen=True)
class RunResults(ResultSequence[Any], figure="plot_per_run"):
    """The results of all runs, in their order: a sequence.

    `marks` has the times that the results mark.
    """

    answers: tuple[Any, ...]

    @property
    def marks(self) -> dict[str, np.ndarray]:
        """The times that each result marks, by name, (run,); NaN for runs without."""
        names = dict.fromkeys(name for answer in self for name in answer.marks)
        times = {}
        for name in names:
            of_runs = [answer.marks.get(name, np.nan) for answer in self]
            times[name] = np.array(of_runs)
        return times

    def __str__(self) -> str:
        count = len(self)
        lines = [f"{count} runs"]
        for name, times in self.marks.items():
            finite = times[np.isfinite(times)]
            line = f"{name}: {finite.size} of {count} runs, at {finite.mean():.4g}"
            if finite.size > 1:
                line += f" ± {finite.std(ddof=1):.3g} (mean ± sd), "
                line += f"from {finite.min():.4g} to {finite.max():.4g}"
            lines.append(line)
        for index, answer in enumerate(self.answers[:PRINTED_RUNS]):
            first_line = str(answer).splitlines()[0]
            lines.append(f"run {index}: {first_line}")
        if count > PRINTED_RUNS:
            lines.append(f"... and {count - PRINTED_RUNS} more")
        return "\n".join(lines)


def read_curves(
    trajectory: Trajectory,
    run: int | None,
    function: str,
    read: Callable[[Curve], Result],
    least_times: int = 2,
) -> Result | RunResults:
    """Return the result for the one curve, for the chosen run, or for every run.

    Those of every run are `RunResults`. read: computes the result of a curve. function:
    the name of the analysis, for messages.
    """
    require_fields(
        function,
        trajectory,
        ("times", "variables", "error", "status_code"),
        "what solve or simulate returned",
    )
    checks.require_untraced(
        "the trajectory", function, trajectory.times, trajectory.error
    )
    tasks = getattr(trajectory, "tasks", None)
    if tasks is not None:
        raise InputError(
            f"{function} reads one task; this trajectory has {tasks} tasks. "
            "Give trajectory.task(0)."
        )
    if run is not None or np.ndim(trajectory.error) <= 1:
        return read(curve_of(trajectory, run, function, least_times))
    count = int(np.prod(np.shape(trajectory.error)[:-1]))
    curves = (curve_of(trajectory, i, function, least_times) for i in range(count))
    return RunResults(tuple(read(curve) for curve in curves))


def curve_of(
    trajectory: Trajectory, run: int | None, function: str, least_times: int = 2
) -> Curve:
    """Return the single curve of a trajectory, or that of a run, up to a divergence."""
    *lead, _ = np.shape(trajectory.error)
    count = int(np.prod(lead))
    if run is None and lead:
        raise InputError(
            f"the trajectory has {count} runs; {function} looks at one. Choose run=0."
        )
    if run is not None and not lead:
        raise InputError(
            f"run is {checks.shown(run)}; this trajectory is a single curve. "
            "Leave run out."
        )
    index = checks.as_count("run", 0 if run is None else run, least=0, most=count - 1)

    def of_run(value: ArrayLike, ndim: int) -> np.ndarray:
        """Return the entry of the run, or the value itself if all runs share it.

        ndim: the number of axes of an entry.
        """
        array = np.asarray(value, dtype=float)
        if array.ndim <= ndim:
            return array
        return array.reshape(-1, *array.shape[len(lead) :])[index]

    error = of_run(trajectory.error, 1)
    # up to the first value that is not finite
    kept = int(np.argmin(np.append(np.isfinite(error), False)))
    if kept < least_times:
        curve = f"run {index}" if lead else "the curve"
        raise InputError(
            f"{curve} has {kept} recorded times; {function} needs at least "
            f"{least_times}. Record more times, or choose another run."
        )
    problem = trajectory.problem
    label_noise = 0.0
    if problem is not None and not callable(problem.noise):
        label_noise = float(of_run(problem.noise, 0))
    status_codes = np.broadcast_to(trajectory.status_code, lead)
    return Curve(
        times=of_run(trajectory.times, 1)[:kept],
        error=error[:kept],
        variables={
            name: of_run(values, np.ndim(values) - len(lead))[:kept]
            for name, values in trajectory.variables.items()
        },
        T=None if trajectory.T is None else of_run(trajectory.T, 2),
        problem=problem,
        label_noise=label_noise,
        kind=trajectory.kind,
        diverged=int(status_codes.flat[index]) == Status.DIVERGED,
    )


def off_the_line(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, stride: int = 1
) -> np.ndarray:
    """Return how far points lie off the line between their neighbors.

    The neighbors are a stride away. The unit is the deviation that independent noise
    gives to the distance; weights: one over the variance of the noise of each point.
    """
    variance = np.ones_like(x) if weights is None else 1 / weights
    before = slice(None, -2 * stride)
    here = slice(stride, -stride)
    after = slice(2 * stride, None)
    share = (x[here] - x[before]) / (x[after] - x[before])
    off = y[here] - (1 - share) * y[before] - share * y[after]
    noise = (
        variance[here]
        + (1 - share) ** 2 * variance[before]
        + share**2 * variance[after]
    )
    return off / np.sqrt(noise)


def roughness(x: np.ndarray, y: np.ndarray) -> float:
    """Return the standard deviation of the noise in a curve.

    It comes from the median: a few sharp turns do not count.
    """
    off = off_the_line(x, y, stride=max(1, x.size // STRIDES))
    if off.size == 0:
        return 0.0
    return float(DEVIATIONS_PER_MEDIAN * np.median(np.abs(off)))


def final_crossing(times: np.ndarray, y: np.ndarray, level: float) -> float:
    """Return the time at which y falls below a level for good.

    It is interpolated between recorded times. -inf: before the first; inf: not yet.
    """
    above = np.flatnonzero(y > level)
    if above.size == 0:
        return -np.inf
    i = int(above[-1])
    if i == times.size - 1:
        return np.inf
    step = times[i + 1] - times[i]
    return float(times[i] + step * (y[i] - level) / (y[i] - y[i + 1]))


def first_time_at(
    level: NumpyOrJax | float, times: np.ndarray, error: NumpyOrJax
) -> Any:
    """Return the time at which ln error first falls to the level.

    It is linear between recorded times. Later than all times if that never happens.
    """
    xp = array_module(error)
    above = xp.log(xp.maximum(error, np.finfo(float).tiny) / level)
    t = xp.asarray(times)
    first = xp.clip(xp.argmax(above <= 0), 1, None)
    around = first - np.arange(2)  # the first time below, and the one before
    crossing = xp.interp(0.0, above[around], t[around])
    reached = xp.where(above[0] <= 0, t[0], crossing)
    never = t[-1] * (1 + above[-1])
    return xp.where(xp.any(above <= 0), reached, never)
