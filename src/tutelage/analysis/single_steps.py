"""Single steps: the matrices of their mean drift, and their mean and covariance.

The limit says N E[du] -> f(u) and N^2 Cov(du) -> D(u). The left sides are measured, by
Monte Carlo, on actual weights of N inputs that may follow any law of unit variance;
what is left at finite N is of order 1/N for Gaussian inputs, and shows how fast other
laws approach them. Weights W (K, N) and W* (M, N) have exactly the start's overlaps, in
a random frame of each eigenspace; each step of SGD starts from these weights, on fresh
inputs. With the fields x_l = P_l (w, w*).x / sqrt(N) of each level, the force delta_ks
= Delta_s v_k g'(lambda_ks), n_l dimensions in level l and the batch s = 1..B, exactly:
    N dr_l = eta mean_s[delta_k rho_l] N/n_l - eta kappa r_l
    N dq_l = (1 - eta kappa/N) eta mean_s[delta_i lambda_kl + delta_k lambda_il] N/n_l
             - (2 eta kappa - (eta kappa)^2/N) q_l
             + (eta/B)^2 sum_ss' delta_is delta_ks' x_s.P_l x_s' / n_l
    N dv = eta_v mean_s[Delta g],    N db = eta_b mean_s[delta]
In the limit n_l / N is p_l, x_s.P_l x_s' / n_l is lam_l for s = s' and else 0, and 1/N
vanishes.
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
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.sample import learn, normals_needed
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLASSIC
from tutelage.simulation.prepare import in_random_frames, level_coordinates
from tutelage.simulation.weights import LAWS, drawn_rows
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics, point_dims, point_sets
from tutelage.stream.moments.matrices import joint_covariance, mean_update
from tutelage.stream.order_parameters import (
    Overlaps,
    averages_of,
    field_means,
    flatten,
)
from tutelage.training.rules import Context, Parameters, Update
from tutelage.training.schedules import rate_at

NUMBERS_PER_BLOCK = 2**19  # numbers drawn at a time
THEORY_SETS = 8  # independent sets of points give the theory's D an error
THEORY_POINTS = 2**13  # in each of these sets
LARGEST_Z = 5.0  # |z| that a right theory exceeds once in thousands of measurements


class DriftMatrices(NamedTuple):
    """The matrices A (K, K) and B (K, M) of the mean drift."""

    A: Float[Array, "K K"]
    B: Float[Array, "K M"]


def drift_matrices(
    problem: Problem, R: Numbers, Q: Numbers, T: Numbers
) -> DriftMatrices:
    """Return the matrices A and B of the mean drift at given covariances of fields.

    On average one step moves student vectors by (eta/N) (A W + B W*) Omega, so that to
    order eta the overlaps of level l obey dr_l/dalpha = eta lam_l (A r_l + B t_l). With
    Delta the error of the output and g' = dg/dlambda_k, A and B solve E[Delta v_k g' x]
    = sum_j A_kj Omega w_j + sum_m B_km Omega w*_m (Gaussian integration by parts).

    Parameters
    ----------
    problem : Problem
        Activations, readouts and biases are used; learning rates, noise and the
        spectrum of the inputs are not.
    R, Q, T : arrays (K, M), (K, K) and (M, M)
        Covariances of student and teacher fields.

    Returns
    -------
    DriftMatrices
        The named tuple (A, B) of arrays (K, K) and (K, M). Differentiable in R, Q and
        T, and usable inside `jax.jit`.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> identity = np.eye(2)
    >>> A, B = tu.analysis.drift_matrices(problem, identity, identity, identity)
    >>> np.allclose(A + B, 0)  # perfect learning is a fixed point
    True
    """
    if not checks.is_traced(problem):
        require_problem(problem, "drift_matrices", CLASSIC)
    K = problem.student.hidden
    M = problem.labeler.hidden
    fix = "K student units, M teacher units."
    R = checks.as_array("R", R, checks.require_finite, shapes=[(K, M)], fix=fix)
    Q = checks.as_array("Q", Q, checks.require_gram, shapes=[(K, K)], fix=fix)
    T = checks.as_array("T", T, checks.require_gram, shapes=[(M, M)], fix=fix)
    joint = joint_covariance(R, Q, T)
    checks.require_gram("[[Q, R], [R.T, T]]", joint)
    update = mean_update(
        averages_of(problem),
        joint,
        field_means(problem, problem.student.bias),
        jnp.asarray(problem.student.readout),
        jnp.asarray(problem.labeler.readout),
    )
    return DriftMatrices(update.A, update.B)


class Steps(NamedTuple):
    """The changes of the overlaps in single steps.

    increments: N times the change of the flat coordinates, (count, size). limit: the
    change that the limit makes of the same samples.
    """

    increments: Float[np.ndarray, "count size"]
    limit: Float[np.ndarray, "count size"]


def take_steps(
    problem: Problem,
    start: Start,
    dim: int,
    count: int,
    inputs: str = "gaussian",
    seed: int = 0,
) -> Steps:
    """Take `count` single steps of a network with N = `dim` inputs.

    Each begins at the start, and follows the formulas above.
    """
    dims = problem.inputs.level_dims(dim)
    batch = problem.samples_per_step
    frame_rng, input_rng, label_rng = np.random.default_rng(seed).spawn(3)
    coordinates = level_coordinates(problem, start, dims)
    vectors = in_random_frames(coordinates, dims, frame_rng)
    vectors = np.roll(vectors, -problem.labeler.hidden, axis=0)  # students first
    draw = drawn_rows(problem, dims, inputs, input_rng)
    together = max(1, NUMBERS_PER_BLOCK // (dim * batch))
    fields_of_blocks = []
    products_of_blocks = []
    for first in range(0, count, together):
        samples = min(together, count - first) * batch
        rows = draw(first, samples).reshape(-1, batch, dim)
        fields, products = _level_sums(rows, vectors, dims)
        fields_of_blocks.append(fields)
        products_of_blocks.append(products)
    fields = np.concatenate(fields_of_blocks)
    products = np.concatenate(products_of_blocks)
    noise = label_rng.standard_normal((count, batch, normals_needed(problem)))
    lam = np.asarray(problem.inputs.eigenvalues, float)
    limit_products = lam[:, None, None] * np.eye(batch)
    increments = _increments(
        problem,
        start,
        fields,
        noise,
        products=products,
        shares=dims / dim,
        small=1 / dim,
    )
    limit = _increments(
        problem,
        start,
        fields,
        noise,
        products=np.broadcast_to(limit_products, products.shape),
        shares=np.asarray(problem.inputs.fractions, float),
        small=0.0,
    )
    return Steps(increments, limit)


def _level_sums(
    rows: Float[np.ndarray, "count B N"],
    vectors: Float[np.ndarray, "n N"],
    dims: np.ndarray,
) -> tuple[Float[np.ndarray, "count B L n"], Float[np.ndarray, "count L B B"]]:
    """Return the fields of inputs in each level, and x_s.P_l x_s' / n_l."""
    edges = np.cumsum(dims)[:-1]
    fields = []
    products = []
    rows_by_level = np.split(rows, edges, axis=-1)
    vectors_by_level = np.split(vectors, edges, axis=1)
    for x, v in zip(rows_by_level, vectors_by_level, strict=True):
        fields.append(x @ v.T)
        products.append(x @ np.swapaxes(x, -1, -2) / x.shape[-1])
    dim = rows.shape[-1]
    return np.stack(fields, axis=-2) / np.sqrt(dim), np.stack(products, axis=1)


