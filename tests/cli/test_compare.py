"""`tutelage compare` and `tutelage simulate` as their user meets them."""

import json
import re

import numpy as np
import pytest

import tutelage as tu
from tutelage import asymmetric_start

SMALL = (
    "-K",
    "2",
    "-M",
    "2",
    "--lr",
    "1",
    "--times",
    "20",
    "--points",
    "41",
    "--dim",
    "200",
    "--runs",
    "12",
)
FILES = ["compare.html", "compare.png", "runs.nc", "theory.nc"]


def test_table_verdict_and_files(tutelage, folder):
    ending = tutelage("compare", *SMALL, "--out-dir", "here/there")
    assert (ending.code, ending.stderr) == (0, "")
    for words in (
        "2 erf units learn from 2 erf units",
        "12 runs, N = 200",
        "verdict",
        "agree:",
        "compare.html",
        "(figure)",
    ):
        assert words in ending.stdout
    assert sorted(p.name for p in (folder / "here/there").iterdir()) == FILES
    theory, runs = (
        tu.load(folder / "here/there" / name) for name in ("theory.nc", "runs.nc")
    )
    assert tu.compare(theory, runs).agrees
    assert runs.R.shape == (12, 41, 2, 2)


def test_json_and_the_library_agree(tutelage, folder):
    ending = tutelage("compare", *SMALL, "--seed", "4", "--json")
    assert (ending.code, ending.stderr) == (0, "")
    answer = json.loads(ending.stdout)
    problem = tu.Problem.from_dict(answer["problem"])
    start = asymmetric_start(problem, 200)
    times = tu.linear_times(20, 41)
    runs = tu.simulate(problem, start, times=times, runs=12, seed=4)
    np.testing.assert_allclose(
        answer["quantities"]["error"]["mean"], runs.error.mean(axis=0), rtol=1e-12
    )
    assert answer["outcome"] == "agree"
    assert answer["files"]["page"].endswith("output/compare/compare.html")
    assert (folder / answer["files"]["page"]).is_file()


def test_gradient_flow_is_told_apart(tutelage, monkeypatch):
    monkeypatch.setattr(
        "tutelage.cli.report.write_report", lambda *_: {}
    )  # drawing takes most of the time
    assert (
        json.loads(tutelage("compare", *SMALL, "--gradient-flow", "--json").stdout)[
            "outcome"
        ]
        == "differ"
    )


def test_random_start_and_quiet(tutelage, folder, monkeypatch):
    monkeypatch.setattr(
        "tutelage.cli.report.write_report",
        lambda comparison, _: stored.append(comparison.runs) or {},
    )
    stored = []
    assert tutelage(
        "compare", *SMALL, "--start", "random", "--scale", "0.2", "--quiet"
    ) == (0, "", "")
    expected = tu.random_start(stored[0].problem, dim=200, scale=0.2, seed=0)
    np.testing.assert_allclose(
        stored[0].R[:, 0], np.broadcast_to(expected.R, (12, 2, 2)), atol=1e-12
    )


