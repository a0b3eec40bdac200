"""`compare`: do the runs follow the theory? `Comparison`: numbers by name, a verdict, and ways to show them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._errors import InputError
from tutelage.comparison.expected import expected_gaps, noticeable_change, with_shift
from tutelage.comparison.noise import Escape, Scatter, find_escape, predicted_scatter
from tutelage.comparison.pairing import Matching, Pair, match, pair
from tutelage.comparison.verdict import AGREE, BIASED, FINEST, NOISE, UNKNOWN, Gap, Verdict, decide, measure
from tutelage.trajectory import Trajectory
from tutelage.validity import Validity

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. gaps: by name ("error", "R", "Q", ...; `comparison["R"]`), each with gap, standard_error, z.

    verdict: outcome, sentence and shares. matching: which runs were relabeled. escape: times of escape from a plateau, None
    if there is none. validity: the theory's report, None for one's own equations and several tasks. scatter: of the errors of single runs,
    predicted and measured; None where it is not predicted. dim: N of the runs. notes: sentences to read beside the verdict.
    noticeable: the relative change of lr that an agreement would have noticed (inf: more than 0.5); None where not known.
    """

    theory: Trajectory
    runs: Trajectory
    times: Float[np.ndarray, " time"]
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
        return None if outcome in (NOISE, UNKNOWN) else outcome in (AGREE, BIASED)

    def table(self) -> "RenderableType":
        """The report as a rich renderable: print it with rich."""
        from tutelage.comparison.report import terminal_table

        return terminal_table(self)

    def plot(self, *, title: str | None = None) -> "Figure":
        """Learning curve, overlaps and z-scores as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot import plot_comparison

        return plot_comparison(self, title=title)

    def to_html(self) -> str:
        """The whole report as one page that needs nothing else: no network, no scripts."""
        from tutelage.comparison.report import page

        return page(self)

    def save_html(self, path: str | Path) -> Path:
        """Write the page, all or nothing; returns the path."""
        from tutelage.plot.html import write_text

        return write_text(path, self.to_html())

    def to_dict(self) -> dict[str, Any]:
        """The numbers behind the verdict, for JSON; docs/compare.md lists them."""
        from tutelage.comparison.report import to_dict

        return to_dict(self)

    def __str__(self) -> str:
        from tutelage.comparison.report import plain_text

        return plain_text(self)

    def __repr__(self) -> str:
        return f"<Comparison of {self.count} runs at {self.times.size} times: {self.verdict.outcome}>"


def compare(theory: Trajectory, runs: Trajectory, *, fluctuations: bool = True) -> Comparison:
    """Compare the mean over runs with the theory, quantity by quantity and time by time: do they agree?

    theory: what `solve` returned (or `load`); runs: what `simulate` returned for the same problem, start and times. Of
    one's own `Equations`, give runs of the same names as a Trajectory with a leading run axis.

    Hidden units are matched first. Each gap gets a standard error, a z-score and the gap of order 1/N that a right theory
    leaves; the verdict is "agree", "agree within the expected finite-N bias", "differ: ..." or, where noise rather than the
    start decides the escape from a plateau, says that and compares times of escape. docs/compare.md has the criteria.
    fluctuations: also predict how far the errors of single runs scatter, where that takes a second or two.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> theory = tu.solve(problem, start, times=tu.linear_times(10, 11))
    >>> runs = tu.simulate(problem, start, times=tu.linear_times(10, 11), runs=10, seed=1)
    >>> result = tu.compare(theory, runs, fluctuations=False)
    >>> result.agrees, result.verdict.outcome, result["R"].z.shape
    (True, 'agree', (11, 2, 2))
    """
    predict = checks.as_flag("fluctuations", fluctuations)
    both, matching = match(with_shift(pair(theory, runs), theory))
    expected, rtol, gaps = expected_gaps(both), float(dict(theory.settings).get("rtol", FINEST)), {}
    for name in both.compared:
        sides = both.theory[name], both.runs[name]
        gaps[name] = measure(name, *sides, expected.gaps[name], expected.rough, both.shift.get(name), rtol)
    reported = theory.problem is not None and theory.start is not None and theory.tasks is None
    validity = theory.validity if reported else None
    escape = find_escape(both, validity)
    swapped = 0 if matching is None else matching.count
    verdict = decide(gaps, both.times, escape, swapped, both.count)
    right = {AGREE, BIASED} & {verdict.outcome, verdict.before}
    return Comparison(
        theory=theory,
        runs=runs,
        times=both.times,
        count=both.count,
        dim=both.dim,
        gaps=gaps,
        matching=matching,
        escape=escape,
        validity=validity,
        scatter=predicted_scatter(both, theory, escape) if predict else None,
        verdict=verdict,
        noticeable=noticeable_change(both, theory, gaps, verdict.counted) if right else None,
        notes=(*both.notes, *_notes(both, swapped, escape)),
    )


def _notes(both: Pair, swapped: int, escape: Escape | None) -> tuple[str, ...]:
    notes = []
    if both.gradient_flow:
        notes.append("the theory is gradient flow: without the terms of order eta^2 that the runs have")
    if 1 < both.count < 5:
        notes.append(f"{both.count} runs give a standard error that is itself uncertain; run 10 or more")
    if swapped and (escape is None or not escape.by_noise):
        notes.append(f"{swapped} of {both.count} runs had their hidden units relabeled before averaging")
    return tuple(notes)
