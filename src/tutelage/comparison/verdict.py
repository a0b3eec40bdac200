"""The verdict on the gaps between theory and runs, in a word and in a sentence.

docs/compare.md states the criteria.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tutelage.comparison.escape import Escape
from tutelage.comparison.gaps import CAP, Gap, Gaps
from tutelage.stream.validity import who_decides

LIMIT = 4.0  # standard errors
OVERALL = 0.99  # share of all numbers that must lie within the limit
EACH = 0.95  # share of the times of each quantity that must lie within the limit
MOST_REASONS = 3  # quantities named in the sentence of a theory that differs

# Outcomes of a comparison.
AGREE = "agree"
BIASED = "agree within the expected finite-N bias"
DIFFER = "differ"
NOISE = "inconclusive after the plateau"
UNKNOWN = "inconclusive"

# Of one quantity at the counted times: True where a score is within the limit.
Inside: TypeAlias = Bool[np.ndarray, "time entries"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison, in a word and in a sentence.

    Attributes
    ----------
    outcome : str
        One of AGREE, BIASED, DIFFER, NOISE, UNKNOWN.
    sentence : str
        The outcome and its reason.
    within, within_bias : float
        Shares of the numbers with |z| < 4 and with |beyond| < 4.
    counted : array (time,)
        True at the times that count.
    before : str or None
        For NOISE, the outcome before the first departure from the plateau.
    without_sampling : str or None
        The outcome (or `before`) if the theory's averages were exact. If it is another
        one, their sampling error decides.
    """

    outcome: str
    sentence: str
    within: float
    within_bias: float
    counted: Bool[np.ndarray, " time"]
    before: str | None = None
    without_sampling: str | None = None

    @property
    def by_sampling(self) -> bool:
        """True if the error of the theory's sampled averages decides the outcome."""
        return self.without_sampling not in (None, self.counted_outcome)

    @property
    def counted_outcome(self) -> str:
        """The outcome at the counted times."""
        if self.before is not None:
            return self.before
        return self.outcome

    @property
    def agrees(self) -> bool | None:
        """True, False, or None if inconclusive."""
        if self.outcome in (NOISE, UNKNOWN):
            return None
        return self.outcome != DIFFER

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Judgment:
    """The gaps at the counted times, judged by the criteria."""

    outcome: str
    within: float
    within_bias: float


def decide(
    gaps: Gaps, times: Float[np.ndarray, " time"], escape: Escape | None, runs: int
) -> Verdict:
    """Decide on the gaps; if noise determines an escape, on those before it.

    runs: their number.
    """
    noise_decides = escape is not None and escape.by_noise
    counted = np.ones(times.size, bool)
    if escape is not None and noise_decides:
        counted = times <= escape.first_departure
    if runs < 2:
        return _verdict_on_one_run(gaps["error"], counted)
    judgment = _judge(
        [_within_limit(gap, gap.z, counted) for gap in gaps.values()],
        [_within_limit(gap, gap.beyond, counted) for gap in gaps.values()],
    )
    judgment_without_sampling = _judge(
        [_within_limit(gap, gap.z_of_runs, counted) for gap in gaps.values()],
        [_within_limit(gap, gap.beyond_of_runs, counted) for gap in gaps.values()],
    )
    without_sampling = judgment_without_sampling.outcome
    outcome = judgment.outcome
    sentence = f"{outcome}: {_reason(judgment, gaps, times, counted)}"
    if without_sampling != outcome:
        sentence += (
            "; the error of the theory's own sampled averages decides this: "
            f"with exact averages it would be {without_sampling!r}. "
            "Solve with more points"
        )
    before = None
    if escape is not None and noise_decides:
        before = outcome
        outcome = NOISE
        sentence = _sentence_on_noise(escape, sentence)
    return Verdict(
        outcome=outcome,
        sentence=sentence,
        within=judgment.within,
        within_bias=judgment.within_bias,
        counted=counted,
        before=before,
        without_sampling=without_sampling,
    )


