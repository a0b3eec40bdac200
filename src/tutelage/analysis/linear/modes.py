"""The modes of a linear network: with which rates its error decays, and how much of it each rate carries.

Without noise and decay, and with all levels starting alike, e_g(alpha)/e_g(0) = sum_k weights_k exp(-rates_k alpha). At a
small rate the modes are the levels, rates_k = 2 lr lam_k, weights_k = p_k lam_k / sum p lam; a large one mixes them.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.analysis.linear.relaxation import Relaxation


@dataclass(frozen=True)
class LinearModes:
    """The exponentials of which the error of a linear network is the sum.

    rates: decay rates of the squared error in alpha, fastest first (a negative one grows). weights: their shares.
    eigenvalues: rates / (lr v^2), which is |lambda_B,k| of the source (a = 2, epsilon = lr): 2 lam_k at a small rate.
    coefficients: b_k |lambda_B,k| of its equations 56 and 57 (times L, its figures 10 and 11): (2 - lr) weights.
    levels: lam of the levels that learn, largest first, for comparison.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5), noise=0.1)
    >>> modes = tu.analysis.linear_network(problem.replace(inputs=tu.PowerLaw(1.0, 3)), None).modes
    >>> modes.rates.round(4), modes.levels.round(4)
    (array([1.8085, 0.5185, 0.2379]), array([2.2041, 0.551 , 0.2449]))
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
        weights = (modes.along * (modes.vectors @ np.sqrt(at.p)) / (at.rate / np.sqrt(at.batch)) / total)[::-1]
        rates = modes.values[::-1]
        factor = 2 - at.rate * total / at.batch
        return cls(rates, weights, rates / at.rate, factor * weights, np.sort(at.lam)[::-1])

    def __str__(self) -> str:
        head = f"{self.rates.size} modes; the error of a start that is alike on all levels is shared among them"
        rows = [(k, self.rates[k], self.weights[k]) for k in range(min(5, self.rates.size))]
        lines = [f"  mode {k + 1}: rate {rate:.6g}, share {weight:.4g}" for k, rate, weight in rows]
        return "\n".join([head, *lines, *(["  ..."] if self.rates.size > 5 else [])])
