"""How long the first use takes, as a user types it: commands with their report, and functions in a new Python process.

`python -m benchmarks.cold NAME` runs one case and prints its times as JSON. Each row has processor seconds next to those of
the wall, because the former hardly depend on what else the machine does, and the number of programs that XLA compiled.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import OPTIONS, pick, record

SOLVE = ("solve", "-K", "3", "-M", "3")
STIFF = ("solve", "--quiet", "--solver", "stiff", "--beta", "1", "--levels", "64")
REASONS = {
    "tutelage solve -K 3 -M 3, empty cache": "numba compiles the kernel, once after an installation",
    "tutelage solve -K 3 -M 3, warm cache": "imports of numpy, JAX, equinox and numba take most of it",
}
# seconds of the first call and of the next; None: no target. All but the first two come after a solve.
CASES = {
    "import": (1.5, None),
    "solve": (None, 0.01),
    "validity": (2.0, 0.5),
    "compare": (2.0, 0.5),
    "escape_time": (2.0, 2.0),
    "fluctuations": (2.0, 0.5),
    "critical_learning_rate": (2.0, 0.5),
    "relu": (None, None),
    "tanh": (None, 0.3),
    "solve_batch": (None, None),
    "optimize": (10.0, 10.0),
    "explorer details": (3.0, 3.0),
}


def commands():
    """Commands in new processes, without and with the caches of machine code of JAX and numba."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "XDG_CACHE_HOME": folder,
            "NUMBA_CACHE_DIR": f"{folder}/numba",
        }
        environment.pop("XLA_FLAGS", None)
        cases = (
            ("tutelage --help", ("--help",), 0.5, 3),
            ("tutelage solve -K 3 -M 3, empty cache", SOLVE, 2.5, 1),
            ("tutelage solve -K 3 -M 3, warm cache", SOLVE, 1.2, 5),
            ("stiff solve, empty cache", STIFF, None, 1),
            ("stiff solve, warm cache", STIFF, None, 3),
        )
        for name, arguments, limit, repeats in cases[: pick(len(cases), 3, 1)]:
            taken = [
                _child(("-m", "tutelage.cli", *arguments), environment)[:2]
                for _ in range(pick(repeats, 1, 1))
            ]
            wall, processor = (min(x) for x in zip(*taken, strict=True))
            _judge(name, wall, processor, limit, reason=REASONS.get(name, ""))


def functions():
    """Functions in a new process each: the first call, and the next."""
    environment = {
        name: value for name, value in os.environ.items() if name != "XLA_FLAGS"
    }
    for name, limits in list(CASES.items())[: pick(len(CASES), 6, 1)]:
        wall, processor, printed = _child(("-m", "benchmarks.cold", name), environment)
        if name == "import":
            _judge("import tutelage and one solve", wall, processor, limits[0])
            continue
        for which, call, limit in zip(
            ("first call", "next call"), json.loads(printed), limits, strict=True
        ):
            note = f"{call['compiled']} programs compiled"
            _judge(f"{name}, {which}", call["wall"], call["processor"], limit, note)


def _child(arguments, environment):
    """Seconds by the wall and of the processor that a Python process takes, and what it prints."""
    begin, before = time.perf_counter(), os.times()
    out = subprocess.run(
        (sys.executable, *arguments),
        check=True,
        capture_output=True,
        env=environment,
        text=True,
    )
    after = os.times()
    processor = sum(after[2:4]) - sum(before[2:4])
    return time.perf_counter() - begin, processor, out.stdout


def _judge(name, wall, processor, limit, note="", reason=""):
    """One row; the clock of the run decides which of the two times is judged."""
    seconds, other = (
        (wall, processor) if OPTIONS["clock"] == "wall" else (processor, wall)
    )
    words = f"{other:.3g} s {'of the processor' if OPTIONS['clock'] == 'wall' else 'by the wall'}"
    target, met = ("", None) if limit is None else (f"<= {limit} s", seconds <= limit)
    record(
        name,
        seconds,
        note=f"{words}; {note}" if note else words,
        target=target,
        met=met,
        reason="" if met else reason,
    )


def measure_case(name):
    """Time one case in this process, after a solve."""
    import jax

    import tutelage as tu

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: (
            compiled.append(event)
            if event.endswith("backend_compile_duration")
            else None
        )
    )
    problem = tu.Problem(
        tu.Network(3, "erf"), tu.Network(3, "erf"), optimizer=tu.SGD(0.5)
    )
    start, solved, found = tu.random_start(problem, dim=1000), {}, []
    if name not in ("import", "solve"):
        solved["theory"] = tu.solve(problem, start, 300.0)
    if name == "compare":
        solved["runs"] = tu.simulate(problem, start, times=300.0, runs=20)
    case = _case(name, tu, problem, start, solved)
    for _ in range(1 if name == "import" else 2):
        compiled.clear()
        wall, processor = time.perf_counter(), time.process_time()
        case()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        found.append({"wall": wall, "processor": processor, "compiled": len(compiled)})
    print(json.dumps(found))


def _case(name, tu, problem, start, solved):
    """What a case does, as a function without arguments."""

    def validity():
        from tutelage.stream.validity import assess

        return assess(solved["theory"])

    def details():
        from tutelage.explorer import answer
        from tutelage.page.settings import Settings

        answer._rates.cache_clear()  # else the next call would not compute it again
        return list(answer.details(Settings.read({})))

    def smooth(activation):
        network = tu.Network(2, activation)
        return tu.solve(
            tu.Problem(network, network, optimizer=tu.SGD(0.5)), times=300.0, rtol=1e-6
        )

    return {
        "import": lambda: tu.solve(problem, start, 300.0),
        "solve": lambda: tu.solve(problem, start, 300.0),
        "validity": validity,
        "compare": lambda: tu.compare(solved["theory"], solved["runs"]),
        "escape_time": lambda: tu.analysis.escape_time(problem, start),
        "fluctuations": lambda: tu.analysis.fluctuations(problem, start),
        "critical_learning_rate": lambda: tu.analysis.critical_learning_rate(problem),
        "relu": lambda: smooth("relu"),
        "tanh": lambda: smooth("tanh"),
        "solve_batch": lambda: tu.solve_batch(
            problem, {"lr": [0.2, 0.3, 0.4, 0.5]}, start, 100.0
        ),
        "optimize": lambda: tu.schedules.optimize(
            problem, start, 50.0, {"lr": (0.01, 2.0)}
        ),
        "explorer details": details,
    }[name]


ALL = (commands, functions)

if __name__ == "__main__":
    measure_case(sys.argv[1])
