"""The core: one solve, many solves, many levels, and how long a newcomer waits."""

import os
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

import tutelage as tu
from benchmarks import baseline

ROWS = []


def best_of(function, repeats=5):
    """Shortest time of a few calls, in seconds, and the last result."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = jax.block_until_ready(function())
        times.append(time.perf_counter() - begin)
    return min(times), result


def record(name, ours, theirs=None, accuracy=None, note=""):
    row = {"name": name, "seconds": ours, "baseline_seconds": theirs, "ratio": theirs and theirs / ours}
    ROWS.append(row | {"error": accuracy, "note": note})


def committee(K, M, lr=0.5, inputs=None):
    return tu.Problem(tu.Network(K, "erf"), tu.Network(M, "erf"), inputs=inputs, sgd=tu.SGD(lr))


def single_solves():
    """Warm solve to alpha = 300 at rtol 1e-8, against NumPy + LSODA at 1e-6."""
    times = tu.linear_times(300)
    for K, M in ((3, 3), (6, 6), (8, 4)):
        problem = committee(K, M)
        start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
        R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
        theirs, _ = best_of(lambda: baseline.solve(R, Q, T, 0.5, times), repeats=2)
        begin = time.perf_counter()
        tu.solve(problem, start, times)
        first = time.perf_counter() - begin
        ours, out = best_of(lambda: tu.solve(problem, start, times))
        exact = tu.solve(problem, start, times, rtol=1e-12).error
        record(f"solve erf K={K} M={M}, alpha=300", ours, theirs, np.abs(out.error - exact).max(), f"first {first:.1f} s")


def many_rates():
    """1000 learning rates at once, alpha = 100, rtol 1e-6; baseline: as many single solves."""
    problem, times = committee(3, 3), tu.linear_times(100, 21)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
    rates = np.geomspace(0.05, 1.5, 1000)
    one, _ = best_of(lambda: [baseline.solve(R, Q, T, lr, times) for lr in rates[::100]], repeats=1)
    solve = jax.jit(jax.vmap(lambda lr: tu.solve(problem.replace(lr=lr), start, times, rtol=1e-6).error))
    solve(rates)
    ours, out = best_of(lambda: solve(rates), repeats=2)
    exact = tu.solve(problem.replace(lr=rates[500]), start, times, rtol=1e-12).error
    record(
        "1000 learning rates, K=M=3, alpha=100, rtol 1e-6",
        ours,
        one * 100,
        np.abs(out[500] - exact).max(),
        f"{1000 / ours:.0f} problems/s",
    )


def many_levels():
    """A power law with 1024 levels."""
    inputs = tu.PowerLaw(1.0, 1024)
    problem, times = committee(2, 2, lr=0.02, inputs=inputs), np.array([0.0, 10, 100, 1000])
    start = tu.random_start(problem, dim=100_000, scale=0.5, seed=0)
    lam, p = np.asarray(inputs.eigenvalues), np.asarray(inputs.fractions)
    R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
    theirs, _ = best_of(lambda: baseline.solve(R, Q, T, 0.02, times, lam, p, method="DOP853"), repeats=1)
    tu.solve(problem, start, times, rtol=1e-6)
    ours, out = best_of(lambda: tu.solve(problem, start, times, rtol=1e-6), repeats=2)
    exact = tu.solve(problem, start, times, rtol=1e-10).error
    record(
        "L=1024, K=M=2, eta=.02, alpha=1000, rtol 1e-6",
        ours,
        theirs,
        np.abs(out.error - exact).max(),
        "baseline: DOP853",
    )


def cold_start():
    """A new process each time: help, import, and the command itself without and with its compile cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        run = lambda *command: subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: E731
        command = os.path.join(os.path.dirname(sys.executable), "tutelage")
        record("tutelage --help", best_of(lambda: run(command, "--help"), 3)[0])
        record(
            "import tutelage and touch solve",
            best_of(lambda: run(sys.executable, "-c", "import tutelage; tutelage.solve"), 3)[0],
        )
        record("tutelage solve, empty cache", best_of(lambda: run(command, "solve", "--quiet"), 1)[0])
        record("tutelage solve, warm cache", best_of(lambda: run(command, "solve", "--quiet"), 3)[0])


ALL = (single_solves, many_rates, many_levels, cold_start)
