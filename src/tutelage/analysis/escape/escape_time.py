"""When does a network escape from its plateau? Predicted from the unstable mode and the start's projection on it.

Units that are nearly identical stay so on a plateau, while their differences grow as exp(rate alpha). The escape ends a
plateau when the error falls for good below half of the plateau's (below its geometric mean with the error at the end, where
that is higher: `escape_threshold`, one definition for solved curves, runs and predictions). So

    time = (1 / rate) ln(constant / amplitude),

amplitude: the start's asymmetry as it acts on the plateau, counted back to time zero; constant: the size at which growth
ends in the fall. The start is never solved through its escape: its symmetric part is solved, its asymmetry is carried
linearly next to it until it has grown to a small, fixed size (plateau_path.py), and the nonlinear exit is solved from there.
The exit does not depend on how small the start's asymmetry was, only on its direction in the space of the growing modes,
which permutations make several-dimensional, and (weakly) on how far the slow symmetric modes have come meanwhile.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.escape.plateau_path import LAUNCH_SIZE, PlateauPath, drifts_at, plateau_path
from tutelage.analysis.fixed_points.fixed_point import FixedPoint
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.linearized import unflatten
from tutelage.dynamics.order_parameters import Overlaps
from tutelage.problem import Problem, Start

EXIT_LENGTH, EXIT_RECORDS = 15.0, 301  # e-folding times for which one exit is followed, and errors recorded meanwhile
EXITS_PER_BATCH = 64  # exits solved side by side
RECORDS_PER_EFOLD = 25  # errors recorded per e-folding time
LONGEST_EXIT = 60  # e-folding times after which an exit is given up
STABLE_SHARE = 1e-9  # share of an asymmetry below which it holds nothing that grows


def escape_threshold(plateau: float, end: float) -> float:
    """Half of the plateau's error, or its geometric mean with the error at the end where that is higher."""
    return max(plateau / 2, float(np.sqrt(plateau * max(end, 0.0))))


def last_fall(times: np.ndarray, error: np.ndarray, threshold: float) -> float:
    """When a curve falls below the threshold for good, between recorded times by interpolation; inf: not yet."""
    above = np.flatnonzero(error >= threshold)
    if above.size == 0:
        return float(times[0])
    i = int(above[-1])
    if i == times.size - 1:
        return np.inf
    high, low, wanted = np.log(np.maximum([error[i], error[i + 1], threshold], 1e-300))
    return float(times[i] + (times[i + 1] - times[i]) * (high - wanted) / (high - low))


@eqx.filter_jit
def errors_at(system: OrderParameters, like: Overlaps, vectors: Float[np.ndarray, "B n"]) -> Float[Array, " B"]:
    """The generalization error at flat vectors (B, n)."""
    return jax.lax.map(lambda x: system.error(system.observe(unflatten(x, like))), vectors)


class Exit(NamedTuple):
    """One exit. launch_time: when its asymmetry has grown to the size from which it is solved. times, errors: (g,), from
    then on. threshold: below it the network has escaped. time: when it does. last: (n,), the final state."""

    launch_time: float
    times: Float[np.ndarray, " g"]
    errors: Float[np.ndarray, " g"]
    threshold: float
    time: float
    last: Float[np.ndarray, " n"]


