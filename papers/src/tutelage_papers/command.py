"""The part of this package that `tutelage replicate` uses.

The entry point `tutelage.papers` leads here; `Papers` in tutelage/cli/replicate.py
lists these names with their types.
"""

from tutelage_papers.gallery import duration, expectation, gallery
from tutelage_papers.registry import SOURCES, find, replicas
from tutelage_papers.run import count, found, is_kept, replicate

__all__ = [
    "SOURCES",
    "count",
    "duration",
    "expectation",
    "find",
    "found",
    "gallery",
    "is_kept",
    "replicas",
    "replicate",
]
