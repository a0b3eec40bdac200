"""What the results of all analyses share: numbers as fields, words by `str`, a figure by `.plot()`, curves as trajectories."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import plot
from tutelage._errors import Status
from tutelage.problem import Problem, Start
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The function of tutelage.plot that draws a result, by the name of its class.
RESULT_FIGURES = {
    "AsymptoticDecay": "plot_asymptotic_decay",
    "Concentration": "plot_concentration",
    "EarlyStopping": "plot_early_stopping",
    "EscapeDistribution": "plot_escape_distribution",
    "EscapeTime": "plot_escape_time",
    "Exponent": "plot_exponent",
    "FixedPoint": "plot_fixed_point",
    "Fluctuations": "plot_fluctuations",
    "Landscape": "plot_landscape",
    "LearningRates": "plot_decay_rates",
    "LinearNetwork": "plot_linear_network",
    "NoiseFloor": "plot_noise_floor",
    "OptimalSchedule": "plot_schedule",
    "Phases": "plot_phases",
    "Plateaus": "plot_plateaus",
    "RunResults": "plot_per_run",
    "Specialization": "plot_specialization",
    "SpectralExponent": "plot_spectral_exponent",
    "StepMoments": "plot_step_moments",
    "SymmetricPlateau": "plot_symmetric_plateau",
}


def figure_function(result: str) -> Any:
    """The function that draws a class of results; Matplotlib is imported only now."""
    return getattr(plot, RESULT_FIGURES[result])


class AnalysisResult:
    """A result that can draw itself."""

    def plot(self, *, title: str | None = None) -> "Figure":
        """The result as a Matplotlib figure (see `plot.save_figure`)."""
        return figure_function(type(self).__name__)(self, title=title)


def as_trajectory(
    problem: Problem,
    start: Start,
    times: np.ndarray,
    variables: dict[str, Any],
    error: Any,
    T: Any,
    steps: Any = 0,
    **settings: Any,
) -> Trajectory:
    """A finished curve that `solve` did not integrate, as the trajectory that `solve` would return."""
    readout = problem.student.readout if start.readout is None else start.readout
    return Trajectory(
        times=times,
        variables=variables | {"readout": np.tile(np.asarray(readout), (times.size, 1))},
        error=error,
        loss=error + np.asarray(problem.noise) ** 2 / 2,
        status_code=np.asarray(int(Status.FINISHED)),
        end_time=times[-1],
        steps=np.asarray(steps),
        T=T,
        problem=problem,
        start=start,
        settings=tuple(sorted(settings.items())),
    )
