"""How long a newcomer waits: help, import, and the command without and with its compile cache, in new processes."""

import os
import subprocess
import sys
import tempfile

from benchmarks.measure import best_of, pick, record

IMPORTS = "importing numpy, JAX and equinox takes two thirds of it"
FIRST = "imports take 1 s, tracing and lowering in Python half a second, XLA the rest"
STIFF = ("solve", "--quiet", "--solver", "stiff", "--beta", "1", "--levels", "64")


def cold_start():
    """A new process each time."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        environment.pop("XLA_FLAGS", None)
        run = lambda *command: subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: E731
        program = (sys.executable, "-m", "tutelage.cli")
        library = "import tutelage as tu; tu.solve(tu.Problem(tu.Network(3), tu.Network(3)), times=300.0)"
        cached = f"import jax; jax.config.update('jax_compilation_cache_dir', {folder + '/mine'!r}); {library}"
        cases = (
            ("tutelage --help", (*program, "--help"), 0.5, 3, ""),
            ("import tutelage, solve loaded", (sys.executable, "-c", "import tutelage; tutelage.solve"), 1.5, 3, ""),
            ("first solve in Python", (sys.executable, "-c", library), None, 1, ""),
            ("tutelage solve, empty cache", (*program, "solve", "--quiet"), 3.0, 1, FIRST),
            ("tutelage solve, warm cache", (*program, "solve", "--quiet"), 1.0, 5, IMPORTS),
            ("first stiff solve, empty cache", (*program, *STIFF), None, 1, ""),
            ("first stiff solve, warm cache", (*program, *STIFF), None, 3, ""),
            ("solve in Python, JAX's cache empty", (sys.executable, "-c", cached), None, 1, ""),
            ("solve in Python, JAX's cache warm", (sys.executable, "-c", cached), None, 3, ""),
        )
        for name, command, limit, repeats, reason in cases[: pick(len(cases), len(cases), 1)]:
            seconds, _ = best_of(lambda: run(*command), pick(repeats, 1, 1))
            met = None if limit is None else seconds <= limit
            target = "" if limit is None else f"<= {limit} s"
            record(name, seconds, target=target, met=met, reason="" if met else reason)


ALL = (cold_start,)
