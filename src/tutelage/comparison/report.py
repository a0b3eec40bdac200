"""The report of a comparison: as text, as a page, and as the card of a notebook."""

from html import escape
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tutelage._html import bullets, card, sparkline, table
from tutelage._version import __version__
from tutelage.comparison.gaps import Gap
from tutelage.comparison.verdict import LIMIT, percent
from tutelage.errors import InputError
from tutelage.plot.labels import capital, problem_in_words
from tutelage.plot.style import document, svg_element
from tutelage.result.storage import error_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tutelage.comparison.result import Comparison

Rows: TypeAlias = list[tuple[str, ...]]
SHOWN = 6  # rows of the learning curve
TEXT_WIDTH = 110  # columns of the report as text
# Columns of the table of the learning curve, and of that of the largest z-scores.
CURVE = ("alpha", "theory", "runs", "gap", "s.e.", "expected", "z")
WORST = ("quantity", *CURVE, f"|z|<{LIMIT:g}")
LEGEND = (
    "gap: mean of runs - theory; s.e.: its standard error; "
    "expected: the finite-N bias, of order 1/N"
)


def curve_rows(comparison: "Comparison") -> Rows:
    """Return the error at a few times, of each task, as texts."""
    gap = comparison["error"]
    times = comparison.times
    places = np.linspace(0, times.size - 1, min(SHOWN + 1, times.size))
    picked = np.unique(places.astype(int))
    if picked.size > SHOWN:
        picked = picked[1:]  # a start has no gap to show
    rows = []
    for entry, label in enumerate(gap.labels()):
        task = label.removeprefix("error")
        for i in picked:
            rows.append((f"{times[i]:.4g}{task}", *_numbers(gap, i, entry)))
    return rows


def worst_rows(comparison: "Comparison") -> Rows:
    """Return each kind of quantity where its |z| is largest, as texts.

    The last column is the share within the limit.
    """
    rows = []
    counted = comparison.verdict.counted
    for gap in comparison.gaps.values():
        i, entry = gap.worst_place(gap.z, counted)
        labels = gap.labels()
        name = labels[entry]
        if len(labels) > 1:
            name += f" of {len(labels)}"
        share = "-"
        if comparison.count > 1:
            inside = np.abs(gap.entries(gap.z)[counted]) < LIMIT
            share = percent(float(inside.mean()))
        time = f"{comparison.times[i]:.4g}"
        rows.append((name, time, *_numbers(gap, i, entry), share))
    return rows


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


def _headline(comparison: "Comparison") -> tuple[str, str]:
    """Return the problem in words, and its conditions with those of the runs."""
    settings = dict(comparison.runs.settings)
    runs = f"{comparison.count} run"
    if comparison.count > 1:
        runs += "s"
    conditions = [runs]
    if comparison.dim is not None:
        conditions.append(f"N = {comparison.dim}")
    for name in ("method", "seed"):
        if name in settings:
            conditions.append(f"{name} {settings[name]}")
    problem = comparison.theory.problem
    if problem is None:
        names = ", ".join(comparison.gaps)
        return f"Custom equations: {names}", ", ".join(conditions)
    subject, of_problem = problem_in_words(problem)
    return subject, ", ".join([of_problem, *conditions]).replace("$", "")


def _counted_in_words(comparison: "Comparison") -> str:
    """Return the heading of the second table, with the times that it counts."""
    if comparison.escape is None or comparison.verdict.counted.all():
        return "where |z| is largest"
    when = f"alpha < {comparison.escape.first_departure:.4g}"
    return f"where |z| is largest before the first escape from the plateau, {when}"


# As text


def as_renderable(comparison: "Comparison") -> "RenderableType":
    """Return the report as a rich renderable."""
    from rich.console import Group
    from rich.text import Text

    subject, conditions = _headline(comparison)
    label = "error"
    if comparison.theory.problem is not None:
        label = error_name(comparison.theory.problem)
    return Group(
        Text(subject, "bold"),
        Text(conditions),
        Text(""),
        Text(label),
        _grid(CURVE, curve_rows(comparison)),
        Text(""),
        Text(_counted_in_words(comparison)),
        _grid(WORST, worst_rows(comparison)),
        Text(LEGEND, "dim"),
        Text(""),
        _remarks_grid(comparison),
    )


