"""Figures 10 to 12 of the power-law paper: modes of a linear network at any rate.

Decay rates and shares, in float64 against long arithmetic.
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
    MARKERS,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_least, at_most, close, refuted
from tutelage_papers.drawing import legend_below, line_of
from tutelage_papers.figures.power.linear_units import (
    moment_modes,
    problem_of,
    secular_modes,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

MODE = r"mode $k$"
EQUAL = 1e-8
SPREAD = 0.25  # variance of the student's first weights where R and Q are compared
CURVES = ("eigenvalues", "coefficients", "data")
GAPS = ("secular_gap", "moment_gap", "short_gap", "shift_gap")


def modes_of(
    levels: int, beta: float, rate: float
) -> "tutelage_papers.power_law.LinearModes":
    """Return the modes of one linear unit on a power law."""
    problem = problem_of(tu.PowerLaw(beta, levels), rate)
    return tutelage_papers.power_law.linear_network(problem).modes


def compute_modes(
    cases: list[list[float]],
    levels: list[int],
    checked: list[int],
    digits: int,
    moment_digits: int,
    printed: list[float],
) -> "Dataset":
    """Return modes for each case (beta, rate) and number of levels.

    For `checked` levels the largest gaps to long arithmetic.
    """
    import xarray as xr

    shape = (len(cases), len(levels), max(levels))
    curves = {name: np.full(shape, np.nan) for name in CURVES}
    gaps = {name: np.zeros((len(cases), len(checked))) for name in GAPS}
    for i, (beta, rate) in enumerate(cases):
        for j, L in enumerate(levels):
            modes = modes_of(L, beta, rate)
            curves["eigenvalues"][i, j, :L] = modes.eigenvalues
            curves["coefficients"][i, j, :L] = modes.coefficients
            curves["data"][i, j, :L] = modes.levels
        for j, L in enumerate(checked):
            case_gaps = _gaps(L, beta, rate, digits, moment_digits)
            for name, gap in case_gaps.items():
                gaps[name][i, j] = gap
    data = xr.Dataset(attrs={"digits": digits, "moment_digits": moment_digits})
    data = data.assign_coords(
        beta=("case", [beta for beta, _ in cases]),
        rate=("case", [rate for _, rate in cases]),
        levels=levels,
        checked=checked,
        k=np.arange(1, max(levels) + 1),
    )
    for name, values in curves.items():
        data[name] = (("case", "levels", "k"), values)
    for name, values in gaps.items():
        data[name] = (("case", "checked"), values)
    few_levels, beta, rate = printed
    return data.assign(printed_forms(int(few_levels), beta, rate))


def _gaps(
    levels: int, beta: float, rate: float, digits: int, moment_digits: int
) -> dict[str, float]:
    """Largest gaps of float64 modes to long arithmetic, by both of its routes."""
    modes = modes_of(levels, beta, rate)
    roots = modes.eigenvalues
    own = np.array([roots, modes.coefficients])
    secular = secular_modes(levels, beta, rate, digits, roots)
    moments = moment_modes(levels, beta, rate, moment_digits, roots)
    # The moment form loses digits with every level: these are too few.
    short = moment_modes(levels, beta, rate, digits, roots)
    shift = 2 * modes.levels - own[0]
    return {
        "secular_gap": _gap(own, secular),
        "moment_gap": _gap(own, moments),
        "short_gap": _gap(own, short),
        "shift_gap": _gap(shift, 2 * modes.levels - secular[0]),
    }


def _gap(own: np.ndarray, exact: np.ndarray) -> float:
    """Largest relative gap; where all digits are lost, a large number."""
    gap = np.abs(exact / own - 1)
    return float(np.max(np.nan_to_num(gap, nan=1e3, posinf=1e3)))


def printed_forms(levels: int, beta: float, rate: float) -> dict[str, Any]:
    """Return equations 6, 25 and 56 as printed, for a few levels.

    Beside the error that integration of eq. 24 gives.
    """
    lam = np.arange(1.0, levels + 1) ** -(1 + beta)
    lam /= lam.mean()
    times = np.linspace(0.0, 3.0, 61)
    T = np.array([np.mean(lam**j) for j in range(levels + 1)])
    # Matrices 26 and 27: the companion matrix of the data, and the noise of SGD.
    c = np.poly(lam)[::-1][:-1]
    A = np.diag(-np.ones(levels - 1), 1)
    A[-1] = c
    U = np.outer(T[1:], np.eye(levels)[1])

    def sum_of_modes(B: np.ndarray, factor: float, prefactor: float) -> np.ndarray:
        """prefactor sum_k b_k |lambda_k| exp(factor lambda_k alpha)."""
        eigenvalues, eigenvectors = np.linalg.eig(B)
        values = np.real(eigenvalues)
        vectors = np.real(eigenvectors)
        b = np.linalg.solve(vectors / vectors[0], T[:-1])
        decay = np.exp(factor * np.outer(times, values))
        return prefactor * decay @ (b * np.abs(values))

    half = 1 / (2 * levels)
    curves = {
        "printed_time": times,
        "truth": _integrated_error(lam, rate, times),
        "eq_6": sum_of_modes(A + rate * U, -2 * rate, half),
        "eq_6_sign": sum_of_modes(A + rate * U, 2 * rate, half),
        "eq_56_sign": sum_of_modes(2 * A + rate * U, 2 * rate, half),
        "corrected": sum_of_modes(2 * A + rate * U, rate, 1 / (2 * (2 - rate))),
    }
    # R^(j) = (1/L) sum lam^j (1 - exp(-eta lam alpha)), equation 38.
    step = 1e-6
    growth = np.mean(lam ** (levels - 1) * -np.expm1(-rate * lam * step)) / step
    variables = {name: ("printed_time", curve) for name, curve in curves.items()}
    numbers = {"growth_eq_25": float(rate * c @ T[:-1]), "growth": float(growth)}
    return variables | numbers | _overlap_gaps(A, U, T, lam, beta, rate, times)


def _integrated_error(lam: np.ndarray, rate: float, times: np.ndarray) -> np.ndarray:
    """The error by integration of eq. 24, from E = 1 at every level."""
    from scipy.integrate import solve_ivp

    def drift(_: float, E: np.ndarray) -> np.ndarray:
        return -2 * rate * lam * E + rate**2 * lam * np.mean(lam * E)

    solution = solve_ivp(
        drift,
        (0, times[-1]),
        np.ones(lam.size),
        t_eval=times,
        rtol=1e-11,
        atol=1e-14,
    )
    return solution.y.T @ lam / (2 * lam.size)


def _overlap_gaps(
    A: np.ndarray,
    U: np.ndarray,
    T: np.ndarray,
    lam: np.ndarray,
    beta: float,
    rate: float,
    times: np.ndarray,
) -> dict[str, float]:
    """Largest gaps of R and Q in equations 30, 45 and 46 to the closed form."""
    problem = problem_of(tu.PowerLaw(beta, lam.size), rate)
    start = tu.Start(R=[[0.0]], Q=[[SPREAD]], T=[[1.0]])
    network = tutelage_papers.power_law.linear_network(problem, start)
    R, Q = moment_solution(A, U, T, rate, times)
    # Eq. 46, without terms of order eta^2.
    squares = np.exp(-2 * rate * np.outer(times, lam)) @ lam * (1 + SPREAD)
    small_rate = 1 + squares / lam.size
    small_rate -= 2 * np.exp(-rate * np.outer(times, lam)) @ lam / lam.size
    return {
        "moment_gap_R": float(np.max(np.abs(network.R(times) - R))),
        "moment_gap_Q": float(np.max(np.abs(network.Q(times) - Q))),
        "eq_46_gap": float(np.max(np.abs(network.Q(times) - small_rate))),
    }


def moment_solution(
    A: np.ndarray, U: np.ndarray, T: np.ndarray, rate: float, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return R^(1) and Q^(1) of equations 30 and 45.

    By matrix exponentials of the moment form, from R = 0 and Q = SPREAD T.
    """
    from scipy.linalg import expm

    first = T[:-1]
    R = []
    Q = []
    for time in times:
        slow = expm(rate * time * A)
        fast = expm(rate * time * (2 * A + rate * U))
        R.append((first - slow @ first)[1])
        Q.append((first + (1 + SPREAD) * fast @ first - 2 * slow @ first)[1])
    return np.array(R), np.array(Q)


