"""Why there is a curve at all: the conditions under which the overlaps of SGD concentrate on an ODE, measured against N.

The theorem (Wang, Mattingly & Lu 2017; Goldt et al. 2019): if in N steps per unit of time
    mean      N E[du | u] = f(u) + o(1)          one step moves as the drift says          here N^-1
    variance  N Var(du | u) -> 0                 the noise of a unit of time vanishes       here N^-1
    start     u(0) -> a fixed value              different draws of weights start equal     here N^(-1/2)
then u follows du/dalpha = f(u), with single runs at a distance of order N^(-1/2). Each quantity is measured at several N, and
its exponent fitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tutelage import InputError, Problem, Start, checks, linear_times, simulate, solve
from tutelage.analysis import Exponent, StepMoments, fit_exponent, step_moments
from tutelage_papers.assumptions import require_problem, require_start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_POINTS, LEAST_DECADES = 5, 0.5  # of an exponent, as in `fit_exponent`
WEIGHT_DRAWS = 1000  # of random weights
COMPARED_TIMES = 33  # at which whole runs are compared
CLEAR_ERRORS = 3.0  # standard errors at which a gap is distinguished from noise
NEAR_EXPONENT = 0.15  # distance to the expected exponent at which it is called equal
CONSTANT_EXPONENT = -0.1  # exponents above this do not vanish


def mean_gap(steps: StepMoments, f: np.ndarray, gaussian: bool) -> tuple[float, float]:
    """|N E[du] - f| and its standard error, the noise's own share taken off.

    For Gaussian inputs the limit's share of each sample has exactly the mean f: what the real step does beyond it is
    averaged instead, which is far less noisy.
    """
    inputs = steps.problem.inputs
    exact = gaussian and np.allclose(
        inputs.level_dims(steps.dim), np.asarray(inputs.fractions) * steps.dim
    )
    values = steps.increments - (steps.limit if exact else f)
    gap = values.mean(axis=0)
    error = values.std(axis=0) / np.sqrt(len(values))
    size = np.sqrt(max(float(np.sum(gap**2 - error**2)), 0.0))
    along = np.sqrt(np.sum((gap * error) ** 2)) / max(
        float(np.linalg.norm(gap)), 1e-300
    )
    return size, float(max(along, 1e-15))


def total_variance(increments: np.ndarray) -> tuple[float, float]:
    """Trace of N^2 Cov(du), and its standard error."""
    squares = np.sum((increments - increments.mean(axis=0)) ** 2, axis=1)
    return float(squares.mean()), float(squares.std() / np.sqrt(squares.size))


def start_scatter(
    problem: Problem, start: Start, dim: int, seed: int
) -> tuple[float, float, float]:
    """Root mean square distance of the overlaps of random weights from their mean, its error, and its exact value.

    Coordinates of all vectors are drawn with the start's overlaps as their covariance; then, in a level of n dimensions,
    Var(a.b/n) = ((a.a/n)(b.b/n) + (a.b/n)^2) / n on average. Gram matrices are drawn by Bartlett's factor, at the same cost for any N.
    """
    rng = np.random.default_rng([seed, dim])
    K = problem.student.hidden
    r, q, t = (np.asarray(x, dtype=float) for x in start.blocks(problem))
    squares = np.zeros(WEIGHT_DRAWS)
    exact = 0.0
    for n, *level in zip(problem.inputs.level_dims(dim), r, q, t, strict=True):
        joint = np.block([[level[1], level[0]], [level[0].T, level[2]]])
        values, vectors = np.linalg.eigh(joint)
        size = len(joint)
        factor = np.tril(rng.standard_normal((WEIGHT_DRAWS, size, size)), -1)
        factor[:, np.arange(size), np.arange(size)] = np.sqrt(
            rng.chisquare(n - np.arange(size), (WEIGHT_DRAWS, size))
        )
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ factor
        kept = (
            np.arange(size) >= np.arange(K)[:, None]
        )  # each pair that holds a student once
        away = (root @ np.swapaxes(root, 1, 2) / n - joint)[:, :K][:, kept]
        squares += np.sum(away**2, axis=1)
        exact += float(
            np.sum(
                (np.outer(np.diagonal(joint), np.diagonal(joint)) + joint**2)[:K][kept]
            )
            / n
        )
    distance = float(np.sqrt(squares.mean()))
    return (
        distance,
        float(squares.std() / np.sqrt(WEIGHT_DRAWS) / (2 * distance)),
        float(np.sqrt(exact)),
    )


def largest_distance(
    problem: Problem,
    start: Start,
    dim: int,
    end: float,
    runs: int,
    inputs: str,
    seed: int,
) -> tuple[float, float]:
    """Mean over runs of the largest distance, over time, of all order parameters to the solved curve; its standard error."""
    times = linear_times(end, COMPARED_TIMES)
    method, law = ("overlaps", None) if inputs == "gaussian" else ("weights", inputs)
    theory = solve(problem, start, times)
    seen = simulate(
        problem,
        start,
        dim=dim,
        times=times,
        runs=runs,
        seed=seed,
        method=method,
        inputs=law,
    )
    names = [name for name in ("R", "Q", "readout", "bias") if name in theory.variables]
    squares = sum(
        np.sum((seen[n] - theory[n]).reshape(runs, COMPARED_TIMES, -1) ** 2, axis=2)
        for n in names
    )
    far = np.sqrt(np.max(np.asarray(squares), axis=1))
    return float(far.mean()), float(far.std(ddof=1) / np.sqrt(runs))


@dataclass(frozen=True)
class Condition:
    """One quantity that must vanish: values (with standard errors) at each N, the expected power of N and the fitted one.

    theory: what it should be, (dims,), where that is known. exponent: None where too few values stand out of the noise.
    holds: False if it does not vanish. verdict: in words.
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
    """What `concentration` measured: `conditions` by name ("mean", "variance", "start", and "runs" if asked for)."""

    problem: Problem
    inputs: str
    samples: int
    conditions: dict[str, Condition]

    def __getitem__(self, name: str) -> Condition:
        """A condition by name."""
        return self.conditions[
            checks.known("the name of a condition", name, self.conditions)
        ]

    @property
    def holds(self) -> bool:
        """Do all conditions hold, as far as was measured?"""
        return all(condition.holds for condition in self.conditions.values())

    def plot(self, *, title: str | None = None) -> "Figure":
        """Each condition against N, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage_papers.notes.plots import plot_concentration

        return plot_concentration(self, title=title)

    def __str__(self) -> str:
        dims = next(iter(self.conditions.values())).dims
        head = f"{self.inputs} inputs, N = {dims[0]} to {dims[-1]}, {self.samples} single steps at each"
        return "\n".join(
            [head, *(f"{c.meaning}: {c.verdict}" for c in self.conditions.values())]
        )


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

    start: where the single steps begin; random weights for the third condition have these overlaps on average. dims: five
    or more, over half a decade or more. samples: single steps at each N. inputs: their law, as in `step_moments`.
    end: also follow `runs` whole runs at each N up to this time, and measure their largest distance to the solved curve.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5))
    >>> found = tutelage_papers.notes.concentration(problem, tu.asymmetric_start(problem), (16, 32, 64, 128, 256), samples=4000)
    >>> -1.3 < found["variance"].exponent.slope < -0.7
    True
    """
    require_problem(
        problem, "concentration", ("no momentum", "free norms", "all levels")
    )
    start = require_start(start).without_dim()  # only its overlaps count
    sizes = _dims(problem, dims)
    seed = checks.as_count("seed", seed, least=0)
    one = [
        step_moments(
            problem, start, int(n), samples=samples, inputs=inputs, seed=seed + i
        )
        for i, n in enumerate(sizes)
    ]
    D = one[0].diffusion_theory
    gaps = [mean_gap(steps, steps.drift_theory, inputs == "gaussian") for steps in one]
    noise = [total_variance(steps.increments) for steps in one]
    starts = [
        start_scatter(problem, start, int(n), seed + i) for i, n in enumerate(sizes)
    ]
    moments = {
        "mean": ("mean: |N E[du] - f|", np.array(gaps), None, -1.0),
        "variance": (
            "variance: N Var(du)",
            np.array(noise) / sizes[:, None],
            np.trace(D) / sizes,
            -1.0,
        ),
        "start": (
            "start: scatter of u(0)",
            np.array(starts)[:, :2],
            np.array(starts)[:, 2],
            -0.5,
        ),
    }
    if end is not None:
        away = [
            largest_distance(problem, start, int(n), end, runs, inputs, seed)
            for n in sizes
        ]
        moments["runs"] = ("whole runs: largest |u_N - u|", np.array(away), None, -0.5)
    found = {
        name: judge_condition(
            name, meaning, sizes, values[:, 0], values[:, 1], theory, expected
        )
        for name, (meaning, values, theory, expected) in moments.items()
    }
    return Concentration(problem, inputs, one[0].samples, found)


