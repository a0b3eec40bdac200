"""When do networks escape from their plateau: one start in the limit, or the law of many networks at finite N.

The symmetric part of a start, which equal units share, is solved inside its own subspace, where it ends on the plateau and
never leaves; the rest x obeys dx = J x dalpha + dW / sqrt(N) along that path. What will grow of it are d amplitudes

    b = left(0) . x_0 + N^(-1/2) xi,    Cov(xi) = int left^T D left ds,    x(alpha) -> right(alpha) b,

`left`: the directions that grow on the plateau, carried back along the path by its adjoint; `right`: carried on from time
zero. The exit is solved from when the asymmetry has grown to a small, fixed size (docs/how-to/escape-times.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._types import NumpyOrJax
from tutelage.analysis.fixed_points import FixedPoint, SubspaceDrift, fixed_point, integrated, symmetric_subspace
from tutelage.analysis.noise import require_small_state
from tutelage.analysis.result import AnalysisResult, final_crossing
from tutelage.dynamics import OrderParameters, initial_overlaps, linearized
from tutelage.dynamics.order_parameters import flatten, unflatten
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem, Start, random_start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLASSIC, SMOOTH
from tutelage.trajectory import Trajectory
from tutelage.validity import who_decides

PATH_TIMES = 240  # along the path, dense at first
SETTLING_EFOLDS = 10.0  # e-foldings for which the path is followed, beyond those that the asymmetry needs to grow to one
LAUNCH_SIZE = 0.03  # size of the asymmetry up to which it is carried linearly
LARGEST_ASYMMETRY = 0.25  # a larger asymmetry does not grow linearly, and passes no plateau
RECORDS_PER_EFOLD = 25  # errors recorded per e-folding time
LONGEST_EXIT = 60  # e-folding times after which an exit is given up


@dataclass(frozen=True)
class PlateauPath:
    """times: (m,). path: (m, n), the symmetric solution. right, left: (m, n, d), left_i^T right_i = 1 at every moment.

    start: (n,), the start itself. All in the flat coordinates of `local`. rate: the fastest growth on the plateau.
    """

    plateau: FixedPoint
    rate: float
    local: linearized.LocalDynamics
    start: Float[np.ndarray, " n"]
    times: Float[np.ndarray, " m"]
    path: Float[np.ndarray, "m n"]
    right: Float[np.ndarray, "m n d"]
    left: Float[np.ndarray, "m n d"]

    def amplitudes(self, vectors: np.ndarray) -> np.ndarray:
        """b (..., d) of starts with flat coordinates (..., n): what they hold of the directions that will grow."""
        return (vectors - self.path[0]) @ self.left[0]

    def noise(self) -> np.ndarray:
        """N Cov(b), (d, d): what the steps of SGD add, each counted as if it had been there from the beginning."""
        return np.trapezoid(linearized.noise_covariances(self.local, 0.0, self.path, self.left), self.times, axis=0)

    def sizes(self, b: np.ndarray) -> np.ndarray:
        """The size of the asymmetry right(alpha) b at every moment, (m,)."""
        return np.linalg.norm(self.right @ b, axis=1)

    def launch(self, b: np.ndarray) -> tuple[float, np.ndarray]:
        """When the asymmetry right(alpha) b, b (d,), reaches LAUNCH_SIZE, or is smallest, and the state (n,) at which it does."""
        deviations, size = self.right @ b, self.sizes(b)
        level = max(LAUNCH_SIZE, float(size.min()))
        i = int(np.flatnonzero(size <= level)[-1])
        if i == self.times.size - 1:  # it goes on growing at the plateau's rate
            return self.times[i] + np.log(level / size[i]) / self.rate, self.path[i] + deviations[i] * level / size[i]
        part = np.log(level / size[i]) / np.log(size[i + 1] / size[i])
        courses = self.times, self.path, deviations / size[:, None]
        time, state, deviation = ((1 - part) * x[i] + part * x[i + 1] for x in courses)
        return float(time), state + deviation * level / np.linalg.norm(deviation)

    def exits(self, states: np.ndarray, times: np.ndarray, **how: Any) -> tuple[np.ndarray, np.ndarray]:
        """The states (time, B, n) that follow on states (B, n), and their errors (time, B)."""
        found = integrated(lambda x: self.local.drifts(x.reshape(states.shape)).ravel(), states.ravel(), times, **how)
        if found is None:
            raise InputError("the overlaps diverge once the plateau is left; lower the learning rate.")
        errors = self.local.errors(found.reshape(-1, states.shape[1]))
        return found.reshape(-1, *states.shape), errors.reshape(times.size, -1)

    def teachers(self, states: np.ndarray) -> np.ndarray:
        """The teacher that each unit has chosen in states (B, n), (B, K)."""
        R, _, T = self.local.system.covariances(unflatten(states, self.local.like))
        return assigned_teachers(self.local.system.problem, np.asarray(R), np.asarray(T))


def plateau_path(problem: Problem, start: Start, gradient_flow: bool = False, smallest: float | None = None) -> PlateauPath:
    """The way from a start to its plateau, long enough for asymmetries as small as `smallest` (default: its own) to grow."""
    problem = _as_started(with_constant_rates(problem, "escape_time", (*SMOOTH, "all levels")), require_start(start))
    require_small_state(problem)
    state, t = initial_overlaps(problem, start)
    vector = np.asarray(flatten(state))
    plateau = _unstable_plateau(problem, gradient_flow)
    subspace = symmetric_subspace(problem, t, plateau.state, copies=False)
    inside = SubspaceDrift(OrderParameters(problem, t, gradient_flow), state, subspace)
    symmetric = subspace.coordinates(vector)
    asymmetry = float(np.linalg.norm(vector - subspace.inside(symmetric)))
    if smallest is None and asymmetry <= 1e-13 * max(1.0, float(np.max(np.abs(vector)))):
        raise InputError("the units begin exactly identical and never escape; use random_start, or unequal rows of R.")
    rate = plateau.unstable[0].growth
    end = (SETTLING_EFOLDS + np.log(1 / min(asymmetry if smallest is None else smallest, 1.0))) / rate
    times = end * np.linspace(0.0, 1.0, PATH_TIMES) ** 3
    solved = integrated(inside.drift, symmetric, times, rtol=1e-8, atol=1e-11)
    if solved is None:
        lr = float(problem.sgd.lr)
        raise InputError(f"the symmetric part of this Start diverges at learning rate {lr:g}; lower it to reach a plateau.")
    path = np.array([subspace.inside(y) for y in solved])
    steps = linearized.propagators(times, inside.local.jacobians(path))
    back = linearized.propagate_adjoint(steps, np.linalg.qr(np.stack([mode.left for mode in plateau.unstable], axis=1))[0])
    first, scale = np.linalg.qr(back[0])
    right, left = linearized.propagate(steps, first), back @ np.linalg.inv(scale)
    return PlateauPath(plateau, rate, inside.local, vector, times, path, right, left)


def _as_started(problem: Problem, start: Start) -> Problem:
    """The problem with the start's teachers, and its readouts and biases where these do not learn."""
    changes: dict[str, NumpyOrJax] = {}
    if problem.teacher.gram is None and start.T is not None:
        changes["teacher.gram"] = start.blocks(problem)[2]
    for name, trained in (("readout", problem.student.train_readout), ("bias", problem.student.train_bias)):
        value = getattr(start, name)
        if value is not None and not trained:
            changes[f"student.{name}"] = value
    return problem.replace(**changes) if changes else problem


