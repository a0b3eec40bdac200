"""Analyses: functions of a problem, a start or a trajectory that return a small frozen result.

    tu.analysis.fixed_point(problem, start)

A result has numbers as fields, words (`print`) and a figure (`.plot()`). One package for each subject: fixed_points, curves,
escape, noise, single_steps, schedules, geometry; continual and task_designs are for several tasks. docs/how-to has a page for
each analysis. The public names are listed in `__init__.pyi`.
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
