"""The error that a quasi-random set leaves in a solve: eight solves, each with one of the set's eight scramblings.

The scramblings are independent, so the standard error of their mean estimates the error of the whole set.
"""

from typing import Any

import numpy as np

from tutelage.integrate import Options, anonymous, as_arrays, integrate, tolerances
from tutelage.moments import NodeMoments, Sampled, confidence, moments_for
from tutelage._solve import MAX_STEPS
from tutelage.trajectory import Trajectory, eager


def sampling_error(trajectory: Trajectory) -> np.ndarray:
    """(time,): with 95% confidence the sampled averages move `error` by less than this."""
    settings, problem = dict(trajectory.settings), trajectory.problem
    assert problem is not None
    if "moments" not in settings:
        return np.zeros_like(np.asarray(trajectory.error))
    whole = moments_for(problem, None, Sampled(*settings["moments"]))
    assert isinstance(whole, NodeMoments)
    options = Options(
        gradient_flow=bool(settings.get("gradient_flow", False)),
        solver=str(settings.get("solver", "explicit")),
        keep=False,
        gradient="forward",
        max_steps=MAX_STEPS,
        progress=False,
    )
    steps = tolerances(float(settings.get("rtol", 1e-6)), None)
    parts: Any = as_arrays(problem), as_arrays(anonymous(trajectory.start)), np.asarray(trajectory.times)
    one = lambda set_: eager(integrate(parts[0], set_, parts[1], parts[2], steps, options)).error  # noqa: E731
    return confidence([one(each) for each in whole.scramblings()])
