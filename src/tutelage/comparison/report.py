"""A comparison for people (tables of rich, one HTML page that needs nothing else), and for programs (a dictionary)."""

from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.comparison.expected import power_words
from tutelage.comparison.verdict import AGREE, BIASED, DIFFER, LIMIT, Gap, percent, worst_place
from tutelage.plot.html import bullets, document, svg_element, table
from tutelage.plot.labels import capital, problem_in_words
from tutelage.problem import Problem, Start
from tutelage.storage import error_name

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from tutelage.comparison.compare import Comparison

SHOWN = 6  # rows of the learning curve
CURVE = ("alpha", "theory", "runs", "gap", "s.e.", "expected", "z")
WORST = ("quantity", "alpha", "theory", "runs", "gap", "s.e.", "expected", "z", f"|z|<{LIMIT:g}")
LEGEND = "gap: mean of runs - theory; s.e.: its standard error; expected: the gap of order 1/N that a right theory leaves"


def headline(comparison: "Comparison") -> list[str]:
    """What was compared: the problem in words, and the runs."""
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


def curve_rows(comparison: "Comparison") -> list[tuple[str, ...]]:
    """The error at a few times, of each task."""
    gap, times = comparison["error"], comparison.times
    tasks = [""] if gap.theory.ndim == 1 else [f", task {i + 1}" for i in range(gap.theory.shape[1])]
    picked = np.unique(np.linspace(0, times.size - 1, min(SHOWN + 1, times.size)).astype(int))
    picked = picked[1:] if picked.size > SHOWN else picked  # a start has no gap to show
    return [(f"{times[i]:.4g}{task}", *_numbers(gap, i, entry)) for entry, task in enumerate(tasks) for i in picked]


def worst_rows(comparison: "Comparison") -> list[tuple[str, ...]]:
    """Each kind of quantity where its z-score is largest, and the share within the limit."""
    rows, counted = [], comparison.verdict.counted
    if not counted.any():
        return rows
    for gap in comparison.gaps.values():
        i, entry = worst_place(gap, "z", counted)
        inside = np.abs(gap.entries(gap.z)[counted]) < LIMIT
        share = percent(float(inside.mean())) if comparison.count > 1 else "-"
        name = gap.labels()[entry] if gap.theory.ndim > 1 else gap.name
        of = f" of {len(gap.labels())}" if len(gap.labels()) > 1 else ""
        rows.append((name + of, f"{comparison.times[i]:.4g}", *_numbers(gap, i, entry), share))
    return rows


def remark_rows(comparison: "Comparison") -> list[tuple[str, list[str]]]:
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


def _numbers(gap: Gap, time: int, entry: int) -> tuple[str, ...]:
    """Theory, runs, gap, standard error, expected gap and z of one number."""
    columns = (gap.theory, gap.mean, gap.gap, gap.standard_error, gap.expected, gap.z)
    theory, mean, off, error, expected, z = (float(gap.entries(x)[time, entry]) for x in columns)
    known, size = np.isfinite(z), f"{error:.1e}" if error < 1e-3 else f"{error:.2g}"
    likely = f"~{expected:.1g}" if gap.rough else f"{expected:+.1g}"
    return f"{theory:.4g}", f"{mean:.4g}", f"{off:+.2g}", size if known else "-", likely, f"{z:+.1f}" if known else "-"


def terminal_table(comparison: "Comparison") -> "RenderableType":
    """Both tables, the remarks, and the verdict last, where a reader of a terminal looks first."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    who, how = headline(comparison)
    curve, worst = _grid(CURVE, curve_rows(comparison)), _grid(WORST, worst_rows(comparison))
    remarks = Table.grid(padding=(0, 2))
    remarks.add_column(min_width=8, no_wrap=True)
    for name, lines in (*remark_rows(comparison), ("verdict", [comparison.verdict.sentence])):
        for i, line in enumerate(lines):
            bold = "bold" if name == "verdict" else ""
            remarks.add_row("" if i else Text(name, bold), Text(line, bold))
    label = error_name(comparison.theory.problem) if comparison.theory.problem is not None else "error"
    parts = [Text(who, "bold"), Text(how), Text(""), Text(label), curve, Text("")]
    return Group(*parts, Text(counted_words(comparison)), worst, Text(LEGEND, "dim"), Text(""), remarks)


def counted_words(comparison: "Comparison") -> str:
    """Over which times the second table looks."""
    if comparison.verdict.counted.all():
        return "where |z| is largest"
    escape = comparison.escape
    if escape is None or not comparison.verdict.counted.any():
        return "no time before the first departure from the plateau"
    return f"where |z| is largest before the first departure from the plateau, alpha < {escape.first_departure:.4g}"


def _grid(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    grid = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True, header_style="")
    for i, name in enumerate(head):
        grid.add_column(name, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in rows:
        grid.add_row(*row)
    return grid


def plain_text(comparison: "Comparison", width: int = 110) -> str:
    """The table without colors."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    console.print(terminal_table(comparison))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def to_dict(comparison: "Comparison") -> dict[str, Any]:
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


