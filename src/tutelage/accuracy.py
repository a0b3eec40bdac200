"""How accurately a rule is averaged along a solved curve: error estimates, and the warning where they are too large."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array, ArrayLike
from tutelage.dynamics.order_parameters import OrderParameters, as_arrays, initial_overlaps
from tutelage.integrate.program import Options, by_quadrature, eager, integrate, tolerances
from tutelage.moments import Moments, Quadrature, Sampled, moments_for
from tutelage.moments.matrices import ClosedMoments, MixtureMoments
from tutelage.moments.node_moments import NodeMoments, confidence
from tutelage.moments.quadrature import QuadratureAverages, shortfall
from tutelage.problem import Problem
from tutelage.trajectory import Trajectory

ACCURATE_PAIRS, ACCURATE_SPREAD = 1e-6, 1e-2  # quadrature errors above which a solve warns
QUADRATURE = "quadrature"


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
    # A sampled set: the spread of its scramblings. A grid: the change under a finer one. Quadrature: twice that change, and
    # what the finer rule still loses in one dimension.
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
        finer, safety, left = used.finer(), 1, (0.0, 0.0)
    else:
        averages = system.averages
        assert isinstance(averages, QuadratureAverages)
        finer, safety = ClosedMoments(replace(averages, rule=averages.rule.finer())), 2
        left = _doubt(system.problem, averages, averages.rule.finer(), trajectory)
    pairs, spread = (_worst_gap(a, b, b) for a, b in zip(at_five(used), at_five(finer), strict=True))
    return safety * pairs + left[0], safety * spread + left[1]


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


def sampling_errors(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """By name, (time, ...): with 95% confidence the sampled averages move a curve by less than this, at all times at once."""
    # Eight solves, each with one of the set's eight scramblings. These are independent, so the standard error of their mean
    # estimates the error of the whole set.
    settings, problem = dict(trajectory.settings), trajectory.problem
    if problem is None or trajectory.start is None or "moments" not in settings:
        return {}
    whole = moments_for(problem, None, Sampled(*settings["moments"]))
    assert isinstance(whole, NodeMoments | MixtureMoments)
    parts: Sequence[Moments] = whole.scramblings()
    options = Options(bool(settings.get("gradient_flow", False)), str(settings.get("solver", "explicit")), keep=False)
    steps = tolerances(float(settings.get("rtol", 1e-6)), None)
    initial, times = initial_overlaps(problem, trajectory.start), np.asarray(trajectory.times)
    each = [eager(integrate(as_arrays(problem), part, initial, times, steps, options)) for part in parts]
    curves = [raw.variables | {"error": raw.error} for raw in each]
    return {name: confidence([np.asarray(curve[name]) for curve in curves]) for name in curves[0]}
