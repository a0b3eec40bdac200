"""Which solver a problem needs, estimated before anything is computed.

An explicit method must resolve the fastest level, whether or not anything still happens there: its steps are about
EXPLICIT / (eta lam_max |v|^2) long. The stiff one takes a few hundred steps whatever the spectrum, but each also needs the
derivatives of A, B, G with respect to every field.
"""

import jax
import numpy as np

from tutelage import checks
from tutelage.dynamics.resolvent import unsuited
from tutelage.problem import Problem, scan
from tutelage.problem.schedules import rate_at

EXPLICIT = 8.0  # measured: erf, K = M = 2, 1024 levels, beta = 1
EVALUATIONS = 12  # of A, B, G in an explicit step
STIFF = 400  # steps of the stiff method
STIFF_EVALUATIONS = 20  # in each of them, besides one for each derivative
OVERHEAD = 150  # levels: an evaluation costs as much as so many of them before the first
WORTH = 6e7  # evaluations, times levels, that must be saved: the stiff method compiles for longer, by about so much
MOST_FIELDS = 200  # the dense system grows with the square of their number


def choose(problem: object, times: np.ndarray) -> str:
    """The word "stiff" where the dynamics has the form for it and saves more than it costs to compile, else "explicit".

    Returns "explicit" if the cost cannot be estimated (traced values, custom Equations).
    """
    if not isinstance(problem, Problem) or checks.is_traced(problem) or unsuited(problem):
        return "explicit"
    K, M, student = problem.student.hidden, problem.teacher.hidden, problem.student
    fields = K * M + K * (K + 1) // 2 + K * student.train_readout + K * student.train_bias
    explicit = EVALUATIONS * natural_time(problem, float(times[-1])) / EXPLICIT
    stiff = STIFF * (STIFF_EVALUATIONS + fields)
    price = (problem.inputs.levels + OVERHEAD) * K * (K + M) / 8  # of an evaluation; K = M = 2 is one
    return "stiff" if fields <= MOST_FIELDS and (explicit - stiff) * price > WORTH else "explicit"


def natural_time(problem: Problem, end: float) -> float:
    """lam_max |v|^2 times the integral of eta: how many time constants of the fastest level pass.

    0 if it cannot be known.
    """
    sgd = problem.sgd
    fastest = np.max(problem.inputs.eigenvalues) * np.sum(np.square(problem.student.readout))
    if callable(sgd.lr):
        times = scan.grid(end)
        rates = jax.vmap(lambda t: rate_at(sgd.lr, t))(times)
        if checks.is_traced(rates):  # the function holds traced numbers
            return 0.0
        clock = np.trapezoid(np.asarray(rates), np.asarray(times))
    else:
        clock = end * float(sgd.lr)
    return float(clock / (1.0 - float(sgd.momentum)) * fastest)
