"""What makes a figure hard to read, found on the drawn figure: every complaint is a sentence."""

from itertools import pairwise

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK = 1.0  # pixels at 100 dpi by which things may touch
GREY = 0.05  # difference of red, green and blue up to which a color is none
PADDING = 5.0  # pixels around a legend that belong to its empty frame
SLIVER = 0.1  # of the width of an even cell
NEARBY = 0.115  # distance of two colors in RGB below which they look alike


def complaints(figure):
    """All of them, for a figure at 100 dots per inch."""
    figure.set_dpi(100)
    FigureCanvasAgg(figure).draw()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    insets = [child for axes in panels for child in axes.child_axes]
    found = [*backticks(figure)]
    for number, axes in enumerate([*panels, *insets], 1):
        name = axes.get_title(loc="left") or axes.get_ylabel() or f"panel {number}"
        for check in (
            equal_names,
            bare_axes,
            crossed_legend,
            cut_marks,
            equal_looks,
            slivers,
        ):
            found += [f"{name}: {words}" for words in check(axes)]
    return [
        *found,
        *titles_over_others(figure, panels),
        *nameless_colors(figure, panels),
    ]


def backticks(figure):
    """Code marks, which only some readers turn into code."""
    return {
        f"raw backticks: {text.get_text()}"
        for text in figure.findobj(Text)
        if "`" in text.get_text()
    }


def equal_names(axes):
    """Two lines of a legend with the same words."""
    legend = axes.get_legend()
    names = [text.get_text() for text in legend.get_texts()] if legend else []
    return {
        f"legend says {name!r} more than once"
        for name in names
        if names.count(name) > 1
    }


def bare_axes(axes):
    """Axes without numbers, where no neighbor has them either."""
    for which, group in (
        ("x", axes.get_shared_x_axes()),
        ("y", axes.get_shared_y_axes()),
    ):
        numbers = [
            len(shown_ticks(other, which))
            for other in group.get_siblings(axes)
            if other.figure is not None
        ]
        if axes.axison and axes.get_label() != "<colorbar>" and max(numbers) < 2:
            yield f"fewer than two numbers on the {which} axis"


def shown_ticks(axes, which):
    """Words at the ticks that are inside the panel."""
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    room = 1e-9 * max(abs(low), abs(high))
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    labels = [
        label
        for tick in ticks
        if low - room <= tick.get_loc() <= high + room
        for label in (tick.label1, tick.label2)
    ]
    return {
        label.get_text() for label in labels if label.get_visible() and label.get_text()
    }


def marked(line):
    return line.get_marker() not in (None, "None", "none", "", " ")


def points_of(line):
    """Its points on the screen, in pixels."""
    path = line.get_transform().transform_path(line.get_path())
    xy = np.asarray(path.vertices)
    return xy[np.all(np.isfinite(xy), axis=1)]


def crossed_legend(axes):
    """A curve behind the legend."""
    legend = axes.get_legend()
    if legend is None:
        return
    words = legend.get_window_extent().padded(-PADDING)
    for line in axes.lines:
        xy = points_of(line)
        if len(xy) == 0 or not line.get_visible():
            continue
        drawn = dense(xy) if line.get_linestyle() not in ("None", "none", "") else xy
        if np.any(within(drawn, words) & within(drawn, axes.bbox)):
            yield f"the line {line.get_label()!r} runs through the legend"


def within(xy, box):
    return np.all((xy >= box.min) & (xy <= box.max), axis=1)


def dense(xy):
    """Points on the way between points, about two pixels apart."""
    pieces = [
        np.linspace(a, b, 2 + min(4000, int(np.hypot(*(b - a)) / 2)))
        for a, b in pairwise(xy)
    ]
    return np.vstack([xy, *pieces])


def cut_marks(axes):
    """Marks at the edge of a panel of which a part is missing."""
    for line in axes.lines:
        if marked(line) and line.get_clip_on() and len(xy := points_of(line)):
            xy = (
                xy[line.get_markevery()]
                if isinstance(line.get_markevery(), list)
                else xy
            )
            radius = line.get_markersize() * 100 / 72 / 2
            if is_cut(xy, radius, axes.bbox):
                yield f"marks of {line.get_label()!r} are cut off at the edge"
    for marks in axes.collections:
        if (
            isinstance(marks, PathCollection)
            and marks.get_clip_on()
            and len(marks.get_offsets())
        ):
            xy = marks.get_offset_transform().transform(
                np.ma.getdata(marks.get_offsets())
            )
            radius = np.sqrt(np.max(marks.get_sizes())) * 100 / 72 / 2
            if is_cut(xy, radius, axes.bbox):
                yield f"marks of {marks.get_label()!r} are cut off at the edge"


