"""Online linear regression, the worked example of the notes, as custom equations."""

from typing import Any

from jax import Array

import tutelage as tu


def linear_regression(
    rho: float = 1.0, noise_variance: float = 0.1, lr: float = 0.5, ridge: float = 0.01
) -> tu.Equations:
    """Return online linear regression with ridge, as custom equations.

        dm = lr (rho - (1 + ridge) m)
        dq = 2 lr (m - (1 + ridge) q) + lr^2 (2 e_g + noise_variance)
        e_g = (rho - 2 m + q) / 2

    They equal a `Problem` with one linear unit, weight_decay=ridge and
    noise=sqrt(noise_variance).

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> equations = tutelage_papers.notes.linear_regression(lr=0.5, ridge=0.0)
    >>> theory = tu.solve(equations, {"m": 0.0, "q": 0.0}, times=[0.0, 50.0])
    >>> round(float(theory.error[-1]), 6)
    0.016667
    """

    def error(state: Any) -> Array:
        m, q = state
        return (rho - 2 * m + q) / 2

    def drift(t: Array, state: Any) -> tuple[Array, Array]:
        m, q = state
        dm = lr * (rho - (1 + ridge) * m)
        noise = lr**2 * (2 * error(state) + noise_variance)
        dq = 2 * lr * (m - (1 + ridge) * q) + noise
        return dm, dq

    return tu.Equations(("m", "q"), drift, error)
