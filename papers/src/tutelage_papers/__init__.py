"""Published figures, computed again with tutelage, and formulas of single papers.

registry -> figures/<source>/<figure>         -> run     -> gallery
what a      parameters, compute, draw, claims    store,     all of them
figure is                                        find       on one page

`notes`, `power_law` and `quadratic` hold conventions and closed forms of one paper
each. Everything here imports public names of tutelage only. The library reaches this
package through an entry point alone: `tutelage replicate` uses `command`.
docs/replicate.md is for users; CONTRIBUTING.md shows how to add a figure.
"""

import lazy_loader

from tutelage_papers._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
