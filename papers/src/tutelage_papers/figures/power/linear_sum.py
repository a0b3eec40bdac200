"""The error of a linear network on a power law, as a sum over levels and as an integral: corrections and bounds."""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close, refuted
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def compute_sum(
    levels: int,
    scale: float,
    betas: list[float],
    rates: list[float | None],
    points: int,
) -> "Dataset":
    """One case for each (beta, rate): sum, integral, corrections and bounds at times on both sides of the first one.

    A rate of None is 1/(2 lam_1). x = 2 rate lam_1 alpha: the power law is meant to begin at x = 1.
    """
    import xarray as xr

    x = np.concatenate([[0.0], np.geomspace(1e-2, 30.0, points - 1)])
    cases: list[Dataset] = []
    for beta, given in zip(betas, rates, strict=True):
        rate = (
            1 / (2 * tutelage_papers.power_law.PowerLawSum(beta, levels, 1.0).largest)
            if given is None
            else given
        )
        law = tutelage_papers.power_law.PowerLawSum(beta, levels, rate, scale)
        times = x * law.window[0]
        ends = law.corrections(times)
        curves = {
            "alpha": times,
            "sum": law.sum(times),
            "integral": law.integral(times),
            "ends": ends,
            "next_term": law.corrections(times, order=1) - ends,
            "half_first": law.half_first_term(times),
            "single_gamma": law.single_gamma(np.maximum(times, times[1])),
        }
        numbers = {
            "beta": beta,
            "rate": rate,
            "zeta_gap": law.zeta_gap,
            "height": float(2 * law.half_first_term(0.0)),
        }
        numbers["gap_at_one"] = float(law.sum(law.window[0])) - _by_quadrature(law)
        cases.append(
            xr.Dataset(
                {name: ("x", curve) for name, curve in curves.items()} | numbers,
                coords={"x": x},
            )
        )
    return xr.concat(cases, dim="case")


def _by_quadrature(law: "tutelage_papers.power_law.PowerLawSum") -> float:
    """The integral of f(k) from 1 to L at x = 1, by adaptive quadrature: no gamma functions."""
    from scipy.integrate import quad

    height = float(2 * law.half_first_term(0.0))
    f = lambda k: height * k ** -(1 + law.beta) * np.exp(-(k ** -(1 + law.beta)))  # noqa: E731
    return quad(f, 1.0, float(law.levels), epsabs=0.0, epsrel=1e-11, limit=200)[0]


def claims_7(data: "Dataset") -> list[Claim]:
    """Corrections, bounds, and the learning rate that the caption prints."""
    left = data.isel(case=0)
    right = data.isel(case=1)
    return [
        refuted(
            close(
                "learning rate 1/(2 lam_1) of the left panel",
                float(left["rate"]),
                0.001,
                rel=0.05,
                says="η = 1/(2λ₊) ≈ 0.001",
            ),
            "a unit mean eigenvalue fixes lam_1 = 52.55 at L = 128, beta = 0.5; the caption's own right panel agrees",
        ),
        close(
            "first time of the right panel",
            float(right["alpha"].interp(x=1.0)),
            950.0,
            rel=0.01,
            says="α = 1/(2ηλ₊) ≈ 950",
        ),
        *_sum_claims(left, "as functions of 2 eta lam_1 alpha"),
    ]


def claims_8(data: "Dataset") -> list[Claim]:
    """Corrections and bounds for two exponents."""
    return [
        claim
        for i in range(2)
        for claim in _sum_claims(
            data.isel(case=i), f"beta = {float(data['beta'][i]):g}"
        )
    ]


def _sum_claims(case: "Dataset", name: str) -> list[Claim]:
    """What the corrections leave, the bound that holds, and the one that does not."""
    gap = (case["sum"] - case["integral"]).values
    x = case["x"].values
    left = np.abs(gap - case["ends"].values)
    later = x >= 1.0
    next_term = np.abs(case["next_term"].values)
    early = x <= 0.5
    half = np.exp(-1.0) / 2 * float(case["height"])
    broken = np.mean(gap[later] > case["half_first"].values[later])
    literal = x[later & (gap > 2 * case["half_first"].values)].min()
    return [
        at_most(
            f"share of the gap left by the 0th order at early times, {name}",
            np.max(left[early] / gap[early]),
            0.3,
        ),
        at_most(
            f"largest gap left by the 0th order over the largest next term of eq. 48, {name}",
            left.max() / next_term.max(),
            1.0,
        ),
        at_most(
            f"largest gap of sum and integral over the zeta bound, {name}",
            np.max(gap) / float(case["zeta_gap"]),
            1.0,
        ),
        close(
            f"gap of sum and integral at time zero over the zeta bound, {name}",
            gap[0] / float(case["zeta_gap"]),
            1.0,
            rel=0.01,
        ),
        refuted(
            at_most(
                f"gap of sum and integral at the first time over f(1)/2 of eq. 49, {name}",
                float(case["gap_at_one"]) / half,
                1.0,
                says="sum − integral < f(1)/2 for η > 1/(2λ₊α)",
            ),
            f"adaptive quadrature without gamma functions; f(1)/2 is broken at {100 * broken:.0f}% of the times from the "
            f"first to thirty times it, and even f(1), the bound with the printed prefactor, from x = {literal:.1f} on",
        ),
    ]


def compute_9(
    levels: int, scale: float, betas: list[float], rate: float, points: int
) -> "Dataset":
    """Sum, integral, and the integral without its second gamma function."""
    return compute_sum(levels, scale, betas, [rate] * len(betas), points)


