"""Gradient flow of K = M alike units and orthonormal teachers: four numbers per level, whatever K is.

If all students stand to their own teacher, and to all others, alike, then in each level W = U W* + Z with
    U = u_P P + u_J J,    Z Z^T = z_P^2 P + z_J^2 J,    J = 11^T / K,  P = 1 - J,    Z orthogonal to the teachers,
and so are A and B. All of them commute: dW = eta lam (A W + B W*) is, in each level and for both letters x = P, J,
    u_x' = eta lam (a_x u_x + b_x),      z_x' = eta lam a_x z_x,
exactly the equations of `solve(..., gradient_flow=True)` for such starts: plateau, escape and last stage. a and b need row
one of A and B only, where K - 1 equal terms are one: two units with readouts v and (K-1) v have the same row sums.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.structured.weight_flow import as_times, flow_trajectory, integrate
from tutelage.analysis.structured.response import effective_rate, first_layer_problem, numbers, drift_matrices, without_inputs
from tutelage.dynamics import generalization_error
from tutelage.problem import Isotropic, Network, Problem, Start
from tutelage.problem.arguments import require_start
from tutelage.trajectory import Trajectory, eager

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALIKE = 1e-9  # how far entries may differ that ought to be equal


@dataclass(frozen=True)
class SymmetricFlow:
    """The gradient flow of alike units: in each level W = U W* + Z, with Z orthogonal to the teachers.

    trajectory: R, Q and e_g against time, as from `solve`. inside, outside (time, 2, L): the eigenvalues u of U and z of
    Z, first for deviations that sum to zero over units, then for the common one.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.committee(3, inputs=tu.PowerLaw(beta=1.0, levels=4), lr=0.5)
    >>> start = tu.Start(R=0.1 + 0.1 * np.eye(3), Q=0.1 + 0.2 * np.eye(3))
    >>> flow = tu.analysis.symmetric_flow(problem, start, times=[0.0, 1.0, 10.0, 100.0])
    >>> flow.inside.shape, flow.slopes.shape
    ((4, 2, 4), (4,))
    """

    trajectory: Trajectory
    inside: np.ndarray
    outside: np.ndarray

    @property
    def slopes(self) -> np.ndarray:
        """d ln e_g / d ln alpha at each time after the first, NaN at time zero, where e_g is zero, and of a single time."""
        t, error = np.asarray(self.trajectory.times), np.asarray(self.trajectory.error)
        slopes, good = np.full(t.size, np.nan), (t > 0) & (error > 0)
        if good.sum() > 1:
            slopes[good] = np.gradient(np.log(error[good]), np.log(t[good]))
        return slopes

    def __str__(self) -> str:
        error, K, L = self.trajectory.error, self.trajectory.R.shape[1], self.inside.shape[2]
        return (
            f"gradient flow of {K} alike units on {L} level{'s' * (L > 1)} to alpha = {self.trajectory.times[-1]:g}: e_g "
            f"from {error[0]:.4g} to {error[-1]:.4g}, last slope {self.slopes[-1]:.3g}, {int(self.trajectory.steps)} steps"
        )

    def plot(self, *, title: str | None = None) -> "Figure":
        """The learning curve, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot import plot_trajectory

        return plot_trajectory(self.trajectory, title=title)


def symmetric_flow(
    problem: Problem,
    start: Start,
    times: Any = 100.0,
    *,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 100_000,
) -> SymmetricFlow:
    """The gradient flow (terms of order eta) from a start in which all units are alike; cost grows with L, not with K.

    start: the same in all levels, or per level: R with one number on and one off the diagonal, Q likewise, and T = 1 in each
    level. K = M, readouts equal within each network. times: increasing times, or the last one.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.committee(3, inputs=tu.PowerLaw(beta=1.0, levels=4), lr=0.5)
    >>> start = tu.Start(R=0.1 + 0.1 * np.eye(3), Q=0.1 + 0.2 * np.eye(3))
    >>> flow = tu.analysis.symmetric_flow(problem, start, times=[0.0, 1.0, 10.0, 100.0])
    >>> bool(flow.trajectory.error[-1] < flow.trajectory.error[0])
    True
    """
    problem = first_layer_problem(problem, "symmetric_flow")
    K, M = problem.student.hidden, problem.teacher.hidden
    v, v_teacher = numbers(problem.student.readout, problem.teacher.readout)
    if K != M or K < 2 or not np.allclose(v, v[0]) or not np.allclose(v_teacher, v_teacher[0]):
        raise InputError(
            f"the problem has {K} students and {M} teachers; alike units need K = M >= 2 and equal readouts in each network."
        )
    times, state = as_times(times), _state(problem, require_start(start))
    two = _two_units(problem, K, float(v[0]), float(v_teacher[0]))
    spectrum = numbers(problem.inputs.eigenvalues, problem.inputs.weights)
    data = jax.tree.map(jnp.asarray, (state, *spectrum, times, effective_rate(problem), float(K)))
    saved, steps, done = eager(
        _flow(two, data, ("stabilized", float(rtol), float(atol), checks.as_count("max_steps", max_steps)))
    )
    if not done:
        raise InputError(f"the flow ran out of {max_steps} steps; raise max_steps or rtol.")
    inside, outside = saved[:, :2], saved[:, 2:]
    R, Q = (_matrix(x @ spectrum[1], K) for x in (inside, inside**2 + outside**2))
    T = np.sum(spectrum[1]) * np.eye(K)
    error = np.asarray(generalization_error(without_inputs(problem), R, Q, T))
    observed = (R, Q, error, T)
    return SymmetricFlow(flow_trajectory(problem, start, times, observed, steps, "stabilized", rtol), inside, outside)


