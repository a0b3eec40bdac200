"""Bayes-optimal learning from two equal teacher units.

In the sum and the difference of the units, rho+- = (rho_1 +- rho_2) / sqrt(2) of
variance T+-, the overlap of the posterior mean is diagonal, l+ and l-:

    qhat+- = ratio I+-(l+, l-),    l+- = T+-^2 qhat+- / (1 + T+- qhat+-)

I+- = E[(d ln Z / d omega+-)^2] as for one unit. As long as l- = 0 the units are not
distinguished; they specialize where this is unstable, ratio T-^2 dI- / dl- = 1
(Aubin, Maillard, Barbier, Krzakala, Macris and Zdeborova, NeurIPS 2018).

QuadrantEvidence serves labels that depend on the signs of both fields (committees of
sign units): probabilities of quadrants are exact, by Owen's T function. GridEvidence
serves any other law with a likelihood, on even grids of omega and of the fields.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, root
from scipy.special import ndtr, owens_t

from tutelage.equilibrium.bayes import Thresholds
from tutelage.equilibrium.label_nodes import (
    FEW_LABELS,
    fields_at,
    labels_at,
    outputs_at,
    truths_at,
)
from tutelage.equilibrium.prediction import Prediction
from tutelage.equilibrium.proximal import normal_density
from tutelage.equilibrium.quadrature import Nodes, even_nodes
from tutelage.equilibrium.setting import Setting
from tutelage.errors import InputError
from tutelage.problem.labels import Real

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
TRIED_FIELDS = 64
EQUAL = 1e-9
GRID = 101  # of each of omega+ and omega-, for quadrants
COARSE_GRID = 61  # the same for an estimate of errors
GRID_REACH = 7.5
OUTER = 17  # of omega, along each axis
COARSE_OUTER = 13
OUTER_REACH = 5.5
INNER = 41  # fields around omega, along each axis
COARSE_INNER = 31
INNER_REACH = 6.0
BIN = 0.2  # of noiseless labels, in units of their noise
LEAST_NOISE = 0.1  # that the inner grid resolves
RANDOM_CELLS = 64  # of the randomness of a label function
# ln qhat+ along the curve of units that are not distinguished
FIRST = -8.0
LAST = 8.0
POINTS = 33
SMALL = 1e-4  # l- in units of T-, for the growth of a difference
LEVEL = 1e-2  # relative change of ratio per unit of ln qhat that counts as none
DISTINCT = 1e-3  # l- in units of T-, above which units are distinguished
CONVERGED = 1e-9
MOST_STEPS = 150
FIRST_STEPS = 15
TINY = 1e-14
ROUNDING = 1e-9  # of a node of omega


class PairAverages(NamedTuple):
    """I+, I-, E ln Z and the best prediction, at l+ and l-."""

    plus: float
    minus: float
    log_evidence: float
    prediction: Prediction


class PairEvidence(ABC):
    """The information of labels about two fields; T: the variances T+ and T-."""

    T: tuple[float, float]

    @abstractmethod
    def averages(self, plus: float, minus: float) -> PairAverages:
        """Return the averages at l+ and l-."""

    @abstractmethod
    def coarser(self) -> "PairEvidence":
        """Return the same on coarser grids: what changes is the error of both."""


@dataclass(frozen=True)
class QuadrantEvidence(PairEvidence):
    """Labels that depend on the signs of rho_1 and rho_2.

    probabilities (4, J) in the quadrants ++, +-, -+, --; truth (4,): the noiseless label
    there. classes: the error counts signs. noise: Gaussian, added to values. grid:
    points of omega+ and of omega-.
    """

    T: tuple[float, float]
    probabilities: Float[np.ndarray, "4 J"]
    values: Float[np.ndarray, " J"]
    truth: Float[np.ndarray, " 4"]
    classes: bool
    noise: float
    grid: int = GRID

    def coarser(self) -> "QuadrantEvidence":
        return replace(self, grid=COARSE_GRID)

    def averages(self, plus: float, minus: float) -> PairAverages:
        u, weight = even_nodes(self.grid, GRID_REACH)
        half = upper_half(Nodes(u, weight))
        weights = np.outer(weight, half.weights)
        omega_plus = np.sqrt(plus) * u[:, None]
        omega_minus = np.sqrt(minus) * half.x[None, :]
        quadrants, slopes = self._quadrants(plus, minus, omega_plus, omega_minus)
        Z = np.maximum(quadrants @ self.probabilities, TINY)
        slope = slopes @ self.probabilities  # by omega_1 and omega_2
        step = 1.0
        if self.noise > 0:
            low = self.values.min() - 8 * self.noise
            high = self.values.max() + 8 * self.noise
            y = np.linspace(low, high, int((high - low) / (0.6 * self.noise)) + 2)
            z = (y - self.values[:, None]) / self.noise
            density = normal_density(z) / self.noise
            Z = np.maximum(Z @ density, TINY)
            slope = slope @ density
            step = y[1] - y[0]
        up = (slope[0] + slope[1]) ** 2 / 2
        down = (slope[0] - slope[1]) ** 2 / 2
        spread = weights[..., None] * step
        return PairAverages(
            plus=float(np.sum(spread * up / Z)),
            minus=float(np.sum(spread * down / Z)),
            log_evidence=float(np.sum(spread * Z * np.log(Z))),
            prediction=self._prediction(weights, quadrants),
        )

    def _quadrants(
        self, plus: float, minus: float, omega_plus: np.ndarray, omega_minus: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of quadrants, and their derivatives by omega.

        Shapes (grid, grid, 4) and (2, grid, grid, 4).
        """
        V_plus = max(self.T[0] - plus, TINY)
        V_minus = max(self.T[1] - minus, TINY)
        variance = (V_plus + V_minus) / 2
        covariance = (V_plus - V_minus) / 2
        s = np.sqrt(variance)
        correlation = covariance / variance
        left = np.sqrt(variance * (1 - correlation**2))
        first = (omega_plus + omega_minus) / np.sqrt(2)
        second = (omega_plus - omega_minus) / np.sqrt(2)
        below_first = ndtr(first / s)
        below_second = ndtr(second / s)
        both = _orthant(first / s, second / s, correlation)
        # quadrants in the order of SIGNS
        probabilities = [
            both,
            below_first - both,
            below_second - both,
            1 - below_first - below_second + both,
        ]
        slopes = []
        for a, b in SIGNS:
            given_first = b * (second - correlation * first) / left
            given_second = a * (first - correlation * second) / left
            by_first = a * normal_density(first / s) / s * ndtr(given_first)
            by_second = b * normal_density(second / s) / s * ndtr(given_second)
            slopes.append(np.stack([by_first, by_second]))
        positive = np.maximum(np.stack(probabilities, axis=-1), 0.0)
        return positive, np.stack(slopes, axis=-1)

    def _prediction(self, weights: np.ndarray, quadrants: np.ndarray) -> Prediction:
        evidence = np.maximum(quadrants @ self.probabilities, 0.0)
        noisy = float(1 - np.sum(weights * evidence.max(axis=-1)))
        if self.classes:
            values = np.unique(self.truth)
            indicator = (self.truth[:, None] == values) * 1.0
            sure = (quadrants @ indicator).max(axis=-1)
            logs = np.log(np.maximum(evidence, TINY))
            loss = -np.sum(weights[..., None] * evidence * logs)
            return Prediction(float(1 - np.sum(weights * sure)), noisy, float(loss))
        mean = quadrants @ self.truth
        variance = np.sum(weights * (quadrants @ self.truth**2 - mean**2))
        by_value = evidence @ self.values
        noisy_variance = np.sum(weights * (evidence @ self.values**2 - by_value**2))
        loss = (float(noisy_variance) + self.noise**2) / 2
        return Prediction(float(variance) / 2, np.nan, loss)


