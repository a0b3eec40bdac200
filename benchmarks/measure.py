"""Timing of benchmarks, and the rows in which their results are written down.

A row: the work, its time, a baseline of the same run, accuracy, target. The clock is
the wall's, or with `--clock cpu` the processor time of this process and its children,
which is what a busy machine can still measure. `pick` gives a benchmark its size: full,
quick, or tiny (the test that benchmarks still run).
"""

import os
import platform
import subprocess
import time
from importlib.metadata import version
from importlib.util import find_spec

import jax

from tutelage._pool import cores as own_cores

ROWS: list[dict] = []
GROWTH: list[dict] = []
OPTIONS = {"clock": "wall", "size": "full"}


def pick(full, quick, tiny):
    """Return the value of the size of this run."""
    return {"full": full, "quick": quick, "tiny": tiny}[OPTIONS["size"]]


def now() -> float:
    """Return the time of the clock of this run, in seconds."""
    if OPTIONS["clock"] == "wall":
        return time.perf_counter()
    own = time.process_time()
    times = os.times()  # those of children are counted in hundredths only
    return own + (times.children_user + times.children_system)


def cores() -> int:
    """Return the number of cores by which a time on this clock is divided.

    By the wall the work has been shared already.
    """
    if OPTIONS["clock"] == "wall":
        return 1
    return own_cores()


def best_of(function, repeats=5):
    """Return the shortest time of a few calls, in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        begin = now()
        result = jax.block_until_ready(function())
        times.append(now() - begin)
    return min(times), result


def in_turns(ours, theirs, repeats):
    """Return the shortest times of two things that take turns, and our result.

    Other work on the machine slows both.
    """
    our_times = []
    their_times = []
    for _ in range(repeats):
        their_seconds, _ = best_of(theirs, 1)
        our_seconds, result = best_of(ours, 1)
        their_times.append(their_seconds)
        our_times.append(our_seconds)
    return min(our_times), min(their_times), result


def record(
    name,
    ours,
    theirs=None,
    accuracy=None,
    note="",
    *,
    rate=None,
    unit="s",
    target="",
    met=None,
    reason="",
):
    """Write down one row.

    rate: the number that the target speaks of, in `unit`, where that is not the time.
    """
    verdict = None
    if met is not None:
        verdict = "met" if met else "missed"
    row = {
        "name": name,
        "seconds": ours,
        "baseline_seconds": theirs,
        "ratio": theirs and theirs / ours,
        "error": accuracy,
        "note": note,
        "value": ours if rate is None else rate,
        "unit": unit,
        "target": target,
        "verdict": verdict,
        "reason": reason,
    }
    ROWS.append(row)


def curve(panel, label, x, y, xlabel, ylabel):
    """Write down one curve of one panel of the figure of growing costs."""
    GROWTH.append(
        {
            "panel": panel,
            "label": label,
            "x": list(x),
            "y": list(y),
            "xlabel": xlabel,
            "ylabel": ylabel,
        }
    )


def about() -> dict:
    """Return device, versions, load, clock and size of this run."""
    names = ("tutelage", "jax", "jaxlib", "diffrax", "numpy", "scipy", "numba", "torch")
    versions = {}
    for name in names:
        if find_spec(name) is not None and _known(name):
            versions[name] = version(name)
    device = jax.devices()[0]
    return versions | {
        "python": platform.python_version(),
        "device": getattr(device, "device_kind", str(device)),
        "processor": _processor(),
        "cores": own_cores(),
        "load": os.getloadavg()[0],
        "clock": OPTIONS["clock"],
        "size": OPTIONS["size"],
    }


def _known(name: str) -> bool:
    try:
        return bool(version(name))
    except Exception:  # importable without being installed
        return False


def _processor() -> str:
    """The model of the processor."""
    try:
        output = subprocess.run(["lscpu"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return platform.processor()
    for line in output.stdout.splitlines():
        if line.startswith("Model name"):
            return line.split(":", 1)[1].strip()
    return ""
