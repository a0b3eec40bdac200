"""The mean-square dynamics of one linear unit, in closed form: any spectrum, any rate, the limit or a finite network.

A student a = v w learns a teacher b = v* w*; E_l is the average of (a - b)^2 over the components of level l. With weight
decay the mean student ends at a_inf = b lam/(lam + k), so we follow the distance D_l from there, which is E_l without decay:

    dD_l/dalpha = -2 h (lam_l + k) D_l + (h^2/B) lam_l (sum_j p_j lam_j E_j + force)        h = lr v^2,  k = weight_decay/v^2
    E_l = D_l - 2 lag_l c_l exp(-h (lam_l + k) alpha) + lag_l^2 <b^2>_l       lag_l = k/(lam_l + k),  c_l = <(a - a_inf) b>_l

(the source's equations 24-45, without its hierarchy of moments). Scaled by sqrt(p_l) this is a diagonal matrix minus a
rank-one one (`rank_one`). A finite network with Gaussian inputs obeys the same equation exactly in the mean, step by step,
with 2 h (lam + k) replaced by 2 h (lam + k) - (h^2/N) ((lam + k)^2 + lam^2/B) and a force (h^2/(N B)) lam^2 (E - D) on each
level: the fourth moments of the inputs, which the limit drops. Label noise and frozen levels are a constant force.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from tutelage.analysis.linear.time_scale import Clock
from tutelage.analysis.linear.rank_one import RankOneShift, rank_one_shift


@dataclass(frozen=True)
class Relaxation:
    """lam, p: the levels that learn. E, ab, bb: averages of (a - b)^2, a b, b^2 over each at time zero.

    rate: h. decay: k. batch: B. force: label noise variance plus what frozen levels add to the squared error. dim: N, None.
    """

    lam: np.ndarray
    p: np.ndarray
    E: np.ndarray
    ab: np.ndarray
    bb: np.ndarray
    rate: float
    decay: float
    batch: int
    force: float
    dim: int | None = None

    @property
    def clock(self) -> Clock:
        """Continuous time, or steps."""
        return Clock(self.dim)

    @property
    def pull(self) -> np.ndarray:
        """h (lam + k): the rate at which the mean student approaches its end."""
        return self.rate * (self.lam + self.decay)

    @property
    def diagonal(self) -> np.ndarray:
        """Rates at which each level would decay alone, without the noise of the others."""
        lost = 0.0 if self.dim is None else (self.pull**2 + (self.rate * self.lam) ** 2 / self.batch) / self.dim
        return 2 * self.pull - lost

    @property
    def kick(self) -> np.ndarray:
        """a of `rank_one`: a a^T couples the levels through the noise of the gradient."""
        return self._scale * np.sqrt(self.p) * self.lam

    @property
    def load(self) -> float:
        """The share of the noise that the network makes itself; below one it is stable, provided `diagonal` is positive."""
        return float(np.sum(self.kick**2 / self.diagonal))

    @property
    def stable(self) -> bool:
        """Does the mean error stay bounded?"""
        return bool(np.all(self.diagonal > 0)) and self.load < 1

    @property
    def critical_rate(self) -> float:
        """The h at which `load` reaches one. Limit: 2 B / sum p lam^2/(lam + k); at finite N it is lower."""
        pull = self.lam + self.decay
        limit = 2 * self.batch / float(np.sum(self.p * self.lam**2 / pull))
        if self.dim is None:
            return limit
        alone = self.dim * float(np.min(2 * pull / (pull**2 + self.lam**2 / self.batch)))  # here one level alone diverges
        top = min(limit, alone * (1 - 1e-12))
        spare = lambda h: 1 / replace(self, rate=h).load - 1  # noqa: E731
        return brentq(spare, 1e-9 * top, top, xtol=1e-14 * top) if spare(top) < 0 else top  # pyright: ignore[reportReturnType]

    @cached_property
    def modes(self) -> RankOneShift:
        """The eigensystem of the relaxation; its values are the decay rates of the squared error."""
        return rank_one_shift(self.diagonal, self.kick)

    def total(self, times: np.ndarray) -> np.ndarray:
        """sum_l p_l lam_l E_l over the levels that learn, at each time (T,)."""
        followed = self._amplitudes(times) @ self.modes.along / self._scale
        return followed + self._passed(times)[0] @ (self.p * self.lam)

    def total_rate(self, times: np.ndarray) -> np.ndarray:
        """The time derivative of `total` (at finite N: the change in one step, times N)."""
        modes, (passed, passed_rate) = self.modes, self._passed(times)
        forces = self._scale * self.kick * (self.force + passed @ (self.p * self.lam))[:, None] + passed * self._own
        change = forces @ modes.vectors.T - self._amplitudes(times) * modes.values
        return change @ modes.along / self._scale + passed_rate @ (self.p * self.lam)

    def squares(self, times: np.ndarray) -> np.ndarray:
        """E_l at each time, (T, levels)."""
        return self._amplitudes(times) @ self.modes.vectors / np.sqrt(self.p) + self._passed(times)[0]

    def small_rate(self, times: np.ndarray) -> np.ndarray:
        """`total` without the noise of the gradient (terms of order lr only, N infinite)."""
        left = np.exp(-self.pull * times[:, None])
        return (self._distance * left**2 + self._fading * left + self._constant) @ (self.p * self.lam)

    def cross(self, times: np.ndarray) -> np.ndarray:
        """The average of a b over each level, (T, levels)."""
        return (1 - self._lag) * self.bb + self._correlation * self.clock.decay(self.pull, times[:, None])

    @property
    def steady_total(self) -> float:
        """`total` at infinite time; only where `stable`."""
        outside = float(self._constant @ (self.p * self.lam))
        own = float(self.kick @ (self._own * self._constant / self.diagonal)) / self._scale
        return (self.load * (self.force + outside) + own) / (1 - self.load) + outside

    @property
    def _scale(self) -> float:
        return self.rate / np.sqrt(self.batch)

    @property
    def _lag(self) -> np.ndarray:
        return self.decay / (self.lam + self.decay)

    @property
    def _correlation(self) -> np.ndarray:
        """c at time zero: how far the mean student is from its end, along the teacher."""
        return self.ab - (1 - self._lag) * self.bb

    @property
    def _distance(self) -> np.ndarray:
        """D at time zero."""
        return self.E + 2 * self._lag * (self.ab - self.bb) + self._lag**2 * self.bb

    @property
    def _constant(self) -> np.ndarray:
        """What decay leaves of E - D for ever."""
        return self._lag**2 * self.bb

    @property
    def _fading(self) -> np.ndarray:
        """The rest of E - D at time zero; it falls at the rate `pull`."""
        return -2 * self._lag * self._correlation

    @property
    def _own(self) -> np.ndarray:
        """How strongly E - D of a level pushes that level itself: only at finite N."""
        return 0 * self.lam if self.dim is None else np.sqrt(self.p) * (self.rate * self.lam) ** 2 / (self.dim * self.batch)

    def _passed(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E - D at each time, (T, levels), and its rate of change: what the mean student's end, and the way to it, add."""
        fading = self._fading * self.clock.decay(self.pull, times[:, None])
        return self._constant + fading, -self.pull * fading

    def _amplitudes(self, times: np.ndarray) -> np.ndarray:
        """sqrt(p) D in the eigenvectors, (T, modes): what is left of the start, and of constant and fading forces."""
        modes, clock, t = self.modes, self.clock, times[:, None]
        out = (modes.vectors @ (np.sqrt(self.p) * self._distance)) * clock.decay(modes.values, t)
        constant = self._scale * modes.along * (self.force + self._constant @ (self.p * self.lam))
        constant = constant + modes.vectors @ (self._own * self._constant)
        if np.any(constant):
            out = out + constant * clock.filled(modes.values, t)
        if np.any(self._fading):
            force = (self._scale * modes.along[:, None] * self.p * self.lam + modes.vectors * self._own) * self._fading
            beats = [np.sum(force * clock.beat(modes.values[:, None], self.pull, time), axis=1) for time in times]
            out = out + np.array(beats).reshape(out.shape)
        return out
