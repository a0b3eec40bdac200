"""Figures of results: one style, one function per result type, files written whole.

    from tutelage.plot import plot_trajectory, save_figure
    save_figure(plot_trajectory(theory), "theory.png")

Figures live outside pyplot: nothing is left open, and no display is needed. Nothing
here imports the analyses that it draws: a result is read by its fields. Every function
takes `title`, which replaces its own ("" leaves the whole head out). A function of a
single panel also takes `ax`, the user's axes, and returns them.

style.py           colors, dashes, scales and files
labels.py          names of quantities, and a problem in words
panels.py          panels, heads and legends
lines.py           lines of order parameters
heat_maps.py       overlaps at one time
trajectory.py      what `solve` and `simulate` return
comparison.py      what `compare` returns
data.py            what `from_data` returns
noise.py           fluctuations and moments of single steps
curves.py          plateaus, phases, specialization, early stopping
exponents.py       power laws
escapes.py         escapes from a plateau
fixed_points.py    fixed points and landscapes
learning_rates.py  results over constant learning rates
protocols.py       the best protocol
tasks.py           several tasks
equilibrium.py     the end of training on a data set
sweep.py           sweeps
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
