"""What frozen inputs cost when the trained ones lie at random to the eigenvectors: the floor for large N, from the spectrum.

Equation 88 of arXiv 2410.09005 needs a covariance matrix. If its eigenvectors are random, the trained inputs are a random
subspace, and the floor is the part of the signal that a projection on n random features misses. Its law of large numbers
(deterministic equivalent; e.g. Bach, SIAM J. Math. Data Sci. 6 (2024) 26) has one number kappa:

    sum_l p_l lam_l / (lam_l + kappa) = n/N,        floor = (1 + s^2)/2 * kappa n/N

In the eigenbasis the smallest eigenvalues are lost; here every direction loses the share kappa/(lam + kappa). On a power law
with n << L, kappa = lam_1 (c/n)^(1+beta), c = (pi/(1+beta))/sin(pi/(1+beta)): the same n^-beta, with the larger prefactor
beta c^(1+beta). Corrections are of relative size (n/L)^beta: for small beta the exponent shows only at astronomical L.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from tutelage import checks
from tutelage._errors import InputError, kind_of
from tutelage.problem import Inputs


def random_basis_floors(inputs: Inputs, trained: Any, *, scale: float = 0.0) -> np.ndarray:
    """e_g in the end at a small rate if a share `trained` (0 to 1) of the raw inputs learns, in a random basis, N large.

    Mean over teacher weights N(0, 1) and student weights N(0, scale^2). `raw_features` has the same for one covariance.

    >>> import tutelage as tu
    >>> tu.papers.power_law.random_basis_floors(tu.PowerLaw(1.0, 1024), [0.1, 0.5]).round(4)
    array([0.0067, 0.0008])
    """
    if not isinstance(inputs, Inputs):
        raise InputError(f"inputs are {kind_of(inputs)}; use Isotropic, PowerLaw or Spectrum.")
    shares = checks.as_array("trained", trained)
    if np.any((shares < 0) | (shares > 1) | ~np.isfinite(shares)):
        raise InputError(f"trained is {checks.shown(shares)}; it must be a share of the inputs, from 0 to 1.")
    scale = checks.as_array("scale", scale)
    checks.require_shape("scale", scale, ())
    checks.require_nonnegative("scale", scale)
    lam, p = np.asarray(inputs.eigenvalues, dtype=float), np.asarray(inputs.fractions, dtype=float)
    values = [_missed(lam, p, float(share)) for share in shares.ravel()]
    return (1 + float(scale) ** 2) / 2 * np.array(values).reshape(shares.shape)


def _missed(lam: np.ndarray, p: np.ndarray, share: float) -> float:
    """kappa n/N; kappa lies between the values that it would have if all eigenvalues were the smallest, or the largest."""
    if share == 0:
        return float(p @ lam)
    if share == 1:
        return 0.0
    low, high = (np.log(x * (1 - share) / share) for x in (lam.min(), lam.max()))
    if high - low < 1e-14:
        return float(np.exp(high)) * share

    def excess(log_kappa: float) -> float:
        return float(p @ (lam / (lam + np.exp(log_kappa)))) - share

    root: Any = brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-13)
    return share * float(np.exp(root))
