"""Conditions under which the overlaps of SGD concentrate on an ODE, measured against N.

The theorem (Wang, Mattingly & Lu 2017; Goldt et al. 2019): if in N steps per unit of
time

    mean      N E[du | u] = f(u) + o(1)    one step moves as the drift says, N^-1 here
    variance  N Var(du | u) -> 0           the noise of a unit of time vanishes, N^-1
    start     u(0) -> a fixed value        draws of weights start equal, N^(-1/2)

then u follows du/dalpha = f(u), with single runs at a distance of order N^(-1/2). Each
quantity is measured at several N, and its exponent fitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import InputError, Problem, Start, checks, linear_times, simulate, solve
from tutelage.analysis import Exponent, StepMoments, fit_exponent, step_moments
from tutelage_papers.assumptions import require_problem, require_start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Least numbers of sizes and of decades for an exponent, as in `fit_exponent`.
LEAST_POINTS = 5
LEAST_DECADES = 0.5
WEIGHT_DRAWS = 1000  # of random weights
COMPARED_TIMES = 33  # at which whole runs are compared
CLEAR_ERRORS = 3.0  # standard errors at which a gap is distinguished from noise
NEAR_EXPONENT = 0.15  # distance to the expected exponent at which it is called equal
CONSTANT_EXPONENT = -0.1  # exponents above this do not vanish


def mean_gap(steps: StepMoments, f: np.ndarray, gaussian: bool) -> tuple[float, float]:
    """Return |N E[du] - f| and its standard error, the noise's own share taken off.

    For Gaussian inputs the limit's share of each sample has exactly the mean f: what
    the real step does beyond it is averaged instead, which is far less noisy.
    """
    inputs = steps.problem.inputs
    even_dims = np.asarray(inputs.fractions) * steps.dim
    exact = gaussian and np.allclose(inputs.level_dims(steps.dim), even_dims)
    values = steps.increments - (steps.limit if exact else f)
    gap = values.mean(axis=0)
    error = values.std(axis=0) / np.sqrt(len(values))
    size = np.sqrt(max(float(np.sum(gap**2 - error**2)), 0.0))
    # The error of a length is that of the gap along its own direction.
    length = max(float(np.linalg.norm(gap)), 1e-300)
    along = np.sqrt(np.sum((gap * error) ** 2)) / length
    return size, float(max(along, 1e-15))


def total_variance(increments: np.ndarray) -> tuple[float, float]:
    """Return the trace of N^2 Cov(du), and its standard error."""
    squares = np.sum((increments - increments.mean(axis=0)) ** 2, axis=1)
    return float(squares.mean()), float(squares.std() / np.sqrt(squares.size))


def start_scatter(
    problem: Problem, start: Start, dim: int, seed: int
) -> tuple[float, float, float]:
    """Return the scatter of the overlaps of random weights, its error and exact value.

    The scatter is the root mean square distance of the overlaps from their mean.
    Coordinates of all vectors are drawn with the start's overlaps as their covariance;
    then, in a level of n dimensions, Var(a.b/n) = ((a.a/n)(b.b/n) + (a.b/n)^2) / n on
    average.
    """
    rng = np.random.default_rng([seed, dim])
    K = problem.student.hidden
    R, Q, T = (np.asarray(block, dtype=float) for block in start.blocks(problem))
    squares = np.zeros(WEIGHT_DRAWS)
    variance = 0.0
    for level, n in enumerate(problem.inputs.level_dims(dim)):
        joint = np.block([[Q[level], R[level]], [R[level].T, T[level]]])
        size = len(joint)
        # Each pair that holds a student, once.
        pairs = np.arange(size) >= np.arange(K)[:, None]
        away = _random_gram(joint, n, rng) - joint
        squares += np.sum(away[:, :K][:, pairs] ** 2, axis=1)
        lengths = np.diagonal(joint)
        variances = np.outer(lengths, lengths) + joint**2
        variance += float(np.sum(variances[:K][pairs]) / n)
    distance = float(np.sqrt(squares.mean()))
    error = float(squares.std() / np.sqrt(WEIGHT_DRAWS) / (2 * distance))
    return distance, error, float(np.sqrt(variance))


def _random_gram(joint: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Gram matrices, over n, of vectors of n coordinates with this covariance.

    They are drawn by Bartlett's factor, at the same cost for any n.
    """
    size = len(joint)
    diagonal = np.arange(size)
    values, vectors = np.linalg.eigh(joint)
    factor = np.tril(rng.standard_normal((WEIGHT_DRAWS, size, size)), -1)
    chi_squares = rng.chisquare(n - diagonal, (WEIGHT_DRAWS, size))
    factor[:, diagonal, diagonal] = np.sqrt(chi_squares)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ factor
    return root @ np.swapaxes(root, 1, 2) / n


