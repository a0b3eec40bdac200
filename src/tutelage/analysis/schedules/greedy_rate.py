"""The locally optimal learning rate: at every moment the one that lowers the error fastest.

The drift of the overlaps is a quadratic in the rate (A and B enter with eta, the spread G with eta^2 / batch), and so is the
change of the error along it:
    du / dalpha = F0(u) + eta F1(u) + eta^2 F2(u),     d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u)
    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own (a readout or bias with a given rate). A readout or bias that shares lr adds its
|gradient|^2 to a and nothing to b: in the limit its noise vanishes. Label noise enters b; weight decay enters a. The rate
is a feedback, put into the vector field itself, so no iteration is needed.
Only the next moment counts: on a plateau a -> 0, the rate follows and the escape is put off. D. Saad and M. Rattray, Phys.
Rev. Lett. 79, 2578 (1997), optimize over the whole time instead; so does "optimal".
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.averages import Quadrature
from tutelage.dynamics import OrderParameters, Overlaps, initial_overlaps
from tutelage.integrate import FINE, tolerances
from tutelage.problem import Problem, Start

MAX_STEPS = 100_000
FIRST = 1e-5  # first step, in units of the whole time


def rate_expansion(system: OrderParameters, t: Array, state: Overlaps) -> tuple[Any, Any, Any]:
    """Coefficients of 1, eta and eta^2 in (drift, d error / d alpha): exact, since both are quadratic in eta."""

    def along(eta: Array) -> tuple[Overlaps, Array]:
        return eqx.tree_at(lambda s: s.problem.sgd.lr, system, eta).drift_and_error_rate(t, state)

    def slope(eta: Array) -> Any:
        return jax.jvp(along, (eta,), (jnp.ones(()),))

    (constant, linear), (_, twice) = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return constant, linear, jax.tree.map(lambda x: x / 2, twice)


def fastest_rate(linear: Array, quadratic: Array, bounds: tuple[Any, Any]) -> Array:
    """The eta within bounds that makes eta * linear + eta^2 * quadratic (a change of the error) smallest."""
    low, high = bounds
    a, b = -linear, quadratic
    inside = jnp.where(b > 0, a / jnp.where(b > 0, 2 * b, 1.0), jnp.where(a > b * (low + high), high, low))
    return jnp.clip(inside, low, high)


def greedy_rates(
    problem: Problem,
    start: Start,
    times: np.ndarray,
    bounds: tuple[float, float],
    quadrature: Quadrature | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The greedy rate and the error along its own path, at the times (increasing, from 0); NaN if it does not arrive."""
    state, t = initial_overlaps(problem, start)
    data = jax.tree.map(lambda x: jnp.asarray(x, float) if eqx.is_array_like(x) else x, problem)  # one program for all
    rates, errors = _follow(data, t, state, jnp.asarray(times), tuple(map(jnp.asarray, bounds)), quadrature)
    return np.asarray(rates), np.asarray(errors)


@eqx.filter_jit
def _follow(
    problem: Problem, t: Array, state: Overlaps, times: Array, bounds: tuple[Any, Any], quadrature: Quadrature | None
) -> Any:
    system = OrderParameters(problem, t, quadrature=quadrature)

    def step(time: Any, at: Overlaps) -> tuple[Array, Any]:
        constant, linear, quadratic = rate_expansion(system, time, at)
        eta = fastest_rate(linear[1], quadratic[1], bounds)
        return eta, jax.tree.map(lambda x, y, z: x + eta * y + eta**2 * z, constant, linear, quadratic)

    def field(time: Any, y: Any, _: Any) -> Any:
        drift, error_rate = step(time, y[0])[1]
        return drift, error_rate * FINE

    def error(at: Overlaps) -> Array:
        return system.error(system.observe(at))

    controller: Any = diffrax.PIDController(*tolerances(), pcoeff=0.2, icoeff=0.5)
    switches = eqx.tree_at(lambda s: s.problem.sgd.lr, system, jnp.zeros(())).switches(times[-1])  # of the other rates
    if switches is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=switches)
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        t0=0.0,
        t1=times[-1],
        dt0=FIRST * times[-1],  # given, for a smaller program than one that chooses it
        y0=(state, error(state) * FINE),
        saveat=diffrax.SaveAt(ts=times, fn=lambda time, y, args: y[0]),
        stepsize_controller=controller,
        max_steps=MAX_STEPS,
        throw=False,
    )
    arrived = jnp.isfinite(solution.ts)
    rates = jax.vmap(lambda time, at: step(time, at)[0])(times, solution.ys)
    return tuple(jnp.where(arrived, x, jnp.nan) for x in (rates, jax.vmap(error)(solution.ys)))
