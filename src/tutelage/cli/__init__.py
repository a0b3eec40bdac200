"""The command line: `tutelage solve` and the other commands.

A command reads flags and a problem file (request.py), calls the library, and prints a table or JSON (report.py). Nothing here
is imported by the library, and JAX is imported only when a command starts to compute.
"""

from tutelage.cli.app import main

__all__ = ["main"]
