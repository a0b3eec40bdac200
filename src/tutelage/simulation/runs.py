"""The runs of a simulation: what each records, and threads that carry them out.

The loops release the GIL, so threads are enough. Every run has its own random streams, derived from the seed and its own
number alone: neither the number of workers nor the number of runs changes a digit of it. Ctrl-C loses nothing recorded.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._pool import cores
from tutelage._types import NumpyOrJax
from tutelage.errors import Status
from tutelage.problem import Problem
from tutelage.progress import SILENT_SECONDS
from tutelage.simulation.coordinates import drift_rate
from tutelage.simulation.numba_kernels import Records

BEAT = 0.2  # seconds between two looks at the runs


def empty_records(problem: Problem, steps: Int[np.ndarray, " time"], keep: bool) -> Records:
    """Records full of NaN, to be written as the run passes its steps."""
    count, L, K, M = steps.size, problem.inputs.levels, problem.student.hidden, problem.references.hidden
    kept = count if keep else 0
    shapes = ((count, K, M), (count, K, K), (kept, L, K, M), (kept, L, K, K), (count, *problem.readout_shape), (count, K))
    moving = count if drift_rate(problem) else 0
    return Records(steps, *(np.full(shape, np.nan) for shape in (*shapes, (moving, M, M))))


def next_stop(steps: Int[np.ndarray, " time"], taken: int, last: int) -> int:
    """The next recorded step after `taken`, or `last` if that comes first."""
    at = int(np.searchsorted(steps, taken, side="right"))
    return min(last, int(steps[at])) if at < steps.size else last


def write_overlaps(
    records: Records,
    taken: int,
    r: Float[np.ndarray, "L K M"],
    q: Float[np.ndarray, "L K K"],
    weights: Float[np.ndarray, " L"],
    readout: NumpyOrJax,
    bias: Float[NumpyOrJax, " K"],
    t: Float[np.ndarray, "L M M"],
) -> None:
    """Record a state given by its overlaps per level wherever `taken` steps were asked for; weights: p_l lam_l."""
    for at in np.flatnonzero(records.steps == taken):
        records.R[at] = np.einsum("l,lkm->km", weights, r)
        records.Q[at] = np.einsum("l,lkj->kj", weights, q)
        records.readout[at], records.bias[at] = readout, bias
        if records.r.shape[0]:
            records.r[at], records.q[at] = r, q
        if records.T.shape[0]:
            records.T[at] = np.einsum("l,lmn->mn", weights, t)


@dataclass(frozen=True)
class Run:
    """One finished, diverged or interrupted run. taken: steps done; records hold NaN beyond them."""

    records: Records
    status: Status
    taken: int


@dataclass(frozen=True)
class Runs:
    """All runs: records with a leading axis of runs, status codes and steps taken."""

    records: Records
    status: Int[np.ndarray, " run"]
    taken: Int[np.ndarray, " run"]

    @staticmethod
    def stacked(runs: list[Run]) -> "Runs":
        """Single runs as one."""
        parts = [np.stack(part) for part in list(zip(*(run.records for run in runs), strict=True))[1:]]
        status, taken = (np.array([int(getattr(run, name)) for run in runs]) for name in ("status", "taken"))
        return Runs(Records(runs[0].records.steps, *parts), status, taken)


class Watch:
    """What runs and the caller share: steps taken so far, and the request to stop."""

    def __init__(self, runs: int):
        self.taken = np.zeros(runs, dtype=np.int64)
        self._stop = threading.Event()

    def goes_on(self, run: int, taken: int) -> bool:
        """Report progress; False when the run should return what it has."""
        self.taken[run] = taken
        return not self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()


def stream(seed: int, *key: int) -> np.random.Generator:
    """The random stream of one purpose: `key` is the run's number, then the purpose."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


def run_in_threads(
    one: Callable[[int, Watch], Run], runs: int, steps: int, workers: int | None, progress: bool
) -> list[Run]:
    """one(0, watch) .. one(runs - 1, watch) on `workers` threads. After Ctrl-C: the runs that had begun."""
    workers = cores() if workers is None else checks.as_count("workers", workers)
    watch, futures = Watch(runs), []
    with ThreadPoolExecutor(min(workers, runs)) as pool:
        try:
            for index in range(runs):
                futures.append(pool.submit(one, index, watch))
            _follow(futures, watch, steps * runs, progress)
        except BaseException as error:
            watch.stop()
            for future in reversed(futures):
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
    begun = [future.result() for future in futures if not future.cancelled()]
    if not any(run.records.steps.size and np.isfinite(run.records.R[0]).all() for run in begun):
        raise KeyboardInterrupt
    return begun


def _follow(futures: list[Future], watch: Watch, total: int, progress: bool) -> None:
    """Wait for all runs; an error in one ends all."""
    bar = progress_bar(total) if progress else None
    try:
        pending: Any = futures
        while pending:
            done, pending = wait(pending, timeout=BEAT, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            if bar is not None:
                bar.update(int(watch.taken.sum()) - bar.n)
    finally:
        if bar is not None:
            bar.close()


def progress_bar(total: int) -> Any:
    """A progress bar that counts steps."""
    from tqdm.auto import tqdm

    return tqdm(
        total=total, desc="simulating", unit=" steps", unit_scale=True, delay=SILENT_SECONDS, leave=False, file=sys.stderr
    )
