"""A sample after the weights have adapted to it: h = prox of the loss.

    h = argmin_x (x - omega)^2 / (2 V) + l(x, y),    g = (h - omega) / V = -l'(h)

omega is the output on a sample that was left out, h that of the weights trained with it.

For four losses g is a clipped line in omega, and Gaussian averages are exact:

    g = side * clip((b - side omega) / w, low, high)

    squared   w = 1 + V,  not clipped        absolute  w = V,      low, high = -1, 1
    huber     w = 1 + V,  -delta, delta      hinge     w = V,      0, 1, b = 1, side = y

For any other convex loss h is found by Newton's method inside a bracket.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import expit, ndtr

from tutelage.errors import InputError
from tutelage.training.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Squared,
    loss_name,
)
from tutelage.training.losses import Function as FunctionLoss

NEWTON_STEPS = 100
CONVERGED = 1e-13
ROUNDING = 1e-11
TRIED_OUTPUTS = np.linspace(-30.0, 30.0, 1201)
NOT_MONOTONIC = 1e-9  # fall of l', in units of its largest value


def normal_density(x: np.ndarray) -> np.ndarray:
    """Return the density of a standard normal number; 0 at infinity."""
    return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


class ClippedMoments(NamedTuple):
    """Averages of g of a clipped line over Gaussian omega.

    first, second: E[g], E[g^2]. slope: -E[dg/domega]. adapted: E[l(h)], the loss of the
    sample after the weights have adapted. product: E[(b - side omega) side g].
    """

    first: np.ndarray
    second: np.ndarray
    slope: np.ndarray
    adapted: np.ndarray
    product: np.ndarray


@dataclass(frozen=True)
class ClippedLine:
    """The shape of g for one of four losses.

    curvature: l'' where the loss is not linear; 0 if it has kinks there instead.
    margin: labels are signs, and the loss is a function of label times output.
    """

    curvature: float
    low: float
    high: float
    margin: bool = False

    def moments(
        self, label: np.ndarray, mean: np.ndarray, deviation: float, V: float
    ) -> ClippedMoments:
        """Return averages over omega of this mean and label - omega of this deviation.

        V = 0 gives the loss of a sample that was left out.
        """
        side = 1.0
        target = label
        if self.margin:
            side = label
            target = np.ones_like(label)
        # X = b - side omega is Gaussian; u = clip(X / w, low, high)
        center = target - side * mean
        width = V + self.curvature
        if np.isinf(self.low):
            return self._of_a_line(center, deviation, V)
        a = (self.low * width - center) / deviation
        b = (self.high * width - center) / deviation
        if width == 0:  # a kink: u is low for X < 0 and high for X > 0
            a = -center / deviation
            b = a
        below = ndtr(a)
        above = ndtr(-b)
        inside = np.maximum(ndtr(b) - below, 0.0)
        density_a = normal_density(a)
        density_b = normal_density(b)
        low = self.low
        high = self.high
        # X and X^2 where the line is not clipped
        line = center * inside + deviation * (density_a - density_b)
        square = (center**2 + deviation**2) * inside
        square += deviation * 2 * center * (density_a - density_b)
        square += deviation**2 * (a * density_a - b * density_b)
        # X where it is
        line_below = center * below - deviation * density_a
        line_above = center * above + deviation * density_b
        scale = 0.0
        if width > 0:
            scale = 1.0 / width
        first = low * below + high * above + scale * line
        second = low**2 * below + high**2 * above + scale**2 * square
        product = low * line_below + high * line_above + scale * square
        return ClippedMoments(
            first=side * first,
            second=second,
            slope=scale * inside,
            # l(h) = u X - (V + curvature / 2) u^2, by Legendre's transformation
            adapted=product - (V + self.curvature / 2) * second,
            product=product,
        )

    def descent_at_zero(self, label: np.ndarray) -> np.ndarray:
        """Return -l'(0, label)."""
        if self.margin:
            return label
        if self.curvature > 0:
            return np.clip(label / self.curvature, self.low, self.high)
        return np.where(label > 0, self.high, self.low)

    def _of_a_line(
        self, center: np.ndarray, deviation: float, V: float
    ) -> ClippedMoments:
        """Return the averages of squared loss: u = X / (1 + V)."""
        square = center**2 + deviation**2
        scale = 1.0 / (1.0 + V)
        return ClippedMoments(
            first=scale * center,
            second=scale**2 * square,
            slope=np.full_like(center, scale),
            adapted=scale**2 * square / 2,
            product=scale * square,
        )


