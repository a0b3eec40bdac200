"""The way to the plateau, and what becomes of a small asymmetry on it.

A start is split into its symmetric part, which equal units share, and the rest x. The symmetric part is solved inside its
own subspace, where it ends on the plateau and never leaves; x obeys dx = J x along that path. Only the projection of x on
the directions that grow on the plateau matters finally. Carried back to time zero (the adjoint of the path) these are d
vectors `left`; carried on from there, `right`: an asymmetry x_0 becomes right(alpha) b, b = left(0) . x_0, however early
units begin to specialize and however slowly the plateau is reached. That slowness is the rule: the differences of equal
units in directions that no teacher has, q_ii - q_ij, relax ten times slower than the asymmetry grows, or not at all.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.fixed_points.fixed_point import FixedPoint, fixed_point
from tutelage.analysis.fixed_points.symmetry import Subspace, symmetric_subspace
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearized import (
    LARGEST_STATE,
    flat_drift,
    jacobian,
    noise_covariances,
    propagate,
    propagate_adjoint,
    propagators,
)
from tutelage.dynamics.order_parameters import Overlaps, flatten, unflatten
from tutelage.problem import Problem, Start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.start import require_start
from tutelage.problem.traits import SMOOTH

PATH_TIMES = 240  # along the path, dense at first
SETTLING_EFOLDS = 10.0  # e-foldings for which the path is followed, beyond those that the asymmetry needs to grow to one
LAUNCH_SIZE = 0.03  # size of the asymmetry up to which it is carried linearly
LARGEST_ASYMMETRY = 0.25  # a larger asymmetry does not grow linearly, and passes no plateau
ASYMMETRY_ROUNDING = 1e-13  # an asymmetry below this is rounding


@dataclass(frozen=True)
class PlateauPath:
    """times: (m,). path: (m, n), the symmetric solution. right, left: (m, n, d), left_i^T right_i = 1 at every moment.

    start: (n,), the start itself. All in the flat coordinates of `dynamics.linearized`, to which `like` gives their shape.
    """

    plateau: FixedPoint
    system: OrderParameters
    like: Overlaps
    start: Float[np.ndarray, " n"]
    times: Float[np.ndarray, " m"]
    path: Float[np.ndarray, "m n"]
    right: Float[np.ndarray, "m n d"]
    left: Float[np.ndarray, "m n d"]

    @property
    def rate(self) -> float:
        """The fastest growth on the plateau."""
        return self.plateau.unstable[0].growth

    def amplitudes(self, vectors: np.ndarray) -> np.ndarray:
        """b (..., d) of starts with flat coordinates (..., n): what they hold of the directions that will grow."""
        return (vectors - self.path[0]) @ self.left[0]

    def noise(self) -> np.ndarray:
        """N Cov(b), (d, d): what the steps of SGD add, each counted as if it had been there from the beginning.

        b = b_0 + N^(-1/2) int left(s) . dW(s), Cov(dW) = D ds.
        """
        states = states_at(self.path, self.like)
        fed = noise_covariances(self.system, jnp.zeros(self.times.size), states, jnp.asarray(self.left))
        return np.trapezoid(np.asarray(fed), self.times, axis=0)

    def sizes(self, b: np.ndarray) -> np.ndarray:
        """The size of the asymmetry right(alpha) b at every moment, (m,)."""
        return np.linalg.norm(self.right @ b, axis=1)

    def require_small(self, b: np.ndarray) -> None:
        """Raise InputError for an asymmetry that is never small."""
        smallest = float(self.sizes(b).min())
        if smallest > LARGEST_ASYMMETRY:
            raise InputError(
                f"the asymmetry stays above {smallest:.2g}; it must be below {LARGEST_ASYMMETRY} at some time to pass a plateau. Solve "
                "or simulate from this start instead: it escapes at once."
            )

    def launch(self, b: np.ndarray) -> tuple[float, np.ndarray]:
        """When the asymmetry right(alpha) b, b (d,), reaches the size LAUNCH, and the state (n,) at which it does.

        An asymmetry that is larger from the beginning is launched when it is smallest. One that is smaller at the end of the
        path goes on growing at the plateau's rate.
        """
        deviations, size = self.right @ b, self.sizes(b)
        level = max(LAUNCH_SIZE, float(size.min()))
        i = int(np.flatnonzero(size <= level)[-1])
        if i == self.times.size - 1:
            return self.times[i] + np.log(level / size[i]) / self.rate, self.path[i] + deviations[i] * level / size[i]
        part = np.log(level / size[i]) / np.log(size[i + 1] / size[i])
        state, deviation = ((1 - part) * x[i] + part * x[i + 1] for x in (self.path, deviations / size[:, None]))
        time = (1 - part) * self.times[i] + part * self.times[i + 1]
        return float(time), state + deviation * level / np.linalg.norm(deviation)


def plateau_path(
    problem: Problem, start: Start, *, gradient_flow: bool = False, smallest: float | None = None
) -> PlateauPath:
    """The way from a start to its plateau, long enough for asymmetries as small as `smallest` (default: its own) to grow."""
    problem = _as_started(with_constant_rates(problem, "escape_time", (*SMOOTH, "all levels")), require_start(start))
    state, t = initial_overlaps(problem, start)
    vector = np.asarray(flatten(state))
    if vector.size > LARGEST_STATE:
        raise InputError(
            f"the state has {vector.size} entries; modes are followed up to {LARGEST_STATE}. Use fewer levels or units."
        )
    plateau = _unstable_plateau(problem, gradient_flow)
    system = OrderParameters(problem, t, gradient_flow)
    subspace = symmetric_subspace(problem, t, plateau.state, copies=False)
    asymmetry = float(np.linalg.norm(vector - subspace.inside(subspace.coordinates(vector))))
    if smallest is None and asymmetry <= ASYMMETRY_ROUNDING * max(1.0, float(np.max(np.abs(vector)))):
        raise InputError(
            "the units of this start are exactly alike, so they never leave the plateau. Break the symmetry: "
            "random_start(problem, dim=N), or unequal rows of R."
        )
    end = (SETTLING_EFOLDS + np.log(1 / min(asymmetry if smallest is None else smallest, 1.0))) / plateau.unstable[0].growth
    times = end * np.linspace(0.0, 1.0, PATH_TIMES) ** 3
    path = _symmetric_path(system, state, subspace, times)
    steps = propagators(times, _jacobians(system, states_at(path, state)))
    back = propagate_adjoint(steps, np.linalg.qr(np.stack([mode.left for mode in plateau.unstable], axis=1))[0])
    first, scale = np.linalg.qr(back[0])
    return PlateauPath(plateau, system, state, vector, times, path, propagate(steps, first), back @ np.linalg.inv(scale))


def _as_started(problem: Problem, start: Start) -> Problem:
    """The problem with the start's teachers, and its readouts and biases where these do not learn."""
    changes: dict[str, Any] = {}
    t, usual = (s.blocks(problem)[2] for s in (start, Start(0 * start.R, start.Q)))
    if problem.teacher.gram is None and not np.allclose(t, usual, rtol=0, atol=1e-12):
        changes["teacher.gram"] = t
    for name, trained in (("readout", problem.student.train_readout), ("bias", problem.student.train_bias)):
        value = getattr(start, name)
        if value is not None and not trained:
            changes[f"student.{name}"] = value
    return problem.replace(**changes) if changes else problem


