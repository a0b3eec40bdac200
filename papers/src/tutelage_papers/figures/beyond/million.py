"""Figures beyond the four sources: what the theory should also be able to say."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import DASHES, ERROR, FAINT, TIME, outside_legend, panel_grid
from tutelage_papers.claims import Claim, at_least, below
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RESOLUTION = 1e-8  # of a solve; at time zero there is no spread at all

# A very large network: the simulation costs the same per step at any N.


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
    """A band of a few runs and how long they take; and many runs of a smaller network, which measure the spread better."""
    from tutelage_papers.bands import band, wrong_theory

    problem = tu.Problem(
        tu.Network(3, "erf"), tu.Network(3, "erf"), optimizer=tu.SGD(lr=lr)
    )
    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    began = time.perf_counter()
    networks = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    seconds = time.perf_counter() - began
    data = band(
        tu.solve(problem, start, times), networks, wrong_theory(problem, start, times)
    )
    small = tu.simulate(
        problem, start, dim=small_dim, times=times, runs=small_runs, seed=seed + 1
    )
    spread = {
        "error": small.error.std(axis=0, ddof=1),
        "R": small.R.std(axis=0, ddof=1),
        "Q": small.Q.std(axis=0, ddof=1),
    }
    known = {
        f"{name}_known_se": (data[name].dims, sd * np.sqrt(small_dim / dim / runs))
        for name, sd in spread.items()
    }
    numbers = {
        "dim": dim,
        "runs": runs,
        "run_seconds": seconds,
        "small_dim": small_dim,
        "small_runs": small_runs,
    }
    return data.assign(known | numbers)


def claims_large(data: "Dataset") -> list[Claim]:
    """Inside the band; also with a standard error that four runs alone cannot tell."""
    from tutelage_papers.bands import inside_claims

    name = f"N = {int(data['dim'])}, {int(data['runs'])} runs"
    how = f"standard errors: spread of {int(data['small_runs'])} runs of N = {int(data['small_dim'])}, scaled as N^(-1/2)"
    return [
        *inside_claims(data, name),
        at_least(
            f"{name}: share of times within 4 known standard errors",
            _share(data, ""),
            0.95,
            evidence=how,
        ),
        below(
            f"{name}: within 4 known standard errors with 0.9 G, which must fail",
            _share(data, "_wrong"),
            0.95,
        ),
    ]


def _share(data: "Dataset", which: str) -> float:
    """Of times at which the mean of the runs is within four known standard errors, for the worst entry."""
    shares = []
    for name in ("error", "R", "Q"):
        mean, theory, error = (
            data[column].values
            for column in (f"{name}_mean", f"{name}{which}", f"{name}_known_se")
        )
        shares.append(
            np.mean(np.abs(mean - theory) <= 4 * error + RESOLUTION, axis=0).min()
        )
    return float(min(shares))


def draw_large(data: "Dataset") -> "Figure":
    """The error, its gap to the theory, and the overlaps."""
    dim = int(data["dim"])
    runs = int(data["runs"])
    seconds = float(data["run_seconds"])
    title = f"A network with {f'{dim:,}'.replace(',', ' ')} inputs, K = M = 3"
    small = (
        f"Lines: theory; marks: mean of {runs} runs ({seconds:.0f} s for all of them); bands: ± 2 standard errors. "
        "Dotted gray: theory with 0.9 G."
    )
    figure, axes = panel_grid(1, 3, title, small, height=2.9)
    left, middle, right = axes[0]
    times = data["time"].values
    draw_band(left, times, data["error"], data["error_mean"], data["error_se"])
    left.plot(times, data["error_wrong"], color=FAINT, linestyle=DASHES[2])
    left.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    scale = 1e3
    zero = 0 * data["error"]
    draw_band(
        middle,
        times,
        zero,
        scale * (data["error_mean"] - data["error"]),
        scale * data["error_se"],
    )
    middle.set(xlabel=TIME, ylabel=r"runs $-$ theory, $10^3\,\Delta\epsilon_g$")
    for look, (name, k, l) in enumerate(
        (("R", 0, 0), ("R", 1, 1), ("R", 1, 2), ("Q", 0, 0), ("Q", 0, 1))
    ):
        columns = [
            data[f"{name}{ending}"].values[:, k, l] for ending in ("", "_mean", "_se")
        ]
        draw_band(
            right, times, *columns, look=look, label=f"${name}_{{{k + 1}{l + 1}}}$"
        )
    right.set(xlabel=TIME, ylabel="overlaps")
    outside_legend(right)
    return figure


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
