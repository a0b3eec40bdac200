"""Questions and answers: one function per question, each returning a small frozen result with numbers, words and a figure.

    tu.analysis.fixed_point(problem, start)

One package for each group of questions: fixed_points, curves, escape, noise, single_steps, schedules, linear, structured,
geometry. docs/how-to has a page for each question. The public names are listed in `__init__.pyi`.
"""

from tutelage._namespace import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
