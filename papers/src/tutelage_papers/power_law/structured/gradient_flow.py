"""Gradient flow (terms of order eta) of the weights themselves.

For any spectrum, with as many levels as inputs.

`weight_flow` moves K x N weights instead of L (K M + K^2) overlaps, so that L = N is no
harder than L = 1. A student vector moves along dW = eta (A W + B W*) Omega
(`tu.analysis.drift_matrices`): no noise, no limit of large N. In the eigenbasis Omega is a
list of N eigenvalues. The overlaps are those of `solve(..., gradient_flow=True)` exactly;
for K = M = 40 and 512 levels the state has 20 thousand numbers instead of 1.6 million.

`symmetric_flow` needs four numbers per level, whatever K = M is, for orthonormal teachers
and students that all have the same overlaps with their own teacher and with all others.
Then in each level W = U W* + Z with

    U = u_P P + u_J J,    Z Z^T = z_P^2 P + z_J^2 J,    J = 11^T / K,  P = 1 - J,

Z orthogonal to the teachers, and A and B have the same form. All of them commute, so that
in each level and for both letters x = P, J

    u_x' = eta lam (a_x u_x + b_x),      z_x' = eta lam a_x z_x.

a and b need the first rows of A and B only, where K - 1 equal terms are one: two units with
readouts v and (K-1) v have the same row sums.

Wide spectra are stiff: the fastest direction of a power law is 10^3 to 10^6 times faster
than those that matter late. An explicit method must resolve it; an implicit one solves K N
equations. `Chebyshev` (Runge-Kutta-Chebyshev, second order) makes a step of s stages stable
that is about 0.65 s^2 / rho long, rho the largest decay rate (Sommeijer, Shampine and
Verwer, J. Comput. Appl. Math. 88 (1998) 315): the cost grows with the square root of the
stiffness. It needs real spectra, as those of gradient flows are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.typing import ArrayLike

import tutelage as tu
from tutelage import (
    InputError,
    Problem,
    Start,
    Trajectory,
    checks,
    generalization_error,
)
from tutelage.analysis import drift_matrices
from tutelage_papers.assumptions import (
    constant_rate,
    first_layer_problem,
    require_pair,
    require_start,
)
from tutelage_papers.power_law.conventions import as_trajectory
from tutelage_papers.power_law.structured.asymptotic_decay import matching_teachers
from tutelage_papers.power_law.structured.response import (
    as_numpy,
    specialization_response,
    without_inputs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAMPING = 2 / 13
RATE_MARGIN = 1.25  # the power method approaches rho from below
MOST_STAGES = 1000
# Rounds of the power method before the first step and in each.
FIRST_ROUNDS = 40
LATER_ROUNDS = 2
# Relative length of the difference that stands for a derivative.
DIFFERENCE_LENGTH = 1e-6
SYMMETRY_TOLERANCE = 1e-9  # how far entries of a symmetric start may differ


class Chebyshev(diffrax.AbstractSolver):
    """A diffrax solver for one array; use it with an adaptive step-size controller."""

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = diffrax.ThirdOrderHermitePolynomialInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def init(
        self, terms: Any, t0: Any, t1: Any, y0: Array, args: Any
    ) -> tuple[Array, Array]:
        """Return rho and its direction, from a direction that no symmetry makes blind."""
        places = jnp.arange(y0.size, dtype=y0.dtype)
        rough = jnp.cos(1.0 + places**2).reshape(y0.shape)
        force = terms.vf(t0, y0, args)
        return _spectral_radius(terms, t0, y0, force, args, rough, FIRST_ROUNDS)

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Array,
        args: Any,
        solver_state: Any,
        made_jump: Any,
    ) -> Any:
        h = t1 - t0
        force = terms.vf(t0, y0, args)
        _, direction = solver_state
        rho, direction = _spectral_radius(
            terms, t0, y0, force, args, direction, LATER_ROUNDS
        )
        needed = 1 + jnp.ceil(jnp.sqrt(1.0 + 1.54 * h * RATE_MARGIN * rho)).astype(int)
        stages = jnp.clip(needed, 2, MOST_STAGES)
        y1 = _stages(terms, t0, h, y0, force, args, stages)
        after = terms.vf(t1, y1, args)
        error = 0.8 * (y0 - y1) + 0.4 * h * (force + after)
        dense = {"y0": y0, "y1": y1, "k0": h * force, "k1": h * after}
        return y1, error, dense, (rho, direction), diffrax.RESULTS.successful

    def func(self, terms: Any, t0: Any, y0: Array, args: Any) -> Array:
        return terms.vf(t0, y0, args)


def _spectral_radius(
    terms: Any, t: Any, y: Array, force: Array, args: Any, direction: Array, rounds: int
) -> tuple[Array, Array]:
    """rho and its direction by the power method on differences of the force."""
    size = DIFFERENCE_LENGTH * (jnp.linalg.norm(y) + 1e-3 * jnp.sqrt(y.size))

    def one_round(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, direction = state
        unit = direction / jnp.linalg.norm(direction)
        change = (terms.vf(t, y + size * unit, args) - force) / size
        return jnp.linalg.norm(change), change

    rho, change = jax.lax.fori_loop(0, rounds, one_round, (jnp.zeros(()), direction))
    return rho, change / jnp.maximum(jnp.linalg.norm(change), 1e-300)


def _stages(
    terms: Any, t0: Any, h: Any, y0: Array, force: Array, args: Any, s: Array
) -> Array:
    """The s stages of one step.

    Chebyshev polynomials T, T', T'' at w0 are carried along (T, D, S below, each with the
    one of the stage before), and b_j = T''_j / T'_j^2.
    """
    w0 = 1 + DAMPING / s**2
    root = jnp.sqrt(w0**2 - 1)
    angle = s * jnp.log(w0 + root)
    slope_s = jnp.cosh(angle) * s * root - w0 * jnp.sinh(angle)
    w1 = jnp.sinh(angle) * (w0**2 - 1) / slope_s
    b1 = 1 / (4 * w0**2)  # b_0 = b_1 = b_2
    y1 = y0 + b1 * w1 * h * force

    def one_stage(j: Array, state: Any) -> Any:
        (y_, y), (T_, T), (D_, D), (S_, S), (b_, b), c = state
        new_T = 2 * w0 * T - T_
        new_D = 2 * w0 * D - D_ + 2 * T
        new_S = 2 * w0 * S - S_ + 4 * D
        new_b = new_S / new_D**2
        mu = 2 * new_b * w0 / b
        nu = -new_b / b_
        weight = 2 * new_b * w1 / b
        slope = terms.vf(t0 + c * h, y, args)
        mixed = (1 - mu - nu) * y0 + mu * y + nu * y_
        new_y = mixed + weight * h * (slope - (1 - b * T) * force)
        new_c = w1 * new_S / new_D
        pairs = (y, new_y), (T, new_T), (D, new_D), (S, new_S), (b, new_b)
        return (*pairs, new_c)

    one = jnp.ones_like(w0)
    zero = jnp.zeros_like(w0)
    first = ((y0, y1), (one, w0), (zero, one), (zero, zero), (b1, b1), b1 * w1)
    (_, y), *_ = jax.lax.fori_loop(2, s + 1, one_stage, first)
    return y


FLOW_SOLVERS = {"stabilized": Chebyshev, "explicit": diffrax.Dopri8}


class GradientFlow:
    """A gradient flow: the learning curve is its figure."""

    trajectory: Trajectory

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw the learning curve (see `plot.save_figure`)."""
        return tu.plot.plot_trajectory(self.trajectory, title=title)

    def _summary(self, what: str, note: str = "") -> str:
        times = self.trajectory.times
        error = self.trajectory.error
        steps = int(self.trajectory.steps)
        span = f"to alpha = {times[-1]:g}: e_g from {error[0]:.4g} to {error[-1]:.4g}"
        return f"gradient flow of {what} {span}{note}, {steps} steps"


