"""Figures 5 and 19 of the power-law paper: how fast the plateau is left, by the number of units and of levels.

Eq. 15 needs teachers whose rows of T^(2) are alike. With as many levels as inputs T^(2) does not concentrate, however large
N is: its largest eigenvalue, and with it the fastest parting of the units, is many times the mean, as the first level alone,
lam_1^2 w*_1 w*_1^T / N, makes it (M-1) lam_1^2 / sum_l lam_l^2 times: M/L instead of M^2/L. Terms of order eta only.
"""

from typing import TYPE_CHECKING, Any

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
    from xarray import Dataset

LINEAR = (
    1e-3,
    2e-2,
)  # distance of the units between which their parting is exponential
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
    """Flows by M at L = N = dim and by L at M = few, N = few_dim; exact and closed rates of `draws` teachers."""
    import xarray as xr

    shared = (beta, lr, scale)
    by_units = [
        _flows(M, dim, dim, *shared, end, starts, seed)
        for M, end in zip(units, ends, strict=True)
    ]
    by_levels = [
        _flows(few, L, few_dim, *shared, end, starts, seed)
        for L, end in zip(levels, few_ends, strict=True)
    ]
    smallest = min(levels)
    exact_M, closed_M = zip(
        *[_rates(M, dim, dim, beta, lr, draws, seed) for M in units], strict=True
    )
    exact_L, closed_L = zip(
        *[_rates(few, L, few_dim, beta, lr, draws, seed) for L in levels], strict=True
    )
    over = [
        np.divide(*_rates(few, smallest, smallest * r, beta, lr, draws, seed))
        for r in ratios
    ]
    return xr.Dataset(
        {
            **_columns(by_units, "units", ends),
            **_columns(by_levels, "levels", few_ends),
            "rates_units": (("units", "draw"), np.array(exact_M)),
            "closed_units": (("units", "draw"), np.array(closed_M)),
            "rates_levels": (("levels", "draw"), np.array(exact_L)),
            "closed_levels": (("levels", "draw"), np.array(closed_L)),
            "over_ratios": (("ratio", "draw"), np.array(over)),
            "share": 1
            / np.sum(
                np.arange(1.0, dim + 1) ** (-2 - 2 * beta)
            ),  # of the first level in sum_l lam_l^2
        },
        coords={"units": units, "levels": levels, "ratio": ratios},
    )


def _flows(
    M: int,
    L: int,
    N: int,
    beta: float,
    lr: float,
    scale: float,
    end: float,
    starts: int,
    seed: int,
) -> dict[str, Any]:
    """Of several starts: e_g of the first; while units part exponentially, fitted rates and those of the Jacobian."""
    rows = [_flow(M, L, N, beta, lr, scale, end, seed + i) for i in range(starts)]
    names = ("error", "fitted", "jacobian", "same")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)} | {
        "error": rows[0][0]
    }


