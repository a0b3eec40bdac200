"""The right half of figure 6 of the notes: when to stop if labels are noisy.

The teacher of one erf unit lives in the few directions of large variance. The unit
learns its teacher fast, and the noise of the labels slowly, in all the other
directions: the error passes through a minimum.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, MARKERS, TIME, label_panel
from tutelage_papers.drawing import GUIDE, draw_error

if TYPE_CHECKING:
    from xarray import Dataset


def _unit(
    lr: float, eigenvalues: list[float], fractions: list[float], noise: float
) -> "tu.Problem":
    """One unit; its teacher, of unit field variance, lives in the first level."""
    gram = np.zeros((len(eigenvalues), 1, 1))
    gram[0] = 1 / (eigenvalues[0] * fractions[0])
    return tu.Problem(
        student=tu.Network(1, "erf"),
        teacher=tu.Network(1, "erf", gram=gram),
        inputs=tu.Spectrum(eigenvalues, fractions),
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
    """Return the band of the shown noise, and the stopping time of every noise.

    stop_time: as `early_stopping` finds it. stop_solved: from a finely solved curve.
    stop_floor: the level in the end at the shown noise.
    """
    from tutelage_papers.bands import against_runs

    nothing = np.zeros((len(eigenvalues), 1, 1))
    start = tu.Start(R=nothing, Q=nothing)
    times = tu.linear_times(end, points)
    stops: list[Any] = []
    solved = []
    for noise in noises:
        problem = _unit(lr, eigenvalues, fractions, noise)
        stop = tu.analysis.early_stopping(tu.solve(problem, start, times))
        stops.append(stop)
        solved.append(_solved_minimum(problem, start, stop))
    problem = _unit(lr, eigenvalues, fractions, shown)
    data = against_runs(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    data["noise"] = noises
    data["stop_time"] = ("noise", [stop.time for stop in stops])
    data["stop_value"] = ("noise", [stop.value for stop in stops])
    data["stop_gain"] = ("noise", [stop.gain for stop in stops])
    data["stop_solved"] = ("noise", solved)
    data["stop_floor"] = float(tu.solve(problem, start, 20 * times).error[-1])
    data["shown"] = shown
    return data


def _solved_minimum(problem: "tu.Problem", start: "tu.Start", stop: Any) -> float:
    """The minimum of the curve, solved again at times close around it.

    It is the zero of a cubic's slope; the end of the curve if there is no minimum.
    """
    if not stop.inside:
        return stop.end_time
    times = np.linspace(0.8 * stop.time, 1.3 * stop.time, stop.curve.times.size)
    error = tu.solve(problem, start, times).error
    lowest = int(np.argmin(error))
    near = slice(lowest - 10, lowest + 11)
    slope = np.polynomial.Polynomial.fit(times[near], error[near], 3).deriv()
    first = times[near][0]
    last = times[near][-1]
    for root in slope.roots():
        if first < root.real < last and abs(root.imag) < 1e-9:
            return float(root.real)
    return np.nan


def draw_minimum(panel: Any, data: "Dataset") -> None:
    """Draw theory and runs at the shown noise, with the time to stop."""
    noise = float(data["shown"])
    shown = data.sel(noise=noise)
    draw_error(panel, data, label="theory, runs")
    stop_time = float(shown["stop_time"])
    stop_value = float(shown["stop_value"])
    mark = {"color": COLORS[1], "markersize": 7, "label": "stop here"}
    panel.plot(stop_time, stop_value, "v", **mark)
    panel.axhline(float(data["stop_floor"]), **GUIDE, label="in the end")
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log")
    panel.legend(loc="upper right", fontsize=7)
    label_panel(panel, rf"label noise $\sigma$ = {noise:g}")


def draw_stopping(panel: Any, data: "Dataset") -> None:
    """Draw the time to stop against the noise of the labels."""
    noisy = data.sel(noise=data["noise"] > 0)
    noise = noisy["noise"]
    marks = {
        "color": COLORS[1],
        "linestyle": "none",
        "marker": MARKERS[4],
        "markersize": 6,
        "markerfacecolor": "white",
    }
    panel.plot(noise, noisy["stop_solved"], color=COLORS[0], label="solved minimum")
    panel.plot(noise, noisy["stop_time"], **marks, label="early_stopping")
    panel.set(xlabel=r"label noise $\sigma$", ylabel="stopping time", ylim=(0, None))
    panel.margins(x=0.05)
    panel.legend(loc="lower left")
