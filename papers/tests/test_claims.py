"""A claim passes by its number; only evidence turns a failure into "does not hold"."""

import math

import pytest

from tutelage_papers import above, at_least, at_most, below, between, close, refuted

HOLDS = [
    close("a", 1.04, 1.0, rel=0.05),
    close("a", -1.04, -1.0, rel=0.05),
    close("a", -0.9, -1.0, absolute=0.15),
    close("a", 0.0, 0.0, rel=0.05),
    at_most("a", 2.0, 2.0),
    at_least("a", 2.0, 2.0),
    below("a", 1.9, 2.0),
    above("a", 2.1, 2.0),
    between("a", 1.0, 1.0, 2.0),
]
FAILS = [
    close("a", 1.06, 1.0, rel=0.05),
    close("a", -0.8, -1.0, absolute=0.15),
    at_most("a", 2.1, 2.0),
    at_least("a", 1.9, 2.0),
    below("a", 2.0, 2.0),
    above("a", 2.0, 2.0),
    between("a", 2.1, 1.0, 2.0),
]


@pytest.mark.parametrize("claim", HOLDS)
def test_a_claim_that_holds_passes(claim):
    assert claim.verdict == "pass"


@pytest.mark.parametrize("claim", FAILS)
def test_a_claim_that_does_not_hold_fails(claim):
    assert claim.verdict == "fail"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_fails(bad):
    claims = [
        close("a", bad, 1.0, rel=1e9),
        at_most("a", bad, 1.0),
        at_least("a", bad, 1.0),
        between("a", bad, -9.0, 9.0),
        below("a", bad, math.inf),
        above("a", bad, -math.inf),
        close("a", 1.0, bad, absolute=1e9),
    ]
    assert {claim.verdict for claim in claims} == {"fail"}
    assert refuted(close("a", bad, 1.0, rel=0.1), evidence="seen").verdict == "fail"


def test_a_refutation_needs_a_failure_and_evidence():
    wrong = close("a", 2.0, 1.0, rel=0.1, says="it is one")
    right = close("a", 1.0, 1.0, rel=0.1)
    named = refuted(wrong, evidence="a second route gives 2")
    assert named.verdict == "does_not_hold"
    assert named.evidence == "a second route gives 2"
    assert named.says == "it is one"
    assert refuted(wrong, evidence=" ").verdict == "fail"
    assert refuted(right, evidence="a second route gives 2").verdict == "fail"


def test_one_tolerance_exactly():
    for wrong in ({}, {"rel": 0.1, "absolute": 0.1}):
        with pytest.raises(ValueError, match="one tolerance"):
            close("a", 1.0, 1.0, **wrong)


def test_for_json_and_for_people():
    claim = close("the rate", 0.5, 0.48, rel=0.05, evidence="100 runs")
    assert claim.to_dict() == {
        "name": "the rate",
        "expected": 0.48,
        "measured": 0.5,
        "tolerance": "within 5%",
        "verdict": "pass",
        "evidence": "100 runs",
    }
    assert (
        str(claim)
        == "pass: the rate: measured 0.5, expected 0.48 (within 5%). 100 runs"
    )