def largest_distance(
    problem: Problem,
    start: Start,
    dim: int,
    end: float,
    runs: int,
    inputs: str,
    seed: int,
) -> tuple[float, float]:
    """Return the mean largest distance of runs to the solved curve, and its error.

    It is the largest over time, of all order parameters together.
    """
    times = linear_times(end, COMPARED_TIMES)
    theory = solve(problem, start, times)
    law: dict[str, Any] = {"method": "weights", "inputs": inputs}
    if inputs == "gaussian":
        law = {"method": "overlaps"}
    seen = simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed, **law)
    squares = np.zeros((runs, COMPARED_TIMES))
    for name in ("R", "Q", "readout", "bias"):
        if name in theory.variables:
            gap = (seen[name] - theory[name]).reshape(runs, COMPARED_TIMES, -1)
            squares += np.sum(gap**2, axis=2)
    largest = np.sqrt(np.max(squares, axis=1))
    return float(largest.mean()), float(largest.std(ddof=1) / np.sqrt(runs))


@dataclass(frozen=True)
class Condition:
    """One quantity that must vanish, at each N, with its power of N.

    values, errors: at each N, with standard errors. theory: the exact values where they
    are known. expected, exponent: the power of N, and the fitted one; None where too
    few values stand out of the noise. holds: False if it does not vanish. verdict: in
    words.
    """

    name: str
    meaning: str
    dims: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    theory: np.ndarray | None
    expected: float
    exponent: Exponent | None
    holds: bool
    verdict: str


@dataclass(frozen=True)
class Concentration:
    """The measurement of `concentration`.

    conditions: by name ("mean", "variance", "start", and "runs" if asked for).
    """

    problem: Problem
    inputs: str
    samples: int
    conditions: dict[str, Condition]

    def __getitem__(self, name: str) -> Condition:
        """Return a condition by name."""
        name = checks.known("the name of a condition", name, self.conditions)
        return self.conditions[name]

    @property
    def holds(self) -> bool:
        """True if all conditions hold, as far as was measured."""
        return all(condition.holds for condition in self.conditions.values())

    def plot(self, *, title: str | None = None) -> "Figure":
        """Return a Matplotlib figure of each condition against N.

        `plot.save_figure` stores it.
        """
        from tutelage_papers.notes.plots import plot_concentration

        return plot_concentration(self, title=title)

    def __str__(self) -> str:
        dims = self.conditions["mean"].dims
        sizes = f"N = {dims[0]} to {dims[-1]}"
        lines = [f"{self.inputs} inputs, {sizes}, {self.samples} single steps at each"]
        for condition in self.conditions.values():
            lines.append(f"{condition.meaning}: {condition.verdict}")
        return "\n".join(lines)


def concentration(
    problem: Problem,
    start: Start,
    dims: Sequence[int] = (16, 32, 64, 128, 256, 512),
    *,
    samples: int = 100_000,
    inputs: str = "gaussian",
    end: float | None = None,
    runs: int = 64,
    seed: int = 0,
) -> Concentration:
    """Measure the conditions of concentration at several N, and fit their exponents.

    start: where the single steps begin; random weights for the third condition have
    these overlaps on average. dims: five or more, over half a decade or more. samples:
    single steps at each N. inputs: their law, as in `step_moments`. end: also follow
    `runs` whole runs at each N up to this time, and measure their largest distance to
    the solved curve.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.asymmetric_start(problem)
    >>> dims = (16, 32, 64, 128, 256)
    >>> found = tutelage_papers.notes.concentration(problem, start, dims, samples=4000)
    >>> -1.3 < found["variance"].exponent.slope < -0.7
    True
    """
    require_problem(
        problem, "concentration", ("no momentum", "free norms", "all levels")
    )
    start = require_start(start).without_dim()  # only its overlaps count
    sizes = _checked_dims(problem, dims)
    seed = checks.as_count("seed", seed, least=0)
    steps = []
    starts = []
    for place, dim in enumerate(sizes):
        size = int(dim)
        steps.append(
            step_moments(
                problem, start, size, samples=samples, inputs=inputs, seed=seed + place
            )
        )
        starts.append(start_scatter(problem, start, size, seed + place))
    conditions = _step_conditions(sizes, steps, inputs == "gaussian")
    conditions["start"] = _start_condition(sizes, np.array(starts))
    if end is not None:
        distances = np.array(
            [
                largest_distance(problem, start, int(dim), end, runs, inputs, seed)
                for dim in sizes
            ]
        )
        conditions["runs"] = judge_condition(
            name="runs",
            meaning="whole runs: largest |u_N - u|",
            dims=sizes,
            values=distances[:, 0],
            errors=distances[:, 1],
            theory=None,
            expected=-0.5,
        )
    return Concentration(problem, inputs, steps[0].samples, conditions)


