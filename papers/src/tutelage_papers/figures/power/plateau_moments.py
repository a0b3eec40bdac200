"""Figure 18 of the power-law paper: moments of higher order on the plateau.

With eq. 98 as printed and corrected. The common student is the same combination of teachers
in every level, so a moment goes with the row sum T + D of its order; the paper scales it
with the diagonal T alone. Terms of order eta only; beta is not printed (0.25 gives the
insets).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, INK, TIME, panel_grid
from tutelage_papers.claims import Claim, at_most, refuted
from tutelage_papers.drawing import GUIDE, color_legend
from tutelage_papers.figures.power.committees import (
    ESCAPED,
    SETTING,
    inset_axes,
    largest_gap,
    limits_around,
    resting_index,
    solved_committee,
    split_power_law,
    unit_spread,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


class Heights(NamedTuple):
    """Heights of one plateau in the moments of one order.

    good: eq. 98 corrected. bad: eq. 98 as printed. R_each: with each teacher, eq. 96
    corrected. Q_exact: of the exact common student.
    """

    R_good: float
    Q_good: float
    R_bad: float
    Q_bad: float
    R_each: np.ndarray
    Q_exact: float


def compute_18(
    units: int,
    levels: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    end: float,
    orders: list[int],
    draws: int,
    seed: int,
) -> "Dataset":
    """Return moments of higher order against time, and their heights.

    Over `draws` teachers, Q of each order against eq. 98 in both forms.
    """
    import xarray as xr

    times = tu.linear_times(end, 701)
    inputs = split_power_law(beta, levels, levels)
    problem, start, curve = solved_committee(units, inputs, dim, scale, lr, times, seed)
    still = resting_index(curve.error, times, unit_spread(curve.R), 100.0, ESCAPED)
    plateau = _plateau(problem, start)
    others: list[tuple[Any, Any]] = []
    for i in range(draws):
        other = tu.random_start(problem, dim=dim, scale=scale, seed=seed + 1 + i)
        others.append(_plateau(problem, other))
    rows = []
    for order in orders:
        moments = tutelage_papers.power_law.overlap_moments(curve, order)
        row = _moments(moments, still).assign(_heights_of(plateau, order))
        heights = [_heights(*other, order) for other in others]
        row["gap_good"] = ("draw", [each.Q_good / each.Q_exact - 1 for each in heights])
        row["gap_bad"] = ("draw", [each.Q_bad / each.Q_exact - 1 for each in heights])
        rows.append(row)
    cases = xr.DataArray(orders, dims="order", name="order")
    data = xr.concat(rows, dim=cases).assign_coords(time=times)
    return data.assign(rest=times[still])


def _moments(moments: Any, still: int) -> "Dataset":
    """Moments along time, and at rest on the plateau."""
    import xarray as xr

    data = xr.Dataset()
    data["R"] = (("time", "student", "teacher"), moments.R)
    data["Q"] = (("time", "student", "student_2"), moments.Q)
    data["R_rest"] = ("teacher", moments.R[still].mean(axis=0))
    data["Q_rest"] = float(moments.Q[still].mean())
    data["Q_spread"] = float(np.ptp(moments.Q[still]))
    return data


def _plateau(problem: Any, start: Any) -> tuple[Any, Any]:
    """The plateau in closed form, and exact."""
    closed = tutelage_papers.power_law.plateau_formulas(problem, start)
    exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
    return closed, exact


def _heights(closed: Any, exact: Any, order: int) -> Heights:
    """Heights of a plateau in the moments of one order."""
    T = tutelage_papers.power_law.overlap_moments(exact.start, order, exact.problem).T
    row_sums = T.sum() / closed.moments[0].sum()
    diagonals = np.trace(T) / np.trace(closed.moments[0])
    R_each, _ = closed.heights(T)
    _, Q_exact = exact.heights(order)
    return Heights(
        R_good=closed.R * row_sums,
        Q_good=closed.Q * row_sums,
        R_bad=closed.R * diagonals,
        Q_bad=closed.Q * diagonals,
        R_each=R_each,
        Q_exact=Q_exact,
    )


def _heights_of(plateau: tuple[Any, Any], order: int) -> dict[str, Any]:
    """Heights of the plateau that is drawn."""
    heights = _heights(*plateau, order)
    return {
        "R_each": ("teacher", heights.R_each),
        "Q_good": heights.Q_good,
        "Q_bad": heights.Q_bad,
        "R_good": heights.R_good,
        "R_bad": heights.R_bad,
    }


def claims_18(data: "Dataset") -> Iterator[Claim]:
    """Compare eq. 98 with the spread of entries: corrected it is inside, printed not.

    Corrected: the ratio (T + D)/(T1 + D1); printed: T/T1.
    """
    for order in data["order"].values:
        yield from _order_claims(data.sel(order=order), f"({order})")


def _order_claims(row: "Dataset", order: str) -> Iterator[Claim]:
    """The claims of one order."""
    R = row["R_rest"].values
    away = np.abs(row["R_good"] - R.mean())
    words = f"R^{order}, eq. 98 corrected: distance from the mean height / spread of heights"
    yield at_most(words, away / R.std(), 1.0)
    words = f"R^{order} with each teacher, eq. 96 corrected: largest gap"
    yield at_most(words, largest_gap(R, row["R_each"]), 0.01)
    away = np.abs(row["Q_good"] - row["Q_rest"])
    words = f"Q^{order}, eq. 98 corrected: distance / spread of its entries"
    yield at_most(words, away / row["Q_spread"], 1.0)
    spread = float(row["Q_spread"] / row["Q_rest"])
    good = float(np.sqrt(np.mean(row["gap_good"] ** 2)))
    bad = float(np.sqrt(np.mean(row["gap_bad"] ** 2)))
    over = "root mean square gap over teachers / spread of its entries"
    yield at_most(f"Q^{order}, eq. 98 corrected: {over}", good / spread, 1.0)
    yield refuted(
        at_most(f"Q^{order}, eq. 98 as printed: {over}", bad / spread, 1.0),
        evidence=f"the exact plateaus of {row.sizes['draw']} teachers are "
        f"{100 * bad:.2g}% off it, {100 * good:.2g}% off (T + D)",
    )


def draw_18(data: "Dataset") -> "Figure":
    """Draw R and Q of each order, with the plateau enlarged."""
    orders = data["order"].values
    title = "Moments of higher order through the plateau"
    small = SETTING + "; dashed: corrected eqs. 96 and 98, dotted: eq. 98 as printed"
    figure, axes = panel_grid(len(orders), 2, title, small, height=2.8, width=9.5)
    for (teacher_overlaps, student_overlaps), order in zip(axes, orders, strict=True):
        row = data.sel(order=order)
        _draw_R(teacher_overlaps, row)
        teacher_overlaps.set(xlabel=TIME, ylabel=rf"$R^{{({order})}}_{{in}}$")
        _draw_Q(student_overlaps, row)
        student_overlaps.set(xlabel=TIME, ylabel=rf"$Q^{{({order})}}_{{ij}}$")
    teachers = [f"$n = {n + 1}$" for n in range(data.sizes["teacher"])]
    color_legend(figure, r"color of $R_{in}$: teacher $n$", teachers)
    return figure


def _on_plateau(row: "Dataset") -> np.ndarray:
    """Times that the insets enlarge."""
    t = row["time"].values
    rest = float(row["rest"])
    return (t > 0.4 * rest) & (t < 1.6 * rest)


def _draw_R(panel: Any, row: "Dataset") -> None:
    """Moments of R; in the inset the heights of eqs. 96 and 98."""
    t = row["time"].values
    window = _on_plateau(row)
    inset = inset_axes(panel, [0.12, 0.6, 0.3, 0.36])
    for n in range(row.sizes["teacher"]):
        color = COLORS[n % 7]
        R = row["R"].values[:, :, n]
        height = float(row["R_each"][n])
        panel.plot(t, R, color=color, linewidth=0.9)
        inset.plot(t[window], R[window], color=color, linewidth=0.9)
        inset.axhline(height, color=color, linestyle=DASHES[1], linewidth=1.0)
    inset.axhline(float(row["R_bad"]), **GUIDE, linewidth=1.4)
    inset.set_ylim(*limits_around(row["R_each"].values, 0.4))


def _draw_Q(panel: Any, row: "Dataset") -> None:
    """Moments of Q; in the inset eq. 98, corrected and as printed."""
    t = row["time"].values
    window = _on_plateau(row)
    inset = inset_axes(panel, [0.12, 0.6, 0.3, 0.36])
    Q = row["Q"].values.reshape(t.size, -1)
    good = float(row["Q_good"])
    bad = float(row["Q_bad"])
    panel.plot(t, Q, color=FAINT, linewidth=0.8)
    inset.plot(t[window], Q[window], color=FAINT, linewidth=0.6)
    inset.axhline(good, color=INK, linestyle=DASHES[1], linewidth=1.2)
    inset.axhline(bad, color=COLORS[1], linestyle=DASHES[2], linewidth=1.4)
    inset.set_ylim(*limits_around(np.array([good, bad]), 1.0))


PRINTED = {"units": 4, "beta": 0.25, "dim": 7000, "scale": 0.01, "lr": 0.1, "seed": 0}
EIGHTEEN = PRINTED | {"levels": 10, "end": 7000.0, "orders": [4, 6], "draws": 30}

FIGURES = (
    Replica(
        id="power-18",
        source="power",
        figure="Fig. 18",
        title="moments of higher order on the plateau",
        full=EIGHTEEN,
        quick=EIGHTEEN | {"draws": 12},
        compute=compute_18,
        draw=draw_18,
        claims=claims_18,
    ),
)
