"""`Problem.replace` and reprs:

a changed problem is the one that would have been built so.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu

PROBLEM = tu.Problem(
    tu.Network(2, readout=0.5),
    tu.Network(3, "relu"),
    inputs=tu.PowerLaw(1.0, 4),
    optimizer=tu.SGD(0.5),
    noise=0.1,
)


def test_plain_and_dotted_names():
    changed = PROBLEM.replace(
        **{
            "lr": 0.3,
            "noise": 0.2,
            "beta": 2.0,
            "student.activation": "tanh",
            "optimizer.batch": 4,
        }
    )
    assert eqx.tree_equal(
        changed,
        tu.Problem(
            tu.Network(2, "tanh", readout=0.5),
            tu.Network(3, "relu"),
            inputs=tu.PowerLaw(2.0, 4),
            optimizer=tu.SGD(0.3, batch=4),
            noise=0.2,
        ),
    )
    assert eqx.tree_equal(PROBLEM.replace(), PROBLEM)


def test_whole_parts_and_their_fields_together():
    changed = PROBLEM.replace(
        optimizer=tu.SGD(0.1, batch=2),
        lr=0.4,
        inputs=tu.Spectrum([1.0, 3.0]),
        fractions=[0.25, 0.75],
    )
    assert eqx.tree_equal(changed.optimizer, tu.SGD(0.4, batch=2))
    assert np.allclose(changed.inputs.weights.sum(), 1.0)
    assert changed.inputs.fractions.tolist() == [0.25, 0.75]


def test_the_numbers_of_a_schedule_have_names_too():
    decaying = PROBLEM.replace(lr=tu.schedules.PowerDecay(0.5))
    assert eqx.tree_equal(
        decaying.replace(**{"lr.timescale": 3.0}).optimizer.lr,
        tu.schedules.PowerDecay(0.5, timescale=3.0),
    )


def test_the_order_of_changes_does_not_matter():
    changes = {
        "student.hidden": 3,
        "student.readout": [1.0, 2.0, 3.0],
        "levels": 2,
        "trainable": [1],
    }
    backwards = dict(reversed(changes.items()))
    assert eqx.tree_equal(PROBLEM.replace(**changes), PROBLEM.replace(**backwards))


def test_a_new_width_keeps_a_uniform_readout_and_bias():
    wide = PROBLEM.replace(student=tu.Network(2, readout=0.5, bias=0.25)).replace(
        **{"student.hidden": 4}
    )
    assert wide.student.readout.tolist() == [0.5] * 4
    assert wide.student.bias.tolist() == [0.25] * 4
    with pytest.raises(tu.InputError, match=r"readout has shape \(2,\)"):
        PROBLEM.replace(student=tu.Network(2, readout=[0.5, 0.6])).replace(
            **{"student.hidden": 4}
        )


def test_a_changed_spectrum_keeps_a_unit_mean_and_only_that():
    unit = PROBLEM.replace(inputs=tu.Spectrum([1.0, 3.0]))
    assert np.allclose(
        unit.replace(eigenvalues=[1.0, 2.0, 3.0]).inputs.weights.sum(), 1.0
    )
    free = PROBLEM.replace(inputs=tu.Spectrum([1.0, 3.0], normalize=False))
    assert free.replace(eigenvalues=[1.0, 5.0]).inputs.eigenvalues.tolist() == [
        1.0,
        5.0,
    ]


def test_a_change_can_be_traced():
    def readback(lr):
        return jnp.asarray(PROBLEM.replace(lr=lr).optimizer.lr) * 2

    assert float(jax.jit(readback)(0.25)) == 0.5
    assert float(jax.grad(readback)(0.25)) == 2.0


def test_reprs_are_short_and_say_what_differs_from_the_usual():
    assert repr(tu.Network(3)) == "Network(3, 'erf')"
    assert repr(tu.Network(2, "relu", readout=0.5, train_readout=True, bias=0.1)) == (
        "Network(2, 'relu', readout=0.5, train_readout=True, bias=0.1)"
    )
    assert (
        repr(tu.Network(2, readout=[1.0, 2.0]))
        == "Network(2, 'erf', readout=[1.0, 2.0])"
    )
    assert (
        repr(tu.Network(2, gram=[[1.0, 0.5], [0.5, 1.0]]))
        == "Network(2, 'erf', gram=[[1.0, 0.5], [0.5, 1.0]])"
    )
    assert (
        repr(tu.Network(9, gram=np.eye(9))) == "Network(9, 'erf', gram=<array (9, 9)>)"
    )
    assert repr(tu.PowerLaw(1.5, 8)) == "PowerLaw(beta=1.5, levels=8)"
    assert repr(tu.Spectrum([1.0, 3.0])) == "Spectrum(2 levels, largest 1.5, scale 2)"
    assert repr(tu.Spectrum([2.0])) == "Spectrum(1 level, largest 1, scale 2)"
    assert repr(tu.SGD(0.5, batch=4, weight_decay=1e-3, momentum=0.9)) == (
        "SGD(lr=0.5, batch=4, weight_decay=0.001, momentum=0.9)"
    )
    assert repr(
        tu.SGD(tu.schedules.PowerDecay(0.5), momentum=tu.SlowMomentum(2.0))
    ) == ("SGD(lr=PowerDecay(initial=0.5), momentum=SlowMomentum(gamma=2))")
    assert (
        repr(tu.SGD(0.1, trainable=np.ones((5, 40), bool)))
        == "SGD(lr=0.1, trainable=<array (5, 40)>)"
    )


def test_traced_and_batched_problems_have_reprs_too():
    seen = []
    jax.jit(lambda lr: seen.append(repr(PROBLEM.replace(lr=lr))) or lr)(0.1)
    assert "lr=traced" in seen[0]
    batch = jax.vmap(lambda lr: PROBLEM.replace(lr=lr))(jnp.linspace(0.1, 1.0, 40))
    assert "lr=<array (40,)>" in repr(batch)
    assert len(repr(batch)) < 400


def test_new_eigenvalues_keep_the_fractions():
    asked = PROBLEM.replace(inputs=tu.Spectrum([4.0, 0.25], [0.2, 0.8]))
    changed = asked.replace(eigenvalues=[9.0, 1.0]).inputs
    assert changed.fractions.tolist() == [0.2, 0.8]
    assert eqx.tree_equal(changed, tu.Spectrum([9.0, 1.0], [0.2, 0.8]))
    with pytest.raises(
        tu.InputError,
        match=r"fractions has shape \(2,\); .*One fraction per eigenvalue",
    ):
        asked.replace(eigenvalues=[3.0, 2.0, 1.0])
    equal = PROBLEM.replace(inputs=tu.Spectrum([4.0, 1.0]))
    assert (
        equal.replace(eigenvalues=[3.0, 2.0, 1.0]).inputs.fractions.tolist()
        == [1 / 3] * 3
    )


@pytest.mark.parametrize("stored", [False, True])
def test_new_fractions_normalize_only_what_was_normalized(stored):
    def changed(inputs):
        asked = PROBLEM.replace(inputs=inputs)
        return (
            (tu.Problem.from_json(asked.to_json()) if stored else asked)
            .replace(fractions=[0.25, 0.75])
            .inputs
        )

    free = changed(
        tu.Spectrum([1.5, 0.5], normalize=False)
    )  # whose mean is one by chance
    assert free.eigenvalues.tolist() == [1.5, 0.5]
    unit = changed(tu.Spectrum([6.0, 2.0]))
    assert np.isclose(unit.weights.sum(), 1.0)
    assert np.isclose(
        float(unit.scale), 3.0
    )  # the mean of the eigenvalues as they were given
