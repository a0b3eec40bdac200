"""Figures of "A primer on the analytical learning dynamics of nonlinear neural networks"."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, TIME, outside_legend, panel_grid
from tutelage_papers.claims import Claim, close
from tutelage_papers.drawing import draw_band, draw_power, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# Figure 1: theory and experiment in the soft committee machine.


def committee(lr: float, noise: float) -> "tu.Problem":
    """Three erf units learn from three others."""
    return tu.Problem(
        tu.Network(3, "erf"), tu.Network(3, "erf"), optimizer=tu.SGD(lr=lr), noise=noise
    )


def compute_1(
    lrs: list[float],
    noises: list[float],
    R: list[list[float]],
    Q: list[list[float]],
    dim: int,
    end: float,
    points: int,
    runs: int,
    dims: list[int],
    runs_per_dim: int,
    window: list[float],
    seed: int,
) -> "Dataset":
    """Four bands; and for networks of several sizes N, with runs_per_dim * N runs each, how e_g is distributed."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    cases = [(lr, noise) for lr in lrs for noise in noises]
    bands = [
        against_runs(
            committee(lr, noise), start, dim=dim, times=times, runs=runs, seed=seed + i
        )
        for i, (lr, noise) in enumerate(cases)
    ]
    labels = [rf"$\eta = {lr:g}$, $\sigma = {noise:g}$" for lr, noise in cases]
    data = xr.concat(bands, dim=xr.DataArray(labels, dims="case", name="case"))
    first = bands[0]["error"].sel(time=slice(*window))
    return data.merge(
        _sizes(committee(*cases[0]), start, first, dims, runs_per_dim, seed)
    )


def _sizes(
    problem: "tu.Problem",
    start: "tu.Start",
    theory: Any,
    dims: list[int],
    runs_per_dim: int,
    seed: int,
) -> "Dataset":
    """e_g over its theory, averaged over the times of the theory: its mean gap to one, and its spread over runs."""
    import xarray as xr

    ratios = []
    for dim in dims:
        runs = tu.simulate(
            problem,
            start,
            dim=dim,
            times=theory["time"].values,
            runs=runs_per_dim * dim,
            seed=seed + dim,
        )
        ratios.append((runs.error / theory.values).mean(axis=1))
    columns = {
        "bias": [x.mean() - 1 for x in ratios],
        "bias_se": [x.std(ddof=1) / np.sqrt(x.size) for x in ratios],
        "spread": [x.std(ddof=1) for x in ratios],
    }
    return xr.Dataset(
        {name: ("dim", values) for name, values in columns.items()},
        coords={"dim": dims},
    )


def claims_1(data: "Dataset") -> list[Claim]:
    """Inside the band in all four cases; bias as 1/N, spread as N^-1/2."""
    from tutelage_papers.bands import inside_claims

    inside = [
        claim
        for case in data["case"].values
        for claim in inside_claims(data.sel(case=case), _plain(str(case)))
    ]
    size = np.log(data["dim"].values)
    weight = data["bias"].values / data["bias_se"].values
    bias = (
        np.polyfit(size, np.log(data["bias"].values), 1, w=weight)[0]
        if np.all(weight > 0)
        else np.nan
    )
    spread = np.polyfit(size, np.log(data["spread"].values), 1)[0]
    return [
        *inside,
        close(
            "exponent of N in the bias of the mean of e_g", bias, -1.0, absolute=0.15
        ),
        close(
            "exponent of N in the spread of e_g over runs", spread, -0.5, absolute=0.15
        ),
    ]


def _plain(label: str) -> str:
    """A label of the figure as plain text."""
    return label.replace("$", "").replace("\\eta", "eta").replace("\\sigma", "sigma")