def claims_9(data: "Dataset") -> list[Claim]:
    """How good one gamma function is, and where it stops."""
    claims = []
    for i, beta in enumerate(data["beta"].values):
        case = data.isel(case=i, x=slice(1, None))
        x = case["x"].values
        single = case["single_gamma"].values
        to_sum = np.abs(single / case["sum"].values - 1)
        to_integral = single / case["integral"].values - 1
        later = (x >= 1) & (x <= 20)  # further on the difference is rounding
        falls = to_integral[later] / (
            to_integral[later][0] * np.exp(x[later][0] - x[later])
        )
        claims += [
            at_most(
                f"error of eq. 52 against the sum after the first time, beta = {beta:g}",
                to_sum[x >= 1].max(),
                0.1,
            ),
            at_most(
                f"error of eq. 52 against eq. 50 after three first times, beta = {beta:g}",
                to_integral[x >= 3].max(),
                0.02,
            ),
            at_most(
                f"that error over exp(-x), from the first time to twenty times it, beta = {beta:g}",
                falls.max(),
                1.0,
            ),
            above(
                f"eq. 52 over eq. 50 at a hundredth of the first time, beta = {beta:g}",
                1 + to_integral[0],
                1.5,
            ),
        ]
    return claims


def draw_corrections(data: "Dataset") -> "Figure":
    """The curves, and below them what is left of the gap after each correction."""
    small = r"Linear network at a small rate. Dotted vertical line: the first time of the power law, $1/(2\eta\lambda_1)$."
    figure, axes = panel_grid(
        2,
        2,
        "A sum over levels, its integral, and what Euler and Maclaurin add",
        small,
        height=2.5,
    )
    for i in range(2):
        case = data.isel(case=i, x=slice(1, None))
        times = case["alpha"].values
        total = case["sum"].values
        middle = case["integral"].values
        ends = case["ends"].values
        zeta_gap = float(case["zeta_gap"])
        lines = (
            ("sum (eq. 47)", total),
            ("integral", middle),
            ("+ f(1)/2 (eq. 49)", middle + case["half_first"].values),
            ("+ zeta bound", middle + zeta_gap),
            ("+ 0th order", middle + ends),
        )
        for look, (label, curve) in enumerate(lines):
            style = {
                "color": COLORS[look],
                "linestyle": DASHES[(0, 1, 0, 3, 2)[look]],
                "label": label,
            }
            axes[0, i].plot(times, curve, **style)
            if look:
                axes[1, i].plot(times, np.abs(total - curve) / total, **style)
        axes[0, i].set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        axes[1, i].set(
            xlabel=TIME,
            ylabel="|sum − form| / sum",
            xscale="log",
            yscale="log",
            ylim=(1e-6, 10),
        )
        label_panel(
            axes[0, i],
            rf"$\beta = {float(case['beta']):g}$, $\eta = {float(case['rate']):.2g}$",
        )
        for panel in axes[:, i]:
            panel.axvline(
                times[0] / float(case["x"][0]), color=FAINT, linestyle=DASHES[2]
            )
    outside_legend(axes[0, 1])
    return figure


def draw_9(data: "Dataset") -> "Figure":
    """Sum, integral, one gamma function."""
    small = r"Linear network at a small rate. Dotted vertical line: the first time of the power law, $1/(2\eta\lambda_1)$."
    figure, axes = panel_grid(
        1,
        2,
        "One incomplete gamma function is enough once learning has begun",
        small,
        height=2.8,
    )
    for i in range(2):
        case = data.isel(case=i, x=slice(1, None))
        curves = (
            ("sum (eq. 47)", "sum"),
            ("two gammas (eq. 50)", "integral"),
            ("one gamma (eq. 52)", "single_gamma"),
        )
        for look, (label, name) in enumerate(curves):
            axes[0, i].plot(
                case["alpha"],
                case[name],
                color=COLORS[look],
                linestyle=DASHES[look],
                label=label,
            )
        axes[0, i].axvline(
            float(case["alpha"][0] / case["x"][0]), color=FAINT, linestyle=DASHES[2]
        )
        axes[0, i].set(
            xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log", ylim=(None, 2.0)
        )
        label_panel(
            axes[0, i],
            rf"$\beta = {float(case['beta']):g}$, $\eta = {float(case['rate']):g}$",
        )
    outside_legend(axes[0, 1])
    return figure


COMMON: dict[str, Any] = {"levels": 128, "scale": 1.0}
SEVEN = COMMON | {"betas": [0.5, 0.5], "rates": [None, 1e-5]}
EIGHT = COMMON | {"betas": [0.5, 0.01], "rates": [0.01, 0.01]}
NINE = COMMON | {"betas": [1.0, 0.01], "rate": 0.01}

FIGURES = (
    Replica(
        id="power-7",
        source="power",
        figure="Fig. 7",
        title="linear network: the sum over levels against its integral, with corrections and bounds",
        full=SEVEN | {"points": 1000},
        quick=SEVEN | {"points": 300},
        compute=compute_sum,
        draw=draw_corrections,
        claims=claims_7,
    ),
    Replica(
        id="power-8",
        source="power",
        figure="Fig. 8",
        title="the same at a common learning rate, for a steep and a nearly flat spectrum",
        full=EIGHT | {"points": 1000},
        quick=EIGHT | {"points": 300},
        compute=compute_sum,
        draw=draw_corrections,
        claims=claims_8,
    ),
    Replica(
        id="power-9",
        source="power",
        figure="Fig. 9",
        title="the integral with one incomplete gamma function instead of two",
        full=NINE | {"points": 1000},
        quick=NINE | {"points": 300},
        compute=compute_9,
        draw=draw_9,
        claims=claims_9,
    ),
)
