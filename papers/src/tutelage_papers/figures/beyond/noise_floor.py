"""The error that label noise leaves, for students with more units than the teacher.

The law at small learning rates is that of Goldt et al. (2019).
"""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

TEACHERS = 2
GAP = 1e-4  # relative gap between linear response and solve
ONE = 0.0192042913  # e_g / sigma^2 at eta = 0.1 without extra units, sigma -> 0


def student(extra: int, room: int, lr: float, noise: float) -> "tu.Problem":
    """A student with `extra` units more than the teacher.

    It has room for more: further units have readout 0, with which they neither
    contribute nor learn, so that one compiled program serves every number of extra
    units.
    """
    readout = (np.arange(TEACHERS + room) < TEACHERS + extra).astype(float)
    student = tu.Network(TEACHERS + room, "erf", readout=readout)
    teacher = tu.Network(TEACHERS, "erf")
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


def compute_floor(
    extras: list[int],
    lrs: list[float],
    noise: float,
    R: list[list[float]],
    Q: list[list[float]],
    end: float,
) -> "Dataset":
    """Return the final error by extra units and learning rate, by three routes.

    floor: linear response, per variance of the noise; exact, exact_half: the fixed
    point of the dynamics at the noise and at half of it; solved: the dynamics itself at
    time end / lr. NaN where zero error is unstable even without noise, above the rates
    `critical`. floor_fine: linear response on the finer grid of rates lr_fine.
    """
    import xarray as xr

    room = max(extras)
    fine = np.geomspace(min(lrs), max(lrs), 121)
    shape = (len(extras), len(lrs))
    floor = np.full(shape, np.nan)
    exact = np.full(shape, np.nan)
    exact_half = np.full(shape, np.nan)
    solved = np.full(shape, np.nan)
    floor_fine = np.full((len(extras), fine.size), np.nan)
    critical = np.empty(len(extras))
    for row, extra in enumerate(extras):
        problem = student(extra, room, min(lrs), noise)
        response = tu.analysis.noise_floor(problem).dynamics
        critical[row] = _last_stable(response)
        for column, lr in enumerate(fine):
            if lr < critical[row]:
                floor_fine[row, column] = response.noise_floor(lr)
        for column, lr in enumerate(lrs):
            if lr < critical[row]:
                whole = student(extra, room, lr, noise)
                half = student(extra, room, lr, 0.5 * noise)
                place = (row, column)
                floor[place] = response.noise_floor(lr)
                exact[place] = tu.analysis.fixed_point(whole, "perfect").error
                exact_half[place] = tu.analysis.fixed_point(half, "perfect").error
                solved[place] = _long_after(whole, R, Q, end / lr)
    data = xr.Dataset(coords={"extra": extras, "lr": lrs, "lr_fine": fine})
    dims = ("extra", "lr")
    data["floor"] = (dims, floor)
    data["exact"] = (dims, exact)
    data["exact_half"] = (dims, exact_half)
    data["solved"] = (dims, solved)
    data["floor_fine"] = (("extra", "lr_fine"), floor_fine)
    data["critical"] = ("extra", critical)
    return data.assign(noise=noise)


def _last_stable(response: Any) -> float:
    """The learning rate above which zero error is unstable, by bisection."""
    low = 0.0
    high = 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if response.is_stable(middle):
            low = middle
        else:
            high = middle
    return low


