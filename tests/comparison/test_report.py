"""The report as text, JSON and a page that needs nothing else."""

import json
import re
import tomllib

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import runs, theory


@pytest.fixture(scope="module")
def result():
    return tu.compare(theory(), runs())


@pytest.fixture(scope="module")
def page(result):
    return result.to_html()


def test_text_says_all(result):
    text = str(result)
    for words in (
        "2 erf units learn from 2 erf units",
        "100 runs, N = 200",
        "method overlaps",
        "verdict",
        "validity",
        "expected",
    ):
        assert words in text
    assert result.verdict.sentence[:60] in text
    assert max(map(len, text.splitlines())) <= 110
    assert repr(result) == "<Comparison of 100 runs at 41 times: agree>"


def test_rows_are_the_numbers(result):
    last = result.curve_rows()[-1]
    assert last[:3] == (
        "20",
        f"{theory().error[-1]:.4g}",
        f"{runs().error[:, -1].mean():.4g}",
    )
    assert result.worst_rows()[0][0] == "error"
    largest = max(np.abs(result["Q"].z[:, *np.triu_indices(2)]).ravel())
    assert f"{largest:.1f}" == result.worst_rows()[2][7].lstrip("+-")


def test_table_fits_a_terminal(result):
    from io import StringIO

    from rich.console import Console

    console = Console(width=80, record=True, file=StringIO())
    console.print(result.table())
    assert "…" not in console.export_text()


def test_json(result):
    answer = json.loads(json.dumps(result.to_dict()))
    assert answer["outcome"] == "agree"
    assert answer["quantities"]["R"]["gap"] == result["R"].gap.tolist()
    assert set(answer["quantities"]["Q"]) >= {
        "theory",
        "mean",
        "gap",
        "standard_error",
        "z",
        "expected",
        "beyond",
    }


def test_the_page_needs_nothing_else(result, page, tmp_path, monkeypatch):
    monkeypatch.setattr(type(result), "to_html", lambda self: page)
    path = result.save_html(tmp_path / "page.html")
    text = path.read_text()
    assert list(tmp_path.iterdir()) == [path]
    assert re.findall(r"<script|<link|<img|<iframe|@import", text) == []
    outside = [
        a
        for a in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", text)
        if not a.startswith("#")
    ]
    assert outside == []
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    for words in (
        "<svg",
        "viewport",
        "prefers-color-scheme: dark",
        "@media print",
        "[student]",
        "Validity",
    ):
        assert words in text
    assert text.count("<h1>") == 1


def test_the_page_is_well_formed(page):
    from html.parser import HTMLParser

    class Tags(HTMLParser):
        open: list = []  # noqa: RUF012

        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "path", "use", "rect", "br"):
                self.open.append(tag)

        def handle_startendtag(self, tag, attrs):
            pass

        def handle_endtag(self, tag):
            if tag not in ("path", "use", "rect"):
                assert self.open.pop() == tag

    Tags().feed(page)
    assert Tags.open == []


def test_the_page_can_be_computed_again(result):
    tables = tomllib.loads(result.problem_file())
    start = tu.Start(**tables.pop("start"))
    times = tables.pop("times")
    assert start.dim == 200
    assert times == {"end": 20.0, "points": 41}
    again = tu.solve(tu.Problem.from_dict(tables), start, tu.linear_times(20.0, 41))
    np.testing.assert_allclose(again.error, theory().error, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "words"), [("missing/a.html", "does not exist"), (".", "is a folder")]
)
def test_where_no_page_can_go(result, tmp_path, name, words, monkeypatch):
    monkeypatch.setattr(type(result), "to_html", lambda self: "")
    with pytest.raises(tu.InputError, match=words):
        result.save_html(tmp_path / name)


def test_unknown_quantity(result):
    with pytest.raises(tu.InputError, match="it has error, R, Q"):
        result["bias"]
