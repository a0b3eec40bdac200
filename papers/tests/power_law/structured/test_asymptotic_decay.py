"""The last stage of learning, linear in the weights, against the solved overlaps."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tutelage.errors import InputError


@pytest.fixture(scope="module")
def problem():
    return tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)


def near(problem, size, seed=0, order=(0, 1, 2)):
    """Weights that are `size` away from teachers in another order, inside and outside their span, as a start."""
    rng = np.random.default_rng(seed)
    W_teacher = rng.standard_normal((3, 80))
    W = W_teacher[list(order)] + size * (
        rng.standard_normal((3, 80)) + rng.standard_normal((3, 3)) @ W_teacher
    )
    return tu.start_from_weights(problem, W, W_teacher)


def gaps(problem, size, times, **options):
    start = near(problem, size, **options)
    solved = tu.solve(
        problem, start, times, gradient_flow=True, rtol=1e-11, atol=1e-15
    ).error
    decay = tutelage_papers.power_law.asymptotic_decay(problem, start)
    return (
        np.abs(decay.error(times) / solved - 1).max(),
        np.abs(decay.first_order(times) / solved - 1).max(),
        decay,
    )


def test_it_is_the_solution_to_first_order_in_the_weights(problem):
    times = tu.linear_times(40, 81)
    coarse, fine = (gaps(problem, size, times) for size in (0.02, 0.002))
    assert coarse[0] < 0.1
    assert fine[0] / coarse[0] == pytest.approx(
        0.1, rel=0.3
    )  # what it drops is of relative order one in the deviation
    assert fine[1] > 0.1  # what a theory linear in the overlaps drops is not


def test_students_find_their_teachers_in_any_order(problem):
    times = tu.linear_times(40, 81)
    assert gaps(problem, 0.002, times, order=(2, 0, 1))[0] < 0.005


def test_its_rates_are_modes_of_the_perfect_solution(problem):
    orthonormal = tu.Start(np.eye(3), np.eye(3), np.eye(3))
    decay = tutelage_papers.power_law.asymptotic_decay(problem, orthonormal)
    modes = -np.array(
        [
            mode.rate
            for mode in tu.analysis.fixed_point(
                problem, "perfect", gradient_flow=True
            ).modes
        ]
    ).real
    assert max(np.min(np.abs(modes - rate)) for rate in decay.rates) < 1e-9
    assert "decay at rates" in str(decay)


def test_the_figure_and_the_refusals(problem):
    decay = tutelage_papers.power_law.asymptotic_decay(problem, near(problem, 0.02))
    assert len(decay.plot().axes) == 1
    with pytest.raises(InputError, match="K = M"):
        tutelage_papers.power_law.asymptotic_decay(
            tutelage_papers.power_law.committee(2, 3),
            tu.Start(np.zeros((2, 3)), np.eye(2)),
        )
    many = tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 400))
    with pytest.raises(InputError, match="decomposed"):
        tutelage_papers.power_law.asymptotic_decay(
            many, tu.Start(np.eye(3), np.eye(3), np.eye(3))
        )
