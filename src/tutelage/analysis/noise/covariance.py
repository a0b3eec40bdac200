"""Covariance of small fluctuations along a solved curve, dSig/dt = J Sig + Sig J^T + D, Sig(0) = 0, without cancellation.

On a panel [b, b'] with propagator X(s) (dX/ds = J X, X(b) = 1) the solution is
    Sig(t) = X(t) [Sig(b) + int_b^t X(s)^-1 D(s) X(s)^-T ds] X(t)^T.
X is found by collocation at three Gauss points, the integral by the same polynomials, so that for every vector a the
variance a^T Sig a is a sum of squares of the noise at the nodes, carried to the end. That matters for the error: near
perfect learning the gradient of e_g almost cancels in Sig, and would leave the errors of an interpolated D or a tolerance.

`NoisyCurve` supplies J, D and the gradient of the error. States between the recorded times are solved for again, in batches
as large as the recorded times, so that the program that `solve` has compiled serves them too; J and D come in batches of the
size that the validity report uses.
"""

import warnings
from collections.abc import Iterable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._errors import InputError, TutelageWarning
from tutelage._solve import solve
from tutelage._types import Array
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.diffusion import diffusion, point_dims, point_sets
from tutelage.dynamics.linearized import jacobians_along
from tutelage.dynamics.order_parameters import Overlaps, flatten, unflatten
from tutelage.problem import Problem, Start
from tutelage.trajectory import Trajectory
from tutelage.validity import MOMENTS

PANEL_LENGTH, LONGEST_PANEL = 0.5, 1.0  # in units of the fastest mode's time: aimed at, and at most
MOST_PANELS = 4000
LEAST_BATCH, LARGEST_BATCH, USUAL_BATCH = 32, 512, 64  # times solved for at once: as many as recorded, within limits

GAUSS_NODES = (np.polynomial.legendre.leggauss(3)[0] + 1) / 2
PANELS_PER_BATCH = MOMENTS // GAUSS_NODES.size
_LAGRANGE = np.linalg.inv(
    np.vander(GAUSS_NODES, increasing=True)
).T  # coefficients of the polynomials of the nodes, (node, power)


def _integrals(theta: float) -> np.ndarray:
    """Integrals from 0 to theta of the three Lagrange polynomials."""
    powers = np.arange(1, GAUSS_NODES.size + 1)
    return _LAGRANGE @ (theta**powers / powers)


_STAGES = np.stack([_integrals(c) for c in GAUSS_NODES])


def panel_edges(moments: np.ndarray, rates: np.ndarray, stops: np.ndarray, length: float) -> np.ndarray:
    """Edges of panels from the first moment to the last, each at most `length` / rate long.

    rates: of the fastest mode at the moments; between two of them the larger counts. stops: times that must be edges.
    """
    gaps = np.diff(moments) * np.maximum(rates[1:], rates[:-1])
    elapsed = np.concatenate([[0.0], np.cumsum(gaps)])
    stops = stops[(stops > moments[0]) & (stops < moments[-1])]
    marks = np.concatenate([moments[:1], stops, moments[-1:]])
    edges = [moments[:1]]
    for first, last in zip(np.interp(marks[:-1], moments, elapsed), np.interp(marks[1:], moments, elapsed), strict=True):
        count = max(1, int(np.ceil((last - first) / length)))
        edges.append(np.interp(np.linspace(first, last, count + 1)[1:], elapsed, moments))
    return np.concatenate(edges)


def panel_nodes(edges: np.ndarray) -> np.ndarray:
    """The times at which J and D are needed, (panel, 3)."""
    return edges[:-1, None] + np.diff(edges)[:, None] * GAUSS_NODES


