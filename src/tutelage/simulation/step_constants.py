"""The step as numbers: the constants of a problem's SGD for all loops, and its rates at every step.

A schedule is evaluated at alpha = step / N, exactly, for the steps about to be taken (a table per stretch of steps, so that
a long run needs no long table).
"""

from functools import lru_cache
from itertools import zip_longest
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from tutelage import labels, losses, rules
from tutelage._types import Array
from tutelage.errors import InputError
from tutelage.problem import Mixture, Problem, SlowMomentum, Tasks
from tutelage.problem.activation import NAMED, Activation
from tutelage.problem.sample import unseen_root
from tutelage.simulation import numba_kernels as codes
from tutelage.simulation.coordinates import drift_rate
from tutelage.simulation.numba_kernels import ParameterState, StepConstants, TeacherTable

ACTIVATIONS = {name: getattr(codes, name.upper()) for name in ("erf", "relu", "sign", "tanh", "gelu", "sigmoid", "softplus")}
LABELS = {labels.Real: codes.REAL_LABEL, labels.Sign: codes.SIGN_LABEL, labels.Logistic: codes.LOGISTIC_LABEL}
LOSSES = {
    getattr(losses, name): getattr(codes, name.upper()) for name in ("Squared", "Absolute", "Huber", "Logistic", "Hinge")
}
UPDATES = {getattr(rules, name): getattr(codes, name.upper()) for name in ("Gradient", "Hebbian", "Perceptron", "AdaTron")}


class RateTable:
    """force, push, eta_v, eta_b, lr and time of every step; of several tasks also their probabilities and their heads; last
    kappa / N and the number of the label (standard deviation of its noise, quantile of a flip, slope).

    The probabilities are summed up over the first tasks; a head that learns has 1, a frozen one 0.

    A momentum m takes `force` times the gradient, a weight `push` times m; lr and time are for rules that look at them.
    Plain SGD and a fixed momentum beta (m <- beta m + gradient, w <- w + eta m): force 1, push eta.
    Slow momentum (m <- (1 - gamma/N) m + k gradient, w <- w + m / N): force k (default gamma eta), push 1/N.
    """

    def __init__(self, problem: Problem, dim: int):
        sgd, lr, self.dim, self._label = problem.sgd, problem.sgd.lr, dim, problem.labels
        readout, bias = (lr if own is None else own for own in (sgd.readout_lr, sgd.bias_lr))
        force, push, factor = 1.0, lr, 1.0
        if isinstance(sgd.momentum, SlowMomentum):
            slow, push = sgd.momentum, 1.0 / dim
            force, factor = (lr, float(np.asarray(slow.gamma))) if slow.k is None else (slow.k, 1.0)
        columns = {0: force, 1: push, 2: readout, 3: bias, 4: lr, -2: sgd.weight_decay, -1: _label_number(problem)[0]}
        number = lambda c: _vectorized(c) if callable(c) else float(np.asarray(c))  # noqa: E731
        self._columns: dict[int, Any] = {i: number(c) for i, c in columns.items()}
        tasks = isinstance(problem.teacher, Tasks)
        self._tasks = _vectorized(eqx.Partial(_task_columns, problem.teacher)) if tasks else None
        self._factor = np.array([factor, *[1.0] * (5 + 2 * len(problem.tasks) * tasks), 1.0 / dim, 1.0])
        self.table = lru_cache(maxsize=16)(self._table)  # all runs ask for the same stretches

    def _table(self, first: int, last: int) -> Float[np.ndarray, "steps columns"]:
        """For steps first .. last - 1."""
        times = np.arange(first, last) / self.dim
        table = np.repeat(times[:, None], len(self._factor), axis=1)
        for i, column in self._columns.items():
            values: Any = column(times) if callable(column) else column
            table[:, i] = values
        if self._tasks is not None:
            table[:, 6:-2] = self._tasks(times)
        if not np.all(np.isfinite(table)) or table.min(initial=0.0) < 0:
            step = first + int(np.argmax(~(np.isfinite(table) & (table >= 0)).all(axis=1)))
            raise InputError(
                f"a learning rate is negative or not finite at alpha = {step / self.dim:g}; a schedule must be >= 0 there."
            )
        if isinstance(self._label, labels.Sign):
            table[:, -1] = -ndtri(table[:, -1])
        return table * self._factor


def _task_columns(tasks: Tasks, t: Any) -> Any:
    """Sums of the probabilities of the first tasks, and whether the head of each task learns."""
    learns = jnp.ones(tasks.count) if tasks.freeze_heads is None else jnp.ravel(tasks.head_rates(t))
    return jnp.concatenate([jnp.cumsum(tasks.probabilities(t)), jnp.broadcast_to(learns, (tasks.count,))])