def _unstable_plateau(problem: Problem, gradient_flow: bool) -> FixedPoint:
    """The plateau, if there is one and it is left along real modes."""
    try:
        plateau = fixed_point(problem, "plateau", gradient_flow=gradient_flow)
    except InputError as none:
        why = str(none).split(";")[0]
        raise InputError(
            f"there is no plateau to escape from ({why}). Use two or more equal units and a learning rate that converges."
        ) from none
    if plateau.stable:
        raise InputError(
            f"the symmetric state (e_g = {plateau.error:.4g}) is stable here, so no start near it escapes. Change the "
            "learning rate, the noise or the number of units."
        )
    if any(isinstance(mode.rate, complex) for mode in plateau.unstable):
        raise InputError("the plateau is left in a spiral (complex rates); only escapes along real modes are predicted.")
    return plateau


def _symmetric_path(system: OrderParameters, state: Overlaps, subspace: Subspace, times: np.ndarray) -> np.ndarray:
    """The solution from the symmetric part of a state, at these times, in flat coordinates (m, n)."""
    from scipy.integrate import solve_ivp

    average, y = subspace.average, subspace.coordinates(flatten(state))

    def drift(_: float, y: np.ndarray) -> np.ndarray:
        return average @ np.asarray(drifts_at(system, state, subspace.inside(y)[None]))[0]

    out = solve_ivp(drift, (0.0, times[-1]), y, method="LSODA", t_eval=times, rtol=1e-8, atol=1e-11)
    if out.status != 0 or not np.all(np.isfinite(out.y)):
        raise InputError(
            f"the symmetric part of this start diverges at learning rate {checks.shown(system.problem.sgd.lr)}; it reaches "
            "no plateau. Lower the rate."
        )
    return np.array([subspace.inside(y) for y in out.y.T])


@eqx.filter_jit
def drifts_at(system: OrderParameters, like: Overlaps, vectors: Float[np.ndarray, "B n"]) -> Float[Array, "B n"]:
    """The drift at flat vectors (B, n)."""
    return jax.vmap(lambda x: flat_drift(system, like)(jnp.zeros(()), x))(vectors)


def states_at(vectors: np.ndarray, like: Overlaps) -> Overlaps:
    """The states with flat coordinates (m, n), as one batched state."""
    return jax.tree.map(np.asarray, jax.vmap(lambda x: unflatten(x, like))(jnp.asarray(vectors)))


def _jacobians(system: OrderParameters, states: Overlaps) -> np.ndarray:
    """J at each state; one by one, by the program that also served the fixed point."""
    count = len(states.r)
    return np.array([np.asarray(jacobian(system, 0.0, jax.tree.map(lambda x, i=i: x[i], states))) for i in range(count)])
