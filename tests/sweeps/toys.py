"""Small sweeps whose numbers need nothing but NumPy, and a program that runs one (python -m tests.sweeps.toys ...).

What happens is seen in two files: a line when a worker begins a chunk, with its process, and one when a chunk is announced.
"""

import json
import os
import resource
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

from tutelage.sweeps.engine import Progress, run
from tutelage.sweeps.executors import Failure, Outcome, Task
from tutelage.sweeps.store import Store

CHUNK = 5


def numbers(payload: dict) -> Outcome:
    """Sines and cosines: a float, a vector and a whole number per point."""
    _log(payload)
    time.sleep(payload.get("seconds", 0.0))
    x = np.asarray(payload["x"])
    failed = tuple(
        Failure(i, f"x is {value:g}; it must not be") for i, value in enumerate(x) if value in payload.get("bad", ())
    )
    arrays = {"sine": np.sin(x), "waves": np.cos(np.outer(x, np.arange(1, 4))), "count": np.arange(len(x))}
    arrays["ballast"] = np.sin(np.outer(x, np.arange(20_000 if payload["index"] in payload.get("heavy", ()) else 500)))
    arrays["sine"][[failure.point for failure in failed]] = np.nan
    return Outcome(arrays, failed, {"waves": ("harmonic",)})


def raises(payload: dict) -> Outcome:
    """An error of the computation itself."""
    _log(payload)
    raise ZeroDivisionError("of no use\nat all")


def deadly(payload: dict) -> Outcome:
    """Chunks named `deadly` kill the process that computes them, as the system does when memory runs out."""
    if payload["index"] in payload["deadly"]:
        _log(payload)
        os.kill(os.getpid(), signal.SIGKILL)
    return numbers(payload)


def deadly_once(payload: dict) -> Outcome:
    """As `deadly`, but only the first time."""
    if payload["index"] in payload["deadly"] and payload["index"] not in begun(Path(payload["log"])):
        return deadly(payload)
    return numbers(payload)


def _log(payload: dict) -> None:
    if "log" in payload:
        with open(payload["log"], "a") as file:  # one short line: appended whole
            file.write(f"{payload['index']} {os.getpid()}\n")


def tasks(count: int, **payload) -> list[Task]:
    """Chunks of five points, the last one shorter."""
    points = count * CHUNK - 2
    return [
        Task(index, {"index": index, "x": [0.1 * p for p in of(index, points)], **payload}, tuple(of(index, points)))
        for index in range(count)
    ]


def workers(log: Path) -> set[int]:
    """The processes that have begun chunks."""
    return {int(line.split()[1]) for line in log.read_text().splitlines()} if log.exists() else set()


def of(index: int, points: int) -> range:
    return range(index * CHUNK, min((index + 1) * CHUNK, points))


def store(folder: Path, count: int) -> Store:
    return Store.create(folder, {"toy": count}, chunks=count, points=count * CHUNK - 2)


def begun(log: Path) -> list[int]:
    """The chunks that were begun, in order, with repetitions."""
    return [int(line.split()[0]) for line in log.read_text().splitlines()] if log.exists() else []


def files(folder: Path) -> dict[str, bytes]:
    """What a sweep has left: the names and bytes of its chunks, and nothing else may be there."""
    return {path.name: path.read_bytes() for path in sorted((folder / "chunks").iterdir())}


class Announcing(Progress):
    """Appends the number of every chunk that is announced to a file."""

    def __init__(self, path: Path):
        self.path = path

    def done(self, task, outcome):
        with open(self.path, "a") as file:
            file.write(f"{task.index}\n")

    def notice(self, sentence):
        print(sentence, file=sys.stderr, flush=True)


def main(request: str) -> None:
    """One run of a sweep, as the only thing of a process: what it was told is JSON."""
    asked = json.loads(request)
    if "limit" in asked:  # bytes per file, which the system refuses to exceed
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["limit"], resource.RLIM_INFINITY))
    folder = Path(asked["folder"])
    chosen = tasks(asked["count"], log=asked["log"], **asked.get("payload", {}))
    progress = Announcing(Path(asked["announced"]))
    try:
        run(
            store(folder, asked["count"]),
            chosen,
            import_module("tests.sweeps.toys").numbers,  # not of the script that this is
            asked["executor"],
            workers=asked.get("workers"),
            progress=progress,
        )
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
