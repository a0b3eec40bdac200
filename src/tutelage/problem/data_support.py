"""The traits of a problem that training on a data set needs."""

import numpy as np

from tutelage.problem.data_set import EPOCHS
from tutelage.problem.problem import Problem
from tutelage.problem.traits import Trait
from tutelage.training.optimizers import SGD, GradientDescent
from tutelage.training.schedules import is_schedule


def _is_plain(problem: Problem) -> bool:
    """Return True for gradient descent, and for SGD that clips nothing."""
    optimizer = problem.optimizer
    if isinstance(optimizer, GradientDescent):
        return True
    if not isinstance(optimizer, SGD):
        return False
    return optimizer.clip is None and optimizer.clip_coordinates is None


def _has_fixed_label_noise(problem: Problem) -> bool:
    """Return True if noise and flips of labels do not change in time."""
    flip = getattr(problem.labels, "flip", None)
    return not is_schedule(problem.noise) and not callable(flip)


def _draws_shares_at_random(problem: Problem) -> bool:
    """Return False for descent that would divide the data set into shares."""
    share = 1.0
    if isinstance(problem.optimizer, GradientDescent):
        share = float(np.asarray(problem.optimizer.share))
    return share == 1 or problem.data is None or problem.data.order != EPOCHS


ON_DATA: tuple[str | Trait, ...] = (
    Trait(
        holds=lambda p: p.data is not None,
        instead="it has no data set",
        remedy="data=DataSet(ratio)",
    ),
    "one task",
    "one Gaussian",
    "gradient",
    "single output",
    "one activation",
    "no momentum",
    "free norms",
    "all levels",
    Trait(
        holds=_is_plain,
        instead="the optimizer is {optimizer}",
        remedy="optimizer=SGD(lr) or GradientDescent(lr)",
    ),
    Trait(
        holds=lambda p: p.hidden_manifold is None,
        instead="its inputs are a HiddenManifold",
        remedy="inputs of one Gaussian",
    ),
    Trait(
        holds=_has_fixed_label_noise,
        instead="the noise of its labels is a schedule",
        remedy="constant noise of labels",
    ),
    Trait(
        holds=_draws_shares_at_random,
        instead="its descent uses a share of the data set in epochs",
        remedy="order='replacement'",
    ),
)
