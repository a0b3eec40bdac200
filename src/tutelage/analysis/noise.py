"""Error bars from theory: the scatter of single networks around the curve of the limit.

u_N = u + N^(-1/2) du. To leading order du is Gaussian with mean zero, and its
covariance Sig obeys

    dSig/dalpha = J Sig + Sig J^T + D,
    Sig(0) = 0 (all networks start at the same overlaps),

J the Jacobian of the drift along the solved curve, D = N^2 Cov(one step)
(dynamics/linearized.py). So

    Cov(u_N) = Sig / N,    sd(e_g) = sqrt(grad^T Sig grad / N).

It holds as long as fluctuations stay small: not through an escape that noise decides
(docs/how-to/error-bars.md).

On a panel [b, b'] with propagator X(s) (dX/ds = J X, X(b) = 1) the solution is

    Sig(t) = X(t) [Sig(b) + int_b^t X(s)^-1 D(s) X(s)^-T ds] X(t)^T.

X is found by collocation at three Gauss points, the integral by the same polynomials,
so that every variance a^T Sig a is a sum of squares: near perfect learning the gradient
of e_g almost cancels in Sig, and would leave the errors of an interpolated D or a
tolerance. States between the recorded times are solved for again.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import ArrayLike
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError, TutelageWarning
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import OPTIMIZERS
from tutelage.result.trajectory import Trajectory
from tutelage.solvers.program import COUNTS
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import (
    LARGEST_STATE,
    LocalDynamics,
    point_dims,
    point_sets,
)
from tutelage.stream.moments import Sampled
from tutelage.stream.optimizers import Scales
from tutelage.stream.order_parameters import Overlaps, flatten, unflatten
from tutelage.stream.validity import INSTANTS, START_DECIDES, slowest_before_rise

PANEL_LENGTH = 0.5  # of panels, in units of the fastest mode's time
LONGEST_PANEL = 1.0  # in the same units
LEAST_PANELS = 40
MOST_PANELS = 4000
GAUSS_NODES = (np.polynomial.legendre.leggauss(3)[0] + 1) / 2
PANELS_PER_BATCH = INSTANTS // GAUSS_NODES.size
# Coefficients of the Lagrange polynomials of the nodes, (node, power).
_LAGRANGE = np.linalg.inv(np.vander(GAUSS_NODES, increasing=True)).T
POINT_SETS = 4  # independent sets of points: their scatter gives the error
# Of so few sets the scatter itself is uncertain: two errors then cover 95%
# (Student's law).
STUDENT_FACTOR = 3.182 / 2
# Scatter of overlaps that grows linearly, against the largest overlap.
LARGEST_SCATTER = 0.05
WIDE_SCATTER = 0.5  # sd(e_g) / e_g above which fluctuations are not small
SHOWN = 6  # times of the report
# What the scatter of networks needs.
SCATTER = (
    OPTIMIZERS,
    "sum of samples",
    "unscaled readout",
    "differentiable",
    "fixed momentum",
    "finite scatter",
)
TINY = 1e-300  # keeps a quotient or a logarithm finite


class Panel(NamedTuple):
    """J (3, n, n) and D (set, 3, n, n) at the nodes of a panel."""

    jacobians: np.ndarray
    diffusions: np.ndarray


def _integrals(theta: float) -> np.ndarray:
    """Return the integrals from 0 to theta of the three Lagrange polynomials."""
    powers = np.arange(1, GAUSS_NODES.size + 1)
    return _LAGRANGE @ (theta**powers / powers)


# The coefficients a_jk of collocation at the Gauss nodes, (node, node).
_STAGES = np.stack([_integrals(node) for node in GAUSS_NODES])


def _mode_times(instants: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return the duration of each interval in units of the fastest mode's time."""
    return np.diff(instants) * np.maximum(rates[1:], rates[:-1])


def panel_edges(
    instants: np.ndarray, rates: np.ndarray, stops: np.ndarray, length: float
) -> np.ndarray:
    """Return the edges of panels that are at most `length` / rate long.

    rates: of the fastest mode at the instants. Stops within the instants are edges, too.
    """
    elapsed = np.concatenate([[0.0], np.cumsum(_mode_times(instants, rates))])
    count = int(np.ceil(elapsed[-1] / length))
    edges = np.interp(np.linspace(0.0, elapsed[-1], count + 1), elapsed, instants)
    return np.union1d(edges, stops[(stops > instants[0]) & (stops < instants[-1])])


