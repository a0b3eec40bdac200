"""One page with everything a reader needs, and nothing from elsewhere."""

import re

import pytest
from papers.tests.toys import toy

from tutelage_papers import replicate
from tutelage_papers.gallery import duration, gallery


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    results = [
        replicate(toy(name, slope), folder, quick=True, formats=("png", "svg"))
        for name, slope in (("a-1", 2.0), ("a-2", 4.0))
    ]
    return gallery(results)


def test_scoreboard_on_top(page):
    numbers = re.findall(r"<b>([^<]+)</b>([^<]+)<", page)
    assert [(n, what) for n, what in numbers[:3]] == [
        ("3", "claims pass"),
        ("1", "claims fail"),
        ("2", "claims of a source do not hold"),
    ]
    assert numbers[3][1] == "of computing"
    assert (
        page.index('class="board"') < page.index('class="toc"') < page.index("<section")
    )


def test_every_figure_beside_its_claims_and_command(page):
    for name in ("a-1", "a-2"):
        section = page[page.index(f'<section id="{name}"') :].split("</section>")[0]
        assert "data:image/svg+xml;base64," in section
        assert f"tutelage replicate {name} --quick" in section
        for words in (
            "slope of eq. 7",
            "2 within 1e-09 of it",
            "at most 10",
            "size = 4",
            "Fig. 7, Beyond the four sources",
        ):
            assert words in section
    assert "a line &amp; its slope" in page


def test_errata_are_marked_with_sentence_and_evidence(page):
    assert page.count('<span class="erratum">erratum</span>') == 2
    assert "the source: “the slope is &lt;three&gt;”" in page
    assert "the slope is 2 for every size &amp; start" in page


def test_needs_nothing_else(page):
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "<script" not in page
    assert "@import" not in page


def test_durations():
    assert [duration(s) for s in (0.04, 99.0, 600.0, 7200.0)] == [
        "0.0 s",
        "99.0 s",
        "10.0 min",
        "2.0 h",
    ]
