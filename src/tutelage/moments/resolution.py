"""Does a rule resolve a function? The same rules in one dimension, where the truth costs nothing.

A pair of fields that coincide, and four of them, are averages over one normal:
    pairs  E[g^2], E[g'^2], E[g'' g];    G  E[g'^2], E[(g' g)^2] on a held axis, E[g^2] = sum_k f_k^2 on the other.
Fast functions (sin 5x) and those that grow fast fail here as they fail there.
"""

from collections.abc import Callable
from functools import lru_cache

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
    pairs_too, sampled = _sampled(student, teacher)
    own = _Line(student, rule, s_student), _Line(teacher, rule, s_teacher)
    if pairs_too:
        return max(line.sampling_error(1) for line in own), own[0].sampling_error(2)
    return max(own[0].pairs(3), own[1].pairs(1)), own[0].sampling_error(2) if sampled else max(
        own[0].step_noise(), own[1].hermite_sum()
    )


def _sampled(student: Activation, teacher: Activation) -> tuple[bool, bool]:
    """Are (pairs, G) averaged over random points?"""
    places = [nearest_breaks(student), nearest_breaks(teacher)]
    return max(map(len, places)) > MANY, any(abs(x) < NEAR for each in places for x in each)


@lru_cache(maxsize=512)
class _Line:
    """A function on one normal of standard deviation s, by a rule and in truth."""

    def __init__(self, activation: Activation, rule: Quadrature, s: float):
        self.rule, self.smooth = rule, activation.smooth
        kinks = np.array(nearest_breaks(activation)[:MANY]) / max(s, 1e-300)
        plain = hermite_transform(rule.nodes) if not kinks.size else _numbers(*panels(kinks, rule.nodes // 2, xp=np))
        held, (given, self.inner) = disc(rule.held, rule.reach, 1), hermite_rule(rule.given)
        truth = _numbers(*panels(kinks, TRUTH // (kinks.size + 2), (-FAR, 0.0, FAR), np))
        grids = [truth[0], plain[0], held[0][:, 0], given]
        values = _values(activation, s * np.concatenate(grids))
        ends = np.cumsum([grid.size for grid in grids])[:-1]
        self.truth, self.plain, self.held, self.given = zip(*(np.split(each, ends) for each in values), strict=True)
        self.z, self.weights = truth
        self.plain_weights, self.held_weights = plain[1], held[1]

    def pairs(self, count: int) -> float:
        """The worst of E[g^2], E[g'^2] and, of a smooth function, E[g'' g]; the first `count`."""
        count = min(count, 3 if self.smooth else 2)
        means, found = (
            [average(*pair) for pair in ((g, g), (slope, slope), (curvature, g))][:count]
            for (g, slope, curvature), average in ((self.truth, self._exactly), (self.plain, self._by_rule))
        )
        size = 1e-3 * max(map(abs, means))
        return max(_share(a - b, max(abs(b), size)) for a, b in zip(found, means, strict=True))

    def _exactly(self, f: np.ndarray, h: np.ndarray) -> float:
        return self.weights @ (f * h)

    def _by_rule(self, f: np.ndarray, h: np.ndarray) -> float:
        """E[f h] of a field paired with itself: by panels, or the sum of products of Hermite coefficients."""
        weights = self.plain_weights
        return weights @ (f * h) if weights.ndim == 1 else (f @ weights) @ (h @ weights)

    def step_noise(self) -> float:
        """The worst of E[g'^2] and E[(g' g)^2] on a held axis, and of `hermite_sum`."""
        errors = [self.hermite_sum()]
        for power in (0, 2):
            true = self.weights @ (self.truth[1] ** 2 * self.truth[0] ** power)
            errors.append(_share(self.held_weights @ (self.held[1] ** 2 * self.held[0] ** power) - true, true))
        return max(errors)

    def hermite_sum(self) -> float:
        """What is wrong with, and missing from, the sum over k of f_k^2 = E[g^2]."""
        total = self.weights @ self.truth[0] ** 2
        true = (self.weights * self.truth[0]) @ hermites(self.z, self.rule.given)
        found = self.given[0] @ self.inner
        return _share(np.sum(np.abs(found**2 - true**2)) + total - true @ true, total)

    def sampling_error(self, power: int) -> float:
        """Relative standard error of E[(g' g)^2] (of E[g^2] for power 1) over random points."""
        f = self.truth[0] ** 2 if power == 1 else (self.truth[0] * self.truth[1]) ** 2
        mean = self.weights @ f
        return _share(np.sqrt(max(self.weights @ f**2 - mean**2, 0.0) / (4 * self.rule.points)), mean)


def _share(part: float, whole: float) -> float:
    share = abs(part) / max(abs(whole), 1e-300)
    return float(share) if np.isfinite(share) else np.inf


def _numbers(nodes: ArrayLike, weights: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(nodes), np.asarray(weights)


def _values(activation: Activation, x: np.ndarray) -> np.ndarray:
    """g, g' and g'' at numbers, (3, size); compiled for few shapes."""
    padded = np.pad(x, (0, -x.size % 2**13))
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
        return np.asarray(_compiled(activation)(padded))[:, : x.size]


@lru_cache(maxsize=256)
def _compiled(activation: Activation) -> Callable[[np.ndarray], Array]:
    return jax.jit(lambda x: jnp.stack([activation(x), activation.slope(x), activation.curvature(x)]))
