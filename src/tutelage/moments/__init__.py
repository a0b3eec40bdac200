"""The averages of a learning rule over one sample: all that the theory needs.

    mean        A, B with E[delta_k x] = Omega (sum_j A_kj w_j + sum_m B_km w*_m), what moves readout and bias, the loss
    covariance  G = E[delta delta^T]
`ClosedMoments` (base.py, matrices.py) uses the closed forms and quadratures of averages/ for squared loss; `NodeMoments`
(node_moments.py) averages any rule over nodes (nodes.py; the sums and their derivatives: general.py; the error: judge.py).
`moments_for` chooses.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.averages import Quadrature, averages_for
from tutelage.labels import Logistic, Real, Sign
from tutelage.moments.base import ClosedMoments, Moments
from tutelage.moments.node_moments import NodeMoments, confidence
from tutelage.moments.nodes import Sampled, jumps_of, sobol
from tutelage.problem import Problem
from tutelage.problem.traits import missing_traits
from tutelage.rules import Context, Parameters

__all__ = ["ClosedMoments", "Moments", "NodeMoments", "Sampled", "as_sampled", "confidence", "moments_for"]

GRID = 16  # nodes of each panel of the grid for one student unit and one teacher


def moments_for(
    problem: Problem, quadrature: Quadrature | None = None, sampled: Sampled | None = None, others: Iterable[Problem] = ()
) -> Moments:
    """The averages of a problem's rule: closed forms where they exist, else a grid, else a quasi-random set.

    others: problems that differ in numbers only and share these averages; labels vary if those of any one do.
    """
    student, teacher = problem.student, problem.teacher
    if problem.classic and sampled is None:
        K, M = student.hidden, teacher.hidden
        return ClosedMoments(averages_for(student.activation, teacher.activation, K, M, problem.biased, quadrature))
    K, M = student.hidden, teacher.hidden
    jumps, noisy = bool(missing_traits(problem, ("smooth",))), any(map(_is_noisy, (problem, *others)))
    if K == 1 and M == 1 and sampled is None and (not jumps or _jumps_are_known(problem, noisy)):
        none = np.zeros(0)
        return NodeMoments(none, none, GRID, jumps, noisy, None, _label_jumps(problem))
    sampled = Sampled() if sampled is None else sampled
    e = sobol(sampled.points, K + M, sampled.seed)
    return NodeMoments(e, np.full(sampled.points, 1.0 / sampled.points), 0, jumps, noisy, sampled)


def _jumps_are_known(problem: Problem, noisy: bool) -> bool:
    """Does the rule say where its update jumps? Only then can a grid be split there (and be differentiated)."""
    rule, student = problem.rule, problem.student
    if not rule.gradient:
        context = Context(student, problem.loss, jnp.ones(()), jnp.zeros(()), (jnp.zeros((1, 1)), jnp.eye(1), jnp.eye(1)))
        return bool(rule.breaks(jnp.ones(()), Parameters(jnp.asarray(student.readout)), context))
    if problem.loss.jumps and noisy and isinstance(problem.labels, Real):
        return False  # a jump for every value of the noise
    return student.activation.polynomial == (0.0, 1.0) or student.activation.function is jax.nn.relu


def as_sampled(moments: Any) -> Sampled | None:
    """The user's choice of averages: None (closed forms where they exist) or `Sampled`."""
    if moments is not None and not isinstance(moments, Sampled):
        raise InputError(f"moments is {checks.shown(moments)}; it must be None or Sampled(points=2**14).")
    return moments


def _is_noisy(problem: Problem) -> bool:
    """Does the label vary at given fields?"""
    if isinstance(problem.labels, Real) and not callable(problem.noise):
        return checks.is_traced(problem.noise) or bool(np.any(np.asarray(problem.noise) != 0))
    return problem.labels.law(problem.noise) is not None


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
def _found_jumps(kind: Any, function: Any, activation: Any, readout: float) -> tuple[float, ...]:
    """The same by search; labels of one kind and function have their jumps in one place."""
    labels = kind() if function is None else kind(function, random=False)

    def label(x: Array) -> Array:
        return labels.truth(readout * activation(x[None])[0], x[None])

    many = jax.jit(jax.vmap(label))
    return jumps_of(lambda x: np.asarray(many(jnp.asarray(x))))
