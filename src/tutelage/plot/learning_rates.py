"""Figures over constant learning rates: decay of the error, and its noise floor."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import ALARM, COLORS, DASHES, DOTTED, FAINT, INK


@figure_of(
    "what critical_learning_rate or decay_rate returned",
    "problem",
    "rate",
    "decay_curves",
)
def plot_decay_rates(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw asymptotic decay rates of the error against constant learning rates.

    The critical learning rate is marked.
    """
    rates, inside, outside = result.decay_curves()
    # A deviation inside the teachers' span enters the error squared, so its part of the
    # error decays at twice its rate. The slower of the two decays remains.
    decay_of_error = np.minimum(2 * inside, outside)
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(
        rates,
        2 * inside,
        color=COLORS[2],
        linestyle=DASHES[1],
        linewidth=1.3,
        label="inside the span, squared",
    )
    axes.plot(
        rates,
        outside,
        color=COLORS[3],
        linestyle=DASHES[2],
        linewidth=1.6,
        label="outside the span",
    )
    axes.plot(
        rates,
        decay_of_error,
        color=COLORS[0],
        linewidth=2.4,
        label="the error: the slower",
    )
    axes.axhline(0.0, color=INK, linewidth=0.8)

    right = float(rates[-1])
    top = float(np.max(decay_of_error))
    bottom = -0.25 * top
    if result.point:
        right = max(right, 1.05 * result.learning_rate)
        bottom = min(bottom, 1.1 * result.rate)
    axes.set(xlim=(0.0, right), ylim=(bottom, max(1.6 * top, 1e-12)))
    formula = r"$-\mathrm{d}\,\ln\epsilon_g / \mathrm{d}\alpha$"
    axes.set_ylabel(f"decay rate of the error\n{formula}")
    _mark_critical_rate(axes, result.dynamics.critical_rate)
    if result.point:
        _mark_point(axes, result.learning_rate, result.rate, result.point)
    heading = "Asymptotic decay rate of the error"
    return _finish_rates(axes, result.problem, title, heading)


@figure_of("what noise_floor returned", "problem", "per_variance", "floors")
def plot_noise_floor(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw e_g(infinity) / sigma^2 against the learning rate.

    It is computed to first order in sigma^2.
    """
    rates, floors = result.floors()
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(rates, floors, color=COLORS[0], linewidth=2.2, label="linear response")
    axes.plot(
        rates,
        floors[0] / rates[0] * rates,
        color=FAINT,
        linestyle=DASHES[1],
        linewidth=1.2,
        label="small learning rates",
    )
    if result.critical is not None:
        axes.set_xlim(0.0, 1.05 * result.critical)
    # Near the critical rate the floor diverges.
    top = max(6 * float(np.median(floors)), 1.2 * result.per_variance)
    axes.set_ylim(0.0, top)
    formula = r"$\epsilon_g(\infty) / \sigma^2$, as $\sigma \to 0$"
    axes.set_ylabel(f"error that label noise leaves\n{formula}")
    _mark_critical_rate(axes, result.critical)
    _mark_point(axes, result.learning_rate, result.per_variance, "this problem")
    heading = "What label noise leaves of the error"
    return _finish_rates(axes, result.problem, title, heading)


def _mark_critical_rate(axes: Axes, critical: float | None) -> None:
    """Draw a vertical line at the critical learning rate, if there is one."""
    if critical is not None:
        label = rf"critical rate $\eta_c$: {critical:.5g}"
        axes.axvline(
            critical, color=ALARM, linewidth=1.2, linestyle=DOTTED, label=label
        )


def _mark_point(axes: Axes, learning_rate: float, value: float, name: str) -> None:
    """Mark the value at one learning rate; a disk is that of the problem."""
    marker = "D"
    if name == "this problem":
        marker = "o"
    label = f"{name}: {learning_rate:.4g}"
    axes.plot(
        [learning_rate],
        [value],
        marker,
        color=INK,
        markersize=6.5,
        zorder=4,
        label=label,
    )


def _finish_rates(axes: Axes, problem: Any, title: str | None, heading: str) -> Figure:
    """Write the head of a figure over learning rates."""
    words, conditions = text.problem_in_words(problem, without=("learning rate",))
    xlabel = r"constant learning rate $\eta$"
    return finish([axes], xlabel, title, heading, f"{words}, {conditions}")
