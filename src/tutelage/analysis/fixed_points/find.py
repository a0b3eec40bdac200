"""Where the dynamics stands still, and what happens beside it: plateaus, perfect learning, noisy asymptotic states.

A plateau is approached by a solve inside the symmetric subspace (symmetry.py), which neither the solve nor the search for
the root can leave. Perfect learning is known (dynamics/perfect.py); noise and weight decay move it, and it is followed.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.fixed_points.constant_rates import with_constant_rates
from tutelage.analysis.fixed_points.mode_names import named_modes
from tutelage.analysis.fixed_points.result import FAR, FixedPoint
from tutelage.analysis.fixed_points.roots import Field, Root, approach, least_eigenvalue
from tutelage.analysis.fixed_points.symmetry import (
    Subspace,
    classes,
    copied_subspace,
    free_subspace,
    same,
    symmetric_subspace,
)
from tutelage.averages import Quadrature, as_rule
from tutelage.dynamics import OrderParameters, generalization_error, initial_overlaps
from tutelage.dynamics.copies import copies_of_teachers, perfect_overlaps
from tutelage.dynamics.linearized import drift_at, flatten, jacobian
from tutelage.dynamics.overlaps import Overlaps
from tutelage.dynamics.perfect import is_kinked, perfect_jacobian, perfection, quadrature_of, require_small
from tutelage.problem import Problem, Start
from tutelage.problem.traits import CLASSIC, SMOOTH, require_traits

SMALL = 0.1  # length of the student vectors from which a plateau is approached
SHORTEST = 1e-4  # smallest share of noise and weight decay by which the perfect solution is followed


def fixed_point(
    problem: Problem, near: Any = "plateau", *, gradient_flow: bool = False, quadrature: Quadrature | None = None
) -> FixedPoint:
    """The fixed point of the dynamics near a place, to machine precision, with its modes.

    near: "plateau", where equal units are still alike: the end of a solve from small weights inside the symmetric
    subspace. "perfect": every teacher has its copy among the students, extra students are zero; label noise and weight
    decay move this point, and the moved one is returned: the state that learning ends in. Or a `Start`, from which the
    nearest root is sought (`distance` says how far away it was). Learning rates must be constant.
    gradient_flow: terms of order eta only. Equal students are then copies of each other on a plateau (q_ij = q_ii), for
    nothing of that order drives them apart. quadrature: as in `solve`.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> plateau = tu.analysis.fixed_point(problem, gradient_flow=True)
    >>> plateau.Q.round(6)                                                # 1/(2K - 1)
    array([[0.333333, 0.333333],
           [0.333333, 0.333333]])
    >>> round(plateau.error, 8), len(plateau.unstable)
    (0.01161084, 1)
    """
    problem, quadrature = with_constant_rates(problem, "fixed_point", SMOOTH), as_rule(quadrature)
    gradient_flow = checks.as_flag("gradient_flow", gradient_flow)
    require_small(problem)
    if isinstance(near, Start):
        return _from_start(problem, near, gradient_flow, quadrature)
    find = _perfect if checks.known("near", near, ("plateau", "perfect")) == "perfect" else _plateau
    if find is _perfect:
        require_traits(problem, "fixed_point near 'perfect'", CLASSIC)
    if problem.sgd.trainable is not None:
        raise InputError("some levels are frozen, at overlaps that only a start knows; give a Start instead of a word.")
    K, M = problem.student.hidden, problem.teacher.hidden
    blank, t = initial_overlaps(problem, Start(np.zeros((K, M)), np.zeros((K, K))))
    return find(OrderParameters(problem, t, gradient_flow, quadrature=quadrature), blank)


def _from_start(problem: Problem, start: Start, gradient_flow: bool, quadrature: Quadrature | None) -> FixedPoint:
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, gradient_flow, quadrature=quadrature)
    field = Field(system, state, free_subspace(problem, state))
    found = field.root(field.subspace.coordinates(flatten(state)))
    if found is None:
        raise InputError("no fixed point was found from this start; give a nearer one, such as the end of a long solve.")
    least = least_eigenvalue(found.state, t)
    if least < -1e-8:
        raise InputError(
            f"the root nearest to this start has overlaps of no real vectors (eigenvalue {least:.3g}); give a nearer start."
        )
    return describe(system, found)


def _plateau(system: OrderParameters, blank: Overlaps) -> FixedPoint:
    problem, t = system.problem, system.t
    state = _small_symmetric_state(problem, t, blank)
    even = problem.student.activation.parity == 1
    subspace = symmetric_subspace(problem, t, state, copies=system.gradient_flow and not even)
    if subspace.size == free_subspace(problem, state).size:
        raise InputError("no two units of this problem are equal, so no symmetry holds it on a plateau; give a Start.")
    found = approach(Field(system, state, subspace), subspace.coordinates(flatten(state)))
    return describe(system, found)


def _small_symmetric_state(problem: Problem, t: Array, blank: Overlaps) -> Overlaps:
    """Small student vectors that see all teachers alike, along v_k (v* . w*), each with as long a part of its own."""
    v, v_teacher = np.asarray(blank.readout), np.asarray(problem.teacher.readout)
    direction = np.asarray(t) @ v_teacher  # (L, M)
    length = np.einsum("l,lm,m->", np.asarray(problem.inputs.weights), direction, v_teacher)
    along = SMALL / np.sqrt(max(float(length), 1e-12)) * v / max(float(np.max(np.abs(v))), 1e-12)
    r = along[:, None] * direction[:, None, :]
    q = along[:, None] * along * (direction @ v_teacher)[:, None, None] + SMALL**2 * np.eye(v.size)
    return Overlaps(jnp.asarray(r), jnp.asarray(q), blank.readout, blank.bias, None)


def _perfect(system: OrderParameters, blank: Overlaps) -> FixedPoint:
    problem, t = system.problem, system.t
    U0 = copies_of_teachers(problem)
    state = perfect_overlaps(problem, t, U0)
    noise, decay = float(problem.noise), float(problem.sgd.weight_decay)
    if decay == 0 and (noise == 0 or system.gradient_flow):
        if is_kinked(system):
            raise InputError(
                f"{problem.student.activation.name!r} has a kink: the dynamics has no derivative, and so no modes, where a "
                "student meets its teacher. Use a smooth activation, such as 'softplus' or 'gelu', or add noise."
            )
        return describe(system, Root(state, 0.0, True), perfect_jacobian(system, state))
    extra, v = np.abs(U0).sum(axis=1) == 0, np.asarray(state.readout)
    alike = classes(v.size, lambda i, j: bool(extra[i] and extra[j]) and same(v[i], v[j]))
    return describe(system, _moved(system, state, copied_subspace(problem, state, alike)))


def _moved(system: OrderParameters, state: Overlaps, subspace: Subspace) -> Root:
    """The perfect solution followed to the noise and weight decay of the problem; equal extra units stay copies.

    Where it is one of many (or its modes are unknown), the dynamics itself must choose: integrate from there.
    """
    problem, y = system.problem, subspace.coordinates(flatten(state))
    if is_kinked(system) or not perfection(problem.replace(weight_decay=0.0), system.t, quadrature_of(system)).isolated:
        return approach(Field(system, state, subspace), y)
    share, step, found = 0.0, 0.01, None
    while share < 1.0:
        tried = min(1.0, share + step)
        lighter = problem.replace(noise=problem.noise * np.sqrt(tried), weight_decay=problem.sgd.weight_decay * tried)
        found = Field(eqx.tree_at(lambda s: s.problem, system, lighter), state, subspace).root(y)
        if found is not None and found.distance < FAR and least_eigenvalue(found.state, system.t) > -1e-8:
            share, step, y = tried, 3 * step, subspace.coordinates(flatten(found.state))
        else:
            step /= 4
        if step < SHORTEST:
            raise InputError(
                f"the perfect solution is lost at {share:.3g} of this noise and weight decay, at learning rate "
                f"{float(problem.sgd.lr):g}; lower them (see critical_learning_rate)."
            )
    assert found is not None
    return Root(found.state, float(np.max(np.abs(flatten(found.state) - flatten(state)))), found.stable)


def describe(system: OrderParameters, found: Root, J: np.ndarray | None = None) -> FixedPoint:
    """Error, residual and modes at a root. J: the Jacobian there, if it needed care."""
    state, free = found.state, free_subspace(system.problem, found.state)
    J = np.asarray(jacobian(system, 0.0, state)) if J is None else J
    drift = np.asarray(drift_at(system, flatten(state), state)) @ free.embed
    R, Q, T = system.covariances(state)
    return FixedPoint(
        problem=system.problem,
        gradient_flow=system.gradient_flow,
        state=state,
        t=np.asarray(system.t),
        error=float(generalization_error(system.problem, R, Q, T, state.readout, state.bias, quadrature_of(system))),
        residual=float(np.max(np.abs(drift), initial=0.0)),
        modes=named_modes(state, np.asarray(system.t), J, free),
        distance=found.distance,
    )
