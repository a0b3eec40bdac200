"""All figures on one page: a scoreboard, then every figure beside its claims.

Parameters and the command that computes it stand below each figure.
"""

import base64
from collections.abc import Sequence
from html import escape
from typing import Any

from tutelage import __version__
from tutelage.plot import capital, document
from tutelage_papers.claims import DOES_NOT_HOLD, FAIL, PASS, Claim
from tutelage_papers.registry import SOURCES
from tutelage_papers.run import Result, count

WORDS = {PASS: "pass", FAIL: "fail", DOES_NOT_HOLD: "does not hold"}
SIGNS = {PASS: "✓", FAIL: "✗", DOES_NOT_HOLD: "≠"}
CLASSES = {PASS: "good", FAIL: "bad", DOES_NOT_HOLD: "other"}
STYLE = """
body { max-width: 88rem; }
.board { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.25rem 0; padding: 0; }
.board div { flex: 1 1 9rem; border-left: .3rem solid var(--other);
  background: var(--card); padding: .6rem 1rem; }
.board div.good { border-color: var(--good); }
.board div.bad { border-color: var(--bad); }
.board div.plain { border-color: var(--line); }
.board b { display: block; font-size: 1.6rem; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1rem; }
.beside { display: grid; grid-template-columns: minmax(0, 11fr) minmax(0, 9fr);
  gap: 1.5rem; align-items: start; }
@media (max-width: 60rem) { .beside { display: block; } }
.beside figure { margin: 0 0 .75rem; } figure img { min-width: 0; }
.claims { width: 100%; font-size: .82rem; }
.claims th, .claims td { padding: .25rem .45rem; vertical-align: top; }
.claims td:first-child { white-space: normal; padding-left: 0; }
.claims th:first-child { padding-left: 0; }
.claims td:last-child, .claims th:last-child { text-align: left; padding-right: 0; }
.mark-good { color: var(--good); }
.mark-bad { color: var(--bad); font-weight: 700; }
.mark-other { color: var(--other); }
.remark { display: block; color: var(--soft); }
.erratum { font-weight: 700; color: var(--other); }
.toc td:first-child { white-space: normal; } .toc a, .beside a { color: var(--other); }
pre.command { margin: .25rem 0 .5rem; padding: .4rem .75rem; }
@media print { body { font-size: 10pt; } .beside { display: block; }
  .claims th, .claims td { padding: .12rem .4rem; }
  figure img { width: auto; max-width: 100%; max-height: 13.5cm; }
  section { break-before: page; border: 0; margin: 0; padding: 0; }
  details { display: none; }
  table.claims, table.toc { break-inside: auto; }
  tr { break-inside: avoid; }
  a { color: inherit; text-decoration: none; } }
""".strip()


def gallery(results: Sequence[Result]) -> str:
    """Return the page of these results; each must have its drawing as svg."""
    claims = [claim for result in results for claim in result.claims]
    seconds = sum(result.seconds for result in results)
    version = "the parameters of the sources"
    if any(result.quick for result in results):
        version = "quick versions: smaller networks, fewer runs, the same claims"
    body = [
        "<h1>Published figures, computed again</h1>",
        f'<p class="how">{len(results)} figures, {len(claims)} claims; {version}.</p>',
        _board(count(claims), seconds),
        _contents(results),
    ]
    body += [_section(result) for result in results]
    body.append(f"<footer>tutelage {__version__}. {escape(EXPLANATION)}</footer>")
    return document("Published figures, computed again", body, STYLE)


EXPLANATION = (
    "A claim passes or fails by its number. “Does not hold” marks a claim of the "
    "source that was refuted, with the evidence beside it. Times are those of the "
    "computation, also where its result was kept from an earlier run."
)
LABELS = {
    PASS: "claims pass",
    FAIL: "claims fail",
    DOES_NOT_HOLD: "claims of a source do not hold",
}


