"""Every measure against the verb itself, asked point by point; divergence, refusals and failures as answers."""

import inspect

import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair
from tests.sweeps.questions import PROBLEM, START, cauchy, moody, ratio, spec_of, three
from tutelage.sweeps import compute as compute_module
from tutelage.sweeps.compute import compute
from tutelage.sweeps.measures import (
    AS_NUMBER,
    LABELS,
    THEORY,
    analyses,
    resolve,
    simulation_seed,
)
from tutelage.sweeps.spec import tasks_of

TIMES = tu.linear_times(60, 41)
POINTS = [{"lr": 0.4, "noise": 0.1}, {"lr": 1.2, "noise": 0.3}]
NAMES = [
    *("error", "loss", "final_error", "final_loss", "overlaps", "final_overlaps"),
    *("simulated_error", "simulated_final_error", "run_error", "run_final_error"),
    *(
        "specialization",
        "early_stopping.time",
        "noise_floor",
        "noise_floor.error",
        "critical_learning_rate",
    ),
    *("decay_rate.inside", "best_constant_rate"),
]


@pytest.fixture(scope="module")
def swept():
    """All measures at two points from two random starts."""
    measure = [*NAMES, ratio, moody, three]
    options = {
        "start": {"dim": 200, "scale": 0.5},
        "starts": 2,
        "runs": 3,
        "seed": 7,
        "executor": "serial",
    }
    return tu.sweep(PROBLEM, points=POINTS, measure=measure, times=TIMES, **options)


@pytest.fixture(scope="module")
def directly():
    """The same by calls of the library:

    (problem, starts, theories, runs) of each point.
    """
    found = []
    for number, point in enumerate(POINTS):
        problem = PROBLEM.replace(**point)
        starts = [
            tu.random_start(problem, dim=200, scale=0.5, seed=7 + i) for i in range(2)
        ]
        theories = [tu.solve(problem, start, TIMES) for start in starts]
        seeds = [simulation_seed(7, number, i) for i in range(2)]
        runs = [
            tu.simulate(problem, s, times=TIMES, runs=3, seed=seed)
            for s, seed in zip(starts, seeds, strict=True)
        ]
        found.append((problem, starts, theories, runs))
    return found


def per_start(directly, value):
    return np.array(
        [
            [value(problem, s, t, r) for s, t, r in zip(*parts, strict=True)]
            for problem, *parts in directly
        ]
    )


def per_problem(directly, value):
    return np.array([value(problem) for problem, *_ in directly])


STARTED = {
    "error": lambda p, s, t, r: t.error,
    "loss": lambda p, s, t, r: t.loss,
    "final_error": lambda p, s, t, r: t.error[-1],
    "final_loss": lambda p, s, t, r: t.loss[-1],
    "R": lambda p, s, t, r: t.R,
    "Q": lambda p, s, t, r: t.Q,
    "final_R": lambda p, s, t, r: t.R[-1],
    "final_Q": lambda p, s, t, r: t.Q[-1],
    "specialization": lambda p, s, t, r: tu.analysis.specialization(t).final,
    "early_stopping.time": lambda p, s, t, r: tu.analysis.early_stopping(t).time,
    "ratio": lambda p, s, t, r: ratio(t, p),
}
SIMULATED = {
    "simulated_error": lambda p, s, t, r: r.error.mean(axis=0),
    "simulated_error_se": lambda p, s, t, r: r.error.std(axis=0, ddof=1) / np.sqrt(3),
    "simulated_final_error": lambda p, s, t, r: r.error[:, -1].mean(),
    "simulated_final_error_se": lambda p, s, t, r: (
        r.error[:, -1].std(ddof=1) / np.sqrt(3)
    ),
    "run_error": lambda p, s, t, r: r.error,
    "run_final_error": lambda p, s, t, r: r.error[:, -1],
    "three": lambda p, s, t, r: three(p, s, r),
}
OF_PROBLEM = {
    "noise_floor": lambda p: tu.analysis.noise_floor(p).per_variance,
    "noise_floor.error": lambda p: tu.analysis.noise_floor(p).error,
    "critical_learning_rate": lambda p: tu.analysis.critical_learning_rate(p).rate,
    "decay_rate.inside": lambda p: tu.analysis.decay_rate(p).inside,
    "best_constant_rate": lambda p: tu.analysis.best_constant_rate(p).learning_rate,
}


