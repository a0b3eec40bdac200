"""Accuracy of the averages along a solved curve: error estimates and warnings.

Sampled averages. Eight solves, each with one of the eight independent scramblings of a
set, cost as much as one solve with the whole set. Their spread estimates what the whole
set misses, nonlinear growth on a plateau included. `sample` chooses the number of
points by this estimate.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.problem import Problem
from tutelage.result.trajectory import Trajectory
from tutelage.solvers.program import Options, SolveOutput, step_tolerances
from tutelage.stream.moments import Moments, Quadrature, Sampled, moments_for
from tutelage.stream.moments.matrices import ClosedMoments, MixtureMoments
from tutelage.stream.moments.node_moments import (
    CAPACITY,
    NodeMoments,
    confidence,
    terms_per_point,
)
from tutelage.stream.moments.quadrature import SETS, QuadratureAverages, shortfall
from tutelage.stream.order_parameters import OrderParameters, initial_overlaps
from tutelage.stream.program import by_nodes, by_quadrature, run

# Quadrature errors of pairs (A, B) and of G above which a solve warns.
ACCURATE_PAIRS = 1e-6
ACCURATE_SPREAD = 1e-2
# The error of a grid or a quadrature, in units of its change under finer nodes: the
# finer ones miss a part of the error, too.
CHANGES = 2
QUADRATURE = "quadrature"
CHECKED_TIMES = 5  # along a curve, at which the error of averages is estimated
POOR = 1e-2  # relative error of the error curve, by sampled averages, to warn of
# Share of the largest error of a curve below which absolute differences count.
SMALL = 1e-2
# Updates that may be averaged for one curve when the points are chosen: about five
# seconds of CPU time.
WORK = 6e7
RATE = 0.6  # the error of a sampled set falls at least like points^-RATE
MOST_POINTS = 2**22  # of a set that a warning recommends
# K (2 K + M) of three units and three teacher units: larger updates count as several.
USUAL_SIZE = 27
EVALUATIONS = 12  # of the averages in one step of the explicit solver


class AveragesError(NamedTuple):
    """Estimated relative errors of the averages: of (A, B), and of G."""

    pairs: float
    spread: float


def averages_report(
    system: OrderParameters, trajectory: Trajectory
) -> tuple[str, tuple[float, float] | None]:
    """Return how the rule is averaged, in words, and `averages_error`.

    The averages of a mixture have no error here: `sampling_errors` has it.
    """
    sampled = dict(trajectory.settings).get("moments")
    used = system.moments
    if sampled is not None:
        used = moments_for(system.problem, None, Sampled(*sampled))
    if isinstance(used, MixtureMoments):
        return f"{_described(used.of_class)} in each class", None
    error = averages_error(system, used, trajectory)
    return _described(used), error


def _described(moments: Moments) -> str:
    """Return how a rule is averaged, in words."""
    if isinstance(moments, NodeMoments):
        if moments.points:
            return f"sampled, {moments.points} points"
        return f"grid, {moments.grid} nodes per panel"
    return QUADRATURE if by_quadrature(moments) else "closed form"


def in_words(averages: str, error: tuple[float, float] | None) -> str:
    """Return the line of the validity report about averages."""
    if error is None:
        return averages
    pairs, spread = error
    line = f"{averages}, relative error {pairs:.1e} (A, B), {spread:.1e} (G)"
    if averages == QUADRATURE and not _is_accurate(error):
        line += ": NOT accurate"
    return line


def quadrature_warning(trajectory: Trajectory, moments: Moments) -> str | None:
    """Return one sentence if the averages are not accurate along a curve.

    The full estimate is made only where there is doubt.
    """
    problem = trajectory.problem
    start = trajectory.start
    averages = getattr(moments, "averages", None)
    if problem is None or start is None or not len(trajectory.times):
        return None
    if not isinstance(averages, QuadratureAverages):
        return None
    gradient_flow = dict(trajectory.settings).get("gradient_flow")
    used = 1 if gradient_flow else 2  # gradient flow does not need G
    rule = averages.rule
    if _is_accurate(_doubt(problem, averages, rule, trajectory)[:used]):
        return None
    _, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, moments=moments)
    error = averages_error(system, moments, trajectory)
    if error is None or _is_accurate(error[:used]):
        return None
    pairs, spread = error
    return (
        f"averages of these activations are accurate to {pairs:.1e} (pairs of fields) "
        f"and {spread:.1e} (G) only, relative to the largest entry; they should stay "
        f"below {ACCURATE_PAIRS:g} and {ACCURATE_SPREAD:g}. Use a finer rule, "
        f"quadrature=Quadrature(nodes={2 * rule.nodes}, points={8 * rule.points}), "
        "smoother functions, or simulate."
    )


def _is_accurate(error: tuple[float, ...]) -> bool:
    """Return True if no error is too large: that of pairs, and of G if there is one."""
    enough = (ACCURATE_PAIRS, ACCURATE_SPREAD)
    return all(size <= most for size, most in zip(error, enough, strict=False))


def _doubt(
    problem: Problem,
    averages: QuadratureAverages,
    rule: Quadrature,
    trajectory: Trajectory,
) -> AveragesError:
    """Return what the rule loses in one dimension, at the widest fields of a curve."""
    largest_bias = 0.0
    for bias in (trajectory.variables.get("bias"), problem.references.bias):
        if bias is not None:
            largest_bias = max(largest_bias, np.abs(bias).max())

    def width(covariance: ArrayLike) -> float:
        """Return the largest deviation of a field and its bias, to two digits."""
        variances = np.diagonal(np.asarray(covariance), axis1=-2, axis2=-1)
        deviation = np.sqrt(max(np.nanmax(variances), 0.0))
        return float(f"{deviation + largest_bias:.2g}")

    T: Any = trajectory.T
    pairs, spread = shortfall(
        averages.student,
        averages.teacher,
        rule,
        width(trajectory.variables["Q"]),
        width(T),
        axes=averages.K + averages.M,
    )
    return AveragesError(pairs, spread)


def averages_error(
    system: OrderParameters, used: Moments, trajectory: Trajectory
) -> AveragesError | None:
    """Return estimated relative errors of (A, B) and of G; None for closed forms.

    They are the worst over five instants of the curve.
    """
    # A sampled set: the spread of its scramblings. A grid: twice the change under a
    # finer one. Quadrature: the same, and what the finer rule still loses in one
    # dimension.
    if not isinstance(used, NodeMoments) and not by_quadrature(used):
        return None
    times = np.linspace(0, len(trajectory.times) - 1, CHECKED_TIMES).astype(int)
    recorded = {
        name: jnp.asarray(value[times])
        for name, value in trajectory.variables.items()
        if name in ("R", "Q", "readout", "bias")
    }
    T = jnp.asarray(trajectory.T)

    def matrices(moments: Moments) -> tuple[Array, Array]:
        return _matrices(system, moments, T=T, seen=recorded)

    if isinstance(used, NodeMoments):
        if used.points:
            return _scatter_of_scramblings(
                [matrices(part) for part in used.scramblings()]
            )
        change = _change(matrices(used), matrices(used.finer()))
        return AveragesError(
            pairs=CHANGES * change.pairs, spread=CHANGES * change.spread
        )
    averages = system.averages
    assert isinstance(averages, QuadratureAverages)
    finer_rule = averages.rule.finer()
    finer = ClosedMoments(replace(averages, rule=finer_rule))
    change = _change(matrices(used), matrices(finer))
    left = _doubt(system.problem, averages, finer_rule, trajectory)
    return AveragesError(
        pairs=CHANGES * change.pairs + left.pairs,
        spread=CHANGES * change.spread + left.spread,
    )


def _scatter_of_scramblings(matrices: list[tuple[Array, Array]]) -> AveragesError:
    """Return the relative error of the mean of eight scramblings, from their spread."""

    def relative(parts: list[Array]) -> float:
        of_parts = np.asarray(parts)
        return _worst_gap(confidence(of_parts), 0.0, of_parts.mean(axis=0))

    return AveragesError(
        pairs=relative([pairs for pairs, _ in matrices]),
        spread=relative([spread for _, spread in matrices]),
    )


def _change(coarse: tuple[Array, Array], fine: tuple[Array, Array]) -> AveragesError:
    """Return the relative change of (A | B) and of G under finer averages."""
    pairs, spread = coarse
    finer_pairs, finer_spread = fine
    return AveragesError(
        pairs=_worst_gap(pairs, finer_pairs, finer_pairs),
        spread=_worst_gap(spread, finer_spread, finer_spread),
    )


def _worst_gap(a: ArrayLike, b: ArrayLike, size: ArrayLike) -> float:
    """Return the largest difference of two matrices over all instants.

    It is relative to the largest entry of `size`, instant by instant.
    """
    largest = np.max(np.abs(np.asarray(size)), axis=(1, 2))
    gap = np.max(np.abs(np.asarray(a) - np.asarray(b)), axis=(1, 2))
    return float(np.max(gap / np.maximum(largest, 1e-300)))


@eqx.filter_jit
def _matrices(
    system: OrderParameters, moments: Moments, T: Array, seen: dict[str, Array]
) -> tuple[Array, Array]:
    """Return (A | B) and G with these averages at recorded field covariances."""

    def at_moment(state: dict[str, Array]) -> tuple[Array, Array]:
        field_state = system.field_state(
            state["R"], state["Q"], T, state["readout"], state.get("bias")
        )
        mean, G = moments.matrices(field_state, False)
        return jnp.concatenate([mean.A, mean.B], axis=1), G

    return jax.lax.map(at_moment, seen)


class Sampling(NamedTuple):
    """A solve with sampled averages whose points were chosen.

    points: of the set. errors: as `sampling_errors`. reached: as `relative_error`; NaN
    if the curve did not reach the end.
    """

    output: SolveOutput
    points: int
    errors: dict[str, np.ndarray]
    reached: float


def sample(
    solved: Callable[[Moments, int], SolveOutput],
    averages: Callable[[int], Moments],
    points: int,
    accuracy: float,
    problem: Problem,
) -> Sampling | None:
    """Solve with as many points as a relative accuracy needs, or as are affordable.

    Return None where JAX traces something.

    solved: of averages, with the tolerance that fits a number of points. averages: over
    a set of so many points.
    """
    while True:
        moments = averages(points)
        parts: list[SolveOutput] = []
        for part in scramblings(moments):
            parts.append(solved(part, points))
            if checks.is_traced(parts[0]):
                return None
        mean, bound = _spread([output.error for output in parts])
        reached = relative_error(mean, bound)
        steps = float(np.mean([output.steps for output in parts]))
        most = _affordable(problem, moments, steps, parts[0].error.shape[0])
        needed = points
        if np.isfinite(reached):
            needed = next_power(points * (reached / accuracy) ** (1 / RATE))
        larger = min(needed, most)
        if larger <= points:
            break
        points = larger
    whole = solved(moments, points)
    errors = _curve_errors(whole, parts)
    reached = relative_error(np.asarray(whole.error), errors["error"])
    return Sampling(output=whole, points=points, errors=errors, reached=reached)


def next_power(count: float) -> int:
    """Return the smallest power of two not below a count, at most `MOST_POINTS`."""
    return 2 ** int(np.ceil(np.log2(min(count, MOST_POINTS))))


def _affordable(problem: Problem, moments: Moments, steps: float, times: int) -> int:
    """Return the largest power of two of points whose curve costs at most `WORK`."""
    nodes = by_nodes(moments)
    assert nodes is not None
    K = problem.student.hidden
    M = problem.references.hidden
    size = max(K * (2 * K + M) / USUAL_SIZE, 1.0)
    evaluations = EVALUATIONS * steps + times
    updates_per_point = evaluations * terms_per_point(problem, nodes) * size
    points = max(WORK / updates_per_point, 1.0)
    return min(2 ** int(np.floor(np.log2(points))), CAPACITY)


def _is_sampled(tree: object) -> bool:
    """Return True for averages over a sampled set."""
    return isinstance(tree, NodeMoments) and bool(tree.points)


def _is_not_sampled(tree: object) -> bool:
    return not _is_sampled(tree)


def scramblings(moments: Moments) -> list[Moments]:
    """Return the averages with one of the eight scramblings of each sampled set."""
    kept, sets = eqx.partition(moments, _is_not_sampled, is_leaf=_is_sampled)
    by_set = jax.tree.map(lambda x: x.scramblings(), sets, is_leaf=_is_sampled)
    parts = []
    for index in range(SETS):
        chosen = jax.tree.map(
            lambda scrambled, index=index: scrambled[index],
            by_set,
            is_leaf=lambda x: isinstance(x, list),
        )
        parts.append(eqx.combine(kept, chosen, is_leaf=_is_sampled))
    return parts


def _spread(curves: list[Array]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean curve of eight scramblings, and the bound on its error."""
    arrays = [np.asarray(curve) for curve in curves]
    return np.mean(arrays, axis=0), confidence(arrays)


