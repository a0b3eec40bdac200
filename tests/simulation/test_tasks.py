"""Networks that learn several tasks, against plain NumPy:

weight by weight through switches, and in law where tasks are drawn.
"""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tests.simulation import laws
from tutelage.simulation import prepare

G = {
    "erf": (
        lambda x: erf(x / np.sqrt(2)),
        lambda x: np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2),
    ),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0) * 1.0),
    "linear": (lambda x: x, np.ones_like),
}
TEACHERS = [
    tu.Network(1, "erf"),
    tu.Network(3, "relu", readout=0.5),
    tu.Network(2, "linear", readout=[1.0, -0.5]),
]
CLOSED = [
    TEACHERS[0],
    tu.Network(2, "erf", readout=[1.0, -0.5]),
    tu.Network(1, "erf", readout=0.5),
]  # averages in closed form
STUDENT = tu.Network(2, "erf", train_readout=True, readout=0.4)
BACK = tu.Switch([0.5, 1.0, 1.5], order=[0, 1, 2, 0])


def sgd_step(problem, W, V, teachers, x, task, lr):
    """One step on one sample of a task, as one would write it, of a network or of several. V: (..., heads, K)."""
    N = W.shape[-1]
    tasks = problem.teacher
    network = tasks.teachers[task]
    units = tasks.units(task)
    head = task if tasks.heads == "separate" else 0
    g_teacher = G[network.activation.name][0]
    g, slope = G[problem.student.activation.name]
    fields, label_fields = (
        np.einsum("...in,...n->...i", rows, x) / np.sqrt(N)
        for rows in (W, teachers[..., units, :])
    )
    W = W.copy()
    V = V.copy()
    v = V[..., head, :]
    delta = g_teacher(label_fields) @ network.readout - (v * g(fields)).sum(axis=-1)
    W += (
        lr
        / np.sqrt(N)
        * (delta[..., None] * v * slope(fields))[..., None]
        * x[..., None, :]
    )
    v += lr / N * delta[..., None] * g(fields)
    return W, V


@pytest.mark.parametrize("heads", ["separate", "shared"])
@pytest.mark.parametrize("loop", ["numba", "jax"])
def test_weights_follow_the_plain_loop_through_switches_and_back(
    heads, loop, monkeypatch
):
    """Three tasks of different widths and activations, and the first one again:

    the same numbers to 1e-12.
    """
    if loop == "jax":
        monkeypatch.setattr(prepare, "has_kernels", lambda problem: False)
    problem = tu.Problem(
        STUDENT, tu.Tasks(TEACHERS, BACK, heads), optimizer=tu.SGD(lr=0.8)
    )
    rng = np.random.default_rng(3)
    dim = 30
    W, teachers, X = (rng.standard_normal((n, dim)) for n in (2, 6, 2 * dim))
    times = [0.0, 0.5, 0.7, 1.0, 1.5, 2.0]
    runs = tu.simulate(problem, weights=(W, teachers), inputs=X, times=times)
    order = [0, 1, 2, 0]
    V = np.full((3 if heads == "separate" else 1, 2), 0.4)
    for step in range(2 * dim + 1):
        for at in np.flatnonzero(runs.step == step):
            np.testing.assert_allclose(
                runs.R[0, at], W @ teachers.T / dim, rtol=0, atol=1e-12
            )
            np.testing.assert_allclose(runs.Q[0, at], W @ W.T / dim, rtol=0, atol=1e-12)
            np.testing.assert_allclose(
                runs.readout[0, at].reshape(V.shape), V, rtol=0, atol=1e-12
            )
        if step < 2 * dim:
            task = order[int(step / dim / 0.5)]
            W, V = sgd_step(problem, W, V, teachers, X[step], task, 0.8)
    assert runs.error.shape == (1, 6, 3)
    if heads == "separate":
        assert np.all(runs.readout[0, -1, 0] != runs.readout[0, 4, 0])  # relearned
        np.testing.assert_array_equal(runs.readout[0, 4, 0], runs.readout[0, 1, 0])


