from . import power_law, quadratic
from .claims import Claim, above, at_least, at_most, below, between, close, refuted
from .linear_regression import linear_regression
from .registry import Replica, find, replicas
from .run import Result, replicate

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
    "linear_regression",
    "power_law",
    "quadratic",
    "refuted",
    "replicas",
    "replicate",
]
