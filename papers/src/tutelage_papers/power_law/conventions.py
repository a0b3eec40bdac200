"""The paper's normalization of committees, and closed forms as trajectories."""

from collections.abc import Callable
from typing import Any

import numpy as np

import tutelage as tu
from tutelage import checks


def committee(
    students: int,
    teachers: int | None = None,
    inputs: tu.Inputs | None = None,
    lr: float | Callable[..., Any] = 0.1,
    *,
    activation: str | tu.Activation | Callable[..., Any] = "erf",
) -> tu.Problem:
    """Return K students with readout sqrt(M)/K that learn from M teachers.

    The teachers' readout is 1/sqrt(M) (Worschech and Rosenow 2024, eq. 2), so that outputs
    of both have a variance of order one for any K and M. teachers: M (default: as many as
    students).

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.power_law.committee(4, 2)
    >>> problem.student, problem.teacher
    (Network(4, 'erf', readout=0.353553), Network(2, 'erf', readout=0.707107))
    """
    K = checks.as_count("students", students)
    M = K
    if teachers is not None:
        M = checks.as_count("teachers", teachers)
    student = tu.Network(K, activation, readout=np.sqrt(M) / K)
    teacher = tu.Network(M, activation, readout=1 / np.sqrt(M))
    return tu.Problem(student, teacher, inputs=inputs, optimizer=tu.SGD(lr))


def as_trajectory(
    problem: tu.Problem,
    start: tu.Start,
    times: np.ndarray,
    variables: dict[str, Any],
    error: Any,
    T: Any,
    steps: Any = 0,
    **settings: Any,
) -> tu.Trajectory:
    """Return a finished curve that `solve` did not integrate, as `solve` would."""
    readout = problem.student.readout
    if start.readout is not None:
        readout = start.readout
    readouts = np.tile(np.asarray(readout), (times.size, 1))
    finished = int(tu.errors.Status.FINISHED)
    return tu.Trajectory(
        times=times,
        variables=variables | {"readout": readouts},
        error=error,
        loss=error + np.asarray(problem.noise) ** 2 / 2,
        status_code=np.asarray(finished),
        end_time=times[-1],
        steps=np.asarray(steps),
        T=T,
        problem=problem,
        start=start,
        settings=tuple(sorted(settings.items())),
    )