@pytest.mark.parametrize("name", STARTED)
def test_theory_is_that_of_solve(swept, directly, name):
    """To the tolerance of the solver: in a batch, steps are rounded differently."""
    expected = per_start(directly, STARTED[name])
    assert swept[name].values == pytest.approx(expected, rel=3e-6, abs=1e-9)
    if (
        name != "early_stopping.time"
    ):  # a negative control: the other point's numbers would not pass
        assert swept[name].values[::-1] != pytest.approx(expected, rel=3e-6, abs=1e-9)


@pytest.mark.parametrize("name", SIMULATED)
def test_simulations_are_those_of_simulate(swept, directly, name):
    assert np.array_equal(swept[name].values, per_start(directly, SIMULATED[name]))
    assert not np.array_equal(
        swept[name].values[:, ::-1], per_start(directly, SIMULATED[name])
    )


@pytest.mark.parametrize("name", OF_PROBLEM)
def test_answers_about_the_problem_are_those_of_the_verbs(swept, directly, name):
    assert swept[name].dims == ("point",)
    assert swept[name].values == pytest.approx(
        per_problem(directly, OF_PROBLEM[name]), rel=1e-12
    )


def test_dims_of_everything(swept):
    expected = {
        "error": ("point", "start", "time"),
        "R": ("point", "start", "time", "student", "teacher"),
        "final_Q": ("point", "start", "student", "student_2"),
        "run_error": ("point", "start", "run", "time"),
        "status": ("point", "start"),
    }
    assert {name: swept[name].dims for name in expected} == expected
    assert swept["status"].values.tolist() == [[0, 0], [0, 0]]
    assert swept["end_time"].values.tolist() == [[60.0, 60.0]] * 2


def test_a_failing_function_fails_at_its_points_alone(swept):
    assert swept.failures == {
        1: "tests.sweeps.questions:moody: ZeroDivisionError: too noisy for me"
    }
    assert swept["moody.twice"].values[0] == 0.2
    assert np.isnan(swept["moody.lr"].values[1])
    assert np.isfinite(swept["final_error"].values).all()


def test_divergence_is_an_answer():
    problem = pair(2, 2, "linear")
    over = {"lr": [0.3, 5.0]}
    swept = tu.sweep(
        problem,
        over,
        ["error", "final_error", "noise_floor"],
        times=TIMES,
        start=START,
        executor="serial",
    )
    with pytest.warns(tu.errors.DivergenceWarning):
        alone = tu.solve(problem.replace(lr=5.0), START, TIMES)
    assert swept["status"].values.tolist() == [
        tu.errors.Status.FINISHED,
        tu.errors.Status.DIVERGED,
    ]
    assert swept["end_time"].values[1] == pytest.approx(float(alone.end_time), rel=1e-3)
    curve = swept["error"].values[1]
    assert np.flatnonzero(np.isfinite(curve)).tolist() == list(range(alone.times.size))
    assert curve[: alone.times.size] == pytest.approx(alone.error, rel=1e-5)
    assert np.isnan(swept["final_error"].values[1])
    assert swept.failures == {}
    assert "unstable" in swept.notes[1]


def test_a_number_that_an_answer_does_not_have():
    swept = tu.sweep(
        PROBLEM,
        {"lr": [0.4]},
        ["early_stopping.when", "plateaus.longest.length"],
        times=TIMES,
        executor="serial",
    )
    assert "no 'when'; its numbers are" in swept.notes[0]
    assert "end_value" in swept.notes[0]
    assert "plateaus.longest.length: there is none: no plateau" in swept.notes[0]


def test_simulation_seeds_differ():
    seeds = {simulation_seed(*where) for where in np.ndindex(4, 20, 5)}
    assert len(seeds) == 400
    assert simulation_seed(1, 2, 3) == simulation_seed(1, 2, 3)


