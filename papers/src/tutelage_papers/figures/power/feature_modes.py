"""The modes of a linear network at any learning rate: decay rates and shares, in float64 against long arithmetic."""

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
from tutelage_papers.figures.power.linear_units import moment_modes, secular_modes
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

MODE = r"mode $k$"
EQUAL = 1e-8
SPREAD = 0.25  # variance of the student's first weights where R and Q are compared


def modes_of(
    levels: int, beta: float, rate: float
) -> "tutelage_papers.power_law.LinearModes":
    """The modes of one linear unit on a power law."""
    linear = tu.Network(1, "linear")
    problem = tu.Problem(
        linear, linear, inputs=tu.PowerLaw(beta, levels), optimizer=tu.SGD(rate)
    )
    return tutelage_papers.power_law.linear_network(problem).modes


def compute_modes(
    cases: list[list[float]],
    levels: list[int],
    checked: list[int],
    digits: int,
    moment_digits: int,
    printed: list[float],
) -> "Dataset":
    """Modes for each case (beta, rate) and number of levels; for `checked` levels the largest gaps to long arithmetic."""
    import xarray as xr

    shape = (len(cases), len(levels), max(levels))
    found = {
        name: np.full(shape, np.nan) for name in ("eigenvalues", "coefficients", "data")
    }
    gaps = {
        name: np.zeros((len(cases), len(checked)))
        for name in ("secular_gap", "moment_gap", "short_gap", "shift_gap")
    }
    for i, (beta, rate) in enumerate(cases):
        for j, L in enumerate(levels):
            modes = modes_of(L, beta, rate)
            for name, values in (
                ("eigenvalues", modes.eigenvalues),
                ("coefficients", modes.coefficients),
            ):
                found[name][i, j, :L] = values
            found["data"][i, j, :L] = modes.levels
        for j, L in enumerate(checked):
            modes = modes_of(L, beta, rate)
            own = np.array([modes.eigenvalues, modes.coefficients])
            setting = (L, beta, rate)
            exact = secular_modes(*setting, digits, modes.eigenvalues)
            gaps["secular_gap"][i, j] = _gap(own, exact)
            gaps["moment_gap"][i, j] = _gap(
                own, moment_modes(*setting, moment_digits, modes.eigenvalues)
            )
            gaps["short_gap"][i, j] = _gap(
                own, moment_modes(*setting, digits, modes.eigenvalues)
            )
            gaps["shift_gap"][i, j] = _gap(
                2 * modes.levels - own[0], 2 * modes.levels - exact[0]
            )
    return xr.Dataset(
        {name: (("case", "levels", "k"), values) for name, values in found.items()}
        | {name: (("case", "checked"), values) for name, values in gaps.items()}
        | printed_forms(*printed),
        coords={
            "beta": ("case", [beta for beta, _ in cases]),
            "rate": ("case", [rate for _, rate in cases]),
            "levels": levels,
            "checked": checked,
            "k": np.arange(1, max(levels) + 1),
        },
        attrs={"digits": digits, "moment_digits": moment_digits},
    )


def _gap(own: np.ndarray, exact: np.ndarray) -> float:
    """Largest relative gap; where all digits are lost, a large number."""
    return float(np.max(np.nan_to_num(np.abs(exact / own - 1), nan=1e3, posinf=1e3)))


