"""Beyond the power-law paper: where its power law is, as a map over (beta, L), and what the terms of order eta^2 change.

The last stage is a sum over levels (decay.py), S(x) = sum_l p_l lam_l exp(-lam_l x), with x the time in units of the slowest
group of rates. Its slope is near -beta/(1+beta) only inside a window that opens slowly with L; before it the curve is
still at its beginning, behind it the decay is exponential. Gradient flows of whole networks up to L = N = 4096 beside it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    INK,
    cell_edges,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, below
from tutelage_papers.drawing import tick_each
from tutelage_papers.figures.power.committees import (
    own_rates,
    solved_committee,
    split_power_law,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WITHIN = 0.1  # relative distance of a local slope to the exponent, inside the window
POINTS = 400


def compute_22(
    betas: list[float],
    levels: list[int],
    flow_beta: float,
    flow_levels: list[int],
    units: int,
    starts: int,
    lr: float,
    scale: float,
    rates: list[float],
    rate_levels: int,
    rate_end: float,
    dim: int,
    seed: int,
) -> "Dataset":
    """Decades of power law by (beta, L); late slopes of networks and of the sum by L; e_g with and without eta^2."""
    import xarray as xr

    decades = [[_decades(beta, L) for L in levels] for beta in betas]
    late = np.geomspace(1.0, 10.0, 25)
    flows = [
        _slopes(units, L, flow_beta, lr, scale, starts, late, seed) for L in flow_levels
    ]
    times = np.concatenate([[0.0], np.geomspace(1.0, rate_end, 120)])
    ratio = [
        _with_and_without(rate_levels, flow_beta, eta, dim, times, seed)
        for eta in rates
    ]
    return xr.Dataset(
        {
            "decades": (("beta", "levels"), np.array(decades)),
            "slope": (("flow_levels", "start"), np.array([f[0] for f in flows])),
            "slope_sum": (("flow_levels", "start"), np.array([f[1] for f in flows])),
            "exponent": -flow_beta / (1 + flow_beta),
            "ratio": (("rate", "time"), np.array([r[0] for r in ratio])),
            "slope_with": ("rate", [r[1] for r in ratio]),
            "slope_without": ("rate", [r[2] for r in ratio]),
        },
        coords={
            "beta": betas,
            "levels": levels,
            "flow_levels": flow_levels,
            "rate": rates,
            "time": times,
        },
    )


def _spectrum(beta: float, L: int) -> np.ndarray:
    return np.asarray(tu.PowerLaw(beta, L).eigenvalues)


def _sum(lam: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([np.mean(lam * np.exp(-lam * t)) for t in x])


def _decades(beta: float, L: int) -> float:
    """How many decades of time the local slope is within a tenth of -beta/(1+beta)."""
    lam = _spectrum(beta, L)
    x = np.geomspace(0.1 / lam[0], 10 / lam[-1], POINTS)
    slope = np.gradient(np.log(np.maximum(_sum(lam, x), 1e-300)), np.log(x))
    inside = np.abs(slope * (1 + beta) / -beta - 1) < WITHIN
    return float(inside.sum() * np.log10(x[1] / x[0]))


def _slopes(
    units: int,
    L: int,
    beta: float,
    lr: float,
    scale: float,
    starts: int,
    late: np.ndarray,
    seed: int,
) -> tuple[list[float], list[float]]:
    """Slopes of networks with as many inputs as levels, and of their sums, over the decade amid all levels."""
    lam = _spectrum(beta, L)
    slow = (
        2 * lr * (2 / (np.pi * units)) * (1 / np.sqrt(3) - 0.5)
    )  # the slow group of orthonormal teachers
    window = late / np.sqrt(10 * lam[0] * lam[-1]) / slow
    problem = tutelage_papers.power_law.committee(
        units, inputs=tu.PowerLaw(beta, L), lr=lr
    )
    flows = []
    sums = []
    for i in range(starts):
        rng = np.random.default_rng(seed + i)
        weights = (
            scale * rng.standard_normal((units, L)),
            rng.standard_normal((units, L)),
        )
        error = tutelage_papers.power_law.weight_flow(
            problem, weights, np.concatenate([[0.0], window]), rtol=1e-5
        ).trajectory.error[1:]
        rates = own_rates((weights[1] * lam) @ weights[1].T / L)
        flows.append(_slope(window, np.asarray(error)))
        sums.append(
            _slope(
                window,
                np.sum([a * _sum(lam, 2 * lr * a * window) for a in rates], axis=0),
            )
        )
    return flows, sums


def _slope(t: np.ndarray, y: np.ndarray) -> float:
    return float(np.polyfit(np.log(t), np.log(y), 1)[0])


def _with_and_without(
    L: int, beta: float, lr: float, dim: int, times: np.ndarray, seed: int
) -> tuple[Any, float, float]:
    """e_g with all terms over e_g of gradient flow, against eta alpha; and the late slopes of both."""
    spectrum = split_power_law(beta, L, L)
    problem, start, flow = solved_committee(2, spectrum, dim, 0.5, lr, times / lr, seed)
    whole = tu.solve(problem, start, times / lr, keep="blocks")
    late = times > times[-1] / 10
    with_, without = (np.asarray(x.error) for x in (whole, flow))
    return (
        with_ / without,
        _slope(times[late], with_[late]),
        _slope(times[late], without[late]),
    )


def claims_22(data: "Dataset") -> list[Claim]:
    """The window opens with L, more slowly for small beta; networks follow the sum; eta^2 moves the curve, not its slope."""
    decades = data["decades"].values
    slope = data["slope"].values.mean(axis=1)
    expected = data["slope_sum"].values.mean(axis=1)
    exponent = float(data["exponent"])
    change = np.abs(data["slope_with"].values / data["slope_without"].values - 1)
    return [
        above(
            "decades of power law, largest L less smallest, smallest over beta",
            float((decades[:, -1] - decades[:, 0]).min()),
            0.0,
        ),
        below(
            "decades of power law at the smallest beta over those at the largest, largest L",
            decades[0, -1] / decades[-1, -1],
            1.0,
        ),
        at_most(
            "slopes of networks amid the window against the sum over levels: largest gap",
            float(np.abs(slope / expected - 1).max()),
            0.15,
        ),
        below(
            "distance of that slope to the exponent: largest L over smallest",
            float(abs(slope[-1] - exponent) / abs(slope[0] - exponent)),
            1.0,
        ),
        at_most(
            "change of the late slope by terms of order eta^2, smallest rate",
            float(change[0]),
            0.1,
        ),
        above(
            "e_g with terms of order eta^2 over without, late, largest rate",
            float(data["ratio"].values[-1, -1]),
            1.0,
        ),
    ]


def draw_22(data: "Dataset") -> "Figure":
    """The map, the slopes, the ratio."""
    small = "K = M erf units; left: slope of the sum over levels within a tenth of the exponent"
    figure, axes = panel_grid(
        1,
        3,
        "Where the power law is: by exponent and number of levels",
        small,
        height=3.3,
        width=11.5,
    )
    shown, slopes, ratio = axes[0]
    levels = data["levels"].values
    edges = (
        cell_edges(levels, logarithmic=True),
        cell_edges(data["beta"].values, logarithmic=False),
    )
    mesh = shown.pcolormesh(*edges, data["decades"], cmap="cividis")
    shown.set(xscale="log", xlabel="levels $L$", ylabel=r"$\beta$")
    shown.grid(visible=False)
    tick_each(shown, levels[:: -(-levels.size // 5)], room=0.0)
    figure.colorbar(mesh, ax=shown, label="decades of power law")
    L = data["flow_levels"].values
    slopes.semilogx(
        L,
        data["slope"],
        "o",
        color=COLORS[0],
        markersize=3,
        label=["networks"] + [None] * (data.sizes["start"] - 1),
    )
    slopes.semilogx(
        L,
        data["slope_sum"].mean("start"),
        color=INK,
        linestyle=DASHES[1],
        label="sum over levels",
    )
    slopes.axhline(
        float(data["exponent"]),
        color=FAINT,
        linestyle=DASHES[2],
        label=r"$-\beta/(1+\beta)$",
    )
    slopes.set(xlabel="levels $L=N$", ylabel="slope amid the window")
    tick_each(slopes, L)
    slopes.legend(loc="lower right", fontsize=7)
    for i, eta in enumerate(data["rate"].values):
        ratio.semilogx(
            data["time"][1:],
            data["ratio"][i, 1:],
            color=COLORS[i % 7],
            label=rf"$\eta={eta:g}$",
        )
    ratio.set(
        xlabel=r"$\eta\,\alpha$", ylabel=r"$\epsilon_g$ with / without order $\eta^2$"
    )
    label_panel(ratio, "what gradient flow leaves out")
    outside_legend(ratio)
    return figure


BEYOND = {
    "flow_beta": 1.0,
    "units": 2,
    "lr": 0.01,
    "scale": 0.01,
    "rate_levels": 9,
    "dim": 9000,
    "seed": 0,
}

FIGURES = (
    Replica(
        id="power-22",
        source="power",
        figure="beyond the paper",
        title="where the power law is, by exponent and number of levels; terms of order eta^2",
        full=BEYOND
        | {
            "betas": np.linspace(0.1, 2.0, 20).tolist(),
            "levels": [2**k for k in range(2, 15)],
        }
        | {
            "flow_levels": [64, 256, 1024, 4096],
            "starts": 8,
            "rates": [0.1, 0.5, 1.0],
            "rate_end": 500.0,
        },
        quick=BEYOND
        | {"betas": [0.25, 0.5, 1.0, 1.5], "levels": [8, 64, 512, 4096]}
        | {
            "flow_levels": [64, 512],
            "starts": 6,
            "rates": [0.1, 1.0],
            "rate_end": 300.0,
        },
        compute=compute_22,
        draw=draw_22,
        claims=claims_22,
    ),
)
