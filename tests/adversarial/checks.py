"""Three comparisons of the package with plain NumPy, each a list of z-scores.

drift: the theory's derivative of every overlap, readout and bias, and e_g, against the mean of one step.
curve: the theory against networks of N and 2N, extrapolated to infinite N.
law: networks by the method of overlaps against networks by their weights at the same N: means and variances.

A list whose largest |z| chance would give once in a thousand lists is drawn again, with four times as many samples of
another seed, because steps have heavy tails. The second list is the one that counts.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from tests.adversarial import described, packaged, plain

ALARM = 1e-3  # probability that chance alone makes a list alarming
CHUNKS = 400


@dataclass(frozen=True)
class Scores:
    """The z-scores of one case, and what each belongs to. looks: 2 if the first list was alarming."""

    kind: str
    case: object
    names: list
    z: np.ndarray
    looks: int = 1

    @property
    def largest(self):
        return float(np.abs(self.z).max(initial=0.0))

    @property
    def alarming(self):
        """Would chance alone give the largest of these less often than ALARM?"""
        return bool(
            not np.all(np.isfinite(self.z)) or self.largest > threshold(self.z.size)
        )

    def __str__(self):
        worst = np.argsort(-np.abs(self.z))[:5]
        entries = ", ".join(f"{self.names[i]} {self.z[i]:+.1f}" for i in worst)
        again = f"python -m tests.adversarial --first {self.case.seed} --count 1"
        return f"{self.kind}, seed {self.case.seed} ({again}), looks: {self.looks}, largest z: {entries}\n  {self.case}"


def threshold(count):
    """|z| that the largest of `count` normal numbers exceeds with probability ALARM."""
    return float(norm.isf(ALARM / (2 * max(count, 1))))


def drift(case, samples=1500, seed=0, theory=None):
    """theory: the numbers to judge, if not those of the package (a control)."""
    measured = plain.one_step(case, samples, CHUNKS, [case.seed, seed])
    expected = packaged.drift(case) if theory is None else theory
    names, z = [], []
    for name, chunks in measured.items():
        mean, error = chunks.mean(axis=0), chunks.std(axis=0, ddof=1) / np.sqrt(CHUNKS)
        _collect(names, z, name, expected[name] - mean, error, np.abs(mean))
    return Scores("drift", case, names, np.concatenate(z))


def curve(case, runs=200, seed=0, end=1.2, theory=None):
    N = case.dim
    steps = [int(end * N / 2), int(end * N)]
    small, large = (
        plain.learn(case, n, [s * n // N for s in steps], runs, [case.seed, seed])
        for n in (N, 2 * N)
    )
    expected = (
        packaged.solved(case, np.array([0.0, *steps]) / N) if theory is None else theory
    )
    names, z = [], []
    for name in small:
        a, b = small[name], large[name]
        limit, gap = (
            2 * b.mean(axis=0) - a.mean(axis=0),
            a.mean(axis=0) - b.mean(axis=0),
        )
        error = np.sqrt(
            4 * b.var(axis=0) / runs + a.var(axis=0) / runs + (0.1 * gap) ** 2
        )  # what is left: 1/N^2
        _collect(names, z, name, expected[name][1:] - limit, error, np.abs(limit))
    return Scores("curve", case, names, np.concatenate(z))


def law(case, runs=500, seed=0, end=1.2, other=None):
    """other: the case that the package simulates, if not the same (a control)."""
    N = case.dim + 7  # where shares of levels are not whole
    steps = [int(end * N / 3), int(end * N)]
    ours = packaged.simulated(
        other or case, N, np.array(steps) / N, runs, seed=1000 * seed + 1
    )
    theirs = plain.learn(case, N, steps, runs, [case.seed, seed])
    names, z = [], []
    for name in theirs:
        a, b = ours[name], theirs[name]
        center, size = b.mean(axis=0), np.abs(b).max(axis=0)
        for word, x, y in (
            ("mean", a, b),
            ("square", (a - center) ** 2, (b - center) ** 2),
        ):
            error = np.sqrt(x.var(axis=0) / runs + y.var(axis=0) / runs)
            _collect(
                names,
                z,
                f"{word} {name}",
                x.mean(axis=0) - y.mean(axis=0),
                error,
                size if word == "mean" else size**2,
            )
    return Scores("law", case, names, np.concatenate(z))


def _collect(names, z, name, gap, error, size):
    """Adds the z-scores of an array. What does not move at all must agree to rounding; NaN stays NaN."""
    gap, error, size = (np.broadcast_to(x, np.shape(gap)) for x in (gap, error, size))
    still = error <= 1e-9 * (1e-3 + size)
    scores = np.where(
        still,
        np.where(np.abs(gap) <= 1e-7 * (1e-3 + size), 0.0, np.sign(gap) * 100.0),
        0.0,
    )
    scores = np.where(
        still & np.isfinite(gap),
        scores,
        np.divide(gap, np.where(error > 0, error, 1.0)),
    )
    names += [f"{name}{list(index)}" for index in np.ndindex(*np.shape(gap))]
    z.append(scores.ravel())


CHECKS = {"drift": (drift, "samples"), "curve": (curve, "runs"), "law": (law, "runs")}
EVERY = {"drift": 1, "law": 2, "curve": 6}
SIZES = {"drift": 1500, "curve": 200, "law": 500}


def look(kind, case, size=1.0):
    """The z-scores of a check; those of a second, four times larger look if the first is alarming."""
    check, argument = CHECKS[kind]
    first = check(case, **{argument: int(size * SIZES[kind])})
    if not first.alarming:
        return first
    second = check(case, **{argument: int(4 * size * SIZES[kind])}, seed=1)
    return Scores(second.kind, case, second.names, second.z, looks=2)


def survey(seeds, hard=False, report=None):
    """Every check that is due for these seeds: `drift` for all, `law` for every second, `curve` for every sixth."""
    done = []
    for seed in seeds:
        for kind in (kind for kind, every in EVERY.items() if seed % every == 0):
            done.append(
                look(kind, described.draw(seed, hard=hard, bounded=kind != "drift"))
            )
            if report:
                report(done[-1])
    return done


def summary(done):
    """One line: how many ran, and the largest |z| of all next to what chance gives."""
    numbers, worst = sum(s.z.size for s in done), max(done, key=lambda s: s.largest)
    kinds = ", ".join(f"{sum(s.kind == kind for s in done)} {kind}" for kind in CHECKS)
    return (
        f"{len(done)} random problems ({kinds}), {numbers} numbers, largest |z| {worst.largest:.2f} "
        f"({worst.kind}, seed {worst.case.seed}); chance exceeds {threshold(numbers):.2f} with probability {ALARM}; "
        f"{sum(s.looks > 1 for s in done)} looked at twice, {sum(s.alarming for s in done)} alarming"
    )
