"""What the gaps between theory and runs amount to: z-scores, the scatter and the escapes of single runs, and the decision.

With few runs gap / standard error follows Student's law, which has long tails, so z is the value of a normal variable that is
exceeded equally often: |z| < 4 then means the same for 5 runs and for 500. docs/compare.md states all criteria.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from tutelage._solve import solve
from tutelage.analysis.escapes import escape_threshold, last_fall
from tutelage.analysis.noise import WIDE_SCATTER, fluctuations_along, state_size
from tutelage.comparison.pairing import Pair
from tutelage.errors import InputError, TutelageWarning
from tutelage.moments.node_moments import is_cheap
from tutelage.times import steps_at
from tutelage.trajectory import Trajectory
from tutelage.validity import START_DECIDES, Validity, slowest_before_rise, who_decides

DEPARTED = 0.9  # a curve departs when its error has fallen to this share of its plateau
SCATTER_POINTS = 2**10  # per moment: the standard deviation to about 1%
LARGEST_STATE = 64  # numbers of a state whose prediction takes a second or two
SMALLEST_ERROR = 1e-10  # below it rounding shows in the prediction
SCATTER_LIMIT = 3.0  # standard errors of the ratio of measured to predicted scatter
LEADING_ORDER = 0.1  # relative error of the scatter to leading order in 1/N
LATE = 0.01  # relative delay of ceil(alpha N) steps that shows in the scatter
FINEST, FINEST_ERROR, ROUNDING = 1e-8, 1e-6, 1e-14  # accuracy of a solve: overlaps, error (relative), any error
CAP = 37.0  # larger z-scores have no probability in float64
LIMIT = 4.0  # standard errors
OVERALL, EACH = 0.99, 0.95  # shares that must lie within the limit
AGREE, BIASED, DIFFER = "agree", "agree within the expected finite-N bias", "differ"
NOISE, UNKNOWN = "inconclusive after the plateau", "inconclusive"


@dataclass(frozen=True)
class Escape:
    """plateau: the error on the plateau that the theory passes. threshold: below it, escaped.

    theory, runs: times of escape (inf: not within these times). first_departure: until then all are on the plateau.
    start_to_noise: NaN where unknown.
    """

    plateau: float
    threshold: float
    theory: float
    runs: np.ndarray
    first_departure: float
    start_to_noise: float

    @property
    def by_noise(self) -> bool:
        """Does noise rather than the start decide when (and where to) single runs escape?"""
        return self.start_to_noise < START_DECIDES

    @property
    def escaped(self) -> np.ndarray:
        """Times of the runs that did escape."""
        return self.runs[np.isfinite(self.runs)]

    @property
    def earlier(self) -> int:
        """How many runs escape before the theory does."""
        return int(np.sum(self.runs < self.theory))

    def lines(self) -> list[str]:
        """The distribution of the runs' times, and the theory's place in it."""
        when = f"at {self.theory:.4g}" if np.isfinite(self.theory) else "not within these times"
        out = [f"the error falls below {self.threshold:.3g} (plateau {self.plateau:.3g}); theory {when}"]
        times, count = self.escaped, self.runs.size
        if times.size == 0:
            return [*out, f"none of {count} runs within these times"]
        spread = f" ± {times.std(ddof=1):.3g}" if times.size > 1 else ""
        who = f"{count} runs" if times.size == count else f"{times.size} of {count} runs"
        out.append(f"{who} at {times.mean():.4g}{spread} (mean ± sd), from {times.min():.4g} to {times.max():.4g}")
        if np.isfinite(self.theory):
            out.append(f"{self.earlier} of {count} runs escape before the theory does")
        return out


def find_escape(pair: Pair, validity: Validity | None) -> Escape | None:
    """The slowest plateau that the theory leaves within these times; None if there is none."""
    if pair.problem is None or pair.times.size < 5 or pair.theory["error"].ndim > 1:  # tasks: an error may rise again
        return None
    parts = [np.gradient(pair.theory[n], pair.times, axis=0).reshape(pair.times.size, -1) for n in ("R", "Q")]
    at = slowest_before_rise(np.linalg.norm(np.concatenate(parts, axis=1), axis=1))
    if at is None:
        return None
    error, times = pair.theory["error"], pair.times
    plateau = float(error[at])
    threshold = escape_threshold(plateau, float(error[-1]))
    if not np.min(error[at:]) < threshold:
        return None
    curves = np.concatenate([error[None], pair.runs["error"]])
    escapes = np.array([last_fall(times, curve, threshold) for curve in curves])
    departures = np.array([last_fall(times, curve, max(threshold, DEPARTED * plateau)) for curve in curves])
    ratio = np.nan
    if validity is not None and validity.noise_dim is not None and pair.dim is not None:
        ratio = float(np.sqrt(pair.dim / validity.noise_dim))
    return Escape(plateau, threshold, float(escapes[0]), escapes[1:], float(np.min(departures)), ratio)


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
        return np.where(moved, self.measured / np.where(moved, self.predicted, 1.0), np.nan)

    @property
    def as_predicted(self) -> bool:
        """Whether the ratio is one, up to chance and higher orders in 1/N."""
        allowed = LEADING_ORDER + SCATTER_LIMIT * self.ratio_error
        return bool(abs(self.ratio - 1.0) <= allowed)

    def lines(self) -> list[str]:
        """The ratio, its smallest and largest value, and what a deviation means."""
        if not np.isfinite(self.ratio):
            size = f"{np.nanmax(self.predicted):.2g}"
            return [f"single runs: e_g ± {size} predicted at most; one run cannot show it"]
        ratio = f"{self.ratio:.2f} ± {self.ratio_error:.2g}"
        mean = f"{ratio} (root mean square over times)"
        out = [f"sd of e_g over runs, measured / predicted: {mean}: {self._judgment()}"]
        parts = []
        for name, time in (
            ("smallest", int(np.nanargmin(self.ratios))),
            ("largest", int(np.nanargmax(self.ratios))),
        ):
            sizes = f"{self.measured[time]:.3g} / {self.predicted[time]:.3g}"
            when = f"alpha = {self.times[time]:.4g}"
            parts.append(f"{name} {self.ratios[time]:.2f} = {sizes} at {when}")
        chance = f"± {1 / np.sqrt(2 * (self.count - 1)):.0%} by chance"
        out.append(f"at single times ({chance}): {'; '.join(parts)}")
        if np.isfinite(self.wide_from):
            where = f"sd exceeds {WIDE_SCATTER:g} e_g (first at alpha = {self.wide_from:.4g})"
            out.append(f"no prediction where {where}: e_g is not normal there")
        if self.rounded:
            out.append(f"no prediction where e_g falls below {SMALLEST_ERROR:g}")
        return out

    def _judgment(self) -> str:
        if self.as_predicted:
            return "as predicted"
        wider = "more" if self.ratio > 1 else "less"
        reason = "the verdict uses the measured scatter, the pale band the predicted one"
        return f"runs scatter {wider} than predicted; {reason}"


def predicted_scatter(pair: Pair, theory: Trajectory, escape: Escape | None) -> Scatter | None:
    """The scatter of the runs' errors; None where it is not predicted, or would take long."""
    if pair.problem is None or theory.start is None or pair.dim is None or "r" not in pair.theory:
        return None
    if theory.tasks is not None or pair.gradient_flow or (escape is not None and escape.by_noise):
        return None
    if state_size(pair.problem) > LARGEST_STATE or not is_cheap(pair.problem):
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


