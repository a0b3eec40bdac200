"""The gaps between theory and runs, in units of what chance explains.

With few runs gap / standard error follows Student's law, which has long tails, so z is
the value of a normal variable that is exceeded equally often: |z| < 4 then means the
same for 5 runs and for 500.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tutelage._types import ArrayLike
from tutelage.comparison.expected import ExpectedGap
from tutelage.comparison.level_shift import LevelShift
from tutelage.comparison.matching import match
from tutelage.comparison.pairing import Pair, pair
from tutelage.result.trajectory import Trajectory

FINEST = 1e-8  # accuracy of solved overlaps, relative to the largest one
FINEST_ERROR = 1e-6  # relative accuracy of a solved error
ROUNDING = 1e-14  # absolute accuracy of any solved error
SMALLEST_SCALE = 1e-12  # of overlaps, where all of them vanish
CAP = 37.0  # larger z-scores have no probability in float64
LEAST_TAIL = 1e-299  # probability of a deviation beyond the cap


@dataclass(frozen=True)
class TheoryAccuracy:
    """The accuracy of the theory itself.

    Attributes
    ----------
    rtol : float
        The tolerance with which the theory was solved.
    sampling : dict of arrays (time, ...)
        By name, what sampled averages (or other estimates of the theory) may move it
        by, with 95% confidence: two standard errors. Empty if nothing is sampled.
    """

    rtol: float = 0.0
    sampling: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def is_sampled(self) -> bool:
        """True if the theory's averages are sampled."""
        return bool(self.sampling)


@dataclass(frozen=True)
class Gap:
    """The gap of a quantity between theory and runs, over time.

    Attributes
    ----------
    name : str
    theory, mean, gap, standard_error, z : arrays (time, ...)
        The theory, the mean over runs, and their difference with its standard error (of
        the mean) and z-score.
    expected : array (time, ...)
        The gap that a right theory leaves at this N (its size if `rough`).
    beyond : array (time, ...)
        The z-score of what is left of the gap when anything from zero to twice the
        expected gap (either sign, if rough) is allowed, besides a known shift.
    rough : bool
        True if only the size of the expected gap is known.
    runs : array (run, time, ...)
    unit : array (time, ...)
        The standard error, with what sampled averages miss, or what the solver resolves
        if that is more.
    allowed : array (time, ...)
        The most by which a gap may differ from the middle of what is allowed.
    z_of_runs, beyond_of_runs : arrays (time, ...)
        z and beyond if the theory's sampled averages were exact.
    """

    name: str
    theory: np.ndarray
    runs: np.ndarray
    mean: np.ndarray
    gap: np.ndarray
    standard_error: np.ndarray
    unit: np.ndarray
    expected: np.ndarray
    rough: bool
    allowed: np.ndarray
    z: np.ndarray
    beyond: np.ndarray
    z_of_runs: np.ndarray
    beyond_of_runs: np.ndarray

    def entries(self, values: np.ndarray) -> Float[np.ndarray, "time entries"]:
        """Return the independent numbers of each time (Q is symmetric)."""
        if self.name == "Q":
            return values[:, *np.triu_indices(values.shape[-1])]
        return values.reshape(values.shape[0], -1)

    def labels(self) -> list[str]:
        """Return the names of the entries, counted from one as in the figures."""
        shape = self.theory.shape[1:]
        if self.name == "error" and shape:
            return [f"error, task {task + 1}" for task in range(shape[0])]
        if self.name == "Q":
            rows, columns = np.triu_indices(shape[-1])
            indices = list(zip(rows, columns, strict=True))
        else:
            indices = list(np.ndindex(shape))
        separator = ""
        if max(shape, default=1) > 9:
            separator = ","
        return [_label(self.name, index, separator) for index in indices]

    def worst_place(
        self, scores: np.ndarray, counted: Bool[np.ndarray, " time"]
    ) -> tuple[int, int]:
        """Return (time, entry) of the largest score, z or beyond, at counted times."""
        sizes = np.nan_to_num(np.abs(self.entries(scores)))
        sizes = np.where(counted[:, None], sizes, -1.0)
        time, entry = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        return int(time), int(entry)


# By the names of the compared quantities, "error" first.
Gaps: TypeAlias = dict[str, Gap]


def gaps(theory: Trajectory, runs: Trajectory) -> dict[str, Gap]:
    """Return the gap of the error and of each order parameter, without a verdict.

    It pairs and matches hidden units as `compare` does, and nothing else: no gap of order
    1/N is expected, and nothing is solved again.

    Parameters
    ----------
    theory, runs : Trajectory
        The results of `solve` and `simulate`, as for `compare`.

    Returns
    -------
    dict of Gap
        By name ("error", "R", "Q", ...), each with `theory`, `mean`, `standard_error` and
        `z` of shapes (time, ...). z of few runs is as improbable as the same z of many.

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> times = tu.linear_times(10, 11)
    >>> theory = tu.solve(problem, start, times=times)
    >>> runs = tu.simulate(problem, start, times=times, runs=10, seed=1)
    >>> found = tu.gaps(theory, runs)
    >>> list(found), found["R"].z.shape
    (['error', 'R', 'Q'], (11, 2, 2))
    """
    return measure_gaps(match(pair(theory, runs)).pair)


