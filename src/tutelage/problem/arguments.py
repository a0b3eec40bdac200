"""The two arguments that nearly every verb takes, checked with the same sentences everywhere."""

from typing import Any

from tutelage import _checks
from tutelage._errors import InputError
from tutelage.problem.problem import Problem
from tutelage.problem.start import Start


def require_problem(problem: Any, verb: str) -> Problem:
    """The problem, if it is one and `verb` can look at its numbers."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is of type {type(problem).__name__}; {verb} takes a tutelage Problem.")
    _checks.require_known("the problem", verb, problem)
    return problem


def require_start(start: Any) -> Start:
    """The start, if it is one."""
    if not isinstance(start, Start):
        given = type(start).__name__
        raise InputError(f"start is of type {given}; make one with Start, random_start or start_from_weights.")
    return start
