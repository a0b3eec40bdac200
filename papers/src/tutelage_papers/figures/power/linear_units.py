"""Common parts of the figures of one linear unit.

Runs (`linear_sgd`): many students, each with its own inputs, one-pass SGD as it is written,
in NumPy. With the mismatch D = W* - W, one step is D -= (lr/N) (D . x) x on the components
that are trained. Deliberately no part of the library takes part: its closed forms are
compared with this.

Modes in arithmetic of any length, by two routes, with decimal numbers of the standard
library. `secular_modes`: the symmetric form, diag(2 lam) minus a rank-one matrix, with long
numbers instead of doubles. `moment_modes`: the form of the source (its equations 24-27,
45), whose matrix 2 A_1 + eta U is made of moments and of the coefficients of the
characteristic polynomial. Poles and residues of its resolvent are found from the companion
structure, never from the eigenvalues lam. It loses more digits with every level. Both
polish the float64 modes and return (|lambda_B,k|, b_k |lambda_B,k|), fastest first, as
floats (NaN: all digits lost).
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage_papers.claims import Claim, above, at_least, at_most

if TYPE_CHECKING:
    from xarray import Dataset

BLOCK = 2**18  # numbers drawn at a time
SETTLED_FROM = 0.5  # share of the settling time that is left out
SETTLED_TIMES = 80  # times at which settled networks are looked at
CHANCE_Z = 4.0  # a gap in standard errors that is chance
COMMON = {
    "levels": 256,
    "beta": 1.0,
    "rate": 0.05,
    "scale": 0.01,
    "trained": [50, 100, 150, 200],
    "seed": 1,
}
PASSES = 60  # of Newton's method


# Runs


def linear_sgd(
    mismatch: np.ndarray,
    draw: Callable[[int], np.ndarray],
    lr: float,
    steps: np.ndarray,
    error: Callable[[np.ndarray], np.ndarray],
    trained: np.ndarray | None = None,
) -> np.ndarray:
    """Return the error after each number of steps (ascending), (cases, runs, steps).

    mismatch: (cases, runs, N), D at the start. draw(count): (count, runs, N) inputs, which
    all cases share. trained: (cases, N), which components learn (default: all).
    error: (cases, runs, N) -> (cases, runs).
    """
    D = np.array(mismatch, dtype=float)
    cases, runs, N = D.shape
    if trained is None:
        trained = np.ones((cases, N))
    rates = lr / N * np.asarray(trained, dtype=float)[:, None, :]
    errors = np.empty((cases, runs, len(steps)))
    taken = 0
    for i, stop in enumerate(steps):
        while taken < stop:
            count = min(int(stop) - taken, max(1, BLOCK // (runs * N)))
            for x in draw(count):
                field = np.einsum("crn,rn->cr", D, x)
                D -= field[:, :, None] * (rates * x)
            taken += count
        errors[:, :, i] = error(D)
    return errors


def gaussian(
    rng: np.random.Generator, eigenvalues: np.ndarray, runs: int
) -> Callable[[int], np.ndarray]:
    """Return a source of independent normal inputs with these variances."""
    root = np.sqrt(eigenvalues)
    return lambda count: rng.standard_normal((count, runs, root.size)) * root


def diagonal_error(eigenvalues: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function e_g = sum_k lam_k D_k^2 / (2 N)."""
    return lambda D: np.square(D) @ eigenvalues / (2 * eigenvalues.size)


