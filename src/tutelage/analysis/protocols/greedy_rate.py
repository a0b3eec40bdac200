"""`greedy`: the learning rate that lowers the error fastest at every moment.

The drift of the overlaps is a quadratic in the rate, and so is the change of the error
along it. So the greedy rate is known:
    d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u),    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own. A readout or bias that shares lr adds its
|gradient|^2 to a and nothing to b. Only the next moment counts: on a plateau a -> 0,
the rate follows and the escape is delayed. `optimize` and D. Saad and M. Rattray, Phys.
Rev. Lett. 79, 2578 (1997), optimize over the whole time instead.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.analysis.noise import states_of
from tutelage.analysis.protocols.arguments import checked_bounds
from tutelage.errors import InputError
from tutelage.problem import Interpolated, Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLOSED
from tutelage.solvers.program import Options, step_tolerances
from tutelage.stream import OrderParameters, Overlaps, initial_overlaps
from tutelage.stream.order_parameters import as_arrays
from tutelage.stream.program import integrate_equations

GREEDY_TIMES = 128  # at which the greedy rate is kept, dense at both ends


def greedy(
    problem: Problem,
    start: Start,
    t_max: float,
    bounds: tuple[float, float] = (1e-3, 1e2),
) -> Interpolated:
    """Return the learning rate that lowers the error fastest at every moment.

    Parameters
    ----------
    problem : Problem
        Its learning rate is ignored.
    start, t_max : Start, float
        The initial condition, and the last time.
    bounds : (float, float)
        The lowest and the highest rate.

    Returns
    -------
    Interpolated
        A schedule for `SGD(lr=...)`, or a baseline of `optimize`.

    Examples
    --------
    At first e_g = 1/2, and the rate is e_g / (e_g + noise^2 / 2).

    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, optimizer=tu.SGD(lr=0.5), noise=1.0)
    >>> rate = tu.schedules.greedy(problem, tu.Start([[0.0]], [[0.0]]), t_max=10.0)
    >>> round(float(rate(0.0)), 4)
    0.5
    """
    require_problem(problem, "greedy", needs=(*CLOSED, "fixed momentum"))
    checks.require_untraced("start", "greedy", require_start(start))
    t_max = checks.as_positive("t_max", t_max)
    limits = np.array(checked_bounds("lr", bounds))
    # Chebyshev points: dense at both ends
    angles = np.pi * np.arange(GREEDY_TIMES + 1) / GREEDY_TIMES
    times = t_max * (1 - np.cos(angles)) / 2
    state, t = initial_overlaps(problem, start)
    dynamics = GreedyDynamics(problem, t, limits)
    options = Options(gradient_flow=False, solver="explicit", keep=True)
    path = integrate_equations(dynamics, None, state, times, step_tolerances(), options)
    rate_at = eqx.filter_jit(eqx.filter_vmap(GreedyDynamics.rate, in_axes=(None, 0, 0)))
    rates = np.asarray(rate_at(dynamics, times, states_of(path.variables, state)))
    if not np.all(np.isfinite(rates) & np.isfinite(path.error)):
        raise InputError(
            f"the greedy rate diverges before t_max = {t_max:g}; "
            "lower t_max or the upper bound."
        )
    return Interpolated(times, rates)


def drift_at_rate(
    system: OrderParameters, eta: Array, t: ArrayLike, state: Overlaps
) -> tuple[Overlaps, Array]:
    """Return the drift of a system, and the change of its error, at a rate eta."""
    at_eta = eqx.tree_at(lambda system: system.problem.optimizer.lr, system, eta)
    return OrderParameters.drift_and_error_rate(at_eta, t, state)


def rate_expansion(
    system: OrderParameters, t: ArrayLike, state: Overlaps
) -> tuple[Array, Array]:
    """Return the coefficients of eta and eta^2 in d error / d alpha.

    They are exact, because the change of the error is quadratic in eta.
    """
    slope = jax.jacfwd(lambda eta: drift_at_rate(system, eta, t, state)[1])
    linear, twice = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return linear, twice / 2


def steepest_rate(
    linear: Array, quadratic: Array, bounds: tuple[ArrayLike, ArrayLike]
) -> Array:
    """Return the eta within bounds that makes a change of the error smallest.

    The change is eta * linear + eta^2 * quadratic.
    """
    low = jnp.asarray(bounds[0])
    high = jnp.asarray(bounds[1])
    a = -linear
    b = quadratic
    bottom = a / jnp.where(b > 0, 2 * b, 1.0)  # of a parabola that opens upwards
    better_end = jnp.where(a > b * (low + high), high, low)
    return jnp.clip(jnp.where(b > 0, bottom, better_end), low, high)


class GreedyDynamics(OrderParameters):
    """The dynamics under the greedy learning rate, within bounds (2,)."""

    bounds: Any

    def __init__(self, problem: Problem, t: Any, bounds: np.ndarray):
        super().__init__(as_arrays(problem.replace(lr=bounds[0])), t, keep_blocks=True)
        self.bounds = bounds

    def rate(self, t: ArrayLike, state: Overlaps) -> Array:
        """Return the greedy rate at a state."""
        linear, quadratic = rate_expansion(self, t, state)
        return steepest_rate(linear, quadratic, self.bounds)

    def drift_and_error_rate(
        self, t: ArrayLike, state: Overlaps
    ) -> tuple[Overlaps, Array]:
        return drift_at_rate(self, self.rate(t, state), t, state)

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        return self.drift_and_error_rate(t, state)[0]
