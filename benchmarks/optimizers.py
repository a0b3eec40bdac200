"""Optimizers next to plain SGD: warm solves of K = M = 2, and steps of weights."""

import tutelage as tu
from benchmarks.measure import best_of, pick, record

START = tu.Start([[0.3, 0.05], [0.0, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
ERF = tu.Network(2, "erf")


def problem_of(optimizer: tu.optimizers.Optimizer) -> tu.Problem:
    """Return two erf units and two teacher units."""
    return tu.Problem(ERF, ERF, optimizer=optimizer)


def solves():
    """Solve up to alpha = 40; baseline: plain SGD by the same compiled program."""
    times = tu.linear_times(pick(40, 40, 1), 21)

    def solve(optimizer):
        return lambda: tu.solve(problem_of(optimizer), START, times)

    # slow momentum keeps plain SGD out of the machine code of committees
    plain = tu.SGD(0.3, momentum=tu.SlowMomentum(100.0))
    best_of(solve(plain), 1)
    baseline, _ = best_of(solve(plain), pick(10, 5, 1))
    for optimizer in (tu.optimizers.RMSprop(0.3), tu.optimizers.Adam(0.3)):
        first, _ = best_of(solve(optimizer), 1)
        ours, _ = best_of(solve(optimizer), pick(10, 5, 1))
        share = ours / baseline
        record(
            f"solve, {optimizer.kind}, K=M=2 erf",
            ours,
            baseline,
            None,
            f"first call {first:.1f} s; baseline: SGD with slow momentum",
            rate=share,
            unit="x plain SGD",
            target="<= 3x",
            met=bool(share <= 3),
        )


def weights():
    """Simulate 20 networks on their weights at N = 1000."""
    times = [0.0, pick(10.0, 4.0, 0.1)]

    def simulate(optimizer):
        return lambda: tu.simulate(
            problem_of(optimizer), START, dim=1000, times=times, method="weights"
        )

    plain = tu.SGD(0.3)
    best_of(simulate(plain), 1)
    baseline, _ = best_of(simulate(plain), pick(5, 3, 1))
    for optimizer in (tu.optimizers.SignSGD(0.3), tu.optimizers.Adam(0.3)):
        ours, _ = best_of(simulate(optimizer), pick(5, 3, 1))
        share = ours / baseline
        record(
            f"simulate weights, {optimizer.kind}, N=1000",
            ours,
            baseline,
            rate=share,
            unit="x plain SGD",
            target="<= 1.5x",
            met=bool(share <= 1.5),
        )


ALL = (solves, weights)
