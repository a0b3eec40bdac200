"""Functions of one's own:

taken for what they compute, never for how they are called; recorded once; one message
each.
"""

import pickle
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tutelage.problem.activation import NAMED_ACTIVATIONS, as_activation

OVERLAPS = np.array([[0.3]]), np.array([[0.5]])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(150)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def one(student, teacher="erf"):
    return tu.Problem(
        tu.Network(1, student), tu.Network(1, teacher), optimizer=tu.SGD(lr=0.2)
    )


def true_error(student, teacher, R=0.3, Q=0.5):
    """e_g of one unit learning from one, by Gauss-Hermite in plain NumPy."""
    x, y = np.meshgrid(NODES, NODES, indexing="ij")
    student_field = R * x + np.sqrt(Q - R**2) * y
    return (
        np.sum(np.outer(WEIGHTS, WEIGHTS) * (teacher(x) - student(student_field)) ** 2)
        / 2
    )


def solved_error(problem):
    return float(tu.generalization_error(problem, *OVERLAPS))


def built_in(x):
    return erf(x / np.sqrt(2))


def called(name, function):
    function.__name__ = name
    return function


LIKE_BUILT_IN = {
    "erf": (jax.scipy.special.erf, erf),
    "relu": (
        called("relu", lambda x: jax.nn.softplus(3 * x)),
        lambda x: np.logaddexp(0, 3 * x),
    ),
    "linear": (called("linear", lambda x: x + jnp.sin(x)), lambda x: x + np.sin(x)),
    "quadratic": (
        called("quadratic", lambda x: x**2 + jnp.cos(x)),
        lambda x: x**2 + np.cos(x),
    ),
    "tanh": (called("tanh", lambda x: jnp.tanh(x / 2)), lambda x: np.tanh(x / 2)),
    "sign": (
        called("sign", lambda x: x / jnp.sqrt(1 + x**2)),
        lambda x: x / np.sqrt(1 + x**2),
    ),
}


LONG = ("linear", "quadratic", "tanh", "sign")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.full if n in LONG else ())
        for n in LIKE_BUILT_IN
    ],
)
def test_a_function_is_not_taken_for_the_built_in_of_its_name(name):
    function, plain = LIKE_BUILT_IN[name]
    assert as_activation(function).name == name
    for problem, expected in (
        (one(function, function), true_error(plain, plain)),
        (one("erf", function), true_error(built_in, plain)),
    ):
        assert solved_error(problem) == pytest.approx(expected, rel=2e-6)
        if (
            name != "erf"
        ):  # jax.scipy.special.erf has a module, by which a file can name it
            with pytest.raises(tu.InputError, match="own function"):
                problem.to_toml()


@pytest.mark.parametrize(
    "name",
    ["erf", *(pytest.param(n, marks=pytest.mark.full) for n in ("relu", "sign"))],
)
def test_nor_is_an_activation_of_that_name(name):
    function, plain = LIKE_BUILT_IN[name]
    assert solved_error(one("erf", tu.Activation(name, function))) == pytest.approx(
        true_error(built_in, plain), rel=2e-6
    )


def test_the_built_in_functions_themselves_keep_their_closed_forms():
    for function, name in (
        (jax.nn.relu, "relu"),
        (jnp.sign, "sign"),
        (jnp.tanh, "tanh"),
        (NAMED_ACTIVATIONS["erf"], "erf"),
    ):
        assert as_activation(function) is NAMED_ACTIVATIONS[name]
    copied = pickle.loads(pickle.dumps(NAMED_ACTIVATIONS["erf"]))
    assert one(copied).to_toml() == one("erf").to_toml()


@dataclass
class Scaled:
    a: float

    def __call__(self, x):
        return jnp.tanh(self.a * x)


class Module(eqx.Module):
    a: jax.Array

    def __call__(self, x):
        return jnp.tanh(self.a * x)


