"""Phases: the learning curve cut into named intervals, one after the other, covering all recorded times.

Built on `plateaus` and `specialization`: search until the first plateau; each plateau; specialization after it until the
index reaches 0.9; convergence; and, if the error has stopped changing at the end, the noise floor (without label noise: the
final level) from when it stays within 10% of its last height. An error that ends well above its minimum rises from there,
or diverges. A symmetric level that is never left is called a symmetric plateau as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.curves.curve import Curve, each
from tutelage.analysis.curves.run_results import RunResults
from tutelage.analysis.curves.plateaus import LEAST, Plateaus, alike_at, find_plateaus, span_around
from tutelage.analysis.curves.specialization import Specialization, can_specialize, find_specialization
from tutelage.analysis.curves.stopping import find_minimum
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEARCH, SYMMETRIC, PLATEAU, ESCAPE = "search", "symmetric plateau", "plateau", "escape"
SPECIALIZATION, CONVERGENCE, RISE = "specialization", "convergence", "rise"
NOISE_FLOOR, FINAL_LEVEL, DIVERGENCE = "noise floor", "final level", "divergence"
SPECIALIZED = 0.9  # index at which specialization is over
FLAT = 0.1  # |d ln e_g / d ln alpha| at the end below which the error has stopped changing


@dataclass(frozen=True)
class Phase:
    """name, and the times between which it lasts.

    >>> import tutelage as tu
    >>> tu.analysis.Phase("search", 0.0, 8.0)
    Phase(name='search', start=0.0, end=8.0)
    """

    name: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} from {self.start:.4g} to {self.end:.4g}"


@dataclass(frozen=True)
class Phases:
    """Intervals in the order of time, without gaps: a sequence. plateaus, specialization: what they are built on.

    specialization is None for a single unit or a system of one's own.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> tu.analysis.phases(theory).at(50.0)
    'symmetric plateau'
    """

    intervals: tuple[Phase, ...]
    plateaus: Plateaus
    specialization: Specialization | None = field(repr=False)
    curve: Curve = field(repr=False)

    def __len__(self) -> int:
        return len(self.intervals)

    def __getitem__(self, index: int) -> Phase:
        return self.intervals[index]

    def __iter__(self) -> Iterator[Phase]:
        return iter(self.intervals)

    def at(self, time: float) -> str:
        """The name of the phase at a time; at a boundary, of the one that begins there."""
        first, last = self.intervals[0].start, self.intervals[-1].end
        time = float(checks.as_array("time", time)) if np.ndim(time) == 0 else np.nan
        if not first <= time <= last:
            raise InputError(f"time is {time:g}; it must be one number between {first:g} and {last:g}, the recorded times.")
        return next(phase.name for phase in reversed(self.intervals) if phase.start <= time)

    @property
    def marks(self) -> dict[str, float]:
        """When each phase begins, the first one aside."""
        begins: dict[str, float] = {}
        for phase in self.intervals[1:]:
            begins.setdefault(f"{phase.name} begins", phase.start)
        return begins

    def plot(self, *, title: str | None = None) -> "Figure":
        """The learning curve, shaded by phase, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.stages import plot_phases

        return plot_phases(self, title=title)

    def __str__(self) -> str:
        return "; ".join(str(phase) for phase in self.intervals)


def phases(trajectory: Trajectory, run: int | None = None) -> Phases | RunResults:
    """Cut a solved trajectory, one run, or every run of a simulation (a `RunResults`) into named phases.

    `phases(theory).at(alpha)` names the phase at a time. The module docstring defines them; plateau heights are those of the
    fixed points that the curve passes (docs/how-to/plateaus-and-phases.md).

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> [phase.name for phase in tu.analysis.phases(theory)]
    ['search', 'symmetric plateau', 'specialization', 'convergence']
    """
    return each(trajectory, run, "phases", find_phases, LEAST)


def find_phases(curve: Curve) -> Phases:
    """The phases of one curve."""
    found = find_plateaus(curve)
    special = find_specialization(curve) if can_specialize(curve) else None
    begins = _up_to_convergence(curve, found, special)
    begins = _with_end(curve, found, special, begins)
    return Phases(_intervals(begins, float(curve.times[-1])), found, special, curve)


def _up_to_convergence(curve: Curve, found: Plateaus, special: Specialization | None) -> list[tuple[float, str]]:
    """(time, name of what begins there), as if the error fell for ever."""
    first = float(curve.times[0])
    begins = [(first, SEARCH)]
    for plateau in found:
        begins.append((plateau.start, SYMMETRIC if plateau.symmetric else PLATEAU))
        begins.append((plateau.end, ESCAPE if special is None else SPECIALIZATION))
    learned = None if special is None else special.reaches(SPECIALIZED)
    if learned is not None:
        if not found:
            begins = [(first, SPECIALIZATION)]
        begins.append((max(learned, begins[-1][0]), CONVERGENCE))
    elif special is None:
        begins[-1] = (begins[-1][0], CONVERGENCE)
    return begins


def _with_end(
    curve: Curve, found: Plateaus, special: Specialization | None, begins: list[tuple[float, str]]
) -> list[tuple[float, str]]:
    """The same with what becomes of the error at last: a rise, a divergence, a level that it keeps."""
    times, y, band = curve.times, curve.log_error, float(np.log1p(found.share))
    lowest = find_minimum(curve)
    if curve.diverged:
        return [*_before(begins, lowest.time), (lowest.time, DIVERGENCE)]
    if lowest.gain > 1 + found.share:
        begins = [*_before(begins, lowest.time), (lowest.time, RISE)]
    level = _final_level(curve)
    if level is None:
        return begins
    left = found[-1].end if found else float(times[0])
    settled = max(span_around(times, y, times.size - 1, level, band)[0], left)
    return [*_before(begins, settled), (settled, _name_of_end(curve, special))]


def _before(begins: list[tuple[float, str]], time: float) -> list[tuple[float, str]]:
    return [(t, name) for t, name in begins if t < time]


def _final_level(curve: Curve) -> float | None:
    """ln of the error that the curve keeps at its end; None if it still changes, or has no digits left."""
    times, y = curve.times, curve.log_error
    span, tenth = times[-1] - times[0], np.linspace(0.0, 0.1, 101)
    last, before = (float(np.median(np.interp(times[-1] - span * part, times, y))) for part in (tenth, 0.1 + tenth))
    if last <= np.log(curve.rounding) + 1e-6:
        return None
    width = float(np.log((times[-1] - 0.05 * span) / (times[-1] - 0.15 * span)))
    return last if abs(last - before) <= FLAT * width + curve.fluctuation else None


def _name_of_end(curve: Curve, special: Specialization | None) -> str:
    if special is not None and special.final < 0.5 and alike_at(curve, float(curve.times[-1])):
        return SYMMETRIC
    return NOISE_FLOOR if curve.label_noise > 0 else FINAL_LEVEL


def _intervals(begins: list[tuple[float, str]], end: float) -> tuple[Phase, ...]:
    """Phases from their beginnings; those of no length vanish, equal neighbors become one."""
    out: list[Phase] = []
    for (start, name), stop in zip(begins, [*(t for t, _ in begins[1:]), end], strict=True):
        if out and out[-1].name == name:
            out[-1] = Phase(name, out[-1].start, stop)
        elif stop > start:
            out.append(Phase(name, start, stop))
    return tuple(out)