def _grid(head: tuple[str, ...], rows: Rows) -> "RenderableType":
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


def _remarks_grid(comparison: "Comparison") -> "RenderableType":
    """Return the remarks and the verdict, each after its name."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=8, no_wrap=True)
    for title, lines in comparison.remarks().items():
        titles = [title] + [""] * (len(lines) - 1)
        for shown_title, line in zip(titles, lines, strict=True):
            grid.add_row(Text(shown_title), Text(line))
    sentence = comparison.verdict.sentence
    grid.add_row(Text("verdict", "bold"), Text(sentence, "bold"))
    return grid


def as_text(comparison: "Comparison") -> str:
    """Return the report as plain text."""
    from rich.console import Console

    out = StringIO()
    console = Console(
        file=out,
        width=TEXT_WIDTH,
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(as_renderable(comparison))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


# As HTML


def as_card(comparison: "Comparison") -> str:
    """Return the report as HTML for a cell of a notebook."""
    subject, conditions = _headline(comparison)
    sentence = capital(comparison.verdict.sentence)
    gap = comparison["error"]
    theory = gap.entries(gap.theory)[:, 0]
    mean = gap.entries(gap.mean)[:, 0]
    curves = np.stack([theory, mean])
    remarks = []
    for title, lines in comparison.remarks().items():
        remarks += [f"{title}: {line}" for line in lines]
    return card(
        f"Comparison: {subject}",
        f"<div><b>{escape(sentence)}</b></div>",
        sparkline(comparison.times, curves, "error, theory and mean of runs"),
        table(WORST, worst_rows(comparison)),
        bullets(remarks),
        words=conditions,
    )


def as_page(comparison: "Comparison") -> str:
    """Return the report as one page that needs no network and no scripts."""
    subject, conditions = _headline(comparison)
    figure = svg_element(comparison.plot(title=""), "Theory and runs against time")
    curve = table(CURVE, curve_rows(comparison))
    worst = table(WORST, worst_rows(comparison))
    remarks = [
        _section(capital(title), bullets(lines))
        for title, lines in comparison.remarks().items()
    ]
    body = [
        f"<h1>{escape(subject)}</h1>",
        f'<p class="how">{escape(conditions)}</p>',
        _verdict_paragraph(comparison),
        f'<figure><div class="scroll">{figure}</div>',
        f"<figcaption>{escape(_caption(comparison))}</figcaption></figure>",
        _section("Error along the curve", curve),
        _section(capital(_counted_in_words(comparison)), worst),
        *remarks,
        *_problem_section(comparison),
        f"<footer>{escape(capital(LEGEND))}. tutelage {__version__}</footer>",
    ]
    return document(f"{subject}: {comparison.verdict.outcome}", body)


def _verdict_paragraph(comparison: "Comparison") -> str:
    """Return the verdict of the page, colored by its outcome."""
    outcome = comparison.verdict.outcome
    sentence = capital(comparison.verdict.sentence.removeprefix(f"{outcome}: "))
    style = {True: "good", False: "bad", None: ""}[comparison.agrees]
    bold_outcome = f"<b>{escape(capital(outcome))}</b>"
    return f'<p class="verdict {style}">{bold_outcome} {escape(sentence)}.</p>'


def _section(heading: str, content: str) -> str:
    """Return a section of the page, under its heading."""
    return f"<h2>{escape(heading)}</h2>{content}"


def _caption(comparison: "Comparison") -> str:
    """Return the caption of the figure of the page."""
    marks = "marks: the run"
    if comparison.count > 1:
        marks = (
            "bands: mean of the runs ± 2 standard errors, marks on it; "
            "thin: single runs"
        )
    pale = ""
    if comparison.scatter is not None:
        pale = "; pale: two standard deviations of single runs, predicted"
    return f"Lines: theory; {marks}{pale}."


def _problem_section(comparison: "Comparison") -> list[str]:
    """Return the problem as a file, for the page."""
    problem = comparison.theory.problem
    if problem is None:
        return []
    try:
        text = comparison.problem_file()
    except InputError as error:  # a custom function has no text
        listing = f"<pre>{escape(repr(problem))}</pre><p>{escape(str(error))}</p>"
        return [_section("The problem", listing)]
    listing = f"<pre>{escape(text)}</pre>"
    return [_section("The problem, as a file for tutelage compare", listing)]
