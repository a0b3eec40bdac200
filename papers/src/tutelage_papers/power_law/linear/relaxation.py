"""The mean-square dynamics of one linear unit, in closed form.

Any spectrum, any rate, the limit or a finite network. A student a = v w learns a teacher
b = v* w*; E_l is the average of (a - b)^2 over the components of level l. With weight decay
the mean student ends at a_inf = b lam/(lam + k), so we follow the distance D_l from there,
which is E_l without decay. With h = lr v^2 and k = weight_decay/v^2,

    dD_l/dalpha = -2 h (lam_l + k) D_l + (h^2/B) lam_l (sum_j p_j lam_j E_j + force)
    E_l = D_l - 2 lag_l c_l exp(-h (lam_l + k) alpha) + lag_l^2 <b^2>_l
    lag_l = k/(lam_l + k),   c_l = <(a - a_inf) b>_l

(the source's equations 24-45, without its hierarchy of moments). Scaled by sqrt(p_l) this
is a diagonal matrix minus a rank-one one (`rank_one`). A finite network with Gaussian
inputs obeys the same equation exactly in the mean, step by step, with 2 h (lam + k)
replaced by 2 h (lam + k) - (h^2/N) ((lam + k)^2 + lam^2/B) and a force
(h^2/(N B)) lam^2 (E - D) on each level: the fourth moments of the inputs, which the limit
drops. Label noise and frozen levels are a constant force.

A mode decays as exp(-s alpha) in the limit, as (1 - s/N)^n after n = ceil(alpha N) steps of
a finite network; nothing else differs (`Propagator`). Every formula keeps its digits for
rates near zero, for equal rates, and for tens of millions of steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from tutelage import InputError, checks
from tutelage_papers.power_law.linear.rank_one import RankOneShift, rank_one_shift

SMALLEST_GAP = 1e-300
EXACT = 1e-9  # alpha N this close (relatively) to a whole number is that number


def steps_at(times: np.ndarray, dim: int) -> np.ndarray:
    """Return ceil(alpha N), the steps after which `tu.simulate` records each time."""
    exact = np.asarray(times, dtype=float) * dim
    nearest = np.rint(exact)
    whole = np.abs(exact - nearest) <= EXACT * np.maximum(1.0, exact)
    return np.where(whole, nearest, np.ceil(exact)).astype(np.int64)


@dataclass(frozen=True)
class Propagator:
    """Decay of a mode, and its responses to forces.

    dim: N, or None for the limit. Rates s and times alpha are arrays that broadcast.
    """

    dim: int | None = None

    def decay(self, rate: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the part of a mode that is left.

        The solution of x' = -rate x, or of x += -(rate/N) x, from one.
        """
        left = np.exp(self._exponent(rate, times))
        if self.dim is None or not np.any(rate > self.dim):
            return left
        # Beyond N each step overshoots: the sign alternates.
        overshooting = np.power(1 - rate / self.dim, steps_at(times, self.dim))
        return np.where(rate > self.dim, overshooting, left)

    def constant_response(self, rate: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the response to a unit force, (1 - decay) / rate.

        The time itself where the rate is zero. Needs rate <= N.
        """
        rate = np.where(rate == 0, SMALLEST_GAP, rate)
        return -np.expm1(self._exponent(rate, times)) / rate

    def decaying_response(
        self, rate: np.ndarray, force: np.ndarray, times: np.ndarray
    ) -> np.ndarray:
        """Return the response to a force that decays itself.

        (decay(force) - decay(rate)) / (rate - force). Needs rate <= N.
        """
        gap = np.where(rate == force, SMALLEST_GAP, rate - force)
        if self.dim is None:
            fall = -gap * times
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                per_step = np.log1p(-gap / (self.dim - force))
                fall = steps_at(times, self.dim) * np.maximum(
                    per_step, -1 / SMALLEST_GAP
                )
        slower = np.maximum(self._exponent(rate, times), self._exponent(force, times))
        smooth = -np.exp(slower) * np.expm1(-np.abs(fall)) / np.abs(gap)
        if self.dim is None or not np.any(force > self.dim):
            return smooth
        overshooting = (self.decay(force, times) - self.decay(rate, times)) / gap
        return np.where(force > self.dim, overshooting, smooth)

    def _exponent(self, rate: np.ndarray, times: np.ndarray) -> np.ndarray:
        """ln decay, for rates up to N.

        It is not used beyond, where a step overshoots and changes the sign.
        """
        if self.dim is None:
            return -rate * times
        with np.errstate(divide="ignore", invalid="ignore"):
            per_step = np.where(rate <= self.dim, np.log1p(-rate / self.dim), 0.0)
        return steps_at(times, self.dim) * np.maximum(per_step, -1 / SMALLEST_GAP)


def log_slope(times: np.ndarray, value: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return d ln value / d ln time = time * rate / value.

    InputError where the value is zero.
    """
    if np.any(value <= 0):
        raise InputError(
            f"by alpha = {times[value <= 0].min():g} the error is zero, or too small for a "
            "number; it has no slope there. Ask for earlier times."
        )
    return times * rate / value


def at_times(
    times: ArrayLike, function: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return a function of a row of times, (T,) -> (T, ...), at times of any shape.

    InputError where it diverges.
    """
    checks.require_untraced("the list of times", "the closed solution", times)
    alpha = checks.as_array("times", times)
    checks.require_nonnegative("times", alpha)
    with np.errstate(over="ignore", invalid="ignore"):
        values = function(np.ravel(alpha))
    beyond = ~np.isfinite(values.reshape(alpha.size, -1)).all(axis=1)
    if beyond.any():
        first = np.ravel(alpha)[beyond].min()
        raise InputError(
            f"by alpha = {first:g} the mean error has grown beyond every bound; ask for "
            "earlier times, or lower lr below the critical rate."
        )
    return values.reshape((*alpha.shape, *values.shape[1:]))


@dataclass(frozen=True)
class Relaxation:
    """The equations of the module's docstring for one problem and start.

    lam, p: the levels that learn. E, ab, bb: averages of (a - b)^2, a b, b^2 over each at
    time zero. rate: h. decay: k. batch: B. force: label noise variance plus the squared
    error of frozen levels. dim: N, or None for the limit.
    """

    lam: Float[np.ndarray, " L"]
    p: Float[np.ndarray, " L"]
    E: Float[np.ndarray, " L"]
    ab: Float[np.ndarray, " L"]
    bb: Float[np.ndarray, " L"]
    rate: float
    decay: float
    batch: int
    force: float
    dim: int | None = None

    @property
    def propagator(self) -> Propagator:
        """Continuous time, or steps."""
        return Propagator(self.dim)

    @property
    def mean_rates(self) -> np.ndarray:
        """h (lam + k): the rate at which the mean student approaches its end."""
        return self.rate * (self.lam + self.decay)

    @property
    def diagonal(self) -> np.ndarray:
        """Rates at which each level would decay alone, without the noise of the others."""
        rates = 2 * self.mean_rates
        if self.dim is None:
            return rates
        fourth_moments = self.mean_rates**2 + (self.rate * self.lam) ** 2 / self.batch
        return rates - fourth_moments / self.dim

    @property
    def coupling(self) -> np.ndarray:
        """a of `rank_one`: a a^T couples levels through the noise of the gradient."""
        return self._scale * np.sqrt(self.p) * self.lam

    @property
    def noise_gain(self) -> float:
        """The share of the noise that the network makes itself.

        Below one it is stable, provided `diagonal` is positive.
        """
        return float(np.sum(self.coupling**2 / self.diagonal))

    @property
    def stable(self) -> bool:
        """True if the mean error stays bounded."""
        return bool(np.all(self.diagonal > 0)) and self.noise_gain < 1

    @property
    def critical_rate(self) -> float:
        """The h at which `noise_gain` reaches one.

        Limit: 2 B / sum p lam^2/(lam + k); at finite N it is lower.
        """
        rates = self.lam + self.decay
        limit = 2 * self.batch / float(np.sum(self.p * self.lam**2 / rates))
        if self.dim is None:
            return limit
        # At this rate one level alone diverges.
        fourth_moments = rates**2 + self.lam**2 / self.batch
        alone = self.dim * float(np.min(2 * rates / fourth_moments))
        top = min(limit, alone * (1 - 1e-12))

        def spare(h: float) -> float:
            return 1 / replace(self, rate=h).noise_gain - 1

        if spare(top) >= 0:
            return top
        root: Any = brentq(spare, 1e-9 * top, top, xtol=1e-14 * top)
        return root

    @cached_property
    def modes(self) -> RankOneShift:
        """The eigensystem of the relaxation.

        Its values are the decay rates of the squared error.
        """
        return rank_one_shift(self.diagonal, self.coupling)

    def total(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        """Return sum_l p_l lam_l E_l over the levels that learn, at each time (T,)."""
        followed = self._amplitudes(times) @ self.modes.along / self._scale
        passed, _ = self._lag_terms(times)
        return followed + passed @ (self.p * self.lam)

    def total_rate(self, times: np.ndarray) -> np.ndarray:
        """Return the time derivative of `total`.

        At finite N the change in one step, times N.
        """
        modes = self.modes
        weights = self.p * self.lam
        passed, passed_rate = self._lag_terms(times)
        force = (self.force + passed @ weights)[:, None]
        forces = self._scale * self.coupling * force + passed * self._level_feedback
        change = forces @ modes.vectors.T - self._amplitudes(times) * modes.values
        return change @ modes.along / self._scale + passed_rate @ weights

    def squares(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T L"]:
        """Return E_l at each time, (T, levels)."""
        distances = self._amplitudes(times) @ self.modes.vectors / np.sqrt(self.p)
        passed, _ = self._lag_terms(times)
        return distances + passed

    def small_rate(self, times: np.ndarray) -> np.ndarray:
        """Return `total` without the noise of the gradient.

        Terms of order lr only, N infinite.
        """
        left = np.exp(-self.mean_rates * times[:, None])
        distance, constant, fading = self._decay_terms
        squares = distance * left**2 + fading * left + constant
        return squares @ (self.p * self.lam)

    @property
    def steady_total(self) -> float:
        """`total` at infinite time; only where `stable`."""
        _, constant, _ = self._decay_terms
        outside = float(constant @ (self.p * self.lam))
        feedback = self.coupling @ (self._level_feedback * constant / self.diagonal)
        own = float(feedback) / self._scale
        forced = self.noise_gain * (self.force + outside) + own
        return forced / (1 - self.noise_gain) + outside

    @property
    def _scale(self) -> float:
        return self.rate / np.sqrt(self.batch)

    @cached_property
    def _decay_terms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """D at time zero, and the constant and the fading part of E - D.

        The first is left by weight decay for ever, the second falls at `mean_rates`.
        """
        lag = self.decay / (self.lam + self.decay)
        # The distance of the mean student from its end, along the teacher.
        correlation = self.ab - (1 - lag) * self.bb
        distance = self.E + 2 * lag * (self.ab - self.bb) + lag**2 * self.bb
        return distance, lag**2 * self.bb, -2 * lag * correlation

    @property
    def _level_feedback(self) -> np.ndarray:
        """The force of E - D of a level on that level itself: only at finite N."""
        if self.dim is None:
            return 0 * self.lam
        squares = (self.rate * self.lam) ** 2
        return np.sqrt(self.p) * squares / (self.dim * self.batch)

    def _lag_terms(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E - D at each time, (T, levels), and its rate of change.

        The contribution of the mean student's end, and of the way to it.
        """
        _, constant, fading = self._decay_terms
        fading = fading * self.propagator.decay(self.mean_rates, times[:, None])
        return constant + fading, -self.mean_rates * fading

    def _amplitudes(self, times: np.ndarray) -> np.ndarray:
        """sqrt(p) D in the eigenvectors, (T, modes).

        The part of the start that is left, and responses to constant and fading forces.
        """
        modes = self.modes
        propagator = self.propagator
        distance, constant, fading = self._decay_terms
        column = times[:, None]
        first = modes.vectors @ (np.sqrt(self.p) * distance)
        amplitudes = first * propagator.decay(modes.values, column)
        noise = self.force + constant @ (self.p * self.lam)
        force = self._scale * modes.along * noise
        force = force + modes.vectors @ (self._level_feedback * constant)
        if np.any(force):
            response = propagator.constant_response(modes.values, column)
            amplitudes = amplitudes + force * response
        if np.any(fading):
            through_noise = self._scale * modes.along[:, None] * self.p * self.lam
            coupled = through_noise + modes.vectors * self._level_feedback
            forces = coupled * fading
            responses = [self._fading_response(forces, time) for time in times]
            amplitudes = amplitudes + np.array(responses).reshape(amplitudes.shape)
        return amplitudes

    def _fading_response(self, forces: np.ndarray, time: float) -> np.ndarray:
        """The response of each mode to forces that fall at `mean_rates`, (modes,).

        forces: (modes, levels).
        """
        response = self.propagator.decaying_response(
            self.modes.values[:, None], self.mean_rates, np.asarray(time)
        )
        return np.sum(forces * response, axis=1)
