"""What `optimize` returns: the schedule, what it gains, and what else was tried."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.problem import Interpolated, Problem
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Candidate:
    """One choice of rates (numbers or schedules, by name), its error at times alpha, and its value."""

    rates: dict[str, Any]
    times: np.ndarray
    error: np.ndarray
    value: float

    @property
    def rate(self) -> Any:
        """The learning rate (the readout's, where only that was sought)."""
        return next(iter(self.rates.values()))

    @property
    def final_error(self) -> float:
        """e_g at the last time."""
        return float(self.error[-1])


@dataclass(frozen=True)
class OptimalSchedule:
    """What `optimize` found. problem: the problem with the designed schedules, as `solve` and `simulate` take it.

    schedules: by name ("lr", "readout_lr"). value: the objective, e_g at the end or its integral. trajectory: the theory
    under the schedules. best_constant, greedy: what else was tried (greedy: None where it has no meaning). history: the
    objective after each iteration. slope: largest |d ln value / d ln rate| that is left, 0 at an optimum; None for "greedy".
    notes: sentences to read beside the numbers.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5), noise=0.1)
    >>> design = tu.schedules.optimize(problem, tu.Start([[0.0]], [[0.0]]), t_max=20.0, pieces=3, iterations=10)
    >>> design.schedule.values.shape, design.value <= design.best_constant.value
    ((4,), True)
    """

    problem: Problem
    objective: str
    method: str
    schedules: dict[str, Interpolated]
    value: float
    trajectory: Trajectory
    best_constant: Candidate
    greedy: Candidate | None
    history: np.ndarray
    slope: float | None
    notes: tuple[str, ...]

    @property
    def schedule(self) -> Interpolated:
        """The learning rate (the readout's, where only that was sought), for `SGD(lr=...)`."""
        return next(iter(self.schedules.values()))

    @property
    def final_error(self) -> float:
        """e_g at the end under the schedules."""
        return float(self.trajectory.error[-1])

    @property
    def gain(self) -> float:
        """How many times smaller the objective is than with the best constant rate."""
        return self.best_constant.value / self.value

    def plot(self, *, title: str | None = None) -> "Figure":
        """Rates above, errors of all candidates below, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.schedule import plot_schedule

        return plot_schedule(self, title=title)

    def __str__(self) -> str:
        end, what = self.trajectory.times[-1], "final" if self.objective == "final" else "integrated"
        names = " and ".join(self.schedules)
        rows = [(self.method, self.value, self.schedules), ("constant", self.best_constant.value, self.best_constant.rates)]
        if self.greedy is not None and self.method != "greedy":
            rows.append(("greedy", self.greedy.value, self.greedy.rates))
        lines = [f"schedule of {names} for the smallest {what} error at alpha = {end:g}"]
        lines += [f"  {name:<9} {value:<11.4g} {_words(rates)}" for name, value, rates in rows]
        lines.append(f"gain over the best constant rate: {self.gain:.3g}")
        if self.slope is not None:
            lines.append(f"largest slope d ln value / d ln rate left: {self.slope:.1e}")
        return "\n".join([*lines, *self.notes])


def _words(rates: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_rate_in_words(rate)}" for name, rate in rates.items())


def _rate_in_words(rate: Any) -> str:
    if not callable(rate):
        return f"{rate:.4g}"
    values, top = np.asarray(rate.values), int(np.argmax(rate.values))
    return f"from {values[0]:.3g} to {values[-1]:.3g}, at most {values[top]:.3g} at alpha = {rate.times[top]:.3g}"
