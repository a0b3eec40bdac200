"""Figures of results: one style, one function per result type, files written whole.

    from tutelage.plot import plot_trajectory, save_figure
    save_figure(plot_trajectory(theory), "theory.png")

Figures live outside pyplot: nothing is left open, and no display is needed. Nothing
here imports the analyses that it draws: a result is read by its fields. Every function
takes `title`, which replaces its own ("" leaves the whole head out). A function of a
single panel also takes `ax`, the user's axes, and returns them.

style has palette, scales and files, labels the texts, panels layout and legends.
trajectory draws what solve, simulate, compare and from_data return, analyses the
results of tutelage.analysis, sweep those of sweeps.
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
