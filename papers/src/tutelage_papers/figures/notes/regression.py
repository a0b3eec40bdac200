"""The worked example of the notes: online linear regression with ridge.

Our copy of the notes lacks its displayed equations, so claims are held against our own
derivations (docs/notation.md).
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, MARKERS, TIME, panel_grid
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import (
    GUIDE,
    draw_band,
    draw_error,
    legend_below,
    line_of,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def regression(
    rho: float, noise_variance: float, lr: float, ridge: float
) -> "tu.Problem":
    """One linear unit; the note's ridge parameter is a weight decay."""
    teacher = tu.Network(1, "linear", gram=[[rho]])
    return tu.Problem(
        tu.Network(1, "linear"),
        teacher,
        optimizer=tu.SGD(lr, weight_decay=ridge),
        noise=np.sqrt(noise_variance),
    )


def own_equations(
    rho: float, noise_variance: float, lr: float, ridge: float
) -> "tu.Equations":
    """The system as a user writes it, from m = w.w*/d and q = w.w/d alone."""

    def error(state: Any) -> Any:
        return (rho - 2 * state.m + state.q) / 2

    def drift(t: Any, state: Any) -> Any:
        # E[delta^2] of the noisy label is 2 e_g + noise_variance.
        noise = lr**2 * (2 * error(state) + noise_variance)
        dm = lr * (rho - (1 + ridge) * state.m)
        dq = 2 * lr * (state.m - (1 + ridge) * state.q) + noise
        return dm, dq

    return tu.Equations(("m", "q"), drift, error)


def steady_state(
    rho: float, noise_variance: float, lr: Any, ridge: float
) -> tuple[Any, Any, Any]:
    """Return m, q and e_g at rest, which is stable for lr < 2 (1 + ridge).

    dm = 0 gives m, and dq = 0 is solved for V = 2 e_g + noise_variance.
    """
    m = rho / (1 + ridge)
    bias = rho * (ridge / (1 + ridge)) ** 2
    V = 2 * (1 + ridge) / (2 * (1 + ridge) - lr) * (bias + noise_variance)
    q = (2 * m + lr * V) / (2 * (1 + ridge))
    error = (V - noise_variance) / 2
    return m, q, error


