"""The exactly solvable case: one linear unit learns from one, on any spectrum, at any rate.

`linear_network` gives the whole learning curve in closed form: in the limit of large N and,
with the same formulas step by step (`finite`), as the exact mean of a finite network. The
derivation is in relaxation.py. Source: Worschech and Rosenow, arXiv 2410.09005, equations
5-11, 24-57 and 61-79, corrected (docs/how-to/linear-network.md says where).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tutelage import (
    InputError,
    Network,
    Problem,
    Start,
    Trajectory,
    checks,
    random_start,
)
from tutelage_papers.assumptions import VISIBLE, require_start, with_constant_rates
from tutelage_papers.power_law.conventions import as_trajectory
from tutelage_papers.power_law.linear.relaxation import Relaxation, at_times, log_slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Overlaps per level are stored up to this many levels, as by `solve`.
STORED_LEVELS = 16


@dataclass(frozen=True)
class LinearModes:
    """The exponentials of which the error of a linear network is the sum.

    rates: decay rates of the squared error in alpha, fastest first (a negative one grows).
    weights: their shares. eigenvalues: rates / (lr v^2), which is |lambda_B,k| of the source
    (a = 2, epsilon = lr): 2 lam_k at a small rate. coefficients: b_k |lambda_B,k| of its
    equations 56 and 57 (times L, its figures 10 and 11): (2 - lr) weights. levels: lam of
    the levels that learn, largest first, for comparison.
    """

    rates: np.ndarray
    weights: np.ndarray
    eigenvalues: np.ndarray
    coefficients: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(cls, relaxation: Relaxation) -> "LinearModes":
        """Return the modes of a relaxation."""
        lam = relaxation.lam
        p = relaxation.p
        total = float(np.sum(p * lam))
        modes = relaxation.modes
        scale = relaxation.rate / np.sqrt(relaxation.batch)
        shares = modes.along * (modes.vectors @ np.sqrt(p)) / scale / total
        # The fastest first.
        weights = shares[::-1]
        rates = modes.values[::-1]
        factor = 2 - relaxation.rate * total / relaxation.batch
        return cls(
            rates=rates,
            weights=weights,
            eigenvalues=rates / relaxation.rate,
            coefficients=factor * weights,
            levels=np.sort(lam)[::-1],
        )

    def __str__(self) -> str:
        count = self.rates.size
        lines = [
            f"{count} modes; for equal initial overlaps on all levels they share the error"
        ]
        for k in range(min(5, count)):
            rate = self.rates[k]
            share = self.weights[k]
            lines.append(f"  mode {k + 1}: rate {rate:.6g}, share {share:.4g}")
        if count > 5:
            lines.append("  ...")
        return "\n".join(lines)


def linear_network(problem: Problem, start: Start | None = None) -> "LinearNetwork":
    """Return the closed solution of one linear student unit and one linear teacher unit.

    start: default `random_start(problem)`, the typical start (R = 0, Q = 0.01). The
    equations are linear, so the error from the mean overlaps of many starts is their mean
    error. Noise, batches, weight decay and frozen levels (`trainable`) are included. Not
    supported: more units, other activations, biases, trained readouts, momentum, schedules.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> linear = tu.Network(1, "linear")
    >>> problem = tu.Problem(linear, linear, optimizer=tu.SGD(lr=0.5), noise=0.1)
    >>> start = tu.Start([[0.0]], [[0.0]])
    >>> network = tutelage_papers.power_law.linear_network(problem, start)
    >>> network.critical_rate, network.error([0.0, 10.0]).round(6)
    (2.0, array([0.5     , 0.001942]))
    """
    readout = None
    if start is not None:
        readout = require_start(start).readout
    problem = require_linear(problem, "linear_network", readout)
    if start is None:
        start = random_start(problem)
    start.blocks(problem)
    return LinearNetwork(problem, start)


@dataclass(frozen=True)
class LinearNetwork:
    """The closed solution: functions of time alpha, a number or an array of times >= 0.

    dim: None for the limit of large N; N for the exact mean over runs of a network of that
    size (`finite`).
    """

    problem: Problem
    start: Start
    dim: int | None = None

    def finite(self, dim: int) -> "LinearNetwork":
        """Return this network at finite N.

        Every method then gives the exact mean over runs after ceil(alpha N) steps.
        """
        self.problem.inputs.level_dims(dim)
        return LinearNetwork(self.problem, self.start, int(dim))

    def exact_mean(self, times: ArrayLike, dim: int) -> np.ndarray:
        """Return the mean error of networks with `dim` inputs.

        The same as `finite(dim).error(times)`.
        """
        return self.finite(dim).error(times)

    def error(self, times: ArrayLike) -> np.ndarray:
        """Return e_g = (1/2) sum_l p_l lam_l E_l."""
        return at_times(times, lambda t: (self._relaxation.total(t) + self._frozen) / 2)

    def small_rate(self, times: ArrayLike) -> np.ndarray:
        """Return e_g with terms of order lr only: gradient flow, N infinite.

        (1/2) sum_l p_l lam_l E_l(0) exp(-2 lr lam_l alpha). For teacher weights N(0, 1) and
        student weights N(0, s^2), E_l(0) is 1 + s^2 on average (equation 8).
        """
        limit = LinearNetwork(self.problem, self.start)

        def error(t: np.ndarray) -> np.ndarray:
            return (limit._relaxation.small_rate(t) + limit._frozen) / 2

        return at_times(times, error)

    def R(self, times: ArrayLike) -> np.ndarray:
        """Return the student-teacher field covariance (eq. 38 for a typical start)."""
        return at_times(times, lambda t: self._r(t) @ self._weights)

    def Q(self, times: ArrayLike) -> np.ndarray:
        """Return the student-student field covariance."""
        return at_times(times, lambda t: self._q(t) @ self._weights)

    def levels(self, times: ArrayLike) -> np.ndarray:
        """Return E_l, (..., levels).

        The average of (v w - v* w*)^2 over the components of each level.
        """
        return at_times(times, self._squares)

    def local_slope(self, times: ArrayLike) -> np.ndarray:
        """Return d ln e_g / d ln alpha.

        The exponent that a straight line in a log-log plot would show there.
        """
        relaxation = self._relaxation

        def slope(t: np.ndarray) -> np.ndarray:
            total = relaxation.total(t) + self._frozen
            return log_slope(t, total, relaxation.total_rate(t))

        return at_times(times, slope)

    @cached_property
    def modes(self) -> LinearModes:
        """The decay rates of the error and the share of each (equations 56, 57)."""
        return LinearModes.of(self._relaxation)

    @property
    def critical_rate(self) -> float:
        """The learning rate above which the mean error grows for ever.

        Limit: 2 B / (v^2 sum p lam^2/(lam + k)), over the levels that learn;
        k = weight_decay / v^2. At finite N it is lower, the rate at which
        (h/B) sum p lam^2 / (2 (lam + k) - (h/N) ((lam + k)^2 + lam^2/B)) reaches one,
        h = lr v^2.
        """
        return self._relaxation.critical_rate / self._readouts[0] ** 2

    @property
    def stable(self) -> bool:
        """True if the learning rate is below the critical one."""
        return self._relaxation.stable

    @property
    def steady_state(self) -> float:
        """The error after infinite time.

        InputError where there is none because the learning rate is above the critical one.
        """
        if not self.stable:
            raise no_steady_state(self.problem, self.critical_rate)
        return (self._relaxation.steady_total + self._frozen) / 2

    def trajectory(self, times: ArrayLike = 100.0) -> Trajectory:
        """Return the closed solution as `solve` would, to plot, compare and store.

        times: as for `solve`. Only in the limit.
        """
        if self.dim is not None:
            raise InputError(
                f"this network has N = {self.dim}; a trajectory holds the limit. Use "
                ".error, .R and .Q."
            )
        times = checks.as_times(times)
        _, _, t = self._blocks
        r = self._r(times)[..., None, None]
        q = self._q(times)[..., None, None]
        variables = {"R": self._over_levels(r), "Q": self._over_levels(q)}
        if self.problem.inputs.levels <= STORED_LEVELS:
            variables |= {"r": r, "q": q}
        return as_trajectory(
            self.problem,
            self.start,
            times,
            variables,
            self.error(times),
            self._over_levels(t),
            solver="closed form",
        )

    def _over_levels(self, blocks: np.ndarray) -> np.ndarray:
        """Overlaps of the fields from overlaps per level."""
        return np.einsum("l,...lab->...ab", self._weights, blocks)

    def plot(
        self, times: ArrayLike | None = None, *, title: str | None = None
    ) -> "Figure":
        """Draw the learning curve with its small-rate limit, and the modes."""
        from tutelage_papers.power_law.plots import plot_linear_network

        return plot_linear_network(self, times, title=title)

    def __str__(self) -> str:
        lr = float(self.problem.optimizer.lr)
        size = "N infinite"
        if self.dim is not None:
            size = f"N = {self.dim}"
        share = lr / self.critical_rate
        error = f"error: {float(self.error(0.0)):.6g} initially"
        slowest = self.modes.rates[-1]
        if self.stable:
            error += f", {self.steady_state:.6g} finally"
            end = f"slowest mode: falls by e every {1 / slowest:.4g} in alpha"
        else:
            end = (
                f"the mean error grows for ever, by e every {-1 / slowest:.4g} in alpha"
            )
        lines = [
            f"one linear unit on {self.problem.inputs.levels} levels, "
            f"learning rate {lr:g}, {size}",
            f"critical rate: {self.critical_rate:.6g}; this rate is {share:.3g} of it",
            error,
            end,
        ]
        if self.dim is None and self.start.dim is not None:
            exact = self.finite(self.start.dim)
            lines.append(
                f"at N = {exact.dim}, the N of this initial condition, the exact "
                f"critical rate is {exact.critical_rate:.6g}"
            )
        return "\n".join(lines)

    # The problem as arrays.

    @cached_property
    def _fractions(self) -> np.ndarray:
        """The share of the components that each level has."""
        inputs = self.problem.inputs
        if self.dim is None:
            return np.asarray(inputs.fractions)
        return inputs.level_dims(self.dim) / self.dim

    @cached_property
    def _weights(self) -> np.ndarray:
        """p_l lam_l."""
        eigenvalues = np.asarray(self.problem.inputs.eigenvalues, dtype=float)
        return self._fractions * eigenvalues

    @cached_property
    def _learning(self) -> np.ndarray:
        """True for levels that learn."""
        mask = self.problem.trainable_mask()
        if mask is None:
            return np.ones(self.problem.inputs.levels, bool)
        return mask[:, 0] > 0

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r, q, t = (np.asarray(x, dtype=float) for x in self.start.blocks(self.problem))
        return r, q, t

    @property
    def _readouts(self) -> tuple[float, float]:
        """v and v*."""
        own = self.problem.student.readout
        if self.start.readout is not None:
            own = self.start.readout
        teacher = self.problem.labeler.readout
        return float(np.asarray(own)[0]), float(np.asarray(teacher)[0])

    @cached_property
    def _start_squares(self) -> np.ndarray:
        """E_l at time zero; never below zero, whatever rounding says."""
        r, q, t = (x[:, 0, 0] for x in self._blocks)
        v, v_teacher = self._readouts
        return np.maximum(v**2 * q - 2 * v * v_teacher * r + v_teacher**2 * t, 0.0)

    @cached_property
    def _frozen(self) -> float:
        """The squared error of the levels that do not learn, which stays."""
        return float(np.sum((self._weights * self._start_squares)[~self._learning]))

    @cached_property
    def _relaxation(self) -> Relaxation:
        v, v_teacher = self._readouts
        on = self._learning
        r, _, t = (blocks[on, 0, 0] for blocks in self._blocks)
        return Relaxation(
            lam=np.asarray(self.problem.inputs.eigenvalues, dtype=float)[on],
            p=self._fractions[on],
            E=self._start_squares[on],
            ab=v * v_teacher * r,
            bb=v_teacher**2 * t,
            rate=float(self.problem.optimizer.lr) * v**2,
            decay=float(self.problem.optimizer.weight_decay) / v**2,
            batch=self.problem.optimizer.batch,
            force=float(self.problem.noise_deviation) ** 2 + self._frozen,
            dim=self.dim,
        )

    def _squares(self, times: np.ndarray) -> np.ndarray:
        shape = (times.size, self._learning.size)
        squares = np.broadcast_to(self._start_squares, shape).copy()
        squares[:, self._learning] = self._relaxation.squares(times)
        return squares

    def _r(self, times: np.ndarray) -> np.ndarray:
        """Student-teacher overlaps per level.

        r - r_inf decays, r_inf = (v*/v) t lam/(lam + k).
        """
        v, v_teacher = self._readouts
        on = self._learning
        relaxation = self._relaxation
        r, _, t = (blocks[:, 0, 0] for blocks in self._blocks)
        overlaps = np.broadcast_to(r, (times.size, r.size)).copy()
        lam = relaxation.lam
        end = (v_teacher / v) * t[on] * lam / (lam + relaxation.decay)
        left = relaxation.propagator.decay(relaxation.mean_rates, times[:, None])
        overlaps[:, on] = end + (r[on] - end) * left
        return overlaps

    def _q(self, times: np.ndarray) -> np.ndarray:
        """Student-student overlaps per level, from E_l and r."""
        v, v_teacher = self._readouts
        _, _, blocks = self._blocks
        t = blocks[:, 0, 0]
        cross = 2 * v * v_teacher * self._r(times)
        return (self._squares(times) + cross - v_teacher**2 * t) / v**2


def no_steady_state(problem: Problem, critical_rate: float) -> InputError:
    """Return the refusal of the end of a curve that grows for ever."""
    lr = float(problem.optimizer.lr)
    return InputError(
        f"lr is {lr:g}; there is a steady state only below the critical rate "
        f"{critical_rate:.6g}. Lower lr."
    )


def require_linear(
    problem: Any, function: str, readout: ArrayLike | None = None
) -> Problem:
    """Return the problem if it has one linear unit on each side and plain SGD.

    readout: of a start, which replaces the student's.
    """
    traits = (*VISIBLE, "no momentum", "no biases", "fixed readout")
    problem = with_constant_rates(problem, function, traits)
    student = problem.student
    teacher = problem.labeler
    if (student.hidden, teacher.hidden) != (1, 1):
        raise InputError(
            f"the student has {student.hidden} and the teacher {teacher.hidden} hidden "
            "units; the closed solution takes one of each. Use solve."
        )
    linear = Network(1, "linear").activation.polynomial
    for who, network in (("student", student), ("teacher", teacher)):
        if network.activation.polynomial != linear:
            raise InputError(
                f"the {who}'s activation is {network.activation.name!r}; the closed "
                "solution takes 'linear'. Use solve."
            )
    if readout is None:
        readout = student.readout
    if np.any(np.asarray(readout) == 0):
        raise InputError(
            "the student's readout is 0, so nothing is learned; give it a readout other "
            "than 0."
        )
    mask = problem.trainable_mask()
    if mask is not None and not mask.any():
        raise InputError(
            "no level learns; trainable must leave at least one. Use trainable=None."
        )
    return problem