def page(comparison: "Comparison") -> str:
    """Verdict, figure, tables, escape, validity, and the problem as TOML and Python."""
    who, how = headline(comparison)
    drawing = svg_element(comparison.plot(title=""), "Theory and runs against time")
    body = [
        f"<h1>{escape(who)}</h1>",
        f'<p class="how">{escape(how)}</p>',
        _verdict(comparison),
        f'<figure><div class="scroll">{drawing}</div>',
        f"<figcaption>{escape(_caption(comparison))}</figcaption></figure>",
        f"<h2>Error along the curve</h2>{table(CURVE, curve_rows(comparison))}",
        f"<h2>{escape(capital(counted_words(comparison)))}</h2>{table(WORST, worst_rows(comparison))}",
        *(f"<h2>{escape(capital(name))}</h2>{bullets(lines)}" for name, lines in remark_rows(comparison)),
        *_sources(comparison),
        f"<footer>{escape(capital(LEGEND))}. tutelage {__version__}</footer>",
    ]
    return document(f"{who}: {comparison.verdict.outcome}", body)


def _verdict(comparison: "Comparison") -> str:
    outcome, sentence = comparison.verdict.outcome, comparison.verdict.sentence
    kind = {AGREE: "good", BIASED: "good", DIFFER: "bad"}.get(outcome, "")
    rest = sentence.removeprefix(f"{outcome}: ")
    return f'<p class="verdict {kind}"><b>{escape(capital(outcome))}</b> {escape(capital(rest))}.</p>'


def _caption(comparison: "Comparison") -> str:
    many = "bands: mean of the runs ± 2 standard errors, marks on it; thin: single runs"
    runs = many if comparison.count > 1 else "marks: the run"
    pale = "; pale: two standard deviations of single runs, predicted" if comparison.scatter is not None else ""
    return f"Lines: theory; {runs}{pale}."


def _sources(comparison: "Comparison") -> list[str]:
    problem = comparison.theory.problem
    if problem is None:
        return []
    try:
        toml, python = problem_file(comparison, problem), snippet(comparison, problem)
    except InputError as error:  # a function of one's own has no text
        return [f"<h2>The problem</h2><pre>{escape(repr(problem))}</pre><p>{escape(str(error))}</p>"]
    return [
        f"<h2>The problem, as a file for tutelage compare</h2><pre>{escape(toml)}</pre>",
        f"<details><summary>The same in Python</summary><pre>{escape(python)}</pre></details>",
    ]


def problem_file(comparison: "Comparison", problem: Problem) -> str:
    """The problem with its start and times, as `tutelage compare` reads it."""
    start, times = comparison.theory.start, comparison.times
    text = problem.to_toml().strip()
    if start is not None:
        rows = [f"{name} = {np.asarray(getattr(start, name)).tolist()}" for name in _given(start)]
        rows += [f"dim = {comparison.dim}"] if comparison.dim is not None else []
        text += "\n\n[start]\n" + "\n".join(rows)
    return text + (f"\n\n[times]\nend = {float(times[-1])}\npoints = {times.size}" if _even(times) else "")


def _given(start: Start) -> list[str]:
    return [name for name in ("R", "Q", "T", "readout", "bias") if getattr(start, name) is not None]


def _even(times: np.ndarray) -> bool:
    return times.size > 1 and np.array_equal(times, np.linspace(0.0, times[-1], times.size))


def snippet(comparison: "Comparison", problem: Problem) -> str:
    """Python that computes all of this again."""
    theory, runs = comparison.theory, comparison.runs
    start, settings = theory.start, dict(runs.settings)
    lines = ["import tutelage as tu", "", f'problem = tu.Problem.from_toml("""\n{problem.to_toml().strip()}\n""")']
    if start is not None:
        parts = [f"    {name}={np.asarray(getattr(start, name)).tolist()},\n" for name in _given(start)]
        lines.append(f"start = tu.Start(\n{''.join(parts)}    dim={comparison.dim},\n)")
    lines.append(f"times = {_times(comparison.times)}")
    flow = ", gradient_flow=True" if dict(theory.settings).get("gradient_flow") else ""
    lines.append(f"theory = tu.solve(problem, {'start' if start is not None else None}, times=times{flow})")
    options = {"dim": comparison.dim, "runs": comparison.count}
    options |= {name: settings[name] for name in ("seed", "method") if name in settings}
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    lines.append(f"runs = tu.simulate(problem, {'start' if start is not None else None}, times=times, {given})")
    return "\n".join([*lines, "print(tu.compare(theory, runs))"])


def _times(times: np.ndarray) -> str:
    if _even(times):
        return f"tu.linear_times({times[-1]:g}, {times.size})"
    return str(times.tolist())