def is_cut(xy, radius, box):
    """Whether the middle of a mark is inside the panel, and more than a pixel of the mark is not."""
    xy = xy[within(xy, box.padded(SLACK))]
    return bool(
        np.any((xy - radius < box.min - SLACK) | (xy + radius > box.max + SLACK))
    )


def equal_looks(axes):
    """Named curves that only a sharp eye tells apart: nearly the same color and the same dashes."""
    handles, names = axes.get_legend_handles_labels()
    lines = [
        (line, name)
        for line, name in zip(handles, names, strict=True)
        if isinstance(line, Line2D)
    ]
    for i, (one, first) in enumerate(lines):
        for other, second in lines[i + 1 :]:
            same = (
                one.get_linestyle() == other.get_linestyle()
                and one._dash_pattern == other._dash_pattern
            )
            shape = (
                one.get_marker() == other.get_marker()
                or max(one.get_markersize(), other.get_markersize()) < 3
            )
            if (
                same
                and shape
                and np.linalg.norm(np.subtract(ink(one), ink(other))) < NEARBY
            ):
                yield f"{first!r} and {second!r} look alike"


def slivers(axes):
    """Cells of a map that are cut down to almost nothing."""
    for mesh in axes.collections:
        if isinstance(mesh, QuadMesh):
            given = np.ma.getdata(mesh.get_coordinates())
            corners = axes.transData.transform(given.reshape(-1, 2)).reshape(
                given.shape
            )
            for i, which in enumerate("xy"):
                places = np.clip(
                    corners[:, :, i] if i else corners[:, :, i].T,
                    axes.bbox.min[i],
                    axes.bbox.max[i],
                )
                if np.min(np.abs(np.diff(places, axis=0))) < SLIVER * axes.bbox.size[
                    i
                ] / (len(places) - 1):
                    yield f"cells of the map are slivers along {which}"


def ink(line):
    """The color on white paper."""
    alpha = 1.0 if line.get_alpha() is None else line.get_alpha()
    return alpha * np.array(to_rgb(line.get_color())) + 1 - alpha


def titles_over_others(figure, panels):
    """A title that ends above the next panel or a color bar, and words beyond the edge of the figure."""
    for axes in panels:
        titles = {
            axes.get_title(loc=place) for place in ("left", "center", "right")
        } - {""}
        for text in axes.get_children():
            if isinstance(text, Text) and text.get_text() in titles:
                box = text.get_window_extent()
                below = Bbox.from_extents(box.x0, axes.bbox.y0, box.x1 - SLACK, box.y1)
                if any(
                    below.overlaps(other.get_tightbbox())
                    for other in panels
                    if not other.bbox.overlaps(axes.bbox)
                ):
                    yield f"the title {text.get_text()!r} reaches over another panel"
                if box.x1 > figure.bbox.x1 + SLACK:
                    yield f"the title {text.get_text()!r} reaches over the edge of the figure"
    for text in [
        *figure.texts,
        *(
            text
            for axes in panels
            for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label)
        ),
    ]:
        box = text.get_window_extent()
        if (
            text.get_visible()
            and text.get_text().strip()
            and (box.x1 > figure.bbox.x1 + SLACK or box.x0 < -SLACK)
        ):
            yield f"{text.get_text()!r} reaches over the edge of the figure"


def nameless_colors(figure, panels):
    """Colors that tell curves apart, where neither a legend nor a title says what they mean."""
    if any("color" in text.get_text() for text in figure.texts):
        return
    legends = [
        *figure.legends,
        *(axes.get_legend() for axes in panels if axes.get_legend()),
    ]
    named = {
        to_hex(line.get_color())
        for legend in legends
        for line in legend.findobj(Line2D)
    }
    for axes in panels:
        used = {
            to_hex(line.get_color())
            for line in axes.lines
            if np.ptp(to_rgb(line.get_color())) > GREY
        }
        if (
            len(used) > 1
            and not used <= named
            and "color" not in axes.get_title(loc="left")
        ):
            yield f"colors without a name: {sorted(used - named)}"
