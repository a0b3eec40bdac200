"""The built site (output/docs): whole, quiet and self-contained.

`make docs` builds it and runs this file.
"""

import functools
import http.server
import re
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tutelage_papers import replicas

SITE = Path(__file__).parent.parent / "output" / "docs"
LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(
        not (SITE / "index.html").is_file(),
        reason="no site in output/docs: run make docs",
    ),
]


class Resources(HTMLParser):
    """Addresses that a page loads by itself."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found += [
            value for name, value in attributes if (tag, name) in LOADED and value
        ]


def pages():
    return [
        page
        for page in sorted(SITE.rglob("*.html"))
        if "_outputs" not in page.parts and "_downloads" not in page.parts
    ]


def outside(text):
    reader = Resources()
    reader.feed(text)
    return [address for address in reader.found if re.match(r"(https?:)?//", address)]


def test_nothing_is_loaded_from_elsewhere():
    assert {
        str(page.relative_to(SITE)): found
        for page in pages()
        if (found := outside(page.read_text()))
    } == {}
    styles = [
        path
        for path in SITE.rglob("*.css")
        if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text())
    ]
    assert styles == []
    assert (
        outside(
            '<script src="https://cdn.example/x.js"></script><link href="//fonts.example/a.css">'
        )
        != []
    )


def test_what_is_loaded_is_there():
    missing = []
    for page in pages():
        reader = Resources()
        reader.feed(page.read_text())
        local = [
            address.split("?")[0].split("#")[0]
            for address in reader.found
            if not address.startswith("data:")
        ]
        missing += [
            (page.name, address)
            for address in local
            if address and not (page.parent / address).exists()
        ]
    assert missing == []


def test_blocks_show_what_they_print_and_draw():
    page = (SITE / "how-to" / "escape-times.html").read_text()
    assert 'class="output' in page
    assert re.search(r'<img class="output" src="\.\./_outputs/\w+/1-0\.png"', page)
    assert (
        '<iframe class="output"'
        in (SITE / "how-to" / "slider-for-time.html").read_text()
    )


def test_every_figure_is_in_the_gallery():
    folder = SITE / "generated" / "gallery"
    for name, figure in replicas().items():
        page = (folder / f"{figure.source}.html").read_text()
        section = page.split(f'id="{name}"')[1].split("</section>")[0]
        assert f"tutelage replicate {name}" in section
        assert "<img" in section
        assert section.count("<tr") > 1, f"{name} has no claims"


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=SITE)
    handler.log_message = lambda *words: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def visit(browser, address):
    """Open a page; what it asks of other machines, and what it complains of, is a failure."""
    opened = []
    complaints = []

    def at(where, **options):
        page = browser.new_page(**options)
        page.on(
            "request",
            lambda r: (
                None
                if r.url.startswith((address, "file:", "data:", "blob:"))
                else complaints.append(r.url)
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(where if ":" in where else f"{address}/{where}")
        opened.append(page)
        return page

    yield at
    for page in opened:
        page.close()
    assert complaints == []


def test_search_finds_without_a_network(visit):
    page = visit("search.html?q=critical_learning_rate")
    page.wait_for_selector("#search-results li a")
    assert (
        "learning"
        in " ".join(page.locator("#search-results li a").all_inner_texts()).lower()
    )


def test_search_from_a_disk(visit):
    """The excerpts beside the results need a server; the results do not, and then there is no complaint."""
    page = visit((SITE / "search.html").as_uri() + "?q=plateau")
    page.wait_for_selector("#search-results li a")


def test_mathematics_is_set_without_a_network(visit):
    formulas = [page for page in pages() if 'class="math' in page.read_text()]
    assert formulas
    page = visit(str(formulas[0].relative_to(SITE)))
    page.wait_for_selector("mjx-container")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone(visit, scheme):
    for where in (
        "index.html",
        "how-to/escape-times.html",
        "generated/gallery/primer.html",
        "generated/reference/problem.html",
    ):
        page = visit(where, viewport={"width": 390, "height": 844}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, where
        light = page.evaluate("getComputedStyle(document.body).backgroundColor") in (
            "rgb(255, 255, 255)",
        )
        assert light == (scheme == "light")