def test_a_changed_object_is_another_function():
    g = Scaled(1.0)
    before = one(g)
    old = solved_error(before)
    g.a = 2.0
    assert solved_error(before) == old  # read when the network was made
    assert solved_error(one(g)) == pytest.approx(
        true_error(lambda x: np.tanh(2 * x), built_in), rel=1e-6
    )
    assert old == pytest.approx(true_error(np.tanh, built_in), rel=1e-6)


def test_a_changed_closure_is_another_function():
    scale = {"a": 1.0}
    values = []
    for a in (1.0, 2.0):
        scale["a"] = a
        values.append(solved_error(one(lambda x: jnp.tanh(scale["a"] * x))))
    assert values[1] == pytest.approx(
        true_error(lambda x: np.tanh(2 * x), built_in), rel=1e-6
    )
    assert values[0] != values[1]


def test_dataclasses_and_modules_are_activations():
    expected = true_error(lambda x: np.tanh(1.5 * x), built_in)
    for g in (Scaled(1.5), Module(jnp.array(1.5))):
        assert solved_error(one(g)) == pytest.approx(expected, rel=1e-6)
        assert as_activation(g) == as_activation(g)
    of_number = Module(np.float64(1.5))
    assert as_activation(of_number) == as_activation(of_number)
    assert float(as_activation(of_number)(jnp.array(0.3))) == pytest.approx(
        np.tanh(0.45)
    )
    assert as_activation(Module(jnp.array(1.5))) != as_activation(
        Module(jnp.array(1.5000001))
    )
    assert as_activation(replace(Scaled(1.0), a=1.5)) == as_activation(Scaled(1.5))
    assert pickle.loads(pickle.dumps(as_activation(Scaled(1.5)))) == as_activation(
        Scaled(1.5)
    )


@pytest.mark.parametrize(
    "transform", [jax.grad, jax.jit, lambda f: lambda a: jax.vmap(f)(jnp.ones(2) * a)]
)
def test_a_traced_parameter_gets_one_message(transform):
    for g in (Module, lambda a: lambda x: jnp.tanh(a * x)):
        with pytest.raises(tu.InputError, match="JAX traces"):
            transform(lambda a, g=g: tu.generalization_error(one(g(a)), *OVERLAPS))(1.5)


def test_a_network_can_be_made_inside_a_transformation():
    value = jax.jit(
        lambda lr: (
            tu.generalization_error(one(lambda x: jnp.tanh(1.5 * x)), *OVERLAPS)
            + 0 * lr
        )
    )(0.1)
    assert float(value) == pytest.approx(
        true_error(lambda x: np.tanh(1.5 * x), built_in), rel=1e-6
    )


def test_declarations_are_checked():
    with pytest.raises(tu.InputError, match="not the polynomial"):
        tu.Network(1, tu.Activation("cube", lambda x: x**3, polynomial=(0.0, 1.0)))
    with pytest.raises(tu.InputError, match="parity"):
        tu.Network(1, tu.Activation("shifted", lambda x: jnp.tanh(x + 1), parity=-1))
    with pytest.raises(tu.InputError, match="each entry"):
        tu.Network(1, lambda x: x - jnp.mean(x))
    declared = tu.Network(
        1, tu.Activation("leaky", lambda x: jnp.where(x > 0, x, 0.1 * x))
    ).activation
    assert not declared.smooth
    with pytest.raises(tu.InputError, match="gradient"):
        one(tu.Activation("stairs", jnp.round))


def test_simulations_use_the_function():
    function, _ = LIKE_BUILT_IN["tanh"]
    start = tu.random_start(one(function), dim=40, seed=1)
    runs, named = (
        tu.simulate(one(g), start, times=[0.0, 1.0], runs=2, seed=1)
        for g in (function, "tanh")
    )
    halved = tu.simulate(
        one(lambda x: jnp.tanh(0.5 * x)), start, times=[0.0, 1.0], runs=2, seed=1
    )
    np.testing.assert_allclose(runs.error, halved.error, rtol=1e-12)
    assert not np.allclose(runs.error, named.error)
