"""The core: one solve, and many solves at once, against NumPy + LSODA."""

import numpy as np

import tutelage as tu
from benchmarks import baseline
from benchmarks.measure import best_of, cores, in_turns, pick, record

# Of K = M = 3, by perf and by parts: what is left to save is not arithmetic.
SHARES = (
    "about 0.6 ms of a solve are checks in Python, the rest the loop, a queue of small "
    "kernels"
)


def committee(K, M, lr=0.5, inputs=None):
    """Return the problem of K erf units that learn from M."""
    student = tu.Network(K, "erf")
    teacher = tu.Network(M, "erf")
    return tu.Problem(student, teacher, inputs=inputs, optimizer=tu.SGD(lr))


def single_solves():
    """Record warm solves to alpha = 300 against NumPy + LSODA, both at rtol 1e-6.

    The error of the solve must be below 1e-7.
    """
    cases = [(3, 3, 15), (6, 6, 10), (8, 4, 10)]
    for K, M, wanted in pick(cases, cases[:1], [(2, 2, 15)]):
        single_solve(K, M, wanted)


def single_solve(K, M, wanted):
    """Record one pair of sizes; wanted: times faster than the baseline."""
    end = pick(300, 300, 5)
    times = tu.linear_times(end)
    problem = committee(K, M)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    R = np.asarray(start.R)
    Q = np.asarray(start.Q)
    T = np.asarray(start.T)

    def solve():
        return tu.solve(problem, start, times, rtol=1e-6)

    def solve_baseline():
        return baseline.solve(R, Q, T, 0.5, times)

    first, _ = best_of(solve, 1)
    ours, theirs, out = in_turns(solve, solve_baseline, pick(5, 3, 1))
    exact = tu.solve(problem, start, times, rtol=1e-12).error
    gap = np.abs(out.error - exact).max()
    crude = np.abs(solve_baseline() - exact).max()
    ratio = theirs / ours
    reason = ""
    if ratio < wanted:
        evaluation = ours / out.steps / 13e-6
        reason = (
            f"{int(out.steps)} steps of 13 evaluations, {evaluation:.1f} us each: "
            f"{SHARES}"
        )
    record(
        f"solve, erf K={K} M={M}, alpha={end}, rtol 1e-6",
        ours,
        theirs,
        gap,
        f"first call {first:.1f} s; baseline NumPy + LSODA, error {crude:.0e}",
        rate=ratio,
        unit="x",
        target=f"error < 1e-7, >= {wanted}x",
        met=bool(ratio >= wanted and gap < 1e-7),
        reason=reason,
    )


def many_rates():
    """Record learning rates at once, alpha = 100; baseline: as many single solves."""
    count = pick(1000, 200, 20)
    wanted = 500
    problem = committee(*pick((3, 3), (3, 3), (2, 2)))
    times = tu.linear_times(pick(100, 100, 5), 21)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    R = np.asarray(start.R)
    Q = np.asarray(start.Q)
    T = np.asarray(start.T)
    rates = np.geomspace(0.05, 1.5, count)
    some = rates[:: max(1, count // 10)]

    def solve():
        return tu.solve_batch(problem, {"lr": rates}, start, times, rtol=1e-6)

    def solve_some():
        return [baseline.solve(R, Q, T, lr, times) for lr in some]

    first, _ = best_of(solve, 1)
    ours, theirs, out = in_turns(solve, solve_some, pick(3, 2, 1))
    middle = count // 2
    exact = tu.solve(problem.replace(lr=rates[middle]), start, times, rtol=1e-12).error
    per_second = count * cores() / ours
    met = bool(per_second >= wanted)
    units = problem.student.hidden
    record(
        f"{count} learning rates, K=M={units}, alpha={times[-1]:g}, rtol 1e-6",
        ours,
        theirs * count / some.size,
        np.abs(out.error[middle] - exact).max(),
        f"first call {first:.1f} s; baseline NumPy + LSODA one by one on one core",
        rate=per_second,
        unit="problems/s",
        target=f">= {wanted}/s on 2 cores",
        met=met,
        reason="" if met else "averages of the eta^2 term: see the growth with K",
    )


def many_similarities():
    """Record two tasks with a switch: 100 similarities in one call."""
    unit = tu.Network(1, "erf")
    student = tu.Network(2, "erf", train_readout=True)
    tasks = tu.Tasks([unit, unit], tu.Switch(60.0), similarity=0.5)
    problem = tu.Problem(student, tasks, optimizer=tu.SGD(1.0))
    start = tu.Start(
        [[0.05, 0.02], [-0.01, 0.03]],
        [[0.3, 0.02], [0.02, 0.2]],
        readout=[[0.3, 0.1], [0.2, -0.1]],
    )
    count = pick(100, 100, 5)
    middle = count // 2
    times = [0.0, 60.0, 120.0]
    values = np.linspace(0.0, 0.99, count)

    def solve():
        return tu.solve_batch(problem, {"similarity": values}, start, times)

    first, _ = best_of(solve, 1)
    ours, out = best_of(solve, pick(5, 3, 1))
    single = problem.replace(similarity=values[middle])
    exact = tu.solve(single, start, times, rtol=1e-12).error
    record(
        f"{count} similarities of two tasks, alpha=120",
        ours,
        accuracy=np.abs(out.error[middle] - exact).max(),
        note=f"first call {first:.1f} s",
        target="< 3 s on 2 cores",
        met=bool(ours < 3),
    )


ALL = (single_solves, many_rates, many_similarities)
