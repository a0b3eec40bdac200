"""Questions and answers: one verb per question, each returning a small frozen result with numbers, words and a figure.

Every verb is a public name of the package, `tutelage.analysis.fixed_point` or `tutelage.analysis.fixed_point`; docs/how-to has a page
for each question. One package here for each group of them: fixed_points, curves, escape, noise, single_steps, schedules,
linear, structured, geometry, quadratic.
"""

from typing import Any

import tutelage


def __getattr__(name: str) -> Any:
    if tutelage._HOME_OF.get(name, "").startswith(__name__):
        return getattr(tutelage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
