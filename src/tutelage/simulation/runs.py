"""The runs of a simulation: what is asked for, what they record, and threads that carry them out.

The loops release the GIL, so threads are enough. Every run has its own random streams, derived from the seed and its own
number alone: neither the number of workers nor the number of runs changes a digit of it. Ctrl-C loses nothing recorded.
"""

import sys
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._pool import cores
from tutelage.errors import Status
from tutelage.problem import Problem, Start
from tutelage.progress import SILENT_SECONDS
from tutelage.simulation.coordinates import drift_rate

BEAT = 0.2  # seconds between two looks at the runs
Ended = tuple[Status, int]  # how a run ended, and the steps that it took
GoesOn = Callable[[int], bool]  # told the steps taken so far; False when the run should return what it has


@dataclass(frozen=True)
class Request:
    """weights: in eigencoordinates, or None. starts: one for all runs, or one each. inputs: a law's name, "features" (of a
    `HiddenManifold`) or rows."""

    problem: Problem
    method: str
    dim: int
    dims: Int[np.ndarray, " L"]
    times: Float[np.ndarray, " time"]
    steps: Int[np.ndarray, " time"]
    runs: int
    seed: int
    starts: list[Start]
    weights: tuple[Float[np.ndarray, "K N"], Float[np.ndarray, "M N"]] | None
    inputs: str | Float[np.ndarray, "samples N"]
    order: str
    keep: bool

    @property
    def field_weights(self) -> Float[np.ndarray, " L"]:
        """p_l lam_l with the actual share n_l / N of each level."""
        return self.dims / self.dim * np.asarray(self.problem.inputs.eigenvalues, dtype=float)


class Records(NamedTuple):
    """What to keep: step counts, and arrays that receive the states then. r, q: empty when not kept. T: empty unless the
    teachers drift. readout: (K,) or (outputs, K), with a leading axis of tasks for separate heads.

    All runs together have a leading axis.
    """

    steps: Int[np.ndarray, " time"]
    R: Float[np.ndarray, "*run time K M"]
    Q: Float[np.ndarray, "*run time K K"]
    r: Float[np.ndarray, "*run time L K M"]
    q: Float[np.ndarray, "*run time L K K"]
    readout: np.ndarray
    bias: Float[np.ndarray, "*run time K"]
    T: Float[np.ndarray, "*run time M M"]


class Runs(NamedTuple):
    """All runs: records with a leading axis of runs, NaN beyond the steps taken; status codes and steps taken."""

    records: Records
    status: Int[np.ndarray, " run"]
    taken: Int[np.ndarray, " run"]


def empty_records(request: Request) -> Records:
    """Records full of NaN, to be written as the runs pass their steps."""
    problem, count = request.problem, request.steps.size
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.references.hidden
    kept, moving = count if request.keep else 0, count if drift_rate(problem) else 0
    shapes = {
        "R": (count, K, M),
        "Q": (count, K, K),
        "r": (kept, L, K, M),
        "q": (kept, L, K, K),
        "readout": (count, *problem.readout_shape),
        "bias": (count, K),
        "T": (moving, M, M),
    }
    return Records(request.steps, **{name: np.full((request.runs, *shape), np.nan) for name, shape in shapes.items()})


def next_stop(steps: Int[np.ndarray, " time"], taken: int, last: int) -> int:
    """The next recorded step after `taken`, or `last` if that comes first."""
    at = int(np.searchsorted(steps, taken, side="right"))
    return min(last, int(steps[at])) if at < steps.size else last


def write_overlaps(
    records: Records,
    at: Any,
    weights: Float[np.ndarray, " L"],
    r: Float[np.ndarray, "*lead L K M"],
    q: Float[np.ndarray, "*lead L K K"],
    t: Float[np.ndarray, "*lead L M M"],
    readout: np.ndarray,
    bias: Float[np.ndarray, "*lead K"],
) -> None:
    """Record states given by their overlaps per level at an index; weights: p_l lam_l."""
    records.R[at] = np.einsum("l,...lkm->...km", weights, r)
    records.Q[at] = np.einsum("l,...lkj->...kj", weights, q)
    records.readout[at], records.bias[at] = readout.reshape(records.readout[at].shape), bias
    if records.r.size:
        records.r[at], records.q[at] = r, q
    if records.T.size:
        records.T[at] = np.einsum("l,...lmn->...mn", weights, t)


def stream(seed: int, *key: int) -> np.random.Generator:
    """The random stream of one purpose: `key` is the run's number, then the purpose."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


def run_in_threads(
    run: Callable[[int, Records, GoesOn], Ended], request: Request, workers: int | None, progress: bool
) -> Runs:
    """run(index, its records, goes_on) for all runs, on `workers` threads. After Ctrl-C: the runs that had begun."""
    workers = cores() if workers is None else checks.as_count("workers", workers)
    records, taken, stop, futures = empty_records(request), np.zeros(request.runs, dtype=np.int64), Event(), []

    def one(index: int) -> Ended:
        def goes_on(steps: int) -> bool:
            taken[index] = steps
            return not stop.is_set()

        return run(index, Records(request.steps, *(x[index] for x in records[1:])), goes_on)

    with ThreadPoolExecutor(min(workers, request.runs)) as pool:
        try:
            for index in range(request.runs):
                futures.append(pool.submit(one, index))
            _follow(futures, taken, int(request.steps[-1]) * request.runs, progress)
        except BaseException as error:
            stop.set()
            for future in reversed(futures):
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
    begun = [future.result() for future in futures if not future.cancelled()]  # runs begin in their order
    records = Records(request.steps, *(x[: len(begun)] for x in records[1:]))
    if not np.isfinite(records.R[:, 0]).any():
        raise KeyboardInterrupt
    return Runs(records, *np.array(begun, dtype=int).T)


def _follow(futures: list[Future], taken: Int[np.ndarray, " run"], total: int, progress: bool) -> None:
    """Wait for all runs; an error in one ends all."""
    pending: Any = futures
    with progress_bar(total, progress) as bar:
        while pending:
            done, pending = wait(pending, timeout=BEAT, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            bar.update(int(taken.sum()) - bar.n)


def progress_bar(total: int, progress: bool) -> Any:
    """A progress bar that counts steps, as a context."""
    from tqdm.auto import tqdm

    how = {"unit": " steps", "unit_scale": True, "delay": SILENT_SECONDS, "leave": False, "file": sys.stderr}
    return tqdm(total=total, desc="simulating", disable=not progress, **how)
