"""The command line: a command reads flags and a problem file (request.py), calls the library, and prints (report.py)."""

from tutelage.cli.app import main

__all__ = ["main"]