@dataclass(frozen=True)
class WeightFlow(GradientFlow):
    """The gradient flow of weights.

    trajectory: R, Q and e_g against time, as from `solve`. weights (time, K, N),
    teacher_weights (M, N): eigenbasis, in the order of levels. eigenvalues (N,): of each
    coordinate.
    """

    trajectory: Trajectory
    weights: Float[np.ndarray, "time K N"]
    teacher_weights: Float[np.ndarray, "M N"]
    eigenvalues: Float[np.ndarray, " N"]

    @property
    def asymmetry(self) -> np.ndarray:
        """The distance of the students from each other, (time,).

        Root mean square distance of their fields from their common one.
        """
        apart = self.weights - self.weights.mean(axis=1, keepdims=True)
        return np.sqrt(np.mean(apart**2 * self.eigenvalues, axis=(1, 2)))

    def specialization_rates(self, index: int) -> np.ndarray:
        """Return all rates at which symmetric students specialize near their mean.

        At times[index], (N,), the fastest first. Near the mean student,
        delta' = eta Omega (a + V^T X V Omega / N) delta, V = (mean student, teachers): the
        same rates as those of the symmetric matrix eta (a Omega + Omega V^T X V Omega / N).
        The mean need not be at rest.
        """
        problem: Any = self.trajectory.problem
        lam = self.eigenvalues
        N = lam.size
        mean = self.weights[index].mean(axis=0, keepdims=True)
        V = np.concatenate([mean, self.teacher_weights]) * lam
        C = V @ (V / lam).T / N
        a, X = as_numpy(
            *specialization_response(
                without_inputs(problem), C[0, 1:], C[0, 0], C[1:, 1:]
            )
        )
        response = np.diag(a * lam) + V.T @ X @ V / N
        matrix = constant_rate(problem, "weight_flow") * response
        return np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1]

    def __str__(self) -> str:
        _, K, N = self.weights.shape
        return self._summary(f"{K} x {N} weights")


