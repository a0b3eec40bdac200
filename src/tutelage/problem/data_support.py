"""Which problems can be trained on a data set, in theory and in simulations."""

import numpy as np

from tutelage import checks
from tutelage.errors import InputError
from tutelage.problem.data_set import EPOCHS
from tutelage.problem.inputs import HiddenManifold
from tutelage.problem.problem import Problem
from tutelage.problem.traits import TRAITS, missing_traits, said_instead
from tutelage.training.optimizers import SGD, GradientDescent
from tutelage.training.schedules import is_schedule

# What training on a data set needs of a problem, by the names of traits.
NEEDED = (
    "one task",
    "one Gaussian",
    "gradient",
    "single output",
    "one activation",
    "no momentum",
    "free norms",
    "all levels",
    "visible teacher",
)


def missing_for_data(problem: Problem) -> list[str]:
    """Say what a problem has that training on a data set does not support, in words."""
    lacking = [
        said_instead(problem, [name]) for name in missing_traits(problem, NEEDED)
    ]
    if problem.data is None:
        return [*lacking, "it has no data"]
    optimizer = problem.optimizer
    if not isinstance(optimizer, SGD | GradientDescent):
        lacking.append(f"the optimizer is {type(optimizer).__name__}")
    if isinstance(problem.inputs, HiddenManifold):
        lacking.append("its inputs are a HiddenManifold")
    if is_schedule(problem.noise) or callable(getattr(problem.labels, "flip", None)):
        lacking.append("the noise of its labels is a schedule")
    share = 1.0
    if isinstance(optimizer, GradientDescent):
        share = float(np.asarray(optimizer.share))
    if share < 1 and problem.data.order == EPOCHS:
        lacking.append("its descent uses a share of the data set in epochs")
    return lacking


def require_data_support(
    problem: Problem, function: str, lacking: tuple[str, ...] = ()
) -> None:
    """Refuse, in one message, a problem that cannot be trained on its data set.

    lacking: what else is missing, in words.
    """
    checks.require_untraced("the problem", function, problem)
    words = [*missing_for_data(problem), *lacking]
    if not words:
        return
    remedies = [TRAITS[name].remedy for name in missing_traits(problem, NEEDED)]
    fix = "Drop data= for fresh samples."
    if remedies:
        fix = f"Use {' and '.join(remedies)}, or drop data= for fresh samples."
    raise InputError(
        f"{function} with a data set does not support this problem: "
        f"{', and '.join(words)}. {fix}"
    )
