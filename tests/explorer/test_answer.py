"""What the page is told, against the library called directly."""

from functools import partial

import numpy as np
import pytest

import tutelage as tu
from tests.explorer.conftest import BASE
from tests.problems import pair
from tutelage import InputError
from tutelage.explorer import answer
from tutelage.page.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the processes of the server
SMALL = Settings.read(BASE | {"runs": 2, "dim": 200, "lr": 0.7})


@pytest.fixture(scope="module")
def told():
    return [*answer.curve(SMALL), *answer.details(SMALL)]


def of(told, name):
    return [part for part in told if part["part"] == name]


def test_the_curve_is_that_of_solve(told):
    problem = pair(2, 2, lr=0.7)
    theory = tu.solve(
        problem, tu.asymmetric_start(problem, dim=200), tu.linear_times(20.0, 201)
    )
    content = told[0]["content"]
    np.testing.assert_allclose(content["error"], theory.error, rtol=1e-5)
    np.testing.assert_allclose(content["times"], theory.times, rtol=1e-5)
    assert told[0]["share"] == 1.0


def test_the_runs_are_those_of_simulate(told):
    problem = pair(2, 2, lr=0.7)
    start = tu.asymmetric_start(problem, dim=200)
    times = tu.linear_times(20.0, 201)
    for index, part in enumerate(of(told, "runs")):
        run = tu.simulate(problem, start, times=times, runs=1, seed=index)
        np.testing.assert_allclose(part["errors"], run.error, rtol=1e-5)


def test_the_rates_are_those_of_the_verbs(told):
    problem = pair(2, 2)
    (rates,) = of(told, "rates")
    assert rates["critical"] == pytest.approx(
        float(tu.analysis.critical_learning_rate(problem)), rel=1e-9
    )
    assert rates["best"] == pytest.approx(
        float(tu.analysis.best_constant_rate(problem)), rel=1e-9
    )


def test_what_does_not_apply_is_a_note_and_not_an_error(told):
    (escape,) = of(told, "escape")  # this start is far from symmetric
    assert "escape" in escape or escape["note"]


def test_every_detail_is_announced(told):
    """Before each part comes what it will be, and how much is done."""
    names = [part["part"] for part in told[1:]]
    assert names == [
        "doing",
        *["doing", "runs"] * 2,
        "doing",
        "rates",
        "doing",
        "escape",
    ]
    shares = [part["share"] for part in of(told, "doing")]
    assert shares == sorted(set(shares))
    assert (shares[0], shares[-1]) == (0.0, 0.8)
    assert of(told, "doing")[2]["words"] == "simulating network 2 of 2"


@pytest.mark.parametrize(
    "more", [{}, {"tasks": "two", "switch": 3.0}], ids=["power law", "two tasks"]
)
def test_a_solve_in_stretches_ends_with_the_whole_solve(monkeypatch, more):
    chosen = Settings.read(
        BASE | {"spectrum": "power law", "levels": 4, "dim": 100} | more
    )
    (whole,) = answer.curve(chosen)
    monkeypatch.setattr(answer, "is_long", lambda settings: True)
    *grown, last = answer.curve(chosen)
    assert [part["share"] for part in (*grown, last)] == list(answer.STRETCHES)
    assert last == whole
    for name in (
        "times",
        "error",
    ):  # a fifth of the time at 201 times, of which every fifth is one of the whole solve
        np.testing.assert_allclose(
            grown[-1]["content"][name][::5], whole["content"][name][:41], rtol=2e-5
        )


@pytest.mark.parametrize("end", [200.0, 1e6])
def test_a_divergence_is_drawn_up_to_where_it_happens(end):
    chosen = Settings.read(BASE | {"activation": "linear", "lr": 5.0, "end": end})
    curve = next(iter(answer.curve(chosen)))
    content = curve["content"]
    assert len(content["times"]) > 100
    assert content["error"][-1] > 1e3 * content["error"][0]
    assert 0.2 < content["times"][-1] < 0.3
    assert "diverged" in content["warning"]
    assert curve["share"] == 1.0


def test_too_many_steps_are_refused_with_a_way_out():
    chosen = Settings.read(BASE | {"runs": 1, "dim": 1_000_000, "end": 300.0})
    problem = chosen.problem()
    theory = answer.theory_of(chosen)
    with pytest.raises(InputError, match=r"tutelage simulate"):
        answer._run(problem, chosen.first(problem), theory, 0, [0, 1])


@pytest.mark.full
def test_the_best_schedule_has_a_smaller_error_than_the_settings_and_its_file_says_so():
    chosen = Settings.read(
        BASE
        | {
            "activation": "linear",
            "students": 1,
            "teachers": 1,
            "noise": 0.5,
            "lr": 0.5,
        }
    )
    found = list(answer.protocol(chosen, "lr"))[-1]
    problem = chosen.problem()
    start = chosen.first(problem)
    times = chosen.times()
    before = tu.solve(problem, start, times).error[-1]
    after = tu.solve(tu.Problem.from_toml(found["toml"]), start, times).error
    np.testing.assert_allclose(found["errors"][0], after, rtol=1e-5)
    assert after[-1] < 0.5 * before
    assert f"{before / after[-1]:.3g} times smaller" in found["words"]
    rates = found["schedule"]["values"]
    assert min(rates) >= 0.0
    assert rates[-1] < 0.5 * rates[0]  # a smaller rate at the end averages the noise


def test_a_protocol_that_does_not_apply_is_a_note():
    (note,) = [
        part for part in answer.protocol(SMALL, "tasks") if part["part"] == "protocol"
    ]
    assert "use several teachers" in note["note"]


NOISY_ESCAPE = """
[student]
hidden = 2
activation = "erf"
[teacher]
hidden = 2
activation = "erf"
[optimizer]
lr = 0.5
[start]
R = [[0.3005, 0.2995], [0.2995, 0.3005]]
Q = [[0.4, 0.3], [0.3, 0.4]]
dim = 300
[times]
end = 160.0
points = 41
"""


def test_the_band_ends_where_noise_decides_the_escape(monkeypatch):
    chosen = Settings.read({"toml": NOISY_ESCAPE})
    theory = answer.theory_of(chosen)
    frames = list(range(theory.times.size))
    monkeypatch.setattr(
        answer, "fluctuations_along", partial(answer.fluctuations_along, points=128)
    )
    part = answer._band(theory, 300, frames)
    low = part["band"]["low"]
    high = part["band"]["high"]
    assert 5 < len(low) == len(high) < 35
    assert min(low) > 0
    assert part["note"].startswith(
        f"It ends at α = {theory.times[len(low) - 1]:.4g}. From there SGD noise"
    )
    runs = tu.simulate(
        chosen.problem(), theory.start, times=theory.times, runs=40, seed=1
    )
    inside = np.mean(
        np.abs(runs.error - theory.error)
        < 0.5 * (np.subtract(*_padded(high, low, frames))),
        axis=0,
    )
    assert np.mean(inside[1 : len(low)]) > 0.85


def _padded(high, low, frames):
    rest = [np.nan] * (len(frames) - len(low))
    return np.array([*high, *rest]), np.array([*low, *rest])


def test_notes_of_parts_that_do_not_apply_are_for_readers_of_a_page():
    chosen = Settings.read(SMALL.values | {"loss": "huber"})
    with pytest.raises(
        InputError, match="No critical rate is marked; it is known for one teacher"
    ):
        answer._rates(chosen.problem().to_toml())
