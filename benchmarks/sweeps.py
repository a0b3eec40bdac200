"""Sweeps: a store of a million points is listed, checked and resumed; what it costs to keep a chunk."""

import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

from benchmarks.measure import best_of, record
from tutelage.sweeps.run import Progress, run, serial
from tutelage.sweeps.store import Chunk, Store, Task

CHUNKS, POINTS = 2_000, 500  # a million points
OPENED = 50  # by the baseline, which is extrapolated


def compute(task: Task) -> Chunk:
    """Five numbers per point, which cost nothing."""
    numbers = np.random.default_rng(task.index).normal(size=(5, POINTS))
    failure = {"failure": ((), np.full(POINTS, "", dtype=object))}
    return {f"measure_{i}": ((), values) for i, values in enumerate(numbers)} | failure


def tasks(chunks: int) -> list[Task]:
    return [
        Task(i, tuple(range(i * POINTS, (i + 1) * POINTS)), {}) for i in range(chunks)
    ]


def store_of(folder: str, chunks: int) -> Store:
    return Store.create(
        Path(folder) / "sweep",
        {"synthetic": chunks},
        chunks=chunks,
        points=chunks * POINTS,
    )


def million_points() -> None:
    """A sweep that lacks one of its chunks; baseline: opening every chunk with xarray."""
    with tempfile.TemporaryDirectory() as folder:
        work, store = tasks(CHUNKS), store_of(folder, CHUNKS)
        run(store, compute, work[1:], serial, Progress())
        some = sorted((store.folder / "chunks").iterdir())[:OPENED]
        opening, _ = best_of(
            lambda: [xr.open_dataset(path).close() for path in some], 1
        )
        opening *= CHUNKS / OPENED
        name = f"{CHUNKS * POINTS:.0e} points in {CHUNKS} chunks"
        resumed, report = best_of(
            lambda: run(store_of(folder, CHUNKS), compute, work, serial, Progress()), 1
        )
        record(
            f"{name}: resumed, all hashes checked",
            resumed,
            opening,
            note=f"{report.computed} chunk computed",
        )
        listed, status = best_of(lambda: Store(store.folder).status(), 3)
        record(f"{name}: listed", listed, opening, note=f"{status.points_done} points")
        again, report = best_of(
            lambda: run(store_of(folder, CHUNKS), compute, work, serial, Progress()), 1
        )
        record(
            f"{name}: nothing left to do, all hashes checked",
            again,
            opening,
            note=f"{report.computed} chunks computed",
        )


def keeping() -> None:
    """One chunk: computed for nothing, encoded, hashed, written, and waited for until it is on the disk."""
    chunks = 100
    with tempfile.TemporaryDirectory() as folder:
        store, work = store_of(folder, chunks), tasks(chunks)
        begin = time.perf_counter()
        run(store, compute, work, serial, Progress())
        record(
            f"a chunk of {POINTS} points kept", (time.perf_counter() - begin) / chunks
        )


ALL = (million_points, keeping)
