"""Bayes-optimal learning from one teacher unit with Gaussian weights.

Components of the teacher's weights are N(0, t_l). n = ratio N samples leave them with
means whose overlap with the teacher is q, and

    qhat = ratio I(q),    q = sum_l p_l lam_l t_l (t_l lam_l qhat / (1 + t_l lam_l qhat))

Read backwards, every qhat has one ratio, ratio(qhat) = qhat / I(q(qhat)): one curve has
all fixed points at all ratios. A fixed point is stable where the curve rises. Of several
stable ones the posterior is at that of the largest free entropy,

    sum_l p_l (t_l lam_l qhat - ln(1 + t_l lam_l qhat)) / 2 - q qhat / 2
      + (ratio / 2) int_0^q I dq,

and algorithms that start without knowledge at the one of smallest q (Barbier, Krzakala,
Macris, Miolane and Zdeborova, PNAS 116, 5451, 2019).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from jaxtyping import Float
from scipy.integrate import cumulative_simpson
from scipy.optimize import brentq

from tutelage.equilibrium.information import Evidence, Posterior
from tutelage.equilibrium.prediction import (
    Prediction,
    best_prediction,
    truth_cells_of,
)
from tutelage.equilibrium.setting import Setting

# ln qhat from no knowledge to perfect knowledge
FIRST = -14.0
LAST = 18.0
POINTS = 161
LEVEL = 1e-3  # relative change of ratio(qhat) per unit of ln qhat that counts as none
RISE = 1e-5  # relative height of a maximum of ratio(qhat) above rounding


@dataclass(frozen=True)
class FixedPoint:
    """One fixed point of Bayes-optimal learning.

    Attributes
    ----------
    q
        Overlap of the posterior mean with the teacher, and its squared length.
    V
        Variance of the teacher's field that is left.
    stable
        True if small deviations shrink.
    free_entropy
        Per input dimension; that of no knowledge is 0.
    information
        qhat: what all samples tell about one component of the weights.
    """

    q: float
    V: float
    stable: bool
    free_entropy: float
    information: float

    @property
    def Q(self) -> Float[np.ndarray, "1 1"]:
        """The overlap of the posterior mean with itself, as a matrix."""
        return np.full((1, 1), self.q)


@dataclass(frozen=True)
class Thresholds:
    """Ratios at which learning changes.

    weak: below it nothing is learned without prior knowledge (0 if a few samples help).
    algorithmic: above it algorithms reach the optimum; NaN if there is no jump.
    information: above it the optimum has jumped; NaN without a jump. perfect: above it
    perfect knowledge is a fixed point; infinite if never. error: a bound on the
    numerical error of the algorithmic threshold, where averages are on grids.
    """

    weak: float
    algorithmic: float
    information: float
    perfect: float
    error: float = 0.0


class AnyPoint(Protocol):
    """What fixed points of one unit and of two have in common."""

    @property
    def Q(self) -> np.ndarray:
        """The overlaps of the posterior mean, (M, M)."""
        ...

    @property
    def stable(self) -> bool:
        """True if small deviations shrink."""
        ...

    @property
    def free_entropy(self) -> float:
        """Per input dimension."""
        ...


Point = TypeVar("Point", bound=AnyPoint)


def optimum(points: Iterable[Point]) -> Point:
    """Return the fixed point of the posterior: that of largest free entropy."""
    stable = [point for point in points if point.stable]
    return max(stable, key=lambda point: point.free_entropy)


def reached(points: Iterable[Point]) -> Point:
    """Return the fixed point that algorithms reach: the stable one of least overlap."""
    stable = [point for point in points if point.stable]
    return min(stable, key=lambda point: float(np.trace(point.Q)))


class BayesCurve:
    """All fixed points of one teacher unit."""

    def __init__(self, setting: Setting, evidence: Evidence):
        self.setting = setting
        self.evidence = evidence
        self._truth_cells = truth_cells_of(setting)
        T = float(setting.T[0, 0])
        t = setting.t[:, 0, 0]
        self._strength = t * setting.lam  # t_l lam_l
        self._share = setting.p * self._strength  # its sum is what inputs carry of T
        self.carried = float(self._share.sum())
        self._hidden = max(T - self.carried, 0.0)
        self.u = np.linspace(FIRST, LAST, POINTS)
        found = [self._at(u) for u in self.u]
        self.q = np.array([posterior.q for posterior, _ in found])
        self.information = np.array([information for _, information in found])
        self.log_ratio = self.u - np.log(np.maximum(self.information, 1e-300))
        # half the integral of I over q, by dq = (dq / du) du
        rate = self.information * np.array([self._slope_of_q(u) for u in self.u])
        self._integral = cumulative_simpson(rate, x=self.u, initial=0.0) / 2
        self.thresholds = self._thresholds()

    def posterior(self, u: float) -> Posterior:
        """Return q and V = T - q at qhat = exp(u)."""
        gain = self._strength * np.exp(u)
        q = float(self._share @ (gain / (1 + gain)))
        V = self._hidden + float(self._share @ (1 / (1 + gain)))
        return Posterior(q=q, V=V)

    def _slope_of_q(self, u: float) -> float:
        gain = self._strength * np.exp(u)
        return float(self._share @ (gain / (1 + gain) ** 2))

    def _at(self, u: float) -> tuple[Posterior, float]:
        posterior = self.posterior(u)
        return posterior, self.evidence.information(posterior)

    def log_ratio_at(self, u: float) -> float:
        """Return ln ratio(qhat) at qhat = exp(u)."""
        _, information = self._at(u)
        return float(u - np.log(max(information, 1e-300)))

    def fixed_points(self, ratio: float) -> list[FixedPoint]:
        """Return all fixed points at a ratio, in the order of q."""
        thresholds = self.thresholds
        points = []
        if thresholds.weak > 0:
            T = float(self.setting.T[0, 0])
            points.append(FixedPoint(0.0, T, ratio <= thresholds.weak, 0.0, 0.0))
        target = np.log(ratio)
        above = self.log_ratio > target
        for i in np.flatnonzero(above[:-1] != above[1:]):
            u = _crossing(self.log_ratio_at, target, self.u[i], self.u[i + 1])
            posterior = self.posterior(u)
            points.append(
                FixedPoint(
                    q=posterior.q,
                    V=posterior.V,
                    stable=bool(above[i + 1]),
                    free_entropy=self.free_entropy(u, ratio),
                    information=float(np.exp(u)),
                )
            )
        if ratio > thresholds.perfect:
            perfect = FixedPoint(self.carried, self._hidden, True, np.inf, np.inf)
            points.append(perfect)
        return points

    def free_entropy(self, u: float, ratio: float) -> float:
        """Return the free entropy per input dimension; 0 without knowledge."""
        gain = self._strength * np.exp(u)
        prior = float(self.setting.p @ (gain - np.log1p(gain))) / 2
        q = self.posterior(u).q
        integral = float(np.interp(u, self.u, self._integral))
        return prior - q * np.exp(u) / 2 + ratio * integral

    def prediction(self, point: FixedPoint) -> Prediction:
        """Return the best prediction at a fixed point."""
        return best_prediction(
            self.setting, self.evidence, self._truth_cells, point.q, point.V
        )

    def error_bound(self, point: FixedPoint, ratio: float) -> float:
        """Return 0: averages of one unit have no grid of a fixed size."""
        return 0.0

    def teacher_overlaps(self, point: FixedPoint) -> Float[np.ndarray, "1 M"]:
        """Return the overlaps of the posterior mean with all teacher units."""
        setting = self.setting
        precision = self._strength * point.information
        gain = np.ones_like(precision)
        if np.isfinite(point.information):
            gain = precision / (1 + precision)
        with_units = setting.teacher @ setting.combine[0]
        return ((setting.p * setting.lam * gain) @ with_units)[None]

    def _thresholds(self) -> Thresholds:
        log_ratio = self.log_ratio
        step = self.u[1] - self.u[0]
        # without knowledge ratio(qhat) is constant, or falls to zero like qhat
        is_level = abs(log_ratio[1] - log_ratio[0]) < LEVEL * step
        weak = float(np.exp(log_ratio[0])) if is_level else 0.0
        is_level = abs(log_ratio[-1] - log_ratio[-2]) < LEVEL * step
        perfect = np.inf
        if is_level:
            # the curve approaches its limit like sqrt(V), that is exp(-u / 2)
            factor = np.exp(-step / 2)
            before, last = np.exp(log_ratio[-2:])
            perfect = float((last - factor * before) / (1 - factor))
        top = _first_maximum(log_ratio)
        if top is None:
            return Thresholds(weak, np.nan, np.nan, perfect)
        algorithmic = float(np.exp(_refined_maximum(self.log_ratio_at, self.u, top)))
        after = top + int(np.argmin(log_ratio[top:]))
        lowest = float(np.exp(log_ratio[after]))
        self.thresholds = Thresholds(weak, algorithmic, np.nan, perfect)
        if abs(lowest - perfect) < LEVEL * perfect:
            # beyond this ratio the free entropy of perfect knowledge is infinite
            return Thresholds(weak, algorithmic, perfect, perfect)
        information = self._equal_entropies(lowest, algorithmic)
        return Thresholds(weak, algorithmic, information, perfect)

    def _equal_entropies(self, low: float, high: float) -> float:
        """Return the ratio at which two stable fixed points are equally probable."""

        def gain(ratio: float) -> float:
            stable = [point for point in self.fixed_points(ratio) if point.stable]
            first, *_, last = stable if len(stable) > 1 else (stable[0], stable[0])
            return last.free_entropy - first.free_entropy

        inner = [low + share * (high - low) for share in (1e-6, 1 - 1e-6)]
        if gain(inner[0]) * gain(inner[1]) > 0:
            return float(low if gain(inner[0]) > 0 else high)
        return float(brentq(gain, *inner, xtol=1e-9))  # pyright: ignore


def _crossing(
    function: Callable[[float], float], level: float, left: float, right: float
) -> float:
    return float(brentq(lambda u: function(u) - level, left, right, xtol=1e-12))  # pyright: ignore


def _first_maximum(values: Float[np.ndarray, " n"]) -> int | None:
    """Return the place of the first maximum inside; None if the values never fall."""
    running = np.maximum.accumulate(values)
    falls = np.flatnonzero(values < running - RISE)
    if falls.size == 0:
        return None
    return int(np.argmax(values[: falls[0] + 1]))


def _refined_maximum(
    function: Callable[[float], float], u: np.ndarray, place: int
) -> float:
    """Return the maximum of a function between the neighbors of a place."""
    from scipy.optimize import minimize_scalar

    left = u[max(place - 1, 0)]
    right = u[min(place + 1, len(u) - 1)]
    maximum: Any = minimize_scalar(
        lambda x: -function(x), bounds=(left, right), method="bounded"
    )
    return max(-float(maximum.fun), function(u[place]))