def _increments(
    problem: Problem,
    start: Start,
    fields: Float[np.ndarray, "count B L n"],
    noise: Float[np.ndarray, "count B D"],
    products: Float[np.ndarray, "count L B B"],
    shares: Float[np.ndarray, " L"],
    small: float,
) -> Float[np.ndarray, "count size"]:
    """Return N du of steps.

    products: x_s.P_l x_s' / n_l. shares: n_l / N. small: 1/N.
    """
    state, t = initial_overlaps(problem, start)
    r = np.asarray(state.r)
    q = np.asarray(state.q)
    system = OrderParameters(problem, t)
    eta, eta_v, eta_b = (float(x) for x in system.rates(jnp.zeros(())))
    context = system.context(jnp.zeros(()), *system.covariances(state))
    decay = eta * float(rate_at(problem.optimizer.weight_decay, 0.0))
    norm2 = np.einsum("l,clss->cs", shares, products)
    update = _updates(
        problem,
        state,
        jnp.asarray(fields.sum(axis=2)),
        jnp.asarray(noise),
        jnp.asarray(norm2),
        context,
    )
    force = np.asarray(update.delta)
    output = np.asarray(update.parameters.readout)
    batch, K = force.shape[1:]
    # eta mean_s[delta_k x_l] N/n_l, for students and for teachers
    scale = eta / batch / shares[:, None, None]
    moved = scale * np.einsum("csk,csla->clka", force, fields)
    half = moved[..., :K]
    dr = moved[..., K:] - decay * r
    kicks = (eta / batch) ** 2 * np.einsum(
        "csi,clsz,czk->clik", force, products, force, optimize=True
    )
    drift_of_q = (1 - decay * small) * (half + np.swapaxes(half, 2, 3))
    dq = drift_of_q - (2 - decay * small) * decay * q + kicks
    dv = eta_v * float(problem.student.train_readout) * output.mean(axis=1)
    db = None
    if state.bias is not None:
        of_bias = np.asarray(update.parameters.bias)
        db = eta_b * float(problem.student.train_bias) * of_bias.mean(axis=1)
    return flatten(Overlaps(r=dr, q=dq, readout=dv, bias=db, velocity=None))


