"""Questions and answers: one verb per question, each returning a small frozen result with numbers, words and a figure.

Every verb is a public name of the package, `tutelage.fixed_point` or `tutelage.analysis.fixed_point`; docs/how-to has a page
for each question. One package here for each group of them: fixed_points, curves, linear, geometry, quadratic; beside them
escapes (escape_law, exits, plateau_path), fluctuation (noisy_curve, small_noise), concentrations (one_step, step_moments)
and schedule_design (schedule_search, greedy_rate).
"""

from typing import Any

import tutelage


def __getattr__(name: str) -> Any:
    if tutelage._HOME_OF.get(name, "").startswith(__name__):
        return getattr(tutelage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
