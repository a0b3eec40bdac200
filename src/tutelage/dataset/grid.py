"""The grid of time: cells, the probability of a visit in a cell, and the rates.

SGD. A cell holds dt N steps of a batch of b samples. A sample is visited in a cell with
probability pv = b dt / ratio, and moves its own field by eta dt / ratio for each kick
delta / pv, which is eta delta / b. Errors are of first order in dt.

Gradient descent. A cell is one step, and the grid is exact: pv is the share of the data
set that a step uses, and the rate is eta / ratio.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage.problem import GradientDescent, Problem
from tutelage.problem.data_set import EPOCHS
from tutelage.training.schedules import rate_values

# Points at which a schedule is averaged over a cell.
POINTS = 16
MOST_CELLS = 20_000


@dataclass(frozen=True)
class Grid:
    """Cells of time, with the rates of each cell.

    kick: how far one kick moves the field of its own sample. keep: what weight decay
    leaves of the weights. epoch: cells in an epoch; 0: visits are drawn with replacement.
    """

    step: float
    visit_probability: float
    epoch: int
    kick: Float[np.ndarray, " cells"]
    keep: Float[np.ndarray, " cells"]
    readout: Float[np.ndarray, " cells"]
    bias: Float[np.ndarray, " cells"]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.kick.size

    @property
    def times(self) -> Float[np.ndarray, " points"]:
        """The times of the cells' ends, from 0 on."""
        return self.step * np.arange(self.cells + 1)


def is_descent(problem: Problem) -> bool:
    """Return True for gradient descent, whose times count steps."""
    return isinstance(problem.optimizer, GradientDescent)


def epoch_length(problem: Problem) -> float:
    """Return the time in which as many samples are used as there are."""
    optimizer = problem.optimizer
    if isinstance(optimizer, GradientDescent):
        return 1.0 / float(np.asarray(optimizer.share))
    assert problem.data is not None
    return float(np.asarray(problem.data.ratio)) / optimizer.batch


def descent_grid(problem: Problem, end: float) -> Grid:
    """Return the grid of gradient descent up to step `end`, rounded up."""
    optimizer = problem.optimizer
    assert isinstance(optimizer, GradientDescent)
    times = np.arange(int(np.ceil(end - 1e-9)), dtype=float)[:, None]
    return _grid(problem, 1.0, times, float(np.asarray(optimizer.share)), epoch=0)


def stochastic_grid(problem: Problem, end: float, step: float) -> Grid:
    """Return the grid of SGD up to a time, in cells of about `step` (not longer).

    Epochs hold a whole number of cells; without them `end` is the end of a cell.
    """
    assert problem.data is not None
    length = epoch_length(problem)
    epoch = 0
    if problem.data.order == EPOCHS:
        epoch = max(1, int(np.ceil(length / step - 1e-9)))
        step = length / epoch
        count = int(np.ceil(end / step - 1e-9))
    else:
        count = max(1, int(np.ceil(end / step - 1e-9)))
        step = end / count
    inside = (np.arange(POINTS) + 0.5) / POINTS
    times = step * (np.arange(count)[:, None] + inside)
    return _grid(problem, step, times, step / length, epoch)


def _grid(
    problem: Problem,
    step: float,
    times: Float[np.ndarray, "cells points"],
    visit_probability: float,
    epoch: int,
) -> Grid:
    """Return a grid whose rates are averages over the given times of each cell."""
    optimizer = problem.optimizer
    assert problem.data is not None
    ratio = float(np.asarray(problem.data.ratio))
    lr = rate_values(optimizer.lr, times)
    decay = rate_values(optimizer.weight_decay, times)
    readout = np.zeros_like(times)
    if problem.student.train_readout:
        rate = optimizer.lr if optimizer.readout_lr is None else optimizer.readout_lr
        readout = rate_values(rate, times)
    bias = np.zeros_like(times)
    if problem.student.train_bias:
        rate = optimizer.lr if optimizer.bias_lr is None else optimizer.bias_lr
        bias = rate_values(rate, times)
    return Grid(
        step=step,
        visit_probability=visit_probability,
        epoch=epoch,
        kick=step / ratio * lr.mean(axis=1),
        keep=1.0 - step * (lr * decay).mean(axis=1),
        readout=step * readout.mean(axis=1),
        bias=step * bias.mean(axis=1),
    )