def upper_half(nodes: Nodes) -> Nodes:
    """Return the nodes of omega- that are not negative, with the weight of both signs.

    An exchange of the units changes the sign of omega-, and of no average.
    """
    kept = nodes.x > -ROUNDING
    weights = np.where(nodes.x > ROUNDING, 2 * nodes.weights, nodes.weights)
    return Nodes(nodes.x[kept], weights[kept])


def _orthant(a: np.ndarray, b: np.ndarray, correlation: float) -> np.ndarray:
    """Return P(X < a, Y < b) of standard normal X, Y (Owen 1956)."""
    a = np.where(a == 0, 1e-12, a)
    b = np.where(b == 0, 1e-12, b)
    s = np.sqrt(max(1 - correlation**2, TINY))
    inside = (ndtr(a) + ndtr(b)) / 2
    inside = inside - owens_t(a, (b / a - correlation) / s)
    inside = inside - owens_t(b, (a / b - correlation) / s)
    return inside - np.where(a * b < 0, 0.5, 0.0)


@dataclass(frozen=True)
class GridEvidence(PairEvidence):
    """Labels of any law with a likelihood, on even grids of omega and of the fields.

    output: the noiseless label at fields (n, 2). law: the probabilities (n, J) of labels
    with few values; None for real labels with noise.
    """

    T: tuple[float, float]
    output: Callable[[np.ndarray], np.ndarray]
    law: Callable[[np.ndarray], np.ndarray] | None
    values: Float[np.ndarray, " J"]
    classes: bool
    noise: float
    outer: int = OUTER
    inner: int = INNER

    def coarser(self) -> "GridEvidence":
        return replace(self, outer=COARSE_OUTER, inner=COARSE_INNER)

    def averages(self, plus: float, minus: float) -> PairAverages:
        u, outer = even_nodes(self.outer, OUTER_REACH)
        half = upper_half(Nodes(u, outer))
        x, inner = even_nodes(self.inner, INNER_REACH)
        spread = np.sqrt(np.maximum(np.array(self.T) - [plus, minus], TINY))
        up = np.sqrt(plus) * u[:, None] + spread[0] * x
        down = np.sqrt(minus) * half.x[:, None] + spread[1] * x
        # axes: omega+, omega-, rho+, rho-
        first = (up[:, None, :, None] + down[None, :, None, :]) / np.sqrt(2)
        second = (up[:, None, :, None] - down[None, :, None, :]) / np.sqrt(2)
        rho = np.stack([first.ravel(), second.ravel()], axis=1)
        points = len(u) * len(half.x)
        weights = np.outer(inner, inner).ravel()
        sides = np.stack(
            [np.repeat(x, len(x)) / spread[0], np.tile(x, len(x)) / spread[1]]
        )
        columns = weights * np.concatenate([np.ones((1, len(weights))), sides])
        truth = self.output(rho).reshape(points, -1)
        if self.law is None:
            sums, step = self._with_noise(truth, columns)
        else:
            probabilities = self.law(rho).reshape(points, len(weights), -1)
            sums = np.einsum("ap,opj->aoj", columns, probabilities)
            step = 1.0
        Z = np.maximum(sums[0], TINY)
        of_omega = np.outer(outer, half.weights).ravel()
        information = step * np.sum(sums[1:] ** 2 / Z, axis=2) @ of_omega
        return PairAverages(
            plus=float(information[0]),
            minus=float(information[1]),
            log_evidence=float(step * of_omega @ np.sum(Z * np.log(Z), axis=1)),
            prediction=self._prediction(of_omega, weights, truth, Z),
        )

    def _with_noise(
        self, f: Float[np.ndarray, "o p"], columns: Float[np.ndarray, "3 p"]
    ) -> tuple[Float[np.ndarray, "3 o y"], float]:
        """Return Z(y) and its derivatives by omega, on a grid of y; and its step.

        f is collected in narrow bins first, between whose ends it is split linearly.
        """
        width = self.noise * BIN
        low = f.min() - width
        place = (f - low) / width
        bin_below = place.astype(int)
        share = place - bin_below
        bins = int(bin_below.max()) + 2
        index = (np.arange(len(f))[:, None] * bins + bin_below).ravel()
        size = len(f) * bins
        values = low + width * np.arange(bins)
        y = np.linspace(
            values[0] - 8 * self.noise,
            values[-1] + 8 * self.noise,
            int((values[-1] - values[0] + 16 * self.noise) / (0.5 * self.noise)) + 2,
        )
        kernel = normal_density((y - values[:, None]) / self.noise) / self.noise
        sums = []
        for column in columns:
            here = ((1 - share) * column).ravel()
            above = (share * column).ravel()
            collected = np.bincount(index, here, size)
            collected += np.bincount(index + 1, above, size)
            sums.append(collected.reshape(len(f), bins) @ kernel)
        return np.stack(sums), float(y[1] - y[0])

    def _prediction(
        self, of_omega: np.ndarray, weights: np.ndarray, f: np.ndarray, Z: np.ndarray
    ) -> Prediction:
        if self.classes:
            positive = (f > 0) @ weights
            error = float(of_omega @ np.minimum(positive, 1 - positive))
            label_error = float(1 - of_omega @ Z.max(axis=1))
            loss = float(-of_omega @ np.sum(Z * np.log(Z), axis=1))
            return Prediction(error, label_error, loss)
        mean = f @ weights
        variance = float(of_omega @ ((f - mean[:, None]) ** 2 @ weights))
        noisy = variance + self.noise**2
        if self.law is not None:
            by_value = Z @ self.values
            noisy = float(of_omega @ (Z @ self.values**2 - by_value**2))
        return Prediction(variance / 2, np.nan, noisy / 2)


