"""Counts against ranks (sec. 7.5): the dimension of what a quadratic student can say.

And of the ways in which it can say the same.
"""

from collections.abc import Iterator
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
from tutelage_papers.drawing import line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WIDTH = "student units $p$"
# counted: by the library; rank: measured; printed: by the source; naive: a wrong count.
COUNTS = ("counted", "rank", "printed", "naive")


def compute_5(dims: list[int], reach: float, seed: int) -> "Dataset":
    """Return degrees of freedom, for p up to reach * N.

    And the rank of dW -> dW^T W + W^T dW at a random W.
    """
    import xarray as xr

    largest = int(reach * max(dims))
    counts = {name: np.full((len(dims), largest), np.nan) for name in COUNTS}
    for i, n in enumerate(dims):
        for p in range(1, int(reach * n) + 1):
            place = (i, p - 1)
            manifold = tutelage_papers.quadratic.solution_manifold(p, 1, n)
            rotations = p * (p - 1) / 2
            # Rotations that leave W itself unchanged: the source's case p > N.
            idle_rotations = (p > n) * (p - n) * (p - n - 1) / 2
            counts["counted"][place] = manifold.degrees_of_freedom
            counts["rank"][place] = manifold.measured_degrees_of_freedom(seed)
            counts["printed"][place] = n * p - rotations + idle_rotations
            counts["naive"][place] = n * p - rotations
    data = xr.Dataset(coords={"dim": dims, "p": np.arange(1, largest + 1)})
    for name, values in counts.items():
        data[name] = (("dim", "p"), values)
    return data


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """Compare count and rank for every p, also beyond N, where nothing is gained."""
    words = "largest gap between the printed count and the rank"
    yield at_most(words, _gap(data, "printed"), 0.0)
    words = "the same for tutelage_papers.quadratic.solution_manifold"
    yield at_most(words, _gap(data, "counted"), 0.0)
    words = "the count of p <= N carried on beyond N, which must fail"
    yield above(words, _gap(data, "naive"), 0)
    for n in data["dim"].values:
        rank = data["rank"].sel(dim=n)
        largest = int(rank["p"][np.isfinite(rank)].max())
        for p in (n, largest):
            words = f"N = {n}, p = {p}: all N(N+1)/2"
            yield close(words, rank.sel(p=p), n * (n + 1) / 2, absolute=0.0)


def _gap(data: "Dataset", name: str) -> float:
    """The largest gap between a count and the rank."""
    return float(np.abs(data[name] - data["rank"]).max())


def draw_5(data: "Dataset") -> "Figure":
    """Draw degrees of freedom against the number of students."""
    title = "Degrees of freedom of a quadratic student"
    small = (
        "Lines: counted; marks: rank of the differential of $W^T W$ at a random $W$; "
        "dotted: $p = N$."
    )
    figure, axes = panel_grid(1, 1, title, small, height=3.0, width=6.5)
    panel = axes[0, 0]
    for look, n in enumerate(data["dim"].values):
        _draw_count(panel, data.sel(dim=n).dropna("p"), look, f"$N = {n}$")
        panel.axvline(n, color=COLORS[look], linewidth=0.8, linestyle=DASHES[2])
    panel.set(xlabel=WIDTH, ylabel=r"dimension of all $W^T W$", ylim=(0, None))
    outside_legend(panel)
    return figure


def compute_6(
    teachers: list[int], dims: list[int], reach: float, seed: int
) -> "Dataset":
    """Return the dimension of the solution manifold, for p up to reach * N.

    And the rank of Psi -> Psi W at a random solution W.
    """
    import xarray as xr

    largest = int(reach * max(dims))
    shape = (len(dims), len(teachers), largest)
    counts = {name: np.full(shape, np.nan) for name in COUNTS}
    for i, n in enumerate(dims):
        for j, k in enumerate(teachers):
            rank = min(k, n)
            for p in range(rank, int(reach * n) + 1):
                place = (i, j, p - 1)
                manifold = tutelage_papers.quadratic.solution_manifold(p, k, n)
                assert manifold.dimension is not None
                rotations = p * (p - 1) / 2
                # Rotations that leave W itself unchanged.
                idle_rotations = (p - rank) * (p - rank - 1) / 2
                counts["counted"][place] = manifold.dimension
                counts["rank"][place] = manifold.measured_dimension(seed)
                counts["printed"][place] = rotations - idle_rotations
                counts["naive"][place] = rotations
    widths = np.arange(1, largest + 1)
    data = xr.Dataset(coords={"dim": dims, "teachers": teachers, "p": widths})
    for name, values in counts.items():
        data[name] = (("dim", "teachers", "p"), values)
    return data


def claims_6(data: "Dataset") -> Iterator[Claim]:
    """Compare count and rank for every p, p* and N; p - 1 for one teacher."""
    words = "largest gap between the printed count and the rank"
    yield at_most(words, _gap(data, "printed"), 0.0)
    words = "the same for tutelage_papers.quadratic.solution_manifold"
    yield at_most(words, _gap(data, "counted"), 0.0)
    words = "all rotations, p(p-1)/2, which must fail"
    yield above(words, _gap(data, "naive"), 0.0)
    gap_of_one = np.abs(data["rank"].sel(teachers=1) - (data["p"] - 1))
    yield at_most("p* = 1: largest gap to p - 1", gap_of_one.max(), 0.0)
    compared = np.isfinite(data["rank"])
    wide = compared & (data["p"] > data["dim"])
    yield above("p > N: cases compared", wide.sum(), 0.0)
    many_teachers = compared & (data["teachers"] > data["dim"])
    yield above("p* > N: cases compared", many_teachers.sum(), 0.0)


def draw_6(data: "Dataset") -> "Figure":
    """Draw the dimension of the solutions against the students, a panel for each N."""
    title = "Dimension of the manifold of perfect students"
    small = (
        r"Lines: counted; marks: rank of $\Psi \mapsto \Psi W$ ($\Psi$ antisymmetric) "
        "at a random solution; dotted: $p = N$."
    )
    dims = data["dim"].values
    width = 4.2 * len(dims)
    figure, axes = panel_grid(1, len(dims), title, small, height=3.0, width=width)
    for panel, n in zip(axes[0], dims, strict=True):
        for look, k in enumerate(data["teachers"].values):
            beyond = " $> N$" if k > n else ""
            counts = data.sel(dim=n, teachers=k).dropna("p")
            _draw_count(panel, counts, look, f"$p^* = {k}${beyond}")
        panel.axvline(n, color=FAINT, linewidth=0.8, linestyle=DASHES[2])
        panel.set(xlabel=WIDTH, ylabel="dimension", ylim=(0, None))
        label_panel(panel, f"$N = {n}$")
        panel.legend(loc="upper left")
    return figure


def _draw_count(panel: Any, counts: "Dataset", look: int, label: str) -> None:
    """The count as a line, and the measured rank as marks."""
    panel.plot(counts["p"], counts["counted"], label=label, **line_of(look))
    marks = {
        "color": COLORS[look],
        "markerfacecolor": "white",
        "markersize": 4.5,
        "clip_on": False,
        "zorder": 3,
    }
    panel.plot(counts["p"], counts["rank"], MARKERS[look], **marks)


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
