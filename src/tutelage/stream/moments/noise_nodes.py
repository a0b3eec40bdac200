"""Nodes for what a label or a rule draws at random: other ones at every point of an average over the fields.

A law is a function of standard normal numbers (`Law.from_normal`), so these nodes are normal numbers z with weights.

One number, of a function that may jump anywhere: even nodes at a distance h, moved by a random share of h at every point. The
sum is exponentially accurate where the function is smooth, as the trapezoid rule is, and its mean over the shifts is exact
for every function. So what a jump adds is random, differs from point to point, and the estimates of the error see it. A rare
event near the ends of (0, 1) has as many nodes as a frequent one, because these are even in z and not in Phi(z).

One number, of a function that jumps or bends at known places: Gauss-Legendre panels between these, and one more edge at
random near zero. A kink of the loss at the label would otherwise make the sign of a small error a staircase.

Several numbers: a lattice in (0, 1)^d, moved at random (modulo 1) at every point, which is exact on average too.

Heavy tails: z = 2 sinh(t / 2), with the same nodes in t, reaches all numbers that double precision can tell from zero.
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
STEP = 0.4  # distance of even nodes
PANEL = 12  # Gauss-Legendre nodes per panel
LATTICE = 64  # points of a lattice
EDGE = 2.0  # the random edge of panels lies within half of this
DENSITY = 1 / np.sqrt(2 * np.pi)


class NoiseNodes(NamedTuple):
    """Nodes to be summed over one after the other. place: the values at every point, and their weights, of one term."""

    terms: tuple[Array, ...]
    place: Callable[..., tuple[Array, Array]]


class Fineness(NamedTuple):
    """How many nodes there are: the distance of even ones, those of a panel and of a lattice."""

    step: float = STEP
    panel: int = PANEL
    lattice: int = LATTICE


@lru_cache(maxsize=16)
def random_shifts(
    points: int, axes: int, seed: int
) -> Float[np.ndarray, "points axes"]:
    """Uniform numbers, one for each point and number that is drawn there."""
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
    """Nodes of a standard normal number at every point: (P,) and weights (P,). kinks: where the function bends or jumps."""
    reach = HEAVY_REACH if heavy else REACH

    def normal(t: Array, length: Array | float) -> tuple[Array, Array]:
        if not heavy:
            return t, length * DENSITY * jnp.exp(-(t**2) / 2)
        z = 2 * jnp.sinh(t / 2)
        return z, length * DENSITY * jnp.exp(-(z**2) / 2) * jnp.cosh(t / 2)

    if kinks is None:
        half = int(np.ceil(reach / fineness.step))
        first = jnp.arange(-half, half) * fineness.step
        return NoiseNodes(
            (first,),
            lambda start: normal(
                start + fineness.step * jnp.asarray(shifts), fineness.step
            ),
        )
    known = 2 * jnp.arcsinh(kinks / 2) if heavy else kinks
    edge = EDGE * (jnp.asarray(shifts) - 0.5)
    bounds = jnp.stack([jnp.full_like(edge, -reach), edge, jnp.full_like(edge, reach)])
    ends = jnp.sort(jnp.concatenate([bounds, jnp.clip(known, -reach, reach)]), axis=0)
    x, weights = np.polynomial.legendre.leggauss(fineness.panel)
    panel, node = (
        index.ravel() for index in np.indices((ends.shape[0] - 1, fineness.panel))
    )

    def place(panel: Array, x: Array, weight: Array) -> tuple[Array, Array]:
        half = (ends[panel + 1] - ends[panel]) / 2
        return normal(ends[panel] + half * (1 + x), half * weight)

    return NoiseNodes(
        (jnp.asarray(panel), jnp.asarray(x[node]), jnp.asarray(weights[node])), place
    )


def several_numbers(shifts: Float[NumpyOrJax, "P d"], fineness: Fineness) -> NoiseNodes:
    """Nodes of independent standard normal numbers at every point: (P, d) and weights (P,)."""
    points, axes = shifts.shape
    steps = (np.arange(fineness.lattice) + 0.5)[:, None] * _generator(axes) % 1.0
    weight = jnp.full(points, 1 / fineness.lattice)

    def place(step: Array) -> tuple[Array, Array]:
        u = (step + jnp.asarray(shifts)) % 1.0
        return ndtri(jnp.clip(u, 1e-16, 1 - 1e-16)), weight

    return NoiseNodes((jnp.asarray(steps),), place)


@lru_cache
def _generator(axes: int) -> Float[np.ndarray, " d"]:
    """Powers of the root of x^(d + 1) = x + 1 in (0, 1): the golden section for one axis."""
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1 / (axes + 1))
    return root ** -np.arange(1.0, axes + 1)
