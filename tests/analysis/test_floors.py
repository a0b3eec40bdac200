"""Floors under learning curves: minimum, Bayes-optimal error, noise floor."""

from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.equilibrium.cases import UNIT, linear, ridge_regression
from tutelage import InputError

DESCENT = tu.optimizers.GradientDescent(lr=0.5, weight_decay=0.05)


@pytest.fixture(scope="module")
def descent():
    """Gradient descent on a data set: it ends in the minimum."""
    problem = linear(noise=0.5, data=tu.DataSet(2.0), optimizer=DESCENT)
    start = tu.random_start(problem)
    return tu.solve(problem, start, tu.linear_times(40, 11), accuracy=0.02)


@pytest.fixture(scope="module")
def stream():
    problem = linear(noise=0.3, optimizer=tu.SGD(0.2, batch=2))
    return tu.solve(problem, tu.random_start(problem), tu.linear_times(40, 41))


def test_descent_on_a_data_set_ends_in_the_minimum(descent):
    found = tu.analysis.floors(descent)
    m, q = ridge_regression(2.0, 0.1, 0.5)
    np.testing.assert_allclose(found["minimum"].error, (1 - 2 * m + q) / 2, atol=1e-8)
    assert descent.error[-1] == pytest.approx(found["minimum"].error[-1], abs=5e-3)
    train = found["minimum"].train_error
    assert descent.train_error[-1] == pytest.approx(train[-1], abs=5e-3)
    best = tu.analysis.bayes_optimal(descent.problem)
    np.testing.assert_allclose(found["bayes"].error, best.error, atol=1e-12)
    assert np.all(descent.error > found["bayes"].error)
    assert "data set" in found.missing["noise"]
    assert "no floor 'noise'" in str(found)


def test_fresh_samples_have_floors_at_the_ratio_of_each_time(stream):
    found = tu.analysis.floors(stream)
    floor = found["bayes"]
    place = len(floor.times) // 2
    here = tu.analysis.bayes_optimal(stream.problem, 2 * floor.times[place])
    assert floor.error[place] == pytest.approx(here.error, abs=1e-12)
    curve = np.interp(floor.times, stream.times, stream.error)
    assert np.all(curve > floor.error)
    # a negative control: the samples of a batch of one would allow less
    one = tu.analysis.bayes_optimal(stream.problem, floor.times[place])
    assert one.error > 1.2 * floor.error[place]
    per_variance = tu.analysis.noise_floor(stream.problem).per_variance
    np.testing.assert_allclose(found["noise"].error, per_variance * 0.09)
    assert stream.error[-1] == pytest.approx(found["noise"].error[-1], rel=0.01)
    # without weight decay a minimum exists once there are more samples than weights
    exists = np.isfinite(found["minimum"].error)
    np.testing.assert_array_equal(exists, found["minimum"].times * 2 > 1)


def test_floors_are_those_of_the_teacher_that_was_drawn():
    problem = linear(noise=0.5, optimizer=tu.SGD(0.2))
    theory = tu.solve(problem, tu.random_start(problem, dim=20, seed=1), times=5.0)
    T = float(theory.T[0, 0])
    assert abs(T - 1) > 0.05
    stated = linear_with(T, noise=0.5)
    ends = tu.analysis.floors(theory)["bayes"].error[-1]
    assert ends == pytest.approx(tu.analysis.bayes_optimal(stated, 5.0).error)


def linear_with(T: float, **options) -> tu.Problem:
    return tu.Problem(UNIT, tu.Network(1, "linear", gram=[[T]]), **options)


def test_a_start_with_knowledge_is_named(stream):
    start = tu.Start(np.array([[0.9]]), np.array([[1.0]]))
    theory = tu.solve(stream.problem, start, times=5.0)
    assert "from R = 0" in tu.analysis.floors(theory)["bayes"].words
    assert "R = 0" not in tu.analysis.floors(stream)["bayes"].words
    drawn = tu.random_start(stream.problem, dim=500)
    theory = tu.solve(stream.problem, drawn, times=5.0)
    assert "R = 0" not in tu.analysis.floors(theory)["bayes"].words


def legend_words(figure) -> list[str]:
    texts = figure.axes[0].get_legend().get_texts()
    return [text.get_text().replace("\n", " ") for text in texts]


def test_floors_are_drawn_with_names(descent, stream):
    figure = descent.plot(floors=True)
    assert legend_words(figure) == [
        "error on fresh samples",
        "error on the data set",
        "minimum of the regularized loss",
        "its training error",
        "smallest possible error (Bayes)",
    ]
    figure = stream.plot(floors=True, time="alpha")
    assert legend_words(figure) == [
        "learning curve",
        "minimum over the samples so far",
        "smallest possible error (Bayes)",
        "noise floor at this learning rate",
    ]
    found = tu.analysis.floors(stream)
    line = figure.axes[0].lines[2]
    np.testing.assert_array_equal(line.get_ydata(), found["bayes"].error)
    assert legend_words(found.plot()) == legend_words(figure)
    assert stream.plot().axes[0].get_legend() is None


def test_runs_have_the_floors_of_their_problem(stream):
    variables = {name: np.stack([x, x]) for name, x in stream.variables.items()}
    error = np.stack([stream.error, 2 * stream.error])
    runs = replace(stream, kind="simulation", error=error, variables=variables)
    found = tu.analysis.floors(runs)
    expected = tu.analysis.bayes_optimal(stream.problem, found["bayes"].times * 2)
    np.testing.assert_allclose(found["bayes"].error, expected.error)
    assert runs.plot(floors=True) is not None
    batch = replace(runs, kind="theory")
    with pytest.raises(InputError, match="2 problems"):
        tu.analysis.floors(batch)


def test_what_has_no_floors(stream):
    network = tu.Network(3, "erf")
    problem = tu.Problem(network, network, optimizer=tu.SGD(0.5))
    theory = tu.solve(problem, tu.random_start(problem, dim=500), times=1.0)
    with pytest.raises(InputError, match=r"no floor that can be computed.*3 units"):
        tu.analysis.floors(theory)
    with pytest.raises(InputError, match="no problem"):
        tu.analysis.floors(replace(stream, problem=None))
    with pytest.raises(InputError, match="what solve or simulate returned"):
        tu.analysis.floors(3)
    with pytest.raises(InputError, match="no floor is called 'sea'"):
        tu.analysis.floors(stream)["sea"]
    with pytest.raises(InputError, match="floors"):
        stream.plot(floors="all")
