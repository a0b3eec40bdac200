"""What does not belong together is refused; the rest is paired."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import TIMES, erf_problem, runs, start_of, theory, with_
from tests.problems import linear_regression


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (lambda: 3, runs, "theory is of type int; compare takes two Trajectories"),
        (theory, lambda: "runs.nc", "runs is of type str"),
        (runs, theory, "the first trajectory is a simulation; call compare"),
        (
            lambda: theory(noise=0.12),
            runs,
            "noise is 0.12 in the theory and 0.1 in the runs",
        ),
        (lambda: with_(theory(), times=TIMES * 2), runs, "they must be the same"),
        (
            lambda: with_(theory(), start=start_of(2, 2, 200, own=0.2)),
            runs,
            "begin at different R",
        ),
        (
            lambda: with_(theory(), variables={"x": TIMES}),
            runs,
            "they must share at least one name",
        ),
        (
            lambda: with_(theory(), variables={"R": theory().R[:, :1]}),
            runs,
            "R has shape",
        ),
        (
            lambda: with_(theory(), error=np.zeros((2, 41))),
            runs,
            "one solution at a time",
        ),
    ],
)
def test_refused_with_one_sentence(first, second, words):
    with pytest.raises(tu.InputError, match=words) as caught:
        tu.compare(first(), second())
    assert "\n" not in str(caught.value)


def test_own_equations():
    """Online linear regression as a custom system, against runs of the network."""
    start = tu.Start(R=[[0.0]], Q=[[0.1]], dim=200)
    network = tu.Problem(
        tu.Network(1, "linear"),
        tu.Network(1, "linear"),
        optimizer=tu.SGD(0.5, weight_decay=0.01),
        noise=np.sqrt(0.1),
    )
    found = tu.simulate(network, start, times=TIMES, runs=200, seed=2)
    mine = {"m": found.R[:, :, 0, 0], "q": found.Q[:, :, 0, 0]}
    own = tu.Trajectory(
        TIMES,
        mine,
        found.error,
        found.status_code,
        found.end_time,
        found.steps,
        kind="simulation",
    )
    right = tu.solve(linear_regression(), {"m": 0.0, "q": 0.1}, times=TIMES)
    wrong = tu.solve(
        linear_regression(noise_variance=0.15),
        {"m": 0.0, "q": 0.1},
        times=TIMES,
    )
    result = tu.compare(right, own)
    assert result.agrees
    assert list(result.gaps) == ["error", "m", "q"]
    assert (result.relabeled.any(), result.escape, result.validity) == (
        False,
        None,
        None,
    )
    assert result["m"].rough
    assert tu.compare(wrong, own).agrees is False
    assert "Custom equations" in str(result)
    assert "Custom equations" in result.to_html()


def test_files_compare_as_well(tmp_path):
    loaded = tu.compare(
        tu.load(theory().save(tmp_path / "a.nc")),
        tu.load(runs().save(tmp_path / "b.nc")),
    )
    fresh = tu.compare(theory(), runs())
    assert loaded.verdict.sentence == fresh.verdict.sentence
    assert str(loaded) == str(fresh)


def test_a_theory_that_diverged_is_compared_up_to_there():
    cut = with_(
        theory(),
        times=TIMES[:21],
        variables={n: v[:21] for n, v in theory().variables.items()},
        error=theory().error[:21],
        status_code=np.asarray(1),
    )
    result = tu.compare(cut, runs())
    assert result.times.size == 21
    assert any("Only the times before" in note for note in result.notes)


def test_own_functions_are_compared_by_identity():
    bend = lambda x: x / (1 + x**2)  # noqa: E731
    a, b = (
        tu.Problem(tu.Network(2, g), tu.Network(2, "erf"), optimizer=tu.SGD(1.0))
        for g in (bend, lambda x: x)
    )
    with pytest.raises(tu.InputError, match="different problems"):
        tu.compare(with_(theory(), problem=a), with_(runs(), problem=b))
    with pytest.raises(tu.InputError, match="different problems"):
        tu.compare(with_(theory(), problem=a), with_(runs(), problem=erf_problem()))


def test_runs_that_ended_early_are_left_out():
    error = np.array(runs().error)
    error[:3, 30:] = np.nan
    result = tu.compare(theory(), with_(runs(), error=error))
    assert result.count == 97
    assert any("3 of 100 runs ended early" in note for note in result.notes)
    with pytest.raises(tu.InputError, match="no run reached the last time"):
        tu.compare(theory(), with_(runs(), error=np.full_like(error, np.nan)))
