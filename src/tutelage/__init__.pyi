# What a script types. lazy_loader reads this list: a name is loaded when it is first used.
from . import (
    analysis,
    conventions,
    errors,
    labels,
    losses,
    moments,
    optimizers,
    page,
    plot,
    rules,
    schedules,
    theories,
)
from ._solve import simulate, solve, solve_batch
from ._version import __version__
from .comparison import compare, gaps
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
from .recording import Recorder, runs_from_overlaps, runs_from_weights
from .result.trajectory import Trajectory, load
from .solvers import Equations
from .stream import generalization_error
from .stream.moments import Quadrature, Sampled
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
    "Recorder",
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
    "conventions",
    "digits",
    "errors",
    "explore",
    "from_data",
    "gaps",
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
    "plot",
    "random_start",
    "rules",
    "runs_from_overlaps",
    "runs_from_weights",
    "schedules",
    "simulate",
    "solve",
    "solve_batch",
    "start_from_weights",
    "sweep",
    "theories",
]
