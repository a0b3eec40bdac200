"""Gap, standard error and z-score of each quantity at every time, and the decision with its message.

gap = mean over runs - theory, standard error = sd / sqrt(runs). With few runs gap / standard error follows Student's law,
which has long tails (with 20 runs, 4 is exceeded ten times more often than by a normal variable), so z is the value of a
normal variable that is exceeded equally often: |z| < 4 then means the same for 5 runs and for 500 (6 in 100,000).

All independent numbers at all times count (only those before the first departure where noise decides the escape). They agree
if 99% of them, and 95% of each entry's times, have |z| < 4; within the expected finite-N bias if that holds for what the
expected gap leaves over (`Gap.beyond`). Neighboring times are far from independent: one chance excursion lasts several of
them, which is why a few percent may lie outside.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tutelage.comparison.noise import Escape

FINEST, FINEST_ERROR, ROUNDING = 1e-8, 1e-6, 1e-14  # accuracy of a solve: overlaps, error (relative), any error
CAP = 37.0  # larger z-scores have no probability in float64
LIMIT = 4.0  # standard errors
NOISE_ALONE = 3.0  # start / noise below which noise decides alone
OVERALL, EACH = 0.99, 0.95  # shares that must lie within the limit
AGREE, BIASED, DIFFER = "agree", "agree within the expected finite-N bias", "differ"
NOISE, UNKNOWN = "noise decides the escape", "cannot tell"


@dataclass(frozen=True)
class Gap:
    """theory, mean, gap, standard_error, z, expected, beyond: (time, ...). runs: (run, time, ...), relabeled.

    expected: the gap that a right theory leaves at this N (its size if `rough`). beyond: the z-score of what is left of the
    gap when anything from zero to twice the expected gap (either sign, if rough) is allowed, besides a known shift.
    unit: the standard error, or what the solver resolves if that is more. allowed: by how much a gap may differ from the
    middle of what is allowed.
    """

    name: str
    theory: np.ndarray
    runs: np.ndarray
    mean: np.ndarray
    gap: np.ndarray
    standard_error: np.ndarray
    z: np.ndarray
    expected: np.ndarray
    beyond: np.ndarray
    rough: bool
    unit: np.ndarray
    allowed: np.ndarray

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


def measure(
    name: str,
    theory: np.ndarray,
    runs: np.ndarray,
    expected: np.ndarray,
    rough: bool,
    shift: np.ndarray | None = None,
    rtol: float = FINEST,
) -> Gap:
    """The gap of a quantity: theory (time, ...), runs (run, time, ...).

    shift: a gap that is known exactly, besides the expected one. rtol: the tolerance with which the theory was solved.
    """
    shift = np.zeros_like(theory) if shift is None else shift
    count = runs.shape[0]
    mean = runs.mean(axis=0)
    gap = mean - theory
    sd = runs.std(axis=0, ddof=1) if count > 1 else np.full_like(gap, np.nan)
    error = sd / np.sqrt(count)
    unit = np.fmax(error, _resolution(name, theory, rtol))
    low, high = (-2 * np.abs(expected), 2 * np.abs(expected)) if rough else _interval(2 * expected)
    left = gap - np.clip(gap, shift + low, shift + high)
    expected = expected + (np.abs(shift) if rough else shift)
    z, beyond = (z_score(x / unit, count) for x in (gap, left))
    return Gap(name, theory, runs, mean, gap, error, z, expected, beyond, rough, unit, (high - low) / 2)


def _resolution(name: str, theory: np.ndarray, rtol: float) -> np.ndarray:
    """What the solver itself cannot resolve: a smaller standard error (at time zero there is none) counts as this."""
    coarser = max(1.0, rtol / FINEST)
    if name == "error":
        return coarser * (FINEST_ERROR * np.abs(theory) + ROUNDING)
    return np.full_like(theory, coarser * FINEST * max(float(np.max(np.abs(theory), initial=0.0)), 1e-12))


def _interval(end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.minimum(end, 0.0), np.maximum(end, 0.0)


def z_score(ratio: np.ndarray, count: int) -> np.ndarray:
    """Gap over standard error of `count` runs, as the normal deviate of equal probability; NaN for one run."""
    from scipy import stats

    if count < 2:
        return np.full_like(ratio, np.nan)
    tail = np.maximum(stats.t.sf(np.abs(ratio), count - 1), 1e-299)
    return np.sign(ratio) * np.minimum(stats.norm.isf(tail), CAP)


@dataclass(frozen=True)
class Verdict:
    """outcome: one of AGREE, BIASED, DIFFER, NOISE, UNKNOWN. within, within_bias: shares with |z|, |beyond| < 4.

    counted: (time,), the times that count. before: for NOISE, the outcome before the first departure.
    """

    outcome: str
    sentence: str
    within: float
    within_bias: float
    counted: np.ndarray
    before: str | None = None


def decide(gaps: dict[str, Gap], times: np.ndarray, escape: Escape | None, swapped: int, runs: int) -> Verdict:
    """What the gaps and the escape amount to."""
    noisy = escape is not None and escape.by_noise
    counted = times < escape.first_departure if escape is not None and noisy else np.ones(times.size, bool)
    if runs < 2:
        worst = max(gaps.values(), key=lambda g: float(np.max(np.abs(g.gap))) if g.name == "error" else 0.0)
        text = (
            f"one run has no standard error; the largest gap of {worst.name} is {np.max(np.abs(worst.gap)):.3g}. Run more."
        )
        return Verdict(UNKNOWN, f"{UNKNOWN}: {text}", np.nan, np.nan, counted)
    outcome, (plain, biased) = _outcome(gaps, counted)
    sentence = f"{outcome}: {_why(outcome, gaps, times, counted, plain, biased)}"
    if escape is None or not noisy:
        return Verdict(outcome, sentence, plain, biased, counted)
    return Verdict(NOISE, _noise_sentence(escape, swapped, runs, sentence), plain, biased, counted, before=outcome)


def _outcome(gaps: dict[str, Gap], counted: np.ndarray) -> tuple[str, tuple[float, float]]:
    plain, biased = (_inside(gaps, which, counted) for which in ("z", "beyond"))
    shares = float(np.mean(np.concatenate(plain, axis=1))), float(np.mean(np.concatenate(biased, axis=1)))
    for outcome, inside in ((AGREE, plain), (BIASED, biased)):
        if holds(inside):
            return outcome, shares
    return DIFFER, shares


def holds(inside: list[np.ndarray]) -> bool:
    """Do enough numbers lie within the limit? inside: (time, entries) of booleans for each quantity."""
    each = min(float(np.min(x.mean(axis=0))) for x in inside)
    return float(np.mean(np.concatenate(inside, axis=1))) >= OVERALL and each >= EACH


def _inside(gaps: dict[str, Gap], which: str, counted: np.ndarray) -> list[np.ndarray]:
    return [np.abs(gap.entries(getattr(gap, which))[counted]) < LIMIT for gap in gaps.values()]


def _why(outcome: str, gaps: dict[str, Gap], times: np.ndarray, counted: np.ndarray, plain: float, biased: float) -> str:
    entries = sum(len(g.labels()) for g in gaps.values())
    every = f"{percent(plain)} of {entries} quantities at {int(counted.sum())} times have |z| < {LIMIT:g}"
    if outcome == AGREE:
        return every
    if outcome == BIASED:
        return f"{every}, and {percent(biased)} when a gap of up to twice the expected one, of order 1/N, is allowed"
    parts = [_worst(gap, times, counted) for gap in sorted(gaps.values(), key=_outside(counted), reverse=True)]
    return "; ".join([part for part in parts if part][:3]) + f". Only {every}"


def _outside(counted: np.ndarray) -> Callable[[Gap], float]:
    return lambda gap: float(np.mean(np.abs(gap.entries(gap.beyond)[counted]) >= LIMIT))


def _worst(gap: Gap, times: np.ndarray, counted: np.ndarray) -> str:
    place = worst_place(gap, "beyond", counted)
    z = gap.entries(gap.z)[place]
    if abs(gap.entries(gap.beyond)[place]) < LIMIT:
        return ""
    off, expected = (gap.entries(x)[place] for x in (gap.gap, gap.expected))
    name, score = gap.labels()[place[1]], f"|z| > {CAP - 1:.0f}" if abs(z) >= CAP - 1 else f"z = {z:.0f}"
    about = "about " if gap.rough else ""
    return f"{name} is off by {off:.2g} at alpha = {times[place[0]]:g} ({score}; expected {about}{expected:.1g})"


def worst_place(gap: Gap, which: str, counted: np.ndarray) -> tuple[int, int]:
    """(time, entry) of the largest score among the counted times."""
    scores = np.where(counted[:, None], np.nan_to_num(np.abs(gap.entries(getattr(gap, which)))), -1.0)
    time, entry = np.unravel_index(int(np.argmax(scores)), scores.shape)
    return int(time), int(entry)


def _noise_sentence(escape: Escape, swapped: int, runs: int, before: str) -> str:
    found = escape.escaped
    times = f"{found.mean():.4g} ± {found.std(ddof=1):.2g}" if found.size > 1 else "later"
    own = f"{escape.theory:.4g}" if np.isfinite(escape.theory) else "later"
    who = "rather than the start" if (escape.start_to_noise or 0.0) < NOISE_ALONE else "of some runs"
    return (
        f"{NOISE} {who} (start / noise = {escape.start_to_noise:.2g} at this N): runs leave the plateau at alpha = {times}, "
        f"the theory at {own} ({escape.earlier} of {runs} runs are earlier), and {swapped} of {runs} end in another "
        f"permutation of units. Their mean follows no single curve, however large N is: compare times of escape. "
        f"Up to the first departure, alpha = {escape.first_departure:.4g}, they {before}"
    )


def percent(share: float) -> str:
    """A share in words, never rounded up to all of them."""
    if share >= 1.0:
        return "100%"
    return f"{min(100 * share, 99.9):.3g}%"