def test_a_start_in_the_file(tutelage, folder):
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=1.0)
    )
    start = asymmetric_start(problem, 200)
    table = "\n".join(
        f"{n} = {np.asarray(getattr(start, n)).tolist()}" for n in ("R", "Q")
    )
    times = "[times]\nend = 20\npoints = 41\n"
    (folder / "p.toml").write_text(f"{problem.to_toml()}\n[start]\n{table}\n\n{times}")
    assert (
        tutelage(
            "simulate",
            "p.toml",
            "--runs",
            "5",
            "--dim",
            "200",
            "--seed",
            "2",
            "--quiet",
            "--out",
            "p.nc",
        ).code
        == 0
    )
    given = tu.load("p.nc")
    same = tu.simulate(problem, start, times=tu.linear_times(20, 41), runs=5, seed=2)
    np.testing.assert_allclose(given.error, same.error, rtol=1e-12)
    (folder / "r.toml").write_text(
        f"{problem.to_toml()}\n[start]\nscale = 0.3\ndim = 200\n\n{times}"
    )
    assert (
        tutelage("simulate", "r.toml", "--runs", "2", "--quiet", "--out", "r.nc").code
        == 0
    )
    drawn = tu.random_start(problem, dim=200, scale=0.3, seed=0)
    np.testing.assert_allclose(tu.load("r.nc").R[0, 0], drawn.R, atol=1e-12)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--start", "rondom"),
            "the kind of start is 'rondom'; it must be one of random, asymmetric",
        ),
        (("--scale", "0.2"), "Use --start random"),
        (("--runs", "0"), "runs is 0"),
        (("--runs", "2.5"), "not a whole number"),
        (("--method", "guess"), "method is 'guess'"),
        (("--dim", "2"), "dim is 2"),
        (("--out-dir", "taken"), "taken is a file"),
        (
            ("missing.toml",),
            "missing.toml cannot be read (No such file or directory); give the name of a problem file",
        ),
    ],
)
def test_bad_input_is_one_sentence(tutelage, folder, flags, words):
    (folder / "taken").write_text("")
    ending = tutelage("compare", *SMALL[:-4], *flags)
    assert (ending.code, ending.stdout) == (2, "")
    assert words in ending.stderr
    assert ending.stderr.count("\n") == 1


@pytest.mark.parametrize(("K", "M"), [(1, 1), (2, 5), (5, 2), (4, 4)])
def test_asymmetric_starts_are_possible_and_asymmetric(K, M):
    gram = 0.3 + 0.7 * np.eye(M)
    for teacher in (tu.Network(M, "erf"), tu.Network(M, "erf", gram=gram)):
        problem = tu.Problem(tu.Network(K, "erf"), teacher, optimizer=tu.SGD(lr=0.5))
        start = asymmetric_start(problem, 100)
        start.blocks(problem)
        rows = {tuple(row) for row in np.round(start.R, 12)}
        assert len(rows) == K


def test_simulate(tutelage, folder):
    ending = tutelage("simulate", *SMALL, "--out", "a.nc", "--plot", "a.svg")
    assert (ending.code, ending.stderr) == (0, "")
    for words in (
        "e_g, mean of 12 runs",
        "R at alpha = 20",
        "finished (12 runs)",
        "a.nc",
    ):
        assert words in ending.stdout
    answer = json.loads(tutelage("simulate", *SMALL, "--json").stdout)
    np.testing.assert_allclose(answer["error"], tu.load("a.nc").error, rtol=1e-12)
    assert np.shape(answer["final"]["R"]) == (12, 2, 2)


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_days_of_work_are_refused_unless_asked_for(
    tutelage, folder, command, monkeypatch
):
    ending = tutelage(command, "--dim", "1000000000000", "--times", "300")
    assert (ending.code, ending.stdout) == (2, "")
    assert re.fullmatch(
        r"error: 20 runs of 3e\+14 steps will take about .* hours; .* --long to do it anyway.\n",
        ending.stderr,
    )

    def began(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tutelage.simulate", began)
    assert (
        tutelage(command, "--dim", "1000000000000", "--times", "300", "--long").code
        == 130
    )


@pytest.mark.full
def test_several_outputs_argmax_labels_and_cross_entropy(tutelage, folder):
    flags = (
        "-K",
        "2",
        "-M",
        "2",
        "--outputs",
        "2",
        "--labels",
        "argmax",
        "--loss",
        "cross_entropy",
    )
    ending = tutelage(
        "compare", *flags, "--times", "2", "--points", "3", "--dim", "50", "--runs", "3"
    )
    assert ending.code == 0, ending.stderr
    assert "2 erf units with 2 outputs" in ending.stdout
    assert "cross entropy loss, argmax labels" in ending.stdout
    assert tu.load(folder / "output/compare/runs.nc").readout.shape == (3, 3, 2, 2)
