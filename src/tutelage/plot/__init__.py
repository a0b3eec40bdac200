"""Figures of results: one style, one function per result type, files written whole.

    from tutelage.plot import plot_trajectory, save_figure
    save_figure(plot_trajectory(theory), "theory.png")

Figures are `matplotlib.figure.Figure` objects outside pyplot: nothing is left open, and no display is needed. A notebook
shows them without any setup (figure.py). Matplotlib is imported when the first figure is drawn. Nothing here imports what
it draws: a result is read by its fields, and a result's own `.plot()` imports its function when called.

Shared by all figures: style (palette, files), figure, labels (texts), axes (panels, legends, scales) and html (pages). The
other modules draw the results they are named after. The names exported here are those that a new figure needs, too.
"""

from tutelage.plot.axes import (
    color_legend,
    column,
    draw_band,
    draw_power,
    figure_of,
    finish,
    label_panel,
    outside_legend,
    panel_grid,
    plain_dots,
    scale_time,
    shown_times,
    spread_marks,
    tick_each,
    write_head,
)
from tutelage.plot.comparison import plot_comparison
from tutelage.plot.labels import ERROR, ERROR_IN_TWO_LINES, TIME, problem_in_words
from tutelage.plot.learning_curve import draw_phases
from tutelage.plot.style import (
    ALARM,
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    check_figure_path,
    save_figure,
    style,
)
from tutelage.plot.sweep import cell_edges
from tutelage.plot.trajectory import plot_trajectory

__all__ = [
    "ALARM",
    "COLORS",
    "DASHES",
    "ERROR",
    "ERROR_IN_TWO_LINES",
    "FAINT",
    "INK",
    "MARKERS",
    "TIME",
    "cell_edges",
    "check_figure_path",
    "color_legend",
    "column",
    "draw_band",
    "draw_phases",
    "draw_power",
    "figure_of",
    "finish",
    "label_panel",
    "outside_legend",
    "panel_grid",
    "plain_dots",
    "plot_comparison",
    "plot_trajectory",
    "problem_in_words",
    "save_figure",
    "scale_time",
    "shown_times",
    "spread_marks",
    "style",
    "tick_each",
    "write_head",
]