def pair_evidence(setting: Setting, function: str) -> PairEvidence:
    """Return the evidence of the labels of two equal units; refuse others."""
    if len(setting.lam) > 1:
        raise InputError(
            f"the inputs have {len(setting.lam)} levels and labels depend on two teacher "
            f"fields; {function} supports isotropic inputs there."
        )
    T = setting.T
    unseen = setting.problem.unseen is not None
    if unseen or abs(T[0, 0] - T[1, 1]) > EQUAL * T[0, 0]:
        raise InputError(
            f"the teacher units have squared lengths {T[0, 0]:g} and {T[1, 1]:g}, or an "
            f"unseen part; {function} supports two equal units. Give one gram entry."
        )
    variances = (float(T[0, 0] + T[0, 1]), float(T[0, 0] - T[0, 1]))
    problem = setting.problem
    if problem.has_noise_law:
        raise InputError(
            f"the noise is a quantile function; {function} needs the likelihood of a "
            "label. Give a number, Gaussian noise."
        )
    rng = np.random.default_rng(0)
    tried = np.abs(rng.standard_normal((TRIED_FIELDS, 2)))
    _require_exchange(setting, rng.standard_normal((TRIED_FIELDS, 2)), function)
    noise = float(problem.noise_deviation) if isinstance(problem.labels, Real) else 0.0
    classes = problem.labels.metric == "class"
    quadrants = _quadrant_law(setting, tried)
    if quadrants is not None:
        probabilities, values = quadrants
        random = getattr(problem.labels, "random", False) is not False
        truth = probabilities @ values if random else truths_at(setting, SIGNS)
        if random and classes:
            truth = values[np.argmax(probabilities, axis=1)]
        return QuadrantEvidence(variances, probabilities, values, truth, classes, noise)
    return _on_grids(setting, variances, noise, classes, function)


