"""Learning rates at the end of learning: the one at which zero error is lost, and the constant one that reaches it fastest.

Near the perfect solution a small deviation inside the teachers' span decays at a rate `inside` and enters the error squared;
what lies outside the span is measured by overlaps that enter linearly and decay at `outside`, which the noise of SGD slows
down (dynamics/perfect.py). So
    e_g ~ exp(-min(2 inside, outside) alpha);     `inside` grows with eta, `outside` falls to zero at the critical rate.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.fixed_points.constant_rates import with_constant_rates
from tutelage.analysis.fixed_points.mode_names import name_of_growth, named_modes
from tutelage.analysis.fixed_points.modes import Mode
from tutelage.analysis.fixed_points.symmetry import free_subspace
from tutelage.averages import Quadrature, as_rule
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.perfect import Perfection, perfect_jacobian, perfection
from tutelage.problem import Problem, Start
from tutelage.problem.arguments import require_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIALS = 65  # learning rates among which the best is bracketed


@dataclass(frozen=True)
class CriticalRate:
    """The learning rate beyond which zero error is lost.

    rate: eta_c; zero error is stable below it. mode: what is lost there (its rate is zero, up to rounding).
    Converts to float. `share`: the problem's own learning rate over eta_c, None for a schedule.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> critical = tu.analysis.critical_learning_rate(problem)
    >>> round(critical.share, 4)                                         # lr over it
    0.2167
    """

    problem: Problem
    rate: float
    mode: Mode
    dynamics: Perfection = field(repr=False)

    @property
    def share(self) -> float | None:
        """lr / eta_c."""
        lr = self.problem.sgd.lr
        return None if callable(lr) else float(lr) / self.rate

    def __float__(self) -> float:
        return self.rate

    def __str__(self) -> str:
        lines = [f"critical learning rate: {self.rate:.8g}; above it a deviation {self.mode.name}"]
        if self.share is not None:
            word = "stable" if self.share < 1 else "NOT stable"
            lines.append(f"this problem: lr = {float(self.problem.sgd.lr):g}, {self.share:.4g} of it: zero error is {word}")
        return "\n".join(lines + noise_note(self.problem))

    def plot(self, *, title: str | None = None) -> "Figure":
        """Decay rates against the learning rate, with this one marked, as a Matplotlib figure."""
        from tutelage.plot.learning_rates import plot_decay_rates

        return plot_decay_rates(self.problem, *_curves(self.dynamics), title=title)


@dataclass(frozen=True)
class DecayRate:
    """How fast the error falls in the end.

    e_g falls as exp(-rate alpha) in the end; rate = min(2 inside, outside). Negative: zero error is unstable.
    inside: rate of the slowest deviation inside the teachers' span (it enters e_g squared). outside: of the slowest overlap
    outside it (linearly). Converts to float.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> found = tu.analysis.decay_rate(problem)
    >>> found.learning_rate, found.limited_by
    (0.5, 'inside')
    """

    problem: Problem
    learning_rate: float
    rate: float
    inside: float
    outside: float
    dynamics: Perfection = field(repr=False)

    @property
    def limited_by(self) -> str:
        """Which of the two is slower: "inside" or "outside" the teachers' span."""
        return "inside" if 2 * self.inside < self.outside else "outside"

    def __float__(self) -> float:
        return self.rate

    def __str__(self) -> str:
        if self.rate <= 0:
            end = f"zero error is unstable at lr = {self.learning_rate:g}: e_g leaves it as exp({-self.rate:.6g} alpha)"
        else:
            end = f"at lr = {self.learning_rate:g} the error falls as exp(-{self.rate:.8g} alpha) in the end"
        lines = [
            end,
            f"  inside the teachers' span: {self.inside:.6g}, which enters the error squared: {2 * self.inside:.6g}",
            f"  outside the teachers' span: {self.outside:.6g}, which enters it linearly",
            f"  the slower is {self.limited_by}",
        ]
        return "\n".join(lines + noise_note(self.problem))

    def plot(self, *, title: str | None = None) -> "Figure":
        """Decay rates against the learning rate, with this one marked, as a Matplotlib figure."""
        from tutelage.plot.learning_rates import plot_decay_rates

        return plot_decay_rates(self.problem, *_curves(self.dynamics), chosen=(self.learning_rate, self.rate), title=title)


@dataclass(frozen=True)
class BestRate:
    """The constant learning rate that is fastest in the end.

    rate: e_g ~ exp(-rate alpha) at this learning_rate. critical: eta_c. Converts to float (the learning rate).

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> best = tu.analysis.best_constant_rate(problem)
    >>> best.learning_rate < best.critical
    True
    """

    problem: Problem
    learning_rate: float
    rate: float
    critical: float
    dynamics: Perfection = field(repr=False)

    def __float__(self) -> float:
        return self.learning_rate

    def __str__(self) -> str:
        lines = [
            f"best constant learning rate: {self.learning_rate:.8g}, {self.learning_rate / self.critical:.4g} of the "
            f"critical {self.critical:.6g}",
            f"the error then falls as exp(-{self.rate:.6g} alpha) in the end",
        ]
        return "\n".join(lines + noise_note(self.problem))

    def plot(self, *, title: str | None = None) -> "Figure":
        """Decay rates against the learning rate, with this one marked, as a Matplotlib figure."""
        from tutelage.plot.learning_rates import plot_decay_rates

        return plot_decay_rates(self.problem, *_curves(self.dynamics), best=(self.learning_rate, self.rate), title=title)