def compute_1(
    rho: float,
    noise_variance: float,
    lr: float,
    ridge: float,
    m0: float,
    q0: float,
    end: float,
    points: int,
    dim: int,
    runs: int,
    ridges: list[float],
    lr_shares: list[float],
    seed: int,
) -> "Dataset":
    """Return the worked example with its runs, and the state at rest of each ridge.

    lr_shares: learning rates as shares of 2 (1 + ridge), the rate at which it diverges.
    """
    from tutelage_papers.bands import against_runs

    problem = regression(rho, noise_variance, lr, ridge)
    start = tu.Start(R=[[m0]], Q=[[q0]])
    times = tu.linear_times(end, points)
    data = against_runs(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    system = own_equations(rho, noise_variance, lr, ridge)
    own = tu.solve(system, {"m": m0, "q": q0}, times)
    gap_m = np.abs(own["m"] - data["R"].values[:, 0, 0]).max()
    gap_q = np.abs(own["q"] - data["Q"].values[:, 0, 0]).max()
    data["own_error"] = ("time", own.error)
    data["own_gap"] = max(gap_m, gap_q)
    level = steady_state(rho, noise_variance, lr, ridge)
    data["level"] = ("order_parameter", [*level])
    data["level_solved"] = _error_at_rest(problem, start, points)

    line = np.linspace(0.02, 0.97, 96)
    solved = []
    exact = []
    lines = []
    critical = []
    for strength in ridges:
        problem_at = partial(regression, rho, noise_variance, ridge=strength)
        steady = partial(steady_state, rho, noise_variance, ridge=strength)
        edge = 2 * (1 + strength)
        rates = [share * edge for share in lr_shares]
        solved.append(
            [_error_at_rest(problem_at(lr=rate), start, points) for rate in rates]
        )
        exact.append([steady(lr=rate)[2] for rate in rates])
        lines.append(steady(lr=line * edge)[2])
        critical.append(_critical_lr(problem_at, start, points))
    data["rest"] = (("ridge", "share"), solved)
    data["rest_exact"] = (("ridge", "share"), exact)
    data["rest_line"] = (("ridge", "line"), lines)
    data["critical"] = ("ridge", critical)
    return data.assign_coords(ridge=ridges, share=lr_shares, line=line)


def _error_at_rest(problem: "tu.Problem", start: "tu.Start", points: int) -> float:
    """The error after forty times the slowest time constant."""
    lr = float(problem.optimizer.lr)
    ridge = float(np.asarray(problem.optimizer.weight_decay))
    slowest = lr * min(1 + ridge, 2 * (1 + ridge) - lr)
    times = tu.linear_times(40 / slowest, points)
    return float(tu.solve(problem, start, times).error[-1])


def _critical_lr(problem: Any, start: "tu.Start", points: int) -> float:
    """The learning rate at which the growth of q on solved curves changes sign.

    problem: the problem as a function of lr.
    """
    from scipy.optimize import root_scalar

    def growth(lr: float) -> float:
        times = tu.linear_times(15.0 / lr, points)
        q = tu.solve(problem(lr=lr), start, times).Q[:, 0, 0]
        return float(np.log((q[-1] - q[-2]) / (q[-2] - q[-3])))

    return root_scalar(growth, bracket=(1.2, 3.2), method="brentq", xtol=1e-10).root


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """Steady state, stability, and the user's own system."""
    from tutelage_papers.bands import inside_claims

    yield close(
        "error at rest, the note's parameters",
        data["level_solved"],
        data["level"][2],
        rel=1e-8,
    )
    gap = np.abs(data["rest"] / data["rest_exact"] - 1).max()
    yield at_most(
        "largest relative gap of the error at rest to its closed form", gap, 1e-8
    )
    for ridge in data["ridge"].values:
        yield close(
            f"learning rate at which it diverges, ridge {ridge:g}",
            data["critical"].sel(ridge=ridge),
            2 * (1 + ridge),
            rel=1e-4,
        )
    yield at_most(
        "largest gap between one's own equations and the built-in ones",
        data["own_gap"],
        1e-8,
    )
    yield from inside_claims(data, "linear regression")


def draw_1(data: "Dataset") -> "Figure":
    """Order parameters, error, and the error at rest against the learning rate."""
    title = "Online linear regression with ridge"
    small = (
        "Lines: theory; marks: mean of the runs; bands: ± 2 standard errors of it; "
        "dotted: closed form at rest."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    _draw_order_parameters(axes[0, 0], data)
    _draw_error(axes[0, 1], data)
    _draw_rest(axes[0, 2], data)
    for panel in axes[0]:
        legend_below(panel, drop=0.25)
    return figure


def _draw_order_parameters(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    names = {"R": "$m$", "Q": "$q$"}
    for look, (name, label) in enumerate(names.items()):
        theory = data[name].values[:, 0, 0]
        mean = data[f"{name}_mean"].values[:, 0, 0]
        error = data[f"{name}_se"].values[:, 0, 0]
        draw_band(panel, times, theory, mean, error, look=look, label=label)
        panel.axhline(float(data["level"][look]), **GUIDE)
    panel.set(xlabel=TIME, ylabel="order parameters")


def _draw_error(panel: Any, data: "Dataset") -> None:
    draw_error(panel, data, label="theory, runs")
    panel.plot(data["time"], data["own_error"], **line_of(1), label="own equations")
    panel.axhline(float(data["level"][2]), **GUIDE)
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")


def _draw_rest(panel: Any, data: "Dataset") -> None:
    """The error at rest against the rate; upright lines where it diverges."""
    for look, ridge in enumerate(data["ridge"].values):
        part = data.sel(ridge=ridge)
        edge = 2 * (1 + ridge)
        line = line_of(look)
        marks = {
            "linestyle": "none",
            "marker": MARKERS[look],
            "markerfacecolor": "white",
            "markersize": 4,
        }
        label = rf"$\lambda = {ridge:g}$"
        panel.plot(part["line"] * edge, part["rest_line"], **line, label=label)
        panel.plot(part["share"] * edge, part["rest"], color=line["color"], **marks)
        panel.axvline(float(part["critical"]), **line, linewidth=0.8)
    panel.set(
        xlabel=r"learning rate $\eta$",
        ylabel=r"error at rest, $\epsilon_g(\infty)$",
        yscale="log",
    )


NOTE = {
    "rho": 1.0,
    "noise_variance": 0.1,
    "lr": 0.5,
    "ridge": 0.01,
    "m0": 0.0,
    "q0": 0.1,
    "end": 10.0,
    "points": 101,
}
RIDGES = {
    "ridges": [0.0, 0.01, 0.2, 0.5],
    "lr_shares": [0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95],
}

FIGURES = (
    Replica(
        id="notes-1",
        source="notes",
        figure="linear regression",
        title="online linear regression with ridge: curves, state at rest, stability",
        full=NOTE | RIDGES | {"dim": 1000, "runs": 200, "seed": 1},
        quick=NOTE | RIDGES | {"dim": 500, "runs": 60, "seed": 1},
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