@eqx.filter_jit
def _updates(
    problem: Problem,
    state: Overlaps,
    fields: Float[Array, "count B n"],
    normals: Float[Array, "count B D"],
    norm2: Float[Array, "count B"],
    context: Context,
) -> Update:
    """Return the update of every sample, arrays (count, B, ...)."""
    K = problem.student.hidden
    parameters = Parameters(state.readout, state.bias)
    mean = field_means(problem, state.bias)
    if mean is not None:
        fields = fields + mean

    def batch_update(fields: Array, normals: Array, norm2: Array) -> Update:
        students = fields[:, :K]
        teachers = fields[:, K:]
        return learn(problem, students, teachers, normals, parameters, context, norm2)

    return jax.vmap(batch_update)(fields, normals, norm2)


def require_free_steps(
    problem: Problem, start: Start, inputs: str, function: str
) -> Start:
    """Return the start without its N, because only its overlaps count.

    Raise InputError for what one step from rest does not show.
    """
    require_problem(problem, function, ("no momentum", "free norms", "all levels"))
    checks.known("inputs", inputs, LAWS)
    return require_start(start).without_dim()


@dataclass(frozen=True, repr=False)
class StepMoments(AnalysisResult, figure="plot_step_moments"):
    """Mean and covariance of one step, measured and predicted.

    Attributes
    ----------
    dim
        N.
    inputs
        The law of the inputs.
    names
        Those of the coordinates that move; with several levels, level first.
    drift, diffusion
        N E[du] (size,) and N^2 Cov(du) (size, size) of one step, measured on `samples`
        steps.
    drift_error, diffusion_error
        Standard errors (of the difference, where the theory has one, too).
    drift_theory, diffusion_theory
        f(u) and D(u).
    drift_z, diffusion_z
        (measured - theory) / standard error, whose largest size is largest_z.
    agrees
        True if every |z| is below 5. With very many samples the gap of order 1/N shows:
        then a larger N must close it.
    increments, limit
        N du of each step, (samples, size), and what the limit makes of the same samples.
        Their difference shows the gap of order 1/N without most of its noise.
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
    increments: np.ndarray
    limit: np.ndarray

    def __str__(self) -> str:
        size = self.drift.size
        return "\n".join(
            [
                f"one step of {self.samples} networks with N = {self.dim}, "
                f"{self.inputs} inputs, from the same initial condition",
                self._drift_line(),
                self._diffusion_line(),
                f"{'agree' if self.agrees else 'DIFFER'}: the largest |z| of {size} "
                f"drifts and {size * (size + 1) // 2} covariances is "
                f"{self.largest_z:.1f}, the limit {LARGEST_Z:g}",
            ]
        )

    def _drift_line(self) -> str:
        """Return the gap of the drift as a whole, and its worst coordinate."""
        i = int(np.argmax(np.abs(self.drift_z)))
        gap = np.linalg.norm(self.drift - self.drift_theory)
        off = gap / np.linalg.norm(self.drift_theory)
        return (
            f"drift: {100 * off:.2g}% off as a vector; worst {self.names[i]}: "
            f"{self.drift[i]:.4g} ± {self.drift_error[i]:.2g}, "
            f"theory {self.drift_theory[i]:.4g} (z = {self.drift_z[i]:+.1f})"
        )

    def _diffusion_line(self) -> str:
        """Return the traces of the diffusion, and its worst entry."""
        worst = int(np.argmax(np.abs(self.diffusion_z)))
        j, k = np.unravel_index(worst, self.diffusion.shape)
        return (
            f"diffusion: trace {np.trace(self.diffusion):.4g}, "
            f"theory {np.trace(self.diffusion_theory):.4g}; "
            f"worst ({self.names[j]}, {self.names[k]}): "
            f"{self.diffusion[j, k]:.4g} ± {self.diffusion_error[j, k]:.2g}, "
            f"theory {self.diffusion_theory[j, k]:.4g} "
            f"(z = {self.diffusion_z[j, k]:+.1f})"
        )


def step_moments(
    problem: Problem,
    start: Start,
    dim: int,
    *,
    samples: int = 20_000,
    inputs: str = "gaussian",
    seed: int = 0,
) -> StepMoments:
    """Return drift and diffusion of one step, measured and predicted.

    They are measured on actual weights of input dimension N.

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
        "gaussian", "rademacher", "uniform", "student_t" or "student_t3" (five and three
        degrees of freedom), independent with unit variance in eigencoordinates.

    Returns
    -------
    StepMoments

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem)
    >>> step = tu.analysis.step_moments(problem, start, dim=200, samples=4000)
    >>> step.agrees
    True
    """
    start = require_free_steps(problem, start, inputs, "step_moments")
    count = checks.as_count("samples", samples, least=100)
    seed = checks.as_count("seed", seed, least=0)
    dim = checks.as_count("dim", dim)
    steps = take_steps(problem, start, dim, count, inputs, seed)
    theory = theory_moments(problem, start)
    moves = np.diagonal(theory.diffusion) > 0
    both = np.ix_(moves, moves)
    names = np.array(coordinate_names(problem))[moves]
    increments = steps.increments[:, moves]
    drift = increments.mean(axis=0)
    away = increments - drift
    diffusion = away.T @ away / count
    fourth = (away**2).T @ away**2 / count
    drift_error = np.sqrt(np.diagonal(diffusion) / count)
    sampling_error = np.sqrt(np.maximum(fourth - diffusion**2, 0.0) / count)
    diffusion_error = np.hypot(sampling_error, theory.diffusion_error[both])
    drift_theory = theory.drift[moves]
    diffusion_theory = theory.diffusion[both]
    drift_z = (drift - drift_theory) / drift_error
    diffusion_z = (diffusion - diffusion_theory) / diffusion_error
    largest_z = float(max(np.max(np.abs(drift_z)), np.max(np.abs(diffusion_z))))
    return StepMoments(
        problem=problem,
        dim=dim,
        samples=count,
        inputs=inputs,
        names=tuple(names.tolist()),
        drift=drift,
        drift_error=drift_error,
        drift_theory=drift_theory,
        diffusion=diffusion,
        diffusion_error=diffusion_error,
        diffusion_theory=diffusion_theory,
        drift_z=drift_z,
        diffusion_z=diffusion_z,
        largest_z=largest_z,
        agrees=largest_z < LARGEST_Z,
        increments=increments,
        limit=steps.limit[:, moves],
    )


class TheoryMoments(NamedTuple):
    """The theory's f and D in flat coordinates, and the error of D."""

    drift: np.ndarray
    diffusion: np.ndarray
    diffusion_error: np.ndarray


