"""Growth of the cost with units K, levels L, dimensions N and problems solved at once.

Each lies beside its baseline.
"""

import numpy as np

import tutelage as tu
from benchmarks import baseline
from benchmarks.core import committee
from benchmarks.finite import _numpy_loop, one_run
from benchmarks.measure import best_of, cores, curve, in_turns, pick

OURS = "tutelage"


def with_units():
    """One solve to alpha = 50 for K = M units."""
    units = pick((1, 2, 3, 4, 6, 8, 12), (2, 3, 4), (2,))
    times = tu.linear_times(pick(50, 50, 5))
    ours = []
    theirs = []
    for K in units:
        problem = committee(K, K)
        start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
        overlaps = [np.asarray(block) for block in (start.R, start.Q, start.T)]

        def solve(problem=problem, start=start):
            return tu.solve(problem, start, times)

        def solve_baseline(overlaps=overlaps):
            return baseline.solve(*overlaps, 0.5, times)

        solve()
        seconds, baseline_seconds, _ = in_turns(solve, solve_baseline, pick(3, 2, 1))
        ours.append(seconds)
        theirs.append(baseline_seconds)
    axes = ("units K = M", "seconds per solve")
    curve("units", f"{OURS}, 1e-8", units, ours, *axes)
    curve("units", "NumPy + LSODA, 1e-6", units, theirs, *axes)


def with_levels():
    """One solve to alpha = 100 for a power law with L levels."""
    levels = pick((1, 4, 16, 64, 256, 1024), (4, 64), (4,))
    times = np.array([0.0, 1.0, 10.0, pick(100.0, 100.0, 20.0)])
    ours = []
    theirs = []
    for L in levels:
        inputs = tu.PowerLaw(1.0, L)
        problem = committee(2, 2, 0.02, inputs)
        start = tu.random_start(problem, dim=10**9, scale=0.5, seed=0)
        overlaps = [np.asarray(block) for block in (start.R, start.Q, start.T)]
        spectrum = [np.asarray(inputs.eigenvalues), np.asarray(inputs.fractions)]

        def solve(problem=problem, start=start):
            return tu.solve(problem, start, times, rtol=1e-6)

        def solve_baseline(overlaps=overlaps, spectrum=spectrum):
            return baseline.solve(*overlaps, 0.02, times, *spectrum, method="DOP853")

        solve()
        baseline_seconds, _ = best_of(solve_baseline, 1)
        seconds, _ = best_of(solve, pick(3, 2, 1))
        theirs.append(baseline_seconds)
        ours.append(seconds)
    axes = ("levels L", "seconds per solve")
    curve("levels", OURS, levels, ours, *axes)
    curve("levels", "NumPy + DOP853", levels, theirs, *axes)


def with_dimensions():
    """One step of SGD at N."""
    dims = pick((100, 1000, 10_000, 100_000), (100, 1000), (100,))
    axes = ("dimensions N", "seconds per step")
    problem = committee(3, 3)
    for method, steps in (
        ("overlaps", pick(100_000, 100_000, 50)),
        ("weights", pick(2000, 2000, 50)),
    ):
        seconds_per_step = []
        for dim in dims:

            def run(dim=dim, steps=steps, method=method):
                return one_run(problem, dim, steps, method)

            run()
            seconds, _ = best_of(run, 2)
            seconds_per_step.append(seconds / steps)
        curve("dimensions", f"{OURS}, {method}", dims, seconds_per_step, *axes)
    steps = pick(500, 300, 10)
    seconds_per_step = []
    for dim in dims:
        seconds, _ = best_of(lambda dim=dim: _numpy_loop(dim, steps), 1)
        seconds_per_step.append(seconds / steps)
    curve("dimensions", "NumPy loop", dims, seconds_per_step, *axes)


def with_problems():
    """Problems solved at once, by the number that step together."""
    problem = committee(*pick((3, 3), (3, 3), (2, 2)))
    times = tu.linear_times(pick(100, 100, 5), 21)
    count = pick(512, 64, 8)
    sizes = pick((1, 4, 16, 64, 256), (4, 16), (4,))
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    rates = np.geomspace(0.05, 1.5, count)
    speed = []
    for size in sizes:

        def solve(size=size):
            return tu.solve_batch(
                problem, {"lr": rates}, start, times, rtol=1e-6, chunk=size
            )

        solve()
        seconds, _ = best_of(solve, pick(2, 1, 1))
        speed.append(count * cores() / seconds)
    axes = ("problems that step together", "problems per second")
    curve("problems", OURS, sizes, speed, *axes)


ALL = (with_units, with_levels, with_dimensions, with_problems)
