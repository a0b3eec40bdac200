"""Complaints about a drawn figure that is hard to read; each is a sentence."""

from itertools import combinations, pairwise

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
    """Return all complaints, for a figure at 100 dots per inch."""
    figure.set_dpi(100)
    FigureCanvasAgg(figure).draw()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    insets = [child for axes in panels for child in axes.child_axes]
    checks = (
        equal_names,
        bare_axes,
        crossed_legend,
        cut_marks,
        equal_looks,
        slivers,
    )
    found = [*backticks(figure)]
    for number, axes in enumerate([*panels, *insets], 1):
        name = axes.get_title(loc="left") or axes.get_ylabel() or f"panel {number}"
        for check in checks:
            found += [f"{name}: {words}" for words in check(axes)]
    found += titles_over_others(panels, figure.bbox)
    found += words_beyond_the_edge(figure, panels)
    found += nameless_colors(figure, panels)
    return found


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
    if legend is None:
        return
    names = [text.get_text() for text in legend.get_texts()]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield f"legend says {name!r} more than once"


def bare_axes(axes):
    """Axes without numbers, where no neighbor has them either."""
    if not axes.axison or axes.get_label() == "<colorbar>":
        return
    shared = {"x": axes.get_shared_x_axes(), "y": axes.get_shared_y_axes()}
    for which, group in shared.items():
        neighbors = [
            other for other in group.get_siblings(axes) if other.figure is not None
        ]
        if max(len(shown_ticks(other, which)) for other in neighbors) < 2:
            yield f"fewer than two numbers on the {which} axis"


def shown_ticks(axes, which):
    """Words at the ticks that are inside the panel."""
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    room = 1e-9 * max(abs(low), abs(high))
    words = set()
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        if low - room <= tick.get_loc() <= high + room:
            for label in (tick.label1, tick.label2):
                if label.get_visible() and label.get_text():
                    words.add(label.get_text())
    return words


def marked(line):
    """True if the points of a line have marks."""
    return line.get_marker() not in (None, "None", "none", "", " ")


def points_of(line):
    """Return the points of a line on the screen, in pixels."""
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
    """Return a mask of the points inside a box."""
    return np.all((xy >= box.min) & (xy <= box.max), axis=1)


def dense(xy):
    """Return points on the way between points, about two pixels apart."""
    pieces = [xy]
    for first, second in pairwise(xy):
        length = np.hypot(*(second - first))
        pieces.append(np.linspace(first, second, 2 + min(4000, int(length / 2))))
    return np.vstack(pieces)


def cut_marks(axes):
    """Marks at the edge of a panel of which a part is missing."""
    for line in axes.lines:
        xy = points_of(line)
        if not marked(line) or not line.get_clip_on() or len(xy) == 0:
            continue
        if isinstance(line.get_markevery(), list):
            xy = xy[line.get_markevery()]
        radius = line.get_markersize() * 100 / 72 / 2
        if is_cut(xy, radius, axes.bbox):
            yield f"marks of {line.get_label()!r} are cut off at the edge"
    for marks in axes.collections:
        if not isinstance(marks, PathCollection) or not marks.get_clip_on():
            continue
        offsets = np.ma.getdata(marks.get_offsets())
        if len(offsets) == 0:
            continue
        xy = marks.get_offset_transform().transform(offsets)
        radius = np.sqrt(np.max(marks.get_sizes())) * 100 / 72 / 2
        if is_cut(xy, radius, axes.bbox):
            yield f"marks of {marks.get_label()!r} are cut off at the edge"


def is_cut(xy, radius, box):
    """True if the middle of a mark is inside the panel, and a part of it is not."""
    xy = xy[within(xy, box.padded(SLACK))]
    below = xy - radius < box.min - SLACK
    above = xy + radius > box.max + SLACK
    return bool(np.any(below | above))


def equal_looks(axes):
    """Named curves with nearly the same color and the same dashes."""
    handles, names = axes.get_legend_handles_labels()
    named = zip(handles, names, strict=True)
    lines = [(line, name) for line, name in named if isinstance(line, Line2D)]
    for (one, first), (other, second) in combinations(lines, 2):
        if look_alike(one, other):
            yield f"{first!r} and {second!r} look alike"


def look_alike(one, other):
    """True if dashes, marks and color of two lines are hard to tell apart."""
    if one.get_linestyle() != other.get_linestyle():
        return False
    if one._dash_pattern != other._dash_pattern:
        return False
    largest = max(one.get_markersize(), other.get_markersize())
    if one.get_marker() != other.get_marker() and largest >= 3:
        return False
    return np.linalg.norm(np.subtract(ink(one), ink(other))) < NEARBY


def slivers(axes):
    """Cells of a map that are cut down to almost nothing."""
    for mesh in axes.collections:
        if not isinstance(mesh, QuadMesh):
            continue
        given = np.ma.getdata(mesh.get_coordinates())
        corners = axes.transData.transform(given.reshape(-1, 2)).reshape(given.shape)
        # Rows of places along x and along y.
        places = {"x": corners[:, :, 0].T, "y": corners[:, :, 1]}
        for number, (which, lines) in enumerate(places.items()):
            shown = np.clip(lines, axes.bbox.min[number], axes.bbox.max[number])
            even = axes.bbox.size[number] / (len(shown) - 1)
            if np.min(np.abs(np.diff(shown, axis=0))) < SLIVER * even:
                yield f"cells of the map are slivers along {which}"


def ink(line):
    """Return the color of a line on white paper."""
    alpha = 1.0 if line.get_alpha() is None else line.get_alpha()
    return alpha * np.array(to_rgb(line.get_color())) + 1 - alpha


def titles_over_others(panels, page):
    """A title that ends above the next panel or a color bar, or beyond the edge."""
    for axes in panels:
        places = ("left", "center", "right")
        titles = {axes.get_title(loc=place) for place in places} - {""}
        others = [other for other in panels if not other.bbox.overlaps(axes.bbox)]
        for text in axes.get_children():
            if not isinstance(text, Text) or text.get_text() not in titles:
                continue
            words = f"the title {text.get_text()!r} reaches over"
            box = text.get_window_extent()
            below = Bbox.from_extents(box.x0, axes.bbox.y0, box.x1 - SLACK, box.y1)
            if any(below.overlaps(other.get_tightbbox()) for other in others):
                yield f"{words} another panel"
            if box.x1 > page.x1 + SLACK:
                yield f"{words} the edge of the figure"


def words_beyond_the_edge(figure, panels):
    """Words that reach over the edge of the figure."""
    texts = [*figure.texts]
    for axes in panels:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label]
    for text in texts:
        if not text.get_visible() or not text.get_text().strip():
            continue
        box = text.get_window_extent()
        if box.x1 > figure.bbox.x1 + SLACK or box.x0 < -SLACK:
            yield f"{text.get_text()!r} reaches over the edge of the figure"


def nameless_colors(figure, panels):
    """Colors of curves that neither a legend nor a title explains."""
    if any("color" in text.get_text() for text in figure.texts):
        return
    legends = [*figure.legends]
    legends += [axes.get_legend() for axes in panels if axes.get_legend()]
    named = set()
    for legend in legends:
        named |= {to_hex(line.get_color()) for line in legend.findobj(Line2D)}
    for axes in panels:
        used = set()
        for line in axes.lines:
            if np.ptp(to_rgb(line.get_color())) > GREY:
                used.add(to_hex(line.get_color()))
        explained = used <= named or "color" in axes.get_title(loc="left")
        if len(used) > 1 and not explained:
            yield f"colors without a name: {sorted(used - named)}"