def printed_forms(levels: float, beta: float, rate: float) -> dict[str, Any]:
    """Equations 6, 25 and 56 as printed, for a few levels, beside the error that integration of eq. 24 gives."""
    from scipy.integrate import solve_ivp

    levels = int(levels)
    lam = np.arange(1.0, levels + 1) ** -(1 + beta)
    lam /= lam.mean()
    times = np.linspace(0.0, 3.0, 61)

    def drift(_: float, E: np.ndarray) -> np.ndarray:
        return -2 * rate * lam * E + rate**2 * lam * np.mean(lam * E)

    truth = (
        solve_ivp(
            drift, (0, times[-1]), np.ones(levels), t_eval=times, rtol=1e-11, atol=1e-14
        ).y.T
        @ lam
        / (2 * levels)
    )
    T = np.array([np.mean(lam**j) for j in range(levels + 1)])
    c = np.poly(lam)[::-1][:-1]
    A = np.diag(-np.ones(levels - 1), 1)
    A[-1] = c
    U = np.outer(T[1:], np.eye(levels)[1])

    def sums(B: np.ndarray, factor: float, prefactor: float) -> np.ndarray:
        values, vectors = map(np.real, np.linalg.eig(B))
        b = np.linalg.solve(vectors / vectors[0], T[:-1])
        return (
            prefactor * np.exp(factor * np.outer(times, values)) @ (b * np.abs(values))
        )

    R, Q = moment_solution(A, U, T, rate, times)
    linear = tu.Network(1, "linear")
    problem = tu.Problem(
        linear, linear, inputs=tu.PowerLaw(beta, levels), optimizer=tu.SGD(rate)
    )
    network = tutelage_papers.power_law.linear_network(
        problem, tu.Start(R=[[0.0]], Q=[[SPREAD]], T=[[1.0]])
    )
    small_rate = (
        1 + np.exp(-2 * rate * np.outer(times, lam)) @ lam * (1 + SPREAD) / levels
    )
    small_rate -= 2 * np.exp(-rate * np.outer(times, lam)) @ lam / levels
    step = 1e-6  # R^(j) = (1/L) sum lam^j (1 - exp(-eta lam alpha)), equation 38
    growth = np.mean(lam ** (levels - 1) * -np.expm1(-rate * lam * step)) / step
    return {
        "printed_time": ("printed_time", times),
        "truth": ("printed_time", truth),
        "eq_6": ("printed_time", sums(A + rate * U, -2 * rate, 1 / (2 * levels))),
        "eq_6_sign": ("printed_time", sums(A + rate * U, 2 * rate, 1 / (2 * levels))),
        "eq_56_sign": (
            "printed_time",
            sums(2 * A + rate * U, 2 * rate, 1 / (2 * levels)),
        ),
        "corrected": (
            "printed_time",
            sums(2 * A + rate * U, rate, 1 / (2 * (2 - rate))),
        ),
        "moment_gap_R": float(np.max(np.abs(network.R(times) - R))),
        "moment_gap_Q": float(np.max(np.abs(network.Q(times) - Q))),
        "eq_46_gap": float(np.max(np.abs(network.Q(times) - small_rate))),
        "growth_eq_25": float(rate * c @ T[:-1]),
        "growth": float(growth),
    }


