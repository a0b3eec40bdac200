from .comparison import plot_comparison
from .curves import (
    plot_early_stopping,
    plot_per_run,
    plot_phases,
    plot_plateaus,
    plot_specialization,
)
from .data import plot_data, plot_data_comparison
from .equilibrium import (
    plot_bayes_optimal,
    plot_empirical_minimum,
    plot_minimum_runs,
    plot_target_exponent,
    plot_weak_recovery,
)
from .escapes import plot_escape_distribution, plot_escape_time
from .exponents import plot_exponent, plot_spectral_exponent
from .fixed_points import plot_fixed_point, plot_landscape
from .heat_maps import plot_overlaps
from .labels import ERROR, ERROR_IN_TWO_LINES, TIME, capital, problem_in_words
from .learning_rates import plot_decay_rates, plot_noise_floor
from .noise import plot_fluctuations, plot_step_moments
from .panels import (
    column,
    draw_phases,
    figure_of,
    fill_band,
    finish,
    label_panel,
    outside_legend,
    panel_grid,
    plain_dots,
    scale_error,
    scale_time,
    shown_times,
    spread_marks,
)
from .protocols import plot_protocol
from .style import (
    ALARM,
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    check_figure_path,
    document,
    save_figure,
    style,
    write_text,
)
from .sweep import cell_edges, plot_sweep
from .tasks import (
    plot_best_replay,
    plot_forgetting,
    plot_interference,
    plot_node_reuse,
    plot_savings,
    plot_transfer,
)
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
    "column",
    "document",
    "draw_phases",
    "figure_of",
    "fill_band",
    "finish",
    "label_panel",
    "outside_legend",
    "panel_grid",
    "plain_dots",
    "plot_bayes_optimal",
    "plot_best_replay",
    "plot_comparison",
    "plot_data",
    "plot_data_comparison",
    "plot_decay_rates",
    "plot_early_stopping",
    "plot_empirical_minimum",
    "plot_escape_distribution",
    "plot_escape_time",
    "plot_exponent",
    "plot_fixed_point",
    "plot_fluctuations",
    "plot_forgetting",
    "plot_interference",
    "plot_landscape",
    "plot_minimum_runs",
    "plot_node_reuse",
    "plot_noise_floor",
    "plot_overlaps",
    "plot_per_run",
    "plot_phases",
    "plot_plateaus",
    "plot_protocol",
    "plot_savings",
    "plot_specialization",
    "plot_spectral_exponent",
    "plot_step_moments",
    "plot_sweep",
    "plot_target_exponent",
    "plot_trajectory",
    "plot_transfer",
    "plot_weak_recovery",
    "problem_in_words",
    "save_figure",
    "scale_error",
    "scale_time",
    "shown_times",
    "spread_marks",
    "style",
    "write_text",
]
