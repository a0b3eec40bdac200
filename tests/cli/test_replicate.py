"""`tutelage replicate` as its user meets it, with a figure that costs nothing."""

import json

import pytest

from tests.papers.toys import CALLS, toy
from tutelage.papers import registry

KEYS = ["name", "expected", "measured", "tolerance", "verdict", "evidence"]


@pytest.fixture(autouse=True)
def two_figures(monkeypatch):
    CALLS.clear()
    found = {name: toy(name, slope) for name, slope in (("toy-1", 2.0), ("toy-2", 4.0))}
    monkeypatch.setattr(registry, "replicas", lambda: found)


def test_a_figure_prints_its_claims_and_writes_its_files(tutelage, folder):
    ending = tutelage(
        "replicate", "toy-1", "--quick", "--out", "here/there", "--format", "pdf"
    )
    assert ending.code == 0
    for words in (
        "a line & its slope",
        "at most 10",
        "pass",
        "does not hold",
        "the slope is 2 for every size",
        "toy-1-quick.pdf",
    ):
        assert words in " ".join(ending.stdout.split())
    assert "toy-1: 2 pass, 1 does not hold (computed" in ending.stderr
    names = [f"toy-1-quick.{ending}" for ending in ("nc", "pdf", "png")]
    assert sorted(path.name for path in (folder / "here/there").iterdir()) == names


def test_a_second_run_computes_nothing(tutelage):
    tutelage("replicate", "toy-1")
    ending = tutelage("replicate", "toy-1")
    assert CALLS == {"compute": 1, "draw": 1}
    assert "(found, " in ending.stderr


def test_json_alone_on_stdout(tutelage):
    ending = tutelage(
        "replicate", "toy-1", "toy-2", "--quick", "--json", "--workers", "1"
    )
    answer = json.loads(ending.stdout)
    assert list(answer) == ["figures"]
    assert [figure["id"] for figure in answer["figures"]] == ["toy-1", "toy-2"]
    for figure in answer["figures"]:
        assert list(figure) == ["id", "source", "seconds", "claims"]
        for claim in figure["claims"]:
            assert list(claim) == KEYS
            assert claim["verdict"] in ("pass", "fail", "does_not_hold")
            assert isinstance(claim["measured"], float)
    assert ending.code == 1  # a claim of toy-2 fails


def test_all_writes_one_page(tutelage, folder):
    ending = tutelage("replicate", "--all", "--quick", "--workers", "1")
    assert ending.code == 1
    page = (folder / "output/replicate/gallery-quick.html").read_text()
    assert page.count("<section") == 2
    assert "2 figures: 3 pass, 1 FAIL, 2 does not hold" in ending.stdout
    assert "gallery-quick.html" in ending.stdout
    assert "[2/2]" in ending.stderr


def test_a_stopped_run_resumes(tutelage, monkeypatch):
    def stopped(size, slope):
        raise KeyboardInterrupt

    whole = registry.replicas()
    monkeypatch.setattr(
        registry, "replicas", lambda: {**whole, "toy-2": toy("toy-2", compute=stopped)}
    )
    assert tutelage("replicate", "--all", "--workers", "1").code == 130
    monkeypatch.setattr(registry, "replicas", lambda: whole)
    ending = tutelage("replicate", "--all", "--workers", "1")
    assert CALLS["compute"] == 2
    assert "toy-1: 2 pass, 1 does not hold (found" in ending.stderr


def test_the_list_says_what_is_known(tutelage):
    tutelage("replicate", "toy-1", "--quick")
    ending = tutelage("replicate")
    assert (ending.code, ending.stderr) == (0, "")
    rows = {
        line.split()[0]: line
        for line in ending.stdout.splitlines()
        if line.startswith("toy")
    }
    assert "2 pass, 1 does not hold, 0.0 s" in rows["toy-1"]
    assert rows["toy-2"].split()[-2:] == ["-", "-"]
    figures = json.loads(tutelage("replicate", "--json").stdout)["figures"]
    assert [figure["quick"]["status"] for figure in figures] == ["done", "not computed"]
    assert figures[0]["quick"]["pass"] == 2
    assert figures[0]["full"]["status"] == "not computed"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("toy-3",),
            "there is no figure 'toy-3'; it must be one of toy-1, toy-2. The nearest is",
        ),
        (("toy-1", "--all"), "--all and 'toy-1' are given"),
        (("toy-1", "--out", "taken"), "taken is a file"),
        (("toy-1", "--format", "gif"), "gif"),
        (
            ("toy-1", "--workers", "0"),
            "--workers is 0; it must be a whole number, 1 or more.",
        ),
    ],
)
def test_bad_input_is_one_sentence(tutelage, folder, flags, words):
    (folder / "taken").write_text("")
    ending = tutelage("replicate", *flags)
    assert (ending.code, ending.stdout) == (2, "")
    assert words in ending.stderr
    assert ending.stderr.count("\n") == 1
    assert CALLS == {}