def critical_learning_rate(problem: Problem, *, quadrature: Quadrature | None = None) -> CriticalRate:
    """The constant learning rate eta_c above which zero error is unstable, whatever the problem's own rate is.

    eta_c = batch (1 - momentum) / (spectral radius of (-slow)^-1 fast), where overlaps outside the teachers' span obey
    dX = (eta slow + eta^2/batch fast) X (dynamics/perfect.py). For one erf unit this is pi sqrt(5/3) (Saad & Solla 1995).
    Readouts and biases that learn do not change it. Label noise is left out.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> round(tu.analysis.critical_learning_rate(problem).rate, 6)
    2.306828
    """
    dynamics = perfect_dynamics(require_problem(problem, "critical_learning_rate"), quadrature)
    rate = dynamics.critical_rate
    if not np.isfinite(rate):
        raise InputError("the noise of SGD never outweighs the decay here: zero error is stable at any learning rate.")
    return CriticalRate(problem, rate, _lost_mode(dynamics, rate, quadrature), dynamics)


def decay_rate(problem: Problem, *, quadrature: Quadrature | None = None) -> DecayRate:
    """The rate at which e_g falls in the end, near the perfect solution, at the problem's constant learning rate.

    Label noise is left out: with it the error stops at a floor (`noise_floor`).

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> round(tu.analysis.decay_rate(problem).rate, 6)                            # e_g falls as exp(-rate alpha)
    0.044185
    """
    problem = with_constant_rates(problem, "decay_rate")
    dynamics = perfect_dynamics(problem, quadrature)
    lr = float(problem.sgd.lr)
    inside, outside = slowest(dynamics, lr)
    return DecayRate(problem, lr, min(2 * inside, outside), inside, outside, dynamics)


def best_constant_rate(problem: Problem, *, quadrature: Quadrature | None = None) -> BestRate:
    """The constant learning rate at which e_g falls fastest in the end: the maximum of `decay_rate` below eta_c.

    For one erf unit it is two thirds of eta_c. Rates of readouts and biases follow it unless they are set.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> round(tu.analysis.best_constant_rate(problem).learning_rate, 4)
    1.8808
    """
    from scipy.optimize import minimize_scalar

    problem = with_constant_rates(problem, "best_constant_rate")
    dynamics = perfect_dynamics(problem, quadrature)
    critical = dynamics.critical_rate
    if not np.isfinite(critical):
        raise InputError("the decay only grows with the learning rate here, so there is no best one.")

    def negative(lr: float) -> float:
        inside, outside = slowest(dynamics, lr)
        return -min(2 * inside, outside)

    trials = np.linspace(0.0, critical, TRIALS)
    at = int(np.argmin([negative(lr) for lr in trials]))
    ends = trials[max(at - 1, 0)], trials[min(at + 1, TRIALS - 1)]
    found: Any = minimize_scalar(negative, bounds=ends, method="bounded", options={"xatol": 1e-11 * critical})
    return BestRate(problem, float(found.x), -float(found.fun), critical, dynamics)


def perfect_dynamics(problem: Problem, quadrature: Quadrature | None) -> Perfection:
    """The linear dynamics around an isolated perfect solution."""
    found = perfection(problem, teacher_overlaps(problem), as_rule(quadrature))
    found.require_isolated()
    return found


def teacher_overlaps(problem: Problem) -> Array:
    """t (L, M, M): the problem's gram, or the identity."""
    K, M = problem.student.hidden, problem.teacher.hidden
    return initial_overlaps(problem, Start(np.zeros((K, M)), np.zeros((K, K))))[1]


def slowest(dynamics: Perfection, lr: float) -> tuple[float, float]:
    """Decay rates of the slowest deviation inside the teachers' span, and of the slowest overlap outside it."""
    return tuple(-float(np.max(np.linalg.eigvals(J).real)) for J in (dynamics.inside(lr), dynamics.outside(lr)))  # pyright: ignore[reportReturnType]


def noise_note(problem: Problem) -> list[str]:
    """What to read beside a statement about zero error."""
    return (
        ["label noise is left out: with it the error ends at a floor, see noise_floor"] if float(problem.noise) > 0 else []
    )


def _lost_mode(dynamics: Perfection, rate: float, quadrature: Quadrature | None) -> Mode:
    """The mode that stands still at the critical rate, named by what it does just above."""
    problem, state = dynamics.problem.replace(lr=rate, readout_lr=None, bias_lr=None, noise=0.0), dynamics.state
    J = perfect_jacobian(OrderParameters(problem, jnp.asarray(dynamics.t), quadrature=quadrature), state)
    first = named_modes(state, dynamics.t, J, free_subspace(problem, state))[0]
    return replace(first, name=name_of_growth(state, dynamics.t, first.right[:, None]))


def _curves(dynamics: Perfection) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Learning rates up to beyond the critical one, decay rates inside and outside, and eta_c."""
    critical = dynamics.critical_rate
    rates = np.linspace(0.0, 1.15 * critical, 161)
    inside, outside = np.array([slowest(dynamics, lr) for lr in rates]).T
    return rates, inside, outside, critical
