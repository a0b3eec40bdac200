"""Samples that one pass, many passes, the minimum and the best method need.

A linear unit learns real labels with noise sigma, from w = 0, so that all but the Bayes-
optimal error have closed forms. With e the error at alpha = n/N and E = 2 e + sigma^2:

    one pass of SGD    2 e' = -4 eta e + eta^2 E; best at each time: eta = 2 e / E
    many passes        gradient flow of the loss on n samples, stopped at its best time:
                       2 e = int [exp(-2 s t) + sigma^2 (1 - exp(-s t))^2 / s] dmu(s)
    least squares      2 e = sigma^2 / (ratio - 1), ratio above 1

mu is the law of eigenvalues of X^T X / N (Marchenko and Pastur), with its share 1 - ratio
of zeros below ratio 1.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, INK, panel_grid
from tutelage_papers.claims import Claim, above, at_least, below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

METHODS = (
    "Bayes",
    "best ridge",
    "many passes, stopped early",
    "one pass, best schedule",
    "one pass, best constant rate",
    "least squares",
)
NODES = 2000


def one_pass(alpha: np.ndarray, eta: float, noise: float) -> np.ndarray:
    """The error of SGD at a constant rate."""
    decay = 2 * eta - eta**2
    limit = eta**2 * noise**2 / (2 * decay)
    return limit + (0.5 - limit) * np.exp(-decay * alpha)


def best_schedule(alpha: np.ndarray, noise: float) -> np.ndarray:
    """The error of SGD at the best rate of each time."""
    from scipy.integrate import solve_ivp

    def change(_: float, e: np.ndarray) -> np.ndarray:
        return -2 * e**2 / (2 * e + noise**2)

    found = solve_ivp(
        change, (0.0, alpha[-1]), [0.5], t_eval=alpha, rtol=1e-10, atol=1e-14
    )
    return found.y[0]


def stopped_early(ratio: float, noise: float) -> float:
    """The least error of gradient flow on n = ratio N samples."""
    from scipy.optimize import minimize_scalar

    angle = (np.arange(NODES) + 0.5) * np.pi / NODES
    s = 1 + ratio + 2 * np.sqrt(ratio) * np.cos(angle)
    weight = np.sin(angle) ** 2 / s
    weight *= min(ratio, 1.0) / weight.sum()
    zeros = max(1 - ratio, 0.0)

    def error(log_time: float) -> float:
        decay = np.exp(-s * np.exp(log_time))
        noisy = noise**2 * (1 - decay) ** 2 / s
        return float(zeros + weight @ (decay**2 + noisy)) / 2

    found: Any = minimize_scalar(
        error, bounds=(-8.0, 8.0), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.fun)


def linear_problem(noise: float, lr: float = 0.5) -> "tu.Problem":
    """A linear unit learns from another one."""
    unit = tu.Network(1, "linear")
    return tu.Problem(unit, unit, optimizer=tu.SGD(lr), noise=noise)


def compute_5(
    noise: float, ratios: int, levels: list[float], rates: int, checked: float
) -> "Dataset":
    """Compute errors of every method, samples for given errors, and one check."""
    import xarray as xr

    grid = np.geomspace(0.05, 200.0, ratios)
    problem = linear_problem(noise)
    bayes = tu.analysis.bayes_optimal(problem, grid).error
    ridge = tu.analysis.empirical_minimum(problem, grid, ridge=noise**2).error
    plain = tu.analysis.empirical_minimum(problem, grid, ridge=0.0).error
    etas = np.geomspace(0.002, 1.0, rates)
    constant = np.min([one_pass(grid, eta, noise) for eta in etas], axis=0)
    errors = np.array(
        [
            bayes,
            ridge,
            [stopped_early(ratio, noise) for ratio in grid],
            best_schedule(grid, noise),
            constant,
            plain,
        ]
    )
    samples = np.full((len(METHODS), len(levels)), np.nan)
    for row, error in enumerate(errors):
        known = np.isfinite(error)
        for column, level in enumerate(levels):
            samples[row, column] = np.exp(
                np.interp(-np.log(level), -np.log(error[known]), np.log(grid[known]))
            )
    start = tu.Start(np.zeros((1, 1)), np.zeros((1, 1)))
    theory = tu.solve(linear_problem(noise, checked), start, [0.0, 2.0, 20.0])
    closed = one_pass(np.asarray(theory.times), checked, noise)
    return xr.Dataset(
        {
            "error": (("learner", "ratio"), errors),
            "samples": (("learner", "level"), samples),
            "check": ("time", np.abs(closed / theory.error - 1)),
            "noise": noise,
        },
        coords={"learner": list(METHODS), "ratio": grid, "level": levels},
    )


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """The order of the methods, and by which factor samples differ."""
    error = data["error"]
    yield below(
        "one pass: closed form against theory", np.max(data["check"].values), 1e-6
    )
    best = error.sel(learner="Bayes")
    gap = np.abs(error.sel(learner="best ridge") / best - 1).max()
    yield below("best ridge: largest distance from Bayes", gap, 1e-6)
    for method, other in pairwise(METHODS[1:5]):
        ratio = error.sel(learner=other) / error.sel(learner=method)
        yield at_least(
            f"{other}: smallest error relative to {method}", ratio.min(), 1 - 1e-4
        )
    squares = (error.sel(learner="least squares") / best).values
    yield at_least(
        "least squares: smallest error relative to Bayes", np.nanmin(squares), 1.0
    )
    crossing = error.sel(learner="least squares") / error.sel(learner=METHODS[4])
    yield above(
        "least squares near ratio 1 over one pass at a constant rate (control: no order)",
        np.nanmax(crossing.values),
        2.0,
    )
    yield below(
        "least squares at the largest ratio over one pass at a constant rate",
        crossing.values[-1],
        0.5,
    )
    level = float(data["level"].values[-1])
    needed = data["samples"].sel(level=level)
    for method in METHODS[2:5]:
        factor = needed.sel(learner=method) / needed.sel(learner="Bayes")
        yield at_least(
            f"{method}: samples for an error of {level:g}, relative to Bayes",
            factor,
            1.0,
        )


def draw_5(data: "Dataset") -> "Figure":
    """Errors against samples; samples for given errors."""
    small = (
        f"A linear unit, label noise {float(data['noise']):g}. Right: factor of samples "
        "that a method needs, relative to Bayes."
    )
    figure, axes = panel_grid(
        1,
        2,
        "One pass, many passes, the minimum and Bayes",
        small,
        height=3.3,
        width=10,
    )
    left, right = axes[0]
    best = data["samples"].sel(learner="Bayes")
    looks = {
        "Bayes": (INK, "-"),
        "many passes, stopped early": (COLORS[0], DASHES[1]),
        "one pass, best schedule": (COLORS[2], "-"),
        "one pass, best constant rate": (COLORS[1], DASHES[3]),
        "least squares": (COLORS[3], DASHES[2]),
    }
    for method, (color, dashes) in looks.items():
        one = data.sel(learner=method)
        left.plot(
            data["ratio"], one["error"], color=color, linestyle=dashes, label=method
        )
        if method != "Bayes":
            right.plot(
                data["level"],
                one["samples"] / best,
                color=color,
                linestyle=dashes,
                marker="o",
                markersize=4,
            )
    left.set(
        xlabel="samples per input dimension, $n/N$",
        ylabel="error",
        xscale="log",
        yscale="log",
        ylim=(4e-4, 1.0),
    )
    right.set(xlabel="error", ylabel="samples, relative to Bayes", xscale="log")
    right.invert_xaxis()
    left.legend(loc="lower left", fontsize=7)
    return figure


FIGURES = (
    Replica(
        id="static-5",
        source="static",
        figure="samples",
        title="Samples that one pass, many passes, the minimum and Bayes need",
        full={
            "noise": 0.5,
            "ratios": 241,
            "levels": [0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002],
            "rates": 400,
            "checked": 0.3,
        },
        quick={
            "noise": 0.5,
            "ratios": 41,
            "levels": [0.2, 0.05, 0.01],
            "rates": 200,
            "checked": 0.3,
        },
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
)
