"""Which students have one minimum: one linear unit and a convex loss."""

from dataclasses import dataclass

import numpy as np

from tutelage import checks
from tutelage.equilibrium.label_nodes import label_nodes
from tutelage.equilibrium.proximal import (
    clipped_line,
    descents_of,
    follows_difference,
    require_convex,
)
from tutelage.equilibrium.separability import separable_below
from tutelage.equilibrium.setting import Setting, require_one_law, setting_of
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.problem.labels import Real
from tutelage.training import rules
from tutelage.training.losses import Hinge, Logistic, Squared
from tutelage.training.optimizers import SGD, GradientDescent

ELSEWHERE = "give the problem data=DataSet(ratio) and follow training with solve."


@dataclass(frozen=True)
class LinearStudent:
    """A student whose output is scale times its field, and what it learns.

    fits_below: the ratio n / N below which weights without ridge fit all samples; a
    minimum does not exist there, or there are many. exact: noiseless labels of a linear
    teacher, which such weights find above this ratio.
    """

    setting: Setting
    scale: float
    fits_below: float
    exact: bool


def linear_student(problem: object, function: str) -> LinearStudent:
    """Return the student of a problem whose minimum is unique; refuse all others."""
    checked = require_one_law(problem, function)
    scale = _output_scale(checked, function)
    if type(checked.rule) is not rules.Gradient:
        raise InputError(
            f"the rule is {type(checked.rule).__name__}; {function} finds the minimum "
            "of a loss, which only rule='gradient' follows."
        )
    optimizer = checked.optimizer
    if getattr(optimizer, "trainable", None) is not None:
        raise InputError(
            f"trainable is set; {function} minimizes over all weights. "
            "Use trainable=None."
        )
    if getattr(optimizer, "spherical", False):
        raise InputError(
            f"spherical is True; on a sphere the minimum is not unique. {function} "
            "needs spherical=False."
        )
    setting = setting_of(checked)
    _require_finite_noise(checked, function)
    labels = np.unique(label_nodes(setting).labels)
    some = labels[np.linspace(0, len(labels) - 1, min(9, len(labels))).astype(int)]
    require_convex(checked.loss, some, function)
    noiseless = isinstance(checked.labels, Real) and not callable(checked.noise)
    exact = setting.linear and setting.offset == 0 and noiseless
    exact = exact and np.all(checked.noise == 0) and checked.unseen is None
    return LinearStudent(
        setting=setting,
        scale=scale,
        fits_below=_fits_below(setting),
        exact=bool(exact),
    )


def _output_scale(problem: Problem, function: str) -> float:
    """Return v times the slope of the activation; refuse all but one linear unit."""
    student = problem.student
    K = student.hidden
    if K > 1:
        raise InputError(
            f"the student has {K} units; the loss is not a convex function of its "
            f"weights, and {function} needs one minimum. Use Network(1, 'linear'), or "
            f"{ELSEWHERE}"
        )
    polynomial = student.activation.polynomial or ()
    if len(polynomial) != 2:
        raise InputError(
            f"the student's activation is {student.activation.name!r}; the loss is not "
            f"a convex function of its weights, and {function} needs one minimum. Use "
            f"Network(1, 'linear'), or {ELSEWHERE}"
        )
    if student.train_readout or student.train_bias or student.bias is not None:
        raise InputError(
            f"the student has a bias, or its readout learns too; {function} minimizes "
            "over first-layer weights alone. Use Network(1, 'linear')."
        )
    constant, slope = polynomial
    scale = float(np.asarray(student.readout)[0]) * slope
    if constant != 0 or scale == 0:
        raise InputError(
            f"the student's output is not proportional to its field; {function} needs "
            "a readout other than 0 and an activation without a constant."
        )
    return scale


def _require_finite_noise(problem: Problem, function: str) -> None:
    """Refuse squared loss with noise of infinite variance."""
    if problem.has_noise_law and type(problem.loss) is Squared:
        law = problem.labels.law(problem.noise)
        law.mean_and_variance()  # pyright: ignore  # raises if it is infinite


def _fits_below(setting: Setting) -> float:
    """Return the ratio below which weights without ridge fit all samples."""
    loss = setting.problem.loss
    if type(loss) in (Hinge, Logistic):
        return separable_below(setting)
    if clipped_line(loss) is not None or follows_difference(descents_of(loss)):
        return 1.0
    if setting.problem.labels.kind == "sign":
        return separable_below(setting)
    return 1.0


def ridges_of(
    problem: Problem, ratios: np.ndarray, ridge: object, function: str
) -> np.ndarray:
    """Return the ridge at each ratio: as given, else weight_decay times ratio."""
    if ridge is None:
        decay = problem.optimizer.weight_decay
        if callable(decay):
            raise InputError(
                f"weight_decay is a schedule; {function} needs the ridge of one loss. "
                "Give ridge=."
            )
        if decay != 0 and not isinstance(problem.optimizer, SGD | GradientDescent):
            name = type(problem.optimizer).__name__
            raise InputError(
                f"the optimizer is {name}, whose weight decay is not a ridge of the "
                f"loss; {function} needs one. Give ridge=, or use SGD."
            )
        ridge = float(decay) * ratios
    values = checks.as_array(
        "ridge",
        ridge,
        checks.require_nonnegative,
        shapes=[(), np.shape(ratios)],
        fix="One ridge for all ratios, or one each.",
    )
    checks.require_untraced("ridge", function, values)
    return np.broadcast_to(np.asarray(values, float), np.shape(ratios))
