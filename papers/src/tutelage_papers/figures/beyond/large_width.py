"""The mean-field limit of a wide student: the gap to it falls as one over K.

K units share one output, y = (2/K) sum_k g(lambda_k), and learn by gradient flow at the
rate K, so that each moves at a speed of order one. For K to infinity the distribution of
units follows a deterministic flow (mean-field limit; Rotskoff and Vanden-Eijnden 2018,
Veiga et al. 2022). Units begin orthogonal, with their overlaps on a ring of equally spaced
angles: a fixed law that K points sample almost without error. What remains of K is the
scatter of their outputs, of variance E[g^2] / K, so that everything differs from the
limit by terms of order 1/K. Random angles add fluctuations of order K^(-1/2).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, close
from tutelage_papers.drawing import GUIDE, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

OVERLAP = 0.3  # radius of the ring of overlaps
EARLY = 1.0  # time at which the scatter of random angles is read
NORM = 0.3  # squared length of a unit, beyond its overlaps


def compute_width(
    widths: list[int], end: float, points: int, draws: int, seed: int
) -> "Dataset":
    """Return learning curves for each width, and errors at an early time from random angles."""
    import xarray as xr

    times = np.linspace(0.0, end, points)
    curves = [_curve(K, _ring(K), times) for K in widths]
    narrow = widths[:-2]
    rng = np.random.default_rng(seed)
    early = np.array([0.0, EARLY])  # later the fluctuations have been learned away
    random = [
        [_curve(K, rng.uniform(0, 2 * np.pi, K), early)[-1] for _ in range(draws)]
        for K in narrow
    ]
    return xr.Dataset(
        {
            "error": (("width", "time"), curves),
            "random": (("narrow", "draw"), random),
        },
        coords={"width": widths, "narrow": narrow, "time": times},
    )


def _ring(K: int) -> np.ndarray:
    """Return equally spaced angles that no symmetry of the teachers maps on themselves."""
    return 2 * np.pi * (np.arange(K) + 0.3) / K


def _curve(K: int, angles: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return e_g of K units with these directions of overlap."""
    student = tu.Network(K, "erf", readout=2.0 / K)
    problem = tu.Problem(student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=float(K)))
    R = OVERLAP * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    start = tu.Start(R, R @ R.T + NORM * np.eye(K))
    return tu.solve(problem, start, times, gradient_flow=True, keep="fields").error


def _distances(data: "Dataset") -> tuple[np.ndarray, np.ndarray]:
    """Return widths and the mean distance of their curves to that of the widest."""
    error = data["error"].values
    widths = data["width"].values[:-2]  # far from the widest one
    return widths, np.mean(np.abs(error[:-2] - error[-1]), axis=1)


def _power(widths: np.ndarray, values: np.ndarray) -> float:
    """Return the exponent of a power of the width."""
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def claims_width(data: "Dataset") -> Iterator[Claim]:
    """Yield the power of the distance, that of steps of K, and that of random draws."""
    widths, distance = _distances(data)
    yield close(
        "exponent of K in the distance to the largest K",
        _power(widths, distance),
        -1.0,
        absolute=0.15,
    )
    steps = np.mean(np.abs(np.diff(data["error"].values, axis=0)), axis=1)
    yield close(
        "exponent of K in the distance between K and the next width",
        _power(data["width"].values[:-1], steps),
        -1.0,
        absolute=0.15,
    )
    scatter = data["random"].std("draw", ddof=1)
    yield above(
        "exponent of K in the scatter of random angles, which 1/K must not fit",
        _power(data["narrow"].values, scatter.values),
        -0.85,
    )


def draw_width(data: "Dataset") -> "Figure":
    """Draw the curves and the distances."""
    small = (
        "erf, M = 2, readouts 2/K, gradient flow at rate K, orthogonal units on a ring"
    )
    figure, axes = panel_grid(
        1, 2, "Wide students approach their limit as 1/K", small, height=3.2
    )
    left, right = axes[0]
    for place, K in enumerate(data["width"].values):
        left.plot(
            data["time"], data["error"].sel(width=K), label=f"K = {K}", **line_of(place)
        )
    left.set(xlabel="time $\\alpha$", ylabel=ERROR, yscale="log")
    left.legend()
    widths, distance = _distances(data)
    right.plot(
        widths, distance, MARKERS[0], color=COLORS[0], label="ring, to the largest K"
    )
    scatter = data["random"].std("draw", ddof=1)
    right.plot(
        data["narrow"],
        scatter,
        MARKERS[1],
        color=COLORS[1],
        label="random angles, scatter",
    )
    right.plot(widths, distance[0] * widths[0] / widths, **GUIDE)
    right.plot(widths, scatter.values[0] * np.sqrt(widths[0] / widths), **GUIDE)
    right.set(xlabel="student units K", ylabel="distance in $\\epsilon_g$")
    right.set(xscale="log", yscale="log")
    right.legend()
    label_panel(left, "learning curves")
    label_panel(right, "distance; guides: 1/K and 1/√K")
    return figure


PRINTED = {"points": 61, "seed": 0}

FIGURES = (
    Replica(
        id="ext-4",
        source="beyond",
        figure="large width",
        title="wide students approach their mean-field limit as 1/K",
        full=PRINTED
        | {"widths": [4, 8, 16, 32, 64, 128, 256], "end": 60.0, "draws": 40},
        quick=PRINTED | {"widths": [4, 8, 16, 32, 64], "end": 30.0, "draws": 12},
        compute=compute_width,
        draw=draw_width,
        claims=claims_width,
    ),
)
