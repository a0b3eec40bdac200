"""The finite network: steps per second at any N, and SGD on weights.

SGD on weights is held against drawing its inputs, a NumPy and a PyTorch loop.
"""

from importlib.util import find_spec

import numpy as np
from scipy.special import erf

import tutelage as tu
from benchmarks.core import committee
from benchmarks.measure import best_of, in_turns, pick, record

CHAIN = (
    "each step waits for the one before: erf, roots and divisions for a 6 x 6 "
    "covariance, 7% of it random numbers, so the core alone decides"
)
START = tu.Start(R=0.3 * np.eye(3) + 0.1, Q=0.5 * np.eye(3))


def one_run(problem, dim, steps, method):
    """Return one run of so many steps on one worker."""
    return tu.simulate(
        problem,
        START,
        dim=dim,
        times=[0, steps / dim],
        runs=1,
        workers=1,
        method=method,
    )


def overlaps():
    """Record a million steps, exact in law, K=M=3, at N = 100 and at N = 10^6."""
    problem = committee(3, 3)
    steps = pick(1_000_000, 200_000, 1000)
    for dim in (100, 1_000_000):

        def run(dim=dim):
            return one_run(problem, dim, steps, "overlaps")

        run()
        seconds, _ = best_of(run, pick(5, 3, 1))
        rate = steps / seconds
        goal = {}
        if dim == 1_000_000:
            met = rate >= 1e6
            goal["target"] = ">= 1e6 steps/s per core"
            goal["met"] = met
            goal["reason"] = "" if met else CHAIN
        record(
            f"overlaps, K=M=3, N={dim:.0e}, {steps:.0e} steps",
            seconds,
            rate=rate,
            unit="steps/s",
            **goal,
        )


def kernels():
    """Record logistic loss and several tasks against squared loss: the same loops."""
    student = tu.Network(3, "erf")
    two = tu.Tasks([tu.Network(1, "erf"), tu.Network(2, "erf")], tu.Switch(50.0))
    logistic = tu.Problem(
        student, student, loss="logistic", labels="logistic", optimizer=tu.SGD(0.5)
    )
    tasks = tu.Problem(student, two, optimizer=tu.SGD(0.5))
    for method, steps in (
        ("overlaps", pick(500_000, 100_000, 100)),
        ("weights", pick(50_000, 20_000, 20)),
    ):
        against_squared_loss("logistic loss and labels", logistic, method, steps)
        against_squared_loss("two tasks", tasks, method, steps)


def against_squared_loss(name, problem, method, steps):
    """Record one problem, K = M = 3, N = 1000, one worker."""
    squared = committee(3, 3)

    def run():
        return one_run(problem, 1000, steps, method)

    def run_squared():
        return one_run(squared, 1000, steps, method)

    run_squared()
    run()
    ours, theirs, _ = in_turns(run, run_squared, pick(4, 3, 1))
    share = ours / theirs
    record(
        f"{method}, {name}, K=M=3, N=1000, {steps:.0e} steps (baseline: squared loss)",
        ours,
        theirs,
        target="<= 1.5x squared loss",
        met=bool(share <= 1.5),
        rate=share,
        unit="x squared loss",
    )


def weights():
    """Record SGD on actual weights, N=1000, K=M=3."""
    problem = committee(3, 3)
    dim = 1000
    steps = pick(100_000, 20_000, 100)
    part = max(1, steps // 10)

    def run():
        return one_run(problem, dim, steps, "weights")

    run()
    ours, draw, _ = in_turns(run, lambda: _draw(dim, steps), pick(4, 3, 1))
    name = f"weights, N=1000, K=M=3, {steps:.0e} steps"
    share = ours / draw
    met = share <= 2
    record(
        f"{name} (baseline: drawing the inputs)",
        ours,
        draw,
        reason="" if met else PROFILE,
        target="<= 2x drawing",
        met=met,
        rate=share,
        unit="x drawing",
    )
    loop, _ = best_of(lambda: _numpy_loop(dim, part), 1)
    record(f"{name} (baseline: NumPy loop)", ours, loop * steps / part)
    pytorch = f"{name} (baseline: PyTorch loop)"
    if find_spec("torch") is None:
        record(pytorch, ours, note="torch is not installed here")
        return
    loop, _ = best_of(lambda: _torch_loop(dim, part), 1)
    record(pytorch, ours, loop * steps / part)


PROFILE = (
    "the rest are six dot products and three updates of 1000 numbers a step, bound by "
    "the cache"
)


def _draw(dim, steps):
    rng = np.random.Generator(np.random.SFC64(0))
    for _ in range(max(1, steps // 100)):
        rng.standard_normal((100, dim))


def _numpy_loop(dim, steps, lr=0.5):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((3, dim))
    W_teacher = rng.standard_normal((3, dim))
    for _ in range(steps):
        x = rng.standard_normal(dim)
        fields = W @ x / np.sqrt(dim)
        targets = W_teacher @ x / np.sqrt(dim)
        delta = erf(targets / np.sqrt(2)).sum() - erf(fields / np.sqrt(2)).sum()
        slope = np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
        W += lr / np.sqrt(dim) * np.outer(delta * slope, x)


def _torch_loop(dim, steps, lr=0.5):
    """The usual loop: parameters, a loss, backward, a step of the optimizer."""
    import torch

    torch.manual_seed(0)
    W = torch.randn(3, dim, dtype=torch.float64)
    W_teacher = torch.randn(3, dim, dtype=torch.float64)
    W.requires_grad_()
    optimizer = torch.optim.SGD([W], lr=lr)
    for _ in range(steps):
        x = torch.randn(dim, dtype=torch.float64)
        student = torch.erf(W @ x / (2 * dim) ** 0.5).sum()
        teacher = torch.erf(W_teacher @ x / (2 * dim) ** 0.5).sum()
        optimizer.zero_grad()
        (0.5 * (teacher - student) ** 2).backward()
        optimizer.step()


ALL = (overlaps, kernels, weights)
