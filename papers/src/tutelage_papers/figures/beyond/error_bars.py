"""Error bars from theory against the scatter of many networks."""

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
from tutelage_papers.drawing import tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

NAMES = ("error", "R", "Q")
LARGE, CLOSE = (
    500,
    0.1,
)  # from this N on, standard deviations are claimed to agree within this share
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
    """sqrt(N) times the standard deviations of e_g, R and Q after time zero: X_bar from theory, X_sd of the runs.

    error_apart: that of e_g if every overlap scattered on its own, which must not do. moments: points of Gaussian averages.
    """
    import xarray as xr

    problem = tu.Problem(
        tu.Network(3, "erf"), tu.Network(3, "erf"), optimizer=tu.SGD(lr=lr)
    )
    start = tu.Start(R=R, Q=Q)
    times = tu.linear_times(end, points)
    bars = tu.analysis.fluctuations(problem, start, times, dim=1, points=moments)
    networks = [
        tu.simulate(problem, start, dim=n, times=times, runs=runs, seed=seed + i)
        for i, n in enumerate(dims)
    ]
    axes = {"error": (), "R": ("student", "teacher"), "Q": ("student", "student_2")}
    variables: dict[str, Any] = {
        "error": ("time", np.asarray(bars.theory.error)[1:]),
        "error_runs": (
            ("dim", "run", "time"),
            [np.asarray(n.error)[:SHOWN, 1:] for n in networks],
        ),
        "error_apart": (
            "time",
            np.sqrt(
                np.einsum("ti,tii,ti->t", bars.gradient, bars.scaled, bars.gradient)
            )[1:],
        ),
        "accuracy": ("time", bars.accuracy[1:]),
    }
    for name, entry in axes.items():
        scatter = [
            np.sqrt(n) * np.std(_values(run, name), axis=0, ddof=1)
            for n, run in zip(dims, networks, strict=True)
        ]
        variables[f"{name}_bar"] = (("time", *entry), bars.sd(name)[1:])
        variables[f"{name}_sd"] = (("dim", "time", *entry), np.stack(scatter)[:, 1:])
    return xr.Dataset(variables, coords={"time": times[1:], "dim": dims}).assign(
        runs=runs
    )


def _values(networks: "tu.Trajectory", name: str) -> np.ndarray:
    return np.asarray(getattr(networks, name))


def off(data: "Dataset", name: str) -> Any:
    """Measured over predicted standard deviation, less 1: of every entry at every time, (dim, ...)."""
    return data[f"{name}_sd"] / data[f"{name}_bar"] - 1


def claims_errors(data: "Dataset") -> list[Claim]:
    """Every standard deviation at every time, at each N that is large enough; and a theory of the scatter that fails."""
    claims = []
    letters = {"error": "e_g", "R": "R", "Q": "Q"}
    for n in (int(n) for n in data["dim"].values if n >= LARGE):
        for name in NAMES:
            worst = float(np.abs(off(data, name).sel(dim=n)).max())
            text = f"N = {n}: standard deviation of {letters[name]} against theory, worst entry and time"
            claims.append(
                at_most(text, worst, CLOSE, evidence=f"{int(data['runs'])} runs")
            )
        wrong = float(
            np.abs(data["error_sd"].sel(dim=n) / data["error_apart"] - 1).max()
        )
        claims.append(
            above(
                f"N = {n}: the same of e_g if overlaps scattered on their own, which must fail",
                wrong,
                CLOSE,
            )
        )
    return claims


def draw_errors(data: "Dataset") -> "Figure":
    """Single runs in the predicted band; the scatter of e_g at every N; measured over predicted."""
    small = (
        f"K = M = 3, erf, one start of order one, {int(data['runs'])} runs at each N. Lines: theory; marks: runs; "
        "dashed gray: if overlaps scattered on their own."
    )
    figure, axes = panel_grid(
        1,
        3,
        "Error bars from theory: the scatter of single networks",
        small,
        height=3.0,
    )
    left, middle, right = axes[0]
    times = data["time"].values
    bar = data["error_bar"].values
    _draw_band(left, data, int(data["dim"].values[min(1, data["dim"].size - 1)]))
    middle.plot(times, bar, color=INK, label="theory")
    middle.plot(
        times, data["error_apart"], color=FAINT, linestyle=DASHES[1], linewidth=1.2
    )
    for i, n in enumerate(data["dim"].values):
        look = {
            "color": COLORS[i],
            "marker": MARKERS[i],
            "markerfacecolor": "white",
            "markersize": 4,
            "linestyle": "none",
        }
        middle.plot(
            times,
            data["error_sd"].sel(dim=n),
            markevery=(i, 3),
            label=f"N = {n}",
            **look,
        )
    middle.set(xlabel=TIME, ylabel=r"$\sqrt{N}$ sd($\epsilon_g$)", yscale="log")
    middle.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    label_panel(middle, "scatter of the error")
    _draw_ratios(right, data)
    return figure


def _draw_band(panel: Any, data: "Dataset", n: int) -> None:
    times = data["time"].values
    error = data["error"].values
    reach = 2 * data["error_bar"].values / np.sqrt(n)
    panel.fill_between(
        times,
        error - reach,
        error + reach,
        color=COLORS[0],
        alpha=0.25,
        linewidth=0,
        label="± 2 sd, theory",
    )
    for i, run in enumerate(data["error_runs"].sel(dim=n).values):
        panel.plot(
            times,
            run,
            color=FAINT,
            linewidth=0.6,
            label="single runs" if i == 0 else None,
        )
    panel.plot(times, error, color=COLORS[0], label="theory")
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    label_panel(panel, f"single networks, N = {n}")


def _draw_ratios(panel: Any, data: "Dataset") -> None:
    """Root mean square of measured / predicted at each N; bars: from the smallest to the largest entry and time."""
    dims = data["dim"].values
    panel.axhspan(1 - CLOSE, 1 + CLOSE, color=FAINT, alpha=0.15, linewidth=0)
    panel.axhline(1.0, color=INK, linewidth=0.8)
    for i, (name, label) in enumerate(
        (("error", r"$\epsilon_g$"), ("R", "$R$"), ("Q", "$Q$"))
    ):
        ratio = (1 + off(data, name)).values.reshape(dims.size, -1)
        middle = np.sqrt(np.mean(ratio**2, axis=1))
        reach = [middle - ratio.min(axis=1), ratio.max(axis=1) - middle]
        look = {
            "color": COLORS[i],
            "marker": MARKERS[i],
            "markerfacecolor": "white",
            "markersize": 4,
            "linestyle": "none",
        }
        panel.errorbar(
            dims * 1.12 ** (i - 1),
            middle,
            reach,
            label=label,
            elinewidth=1.0,
            capsize=2,
            **look,
        )
    panel.set(
        xlabel="dimension $N$",
        ylabel="measured / predicted sd",
        xscale="log",
        xlim=(dims[0] / 1.6, dims[-1] * 1.6),
    )
    tick_each(panel, dims)
    label_panel(panel, "all entries and times")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)


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
