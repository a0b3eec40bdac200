"""Error bars from theory: how far single networks of N inputs scatter around the curve of the limit.

u_N = u + N^(-1/2) du. To leading order du is Gaussian with mean zero, and its covariance Sig obeys
    dSig/dalpha = J Sig + Sig J^T + D,   Sig(0) = 0 (all networks start at the same overlaps),
J the Jacobian of the drift along the solved curve, D = N^2 Cov(one step) (dynamics/diffusion.py). So
    Cov(u_N) = Sig / N,    sd(e_g) = sqrt(grad^T Sig grad / N).
It holds as long as fluctuations stay small: not through an escape that noise decides (docs/how-to/error-bars.md).
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._errors import InputError
from tutelage._solve import solve
from tutelage.analysis.noise.covariance import NoisyCurve, covariance_at
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import initial_overlaps
from tutelage.dynamics.linearized import LARGEST_STATE
from tutelage.dynamics.order_parameters import flatten, unflatten
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.trajectory import Trajectory

POINT_SETS = 2  # independent sets of points: their difference is the error
START_DECIDES = 10.0  # start / noise above which the start decides an escape
WIDE_SCATTER = 0.5  # sd(e_g) / e_g above which fluctuations are not small


@dataclass(frozen=True)
class Fluctuations(AnalysisResult):
    """Scatter of networks of N = `dim` inputs around the `theory` curve, at its times.

    scaled: N Cov(u) in flat coordinates, (time, size, size). gradient: of e_g, (time, size). accuracy: estimated relative
    error of sd(e_g) from the finite point set, (time,). `sd("R")`, `covariance("R", "Q")` name what flat coordinates hide:
    R, Q, readout, bias, r and q per level, error. `at(dim)` is the same at another N.
    """

    theory: Trajectory
    dim: int
    scaled: Float[np.ndarray, "time n n"]
    gradient: Float[np.ndarray, "time n"]
    accuracy: Float[np.ndarray, " time"]

    @property
    def times(self) -> np.ndarray:
        """(time,)."""
        return np.asarray(self.theory.times)

    def at(self, dim: int) -> "Fluctuations":
        """The same curve at another N: every covariance is proportional to 1/N."""
        return replace(self, dim=checks.as_count("dim", dim))

    def covariance(self, one: str, other: str) -> np.ndarray:
        """Cov of all entries of two quantities over networks, (time, *shape of one, *shape of other)."""
        (A, first), (B, second) = self._map(one), self._map(other)
        return (A @ self.scaled @ np.swapaxes(B, -1, -2) / self.dim).reshape(-1, *first, *second)

    def sd(self, name: str) -> np.ndarray:
        """Standard deviation over networks of each entry of a quantity, (time, *shape)."""
        A, shape = self._map(name)
        variance = np.einsum("tin,tnm,tim->ti", np.broadcast_to(A, (self.times.size, *A.shape[1:])), self.scaled, A)
        return np.sqrt(np.maximum(variance, 0.0) / self.dim).reshape(-1, *shape)

    def _map(self, name: str) -> tuple[np.ndarray, tuple[int, ...]]:
        """The matrix from flat coordinates to a quantity's entries, (1 or time, entries, size), and their shape."""
        if name == "error":
            return self.gradient[:, None, :], ()
        parts = _named_parts(self.theory)
        part = parts[checks.known("the name of a quantity", name, ["error", *parts])]
        return np.moveaxis(part, 0, -1).reshape(1, -1, part.shape[0]), part.shape[1:]

    @property
    def start_to_noise(self) -> float | None:
        """Amplitude of the start in the unstable direction of a plateau that the curve leaves, over the noise at this N.

        None: it leaves none. From the theory's validity report, which is computed when first asked for.
        """
        needed = self.theory.validity.noise_dim
        return None if needed is None else float(np.sqrt(self.dim / needed))

    @property
    def trusted(self) -> bool:
        """False where the linear theory fails: noise decides an escape on the way, or sd(e_g) is not small against e_g."""
        ratio = self.start_to_noise
        return (ratio is None or ratio > START_DECIDES) and float(np.max(self._relative())) < WIDE_SCATTER

    def _relative(self) -> np.ndarray:
        return self.sd("error") / np.maximum(np.asarray(self.theory.error), 1e-300)

    def doubts(self) -> list[str]:
        """Where not to believe the numbers."""
        out, ratio, relative = [], self.start_to_noise, self._relative()
        if ratio is not None and ratio <= START_DECIDES:
            out.append(
                f"NOT valid through the escape from the plateau: start / noise = {ratio:.2g} there, below {START_DECIDES:g}; "
                "SGD noise, not only the start, determines when and where single networks escape: their scatter is not small"
            )
        if np.max(relative) >= WIDE_SCATTER:
            first = self.times[int(np.argmax(relative >= WIDE_SCATTER))]
            out.append(f"sd(e_g) exceeds {WIDE_SCATTER:g} e_g from alpha = {first:.4g} on: e_g is not normal there; raise N")
        return out

    def __str__(self) -> str:
        error, sd = np.asarray(self.theory.error), self.sd("error")
        picked = np.unique(np.linspace(0, self.times.size - 1, min(6, self.times.size)).astype(int))
        rough = 100 * float(np.sqrt(np.mean(self.accuracy**2)))
        lines = [
            f"scatter of single networks with N = {self.dim} around the theory (standard deviations)",
            *(f"  alpha = {self.times[i]:.4g}: e_g = {error[i]:.4g} ± {sd[i]:.2g}" for i in picked),
            f"largest: R ± {np.max(self.sd('R')):.2g}, Q ± {np.max(self.sd('Q')):.2g}; all shrink as N^(-1/2)",
            f"accuracy of sd(e_g): {rough:.1g}% (root mean square over times)",
        ]
        return "\n".join([*lines, *self.doubts()])

    def __repr__(self) -> str:
        return f"<Fluctuations at N = {self.dim}: {self.times.size} times, {self.scaled.shape[-1]} coordinates>"