def _law_at(
    setting: Setting, rho: Float[np.ndarray, "n 2"], values: Float[np.ndarray, " J"]
) -> Float[np.ndarray, "n J"]:
    """Return the probabilities of these labels at fields."""
    labels, probabilities, _ = labels_at(setting, rho)
    columns = [np.sum(probabilities * (labels == v), axis=1) for v in values]
    return np.stack(columns, axis=1)


def _require_exchange(
    setting: Setting, rho: Float[np.ndarray, "n 2"], function: str
) -> None:
    """Refuse labels that change if both units change places."""
    mean = []
    for fields in (rho, rho[:, ::-1]):
        labels, probabilities, _ = labels_at(setting, fields)
        mean.append(np.sum(labels * probabilities, axis=1))
    if np.max(np.abs(mean[0] - mean[1])) > 1e-6 * (1 + np.max(np.abs(mean[0]))):
        raise InputError(
            f"the labels change if both teacher units change places; {function} supports "
            "two equal units (the same readout, bias and activation)."
        )


def _quadrant_law(
    setting: Setting, sizes: Float[np.ndarray, "n 2"]
) -> tuple[Float[np.ndarray, "4 J"], Float[np.ndarray, " J"]] | None:
    """Return the law of labels in quadrants; None if it depends on more than signs."""
    labels, _, _ = labels_at(setting, SIGNS)
    values = np.unique(labels)
    law = _law_at(setting, SIGNS, values)
    for quadrant, signs in enumerate(SIGNS):
        labels, _, _ = labels_at(setting, signs * sizes)
        if not np.all(np.isin(labels, values)):
            return None
        here = _law_at(setting, signs * sizes, values)
        if np.max(np.abs(here - law[quadrant])) > 1e-6:
            return None
    return law, values


