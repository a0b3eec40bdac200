"""Escapes from a plateau: of one start in the limit, or of many networks at finite N.

The symmetric part of a start, which equal units share, is solved inside its own
subspace, where it ends on the plateau and never leaves; the rest x obeys

    dx = J x dalpha + dW / sqrt(N)

along that path. The part of it that will grow are d amplitudes

    b = left(0) . x_0 + N^(-1/2) xi,    Cov(xi) = int left^T D left ds,
    x(alpha) -> right(alpha) b,

`left`: the directions that grow on the plateau, carried back along the path by its
adjoint; `right`: carried on from time zero. The exit is solved from when the asymmetry
has grown to a small, fixed size (docs/how-to/escape-times.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._types import NumpyOrJax
from tutelage.analysis.fixed_points import (
    SETTLING,
    FixedPoint,
    SubspaceDrift,
    fixed_point,
    integrated,
    symmetric_subspace,
)
from tutelage.analysis.noise import require_small_state
from tutelage.analysis.result import AnalysisResult, final_crossing
from tutelage.errors import InputError, kind_of
from tutelage.problem import Problem, Start, random_start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLASSIC, SMOOTH
from tutelage.result.trajectory import Trajectory
from tutelage.stream import OrderParameters, initial_overlaps, linearized
from tutelage.stream.order_parameters import flatten, unflatten
from tutelage.stream.validity import who_decides

PATH_TIMES = 240  # along the path, dense at first
# E-foldings for which the path is followed, beyond those that the asymmetry needs to
# grow to one.
SETTLING_EFOLDS = 10.0
LAUNCH_SIZE = 0.03  # size of the asymmetry up to which it is carried linearly
# A larger asymmetry does not grow linearly, and passes no plateau.
LARGEST_ASYMMETRY = 0.25
IDENTICAL = 1e-13  # units that differ by less, relative to the overlaps, are identical
# Amplitudes below this share (of the asymmetry, or of the noise) do not grow.
NO_AMPLITUDE = 1e-9
RECORDS_PER_EFOLD = 25  # errors recorded per e-folding time
EXIT_EFOLDS = 15.0  # e-folding times for which a single exit is solved
EXIT_TIMES = 301  # recorded times of a single exit
LONGEST_EXIT = 60  # e-folding times after which an exit is given up
NAMED_SHARE = 0.05  # permutations chosen at least so often are named in the report


@dataclass(frozen=True)
class PlateauPath:
    """The symmetric path to a plateau, and the directions that grow around it.

    times: (m,). path: (m, n), the symmetric solution. right, left: (m, n, d), with
    left_i^T right_i = 1 at every instant. start: (n,), the start itself. All are in the
    flat coordinates of `local`. rate: the fastest growth on the plateau.
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
        """Return b (..., d), the growing part of starts (..., n)."""
        return (vectors - self.path[0]) @ self.left[0]

    def noise(self) -> np.ndarray:
        """Return N Cov(b), (d, d), from the steps of SGD.

        Each step is counted as if its noise had been there from the beginning.
        """
        rates = linearized.noise_covariances(self.local, 0.0, self.path, self.left)
        return np.trapezoid(rates, self.times, axis=0)

    def sizes(self, b: np.ndarray) -> np.ndarray:
        """Return the size of the asymmetry right(alpha) b at every instant, (m,)."""
        return np.linalg.norm(self.right @ b, axis=1)

    def launch(self, b: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the time at which the exit is solved from, and the state (n,).

        Then the asymmetry right(alpha) b, b (d,), reaches LAUNCH_SIZE, or is smallest.
        """
        deviations = self.right @ b
        size = self.sizes(b)
        level = max(LAUNCH_SIZE, float(size.min()))
        i = int(np.flatnonzero(size <= level)[-1])
        if i == self.times.size - 1:
            # the asymmetry goes on growing at the plateau's rate
            time = self.times[i] + np.log(level / size[i]) / self.rate
            return time, self.path[i] + deviations[i] * level / size[i]
        # between two instants the size grows exponentially
        part = np.log(level / size[i]) / np.log(size[i + 1] / size[i])
        directions = deviations / size[:, None]

        def interpolated(course: np.ndarray) -> np.ndarray:
            return (1 - part) * course[i] + part * course[i + 1]

        direction = interpolated(directions)
        deviation = direction * level / np.linalg.norm(direction)
        return float(interpolated(self.times)), interpolated(self.path) + deviation

    def exits(
        self, states: np.ndarray, times: np.ndarray, **options: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return later states (time, B, n), and their errors (time, B).

        states: (B, n). options: tolerances and method of the integrator.
        """

        def drift(flat: np.ndarray) -> np.ndarray:
            return self.local.drifts(flat.reshape(states.shape)).ravel()

        solved = integrated(drift, states.ravel(), times, **options)
        if solved is None:
            raise InputError(
                "the overlaps diverge once the plateau is left; "
                "lower the learning rate."
            )
        errors = self.local.errors(solved.reshape(-1, states.shape[1]))
        return solved.reshape(-1, *states.shape), errors.reshape(times.size, -1)

    def teachers(self, states: np.ndarray) -> np.ndarray:
        """Return the teacher that each unit has chosen in states (B, n), (B, K)."""
        system = self.local.system
        R, _, T = system.covariances(unflatten(states, self.local.like))
        return assigned_teachers(system.problem, np.asarray(R), np.asarray(T))


def plateau_path(
    problem: Problem,
    start: Start,
    gradient_flow: bool = False,
    smallest: float | None = None,
) -> PlateauPath:
    """Return the path from a start to its plateau.

    It is long enough for asymmetries as small as `smallest` (default: that of the
    start) to grow.
    """
    needs = (*SMOOTH, *SETTLING, "steady steps", "all levels")
    problem = with_constant_rates(problem, "escape_time", needs)
    problem = _as_started(problem, require_start(start))
    require_small_state(problem)
    state, t = initial_overlaps(problem, start)
    vector = np.asarray(flatten(state))
    plateau = _unstable_plateau(problem, gradient_flow)
    subspace = symmetric_subspace(problem, t, plateau.state, copies=False)
    system = OrderParameters(problem, t, gradient_flow)
    inside = SubspaceDrift(system, state, subspace)
    symmetric = subspace.coordinates(vector)
    asymmetry = float(np.linalg.norm(vector - subspace.inside(symmetric)))
    if smallest is None:
        if asymmetry <= IDENTICAL * max(1.0, float(np.max(np.abs(vector)))):
            raise InputError(
                "the units begin exactly identical and never escape; use random_start, "
                "or unequal rows of R."
            )
        smallest = asymmetry

    # the path, in the subspace of equal units
    rate = plateau.unstable[0].growth
    end = (SETTLING_EFOLDS + np.log(1 / min(smallest, 1.0))) / rate
    times = end * np.linspace(0.0, 1.0, PATH_TIMES) ** 3
    solved = integrated(inside.drift, symmetric, times, rtol=1e-8, atol=1e-11)
    if solved is None:
        lr = float(problem.optimizer.lr)
        raise InputError(
            f"the symmetric part of this Start diverges at learning rate {lr:g}; "
            "lower it to reach a plateau."
        )
    path = np.array([subspace.inside(y) for y in solved])

    # the growing directions, carried back from the plateau and forward again
    steps = linearized.propagators(times, inside.local.jacobians(path))
    modes = np.stack([mode.left for mode in plateau.unstable], axis=1)
    orthonormal_modes, _ = np.linalg.qr(modes)
    back = linearized.propagate_adjoint(steps, orthonormal_modes)
    first, scale = np.linalg.qr(back[0])
    return PlateauPath(
        plateau=plateau,
        rate=rate,
        local=inside.local,
        start=vector,
        times=times,
        path=path,
        right=linearized.propagate(steps, first),
        left=back @ np.linalg.inv(scale),
    )


def _as_started(problem: Problem, start: Start) -> Problem:
    """Return the problem with the start's teachers, and its frozen readout and bias."""
    changes: dict[str, NumpyOrJax] = {}
    if problem.references.gram is None and start.T is not None:
        _, _, t = start.blocks(problem)
        changes["teacher.gram"] = t
    if start.readout is not None and not problem.student.train_readout:
        changes["student.readout"] = start.readout
    if start.bias is not None and not problem.student.train_bias:
        changes["student.bias"] = start.bias
    return problem.replace(**changes) if changes else problem


def _unstable_plateau(problem: Problem, gradient_flow: bool) -> FixedPoint:
    """Return the plateau, if there is one and it is left along real modes."""
    try:
        plateau = fixed_point(problem, "plateau", gradient_flow=gradient_flow)
    except InputError as error:
        reason = str(error).split(";")[0]
        raise InputError(
            f"no plateau to escape from: {reason}. "
            "Use equal units and a rate that converges."
        ) from None
    if plateau.stable:
        raise InputError(
            f"the symmetric state (e_g = {plateau.error:.4g}) is stable, so nothing "
            "escapes; change the learning rate, the noise or the number of units."
        )
    if any(isinstance(mode.rate, complex) for mode in plateau.unstable):
        raise InputError(
            "the plateau is left in a spiral (complex rates); "
            "only escapes along real modes are predicted."
        )
    return plateau


def escape_threshold(plateau: float, end: float) -> float:
    """Return the error below which a network has escaped.

    This is half of the plateau's error, or its geometric mean with the error at the end
    where that is higher.
    """
    return max(plateau / 2, float(np.sqrt(plateau * max(end, 0.0))))


def last_fall(times: np.ndarray, error: np.ndarray, threshold: float) -> float:
    """Return the time at which a curve falls below the threshold for good.

    Between recorded times it is interpolated. inf: not yet.
    """
    height = np.log(np.maximum(error, 1e-300))
    level = float(np.log(max(threshold, 1e-300)))
    return max(float(times[0]), final_crossing(times, height, level))


def exit_times(
    path: PlateauPath, b: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the escape times (B,) (inf: not yet), and states (B, n) later on.

    b: (B, d), amplitudes of asymmetries.
    """
    launches = [path.launch(amplitudes) for amplitudes in b]
    launch_times = np.array([time for time, _ in launches])
    states = np.array([state for _, state in launches])
    grid = np.arange(1, RECORDS_PER_EFOLD + 1) / (RECORDS_PER_EFOLD * path.rate)
    stretches = []
    is_waiting = True
    for _ in range(LONGEST_EXIT):
        later, errors = path.exits(states, grid, method="RK45", rtol=1e-5, atol=1e-8)
        states = later[-1]
        stretches.append(errors)
        # all had escaped one stretch earlier: meanwhile units have chosen teachers
        if not is_waiting:
            break
        is_waiting = np.any(errors[-1] >= threshold)
    curves = np.concatenate(stretches)
    since = grid[0] * np.arange(1, len(curves) + 1)
    durations = np.array([last_fall(since, curve, threshold) for curve in curves.T])
    return launch_times + durations, states


def assigned_teachers(problem: Problem, R: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Return the teacher that each unit overlaps with most, (..., K).

    Different units have different teachers where there are enough.
    """
    from scipy.optimize import linear_sum_assignment

    is_even = problem.student.activation.parity == 1
    lengths = np.sqrt(np.diagonal(T, axis1=-2, axis2=-1))
    overlaps = (np.abs(R) if is_even else R) / lengths[..., None, :]
    if R.shape[-2] > R.shape[-1]:
        return np.argmax(overlaps, axis=-1)
    assignments = [
        linear_sum_assignment(matrix, maximize=True)[1]
        for matrix in overlaps.reshape(-1, *R.shape[-2:])
    ]
    return np.array(assignments).reshape(R.shape[:-1])


@dataclass(frozen=True, repr=False)
class EscapeTime(AnalysisResult, figure="plot_escape_time"):
    """The predicted escape from a plateau.

    time = (1/rate) ln(constant / amplitude). rate: growth of the asymmetry there.
    slope: the delay of an e-th of the asymmetry; 1/rate for small ones, some per cent
    more or less as long as the slow symmetric modes (q_ii - q_ij) have not come to
    rest. asymmetry: size of the differences between the units of the start (Euclidean
    norm over all overlaps). amplitude: its growing part on the plateau, counted back to
    time zero. constant: depends on the direction of the asymmetry, hardly on its size.
    per_log_dim: 1/(2 rate), since random weights, of asymmetry N^(-1/2), escape later
    by this much times ln N. threshold: the error below which the network has escaped.
    teachers: the teacher that each unit chooses. times, errors, sizes: the predicted
    learning curve, and the size of the asymmetry up to its launch (NaN after).
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
        """Return the escape time for `factor` times the initial asymmetry."""
        log_factor = float(np.log(checks.as_positive("factor", factor)))
        return self.time - self.slope * log_factor

    def __str__(self) -> str:
        modes = len(self.plateau.unstable)
        formula = f"ln({self.constant:.3g} / {self.amplitude:.3g}) / {self.rate:.5g}"
        tenth = f"{self.slope * np.log(10):.4g} later"
        students = numbered(range(len(self.teachers)))
        teachers = numbered(self.teachers)
        return (
            f"escape at alpha = {self.time:.5g}: the error falls below "
            f"{self.threshold:.4g} (plateau {self.plateau.error:.4g})\n"
            f"growth: exp({self.rate:.5g} alpha), "
            f"{modes} growing mode{'s' * (modes > 1)}\n"
            f"initial asymmetry {self.asymmetry:.3g}, "
            f"which acts as {self.amplitude:.3g} on the plateau; alpha = {formula}\n"
            f"a tenth of the asymmetry: {tenth}; random weights in N dimensions: "
            f"{self.per_log_dim:.4g} ln N later\n"
            f"student units {students} specialize to the teacher units {teachers}"
        )


def numbered(indices: Iterable[int]) -> str:
    """Return units in words, which count from one."""
    return ", ".join(str(index + 1) for index in indices)


def escape_time(
    problem: Problem, start: Start, *, gradient_flow: bool = False
) -> EscapeTime:
    """Predict the time at which the solved curve escapes from its plateau.

    The escape itself is not solved. The time is within 0.5% of the solved time for
    asymmetries up to 0.1, and within 5% up to 0.25 (tests), for any activation,
    spectrum, batch, weight decay, label noise and trained readouts.

    Parameters
    ----------
    problem : Problem
        With constant learning rates.
    start : Start
        Nearly symmetric: units identical up to an asymmetry (R_1m - R_2m, Q_11 - Q_22,
        ...) of at most about 0.25.
    gradient_flow : bool
        Include terms of order eta only.

    Returns
    -------
    EscapeTime

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=1.5))
    >>> R = [[0.31, 0.29], [0.29, 0.31]]
    >>> start = tu.Start(R=R, Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> escape = tu.analysis.escape_time(problem, start)
    >>> round(escape.time, 1), round(escape.rate, 4)
    (45.6, 0.0764)
    """
    flow = checks.as_flag("gradient_flow", gradient_flow)
    path = plateau_path(problem, start, flow)
    b = path.amplitudes(path.start)
    asymmetry = np.linalg.norm(path.start - path.path[0])
    if np.linalg.norm(b) <= NO_AMPLITUDE * asymmetry:
        raise InputError(
            "the asymmetry does not grow on the plateau; "
            "give the rows of R different directions."
        )
    escape = predicted_escape(path, b)
    delay = predicted_escape(path, b / np.e).time - escape.time
    return replace(escape, slope=delay)


def predicted_escape(path: PlateauPath, b: np.ndarray) -> EscapeTime:
    """Return the escape of an asymmetry with amplitudes b (d,); its slope is NaN.

    The asymmetry must be small at some time.
    """
    sizes = path.sizes(b)
    rate = path.rate
    plateau_error = path.plateau.error
    smallest = float(sizes.min())
    if smallest > LARGEST_ASYMMETRY:
        raise InputError(
            f"the asymmetry stays above {smallest:.2g}; it must be below "
            f"{LARGEST_ASYMMETRY} at some time to pass a plateau. "
            "Solve or simulate instead."
        )
    launch_time, launch_state = path.launch(b)
    since = np.linspace(0.0, EXIT_EFOLDS / rate, EXIT_TIMES)
    states, all_errors = path.exits(launch_state[None], since, rtol=1e-7, atol=1e-10)
    errors = all_errors[:, 0]
    times = launch_time + since
    threshold = escape_threshold(plateau_error, float(errors[-1]))
    time = launch_time + last_fall(since, errors, threshold)
    if threshold >= plateau_error or not np.isfinite(time):
        end = f"{errors[-1]:.4g} at alpha = {times[-1]:.4g}"
        raise InputError(
            f"the error does not fall once the plateau ({plateau_error:.4g}) is left: "
            f"{end}. Lower the learning rate."
        )
    launch_size = max(LAUNCH_SIZE, smallest)
    amplitude = launch_size * float(np.exp(-rate * launch_time))
    before = path.times < launch_time
    errors_before = path.local.errors(path.path)[before]
    unknown_sizes = np.full(times.size - 1, np.nan)
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
        errors=np.concatenate([errors_before, errors]),
        sizes=np.concatenate([sizes[before], [launch_size], unknown_sizes]),
    )


@dataclass(frozen=True, repr=False)
class EscapeDistribution(AnalysisResult, figure="plot_escape_distribution"):
    """The law of escape times and permutations over networks.

    times: (samples,); inf: not within 60 e-folding times. mean, width: mean and
    standard deviation of the finite ones; for random weights width tends to a constant
    (of order 1/rate) as N grows. teachers: (samples, K), as each unit chose.
    start_to_noise: the amplitude of the initial condition in the growing modes, in
    standard deviations of the noise (root mean square over random initial conditions).
    words: a sentence on what decides the escape. theory, theory_teachers: escape time
    and teacher units of the solved curve; None for random and for symmetric initial
    conditions. rate: growth on the plateau. threshold: the error below which a network
    has escaped. dim: N.
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
        """Return the times by which these shares of networks have escaped."""
        levels = checks.as_array("shares", shares)
        if np.any((levels < 0) | (levels > 1)):
            raise InputError(
                f"shares is {checks.shown(levels)}; "
                "every share must lie between 0 and 1."
            )
        return np.quantile(self.times, levels, method="inverted_cdf")

    def cdf(self, times: ArrayLike) -> np.ndarray:
        """Return the share of networks that have escaped by these times."""
        ordered = np.sort(self.times)
        escaped = np.searchsorted(ordered, np.asarray(times, float), side="right")
        return escaped / self.times.size

    @property
    def permutations(self) -> dict[tuple[int, ...], float]:
        """The teachers that the units choose, with the share of networks.

        The most probable choice is first.
        """
        choices, counts = np.unique(self.teachers, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        total = counts.sum()
        return {tuple(choices[i].tolist()): float(counts[i] / total) for i in order}

    def probability(self, permutation: Sequence[int] | np.ndarray) -> float:
        """Return the probability that every unit k chooses teacher permutation[k]."""
        K = self.teachers.shape[1]
        M = self.problem.labeler.hidden
        is_of_teachers = np.isin(permutation, range(M)).all()
        if np.shape(permutation) != (K,) or not is_of_teachers:
            raise InputError(
                f"permutation is {checks.shown(permutation)}; "
                f"it must name a teacher, 0 to {M - 1}, for each of {K} units."
            )
        return float(np.mean(np.all(self.teachers == permutation, axis=1)))

    def measured(self, runs: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        """Return escape times and teachers of the runs of a simulation.

        The times are (run,) (inf: not yet), the teachers of the units at the end
        (run, K).
        """
        is_simulation = isinstance(runs, Trajectory) and runs.kind == "simulation"
        if not is_simulation or np.ndim(runs.error) != 2:
            raise InputError(f"runs is {kind_of(runs)}; give what simulate returned.")
        if not runs.finished:
            raise InputError(
                f"these runs have no end to look at: {runs.status}. "
                "Simulate up to an earlier time."
            )
        times = np.asarray(runs.times)
        escapes = [
            last_fall(times, error, self.threshold) for error in np.asarray(runs.error)
        ]
        R_at_end = np.asarray(runs.R)[:, -1]
        teachers = assigned_teachers(self.problem, R_at_end, np.asarray(runs.T))
        return np.array(escapes), teachers

    def __str__(self) -> str:
        low, middle, high = self.quantiles()
        width = f"{self.width:.3g} = {self.width * self.rate:.2f} / rate"
        lines = [
            f"escape from the plateau (e_g = {self.plateau.error:.4g}) "
            f"at N = {self.dim}, {self.times.size} samples: "
            f"median {middle:.4g}, 90% between {low:.4g} and {high:.4g}",
            f"mean {self.mean:.4g}, standard deviation {width}",
            f"asymmetry/noise = {self.start_to_noise:.2g}: {self.words}",
        ]
        if self.theory is not None and self.theory_teachers is not None:
            earlier = f"{100 * float(self.cdf(self.theory)):.0f}%"
            same = f"{100 * self.probability(self.theory_teachers):.0f}%"
            lines.append(
                f"the theory escapes at {self.theory:.4g}: {earlier} of networks are "
                f"earlier, and {same} end in the same permutation"
            )
        named = []
        for permutation, share in self.permutations.items():
            if share >= NAMED_SHARE:
                named.append(f"{[m + 1 for m in permutation]} {100 * share:.0f}%")
        units = numbered(range(self.teachers.shape[1]))
        often = ", ".join(named) or "none more often than 5%"
        lines.append(f"teacher units of the student units {units}: {often}")
        return "\n".join(lines)


def escape_distribution(
    problem: Problem,
    start: Start | None = None,
    dim: int | None = None,
    *,
    scale: float = 0.1,
    samples: int = 500,
    seed: int = 0,
) -> EscapeDistribution:
    """Predict the distribution of escape times and permutations over networks.

    It is that of networks of input dimension N, to leading order in 1/N. Omitted terms
    are of relative order N^(-1/2) in the amplitude, N^(-1/2)/rate in the time.

    Parameters
    ----------
    problem : Problem
        With constant learning rates.
    start : Start, optional
        The initial condition of all networks. None: each network draws
        `random_start(problem, dim, scale)`.
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
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=1.5))
    >>> R = [[0.31, 0.29], [0.29, 0.31]]
    >>> start = tu.Start(R=R, Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> law = tu.analysis.escape_distribution(problem, start, samples=50)
    >>> law.times.shape, law.quantiles([0.05, 0.95]).shape
    ((50,), (2,))
    """
    needs = (
        *CLASSIC,
        *SETTLING,
        "steady steps",
        "sum of samples",
        "unscaled readout",
        "all levels",
    )
    problem = with_constant_rates(problem, "escape_distribution", needs)
    samples = checks.as_count("samples", samples, least=2)
    seed = checks.as_count("seed", seed, least=0)
    dim = _known_dim(problem, start, dim)
    symmetric_start = random_start(problem, None, scale) if start is None else start
    path = plateau_path(problem, symmetric_start, smallest=dim**-0.5)
    rng = np.random.default_rng(seed)
    noise = path.noise() / dim
    if start is None:
        vectors = []
        for weights_seed in rng.integers(2**63, size=samples):
            drawn = random_start(problem, dim, scale, seed=int(weights_seed))
            state, _ = initial_overlaps(problem, drawn)
            vectors.append(flatten(state))
        starts = path.amplitudes(np.stack(vectors))
    else:
        starts = path.amplitudes(path.start)[None]
    b = starts + rng.multivariate_normal(
        np.zeros(len(noise)), noise, size=samples, method="eigh"
    )
    noise_size = np.sqrt(np.trace(noise))
    has_theory = (
        start is not None and np.linalg.norm(starts) > NO_AMPLITUDE * noise_size
    )
    reference = predicted_escape(path, starts[0] if has_theory else b[0])
    times, ends = exit_times(path, b, reference.threshold)
    finite = times[np.isfinite(times)]
    squared_ratios = np.einsum("si,ij,sj->s", starts, np.linalg.pinv(noise), starts)
    start_to_noise = float(np.sqrt(squared_ratios.mean()))
    return EscapeDistribution(
        problem=problem,
        dim=dim,
        times=times,
        mean=float(np.mean(finite)),
        width=float(np.std(finite)),
        teachers=path.teachers(ends),
        start_to_noise=start_to_noise,
        words=who_decides(start_to_noise),
        theory=reference.time if has_theory else None,
        theory_teachers=reference.teachers if has_theory else None,
        rate=path.rate,
        threshold=reference.threshold,
        plateau=path.plateau,
    )


def _known_dim(problem: Problem, start: Start | None, dim: int | None) -> int:
    """Return N as given, else that of the start, else that of the inputs."""
    if dim is None:
        dim = getattr(start, "dim", None)
    if dim is None:
        dim = problem.inputs.known_dim
    if dim is None:
        raise InputError(
            "dim is missing; give the number of input dimensions N, such as dim=1000."
        )
    return checks.as_count("dim", dim)
