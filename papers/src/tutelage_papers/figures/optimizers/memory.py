"""Adam with its usual beta2 = 0.999 at finite N, against the limit of a long memory.

In the limit N (1 - beta2) is fixed: `memory` = 1 / (N (1 - beta2)) in units of alpha. The
first steps divide by few squares, of which the present gradient is one: after n steps
their factor is off by a relative amount of the order 1 / n, which sums to ln(N alpha) / N.
The average of gradients over 1 / (1 - beta1) steps does not delay learning, because its
bias correction makes the first steps as large as the later ones. It makes the gap smaller:
the present gradient is a small part of the average.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim, above, below
from tutelage_papers.drawing import draw_band, draw_power, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

START = ([[0.2]], [[0.5]])
MEMORY = 1.0


def optimizers(lr: float, beta2: float, dim: int) -> dict[str, "tu.optimizers.Adam"]:
    """Return Adam with a fixed beta2 and with a fixed memory, with two values of beta1."""
    return {
        "fixed beta2": tu.optimizers.Adam.from_beta2(lr, 0.9, beta2, dim=dim),
        "fixed memory": tu.optimizers.Adam(lr, 0.9, MEMORY),
        "fixed memory, beta1 = 0": tu.optimizers.Adam(lr, 0.0, MEMORY),
    }


def compute_4(
    lr: float,
    beta2: float,
    dims: list[int],
    end: float,
    points: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return theory and runs of each optimizer at each N."""
    import xarray as xr

    unit = tu.Network(1, "erf")
    start = tu.Start(R=START[0], Q=START[1])
    times = tu.linear_times(end, points)
    rows: list[Dataset] = []
    for place, dim in enumerate(dims):
        parts: list[Dataset] = []
        for optimizer in optimizers(lr, beta2, dim).values():
            problem = tu.Problem(unit, unit, optimizer=optimizer)
            theory = tu.solve(problem, start, times)
            seen = tu.simulate(
                problem, start, dim=dim, times=times, runs=runs, seed=seed + place
            )
            parts.append(_gaps(theory, seen))
        names = xr.DataArray(
            list(optimizers(lr, beta2, dim)), dims="optimizer", name="optimizer"
        )
        rows.append(xr.concat(parts, dim=names))
    data = xr.concat(rows, dim=xr.DataArray(dims, dims="dim", name="dim"))
    return data.assign(runs=runs, lr=lr, beta2=beta2)


def _gaps(theory: "tu.Trajectory", seen: "tu.Trajectory") -> "Dataset":
    """Return errors, the mean gap of R, its standard error, and the verdict."""
    import xarray as xr

    error = np.asarray(seen.error)
    overlap = np.asarray(seen.R)[:, :, 0, 0]
    runs = len(overlap)
    late = np.asarray(theory.R)[-1, 0, 0] - overlap[:, -1]
    data = xr.Dataset(coords={"time": np.asarray(theory.times)})
    data["error"] = ("time", np.asarray(theory.error))
    data["error_mean"] = ("time", error.mean(axis=0))
    data["error_se"] = ("time", error.std(axis=0, ddof=1) / np.sqrt(runs))
    data["gap"] = late.mean()
    data["gap_se"] = late.std(ddof=1) / np.sqrt(runs)
    last = np.asarray(theory.R)[-2:, 0, 0]
    data["speed"] = (last[1] - last[0]) / np.diff(theory.times)[-1]
    data["agrees"] = tu.compare(theory, seen).agrees
    return data


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """The gap is there at a small N, falls with N, and is no delay."""
    dims = data["dim"].values
    gaps = data["gap"].sel(optimizer="fixed memory").values
    errors = data["gap_se"].sel(optimizer="fixed memory").values
    words = "fixed memory: gap at the least N in standard errors"
    yield above(words, gaps[0] / errors[0], 3.0)
    # ln(N) / N falls by an exponent between -1 and -0.75 from N = 125 to 1000
    slope, scatter = fitted_exponent(dims, gaps, errors)
    words = "fixed memory: exponent of the gap in N, upper end of two standard errors"
    yield above(words, slope + 2 * scatter, -1.0)
    words = "fixed memory: exponent of the gap in N, lower end of two standard errors"
    yield below(words, slope - 2 * scatter, -0.5)
    larger = data["gap"].sel(optimizer="fixed memory, beta1 = 0").values - gaps
    scatter = np.hypot(
        errors, data["gap_se"].sel(optimizer="fixed memory, beta1 = 0").values
    )
    words = "beta1 = 0: larger gap at the least N, in standard errors"
    yield above(words, larger[0] / scatter[0], 3.0)
    # a delay by 1 / (1 - beta1) = 10 steps, 10 / N in alpha
    speed = float(data["speed"].sel(optimizer="fixed memory")[0])
    words = "fixed memory: gap at the least N over that of a delay by ten steps"
    yield below(words, gaps[0] / (10 * speed / dims[0]), 0.5)


def fitted_exponent(
    dims: np.ndarray, gaps: np.ndarray, errors: np.ndarray
) -> tuple[float, float]:
    """Return the exponent of a power of N through the gaps, and its standard error."""
    relative = errors / gaps
    weights = 1 / relative**2
    x = np.log(dims)
    center = np.sum(weights * x) / np.sum(weights)
    spread = np.sum(weights * (x - center) ** 2)
    slope = np.sum(weights * (x - center) * np.log(np.abs(gaps))) / spread
    return float(slope), float(1 / np.sqrt(spread))


def draw_4(data: "Dataset") -> "Figure":
    """Draw the curves at the least N, and the gap against N."""
    least = data.isel(dim=0)
    small = (
        f"One erf unit, η = {float(data['lr']):g}. Left: N = {int(least['dim'])}; lines: "
        f"theory; marks: mean of {int(data['runs'])} runs; bands: ± 2 standard errors."
    )
    title = "Adam at finite N: the gap to the limit falls with N"
    figure, axes = panel_grid(1, 2, title, small, height=3.1, width=9.8)
    left, right = axes[0]
    dims = data["dim"].values
    for look, name in enumerate(data["optimizer"].values):
        part = least.sel(optimizer=name)
        columns = [part[f"error{ending}"].values for ending in ("", "_mean", "_se")]
        draw_band(left, data["time"].values, *columns, look=look)
        right.errorbar(
            dims,
            data["gap"].sel(optimizer=name).values,
            2 * data["gap_se"].sel(optimizer=name).values,
            **line_of(look),
            marker="o",
            markersize=3.5,
            label=str(name),
        )
    first = float(data["gap"].sel(optimizer="fixed beta2")[0])
    draw_power(right, dims, first, -1.0, "1 / N")
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    right.set(xlabel="N", ylabel="R of theory − R of runs", xscale="log")
    right.set_yscale("symlog", linthresh=1e-3)
    # a gap spans less than a decade: numbers between the decades
    low, high = right.get_ylim()
    ticks = [t for t in (0.0, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2) if low < t < high]
    right.set_yticks(ticks, labels=[f"{t:g}" for t in ticks])
    right.set_ylim(low, high)
    label_panel(left, "the least N")
    label_panel(right, "gap at the last time")
    outside_legend(right)
    return figure


COMMON: dict[str, Any] = {
    "lr": 0.3,
    "beta2": 0.999,
    "end": 1.0,
    "points": 5,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="optim-4",
        source="optim",
        figure="Adam at finite N",
        title="Adam with its usual constants against the limit of a long memory",
        full=COMMON | {"dims": [250, 500, 1000, 2000, 4000, 8000], "runs": 3000},
        quick=COMMON | {"dims": [125, 250, 500], "runs": 800},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
