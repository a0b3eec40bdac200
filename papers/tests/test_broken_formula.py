"""A wrong sign in one formula, and primer-1 must fail: a negative control of it all.

Each sign is changed in the source of the four-point average of erf, in a process of its
own: a compiled solve of the right formula cannot hide it there, and a compiled solve of
the wrong one cannot leak into other tests.
"""

import json
import subprocess
import sys

import pytest

# One term of what is left of two fields when i and j are given, with the other sign.
# (The two signs in `across` hang on the students' correlation, which is small on this
# short curve; tests/stream/moments see them.)
SIGNS = {
    "as it is": ("", ""),
    "across^2": ("- across**2", "+ across**2"),
    "x_a x_b": ("- x[a] * x[b]", "+ x[a] * x[b]"),
    "y_a y_b": ("- y[a] * y[b]", "+ y[a] * y[b]"),
}
PROGRAM = """
import inspect, json, sys, textwrap
from tutelage.stream import program
from tutelage.stream.moments import averages
from tutelage_papers import replicas

program.has_machine_code = lambda *_: False  # the machine code has this formula, too (tests/stream/test_compiled.py)
old, new = json.loads(sys.argv[1])
source = textwrap.dedent(inspect.getsource(averages.ErfAverages.slopes_squared_error))
assert old in source
exec(source.replace(old, new), vars(averages))
averages.ErfAverages.slopes_squared_error = averages.slopes_squared_error

figure = replicas()["primer-1"]
parameters = figure.parameters(quick=True) | {"lrs": [0.5], "noises": [0.0], "end": 20.0, "points": 21, "dims": [25, 50]}
claims = list(figure.claims(figure.compute(**parameters | {"runs_per_dim": 1})))
print(json.dumps([claim.verdict for claim in claims if "inside the band" in claim.name]))
"""


def verdicts(signs):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(signs)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_wrong_sign_fails():
    assert verdicts(SIGNS["x_a x_b"]) == ["fail"]


@pytest.mark.full
@pytest.mark.parametrize("term", SIGNS)
def test_every_sign_counts(term):
    assert verdicts(SIGNS[term]) == ["pass" if term == "as it is" else "fail"]
