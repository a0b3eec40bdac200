"""Numbers that change in time, and `optimize`, which finds the best protocol.

    tu.SGD(lr=tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=10.0))

Any JAX function of the time alpha is a schedule of a learning rate too.
"""

from tutelage.analysis.protocols import OptimalProtocol, greedy, optimize
from tutelage.training.schedules import (
    Constant,
    Cosine,
    Interpolated,
    Linear,
    Piecewise,
    PowerDecay,
    Restarted,
)

__all__ = [
    "Constant",
    "Cosine",
    "Interpolated",
    "Linear",
    "Piecewise",
    "PowerDecay",
    "Restarted",
]
__all__ += ["OptimalProtocol", "greedy", "optimize"]
