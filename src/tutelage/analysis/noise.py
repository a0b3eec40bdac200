"""Error bars from theory: how far single networks of N inputs scatter around the curve of the limit.

u_N = u + N^(-1/2) du. To leading order du is Gaussian with mean zero, and its covariance Sig obeys
    dSig/dalpha = J Sig + Sig J^T + D,   Sig(0) = 0 (all networks start at the same overlaps),
J the Jacobian of the drift along the solved curve, D = N^2 Cov(one step) (dynamics/linearized.py). So
    Cov(u_N) = Sig / N,    sd(e_g) = sqrt(grad^T Sig grad / N).
It holds as long as fluctuations stay small: not through an escape that noise decides (docs/how-to/error-bars.md).

On a panel [b, b'] with propagator X(s) (dX/ds = J X, X(b) = 1) the solution is
    Sig(t) = X(t) [Sig(b) + int_b^t X(s)^-1 D(s) X(s)^-T ds] X(t)^T.
X is found by collocation at three Gauss points, the integral by the same polynomials, so that every variance a^T Sig a is a
sum of squares: near perfect learning the gradient of e_g almost cancels in Sig, and would leave the errors of an
interpolated D or a tolerance. States between the recorded times are solved for again.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import ArrayLike
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearized import LARGEST_STATE, LocalDynamics, point_dims, point_sets
from tutelage.dynamics.order_parameters import Overlaps, flatten, unflatten
from tutelage.errors import InputError, TutelageWarning
from tutelage.integrate.program import COUNTS
from tutelage.moments import Sampled
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.trajectory import Trajectory
from tutelage.validity import MOMENTS, START_DECIDES, slowest_before_rise

PANEL_LENGTH, LONGEST_PANEL = 0.5, 1.0  # in units of the fastest mode's time: aimed at, and at most
LEAST_PANELS, MOST_PANELS = 40, 4000
GAUSS_NODES = (np.polynomial.legendre.leggauss(3)[0] + 1) / 2
PANELS_PER_BATCH = MOMENTS // GAUSS_NODES.size
_LAGRANGE = np.linalg.inv(np.vander(GAUSS_NODES, increasing=True)).T  # polynomials of the nodes, (node, power)
POINT_SETS = 4  # independent sets of points: their scatter gives the error
# Of so few sets the scatter itself is uncertain: two errors then cover 95% (Student's law).
STUDENT_FACTOR = 3.182 / 2
LARGEST_SCATTER = 0.05  # of overlaps, against the largest one, that grows linearly
WIDE_SCATTER = 0.5  # sd(e_g) / e_g above which fluctuations are not small


def _integrals(theta: float) -> np.ndarray:
    """Integrals from 0 to theta of the three Lagrange polynomials."""
    powers = np.arange(1, GAUSS_NODES.size + 1)
    return _LAGRANGE @ (theta**powers / powers)


_STAGES = np.stack([_integrals(c) for c in GAUSS_NODES])


def panel_edges(moments: np.ndarray, rates: np.ndarray, stops: np.ndarray, length: float) -> np.ndarray:
    """Edges of panels, at most `length` / rate long (rates: of the fastest mode at the moments); stops must be edges."""
    elapsed = np.concatenate([[0.0], np.cumsum(np.diff(moments) * np.maximum(rates[1:], rates[:-1]))])
    count = int(np.ceil(elapsed[-1] / length))
    edges = np.interp(np.linspace(0.0, elapsed[-1], count + 1), elapsed, moments)
    return np.union1d(edges, stops[(stops > moments[0]) & (stops < moments[-1])])


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
        X = np.linalg.solve(  # at the nodes: X_j = 1 + h sum_k a_jk J_k X_k
            np.eye(3 * n) - h * np.einsum("jk,kab->jakb", _STAGES, J).reshape(3 * n, 3 * n), np.tile(np.eye(n), (3, 1))
        ).reshape(3, n, n)
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


def panels_along(theory: Trajectory, local: LocalDynamics) -> np.ndarray:
    """Edges of panels of half the time of the fastest mode, a little longer on long curves and shorter on short ones."""
    end = float(theory.times[-1])
    moments = end * np.linspace(0.0, 1.0, MOMENTS) ** 2  # closer together at the start
    jacobians = local.jacobians(vectors_along(theory, local, moments), moments)
    rates = np.maximum(np.max(np.abs(np.linalg.eigvals(jacobians)), axis=1), 1.0 / end)
    total, most = float(np.sum(np.diff(moments) * np.maximum(rates[1:], rates[:-1]))), MOST_PANELS * LONGEST_PANEL
    if total > most:
        raise InputError(
            f"these times span {total:.0f} relaxation times of the fastest mode; fluctuations are followed through at "
            f"most {most:.0f}. End at alpha = {end * most / total:.3g}."
        )
    length = min(float(np.clip(total / MOST_PANELS, PANEL_LENGTH, LONGEST_PANEL)), total / LEAST_PANELS)
    switches = local.system.switches(end)
    return panel_edges(moments, rates, np.zeros(0) if switches is None else np.asarray(switches), length)


def vectors_along(theory: Trajectory, local: LocalDynamics, moments: np.ndarray) -> Float[np.ndarray, "moment n"]:
    """The flat coordinates at increasing moments, so many at a time as the compiled program of `solve` takes."""
    settings = {name: value for name, value in theory.settings if name in ("gradient_flow", "rtol", "solver")}
    sampled = dict(theory.settings).get("moments")
    settings |= {} if sampled is None else {"moments": Sampled(*sampled)}
    found, problem = [], theory.problem
    assert problem is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # said when the curve itself was solved
        for some in np.split(moments, range(COUNTS[0], moments.size, COUNTS[0])):
            solved = solve(problem, theory.start, some, keep="blocks", gradient="forward", **settings)
            found.append(flatten(states_of(solved.variables, local.like)))
    return np.concatenate(found)


def noise_along(
    theory: Trajectory, local: LocalDynamics, edges: np.ndarray, count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """J (3, n, n) and D (set, 3, n, n) at the nodes of each panel; D from `count` points, those of each set its own."""
    points = [point_sets(MOMENTS, count, point_dims(local.system.problem), seed) for seed in range(POINT_SETS)]
    moments, nodes, batch = panel_nodes(edges).ravel(), GAUSS_NODES.size, GAUSS_NODES.size * PANELS_PER_BATCH
    vectors = vectors_along(theory, local, moments)
    for first in range(0, moments.size, batch):
        times, at = moments[first : first + batch], vectors[first : first + batch]
        J = local.jacobians(at, times)
        D = np.stack([local.diffusions(at, times, *part) for part in points])
        yield from ((J[i : i + nodes], D[:, i : i + nodes]) for i in range(0, times.size, nodes))


def states_of(variables: Mapping[str, ArrayLike], like: Overlaps) -> Overlaps:
    """Recorded variables, with any leading axes, as one batched state."""
    r, q, readout = (np.asarray(variables[name]) for name in ("r", "q", "readout"))
    return Overlaps(r, q, readout, None if like.bias is None else np.asarray(variables["bias"]), None)


def variables_of(problem: Problem, states: Overlaps) -> dict[str, np.ndarray]:
    """The entries of a batched state by name, r and q per level and their sums R and Q."""
    names = ("r", "q", "readout") if states.bias is None else ("r", "q", "readout", "bias")
    out = {name: np.asarray(getattr(states, name)) for name in names}
    weights = np.asarray(problem.inputs.weights)
    return out | {big: np.einsum("l,slab->sab", weights, out[small]) for big, small in (("R", "r"), ("Q", "q"))}


@dataclass(frozen=True, repr=False)
class Fluctuations(AnalysisResult, figure="plot_fluctuations"):
    """Scatter of networks of N = `dim` inputs around the `theory` curve, at its times.

    scaled: N Cov(u) in flat coordinates, (time, size, size). gradient: of e_g, (time, size). accuracy: estimated relative
    error of sd(e_g) from the finite point sets, (time,); two of it cover 95%. `sd("R")`, `covariance("R", "Q")` name what
    flat coordinates hide: R, Q, readout, bias, r and q per level, error. `at(dim)` is the same at another N. plateau_time: the
    slowest moment of a plateau from which the curve escapes (inf: none). After it the asymmetry of the units grows, and its
    scatter with it.
    """

    theory: Trajectory
    dim: int
    scaled: Float[np.ndarray, "time n n"]
    gradient: Float[np.ndarray, "time n"]
    accuracy: Float[np.ndarray, " time"]
    plateau_time: float = np.inf

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
        variance = np.einsum("...in,...nm,...im->...i", A, self.scaled, A)
        return np.sqrt(np.maximum(variance, 0.0) / self.dim).reshape(-1, *shape)

    def _map(self, name: str) -> tuple[np.ndarray, tuple[int, ...]]:
        """The matrix from flat coordinates to a quantity's entries, (1 or time, entries, size), and their shape."""
        if name == "error":
            return self.gradient[:, None, :], ()
        problem, start = self.theory.problem, self.theory.start
        assert problem is not None
        assert start is not None
        like, _ = initial_overlaps(problem, start)  # what one unit of each flat coordinate adds to each quantity:
        parts = variables_of(problem, unflatten(np.eye(flatten(like).size), like))
        part = parts[checks.known("the name of a quantity", name, ["error", *parts])]
        return np.moveaxis(part, 0, -1).reshape(1, -1, part.shape[0]), part.shape[1:]

    @property
    def start_to_noise(self) -> float | None:
        """As in the theory's validity report, at this N; None if the curve leaves no plateau."""
        needed = self.theory.validity.noise_dim
        return None if needed is None else float(np.sqrt(self.dim / needed))

    @property
    def trusted(self) -> bool:
        """False where the linear theory fails: SGD noise determines an escape on the way, or sd(e_g) is not small against e_g."""
        return not self.doubts()

    @property
    def escapes_by_noise(self) -> bool:
        """Whether SGD noise determines the escape from a plateau at this N."""
        ratio = self.start_to_noise
        return ratio is not None and ratio <= START_DECIDES

    @property
    def wide(self) -> np.ndarray:
        """Whether sd(e_g) is not small against e_g, (time,) of booleans."""
        error = np.maximum(np.asarray(self.theory.error), 1e-300)
        return self.sd("error") >= WIDE_SCATTER * error

    @property
    def trusted_times(self) -> np.ndarray:
        """Whether the linear theory holds at each time, (time,) of booleans."""
        trusted = ~self.wide
        if self.escapes_by_noise:
            trusted &= self.times < self.escape_from
        return trusted

    @property
    def escape_from(self) -> float:
        """The time from which an escape by noise is not linear (inf: never).

        There the scatter of R has grown to LARGEST_SCATTER of the largest overlap.
        """
        largest = float(np.max(np.abs(np.asarray(self.theory.R))))
        scatter = np.max(self.sd("R"), axis=(1, 2))
        grown = (self.times > self.plateau_time) & (scatter > LARGEST_SCATTER * largest)
        return float(self.times[np.argmax(grown)]) if grown.any() else np.inf

    def doubts(self) -> list[str]:
        """Where not to believe the numbers, one sentence each."""
        out = []
        if self.escapes_by_noise:
            since = "rough"
            if np.isfinite(self.escape_from):
                since = f"not valid from alpha = {self.escape_from:.4g} on"
            ratio = f"asymmetry/noise = {self.start_to_noise:.2g}, below {START_DECIDES:g}"
            out.append(
                f"{since}, through the escape from the plateau ({ratio}): SGD noise, not only "
                "the initial condition, determines the escape of single networks"
            )
        wide = self.wide
        if np.any(wide):
            first = self.times[int(np.argmax(wide))]
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