def covariance_at(
    times: np.ndarray, edges: np.ndarray, panels: Iterable[tuple[np.ndarray, np.ndarray]], watched: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sig at the times, (time, n, n), the mean over sets of D; and for each set the variance of `watched` (time, n).

    panels: J (3, n, n) and D (set, 3, n, n) at the nodes of each panel, in order.
    """
    n = watched.shape[1]
    out, variances, sigma = np.zeros((times.size, n, n)), [np.zeros(0)] * times.size, np.zeros((1, n, n))
    home = np.clip(np.searchsorted(edges, times, side="left") - 1, 0, edges.size - 2)
    for i, (J, D) in enumerate(panels):
        h = edges[i + 1] - edges[i]
        X = _propagators(h, J)
        back = np.linalg.inv(X)  # panels are short, so X is near one
        slopes, sources = J @ X, back @ D @ np.swapaxes(back, -1, -2)
        for j in np.flatnonzero(home == i):
            now = _propagated(sigma, h * _integrals((times[j] - edges[i]) / h), slopes, sources)
            out[j], variances[j] = now.mean(axis=0), np.einsum("a,sab,b->s", watched[j], now, watched[j])
        sigma = _propagated(sigma, h * _integrals(1.0), slopes, sources)
    return out, np.stack(variances, axis=1)


def _propagated(sigma: np.ndarray, weights: np.ndarray, slopes: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Sig later in the panel: X [Sig + integral] X^T."""
    X = np.eye(sigma.shape[-1]) + np.tensordot(weights, slopes, 1)
    return X @ (sigma + np.einsum("k,skab->sab", weights, sources)) @ X.T


def _propagators(h: float, J: Float[np.ndarray, "3 n n"]) -> Float[np.ndarray, "3 n n"]:
    """X at the nodes of a panel: X_j = 1 + h sum_k a_jk J_k X_k, one linear system."""
    m, n = J.shape[:2]
    system = np.eye(m * n) - h * np.einsum("jk,kab->jakb", _STAGES, J).reshape(m * n, m * n)
    return np.linalg.solve(system, np.tile(np.eye(n), (m, 1))).reshape(m, n, n)


class NoisyCurve:
    """The curve that `solve` returned for a `Problem`."""

    def __init__(self, problem: Problem, start: Start, theory: Trajectory):
        self.problem, self.start, self.theory, self.settings = problem, start, theory, dict(theory.settings)
        self.like, t = initial_overlaps(problem, start)
        self.system = OrderParameters(problem, t, bool(self.settings.get("gradient_flow", False)), True)
        count = len(theory.times)
        self.batch = count if LEAST_BATCH <= count <= LARGEST_BATCH else USUAL_BATCH

    def edges(self) -> np.ndarray:
        """Panels of half the time of the fastest mode, or a little longer on long curves."""
        end = float(self.theory.times[-1])
        moments = end * np.linspace(0.0, 1.0, self.batch) ** 2  # closer together at the start
        chosen = np.linspace(0, self.batch - 1, MOMENTS).astype(int)
        states = _states_at(self.states(moments), chosen)
        moments = moments[chosen]
        jacobians = np.asarray(jacobians_along(self.system, jnp.asarray(moments), states))
        rates = np.maximum(np.max(np.abs(np.linalg.eigvals(jacobians)), axis=1), 1.0 / end)
        total = float(np.sum(np.diff(moments) * np.maximum(rates[1:], rates[:-1])))
        if total > MOST_PANELS * LONGEST_PANEL:
            raise InputError(
                f"these times span {total:.0f} relaxation times of the fastest mode; fluctuations are followed through at "
                f"most {MOST_PANELS * LONGEST_PANEL:.0f}. End at alpha = {end * MOST_PANELS * LONGEST_PANEL / total:.3g}."
            )
        length = min(float(np.clip(total / MOST_PANELS, PANEL_LENGTH, LONGEST_PANEL)), GAUSS_NODES.size * total / self.batch)
        switches = self.system.switches(end)
        return panel_edges(moments, rates, np.zeros(0) if switches is None else np.unique(switches), length)

    def states(self, moments: np.ndarray) -> Overlaps:
        """The states at increasing moments (no fewer than a batch), stacked."""
        options = {name: self.settings[name] for name in ("gradient_flow", "rtol", "solver") if name in self.settings}
        parts, known = [], 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TutelageWarning)  # said when the curve itself was solved
            while known < moments.size:
                first = min(known, moments.size - self.batch)  # the last batch overlaps the one before
                wanted = moments[first : first + self.batch]
                solved = solve(self.problem, self.start, wanted, keep="blocks", **options)
                parts.append({name: np.asarray(x)[known - first :] for name, x in solved.variables.items()})
                known = first + self.batch
        return self._stacked({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    def _stacked(self, seen: dict[str, np.ndarray]) -> Overlaps:
        r, q, readout = (jnp.asarray(seen[name]) for name in ("r", "q", "readout"))
        return Overlaps(r, q, readout, None if self.like.bias is None else jnp.asarray(seen["bias"]), None)

    def panels(self, edges: np.ndarray, count: int, sets: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """J (3, n, n) and D (set, 3, n, n) at the nodes of each panel; D from `count` points, those of each set its own."""
        dims = point_dims(self.problem)
        points = [tuple(map(jnp.asarray, point_sets(MOMENTS, count, dims, seed))) for seed in range(sets)]
        moments = panel_nodes(edges)
        states = self.states(moments.ravel())
        for first in range(0, len(moments), PANELS_PER_BATCH):
            here = moments[first : first + PANELS_PER_BATCH]
            inside = np.minimum(first * GAUSS_NODES.size + np.arange(MOMENTS), moments.size - 1)
            times, at = jnp.asarray(moments.ravel()[inside]), _states_at(states, inside)
            J = np.asarray(jacobians_along(self.system, times, at))
            D = np.stack([np.asarray(_diffusions(self.system, times, at, *part)) for part in points])
            for j in range(len(here)):
                nodes = slice(j * GAUSS_NODES.size, (j + 1) * GAUSS_NODES.size)
                yield J[nodes], D[:, nodes]

    def gradients(self) -> np.ndarray:
        """The derivative of e_g with respect to the flat coordinates at the recorded times, (time, n)."""
        seen = {name: np.asarray(x) for name, x in self.theory.variables.items()}
        count, out = len(self.theory.times), []
        for first in range(0, count, MOMENTS):
            inside = np.minimum(first + np.arange(MOMENTS), count - 1)
            out.append(np.asarray(_gradients(self.system, self._stacked({name: x[inside] for name, x in seen.items()}))))
        return np.concatenate(out)[:count]


def _states_at(states: Overlaps, which: np.ndarray) -> Overlaps:
    return jax.tree.map(lambda x: x[which], states)


@eqx.filter_jit
def _diffusions(system: OrderParameters, times: Array, states: Overlaps, points: Array, weights: Array) -> Array:
    return jax.lax.map(lambda moment: diffusion(system, *moment), (times, states, points, weights))


@eqx.filter_jit
def _gradients(system: OrderParameters, states: Overlaps) -> Array:
    return jax.lax.map(lambda state: error_gradient(system, state), states)


def error_gradient(system: OrderParameters, state: Overlaps) -> Array:
    """The derivative of e_g with respect to the flat coordinates; an off-diagonal entry of q stands for two."""
    if not system.closed:  # the matrices hold the slope of the training loss, which is another number
        return jax.grad(lambda x: system.error(system.observe(unflatten(x, state))))(flatten(state))
    p = system.error_derivatives(state)
    weights = jnp.asarray(system.problem.inputs.weights)[:, None, None]
    twice = 1.0 - jnp.eye(p.A.shape[0]) / 2
    bias = None if state.bias is None else -p.bias
    return flatten(Overlaps(-weights * p.B, -weights * twice * p.A, -p.readout, bias, None))
