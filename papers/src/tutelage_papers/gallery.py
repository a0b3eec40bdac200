"""All figures on one page: scoreboard on top, every figure beside its claims, parameters and command."""

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
.board div { flex: 1 1 9rem; border-left: .3rem solid var(--other); background: var(--card); padding: .6rem 1rem; }
.board div.good { border-color: var(--good); } .board div.bad { border-color: var(--bad); }
.board div.plain { border-color: var(--line); }
.board b { display: block; font-size: 1.6rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1rem; }
.beside { display: grid; grid-template-columns: minmax(0, 11fr) minmax(0, 9fr); gap: 1.5rem; align-items: start; }
@media (max-width: 60rem) { .beside { display: block; } }
.beside figure { margin: 0 0 .75rem; } figure img { min-width: 0; }
.claims { width: 100%; font-size: .82rem; }
.claims th, .claims td { padding: .25rem .45rem; vertical-align: top; }
.claims td:first-child { white-space: normal; padding-left: 0; }
.claims th:first-child { padding-left: 0; }
.claims td:last-child, .claims th:last-child { text-align: left; padding-right: 0; }
.mark-good { color: var(--good); } .mark-bad { color: var(--bad); font-weight: 700; } .mark-other { color: var(--other); }
.remark { display: block; color: var(--soft); } .erratum { font-weight: 700; color: var(--other); }
.toc td:first-child { white-space: normal; } .toc a, .beside a { color: var(--other); }
pre.command { margin: .25rem 0 .5rem; padding: .4rem .75rem; }
@media print { body { font-size: 10pt; } .beside { display: block; } .claims th, .claims td { padding: .12rem .4rem; }
  figure img { width: auto; max-width: 100%; max-height: 13.5cm; }
  section { break-before: page; border: 0; margin: 0; padding: 0; } details { display: none; }
  table.claims, table.toc { break-inside: auto; } tr { break-inside: avoid; } a { color: inherit; text-decoration: none; } }
""".strip()


def gallery(results: Sequence[Result]) -> str:
    """The page of these results; each must have its drawing as svg."""
    claims = [claim for result in results for claim in result.claims]
    quick = any(result.quick for result in results)
    version = (
        "quick versions: smaller networks, fewer runs, the same claims"
        if quick
        else "the parameters of the sources"
    )
    seconds = sum(result.seconds for result in results)
    body = [
        "<h1>Published figures, computed again</h1>",
        f'<p class="how">{len(results)} figures, {len(claims)} claims; {version}.</p>',
        _board(count(claims), seconds),
        _contents(results),
        *(_section(result) for result in results),
        f"<footer>tutelage {__version__}. {escape(EXPLANATION)}</footer>",
    ]
    return document("Published figures, computed again", body, STYLE)


EXPLANATION = (
    "A claim passes or fails by its number. “Does not hold” marks a claim of the source that was refuted, with the evidence "
    "beside it. Times are those of the computation, also where its result was kept from an earlier run."
)


def _board(counts: dict[str, int], seconds: float) -> str:
    labels = {
        PASS: "claims pass",
        FAIL: "claims fail",
        DOES_NOT_HOLD: "claims of a source do not hold",
    }
    boxes = [
        f'<div class="{CLASSES[verdict] if counts[verdict] else "plain"}"><b>{counts[verdict]}</b>{labels[verdict]}</div>'
        for verdict in (PASS, FAIL, DOES_NOT_HOLD)
    ]
    return f'<div class="board">{"".join(boxes)}<div class="plain"><b>{duration(seconds)}</b>of computing</div></div>'


def _contents(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        counts = count(result.claims)
        replica = result.replica
        score = " ".join(
            f'<span class="mark-{CLASSES[v]}">{n} {SIGNS[v]}</span>'
            for v, n in counts.items()
            if n
        )
        link = (
            f'<a href="#{replica.id}">{escape(replica.id)}</a> {escape(replica.title)}'
        )
        rows.append(
            f"<tr><td>{link}</td><td>{score}</td><td>{duration(result.seconds)}</td></tr>"
        )
    head = "<tr><th>figure</th><th>claims</th><th>time</th></tr>"
    return f'<div class="scroll"><table class="toc"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _section(result: Result) -> str:
    replica = result.replica
    where = f"{replica.figure}, {SOURCES[replica.source]}; computed in {duration(result.seconds)}"
    claims = "".join(_claim(claim) for claim in result.claims)
    head = "<tr><th>claim</th><th>expected</th><th>measured</th><th>verdict</th></tr>"
    return f"""<section id="{replica.id}">
<h2>{escape(replica.id)}: {escape(capital(replica.title))}</h2>
<p class="how">{escape(where)}</p>
<div class="beside"><div><figure>{_image(result)}</figure>
{_link(result)}<pre class="command">{escape(replica.command(result.quick))}</pre>
<details><summary>Parameters</summary><pre>{escape(_parameters(replica.parameters(result.quick)))}</pre></details></div>
<div class="scroll"><table class="claims"><thead>{head}</thead><tbody>{claims}</tbody></table></div></div>
</section>"""


def _claim(claim: Claim) -> str:
    kind = CLASSES[claim.verdict]
    remarks = []
    if claim.says:
        remarks.append(f"the source: “{escape(claim.says)}”")
    if claim.evidence:
        remarks.append(escape(claim.evidence))
    label = (
        '<span class="erratum">erratum</span> '
        if claim.verdict == DOES_NOT_HOLD
        else ""
    )
    below = "".join(f'<span class="remark">{remark}</span>' for remark in remarks)
    verdict = f'<span class="mark-{kind}">{SIGNS[claim.verdict]} {WORDS[claim.verdict]}</span>'
    return (
        f"<tr><td>{label}{escape(claim.name)}{below}</td><td>{escape(expectation(claim))}</td><td>{claim.measured:.5g}</td>"
        f"<td>{verdict}</td></tr>"
    )


def expectation(claim: Claim) -> str:
    """What is expected, with its tolerance, in one phrase."""
    if claim.tolerance.startswith("between"):
        return claim.tolerance
    if claim.tolerance.startswith("within"):
        return f"{claim.expected:.5g} {claim.tolerance}"
    return f"{claim.tolerance} {claim.expected:.5g}"


def _image(result: Result) -> str:
    """The drawing inside the page; as an image of its own, so that names inside two drawings cannot clash."""
    text = base64.b64encode(result.files["svg"].read_bytes()).decode()
    return f'<img alt="{escape(result.replica.title)}" decoding="async" src="data:image/svg+xml;base64,{text}">'


def _link(result: Result) -> str:
    """To the page of its own, which lies beside the gallery."""
    if "html" not in result.files:
        return ""
    return f'<p><a href="{escape(result.files["html"].name)}">The same with a slider for time</a>, a page beside this one.</p>'


def _parameters(parameters: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {value}" for name, value in parameters.items())


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
