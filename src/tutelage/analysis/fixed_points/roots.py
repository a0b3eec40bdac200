"""Roots of the drift inside a subspace of states: an approach by integration, then least squares down to rounding."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError
from tutelage.analysis.fixed_points.symmetry import Subspace
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.linearized import drift_at, jacobian, unflatten
from tutelage.dynamics.overlaps import Overlaps

EXACT = 1e-11  # largest drift, per unit learning rate, of what is called a root
MARGIN = 1e-9  # rates of growth below this, relative to the largest rate, are zero
UNBOUNDED = 1e6  # overlaps beyond this have diverged


@dataclass(frozen=True)
class Root:
    """state: where the drift vanishes. distance: largest change of an overlap on the way there.

    stable: whether no deviation inside the subspace grows.
    """

    state: Overlaps
    distance: float
    stable: bool


class Field:
    """The drift of a system inside a subspace, as plain functions of its coordinates."""

    def __init__(self, system: OrderParameters, like: Overlaps, subspace: Subspace):
        self.system, self.like, self.subspace = system, like, subspace
        self.eta = float(np.asarray(system.rates(jnp.zeros(()))[0]))

    def state(self, y: Any) -> Overlaps:
        """The state with coordinates y."""
        return unflatten(jnp.asarray(self.subspace.inside(y)), self.like)

    def drift(self, y: Any) -> np.ndarray:
        """dy / dalpha."""
        return self.subspace.average @ np.asarray(drift_at(self.system, self.subspace.inside(y), self.like))

    def jacobian(self, y: Any) -> np.ndarray:
        """Its derivative."""
        return self.subspace.average @ np.asarray(jacobian(self.system, 0.0, self.state(y))) @ self.subspace.embed

    def after(self, y: np.ndarray, span: float) -> np.ndarray:
        """The coordinates a time `span` later (three digits do: a root is sought from there); NaN if they diverge."""
        from scipy.integrate import solve_ivp

        def grown(_: float, y: np.ndarray) -> float:
            return UNBOUNDED - float(np.max(np.abs(y)))

        grown.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
        out = solve_ivp(lambda _, y: self.drift(y), (0.0, span), y, method="LSODA", rtol=1e-6, atol=1e-9, events=grown)
        return out.y[:, -1] if out.status == 0 else np.full(y.shape, np.nan)

    def root(self, y: np.ndarray) -> Root | None:
        """The root that least squares (Levenberg and Marquardt; Newton's method in the end) reaches from y, or None.

        The damping keeps it near, and lets it end on a manifold of roots, where the Jacobian has no inverse.
        """
        from scipy.optimize import root

        unit = max(1.0, float(np.max(np.abs(y), initial=0.0)))
        options = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 0.0, "maxiter": 400}
        out = root(
            lambda y: self.drift(y) / self.eta, y, jac=lambda y: self.jacobian(y) / self.eta, method="lm", options=options
        )
        if not np.all(np.isfinite(out.x)) or np.max(np.abs(out.fun), initial=0.0) > EXACT * unit:
            return None
        rates = np.linalg.eigvals(self.jacobian(out.x))
        stable = bool(np.all(rates.real <= MARGIN * np.max(np.abs(rates), initial=0.0)))
        return Root(self.state(out.x), float(np.max(np.abs(out.x - y), initial=0.0)), stable)


def approach(field: Field, y: np.ndarray) -> Root:
    """The root that attracts y inside the subspace: integrate, then look for a root nearby; longer, until one is there."""
    span = 10.0 / field.eta
    for _ in range(9):
        y = field.after(y, span)
        if not np.all(np.isfinite(y)):
            raise InputError(
                f"the overlaps diverge at learning rate {float(field.system.problem.sgd.lr):g}, so there is no fixed point "
                "to settle at; lower the rate."
            )
        found = field.root(y)
        if found is not None and found.stable and found.distance < 0.05 * max(1.0, float(np.max(np.abs(y)))):
            return found
        span *= 4
    raise InputError(
        f"the overlaps are still moving at alpha = {span / 3:.3g}; there may be no fixed point here. Give a Start near it."
    )


def least_eigenvalue(state: Overlaps, t: Any) -> float:
    """Of the joint Gram matrix [[q, r], [r^T, t]], over all levels: negative for overlaps of no real vectors."""
    r, q, t = (np.asarray(x) for x in (state.r, state.q, t))
    return float(np.min(np.linalg.eigvalsh(np.block([[q, r], [np.swapaxes(r, -1, -2), t]]))))
