"""docs/reference-values.json:

the library meets every digit, and a wrong problem does not.
"""

import json

import numpy as np
import pytest

import tutelage as tu
from tests import reference_values

CASES = json.loads(reference_values.FILE.read_text())["cases"]


def computed(case, **changes):
    """What the library finds for a case, by the names of its values."""
    problem = tu.Problem.from_dict(case["problem"]).replace(**changes)
    if case["quantity"] == "critical learning rate":
        return {"rate": tu.analysis.critical_learning_rate(problem).rate}
    overlaps = {name: np.array(x) for name, x in case["overlaps"].items()}
    if case["quantity"] == "error":
        return {"error": tu.generalization_error(problem, **overlaps)}
    start = tu.Start(**overlaps)
    theory = tu.solve(problem, start, case["times"], rtol=1e-11, atol=1e-13)
    return {name: theory[name] for name in case["values"]}


def worst(case, found):
    """The largest deviation in units of the uncertainty."""
    return (
        max(
            np.max(np.abs(np.asarray(found[name]) - np.array(values)))
            for name, values in case["values"].items()
        )
        / (case["uncertainty"])
    )


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_library_meets_the_digits(case):
    assert worst(case, computed(case)) <= 1


def test_a_slightly_wrong_rate_does_not():
    """The negative control."""
    (case,) = (case for case in CASES if case["name"] == "erf-curve")
    assert worst(case, computed(case, lr=0.5 * (1 + 1e-6))) > 1


def test_the_closed_forms_are_those_of_the_file():
    """The curves of the second implementation take seconds; `python -m` writes them."""
    stored = {case["name"]: case for case in CASES}
    cheap = [
        *reference_values.errors(),
        *reference_values.critical_rates(),
        reference_values.linear_curve(),
    ]
    for case in cheap:
        assert json.loads(json.dumps(case)) == stored[case["name"]]


@pytest.mark.full
def test_the_file_is_what_the_script_writes():
    assert reference_values.content() == reference_values.FILE.read_text()


def test_the_page_lists_every_case():
    page = reference_values.FILE.with_suffix(".md").read_text()
    for case in CASES:
        assert f"`{case['name']}`" in page
