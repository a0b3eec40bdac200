from .axes import (
    color_legend,
    column,
    draw_band,
    draw_power,
    figure_of,
    finish,
    label_panel,
    outside_legend,
    panel_grid,
    plain_dots,
    scale_error,
    scale_time,
    shown_times,
    spread_marks,
    tick_each,
    write_head,
)
from .comparison import plot_comparison, plot_fluctuations, plot_step_moments
from .escape import plot_escape_distribution, plot_escape_time
from .exponents import plot_exponent, plot_spectral_exponent
from .fixed_points import plot_decay_rates, plot_fixed_point, plot_noise_floor
from .html import document, write_text
from .labels import ERROR, ERROR_IN_TWO_LINES, TIME, capital, problem_in_words
from .landscape import plot_landscape
from .learning_curve import (
    draw_phases,
    plot_early_stopping,
    plot_per_run,
    plot_phases,
    plot_plateaus,
    plot_specialization,
)
from .schedule import plot_schedule
from .style import ALARM, COLORS, DASHES, FAINT, INK, MARKERS, check_figure_path, save_figure, style
from .sweep import cell_edges, plot_sweep
from .trajectory import plot_trajectory

__all__ = [
    "ALARM",
    "COLORS",
    "DASHES",
    "ERROR",
    "ERROR_IN_TWO_LINES",
    "FAINT",
    "INK",
    "MARKERS",
    "TIME",
    "capital",
    "cell_edges",
    "check_figure_path",
    "color_legend",
    "column",
    "document",
    "draw_band",
    "draw_phases",
    "draw_power",
    "figure_of",
    "finish",
    "label_panel",
    "outside_legend",
    "panel_grid",
    "plain_dots",
    "plot_comparison",
    "plot_decay_rates",
    "plot_early_stopping",
    "plot_escape_distribution",
    "plot_escape_time",
    "plot_exponent",
    "plot_fixed_point",
    "plot_fluctuations",
    "plot_landscape",
    "plot_noise_floor",
    "plot_per_run",
    "plot_phases",
    "plot_plateaus",
    "plot_schedule",
    "plot_specialization",
    "plot_spectral_exponent",
    "plot_step_moments",
    "plot_sweep",
    "plot_trajectory",
    "problem_in_words",
    "save_figure",
    "scale_error",
    "scale_time",
    "shown_times",
    "spread_marks",
    "style",
    "tick_each",
    "write_head",
    "write_text",
]