def _on_grids(
    setting: Setting,
    T: tuple[float, float],
    noise: float,
    classes: bool,
    function: str,
) -> GridEvidence:
    """Return the evidence of labels that are not functions of signs."""
    problem = setting.problem
    law = problem.labels
    if isinstance(law, Real):
        if noise < LEAST_NOISE:
            raise InputError(
                f"noise is {noise:g}; {function} of two units resolves noise of "
                f"{LEAST_NOISE:g} or more on real labels."
            )

        def output(rho: np.ndarray) -> np.ndarray:
            return outputs_at(setting, rho)

        return GridEvidence(T, output, None, np.zeros(0), classes, noise)
    rng = np.random.default_rng(1)
    labels, _, _ = labels_at(setting, 3 * rng.standard_normal((512, 2)))
    values = np.unique(labels)
    if len(values) > FEW_LABELS:
        raise InputError(
            f"the labels have continuous values without noise; {function} of two units "
            "needs their likelihood. Use labels='real' with noise."
        )
    by_value = jnp.asarray(values)
    cells = (jnp.arange(RANDOM_CELLS) + 0.5) / RANDOM_CELLS

    def one_law(output: jax.Array, fields: jax.Array) -> jax.Array:
        found = law.outcomes(output, fields, problem.noise)
        if found is None:
            make = jax.vmap(lambda xi: law.label(output, fields, xi, problem.noise))
            found = make(cells), jnp.full(RANDOM_CELLS, 1 / RANDOM_CELLS)
        labels, probabilities = found
        return probabilities @ (labels[:, None] == by_value)

    compiled = jax.jit(jax.vmap(one_law))

    def probabilities(rho: np.ndarray) -> np.ndarray:
        output = jnp.asarray(outputs_at(setting, rho))
        return np.asarray(compiled(output, jnp.asarray(fields_at(setting, rho))))

    def truth(rho: np.ndarray) -> np.ndarray:
        return truths_at(setting, rho)

    return GridEvidence(T, truth, probabilities, values, classes, noise)


class PairPoint(NamedTuple):
    """A fixed point: l+, l-, stability and free entropy."""

    plus: float
    minus: float
    stable: bool
    free_entropy: float

    @property
    def Q(self) -> Float[np.ndarray, "2 2"]:
        """The overlaps of the posterior mean with both units."""
        same = (self.plus + self.minus) / 2
        other = (self.plus - self.minus) / 2
        return np.array([[same, other], [other, same]])