def _unstable_plateau(problem: Problem, gradient_flow: bool) -> FixedPoint:
    """The plateau, if there is one and it is left along real modes."""
    try:
        plateau = fixed_point(problem, "plateau", gradient_flow=gradient_flow)
    except InputError as none:
        why = str(none).split(";")[0]
        raise InputError(f"no plateau to escape from: {why}. Use equal units and a rate that converges.") from none
    if plateau.stable:
        fix = "change the learning rate, the noise or the number of units"
        raise InputError(f"the symmetric state (e_g = {plateau.error:.4g}) is stable, so nothing escapes; {fix}.")
    if any(isinstance(mode.rate, complex) for mode in plateau.unstable):
        raise InputError("the plateau is left in a spiral (complex rates); only escapes along real modes are predicted.")
    return plateau


def escape_threshold(plateau: float, end: float) -> float:
    """Half of the plateau's error, or its geometric mean with the error at the end where that is higher."""
    return max(plateau / 2, float(np.sqrt(plateau * max(end, 0.0))))


def last_fall(times: np.ndarray, error: np.ndarray, threshold: float) -> float:
    """When a curve falls below the threshold for good, between recorded times by interpolation; inf: not yet."""
    height, level = np.log(np.maximum(error, 1e-300)), float(np.log(max(threshold, 1e-300)))
    return max(float(times[0]), final_crossing(times, height, level))