def _long_after(
    problem: "tu.Problem", R: list[list[float]], Q: list[list[float]], end: float
) -> float:
    """The error at a late time, from students near their teachers.

    Extra units start at exactly zero and stay alike.
    """
    K = problem.student.hidden
    start_R = np.zeros((K, TEACHERS))
    start_R[:TEACHERS] = R
    start_Q = np.zeros((K, K))
    start_Q[:TEACHERS, :TEACHERS] = Q
    start = tu.Start(start_R, start_Q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
        return float(tu.solve(problem, start, [0.0, end]).error[-1])


def law(extra: Any, lr: Any) -> Any:
    """e_g(infinity) / sigma^2 to first order in eta."""
    return lr * (extra + TEACHERS / np.sqrt(3)) / (2 * np.pi)


def claims_floor(data: "Dataset") -> Iterator[Claim]:
    """The law at the smallest rate; linear response, fixed point and solve compared."""
    lrs = data["lr"]
    variance = float(data["noise"]) ** 2
    lowest = float(lrs.min())
    off = data["floor"].sel(lr=lowest) / law(data["extra"], lowest) - 1
    yield at_most(
        f"small-eta law against linear response at eta = {lowest:g}, worst of all",
        abs(off).max(),
        0.05,
    )
    yield close(
        "e_g / sigma^2 by linear response, eta = 0.1, no extra units",
        data["floor"].sel(extra=0, lr=0.1),
        ONE,
        rel=1e-8,
    )
    high = lrs > 0.35
    linear = variance * data["floor"]
    gap = abs(linear / data["solved"] - 1)
    words = "linear response against the long-time solve"
    yield at_most(f"{words}, eta < 0.35, worst of all", gap.where(~high).max(), GAP)
    yield at_most(
        "exact response at this sigma against the long-time solve, worst of all",
        abs(data["exact"] / data["solved"] - 1).max(),
        GAP,
    )
    high_gap = at_most(f"{words}, eta > 0.35, worst of all", gap.where(high).max(), GAP)
    yield refuted(
        high_gap,
        evidence="terms of higher order in sigma: the gap falls as sigma^2 "
        "(next claim), the exact response has none",
    )
    # Half the noise has a quarter of the variance: the ratio of gaps is 4 for sigma^2.
    whole_gap = data["exact"] / linear - 1
    half_gap = 4 * data["exact_half"] / linear - 1
    stable = lrs < 0.95 * data["critical"]
    orders = np.log2((whole_gap / half_gap).where(high & stable).values)
    yield close(
        "exponent of sigma in that gap, up to 0.95 of the critical rate, worst of all",
        orders.flat[np.nanargmax(abs(orders - 2))],
        2.0,
        absolute=0.05,
    )


def draw_floor(data: "Dataset") -> "Figure":
    """Final error against the rate; against the law; and the gap of linear response."""
    sigma = float(data["noise"])
    small = (
        f"M = 2, K = 2 + extra, erf, σ = {sigma:g}. Marks: long-time solve; lines: "
        "linear response; dotted: law of small η (left), critical rates (middle)."
    )
    title = "What label noise leaves of the error"
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    errors, corrections, gaps = axes[0]
    _draw_errors(errors, data)
    _draw_corrections(corrections, data)
    _draw_gaps(gaps, data)
    rates = data["lr"].values
    for panel in axes[0]:
        panel.set(
            xlabel=r"learning rate $\eta$",
            xscale="log",
            xlim=(rates[0] / 1.1, rates[-1] * 1.1),
        )
    label_panel(errors, "final error")
    label_panel(corrections, "corrections in $\\eta$")
    label_panel(gaps, "relative gap")
    outside_legend(gaps, title="extra units")
    return figure


def _color(place: int) -> dict[str, Any]:
    return {"color": COLORS[place % len(COLORS)]}


def _marks(place: int) -> dict[str, Any]:
    """The look of a number of extra units."""
    return _color(place) | {
        "marker": MARKERS[place % len(MARKERS)],
        "markerfacecolor": "white",
        "markersize": 4.2,
    }


def _draw_errors(panel: Any, data: "Dataset") -> None:
    rates = data["lr"].values
    fine = data["lr_fine"].values
    solved = data["solved"] / float(data["noise"]) ** 2
    for place, extra in enumerate(data["extra"].values):
        color = _color(place)
        small_rates = law(extra, fine)
        panel.plot(fine, data["floor_fine"].sel(extra=extra), **color)
        panel.plot(fine, small_rates, linestyle=DASHES[2], linewidth=1.0, **color)
        panel.plot(rates, solved.sel(extra=extra), linestyle="none", **_marks(place))
    panel.set(
        ylabel=r"$\epsilon_g(\infty)\,/\,\sigma^2$",
        yscale="log",
        ylim=(None, 3 * float(solved.max())),
    )


def _draw_corrections(panel: Any, data: "Dataset") -> None:
    """Final errors over the law of small rates, up to the critical ones."""
    rates = data["lr"].values
    fine = data["lr_fine"].values
    variance = float(data["noise"]) ** 2
    for place, extra in enumerate(data["extra"].values):
        part = data.sel(extra=extra)
        color = _color(place)
        response = part["floor_fine"] / law(extra, fine)
        solved = part["solved"] / variance / law(extra, rates)
        critical = float(part["critical"])
        panel.plot(fine, response, **color)
        panel.plot(rates, solved, linestyle="none", **_marks(place))
        panel.axvline(critical, linestyle=DASHES[2], linewidth=0.8, **color)
    panel.set(ylabel="the same / law of small $\\eta$", ylim=(0.9, 4.0))


def _draw_gaps(panel: Any, data: "Dataset") -> None:
    rates = data["lr"].values
    gap = abs(float(data["noise"]) ** 2 * data["floor"] / data["solved"] - 1)
    for place, extra in enumerate(data["extra"].values):
        panel.plot(rates, gap.sel(extra=extra), label=f"{extra}", **_marks(place))
    exact = abs(data["exact"] / data["solved"] - 1).max("extra")
    panel.plot(rates, exact, ".", color=FAINT, label="exact response")
    panel.axhline(GAP, color=INK, linewidth=0.8, linestyle=DASHES[1])
    panel.set(ylabel="linear response against solve", yscale="log")


PRINTED: dict[str, Any] = {
    "noise": 0.01,
    "R": [[0.9, 0.05], [-0.05, 0.85]],
    "Q": [[0.95, 0.02], [0.02, 0.9]],
    "end": 600.0,
}

FIGURES = (
    Replica(
        id="goldt-1",
        source="beyond",
        figure="noise floors",
        title="what label noise leaves of the error, for students with extra units",
        full=PRINTED
        | {
            "extras": [0, 1, 2, 3, 4, 5],
            "lrs": [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0],
        },
        quick=PRINTED | {"extras": [0, 2], "lrs": [0.01, 0.1, 0.3, 0.6]},
        compute=compute_floor,
        draw=draw_floor,
        claims=claims_floor,
    ),
)
