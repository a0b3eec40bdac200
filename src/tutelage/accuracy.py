"""How accurately a rule is averaged along a solved curve: error estimates, and the warning where they are too large."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array, ArrayLike
from tutelage.dynamics.error import field_means
from tutelage.dynamics.order_parameters import OrderParameters, as_arrays, initial_overlaps
from tutelage.integrate.program import Options, anonymous, by_quadrature, integrate, tolerances
from tutelage.moments import (
    ClosedMoments,
    MixtureMoments,
    Moments,
    NodeMoments,
    Quadrature,
    Sampled,
    confidence,
    moments_for,
)
from tutelage.moments.averages import Averages
from tutelage.moments.matrices import joint_covariance, mean_update, update_covariance
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.moments.resolution import shortfall
from tutelage.problem import Problem
from tutelage.trajectory import Trajectory, eager

ACCURATE_PAIRS, ACCURATE_SPREAD = 1e-6, 1e-2  # quadrature errors above which a solve warns
QUADRATURE = "quadrature"


def averages_report(system: OrderParameters, trajectory: Trajectory) -> tuple[str, tuple[float, float] | None]:
    """How the rule is averaged, and the relative error of (A, B) and of G, the worst over five moments (None: closed)."""
    sampled = dict(trajectory.settings).get("moments")
    used = system.moments if sampled is None else moments_for(system.problem, None, Sampled(*sampled))
    if isinstance(used, MixtureMoments):
        return _averages_of_classes(used), None
    if isinstance(used, ClosedMoments):
        error = quadrature_error(system, trajectory)
        return "closed form" if error is None else QUADRATURE, error
    assert isinstance(used, NodeMoments)
    seen, T = _five_moments(trajectory), jnp.asarray(trajectory.T)
    if used.points:
        each = [_node_matrices(system, one, T, seen) for one in used.scramblings()]
        sets = [np.asarray(part) for part in zip(*each, strict=True)]
        both = [_worst_gap(confidence(part), 0.0, part.mean(axis=0)) for part in sets]
        return f"sampled, {used.points} points", (both[0], both[1])
    coarse, fine = (_node_matrices(system, one, T, seen) for one in (used, used.finer()))
    both = [_worst_gap(a, b, b) for a, b in zip(coarse, fine, strict=True)]
    return f"grid, {used.grid} nodes per panel", (both[0], both[1])


def _averages_of_classes(used: MixtureMoments) -> str:
    """How the rule is averaged in each class of a mixture; the errors of a sampled set are in `sampling_errors`."""
    if isinstance(used.one, NodeMoments):
        how = f"sampled, {used.one.points} points" if used.one.points else f"grid, {used.one.grid} nodes per panel"
    else:
        how = QUADRATURE if by_quadrature(used) else "closed form"
    return f"{how} in each class"


def in_words(averages: str, error: tuple[float, float] | None) -> str:
    """The line of the validity report."""
    if error is None:
        return averages
    word = "" if averages != QUADRATURE or _is_accurate(error) else ": NOT accurate"
    return f"{averages}, relative error {error[0]:.1e} (A, B), {error[1]:.1e} (G){word}"


def quadrature_warning(trajectory: Trajectory) -> str | None:
    """One sentence if the averages are not accurate along a curve. The full estimate is made only where there is doubt."""
    problem, start, settings = trajectory.problem, trajectory.start, dict(trajectory.settings)
    if problem is None or start is None or not problem.closed_form or "moments" in settings or not len(trajectory.times):
        return None
    given, gradient_flow = settings.get("quadrature"), bool(settings.get("gradient_flow", False))
    quadrature = None if given is None else Quadrature(*given)
    averages = _averages(problem, quadrature)
    if not isinstance(averages, QuadratureAverages):
        return None
    used = 1 if gradient_flow else 2
    if _is_accurate(_doubt(problem, averages, averages.rule, trajectory)[:used]):
        return None
    _, t = initial_overlaps(problem, start)
    error = quadrature_error(OrderParameters(problem, t, gradient_flow, True, quadrature), trajectory)
    if error is None or _is_accurate(error[:used]):
        return None
    rule = averages.rule
    return (
        f"averages of these activations are accurate to {error[0]:.1e} (pairs of fields) and {error[1]:.1e} (G) only, "
        f"relative to the largest entry; they should stay below {ACCURATE_PAIRS:g} and {ACCURATE_SPREAD:g}. "
        f"Use a finer rule, quadrature=Quadrature(nodes={2 * rule.nodes}, points={8 * rule.points}), "
        "smoother functions, or simulate."
    )


def _averages(problem: Problem, quadrature: Quadrature | None) -> Averages:
    moments = moments_for(problem, quadrature)
    assert isinstance(moments, ClosedMoments)
    return moments.averages


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


def quadrature_error(system: OrderParameters, trajectory: Trajectory) -> tuple[float, float] | None:
    """Estimated relative errors of (A, B) and of G; None for closed forms.

    Twice the change under a finer rule, the worst over five moments, and what the finer rule still loses in one dimension.
    """
    averages = system.averages
    if not isinstance(averages, QuadratureAverages):
        return None
    rule, finer = averages.rule, averages.rule.finer()
    seen, T = _five_moments(trajectory), jnp.asarray(trajectory.T)
    coarse, fine = (_pair_matrices(system.problem, r, T, seen) for r in (rule, finer))
    parts = [[np.concatenate(m[part], -1) for m in (coarse, fine)] for part in (slice(3), slice(3, 4))]
    gaps = [_worst_gap(a, b, b) for a, b in parts]
    left = _doubt(system.problem, averages, finer, trajectory)
    return 2 * gaps[0] + left[0], 2 * gaps[1] + left[1]


def _five_moments(trajectory: Trajectory) -> dict[str, Array]:
    which, names = np.linspace(0, len(trajectory.times) - 1, 5).astype(int), ("R", "Q", "readout", "bias")
    return {name: jnp.asarray(value[which]) for name, value in trajectory.variables.items() if name in names}


def _worst_gap(a: ArrayLike, b: ArrayLike, size: ArrayLike) -> float:
    """Largest difference relative to the largest entry of `size`, moment by moment."""
    size = np.maximum(np.max(np.abs(np.asarray(size)), axis=(1, 2)), 1e-300)
    return float(np.max(np.max(np.abs(np.asarray(a) - np.asarray(b)), axis=(1, 2)) / size))


@eqx.filter_jit
def _node_matrices(system: OrderParameters, moments: Moments, T: Array, seen: dict[str, Array]) -> tuple[Array, Array]:
    """(A | B) and G with these averages at recorded field covariances."""
    full = OrderParameters(system.problem, system.t, moments=moments)

    def one(at: dict[str, Array]) -> tuple[Array, Array]:
        p, G = full.matrices_at(at["R"], at["Q"], T, at["readout"], at.get("bias"))
        return jnp.concatenate([p.A, p.B], axis=1), G

    return jax.lax.map(one, seen)


@eqx.filter_jit
def _pair_matrices(problem: Problem, rule: Quadrature, T: Array, seen: dict[str, Array]) -> tuple[Array, ...]:
    """A, B, v_i v_j E[g'_i g'_j] (a part of A that others may cancel) and G at recorded field covariances."""
    averages, v_teacher = _averages(problem, rule), jnp.asarray(problem.teacher.readout)

    def one(at: dict[str, Array]) -> tuple[Array, ...]:
        C, mean = joint_covariance(at["R"], at["Q"], T), field_means(problem, at.get("bias"))
        p = mean_update(averages, C, mean, at["readout"], v_teacher)
        v = at["readout"]
        slopes = v[:, None] * v * averages.slopes(C, mean)[:, : v.size]
        return (
            p.A,
            p.B,
            slopes,
            update_covariance(averages, C, mean, v, v_teacher, jnp.asarray(problem.labeled_at(0.0).noise)),
        )

    return jax.lax.map(one, seen)


def sampling_errors(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """By name, (time, ...): with 95% confidence the sampled averages move a curve by less than this, at all times at once.

    Eight solves, each with one of the set's eight scramblings. These are independent, so the standard error of their mean
    estimates the error of the whole set.
    """
    settings, problem = dict(trajectory.settings), trajectory.problem
    if problem is None or "moments" not in settings:
        return {}
    whole = moments_for(problem, None, Sampled(*settings["moments"]))
    assert isinstance(whole, NodeMoments | MixtureMoments)
    parts: Sequence[Moments] = whole.scramblings()
    options = Options(bool(settings.get("gradient_flow", False)), str(settings.get("solver", "explicit")), keep=False)
    steps = tolerances(float(settings.get("rtol", 1e-6)), None)
    arrays, start, times = as_arrays(problem), as_arrays(anonymous(trajectory.start)), np.asarray(trajectory.times)
    each = [eager(integrate(arrays, part, start, times, steps, options)) for part in parts]
    curves = [raw.variables | {"error": raw.error} for raw in each]
    return {name: confidence([np.asarray(curve[name]) for curve in curves]) for name in curves[0]}
