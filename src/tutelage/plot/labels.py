"""Texts of figures: names of axes, quantities and parameters, and a problem in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # figures can be listed without JAX
    from xarray import DataArray

    from tutelage._part import Part
    from tutelage.problem import Inputs, Network, Problem, Tasks
    from tutelage.trajectory import Trajectory

TIME = r"time $\alpha$ = steps / $N$"
ERROR = r"generalization error $\epsilon_g$"
ERROR_IN_TWO_LINES = "generalization\n" + r"error $\epsilon_g$"  # for low panels
PARAMETERS = {
    "lr": r"learning rate $\eta$",
    "sgd.lr": r"learning rate $\eta$",
    "noise": r"label noise $\sigma$",
    "student.hidden": "student units $K$",
    "teacher.hidden": "teacher units $M$",
    "student.hidden, teacher.hidden": "units $K=M$",
    "dim": "input dimension $N$",
    "scale": "size of the first weights",
    "weight_decay": r"weight decay $\kappa$",
    "readout_lr": r"readout rate $\eta_v$",
    "bias_lr": r"bias rate $\eta_b$",
    "flip": "flipped labels",
    "keep": "active units",
    "feedback": "feedback strength",
    "tasks": "share of task 1",
    "replay": "replayed share",
    "inputs.beta": r"exponent $\beta$ of the spectrum",
    "inputs.levels": "levels $L$ of the spectrum",
    "time": TIME,
    "point": "number of the point",
}
QUANTITIES = {
    "R": "student–teacher\noverlaps $R_{km}$",
    "Q": "student–student\noverlaps $Q_{kl}$",
    "readout": "readouts $v_k$",
    "bias": "biases $b_k$",
}


# Quantities. A curve is anything with times, error, variables, kind and problem: a `Trajectory`, or the curve of an analysis.


def time_label(curve: Any) -> str:
    """What the time axis measures; custom equations have a time of their own."""
    return TIME if curve.kind != "equations" else "time"


def error_label(curve: Any) -> str:
    """What the error is: the labels of the problem decide."""
    if curve.kind == "equations" or curve.problem is None:
        return "error"
    return ERROR_IN_TWO_LINES if curve.problem.labels.metric == "squared" else "probability of\na wrong class"


def columns_of_R(problem: Problem | None, count: int) -> tuple[str, list[str]]:
    """What the columns of R belong to, and their labels: teacher units, units of tasks, or the means of a mixture.

    Where a teacher labels a mixture, there are columns of both kinds, and the labels hold the kind.
    """
    from tutelage.problem import Mixture, Tasks

    teacher, numbers = getattr(problem, "teacher", None), [str(m + 1) for m in range(count)]
    if isinstance(teacher, Tasks) and teacher.count > 1:
        own = teacher.task_of_units
        if own.size == teacher.count:
            return "task", numbers
        return "task.unit", [f"{s + 1}.{np.sum(own[:m] == s) + 1}" for m, s in enumerate(own)]
    if problem is None or not isinstance(problem.inputs, Mixture):
        return "teacher", numbers
    if teacher is None:
        return "mean", numbers
    units = teacher.hidden
    return "", [f"teacher {m + 1}" if m < units else f"mean {m - units + 1}" for m in range(count)]


def quantity_label(name: str, problem: Problem | None = None) -> str:
    """What a variable is, in two lines; the overlaps R of a mixture are those with its means, too."""
    if name == "R" and (kind := columns_of_R(problem, 1)[0]) in ("mean", ""):
        return "student–mean\noverlaps $R_{km}$" if kind else "overlaps $R_{km}$ with\nteacher and means"
    return QUANTITIES.get(name, name)


def parameter_label(name: str) -> str:
    """A parameter of a sweep, or a control of a protocol, in words with its letter."""
    return PARAMETERS.get(name, name.replace("_", " "))


def measure_label(values: DataArray) -> str:
    """A measure of a sweep in words, its formula as mathematics."""
    return str(values.attrs.get("long_name", values.name)).replace("error e_g", r"error $\epsilon_g$")


def capital(text: str) -> str:
    """The text with a capital letter at the beginning."""
    return text[:1].upper() + text[1:]


# A problem in words


def problem_in_words(problem: Problem, without: tuple[str, ...] = ()) -> tuple[str, str]:
    """Title and conditions of a problem: who learns from whom; and how, from what.

    without: beginnings of the conditions that a figure varies, and so leaves out.
    """
    from tutelage.problem import Tasks

    student, teacher = problem.student, problem.teacher
    trained = " and a trained readout" if student.train_readout else ""
    trained += " and trained biases" if student.train_bias else ""
    verb = "learns" if student.hidden == 1 else "learn"
    what, how = "to tell classes apart", []
    if isinstance(teacher, Tasks):
        what, how = _tasks(teacher)
    elif teacher is not None:
        what = f"from {_units(teacher)}"
    how += [f"learning rate {_value(problem.sgd.lr)}", *_special(problem.sgd, "lr")]
    how += [*_learning(problem), _inputs(problem.inputs)]
    shown = ", ".join(words for words in how if not words.startswith(without))
    return capital(f"{_units(student)}{trained} {verb} {what}"), shown


def title_and_conditions(curve: Any) -> tuple[str, str]:
    """As `problem_in_words`, for a curve that may have no problem."""
    if curve.problem is None:
        return ("Custom equations" if curve.kind == "equations" else "Order parameters"), ""
    return problem_in_words(curve.problem)


def settings_in_words(trajectory: Trajectory) -> list[str]:
    """What else a curve depends on: gradient flow, the N of its initial condition."""
    dim = None if trajectory.start is None else trajectory.start.dim
    words = ["gradient flow"] if dict(trajectory.settings).get("gradient_flow") else []
    return words + ([f"initial condition of $N={dim}$"] if dim is not None else [])


def _units(network: Network) -> str:
    count, name = network.hidden, network.activation.name
    outputs = f" with {network.outputs} outputs" if network.outputs > 1 else ""
    return f"{'one' if count == 1 else count} {name} unit{'' if count == 1 else 's'}{outputs}"


def _tasks(tasks: Tasks) -> tuple[str, list[str]]:
    """How many tasks and with which teachers; schedule, similarity, heads and drift."""
    kinds = [_units(teacher) for teacher in tasks.teachers]
    each = f"{kinds[0]} each" if len(set(kinds)) == 1 else ", ".join(kinds)
    schedule, several = tasks.schedule, tasks.count > 1
    words = [repr(schedule)] if several else []
    if hasattr(schedule, "after"):
        words = [f"switch at {_number(schedule.after)}", f"replay {_number(schedule.fraction)}"]
    elif hasattr(schedule, "times"):
        words = [f"switch at {_number(schedule.times)}"]
        words += [] if schedule.order is None else [f"order {', '.join(str(task + 1) for task in schedule.order)}"]
    if tasks.similarity is not None and np.ndim(tasks.similarity) == 0:
        words.append(f"similarity {_number(tasks.similarity)}")
    words += ["one head for all tasks"] if several and tasks.heads == "shared" else []
    words += [f"drift {_number(tasks.drift.rate)}"] if tasks.drift is not None else []
    return f"{tasks.count} tasks ({each})" if several else f"from {kinds[0]}", words


def _number(value: Any) -> str:
    """A number, several, or that it is a schedule."""
    return "on a schedule" if callable(value) else " and ".join(f"{float(number):g}" for number in np.ravel(value))


def _special(part: Part, *without: str) -> list[str]:
    """The arguments of a part that differ from their defaults: "momentum 0.9"."""
    from tutelage._part import special_arguments

    special = special_arguments(part).items()
    return [f"{name.replace('_', ' ')} {_value(value)}" for name, value in special if name not in without]


def _value(value: Any) -> str:
    """An argument: a number, a schedule of ours as one writes it, or that it is a custom function."""
    from tutelage import checks
    from tutelage._part import Part

    return "by a custom function" if callable(value) and not isinstance(value, Part) else checks.shown(value)


def _learning(problem: Problem) -> list[str]:
    """Loss, labels and rule where they are not the usual ones, and the noise of real labels."""
    from tutelage.problem.serialize import LEARNING

    words = []
    for name, choice in LEARNING.items():
        part = getattr(problem, name)
        word = choice.word(part)
        if word is None:
            words.append(f"custom {name}")
        elif word != choice.default:
            special = ", ".join(_special(part))
            words.append(f"{word.replace('_', ' ')} {name}" + (f" ({special})" if special else ""))
    if LEARNING["labels"].word(problem.labels) != "real":
        return words
    noise = "by a quantile function" if problem.has_noise_law else _number(problem.noise)
    return [*words, f"label noise {noise}" if noise != "0" else "no label noise"]


def _inputs(inputs: Inputs) -> str:
    from tutelage.problem import HiddenManifold, Isotropic, Mixture, PowerLaw

    if isinstance(inputs, Mixture):
        spectra = _inputs(inputs.laws[0]) if len(inputs.laws) == 1 else "inputs with a custom spectrum"
        return f"a mixture of {inputs.classes} classes of {spectra}"
    if isinstance(inputs, Isotropic):
        return "isotropic inputs"
    if isinstance(inputs, HiddenManifold):
        return f"inputs on a hidden manifold of {inputs.dim_latent} dimensions ({inputs.activation.name} features)"
    levels = f"{inputs.levels} level{'' if inputs.levels == 1 else 's'}"
    power_law = isinstance(inputs, PowerLaw)
    return f"power-law inputs (beta = {_number(inputs.beta)}, {levels})" if power_law else f"inputs with {levels}"
