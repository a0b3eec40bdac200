"""Problem files with a finite data set in the commands."""

import json

import numpy as np
import pytest

import tutelage as tu


def problem_of(optimizer) -> tu.Problem:
    unit = tu.Network(1, "linear")
    return tu.Problem(unit, unit, optimizer=optimizer, noise=0.3, data=tu.DataSet(2.0))


@pytest.fixture
def file(folder):
    def write(optimizer) -> str:
        path = folder / "problem.toml"
        path.write_text(problem_of(optimizer).to_toml())
        return str(path)

    return write


def test_gradient_descent_is_simulated_for_its_steps(tutelage, file):
    path = file(tu.optimizers.GradientDescent(0.3))
    ending = tutelage(
        "simulate", path, "--times", "4", "--points", "5", "--runs", "2", "--dim", "50"
    )
    assert ending.code == 0, ending.stderr
    assert ending.stdout.count("steps") >= 1
    for words in ("error on the data set", "loss on the data set", "fresh samples"):
        assert words in ending.stdout


def test_both_optimizers_are_compared(tutelage, file):
    path = file(tu.SGD(lr=0.3))
    arguments = ("--times", "1", "--points", "3", "--runs", "4", "--dim", "60")
    ending = tutelage("compare", path, *arguments, "--json")
    assert ending.code == 0, ending.stderr
    assert json.loads(ending.stdout)["verdict"].startswith("agree")


def test_the_usual_accuracy_is_that_of_the_library(tutelage, file):
    optimizer = tu.optimizers.GradientDescent(0.3)
    options = ("--times", "4", "--points", "5", "--start", "asymmetric", "--json")
    ending = tutelage("solve", file(optimizer), *options)
    assert ending.code == 0, ending.stderr
    problem = problem_of(optimizer)
    start = tu.asymmetric_start(problem)
    theory = tu.solve(problem, start, times=tu.linear_times(4, 5))
    np.testing.assert_array_equal(json.loads(ending.stdout)["error"], theory.error)