def _vectorized(schedule: Any) -> Any:
    """The schedule on an array of times, padded to a power of two so that few shapes are compiled."""

    def on(times: np.ndarray) -> np.ndarray:
        size = 1 << max(0, int(times.size - 1).bit_length())
        return np.asarray(_scheduled(schedule, np.pad(times, (0, size - times.size), mode="edge")))[: times.size]

    return on


@eqx.filter_jit
def _scheduled(schedule: Any, times: np.ndarray) -> Array:
    return jax.vmap(lambda t: jnp.asarray(schedule(t), float))(jnp.asarray(times))


def has_kernels(problem: Problem) -> bool:
    """Do the numba loops have this label, loss and rule, and all activations (every polynomial, most named ones)?"""
    known = codes.UNKNOWN not in (*_codes_of(problem).values(), *_teacher_codes(problem))
    return problem.student.outputs == problem.references.outputs == 1 and known and not isinstance(problem.inputs, Mixture)


def _codes_of(problem: Problem) -> dict[str, int]:
    """What a sample does, as codes of the kernels. The loss matters to a rule that follows its gradient alone."""
    return {
        "student": _activation(problem.student.activation),
        "label": codes.UNKNOWN if problem.has_noise_law else LABELS.get(type(problem.labels), codes.UNKNOWN),
        "loss": LOSSES.get(type(problem.loss), codes.UNKNOWN) if problem.rule.uses_loss else codes.SQUARED,
        "update": UPDATES.get(type(problem.rule), codes.UNKNOWN),
    }


def _teacher_codes(problem: Problem) -> list[int]:
    """The code of each task's teacher."""
    return [_activation(one.references.activation) for one in problem.tasks]


def _activation(activation: Activation) -> int:
    if activation.polynomial is not None:
        return codes.POLYNOMIAL
    return ACTIVATIONS.get(activation.name, codes.UNKNOWN) if NAMED.get(activation.name) == activation else codes.UNKNOWN


def _label_number(problem: Problem) -> tuple[Any, bool]:
    """What the label of the kernels needs, a number or a schedule, and whether it takes a random number."""
    kind = problem.labels
    if isinstance(kind, labels.Logistic):
        return kind.slope, True
    number = kind.flip if isinstance(kind, labels.Sign) else 0.0 if problem.has_noise_law else problem.noise
    return number, callable(number) or float(np.asarray(number)) > 0


def teacher_table(problem: Problem) -> TeacherTable:
    """The teachers as the numba loops see them."""
    polynomials = [one.references.activation.polynomial or (0.0,) for one in problem.tasks]
    return TeacherTable(
        activation=np.array(_teacher_codes(problem)),
        coefficients=np.array(list(zip_longest(*polynomials, fillvalue=0.0)), dtype=float).T.copy(),
        readout=np.ravel(np.array(problem.references.readout, dtype=float)),
        edges=np.cumsum([0, *(one.references.hidden for one in problem.tasks)]),
        separate=isinstance(problem.teacher, Tasks) and problem.teacher.heads == "separate",
    )


def step_constants(problem: Problem, dim: int) -> StepConstants:
    """The constants of the step."""
    sgd, teacher = problem.sgd, problem.references
    slow = isinstance(sgd.momentum, SlowMomentum)
    beta = 0.0 if slow else float(np.asarray(sgd.momentum))
    keep = 1.0 - float(np.asarray(sgd.momentum.gamma)) / dim if slow else beta
    return StepConstants(
        **_codes_of(problem),
        student_coefficients=np.array(problem.student.activation.polynomial or [0.0]),
        drift=drift_rate(problem) / dim,
        teacher_bias=np.zeros(teacher.hidden) if teacher.bias is None else np.array(teacher.bias, dtype=float),
        unseen=np.zeros((0, 0)) if problem.unseen is None else np.ascontiguousarray(unseen_root(problem)),
        draws=_label_number(problem)[1],
        loss_number=float(np.asarray(problem.loss.delta)) if isinstance(problem.loss, losses.Huber) else 0.0,
        update_number=float(np.asarray(problem.rule.margin)) if isinstance(problem.rule, rules.Perceptron) else 0.0,
        dim=dim,
        batch=problem.samples_per_step,
        momentum=slow or beta > 0,
        keep=keep,
        beta=beta,
        train_readout=problem.student.train_readout,
        train_bias=problem.student.train_bias,
        spherical=sgd.spherical,
    )


def with_heads(params: ParameterState) -> ParameterState:
    """Parameters as the numba loops see them: the readout with an axis of heads, the same memory."""
    readouts = {name: x.reshape(-1, x.shape[-1]) for name, x in params._asdict().items() if name.startswith("readout")}
    return params._replace(**readouts)
