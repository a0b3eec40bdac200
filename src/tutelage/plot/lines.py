"""Lines of order parameters: which ones a variable has, and how they look.

Few lines (up to `NAMED_LINES`) are named one by one; more share a look by student unit;
many share one color.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.style import COLORS, DASHES, FAINT, Look, line_look, stroke

if TYPE_CHECKING:
    from tutelage.problem import Problem

NAMED_LINES = 9  # lines of a panel that are named one by one
LETTERS = {"readout": "v", "bias": "b"}


class Line(NamedTuple):
    """A line of a panel.

    values: (run, time). unit, partner: see `style.stroke`. group: the name that it
    shares with other lines where lines are too many to name.
    """

    values: np.ndarray
    label: str
    unit: int
    partner: int = 0
    group: str = ""


def lines_of(
    name: str, values: np.ndarray, problem: Problem | None = None
) -> list[Line]:
    """The lines of one variable, (run, time, ...).

    The color follows from the first index (the unit), the dashes from the last. Lines
    of R name the task of their column, or whether it is a teacher unit or a mean.
    """
    if values.ndim == 2:
        return [Line(values=values, label=name, unit=0)]
    if name == "Q" and values.ndim == 4:
        return _norms_and_pairs(values)
    if name == "readout" and values.ndim == 4 and _has_separate_heads(problem):
        return _lines_of_heads(values)
    shape = values.shape[2:]
    suffixes = [""] * shape[-1]
    if name == "R":
        suffixes = _suffixes_of_columns(problem, shape[-1])
    lines = []
    for index in np.ndindex(shape):
        line = Line(
            values=values[(..., *index)],
            label=_symbol(name, index, max(shape)) + suffixes[index[-1]],
            unit=index[0],
            partner=index[-1],
            group=f"unit {index[0] + 1}",
        )
        lines.append(line)
    return lines


def _has_separate_heads(problem: Problem | None) -> bool:
    teacher = getattr(problem, "teacher", None)
    return getattr(teacher, "heads", "") == "separate"


def _suffixes_of_columns(problem: Problem | None, count: int) -> list[str]:
    """The task of each column of R, or whether it is a teacher unit or a mean.

    There is no need for it if all columns are of one kind.
    """
    kind, columns = text.columns_of_R(problem, count)
    if kind in ("teacher", "mean"):
        return [""] * count
    if kind == "":  # the labels contain the kind
        return [f", {label}" for label in columns]
    return [f", task {label}" for label in columns]


def _symbol(name: str, index: Sequence[int], count: int) -> str:
    """A variable with its indices, which are all below `count`: "$R_{12}$"."""
    subscript = text.joined_numbers(index, count)
    letter = LETTERS.get(name, name)
    if len(letter) == 1:
        return f"${letter}_{{{subscript}}}$"
    return f"{letter} {subscript}"


def _lines_of_heads(values: np.ndarray) -> list[Line]:
    """The readouts of separate heads, (run, time, task, unit)."""
    tasks, units = values.shape[2:]
    lines = []
    for unit in range(units):
        symbol = _symbol("readout", (unit,), max(tasks, units))
        for task in range(tasks):
            line = Line(
                values=values[:, :, task, unit],
                label=f"{symbol}, task {task + 1}",
                unit=unit,
                partner=task,
                group=f"unit {unit + 1}",
            )
            lines.append(line)
    return lines


def _norms_and_pairs(Q: np.ndarray) -> list[Line]:
    """The norms as solid lines, then the overlaps between different units, dashed.

    Each pair of units occurs once. Q: (run, time, unit, unit).
    """
    units = Q.shape[-1]
    norms = []
    pairs = []
    for k in range(units):
        norm = Line(
            values=Q[..., k, k],
            label=_symbol("Q", (k, k), units),
            unit=k,
            group="norms $Q_{kk}$",
        )
        norms.append(norm)
        for l in range(k + 1, units):
            count = len(pairs)
            pair = Line(
                values=Q[..., k, l],
                label=_symbol("Q", (k, l), units),
                unit=units + count,
                partner=1 + count % (len(DASHES) - 1),  # DASHES[0] is solid
                group="pairs $Q_{kl}$",
            )
            pairs.append(pair)
    return norms + pairs


def draw_lines(axes: Axes, times: np.ndarray, lines: list[Line], label: str) -> None:
    """Draw all lines (the mean over several runs), with their name and scale."""
    for place, (line, look, name) in enumerate(with_looks(lines)):
        marks: Look = {}
        if "marker" in look:
            marks = {"markevery": panels.spread_marks(times, place, len(lines))}
        mean = np.mean(line.values, axis=0)
        axes.plot(times, mean, label=name, **look, **marks)
    panels.scale_overlaps(axes, np.stack([line.values for line in lines]), label)


def with_looks(lines: list[Line]) -> Iterator[tuple[Line, Look, str]]:
    """Each line with its properties and its label.

    A label that begins with "_" does not enter the legend.
    """
    if len(lines) <= NAMED_LINES:
        for line in lines:
            yield line, stroke(line.unit, line.partner), line.label
        return
    groups = list(dict.fromkeys(line.group for line in lines))
    if len(groups) > len(COLORS):
        for line in lines:
            look: Look = {"color": FAINT, "linewidth": 0.7, "alpha": 0.7}
            yield line, look, f"_{line.label}"
        return
    named = set()
    for line in lines:
        label = f"_{line.label}"
        if line.group not in named:
            label = line.group
        named.add(line.group)
        look = line_look(groups.index(line.group), width=1.0) | {"alpha": 0.8}
        yield line, look, label
