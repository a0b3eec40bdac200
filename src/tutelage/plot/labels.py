"""Texts of figures: names of axes, quantities and parameters; a problem in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # figures can be listed without JAX
    from xarray import DataArray

    from tutelage._part import Part
    from tutelage.problem import Network, Problem, Tasks
    from tutelage.result.trajectory import Trajectory

TIME = r"time $\alpha$ = steps / $N$"
TIMES = {"alpha": TIME, "steps": "steps", "samples": "samples"}
ERROR = r"generalization error $\epsilon_g$"
ERROR_IN_TWO_LINES = "generalization\n" + r"error $\epsilon_g$"  # for low panels
PARAMETERS = {
    "lr": r"learning rate $\eta$",
    "optimizer.lr": r"learning rate $\eta$",
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


# Quantities
#
# A curve is anything with times, error, variables, kind and problem: a `Trajectory`, or
# the curve of an analysis.


def time_label(curve: Any, time: str = "alpha") -> str:
    """The name of the time axis; custom equations have a time of their own."""
    if curve.kind == "equations":
        return "time"
    if curve.problem is not None and curve.problem.optimizer.counts_steps:
        return "steps"
    return TIMES[time]


def error_label(curve: Any) -> str:
    """The name of the error axis, which depends on the labels of the problem."""
    if curve.kind == "equations" or curve.problem is None:
        return "error"
    if curve.problem.labels.metric == "squared":
        return ERROR_IN_TWO_LINES
    return "probability of\na wrong class"


def columns_of_R(problem: Problem | None, count: int) -> tuple[str, list[str]]:
    """The kind of the columns of R, and a label for each of them.

    Columns are teacher units, units of tasks, or means of a mixture. If a teacher
    labels a mixture, there are columns of both kinds: the kind is then "", and each
    label contains its own.
    """
    teacher = getattr(problem, "teacher", None)
    tasks = getattr(problem, "several_tasks", None)
    numbers = [str(column + 1) for column in range(count)]
    if tasks is not None and tasks.count > 1:
        task_of_units = tasks.task_of_units
        if task_of_units.size == tasks.count:
            return "task", numbers
        return "task.unit", _numbers_within_tasks(task_of_units)
    if problem is None or problem.inputs.classes is None:
        return "teacher", numbers
    if teacher is None:
        return "mean", numbers
    # The columns of the means follow those of the teacher units.
    units = teacher.hidden
    of_teacher = [f"teacher {unit + 1}" for unit in range(min(units, count))]
    of_means = [f"mean {mean + 1}" for mean in range(count - units)]
    return "", of_teacher + of_means


def _numbers_within_tasks(task_of_units: np.ndarray) -> list[str]:
    """Labels "task.unit", in which the units of each task are counted from 1."""
    labels = []
    for place, task in enumerate(task_of_units):
        units_before = np.sum(task_of_units[:place] == task)
        labels.append(f"{task + 1}.{units_before + 1}")
    return labels


def quantity_label(name: str, problem: Problem | None = None) -> str:
    """The name of a variable in two lines.

    With a mixture, R contains the overlaps with its means, too.
    """
    if name == "R":
        kind, _ = columns_of_R(problem, 1)
        if kind == "mean":
            return "student–mean\noverlaps $R_{km}$"
        if kind == "":
            return "overlaps $R_{km}$ with\nteacher and means"
    return QUANTITIES.get(name, name)


def parameter_label(name: str) -> str:
    """A parameter of a sweep, or a control of a protocol, in words with its letter."""
    return PARAMETERS.get(name, name.replace("_", " "))


def measure_label(values: DataArray) -> str:
    """A measure of a sweep in words, its formula as mathematics."""
    words = str(values.attrs.get("long_name", values.name))
    return words.replace("error e_g", r"error $\epsilon_g$")


def capital(text: str) -> str:
    """The text with a capital letter at the beginning."""
    return text[:1].upper() + text[1:]


def first_line(result: object) -> str:
    """The first line of a result as text."""
    return str(result).split("\n")[0]


def joined_numbers(indices: Iterable[int], count: int) -> str:
    """Indices below `count`, counted from 1: "12", or "1,12" with two digits."""
    separator = ""
    if count >= 10:
        separator = ","
    return separator.join(str(index + 1) for index in indices)


# A problem in words


def problem_in_words(
    problem: Problem, without: tuple[str, ...] = ()
) -> tuple[str, str]:
    """Title and conditions of a problem: who learns from whom; and how, from what.

    without: beginnings of the conditions that a figure varies, and so leaves out.
    """
    student = problem.student
    conditions = []
    tasks = problem.several_tasks
    if tasks is not None:
        source = _teachers_in_words(tasks)
        conditions += _tasks_in_words(tasks)
    elif problem.teacher is None:
        source = "to tell classes apart"
    else:
        source = f"from {_units_in_words(problem.labeler)}"

    conditions.append(f"learning rate {_argument_in_words(problem.optimizer.lr)}")
    conditions += _special_arguments_in_words(problem.optimizer, "lr")
    conditions += _learning_in_words(problem)
    conditions.append(_inputs_in_words(problem.inputs))
    shown = [words for words in conditions if not words.startswith(without)]

    learner = _units_in_words(student)
    if student.train_readout:
        learner += " and a trained readout"
    if student.train_bias:
        learner += " and trained biases"
    verb = "learn"
    if student.hidden == 1:
        verb = "learns"
    return capital(f"{learner} {verb} {source}"), ", ".join(shown)


def title_and_conditions(curve: Any) -> tuple[str, str]:
    """As `problem_in_words`, for a curve that may have no problem."""
    if curve.problem is not None:
        return problem_in_words(curve.problem)
    if curve.kind == "equations":
        return "Custom equations", ""
    return "Order parameters", ""


def settings_in_words(trajectory: Trajectory) -> list[str]:
    """Further conditions of a curve: gradient flow, the N of its initial condition."""
    words = []
    if dict(trajectory.settings).get("gradient_flow"):
        words.append("gradient flow")
    if trajectory.start is not None and trajectory.start.dim is not None:
        words.append(f"initial condition of $N={trajectory.start.dim}$")
    return words


def _units_in_words(network: Network) -> str:
    """The hidden units of a network: "3 erf units with 2 outputs"."""
    activation = network.activation.name
    if network.hidden == 1:
        words = f"one {activation} unit"
    else:
        words = f"{network.hidden} {activation} units"
    if network.outputs > 1:
        words += f" with {network.outputs} outputs"
    return words


def _teachers_in_words(tasks: Tasks) -> str:
    """The number of tasks and their teachers."""
    teachers = [_units_in_words(teacher) for teacher in tasks.teachers]
    if tasks.count == 1:
        return f"from {teachers[0]}"
    if len(set(teachers)) == 1:
        return f"{tasks.count} tasks ({teachers[0]} each)"
    return f"{tasks.count} tasks ({', '.join(teachers)})"


def _tasks_in_words(tasks: Tasks) -> list[str]:
    """Schedule, similarity, heads and drift of tasks."""
    words = _schedule_in_words(tasks)
    if tasks.similarity is not None and np.ndim(tasks.similarity) == 0:
        words.append(f"similarity {_numbers_in_words(tasks.similarity)}")
    if tasks.count > 1 and tasks.heads == "shared":
        words.append("one head for all tasks")
    if tasks.drift is not None:
        words.append(f"drift {_numbers_in_words(tasks.drift.rate)}")
    return words


def _schedule_in_words(tasks: Tasks) -> list[str]:
    """The times at which tasks are learned, according to the kind of schedule."""
    schedule = tasks.schedule
    if hasattr(schedule, "after"):
        return [
            f"switch at {_numbers_in_words(schedule.after)}",
            f"replay {_numbers_in_words(schedule.fraction)}",
        ]
    if hasattr(schedule, "times"):
        words = [f"switch at {_numbers_in_words(schedule.times)}"]
        if schedule.order is not None:
            order = ", ".join(str(task + 1) for task in schedule.order)
            words.append(f"order {order}")
        return words
    if tasks.count > 1:
        return [repr(schedule)]
    return []


def _numbers_in_words(value: Any) -> str:
    """One number, several numbers, or "on a schedule" for a function of time."""
    if callable(value):
        return "on a schedule"
    return " and ".join(f"{float(number):g}" for number in np.ravel(value))


def _special_arguments_in_words(part: Part, *without: str) -> list[str]:
    """The arguments of a part that differ from their defaults: "momentum 0.9"."""
    from tutelage._part import special_arguments

    words = []
    for name, value in special_arguments(part).items():
        if name not in without:
            readable_name = name.replace("_", " ")
            words.append(f"{readable_name} {_argument_in_words(value)}")
    return words


def _argument_in_words(value: Any) -> str:
    """An argument: a number, one of our schedules as a user writes it, or a note.

    A function of the user has no form that could be shown, so it is only mentioned.
    """
    from tutelage import checks
    from tutelage._part import Part

    if callable(value) and not isinstance(value, Part):
        return "by a custom function"
    return checks.shown(value)


def _learning_in_words(problem: Problem) -> list[str]:
    """Loss, labels and rule if they are not the usual ones; noise of real labels."""
    from tutelage.problem.serialize import LEARNING

    words = []
    for name, choice in LEARNING.items():
        part = getattr(problem, name)
        word = choice.word(part)
        if word is None:
            words.append(f"custom {name}")
        elif word != choice.default:
            choice_in_words = f"{word.replace('_', ' ')} {name}"
            arguments = ", ".join(_special_arguments_in_words(part))
            if arguments:
                choice_in_words += f" ({arguments})"
            words.append(choice_in_words)
    if LEARNING["labels"].word(problem.labels) == "real":
        words.append(_noise_in_words(problem))
    if problem.data is not None:
        ratio = _numbers_in_words(problem.data.ratio)
        words.append(f"{ratio} samples per dimension")
    return words


def _noise_in_words(problem: Problem) -> str:
    if problem.has_noise_law:
        return "label noise by a quantile function"
    noise = _numbers_in_words(problem.noise)
    if noise == "0":
        return "no label noise"
    return f"label noise {noise}"


def _inputs_in_words(inputs: Any) -> str:
    from tutelage.problem import Isotropic, PowerLaw

    if inputs.classes is not None:
        if len(inputs.laws) == 1:
            spectra = _inputs_in_words(inputs.laws[0])
        else:
            spectra = "inputs with a custom spectrum"
        return f"a mixture of {inputs.classes} classes of {spectra}"
    if isinstance(inputs, Isotropic):
        return "isotropic inputs"
    if inputs.is_latent:
        features = f"{inputs.activation.name} features"
        manifold = f"a hidden manifold of {inputs.dim_latent} dimensions"
        return f"inputs on {manifold} ({features})"
    levels = f"{inputs.levels} levels"
    if inputs.levels == 1:
        levels = "1 level"
    if isinstance(inputs, PowerLaw):
        beta = _numbers_in_words(inputs.beta)
        return f"power-law inputs (beta = {beta}, {levels})"
    return f"inputs with {levels}"