def fluctuations(
    problem: Problem,
    start: Start | None = None,
    times: ArrayLike | Sequence[float] = 100.0,
    dim: int | None = None,
    *,
    points: int = 2**12,
    gradient_flow: bool = False,
) -> Fluctuations:
    """Standard deviations and covariances of all order parameters and of e_g over networks of input dimension N.

    Slow momentum and states of more than 400 numbers are not supported. A fixed momentum is treated in its limit, up to
    corrections of order 1/(N (1 - beta)).

    Parameters
    ----------
    problem, start, times
        As in `solve`. All networks have the same initial overlaps.
    dim : int, optional
        N. Default: that of `start`.
    points : int
        Of the Gaussian average of D at each moment; `accuracy` estimates the remaining error of sd(e_g).
    gradient_flow : bool
        Everything to leading order in the learning rate.

    Returns
    -------
    Fluctuations

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> bars = tu.analysis.fluctuations(problem, tu.asymmetric_start(problem), times=tu.linear_times(5, 6), dim=500, points=256)
    >>> bars.sd("error").shape, bars.sd("R").shape
    ((6,), (6, 2, 2))
    """
    theory = solve(problem, start, times, gradient_flow=gradient_flow, keep="blocks")
    dim = theory.dim if dim is None else dim
    if dim is None:
        raise InputError("dim is missing; give the number of input dimensions N, such as dim=1000.")
    return fluctuations_along(theory, dim, points=points)


