"""Figures of the noise of SGD: bands around the theory, moments of single steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.lines import draw_lines, lines_of
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import COLORS, FAINT

# The kinds of order parameters of a single step, by the first letter of their name.
KINDS = {
    "R": "overlaps with teachers",
    "Q": "overlaps of student units",
    "V": "readouts",
    "B": "biases",
}


@figure_of("what fluctuations returned", "theory", "sd", "dim", "scaled")
def plot_fluctuations(result: Any, *, title: str | None = None) -> Figure:
    """Draw error and order parameters with bands of two standard deviations.

    Below them is the relative scatter of the error, sd(e_g) / e_g.
    """
    theory = result.theory
    times = np.asarray(result.times)
    names = ["R", "Q"]
    for name in ("readout", "bias"):
        if name in theory.variables and np.max(result.sd(name)) > 0:
            names.append(name)
    grid = column([2.4, *[1.9] * len(names), 1.4], title)
    _draw_error_band(grid[0], times, result)
    for axes, name in zip(grid[1:], names, strict=False):
        _draw_lines_with_bands(axes, times, name, result)
    _draw_relative_scatter(grid[-1], times, result)
    panels.scale_time(grid[0], times)
    heading, conditions = text.problem_in_words(theory.problem)
    return finish(
        grid,
        text.time_label(theory),
        title,
        heading,
        f"{conditions}; scatter of single networks with $N={result.dim}$",
        outcome=[text.capital(doubt) for doubt in result.doubts()],
        alarm=True,
    )


def _draw_error_band(axes: Axes, times: np.ndarray, result: Any) -> None:
    """Draw the learning curve with a band of two standard deviations."""
    error = np.asarray(result.theory.error)
    panels.fill_band(
        axes,
        times,
        error,
        2 * result.sd("error"),
        COLORS[0],
        alpha=0.22,
        label="± 2 std. deviations",
        positive=True,
    )
    label = r"theory, $N \to \infty$"
    axes.plot(times, error, color=COLORS[0], linewidth=1.8, label=label)
    panels.scale_error(axes, error, text.error_label(result.theory))


def _draw_lines_with_bands(
    axes: Axes, times: np.ndarray, name: str, result: Any
) -> None:
    """Draw one variable with bands of two standard deviations."""
    values = np.asarray(result.theory[name])
    lines = lines_of(name, values[None])
    deviations = lines_of(name, result.sd(name)[None])
    draw_lines(axes, times, lines, text.quantity_label(name))
    alpha = 0.22
    if len(lines) > len(COLORS) // 2:  # many bands overlap
        alpha = 0.12
    for line, deviation, curve in zip(lines, deviations, axes.lines, strict=True):
        middle = line.values[0]
        half = 2 * deviation.values[0]
        color = str(curve.get_color())
        panels.fill_band(axes, times, middle, half, color, alpha=alpha)


def _draw_relative_scatter(axes: Axes, times: np.ndarray, result: Any) -> None:
    """Draw sd(e_g) / e_g."""
    error = np.asarray(result.theory.error)
    relative_scatter = result.sd("error") / np.maximum(error, 1e-300)
    axes.plot(times, relative_scatter, color=COLORS[0], linewidth=1.4)
    axes.set_ylabel("relative scatter\n" + r"sd$(\epsilon_g)\,/\,\epsilon_g$")
    axes.set_ylim(bottom=0.0)


@figure_of("what step_moments returned", "drift", "diffusion", "names")
def plot_step_moments(result: Any, *, title: str | None = None) -> Figure:
    """Draw what `step_moments` measured against theory.

    On the diagonal, theory and network agree.
    """
    problem, conditions = text.problem_in_words(result.problem)
    outcome = "differ"
    if result.agrees:
        outcome = "agree"
    heading = title or f"{problem}: network and theory {outcome}"
    networks = f"one step of {result.samples} networks with N = {result.dim}"
    small = f"{conditions}; {networks}, {result.inputs} inputs; bars: 2 std. errors"
    figure, ((left, right),) = panels.panel_grid(1, 2, heading, small, height=3.8)
    _draw_measured_drift(left, result)
    _draw_measured_diffusion(right, result)
    for axes in (left, right):
        diagonal = axes.get_xlim()
        axes.plot(diagonal, diagonal, color=FAINT, linewidth=1.0, zorder=0)
    left.legend(loc="upper left")
    return figure


def _draw_measured_drift(axes: Axes, result: Any) -> None:
    """Draw the drift of each order parameter, with one color for each kind."""
    letters = np.array([name[0].upper() for name in result.names])
    for place, letter in enumerate(dict.fromkeys(letters.tolist())):
        of_kind = letters == letter
        _draw_measured(
            axes,
            result.drift_theory[of_kind],
            result.drift[of_kind],
            result.drift_error[of_kind],
            color=COLORS[place],
            label=KINDS[letter],
        )
    axes.set(xlabel=r"drift $f(u)$, theory", ylabel=r"$N\,E[\Delta u]$, measured")


def _draw_measured_diffusion(axes: Axes, result: Any) -> None:
    """Draw the entries of the symmetric diffusion matrix, each once."""
    upper_triangle = np.triu_indices(len(result.names))
    _draw_measured(
        axes,
        result.diffusion_theory[upper_triangle],
        result.diffusion[upper_triangle],
        result.diffusion_error[upper_triangle],
        color=COLORS[0],
    )
    axes.set_xlabel(r"diffusion $D(u)$, theory")
    axes.set_ylabel(r"$N^2\,\mathrm{Cov}(\Delta u)$, measured")


def _draw_measured(
    axes: Axes,
    theory: np.ndarray,
    measured: np.ndarray,
    standard_error: np.ndarray,
    *,
    color: str,
    label: str | None = None,
) -> None:
    """Draw measured values against theory, with bars of two standard errors."""
    axes.errorbar(
        theory,
        measured,
        2 * standard_error,
        fmt="o",
        color=color,
        label=label,
        markersize=4.2,
        markerfacecolor="white",
        capsize=2.0,
        linewidth=1.0,
    )
