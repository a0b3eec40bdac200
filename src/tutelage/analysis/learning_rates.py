"""Learning rates near perfect learning: where zero error is lost, how fast it is reached, what label noise leaves.

A small deviation inside the teachers' span decays at a rate `inside` and enters the error squared. What lies outside the
span is measured by overlaps that enter linearly and decay at `outside`, which SGD noise slows down (dynamics/perfect_learning.py):
    e_g ~ exp(-min(2 inside, outside) alpha);     `inside` grows with eta, `outside` falls to zero at the critical rate.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics import initial_overlaps
from tutelage.dynamics.perfect_learning import PerfectLearning, perfect_learning
from tutelage.errors import InputError
from tutelage.moments import moments_for
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem, with_constant_rates


@dataclass(frozen=True, repr=False)
class LearningRates(AnalysisResult, figure="plot_decay_rates"):
    """What the results below share: a number, decay rates against the learning rate as a figure, a note on label noise."""

    problem: Problem
    dynamics: PerfectLearning
    rate: float
    point = ""  # what the figure calls the point (learning_rate, rate)

    def __float__(self) -> float:
        return self.rate

    def decay_curves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Learning rates beyond the critical one, and at each the slowest decay rates inside and outside the teachers' span."""
        rates = np.linspace(0.0, 1.15 * self.dynamics.critical_rate, 161)
        return rates, *np.array([slowest_rates(self.dynamics, lr) for lr in rates]).T

    def _with_noise_note(self, *lines: str) -> str:
        note = "label noise is left out: with it the error ends at a floor, see noise_floor"
        return "\n".join([*lines, note] if float(self.problem.noise) > 0 else lines)


@dataclass(frozen=True, repr=False)
class CriticalRate(LearningRates):
    """The learning rate beyond which zero error is lost. Converts to float.

    rate: eta_c; zero error is stable below it, and above it a deviation outside the teachers' span grows.
    """

    def __str__(self) -> str:
        lines = [f"critical learning rate: {self.rate:.8g}; above it a deviation grows outside the teachers' span"]
        if not callable(lr := self.problem.sgd.lr):
            word = "stable" if float(lr) < self.rate else "NOT stable"
            lines.append(f"this problem: lr = {float(lr):g}, {float(lr) / self.rate:.4g} of it: zero error is {word}")
        return self._with_noise_note(*lines)


@dataclass(frozen=True, repr=False)
class DecayRate(LearningRates):
    """How fast the error finally falls: as exp(-rate alpha). Converts to float.

    rate: min(2 inside, outside); negative: zero error is unstable. inside: rate of the slowest deviation inside the teachers'
    span (it enters e_g squared). outside: of the slowest overlap outside it (linearly).
    """

    point = "this problem"
    learning_rate: float
    inside: float
    outside: float

    def __str__(self) -> str:
        falls = f"at lr = {self.learning_rate:g} the error finally falls as exp(-{self.rate:.8g} alpha)"
        leaves = f"zero error is unstable at lr = {self.learning_rate:g}: e_g leaves it as exp({-self.rate:.6g} alpha)"
        return self._with_noise_note(
            falls if self.rate > 0 else leaves,
            f"  inside the teachers' span: {self.inside:.6g}, which enters the error squared: {2 * self.inside:.6g}",
            f"  outside the teachers' span: {self.outside:.6g}, which enters it linearly",
            f"  the slower is {'inside' if 2 * self.inside < self.outside else 'outside'}",
        )


@dataclass(frozen=True, repr=False)
class BestRate(LearningRates):
    """The constant learning rate that is finally fastest. Converts to float (the learning rate).

    rate: e_g ~ exp(-rate alpha) at this learning_rate. critical: eta_c.
    """

    point = "best constant rate"
    learning_rate: float
    critical: float

    def __float__(self) -> float:
        return self.learning_rate

    def __str__(self) -> str:
        return self._with_noise_note(
            f"best constant learning rate: {self.learning_rate:.6g}, {self.learning_rate / self.critical:.4g} of the "
            f"critical {self.critical:.6g}",
            f"the error then finally falls as exp(-{self.rate:.6g} alpha)",
        )


@dataclass(frozen=True, repr=False)
class NoiseFloor(AnalysisResult, figure="plot_noise_floor"):
    """What weak label noise leaves of the error. Converts to float (per_variance).

    per_variance: e_g(infinity) / sigma^2 as sigma -> 0.
    """

    problem: Problem
    learning_rate: float
    per_variance: float
    dynamics: PerfectLearning

    @property
    def error(self) -> float:
        """e_g(infinity) at the problem's own noise, to first order in its variance."""
        return self.per_variance * float(self.problem.noise) ** 2

    def __float__(self) -> float:
        return self.per_variance

    def __str__(self) -> str:
        lines = [f"at lr = {self.learning_rate:g} label noise leaves e_g = {self.per_variance:.8g} sigma^2, as sigma -> 0"]
        if float(self.problem.noise) > 0:
            lines.append(f"at this problem's sigma = {float(self.problem.noise):g}: about {self.error:.6g}")
        return "\n".join([*lines, 'exact at any noise: fixed_point(problem, "perfect").error'])

    @property
    def critical(self) -> float | None:
        """eta_c; None where solutions without error form a continuum."""
        return self.dynamics.critical_rate if self.dynamics.isolated else None

    def floors(self) -> tuple[np.ndarray, np.ndarray]:
        """Stable learning rates, and the floor per variance at each."""
        dynamics, highest = self.dynamics, 2 * self.learning_rate if self.critical is None else 0.97 * self.critical
        rates = np.linspace(0.0, max(highest, self.learning_rate), 121)[1:]
        stable = rates[[dynamics.is_stable(lr) for lr in rates]]
        return stable, np.array([dynamics.noise_floor(lr) for lr in stable])


