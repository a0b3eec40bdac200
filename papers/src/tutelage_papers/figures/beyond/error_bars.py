"""Error bars from theory against the scatter of many networks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    INK,
    MARKERS,
    TIME,
    label_panel,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most
from tutelage_papers.drawing import legend_below, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

# Quantities, and their dimensions besides time.
NAMES: dict[str, tuple[str, ...]] = {
    "error": (),
    "R": ("student", "teacher"),
    "Q": ("student", "student_2"),
}
LETTERS = {"error": "e_g", "R": "R", "Q": "Q"}
LARGE = 500  # from this N on, standard deviations are claimed to agree
CLOSE = 0.1  # within this share
SHOWN = 12  # single runs in the figure


def compute_errors(
    lr: float,
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
    points: int,
    dims: list[int],
    runs: int,
    moments: int,
    seed: int,
) -> "Dataset":
    """Return sqrt(N) times the standard deviations of e_g, R and Q after time zero.

    X_bar: from theory. X_sd: of the runs. error_apart: that of e_g if every overlap
    scattered on its own, which must not do. moments: points of Gaussian averages.
    """
    import xarray as xr

    student = tu.Network(3, "erf")
    teacher = tu.Network(3, "erf")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr))
    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    bars = tu.analysis.fluctuations(problem, start, times, dim=1, points=moments)
    networks = {}
    for place, dim in enumerate(dims):
        networks[dim] = tu.simulate(
            problem, start, dim=dim, times=times, runs=runs, seed=seed + place
        )
    shown = [np.asarray(run.error)[:SHOWN, 1:] for run in networks.values()]
    gradient = bars.gradient
    variance_apart = np.einsum("ti,tii,ti->t", gradient, bars.scaled, gradient)
    data = xr.Dataset(coords={"time": times[1:], "dim": dims})
    data["error"] = ("time", np.asarray(bars.theory.error)[1:])
    data["error_runs"] = (("dim", "run", "time"), shown)
    data["error_apart"] = ("time", np.sqrt(variance_apart)[1:])
    data["accuracy"] = ("time", bars.accuracy[1:])
    for name, entry in NAMES.items():
        scatter = []
        for dim, run in networks.items():
            values = np.asarray(getattr(run, name))[:, 1:]
            scatter.append(np.sqrt(dim) * np.std(values, axis=0, ddof=1))
        data[f"{name}_bar"] = (("time", *entry), bars.sd(name)[1:])
        data[f"{name}_sd"] = (("dim", "time", *entry), np.stack(scatter))
    return data.assign(runs=runs)


def off(data: "Dataset", name: str) -> Any:
    """Return measured over predicted standard deviations, less 1.

    They are those of every entry at every time; dimensions (dim, ...).
    """
    return data[f"{name}_sd"] / data[f"{name}_bar"] - 1


def claims_errors(data: "Dataset") -> Iterator[Claim]:
    """Every standard deviation at every time, at each N that is large enough.

    A theory in which overlaps scatter on their own fails.
    """
    for dim in data["dim"].values:
        if dim < LARGE:
            continue
        for name, letter in LETTERS.items():
            yield at_most(
                f"N = {dim}: standard deviation of {letter} against theory, worst "
                "entry and time",
                np.abs(off(data, name).sel(dim=dim)).max(),
                CLOSE,
                evidence=f"{int(data['runs'])} runs",
            )
        apart = data["error_sd"].sel(dim=dim) / data["error_apart"]
        yield above(
            f"N = {dim}: the same of e_g if overlaps scattered on their own, which "
            "must fail",
            np.abs(apart - 1).max(),
            CLOSE,
        )


def draw_errors(data: "Dataset") -> "Figure":
    """Single runs in the predicted band; the scatter of e_g; ratios of scatter."""
    small = (
        f"K = M = 3, erf, one start of order one, {int(data['runs'])} runs at each N. "
        "Lines: theory; marks: runs; dashed gray: if overlaps scattered on their own."
    )
    title = "Error bars from theory: the scatter of single networks"
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    band, scatter, ratios = axes[0]
    second = min(1, data["dim"].size - 1)
    dim = int(data["dim"].values[second])
    _draw_band(band, data, dim)
    _draw_scatter(scatter, data)
    _draw_ratios(ratios, data)
    label_panel(band, f"single networks, N = {dim}")
    label_panel(scatter, "scatter of the error")
    label_panel(ratios, "all entries and times")
    legend_below(band)
    legend_below(scatter)
    legend_below(ratios, columns=3)
    return figure


def _draw_band(panel: Any, data: "Dataset", dim: int) -> None:
    """Single runs in the band of two standard deviations."""
    times = data["time"].values
    error = data["error"].values
    reach = 2 * data["error_bar"].values / np.sqrt(dim)
    band = {"color": COLORS[0], "alpha": 0.25, "linewidth": 0}
    panel.fill_between(
        times, error - reach, error + reach, **band, label="± 2 sd, theory"
    )
    thin = {"color": FAINT, "linewidth": 0.6}
    first, *others = data["error_runs"].sel(dim=dim).values
    panel.plot(times, first, **thin, label="single runs")
    for run in others:
        panel.plot(times, run, **thin)
    panel.plot(times, error, color=COLORS[0], label="theory")
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")


def _marks(look: int) -> dict[str, Any]:
    return {
        "color": COLORS[look],
        "marker": MARKERS[look],
        "markerfacecolor": "white",
        "markersize": 4,
        "linestyle": "none",
    }


def _draw_scatter(panel: Any, data: "Dataset") -> None:
    """sqrt(N) times the standard deviation of the error, at every N."""
    times = data["time"].values
    apart = {"color": FAINT, "linestyle": DASHES[1], "linewidth": 1.2}
    panel.plot(times, data["error_bar"].values, color=INK, label="theory")
    panel.plot(times, data["error_apart"], **apart)
    for look, dim in enumerate(data["dim"].values):
        marks = _marks(look) | {"markevery": (look, 3), "label": f"N = {dim}"}
        panel.plot(times, data["error_sd"].sel(dim=dim), **marks)
    panel.set(xlabel=TIME, ylabel=r"$\sqrt{N}$ sd($\epsilon_g$)", yscale="log")


def _draw_ratios(panel: Any, data: "Dataset") -> None:
    """Root mean square of measured / predicted at each N.

    Bars reach from the smallest to the largest entry and time.
    """
    dims = data["dim"].values
    panel.axhspan(1 - CLOSE, 1 + CLOSE, color=FAINT, alpha=0.15, linewidth=0)
    panel.axhline(1.0, color=INK, linewidth=0.8)
    labels = {"error": r"$\epsilon_g$", "R": "$R$", "Q": "$Q$"}
    for look, (name, label) in enumerate(labels.items()):
        ratio = (1 + off(data, name)).values.reshape(dims.size, -1)
        middle = np.sqrt(np.mean(ratio**2, axis=1))
        reach = [middle - ratio.min(axis=1), ratio.max(axis=1) - middle]
        shifted = dims * 1.12 ** (look - 1)
        bars = _marks(look) | {"elinewidth": 1.0, "capsize": 2, "label": label}
        panel.errorbar(shifted, middle, reach, **bars)
    panel.set(
        xlabel="dimension $N$",
        ylabel="measured / predicted sd",
        xscale="log",
        xlim=(dims[0] / 1.6, dims[-1] * 1.6),
    )
    tick_each(panel, dims)


PRINTED: dict[str, Any] = {
    "lr": 0.5,
    "R": [[0.45, 0.05, -0.05], [0.0, 0.4, 0.1], [-0.1, 0.05, 0.35]],
    "Q": [[0.5, 0.05, 0.0], [0.05, 0.4, 0.1], [0.0, 0.1, 0.45]],
    "points": 41,
    "runs": 1000,
    "seed": 11,
}

FIGURES = (
    Replica(
        id="errors-1",
        source="beyond",
        figure="error bars",
        title="error bars from theory against a thousand runs",
        full=PRINTED | {"end": 20.0, "dims": [100, 500, 2000], "moments": 4096},
        quick=PRINTED | {"end": 8.0, "dims": [100, 500], "moments": 2048},
        compute=compute_errors,
        draw=draw_errors,
        claims=claims_errors,
    ),
)