def _state(problem: Problem, start: Start) -> np.ndarray:
    """(u_P, u_J, z_P, z_J) of each level, (4, L)."""
    K, L, mean = problem.student.hidden, problem.inputs.levels, float(np.sum(problem.inputs.weights))
    T = problem.teacher.gram if start.T is None else start.T
    r, q, t = (_by_level(x, mean) for x in (start.R, start.Q, mean * np.eye(K) if T is None else T))
    if r.shape[1:] != (K, K) or len(r) not in (1, L):
        raise InputError(f"the start has R of shape {np.shape(start.R)}; the problem has {K} units on {L} levels.")
    u, squared = _eigenvalues(r), _eigenvalues(q)
    if u is None or squared is None or np.max(np.abs(t - np.eye(K))) > ALIKE:
        raise InputError(
            "the start has units that are not alike, or teachers that are not orthonormal in each level; give R and Q with "
            "one number on and one off the diagonal and T = 1, or use weight_flow or solve."
        )
    outside = squared - u**2
    if np.min(outside) < -ALIKE:
        raise InputError("Q is smaller than R R^T at the start; squared lengths beside the teachers must not be negative.")
    return np.concatenate([u, np.sqrt(np.maximum(outside, 0.0))]) * np.ones(L)


def _by_level(overlap: Any, mean: float) -> np.ndarray:
    """(L, K, K), or (1, K, K) where all levels are the same: fields' overlaps are then `mean` times those of a level."""
    overlap = np.asarray(overlap)
    return overlap if overlap.ndim == 3 else overlap[None] / mean


def _eigenvalues(x: np.ndarray) -> np.ndarray | None:
    """(P, J) eigenvalues of own 1 + other (11^T - 1), by level, (2, L), or None if x is not of this form."""
    K = x.shape[-1]
    own, other = x[:, 0, 0], x[:, 0, 1]
    alike = own[:, None, None] * np.eye(K) + other[:, None, None] * (1 - np.eye(K))
    return np.stack([own - other, own + (K - 1) * other]) if np.max(np.abs(x - alike)) <= ALIKE else None


def _matrix(pairs: np.ndarray, K: int) -> np.ndarray:
    """Matrices (..., K, K) with these eigenvalues (..., 2)."""
    P, J = pairs[..., 0, None, None], pairs[..., 1, None, None]
    return P * np.eye(K) + (J - P) / K


def _two_units(problem: Problem, K: int, v: float, v_teacher: float) -> Problem:
    """Unit one, and unit two in the name of all others: the same Delta, the same row sums of A and B."""
    many = np.array([1.0, K - 1.0])
    return Problem(
        Network(2, problem.student.activation, readout=v * many),
        Network(2, problem.teacher.activation, readout=v_teacher * many),
        inputs=Isotropic(),
    )


@eqx.filter_jit
def _flow(two: Problem, data: Any, options: tuple) -> Any:
    """Saved states (time, 4, L), steps taken, and whether it reached the end."""
    state, lam, weights, times, eta, K = data
    mean = jnp.sum(weights)

    def two_of(pair: Array) -> Array:
        """The entries of two units: (P, J) eigenvalues -> own and other."""
        other = (pair[1] - pair[0]) / K
        return (pair[0] + other) * jnp.eye(2) + other * (1 - jnp.eye(2))

    def drift(t: Any, y: Array, _: Any) -> Array:
        u, z = y[:2], y[2:]
        p = drift_matrices(two, two_of(u @ weights), two_of((u**2 + z**2) @ weights), mean * jnp.eye(2))
        a, b = (jnp.stack([x[0, 0] - x[0, 1] / (K - 1), x[0, 0] + x[0, 1]])[:, None] for x in (p.A, p.B))
        return eta * lam * jnp.concatenate([a * u + b, a * z])

    return integrate(drift, state, times, options)
