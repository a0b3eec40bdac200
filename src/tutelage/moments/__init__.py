"""The averages of a learning rule over one sample: all that the theory needs.

    mean        A, B with E[delta_k x] = Omega (sum_j A_kj w_j + sum_m B_km w*_m), what moves readout and bias, the loss
    covariance  G = E[delta delta^T]
`moments_for` chooses between two kinds of `Moments` (matrices.py). `ClosedMoments` serves squared loss: five Gaussian
averages of the activations (averages.py) in closed form (erf.py, relu.py, polynomial.py) or by quadrature (quadrature.py,
resolution.py); integrals.py has the textbook integrals. `NodeMoments` (node_moments.py) averages any rule over nodes.
`TaskMoments` (matrices.py) mixes the moments of several tasks, `MixtureMoments` (mixture_moments.py) those of classes.
Point sets: nodes.py; safe roots and factors: numerics.py.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._jump_search import find_breaks
from tutelage._types import Array
from tutelage.errors import InputError
from tutelage.labels import Labels, Logistic, Real, Sign
from tutelage.moments.averages import Averages
from tutelage.moments.integrals import I2, I3, I4, J2
from tutelage.moments.matrices import ClosedMoments, MeanUpdate, Moments, TaskMoments, averages_for, single_moments
from tutelage.moments.mixture_moments import MixtureMoments
from tutelage.moments.node_moments import NodeMoments, confidence, has_boundary
from tutelage.moments.nodes import MANY, REACH, Quadrature, Sampled, sobol
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.problem import Mixture, Problem, Tasks
from tutelage.problem.activation import Activation
from tutelage.problem.schedules import is_schedule
from tutelage.problem.traits import missing_traits
from tutelage.rules import Context, Parameters, PerUnit, Reinforce, is_proportional

__all__ = [
    "I2",
    "I3",
    "I4",
    "J2",
    "Averages",
    "ClosedMoments",
    "MeanUpdate",
    "MixtureMoments",
    "Moments",
    "NodeMoments",
    "Quadrature",
    "Sampled",
    "TaskMoments",
    "as_quadrature",
    "as_sampled",
    "averages_for",
    "confidence",
    "is_cheap",
    "moments_for",
    "single_moments",
]

MOST_LABEL_JUMPS = 16  # more are not followed one by one
GRID, GRID_OF_THREE = 16, 12  # nodes of each panel of the grid for two fields, for three
FINE_GRID = 32  # for rules that look at moved fields, or that learn from all samples on both sides of a jump


def as_quadrature(value: object) -> Quadrature | None:
    """The user's quadrature, or None for the usual one."""
    if value is not None and not isinstance(value, Quadrature):
        raise InputError(f"quadrature is {checks.shown(value)}; it must be a Quadrature, such as Quadrature(nodes=96).")
    return value


def as_sampled(value: object) -> Sampled | None:
    """The user's choice of averages: None (closed forms where they exist) or `Sampled`."""
    if value is not None and not isinstance(value, Sampled):
        raise InputError(f"moments is {checks.shown(value)}; it must be None or Sampled(points=2**14).")
    return value


def moments_for(
    problem: Problem, quadrature: Quadrature | None = None, sampled: Sampled | None = None, others: Iterable[Problem] = ()
) -> Moments:
    """The averages of a problem's rule: closed forms where they exist, else a grid, else a quasi-random set.

    others: problems that differ in numbers only and share these averages; labels vary if those of any one do.
    """
    if isinstance(problem.teacher, Tasks):
        alike = list(zip(problem.tasks, *(other.tasks for other in others), strict=True))
        return TaskMoments(tuple(moments_for(one, quadrature, sampled, same) for one, *same in alike))
    if isinstance(problem.inputs, Mixture):
        return _mixture_moments(problem, quadrature, sampled, [other.in_class() for other in others])
    if problem.closed_form and sampled is None:
        return _closed_moments(problem, quadrature)
    return _node_moments(problem, sampled, others)


def _closed_moments(problem: Problem, quadrature: Quadrature | None) -> ClosedMoments:
    student, teacher = problem.student, problem.teacher
    activations, units = (student.activation, teacher.activation), (student.hidden, teacher.hidden)
    return ClosedMoments(averages_for(*activations, *units, problem.biased, quadrature))


def _mixture_moments(
    problem: Problem, quadrature: Quadrature | None, sampled: Sampled | None, others: Iterable[Problem]
) -> MixtureMoments:
    """The moments of one class. Fields have means: what no closed form covers is averaged over nodes unless asked otherwise,
    for pairs of fields with means by quadrature are slow."""
    inside = problem.in_class()
    if inside.closed_form and sampled is None:
        closed = _closed_moments(inside, quadrature)
        if quadrature is not None or not isinstance(closed.averages, QuadratureAverages):
            return MixtureMoments(closed)
    return MixtureMoments(_node_moments(inside, sampled, others, still=problem.teacher is None))


