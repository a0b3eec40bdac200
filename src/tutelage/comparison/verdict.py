"""The verdict on the gaps between theory and runs.

Here are z-scores, the scatter and the escapes of single runs, and the decision. With
few runs gap / standard error follows Student's law, which has long tails, so z is the
value of a normal variable that is exceeded equally often: |z| < 4 then means the same
for 5 runs and for 500. docs/compare.md states all criteria.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage._solve import solve
from tutelage.analysis.escapes import escape_threshold, last_fall
from tutelage.analysis.noise import WIDE_SCATTER, fluctuations_along, state_size
from tutelage.comparison.pairing import Pair
from tutelage.errors import InputError, TutelageWarning
from tutelage.result.trajectory import Trajectory
from tutelage.stream.moments.node_moments import is_cheap
from tutelage.stream.validity import (
    START_DECIDES,
    Validity,
    slowest_before_rise,
    who_decides,
)
from tutelage.times import steps_at

DEPARTED = 0.9  # a curve departs when its error has fallen to this share of its plateau
SCATTER_POINTS = 2**10  # per moment: the standard deviation to about 1%
LARGEST_STATE = 64  # numbers of a state whose prediction takes a second or two
SMALLEST_ERROR = 1e-10  # below it rounding shows in the prediction
SCATTER_LIMIT = 3.0  # standard errors of the ratio of measured to predicted scatter
LEADING_ORDER = 0.1  # relative error of the scatter to leading order in 1/N
LATE = 0.01  # relative delay of ceil(alpha N) steps that shows in the scatter
FINEST = 1e-8  # accuracy of solved overlaps, relative to the largest one
FINEST_ERROR = 1e-6  # relative accuracy of a solved error
ROUNDING = 1e-14  # absolute accuracy of any solved error
CAP = 37.0  # larger z-scores have no probability in float64
LIMIT = 4.0  # standard errors
OVERALL = 0.99  # share of all numbers that must lie within the limit
EACH = 0.95  # share of the times of each quantity that must lie within the limit
LEAST_TIMES = 5  # fewer recorded times show no plateau
MOST_REASONS = 3  # quantities named in the sentence of a theory that differs

# Outcomes of a comparison.
AGREE = "agree"
BIASED = "agree within the expected finite-N bias"
DIFFER = "differ"
NOISE = "inconclusive after the plateau"
UNKNOWN = "inconclusive"


@dataclass(frozen=True)
class Escape:
    """The escape from a plateau, of the theory and of each run.

    plateau: the error on the plateau that the theory passes. threshold: the error below
    which a curve has escaped. theory, runs: times of escape (inf: not within these
    times). first_departure: until then all curves are on the plateau. start_to_noise:
    asymmetry / noise; NaN where unknown.
    """

    plateau: float
    threshold: float
    theory: float
    runs: np.ndarray
    first_departure: float
    start_to_noise: float

    @property
    def by_noise(self) -> bool:
        """True if noise, not the start, decides the escape of single runs."""
        return self.start_to_noise < START_DECIDES

    @property
    def escaped(self) -> np.ndarray:
        """Times of the runs that did escape."""
        return self.runs[np.isfinite(self.runs)]

    @property
    def earlier(self) -> int:
        """The number of runs that escape before the theory does."""
        return int(np.sum(self.runs < self.theory))

    def lines(self) -> list[str]:
        """Return the distribution of the runs' times, and the theory's place in it."""
        theory_escapes = np.isfinite(self.theory)
        when = f"at {self.theory:.4g}" if theory_escapes else "not within these times"
        fall = f"the error falls below {self.threshold:.3g}"
        out = [f"{fall} (plateau {self.plateau:.3g}); theory {when}"]
        times = self.escaped
        count = self.runs.size
        if times.size == 0:
            return [*out, f"none of {count} runs within these times"]
        who = (
            f"{count} runs" if times.size == count else f"{times.size} of {count} runs"
        )
        mean = f"{times.mean():.4g}"
        if times.size > 1:
            mean += f" ± {times.std(ddof=1):.3g}"
        span = f"from {times.min():.4g} to {times.max():.4g}"
        out.append(f"{who} at {mean} (mean ± sd), {span}")
        if theory_escapes:
            out.append(f"{self.earlier} of {count} runs escape before the theory does")
        return out


def find_escape(pair: Pair, validity: Validity | None) -> Escape | None:
    """Return the escape from the slowest plateau that the theory leaves.

    It is None if the theory leaves no plateau within these times.
    """
    if pair.problem is None or pair.times.size < LEAST_TIMES:
        return None
    error = pair.theory["error"]
    if error.ndim > 1:  # several tasks: an error may rise again
        return None
    times = pair.times
    slowest = slowest_before_rise(_speed_of_overlaps(pair))
    if slowest is None:
        return None
    plateau = float(error[slowest])
    threshold = escape_threshold(plateau, float(error[-1]))
    if not np.min(error[slowest:]) < threshold:
        return None
    departure_threshold = max(threshold, DEPARTED * plateau)
    curves = np.concatenate([error[None], pair.runs["error"]])
    escapes = np.array([last_fall(times, curve, threshold) for curve in curves])
    departures = [last_fall(times, curve, departure_threshold) for curve in curves]
    start_to_noise = np.nan
    noise_dim = None if validity is None else validity.noise_dim
    if noise_dim is not None and pair.dim is not None:
        start_to_noise = float(np.sqrt(pair.dim / noise_dim))
    return Escape(
        plateau=plateau,
        threshold=threshold,
        theory=float(escapes[0]),
        runs=escapes[1:],
        first_departure=float(np.min(departures)),
        start_to_noise=start_to_noise,
    )


def _speed_of_overlaps(pair: Pair) -> np.ndarray:
    """Return the norm of d(R, Q)/dalpha of the theory, (time,)."""
    count = pair.times.size
    slopes = [
        np.gradient(pair.theory[name], pair.times, axis=0).reshape(count, -1)
        for name in ("R", "Q")
    ]
    return np.linalg.norm(np.concatenate(slopes, axis=1), axis=1)


@dataclass(frozen=True)
class Scatter:
    """The scatter of single runs, predicted by the theory and measured.

    times: (time,). predicted, measured: standard deviations of e_g over runs, (time,);
    predicted is NaN where it does not hold: where rounding shows, or where it is not
    small against e_g. ratio: measured / predicted, in the mean square over times, with
    its standard error. accuracy: the relative error of the prediction. wide_from: the
    first time at which the prediction is not small against e_g (inf: none). rounded:
    whether rounding shows in it at some time. count: the number of runs.
    """

    times: np.ndarray
    predicted: np.ndarray
    measured: np.ndarray
    ratio: float
    ratio_error: float
    accuracy: float
    wide_from: float = np.inf
    rounded: bool = False
    count: int = 1

    @property
    def ratios(self) -> np.ndarray:
        """Measured / predicted at each time; NaN where nothing is predicted."""
        moved = self.predicted > 0
        divisor = np.where(moved, self.predicted, 1.0)
        return np.where(moved, self.measured / divisor, np.nan)

    @property
    def as_predicted(self) -> bool:
        """True if the ratio is one, up to chance and higher orders in 1/N."""
        allowed = LEADING_ORDER + SCATTER_LIMIT * self.ratio_error
        return bool(abs(self.ratio - 1.0) <= allowed)

    def lines(self) -> list[str]:
        """Return the ratio, its extremes, and the meaning of a deviation."""
        if not np.isfinite(self.ratio):
            size = f"e_g ± {np.nanmax(self.predicted):.2g} predicted at most"
            return [f"single runs: {size}; one run cannot show it"]
        ratio = f"{self.ratio:.2f} ± {self.ratio_error:.2g}"
        mean = f"{ratio} (root mean square over times)"
        measure = "sd of e_g over runs, measured / predicted"
        out = [f"{measure}: {mean}: {self._judgment()}"]
        smallest = f"smallest {self._ratio_at(int(np.nanargmin(self.ratios)))}"
        largest = f"largest {self._ratio_at(int(np.nanargmax(self.ratios)))}"
        chance = f"± {1 / np.sqrt(2 * (self.count - 1)):.0%} by chance"
        out.append(f"at single times ({chance}): {smallest}; {largest}")
        if np.isfinite(self.wide_from):
            first = f"(first at alpha = {self.wide_from:.4g})"
            where = f"sd exceeds {WIDE_SCATTER:g} e_g {first}"
            out.append(f"no prediction where {where}: e_g is not normal there")
        if self.rounded:
            out.append(f"no prediction where e_g falls below {SMALLEST_ERROR:g}")
        return out

    def _ratio_at(self, time: int) -> str:
        """Return the ratio at the time of this index, with both standard deviations."""
        sizes = f"{self.measured[time]:.3g} / {self.predicted[time]:.3g}"
        return f"{self.ratios[time]:.2f} = {sizes} at alpha = {self.times[time]:.4g}"

    def _judgment(self) -> str:
        if self.as_predicted:
            return "as predicted"
        wider = "more" if self.ratio > 1 else "less"
        reason = (
            "the verdict uses the measured scatter, the pale band the predicted one"
        )
        return f"runs scatter {wider} than predicted; {reason}"


def predicted_scatter(
    pair: Pair, theory: Trajectory, escape: Escape | None
) -> Scatter | None:
    """Return the scatter of the runs' errors.

    It is None where it is not predicted, or would take long.
    """
    if not _is_scatter_predictable(pair, theory, escape) or pair.dim is None:
        return None
    try:
        predicted, accuracy = _sd_after_steps(theory, pair.times, pair.dim)
    except InputError:  # slow momentum, or times that hold too many relaxations
        return None
    error = pair.theory["error"]
    rounded = error < SMALLEST_ERROR
    wide = ~rounded & (predicted >= WIDE_SCATTER * error)
    predicted = np.where(wide | rounded, np.nan, predicted)
    moved = predicted > 0
    if not moved.any():
        return None
    runs = pair.runs["error"]
    measured = np.full_like(predicted, np.nan)
    ratio = np.nan
    ratio_error = np.nan
    if pair.count > 1:
        measured = runs.std(axis=0, ddof=1)
        ratio, ratio_error = _ratio_with_error(runs[:, moved], predicted[moved])
    return Scatter(
        times=pair.times,
        predicted=predicted,
        measured=measured,
        ratio=ratio,
        ratio_error=float(np.hypot(ratio_error, accuracy * ratio)),
        accuracy=accuracy,
        wide_from=float(pair.times[np.argmax(wide)]) if wide.any() else np.inf,
        rounded=bool(np.any(rounded)),
        count=pair.count,
    )


def _is_scatter_predictable(
    pair: Pair, theory: Trajectory, escape: Escape | None
) -> bool:
    """Return True if the linear theory of fluctuations applies and is cheap."""
    if pair.problem is None or theory.start is None or pair.dim is None:
        return False
    if "r" not in pair.theory or theory.tasks is not None or pair.gradient_flow:
        return False
    if escape is not None and escape.by_noise:
        return False
    return state_size(pair.problem) <= LARGEST_STATE and is_cheap(pair.problem)


def _sd_after_steps(
    theory: Trajectory, times: np.ndarray, dim: int
) -> tuple[np.ndarray, float]:
    """Return the predicted sd(e_g) after ceil(alpha N) steps, and its accuracy.

    At times of a few steps the number of steps differs from alpha N: at alpha = .001
    and N = 100 a network has made one whole step, and scatters as at alpha = .01.
    """
    taken = steps_at(times, dim) / dim
    moments, place = np.unique(taken, return_inverse=True)
    if not np.allclose(taken, times, rtol=LATE):
        assert theory.problem is not None
        names = ("gradient_flow", "rtol", "solver")
        settings = {name: value for name, value in theory.settings if name in names}
        with warnings.catch_warnings():
            # the first solve has warned
            warnings.simplefilter("ignore", TutelageWarning)
            theory = solve(
                theory.problem, theory.start, moments, keep="blocks", **settings
            )
    else:
        place = np.arange(times.size)
    fluctuations = fluctuations_along(theory, dim, points=SCATTER_POINTS)
    return fluctuations.sd("error")[place], float(np.max(fluctuations.accuracy))


def _ratio_with_error(runs: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    """Return measured / predicted, in the mean square over times, and its error.

    The error is that of the jackknife, which leaves out one run at a time. It sees that
    neighboring times are correlated, and that e_g need not be normal.
    """
    scaled = (runs - runs.mean(axis=0)) / predicted
    count = len(scaled)
    ratio = np.sqrt(np.mean(np.sum(scaled**2, axis=0)) / (count - 1))
    if count == 2:  # none is left to compare
        return float(ratio), float(ratio)
    # without run i the sum of squares is smaller by count / (count - 1) of its square
    squares = np.sum(scaled**2, axis=0) - scaled**2 * count / (count - 1)
    ratios = np.sqrt(np.mean(squares, axis=1) / (count - 2))
    error = np.sqrt((count - 1) / count * np.sum((ratios - ratios.mean()) ** 2))
    return float(ratio), float(error)


class Gap:
    """The gap of a quantity between theory and runs, over time.

    Attributes
    ----------
    theory, mean, gap, standard_error, z, expected, beyond : arrays (time, ...)
        expected: the gap that a right theory leaves at this N (its size if `rough`).
        beyond: the z-score of what is left of the gap when anything from zero to twice
        the expected gap (either sign, if rough) is allowed, besides a known shift.
    runs : array (run, time, ...)
    unit : array (time, ...)
        The standard error, with what sampled averages miss, or what the solver resolves
        if that is more.
    allowed : array (time, ...)
        The most by which a gap may differ from the middle of what is allowed.
    z_of_runs, beyond_of_runs : arrays (time, ...)
        z and beyond if the theory's sampled averages were exact.
    """

    def __init__(
        self,
        name: str,
        theory: np.ndarray,
        runs: np.ndarray,
        expected: np.ndarray,
        rough: bool,
        shift: np.ndarray | float = 0.0,
        rtol: float = 0.0,
        sampling: np.ndarray | float = 0.0,
    ):
        """Compare a theory with runs.

        shift: a gap that is known exactly, besides the expected one. rtol: the
        tolerance with which the theory was solved. sampling: what sampled averages may
        move the theory by, with 95% confidence: two of its standard errors.
        """
        self.name = name
        self.theory = theory
        self.runs = runs
        self.rough = rough
        count = runs.shape[0]
        self.mean = runs.mean(axis=0)
        self.gap = self.mean - theory
        self.standard_error = np.full_like(self.gap, np.nan)
        if count > 1:
            self.standard_error = runs.std(axis=0, ddof=1) / np.sqrt(count)

        # at time zero there is no standard error: the solver's resolution stands in
        resolution = max(1.0, rtol / FINEST) * _resolution(name, theory)
        unit_of_runs = np.fmax(self.standard_error, resolution)
        self.unit = np.hypot(unit_of_runs, np.divide(sampling, 2))

        if rough:
            low = -2 * expected
            high = 2 * expected
            self.expected = expected + np.abs(shift)
        else:
            low = np.minimum(0 * expected, 2 * expected)
            high = np.maximum(0 * expected, 2 * expected)
            self.expected = expected + shift
        self.allowed = (high - low) / 2
        rest = self.gap - np.clip(self.gap, shift + low, shift + high)

        self.z = z_score(self.gap / self.unit, count)
        self.beyond = z_score(rest / self.unit, count)
        self.z_of_runs = z_score(self.gap / unit_of_runs, count)
        self.beyond_of_runs = z_score(rest / unit_of_runs, count)

    def entries(self, values: np.ndarray) -> np.ndarray:
        """Return (time, entries), the independent numbers (Q is symmetric)."""
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
        comma = "," if max(shape, default=1) > 9 else ""
        return [_label(self.name, index, comma) for index in indices]

    def worst_place(self, scores: np.ndarray, counted: np.ndarray) -> tuple[int, int]:
        """Return (time, entry) of the largest score, z or beyond, at counted times."""
        sizes = np.nan_to_num(np.abs(self.entries(scores)))
        sizes = np.where(counted[:, None], sizes, -1.0)
        time, entry = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        return int(time), int(entry)


def _resolution(name: str, theory: np.ndarray) -> np.ndarray:
    """Return the differences that a solve at the finest tolerance resolves."""
    if name == "error":
        return np.abs(theory) * FINEST_ERROR + ROUNDING
    largest = float(np.max(np.abs(theory), initial=0.0))
    return np.full_like(theory, FINEST * max(largest, 1e-12))


def _label(name: str, index: Sequence[Any], comma: str) -> str:
    """Return the name of an entry, such as R_12."""
    if len(index) == 0:
        return name
    return f"{name}_{comma.join(str(int(i) + 1) for i in index)}"


def z_score(ratio: np.ndarray, count: int) -> np.ndarray:
    """Return the normal deviate as probable as gap / standard error of `count` runs.

    It is NaN for one run.
    """
    # scipy.stats has the same functions, and takes four times as long to import
    from scipy.special import ndtri, stdtr

    if count < 2:
        return np.full_like(ratio, np.nan)
    tail = np.maximum(stdtr(count - 1, -np.abs(ratio)), 1e-299)
    return np.sign(ratio) * np.minimum(-ndtri(tail), CAP)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison, in a word and in a sentence.

    outcome: one of AGREE, BIASED, DIFFER, NOISE, UNKNOWN. within, within_bias: shares
    with |z|, |beyond| < 4. counted: (time,), the times that count. before: for NOISE,
    the outcome before the first departure. without_sampling: the outcome (or `before`)
    if the theory's averages were exact; another one means that their sampling error
    decides.
    """

    outcome: str
    sentence: str
    within: float
    within_bias: float
    counted: np.ndarray
    before: str | None = None
    without_sampling: str | None = None

    @property
    def by_sampling(self) -> bool:
        """True if the error of the theory's sampled averages decides the outcome."""
        outcome = self.outcome if self.before is None else self.before
        return self.without_sampling is not None and self.without_sampling != outcome

    @property
    def agrees(self) -> bool | None:
        """True, False, or None if inconclusive."""
        return None if self.outcome in (NOISE, UNKNOWN) else self.outcome != DIFFER

    def __str__(self) -> str:
        return self.sentence


