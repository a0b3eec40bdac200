"""Scramblings of the sample paths, solved in threads and read at the recorded times."""

import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from tutelage.dataset.grid import Grid
from tutelage.dataset.paths import Draws, draw_paths, most_visits
from tutelage.dataset.setting import Setting
from tutelage.dataset.solver import Curves, Pass, solve_side_by_side
from tutelage.progress import progress_bar

SECONDS_BETWEEN_REPORTS = 0.2


class Task(NamedTuple):
    """One scrambling on one or several grids; `key` names its random numbers."""

    grids: tuple[Grid, ...]
    paths: int
    key: tuple[int, ...]


def solve_all(
    setting: Setting,
    tasks: list[Task],
    times: Float[np.ndarray, " time"],
    workers: int,
    seed: int,
    progress: bool,
) -> tuple[list[Curves], bool]:
    """Return the curves of all tasks, with an axis of grids, computed in threads.

    And True if Ctrl-C ended them: those that had begun have NaN from there on.
    """
    stop = Event()
    taken = np.zeros(len(tasks), dtype=np.int64)
    interrupted = False
    futures: list[Future] = []

    def solve_one(index: int) -> Curves:
        task = tasks[index]
        seeds = np.random.SeedSequence(seed, spawn_key=task.key)
        scrambling = int(seeds.generate_state(1, np.uint64)[0])
        # grids of all steps have the same paths
        largest = max(task.grids, key=most_visits)
        draws = draw_paths(setting, largest, task.paths, scrambling)

        def report(cells: int) -> None:
            taken[index] += cells

        return _solve_task(setting, task, draws, times, stop, report)

    total = sum(grid.cells for task in tasks for grid in task.grids)
    with ThreadPoolExecutor(workers) as pool:
        try:
            for index in range(len(tasks)):
                futures.append(pool.submit(solve_one, index))
            _wait_for_all(futures, taken, total, progress)
        except BaseException as error:
            stop.set()
            for future in reversed(futures):
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
            interrupted = True
    return [
        future.result() for future in futures if not future.cancelled()
    ], interrupted


def _solve_task(
    setting: Setting,
    task: Task,
    draws: Draws,
    times: Float[np.ndarray, " time"],
    stop: Event,
    report: Callable[[int], None],
) -> Curves:
    """Return the curves of one scrambling, with a leading axis of grids."""
    passes = [Pass(setting, grid, draws) for grid in task.grids]
    solve_side_by_side(passes, lambda: not stop.is_set(), report)
    recorded = [at_times(one.curves, one.grid, times) for one in passes]
    return stacked(recorded)


def _wait_for_all(
    futures: list[Future], taken: np.ndarray, total: int, progress: bool
) -> None:
    """Wait for all futures and report progress; an error in one ends all."""
    pending: Any = futures
    with progress_bar(total, "sample paths", progress, unit=" cells") as bar:
        while pending:
            done, pending = wait(pending, timeout=SECONDS_BETWEEN_REPORTS)
            for future in done:
                future.result()
            bar.update(int(taken.sum()) - bar.n)


def stacked(curves: list[Curves]) -> Curves:
    """Return curves with a leading axis."""
    return Curves(*(np.stack(arrays) for arrays in zip(*curves, strict=True)))


def at_times(curves: Curves, grid: Grid, times: Float[np.ndarray, " time"]) -> Curves:
    """Return curves of a grid at the recorded times.

    Of gradient descent, the state after ceil(time) steps. Otherwise by cubic splines,
    one for each smooth stretch.
    """
    if grid.in_steps:
        steps = np.ceil(times - 1e-9).astype(int)
        return Curves(*(values[steps] for values in curves))

    def interpolated(values: np.ndarray) -> np.ndarray:
        found = np.full((times.size, *values.shape[1:]), np.nan)
        for first, last in itertools.pairwise(grid.breaks):
            x = grid.edges[first : last + 1]
            inside = (times >= x[0] - 1e-12) & (times <= x[-1] + 1e-9)
            if np.any(inside):
                found[inside] = _spline(x, values[first : last + 1], times[inside])
        return found

    return Curves(*(interpolated(values) for values in curves))


def _spline(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return a cubic spline of the finite values, NaN beyond them."""
    finite = np.isfinite(y.reshape(len(y), -1)).all(axis=1)
    count = int(finite.sum())  # values are finite up to a divergence
    if count < 2:
        return np.full((at.size, *y.shape[1:]), np.nan)
    spline = CubicSpline(x[:count], y[:count], axis=0)
    found = spline(at)
    found[at > x[count - 1] + 1e-9] = np.nan
    return found