def _verdict_on_one_run(error: Gap, counted: Bool[np.ndarray, " time"]) -> Verdict:
    """Return the verdict on a single run."""
    largest = np.max(np.abs(error.gap))
    reason = "one run has no standard error"
    size = f"the largest gap of error is {largest:.3g}"
    return Verdict(
        outcome=UNKNOWN,
        sentence=f"{UNKNOWN}: {reason}; {size}. Simulate more runs.",
        within=np.nan,
        within_bias=np.nan,
        counted=counted,
    )


def _sentence_on_noise(escape: Escape, before: str) -> str:
    """Return the sentence if SGD noise decides. before: that before the escape."""
    ratio = f"asymmetry/noise = {escape.start_to_noise:.2g}"
    return (
        f"{NOISE}: {who_decides(escape.start_to_noise)} ({ratio}). "
        "The mean over runs does not follow a single curve at any N, "
        "so compare the escape times. "
        f"Before the first escape, alpha = {escape.first_departure:.4g}, "
        f"theory and runs {before}"
    )


def _within_limit(
    gap: Gap, scores: np.ndarray, counted: Bool[np.ndarray, " time"]
) -> Inside:
    """Return True for each counted score within the limit."""
    return np.abs(gap.entries(scores)[counted]) < LIMIT


def _judge(z_inside: Sequence[Inside], beyond_inside: Sequence[Inside]) -> Judgment:
    """Return the first outcome for which enough numbers lie within the limit."""
    outcome = DIFFER
    if holds(z_inside):
        outcome = AGREE
    elif holds(beyond_inside):
        outcome = BIASED
    return Judgment(
        outcome=outcome,
        within=_overall_share(z_inside),
        within_bias=_overall_share(beyond_inside),
    )


def holds(inside: Sequence[Inside]) -> bool:
    """Return True if enough numbers lie within the limit, overall and of each entry."""
    smallest_share = min(float(np.min(x.mean(axis=0))) for x in inside)
    return _overall_share(inside) >= OVERALL and smallest_share >= EACH


def _overall_share(inside: Sequence[Inside]) -> float:
    """Return the share of all numbers that lie within the limit."""
    return float(np.mean(np.concatenate(inside, axis=1)))


def _reason(
    judgment: Judgment,
    gaps: Gaps,
    times: Float[np.ndarray, " time"],
    counted: Bool[np.ndarray, " time"],
) -> str:
    """Return the shares within the limit.

    Of a theory that differs it begins with the quantities most often outside.
    """
    entries = sum(len(gap.labels()) for gap in gaps.values())
    numbers = f"{entries} quantities at {int(counted.sum())} times"
    share = f"{percent(judgment.within)} of {numbers} have |z| < {LIMIT:g}"
    if judgment.outcome == AGREE:
        return share
    if judgment.outcome == BIASED:
        allowed = "if each gap may be up to twice the expected finite-N bias"
        return f"{share}, and {percent(judgment.within_bias)} {allowed}"

    def share_beyond(gap: Gap) -> float:
        return float(np.mean(np.abs(gap.entries(gap.beyond)[counted]) >= LIMIT))

    reasons = []
    for gap in sorted(gaps.values(), key=share_beyond, reverse=True):
        time, entry = gap.worst_place(gap.beyond, counted)
        if abs(gap.entries(gap.beyond)[time, entry]) >= LIMIT:
            reasons.append(_deviation(gap, times, time, entry))
    return "; ".join(reasons[:MOST_REASONS]) + f". Only {share}"


def _deviation(
    gap: Gap, times: Float[np.ndarray, " time"], time: int, entry: int
) -> str:
    """Return one number of the runs that is off, in words."""
    off = gap.entries(gap.gap)[time, entry]
    z = gap.entries(gap.z)[time, entry]
    score = f"z = {z:.0f}"
    if abs(z) >= CAP - 1:
        score = f"|z| > {CAP - 1:.0f}"
    expected = f"{gap.entries(gap.expected)[time, entry]:.1g}"
    if gap.rough:
        expected = f"about {expected}"
    where = f"at alpha = {times[time]:g} ({score}; expected {expected})"
    return f"{gap.labels()[entry]} is off by {off:.2g} {where}"


def percent(share: float) -> str:
    """Return a share in words, never rounded up to all of them."""
    if share >= 1.0:
        return "100%"
    return f"{min(100 * share, 99.9):.3g}%"
