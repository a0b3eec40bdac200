"""One causal pass over a grid of time, with the paths of one scrambling."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage.dataset.averages import StepAverages, VisitAverages
from tutelage.dataset.grid import Grid
from tutelage.dataset.kernels import Kernels
from tutelage.dataset.path_kernel import Sums
from tutelage.dataset.paths import Draws, many_visits
from tutelage.dataset.setting import Setting

# Overlaps and parameters that have grown beyond this have diverged.
LARGEST = 1e8


class Curves(NamedTuple):
    """The records of a pass, at all times of its grid or at the recorded ones.

    R and Q per level are sums over its dimensions, divided by N.
    """

    R: Float[np.ndarray, "time L K M"]
    Q: Float[np.ndarray, "time L K K"]
    readout: Float[np.ndarray, "time K"]
    bias: Float[np.ndarray, "time K"]
    train_loss: Float[np.ndarray, " time"]
    train_error: Float[np.ndarray, " time"]


class Pass:
    """A pass over a grid, which goes on by one cell with each `advance`."""

    def __init__(self, setting: Setting, grid: Grid, draws: Draws):
        self.grid = grid
        self.kernels = Kernels(setting, grid)
        if many_visits(grid):
            self.averages = StepAverages(setting, grid, draws)
        else:
            self.averages = VisitAverages(setting, grid, draws)
        self.count = draws.label.size
        self.readout = setting.readout.copy()
        self.bias = setting.bias.copy()
        self.curves = _empty_curves(setting, grid.cells + 1)
        self.has_diverged = False

    @property
    def is_finished(self) -> bool:
        """True at the end of the grid, or after a divergence."""
        return self.has_diverged or self.kernels.time >= self.grid.cells

    @property
    def now(self) -> float:
        """The time that is recorded next."""
        return float(self.grid.edges[self.kernels.time])

    def advance(self) -> None:
        """Record the present time and take one cell; at the end, record it alone."""
        t = self.kernels.time
        cell = self.kernels.cell(self.readout, self.bias)
        sums = self.averages.sums(cell)
        if _has_diverged(self.kernels, self.readout, self.bias, sums):
            self.has_diverged = True
            return
        self._record(t, sums)
        self.kernels.advance(sums, self.count)
        self.readout = self.readout + self.grid.readout[t] * sums.readout / self.count
        self.bias = self.bias + self.grid.bias[t] * sums.bias / self.count
        if self.is_finished:
            cell = self.kernels.cell(self.readout, self.bias)
            sums = self.averages.sums(cell)
            if not _has_diverged(self.kernels, self.readout, self.bias, sums):
                self._record(t + 1, sums)

    def _record(self, t: int, sums: Sums) -> None:
        self.curves.R[t] = self.kernels.now.R
        self.curves.Q[t] = self.kernels.now.Q
        self.curves.readout[t] = self.readout
        self.curves.bias[t] = self.bias
        self.curves.train_loss[t] = sums.recorded[0] / self.count
        self.curves.train_error[t] = sums.recorded[1] / self.count


def solve_side_by_side(
    passes: list[Pass],
    should_continue: Callable[[], bool],
    report: Callable[[int], None],
) -> None:
    """Finish passes over several grids, the one that is behind in time first.

    A pass that is stopped keeps NaN from there on. report: called with the number of
    cells that were taken.
    """
    waiting = list(passes)
    while waiting and should_continue():
        behind = min(waiting, key=lambda one: one.now)
        behind.advance()
        report(1)
        if behind.is_finished:
            waiting.remove(behind)


def _has_diverged(
    kernels: Kernels, readout: np.ndarray, bias: np.ndarray, sums: Sums
) -> bool:
    """Return True if anything is not finite, or larger than overlaps of learning."""
    largest = 0.0
    for values in (kernels.now.Q, readout, bias):
        largest = max(largest, float(np.max(np.abs(values))))
    finite = np.isfinite(sums.noise).all() and np.isfinite(sums.response).all()
    return not (finite and largest < LARGEST)


def _empty_curves(setting: Setting, points: int) -> Curves:
    """Return arrays for the curves, full of NaN."""
    K = setting.hidden

    def empty(*shape: int) -> np.ndarray:
        return np.full((points, *shape), np.nan)

    return Curves(
        R=empty(*setting.R.shape),
        Q=empty(*setting.Q.shape),
        readout=empty(K),
        bias=empty(K),
        train_loss=empty(),
        train_error=empty(),
    )
