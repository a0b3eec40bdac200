"""The law of escape times at finite N against networks themselves.

Statistical tests: fixed seeds, false alarms at 1e-3.
"""

from math import factorial

import numpy as np
import pytest
from scipy import stats

import tutelage as tu
from tests.problems import pair
from tutelage.analysis.escapes import plateau_path

ALARM = 1e-3
FAST = pair(2, 2, lr=1.5)  # escapes within some ten units of time
FAST_END = 150.0


def contested(dim=None):
    """A start of few differences:

    start and noise put about as much into the growing mode at N = 1000.
    """
    R = 0.3 + 0.004 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return tu.Start(R, 0.2 * np.eye(2) + 0.25, dim=dim)


def networks(problem, start, dim, runs, end, seed=7):
    """Runs from one start, or each from its own random weights."""
    fresh = [tu.random_start(problem, dim=dim, seed=1000 + i) for i in range(runs)]
    starts = fresh if start is None else start
    return tu.simulate(
        problem, starts, dim=dim, times=tu.linear_times(end, 401), runs=runs, seed=seed
    )


def same_law(times, law):
    return float(stats.ks_2samp(times, law.times).pvalue)


@pytest.fixture(scope="module")
def fixed():
    """The law and the runs of the contested start."""
    return tu.analysis.escape_distribution(
        FAST, contested(1000), samples=4000
    ), networks(FAST, contested(), 1000, 64, 120.0)


@pytest.mark.full
def test_escape_times_from_random_weights_follow_the_law():
    law = tu.analysis.escape_distribution(FAST, dim=1000, samples=2000)
    times, teachers = law.measured(networks(FAST, None, 1000, 64, FAST_END))
    assert same_law(times, law) > ALARM
    assert (
        stats.binomtest(int(np.sum(teachers[:, 0] == 0)), len(teachers), 0.5).pvalue
        > ALARM
    )
    assert law.probability((0, 1)) == pytest.approx(0.5, abs=0.04)
    assert same_law(1.25 * times, law) < ALARM  # power: a rate off by a quarter is seen
    assert law.theory is None


def test_escape_times_from_one_start_follow_the_law(fixed):
    law, runs = fixed
    times, teachers = law.measured(runs)
    assert 0.5 < law.start_to_noise < 2
    assert "SGD noise determines" in law.words
    assert same_law(times, law) > ALARM
    share = law.probability((0, 1))
    assert (
        stats.binomtest(int(np.sum(teachers[:, 0] == 0)), len(teachers), share).pvalue
        > ALARM
    )
    assert (
        stats.binomtest(
            int(np.sum(teachers[:, 0] == 0)), len(teachers), 1 - share
        ).pvalue
        < ALARM
    )


def test_one_mode_chooses_by_the_sign_of_a_gaussian(fixed):
    """P(the theory's permutation) = Phi(start / noise)."""
    law, _ = fixed
    expected = stats.norm.cdf(law.start_to_noise)
    assert law.theory_teachers == (0, 1)
    assert law.probability(law.theory_teachers) == pytest.approx(
        expected, abs=4 * np.sqrt(0.25 / law.times.size)
    )


def test_a_law_without_noise_or_with_too_much_fails(fixed, monkeypatch):
    """Negative controls:

    the theory alone, and noise of thrice the standard deviation.
    """
    from tutelage.analysis.escapes import PlateauPath

    law, runs = fixed
    times, _ = law.measured(runs)
    right = PlateauPath.noise
    for factor in (1e-12, 9.0):
        monkeypatch.setattr(
            PlateauPath, "noise", lambda path, f=factor: f * right(path)
        )
        wrong = tu.analysis.escape_distribution(FAST, contested(1000), samples=1000)
        assert same_law(times, wrong) < ALARM
        if factor < 1:
            np.testing.assert_allclose(wrong.times, law.theory, rtol=1e-3)


def test_the_noise_of_the_growing_mode_is_that_of_networks():
    """Second route:

    the amplitude of simulated networks, told by the adjoint at alpha = 12, varies as
    much as was fed.
    """
    dim = 1000
    count = 200
    path = plateau_path(FAST, contested(), smallest=dim**-0.5)
    at = int(np.searchsorted(path.times, 12.0))
    runs = tu.simulate(
        FAST, contested(), dim=dim, times=[0.0, path.times[at]], runs=count, seed=3
    )
    upper = np.triu_indices(2)
    vectors = np.array(
        [
            [*R.ravel(), *Q[upper], 1, 1]
            for R, Q in zip(runs.R[:, -1], runs.Q[:, -1], strict=True)
        ]
    )
    b = (vectors - path.path[at]) @ path.left[at]
    whole = path.noise()[0, 0]
    cut = type(path)(
        **{
            **vars(path),
            **{
                n: getattr(path, n)[: at + 1]
                for n in ("times", "path", "right", "left")
            },
        }
    )
    fed = cut.noise()[0, 0]
    assert 0.3 < fed / whole < 0.95
    assert dim * np.var(b[:, 0], ddof=1) == pytest.approx(
        fed, rel=4 * np.sqrt(2 / count)
    )
    mean_error = np.sqrt(fed / dim / count)
    assert abs(np.mean(b[:, 0]) - path.amplitudes(path.start)[0]) < 5 * mean_error


@pytest.mark.full
def test_from_random_weights_the_width_does_not_shrink_and_the_mean_grows_as_ln_n():
    few, many = (
        tu.analysis.escape_distribution(FAST, dim=n, samples=1000)
        for n in (10**3, 10**6)
    )
    assert many.width == pytest.approx(few.width, rel=0.1)
    assert many.mean - few.mean == pytest.approx(
        np.log(10**3) / (2 * few.rate), rel=0.06
    )
    assert many.start_to_noise == pytest.approx(few.start_to_noise, rel=0.1)


