"""The core: one solve, and many solves at once, against NumPy + LSODA."""

import numpy as np

import tutelage as tu
from benchmarks import baseline
from benchmarks.measure import best_of, cores, in_turns, pick, record

# of K = M = 3, by perf and by parts: what is left to save is not arithmetic
SHARES = "about 0.6 ms of a solve are checks in Python, the rest the loop, a queue of small kernels"


def committee(K, M, lr=0.5, inputs=None):
    return tu.Problem(
        tu.Network(K, "erf"), tu.Network(M, "erf"), inputs=inputs, optimizer=tu.SGD(lr)
    )


def single_solves():
    """Warm solve to alpha = 300 at rtol 1e-6, whose error is below 1e-7, against NumPy + LSODA at 1e-6."""
    end, repeats = pick(300, 300, 5), pick(5, 3, 1)
    times = tu.linear_times(end)
    for (K, M), wanted in zip(
        pick([(3, 3), (6, 6), (8, 4)], [(3, 3)], [(2, 2)]), (15, 10, 10), strict=False
    ):
        problem = committee(K, M)
        start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
        R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
        solve = lambda: tu.solve(problem, start, times, rtol=1e-6)  # noqa: E731
        first, _ = best_of(solve, 1)
        ours, theirs, out = in_turns(
            solve, lambda: baseline.solve(R, Q, T, 0.5, times), repeats
        )
        exact = tu.solve(problem, start, times, rtol=1e-12).error
        gap, crude = (
            np.abs(e - exact).max()
            for e in (out.error, baseline.solve(R, Q, T, 0.5, times))
        )
        record(
            f"solve, erf K={K} M={M}, alpha={end}, rtol 1e-6",
            *(ours, theirs, gap),
            f"first call {first:.1f} s; baseline NumPy + LSODA, error {crude:.0e}",
            rate=theirs / ours,
            unit="x",
            target=f"error < 1e-7, >= {wanted}x",
            met=bool(theirs / ours >= wanted and gap < 1e-7),
            reason=""
            if theirs / ours >= wanted
            else f"{int(out.steps)} steps of 13 evaluations, {ours / out.steps / 13e-6:.1f} us each: {SHARES}",
        )


def many_rates():
    """Learning rates at once, alpha = 100, rtol 1e-6; baseline: as many single solves."""
    count, wanted = pick(1000, 200, 20), 500
    problem, times = (
        committee(*pick((3, 3), (3, 3), (2, 2))),
        tu.linear_times(pick(100, 100, 5), 21),
    )
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    R, Q, T = (np.asarray(x) for x in (start.R, start.Q, start.T))
    rates = np.geomspace(0.05, 1.5, count)
    some = rates[:: max(1, count // 10)]
    solve = lambda: tu.solve_batch(problem, {"lr": rates}, start, times, rtol=1e-6)  # noqa: E731
    first, _ = best_of(solve, 1)
    ours, theirs, out = in_turns(
        solve,
        lambda: [baseline.solve(R, Q, T, lr, times) for lr in some],
        pick(3, 2, 1),
    )
    middle = count // 2
    exact = tu.solve(problem.replace(lr=rates[middle]), start, times, rtol=1e-12).error
    per_second = count * cores() / ours
    record(
        f"{count} learning rates, K=M={problem.student.hidden}, alpha={times[-1]:g}, rtol 1e-6",
        *(ours, theirs * count / some.size, np.abs(out.error[middle] - exact).max()),
        f"first call {first:.1f} s; baseline NumPy + LSODA one by one on one core",
        rate=per_second,
        unit="problems/s",
        target=f">= {wanted}/s on 2 cores",
        met=bool(per_second >= wanted),
        reason=""
        if per_second >= wanted
        else "averages of the eta^2 term: see the growth with K",
    )


def many_similarities():
    """Two tasks with a switch, 100 similarities in one call: forgetting against similarity."""
    tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(1.0)
    )
    start = tu.Start(
        [[0.05, 0.02], [-0.01, 0.03]],
        [[0.3, 0.02], [0.02, 0.2]],
        readout=[[0.3, 0.1], [0.2, -0.1]],
    )
    count, times = pick(100, 100, 5), [0.0, 60.0, 120.0]
    values = np.linspace(0.0, 0.99, count)
    solve = lambda: tu.solve_batch(problem, {"similarity": values}, start, times)  # noqa: E731
    first, _ = best_of(solve, 1)
    ours, out = best_of(solve, pick(5, 3, 1))
    exact = tu.solve(
        problem.replace(similarity=values[count // 2]), start, times, rtol=1e-12
    ).error
    gap = np.abs(out.error[count // 2] - exact).max()
    target, met = "< 3 s on 2 cores", bool(ours < 3)
    record(
        f"{count} similarities of two tasks, alpha=120",
        ours,
        None,
        gap,
        f"first call {first:.1f} s",
        target=target,
        met=met,
    )


ALL = (single_solves, many_rates, many_similarities)
