"""Figures 7 to 9 of the power-law paper: the error of a linear network on a power law.

As a sum over levels and as an integral, with corrections and bounds.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage_papers
from tutelage.plot import (
    ERROR,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close, refuted
from tutelage_papers.drawing import GUIDE, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SMALL_PRINT = (
    r"Linear network at a small rate. Dotted vertical line: the first time of the "
    r"power law, $1/(2\eta\lambda_1)$."
)


def compute_sum(
    levels: int,
    scale: float,
    betas: list[float],
    rates: list[float | None],
    points: int,
) -> "Dataset":
    """Return sum, integral, corrections and bounds for each (beta, rate).

    At times on both sides of the first one: x = 2 rate lam_1 alpha, and the power law is
    meant to begin at x = 1. A rate of None is 1/(2 lam_1).
    """
    import xarray as xr

    x = np.concatenate([[0.0], np.geomspace(1e-2, 30.0, points - 1)])
    cases: list[Dataset] = []
    for beta, rate in zip(betas, rates, strict=True):
        if rate is None:
            unit_rate = tutelage_papers.power_law.PowerLawSum(beta, levels, 1.0)
            rate = 1 / (2 * unit_rate.largest)
        law = tutelage_papers.power_law.PowerLawSum(beta, levels, rate, scale)
        cases.append(_case(law, x).assign(beta=beta, rate=rate))
    return xr.concat(cases, dim="case")


def _case(law: "tutelage_papers.power_law.PowerLawSum", x: np.ndarray) -> "Dataset":
    """Curves and numbers of one sum."""
    import xarray as xr

    first_time = law.window[0]
    times = x * first_time
    ends = law.corrections(times)
    data = xr.Dataset(coords={"x": x})
    data["alpha"] = ("x", times)
    data["sum"] = ("x", law.sum(times))
    data["integral"] = ("x", law.integral(times))
    data["ends"] = ("x", ends)
    data["next_term"] = ("x", law.corrections(times, order=1) - ends)
    data["half_first"] = ("x", law.half_first_term(times))
    # One gamma function alone is infinite at time zero.
    data["single_gamma"] = ("x", law.single_gamma(np.maximum(times, times[1])))
    data["zeta_gap"] = law.zeta_gap
    data["height"] = float(2 * law.half_first_term(0.0))
    data["gap_at_one"] = float(law.sum(first_time)) - _by_quadrature(law)
    return data


def _by_quadrature(law: "tutelage_papers.power_law.PowerLawSum") -> float:
    """The integral of f(k) from 1 to L at x = 1, by adaptive quadrature.

    No gamma functions.
    """
    from scipy.integrate import quad

    height = float(2 * law.half_first_term(0.0))

    def f(k: float) -> float:
        eigenvalue = k ** -(1 + law.beta)
        return height * eigenvalue * np.exp(-eigenvalue)

    return quad(f, 1.0, float(law.levels), epsabs=0.0, epsrel=1e-11, limit=200)[0]


def claims_7(data: "Dataset") -> Iterator[Claim]:
    """Compare corrections, bounds, and the learning rate that the caption prints."""
    left = data.isel(case=0)
    right = data.isel(case=1)
    as_printed = close(
        "learning rate 1/(2 lam_1) of the left panel",
        left["rate"],
        0.001,
        rel=0.05,
        says="η = 1/(2λ₊) ≈ 0.001",
    )
    yield refuted(
        as_printed,
        evidence="a unit mean eigenvalue fixes lam_1 = 52.55 at L = 128, beta = 0.5; the "
        "caption's own right panel agrees",
    )
    yield close(
        "first time of the right panel",
        right["alpha"].interp(x=1.0),
        950.0,
        rel=0.01,
        says="α = 1/(2ηλ₊) ≈ 950",
    )
    yield from _sum_claims(left, "as functions of 2 eta lam_1 alpha")


def claims_8(data: "Dataset") -> Iterator[Claim]:
    """Compare corrections and bounds for two exponents."""
    for i, beta in enumerate(data["beta"].values):
        yield from _sum_claims(data.isel(case=i), f"beta = {beta:g}")


def _sum_claims(case: "Dataset", name: str) -> Iterator[Claim]:
    """The rest after the corrections, the bound that holds, and the one that fails."""
    x = case["x"].values
    gap = (case["sum"] - case["integral"]).values
    rest = np.abs(gap - case["ends"].values)
    early = x <= 0.5
    words = f"share of the gap left by the 0th order at early times, {name}"
    yield at_most(words, np.max(rest[early] / gap[early]), 0.3)
    next_term = np.abs(case["next_term"].values)
    words = (
        "largest gap left by the 0th order over the largest next term of eq. 48, "
        f"{name}"
    )
    yield at_most(words, rest.max() / next_term.max(), 1.0)
    words = f"largest gap of sum and integral over the zeta bound, {name}"
    yield at_most(words, np.max(gap) / case["zeta_gap"], 1.0)
    words = f"gap of sum and integral at time zero over the zeta bound, {name}"
    yield close(words, gap[0] / case["zeta_gap"], 1.0, rel=0.01)
    yield _bound_claim(case, name)


def _bound_claim(case: "Dataset", name: str) -> Claim:
    """The bound f(1)/2 of eq. 49 is broken."""
    x = case["x"].values
    gap = (case["sum"] - case["integral"]).values
    bound = case["half_first"].values
    later = x >= 1.0
    broken = np.mean(gap[later] > bound[later])
    # Even twice the bound is broken from here on.
    literal = x[later & (gap > 2 * bound)].min()
    half = np.exp(-1.0) / 2 * float(case["height"])
    holds = at_most(
        f"gap of sum and integral at the first time over f(1)/2 of eq. 49, {name}",
        case["gap_at_one"] / half,
        1.0,
        says="sum − integral < f(1)/2 for η > 1/(2λ₊α)",
    )
    return refuted(
        holds,
        evidence="adaptive quadrature without gamma functions; f(1)/2 is broken at "
        f"{100 * broken:.0f}% of the times from the first to thirty times it, and even "
        f"f(1), the bound with the printed prefactor, from x = {literal:.1f} on",
    )


def compute_9(
    levels: int, scale: float, betas: list[float], rate: float, points: int
) -> "Dataset":
    """Return sum, integral, and the integral without its second gamma function."""
    return compute_sum(levels, scale, betas, [rate] * len(betas), points)


def claims_9(data: "Dataset") -> Iterator[Claim]:
    """Compare one gamma function with the sum and with two; see where it stops."""
    for i, beta in enumerate(data["beta"].values):
        case = data.isel(case=i, x=slice(1, None))
        yield from _single_gamma_claims(case, f"beta = {beta:g}")


def _single_gamma_claims(case: "Dataset", name: str) -> Iterator[Claim]:
    """One gamma function (eq. 52) for one exponent."""
    x = case["x"].values
    single = case["single_gamma"].values
    to_sum = np.abs(single / case["sum"].values - 1)
    to_integral = single / case["integral"].values - 1
    words = f"error of eq. 52 against the sum after the first time, {name}"
    yield at_most(words, to_sum[x >= 1].max(), 0.1)
    words = f"error of eq. 52 against eq. 50 after three first times, {name}"
    yield at_most(words, to_integral[x >= 3].max(), 0.02)
    # Further on the difference is rounding.
    later = (x >= 1) & (x <= 20)
    exponential = to_integral[later][0] * np.exp(x[later][0] - x[later])
    falls = to_integral[later] / exponential
    words = f"that error over exp(-x), from the first time to twenty times it, {name}"
    yield at_most(words, falls.max(), 1.0)
    words = f"eq. 52 over eq. 50 at a hundredth of the first time, {name}"
    yield above(words, 1 + to_integral[0], 1.5)


def draw_corrections(data: "Dataset") -> "Figure":
    """Draw the curves, and below them the rest of the gap after each correction."""
    title = "A sum over levels, its integral, and what Euler and Maclaurin add"
    figure, axes = panel_grid(2, 2, title, SMALL_PRINT, height=2.5)
    for i in range(2):
        case = data.isel(case=i, x=slice(1, None))
        curves, gaps = axes[:, i]
        _draw_corrected(curves, gaps, case)
        curves.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        gaps.set(xlabel=TIME, ylabel="|sum − form| / sum", ylim=(1e-6, 10))
        gaps.set(xscale="log", yscale="log")
        rate = float(case["rate"])
        label_panel(curves, rf"$\beta = {float(case['beta']):g}$, $\eta = {rate:.2g}$")
    outside_legend(axes[0, 1])
    return figure


def _draw_corrected(curves: Any, gaps: Any, case: "Dataset") -> None:
    """The sum and its approximations, and their relative distances from it."""
    times = case["alpha"].values
    total = case["sum"].values
    middle = case["integral"].values
    approximations = {
        "integral": middle,
        "+ f(1)/2 (eq. 49)": middle + case["half_first"].values,
        "+ zeta bound": middle + float(case["zeta_gap"]),
        "+ 0th order": middle + case["ends"].values,
    }
    dashes = (1, 0, 3, 2)
    curves.plot(times, total, label="sum (eq. 47)", **line_of(0))
    for i, (label, curve) in enumerate(approximations.items()):
        line = line_of(i + 1, dashes[i])
        curves.plot(times, curve, label=label, **line)
        gaps.plot(times, np.abs(total - curve) / total, label=label, **line)
    first_time = times[0] / float(case["x"][0])
    for panel in (curves, gaps):
        panel.axvline(first_time, **GUIDE)


def draw_9(data: "Dataset") -> "Figure":
    """Draw sum, integral, and one gamma function."""
    title = "One incomplete gamma function is enough once learning has begun"
    figure, axes = panel_grid(1, 2, title, SMALL_PRINT, height=2.8)
    labels = {
        "sum": "sum (eq. 47)",
        "integral": "two gammas (eq. 50)",
        "single_gamma": "one gamma (eq. 52)",
    }
    for i in range(2):
        case = data.isel(case=i, x=slice(1, None))
        panel = axes[0, i]
        for look, (name, label) in enumerate(labels.items()):
            panel.plot(case["alpha"], case[name], label=label, **line_of(look))
        panel.axvline(float(case["alpha"][0] / case["x"][0]), **GUIDE)
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        panel.set_ylim(None, 2.0)
        rate = float(case["rate"])
        label_panel(panel, rf"$\beta = {float(case['beta']):g}$, $\eta = {rate:g}$")
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
        title="linear network: the sum over levels against its integral, with "
        "corrections and bounds",
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
        title="the same at a common learning rate, for a steep and a nearly flat "
        "spectrum",
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
