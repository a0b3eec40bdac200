"""A Dask cluster as on a real one:

a scheduler and workers, each a process of its own, started by their commands.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATHS = f"{ROOT}{os.pathsep}{ROOT / 'src'}"  # of modules, for other processes


@dataclass
class Cluster:
    """address: of the scheduler; workers: their processes."""

    folder: Path
    scheduler: subprocess.Popen
    address: str
    workers: list[subprocess.Popen] = field(default_factory=list)

    @classmethod
    def start(cls, folder: Path, **environment: str) -> "Cluster":
        file = folder / "scheduler.json"
        scheduler = _start(
            folder,
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--scheduler-file",
            file,
            **environment,
        )
        wait_until(file.exists, "the Dask scheduler starts")
        wait_until(
            lambda: file.read_text().endswith("}"),
            "the Dask scheduler has written its file",
        )
        return cls(folder, scheduler, json.loads(file.read_text())["address"])

    def add_worker(self, **environment: str) -> subprocess.Popen:
        """One process with one thread, and nobody who would start it again."""
        self.workers.append(
            _start(
                self.folder,
                "dask_worker",
                self.address,
                "--no-nanny",
                "--nthreads",
                "1",
                **environment,
            )
        )
        return self.workers[-1]

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def _start(
    folder: Path, program: str, *arguments, **environment: str
) -> subprocess.Popen:
    with open(folder / f"{program}.log", "a") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                f"distributed.cli.{program}",
                *map(str, arguments),
                "--no-dashboard",
            ],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": PATHS, "DASK_TEMPORARY_DIRECTORY": str(folder)}
            | environment,
            stdout=log,
            stderr=log,
        )


@contextmanager
def dask_cluster(
    folder: Path, workers: int = 2, **environment: str
) -> Iterator[Cluster]:
    """A scheduler and its workers, ended afterwards.

    environment: variables for all of them.
    """
    cluster = Cluster.start(folder, **environment)
    try:
        for _ in range(workers):
            cluster.add_worker(**environment)
        yield cluster
    finally:
        cluster.end()


def wait_until(true, what: str, seconds: float = 60.0) -> None:
    """Until `true()`; it fails if that takes absurdly long."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a Python process has this number; one that has ended and whom nobody has looked at has no command line."""
    try:
        return b"python" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> set[int]:
    """The processes that it has started, and those that they have."""
    children = {
        int(child)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    }
    return children.union(*map(descendants, children))


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
