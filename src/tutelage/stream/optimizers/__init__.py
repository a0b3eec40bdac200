"""Theory of the optimizers: how averages of updates move the overlaps.

base: `StepTheory`, what an optimizer says, and `step_theory_of`, found among its subclasses.
sgd, sign_sgd, adaptive (RMSprop, Adam, AdaGrad), muon: one file for each kind of step.
"""

# ruff: noqa: F401  other packages import these names from here

from tutelage.stream.optimizers import adaptive, muon, sgd, sign_sgd
from tutelage.stream.optimizers.base import Motion, Scales, StepTheory, step_theory_of
