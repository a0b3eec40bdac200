"""Comparison of runs with the theory: `compare` and its result `Comparison`.

The result holds numbers by name and a verdict, as text, HTML page and JSON.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Bool, Float

from tutelage import checks
from tutelage._html import bullets, card, sparkline, table
from tutelage._types import Table
from tutelage._version import __version__
from tutelage.analysis.result import AnalysisResult
from tutelage.comparison.expected import expected_gaps, level_shift, noticeable_change
from tutelage.comparison.missed_factors import MissedFactor, find_missed_factor
from tutelage.comparison.pairing import Pair, match, pair
from tutelage.comparison.verdict import (
    LIMIT,
    Escape,
    Gap,
    Scatter,
    Verdict,
    decide,
    find_escape,
    percent,
    predicted_scatter,
)
from tutelage.errors import InputError
from tutelage.plot.labels import capital, problem_in_words
from tutelage.plot.style import document, svg_element, write_text
from tutelage.problem.start import OVERLAPS
from tutelage.result.citations import References, behind_comparison
from tutelage.result.storage import error_name
from tutelage.result.trajectory import Trajectory
from tutelage.stream.validity import Validity

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 6  # rows of the learning curve
FEW_RUNS = 5  # fewer give an uncertain standard error
CURVE = ("alpha", "theory", "runs", "gap", "s.e.", "expected", "z")
WORST = ("quantity", *CURVE, f"|z|<{LIMIT:g}")
LEGEND = (
    "gap: mean of runs - theory; s.e.: its standard error; "
    "expected: the finite-N bias, of order 1/N"
)
COLUMNS_OF_GAP = (
    "theory",
    "mean",
    "gap",
    "standard_error",
    "z",
    "expected",
    "beyond",
)


@dataclass(frozen=True)
class Comparison(AnalysisResult, figure="plot_comparison"):
    """The result of `compare`.

    gaps: by name ("error", "R", "Q", ...; `comparison["R"]`), each with gap,
    standard_error, z. verdict: outcome, message and shares. relabeled: (run,), whose
    units were permuted. escape: times of escape from a plateau, None if there is none.
    validity: the theory's report, None for custom equations and several tasks. scatter:
    of single runs, predicted and measured; None where it is not predicted. dim: N of
    the runs. notes: remarks on the verdict. noticeable: the relative change of lr that
    an agreement would have noticed (inf: more than 0.5); None where not known.
    missed_factor: what would explain that recorded runs differ, such as a learning rate
    without 1/N; None if nothing known does.
    """

    theory: Trajectory
    runs: Trajectory
    times: Float[np.ndarray, " time"]
    count: int
    dim: int | None
    gaps: dict[str, Gap]
    relabeled: Bool[np.ndarray, " run"]
    escape: Escape | None
    validity: Validity | None
    scatter: Scatter | None
    verdict: Verdict
    notes: tuple[str, ...]
    noticeable: float | None = None
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

    def table(self) -> "RenderableType":
        """Return the report as a rich renderable.

        It has both tables, the remarks, and the verdict last, where one looks first.
        """
        from rich.console import Group
        from rich.text import Text

        subject, conditions = self._headline()
        label = "error"
        if self.theory.problem is not None:
            label = error_name(self.theory.problem)
        return Group(
            Text(subject, "bold"),
            Text(conditions),
            Text(""),
            Text(label),
            _grid(CURVE, self.curve_rows()),
            Text(""),
            Text(self._counted_words()),
            _grid(WORST, self.worst_rows()),
            Text(LEGEND, "dim"),
            Text(""),
            self._remarks_grid(),
        )

    def _remarks_grid(self) -> "RenderableType":
        """Return the remarks and the verdict, each after its name."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.add_column(min_width=8, no_wrap=True)
        for name, lines in self._remarks().items():
            names = [name] + [""] * (len(lines) - 1)
            for shown_name, line in zip(names, lines, strict=True):
                grid.add_row(Text(shown_name), Text(line))
        grid.add_row(Text("verdict", "bold"), Text(self.verdict.sentence, "bold"))
        return grid

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        console = Console(
            file=out,
            width=110,
            color_system=None,
            highlight=False,
            markup=False,
            emoji=False,
        )
        console.print(self.table())
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def __repr__(self) -> str:
        size = f"{self.count} runs at {self.times.size} times"
        return f"<Comparison of {size}: {self.verdict.outcome}>"

    def _repr_html_(self) -> str:
        subject, conditions = self._headline()
        gap = self["error"]
        curves = np.stack([gap.entries(gap.theory)[:, 0], gap.entries(gap.mean)[:, 0]])
        remarks = []
        for name, lines in self._remarks().items():
            remarks += [f"{name}: {line}" for line in lines]
        return card(
            f"Comparison: {subject}",
            f"<div><b>{escape(capital(self.verdict.sentence))}</b></div>",
            sparkline(self.times, curves, "error, theory and mean of runs"),
            table(WORST, self.worst_rows()),
            bullets(remarks),
            words=conditions,
        )

    def save_html(self, path: str | Path) -> Path:
        """Write the page, all or nothing, and return the path."""
        return write_text(path, self.to_html())

    def to_html(self) -> str:
        """Return the report as one page that needs no network and no scripts."""
        subject, conditions = self._headline()
        outcome = self.verdict.outcome
        sentence = capital(self.verdict.sentence.removeprefix(f"{outcome}: "))
        bold_outcome = f"<b>{escape(capital(outcome))}</b>"
        style_of_verdict = {True: "good", False: "bad", None: ""}[self.agrees]
        figure = svg_element(self.plot(title=""), "Theory and runs against time")
        remarks = [
            _section(capital(name), bullets(lines))
            for name, lines in self._remarks().items()
        ]
        worst = table(WORST, self.worst_rows())
        body = [
            f"<h1>{escape(subject)}</h1>",
            f'<p class="how">{escape(conditions)}</p>',
            f'<p class="verdict {style_of_verdict}">{bold_outcome} '
            f"{escape(sentence)}.</p>",
            f'<figure><div class="scroll">{figure}</div>',
            f"<figcaption>{escape(self._caption())}</figcaption></figure>",
            _section("Error along the curve", table(CURVE, self.curve_rows())),
            _section(capital(self._counted_words()), worst),
            *remarks,
            *self._sources(),
            f"<footer>{escape(capital(LEGEND))}. tutelage {__version__}</footer>",
        ]
        return document(f"{subject}: {outcome}", body)

    def _caption(self) -> str:
        """Return the caption of the figure of the page."""
        marks = "marks: the run"
        if self.count > 1:
            marks = (
                "bands: mean of the runs ± 2 standard errors, marks on it; "
                "thin: single runs"
            )
        pale = ""
        if self.scatter is not None:
            pale = "; pale: two standard deviations of single runs, predicted"
        return f"Lines: theory; {marks}{pale}."

    def _headline(self) -> tuple[str, str]:
        """Return the problem in words, and its conditions with those of the runs."""
        settings = dict(self.runs.settings)
        conditions = [f"{self.count} run{'s' if self.count > 1 else ''}"]
        if self.dim is not None:
            conditions.append(f"N = {self.dim}")
        for name in ("method", "seed"):
            if name in settings:
                conditions.append(f"{name} {settings[name]}")
        if self.theory.problem is None:
            return f"Custom equations: {', '.join(self.gaps)}", ", ".join(conditions)
        subject, of_problem = problem_in_words(self.theory.problem)
        return subject, ", ".join([of_problem, *conditions]).replace("$", "")

    def curve_rows(self) -> list[tuple[str, ...]]:
        """Return the error at a few times, of each task, as texts."""
        gap = self["error"]
        last = self.times.size - 1
        places = np.linspace(0, last, min(SHOWN + 1, self.times.size))
        picked = np.unique(places.astype(int))
        if picked.size > SHOWN:
            picked = picked[1:]  # a start has no gap to show
        rows = []
        for entry, label in enumerate(gap.labels()):
            task = label.removeprefix("error")
            for i in picked:
                rows.append((f"{self.times[i]:.4g}{task}", *_numbers(gap, i, entry)))
        return rows

    def worst_rows(self) -> list[tuple[str, ...]]:
        """Return each kind of quantity where its |z| is largest, as texts.

        The last column is the share within the limit.
        """
        rows = []
        counted = self.verdict.counted
        for gap in self.gaps.values():
            i, entry = gap.worst_place(gap.z, counted)
            labels = gap.labels()
            name = labels[entry]
            if len(labels) > 1:
                name += f" of {len(labels)}"
            share = "-"
            if self.count > 1:
                inside = np.abs(gap.entries(gap.z)[counted]) < LIMIT
                share = percent(float(inside.mean()))
            numbers = _numbers(gap, i, entry)
            rows.append((name, f"{self.times[i]:.4g}", *numbers, share))
        return rows

    def _counted_words(self) -> str:
        """Return the heading of the second table, with the times that it counts."""
        if self.escape is None or self.verdict.counted.all():
            return "where |z| is largest"
        when = f"alpha < {self.escape.first_departure:.4g}"
        return f"where |z| is largest before the first escape from the plateau, {when}"

    def _remarks(self) -> dict[str, list[str]]:
        """Return the named lines below the tables."""
        sections: dict[str, list[str]] = {}
        if self.escape is not None:
            sections["escape"] = self.escape.lines()
        if self.scatter is not None:
            sections["scatter"] = self.scatter.lines()
        sections["notes"] = list(self.notes)
        if self.validity is not None:
            sections["validity"] = self.validity.lines()
        if self.noticeable is not None:
            sections["power"] = [f"this comparison {_power_in_words(self.noticeable)}"]
        return {name: lines for name, lines in sections.items() if lines}

    def _sources(self) -> list[str]:
        """Return the problem as a file, for the page."""
        problem = self.theory.problem
        if problem is None:
            return []
        try:
            text = self.problem_file()
        except InputError as error:  # a custom function has no text
            listing = f"<pre>{escape(repr(problem))}</pre><p>{escape(str(error))}</p>"
            return [_section("The problem", listing)]
        listing = f"<pre>{escape(text)}</pre>"
        return [_section("The problem, as a file for tutelage compare", listing)]

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


