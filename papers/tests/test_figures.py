"""The quick version of every figure, once: no claim fails, and it is legible."""

import math

import pytest
from papers.tests.legible import complaints

from tutelage.plot import style
from tutelage_papers import replicas

FIGURES = replicas()


@pytest.mark.parametrize("name", FIGURES)
def test_quick_version(name, quick):
    result = quick(name)
    assert result.claims
    assert [str(claim) for claim in result.claims if claim.verdict == "fail"] == []
    assert all(math.isfinite(claim.measured) for claim in result.claims)
    names = [claim.name for claim in result.claims]
    assert all(names)
    assert len(set(names)) == len(names), "two claims have the same name"
    assert result.files["png"].stat().st_size > 10_000
    assert result.files["svg"].stat().st_size < 3_000_000, (
        "too heavy for the gallery: draw fewer points"
    )
    has_page = FIGURES[name].page is not None
    assert ("html" in result.files) == has_page
    if has_page:
        assert result.files["html"].stat().st_size < 3_000_000
    with style():
        figure = FIGURES[name].draw(result.data)
    assert complaints(figure) == [], (
        "marks or words are cut off or hidden, or a color has no name (legible.py)"
    )
