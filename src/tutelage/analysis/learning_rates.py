"""Learning rates near perfect learning: critical and best rates, decay, noise floor.

A small deviation inside the teachers' span decays at a rate `inside` and enters the
error squared. What lies outside the span is measured by overlaps that enter linearly
and decay at `outside`, which SGD noise slows down (dynamics/perfect_learning.py):
    e_g ~ exp(-min(2 inside, outside) alpha)
`inside` grows with eta, `outside` falls to zero at the critical rate.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem, with_constant_rates
from tutelage.stream import initial_overlaps
from tutelage.stream.moments import moments_for
from tutelage.stream.perfect_learning import PerfectLearning, perfect_learning

BEYOND_CRITICAL = 1.15  # of the critical rate: the end of the curves of decay rates
BELOW_CRITICAL = 0.97  # of the critical rate: the end of the curve of noise floors


class SlowestRates(NamedTuple):
    """Decay rates of the slowest deviations.

    inside: in the teachers' span. outside: of the slowest overlap outside it.
    """

    inside: float
    outside: float

    @property
    def of_error(self) -> float:
        """The decay rate of the error, which deviations inside enter squared."""
        return min(2 * self.inside, self.outside)


@dataclass(frozen=True, repr=False)
class LearningRates(AnalysisResult, figure="plot_decay_rates"):
    """The common part of the results below.

    These are a number, a figure of decay rates against the learning rate, and a note on
    label noise.
    """

    problem: Problem
    dynamics: PerfectLearning
    rate: float
    point = ""  # the name in the figure of the point (learning_rate, rate)

    def __float__(self) -> float:
        return self.rate

    def decay_curves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return learning rates, and the slowest decay rates at each.

        They are those inside and outside the teachers' span. The learning rates go
        beyond the critical one.
        """
        highest = BEYOND_CRITICAL * self.dynamics.critical_rate
        rates = np.linspace(0.0, highest, 161)
        slowest = [slowest_rates(self.dynamics, lr) for lr in rates]
        inside = np.array([decay.inside for decay in slowest])
        outside = np.array([decay.outside for decay in slowest])
        return rates, inside, outside

    def _with_noise_note(self, *lines: str) -> str:
        note = (
            "label noise is left out: with it the error ends at a floor, "
            "see noise_floor"
        )
        has_noise = float(self.problem.noise_deviation) > 0
        return "\n".join([*lines, note] if has_noise else lines)


@dataclass(frozen=True, repr=False)
class CriticalRate(LearningRates):
    """The learning rate beyond which zero error is lost. Converts to float.

    rate: eta_c; zero error is stable below it, and above it a deviation outside the
    teachers' span grows.
    """

    def __str__(self) -> str:
        lines = [
            f"critical learning rate: {self.rate:.8g}; "
            "above it a deviation grows outside the teachers' span"
        ]
        lr = self.problem.optimizer.lr
        if not callable(lr):
            stability = "stable" if float(lr) < self.rate else "NOT stable"
            lines.append(
                f"this problem: lr = {float(lr):g}, {float(lr) / self.rate:.4g} of it: "
                f"zero error is {stability}"
            )
        return self._with_noise_note(*lines)


@dataclass(frozen=True, repr=False)
class DecayRate(LearningRates):
    """The rate at which the error finally falls. Converts to float.

    rate: min(2 inside, outside), where e_g ~ exp(-rate alpha); negative: zero error is
    unstable. inside: rate of the slowest deviation inside the teachers' span (it enters
    e_g squared). outside: of the slowest overlap outside it (linearly).
    """

    point = "this problem"
    learning_rate: float
    inside: float
    outside: float

    def __str__(self) -> str:
        if self.rate > 0:
            first = (
                f"at lr = {self.learning_rate:g} the error finally falls as "
                f"exp(-{self.rate:.8g} alpha)"
            )
        else:
            first = (
                f"zero error is unstable at lr = {self.learning_rate:g}: "
                f"e_g leaves it as exp({-self.rate:.6g} alpha)"
            )
        slower = "inside" if 2 * self.inside < self.outside else "outside"
        return self._with_noise_note(
            first,
            f"  inside the teachers' span: {self.inside:.6g}, "
            f"which enters the error squared: {2 * self.inside:.6g}",
            f"  outside the teachers' span: {self.outside:.6g}, "
            "which enters it linearly",
            f"  the slower is {slower}",
        )


