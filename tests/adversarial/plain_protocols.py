"""Protocols of two linear tasks in plain NumPy: a student of one unit with two heads.

With overlaps R_s = w.w*_s, Q = w.w, T = w*_1.w*_2 and heads v_s, samples of task s arrive
with probability p_s, and its error is e_s = (1 - 2 v_s R_s + v_s^2 Q) / 2:
    dR_t = eta sum_s p_s v_s (T_st - v_s R_t),     dv_s = eta p_s (R_s - v_s Q)
    dQ = 2 eta sum_s p_s v_s (R_s - v_s Q) + eta^2 sum_s p_s v_s^2 (2 e_s + sigma^2)
"""

from dataclasses import dataclass

import numpy as np

STEPS = 200  # of Runge and Kutta in each segment
SEGMENTS = 3
OBJECTIVES = ("final", "integrated", "worst", "time", "function")


@dataclass(frozen=True)
class Lesson:
    """A problem of two tasks, and the bounds of its protocols.

    state: R_1, R_2, Q, v_1, v_2.
    """

    seed: int
    state: np.ndarray
    overlap: float
    noise: float
    end: float
    highest_lr: float
    level: float  # a share of the mean error at time 0
    budget: float  # of the first task, as a share of the time


def draw_lesson(seed):
    """The lesson of a seed."""
    rng = np.random.default_rng([seed, 39])
    overlap = rng.uniform(-0.3, 0.8)
    vectors = np.linalg.cholesky([[1.0, overlap], [overlap, 1.0]])
    student = rng.normal(0.0, 0.4, 3)  # the last one is orthogonal to both teachers
    return Lesson(
        seed=seed,
        state=np.array(
            [*(vectors @ student[:2]), student @ student, *rng.normal(0, 0.6, 2)]
        ),
        overlap=overlap,
        noise=rng.uniform(0.0, 0.6),
        end=rng.uniform(4.0, 20.0),
        highest_lr=rng.uniform(0.6, 1.6),
        level=rng.uniform(0.2, 0.7),
        budget=rng.uniform(0.15, 0.45),
    )


def errors(state):
    """e_s of states (..., 5)."""
    R = state[..., :2]
    Q = state[..., 2:3]
    v = state[..., 3:]
    return (1 - 2 * v * R + v**2 * Q) / 2


def drift(state, lr, share, lesson):
    """The change of states (batch, 5) at rates and shares of the first task (batch,)."""
    R = state[:, :2]
    Q = state[:, 2:3]
    v = state[:, 3:]
    T = np.array([[1.0, lesson.overlap], [lesson.overlap, 1.0]])
    lr = lr[:, None]
    p = np.stack([share, 1 - share], axis=1)
    dR = lr * ((p * v) @ T - np.sum(p * v**2, axis=1, keepdims=True) * R)
    force = np.sum(p * v * (R - v * Q), axis=1, keepdims=True)
    squares = np.sum(
        p * v**2 * (2 * errors(state) + lesson.noise**2), axis=1, keepdims=True
    )
    dQ = 2 * lr * force + lr**2 * squares
    return np.concatenate([dR, dQ, lr * p * (R - v * Q)], axis=1)


def follow(lesson, lr, share):
    """Times, and errors (batch, time, task), of protocols (batch, segments)."""
    state = np.tile(lesson.state, (len(lr), 1))
    h = lesson.end / (SEGMENTS * STEPS)
    curve = [errors(state)]
    for segment in range(SEGMENTS):
        now = lr[:, segment], share[:, segment], lesson
        for _ in range(STEPS):
            k1 = drift(state, *now)
            k2 = drift(state + h / 2 * k1, *now)
            k3 = drift(state + h / 2 * k2, *now)
            k4 = drift(state + h * k3, *now)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            curve.append(errors(state))
    return h * np.arange(len(curve)), np.stack(curve, axis=1)


def simpson(values, h):
    """The integral along the last axis, of an even number of intervals."""
    return (
        h / 3 * (values[:, :-1:2] + 4 * values[:, 1::2] + values[:, 2::2]).sum(axis=1)
    )


def first_time(times, mean, level):
    """When each curve first falls to the level, by the line of its logarithm; inf:

    never.
    """
    found = np.full(len(mean), np.inf)
    for i, curve in enumerate(mean):
        below = np.flatnonzero(curve <= level)
        if below.size and below[0] == 0:
            found[i] = times[0]
        elif below.size:
            last = below[0]
            y = np.log(curve[last - 1 : last + 1] / level)
            found[i] = times[last - 1] + (times[last] - times[last - 1]) * y[0] / (
                y[0] - y[1]
            )
    return found


def measure(lesson, objective, lr, share):
    """An objective of protocols (batch, segments)."""
    with np.errstate(all="ignore"):
        times, both = follow(lesson, lr, share)
        mean = both.mean(axis=2)
        if objective == "final":
            return mean[:, -1]
        if objective == "integrated":
            return simpson(mean, times[1])
        if objective == "worst":
            return both[:, -1].max(axis=1)
        if objective == "time":
            return first_time(times, mean, lesson.level * mean[0, 0])
        return both[:, -1, 0] + 0.5 * both[:, -1, 1] ** 2