def decide(
    gaps: dict[str, Gap], times: np.ndarray, escape: Escape | None, runs: int
) -> Verdict:
    """Return the verdict on the gaps and the escape."""
    noisy_escape = None
    counted = np.ones(times.size, bool)
    if escape is not None and escape.by_noise:
        noisy_escape = escape
        counted = times <= escape.first_departure
    if runs < 2:
        largest = np.max(np.abs(gaps["error"].gap))
        reason = "one run has no standard error"
        size = f"the largest gap of error is {largest:.3g}"
        return Verdict(
            outcome=UNKNOWN,
            sentence=f"{UNKNOWN}: {reason}; {size}. Simulate more runs.",
            within=np.nan,
            within_bias=np.nan,
            counted=counted,
        )
    z_inside = [_within_limit(gap, gap.z, counted) for gap in gaps.values()]
    beyond_inside = [_within_limit(gap, gap.beyond, counted) for gap in gaps.values()]
    outcome = _outcome(z_inside, beyond_inside)
    without_sampling = _outcome(
        [_within_limit(gap, gap.z_of_runs, counted) for gap in gaps.values()],
        [_within_limit(gap, gap.beyond_of_runs, counted) for gap in gaps.values()],
    )
    within = float(np.mean(np.concatenate(z_inside, axis=1)))
    within_bias = float(np.mean(np.concatenate(beyond_inside, axis=1)))
    reason = _reason(outcome, gaps, times, counted, within, within_bias)
    sentence = f"{outcome}: {reason}"
    if without_sampling != outcome:
        sentence += (
            "; the error of the theory's own sampled averages decides this: "
            f"with exact averages it would be {without_sampling!r}. "
            "Solve with more points"
        )
    if noisy_escape is None:
        return Verdict(
            outcome=outcome,
            sentence=sentence,
            within=within,
            within_bias=within_bias,
            counted=counted,
            without_sampling=without_sampling,
        )
    ratio = f"asymmetry/noise = {noisy_escape.start_to_noise:.2g}"
    whole = (
        f"{NOISE}: {who_decides(noisy_escape.start_to_noise)} ({ratio}). "
        "The mean over runs does not follow a single curve at any N, "
        "so compare the escape times. "
        f"Before the first escape, alpha = {noisy_escape.first_departure:.4g}, "
        f"theory and runs {sentence}"
    )
    return Verdict(
        outcome=NOISE,
        sentence=whole,
        within=within,
        within_bias=within_bias,
        counted=counted,
        before=outcome,
        without_sampling=without_sampling,
    )