@dataclass(frozen=True, repr=False)
class BestRate(LearningRates):
    """The constant learning rate that is finally fastest. Converts to this rate.

    rate: e_g ~ exp(-rate alpha) at this learning_rate. critical: eta_c.
    """

    point = "best constant rate"
    learning_rate: float
    critical: float

    def __float__(self) -> float:
        return self.learning_rate

    def __str__(self) -> str:
        share = self.learning_rate / self.critical
        return self._with_noise_note(
            f"best constant learning rate: {self.learning_rate:.6g}, "
            f"{share:.4g} of the critical {self.critical:.6g}",
            f"the error then finally falls as exp(-{self.rate:.6g} alpha)",
        )


@dataclass(frozen=True, repr=False)
class NoiseFloor(AnalysisResult, figure="plot_noise_floor"):
    """The error that weak label noise leaves. Converts to float (per_variance).

    per_variance: e_g(infinity) / sigma^2 as sigma -> 0.
    """

    problem: Problem
    learning_rate: float
    per_variance: float
    dynamics: PerfectLearning

    @property
    def error(self) -> float:
        """e_g(infinity) at the problem's own noise, to first order in its variance."""
        return self.per_variance * float(self.problem.noise_deviation) ** 2

    def __float__(self) -> float:
        return self.per_variance

    def __str__(self) -> str:
        lines = [
            f"at lr = {self.learning_rate:g} label noise leaves "
            f"e_g = {self.per_variance:.8g} sigma^2, as sigma -> 0"
        ]
        sigma = float(self.problem.noise_deviation)
        if sigma > 0:
            lines.append(f"at this problem's sigma = {sigma:g}: about {self.error:.6g}")
        lines.append('exact at any noise: fixed_point(problem, "perfect").error')
        return "\n".join(lines)

    @property
    def critical(self) -> float | None:
        """eta_c; None where solutions without error form a continuum."""
        return self.dynamics.critical_rate if self.dynamics.isolated else None

    def floors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return stable learning rates, and the floor per variance at each."""
        if self.critical is None:
            highest = 2 * self.learning_rate
        else:
            highest = BELOW_CRITICAL * self.critical
        rates = np.linspace(0.0, max(highest, self.learning_rate), 121)[1:]
        stable = rates[[self.dynamics.is_stable(lr) for lr in rates]]
        return stable, np.array([self.dynamics.noise_floor(lr) for lr in stable])


def critical_learning_rate(problem: Problem) -> CriticalRate:
    """Return the constant learning rate eta_c above which zero error is unstable.

    Parameters
    ----------
    problem : Problem
        Its learning rate and label noise are ignored.

    Returns
    -------
    CriticalRate

    Notes ----- eta_c = batch (1 - momentum) / (spectral radius of (-slow)^-1 fast),
    where overlaps outside the teachers' span obey dX = (eta slow + eta^2/batch fast) X
    (dynamics/perfect_learning.py). For one erf unit it is pi sqrt(5/3) (Saad and Solla
    1995). Trained readouts and biases do not change it.

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> round(tu.analysis.critical_learning_rate(problem).rate, 6)
    2.306828
    """
    dynamics = perfect_dynamics(require_problem(problem, "critical_learning_rate"))
    if not np.isfinite(dynamics.critical_rate):
        raise InputError(
            "the noise of SGD never outweighs the decay here: "
            "zero error is stable at any learning rate."
        )
    return CriticalRate(problem, dynamics, dynamics.critical_rate)


def decay_rate(problem: Problem) -> DecayRate:
    """Return the rate at which e_g finally falls, near the perfect solution.

    The learning rate is that of the problem, and constant.

    Parameters
    ----------
    problem : Problem
        Label noise is ignored; with it the error stops at a floor (`noise_floor`).

    Returns
    -------
    DecayRate

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> round(tu.analysis.decay_rate(problem).rate, 6)  # e_g falls as exp(-rate alpha)
    0.044185
    """
    problem = with_constant_rates(problem, "decay_rate")
    dynamics = perfect_dynamics(problem)
    dynamics.require_isolated()
    lr = float(problem.optimizer.lr)
    slowest = slowest_rates(dynamics, lr)
    return DecayRate(
        problem=problem,
        dynamics=dynamics,
        rate=slowest.of_error,
        learning_rate=lr,
        inside=slowest.inside,
        outside=slowest.outside,
    )


def best_constant_rate(problem: Problem) -> BestRate:
    """Return the constant learning rate at which e_g finally falls fastest.

    It is the place of the maximum of `decay_rate` below eta_c.

    Parameters
    ----------
    problem : Problem
        Its learning rate is ignored. Rates of readouts and biases follow it unless they
        are set.

    Returns
    -------
    BestRate

    Notes
    -----
    For one erf unit it is two thirds of eta_c.

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.5))
    >>> round(tu.analysis.best_constant_rate(problem).learning_rate, 4)
    1.8808
    """
    from scipy.optimize import fminbound

    problem = with_constant_rates(problem, "best_constant_rate")
    dynamics = perfect_dynamics(problem)
    critical = dynamics.critical_rate
    if not np.isfinite(critical):
        raise InputError(
            "the decay only grows with the learning rate here, so there is no best one."
        )

    def growth_of_error(lr: float) -> float:
        return -slowest_rates(dynamics, lr).of_error

    lr, least, *_ = fminbound(
        growth_of_error, 0.0, critical, xtol=1e-11 * critical, full_output=True
    )
    return BestRate(
        problem=problem,
        dynamics=dynamics,
        rate=-float(least),
        learning_rate=float(lr),
        critical=critical,
    )


def noise_floor(problem: Problem) -> NoiseFloor:
    """Return e_g(infinity) / sigma^2 as sigma -> 0.

    It follows from the linear response of the perfect solution at the problem's
    learning rate.

    Parameters
    ----------
    problem : Problem
        Zero error must exist and be stable; otherwise InputError is raised.

    Returns
    -------
    NoiseFloor

    Notes ----- For erf and small eta it is eta (extra + M/sqrt 3) / 2 pi with K = M +
    extra (Goldt et al. 2019), for linear units eta K / (4 - 2 eta K).

    Examples
    --------
    >>> import tutelage as tu
    >>> network = tu.Network(2, "erf")
    >>> problem = tu.Problem(network, network, optimizer=tu.SGD(lr=0.1), noise=0.05)
    >>> round(tu.analysis.noise_floor(problem).per_variance, 6)  # e_g / sigma^2
    0.019204
    """
    problem = with_constant_rates(problem, "noise_floor")
    dynamics = perfect_dynamics(problem)
    lr = float(problem.optimizer.lr)
    return NoiseFloor(
        problem=problem,
        learning_rate=lr,
        per_variance=dynamics.noise_floor(lr),
        dynamics=dynamics,
    )


def perfect_dynamics(problem: Problem) -> PerfectLearning:
    """Return the linear dynamics around the perfect solution."""
    K = problem.student.hidden
    M = problem.labeler.hidden
    blank = Start(np.zeros((K, M)), np.zeros((K, K)))
    _, t = initial_overlaps(problem, blank)  # the problem's gram, or the identity
    return perfect_learning(problem, t, moments_for(problem))


def slowest_rates(dynamics: PerfectLearning, lr: float) -> SlowestRates:
    """Return the decay rates of the slowest deviations at a learning rate."""
    return SlowestRates(
        inside=_slowest_decay(dynamics.inside(lr)),
        outside=_slowest_decay(dynamics.outside(lr)),
    )


def _slowest_decay(J: np.ndarray) -> float:
    """Return the decay rate of the slowest mode of a Jacobian."""
    return -float(np.max(np.linalg.eigvals(J).real))