def test_what_can_be_asked():
    assert set(AS_NUMBER) <= set(analyses())
    assert {"plateaus", "phases", "fluctuations", "fixed_point"} <= set(analyses())
    assert not {"solve", "simulate", "sweep", "load"} & set(analyses())
    for name in THEORY:
        assert set(resolve(name).dims) <= set(LABELS)
    assert resolve("escape_time.rate").needs == {"problem", "start"}
    assert resolve("final_error").needs == {"end"}
    assert "start" in inspect.signature(three).parameters
    assert resolve("tests.sweeps.questions:three").needs == {"problem", "start", "runs"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "finalerror",
            r"'finalerror' is not a measure; give one of error.*noise_floor.*plateaus.*module:function",
        ),
        ("plateaus", "which number"),
        ("tests.sweeps.questions:nobody", "the module has no .nobody."),
        ("no.such.module:f", "cannot be imported"),
        ("tests.sweeps.questions:OPTIONS", "must be a function"),
        (
            "tests.sweeps.questions:spec_of",
            "it names of problem, start, trajectory, runs",
        ),
        ("tests.sweeps.questions:status", "a name that a sweep keeps for itself"),
    ],
)
def test_what_cannot(name, words):
    with pytest.raises(tu.InputError, match=words):
        resolve(name)


def test_the_solver_is_chosen_point_by_point(monkeypatch):
    """As `solve` chooses it: neighbors in a chunk do not decide."""
    asked = []

    def choose(solver, problem, times):
        return (
            solver
            if solver != "auto"
            else "stiff"
            if float(problem.optimizer.lr) > 0.7
            else "explicit"
        )

    monkeypatch.setattr(compute_module, "choose", choose)
    monkeypatch.setattr(
        compute_module,
        "_solve_group",
        lambda spec, times, solver, cases: asked.append(
            (solver, [float(case.problem.optimizer.lr) for case in cases])
        ),
    )
    compute(next(tasks_of(spec_of(over={"lr": [0.5, 1.0, 0.6]}))))
    compute(next(tasks_of(spec_of(over={"lr": [0.5, 1.0]}, solver="implicit"))))
    assert asked == [
        ("explicit", [0.5, 0.6]),
        ("stiff", [1.0]),
        ("implicit", [0.5, 1.0]),
    ]


def test_warnings_of_solve_are_notes():
    """Units that start alike never part, and a large eigenvalue at small N leaves the limit: said at every such point."""
    alike = tu.Start(
        R=np.full((2, 2), 0.1), Q=np.full((2, 2), 0.1) + 0.1 * np.eye(2), dim=20
    )
    swept = tu.sweep(
        PROBLEM,
        {"lr": [0.4, 5.0]},
        "error",
        times=TIMES,
        start=alike,
        executor="serial",
    )
    assert "exactly identical" in swept.notes[0]
    assert "eta lam_max / N" not in swept.notes[0]
    assert "eta lam_max / N is 0.25" in swept.notes[1]
    assert "2 with a note" in str(swept)


def test_a_point_that_solve_refuses_fails():
    """Squared loss has no theory under label noise of infinite variance."""
    one = tu.Network(1, "linear")
    problem = tu.Problem(one, one, noise=cauchy)
    swept = tu.sweep(
        problem, {"lr": [0.1]}, "final_error", times=1.0, executor="serial"
    )
    assert "infinite variance" in swept.failures[0]


@pytest.mark.full
@pytest.mark.parametrize(
    ("measure", "alone"),
    [
        ("escape_time", lambda p, s: tu.analysis.escape_time(p, s).time),
        ("escape_time.rate", lambda p, s: tu.analysis.escape_time(p, s).rate),
        ("fixed_point", lambda p, s: tu.analysis.fixed_point(p).error),
        (
            "plateaus.longest.length",
            lambda p, s: (
                tu.analysis.plateaus(
                    tu.solve(p, s, tu.linear_times(600, 301))
                ).longest.length
            ),
        ),
        ("phases.marks", None),
    ],
)
def test_verbs_that_solve_for_themselves(measure, alone):
    points = [{"lr": 0.4, "noise": 0.0}, {"lr": 1.0, "noise": 0.1}]
    times = tu.linear_times(600, 301)
    swept = tu.sweep(
        PROBLEM,
        points=points,
        measure=measure,
        times=times,
        start={"dim": 1000},
        executor="serial",
    )
    if alone is None:
        assert "is of type dict; a measure must be a number" in swept.notes[0]
        return
    starts = [tu.random_start(PROBLEM, dim=1000, seed=0)] * 2
    expected = [
        alone(PROBLEM.replace(**point), start)
        for point, start in zip(points, starts, strict=True)
    ]
    assert swept[measure].values == pytest.approx(expected, rel=1e-5)
