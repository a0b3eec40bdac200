"""Several tasks in the limit:

printed digits, one task as a special case, general averages, drift, batches, gradients,
files.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tutelage.stream import OrderParameters, initial_overlaps, program
from tutelage.stream.moments import moments_for
from tutelage.stream.moments.node_moments import NodeMoments

ONE = tu.Network(1, "erf")
STUDENT = tu.Network(2, "erf", train_readout=True)
START = tu.Start(
    R=[[0.05, 0.02], [-0.01, 0.03]],
    Q=[[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)
TIMES = [0.0, 30.0, 60.0, 63.0, 75.0, 120.0]


def two_tasks(schedule=None, similarity=0.5, **options):
    tasks = tu.Tasks(
        [ONE, ONE],
        tu.Switch(60.0) if schedule is None else schedule,
        similarity=similarity,
        **options,
    )
    return tu.Problem(STUDENT, tasks, optimizer=tu.SGD(lr=1.0))


@pytest.fixture(scope="module")
def theory():
    return tu.solve(two_tasks(), START, TIMES)


def test_two_tasks_and_a_switch_to_the_printed_digits(theory):
    expected = [
        (0.000271391, 0.147902),
        (0.000138967, 0.147382),
        (0.0132751, 0.0998097),
        (0.147435, 0.00203482),
        (0.155074, 0.000114555),
    ]
    np.testing.assert_allclose(theory.error[1:], expected, rtol=5e-6)
    assert theory.tasks == 2
    np.testing.assert_array_equal(theory.loss, theory.error)
    assert theory.readout.shape == (6, 2, 2)
    np.testing.assert_allclose(
        theory.readout[:3, 1], np.tile([0.2, -0.1], (3, 1)), rtol=1e-14
    )  # its task is not shown yet
    np.testing.assert_allclose(
        theory.readout[3:, 0], np.tile(theory.readout[2, 0], (3, 1)), rtol=1e-14
    )


def test_equal_tasks_to_the_printed_digits():
    """At V = 1 these overlaps belong to no vectors, which is refused; the equations have a solution all the same."""
    solved = jax.jit(
        lambda V: (
            tu.solve(two_tasks(similarity=V), START, TIMES, gradient="forward").error
        )
    )
    error = solved(1.0)
    np.testing.assert_allclose(error[-1], (0.00036099, 0.0001158), rtol=4e-5)


@pytest.fixture(scope="module")
def batch():
    """Eight similarities, and another time of the switch."""
    V = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 0.1]
    switch = [[60.0]] * 8 + [[50.0]]
    return tu.solve_batch(
        two_tasks(), {"similarity": V, "schedule.times": switch}, START, TIMES
    )


def test_forgetting_against_similarity_in_one_batch(batch):
    forgotten = batch.error[:8, -1, 0] - batch.error[:8, 2, 0]
    np.testing.assert_allclose(
        forgotten,
        [0.0416, 0.1072, 0.1535, 0.1645, 0.1630, 0.1549, 0.1094, 0.0392],
        atol=6e-5,
    )
    for member, one in (
        (3, two_tasks(similarity=0.3)),
        (8, two_tasks(tu.Switch(50.0), 0.1)),
    ):
        np.testing.assert_allclose(
            batch.error[member], tu.solve(one, START, TIMES).error, rtol=1e-6
        )
    assert (
        np.max(np.abs(batch.error[8] / batch.error[1] - 1)) > 0.1
    )  # the switch matters


def test_one_task_is_the_problem_of_its_teacher():
    teacher = tu.Network(2, "erf", readout=[1.0, 0.5])
    plain = tu.Problem(STUDENT, teacher, optimizer=tu.SGD(lr=0.7), noise=0.1)
    tasks = plain.replace(teacher=tu.Tasks([teacher]))
    start = tu.asymmetric_start(plain)
    one, other = (tu.solve(p, start, [0.0, 5.0, 10.0]) for p in (plain, tasks))
    np.testing.assert_allclose(other.error[:, 0], one.error, rtol=1e-9)
    np.testing.assert_allclose(other.loss[:, 0], one.loss, rtol=1e-9)
    np.testing.assert_allclose(other.readout[:, 0], one.readout, rtol=1e-8)
    shared = tu.solve(
        plain.replace(
            teacher=tu.Tasks([teacher, teacher], similarity=1.0, heads="shared")
        ),
        doubled(start),
        [0.0, 10.0],
    )
    np.testing.assert_allclose(
        shared.error[:, 0], shared.error[:, 1], rtol=1e-7
    )  # the same task twice
    np.testing.assert_allclose(shared.readout[-1], one.readout[-1], rtol=1e-6)


def doubled(start):
    return tu.Start(np.concatenate([start.R, start.R], axis=1), start.Q)


@pytest.mark.parametrize(
    "heads", ["separate", pytest.param("shared", marks=pytest.mark.full)]
)
def test_general_averages_equal_closed_forms(heads):
    """The same loss as a function:

    each task is averaged over a grid of its three fields.
    """
    closed = tu.Problem(
        STUDENT,
        tu.Tasks(
            [ONE, tu.Network(1, "linear")], tu.Replay(0.3, 2.0), heads, similarity=0.5
        ),
        optimizer=tu.SGD(0.5),
        noise=0.2,
    )
    general = closed.replace(loss=lambda output, label: (label - output) ** 2 / 2)
    assert all(isinstance(one, NodeMoments) for one in moments_for(general).by_task)
    start = tu.Start(
        START.R,
        START.Q,
        readout=START.readout if heads == "separate" else START.readout[0],
    )

    def everything(problem, time, fraction):
        mixed = problem.replace(**{"schedule.fraction": fraction})
        state, t = initial_overlaps(mixed, start)
        system = OrderParameters(mixed, t)
        seen = system.observe(state)
        return system.drift(time, state), system.error_and_loss(seen)

    by_formulas, by_nodes = (
        jax.jit(partial(everything, problem)) for problem in (closed, general)
    )
    for time in (1.0, 3.0):
        one = by_formulas(time, 0.3)
        other = by_nodes(time, 0.3)
        wrong = by_formulas(time, 0.31)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7),
            one,
            other,
        )
    assert np.max(np.abs(wrong[0].r - one[0].r)) > 1e-4  # a negative control


@pytest.mark.full  # the test above compares averages over a grid
def test_sampled_averages_equal_closed_forms(theory):
    other = tu.solve(two_tasks(), START, TIMES, moments=tu.Sampled(2**12))
    np.testing.assert_allclose(other.error, theory.error, atol=1e-3)
    assert dict(other.settings)["moments"] == (2**12, 0)


def test_schedules_that_are_equal():
    """A switch is a replay of nothing, and a function of time with the same jump, which the solver finds."""
    times = [0.0, 10.0, 15.0]
    expected = tu.solve(two_tasks(tu.Switch(10.0)), START, times).error
    jump = lambda t: jnp.where(t < 10.0, jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))  # noqa: E731
    for schedule in (tu.Replay(0.0, 10.0), jump):
        np.testing.assert_allclose(
            tu.solve(two_tasks(schedule), START, times).error, expected, rtol=1e-5
        )


def test_freezing_and_restarts():
    """Freeze the first layer or the heads at the switch, or begin the schedule of the learning rate again."""
    base = two_tasks()
    times = [0.0, 60.0, 90.0]
    plain = tu.solve(base, START, times)
    first = base.replace(lr=tu.schedules.Piecewise([60.0], [1.0, 0.0]), readout_lr=1.0)
    frozen = tu.solve(first, START, times)
    np.testing.assert_allclose(frozen.R[2], frozen.R[1], rtol=1e-14)
    assert np.max(np.abs(frozen.readout[2, 1] - frozen.readout[1, 1])) > 0.1
    np.testing.assert_allclose(frozen.error[:2], plain.error[:2], rtol=1e-6)
    decay = tu.schedules.PowerDecay(1.0, timescale=5.0)
    never = 1e6

    def decaying(start, times, restart=never, switch=60.0, freeze=np.inf):
        problem = two_tasks(tu.Switch(switch)).replace(
            lr=tu.schedules.Restarted(decay, [restart]), freeze_heads=[np.inf, freeze]
        )
        return tu.solve(problem, start, times)

    for t, since in ((30.0, 30.0), (60.0, 0.0), (90.0, 30.0)):
        assert float(tu.schedules.Restarted(decay, [60.0])(t)) == pytest.approx(
            float(decay(since)), rel=1e-14
        )
        assert float(tu.schedules.Restarted(decay, [never])(t)) == pytest.approx(
            float(decay(t)), rel=1e-14
        )
    heads = decaying(START, [0.0, 60.0, 75.0, 90.0], restart=60.0, freeze=75.0)
    np.testing.assert_allclose(
        heads.readout[3, 1], heads.readout[2, 1], rtol=0, atol=1e-14
    )
    assert np.max(np.abs(heads.readout[2, 1] - heads.readout[1, 1])) > 0.1
    again = decaying(START, times, restart=60.0)
    slow = decaying(START, times)
    np.testing.assert_allclose(again.error[1], slow.error[1], rtol=1e-6)
    second = tu.Start(again.R[1], again.Q[1], readout=again.readout[1])
    alone = decaying(second, [0.0, 30.0], switch=0.0)
    np.testing.assert_allclose(again.error[2], alone.error[1], rtol=1e-6)
    assert abs(again.error[2, 1] - slow.error[2, 1]) > 1e-3
    assert (
        np.max(np.abs(again.readout[2, 1] - heads.readout[3, 1])) > 1e-3
    )  # a head that is not frozen moves on


def test_a_drifting_teacher_has_the_exact_error(tmp_path):
    """Linear unit and teacher:

    e = (eta sigma^2 + 2 omega / (eta + omega)) / (2 (2 - eta)).
    """
    tasks = tu.Tasks([tu.Network(1, "linear")], drift=tu.Drift(0.03))
    problem = tu.Problem(
        tu.Network(1, "linear"), tasks, optimizer=tu.SGD(0.3), noise=0.3
    )
    eta = 0.3
    omega = 0.03
    sigma = 0.3
    expected = (eta * sigma**2 + 2 * omega / (eta + omega)) / (2 * (2 - eta))
    rates = tu.solve_batch(
        problem, {"drift.rate": [0.0, 0.03]}, tu.Start([[0.1]], [[0.5]]), [0.0, 300.0]
    )
    np.testing.assert_allclose(
        rates.error[:, -1, 0], [eta * sigma**2 / (2 * (2 - eta)), expected], rtol=1e-8
    )
    runs = tu.simulate(
        problem, tu.Start([[0.1]], [[0.5]]), dim=30, times=[0.0, 1.0], runs=2
    )
    again = tu.load(runs.save(tmp_path / "runs.nc"))
    assert runs["T"].shape == (2, 2, 1, 1)
    np.testing.assert_array_equal(again["T"], runs["T"])


def test_other_numbers_do_not_compile_again():
    """Switch time, similarity, probabilities and rates are data to the program."""
    count = lambda: program.integrate_equations._cached._cache_size()  # noqa: E731
    tu.solve(two_tasks(), START, TIMES)
    before = count()
    tu.solve(two_tasks(tu.Switch(40.0), 0.25).replace(lr=0.5), START, TIMES)
    assert count() == before
    tu.solve(two_tasks(tu.Interleave([0.5, 0.5])), START, TIMES)
    before = count()
    tu.solve(two_tasks(tu.Interleave([0.4, 0.6])), START, TIMES)
    assert count() == before


def test_gradient_by_the_probabilities():
    problem = two_tasks(tu.Interleave([0.5, 0.5]))

    def error(u):
        mixed = problem.replace(**{"schedule.shares": jnp.stack([u, 1 - u])})
        return jnp.sum(
            tu.solve(mixed, START, [0.0, 5.0], gradient="forward").error[-1]
            * jnp.array([1.0, 2.0])
        )

    slope = jax.jacfwd(error)(0.4)
    np.testing.assert_allclose(slope, (error(0.401) - error(0.399)) / 0.002, rtol=1e-4)


def test_trajectories_of_tasks_as_data(theory, batch, tmp_path):
    data = theory.to_dataset()
    assert data["error"].dims == data["loss"].dims == ("time", "task")
    assert data["readout"].dims == ("time", "task", "student")
    assert data["start_readout"].dims == ("task", "student")
    assert data["teacher_task"].values.tolist() == [0, 1]
    again = tu.load(theory.save(tmp_path / "tasks.nc"))
    assert eqx.tree_equal(again.variables, theory.variables)
    np.testing.assert_array_equal(again.error, theory.error)
    assert again.problem.to_dict() == theory.problem.to_dict()
    back = tu.load(batch.save(tmp_path / "batch.nc"))
    assert back.to_dataset().identical(batch.to_dataset())
    assert back.problem.teacher.schedule.times[-2:].tolist() == [[60.0], [50.0]]


def test_one_task_of_a_trajectory():
    theory = tu.solve(two_tasks(), START, tu.linear_times(120, 61))
    second = theory.task(1)
    np.testing.assert_array_equal(second.error, theory.error[:, 1])
    np.testing.assert_array_equal(second.R[..., 0], theory.R[..., 1])
    np.testing.assert_array_equal(second.readout, theory.readout[:, 1])
    assert second.T.tolist() == [[1.0]]
    assert tu.analysis.plateaus(second) is not None
    with pytest.raises(tu.InputError, match="tasks 0 to 1"):
        theory.task(2)
    at = tu.generalization_error(
        theory.problem, theory.R, theory.Q, theory.T, START.readout
    )
    assert at.shape == (61, 2)
    np.testing.assert_allclose(at[0], theory.error[0], rtol=1e-12)


@pytest.mark.parametrize(
    "heads", ["separate", pytest.param("shared", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("name", ["task", "teacher_task"])
def test_a_file_keeps_the_names_of_its_axes(name, heads, tmp_path):
    tasks = tu.Tasks([ONE, ONE], tu.Switch(0.5), heads, similarity=0.5)
    problem = tu.Problem(STUDENT, tasks, optimizer=tu.SGD(lr=0.5))
    theory = tu.solve(
        problem,
        tu.asymmetric_start(problem),
        [0.0, 1.0],
        observe={name: lambda R, Q, readout: Q[0, 0]},
    )
    with pytest.raises(tu.InputError, match="keeps that name for itself"):
        theory.save(tmp_path / "theory.nc")
    assert not list(tmp_path.iterdir())


def test_momentum_vectors_are_left_behind_by_moving_teachers():
    """dU/dalpha = ... - omega U, as for the students: U are their overlaps with w*."""
    rate = 0.3

    def moving(drift):
        return tu.Problem(
            tu.Network(2, "erf"),
            tu.Tasks([ONE, ONE], tu.Switch(60.0), similarity=0.5, drift=drift),
            optimizer=tu.SGD(lr=1.0, momentum=tu.SlowMomentum(2.0)),
        )

    start = tu.Start(R=START.R, Q=START.Q)
    resting = moving(None)
    state, T = initial_overlaps(resting, start)
    # overlaps of momentum vectors as they are after a while
    state = state._replace(
        velocity=jax.tree.map(
            lambda x: x + 0.1 + 0.05 * jnp.arange(x.size).reshape(x.shape),
            state.velocity,
        )
    )
    still = OrderParameters(resting, T).drift(0.0, state)
    left = OrderParameters(moving(tu.Drift(rate)), T).drift(0.0, state)
    np.testing.assert_allclose(
        left.velocity.teacher - still.velocity.teacher,
        -rate * state.velocity.teacher,
        rtol=1e-12,
    )
    np.testing.assert_allclose(left.r - still.r, -rate * state.r, rtol=1e-12)
    np.testing.assert_allclose(left.velocity.own, still.velocity.own, rtol=1e-12)
