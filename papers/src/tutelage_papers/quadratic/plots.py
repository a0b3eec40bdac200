"""Figures of quadratic networks: phases and modes, the best rate, implicit bias, solution manifold, critical points."""

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
    """Draw risk, and eigenvalues of R and Q, against t; closed forms of norm learning, plateau and escape."""
    above, below = column([HEIGHT, HEIGHT], title, width=WIDTH)
    t = network.t(curves.times)
    above.plot(t, 2 * curves.error, color=INK, label="exact")
    above.axhline(
        network.plateau_risk,
        color=FAINT,
        linestyle=DASHES[2],
        label="plateau, small rate",
    )
    left = network.plateau_risk * (
        1 - network.loss_reduction(t, float(np.sum(curves.d[..., 0, :] ** 2)))
    )
    above.plot(
        t,
        np.where(left > 0, left, np.nan),
        color=COLORS[1],
        linestyle=DASHES[1],
        label="escape, eq. 13",
    )
    above.set(
        ylabel=r"risk $2\epsilon_g$", ylim=(0, 1.1 * float(np.max(2 * curves.error)))
    )
    _draw_modes(below, t, curves)
    below.plot(
        t,
        network.norm_at(t),
        color=COLORS[1],
        linestyle=DASHES[1],
        label="norm learning",
    )
    small = rf"$p = {network.students}$, $p^* = {network.teachers}$, $\eta = {network.paper_lr:g}$"
    return finish(
        [above, below],
        PAPER_TIME,
        title,
        "Norm learning, plateau and escape of a quadratic network",
        small,
    )


@figure_of("a result of quadratic_network", "d", "z", "error")
def plot_quadratic_curves(curves: Any, *, title: str | None = None) -> "Figure":
    """Draw the error, and the modes of the first initial condition, against alpha."""
    above, below = column([HEIGHT, HEIGHT], title, width=WIDTH)
    for i, error in enumerate(np.reshape(curves.error, (-1, curves.times.size))):
        look = (
            {"color": INK, "zorder": 3, "linewidth": 1.6}
            if i == 0
            else {"color": FAINT, "zorder": 2, "linewidth": 1.0}
        )
        above.plot(curves.times, error, **look)
    above.set(ylabel=ERROR, yscale="log")
    _draw_modes(below, curves.times, curves)
    return finish(
        [above, below],
        TIME,
        title,
        "A quadratic network, mode by mode",
        ", ".join(problem_in_words(curves.problem)),
    )


def _draw_modes(axes: Any, times: np.ndarray, curves: Any) -> None:
    d, q = (np.reshape(x, (-1, *x.shape[-2:]))[0] for x in (curves.d, curves.q))
    taught = np.reshape(curves.t, (-1, curves.t.shape[-1]))[0] > 0
    for color, label, values in (
        (0, "$R$", d[:, taught]),
        (2, "$Q$", q[:, taught]),
        (3, "$Q$, extra units", q[:, ~taught]),
    ):
        for i, value in enumerate(values.T):
            axes.plot(
                times,
                value,
                color=COLORS[color],
                linewidth=1.2,
                label=label if i == 0 else None,
            )
    axes.set_ylabel(MODES)


@figure_of("a result of quadratic_network", "lrs", "times", "on_plateau")
def plot_fastest_escape(fastest: Any, *, title: str | None = None) -> "Figure":
    """Draw the mean time to half the loss against the learning rate."""
    (axes,) = column([2.5], title, width=WIDTH)
    axes.plot(
        fastest.lrs,
        fastest.times,
        "o-",
        color=COLORS[0],
        markerfacecolor="white",
        label="solved",
    )
    axes.axvline(fastest.paper_lr, color=COLORS[0], linestyle=DASHES[1], label="best")
    axes.axvline(
        fastest.on_plateau,
        color=COLORS[1],
        linestyle=DASHES[2],
        label="fastest growth\non the plateau",
    )
    axes.set_ylabel(r"$\alpha$ at half the loss")
    small = rf"best: $\eta = {fastest.paper_lr:.3g}$, $\alpha = {fastest.time:.4g}$"
    return finish(
        [axes],
        r"learning rate $\eta$ of a loss without 1/2",
        title,
        "Samples needed to escape from the plateau",
        small,
    )


