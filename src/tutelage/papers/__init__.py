"""Published figures, computed again and held against the numbers that their sources claim.

registry -> figures/<source>/<figure>         -> run     -> gallery
what a      parameters, compute, draw, claims    store,     all of them
figure is                                        find       on one page

docs/replicate.md is for its users, CONTRIBUTING.md shows how to add a figure.
"""

from tutelage.papers.claims import Claim, above, at_least, at_most, below, between, close, refuted
from tutelage.papers.registry import Replica, find, replicas
from tutelage.papers.run import Result, run

__all__ = [
    "Claim",
    "Replica",
    "Result",
    "above",
    "at_least",
    "at_most",
    "below",
    "between",
    "close",
    "find",
    "refuted",
    "replicas",
    "run",
]
