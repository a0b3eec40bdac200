"""From equations to numbers: the compiled program, the stiff method that knows the structure of the overlaps, and when it
is worth its price."""

from tutelage.integrate.call import (
    BOUND,
    FINE,
    SOLVERS,
    Options,
    Raw,
    anonymous,
    as_arrays,
    first_times,
    integrate,
    padded,
    tolerances,
)
from tutelage.integrate.choice import choose

__all__ = [
    "BOUND",
    "FINE",
    "SOLVERS",
    "Options",
    "Raw",
    "anonymous",
    "as_arrays",
    "choose",
    "first_times",
    "integrate",
    "padded",
    "tolerances",
]
