"""Figures 5 and 19 of the power-law paper: how fast the plateau is left.

By the number of units and of levels. Eq. 15 needs teachers whose rows of T^(2) are alike.
With as many levels as inputs T^(2) does not concentrate, however large N is: its largest
eigenvalue, and with it the fastest parting of the units, is many times the mean, as the
first level alone, lam_1^2 w*_1 w*_1^T / N, makes it (M-1) lam_1^2 / sum_l lam_l^2 times:
M/L instead of M^2/L. Terms of order eta only.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    MARKERS,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, below, between, close, refuted
from tutelage_papers.figures.power.committees import (
    SETTING,
    growth_rate,
    padded_committee,
    split_power_law,
    unit_spread,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataArray, Dataset

# Distances of the units between which their parting is exponential.
LINEAR = (1e-3, 2e-2)
POINTS = 321


def compute_5(
    units: list[int],
    dim: int,
    ends: list[float],
    levels: list[int],
    few: int,
    few_dim: int,
    few_ends: list[float],
    beta: float,
    lr: float,
    scale: float,
    ratios: list[int],
    draws: int,
    starts: int,
    seed: int,
) -> "Dataset":
    """Return flows by M at L = N = dim, and by L at M = few, N = few_dim.

    With exact and closed rates of `draws` teachers.
    """
    import xarray as xr

    def flows(M: int, L: int, N: int, end: float) -> list[Flow]:
        """The flows of several starts."""
        sizes = (M, L, N, beta, lr, scale, end)
        return [_flow(*sizes, seed + i) for i in range(starts)]

    by_units = []
    exact_units = []
    closed_units = []
    for M, end in zip(units, ends, strict=True):
        by_units.append(flows(M, dim, dim, end))
        exact, closed = _rates(M, dim, dim, beta, lr, draws, seed)
        exact_units.append(exact)
        closed_units.append(closed)
    by_levels = []
    exact_levels = []
    closed_levels = []
    for L, end in zip(levels, few_ends, strict=True):
        by_levels.append(flows(few, L, few_dim, end))
        exact, closed = _rates(few, L, few_dim, beta, lr, draws, seed)
        exact_levels.append(exact)
        closed_levels.append(closed)
    over = []
    smallest = min(levels)
    for ratio in ratios:
        exact, closed = _rates(few, smallest, smallest * ratio, beta, lr, draws, seed)
        over.append(exact / closed)
    data = xr.Dataset(coords={"units": units, "levels": levels, "ratio": ratios})
    data = data.assign(_columns(by_units, "units", ends))
    data = data.assign(_columns(by_levels, "levels", few_ends))
    data["rates_units"] = (("units", "draw"), np.array(exact_units))
    data["closed_units"] = (("units", "draw"), np.array(closed_units))
    data["rates_levels"] = (("levels", "draw"), np.array(exact_levels))
    data["closed_levels"] = (("levels", "draw"), np.array(closed_levels))
    data["over_ratios"] = (("ratio", "draw"), np.array(over))
    # Share of the first level in sum_l lam_l^2.
    data["share"] = 1 / np.sum(np.arange(1.0, dim + 1) ** (-2 - 2 * beta))
    return data


class Flow(NamedTuple):
    """The gradient flow of one start.

    fitted: the rate of parting late in its exponential stage. jacobian: that of the
    Jacobian at the mean student. same: that of eq. 15.
    """

    error: np.ndarray
    fitted: float
    jacobian: float
    same: float


def _flow(
    M: int, L: int, N: int, beta: float, lr: float, scale: float, end: float, seed: int
) -> Flow:
    """The flow of a network with M units and N inputs on L levels."""
    rng = np.random.default_rng(seed)
    inputs = tu.PowerLaw(beta, L)
    problem = tutelage_papers.power_law.committee(M, inputs=inputs, lr=lr)
    students = scale * rng.standard_normal((M, N))
    teachers = rng.standard_normal((M, N))
    times = np.linspace(0.0, end, POINTS)
    flow = tutelage_papers.power_law.weight_flow(
        problem, (students, teachers), times, rtol=1e-5
    )
    size = flow.asymmetry
    started = (size > 100 * scale) & (times > 0)
    chosen = np.flatnonzero(started & _before_parted(size))
    late_half = chosen[len(chosen) // 2 :]
    few = late_half[:: max(1, len(late_half) // 4)]
    rates = [flow.specialization_rates(int(i))[0] for i in few]
    start = tu.start_from_weights(problem, students, teachers)
    closed = tutelage_papers.power_law.plateau_formulas(problem, start)
    late = np.isin(np.arange(times.size), late_half)
    return Flow(
        error=np.asarray(flow.trajectory.error),
        fitted=growth_rate(times, size, late),
        jacobian=float(np.mean(rates)),
        same=1 / closed.time_constant,
    )


def _before_parted(size: np.ndarray) -> np.ndarray:
    """True until the units are too far apart for exponential growth, once for all."""
    return (size < LINEAR[1]) & (np.cumsum(size > LINEAR[1]) == 0)


def _columns(
    flows: list[list[Flow]], axis: str, ends: list[float]
) -> dict[str, tuple[Any, Any]]:
    """Variables of flows along one axis: the error of the first start, all rates."""
    columns: dict[str, tuple[Any, Any]] = {
        f"error_{axis}": ((axis, "point"), np.array([row[0].error for row in flows])),
        f"end_{axis}": (axis, ends),
    }
    for name in ("fitted", "jacobian", "same"):
        rates = np.array([[getattr(flow, name) for flow in row] for row in flows])
        columns[f"{name}_{axis}"] = ((axis, "start"), rates)
    return columns


def _rates(
    M: int, L: int, N: int, beta: float, lr: float, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fastest rate of the exact plateau, and that of eq. 15, for several teachers."""
    inputs = tu.PowerLaw(beta, L)
    problem = tutelage_papers.power_law.committee(M, inputs=inputs, lr=lr)
    exact = []
    closed = []
    for i in range(draws):
        start = tu.random_start(problem, dim=N, seed=seed + i)
        plateau = tutelage_papers.power_law.symmetric_plateau(problem, start)
        formulas = tutelage_papers.power_law.plateau_formulas(problem, start)
        exact.append(plateau.rate)
        closed.append(1 / formulas.time_constant)
    return np.array(exact), np.array(closed)


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """Compare rates with the Jacobian, with eq. 15 and with M^2 / L."""
    for axis in ("units", "levels"):
        gap = np.abs(data[f"fitted_{axis}"] / data[f"jacobian_{axis}"] - 1)
        words = (
            f"growth against the Jacobian at the mean student, by {axis}: largest gap"
        )
        yield at_most(words, gap.max(), 0.03)
    yield from _ratio_claims(data)
    yield from _exponent_claims(data)


