"""Figures of where learning ends: minima, Bayes-optimal errors, exponents."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import COLORS, DASHES, FAINT, INK
from tutelage.plot.trajectory import plot_trajectory

RATIO = "samples per input dimension, $n/N$"
DEGREE = "degree $k$"
CURVES = {  # color and line of each curve
    "error": (0, "-"),
    "train_error": (1, DASHES[1]),
    "loss": (2, "-"),
    "train_loss": (3, DASHES[1]),
}


def _ratios(result: Any) -> np.ndarray:
    return np.atleast_1d(result.ratio)


def _draw_curve(axes: Axes, result: Any, name: str, dots: bool) -> None:
    """Draw one quantity against the ratio; dots: mark the ratios if they are few."""
    color, line = CURVES[name]
    values = np.atleast_1d(getattr(result, name))
    marker = "o" if dots and len(values) < 4 else ""
    axes.plot(
        _ratios(result),
        values,
        color=COLORS[color],
        linestyle=line,
        linewidth=1.8,
        marker=marker,
        markersize=4,
        label=name.replace("_", " "),
    )


def _scale(axes: Axes, result: Any, label: str) -> None:
    ratios = _ratios(result)
    if len(ratios) > 1 and ratios.max() > 8 * ratios.min():
        axes.set_xscale("log")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel(label)


def _error_label(problem: Any) -> str:
    if problem.labels.metric == "squared":
        return "error\n(half the mean square)"
    return "probability of\na wrong class"


@figure_of("what empirical_minimum returned", "ratio", "train_loss", "exists")
def plot_empirical_minimum(result: Any, *, title: str | None = None) -> Figure:
    """Draw errors and losses of the minimum against the ratio."""
    upper, lower = column([2.5, 2.2], title)
    for name in ("error", "train_error"):
        _draw_curve(upper, result, name, dots=True)
    for name in ("loss", "train_loss"):
        _draw_curve(lower, result, name, dots=True)
    _scale(upper, result, _error_label(result.problem))
    _scale(lower, result, "mean loss")
    ratios = _ratios(result)
    if ratios.min() < result.fits_below < ratios.max():
        label = f"all samples can be\nfitted below {result.fits_below:.3g}"
        for axes in (upper, lower):
            panels.mark_time(axes, result.fits_below, label)
            label = None
    heading, conditions = text.problem_in_words(result.problem)
    small = f"{heading}, {conditions}, ridge {_range_in_words(result.ridge)}"
    return finish([upper, lower], RATIO, title, "The end of training", small)


def _range_in_words(values: Any) -> str:
    numbers = np.atleast_1d(values)
    if np.ptp(numbers) == 0:
        return f"{numbers[0]:.3g}"
    return f"{numbers.min():.3g} to {numbers.max():.3g}"


@figure_of("what simulate_minimum returned", "theory", "dim", "train_loss")
def plot_minimum_runs(result: Any, *, title: str | None = None) -> Figure:
    """Draw the means over runs with standard errors, and the theory as lines."""
    upper, lower = column([2.5, 2.2], title)
    rows = ((upper, ("error", "train_error")), (lower, ("loss", "train_loss")))
    for axes, names in rows:
        for name in names:
            _draw_curve(axes, result.theory, name, dots=False)
            axes.errorbar(
                _ratios(result),
                np.atleast_1d(result.mean[name]),
                yerr=np.atleast_1d(result.standard_error[name]),
                color=COLORS[CURVES[name][0]],
                linestyle="none",
                marker="o",
                markersize=4.5,
                markerfacecolor="white",
            )
    _scale(upper, result, _error_label(result.theory.problem))
    _scale(lower, result, "mean loss")
    heading, conditions = text.problem_in_words(result.theory.problem)
    small = f"{heading}, {conditions}; lines: theory, marks: {result.runs} data sets"
    small += f" at $N={result.dim}$ with standard errors"
    outcome = text.capital(str(result).split("\n")[0])
    alarm = result.verdict != "agree"
    heading = "The end of training at finite N"
    return finish([upper, lower], RATIO, title, heading, small, outcome, alarm=alarm)


@figure_of("what bayes_optimal returned", "ratio", "reached_error", "fixed_points")
def plot_bayes_optimal(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the smallest error against the ratio, and the thresholds."""
    (axes,) = column([3.2], title, ax=ax)
    ratios = _ratios(result)
    error = np.atleast_1d(result.error)
    reached = np.atleast_1d(result.reached_error)
    marker = "o" if len(ratios) < 4 else ""
    axes.plot(
        ratios, error, color=COLORS[0], linewidth=2.0, marker=marker, label="smallest"
    )
    if np.any(reached > error * (1 + 1e-6) + 1e-12):
        axes.plot(
            ratios,
            reached,
            color=COLORS[1],
            linewidth=1.6,
            linestyle=DASHES[1],
            label="reached without\nprior knowledge",
        )
    marks = {
        "weak recovery": result.weak_recovery,
        "smallest error jumps": result.information_threshold,
        "algorithms follow": result.algorithmic_threshold,
    }
    if result.information_threshold == result.algorithmic_threshold:
        marks.pop("smallest error jumps")
        marks["units are distinguished"] = marks.pop("algorithms follow")
    places = zip(marks.items(), (FAINT, INK, COLORS[2]), strict=False)
    for (name, place), color in places:
        if ratios.min() < place < ratios.max():
            label = f"{name},\n{place:.4g}"
            axes.axvline(place, color=color, linestyle=DASHES[2], lw=1.0, label=label)
    _scale(axes, result, _error_label(result.problem))
    heading, conditions = text.problem_in_words(result.problem)
    small = f"{heading}, {conditions}; the student plays no role"
    return finish([axes], RATIO, title, "The smallest possible error", small)


@figure_of("what floors returned", "trajectory", "curves", "missing")
def plot_floors(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the trajectory with its floors, as `trajectory.plot(floors=True)` does."""
    return plot_trajectory(result.trajectory, ax=ax, title=title, floors=result)


@figure_of("what weak_recovery returned", "linear", "quadratic", "ratio")
def plot_weak_recovery(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw how strongly labels shift the mean and the variance of the fields."""
    (axes,) = column([2.6], title, ax=ax)
    names = ["mean of the fields", "variance of the fields"]
    strengths = [result.linear, result.quadratic]
    axes.bar(names, strengths, color=[COLORS[0], COLORS[2]], width=0.5)
    axes.set_xlim(-0.8, 1.8)
    axes.set_ylabel("strength in the labels\n(largest eigenvalue)")
    outcome = text.capital(str(result))
    return finish([axes], "what the labels change", title, "Weak recovery", "", outcome)


@figure_of("what an exponent of a target returned", "kind", "coefficients", "zero")
def plot_target_exponent(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the size of each degree of the target, and mark the lowest."""
    (axes,) = column([2.6], title, ax=ax)
    degrees = np.arange(1, len(result.coefficients) + 1)
    colors = [COLORS[0] if k == result.exponent else COLORS[5] for k in degrees]
    axes.bar(degrees, result.coefficients, color=colors, width=0.6)
    axes.axhline(result.zero, color=FAINT, lw=0.8, linestyle=DASHES[2], label="zero")
    axes.set_ylabel("size in the labels")
    heading = f"{text.capital(result.kind)} exponent"
    outcome = text.capital(str(result))
    return finish([axes], DEGREE, title, heading, "", outcome)
