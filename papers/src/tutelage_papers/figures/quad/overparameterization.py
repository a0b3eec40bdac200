"""Eq. 13 against exact curves: the help of overparameterization to leave the plateau.

With the source's study in p and p* (sec. 4.1).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage_papers
from tutelage.plot import COLORS, DASHES, INK, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, between, close, refuted
from tutelage_papers.drawing import GUIDE, legend_below
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SMALL_LR = 1e-3  # gradient flow: only the unit of time
WINDOW = (1e-5, 3e-3)  # relative loss reductions between which its growth is measured
FALL = 1e-3  # relative loss reduction at which the prefactor is read
SCALED = r"rescaled time $\tilde t = \eta\alpha / p$"


def compute_7(
    widths: list[int],
    teachers: int,
    overlaps: list[float],
    starts: int,
    study_teachers: list[int],
    study_widths: list[int],
    study_overlap: float,
    study_starts: int,
    points: int,
    seed: int,
) -> "Dataset":
    """Return the loss reduction from the plateau for every p, its rate and prefactor.

    Then the time to half the loss in p and p*.
    """
    import xarray as xr

    coarse = []
    fine = []
    for p in widths:
        coarse.append(_from_plateau(p, teachers, max(overlaps), starts, points, seed))
        fine.append(_from_plateau(p, teachers, min(overlaps), starts, points, seed))
    shape = (len(study_teachers), len(study_widths))
    half_time = np.full(shape, np.nan)
    study_rate = np.full(shape, np.nan)
    for i, k in enumerate(study_teachers):
        for j, p in enumerate(study_widths):
            if p >= k:
                network = tutelage_papers.quadratic.quadratic_network(p, k, SMALL_LR)
                half_time[i, j] = _scaled_half_time(
                    network, study_overlap, study_starts, seed
                )
                study_rate[i, j] = _rate_of_overlaps(network, seed)
    coords = {"p": widths, "teachers": study_teachers, "width": study_widths}
    data = xr.Dataset(coords=coords)
    data["time"] = (("p", "point"), [row["time"] for row in coarse])
    reduction = [row["reduction"] for row in coarse]
    data["reduction"] = (("p", "start", "point"), reduction)
    data["compensated"] = (("p", "point"), [row["compensated"] for row in coarse])
    data["plateau_risk"] = ("p", [row["plateau_risk"] for row in coarse])
    data["rate"] = (("p", "start"), [row["rate"] for row in coarse])
    data["prefactor"] = (("p", "start"), [row["prefactor"] for row in fine])
    data["without_p"] = ("p", [row["without_p"] for row in fine])
    data["half_time"] = (("teachers", "width"), half_time)
    data["study_rate"] = (("teachers", "width"), study_rate)
    data["p_teacher"] = teachers
    return data


def _from_plateau(
    p: int, k: int, overlap: float, starts: int, points: int, seed: int
) -> dict[str, Any]:
    """Curves from Q = p/(p+2) against eq. 13, in time eta alpha / p.

    Eq. 13 with each start's own overlaps.
    """
    network = tutelage_papers.quadratic.quadratic_network(p, k, SMALL_LR)
    on_plateau = []
    for i in range(starts):
        on_plateau.append(network.start(overlap, seed + i, norm=network.plateau_norm))
    end = (2 * np.log(1 / overlap) + np.log(0.02)) * k / 16
    time = np.linspace(0.0, end, points)
    curves = network.curves(on_plateau, p * time, gradient_flow=True)
    risk = 2 * curves.error
    reduction = 1 - risk / risk[:, :1]
    squares = np.array([np.sum(np.asarray(start.R) ** 2) for start in on_plateau])
    prefactors = []
    places = []
    for row, square in zip(reduction, squares, strict=True):
        place = int(np.argmax(row > FALL))
        law = network.loss_reduction(p * time, square)
        prefactors.append(row[place] / law[place])
        places.append(place)
    # Negative control: 1/(p p*) left out of the prefactor.
    naive = 4 * squares[0] * np.expm1(16 / k * time) / network.plateau_risk
    size = 4 * squares[:, None] / (p * k)
    return {
        "time": time,
        "reduction": reduction,
        "compensated": _compensated(time, reduction, size, 16 / k),
        "plateau_risk": network.plateau_risk,
        "rate": [_growth(time, row) for row in reduction],
        "prefactor": prefactors,
        "without_p": reduction[0][places[0]] / naive[places[0]],
    }


def _compensated(
    time: np.ndarray, reduction: np.ndarray, size: np.ndarray, rate: float
) -> np.ndarray:
    """The reduction without overlaps and growth, averaged over starts.

    By eq. 13 it is 1/R(0). Undefined at time zero.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.mean(reduction / size / np.expm1(rate * time), axis=0)


