"""Three comparisons of the package with plain NumPy, each a list of z-scores.

drift  the theory's derivative of every overlap, readout and bias, and e_g, against the
       mean of one step
curve  the theory against networks of N and 2N, extrapolated to infinite N
law    networks by the method of overlaps against networks by their weights at the same
       N: means and variances

A list whose largest |z| chance would give once in a thousand lists is drawn again, with
four times as many samples of another seed, because steps have heavy tails. The second
list is the one that counts.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from tests.adversarial import described, packaged, plain

ALARM = 1e-3  # probability that chance alone makes a list alarming
CHUNKS = 400


@dataclass(frozen=True)
class Scores:
    """The z-scores of one case, and what each belongs to.

    looks: 2 if the first list was alarming.
    """

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
        """True if chance alone gives so large a score less often than ALARM."""
        return bool(
            not np.all(np.isfinite(self.z)) or self.largest > threshold(self.z.size)
        )

    def __str__(self):
        worst = np.argsort(-np.abs(self.z))[:5]
        entries = ", ".join(f"{self.names[i]} {self.z[i]:+.1f}" for i in worst)
        again = f"python -m tests.adversarial --first {self.case.seed} --count 1"
        return (
            f"{self.kind}, seed {self.case.seed} ({again}), looks: {self.looks}, "
            f"largest z: {entries}\n  {self.case}"
        )


def threshold(count):
    """|z| that the largest of `count` normal numbers exceeds with probability ALARM."""
    return float(norm.isf(ALARM / (2 * max(count, 1))))


def drift(case, samples=1500, seed=0, theory=None):
    """Compare the drift of the theory with the mean of one step.

    theory: the numbers to judge, if not those of the package (a control).
    """
    measured = plain.one_step(case, samples, CHUNKS, [case.seed, seed])
    expected = theory
    if theory is None:
        expected = packaged.drift(case)
    names = []
    z = []
    for name, chunks in measured.items():
        mean = chunks.mean(axis=0)
        error = chunks.std(axis=0, ddof=1) / np.sqrt(CHUNKS)
        _collect(names, z, name, expected[name] - mean, error, np.abs(mean))
    return Scores("drift", case, names, np.concatenate(z))


def curve(case, runs=200, seed=0, end=1.2, theory=None):
    """Compare the theory with networks of N and 2N, extrapolated to infinite N.

    theory: the curves to judge, if not those of the package (a control).
    """
    N = case.dim
    steps = [int(end * N / 2), int(end * N)]
    twice_the_steps = [2 * step for step in steps]
    streams = [case.seed, seed]
    small = plain.learn(case, N, steps, runs, streams)
    large = plain.learn(case, 2 * N, twice_the_steps, runs, streams)
    expected = theory
    if theory is None:
        expected = packaged.solved(case, np.array([0.0, *steps]) / N)
    names = []
    z = []
    for name, of_small in small.items():
        of_large = large[name]
        # a value a + b / N at N and 2N: the limit a is twice the second less the first
        limit = 2 * of_large.mean(axis=0) - of_small.mean(axis=0)
        # terms of order 1/N^2 remain: a tenth of the difference bounds them
        remainder = 0.1 * (of_small.mean(axis=0) - of_large.mean(axis=0))
        variance = (4 * of_large.var(axis=0) + of_small.var(axis=0)) / runs
        error = np.sqrt(variance + remainder**2)
        _collect(names, z, name, expected[name][1:] - limit, error, np.abs(limit))
    return Scores("curve", case, names, np.concatenate(z))


def law(case, runs=500, seed=0, end=1.2, other=None):
    """Compare means and variances of both methods of simulation at one N.

    other: the case that the package simulates, if not the same (a control).
    """
    N = case.dim + 7  # where shares of levels are not whole
    steps = [int(end * N / 3), int(end * N)]
    simulated = case
    if other is not None:
        simulated = other
    times = np.array(steps) / N
    ours = packaged.simulated(simulated, N, times, runs, seed=1000 * seed + 1)
    theirs = plain.learn(case, N, steps, runs, [case.seed, seed])
    names = []
    z = []
    for name, values in theirs.items():
        center = values.mean(axis=0)
        size = np.abs(values).max(axis=0)
        _collect_means(names, z, f"mean {name}", ours[name], values, size)
        our_squares = (ours[name] - center) ** 2
        squares = (values - center) ** 2
        _collect_means(names, z, f"square {name}", our_squares, squares, size**2)
    return Scores("law", case, names, np.concatenate(z))


def _collect_means(names, z, name, ours, theirs, size):
    """Add the z-scores of the difference of two means over runs, the first axis."""
    gap = ours.mean(axis=0) - theirs.mean(axis=0)
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
    _collect(names, z, name, gap, error, size)


def _collect(names, z, name, gap, error, size):
    """Add the z-scores of an array; NaN stays NaN.

    A number that does not move at all has no error. It must agree to rounding: then its
    score is 0, otherwise 100. size: of the numbers.
    """
    gap, error, size = np.broadcast_arrays(gap, error, size)
    is_still = error <= 1e-9 * (1e-3 + size)
    agrees = np.abs(gap) <= 1e-7 * (1e-3 + size)
    scores_of_still = np.where(agrees, 0.0, 100.0 * np.sign(gap))
    scores = gap / np.where(error > 0, error, 1.0)
    scores = np.where(is_still & np.isfinite(gap), scores_of_still, scores)
    names += [f"{name}{list(index)}" for index in np.ndindex(*np.shape(gap))]
    z.append(scores.ravel())


CHECKS = {"drift": (drift, "samples"), "curve": (curve, "runs"), "law": (law, "runs")}
EVERY = {"drift": 1, "law": 2, "curve": 6}
SIZES = {"drift": 1500, "curve": 200, "law": 500}


def look(kind, case, size=1.0):
    """Return the z-scores of a check.

    If they are alarming: those of a second look, four times larger.
    """
    check, argument = CHECKS[kind]
    first = check(case, **{argument: int(size * SIZES[kind])})
    if not first.alarming:
        return first
    second = check(case, **{argument: int(4 * size * SIZES[kind])}, seed=1)
    return Scores(second.kind, case, second.names, second.z, looks=2)


def survey(seeds, hard=False, report=None):
    """Run every check that is due for these seeds.

    `drift` is due for all, `law` for every second, `curve` for every sixth.
    """
    done = []
    for seed in seeds:
        for kind, every in EVERY.items():
            if seed % every != 0:
                continue
            case = described.draw(seed, hard=hard, bounded=kind != "drift")
            done.append(look(kind, case))
            if report:
                report(done[-1])
    return done


def summary(done):
    """One line: how many ran, and the largest |z| of all next to what chance gives."""
    numbers = sum(s.z.size for s in done)
    worst = max(done, key=lambda s: s.largest)
    kinds = ", ".join(f"{sum(s.kind == kind for s in done)} {kind}" for kind in CHECKS)
    twice = sum(scores.looks > 1 for scores in done)
    alarming = sum(scores.alarming for scores in done)
    return (
        f"{len(done)} random problems ({kinds}), {numbers} numbers, "
        f"largest |z| {worst.largest:.2f} ({worst.kind}, seed {worst.case.seed}); "
        f"chance exceeds {threshold(numbers):.2f} with probability {ALARM}; "
        f"{twice} looked at twice, {alarming} alarming"
    )