def _node_moments(problem: Problem, sampled: Sampled | None, others: Iterable[Problem], still: bool = False) -> NodeMoments:
    """A grid for few fields, else a quasi-random set. still: the field of the only teacher does not vary."""
    K, M = problem.student.hidden, problem.teacher.hidden
    jumps, noisy = bool(missing_traits(problem, ("smooth",))), any(map(_is_noisy, (problem, *others)))
    if sampled is None:
        grid = 0
        if K == M == 1 and (not jumps or _jumps_are_known(problem, noisy)):
            grid = FINE_GRID if problem.rule.moves_fields or isinstance(problem.rule, Reinforce) else GRID
        elif K + M in (3, 3 + still) and not jumps and _suits_few_fields(problem):
            grid = GRID_OF_THREE
        if grid:
            return NodeMoments(None, grid, jumps, noisy, _label_jumps(problem) if M == 1 else (), still=still)
        sampled = Sampled()
    law = problem.rule.law(K, 0.0)
    own = law.numbers(sampled.points, sampled.seed) if isinstance(law, PerUnit) and not law.enumerable else None
    e = sobol(sampled.points, K + M - still, sampled.seed)
    e = np.pad(e, ((0, 0), (1, 0))) if still else e
    return NodeMoments(e, 0, jumps, noisy, (), own, still)


def is_cheap(problem: Problem) -> bool:
    """Are the averages made without many draws of xi at each of many points? Then hundreds of them take seconds."""
    law = problem.rule.law(problem.student.hidden, 0.0)
    return (
        not isinstance(law, PerUnit)
        or len(law.patterns()[1]) == 1
        or problem.student.hidden * problem.references.hidden == 1
    )


def _suits_few_fields(problem: Problem) -> bool:
    """Is the update free of bends, and is it known where the labels jump? Then a grid of three fields beats a sample."""
    teacher, labels = problem.teacher, problem.labels
    if problem.rule.moves_fields:
        return False
    if problem.loss.breaks(jnp.ones(())) if problem.rule.uses_loss else _rule_breaks(problem):
        return False
    if teacher.hidden == 2:
        return type(labels) is Real and teacher.activation.smooth
    return teacher.outputs == 1 and (labels.metric != "class" or has_boundary(problem.student))


def _jumps_are_known(problem: Problem, noisy: bool) -> bool:
    """Does the rule say where its update jumps? Only then can a grid be split there (and be differentiated)."""
    student, loss = problem.student, problem.loss
    if not problem.rule.uses_loss:
        return _rule_breaks(problem)
    if problem.rule.moves_fields:
        return False
    if loss.jumps and (not loss.breaks(jnp.ones(())) or not is_proportional(student.activation)):
        return False
    if loss.jumps and noisy and isinstance(problem.labels, Real):
        return False  # a jump for every value of the noise
    return len(student.activation.breaks) <= MANY


def _rule_breaks(problem: Problem) -> bool:
    """Does the rule list fields at which its update jumps or bends?"""
    K, M = problem.student.hidden, problem.teacher.hidden
    overlaps = jnp.zeros((K, M)), jnp.eye(K), jnp.eye(M)
    context = Context(problem.student, problem.loss, jnp.ones(()), jnp.zeros(()), overlaps)
    return bool(problem.rule.breaks(jnp.ones(()), Parameters(jnp.asarray(problem.student.readout)), context))


def _is_noisy(problem: Problem) -> bool:
    """Does the label vary at given fields?"""
    if is_schedule(problem.noise):
        return True
    law = problem.labels.law(problem.noise)
    if isinstance(problem.labels, Real) and not callable(problem.noise):
        return checks.is_traced(problem.noise) or bool(np.any(np.asarray(problem.noise) != 0))
    return law is not None


def _label_jumps(problem: Problem) -> tuple[float, ...]:
    """Where the noiseless label jumps or bends, as a function of the single teacher's field."""
    teacher, labels = problem.teacher, problem.labels
    g = teacher.activation
    if type(labels) is Sign and g.parity == -1 and g.increasing:
        return (0.0,)
    if type(labels) in (Real, Logistic) and g.smooth:
        return ()
    if checks.is_traced(labels, teacher):
        return ()
    return _found_jumps(type(labels), getattr(labels, "function", None), g, float(np.ravel(teacher.readout)[0]))


@lru_cache(maxsize=32)
def _found_jumps(
    kind: Callable[..., Labels], function: Callable | None, activation: Activation, readout: float
) -> tuple[float, ...]:
    """The same by search; labels of one kind and function have their jumps in one place."""
    labels = kind() if function is None else kind(function, random=False)

    def label(x: Array) -> Array:
        return labels.truth(readout * activation(x[None])[0], x[None])

    many = jax.jit(jax.vmap(label))
    places = find_breaks(lambda x: np.asarray(many(jnp.asarray(x))), REACH)
    return tuple(places) if len(places) <= MOST_LABEL_JUMPS else ()