def claims_10(data: "Dataset") -> Iterator[Claim]:
    """Compare float64 with long arithmetic, and printed sums with integration."""
    for i, beta in enumerate(data["beta"].values):
        yield from _arithmetic_claims(data.isel(case=i), f"beta = {beta:g}")
    yield from _printed_claims(data.sel(printed_time=1.0))
    yield from _overlap_claims(data)


def _arithmetic_claims(case: "Dataset", name: str) -> Iterator[Claim]:
    """Float64 against long arithmetic, for one beta."""
    digits = case.attrs["digits"]
    words = f"gap to the symmetric form in {digits} digits, {name}"
    yield at_most(words, case["secular_gap"].max(), EQUAL)
    words = f"gap to the moment form in {case.attrs['moment_digits']} digits, {name}"
    yield at_most(words, case["moment_gap"].max(), EQUAL)
    most = int(case["checked"].max())
    words = f"gap to the moment form in {digits} digits, L = {most}, {name}"
    yield above(words, case["short_gap"][-1], EQUAL)
    total = case["coefficients"].isel(levels=-1).sum()
    words = f"sum of b_k |lambda_B,k| over 2 - eta, {name}"
    yield close(words, total / (2 - case["rate"]), 1.0, rel=EQUAL)


def _printed_claims(data: "Dataset") -> Iterator[Claim]:
    """Printed sums over modes against integration, at alpha = 1."""
    truth = float(data["truth"])
    evidence = (
        f"integration of eq. 24 gives {truth:.6f} at L = 4, beta = 1, eta = 0.5, "
        "alpha = 1; so does the corrected sum"
    )
    printed = {
        "eq_6": "eq. 6 as printed, alpha = 1",
        "eq_6_sign": "eq. 6 with decaying exponentials, alpha = 1",
        "eq_56_sign": "eq. 56 with decaying exponentials, alpha = 1",
    }
    for name, words in printed.items():
        yield refuted(close(words, data[name], truth, rel=0.05), evidence)
    words = "corrected: sum b_k |lambda_B,k| exp(-eta |lambda_B,k| alpha)/(2 (2 - eta))"
    yield close(words, data["corrected"], truth, rel=EQUAL)