def z_scores(runs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return (mean over runs - mean over expected) in standard errors of the difference.

    Runs are on the axis before the last.
    """
    gap = runs - expected
    error = gap.std(axis=-2, ddof=1) / np.sqrt(gap.shape[-2])
    return gap.mean(axis=-2) / error


# Only some weights learn (figures 3: eigenbasis, 15: raw coordinates)


def problem_of(inputs: "tu.Inputs", rate: float) -> "tu.Problem":
    """Return the problem of one linear unit that learns from one linear unit."""
    linear = tu.Network(1, "linear")
    return tu.Problem(linear, linear, inputs=inputs, optimizer=tu.SGD(rate))


def steps_at(times: np.ndarray, dim: int) -> np.ndarray:
    """Return ceil(alpha N)."""
    return np.ceil(times * dim - 1e-9).astype(int)


def random_weights(
    rng: np.random.Generator, starts: int, dim: int, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return student and teacher weights."""
    student = scale * rng.standard_normal((starts, dim))
    teacher = rng.standard_normal((starts, dim))
    return student, teacher


def floor_z(settled: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return time averages of settled networks against expected ones.

    In standard errors over the starts.
    """
    gap = (settled - expected).mean(axis=2)
    error = gap.std(axis=1, ddof=1) / np.sqrt(gap.shape[1])
    return gap.mean(axis=1) / error


def run_claims(case: "Dataset", name: str) -> Iterator[Claim]:
    """Compare runs with the exact mean of their starts, and their floor.

    The floor is that of the finite rate, not that of the small one.
    """
    inside = np.mean(np.abs(case["z"]) < CHANCE_Z)
    words = (
        "share of times with |z| < 4, runs against the exact mean of their starts, "
        f"{name}"
    )
    yield at_least(words, inside, 0.95)
    words = (
        f"floor: |z| against the finite-rate prediction for the drawn starts, {name}"
    )
    yield at_most(words, abs(case["floor_z"]), CHANCE_Z)
    words = f"floor: z against the small-rate floor (must fail), {name}"
    yield above(words, case["bare_z"], CHANCE_Z)


# Modes in long arithmetic


def power_law(levels: int, beta: float) -> list[Decimal]:
    """Return lam_k = k^-(1+beta) over their mean, in the precision of the context."""
    exponent = -(1 + Decimal(repr(beta)))
    raw = [Decimal(k) ** exponent for k in range(1, levels + 1)]
    mean = _total(raw) / levels
    return [x / mean for x in raw]


def secular_modes(
    levels: int, beta: float, rate: float, digits: int, roots: np.ndarray
) -> np.ndarray:
    """Return the modes by the symmetric form, (2, levels).

    Roots s of 1 = (eta/L) sum lam^2/(2 lam - s), and 2 - eta times the residues of the
    error there.
    """
    with localcontext(Context(prec=digits, traps=[])):
        lam = power_law(levels, beta)
        eta = Decimal(repr(rate))
        weights = [eta / levels * x * x for x in lam]

        def secular(s: Decimal) -> tuple[Decimal, Decimal]:
            """The secular function and its derivative."""
            gaps = [1 / (2 * x - s) for x in lam]
            poles = list(zip(weights, gaps, strict=True))
            value = 1 - _total(weight * gap for weight, gap in poles)
            slope = -_total(weight * gap * gap for weight, gap in poles)
            return value, slope

        modes = []
        for s in _polished(secular, roots, digits):
            bare = _total(x / (2 * x - s) for x in lam) / levels
            _, slope = secular(s)
            modes.append((s, (2 - eta) * -bare / slope))
        return _as_array(modes)


def moment_modes(
    levels: int, beta: float, rate: float, digits: int, roots: np.ndarray
) -> np.ndarray:
    """Return the modes by the source's form, (2, levels).

    Poles -s and residues of e_2 . (z - 2 A_1 - eta U)^-1 T, times 2 - eta.
    """
    with localcontext(Context(prec=digits, traps=[])):
        lam = power_law(levels, beta)
        eta = Decimal(repr(rate))
        T = [_total(x**j for x in lam) / levels for j in range(levels + 1)]
        c = _characteristic_polynomial(lam)

        def closing(s: Decimal) -> tuple[Decimal, Decimal]:
            """1 - eta e_2 . (-s - 2 A_1)^-1 T and its derivative."""
            value, slope = _second_entry(-s, T[1:], c)
            return 1 - eta * value, eta * slope

        modes = []
        for s in _polished(closing, roots, digits):
            value, _ = _second_entry(-s, T[:-1], c)
            _, slope = closing(s)
            modes.append((s, (2 - eta) * -value / slope))
        return _as_array(modes)


def _characteristic_polynomial(lam: list[Decimal]) -> list[Decimal]:
    """Coefficients of prod (X - lam), ascending."""
    coefficients = [Decimal(1)]
    for x in lam:
        shifted = [Decimal(0), *coefficients]
        padded = [*coefficients, Decimal(0)]
        pairs = zip(shifted, padded, strict=True)
        coefficients = [low - x * high for low, high in pairs]
    return coefficients


def _second_entry(
    z: Decimal, u: list[Decimal], c: list[Decimal]
) -> tuple[Decimal, Decimal]:
    """Entry 2 of (z - 2 A_1)^-1 u and its derivative in z.

    By substitution through the companion matrix. Row i: z x_i + 2 x_(i+1) = u_i, so
    x = fixed + free x_1; the last row, z x_L - 2 sum_j c_j x_j = u_L, gives x_1.
    """
    zero = Decimal(0)
    one = Decimal(1)
    fixed = [zero]
    free = [one]
    fixed_slope = [zero]
    free_slope = [zero]
    for value in u[:-1]:
        fixed_slope.append(-(fixed[-1] + z * fixed_slope[-1]) / 2)
        free_slope.append(-(free[-1] + z * free_slope[-1]) / 2)
        fixed.append((value - z * fixed[-1]) / 2)
        free.append(-z * free[-1] / 2)

    def last_row(x: list[Decimal]) -> Decimal:
        return z * x[-1] - 2 * _total(k * y for k, y in zip(c, x, strict=False))

    fixed_last_slope = last_row(fixed_slope) + fixed[-1]
    free_last_slope = last_row(free_slope) + free[-1]
    first = (u[-1] - last_row(fixed)) / last_row(free)
    first_slope = (-fixed_last_slope - first * free_last_slope) / last_row(free)
    if len(u) == 1:
        return first, first_slope
    second = fixed[1] + free[1] * first
    second_slope = fixed_slope[1] + free_slope[1] * first + free[1] * first_slope
    return second, second_slope


def _polished(
    function: Callable[[Decimal], tuple[Decimal, Decimal]],
    roots: np.ndarray,
    digits: int,
) -> Iterator[Decimal]:
    """Newton's steps from float64 roots until they stop.

    A root that runs away shows itself in the comparison.
    """
    for root in roots:
        s = Decimal(float(root))
        for _ in range(PASSES):
            value, slope = function(s)
            if slope == 0:
                break
            step = value / slope
            s -= step
            # Written with `not`, so that a NaN stops it.
            if not abs(step) > abs(s).scaleb(-digits // 2):
                break
        yield s


def _total(numbers: Iterable[Decimal]) -> Decimal:
    return sum(numbers, Decimal(0))


def _as_array(modes: list[tuple[Decimal, Decimal]]) -> np.ndarray:
    pairs = [[float(rate), float(weight)] for rate, weight in modes]
    return np.array(pairs).T