def _within_limit(gap: Gap, scores: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return (counted time, entries) of booleans: scores within the limit."""
    return np.abs(gap.entries(scores)[counted]) < LIMIT


def _outcome(z_inside: list[np.ndarray], beyond_inside: list[np.ndarray]) -> str:
    """Return the first outcome for which enough numbers lie within the limit."""
    if holds(z_inside):
        return AGREE
    if holds(beyond_inside):
        return BIASED
    return DIFFER


def holds(inside: list[np.ndarray]) -> bool:
    """Return True if enough numbers lie within the limit.

    inside: (time, entries) of booleans for each quantity.
    """
    smallest_share = min(float(np.min(x.mean(axis=0))) for x in inside)
    overall_share = float(np.mean(np.concatenate(inside, axis=1)))
    return overall_share >= OVERALL and smallest_share >= EACH


def _reason(
    outcome: str,
    gaps: dict[str, Gap],
    times: np.ndarray,
    counted: np.ndarray,
    within: float,
    within_bias: float,
) -> str:
    """Return the shares within the limit.

    Of a theory that differs it begins with the quantities most often outside.
    """
    entries = sum(len(gap.labels()) for gap in gaps.values())
    numbers = f"{entries} quantities at {int(counted.sum())} times"
    share = f"{percent(within)} of {numbers} have |z| < {LIMIT:g}"
    if outcome == AGREE:
        return share
    if outcome == BIASED:
        allowed = "if each gap may be up to twice the expected finite-N bias"
        return f"{share}, and {percent(within_bias)} {allowed}"

    def negative_share_beyond(gap: Gap) -> float:
        return -float(np.mean(np.abs(gap.entries(gap.beyond)[counted]) >= LIMIT))

    reasons = []
    for gap in sorted(gaps.values(), key=negative_share_beyond):
        time, entry = gap.worst_place(gap.beyond, counted)
        if abs(gap.entries(gap.beyond)[time, entry]) >= LIMIT:
            reasons.append(_deviation(gap, times, time, entry))
    return "; ".join(reasons[:MOST_REASONS]) + f". Only {share}"


def _deviation(gap: Gap, times: np.ndarray, time: int, entry: int) -> str:
    """Return one number of the runs that is off, in words."""
    off = gap.entries(gap.gap)[time, entry]
    z = gap.entries(gap.z)[time, entry]
    expected = gap.entries(gap.expected)[time, entry]
    score = f"|z| > {CAP - 1:.0f}" if abs(z) >= CAP - 1 else f"z = {z:.0f}"
    about = "about " if gap.rough else ""
    where = f"at alpha = {times[time]:g} ({score}; expected {about}{expected:.1g})"
    return f"{gap.labels()[entry]} is off by {off:.2g} {where}"


def percent(share: float) -> str:
    """Return a share in words, never rounded up to all of them."""
    return "100%" if share >= 1.0 else f"{min(100 * share, 99.9):.3g}%"
