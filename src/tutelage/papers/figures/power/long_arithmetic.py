"""The modes of a linear network in arithmetic of any length, by two routes, with decimal numbers of the standard library.

`secular_modes`: the symmetric form, diag(2 lam) minus a rank-one matrix, with long numbers instead of doubles.
`moment_modes`: the form of the source (its equations 24-27, 45), whose matrix 2 A_1 + eta U is made of moments and of the
coefficients of the characteristic polynomial. Poles and residues of its resolvent are found from the companion structure,
never from the eigenvalues lam. It loses more digits with every level.

Both polish the float64 modes and return (|lambda_B,k|, b_k |lambda_B,k|), fastest first, as floats (NaN: all digits lost).
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Context, Decimal, localcontext

import numpy as np

PASSES = 60


def power_law(levels: int, beta: float) -> list[Decimal]:
    """lam_k = k^-(1+beta) over their mean, in the precision of the context."""
    exponent = -(1 + Decimal(repr(beta)))
    raw = [Decimal(k) ** exponent for k in range(1, levels + 1)]
    mean = _total(raw) / levels
    return [x / mean for x in raw]


def secular_modes(levels: int, beta: float, rate: float, digits: int, roots: np.ndarray) -> np.ndarray:
    """(2, levels): roots s of 1 = (eta/L) sum lam^2/(2 lam - s), and 2 - eta times the residues of the error there."""
    with localcontext(Context(prec=digits, traps=[])):
        lam, eta = power_law(levels, beta), Decimal(repr(rate))
        spread = [eta / levels * x * x for x in lam]

        def secular(s: Decimal) -> tuple[Decimal, Decimal]:
            gaps = [1 / (2 * x - s) for x in lam]
            value = 1 - _total(w * g for w, g in zip(spread, gaps, strict=True))
            return value, -_total(w * g * g for w, g in zip(spread, gaps, strict=True))

        found = []
        for s in _polished(secular, roots, digits):
            bare = _total(x / (2 * x - s) for x in lam) / levels
            found.append((s, (2 - eta) * -bare / secular(s)[1]))
        return _as_array(found)


def moment_modes(levels: int, beta: float, rate: float, digits: int, roots: np.ndarray) -> np.ndarray:
    """(2, levels): poles -s and residues of e_2 . (z - 2 A_1 - eta U)^-1 T, times 2 - eta."""
    with localcontext(Context(prec=digits, traps=[])):
        lam, eta = power_law(levels, beta), Decimal(repr(rate))
        T = [_total(x**j for x in lam) / levels for j in range(levels + 1)]
        c = [Decimal(1)]  # of prod (X - lam), ascending
        for x in lam:
            c = [low - x * high for low, high in zip([Decimal(0), *c], [*c, Decimal(0)], strict=True)]

        def closing(s: Decimal) -> tuple[Decimal, Decimal]:
            value, slope = _second_entry(-s, T[1:], c)
            return 1 - eta * value, eta * slope

        found = []
        for s in _polished(closing, roots, digits):
            value, _ = _second_entry(-s, T[:-1], c)
            found.append((s, (2 - eta) * -value / closing(s)[1]))
        return _as_array(found)


def _second_entry(z: Decimal, u: list[Decimal], c: list[Decimal]) -> tuple[Decimal, Decimal]:
    """Entry 2 of (z - 2 A_1)^-1 u and its derivative in z, by substitution through the companion matrix.

    Row i: z x_i + 2 x_(i+1) = u_i, so x = fixed + free x_1; the last row, z x_L - 2 sum_j c_j x_j = u_L, gives x_1.
    """
    zero, one = Decimal(0), Decimal(1)
    fixed, free = [zero], [one]
    fixed_slope, free_slope = [zero], [zero]
    for value in u[:-1]:
        fixed_slope.append(-(fixed[-1] + z * fixed_slope[-1]) / 2)
        free_slope.append(-(free[-1] + z * free_slope[-1]) / 2)
        fixed.append((value - z * fixed[-1]) / 2)
        free.append(-z * free[-1] / 2)

    def last(x: list[Decimal]) -> Decimal:
        return z * x[-1] - 2 * _total(k * y for k, y in zip(c, x, strict=False))

    slope_fixed, slope_free = last(fixed_slope) + fixed[-1], last(free_slope) + free[-1]
    head = (u[-1] - last(fixed)) / last(free)
    head_slope = (-slope_fixed - head * slope_free) / last(free)
    if len(u) == 1:
        return head, head_slope
    return fixed[1] + free[1] * head, fixed_slope[1] + free_slope[1] * head + free[1] * head_slope


def _polished(function: Callable[[Decimal], tuple[Decimal, Decimal]], roots: np.ndarray, digits: int) -> Iterator[Decimal]:
    """Newton's steps from float64 roots until they stop; a root that runs away shows itself in the comparison."""
    for root in roots:
        s = Decimal(float(root))
        for _ in range(PASSES):
            value, slope = function(s)
            if slope == 0:
                break
            step = value / slope
            s -= step
            if not abs(step) > abs(s).scaleb(-digits // 2):
                break
        yield s


def _total(numbers: Iterable[Decimal]) -> Decimal:
    return sum(numbers, Decimal(0))


def _as_array(found: list[tuple[Decimal, Decimal]]) -> np.ndarray:
    return np.array([[float(x) for x in pair] for pair in found]).T
