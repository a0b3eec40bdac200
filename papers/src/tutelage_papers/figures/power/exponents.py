"""Beyond the power-law paper: the exponents of its figure 6 from the equations themselves, up to 40 units and 4096 levels.

Near perfect learning K - 1 directions of the units are slow and one is fast, with rates a_s and a_f (decay.py). On a power
law of L levels, S(x) = sum_l p_l lam_l exp(-lam_l x), the error goes as e = (K-1) a_s S(2 a_s t) + a_f S(2 a_f t), t = eta
alpha. Behind the first levels and before the last, with c = Gamma((2 beta+1)/(beta+1)) and x in units of 1/lam_1,
    S ~ c x^(-beta/(1+beta)) - L^-beta:    slope = -(beta/(1+beta)) / (1 - L^(-beta/2)/c)  in the middle, x = L^((1+beta)/2),
for one group, and with a larger factor for two: the exponent is approached as L^(-beta/2) only, once L^((1+beta)/2) is far
beyond a_f/a_s = 6.5 K. Here the exact gradient flow is held against both forms.
"""

from math import gamma
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
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, below, close, refuted
from tutelage_papers.drawing import draw_power
from tutelage_papers.figures.power.committees import (
    groups,
    level_sum,
    middle,
    network_slopes,
    slope,
    split_power_law,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

CURVE = np.geomspace(1e-4, 10.0, 61)  # times, in units of the middle of the window
DECADE = slice(42, 55)  # the decade around one
WITHIN = CURVE[DECADE]
MANY = (2**14, 2**17)  # levels of the sum alone


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
    """Slopes amid the window by (beta, K, L); curves from small starts; networks with N = L; asymptotic_decay for small L K M.

    near: R of the students beside their teachers at the start. own: that of the small starts. networks, linear: (K, L).
    """
    import xarray as xr

    total = max(levels)
    cases = [
        [[_alike(K, L, total, b, near) for L in levels] for K in units] for b in betas
    ]
    small = [[_alike(K, L, total, beta, own) for L in levels] for K in units]
    flows = [
        network_slopes(K, L, beta, near, starts, seed, WITHIN) for K, L in networks
    ]
    late = [_late(K, L, total, beta, near) for K, L in linear]
    axes = ("beta", "units", "levels")

    def pick(index: int) -> np.ndarray:
        return np.array([[[x[index] for x in row] for row in b] for b in cases])

    return xr.Dataset(
        {
            "slope": (axes, pick(0)),
            "bend": (axes, pick(1)),
            "sum": (
                axes,
                [[[_sum_slope(K, b, L) for L in levels] for K in units] for b in betas],
            ),
            "printed": (
                axes,
                [
                    [
                        [_sum_slope(K, b, L, 2 + np.sqrt(3)) for L in levels]
                        for K in units
                    ]
                    for b in betas
                ],
            ),
            "law": (
                axes,
                [[[_law(K, b, L) for L in levels] for K in units] for b in betas],
            ),
            "small_slope": (
                ("units", "levels"),
                [[x[0] for x in row] for row in small],
            ),
            "small_error": (
                ("units", "levels", "time"),
                [[x[2] for x in row] for row in small],
            ),
            "far": (
                ("beta", "many"),
                [
                    [1 + b / (1 + b) / _sum_slope(units[0], b, n) for n in MANY]
                    for b in betas
                ],
            ),
            "network": (("case", "start"), [x[0] for x in flows]),
            "network_sum": (("case", "start"), [x[1] for x in flows]),
            "late": ("late_case", [x[0] for x in late]),
            "late_flow": ("late_case", [x[1] for x in late]),
            "shown_beta": beta,
            "case_units": ("case", [K for K, _ in networks]),
            "case_levels": ("case", [L for _, L in networks]),
        },
        coords={"beta": betas, "units": units, "levels": levels, "time": CURVE},
    )


def _sum_slope(K: int, beta: float, L: int, fast: float | None = None) -> float:
    """Of the sum over levels, over the decade amid them."""
    lam = np.asarray(tu.PowerLaw(beta, L).eigenvalues)
    times = middle(K, beta, L) * WITHIN
    return slope(times, level_sum(lam, *groups(K, fast), times))


def _law(K: int, beta: float, L: int) -> float:
    """Slope in the middle to the first correction in L: where the fast group, too, is inside the window."""
    exponent, (rates, counts) = -beta / (1 + beta), groups(K)
    shares = counts * rates / rates[0]
    enlarged = np.sum(shares) / np.sum(shares * (rates / rates[0]) ** exponent)
    return exponent / (1 - enlarged * L ** (-beta / 2) / gamma(1 - exponent))


def _alike(
    K: int, L: int, total: int, beta: float, own: float
) -> tuple[float, float, np.ndarray]:
    """From R = own, Q = own^2: slope amid the window, its late part over its early one, and the whole curve."""
    times = middle(K, beta, L) * CURVE
    problem = tutelage_papers.power_law.committee(
        K, inputs=split_power_law(beta, L, total), lr=1.0
    )
    flow = tutelage_papers.power_law.symmetric_flow(
        problem, _start(K, own), np.concatenate([[0.0], times]), rtol=1e-5, atol=1e-8
    )
    error = np.asarray(flow.trajectory.error[1:])
    t = times[DECADE]
    e = error[DECADE]
    return slope(t, e), slope(t[-4:], e[-4:]) / slope(t[:4], e[:4]), error


def _start(K: int, own: float) -> "tu.Start":
    return tu.Start(own * np.eye(K), own**2 * np.eye(K), np.eye(K))


def _late(K: int, L: int, total: int, beta: float, near: float) -> tuple[float, float]:
    """Slopes amid the window: linear in the weights (modes), and the exact flow."""
    problem = tutelage_papers.power_law.committee(
        K, inputs=tu.PowerLaw(beta, L), lr=1.0
    )
    times = middle(K, beta, L) * WITHIN
    decay = tutelage_papers.power_law.asymptotic_decay(problem, _start(K, near))
    return slope(times, decay.error(times)), _alike(K, L, total, beta, near)[0]


def claims_23(data: "Dataset") -> list[Claim]:
    """Slopes are those of the sum over levels; they come to the exponent as L^(-beta/2); other laws fail."""
    beta = data["beta"].values
    L = data["levels"].values
    found = data["slope"].values
    summed = data["sum"].values
    exponent = -beta / (1 + beta)
    gaps = np.abs(found / summed - 1)
    last = gaps[..., -1]
    shown = data["sum"].sel(beta=float(data["shown_beta"])).values
    afar = np.abs(data["small_slope"].values[:, -1] / shown[:, -1] - 1)
    off = np.abs(found[:, :, -1] / exponent[:, None] - 1)
    ratio = np.mean(data["network"].values / data["network_sum"].values, axis=1)
    far = data["far"].values
    law = np.abs(data["law"].values / found - 1)[beta >= 1, 0, -1]
    rate = np.log(far[:, 1] / far[:, 0]) / np.log(MANY[1] / MANY[0])
    missed = (
        np.abs(data["printed"].values / found - 1)[:, -1].mean() / gaps[:, -1].mean()
    )
    K = int(data["units"][0])
    most = f"K = {int(data['units'][-1])}, L = {L[-1]}"
    return [
        at_most(
            f"flow near the teachers against the sum over levels, slopes, L = {L[-1]}: largest gap",
            last.max(),
            0.1,
        ),
        below(
            "the same gap, mean over beta and K: largest L over smallest",
            last.mean() / gaps[..., 0].mean(),
            1.0,
        ),
        at_most(
            f"the same after plateau and escape, beta = {float(data['shown_beta']):g}",
            float(afar.max()),
            0.1,
        ),
        at_most(
            "networks with N = L near random teachers against their sum, mean ratio: largest gap",
            _far(ratio),
            0.1,
        ),
        close(
            "asymptotic_decay against the exact flow, slopes, mean ratio",
            float(np.mean(data["late"].values / data["late_flow"].values)),
            1.0,
            rel=0.03,
        ),
        at_most(
            f"closed form of the slope, beta >= 1, K = {K}, L = {L[-1]}: largest gap",
            law.max(),
            0.05,
        ),
        *[
            close(
                f"beta = {b:g}: power of L in 1 - exponent/slope, sum over 2^14 to 2^17 levels",
                x,
                -b / 2,
                rel=0.1,
            )
            for b, x in zip(beta, rate, strict=True)
        ],
        below(
            "distance to the exponent, largest L over smallest, largest over beta and K",
            _approach(found, exponent),
            1.0,
        ),
        refuted(
            at_most(
                f"slopes against -beta/(1+beta) at L = {L[-1]}: largest relative distance",
                float(off.max()),
                0.05,
                says="in all configurations we observe the scaling alpha^(-beta/(1+beta))",
            ),
            evidence="the sum over levels has the same slopes: L^(-beta/2) is not small yet",
        ),
        above(
            f"another law, the exponent -beta: distance of the slopes for beta >= 1, {most}",
            _wrong(found, beta),
            0.1,
        ),
        below(
            "another law, exponential: late slope over early in the decade (5.6 if exponential)",
            _bend(data),
            2.8,
        ),
        above(
            "sum with the fast group as printed, 2 + sqrt(3): its gap over that of the right one, largest K",
            missed,
            3.0,
        ),
    ]


def _far(ratio: np.ndarray) -> float:
    return float(np.abs(ratio - 1).max())


def _approach(found: np.ndarray, exponent: np.ndarray) -> float:
    distance = np.abs(found - exponent[:, None, None])
    return float((distance[:, :, -1] / distance[:, :, 0]).max())


def _wrong(found: np.ndarray, beta: np.ndarray) -> float:
    return float(np.abs(found[:, -1, -1] / -beta - 1)[beta >= 1].min())


def _bend(data: "Dataset") -> float:
    return float(data["bend"].values[:, :, -1].max())


def draw_23(data: "Dataset") -> "Figure":
    """Curves of the largest committee; slopes against L; how far they are from the exponent."""
    K = int(data["units"][-1])
    beta = float(data["shown_beta"])
    small = r"K = M erf units, gradient flow; slopes over the decade amid all levels. Lines: sum over levels; marks: exact flow."
    figure, axes = panel_grid(
        1, 3, "How late learning comes to its exponent", small, height=3.4, width=12.0
    )
    curves, slopes, distance = axes[0]
    L = data["levels"].values
    one = data.sel(beta=beta)
    for i, n in enumerate(L):
        error = data["small_error"].values[-1, i]
        t = CURVE * middle(K, beta, int(n))
        curves.loglog(t, error, color=COLORS[i % 7], label=f"$L={n}$")
    draw_power(
        curves,
        t[t > 0.1 * t[-1]],
        0.6 * error[t > 0.1 * t[-1]][0],
        -beta / (1 + beta),
        "expected",
    )
    curves.set(xlabel=r"$\eta\,\alpha$", ylabel=ERROR)
    curves.legend(loc="lower left", fontsize=7)
    label_panel(curves, rf"$K=M={K}$, $\beta={beta:g}$, from small students")
    for i, units in enumerate(data["units"].values):
        row = one.sel(units=units)
        look = {"color": COLORS[i % 7], "linestyle": "none", "markersize": 4}
        slopes.semilogx(L, row["sum"], color=COLORS[i % 7], label=f"$K=M={units}$")
        slopes.semilogx(L, row["slope"], marker=MARKERS[0], **look)
        slopes.semilogx(
            L, row["small_slope"], marker=MARKERS[1], markerfacecolor="white", **look
        )
    for case in range(data.sizes["case"]):
        row = data.isel(case=case)
        slopes.plot(
            row["case_levels"],
            row["network"].mean(),
            "x",
            color=_color(data, int(row["case_units"])),
            markersize=5,
        )
    slopes.axhline(
        -beta / (1 + beta),
        color=FAINT,
        linestyle=DASHES[2],
        label=r"$-\beta/(1+\beta)$",
    )
    _marks(slopes)
    slopes.set(
        xlabel="levels $L$",
        ylabel="slope amid the window",
        ylim=(1.6 * float(one["sum"].min()), -0.4 * beta),
    )
    label_panel(slopes, rf"$\beta={beta:g}$")
    outside_legend(slopes)
    _draw_distance(distance, data)
    return figure


def _color(data: "Dataset", units: int) -> str:
    """That of this number of units among the lines, else that of the text."""
    return dict(zip(data["units"].values, COLORS, strict=False)).get(units, INK)


def _marks(panel: Any) -> None:
    """What the marks are, in the legend, once."""
    words = ("near the teachers", "after the plateau", "networks, $N=L$")
    for marker, face, word in zip(
        (MARKERS[0], MARKERS[1], "x"), (INK, "white", INK), words, strict=True
    ):
        panel.plot(
            [],
            [],
            color=INK,
            marker=marker,
            markerfacecolor=face,
            linestyle="none",
            markersize=4,
            label=word,
        )


def _draw_distance(panel: Any, data: "Dataset") -> None:
    L = data["levels"].values
    for i, b in enumerate(data["beta"].values):
        row = data.sel(beta=b).isel(units=0)
        exponent = -b / (1 + b)
        panel.loglog(
            L,
            np.abs(row["sum"] / exponent - 1),
            color=COLORS[i % 7],
            label=rf"$\beta={b:g}$",
        )
        look = {
            "color": COLORS[i % 7],
            "linestyle": "none",
            "marker": MARKERS[0],
            "markersize": 4,
        }
        panel.loglog(L, np.abs(row["slope"] / exponent - 1), **look)
        panel.loglog(
            L,
            np.abs(row["law"] / exponent - 1),
            color=COLORS[i % 7],
            linestyle=DASHES[1],
            linewidth=1.0,
        )
    panel.set(xlabel="levels $L$", ylabel="slope / exponent $-$ 1")
    label_panel(
        panel,
        rf"$K=M={int(data['units'][0])}$; dashed: closed form, $\sim L^{{-\beta/2}}$",
    )
    outside_legend(panel)


TWENTY_THREE = {"beta": 1.0, "near": 0.9, "own": 0.01, "seed": 0}

FIGURES = (
    Replica(
        id="power-23",
        source="power",
        figure="beyond the paper",
        title="late exponents of committees of up to 40 units on up to 4096 levels, from the equations",
        full=TWENTY_THREE
        | {
            "units": [2, 4, 10, 40],
            "levels": [64, 256, 1024, 4096],
            "betas": [0.5, 1.0, 1.5],
        }
        | {
            "networks": [
                [2, 512],
                [2, 4096],
                [4, 512],
                [10, 512],
                [40, 512],
                [40, 4096],
            ],
            "starts": 2,
        }
        | {"linear": [[2, 64], [2, 512], [4, 128]]},
        quick=TWENTY_THREE
        | {"units": [2, 40], "levels": [64, 1024], "betas": [0.5, 1.0, 1.5]}
        | {"networks": [[10, 256]], "starts": 3, "linear": [[2, 64]]},
        compute=compute_23,
        draw=draw_23,
        claims=claims_23,
    ),
)
