"""The points of sampled averages are chosen by the error of the curve, which is estimated, reported and kept in files."""

import warnings

import jax
import numpy as np
import pytest

import tutelage as tu
from tutelage.errors import ValidityWarning

PLATEAU = tu.Problem(
    tu.Network(3, "erf"),
    tu.Network(3, "erf"),
    labels=tu.labels.Sign(flip=0.1),
    optimizer=tu.SGD(lr=0.5),
)
EASY = tu.Problem(
    tu.Network(2, "erf"),
    tu.Network(2, "erf"),
    loss="logistic",
    labels="sign",
    optimizer=tu.SGD(1.0),
)
BEGIN = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])


@pytest.fixture(scope="module")
def easy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return tu.solve(EASY, BEGIN, [0.0, 1.0, 2.0])


def test_the_error_of_the_curve_is_estimated_and_kept(easy, tmp_path):
    points, _ = dict(easy.settings)["moments"]
    assert points > 2**14  # the usual set leaves more than 1e-3
    size = np.maximum(easy.error, 0.01 * easy.error.max())
    assert easy.accuracy == pytest.approx(np.max(easy.sampling_error / size), rel=1e-12)
    other = tu.solve(EASY, BEGIN, [0.0, 1.0, 2.0], moments=tu.Sampled(2**17, seed=9))
    true = np.max(np.abs(easy.error - other.error) / size)  # by independent points
    assert 0.02 * easy.accuracy < true < easy.accuracy
    assert tu.load(easy.save(tmp_path / "easy.nc")).accuracy == easy.accuracy
    assert easy.validity.sampling_error == easy.accuracy
    assert any(line.startswith("sampling: ") for line in easy.validity.lines())


def test_points_that_are_given_are_kept(easy):
    fixed = tu.solve(EASY, BEGIN, [0.0, 1.0, 2.0], moments=tu.Sampled(2**14))
    assert dict(fixed.settings)["moments"] == (2**14, 0)
    assert fixed.accuracy is None
    assert fixed.validity.sampling_error > easy.accuracy  # estimated when asked
    quick = tu.solve(EASY, BEGIN, [0.0, 1.0, 2.0], accuracy=None)
    np.testing.assert_array_equal(quick.error, fixed.error)
    inside = jax.jit(
        lambda lr: tu.solve(EASY.replace(lr=lr), BEGIN, [0.0, 1.0, 2.0]).error
    )(1.0)
    np.testing.assert_allclose(inside, fixed.error, rtol=1e-6)  # there: 2^14 points
    with pytest.raises(tu.InputError, match="accuracy"):
        tu.solve(EASY, BEGIN, [0.0, 1.0], accuracy=-1.0)


def test_blocks_of_points_give_the_average_over_all():
    from tutelage.stream import OrderParameters, initial_overlaps
    from tutelage.stream.moments import Sampled, moments_for

    for problem in (EASY, EASY.replace(labels="real", loss="absolute")):
        whole = moments_for(problem, None, Sampled(2**12))
        blocks = whole.in_blocks()
        assert blocks.points > whole.points
        state, t = initial_overlaps(problem, BEGIN)
        each = []
        for moments in (whole, blocks):
            system = OrderParameters(problem, t, moments=moments)
            p, G = system.matrices(state)
            each.append((p.A, p.B, G, system.error(system.observe(state))))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), *each)


@pytest.mark.full
def test_a_plateau_amplifies_what_points_miss_and_the_solve_says_so():
    start = tu.random_start(PLATEAU, dim=1000)
    times = tu.linear_times(127.5, 52)
    with pytest.warns(ValidityWarning, match="uncertain by up to"):
        theory = tu.solve(PLATEAU, start, times)
    assert theory.accuracy > 0.02
    finer = tu.solve(PLATEAU, start, times, moments=tu.Sampled(2**17, seed=5))
    assert np.all(np.abs(theory.error - finer.error) < theory.sampling_error)
    assert "NOT accurate" in str(theory.validity).split("sampling:")[1]


def test_a_short_solve_warns_where_its_points_are_too_few(monkeypatch):
    monkeypatch.setattr(
        "tutelage.stream.accuracy.POOR", 1e-4
    )  # a plateau takes long; see the test above
    with pytest.warns(
        ValidityWarning,
        match=r"uncertain by up to .*%.*Use moments=Sampled\(\d+\), or simulate",
    ):
        tu.solve(EASY, BEGIN, [0.0, 1.0])


def random_case(kind, seed):
    """A random committee of two or three units on sign labels, its initial condition and its times."""
    rng = np.random.default_rng([seed, len(kind)])
    units = 3 if kind == "squared, 3 units" else 2
    loss = "logistic" if kind == "logistic" else "squared"
    labels = (
        "sign" if kind == "logistic" else tu.labels.Sign(flip=rng.uniform(0.02, 0.2))
    )
    readout = rng.uniform(0.5, 1.5, units)
    problem = tu.Problem(
        tu.Network(units, "erf"),
        tu.Network(units, "erf", readout=readout),
        loss=loss,
        labels=labels,
        optimizer=tu.SGD(lr=rng.uniform(0.3, 1.5)),
    )
    vectors = rng.normal(size=(2 * units, 4 * units)) / np.sqrt(4 * units)
    gram = vectors @ vectors.T
    start = tu.Start(
        R=gram[:units, units:], Q=gram[:units, :units], T=gram[units:, units:]
    )
    return problem, start, tu.linear_times(rng.uniform(2.0, 15.0), 16)


def coverage(kind, count):
    """The true relative error of each case, by other points, and the stated one; does the bound hold at all times?"""
    rows = []
    for seed in range(count):
        problem, start, times = random_case(kind, seed)
        theory = tu.solve(problem, start, times, moments=tu.Sampled(2**14, seed=seed))
        other = tu.solve(
            problem, start, times, moments=tu.Sampled(2**17, seed=1000 + seed)
        )
        off = np.abs(theory.error - other.error)
        size = np.maximum(theory.error, 0.01 * theory.error.max())
        stated = theory.validity.sampling_error
        rows.append(
            (np.max(off / size), stated, bool(np.all(off <= theory.sampling_error)))
        )
    return rows


@pytest.mark.full
@pytest.mark.parametrize("kind", ["squared", "logistic", "squared, 3 units"])
def test_the_stated_error_covers_the_true_one_and_is_not_huge(kind):
    true, stated, covered = map(np.array, zip(*coverage(kind, 12), strict=True))
    shares = true / stated
    words = f"{kind}: {covered.sum()} of {covered.size} covered, median true/stated {np.median(shares):.2f}"
    print(
        words,
        f"from {shares.min():.2f} to {shares.max():.2f}, stated {stated.min():.1e} to {stated.max():.1e}",
    )
    assert np.mean(covered) >= 0.9, words
    assert 0.1 < np.median(shares) < 1.0, words
