"""One causal pass over a grid of time, with the paths of one scrambling."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage.dataset.grid import Grid
from tutelage.dataset.kernels import Kernels
from tutelage.dataset.path_kernel import (
    RECORD,
    STEP,
    Cell,
    Memory,
    Paths,
    Sums,
    pass_over_paths,
)
from tutelage.dataset.paths import Draws, empty_memory, paths_on
from tutelage.dataset.setting import Setting

# Overlaps and parameters that have grown beyond this have diverged.
LARGEST = 1e8


class Curves(NamedTuple):
    """What a pass records, at all times of its grid or at the recorded ones.

    R and Q per level are sums over its dimensions, divided by N.
    """

    R: Float[np.ndarray, "time L K M"]
    Q: Float[np.ndarray, "time L K K"]
    readout: Float[np.ndarray, "time K"]
    bias: Float[np.ndarray, "time K"]
    train_loss: Float[np.ndarray, " time"]
    train_error: Float[np.ndarray, " time"]


def solve_on_grid(setting: Setting, grid: Grid, draws: Draws) -> Curves:
    """Return the curves at all times of the grid; NaN from a divergence on."""
    paths = paths_on(grid, draws)
    memory = empty_memory(paths, setting.model.jumps)
    kernels = Kernels(setting, grid)
    most = max(1, int(np.max(np.diff(paths.first))))
    count = paths.label.size
    readout = setting.readout.copy()
    bias = setting.bias.copy()
    curves = _empty_curves(setting, grid.cells + 1)
    history = memory.visited
    epochs = set(grid.epochs.tolist())
    for t in range(grid.cells + 1):
        if t in epochs:
            history = memory.visited.copy()
        cell = kernels.cell(readout, bias)
        sums = _empty_sums(setting, t)
        _pass(setting, paths, memory, cell, history, most, sums, bool(epochs))
        curves.R[t] = kernels.now.R
        curves.Q[t] = kernels.now.Q
        curves.readout[t] = readout
        curves.bias[t] = bias
        curves.train_loss[t] = sums.recorded[0] / count
        curves.train_error[t] = sums.recorded[1] / count
        if _has_diverged(kernels, readout, bias, sums):
            for values in curves:
                values[t:] = np.nan
            break
        if t < grid.cells:
            kernels.advance(sums, count)
            readout = readout + grid.readout[t] * sums.readout / count
            bias = bias + grid.bias[t] * sums.bias / count
    return curves


def _pass(
    setting: Setting,
    paths: Paths,
    memory: Memory,
    cell: Cell,
    history: np.ndarray,
    most: int,
    sums: Sums,
    in_epochs: bool,
) -> None:
    """Add the averages over all paths at one time.

    In epochs the training loss also needs the fields of samples after their visit in the
    present epoch.
    """
    model = setting.model
    if in_epochs:
        pass_over_paths(model, paths, memory, cell, history, RECORD, most, sums)
    pass_over_paths(model, paths, memory, cell, history, STEP, most, sums)


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


def _empty_sums(setting: Setting, cells: int) -> Sums:
    """Return sums of zero for a time with so many cells before it."""
    K = setting.hidden
    M = setting.R.shape[2]
    return Sums(
        memory_response=np.zeros((cells, K, K)),
        memory_noise=np.zeros((cells, K, K)),
        response=np.zeros((K, K)),
        noise=np.zeros((K, K)),
        reference=np.zeros((K, M)),
        readout=np.zeros(K),
        bias=np.zeros(K),
        recorded=np.zeros(2),
    )
