"""Every objective of `optimize` against plain NumPy:

values, local and global optimality, and larger sets of protocols.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.adversarial import plain_protocols as plain

MANY = range(8)  # seeds of the long version


def problem_of(lesson):
    unit = tu.Network(1, "linear")
    tasks = tu.Tasks([unit, unit], similarity=lesson.overlap)
    student = tu.Network(1, "linear", train_readout=True)
    problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=0.5), noise=lesson.noise)
    R1, R2, Q, v1, v2 = lesson.state
    return problem, tu.Start([[R1, R2]], [[Q]], readout=[[v1], [v2]])


def last_errors(trajectory):
    return trajectory.error[-1, 0] + 0.5 * trajectory.error[-1, 1] ** 2


def optimized(lesson, objective, share_of_lr=1.0, **options):
    problem, start = problem_of(lesson)
    if objective == "time":
        options["level"] = lesson.level * plain.errors(lesson.state).mean()
    return tu.schedules.optimize(
        problem,
        start,
        lesson.end,
        {"lr": (0.0, share_of_lr * lesson.highest_lr), "tasks": (0.0, 1.0)},
        last_errors if objective == "function" else objective,
        segments=plain.SEGMENTS,
        **options,
    )


def protocol_of(found):
    """Rates and shares of the first task, (1, segments)."""
    lr = np.asarray(found.schedules["lr"].values)
    share = np.asarray(found.schedules["tasks"].shares.values)
    return lr[None], share[None]


def tried_around(lesson, found, rng, count):
    """Protocols near the one found, and `count` of all kinds, half of them between extreme values."""
    lr, share = protocol_of(found)
    scale = np.geomspace(1e-3, 0.3, count)[:, None]
    shape = count, plain.SEGMENTS
    near = [
        np.clip(lr / lesson.highest_lr + scale * rng.standard_normal(shape), 0, 1),
        np.clip(share + scale * rng.standard_normal(shape), 0, 1),
    ]
    far = [rng.random(shape), rng.random(shape)]
    for table in far:
        table[::2] = np.round(table[::2])
    rates = np.concatenate([near[0], far[0]]) * lesson.highest_lr
    return rates, np.concatenate([near[1], far[1]])


def require_right(lesson, objective, count):
    found = optimized(lesson, objective)
    value = plain.measure(lesson, objective, *protocol_of(found))[0]
    assert found.value == pytest.approx(value, rel=2e-5)
    constant = found.best_constant.controls
    own = np.full((1, plain.SEGMENTS), 1.0)
    of_constant = plain.measure(
        lesson, objective, constant["lr"] * own, constant["tasks"] * own
    )[0]
    assert found.best_constant.value == pytest.approx(of_constant, rel=2e-5)
    assert found.starts.min() == pytest.approx(
        found.value, rel=2e-5
    )  # one number, not two
    rng = np.random.default_rng(lesson.seed)
    others = plain.measure(lesson, objective, *tried_around(lesson, found, rng, count))
    assert (
        np.nanmin(others) > value * (1 - 1e-4)
        if np.isfinite(value)
        else np.all(np.isinf(others))
    )
    return found


@pytest.mark.full
@pytest.mark.parametrize("objective", plain.OBJECTIVES)
def test_objective(objective):
    lesson = plain.draw_lesson(0)
    found = require_right(lesson, objective, 300)
    within = optimized(lesson, objective, budgets={"tasks": lesson.budget * lesson.end})
    assert found.value <= within.value * (1 + 1e-6)


@pytest.mark.full
@pytest.mark.parametrize("objective", plain.OBJECTIVES)
def test_objective_of_many_lessons(objective):
    """Larger sets of protocols, without a budget or with a higher rate, are never worse."""
    for lesson in map(plain.draw_lesson, MANY):
        found = require_right(lesson, objective, 2000)
        subsets = [
            optimized(lesson, objective, budgets={"tasks": lesson.budget * lesson.end}),
            optimized(
                lesson,
                objective,
                budgets={"lr": (0.5 * lesson.highest_lr * lesson.end, None)},
            ),
            optimized(lesson, objective, share_of_lr=0.6),
        ]
        assert found.value <= min(one.value for one in subsets) * (1 + 1e-6), lesson


# Analyses of several tasks, and batches of schedules, against the same integration


def edges_of(lesson):
    return lesson.end / plain.SEGMENTS * np.arange(1, plain.SEGMENTS)


def with_schedule(lesson, schedule, lr=0.5):
    problem, start = problem_of(lesson)
    return problem.replace(schedule=schedule, lr=lr), start


def followed(lesson, share, lr=0.5):
    """Times and errors (time, task) of a share in each segment."""
    times, errors = plain.follow(
        lesson, np.full((1, plain.SEGMENTS), lr), np.array([share], float)
    )
    return times, errors[0]


def time_below(times, curve, level, begin):
    """How long after a time a curve first falls to a level."""
    late = times >= begin - 1e-9
    return plain.first_time(times[late], curve[None, late], level)[0] - begin


@pytest.mark.full
@pytest.mark.parametrize("seed", [3, 4])
def test_transfer_savings_and_replay_as_numbers(seed):
    lesson = plain.draw_lesson(seed)
    edges = edges_of(lesson)
    recorded = np.linspace(0.0, lesson.end, plain.SEGMENTS * plain.STEPS + 1)

    times, after = followed(lesson, [1, 0, 0])
    _, scratch = followed(lesson, [0, 0, 0])
    level = 1.2 * max(after[-1, 1], scratch[-1, 1])
    problem, start = with_schedule(lesson, tu.Switch(edges[0]))
    found = tu.analysis.transfer(problem, start, recorded, target=level)
    assert found.after == pytest.approx(
        time_below(times, after[:, 1], level, edges[0]), abs=1e-4
    )
    assert found.scratch == pytest.approx(
        time_below(times, scratch[:, 1], level, 0.0), abs=1e-4
    )

    problem, start = with_schedule(lesson, tu.Switch(edges, order=[0, 1, 0]))
    times, returning = followed(lesson, [1, 0, 1])
    level = 1.1 * max(returning[plain.STEPS, 0], returning[-1, 0])
    saved = tu.analysis.savings(tu.solve(problem, start, recorded), target=level)
    first = time_below(times, returning[:, 0], level, 0.0)
    again = time_below(times, returning[:, 0], level, edges[1])
    assert (saved.first, saved.again) == pytest.approx((first, again), abs=1e-4)
    lost = tu.analysis.forgetting(tu.solve(problem, start, recorded))
    np.testing.assert_allclose(lost.left, edges[:2], rtol=1e-6)
    assert lost.amount[0] == pytest.approx(
        returning[-1, 0] - returning[plain.STEPS, 0], rel=1e-6, abs=1e-9
    )

    problem, start = with_schedule(lesson, tu.Replay(0.1, after=edges[0]))
    best = tu.analysis.best_replay(problem, start, [0.0, *edges, lesson.end])
    fractions = np.linspace(0.0, 1.0, 2001)
    shares = np.stack([np.ones_like(fractions), fractions, fractions], axis=1)
    _, curves = plain.follow(lesson, np.full(shares.shape, 0.5), shares)
    final = curves[:, -1].mean(axis=1)
    assert best.value == pytest.approx(final.min(), rel=1e-4)
    assert best.fraction == pytest.approx(fractions[final.argmin()], abs=0.01)


@pytest.mark.full
def test_a_batch_of_schedules():
    lesson = plain.draw_lesson(3)
    Piecewise = tu.schedules.Piecewise
    even = np.full(plain.SEGMENTS, 0.5)
    edges = edges_of(lesson)
    problem, start = with_schedule(
        lesson, tu.Interleave(Piecewise(edges, even)), Piecewise(edges, even)
    )
    rng = np.random.default_rng(0)
    lr = rng.uniform(0.1, 1.0, (5, 3))
    share = rng.random((5, 3))
    over = {"lr.values": lr, "schedule.shares.values": share}
    found = tu.solve_batch(problem, over, start, [0.0, lesson.end]).error[:, -1]
    np.testing.assert_allclose(
        found, plain.follow(lesson, lr, share)[1][:, -1], rtol=1e-7
    )
