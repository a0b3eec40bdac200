"""Beyond the power-law paper: the exponents of its figure 6 from the equations.

Up to 40 units and 4096 levels. Near perfect learning K - 1 directions of the units are slow
and one is fast, with rates a_s and a_f (decay.py). On a power law of L levels,

    S(x) = sum_l p_l lam_l exp(-lam_l x),

the error goes as e = (K-1) a_s S(2 a_s t) + a_f S(2 a_f t), t = eta alpha. Behind the first
levels and before the last, with c = Gamma((2 beta+1)/(beta+1)) and x in units of 1/lam_1,

    S ~ c x^(-beta/(1+beta)) - L^-beta:
    slope = -(beta/(1+beta)) / (1 - L^(-beta/2)/c)  in the middle, x = L^((1+beta)/2),

for one group, and with a larger factor for two: the exponent is approached as L^(-beta/2)
only, once L^((1+beta)/2) is far beyond a_f/a_s = 6.5 K. Here the exact gradient flow is
held against both forms.
"""

from collections.abc import Callable, Iterator
from math import gamma
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, below, close, refuted
from tutelage_papers.drawing import GUIDE, draw_power
from tutelage_papers.figures.power.committees import (
    level_sum,
    middle_time,
    network_slopes,
    rate_groups,
    slope,
    split_power_law,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataArray, Dataset

CURVE = np.geomspace(1e-4, 10.0, 61)  # times, in units of the middle of the window
DECADE = slice(42, 55)  # the decade around one
WITHIN = CURVE[DECADE]
MANY = (2**14, 2**17)  # levels of the sum alone
CASES = ("beta", "units", "levels")
# Numerator of the fast rate as printed; the right one is 2 + (K-1) sqrt(3).
PRINTED_FAST = 2 + np.sqrt(3)


def compute_23(
    units: list[int],
    levels: list[int],
    betas: list[float],
    beta: float,
    near: float,
    own: float,
    networks: list[list[int]],
    starts: int,
    linear: list[list[int]],
    seed: int,
) -> "Dataset":
    """Return slopes amid the window by (beta, K, L), and what they compare with.

    Curves from small starts; networks with N = L; asymptotic_decay for small L K M. near: R
    of the students beside their teachers at the start. own: that of the small starts.
    networks, linear: (K, L).
    """
    import xarray as xr

    total = max(levels)
    sizes = [(K, L) for K in units for L in levels]

    def table(function: Callable[[int, float, int], Any]) -> np.ndarray:
        """The values of a function of K, beta and L, by (beta, units, levels)."""
        rows = [[function(K, b, L) for K, L in sizes] for b in betas]
        return np.array(rows).reshape(len(betas), len(units), len(levels), -1)

    def flow(K: int, b: float, L: int) -> list[float]:
        """Slope and bend of the gradient flow that begins near the teachers."""
        times = middle_time(K, b, L) * WITHIN
        error = _flow_error(K, L, total, b, near)[DECADE]
        return [slope(times, error), _bend(times, error)]

    flows = table(flow)
    summed = table(lambda K, b, L: _sum_slope(K, b, L))
    printed = table(lambda K, b, L: _sum_slope(K, b, L, PRINTED_FAST))
    data = xr.Dataset(coords={"beta": betas, "units": units, "levels": levels})
    data = data.assign_coords(time=CURVE)
    data["slope"] = (CASES, flows[..., 0])
    data["bend"] = (CASES, flows[..., 1])
    data["sum"] = (CASES, summed[..., 0])
    data["printed"] = (CASES, printed[..., 0])
    data["law"] = (CASES, table(_law)[..., 0])
    data = data.assign(_small_starts(units, levels, beta, own))
    far = [[1 + b / (1 + b) / _sum_slope(units[0], b, n) for n in MANY] for b in betas]
    data["far"] = (("beta", "many"), far)
    data = data.assign(_networks(networks, beta, near, starts, seed))
    late = [_late(K, L, total, beta, near) for K, L in linear]
    data["late"] = ("late_case", [modes for modes, _ in late])
    data["late_flow"] = ("late_case", [exact for _, exact in late])
    data["shown_beta"] = beta
    return data


def _small_starts(
    units: list[int], levels: list[int], beta: float, own: float
) -> dict[str, Any]:
    """Whole curves from small students, and their slopes amid the window."""
    errors = np.empty((len(units), len(levels), CURVE.size))
    slopes = np.empty((len(units), len(levels)))
    for i, K in enumerate(units):
        for j, L in enumerate(levels):
            errors[i, j] = _flow_error(K, L, max(levels), beta, own)
            times = middle_time(K, beta, L) * WITHIN
            slopes[i, j] = slope(times, errors[i, j][DECADE])
    return {
        "small_slope": (("units", "levels"), slopes),
        "small_error": (("units", "levels", "time"), errors),
    }


def _networks(
    cases: list[list[int]], beta: float, near: float, starts: int, seed: int
) -> dict[str, Any]:
    """Slopes of networks with N = L, and of their sums, by (K, L)."""
    flows = []
    sums = []
    for K, L in cases:
        of_flow, of_sum = network_slopes(K, L, beta, near, starts, seed, WITHIN)
        flows.append(of_flow)
        sums.append(of_sum)
    return {
        "network": (("case", "start"), flows),
        "network_sum": (("case", "start"), sums),
        "case_units": ("case", [K for K, _ in cases]),
        "case_levels": ("case", [L for _, L in cases]),
    }


def _sum_slope(K: int, beta: float, L: int, fast: float | None = None) -> float:
    """Slope of the sum over levels, over the decade amid them."""
    lam = np.asarray(tu.PowerLaw(beta, L).eigenvalues)
    times = middle_time(K, beta, L) * WITHIN
    rates, counts = rate_groups(K, fast)
    return slope(times, level_sum(lam, rates, counts, times))


def _law(K: int, beta: float, L: int) -> float:
    """Slope in the middle to the first correction in L (module docstring).

    It holds where the fast group, too, is inside the window.
    """
    exponent = -beta / (1 + beta)
    rates, counts = rate_groups(K)
    relative = rates / rates[0]
    shares = counts * rates / rates[0]
    enlarged = np.sum(shares) / np.sum(shares * relative**exponent)
    return exponent / (1 - enlarged * L ** (-beta / 2) / gamma(1 - exponent))


def _flow_error(K: int, L: int, total: int, beta: float, own: float) -> np.ndarray:
    """The error at CURVE along the gradient flow from R = own, Q = own^2."""
    inputs = split_power_law(beta, L, total)
    problem = tutelage_papers.power_law.committee(K, inputs=inputs, lr=1.0)
    times = middle_time(K, beta, L) * CURVE
    flow = tutelage_papers.power_law.symmetric_flow(
        problem,
        _start(K, own),
        np.concatenate([[0.0], times]),
        rtol=1e-5,
        atol=1e-8,
    )
    return np.asarray(flow.trajectory.error[1:])


def _bend(times: np.ndarray, error: np.ndarray) -> float:
    """The slope at the end of these times over that at their beginning."""
    return slope(times[-4:], error[-4:]) / slope(times[:4], error[:4])


def _start(K: int, own: float) -> "tu.Start":
    return tu.Start(own * np.eye(K), own**2 * np.eye(K), np.eye(K))


def _late(K: int, L: int, total: int, beta: float, near: float) -> tuple[float, float]:
    """Slopes amid the window: linear in the weights (modes), and the exact flow."""
    inputs = tu.PowerLaw(beta, L)
    problem = tutelage_papers.power_law.committee(K, inputs=inputs, lr=1.0)
    times = middle_time(K, beta, L) * WITHIN
    decay = tutelage_papers.power_law.asymptotic_decay(problem, _start(K, near))
    error = _flow_error(K, L, total, beta, near)[DECADE]
    return slope(times, decay.error(times)), slope(times, error)


def claims_23(data: "Dataset") -> Iterator[Claim]:
    """Compare slopes with those of the sum over levels, and with other laws.

    They come to the exponent as L^(-beta/2).
    """
    yield from _flow_claims(data)
    yield from _law_claims(data)
    yield from _exponent_claims(data)
    yield from _wrong_claims(data)


def _gaps(name: str, data: "Dataset") -> "DataArray":
    """Relative distances of other slopes from those of the flow."""
    return abs(data[name] / data["slope"] - 1)


def _flow_claims(data: "Dataset") -> Iterator[Claim]:
    """Slopes of flows and networks are those of the sum over levels."""
    largest = int(data["levels"][-1])
    gaps = abs(data["slope"] / data["sum"] - 1)
    last = gaps.isel(levels=-1)
    words = (
        "flow near the teachers against the sum over levels, slopes, "
        f"L = {largest}: largest gap"
    )
    yield at_most(words, last.max(), 0.1)
    words = "the same gap, mean over beta and K: largest L over smallest"
    yield below(words, last.mean() / gaps.isel(levels=0).mean(), 1.0)
    beta = float(data["shown_beta"])
    shown = data.sel(beta=beta).isel(levels=-1)
    after_plateau = abs(shown["small_slope"] / shown["sum"] - 1)
    words = f"the same after plateau and escape, beta = {beta:g}"
    yield at_most(words, after_plateau.max(), 0.1)
    ratio = (data["network"] / data["network_sum"]).mean("start")
    words = (
        "networks with N = L near random teachers against their sum, mean ratio: "
        "largest gap"
    )
    yield at_most(words, abs(ratio - 1).max(), 0.1)
    words = "asymptotic_decay against the exact flow, slopes, mean ratio"
    yield close(words, (data["late"] / data["late_flow"]).mean(), 1.0, rel=0.03)


def _law_claims(data: "Dataset") -> Iterator[Claim]:
    """The closed form of the slope, and its power of L."""
    steep = data.sel(beta=data["beta"] >= 1).isel(units=0, levels=-1)
    words = (
        f"closed form of the slope, beta >= 1, K = {int(steep['units'])}, "
        f"L = {int(steep['levels'])}: largest gap"
    )
    yield at_most(words, _gaps("law", steep).max(), 0.05)
    few, many = np.moveaxis(data["far"].values, -1, 0)
    powers = np.log(many / few) / np.log(MANY[1] / MANY[0])
    for beta, power in zip(data["beta"].values, powers, strict=True):
        words = (
            f"beta = {beta:g}: power of L in 1 - exponent/slope, sum over 2^14 to 2^17 "
            "levels"
        )
        yield close(words, power, -beta / 2, rel=0.1)


def _exponent_claims(data: "Dataset") -> Iterator[Claim]:
    """Slopes come to the exponent, but are not there yet."""
    exponent = -data["beta"] / (1 + data["beta"])
    distance = abs(data["slope"] - exponent)
    closer = distance.isel(levels=-1) / distance.isel(levels=0)
    words = "distance to the exponent, largest L over smallest, largest over beta and K"
    yield below(words, closer.max(), 1.0)
    last = data["slope"].isel(levels=-1)
    observed = at_most(
        f"slopes against -beta/(1+beta) at L = {int(last['levels'])}: largest relative "
        "distance",
        abs(last / exponent - 1).max(),
        0.05,
        says="in all configurations we observe the scaling alpha^(-beta/(1+beta))",
    )
    yield refuted(
        observed,
        evidence="the sum over levels has the same slopes: L^(-beta/2) is not small yet",
    )


def _wrong_claims(data: "Dataset") -> Iterator[Claim]:
    """Negative controls: other laws, and the fast group as printed."""
    most = data.isel(units=-1, levels=-1)
    steep = most.sel(beta=most["beta"] >= 1)
    words = (
        "another law, the exponent -beta: distance of the slopes for beta >= 1, "
        f"K = {int(most['units'])}, L = {int(most['levels'])}"
    )
    yield above(words, abs(steep["slope"] / -steep["beta"] - 1).min(), 0.1)
    words = (
        "another law, exponential: late slope over early in the decade "
        "(5.6 if exponential)"
    )
    yield below(words, data["bend"].isel(levels=-1).max(), 2.8)
    wide = data.isel(units=-1)
    right_gap = abs(wide["slope"] / wide["sum"] - 1).mean()
    words = (
        "sum with the fast group as printed, 2 + sqrt(3): its gap over that of the "
        "right one, largest K"
    )
    yield above(words, _gaps("printed", wide).mean() / right_gap, 3.0)


def draw_23(data: "Dataset") -> "Figure":
    """Draw curves of the largest committee, slopes against L, and their distance."""
    title = "How late learning comes to its exponent"
    small = (
        r"K = M erf units, gradient flow; slopes over the decade amid all levels. "
        "Lines: sum over levels; marks: exact flow."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.4, width=12.0)
    curves, slopes, distance = axes[0]
    _draw_curves(curves, data)
    _draw_slopes(slopes, data)
    _draw_distance(distance, data)
    return figure


def _draw_curves(panel: Any, data: "Dataset") -> None:
    """Errors of the largest committee from small students, and the power law."""
    K = int(data["units"][-1])
    beta = float(data["shown_beta"])
    errors = data["small_error"].isel(units=-1)
    for look, L in enumerate(data["levels"].values):
        t = CURVE * middle_time(K, beta, int(L))
        error = errors.sel(levels=L)
        panel.loglog(t, error, color=COLORS[look % 7], label=f"$L={L}$")
    # The law below the last decade of the curve with most levels.
    late = 0.1 * CURVE[-1] < CURVE
    t = CURVE[late] * middle_time(K, beta, int(data["levels"][-1]))
    below_curve = 0.6 * errors.values[-1][late][0]
    draw_power(panel, t, below_curve, -beta / (1 + beta), "expected")
    panel.set(xlabel=r"$\eta\,\alpha$", ylabel=ERROR)
    panel.legend(loc="lower left", fontsize=7)
    label_panel(panel, rf"$K=M={K}$, $\beta={beta:g}$, from small students")


def _draw_slopes(panel: Any, data: "Dataset") -> None:
    """Slopes against L: sum, flows, networks and the exponent."""
    beta = float(data["shown_beta"])
    shown = data.sel(beta=beta)
    L = data["levels"].values
    for look, K in enumerate(data["units"].values):
        row = shown.sel(units=K)
        dots = {"color": COLORS[look % 7], "linestyle": "none", "markersize": 4}
        open_dots = dots | {"markerfacecolor": "white"}
        panel.semilogx(L, row["sum"], color=COLORS[look % 7], label=f"$K=M={K}$")
        panel.semilogx(L, row["slope"], marker=MARKERS[0], **dots)
        panel.semilogx(L, row["small_slope"], marker=MARKERS[1], **open_dots)
    for case in range(data.sizes["case"]):
        row = data.isel(case=case)
        color = _color(data, int(row["case_units"]))
        mean = row["network"].mean()
        panel.plot(row["case_levels"], mean, "x", color=color, markersize=5)
    panel.axhline(-beta / (1 + beta), **GUIDE, label=r"$-\beta/(1+\beta)$")
    _name_marks(panel)
    panel.set(xlabel="levels $L$", ylabel="slope amid the window")
    panel.set_ylim(1.6 * float(shown["sum"].min()), -0.4 * beta)
    label_panel(panel, rf"$\beta={beta:g}$")
    outside_legend(panel)


def _color(data: "Dataset", units: int) -> str:
    """The color of the line of this number of units; that of the text without one."""
    colors = dict(zip(data["units"].values, COLORS, strict=False))
    return colors.get(units, INK)


def _name_marks(panel: Any) -> None:
    """Put the meaning of the marks into the legend, once."""
    dots = {"color": INK, "linestyle": "none", "markersize": 4}
    open_dots = dots | {"markerfacecolor": "white"}
    filled = dots | {"markerfacecolor": INK}
    panel.plot([], [], marker=MARKERS[0], label="near the teachers", **filled)
    panel.plot([], [], marker=MARKERS[1], label="after the plateau", **open_dots)
    panel.plot([], [], marker="x", label="networks, $N=L$", **filled)


def _draw_distance(panel: Any, data: "Dataset") -> None:
    """Relative distance of the slope from the exponent: sum, flow and closed form."""
    L = data["levels"].values
    for look, beta in enumerate(data["beta"].values):
        row = data.sel(beta=beta).isel(units=0)
        exponent = -beta / (1 + beta)
        distance = abs(row[["sum", "slope", "law"]] / exponent - 1)
        color = COLORS[look % 7]
        dots = {"linestyle": "none", "marker": MARKERS[0], "markersize": 4}
        closed = {"linestyle": DASHES[1], "linewidth": 1.0}
        panel.loglog(L, distance["sum"], color=color, label=rf"$\beta={beta:g}$")
        panel.loglog(L, distance["slope"], color=color, **dots)
        panel.loglog(L, distance["law"], color=color, **closed)
    panel.set(xlabel="levels $L$", ylabel="slope / exponent $-$ 1")
    K = int(data["units"][0])
    label_panel(panel, rf"$K=M={K}$; dashed: closed form, $\sim L^{{-\beta/2}}$")
    outside_legend(panel)


TWENTY_THREE = {"beta": 1.0, "near": 0.9, "own": 0.01, "seed": 0}

FIGURES = (
    Replica(
        id="power-23",
        source="power",
        figure="beyond the paper",
        title="late exponents of committees of up to 40 units on up to 4096 levels, "
        "from the equations",
        full=TWENTY_THREE
        | {
            "units": [2, 4, 10, 40],
            "levels": [64, 256, 1024, 4096],
            "betas": [0.5, 1.0, 1.5],
            "networks": [
                [2, 512],
                [2, 4096],
                [4, 512],
                [10, 512],
                [40, 512],
                [40, 4096],
            ],
            "starts": 2,
            "linear": [[2, 64], [2, 512], [4, 128]],
        },
        quick=TWENTY_THREE
        | {
            "units": [2, 40],
            "levels": [64, 1024],
            "betas": [0.5, 1.0, 1.5],
            "networks": [[10, 256]],
            "starts": 3,
            "linear": [[2, 64]],
        },
        compute=compute_23,
        draw=draw_23,
        claims=claims_23,
    ),
)
