"""How cost grows: with units K, levels L, dimensions N and problems solved at once, each beside its baseline."""

import numpy as np

import tutelage as tu
from benchmarks import baseline
from benchmarks.core import committee
from benchmarks.finite import START, _numpy_loop
from benchmarks.measure import best_of, cores, curve, in_turns, pick

OURS = "tutelage"


def with_units():
    """One solve to alpha = 50 for K = M units."""
    ours, theirs, units = [], [], pick((1, 2, 3, 4, 6, 8, 12), (2, 3, 4), (2,))
    times = tu.linear_times(pick(50, 50, 5))
    for K in units:
        problem = committee(K, K)
        start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
        R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
        tu.solve(problem, start, times)
        pair = in_turns(
            lambda: tu.solve(problem, start, times),
            lambda: baseline.solve(R, Q, T, 0.5, times),
            pick(3, 2, 1),
        )
        ours.append(pair[0])
        theirs.append(pair[1])
    words = ("units K = M", "seconds per solve")
    curve("units", OURS + ", 1e-8", units, ours, *words)
    curve("units", "NumPy + LSODA, 1e-6", units, theirs, *words)


def with_levels():
    """One solve to alpha = 100 for a power law with L levels."""
    ours, theirs, levels = [], [], pick((1, 4, 16, 64, 256, 1024), (4, 64), (4,))
    times = np.array([0.0, 1.0, 10.0, pick(100.0, 100.0, 20.0)])
    for L in levels:
        inputs = tu.PowerLaw(1.0, L)
        problem = committee(2, 2, 0.02, inputs)
        start = tu.random_start(problem, dim=10**9, scale=0.5, seed=0)
        lam, p = np.asarray(inputs.eigenvalues), np.asarray(inputs.fractions)
        R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
        tu.solve(problem, start, times, rtol=1e-6)
        theirs.append(
            best_of(
                lambda: baseline.solve(R, Q, T, 0.02, times, lam, p, method="DOP853"), 1
            )[0]
        )
        ours.append(
            best_of(lambda: tu.solve(problem, start, times, rtol=1e-6), pick(3, 2, 1))[
                0
            ]
        )
    curve("levels", OURS, levels, ours, "levels L", "seconds per solve")
    curve("levels", "NumPy + DOP853", levels, theirs, "levels L", "seconds per solve")


def with_dimensions():
    """One step of SGD at N."""
    dims, words = (
        pick((100, 1000, 10_000, 100_000), (100, 1000), (100,)),
        ("dimensions N", "seconds per step"),
    )
    problem = committee(3, 3)
    for method, steps in (("overlaps", 100_000), ("weights", 2000)):
        steps, taken = steps if pick(1, 1, 0) else 50, []
        for dim in dims:

            def run():
                return tu.simulate(
                    problem,
                    START,
                    dim=dim,
                    times=[0, steps / dim],
                    runs=1,
                    workers=1,
                    method=method,
                )

            run()
            taken.append(best_of(run, 2)[0] / steps)
        curve("dimensions", f"{OURS}, {method}", dims, taken, *words)
    steps = pick(500, 300, 10)
    curve(
        "dimensions",
        "NumPy loop",
        dims,
        [best_of(lambda: _numpy_loop(dim, steps), 1)[0] / steps for dim in dims],
        *words,
    )


def with_problems():
    """Problems solved at once, by the number that step together."""
    problem, times, count = (
        committee(*pick((3, 3), (3, 3), (2, 2))),
        tu.linear_times(pick(100, 100, 5), 21),
        pick(512, 64, 8),
    )
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    rates, sizes, speed = (
        np.geomspace(0.05, 1.5, count),
        pick((1, 4, 16, 64, 256), (4, 16), (4,)),
        [],
    )
    for size in sizes:

        def solve():
            return tu.solve_batch(
                problem, {"lr": rates}, start, times, rtol=1e-6, chunk=size
            )

        solve()
        speed.append(count * cores() / best_of(solve, pick(2, 1, 1))[0])
    curve(
        "problems",
        OURS,
        sizes,
        speed,
        "problems that step together",
        "problems per second",
    )


ALL = (with_units, with_levels, with_dimensions, with_problems)
