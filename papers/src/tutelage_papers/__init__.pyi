# What a script types; lazy_loader loads a name when it is first used.
from . import notes, power_law, quadratic
from ._version import __version__
from .claims import Claim, above, at_least, at_most, below, between, close, refuted
from .registry import Replica, find, replicas
from .run import Result, replicate

__all__ = [
    "Claim",
    "Replica",
    "Result",
    "__version__",
    "above",
    "at_least",
    "at_most",
    "below",
    "between",
    "close",
    "find",
    "notes",
    "power_law",
    "quadratic",
    "refuted",
    "replicas",
    "replicate",
]
