"""Published figures, computed again and held against the numbers that their sources claim, and the formulas of single papers.

registry -> figures/<source>/<figure>         -> run     -> gallery
what a      parameters, compute, draw, claims    store,     all of them
figure is                                        find       on one page

`notes`, `power_law` and `quadratic` hold conventions and closed forms of one paper each. Everything here imports public names of
tutelage only, and nothing else imports it. docs/replicate.md is for users; CONTRIBUTING.md shows how to add a figure.
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
