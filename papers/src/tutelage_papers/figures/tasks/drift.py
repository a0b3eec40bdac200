"""A teacher that drifts: how well one unit can follow it, and which learning rate follows it best."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import draw_band, draw_power
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

LINEAR = {
    1e-4: 0.0459,
    1e-3: 0.1374,
    1e-2: 0.3644,
}  # drift -> best rate, label noise 0.3
ERF = {  # drift -> best rate and its error, label noise 0.1
    **{0.001: (0.611, 0.001627), 0.003: (0.925, 0.003211), 0.01: (1.311, 0.007442)},
    **{0.03: (1.562, 0.017895), 0.1: (1.472, 0.050010)},
}


def drifting(activation: str, noise: float, drift: float, lr: float) -> "tu.Problem":
    """One unit learns from one that drifts."""
    tasks = tu.Tasks([tu.Network(1, activation)], drift=tu.Drift(drift))
    return tu.Problem(
        tu.Network(1, activation), tasks, noise=noise, optimizer=tu.SGD(lr)
    )


def linear_floor(lr: Any, drift: Any, noise: float) -> Any:
    """The stationary error of a linear unit."""
    return (lr * noise**2 + 2 * drift / (lr + drift)) / (2 * (2 - lr))


def floors(
    activation: str, noise: float, drifts: Any, rates: Any, end: float
) -> np.ndarray:
    """The error after a long time, (drift, rate): one batch."""
    start, (D, E) = (
        tu.Start([[0.1]], [[0.5]]),
        np.meshgrid(drifts, rates, indexing="ij"),
    )
    problem = drifting(
        activation, noise, float(np.ravel(drifts)[0]), float(np.ravel(rates)[0])
    )
    late = tu.solve_batch(
        problem, {"drift.rate": D.ravel(), "lr": E.ravel()}, start, [0.0, end]
    )
    return np.asarray(late.error)[:, -1, 0].reshape(D.shape)


def best(rates: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """The smallest error and its rate, by the parabola through three points in the logarithm of the rate."""
    i = int(np.clip(np.argmin(error), 1, rates.size - 2))
    x = np.log(rates[i - 1 : i + 2] / rates[i])
    a, b, c = np.polyfit(x, error[i - 1 : i + 2], 2)
    return float(rates[i] * np.exp(-b / (2 * a))), float(c - b**2 / (4 * a))


def compute_4(
    noise: float,
    erf_noise: float,
    count: int,
    end: float,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Stationary errors over grids of rates, their minima, and runs of the linear unit."""
    from tutelage_papers.bands import against_runs

    slow = np.geomspace(0.02, 1.2, count)
    fast = np.geomspace(0.3, 2.4, count)
    linear = floors("linear", noise, list(LINEAR), slow, end)
    quiet = floors("linear", 0.0, list(LINEAR), slow, end)
    erf = floors("erf", erf_noise, list(ERF), fast, end)
    problem = drifting("linear", noise, 0.03, 0.3)
    start = tu.Start([[0.1]], [[0.5]])
    data = against_runs(
        problem,
        start,
        dim=dim,
        times=tu.linear_times(runs_end, 31),
        runs=runs,
        seed=seed,
    )
    return data.assign(
        linear=(("drift", "slow"), linear),
        linear_quiet=(("drift", "slow"), quiet),
        erf=(("erf_drift", "fast"), erf),
        linear_best=(
            ("drift", "of_best"),
            np.array([best(slow, row) for row in linear]),
        ),
        quiet_best=(("drift", "of_best"), np.array([best(slow, row) for row in quiet])),
        erf_best=(("erf_drift", "of_best"), np.array([best(fast, row) for row in erf])),
        drift=list(LINEAR),
        erf_drift=list(ERF),
        slow=slow,
        fast=fast,
        noise=noise,
        dim=dim,
        runs=runs,
    )


