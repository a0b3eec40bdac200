"""The gaps between a theory and its runs, without a verdict."""

import numpy as np

from tutelage.comparison.pairing import match, pair
from tutelage.comparison.verdict import Gap
from tutelage.result.trajectory import Trajectory


def gaps(theory: Trajectory, runs: Trajectory) -> dict[str, Gap]:
    """Return the gap of the error and of each order parameter, without a verdict.

    It pairs and matches hidden units as `compare` does, and nothing else: no gap of order
    1/N is expected, and nothing is solved again.

    Parameters
    ----------
    theory, runs : Trajectory
        The results of `solve` and `simulate`, as for `compare`.

    Returns
    -------
    dict of Gap
        By name ("error", "R", "Q", ...), each with `theory`, `mean`, `standard_error` and
        `z` of shapes (time, ...). z of few runs is as improbable as the same z of many.

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem, dim=1000)
    >>> times = tu.linear_times(10, 11)
    >>> theory = tu.solve(problem, start, times=times)
    >>> runs = tu.simulate(problem, start, times=times, runs=10, seed=1)
    >>> found = tu.gaps(theory, runs)
    >>> list(found), found["R"].z.shape
    (['error', 'R', 'Q'], (11, 2, 2))
    """
    matched, _ = match(pair(theory, runs))
    found = {}
    for name in matched.compared:
        curve = matched.theory[name]
        found[name] = Gap(
            name=name,
            theory=curve,
            runs=matched.runs[name],
            expected=np.zeros_like(curve),
            rough=False,
        )
    return found
