"""A problem as TOML and JSON: what is read back is the problem that was written."""

import json
import tomllib

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import tutelage as tu
from tests.problem.messages import require_refusal
from tutelage.problem.activation import NAMED_ACTIVATIONS

positive = st.floats(1e-6, 1e3)
number = st.floats(-10.0, 10.0)
seeds = st.integers(0, 2**31)


def gram(seed, *shape):
    vectors = np.random.default_rng(seed).standard_normal((*shape, shape[-1] + 2))
    return vectors @ np.swapaxes(vectors, -1, -2) / shape[-1]


waits = st.lists(positive, min_size=1, max_size=3)
schedules = st.one_of(
    positive,
    st.builds(tu.schedules.Constant, positive),
    st.builds(tu.schedules.PowerDecay, positive, st.floats(0, 3), positive),
    st.builds(tu.schedules.Cosine, positive, positive, st.floats(0, 1)),
    st.builds(
        lambda wait, rate: tu.schedules.Piecewise(
            np.cumsum(wait), rate * np.arange(1.0, len(wait) + 2)
        ),
        waits,
        positive,
    ),
    st.builds(
        lambda wait, rate: tu.schedules.Interpolated(
            [0.0, *np.cumsum(wait)], rate * np.arange(1.0, len(wait) + 2)
        ),
        waits,
        positive,
    ),
)
spectra = st.lists(st.tuples(positive, st.floats(0.1, 1.0)), min_size=1, max_size=5)


def spectrum(levels, normalize):
    eigenvalues, shares = np.array(levels).T
    return tu.Spectrum(eigenvalues, shares / shares.sum(), normalize=normalize)


laws = st.one_of(
    st.just(tu.Isotropic()),
    st.builds(tu.PowerLaw, st.floats(0, 3), st.integers(1, 5)),
    st.builds(spectrum, spectra, st.booleans()),
    st.builds(
        lambda s: tu.from_data(
            np.random.default_rng(s).standard_normal((9, 4))
        ).inputs.without_basis(),
        seeds,
    ),
)


@st.composite
def networks(draw, teacher, levels):
    hidden = draw(st.integers(1, 4))
    names = (
        sorted(NAMED_ACTIVATIONS)
        if teacher
        else sorted(n for n, a in NAMED_ACTIVATIONS.items() if a.trainable)
    )
    per_unit = st.one_of(number, st.lists(number, min_size=hidden, max_size=hidden))
    options = {"readout": draw(per_unit), "bias": draw(st.none() | per_unit)}
    if teacher:
        shape = draw(st.sampled_from([None, (hidden,), (levels, hidden)]))
        options["gram"] = None if shape is None else gram(draw(seeds), *shape)
    else:
        options |= {
            "train_readout": draw(st.booleans()),
            "train_bias": draw(st.booleans()),
        }
    return tu.Network(hidden, draw(st.sampled_from(names)), **options)


@st.composite
def problems(draw):
    inputs = draw(laws)
    student = draw(networks(False, inputs.levels))
    teacher = draw(networks(True, inputs.levels))
    K = student.hidden
    L = inputs.levels
    trainable = st.one_of(
        st.none(),
        st.lists(st.integers(0, L - 1), min_size=1, max_size=3),
        st.lists(st.booleans(), min_size=L, max_size=L),
        st.lists(
            st.lists(st.booleans(), min_size=L, max_size=L), min_size=K, max_size=K
        ),
    )
    spherical = draw(st.booleans())
    slow = st.builds(tu.SlowMomentum, positive, st.none() | schedules)
    optimizer = tu.SGD(
        draw(schedules),
        batch=draw(st.integers(1, 64)),
        weight_decay=0.0 if spherical else draw(st.floats(0, 1)),
        readout_lr=draw(st.none() | schedules),
        bias_lr=draw(st.none() | schedules),
        momentum=draw(st.floats(0, 0.99))
        if spherical
        else draw(st.floats(0, 0.99) | slow),
        trainable=draw(trainable),
        spherical=spherical,
    )
    return tu.Problem(
        student,
        teacher,
        inputs=inputs,
        optimizer=optimizer,
        noise=draw(st.floats(0, 2)),
    )


@pytest.mark.filterwarnings(
    "ignore::tutelage.errors.ValidityWarning"
)  # few samples of data
@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems())
def test_every_problem_survives_a_round_trip(problem):
    assert eqx.tree_equal(tu.Problem.from_toml(problem.to_toml()), problem)
    assert eqx.tree_equal(tu.Problem.from_json(problem.to_json()), problem)
    assert eqx.tree_equal(tu.Problem.from_dict(problem.to_dict()), problem)
    assert tomllib.loads(problem.to_toml()) == json.loads(problem.to_json())
    assert len(repr(problem)) < 1200
    assert "\n" not in repr(problem)


TIMES = np.linspace(0.0, 4.0, 9)


@pytest.mark.parametrize(
    "problem",
    [
        tu.Problem(
            tu.Network(1, "linear"),
            tu.Network(1, "linear"),
            optimizer=tu.SGD(tu.schedules.PowerDecay(0.7, 0.3)),
            noise=1 / 3,
        ),
        tu.Problem(
            tu.Network(1),
            tu.Network(1, gram=[[1.7]]),
            inputs=tu.Spectrum([0.3, 1.9], [0.6, 0.4]),
            optimizer=tu.SGD(0.1),
        ),
    ],
    ids=["schedule", "spectrum"],
)
def test_what_was_read_solves_identically(problem):
    start = tu.Start(R=[[0.1]], Q=[[0.2]])
    ours, theirs = (
        tu.solve(p, start, times=TIMES)
        for p in (problem, tu.Problem.from_toml(problem.to_toml()))
    )
    assert np.array_equal(ours.error, theirs.error)
    assert np.array_equal(ours.Q, theirs.Q)


