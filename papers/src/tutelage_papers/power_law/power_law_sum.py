"""The error of a linear network on a power law: a sum over levels and its integral.

Why a power law of eigenvalues gives a power law of learning. At a small learning rate the
error of a linear network on lam_k = lam_1 k^-(1+beta), k = 1..L, is (arXiv 2410.09005,
eq. 47)

    e_g = sum_k f(k),    f(k) = A k^-(1+beta) exp(-x k^-(1+beta)),
    A = (1 + s^2) lam_1 / (2 L),    x = 2 lr lam_1 alpha

As an integral it is a difference of incomplete gamma functions, and in a window of times
the power alpha^(-beta/(1+beta)). f rises up to k = x^(1/(1+beta)) and falls after it, so
sum and integral differ by at most its largest value: `bounds`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gamma, gammainc, gammaincc, zeta

from tutelage import InputError, checks
from tutelage_papers.power_law.linear.relaxation import at_times, log_slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = ("sum", "integral")


@dataclass(frozen=True)
class PowerLawSum:
    """The error of a linear network on a power law at a small learning rate.

        e_g = sum_k A k^-(1+beta) exp(-x k^-(1+beta))                            (eq. 47)
        A = (1 + s^2) lam_1 / (2 L),   x = 2 lr lam_1 alpha

    beta > 0, levels L, rate (the learning rate), scale s of the student's initial weights
    (the teacher's is one). trained: N_l, how many levels learn (the largest first; None:
    all); the others add their `floor` for ever. Methods take times alpha >= 0, a number or
    an array.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> law = tutelage_papers.power_law.PowerLawSum(
    ...     beta=1.0, levels=256, rate=0.1, scale=0.01
    ... )
    >>> law.exponent, law.sum([1.0, 10.0]).round(4)
    (0.5, array([0.0472, 0.0141]))
    """

    beta: float
    levels: int
    rate: float
    scale: float = 0.0
    trained: int | None = None

    def __post_init__(self) -> None:
        _number("beta", self.beta, checks.require_positive)
        _number("rate", self.rate, checks.require_positive)
        _number("scale", self.scale, checks.require_nonnegative)
        checks.as_count("levels", self.levels)
        if self.trained is None:
            return
        if checks.as_count("trained", self.trained) > self.levels:
            raise InputError(
                f"trained is {self.trained}; it must be at most {self.levels}, the number "
                "of levels."
            )

    @property
    def exponent(self) -> float:
        """beta / (1 + beta): inside the window e_g falls as alpha to minus this."""
        return self.beta / (1 + self.beta)

    @cached_property
    def largest(self) -> float:
        """lam_1, for a mean eigenvalue of one."""
        relative = np.arange(1.0, self.levels + 1) ** -(1 + self.beta)
        return float(self.levels / np.sum(relative))

    @property
    def window(self) -> tuple[float, float]:
        """Times between which the power law is meant to hold.

        1/(2 lr lam_1) and Gamma((2 beta + 1)/(beta + 1))^((1+beta)/beta) N_l^(1+beta)
        times that.
        """
        first = 1 / (2 * self.rate * self.largest)
        shape = gamma(1 + self.exponent) ** (1 / self.exponent)
        return first, float(first * shape * self._count ** (1 + self.beta))

    @cached_property
    def floor(self) -> float:
        """The error that the levels leave that do not learn.

        (1 + s^2)/(2 L) sum_(k > N_l) lam_k (equation 71, from N_l + 1).
        """
        frozen = np.arange(self._count + 1.0, self.levels + 1)
        return float(self._height * np.sum(frozen ** -(1 + self.beta)))

    @property
    def floor_integral(self) -> float:
        """The floor as an integral (equation 74), never below it.

        (1 + s^2)/2 lam_1/(beta L) (N_l^-beta - L^-beta).
        """
        tail = self._count**-self.beta - self.levels**-self.beta
        return self._height * tail / self.beta

    def sum(self, times: Any) -> np.ndarray:
        """Return e_g itself (equations 47 and 78)."""
        return at_times(times, lambda t: self._height * self._moment(t, 1) + self.floor)

    def integral(self, times: Any) -> np.ndarray:
        """Return the sum over the levels that learn as an integral from 1 to N_l (eq. 50).

            A/(1+beta) x^-q (Gamma(q, x N_l^-(1+beta)) - Gamma(q, x)),  q = beta/(1+beta)

        The floor is added as it is. Equations 11 and 79 print L for N_l, which counts the
        frozen levels twice.
        """

        def value(t: np.ndarray) -> np.ndarray:
            return self._height * self._integral(t, self.exponent) + self.floor

        return at_times(times, value)

    def single_gamma(self, times: Any) -> np.ndarray:
        """Return the integral without its second gamma function (equation 52).

        For x > 1, later than the window's first time.
        """

        def value(t: np.ndarray) -> np.ndarray:
            x = _positive_time(self._x(t))
            q = self.exponent
            upper = gammaincc(q, x * self._count ** -(1 + self.beta)) * gamma(q)
            return self._height / (1 + self.beta) * x**-q * upper + self.floor

        return at_times(times, value)

    def power_law(self, times: Any) -> np.ndarray:
        """Return the pure power, A/(1+beta) Gamma(q) x^-q (equation 53).

        The integral tends to it inside a wide window.
        """

        def value(t: np.ndarray) -> np.ndarray:
            x = _positive_time(self._x(t))
            q = self.exponent
            return self._height / (1 + self.beta) * gamma(q) * x**-q + self.floor

        return at_times(times, value)

    def corrections(self, times: Any, order: int = 0) -> np.ndarray:
        """Return the terms that Euler and Maclaurin add to the integral.

        (f(1) + f(N_l))/2, and with order=1 also (f'(N_l) - f'(1))/12.
        """
        if order not in (0, 1):
            raise InputError(f"order is {checks.shown(order)}; it must be 0 or 1.")
        ends = np.array([1.0, self._count])

        def value(t: np.ndarray) -> np.ndarray:
            f, slope = self._terms(t, ends)
            return f.sum(axis=1) / 2 + (order == 1) * (slope[:, 1] - slope[:, 0]) / 12

        return at_times(times, value)

    def bounds(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return two numbers that e_g always lies between.

        integral + f(1) + f(N_l) - max f, and integral + min(max f, zeta_gap).
        """
        ends = 2 * self.corrections(times)
        highest = at_times(times, self._peak)
        middle = self.integral(times)
        return middle + ends - highest, middle + np.minimum(highest, self.zeta_gap)

    @property
    def zeta_gap(self) -> float:
        """The largest excess of the sum over the integral at any time.

        A (zeta(1+beta) - 1/beta + N_l^-(1+beta)). Up to x = 2 the gap falls with x, because
        -df/dx falls with k there: it is largest at x = 0. Beyond, max f = A/(e x) is
        smaller.
        """
        last = self._count ** -(1 + self.beta)
        return float(self._height * (zeta(1 + self.beta) - 1 / self.beta + last))

    def half_first_term(self, times: Any) -> np.ndarray:
        """Return f(1)/2, which is no bound on sum minus integral.

        Equation 49 gives it as one, after the window's first time. At x = 1 and beta = 1 the
        gap is 0.1917 A and f(1)/2 is 0.1839 A; later f(1) vanishes as exp(-x), the gap
        slower.
        """
        return at_times(times, lambda t: self._terms(t, np.ones(1))[0][:, 0] / 2)

    def local_slope(self, times: Any, form: str = "sum") -> np.ndarray:
        """Return d ln e_g / d ln alpha of the sum or of the integral.

        It is -beta/(1+beta) only in the middle of a wide window.
        """
        checks.known("form", form, FORMS)

        def value(t: np.ndarray) -> np.ndarray:
            if form == "sum":
                falling = self._moment(t, 2)
                total = self._moment(t, 1)
            else:
                falling = self._integral(t, 1 + self.exponent)
                total = self._integral(t, self.exponent)
            return log_slope(self._x(t), total + self.floor / self._height, -falling)

        return at_times(times, value)

    def plot(self, times: Any = None, *, title: str | None = None) -> "Figure":
        """Draw sum, integral, power law, bounds and the local slope."""
        from tutelage_papers.power_law.plots import plot_power_law_sum

        return plot_power_law_sum(self, times, title=title)

    def __str__(self) -> str:
        first, last = self.window
        middle = np.sqrt(first * last)
        slope = float(self.local_slope(middle))
        lines = [
            f"power law of {self.levels} levels, beta = {self.beta:g}, "
            f"learning rate {self.rate:g}",
            f"window: alpha from {first:.4g} to {last:.4g}; exponent there "
            f"{-self.exponent:.4g}",
            f"local slope in its middle (alpha = {middle:.4g}): {slope:.4g}",
            f"sum minus integral: at most {self.zeta_gap:.4g}",
        ]
        if self.floor:
            lines.append(f"floor of the levels that do not learn: {self.floor:.6g}")
        return "\n".join(lines)

    @property
    def _count(self) -> int:
        """N_l."""
        if self.trained is None:
            return self.levels
        return self.trained

    @cached_property
    def _height(self) -> float:
        """A."""
        return (1 + self.scale**2) * self.largest / (2 * self.levels)

    def _x(self, times: np.ndarray) -> np.ndarray:
        return 2 * self.rate * self.largest * times

    def _moment(self, times: np.ndarray, power: int) -> np.ndarray:
        """sum_k u^power exp(-x u), u = k^-(1+beta).

        Time by time, because there may be millions of levels.
        """
        u = np.arange(1.0, self._count + 1) ** -(1 + self.beta)
        return np.array([np.exp(-x * u) @ u**power for x in self._x(times)])

    def _integral(self, times: np.ndarray, q: float) -> np.ndarray:
        """int_1^N_l u^(q + 1/(1+beta)) exp(-x u) dk, u = k^-(1+beta).

        x^-q (Gamma(q, y) - Gamma(q, x)) / (1+beta), y = x N_l^-(1+beta).
        """
        x = self._x(times)
        y = x * self._count ** -(1 + self.beta)
        power = q * (1 + self.beta)
        at_start = (1 - self._count**-power) / power
        safe = np.where(x > 0, x, 1.0)
        # The difference of the two that are smaller keeps its digits.
        upper = gammaincc(q, y) - gammaincc(q, x)
        lower = gammainc(q, x) - gammainc(q, y)
        difference = np.where(y > 1, upper, lower)
        later = gamma(q) * safe**-q * difference / (1 + self.beta)
        return np.where(x > 1e-100, later, at_start)

    def _terms(self, times: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f(k) and f'(k), (T, k)."""
        x = self._x(times)[:, None]
        u = k ** -(1 + self.beta)
        f = self._height * u * np.exp(-x * u)
        return f, f * (x * u - 1) * (1 + self.beta) / k

    def _peak(self, times: np.ndarray) -> np.ndarray:
        """The largest f(k) between 1 and N_l: u exp(-x u) is largest at u = 1/x."""
        x = self._x(times)
        u = np.clip(1 / np.maximum(x, 1e-300), self._count ** -(1 + self.beta), 1.0)
        return self._height * u * np.exp(-x * u)


def _positive_time(x: np.ndarray) -> np.ndarray:
    if np.any(x == 0):
        raise InputError(
            "times contain 0, where this form is infinite; it holds later than the "
            "window's first time."
        )
    return x


def _number(name: str, value: Any, check: Any) -> None:
    array = checks.as_array(name, value)
    checks.require_shape(name, array, ())
    check(name, array)
