"""Mean and covariance of one step of a real network beside the theory's drift and diffusion.

The limit says N E[du] -> f(u) and N^2 Cov(du) -> D(u). Here the left sides are measured, by Monte Carlo, on actual weights
of N inputs that may follow any law of unit variance (`one_step.py`); what is left at finite N is of order 1/N for Gaussian
inputs, and shows how fast other laws approach them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array
from tutelage.analysis.single_steps.one_step import require_free_steps, take_steps
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.diffusion import diffusion, point_sets
from tutelage.dynamics.linearized import flatten
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem, Start
from tutelage.problem.arguments import require_start
from tutelage.problem.sample import normals_needed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS, POINTS = 8, 2**13  # the theory's D: independent sets give its own error
LIMIT = 5.0  # |z| that a right theory exceeds once in thousands of measurements


@dataclass(frozen=True)
class StepMoments:
    """Mean and covariance of one step, measured and predicted.

    drift, diffusion: N E[du] (size,) and N^2 Cov(du) (size, size) of one step, measured on `samples` steps.
    *_error: standard errors (of the difference, where the theory has one of its own); *_theory: f(u) and D(u). names: of the
    coordinates, those that move; with several levels, level first. inputs: the law of the inputs. dim: N.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> step = tu.analysis.step_moments(problem, tu.asymmetric_start(problem), dim=200, samples=4000)
    >>> step.names[:3], step.drift.shape
    (('R_11', 'R_12', 'R_21'), (7,))
    """

    problem: Problem
    dim: int
    samples: int
    inputs: str
    names: tuple[str, ...]
    drift: np.ndarray
    drift_error: np.ndarray
    drift_theory: np.ndarray
    diffusion: np.ndarray
    diffusion_error: np.ndarray
    diffusion_theory: np.ndarray

    @property
    def drift_z(self) -> np.ndarray:
        """(measured - theory) / standard error, (size,)."""
        return (self.drift - self.drift_theory) / self.drift_error

    @property
    def diffusion_z(self) -> np.ndarray:
        """(measured - theory) / standard error, (size, size)."""
        return (self.diffusion - self.diffusion_theory) / self.diffusion_error

    @property
    def agrees(self) -> bool:
        """Is every |z| below 5? With very many samples the gap of order 1/N shows: then a larger N must close it."""
        return bool(max(np.max(np.abs(self.drift_z)), np.max(np.abs(self.diffusion_z))) < LIMIT)

    def lines(self) -> list[str]:
        """The worst entries, in sentences."""
        i = int(np.argmax(np.abs(self.drift_z)))
        j, k = np.unravel_index(int(np.argmax(np.abs(self.diffusion_z))), self.diffusion.shape)
        off = np.linalg.norm(self.drift - self.drift_theory) / np.linalg.norm(self.drift_theory)
        traces = np.trace(self.diffusion), np.trace(self.diffusion_theory)
        return [
            f"one step of {self.samples} networks with N = {self.dim}, {self.inputs} inputs, from the same start",
            f"drift: {100 * off:.2g}% off as a vector; worst {self.names[i]}: {self.drift[i]:.4g} ± "
            f"{self.drift_error[i]:.2g}, theory {self.drift_theory[i]:.4g} (z = {self.drift_z[i]:+.1f})",
            f"diffusion: trace {traces[0]:.4g}, theory {traces[1]:.4g}; worst ({self.names[j]}, {self.names[k]}): "
            f"{self.diffusion[j, k]:.4g} ± {self.diffusion_error[j, k]:.2g}, theory {self.diffusion_theory[j, k]:.4g} "
            f"(z = {self.diffusion_z[j, k]:+.1f})",
            f"{'agree' if self.agrees else 'DIFFER'}: the largest |z| of {self.drift.size} drifts and "
            f"{self.drift.size * (self.drift.size + 1) // 2} covariances is "
            f"{max(np.max(np.abs(self.drift_z)), np.max(np.abs(self.diffusion_z))):.1f}, the limit {LIMIT:g}",
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<StepMoments at N = {self.dim}, {self.inputs} inputs: {'agrees' if self.agrees else 'differs'}>"

    def plot(self, *, title: str | None = None) -> "Figure":
        """Measured against theory, drift and diffusion, as a Matplotlib figure."""
        from tutelage.plot.step_moments import plot_step_moments

        return plot_step_moments(self, title=title)


def step_moments(
    problem: Problem, start: Start, dim: int, *, samples: int = 20_000, inputs: str = "gaussian", seed: int = 0
) -> StepMoments:
    """Drift and diffusion of one step at a start, measured on real weights of N = `dim` inputs, beside the theory's.

    inputs: "gaussian", "rademacher", "uniform", "student_t" or "student_t3" (five and three degrees of freedom), independent
    with unit variance in eigencoordinates, as in `simulate`. The rates of schedules are those at time zero.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> step = tu.analysis.step_moments(problem, tu.asymmetric_start(problem), dim=200, samples=4000)
    >>> step.agrees
    True
    """
    require_free_steps(problem, inputs, "step_moments")
    count = checks.as_count("samples", samples, least=100)
    seed, start = checks.as_count("seed", seed, least=0), without_dim(start)
    taken = take_steps(problem, start, checks.as_count("dim", dim), count, inputs, seed).increments
    f, D, D_error = theory_moments(problem, start)
    moves = np.diagonal(D) > 0
    both = np.ix_(moves, moves)
    mean, error, covariance, covariance_error = moments(taken[:, moves])
    return StepMoments(
        problem=problem,
        dim=dim,
        samples=count,
        inputs=inputs,
        names=tuple(name for name, kept in zip(coordinate_names(problem), moves, strict=True) if kept),
        drift=mean,
        drift_error=error,
        drift_theory=f[moves],
        diffusion=covariance,
        diffusion_error=np.hypot(covariance_error, D_error[both]),
        diffusion_theory=D[both],
    )


def without_dim(start: Any) -> Start:
    """The start without its N: only its overlaps count."""
    start = require_start(start)
    return Start(start.R, start.Q, start.T, start.readout, start.bias)


def moments(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of samples (count, size), each followed by its standard errors."""
    count = len(samples)
    mean = samples.mean(axis=0)
    away = samples - mean
    covariance, fourth = away.T @ away / count, (away**2).T @ away**2 / count
    spread = np.sqrt(np.maximum(fourth - covariance**2, 0.0) / count)
    return mean, np.sqrt(np.diagonal(covariance) / count), covariance, spread


