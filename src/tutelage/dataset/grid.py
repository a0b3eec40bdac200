"""The grid of time: cells, the probability of a visit in each, and the rates.

SGD. A cell of length dt holds dt N steps of a batch of b samples. A sample is visited in
it with probability pv = b dt / ratio, and moves its own field by eta dt / ratio for each
kick delta / pv, which is eta delta / b. Errors are of first order in dt. Epochs and the
switches of schedules are ends of cells, so that errors are smooth functions of dt.

Gradient descent. A cell is one step, and the grid is exact: pv is the share of the data
set that a step uses, and the rate is eta / ratio.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tutelage.problem import GradientDescent, Problem
from tutelage.problem.data_set import EPOCHS
from tutelage.training.schedules import is_schedule, rate_values, switch_times

# Points at which a schedule is averaged over a cell.
POINTS = 16
# Breaks of the grid that are closer than this share of the end are one.
CLOSE = 1e-9
SHORTEST = 1e-3  # the end of a grid in epochs, even if only time 0 is recorded


@dataclass(frozen=True)
class Grid:
    """Cells of time, with the rates of each cell.

    edges: their ends. breaks: the cells at which a smooth stretch begins, and the end.
    in_steps: a cell is a step of gradient descent. epochs: the cells at which an epoch
    begins; empty if visits are drawn with replacement. kick: how far one kick moves the field of its own sample. keep: what
    weight decay leaves of the weights.
    """

    in_steps: bool
    edges: Float[np.ndarray, " points"]
    breaks: Int[np.ndarray, " breaks"]
    epochs: Int[np.ndarray, " epochs"]
    epoch_length: float
    visit_probability: Float[np.ndarray, " cells"]
    kick: Float[np.ndarray, " cells"]
    keep: Float[np.ndarray, " cells"]
    readout: Float[np.ndarray, " cells"]
    bias: Float[np.ndarray, " cells"]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.kick.size

    @property
    def longest(self) -> float:
        """The longest cell."""
        return float(np.max(np.diff(self.edges)))


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
    count = max(1, int(np.ceil(end - CLOSE)))
    edges = np.arange(count + 1, dtype=float)
    share = float(np.asarray(optimizer.share))
    none = np.zeros(0, dtype=np.int64)
    return _grid(problem, edges, edges[:-1, None], share, np.array([0, count]), none)


def stochastic_grid(problem: Problem, end: float, step: float, halvings: int) -> Grid:
    """Return the grid of SGD up to a time, in cells of at most `step`, halved.

    Each stretch between two breaks has cells of one length.
    """
    assert problem.data is not None
    end = max(end, SHORTEST * epoch_length(problem))
    breaks = _break_times(problem, end)
    parts = []
    starts = [0]
    for begin, finish in itertools.pairwise(breaks):
        count = max(1, int(np.ceil((finish - begin) / step - CLOSE))) * 2**halvings
        parts.append(np.linspace(begin, finish, count + 1)[:-1])
        starts.append(starts[-1] + count)
    edges = np.append(np.concatenate(parts), breaks[-1])
    inside = (np.arange(POINTS) + 0.5) / POINTS
    lengths = np.diff(edges)
    times = edges[:-1, None] + lengths[:, None] * inside
    epochs = np.zeros(0, dtype=np.int64)
    if problem.data.order == EPOCHS:
        begins = np.arange(0.0, breaks[-1] * (1 - CLOSE), epoch_length(problem))
        epochs = np.searchsorted(edges, begins - CLOSE * breaks[-1])
    probability = lengths / epoch_length(problem)
    return _grid(problem, edges, times, probability, np.array(starts), epochs)


def _break_times(problem: Problem, end: float) -> Float[np.ndarray, " breaks"]:
    """Return 0, the times at which curves bend, and the end."""
    assert problem.data is not None
    optimizer = problem.optimizer
    rates = (
        optimizer.lr,
        optimizer.weight_decay,
        optimizer.readout_lr,
        optimizer.bias_lr,
    )
    times = [0.0, end]
    switches = switch_times(end, *(rate for rate in rates if is_schedule(rate)))
    if switches is not None:
        times += np.asarray(switches).tolist()
    if problem.data.order == EPOCHS:
        times += np.arange(0.0, end, epoch_length(problem)).tolist()
    inside = [time for time in sorted(times) if 0 <= time <= end]
    breaks = [0.0]
    for time in inside:
        if time > breaks[-1] + CLOSE * end:
            breaks.append(time)
    return np.array(breaks)


def _grid(
    problem: Problem,
    edges: Float[np.ndarray, " points"],
    times: Float[np.ndarray, "cells points"],
    probability: Float[np.ndarray, " cells"] | float,
    breaks: Int[np.ndarray, " breaks"],
    epochs: Int[np.ndarray, " epochs"],
) -> Grid:
    """Return a grid whose rates are averages over the given times of each cell."""
    optimizer = problem.optimizer
    assert problem.data is not None
    ratio = float(np.asarray(problem.data.ratio))
    lengths = np.diff(edges)
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
        in_steps=is_descent(problem),
        edges=edges,
        breaks=breaks,
        epochs=epochs,
        epoch_length=epoch_length(problem),
        visit_probability=np.broadcast_to(probability, lengths.shape),
        kick=lengths / ratio * lr.mean(axis=1),
        keep=1.0 - lengths * (lr * decay).mean(axis=1),
        readout=lengths * readout.mean(axis=1),
        bias=lengths * bias.mean(axis=1),
    )
