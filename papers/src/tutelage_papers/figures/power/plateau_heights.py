"""Figures 4 and 17 of the power-law paper: the heights of the symmetric plateau, and how it is left.

Random teachers on few levels are not alike, so the plateau has M heights of R and one of Q. The paper's beta is not printed;
0.25 gives the numbers of its insets. Terms of order eta only.
"""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    INK,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close, refuted
from tutelage_papers.drawing import color_legend
from tutelage_papers.figures.power.committees import (
    ESCAPED,
    SETTING,
    around,
    growth_rate,
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

LINEAR = (
    1e-3,
    2e-2,
)  # distance of the units between which their parting is exponential


def compute_4(
    units: int,
    levels: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    end: float,
    begin: float,
    seed: int,
) -> "Dataset":
    """The solved curve, its heights on the plateau, its growth, the closed forms. begin: alpha_0 of the length."""
    import xarray as xr

    times = tu.linear_times(end, 701)
    problem, start, curve = solved_committee(
        units, split_power_law(beta, levels, levels), dim, scale, lr, times, seed
    )
    closed = tutelage_papers.power_law.plateau_formulas(problem, start)
    exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
    size = unit_spread(curve.R)
    still = resting_index(curve.error, times, size, begin / 3, ESCAPED)
    growing = (size > LINEAR[0]) & (size < LINEAR[1]) & (times > begin)
    first = int(np.searchsorted(times, begin))
    height = float(curve.R[first].mean())
    reached = int(np.argmax(curve.R.max(axis=(1, 2)) > np.e * height))
    T, D = (
        float(np.mean(x))
        for x in (
            np.diag(closed.moments[0]),
            closed.moments[0].sum(1) - np.diag(closed.moments[0]),
        )
    )
    return xr.Dataset(
        {
            "R": (("time", "student", "teacher"), curve.R),
            "Q": (("time", "student", "student_2"), curve.Q),
            "error": ("time", curve.error),
            "R_rest": ("teacher", curve.R[still].mean(axis=0)),
            "Q_rest": float(curve.Q[still].mean()),
            "Q_spread": float(np.ptp(curve.Q[still])),
            "R_each": ("teacher", closed.R_each),
            "Q_each": closed.Q_each,
            "R_one": closed.R,
            "Q_one": closed.Q,
            "Q_entries": 1 / (units * (1 + T) / (T + (units - 1) * D) - 1),
            "R_exact": ("teacher", exact.R),
            "error_rest": float(curve.error[still]),
            "error_closed": closed.error,
            "error_printed": _printed_error(T, D, closed.Q, closed.R, units),
            "rates": ("mode", exact.rates),
            "tau": closed.time_constant,
            "rate_114": 1 / (closed.time_constant * _contrast(closed.moments[1])),
            "tau_fitted": 1 / growth_rate(times, size, growing),
            "rate_loss": growth_rate(
                times, exact.error - np.asarray(curve.error), growing
            ),
            "sigma": float(size[first]),
            "deviation": (np.e - 1) * height,
            "begin": begin,
            "length": float(times[reached] - begin),
            "dim": dim,
        },
        coords={"time": times},
    )


def _contrast(T: np.ndarray) -> float:
    """lambda_r of eq. 113: the mean diagonal entry less the mean of the others."""
    M = len(T)
    return float(np.trace(T) / M - (T.sum() - np.trace(T)) / (M * (M - 1)))


def _printed_error(T: float, D: float, Q: float, R: float, M: int) -> float:
    """Eq. 99 as printed: its second term is asin(D / (1 + T)), as if each other teacher overlapped by the whole row sum."""
    pairs = np.arcsin(T / (1 + T)) + (M - 1) * np.arcsin(D / (1 + T))
    return float(
        (
            M * np.arcsin(Q / (1 + Q))
            + pairs
            - 2 * M * np.arcsin(R / np.sqrt((1 + Q) * (1 + T)))
        )
        / np.pi
    )


def claims_4(data: "Dataset") -> list[Claim]:
    """M heights, one time constant, one length; what C.4 says of them."""
    R = data["R_rest"].values
    tau = float(data["tau"])
    fitted = float(data["tau_fitted"])
    rates = data["rates"].values[:-1]
    e = float(data["error_rest"])
    loss = float(data["rate_loss"]) * fitted
    log = float(np.log(data["deviation"] / data["sigma"]))
    length = float(data["length"])
    extra = 0.5 * float(np.log(data["dim"]))
    one = f"the M = {R.size} heights of the solved curve equal those of eq. 95 and of the exact common student"
    return [
        at_most(
            "R with each teacher against eq. 95: largest relative gap",
            largest_gap(R, data["R_each"]),
            0.01,
        ),
        at_most(
            "Q against eq. 95: relative gap",
            largest_gap(data["Q_rest"], data["Q_each"]),
            0.001,
        ),
        at_most(
            "spread of the entries of Q over that of the heights of R",
            float(data["Q_spread"]) / np.ptp(R),
            0.1,
        ),
        refuted(
            at_most(
                "R against the one height of eq. 97: largest relative gap",
                largest_gap(R, data["R_one"]),
                0.01,
            ),
            evidence=one,
        ),
        at_most(
            "Q against eq. 97, D the sum of a row: relative gap",
            largest_gap(data["Q_rest"], data["Q_one"]),
            0.001,
        ),
        refuted(
            at_most(
                "the same with D in every entry of the row (C.2)",
                largest_gap(data["Q_rest"], data["Q_entries"]),
                0.001,
            ),
            evidence="T_nm = D/(M-1), as in section 5, has D for the sum of a row; T_nm = D, as in C.2, has M-1 times that",
        ),
        close(
            "e_g on the plateau, against eq. 99 corrected",
            e,
            float(data["error_closed"]),
            rel=0.01,
        ),
        refuted(
            close(
                "e_g on the plateau, against eq. 99 as printed",
                e,
                float(data["error_printed"]),
                rel=0.01,
            ),
            evidence="eq. 94 with the overlaps of eq. 97 gives asin(D/((M-1)(1+T))), and so does the curve",
        ),
        close(
            "time constant of the overlaps, fitted, against eq. 15",
            fitted,
            tau,
            rel=0.05,
        ),
        close(
            "eq. 15 against the mean of the growing rates of the exact plateau",
            1 / tau,
            rates.mean(),
            rel=0.01,
        ),
        refuted(
            close(
                "time constant of the overlaps, against 239 (C.4)",
                fitted,
                239.0,
                rel=0.05,
                says="we find tau_esc = 239",
            ),
            evidence=f"eq. 15 gives {tau:.0f}, the exact modes {1 / rates[0]:.0f} to {1 / rates[-1]:.0f}; 239 is half of it",
        ),
        refuted(
            close(
                "growth rate, against eta g_r of eq. 114 as printed",
                1 / fitted,
                float(data["rate_114"]),
                rel=0.05,
            ),
            evidence="with the missing lambda_r = T(2) - D(2)/(M-1) it is the rate of eq. 15, which holds",
        ),
        close(
            "rate of the loss / rate of the overlaps, eq. 115 corrected",
            loss,
            2.0,
            rel=0.05,
        ),
        refuted(
            close(
                "rate of the loss / rate of the overlaps, eq. 115 as printed",
                loss,
                1.0,
                rel=0.05,
            ),
            evidence="the loss is of second order in what parts the units: two rates fitted to the same curve",
        ),
        close(
            "length of the plateau, against tau ln(B / sigma_P)",
            length,
            tau * log,
            rel=0.1,
        ),
        refuted(
            close(
                "length, with the further (1/2) ln N of eqs. 12 and 117",
                length,
                tau * (log + extra),
                rel=0.1,
            ),
            evidence="sigma_P already holds the N^(-1/2) of the start; half of the tau hides it in C.4",
        ),
    ]


def draw_4(data: "Dataset") -> "Figure":
    """R, Q and e_g against time, with the plateau enlarged."""
    t = data["time"].values
    begin = float(data["begin"])
    M = data.sizes["teacher"]
    figure, axes = panel_grid(
        1,
        3,
        f"The symmetric plateau of {M} units has {M} heights of R",
        SETTING,
        height=3.2,
        width=10.5,
    )
    window = (t > begin / 2) & (t < begin + float(data["length"]) / 3)
    for n in range(M):
        axes[0, 0].plot(
            t, data["R"].values[:, :, n], color=COLORS[n % 7], linewidth=0.9
        )
    axes[0, 1].plot(t, data["Q"].values.reshape(t.size, -1), color=FAINT, linewidth=0.8)
    axes[0, 2].plot(t, data["error"], color=COLORS[0])
    inset = inset_axes(axes[0, 0], [0.14, 0.6, 0.38, 0.36])
    for n in range(M):
        inset.plot(
            t[window],
            data["R"].values[window][:, :, n],
            color=COLORS[n % 7],
            linewidth=0.8,
        )
        inset.axhline(
            float(data["R_each"][n]),
            color=COLORS[n % 7],
            linestyle=DASHES[1],
            linewidth=1.0,
        )
    inset.axhline(float(data["R_one"]), color=FAINT, linestyle=DASHES[2], linewidth=1.4)
    inset.set_ylim(*around(data["R_each"].values, 0.4))
    inset = inset_axes(axes[0, 1], [0.14, 0.6, 0.38, 0.36])
    inset.plot(
        t[window],
        data["Q"].values[window].reshape(window.sum(), -1),
        color=FAINT,
        linewidth=0.6,
    )
    inset.axhline(float(data["Q_each"]), color=INK, linestyle=DASHES[1], linewidth=1.2)
    inset.set_ylim(*around(data["Q"].values[window][: window.sum() // 2], 0.2))
    axes[0, 2].axhline(
        float(data["error_closed"]),
        color=INK,
        linestyle=DASHES[1],
        label="eq. 99, corrected",
    )
    for x, label in (
        (begin, r"$\alpha_0$"),
        (begin + float(data["length"]), r"$\alpha_P$, solved"),
    ):
        axes[0, 2].axvline(
            x,
            color=FAINT,
            linewidth=1.0,
            linestyle=DASHES[0] if x == begin else DASHES[2],
            label=label,
        )
    predicted = begin + float(data["tau"] * np.log(data["deviation"] / data["sigma"]))
    axes[0, 2].axvline(
        predicted,
        color=COLORS[1],
        linestyle=DASHES[1],
        label=r"$\alpha_0+\tau\,\ln(B/\sigma_P)$",
    )
    axes[0, 2].set_ylim(0, 1.4 * float(data["error_closed"]))
    for axis, name in zip(
        axes[0], (r"$R^{(1)}_{in}$", r"$Q^{(1)}_{ij}$", ERROR), strict=True
    ):
        axis.set(xlabel=TIME, ylabel=name)
    label_panel(axes[0, 0], "dashed: eq. 95; dotted: eq. 97, one height")
    label_panel(axes[0, 1], "dashed: eq. 95")
    axes[0, 2].legend(
        loc="lower right",
        bbox_to_anchor=(1.02, 1.0),
        ncols=2,
        fontsize=7,
        handlelength=2.4,
    )
    color_legend(
        figure, r"color of $R_{in}$: teacher $n$", [f"$n = {n + 1}$" for n in range(M)]
    )
    return figure


def compute_17(
    units: int,
    levels: list[int],
    total: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    end: float,
    seed: int,
) -> "Dataset":
    """Curves for several L, with the error of eq. 95's overlaps, of eq. 99 and of the exact plateau."""
    import xarray as xr

    times = tu.linear_times(end, 701)
    rows = []
    for L in levels:
        problem, start, curve = solved_committee(
            units, split_power_law(beta, L, total), dim, scale, lr, times, seed
        )
        closed = tutelage_papers.power_law.plateau_formulas(problem, start)
        exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
        R = np.tile(closed.R_each, (units, 1))
        Q = np.full((units, units), closed.Q_each)
        still = resting_index(curve.error, times, unit_spread(curve.R), 50.0, ESCAPED)
        rows.append(
            {
                "error": ("time", curve.error),
                "rest": float(curve.error[still]),
                "each": float(
                    tu.generalization_error(problem, R, Q, closed.moments[0])
                ),
                "one": closed.error,
                "exact": exact.error,
            }
        )
    cases = xr.DataArray(levels, dims="levels", name="levels")
    return xr.concat([xr.Dataset(row) for row in rows], dim=cases).assign_coords(
        time=times
    )


def claims_17(data: "Dataset") -> list[Claim]:
    """The plateau of each L against eq. 95, and against the exact common student."""
    rows = {int(L): data.sel(levels=L) for L in data["levels"].values}
    name = "e_g on the plateau, against the overlaps of eq. 95"
    out = [
        close(f"L = {L}: {name}", float(row["rest"]), float(row["each"]), rel=0.01)
        for L, row in rows.items()
    ]
    worst = float(np.max(np.abs(data["rest"] / data["exact"] - 1)))
    return [
        *out,
        at_most(
            "largest relative gap to the exact plateau of the drawn teachers",
            worst,
            1e-3,
        ),
    ]


def draw_17(data: "Dataset") -> "Figure":
    """The plateaus, enlarged."""
    figure, axes = panel_grid(
        1,
        1,
        "Plateaus of the error for several numbers of levels",
        SETTING,
        height=3.4,
        width=7.5,
    )
    axis = axes[0, 0]
    t = data["time"].values
    for i, L in enumerate(data["levels"].values):
        row = data.sel(levels=L)
        axis.plot(t, row["error"], color=COLORS[i], label=f"$L={L}$")
        axis.axhline(
            float(row["each"]), color=COLORS[i], linestyle=DASHES[1], linewidth=1.0
        )
    low = float(data["each"].min())
    high = float(data["each"].max())
    room = max(high - low, 0.01 * high)
    axis.set(xlabel=TIME, ylabel=ERROR, ylim=(low - room, high + room))
    label_panel(axis, "dashed: the overlaps of eq. 95")
    outside_legend(axis)
    return figure


PRINTED = {"units": 4, "beta": 0.25, "dim": 7000, "scale": 0.01, "lr": 0.1, "seed": 0}
FOUR = PRINTED | {"levels": 10, "end": 7000.0, "begin": 300.0}
SEVENTEEN = PRINTED | {"levels": [2, 8, 10, 12], "total": 12, "end": 1750.0}

FIGURES = (
    Replica(
        id="power-4",
        source="power",
        figure="Fig. 4",
        title="heights of the symmetric plateau, time constant and length of the escape",
        full=FOUR,
        quick=FOUR | {"end": 6000.0},
        compute=compute_4,
        draw=draw_4,
        claims=claims_4,
    ),
    Replica(
        id="power-17",
        source="power",
        figure="Fig. 17",
        title="plateaus of the error for several numbers of levels",
        full=SEVENTEEN,
        quick=SEVENTEEN | {"levels": [2, 8, 10], "total": 10},
        compute=compute_17,
        draw=draw_17,
        claims=claims_17,
    ),
)
