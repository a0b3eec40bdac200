"""Beyond the power-law paper: where its power law is, as a map over (beta, L).

And what the terms of order eta^2 change.

The last stage is a sum over levels (decay.py), S(x) = sum_l p_l lam_l exp(-lam_l x), with x
the time in units of the slowest group of rates. Its slope is near -beta/(1+beta) only
inside a window that opens slowly with L; before it the curve is still at its beginning,
behind it the decay is exponential. Gradient flows of whole networks up to L = N = 4096
beside it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    INK,
    cell_edges,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, below
from tutelage_papers.drawing import GUIDE, tick_each
from tutelage_papers.figures.power.committees import (
    own_rates,
    slope,
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
    """Return decades of power law by (beta, L), and late slopes by L.

    Those of networks and of the sum over levels. Then e_g with and without the terms of
    order eta^2.
    """
    import xarray as xr

    times = np.concatenate([[0.0], np.geomspace(1.0, rate_end, 120)])
    coords = {"beta": betas, "levels": levels, "flow_levels": flow_levels}
    data = xr.Dataset(coords=coords | {"rate": rates, "time": times})
    decades = [[_decades(beta, L) for L in levels] for beta in betas]
    data["decades"] = (("beta", "levels"), np.array(decades))
    late = np.geomspace(1.0, 10.0, 25)
    flow_slopes = []
    sum_slopes = []
    for L in flow_levels:
        of_flow, of_sum = _slopes(units, L, flow_beta, lr, scale, starts, late, seed)
        flow_slopes.append(of_flow)
        sum_slopes.append(of_sum)
    data["slope"] = (("flow_levels", "start"), np.array(flow_slopes))
    data["slope_sum"] = (("flow_levels", "start"), np.array(sum_slopes))
    data["exponent"] = -flow_beta / (1 + flow_beta)
    return data.assign(
        _with_and_without(rate_levels, flow_beta, rates, dim, times, seed)
    )


def _spectrum(beta: float, L: int) -> np.ndarray:
    return np.asarray(tu.PowerLaw(beta, L).eigenvalues)


def _sum_over_levels(lam: np.ndarray, x: np.ndarray) -> np.ndarray:
    """S(x) of the module's docstring."""
    return np.array([np.mean(lam * np.exp(-lam * t)) for t in x])


def _decades(beta: float, L: int) -> float:
    """Decades of time in which the local slope is within a tenth of -beta/(1+beta)."""
    lam = _spectrum(beta, L)
    x = np.geomspace(0.1 / lam[0], 10 / lam[-1], POINTS)
    logarithm = np.log(np.maximum(_sum_over_levels(lam, x), 1e-300))
    local_slope = np.gradient(logarithm, np.log(x))
    inside = np.abs(local_slope * (1 + beta) / -beta - 1) < WITHIN
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
    """Slopes of networks and of their sums, over the decade amid all levels.

    The networks have as many inputs as levels.
    """
    lam = _spectrum(beta, L)
    # The slow group of orthonormal teachers.
    slow_rate = 2 * lr * (2 / (np.pi * units)) * (1 / np.sqrt(3) - 0.5)
    window = late / np.sqrt(10 * lam[0] * lam[-1]) / slow_rate
    times = np.concatenate([[0.0], window])
    inputs = tu.PowerLaw(beta, L)
    problem = tutelage_papers.power_law.committee(units, inputs=inputs, lr=lr)
    flow_slopes = []
    sum_slopes = []
    for i in range(starts):
        rng = np.random.default_rng(seed + i)
        students = scale * rng.standard_normal((units, L))
        teachers = rng.standard_normal((units, L))
        flow = tutelage_papers.power_law.weight_flow(
            problem, (students, teachers), times, rtol=1e-5
        )
        flow_slopes.append(slope(window, flow.trajectory.error[1:]))
        rates = own_rates((teachers * lam) @ teachers.T / L)
        error = [a * _sum_over_levels(lam, 2 * lr * a * window) for a in rates]
        sum_slopes.append(slope(window, np.sum(error, axis=0)))
    return flow_slopes, sum_slopes


def _with_and_without(
    L: int, beta: float, rates: list[float], dim: int, times: np.ndarray, seed: int
) -> dict[str, Any]:
    """The error with all terms over that of gradient flow, and late slopes of both.

    times: eta alpha.
    """
    spectrum = split_power_law(beta, L, L)
    late = times > times[-1] / 10
    ratio = []
    slope_with = []
    slope_without = []
    for lr in rates:
        alpha = times / lr
        problem, start, flow = solved_committee(2, spectrum, dim, 0.5, lr, alpha, seed)
        without = np.asarray(flow.error)
        whole = np.asarray(tu.solve(problem, start, alpha, keep="blocks").error)
        ratio.append(whole / without)
        slope_with.append(slope(times[late], whole[late]))
        slope_without.append(slope(times[late], without[late]))
    return {
        "ratio": (("rate", "time"), np.array(ratio)),
        "slope_with": ("rate", slope_with),
        "slope_without": ("rate", slope_without),
    }


