"""The finite network: steps per second at any N, and SGD on weights against drawing its inputs and a NumPy loop."""

import time

import numpy as np
from scipy.special import erf

import tutelage as tu
from benchmarks.core import best_of, committee, record

START = tu.Start(R=0.3 * np.eye(3) + 0.1, Q=0.5 * np.eye(3))


def overlaps():
    """Exact in law, K=M=3: a million steps at N = 100 and at N = 10^6, one worker."""
    problem, steps = committee(3, 3), 1_000_000
    for dim in (100, 1_000_000):
        run = lambda dim=dim: tu.simulate(problem, START, dim=dim, times=[0, steps / dim], runs=1, workers=1)  # noqa: E731
        run()
        seconds, _ = best_of(run, repeats=3)
        record(f"overlaps, K=M=3, N={dim:.0e}, 1e6 steps", seconds, note=f"{steps / seconds / 1e6:.2f} M steps/s")
    begin = time.perf_counter()
    tu.simulate(problem, START, dim=1_000_000, times=[0, 10], runs=2)
    record("overlaps, N=1e6 to alpha=10, 2 runs on all cores", time.perf_counter() - begin, note="2e7 steps")


def weights():
    """SGD on actual weights, N=1000, K=M=3, 1e5 samples; baseline: a plain NumPy loop; and merely drawing the inputs."""
    problem, dim, steps = committee(3, 3), 1000, 100_000
    run = lambda: tu.simulate(problem, START, dim=dim, times=[0, steps / dim], runs=1, workers=1, method="weights")  # noqa: E731
    run()
    ours, _ = best_of(run, repeats=2)
    draw, _ = best_of(lambda: _draw(dim, steps), repeats=2)
    loop, _ = best_of(lambda: _numpy_loop(dim, steps // 10), repeats=1)
    record("weights, N=1000, 1e5 samples (baseline: NumPy loop)", ours, loop * 10)
    record("weights, N=1000, 1e5 samples (baseline: drawing inputs)", ours, draw, note=f"{ours / draw:.2f} x drawing")


def _draw(dim, steps):
    rng = np.random.Generator(np.random.SFC64(0))
    for _ in range(steps // 100):
        rng.standard_normal((100, dim))


def _numpy_loop(dim, steps, lr=0.5):
    rng = np.random.default_rng(0)
    W, W_teacher = rng.standard_normal((3, dim)), rng.standard_normal((3, dim))
    for _ in range(steps):
        x = rng.standard_normal(dim)
        fields, targets = W @ x / np.sqrt(dim), W_teacher @ x / np.sqrt(dim)
        delta = erf(targets / np.sqrt(2)).sum() - erf(fields / np.sqrt(2)).sum()
        slope = np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
        W += lr / np.sqrt(dim) * np.outer(delta * slope, x)


ALL = (overlaps, weights)