def exit_times(path: PlateauPath, b: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """When asymmetries with amplitudes b (B, d) have escaped, (B,) (inf: not yet), and states (B, n) later on."""
    times, states = (np.array(part) for part in zip(*(path.launch(one) for one in b), strict=True))
    grid, found, waiting = np.arange(1, RECORDS_PER_EFOLD + 1) / (RECORDS_PER_EFOLD * path.rate), [], True
    for _ in range(LONGEST_EXIT):  # until all have escaped, and once more: units choose teachers
        (*_, states), errors = path.exits(states, grid, method="RK45", rtol=1e-5, atol=1e-8)
        found.append(errors)
        if not waiting:
            break
        waiting = np.any(errors[-1] >= threshold)
    curves = np.concatenate(found)
    since = grid[0] * np.arange(1, len(curves) + 1)
    return times + np.array([last_fall(since, curve, threshold) for curve in curves.T]), states


def assigned_teachers(problem: Problem, R: np.ndarray, T: np.ndarray) -> np.ndarray:
    """The teacher that each unit overlaps with most, (..., K): different ones for different units where there are enough."""
    from scipy.optimize import linear_sum_assignment

    even = problem.student.activation.parity == 1
    overlaps = (np.abs(R) if even else R) / np.sqrt(np.diagonal(T, axis1=-2, axis2=-1))[..., None, :]
    if R.shape[-2] > R.shape[-1]:
        return np.argmax(overlaps, axis=-1)
    flat = overlaps.reshape(-1, *R.shape[-2:])
    return np.array([linear_sum_assignment(one, maximize=True)[1] for one in flat]).reshape(R.shape[:-1])


@dataclass(frozen=True, repr=False)
class EscapeTime(AnalysisResult, figure="plot_escape_time"):
    """The predicted escape from a plateau: time = (1/rate) ln(constant / amplitude). rate: growth of the asymmetry there.

    slope: how much later an e-th of the asymmetry escapes; 1/rate for small ones, some per cent more or less as long as the
    slow symmetric modes (q_ii - q_ij) have not come to rest. asymmetry: size of the differences between the units of the start
    (Euclidean norm over all overlaps). amplitude: what it amounts to on the plateau, counted back to time zero. constant:
    depends on the direction of the asymmetry, hardly on its size. per_log_dim: 1/(2 rate), since random weights, of asymmetry
    N^(-1/2), escape later by this much times ln N. threshold: the error below which the network has escaped. teachers: the
    teacher that each unit chooses. times, errors, sizes: the predicted learning curve, and the size of the asymmetry up to
    its launch (NaN after).
    """

    time: float
    rate: float
    slope: float
    amplitude: float
    constant: float
    per_log_dim: float
    asymmetry: float
    threshold: float
    plateau: FixedPoint
    teachers: tuple[int, ...]
    times: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray

    def scaled(self, factor: float) -> float:
        """The escape time if the initial asymmetry were `factor` times as large."""
        return self.time - self.slope * float(np.log(checks.as_positive("factor", factor)))

    def __str__(self) -> str:
        modes = len(self.plateau.unstable)
        return (
            f"escape at alpha = {self.time:.5g}: the error falls below {self.threshold:.4g} "
            f"(plateau {self.plateau.error:.4g})\n"
            f"growth: exp({self.rate:.5g} alpha), {modes} growing mode{'s' * (modes > 1)}\n"
            f"initial asymmetry {self.asymmetry:.3g}, which acts as {self.amplitude:.3g} on the plateau; "
            f"alpha = ln({self.constant:.3g} / {self.amplitude:.3g}) / {self.rate:.5g}\n"
            f"a tenth of the asymmetry: {self.slope * np.log(10):.4g} later; random weights in N dimensions: "
            f"{self.per_log_dim:.4g} ln N later\n"
            f"student units {numbered(range(len(self.teachers)))} specialize to the teacher units {numbered(self.teachers)}"
        )


def numbered(indices: Iterable[int]) -> str:
    """Units in words, which count from one."""
    return ", ".join(str(index + 1) for index in indices)


def escape_time(problem: Problem, start: Start, *, gradient_flow: bool = False) -> EscapeTime:
    """The time at which the solved curve escapes from its plateau, without solving through the escape.

    It is within 0.5% of the solved time for asymmetries up to 0.1, and within 5% up to 0.25 (tests), for any activation,
    spectrum, batch, weight decay, label noise and trained readouts.

    Parameters
    ----------
    problem : Problem
        With constant learning rates.
    start : Start
        Nearly symmetric: units identical up to an asymmetry (R_1m - R_2m, Q_11 - Q_22, ...) of at most about 0.25.
    gradient_flow : bool
        Include terms of order eta only.

    Returns
    -------
    EscapeTime

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=1.5))
    >>> start = tu.Start(R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> escape = tu.analysis.escape_time(problem, start)
    >>> round(escape.time, 1), round(escape.rate, 4)
    (45.6, 0.0764)
    """
    path = plateau_path(problem, start, checks.as_flag("gradient_flow", gradient_flow))
    b = path.amplitudes(path.start)
    if np.linalg.norm(b) <= 1e-9 * np.linalg.norm(path.start - path.path[0]):
        raise InputError("the asymmetry does not grow on the plateau; give the rows of R different directions.")
    found = predicted_escape(path, b)
    return replace(found, slope=predicted_escape(path, b / np.e).time - found.time)


def predicted_escape(path: PlateauPath, b: np.ndarray) -> EscapeTime:
    """The escape of an asymmetry with amplitudes b (d,), which must be small at some time; its slope is not known."""
    sizes, rate, plateau = path.sizes(b), path.rate, path.plateau.error
    smallest = float(sizes.min())
    if smallest > LARGEST_ASYMMETRY:
        fix = f"it must be below {LARGEST_ASYMMETRY} at some time to pass a plateau. Solve or simulate instead"
        raise InputError(f"the asymmetry stays above {smallest:.2g}; {fix}.")
    launch_time, launch = path.launch(b)
    since = np.linspace(0.0, 15.0 / rate, 301)
    states, errors = path.exits(launch[None], since, rtol=1e-7, atol=1e-10)
    times, errors, threshold = launch_time + since, errors[:, 0], escape_threshold(plateau, float(errors[-1, 0]))
    time = launch_time + last_fall(since, errors, threshold)
    if threshold >= plateau or not np.isfinite(time):
        at = f"{errors[-1]:.4g} at alpha = {times[-1]:.4g}"
        raise InputError(f"the error does not fall once the plateau ({plateau:.4g}) is left: {at}. Lower the learning rate.")
    size, before = max(LAUNCH_SIZE, smallest), path.times < launch_time
    amplitude = size * float(np.exp(-rate * launch_time))
    return EscapeTime(
        time=time,
        rate=rate,
        slope=np.nan,
        amplitude=amplitude,
        constant=amplitude * float(np.exp(rate * time)),
        per_log_dim=1 / (2 * rate),
        asymmetry=float(np.linalg.norm(path.start - path.path[0])),
        threshold=threshold,
        plateau=path.plateau,
        teachers=tuple(path.teachers(states[-1])[0].tolist()),
        times=np.concatenate([path.times[before], times]),
        errors=np.concatenate([path.local.errors(path.path)[before], errors]),
        sizes=np.concatenate([sizes[before], [size], np.full(times.size - 1, np.nan)]),
    )


@dataclass(frozen=True, repr=False)
class EscapeDistribution(AnalysisResult, figure="plot_escape_distribution"):
    """The law of escape times and permutations over networks.

    times: (samples,); inf: not within 60 e-folding times. mean, width: mean and standard deviation of the finite ones; for
    random weights width tends to a constant (of order 1/rate) as N grows. teachers: (samples, K), as each unit chose.
    start_to_noise: the amplitude of the initial condition in the growing modes, in standard deviations of the noise (root
    mean square over random initial conditions). words: who decides the escape. theory, theory_teachers: escape time and
    teacher units of the solved curve; None for random and for symmetric initial conditions. rate: growth on the plateau.
    threshold: the error below which a network has escaped. dim: N.
    """

    problem: Problem
    dim: int
    times: np.ndarray
    mean: float
    width: float
    teachers: np.ndarray
    start_to_noise: float
    words: str
    theory: float | None
    theory_teachers: tuple[int, ...] | None
    rate: float
    threshold: float
    plateau: FixedPoint

    def quantiles(self, shares: ArrayLike = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Times by which these shares of networks have escaped."""
        levels = checks.as_array("shares", shares)
        if np.any((levels < 0) | (levels > 1)):
            raise InputError(f"shares is {checks.shown(levels)}; every share must lie between 0 and 1.")
        return np.quantile(self.times, levels, method="inverted_cdf")

    def cdf(self, times: ArrayLike) -> np.ndarray:
        """The share of networks that have escaped by these times."""
        return np.searchsorted(np.sort(self.times), np.asarray(times, float), side="right") / self.times.size

    @property
    def permutations(self) -> dict[tuple[int, ...], float]:
        """Which teacher each unit chooses, and how probably, the most probable first."""
        found, counts = np.unique(self.teachers, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {tuple(found[i].tolist()): float(counts[i] / counts.sum()) for i in order}

    def probability(self, permutation: Sequence[int] | np.ndarray) -> float:
        """The probability that unit k chooses teacher permutation[k], for every k."""
        K, M = self.teachers.shape[1], self.problem.teacher.hidden
        if np.shape(permutation) != (K,) or not np.isin(permutation, range(M)).all():
            given = checks.shown(permutation)
            raise InputError(f"permutation is {given}; it must name a teacher, 0 to {M - 1}, for each of {K} units.")
        return float(np.mean(np.all(self.teachers == permutation, axis=1)))

    def measured(self, runs: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        """When each run of a simulation escaped, (run,) (inf: not yet), and its units' teachers at the end, (run, K)."""
        if not isinstance(runs, Trajectory) or runs.kind != "simulation" or np.ndim(runs.error) != 2:
            raise InputError(f"runs is {kind_of(runs)}; give what simulate returned.")
        if not runs.finished:
            raise InputError(f"these runs have no end to look at: {runs.status}. Simulate up to an earlier time.")
        times = np.array([last_fall(np.asarray(runs.times), error, self.threshold) for error in np.asarray(runs.error)])
        return times, assigned_teachers(self.problem, np.asarray(runs.R)[:, -1], np.asarray(runs.T))

    def __str__(self) -> str:
        low, middle, high = self.quantiles()
        lines = [
            f"escape from the plateau (e_g = {self.plateau.error:.4g}) at N = {self.dim}, {self.times.size} samples: "
            f"median {middle:.4g}, 90% between {low:.4g} and {high:.4g}",
            f"mean {self.mean:.4g}, standard deviation {self.width:.3g} = {self.width * self.rate:.2f} / rate",
            f"asymmetry/noise = {self.start_to_noise:.2g}: {self.words}",
        ]
        if self.theory is not None and self.theory_teachers is not None:
            earlier, same = float(self.cdf(self.theory)), self.probability(self.theory_teachers)
            compared = f"{100 * earlier:.0f}% of networks are earlier, and {100 * same:.0f}% end in the same permutation"
            lines.append(f"the theory escapes at {self.theory:.4g}: {compared}")
        named = [f"{[m + 1 for m in p]} {100 * share:.0f}%" for p, share in self.permutations.items() if share >= 0.05]
        units = numbered(range(self.teachers.shape[1]))
        often = ", ".join(named) or "none more often than 5%"
        return "\n".join([*lines, f"teacher units of the student units {units}: {often}"])


def escape_distribution(
    problem: Problem,
    start: Start | None = None,
    dim: int | None = None,
    *,
    scale: float = 0.1,
    samples: int = 500,
    seed: int = 0,
) -> EscapeDistribution:
    """The distribution of escape times and permutations over networks of input dimension N, to leading order in 1/N.

    Omitted terms are of relative order N^(-1/2) in the amplitude, N^(-1/2)/rate in the time.

    Parameters
    ----------
    problem : Problem
        With constant learning rates.
    start : Start, optional
        The initial condition of all networks. None: each network draws `random_start(problem, dim, scale)`.
    dim : int, optional
        N. Default: that of `start`.
    scale : float
        Standard deviation of random weights.
    samples, seed : int
        The number of sampled networks, and their seed.

    Returns
    -------
    EscapeDistribution

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=1.5))
    >>> start = tu.Start(R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> law = tu.analysis.escape_distribution(problem, start, samples=50)
    >>> law.times.shape, law.quantiles([0.05, 0.95]).shape
    ((50,), (2,))
    """
    problem = with_constant_rates(problem, "escape_distribution", (*CLASSIC, "all levels"))
    samples, seed = checks.as_count("samples", samples, least=2), checks.as_count("seed", seed, least=0)
    known = [d for d in (dim, getattr(start, "dim", None), problem.inputs.known_dim) if d is not None]
    if not known:
        raise InputError("dim is missing; give the number of input dimensions N, such as dim=1000.")
    dim = checks.as_count("dim", known[0])
    path = plateau_path(problem, random_start(problem, None, scale) if start is None else start, smallest=dim**-0.5)
    rng, noise = np.random.default_rng(seed), path.noise() / dim
    if start is None:
        drawn = (random_start(problem, dim, scale, seed=int(s)) for s in rng.integers(2**63, size=samples))
        starts = path.amplitudes(np.stack([flatten(initial_overlaps(problem, one)[0]) for one in drawn]))
    else:
        starts = path.amplitudes(path.start)[None]
    b = starts + rng.multivariate_normal(np.zeros(len(noise)), noise, size=samples, method="eigh")
    symmetric = start is None or np.linalg.norm(starts) <= 1e-9 * np.sqrt(np.trace(noise))
    first = predicted_escape(path, b[0] if symmetric else starts[0])
    times, ends = exit_times(path, b, first.threshold)
    distances = np.einsum("si,ij,sj->s", starts, np.linalg.pinv(noise), starts)
    finite, ratio = times[np.isfinite(times)], float(np.sqrt(distances.mean()))
    theory = (None, None) if symmetric else (first.time, first.teachers)
    law = times, float(np.mean(finite)), float(np.std(finite)), path.teachers(ends), ratio, who_decides(ratio)
    return EscapeDistribution(problem, dim, *law, *theory, path.rate, first.threshold, path.plateau)