def moment_solution(
    A: np.ndarray, U: np.ndarray, T: np.ndarray, rate: float, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """R^(1) and Q^(1) of equations 30 and 45, by matrix exponentials of the moment form, from R = 0 and Q = SPREAD T."""
    from scipy.linalg import expm

    R = []
    Q = []
    for time in times:
        slow = expm(rate * time * A)
        fast = expm(rate * time * (2 * A + rate * U))
        R.append((T[:-1] - slow @ T[:-1])[1])
        Q.append((T[:-1] + (1 + SPREAD) * fast @ T[:-1] - 2 * slow @ T[:-1])[1])
    return np.array(R), np.array(Q)


def claims_10(data: "Dataset") -> list[Claim]:
    """Float64 against long arithmetic, and the printed sums against integration."""
    digits = data.attrs["digits"]
    long = data.attrs["moment_digits"]
    claims = []
    for i, beta in enumerate(data["beta"].values):
        case = data.isel(case=i)
        most = int(data["checked"].max())
        total = float(case["coefficients"].isel(levels=-1).sum())
        claims += [
            at_most(
                f"gap to the symmetric form in {digits} digits, beta = {beta:g}",
                float(case["secular_gap"].max()),
                EQUAL,
            ),
            at_most(
                f"gap to the moment form in {long} digits, beta = {beta:g}",
                float(case["moment_gap"].max()),
                EQUAL,
            ),
            above(
                f"gap to the moment form in {digits} digits, L = {most}, beta = {beta:g}",
                float(case["short_gap"][-1]),
                EQUAL,
            ),
            close(
                f"sum of b_k |lambda_B,k| over 2 - eta, beta = {beta:g}",
                total / (2 - float(case["rate"])),
                1.0,
                rel=EQUAL,
            ),
        ]
    at = data.sel(printed_time=1.0)
    truth = float(at["truth"])
    evidence = f"integration of eq. 24 gives {truth:.6f} at L = 4, beta = 1, eta = 0.5, alpha = 1; so does the corrected sum"
    return [
        *claims,
        refuted(
            close("eq. 6 as printed, alpha = 1", float(at["eq_6"]), truth, rel=0.05),
            evidence,
        ),
        refuted(
            close(
                "eq. 6 with decaying exponentials, alpha = 1",
                float(at["eq_6_sign"]),
                truth,
                rel=0.05,
            ),
            evidence,
        ),
        refuted(
            close(
                "eq. 56 with decaying exponentials, alpha = 1",
                float(at["eq_56_sign"]),
                truth,
                rel=0.05,
            ),
            evidence,
        ),
        close(
            "corrected: sum b_k |lambda_B,k| exp(-eta |lambda_B,k| alpha)/(2 (2 - eta))",
            float(at["corrected"]),
            truth,
            rel=EQUAL,
        ),
        at_most(
            "gap of R in eqs. 30 and 38, by matrix exponentials, to the closed form",
            float(data["moment_gap_R"]),
            EQUAL,
        ),
        at_most(
            "gap of Q in eq. 45, by matrix exponentials, to the closed form",
            float(data["moment_gap_Q"]),
            EQUAL,
        ),
        above(
            "gap of Q in eq. 46, the small-rate form, at eta = 0.5",
            float(data["eq_46_gap"]),
            0.01,
        ),
        refuted(
            close(
                "initial growth of the last R^(L-1) by eq. 25",
                float(data["growth_eq_25"]),
                float(data["growth"]),
                rel=0.05,
            ),
            "the closed R of eq. 38 grows at +eta T^(L), and matrix 27 has the right sign; eq. 25 has the opposite one",
        ),
    ]


def draw_10(data: "Dataset") -> "Figure":
    """Shares of the modes for many L, and the printed sums."""
    small = r"Left, center: $\eta = 1$, float64. Right: a few levels, where the printed sums can be evaluated as they stand."
    figure, axes = panel_grid(
        1,
        3,
        "How much of the error each mode carries at a large learning rate",
        small,
        height=3.2,
    )
    for i in range(2):
        case = data.isel(case=i)
        _fan(
            axes[0, i],
            case,
            case["coefficients"] * case["levels"],
            int(data["levels"].size),
        )
        axes[0, i].set(
            xlabel=MODE, ylabel=r"$L\, b_k |\lambda_{B,k}|$", xscale="log", yscale="log"
        )
        label_panel(axes[0, i], rf"$\beta = {float(case['beta']):g}$")
        axes[0, i].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    lines = (("truth", "integrated"), ("corrected", "corrected sum"), ("eq_6", "eq. 6"))
    lines += (
        ("eq_6_sign", "eq. 6, sign mended"),
        ("eq_56_sign", "eq. 56, sign mended"),
    )
    for look, (name, label) in enumerate(lines):
        axes[0, 2].plot(
            data["printed_time"],
            data[name],
            color=COLORS[look],
            linestyle=DASHES[look % 4],
            label=label,
        )
    axes[0, 2].set(xlabel=TIME, ylabel=ERROR, yscale="log", ylim=(1e-3, 1.0))
    axes[0, 2].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    label_panel(axes[0, 2], r"$L = 4$, $\beta = 1$, $\eta = 0.5$")
    return figure


def _fan(panel: Any, case: "Dataset", values: Any, count: int) -> None:
    """One line per number of levels, from violet to yellow."""
    from matplotlib import colormaps

    for j, L in enumerate(case["levels"].values):
        color = colormaps["plasma"](0.9 * j / (count - 1))
        line = values.isel(levels=j, k=slice(0, int(L)))
        panel.plot(
            line["k"],
            line,
            color=color,
            linewidth=1.2,
            marker=MARKERS[j % 7],
            markersize=2.2,
            label=f"L = {L}",
        )


def compute_11(levels: int, rates: list[float], betas: list[float]) -> "Dataset":
    """L times the shares of the modes beside the eigenvalues of the data, for every rate and beta."""
    import xarray as xr

    modes = [[modes_of(levels, beta, rate) for beta in betas] for rate in rates]
    return xr.Dataset(
        {
            "shares": (
                ("rate", "beta", "k"),
                [[levels * m.weights for m in row] for row in modes],
            ),
            "data": (("beta", "k"), [m.levels for m in modes[0]]),
        },
        coords={"rate": rates, "beta": betas, "k": np.arange(1, levels + 1)},
    )


def claims_11(data: "Dataset") -> list[Claim]:
    """How far the shares leave the power law: largest |ln(L share / lam)| over the modes."""
    away = np.abs(np.log(data["shares"].values / data["data"].values)).max(
        axis=-1
    )  # (rate, beta)
    slow, middle, fast = away
    betas = data["beta"].values
    ratios = [
        at_least(
            f"deviation at eta = 1 over that at eta = 0.1, beta = {beta:g}",
            fast[i] / slow[i],
            2.0,
        )
        for i, beta in enumerate(betas)
    ]
    by_beta = fast[betas.argmin()] / fast[betas.argmax()]
    return [
        above(
            "smallest growth of the deviation from eta = 0.1 to 0.5, over beta",
            np.min(middle / slow),
            1.0,
        ),
        above(
            "smallest growth of the deviation from eta = 0.5 to 1, over beta",
            np.min(fast / middle),
            1.0,
        ),
        *ratios,
        above(
            "deviation at eta = 1, smallest over largest beta",
            by_beta,
            1.0,
            says="the smaller β, the larger",
        ),
    ]


def draw_11(data: "Dataset") -> "Figure":
    """Shares against data, one panel for each rate."""
    small = r"Lines: $L\, b_k|\lambda_{B,k}|/(2-\eta)$; dashed: eigenvalues of the data, its limit as $\eta \to 0$. $L = 40$."
    figure, axes = panel_grid(
        1,
        3,
        "Shares of the modes leave the power law as the learning rate grows",
        small,
        height=3.0,
        sharey=True,
    )
    for i, rate in enumerate(data["rate"].values):
        for look, beta in enumerate(data["beta"].values):
            case = data.sel(rate=rate, beta=beta)
            axes[0, i].plot(
                case["k"],
                case["shares"],
                color=COLORS[look],
                label=rf"$\beta = {beta:g}$",
            )
            axes[0, i].plot(
                case["k"],
                case["data"],
                color=COLORS[look],
                linestyle=DASHES[1],
                linewidth=1.0,
            )
        axes[0, i].set(xlabel=MODE, xscale="log", yscale="log")
        label_panel(axes[0, i], rf"$\eta = {rate:g}$")
    axes[0, 0].set_ylabel(r"$L\times$ share, $\lambda_k$")
    outside_legend(axes[0, 2])
    return figure


def claims_12(data: "Dataset") -> list[Claim]:
    """Rates in float64 against long arithmetic; how they lie between those of the data."""
    claims = []
    for i, (beta, rate) in enumerate(
        zip(data["beta"].values, data["rate"].values, strict=True)
    ):
        case = data.isel(case=i)
        name = f"eps = {rate:g}, beta = {beta:g}"
        shift = 2 * case["data"] - case["eigenvalues"]
        below = (case["eigenvalues"] - 2 * case["data"].shift(k=-1)).isel(
            k=slice(0, -1)
        )
        trace = rate * float((case["data"].isel(levels=-1) ** 2).mean())
        claims += [
            at_most(
                f"gap to the symmetric form in {data.attrs['digits']} digits, {name}",
                float(case["secular_gap"].max()),
                EQUAL,
            ),
            at_most(
                f"gap of the differences, {name}", float(case["shift_gap"].max()), EQUAL
            ),
            above(
                f"smallest difference 2 lam_k - |lambda_B,k|, {name}",
                float(shift.min()),
                0.0,
            ),
            above(
                f"smallest |lambda_B,k| - 2 lam_(k+1), {name}", float(below.min()), 0.0
            ),
            close(
                f"sum of the differences over eta (1/L) sum lam^2, {name}",
                float(shift.isel(levels=-1).sum()) / trace,
                1.0,
                rel=EQUAL,
            ),
        ]
    return claims


def draw_12(data: "Dataset") -> "Figure":
    """Decay rates, and their distance to those of the data."""
    small = r"Above: $|\lambda_{B,k}|$ in units of $\eta$; below: its distance to $2\lambda_k$, halved as in the source."
    figure, axes = panel_grid(
        2, 2, "Decay rates of the error at a large learning rate", small, height=2.6
    )
    for i in range(2):
        case = data.isel(case=i)
        _fan(axes[0, i], case, case["eigenvalues"], int(data["levels"].size))
        _fan(
            axes[1, i],
            case,
            case["data"] - case["eigenvalues"] / 2,
            int(data["levels"].size),
        )
        axes[0, i].set(ylabel=r"$|\lambda_{B,k}|$")
        axes[1, i].set(ylabel=r"$\lambda_k - |\lambda_{B,k}|/2$")
        label_panel(
            axes[0, i],
            rf"$\epsilon = {float(case['rate']):g}$, $\beta = {float(case['beta']):g}$",
        )
        for panel in axes[:, i]:
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
        title="linear network: shares of the modes at a large learning rate, for many levels",
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
        title="linear network: decay rates at a large learning rate, and their distance to those of the data",
        full=TWELVE | FULL,
        quick=TWELVE | QUICK,
        compute=compute_modes,
        draw=draw_12,
        claims=claims_12,
    ),
)
