"""The command line: `tutelage solve` and its siblings, one module per command.

A command reads flags (flags.py) and a problem file (problem_file.py), calls the library, and prints a table or JSON. Nothing
here is imported by the library, and JAX is imported only when a command starts to compute.
"""

from tutelage.cli.app import main

__all__ = ["main"]
