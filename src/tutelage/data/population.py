"""The eigenvalues of the law behind a sample, from those of its covariance.

With N directions and n samples the eigenvalues of the sample's covariance are spread,
even where those of the law are equal: over (1 - s)^2 to (1 + s)^2 of them, s^2 = g =
N/n (Marchenko and Pastur 1967). For a law with eigenvalues tau of distribution H the
resolvent of the sample covariance S obeys (Silverstein 1995), for z off the real axis,

    z = -1/v + g int tau / (1 + tau v) dH(tau),    v = -(1 - g)/z + g tr (S - z)^-1 / N.

Both v(z) and z are known, and the equation is linear in H. So H follows from least
squares with nonnegative weights on a grid of tau, at many z (El Karoui 2008). Its mean
is that of the sample's eigenvalues, which has no bias.
"""

import numpy as np
from jaxtyping import Float

GRID = 100  # values of tau, from the smallest to the largest eigenvalue of the sample
REAL_PARTS = 40  # of z
IMAGINARY_PARTS = (0.5, 1.0, 2.0)  # of z, in units of sqrt(g) Re z, the spread at Re z
CONSTRAINT = 100.0  # weight of the sum and the mean of H against one value of z


def population_eigenvalues(
    sample: Float[np.ndarray, " N"], count: int
) -> Float[np.ndarray, " N"]:
    """Estimate the N eigenvalues of the law, largest first.

    sample: eigenvalues of the covariance of the samples, all positive. count: n, the
    number of samples, less one for each mean that was subtracted; n > N.
    """
    from scipy.optimize import nnls

    mean = float(sample.mean())
    scaled = sample / mean
    smallest = float(scaled.min())
    largest = float(scaled.max())
    ratio = sample.size / count
    if largest - smallest < 1e-9:
        return np.full(sample.size, mean)
    tau = np.geomspace(smallest, largest, GRID)
    real = np.geomspace(smallest, largest, REAL_PARTS)
    shifts = np.outer(IMAGINARY_PARTS, np.sqrt(ratio) * real)
    z = (real + 1j * shifts).ravel()
    resolvent = np.mean(1 / (scaled[:, None] - z), axis=0)
    v = -(1 - ratio) / z + ratio * resolvent
    target = (z + 1 / v) / ratio
    kernel = tau / (1 + np.outer(v, tau))
    scale = np.abs(target)
    kernel = kernel / scale[:, None]
    target = target / scale
    constraints = CONSTRAINT * np.stack([np.ones(GRID), tau])
    rows = np.concatenate([kernel.real, kernel.imag, constraints])
    values = np.concatenate([target.real, target.imag, [CONSTRAINT, CONSTRAINT]])
    weights, _ = nnls(rows, values)
    return mean * _means_of_equal_parts(tau, weights / weights.sum(), sample.size)[::-1]


def _means_of_equal_parts(
    tau: Float[np.ndarray, " grid"], weights: Float[np.ndarray, " grid"], parts: int
) -> Float[np.ndarray, " N"]:
    """Return means over quantiles of a law on increasing tau, scaled to mean one."""
    shares = np.concatenate([[0.0], np.cumsum(weights)])
    integrals = np.concatenate([[0.0], np.cumsum(weights * tau)])
    edges = np.linspace(0.0, 1.0, parts + 1)
    means = np.diff(np.interp(edges, shares, integrals))
    return means / means.mean()


def isotropic_range(ratio: float) -> tuple[float, float]:
    """Return the range of eigenvalues of samples of an isotropic law, ratio = N/n."""
    spread = np.sqrt(ratio)
    return max(0.0, 1 - spread) ** 2, (1 + spread) ** 2
