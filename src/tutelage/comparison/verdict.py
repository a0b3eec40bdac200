"""The decision, and its sentence.

Counted are all independent numbers at all times (only those before the first departure where noise decides the escape). They
agree if 99% of them, and 95% of each entry's times, have |z| < 4; within the expected finite-N bias if that holds for what
the expected gap leaves over (`Gap.beyond`). Neighboring times are far from independent: one chance excursion lasts
several of them, which is why a few per cent may lie outside.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage.comparison.escape import Escape
from tutelage.comparison.gaps import CAP, Gap

LIMIT = 4.0  # standard errors
NOISE_ALONE = 3.0  # start / noise below which noise decides alone
OVERALL, EACH = 0.99, 0.95  # shares that must lie within the limit
AGREE, BIASED, DIFFER, NOISE, UNKNOWN = (
    "agree",
    "agree within the expected finite-N bias",
    "differ",
    "noise decides the escape",
    "cannot tell",
)


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


def _why(outcome: str, gaps: dict[str, Gap], times: Any, counted: np.ndarray, plain: float, biased: float) -> str:
    entries = sum(len(g.labels()) for g in gaps.values())
    every = f"{percent(plain)} of {entries} quantities at {int(counted.sum())} times have |z| < {LIMIT:g}"
    if outcome == AGREE:
        return every
    if outcome == BIASED:
        return f"{every}, and {percent(biased)} when a gap of up to twice the expected one, of order 1/N, is allowed"
    parts = [_worst(gap, times, counted) for gap in sorted(gaps.values(), key=_outside(counted), reverse=True)]
    return "; ".join([part for part in parts if part][:3]) + f". Only {every}"


def _outside(counted: np.ndarray) -> Any:
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
