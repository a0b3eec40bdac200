"""State evolution of the minimum of sum_mu l(w.x_mu / sqrt(N), y_mu) + ridge |w|^2 / 2.

The output of the student is linear in w, the loss is convex, n = ratio N samples. With
omega the output on a sample that was left out, h = prox_{V l(., y)}(omega) and
g = (h - omega) / V = -l'(h), samples act on the weights through

    qhat = ratio E[g^2],   Vhat = -ratio E[dg/domega],
    mhat = T^-1 (ratio E[g rho] + Vhat m)

and the weights on samples through their levels l (lam_l, share p_l, teacher t_l)

    gain_l = lam_l / (ridge + Vhat lam_l),   V = sum_l p_l gain_l,
    m = sum_l p_l lam_l gain_l t_l mhat,
    q = sum_l p_l gain_l^2 (qhat + lam_l mhat.t_l mhat)

The term Vhat m in mhat is the reaction of a sample to its own effect on the weights; the
fixed point of these equations is the minimum (Gardner and Derrida 1989; Aubin, Krzakala,
Lu and Zdeborova, NeurIPS 2020; Loureiro et al., NeurIPS 2021).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.optimize import root
from scipy.special import ndtr

from tutelage.equilibrium.averages import (
    Averages,
    MinimumState,
    SampleAverages,
    averages_for,
)
from tutelage.equilibrium.proximal import clipped_line, descents_of
from tutelage.equilibrium.setting import Setting

DAMPED_STEPS = 12  # before Newton's method takes over
CONTINUED_STEPS = 2  # the same from the minimum at a neighboring ratio
MOST_STEPS = 3000
SLOW_STEPS = 300  # damped steps between two attempts of Newton's method
CONVERGED = 1e-10  # largest relative change of an order parameter
ACCEPTED = 1e-7  # the same after all steps
DAMPING = 0.6
SHARP = 0.2  # s in units of the deviation of mu, below which nodes are refined
REFINEMENTS = (4, 16)
LARGEST = 1e12  # order parameters beyond have diverged


@dataclass(frozen=True)
class Conjugates:
    """The effect of the samples on the weights: Vhat, qhat and mhat (F,)."""

    V: float
    q: float
    m: Float[np.ndarray, " F"]


@dataclass(frozen=True)
class MinimumPoint:
    """The minimum at one ratio.

    error, loss: of fresh samples. train_error, train_loss: of the stored ones.
    label_error: the probability of a wrong sign on a fresh label, NaN for real labels.
    conjugates: the point from which a neighboring ratio can start.
    """

    R: Float[np.ndarray, " M"]
    Q: float
    V: float
    error: float
    loss: float
    train_error: float
    train_loss: float
    label_error: float
    conjugates: Conjugates


class StateEvolution:
    """The equations above for one setting; output scale and ridge are in the output.

    scale: the output is scale times the field of the student.
    """

    def __init__(self, setting: Setting, scale: float):
        self.setting = setting
        self.scale = scale
        self._averages: dict[int, Averages] = {}
        self._inverse_T = np.linalg.inv(setting.T)

    def averages(self, refinement: int) -> Averages:
        """Return the averages over nodes of this refinement."""
        if refinement not in self._averages:
            self._averages[refinement] = averages_for(self.setting, refinement)
        return self._averages[refinement]

    @cached_property
    def has_classes(self) -> bool:
        """True if the error is the probability of a wrong sign."""
        return self.setting.problem.labels.metric == "class"

    def overlaps(self, hats: Conjugates, ridge: float) -> MinimumState:
        """Return m, q, V: how the weights follow the samples."""
        setting = self.setting
        gain = setting.lam / (ridge + hats.V * setting.lam)
        pulled = setting.t @ hats.m
        m = (setting.p * setting.lam * gain) @ pulled
        signal = setting.lam * (pulled @ hats.m)
        q = setting.p @ (gain**2 * (hats.q + signal))
        return MinimumState(m=m, q=float(q), V=float(setting.p @ gain))

    def conjugates(
        self, found: SampleAverages, overlaps: MinimumState, ratio: float
    ) -> Conjugates:
        """Return Vhat, qhat, mhat: how the samples act on the weights."""
        V = ratio * found.slope
        return Conjugates(
            V=V,
            q=ratio * found.second,
            m=self._inverse_T @ (ratio * found.with_fields + V * overlaps.m),
        )

    def solve(
        self, ratio: float, ridge: float, start: Conjugates | None
    ) -> MinimumPoint | None:
        """Return the minimum; None if the order parameters diverge.

        ridge: of the weights of the student.
        """
        in_output = ridge / self.scale**2
        hats = start
        if hats is None:
            T = self.setting.T
            usual = MinimumState(m=0.3 * T.sum(axis=1), q=float(T.sum()), V=1.0)
            hats = self.conjugates(self.averages(1).at(usual), usual, ratio)
        damped = DAMPED_STEPS if start is None else CONTINUED_STEPS
        hats = self._fixed_point(hats, ratio, in_output, 1, damped)
        refinement = 1
        for finer in REFINEMENTS:
            if hats is None:
                return None
            overlaps = self.overlaps(hats, in_output)
            sharpness = self.averages(1).sharpness(overlaps)
            if self.setting.fields > 1 or sharpness * refinement > SHARP:
                break
            refinement = finer
            damped = CONTINUED_STEPS
            hats = self._fixed_point(hats, ratio, in_output, refinement, damped)
        if hats is None:
            return None
        return self._point(hats, in_output, refinement)

    def _fixed_point(
        self,
        hats: Conjugates,
        ratio: float,
        ridge: float,
        refinement: int,
        damped: int,
    ) -> Conjugates | None:
        """Return the fixed point from these conjugates; None if it diverges.

        damped: steps before Newton's method.
        """
        averages = self.averages(refinement)

        def update(x: np.ndarray) -> np.ndarray:
            here = _unpacked(x)
            overlaps = self.overlaps(here, ridge)
            found = averages.at(overlaps)
            return _packed(self.conjugates(found, overlaps, ratio))

        x = _packed(hats)
        change = np.inf
        for step in range(MOST_STEPS):
            following = update(x)
            change = np.max(np.abs(following - x) / (1 + np.abs(x)))
            if not np.all(np.isfinite(following)) or np.exp(-x[0]) > LARGEST:
                return None
            if change < CONVERGED:
                return _unpacked(following)
            x = DAMPING * following + (1 - DAMPING) * x
            if step % SLOW_STEPS == damped:
                newton = _newton(update, x)
                if newton is not None:
                    return _unpacked(newton)
        return _unpacked(x) if change < ACCEPTED else None

    def _point(self, hats: Conjugates, ridge: float, refinement: int) -> MinimumPoint:
        averages = self.averages(refinement)
        overlaps = self.overlaps(hats, ridge)
        found = averages.at(overlaps, everything=True)
        error, label_error = self._test_errors(averages, overlaps)
        if self.has_classes:
            train_error = self._wrong_signs(averages, overlaps)
        else:
            train_error = found.residual / 2
        return MinimumPoint(
            R=self._teacher_overlaps(hats, ridge) / self.scale,
            Q=overlaps.q / self.scale**2,
            V=overlaps.V / self.scale**2,
            error=error,
            loss=found.test_loss,
            train_error=train_error,
            train_loss=found.loss,
            label_error=label_error,
            conjugates=hats,
        )

    def _teacher_overlaps(self, hats: Conjugates, ridge: float) -> np.ndarray:
        """Return m with all teacher units, not only with the fields of labels."""
        setting = self.setting
        gain = setting.lam / (ridge + hats.V * setting.lam)
        pulled = setting.teacher @ (setting.combine.T @ hats.m)
        return (setting.p * setting.lam * gain) @ pulled

    def _test_errors(
        self, averages: Averages, overlaps: MinimumState
    ) -> tuple[float, float]:
        """Return the error by noiseless labels, and by labels (NaN for real ones)."""
        nodes = averages.nodes
        weights = nodes.truth_weights
        direction = self._inverse_T @ overlaps.m
        if self.has_classes:
            s = averages.deviation(overlaps)
            mean = nodes.truth_rho @ direction
            error = np.sum(weights * ndtr(-nodes.truth * mean[:, None] / s))
            mean = averages.means(overlaps)[:, None]
            by_label = np.sum(nodes.joint * ndtr(-nodes.labels * mean / s))
            return float(error), float(by_label)
        # E[(y* - omega)^2] / 2
        square = np.sum(weights * nodes.truth**2)
        mean = nodes.truth_rho @ direction
        product = np.sum(weights * nodes.truth * mean[:, None])
        return float(square - 2 * product + overlaps.q) / 2, np.nan

    def _wrong_signs(self, averages: Averages, overlaps: MinimumState) -> float:
        """Return P(y h < 0): h has the sign of omega - V l'(0, y)."""
        nodes = averages.nodes
        descent = _descent_at_zero(self.setting, nodes.labels)
        mean = averages.means(overlaps)[:, None]
        margin = nodes.labels * (mean + overlaps.V * descent)
        wrong = ndtr(-margin / averages.deviation(overlaps))
        return float(np.sum(nodes.joint * wrong))


