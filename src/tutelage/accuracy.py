"""How accurately a rule is averaged along a solved curve: error estimates, and the warning where they are too large.

Sampled averages. Eight solves, each with one of the eight independent scramblings of a set, cost as much as one solve with the
whole set. Their spread estimates what the whole set misses, nonlinear growth on a plateau included. `sample` chooses the number
of points by this estimate.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.dynamics.order_parameters import OrderParameters, initial_overlaps
from tutelage.integrate.program import Options, Raw, by_nodes, by_quadrature, run, tolerances
from tutelage.moments import Moments, Quadrature, Sampled, moments_for
from tutelage.moments.matrices import ClosedMoments, MixtureMoments
from tutelage.moments.node_moments import ROOMY, NodeMoments, confidence, terms_per_point
from tutelage.moments.quadrature import SETS, QuadratureAverages, shortfall
from tutelage.problem import Problem
from tutelage.trajectory import Trajectory

ACCURATE_PAIRS, ACCURATE_SPREAD = 1e-6, 1e-2  # quadrature errors above which a solve warns
CHANGES = 2  # changes under finer nodes that an error of a grid or a quadrature may have
QUADRATURE = "quadrature"
POOR = 1e-2  # relative error of the error curve, by sampled averages, above which a solve warns
SMALL = 1e-2  # share of the largest error of a curve below which absolute differences count
WORK = 6e7  # updates that may be averaged for one curve when the points are chosen: about five seconds of CPU time
RATE = 0.6  # the error of a sampled set falls at least like points^-RATE
MOST_POINTS = 2**22  # of a set that a warning recommends
USUAL_SIZE = 27  # K (2 K + M) of three units and three teacher units: larger updates count as several
EVALUATIONS = 12  # of the averages in one step of the explicit solver


def averages_report(system: OrderParameters, trajectory: Trajectory) -> tuple[str, tuple[float, float] | None]:
    """How the rule is averaged, and `averages_error`; of a mixture only the first (`sampling_errors` has errors)."""
    sampled = dict(trajectory.settings).get("moments")
    used = system.moments if sampled is None else moments_for(system.problem, None, Sampled(*sampled))
    if isinstance(used, MixtureMoments):
        return f"{_described(used.one)} in each class", None
    return _described(used), averages_error(system, used, trajectory)


def _described(moments: Moments) -> str:
    if isinstance(moments, NodeMoments):
        return f"sampled, {moments.points} points" if moments.points else f"grid, {moments.grid} nodes per panel"
    return QUADRATURE if by_quadrature(moments) else "closed form"


def in_words(averages: str, error: tuple[float, float] | None) -> str:
    """The line of the validity report."""
    if error is None:
        return averages
    word = "" if averages != QUADRATURE or _is_accurate(error) else ": NOT accurate"
    return f"{averages}, relative error {error[0]:.1e} (A, B), {error[1]:.1e} (G){word}"


def quadrature_warning(trajectory: Trajectory, moments: Moments) -> str | None:
    """One sentence if the averages are not accurate along a curve. The full estimate is made only where there is doubt."""
    problem, start, averages = trajectory.problem, trajectory.start, getattr(moments, "averages", None)
    if problem is None or start is None or not len(trajectory.times) or not isinstance(averages, QuadratureAverages):
        return None
    used, rule = 1 if dict(trajectory.settings).get("gradient_flow") else 2, averages.rule
    if _is_accurate(_doubt(problem, averages, rule, trajectory)[:used]):
        return None
    _, t = initial_overlaps(problem, start)
    error = averages_error(OrderParameters(problem, t, moments=moments), moments, trajectory)
    if error is None or _is_accurate(error[:used]):
        return None
    return (
        f"averages of these activations are accurate to {error[0]:.1e} (pairs of fields) and {error[1]:.1e} (G) only, "
        f"relative to the largest entry; they should stay below {ACCURATE_PAIRS:g} and {ACCURATE_SPREAD:g}. "
        f"Use a finer rule, quadrature=Quadrature(nodes={2 * rule.nodes}, points={8 * rule.points}), "
        "smoother functions, or simulate."
    )


def _is_accurate(error: tuple[float, ...]) -> bool:
    return all(found <= enough for found, enough in zip(error, (ACCURATE_PAIRS, ACCURATE_SPREAD), strict=False))


def _doubt(problem: Problem, averages: QuadratureAverages, rule: Quadrature, trajectory: Trajectory) -> tuple[float, float]:
    """What the rule loses in one dimension, at the widest fields of a curve."""
    bias = [np.abs(b).max() for b in (trajectory.variables.get("bias"), problem.teacher.bias) if b is not None]
    largest = (
        np.nanmax(np.diagonal(x, axis1=-2, axis2=-1)) for x in map(np.asarray, (trajectory.variables["Q"], trajectory.T))
    )
    widths = (float(f"{np.sqrt(max(x, 0.0)) + max(bias, default=0.0):.2g}") for x in largest)
    return shortfall(averages.student, averages.teacher, rule, *widths)


def averages_error(system: OrderParameters, used: Moments, trajectory: Trajectory) -> tuple[float, float] | None:
    """Estimated relative errors of (A, B) and of G, the worst over five moments; None for closed forms."""
    # A sampled set: the spread of its scramblings. A grid: twice the change under a finer one, which misses a part of the
    # error, too. Quadrature: the same, and what the finer rule still loses in one dimension.
    if not isinstance(used, NodeMoments) and not by_quadrature(used):
        return None
    which, names = np.linspace(0, len(trajectory.times) - 1, 5).astype(int), ("R", "Q", "readout", "bias")
    seen = {name: jnp.asarray(value[which]) for name, value in trajectory.variables.items() if name in names}
    at_five = partial(_matrices, system, T=jnp.asarray(trajectory.T), seen=seen)
    if isinstance(used, NodeMoments) and used.points:
        sets = [np.asarray(part) for part in zip(*map(at_five, used.scramblings()), strict=True)]
        pairs, spread = (_worst_gap(confidence(part), 0.0, part.mean(axis=0)) for part in sets)
        return pairs, spread
    if isinstance(used, NodeMoments):
        finer, left = used.finer(), (0.0, 0.0)
    else:
        averages = system.averages
        assert isinstance(averages, QuadratureAverages)
        finer = ClosedMoments(replace(averages, rule=averages.rule.finer()))
        left = _doubt(system.problem, averages, averages.rule.finer(), trajectory)
    pairs, spread = (_worst_gap(a, b, b) for a, b in zip(at_five(used), at_five(finer), strict=True))
    return CHANGES * pairs + left[0], CHANGES * spread + left[1]


def _worst_gap(a: ArrayLike, b: ArrayLike, size: ArrayLike) -> float:
    """The largest difference, relative to the largest entry of `size`, moment by moment."""
    size = np.maximum(np.max(np.abs(np.asarray(size)), axis=(1, 2)), 1e-300)
    return float(np.max(np.max(np.abs(np.asarray(a) - np.asarray(b)), axis=(1, 2)) / size))


@eqx.filter_jit
def _matrices(system: OrderParameters, moments: Moments, T: Array, seen: dict[str, Array]) -> tuple[Array, Array]:
    """(A | B) and G with these averages at recorded field covariances."""

    def one(at: dict[str, Array]) -> tuple[Array, Array]:
        p, G = moments.matrices(system.situation(at["R"], at["Q"], T, at["readout"], at.get("bias")), False)
        return jnp.concatenate([p.A, p.B], axis=1), G

    return jax.lax.map(one, seen)


class Sampling(NamedTuple):
    """A solve with sampled averages whose points were chosen.

    points: of the set. errors: as `sampling_errors`. reached: as `relative_error`; NaN if the curve did not reach the end.
    """

    raw: Raw
    points: int
    errors: dict[str, np.ndarray]
    reached: float


def sample(
    solved: Callable[[Moments, int], Raw], averages: Callable[[int], Moments], points: int, accuracy: float, problem: Problem
) -> Sampling | None:
    """Solve with as many points as a relative accuracy needs, or as are affordable; None where JAX traces something.

    solved: of averages, with the tolerance that fits a number of points. averages: over a set of so many points.
    """
    while True:
        moments = averages(points)
        parts: list[Raw] = []
        for part in scramblings(moments):
            parts.append(solved(part, points))
            if checks.is_traced(parts[0]):
                return None
        reached = relative_error(*_spread([raw.error for raw in parts]))
        steps = float(np.mean([raw.steps for raw in parts]))
        most = _affordable(problem, moments, steps, parts[0].error.shape[0])
        needed = next_power(points * (reached / accuracy) ** (1 / RATE)) if np.isfinite(reached) else points
        larger = min(needed, most)
        if larger <= points:
            break
        points = larger
    whole = solved(moments, points)
    errors = _curve_errors(whole, parts)
    return Sampling(whole, points, errors, relative_error(np.asarray(whole.error), errors["error"]))


def next_power(count: float) -> int:
    """The smallest power of two that is not below a count, up to `MOST_POINTS`."""
    return 2 ** int(np.ceil(np.log2(min(count, MOST_POINTS))))


def _affordable(problem: Problem, moments: Moments, steps: float, times: int) -> int:
    """The largest power of two of points whose curve costs no more than `WORK` updates."""
    nodes = by_nodes(moments)
    assert nodes is not None
    K, M = problem.student.hidden, problem.references.hidden
    size = max(K * (2 * K + M) / USUAL_SIZE, 1.0)
    updates = (EVALUATIONS * steps + times) * terms_per_point(problem, nodes) * size
    return min(2 ** int(np.floor(np.log2(max(WORK / updates, 1.0)))), ROOMY)


def scramblings(moments: Moments) -> list[Moments]:
    """The averages with one of the eight independent scramblings of each sampled set."""
    sampled = lambda x: isinstance(x, NodeMoments) and bool(x.points)  # noqa: E731
    kept, sets = eqx.partition(moments, lambda x: not sampled(x), is_leaf=sampled)
    each = jax.tree.map(lambda x: x.scramblings(), sets, is_leaf=sampled)
    return [
        eqx.combine(kept, jax.tree.map(lambda x, i=i: x[i], each, is_leaf=lambda x: isinstance(x, list)), is_leaf=sampled)
        for i in range(SETS)
    ]


def _spread(each: list[Array]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the curves of eight scramblings, and the bound on its error."""
    curves = [np.asarray(curve) for curve in each]
    return np.mean(curves, axis=0), confidence(curves)