def clipped_line(loss: Loss) -> ClippedLine | None:
    """Return the shape of g of a loss; None if it is not a clipped line."""
    kind = type(loss)
    if kind is Squared:
        return ClippedLine(curvature=1.0, low=-np.inf, high=np.inf)
    if kind is Huber:
        delta = float(np.asarray(loss.delta))  # pyright: ignore
        return ClippedLine(curvature=1.0, low=-delta, high=delta)
    if kind is Absolute:
        return ClippedLine(curvature=0.0, low=-1.0, high=1.0)
    if kind is Hinge:
        return ClippedLine(curvature=0.0, low=0.0, high=1.0, margin=True)
    return None


class Descents:
    """-l' and l'' of a loss at arrays of outputs and labels."""

    def __init__(self, loss: Loss):
        self.loss = loss
        self.is_logistic = type(loss) is Logistic
        if not self.is_logistic:
            one = jnp.vectorize(loss.descent)
            slopes = jnp.vectorize(jax.grad(loss.descent))
            self._descent = jax.jit(one)
            self._both = jax.jit(lambda h, y: (one(h, y), -slopes(h, y)))
            self._value = jax.jit(jnp.vectorize(loss))

    def value(self, h: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss."""
        if self.is_logistic:
            return np.logaddexp(0.0, -y * h)
        return np.asarray(self._value(h, y))

    def descent(self, h: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return -l'(h)."""
        if self.is_logistic:
            return y * expit(-y * h)
        return np.asarray(self._descent(h, y))

    def with_curvature(
        self, h: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return -l'(h) and l''(h)."""
        if self.is_logistic:
            share = expit(-y * h)
            return y * share, share * (1 - share)
        descent, curvature = self._both(h, y)
        return np.asarray(descent), np.asarray(curvature)


def descents_of(loss: Loss) -> Descents:
    """Return the derivatives of a loss; those of a function are compiled once."""
    if type(loss) is FunctionLoss:
        return _compiled_descents(loss.function)
    return Descents(loss)


@lru_cache(maxsize=64)
def _compiled_descents(function: Callable[..., jax.Array]) -> Descents:
    return Descents(FunctionLoss(function, jumps=True))


def proximal_point(
    descents: Descents,
    omega: Float[np.ndarray, "*n"],
    label: Float[np.ndarray, "*n"],
    V: float,
) -> Float[np.ndarray, "*n"]:
    """Return h with h = omega - V l'(h, label)."""
    # h lies between omega and omega + V (-l'(omega)), for l' grows with h
    step = V * descents.descent(omega, label)
    low = np.minimum(omega, omega + step)
    high = np.maximum(omega, omega + step)
    h = np.clip(omega + step / (1 + V), low, high)
    for _ in range(NEWTON_STEPS):
        descent, curvature = descents.with_curvature(h, label)
        gap = h - omega - V * descent
        low = np.where(gap < 0, h, low)
        high = np.where(gap > 0, h, high)
        newton = h - gap / (1 + V * np.maximum(curvature, 0.0))
        # rounding may put the root just outside of its bracket
        room = ROUNDING * (1 + np.abs(h))
        inside = (newton >= low - room) & (newton <= high + room)
        following = np.where(inside, newton, (low + high) / 2)
        change = np.max(np.abs(following - h) / (1 + np.abs(h)))
        h = following
        if change < CONVERGED:
            break
    return h


def require_convex(loss: Loss, labels: Float[np.ndarray, " J"], function: str) -> None:
    """Refuse a loss that is not a convex function of the output at these labels."""
    if clipped_line(loss) is not None or type(loss) is Logistic:
        return
    h, y = np.meshgrid(TRIED_OUTPUTS, labels)
    slope = -descents_of(loss).descent(h, y)
    fall = np.min(np.diff(slope, axis=1))
    if fall < -NOT_MONOTONIC * np.max(np.abs(slope)):
        raise InputError(
            f"the loss {loss_name(loss)!r} is not a convex function of the output; "
            f"{function} needs one minimum. Use a convex loss, or give the problem "
            "data=DataSet(ratio) and follow training with solve."
        )


def follows_difference(descents: Descents) -> bool:
    """True if the loss is a function of label - output, as far as trials show."""
    rng = np.random.default_rng(0)
    h, y, shift = 3 * rng.standard_normal((3, 64))
    here = descents.descent(h, y)
    there = descents.descent(h + shift, y + shift)
    return bool(np.max(np.abs(here - there)) <= 1e-9 * np.max(np.abs(here)))
