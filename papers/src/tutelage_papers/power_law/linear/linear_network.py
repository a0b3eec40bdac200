"""The exactly solvable case: one linear unit learns from one linear unit, on any spectrum, at any rate.

`linear_network` gives the whole learning curve in closed form: in the limit of large N and, with the same formulas step by
step (`finite`), as the exact mean of a finite network. The derivation is in relaxation.py. Source: Worschech and Rosenow,
arXiv 2410.09005, equations 5-11, 24-57 and 61-79, corrected (docs/how-to/linear-network.md says where).
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

STORED_LEVELS = (
    16  # overlaps per level are stored up to this many levels, as by `solve`
)


@dataclass(frozen=True)
class LinearModes:
    """The exponentials of which the error of a linear network is the sum.

    rates: decay rates of the squared error in alpha, fastest first (a negative one grows). weights: their shares.
    eigenvalues: rates / (lr v^2), which is |lambda_B,k| of the source (a = 2, epsilon = lr): 2 lam_k at a small rate.
    coefficients: b_k |lambda_B,k| of its equations 56 and 57 (times L, its figures 10 and 11): (2 - lr) weights.
    levels: lam of the levels that learn, largest first, for comparison.
    """

    rates: np.ndarray
    weights: np.ndarray
    eigenvalues: np.ndarray
    coefficients: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(cls, at: Relaxation) -> "LinearModes":
        """The modes of a relaxation."""
        total = float(np.sum(at.p * at.lam))
        modes = at.modes
        weights = (
            modes.along
            * (modes.vectors @ np.sqrt(at.p))
            / (at.rate / np.sqrt(at.batch))
            / total
        )[::-1]
        rates = modes.values[::-1]
        factor = 2 - at.rate * total / at.batch
        return cls(
            rates, weights, rates / at.rate, factor * weights, np.sort(at.lam)[::-1]
        )

    def __str__(self) -> str:
        head = f"{self.rates.size} modes; for equal initial overlaps on all levels they share the error"
        rows = [
            (k, self.rates[k], self.weights[k]) for k in range(min(5, self.rates.size))
        ]
        lines = [
            f"  mode {k + 1}: rate {rate:.6g}, share {weight:.4g}"
            for k, rate, weight in rows
        ]
        return "\n".join([head, *lines, *(["  ..."] if self.rates.size > 5 else [])])


def linear_network(problem: Problem, start: Start | None = None) -> "LinearNetwork":
    """The closed solution of a problem with one linear student unit and one linear teacher unit.

    start: default `random_start(problem)`, the typical start (R = 0, Q = 0.01). The equations are linear, so the error from
    the mean overlaps of many starts is their mean error. Noise, batches, weight decay and frozen levels (`trainable`) are
    included. Not supported: more units, other activations, biases, trained readouts, momentum, schedules.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), optimizer=tu.SGD(lr=0.5), noise=0.1)
    >>> network = tutelage_papers.power_law.linear_network(problem, tu.Start([[0.0]], [[0.0]]))
    >>> network.critical_rate, network.error([0.0, 10.0]).round(6)
    (2.0, array([0.5     , 0.001942]))
    """
    problem = require_linear(
        problem,
        "linear_network",
        None if start is None else require_start(start).readout,
    )
    start = random_start(problem) if start is None else start
    start.blocks(problem)
    return LinearNetwork(problem, start)


@dataclass(frozen=True)
class LinearNetwork:
    """What `linear_network` returns: functions of time alpha (a number or an array of times >= 0), and what sets them.

    dim: None for the limit of large N; N for the exact mean over runs of a network of that size (`finite`).
    """

    problem: Problem
    start: Start
    dim: int | None = None

    def finite(self, dim: int) -> "LinearNetwork":
        """The same network at finite N: every method gives the exact mean over runs after ceil(alpha N) steps."""
        self.problem.inputs.level_dims(dim)
        return LinearNetwork(self.problem, self.start, int(dim))

    def exact_mean(self, times: ArrayLike, dim: int) -> np.ndarray:
        """The mean generalization error of networks with `dim` inputs: `finite(dim).error(times)`."""
        return self.finite(dim).error(times)

    def error(self, times: ArrayLike) -> np.ndarray:
        """e_g = (1/2) sum_l p_l lam_l E_l."""
        return at_times(times, lambda t: (self._relaxation.total(t) + self._frozen) / 2)

    def small_rate(self, times: ArrayLike) -> np.ndarray:
        """e_g with terms of order lr only, (1/2) sum_l p_l lam_l E_l(0) exp(-2 lr lam_l alpha): gradient flow, N infinite.

        For teacher weights N(0, 1) and student weights N(0, s^2), E_l(0) is 1 + s^2 on average (equation 8).
        """
        limit = LinearNetwork(self.problem, self.start)
        return at_times(
            times, lambda t: (limit._relaxation.small_rate(t) + limit._frozen) / 2
        )

    def R(self, times: ArrayLike) -> np.ndarray:
        """The student-teacher field covariance (equation 38 for a typical start)."""
        return at_times(times, lambda t: self._r(t) @ self._weights)

    def Q(self, times: ArrayLike) -> np.ndarray:
        """The student-student field covariance."""
        return at_times(times, lambda t: self._q(t) @ self._weights)

    def levels(self, times: ArrayLike) -> np.ndarray:
        """E_l, the average of (v w - v* w*)^2 over the components of each level, (..., levels)."""
        return at_times(times, self._squares)

    def local_slope(self, times: ArrayLike) -> np.ndarray:
        """d ln e_g / d ln alpha: the exponent that a straight line in a log-log plot would show there."""
        at = self._relaxation
        return at_times(
            times, lambda t: log_slope(t, at.total(t) + self._frozen, at.total_rate(t))
        )

    @cached_property
    def modes(self) -> LinearModes:
        """The decay rates of the error and how much of it each carries (equations 56, 57)."""
        return LinearModes.of(self._relaxation)

    @property
    def critical_rate(self) -> float:
        """The learning rate above which the mean error grows for ever.

        Limit: 2 B / (v^2 sum p lam^2/(lam + k)), over the levels that learn; k = weight_decay / v^2. At finite N it is
        lower, the rate at which (h/B) sum p lam^2 / (2 (lam + k) - (h/N) ((lam + k)^2 + lam^2/B)) reaches one, h = lr v^2.
        """
        return self._relaxation.critical_rate / self._readouts[0] ** 2

    @property
    def stable(self) -> bool:
        """Is the learning rate below the critical one?"""
        return self._relaxation.stable

    @property
    def steady_state(self) -> float:
        """e_g after infinite time; InputError where there is none because the learning rate is above the critical one."""
        if not self.stable:
            raise no_steady_state(self.problem, self.critical_rate)
        return (self._relaxation.steady_total + self._frozen) / 2

    def trajectory(self, times: ArrayLike = 100.0) -> Trajectory:
        """The closed solution as what `solve` returns, to plot, compare and store; times as there. Only in the limit."""
        if self.dim is not None:
            raise InputError(
                f"this network has N = {self.dim}; a trajectory holds the limit. Use .error, .R and .Q."
            )
        times = checks.as_times(times)
        r = self._r(times)[..., None, None]
        q = self._q(times)[..., None, None]
        R, Q, T = (
            np.einsum("l,...lab->...ab", self._weights, x)
            for x in (r, q, self._blocks[2])
        )
        variables = {"R": R, "Q": Q} | (
            {"r": r, "q": q} if self.problem.inputs.levels <= STORED_LEVELS else {}
        )
        return as_trajectory(
            self.problem,
            self.start,
            times,
            variables,
            self.error(times),
            T,
            solver="closed form",
        )

    def plot(
        self, times: ArrayLike | None = None, *, title: str | None = None
    ) -> "Figure":
        """The learning curve with its small-rate limit, and the modes, as a Matplotlib figure."""
        from tutelage_papers.power_law.plots import plot_linear_network

        return plot_linear_network(self, times, title=title)

    def __str__(self) -> str:
        lr = float(self.problem.optimizer.lr)
        size = "N infinite" if self.dim is None else f"N = {self.dim}"
        lines = [
            f"one linear unit on {self.problem.inputs.levels} levels, learning rate {lr:g}, {size}",
            f"critical rate: {self.critical_rate:.6g}; this rate is {lr / self.critical_rate:.3g} of it",
            f"error: {float(self.error(0.0)):.6g} initially",
        ]
        if self.stable:
            lines[-1] += f", {self.steady_state:.6g} finally"
            lines.append(
                f"slowest mode: falls by e every {1 / self.modes.rates[-1]:.4g} in alpha"
            )
        else:
            lines.append(
                f"the mean error grows for ever, by e every {-1 / self.modes.rates[-1]:.4g} in alpha"
            )
        if self.dim is None and self.start.dim is not None:
            exact = self.finite(self.start.dim)
            lines.append(
                f"at N = {exact.dim}, the N of this initial condition, the exact critical rate is {exact.critical_rate:.6g}"
            )
        return "\n".join(lines)

    # What the methods share: the problem as arrays.

    @cached_property
    def _fractions(self) -> np.ndarray:
        inputs = self.problem.inputs
        return (
            np.asarray(inputs.fractions)
            if self.dim is None
            else inputs.level_dims(self.dim) / self.dim
        )

    @cached_property
    def _weights(self) -> np.ndarray:
        return self._fractions * np.asarray(
            self.problem.inputs.eigenvalues, dtype=float
        )

    @cached_property
    def _learning(self) -> np.ndarray:
        """Which levels learn."""
        mask = self.problem.trainable_mask()
        return (
            np.ones(self.problem.inputs.levels, bool)
            if mask is None
            else mask[:, 0] > 0
        )

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r, q, t = (np.asarray(x, dtype=float) for x in self.start.blocks(self.problem))
        return r, q, t

    @property
    def _readouts(self) -> tuple[float, float]:
        own = (
            self.problem.student.readout
            if self.start.readout is None
            else self.start.readout
        )
        return float(np.asarray(own)[0]), float(
            np.asarray(self.problem.labeler.readout)[0]
        )

    @cached_property
    def _start_squares(self) -> np.ndarray:
        """E_l at time zero; never below zero, whatever rounding says."""
        r, q, t = (x[:, 0, 0] for x in self._blocks)
        v, v_teacher = self._readouts
        return np.maximum(v**2 * q - 2 * v * v_teacher * r + v_teacher**2 * t, 0.0)

    @cached_property
    def _frozen(self) -> float:
        """What the levels that do not learn add to the squared error, for ever."""
        return float(np.sum((self._weights * self._start_squares)[~self._learning]))

    @cached_property
    def _relaxation(self) -> Relaxation:
        (v, v_teacher), on = self._readouts, self._learning
        r, _, t = (x[on, 0, 0] for x in self._blocks)
        return Relaxation(
            lam=np.asarray(self.problem.inputs.eigenvalues, dtype=float)[on],
            p=self._fractions[on],
            E=self._start_squares[on],
            ab=v * v_teacher * r,
            bb=v_teacher**2 * t,
            rate=float(self.problem.optimizer.lr) * v**2,
            decay=float(self.problem.optimizer.weight_decay) / v**2,
            batch=self.problem.optimizer.batch,
            force=float(self.problem.noise) ** 2 + self._frozen,
            dim=self.dim,
        )

    def _squares(self, times: np.ndarray) -> np.ndarray:
        out = np.broadcast_to(
            self._start_squares, (times.size, self._learning.size)
        ).copy()
        out[:, self._learning] = self._relaxation.squares(times)
        return out

    def _r(self, times: np.ndarray) -> np.ndarray:
        """Student-teacher overlaps per level: r - r_inf decays, r_inf = (v*/v) t lam/(lam + k)."""
        (v, v_teacher), at = self._readouts, self._relaxation
        r, _, t = (x[:, 0, 0] for x in self._blocks)
        out = np.broadcast_to(r, (times.size, r.size)).copy()
        end = (v_teacher / v) * t[self._learning] * at.lam / (at.lam + at.decay)
        out[:, self._learning] = end + (r[self._learning] - end) * at.propagator.decay(
            at.mean_rates, times[:, None]
        )
        return out

    def _q(self, times: np.ndarray) -> np.ndarray:
        v, v_teacher = self._readouts
        t = self._blocks[2][:, 0, 0]
        return (
            self._squares(times) + 2 * v * v_teacher * self._r(times) - v_teacher**2 * t
        ) / v**2


def no_steady_state(problem: Problem, critical_rate: float) -> InputError:
    """What is said of the end of a curve that grows for ever."""
    lr = float(problem.optimizer.lr)
    return InputError(
        f"lr is {lr:g}; there is a steady state only below the critical rate {critical_rate:.6g}. Lower lr."
    )


def require_linear(
    problem: Any, function: str, readout: ArrayLike | None = None
) -> Problem:
    """The problem, if it has one linear unit on each side and plain SGD at one rate. readout: where a start replaces it."""
    problem = with_constant_rates(
        problem, function, (*VISIBLE, "no momentum", "no biases", "fixed readout")
    )
    student = problem.student
    teacher = problem.labeler
    if (student.hidden, teacher.hidden) != (1, 1):
        raise InputError(
            f"the student has {student.hidden} and the teacher {teacher.hidden} hidden units; the closed solution takes one "
            "of each. Use solve."
        )
    linear = Network(1, "linear").activation.polynomial
    for who, network in (("student", student), ("teacher", teacher)):
        if network.activation.polynomial != linear:
            raise InputError(
                f"the {who}'s activation is {network.activation.name!r}; the closed solution takes 'linear'. Use solve."
            )
    if np.any(np.asarray(student.readout if readout is None else readout) == 0):
        raise InputError(
            "the student's readout is 0, so nothing is learned; give it a readout other than 0."
        )
    mask = problem.trainable_mask()
    if mask is not None and not mask.any():
        raise InputError(
            "no level learns; trainable must leave at least one. Use trainable=None."
        )
    return problem
