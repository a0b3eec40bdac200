"""How things are timed and written down. A row: the work, its time, a baseline of the same run, accuracy, target.

The clock is the wall's, or with `--clock cpu` the processor time of this process and its children, which is what a busy
machine can still measure. `pick` gives a benchmark its size: full, quick, or tiny (the test that benchmarks still run).
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
    return {"full": full, "quick": quick, "tiny": tiny}[OPTIONS["size"]]


def now() -> float:
    if OPTIONS["clock"] == "wall":
        return time.perf_counter()
    return time.process_time() + sum(
        os.times()[2:4]
    )  # those of children are counted in hundredths only


def cores() -> int:
    """How many cores share a piece of work on this clock: by the wall it has been shared already."""
    return 1 if OPTIONS["clock"] == "wall" else own_cores()


def best_of(function, repeats=5):
    """Shortest time of a few calls, in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        begin = now()
        result = jax.block_until_ready(function())
        times.append(now() - begin)
    return min(times), result


def in_turns(ours, theirs, repeats):
    """Shortest times of two things that take turns, so that other work on the machine slows both; and our result."""
    pairs = [(best_of(theirs, 1)[0], *best_of(ours, 1)) for _ in range(repeats)]
    return min(p[1] for p in pairs), min(p[0] for p in pairs), pairs[-1][2]


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
    """One row. rate: the number that the target speaks of, in `unit`, where that is not the time."""
    row = {
        "name": name,
        "seconds": ours,
        "baseline_seconds": theirs,
        "ratio": theirs and theirs / ours,
        "error": accuracy,
    }
    value = ours if rate is None else rate
    verdict = None if met is None else "met" if met else "missed"
    ROWS.append(
        row
        | {
            "note": note,
            "value": value,
            "unit": unit,
            "target": target,
            "verdict": verdict,
            "reason": reason,
        }
    )


def curve(panel, label, x, y, xlabel, ylabel):
    """Cost growth: one curve of one panel of the figure."""
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
    """Device, versions, load, and how it was measured."""
    names = ("tutelage", "jax", "jaxlib", "diffrax", "numpy", "scipy", "numba", "torch")
    found = {
        name: version(name)
        for name in names
        if find_spec(name) is not None and _known(name)
    }
    device = jax.devices()[0]
    return found | {
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
    try:
        out = subprocess.run(
            ["lscpu"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return platform.processor()
    return next(
        (
            line.split(":", 1)[1].strip()
            for line in out.splitlines()
            if line.startswith("Model name")
        ),
        "",
    )
