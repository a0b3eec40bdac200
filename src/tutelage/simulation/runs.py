"""The runs of a simulation: the request, the records, and threads that compute them.

Every run has its own random streams, derived from the seed and its own number alone.
Loops release the GIL. Ctrl-C loses nothing recorded.
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

SECONDS_BETWEEN_REPORTS = 0.2  # of progress
Ended = tuple[Status, int]  # how a run ended, and the steps that it took
# Called with the steps taken so far; False if the run should return what it has.
ShouldContinue = Callable[[int], bool]


@dataclass(frozen=True)
class Request:
    """The checked arguments of `simulate`."""

    problem: Problem
    method: str
    dim: int
    dims: Int[np.ndarray, " L"]
    times: Float[np.ndarray, " time"]
    steps: Int[np.ndarray, " time"]
    runs: int
    seed: int
    starts: list[Start]  # one for all runs, or one each
    weights: tuple[np.ndarray, ...] | None  # W and W*, in eigencoordinates
    # a law's name, "features" (of a `HiddenManifold`), or rows
    inputs: str | Float[np.ndarray, "samples N"]
    order: str
    keep: bool

    @property
    def field_weights(self) -> Float[np.ndarray, " L"]:
        """p_l lam_l with the actual share n_l / N of each level."""
        eigenvalues = np.asarray(self.problem.inputs.eigenvalues, dtype=float)
        return self.dims / self.dim * eigenvalues

    def empty_records(self) -> "Records":
        """Return records full of NaN, to be written as the runs pass their steps."""
        problem = self.problem
        L = problem.inputs.levels
        K = problem.student.hidden
        M = problem.references.hidden
        count = self.steps.size
        kept = count if self.keep else 0
        moving = count if drift_rate(problem) else 0
        trained = 0 if problem.data is None else count

        def empty(*shape: int) -> np.ndarray:
            return np.full((self.runs, *shape), np.nan)

        return Records(
            steps=self.steps,
            weights=self.field_weights,
            R=empty(count, K, M),
            Q=empty(count, K, K),
            r=empty(kept, L, K, M),
            q=empty(kept, L, K, K),
            readout=empty(count, *problem.readout_shape),
            bias=empty(count, K),
            T=empty(moving, M, M),
            train_error=empty(trained),
            train_loss=empty(trained),
        )


class Records(NamedTuple):
    """Step counts, and arrays that receive the states at these steps.

    All runs together have a leading axis. weights: p_l lam_l. r, q: empty when not
    kept. T: empty unless the teachers drift. readout: as in `ParameterState`.
    train_error, train_loss: on the data set; empty without one.
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
    train_error: Float[np.ndarray, "*run time"]
    train_loss: Float[np.ndarray, "*run time"]

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays of recorded states."""
        return self[2:]

    def of(self, runs: Any) -> "Records":
        """Return the records of a run or of several; np.newaxis: one run as several."""
        return Records(self.steps, self.weights, *(x[runs] for x in self.arrays))

    def write(
        self,
        at: Any,
        r: np.ndarray,
        q: np.ndarray,
        t: np.ndarray,
        readout: np.ndarray,
        bias: np.ndarray,
    ) -> None:
        """Record states at an index, given by their overlaps per level."""
        self.R[at] = self._field_overlaps(r)
        self.Q[at] = self._field_overlaps(q)
        self.readout[at] = readout.reshape(self.readout[at].shape)
        self.bias[at] = bias
        if self.r.size:
            self.r[at] = r
            self.q[at] = q
        if self.T.size:
            self.T[at] = self._field_overlaps(t)

    def _field_overlaps(self, overlaps: np.ndarray) -> np.ndarray:
        """Return sum_l p_l lam_l of overlaps per level."""
        return np.einsum("l,...lab->...ab", self.weights, overlaps)


# records, NaN beyond the end; status; steps taken
Runs = tuple[Records, Int[np.ndarray, " run"], Int[np.ndarray, " run"]]


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the random stream of one purpose.

    key: the run's number, then the purpose.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    return np.random.Generator(np.random.SFC64(sequence))


def run_in_threads(
    run: Callable[[int, Records, ShouldContinue], Ended],
    request: Request,
    workers: int | None,
    progress: bool,
) -> Runs:
    """Call run(index, its records, should_continue) for all runs, on `workers` threads.

    After Ctrl-C the runs that had begun are returned.
    """
    workers = cores() if workers is None else checks.as_count("workers", workers)
    records = request.empty_records()
    taken = np.zeros(request.runs, dtype=np.int64)
    stop = Event()
    futures = []

    def run_one(index: int) -> Ended:
        def should_continue(steps: int) -> bool:
            taken[index] = steps
            return not stop.is_set()

        return run(index, records.of(index), should_continue)

    with ThreadPoolExecutor(min(workers, request.runs)) as pool:
        try:
            for index in range(request.runs):
                futures.append(pool.submit(run_one, index))
            total = int(request.steps[-1]) * request.runs
            _wait_for_all(futures, taken, total, progress)
        except BaseException as error:
            stop.set()
            for future in reversed(futures):
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
    # runs begin in their order
    begun = [future.result() for future in futures if not future.cancelled()]
    records = records.of(slice(len(begun)))
    if not np.isfinite(records.R[:, 0]).any():
        raise KeyboardInterrupt
    status, steps = np.array(begun, dtype=int).T
    return records, status, steps


def _wait_for_all(
    futures: list[Future], taken: Int[np.ndarray, " run"], total: int, progress: bool
) -> None:
    """Wait for all runs and report progress; an error in one ends all."""
    pending: Any = futures
    with progress_bar(
        total, "simulating", progress, unit=" steps", unit_scale=True
    ) as bar:
        while pending:
            done, pending = wait(
                pending, timeout=SECONDS_BETWEEN_REPORTS, return_when=FIRST_EXCEPTION
            )
            for future in done:
                future.result()
            bar.update(int(taken.sum()) - bar.n)
