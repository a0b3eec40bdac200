"""`compare`: do the runs follow the theory? `Comparison`: numbers by name and a verdict, as text, HTML page and JSON."""

from dataclasses import asdict, dataclass
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
from tutelage.comparison.pairing import match, pair
from tutelage.comparison.verdict import LIMIT, Escape, Gap, Scatter, Verdict, decide, find_escape, percent, predicted_scatter
from tutelage.errors import InputError
from tutelage.plot.labels import capital, problem_in_words
from tutelage.plot.style import document, svg_element, write_text
from tutelage.storage import error_name
from tutelage.trajectory import Trajectory
from tutelage.validity import Validity

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 6  # rows of the learning curve
CURVE = ("alpha", "theory", "runs", "gap", "s.e.", "expected", "z")
WORST = ("quantity", "alpha", "theory", "runs", "gap", "s.e.", "expected", "z", f"|z|<{LIMIT:g}")
LEGEND = "gap: mean of runs - theory; s.e.: its standard error; expected: the finite-N bias, of order 1/N"


@dataclass(frozen=True)
class Comparison(AnalysisResult, figure="plot_comparison"):
    """What `compare` found. gaps: by name ("error", "R", "Q", ...; `comparison["R"]`), each with gap, standard_error, z.

    verdict: outcome, message and shares. relabeled: (run,), whose units were permuted. escape: times of escape from a plateau,
    None if there is none. validity: the theory's report, None for custom equations and several tasks. scatter: of single runs,
    predicted and measured; None where it is not predicted. dim: N of the runs. notes: remarks on the verdict.
    noticeable: the relative change of lr that an agreement would have noticed (inf: more than 0.5); None where not known.
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

    def __getitem__(self, name: str) -> Gap:
        """The gap of a quantity by name."""
        if name not in self.gaps:
            raise InputError(f"this comparison has no {name!r}; it has {', '.join(self.gaps)}.")
        return self.gaps[name]

    @property
    def agrees(self) -> bool | None:
        """True, False, or None if the comparison is inconclusive."""
        return self.verdict.agrees

    def to_dict(self) -> Table:
        """The numbers behind the verdict, for JSON (None for what is not a finite number); docs/compare.md lists them."""
        parts = ("theory", "mean", "gap", "standard_error", "z", "expected", "beyond")
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
            "escape": None if self.escape is None else asdict(self.escape),
            "validity": None if self.validity is None else asdict(self.validity),
            "scatter": None if self.scatter is None else asdict(self.scatter),
            "noticeable_lr_change": self.noticeable,
            "notes": list(self.notes),
            "times": self.times,
            "quantities": {
                name: {part: getattr(gap, part) for part in parts} | {"expected_is_rough": gap.rough}
                for name, gap in self.gaps.items()
            },
        }
        return jax.tree.map(_plain, table)

    def table(self) -> "RenderableType":
        """The report as a rich renderable: both tables, the remarks, and the verdict last, where one looks first."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Column, Table
        from rich.text import Text

        grids = []
        for head, rows in ((CURVE, self.curve_rows()), (WORST, self.worst_rows())):
            columns = [head[0], *(Column(name, justify="right", no_wrap=True) for name in head[1:])]
            grid = Table(*columns, box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True, header_style="")
            for row in rows:
                grid.add_row(*row)
            grids.append(grid)
        remarks = Table.grid(padding=(0, 2))
        remarks.add_column(min_width=8, no_wrap=True)
        for name, lines in (self._remarks() | {"verdict": [self.verdict.sentence]}).items():
            for i, line in enumerate(lines):
                bold = "bold" if name == "verdict" else ""
                remarks.add_row("" if i else Text(name, bold), Text(line, bold))
        who, how = self._headline()
        label = error_name(self.theory.problem) if self.theory.problem is not None else "error"
        parts = [Text(who, "bold"), Text(how), Text(""), Text(label), grids[0], Text("")]
        return Group(*parts, Text(self._counted_words()), grids[1], Text(LEGEND, "dim"), Text(""), remarks)

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        Console(file=out, width=110, color_system=None, highlight=False, markup=False, emoji=False).print(self.table())
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def __repr__(self) -> str:
        return f"<Comparison of {self.count} runs at {self.times.size} times: {self.verdict.outcome}>"

    def _repr_html_(self) -> str:
        who, how = self._headline()
        gap = self["error"]
        curves = np.stack([gap.entries(gap.theory)[:, 0], gap.entries(gap.mean)[:, 0]])
        verdict = f"<div><b>{escape(capital(self.verdict.sentence))}</b></div>"
        remarks = bullets([f"{name}: {line}" for name, lines in self._remarks().items() for line in lines])
        small = sparkline(self.times, curves, "error, theory and mean of runs")
        return card(f"Comparison: {who}", verdict, small, table(WORST, self.worst_rows()), remarks, words=how)

    def save_html(self, path: str | Path) -> Path:
        """Write the page, all or nothing; returns the path."""
        return write_text(path, self.to_html())

    def to_html(self) -> str:
        """The whole report as one page that needs nothing else: no network, no scripts."""
        who, how = self._headline()
        outcome, kind = self.verdict.outcome, {True: "good", False: "bad", None: ""}[self.agrees]
        sentence = capital(self.verdict.sentence.removeprefix(f"{outcome}: "))
        many = "bands: mean of the runs ± 2 standard errors, marks on it; thin: single runs"
        pale = "; pale: two standard deviations of single runs, predicted" if self.scatter is not None else ""
        caption = f"Lines: theory; {many if self.count > 1 else 'marks: the run'}{pale}."
        body = [
            f"<h1>{escape(who)}</h1>",
            f'<p class="how">{escape(how)}</p>',
            f'<p class="verdict {kind}"><b>{escape(capital(outcome))}</b> {escape(sentence)}.</p>',
            f'<figure><div class="scroll">{svg_element(self.plot(title=""), "Theory and runs against time")}</div>',
            f"<figcaption>{escape(caption)}</figcaption></figure>",
            f"<h2>Error along the curve</h2>{table(CURVE, self.curve_rows())}",
            f"<h2>{escape(capital(self._counted_words()))}</h2>{table(WORST, self.worst_rows())}",
            *(f"<h2>{escape(capital(name))}</h2>{bullets(lines)}" for name, lines in self._remarks().items()),
            *self._sources(),
            f"<footer>{escape(capital(LEGEND))}. tutelage {__version__}</footer>",
        ]
        return document(f"{who}: {outcome}", body)

    def _headline(self) -> tuple[str, str]:
        """What was compared: the problem in words, and the runs."""
        settings = dict(self.runs.settings)
        how = [f"{self.count} run{'s' if self.count > 1 else ''}"]
        how += [f"N = {self.dim}"] if self.dim is not None else []
        how += [f"{name} {settings[name]}" for name in ("method", "seed") if name in settings]
        if self.theory.problem is None:
            return f"Custom equations: {', '.join(self.gaps)}", ", ".join(how)
        who, conditions = problem_in_words(self.theory.problem)
        return who, ", ".join([conditions, *how]).replace("$", "")

    def curve_rows(self) -> list[tuple[str, ...]]:
        """The error at a few times, of each task, as texts."""
        gap = self["error"]
        tasks = [label.removeprefix("error") for label in gap.labels()]
        picked = np.unique(np.linspace(0, self.times.size - 1, min(SHOWN + 1, self.times.size)).astype(int))
        picked = picked[1:] if picked.size > SHOWN else picked  # a start has no gap to show
        return [(f"{self.times[i]:.4g}{task}", *_numbers(gap, i, entry)) for entry, task in enumerate(tasks) for i in picked]

    def worst_rows(self) -> list[tuple[str, ...]]:
        """Each kind of quantity where its z-score is largest, and the share within the limit, as texts."""
        rows, counted = [], self.verdict.counted
        for gap in self.gaps.values():
            (i, entry), labels = gap.worst_place(gap.z, counted), gap.labels()
            inside = np.abs(gap.entries(gap.z)[counted]) < LIMIT
            share = percent(float(inside.mean())) if self.count > 1 else "-"
            name = labels[entry] + f" of {len(labels)}" * (len(labels) > 1)
            rows.append((name, f"{self.times[i]:.4g}", *_numbers(gap, i, entry), share))
        return rows

    def _counted_words(self) -> str:
        """Over which times the second table looks."""
        if self.escape is None or self.verdict.counted.all():
            return "where |z| is largest"
        when = f"alpha < {self.escape.first_departure:.4g}"
        return f"where |z| is largest before the first escape from the plateau, {when}"

    def _remarks(self) -> dict[str, list[str]]:
        """Named lines below the tables."""
        power = "might not detect a change of lr by 50%; add runs, or raise N"
        if self.noticeable is not None and np.isfinite(self.noticeable):
            power = f"would detect a change of lr by {100 * self.noticeable:.2g}% or more (in 9 of 10 cases)"
        rows = {
            "escape": [] if self.escape is None else self.escape.lines(),
            "scatter": [] if self.scatter is None else self.scatter.lines(),
            "notes": list(self.notes),
            "validity": [] if self.validity is None else self.validity.lines(),
            "power": [] if self.noticeable is None else [f"this comparison {power}"],
        }
        return {name: lines for name, lines in rows.items() if lines}

    def _sources(self) -> list[str]:
        """The problem as a file, for the page."""
        if self.theory.problem is None:
            return []
        try:
            text = self.problem_file()
        except InputError as error:  # a function of one's own has no text
            return [f"<h2>The problem</h2><pre>{escape(repr(self.theory.problem))}</pre><p>{escape(str(error))}</p>"]
        return [f"<h2>The problem, as a file for tutelage compare</h2><pre>{escape(text)}</pre>"]

    def problem_file(self) -> str:
        """The problem with its start and times, as `tutelage compare` reads it."""
        assert self.theory.problem is not None
        text, start, times = self.theory.problem.to_toml().strip(), self.theory.start, self.times
        if start is not None:
            given = {name: getattr(start, name) for name in ("R", "Q", "T", "readout", "bias")} | {"dim": self.dim}
            rows = [f"{name} = {np.asarray(x).tolist()}" for name, x in given.items() if x is not None]
            text += "\n\n[start]\n" + "\n".join(rows)
        if times.size > 1 and np.array_equal(times, np.linspace(0.0, times[-1], times.size)):
            text += f"\n\n[times]\nend = {float(times[-1])}\npoints = {times.size}"
        return text