def _overlap_claims(data: "Dataset") -> Iterator[Claim]:
    """R and Q of the moment form, and the sign in eq. 25."""
    words = "gap of R in eqs. 30 and 38, by matrix exponentials, to the closed form"
    yield at_most(words, data["moment_gap_R"], EQUAL)
    words = "gap of Q in eq. 45, by matrix exponentials, to the closed form"
    yield at_most(words, data["moment_gap_Q"], EQUAL)
    words = "gap of Q in eq. 46, the small-rate form, at eta = 0.5"
    yield above(words, data["eq_46_gap"], 0.01)
    words = "initial growth of the last R^(L-1) by eq. 25"
    yield refuted(
        close(words, data["growth_eq_25"], data["growth"], rel=0.05),
        evidence="the closed R of eq. 38 grows at +eta T^(L), and matrix 27 has the "
        "right sign; eq. 25 has the opposite one",
    )


def draw_10(data: "Dataset") -> "Figure":
    """Draw shares of the modes for many L, and the printed sums."""
    title = "How much of the error each mode carries at a large learning rate"
    small = (
        r"Left, center: $\eta = 1$, float64. Right: a few levels, where the printed "
        "sums can be evaluated as they stand."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.2)
    for i in range(2):
        case = data.isel(case=i)
        panel = axes[0, i]
        _draw_fan(panel, case, case["coefficients"] * case["levels"])
        panel.set(xlabel=MODE, ylabel=r"$L\, b_k |\lambda_{B,k}|$")
        panel.set(xscale="log", yscale="log")
        label_panel(panel, rf"$\beta = {float(case['beta']):g}$")
        legend_below(panel, columns=3)
    _draw_printed(axes[0, 2], data)
    return figure


