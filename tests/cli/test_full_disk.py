"""A disk that fills up while a command writes: one message, exit code 2, no part of a file left behind.

A limit on the size of a file (RLIMIT_FSIZE) makes real writes fail halfway, as a full disk does, in a process of its own.
"""

import os
import subprocess
import sys

import pytest

SMALL = [
    "-K",
    "1",
    "-M",
    "1",
    "--activation",
    "linear",
    "--times",
    "5",
    "--points",
    "11",
]
LIMITED = """
import resource, sys
import matplotlib.font_manager
from tutelage.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
sys.exit(main(sys.argv[1:]))
"""
FULL = pytest.mark.full
SWEEP = """
measure = "final_error"
student = { hidden = 1, activation = "linear" }
teacher = { hidden = 1, activation = "linear" }
over = { lr = [0.1, 0.2] }
times = { end = 5.0, points = 3 }
"""


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (
            ["solve", *SMALL, "--no-validity", "--quiet", "--out", "curve.nc"],
            "curve.nc",
        ),
        pytest.param(
            [
                "simulate",
                *SMALL,
                "--runs",
                "2",
                "--dim",
                "50",
                "--quiet",
                "--out",
                "runs.nc",
            ],
            "runs.nc",
            marks=FULL,
        ),
        pytest.param(
            ["solve", *SMALL, "--no-validity", "--quiet", "--plot", "curve.png"],
            "curve.png",
            marks=FULL,
        ),
        pytest.param(
            [
                "sweep",
                "sweep.toml",
                "--out",
                "swept",
                "--executor",
                "serial",
                "--quiet",
            ],
            "swept",
            marks=FULL,
        ),
        pytest.param(
            [
                "compare",
                *SMALL,
                "--runs",
                "4",
                "--dim",
                "50",
                "--quiet",
                "--out-dir",
                ".",
            ],
            "compare.png",
            marks=FULL,
        ),
        pytest.param(
            ["replicate", "notes-1", "--quick", "--out", "figures"],
            "notes-1",
            marks=FULL,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_message_and_nothing_left(line, named, folder):
    (folder / "sweep.toml").write_text(SWEEP)
    environment = os.environ | {
        "TUTELAGE_CACHE": "0",
        "NUMBA_DISABLE_JIT": "1",
    }  # no cache of theirs under the limit
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, *line],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    said = [text for text in run.stderr.splitlines() if not text.startswith("note:")]
    assert (run.returncode, len(said)) == (2, 1), run.stderr
    assert said[0].startswith("error: ")
    assert named in said[0]
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    assert left <= {
        "sweep.toml",
        "spec.json",
        "lock",
    }  # a sweep can be resumed from these
