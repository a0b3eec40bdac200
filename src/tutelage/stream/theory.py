"""The theory of fresh samples as a row of the table of theories.

Its reports are imported when they are asked for: a solve does not need them.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks
from tutelage.problem import Problem, Start
from tutelage.problem.start import require_start
from tutelage.result.trajectory import Trajectory
from tutelage.stream.order_parameters import initial_overlaps
from tutelage.stream.solve import solve_batch_on_stream, solve_on_stream
from tutelage.theory import Theory

if TYPE_CHECKING:
    from tutelage.stream.validity import Validity


class FreshSamples(Theory):
    """SGD on a stream of fresh samples: equations of the order parameters."""

    name = "fresh samples"
    needs = ("fresh samples",)

    # their parameters are the options of this theory
    solve = staticmethod(solve_on_stream)  # pyright: ignore[reportAssignmentType]
    solve_batch = staticmethod(solve_batch_on_stream)  # pyright: ignore

    def initial(self, problem: Problem, start: Start) -> Any:
        """Return the overlaps at time zero, and those of the teacher."""
        return initial_overlaps(problem, require_start(start))

    @property
    def side_by_side(self) -> bool:
        """True: points of one shape share a compiled program."""
        return True

    def has_validity(self, trajectory: Trajectory) -> bool:
        """Return True for a single solve of one task with a known start."""
        is_solve = trajectory.kind == "theory" and trajectory.start is not None
        is_single_curve = trajectory.tasks is None and np.ndim(trajectory.error) == 1
        return is_solve and is_single_curve and not checks.is_traced(trajectory)

    def validity(self, trajectory: Trajectory) -> "Validity":
        """Return the report of one solve."""
        from tutelage.stream import validity

        return validity.assess(trajectory)

    def error_estimates(self, trajectory: Trajectory) -> dict[str, np.ndarray]:
        """Return what averages over a quasi-random set leave in the curves."""
        from tutelage.stream import accuracy

        return accuracy.sampling_errors(trajectory)
