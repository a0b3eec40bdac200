"""The paper's normalization of committees, and curves in closed form as the trajectories that `solve` would return."""

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
    """K students with readout sqrt(M)/K learn from M teachers with readout 1/sqrt(M) (Worschech and Rosenow 2024, eq. 2).

    Outputs of both then have a variance of order one for any K and M. teachers: M (default: as many as students).

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> tutelage_papers.power_law.committee(4, 2).student, tutelage_papers.power_law.committee(4, 2).teacher
    (Network(4, 'erf', readout=0.353553), Network(2, 'erf', readout=0.707107))
    """
    K = checks.as_count("students", students)
    M = K if teachers is None else checks.as_count("teachers", teachers)
    student = tu.Network(K, activation, readout=np.sqrt(M) / K)
    return tu.Problem(
        student,
        tu.Network(M, activation, readout=1 / np.sqrt(M)),
        inputs=inputs,
        optimizer=tu.SGD(lr),
    )


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
    """A finished curve that `solve` did not integrate, as the trajectory that `solve` would return."""
    readout = problem.student.readout if start.readout is None else start.readout
    return tu.Trajectory(
        times=times,
        variables=variables
        | {"readout": np.tile(np.asarray(readout), (times.size, 1))},
        error=error,
        loss=error + np.asarray(problem.noise) ** 2 / 2,
        status_code=np.asarray(int(tu.errors.Status.FINISHED)),
        end_time=times[-1],
        steps=np.asarray(steps),
        T=T,
        problem=problem,
        start=start,
        settings=tuple(sorted(settings.items())),
    )
