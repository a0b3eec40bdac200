"""Write docs/bibliography.md from the table of works, result/bibliography.toml.

python docs/_site/bibliography.py
"""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))

from tutelage.result.citations import bibliography  # noqa: E402

PAGE = DOCS / "bibliography.md"
HEAD = """# Bibliography

The works that tutelage implements or tests against, by subject. `cite()` of a theory, a comparison
or an analysis of the end of training prints those behind it, with BibTeX."""
FOOT = """The gallery also computes the figures of a primer on analytical learning dynamics (2025) and of notes on online SGD in high
dimension; [coming from](coming-from.md) translates their code."""


def page() -> str:
    """Return the text of the page."""
    lines = [HEAD]
    subject = None
    for work in bibliography().values():
        if work.subject != subject:
            subject = work.subject
            lines += ["", f"## {subject}", ""]
        note = f": {work.note}" if work.note else ""
        lines.append(f"- {work.text(mark='*')}{note}.")
    return "\n".join([*lines, "", FOOT, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
