"""ReLU students of a ReLU teacher, with the whole term of order eta^2.

The source is the notes on the dynamical analysis of online SGD. Our copy of the notes
lacks its displayed equations, so claims are held against our own derivations
(docs/notation.md).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import DASHES, ERROR, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, below
from tutelage_papers.drawing import (
    draw_band,
    draw_error,
    draw_wrong_error,
    legend_below,
    line_of,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

UNITS = 2
VANISHING = 1e-9  # times G: the theory without G, by the program that solves it with G


def compute_3(
    lr: float,
    noise: float,
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
    points: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return runs, the theory, the theory with 0.9 G and the one without G (X_flow).

    error_by_hand: the error written out. error_partial: the same without a term.
    """
    from tutelage_papers.bands import band, wrong_theory

    student = tu.Network(UNITS, "relu")
    teacher = tu.Network(UNITS, "relu")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)
    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    networks = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    theory = tu.solve(problem, start, times)
    flow = wrong_theory(problem, start, times, VANISHING)
    data = band(theory, networks, wrong_theory(problem, start, times))
    without = band(flow, networks, flow)
    data["error_flow"] = without["error"]
    data["R_flow"] = without["R"]
    data["Q_flow"] = without["Q"]
    data["inside_flow"] = without["inside"]
    data["error_by_hand"] = ("time", _errors_by_hand(theory, whole=True))
    data["error_partial"] = ("time", _errors_by_hand(theory, whole=False))
    return data.assign(lr=lr, dim=dim, runs=runs)


def _errors_by_hand(theory: "tu.Trajectory", whole: bool) -> list[float]:
    T = np.eye(UNITS)
    overlaps = zip(np.asarray(theory.R), np.asarray(theory.Q), strict=True)
    return [_error_by_hand(R, Q, T, whole) for R, Q in overlaps]


def _error_by_hand(R: np.ndarray, Q: np.ndarray, T: np.ndarray, whole: bool) -> float:
    """e_g = E[(sum_i w_i g(x_i))^2] / 2 for g = max(x, 0).

    w is 1 for students and -1 for teachers. With c = C_ab / sqrt(C_aa C_bb),

        E[g_a g_b] = (sqrt(C_aa C_bb - C_ab^2) + C_ab asin c) / (2 pi) + C_ab / 4.

    whole = False leaves out the last term, without which this is the average of
    |x_a| |x_b| / 4 and no more.
    """
    C = np.block([[Q, R], [R.T, T]])
    w = np.repeat([1.0, -1.0], UNITS)
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    c = np.clip(C / size, -1.0, 1.0)
    average = size * (np.sqrt(1 - c**2) + c * np.arcsin(c)) / (2 * np.pi)
    if whole:
        average = average + C / 4
    return float(w @ average @ w / 2)


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Inside the band with the whole term of order eta^2, outside without it."""
    from tutelage_papers.bands import inside_claims

    yield from inside_claims(data, "ReLU")
    yield below(
        "ReLU: the same without the term of order eta^2, which must fail",
        data["inside_flow"],
        0.95,
    )
    yield at_most(
        "largest gap of e_g to E[relu relu] written out by hand",
        np.abs(data["error_by_hand"] - data["error"]).max(),
        1e-10,
    )
    gap = np.abs(data["error_partial"] - data["error_mean"])
    yield below(
        "share of times inside the band without C_ab / 4 in E[relu relu], "
        "which must fail",
        (gap < 4 * data["error_se"]).mean(),
        0.95,
    )


def draw_3(data: "Dataset") -> "Figure":
    """Error and overlaps, with and without the term of order eta^2."""
    title = rf"Two ReLU units learn from two others, $\eta$ = {float(data['lr']):g}"
    small = (
        f"Lines: theory; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; bands: ± 2 standard errors of it; dashed gray: "
        "without the term of order η²; dotted gray: 0.9 G."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.3)
    error, teachers, students = axes[0]
    _draw_errors(error, data)
    _draw_overlaps(teachers, data, "R", [(0, 0), (0, 1), (1, 0), (1, 1)])
    _draw_overlaps(students, data, "Q", [(0, 0), (0, 1), (1, 1)])
    label_panel(error, "error")
    label_panel(teachers, "with the teachers")
    label_panel(students, "among the students")
    for panel in axes[0]:
        panel.set_xlabel(TIME)
        legend_below(panel)
    return figure


def _draw_errors(panel: Any, data: "Dataset") -> None:
    """The error with its runs, and three theories that lack something."""
    times = data["time"].values
    draw_error(panel, data, label="theory, runs")
    without = {"color": FAINT, "linestyle": DASHES[1], "linewidth": 1.2}
    panel.plot(times, data["error_flow"], **without, label=r"without $\eta^2$")
    draw_wrong_error(panel, data)
    partial = line_of(1, dashes=3) | {"linewidth": 1.2}
    panel.plot(times, data["error_partial"], **partial, label=r"without $C_{ab}/4$")
    panel.set(ylabel=ERROR, yscale="log")


def _draw_overlaps(
    panel: Any, data: "Dataset", name: str, pairs: list[tuple[int, int]]
) -> None:
    times = data["time"].values
    for look, (k, l) in enumerate(pairs):
        theory = data[name].values[:, k, l]
        mean = data[f"{name}_mean"].values[:, k, l]
        error = data[f"{name}_se"].values[:, k, l]
        flow = data[f"{name}_flow"].values[:, k, l]
        label = f"${name}_{{{k + 1}{l + 1}}}$"
        draw_band(panel, times, theory, mean, error, look=look, label=label)
        panel.plot(times, flow, color=FAINT, linestyle=DASHES[1], linewidth=0.9)
    panel.set_ylabel(f"overlaps ${name}$")


PRINTED: dict[str, Any] = {
    "lr": 0.5,
    "noise": 0.1,
    "R": [[0.45, 0.1], [-0.05, 0.35]],
    "Q": [[0.5, 0.1], [0.1, 0.4]],
    "points": 41,
    "seed": 3,
}

FIGURES = (
    Replica(
        id="notes-3",
        source="notes",
        figure="ReLU networks",
        title="ReLU student and teacher, with and without the term of order eta^2",
        full=PRINTED | {"end": 20.0, "dim": 1000, "runs": 200},
        quick=PRINTED | {"end": 10.0, "dim": 500, "runs": 60},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