def theory_moments(problem: Problem, start: Start) -> TheoryMoments:
    """Return f and D at a start, at time zero, in flat coordinates.

    The error of D comes from its finite sets of points.
    """
    state, t = initial_overlaps(problem, start)
    local = LocalDynamics(OrderParameters(problem, t), state)
    vector = np.asarray(flatten(state))
    points = point_sets(THEORY_SETS, THEORY_POINTS, point_dims(problem))
    by_set = local.diffusions(np.tile(vector, (THEORY_SETS, 1)), 0.0, *points)
    return TheoryMoments(
        drift=local.drift(vector),
        diffusion=by_set.mean(axis=0),
        diffusion_error=by_set.std(axis=0, ddof=1) / np.sqrt(THEORY_SETS),
    )


def coordinate_names(problem: Problem) -> list[str]:
    """Return the names of the flat coordinates.

    They are R_12, or r_2,12 in level 2 of several; v and b with one index.
    """
    L = problem.inputs.levels
    K = problem.student.hidden
    M = problem.labeler.hidden
    separator = "," if max(K, M) > 9 else ""
    pairs_of_R = list(np.ndindex(K, M))
    pairs_of_Q = np.stack(np.triu_indices(K), axis=1).tolist()
    names = []
    for letter, pairs in (("R", pairs_of_R), ("Q", pairs_of_Q)):
        for level in range(L):
            head = f"{letter}_" if L == 1 else f"{letter.lower()}_{level + 1},"
            for i, j in pairs:
                names.append(f"{head}{i + 1}{separator}{j + 1}")
    names += [f"v_{k + 1}" for k in range(K)]
    if problem.biased:
        names += [f"b_{k + 1}" for k in range(K)]
    return names