def _descent_at_zero(setting: Setting, labels: np.ndarray) -> np.ndarray:
    """Return -l'(0, y)."""
    loss = setting.problem.loss
    line = clipped_line(loss)
    if line is not None:
        return line.descent_at_zero(labels)
    return descents_of(loss).descent(np.zeros_like(labels), labels)


def _packed(hats: Conjugates) -> np.ndarray:
    """Return ln Vhat, ln qhat, mhat: both first numbers are positive."""
    logs = np.log(np.maximum([hats.V, hats.q], 1e-300))
    return np.concatenate([logs, hats.m])


def _unpacked(x: np.ndarray) -> Conjugates:
    V, q = np.exp(np.clip(x[:2], -300, 300))
    return Conjugates(V=float(V), q=float(q), m=x[2:])


def _newton(update, x: np.ndarray) -> np.ndarray | None:
    """Return the fixed point near x; None if Newton's method does not reach one."""

    def residual(x: np.ndarray) -> np.ndarray:
        return update(x) - x

    with np.errstate(all="ignore"):
        found = root(residual, x, method="hybr", options={"xtol": 1e-13})
        rest = np.max(np.abs(residual(found.x)) / (1 + np.abs(found.x)))
    if np.all(np.isfinite(found.x)) and rest < CONVERGED:
        return found.x
    return None
