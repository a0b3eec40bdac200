"""Recorded overlaps of one or several runs as the `Trajectory` that `simulate` returns.

The error is the exact population error of the problem at the recorded overlaps.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage.problem import Problem, Start
from tutelage.problem.start import OVERLAPS
from tutelage.problem.traits import ANY_THEORY, MIXTURES, OPTIMIZERS, TASKS
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.recorded_error import errors_at_records
from tutelage.training.optimizers import DEFAULT_LR, SGD

# All problems: the error follows from the overlaps, however they were learned.
SUPPORTED = (TASKS, MIXTURES, OPTIMIZERS, ANY_THEORY)
METHOD = "recorded"  # in the settings of the trajectory
SAME = 1e-9  # starts that differ by less are the same


class RecordedOverlaps(NamedTuple):
    """Overlaps of several runs. R, Q, T: of the fields; r, q, t: per level.

    r, q, t are None where only the sums over levels are known.
    """

    R: Float[np.ndarray, "run time K M"]
    Q: Float[np.ndarray, "run time K K"]
    T: Float[np.ndarray, "run M M"]
    r: Float[np.ndarray, "run time L K M"] | None
    q: Float[np.ndarray, "run time L K K"] | None
    t: Float[np.ndarray, "run L M M"] | None
    readout: np.ndarray
    bias: Float[np.ndarray, "run time K"]


class Outcome(NamedTuple):
    """The end of each run: its status, the time reached and the steps taken."""

    status: np.ndarray
    end_time: np.ndarray
    steps: np.ndarray


def common_start(starts: list[Start]) -> Start | None:
    """Return the start that all runs share; None if they differ."""
    first = starts[0]
    for other in starts[1:]:
        for name in OVERLAPS:
            value = getattr(first, name)
            if value is not None and not np.allclose(
                value, getattr(other, name), rtol=0, atol=SAME
            ):
                return None
    return first


def field_weights(problem: Problem, dim: int) -> Float[np.ndarray, " L"]:
    """Return p_l lam_l with the actual share n_l / N of each level."""
    eigenvalues = np.asarray(problem.inputs.eigenvalues, dtype=float)
    return problem.inputs.level_dims(dim) / dim * eigenvalues


def assembled(
    problem: Problem,
    times: np.ndarray,
    overlaps: RecordedOverlaps,
    dim: int,
    start: Start | None,
    outcome: Outcome,
) -> Trajectory:
    """Return the trajectory, with error and loss at all records."""
    error, loss = _errors(problem, times, overlaps, dim)
    variables = {
        "R": overlaps.R,
        "Q": overlaps.Q,
        "readout": np.asarray(overlaps.readout),
    }
    if problem.biased:
        variables["bias"] = overlaps.bias
    if overlaps.r is not None and overlaps.q is not None:
        variables["r"] = overlaps.r
        variables["q"] = overlaps.q
    T = np.asarray(overlaps.T)
    if np.allclose(T, T[:1], rtol=0, atol=SAME):
        T = T[0]
    return Trajectory(
        times=times,
        variables=variables,
        error=error,
        loss=loss,
        status_code=outcome.status,
        end_time=outcome.end_time,
        steps=outcome.steps,
        T=T,
        problem=problem,
        start=start,
        kind="simulation",
        settings=(("method", METHOD), ("dim", dim), ("runs", len(overlaps.R))),
    )


def _errors(
    problem: Problem, times: np.ndarray, overlaps: RecordedOverlaps, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return error and loss at the records; of a mixture the averages over classes.

    Neither depends on the optimizer, and that of plain SGD has closed forms more often.
    """
    if not isinstance(problem.optimizer, SGD):
        problem = problem.replace(optimizer=SGD(DEFAULT_LR))
    if problem.inputs.classes is None:
        return errors_at_records(
            problem,
            R=overlaps.R,
            Q=overlaps.Q,
            T=np.asarray(overlaps.T)[:, None],
            readout=overlaps.readout,
            bias=overlaps.bias,
            times=times,
        )
    assert overlaps.r is not None
    assert overlaps.q is not None
    assert overlaps.t is not None
    errors, losses = errors_at_records(
        problem,
        R=overlaps.r,
        Q=overlaps.q,
        T=np.asarray(overlaps.t)[:, None],
        readout=overlaps.readout,
        bias=overlaps.bias,
        times=times,
        dim=dim,
    )
    assert problem.mixture is not None
    probabilities = np.asarray(problem.mixture.probabilities)
    return errors @ probabilities, losses @ probabilities
