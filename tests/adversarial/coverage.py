"""Coverage of the error estimates that the library prints or returns.

For each estimate, random problems give pairs (true error, estimate). An estimate is good
if the true error lies inside the stated 95% in at least 90% of the problems, and if the
median of |true error| / estimate lies between 0.1 and 1: an estimate that covers by being
huge is no estimate. Each function below makes one random problem of one estimate.

By hand:  python -m tests.adversarial.coverage fit_exponent --count 100
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

import tutelage as tu
from tutelage.analysis.noise import fluctuations_along
from tutelage.comparison import Comparison
from tutelage.data.field_shape import FieldShape
from tutelage.errors import TutelageWarning
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.accuracy import _matrices, averages_error
from tutelage.stream.moments import Quadrature, Sampled, moments_for

LEAST_INSIDE = 0.90
SMALLEST_MEDIAN, LARGEST_MEDIAN = 0.1, 1.0
TWO = 2.0  # a standard error covers with 95% what is within two of it
BOUND = 1.0  # a bound covers with 95% what is within it


@dataclass(frozen=True)
class Pair:
    """What an estimate says of one problem, and what is true."""

    true_error: float
    estimate: float


Draw = Callable[[np.random.Generator], Pair | None]


@dataclass(frozen=True)
class Estimate:
    """draw: one random problem, None if the library gives no estimate there.

    factor: how many of the estimate are the stated 95%. count: problems of the long
    version. quick: problems of the quick suite, 0 where one takes long.
    """

    draw: Draw
    factor: float
    count: int
    quick: int = 0


@dataclass(frozen=True)
class Row:
    """The row of the table of coverages."""

    name: str
    problems: int
    without: int
    inside: float
    median: float
    largest: float

    @property
    def good(self) -> bool:
        """Both conditions of the module's docstring."""
        sharp = SMALLEST_MEDIAN <= self.median <= LARGEST_MEDIAN
        return self.inside >= LEAST_INSIDE and sharp

    def __str__(self) -> str:
        word = "good" if self.good else "BAD"
        return (
            f"| {self.name} | {self.problems} | {self.without} | {self.inside:.2f} "
            f"| {self.median:.2f} | {self.largest:.2f} | {word} |"
        )


HEAD = "| estimate | problems | without | inside 95% | median ratio | largest ratio | |\n|---|---|---|---|---|---|---|"


def measure(name: str, count: int | None = None, first: int = 0) -> Row:
    """The row of one estimate. Problem i has the seed first + i."""
    estimate = ESTIMATES[name]
    ratios = []
    without = 0
    for seed in range(first, first + (count or estimate.count)):
        rng = np.random.default_rng([seed, *name.encode()])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TutelageWarning)
            pair = estimate.draw(rng)
        if pair is None:
            without += 1
        elif pair.true_error == 0.0:
            ratios.append(0.0)
        else:
            ratios.append(abs(pair.true_error) / max(pair.estimate, 1e-300))
    return Row(
        name=name,
        problems=len(ratios),
        without=without,
        inside=float(np.mean(np.array(ratios) <= estimate.factor)),
        median=float(np.median(ratios)),
        largest=float(np.max(ratios)),
    )


def committee(rng: np.random.Generator, most: int = 3) -> tu.Problem:
    """Erf units, which machine code solves: no compilation for each problem."""
    students = int(rng.integers(1, most + 1))
    teachers = int(rng.integers(1, most + 1))
    return tu.Problem(
        tu.Network(students, "erf"),
        tu.Network(teachers, "erf"),
        optimizer=tu.SGD(lr=float(rng.uniform(0.1, 1.0))),
        noise=float(rng.choice([0.0, 0.2, 0.5])),
    )


def specialized(
    rng: np.random.Generator, problem: tu.Problem, dim: int | None = None
) -> tu.Start:
    """A start that meets no plateau that noise would decide about."""
    K = problem.student.hidden
    M = problem.teacher.hidden
    R = 0.4 * np.eye(K, M) + rng.uniform(0.0, 0.1, (K, M))
    return tu.Start(R=R, Q=0.7 * np.eye(K) + R @ R.T / 2, T=np.eye(M), dim=dim)


