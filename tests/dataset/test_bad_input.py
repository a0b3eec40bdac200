"""One message for each problem that the theory of a data set lacks."""

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import problems

DATA = tu.DataSet(2.0)
START = tu.Start(R=[[0.1]], Q=[[0.5]])
ONE = problems.REGRESSION


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"momentum": 0.9}, "the problem has momentum"),
        ({"momentum": tu.SlowMomentum(1.0)}, "the problem has momentum"),
        ({"spherical": True}, "spherical is True"),
        ({"rule": "node_perturbation"}, "the rule is NodePerturbation"),
        ({"rule": tu.rules.Dropout(0.8)}, "the rule is Dropout"),
        ({"loss": lambda output, label: (output - label) ** 4}, "a custom function"),
        ({"noise": tu.schedules.PowerDecay(0.5)}, "the noise of its labels"),
    ],
)
def test_unsupported_problems(change, words):
    if change.get("rule") == "node_perturbation":
        change = {"rule": tu.rules.NodePerturbation(0.1)}
    with pytest.raises(tu.InputError, match=words):
        tu.solve(ONE.replace(**change), START, 1.0)


def test_several_tasks_and_mixtures():
    tasks = tu.Tasks([problems.LINEAR, problems.LINEAR], tu.Switch([5.0]))
    problem = tu.Problem(problems.LINEAR, tasks, data=DATA)
    with pytest.raises(tu.InputError, match="2 tasks"):
        tu.solve(problem, tu.Start(R=[[0.1, 0.1]], Q=[[0.5]]), 1.0)
    with pytest.raises(tu.InputError, match="2 tasks"):
        tu.simulate(problem, dim=50, times=1.0)


def test_descent_needs_a_data_set():
    with pytest.raises(tu.InputError, match=r"has no data; give data=DataSet"):
        tu.Problem(problems.LINEAR, problems.LINEAR, optimizer=problems.Descent(lr=0.1))


def test_unstable_rates_name_their_limit():
    with pytest.raises(tu.InputError, match="diverges from lr = 2 on"):
        tu.solve(ONE.replace(lr=2.5), START, 1.0)
    descent = ONE.replace(optimizer=problems.Descent(1.5))
    with pytest.raises(tu.InputError, match=r"diverges from lr = 0\.606"):
        tu.solve(descent, START, 1.0)


def test_too_many_epochs_for_the_memory():
    with pytest.raises(tu.InputError, match="Solve for fewer epochs"):
        tu.solve(problems.COMMITTEE, problems.COMMITTEE_START, 40000.0)
    with pytest.raises(tu.InputError, match="Lower dim or ratio"):
        tu.simulate(ONE, START, dim=10**7, times=1e-6)


def test_options_of_other_theories():
    with pytest.raises(tu.InputError, match="takes no 'gradient_flow'; leave it out"):
        tu.solve(ONE, START, 1.0, gradient_flow=True)
    with pytest.raises(tu.InputError, match="finite data set has no solve_batch"):
        tu.solve_batch(ONE, {"lr": [0.1, 0.2]}, START)
    with pytest.raises(tu.InputError, match="with method='weights' only"):
        tu.simulate(ONE, START, dim=50, method="overlaps")
    with pytest.raises(tu.InputError, match="uses a data set again and again"):
        tu.analysis.fixed_point(ONE, START)


def test_rows_that_do_not_fit():
    rows = np.ones((30, 20))
    with pytest.raises(tu.InputError, match=r"has 30 samples|lower the ratio to 1\.4"):
        tu.simulate(ONE, START, times=1.0, inputs=rows[:28])
    with pytest.raises(tu.InputError, match="labels are given without inputs"):
        tu.simulate(ONE, START, dim=20, times=1.0, labels=np.ones(30))
    with pytest.raises(tu.InputError, match=r"must have shape \(30,\)"):
        tu.simulate(ONE, START, times=1.0, inputs=rows, labels=np.ones(29))
    signs = problems.LOGISTIC.replace(ratio=1.5)
    with pytest.raises(tu.InputError, match="map the two classes to -1 and 1"):
        tu.simulate(signs, START, times=1.0, inputs=rows, labels=np.zeros(30))
    with pytest.raises(tu.InputError, match="takes no 'labels'"):
        tu.simulate(ONE.replace(data=None), START, dim=20, times=1.0, labels=[1.0])


def test_too_few_sample_paths():
    start = problems.COMMITTEE_START
    with pytest.raises(tu.InputError, match="too few sample paths"):
        tu.solve(problems.COMMITTEE, start, 24.0, moments=tu.Sampled(2**9))


def test_dependent_teacher_units():
    start = tu.Start(R=0.1 * np.ones((2, 2)), Q=np.eye(2), T=np.ones((2, 2)))
    with pytest.raises(tu.InputError, match="linearly dependent"):
        tu.solve(problems.COMMITTEE, start, 1.0)


def test_a_share_of_a_data_set_in_epochs():
    problem = ONE.replace(optimizer=problems.Descent(0.1, share=0.5), order="epochs")
    with pytest.raises(tu.InputError, match="a share of the data set in epochs"):
        tu.solve(problem, START, 1.0)


def test_a_divergence_keeps_the_curve_before_it():
    relu = tu.Network(1, "relu")
    problem = tu.Problem(relu, relu, optimizer=tu.SGD(8.0), data=DATA)
    with pytest.warns(tu.errors.DivergenceWarning, match="diverged"):
        theory = tu.solve(problem, START, 30.0, moments=tu.Sampled(2**13))
    assert 0 < theory.times[-1] < 30.0
    assert np.all(np.isfinite(theory.Q))