def _growth(time: np.ndarray, reduction: np.ndarray) -> float:
    """Exponential rate of the reduction: log-slope of its derivative in the window."""
    inside = (reduction > WINDOW[0]) & (reduction < WINDOW[1])
    slope = np.gradient(reduction, time)
    return float(np.polyfit(time[inside], np.log(slope[inside]), 1)[0])


def _scaled_half_time(network: Any, overlap: float, starts: int, seed: int) -> float:
    """Mean time to half the loss by eq. 8, in eta alpha / p."""
    several_starts = [network.start(overlap, seed + i) for i in range(starts)]
    scaled = network.half_times(several_starts) * SMALL_LR / network.students
    return float(np.mean(scaled))


def _rate_of_overlaps(network: Any, seed: int) -> float:
    """Rate at which squared overlaps grow on the plateau by eq. 8, in eta alpha / p."""
    tiny = network.start(1e-6, seed, norm=network.plateau_norm)
    t = np.linspace(0.0, 5.0 / network.overlap_rate, 50)
    d = network.curves(tiny, t, gradient_flow=True).d[:, 0]
    return float(2 * network.students * np.polyfit(t, np.log(d), 1)[0])


def claims_7(data: "Dataset") -> Iterator[Claim]:
    """Compare rate 16/p*, prefactor, and the effect of p on the time of escape."""
    k = int(data["p_teacher"])
    rates = data["rate"].mean("start")
    for p in data["p"].values:
        words = f"p = {p}: rate of the loss reduction in eta alpha / p"
        yield close(words, rates.sel(p=p), 16 / k, rel=0.02)
    words = "prefactor over 4 sum rho^2/(p p* R(0)): largest gap to 1, all p and starts"
    yield at_most(words, np.abs(data["prefactor"] - 1).max(), 0.03)
    words = "the same without 1/(p p*), which must fail"
    yield above(words, np.abs(data["without_p"] - 1).min(), 0.03)
    widest = int(data["p"].max())
    words = f"p = {widest}: rate 16/p* if t is eta alpha"
    yield refuted(
        close(words, rates.sel(p=widest) / widest, 16 / k, rel=0.1),
        evidence="in t = eta alpha the curves grow as 16/(p p*), as the appendix "
        "derives before it puts t/p for t",
    )
    yield from _study_claims(data)


def _study_claims(data: "Dataset") -> Iterator[Claim]:
    """The study in p and p*: rates on the plateau, and times of escape."""
    most_students = int(data["width"].max())
    most_teachers = int(data["teachers"].max())
    relative = data["study_rate"] * data["teachers"] / 16
    words = (
        f"rate 16/p*, p up to {most_students}, p* up to {most_teachers}: "
        "largest relative gap"
    )
    yield at_most(words, np.abs(relative - 1).max(), 0.02)
    for k in data["teachers"].values:
        times = data["half_time"].sel(teachers=k)
        gain = times[-1] / times.sel(width=k)
        words = (
            f"p* = {k}: half time of the widest student over that of p = p*, in eta "
            "alpha / p"
        )
        yield between(words, gain, 0.5, 1.0)


