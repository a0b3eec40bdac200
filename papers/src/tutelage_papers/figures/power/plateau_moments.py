"""Figure 18 of the power-law paper: moments of higher order on the plateau, and eq. 98 as printed and corrected.

The common student is the same combination of teachers in every level, so a moment goes with the row sum T + D of its order;
the paper scales it with the diagonal T alone. Terms of order eta only; beta is not printed (0.25 gives the insets).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, INK, TIME, panel_grid
from tutelage_papers.claims import Claim, at_most, refuted
from tutelage_papers.drawing import color_legend
from tutelage_papers.figures.power.committees import (
    ESCAPED,
    SETTING,
    around,
    inset_axes,
    largest_gap,
    resting_index,
    solved_committee,
    split_power_law,
    unit_spread,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


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
    """Moments of higher order against time; and over `draws` teachers, Q of each order against eq. 98 in both forms."""
    import xarray as xr

    times = tu.linear_times(end, 701)
    problem, start, curve = solved_committee(
        units, split_power_law(beta, levels, levels), dim, scale, lr, times, seed
    )
    still = resting_index(curve.error, times, unit_spread(curve.R), 100.0, ESCAPED)
    others = [
        _plateau(
            problem, tu.random_start(problem, dim=dim, scale=scale, seed=seed + 1 + i)
        )
        for i in range(draws)
    ]
    rows = []
    for order in orders:
        moments = tutelage_papers.power_law.overlap_moments(curve, order)
        R = moments.R[still].mean(axis=0)
        Q = moments.Q[still]
        forms = [_forms(*plateau, order) for plateau in others]
        good, bad, each = _forms(*_plateau(problem, start), order)[:3]
        rows.append(
            {
                "R": (("time", "student", "teacher"), moments.R),
                "Q": (("time", "student", "student_2"), moments.Q),
                "R_rest": ("teacher", R),
                "Q_rest": float(Q.mean()),
                "Q_spread": float(np.ptp(Q)),
                "R_each": ("teacher", each),
                "Q_good": good[1],
                "Q_bad": bad[1],
                "R_good": good[0],
                "R_bad": bad[0],
                "gap_good": ("draw", [f[0][1] / f[3] - 1 for f in forms]),
                "gap_bad": ("draw", [f[1][1] / f[3] - 1 for f in forms]),
            }
        )
    order = xr.DataArray(orders, dims="order", name="order")
    return (
        xr.concat([xr.Dataset(row) for row in rows], dim=order)
        .assign_coords(time=times)
        .assign(rest=times[still])
    )


def _plateau(problem: Any, start: Any) -> tuple[Any, Any]:
    """In closed form, and exact."""
    return tutelage_papers.power_law.plateau_formulas(
        problem, start
    ), tutelage_papers.power_law.symmetric_plateau(problem, start)


def _forms(
    closed: Any, exact: Any, order: int
) -> tuple[tuple[float, float], tuple[float, float], np.ndarray, float]:
    """(R, Q) of eq. 98 corrected and as printed, R with each teacher, and the exact Q, of one order."""
    T = tutelage_papers.power_law.overlap_moments(exact.start, order, exact.problem).T
    rows = T.sum() / closed.moments[0].sum()
    own = np.trace(T) / np.trace(closed.moments[0])
    good = (closed.R * rows, closed.Q * rows)
    bad = (closed.R * own, closed.Q * own)
    return good, bad, closed.heights(T)[0], exact.heights(order)[1]


def claims_18(data: "Dataset") -> list[Claim]:
    """The corrected ratio (T + D)/(T1 + D1) is inside the spread, the printed T/T1 is not."""
    return [
        claim
        for order in data["order"].values
        for claim in _claims_of(data.sel(order=order), f"({order})")
    ]


def _claims_of(row: "Dataset", order: str) -> list[Claim]:
    R = row["R_rest"].values
    spread = float(row["Q_spread"] / row["Q_rest"])
    good, bad = (
        float(np.sqrt(np.mean(row[name] ** 2))) for name in ("gap_good", "gap_bad")
    )
    away = (
        abs(float(row["R_good"]) - R.mean()),
        abs(float(row["Q_good"] - row["Q_rest"])),
    )
    over = "root mean square gap over teachers / spread of its entries"
    seen = f"the exact plateaus of {row.sizes['draw']} teachers are {100 * bad:.2g}% off it, {100 * good:.2g}% off (T + D)"
    return [
        at_most(
            f"R^{order}, eq. 98 corrected: distance from the mean height / spread of heights",
            away[0] / R.std(),
            1.0,
        ),
        at_most(
            f"R^{order} with each teacher, eq. 96 corrected: largest gap",
            largest_gap(R, row["R_each"]),
            0.01,
        ),
        at_most(
            f"Q^{order}, eq. 98 corrected: distance / spread of its entries",
            away[1] / float(row["Q_spread"]),
            1.0,
        ),
        at_most(f"Q^{order}, eq. 98 corrected: {over}", good / spread, 1.0),
        refuted(
            at_most(f"Q^{order}, eq. 98 as printed: {over}", bad / spread, 1.0),
            evidence=seen,
        ),
    ]


def draw_18(data: "Dataset") -> "Figure":
    """R and Q of each order, with the plateau enlarged."""
    orders = data["order"].values
    t = data["time"].values
    M = data.sizes["teacher"]
    small = SETTING + "; dashed: corrected eqs. 96 and 98, dotted: eq. 98 as printed"
    figure, axes = panel_grid(
        len(orders),
        2,
        "Moments of higher order through the plateau",
        small,
        height=2.8,
        width=9.5,
    )
    window = (t > 0.4 * float(data["rest"])) & (t < 1.6 * float(data["rest"]))
    for i, order in enumerate(orders):
        row = data.sel(order=order)
        insets = [inset_axes(axis, [0.12, 0.6, 0.3, 0.36]) for axis in axes[i]]
        for n in range(M):
            look = {"color": COLORS[n % 7], "linewidth": 0.9}
            axes[i, 0].plot(t, row["R"].values[:, :, n], **look)
            insets[0].plot(t[window], row["R"].values[window][:, :, n], **look)
            insets[0].axhline(
                float(row["R_each"][n]),
                color=COLORS[n % 7],
                linestyle=DASHES[1],
                linewidth=1.0,
            )
        axes[i, 1].plot(
            t, row["Q"].values.reshape(t.size, -1), color=FAINT, linewidth=0.8
        )
        insets[1].plot(
            t[window],
            row["Q"].values[window].reshape(window.sum(), -1),
            color=FAINT,
            linewidth=0.6,
        )
        insets[1].axhline(
            float(row["Q_good"]), color=INK, linestyle=DASHES[1], linewidth=1.2
        )
        insets[1].axhline(
            float(row["Q_bad"]), color=COLORS[1], linestyle=DASHES[2], linewidth=1.4
        )
        insets[0].axhline(
            float(row["R_bad"]), color=FAINT, linestyle=DASHES[2], linewidth=1.4
        )
        insets[0].set_ylim(*around(row["R_each"].values, 0.4))
        insets[1].set_ylim(
            *around(np.array([float(row["Q_good"]), float(row["Q_bad"])]), 1.0)
        )
        axes[i, 0].set(xlabel=TIME, ylabel=rf"$R^{{({order})}}_{{in}}$")
        axes[i, 1].set(xlabel=TIME, ylabel=rf"$Q^{{({order})}}_{{ij}}$")
    color_legend(
        figure, r"color of $R_{in}$: teacher $n$", [f"$n = {n + 1}$" for n in range(M)]
    )
    return figure


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
