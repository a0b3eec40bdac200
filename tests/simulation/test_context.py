"""A rule may look at the rate, the time and the overlaps:

theory and every simulation loop show it the same ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu

UNIT = tu.Network(1, "linear")
START = tu.Start([[[0.3]], [[0.1]]], [[[1.0]], [[0.3]]])
TIMES = [0.0, 1.0, 3.0]


class Watchful(tu.Rule):
    """The perceptron of a student that learns less the longer it is, the later it is and the larger the rate."""

    def update(self, sample, parameters, context):
        _, Q, T = context.overlaps
        caution = (0.2 + Q[0, 0] + 0.5 * context.time) * context.lr * T[0, 0]
        delta = (
            jnp.where(sample.label * sample.student < 0, sample.label, 0.0) / caution
        )
        return self.result(delta, parameters)


def problem():
    """On two levels, whose eigenvalues weigh the overlaps."""
    optimizer = tu.SGD(tu.schedules.PowerDecay(0.8, timescale=4.0))
    return tu.Problem(
        UNIT,
        UNIT,
        labels="sign",
        rule=Watchful(),
        optimizer=optimizer,
        inputs=tu.Spectrum([8.0, 2 / 9], [0.1, 0.9]),
    )


@pytest.fixture(scope="module")
def theory():
    return tu.solve(problem(), START, TIMES, moments=tu.Sampled(2**15))


@pytest.mark.parametrize("options", [{}, {"method": "weights"}, {"together": True}])
def test_simulations_show_a_rule_what_the_theory_shows_it(options, theory):
    runs = tu.simulate(
        problem(), START, dim=300, times=TIMES, runs=120, seed=3, **options
    )
    for name in ("R", "Q"):
        mean = runs[name].mean(axis=0)
        error = runs[name].std(axis=0) / np.sqrt(120)
        np.testing.assert_array_less(
            np.abs(mean - theory[name])[1:], 4 * error[1:] + 2e-3
        )
    plain = tu.solve(problem().replace(rule="perceptron"), START, TIMES)
    assert (
        abs(float(plain.Q[-1, 0, 0] - theory.Q[-1, 0, 0])) > 0.03
    )  # a rule that sees nothing differs


def test_a_derivative_that_would_be_wrong_is_refused():
    """With sampled averages the hinge loss jumps where the readout says:

    no silent zero.
    """
    committee = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), loss="hinge", labels="sign"
    )
    start = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])

    def by_readout(v):
        return tu.solve(
            committee.replace(**{"student.readout": v}), start, [0.0, 0.1]
        ).error[-1]

    with pytest.raises(tu.InputError, match="'hinge' jumps where the readout says"):
        jax.grad(by_readout)(jnp.ones(2)[0] * jnp.ones(2))
