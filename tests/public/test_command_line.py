"""The command line, called in this process: another one would take seconds to start."""

import json

import numpy as np
import pytest

import tutelage as tu
from tutelage.cli import main

COMMITTEE = ("-K", "2", "-M", "2", "--times", "5", "--points", "6")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTELAGE_CACHE", "0")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(capsys):
    """Run one command line: its exit code, output and messages."""

    def run(*arguments):
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_solve_prints_the_curve_of_the_library(command):
    options = ("--lr", "0.7", "--seed", "3", "--json", "--no-validity")
    code, output, _ = command("solve", *COMMITTEE, *options)
    network = tu.Network(2, "erf")
    task = tu.Problem(network, network, optimizer=tu.SGD(0.7))
    start = tu.random_start(task, dim=1000, seed=3)
    theory = tu.solve(task, start, tu.linear_times(5.0, 6))
    assert code == 0
    np.testing.assert_array_equal(json.loads(output)["error"], theory.error)


def test_solve_reads_a_problem_and_writes_a_trajectory(command, tmp_path):
    network = tu.Network(1, "linear")
    task = tu.Problem(network, network, noise=0.1)
    (tmp_path / "task.toml").write_text(task.to_toml())
    code, _, _ = command("solve", "task.toml", "--times", "2", "--out", "theory.nc")
    assert code == 0
    assert tu.load(tmp_path / "theory.nc").problem.to_dict() == task.to_dict()


def test_simulate_and_compare(command):
    simulated, output, _ = command(
        "simulate", *COMMITTEE, "--dim", "50", "--runs", "2", "--json"
    )
    assert simulated == 0
    assert json.loads(output)
    compared, output, _ = command(
        "compare", *COMMITTEE, "--dim", "200", "--runs", "5", "--json"
    )
    assert compared == 0
    assert json.loads(output)


def test_a_mistake_ends_with_a_message_and_status_2(command):
    code, output, message = command("solve", *COMMITTEE, "--lr", "-1")
    assert code == 2
    assert output == ""
    assert "lr" in message


def test_the_figures_are_listed(command):
    code, output, _ = command("replicate")
    assert code == 0
    assert "primer-1" in output


def test_the_version_is_that_of_the_library(command):
    code, output, _ = command("--version")
    assert code == 0
    assert tu.__version__ in output


def test_a_sweep_is_saved_in_its_folder(command, tmp_path):
    task = tu.Problem(tu.Network(1), tu.Network(1))
    measure = 'measure = ["critical_learning_rate"]'
    over = "[over]\nlr = [0.5, 1.0]"
    (tmp_path / "rates.toml").write_text(f"{measure}\n{task.to_toml()}\n{over}\n")
    options = ("--executor", "serial", "--out", "rates", "--quiet")
    code, _, message = command("sweep", "rates.toml", *options)
    assert code == 0, message
    found = tu.open_sweep("rates")["critical_learning_rate"]
    np.testing.assert_allclose(found, np.pi * np.sqrt(5 / 3))
