"""What the results of all analyses share: numbers as fields, words by `str`, a figure by `.plot()`."""

from typing import TYPE_CHECKING, Any

from tutelage import plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The function of tutelage.plot that draws a result, by the name of its class.
RESULT_FIGURES = {
    "BestReplay": "plot_best_replay",
    "EarlyStopping": "plot_early_stopping",
    "EscapeDistribution": "plot_escape_distribution",
    "EscapeTime": "plot_escape_time",
    "Exponent": "plot_exponent",
    "FixedPoint": "plot_fixed_point",
    "Fluctuations": "plot_fluctuations",
    "Forgetting": "plot_forgetting",
    "Interference": "plot_interference",
    "Landscape": "plot_landscape",
    "LearningRates": "plot_decay_rates",
    "NodeReuse": "plot_node_reuse",
    "NoiseFloor": "plot_noise_floor",
    "OptimalSchedule": "plot_schedule",
    "Phases": "plot_phases",
    "Plateaus": "plot_plateaus",
    "RunResults": "plot_per_run",
    "Savings": "plot_savings",
    "Specialization": "plot_specialization",
    "SpectralExponent": "plot_spectral_exponent",
    "StepMoments": "plot_step_moments",
    "Transfer": "plot_transfer",
}


def figure_function(result: str) -> Any:
    """The function that draws a class of results; Matplotlib is imported only now."""
    return getattr(plot, RESULT_FIGURES[result])


class AnalysisResult:
    """A result that can draw itself."""

    def plot(self, *, title: str | None = None) -> "Figure":
        """The result as a Matplotlib figure (see `plot.save_figure`)."""
        return figure_function(type(self).__name__)(self, title=title)
