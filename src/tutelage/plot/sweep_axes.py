"""The axes of a sweep: what its parameters and measures are called, and which scale their values ask for."""

from typing import Any

import numpy as np

from tutelage.plot.labels import TIME

LABELS = {
    "lr": r"learning rate $\eta$",
    "sgd.lr": r"learning rate $\eta$",
    "noise": r"label noise $\sigma$",
    "student.hidden": "student units $K$",
    "teacher.hidden": "teacher units $M$",
    "student.hidden, teacher.hidden": "units $K=M$",
    "dim": "input dimension $N$",
    "scale": "size of the first weights",
    "batch": "batch",
    "weight_decay": r"weight decay $\kappa$",
    "inputs.beta": r"exponent $\beta$ of the spectrum",
    "inputs.levels": "levels $L$ of the spectrum",
    "time": TIME,
    "point": "number of the point",
}
WORDS = {"error e_g": r"error $\epsilon_g$"}


def axis_label(name: str) -> str:
    """A parameter in words, with its letter."""
    return LABELS.get(name, name.replace("_", " "))


def value_label(values: Any) -> str:
    """A measure in words, its formulas as mathematics."""
    text = str(values.attrs.get("long_name", values.name))
    for plain, maths in WORDS.items():
        text = text.replace(plain, maths)
    return text


def is_numeric(values: np.ndarray) -> bool:
    """Numbers have places on an axis; words stand side by side."""
    return values.dtype.kind in "if"


def label_in_plain_numbers(axis: Any) -> None:
    """0.02, 0.05, 0.1, ...: the values of a parameter seldom span many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def is_evenly_logarithmic(points: np.ndarray) -> bool:
    """Do the values of an axis lie evenly in the logarithm, rather than evenly?"""
    if points.size < 4 or points.min() <= 0:
        return False
    even, log = (np.ptp(np.diff(p)) / np.abs(np.mean(np.diff(p))) for p in (points, np.log(points)))
    return bool(log < even)