def _step_conditions(
    dims: np.ndarray, steps: list[StepMoments], gaussian: bool
) -> dict[str, Condition]:
    """The conditions on the mean and the variance of single steps."""
    gaps = np.array([mean_gap(step, step.drift_theory, gaussian) for step in steps])
    noise = np.array([total_variance(step.increments) for step in steps])
    noise = noise / dims[:, None]
    mean = judge_condition(
        name="mean",
        meaning="mean: |N E[du] - f|",
        dims=dims,
        values=gaps[:, 0],
        errors=gaps[:, 1],
        theory=None,
        expected=-1.0,
    )
    variance = judge_condition(
        name="variance",
        meaning="variance: N Var(du)",
        dims=dims,
        values=noise[:, 0],
        errors=noise[:, 1],
        theory=np.trace(steps[0].diffusion_theory) / dims,
        expected=-1.0,
    )
    return {"mean": mean, "variance": variance}


def _start_condition(dims: np.ndarray, scatter: np.ndarray) -> Condition:
    """The condition on random initial weights: scatter, its error and exact value."""
    return judge_condition(
        name="start",
        meaning="start: scatter of u(0)",
        dims=dims,
        values=scatter[:, 0],
        errors=scatter[:, 1],
        theory=scatter[:, 2],
        expected=-0.5,
    )


def _checked_dims(problem: Problem, dims: Sequence[int]) -> np.ndarray:
    """Increasing whole numbers, enough for an exponent, large enough for vectors."""
    given = np.atleast_1d(np.asarray(dims, dtype=object))
    sizes = np.array([checks.as_count("dims", dim) for dim in given])
    if (
        sizes.size < LEAST_POINTS
        or np.any(np.diff(sizes) <= 0)
        or np.log10(sizes[-1] / sizes[0]) < LEAST_DECADES
    ):
        raise InputError(
            f"dims are {checks.shown(sizes)}; give {LEAST_POINTS} or more increasing "
            "sizes over half a decade or more, such as (16, 32, 64, 128, 256, 512)."
        )
    least = int(problem.inputs.level_dims(int(sizes[0])).min())
    vectors = problem.student.hidden + problem.labeler.hidden
    if least < vectors:
        raise InputError(
            f"at dim = {sizes[0]} a level has {least} dimensions; {vectors} vectors "
            f"(student and teacher units) need at least {vectors}. Start at larger "
            "dims."
        )
    return sizes


def judge_condition(
    name: str,
    meaning: str,
    dims: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray,
    theory: np.ndarray | None,
    expected: float,
) -> Condition:
    """Return a condition with its verdict, and its exponent if values are not noise."""
    clear = values > CLEAR_ERRORS * errors
    sizes = dims[clear].astype(float)
    fit = None
    if sizes.size >= LEAST_POINTS and np.log10(sizes[-1] / sizes[0]) >= LEAST_DECADES:
        fit = fit_exponent(
            sizes,
            values[clear],
            (sizes[0], sizes[-1]),
            y_error=np.maximum(errors[clear], 1e-12 * values[clear]),
        )
    holds, verdict = _condition_verdict(fit, expected, dims, values, errors)
    return Condition(
        name=name,
        meaning=meaning,
        dims=dims,
        values=values,
        errors=errors,
        theory=theory,
        expected=expected,
        exponent=fit,
        holds=holds,
        verdict=verdict,
    )


def _condition_verdict(
    fit: Exponent | None,
    expected: float,
    dims: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray,
) -> tuple[bool, str]:
    """True if a quantity vanishes, and the verdict in words."""
    if fit is None:
        bound = f"below {values[-1] + 2 * errors[-1]:.2g} at N = {dims[-1]}"
        return True, (
            f"holds as far as measured: lost in noise, {bound}; raise samples to see it"
        )
    power = (
        f"N^s with s = {fit.slope:.3f} ± {fit.error:.2g}, "
        f"{values[-1]:.2g} at N = {dims[-1]}"
    )
    if fit.slope > CONSTANT_EXPONENT:
        return False, f"FAILS: does not vanish, {power}"
    if abs(fit.slope - expected) < NEAR_EXPONENT + 2 * fit.error:
        return True, f"holds: falls as {power} (expected {expected:g})"
    return True, f"holds, but falls as {power} (expected {expected:g})"
