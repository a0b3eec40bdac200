"""Steps that are guided by the error beside the state.

Near perfect learning a tolerance on overlaps of order one says nothing about an error of 1e-9, so the error stands beside
the state when a step is judged. Explicit methods integrate it. Here it is computed anew at the end of each step, and its
uncertainty is the change of the error along the uncertainty of the state: nothing accumulates.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import optimistix

from tutelage._types import Array
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.resolvent import resolvent
from tutelage.integrate.call import FINE
from tutelage.integrate.rosenbrock import Between, Rodas5P

ROUNDING = 1e-15  # overlaps are not known better, so neither is the error: no step is refused for less


class Guided(diffrax.AbstractAdaptiveSolver):
    """A solver of the state, for pairs of state and error. guide(state, doubt): the error and its change along doubt."""

    solver: Rodas5P
    guide: Callable[[Any, Any], tuple[Array, Array]]

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Between

    def order(self, terms: Any) -> int:
        return self.solver.order(terms)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> None:
        return None

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: None, made_jump: Any
    ) -> tuple[Any, Any, dict, None, Any]:
        state, error = y0
        alone = diffrax.ODETerm(lambda t, y, args: terms.vf(t, (y, error), args)[0])
        new, doubt, dense, _, result = self.solver.step(alone, t0, t1, state, args, None, made_jump)
        new_error, error_doubt = self.guide(*jax.lax.stop_gradient((new, doubt)))
        y1 = new, new_error
        dense = {"y0": y0, "y1": y1, "k": (dense["k"], jnp.zeros(3))}
        return y1, (doubt, error_doubt), dense, None, result


def stiff_solver(system: OrderParameters) -> Guided:
    """Rodas5P for the overlaps of this system."""

    def guide(state: Any, doubt: Any) -> tuple[Array, Array]:
        error, (p, _) = system.error(system.observe(state)), system.matrices(state)
        slope = system.error_slope(p, doubt)
        rounding = ROUNDING * (jnp.sum(jnp.abs(p.A)) + jnp.sum(jnp.abs(p.B)))
        return FINE * error, FINE * jnp.where(jnp.abs(slope) < rounding, 0.0, slope)

    return Guided(Rodas5P(lambda t, state, shift: resolvent(system, t, state, shift)), guide)


def guided_norm(scaled: tuple[Any, Array]) -> Array:
    """Root mean square over the state, or the error alone, whichever is larger: one number among thousands must count."""
    state, error = scaled
    return jnp.maximum(optimistix.rms_norm(state), jnp.abs(error))
