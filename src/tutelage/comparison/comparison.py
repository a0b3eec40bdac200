"""The result of a comparison: numbers by name, a verdict, and ways to show them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError
from tutelage.comparison import verdict as words
from tutelage.comparison.escape import Escape
from tutelage.comparison.gaps import Gap
from tutelage.comparison.matching import Matching
from tutelage.comparison.scatter import Scatter
from tutelage.comparison.verdict import Verdict
from tutelage.trajectory import Trajectory
from tutelage.validity import Validity

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. gaps: by name ("error", "R", "Q", ...; `comparison["R"]`), each with gap, standard_error, z.

    verdict: outcome, sentence and shares. matching: which runs were relabeled. escape: times of escape from a plateau, None
    if there is none. validity: the theory's report, None for one's own equations. scatter: of the errors of single runs,
    predicted and measured; None where it is not predicted. dim: N of the runs. notes: sentences to read beside the verdict.
    noticeable: the relative change of lr that an agreement would have noticed (inf: more than 0.5); None where not known.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> theory = tu.solve(problem, start, times=tu.linear_times(10, 11))
    >>> runs = tu.simulate(problem, start, times=tu.linear_times(10, 11), runs=10, seed=1)
    >>> result = tu.compare(theory, runs, fluctuations=False)
    >>> result["R"].z.shape, result.count
    ((11, 2, 2), 10)
    """

    theory: Trajectory
    runs: Trajectory
    times: np.ndarray
    count: int
    dim: int | None
    gaps: dict[str, Gap]
    matching: Matching | None
    escape: Escape | None
    validity: Validity | None
    scatter: Scatter | None
    verdict: Verdict
    notes: tuple[str, ...]
    noticeable: float | None = None

    def __getitem__(self, name: str) -> Gap:
        """The gap of a quantity by name."""
        if name not in self.gaps:
            raise InputError(f"this comparison has no {name!r}; it has {', '.join(self.gaps)}.")
        return self.gaps[name]

    @property
    def agrees(self) -> bool | None:
        """True, False, or None where the question cannot be answered (one run) or is the wrong one (noise decides)."""
        outcome = self.verdict.outcome
        return None if outcome in (words.NOISE, words.UNKNOWN) else outcome in (words.AGREE, words.BIASED)

    def table(self) -> "RenderableType":
        """The report as a rich renderable: print it with rich."""
        from tutelage.comparison.report import table

        return table(self)

    def plot(self, *, title: str | None = None) -> "Figure":
        """Learning curve, overlaps and z-scores as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot import plot_comparison

        return plot_comparison(self, title=title)

    def to_html(self) -> str:
        """The whole report as one page that needs nothing else: no network, no scripts."""
        from tutelage.comparison.page import page

        return page(self)

    def save_html(self, path: str | Path) -> Path:
        """Write the page, all or nothing; returns the path."""
        from tutelage.comparison.page import write_page

        return write_page(self, path)

    def to_dict(self) -> dict[str, Any]:
        """The numbers behind the verdict, for JSON; docs/compare.md lists them."""
        from tutelage.comparison.report import to_dict

        return to_dict(self)

    def __str__(self) -> str:
        from tutelage.comparison.report import plain_text

        return plain_text(self)

    def __repr__(self) -> str:
        return f"<Comparison of {self.count} runs at {self.times.size} times: {self.verdict.outcome}>"
