"""The problem: networks, input law, learning rule and initial condition. Checked when built, plain data underneath.

activation -> network -> tasks;  inputs -> mixture;  schedules -> optimizers;  data_set    the parts
problem (traits: what functions may rely on; serialize: TOML and JSON)    all of them
start                                                                     the initial condition
sample                                                                    one sample: its label, and the update it makes
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
from tutelage.training.optimizers import SGD, GradientDescent, Optimizer, SlowMomentum
from tutelage.training.schedules import (
    Constant,
    Cosine,
    Interpolated,
    Linear,
    Piecewise,
    PowerDecay,
)
