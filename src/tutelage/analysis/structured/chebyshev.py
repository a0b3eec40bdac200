"""A stabilized explicit solver for gradient flows on wide spectra: Runge-Kutta-Chebyshev, second order.

The fastest direction of a power law is 10^3 to 10^6 times faster than those that still matter late. An ordinary explicit
method must resolve it; an implicit one solves K N equations. Here s stages make a step stable that is about 0.65 s^2 / rho
long, rho the largest decay rate (Sommeijer, Shampine and Verwer, J. Comput. Appl. Math. 88 (1998) 315): the number of force
evaluations grows with the square root of the stiffness. Real spectra only, as those of gradient flows are.
"""

from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp

from tutelage._types import Array

DAMPING = 2 / 13
SAFE = 1.25  # the power method approaches rho from below
MOST = 1000  # stages
FIRST, LATER = 40, 2  # rounds of the power method before the first step and in each
SMALL = 1e-6  # relative length of the difference that stands for a derivative


class Chebyshev(diffrax.AbstractSolver):
    """A diffrax solver for one array; use it with an adaptive step-size controller."""

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = diffrax.ThirdOrderHermitePolynomialInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def init(self, terms: Any, t0: Any, t1: Any, y0: Array, args: Any) -> tuple[Array, Array]:
        """(rho, its direction), from a direction that no symmetry makes blind."""
        rough = jnp.cos(1.0 + jnp.arange(y0.size, dtype=y0.dtype) ** 2).reshape(y0.shape)
        force = terms.vf(t0, y0, args)
        return _largest_rate(terms, t0, y0, force, args, rough, FIRST)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Array, args: Any, solver_state: Any, made_jump: Any) -> Any:
        h, force = t1 - t0, terms.vf(t0, y0, args)
        rho, direction = _largest_rate(terms, t0, y0, force, args, solver_state[1], LATER)
        stages = 1 + jnp.ceil(jnp.sqrt(1.0 + 1.54 * h * SAFE * rho)).astype(int)
        y1 = _stages(terms, t0, h, y0, force, args, jnp.clip(stages, 2, MOST))
        after = terms.vf(t1, y1, args)
        error = 0.8 * (y0 - y1) + 0.4 * h * (force + after)
        dense = {"y0": y0, "y1": y1, "k0": h * force, "k1": h * after}
        return y1, error, dense, (rho, direction), diffrax.RESULTS.successful

    def func(self, terms: Any, t0: Any, y0: Array, args: Any) -> Array:
        return terms.vf(t0, y0, args)


def _largest_rate(
    terms: Any, t: Any, y: Array, force: Array, args: Any, direction: Array, rounds: int
) -> tuple[Array, Array]:
    """rho and its direction by the power method on differences of the force."""
    size = SMALL * (jnp.linalg.norm(y) + 1e-3 * jnp.sqrt(y.size))

    def once(_: Any, now: tuple[Array, Array]) -> tuple[Array, Array]:
        unit = now[1] / jnp.linalg.norm(now[1])
        change = (terms.vf(t, y + size * unit, args) - force) / size
        return jnp.linalg.norm(change), change

    rho, change = jax.lax.fori_loop(0, rounds, once, (jnp.zeros(()), direction))
    return rho, change / jnp.maximum(jnp.linalg.norm(change), 1e-300)


def _stages(terms: Any, t0: Any, h: Any, y0: Array, force: Array, args: Any, s: Array) -> Array:
    """The s stages of one step; Chebyshev polynomials T, T', T'' at w0 are carried along."""
    w0 = 1 + DAMPING / s**2
    root = jnp.sqrt(w0**2 - 1)
    angle = s * jnp.log(w0 + root)
    w1 = jnp.sinh(angle) * (w0**2 - 1) / (jnp.cosh(angle) * s * root - w0 * jnp.sinh(angle))
    b1 = 1 / (4 * w0**2)  # b_0 = b_1 = b_2 = T''_2 / T'_2^2
    y1 = y0 + b1 * w1 * h * force

    def once(j: Array, now: Any) -> Any:
        (y_, y), (T_, T), (D_, D), (S_, S), (b_, b), c = now
        new_T = 2 * w0 * T - T_
        new_D = 2 * w0 * D - D_ + 2 * T
        new_S = 2 * w0 * S - S_ + 4 * D
        new_b = new_S / new_D**2
        mu, nu, weight = 2 * new_b * w0 / b, -new_b / b_, 2 * new_b * w1 / b
        slope = terms.vf(t0 + c * h, y, args)
        new_y = (1 - mu - nu) * y0 + mu * y + nu * y_ + weight * h * (slope - (1 - b * T) * force)
        return (y, new_y), (T, new_T), (D, new_D), (S, new_S), (b, new_b), w1 * new_S / new_D

    one, zero = jnp.ones_like(w0), jnp.zeros_like(w0)
    first = ((y0, y1), (one, w0), (zero, one), (zero, zero), (b1, b1), b1 * w1)
    return jax.lax.fori_loop(2, s + 1, once, first)[0][1]
