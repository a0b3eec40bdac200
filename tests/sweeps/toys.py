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

from tutelage.sweeps import run as run_module
from tutelage.sweeps.store import Store, Task

CHUNK = 5


def numbers(task):
    """Sines and cosines: a float, a vector and a whole number per point."""
    _log(task)
    payload = task.payload
    time.sleep(payload.get("seconds", 0.0))
    x = 0.1 * np.array(task.points)
    failure = [
        f"x is {value:g}; it must not be" if value in payload.get("bad", ()) else ""
        for value in x
    ]
    size = 20_000 if task.index in payload.get("heavy", ()) else 500
    return {
        "sine": ((), np.where(np.array(failure) == "", np.sin(x), np.nan)),
        "waves": (("harmonic",), np.cos(np.outer(x, np.arange(1, 4)))),
        "count": ((), np.arange(len(x))),
        "ballast": (("weight",), np.sin(np.outer(x, np.arange(size)))),
        "failure": ((), np.array(failure, dtype=object)),
    }


def raises(task):
    """An error of the computation itself."""
    _log(task)
    raise ZeroDivisionError("of no use\nat all")


def deadly(task):
    """Chunks named `deadly` kill the process that computes them, as the system does when memory runs out."""
    if task.index in task.payload["deadly"]:
        _log(task)
        os.kill(os.getpid(), signal.SIGKILL)
    return numbers(task)


def _log(task) -> None:
    if "log" in task.payload:
        with open(task.payload["log"], "a") as file:  # one short line: appended whole
            file.write(f"{task.index} {os.getpid()}\n")


def tasks(count: int, **payload) -> list[Task]:
    """Chunks of five points, the last one shorter."""
    points = count * CHUNK - 2
    return [
        Task(i, tuple(range(i * CHUNK, min((i + 1) * CHUNK, points))), payload)
        for i in range(count)
    ]


def workers(log: Path) -> set[int]:
    """The processes that have begun chunks."""
    return (
        {int(line.split()[1]) for line in log.read_text().splitlines()}
        if log.exists()
        else set()
    )


def store(folder: Path, count: int) -> Store:
    return Store.create(folder, {"toy": count}, chunks=count, points=count * CHUNK - 2)


def run(
    store: Store,
    tasks: list[Task],
    compute,
    name: str,
    *,
    workers=None,
    cluster=None,
    **options,
) -> run_module.Report:
    """On the executor of this name."""
    options.setdefault("progress", run_module.Progress())
    return run_module.run(
        store, compute, tasks, run_module.executor_of(name, workers, cluster), **options
    )


def begun(log: Path) -> list[int]:
    """The chunks that were begun, in order, with repetitions."""
    return (
        [int(line.split()[0]) for line in log.read_text().splitlines()]
        if log.exists()
        else []
    )


def files(folder: Path) -> dict[str, bytes]:
    """What a sweep has left:

    the names and bytes of its chunks; hidden files are those of killed processes.
    """
    return {
        path.name: path.read_bytes()
        for path in sorted((folder / "chunks").glob("[!.]*"))
    }


class Announcing(run_module.Progress):
    """Appends the number of every chunk that is announced to a file."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path

    def done(self, task, chunk):
        with open(self.path, "a") as file:
            file.write(f"{task.index}\n")

    def notice(self, sentence):
        print(sentence, file=sys.stderr, flush=True)


def main(request: str) -> None:
    """One run of a sweep, as the only thing of a process: what it was told is JSON."""
    asked = json.loads(request)
    if "limit" in asked:  # bytes per file, which the system refuses to exceed
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (asked["limit"], resource.RLIM_INFINITY)
        )
    folder = Path(asked["folder"])
    chosen = tasks(asked["count"], log=asked["log"], **asked.get("payload", {}))
    progress = Announcing(Path(asked["announced"]))
    try:
        compute = import_module(
            "tests.sweeps.toys"
        ).numbers  # not of the script that this is
        asked_for = {"workers": asked.get("workers"), "progress": progress}
        run(
            store(folder, asked["count"]),
            chosen,
            compute,
            asked["executor"],
            **asked_for,
        )
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
