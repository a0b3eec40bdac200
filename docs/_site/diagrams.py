"""`make diagrams`: the drawings of the course, docs/learn/figures/*.svg.

Each function draws one figure on an opaque white ground, so that it can be read on
light and dark pages and on slides. Letters are stored as outlines: the figure looks the
same wherever it is shown. Curves and contours are computed, not sketched.
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
STUDENT = COLORS[0]
TEACHER = COLORS[1]
THIRD = COLORS[2]
CENTER: dict[str, Any] = {"ha": "center", "va": "center"}


def _panel(axes: Any, width: float, height: float) -> Any:
    """Turn axes into a drawing area of this size, with equal units both ways."""
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
    thin = {"color": color, "linewidth": 0.8, "alpha": 0.7, "zorder": 1}
    for unit in hidden:
        for point in inputs:
            _line(axes, point, unit, **thin)
        _line(axes, unit, output, color=color, linewidth=1.6, zorder=1)
    for point in inputs:
        axes.add_patch(Circle(point, 0.13, facecolor="white", edgecolor=INK, zorder=2))
    ring = {"facecolor": "white", "edgecolor": color, "linewidth": 2, "zorder": 2}
    for number, point in enumerate(hidden, start=1):
        axes.add_patch(Circle(point, 0.36, **ring))
        axes.text(*point, f"${words['field']}_{number}$", **CENTER)
    axes.add_patch(Circle(output, 0.34, facecolor=color, edgecolor=color, zorder=2))
    axes.text(*output, words["output"], **CENTER, color="white")
    title = {"ha": "center", "color": color, "fontweight": "bold"}
    axes.text(left + 1.1, 4.6, words["title"], **title)
    axes.text(left - 0.25, 1.6, words["weights"], ha="right", va="center", color=color)
    axes.text(left + 2.0, 3.4, words["readout"], ha="left", va="center", color=color)


def _line(axes: Any, tail: Any, head: Any, **look: Any) -> None:
    axes.plot([tail[0], head[0]], [tail[1], head[1]], **look)


def teacher_and_student() -> Figure:
    """Two networks see one input, and the Gram matrix of their weight vectors."""
    figure = Figure(figsize=(8.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.45, 1])
    _draw_networks(_panel(left, 7.6, 5.1))
    _draw_covariance(_panel(right, 5.0, 5.1))
    return figure


def _draw_networks(axes: Any) -> None:
    """Teacher and student side by side, and the difference of their outputs."""
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
    white = {"facecolor": "white", "edgecolor": "none"}
    axes.text(3.85, 3.9, r"$\Delta = y - \hat y$", **CENTER, bbox=white)


def _draw_covariance(axes: Any) -> None:
    """The blocks Q, R and T of the covariance of the fields."""
    blocks = (
        (1.0, 2.3, STUDENT, "$Q_{kj}$"),
        (2.7, 2.3, THIRD, "$R_{km}$"),
        (1.0, 0.6, THIRD, r"$R^\top$"),
        (2.7, 0.6, TEACHER, "$T_{mn}$"),
    )
    for x, y, color, name in blocks:
        fill = {"facecolor": color, "alpha": 0.18, "edgecolor": "none"}
        frame = {"facecolor": "none", "edgecolor": color, "linewidth": 1.6}
        axes.add_patch(Rectangle((x, y), 1.6, 1.6, **fill))
        axes.add_patch(Rectangle((x, y), 1.6, 1.6, **frame))
        axes.text(x + 0.8, y + 1.0, name, **CENTER, fontsize=14)
    formulas = (
        (1.8, 2.8, r"$w_k \cdot w_j/N$"),
        (3.5, 2.8, r"$w_k \cdot w^*_m/N$"),
        (3.5, 1.1, r"$w^*_m \cdot w^*_n/N$"),
    )
    for x, y, formula in formulas:
        axes.text(x, y, formula, **CENTER, fontsize=8.5)
    row = {"ha": "right", "va": "center", "fontsize": 13}
    axes.text(0.8, 3.1, r"$\lambda$", color=STUDENT, **row)
    axes.text(0.8, 1.4, r"$\rho$", color=TEACHER, **row)
    axes.text(1.8, 4.05, r"$\lambda$", ha="center", color=STUDENT, fontsize=13)
    axes.text(3.5, 4.05, r"$\rho$", ha="center", color=TEACHER, fontsize=13)
    title = "covariance of the fields, $C$"
    axes.text(2.65, 4.6, title, ha="center", fontweight="bold")


def _erf_problem(lr: float) -> "tu.Problem":
    """Two erf units learn from two others."""
    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf")
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))


def _plateau_curve() -> Any:
    start = tu.Start(R=[[0.03, 0.02], [0.01, 0.03]], Q=[[0.3, 0.0], [0.0, 0.2]])
    return tu.solve(_erf_problem(0.5), start, times=tu.linear_times(300, 601))


# The phases, and a time within each.
PHASES = (
    ("1 search", 0.0),
    ("2 symmetric plateau", 40.0),
    ("3 escape", 120.0),
    ("4 convergence", 290.0),
)


def four_phases() -> Figure:
    """The learning curve, and the student vectors in the plane of the teacher.

    The vectors are those at four of its times.
    """
    theory = _plateau_curve()
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 4, height_ratios=[1, 1.35])
    curve = figure.add_subplot(grid[0, :])
    curve.semilogy(theory.times, theory.error, color=INK)
    curve.set(xlabel=r"time $\alpha$", ylabel=r"error $\epsilon_g$", xlim=(0, 300))
    for column, (name, time) in enumerate(PHASES):
        place = int(np.argmin(np.abs(theory.times - time)))
        point = (theory.times[place], theory.error[place])
        curve.plot(*point, "o", color=INK, clip_on=False, zorder=3)
        offset = {"textcoords": "offset points", "fontweight": "bold"}
        curve.annotate(name[0], point, (5, 5), **offset)
        axes = figure.add_subplot(grid[1, column])
        axes.set_title(name, fontsize=10, loc="left")
        specialized = column > 1
        _draw_vectors(axes, theory.R[place], theory.Q[place], specialized)
    return figure


def _draw_vectors(axes: Any, R: Any, Q: Any, specialized: bool) -> None:
    """Teacher and student vectors in the plane of the teacher.

    A disk shows the length of a student vector outside that plane.
    """
    limits = (-0.45, 1.25)
    axes.set(xlim=limits, ylim=limits, aspect="equal", xticks=[], yticks=[])
    axes.axis("off")
    for number, head in enumerate(((1, 0), (0, 1)), start=1):
        _arrow(axes, (0, 0), head, TEACHER, 2.6)
        x, y = 1.08 * np.array(head) + (0.02, 0.02)
        axes.text(x, y, f"$w^*_{number}$", color=TEACHER, ha="center")
    beside_units = ((0.62, -0.13), (-0.13, 0.62))
    shifts = ((0.22, -0.08), (-0.08, 0.2))
    for unit, color in enumerate((STUDENT, THIRD)):
        head = R[unit]
        outside = float(np.sqrt(max(Q[unit, unit] - head @ head, 0)))
        disk = {"facecolor": color, "alpha": 0.15, "edgecolor": "none"}
        axes.add_patch(Circle(head, outside, **disk, clip_on=False))
        _arrow(axes, (0, 0), head, color, 2.0)
        if specialized:
            x, y = beside_units[unit]
        else:
            x, y = 0.7 * head + shifts[unit]
        axes.text(x, y, f"$w_{unit + 1}$", color=color, **CENTER)


def concentration() -> Figure:
    """Ten networks at three input dimensions, and the limit."""
    problem = _erf_problem(1.0)
    start = tu.Start(R=[[0.4, 0.2], [0.2, 0.35]], Q=[[0.3, 0.1], [0.1, 0.25]])
    times = tu.linear_times(40, 81)
    theory = tu.solve(problem, start, times)
    figure = Figure(figsize=(8.6, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, dim in zip(panels, (50, 500, 5000), strict=True):
        runs = tu.simulate(problem, start, dim=dim, times=times, runs=10, seed=1)
        axes.plot(times, np.asarray(runs.error).T, color=COLORS[5], linewidth=0.8)
        axes.plot(times, theory.error, color=INK, linewidth=1.8)
        axes.set(
            title=f"$N = {dim}$",
            xlabel=r"time $\alpha$",
            yscale="log",
            ylim=(3e-3, 0.2),
        )
        spread = np.std(runs.error[:, 40]) / np.mean(runs.error[:, 40])
        words = f"scatter {spread:.0%} at $\\alpha = 20$"
        corner = {"ha": "right", "transform": axes.transAxes, "fontsize": 9}
        axes.text(0.95, 0.92, words, **corner)
    panels[0].set_ylabel(r"error $\epsilon_g$")
    return figure


def saddle() -> Figure:
    """The error in the plane of a symmetric and an antisymmetric overlap, and a path.

    The path is that of gradient flow from small initial weights.
    """
    problem = _erf_problem(0.1)
    # w_1 = a w*_1 + b w*_2, w_2 the other way round; s = a + b, u = a - b.
    s, u = np.meshgrid(np.linspace(0, 1.15, 161), np.linspace(-1.2, 1.2, 161))
    a = (s + u) / 2
    b = (s - u) / 2
    R = np.stack([np.stack([a, b], -1), np.stack([b, a], -1)], -2)
    error = np.asarray(tu.generalization_error(problem, R, R @ np.swapaxes(R, -1, -2)))
    plateau = tu.analysis.fixed_point(problem, "plateau", gradient_flow=True)
    rest = 2 * plateau.R[0, 0]

    first = np.array([[0.06, 0.055], [0.055, 0.06]])
    start = tu.Start(first, first @ first.T)
    times = tu.linear_times(1500, 3001)
    path = tu.solve(problem, start, times, gradient_flow=True).R
    shared = path[:, 0, 0] + path[:, 0, 1]
    apart = path[:, 0, 0] - path[:, 0, 1]

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    levels = np.geomspace(5e-4, 0.4, 14)
    visible = np.maximum(error, 1e-6)
    lines = axes.contour(s, u, visible, levels=levels, cmap="Blues_r", linewidths=0.9)
    lines.set_clim(1e-6, 0.6)
    axes.plot(shared, apart, color=TEACHER, linewidth=2.4)
    halfway = int(np.argmax(apart > 0.5))
    for place in (60, halfway):
        here = [shared[place], apart[place]]
        there = [shared[place + 15], apart[place + 15]]
        _arrow(axes, here, there, TEACHER, 2.0, mutation_scale=18)
    axes.plot(rest, 0, "X", color=INK, markersize=9)
    axes.plot([1, 1], [1, -1], "*", color=THIRD, markersize=13)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    axes.annotate("saddle (plateau)", (rest, 0), (0.87, -0.22), bbox=box)
    axes.annotate("solution", (1, 1), (0.83, 1.06), bbox=box)
    axes.annotate("solution, units exchanged", (1, -1), (0.62, -1.14), bbox=box)
    axes.annotate("small initial weights", (0.115, 0.005), (0.03, 0.12), bbox=box)
    axes.set(
        xlabel=r"$R_{11} + R_{12}$: what both units share",
        ylabel=r"$R_{11} - R_{12}$: what sets them apart",
    )
    return figure


def levels_of_a_spectrum() -> Figure:
    """A power law of eight levels next to the error that each level holds."""
    inputs = tu.PowerLaw(beta=1.0, levels=8)
    numbers = np.arange(1, 9)
    colors = [(0.0, 0.2 + 0.07 * i, 0.75 - 0.07 * i) for i in range(8)]
    figure = Figure(figsize=(8.6, 3.2), layout="constrained")
    spectrum, curves = figure.subplots(1, 2, width_ratios=[1, 1.6])
    spectrum.bar(numbers, inputs.eigenvalues, color=colors)
    spectrum.set(
        yscale="log",
        xlabel="level $l$",
        ylabel="eigenvalue",
        title=r"spectrum, $l^{-(1+\beta)}$ with $\beta = 1$",
    )
    _draw_parts(curves, inputs, colors)
    return figure


def _draw_parts(axes: Any, inputs: Any, colors: list[Any]) -> None:
    """The error of one linear unit, level by level: each decays exponentially."""
    lam = inputs.eigenvalues
    times = np.geomspace(0.03, 3000, 200)
    decays = np.exp(-2 * 0.05 * np.outer(times, lam))
    parts = inputs.fractions * lam * decays / 2
    for level, color in enumerate(colors):
        axes.loglog(times, parts[:, level], color=color, linewidth=1.2)
    # Factors on the height of the words, for levels that are named.
    named = {0: 0.55, 1: 1, 2: 1, 7: 0.55}
    for level, factor in named.items():
        height = parts[0, level] * factor
        look = {"color": colors[level], "va": "bottom", "fontsize": 8}
        axes.text(0.035, height, f"level {level + 1}", **look)
    axes.loglog(times, parts.sum(axis=1), color=INK, linewidth=2.4)
    middle = times[(times > 1) & (times < 60)]
    axes.loglog(middle, 0.75 * middle**-0.5, color=TEACHER, linestyle="--")
    axes.text(12, 0.26, r"slope $-\beta/(1+\beta)$", color=TEACHER)
    axes.text(0.035, 0.62, "all levels", fontweight="bold", fontsize=9)
    axes.set(
        ylim=(1e-5, 1.2),
        xlabel=r"time $\alpha$",
        ylabel=r"error $\epsilon_g$",
        title="one linear unit: each level by itself",
    )


# Column, row, title, words and color of each regime.
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
    """Theories by width and by the use that is made of the data."""
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    axes = _panel(figure.subplots(), 11.6, 4.4)
    for column, row, title, words, color in REGIMES:
        x = 0.95 + 3.58 * column
        y = 0.75 + 1.85 * row
        box = {"boxstyle": "round,pad=0.06", "facecolor": color, "alpha": 0.16}
        axes.add_patch(FancyBboxPatch((x, y), 3.35, 1.45, **box, edgecolor="none"))
        bold = {"fontweight": "bold", "fontsize": 9.5, "va": "center"}
        axes.text(x + 0.08, y + 1.22, title, **bold)
        axes.text(x + 0.08, y + 0.95, words, fontsize=8.8, va="top", linespacing=1.4)
    upright = {**CENTER, "rotation": 90, "fontsize": 9.5}
    axes.text(0.4, 1.45, "fixed set\nof samples", **upright)
    axes.text(0.4, 1.45 + 1.85, "fresh samples\n(one pass)", **upright)
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
        # The salt makes the names inside the file the same in each run.
        settings = {
            "svg.fonttype": "path",
            "svg.hashsalt": name,
            "figure.facecolor": "white",
        }
        with tu.plot.style(), rc_context(settings):
            figure = DIAGRAMS[name]()
            figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(*sys.argv[1:])
