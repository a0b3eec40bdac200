"""Figures of quadratic networks: the phases of learning with their closed forms, modes of exact curves, the best rate."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR, TIME, outside_legend
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.0, 5.8)
PAPER_TIME = r"time $t = \eta\alpha$ of a loss without 1/2"


def plot_quadratic_network(network: Any, curves: Any, *, title: str | None = None) -> "Figure":
    """Risk, and the eigenvalues of R and Q, of one start against t; closed forms of norm learning, plateau and escape."""
    require_fields(
        "plot_quadratic_network", network, ("plateau_risk", "norm_at", "overlap_rate"), "a result of quadratic_network"
    )
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        t = network.t(curves.times)
        above.plot(t, 2 * curves.error, color=INK, label="exact")
        above.axhline(network.plateau_risk, color=FAINT, linestyle=DASHES[2], label="plateau, small rate")
        kept = network.plateau_risk * (1 - network.loss_reduction(t, float(np.sum(curves.d[..., 0, :] ** 2))))
        above.plot(t, np.where(kept > 0, kept, np.nan), color=COLORS[1], linestyle=DASHES[1], label="escape, eq. 13")
        above.set(ylabel=r"risk $2\epsilon_g$", ylim=(0, 1.1 * float(np.max(2 * curves.error))))
        _draw_modes(below, t, curves)
        below.plot(t, network.norm_at(t), color=COLORS[1], linestyle=DASHES[1], label="norm learning")
        below.set(xlabel=PAPER_TIME, ylabel="singular values of $R$,\neigenvalues of $Q$")
        for axes in (above, below):
            outside_legend(axes)
        small = rf"$p = {network.students}$, $p^* = {network.teachers}$, $\eta = {network.paper_lr:g}$"
        write_head(above, [(title or "Norm learning, plateau and escape of a quadratic network", TITLE), (small, SMALL)])
    return figure


def plot_quadratic_curves(curves: Any, *, title: str | None = None) -> "Figure":
    """Error, and the modes of the first start, against alpha."""
    require_fields("plot_quadratic_curves", curves, ("d", "z", "error"), "a result of quadratic_network")
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for i, error in enumerate(np.reshape(curves.error, (-1, curves.times.size))):
            above.plot(
                curves.times, error, color=INK if i == 0 else FAINT, zorder=3 - (i > 0), linewidth=1.0 + 0.6 * (i == 0)
            )
        above.set(ylabel=ERROR, yscale="log")
        _draw_modes(below, curves.times, curves)
        below.set(xlabel=TIME, ylabel="singular values of $R$,\neigenvalues of $Q$")
        outside_legend(below)
        who, how = problem_in_words(curves.problem)
        write_head(above, [(title or "A quadratic network, mode by mode", TITLE), (f"{who}, {how}", SMALL)])
    return figure


def plot_fastest_escape(fastest: Any, *, title: str | None = None) -> "Figure":
    """Mean time to half the loss against the learning rate."""
    require_fields("plot_fastest_escape", fastest, ("lrs", "times", "on_plateau"), "a result of quadratic_network")
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=(SIZE[0], 3.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(fastest.lrs, fastest.times, "o-", color=COLORS[0], markerfacecolor="white", label="solved")
        axes.axvline(fastest.paper_lr, color=COLORS[0], linestyle=DASHES[1], label="best")
        axes.axvline(fastest.on_plateau, color=COLORS[1], linestyle=DASHES[2], label="fastest growth\non the plateau")
        axes.set(xlabel=r"learning rate $\eta$ of a loss without 1/2", ylabel=r"$\alpha$ at half the loss")
        outside_legend(axes)
        small = rf"best: $\eta = {fastest.paper_lr:.3g}$, $\alpha = {fastest.time:.4g}$"
        write_head(axes, [(title or "Samples needed to leave the plateau", TITLE), (small, SMALL)])
    return figure


def _draw_modes(axes: Any, times: np.ndarray, curves: Any) -> None:
    d, q = (np.reshape(x, (-1, *x.shape[-2:]))[0] for x in (curves.d, curves.q))
    taught = np.reshape(curves.t, (-1, curves.t.shape[-1]))[0] > 0
    for look, (label, values, chosen) in enumerate(
        (("$R$", d, taught), ("$Q$", q, taught), ("$Q$, extra units", q, ~taught))
    ):
        place = (0, 2, 3)[look]
        for i, value in enumerate(values[:, chosen].T):
            axes.plot(times, value, color=COLORS[place], linewidth=1.2, label=label if i == 0 else None)
