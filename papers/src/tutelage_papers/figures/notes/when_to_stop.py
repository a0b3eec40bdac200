"""The right half of figure 6 of the notes: one erf unit whose teacher lives in the few directions of large variance.

It learns its teacher fast, and the noise of the labels slowly, in all the other directions: the error passes through a
minimum.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, ERROR, FAINT, MARKERS, TIME, label_panel
from tutelage_papers.drawing import draw_band

if TYPE_CHECKING:
    from xarray import Dataset


def _unit(
    lr: float, eigenvalues: list[float], fractions: list[float], noise: float
) -> "tu.Problem":
    """One unit; its teacher, of unit field variance, lives in the first level."""
    gram = np.array(
        [1 / (eigenvalues[0] * fractions[0]), *[0.0] * (len(eigenvalues) - 1)]
    )[:, None, None]
    inputs = tu.Spectrum(eigenvalues, fractions)
    return tu.Problem(
        tu.Network(1, "erf"),
        tu.Network(1, "erf", gram=gram),
        inputs=inputs,
        optimizer=tu.SGD(lr),
        noise=noise,
    )


def stopping(
    lr: float,
    eigenvalues: list[float],
    fractions: list[float],
    noises: list[float],
    shown: float,
    end: float,
    points: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """The band of the shown noise; for all of them the stopping time, found and finely solved, and the level at the end."""
    from tutelage_papers.bands import against_runs

    nothing = np.zeros((len(eigenvalues), 1, 1))
    start = tu.Start(R=nothing, Q=nothing)
    times = tu.linear_times(end, points)
    problems = [_unit(lr, eigenvalues, fractions, noise) for noise in noises]
    found: Any = [
        tu.analysis.early_stopping(tu.solve(problem, start, times))
        for problem in problems
    ]
    band = against_runs(
        problems[noises.index(shown)], start, dim=dim, times=times, runs=runs, seed=seed
    )
    return band.assign(
        noise=noises,
        stop_time=("noise", [one.time for one in found]),
        stop_value=("noise", [one.value for one in found]),
        stop_gain=("noise", [one.gain for one in found]),
        stop_solved=(
            "noise",
            [
                _finely(problem, start, one)
                for problem, one in zip(problems, found, strict=True)
            ],
        ),
        stop_floor=float(
            tu.solve(problems[noises.index(shown)], start, 20 * times).error[-1]
        ),
        shown=shown,
    )


def _finely(problem: "tu.Problem", start: "tu.Start", found: Any) -> float:
    """The minimum of the curve, solved again at times close around it: the zero of a cubic's slope; the end if none."""
    if not found.inside:
        return found.end_time
    times = np.linspace(0.8 * found.time, 1.3 * found.time, found.curve.times.size)
    error = tu.solve(problem, start, times).error
    near = slice(int(np.argmin(error)) - 10, int(np.argmin(error)) + 11)
    slope = np.polynomial.Polynomial.fit(times[near], error[near], 3).deriv()
    inside = [
        float(x.real)
        for x in slope.roots()
        if times[near][0] < x.real < times[near][-1] and abs(x.imag) < 1e-9
    ]
    return inside[0] if inside else np.nan


def draw_minimum(panel: Any, data: "Dataset") -> None:
    """Theory and runs at the shown noise, with the time to stop."""
    shown = data.sel(noise=float(data["shown"]))
    draw_band(
        panel,
        data["time"].values,
        data["error"],
        data["error_mean"],
        data["error_se"],
        label="theory, runs",
    )
    panel.plot(
        float(shown["stop_time"]),
        float(shown["stop_value"]),
        "v",
        color=COLORS[1],
        markersize=7,
        label="stop here",
    )
    panel.axhline(
        float(data["stop_floor"]), color=FAINT, linestyle=DASHES[2], label="in the end"
    )
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    panel.legend(loc="upper right", fontsize=7)
    label_panel(panel, rf"label noise $\sigma$ = {float(data['shown']):g}")


def draw_stopping(panel: Any, data: "Dataset") -> None:
    """The time to stop against the noise of the labels."""
    noisy = data.sel(noise=data["noise"] > 0)
    panel.plot(
        noisy["noise"], noisy["stop_solved"], color=COLORS[0], label="solved minimum"
    )
    marks = {
        "linestyle": "none",
        "marker": MARKERS[4],
        "markersize": 6,
        "markerfacecolor": "white",
    }
    panel.plot(
        noisy["noise"],
        noisy["stop_time"],
        color=COLORS[1],
        label="early_stopping",
        **marks,
    )
    panel.set(xlabel=r"label noise $\sigma$", ylabel="stopping time", ylim=(0, None))
    panel.margins(x=0.05)
    panel.legend(loc="lower left")
