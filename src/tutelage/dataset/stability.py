"""Rates above which training on a data set diverges, where a formula is known.

For one linear unit with squared loss and isotropic inputs, the matrix X X^T / N of n =
ratio N samples has eigenvalues s between (sqrt(ratio) - 1)^2 and (sqrt(ratio) + 1)^2
(Marchenko and Pastur 1967). Gradient descent is stable below

    eta (kappa + s_max / ratio) = 2

and SGD, whose training loss obeys a Volterra equation with the kernel
(eta / b)^2 / ratio^2 <s^2 exp(-2 eta (kappa + s / ratio) t)>, without decay below eta = 2 b.
"""

import numpy as np

from tutelage.dataset.grid import is_descent
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.training import losses
from tutelage.training.schedules import rate_values

TIMES = 257  # at which a schedule is looked at


def largest_stable_rate(problem: Problem) -> float | None:
    """Return the rate above which training diverges; None where no formula is known."""
    student = problem.student
    is_linear = student.activation.polynomial in ((0.0, 1.0), (0, 1))
    is_simple = (
        is_linear
        and student.hidden == 1
        and type(problem.loss) is losses.Squared
        and problem.inputs.levels == 1
        and not student.train_readout
        and not callable(problem.optimizer.weight_decay)
    )
    if not is_simple or problem.data is None:
        return None
    gain = float(np.asarray(student.readout).ravel()[0]) ** 2
    gain *= float(np.asarray(problem.inputs.eigenvalues).ravel()[0])
    decay = float(np.asarray(problem.optimizer.weight_decay))
    ratio = float(np.asarray(problem.data.ratio))
    if is_descent(problem):
        if float(np.asarray(getattr(problem.optimizer, "share", 1.0))) < 1:
            return None
        largest = (np.sqrt(ratio) + 1.0) ** 2
        return 2.0 / (decay + gain * largest / ratio)
    if decay > 0:
        return None
    return 2.0 * problem.optimizer.batch / gain


def require_stable(problem: Problem) -> None:
    """Refuse a constant rate above the known limit of stability."""
    limit = largest_stable_rate(problem)
    if limit is None or callable(problem.optimizer.lr):
        return
    rate = float(rate_values(problem.optimizer.lr, np.zeros(1))[0])
    if rate < limit:
        return
    raise InputError(
        f"lr is {rate:g}, but training one linear unit on {problem.data!r} diverges from "
        f"lr = {limit:.6g} on; lower lr."
    )
