"""How much a quadratic student can say, and in how many ways it can say the same: counts against ranks (sec. 7.5)."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WIDTH = "student units $p$"


def compute_5(dims: list[int], reach: float, seed: int) -> "Dataset":
    """Degrees of freedom and the rank of dW -> dW^T W + W^T dW at a random W, for p up to reach * N."""
    import xarray as xr

    largest = int(reach * max(dims))
    counts = np.full((4, len(dims), largest), np.nan)
    for i, n in enumerate(dims):
        for p in range(1, int(reach * n) + 1):
            count = tutelage_papers.quadratic.solution_manifold(p, 1, n)
            rotations = p * (p - 1) / 2
            counts[:, i, p - 1] = (
                count.degrees_of_freedom,
                count.measured_degrees_of_freedom(seed),
                n * p
                - rotations
                + (p > n) * (p - n) * (p - n - 1) / 2,  # the source's two cases
                n * p - rotations,  # without those that leave W itself unchanged
            )
    names = ("counted", "rank", "printed", "naive")
    variables = {
        name: (("dim", "p"), values) for name, values in zip(names, counts, strict=True)
    }
    return xr.Dataset(variables, coords={"dim": dims, "p": np.arange(1, largest + 1)})


def claims_5(data: "Dataset") -> list[Claim]:
    """Count = rank for every p, also beyond N, where nothing is gained."""
    claims = [
        at_most(
            "largest gap between the printed count and the rank",
            float(np.abs(data["printed"] - data["rank"]).max()),
            0.0,
        ),
        at_most(
            "the same for tutelage_papers.quadratic.solution_manifold",
            float(np.abs(data["counted"] - data["rank"]).max()),
            0.0,
        ),
        above(
            "the count of p <= N carried on beyond N, which must fail",
            float(np.abs(data["naive"] - data["rank"]).max()),
            0,
        ),
    ]
    for n in data["dim"].values:
        rank = data["rank"].sel(dim=n)
        for p in (n, int(rank["p"][np.isfinite(rank)].max())):
            claims.append(
                close(
                    f"N = {n}, p = {p}: all N(N+1)/2",
                    float(rank.sel(p=p)),
                    n * (n + 1) / 2,
                    absolute=0.0,
                )
            )
    return claims


def draw_5(data: "Dataset") -> "Figure":
    """Degrees of freedom against the number of students."""
    title = "Degrees of freedom of a quadratic student"
    small = "Lines: counted; marks: rank of the differential of $W^T W$ at a random $W$; dotted: $p = N$."
    figure, axes = panel_grid(1, 1, title, small, height=3.0, width=6.5)
    for look, n in enumerate(data["dim"].values):
        part = data.sel(dim=n).dropna("p")
        _draw_count(axes[0, 0], part, "counted", "rank", look, f"$N = {n}$")
        axes[0, 0].axvline(n, color=COLORS[look], linewidth=0.8, linestyle=DASHES[2])
    axes[0, 0].set(xlabel=WIDTH, ylabel=r"dimension of all $W^T W$", ylim=(0, None))
    outside_legend(axes[0, 0])
    return figure


def compute_6(
    teachers: list[int], dims: list[int], reach: float, seed: int
) -> "Dataset":
    """Dimension of the solution manifold and the rank of Psi -> Psi W at a random solution W, for p up to reach * N."""
    import xarray as xr

    largest = int(reach * max(dims))
    counts = np.full((4, len(dims), len(teachers), largest), np.nan)
    for i, n in enumerate(dims):
        for j, k in enumerate(teachers):
            rank = min(k, n)
            for p in range(rank, int(reach * n) + 1):
                count = tutelage_papers.quadratic.solution_manifold(p, k, n)
                rotations = p * (p - 1) / 2
                assert count.dimension is not None
                printed = rotations - (p - rank) * (p - rank - 1) / 2
                counts[:, i, j, p - 1] = (
                    count.dimension,
                    count.measured_dimension(seed),
                    printed,
                    rotations,
                )
    names = ("counted", "rank", "printed", "naive")
    variables = {
        name: (("dim", "teachers", "p"), values)
        for name, values in zip(names, counts, strict=True)
    }
    return xr.Dataset(
        variables,
        coords={"dim": dims, "teachers": teachers, "p": np.arange(1, largest + 1)},
    )


def claims_6(data: "Dataset") -> list[Claim]:
    """Count = rank for every p, p* and N; p - 1 for one teacher."""
    one = data["rank"].sel(teachers=1)
    rank = data["rank"]
    return [
        at_most(
            "largest gap between the printed count and the rank",
            float(np.abs(data["printed"] - rank).max()),
            0.0,
        ),
        at_most(
            "the same for tutelage_papers.quadratic.solution_manifold",
            float(np.abs(data["counted"] - rank).max()),
            0.0,
        ),
        above(
            "all rotations, p(p-1)/2, which must fail",
            float(np.abs(data["naive"] - rank).max()),
            0.0,
        ),
        at_most(
            "p* = 1: largest gap to p - 1",
            float(np.abs(one - (data["p"] - 1)).max()),
            0.0,
        ),
        above(
            "p > N: cases compared",
            float((np.isfinite(rank) & (data["p"] > data["dim"])).sum()),
            0.0,
        ),
        above(
            "p* > N: cases compared",
            float((np.isfinite(rank) & (data["teachers"] > data["dim"])).sum()),
            0.0,
        ),
    ]


def draw_6(data: "Dataset") -> "Figure":
    """Dimension of the solution manifold against the number of students, a panel for each N."""
    title = "Dimension of the manifold of perfect students"
    small = r"Lines: counted; marks: rank of $\Psi \mapsto \Psi W$ ($\Psi$ antisymmetric) at a random solution; dotted: $p = N$."
    dims = data["dim"].values
    figure, axes = panel_grid(
        1, len(dims), title, small, height=3.0, width=4.2 * len(dims)
    )
    for panel, n in zip(axes[0], dims, strict=True):
        for look, k in enumerate(data["teachers"].values):
            part = data.sel(dim=n, teachers=k).dropna("p")
            _draw_count(
                panel,
                part,
                "counted",
                "rank",
                look,
                f"$p^* = {k}$" + (" $> N$" if k > n else ""),
            )
        panel.axvline(n, color=FAINT, linewidth=0.8, linestyle=DASHES[2])
        panel.set(xlabel=WIDTH, ylabel="dimension", ylim=(0, None))
        label_panel(panel, f"$N = {n}$")
        panel.legend(loc="upper left")
    return figure


def _draw_count(
    panel: Any, part: "Dataset", line: str, marks: str, look: int, label: str
) -> None:
    panel.plot(
        part["p"],
        part[line],
        color=COLORS[look],
        linestyle=DASHES[look % len(DASHES)],
        label=label,
    )
    look_of_marks = {
        "color": COLORS[look],
        "markerfacecolor": "white",
        "markersize": 4.5,
        "clip_on": False,
        "zorder": 3,
    }
    panel.plot(part["p"], part[marks], MARKERS[look], **look_of_marks)


FIGURES = (
    Replica(
        id="quad-5",
        source="quad",
        figure="Fig. 5",
        title="degrees of freedom against the number of students",
        full={"dims": [4, 8, 12], "reach": 2.0, "seed": 1},
        quick={"dims": [3, 5, 7], "reach": 2.0, "seed": 1},
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
    Replica(
        id="quad-6",
        source="quad",
        figure="Fig. 6",
        title="dimension of the solution manifold against the number of students",
        full={"teachers": [1, 2, 3, 5, 9], "dims": [8, 14], "reach": 2.0, "seed": 1},
        quick={"teachers": [1, 2, 3, 5], "dims": [4, 8], "reach": 2.0, "seed": 1},
        compute=compute_6,
        draw=draw_6,
        claims=claims_6,
    ),
)
