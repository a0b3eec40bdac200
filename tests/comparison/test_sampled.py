"""What sampled averages of the theory may miss counts like a standard error of the runs."""

from dataclasses import replace

import numpy as np

import tutelage as tu
from tutelage.comparison.expected import _solved
from tutelage.comparison.pairing import pair


def test_the_sampling_error_of_the_theory_counts():
    teacher = tu.Network(2, "erf", readout=[1.0, 0.5])
    problem = tu.Problem(
        tu.Network(2, "erf"),
        teacher,
        loss="logistic",
        labels="sign",
        optimizer=tu.SGD(lr=1.0),
    )
    start, times = (
        tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]]),
        [0.0, 2.0, 4.0],
    )
    runs = tu.simulate(problem, start, dim=2000, times=times, runs=40, seed=1)
    theory = tu.solve(problem, start, times, moments=tu.Sampled(2**9, seed=1))
    result = tu.compare(theory, runs, fluctuations=False)
    assert result.agrees
    assert any("sampled" in note for note in result.notes)
    assert set(theory.sampling_errors) >= {"error", "R", "Q"}
    np.testing.assert_array_equal(
        theory.sampling_error, theory.sampling_errors["error"]
    )
    again = _solved(problem, start, pair(theory, runs), theory)
    assert again is not None
    np.testing.assert_array_equal(
        again["R"], theory.R
    )  # the same averages where a comparison solves once more
    unaware = replace(
        theory, settings=tuple(one for one in theory.settings if one[0] != "moments")
    )
    assert not tu.compare(
        unaware, runs, fluctuations=False
    ).agrees  # negative control: 512 points are too few
    assert result.verdict.by_sampling
    assert result.verdict.without_sampling == "differ"
    assert "the theory's own sampled averages decides" in result.verdict.sentence
    assert result.to_dict()["without_sampling_error"] == "differ"
    assert (
        tu.solve(
            problem.replace(loss="squared", labels="real"), start, times
        ).sampling_errors
        == {}
    )
