"""The plateau on which all students are one: heights, rates and closed forms, each by a second route."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tests.problems import jacobian
from tutelage import InputError
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics
from tutelage.stream.order_parameters import flatten


@pytest.fixture(scope="module")
def case():
    """Three units, four levels, teachers that are not alike."""
    problem = tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    return problem, tu.random_start(problem, dim=400, scale=0.01, seed=3)


@pytest.fixture(scope="module")
def plateau(case):
    return tutelage_papers.power_law.symmetric_plateau(*case)


def test_outputs_of_a_scaled_committee_do_not_grow_with_its_size():
    for K, M in ((2, 2), (3, 5)):
        problem = tutelage_papers.power_law.committee(K, M, activation="linear")
        assert np.sum(problem.student.readout) == pytest.approx(np.sqrt(M))
        assert np.sum(np.square(problem.teacher.readout)) == pytest.approx(1.0)


def test_the_plateau_is_a_fixed_point_of_the_overlaps_with_the_same_rates(
    case, plateau
):
    problem = case[0]
    state, t = initial_overlaps(problem, plateau.start)
    system = OrderParameters(problem, t, gradient_flow=True)
    assert np.max(np.abs(LocalDynamics(system, state).drift(flatten(state)))) < 1e-12
    rates = np.sort(np.linalg.eigvals(np.asarray(jacobian(system, 0.0, state))).real)[
        ::-1
    ]
    growing = plateau.rates[plateau.rates > 1e-6]
    np.testing.assert_allclose(
        rates[: 2 * growing.size], np.repeat(growing, 2), rtol=1e-6
    )  # each K - 1 times
    assert rates[2 * growing.size] < 1e-6
    field = tu.generalization_error(
        problem,
        np.tile(plateau.R, (3, 1)),
        np.full((3, 3), plateau.Q),
        system.covariances(state)[2],
    )
    assert plateau.error == pytest.approx(float(field), rel=1e-9)


def test_the_isotropic_plateau_of_saad_and_solla():
    K = 3
    problem = tutelage_papers.power_law.committee(K, lr=0.2)
    plateau = tutelage_papers.power_law.symmetric_plateau(
        problem, tu.Start(np.zeros((K, K)), np.eye(K))
    )
    np.testing.assert_allclose(plateau.Q, 1 / (2 * K - 1), rtol=1e-10)
    rate = (
        2 * K * 0.2 / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5) / K
    )  # readouts of 1/sqrt(K) divide time by K
    np.testing.assert_allclose(plateau.rates[: K - 1], rate, rtol=1e-8)


def test_what_has_no_such_plateau_is_refused(case):
    problem, start = case
    with pytest.raises(InputError, match="equal readouts"):
        tutelage_papers.power_law.symmetric_plateau(
            problem.replace(**{"student.readout": [1.0, 1.0, 2.0]}), start
        )
    with pytest.raises(InputError, match="decay"):
        tutelage_papers.power_law.symmetric_plateau(
            problem.replace(weight_decay=0.1), start
        )


def test_the_figure_shows_heights_and_rates(plateau):
    figure = plateau.plot()
    assert len(figure.axes) == 2
