"""The figure of a designed schedule: the rates above, the errors that they lead to below, one time axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.axes import column, figure_of, finish, scale_error, wants_log, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, capital, problem_in_words
from tutelage.plot.style import COLORS, DASHES, FAINT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 401  # where a schedule is drawn
LETTERS = {"lr": r"$\eta$", "readout_lr": r"$\eta_v$"}
LOOKS: dict[str, dict[str, Any]] = {
    "optimal": {"color": COLORS[0], "linewidth": 2.0, "zorder": 3},
    "greedy": {"color": COLORS[1], "linewidth": 1.6, "linestyle": DASHES[1]},
    "best constant": {"color": FAINT, "linewidth": 1.6, "linestyle": DASHES[2]},
}


@figure_of("what optimize returned", "schedules", "best_constant", "trajectory", "gain")
def plot_schedule(design: Any, *, title: str | None = None) -> "Figure":
    """Draw rates and errors of what `optimize` returned.

    Dots mark the knots of the designed schedule. Where two different rates are shown, that of the readout is dashed.
    title: "" leaves the head out.
    """
    curves, end = _curves(design), float(design.trajectory.times[-1])
    figure, (above, below) = column([2.1, 2.6], title)
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
    finish(figure, [above, below], TIME)
    final, noise = design.objective == "final", float(design.problem.noise)
    what = f"the error at $\\alpha={end:g}$" if final else f"the error integrated up to $\\alpha={end:g}$"
    small = f"rates chosen for {what}, " + (f"label noise {noise:g}" if noise else "no label noise")
    side, factor = ("below", design.gain) if design.gain >= 1 else ("above", 1 / design.gain)
    outcome = f"{capital(what)} is {factor:.3g} times {side} that of the best constant rate"
    write_head(above, title, problem_in_words(design.problem)[0], small, outcome)
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
