"""`greedy`: the learning rate that lowers the error fastest at every moment.

The drift of the overlaps is a quadratic in the rate (A and B enter with eta, the covariance G with eta^2 / batch), and so is
the change of the error along it. So the greedy rate is known:
    du / dalpha = F0(u) + eta F1(u) + eta^2 F2(u),     d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u)
    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own (a readout or bias with a given rate). A readout or bias that shares lr adds its
|gradient|^2 to a and nothing to b: in the limit its noise vanishes. Label noise enters b; weight decay enters a. The rate
is a feedback, put into the vector field itself, so no iteration is needed.
Only the next moment counts: on a plateau a -> 0, the rate follows and the escape is delayed. `optimize` (protocols.py) and
D. Saad and M. Rattray, Phys. Rev. Lett. 79, 2578 (1997), optimize over the whole time instead.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.analysis.noise import states_of
from tutelage.analysis.protocols import checked_bounds
from tutelage.dynamics import ClosedSystem, OrderParameters, Overlaps, initial_overlaps
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError
from tutelage.integrate.program import Options, integrate, tolerances
from tutelage.problem import Interpolated, Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLOSED

RECORDED = 128  # times at which the rate is kept, dense at both ends


def greedy(problem: Problem, start: Start, t_max: float, bounds: tuple[float, float] = (1e-3, 1e2)) -> Interpolated:
    """The learning rate that lowers the error fastest at every moment up to t_max, as a schedule.

    Parameters
    ----------
    problem : Problem
        Its learning rate is ignored.
    start : Start
        The initial condition.
    t_max : float
        The last time.
    bounds : (float, float)
        The lowest and the highest rate.

    Returns
    -------
    Interpolated
        For `SGD(lr=...)`, or as a baseline of `optimize`.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5), noise=1.0)
    >>> rate = tu.schedules.greedy(problem, tu.Start([[0.0]], [[0.0]]), t_max=10.0)
    >>> round(float(rate(0.0)), 4)                     # e_g / (e_g + noise^2 / 2), with e_g = 1/2
    0.5
    """
    require_problem(problem, "greedy", needs=(*CLOSED, "fixed momentum"))
    checks.require_untraced("start", "greedy", require_start(start))
    t_max, limits = checks.as_positive("t_max", t_max), np.array(checked_bounds("lr", bounds))
    times = t_max * (1 - np.cos(np.pi * np.arange(RECORDED + 1) / RECORDED)) / 2
    state, t = initial_overlaps(problem, start)
    dynamics = GreedyDynamics(OrderParameters(as_arrays(problem), t, keep_blocks=True), limits)
    options = Options(gradient_flow=False, solver="explicit", keep=True)
    path = integrate(dynamics, None, state, times, tolerances(), options)
    rates = np.asarray(_rates_along(dynamics, times, states_of(path.variables, state)))
    if not np.all(np.isfinite(rates) & np.isfinite(path.error)):
        raise InputError(f"the greedy rate diverges before t_max = {t_max:g}; lower t_max or the upper bound.")
    return Interpolated(times, rates)


def _with_rate(system: OrderParameters, eta: Array) -> OrderParameters:
    return eqx.tree_at(lambda s: s.problem.sgd.lr, system, eta)


def rate_expansion(system: OrderParameters, t: ArrayLike, state: Overlaps) -> tuple[Array, Array]:
    """Coefficients of eta and eta^2 in d error / d alpha: exact, since it is quadratic in eta."""

    def error_rate(eta: Array) -> Array:
        return _with_rate(system, eta).drift_and_error_rate(t, state)[1]

    zero, one = (jnp.zeros(()),), (jnp.ones(()),)
    linear, twice = jax.jvp(lambda eta: jax.jvp(error_rate, (eta,), one)[1], zero, one)
    return linear, twice / 2


def steepest_rate(linear: Array, quadratic: Array, bounds: tuple[ArrayLike, ArrayLike]) -> Array:
    """The eta within bounds that makes eta * linear + eta^2 * quadratic (a change of the error) smallest."""
    low, high = map(jnp.asarray, bounds)
    a, b = -linear, quadratic
    inside = jnp.where(b > 0, a / jnp.where(b > 0, 2 * b, 1.0), jnp.where(a > b * (low + high), high, low))
    return jnp.clip(inside, low, high)


class GreedyDynamics(ClosedSystem):
    """The dynamics of a system whose learning rate is the greedy one."""

    system: OrderParameters
    bounds: Any  # the lowest and the highest rate, (2,)

    def rate(self, t: ArrayLike, state: Overlaps) -> Array:
        """The greedy rate at a state."""
        return steepest_rate(*rate_expansion(self.system, t, state), self.bounds)

    def drift_and_error_rate(self, t: ArrayLike, state: Overlaps) -> tuple[Overlaps, Array]:
        return _with_rate(self.system, self.rate(t, state)).drift_and_error_rate(t, state)

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        return self.drift_and_error_rate(t, state)[0]

    def observe(self, state: Overlaps) -> dict[str, Array]:
        return self.system.observe(state)

    def error(self, observed: dict[str, Array]) -> Array:
        return self.system.error(observed)

    def switches(self, end: ArrayLike) -> Array | None:
        return _with_rate(self.system, jnp.zeros(())).switches(end)  # of the other rates


@eqx.filter_jit
def _rates_along(dynamics: GreedyDynamics, times: np.ndarray, states: Overlaps) -> Array:
    return jax.vmap(dynamics.rate)(jnp.asarray(times), states)