def critical_learning_rate(problem: Problem) -> CriticalRate:
    """The constant learning rate eta_c above which zero error is unstable.

    Parameters
    ----------
    problem : Problem
        Its learning rate and label noise are ignored.

    Returns
    -------
    CriticalRate

    Notes
    -----
    eta_c = batch (1 - momentum) / (spectral radius of (-slow)^-1 fast), where overlaps outside the teachers' span obey
    dX = (eta slow + eta^2/batch fast) X (dynamics/perfect_learning.py). For one erf unit it is pi sqrt(5/3) (Saad and
    Solla 1995). Trained readouts and biases do not change it.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> round(tu.analysis.critical_learning_rate(problem).rate, 6)
    2.306828
    """
    dynamics = perfect_dynamics(require_problem(problem, "critical_learning_rate"))
    if not np.isfinite(dynamics.critical_rate):
        raise InputError("the noise of SGD never outweighs the decay here: zero error is stable at any learning rate.")
    return CriticalRate(problem, dynamics, dynamics.critical_rate)


def decay_rate(problem: Problem) -> DecayRate:
    """The rate at which e_g finally falls, near the perfect solution, at the problem's constant learning rate.

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
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> round(tu.analysis.decay_rate(problem).rate, 6)                            # e_g falls as exp(-rate alpha)
    0.044185
    """
    problem = with_constant_rates(problem, "decay_rate")
    dynamics, lr = perfect_dynamics(problem), float(problem.sgd.lr)
    dynamics.require_isolated()
    inside, outside = slowest_rates(dynamics, lr)
    return DecayRate(problem, dynamics, min(2 * inside, outside), lr, inside, outside)


def best_constant_rate(problem: Problem) -> BestRate:
    """The constant learning rate at which e_g finally falls fastest: the maximum of `decay_rate` below eta_c.

    Parameters
    ----------
    problem : Problem
        Its learning rate is ignored. Rates of readouts and biases follow it unless they are set.

    Returns
    -------
    BestRate

    Notes
    -----
    For one erf unit it is two thirds of eta_c.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> round(tu.analysis.best_constant_rate(problem).learning_rate, 4)
    1.8808
    """
    from scipy.optimize import fminbound

    problem = with_constant_rates(problem, "best_constant_rate")
    dynamics = perfect_dynamics(problem)
    critical = dynamics.critical_rate
    if not np.isfinite(critical):
        raise InputError("the decay only grows with the learning rate here, so there is no best one.")

    def negative(lr: float) -> float:
        inside, outside = slowest_rates(dynamics, lr)
        return -min(2 * inside, outside)

    lr, least, *_ = fminbound(negative, 0.0, critical, xtol=1e-11 * critical, full_output=True)
    return BestRate(problem, dynamics, -float(least), float(lr), critical)


def noise_floor(problem: Problem) -> NoiseFloor:
    """e_g(infinity) / sigma^2 as sigma -> 0, by linear response of the perfect solution at the problem's learning rate.

    Parameters
    ----------
    problem : Problem
        Zero error must exist and be stable; otherwise InputError is raised.

    Returns
    -------
    NoiseFloor

    Notes
    -----
    For erf and small eta it is eta (extra + M/sqrt 3) / 2 pi with K = M + extra (Goldt et al. 2019), for linear units
    eta K / (4 - 2 eta K).

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.1), noise=0.05)
    >>> round(tu.analysis.noise_floor(problem).per_variance, 6)                   # e_g / sigma^2
    0.019204
    """
    problem = with_constant_rates(problem, "noise_floor")
    dynamics, lr = perfect_dynamics(problem), float(problem.sgd.lr)
    return NoiseFloor(problem, lr, dynamics.noise_floor(lr), dynamics)


def perfect_dynamics(problem: Problem) -> PerfectLearning:
    """The linear dynamics around the perfect solution."""
    K, M = problem.student.hidden, problem.teacher.hidden
    _, t = initial_overlaps(problem, Start(np.zeros((K, M)), np.zeros((K, K))))  # the problem's gram, or the identity
    return perfect_learning(problem, t, moments_for(problem))


def slowest_rates(dynamics: PerfectLearning, lr: float) -> tuple[float, float]:
    """Decay rates of the slowest deviation inside the teachers' span, and of the slowest overlap outside it."""
    inside, outside = (-float(np.max(np.linalg.eigvals(J).real)) for J in (dynamics.inside(lr), dynamics.outside(lr)))
    return inside, outside
