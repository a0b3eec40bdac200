"""What a command prints about a curve."""

import numpy as np

from tutelage.cli import report


def test_numbers_of_a_matrix_do_not_run_together():
    values = np.array([[1024.5507, -210.6494, 1.0], [-12345.6, 0.1, -9999.99999]])
    lines = report._matrix(values).splitlines()
    read = np.array([[float(word) for word in line.split()] for line in lines])
    np.testing.assert_allclose(read, values, rtol=1e-2)
    assert len({len(line) for line in lines}) == 1


def test_the_mean_is_over_the_runs_that_finished(tutelage):
    """Some runs of a network just above its critical rate diverge; their NaN must not hide the others."""
    line = (
        "simulate",
        "-K",
        "1",
        "-M",
        "1",
        "--activation",
        "quadratic",
        "--lr",
        "0.15",
        "--dim",
        "30",
        "--runs",
        "40",
    )
    ending = tutelage(*line, "--times", "20", "--points", "5")
    assert "diverged" in ending.stderr
    assert "runs that finished" in ending.stdout
    assert "nan" not in ending.stdout
