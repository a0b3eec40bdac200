"""A very large network: the simulation costs the same per step at any N."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import ERROR, TIME, outside_legend, panel_grid
from tutelage_papers.claims import Claim, at_least, below
from tutelage_papers.drawing import GUIDE, draw_band, draw_error
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RESOLUTION = 1e-8  # of a solve; at time zero there is no spread at all


def compute_large(
    lr: float,
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
    points: int,
    dim: int,
    runs: int,
    small_dim: int,
    small_runs: int,
    seed: int,
) -> "Dataset":
    """Return a band of a few runs, the time that they take, and a known spread.

    The spread is that of many runs of a smaller network, which measure it better.
    """
    from tutelage_papers.bands import band, wrong_theory

    student = tu.Network(3, "erf")
    teacher = tu.Network(3, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))
    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    began = time.perf_counter()
    networks = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    seconds = time.perf_counter() - began
    theory = tu.solve(problem, start, times)
    data = band(theory, networks, wrong_theory(problem, start, times))
    small = tu.simulate(
        problem, start, dim=small_dim, times=times, runs=small_runs, seed=seed + 1
    )
    for name in ("error", "R", "Q"):
        spread = getattr(small, name).std(axis=0, ddof=1)
        known = spread * np.sqrt(small_dim / dim / runs)
        data[f"{name}_known_se"] = (data[name].dims, known)
    return data.assign(
        dim=dim,
        runs=runs,
        run_seconds=seconds,
        small_dim=small_dim,
        small_runs=small_runs,
    )


def claims_large(data: "Dataset") -> Iterator[Claim]:
    """Inside the band; also with a standard error that four runs alone cannot tell."""
    from tutelage_papers.bands import inside_claims

    name = f"N = {int(data['dim'])}, {int(data['runs'])} runs"
    yield from inside_claims(data, name)
    yield at_least(
        f"{name}: share of times within 4 known standard errors",
        _share(data, ""),
        0.95,
        evidence=f"standard errors: spread of {int(data['small_runs'])} runs of "
        f"N = {int(data['small_dim'])}, scaled as N^(-1/2)",
    )
    yield below(
        f"{name}: within 4 known standard errors with 0.9 G, which must fail",
        _share(data, "_wrong"),
        0.95,
    )


def _share(data: "Dataset", ending: str) -> float:
    """The share of times at which the mean of the runs is within four known errors.

    It is that of the worst entry. ending: "" for the theory, "_wrong" for the wrong
    one.
    """
    shares = []
    for name in ("error", "R", "Q"):
        gap = np.abs(data[f"{name}_mean"].values - data[f"{name}{ending}"].values)
        reach = 4 * data[f"{name}_known_se"].values + RESOLUTION
        shares.append(np.mean(gap <= reach, axis=0).min())
    return float(min(shares))


def draw_large(data: "Dataset") -> "Figure":
    """The error, its gap to the theory, and the overlaps."""
    inputs = f"{int(data['dim']):,}".replace(",", " ")
    title = f"A network with {inputs} inputs, K = M = 3"
    small = (
        f"Lines: theory; marks: mean of {int(data['runs'])} runs "
        f"({float(data['run_seconds']):.0f} s for all of them); bands: ± 2 standard "
        "errors. Dotted gray: theory with 0.9 G."
    )
    figure, axes = panel_grid(1, 3, title, small, height=2.9)
    error, gap, overlaps = axes[0]
    draw_error(error, data)
    error.plot(data["time"], data["error_wrong"], **GUIDE)
    error.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    _draw_gap(gap, data)
    _draw_overlaps(overlaps, data)
    return figure


def _draw_gap(panel: Any, data: "Dataset") -> None:
    """Runs less theory, in thousandths."""
    zero = 0 * data["error"]
    gap = 1e3 * (data["error_mean"] - data["error"])
    draw_band(panel, data["time"].values, zero, gap, 1e3 * data["error_se"])
    panel.set(xlabel=TIME, ylabel=r"runs $-$ theory, $10^3\,\Delta\epsilon_g$")


def _draw_overlaps(panel: Any, data: "Dataset") -> None:
    times = data["time"].values
    entries = [("R", 0, 0), ("R", 1, 1), ("R", 1, 2), ("Q", 0, 0), ("Q", 0, 1)]
    for look, (name, k, l) in enumerate(entries):
        theory = data[name].values[:, k, l]
        mean = data[f"{name}_mean"].values[:, k, l]
        error = data[f"{name}_se"].values[:, k, l]
        label = f"${name}_{{{k + 1}{l + 1}}}$"
        draw_band(panel, times, theory, mean, error, look=look, label=label)
    panel.set(xlabel=TIME, ylabel="overlaps")
    outside_legend(panel)


GENERIC = {
    "R": [[0.45, 0.05, -0.05], [0.0, 0.4, 0.1], [-0.1, 0.05, 0.35]],
    "Q": [[0.5, 0.05, 0.0], [0.05, 0.4, 0.1], [0.0, 0.1, 0.45]],
}
LARGE: dict[str, Any] = GENERIC | {
    "lr": 0.5,
    "end": 20.0,
    "points": 41,
    "runs": 4,
    "small_dim": 1000,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="bign-1",
        source="beyond",
        figure="large networks",
        title="theory and a network with a million inputs",
        full=LARGE | {"dim": 1_000_000, "small_runs": 400},
        quick=LARGE | {"dim": 50_000, "small_runs": 60},
        compute=compute_large,
        draw=draw_large,
        claims=claims_large,
    ),
)