def fluctuations_along(theory: Trajectory, dim: int, *, points: int = 2**12) -> Fluctuations:
    """`fluctuations` around a curve that `solve` returned, with its overlaps per level."""
    dim = checks.as_count("dim", dim)
    count = checks.as_count("points", points, least=2**7) // POINT_SETS
    problem = require_problem(theory.problem, "fluctuations", ("differentiable", "fixed momentum", "finite scatter"))
    require_small_state(problem)
    start, times = theory.start, np.asarray(theory.times, dtype=float)
    assert start is not None
    if times.size == 0 or times[-1] <= 0.0:
        why = "the times end at 0" if theory.finished else f"the solve {theory.status.rstrip('.')}"
        raise InputError(f"{why}; fluctuations need a curve that reaches a time after 0.")
    like, t = initial_overlaps(problem, start)
    local = LocalDynamics(OrderParameters(problem, t, bool(dict(theory.settings).get("gradient_flow", False)), True), like)
    gradient, edges = local.gradients(flatten(states_of(theory.variables, like))), panels_along(theory, local)
    speeds = np.linalg.norm(local.drifts(flatten(states_of(theory.variables, like)), times), axis=1)
    slowest = slowest_before_rise(speeds)
    scaled, variances = covariance_at(times, edges, noise_along(theory, local, edges, count), gradient)
    of_mean = np.std(variances, axis=0, ddof=1) / np.sqrt(POINT_SETS)
    of_sd = of_mean / np.maximum(2 * np.mean(variances, axis=0), 1e-300)
    return Fluctuations(
        theory=theory,
        dim=dim,
        scaled=scaled,
        gradient=gradient,
        accuracy=STUDENT_FACTOR * of_sd,
        plateau_time=np.inf if slowest is None else float(times[slowest]),
    )


def require_small_state(problem: Problem) -> None:
    """Raise InputError for a state whose Jacobians take too long to follow."""
    if (size := state_size(problem)) > LARGEST_STATE:
        raise InputError(f"the state has {size} numbers, of at most {LARGEST_STATE}; use fewer units or levels.")


def state_size(problem: Problem) -> int:
    """How many independent numbers the state has."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.references.hidden
    return L * (K * M + K * (K + 1) // 2) + K + K * problem.biased
