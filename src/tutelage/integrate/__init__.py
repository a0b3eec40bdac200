"""From equations to numbers: the compiled program, its explicit integrator, and diffrax for gradients and stiffness."""

from tutelage.integrate.program import (
    BOUND,
    FINE,
    MAX_STEPS,
    SOLVERS,
    Options,
    Raw,
    anonymous,
    as_arrays,
    by_quadrature,
    choose,
    first_times,
    integrate,
    padded,
    tolerances,
)

__all__ = [
    "BOUND",
    "FINE",
    "MAX_STEPS",
    "SOLVERS",
    "Options",
    "Raw",
    "anonymous",
    "as_arrays",
    "by_quadrature",
    "choose",
    "first_times",
    "integrate",
    "padded",
    "tolerances",
]
