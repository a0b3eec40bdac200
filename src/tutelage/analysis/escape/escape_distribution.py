"""The law of escape times at finite N: does the start decide when and where a network escapes, or SGD noise?

Near the symmetric path the asymmetry of a network of N inputs obeys dx = J x dalpha + dW / sqrt(N). What will grow of it
is Gaussian (plateau_path.py),

    b = b_0 + N^(-1/2) xi,    Cov(xi) = int left^T D left ds,

fed along the whole way and not on the plateau alone. Each b escapes at a time of its own, (1/rate) ln(c / |b|), with a
permutation of its own. Random weights have b_0 ~ N^(-1/2) as well: then neither the spread of the times nor the odds of the
permutations depend on N, however large it is; only the mean grows, finally by ln(N) / (2 rate).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage._errors import InputError, kind_of
from tutelage.analysis.escape.escape_time import assigned_teachers, chosen_teachers, exit_times, follow_exit, last_fall
from tutelage.analysis.escape.plateau_path import PlateauPath, plateau_path
from tutelage.analysis.fixed_points.fixed_point import FixedPoint
from tutelage.analysis.result import AnalysisResult
from tutelage.problem import Problem, Start, random_start
from tutelage.problem.problem import with_constant_rates
from tutelage.problem.traits import CLASSIC
from tutelage.trajectory import Trajectory
from tutelage.validity import who_decides

START_ROUNDING = 1e-9  # of the noise: a start whose amplitude is below this is symmetric
LEAST_PROBABILITY = 0.05  # permutations rarer than this are not named in the report


@dataclass(frozen=True)
class EscapeDistribution(AnalysisResult):
    """The law of escape times and permutations over networks.

    times: (samples,); inf: not within 60 e-folding times. teachers: (samples, K), as each unit chose.
    start_to_noise: what the start puts into the growing modes over what the noise puts there, in standard deviations of the
    noise (root mean square over random starts). theory, theory_teachers: when, and where to, the solved curve of the
    start escapes; None for random starts, and for symmetric ones, whose solution never does.
    rate: growth on the plateau. threshold: the error below which a network has escaped. dim: N.
    """

    problem: Problem
    dim: int
    times: np.ndarray
    teachers: np.ndarray
    start_to_noise: float
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
    def mean(self) -> float:
        """Mean time of those that escape."""
        return float(np.mean(self.times[np.isfinite(self.times)]))

    @property
    def width(self) -> float:
        """Standard deviation of the times; for random starts it tends to a constant (of order 1/rate) as N grows."""
        return float(np.std(self.times[np.isfinite(self.times)]))

    @property
    def permutations(self) -> dict[tuple[int, ...], float]:
        """Which teacher each unit chooses, and how probably, the most probable first."""
        found, counts = np.unique(self.teachers, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {tuple(found[i].tolist()): float(counts[i] / counts.sum()) for i in order}

    def probability(self, permutation: Sequence[int] | np.ndarray) -> float:
        """The probability that unit k chooses teacher permutation[k], for every k."""
        K, M = self.teachers.shape[1], self.problem.teacher.hidden
        wanted = tuple(permutation) if isinstance(permutation, list | tuple | np.ndarray) else ()
        if len(wanted) != K or any(m not in range(M) for m in wanted):
            raise InputError(
                f"permutation is {checks.shown(permutation)}; it must name a teacher, 0 to {M - 1}, for each of {K} units."
            )
        return self.permutations.get(tuple(int(m) for m in wanted), 0.0)

    @property
    def words(self) -> str:
        """Who decides, in words."""
        return who_decides(self.start_to_noise)

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
            f"start / noise = {self.start_to_noise:.2g}: {self.words}",
        ]
        if self.theory is not None and self.theory_teachers is not None:
            earlier, same = float(self.cdf(self.theory)), self.probability(self.theory_teachers)
            lines.append(
                f"the theory's own escape at {self.theory:.4g}: {100 * earlier:.0f}% of networks are earlier, and "
                f"{100 * same:.0f}% choose the same teachers"
            )
        named = [
            f"{[m + 1 for m in p]} {100 * share:.0f}%"
            for p, share in self.permutations.items()
            if share >= LEAST_PROBABILITY
        ]
        return "\n".join([*lines, f"teachers that units 1, 2, ... choose: {', '.join(named) or 'none more often than 5%'}"])

    def __repr__(self) -> str:
        return f"<EscapeDistribution at N = {self.dim}: {self.mean:.5g} ± {self.width:.3g}, {self.words}>"


def escape_distribution(
    problem: Problem,
    start: Start | None = None,
    dim: int | None = None,
    *,
    scale: float = 0.1,
    samples: int = 500,
    seed: int = 0,
) -> EscapeDistribution:
    """When and in which permutation networks of N = dim inputs leave the plateau, run by run.

    start: the start that all share; None: each run draws weights of its own, `random_start(problem, dim, scale)`. dim: N
    (default: that of the start). samples: how many networks are drawn; each is launched into its own nonlinear exit.
    Leading order in 1/N: what it drops is of relative order N^(-1/2) in the amplitude, so N^(-1/2)/rate in the time.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=1.5))
    >>> start = tu.Start(R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> law = tu.analysis.escape_distribution(problem, start, samples=50)
    >>> law.times.shape, law.quantiles([0.05, 0.95]).shape
    ((50,), (2,))
    """
    problem = with_constant_rates(problem, "escape_distribution", (*CLASSIC, "all levels"))
    samples, seed = checks.as_count("samples", samples, least=2), checks.as_count("seed", seed, least=0)
    dim = _known_dim(problem, start, dim)
    path = plateau_path(problem, random_start(problem, None, scale) if start is None else start, smallest=dim**-0.5)
    rng, noise = np.random.default_rng(seed), path.noise() / dim
    if start is None:
        drawn = [random_start(problem, dim, scale, seed=int(s)) for s in rng.integers(2**63, size=samples)]
        starts = _random_amplitudes(path, problem, drawn)
    else:
        starts = path.amplitudes(path.start)[None]
    b = starts + rng.multivariate_normal(np.zeros(len(noise)), noise, size=samples, method="eigh")
    path.require_small(b[0])
    symmetric = start is None or np.linalg.norm(starts) <= START_ROUNDING * np.sqrt(np.trace(noise))
    first = follow_exit(path, b[0] if symmetric else starts[0])
    times, ends = exit_times(path, b, first.threshold)
    distances = np.einsum("si,ij,sj->s", starts, np.linalg.pinv(noise), starts)
    return EscapeDistribution(
        problem=problem,
        dim=dim,
        times=times,
        teachers=chosen_teachers(path, ends),
        start_to_noise=float(np.sqrt(distances.mean())),
        theory=None if symmetric else first.time,
        theory_teachers=None if symmetric else tuple(chosen_teachers(path, first.last[None])[0].tolist()),
        rate=path.rate,
        threshold=first.threshold,
        plateau=path.plateau,
    )


def _known_dim(problem: Problem, start: Start | None, dim: int | None) -> int:
    known = next((d for d in (dim, getattr(start, "dim", None), problem.inputs.known_dim) if d is not None), None)
    if known is None:
        raise InputError("dim is missing; give the number of input dimensions N, such as dim=1000.")
    return checks.as_count("dim", known)


def _random_amplitudes(path: PlateauPath, problem: Problem, starts: list[Start]) -> np.ndarray:
    """b of freshly drawn weights, (samples, d)."""
    blocks = [start.blocks(problem) for start in starts]
    r, q = (np.stack([block[i] for block in blocks]) for i in (0, 1))
    upper = q[:, :, *np.triu_indices(problem.student.hidden)]
    overlaps = np.concatenate([x.reshape(len(starts), -1) for x in (r, upper)], axis=1)
    vectors = np.tile(path.start, (len(starts), 1))
    vectors[:, : overlaps.shape[1]] = overlaps
    return path.amplitudes(vectors)
