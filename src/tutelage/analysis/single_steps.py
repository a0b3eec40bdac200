"""What one step does: the matrices of its mean drift, and its mean and covariance on a real network against the theory's.

The limit says N E[du] -> f(u) and N^2 Cov(du) -> D(u). The left sides are measured, by Monte Carlo, on actual weights of N
inputs that may follow any law of unit variance; what is left at finite N is of order 1/N for Gaussian inputs, and shows how
fast other laws approach them. Weights W (K, N) and W* (M, N) have exactly the start's overlaps, in a random frame of each
eigenspace; each step of SGD starts from these weights, on fresh inputs. With the fields x_l = P_l (w, w*).x / sqrt(N) of each
level, the force delta_ks = Delta_s v_k g'(lambda_ks), n_l dimensions in level l and the batch s = 1..B, exactly:
    N dr_l = eta mean_s[delta_k rho_l] N/n_l - eta kappa r_l
    N dq_l = (1 - eta kappa/N) eta mean_s[delta_i lambda_kl + delta_k lambda_il] N/n_l - (2 eta kappa - (eta kappa)^2/N) q_l
             + (eta/B)^2 sum_ss' delta_is delta_ks' x_s.P_l x_s' / n_l
    N dv = eta_v mean_s[Delta g],    N db = eta_b mean_s[delta]
In the limit n_l / N is p_l, x_s.P_l x_s' / n_l is lam_l for s = s' and else 0, and 1/N vanishes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, Numbers
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearized import LocalDynamics, point_dims, point_sets
from tutelage.dynamics.order_parameters import Overlaps, averages_of, field_means, flatten
from tutelage.moments.matrices import joint_covariance, mean_update
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.sample import learn, normals_needed
from tutelage.problem.schedules import rate_at
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLASSIC
from tutelage.rules import Context, Parameters, Update
from tutelage.simulation.prepare import in_random_frames, level_coordinates
from tutelage.simulation.weights import LAWS, drawn_rows

NUMBERS_PER_BLOCK = 2**19  # numbers drawn at a time
THEORY_SETS, THEORY_POINTS = 8, 2**13  # the theory's D: independent sets give its own error
LARGEST_Z = 5.0  # |z| that a right theory exceeds once in thousands of measurements


class DriftMatrices(NamedTuple):
    """A (K, K) and B (K, M) of the mean drift."""

    A: Float[Array, "K K"]
    B: Float[Array, "K M"]


def drift_matrices(problem: Problem, R: Numbers, Q: Numbers, T: Numbers) -> DriftMatrices:
    """The matrices A and B of the mean drift at given covariances of student and teacher fields.

    On average one step moves student vectors by (eta/N) (A W + B W*) Omega, so that to order eta the overlaps of level l
    obey dr_l/dalpha = eta lam_l (A r_l + B t_l). With Delta the error of the output and g' = dg/dlambda_k, A and B solve
    E[Delta v_k g' x] = sum_j A_kj Omega w_j + sum_m B_km Omega w*_m (Gaussian integration by parts).

    Parameters
    ----------
    problem : Problem
        Activations, readouts and biases are used; learning rates, noise and the spectrum of the inputs are not.
    R, Q, T : arrays (K, M), (K, K) and (M, M)
        Covariances of student and teacher fields.

    Returns
    -------
    DriftMatrices
        The named tuple (A, B) of arrays (K, K) and (K, M). Differentiable in R, Q and T, and usable inside `jax.jit`.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> A, B = tu.analysis.drift_matrices(problem, R=np.eye(2), Q=np.eye(2), T=np.eye(2))
    >>> np.allclose(A + B, 0)                                             # perfect learning is a fixed point
    True
    """
    if not checks.is_traced(problem):
        require_problem(problem, "drift_matrices", CLASSIC)
    K, M, fix = problem.student.hidden, problem.teacher.hidden, "K student units, M teacher units."
    R = checks.as_array("R", R, checks.require_finite, shapes=[(K, M)], fix=fix)
    Q = checks.as_array("Q", Q, checks.require_gram, shapes=[(K, K)], fix=fix)
    T = checks.as_array("T", T, checks.require_gram, shapes=[(M, M)], fix=fix)
    joint = joint_covariance(R, Q, T)
    checks.require_gram("[[Q, R], [R.T, T]]", joint)
    v, v_teacher = jnp.asarray(problem.student.readout), jnp.asarray(problem.teacher.readout)
    mean = mean_update(averages_of(problem), joint, field_means(problem, problem.student.bias), v, v_teacher)
    return DriftMatrices(mean.A, mean.B)


class Steps(NamedTuple):
    """increments: N times the change of the flat coordinates, (count, size); limit: what the limit makes of the same samples."""

    increments: Float[np.ndarray, "count size"]
    limit: Float[np.ndarray, "count size"]


def take_steps(problem: Problem, start: Start, dim: int, count: int, inputs: str = "gaussian", seed: int = 0) -> Steps:
    """`count` single steps of a network with N = `dim` inputs, each from the start, by the formulas above."""
    dims, batch = problem.inputs.level_dims(dim), problem.samples_per_step
    frame, drawn, labels = np.random.default_rng(seed).spawn(3)
    vectors = in_random_frames(level_coordinates(problem, start, dims), dims, frame)
    vectors = np.roll(vectors, -problem.teacher.hidden, axis=0)  # students first
    parts, edges, draw = [], np.cumsum(dims)[:-1], drawn_rows(problem, dims, inputs, drawn)
    together = max(1, NUMBERS_PER_BLOCK // (dim * batch))
    for first in range(0, count, together):
        rows = draw(first, min(together, count - first) * batch).reshape(-1, batch, dim)
        levels = list(zip(np.split(rows, edges, axis=-1), np.split(vectors, edges, axis=1), strict=True))
        products = np.stack([x @ np.swapaxes(x, -1, -2) / x.shape[-1] for x, _ in levels], axis=1)
        parts.append((np.stack([x @ v.T for x, v in levels], axis=-2) / np.sqrt(dim), products))
    fields, products = (np.concatenate(x) for x in zip(*parts, strict=True))  # (count, B, L, n), (count, L, B, B)
    noise = labels.standard_normal((count, batch, normals_needed(problem)))
    lam, p = (np.asarray(x, float) for x in (problem.inputs.eigenvalues, problem.inputs.fractions))
    usual = np.broadcast_to(lam[:, None, None] * np.eye(batch), products.shape)
    samples = problem, start, fields, noise
    return Steps(_increments(*samples, products, dims / dim, 1 / dim), _increments(*samples, usual, p, 0.0))


def _increments(
    problem: Problem,
    start: Start,
    fields: Float[np.ndarray, "count B L n"],
    noise: Float[np.ndarray, "count B D"],
    products: Float[np.ndarray, "count L B B"],
    shares: Float[np.ndarray, " L"],
    small: float,
) -> Float[np.ndarray, "count size"]:
    """N du of steps. products: x_s.P_l x_s' / n_l. shares: n_l / N. small: 1/N."""
    state, t = initial_overlaps(problem, start)
    r, q, system = np.asarray(state.r), np.asarray(state.q), OrderParameters(problem, t)
    eta, eta_v, eta_b = (float(x) for x in system.rates(jnp.zeros(())))
    context = system.context(jnp.zeros(()), *system.covariances(state))
    decay = eta * float(rate_at(problem.sgd.weight_decay, 0.0))
    norm2 = np.einsum("l,clss->cs", shares, products)
    update = _updates(problem, state, jnp.asarray(fields.sum(axis=2)), jnp.asarray(noise), jnp.asarray(norm2), context)
    force, output = np.asarray(update.delta), np.asarray(update.parameters.readout)
    batch, K = force.shape[1:]
    moved = eta / batch / shares[:, None, None] * np.einsum("csk,csla->clka", force, fields)
    dr, half = moved[..., K:] - decay * r, moved[..., :K]
    kicks = (eta / batch) ** 2 * np.einsum("csi,clsz,czk->clik", force, products, force, optimize=True)
    dq = (1 - decay * small) * (half + np.swapaxes(half, 2, 3)) - (2 - decay * small) * decay * q + kicks
    dv = eta_v * float(problem.student.train_readout) * output.mean(axis=1)
    db = None if state.bias is None else eta_b * float(problem.student.train_bias) * force.mean(axis=1)
    return flatten(Overlaps(dr, dq, dv, db, None))


@eqx.filter_jit
def _updates(
    problem: Problem,
    state: Overlaps,
    fields: Float[Array, "count B n"],
    normals: Float[Array, "count B D"],
    norm2: Float[Array, "count B"],
    context: Context,
) -> Update:
    """The update of every sample, arrays (count, B, ...)."""
    K, parameters, mean = problem.student.hidden, Parameters(state.readout, state.bias), field_means(problem, state.bias)

    def one(fields: Array, normals: Array, norm2: Array) -> Update:
        return learn(problem, fields[:, :K], fields[:, K:], normals, parameters, context, norm2)

    return jax.vmap(one)(fields if mean is None else fields + mean, normals, norm2)


def require_free_steps(problem: Problem, start: Start, inputs: str, function: str) -> Start:
    """The start without its N: only its overlaps count. Raises InputError for what one step from rest does not show."""
    require_problem(problem, function, ("no momentum", "free norms", "all levels"))
    checks.known("inputs", inputs, LAWS)
    return require_start(start).without_dim()


@dataclass(frozen=True, repr=False)
class StepMoments(AnalysisResult, figure="plot_step_moments"):
    """Mean and covariance of one step, measured and predicted.

    drift, diffusion: N E[du] (size,) and N^2 Cov(du) (size, size) of one step, measured on `samples` steps.
    *_error: standard errors (of the difference, where the theory has one, too); *_theory: f(u) and D(u); *_z: (measured -
    theory) / standard error, whose largest size is largest_z. agrees: is every |z| below 5? With very many samples the gap of
    order 1/N shows: then a larger N must close it. names: of the coordinates, those that move; with several levels, level
    first. inputs: the law of the inputs. dim: N.
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
    drift_z: np.ndarray
    diffusion_z: np.ndarray
    largest_z: float
    agrees: bool

    def __str__(self) -> str:
        i = int(np.argmax(np.abs(self.drift_z)))
        j, k = np.unravel_index(int(np.argmax(np.abs(self.diffusion_z))), self.diffusion.shape)
        off = np.linalg.norm(self.drift - self.drift_theory) / np.linalg.norm(self.drift_theory)
        traces = np.trace(self.diffusion), np.trace(self.diffusion_theory)
        return (
            f"one step of {self.samples} networks with N = {self.dim}, {self.inputs} inputs, from the same initial condition\n"
            f"drift: {100 * off:.2g}% off as a vector; worst {self.names[i]}: {self.drift[i]:.4g} ± "
            f"{self.drift_error[i]:.2g}, theory {self.drift_theory[i]:.4g} (z = {self.drift_z[i]:+.1f})\n"
            f"diffusion: trace {traces[0]:.4g}, theory {traces[1]:.4g}; worst ({self.names[j]}, {self.names[k]}): "
            f"{self.diffusion[j, k]:.4g} ± {self.diffusion_error[j, k]:.2g}, theory {self.diffusion_theory[j, k]:.4g} "
            f"(z = {self.diffusion_z[j, k]:+.1f})\n"
            f"{'agree' if self.agrees else 'DIFFER'}: the largest |z| of {self.drift.size} drifts and "
            f"{self.drift.size * (self.drift.size + 1) // 2} covariances is {self.largest_z:.1f}, the limit {LARGEST_Z:g}"
        )


def step_moments(
    problem: Problem, start: Start, dim: int, *, samples: int = 20_000, inputs: str = "gaussian", seed: int = 0
) -> StepMoments:
    """Drift and diffusion of one step, measured on actual weights of input dimension N and predicted by the theory.

    Parameters
    ----------
    problem : Problem
        A schedule counts with its rate at time zero.
    start : Start
        The overlaps of the weights.
    dim : int
        N.
    samples, seed : int
        The number of steps, and their seed.
    inputs : str
        "gaussian", "rademacher", "uniform", "student_t" or "student_t3" (five and three degrees of freedom), independent
        with unit variance in eigencoordinates.

    Returns
    -------
    StepMoments

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> step = tu.analysis.step_moments(problem, tu.asymmetric_start(problem), dim=200, samples=4000)
    >>> step.agrees
    True
    """
    start = require_free_steps(problem, start, inputs, "step_moments")
    count, seed = checks.as_count("samples", samples, least=100), checks.as_count("seed", seed, least=0)
    steps = take_steps(problem, start, checks.as_count("dim", dim), count, inputs, seed).increments
    f, D, D_error = theory_moments(problem, start)
    moves = np.diagonal(D) > 0
    both, names = np.ix_(moves, moves), tuple(np.array(coordinate_names(problem))[moves].tolist())
    drift = steps[:, moves].mean(axis=0)
    away = steps[:, moves] - drift
    diffusion, fourth = away.T @ away / count, (away**2).T @ away**2 / count
    drift_error = np.sqrt(np.diagonal(diffusion) / count)
    error = np.hypot(np.sqrt(np.maximum(fourth - diffusion**2, 0.0) / count), D_error[both])
    z, diffusion_z = (drift - f[moves]) / drift_error, (diffusion - D[both]) / error
    largest = float(max(np.max(np.abs(z)), np.max(np.abs(diffusion_z))))
    found = drift, drift_error, f[moves], diffusion, error, D[both], z, diffusion_z, largest, largest < LARGEST_Z
    return StepMoments(problem, dim, count, inputs, names, *found)


def theory_moments(problem: Problem, start: Start) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f and D at a start, at time zero, in flat coordinates; and the error of D from its finite sets of points."""
    state, t = initial_overlaps(problem, start)
    local, vector = LocalDynamics(OrderParameters(problem, t), state), np.asarray(flatten(state))
    points = point_sets(THEORY_SETS, THEORY_POINTS, point_dims(problem))
    each = local.diffusions(np.tile(vector, (THEORY_SETS, 1)), 0.0, *points)
    return local.drift(vector), each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(THEORY_SETS)


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