def theory_accuracy(pair: Pair) -> TheoryAccuracy:
    """Return the accuracy of the theory by its settings and sampled averages."""
    solution = pair.solution
    settings = dict(solution.settings)
    bounds = solution.estimates
    if solution.has_validity and "moments" in settings:
        bounds = solution.sampling_errors
    return TheoryAccuracy(
        rtol=float(settings.get("rtol", 0.0)),
        sampling={name: bound[: pair.times.size] for name, bound in bounds.items()},
    )


def measure_gaps(
    pair: Pair,
    expected: ExpectedGap | None = None,
    shift: LevelShift | None = None,
    accuracy: TheoryAccuracy | None = None,
) -> Gaps:
    """Measure the gap of each compared quantity.

    Parameters
    ----------
    pair : Pair
        The theory and its runs, with matched units.
    expected : ExpectedGap, optional
        The gap that a right theory leaves at this N. Default: none.
    shift : LevelShift, optional
        A gap that is known exactly, besides the expected one. Default: none.
    accuracy : TheoryAccuracy, optional
        Of the theory itself. Default: the finest tolerance, exact averages.
    """
    if accuracy is None:
        accuracy = TheoryAccuracy()
    known_shift: Mapping[str, np.ndarray] = {}
    if shift is not None:
        known_shift = shift.values
    gaps = {}
    for name in pair.compared:
        expected_gap = np.zeros_like(pair.theory[name])
        rough = False
        if expected is not None:
            expected_gap = expected.values[name]
            rough = expected.rough
        gaps[name] = measure_gap(
            name,
            pair.theory[name],
            pair.runs[name],
            expected=expected_gap,
            rough=rough,
            shift=known_shift.get(name, 0.0),
            rtol=accuracy.rtol,
            sampling=accuracy.sampling.get(name, 0.0),
        )
    return gaps


def measure_gap(
    name: str,
    theory: np.ndarray,
    runs: np.ndarray,
    *,
    expected: np.ndarray,
    rough: bool = False,
    shift: ArrayLike = 0.0,
    rtol: float = 0.0,
    sampling: ArrayLike = 0.0,
) -> Gap:
    """Measure the gap of one quantity; see `measure_gaps`."""
    count = runs.shape[0]
    mean = runs.mean(axis=0)
    gap = mean - theory
    standard_error = np.full_like(gap, np.nan)
    if count > 1:
        standard_error = runs.std(axis=0, ddof=1) / np.sqrt(count)

    # at time zero there is no standard error: the solver's resolution stands in
    resolution = max(1.0, rtol / FINEST) * _resolution(name, theory)
    unit_of_runs = np.fmax(standard_error, resolution)
    unit = np.hypot(unit_of_runs, np.divide(sampling, 2))

    # any gap between zero and twice the expected one; if rough, of either sign
    if rough:
        low = -2 * expected
        high = 2 * expected
        expected = expected + np.abs(shift)
    else:
        low = np.minimum(0 * expected, 2 * expected)
        high = np.maximum(0 * expected, 2 * expected)
        expected = expected + shift
    left = gap - np.clip(gap, shift + low, shift + high)
    return Gap(
        name=name,
        theory=theory,
        runs=runs,
        mean=mean,
        gap=gap,
        standard_error=standard_error,
        unit=unit,
        expected=expected,
        rough=rough,
        allowed=(high - low) / 2,
        z=z_score(gap / unit, count),
        beyond=z_score(left / unit, count),
        z_of_runs=z_score(gap / unit_of_runs, count),
        beyond_of_runs=z_score(left / unit_of_runs, count),
    )


def _resolution(name: str, theory: np.ndarray) -> np.ndarray:
    """Return the differences that a solve at the finest tolerance resolves."""
    if name == "error":
        return np.abs(theory) * FINEST_ERROR + ROUNDING
    largest = float(np.max(np.abs(theory), initial=0.0))
    return np.full_like(theory, FINEST * max(largest, SMALLEST_SCALE))


def _label(name: str, index: Sequence[Any], separator: str) -> str:
    """Return the name of an entry, such as R_12."""
    if len(index) == 0:
        return name
    return f"{name}_{separator.join(str(int(i) + 1) for i in index)}"


def z_score(ratio: np.ndarray, count: int) -> np.ndarray:
    """Return the normal deviate as probable as gap / standard error of `count` runs.

    It is NaN for one run.
    """
    # scipy.stats has the same functions, and takes four times as long to import
    from scipy.special import ndtri, stdtr

    if count < 2:
        return np.full_like(ratio, np.nan)
    tail = np.maximum(stdtr(count - 1, -np.abs(ratio)), LEAST_TAIL)
    return np.sign(ratio) * np.minimum(-ndtri(tail), CAP)
