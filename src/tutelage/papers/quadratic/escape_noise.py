"""When a quadratic network of N inputs leaves its plateau: the law of its escape times.

On the way to the plateau and along it every overlap grows at the same rate g and is fed by the noise of SGD,
    d rho = g rho dalpha + sqrt(D/N) dW,   D = lr^2 4 v^2 E[Delta^2 lambda^2 u^2]   (fields of a student, a teacher),
so that rho is that of a noiseless network that began at rho(0) + xi sqrt(V/N), V = int D exp(-2 int g). Each draw of xi has
a learning curve of its own (ordered.py). Without overlaps all fields are independent, and (readouts 1/p, 1/p*)
    D = 16 eta^2/p^2 q [ (p*+2)(p*+4)/p*^2 - 2 q (p*+2)(p+2)/(p p*) + q^2 (p+2)(p+4)/p^2 ],   eta of a loss without 1/2.
Leading order in 1/N and in the overlaps.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.papers.quadratic.plateau_at_rate import coefficients

ENOUGH = 40.0  # e-folding times of the overlaps over which noise is collected


@dataclass(frozen=True)
class SeedNoise:
    """variance: N times that of the noise which acts like an overlap at time zero; growth: of overlaps on the plateau."""

    variance: float
    growth: float

    def start_to_noise(self, overlaps: np.ndarray, dim: int) -> float:
        """Size of the overlaps at the start, over that of the noise."""
        return float(np.sqrt(np.mean(np.square(overlaps)) * dim / self.variance))


def seed_noise(students: int, teachers: int, paper_lr: float, norm: float = 1.0) -> SeedNoise:
    """What the noise of SGD adds to overlaps, carried back to time zero, from students of squared length `norm`."""
    from scipy.integrate import solve_ivp

    p, k, eta, x = students, teachers, paper_lr, 2 * paper_lr / students
    a, b, c = coefficients(p, k, x)

    def growth(q: float) -> float:
        return 2 * x * (1 + 2 / k - (1 + 2 / p) * q)

    def rates(_: float, state: np.ndarray) -> list[float]:
        q, grown, _V = state
        return [4 * x * q * (a - b * q + c * q**2), growth(q), diffusion(p, k, eta, q) * np.exp(-2 * grown)]

    end = ENOUGH / (2 * x * 2 / k)
    path = solve_ivp(rates, (0.0, end), [norm, 0.0, 0.0], method="LSODA", rtol=1e-9, atol=1e-14)
    q, _, V = path.y[:, -1]
    if not path.success or not np.isfinite(V) or growth(q) <= 0:
        raise InputError(f"paper_lr is {eta:g}; overlaps do not grow on the plateau at this rate. Lower it.")
    return SeedNoise(float(V), float(growth(q)))


def diffusion(p: int, k: int, eta: float, q: float) -> float:
    """N Var of one overlap per unit of alpha, at Q = q and no overlaps."""
    teachers, mixed, students = (k + 2) * (k + 4) / k**2, (k + 2) * (p + 2) / (p * k), (p + 2) * (p + 4) / p**2
    return 16 * eta**2 / p**2 * q * (teachers - 2 * q * mixed + q**2 * students)


def noisy_overlaps(overlaps: np.ndarray, noise: SeedNoise, dim: int, samples: int, seed: int) -> np.ndarray:
    """Overlaps (samples, p, p*) of noiseless networks that escape as those of N = dim inputs do."""
    rng = np.random.default_rng(checks.as_count("seed", seed, least=0))
    shape = (checks.as_count("samples", samples), *overlaps.shape)
    return overlaps + np.sqrt(noise.variance / checks.as_count("dim", dim)) * rng.standard_normal(shape)