def _draw_printed(panel: Any, data: "Dataset") -> None:
    """Printed sums over modes and the integrated error."""
    labels = {
        "truth": "integrated",
        "corrected": "corrected sum",
        "eq_6": "eq. 6",
        "eq_6_sign": "eq. 6, sign mended",
        "eq_56_sign": "eq. 56, sign mended",
    }
    for look, (name, label) in enumerate(labels.items()):
        line = line_of(look, look % 4)
        panel.plot(data["printed_time"], data[name], label=label, **line)
    panel.set(xlabel=TIME, ylabel=ERROR, yscale="log", ylim=(1e-3, 1.0))
    legend_below(panel)
    label_panel(panel, r"$L = 4$, $\beta = 1$, $\eta = 0.5$")


def _draw_fan(panel: Any, case: "Dataset", values: Any) -> None:
    """One line per number of levels, from violet to yellow."""
    from matplotlib import colormaps

    levels = case["levels"].values
    for j, L in enumerate(levels):
        color = colormaps["plasma"](0.9 * j / (levels.size - 1))
        line = values.isel(levels=j, k=slice(0, int(L)))
        marks = {"marker": MARKERS[j % 7], "markersize": 2.2, "linewidth": 1.2}
        panel.plot(line["k"], line, color=color, label=f"L = {L}", **marks)


def compute_11(levels: int, rates: list[float], betas: list[float]) -> "Dataset":
    """Return L times the shares of the modes beside the eigenvalues of the data.

    For every rate and beta.
    """
    import xarray as xr

    modes = [[modes_of(levels, beta, rate) for beta in betas] for rate in rates]
    shares = [[levels * case.weights for case in row] for row in modes]
    coords = {"rate": rates, "beta": betas, "k": np.arange(1, levels + 1)}
    data = xr.Dataset(coords=coords)
    data["shares"] = (("rate", "beta", "k"), shares)
    data["data"] = (("beta", "k"), [case.levels for case in modes[0]])
    return data


def claims_11(data: "Dataset") -> Iterator[Claim]:
    """Compare shares with the power law: largest |ln(L share / lam)| over the modes."""
    logarithm = np.log(data["shares"].values / data["data"].values)
    slow, middle, fast = np.abs(logarithm).max(axis=-1)
    words = "smallest growth of the deviation from eta = 0.1 to 0.5, over beta"
    yield above(words, np.min(middle / slow), 1.0)
    words = "smallest growth of the deviation from eta = 0.5 to 1, over beta"
    yield above(words, np.min(fast / middle), 1.0)
    betas = data["beta"].values
    for beta, ratio in zip(betas, fast / slow, strict=True):
        words = f"deviation at eta = 1 over that at eta = 0.1, beta = {beta:g}"
        yield at_least(words, ratio, 2.0)
    yield above(
        "deviation at eta = 1, smallest over largest beta",
        fast[betas.argmin()] / fast[betas.argmax()],
        1.0,
        says="the smaller β, the larger",
    )


def draw_11(data: "Dataset") -> "Figure":
    """Draw shares against data, one panel for each rate."""
    title = "Shares of the modes leave the power law as the learning rate grows"
    small = (
        r"Lines: $L\, b_k|\lambda_{B,k}|/(2-\eta)$; dashed: eigenvalues of the data, "
        r"its limit as $\eta \to 0$. $L = 40$."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.0, sharey=True)
    for panel, rate in zip(axes[0], data["rate"].values, strict=True):
        for look, beta in enumerate(data["beta"].values):
            case = data.sel(rate=rate, beta=beta)
            color = COLORS[look]
            label = rf"$\beta = {beta:g}$"
            dashed = {"color": color, "linestyle": DASHES[1], "linewidth": 1.0}
            panel.plot(case["k"], case["shares"], color=color, label=label)
            panel.plot(case["k"], case["data"], **dashed)
        panel.set(xlabel=MODE, xscale="log", yscale="log")
        label_panel(panel, rf"$\eta = {rate:g}$")
    axes[0, 0].set_ylabel(r"$L\times$ share, $\lambda_k$")
    outside_legend(axes[0, 2])
    return figure


def claims_12(data: "Dataset") -> Iterator[Claim]:
    """Compare rates with long arithmetic, and see them lie between those of the data."""
    for i in range(data.sizes["case"]):
        case = data.isel(case=i)
        name = f"eps = {float(case['rate']):g}, beta = {float(case['beta']):g}"
        yield from _rate_claims(case, name)


