"""Committees whose output stays of order one however many units they have (Worschech and Rosenow 2024, eq. 2)."""

from typing import Any

import numpy as np

from tutelage import checks
from tutelage.problem import SGD, Inputs, Network, Problem


def committee(
    students: int, teachers: int | None = None, inputs: Inputs | None = None, lr: Any = 0.1, *, activation: Any = "erf"
) -> Problem:
    """K students with readout sqrt(M)/K learn from M teachers with readout 1/sqrt(M).

    Outputs of both then have a variance of order one for any K and M. teachers: M (default: as many as students).

    >>> import tutelage as tu
    >>> tu.committee(4, 2).student, tu.committee(4, 2).teacher
    (Network(4, 'erf', readout=0.353553), Network(2, 'erf', readout=0.707107))
    """
    K = checks.as_count("students", students)
    M = K if teachers is None else checks.as_count("teachers", teachers)
    student = Network(K, activation, readout=np.sqrt(M) / K)
    return Problem(student, Network(M, activation, readout=1 / np.sqrt(M)), inputs=inputs, sgd=SGD(lr))