def _curve_errors(
    whole: SolveOutput, parts: list[SolveOutput]
) -> dict[str, np.ndarray]:
    """Return, by name, the bound on what a set leaves in a curve.

    It has the spread of its parts, and what they do on average.
    """
    # A part deviates eight times more in the mean square than the set: so does the bias
    # that this brings about where the curve is not linear in the averages. Then the
    # mean of the parts is off by seven biases of the whole.
    bounds = {}
    curves = whole.variables | {"error": whole.error}
    for name, curve in curves.items():
        if name == "error":
            of_parts = [output.error for output in parts]
        else:
            of_parts = [output.variables[name] for output in parts]
        mean, bound = _spread(of_parts)
        bias = np.abs(mean - np.asarray(curve)) / (SETS - 1)
        bounds[name] = np.nan_to_num(bound + bias, nan=np.inf)
    return bounds


def relative_error(error: np.ndarray, bound: np.ndarray) -> float:
    """Return the largest bound on an error curve, relative to the curve.

    It is relative to 1% of the largest value of the curve if that is more.
    """
    # the last axis of several tasks has the tasks
    size = np.maximum(np.abs(error), SMALL * np.max(np.abs(error), axis=0))
    shares = np.where(bound > 0, bound / np.maximum(size, 1e-300), 0.0)
    largest = np.max(shares, initial=0.0)
    return float(largest) if np.isfinite(largest) else float("nan")