def follow_exit(path: PlateauPath, b: Float[np.ndarray, " d"]) -> Exit:
    """The exit that an asymmetry with amplitudes b (d,) takes, followed until long after."""
    from scipy.integrate import solve_ivp

    launch_time, launch = path.launch(b)
    times = np.linspace(0.0, EXIT_LENGTH / path.rate, EXIT_RECORDS)

    def drift(_: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(drifts_at(path.system, path.like, x[None]))[0]

    out = solve_ivp(drift, (0.0, times[-1]), launch, method="LSODA", t_eval=times, rtol=1e-7, atol=1e-10)
    _require_finite(out)
    errors, plateau = np.asarray(errors_at(path.system, path.like, out.y.T)), path.plateau.error
    threshold = escape_threshold(plateau, float(errors[-1]))
    time = launch_time + last_fall(times, errors, threshold)
    if threshold >= plateau or not np.isfinite(time):
        raise InputError(
            f"the error does not fall once the plateau ({plateau:.4g}) is left: it is {errors[-1]:.4g} at alpha = "
            f"{launch_time + times[-1]:.4g}. Lower the learning rate, or solve from this start and look."
        )
    return Exit(launch_time, launch_time + times, errors, threshold, time, out.y[:, -1])


def exit_times(
    path: PlateauPath, b: Float[np.ndarray, "B d"], threshold: float
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B n"]]:
    """When asymmetries with amplitudes b (B, d) have escaped, (B,), and the states at which they are later on, (B, n).

    inf: not within LONGEST e-folding times of their launch. All are followed for at least one e-folding time more, so that
    the units have chosen their teachers.
    """
    return _solved_exits(path, b, threshold) if b.shape[1] > 1 else _interpolated_exits(path, b[:, 0], threshold)


def _interpolated_exits(path: PlateauPath, b: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """One mode has two directions: the times are nearly linear in ln|b| along each, and solved for a few sizes only."""
    size = np.log(np.maximum(np.abs(b), 1e-300))
    nodes = np.linspace(size.min(), size.max(), EXITS_PER_BATCH // 2)
    signed = np.concatenate([np.exp(nodes), -np.exp(nodes)])
    found, states = (x.reshape(2, EXITS_PER_BATCH // 2, -1) for x in _solved_exits(path, signed[:, None], threshold))
    side, nearest = (b < 0).astype(int), np.abs(size[:, None] - nodes).argmin(axis=1)
    times = np.where(side == 0, *(np.interp(size, nodes, half[:, 0]) for half in found))
    return times, states[side, nearest]


def _solved_exits(path: PlateauPath, b: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Each exit solved, BATCH at a time."""
    launched = [path.launch(one) for one in b]
    launches = np.array([state for _, state in launched])
    times, ends = np.array([time for time, _ in launched]), np.empty_like(launches)
    for at in range(0, len(b), EXITS_PER_BATCH):
        some = launches[at : at + EXITS_PER_BATCH]
        padded = np.concatenate([some, np.repeat(some[:1], EXITS_PER_BATCH - len(some), axis=0)])
        found, last = _exit_batch(path, padded, threshold)
        times[at : at + EXITS_PER_BATCH] += found[: len(some)]
        ends[at : at + EXITS_PER_BATCH] = last[: len(some)]
    return times, ends


def _exit_batch(path: PlateauPath, vectors: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Exits from flat states (BATCH, n), one e-folding time after the other, until all have escaped, and once more."""
    from scipy.integrate import solve_ivp

    def drift(_: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(drifts_at(path.system, path.like, x.reshape(vectors.shape))).ravel()

    unit, errors, waiting = 1 / path.rate, [], True
    grid = np.linspace(0.0, unit, RECORDS_PER_EFOLD + 1)[1:]
    for _ in range(LONGEST_EXIT):
        out = solve_ivp(drift, (0.0, unit), vectors.ravel(), method="RK45", t_eval=grid, rtol=1e-5, atol=1e-8)
        _require_finite(out)
        states = out.y.T.reshape(RECORDS_PER_EFOLD, *vectors.shape)
        vectors = states[-1]
        flat = states.reshape(-1, vectors.shape[1])
        errors.append(np.asarray(errors_at(path.system, path.like, flat)).reshape(RECORDS_PER_EFOLD, -1))
        if not waiting:
            break
        waiting = bool(np.any(errors[-1][-1] >= threshold))
    times = unit * np.arange(1, RECORDS_PER_EFOLD * len(errors) + 1) / RECORDS_PER_EFOLD
    return np.array([last_fall(times, curve, threshold) for curve in np.concatenate(errors).T]), vectors


def _require_finite(out: Any) -> None:
    if out.status != 0 or not np.all(np.isfinite(out.y)):
        raise InputError("the overlaps diverge once the plateau is left; lower the learning rate.")


def chosen_teachers(path: PlateauPath, vectors: Float[np.ndarray, "B n"]) -> Int[np.ndarray, "B K"]:
    """The teacher that each unit has chosen in flat states (B, n), (B, K)."""
    problem, (L, K, M) = path.system.problem, path.like.r.shape
    weights = np.asarray(problem.inputs.weights)
    R = np.einsum("l,blkm->bkm", weights, vectors[:, : L * K * M].reshape(-1, L, K, M))
    return assigned_teachers(problem, R, np.einsum("l,lab->ab", weights, np.asarray(path.system.t)))


def assigned_teachers(problem: Problem, R: np.ndarray, T: np.ndarray) -> np.ndarray:
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


@dataclass(frozen=True)
class EscapeTime(AnalysisResult):
    """The predicted escape from a plateau: time = (1/rate) ln(constant / amplitude). rate: growth of the asymmetry there.

    slope: how much later an e-th of the asymmetry escapes; 1/rate for small ones, some per cent more or less as long as the
    slow symmetric modes (q_ii - q_ij) have not come to rest. asymmetry: size of the differences between the units of the start
    (Euclidean norm over all overlaps). amplitude: what it amounts to on the plateau, counted back to time zero. threshold:
    the error below which the network has escaped. teachers: the teacher that each unit chooses. times, errors, sizes: the
    predicted learning curve, and the size of the asymmetry up to its launch (NaN after).
    """

    time: float
    rate: float
    slope: float
    amplitude: float
    asymmetry: float
    threshold: float
    plateau: FixedPoint
    teachers: tuple[int, ...]
    times: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray

    @property
    def constant(self) -> float:
        """c in time = (1/rate) ln(c / amplitude): depends on the direction of the asymmetry, hardly on its size."""
        return self.amplitude * float(np.exp(self.rate * self.time))

    @property
    def per_log_dim(self) -> float:
        """1/(2 rate): random weights have an asymmetry of order N^(-1/2) and escape later by this much times ln N."""
        return 1 / (2 * self.rate)

    def scaled(self, factor: float) -> float:
        """The time of escape if the start's asymmetry were `factor` times as large."""
        return self.time - self.slope * float(np.log(checks.as_positive("factor", factor)))

    def __str__(self) -> str:
        modes = len(self.plateau.unstable)
        return (
            f"escape at alpha = {self.time:.5g}: the error falls below {self.threshold:.4g} "
            f"(plateau {self.plateau.error:.4g})\n"
            f"growth: exp({self.rate:.5g} alpha), {modes} growing mode{'s' * (modes > 1)}\n"
            f"start: asymmetry {self.asymmetry:.3g}, which acts as {self.amplitude:.3g} on the plateau; "
            f"alpha = ln({self.constant:.3g} / {self.amplitude:.3g}) / {self.rate:.5g}\n"
            f"a tenth of the asymmetry: {self.slope * np.log(10):.4g} later; random weights in N dimensions: "
            f"{self.per_log_dim:.4g} ln N later\n"
            f"units 1, 2, ... choose the teachers {', '.join(str(m + 1) for m in self.teachers)}"
        )

    def __repr__(self) -> str:
        return f"<EscapeTime: {self.time:.6g}, rate {self.rate:.6g}, amplitude {self.amplitude:.3g}>"


def escape_time(problem: Problem, start: Start, *, gradient_flow: bool = False) -> EscapeTime:
    """When the solved curve from this start leaves its plateau, without solving it through the escape.

    The start must be nearly symmetric: units identical up to an asymmetry (R_1m - R_2m, Q_11 - Q_22, ...) of at most about
    0.25. Within 0.5% of the solved time for asymmetries up to 0.1, and within 5% up to 0.25 (tests). Constant learning
    rates, any activation, spectrum, batch, weight decay, label noise, trained readouts.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=1.5))
    >>> start = tu.Start(R=[[0.31, 0.29], [0.29, 0.31]], Q=[[0.45, 0.25], [0.25, 0.45]], dim=1000)
    >>> escape = tu.analysis.escape_time(problem, start)
    >>> round(escape.time, 1), round(escape.rate, 4)
    (45.6, 0.0764)
    """
    path = plateau_path(problem, start, gradient_flow=checks.as_flag("gradient_flow", gradient_flow))
    b, asymmetry = path.amplitudes(path.start), float(np.linalg.norm(path.start - path.path[0]))
    if np.linalg.norm(b) <= STABLE_SHARE * asymmetry:
        raise InputError(
            "the differences between the units of this start do not grow on the plateau (they lie on its stable manifold), so "
            "the start never escapes. Give the rows of R different directions."
        )
    path.require_small(b)
    exit_ = follow_exit(path, b)
    sizes, before = path.sizes(b), path.times < exit_.launch_time
    launch_size = max(LAUNCH_SIZE, float(sizes.min()))
    return EscapeTime(
        time=exit_.time,
        rate=path.rate,
        slope=follow_exit(path, b / np.e).time - exit_.time,
        amplitude=launch_size * float(np.exp(-path.rate * exit_.launch_time)),
        asymmetry=asymmetry,
        threshold=exit_.threshold,
        plateau=path.plateau,
        teachers=tuple(int(m) for m in chosen_teachers(path, exit_.last[None])[0]),
        times=np.concatenate([path.times[before], exit_.times]),
        errors=np.concatenate([np.asarray(errors_at(path.system, path.like, path.path))[before], exit_.errors]),
        sizes=np.concatenate([sizes[before], [launch_size], np.full(exit_.times.size - 1, np.nan)]),
    )
