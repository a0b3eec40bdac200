"""Gradient flow of the weights themselves: K x N numbers instead of L (K M + K^2), so that L = N is no harder than L = 1.

To order eta a student vector moves along dW = eta (A W + B W*) Omega (matrices.py): no noise, no limit of large N.
In the eigenbasis Omega is a list of N eigenvalues. Its overlaps are those of `solve(..., gradient_flow=True)` exactly; for
K = M = 40 and 512 levels the state has 20 thousand numbers instead of 1.6 million.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError, Status
from tutelage._types import Array
from tutelage.analysis.structured.chebyshev import Chebyshev
from tutelage.analysis.structured.asymptotic_decay import own_teachers
from tutelage.analysis.structured.response import (
    effective_rate,
    first_layer_problem,
    numbers,
    parting_response,
    drift_matrices,
    without_inputs,
)
from tutelage.dynamics.error import averages_of, population_error, shared_parity
from tutelage.problem import Problem, Start, start_from_weights
from tutelage.problem.arguments import require_pair
from tutelage.problem.start import weights_by_level
from tutelage.times import linear_times
from tutelage.trajectory import Trajectory, eager

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOLVERS = {"stabilized": Chebyshev, "explicit": diffrax.Dopri8}


@dataclass(frozen=True)
class WeightFlow:
    """The gradient flow of weights.

    trajectory: R, Q and e_g against time, as from `solve`. weights (time, K, N), teacher_weights (M, N): eigenbasis, in
    the order of levels. eigenvalues (N,): of each coordinate.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.committee(2, lr=0.5)
    >>> W_teacher = np.random.default_rng(0).standard_normal((2, 20))
    >>> flow = tu.analysis.weight_flow(problem, (0.5 * W_teacher, W_teacher), times=[0.0, 10.0])
    >>> flow.weights.shape, flow.eigenvalues.shape
    ((2, 2, 20), (20,))
    """

    trajectory: Trajectory
    weights: np.ndarray
    teacher_weights: np.ndarray
    eigenvalues: np.ndarray

    @property
    def asymmetry(self) -> np.ndarray:
        """What tells the students apart, (time,): root mean square distance of their fields from their common one."""
        apart = self.weights - self.weights.mean(axis=1, keepdims=True)
        return np.sqrt(np.mean(apart**2 * self.eigenvalues, axis=(1, 2)))

    def parting_rates(self, index: int) -> np.ndarray:
        """All rates at which alike students part beside their mean at times[index], (N,), the fastest first.

        Beside the mean student, delta' = eta Omega (a + V^T X V Omega / N) delta, V = (mean student, teachers): the same
        rates as those of the symmetric matrix eta (a Omega + Omega V^T X V Omega / N). The mean need not be at rest.
        """
        problem: Any = self.trajectory.problem
        W, lam, N = self.weights[index], self.eigenvalues, self.eigenvalues.size
        V = np.concatenate([W.mean(axis=0, keepdims=True), self.teacher_weights]) * lam
        C = V @ (V / lam).T / N
        a, X = numbers(*parting_response(without_inputs(problem), C[0, 1:], C[0, 0], C[1:, 1:]))
        matrix = effective_rate(problem) * (np.diag(a * lam) + V.T @ X @ V / N)
        return np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1]

    def __str__(self) -> str:
        error, (_, K, N) = self.trajectory.error, self.weights.shape
        return (
            f"gradient flow of {K} x {N} weights to alpha = {self.trajectory.times[-1]:g}: e_g from {error[0]:.4g} to "
            f"{error[-1]:.4g}, {int(self.trajectory.steps)} steps"
        )

    def plot(self, *, title: str | None = None) -> "Figure":
        """The learning curve, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot import plot_trajectory

        return plot_trajectory(self.trajectory, title=title)


