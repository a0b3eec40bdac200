"""`make diagrams`: the drawings of the course, docs/learn/figures/*.svg.

Each function draws one figure on an opaque white ground, so that it can be read on light and dark pages and on slides. Letters are
stored as outlines: the figure looks the same wherever it is shown. Curves and contours are computed, not sketched.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

import tutelage as tu
from tutelage.plot.style import COLORS, FAINT, INK

FIGURES = Path(__file__).resolve().parents[1] / "learn" / "figures"
STUDENT, TEACHER, THIRD = COLORS[0], COLORS[1], COLORS[2]


def _panel(axes: Any, width: float, height: float) -> Any:
    """Turn axes into a drawing area of this size, in units of one length in both directions."""
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return axes


def _arrow(
    axes: Any, tail: Any, head: Any, color: str = INK, width: float = 2.0, **look: Any
) -> None:
    style = {
        "arrowstyle": "-|>",
        "color": color,
        "linewidth": width,
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": 13,
    } | look
    axes.annotate("", xy=head, xytext=tail, arrowprops=style)


def _network(axes: Any, left: float, color: str, words: dict[str, str]) -> None:
    """A two-layer network: inputs at the bottom, two hidden units, one output."""
    inputs = [(left + 0.55 * i, 0.9) for i in range(5)]
    hidden = [(left + 0.5, 2.5), (left + 1.7, 2.5)]
    output = (left + 1.1, 3.9)
    for unit in hidden:
        for point in inputs:
            axes.plot(
                *zip(point, unit, strict=True),
                color=color,
                linewidth=0.8,
                alpha=0.7,
                zorder=1,
            )
        axes.plot(*zip(unit, output, strict=True), color=color, linewidth=1.6, zorder=1)
    for point in inputs:
        axes.add_patch(Circle(point, 0.13, facecolor="white", edgecolor=INK, zorder=2))
    for i, point in enumerate(hidden):
        axes.add_patch(
            Circle(
                point, 0.36, facecolor="white", edgecolor=color, linewidth=2, zorder=2
            )
        )
        axes.text(*point, f"${words['field']}_{i + 1}$", ha="center", va="center")
    axes.add_patch(Circle(output, 0.34, facecolor=color, edgecolor=color, zorder=2))
    axes.text(*output, words["output"], ha="center", va="center", color="white")
    axes.text(
        left + 1.1, 4.6, words["title"], ha="center", color=color, fontweight="bold"
    )
    axes.text(left - 0.25, 1.6, words["weights"], ha="right", va="center", color=color)
    axes.text(left + 2.0, 3.4, words["readout"], ha="left", va="center", color=color)


def teacher_and_student() -> Figure:
    """Two networks see one input; all that matters is the Gram matrix of their weight vectors."""
    figure = Figure(figsize=(8.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.45, 1])
    axes = _panel(left, 7.6, 5.1)
    teacher = {
        "field": r"\rho",
        "output": "$y$",
        "title": "teacher (fixed)",
        "weights": "$w^*_m$",
        "readout": "$v^*_m$",
    }
    student = {
        "field": r"\lambda",
        "output": r"$\hat y$",
        "title": "student (learns)",
        "weights": "$w_k$",
        "readout": "$v_k$",
    }
    _network(axes, 0.75, TEACHER, teacher)
    _network(axes, 4.75, STUDENT, student)
    axes.text(3.8, 0.25, "the same input $x$: $N$ numbers", ha="center")
    _arrow(axes, (2.35, 3.9), (3.25, 3.9), INK, 1.4)
    _arrow(axes, (5.35, 3.9), (4.45, 3.9), INK, 1.4)
    axes.text(
        3.85,
        3.9,
        r"$\Delta = y - \hat y$",
        ha="center",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none"},
    )

    axes = _panel(right, 5.0, 5.1)
    for x, y, color, name in (
        (1.0, 2.3, STUDENT, "$Q_{kj}$"),
        (2.7, 2.3, THIRD, "$R_{km}$"),
        (1.0, 0.6, THIRD, r"$R^\top$"),
        (2.7, 0.6, TEACHER, "$T_{mn}$"),
    ):
        axes.add_patch(
            Rectangle((x, y), 1.6, 1.6, facecolor=color, alpha=0.18, edgecolor="none")
        )
        axes.add_patch(
            Rectangle(
                (x, y), 1.6, 1.6, facecolor="none", edgecolor=color, linewidth=1.6
            )
        )
        axes.text(x + 0.8, y + 1.0, name, ha="center", va="center", fontsize=14)
    for x, y, formula in (
        (1.8, 2.8, r"$w_k \cdot w_j/N$"),
        (3.5, 2.8, r"$w_k \cdot w^*_m/N$"),
        (3.5, 1.1, r"$w^*_m \cdot w^*_n/N$"),
    ):
        axes.text(x, y, formula, ha="center", va="center", fontsize=8.5)
    axes.text(
        0.8, 3.1, r"$\lambda$", ha="right", va="center", color=STUDENT, fontsize=13
    )
    axes.text(0.8, 1.4, r"$\rho$", ha="right", va="center", color=TEACHER, fontsize=13)
    axes.text(1.8, 4.05, r"$\lambda$", ha="center", color=STUDENT, fontsize=13)
    axes.text(3.5, 4.05, r"$\rho$", ha="center", color=TEACHER, fontsize=13)
    axes.text(
        2.65, 4.6, "covariance of the fields, $C$", ha="center", fontweight="bold"
    )
    return figure


def _plateau_curve() -> Any:
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )
    start = tu.Start(R=[[0.03, 0.02], [0.01, 0.03]], Q=[[0.3, 0.0], [0.0, 0.2]])
    return tu.solve(problem, start, times=tu.linear_times(300, 601))


def four_phases() -> Figure:
    """The learning curve, and the student vectors in the plane of the teacher at four of its times."""
    theory = _plateau_curve()
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 4, height_ratios=[1, 1.35])
    curve = figure.add_subplot(grid[0, :])
    curve.semilogy(theory.times, theory.error, color=INK)
    curve.set(xlabel=r"time $\alpha$", ylabel=r"error $\epsilon_g$", xlim=(0, 300))
    names = ("1 search", "2 symmetric plateau", "3 escape", "4 convergence")
    for i, (name, time) in enumerate(
        zip(names, (0.0, 40.0, 120.0, 290.0), strict=True)
    ):
        at = int(np.argmin(np.abs(theory.times - time)))
        curve.plot(
            theory.times[at], theory.error[at], "o", color=INK, clip_on=False, zorder=3
        )
        curve.annotate(
            name[0],
            (theory.times[at], theory.error[at]),
            (5, 5),
            textcoords="offset points",
            fontweight="bold",
        )
        axes = figure.add_subplot(grid[1, i])
        axes.set(
            xlim=(-0.45, 1.25), ylim=(-0.45, 1.25), aspect="equal", xticks=[], yticks=[]
        )
        axes.axis("off")
        axes.set_title(name, fontsize=10, loc="left")
        for m, head in enumerate(((1, 0), (0, 1))):
            _arrow(axes, (0, 0), head, TEACHER, 2.6)
            axes.text(
                *(1.08 * np.array(head) + (0.02, 0.02)),
                f"$w^*_{m + 1}$",
                color=TEACHER,
                ha="center",
            )
        for k, color in enumerate((STUDENT, THIRD)):
            head = theory.R[at, k]
            outside = float(np.sqrt(max(theory.Q[at, k, k] - head @ head, 0)))
            axes.add_patch(
                Circle(
                    head,
                    outside,
                    facecolor=color,
                    alpha=0.15,
                    edgecolor="none",
                    clip_on=False,
                )
            )
            _arrow(axes, (0, 0), head, color, 2.0)
            place = (
                np.array([0.62, -0.13] if k == 0 else [-0.13, 0.62])
                if i > 1
                else 0.7 * head + ((0.22, -0.08), (-0.08, 0.2))[k]
            )
            axes.text(*place, f"$w_{k + 1}$", color=color, ha="center", va="center")
    return figure


def concentration() -> Figure:
    """Ten networks at three input dimensions, and the limit."""
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=1.0)
    )
    start = tu.Start(R=[[0.4, 0.2], [0.2, 0.35]], Q=[[0.3, 0.1], [0.1, 0.25]])
    times = tu.linear_times(40, 81)
    theory = tu.solve(problem, start, times)
    figure = Figure(figsize=(8.6, 2.9), layout="constrained")
    for axes, dim in zip(
        figure.subplots(1, 3, sharey=True), (50, 500, 5000), strict=True
    ):
        runs = tu.simulate(problem, start, dim=dim, times=times, runs=10, seed=1)
        axes.plot(times, np.asarray(runs.error).T, color=COLORS[5], linewidth=0.8)
        axes.plot(times, theory.error, color=INK, linewidth=1.8)
        axes.set(
            title=f"$N = {dim}$",
            xlabel=r"time $\alpha$",
            yscale="log",
            ylim=(3e-3, 0.2),
        )
        if dim == 50:
            axes.set_ylabel(r"error $\epsilon_g$")
        spread = np.std(runs.error[:, 40]) / np.mean(runs.error[:, 40])
        axes.text(
            0.95,
            0.92,
            f"scatter {spread:.0%} at $\\alpha = 20$",
            ha="right",
            transform=axes.transAxes,
            fontsize=9,
        )
    return figure


def saddle() -> Figure:
    """The error of two units in the plane of a symmetric and an antisymmetric overlap, and a path through it."""
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.1)
    )
    s, u = np.meshgrid(
        np.linspace(0, 1.15, 161), np.linspace(-1.2, 1.2, 161)
    )  # w_1 = a w*_1 + b w*_2, w_2 the other way round
    a, b = (s + u) / 2, (s - u) / 2
    R = np.stack([np.stack([a, b], -1), np.stack([b, a], -1)], -2)
    error = np.asarray(tu.generalization_error(problem, R, R @ np.swapaxes(R, -1, -2)))
    rest = tu.analysis.fixed_point(problem, "plateau", gradient_flow=True).R[0, 0]
    first = np.array([[0.06, 0.055], [0.055, 0.06]])
    path = tu.solve(
        problem,
        tu.Start(first, first @ first.T),
        tu.linear_times(1500, 3001),
        gradient_flow=True,
    ).R
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    levels = np.geomspace(5e-4, 0.4, 14)
    lines = axes.contour(
        s, u, np.maximum(error, 1e-6), levels=levels, cmap="Blues_r", linewidths=0.9
    )
    lines.set_clim(1e-6, 0.6)
    axes.plot(
        path[:, 0, 0] + path[:, 0, 1],
        path[:, 0, 0] - path[:, 0, 1],
        color=TEACHER,
        linewidth=2.4,
    )
    halfway = int(np.argmax(path[:, 0, 0] - path[:, 0, 1] > 0.5))
    for i in (60, halfway):
        here, there = (
            [path[j, 0, 0] + path[j, 0, 1], path[j, 0, 0] - path[j, 0, 1]]
            for j in (i, i + 15)
        )
        _arrow(axes, here, there, TEACHER, 2.0, mutation_scale=18)
    axes.plot(2 * rest, 0, "X", color=INK, markersize=9)
    axes.plot([1, 1], [1, -1], "*", color=THIRD, markersize=13)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    axes.annotate("saddle (plateau)", (2 * rest, 0), (0.87, -0.22), bbox=box)
    axes.annotate("solution", (1, 1), (0.83, 1.06), bbox=box)
    axes.annotate("solution, units exchanged", (1, -1), (0.62, -1.14), bbox=box)
    axes.annotate("small initial weights", (0.115, 0.005), (0.03, 0.12), bbox=box)
    axes.set(
        xlabel=r"$R_{11} + R_{12}$: what both units share",
        ylabel=r"$R_{11} - R_{12}$: what sets them apart",
    )
    return figure


def levels_of_a_spectrum() -> Figure:
    """A power law of eight levels next to the part of the error that each level holds."""
    inputs = tu.PowerLaw(beta=1.0, levels=8)
    lam, p = inputs.eigenvalues, inputs.fractions
    times = np.geomspace(0.03, 3000, 200)
    parts = p * lam * np.exp(-2 * 0.05 * np.outer(times, lam)) / 2
    colors = [(0.0, 0.2 + 0.07 * i, 0.75 - 0.07 * i) for i in range(len(lam))]
    figure = Figure(figsize=(8.6, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.6])
    left.bar(np.arange(1, 9), lam, color=colors)
    left.set(
        yscale="log",
        xlabel="level $l$",
        ylabel="eigenvalue",
        title=r"spectrum, $l^{-(1+\beta)}$ with $\beta = 1$",
    )
    for i, color in enumerate(colors):
        right.loglog(times, parts[:, i], color=color, linewidth=1.2)
        if i in (0, 1, 2, 7):
            right.text(
                0.035,
                parts[0, i] * (0.55 if i in (0, 7) else 1),
                f"level {i + 1}",
                color=color,
                va="bottom",
                fontsize=8,
            )
    right.loglog(times, parts.sum(axis=1), color=INK, linewidth=2.4)
    middle = (times > 1) & (times < 60)
    right.loglog(
        times[middle], 0.75 * times[middle] ** -0.5, color=TEACHER, linestyle="--"
    )
    right.text(12, 0.26, r"slope $-\beta/(1+\beta)$", color=TEACHER)
    right.text(0.035, 0.62, "all levels", fontweight="bold", fontsize=9)
    right.set(
        ylim=(1e-5, 1.2),
        xlabel=r"time $\alpha$",
        ylabel=r"error $\epsilon_g$",
        title="one linear unit: each level by itself",
    )
    return figure


REGIMES = (
    (
        0,
        1,
        "order parameters",
        "this course: exact equations\nfor R and Q; plateaus and\nspecialization",
        STUDENT,
    ),
    (
        1,
        1,
        "mean field",
        "features are learned: an equation\nfor the density of the units",
        THIRD,
    ),
    (
        2,
        1,
        "lazy (kernel, NTK)",
        "features stay fixed: the network\nis linear in its weights",
        COLORS[3],
    ),
    (
        0,
        0,
        "dynamical mean field, replicas",
        "memory of samples seen before;\nwhat P ~ N samples can teach",
        COLORS[4],
    ),
    (
        1,
        0,
        "adaptive kernels",
        "dynamical mean field of wide\nnetworks: the kernel moves",
        FAINT,
    ),
    (
        2,
        0,
        "kernel regression",
        "the error follows from the spectrum\nof the kernel and the target",
        TEACHER,
    ),
)
WIDTHS = (
    "few hidden units, $K$ fixed",
    r"$K \to \infty$, readout $1/K$",
    r"$K \to \infty$, readout $1/\sqrt{K}$",
)


def regimes() -> Figure:
    """Which theory applies, by width and by what is done with the data."""
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    axes = _panel(figure.subplots(), 11.6, 4.4)
    for column, row, title, words, color in REGIMES:
        x, y = 0.95 + 3.58 * column, 0.75 + 1.85 * row
        shape = FancyBboxPatch(
            (x, y),
            3.35,
            1.45,
            boxstyle="round,pad=0.06",
            facecolor=color,
            alpha=0.16,
            edgecolor="none",
        )
        axes.add_patch(shape)
        axes.text(
            x + 0.08, y + 1.22, title, fontweight="bold", fontsize=9.5, va="center"
        )
        axes.text(x + 0.08, y + 0.95, words, fontsize=8.8, va="top", linespacing=1.4)
    for row, words in enumerate(("fixed set\nof samples", "fresh samples\n(one pass)")):
        axes.text(
            0.4,
            1.45 + 1.85 * row,
            words,
            rotation=90,
            ha="center",
            va="center",
            fontsize=9.5,
        )
    _arrow(axes, (0.9, 0.48), (11.55, 0.48), INK, 1.2)
    for column, words in enumerate(WIDTHS):
        axes.text(1.0 + 3.58 * column, 0.02, words, fontsize=9.5, va="bottom")
    return figure


DIAGRAMS = {
    "teacher-and-student": teacher_and_student,
    "four-phases": four_phases,
    "concentration": concentration,
    "saddle": saddle,
    "levels": levels_of_a_spectrum,
    "regimes": regimes,
}


def draw(*names: str) -> None:
    """Draw these diagrams, or all of them."""
    from matplotlib import rc_context

    FIGURES.mkdir(exist_ok=True)
    for name in names or DIAGRAMS:
        with (
            tu.plot.style(),
            rc_context(
                {
                    "svg.fonttype": "path",
                    "svg.hashsalt": name,
                    "figure.facecolor": "white",
                }
            ),
        ):
            DIAGRAMS[name]().savefig(FIGURES / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(*sys.argv[1:])