def fluctuations(
    problem: Problem,
    start: Start | None = None,
    times: ArrayLike = 100.0,
    dim: int | None = None,
    *,
    points: int = 2**12,
    gradient_flow: bool = False,
) -> Fluctuations:
    """Standard deviations and covariances of all order parameters and of e_g over networks of N = `dim` inputs.

    problem, start, times: as in `solve`. dim: N; default: that of the start. points: of the Gaussian average of D at each
    moment (there are two moments or more per relaxation time of the fastest mode, with points of their own); `accuracy`
    estimates the error that they leave in sd(e_g). gradient_flow: everything to leading order in the learning rate.

    Any activation, spectrum, batch, schedule, weight decay, trained readouts and biases, frozen parts, spherical weights; a
    fixed momentum as in the limit (up to corrections of order 1/(N (1 - beta))). Slow momentum and states of more than 400
    numbers are not supported. All networks start at the same overlaps.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> bars = tu.analysis.fluctuations(problem, tu.asymmetric_start(problem), times=tu.linear_times(5, 6), dim=500, points=256)
    >>> bars.sd("error").shape, bars.sd("R").shape
    ((6,), (6, 2, 2))
    """
    theory = solve(_require_known_noise(problem), start, times, gradient_flow=gradient_flow, keep="blocks")
    dim = theory.dim if dim is None else dim
    if dim is None:
        raise InputError("dim is missing; give the number of input dimensions N, such as dim=1000.")
    return fluctuations_along(theory, dim, points=points)


def fluctuations_along(theory: Trajectory, dim: int, *, points: int = 2**12) -> Fluctuations:
    """`fluctuations` around a curve that `solve` returned, with its overlaps per level."""
    dim = checks.as_count("dim", dim)
    count = checks.as_count("points", points, least=2**7) // POINT_SETS
    problem, start, times = _require_known_noise(theory.problem), theory.start, np.asarray(theory.times, dtype=float)
    assert start is not None
    if times.size == 0 or times[-1] <= 0.0:
        why = "the times end at 0" if theory.finished else f"the solve {theory.status.rstrip('.')}"
        raise InputError(f"{why}; fluctuations need a curve that reaches a time after 0.")
    curve = NoisyCurve(problem, start, theory)
    gradient, edges = curve.gradients(), curve.edges()
    scaled, variances = covariance_at(times, edges, curve.panels(edges, count, POINT_SETS), gradient)
    accuracy = np.std(variances, axis=0) / np.maximum(2 * np.mean(variances, axis=0), 1e-300)
    return Fluctuations(theory, dim, scaled, gradient, accuracy)


def _require_known_noise(problem: object) -> Problem:
    """The problem, if its noise is known."""
    problem = require_problem(problem, "fluctuations", ("differentiable", "fixed momentum"))
    size = state_size(problem)
    if size > LARGEST_STATE:
        raise InputError(
            f"the state has {size} numbers; fluctuations follows at most {LARGEST_STATE}. Use fewer units or levels."
        )
    return problem


def state_size(problem: Problem) -> int:
    """How many independent numbers the state has."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    return L * (K * M + K * (K + 1) // 2) + K + K * problem.biased


def _named_parts(theory: Trajectory) -> dict[str, np.ndarray]:
    """What one unit of each flat coordinate adds to each quantity: (size, *shape) by name."""
    assert theory.problem is not None
    assert theory.start is not None
    like, _ = initial_overlaps(theory.problem, theory.start)
    each = jax.vmap(lambda x: unflatten(x, like))(jnp.eye(flatten(like).size))
    parts = {name: np.asarray(getattr(each, name)) for name in ("r", "q", "readout")}
    parts |= {} if each.bias is None else {"bias": np.asarray(each.bias)}
    weights = np.asarray(theory.problem.inputs.weights)
    return parts | {big: np.einsum("l,slab->sab", weights, parts[small]) for big, small in (("R", "r"), ("Q", "q"))}
