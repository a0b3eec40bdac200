"""tutelage: the exact learning dynamics of two-layer neural networks.

State a problem, solve its theory (order-parameter ODEs), hold the result:

    problem = tu.Problem(tu.Network(3, "erf"), tu.Network(3, "erf"), sgd=tu.SGD(lr=0.5), noise=0.1)
    start = tu.random_start(problem, dim=1000, scale=0.1, seed=0)
    theory = tu.solve(problem, start, times=tu.linear_times(300))

Float64 is switched on at import (set TUTELAGE_X64=0 to keep JAX's own setting).
"""

import os as _os

import jax as _jax

if _os.environ.get("TUTELAGE_X64", "1") != "0":
    _jax.config.update("jax_enable_x64", True)

from tutelage import averages
from tutelage._errors import (
    DivergenceWarning,
    InputError,
    SymmetryWarning,
    TutelageWarning,
    ValidityWarning,
)
from tutelage._version import __version__
from tutelage.averages import Quadrature
from tutelage.dynamics import Equations, generalisation_error, linear_regression
from tutelage.problem import (
    SGD,
    Activation,
    Constant,
    Cosine,
    Inputs,
    Isotropic,
    Network,
    Piecewise,
    PowerDecay,
    PowerLaw,
    Problem,
    SlowMomentum,
    Spectrum,
    Start,
    random_start,
    start_from_weights,
)
from tutelage.simulate import simulate
from tutelage.solve import linear_times, log_times, solve
from tutelage.status import Status
from tutelage.trajectory import Trajectory, load
from tutelage.validity import Validity

__all__ = [
    "SGD",
    "Activation",
    "Constant",
    "Cosine",
    "DivergenceWarning",
    "Equations",
    "InputError",
    "Inputs",
    "Isotropic",
    "Network",
    "Piecewise",
    "PowerDecay",
    "PowerLaw",
    "Problem",
    "Quadrature",
    "SlowMomentum",
    "Spectrum",
    "Start",
    "Status",
    "SymmetryWarning",
    "Trajectory",
    "TutelageWarning",
    "Validity",
    "ValidityWarning",
    "__version__",
    "averages",
    "generalisation_error",
    "linear_regression",
    "linear_times",
    "load",
    "log_times",
    "random_start",
    "simulate",
    "solve",
    "start_from_weights",
]
