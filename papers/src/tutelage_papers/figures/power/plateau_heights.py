"""Figures 4 and 17 of the power-law paper: heights of the symmetric plateau.

And how it is left. Random teachers on few levels are not alike, so the plateau has M
heights of R and one of Q. The paper's beta is not printed; 0.25 gives the numbers of its
insets. Terms of order eta only.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
from tutelage_papers.drawing import GUIDE, color_legend
from tutelage_papers.figures.power.committees import (
    ESCAPED,
    SETTING,
    growth_rate,
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

# Distances of the units between which their parting is exponential.
LINEAR = (1e-3, 2e-2)


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
    """Return the solved curve, its plateau, its growth, and the closed forms.

    begin: alpha_0 of the length.
    """
    import xarray as xr

    times = tu.linear_times(end, 701)
    inputs = split_power_law(beta, levels, levels)
    problem, start, curve = solved_committee(units, inputs, dim, scale, lr, times, seed)
    closed = tutelage_papers.power_law.plateau_formulas(problem, start)
    exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
    still = resting_index(curve.error, times, unit_spread(curve.R), begin / 3, ESCAPED)
    data = xr.Dataset(coords={"time": times})
    data["R"] = (("time", "student", "teacher"), curve.R)
    data["Q"] = (("time", "student", "student_2"), curve.Q)
    data["error"] = ("time", curve.error)
    data["R_rest"] = ("teacher", curve.R[still].mean(axis=0))
    data["Q_rest"] = float(curve.Q[still].mean())
    data["Q_spread"] = float(np.ptp(curve.Q[still]))
    data["error_rest"] = float(curve.error[still])
    data["R_exact"] = ("teacher", exact.R)
    data["rates"] = ("mode", exact.rates)
    data = data.assign(_closed_forms(closed, units))
    data = data.assign(_escape(curve, times, exact.error, begin))
    data["begin"] = begin
    data["dim"] = dim
    return data


def _closed_forms(closed: Any, units: int) -> dict[str, Any]:
    """Heights, error and rates of the plateau by the formulas of the paper."""
    diagonal = np.diag(closed.moments[0])
    T = float(np.mean(diagonal))
    D = float(np.mean(closed.moments[0].sum(1) - diagonal))
    return {
        "R_each": ("teacher", closed.R_each),
        "Q_each": closed.Q_each,
        "R_one": closed.R,
        "Q_one": closed.Q,
        # Eq. 97 with D in every entry of the row (C.2).
        "Q_entries": 1 / (units * (1 + T) / (T + (units - 1) * D) - 1),
        "error_closed": closed.error,
        "error_printed": _printed_error(T, D, closed.Q, closed.R, units),
        "tau": closed.time_constant,
        "rate_114": 1 / (closed.time_constant * _contrast(closed.moments[1])),
    }


def _escape(
    curve: "tu.Trajectory", times: np.ndarray, error: float, begin: float
) -> dict[str, float]:
    """Rates at which overlaps and loss leave the plateau, and its length.

    error: of the exact plateau.
    """
    size = unit_spread(curve.R)
    growing = (size > LINEAR[0]) & (size < LINEAR[1]) & (times > begin)
    loss = error - np.asarray(curve.error)
    first = int(np.searchsorted(times, begin))
    height = float(curve.R[first].mean())
    reached = int(np.argmax(curve.R.max(axis=(1, 2)) > np.e * height))
    return {
        "tau_fitted": 1 / growth_rate(times, size, growing),
        "rate_loss": growth_rate(times, loss, growing),
        "sigma": float(size[first]),
        "deviation": (np.e - 1) * height,
        "length": float(times[reached] - begin),
    }


def _contrast(T: np.ndarray) -> float:
    """lambda_r of eq. 113: the mean diagonal entry less the mean of the others."""
    M = len(T)
    return float(np.trace(T) / M - (T.sum() - np.trace(T)) / (M * (M - 1)))


def _printed_error(T: float, D: float, Q: float, R: float, M: int) -> float:
    """Eq. 99 as printed.

    Its second term is asin(D / (1 + T)), as if each other teacher overlapped by the whole
    row sum.
    """
    teachers = np.arcsin(T / (1 + T)) + (M - 1) * np.arcsin(D / (1 + T))
    students = M * np.arcsin(Q / (1 + Q))
    mixed = 2 * M * np.arcsin(R / np.sqrt((1 + Q) * (1 + T)))
    return float((students + teachers - mixed) / np.pi)


def claims_4(data: "Dataset") -> Iterator[Claim]:
    """Compare M heights, one time constant and one length with appendix C.4."""
    yield from _height_claims(data)
    yield from _error_claims(data)
    yield from _time_constant_claims(data)
    yield from _length_claims(data)


def _height_claims(data: "Dataset") -> Iterator[Claim]:
    """Heights of R and Q against eq. 95 (one for each teacher) and eq. 97 (one)."""
    R = data["R_rest"].values
    Q = data["Q_rest"]
    words = "R with each teacher against eq. 95: largest relative gap"
    yield at_most(words, largest_gap(R, data["R_each"]), 0.01)
    words = "Q against eq. 95: relative gap"
    yield at_most(words, largest_gap(Q, data["Q_each"]), 0.001)
    words = "spread of the entries of Q over that of the heights of R"
    yield at_most(words, data["Q_spread"] / np.ptp(R), 0.1)
    words = "R against the one height of eq. 97: largest relative gap"
    yield refuted(
        at_most(words, largest_gap(R, data["R_one"]), 0.01),
        evidence=f"the M = {R.size} heights of the solved curve equal those of eq. 95 "
        "and of the exact common student",
    )
    words = "Q against eq. 97, D the sum of a row: relative gap"
    yield at_most(words, largest_gap(Q, data["Q_one"]), 0.001)
    words = "the same with D in every entry of the row (C.2)"
    yield refuted(
        at_most(words, largest_gap(Q, data["Q_entries"]), 0.001),
        evidence="T_nm = D/(M-1), as in section 5, has D for the sum of a row; "
        "T_nm = D, as in C.2, has M-1 times that",
    )


def _error_claims(data: "Dataset") -> Iterator[Claim]:
    """The error on the plateau against eq. 99."""
    error = data["error_rest"]
    words = "e_g on the plateau, against eq. 99 corrected"
    yield close(words, error, data["error_closed"], rel=0.01)
    words = "e_g on the plateau, against eq. 99 as printed"
    yield refuted(
        close(words, error, data["error_printed"], rel=0.01),
        evidence="eq. 94 with the overlaps of eq. 97 gives asin(D/((M-1)(1+T))), and so "
        "does the curve",
    )


def _time_constant_claims(data: "Dataset") -> Iterator[Claim]:
    """Rates of overlaps and loss against eqs. 15, 114 and 115."""
    tau = float(data["tau"])
    fitted = float(data["tau_fitted"])
    # The last mode is that of the common student.
    rates = data["rates"].values[:-1]
    words = "time constant of the overlaps, fitted, against eq. 15"
    yield close(words, fitted, tau, rel=0.05)
    words = "eq. 15 against the mean of the growing rates of the exact plateau"
    yield close(words, 1 / tau, rates.mean(), rel=0.01)
    as_found = close(
        "time constant of the overlaps, against 239 (C.4)",
        fitted,
        239.0,
        rel=0.05,
        says="we find tau_esc = 239",
    )
    yield refuted(
        as_found,
        evidence=f"eq. 15 gives {tau:.0f}, the exact modes {1 / rates[0]:.0f} to "
        f"{1 / rates[-1]:.0f}; 239 is half of it",
    )
    words = "growth rate, against eta g_r of eq. 114 as printed"
    yield refuted(
        close(words, 1 / fitted, data["rate_114"], rel=0.05),
        evidence="with the missing lambda_r = T(2) - D(2)/(M-1) it is the rate of "
        "eq. 15, which holds",
    )
    loss = data["rate_loss"] * fitted
    words = "rate of the loss / rate of the overlaps, eq. 115 corrected"
    yield close(words, loss, 2.0, rel=0.05)
    words = "rate of the loss / rate of the overlaps, eq. 115 as printed"
    yield refuted(
        close(words, loss, 1.0, rel=0.05),
        evidence="the loss is of second order in what parts the units: two rates fitted "
        "to the same curve",
    )


def _length_claims(data: "Dataset") -> Iterator[Claim]:
    """The length of the plateau against eqs. 12 and 117."""
    tau = data["tau"]
    logarithm = np.log(data["deviation"] / data["sigma"])
    words = "length of the plateau, against tau ln(B / sigma_P)"
    yield close(words, data["length"], tau * logarithm, rel=0.1)
    extra = 0.5 * np.log(data["dim"])
    words = "length, with the further (1/2) ln N of eqs. 12 and 117"
    yield refuted(
        close(words, data["length"], tau * (logarithm + extra), rel=0.1),
        evidence="sigma_P already holds the N^(-1/2) of the start; half of the tau "
        "hides it in C.4",
    )


def draw_4(data: "Dataset") -> "Figure":
    """Draw R, Q and e_g against time, with the plateau enlarged."""
    M = data.sizes["teacher"]
    title = f"The symmetric plateau of {M} units has {M} heights of R"
    figure, axes = panel_grid(1, 3, title, SETTING, height=3.2, width=10.5)
    teacher_overlaps, student_overlaps, error = axes[0]
    _draw_R(teacher_overlaps, data)
    _draw_Q(student_overlaps, data)
    _draw_error(error, data)
    teachers = [f"$n = {n + 1}$" for n in range(M)]
    color_legend(figure, r"color of $R_{in}$: teacher $n$", teachers)
    return figure


def _on_plateau(data: "Dataset") -> np.ndarray:
    """Times that the insets enlarge."""
    begin = float(data["begin"])
    t = data["time"].values
    return (t > begin / 2) & (t < begin + float(data["length"]) / 3)


def _draw_R(panel: Any, data: "Dataset") -> None:
    """Overlaps with the teachers; in the inset the heights of eqs. 95 and 97."""
    t = data["time"].values
    window = _on_plateau(data)
    inset = inset_axes(panel, [0.14, 0.6, 0.38, 0.36])
    for n in range(data.sizes["teacher"]):
        color = COLORS[n % 7]
        R = data["R"].values[:, :, n]
        height = float(data["R_each"][n])
        panel.plot(t, R, color=color, linewidth=0.9)
        inset.plot(t[window], R[window], color=color, linewidth=0.8)
        inset.axhline(height, color=color, linestyle=DASHES[1], linewidth=1.0)
    inset.axhline(float(data["R_one"]), **GUIDE, linewidth=1.4)
    inset.set_ylim(*limits_around(data["R_each"].values, 0.4))
    panel.set(xlabel=TIME, ylabel=r"$R^{(1)}_{in}$")
    label_panel(panel, "dashed: eq. 95; dotted: eq. 97, one height")


def _draw_Q(panel: Any, data: "Dataset") -> None:
    """Overlaps between the students; in the inset the height of eq. 95."""
    t = data["time"].values
    window = _on_plateau(data)
    Q = data["Q"].values.reshape(t.size, -1)
    inset = inset_axes(panel, [0.14, 0.6, 0.38, 0.36])
    panel.plot(t, Q, color=FAINT, linewidth=0.8)
    inset.plot(t[window], Q[window], color=FAINT, linewidth=0.6)
    height = float(data["Q_each"])
    inset.axhline(height, color=INK, linestyle=DASHES[1], linewidth=1.2)
    first_half = Q[window][: window.sum() // 2]
    inset.set_ylim(*limits_around(first_half, 0.2))
    panel.set(xlabel=TIME, ylabel=r"$Q^{(1)}_{ij}$")
    label_panel(panel, "dashed: eq. 95")


def _draw_error(panel: Any, data: "Dataset") -> None:
    """The error with its height and with the beginning and end of the plateau."""
    begin = float(data["begin"])
    end = begin + float(data["length"])
    predicted = begin + float(data["tau"] * np.log(data["deviation"] / data["sigma"]))
    height = float(data["error_closed"])
    solid = GUIDE | {"linestyle": DASHES[0]}
    closed = {"color": INK, "linestyle": DASHES[1]}
    law = {"color": COLORS[1], "linestyle": DASHES[1]}
    panel.plot(data["time"], data["error"], color=COLORS[0])
    panel.axhline(height, label="eq. 99, corrected", **closed)
    panel.axvline(begin, linewidth=1.0, label=r"$\alpha_0$", **solid)
    panel.axvline(end, linewidth=1.0, label=r"$\alpha_P$, solved", **GUIDE)
    panel.axvline(predicted, label=r"$\alpha_0+\tau\,\ln(B/\sigma_P)$", **law)
    panel.set(xlabel=TIME, ylabel=ERROR, ylim=(0, 1.4 * height))
    panel.legend(
        loc="lower right",
        bbox_to_anchor=(1.02, 1.0),
        ncols=2,
        fontsize=7,
        handlelength=2.4,
    )


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
    """Return curves for several L.

    With the error of eq. 95's overlaps, of eq. 99 and of the exact plateau.
    """
    import xarray as xr

    times = tu.linear_times(end, 701)
    rows = []
    for L in levels:
        inputs = split_power_law(beta, L, total)
        problem, start, curve = solved_committee(
            units, inputs, dim, scale, lr, times, seed
        )
        closed = tutelage_papers.power_law.plateau_formulas(problem, start)
        exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
        R = np.tile(closed.R_each, (units, 1))
        Q = np.full((units, units), closed.Q_each)
        each = tu.generalization_error(problem, R, Q, closed.moments[0])
        still = resting_index(curve.error, times, unit_spread(curve.R), 50.0, ESCAPED)
        row = xr.Dataset({"error": ("time", curve.error)})
        row["rest"] = float(curve.error[still])
        row["each"] = float(each)
        row["one"] = closed.error
        row["exact"] = exact.error
        rows.append(row)
    cases = xr.DataArray(levels, dims="levels", name="levels")
    return xr.concat(rows, dim=cases).assign_coords(time=times)


def claims_17(data: "Dataset") -> Iterator[Claim]:
    """Compare the plateau of each L with eq. 95 and with the exact common student."""
    for L in data["levels"].values:
        row = data.sel(levels=L)
        words = f"L = {L}: e_g on the plateau, against the overlaps of eq. 95"
        yield close(words, row["rest"], row["each"], rel=0.01)
    words = "largest relative gap to the exact plateau of the drawn teachers"
    yield at_most(words, largest_gap(data["rest"], data["exact"]), 1e-3)


def draw_17(data: "Dataset") -> "Figure":
    """Draw the plateaus, enlarged."""
    title = "Plateaus of the error for several numbers of levels"
    figure, axes = panel_grid(1, 1, title, SETTING, height=3.4, width=7.5)
    panel = axes[0, 0]
    for look, L in enumerate(data["levels"].values):
        row = data.sel(levels=L)
        color = COLORS[look]
        panel.plot(data["time"], row["error"], color=color, label=f"$L={L}$")
        height = float(row["each"])
        panel.axhline(height, color=color, linestyle=DASHES[1], linewidth=1.0)
    low = float(data["each"].min())
    high = float(data["each"].max())
    room = max(high - low, 0.01 * high)
    panel.set(xlabel=TIME, ylabel=ERROR, ylim=(low - room, high + room))
    label_panel(panel, "dashed: the overlaps of eq. 95")
    outside_legend(panel)
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
