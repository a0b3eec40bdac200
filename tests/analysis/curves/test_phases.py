"""Named phases cover the record without gaps, and their boundaries are those of the fixed points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.analysis.curves.cases import (
    HEIGHT,
    from_outside,
    from_plateau,
    linear,
    of_curve,
    runs,
    specialized_start,
    thinned,
)


def names(found):
    return [phase.name for phase in found]


def assert_covering(found, trajectory):
    starts = [p.start for p in found]
    ends = [p.end for p in found]
    assert starts[0] == trajectory.times[0]
    assert ends[-1] == trajectory.times[-1]
    assert starts[1:] == ends[:-1]
    assert all(end > start for start, end in zip(starts, ends, strict=True))


@pytest.mark.parametrize("spacing", ["linear", "log", "coarse"])
def test_the_four_phases_of_a_committee(spacing):
    theory = from_outside(1e-4, "log" if spacing == "log" else "linear")
    theory = thinned(theory, 5) if spacing == "coarse" else theory
    found = tu.analysis.phases(theory)
    assert names(found) == [
        "search",
        "symmetric plateau",
        "specialization",
        "convergence",
    ]
    assert_covering(found, theory)
    assert found.at(0.0) == "search"
    assert found.at(150.0) == "symmetric plateau"
    assert found.at(found[2].start) == "specialization"
    assert found.at(800.0) == "convergence"


def test_boundaries_agree_with_the_fixed_point():
    """On the plateau the error is within 10% of the fixed point's, and outside it is not."""
    theory = from_outside(1e-6, "log")
    plateau = tu.analysis.phases(theory)[1]
    near = theory.times[np.abs(np.log(theory.error / HEIGHT)) < np.log(1.1)]
    assert plateau.start == pytest.approx(near[0], rel=0.05)
    assert plateau.end == pytest.approx(near[-1], rel=0.05)
    wrong = theory.times[
        np.abs(np.log(theory.error / (1.3 * HEIGHT))) < np.log(1.1)
    ]  # a height that is no fixed point
    assert wrong[-1] < 0.2 * plateau.end
    learned = tu.analysis.specialization(theory)
    assert learned.index[theory.times <= plateau.end].max() < 0.3
    assert np.interp(
        tu.analysis.phases(theory)[2].end, theory.times, learned.index
    ) == pytest.approx(0.9, abs=0.01)


def test_a_start_on_the_plateau_has_no_search():
    assert names(tu.analysis.phases(from_plateau(1e-4)))[0] == "symmetric plateau"


def test_without_a_plateau():
    theory = specialized_start()
    found = tu.analysis.phases(theory)
    assert names(found) == ["specialization", "convergence"]
    assert_covering(found, theory)


def test_a_plateau_that_is_not_left():
    theory = from_outside(1e-6, end=200.0)
    found = tu.analysis.phases(theory)
    assert names(found) == ["search", "symmetric plateau"]
    assert found.at(200.0) == "symmetric plateau"


def test_label_noise_ends_on_a_floor():
    theory = from_outside(1e-4, noise=0.3)
    found = tu.analysis.phases(theory)
    assert names(found) == [
        "search",
        "symmetric plateau",
        "specialization",
        "convergence",
        "noise floor",
    ]
    assert_covering(found, theory)
    start = found[-1].start
    later = theory.error[theory.times >= start + 5]
    assert np.all(np.abs(later / theory.error[-1] - 1) < 0.11)
    assert np.interp(start - 10, theory.times, theory.error) > 1.1 * theory.error[-1]


def test_a_final_level_without_noise_and_a_power_law():
    times = np.linspace(0, 100, 201)
    assert names(tu.analysis.phases(of_curve(times, 0.2 + np.exp(-times)))) == [
        "convergence",
        "final level",
    ]
    assert names(tu.analysis.phases(of_curve(times[1:], times[1:] ** -0.7))) == [
        "convergence"
    ]
    assert names(tu.analysis.phases(of_curve(times, np.exp(-0.1 * times)))) == [
        "convergence"
    ]


def test_a_rise_after_the_minimum():
    theory = linear(end=20.0)
    found = tu.analysis.phases(theory)
    assert names(found) == ["convergence", "rise", "noise floor"]
    assert_covering(found, theory)
    assert found[1].start == tu.analysis.early_stopping(theory).time
    assert found.specialization is None


def test_divergence():
    theory = linear(lr=3.0)
    found = tu.analysis.phases(theory)
    assert not theory.finished
    assert names(found)[-1] == "divergence"
    assert_covering(found, theory)


def test_escape_of_a_system_of_one_s_own():
    times = np.linspace(0, 200, 401)
    error = 1e-3 + (0.1 + np.exp(-times)) / (1 + np.exp((times - 100) / 4))
    assert names(tu.analysis.phases(of_curve(times, error))) == [
        "search",
        "plateau",
        "convergence",
        "final level",
    ]


def test_phases_of_runs():
    networks = runs("linear")
    found = tu.analysis.phases(networks)
    for run in found:
        assert names(run) == [
            "search",
            "symmetric plateau",
            "specialization",
            "convergence",
        ]
        assert_covering(run, networks)
    assert set(found.marks) == {
        "symmetric plateau begins",
        "specialization begins",
        "convergence begins",
    }
    assert str(tu.analysis.phases(networks, run=1)) == str(found[1])


def test_a_run_that_diverged_is_cut():
    """In a simulation the others go on; what follows a divergence is NaN."""
    networks = runs("linear")
    error = np.array(networks.error)
    error[2, 100:150] *= np.exp(np.arange(50))
    error[2, 150:] = np.nan
    found = tu.analysis.phases(tu.Trajectory(networks.times, networks.variables, error, np.array([0, 0, 1, 0, 0, 0]), 1.0, 1,
                                    T=networks.T, problem=networks.problem, kind="simulation"))  # fmt: skip
    assert found[2][-1].end == networks.times[149]
    assert names(found[2])[-1] == "divergence"
    assert found[1][-1].end == networks.times[-1]


@pytest.mark.full
def test_a_batch_of_solutions_is_read_like_runs():
    """Each member of a vmapped solve has its own label noise."""
    single = from_outside(1e-4)

    def solved(noise):
        return tu.solve(single.problem.replace(noise=noise), single.start, single.times)

    found = tu.analysis.phases(jax.vmap(solved)(jnp.array([0.0, 0.3])))
    assert [names(member)[-1] for member in found] == ["convergence", "noise floor"]
    assert str(found[0]) == str(tu.analysis.phases(single))


@pytest.mark.parametrize("when", [-1.0, 801.0, np.nan, [1.0, 2.0]])
def test_no_phase_outside_the_record(when):
    with pytest.raises(tu.InputError, match="between 0 and 800, the recorded times"):
        tu.analysis.phases(from_outside(1e-4)).at(when)


def test_phases_are_plain_numbers():
    for phase in tu.analysis.phases(from_outside(1e-4)):
        assert (type(phase.name), type(phase.start), type(phase.end)) == (
            str,
            float,
            float,
        )
