"""The version, the same as that of tutelage (tests/test_package.py compares them)."""

__version__ = "0.2.0"
