"""The command line.

A command reads flags and a problem file (request.py), calls the library, and prints the
result (report.py).
"""

from tutelage.cli.app import main

__all__ = ["main"]