def _rate_claims(case: "Dataset", name: str) -> Iterator[Claim]:
    """The decay rates for one learning rate and beta."""
    words = f"gap to the symmetric form in {case.attrs['digits']} digits, {name}"
    yield at_most(words, case["secular_gap"].max(), EQUAL)
    yield at_most(f"gap of the differences, {name}", case["shift_gap"].max(), EQUAL)
    # 2 lam_(k+1) < |lambda_B,k| < 2 lam_k
    shift = 2 * case["data"] - case["eigenvalues"]
    words = f"smallest difference 2 lam_k - |lambda_B,k|, {name}"
    yield above(words, shift.min(), 0.0)
    above_next = case["eigenvalues"] - 2 * case["data"].shift(k=-1)
    words = f"smallest |lambda_B,k| - 2 lam_(k+1), {name}"
    yield above(words, above_next.isel(k=slice(0, -1)).min(), 0.0)
    trace = case["rate"] * (case["data"].isel(levels=-1) ** 2).mean()
    words = f"sum of the differences over eta (1/L) sum lam^2, {name}"
    yield close(words, shift.isel(levels=-1).sum() / trace, 1.0, rel=EQUAL)


def draw_12(data: "Dataset") -> "Figure":
    """Draw decay rates, and their distance to those of the data."""
    title = "Decay rates of the error at a large learning rate"
    small = (
        r"Above: $|\lambda_{B,k}|$ in units of $\eta$; below: its distance to "
        r"$2\lambda_k$, halved as in the source."
    )
    figure, axes = panel_grid(2, 2, title, small, height=2.6)
    for i in range(2):
        case = data.isel(case=i)
        rates, distances = axes[:, i]
        _draw_fan(rates, case, case["eigenvalues"])
        _draw_fan(distances, case, case["data"] - case["eigenvalues"] / 2)
        rates.set_ylabel(r"$|\lambda_{B,k}|$")
        distances.set_ylabel(r"$\lambda_k - |\lambda_{B,k}|/2$")
        rate = float(case["rate"])
        beta = float(case["beta"])
        label_panel(rates, rf"$\epsilon = {rate:g}$, $\beta = {beta:g}$")
        for panel in (rates, distances):
            panel.set(xlabel=MODE, xscale="log", yscale="log")
    outside_legend(axes[0, 1])
    return figure


TEN = {
    "cases": [[0.1, 1.0], [1.0, 1.0]],
    "levels": [10, 20, 30, 40, 50, 75, 100, 125],
    "printed": [4, 1.0, 0.5],
}
ELEVEN = {"rates": [0.1, 0.5, 1.0], "betas": [1.0, 0.5, 0.1, 0.01]}
TWELVE = {
    "cases": [[0.1, 1.0], [1.0, 0.5]],
    "levels": [10, 15, 20, 25, 50, 75, 100, 125, 150],
    "printed": [4, 1.0, 0.5],
}
FULL = {"checked": [10, 20, 30, 40], "digits": 50, "moment_digits": 400}
QUICK = {"checked": [10, 40], "digits": 50, "moment_digits": 150}

FIGURES = (
    Replica(
        id="power-10",
        source="power",
        figure="Fig. 10",
        title="linear network: shares of the modes at a large learning rate, for many "
        "levels",
        full=TEN | FULL,
        quick=TEN | QUICK,
        compute=compute_modes,
        draw=draw_10,
        claims=claims_10,
    ),
    Replica(
        id="power-11",
        source="power",
        figure="Fig. 11",
        title="linear network: shares of the modes against the spectrum of the data",
        full=ELEVEN | {"levels": 40},
        quick=ELEVEN | {"levels": 40, "betas": [1.0, 0.1]},
        compute=compute_11,
        draw=draw_11,
        claims=claims_11,
    ),
    Replica(
        id="power-12",
        source="power",
        figure="Fig. 12",
        title="linear network: decay rates at a large learning rate, and their distance "
        "to those of the data",
        full=TWELVE | FULL,
        quick=TWELVE | QUICK,
        compute=compute_modes,
        draw=draw_12,
        claims=claims_12,
    ),
)