def _plain(value: object) -> object:
    """Numbers and arrays without what JSON cannot hold."""
    if not isinstance(value, float | np.ndarray):
        return value
    return np.where(np.isfinite(value), value, np.array(None)).tolist()


def _numbers(gap: Gap, time: int, entry: int) -> tuple[str, ...]:
    """Theory, runs, gap, standard error, expected gap and z of one number."""
    columns = (gap.theory, gap.mean, gap.gap, gap.standard_error, gap.expected, gap.z)
    theory, mean, off, error, expected, z = (float(gap.entries(x)[time, entry]) for x in columns)
    known = np.isfinite(z)
    size = _short(error, 2) if known else "-"
    likely = f"~{_short(expected, 1)}" if gap.rough else _short(expected, 1, "+")
    score = f"{z:+.1f}" if known else "-"
    return f"{theory:.4g}", f"{mean:.4g}", _short(off, 2, "+"), size, likely, score


def _short(value: float, digits: int, sign: str = "") -> str:
    """A number of few digits; small ones as 1.2e-04, so that sizes in a table compare."""
    if 0 < abs(value) < 1e-3:
        return f"{value:{sign}.{digits - 1}e}"
    return f"{value:{sign}.{digits}g}"


def compare(theory: Trajectory, runs: Trajectory, *, fluctuations: bool = True) -> Comparison:
    """Compare the mean over runs with the theory, for each quantity and time.

    Parameters
    ----------
    theory : Trajectory
        The result of `solve` (or `load`).
    runs : Trajectory
        The result of `simulate` for the same problem, initial condition and times; for custom `Equations` a Trajectory
        of the same variable names with a leading axis of runs.
    fluctuations : bool
        Also predict the scatter of single runs, if this takes no more than a second or two.

    Returns
    -------
    Comparison
        `.verdict`, `.agrees`, the gaps by name, `.plot()`, `.save_html(path)`. The verdict is "agree", "agree within the
        expected finite-N bias", "differ", "inconclusive after the plateau" if SGD noise determines the escape from a
        plateau, or "inconclusive" for one run. docs/compare.md states the criteria.

    Examples
    --------
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
    both, relabeled = match(pair(theory, runs))
    (expected, rough), (shift, shift_notes) = expected_gaps(both), level_shift(both, theory)
    settings, notes = dict(theory.settings), [*both.notes, *shift_notes]
    known = theory.problem is not None and theory.start is not None and theory.tasks is None
    sampled = theory.sampling_errors if known and "moments" in settings else {}
    gaps, rtol = {}, float(settings.get("rtol", 0.0))
    for name in both.compared:
        missed = sampled[name][: both.times.size] if name in sampled else 0.0
        sides = both.theory[name], both.runs[name], expected[name]
        gaps[name] = Gap(name, *sides, rough, shift.get(name, 0.0), rtol, missed)
    validity = theory.validity if known else None
    escape = find_escape(both, validity)
    verdict = decide(gaps, both.times, escape, both.count)
    if both.gradient_flow:
        notes.append("the theory is gradient flow: without the terms of order eta^2 that the runs have")
    if 1 < both.count < 5:
        notes.append(f"{both.count} runs give a standard error that is itself uncertain; run 10 or more")
    if sampled:
        notes.append("the theory's averages are sampled: half of their sampling error counts as a standard error, too")
    if relabeled.any():
        notes.append(f"{relabeled.sum()} of {both.count} runs had their hidden units relabeled before averaging")
    return Comparison(
        theory=theory,
        runs=runs,
        times=both.times,
        count=both.count,
        dim=both.dim,
        gaps=gaps,
        relabeled=relabeled,
        escape=escape,
        validity=validity,
        scatter=predicted_scatter(both, theory, escape) if predict else None,
        verdict=verdict,
        noticeable=noticeable_change(both, theory, gaps, verdict),
        notes=tuple(notes),
    )
