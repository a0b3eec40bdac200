"""Figures of results: one style, one function per result type, files written whole.

    from tutelage.plot import plot_trajectory, save_figure
    save_figure(plot_trajectory(theory), "theory.png")

Figures are `matplotlib.figure.Figure` objects outside pyplot: nothing is left open, and no display is needed. A notebook
shows them without any setup (figure.py). Matplotlib is imported when the first figure is drawn. Nothing here imports what
it draws: a result is read by its fields, and a result's own `.plot()` imports its function when called.

Shared by all figures: figure, style, heads, labels, scales, words; panels and curve_parts (of a trajectory), sheet (of
several panels), html and save. The other modules draw one kind of result each, and are called after it (sweep: with
sweep_axes, sweep_curves and heat_map).
"""

from tutelage.plot.comparison import plot_comparison
from tutelage.plot.save import check_figure_path, save_figure
from tutelage.plot.style import style
from tutelage.plot.trajectory import plot_trajectory
from tutelage.plot.words import problem_in_words

__all__ = ["check_figure_path", "plot_comparison", "plot_trajectory", "problem_in_words", "save_figure", "style"]