def theory_moments(problem: Problem, start: Start) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f and D at a start, at time zero, in flat coordinates; and the error of D from its finite sets of points."""
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t)
    points = point_sets(SETS, POINTS, problem.student.hidden + problem.teacher.hidden + normals_needed(problem))
    drift, each = (np.asarray(x) for x in _drift_and_diffusions(system, state, *map(jnp.asarray, points)))
    return drift, each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(SETS)


@eqx.filter_jit
def _drift_and_diffusions(system: OrderParameters, state: Overlaps, points: Array, weights: Array) -> tuple[Array, Array]:
    now = jnp.zeros(())
    each = jax.lax.map(lambda part: diffusion(system, now, state, *part), (points, weights))
    return flatten(system.drift(now, state)), each


def coordinate_names(problem: Problem) -> list[str]:
    """Names of the flat coordinates: R_12, or r_2,12 in level 2 of several; v and b with one index."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    pairs = {"R": list(np.ndindex(K, M)), "Q": [*zip(*np.triu_indices(K), strict=True)]}
    out = []
    for letter, entries in pairs.items():
        for level in range(L):
            head = f"{letter}_" if L == 1 else f"{letter.lower()}_{level + 1},"
            out += [head + ("," if max(K, M) > 9 else "").join(str(int(i) + 1) for i in entry) for entry in entries]
    return out + [f"{letter}_{k + 1}" for letter in ("v", "b")[: 1 + problem.biased] for k in range(K)]
