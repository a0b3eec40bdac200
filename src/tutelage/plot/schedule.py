"""The figure of a designed schedule: the rates above, the errors that they lead to below, one time axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, outside_legend
from tutelage.plot.scales import scale_error, wants_log
from tutelage.plot.style import COLORS, DASHES, FAINT, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, RATE_HEIGHT, ERROR_HEIGHT, TITLE_HEIGHT = 7.4, 2.1, 2.6, 0.9
POINTS = 401  # where a schedule is drawn
LETTERS = {"lr": r"$\eta$", "readout_lr": r"$\eta_v$"}
LOOKS: dict[str, dict[str, Any]] = {
    "optimal": {"color": COLORS[0], "linewidth": 2.0, "zorder": 3},
    "greedy": {"color": COLORS[1], "linewidth": 1.6, "linestyle": DASHES[1]},
    "best constant": {"color": FAINT, "linewidth": 1.6, "linestyle": DASHES[2]},
}


def plot_schedule(design: Any, *, title: str | None = None) -> "Figure":
    """Rates and errors of what `optimize` returned, as a Matplotlib figure (see `save_figure`).

    Dots mark the knots of the designed schedule. Where two different rates are shown, that of the readout is dashed.
    """
    require_fields(
        "plot_schedule", design, ("schedules", "best_constant", "trajectory", "gain"), "what optimize returned"
    )
    from tutelage.plot.figure import Figure

    curves = _curves(design)
    end = float(design.trajectory.times[-1])
    with style():
        figure = Figure(figsize=(WIDTH, TITLE_HEIGHT + RATE_HEIGHT + ERROR_HEIGHT), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[RATE_HEIGHT, ERROR_HEIGHT])
        drawn = [_draw_rates(above, name, rates, end) for name, (rates, _, _) in curves.items()]
        for name, (_, times, error) in curves.items():
            below.plot(times, error, label=name, **LOOKS[name])
        if wants_log(np.concatenate(drawn)):
            above.set_yscale("log")
        else:
            above.set_ylim(bottom=0.0)
        scale_error(below, np.concatenate([error for _, _, error in curves.values()]))
        above.set_ylabel("learning rate " + ", ".join(LETTERS[name] for name in design.schedules))
        below.set_ylabel(ERROR_IN_TWO_LINES)
        below.set_xlabel(TIME)
        for axes in (above, below):
            outside_legend(axes)
        figure.align_ylabels([above, below])
        if title != "":
            _head(above, design, title)
    return figure


def _curves(design: Any) -> dict[str, tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Rates, times and errors of each candidate, by name; the designed one first."""
    out = {design.method: (design.schedules, design.trajectory.times, np.asarray(design.trajectory.error))}
    if design.greedy is not None and design.method != "greedy":
        out["greedy"] = (design.greedy.rates, design.greedy.times, design.greedy.error)
    constant = design.best_constant
    return out | {"best constant": (constant.rates, constant.times, constant.error)}


def _draw_rates(axes: Any, name: str, rates: dict[str, Any], end: float) -> np.ndarray:
    """All rates of one candidate; returns their values."""
    times, values = np.linspace(0.0, end, POINTS), []
    shared = len(rates) > 1 and len({id(rate) for rate in rates.values()}) == 1
    for i, (which, rate) in enumerate(list(rates.items())[: 1 if shared else None]):
        label = name if len(rates) == 1 else f"{name}, {'both' if shared else LETTERS[which]}"
        look = LOOKS[name] | ({} if len(rates) == 1 else {"linestyle": DASHES[i]})
        if callable(rate):
            knots, heights = np.asarray(rate.times), np.asarray(rate.values)
            grid = np.union1d(times, knots)
            values.append(np.exp(np.interp(grid, knots, np.log(heights))))
            few = {"marker": "o", "markersize": 3.6, "markevery": np.searchsorted(grid, knots).tolist()}
            axes.plot(grid, values[-1], label=label, **look, **(few if knots.size <= 40 else {}))
        else:
            values.append(np.full(times.size, float(rate)))
            axes.plot(times, values[-1], label=label, **look)
    return np.concatenate(values)


def _head(axes: Any, design: Any, title: str | None) -> None:
    who, _ = problem_in_words(design.problem)
    final, noise, end = design.objective == "final", float(design.problem.noise), float(design.trajectory.times[-1])
    what = f"the error at $\\alpha={end:g}$" if final else f"the error integrated up to $\\alpha={end:g}$"
    conditions = f"rates chosen for {what}, " + (f"label noise {noise:g}" if noise else "no label noise")
    side, factor = ("below", design.gain) if design.gain >= 1 else ("above", 1 / design.gain)
    outcome = f"{what[0].upper()}{what[1:]} is {factor:.3g} times {side} that of the best constant rate"
    write_head(axes, [(title or who, TITLE), (conditions, SMALL), (outcome, SMALL | {"fontweight": "bold"})])
