"""All that papers take from `tutelage.plot`, in one place: the sheet of a figure, its style, and the figures of results.

Importing this file loads no Matplotlib and no JAX, so that listing the figures is quick.
"""

from tutelage.plot import save_figure, style
from tutelage.plot.bias import plot_bias
from tutelage.plot.heat_map import cell_edges
from tutelage.plot.html import capital, document, write_text
from tutelage.plot.labels import ERROR, TIME, name_colors, outside_legend, tick_each
from tutelage.plot.landscape import plot_landscape
from tutelage.plot.linear_features import plot_raw_features
from tutelage.plot.linear_scaling import plot_power_law_sum
from tutelage.plot.manifold import plot_solution_manifold
from tutelage.plot.quadratic import plot_fastest_escape, plot_quadratic_curves, plot_quadratic_network
from tutelage.plot.sheet import draw_band, draw_power, label_panel, sheet
from tutelage.plot.stages import draw_phases
from tutelage.plot.stationary_points import plot_critical_points
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, MARKERS
from tutelage.plot.teacher_moments import plot_teacher_moments

__all__ = [
    "COLORS",
    "DASHES",
    "ERROR",
    "FAINT",
    "INK",
    "MARKERS",
    "TIME",
    "capital",
    "cell_edges",
    "document",
    "draw_band",
    "draw_phases",
    "draw_power",
    "label_panel",
    "name_colors",
    "outside_legend",
    "plot_bias",
    "plot_critical_points",
    "plot_fastest_escape",
    "plot_landscape",
    "plot_power_law_sum",
    "plot_quadratic_curves",
    "plot_quadratic_network",
    "plot_raw_features",
    "plot_solution_manifold",
    "plot_teacher_moments",
    "save_figure",
    "sheet",
    "style",
    "tick_each",
    "write_text",
]