def _curve_errors(whole: Raw, parts: list[Raw]) -> dict[str, np.ndarray]:
    """By name, the bound on what a set leaves in a curve: from the spread of its parts, and what they do on average."""
    # A part deviates eight times more in the mean square than the set: so does the bias that this brings about where the curve
    # is not linear in the averages. Then the mean of the parts is off by seven biases of the whole.
    found = {}
    for name, curve in (whole.variables | {"error": whole.error}).items():
        of_parts = [raw.error if name == "error" else raw.variables[name] for raw in parts]
        mean, bound = _spread(of_parts)
        bias = np.abs(mean - np.asarray(curve)) / (SETS - 1)
        found[name] = np.nan_to_num(bound + bias, nan=np.inf)
    return found


def relative_error(error: np.ndarray, bound: np.ndarray) -> float:
    """The largest bound on an error curve, relative to the curve, or to 1% of its largest value if that is more."""
    # the last axis of several tasks has the tasks
    size = np.maximum(np.abs(error), SMALL * np.max(np.abs(error), axis=0))
    share = np.max(np.where(bound > 0, bound / np.maximum(size, 1e-300), 0.0), initial=0.0)
    return float(share) if np.isfinite(share) else float("nan")


def sampling_warning(points: int, reached: float) -> str | None:
    """One sentence if sampled averages leave more than 1% in the error curve."""
    if not reached > POOR:
        return None
    enough = next_power(points * (reached / POOR) ** (1 / RATE))
    return (
        f"the averages are sampled at {points} points, which leaves the error curve uncertain by up to {100 * reached:.2g}% "
        f"(95% confidence); it should stay below {100 * POOR:g}%. Use moments=Sampled({enough}), or simulate."
    )


def sampling_error(trajectory: Trajectory) -> float | None:
    """The relative error that sampled averages leave in the error curve; None where nothing is sampled."""
    if trajectory.accuracy is not None or "moments" not in dict(trajectory.settings):
        return trajectory.accuracy
    return relative_error(np.asarray(trajectory.error), trajectory.sampling_error)


def sampling_errors(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """By name, (time, ...): with 95% confidence the sampled averages move a curve by less than this, at all times at once."""
    settings, problem = dict(trajectory.settings), trajectory.problem
    if problem is None or trajectory.start is None or "moments" not in settings:
        return {}
    whole = moments_for(problem, None, Sampled(*settings["moments"]))
    options = Options(bool(settings.get("gradient_flow", False)), str(settings.get("solver", "explicit")), keep=False)
    steps = tolerances(float(settings.get("rtol", 1e-6)), None)
    initial, times = initial_overlaps(problem, trajectory.start), np.asarray(trajectory.times)
    parts = [run(problem, part, initial, times, steps, options) for part in scramblings(whole)]
    names = parts[0].variables
    curves = {name: np.asarray(trajectory.variables[name]) for name in names if name in trajectory.variables}
    return _curve_errors(parts[0]._replace(variables=curves, error=trajectory.error), parts)
