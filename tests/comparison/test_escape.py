"""Who decides the escape: recognized, said, and compared by times of escape."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import with_
from tutelage.comparison.escape import find_escape
from tutelage.comparison.matching import match
from tutelage.comparison.pairing import pair
from tutelage.stream.validity import Validity

TIMES = tu.linear_times(300.0, 151)
PLATEAU = 0.03
RATE = 0.08


def curve(escape, times=TIMES):
    """An error that rests on a plateau and falls to half of it at `escape`."""
    return PLATEAU / (1 + np.exp(RATE * (times - escape))) + 0.2 * np.exp(-times)


def problem():
    return tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )


def solution(escape):
    """Made-up overlaps that part when the error falls."""
    parted = 1 / (1 + np.exp(-RATE * (TIMES - escape)))[:, None, None]
    early = (1 - np.exp(-TIMES))[:, None, None]
    R = early * (0.4 * np.ones((2, 2)) + parted * np.array([[0.6, -0.4], [-0.4, 0.6]]))
    Q = early * (
        0.35 * np.ones((2, 2)) + parted * np.array([[0.65, -0.35], [-0.35, 0.65]])
    ) + 0.01 * np.eye(2)
    return {
        "R": R,
        "Q": Q,
        "r": R[:, None],
        "q": Q[:, None],
        "readout": np.ones((TIMES.size, 2)),
    }


def pair_of(escapes, ours=150.0, dim=1000, jitter=1e-4):
    start = tu.Start(R=np.zeros((2, 2)), Q=0.01 * np.eye(2), dim=dim)
    theory = tu.Trajectory(
        TIMES, solution(ours), curve(ours), 0, TIMES[-1], 1, np.eye(2), problem(), start
    )
    rng = np.random.default_rng(0)
    parts = [solution(t) for t in escapes]
    variables = {n: np.stack([p[n] for p in parts]) for n in parts[0]}
    noise = jitter * rng.standard_normal((len(escapes), TIMES.size))
    for name, value in variables.items():
        if name != "readout":
            value += noise.reshape(*noise.shape, *[1] * (value.ndim - 2))
    error = np.stack([curve(t) for t in escapes]) * (1 + noise)
    runs = tu.Trajectory(
        TIMES,
        variables,
        error,
        np.zeros(len(escapes), int),
        0,
        0,
        np.eye(2),
        problem(),
        start,
        kind="simulation",
    )
    return theory, runs


def validity(noise_dim):
    blank = dict.fromkeys(Validity.__dataclass_fields__)
    return Validity(
        **blank
        | {
            "noise_dim": noise_dim,
            "effective_rank": 1.0,
            "dim_needed": 10.0,
            "notes": (),
        }
    )


def test_times_of_escape_are_measured():
    escapes = np.array([120.0, 140.0, 150.0, 190.0, 500.0])
    found = find_escape(pair(*pair_of(escapes)), validity(1e5))
    assert found.plateau == pytest.approx(PLATEAU, rel=0.01)
    assert found.theory == pytest.approx(150.0, abs=0.5)
    np.testing.assert_allclose(found.runs[:4], escapes[:4], atol=0.5)
    assert np.isinf(found.runs[4])
    assert found.earlier in (2, 3)
    assert found.start_to_noise == pytest.approx(0.1)
    assert (
        pytest.approx(curve(120.0, np.array([found.first_departure]))[0], rel=0.01)
        == 0.9 * PLATEAU
    )
    text = " ".join(found.lines())
    assert "4 of 5 runs" in text
    assert "theory at 150" in text


def report_with(theory, noise_dim):
    """The theory with a validity report that says at which N noise equals the start."""
    copy = replace(theory)
    copy.__dict__["validity"] = validity(noise_dim)
    return copy


def test_noise_decides():
    escapes = np.linspace(110.0, 220.0, 20)
    theory, runs = pair_of(escapes)
    result = tu.compare(report_with(theory, 400.0), runs)
    assert result.verdict.outcome == "inconclusive after the plateau"
    assert result.agrees is None
    assert result.verdict.before == "agree"
    assert (
        "SGD noise determines the escape of single runs (asymmetry/noise = 1.6"
        in result.verdict.sentence
    )
    assert (
        result.times[result.verdict.counted].max() < result.escape.first_departure < 110
    )
    assert "compare the escape times" in " ".join(str(result).split())
    assert "not counted" in result.to_html()
    assert (
        json.loads(json.dumps(result.to_dict()))["escape"]["runs"]
        == result.escape.runs.tolist()
    )


def test_the_start_decides():
    theory, runs = pair_of(np.full(20, 150.0))
    result = tu.compare(report_with(theory, 0.5), runs)
    assert result.agrees
    assert result.verdict.counted.all()
    assert result.escape.theory == pytest.approx(150.0, abs=0.5)


def test_shifted_escapes_differ_when_the_start_should_decide():
    """The same spread-out runs are a failure where noise has no say."""
    theory, runs = pair_of(np.linspace(170.0, 190.0, 20))
    assert tu.compare(report_with(theory, 0.5), runs).agrees is False


def test_units_swapped_in_the_escape_are_matched():
    theory, runs = pair_of(np.linspace(140.0, 160.0, 10))
    variables = {n: np.array(v) for n, v in runs.variables.items()}
    for name, axis in (("R", 1), ("r", 2)):
        variables[name][2] = np.flip(variables[name][2], axis)
    matching = match(pair(theory, with_(runs, variables=variables)))
    assert np.flatnonzero(matching.relabeled).tolist() == [2]
    np.testing.assert_array_equal(matching.pair.runs["R"][2, -1], runs["R"][2, -1])


def test_no_plateau_no_escape():
    times = np.linspace(0, 10, 21)
    steady = {
        "R": np.exp(-times)[:, None, None] * np.ones((2, 2)),
        "Q": np.exp(-times)[:, None, None] * np.ones((2, 2)),
    }
    smooth = tu.Trajectory(
        times, steady, np.exp(-times), 0, 10.0, 1, None, problem(), None
    )
    many = {n: np.stack([v] * 3) for n, v in steady.items()}
    runs = tu.Trajectory(
        times,
        many,
        np.stack([smooth.error] * 3),
        np.zeros(3),
        0,
        0,
        None,
        problem(),
        None,
        kind="simulation",
    )
    assert find_escape(pair(smooth, runs), None) is None
