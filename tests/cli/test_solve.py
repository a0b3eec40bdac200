"""`tutelage solve` as its user meets it:

the same curve as the library, a table or JSON, and the files asked for.
"""

import json
from dataclasses import fields

import equinox as eqx
import numpy as np
import pytest

import tutelage as tu
from tutelage.stream.validity import Validity

SHAPE = ("-K", "2", "-M", "2", "--times", "5", "--points", "11")
FAST = (*SHAPE, "--no-validity")


def small_problem() -> tu.Problem:
    return tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.7), noise=0.2
    )


def test_flags_give_the_curve_of_the_library(tutelage):
    ending = tutelage(
        "solve", *FAST, "--lr", "0.7", "--noise", "0.2", "--seed", "3", "--json"
    )
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
    assert (answer["status"], answer["finished"], answer["files"]) == (
        "finished",
        True,
        [],
    )
    assert answer["start"] == {"seed": 3}


def test_a_rate_far_too_high_shows_the_start_and_says_so(tutelage):
    ending = tutelage("solve", *FAST, "--lr", "1e9")
    assert ending.code == 1
    assert "nan" not in ending.stdout
    for words in (
        "stopped at alpha = 0 with learning rate 1e+09",
        "Lower the learning rate.",
    ):
        assert words in ending.stdout
    assert "stiff" not in ending.stdout + ending.stderr


@pytest.mark.parametrize("by_hand", [True, False])
def test_problem_file_round_trip(tutelage, folder, by_hand):
    problem = small_problem()
    start = tu.random_start(problem, dim=1000, scale=0.3, seed=5)
    overlaps = "\n".join(
        f"{name} = {np.asarray(getattr(start, name)).tolist()}"
        for name in ("R", "Q", "T")
    )
    table = (
        f"{overlaps}\ndim = 1000" if by_hand else "dim = 1000\nscale = 0.3\nseed = 5"
    )
    (folder / "p.toml").write_text(
        f"{problem.to_toml()}\n[start]\n{table}\n\n[times]\nend = 5\npoints = 11\n"
    )
    ending = tutelage("solve", "p.toml", "--json", "--no-validity")
    theory = tu.solve(problem, start, times=tu.linear_times(5, 11))
    assert ending.code == 0
    np.testing.assert_allclose(
        json.loads(ending.stdout)["error"], theory.error, rtol=1e-12
    )


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
    assert set(report) == {f.name for f in fields(Validity)}
    assert report["dim"] == 1000


def test_quiet_prints_nothing(tutelage, folder):
    ending = tutelage("solve", *FAST, "--quiet", "--plot", "a.png")
    assert ending == (0, "", "")
    assert (folder / "a.png").stat().st_size > 10_000


def test_notes_are_single_lines_on_stderr(tutelage):
    ending = tutelage("solve", *FAST, "--scale", "0", "--json")
    assert json.loads(ending.stdout)["finished"]
    assert ending.stderr.startswith(
        "note: student units 1 and 2 begin exactly identical"
    )
    assert ending.stderr.count("\n") == 1
    assert ".py" not in ending.stderr


def test_divergence_is_an_answer(tutelage):
    flags = (
        "-K",
        "1",
        "-M",
        "1",
        "--activation",
        "linear",
        "--lr",
        "4",
        "--times",
        "100",
        "--points",
        "401",
    )
    table = tutelage("solve", *flags, "--no-validity")
    assert (table.code, table.stderr.count("\n")) == (0, 1)
    assert table.stderr.startswith("note: the solve diverged at alpha")
    assert "diverged at alpha" in table.stdout
    quiet = tutelage("solve", *flags, "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", table.stderr)
    answer = json.loads(tutelage("solve", *flags, "--json", "--no-validity").stdout)
    assert not answer["finished"]
    assert len(answer["times"]) == len(answer["error"]) < 401
    assert np.all(np.isfinite(answer["error"]))


def test_a_solver_that_gives_up_exits_with_1(tutelage, monkeypatch):
    real = tu.solve

    def gives_up(*args, **options):
        return eqx.tree_at(
            lambda t: t.status_code,
            real(*args, **options),
            int(tu.errors.Status.MAX_STEPS),
        )

    monkeypatch.setattr(tu, "solve", gives_up)
    ending = tutelage("solve", *FAST)
    assert ending.code == 1
    assert "max_steps was used up" in " ".join(ending.stdout.split())