def _flow(
    M: int, L: int, N: int, beta: float, lr: float, scale: float, end: float, seed: int
) -> tuple[Any, ...]:
    """e_g; the rate of parting late in its exponential stage; the Jacobian's at the mean student; eq. 15's."""
    rng = np.random.default_rng(seed)
    problem = tutelage_papers.power_law.committee(M, inputs=tu.PowerLaw(beta, L), lr=lr)
    weights = scale * rng.standard_normal((M, N)), rng.standard_normal((M, N))
    times = np.linspace(0.0, end, POINTS)
    flow = tutelage_papers.power_law.weight_flow(problem, weights, times, rtol=1e-5)
    size = flow.asymmetry
    growing = (
        (size > 100 * scale)
        & (size < LINEAR[1])
        & (np.cumsum(size > LINEAR[1]) == 0)
        & (times > 0)
    )
    chosen = np.flatnonzero(growing)
    half = chosen[len(chosen) // 2 :]
    rates = [
        flow.specialization_rates(int(i))[0] for i in half[:: max(1, len(half) // 4)]
    ]
    return (
        np.asarray(flow.trajectory.error),
        growth_rate(times, size, np.isin(np.arange(times.size), half)),
        float(np.mean(rates)),
        1
        / tutelage_papers.power_law.plateau_formulas(
            problem, tu.start_from_weights(problem, *weights)
        ).time_constant,
    )


def _columns(
    rows: list[dict[str, Any]], axis: str, ends: list[float]
) -> dict[str, Any]:
    return {
        f"error_{axis}": ((axis, "point"), np.array([row["error"] for row in rows])),
        f"end_{axis}": (axis, ends),
        f"fitted_{axis}": ((axis, "start"), np.array([row["fitted"] for row in rows])),
        f"jacobian_{axis}": (
            (axis, "start"),
            np.array([row["jacobian"] for row in rows]),
        ),
        f"same_{axis}": ((axis, "start"), np.array([row["same"] for row in rows])),
    }


def _rates(
    M: int, L: int, N: int, beta: float, lr: float, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fastest rate of the exact plateau, and that of eq. 15, for several teachers."""
    problem = tutelage_papers.power_law.committee(M, inputs=tu.PowerLaw(beta, L), lr=lr)
    starts = [tu.random_start(problem, dim=N, seed=seed + i) for i in range(draws)]
    exact = [
        tutelage_papers.power_law.symmetric_plateau(problem, start).rate
        for start in starts
    ]
    return np.array(exact), np.array(
        [
            1 / tutelage_papers.power_law.plateau_formulas(problem, start).time_constant
            for start in starts
        ]
    )


def _exponents(x: Any, rates: Any) -> tuple[float, float]:
    """d ln(1/rate) / d ln x, mean over teachers, and its standard error."""
    each = -np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(rates)), 1)[0]
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(each.size))


def claims_5(data: "Dataset") -> list[Claim]:
    """Rates are those of the Jacobian; eq. 15 and M^2 / L are not."""
    out = []
    for axis in ("units", "levels"):
        gap = np.abs(
            data[f"fitted_{axis}"].values / data[f"jacobian_{axis}"].values - 1
        )
        out.append(
            at_most(
                f"growth against the Jacobian at the mean student, by {axis}: largest gap",
                float(gap.max()),
                0.03,
            )
        )
    over = (data["rates_units"] / data["closed_units"]).values
    typical = np.exp(np.log(over).mean(axis=1))
    far = np.exp(np.log(data["over_ratios"].values).mean(axis=1))
    (by_M, error), (by_L, _) = (
        _exponents(data[x], data[f"{y}_{x}"])
        for x, y in (("units", "fitted"), ("levels", "rates"))
    )
    (exact, exact_error), (closed, _) = (
        _exponents(data["units"], data[f"{y}_units"]) for y in ("rates", "closed")
    )
    measured = (data["fitted_units"] / data["same_units"]).values
    expected = float(data["share"]) * (data["units"].values - 1.0)
    seen = f"{by_M:.2f} +- {error:.2f} in {data.sizes['start']} flows each, whose growth is that of the Jacobian"
    return [
        *out,
        refuted(
            at_most(
                "L = N: fastest rate over that of eq. 15, typical at each M, smallest",
                float(typical.min()),
                1.05,
            ),
            evidence=f"ratios {typical.min():.2g} to {over.max():.2g}: T^(2) is far from alike rows; it falls to "
            f"{far[-1]:.3g} at N/L = {int(data['ratio'][-1])}",
        ),
        between("the same ratio at the largest N/L", float(far[-1]), 1.0, 1.15),
        above(
            "the same ratio: smallest N/L over largest N/L",
            float(far[0] / far[-1]),
            1.3,
        ),
        above(
            "growth in the flows over eq. 15 of their own teachers: smallest of all",
            float(measured.min()),
            1.0,
        ),
        close(
            "typical ratio of the fastest rate to eq. 15 over (M-1) lam_1^2 / sum_l lam_l^2, mean over M",
            float(np.mean(over.mean(axis=1) / expected)),
            1.0,
            rel=0.2,
            evidence=f"the first level is one direction of T^(2); flows: {measured.min():.2g} to {measured.max():.2g} "
            "times eq. 15",
        ),
        close(
            "exponent of the escape time in M at L = N, exact plateaus",
            exact,
            0.9,
            absolute=0.25,
            evidence=f"standard error {exact_error:.2f} over teachers; flows {seen}",
        ),
        refuted(
            close(
                "exponent of the escape time in M at L = N, as printed",
                by_M,
                2.0,
                absolute=0.25,
                says="M^2/(eta L)",
            ),
            evidence=f"{seen}; exact plateaus {exact:.2f} +- {exact_error:.2f}; eq. 15 itself {closed:.2g}",
        ),
        close(
            "exponent of the escape time in L, exact plateaus",
            by_L,
            -1.0,
            absolute=0.25,
        ),
    ]


def draw_5(data: "Dataset") -> "Figure":
    """e_g by M and by L; the rate over that of eq. 15."""
    figure, axes = panel_grid(
        1,
        3,
        "Leaving the plateau: many units, many levels",
        SETTING,
        height=3.2,
        width=11.0,
    )
    for axis, panel, letter in (
        ("units", axes[0, 0], "M"),
        ("levels", axes[0, 1], "L"),
    ):
        for i, n in enumerate(data[axis].values):
            error = data[f"error_{axis}"].values[i]
            end = float(data[f"end_{axis}"][i])
            panel.plot(
                np.linspace(0, end, error.size),
                error,
                color=COLORS[i % 7],
                label=f"${letter}={n}$",
            )
        panel.set(
            xlabel=TIME,
            ylabel=ERROR,
            ylim=(0, 1.7 * float(np.median(data[f"error_{axis}"]))),
        )
        panel.legend(loc="upper right", fontsize=7, ncols=2)
    ratio = axes[0, 2]
    far = data["over_ratios"].values
    over = (data["rates_units"] / data["closed_units"]).values
    ratio.loglog(
        data["ratio"],
        np.exp(np.log(far).mean(axis=1)),
        color=COLORS[0],
        marker=MARKERS[0],
        label="against $N/L$",
    )
    ratio.loglog(
        data["ratio"], far, color=COLORS[0], marker=".", linestyle="none", alpha=0.25
    )
    mean = np.exp(np.log(over).mean(axis=1))
    ratio.loglog(
        data["units"],
        mean,
        color=COLORS[1],
        marker=MARKERS[1],
        linestyle=DASHES[1],
        label="against $M$, $L=N$",
    )
    ratio.axhline(1.0, color=FAINT)
    ratio.set(
        xlabel="$N/L$ or $M$", ylabel="fastest rate / rate of eq. 15", xmargin=0.05
    )
    ratio.legend(loc="upper right", fontsize=7)
    return figure


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
    """Plateau lengths by L at M = few and by M at L = many; `total`: levels of the common shape. begin: alpha_0."""
    import xarray as xr

    largest = max(*units, few)
    cases = [(few, L, ends[0]) for L in levels] + [(M, many, ends[1]) for M in units]
    rows = [
        _length(M, L, largest, total, beta, dim, scale, lr, begin, end, seed)
        for M, L, end in cases
    ]
    names = [f"L={L}" for L in levels] + [f"M={M}" for M in units]
    data = xr.concat(
        [xr.Dataset(row) for row in rows],
        dim=xr.DataArray(names, dims="case", name="case"),
    )
    return data.assign(
        begin=begin,
        few=few,
        levels=("level_case", levels),
        units=("unit_case", units),
        dim=dim,
    )


def _length(
    M: int,
    L: int,
    largest: int,
    total: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    begin: float,
    end: float,
    seed: int,
) -> dict[str, Any]:
    """One start: e_g, how long its largest overlap takes to grow by B = (e - 1) R*, or half the way to T; rates."""
    times = tu.linear_times(end, 701)
    inputs = split_power_law(beta, L, total)
    padded = padded_committee(M, largest, inputs, lr)
    problem = tutelage_papers.power_law.committee(M, inputs=inputs, lr=lr)
    start = tu.random_start(padded, dim=dim, scale=scale, seed=seed)
    curve = tu.solve(padded, start, times, gradient_flow=True, keep="blocks")
    R = curve.R[:, :M, :M]
    r, q, t = start.blocks(padded)
    alone = tu.Start(r[:, :M, :M], q[:, :M, :M], t[:, :M, :M])
    closed = tutelage_papers.power_law.plateau_formulas(problem, alone)
    exact = tutelage_papers.power_law.symmetric_plateau(problem, alone)
    size = unit_spread(R)
    first = int(np.searchsorted(times, begin))
    height = float(R[first].mean())
    far = min(
        (np.e - 1) * height, (float(np.mean(np.diag(closed.moments[0]))) - height) / 2
    )
    reached = R.max(axis=(1, 2)) > height + far
    growing = (
        (size > LINEAR[0])
        & (size < LINEAR[1])
        & (times > begin)
        & (np.cumsum(size > LINEAR[1]) == 0)
    )
    return {
        "time": ("point", times),
        "error": ("point", curve.error),
        "length": float(times[np.argmax(reached)] - begin) if reached.any() else np.nan,
        "log": float(np.log(far / size[first])),
        "tau": closed.time_constant,
        "fitted": growth_rate(times, size, growing),
        "fastest": exact.rates[0],
        "slowest": exact.rates[M - 2],
    }


def claims_19(data: "Dataset") -> list[Claim]:
    """Trends of the length, the ratio to tau ln(B / sigma_P), and time constants against the exact plateau."""
    by_L = data.isel(case=slice(0, data.sizes["level_case"]))
    by_M = data.isel(case=slice(data.sizes["level_case"], None))
    predicted = (data["tau"] * data["log"]).values
    ratio = data["length"].values / predicted
    printed = data["length"].values / (
        data["tau"].values * (data["log"].values + 0.5 * np.log(float(data["dim"])))
    )
    fitted = data["fitted"].values
    outside = (
        np.maximum(fitted / data["fastest"].values, data["slowest"].values / fitted) - 1
    )
    return [
        below(
            "length at the largest L over that at the smallest",
            float(by_L["length"][-1] / by_L["length"][0]),
            1.0,
        ),
        above(
            "length at the largest M over that at the smallest",
            float(by_M["length"][-1] / by_M["length"][0]),
            1.0,
        ),
        close(
            "length over tau ln(B / sigma_P), mean over all",
            float(ratio.mean()),
            1.0,
            rel=0.15,
        ),
        refuted(
            close(
                "length over eq. 117 with its (1/2) ln N, mean over all",
                float(printed.mean()),
                1.0,
                rel=0.15,
            ),
            evidence="without that term the ratio is near one for every L and M",
        ),
        at_most(
            "fitted rates outside the exact rates of the plateau: largest share",
            float(outside.max()),
            0.05,
        ),
    ]


def draw_19(data: "Dataset") -> "Figure":
    """e_g by L and by M with predicted ends of the plateau."""
    begin = float(data["begin"])
    count = data.sizes["level_case"]
    small = SETTING + r"; vertical: $\alpha_0+\tau\,\ln(B/\sigma_P)$"
    figure, axes = panel_grid(
        1,
        2,
        "Lengths of plateaus, predicted from their beginning",
        small,
        height=3.2,
        width=10.5,
    )
    for panel, rows in (
        (axes[0, 0], data.isel(case=slice(0, count))),
        (axes[0, 1], data.isel(case=slice(count, None))),
    ):
        for i, case in enumerate(rows["case"].values):
            row = rows.sel(case=case)
            panel.plot(
                row["time"], row["error"], color=COLORS[i % 7], label=f"${case}$"
            )
            panel.axvline(
                begin + float(row["tau"] * row["log"]),
                color=COLORS[i % 7],
                linestyle=DASHES[1],
                linewidth=1.0,
            )
        panel.axvline(begin, color=FAINT)
        panel.set(
            xlabel=TIME,
            ylabel=ERROR,
            ylim=(0, 1.6 * float(rows["error"].isel(point=100).max())),
        )
        outside_legend(panel)
    label_panel(axes[0, 0], f"$K=M={int(data['few'])}$")
    return figure


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
        title="leaving the plateau with many units and many levels: rates against eq. 15",
        full=FIVE
        | {
            "units": [6, 8, 10, 32, 40],
            "dim": 512,
            "ends": [8000.0, 8000.0, 12000.0, 24000.0, 32000.0],
        }
        | {
            "levels": [25, 50, 100, 250, 500],
            "few_dim": 500,
            "few_ends": [70000.0, 50000.0, 25000.0, 12000.0, 8000.0],
        }
        | {"ratios": [1, 4, 16, 64, 250, 1000], "draws": 12, "starts": 4},
        quick=FIVE
        | {"few": 4, "units": [4, 12], "dim": 128, "ends": [12000.0, 24000.0]}
        | {
            "levels": [16, 64, 128],
            "few_dim": 128,
            "few_ends": [60000.0, 24000.0, 12000.0],
        }
        | {"ratios": [1, 30, 1000], "draws": 10, "starts": 6},
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
