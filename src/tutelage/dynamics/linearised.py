"""The dynamics near a state: flat coordinates, Jacobian, and the smallest rate at which perfect learning is lost.

Flat coordinates hold each independent number once (q is symmetric), so eigenvalues and vectors mean what they should.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.dynamics.error import are_twins
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem, SlowMomentum


def flatten(state: Overlaps) -> Array:
    """(r, upper triangle of q, readout, bias) of a state, or of a drift, in one vector."""
    rows, columns = np.triu_indices(state.q.shape[-1])
    parts = [state.r, state.q[:, rows, columns], state.readout, state.bias]
    return jnp.concatenate([jnp.ravel(part) for part in parts if part is not None])


def unflatten(vector: Array, like: Overlaps) -> Overlaps:
    """The state with these coordinates."""
    L, K, M = like.r.shape
    rows, columns = np.triu_indices(K)
    sizes = np.cumsum([L * K * M, L * len(rows), K])
    r, upper, readout, bias = jnp.split(vector, sizes)
    upper = upper.reshape(L, len(rows))
    q = jnp.zeros((L, K, K)).at[:, rows, columns].set(upper).at[:, columns, rows].set(upper)
    return Overlaps(r.reshape(L, K, M), q, readout, None if like.bias is None else bias, None)


def flat_drift(system: OrderParameters, like: Overlaps) -> Callable[[Array, Array], Array]:
    """d vector / d alpha as a function of time and vector."""
    return lambda t, vector: flatten(system.drift(t, unflatten(vector, like)))


@eqx.filter_jit
def jacobian(system: OrderParameters, t: Any, state: Overlaps) -> Array:
    """The derivative of the drift with respect to the flat coordinates."""
    return jax.jacfwd(lambda x: flat_drift(system, state)(jnp.asarray(t, float), x))(flatten(state))


def critical_rate(problem: Problem, t: Array) -> float | None:
    """The constant learning rate above which zero error is unstable; None where there is no isolated perfect solution.

    At the perfect solution the Jacobian is eta J1 + (eta^2/batch) J2: one decomposition per trial rate, no integration.
    """
    from scipy.optimize import brentq

    student, teacher, sgd = problem.student, problem.teacher, problem.sgd
    if isinstance(sgd.momentum, SlowMomentum):
        return None
    plain = not (student.train_readout or sgd.spherical or sgd.trainable is not None)
    same = student.hidden == teacher.hidden and np.array_equal(np.asarray(student.readout), np.asarray(teacher.readout))
    if not (plain and same and are_twins(problem) and student.activation.smooth and float(sgd.weight_decay) == 0.0):
        return None
    unit = problem.replace(lr=1.0, batch=1, momentum=0.0, noise=0.0)
    perfect = Overlaps(t, t, jnp.asarray(student.readout), None, None)
    size = t.size + t.shape[0] * student.hidden * (student.hidden + 1) // 2
    slow = np.asarray(jacobian(OrderParameters(unit, t, gradient_flow=True), 0.0, perfect))[:size, :size]
    fast = np.asarray(jacobian(OrderParameters(unit, t), 0.0, perfect))[:size, :size] - slow
    share = (1.0 - float(sgd.momentum)) * sgd.batch

    def growth(eta: float) -> float:
        return float(np.max(np.linalg.eigvals(slow + eta * fast).real))

    trials = np.geomspace(1e-3, 1e3, 61)
    unstable = next((eta for eta in trials if growth(eta) > 0), None)
    if unstable is None or unstable == trials[0]:
        return None
    root: Any = brentq(growth, unstable / (trials[1] / trials[0]), unstable, xtol=1e-12)
    return share * root
