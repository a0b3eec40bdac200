"""Optimizers: how the updates of single samples move the weights.

base: `Optimizer`, the arguments that all share, and the registry `OPTIMIZERS`.
One file for each optimizer: its arguments, its name in files, and the conditions that it
needs. The theory of its steps is in `stream/optimizers/`, the steps of finite networks in
`simulation/optimizers/`, one file for each optimizer too.
"""

# ruff: noqa: F401  other packages import these names from here

from tutelage.training.optimizers.adagrad import AdaGrad
from tutelage.training.optimizers.adam import Adam
from tutelage.training.optimizers.base import DEFAULT_LR, OPTIMIZERS, Optimizer
from tutelage.training.optimizers.gradient_descent import GradientDescent
from tutelage.training.optimizers.muon import Muon
from tutelage.training.optimizers.rmsprop import RMSprop
from tutelage.training.optimizers.sgd import SGD, SlowMomentum
from tutelage.training.optimizers.sign_sgd import SignSGD