def draw_1(data: "Dataset") -> "Figure":
    """A column for each case (error, R, Q), and below them the two laws of N."""
    cases = data["case"].values
    title = "Theory and experiment in the soft committee machine, K = M = 3"
    small = "Lines: theory; marks: mean of the runs; bands: ± 2 standard errors of it. Bottom: networks of several sizes."
    figure, axes = panel_grid(4, len(cases), title, small, height=2.1, sharey="row")
    for column, case in enumerate(cases):
        part = data.sel(case=case)
        panels = axes[:3, column]
        _draw_case(panels, part, last=column == len(cases) - 1)
        panels[0].set_yscale("log")
        panels[0].annotate(
            case, (0.97, 0.95), xycoords="axes fraction", ha="right", va="top"
        )
        panels[2].set_xlabel(TIME)
    for panel, label in zip(axes[:3, 0], (ERROR, "$R_{km}$", "$Q_{kl}$"), strict=True):
        panel.set_ylabel(label)
    grid = axes[3, 0].get_gridspec()
    for panel in axes[3]:
        panel.remove()
    _draw_sizes(
        figure.add_subplot(grid[3, : len(cases) // 2]),
        figure.add_subplot(grid[3, len(cases) // 2 :]),
        data,
    )
    return figure


def _draw_case(panels: Any, part: "Dataset", last: bool) -> None:
    times = part["time"].values
    units = range(part.sizes["student"])
    draw_band(panels[0], times, part["error"], part["error_mean"], part["error_se"])
    pairs = {
        "R": [(k, m) for k in units for m in range(part.sizes["teacher"])],
        "Q": [(k, l) for k in units for l in units if l >= k],
    }
    for panel, (name, entries) in zip(panels[1:], pairs.items(), strict=True):
        for place, (k, l) in enumerate(entries):
            columns = [
                part[f"{name}{ending}"].values[:, k, l]
                for ending in ("", "_mean", "_se")
            ]
            label = f"${name}_{{{k + 1}{l + 1}}}$"
            draw_band(
                panel,
                times,
                *columns,
                look=k,
                dashes=l if name == "R" else l - k,
                label=label,
                place=place,
            )
        if last:
            outside_legend(panel)


def _draw_sizes(left: Any, right: Any, data: "Dataset") -> None:
    dims = data["dim"].values
    left.errorbar(
        dims,
        data["bias"],
        yerr=2 * data["bias_se"],
        fmt="o",
        color=COLORS[1],
        markerfacecolor="white",
        label="bias",
    )
    draw_power(left, dims, float(data["bias"][0]), -1.0, "$N^{-1}$")
    right.plot(
        dims,
        data["spread"],
        "s",
        color=COLORS[2],
        markerfacecolor="white",
        label="spread",
    )
    draw_power(right, dims, float(data["spread"][0]), -0.5, "$N^{-1/2}$")
    for panel, label in (
        (left, r"mean of $\epsilon_g$ / theory, $-\,1$"),
        (right, r"sd of $\epsilon_g$ / theory"),
    ):
        panel.set(
            xscale="log", yscale="log", xlabel="input dimension $N$", ylabel=label
        )
        tick_each(panel, dims)
        panel.legend(loc="lower left")


GENERIC = {
    "R": [[0.45, 0.05, -0.05], [0.0, 0.4, 0.1], [-0.1, 0.05, 0.35]],
    "Q": [[0.5, 0.05, 0.0], [0.05, 0.4, 0.1], [0.0, 0.1, 0.45]],
}
PRINTED_1 = {
    "lrs": [0.5, 1.0],
    "noises": [0.0, 0.1],
    **GENERIC,
    "end": 100.0,
    "window": [4.0, 20.0],
    "seed": 1,
}

FIGURES = (
    Replica(
        id="primer-1",
        source="primer",
        figure="Fig. 1",
        title="theory and experiment in the soft committee machine",
        full=PRINTED_1
        | {
            "points": 101,
            "dim": 784,
            "runs": 200,
            "dims": [50, 100, 200, 400, 800],
            "runs_per_dim": 12,
        },
        quick=PRINTED_1
        | {
            "points": 51,
            "dim": 400,
            "runs": 24,
            "dims": [20, 40, 80],
            "runs_per_dim": 33,
        },
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