def sampling_warning(points: int, reached: float) -> str | None:
    """Return one sentence if sampled averages leave more than 1% in the error curve."""
    if not reached > POOR:  # NaN too
        return None
    enough = next_power(points * (reached / POOR) ** (1 / RATE))
    return (
        f"the averages are sampled at {points} points, which leaves the error curve "
        f"uncertain by up to {100 * reached:.2g}% (95% confidence); it should stay "
        f"below {100 * POOR:g}%. Use moments=Sampled({enough}), or simulate."
    )


def sampling_error(trajectory: Trajectory) -> float | None:
    """Return the relative error that sampled averages leave in the error curve.

    None where nothing is sampled.
    """
    if trajectory.accuracy is not None:
        return trajectory.accuracy
    if "moments" not in dict(trajectory.settings):
        return None
    return relative_error(np.asarray(trajectory.error), trajectory.sampling_error)


def sampling_errors(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """Return bounds on what sampled averages move in each curve, by name, (time, ...).

    With 95% confidence they move a curve by less than this, at all times at once.
    """
    settings = dict(trajectory.settings)
    problem = trajectory.problem
    if problem is None or trajectory.start is None or "moments" not in settings:
        return {}
    whole = moments_for(problem, None, Sampled(*settings["moments"]))
    options = Options(
        gradient_flow=bool(settings.get("gradient_flow", False)),
        solver=str(settings.get("solver", "explicit")),
        keep=False,
    )
    steps = step_tolerances(float(settings.get("rtol", 1e-6)), None)
    initial = initial_overlaps(problem, trajectory.start)
    times = np.asarray(trajectory.times)
    parts = [
        run(problem, part, initial, times, steps, options)
        for part in scramblings(whole)
    ]
    curves = {
        name: np.asarray(trajectory.variables[name])
        for name in parts[0].variables
        if name in trajectory.variables
    }
    recorded = parts[0]._replace(variables=curves, error=trajectory.error)
    return _curve_errors(recorded, parts)
