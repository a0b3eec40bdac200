"""What label noise leaves of the error: e_g at the end of learning, to first order in the variance of the noise.

Noise feeds overlaps outside the teachers' span at order eta^2 and their decay takes them away; where the two balance,
    X = -(eta slow + eta^2/batch fast)^-1 (eta^2/batch) sigma^2 noise,     e_g = -tr(A sum_l p_l lam_l X_l) / 2
(dynamics/perfect.py). `fixed_point(problem, "perfect")` gives the exact state at any noise, for comparison.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tutelage.analysis.fixed_points.constant_rates import with_constant_rates
from tutelage.analysis.fixed_points.learning_rates import teacher_overlaps
from tutelage.averages import Quadrature, as_rule
from tutelage.dynamics.perfect import Perfection, perfection
from tutelage.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class NoiseFloor:
    """What weak label noise leaves of the error.

    per_variance: e_g(infinity) / sigma^2 as sigma -> 0. error: that times the problem's own sigma^2. Converts to float
    (per_variance).

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> floor = tu.analysis.noise_floor(problem.replace(lr=0.1, noise=0.05))
    >>> round(floor.error / 0.05**2 / floor.per_variance, 12)
    1.0
    """

    problem: Problem
    learning_rate: float
    per_variance: float
    dynamics: Perfection = field(repr=False)

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

    def plot(self, *, title: str | None = None) -> "Figure":
        """The floor against the learning rate, with this one marked, as a Matplotlib figure."""
        from tutelage.plot.learning_rates import plot_noise_floor

        dynamics, isolated = self.dynamics, self.dynamics.isolated
        highest = 0.97 * dynamics.critical_rate if isolated else 2 * self.learning_rate
        rates = np.linspace(0.0, max(highest, self.learning_rate), 121)[1:]
        stable = rates[[dynamics.is_stable(lr) for lr in rates]]
        floors = np.array([dynamics.noise_floor(lr) for lr in stable])
        critical = dynamics.critical_rate if isolated else None
        return plot_noise_floor(self.problem, stable, floors, critical, (self.learning_rate, self.per_variance), title=title)


def noise_floor(problem: Problem, *, quadrature: Quadrature | None = None) -> NoiseFloor:
    """e_g(infinity) / sigma^2 as sigma -> 0, by linear response of the perfect solution at the problem's learning rate.

    For erf and small eta it is eta (extra + M/sqrt 3) / 2 pi with K = M + extra (Goldt et al. 2019), for linear units
    eta K / (4 - 2 eta K). Refuses rates at which zero error is unstable, and what has no perfect solution.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> floor = tu.analysis.noise_floor(problem.replace(lr=0.1, noise=0.05))
    >>> round(floor.per_variance, 6)                                      # e_g / sigma^2
    0.019204
    """
    problem = with_constant_rates(problem, "noise_floor")
    lr = float(problem.sgd.lr)
    dynamics = perfection(problem, teacher_overlaps(problem), as_rule(quadrature))
    return NoiseFloor(problem, lr, dynamics.noise_floor(lr), dynamics)
