"""A solved curve with what small noise needs along it: the Jacobian J, the diffusion D, the gradient of the error.

States between the recorded times are solved for again, in batches as large as the recorded times, so that the program that
`solve` has compiled serves them too; J and D come in batches of the size that the validity report uses.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError, TutelageWarning
from tutelage._solve import solve
from tutelage._types import Array
from tutelage.analysis.noise.small_noise import NODES, panel_edges, panel_nodes
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.deviations import jacobians_along
from tutelage.dynamics.diffusion import diffusion, point_sets
from tutelage.dynamics.linearized import flatten, unflatten
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem, Start
from tutelage.problem.sample import normals_needed
from tutelage.trajectory import Trajectory
from tutelage.validity import MOMENTS

SHORT, LONG = 0.5, 1.0  # length of a panel in units of the fastest mode's time: wished, and at most
MOST = 4000  # panels
TOGETHER = MOMENTS // NODES.size  # panels in one batch of moments
FEWEST, LARGEST, USUAL = 32, 512, 64  # moments solved for at once: as many as recorded times, if these are between


class NoisyCurve:
    """The curve that `solve` returned for a `Problem`."""

    def __init__(self, problem: Problem, start: Start, theory: Trajectory):
        self.problem, self.start, self.theory, self.settings = problem, start, theory, dict(theory.settings)
        self.like, t = initial_overlaps(problem, start)
        self.system = OrderParameters(problem, t, bool(self.settings.get("gradient_flow", False)), True)
        count = len(theory.times)
        self.batch = count if FEWEST <= count <= LARGEST else USUAL

    def edges(self) -> np.ndarray:
        """Panels of half the time of the fastest mode, or a little longer on long curves."""
        end = float(self.theory.times[-1])
        moments = end * np.linspace(0.0, 1.0, self.batch) ** 2  # closer together at the start
        chosen = np.linspace(0, self.batch - 1, MOMENTS).astype(int)
        states = _at(self.states(moments), chosen)
        moments = moments[chosen]
        jacobians = np.asarray(jacobians_along(self.system, jnp.asarray(moments), states))
        rates = np.maximum(np.max(np.abs(np.linalg.eigvals(jacobians)), axis=1), 1.0 / end)
        total = float(np.sum(np.diff(moments) * np.maximum(rates[1:], rates[:-1])))
        if total > MOST * LONG:
            raise InputError(
                f"these times span {total:.0f} relaxation times of the fastest mode; fluctuations are followed through at "
                f"most {MOST * LONG:.0f}. End at alpha = {end * MOST * LONG / total:.3g}."
            )
        length = min(float(np.clip(total / MOST, SHORT, LONG)), NODES.size * total / self.batch)
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

    def _stacked(self, seen: dict[str, Any]) -> Overlaps:
        r, q, readout = (jnp.asarray(seen[name]) for name in ("r", "q", "readout"))
        return Overlaps(r, q, readout, None if self.like.bias is None else jnp.asarray(seen["bias"]), None)

    def panels(self, edges: np.ndarray, count: int, sets: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """J (3, n, n) and D (set, 3, n, n) at the nodes of each panel; D from `count` points, those of each set its own."""
        dims = self.problem.student.hidden + self.problem.teacher.hidden + normals_needed(self.problem)
        points = [tuple(map(jnp.asarray, point_sets(MOMENTS, count, dims, seed))) for seed in range(sets)]
        moments = panel_nodes(edges)
        states = self.states(moments.ravel())
        for first in range(0, len(moments), TOGETHER):
            here = moments[first : first + TOGETHER]
            inside = np.minimum(first * NODES.size + np.arange(MOMENTS), moments.size - 1)
            times, at = jnp.asarray(moments.ravel()[inside]), _at(states, inside)
            J = np.asarray(jacobians_along(self.system, times, at))
            D = np.stack([np.asarray(_diffusions(self.system, times, at, *part)) for part in points])
            for j in range(len(here)):
                nodes = slice(j * NODES.size, (j + 1) * NODES.size)
                yield J[nodes], D[:, nodes]

    def gradients(self) -> np.ndarray:
        """The derivative of e_g with respect to the flat coordinates at the recorded times, (time, n)."""
        seen = {name: np.asarray(x) for name, x in self.theory.variables.items()}
        count, out = len(self.theory.times), []
        for first in range(0, count, MOMENTS):
            inside = np.minimum(first + np.arange(MOMENTS), count - 1)
            out.append(np.asarray(_gradients(self.system, self._stacked({name: x[inside] for name, x in seen.items()}))))
        return np.concatenate(out)[:count]


def _at(states: Overlaps, which: np.ndarray) -> Overlaps:
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
    p, _ = system.matrices(state)
    weights = jnp.asarray(system.problem.inputs.weights)[:, None, None]
    twice = 1.0 - jnp.eye(p.A.shape[0]) / 2
    bias = None if state.bias is None else -p.bias
    return flatten(Overlaps(-weights * p.B, -weights * twice * p.A, -p.readout, bias, None))
