"""The version, in one place: stored in every file that the library writes."""

__version__ = "0.2.0"
