"""Sweeps: a store of a million points is listed, checked and resumed.

The cost of keeping a chunk is recorded, too.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

from benchmarks.measure import best_of, record
from tutelage.sweeps.run import Progress, run, serial
from tutelage.sweeps.store import Chunk, Store, Task

# A million points.
CHUNKS = 2_000
POINTS = 500
OPENED = 50  # by the baseline, which is extrapolated


def compute(task: Task) -> Chunk:
    """Five numbers per point, which cost nothing."""
    numbers = np.random.default_rng(task.index).normal(size=(5, POINTS))
    failure = {"failure": ((), np.full(POINTS, "", dtype=object))}
    return {f"measure_{i}": ((), values) for i, values in enumerate(numbers)} | failure


def tasks(chunks: int) -> list[Task]:
    found = []
    for index in range(chunks):
        points = tuple(range(index * POINTS, (index + 1) * POINTS))
        found.append(Task(index, points, {}))
    return found


def store_of(folder: str, chunks: int) -> Store:
    return Store.create(
        Path(folder) / "sweep",
        {"synthetic": chunks},
        chunks=chunks,
        points=chunks * POINTS,
    )


def million_points() -> None:
    """Record a sweep that lacks one chunk; baseline: xarray opens every chunk."""
    with tempfile.TemporaryDirectory() as folder:
        work = tasks(CHUNKS)
        store = store_of(folder, CHUNKS)
        run(store, compute, work[1:], serial, Progress())
        some = sorted((store.folder / "chunks").iterdir())[:OPENED]

        def open_some():
            for path in some:
                xr.open_dataset(path).close()

        def resume():
            return run(store_of(folder, CHUNKS), compute, work, serial, Progress())

        opening, _ = best_of(open_some, 1)
        opening *= CHUNKS / OPENED
        name = f"{CHUNKS * POINTS:.0e} points in {CHUNKS} chunks"
        resumed, report = best_of(resume, 1)
        record(
            f"{name}: resumed, all hashes checked",
            resumed,
            opening,
            note=f"{report.computed} chunk computed",
        )
        listed, status = best_of(lambda: Store(store.folder).status(), 3)
        record(f"{name}: listed", listed, opening, note=f"{status.points_done} points")
        again, report = best_of(resume, 1)
        record(
            f"{name}: nothing left to do, all hashes checked",
            again,
            opening,
            note=f"{report.computed} chunks computed",
        )


def keeping() -> None:
    """Record one chunk: encoded, hashed, written, and waited for until it is on disk.

    Its numbers cost nothing.
    """
    chunks = 100
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(folder, chunks)
        work = tasks(chunks)
        begin = time.perf_counter()
        run(store, compute, work, serial, Progress())
        seconds = time.perf_counter() - begin
        record(f"a chunk of {POINTS} points kept", seconds / chunks)


ALL = (million_points, keeping)