def _board(counts: dict[str, int], seconds: float) -> str:
    """The scoreboard: a box for each verdict, and one for the time."""
    boxes = []
    for verdict, label in LABELS.items():
        number = counts[verdict]
        kind = CLASSES[verdict] if number else "plain"
        boxes.append(f'<div class="{kind}"><b>{number}</b>{label}</div>')
    time = duration(seconds)
    boxes.append(f'<div class="plain"><b>{time}</b>of computing</div>')
    return f'<div class="board">{"".join(boxes)}</div>'


def _contents(results: Sequence[Result]) -> str:
    """A table of all figures with their numbers of claims and their times."""
    rows = []
    for result in results:
        replica = result.replica
        name = escape(replica.id)
        link = f'<a href="#{replica.id}">{name}</a> {escape(replica.title)}'
        time = duration(result.seconds)
        rows.append(f"<tr><td>{link}</td><td>{_score(result)}</td><td>{time}</td></tr>")
    head = "<tr><th>figure</th><th>claims</th><th>time</th></tr>"
    return (
        f'<div class="scroll"><table class="toc"><thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _score(result: Result) -> str:
    """The number of claims of each verdict, with its sign."""
    parts = []
    for verdict, number in count(result.claims).items():
        if number:
            kind = CLASSES[verdict]
            parts.append(f'<span class="mark-{kind}">{number} {SIGNS[verdict]}</span>')
    return " ".join(parts)


def _section(result: Result) -> str:
    """One figure beside the table of its claims."""
    replica = result.replica
    where = (
        f"{replica.figure}, {SOURCES[replica.source]}; "
        f"computed in {duration(result.seconds)}"
    )
    command = escape(replica.command(result.quick))
    parameters = escape(_parameters(replica.parameters(result.quick)))
    claims = "".join(_claim(claim) for claim in result.claims)
    head = "<tr><th>claim</th><th>expected</th><th>measured</th><th>verdict</th></tr>"
    return f"""<section id="{replica.id}">
<h2>{escape(replica.id)}: {escape(capital(replica.title))}</h2>
<p class="how">{escape(where)}</p>
<div class="beside"><div><figure>{_image(result)}</figure>
{_link(result)}<pre class="command">{command}</pre>
<details><summary>Parameters</summary><pre>{parameters}</pre></details></div>
<div class="scroll"><table class="claims"><thead>{head}</thead>
<tbody>{claims}</tbody></table></div></div>
</section>"""


def _claim(claim: Claim) -> str:
    """A row of the table of claims; the evidence stands below the sentence."""
    kind = CLASSES[claim.verdict]
    name = escape(claim.name)
    if claim.verdict == DOES_NOT_HOLD:
        name = f'<span class="erratum">erratum</span> {name}'
    if claim.says:
        name += f'<span class="remark">the source: “{escape(claim.says)}”</span>'
    if claim.evidence:
        name += f'<span class="remark">{escape(claim.evidence)}</span>'
    words = f"{SIGNS[claim.verdict]} {WORDS[claim.verdict]}"
    return (
        f"<tr><td>{name}</td><td>{escape(expectation(claim))}</td>"
        f"<td>{claim.measured:.5g}</td>"
        f'<td><span class="mark-{kind}">{words}</span></td></tr>'
    )


def expectation(claim: Claim) -> str:
    """Return the expected number with its tolerance, in one phrase."""
    if claim.tolerance.startswith("between"):
        return claim.tolerance
    if claim.tolerance.startswith("within"):
        return f"{claim.expected:.5g} {claim.tolerance}"
    return f"{claim.tolerance} {claim.expected:.5g}"


def _image(result: Result) -> str:
    """The drawing inside the page, as an image of its own.

    Names inside two drawings cannot clash that way.
    """
    text = base64.b64encode(result.files["svg"].read_bytes()).decode()
    title = escape(result.replica.title)
    source = f"data:image/svg+xml;base64,{text}"
    return f'<img alt="{title}" decoding="async" src="{source}">'


def _link(result: Result) -> str:
    """A link to the page of its own, which lies beside the gallery."""
    if "html" not in result.files:
        return ""
    name = escape(result.files["html"].name)
    return (
        f'<p><a href="{name}">The same with a slider for time</a>, '
        "a page beside this one.</p>"
    )


def _parameters(parameters: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {value}" for name, value in parameters.items())


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"
