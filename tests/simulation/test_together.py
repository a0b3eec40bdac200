"""All runs in one program follow the law of the compiled loop; each part of the step has a case of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy.stats import chi as chi_law
from scipy.stats import kstest

import tutelage as tu
from tests.simulation.cases import CASES
from tests.simulation.laws import LEVEL, probability
from tutelage.simulation import draws, jax_steps, overlaps, prepare

TIMES = [0.0, 0.5, 1.5, 3.0]


def ensembles(name: str, runs: int, compiled_runs: int | None = None):
    """Runs side by side take the longer, so there may be fewer of them."""
    problem, start, dim = CASES[name]
    options = {"dim": dim, "times": TIMES}
    side_by_side = tu.simulate(
        problem, start, seed=3, together=True, runs=runs, **options
    )
    return side_by_side, tu.simulate(
        problem, start, seed=4, together=False, runs=compiled_runs or runs, **options
    )


# test_same_law.py compares the same step, side by side, with the compiled loop
@pytest.mark.full
def test_same_law():
    """Levels of several sizes, batches, noise; all cases, with many runs, below."""
    assert probability(*ensembles("batch of five", 660, 2100)) > LEVEL


@pytest.mark.full
def test_same_law_and_one_degree_of_freedom_is_noticed(monkeypatch):
    """A negative control: one ensemble has one dimension more."""
    assert probability(*ensembles("erf with noise", 3000)) > LEVEL
    right = prepare.level_layout

    def one_more(problem, dims):
        layout = right(problem, dims)
        return layout._replace(dof=layout.dof + 1)

    problem, start, dim = CASES["erf with noise"]
    options = {"dim": dim, "times": TIMES, "runs": 3000}
    compiled = tu.simulate(problem, start, seed=4, **options)
    monkeypatch.setattr(prepare, "level_layout", one_more)
    assert (
        probability(
            tu.simulate(problem, start, seed=3, together=True, **options), compiled
        )
        < 1e-2 * LEVEL
    )


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_same_law_with_many_runs(name):
    assert probability(*ensembles(name, 2000 if "biases" in name else 20_000)) > LEVEL


@pytest.mark.parametrize("dof", [1, 2, 40])
def test_chi_has_its_law(dof):
    draw = jax.jit(lambda keys: draws.chi(keys, jnp.arange(4), 7, jnp.array([dof])))
    lengths = np.asarray(draw(draws.run_keys(dof, 5000))).ravel()
    assert kstest(lengths, chi_law(dof).cdf).pvalue > 1e-4
    assert kstest(lengths, chi_law(dof + 1).cdf).pvalue < 1e-6


def test_uniform_numbers_are_threefry_of_step_and_number():
    """Against JAX's own use of the same generator, bit by bit; steps beyond 2^32 are others."""
    keys = draws.run_keys(0, 3)
    steps = jnp.array([0, 5, 5 + 2**32])
    u = np.asarray(jax.jit(draws.uniform)(keys, steps, np.array([[2, 9]])))
    assert u.shape == (3, 1, 2, 3)
    words = threefry_2x32(keys[:, 1], jnp.array([5, 5, 2, 9], dtype=jnp.uint32)).astype(
        np.uint64
    )  # (high, low) x (2, 9)
    np.testing.assert_array_equal(
        u[1, 0, :, 1], ((words[:2] << 20 | words[2:] >> 12) + 0.5) * 2.0**-52
    )
    assert np.unique(u).size == u.size


def test_normal_numbers_have_their_law_and_no_correlations():
    """Across steps, numbers and runs; the smallest and the largest uniform number give finite normals."""
    z = np.asarray(
        jax.jit(lambda *at: draws.as_normal(draws.uniform(*at)))(
            draws.run_keys(0, 400), jnp.arange(20), np.arange(6)
        )
    )
    assert kstest(z.ravel(), "norm").pvalue > 1e-4
    for a, b in ((z[1:], z[:-1]), (z[:, 1:], z[:, :-1]), (z[..., 1:], z[..., :-1])):
        assert abs(np.mean(a * b)) * np.sqrt(a.size) < 4
    assert np.all(np.isfinite(draws.as_normal(jnp.array([draws.TINY, 1 - draws.TINY]))))


