"""The result of `compare`: numbers by name, and a verdict as text, page and JSON."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import jax
import numpy as np
from jaxtyping import Bool, Float

from tutelage._types import Table
from tutelage.analysis.result import AnalysisResult
from tutelage.comparison import report
from tutelage.comparison.escape import Escape
from tutelage.comparison.gaps import Gap, Gaps
from tutelage.comparison.missed_factors import MissedFactor
from tutelage.comparison.power import Power
from tutelage.comparison.scatter import Scatter
from tutelage.comparison.verdict import Verdict
from tutelage.errors import InputError
from tutelage.plot.style import write_text
from tutelage.problem.start import OVERLAPS
from tutelage.result.citations import References, behind_comparison
from tutelage.result.trajectory import Trajectory
from tutelage.stream.validity import Validity

if TYPE_CHECKING:
    from rich.console import RenderableType

# The numbers of a gap that go into files.
COLUMNS_OF_GAP = (
    "theory",
    "mean",
    "gap",
    "standard_error",
    "z",
    "expected",
    "beyond",
)


class Analysis(Protocol):
    """The result of an analysis, which the report shows as lines of text."""

    def lines(self) -> list[str]:
        """Return the result in words, one statement per line."""
        ...


@dataclass(frozen=True)
class Comparison(AnalysisResult, figure="plot_comparison"):
    """The result of `compare`.

    Attributes
    ----------
    theory, runs : Trajectory
        What was compared.
    times : array (time,)
        The times that both have.
    count : int
        The number of runs.
    dim : int or None
        N of the runs.
    gaps : dict of Gap
        By name ("error", "R", "Q", ...; `comparison["R"]`), each with gap,
        standard_error, z.
    relabeled : array (run,)
        True for runs whose units were permuted.
    escape : Escape or None
        Times of escape from a plateau, None if there is none.
    validity : Validity or None
        The theory's report, None for custom equations and several tasks.
    scatter : Scatter or None
        Of single runs, predicted and measured; None where it is not predicted.
    verdict : Verdict
        Outcome, message and shares.
    power : Power or None
        The change of lr that an agreement would have detected; None where not known.
    notes : tuple of str
        Remarks on the verdict.
    missed_factor : MissedFactor or None
        What would explain that recorded runs differ, such as a learning rate without
        1/N; None if nothing known does.
    """

    theory: Trajectory
    runs: Trajectory
    times: Float[np.ndarray, " time"]
    count: int
    dim: int | None
    gaps: Gaps
    relabeled: Bool[np.ndarray, " run"]
    escape: Escape | None
    validity: Validity | None
    scatter: Scatter | None
    verdict: Verdict
    power: Power | None
    notes: tuple[str, ...]
    missed_factor: MissedFactor | None = None

    def __getitem__(self, name: str) -> Gap:
        """Return the gap of a quantity by name."""
        if name not in self.gaps:
            known = ", ".join(self.gaps)
            raise InputError(f"this comparison has no {name!r}; it has {known}.")
        return self.gaps[name]

    @property
    def agrees(self) -> bool | None:
        """True, False, or None if the comparison is inconclusive."""
        return self.verdict.agrees

    @property
    def noticeable(self) -> float | None:
        """The relative change of lr that an agreement would have detected.

        It is inf if it is more than 0.5, and None where it is not known.
        """
        if self.power is None:
            return None
        return self.power.change

    def remarks(self) -> dict[str, list[str]]:
        """Return the lines of the analyses behind the verdict, by their title."""
        remarks = {
            "escape": _lines_of(self.escape),
            "scatter": _lines_of(self.scatter),
            "notes": list(self.notes),
            "validity": _lines_of(self.validity),
            "power": _lines_of(self.power),
        }
        return {title: lines for title, lines in remarks.items() if lines}

    def to_dict(self) -> Table:
        """Return the numbers behind the verdict, for JSON.

        A number that is not finite is None. docs/compare.md lists the numbers.
        """
        quantities = {}
        for name, gap in self.gaps.items():
            columns = {column: getattr(gap, column) for column in COLUMNS_OF_GAP}
            quantities[name] = columns | {"expected_is_rough": gap.rough}
        table = {
            "outcome": self.verdict.outcome,
            "agrees": self.agrees,
            "verdict": self.verdict.sentence,
            "before_escape": self.verdict.before,
            "without_sampling_error": self.verdict.without_sampling,
            "within": self.verdict.within,
            "within_bias": self.verdict.within_bias,
            "counted_times": int(self.verdict.counted.sum()),
            "runs": self.count,
            "dim": self.dim,
            "relabeled": int(self.relabeled.sum()),
            "escape": _as_table(self.escape),
            "validity": _as_table(self.validity),
            "scatter": _as_table(self.scatter),
            "noticeable_lr_change": self.noticeable,
            "missed_factor": _as_table(self.missed_factor),
            "notes": list(self.notes),
            "times": self.times,
            "quantities": quantities,
        }
        return jax.tree.map(_plain, table)

    def cite(self) -> References:
        """Return the papers behind theory and runs; print them, or use `.bibtex`."""
        return behind_comparison(self.theory, self.runs)

    def problem_file(self) -> str:
        """Return the problem with start and times, as `tutelage compare` reads it."""
        assert self.theory.problem is not None
        text = self.theory.problem.to_toml().strip()
        start = self.theory.start
        if start is not None:
            values = {name: getattr(start, name) for name in OVERLAPS}
            values["dim"] = self.dim
            text += "\n\n[start]"
            for name, value in values.items():
                if value is not None:
                    text += f"\n{name} = {np.asarray(value).tolist()}"
        end = float(self.times[-1])
        count = self.times.size
        if count > 1 and np.array_equal(self.times, np.linspace(0.0, end, count)):
            text += f"\n\n[times]\nend = {end}\npoints = {count}"
        return text

    def curve_rows(self) -> list[tuple[str, ...]]:
        """Return the error at a few times, of each task, as texts."""
        return report.curve_rows(self)

    def worst_rows(self) -> list[tuple[str, ...]]:
        """Return each kind of quantity where its |z| is largest, as texts.

        The last column is the share within the limit.
        """
        return report.worst_rows(self)

    def table(self) -> "RenderableType":
        """Return the report as a rich renderable.

        It has both tables, the remarks, and the verdict last, where one looks first.
        """
        return report.as_renderable(self)

    def to_html(self) -> str:
        """Return the report as one page that needs no network and no scripts."""
        return report.as_page(self)

    def save_html(self, path: str | Path) -> Path:
        """Write the page, all or nothing, and return the path."""
        return write_text(path, self.to_html())

    def __str__(self) -> str:
        return report.as_text(self)

    def __repr__(self) -> str:
        size = f"{self.count} runs at {self.times.size} times"
        return f"<Comparison of {size}: {self.verdict.outcome}>"

    def _repr_html_(self) -> str:
        return report.as_card(self)


def _lines_of(analysis: Analysis | None) -> list[str]:
    """Return the lines of an analysis, none if it has no result."""
    if analysis is None:
        return []
    return analysis.lines()


def _as_table(
    analysis: Escape | Validity | Scatter | MissedFactor | None,
) -> Table | None:
    """Return the fields of an analysis by name."""
    if analysis is None:
        return None
    return asdict(analysis)


def _plain(value: object) -> object:
    """Return numbers and arrays with None for what JSON cannot hold."""
    if not isinstance(value, float | np.ndarray):
        return value
    return np.where(np.isfinite(value), value, np.array(None)).tolist()
