"""Does a rule resolve a function? The same rules in one dimension, where the truth costs nothing.

A pair of fields that coincide, and four of them, are averages over one normal:
    pairs  E[g^2], E[g'^2], E[g'' g];    G  E[g'^2], E[(g' g)^2] on a held axis, E[g^2] = sum_k f_k^2 on the other.
Fast functions (sin 5x) and those that grow fast fail here as they fail there.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array, ArrayLike
from tutelage.moments.nodes import (
    MANY,
    NEAR,
    Quadrature,
    disc,
    hermite_rule,
    hermite_transform,
    hermites,
    nearest_breaks,
    panels,
)
from tutelage.problem.activation import Activation

WIDTH = 1.25  # standard deviation of the fields for which a rule is chosen beforehand
ENOUGH = (1e-8, 1e-3)  # what a chosen rule aims at: (pairs, G)
TRUTH, FAR = 3000, 9.0  # nodes and reach of the rule that stands for the truth


@lru_cache(maxsize=256)
def chosen_rule(student: Activation, teacher: Activation) -> Quadrature:
    """The usual rule, made finer where it does not resolve the functions and a finer one does better."""
    usual = Quadrature()

    def first_enough(index: int, rules: list[Quadrature]) -> Quadrature:
        errors = []
        for rule in rules:
            errors.append(shortfall(student, teacher, rule, WIDTH, WIDTH)[index])
            if errors[-1] <= ENOUGH[index]:
                return rule
        best = int(np.argmin(errors))
        return rules[best] if errors[best] < 0.1 * errors[0] else rules[0]

    nodes = first_enough(0, [Quadrature(nodes=n) for n in (usual.nodes, 96, 144, 216, 324)]).nodes
    most = 1 if any(_sampled(student, teacher)) else 3  # random points gain too little from more of them
    return first_enough(1, [Quadrature(nodes, points) for points in (usual.points, 2**17, 2**19)[:most]])


def shortfall(
    student: Activation, teacher: Activation, rule: Quadrature, s_student: float, s_teacher: float
) -> tuple[float, float]:
    """Relative errors of a rule for (pairs, G) in one dimension, at these standard deviations of the fields."""
    pairs_sampled, spread_sampled = _sampled(student, teacher)
    own, other = _errors(student, rule, s_student), _errors(teacher, rule, s_teacher)
    if pairs_sampled:
        return max(own.sampled_outputs, other.sampled_outputs), own.sampled_spread
    spread = own.sampled_spread if spread_sampled else max(own.spread, own.hermite, other.hermite)
    return max(own.pairs, other.outputs), spread


def _sampled(student: Activation, teacher: Activation) -> tuple[bool, bool]:
    """Are (pairs, G) averaged over random points?"""
    places = [nearest_breaks(student), nearest_breaks(teacher)]
    return max(map(len, places)) > MANY, any(abs(x) < NEAR for each in places for x in each)


class Errors(NamedTuple):
    """Relative errors of the averages of one function on one normal."""

    outputs: float  # E[g^2]
    pairs: float  # the worst of E[g^2], E[g'^2] and, of a smooth function, E[g'' g]
    spread: float  # the worst of E[g'^2] and E[(g' g)^2] on a held axis
    hermite: float  # what is wrong with, and missing from, sum_k f_k^2 = E[g^2]
    sampled_outputs: float  # E[g^2] over random points: the standard error
    sampled_spread: float  # E[(g' g)^2] over random points


@lru_cache(maxsize=512)
def _errors(activation: Activation, rule: Quadrature, s: float) -> Errors:
    """The errors of a rule at standard deviation s of the field."""
    kinks = np.array(nearest_breaks(activation)[:MANY]) / max(s, 1e-300)
    z, weights = map(np.asarray, panels(kinks, TRUTH // (kinks.size + 2), (-FAR, 0.0, FAR), np))
    pairs_rule = panels(kinks, rule.nodes // 2, xp=np) if kinks.size else hermite_transform(rule.nodes)
    plain, plain_weights = map(np.asarray, pairs_rule)
    held, held_weights = disc(rule.held, rule.reach, 1)
    given, inner = hermite_rule(rule.given)
    grids = [z, plain, held[:, 0], given]
    values = _values(activation, s * np.concatenate(grids))
    true, by_rule, on_held, on_given = np.split(values, np.cumsum([grid.size for grid in grids])[:-1], axis=1)

    def found(f: np.ndarray, h: np.ndarray) -> np.ndarray:
        """E[f h] of a field paired with itself: by panels, or the sum of products of Hermite coefficients."""
        return plain_weights @ (f * h) if kinks.size else (f @ plain_weights) @ (h @ plain_weights)

    g, slope, _ = true
    products = [(0, 0), (1, 1), (2, 0)][: 3 if activation.smooth else 2]  # E[g^2], E[g'^2], E[g'' g]
    means = [weights @ (true[i] * true[j]) for i, j in products]
    gaps = [found(by_rule[i], by_rule[j]) - mean for (i, j), mean in zip(products, means, strict=True)]
    size = 1e-3 * np.max(np.abs(means))
    squares = [weights @ slope**2, weights @ (slope * g) ** 2]
    held_squares = [held_weights @ on_held[1] ** 2, held_weights @ (on_held[1] * on_held[0]) ** 2]
    coefficients = (weights * g) @ hermites(z, rule.given)
    wrong = np.sum(np.abs((on_given[0] @ inner) ** 2 - coefficients**2)) + means[0] - coefficients @ coefficients

    def of_sampling(f: np.ndarray) -> float:
        mean = weights @ f
        return _share(np.sqrt(max(weights @ f**2 - mean**2, 0.0) / (4 * rule.points)), mean)

    return Errors(
        outputs=_share(gaps[0], means[0]),
        pairs=max(_share(gap, max(abs(mean), size)) for gap, mean in zip(gaps, means, strict=True)),
        spread=max(_share(a - b, b) for a, b in zip(held_squares, squares, strict=True)),
        hermite=_share(wrong, means[0]),
        sampled_outputs=of_sampling(g**2),
        sampled_spread=of_sampling((g * slope) ** 2),
    )


def _share(part: ArrayLike, whole: ArrayLike) -> float:
    share = np.abs(part) / np.maximum(np.abs(whole), 1e-300)
    return float(share) if np.isfinite(share) else np.inf


def _values(activation: Activation, x: np.ndarray) -> np.ndarray:
    """g, g' and g'' at numbers, (3, size); compiled for few shapes."""
    padded = np.pad(x, (0, -x.size % 2**13))
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
        return np.asarray(_compiled(activation)(padded))[:, : x.size]


@lru_cache(maxsize=256)
def _compiled(activation: Activation) -> Callable[[np.ndarray], Array]:
    return jax.jit(lambda x: jnp.stack([activation(x), activation.slope(x), activation.curvature(x)]))
