"""The nonlinear exit from a plateau: from a small asymmetry of a given direction to the fall of the error.

The exit is solved from states in which the asymmetry has already grown to a small, fixed size (plateau_path.py). So it does
not depend on how small a start's asymmetry was, only on its direction in the space of the growing modes, which permutations
make several-dimensional, and (weakly) on how far the slow symmetric modes have come meanwhile.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tutelage._errors import InputError
from tutelage.analysis.escape.plateau_path import PlateauPath, flat_drifts
from tutelage.analysis.escape.thresholds import escape_threshold, last_fall
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.linearized import unflatten
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem

FOLLOWED, RECORDED = 15.0, 301  # e-folding times for which one exit is followed, and errors recorded meanwhile
BATCH = 64  # exits solved side by side
GRID = 25  # errors recorded per e-folding time
LONGEST = 60  # e-folding times after which an exit is given up


@eqx.filter_jit
def flat_errors(system: OrderParameters, like: Overlaps, vectors: Any) -> Any:
    """The generalization error at flat vectors (B, n)."""
    return jax.lax.map(lambda x: system.error(system.observe(unflatten(x, like))), vectors)


@dataclass(frozen=True)
class Exit:
    """One exit. launch_time: when its asymmetry has grown to the size from which it is solved. times: (g,), from then on.

    errors: (g,). threshold: below it the network has escaped. time: when it does. last: (n,), the state in the end.
    """

    launch_time: float
    times: np.ndarray
    errors: np.ndarray
    threshold: float
    time: float
    last: np.ndarray


def follow_exit(path: PlateauPath, b: np.ndarray) -> Exit:
    """The exit that an asymmetry with amplitudes b (d,) takes, followed until long after."""
    from scipy.integrate import solve_ivp

    launch_time, launch = path.launch(b)
    times = np.linspace(0.0, FOLLOWED / path.rate, RECORDED)

    def drift(_: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(flat_drifts(path.system, path.like, x[None]))[0]

    out = solve_ivp(drift, (0.0, times[-1]), launch, method="LSODA", t_eval=times, rtol=1e-7, atol=1e-10)
    _require_finite(out)
    errors, plateau = np.asarray(flat_errors(path.system, path.like, out.y.T)), path.plateau.error
    threshold = escape_threshold(plateau, float(errors[-1]))
    time = launch_time + last_fall(times, errors, threshold)
    if threshold >= plateau or not np.isfinite(time):
        raise InputError(
            f"the error does not fall once the plateau ({plateau:.4g}) is left: it is {errors[-1]:.4g} at alpha = "
            f"{launch_time + times[-1]:.4g}. Lower the learning rate, or solve from this start and look."
        )
    return Exit(launch_time, launch_time + times, errors, threshold, time, out.y[:, -1])


def exit_times(path: PlateauPath, b: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """When asymmetries with amplitudes b (B, d) have escaped, (B,), and the states at which they are later on, (B, n).

    inf: not within LONGEST e-folding times of their launch. All are followed for at least one e-folding time more, so that
    the units have chosen their teachers.
    """
    return _solved(path, b, threshold) if b.shape[1] > 1 else _interpolated(path, b[:, 0], threshold)


def _interpolated(path: PlateauPath, b: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """One mode has two directions: the times are nearly linear in ln|b| along each, and solved for a few sizes only."""
    size = np.log(np.maximum(np.abs(b), 1e-300))
    nodes = np.linspace(size.min(), size.max(), BATCH // 2)
    signed = np.concatenate([np.exp(nodes), -np.exp(nodes)])
    found, states = (x.reshape(2, BATCH // 2, -1) for x in _solved(path, signed[:, None], threshold))
    side, nearest = (b < 0).astype(int), np.abs(size[:, None] - nodes).argmin(axis=1)
    times = np.where(side == 0, *(np.interp(size, nodes, half[:, 0]) for half in found))
    return times, states[side, nearest]


def _solved(path: PlateauPath, b: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Each exit solved, BATCH at a time."""
    launched = [path.launch(one) for one in b]
    launches = np.array([state for _, state in launched])
    times, ends = np.array([time for time, _ in launched]), np.empty_like(launches)
    for at in range(0, len(b), BATCH):
        some = launches[at : at + BATCH]
        padded = np.concatenate([some, np.repeat(some[:1], BATCH - len(some), axis=0)])
        found, last = _side_by_side(path, padded, threshold)
        times[at : at + BATCH] += found[: len(some)]
        ends[at : at + BATCH] = last[: len(some)]
    return times, ends


def _side_by_side(path: PlateauPath, vectors: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Exits from flat states (BATCH, n), one e-folding time after the other, until all have escaped, and once more."""
    from scipy.integrate import solve_ivp

    def drift(_: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(flat_drifts(path.system, path.like, x.reshape(vectors.shape))).ravel()

    unit, errors, waiting = 1 / path.rate, [], True
    grid = np.linspace(0.0, unit, GRID + 1)[1:]
    for _ in range(LONGEST):
        out = solve_ivp(drift, (0.0, unit), vectors.ravel(), method="RK45", t_eval=grid, rtol=1e-5, atol=1e-8)
        _require_finite(out)
        states = out.y.T.reshape(GRID, *vectors.shape)
        vectors = states[-1]
        flat = states.reshape(-1, vectors.shape[1])
        errors.append(np.asarray(flat_errors(path.system, path.like, flat)).reshape(GRID, -1))
        if not waiting:
            break
        waiting = bool(np.any(errors[-1][-1] >= threshold))
    times = unit * np.arange(1, GRID * len(errors) + 1) / GRID
    return np.array([last_fall(times, curve, threshold) for curve in np.concatenate(errors).T]), vectors


def _require_finite(out: Any) -> None:
    if out.status != 0 or not np.all(np.isfinite(out.y)):
        raise InputError("the overlaps diverge once the plateau is left; lower the learning rate.")


def chosen_teachers(path: PlateauPath, vectors: np.ndarray) -> np.ndarray:
    """The teacher that each unit has chosen in flat states (B, n), (B, K)."""
    problem, (L, K, M) = path.system.problem, path.like.r.shape
    weights = np.asarray(problem.inputs.weights)
    R = np.einsum("l,blkm->bkm", weights, vectors[:, : L * K * M].reshape(-1, L, K, M))
    return teachers_of(problem, R, np.einsum("l,lab->ab", weights, np.asarray(path.system.t)))


def teachers_of(problem: Problem, R: np.ndarray, T: np.ndarray) -> np.ndarray:
    """The teacher that each unit overlaps with most, (..., K): different ones for different units where there are enough.

    The sign of an overlap does not count for even activations.
    """
    from scipy.optimize import linear_sum_assignment

    even = problem.student.activation.parity == 1
    overlaps = (np.abs(R) if even else R) / np.sqrt(np.diagonal(T, axis1=-2, axis2=-1))[..., None, :]
    if R.shape[-2] > R.shape[-1]:
        return np.argmax(overlaps, axis=-1)
    flat = overlaps.reshape(-1, *R.shape[-2:])
    return np.array([linear_sum_assignment(one, maximize=True)[1] for one in flat]).reshape(R.shape[:-1])