def _flow_trajectory(
    problem: Problem,
    start: Start,
    times: np.ndarray,
    observed: Any,
    steps: Any,
    solver: str,
    rtol: float,
) -> Trajectory:
    """The observed R, Q, e_g and T as a trajectory."""
    R, Q, error, T = observed
    settings = {"gradient_flow": True, "rtol": float(rtol), "solver": solver}
    return as_trajectory(
        problem, start, times, {"R": R, "Q": Q}, error, T, steps, **settings
    )


def weight_flow(
    problem: Problem,
    weights: tuple[ArrayLike, ArrayLike],
    times: ArrayLike = 100.0,
    *,
    linear: bool = False,
    solver: str = "stabilized",
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 100_000,
) -> WeightFlow:
    """Return the gradient flow (terms of order eta) of given weights.

    weights = (W (K, N), W* (M, N)), as in `simulate`. times: increasing times, or the last
    one. linear: only the part of the force that is linear in W - W*, each student near its
    own teacher: the last stage of learning as a sum of exponentials, as `asymptotic_decay`,
    for any L up to N (K = M). solver: "stabilized" (second order, for wide spectra,
    `Chebyshev`) or "explicit" (Dopri8, for narrow ones and high accuracy). Only first-layer
    weights learn, at a constant rate.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.power_law.committee(2, lr=0.5)
    >>> W_teacher = np.random.default_rng(0).standard_normal((2, 20))
    >>> flow = tutelage_papers.power_law.weight_flow(
    ...     problem, (0.5 * W_teacher, W_teacher), times=[0.0, 10.0]
    ... )
    >>> bool(flow.trajectory.error[-1] < flow.trajectory.error[0])
    True
    """
    problem = first_layer_problem(problem, "weight_flow")
    solver = checks.known("solver", solver, FLOW_SOLVERS)
    both = require_pair(weights)
    start = tu.start_from_weights(problem, *both)  # checks both
    W, W_teacher = (_in_eigenbasis(problem, each) for each in both)
    counts = problem.inputs.level_dims(W.shape[1])
    lam = np.repeat(np.asarray(problem.inputs.eigenvalues), counts)
    times = _as_times(times)
    if checks.as_flag("linear", linear):
        order = matching_teachers(problem, (W * lam) @ W_teacher.T / lam.size)
        W_teacher = W_teacher[order]
    rate = constant_rate(problem, "weight_flow")
    data = jax.tree.map(jnp.asarray, (W, W_teacher, lam, times, rate))
    most = checks.as_count("max_steps", max_steps)
    options = (solver, linear, float(rtol), float(atol), most)
    plain = without_inputs(problem)
    saved, (R, Q, T), steps, done = jax.tree.map(
        np.asarray, _weight_flow(plain, data, options)
    )
    if not done:
        raise InputError(
            f"the flow ran out of {max_steps} steps; raise max_steps or rtol, or use "
            "solver='stabilized'."
        )
    error = np.asarray(generalization_error(plain, R, Q, T))
    observed = R, Q, error, T
    return WeightFlow(
        trajectory=_flow_trajectory(
            problem, start, times, observed, steps, solver, rtol
        ),
        weights=saved,
        teacher_weights=W_teacher,
        eigenvalues=lam,
    )


