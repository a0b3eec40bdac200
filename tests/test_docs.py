"""Documents: docs/_site does what it says, and the walk through the code is right.

(`make docs` runs the code of the pages.)
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tutelage as tu
from tests.lint.pages import PAGES
from tutelage.stream.validity import Validity
from tutelage_papers import close, refuted, replicas

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _site import docstring, errata, outputs, punctuation, reference, runner  # noqa: E402


def test_a_formula_keeps_its_punctuation():
    formula = '<span class="math notranslate nohighlight">x</span>'
    assert (
        punctuation.together(f"({formula}), and {formula}")
        == f'<span class="unbroken">({formula}),</span> and {formula}'
    )


def test_every_public_name_is_in_the_reference():
    listed = [name for names in reference.groups().values() for name in names]
    public = {
        f"{space}.{name}".removeprefix("tutelage.")
        for space, names in reference.all_public_names().items()
        for name in names
    }
    value_of = reference.value_of
    modules_and_constants = {name for name in public if not callable(value_of(name))}
    shown = {id(value_of(name)) for name in listed}
    again = {
        name for name in public - set(listed) if id(value_of(name)) in shown
    }  # also a name at the root
    assert (
        set(listed) - set(reference.BESIDES) == public - modules_and_constants - again
    )
    assert "rules.Rule" in again
    assert list(reference.groups())[-1] == "errors"


def test_every_command_is_in_the_reference():
    text = "\n".join(reference.cli_page())
    assert "Usage: tutelage COMMAND" in text
    for command in (
        "compare",
        "explore",
        "replicate",
        "simulate",
        "solve",
        "sweep",
        "sweep status",
    ):
        assert f"## tutelage {command}" in text
        assert f"Usage: tutelage {command}" in text


# The pages' code


def test_a_page_is_run_and_shown(tmp_path):
    page = tmp_path / "page.md"
    blocks = (
        "x = 2\nprint('two')\nx + 1\n",
        "from matplotlib.figure import Figure\nfigure = Figure(figsize=(1, 1))\nassert x == 2\n",
        "from pathlib import Path\nn = Path('a.html').write_text('<p>')\n",
        "def f():\n    return 1\n",
    )
    page.write_text(
        "\n".join(f"words\n\n```python\n{block}```" for block in blocks)
        + "\n\n```text\nx = 3\n```\n"
    )
    runner.run_page(page, tmp_path / "out")
    shown = json.loads((tmp_path / "out" / "outputs.json").read_text())
    assert [entry["code"] for entry in shown] == list(blocks)
    assert [entry["text"] for entry in shown] == ["two\n3\n", "", "", ""]
    assert [len(entry["images"]) for entry in shown] == [0, 1, 0, 0]
    assert shown[1]["images"][0]["width"] == 96
    assert shown[2]["frames"] == ["2-a.html"]
    for name in ("1-0.png", "2-a.html"):
        assert (tmp_path / "out" / name).is_file()


@pytest.mark.parametrize(
    "code", ["1 / 0", "import warnings\nwarnings.warn('careful')", "undefined"]
)
def test_a_block_that_fails_ends_the_build(code, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```python\nx = 1\n```\n```python\n{code}\n```\n")
    with pytest.raises(SystemExit, match=r"page.md: block 2 raises"):
        runner.run_page(page, tmp_path / "out")
    assert not (tmp_path / "out" / "outputs.json").exists()


def test_outputs_belong_to_code_and_library():
    assert runner.key("a\n```python\nx\n```\n") == runner.key("b\n```python\nx\n```\n")
    assert runner.key("a\n```python\nx\n```\n") != runner.key("a\n```python\ny\n```\n")


PRINTED = [page for page in PAGES if any(outputs.printed(page.read_text()))]
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def same_output(shown, found):
    """Equal words, and numbers that agree to the digits that differ between machines."""
    a, b = ([float(x) for x in NUMBER.findall(text)] for text in (shown, found))
    words = [
        " ".join(NUMBER.sub("#", text).replace("#.", "#").split())
        for text in (shown, found)
    ]
    return (
        words[0] == words[1]
        and len(a) == len(b)
        and np.allclose(a, b, rtol=0.02, atol=1e-6)
    )


def test_different_outputs_are_found():
    """A negative control:

    a rounded digit passes; another number, word or line does not.
    """
    assert same_output("e_g = 0.0126 ± 1e-17\n", "e_g = 0.0127 ± 3e-17\n")
    for other in (
        "e_g = 0.0136 ± 1e-17\n",
        "e_q = 0.0126 ± 1e-17\n",
        "e_g = 0.0126 ± 1e-17\n2\n",
    ):
        assert not same_output("e_g = 0.0126 ± 1e-17\n", other)


@pytest.mark.full
@pytest.mark.parametrize("page", PRINTED, ids=lambda page: page.stem)
def test_the_printed_outputs_are_those_of_the_code(page, tmp_path):
    runner.run_page(page, tmp_path / "out")
    found = [
        entry["text"]
        for entry in json.loads((tmp_path / "out" / "outputs.json").read_text())
    ]
    different = [
        (a, b)
        for a, b in zip(outputs.printed(page.read_text()), found, strict=True)
        if a and not same_output(a, b)
    ]
    assert different == []


def test_the_validity_report_is_explained():
    text = (ROOT / "docs" / "validity.md").read_text()
    for name in (
        "limit_ratio",
        "effective_rank",
        "start_to_noise",
        "noise_dim",
        "rate_to_critical",
        "averages",
        "averages_error",
    ):
        assert name in Validity.__dataclass_fields__
        assert f"`{name}`" in text


# The map of the source

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src" / "tutelage"


def test_the_walk_is_what_solve_does():
    """Every function that the walk names is called, in few files, and the numbers at its end are those of the solve."""
    walk = ARCHITECTURE.split("## A walk")[1]
    called = set()
    files = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            *_, owner, name = f"..{frame.f_code.co_qualname}".split(".")
            called.update({name, f"{owner}.{name}"})
            files.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())

    problem = tu.Problem(
        tu.Network(3, "relu"), tu.Network(3, "relu"), optimizer=tu.SGD(lr=0.1)
    )
    start = tu.asymmetric_start(problem)
    sys.setprofile(note)
    try:
        theory = tu.solve(
            problem, start, max_steps=99_999
        )  # a program that no other test has compiled
    finally:
        sys.setprofile(None)
    functions = re.findall(r"`(\w+|\w+\.[a-z]\w*)`", re.sub(r"`[\w/]+\.py`", "", walk))
    functions = [
        name.removeprefix("tu.")
        for name in functions
        if name.split(".")[-1].strip("_")[0].islower()
    ]
    assert len(functions) > 25
    assert set(functions) - called == set()
    # The table of theories takes three of them, and the optimizer four.
    assert len(files - {"_namespace.py"}) <= 20, sorted(files)
    assert (
        f"{theory.error[0]:.5f} at time 0 and {theory.error[-1]:.5f} at time 100"
        in " ".join(walk.split())
    )
    assert int(re.search(r"(\d+) steps", walk)[1]) == pytest.approx(
        int(theory.steps), abs=3
    )


# Docstrings


def test_sections_of_a_docstring():
    text = "Solve it.\n\nParameters\n----------\nlr, noise\n    Numbers of `solve`.\n\n"
    text += "Returns\n-------\nA curve.\n\nExamples\n--------\n>>> 1\n1\n"
    found = docstring.to_rst(text)
    for part in (
        ".. rubric:: Parameters\n",
        "**lr, noise**\n    Numbers of :py:obj:",
        ".. rubric:: Returns\n\nA curve.",
        ">>> 1\n1",
    ):
        assert part in found
    assert "---" not in found


def test_docstrings_as_restructured_text():
    text = "The `solve` of w*_m, |z|.\n\nlr, noise: numbers; `x` is code.\n\n    a = b_k\nand\n\n>>> 1\n1\n"
    expected = [
        ":py:obj:`solve <tutelage.solve>`",
        r"w\*\_m, \|z\|",
        "**lr, noise**: numbers; ``x`` is code",
        "::\n\n        a = b_k",
        "\n\nand\n\n>>> 1\n1\n",
    ]
    found = docstring.to_rst(text, ("lr", "noise"))
    assert [part for part in expected if part not in found] == []


# Errata


def test_errata_point_to_figures_and_tests():
    known = replicas()
    entries = list(errata.entries())
    assert len(entries) > 40
    assert [
        e["where"]
        for _, e in entries
        if "test" not in e and (e["figure"] not in known or not errata.names(e))
    ] == []
    assert errata.problems({}) == []


def test_errata_that_point_nowhere_are_found():
    """An entry without its claim is refused; a refuted claim without an entry gets its own line."""
    known = replicas()["power-7"]
    printed = refuted(
        close("learning rate 1/(2 lam_1)", 0.0095, 0.001, rel=0.05),
        evidence="arithmetic",
    )
    other = refuted(close("something else", 2.0, 1.0, rel=0.1), evidence="it is two")
    results = {"power-7": SimpleNamespace(replica=known, claims=(printed, other))}
    (found,) = errata.problems(results)
    assert "power, 49: power-7 has no claim" in found
    assert [claim.name for _, claim in errata.without_entry(results)] == [
        "something else"
    ]
    lines = "\n".join(errata.page(results)).splitlines()
    assert [line.count("it is two") for line in lines if "something else" in line] == [
        1
    ]
    assert [
        line
        for line in lines
        if "learning rate 1/(2 lam\\_1): 0.0095, expected 0.001 within 5%" in line
    ]


def test_errata_name_their_sources():
    from tutelage_papers.registry import SOURCES

    assert set(tomllib.loads(errata.FILE.read_text())) <= set(SOURCES)
