"""The report as one HTML page: it needs no network and no scripts, and reads on a phone, in the dark and on paper."""

import io
import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage._files import require_place, whole_file
from tutelage._version import __version__
from tutelage.compare.report import CURVE, LEGEND, WORST, counted_words, curve_rows, headline, remark_rows, worst_rows
from tutelage.compare.verdict import AGREE, BIASED, DIFFER

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #5c5c5c; --paper: #fff; --line: #d9d9d9; --card: #f5f5f3;
  --good: #00694b; --bad: #b03a00; --other: #005a8e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --soft: #a8a8a4; --paper: #16181a; --line: #3a3d40;
  --card: #1f2225; --good: #4fc79c; --bad: #ff9a66; --other: #6cb8ec; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.how, figcaption, footer { color: var(--soft); }
.verdict { border-left: .3rem solid var(--other); background: var(--card); padding: .75rem 1rem; margin: 1.25rem 0; }
.verdict b { color: var(--other); font-size: 1.1rem; display: block; }
.good { border-color: var(--good); } .good b { color: var(--good); }
.bad { border-color: var(--bad); } .bad b { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .7rem; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
figure { margin: 1rem 0; }
figure svg { width: 100%; min-width: 32rem; height: auto; display: block; background: #fff; }
@media (prefers-color-scheme: dark) { figure svg { filter: invert(.91) hue-rotate(180deg); } }
ul { padding-left: 1.1rem; margin: .25rem 0; }
pre { background: var(--card); padding: .75rem 1rem; overflow-x: auto; font-size: .85rem; line-height: 1.4; }
details > summary { cursor: pointer; font-weight: 600; margin: 1rem 0 .5rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .75rem; font-size: .85rem; }
@media print { :root { --ink: #000; --soft: #333; --paper: #fff; --card: #fff; --line: #999; }
  body { max-width: none; padding: 0; } figure svg { filter: none; min-width: 0; } pre { white-space: pre-wrap; }
  figure, table, .verdict, pre { break-inside: avoid; } }
""".strip()


def page(comparison: Any) -> str:
    """Verdict, figure, tables, escape, validity, and the problem as TOML and Python."""
    who, how = headline(comparison)
    body = [
        f"<h1>{escape(who)}</h1>",
        f'<p class="how">{escape(how)}</p>',
        _verdict(comparison),
        f'<figure><div class="scroll">{figure_svg(comparison)}</div>',
        f"<figcaption>{escape(_caption(comparison))}</figcaption></figure>",
        f"<h2>Error along the curve</h2>{_table(CURVE, curve_rows(comparison))}",
        f"<h2>{escape(_capital(counted_words(comparison)))}</h2>{_table(WORST, worst_rows(comparison))}",
        *(f"<h2>{escape(_capital(name))}</h2>{_list(lines)}" for name, lines in remark_rows(comparison)),
        *_sources(comparison),
        f"<footer>{escape(_capital(LEGEND))}. tutelage {__version__}</footer>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(who)}: {escape(comparison.verdict.outcome)}</title><style>{STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def write_page(comparison: Any, path: str | Path) -> Path:
    """The page as a file, complete or not there at all."""
    path = require_place(Path(path))
    text = page(comparison)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def figure_svg(comparison: Any) -> str:
    """The figure without what only a separate file needs (and without the addresses in its metadata)."""
    from tutelage.plot import style

    out = io.StringIO()
    with style():
        comparison.plot(title="").savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)  # the page sets them
    return f"{head}>{rest}".replace("<svg", '<svg role="img" aria-label="Theory and runs against time"', 1)


def _verdict(comparison: Any) -> str:
    outcome, sentence = comparison.verdict.outcome, comparison.verdict.sentence
    kind = {AGREE: "good", BIASED: "good", DIFFER: "bad"}.get(outcome, "")
    rest = sentence.removeprefix(f"{outcome}: ")
    return f'<p class="verdict {kind}"><b>{escape(_capital(outcome))}</b> {escape(_capital(rest))}.</p>'


def _caption(comparison: Any) -> str:
    runs = (
        "bands: mean of the runs ± 2 standard errors, marks on it; thin: single runs"
        if comparison.count > 1
        else "marks: the run"
    )
    return f"Lines: theory; {runs}."


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