def test_fold_keeps_the_gram_matrix():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((2, 3, 3, 5))
    extra = rng.standard_normal((2, 3, 2, 5))
    fold = jax.jit(jax_steps.fold)
    folded = np.asarray(fold(Z, extra))
    both = np.concatenate([Z, extra], axis=2)
    gram = "licr,ljcr->lrij"
    np.testing.assert_allclose(
        np.einsum(gram, folded, folded), np.einsum(gram, both, both), atol=1e-12
    )
    assert np.all(folded[:, *np.triu_indices(3, 1)] == 0)
    lower = np.tril(np.ones((3, 3)))[None, ..., None] * np.ones_like(Z)
    np.testing.assert_array_equal(fold(lower, 0.0 * extra), lower)  # nothing to fold


STARTS = [
    tu.random_start(CASES["erf with noise"][0], dim=16, scale=0.5, seed=i)
    for i in range(8)
]


def test_a_run_depends_on_seed_and_number_alone(monkeypatch):
    """Neither more runs beside it nor other blocks of steps change it (beyond rounding); each has its own start."""
    problem = CASES["erf with noise"][0]
    options = {"times": [0.0, 1.0, 2.0], "seed": 3, "together": True}
    few = tu.simulate(problem, STARTS[:5], **options)
    monkeypatch.setattr(overlaps, "MOST_STEPS", 7)
    more = tu.simulate(problem, STARTS, **options)
    np.testing.assert_allclose(few.Q, more.Q[:5], rtol=1e-10)
    assert np.unique(few.Q[:, -1, 0, 0]).size == 5
    assert dict(few.settings)["together"]
    assert few.step.tolist() == [0, 16, 32]
    np.testing.assert_allclose(few.R[:, 0], [one.R for one in STARTS[:5]], atol=1e-14)
    np.testing.assert_allclose(few.Q[:, 0], [one.Q for one in STARTS[:5]], atol=1e-14)


@pytest.mark.full
def test_steps_go_in_whole_blocks_where_a_gpu_is(monkeypatch):
    """Whole blocks as loops of known length, and what is left: the same runs."""
    problem = CASES["erf with noise"][0]
    options = {"times": [0.0, 17 / 16], "seed": 3, "together": True}
    one_by_one = tu.simulate(problem, STARTS[:5], **options)
    monkeypatch.setattr(overlaps, "MOST_STEPS", 6)
    monkeypatch.setattr(overlaps.jax, "default_backend", lambda: "gpu")
    whole = []
    right = jax_steps.advance
    monkeypatch.setattr(
        jax_steps, "advance", lambda *about: whole.append(about[1]) or right(*about)
    )
    in_blocks = tu.simulate(problem, STARTS[:5], **options)
    assert whole == [6, 6, None]
    np.testing.assert_allclose(in_blocks.Q, one_by_one.Q, rtol=1e-10)


def test_divergence_is_said():
    problem = tu.Problem(
        tu.Network(1, "linear"), tu.Network(1, "linear"), optimizer=tu.SGD(6.0)
    )
    with pytest.warns(
        tu.errors.DivergenceWarning, match="3 of 3 runs diverged, the first at alpha ="
    ):
        runs = tu.simulate(
            problem,
            tu.Start([[0.1]], [[0.5]]),
            dim=100,
            times=[0.0, 0.1, 60.0],
            runs=3,
            together=True,
        )
    assert np.all(runs.status_code == tu.errors.Status.DIVERGED)
    assert np.isfinite(runs.error[:, :2]).all()
    assert np.isnan(runs.error[:, 2]).all()
    assert np.all(runs.end_time <= 60)


def test_ctrl_c_keeps_what_was_recorded(monkeypatch):
    problem = CASES["erf with noise"][0]
    right = jax_steps.advance
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return right(*arguments)

    monkeypatch.setattr(jax_steps, "advance", interrupted)
    with pytest.warns(tu.errors.TutelageWarning, match="5 of 5 runs were interrupted"):
        runs = tu.simulate(problem, STARTS[:5], times=[0.0, 1.0, 2.0], together=True)
    assert np.isfinite(runs.error[:, :2]).all()
    assert np.isnan(runs.error[:, 2]).all()


def test_what_cannot_run_together_is_refused():
    problem, start, dim = CASES["erf with noise"]
    with pytest.raises(tu.InputError, match="method='overlaps' only"):
        tu.simulate(
            problem, start, dim=dim, times=[1.0], method="weights", together=True
        )
    with pytest.raises(tu.InputError, match="together is"):
        tu.simulate(problem, start, dim=dim, times=[1.0], together="yes")
