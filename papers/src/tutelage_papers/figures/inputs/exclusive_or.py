"""The exclusive or of two directions (four Gaussians), and the units it takes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import DASHES, FAINT, TIME, label_panel, panel_grid
from tutelage_papers.claims import Claim, at_least, at_most, close
from tutelage_papers.drawing import draw_band, legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

NORM = 2.0  # of the mean of each class
# Means in units of b_1, b_2.
CORNERS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
# By time: E[(y - output)^2] / 2 of four quadratic units.
DIGITS = {5.0: 0.424265357, 10.0: 0.343177533, 20.0: 0.306108464}
# By K: the error of ReLU units at alpha = 40.
ERRORS = {1: 0.500, 2: 0.379, 4: 0.167, 8: 0.167}
# Error of the best classifier, which compares |x . b_1| with |x . b_2|.
BEST = 0.1449
QUADRATIC: dict[str, Any] = {
    "R": [[0.2, 0.05], [-0.1, 0.1], [0.05, 0.2], [0.02, -0.15]],
    "Q": [
        [0.112, -0.002, 0.004, -0.004],
        [-0.002, 0.093, 0.002, -0.007],
        [0.004, 0.002, 0.107, -0.001],
        [-0.004, -0.007, -0.001, 0.095],
    ],
    "readout": [0.5, 0.4, -0.5, -0.4],
}


def quadratic_error(times: list[float]) -> np.ndarray:
    """The error of four quadratic units that learn by squared loss, at the times."""
    student = tu.Network(4, "quadratic", train_readout=True)
    problem = tu.Problem(student, inputs=tu.Mixture.xor(NORM), optimizer=tu.SGD(lr=0.1))
    solved = tu.solve(problem, tu.Start(**QUADRATIC), [0.0, *times])
    return np.asarray(solved.error[1:])


def units(count: int, activation: str, lr: float) -> "tuple[tu.Problem, tu.Start]":
    """Units with readouts 1 and -1 in turn, which begin near the four means.

    The second four begin nearer to zero.
    """
    student = tu.Network(count, activation, readout=np.resize([1.0, -1.0], count))
    inputs = tu.Mixture.xor(NORM)
    optimizer = tu.SGD(lr)
    problem = tu.Problem(student, inputs=inputs, loss="logistic", optimizer=optimizer)
    along = np.empty((count, 2))
    for unit in range(count):
        length = 0.1 if unit < 4 else 0.05
        along[unit] = CORNERS[unit % 4] * length
    R = along * NORM**2
    return problem, tu.Start(R=R, Q=R @ along.T + 0.1 * np.eye(count))


def compute_1(
    lr: float,
    end: float,
    points: int,
    samples: int,
    widths: list[int],
    dim: int,
    runs: int,
    runs_end: float,
    seed: int,
) -> "Dataset":
    """Return curves of ReLU units by width, of erf units, and runs of four ReLU units.

    quadratic: the errors of quadratic units at the times of DIGITS.
    """
    import xarray as xr

    times = tu.linear_times(end, points)
    sampled = tu.Sampled(samples)
    errors = []
    losses = []
    for count in widths:
        problem, start = units(count, "relu", lr)
        theory = tu.solve(problem, start, times, moments=sampled)
        errors.append(np.asarray(theory.error))
        losses.append(np.asarray(theory.loss))
    erf_problem, erf_start = units(4, "erf", lr)
    erf = tu.solve(erf_problem, erf_start, times, moments=sampled)

    problem, start = units(4, "relu", lr)
    early = times[times <= runs_end]
    seen = tu.simulate(problem, start, dim=dim, times=early, runs=runs, seed=seed)
    runs_mean = np.full(times.size, np.nan)
    runs_mean[: early.size] = seen.error.mean(axis=0)
    runs_se = np.full(times.size, np.nan)
    runs_se[: early.size] = seen.error.std(axis=0, ddof=1) / np.sqrt(runs)

    late = list(DIGITS)
    coordinates = {"width": widths, "time": times, "late": late}
    data = xr.Dataset(coords=coordinates, attrs={"dim": dim, "runs": runs, "lr": lr})
    data["error"] = (("width", "time"), np.stack(errors))
    data["loss"] = (("width", "time"), np.stack(losses))
    data["erf_error"] = ("time", np.asarray(erf.error))
    data["erf_loss"] = ("time", np.asarray(erf.loss))
    data["runs_mean"] = ("time", runs_mean)
    data["runs_se"] = ("time", runs_se)
    data["quadratic"] = ("late", quadratic_error(late))
    return data


def _relu_units(count: int) -> str:
    return "1 ReLU unit" if count == 1 else f"{count} ReLU units"


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """Digits of quadratic units; errors by width; the limit of erf units; runs."""
    for time, error in DIGITS.items():
        yield close(
            f"four quadratic units: error at {time:g}",
            data["quadratic"].sel(late=time),
            error,
            absolute=2e-9,
        )
    last = data["error"].isel(time=-1)
    for K in data["width"].values:
        yield close(
            f"{_relu_units(K)}: error at 40",
            last.sel(width=K),
            ERRORS[int(K)],
            absolute=0.01,
        )
    yield at_least(
        "four ReLU units: error at 40 above the best possible",
        last.sel(width=4),
        BEST,
    )
    yield close(
        "four erf units without biases: error",
        np.max(np.abs(data["erf_error"] - 0.5)),
        0.0,
        absolute=2e-3,
    )
    yield at_least(
        "four erf units: smallest loss", data["erf_loss"].min(), np.log(2.0) - 1e-3
    )
    if 8 in data["width"].values:
        gain = last.sel(width=4) - last.sel(width=8)
        yield at_most("error that eight units gain over four", gain, 0.005)
    # A run that has no spread yet, at the start, says nothing.
    counted = data.sel(time=np.isfinite(data["runs_mean"]) & (data["runs_se"] > 0))
    gap = np.abs(counted["runs_mean"] - counted["error"].sel(width=4))
    z = gap / counted["runs_se"]
    yield at_least(
        f"runs of N = {data.attrs['dim']}: share of times within 4 s.e.",
        (z < 4).mean(),
        0.95,
    )


def draw_1(data: "Dataset") -> "Figure":
    """Error and loss against time for each width, with runs of four units."""
    small = (
        "Means ±b₁ (label 1) and ±b₂ (label −1) of norm 2; logistic loss, learning "
        f"rate {data.attrs['lr']:g}. Marks: {data.attrs['runs']} runs, "
        f"N = {data.attrs['dim']}."
    )
    title = "Exclusive or: four units are enough"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=9.5)
    errors, losses = axes[0]
    times = data["time"].values
    for look, K in enumerate(data["width"].values):
        line = line_of(look) | {"label": _relu_units(K)}
        errors.plot(times, data["error"].sel(width=K), **line)
        losses.plot(times, data["loss"].sel(width=K), **line)
    # The band alone: the line of four units is there already.
    seen = data.sel(time=np.isfinite(data["runs_mean"]))
    blank = np.full(seen["time"].size, np.nan)
    look = list(data["width"].values).index(4)
    seen_times = seen["time"].values
    draw_band(errors, seen_times, blank, seen["runs_mean"], seen["runs_se"], look=look)
    losses.plot(times, data["erf_loss"], color=FAINT, label="4 erf units")
    level = {"color": FAINT, "linewidth": 1.0}
    errors.axhline(BEST, **level, label="best possible")
    losses.axhline(np.log(2.0), **level, linestyle=DASHES[1], label="ln 2: guessing")
    errors.set(xlabel=TIME, ylabel="probability of a wrong class")
    losses.set(xlabel=TIME, ylabel="logistic loss")
    label_panel(errors, "error")
    label_panel(losses, "training loss")
    for panel in axes[0]:
        legend_below(panel, columns=3)
    return figure


PRINTED: dict[str, Any] = {"lr": 0.5, "end": 40.0, "points": 41, "seed": 81}

FIGURES = (
    Replica(
        id="inputs-1",
        source="inputs",
        figure="exclusive or",
        title="Exclusive or of two directions: four units are enough",
        full=PRINTED
        | {
            "samples": 2**14,
            "widths": [1, 2, 4, 8],
            "dim": 1000,
            "runs": 40,
            "runs_end": 20.0,
        },
        quick=PRINTED
        | {
            "samples": 2**11,
            "widths": [1, 2, 4],
            "dim": 400,
            "runs": 12,
            "runs_end": 4.0,
        },
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
