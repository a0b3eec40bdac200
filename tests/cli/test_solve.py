"""`tutelage solve` as its user meets it: the same curve as the library, a table or JSON, and the files asked for."""

import json
from dataclasses import fields

import equinox as eqx
import numpy as np
import pytest

import tutelage as tu

SHAPE = ("-K", "2", "-M", "2", "--times", "5", "--points", "11")
FAST = (*SHAPE, "--no-validity")


def small_problem() -> tu.Problem:
    return tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.7), noise=0.2)


def test_flags_give_the_curve_of_the_library(tutelage):
    ending = tutelage("solve", *FAST, "--lr", "0.7", "--noise", "0.2", "--seed", "3", "--json")
    assert (ending.code, ending.stderr) == (0, "")
    answer = json.loads(ending.stdout)
    problem = small_problem()
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=3)
    theory = tu.solve(problem, start, times=tu.linear_times(5, 11))
    np.testing.assert_array_equal(answer["times"], theory.times)
    np.testing.assert_array_equal(answer["error"], theory.error)
    np.testing.assert_array_equal(answer["final"]["R"], theory.R[-1])
    np.testing.assert_array_equal(answer["final"]["Q"], theory.Q[-1])
    assert tu.Problem.from_dict(answer["problem"]).to_dict() == problem.to_dict()
    assert (answer["status"], answer["finished"], answer["files"]) == ("finished", True, [])
    assert answer["start"] == {"seed": 3}


@pytest.mark.parametrize("by_hand", [True, False])
def test_problem_file_round_trip(tutelage, folder, by_hand):
    problem = small_problem()
    start = tu.random_start(problem, dim=1000, scale=0.3, seed=5)
    overlaps = "\n".join(f"{name} = {np.asarray(getattr(start, name)).tolist()}" for name in ("R", "Q", "T"))
    table = f"{overlaps}\ndim = 1000" if by_hand else "dim = 1000\nscale = 0.3\nseed = 5"
    (folder / "p.toml").write_text(f"{problem.to_toml()}\n[start]\n{table}\n\n[times]\nend = 5\npoints = 11\n")
    ending = tutelage("solve", "p.toml", "--json", "--no-validity")
    theory = tu.solve(problem, start, times=tu.linear_times(5, 11))
    assert ending.code == 0
    np.testing.assert_allclose(json.loads(ending.stdout)["error"], theory.error, rtol=1e-12)


def test_table_says_all_and_files_are_written(tutelage, folder):
    ending = tutelage("solve", *SHAPE, "--out", "a.nc", "--plot", "a.svg")
    assert (ending.code, ending.stderr) == (0, "")
    for words in (
        "2 erf units learn from 2 erf units",
        "e_g",
        "R at alpha = 5",
        "Q at",
        "finished",
        "a.nc",
        "a.svg",
        "limit:",
    ):
        assert words in ending.stdout
    assert sorted(p.name for p in folder.iterdir()) == ["a.nc", "a.svg"]
    stored = tu.load("a.nc")
    assert f"{stored.error[-1]:.4g}" in ending.stdout


def test_json_holds_the_validity_report(tutelage):
    report = json.loads(tutelage("solve", *SHAPE, "--json").stdout)["validity"]
    assert set(report) == {f.name for f in fields(tu.Validity)}
    assert report["dim"] == 1000


def test_quiet_prints_nothing(tutelage, folder):
    ending = tutelage("solve", *FAST, "--quiet", "--plot", "a.png")
    assert ending == (0, "", "")
    assert (folder / "a.png").stat().st_size > 10_000


def test_notes_are_single_lines_on_stderr(tutelage):
    ending = tutelage("solve", *FAST, "--scale", "0", "--json")
    assert json.loads(ending.stdout)["finished"]
    assert ending.stderr.startswith("note: student units 1 and 2 start exactly alike")
    assert ending.stderr.count("\n") == 1
    assert ".py" not in ending.stderr


def test_divergence_is_an_answer(tutelage):
    flags = ("-K", "1", "-M", "1", "--activation", "linear", "--lr", "4", "--times", "100", "--points", "401")
    table = tutelage("solve", *flags, "--no-validity")
    assert (table.code, table.stderr) == (0, "")
    assert "diverged at alpha" in table.stdout
    quiet = tutelage("solve", *flags, "--quiet")
    assert quiet.stdout == ""
    assert quiet.stderr.startswith("note: the solve diverged at alpha")
    answer = json.loads(tutelage("solve", *flags, "--json", "--no-validity").stdout)
    assert not answer["finished"]
    assert len(answer["times"]) == len(answer["error"]) < 401
    assert np.all(np.isfinite(answer["error"]))


def test_a_solver_that_gives_up_exits_with_1(tutelage, monkeypatch):
    real = tu.solve

    def gives_up(*args, **options):
        return eqx.tree_at(lambda t: t.status_code, real(*args, **options), int(tu.Status.MAX_STEPS))

    monkeypatch.setattr(tu, "solve", gives_up)
    ending = tutelage("solve", *FAST)
    assert ending.code == 1
    assert "max_steps was used up" in " ".join(ending.stdout.split())


def test_interrupt_while_nothing_is_computed(tutelage, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tutelage.cli.request.read_request", interrupted)
    assert tutelage("solve", *FAST, "--out", "a.nc") == (130, "", "interrupted.\n")