def test_interrupt_while_nothing_is_computed(tutelage, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tutelage.cli.commands.read_request", interrupted)
    assert tutelage("solve", *FAST, "--out", "a.nc") == (130, "", "interrupted.\n")


SIGNS = (
    "--loss",
    "logistic",
    "--labels",
    "sign",
    "-K",
    "1",
    "-M",
    "1",
    "--activation",
    "linear",
    "--times",
    "2",
    "--points",
    "3",
)


def test_a_logistic_loss_on_signs(tutelage, folder):
    ending = tutelage("solve", *SIGNS, "--no-validity", "--out", "a.nc")
    assert (ending.code, ending.stderr) == (0, "")
    for words in (
        "logistic loss, sign labels",
        "probability of a wrong class",
        "training loss",
    ):
        assert words in ending.stdout
    answer = json.loads(tutelage("solve", *SIGNS, "--no-validity", "--json").stdout)
    assert answer["error_name"] == "probability of a wrong class"
    stored = tu.load("a.nc")
    np.testing.assert_array_equal(stored.loss, answer["loss"])
    R = stored.R[:, 0, 0]
    Q = stored.Q[:, 0, 0]
    T = stored.T[0, 0]
    np.testing.assert_allclose(
        answer["error"], np.arccos(R / np.sqrt(Q * T)) / np.pi, rtol=1e-6
    )
    nodes = np.linspace(
        -8.0, 8.0, 1600
    )  # the loss at the end, by a plain sum over both fields; none of them is zero
    weights = np.exp(-(nodes**2) / 2)
    teacher = np.sqrt(T) * nodes[:, None]
    student = (
        R[-1] / np.sqrt(T) * nodes[:, None]
        + np.sqrt(Q[-1] - R[-1] ** 2 / T) * nodes[None]
    )
    loss = np.log1p(np.exp(-np.sign(teacher) * student))
    mean = (weights[:, None] * weights[None] * loss).sum() / weights.sum() ** 2
    np.testing.assert_allclose(answer["loss"][-1], mean, rtol=1e-5)


def test_a_simulation_of_the_same(tutelage):
    ending = tutelage("simulate", *SIGNS, "--dim", "100", "--runs", "4")
    assert (ending.code, ending.stderr) == (0, "")
    for words in (
        "probability of a wrong class, mean of 4 runs",
        "training loss, mean of 4 runs",
        "finished (4 runs)",
    ):
        assert words in ending.stdout


def test_a_function_of_one_s_own_runs_only_when_its_module_is_allowed(
    tutelage, folder, monkeypatch
):
    (folder / "my_losses.py").write_text(
        "import jax.numpy as jnp\n\n\ndef steep(output, label):\n    return (label - output) ** 2\n"
    )
    monkeypatch.syspath_prepend(folder)
    (folder / "p.toml").write_text(
        "loss = 'my_losses:steep'\n[student]\nhidden = 1\nactivation = 'linear'\n"
        "[teacher]\nhidden = 1\nactivation = 'linear'\n[times]\nend = 1\npoints = 2\n"
    )
    refused = tutelage("solve", "p.toml")
    assert (refused.code, refused.stdout) == (2, "")
    assert "--import my_losses" in refused.stderr
    answer = json.loads(
        tutelage(
            "solve", "p.toml", "--import", "my_losses", "--no-validity", "--json"
        ).stdout
    )
    problem = tu.Problem.from_dict(
        {**answer["problem"], "loss": "squared", "optimizer": {"lr": 1.0}}
    )
    usual = tu.solve(
        problem, tu.random_start(problem, dim=1000), times=[0.0, 1.0]
    )  # twice the loss at half the rate
    np.testing.assert_allclose(answer["error"], usual.error, rtol=1e-5)
    assert answer["problem"]["loss"] == "my_losses:steep"


TASKS = """
[student]
hidden = 2
train_readout = true
[teacher]
teachers = [{ hidden = 1 }, { hidden = 1 }]
schedule = { kind = "switch", times = [2.0] }
similarity = 0.5
[optimizer]
lr = 1.0
[start]
R = [[0.05, 0.02], [-0.01, 0.03]]
Q = [[0.3, 0.02], [0.02, 0.2]]
readout = [[0.3, 0.1], [0.2, -0.1]]
dim = 100
[times]
end = 4.0
points = 9
"""


def test_tasks_have_a_row_each(tutelage, folder):
    (folder / "tasks.toml").write_text(TASKS)
    ending = tutelage("solve", "tasks.toml", "--plot", "tasks.png")
    assert (ending.code, ending.stderr) == (0, "")
    for words in (
        "learn 2 tasks (one erf unit each)",
        "switch at 2, similarity 0.5",
        "e_g of task 1",
        "e_g of task 2",
    ):
        assert words in " ".join(ending.stdout.split())
    assert (folder / "tasks.png").stat().st_size > 10_000
    answer = json.loads(tutelage("solve", "tasks.toml", "--json").stdout)
    assert np.shape(answer["error"]) == (9, 2)
    assert np.shape(answer["final"]["readout"]) == (2, 2)


@pytest.mark.full
def test_tasks_are_compared(tutelage, folder):
    (folder / "tasks.toml").write_text(TASKS)
    ending = tutelage("compare", "tasks.toml", "--runs", "10", "--out-dir", "report")
    assert (ending.code, ending.stderr) == (0, "")
    assert "verdict   agree" in ending.stdout
    assert ending.stdout.count(", task 2") > 3
    assert (folder / "report" / "compare.html").is_file()