def _dims(problem: Problem, dims: Sequence[int]) -> np.ndarray:
    """Increasing whole numbers, enough of them for an exponent, each large enough for the vectors."""
    sizes = np.array(
        [
            checks.as_count("dims", n)
            for n in np.atleast_1d(np.asarray(dims, dtype=object))
        ]
    )
    if (
        sizes.size < LEAST_POINTS
        or np.any(np.diff(sizes) <= 0)
        or np.log10(sizes[-1] / sizes[0]) < LEAST_DECADES
    ):
        raise InputError(
            f"dims are {checks.shown(sizes)}; give {LEAST_POINTS} or more increasing sizes over half a decade or more, such as "
            "(16, 32, 64, 128, 256, 512)."
        )
    least = int(problem.inputs.level_dims(int(sizes[0])).min())
    vectors = problem.student.hidden + problem.teacher.hidden
    if least < vectors:
        raise InputError(
            f"at dim = {sizes[0]} a level has {least} dimensions; {vectors} vectors (student and teacher units) need at least "
            f"{vectors}. Start at larger dims."
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
    """A condition with its exponent, if its values stand out of the noise, and a verdict."""
    clear = values > CLEAR_ERRORS * errors
    fit = None
    wide = (
        clear.sum() >= LEAST_POINTS
        and np.log10(dims[clear][-1] / dims[clear][0]) >= LEAST_DECADES
    )
    if wide:
        x = dims[clear].astype(float)
        fit = fit_exponent(
            x,
            values[clear],
            (x[0], x[-1]),
            y_error=np.maximum(errors[clear], 1e-12 * values[clear]),
        )
    holds, words = _condition_verdict(fit, expected, dims, values, errors)
    return Condition(
        name, meaning, dims, values, errors, theory, expected, fit, holds, words
    )


def _condition_verdict(
    fit: Exponent | None,
    expected: float,
    dims: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray,
) -> tuple[bool, str]:
    if fit is None:
        bound = f"below {values[-1] + 2 * errors[-1]:.2g} at N = {dims[-1]}"
        return (
            True,
            f"holds as far as measured: lost in noise, {bound}; raise samples to see it",
        )
    power = f"N^s with s = {fit.slope:.3f} ± {fit.error:.2g}, {values[-1]:.2g} at N = {dims[-1]}"
    if fit.slope - 2 * fit.error > CONSTANT_EXPONENT or fit.slope > CONSTANT_EXPONENT:
        return False, f"FAILS: does not vanish, {power}"
    if abs(fit.slope - expected) < NEAR_EXPONENT + 2 * fit.error:
        return True, f"holds: falls as {power} (expected {expected:g})"
    return True, f"holds, but falls as {power} (expected {expected:g})"
