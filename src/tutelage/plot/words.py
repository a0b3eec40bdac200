"""A problem in words, for titles and tables."""

from typing import Any

import numpy as np

LOSSES = {
    "Squared": "",
    "Absolute": "absolute loss",
    "Huber": "Huber loss",
    "Logistic": "logistic loss",
    "Hinge": "hinge loss",
    "CrossEntropy": "cross-entropy",
}
LABELS = {"Sign": "sign labels", "Logistic": "logistic labels", "Argmax": "argmax labels"}


def problem_in_words(problem: Any) -> tuple[str, str]:
    """Who learns from whom; and how, from what."""
    student, teacher = problem.student, problem.teacher
    trained = " and a trained readout" if student.train_readout else ""
    trained += " and trained biases" if student.train_bias else ""
    who = f"{_units(student)}{trained} {'learns' if student.hidden == 1 else 'learn'} from {_units(teacher)}"
    how = [_rate(problem.sgd.lr), *_learning(problem), _inputs(problem.inputs)]
    return who[0].upper() + who[1:], ", ".join([*how, *_algorithm(problem.sgd)])


def _learning(problem: Any) -> list[str]:
    """Loss and rule where they are not the usual ones; the labels, or their noise."""
    rule, own = type(problem.rule).__name__, "a loss of your own"
    words = [] if rule == "Gradient" else [f"{rule} rule"]
    if rule == "Gradient" and (name := LOSSES.get(type(problem.loss).__name__, own)):
        words.append(name)
    kind = type(problem.labels).__name__
    if kind == "Real":
        own_noise = "label noise by a quantile function"
        noise = None if callable(problem.noise) else float(problem.noise)
        return [*words, own_noise if noise is None else f"label noise {noise:g}" if noise else "no label noise"]
    flip = float(getattr(problem.labels, "flip", 0.0))
    return [*words, LABELS.get(kind, "labels of your own") + (f", flipped with probability {flip:g}" if flip else "")]


def settings_in_words(trajectory: Any) -> list[str]:
    """What else a curve depends on: gradient flow, the N of its start."""
    settings = dict(trajectory.settings)
    dim = None if trajectory.start is None else trajectory.start.dim
    words = ["gradient flow"] if settings.get("gradient_flow") else []
    return words + ([f"start of $N={dim}$"] if dim is not None else [])


def _units(network: Any) -> str:
    count, name = network.hidden, network.activation.name
    return f"{'one' if count == 1 else count} {name} unit{'' if count == 1 else 's'}"


def _rate(lr: Any) -> str:
    if not callable(lr):
        return f"learning rate {float(np.asarray(lr)):g}"
    kind = type(lr).__name__
    if kind == "Constant":
        return f"learning rate {float(lr.value):g}"
    if kind == "PowerDecay":
        return f"learning rate falling from {float(lr.initial):g} as a power {float(lr.exponent):g} of time"
    if kind == "Cosine":
        return f"learning rate on a cosine from {float(lr.initial):g} to {float(lr.final):g}"
    if kind == "Piecewise":
        return f"learning rate in {np.size(lr.values)} steps from {float(lr.values[0]):g} to {float(lr.values[-1]):g}"
    if kind == "Interpolated":
        first, last = float(lr.values[0]), float(lr.values[-1])
        return f"learning rate through {np.size(lr.values)} values from {first:.3g} to {last:.3g}"
    return "learning rate on a schedule"


def _inputs(inputs: Any) -> str:
    kind = type(inputs).__name__
    if kind == "Isotropic":
        return "isotropic inputs"
    if kind == "PowerLaw":
        return f"power-law inputs (beta = {float(inputs.beta):g}, {_levels(inputs)})"
    return f"inputs with {_levels(inputs)}"


def _levels(inputs: Any) -> str:
    return f"{inputs.levels} level{'' if inputs.levels == 1 else 's'}"


def _algorithm(sgd: Any) -> list[str]:
    """What differs from plain SGD with one sample per step."""
    words = [f"batches of {int(sgd.batch)}"] if int(sgd.batch) != 1 else []
    if float(sgd.weight_decay) > 0:
        words.append(f"weight decay {float(sgd.weight_decay):g}")
    if hasattr(sgd.momentum, "gamma"):
        words.append("slow momentum")
    elif float(sgd.momentum) > 0:
        words.append(f"momentum {float(sgd.momentum):g}")
    words += ["some levels frozen"] if sgd.trainable is not None else []
    return words + (["weights of fixed length"] if sgd.spherical else [])