def _typical(ratios: Any) -> np.ndarray:
    """Geometric mean over teachers."""
    return np.exp(np.log(np.asarray(ratios)).mean(axis=1))


def _ratio_claims(data: "Dataset") -> Iterator[Claim]:
    """The fastest rate over that of eq. 15."""
    over = (data["rates_units"] / data["closed_units"]).values
    typical = _typical(over)
    far = _typical(data["over_ratios"])
    words = "L = N: fastest rate over that of eq. 15, typical at each M, smallest"
    yield refuted(
        at_most(words, typical.min(), 1.05),
        evidence=f"ratios {typical.min():.2g} to {over.max():.2g}: T^(2) is far from "
        f"alike rows; it falls to {far[-1]:.3g} at N/L = {int(data['ratio'][-1])}",
    )
    yield between("the same ratio at the largest N/L", far[-1], 1.0, 1.15)
    words = "the same ratio: smallest N/L over largest N/L"
    yield above(words, far[0] / far[-1], 1.3)
    measured = (data["fitted_units"] / data["same_units"]).values
    words = "growth in the flows over eq. 15 of their own teachers: smallest of all"
    yield above(words, measured.min(), 1.0)
    expected = float(data["share"]) * (data["units"].values - 1.0)
    words = (
        "typical ratio of the fastest rate to eq. 15 over "
        "(M-1) lam_1^2 / sum_l lam_l^2, mean over M"
    )
    yield close(
        words,
        np.mean(over.mean(axis=1) / expected),
        1.0,
        rel=0.2,
        evidence="the first level is one direction of T^(2); flows: "
        f"{measured.min():.2g} to {measured.max():.2g} times eq. 15",
    )


