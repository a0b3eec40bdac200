"""The phases of a learning curve by name.

docs/how-to/plateaus-and-phases.md has the definitions and their formulas.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.curve_events.plateau_search import (
    LEAST_TIMES,
    Plateaus,
    find_plateaus,
    is_symmetric_at,
    span_around,
)
from tutelage.analysis.curve_events.smallest_error import find_minimum
from tutelage.analysis.curve_events.unit_matching import (
    SPECIALIZED_INDEX,
    TRANSITION_INDEX,
    Specialization,
    find_specialization,
)
from tutelage.analysis.result import Curve, ResultSequence, RunResults, read_curves
from tutelage.errors import InputError
from tutelage.result.trajectory import Trajectory

STEADY_SLOPE = 0.1  # |d ln e_g / d ln alpha| up to which a final error is steady


@dataclass(frozen=True)
class Phase(ResultCard):
    """A named phase, and the times between which it lasts."""

    name: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} from {self.start:.4g} to {self.end:.4g}"


@dataclass(frozen=True, repr=False)
class Phases(ResultSequence[Phase], figure="plot_phases"):
    """Phases in the order of time, without gaps: a sequence.

    They are built on `plateaus` and `specialization`, which is None for a single unit
    or custom equations.
    """

    intervals: tuple[Phase, ...]
    plateaus: Plateaus
    specialization: Specialization | None
    curve: Curve

    def at(self, time: float) -> str:
        """Return the name of the phase at a time.

        At a boundary it is that of the phase that begins there.
        """
        first = self.intervals[0].start
        last = self.intervals[-1].end
        time = float(checks.as_array("time", time)) if np.ndim(time) == 0 else np.nan
        if not first <= time <= last:
            raise InputError(
                f"time is {time:g}; it must be one number between {first:g} and "
                f"{last:g}, the recorded times."
            )
        begun = [phase for phase in self.intervals if phase.start <= time]
        return begun[-1].name

    @property
    def marks(self) -> dict[str, float]:
        """The times at which the phases after the first one begin."""
        begins: dict[str, float] = {}
        for phase in self.intervals[1:]:
            begins.setdefault(f"{phase.name} begins", phase.start)
        return begins

    def __str__(self) -> str:
        return "; ".join(str(phase) for phase in self.intervals)


def phases(trajectory: Trajectory, run: int | None = None) -> Phases | RunResults:
    """Divide a trajectory, one run or every run into named phases.

    docs/how-to/plateaus-and-phases.md defines them.

    Parameters
    ----------
    trajectory, run
        As in `plateaus`.

    Returns
    -------
    Phases or RunResults
        `phases(theory).at(alpha)` names the phase at a time.

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, 400.0)
    >>> [phase.name for phase in tu.analysis.phases(theory)]
    ['search', 'symmetric plateau', 'specialization', 'convergence']
    """
    return read_curves(trajectory, run, "phases", _find_phases, LEAST_TIMES)


class Beginning(NamedTuple):
    """The time from which a phase lasts until the next one begins."""

    time: float
    name: str


def _find_phases(curve: Curve) -> Phases:
    """Return the phases of one curve."""
    plateaus = find_plateaus(curve)
    special = find_specialization(curve) if _can_specialize(curve) else None
    begins = _beginnings(curve, plateaus, special)
    # the final behavior of the error replaces all phases that would begin later
    for ending in _endings(curve, plateaus, special):
        earlier = [beginning for beginning in begins if beginning.time < ending.time]
        begins = [*earlier, ending]
    ends = [beginning.time for beginning in begins[1:]] + [float(curve.times[-1])]
    intervals: list[Phase] = []
    for (start, name), end in zip(begins, ends, strict=True):
        # equal neighbors become one, those of no length vanish
        if intervals and intervals[-1].name == name:
            intervals[-1] = Phase(name, intervals[-1].start, end)
        elif end > start:
            intervals.append(Phase(name, start, end))
    return Phases(tuple(intervals), plateaus, special, curve)


def _can_specialize(curve: Curve) -> bool:
    """Return True if the curve has at least two student and two teacher units."""
    if curve.kind == "equations" or curve.T is None or curve.rows is None:
        return False
    return min(curve.rows.shape[1:]) >= 2


def _beginnings(
    curve: Curve, plateaus: Plateaus, special: Specialization | None
) -> list[Beginning]:
    """Return the phases as if the error fell for ever."""
    first = float(curve.times[0])
    begins = [Beginning(first, "search")]
    departure = "escape" if special is None else "specialization"
    for plateau in plateaus:
        name = "symmetric plateau" if plateau.symmetric else "plateau"
        begins.append(Beginning(plateau.start, name))
        begins.append(Beginning(plateau.end, departure))
    if special is None:
        begins[-1] = Beginning(begins[-1].time, "convergence")
        return begins
    learned = special.reaches(SPECIALIZED_INDEX)
    if learned is not None:
        if not plateaus:
            begins = [Beginning(first, "specialization")]
        begins.append(Beginning(max(learned, begins[-1].time), "convergence"))
    return begins


def _endings(
    curve: Curve, plateaus: Plateaus, special: Specialization | None
) -> Iterator[Beginning]:
    """Yield the last phases: a rise, a divergence, a level that the error keeps."""
    times = curve.times
    y = curve.log_error
    lowest = find_minimum(curve)
    if curve.diverged:
        yield Beginning(lowest.time, "divergence")
        return
    if lowest.gain > 1 + plateaus.share:
        yield Beginning(lowest.time, "rise")

    # the levels of the last tenth of the time and of the tenth before
    end = times[-1]
    span = end - times[0]
    tenth = np.linspace(0.0, 0.1, 101)
    level = float(np.median(np.interp(end - span * tenth, times, y)))
    before = float(np.median(np.interp(end - span * (0.1 + tenth), times, y)))
    log_duration = float(np.log((end - 0.05 * span) / (end - 0.15 * span)))
    largest_change = STEADY_SLOPE * log_duration + curve.fluctuation
    has_digits = level > np.log(curve.rounding) + 1e-6
    if not has_digits or abs(level - before) > largest_change:
        return
    band = float(np.log1p(plateaus.share))
    settled = span_around(times, y, times.size - 1, level, band).start
    earliest = plateaus[-1].end if plateaus else float(times[0])
    settled = min(max(settled, earliest), float(end))
    is_unspecialized = special is not None and special.final < TRANSITION_INDEX
    if is_unspecialized and is_symmetric_at(curve, float(end)):
        yield Beginning(settled, "symmetric plateau")
    elif curve.label_noise > 0:
        yield Beginning(settled, "noise floor")
    else:
        yield Beginning(settled, "final level")