def claims_4(data: "Dataset") -> list[Claim]:
    """The exact floor, the best rates, how they depend on the drift, and the runs."""
    from tutelage_papers.bands import inside_claims

    noise = float(data["noise"])
    drifts = data["drift"].values
    exact = linear_floor(data["slow"].values, drifts[:, None], noise)
    claims = [
        at_most(
            "linear: largest relative gap to the exact floor",
            float(np.max(np.abs(data["linear"] / exact - 1))),
            1e-4,
        )
    ]
    rates = data["linear_best"].values[:, 0]
    claims += [
        close(f"linear: best rate at drift {w:g}", r, LINEAR[w], rel=0.01)
        for w, r in zip(LINEAR, rates, strict=True)
    ]
    ratio = rates[0] / (np.sqrt(2 * drifts[0]) / noise)
    claims.append(
        close(
            "linear: best rate at the smallest drift, over sqrt(2 omega) / sigma",
            ratio,
            1.0,
            absolute=0.05,
        )
    )
    quiet = data["quiet_best"].values
    slope = np.log(quiet[-1, 1] / quiet[0, 1]) / np.log(drifts[-1] / drifts[0])
    claims += [
        close(
            "linear, no label noise: best rate at the smallest drift",
            quiet[0, 0],
            1.0,
            absolute=0.02,
        ),
        close(
            "linear, no label noise: exponent of the smallest error",
            slope,
            1.0,
            absolute=0.01,
        ),
    ]
    for (drift, (rate, error)), found in zip(
        ERF.items(), data["erf_best"].values, strict=True
    ):
        claims.append(
            close(f"erf: best rate at drift {drift:g}", found[0], rate, rel=0.01)
        )
        claims.append(
            close(f"erf: smallest error at drift {drift:g}", found[1], error, rel=0.01)
        )
    settled = data["time"] >= 0.5 * float(data["time"][-1])
    mean = float(data["error_mean"].isel(task=0).where(settled).mean())
    claims.append(
        close(
            "linear, runs: stationary error",
            mean,
            float(linear_floor(0.3, 0.03, noise)),
            rel=0.03,
        )
    )
    return claims + inside_claims(data, f"linear, drift 0.03, N = {int(data['dim'])}")


def draw_4(data: "Dataset") -> "Figure":
    """Runs of the linear unit, floors against the rate, and the best rate against the drift."""
    noise = float(data["noise"])
    small = (
        f"One unit. Left: rate 0.3, drift 0.03, label noise {noise:g}; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; bands: ± 2 standard errors. Middle: linear unit, dots: best."
    )
    figure, axes = panel_grid(
        1, 3, "A teacher that drifts", small, height=3.0, width=10.5
    )
    left, middle, right = axes[0]
    columns = [data[name].isel(task=0) for name in ("error", "error_mean", "error_se")]
    draw_band(left, data["time"].values, *columns, label="theory")
    left.axhline(
        linear_floor(0.3, 0.03, noise),
        color=COLORS[1],
        linestyle=DASHES[2],
        linewidth=1.2,
        label="exact floor",
    )
    for i, drift in enumerate(data["drift"].values):
        look: dict[str, Any] = {
            "color": COLORS[i],
            "linestyle": DASHES[i],
            "label": rf"$\omega={drift:g}$",
        }
        middle.plot(data["slow"], data["linear"].sel(drift=drift), **look)
        middle.plot(
            *data["linear_best"].isel(drift=i).values,
            "o",
            color=COLORS[i],
            markersize=4.5,
        )
    x = data["drift"].values
    right.plot(
        x,
        data["linear_best"].isel(of_best=0),
        "o-",
        color=COLORS[0],
        markersize=4,
        label="linear",
    )
    right.plot(
        x,
        data["quiet_best"].isel(of_best=0),
        "s--",
        color=COLORS[1],
        markersize=4,
        label="linear, no label noise",
    )
    right.plot(
        data["erf_drift"],
        data["erf_best"].isel(of_best=0),
        "^-.",
        color=COLORS[2],
        markersize=4,
        label="erf",
    )
    draw_power(right, x, np.sqrt(2 * x[0]) / noise, 0.5, r"$\sqrt{2\omega}/\sigma$")
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    middle.set(
        xlabel=r"learning rate $\eta$",
        ylabel="stationary error",
        xscale="log",
        yscale="log",
    )
    right.set(
        xlabel=r"drift $\omega$",
        ylabel="best learning rate",
        xscale="log",
        yscale="log",
    )
    for panel, text in zip(
        axes[0], ("networks", "error against the rate", "best rate"), strict=True
    ):
        label_panel(panel, text)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


PRINTED: dict[str, Any] = {
    "noise": 0.3,
    "erf_noise": 0.1,
    "end": 2000.0,
    "runs_end": 30.0,
    "seed": 74,
}

FIGURES = (
    Replica(
        id="tasks-4",
        source="tasks",
        figure="drift",
        title="A drifting teacher: the rate that follows it best",
        full=PRINTED | {"count": 120, "dim": 400, "runs": 200},
        quick=PRINTED | {"count": 40, "dim": 400, "runs": 60},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
)
