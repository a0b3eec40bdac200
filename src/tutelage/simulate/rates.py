"""The step as numbers: the constants of a problem's SGD, and its rates at every step.

A schedule is evaluated at alpha = step / N, exactly, for the steps about to be taken (a table per stretch of steps, so that
a long run needs no long table).
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError
from tutelage.problem import Problem, SlowMomentum
from tutelage.problem.activation import NAMED, Activation
from tutelage.simulate.layout import Rule


class Rates:
    """force, push, eta_v, eta_b of every step: a momentum m takes `force` times the gradient, a weight `push` times m.

    Plain SGD and a fixed momentum beta (m <- beta m + gradient, w <- w + eta m): force 1, push eta.
    Slow momentum (m <- (1 - gamma/N) m + k gradient, w <- w + m / N): force k (default gamma eta), push 1/N.
    """

    def __init__(self, problem: Problem, dim: int):
        sgd, self.dim = problem.sgd, dim
        lr = sgd.lr
        readout = lr if sgd.readout_lr is None else sgd.readout_lr
        bias = lr if sgd.bias_lr is None else sgd.bias_lr
        force, push, factor = 1.0, lr, 1.0
        if isinstance(sgd.momentum, SlowMomentum):
            slow, push = sgd.momentum, 1.0 / dim
            force, factor = (lr, float(np.asarray(slow.gamma))) if slow.k is None else (slow.k, 1.0)
        columns = (force, push, readout, bias)
        self._factor = np.array([factor, 1.0, 1.0, 1.0])
        self.table = lru_cache(maxsize=16)(self._table)  # all runs ask for the same stretches
        self._columns: list[Any] = [_vectorised(c) if callable(c) else float(np.asarray(c)) for c in columns]

    def _table(self, first: int, last: int) -> np.ndarray:
        """(last - first, 4), for steps first .. last - 1."""
        table, times = np.empty((last - first, 4)), np.arange(first, last) / self.dim
        for i, column in enumerate(self._columns):
            values: Any = column(times) if callable(column) else column
            table[:, i] = values
        if not np.all(np.isfinite(table)) or table.min(initial=0.0) < 0:
            step = first + int(np.argmax(~(np.isfinite(table) & (table >= 0)).all(axis=1)))
            raise InputError(
                f"a learning rate is negative or not finite at alpha = {step / self.dim:g}; a schedule must be >= 0 there."
            )
        return table * self._factor


def _vectorised(schedule: Any) -> Any:
    """The schedule on an array of times, padded to a power of two so that few shapes are compiled."""
    compiled = jax.jit(jax.vmap(lambda t: jnp.asarray(schedule(t), float)))

    def on(times: np.ndarray) -> np.ndarray:
        size = 1 << max(0, int(times.size - 1).bit_length())
        return np.asarray(compiled(np.pad(times, (0, size - times.size), mode="edge")))[: times.size]

    return on


def compiles(problem: Problem) -> bool:
    """Do the compiled loops have this rule, and both activations (every polynomial, most named ones)?"""
    return problem.classic and all(_is_known(network.activation) for network in (problem.student, problem.teacher))


def _is_known(activation: Activation) -> bool:
    if activation.polynomial is not None:
        return True
    if NAMED.get(activation.name) != activation:
        return False
    from tutelage.simulate.compiled import CODES

    return activation.name in CODES


def rule_of(problem: Problem, dim: int) -> Rule:
    """The constants of the step for the compiled loops; an activation of the user's own gets the code -1."""
    from tutelage.simulate.compiled import CODES, POLYNOMIAL

    sgd, teacher = problem.sgd, problem.teacher
    slow = isinstance(sgd.momentum, SlowMomentum)
    beta = 0.0 if slow else float(np.asarray(sgd.momentum))
    keep = 1.0 - float(np.asarray(sgd.momentum.gamma)) / dim if slow else beta
    code, coefficients = {}, {}
    for name, network in (("student", problem.student), ("teacher", teacher)):
        polynomial = network.activation.polynomial
        known = _is_known(network.activation)
        code[name] = POLYNOMIAL if polynomial is not None else CODES[network.activation.name] if known else -1
        coefficients[name] = np.array(polynomial if polynomial is not None else [0.0])
    return Rule(
        student=code["student"],
        student_coefficients=coefficients["student"],
        teacher=code["teacher"],
        teacher_coefficients=coefficients["teacher"],
        teacher_readout=np.ravel(np.array(teacher.readout, dtype=float)),
        teacher_bias=np.zeros(teacher.hidden) if teacher.bias is None else np.array(teacher.bias, dtype=float),
        noise=0.0 if callable(problem.noise) else float(np.asarray(problem.noise)),
        dim=dim,
        batch=sgd.batch,
        decay=float(np.asarray(sgd.weight_decay)) / dim,
        momentum=slow or beta > 0,
        keep=keep,
        beta=beta,
        train_readout=problem.student.train_readout,
        train_bias=problem.student.train_bias,
        spherical=sgd.spherical,
    )
