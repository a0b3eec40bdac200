"""Descents from a point to an optimum, and the test that it is one.

The maximum over tasks bends where two tasks are equal. A descent first follows a smooth
maximum and then minimizes s subject to e_task <= s, for all tasks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import (
    NonlinearConstraint,
    OptimizeResult,
    approx_fprime,
    linprog,
    minimize,
)

from tutelage.analysis.protocols.evaluation import Evaluation, by_value, evaluate
from tutelage.analysis.protocols.search import FAILED, FEASIBLE, Search

SHORT = 10  # iterations of the first descents, after which the best ones go on
ACTIVE = 1e-4  # tasks whose error is this close to the largest, relatively, decide

# Of the range: distances from the best point to which a descent goes, one by one.
REACHES = (1.0, 0.2, 0.05, 1.0)
CONVERGED = 1e-3  # a slope that is small enough
AT_BOUND = 1e-6  # of the range: a control this close to a bound lies on it


def _no_tick() -> None:
    """Count no iteration."""


def descend(
    search: Search,
    point: np.ndarray,
    iterations: int,
    kept: list[Evaluation],
    tick: Callable[[], object] = _no_tick,
) -> None:
    """Descend from a point, and keep what is met within bounds and budgets.

    tick: called after each iteration.
    """
    first = len(kept)
    latest: list[Evaluation] = []

    def evaluated(point: np.ndarray) -> Evaluation:
        """Return value and slopes, which SciPy asks for separately."""
        if latest and np.array_equal(latest[0].point, point):
            return latest[0]
        evaluation = evaluate(search, np.clip(point, 0.0, 1.0))
        latest[:] = [evaluation]
        whole = search.whole(evaluation.point)
        if evaluation.value < FAILED and search.keeps_budgets(whole):
            kept.append(evaluation)
        return evaluation

    def best() -> Evaluation:
        return min(kept[first:], key=by_value)

    def has_converged() -> bool:
        return bool(kept[first:]) and free_slope(search, best()) < CONVERGED

    budgets = _budget_constraints(search)
    used = 0
    # After a first step that is too long all further points diverge: then look nearby.
    for reach in REACHES:
        center = best().point if kept[first:] else point
        bounds = np.stack([center - reach, center + reach], axis=1)
        result: OptimizeResult = minimize(
            lambda point: evaluated(point).smooth,
            center,
            jac=True,
            method="SLSQP" if budgets else "L-BFGS-B",
            bounds=np.clip(bounds, 0.0, 1.0),
            constraints=budgets,
            callback=lambda _: tick(),
            options={"maxiter": max(iterations - used, 1), "ftol": 1e-9},
        )
        used += result.nit
        if used >= iterations or has_converged():
            break
    is_long = iterations > SHORT
    if is_long and kept[first:] and best().parts.size > 1:
        lower_the_largest(best(), evaluated, budgets, iterations)


def _budget_constraints(search: Search) -> list[Any]:
    """Return the budgets as constraints of SciPy; none if no control has one."""
    limited = np.isfinite(search.budgets).any(axis=1)
    if not limited.any():
        return []

    def spent(point: np.ndarray) -> np.ndarray:
        return search.spent(search.whole(point))[limited]

    least, most = search.budgets[limited].T
    return [NonlinearConstraint(spent, least, most)]


def lower_the_largest(
    best: Evaluation,
    evaluated: Callable[[np.ndarray], Evaluation],
    budgets: list[Any],
    iterations: int,
) -> None:
    """Go on from a point to the least maximum of the parts.

    Minimize s subject to parts <= s: the smooth maximum is lowest elsewhere, and the
    maximum bends where two parts are equal. The variables are the point and, last, s.
    """
    size = best.point.size
    slope_of_s = np.eye(size + 1)[-1]

    def below(variables: np.ndarray) -> np.ndarray:
        return variables[-1] - evaluated(variables[:-1]).parts

    def slopes_below(variables: np.ndarray) -> np.ndarray:
        slopes = evaluated(variables[:-1]).slopes
        return np.concatenate([-slopes, np.ones((len(slopes), 1))], axis=1)

    constraints: list[Any] = [{"type": "ineq", "fun": below, "jac": slopes_below}]
    constraints += [_without_last(budget) for budget in budgets]
    minimize(
        lambda variables: (variables[-1], slope_of_s),
        np.append(best.point, best.value),
        jac=True,
        method="SLSQP",
        bounds=[*[(0.0, 1.0)] * size, (best.value - 5.0, best.value + 5.0)],
        constraints=constraints,
        options={"maxiter": iterations, "ftol": 1e-10},
    )


def _without_last(budget: Any) -> NonlinearConstraint:
    """Return a constraint of a point as one of variables with one number more."""
    return NonlinearConstraint(
        lambda variables: budget.fun(variables[:-1]), budget.lb, budget.ub
    )


def free_slope(search: Search, evaluation: Evaluation) -> float:
    """Return the largest slope that bounds, budgets and equal parts leave free.

    It is 0 at an optimum. It follows from the multipliers of Karush, Kuhn and Tucker
    that make it smallest, a linear program: those of the parts that are largest (zero
    or more, with the sum one), and those of the budgets that are used up (of the sign
    that their side has).
    """
    z = evaluation.point
    spent = search.spent(search.whole(z))
    spent_slopes: Any = approx_fprime(z, lambda z: search.spent(search.whole(z)))
    rows = np.atleast_2d(spent_slopes)
    least, most = search.budgets.T
    at_most = rows[most - spent < 10 * FEASIBLE]
    at_least = -1.0 * rows[spent - least < 10 * FEASIBLE]
    is_largest = evaluation.parts >= evaluation.value - ACTIVE
    largest = evaluation.slopes[is_largest]
    slopes = np.concatenate([largest, at_most, at_least])
    falling = slopes[:, z < 1 - AT_BOUND]  # may still be raised: -slope <= t
    rising = slopes[:, z > AT_BOUND]  # may still be lowered: slope <= t
    if len(slopes) == 1:
        return float(np.max(np.append(-falling[0], rising[0]), initial=0.0))
    # Minimize t over multipliers mu >= 0 with -t <= sum_i mu_i slope_i <= t in every
    # direction that its bound leaves free (Karush, Kuhn and Tucker: t = 0 at an
    # optimum). The variables are mu and, last, t.
    table = np.concatenate([-falling.T, rising.T])
    result = linprog(
        np.append(np.zeros(len(slopes)), 1.0),
        A_ub=np.concatenate([table, -np.ones((len(table), 1))], axis=1),
        b_ub=np.zeros(len(table)),
        A_eq=[np.append(np.arange(len(slopes)) < len(largest), 0.0)],
        b_eq=[1.0],
        bounds=(0.0, None),
    )
    if not result.success:
        return float(np.max(np.abs(largest)))
    return float(result.fun)