def test_from_one_start_the_width_shrinks():
    few, many = (
        tu.analysis.escape_distribution(FAST, contested(), n) for n in (10**5, 10**7)
    )
    assert few.width / many.width == pytest.approx(10, rel=0.1)
    assert "the initial condition determines" in many.words
    assert many.mean == pytest.approx(many.theory, rel=1e-3)
    assert many.probability((0, 1)) == 1.0


@pytest.mark.full
def test_the_ratio_is_that_of_the_validity_report():
    """Two routes: along the symmetric path here, along the solved curve there."""
    law = tu.analysis.escape_distribution(FAST, contested(1000))
    report = tu.solve(FAST, contested(1000), tu.linear_times(120, 241)).validity
    assert law.start_to_noise == pytest.approx(report.start_to_noise, rel=0.15)


def test_a_symmetric_start_leaves_by_noise_alone():
    law = tu.analysis.escape_distribution(
        FAST, tu.Start(np.full((2, 2), 0.3), 0.2 * np.eye(2) + 0.25), 1000
    )
    assert law.theory is None
    assert law.start_to_noise < 1e-9
    assert law.probability((0, 1)) == pytest.approx(0.5, abs=0.1)
    assert np.all(np.isfinite(law.times))


def test_quantiles_and_distribution_function(fixed):
    law, _ = fixed
    low, middle, high = law.quantiles()
    assert low < middle < high
    np.testing.assert_allclose(
        law.cdf([low, middle, high]), [0.05, 0.5, 0.95], atol=1 / law.times.size
    )
    assert law.cdf(-1.0) == 0
    assert sum(law.permutations.values()) == pytest.approx(1)


def test_the_seed_decides_the_samples():
    first, again, other = (
        tu.analysis.escape_distribution(FAST, contested(1000), samples=20, seed=s)
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(again.times, first.times)
    assert not np.array_equal(other.times, first.times)


def test_the_report_and_the_figure(fixed):
    law, _ = fixed
    text = str(law)
    assert "at N = 1000, 4000 samples: median" in text
    assert "the theory escapes at" in text
    assert "[1, 2]" in text
    figure = law.plot()
    assert [axes.get_ylabel().split("\n")[0] for axes in figure.axes] == [
        "density of",
        "share that",
        "probability",
    ]
    assert any(
        "theory" in label.get_text()
        for label in figure.axes[0].get_legend().get_texts()
    )
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda law: tu.analysis.escape_distribution(FAST, contested()),
            "dim is missing",
        ),
        (lambda law: tu.analysis.escape_distribution(FAST, dim=0), "dim is 0"),
        (
            lambda law: tu.analysis.escape_distribution(FAST, dim=1000, samples=1),
            "samples is 1",
        ),
        (
            lambda law: tu.analysis.escape_distribution(FAST, dim=1000, scale=-1.0),
            "scale",
        ),
        (
            lambda law: tu.analysis.escape_distribution("problem", dim=1000),
            "problem is of type str",
        ),
        (
            lambda law: tu.analysis.escape_distribution(pair(1, 1), dim=1000),
            "no plateau",
        ),
        (lambda law: law.probability((0, 2)), "must name a teacher"),
        (lambda law: law.probability("01"), "must name a teacher"),
        (lambda law: law.quantiles(2.0), "between 0 and 1"),
        (lambda law: law.measured(None), "what simulate returned"),
    ],
    ids=range(10),
)
def test_what_cannot_be_answered_is_refused(fixed, ask, words):
    with pytest.raises(tu.InputError, match=words) as refusal:
        ask(fixed[0])
    assert "\n" not in str(refusal.value)


@pytest.mark.full
def test_large_networks_follow_the_law():
    """N = 10^5: the spread is that of N = 10^3, shifted by ln(100) / (2 rate)."""
    law = tu.analysis.escape_distribution(FAST, dim=10**5, samples=4000)
    times, teachers = law.measured(networks(FAST, None, 10**5, 48, 180.0))
    assert same_law(times, law) > ALARM
    assert (
        stats.binomtest(int(np.sum(teachers[:, 0] == 0)), len(teachers), 0.5).pvalue
        > ALARM
    )
    small = tu.analysis.escape_distribution(FAST, dim=10**3, samples=4000)
    assert same_law(times, small) < ALARM


@pytest.mark.full
@pytest.mark.parametrize("start", ["random", "fixed"])
def test_three_units_follow_the_law(start):
    """Four growing modes: directions and permutations as well as times."""
    problem = pair(3, 3)
    dim = 1000
    given = None if start == "random" else tu.random_start(problem, dim=dim, seed=3)
    law = tu.analysis.escape_distribution(problem, given, dim, samples=1000)
    times, teachers = law.measured(networks(problem, given, dim, 150, 600.0))
    assert same_law(times, law) > ALARM
    names = [p for p, share in law.permutations.items() if share > 0.05]
    counts = np.array([np.sum(np.all(teachers == p, axis=1)) for p in names])
    counts = np.append(counts, len(teachers) - counts.sum())
    shares = np.array([law.probability(p) for p in names])
    shares = np.append(shares, 1 - shares.sum())
    kept = shares * len(teachers) > 3
    assert (
        stats.chisquare(
            counts[kept], shares[kept] / shares[kept].sum() * counts[kept].sum()
        ).pvalue
        > ALARM
    )
    assert np.sum(counts[~kept]) <= 6
    if start == "random":
        assert len(names) == factorial(3)
    assert same_law(1.25 * times, law) < ALARM
