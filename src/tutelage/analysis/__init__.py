"""Analyses: functions of a problem, a start or a trajectory that return a result.

    tu.analysis.fixed_point(problem, start)

A result has numbers as fields, words (`print`) and a figure (`.plot()`). One file for
each subject; no file has the name of a public function, whose place it would take.
docs/how-to has a page for each analysis. The public names are in `__init__.pyi`.
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