def test_a_measured_spectrum_keeps_its_theory_but_not_its_eigenvectors():
    spectrum = tu.from_data(load_digits().data, levels=6).inputs
    problem = tu.Problem(
        tu.Network(2), tu.Network(2), inputs=spectrum, optimizer=tu.SGD(0.1)
    )
    for back in (
        tu.Problem.from_toml(problem.to_toml()),
        tu.Problem.from_json(problem.to_json()),
    ):
        assert eqx.tree_equal(back, problem.replace(inputs=spectrum.without_basis()))
        assert np.array_equal(back.inputs.eigenvalues, spectrum.eigenvalues)
        assert np.array_equal(back.inputs.fractions, spectrum.fractions)
        assert (back.inputs.known_dim, back.inputs.dropped, back.inputs.scale) == (
            61,
            3,
            spectrum.scale,
        )
        assert np.array_equal(back.inputs.level_dims(61), spectrum.level_dims(61))
        assert back.inputs.basis is None
        assert eqx.tree_equal(
            tu.random_start(back, dim=61, seed=4),
            tu.random_start(problem, dim=61, seed=4),
        )
        assert repr(back) == repr(problem)
    assert len(problem.to_json()) < 1000
    with pytest.raises(tu.InputError) as caught:
        tu.start_from_weights(back, np.ones((2, 61)), np.ones((2, 61)))
    require_refusal(caught.value, "eigenvectors", "from_data")


def test_the_file_is_short_and_says_what_matters():
    problem = tu.Problem(
        tu.Network(3, "relu", readout=0.5),
        tu.Network(2),
        inputs=tu.PowerLaw(1.0, 4),
        optimizer=tu.SGD(0.5),
    )
    assert problem.to_toml() == (
        'noise = 0.0\n\n[student]\nhidden = 3\nactivation = "relu"\nreadout = 0.5\n\n[teacher]\nhidden = 2\n'
        'activation = "erf"\n\n[inputs]\nkind = "power_law"\nbeta = 1.0\nlevels = 4\n\n[optimizer]\nkind = "sgd"\nlr = 0.5\n'
    )


def test_a_person_s_file_needs_only_the_networks():
    problem = tu.Problem.from_toml(
        "[student]\nhidden = 3\n[teacher]\nhidden = 2\nactivation = 'relu'\n"
    )
    assert eqx.tree_equal(problem, tu.Problem(tu.Network(3), tu.Network(2, "relu")))


def test_a_user_s_own_function_is_named_in_the_refusal():
    def swish(x):
        return x / (1 + jnp.exp(-x))

    for write in ("to_toml", "to_json", "to_dict"):
        with pytest.raises(tu.InputError) as caught:
            getattr(tu.Problem(tu.Network(2, swish), tu.Network(2)), write)()
        require_refusal(caught.value, "'swish'", "file")


class Exponential(tu.Inputs):
    rate: float
    count: int = eqx.field(static=True)

    @property
    def eigenvalues(self):
        return jnp.exp(-self.rate * jnp.arange(self.count))

    @property
    def fractions(self):
        return np.full(self.count, 1 / self.count)

    @property
    def known_dim(self):
        return 4 * self.count


def test_a_user_s_own_law_of_inputs_is_stored_as_its_spectrum(tmp_path):
    problem = tu.Problem(
        tu.Network(1),
        tu.Network(1),
        inputs=Exponential(0.5, 3),
        optimizer=tu.SGD(lr=0.3),
    )
    theory = tu.solve(problem, tu.random_start(problem, dim=12), 5.0)
    theory.save(tmp_path / "theory.nc")
    for read in (
        tu.Problem.from_toml(problem.to_toml()),
        tu.Problem.from_json(problem.to_json()),
        tu.load(tmp_path / "theory.nc").problem,
    ):
        np.testing.assert_allclose(
            read.inputs.eigenvalues, np.exp([0.0, -0.5, -1.0]), rtol=1e-15
        )  # not normalized
        np.testing.assert_array_equal(read.inputs.fractions, problem.inputs.fractions)
        assert (read.inputs.known_dim, float(read.optimizer.lr)) == (12, 0.3)
        np.testing.assert_allclose(
            tu.solve(read, theory.start, 5.0).error, theory.error, rtol=1e-9
        )


def test_a_batch_that_differs_in_a_user_s_own_law_has_no_stored_problem(tmp_path):
    """Its members have different spectra: that of the first must not stand for all."""

    @eqx.filter_vmap
    def solve(rate):
        problem = tu.Problem(
            tu.Network(1),
            tu.Network(1),
            inputs=Exponential(rate, 3),
            optimizer=tu.SGD(lr=0.3),
        )
        return tu.solve(
            problem,
            tu.Start(np.full((3, 1, 1), 0.1), np.full((3, 1, 1), 0.5)),
            [0.0, 1.0],
        )

    batch = solve(jnp.array([0.5, 1.0]))
    batch.save(tmp_path / "batch.nc")
    loaded = tu.load(tmp_path / "batch.nc")
    assert loaded.problem is None
    np.testing.assert_array_equal(loaded.error, batch.error)
