"""Covariance of small fluctuations along a curve, dSig/dt = J Sig + Sig J^T + D, Sig(0) = 0, without cancellation.

On a panel [b, b'] with propagator X(s) (dX/ds = J X, X(b) = 1) the solution is
    Sig(t) = X(t) [Sig(b) + int_b^t X(s)^-1 D(s) X(s)^-T ds] X(t)^T.
X is found by collocation at three Gauss points, the integral by the same polynomials, so that for every vector a the
variance a^T Sig a is a sum of squares of the noise at the nodes, carried to the end. That matters for the error: near
perfect learning the gradient of e_g almost cancels in Sig, and would leave the errors of an interpolated D or a tolerance.
"""

from collections.abc import Iterable

import numpy as np

NODES = (np.polynomial.legendre.leggauss(3)[0] + 1) / 2
_LAGRANGE = np.linalg.inv(np.vander(NODES, increasing=True)).T  # coefficients of the polynomials of the nodes, (node, power)


def _integrals(theta: float) -> np.ndarray:
    """Integrals from 0 to theta of the three Lagrange polynomials."""
    powers = np.arange(1, NODES.size + 1)
    return _LAGRANGE @ (theta**powers / powers)


_STAGES = np.stack([_integrals(c) for c in NODES])


def panel_edges(moments: np.ndarray, rates: np.ndarray, stops: np.ndarray, length: float) -> np.ndarray:
    """Edges of panels from the first moment to the last, each at most `length` / rate long.

    rates: of the fastest mode at the moments; between two of them the larger counts. stops: times that must be edges.
    """
    gaps = np.diff(moments) * np.maximum(rates[1:], rates[:-1])
    clock = np.concatenate([[0.0], np.cumsum(gaps)])
    stops = stops[(stops > moments[0]) & (stops < moments[-1])]
    marks = np.concatenate([moments[:1], stops, moments[-1:]])
    edges = [moments[:1]]
    for first, last in zip(np.interp(marks[:-1], moments, clock), np.interp(marks[1:], moments, clock), strict=True):
        count = max(1, int(np.ceil((last - first) / length)))
        edges.append(np.interp(np.linspace(first, last, count + 1)[1:], clock, moments))
    return np.concatenate(edges)


def panel_nodes(edges: np.ndarray) -> np.ndarray:
    """The times at which J and D are needed, (panel, 3)."""
    return edges[:-1, None] + np.diff(edges)[:, None] * NODES


def covariance_at(
    times: np.ndarray, edges: np.ndarray, panels: Iterable[tuple[np.ndarray, np.ndarray]], watched: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sig at the times, (time, n, n), the mean over sets of D; and for each set the variance of `watched` (time, n).

    panels: J (3, n, n) and D (set, 3, n, n) at the nodes of each panel, in order.
    """
    n = watched.shape[1]
    out, variances, sigma = np.zeros((times.size, n, n)), [np.zeros(0)] * times.size, np.zeros((1, n, n))
    home = np.clip(np.searchsorted(edges, times, side="left") - 1, 0, edges.size - 2)
    for i, (J, D) in enumerate(panels):
        h = edges[i + 1] - edges[i]
        X = _propagators(h, J)
        slopes, fed = J @ X, _pulled_back(X, D)
        for j in np.flatnonzero(home == i):
            now = _moved(sigma, h * _integrals((times[j] - edges[i]) / h), slopes, fed)
            out[j], variances[j] = now.mean(axis=0), np.einsum("a,sab,b->s", watched[j], now, watched[j])
        sigma = _moved(sigma, h * _integrals(1.0), slopes, fed)
    return out, np.stack(variances, axis=1)


def _moved(sigma: np.ndarray, weights: np.ndarray, slopes: np.ndarray, fed: np.ndarray) -> np.ndarray:
    """Sig later in the panel: X [Sig + integral] X^T."""
    X = np.eye(sigma.shape[-1]) + np.tensordot(weights, slopes, 1)
    return X @ (sigma + np.einsum("k,skab->sab", weights, fed)) @ X.T


def _pulled_back(X: np.ndarray, D: np.ndarray) -> np.ndarray:
    """X^-1 D X^-T; panels are short, so X is near to one."""
    back = np.linalg.inv(X)
    return back @ D @ np.swapaxes(back, -1, -2)


def _propagators(h: float, J: np.ndarray) -> np.ndarray:
    """X at the nodes of a panel: X_j = 1 + h sum_k a_jk J_k X_k, one linear system."""
    m, n = J.shape[:2]
    system = np.eye(m * n) - h * np.einsum("jk,kab->jakb", _STAGES, J).reshape(m * n, m * n)
    return np.linalg.solve(system, np.tile(np.eye(n), (m, 1))).reshape(m, n, n)
