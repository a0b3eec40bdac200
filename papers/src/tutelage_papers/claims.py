"""Claims: a sentence of a source as a number that was measured, the number that is expected, and a verdict.

    close("rate of escape", measured, 0.0316, rel=0.02)             |measured / expected - 1| <= 0.02
    close("exponent", measured, -1.0, absolute=0.15)                |measured - expected| <= 0.15
    at_most("largest gap", measured, 1e-4); at_least(...)           above(...) and below(...) are strict
    between("ratio", measured, 1.6, 23.0)
    refuted(close("eq. 15", measured, expected, rel=0.05), evidence="two other routes give ...")

Verdicts: "pass", "fail" and "does_not_hold". The last is for a claim of a source that careful work refutes: `refuted` turns
a claim that fails into it, if the evidence is named. A number that is not finite fails, whatever is said about it. Two texts
may stand beside a claim: `evidence` (how we know) and `says` (the sentence of the source; the gallery prints it).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

PASS = "pass"
FAIL = "fail"
DOES_NOT_HOLD = "does_not_hold"
VERDICTS = (PASS, FAIL, DOES_NOT_HOLD)


@dataclass(frozen=True)
class Claim:
    """One checked claim. expected: the number that the tolerance (in words) refers to."""

    name: str
    expected: float
    measured: float
    tolerance: str
    verdict: str
    evidence: str = ""
    says: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            n: getattr(self, n)
            for n in (
                "name",
                "expected",
                "measured",
                "tolerance",
                "verdict",
                "evidence",
            )
        }

    def __str__(self) -> str:
        numbers = f"measured {self.measured:.6g}, expected {self.expected:.6g} ({self.tolerance})"
        return f"{self.verdict}: {self.name}: {numbers}" + (
            f". {self.evidence}" if self.evidence else ""
        )


def close(
    name: str,
    measured: float,
    expected: float,
    *,
    rel: float | None = None,
    absolute: float | None = None,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Equal up to a relative or an absolute tolerance (one of them)."""
    if (rel is None) == (absolute is None):
        raise ValueError(f"the claim {name!r} needs one tolerance, rel or absolute.")
    reach = (absolute or 0.0) if rel is None else abs(expected) * rel
    words = f"within {absolute:g}" if rel is None else f"within {_share(rel)}"
    return _claim(
        name,
        measured,
        expected,
        words,
        abs(measured - expected) <= reach,
        evidence,
        says,
    )


def at_most(
    name: str, measured: float, bound: float, *, evidence: str = "", says: str = ""
) -> Claim:
    """No larger than a bound."""
    return _claim(name, measured, bound, "at most", measured <= bound, evidence, says)


def at_least(
    name: str, measured: float, bound: float, *, evidence: str = "", says: str = ""
) -> Claim:
    """No smaller than a bound."""
    return _claim(name, measured, bound, "at least", measured >= bound, evidence, says)


def below(
    name: str, measured: float, bound: float, *, evidence: str = "", says: str = ""
) -> Claim:
    """Strictly smaller than a bound."""
    return _claim(name, measured, bound, "below", measured < bound, evidence, says)


def above(
    name: str, measured: float, bound: float, *, evidence: str = "", says: str = ""
) -> Claim:
    """Strictly larger than a bound."""
    return _claim(name, measured, bound, "above", measured > bound, evidence, says)


def between(
    name: str,
    measured: float,
    low: float,
    high: float,
    *,
    evidence: str = "",
    says: str = "",
) -> Claim:
    """Within an interval; expected is its middle."""
    inside = low <= measured <= high
    return _claim(
        name,
        measured,
        (low + high) / 2,
        f"between {low:g} and {high:g}",
        inside,
        evidence,
        says,
    )


def refuted(claim: Claim, evidence: str) -> Claim:
    """A claim of the source that does not hold, by this evidence; one that holds after all, or no evidence, is a failure."""
    if claim.verdict == PASS:
        return replace(
            claim,
            verdict=FAIL,
            evidence=f"this was said not to hold, but it does. {evidence}".strip(),
        )
    known = bool(evidence.strip()) and math.isfinite(claim.measured)
    return replace(claim, verdict=DOES_NOT_HOLD if known else FAIL, evidence=evidence)


def _claim(
    name: str,
    measured: Any,
    expected: Any,
    tolerance: str,
    holds: Any,
    evidence: str,
    says: str,
) -> Claim:
    measured = float(measured)
    expected = float(expected)
    passed = bool(holds) and math.isfinite(measured) and math.isfinite(expected)
    return Claim(
        name, expected, measured, tolerance, PASS if passed else FAIL, evidence, says
    )


def _share(rel: float) -> str:
    return f"{100 * rel:g}%" if rel >= 1e-4 else f"{rel:g} of it"