def _in_eigenbasis(problem: Problem, weights: ArrayLike) -> np.ndarray:
    """Weights (units, N) along the eigenvectors of the inputs, level by level."""
    basis = problem.inputs.basis
    coordinates = np.asarray(weights, dtype=float)
    if basis is None:
        return coordinates
    return coordinates @ basis.T


def _as_times(given: ArrayLike) -> np.ndarray:
    """Times that increase from zero or later, or those up to the last one."""
    times = checks.as_array("times", given)
    if np.ndim(times) == 0:
        times = tu.linear_times(float(times))
    several = np.ndim(times) == 1 and np.size(times) >= 2
    if not several or np.any(np.diff(times) <= 0) or times[0] < 0:
        raise InputError(
            f"times are {checks.shown(times)}; give two or more that increase from zero "
            "or later."
        )
    return times


@eqx.filter_jit
def _weight_flow(problem: Problem, data: Any, options: tuple) -> Any:
    """Saved weights, R, Q and T, steps taken, and whether it reached the end."""
    W, W_teacher, lam, times, eta = data
    solver, linear, rtol, atol, max_steps = options
    N = W.shape[1]
    T = (W_teacher * lam) @ W_teacher.T / W.shape[1]

    def overlaps(W: Array) -> tuple[Array, Array]:
        fields = W * lam
        return fields @ W_teacher.T / N, fields @ W.T / N

    def force(W: Array) -> Array:
        A, B = drift_matrices(problem, *overlaps(W), T)
        return eta * lam * (A @ W + B @ W_teacher)

    def drift(t: Any, W: Array, _: Any) -> Array:
        if not linear:
            return force(W)
        _, change = jax.jvp(force, (W_teacher,), (W - W_teacher,))
        return change

    saved, steps, done = _integrate(drift, W, times, (solver, rtol, atol, max_steps))
    return saved, (*jax.lax.map(overlaps, saved), T), steps, done


def _integrate(
    drift: Callable[..., Array], y0: Array, times: Array, options: tuple
) -> tuple[Array, Array, Array]:
    """Saved states, steps taken, and whether it reached the end.

    options: solver, rtol, atol, max_steps.
    """
    solver, rtol, atol, max_steps = options
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(drift),
        FLOW_SOLVERS[solver](),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=y0,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(
            rtol=rtol, atol=atol, pcoeff=0.2, icoeff=0.5
        ),
        adjoint=diffrax.ForwardMode(),
        max_steps=max_steps,
        throw=False,
    )
    done = solution.result == diffrax.RESULTS.successful
    return solution.ys, solution.stats["num_accepted_steps"], done


