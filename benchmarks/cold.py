"""Time of the first use: commands with their report, and functions in a new process.

`python -m benchmarks.cold NAME` runs one case and prints its times as JSON. Each row
has processor seconds next to those of the wall, because the former hardly depend on
what else the machine does, and the number of programs that XLA compiled.
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
    "tutelage solve -K 3 -M 3, empty cache": "numba compiles the kernel, once after an "
    "installation",
    "tutelage solve -K 3 -M 3, warm cache": "imports of numpy, JAX, equinox and numba "
    "take most of it",
}
# Seconds of the first call and of the next; None: no target. All but the first two come
# after a solve.
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
    """Record commands in new processes, without and with caches of machine code."""
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
            walls = []
            processors = []
            for _ in range(pick(repeats, 1, 1)):
                command = ("-m", "tutelage.cli", *arguments)
                wall, processor, _ = _child(command, environment)
                walls.append(wall)
                processors.append(processor)
            reason = REASONS.get(name, "")
            _judge(name, min(walls), min(processors), limit, reason=reason)


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
        words = ("first call", "next call")
        calls = json.loads(printed)
        for which, call, limit in zip(words, calls, limits, strict=True):
            note = f"{call['compiled']} programs compiled"
            _judge(f"{name}, {which}", call["wall"], call["processor"], limit, note)


def _child(arguments, environment):
    """Seconds of a Python process by the wall and of the processor, and its output."""
    begin = time.perf_counter()
    before = os.times()
    output = subprocess.run(
        (sys.executable, *arguments),
        check=True,
        capture_output=True,
        env=environment,
        text=True,
    )
    after = os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    return time.perf_counter() - begin, user + system, output.stdout


def _judge(name, wall, processor, limit, note="", reason=""):
    """One row; the clock of the run decides which of the two times is judged."""
    if OPTIONS["clock"] == "wall":
        seconds = wall
        words = f"{processor:.3g} s of the processor"
    else:
        seconds = processor
        words = f"{wall:.3g} s by the wall"
    if note:
        words = f"{words}; {note}"
    if limit is None:
        record(name, seconds, note=words, reason=reason)
        return
    met = seconds <= limit
    target = f"<= {limit} s"
    reason = "" if met else reason
    record(name, seconds, note=words, target=target, met=met, reason=reason)


def measure_case(name):
    """Time one case in this process, after a solve."""
    import jax

    import tutelage as tu

    compiled = []

    def note_compilation(event, _, **__):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(note_compilation)
    student = tu.Network(3, "erf")
    teacher = tu.Network(3, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(0.5))
    start = tu.random_start(problem, dim=1000)
    solved = {}
    if name not in ("import", "solve"):
        solved["theory"] = tu.solve(problem, start, 300.0)
    if name == "compare":
        solved["runs"] = tu.simulate(problem, start, times=300.0, runs=20)
    case = _case(name, tu, problem, start, solved)
    calls = []
    for _ in range(1 if name == "import" else 2):
        compiled.clear()
        wall = time.perf_counter()
        processor = time.process_time()
        case()
        call = {
            "wall": time.perf_counter() - wall,
            "processor": time.process_time() - processor,
            "compiled": len(compiled),
        }
        calls.append(call)
    print(json.dumps(calls))


def _case(name, tu, problem, start, solved):
    """A case as a function without arguments."""

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
        problem = tu.Problem(network, network, optimizer=tu.SGD(0.5))
        return tu.solve(problem, times=300.0, rtol=1e-6)

    cases = {
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
    }
    return cases[name]


ALL = (commands, functions)

if __name__ == "__main__":
    measure_case(sys.argv[1])