def weight_flow(
    problem: Problem,
    weights: tuple[Any, Any],
    times: Any = 100.0,
    *,
    linear: bool = False,
    solver: str = "stabilized",
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 100_000,
) -> WeightFlow:
    """The gradient flow (terms of order eta) of given weights, weights = (W (K, N), W* (M, N)), as in `simulate`.

    times: increasing times, or the last one. linear: only the part of the force that is linear in W - W*, each student
    beside its own teacher: the last stage of learning as a sum of exponentials, as `asymptotic_decay`, for any L up to N (K = M).
    solver: "stabilized" (second order, for wide spectra, see chebyshev.py) or "explicit" (Dopri8, for narrow ones and high
    accuracy). Only first-layer weights learn, at a constant rate.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.committee(2, lr=0.5)
    >>> W_teacher = np.random.default_rng(0).standard_normal((2, 20))
    >>> flow = tu.analysis.weight_flow(problem, (0.5 * W_teacher, W_teacher), times=[0.0, 10.0])
    >>> bool(flow.trajectory.error[-1] < flow.trajectory.error[0])
    True
    """
    problem = first_layer_problem(problem, "weight_flow")
    solver = checks.known("solver", solver, SOLVERS)
    start = start_from_weights(problem, *require_pair(weights))
    by_level = weights_by_level(problem, *weights)
    W, W_teacher = (np.concatenate(levels, axis=1) for levels in by_level)
    lam = np.repeat(np.asarray(problem.inputs.eigenvalues), [level.shape[1] for level in by_level[0]])
    times = as_times(times)
    if checks.as_flag("linear", linear):
        W_teacher = W_teacher[own_teachers(problem, (W * lam) @ W_teacher.T / lam.size)]
    data = jax.tree.map(jnp.asarray, (W, W_teacher, lam, times, effective_rate(problem)))
    options = (solver, linear, float(rtol), float(atol), checks.as_count("max_steps", max_steps))
    saved, observed, steps, done = eager(_flow(without_inputs(problem), data, options))
    if not done:
        raise InputError(f"the flow ran out of {max_steps} steps; raise max_steps or rtol, or use solver='stabilized'.")
    return WeightFlow(flow_trajectory(problem, start, times, observed, steps, solver, rtol), saved, W_teacher, lam)


def as_times(times: Any) -> np.ndarray:
    """Times that increase from zero or later, or those up to the last one."""
    times = checks.as_array("times", times)
    times = linear_times(float(times)) if np.ndim(times) == 0 else times
    if np.ndim(times) != 1 or np.size(times) < 2 or np.any(np.diff(times) <= 0) or times[0] < 0:
        raise InputError(f"times are {checks.shown(times)}; give two or more that increase from zero or later.")
    return times


@eqx.filter_jit
def _flow(problem: Problem, data: Any, options: tuple) -> Any:
    """Saved weights, (R, Q, e_g) at each time, steps taken, and whether it reached the end."""
    W, W_teacher, lam, times, eta = data
    solver, linear, rtol, atol, max_steps = options
    N = W.shape[1]
    T = (W_teacher * lam) @ W_teacher.T / N

    def overlaps(W: Array) -> tuple[Array, Array]:
        fields = W * lam
        return fields @ W_teacher.T / N, fields @ W.T / N

    def force(W: Array) -> Array:
        p = drift_matrices(problem, *overlaps(W), T)
        return eta * lam * (p.A @ W + p.B @ W_teacher)

    def drift(t: Any, W: Array, _: Any) -> Array:
        return jax.jvp(force, (W_teacher,), (W - W_teacher,))[1] if linear else force(W)

    saved, steps, done = integrate(drift, W, times, (solver, rtol, atol, max_steps))

    def observe(W: Array) -> tuple[Array, Array, Array]:
        R, Q = overlaps(W)
        v, v_teacher = jnp.asarray(problem.student.readout), jnp.asarray(problem.teacher.readout)
        return R, Q, population_error(averages_of(problem), R, Q, T, v, v_teacher, None, shared_parity(problem))

    return saved, (*jax.lax.map(observe, saved), T), steps, done


def integrate(drift: Any, y0: Array, times: Array, options: tuple) -> tuple[Array, Array, Array]:
    """Saved states, steps taken, and whether it reached the end. options: solver, rtol, atol, max_steps."""
    solver, rtol, atol, max_steps = options
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(drift),
        SOLVERS[solver](),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=y0,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol, pcoeff=0.2, icoeff=0.5),
        adjoint=diffrax.ForwardMode(),
        max_steps=max_steps,
        throw=False,
    )
    done = solution.result == diffrax.RESULTS.successful
    return solution.ys, solution.stats["num_accepted_steps"], done


def flow_trajectory(
    problem: Problem, start: Start, times: np.ndarray, observed: Any, steps: Any, solver: str, rtol: float
) -> Trajectory:
    """What was observed, (R, Q, e_g, T), as the trajectory that `solve` would give."""
    R, Q, error, T = observed
    readout = np.tile(np.asarray(problem.student.readout), (times.size, 1))
    return Trajectory(
        times=times,
        variables={"R": R, "Q": Q, "readout": readout},
        error=error,
        loss=error + np.asarray(problem.noise) ** 2 / 2,
        status_code=np.asarray(int(Status.FINISHED)),
        end_time=times[-1],
        steps=steps,
        T=T,
        problem=problem,
        start=start,
        settings=(("gradient_flow", True), ("rtol", float(rtol)), ("solver", solver)),
    )