def claims_22(data: "Dataset") -> Iterator[Claim]:
    """Compare: the window opens with L, networks follow the sum, eta^2 keeps slopes."""
    decades = data["decades"]
    opened = decades.isel(levels=-1) - decades.isel(levels=0)
    words = "decades of power law, largest L less smallest, smallest over beta"
    yield above(words, opened.min(), 0.0)
    most_levels = decades.isel(levels=-1)
    words = (
        "decades of power law at the smallest beta over those at the largest, largest L"
    )
    yield below(words, most_levels[0] / most_levels[-1], 1.0)
    measured = data["slope"].mean("start")
    expected = data["slope_sum"].mean("start")
    words = (
        "slopes of networks amid the window against the sum over levels: largest gap"
    )
    yield at_most(words, np.abs(measured / expected - 1).max(), 0.15)
    distance = np.abs(measured - data["exponent"])
    words = "distance of that slope to the exponent: largest L over smallest"
    yield below(words, distance[-1] / distance[0], 1.0)
    change = np.abs(data["slope_with"] / data["slope_without"] - 1)
    words = "change of the late slope by terms of order eta^2, smallest rate"
    yield at_most(words, change[0], 0.1)
    words = "e_g with terms of order eta^2 over without, late, largest rate"
    yield above(words, data["ratio"][-1, -1], 1.0)


def draw_22(data: "Dataset") -> "Figure":
    """Draw the map, the slopes, and the ratio."""
    title = "Where the power law is: by exponent and number of levels"
    small = (
        "K = M erf units; left: slope of the sum over levels within a tenth of the "
        "exponent"
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.3, width=11.5)
    decades, slopes, ratio = axes[0]
    mesh = _draw_map(decades, data)
    figure.colorbar(mesh, ax=decades, label="decades of power law")
    _draw_slopes(slopes, data)
    _draw_ratio(ratio, data)
    return figure


def _draw_map(panel: Any, data: "Dataset") -> Any:
    """Decades of power law over (L, beta)."""
    levels = data["levels"].values
    across = cell_edges(levels, logarithmic=True)
    up = cell_edges(data["beta"].values, logarithmic=False)
    mesh = panel.pcolormesh(across, up, data["decades"], cmap="cividis")
    panel.set(xscale="log", xlabel="levels $L$", ylabel=r"$\beta$")
    panel.grid(visible=False)
    # At most five numbers.
    every = -(-levels.size // 5)
    tick_each(panel, levels[::every], room=0.0)
    return mesh


def _draw_slopes(panel: Any, data: "Dataset") -> None:
    """Late slopes of networks and of the sum against L."""
    L = data["flow_levels"].values
    # One name for all starts.
    names = ["networks"] + [None] * (data.sizes["start"] - 1)
    panel.semilogx(L, data["slope"], "o", color=COLORS[0], markersize=3, label=names)
    mean = data["slope_sum"].mean("start")
    line = {"color": INK, "linestyle": DASHES[1]}
    panel.semilogx(L, mean, label="sum over levels", **line)
    panel.axhline(float(data["exponent"]), **GUIDE, label=r"$-\beta/(1+\beta)$")
    panel.set(xlabel="levels $L=N$", ylabel="slope amid the window")
    tick_each(panel, L)
    panel.legend(loc="lower right", fontsize=7)


def _draw_ratio(panel: Any, data: "Dataset") -> None:
    """The error with terms of order eta^2 over that without, against eta alpha."""
    for look, eta in enumerate(data["rate"].values):
        # Time zero has no place on a logarithmic axis.
        row = data["ratio"].sel(rate=eta).isel(time=slice(1, None))
        label = rf"$\eta={eta:g}$"
        panel.semilogx(row["time"], row, color=COLORS[look % 7], label=label)
    panel.set_xlabel(r"$\eta\,\alpha$")
    panel.set_ylabel(r"$\epsilon_g$ with / without order $\eta^2$")
    label_panel(panel, "what gradient flow leaves out")
    outside_legend(panel)


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
        title="where the power law is, by exponent and number of levels; "
        "terms of order eta^2",
        full=BEYOND
        | {
            "betas": np.linspace(0.1, 2.0, 20).tolist(),
            "levels": [2**k for k in range(2, 15)],
            "flow_levels": [64, 256, 1024, 4096],
            "starts": 8,
            "rates": [0.1, 0.5, 1.0],
            "rate_end": 500.0,
        },
        quick=BEYOND
        | {
            "betas": [0.25, 0.5, 1.0, 1.5],
            "levels": [8, 64, 512, 4096],
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
