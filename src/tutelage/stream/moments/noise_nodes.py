"""Nodes for what a label or a rule draws at random, at every point of an average.

The nodes differ from point to point. A law is a function of standard normal numbers
(`Law.from_normal`), so these nodes are normal numbers z with weights.

One number, of a function that may jump anywhere: even nodes at a distance h, shifted by
a random share of h at every point. The sum is exponentially accurate where the function
is smooth, as the trapezoid rule is, and its mean over the shifts is exact for every
function. So the contribution of a jump is random, differs from point to point, and is
included in the estimates of the error. A rare event near the ends of (0, 1) has as many
nodes as a frequent one, because these are even in z and not in Phi(z).

One number, of a function that jumps or bends at known places: Gauss-Legendre panels
between these, and one more edge at random near zero. Without it a kink of the loss at
the label would make the sign of a small error a staircase.

Several numbers: a lattice in (0, 1)^d, shifted at random (modulo 1) at every point,
which is also exact on average.

Heavy tails: z = 2 sinh(t / 2), with the same nodes in t, reaches all numbers whose
probability is not zero in double precision.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax

REACH = 8.0  # of normal numbers: 1e-15 lies outside
HEAVY_REACH = 7.3  # of t = 2 asinh(z / 2): z = 38
NODE_DISTANCE = 0.4  # distance of even nodes
PANEL = 12  # Gauss-Legendre nodes per panel
LATTICE = 64  # points of a lattice
EDGE = 2.0  # the random edge of panels lies within half of this
DENSITY = 1 / np.sqrt(2 * np.pi)


class NoiseNodes(NamedTuple):
    """Nodes that are summed over one after the other.

    place: maps a term to its values at every point and their weights.
    """

    terms: tuple[Array, ...]
    place: Callable[..., tuple[Array, Array]]


class Fineness(NamedTuple):
    """The distance of even nodes, the nodes of a panel and those of a lattice."""

    step: float = NODE_DISTANCE
    panel: int = PANEL
    lattice: int = LATTICE


@lru_cache(maxsize=16)
def random_shifts(
    points: int, axes: int, seed: int
) -> Float[np.ndarray, "points axes"]:
    """Return uniform numbers: one for each point and number that is drawn there."""
    return np.random.default_rng([seed, points, axes]).random((points, axes))


def nodes_of(numbers: int, fineness: Fineness, heavy: bool) -> int:
    """Return how many nodes there are for so many numbers, where no kinks are known."""
    if numbers > 1:
        return fineness.lattice
    reach = HEAVY_REACH if heavy else REACH
    return 2 * int(np.ceil(reach / fineness.step))


def one_number(
    shifts: Float[NumpyOrJax, " P"],
    fineness: Fineness,
    heavy: bool,
    kinks: Float[Array, "kinks P"] | None = None,
) -> NoiseNodes:
    """Return nodes (P,) and weights (P,) of a standard normal number at every point.

    kinks: where the function bends or jumps.
    """
    if kinks is None:
        return _even_nodes(shifts, fineness, heavy)
    return _panels_between(kinks, shifts, fineness, heavy)


def _normal_node(t: Array, length: Array | float, heavy: bool) -> tuple[Array, Array]:
    """Return the normal number at t and its weight, for a node of this length in t."""
    if not heavy:
        return t, length * DENSITY * jnp.exp(-(t**2) / 2)
    # z = 2 sinh(t / 2) has dz/dt = cosh(t / 2)
    z = 2 * jnp.sinh(t / 2)
    return z, length * DENSITY * jnp.exp(-(z**2) / 2) * jnp.cosh(t / 2)


def _even_nodes(
    shifts: Float[NumpyOrJax, " P"], fineness: Fineness, heavy: bool
) -> NoiseNodes:
    """Return the trapezoid rule, shifted by a share of its step at every point."""
    reach = HEAVY_REACH if heavy else REACH
    half = int(np.ceil(reach / fineness.step))
    first = jnp.arange(-half, half) * fineness.step

    def place(start: Array) -> tuple[Array, Array]:
        t = start + fineness.step * jnp.asarray(shifts)
        return _normal_node(t, fineness.step, heavy)

    return NoiseNodes((first,), place)


def _panels_between(
    kinks: Float[Array, "kinks P"],
    shifts: Float[NumpyOrJax, " P"],
    fineness: Fineness,
    heavy: bool,
) -> NoiseNodes:
    """Return Gauss-Legendre panels between the kinks and a random edge."""
    reach = HEAVY_REACH if heavy else REACH
    known_edges = 2 * jnp.arcsinh(kinks / 2) if heavy else kinks
    random_edge = EDGE * (jnp.asarray(shifts) - 0.5)
    first = jnp.full_like(random_edge, -reach)
    last = jnp.full_like(random_edge, reach)
    bounds = jnp.stack([first, random_edge, last])
    known_edges = jnp.clip(known_edges, -reach, reach)
    ends = jnp.sort(jnp.concatenate([bounds, known_edges]), axis=0)
    x, weights = np.polynomial.legendre.leggauss(fineness.panel)
    panel, node = np.indices((ends.shape[0] - 1, fineness.panel)).reshape(2, -1)

    def place(panel: Array, x: Array, weight: Array) -> tuple[Array, Array]:
        half = (ends[panel + 1] - ends[panel]) / 2
        return _normal_node(ends[panel] + half * (1 + x), half * weight, heavy)

    terms = (jnp.asarray(panel), jnp.asarray(x[node]), jnp.asarray(weights[node]))
    return NoiseNodes(terms, place)


def several_numbers(shifts: Float[NumpyOrJax, "P d"], fineness: Fineness) -> NoiseNodes:
    """Return nodes (P, d) and weights (P,) of independent standard normal numbers."""
    points, axes = shifts.shape
    steps = (np.arange(fineness.lattice) + 0.5)[:, None] * _generator(axes) % 1.0
    weight = jnp.full(points, 1 / fineness.lattice)

    def place(step: Array) -> tuple[Array, Array]:
        u = (step + jnp.asarray(shifts)) % 1.0
        return ndtri(jnp.clip(u, 1e-16, 1 - 1e-16)), weight

    return NoiseNodes((jnp.asarray(steps),), place)


@lru_cache
def _generator(axes: int) -> Float[np.ndarray, " d"]:
    """Return powers of the root of x^(d + 1) = x + 1, the generator of a lattice.

    For one axis the root is the golden section.
    """
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1 / (axes + 1))
    return root ** -np.arange(1.0, axes + 1)