def _exponents(x: "DataArray", rates: "DataArray") -> tuple[float, float]:
    """d ln(1/rate) / d ln x, mean over teachers, and its standard error."""
    slopes, _ = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(rates)), 1)
    each = -slopes
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(each.size))


def _exponent_claims(data: "Dataset") -> Iterator[Claim]:
    """Powers of M and L in the escape time."""
    by_M, error = _exponents(data["units"], data["fitted_units"])
    by_L, _ = _exponents(data["levels"], data["rates_levels"])
    exact, exact_error = _exponents(data["units"], data["rates_units"])
    closed, _ = _exponents(data["units"], data["closed_units"])
    flows = (
        f"{by_M:.2f} +- {error:.2f} in {data.sizes['start']} flows each, whose growth "
        "is that of the Jacobian"
    )
    yield close(
        "exponent of the escape time in M at L = N, exact plateaus",
        exact,
        0.9,
        absolute=0.25,
        evidence=f"standard error {exact_error:.2f} over teachers; flows {flows}",
    )
    as_printed = close(
        "exponent of the escape time in M at L = N, as printed",
        by_M,
        2.0,
        absolute=0.25,
        says="M^2/(eta L)",
    )
    yield refuted(
        as_printed,
        evidence=f"{flows}; exact plateaus {exact:.2f} +- {exact_error:.2f}; eq. 15 "
        f"itself {closed:.2g}",
    )
    words = "exponent of the escape time in L, exact plateaus"
    yield close(words, by_L, -1.0, absolute=0.25)


def draw_5(data: "Dataset") -> "Figure":
    """Draw e_g by M and by L, and the rate over that of eq. 15."""
    title = "Leaving the plateau: many units, many levels"
    figure, axes = panel_grid(1, 3, title, SETTING, height=3.2, width=11.0)
    by_units, by_levels, ratio = axes[0]
    _draw_flows(by_units, data, "units", "M")
    _draw_flows(by_levels, data, "levels", "L")
    _draw_ratios(ratio, data)
    return figure


def _draw_flows(panel: Any, data: "Dataset", axis: str, letter: str) -> None:
    """The error of one start for each size."""
    errors = data[f"error_{axis}"]
    for look, size in enumerate(data[axis].values):
        error = errors.values[look]
        time = np.linspace(0, float(data[f"end_{axis}"][look]), error.size)
        panel.plot(time, error, color=COLORS[look % 7], label=f"${letter}={size}$")
    highest = 1.7 * float(np.median(errors))
    panel.set(xlabel=TIME, ylabel=ERROR, ylim=(0, highest))
    panel.legend(loc="upper right", fontsize=7, ncols=2)


def _draw_ratios(panel: Any, data: "Dataset") -> None:
    """The fastest rate over that of eq. 15: typical ones, and those of all teachers."""
    far = data["over_ratios"]
    over = data["rates_units"] / data["closed_units"]
    typical = {"color": COLORS[0], "marker": MARKERS[0]}
    dots = {"color": COLORS[0], "marker": ".", "linestyle": "none", "alpha": 0.25}
    dashed = {"color": COLORS[1], "marker": MARKERS[1], "linestyle": DASHES[1]}
    panel.loglog(data["ratio"], _typical(far), label="against $N/L$", **typical)
    panel.loglog(data["ratio"], far.values, **dots)
    panel.loglog(data["units"], _typical(over), label="against $M$, $L=N$", **dashed)
    panel.axhline(1.0, color=FAINT)
    panel.set(xlabel="$N/L$ or $M$", ylabel="fastest rate / rate of eq. 15")
    panel.set_xmargin(0.05)
    panel.legend(loc="upper right", fontsize=7)