@figure_of("what ImplicitBias.along or follow returned", "S", "gap", "bias")
def plot_bias(path: Any, others: Any = (), *, title: str | None = None) -> "Figure":
    """Draw the distance of R(t) from the predicted final R, e_g, and the entries of S(t); other paths in gray."""
    far, error, conserved = column([5.5 / 3] * 3, title, width=WIDTH)
    for i, other in enumerate(others):
        look = {"color": FAINT, "linewidth": 1.0}
        _draw_path(
            far,
            other.times,
            other.gap,
            look,
            "other initial conditions" if i == 0 else None,
        )
        _draw_path(error, other.times, other.error, look)
    look = {"color": INK, "linewidth": 2.0}
    _draw_path(far, path.times, path.gap, look, "this initial condition")
    _draw_path(error, path.times, path.error, look)
    S, shown = (
        path.S.reshape(-1, *path.S.shape[-3:])[0],
        shown_times(path.times),
    )  # of the first run
    for k, m in np.ndindex(S.shape[1:]):
        look = {
            "color": COLORS[k % len(COLORS)],
            "linestyle": DASHES[m % len(DASHES)],
            "linewidth": 1.2,
        }
        conserved.plot(
            path.times[shown],
            S[shown, k, m],
            **look,
            label=f"unit {k + 1}" if m == 0 else None,
        )
    far.set(yscale="log", ylabel="distance to the\n" + r"predicted end $|R - \bar R|$")
    error.set(yscale="log", ylabel=ERROR_IN_TWO_LINES)
    conserved.set_ylabel("entries of\n" + r"$S = R\,(R^\top R)^{-1/2}$")
    scale_time(far, path.times)
    outcome = (
        "ends at the closest solution"
        if path.confirmed
        else "does not end at the closest solution"
    )
    small = f"{', '.join(problem_in_words(path.bias.problem))}; $S$ moves by {float(np.max(path.moved)):.1g}"
    return finish([far, error, conserved], TIME, title, f"Learning {outcome}", small)


def _draw_path(
    axes: Any,
    times: np.ndarray,
    values: np.ndarray,
    look: dict[str, Any],
    label: str | None = None,
) -> None:
    shown = shown_times(times)
    for i, row in enumerate(np.reshape(values, (-1, times.size))):
        axes.plot(times[shown], row[shown], **look, label=label if i == 0 else None)


@figure_of("what solution_manifold returned", "dim", "teachers", "degrees_of_freedom")
def plot_solution_manifold(
    one: Any, family: list[Any], *, title: str | None = None
) -> "Figure":
    """Draw degrees of freedom and dimension of the solutions against the student units; marks are measured ranks."""
    top, bottom = column([1.85, 1.85], title, width=6.4)
    _draw_counts(
        top, [(m, m.degrees_of_freedom, m.measured_degrees_of_freedom) for m in family]
    )
    _draw_counts(
        bottom,
        [
            (m, m.dimension, m.measured_dimension)
            for m in family
            if m.dimension is not None
        ],
    )
    top.set_ylabel("degrees of\nfreedom")
    bottom.set_ylabel("dimension of\nthe solutions")
    bottom.locator_params(axis="x", integer=True)
    for axes in (top, bottom):
        axes.locator_params(axis="y", integer=True)
        axes.axvline(
            one.dim, color=FAINT, linestyle=DASHES[2], linewidth=1.0, label="$p = N$"
        )
    how = f"$p^* = {one.teachers}$ teachers, $N = {one.dim}$ dimensions"
    return finish(
        [top, bottom],
        "student units $p$",
        title,
        "Quadratic networks: degrees of freedom and dimension of the solutions",
        how,
    )


def _draw_counts(axes: Any, rows: list[tuple[Any, int, Callable[[], int]]]) -> None:
    """The counts of a family of manifolds; measured ranks where there are few weights."""
    axes.plot(
        [m.students for m, _, _ in rows],
        [count for _, count, _ in rows],
        color=COLORS[0],
        label="counted",
    )
    marks = [
        (m.students, measured())
        for m, _, measured in rows
        if m.students * m.dim <= MEASURED
    ]
    axes.plot(
        [p for p, _ in marks],
        [rank for _, rank in marks],
        **plain_dots(1, 4.0),
        label="measured rank",
    )


@figure_of("what critical_points returned", "points", "dim")
def plot_critical_points(points: Any, *, title: str | None = None) -> "Figure":
    """Draw e_g against the share of descent directions; one line for each number s of aligned directions, r along it."""
    (axes,) = column([3.3], title, width=WIDTH)
    for s in sorted({c.aligned for c in points}):
        row = sorted((c for c in points if c.aligned == s), key=lambda c: c.orthogonal)
        x = [c.index / c.parameters for c in row]
        y = [c.error for c in row]
        look = {
            "color": COLORS[s % len(COLORS)],
            "linestyle": DASHES[s % len(DASHES)],
            "marker": MARKERS[s % len(MARKERS)],
        }
        axes.plot(x, y, **look, markersize=5, linewidth=1.0, label=f"$s = {s}$ aligned")
        for c, *place in zip(row, x, y, strict=True) if len(row) > 1 else ():
            axes.annotate(
                f"{c.orthogonal}",
                tuple(place),
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
            )
    axes.set_ylabel(ERROR_IN_TWO_LINES)
    axes.margins(0.06)
    small = f"{problem_in_words(points.problem)[0]}, $N = {points.dim}$; at the marks: $r$ orthogonal"
    return finish(
        [axes],
        "share of directions that lead down",
        title,
        "All critical points",
        small,
        line=86,
    )
