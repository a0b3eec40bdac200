"""Nodes and weights of averages over standard normal numbers."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import qmc

REACH = 8.5  # normal numbers beyond have probability 2e-17
PANEL_NODES = 8  # Gauss-Legendre nodes of a panel
PANEL_WIDTH = 1.0
FINEST_PANEL = 2.0**-10  # next to a break; panels double from there
SOBOL_LOG2 = 13  # of the points for three fields or more


class Nodes(NamedTuple):
    """Points x and weights of an average over normal numbers; the weights sum to one."""

    x: Float[np.ndarray, "n ..."]
    weights: Float[np.ndarray, " n"]


def even_nodes(count: int, reach: float = REACH) -> Nodes:
    """Return even nodes: exponentially accurate for smooth functions."""
    x = np.linspace(-reach, reach, count)
    weights = np.exp(-(x**2) / 2)
    return Nodes(x, weights / weights.sum())


def panel_nodes(
    breaks: Iterable[float] = (),
    width: float = PANEL_WIDTH,
    reach: float = REACH,
    finest: float = FINEST_PANEL,
) -> Nodes:
    """Return Gauss-Legendre panels that end at the breaks of a function.

    The panels next to a break are small, and double away from it, so that a boundary
    layer there is resolved.
    """
    count = int(np.ceil(2 * reach / width))
    edges = [np.linspace(-reach, reach, count + 1)]
    doublings = np.arange(np.ceil(np.log2(width / finest)))
    steps = finest * 2.0**doublings
    for place in breaks:
        if abs(place) < reach:
            edges.append(np.array([place]))
            edges.append(place + steps)
            edges.append(place - steps)
    ends = np.unique(np.clip(np.concatenate(edges), -reach, reach))
    node, weight = np.polynomial.legendre.leggauss(PANEL_NODES)
    half = np.diff(ends)[:, None] / 2
    x = (ends[:-1, None] + half + half * node).ravel()
    weights = (half * weight).ravel() * np.exp(-(x**2) / 2)
    return Nodes(x, weights / weights.sum())


def product_nodes(axis: Nodes) -> Nodes:
    """Return the nodes of two independent normal numbers, (n^2, 2)."""
    first, second = np.meshgrid(axis.x, axis.x, indexing="ij")
    points = np.stack([first.ravel(), second.ravel()], axis=1)
    return Nodes(points, np.outer(axis.weights, axis.weights).ravel())


def sobol_nodes(dims: int, log2: int = SOBOL_LOG2, seed: int = 0) -> Nodes:
    """Return 2^log2 scrambled Sobol points with both signs, (n, dims)."""
    engine = qmc.Sobol(dims, scramble=True, rng=np.random.default_rng(seed))
    uniform = engine.random_base2(log2 - 1)
    half = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
    points = np.concatenate([half, -half])
    points = points / np.sqrt(np.mean(points**2, axis=0))
    count = len(points)
    return Nodes(points, np.full(count, 1 / count))
