"""Functions of a trajectory that stand in layers to its right, for `result/attached.py`.

Each imports its layer when it is called: `import tutelage` waits for none of them.
"""

from typing import TYPE_CHECKING, Any

from tutelage.result.attached import attach

if TYPE_CHECKING:
    from tutelage.result.trajectory import Trajectory


@attach
def class_errors(trajectory: "Trajectory") -> Any:
    """Return the error in each class of a mixture."""
    from tutelage.simulation import recorded_error

    return recorded_error.class_errors(trajectory)


@attach
def has_validity(trajectory: "Trajectory") -> bool:
    """Return True if the theory of the problem reports on this solve."""
    from tutelage import theories

    if trajectory.problem is None:
        return False
    theory = theories.covering(trajectory.problem)
    return theory is not None and theory.has_validity(trajectory)


@attach
def validity(trajectory: "Trajectory") -> Any:
    """Return the report of how far a solve can be trusted."""
    from tutelage import theories

    return theories.theory_of(trajectory.problem).validity(trajectory)


@attach
def error_estimates(trajectory: "Trajectory") -> dict[str, Any]:
    """Return bounds on the numerical error of the curves of a solve, by name."""
    from tutelage import theories

    return theories.theory_of(trajectory.problem).error_estimates(trajectory)


@attach
def plot(trajectory: "Trajectory", *, floors: bool = False, **options: Any) -> Any:
    """Draw a trajectory with Matplotlib; floors: with the floors under its curve."""
    from tutelage import checks
    from tutelage.plot import plot_trajectory

    below = None
    if checks.as_flag("floors", floors):
        from tutelage import analysis

        below = analysis.floors(trajectory)
    return plot_trajectory(trajectory, floors=below, **options)


@attach
def widget(trajectory: "Trajectory") -> Any:
    """Return the page of a trajectory, for a notebook."""
    from tutelage.page.document import trajectory_widget

    return trajectory_widget(trajectory)
