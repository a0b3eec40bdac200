"""What is asked: the networks, the inputs, the algorithm and the start. Checked when built, plain data underneath.

activation -> network;  images -> inputs;  schedules -> sgd                             the parts
problem (all of them; serialize: as plain data, TOML and JSON) -> start                 the question, and where it begins
arguments: how verbs check the problem and the start that they are given
"""

from tutelage.problem.activation import Activation
from tutelage.problem.inputs import Inputs, Isotropic, PowerLaw, Spectrum
from tutelage.problem.network import Network
from tutelage.problem.problem import Problem
from tutelage.problem.schedules import Constant, Cosine, Interpolated, Piecewise, PowerDecay
from tutelage.problem.sgd import SGD, SlowMomentum
from tutelage.problem.start import Start, asymmetric_start, random_start, start_from_weights

__all__ = [
    "SGD",
    "Activation",
    "Constant",
    "Cosine",
    "Inputs",
    "Interpolated",
    "Isotropic",
    "Network",
    "Piecewise",
    "PowerDecay",
    "PowerLaw",
    "Problem",
    "SlowMomentum",
    "Spectrum",
    "Start",
    "asymmetric_start",
    "random_start",
    "start_from_weights",
]