def _as_table(
    report: Escape | Validity | Scatter | MissedFactor | None,
) -> Table | None:
    return None if report is None else asdict(report)


def _plain(value: object) -> object:
    """Return numbers and arrays with None for what JSON cannot hold."""
    if not isinstance(value, float | np.ndarray):
        return value
    return np.where(np.isfinite(value), value, np.array(None)).tolist()


def _grid(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> "RenderableType":
    """Return a rich table; all columns but the first are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table

    numbers = [Column(name, justify="right", no_wrap=True) for name in head[1:]]
    grid = Table(
        head[0],
        *numbers,
        box=SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
        collapse_padding=True,
        header_style="",
    )
    for row in rows:
        grid.add_row(*row)
    return grid


def _section(heading: str, content: str) -> str:
    """Return a section of the page, under its heading."""
    return f"<h2>{escape(heading)}</h2>{content}"


def _power_in_words(noticeable: float) -> str:
    """Return the smallest change of lr that a comparison detects, in words."""
    if not np.isfinite(noticeable):
        return "might not detect a change of lr by 50%; add runs, or raise N"
    change = f"{100 * noticeable:.2g}%"
    return f"would detect a change of lr by {change} or more (in 9 of 10 cases)"


def _numbers(gap: Gap, time: int, entry: int) -> tuple[str, ...]:
    """Return theory, runs, gap, standard error, expected gap and z of one number."""

    def number(values: np.ndarray) -> float:
        return float(gap.entries(values)[time, entry])

    z = number(gap.z)
    error = "-"
    score = "-"
    if np.isfinite(z):
        error = _short(number(gap.standard_error), 2)
        score = f"{z:+.1f}"
    if gap.rough:
        expected = f"~{_short(number(gap.expected), 1)}"
    else:
        expected = _short(number(gap.expected), 1, "+")
    return (
        f"{number(gap.theory):.4g}",
        f"{number(gap.mean):.4g}",
        _short(number(gap.gap), 2, "+"),
        error,
        expected,
        score,
    )


def _short(value: float, digits: int, sign: str = "") -> str:
    """Return a number of few digits.

    Small ones are written as 1.2e-04, so that sizes in a table compare.
    """
    if 0 < abs(value) < 1e-3:
        return f"{value:{sign}.{digits - 1}e}"
    return f"{value:{sign}.{digits}g}"


def compare(
    theory: Trajectory, runs: Trajectory, *, fluctuations: bool = True
) -> Comparison:
    """Compare the mean over runs with the theory, for each quantity and time.

    Parameters
    ----------
    theory : Trajectory
        The result of `solve` (or `load`).
    runs : Trajectory
        The result of `simulate` for the same problem, initial condition and times; for
        custom `Equations` a Trajectory of the same variable names with a leading axis
        of runs.
    fluctuations : bool
        Also predict the scatter of single runs, if this takes no more than a second or
        two.

    Returns
    -------
    Comparison
        `.verdict`, `.agrees`, the gaps by name, `.plot()`, `.save_html(path)`. The
        verdict is "agree", "agree within the expected finite-N bias", "differ",
        "inconclusive after the plateau" if SGD noise determines the escape from a
        plateau, or "inconclusive" for one run. docs/compare.md states the criteria.

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> times = tu.linear_times(10, 11)
    >>> theory = tu.solve(problem, start, times=times)
    >>> runs = tu.simulate(problem, start, times=times, runs=10, seed=1)
    >>> result = tu.compare(theory, runs, fluctuations=False)
    >>> result.agrees, result.verdict.outcome, result["R"].z.shape
    (True, 'agree', (11, 2, 2))
    """
    predict_scatter = checks.as_flag("fluctuations", fluctuations)
    matched, relabeled = match(pair(theory, runs))
    expected, rough = expected_gaps(matched)
    shift, shift_notes = level_shift(matched, theory)
    settings = dict(theory.settings)
    sampling = theory.estimates
    if theory.has_validity and "moments" in settings:
        sampling = theory.sampling_errors
    gaps = {}
    for name in matched.compared:
        sampling_error = 0.0
        if name in sampling:
            sampling_error = sampling[name][: matched.times.size]
        gaps[name] = Gap(
            name=name,
            theory=matched.theory[name],
            runs=matched.runs[name],
            expected=expected[name],
            rough=rough,
            shift=shift.get(name, 0.0),
            rtol=float(settings.get("rtol", 0.0)),
            sampling=sampling_error,
        )
    validity = theory.validity if theory.has_validity else None
    escape = find_escape(matched, validity)
    verdict = decide(gaps, matched.times, escape, matched.count)
    missed_factor = find_missed_factor(theory, runs, verdict)
    if missed_factor is not None:
        sentence = f"{verdict.sentence.rstrip('.')}. {capital(str(missed_factor))}"
        verdict = replace(verdict, sentence=sentence)
    scatter = None
    if predict_scatter:
        scatter = predicted_scatter(matched, theory, escape)
    notes = [
        *matched.notes,
        *shift_notes,
        *_notes(matched, bool(sampling), int(relabeled.sum())),
    ]
    return Comparison(
        theory=theory,
        runs=runs,
        times=matched.times,
        count=matched.count,
        dim=matched.dim,
        gaps=gaps,
        relabeled=relabeled,
        escape=escape,
        validity=validity,
        scatter=scatter,
        verdict=verdict,
        missed_factor=missed_factor,
        noticeable=noticeable_change(matched, theory, gaps, verdict),
        notes=tuple(notes),
    )


def _notes(matched: Pair, is_sampled: bool, relabeled: int) -> Iterator[str]:
    """Yield remarks on the verdict. relabeled: a number of runs."""
    count = matched.count
    if matched.gradient_flow:
        yield (
            "the theory is gradient flow: without the terms of order eta^2 that the "
            "runs have"
        )
    if 1 < count < FEW_RUNS:
        yield (
            f"{count} runs give a standard error that is itself uncertain; "
            "run 10 or more"
        )
    if is_sampled:
        yield (
            "the theory's averages are sampled: half of their sampling error counts "
            "as a standard error, too"
        )
    if relabeled:
        yield (
            f"{relabeled} of {count} runs had their hidden units relabeled before "
            "averaging"
        )
