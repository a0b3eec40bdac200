"""A formula in a line of text stays with the punctuation at its sides: browsers may break a line between the two."""

import re
from typing import Any

from sphinx.application import Sphinx

FORMULA = re.compile(
    r'(\(?)(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:!?)’”]*)'
)


def together(html: str) -> str:
    """The same page with each such formula and its punctuation in one unbreakable span."""
    return FORMULA.sub(
        lambda found: _span(found) if found[1] or found[3] else found[0], html
    )


def _span(found: re.Match[str]) -> str:
    return f'<span class="unbroken">{found[0]}</span>'


def keep_together(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """For the event before a page is written."""
    if "body" in context:
        context["body"] = together(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("html-page-context", keep_together)
    return {"parallel_read_safe": True}
