"""Random points for averages of functions that grow fast: more of them far out.

An average E[f(x)] over n normals with |f| ~ |x|^d gets its largest part from radii near
sqrt(n + d), where few of the points drawn from the normal law lie: one point may carry
a quarter of E[x^10]. Half of the points therefore have the radius of n + d normals, the
density of |x|^d times the normal law. The weights, the normal density over that of the
points, are at most two, so that a function that does not grow loses little.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincc, gammaln

# Radii of the table by which one law of radii is turned into the other.
RADII = np.linspace(0.0, 20.0, 40_001)[1:]


def widened(
    normals: Float[np.ndarray, "points n"], degree: int
) -> tuple[Float[np.ndarray, "points n"], Float[np.ndarray, " points"]]:
    """Move normal points outwards along their rays; return them and their weights.

    The weights sum to one. The weighted points have mean zero and unit covariance.
    """
    n = normals.shape[1]
    # A radius keeps its rank: what lies beyond it under one law does so under the other.
    beyond = (share_beyond(RADII, n) + share_beyond(RADII, n + degree)) / 2
    radii = np.linalg.norm(normals, axis=1)
    ranks = -np.log(share_beyond(radii, n))
    moved = np.interp(ranks, -np.log(beyond), RADII)
    points = normals * (moved / radii)[:, None]
    weights = weights_at(moved, n, degree)
    weights = weights / weights.sum()
    points = points - weights @ points
    root = np.linalg.cholesky(points.T @ (weights[:, None] * points))
    return np.linalg.solve(root, points.T).T, weights


def weights_at(
    radii: Float[np.ndarray, "..."], n: int, degree: int
) -> Float[np.ndarray, "..."]:
    """Return the density of n normals at these radii over that of widened points."""
    # The law of the radius of n normals: 2^(1 - n/2) r^(n - 1) exp(-r^2 / 2) / Gamma(n/2).
    log_constant = gammaln(n / 2) - gammaln((n + degree) / 2) - degree / 2 * np.log(2)
    ratio = radii**degree * np.exp(log_constant)
    return 2.0 / (1.0 + ratio)


def share_beyond(
    radii: Float[np.ndarray, " points"], n: int
) -> Float[np.ndarray, " points"]:
    """Return the probability that n normals have a larger radius."""
    return gammaincc(n / 2, radii**2 / 2)
