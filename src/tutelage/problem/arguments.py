"""Arguments that many verbs take: a problem, a start, a pair of weights; checked with the same sentences everywhere."""

from collections.abc import Iterable, Sequence
from typing import Any

from tutelage import checks
from tutelage._errors import InputError, kind_of
from tutelage.problem.problem import Problem
from tutelage.problem.start import Start
from tutelage.problem.traits import CLASSIC, require_traits


def require_problem(problem: Any, verb: str, needs: Iterable[str] = CLASSIC) -> Problem:
    """The problem, if it is one, `verb` can look at its numbers, and it has the traits that `verb` needs."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {kind_of(problem)}; {verb} takes a tutelage Problem.")
    checks.require_untraced("the problem", verb, problem)
    require_traits(problem, verb, needs)
    return problem


def require_start(start: Any) -> Start:
    """The start, if it is one."""
    if not isinstance(start, Start):
        raise InputError(f"start is {kind_of(start)}; make one with Start, random_start or start_from_weights.")
    return start


def require_pair(weights: Any) -> tuple[Any, Any]:
    """W and W_teacher, if there are two."""
    if not isinstance(weights, Sequence) or len(weights) != 2:
        raise InputError(f"weights is {kind_of(weights)}; it must be a pair (W, W_teacher) of shapes (K, N) and (M, N).")
    return weights[0], weights[1]
