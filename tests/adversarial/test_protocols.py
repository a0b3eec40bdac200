"""Every objective of `optimize` against plain NumPy: values, local and global optimality, and larger sets of protocols."""

import numpy as np
import pytest

import tutelage as tu
from tests.adversarial import plain_protocols as plain

MANY = range(8)  # seeds of the long version


def problem_of(lesson):
    unit = tu.Network(1, "linear")
    tasks = tu.Tasks([unit, unit], similarity=lesson.overlap)
    student = tu.Network(1, "linear", train_readout=True)
    problem = tu.Problem(student, tasks, sgd=tu.SGD(lr=0.5), noise=lesson.noise)
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
    of_constant = plain.measure(lesson, objective, constant["lr"] * own, constant["tasks"] * own)[0]
    assert found.best_constant.value == pytest.approx(of_constant, rel=2e-5)
    assert found.starts.min() == pytest.approx(found.value, rel=2e-5)  # one number, not two
    rng = np.random.default_rng(lesson.seed)
    others = plain.measure(lesson, objective, *tried_around(lesson, found, rng, count))
    assert np.nanmin(others) > value * (1 - 1e-4) if np.isfinite(value) else np.all(np.isinf(others))
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
            optimized(lesson, objective, budgets={"lr": (0.5 * lesson.highest_lr * lesson.end, None)}),
            optimized(lesson, objective, share_of_lr=0.6),
        ]
        assert found.value <= min(one.value for one in subsets) * (1 + 1e-6), lesson