def _sd_after_steps(theory: Trajectory, times: np.ndarray, dim: int) -> tuple[np.ndarray, float]:
    """The predicted sd(e_g) of networks that took ceil(alpha N) steps, and its accuracy.

    At times of a few steps the number of steps differs from alpha N: at alpha = .001 and
    N = 100 a network has made one whole step, and scatters as at alpha = .01.
    """
    taken = steps_at(times, dim) / dim
    moments, place = np.unique(taken, return_inverse=True)
    if not np.allclose(taken, times, rtol=LATE):
        assert theory.problem is not None
        names = ("gradient_flow", "rtol", "solver")
        settings = {name: value for name, value in theory.settings if name in names}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TutelageWarning)  # said by the first solve
            theory = solve(theory.problem, theory.start, moments, keep="blocks", **settings)
    else:
        place = np.arange(times.size)
    found = fluctuations_along(theory, dim, points=SCATTER_POINTS)
    return found.sd("error")[place], float(np.max(found.accuracy))


def _ratio_with_error(runs: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    """Measured / predicted, in the mean square over times, and its jackknife error.

    The jackknife leaves out one run at a time. It sees that neighboring times are
    correlated, and that e_g need not be normal.
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
    """The gap of a quantity: theory, mean, gap, standard_error, z, expected, beyond: (time, ...). runs: (run, time, ...).

    expected: the gap that a right theory leaves at this N (its size if `rough`). beyond: the z-score of what is left of the
    gap when anything from zero to twice the expected gap (either sign, if rough) is allowed, besides a known shift.
    unit: the standard error, with what sampled averages miss, or what the solver resolves if that is more. allowed: by how
    much a gap may differ from the middle of what is allowed. z_of_runs, beyond_of_runs: z and beyond if the theory's sampled
    averages were exact.
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
        """shift: a gap that is known exactly, besides the expected one. rtol: the tolerance with which the theory was solved.

        sampling: what sampled averages may move the theory by, with 95% confidence: two of its standard errors.
        """
        self.name, self.theory, self.runs, self.rough = name, theory, runs, rough
        count, self.mean = runs.shape[0], runs.mean(axis=0)
        self.gap = self.mean - theory
        error = runs.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full_like(self.gap, np.nan)
        size = np.abs(theory) * FINEST_ERROR + ROUNDING  # what the solver resolves: at time zero there is no standard error
        if name != "error":
            size = np.full_like(theory, FINEST * max(float(np.max(np.abs(theory), initial=0.0)), 1e-12))
        of_runs = np.fmax(error, max(1.0, rtol / FINEST) * size)
        self.standard_error, self.unit = error, np.hypot(of_runs, np.divide(sampling, 2))
        low, high = (-2 * expected, 2 * expected) if rough else np.sort([0 * expected, 2 * expected], axis=0)
        left = self.gap - np.clip(self.gap, shift + low, shift + high)
        self.expected, self.allowed = expected + (np.abs(shift) if rough else shift), (high - low) / 2
        self.z, self.beyond = (z_score(x / self.unit, count) for x in (self.gap, left))
        self.z_of_runs, self.beyond_of_runs = (z_score(x / of_runs, count) for x in (self.gap, left))

    def entries(self, values: np.ndarray) -> np.ndarray:
        """(time, entries): each independent number once (Q is symmetric)."""
        if self.name == "Q":
            return values[:, *np.triu_indices(values.shape[-1])]
        return values.reshape(values.shape[0], -1)

    def labels(self) -> list[str]:
        """Names of the entries, counted from one as in the figures."""
        shape = self.theory.shape[1:]
        if self.name == "error" and shape:
            return [f"error, task {task + 1}" for task in range(shape[0])]
        pairs = zip(*np.triu_indices(shape[-1]), strict=True) if self.name == "Q" else np.ndindex(shape)
        comma = "," if max(shape, default=1) > 9 else ""
        return [self.name + ("_" + comma.join(str(int(i) + 1) for i in index) if len(index) else "") for index in pairs]

    def worst_place(self, scores: np.ndarray, counted: np.ndarray) -> tuple[int, int]:
        """(time, entry) of the largest score, z or beyond, among the counted times."""
        sizes = np.where(counted[:, None], np.nan_to_num(np.abs(self.entries(scores))), -1.0)
        time, entry = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        return int(time), int(entry)


def z_score(ratio: np.ndarray, count: int) -> np.ndarray:
    """Gap over standard error of `count` runs, as the normal deviate of equal probability; NaN for one run."""
    from scipy.special import ndtri, stdtr  # scipy.stats has the same functions, and takes four times as long to import

    if count < 2:
        return np.full_like(ratio, np.nan)
    tail = np.maximum(stdtr(count - 1, -np.abs(ratio)), 1e-299)
    return np.sign(ratio) * np.minimum(-ndtri(tail), CAP)


@dataclass(frozen=True)
class Verdict:
    """outcome: one of AGREE, BIASED, DIFFER, NOISE, UNKNOWN. within, within_bias: shares with |z|, |beyond| < 4.

    counted: (time,), the times that count. before: for NOISE, the outcome before the first departure. without_sampling: the
    outcome (or `before`) if the theory's averages were exact; another one means that their sampling error decides.
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
        """Does the error of the theory's own sampled averages decide the outcome?"""
        outcome = self.outcome if self.before is None else self.before
        return self.without_sampling is not None and self.without_sampling != outcome

    @property
    def agrees(self) -> bool | None:
        """True, False, or None if inconclusive."""
        return None if self.outcome in (NOISE, UNKNOWN) else self.outcome != DIFFER

    def __str__(self) -> str:
        return self.sentence


def decide(gaps: dict[str, Gap], times: np.ndarray, escape: Escape | None, runs: int) -> Verdict:
    """What the gaps and the escape amount to."""
    noise = escape if escape is not None and escape.by_noise else None
    counted = np.ones(times.size, bool) if noise is None else times <= noise.first_departure
    if runs < 2:
        largest = f"one run has no standard error; the largest gap of error is {np.max(np.abs(gaps['error'].gap)):.3g}"
        return Verdict(UNKNOWN, f"{UNKNOWN}: {largest}. Simulate more runs.", np.nan, np.nan, counted)
    inside = {
        AGREE: [np.abs(gap.entries(gap.z)[counted]) < LIMIT for gap in gaps.values()],
        BIASED: [np.abs(gap.entries(gap.beyond)[counted]) < LIMIT for gap in gaps.values()],
    }
    of_runs = {
        AGREE: [np.abs(gap.entries(gap.z_of_runs)[counted]) < LIMIT for gap in gaps.values()],
        BIASED: [np.abs(gap.entries(gap.beyond_of_runs)[counted]) < LIMIT for gap in gaps.values()],
    }
    plain, biased = (float(np.mean(np.concatenate(parts, axis=1))) for parts in inside.values())
    outcome, without = _outcome(inside), _outcome(of_runs)
    sentence = f"{outcome}: {_why(outcome, gaps, times, counted, plain, biased)}"
    if without != outcome:
        why = "the error of the theory's own sampled averages decides this"
        sentence += f"; {why}: with exact averages it would be {without!r}. Solve with more points"
    if noise is None:
        return Verdict(outcome, sentence, plain, biased, counted, without_sampling=without)
    who = f"{who_decides(noise.start_to_noise)} (asymmetry/noise = {noise.start_to_noise:.2g})"
    mean = "The mean over runs does not follow a single curve at any N, so compare the escape times"
    before = f"Before the first escape, alpha = {noise.first_departure:.4g}, theory and runs {sentence}"
    words = f"{NOISE}: {who}. {mean}. {before}"
    return Verdict(NOISE, words, plain, biased, counted, before=outcome, without_sampling=without)


def _outcome(inside: dict[str, list[np.ndarray]]) -> str:
    """The first outcome for which enough numbers lie within the limit."""
    return next((word for word, parts in inside.items() if holds(parts)), DIFFER)


def holds(inside: list[np.ndarray]) -> bool:
    """Do enough numbers lie within the limit? inside: (time, entries) of booleans for each quantity."""
    each = min(float(np.min(x.mean(axis=0))) for x in inside)
    return float(np.mean(np.concatenate(inside, axis=1))) >= OVERALL and each >= EACH


def _why(outcome: str, gaps: dict[str, Gap], times: np.ndarray, counted: np.ndarray, plain: float, biased: float) -> str:
    """Shares within the limit; of a theory that differs, up to three quantities that are most often outside."""
    entries = sum(len(g.labels()) for g in gaps.values())
    every = f"{percent(plain)} of {entries} quantities at {int(counted.sum())} times have |z| < {LIMIT:g}"
    if outcome == AGREE:
        return every
    if outcome == BIASED:
        return f"{every}, and {percent(biased)} if each gap may be up to twice the expected finite-N bias"
    parts = []
    for gap in sorted(gaps.values(), key=lambda gap: -np.mean(np.abs(gap.entries(gap.beyond)[counted]) >= LIMIT)):
        time, entry = gap.worst_place(gap.beyond, counted)
        off, z, beyond, expected = (gap.entries(x)[time, entry] for x in (gap.gap, gap.z, gap.beyond, gap.expected))
        if abs(beyond) >= LIMIT:
            score, about = f"|z| > {CAP - 1:.0f}" if abs(z) >= CAP - 1 else f"z = {z:.0f}", "about " * gap.rough
            where = f"at alpha = {times[time]:g} ({score}; expected {about}{expected:.1g})"
            parts.append(f"{gap.labels()[entry]} is off by {off:.2g} {where}")
    return "; ".join(parts[:3]) + f". Only {every}"


def percent(share: float) -> str:
    """A share in words, never rounded up to all of them."""
    return "100%" if share >= 1.0 else f"{min(100 * share, 99.9):.3g}%"
