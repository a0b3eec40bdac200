"""`tutelage replicate` as its user meets it, with a figure that costs nothing."""

import json

import pytest
from papers.tests import toys
from papers.tests.toys import CALLS, toy

from tutelage.cli.replicate import run_all
from tutelage_papers import command, registry, replicate

KEYS = ["name", "expected", "measured", "tolerance", "verdict", "evidence"]


@pytest.fixture(autouse=True)
def two_figures(monkeypatch):
    CALLS.clear()
    found = {name: toy(name, slope) for name, slope in (("toy-1", 2.0), ("toy-2", 4.0))}
    show_figures(monkeypatch, found)


def show_figures(monkeypatch, figures):
    """Let the command find these figures; `find` reads the registry."""
    for module in (command, registry):
        monkeypatch.setattr(module, "replicas", lambda: figures)


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
    show_figures(monkeypatch, {**whole, "toy-2": toy("toy-2", compute=stopped)})
    assert tutelage("replicate", "--all", "--workers", "1").code == 130
    show_figures(monkeypatch, whole)
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
    assert tutelage("replicate", "--list").stdout == ending.stdout
    figures = json.loads(tutelage("replicate", "--json").stdout)["figures"]
    assert [figure["quick"]["status"] for figure in figures] == ["done", "not computed"]
    assert figures[0]["quick"]["pass"] == 2
    assert figures[0]["full"]["status"] == "not computed"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--list", "toy-1"), "--list and 'toy-1' are given; --list computes nothing"),
        (("--list", "--all"), "--list and --all are given"),
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


def test_processes_leave_the_same_results(tmp_path):
    """Also of a figure that was kept from before, and in the order that was asked for."""
    figures = [toy(f"toy-{i}", slope=float(i)) for i in (1, 2, 3)]
    replicate(figures[1], tmp_path)
    results = list(
        run_all(command, figures, tmp_path, formats=("png", "svg"), workers=2)
    )
    assert CALLS["compute"] == 1
    assert [(result.replica.id, result.computed) for result in results] == [
        ("toy-1", True),
        ("toy-2", False),
        ("toy-3", True),
    ]
    assert [float(result.data["slope"]) for result in results] == [1.0, 2.0, 3.0]
    assert all(path.is_file() for result in results for path in result.files.values())
    alone = replicate(figures[2], tmp_path)
    assert not alone.computed


def test_a_failure_in_another_process_is_a_failure_here(tmp_path):
    figures = [toy(name, draw=toys.refuse) for name in ("toy-1", "toy-2")]
    with pytest.raises(RuntimeError, match="no ink"):
        list(run_all(command, figures, tmp_path, workers=2))
