# What a script types. lazy_loader reads this list: a name is loaded when it is first used.
from . import (
    analysis,
    errors,
    labels,
    losses,
    moments,
    optimizers,
    page,
    papers,
    plot,
    rules,
    schedules,
)
from ._version import __version__
from .comparison import compare
from .data import from_data
from .errors import InputError
from .explorer import explore
from .problem import (
    SGD,
    Activation,
    DataSet,
    Drift,
    HiddenManifold,
    Inputs,
    Interleave,
    Isotropic,
    Mixture,
    Network,
    PowerLaw,
    Problem,
    Replay,
    SlowMomentum,
    Spectrum,
    Start,
    Switch,
    Tasks,
    asymmetric_start,
    random_start,
    start_from_weights,
)
from .problem.inputs import digits
from .result.trajectory import Trajectory, load
from .simulation import simulate
from .solvers import Equations
from .stream import generalization_error
from .stream.moments import Quadrature, Sampled
from .stream.solve import solve, solve_batch
from .sweeps.sweep import open_sweep, sweep
from .times import linear_times, log_times
from .training.rules import Rule

__all__ = [
    "SGD",
    "Activation",
    "DataSet",
    "Drift",
    "Equations",
    "HiddenManifold",
    "InputError",
    "Inputs",
    "Interleave",
    "Isotropic",
    "Mixture",
    "Network",
    "PowerLaw",
    "Problem",
    "Quadrature",
    "Replay",
    "Rule",
    "Sampled",
    "SlowMomentum",
    "Spectrum",
    "Start",
    "Switch",
    "Tasks",
    "Trajectory",
    "__version__",
    "analysis",
    "asymmetric_start",
    "compare",
    "digits",
    "errors",
    "explore",
    "from_data",
    "generalization_error",
    "labels",
    "linear_times",
    "load",
    "log_times",
    "losses",
    "moments",
    "open_sweep",
    "optimizers",
    "page",
    "papers",
    "plot",
    "random_start",
    "rules",
    "schedules",
    "simulate",
    "solve",
    "solve_batch",
    "start_from_weights",
    "sweep",
]
