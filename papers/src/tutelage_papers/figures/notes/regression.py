"""The worked example of the notes: online linear regression with ridge.

Our copy of the notes lacks its displayed equations, so claims are held against our own derivations (docs/notation.md).
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, MARKERS, TIME, panel_grid
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import draw_band
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
    """The same system as a user writes it, from m = w.w*/d and q = w.w/d alone."""

    def error(state: Any) -> Any:
        return (rho - 2 * state.m + state.q) / 2

    def drift(t: Any, state: Any) -> Any:
        noise = lr**2 * (2 * error(state) + noise_variance)
        return lr * (rho - (1 + ridge) * state.m), 2 * lr * (
            state.m - (1 + ridge) * state.q
        ) + noise

    return tu.Equations(("m", "q"), drift, error)


def steady_state(
    rho: float, noise_variance: float, lr: Any, ridge: float
) -> tuple[Any, Any, Any]:
    """m, q and e_g at rest: dm = 0, and dq = 0 solved for V = 2 e_g + noise_variance. Stable for lr < 2 (1 + ridge)."""
    m = rho / (1 + ridge)
    V = (
        2
        * (1 + ridge)
        / (2 * (1 + ridge) - lr)
        * (rho * (ridge / (1 + ridge)) ** 2 + noise_variance)
    )
    return m, (2 * m + lr * V) / (2 * (1 + ridge)), (V - noise_variance) / 2


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
    """The worked example with its runs; the state at rest and the rate at which it is lost, for several ridges."""
    from tutelage_papers.bands import against_runs

    start = tu.Start(R=[[m0]], Q=[[q0]])
    times = tu.linear_times(end, points)
    data = against_runs(
        regression(rho, noise_variance, lr, ridge),
        start,
        dim=dim,
        times=times,
        runs=runs,
        seed=seed,
    )
    own = tu.solve(
        own_equations(rho, noise_variance, lr, ridge), {"m": m0, "q": q0}, times
    )

    problem = partial(regression, rho, noise_variance)
    steady = partial(steady_state, rho, noise_variance)
    edge = 2 * (1 + np.array(ridges))
    line = np.linspace(0.02, 0.97, 96)
    return data.assign(
        own_error=("time", own.error),
        own_gap=max(
            np.abs(own["m"] - data["R"].values[:, 0, 0]).max(),
            np.abs(own["q"] - data["Q"].values[:, 0, 0]).max(),
        ),
        level=("order_parameter", [*steady(lr, ridge)]),
        level_solved=_error_at_rest(problem(lr, ridge), start, points),
        rest=(
            ("ridge", "share"),
            [
                [_error_at_rest(problem(x * e, r), start, points) for x in lr_shares]
                for r, e in zip(ridges, edge, strict=True)
            ],
        ),
        rest_exact=(
            ("ridge", "share"),
            [
                [steady(x * e, r)[2] for x in lr_shares]
                for r, e in zip(ridges, edge, strict=True)
            ],
        ),
        rest_line=(
            ("ridge", "line"),
            [steady(line * e, r)[2] for r, e in zip(ridges, edge, strict=True)],
        ),
        critical=(
            "ridge",
            [
                _critical_lr(lambda lr, r=r: problem(lr, r), start, points)
                for r in ridges
            ],
        ),
    ).assign_coords(ridge=ridges, share=lr_shares, line=line)


def _error_at_rest(problem: "tu.Problem", start: "tu.Start", points: int) -> float:
    """The error after forty times the slowest time constant."""
    lr = float(problem.optimizer.lr)
    ridge = float(np.asarray(problem.optimizer.weight_decay))
    slowest = lr * min(1 + ridge, 2 * (1 + ridge) - lr)
    return float(
        tu.solve(problem, start, tu.linear_times(40 / slowest, points)).error[-1]
    )


def _critical_lr(problem: Any, start: "tu.Start", points: int) -> float:
    """The learning rate at which the growth of q, measured on solved curves, changes sign."""
    from scipy.optimize import root_scalar

    def growth(lr: float) -> float:
        q = tu.solve(problem(lr), start, tu.linear_times(15.0 / lr, points)).Q[:, 0, 0]
        return float(np.log((q[-1] - q[-2]) / (q[-2] - q[-3])))

    return root_scalar(growth, bracket=(1.2, 3.2), method="brentq", xtol=1e-10).root


def claims_1(data: "Dataset") -> list[Claim]:
    """Steady state, stability, and the user's own system."""
    from tutelage_papers.bands import inside_claims

    gap = np.abs(data["rest"] / data["rest_exact"] - 1).max()
    critical = [
        close(
            f"learning rate at which it diverges, ridge {ridge:g}",
            float(value),
            2 * (1 + ridge),
            rel=1e-4,
        )
        for ridge, value in zip(
            data["ridge"].values, data["critical"].values, strict=True
        )
    ]
    return [
        close(
            "error at rest, the note's parameters",
            float(data["level_solved"]),
            float(data["level"][2]),
            rel=1e-8,
        ),
        at_most(
            "largest relative gap of the error at rest to its closed form",
            float(gap),
            1e-8,
        ),
        *critical,
        at_most(
            "largest gap between one's own equations and the built-in ones",
            float(data["own_gap"]),
            1e-8,
        ),
        *inside_claims(data, "linear regression"),
    ]


def draw_1(data: "Dataset") -> "Figure":
    """Order parameters, error, and the error at rest against the learning rate."""
    title = "Online linear regression with ridge"
    small = "Lines: theory; marks: mean of the runs; bands: ± 2 standard errors of it; dotted: closed form at rest."
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    times = data["time"].values
    for look, (name, letter) in enumerate((("R", "m"), ("Q", "q"))):
        columns = [
            data[f"{name}{ending}"].values[:, 0, 0] for ending in ("", "_mean", "_se")
        ]
        draw_band(axes[0, 0], times, *columns, look=look, label=f"${letter}$")
        axes[0, 0].axhline(float(data["level"][look]), color=FAINT, linestyle=DASHES[2])
    draw_band(
        axes[0, 1],
        times,
        data["error"],
        data["error_mean"],
        data["error_se"],
        look=0,
        label="theory, runs",
    )
    axes[0, 1].plot(
        times,
        data["own_error"],
        color=COLORS[1],
        linestyle=DASHES[1],
        label="own equations",
    )
    axes[0, 1].axhline(float(data["level"][2]), color=FAINT, linestyle=DASHES[2])
    axes[0, 0].set(xlabel=TIME, ylabel="order parameters")
    axes[0, 1].set(xlabel=TIME, ylabel=ERROR, yscale="log")
    for panel in axes[0, :2]:
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2)
    _draw_rest(axes[0, 2], data)
    return figure


def _draw_rest(panel: Any, data: "Dataset") -> None:
    for look, ridge in enumerate(data["ridge"].values):
        part = data.sel(ridge=ridge)
        edge = 2 * (1 + ridge)
        panel.plot(
            part["line"] * edge,
            part["rest_line"],
            color=COLORS[look],
            linestyle=DASHES[look],
            label=rf"$\lambda = {ridge:g}$",
        )
        marks = {
            "linestyle": "none",
            "marker": MARKERS[look],
            "markerfacecolor": "white",
            "markersize": 4,
        }
        panel.plot(part["share"] * edge, part["rest"], color=COLORS[look], **marks)
        panel.axvline(
            float(part["critical"]),
            color=COLORS[look],
            linewidth=0.8,
            linestyle=DASHES[look],
        )
    panel.set(
        xlabel=r"learning rate $\eta$",
        ylabel=r"error at rest, $\epsilon_g(\infty)$",
        yscale="log",
    )
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2)


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
