"""The result of `optimize`: the best protocol and its baselines."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._solve import simulate
from tutelage._types import Table
from tutelage.analysis.protocols.controls import Limits
from tutelage.analysis.protocols.objectives import Objective
from tutelage.analysis.result import AnalysisResult
from tutelage.problem import Interleave, Problem, Start
from tutelage.result.trajectory import Trajectory


@dataclass(frozen=True)
class Baseline:
    """Another protocol for comparison.

    controls: numbers and schedules by name. value: its objective.
    """

    controls: Table
    trajectory: Trajectory
    value: float


@dataclass(frozen=True, repr=False)
class OptimalProtocol(AnalysisResult, figure="plot_protocol"):
    """The best protocol that `optimize` reached, and those that it was compared with.

    Attributes
    ----------
    problem
        With the protocol in it, as `solve`, `simulate` and files take it.
    schedules
        The schedule of each control by name; of "tasks" for `Tasks(schedule=...)`.
    value
        The objective under the protocol; infinite for a level that is not reached.
    trajectory
        The theory under the protocol.
    baselines
        Other protocols by name; the first is "best constant".
    starts
        The objective that each descent reached, best first.
    first
        The objectives after the first, short descents, of which the best ones went on.
    slope
        The largest d ln(objective) / d control that bounds, budgets and tasks of equal
        error leave free, the control in units of its range; 0 at an optimum.
    sensitivity
        The growth of the objective, as a share of itself, if one segment of a control
        moves by 5% of its range.
    totals
        The integral of each control over time.
    notes
        Remarks on bounds that are met, or an interruption.
    """

    problem: Problem
    start: Start
    objective: Objective
    bounds: dict[str, Limits]
    schedules: Table
    value: float
    trajectory: Trajectory
    baselines: dict[str, Baseline]
    starts: np.ndarray
    first: np.ndarray
    slope: float
    sensitivity: dict[str, np.ndarray]
    totals: dict[str, float]
    notes: tuple[str, ...]

    @property
    def schedule(self) -> Any:
        """The schedule of the first control."""
        return next(iter(self.schedules.values()))

    @property
    def best_constant(self) -> Baseline:
        """The best protocol that does not change in time."""
        return self.baselines["best constant"]

    @property
    def gain(self) -> float:
        """The objective under the best constant protocol, divided by `value`."""
        return self.gains["best constant"]

    @property
    def gains(self) -> dict[str, float]:
        """The objective under each baseline, divided by `value`.

        It is NaN where neither reaches the level.
        """
        gains = {}
        with np.errstate(invalid="ignore"):
            for name, baseline in self.baselines.items():
                gains[name] = float(np.divide(baseline.value, self.value))
        return gains

    @property
    def spread(self) -> float:
        """The worst of `starts` in units of the best, less one.

        It is 0 if all descents ended at one value.
        """
        with np.errstate(invalid="ignore"):
            return float(np.ptp(self.starts) / np.abs(np.min(self.starts)))

    def simulate(
        self, dim: int, runs: int = 20, *, seed: int = 0, **options: Any
    ) -> Trajectory:
        """Simulate networks of finite size under the protocol.

        They are recorded at the times of the trajectory. Options: those of
        `tu.simulate`.
        """
        return simulate(
            self.problem,
            self.start,
            dim=dim,
            times=self.trajectory.times,
            runs=runs,
            seed=seed,
            **options,
        )

    def __str__(self) -> str:
        end = float(self.trajectory.times[-1])
        names = " and ".join(self.schedules)
        lines = [
            f"protocol of {names} for the smallest {self._objective_in_words()} "
            f"up to alpha = {end:g}: {self._shown(self.value)}"
        ]
        lines += [self._baseline_line(name) for name in self.baselines]
        for name, total in self.totals.items():
            schedule = _in_words(self.schedules[name])
            lines.append(f"  {name}: {schedule}; mean {total / end:.4g}")
        lines.append(self._descents_line())
        if self.first.size > 1:
            least = self._shown(self.first.min())
            most = self._shown(self.first.max())
            lines.append(
                f"chosen from {self.first.size} short descents, "
                f"which reached {least} to {most}"
            )
        return "\n".join([*lines, *self.notes])

    def _objective_in_words(self) -> str:
        if callable(self.objective):
            return "objective"
        if self.objective == "time":
            return "time to the level"
        return f"{self.objective} error"

    def _baseline_line(self, name: str) -> str:
        """Return a baseline, its value and its controls in one line."""
        baseline = self.baselines[name]
        gain = self.gains[name]
        settings = []
        for control, value in baseline.controls.items():
            settings.append(f"{control} {_in_words(value)}")
        value = self._shown(baseline.value)
        if np.isfinite(gain):
            value += f", {gain:.4g} times as much"
        return f"  {name}: {value} ({', '.join(settings)})"

    def _descents_line(self) -> str:
        """Return the values at which descents ended, and the slope at the best."""
        ends = ", ".join(self._shown(value) for value in self.starts)
        spread = ""
        if self.starts.size > 1 and np.isfinite(self.spread):
            spread = f" (spread {100 * self.spread:.2g}%)"
        return f"descents ended at {ends}{spread}; largest free slope {self.slope:.1e}"

    def _shown(self, value: float) -> str:
        """Return a value of the objective as text; words for a level not reached."""
        if self.objective == "time" and np.isinf(value):
            return f"not reached within {float(self.trajectory.times[-1]):g}"
        return f"{value:.4g}"


def _in_words(value: Any) -> str:
    """Return a number or schedule of a control as text."""
    if isinstance(value, Interleave):
        value = value.shares
    if isinstance(value, tuple | list):
        return " / ".join([_in_words(part) for part in value])
    if hasattr(value, "values"):
        numbers = np.asarray(value.values)
        return (
            f"from {numbers[0]:.3g} to {numbers[-1]:.3g}, "
            f"within [{numbers.min():.3g}, {numbers.max():.3g}]"
        )
    if hasattr(value, "probabilities") or callable(value):
        return checks.shown(value)
    return f"{float(value):.4g}"