def chosen(rng: np.random.Generator, values: np.ndarray) -> tuple[int, ...]:
    """A random place in an array, after its first time."""
    time = int(rng.integers(1, values.shape[0]))
    return (time, *(int(rng.integers(size)) for size in values.shape[1:]))


# Curves: exponents, growth, minima


def power_law(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """x, y without noise and the true exponent: of a law, and what may disturb it."""
    x = np.geomspace(1.0, 10.0 ** rng.uniform(2.0, 4.0), int(rng.integers(20, 120)))
    slope = float(rng.uniform(-2.0, -0.2))
    kind = rng.choice(["pure", "correction", "crossover", "cutoff"])
    if kind == "correction":
        size = 10.0 ** rng.uniform(-1.0, 0.5)
        return x, x**slope * (1 + size * x ** -rng.uniform(0.5, 2.0)), slope
    if kind == "crossover":  # the later law holds for most of the decades
        bend = x[-1] ** rng.uniform(0.1, 0.35)
        earlier = slope + rng.uniform(0.3, 1.5)
        return x, x**earlier / (1 + (x / bend) ** 2) ** ((earlier - slope) / 2), slope
    if kind == "cutoff":
        return x, x**slope * np.exp(-x / (x[-1] * rng.uniform(0.3, 3.0))), slope
    return x, x**slope, slope


def noise_size(rng: np.random.Generator) -> float:
    """Relative, from a thousandth to a tenth."""
    return float(10.0 ** rng.uniform(-3.0, -1.0))


def fit_exponent(rng: np.random.Generator) -> Pair | None:
    """Independent noise of unknown size."""
    x, y, slope = power_law(rng)
    y = y * np.exp(noise_size(rng) * rng.standard_normal(x.size))
    try:
        found = tu.analysis.fit_exponent(x, y)
    except tu.InputError:
        return None
    return Pair(true_error=found.slope - slope, estimate=found.error)


def fit_exponent_known(rng: np.random.Generator) -> Pair | None:
    """Errors that are given, and unequal."""
    x, y, slope = power_law(rng)
    sd = y * noise_size(rng) * 10.0 ** rng.uniform(-0.5, 0.5, x.size)
    seen = y + sd * rng.standard_normal(x.size)
    if np.any(seen <= 0):
        return None
    try:
        found = tu.analysis.fit_exponent(x, seen, y_error=sd)
    except tu.InputError:
        return None
    return Pair(true_error=found.slope - slope, estimate=found.error)


def spectral_exponent(rng: np.random.Generator) -> Pair | None:
    """Eigenvalues of the covariance of samples, two to eight for each dimension."""
    dim = int(rng.integers(60, 150))
    beta = float(rng.uniform(0.3, 1.5))
    samples = int(dim * rng.uniform(2.0, 8.0))
    scales = np.arange(1.0, dim + 1) ** (-(1 + beta) / 2)
    X = rng.standard_normal((samples, dim)) * scales
    eigenvalues = np.linalg.eigvalsh(X.T @ X / samples)
    inputs = tu.Spectrum(eigenvalues, np.full(dim, 1 / dim))
    try:
        found = tu.analysis.spectral_exponent(inputs)
    except tu.InputError:
        return None
    return Pair(true_error=found.beta - beta, estimate=found.error)


def growth_rate(rng: np.random.Generator) -> Pair | None:
    """du = rate u - b u^3 of single networks: simulated runs and their saddle."""
    problem = tu.Problem(
        tu.Network(2, "erf"),
        tu.Network(2, "erf"),
        optimizer=tu.SGD(lr=float(rng.uniform(0.3, 1.5))),
    )
    plateau = tu.analysis.fixed_point(problem, "plateau")
    rate = float(plateau.unstable[0].growth)
    tilt = 10.0 ** rng.uniform(-2.0, -1.3) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    start = tu.Start(R=plateau.R + tilt, Q=plateau.Q, dim=int(rng.choice([500, 2000])))
    times = tu.linear_times(12.0 / rate, 401)
    runs = tu.simulate(
        problem, start, times=times, runs=1, seed=int(rng.integers(2**31))
    )
    found = tu.analysis.plateaus(runs, run=0).longest
    if found is None or found.growth_rate is None:
        return None
    return Pair(true_error=found.growth_rate - rate, estimate=found.growth_error)


def stopping_bracket(rng: np.random.Generator) -> Pair | None:
    """The smallest error lies between the neighbors of the recorded minimum."""
    rise = rng.uniform(0.01, 0.2)
    fall = rng.uniform(0.5, 3.0)

    def error(t: np.ndarray) -> np.ndarray:
        return np.exp(-fall * t) + rise * t / (1 + 0.1 * t) + 0.1

    times = tu.linear_times(10.0, int(rng.integers(12, 60)))
    curve = tu.Trajectory(
        times,
        {"x": np.zeros_like(times)},
        error(times),
        np.array(0),
        times[-1],
        np.array(1),
        kind="equations",
    )
    found = tu.analysis.early_stopping(curve)
    fine = np.linspace(0.0, 10.0, 200_001)
    best = float(fine[np.argmin(error(fine))])
    low, high = found.bracket
    return Pair(true_error=best - (low + high) / 2, estimate=(high - low) / 2)


# Finite networks


def run_and_law(rng: np.random.Generator) -> tuple[tu.Trajectory, object, int]:
    """Theory, its fluctuations, and one N at which they are small."""
    problem = committee(rng)
    start = specialized(rng, problem)
    dim = int(rng.choice([500, 1000, 4000]))
    theory = tu.solve(problem, start, tu.linear_times(20.0, 21), keep="blocks")
    return theory, fluctuations_along(theory, dim, points=2**10), dim


def fluctuations_error(rng: np.random.Generator) -> Pair | None:
    """One network's e_g at a random time, against two standard deviations."""
    theory, law, dim = run_and_law(rng)
    seed = int(rng.integers(2**31))
    runs = tu.simulate(
        theory.problem, theory.start, times=theory.times, dim=dim, runs=1, seed=seed
    )
    place = chosen(rng, theory.error)
    if not law.trusted:
        return None
    off = float(runs.error[0][place] - theory.error[place])
    return Pair(true_error=off, estimate=float(law.sd("error")[place]))


def fluctuations_overlaps(rng: np.random.Generator) -> Pair | None:
    """One entry of R or Q of one network at a random time."""
    theory, law, dim = run_and_law(rng)
    seed = int(rng.integers(2**31))
    runs = tu.simulate(
        theory.problem, theory.start, times=theory.times, dim=dim, runs=1, seed=seed
    )
    name = str(rng.choice(["R", "Q"]))
    solved = np.asarray(theory[name])
    place = chosen(rng, solved)
    off = float(np.asarray(runs[name])[0][place] - solved[place])
    return Pair(true_error=off, estimate=float(law.sd(name)[place]))


def fluctuations_accuracy(rng: np.random.Generator) -> Pair | None:
    """sd(e_g) from few points against sd(e_g) from 64 times as many."""
    problem = committee(rng)
    start = specialized(rng, problem)
    theory = tu.solve(problem, start, tu.linear_times(5.0, 11), keep="blocks")
    few = fluctuations_along(theory, 1000, points=2**8)
    many = fluctuations_along(theory, 1000, points=2**14)
    (place,) = chosen(rng, theory.error)
    off = float(few.sd("error")[place] / many.sd("error")[place] - 1)
    return Pair(true_error=off, estimate=float(few.accuracy[place]))


def comparison_of(
    rng: np.random.Generator, dim: int, runs: int, scatter: bool = False
) -> Comparison:
    """Theory and runs of a committee from one start."""
    problem = committee(rng)
    start = specialized(rng, problem, dim)
    times = tu.linear_times(10.0, 11)
    theory = tu.solve(problem, start, times)
    seed = int(rng.integers(2**31))
    networks = tu.simulate(problem, start, times=times, runs=runs, seed=seed)
    return tu.compare(theory, networks, fluctuations=scatter)


def compare_standard_error(rng: np.random.Generator) -> Pair | None:
    """z of one number at N = 3000, where the finite-N gap is far below it."""
    found = comparison_of(rng, 3_000, int(rng.choice([5, 10, 20])))
    gap = found.gaps[str(rng.choice(list(found.gaps)))]
    place = chosen(rng, gap.z)
    return Pair(true_error=float(gap.z[place]), estimate=1.0)


def compare_scatter(rng: np.random.Generator) -> Pair | None:
    """Measured over predicted scatter, which is one."""
    runs = int(rng.choice([10, 20, 40]))
    found = comparison_of(rng, 2_000, runs, scatter=True).scatter
    if found is None or not np.isfinite(found.ratio):
        return None
    return Pair(true_error=found.ratio - 1, estimate=found.ratio_error)


def measured_gap(
    rng: np.random.Generator, problem: tu.Problem, start: tu.Start, rough: bool
) -> Pair | None:
    """The gap of 8000 networks against twice the expected one, where one of both stands out.

    A place of all quantities is drawn at which one is at least four units (standard
    errors, or what the solver resolves). A rough size must cover the gaps that stand out.
    """
    times = tu.linear_times(5.0, 11)
    theory = tu.solve(problem, start, times, keep="blocks")
    seed = int(rng.integers(2**31))
    runs = tu.simulate(problem, start, times=times, runs=8000, seed=seed, keep="blocks")
    found = tu.compare(theory, runs, fluctuations=False)
    places = []
    for gap in found.gaps.values():
        larger = np.abs(gap.gap)
        if not rough:  # a gap that is not there misses its estimate, too
            larger = np.maximum(larger, np.abs(gap.expected))
        clear = np.argwhere(larger > 4 * gap.unit)
        places += [(gap, tuple(place)) for place in clear if place[0] > 0]
    if not places:
        return None
    gap, place = places[int(rng.integers(len(places)))]
    assert gap.rough == rough
    seen = float(gap.gap[place])
    allowed = 2 * float(gap.expected[place])
    if not rough and allowed * seen < 0:  # the wrong sign covers nothing
        allowed = seen / 1000
    return Pair(true_error=seen, estimate=abs(allowed))


def expected_gap(rng: np.random.Generator) -> Pair | None:
    """Plain SGD."""
    problem = committee(rng)
    return measured_gap(
        rng, problem, specialized(rng, problem, small_dim(rng)), rough=False
    )


def momentum_gap(rng: np.random.Generator) -> Pair | None:
    """A fixed momentum, at the rate of a plain SGD with the same limit."""
    problem = committee(rng)
    beta = float(rng.uniform(0.2, 0.8))
    lr = float(problem.optimizer.lr) * (1 - beta)
    problem = problem.replace(optimizer=tu.SGD(lr, momentum=beta))
    return measured_gap(
        rng, problem, specialized(rng, problem, small_dim(rng)), rough=False
    )


def rough_gap(rng: np.random.Generator) -> Pair | None:
    """Problems whose expected gap is a size only."""
    problem = committee(rng)
    lr = float(problem.optimizer.lr)
    start = specialized(rng, problem, small_dim(rng))
    kind = str(rng.choice(["slow momentum", "spherical", "spherical with momentum"]))
    if kind == "slow momentum":
        slow = tu.SlowMomentum(float(rng.uniform(1.0, 10.0)))
        return measured_gap(
            rng, problem.replace(optimizer=tu.SGD(lr, momentum=slow)), start, rough=True
        )
    beta = 0.0
    if kind == "spherical with momentum":
        beta = float(rng.uniform(0.2, 0.8))
    optimizer = tu.SGD(lr * (1 - beta), momentum=beta, spherical=True)
    return measured_gap(rng, problem.replace(optimizer=optimizer), start, rough=True)


def small_dim(rng: np.random.Generator) -> int:
    """Small enough for a gap that stands out, large enough for the first order in 1/N."""
    return int(rng.choice([30, 60]))


def sweep_standard_error(rng: np.random.Generator) -> Pair | None:
    """simulated_final_error of 20 runs, against the mean of 2000."""
    problem = committee(rng)
    options = {"times": 5.0, "seed": int(rng.integers(2**20)), "executor": "serial"}
    dim = {"dim": [300]}
    found = tu.sweep(problem, dim, "simulated_final_error", **options)
    many = tu.sweep(problem, dim, "simulated_final_error", runs=2000, **options)
    mean, se = (
        float(found[name].values.ravel()[0])
        for name in ("simulated_final_error", "simulated_final_error_se")
    )
    truth = float(many["simulated_final_error"].values.ravel()[0])
    return Pair(true_error=mean - truth, estimate=se)


def step_drift(rng: np.random.Generator) -> Pair | None:
    """N E[du] of one coordinate, measured on 2000 steps, against the theory."""
    step = single_step(rng)
    place = int(rng.integers(step.drift.size))
    off = float(step.drift[place] - step.drift_theory[place])
    return Pair(true_error=off, estimate=float(step.drift_error[place]))


def step_diffusion(rng: np.random.Generator) -> Pair | None:
    """N^2 Cov(du) of one pair of coordinates."""
    step = single_step(rng)
    place = tuple(int(rng.integers(size)) for size in step.diffusion.shape)
    off = float(step.diffusion[place] - step.diffusion_theory[place])
    return Pair(true_error=off, estimate=float(step.diffusion_error[place]))


def single_step(rng: np.random.Generator) -> object:
    """The moments of one step of a committee."""
    problem = committee(rng, most=2)
    seed = int(rng.integers(2**31))
    start = specialized(rng, problem)
    return tu.analysis.step_moments(problem, start, dim=400, samples=2000, seed=seed)


# Escapes


def escape_law(rng: np.random.Generator) -> tuple[object, tu.Trajectory]:
    """The law of escapes, and 20 networks that start alike."""
    problem = tu.Problem(
        tu.Network(2, "erf"),
        tu.Network(2, "erf"),
        optimizer=tu.SGD(lr=float(rng.uniform(0.8, 1.8))),
    )
    tilt = 10.0 ** rng.uniform(-2.7, -1.5) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    base = float(rng.uniform(0.15, 0.35))
    Q = np.eye(2) * float(rng.uniform(0.15, 0.3)) + 2 * base**2
    dim = int(rng.choice([500, 1000, 4000]))
    start = tu.Start(R=base + tilt, Q=Q, dim=dim)
    seed = int(rng.integers(2**31))
    law = tu.analysis.escape_distribution(problem, start, samples=300, seed=seed)
    times = tu.linear_times(1.3 * float(np.max(law.times)), 601)
    return law, tu.simulate(problem, start, times=times, runs=20, seed=seed + 1)


def escape_quantiles(rng: np.random.Generator) -> Pair | None:
    """One network's escape time, against the middle 95% of the law."""
    law, runs = escape_law(rng)
    times, _ = law.measured(runs)
    low, middle, high = law.quantiles([0.025, 0.5, 0.975])
    half = high - middle if times[0] > middle else middle - low
    return Pair(true_error=float(times[0] - middle), estimate=float(half))


def escape_mean(rng: np.random.Generator) -> Pair | None:
    """The mean escape of 20 networks, against the law's mean and width."""
    law, runs = escape_law(rng)
    times, _ = law.measured(runs)
    of_mean = law.width * np.sqrt(1 / times.size + 1 / law.times.size)
    return Pair(true_error=float(times.mean() - law.mean), estimate=float(of_mean))


def escape_permutations(rng: np.random.Generator) -> Pair | None:
    """How many of 20 networks end in the most probable permutation."""
    law, runs = escape_law(rng)
    _, teachers = law.measured(runs)
    permutation, share = next(iter(law.permutations.items()))
    if share > 0.95:
        return None
    seen = float(np.mean(np.all(teachers == permutation, axis=1)))
    size = np.sqrt(share * (1 - share) * (1 / len(teachers) + 1 / law.times.size))
    return Pair(true_error=seen - share, estimate=float(size))


# Data


LAWS = {  # standardized, with skewness and excess kurtosis
    "normal": (stats.norm, 0.0, 0.0),
    "exponential": (stats.expon, 2.0, 6.0),
    "uniform": (stats.uniform, 0.0, -1.2),
}


def field_kurtosis(rng: np.random.Generator) -> Pair | None:
    """Excess kurtosis of 64 directions, each with the same known law."""
    fields, _, kurtosis = independent_fields(rng)
    shape = FieldShape.of([fields])
    return Pair(true_error=shape.kurtosis - kurtosis, estimate=shape.kurtosis_error)


def field_skewness(rng: np.random.Generator) -> Pair | None:
    """Skewness of 64 directions, each with the same known law."""
    fields, skewness, _ = independent_fields(rng)
    shape = FieldShape.of([fields])
    return Pair(true_error=shape.skewness - skewness, estimate=shape.skewness_error)


def independent_fields(rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
    """Standardized fields (samples, directions), partly one scale for all of them."""
    samples = int(rng.integers(300, 3000))
    directions = int(rng.choice([1, 8, 64]))
    shape = (samples, directions)
    if rng.random() < 0.3:  # one scale for all directions of a sample
        scale = np.where(rng.random((samples, 1)) < 0.5, 0.6, np.sqrt(2 - 0.36))
        fields = scale * rng.standard_normal(shape)
        skewness = 0.0
        kurtosis = 3 * float((0.6**4 + (2 - 0.36) ** 2) / 2) - 3
    else:
        law, skewness, kurtosis = LAWS[str(rng.choice(list(LAWS)))]
        fields = law.rvs(size=shape, random_state=rng)
    return (fields - fields.mean(axis=0)) / fields.std(axis=0), skewness, kurtosis


# Several tasks, samples


def forgetting(rng: np.random.Generator) -> Pair | None:
    """The forgetting of the first task by ten networks, against 600."""
    one = tu.Network(1, "erf")
    leaves = float(rng.uniform(3.0, 8.0))
    similarity = float(rng.uniform(0.0, 0.9))
    tasks = tu.Tasks([one, one], tu.Switch(leaves), similarity=similarity)
    optimizer = tu.SGD(lr=float(rng.uniform(0.3, 1.2)))
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=optimizer
    )
    times = np.array([0.0, leaves, 2 * leaves])
    seeds = rng.integers(2**31, size=2)
    amounts = []
    for count, seed in zip((10, 600), seeds, strict=True):
        runs = tu.simulate(problem, times=times, dim=60, runs=count, seed=int(seed))
        amounts.append(tu.analysis.forgetting(runs))
    few, many = amounts
    off = float(few.amount[0] - many.amount[0])
    return Pair(true_error=off, estimate=float(few.standard_error[0]))


def data_gap(rng: np.random.Generator) -> Pair | None:
    """One cause of the gap of 15 networks to the theory, against 300."""
    scales = np.arange(1.0, 13.0) ** -rng.uniform(0.2, 1.0)
    X = rng.exponential(size=(400, 12)) * scales
    data = tu.from_data(X, levels=3)
    unit = tu.Network(2, "erf")
    problem = data.problem(
        unit, unit, optimizer=tu.SGD(lr=float(rng.uniform(0.2, 0.8)))
    )
    weights = (0.3 * rng.standard_normal((2, 12)), rng.standard_normal((2, 12)))
    seeds = rng.integers(2**31, size=2)
    found = []
    for count, seed in zip((15, 300), seeds, strict=True):
        runs = data.compare(
            problem, [0.0, 2.0, 5.0], runs=count, seed=int(seed), weights=weights
        )
        found.append(runs.causes() | {"gap": runs.gap()})
    few, many = found
    name = str(rng.choice(list(few)))
    time = int(rng.integers(1, 3))
    off = float(few[name][0][time] - many[name][0][time])
    return Pair(true_error=off, estimate=float(few[name][1][time]))


# Averages of rules


def noisy_case(rng: np.random.Generator, hidden: int) -> tuple[tu.Problem, tu.Start]:
    """A problem whose rule is averaged over nodes, those of its label noise included."""
    unit = tu.Network(hidden, "erf")
    optimizer = tu.SGD(lr=float(rng.uniform(0.2, 1.5)))
    kind = str(rng.choice(["flipped", "noisy labels", "Huber", "absolute"]))
    if kind == "flipped":
        flip = float(rng.choice([0.02, 0.1]))
        problem = tu.Problem(
            unit,
            unit,
            optimizer=optimizer,
            labels=tu.labels.Sign(flip=flip),
            loss="logistic",
        )
    elif kind == "noisy labels":
        problem = tu.Problem(
            unit,
            unit,
            optimizer=optimizer,
            labels=tu.labels.Logistic(3.0),
            loss="logistic",
        )
    elif kind == "Huber":
        loss = tu.losses.Huber(float(rng.uniform(0.2, 1.5)))
        problem = tu.Problem(unit, unit, optimizer=optimizer, loss=loss, noise=0.5)
    else:
        problem = tu.Problem(
            unit, unit, optimizer=optimizer, loss="absolute", noise=0.3
        )
    return problem, specialized(rng, problem)


def few_points(rng: np.random.Generator) -> Sampled:
    """A small set with scramblings of its own."""
    return Sampled(2**11, seed=int(rng.integers(1000)))


def sampling_error(rng: np.random.Generator) -> Pair | None:
    """The error of a curve from few points, against 16 times as many."""
    problem, start = noisy_case(rng, 2)
    times = tu.linear_times(5.0, 6)
    few = tu.solve(problem, start, times, moments=few_points(rng))
    many = tu.solve(problem, start, times, moments=Sampled(2**15, seed=1001))
    (place,) = chosen(rng, few.error)
    off = float(few.error[place] - many.error[place])
    return Pair(true_error=off, estimate=float(few.sampling_error[place]))


def averages_error_sampled(rng: np.random.Generator) -> Pair | None:
    """A and B from few points at five moments, against 16 times as many."""
    problem, start = noisy_case(rng, 2)
    points = few_points(rng)
    theory = tu.solve(problem, start, tu.linear_times(5.0, 6), moments=points)
    stated = theory.validity.averages_error
    used = moments_for(problem, None, points)
    finer = moments_for(problem, None, Sampled(2**15, seed=1001))
    return Pair(true_error=gap_of_pairs(theory, used, finer), estimate=stated[0])


def averages_error_grid(rng: np.random.Generator) -> Pair | None:
    """A and B of single units from a coarse grid, against eight times the nodes."""
    problem, start = noisy_case(rng, 1)
    theory = tu.solve(problem, start, tu.linear_times(5.0, 6))
    grid = moments_for(problem)
    _, t = initial_overlaps(problem, start)
    coarse = replace(grid, grid=int(rng.choice([6, 8, 10, 12])))
    finer = replace(grid, grid=64)
    stated = averages_error(OrderParameters(problem, t), coarse, theory)
    return Pair(true_error=gap_of_pairs(theory, coarse, finer), estimate=stated[0])


def averages_error_quadrature(rng: np.random.Generator) -> Pair | None:
    """A and B of an activation without closed form, against a much finer rule."""
    activation = str(rng.choice(["tanh", "sigmoid", "gelu", "swish"]))
    problem = committee(rng, most=2).replace(**{"student.activation": activation})
    start = specialized(rng, problem)
    coarse = Quadrature(nodes=int(rng.choice([8, 12, 16])))
    theory = tu.solve(problem, start, tu.linear_times(5.0, 6), quadrature=coarse)
    stated = theory.validity.averages_error
    used, finer = (
        moments_for(problem, rule) for rule in (coarse, Quadrature(96, 2**14))
    )
    return Pair(true_error=gap_of_pairs(theory, used, finer), estimate=stated[0])


def gap_of_pairs(theory: tu.Trajectory, used: object, finer: object) -> float:
    """The largest relative difference of A and B at five moments of a curve."""
    _, t = initial_overlaps(theory.problem, theory.start)
    system = OrderParameters(theory.problem, t)
    which = np.linspace(0, len(theory.times) - 1, 5).astype(int)
    names = ("R", "Q", "readout", "bias")
    seen = {
        n: np.asarray(theory.variables[n])[which]
        for n in names
        if n in theory.variables
    }
    (a, _), (b, _) = (
        _matrices(system, m, T=theory.T, seen=seen) for m in (used, finer)
    )
    size = np.max(np.abs(b), axis=(1, 2))
    return float(np.max(np.max(np.abs(a - b), axis=(1, 2)) / size))


ESTIMATES = {
    "fit_exponent": Estimate(fit_exponent, TWO, count=200, quick=10),
    "fit_exponent_known": Estimate(fit_exponent_known, TWO, count=200),
    "spectral_exponent": Estimate(spectral_exponent, TWO, count=100, quick=10),
    "growth_rate": Estimate(growth_rate, TWO, count=100),
    "stopping_bracket": Estimate(stopping_bracket, BOUND, count=100, quick=20),
    "fluctuations_error": Estimate(fluctuations_error, TWO, count=100),
    "fluctuations_overlaps": Estimate(fluctuations_overlaps, TWO, count=100),
    "fluctuations_accuracy": Estimate(fluctuations_accuracy, TWO, count=100),
    "compare_standard_error": Estimate(compare_standard_error, TWO, count=100),
    "compare_scatter": Estimate(compare_scatter, TWO, count=100),
    "expected_gap": Estimate(expected_gap, BOUND, count=60),
    "momentum_gap": Estimate(momentum_gap, BOUND, count=60),
    "rough_gap": Estimate(rough_gap, BOUND, count=60),
    "sweep_standard_error": Estimate(sweep_standard_error, TWO, count=100),
    "step_drift": Estimate(step_drift, TWO, count=100),
    "step_diffusion": Estimate(step_diffusion, TWO, count=100),
    "escape_quantiles": Estimate(escape_quantiles, BOUND, count=60),
    "escape_mean": Estimate(escape_mean, TWO, count=60),
    "escape_permutations": Estimate(escape_permutations, TWO, count=60),
    "field_skewness": Estimate(field_skewness, TWO, count=200, quick=30),
    "field_kurtosis": Estimate(field_kurtosis, TWO, count=200, quick=30),
    "forgetting": Estimate(forgetting, TWO, count=100),
    "data_gap": Estimate(data_gap, TWO, count=60),
    "sampling_error": Estimate(sampling_error, BOUND, count=30),
    "averages_error_sampled": Estimate(averages_error_sampled, BOUND, count=30),
    "averages_error_grid": Estimate(averages_error_grid, BOUND, count=30),
    "averages_error_quadrature": Estimate(averages_error_quadrature, BOUND, count=20),
}


def main() -> None:
    """Print the rows of the named estimates, or of all."""
    parser = argparse.ArgumentParser(description="Coverage of error estimates.")
    parser.add_argument("names", nargs="*", choices=[[], *ESTIMATES], metavar="NAME")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=None, help="how many problems")
    options = parser.parse_args()
    print(HEAD, flush=True)
    for name in options.names or ESTIMATES:
        print(measure(name, options.count, options.first), flush=True)


if __name__ == "__main__":
    main()