class PairCurve:
    """The fixed points of two units.

    Those without specialization lie on one curve over ln qhat+, as for one unit.
    Specialized ones are found from equal and from perfect knowledge.
    """

    def __init__(self, evidence: PairEvidence):
        self.evidence = evidence
        self.coarser = evidence.coarser()
        self.u = np.linspace(FIRST, LAST, POINTS)
        symmetric = [self._symmetric(u, evidence) for u in self.u]
        self.log_ratio = np.array([ratio for ratio, _ in symmetric])
        self.log_growth = np.array([growth for _, growth in symmetric])
        self.thresholds = self._thresholds()

    def _overlap(self, qhat: float, side: int) -> float:
        T = self.evidence.T[side]
        return T * (T * qhat) / (1 + T * qhat)

    def _symmetric(self, u: float, evidence: PairEvidence) -> tuple[float, float]:
        """Return ln ratio at ln qhat+ = u, and the log growth of a difference there."""
        plus = self._overlap(float(np.exp(u)), 0)
        T = self.evidence.T[1]
        found = evidence.averages(plus, SMALL * T)
        log_ratio = u - np.log(max(found.plus, 1e-300))
        # l- grows by T-^2 ratio I- / l- per iteration
        growth = log_ratio + np.log(max(found.minus, 1e-300) * T / SMALL)
        return float(log_ratio), float(growth)

    def _thresholds(self) -> Thresholds:
        step = self.u[1] - self.u[0]
        weak = 0.0
        if abs(self.log_ratio[1] - self.log_ratio[0]) < LEVEL * step:
            weak = float(np.exp(self.log_ratio[0] - max(self.log_growth[0], 0.0)))
        above = self.log_growth > 0
        crossings = np.flatnonzero(above[1:] & ~above[:-1])
        if above[0] or crossings.size == 0:
            return Thresholds(weak, np.nan, np.nan, np.inf)
        i = int(crossings[0])
        crossing: Any = brentq(
            lambda u: self._symmetric(u, self.evidence)[1],
            self.u[i],
            self.u[i + 1],
            xtol=1e-6,
        )
        u = float(crossing)
        algorithmic = float(np.exp(self._symmetric(u, self.evidence)[0]))
        self.thresholds = Thresholds(
            weak=weak,
            algorithmic=algorithmic,
            information=np.nan,
            perfect=np.inf,
            error=algorithmic * self._relative_error(u, i),
        )
        information = self._information_threshold(algorithmic)
        return replace(self.thresholds, information=information)

    def _relative_error(self, u: float, i: int) -> float:
        """Return the change of a threshold at u, after point i, on coarser grids.

        One step of Newton's method finds the threshold of those grids.
        """
        here, _ = self._symmetric(u, self.evidence)
        there, growth = self._symmetric(u, self.coarser)
        between = slice(i, i + 2)
        step = self.u[1] - self.u[0]
        slope_of_growth = float(np.diff(self.log_growth[between])[0]) / step
        slope_of_ratio = float(np.diff(self.log_ratio[between])[0]) / step
        shift = there - here - growth * slope_of_ratio / slope_of_growth
        return abs(float(np.expm1(shift)))

    def _information_threshold(self, algorithmic: float) -> float:
        """Return where specialized units become the optimum."""

        def gain(ratio: float) -> float:
            points = self.fixed_points(ratio)
            plain = [p for p in points if p.minus < DISTINCT * self.evidence.T[1]]
            distinct = [p for p in points if p.minus >= DISTINCT * self.evidence.T[1]]
            if not distinct:
                return -1.0
            best = max(point.free_entropy for point in distinct)
            return best - max(point.free_entropy for point in plain)

        high = 0.98 * algorithmic
        if gain(high) <= 0:
            return algorithmic
        low = high
        for _ in range(8):
            low = low * 0.85
            if gain(low) <= 0:
                return float(brentq(gain, low, high, xtol=1e-3 * high))  # pyright: ignore
        return np.nan

    def fixed_points(self, ratio: float) -> list[PairPoint]:
        """Return fixed points at a ratio, those without specialization first."""
        points = []
        target = np.log(ratio)
        if self.thresholds_weak_positive:
            points.append(self._point(0.0, 0.0, ratio, ratio <= self.thresholds.weak))
        above = self.log_ratio > target
        for i in np.flatnonzero(above[:-1] != above[1:]):
            u = brentq(
                lambda u: self._symmetric(u, self.evidence)[0] - target,
                self.u[i],
                self.u[i + 1],
                xtol=1e-9,
            )
            growth = self._symmetric(float(u), self.evidence)[1]  # pyright: ignore
            plus = self._overlap(float(np.exp(u)), 0)  # pyright: ignore
            stable = bool(above[i + 1]) and growth < 0
            points.append(self._point(plus, 0.0, ratio, stable))
        T = self.evidence.T
        middle = points[-1].plus if points else 0.5 * T[0]
        starts = [(middle, 0.05 * T[1]), (0.98 * T[0], 0.98 * T[1])]
        for start in starts:
            plus, minus = self._iterated(start, ratio)
            known = any(
                abs(p.plus - plus) + abs(p.minus - minus) < DISTINCT for p in points
            )
            if minus >= DISTINCT * T[1] and not known:
                points.append(self._point(plus, minus, ratio, True))
        return points

    @property
    def thresholds_weak_positive(self) -> bool:
        """True if no knowledge is a fixed point."""
        step = self.u[1] - self.u[0]
        return bool(abs(self.log_ratio[1] - self.log_ratio[0]) < LEVEL * step)

    def _inside(self, l: Float[np.ndarray, " 2"]) -> Float[np.ndarray, " 2"]:
        """Return the nearest overlaps that are possible."""
        return np.clip(l, 0.0, np.array(self.evidence.T) * (1 - 1e-12))

    def _updated(
        self, l: Float[np.ndarray, " 2"], ratio: float, evidence: PairEvidence
    ) -> Float[np.ndarray, " 2"]:
        """Return the overlaps after one step of the iteration."""
        plus, minus = self._inside(l)
        found = evidence.averages(float(plus), float(minus))
        return np.array(
            [
                self._overlap(ratio * found.plus, 0),
                self._overlap(ratio * found.minus, 1),
            ]
        )

    def _iterated(
        self, start: tuple[float, float], ratio: float
    ) -> tuple[float, float]:
        """Return the fixed point that iterations reach from a start."""

        def update(l: np.ndarray) -> np.ndarray:
            return self._updated(l, ratio, self.evidence)

        l = np.array(start)
        for step in range(MOST_STEPS):
            following = update(l)
            change = np.max(np.abs(following - l))
            l = following
            if change < CONVERGED or l[1] < DISTINCT * self.evidence.T[1] / 10:
                break
            if step == FIRST_STEPS:
                found = root(lambda x: update(x) - x, l, method="hybr", tol=1e-11)
                if found.success and found.x[0] > 0:
                    return float(found.x[0]), max(float(found.x[1]), 0.0)
        return float(l[0]), float(l[1])

    def _point(
        self, plus: float, minus: float, ratio: float, stable: bool
    ) -> PairPoint:
        found = self.evidence.averages(plus, minus)
        free = ratio * found.log_evidence
        information = (found.plus, found.minus)
        for side, l in enumerate((plus, minus)):
            T = self.evidence.T[side]
            qhat = ratio * information[side]
            free += (T * qhat - np.log1p(T * qhat) - l * qhat) / 2
        return PairPoint(
            plus, minus, stable, float(free - ratio * self._prior_evidence)
        )

    @cached_property
    def _prior_evidence(self) -> float:
        return self.evidence.averages(0.0, 0.0).log_evidence

    def error_bound(self, point: PairPoint, ratio: float) -> float:
        """Return the change of the error at a stable fixed point on coarser grids.

        The fixed point of those grids is next to this one.
        """

        def residual(l: np.ndarray) -> np.ndarray:
            return self._updated(l, ratio, self.coarser) - l

        l = np.array([point.plus, point.minus])
        found = root(residual, l, method="hybr", tol=1e-9)
        moved = self._inside(found.x)
        coarse = self.coarser.averages(float(moved[0]), float(moved[1]))
        return abs(coarse.prediction.error - self.prediction(point).error)

    def teacher_overlaps(self, point: PairPoint) -> Float[np.ndarray, "2 2"]:
        """Return the overlaps of the posterior mean with the teacher units."""
        return point.Q

    def prediction(self, point: PairPoint) -> Prediction:
        """Return the best prediction at a fixed point."""
        return self.evidence.averages(point.plus, point.minus).prediction


def pair_curve(setting: Setting, function: str) -> PairCurve:
    """Return the fixed points of a setting with two fields."""
    return PairCurve(pair_evidence(setting, function))
