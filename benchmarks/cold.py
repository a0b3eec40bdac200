"""How long a newcomer waits: help, import, and the command without and with its compile cache, in new processes."""

import os
import subprocess
import sys
import tempfile

from benchmarks.measure import best_of, pick, record

TRACED = "importing JAX and diffrax takes 1 s, tracing and lowering the solver in Python another 1.2 s; only XLA is cached"


def cold_start():
    """A new process each time."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        environment.pop("XLA_FLAGS", None)
        run = lambda *command: subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: E731
        program = (sys.executable, "-m", "tutelage.cli")
        library = "import tutelage as tu; tu.solve(tu.Problem(tu.Network(3), tu.Network(3)), times=300.0)"
        cases = (
            ("tutelage --help", (*program, "--help"), 0.5, 3, ""),
            ("import tutelage, solve loaded", (sys.executable, "-c", "import tutelage; tutelage.solve"), 1.5, 3, ""),
            ("first solve in Python", (sys.executable, "-c", library), None, 1, ""),
            ("tutelage solve, empty cache", (*program, "solve", "--quiet"), 3.0, 1, "XLA compiles for 2 s; " + TRACED),
            ("tutelage solve, warm cache", (*program, "solve", "--quiet"), 1.0, 3, TRACED),
        )
        for name, command, limit, repeats, reason in cases[: pick(5, 5, 1)]:
            seconds, _ = best_of(lambda: run(*command), pick(repeats, 1, 1))
            met = None if limit is None else seconds <= limit
            target = "" if limit is None else f"<= {limit} s"
            record(name, seconds, target=target, met=met, reason="" if met else reason)


ALL = (cold_start,)
