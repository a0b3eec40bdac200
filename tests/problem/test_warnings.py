"""Warnings: the computation ran, and one sentence says what to think of its result."""

import importlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problem.messages import require_form

TIMES = np.linspace(0.0, 4.0, 9)
TWO = tu.Problem(tu.Network(2), tu.Network(2), optimizer=tu.SGD(0.5))


def heard(call):
    """The result of a call and the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, caught


def one(activation, lr):
    return tu.Problem(
        tu.Network(1, activation), tu.Network(1, activation), optimizer=tu.SGD(lr)
    )


ALONE = tu.Start(R=[[0.1]], Q=[[0.1]])


def numbers(trajectory):
    return [
        trajectory.times,
        trajectory.error,
        trajectory.loss,
        trajectory.end_time,
        *trajectory.variables.values(),
    ]


class Stop(Exception):
    """Raised in place of the integration."""


@pytest.fixture
def said(monkeypatch):
    """The warnings that `solve` gives before it integrates, as (category, sentence)."""

    def stop(*_):
        raise Stop

    solve = importlib.import_module("tutelage.stream.solve")
    monkeypatch.setattr(solve.program, "run", stop)

    def before(problem, start):
        def call():
            with pytest.raises(Stop):
                tu.solve(problem, start, times=TIMES)

        return [(w.category, str(w.message)) for w in heard(call)[1]]

    return before


def test_a_large_eigenvalue_is_named_with_its_number(said):
    problem = TWO.replace(inputs=tu.Spectrum([50.0, 0.5], [0.01, 0.99]))
    ratio = 0.5 * float(problem.inputs.eigenvalues.max()) / 100
    assert ratio > 0.05
    [(category, sentence)] = said(problem, tu.random_start(problem, dim=100, seed=1))
    assert category is tu.errors.ValidityWarning
    require_form(sentence, f"eta lam_max / N is {ratio:.3g}", "N = 100", "0.05")
    assert said(problem, tu.random_start(problem, dim=1000, seed=1)) == []


def test_a_measured_spectrum_is_judged_by_its_own_dimension(said):
    data = (
        np.random.default_rng(0).standard_normal((200, 20)) * np.r_[10.0, np.ones(19)]
    )
    problem = TWO.replace(inputs=tu.from_data(data).inputs)
    [(category, sentence)] = said(problem, None)
    assert category is tu.errors.ValidityWarning
    require_form(sentence, "N = 20")


@pytest.mark.parametrize("units", [2, 3])
def test_an_exactly_symmetric_start_is_said_once(said, units):
    problem = tu.Problem(tu.Network(units), tu.Network(2), optimizer=tu.SGD(0.5))
    start = tu.Start(R=np.full((units, 2), 0.01), Q=0.1 * np.eye(units))
    [(category, sentence)] = said(problem, start)
    assert category is tu.errors.SymmetryWarning
    require_form(sentence, "units 1 and 2", "random_start")
    assert said(problem, tu.random_start(problem, dim=1000, seed=0)) == []


def test_unequal_readouts_or_biases_break_the_symmetry(said):
    start = tu.Start(R=np.full((2, 2), 0.01), Q=0.1 * np.eye(2))
    for student in (tu.Network(2, readout=[1.0, 1.5]), tu.Network(2, bias=[0.0, 0.1])):
        assert said(TWO.replace(student=student), start) == []


@pytest.mark.parametrize(
    ("activation", "lr", "times"),
    [("linear", 5.0, TIMES), ("quadratic", 5.0, np.linspace(0, 0.04, 9))],
)
def test_divergence_keeps_what_came_before(activation, lr, times):
    problem = one(activation, lr)
    quick = {"max_steps": 3000} if activation == "quadratic" else {}
    trajectory, caught = heard(lambda: tu.solve(problem, ALONE, times=times, **quick))
    assert [w.category for w in caught] == [tu.errors.DivergenceWarning]
    text = str(caught[0].message)
    require_form(
        text, f"alpha = {float(trajectory.end_time):.6g}", f"learning rate {lr:g}"
    )
    assert not trajectory.finished
    assert 0 < len(trajectory.times) < len(times)
    assert np.array_equal(trajectory.times, times[: len(trajectory.times)])
    assert trajectory.times[-1] <= trajectory.end_time
    assert all(np.all(np.isfinite(x)) for x in numbers(trajectory))
    before = np.linspace(0.0, trajectory.times[-1], len(times))
    assert np.allclose(
        tu.solve(problem, ALONE, times=before, **quick).Q[-1],
        trajectory.Q[-1],
        rtol=1e-5,
    )


def test_a_blow_up_in_finite_time_is_a_divergence():
    """Q' ~ Q^3 reaches infinity at a finite time:

    the step shrinks to nothing long before the bound is met.
    """
    trajectory, _ = heard(
        lambda: tu.solve(
            one("quadratic", 5.0), ALONE, times=np.linspace(0, 0.04, 9), max_steps=3000
        )
    )
    assert trajectory.status_code == tu.errors.Status.DIVERGED


def test_divergence_under_vmap_leaves_nan_after_and_a_code():
    batch, caught = heard(
        lambda: jax.vmap(lambda lr: tu.solve(one("linear", lr), ALONE, times=TIMES))(
            jnp.array([0.5, 5.0, 1.0])
        )
    )
    assert caught == []
    assert batch.status_code.tolist() == [
        tu.errors.Status.FINISHED,
        tu.errors.Status.DIVERGED,
        tu.errors.Status.FINISHED,
    ]
    alone, _ = heard(lambda: tu.solve(one("linear", 5.0), ALONE, times=TIMES))
    kept = len(alone.times)
    assert np.all(np.isfinite(batch.error[jnp.array([0, 2])]))
    assert np.all(np.isfinite(batch.error[1, :kept]))
    assert np.all(np.isnan(batch.error[1, kept:]))
    assert np.all(np.isnan(batch.Q[1, kept:]))
    assert np.allclose(batch.error[1, :kept], alone.error, rtol=1e-6)
    require_form(batch.status, "1 of 3", "number 1", "diverged", "alpha")


def test_a_user_s_equations_diverge_without_a_learning_rate_to_name():
    growth = tu.Equations(("x",), lambda t, s: (5 * s.x,), lambda s: s.x**2)
    trajectory, caught = heard(lambda: tu.solve(growth, [1.0], times=TIMES * 10))
    assert [w.category for w in caught] == [tu.errors.DivergenceWarning]
    require_form(str(caught[0].message), "alpha")
    assert "given" not in str(caught[0].message)
    assert np.all(np.isfinite(trajectory.error))
    assert np.allclose(trajectory["x"], np.exp(5 * trajectory.times), rtol=1e-6)
