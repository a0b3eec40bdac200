"""The site: `make docs` builds it into output/docs. What is ours beyond Sphinx is in _site/."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from tutelage import __version__ as release  # noqa: E402

project = "tutelage"
author = "The tutelage developers"
copyright = "the tutelage developers, Apache-2.0"
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "_site.blocks",
    "_site.gallery",
    "_site.errata",
    "_site.reference",
    "_site.docstring",
    "_site.examples",
    "_site.punctuation",
]
exclude_patterns = ["_site"]

# Markdown: $x$ and $$x$$ are mathematics; every heading can be linked to.
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = (
    "none"  # an indented block is an equation or a shell command, not Python
)
suppress_warnings = ["misc.highlighting_failure"]

# Public names must resolve; those of other libraries have no inventory here, since the
# build needs no network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!tutelage(_papers)?\.[A-Za-z]+$).*")]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
add_module_names = False
toc_object_entries = False

# Nothing is fetched from elsewhere: MathJax is copied from a package, and the fonts of
# the theme are those of the system.
_MATHJAX = (
    Path(str(find_spec("sphinx-mathjax-offline").submodule_search_locations[0]))
    / "static"
    / "mathjax"
)
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {
    "options": {"enableMenu": False},
    "chtml": {"displayAlign": "left", "displayIndent": "2em"},
}
html_theme = "furo"
html_title = f"tutelage {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["offline.js"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0072B2",
        "color-brand-content": "#0072B2",
    },
    "dark_css_variables": {
        "color-brand-primary": "#56B4E9",
        "color-brand-content": "#56B4E9",
    },
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output) > div.highlight > pre"


def copy_mathjax(app, error):
    """The program and its fonts, 2 of the package's 24 MB."""
    from sphinx.util.fileutil import copy_asset

    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / "mathjax"
        target.mkdir(parents=True, exist_ok=True)
        copy_asset(_MATHJAX / "tex-chtml.js", target)
        copy_asset(
            _MATHJAX / "output" / "chtml" / "fonts",
            target / "output" / "chtml" / "fonts",
        )


def setup(app):
    """Sphinx calls this."""
    app.connect("build-finished", copy_mathjax)
