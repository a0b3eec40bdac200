"""The problem: networks, input law, learning rule and initial condition.

A problem is checked when it is built, and holds plain data.

    activation -> network -> tasks    the networks
    inputs -> mixture                 the laws of the inputs
    labels                            the laws of the labels, and their error
    data_set                          a finite data set in place of fresh samples
    data_support                      what training on a data set needs, as traits
    problem                           everything together
    traits                            properties that functions may rely on
    serialize                         TOML and JSON
    start                             the initial condition
    sample                            one sample: its label and its update
"""

# ruff: noqa: F401  other packages import these names from here

from tutelage.problem.activation import Activation
from tutelage.problem.data_set import DataSet
from tutelage.problem.inputs import (
    HiddenManifold,
    Inputs,
    Isotropic,
    PowerLaw,
    Spectrum,
)
from tutelage.problem.mixture import Mixture
from tutelage.problem.network import Network
from tutelage.problem.problem import Problem
from tutelage.problem.start import (
    Start,
    asymmetric_start,
    random_start,
    start_from_weights,
)
from tutelage.problem.tasks import Drift, Interleave, Replay, Switch, Tasks
from tutelage.training.optimizers import SGD, GradientDescent, SlowMomentum
from tutelage.training.schedules import (
    Constant,
    Cosine,
    Interpolated,
    Linear,
    Piecewise,
    PowerDecay,
)
