"""Keep a formula in a line of text with the punctuation at its sides.

Browsers may break a line between the two.
"""

import re
from typing import Any

from sphinx.application import Sphinx

FORMULA = re.compile(
    r'(\(?)(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:!?)’”]*)'
)


def together(html: str) -> str:
    """Return the page with each such formula and its punctuation in one span."""
    return FORMULA.sub(_span, html)


def _span(found: re.Match[str]) -> str:
    """A formula with its punctuation, unbreakable; one without stays as it is."""
    before, _, after = found.groups()
    if not before and not after:
        return found[0]
    return f'<span class="unbroken">{found[0]}</span>'


def keep_together(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Change the body, for the event before a page is written."""
    if "body" in context:
        context["body"] = together(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension; Sphinx calls it."""
    app.connect("html-page-context", keep_together)
    return {"parallel_read_safe": True}