@dataclass(frozen=True)
class SymmetricFlow(GradientFlow):
    """The gradient flow of symmetric units.

    In each level W = U W* + Z, with Z orthogonal to the teachers. trajectory: R, Q and e_g
    against time, as from `solve`. inside, outside (time, 2, L): the eigenvalues u of U and z
    of Z, first for deviations that sum to zero over units, then for the common one.
    """

    trajectory: Trajectory
    inside: Float[np.ndarray, "time 2 L"]
    outside: Float[np.ndarray, "time 2 L"]

    @property
    def slopes(self) -> np.ndarray:
        """d ln e_g / d ln alpha at each time after the first.

        NaN at time zero, where e_g is zero, and of a single time.
        """
        t = np.asarray(self.trajectory.times)
        error = np.asarray(self.trajectory.error)
        slopes = np.full(t.size, np.nan)
        good = (t > 0) & (error > 0)
        if good.sum() > 1:
            slopes[good] = np.gradient(np.log(error[good]), np.log(t[good]))
        return slopes

    def __str__(self) -> str:
        K = self.trajectory.R.shape[1]
        L = self.inside.shape[2]
        units = f"{K} symmetric units on {L} level{'s' * (L > 1)}"
        return self._summary(units, f", last slope {self.slopes[-1]:.3g}")


def symmetric_flow(
    problem: Problem,
    start: Start,
    times: ArrayLike = 100.0,
    *,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 100_000,
) -> SymmetricFlow:
    """Return the gradient flow (terms of order eta) from a symmetric start.

    The cost grows with L, not with K. start: the same in all levels, or per level: R with
    one number on and one off the diagonal, Q likewise, and T = 1 in each level. K = M,
    readouts equal within each network. times: increasing times, or the last one.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(beta=1.0, levels=4)
    >>> problem = tutelage_papers.power_law.committee(3, inputs=inputs, lr=0.5)
    >>> start = tu.Start(R=0.1 + 0.1 * np.eye(3), Q=0.1 + 0.2 * np.eye(3))
    >>> flow = tutelage_papers.power_law.symmetric_flow(
    ...     problem, start, times=[0.0, 1.0, 10.0, 100.0]
    ... )
    >>> bool(flow.trajectory.error[-1] < flow.trajectory.error[0])
    True
    """
    problem = first_layer_problem(problem, "symmetric_flow")
    K = problem.student.hidden
    M = problem.labeler.hidden
    v, v_teacher = as_numpy(problem.student.readout, problem.labeler.readout)
    alike = np.allclose(v, v[0]) and np.allclose(v_teacher, v_teacher[0])
    if K != M or K < 2 or not alike:
        raise InputError(
            f"the problem has {K} student and {M} teacher units; symmetric units need "
            "K = M >= 2 and equal readouts in each network. Use weight_flow or solve."
        )
    times = _as_times(times)
    state = _symmetric_state(problem, require_start(start))
    two = _two_units(problem, K, float(v[0]), float(v_teacher[0]))
    lam, weights = as_numpy(problem.inputs.eigenvalues, problem.inputs.weights)
    rate = constant_rate(problem, "symmetric_flow")
    data = jax.tree.map(jnp.asarray, (state, lam, weights, times, rate, float(K)))
    most = checks.as_count("max_steps", max_steps)
    options = ("stabilized", float(rtol), float(atol), most)
    saved, steps, done = jax.tree.map(np.asarray, _symmetric_flow(two, data, options))
    if not done:
        raise InputError(
            f"the flow ran out of {max_steps} steps; raise max_steps or rtol."
        )
    inside = saved[:, :2]
    outside = saved[:, 2:]
    R = _symmetric_matrices(inside @ weights, K)
    Q = _symmetric_matrices((inside**2 + outside**2) @ weights, K)
    T = np.sum(weights) * np.eye(K)
    error = np.asarray(generalization_error(without_inputs(problem), R, Q, T))
    observed = R, Q, error, T
    return SymmetricFlow(
        trajectory=_flow_trajectory(
            problem, start, times, observed, steps, "stabilized", rtol
        ),
        inside=inside,
        outside=outside,
    )


