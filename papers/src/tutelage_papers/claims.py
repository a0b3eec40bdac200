"""Claims: a sentence of a source as a number that was measured, the number that is
expected, and a verdict.

    close("rate of escape", measured, 0.0316, rel=0.02)  |measured / expected - 1| <= 0.02
    close("exponent", measured, -1.0, absolute=0.15)     |measured - expected| <= 0.15
    at_most("largest gap", measured, 1e-4)               measured <= 1e-4
    between("ratio", measured, 1.6, 23.0)                1.6 <= measured <= 23
    refuted(close("eq. 15", measured, expected, rel=0.05), evidence="two other routes ...")

`at_least` is the opposite of `at_most`; `above` and `below` are strict. Numbers may be
scalars of a Dataset.

Verdicts: "pass", "fail" and "does_not_hold". The last is for a claim of a source that
careful work refutes: `refuted` turns a claim that fails into it, if the evidence is named.
A number that is not finite fails in any case. Two texts may accompany a claim: `evidence`
(how we know) and `says` (the sentence of the source; the gallery prints it).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

PASS = "pass"
FAIL = "fail"
DOES_NOT_HOLD = "does_not_hold"
VERDICTS = (PASS, FAIL, DOES_NOT_HOLD)


@dataclass(frozen=True)
class Claim:
    """One checked claim.

    expected: the number that the tolerance (in words) refers to.
    """

    name: str
    expected: float
    measured: float
    tolerance: str
    verdict: str
    evidence: str = ""
    says: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as data for JSON, without the sentence of the source."""
        return {
            "name": self.name,
            "expected": self.expected,
            "measured": self.measured,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "evidence": self.evidence,
        }

    def __str__(self) -> str:
        numbers = (
            f"measured {self.measured:.6g}, "
            f"expected {self.expected:.6g} ({self.tolerance})"
        )
        line = f"{self.verdict}: {self.name}: {numbers}"
        if self.evidence:
            line += f". {self.evidence}"
        return line


def close(
    name: str,
    measured: SupportsFloat,
    expected: SupportsFloat,
    *,
    rel: float | None = None,
    absolute: float | None = None,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Claim equality up to a relative or an absolute tolerance (one of them)."""
    measured = float(measured)
    expected = float(expected)
    if rel is not None and absolute is None:
        reach = abs(expected) * rel
        words = f"within {_share(rel)}"
    elif absolute is not None and rel is None:
        reach = absolute
        words = f"within {absolute:g}"
    else:
        raise ValueError(f"the claim {name!r} needs one tolerance, rel or absolute.")
    holds = abs(measured - expected) <= reach
    return _claim(name, measured, expected, words, holds, evidence, says)


def at_most(
    name: str,
    measured: SupportsFloat,
    bound: SupportsFloat,
    *,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Claim that a number is no larger than a bound."""
    measured = float(measured)
    bound = float(bound)
    holds = measured <= bound
    return _claim(name, measured, bound, "at most", holds, evidence, says)


def at_least(
    name: str,
    measured: SupportsFloat,
    bound: SupportsFloat,
    *,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Claim that a number is no smaller than a bound."""
    measured = float(measured)
    bound = float(bound)
    holds = measured >= bound
    return _claim(name, measured, bound, "at least", holds, evidence, says)


def below(
    name: str,
    measured: SupportsFloat,
    bound: SupportsFloat,
    *,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Claim that a number is strictly smaller than a bound."""
    measured = float(measured)
    bound = float(bound)
    holds = measured < bound
    return _claim(name, measured, bound, "below", holds, evidence, says)


def above(
    name: str,
    measured: SupportsFloat,
    bound: SupportsFloat,
    *,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Claim that a number is strictly larger than a bound."""
    measured = float(measured)
    bound = float(bound)
    holds = measured > bound
    return _claim(name, measured, bound, "above", holds, evidence, says)


def between(
    name: str,
    measured: SupportsFloat,
    low: SupportsFloat,
    high: SupportsFloat,
    *,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Claim that a number is within an interval; expected is the middle of it."""
    measured = float(measured)
    low = float(low)
    high = float(high)
    holds = low <= measured <= high
    middle = (low + high) / 2
    words = f"between {low:g} and {high:g}"
    return _claim(name, measured, middle, words, holds, evidence, says)


def refuted(claim: Claim, evidence: str) -> Claim:
    """Return a claim of the source that does not hold, by this evidence.

    A claim that holds after all, and one without evidence, is a failure.
    """
    if claim.verdict == PASS:
        surprise = f"this was said not to hold, but it does. {evidence}".strip()
        return replace(claim, verdict=FAIL, evidence=surprise)
    if evidence.strip() and math.isfinite(claim.measured):
        return replace(claim, verdict=DOES_NOT_HOLD, evidence=evidence)
    return replace(claim, verdict=FAIL, evidence=evidence)


def _claim(
    name: str,
    measured: float,
    expected: float,
    tolerance: str,
    holds: bool,
    evidence: str,
    says: str,
) -> Claim:
    verdict = FAIL
    if holds and math.isfinite(measured) and math.isfinite(expected):
        verdict = PASS
    return Claim(
        name=name,
        expected=expected,
        measured=measured,
        tolerance=tolerance,
        verdict=verdict,
        evidence=evidence,
        says=says,
    )


def _share(rel: float) -> str:
    """A relative tolerance in words."""
    if rel >= 1e-4:
        return f"{100 * rel:g}%"
    return f"{rel:g} of it"