def draw_7(data: "Dataset") -> "Figure":
    """Draw loss reduction and eq. 13; rates and prefactors against p; half times."""
    k = int(data["p_teacher"])
    title = "Overparameterization changes the prefactor of the escape, hardly its time"
    small = (
        f"Gradient flow. Left, middle: from the plateau, $p^* = {k}$; dashed: eq. 13. "
        "Right: from orthonormal students."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.1)
    reduction, measured, half_times = axes[0]
    _draw_reduction(reduction, data)
    label_panel(reduction, "loss reduction")
    _draw_rate_and_prefactor(measured, data)
    label_panel(measured, "rate and prefactor")
    _draw_half_times(half_times, data)
    label_panel(half_times, "time of escape")
    for panel in axes[0]:
        panel.margins(x=0.05)
        legend_below(panel, drop=0.22, handlelength=1.6)
    return figure


def _draw_reduction(panel: Any, data: "Dataset") -> None:
    """The loss reduction over overlaps and growth, and 1/R(0) (eq. 13)."""
    some = data["p"].values[:: max(1, data.sizes["p"] // 4)]
    guide = {"color": INK, "linestyle": DASHES[1], "linewidth": 0.9}
    for look, p in enumerate(some):
        curve = data.sel(p=p).isel(point=slice(2, None))
        label = f"$p = {p}$"
        panel.plot(curve["time"], curve["compensated"], color=COLORS[look], label=label)
        panel.axhline(1 / float(curve["plateau_risk"]), **guide)
    growth = r"$\,4\,\Sigma\rho^2\,(e^{16\tilde t/p^*} - 1)\,/\,p p^*$"
    words = r"$(1 - \mathcal{R}/\mathcal{R}(0))\;/$" + growth
    panel.set(xlabel=SCALED, ylabel=words, ylim=(0, None))


def _draw_rate_and_prefactor(panel: Any, data: "Dataset") -> None:
    """Measured rate and prefactor over those of eq. 13, against p."""
    k = int(data["p_teacher"])
    rate = data["rate"] * (k / 16)
    # Shifted, so that marks of both lie side by side.
    _draw_spread(panel, data["p"] - 0.1, rate, 0, r"rate $\times p^*/16$")
    _draw_spread(panel, data["p"] + 0.1, data["prefactor"], 1, "prefactor")
    panel.axhline(1.0, **GUIDE)
    panel.set(xlabel="student units $p$", ylabel="measured / eq. 13")
    panel.set_ylim(0.98, 1.02)


def _draw_spread(panel: Any, places: Any, values: Any, look: int, label: str) -> None:
    """Mean over starts with the standard deviation as a bar."""
    marks = {
        "linestyle": "none",
        "marker": MARKERS[look],
        "markerfacecolor": "white",
        "markersize": 5,
        "capsize": 2,
        "color": COLORS[look],
    }
    spread = values.std("start")
    panel.errorbar(places, values.mean("start"), spread, label=label, **marks)


def _draw_half_times(panel: Any, data: "Dataset") -> None:
    """The time to half the loss against p, a curve for each p*."""
    for look, k in enumerate(data["teachers"].values):
        times = data["half_time"].sel(teachers=k).dropna("width")
        line = {
            "color": COLORS[look],
            "marker": MARKERS[look],
            "linestyle": DASHES[look],
            "markerfacecolor": "white",
        }
        panel.plot(times["width"], times, label=f"$p^* = {k}$", **line)
    panel.set(xlabel="student units $p$", ylabel=r"half of the loss at $\tilde t$")
    panel.set_ylim(0, None)


PRINTED: dict[str, Any] = {
    "widths": [1, 2, 3, 4, 5, 6, 7, 8],
    "teachers": 3,
    "overlaps": [1e-3, 1e-4],
    "study_teachers": [1, 2, 4, 8],
    "study_widths": [1, 2, 4, 8, 12, 16],
    "study_overlap": 0.01,
    "points": 401,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="quad-7",
        source="quad",
        figure="eq. 13",
        title="loss reduction on leaving the plateau, and what more students change",
        full=PRINTED | {"starts": 20, "study_starts": 40},
        quick=PRINTED | {"starts": 5, "study_starts": 10},
        compute=compute_7,
        draw=draw_7,
        claims=claims_7,
    ),
)
