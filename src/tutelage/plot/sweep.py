"""Figures of a sweep: curves over one axis, a heat map with contours over two, and the lines of theory on it.

A variable is an xarray DataArray whose dims are axes of the sweep, `start`, `run` and `time`, as a sweep labels it. Random
starts are drawn as their median with the range of their middle half, runs as their mean.
"""

from typing import TYPE_CHECKING, Any

from tutelage._errors import InputError
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.heat_map import draw_heat_map
from tutelage.plot.style import style
from tutelage.plot.sweep_axes import axis_label, is_numeric, value_label
from tutelage.plot.sweep_curves import FEW, draw_curves
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.2, 4.6)


def plot_sweep(
    values: Any, status: Any, base: Any, *, lines: Any = (), level: float | None = None, title: str | None = None
) -> "Figure":
    """The figure of one variable of a sweep. status: how the solves ended, or None; base: the problem that was changed.

    lines: boundaries with label, x and y, for two axes; level: a contour to be drawn with them.
    """
    from tutelage.plot.figure import Figure

    values, small = _at_last_time(values)
    axes_of = [str(dim) for dim in values.dims if dim not in ("start", "run")]
    if len(axes_of) > 2 or not axes_of:
        raise InputError(f"{values.name} has the axes {', '.join(axes_of)}; a figure has one or two. Hold others with at=.")
    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        panel = figure.subplots()
        middle, low, high = _spread(values)
        split = None if lines else _axis_of_curves(middle)
        if len(axes_of) == 2 and split is None:
            draw_heat_map(figure, panel, middle, status, lines, level)
        else:
            draw_curves(panel, middle, low, high, split)
        _head(panel, values, base, axes_of, small, title)
    return figure


def _at_last_time(values: Any) -> tuple[Any, list[str]]:
    """Two axes and times are one too many: the last time counts, and the small print says so."""
    axes = [dim for dim in values.dims if dim not in ("start", "run")]
    if "time" in axes and len(axes) > 2:
        end = float(values["time"][-1])
        return values.isel(time=-1), [rf"at $\alpha={end:g}$"]
    return values, []


def _spread(values: Any) -> tuple[Any, Any, Any]:
    """The middle over starts and the range of their middle half; runs are averaged."""
    if "run" in values.dims:
        values = values.mean("run")
    if "start" not in values.dims:
        return values, None, None
    low, middle, high = (values.quantile(share, "start", skipna=False).drop_vars("quantile") for share in (0.25, 0.5, 0.75))
    return middle, low, high


def _axis_of_curves(values: Any) -> str | None:
    """Of two axes, the one whose values get a curve each; None where both are long, or there is only one."""
    dims = [str(dim) for dim in values.dims]
    if len(dims) < 2:
        return None
    if "time" in dims:
        return next(dim for dim in dims if dim != "time")
    words = [dim for dim in dims if not is_numeric(values[dim].values)]
    short = sorted((dim for dim in dims if values.sizes[dim] <= FEW), key=lambda dim: values.sizes[dim])
    return (words or short or [None])[0]


def _head(panel: Any, values: Any, base: Any, axes: list[str], small: list[str], title: str | None) -> None:
    who, how = problem_in_words(base)
    own = {"lr": "learning rate", "noise": "label noise"}
    changed = [own[name] for name in axes if name in own]
    kept = [part for part in how.split(", ") if not any(word in part for word in changed)]
    if "start" in values.dims:
        kept.append(f"median of {values.sizes['start']} starts")
    what = f"{value_label(values)} over {' and '.join(axis_label(a).split(' $')[0] for a in axes)}"
    text = title or (what[0].upper() + what[1:])
    write_head(panel, [(text, TITLE), (f"{who}; {', '.join([*kept, *small])}", SMALL)])