def compute_19(
    levels: list[int],
    units: list[int],
    few: int,
    many: int,
    total: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    begin: float,
    ends: list[float],
    seed: int,
) -> "Dataset":
    """Return plateau lengths by L at M = few, and by M at L = many.

    total: levels of the common shape. begin: alpha_0.
    """
    import xarray as xr

    largest = max(*units, few)

    def length(M: int, L: int, end: float) -> "Dataset":
        """The plateau of one start with M units on L levels."""
        inputs = split_power_law(beta, L, total)
        times = tu.linear_times(end, 701)
        row = _length(M, largest, inputs, dim, scale, lr, times, begin, seed)
        return xr.Dataset(row)

    rows = [length(few, L, ends[0]) for L in levels]
    rows += [length(M, many, ends[1]) for M in units]
    names = [f"L={L}" for L in levels] + [f"M={M}" for M in units]
    cases = xr.DataArray(names, dims="case", name="case")
    return xr.concat(rows, dim=cases).assign(
        begin=begin,
        few=few,
        levels=("level_case", levels),
        units=("unit_case", units),
        dim=dim,
    )


def _length(
    M: int,
    largest: int,
    inputs: Any,
    dim: int,
    scale: float,
    lr: float,
    times: np.ndarray,
    begin: float,
    seed: int,
) -> dict[str, Any]:
    """The error of one start, the length of its plateau, and rates.

    The length: until the largest overlap has grown by B = (e - 1) R*, or half the way to T.
    """
    # Silent units up to the largest committee: one program for all sizes.
    padded = padded_committee(M, largest, inputs, lr)
    start = tu.random_start(padded, dim=dim, scale=scale, seed=seed)
    curve = tu.solve(padded, start, times, gradient_flow=True, keep="blocks")
    R = curve.R[:, :M, :M]
    r, q, t = start.blocks(padded)
    alone = tu.Start(r[:, :M, :M], q[:, :M, :M], t[:, :M, :M])
    problem = tutelage_papers.power_law.committee(M, inputs=inputs, lr=lr)
    closed = tutelage_papers.power_law.plateau_formulas(problem, alone)
    exact = tutelage_papers.power_law.symmetric_plateau(problem, alone)
    size = unit_spread(R)
    first = int(np.searchsorted(times, begin))
    height = float(R[first].mean())
    half_way = (float(np.mean(np.diag(closed.moments[0]))) - height) / 2
    deviation = min((np.e - 1) * height, half_way)
    reached = R.max(axis=(1, 2)) > height + deviation
    length = np.nan
    if reached.any():
        length = float(times[np.argmax(reached)] - begin)
    growing = (size > LINEAR[0]) & (times > begin) & _before_parted(size)
    return {
        "time": ("point", times),
        "error": ("point", curve.error),
        "length": length,
        "log": float(np.log(deviation / size[first])),
        "tau": closed.time_constant,
        "fitted": growth_rate(times, size, growing),
        "fastest": exact.rates[0],
        "slowest": exact.rates[M - 2],
    }


def _by_levels(data: "Dataset") -> "Dataset":
    return data.isel(case=slice(0, data.sizes["level_case"]))


def _by_units(data: "Dataset") -> "Dataset":
    return data.isel(case=slice(data.sizes["level_case"], None))


