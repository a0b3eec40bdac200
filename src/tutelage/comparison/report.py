"""A comparison for people (tables of rich), and for programs (a dictionary)."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.comparison.resolved import power_words
from tutelage.comparison.verdict import LIMIT, percent, worst_place
from tutelage.storage import error_name

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 6  # rows of the learning curve
CURVE = ("alpha", "theory", "runs", "gap", "s.e.", "expected", "z")
WORST = ("quantity", "alpha", "theory", "runs", "gap", "s.e.", "expected", "z", f"|z|<{LIMIT:g}")
LEGEND = "gap: mean of runs - theory; s.e.: its standard error; expected: the gap of order 1/N that a right theory leaves"


def headline(comparison: Any) -> list[str]:
    """What was compared: the problem in words, and the runs."""
    from tutelage.plot.words import problem_in_words

    settings = dict(comparison.runs.settings)
    how = [f"{comparison.count} run{'s' if comparison.count > 1 else ''}"]
    how += [f"N = {comparison.dim}"] if comparison.dim is not None else []
    how += [f"method {settings['method']}"] if "method" in settings else []
    how += [f"seed {settings['seed']}"] if "seed" in settings else []
    problem = comparison.theory.problem
    if problem is None:
        return [f"A system of one's own: {', '.join(comparison.gaps)}", ", ".join(how)]
    who, conditions = problem_in_words(problem)
    return [who, ", ".join([conditions, *how]).replace("$", "")]


def curve_rows(comparison: Any) -> list[tuple[str, ...]]:
    """The error at a few times."""
    gap, times = comparison["error"], comparison.times
    picked = np.unique(np.linspace(0, times.size - 1, min(SHOWN + 1, times.size)).astype(int))
    picked = picked[1:] if picked.size > SHOWN else picked  # a start has no gap to show
    return [
        (
            f"{times[i]:.4g}",
            _number(gap.theory[i]),
            _number(gap.mean[i]),
            *_scores(gap.gap[i], gap.standard_error[i], gap.expected[i], gap.z[i], gap.rough),
        )
        for i in picked
    ]


def worst_rows(comparison: Any) -> list[tuple[str, ...]]:
    """Each kind of quantity where its z-score is largest, and the share within the limit."""
    rows, counted = [], comparison.verdict.counted
    if not counted.any():
        return rows
    for gap in comparison.gaps.values():
        i, entry = worst_place(gap, "z", counted)
        theory, mean, off, error, expected, z = (
            gap.entries(x)[i, entry] for x in (gap.theory, gap.mean, gap.gap, gap.standard_error, gap.expected, gap.z)
        )
        inside = np.abs(gap.entries(gap.z)[counted]) < LIMIT
        share = percent(float(inside.mean())) if comparison.count > 1 else "-"
        name = gap.labels()[entry] if gap.theory.ndim > 1 else gap.name
        of = f" of {len(gap.labels())}" if len(gap.labels()) > 1 else ""
        scores = _scores(off, error, expected, z, gap.rough)
        rows.append((name + of, f"{comparison.times[i]:.4g}", _number(theory), _number(mean), *scores, share))
    return rows


def remark_rows(comparison: Any) -> list[tuple[str, list[str]]]:
    """Named lines below the tables: escape, scatter, notes, validity, power."""
    rows = []
    if comparison.escape is not None:
        rows.append(("escape", comparison.escape.lines()))
    if comparison.scatter is not None:
        rows.append(("scatter", comparison.scatter.lines()))
    if comparison.notes:
        rows.append(("notes", list(comparison.notes)))
    if comparison.validity is not None:
        rows.append(("validity", comparison.validity.lines()))
    if comparison.noticeable is not None:
        rows.append(("power", [power_words(comparison.noticeable)]))
    return rows


def _scores(gap: float, error: float, expected: float, z: float, rough: bool) -> tuple[str, str, str, str]:
    if not np.isfinite(z):
        return f"{gap:+.2g}", "-", _expected(expected, rough), "-"
    return f"{gap:+.2g}", f"{error:.1e}" if error < 1e-3 else f"{error:.2g}", _expected(expected, rough), f"{z:+.1f}"


def _expected(value: float, rough: bool) -> str:
    return f"~{value:.1g}" if rough else f"{value:+.1g}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def table(comparison: Any) -> "RenderableType":
    """Both tables, the remarks, and the verdict last, where a reader of a terminal looks first."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    who, how = headline(comparison)
    curve, worst, remarks = (
        _grid(CURVE, curve_rows(comparison)),
        _grid(WORST, worst_rows(comparison)),
        Table.grid(padding=(0, 2)),
    )
    remarks.add_column(min_width=8, no_wrap=True)
    for name, lines in (*remark_rows(comparison), ("verdict", [comparison.verdict.sentence])):
        for i, line in enumerate(lines):
            bold = "bold" if name == "verdict" else ""
            remarks.add_row("" if i else Text(name, bold), Text(line, bold))
    label = error_name(comparison.theory.problem) if comparison.theory.problem is not None else "error"
    parts = [Text(who, "bold"), Text(how), Text(""), Text(label), curve, Text("")]
    return Group(*parts, Text(counted_words(comparison)), worst, Text(LEGEND, "dim"), Text(""), remarks)


def counted_words(comparison: Any) -> str:
    """Over which times the second table looks."""
    if comparison.verdict.counted.all():
        return "where |z| is largest"
    if not comparison.verdict.counted.any():
        return "no time before the first departure from the plateau"
    return (
        f"where |z| is largest before the first departure from the plateau, alpha < {comparison.escape.first_departure:.4g}"
    )


def _grid(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    grid = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True, header_style="")
    for i, name in enumerate(head):
        grid.add_column(name, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in rows:
        grid.add_row(*row)
    return grid


def plain_text(comparison: Any, width: int = 110) -> str:
    """The table without colors."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False).print(table(comparison))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def to_dict(comparison: Any) -> dict[str, Any]:
    """Verdict, scores and curves as plain numbers and lists."""
    verdict, escape, matching, scatter = comparison.verdict, comparison.escape, comparison.matching, comparison.scatter
    return {
        "outcome": verdict.outcome,
        "agrees": comparison.agrees,
        "verdict": verdict.sentence,
        "before_escape": verdict.before,
        "within": verdict.within,
        "within_bias": verdict.within_bias,
        "counted_times": int(verdict.counted.sum()),
        "runs": comparison.count,
        "dim": comparison.dim,
        "relabeled": 0 if matching is None else matching.count,
        "escape": None if escape is None else asdict(escape),
        "validity": None if comparison.validity is None else asdict(comparison.validity),
        "scatter": None if scatter is None else scatter.to_dict(),
        "noticeable_lr_change": comparison.noticeable if np.isfinite(comparison.noticeable or np.inf) else None,
        "notes": list(comparison.notes),
        "times": comparison.times.tolist(),
        "quantities": {
            name: {
                part: getattr(gap, part).tolist()
                for part in ("theory", "mean", "gap", "standard_error", "z", "expected", "beyond")
            }
            | {"expected_is_rough": gap.rough}
            for name, gap in comparison.gaps.items()
        },
    }
