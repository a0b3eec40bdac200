"""A closed form says which assumption a problem breaks.

It looks at functions rather than at their names.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
import tutelage_papers


def called(name, function):
    function.__name__ = name
    return function


def one_unit(function):
    network = tu.Network(1, function)
    return tu.Problem(network, network, optimizer=tu.SGD(lr=0.2))


@pytest.mark.parametrize(
    ("formula", "function"),
    [
        (
            tutelage_papers.power_law.linear_network,
            called("linear", lambda x: x + jnp.sin(x)),
        ),
        (
            lambda problem: tutelage_papers.quadratic.critical_points(problem, dim=5),
            called("quadratic", lambda x: x**2 + jnp.cos(x)),
        ),
    ],
    ids=["linear", "quadratic"],
)
def test_formulas_look_at_the_function(formula, function):
    with pytest.raises(tu.InputError, match=function.__name__):
        formula(one_unit(function))


def test_erf_of_another_scale_has_no_plateau_formulas():
    problem = tutelage_papers.power_law.committee(2).replace(
        **{"student.activation": jax.scipy.special.erf}
    )
    start = tu.asymmetric_start(problem, dim=100)
    with pytest.raises(tu.InputError, match="erf"):
        tutelage_papers.power_law.plateau_formulas(problem, start)


def test_a_line_by_another_name_is_a_line():
    problem = one_unit(called("line", lambda x: 1.0 * x))
    assert tutelage_papers.power_law.linear_network(problem) is not None


def test_unseen_parts_of_the_teacher_break_the_reduced_system():
    teacher = tu.Network(2, "erf", unseen=[[0.3, 0.1], [0.1, 0.2]])
    problem = tu.Problem(tu.Network(2, "erf"), teacher)
    with pytest.raises(tu.InputError, match="unseen"):
        tutelage_papers.power_law.reduced_system(problem)


def test_another_loss_breaks_the_linear_network():
    network = tu.Network(2, "erf")
    problem = tu.Problem(network, network, loss="logistic", labels="sign")
    with pytest.raises(tu.InputError, match="'logistic'") as caught:
        tutelage_papers.power_law.linear_network(problem)
    for words in ("linear_network", "'squared'"):
        assert words in str(caught.value)


def test_what_is_no_problem_start_or_pair_gets_one_message():
    committee = tutelage_papers.power_law.committee(2)
    for wrong, words in (
        (lambda: tutelage_papers.power_law.plateau_formulas(3, None), "Problem"),
        (
            lambda: tutelage_papers.power_law.symmetric_plateau(committee, 0.1),
            "random_start",
        ),
        (
            lambda: tutelage_papers.power_law.weight_flow(committee, np.ones(3), 1.0),
            "pair",
        ),
    ):
        with pytest.raises(tu.InputError, match=words) as caught:
            wrong()
        assert "\n" not in str(caught.value)
