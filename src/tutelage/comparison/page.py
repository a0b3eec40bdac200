"""The report as one HTML page that needs nothing else."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.comparison.report import CURVE, LEGEND, WORST, counted_words, curve_rows, headline, remark_rows, worst_rows
from tutelage.comparison.verdict import AGREE, BIASED, DIFFER
from tutelage.plot.html import bullets, capital, document, svg_element, table, write_text


def page(comparison: Any) -> str:
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


def write_page(comparison: Any, path: str | Path) -> Path:
    """The page as a file, complete or not there at all."""
    return write_text(path, page(comparison))


def _verdict(comparison: Any) -> str:
    outcome, sentence = comparison.verdict.outcome, comparison.verdict.sentence
    kind = {AGREE: "good", BIASED: "good", DIFFER: "bad"}.get(outcome, "")
    rest = sentence.removeprefix(f"{outcome}: ")
    return f'<p class="verdict {kind}"><b>{escape(capital(outcome))}</b> {escape(capital(rest))}.</p>'


def _caption(comparison: Any) -> str:
    runs = (
        "bands: mean of the runs ± 2 standard errors, marks on it; thin: single runs"
        if comparison.count > 1
        else "marks: the run"
    )
    pale = "; pale: two standard deviations of single runs, predicted" if comparison.scatter is not None else ""
    return f"Lines: theory; {runs}{pale}."


def _sources(comparison: Any) -> list[str]:
    problem = comparison.theory.problem
    if problem is None:
        return []
    try:
        toml = problem_file(comparison)
    except InputError as error:  # a function of one's own has no text
        return [f"<h2>The problem</h2><pre>{escape(repr(problem))}</pre><p>{escape(str(error))}</p>"]
    return [
        f"<h2>The problem, as a file for tutelage compare</h2><pre>{escape(toml)}</pre>",
        f"<details><summary>The same in Python</summary><pre>{escape(snippet(comparison))}</pre></details>",
    ]


def problem_file(comparison: Any) -> str:
    """The problem with its start and times, as `tutelage compare` reads it."""
    start, times = comparison.theory.start, comparison.times
    text = comparison.theory.problem.to_toml().strip()
    if start is not None:
        rows = [f"{name} = {np.asarray(getattr(start, name)).tolist()}" for name in _given(start)]
        rows += [f"dim = {comparison.dim}"] if comparison.dim is not None else []
        text += "\n\n[start]\n" + "\n".join(rows)
    return text + (f"\n\n[times]\nend = {float(times[-1])}\npoints = {times.size}" if _even(times) else "")


def _given(start: Any) -> list[str]:
    return [name for name in ("R", "Q", "T", "readout", "bias") if getattr(start, name) is not None]


def _even(times: np.ndarray) -> bool:
    return times.size > 1 and np.array_equal(times, np.linspace(0.0, times[-1], times.size))


def snippet(comparison: Any) -> str:
    """Python that computes all of this again."""
    theory, runs = comparison.theory, comparison.runs
    start, settings = theory.start, dict(runs.settings)
    lines = ["import tutelage as tu", "", f'problem = tu.Problem.from_toml("""\n{theory.problem.to_toml().strip()}\n""")']
    if start is not None:
        parts = [f"    {name}={np.asarray(getattr(start, name)).tolist()},\n" for name in _given(start)]
        lines.append(f"start = tu.Start(\n{''.join(parts)}    dim={comparison.dim},\n)")
    lines.append(f"times = {_times(comparison.times)}")
    flow = ", gradient_flow=True" if dict(theory.settings).get("gradient_flow") else ""
    lines.append(f"theory = tu.solve(problem, {'start' if start is not None else None}, times=times{flow})")
    options = {"dim": comparison.dim, "runs": comparison.count} | {
        n: settings[n] for n in ("seed", "method") if n in settings
    }
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    lines.append(f"runs = tu.simulate(problem, {'start' if start is not None else None}, times=times, {given})")
    return "\n".join([*lines, "print(tu.compare(theory, runs))"])


def _times(times: np.ndarray) -> str:
    if _even(times):
        return f"tu.linear_times({times[-1]:g}, {times.size})"
    return str(times.tolist())