def plain_runs(problem, start, dim, times, runs, seed, probabilities=None):
    """Means and standard errors of R, Q and readouts over networks whose tasks are drawn, by NumPy alone.

    probabilities: function of time, in place of those of the problem, for negative controls.
    """
    rng = np.random.default_rng(seed)
    K = problem.student.hidden
    gram = np.block([[start.Q, start.R], [start.R.T, problem.teacher.gram]])
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    steps = np.ceil(np.array(times) * dim).astype(int)
    probabilities = (
        problem.teacher.probabilities if probabilities is None else probabilities
    )
    shares = np.array([np.asarray(probabilities(s / dim)) for s in range(steps[-1])])
    frame = np.linalg.qr(rng.standard_normal((runs, dim, len(gram))))[0]
    both = np.sqrt(dim) * root @ np.swapaxes(frame, 1, 2)
    W = both[:, :K].copy()
    teachers = both[:, K:]
    V = np.tile(np.array(start.readout_of(problem)).reshape(-1, K), (runs, 1, 1))
    found = []
    for step in range(steps[-1] + 1):
        if step in steps:
            overlaps = (
                W @ np.swapaxes(teachers, 1, 2) / dim,
                W @ np.swapaxes(W, 1, 2) / dim,
                V,
            )
            found.append(
                np.concatenate([x.reshape(runs, -1) for x in overlaps], axis=1)
            )
        if step < steps[-1]:
            drawn = (rng.random(runs)[:, None] > np.cumsum(shares[step])[:-1]).sum(
                axis=1
            )
            x = rng.standard_normal((runs, dim))
            for task in range(len(problem.teacher.teachers)):
                on = drawn == task
                W[on], V[on] = sgd_step(
                    problem,
                    W[on],
                    V[on],
                    teachers[on],
                    x[on],
                    task,
                    float(problem.optimizer.lr),
                )
    found = np.array(found)
    return found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(runs)


def flat(theory):
    parts = theory.R, theory.Q, theory.readout
    return np.concatenate([x.reshape(len(theory.times), -1) for x in parts], axis=1)


@pytest.mark.parametrize(
    "heads", ["separate", pytest.param("shared", marks=pytest.mark.full)]
)
def test_theory_follows_plain_sgd_with_drawn_tasks(heads):
    """Three tasks, the earlier ones replayed:

    every entry within four standard errors; other probabilities are not.
    """
    schedule = tu.Replay(0.4, after=[1.0, 2.0])
    times = [0.0, 1.0, 2.0, 3.0]
    problem = tu.Problem(
        STUDENT,
        tu.Tasks(CLOSED, schedule, heads, similarity=0.3),
        optimizer=tu.SGD(lr=0.8),
    )
    start = tu.asymmetric_start(problem)
    theory = flat(tu.solve(problem, start, times))
    mean, error = plain_runs(problem, start, 100, times, 200, seed=5)
    assert (
        np.max(np.abs(mean - theory)[1:] / (error[1:] + 0.2 / 100)) < 4
    )  # and a gap of order 1/N
    equal = lambda t: np.full(3, 1 / 3)  # noqa: E731
    wrong, error = plain_runs(
        problem, start, 100, times, 30, seed=5, probabilities=equal
    )
    assert np.max(np.abs(wrong - theory)[1:] / (error[1:] + 0.2 / 100)) > 8


DRIFTING = tu.Problem(
    STUDENT,
    tu.Tasks(
        CLOSED[:2],
        tu.Replay(0.4, 0.5),
        similarity=0.3,
        drift=tu.Drift(0.5),
        freeze_heads=[0.7, np.inf],
    ),
    inputs=tu.Spectrum([2.0, 0.5], [1 / 3, 2 / 3]),
    optimizer=tu.SGD(lr=0.8, batch=2),
    noise=0.1,
)
OPTIONS = {"dim": 36, "times": [0.0, 0.5, 1.0, 1.5]}


