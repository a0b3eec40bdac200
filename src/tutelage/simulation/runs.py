"""The runs of a simulation: what is asked for, what they record, and threads that carry them out (loops release the GIL).

Every run has its own random streams, derived from the seed and its own number alone. Ctrl-C loses nothing recorded.
"""

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
from tutelage.progress import progress_bar
from tutelage.simulation.prepare import drift_rate

BEAT = 0.2  # seconds between two looks at the runs
Ended = tuple[Status, int]  # how a run ended, and the steps that it took
GoesOn = Callable[[int], bool]  # told the steps taken so far; False when the run should return what it has


@dataclass(frozen=True)
class Request:
    """What `simulate` was asked for. weights: W and W*, in eigencoordinates. starts: one for all runs, or one each.

    inputs: a law's name, "features" (of a `HiddenManifold`) or rows.
    """

    problem: Problem
    method: str
    dim: int
    dims: Int[np.ndarray, " L"]
    times: Float[np.ndarray, " time"]
    steps: Int[np.ndarray, " time"]
    runs: int
    seed: int
    starts: list[Start]
    weights: tuple[np.ndarray, ...] | None
    inputs: str | Float[np.ndarray, "samples N"]
    order: str
    keep: bool

    @property
    def field_weights(self) -> Float[np.ndarray, " L"]:
        """p_l lam_l with the actual share n_l / N of each level."""
        return self.dims / self.dim * np.asarray(self.problem.inputs.eigenvalues, dtype=float)

    def empty_records(self) -> "Records":
        """Records full of NaN, to be written as the runs pass their steps."""
        problem, count = self.problem, self.steps.size
        L, K, M = problem.inputs.levels, problem.student.hidden, problem.references.hidden
        kept, moving = count if self.keep else 0, count if drift_rate(problem) else 0
        overlaps = (count, K, M), (count, K, K), (kept, L, K, M), (kept, L, K, K)
        shapes = *overlaps, (count, *problem.readout_shape), (count, K), (moving, M, M)
        return Records(self.steps, self.field_weights, *(np.full((self.runs, *shape), np.nan) for shape in shapes))


class Records(NamedTuple):
    """What to keep: step counts, and arrays that receive the states then; all runs together have a leading axis.

    weights: p_l lam_l. r, q: empty when not kept. T: empty unless the teachers drift. readout: as in `ParameterState`.
    """

    steps: Int[np.ndarray, " time"]
    weights: Float[np.ndarray, " L"]
    R: Float[np.ndarray, "*run time K M"]
    Q: Float[np.ndarray, "*run time K K"]
    r: Float[np.ndarray, "*run time L K M"]
    q: Float[np.ndarray, "*run time L K K"]
    readout: np.ndarray
    bias: Float[np.ndarray, "*run time K"]
    T: Float[np.ndarray, "*run time M M"]

    def of(self, runs: Any) -> "Records":
        """The records of one run or of several; np.newaxis: one run as several."""
        return Records(self.steps, self.weights, *(x[runs] for x in self[2:]))

    def write(self, at: Any, r: np.ndarray, q: np.ndarray, t: np.ndarray, readout: np.ndarray, bias: np.ndarray) -> None:
        """Record states, given by their overlaps per level, at an index."""
        self.R[at], self.Q[at] = (np.einsum("l,...lab->...ab", self.weights, x) for x in (r, q))
        self.readout[at], self.bias[at] = readout.reshape(self.readout[at].shape), bias
        if self.r.size:
            self.r[at], self.q[at] = r, q
        if self.T.size:
            self.T[at] = np.einsum("l,...lab->...ab", self.weights, t)


Runs = tuple[Records, Int[np.ndarray, " run"], Int[np.ndarray, " run"]]  # records, NaN beyond the end; status; steps taken


def stream(seed: int, *key: int) -> np.random.Generator:
    """The random stream of one purpose: `key` is the run's number, then the purpose."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


def run_in_threads(
    run: Callable[[int, Records, GoesOn], Ended], request: Request, workers: int | None, progress: bool
) -> Runs:
    """run(index, its records, goes_on) for all runs, on `workers` threads. After Ctrl-C: the runs that had begun."""
    workers = cores() if workers is None else checks.as_count("workers", workers)
    records, taken, stop, futures = request.empty_records(), np.zeros(request.runs, dtype=np.int64), Event(), []

    def one(index: int) -> Ended:
        def goes_on(steps: int) -> bool:
            taken[index] = steps
            return not stop.is_set()

        return run(index, records.of(index), goes_on)

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
    records = records.of(slice(len(begun)))
    if not np.isfinite(records.R[:, 0]).any():
        raise KeyboardInterrupt
    status, steps = np.array(begun, dtype=int).T
    return records, status, steps


def _follow(futures: list[Future], taken: Int[np.ndarray, " run"], total: int, progress: bool) -> None:
    """Wait for all runs; an error in one ends all."""
    pending: Any = futures
    with progress_bar(total, "simulating", progress, unit=" steps", unit_scale=True) as bar:
        while pending:
            done, pending = wait(pending, timeout=BEAT, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            bar.update(int(taken.sum()) - bar.n)