def panel_nodes(edges: np.ndarray) -> np.ndarray:
    """Return the times at which J and D are needed, (panel, 3)."""
    return edges[:-1, None] + np.diff(edges)[:, None] * GAUSS_NODES


def covariance_at(
    times: np.ndarray,
    edges: np.ndarray,
    panels: Iterable[tuple[np.ndarray, np.ndarray]],
    watched: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return Sig at the times, (time, n, n), and variances of `watched` (time, n).

    Sig is the mean over the sets of D; the variances are those of each set, (set,
    time). panels: J (3, n, n) and D (set, 3, n, n) at the nodes of each panel, in
    order.
    """
    n = watched.shape[1]
    covariances = np.zeros((times.size, n, n))
    variances = [np.zeros(0)] * times.size
    sigma = np.zeros((1, n, n))
    after = np.searchsorted(edges, times, side="left")
    panel_of_time = np.clip(after - 1, 0, edges.size - 2)
    for i, (J, D) in enumerate(panels):
        h = edges[i + 1] - edges[i]
        X = _propagators_at_nodes(J, h)
        inverse = np.linalg.inv(X)  # panels are short, so X is near one
        slopes = J @ X
        sources = inverse @ D @ np.swapaxes(inverse, -1, -2)
        for j in np.flatnonzero(panel_of_time == i):
            weights = h * _integrals((times[j] - edges[i]) / h)
            now = _propagated(sigma, weights, slopes, sources)
            covariances[j] = now.mean(axis=0)
            variances[j] = np.einsum("a,sab,b->s", watched[j], now, watched[j])
        sigma = _propagated(sigma, h * _integrals(1.0), slopes, sources)
    return covariances, np.stack(variances, axis=1)


def _propagators_at_nodes(J: np.ndarray, h: float) -> np.ndarray:
    """Return X at the nodes of a panel of length h, (3, n, n).

    They solve X_j = 1 + h sum_k a_jk J_k X_k.
    """
    n = J.shape[-1]
    coupling = np.einsum("jk,kab->jakb", _STAGES, J).reshape(3 * n, 3 * n)
    ones = np.tile(np.eye(n), (3, 1))
    return np.linalg.solve(np.eye(3 * n) - h * coupling, ones).reshape(3, n, n)


def _propagated(
    sigma: np.ndarray, weights: np.ndarray, slopes: np.ndarray, sources: np.ndarray
) -> np.ndarray:
    """Return Sig later in the panel: X [Sig + integral] X^T."""
    X = np.eye(sigma.shape[-1]) + np.tensordot(weights, slopes, 1)
    return X @ (sigma + np.einsum("k,skab->sab", weights, sources)) @ X.T


def panels_along(theory: Trajectory, local: LocalDynamics) -> np.ndarray:
    """Return the edges of panels of half the time of the fastest mode.

    They are a little longer on long curves and shorter on short ones.
    """
    end = float(theory.times[-1])
    instants = (
        end * np.linspace(0.0, 1.0, INSTANTS) ** 2
    )  # closer together at the start
    jacobians = local.jacobians(vectors_along(theory, local, instants), instants)
    fastest = np.max(np.abs(np.linalg.eigvals(jacobians)), axis=1)
    rates = np.maximum(fastest, 1.0 / end)
    total = float(np.sum(_mode_times(instants, rates)))
    most = MOST_PANELS * LONGEST_PANEL
    if total > most:
        raise InputError(
            f"these times span {total:.0f} relaxation times of the fastest mode; "
            f"fluctuations are followed through at most {most:.0f}. "
            f"End at alpha = {end * most / total:.3g}."
        )
    length = float(np.clip(total / MOST_PANELS, PANEL_LENGTH, LONGEST_PANEL))
    length = min(length, total / LEAST_PANELS)
    switches = local.system.switches(end)
    stops = np.zeros(0) if switches is None else np.asarray(switches)
    return panel_edges(instants, rates, stops, length)


def vectors_along(
    theory: Trajectory, local: LocalDynamics, instants: np.ndarray
) -> Float[np.ndarray, "instant n"]:
    """Return the flat coordinates at increasing instants.

    They are solved for so many at a time as the compiled program of `solve` takes.
    """
    recorded = dict(theory.settings)
    settings = {
        name: recorded[name]
        for name in ("gradient_flow", "rtol", "solver")
        if name in recorded
    }
    sampled = recorded.get("moments")
    if sampled is not None:
        settings["moments"] = Sampled(*sampled)
    problem = theory.problem
    assert problem is not None
    vectors = []
    with warnings.catch_warnings():
        # the solve of the curve itself has warned
        warnings.simplefilter("ignore", TutelageWarning)
        for piece in np.split(instants, range(COUNTS[0], instants.size, COUNTS[0])):
            solved = solve(
                problem,
                theory.start,
                piece,
                keep="blocks",
                gradient="forward",
                **settings,
            )
            vectors.append(flatten(states_of(solved.variables, local.like)))
    return np.concatenate(vectors)


def noise_along(
    theory: Trajectory, local: LocalDynamics, edges: np.ndarray, count: int
) -> Iterator[Panel]:
    """Yield J and D at the nodes of each panel; D from `count` points for each set."""
    dims = point_dims(local.system.problem)
    points = [point_sets(INSTANTS, count, dims, seed) for seed in range(POINT_SETS)]
    instants = panel_nodes(edges).ravel()
    nodes = GAUSS_NODES.size
    batch = nodes * PANELS_PER_BATCH
    vectors = vectors_along(theory, local, instants)
    for first in range(0, instants.size, batch):
        here = slice(first, first + batch)
        times = instants[here]
        J = local.jacobians(vectors[here], times)
        D = np.stack([local.diffusions(vectors[here], times, *part) for part in points])
        for i in range(0, times.size, nodes):
            yield Panel(jacobians=J[i : i + nodes], diffusions=D[:, i : i + nodes])


def states_of(variables: Mapping[str, ArrayLike], like: Overlaps) -> Overlaps:
    """Return recorded variables, with any leading axes, as one batched state."""
    bias = None
    if like.bias is not None:
        bias = np.asarray(variables["bias"])
    scales = None
    if like.scales is not None:
        scales = Scales(vectors=np.asarray(variables["scale"]))
    return Overlaps(
        r=np.asarray(variables["r"]),
        q=np.asarray(variables["q"]),
        readout=np.asarray(variables["readout"]),
        bias=bias,
        velocity=None,
        scales=scales,
    )


def variables_of(problem: Problem, states: Overlaps) -> dict[str, np.ndarray]:
    """Return the entries of a batched state by name.

    They are r and q per level, their sums R and Q, readout, and bias if units have one.
    """
    weights = np.asarray(problem.inputs.weights)
    r = np.asarray(states.r)
    q = np.asarray(states.q)
    variables = {"r": r, "q": q, "readout": np.asarray(states.readout)}
    if states.bias is not None:
        variables["bias"] = np.asarray(states.bias)
    variables["R"] = np.einsum("l,slab->sab", weights, r)
    variables["Q"] = np.einsum("l,slab->sab", weights, q)
    return variables


@dataclass(frozen=True, repr=False)
class Fluctuations(AnalysisResult, figure="plot_fluctuations"):
    """Scatter of networks of N = `dim` inputs around the `theory` curve, at its times.

    scaled: N Cov(u) in flat coordinates, (time, size, size). gradient: of e_g, (time,
    size). accuracy: estimated relative error of sd(e_g) from the finite point sets,
    (time,); two of it cover 95%. `sd("R")`, `covariance("R", "Q")` name what flat
    coordinates hide: R, Q, readout, bias, r and q per level, error. `at(dim)` is the
    same at another N. plateau_time: the slowest instant of a plateau from which the
    curve escapes (inf: none). After it the asymmetry of the units grows, and its
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
        """The times of the curve, (time,)."""
        return np.asarray(self.theory.times)

    def at(self, dim: int) -> "Fluctuations":
        """Return the same curve at another N: covariances are proportional to 1/N."""
        return replace(self, dim=checks.as_count("dim", dim))

    def covariance(self, one: str, other: str) -> np.ndarray:
        """Return Cov of all entries of two quantities over networks.

        Its shape is (time, *shape of one, *shape of other).
        """
        A, shape = self._map(one)
        B, other_shape = self._map(other)
        entries = A @ self.scaled @ np.swapaxes(B, -1, -2) / self.dim
        return entries.reshape(-1, *shape, *other_shape)

    def sd(self, name: str) -> np.ndarray:
        """Return the standard deviation over networks, (time, *shape of a quantity)."""
        A, shape = self._map(name)
        variance = np.einsum("...in,...nm,...im->...i", A, self.scaled, A)
        return np.sqrt(np.maximum(variance, 0.0) / self.dim).reshape(-1, *shape)

    def _map(self, name: str) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return the matrix from flat coordinates to a quantity, and its shape.

        The matrix is (1 or time, entries, size).
        """
        if name == "error":
            return self.gradient[:, None, :], ()
        problem = self.theory.problem
        start = self.theory.start
        assert problem is not None
        assert start is not None
        like, _ = initial_overlaps(problem, start)
        # one unit of each flat coordinate in turn, and what it adds to each quantity
        units = unflatten(np.eye(flatten(like).size), like)
        variables = variables_of(problem, units)
        allowed = ["error", *variables]
        columns = variables[checks.known("the name of a quantity", name, allowed)]
        matrix = np.moveaxis(columns, 0, -1).reshape(1, -1, columns.shape[0])
        return matrix, columns.shape[1:]

    @property
    def start_to_noise(self) -> float | None:
        """The asymmetry / noise of the theory's validity report, at this N.

        It is None if the curve leaves no plateau.
        """
        needed = self.theory.validity.noise_dim
        return None if needed is None else float(np.sqrt(self.dim / needed))

    @property
    def trusted(self) -> bool:
        """False where the linear theory fails.

        It fails if SGD noise determines an escape on the way, or if sd(e_g) is not
        small against e_g.
        """
        return not self.doubts()

    @property
    def escapes_by_noise(self) -> bool:
        """True if SGD noise determines the escape from a plateau at this N."""
        ratio = self.start_to_noise
        return ratio is not None and ratio <= START_DECIDES

    @property
    def wide(self) -> np.ndarray:
        """True where sd(e_g) is not small against e_g, (time,)."""
        error = np.maximum(np.asarray(self.theory.error), TINY)
        return self.sd("error") >= WIDE_SCATTER * error

    @property
    def trusted_times(self) -> np.ndarray:
        """True where the linear theory holds, (time,)."""
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
        """Return the reasons not to trust some of the numbers, one sentence each."""
        sentences = []
        if self.escapes_by_noise:
            since = "rough"
            if np.isfinite(self.escape_from):
                since = f"not valid from alpha = {self.escape_from:.4g} on"
            ratio = f"asymmetry/noise = {self.start_to_noise:.2g}"
            sentences.append(
                f"{since}, through the escape from the plateau ({ratio}, below "
                f"{START_DECIDES:g}): SGD noise, not only the initial condition, "
                "determines the escape of single networks"
            )
        wide = self.wide
        if np.any(wide):
            first = self.times[int(np.argmax(wide))]
            sentences.append(
                f"sd(e_g) exceeds {WIDE_SCATTER:g} e_g from alpha = {first:.4g} on: "
                "e_g is not normal there; raise N"
            )
        return sentences

    def __str__(self) -> str:
        error = np.asarray(self.theory.error)
        sd = self.sd("error")
        count = self.times.size
        picked = np.linspace(0, count - 1, min(SHOWN, count)).astype(int)
        around = f"N = {self.dim} around the theory (standard deviations)"
        lines = [f"scatter of single networks with {around}"]
        for i in np.unique(picked):
            size = f"e_g = {error[i]:.4g} ± {sd[i]:.2g}"
            lines.append(f"  alpha = {self.times[i]:.4g}: {size}")
        largest_R = np.max(self.sd("R"))
        largest_Q = np.max(self.sd("Q"))
        largest = f"R ± {largest_R:.2g}, Q ± {largest_Q:.2g}"
        lines.append(f"largest: {largest}; all shrink as N^(-1/2)")
        percent = 100 * float(np.sqrt(np.mean(self.accuracy**2)))
        mean = f"{percent:.1g}% (root mean square over times)"
        lines.append(f"accuracy of sd(e_g): {mean}")
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
    """Predict standard deviations and covariances of order parameters and of e_g.

    They are those over networks of input dimension N. Slow momentum and states of more
    than 400 numbers are not supported, nor optimizers whose step is not a sum over its
    samples (sign-SGD, Muon). A fixed momentum is treated in its limit, up to
    corrections of order 1/(N (1 - beta)).

    Parameters
    ----------
    problem, start, times
        As in `solve`. All networks have the same initial overlaps.
    dim : int, optional
        N. Default: that of `start`.
    points : int
        Of the Gaussian average of D at each instant; `accuracy` estimates the remaining
        error of sd(e_g).
    gradient_flow : bool
        Everything to leading order in the learning rate.

    Returns
    -------
    Fluctuations

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=500)
    >>> times = tu.linear_times(5, 6)
    >>> bars = tu.analysis.fluctuations(problem, start, times, points=256)
    >>> bars.sd("error").shape, bars.sd("R").shape
    ((6,), (6, 2, 2))
    """
    _require_scatter(problem)
    theory = solve(problem, start, times, gradient_flow=gradient_flow, keep="blocks")
    dim = theory.dim if dim is None else dim
    if dim is None:
        raise InputError(
            "dim is missing; give the number of input dimensions N, such as dim=1000."
        )
    return fluctuations_along(theory, dim, points=points)


def fluctuations_along(
    theory: Trajectory, dim: int, *, points: int = 2**12
) -> Fluctuations:
    """Return the fluctuations around a curve of `solve` with its overlaps per level."""
    dim = checks.as_count("dim", dim)
    count = checks.as_count("points", points, least=2**7) // POINT_SETS
    problem = _require_scatter(theory.problem)
    require_small_state(problem)
    start = theory.start
    times = np.asarray(theory.times, dtype=float)
    assert start is not None
    if times.size == 0 or times[-1] <= 0.0:
        reason = "the times end at 0"
        if not theory.finished:
            reason = f"the solve {theory.status.rstrip('.')}"
        raise InputError(
            f"{reason}; fluctuations need a curve that reaches a time after 0."
        )
    like, t = initial_overlaps(problem, start)
    gradient_flow = bool(dict(theory.settings).get("gradient_flow", False))
    system = OrderParameters(problem, t, gradient_flow, keep_blocks=True)
    local = LocalDynamics(system, like)
    vectors = flatten(states_of(theory.variables, like))
    gradient = local.gradients(vectors)
    speeds = np.linalg.norm(local.drifts(vectors, times), axis=1)
    slowest = slowest_before_rise(speeds)
    edges = panels_along(theory, local)
    panels = noise_along(theory, local, edges, count)
    scaled, variances = covariance_at(times, edges, panels, gradient)

    # the standard error of the mean variance over sets, and of its square root
    of_mean = np.std(variances, axis=0, ddof=1) / np.sqrt(POINT_SETS)
    of_sd = of_mean / np.maximum(2 * np.mean(variances, axis=0), TINY)
    return Fluctuations(
        theory=theory,
        dim=dim,
        scaled=scaled,
        gradient=gradient,
        accuracy=STUDENT_FACTOR * of_sd,
        plateau_time=np.inf if slowest is None else float(times[slowest]),
    )


def _require_scatter(problem: object) -> Problem:
    """Return a problem whose scatter of networks is known."""
    return require_problem(problem, "fluctuations", SCATTER)


def require_small_state(problem: Problem) -> None:
    """Raise InputError for a state whose Jacobians take too long to follow."""
    size = state_size(problem)
    if size > LARGEST_STATE:
        raise InputError(
            f"the state has {size} numbers, of at most {LARGEST_STATE}; "
            "use fewer units or levels."
        )


def state_size(problem: Problem) -> int:
    """Return the number of independent numbers of the state."""
    levels = problem.inputs.levels
    K = problem.student.hidden
    M = problem.references.hidden
    overlaps = levels * (K * M + K * (K + 1) // 2)
    biases = K * problem.biased
    scales = levels * K * problem.optimizer.has_scales
    return overlaps + K + biases + scales
