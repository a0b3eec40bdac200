"""The theory of a changed problem, solved as the theory of a comparison was."""

import warnings

import numpy as np

from tutelage._solve import solve
from tutelage.comparison.pairing import Pair, values_of
from tutelage.errors import TutelageWarning
from tutelage.problem import Problem, Start
from tutelage.solvers.program import SOLVERS
from tutelage.stream.moments import Quadrature, Sampled

# Settings of a solve that are kept as they are.
PLAIN_SETTINGS = ("gradient_flow", "rtol", "solver")
# Settings that are recorded as the arguments of a class.
AVERAGES = {"moments": Sampled, "quadrature": Quadrature}


def solve_variant(
    pair: Pair, problem: Problem, start: Start
) -> dict[str, np.ndarray] | None:
    """Solve a changed problem with the settings of the pair's theory.

    The result has the compared quantities by name. It is None if the theory was not
    solved by `solve`, or if the changed one ends before the last time.
    """
    recorded = dict(pair.solution.settings)
    if pair.solution.kind != "theory" or recorded.get("solver") not in SOLVERS:
        return None
    settings = {name: recorded[name] for name in PLAIN_SETTINGS if name in recorded}
    for name, kind in AVERAGES.items():
        if name in recorded:
            settings[name] = kind(*recorded[name])
    with warnings.catch_warnings():
        # the solve of the theory itself has warned
        warnings.simplefilter("ignore", TutelageWarning)
        solved = solve(problem, start, pair.times, **settings)
    if len(solved.times) != pair.times.size:
        return None
    return {name: values_of(solved, name) for name in pair.compared}
