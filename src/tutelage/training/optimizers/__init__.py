"""Optimizers: how the updates of single samples move the weights.

base: `Optimizer`, the arguments that all share, and the registry `OPTIMIZERS`.
One file for each optimizer: its arguments, its name in files, and the conditions that it
needs. changed_rule: a rule whose updates an optimizer changes, sample by sample.

The theory of its steps is in `stream/optimizers/`. The steps of finite networks are in
`simulation/numba_kernels.py`, and in JAX in `simulation/optimizer_steps.py`.
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
