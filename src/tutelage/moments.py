"""The averages of a learning rule over one sample, and the integrals behind them.

tu.moments.I2("erf", [[1.0, 0.5], [0.5, 1.0]])
"""

from tutelage.stream.moments import (
    I2,
    I3,
    I4,
    J2,
    Moments,
    Quadrature,
    Sampled,
    moments_for,
)

__all__ = [
    "I2",
    "I3",
    "I4",
    "J2",
    "Moments",
    "Quadrature",
    "Sampled",
    "moments_for",
]