def test_overlaps_and_weights_follow_one_law():
    """Both methods, numba and JAX; tasks drawn at each sample, two levels, batches, a frozen head, a drifting teacher."""
    problem = DRIFTING
    start = tu.asymmetric_start(DRIFTING)
    options = OPTIONS
    numba = tu.simulate(problem, start, runs=1500, seed=1, **options)
    assert (
        laws.probability(
            numba,
            tu.simulate(problem, start, runs=800, seed=2, method="weights", **options),
        )
        > laws.LEVEL
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "has_kernels", lambda problem: False)
        assert (
            laws.probability(
                numba, tu.simulate(problem, start, runs=400, seed=3, **options)
            )
            > laws.LEVEL
        )
    still = problem.replace(drift=tu.Drift(0.1))
    assert (
        laws.probability(numba, tu.simulate(still, start, runs=800, seed=4, **options))
        < laws.LEVEL
    )  # a negative control
    assert numba.T is None
    T = numba["T"].mean(axis=0)
    spread = numba["T"].std(axis=0) / np.sqrt(1500)
    assert (
        np.max(np.abs(T - T[0]) / (spread + 1e-12)) < 5
    )  # the overlaps of the teachers stay on average
    assert np.min(numba["T"][:, -1].std(axis=0)) > 0.01
    np.testing.assert_array_equal(
        numba.readout[:, 3, 0], numba.readout[:, 2, 0]
    )  # frozen


@pytest.mark.full  # the step is that of JAX above; this compiles other random numbers
def test_all_runs_in_one_program_follow_that_law():
    start = tu.asymmetric_start(DRIFTING)
    numba = tu.simulate(DRIFTING, start, runs=1500, seed=1, **OPTIONS)
    together = tu.simulate(DRIFTING, start, runs=800, seed=5, together=True, **OPTIONS)
    assert laws.probability(numba, together) > laws.LEVEL
    np.testing.assert_allclose(
        *(x["T"][:, -1].std(axis=0) for x in (numba, together)), rtol=0.15
    )


def test_runs_lie_in_the_band_through_the_switch(tmp_path):
    start = tu.Start(
        R=[[0.05, 0.02], [-0.01, 0.03]],
        Q=[[0.3, 0.02], [0.02, 0.2]],
        readout=[[0.3, 0.1], [0.2, -0.1]],
    )
    tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(8.0), similarity=0.5)
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=1.0)
    )
    times = tu.linear_times(16, 17)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, dim=500, times=times, runs=60, seed=1)
    result = tu.compare(theory, runs)
    assert result.agrees
    assert result["error"].z.shape == (17, 2)
    assert not result["error"].rough
    assert result.noticeable < 0.1
    assert "task 2" in str(result)
    other = tu.solve(problem.replace(**{"schedule.times": 7.0}), start, times)
    assert (
        tu.compare(with_problem(other, problem), runs, fluctuations=False).agrees
        is False
    )  # a negative control
    again = tu.load(runs.save(tmp_path / "runs.nc"))
    np.testing.assert_array_equal(again.error, runs.error)


def with_problem(trajectory, problem):
    from dataclasses import replace

    return replace(trajectory, problem=problem)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(tu.rules.Dropout(0.8), id="dropout", marks=pytest.mark.full),
        pytest.param(tu.rules.Reinforce(3, 1.0, 0.0), id="episodes"),
    ],
)
def test_rules_that_draw_numbers_or_see_episodes_learn_several_tasks(rule):
    """The number that chooses the task stands after those of the rule; the samples of an episode share their task."""
    classes = isinstance(rule, tu.rules.Reinforce)
    student = (
        tu.Network(1, "linear") if classes else tu.Network(1, "erf", train_readout=True)
    )
    tasks = tu.Tasks(
        [tu.Network(1, "linear")] * 2, tu.Replay(0.3, after=1.0), similarity=0.3
    )
    problem = tu.Problem(
        student,
        tasks,
        rule=rule,
        labels="sign" if classes else "real",
        optimizer=tu.SGD(lr=0.5),
    )
    start = tu.asymmetric_start(problem, dim=200)
    times = [0.0, 1.0, 2.0]
    theory = tu.solve(problem, start, times)
    for method, runs in (("overlaps", 60), ("weights", 20)):
        found = tu.simulate(
            problem, start, dim=200, times=times, runs=runs, seed=1, method=method
        )
        assert tu.compare(theory, found, fluctuations=False).agrees
    wrong = tu.solve(problem.replace(**{"schedule.fraction": 0.9}), start, times)
    assert np.max(np.abs(wrong.R - theory.R)) > 0.05  # other probabilities are far away
