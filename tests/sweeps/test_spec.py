"""A spec is plain data, complete, and different for different questions."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.sweeps.questions import PROBLEM, START, spec_of
from tutelage.sweeps.spec import SweepSpec
from tutelage.sweeps.store import spec_key

CHANGES = {
    "over": {"lr": [0.4, 1.2], "noise": [0.0, 0.1, 0.4]},
    "measure": ["final_error", "error"],
    "times": [0.0, 10.0, 30.0],
    "start": START,
    "starts": 3,
    "runs": 4,
    "seed": 1,
    "gradient_flow": True,
    "rtol": 1e-6,
    "solver": "implicit",
    "points_per_chunk": 2,
}


def test_a_spec_survives_json():
    spec = spec_of(start=START, measure=["error", "noise_floor"])
    again = SweepSpec(**json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert again.base.to_dict() == PROBLEM.to_dict()


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_changes_the_numbers_changes_the_key(name):
    assert spec_key(spec_of().to_dict()) == spec_key(spec_of().to_dict())
    assert spec_key(spec_of().to_dict()) != spec_key(
        spec_of(**{name: CHANGES[name]}).to_dict()
    )
    assert spec_key(spec_of().to_dict()) != spec_key(
        spec_of(PROBLEM.replace(batch=2)).to_dict()
    )
    assert spec_key(spec_of().to_dict()) != spec_key(
        replace(spec_of(), sources={"a:b": "0"}).to_dict()
    )


def test_starts_are_those_of_the_library():
    spec = spec_of(seed=5, start={"dim": 300, "scale": 0.3})
    for number in (0, 2):
        expected = tu.random_start(PROBLEM, dim=300, scale=0.3, seed=5 + number)
        found = spec.start_at(PROBLEM, {}, number)
        assert np.array_equal(found.R, expected.R)
        assert found.dim == 300
    assert spec.start_at(PROBLEM, {"dim": 50}, 0).dim == 50
    assert np.array_equal(
        spec_of(start="asymmetric").start_at(PROBLEM, {}, 0).R,
        tu.asymmetric_start(PROBLEM).R,
    )
    given = spec_of(start=START).start_at(PROBLEM, {}, 0)
    assert np.array_equal(given.Q, START.Q)
    assert given.dim == START.dim


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start": 3}, "start is 3"),
        ({"start": "symmetric"}, "'symmetric'"),
        ({"start": {"R": [[0.0]]}}, "lacks Q"),
        ({"start": {"seed": 3}}, "Give seed="),
        ({"start": {"dimm": 3}}, "'dim'"),
        ({"start": {"R": [[0.0]], "Q": [[1.0]], "scale": 1.0}}, "must be one of R, Q"),
        ({"start": START, "starts": 2}, "only random initial conditions"),
        ({"starts": 0}, "starts"),
        ({"runs": 1}, "runs"),
        ({"times": [3.0, 1.0]}, "increase"),
        ({"rtol": 0.0}, "rtol"),
        ({"points_per_chunk": 0.5}, "points_per_chunk"),
        ({"solver": "fast"}, "explicit"),
    ],
)
def test_bad_options_are_refused(changes, words):
    with pytest.raises(tu.InputError, match=words):
        spec_of(**changes)


def test_only_a_problem_can_be_swept():
    with pytest.raises(tu.InputError, match="Problem"):
        spec_of({"lr": 1})
    own = tu.Problem(
        tu.Network(1, tu.Activation("mine", lambda x: x**3)), tu.Network(1)
    )
    with pytest.raises(tu.InputError, match="own function"):
        spec_of(own)


class Exponential(tu.Inputs):
    rate: float

    @property
    def eigenvalues(self):
        return jnp.exp(-self.rate * jnp.arange(3))

    @property
    def fractions(self):
        return np.full(3, 1 / 3)


def test_a_custom_law_of_inputs_is_swept_as_its_spectrum():
    """Its own parameters are not stored, so they cannot be an axis."""
    problem = tu.Problem(tu.Network(1), tu.Network(1), inputs=Exponential(0.5))
    rates = tu.sweep(problem, {"lr": [0.1, 0.2]}, "final_error", times=1.0)
    alone = [tu.solve(problem.replace(lr=lr), times=1.0).error[-1] for lr in (0.1, 0.2)]
    np.testing.assert_allclose(rates.dataset["final_error"], alone, rtol=1e-6)
    with pytest.raises(tu.InputError, match="'rate'; it must be one of"):
        tu.sweep(problem, {"rate": [0.1, 0.2]}, "final_error", times=1.0)


def test_a_grid_beyond_reason_is_refused():
    problem = tu.Problem(tu.Network(1), tu.Network(1))
    values = np.linspace(0.1, 1, 500)
    with pytest.raises(
        tu.InputError, match="the number of points is 125000000; it must be at most"
    ):
        tu.sweep(
            problem,
            {"lr": values, "noise": values, "weight_decay": values},
            "final_error",
        )
