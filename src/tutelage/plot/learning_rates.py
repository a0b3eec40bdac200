"""Figures of learning rates: how fast the error falls in the end, and what label noise leaves of it, at each of them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.4, 4.2)


def plot_decay_rates(
    problem: Any,
    rates: np.ndarray,
    inside: np.ndarray,
    outside: np.ndarray,
    critical: float,
    *,
    best: tuple[float, float] | None = None,
    chosen: tuple[float, float] | None = None,
    title: str | None = None,
) -> "Figure":
    """Asymptotic decay rates of the error against constant learning rates, the critical one marked.

    inside: decay of deviations inside the teachers' span (they enter the error squared); outside: of overlaps outside it.
    best, chosen: points (learning rate, decay rate) to mark.
    """
    from tutelage.plot.figure import Figure

    total = np.minimum(2 * inside, outside)
    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.plot(rates, 2 * inside, color=COLORS[2], linestyle=DASHES[1], linewidth=1.3, label="inside the span, squared")
        axes.plot(rates, outside, color=COLORS[3], linestyle=DASHES[2], linewidth=1.6, label="outside the span")
        axes.plot(rates, total, color=COLORS[0], linewidth=2.4, label="the error: the slower")
        axes.axhline(0.0, color=INK, linewidth=0.8)
        _mark_critical(axes, critical)
        for point, marker, label in ((best, "D", "best constant rate"), (chosen, "o", "this problem")):
            if point is not None:
                name = f"{label}: {point[0]:.4g}"
                axes.plot(*point, marker=marker, linestyle="none", color=INK, markersize=6.5, zorder=4, label=name)
        top = float(np.max(total))
        lowest = min(-0.25 * top, 1.1 * min(0.0, chosen[1]) if chosen else 0.0)
        axes.set_ylim(lowest, max(1.6 * top, 1e-12))
        axes.set_xlim(0.0, max(float(rates[-1]), 1.05 * chosen[0] if chosen else 0.0))
        axes.set_ylabel("decay rate of the error\n" + r"$-\mathrm{d}\,\ln\epsilon_g / \mathrm{d}\alpha$")
        _finish(axes, problem, title or "How fast the error falls in the end")
    return figure


def plot_noise_floor(
    problem: Any,
    rates: np.ndarray,
    floors: np.ndarray,
    critical: float | None,
    chosen: tuple[float, float],
    *,
    title: str | None = None,
) -> "Figure":
    """e_g(infinity) / sigma^2 to first order in sigma^2 against the learning rate; chosen: the point to mark."""
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.plot(rates, floors, color=COLORS[0], linewidth=2.2, label="linear response")
        slope = floors[0] / rates[0]
        axes.plot(rates, slope * rates, color=FAINT, linestyle=DASHES[1], linewidth=1.2, label="small learning rates")
        if critical is not None:
            _mark_critical(axes, critical)
            axes.set_xlim(0.0, 1.05 * critical)
        axes.plot(
            *chosen,
            marker="o",
            linestyle="none",
            color=INK,
            markersize=6.5,
            zorder=4,
            label=f"this problem: {chosen[0]:.4g}",
        )
        axes.set_ylim(0.0, max(6 * float(np.median(floors)), 1.2 * chosen[1]))
        axes.set_ylabel("error that label noise leaves\n" + r"$\epsilon_g(\infty) / \sigma^2$, as $\sigma \to 0$")
        _finish(axes, problem, title or "What label noise leaves of the error")
    return figure


def _mark_critical(axes: Any, critical: float) -> None:
    axes.axvline(
        critical, color=ALARM, linewidth=1.2, linestyle=(0, (2, 2)), label=rf"critical rate $\eta_c$: {critical:.5g}"
    )


def _finish(axes: Any, problem: Any, title: str) -> None:
    axes.set_xlabel(r"constant learning rate $\eta$")
    outside_legend(axes)
    who, how = problem_in_words(problem)
    rest = [part for part in how.split(", ") if not part.startswith("learning rate")]
    write_head(axes, [(title, TITLE), (", ".join([who, *rest]), SMALL)])
