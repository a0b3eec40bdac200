"""What the results of all analyses share: numbers as fields, words by `str`, a figure by `.plot()`, curves as trajectories."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.problem import Problem, Start
from tutelage.status import Status
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The module and function of tutelage.plot that draw a result, by the name of its class.
RESULT_FIGURES = {
    "AsymptoticDecay": "asymptotic_decay.plot_asymptotic_decay",
    "Concentration": "concentration.plot_concentration",
    "EarlyStopping": "stopping.plot_early_stopping",
    "EscapeDistribution": "escapes.plot_escape_distribution",
    "EscapeTime": "escapes.plot_escape_time",
    "Exponent": "exponent.plot_exponent",
    "FixedPoint": "fixed_point.plot_fixed_point",
    "Fluctuations": "fluctuation.plot_fluctuations",
    "Landscape": "landscape.plot_landscape",
    "LearningRates": "learning_rates.plot_decay_rates",
    "LinearNetwork": "linear.plot_linear_network",
    "NoiseFloor": "learning_rates.plot_noise_floor",
    "OptimalSchedule": "schedule.plot_schedule",
    "Phases": "stages.plot_phases",
    "Plateaus": "stages.plot_plateaus",
    "RunResults": "per_run.plot_per_run",
    "Specialization": "specialized.plot_specialization",
    "SpectralExponent": "spectrum.plot_spectral_exponent",
    "StepMoments": "step_moments.plot_step_moments",
    "SymmetricPlateau": "symmetric_plateau.plot_symmetric_plateau",
}


def figure_function(result: str) -> Any:
    """The function that draws a class of results; Matplotlib is imported only now."""
    module, name = RESULT_FIGURES[result].split(".")
    return getattr(import_module(f"tutelage.plot.{module}"), name)


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
