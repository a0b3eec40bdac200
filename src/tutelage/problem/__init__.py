"""The problem: networks, input law, learning rule and initial condition. Checked when built, plain data underneath.

activation -> network -> tasks;  inputs (hidden_manifold) -> mixture;  schedules (SGD)    the parts
problem (traits: what functions may rely on; serialize: TOML and JSON)    all of them
start                                                                     the initial condition
sample                                                                    one sample: its label, and the update it makes
"""

from tutelage.problem.activation import Activation
from tutelage.problem.hidden_manifold import HiddenManifold
from tutelage.problem.inputs import Inputs, Isotropic, PowerLaw, Spectrum
from tutelage.problem.mixture import Mixture
from tutelage.problem.network import Network
from tutelage.problem.problem import Problem
from tutelage.problem.schedules import SGD, Constant, Cosine, Interpolated, Linear, Piecewise, PowerDecay, SlowMomentum
from tutelage.problem.start import Start, asymmetric_start, random_start, start_from_weights
from tutelage.problem.tasks import Drift, Interleave, Replay, Switch, Tasks

__all__ = [
    "SGD",
    "Activation",
    "Constant",
    "Cosine",
    "Drift",
    "HiddenManifold",
    "Inputs",
    "Interleave",
    "Interpolated",
    "Isotropic",
    "Linear",
    "Mixture",
    "Network",
    "Piecewise",
    "PowerDecay",
    "PowerLaw",
    "Problem",
    "Replay",
    "SlowMomentum",
    "Spectrum",
    "Start",
    "Switch",
    "Tasks",
    "asymmetric_start",
    "random_start",
    "start_from_weights",
]
