"""Problems: their parts, changed copies, text files, initial conditions and times."""

import numpy as np
import pytest

import tutelage as tu


@pytest.fixture
def problem() -> tu.Problem:
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True),
        tu.Network(2, "erf", readout=[1.0, 0.5]),
        inputs=tu.Spectrum([3.0, 0.5], [0.2, 0.8]),
        optimizer=tu.SGD(
            0.7, batch=2, weight_decay=0.01, momentum=tu.SlowMomentum(2.0)
        ),
        noise=0.1,
    )


def test_a_network_computes_its_output():
    network = tu.Network(2, "linear", readout=[2.0, -1.0])
    assert float(network.output(np.array([3.0, 4.0]))) == 2.0
    assert network.hidden == 2
    assert network.outputs == 1


def test_the_erf_activation_is_that_of_the_literature():
    """g(x) = erf(x / sqrt 2), so that g'(0) = sqrt(2 / pi) (Saad and Solla 1995)."""
    activation = tu.Network(1, "erf").activation
    assert isinstance(activation, tu.Activation)
    assert float(activation(1.0)) == pytest.approx(0.6826894921370859)
    assert float(activation.slope(0.0)) == pytest.approx(np.sqrt(2.0 / np.pi))


def test_the_parts_of_a_problem_keep_their_numbers(problem):
    assert float(problem.optimizer.lr) == 0.7
    assert problem.optimizer.batch == 2
    assert float(problem.noise) == 0.1
    assert problem.student.train_readout
    assert problem.inputs.levels == 2


def test_replace_changes_parts_by_name(problem):
    changed = problem.replace(**{"noise": 0.3, "lr": 0.2, "student.hidden": 3})
    assert float(changed.noise) == 0.3
    assert float(changed.optimizer.lr) == 0.2
    assert changed.student.hidden == 3
    assert problem.student.hidden == 2


@pytest.mark.parametrize("form", ["dict", "toml", "json"])
def test_a_problem_survives_its_file(problem, form):
    written = getattr(problem, f"to_{form}")()
    read = getattr(tu.Problem, f"from_{form}")(written)
    assert read.to_dict() == problem.to_dict()
    assert repr(read) == repr(problem)


def test_a_spectrum_has_unit_mean():
    spectrum = tu.Spectrum([4.0, 0.25], [0.2, 0.8])
    mean = np.sum(spectrum.eigenvalues * spectrum.fractions)
    assert mean == pytest.approx(1.0)
    assert spectrum.eigenvalues[0] / spectrum.eigenvalues[1] == pytest.approx(16.0)
    assert isinstance(spectrum, tu.Inputs)


def test_isotropic_inputs_have_one_level():
    assert tu.Isotropic().eigenvalues == pytest.approx([1.0])


def test_a_power_law_has_its_exponent():
    """Eigenvalues fall as l^-(1 + beta)."""
    eigenvalues = tu.PowerLaw(beta=1.0, levels=4).eigenvalues
    np.testing.assert_allclose(eigenvalues[0] / eigenvalues, [1.0, 4.0, 9.0, 16.0])


def test_an_initial_condition_keeps_its_overlaps():
    start = tu.Start(R=[[0.3, 0.2]], Q=[[0.4]], dim=1000)
    np.testing.assert_array_equal(start.R, [[0.3, 0.2]])
    np.testing.assert_array_equal(start.Q, [[0.4]])
    assert start.dim == 1000


def test_the_asymmetric_start_follows_its_formula():
    """a_km = 0.2 + 0.1 (1 - k / 2K) where m = k; R = a T and Q = a T a^T + 0.1."""
    task = tu.Problem(tu.Network(2), tu.Network(2))
    start = tu.asymmetric_start(task)
    a = np.array([[0.3, 0.2], [0.2, 0.275]])
    np.testing.assert_allclose(start.R, a)
    np.testing.assert_allclose(start.Q, a @ a.T + 0.1 * np.eye(2))


def test_random_weights_have_their_scale():
    task = tu.Problem(tu.Network(2), tu.Network(2))
    start = tu.random_start(task, dim=100_000, scale=0.5, seed=1)
    # Five standard errors: a squared length has relative deviation sqrt(2 / N).
    np.testing.assert_allclose(np.diag(start.Q), 0.25, rtol=5 * np.sqrt(2 / 100_000))
    np.testing.assert_allclose(start.R, 0.0, atol=5 * 0.5 / np.sqrt(100_000))
    again = tu.random_start(task, dim=100_000, scale=0.5, seed=1)
    np.testing.assert_array_equal(start.R, again.R)


def test_the_overlaps_of_given_weights_are_their_products():
    task = tu.Problem(tu.Network(2), tu.Network(1))
    rng = np.random.default_rng(0)
    student = rng.standard_normal((2, 30))
    teacher = rng.standard_normal((1, 30))
    start = tu.start_from_weights(task, student, teacher)
    np.testing.assert_allclose(start.R, student @ teacher.T / 30)
    np.testing.assert_allclose(start.Q, student @ student.T / 30)
    np.testing.assert_allclose(start.T, teacher @ teacher.T / 30)


def test_times_are_even_or_logarithmic():
    np.testing.assert_allclose(tu.linear_times(10.0, 5), [0.0, 2.5, 5.0, 7.5, 10.0])
    np.testing.assert_allclose(tu.log_times(0.1, 10.0, 4), [0.0, 0.1, 1.0, 10.0])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: tu.Network(0),
        lambda: tu.Network(2, "erg"),
        lambda: tu.SGD(lr=-1.0),
        lambda: tu.Spectrum([1.0, -1.0]),
        lambda: tu.Start(R=[[2.0]], Q=[[1.0, 0.0]]),
        lambda: tu.Problem(tu.Network(1), tu.Network(1), noise=-0.1),
        lambda: tu.Problem(tu.Network(1), tu.Network(1)).replace(noize=0.1),
    ],
)
def test_a_wrong_value_raises_the_error_for_input(wrong):
    with pytest.raises(tu.InputError):
        wrong()
    assert issubclass(tu.InputError, ValueError)
    assert tu.InputError is tu.errors.InputError


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match="simulate"):
        tu.simulat  # noqa: B018


def test_the_version_has_three_numbers():
    assert len(tu.__version__.split(".")) >= 3


def test_the_traits_that_a_formula_needs():
    network = tu.Network(2, "erf")
    plain = tu.Problem(network, network)
    plain.require_traits("my_formula", ["squared", "fixed readout", "no momentum"])
    both_layers = plain.replace(**{"student.train_readout": True})
    both_layers.require_traits("my_formula", ["squared"])
    with pytest.raises(tu.InputError, match=r"my_formula.*readout learns"):
        both_layers.require_traits("my_formula", ["squared", "fixed readout"])
    with pytest.raises(tu.InputError, match="'fixed readout'"):
        plain.require_traits("my_formula", ["fixed readuot"])


def test_several_tasks_must_be_listed_among_the_traits():
    tasks = tu.Tasks([tu.Network(1, "erf")] * 2, similarity=0.3)
    problem = tu.Problem(tu.Network(2, "erf"), tasks)
    problem.require_traits("my_formula", ["tasks"])
    with pytest.raises(tu.InputError, match="one teacher"):
        problem.require_traits("my_formula", [])