def _symmetric_state(problem: Problem, start: Start) -> np.ndarray:
    """(u_P, u_J, z_P, z_J) of each level, (4, L)."""
    K = problem.student.hidden
    L = problem.inputs.levels
    mean = float(np.sum(problem.inputs.weights))
    T = start.T
    if T is None:
        T = problem.labeler.gram
    if T is None:
        T = mean * np.eye(K)
    r = _by_level(start.R, mean)
    q = _by_level(start.Q, mean)
    t = _by_level(T, mean)
    if r.shape[1:] != (K, K) or len(r) not in (1, L):
        raise InputError(
            f"the Start has R of shape {np.shape(start.R)}; the problem has {K} units on "
            f"{L} levels."
        )
    u = _eigenvalues(r)
    squared = _eigenvalues(q)
    orthonormal = np.max(np.abs(t - np.eye(K))) <= SYMMETRY_TOLERANCE
    if u is None or squared is None or not orthonormal:
        raise InputError(
            "the Start has units that are not symmetric, or teacher vectors that are not "
            "orthonormal in each level; give R and Q with one number on and one off the "
            "diagonal and T = 1, or use weight_flow or solve."
        )
    outside = squared - u**2
    if np.min(outside) < -SYMMETRY_TOLERANCE:
        raise InputError(
            "the initial Q is smaller than R R^T; squared lengths outside the teachers' "
            "span must not be negative."
        )
    return np.concatenate([u, np.sqrt(np.maximum(outside, 0.0))]) * np.ones(L)


def _by_level(overlap: ArrayLike, mean: float) -> np.ndarray:
    """(L, K, K), or (1, K, K) where all levels are the same.

    Overlaps of the fields are then `mean` times those of a level.
    """
    overlap = np.asarray(overlap)
    if overlap.ndim == 3:
        return overlap
    return overlap[None] / mean


def _eigenvalues(x: np.ndarray) -> np.ndarray | None:
    """(P, J) eigenvalues of own 1 + other (11^T - 1), by level, (2, L).

    None if x is not of this form.
    """
    K = x.shape[-1]
    own = x[:, 0, 0]
    other = x[:, 0, 1]
    symmetric = own[:, None, None] * np.eye(K) + other[:, None, None] * (1 - np.eye(K))
    if np.max(np.abs(x - symmetric)) > SYMMETRY_TOLERANCE:
        return None
    return np.stack([own - other, own + (K - 1) * other])


def _symmetric_matrices(pairs: np.ndarray, K: int) -> np.ndarray:
    """Matrices (..., K, K) with these eigenvalues (..., 2)."""
    P = pairs[..., 0, None, None]
    J = pairs[..., 1, None, None]
    return P * np.eye(K) + (J - P) / K


def _two_units(problem: Problem, K: int, v: float, v_teacher: float) -> Problem:
    """Unit one, and unit two in place of all others.

    With the same Delta and the same row sums of A and B.
    """
    many = np.array([1.0, K - 1.0])
    return Problem(
        tu.Network(2, problem.student.activation, readout=v * many),
        tu.Network(2, problem.labeler.activation, readout=v_teacher * many),
        inputs=tu.Isotropic(),
    )


@eqx.filter_jit
def _symmetric_flow(two: Problem, data: Any, options: tuple) -> Any:
    """Saved states (time, 4, L), steps taken, and whether it reached the end."""
    state, lam, weights, times, eta, K = data
    mean = jnp.sum(weights)

    def two_of(pair: Array) -> Array:
        """The entries of two units: (P, J) eigenvalues -> own and other."""
        other = (pair[1] - pair[0]) / K
        return (pair[0] + other) * jnp.eye(2) + other * (1 - jnp.eye(2))

    def eigenvalues_of(matrix: Array) -> Array:
        """The (P, J) eigenvalues of all units from the matrix of two, (2, 1)."""
        own = matrix[0, 0]
        others = matrix[0, 1]
        return jnp.stack([own - others / (K - 1), own + others])[:, None]

    def drift(t: Any, y: Array, _: Any) -> Array:
        u = y[:2]
        z = y[2:]
        R = two_of(u @ weights)
        Q = two_of((u**2 + z**2) @ weights)
        A, B = drift_matrices(two, R, Q, mean * jnp.eye(2))
        a = eigenvalues_of(A)
        b = eigenvalues_of(B)
        return eta * lam * jnp.concatenate([a * u + b, a * z])

    return _integrate(drift, state, times, options)
