"""Plateaus are found where they are, whatever the recorded times; rates are those of the Jacobian."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

import tutelage as tu
from tests.analysis.curves.cases import (
    COUNT,
    HEIGHT,
    RATE,
    from_outside,
    from_plateau,
    of_curve,
    runs,
    specialized_start,
    thinned,
)
from tests.problems import jacobian, pair, symmetric_overlaps
from tutelage.stream import OrderParameters, initial_overlaps

GRIDS = ("linear", "log", "coarse")


def recorded(case, asymmetry, spacing):
    """A case on a linear, a logarithmic, or a linear grid that is five times coarser."""
    out = case(asymmetry, "log" if spacing == "log" else "linear")
    return thinned(out, 5) if spacing == "coarse" else out


def one(trajectory, **options):
    found = tu.analysis.plateaus(trajectory, **options)
    assert len(found) == 1, str(found)
    return found[0]


@pytest.mark.parametrize("spacing", GRIDS)
@pytest.mark.parametrize("asymmetry", [1e-3, 1e-4, 1e-6])
def test_height_and_rate_are_those_of_the_fixed_point(asymmetry, spacing):
    plateau = one(recorded(from_plateau, asymmetry, spacing))
    assert plateau.height == pytest.approx(HEIGHT, rel=1e-6 + 1.5 * asymmetry)
    assert plateau.growth_rate == pytest.approx(RATE, rel=1e-3)
    assert abs(plateau.growth_rate - RATE) < 3 * plateau.growth_error + 2e-4 * RATE
    assert plateau.start == 0.0
    assert plateau.symmetric
    assert plateau.length == plateau.end - plateau.start


@pytest.mark.parametrize("spacing", GRIDS)
def test_the_length_grows_by_the_logarithm_of_the_asymmetry(spacing):
    """Escape takes ln(1/asymmetry) / rate:

    a hundredfold smaller asymmetry, a plateau longer by ln(100) / rate.
    """
    short, long = (one(recorded(from_plateau, a, spacing)) for a in (1e-4, 1e-6))
    assert long.end - short.end == pytest.approx(np.log(100) / RATE, rel=0.02)


def crossing(trajectory, level, after):
    """When the error falls through a level, by a spline and a root finder."""
    spline = CubicSpline(trajectory.times, trajectory.error)
    times = np.linspace(after, trajectory.times[-1], 20001)
    i = int(np.argmax(spline(times) < level))
    return brentq(lambda t: spline(t) - level, times[i - 1], times[i])


@pytest.mark.parametrize("spacing", GRIDS)
def test_start_and_end_are_where_the_error_comes_and_goes(spacing):
    plateau = one(recorded(from_outside, 1e-4, spacing))
    fine = from_outside(1e-4, "log")
    tolerance = {"linear": 1.5, "log": 0.2, "coarse": 12.0}[
        spacing
    ]  # the first fall takes a few units of time
    assert plateau.start == pytest.approx(
        crossing(fine, plateau.height * 1.1, 1.0), abs=tolerance
    )
    assert plateau.end == pytest.approx(
        crossing(fine, plateau.height / 1.1, 50.0), rel=0.01
    )
    wide = one(recorded(from_outside, 1e-4, spacing), share=0.3)
    assert wide.start < plateau.start
    assert wide.end > plateau.end


def rate_at(trajectory, time):
    """The fastest growth at the passing state, made symmetric."""
    i = int(np.argmin(np.abs(trajectory.times - time)))
    R = trajectory.R[i]
    Q = trajectory.Q[i]
    start = tu.Start(
        *symmetric_overlaps(2, R.mean(), R.mean(), np.trace(Q) / 2, Q[0, 1])
    )
    overlaps, t = initial_overlaps(trajectory.problem, start)
    return np.linalg.eigvals(
        np.asarray(jacobian(OrderParameters(trajectory.problem, t), 0.0, overlaps))
    ).real.max()


@pytest.mark.parametrize("asymmetry", [1e-3, 1e-4, 1e-6])
def test_from_outside_the_rate_is_the_jacobian_of_the_state_that_is_passed(asymmetry):
    """The slow part of the approach is not over when the plateau is left:

    the rate of the fixed point is not reached.
    """
    theory = from_outside(asymmetry)
    plateau = one(theory)
    low, high = plateau.growth_window
    assert plateau.growth_rate == pytest.approx(
        rate_at(theory, low + 0.4 * (high - low)), rel=0.01
    )
    assert 0.95 * RATE < plateau.growth_rate < 0.99 * RATE
    assert plateau.height == pytest.approx(HEIGHT, abs=1e-4)


def test_the_error_departs_at_twice_the_rate():
    """So a fit of the error instead of the overlaps would be wrong by a factor of two."""
    theory = from_plateau(1e-4)
    drop = HEIGHT - theory.error
    window = (drop > 1e-6) & (drop < 1e-4) & (theory.times > 20)
    departs = np.polyfit(theory.times[window], np.log(drop[window]), 1)[0]
    assert departs == pytest.approx(2 * one(theory).growth_rate, rel=0.01)


def smooth_fall(times, *steps):
    """Falls to a tenth at first, then from one height to the next at given times, each with a width."""
    height = 0.1 + 0.9 * np.exp(-times)
    for at, width, factor in steps:
        height *= np.exp(
            np.log(factor) / (1 + np.exp(-np.clip((times - at) / width, -500, 500)))
        )
    return height


@pytest.mark.parametrize(
    "times",
    [
        np.linspace(0, 1000, 2001),
        np.linspace(0, 1000, 121),
        np.geomspace(0.1, 1000, 301),
    ],
)
def test_several_plateaus(times):
    error = smooth_fall(times, (100, 5, 0.2), (400, 10, 0.01))
    found = tu.analysis.plateaus(of_curve(times, error))
    assert [p.height for p in found] == pytest.approx([0.1, 0.02], rel=1e-3)
    assert [p.end for p in found] == pytest.approx(
        [100 - 5 * np.log(15.9), 400 - 10 * np.log(47.3)], rel=0.03
    )
    assert found.longest is found[1]
    assert all(p.symmetric is None for p in found)


@pytest.mark.parametrize("after", [0.01, 1e-16, 0.0])
def test_a_fall_between_two_records_ends_a_plateau(after):
    """No record shows a short dwell time between the two levels."""
    times = np.linspace(0, 100, 101)
    found = tu.analysis.plateaus(of_curve(times, np.where(times < 60, 0.1, after)))
    assert [p.height for p in found] == pytest.approx([0.1])
    assert found[0].start == 0.0
    assert 59 < found[0].end < 60


def test_whether_a_plateau_is_left_does_not_depend_on_the_spacing():
    """The error falls from 0.1 to 0.01 and returns to 0.3, where it spends most time."""
    for times in (np.linspace(0, 1000, 2001), np.geomspace(0.1, 1000, 801)):
        fall = smooth_fall(times, (100, 2, 0.1), (500, 2, 30.0))
        found = tu.analysis.plateaus(of_curve(times, fall))
        assert len(found) == 0


@pytest.mark.parametrize(
    "error",
    [
        lambda t: np.exp(-0.05 * t),
        lambda t: (1 + t) ** -1.5,
        lambda t: 0.5 * np.exp(-t) + 0.4 * np.exp(-0.1 * t) + 0.1 * np.exp(-0.01 * t),
        lambda t: 0.3 + np.exp(-0.3 * t),
        lambda t: np.full_like(t, 0.2),
        lambda t: 0.2 + 0.1 * np.exp(-t) - 0.2 * np.exp(-0.1 * t),
        lambda t: 0.01 + 1e-6 * np.exp(0.02 * t),
    ],
    ids=[
        "exponential",
        "power law",
        "slower and slower",
        "final level",
        "constant",
        "minimum, then a rise",
        "left upwards",
    ],
)
def test_what_is_no_plateau(error):
    for times in (
        np.linspace(0, 400, 401),
        np.concatenate([[0], np.geomspace(0.01, 400, 100)]),
    ):
        found = tu.analysis.plateaus(of_curve(times, error(times)))
        assert len(found) == 0
        assert "no plateau is left" in str(found)
        assert found.longest is None


def test_learning_that_meets_no_plateau_or_does_not_leave_it():
    assert len(tu.analysis.plateaus(specialized_start())) == 0
    short = thinned(from_outside(1e-6), 1)
    early = tu.analysis.plateaus(
        tu.solve(short.problem, short.start, tu.linear_times(120.0, COUNT))
    )
    assert len(early) == 0
    assert "solve for longer" in early.note


def test_rounding_at_perfect_learning_is_no_plateau():
    late = from_outside(1e-3, end=2000.0)
    assert np.min(late.error) < 1e-15
    one(late)


def test_a_level_that_is_left_without_growth_has_no_rate():
    """As at a jump of the learning rate:

    the error falls, but nothing grows out of a symmetry.
    """
    times = np.linspace(0, 100, 201)
    error = np.where(
        times < 50, 0.1 + np.exp(-times), 0.01 + 0.09 * np.exp(-(times - 50))
    )
    plateau = one(of_curve(times, error, x=error, y=1 - error))
    assert plateau.growth_rate is None
    assert plateau.end == pytest.approx(50.0, abs=1.0)
    assert "grows at least 5-fold" in str(plateau)


def test_growth_of_one_s_own_variables():
    """Two numbers that are equal on the plateau and separate as e^(0.1 t):

    found among their differences.
    """
    times = np.linspace(0, 200, 201)
    apart = 1e-5 * np.exp(0.1 * times) / np.sqrt(1 + 1e-10 * np.exp(0.2 * times))
    plateau = one(
        of_curve(
            times, 0.3 * (1 - 0.999 * apart**2), m=0.7 + apart / 2, s=0.7 - apart / 2
        )
    )
    assert plateau.growth_rate == pytest.approx(0.1, rel=1e-3)


def test_too_few_times_for_a_rate_are_said():
    plateau = one(thinned(from_outside(1e-3), 12))
    assert plateau.growth_rate is None
    assert "recorded times" in plateau.note


@pytest.mark.parametrize("spacing", ["linear", "log"])
def test_every_run_passes_one_plateau(spacing):
    networks = runs(spacing)
    found = tu.analysis.plateaus(networks)
    assert len(found) == 6
    assert [len(each) for each in found] == [1] * 6
    heights, rates = (
        np.array([getattr(each[0], name) for each in found], float)
        for name in ("height", "growth_rate")
    )
    np.testing.assert_allclose(heights, HEIGHT, rtol=0.05)  # finite N adds about 2%
    assert rates.mean() == pytest.approx(RATE, rel=0.07)  # one run scatters by 6%
    assert (
        np.sum(
            np.abs(rates - RATE)
            < 3 * np.array([each[0].growth_error for each in found])
        )
        >= 5
    )
    ends = found.marks["escapes from the plateau"]
    for run in range(6):
        above = networks.error[run] > heights[run] / 1.1
        assert ends[run] == pytest.approx(
            networks.times[np.flatnonzero(above)[-1]], rel=0.12
        )
    assert str(tu.analysis.plateaus(networks, run=3)) == str(found[3])
    assert "6 of 6 runs" in str(found)


def test_excursions_of_small_networks_do_not_end_a_plateau():
    """A solved curve with 6% of noise that lasts for a few recorded times, forty of them: one plateau each."""
    theory = from_outside(1e-4)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, COUNT))
    for i in range(1, COUNT):
        noise[:, i] = 0.5 * noise[:, i - 1] + np.sqrt(0.75) * noise[:, i]
    error = theory.error * np.exp(0.06 * noise)
    variables = {
        name: np.stack([value] * 40) for name, value in theory.variables.items()
    }
    code = np.zeros(40, int)
    networks = tu.Trajectory(
        theory.times, variables, error, code, 1.0, 1, T=theory.T, kind="simulation"
    )
    found = tu.analysis.plateaus(networks)
    assert [len(each) for each in found] == [1] * 40
    np.testing.assert_allclose(
        found.marks["escapes from the plateau"], one(theory).end, rtol=0.15
    )
    np.testing.assert_allclose([each[0].height for each in found], HEIGHT, rtol=0.05)


@pytest.mark.full
def test_partial_specialization_gives_two_plateaus():
    problem = pair(3, 2, lr=0.3, noise=0.1)
    theory = tu.solve(
        problem,
        tu.random_start(problem, dim=10**6, seed=2),
        tu.linear_times(4000.0, 2001),
    )
    first, second = tu.analysis.plateaus(theory)
    assert first.symmetric
    assert not second.symmetric
    assert second.height < first.height / 2


@pytest.mark.full
def test_plateaus_of_small_networks():
    """30 networks of N = 100 and 1000:

    one plateau each (two tenths of a false alarm are allowed at N = 100).
    """
    for dim, allowed in ((100, 6), (1000, 0)):
        for spacing in ("linear", "log"):
            found = tu.analysis.plateaus(runs(spacing, dim=dim, count=30))
            assert sum(len(each) != 1 for each in found) <= allowed


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: tu.analysis.plateaus(None),
            "got None; give it what solve or simulate returned",
        ),
        (
            lambda: tu.analysis.plateaus(from_plateau(1e-3), share=2.0),
            "share is 2; it must be a probability between 0 and 1",
        ),
        (
            lambda: tu.analysis.plateaus(from_plateau(1e-3), run=0),
            "run is 0; this trajectory is a single curve",
        ),
        (
            lambda: tu.analysis.plateaus(runs("linear"), run=8),
            "run is 8; it must be at most 5",
        ),
        (
            lambda: tu.analysis.plateaus(thinned(from_plateau(1e-3), 40)),
            "has 6 recorded times; plateaus needs at least 8",
        ),
        (
            lambda: tu.analysis.plateaus(of_curve(np.arange(9.0), np.arange(9.0) - 4)),
            "falls to -4; plateaus compares its logarithm",
        ),
    ],
)
def test_refusals(ask, sentence):
    with pytest.raises(tu.InputError, match=sentence):
        ask()
