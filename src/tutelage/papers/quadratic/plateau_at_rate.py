"""The plateau of a quadratic network at finite learning rates, and the rate that leaves it fastest: closed forms.

With x = 2 eta / p (eta of a loss without 1/2, readouts 1/p and 1/p*), students at Q = q, no overlaps, and every term,
    q' / q = (8/p) [ a - b q + c q^2 ],   a = 1 + x (1 + 2/p*),  b = (1 + 2/p) (1 + 2x),  c = x (1 + 2/p) (1 + 4/p)
per unit of t = eta alpha. The lower root is the plateau; there is none if 4 a c > b^2, that is beyond
    (1 + 2/p) - 8 x/p - 8 x^2 (1/p + 1/p* + 4/(p p*)) = 0,
where norms diverge. Overlaps with teachers grow as (4/p) (1 + 2/p* - (1 + 2/p) q) in t. Their growth in alpha, 2 x (...),
is a function of x whose maximum depends on p only through 1/p: the fastest rate, p x / 2, is affine in p for large p. Beyond
    x = (2/p*) / (m^2 (p+4)/(p+2) - m),   m = 1 + 2/p*
they do not grow at all (p* > 2): SGD noise makes students so long that the plateau is stable. For p* = 2 that is where
norms diverge, for p* = 1 they diverge before.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage._errors import InputError


@dataclass(frozen=True)
class PlateauAtRate:
    """norm: squared length of every student. growth, relaxation: of teacher overlaps and of the common norm, in alpha.

    risk: 2 e_g there. Rates of a loss without 1/2: fastest_lr, at which growth is largest; standstill_lr, beyond which there
    is none; largest_lr, beyond which norms diverge.
    """

    norm: float
    growth: float
    relaxation: float
    risk: float
    fastest_lr: float
    standstill_lr: float
    largest_lr: float

    def __str__(self) -> str:
        return (
            f"at this rate: norms {self.norm:.6g}, risk {self.risk:.6g}, overlaps grow as exp({self.growth:.5g} alpha)\n"
            f"growth is fastest at eta = {self.fastest_lr:.4g} and ends at {self.standstill_lr:.4g}; norms diverge beyond "
            f"{self.largest_lr:.4g}"
        )


def plateau_at(students: int, teachers: int, paper_lr: float) -> PlateauAtRate:
    """The plateau at this rate; refused where there is none."""
    p, x = students, 2 * paper_lr / students
    largest = largest_rate(students, teachers)
    if paper_lr > largest:
        raise InputError(
            f"paper_lr is {paper_lr:g}; beyond {largest:.4g} the norms of {students} students diverge and there is no "
            "plateau. Lower it."
        )
    q = _norm(p, teachers, x)
    _, b, c = coefficients(p, teachers, x)
    risk = (1 - q) ** 2 + 2 * (q**2 / p + 1 / teachers)
    rates = fastest_rate(p, teachers), standstill_rate(p, teachers), largest
    return PlateauAtRate(q, _growth(p, teachers, x), 4 * x * q * (b - 2 * c * q), risk, *rates)


def largest_rate(students: int, teachers: int) -> float:
    """The rate (of a loss without 1/2) beyond which the norms diverge before anything is learned."""
    p, k = students, teachers
    square, linear, constant = 8 * (1 / p + 1 / k + 4 / (p * k)), 8 / p, 1 + 2 / p
    x = (-linear + np.sqrt(linear**2 + 4 * square * constant)) / (2 * square)
    return float(p * x / 2)


def standstill_rate(students: int, teachers: int) -> float:
    """The rate beyond which overlaps with teachers no longer grow on the plateau, or there is none."""
    if teachers <= 2:
        return largest_rate(students, teachers)
    m = 1 + 2 / teachers
    return float(students / teachers / (m**2 * (students + 4) / (students + 2) - m))


def fastest_rate(students: int, teachers: int) -> float:
    """The rate at which overlaps with teachers grow fastest in alpha, in samples."""
    from scipy.optimize import minimize_scalar

    top = 2 * largest_rate(students, teachers) / students
    options = {"xatol": 1e-10 * top}
    best: Any = minimize_scalar(
        lambda x: -_growth(students, teachers, x), bounds=(0.0, top), method="bounded", options=options
    )
    return float(students * best.x / 2)


def coefficients(p: int, k: int, x: float) -> tuple[float, float, float]:
    return 1 + x * (1 + 2 / k), (1 + 2 / p) * (1 + 2 * x), x * (1 + 2 / p) * (1 + 4 / p)


def _norm(p: int, k: int, x: float) -> float:
    """The lower root, written so that it survives x -> 0."""
    a, b, c = coefficients(p, k, x)
    return float(2 * a / (b + np.sqrt(max(b**2 - 4 * a * c, 0.0))))


def _growth(p: int, k: int, x: float) -> float:
    """Of teacher overlaps, in alpha."""
    return 2 * x * (1 + 2 / k - (1 + 2 / p) * _norm(p, k, x))
