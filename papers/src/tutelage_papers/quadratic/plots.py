"""Figures of quadratic networks.

Phases and modes, the best rate, implicit bias, solution manifold, critical points.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    ERROR_IN_TWO_LINES,
    FAINT,
    INK,
    MARKERS,
    TIME,
    column,
    figure_of,
    finish,
    plain_dots,
    problem_in_words,
    scale_time,
    shown_times,
)
from tutelage_papers.drawing import GUIDE, line_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 7.0
HEIGHT = 2.45
MODES = "singular values of $R$,\neigenvalues of $Q$"
PAPER_TIME = r"time $t = \eta\alpha$ of a loss without 1/2"
MEASURED = 150  # weights up to which degrees of freedom are also measured as ranks


@figure_of("a result of quadratic_network", "plateau_risk", "norm_at", "overlap_rate")
def plot_quadratic_network(
    network: Any, curves: Any, *, title: str | None = None
) -> "Figure":
    """Draw risk, and eigenvalues of R and Q, against t.

    With closed forms of norm learning, plateau and escape.
    """
    above, below = column([HEIGHT, HEIGHT], title, width=WIDTH)
    t = network.t(curves.times)
    risk = 2 * curves.error
    above.plot(t, risk, color=INK, label="exact")
    above.axhline(network.plateau_risk, label="plateau, small rate", **GUIDE)
    # Eq. 13, until it has used up the loss.
    squares = float(np.sum(curves.d[..., 0, :] ** 2))
    left = network.plateau_risk * (1 - network.loss_reduction(t, squares))
    left = np.where(left > 0, left, np.nan)
    above.plot(t, left, label="escape, eq. 13", **line_of(1))
    above.set(ylabel=r"risk $2\epsilon_g$", ylim=(0, 1.1 * float(np.max(risk))))
    _draw_modes(below, t, curves)
    below.plot(t, network.norm_at(t), label="norm learning", **line_of(1))
    small = (
        rf"$p = {network.students}$, $p^* = {network.teachers}$, "
        rf"$\eta = {network.paper_lr:g}$"
    )
    words = "Norm learning, plateau and escape of a quadratic network"
    return finish([above, below], PAPER_TIME, title, words, small)


@figure_of("a result of quadratic_network", "d", "z", "error")
def plot_quadratic_curves(curves: Any, *, title: str | None = None) -> "Figure":
    """Draw the error, and the modes of the first initial condition, against alpha."""
    above, below = column([HEIGHT, HEIGHT], title, width=WIDTH)
    first, *others = np.reshape(curves.error, (-1, curves.times.size))
    above.plot(curves.times, first, color=INK, zorder=3, linewidth=1.6)
    for error in others:
        above.plot(curves.times, error, color=FAINT, zorder=2, linewidth=1.0)
    above.set(ylabel=ERROR, yscale="log")
    _draw_modes(below, curves.times, curves)
    small = ", ".join(problem_in_words(curves.problem))
    words = "A quadratic network, mode by mode"
    return finish([above, below], TIME, title, words, small)


def _draw_modes(axes: Any, times: np.ndarray, curves: Any) -> None:
    """Overlaps and squared lengths of the first start, mode by mode."""
    d = np.reshape(curves.d, (-1, *curves.d.shape[-2:]))[0]
    q = np.reshape(curves.q, (-1, *curves.q.shape[-2:]))[0]
    t = np.reshape(curves.t, (-1, curves.t.shape[-1]))[0]
    taught = t > 0
    _draw_named_once(axes, times, d[:, taught], COLORS[0], "$R$")
    _draw_named_once(axes, times, q[:, taught], COLORS[2], "$Q$")
    _draw_named_once(axes, times, q[:, ~taught], COLORS[3], "$Q$, extra units")
    axes.set_ylabel(MODES)


def _draw_named_once(
    axes: Any, times: np.ndarray, values: np.ndarray, color: str, name: str
) -> None:
    """One line for each column of values; only the first has a name."""
    for i, value in enumerate(values.T):
        label = name if i == 0 else None
        axes.plot(times, value, color=color, linewidth=1.2, label=label)


@figure_of("a result of quadratic_network", "lrs", "times", "on_plateau")
def plot_fastest_escape(fastest: Any, *, title: str | None = None) -> "Figure":
    """Draw the mean time to half the loss against the learning rate."""
    (axes,) = column([2.5], title, width=WIDTH)
    dots: dict[str, Any] = {"color": COLORS[0], "markerfacecolor": "white"}
    best = {"color": COLORS[0], "linestyle": DASHES[1]}
    growth = "fastest growth\non the plateau"
    axes.plot(fastest.lrs, fastest.times, "o-", label="solved", **dots)
    axes.axvline(fastest.paper_lr, label="best", **best)
    axes.axvline(fastest.on_plateau, label=growth, **line_of(1, 2))
    axes.set_ylabel(r"$\alpha$ at half the loss")
    xlabel = r"learning rate $\eta$ of a loss without 1/2"
    small = rf"best: $\eta = {fastest.paper_lr:.3g}$, $\alpha = {fastest.time:.4g}$"
    words = "Samples needed to escape from the plateau"
    return finish([axes], xlabel, title, words, small)


@figure_of("what ImplicitBias.along or follow returned", "S", "gap", "bias")
def plot_bias(path: Any, others: Any = (), *, title: str | None = None) -> "Figure":
    """Draw the distance of R(t) from the predicted final R, e_g, and entries of S(t).

    Other paths in gray.
    """
    distance, error, conserved = column([5.5 / 3] * 3, title, width=WIDTH)
    gray = {"color": FAINT, "linewidth": 1.0}
    black = {"color": INK, "linewidth": 2.0}
    for i, other in enumerate(others):
        label = "other initial conditions" if i == 0 else None
        _draw_path(distance, other.times, other.gap, gray, label)
        _draw_path(error, other.times, other.error, gray)
    _draw_path(distance, path.times, path.gap, black, "this initial condition")
    _draw_path(error, path.times, path.error, black)
    _draw_polar_factor(conserved, path)
    distance.set_yscale("log")
    distance.set_ylabel("distance to the\n" + r"predicted end $|R - \bar R|$")
    error.set(yscale="log", ylabel=ERROR_IN_TWO_LINES)
    conserved.set_ylabel("entries of\n" + r"$S = R\,(R^\top R)^{-1/2}$")
    scale_time(distance, path.times)
    words = "Learning does not end at the closest solution"
    if path.confirmed:
        words = "Learning ends at the closest solution"
    moved = float(np.max(path.moved))
    problem = ", ".join(problem_in_words(path.bias.problem))
    small = f"{problem}; $S$ moves by {moved:.1g}"
    return finish([distance, error, conserved], TIME, title, words, small)


def _draw_polar_factor(axes: Any, path: Any) -> None:
    """The entries of S of the first run: colors for students, lines for teachers."""
    S = path.S.reshape(-1, *path.S.shape[-3:])[0]
    shown = shown_times(path.times)
    for k, m in np.ndindex(S.shape[1:]):
        label = f"unit {k + 1}" if m == 0 else None
        entry = S[shown, k, m]
        axes.plot(path.times[shown], entry, label=label, linewidth=1.2, **line_of(k, m))


def _draw_path(
    axes: Any,
    times: np.ndarray,
    values: np.ndarray,
    look: dict[str, Any],
    name: str | None = None,
) -> None:
    """One line for each run; only the first has a name."""
    shown = shown_times(times)
    for i, row in enumerate(np.reshape(values, (-1, times.size))):
        label = name if i == 0 else None
        axes.plot(times[shown], row[shown], label=label, **look)


@figure_of("what solution_manifold returned", "dim", "teachers", "degrees_of_freedom")
def plot_solution_manifold(
    manifold: Any, family: list[Any], *, title: str | None = None
) -> "Figure":
    """Draw degrees of freedom and dimension of the solutions against the students.

    Marks are measured ranks. family: manifolds of several numbers of students.
    """
    top, bottom = column([1.85, 1.85], title, width=6.4)
    counts = [
        (one, one.degrees_of_freedom, one.measured_degrees_of_freedom) for one in family
    ]
    _draw_counts(top, counts)
    solvable = [one for one in family if one.dimension is not None]
    counts = [(one, one.dimension, one.measured_dimension) for one in solvable]
    _draw_counts(bottom, counts)
    top.set_ylabel("degrees of\nfreedom")
    bottom.set_ylabel("dimension of\nthe solutions")
    bottom.locator_params(axis="x", integer=True)
    for axes in (top, bottom):
        axes.locator_params(axis="y", integer=True)
        axes.axvline(manifold.dim, linewidth=1.0, label="$p = N$", **GUIDE)
    words = "Quadratic networks: degrees of freedom and dimension of the solutions"
    small = f"$p^* = {manifold.teachers}$ teachers, $N = {manifold.dim}$ dimensions"
    return finish([top, bottom], "student units $p$", title, words, small)


def _draw_counts(axes: Any, rows: list[tuple[Any, int, Callable[[], int]]]) -> None:
    """The counts of a family of manifolds; measured ranks where there are few weights.

    rows: manifold, count, and the function that measures the rank.
    """
    students = []
    counts = []
    measured_students = []
    ranks = []
    for manifold, count, measure in rows:
        students.append(manifold.students)
        counts.append(count)
        if manifold.students * manifold.dim <= MEASURED:
            measured_students.append(manifold.students)
            ranks.append(measure())
    axes.plot(students, counts, color=COLORS[0], label="counted")
    axes.plot(measured_students, ranks, label="measured rank", **plain_dots(1, 4.0))


@figure_of("what critical_points returned", "points", "dim")
def plot_critical_points(points: Any, *, title: str | None = None) -> "Figure":
    """Draw e_g against the share of descent directions.

    One line for each number s of aligned directions, r along it.
    """
    (axes,) = column([3.3], title, width=WIDTH)
    for s in sorted({point.aligned for point in points}):
        row = [point for point in points if point.aligned == s]
        _draw_aligned(axes, sorted(row, key=lambda point: point.orthogonal), s)
    axes.set_ylabel(ERROR_IN_TWO_LINES)
    axes.margins(0.06)
    xlabel = "share of directions that lead down"
    small = (
        f"{problem_in_words(points.problem)[0]}, $N = {points.dim}$; at the marks: $r$ "
        "orthogonal"
    )
    return finish([axes], xlabel, title, "All critical points", small, line=86)


def _draw_aligned(axes: Any, row: list[Any], s: int) -> None:
    """The critical points with s aligned directions; their r at the marks."""
    down = [point.index / point.parameters for point in row]
    error = [point.error for point in row]
    marks = {"marker": MARKERS[s % len(MARKERS)], "markersize": 5, "linewidth": 1.0}
    axes.plot(down, error, label=f"$s = {s}$ aligned", **line_of(s), **marks)
    if len(row) == 1:
        return
    above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
    for point, *place in zip(row, down, error, strict=True):
        axes.annotate(f"{point.orthogonal}", tuple(place), fontsize=7.5, **above)