def claims_19(data: "Dataset") -> Iterator[Claim]:
    """Compare trends of the length, its ratio to tau ln(B / sigma_P), and rates."""
    length = _by_levels(data)["length"]
    words = "length at the largest L over that at the smallest"
    yield below(words, length[-1] / length[0], 1.0)
    length = _by_units(data)["length"]
    words = "length at the largest M over that at the smallest"
    yield above(words, length[-1] / length[0], 1.0)
    ratio = data["length"] / (data["tau"] * data["log"])
    words = "length over tau ln(B / sigma_P), mean over all"
    yield close(words, ratio.mean(), 1.0, rel=0.15)
    # Eq. 117 adds (1/2) ln N to the logarithm.
    logarithm = data["log"] + 0.5 * np.log(float(data["dim"]))
    printed = data["length"] / (data["tau"] * logarithm)
    words = "length over eq. 117 with its (1/2) ln N, mean over all"
    yield refuted(
        close(words, printed.mean(), 1.0, rel=0.15),
        evidence="without that term the ratio is near one for every L and M",
    )
    too_fast = data["fitted"] / data["fastest"]
    too_slow = data["slowest"] / data["fitted"]
    outside = np.maximum(too_fast, too_slow) - 1
    words = "fitted rates outside the exact rates of the plateau: largest share"
    yield at_most(words, outside.max(), 0.05)


def draw_19(data: "Dataset") -> "Figure":
    """Draw e_g by L and by M with predicted ends of the plateau."""
    title = "Lengths of plateaus, predicted from their beginning"
    small = SETTING + r"; vertical: $\alpha_0+\tau\,\ln(B/\sigma_P)$"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=10.5)
    by_levels, by_units = axes[0]
    _draw_plateaus(by_levels, _by_levels(data))
    _draw_plateaus(by_units, _by_units(data))
    label_panel(by_levels, f"$K=M={int(data['few'])}$")
    return figure


def _draw_plateaus(panel: Any, rows: "Dataset") -> None:
    """Errors with the predicted ends of their plateaus."""
    begin = float(rows["begin"])
    for look, case in enumerate(rows["case"].values):
        row = rows.sel(case=case)
        color = COLORS[look % 7]
        panel.plot(row["time"], row["error"], color=color, label=f"${case}$")
        end = begin + float(row["tau"] * row["log"])
        panel.axvline(end, color=color, linestyle=DASHES[1], linewidth=1.0)
    panel.axvline(begin, color=FAINT)
    highest = 1.6 * float(rows["error"].isel(point=100).max())
    panel.set(xlabel=TIME, ylabel=ERROR, ylim=(0, highest))
    outside_legend(panel)


FIVE = {"beta": 0.25, "lr": 0.01, "scale": 1e-6, "few": 6, "seed": 0}
NINETEEN = {
    "few": 4,
    "many": 10,
    "total": 10,
    "beta": 0.25,
    "dim": 7000,
    "scale": 0.01,
    "lr": 0.1,
    "begin": 500.0,
    "seed": 0,
}

FIGURES = (
    Replica(
        id="power-5",
        source="power",
        figure="Fig. 5",
        title="leaving the plateau with many units and many levels: "
        "rates against eq. 15",
        full=FIVE
        | {
            "units": [6, 8, 10, 32, 40],
            "dim": 512,
            "ends": [8000.0, 8000.0, 12000.0, 24000.0, 32000.0],
            "levels": [25, 50, 100, 250, 500],
            "few_dim": 500,
            "few_ends": [70000.0, 50000.0, 25000.0, 12000.0, 8000.0],
            "ratios": [1, 4, 16, 64, 250, 1000],
            "draws": 12,
            "starts": 4,
        },
        quick=FIVE
        | {
            "few": 4,
            "units": [4, 12],
            "dim": 128,
            "ends": [12000.0, 24000.0],
            "levels": [16, 64, 128],
            "few_dim": 128,
            "few_ends": [60000.0, 24000.0, 12000.0],
            "ratios": [1, 30, 1000],
            "draws": 10,
            "starts": 6,
        },
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
    Replica(
        id="power-19",
        source="power",
        figure="Fig. 19",
        title="lengths of plateaus by the number of levels and of units",
        full=NINETEEN
        | {
            "levels": [2, 4, 6, 8],
            "units": [2, 3, 4, 6, 8],
            "ends": [12000.0, 16000.0],
        },
        quick=NINETEEN
        | {"levels": [2, 4, 8], "units": [2, 3, 4], "ends": [12000.0, 8000.0]},
        compute=compute_19,
        draw=draw_19,
        claims=claims_19,
    ),
)
