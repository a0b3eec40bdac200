"""Figure 1 of the primer: theory and experiment in the soft committee machine.

The primer is "A primer on the analytical learning dynamics of nonlinear neural
networks".
"""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, TIME, outside_legend, panel_grid
from tutelage_papers.claims import Claim, close
from tutelage_papers.drawing import draw_band, draw_error, draw_power, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def committee(lr: float, noise: float) -> "tu.Problem":
    """Three erf units learn from three others."""
    student = tu.Network(3, "erf")
    teacher = tu.Network(3, "erf")
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


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
    """Return four bands, and how the error of networks of several N is distributed.

    There are runs_per_dim * N runs of networks of size N. window: their times.
    """
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    bands: list[Dataset] = []
    labels = []
    for place, (lr, noise) in enumerate(product(lrs, noises)):
        problem = committee(lr, noise)
        bands.append(
            against_runs(
                problem, start, dim=dim, times=times, runs=runs, seed=seed + place
            )
        )
        labels.append(rf"$\eta = {lr:g}$, $\sigma = {noise:g}$")
    data = xr.concat(bands, dim=xr.DataArray(labels, dims="case", name="case"))
    first = committee(lrs[0], noises[0])
    theory = bands[0]["error"].sel(time=slice(*window))
    return data.merge(_sizes(first, start, theory, dims, runs_per_dim, seed))


def _sizes(
    problem: "tu.Problem",
    start: "tu.Start",
    theory: Any,
    dims: list[int],
    runs_per_dim: int,
    seed: int,
) -> "Dataset":
    """The error over its theory, averaged over the times of the theory, at several N.

    bias: its mean gap to one. spread: its standard deviation over runs.
    """
    import xarray as xr

    times = theory["time"].values
    ratios = []
    for dim in dims:
        runs = runs_per_dim * dim
        seen = tu.simulate(
            problem, start, dim=dim, times=times, runs=runs, seed=seed + dim
        )
        ratios.append((seen.error / theory.values).mean(axis=1))
    errors = [ratio.std(ddof=1) / np.sqrt(ratio.size) for ratio in ratios]
    data = xr.Dataset(coords={"dim": dims})
    data["bias"] = ("dim", [ratio.mean() - 1 for ratio in ratios])
    data["bias_se"] = ("dim", errors)
    data["spread"] = ("dim", [ratio.std(ddof=1) for ratio in ratios])
    return data


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """Inside the band in all four cases; bias as 1/N, spread as N^-1/2."""
    from tutelage_papers.bands import inside_claims

    for case in data["case"].values:
        yield from inside_claims(data.sel(case=case), _plain(str(case)))
    size = np.log(data["dim"].values)
    bias = data["bias"].values
    weight = bias / data["bias_se"].values
    bias_power = np.nan
    if np.all(weight > 0):
        bias_power = np.polyfit(size, np.log(bias), 1, w=weight)[0]
    yield close(
        "exponent of N in the bias of the mean of e_g", bias_power, -1.0, absolute=0.15
    )
    spread_power = np.polyfit(size, np.log(data["spread"].values), 1)[0]
    yield close(
        "exponent of N in the spread of e_g over runs",
        spread_power,
        -0.5,
        absolute=0.15,
    )


def _plain(label: str) -> str:
    """A label of the figure as plain text."""
    return label.replace("$", "").replace("\\eta", "eta").replace("\\sigma", "sigma")


def draw_1(data: "Dataset") -> "Figure":
    """A column for each case (error, R, Q), and below them the two laws of N."""
    cases = data["case"].values
    title = "Theory and experiment in the soft committee machine, K = M = 3"
    small = (
        "Lines: theory; marks: mean of the runs; bands: ± 2 standard errors of it. "
        "Bottom: networks of several sizes."
    )
    figure, axes = panel_grid(4, len(cases), title, small, height=2.1, sharey="row")
    for column, case in enumerate(cases):
        part = data.sel(case=case)
        error, R, Q = axes[:3, column]
        draw_error(error, part)
        _draw_R(R, part)
        _draw_Q(Q, part)
        error.set_yscale("log")
        corner = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        error.annotate(case, (0.97, 0.95), **corner)
        Q.set_xlabel(TIME)
    axes[0, 0].set_ylabel(ERROR)
    axes[1, 0].set_ylabel("$R_{km}$")
    axes[2, 0].set_ylabel("$Q_{kl}$")
    outside_legend(axes[1, -1])
    outside_legend(axes[2, -1])
    # The last row has two panels, as wide as half of the cases each.
    grid = axes[3, 0].get_gridspec()
    for panel in axes[3]:
        panel.remove()
    half = len(cases) // 2
    _draw_bias(figure.add_subplot(grid[3, :half]), data)
    _draw_spread(figure.add_subplot(grid[3, half:]), data)
    return figure


def _draw_R(panel: Any, part: "Dataset") -> None:
    place = 0
    for k in range(part.sizes["student"]):
        for m in range(part.sizes["teacher"]):
            _draw_entry(panel, part, "R", k, m, dashes=m, place=place)
            place += 1


def _draw_Q(panel: Any, part: "Dataset") -> None:
    units = part.sizes["student"]
    place = 0
    for k in range(units):
        for l in range(k, units):
            _draw_entry(panel, part, "Q", k, l, dashes=l - k, place=place)
            place += 1


def _draw_entry(
    panel: Any, part: "Dataset", name: str, k: int, l: int, *, dashes: int, place: int
) -> None:
    """One overlap with its band; the color tells the student."""
    draw_band(
        panel,
        part["time"].values,
        part[name].values[:, k, l],
        part[f"{name}_mean"].values[:, k, l],
        part[f"{name}_se"].values[:, k, l],
        look=k,
        dashes=dashes,
        label=f"${name}_{{{k + 1}{l + 1}}}$",
        place=place,
    )


def _draw_bias(panel: Any, data: "Dataset") -> None:
    dims = data["dim"].values
    error = 2 * data["bias_se"]
    marks = {"fmt": "o", "color": COLORS[1], "markerfacecolor": "white"}
    panel.errorbar(dims, data["bias"], yerr=error, **marks, label="bias")
    draw_power(panel, dims, float(data["bias"][0]), -1.0, "$N^{-1}$")
    _label_sizes(panel, dims, r"mean of $\epsilon_g$ / theory, $-\,1$")


def _draw_spread(panel: Any, data: "Dataset") -> None:
    dims = data["dim"].values
    marks = {"color": COLORS[2], "markerfacecolor": "white"}
    panel.plot(dims, data["spread"], "s", **marks, label="spread")
    draw_power(panel, dims, float(data["spread"][0]), -0.5, "$N^{-1/2}$")
    _label_sizes(panel, dims, r"sd of $\epsilon_g$ / theory")


def _label_sizes(panel: Any, dims: np.ndarray, label: str) -> None:
    panel.set(xscale="log", yscale="log", xlabel="input dimension $N$", ylabel=label)
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
