"""The error that frozen inputs leave, against the number of those that learn: eigenbasis, random basis, very many levels."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, MARKERS, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, close, refuted
from tutelage_papers.drawing import tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WITHIN = 0.05


def compute_16(
    levels: int,
    betas: list[float],
    scale: float,
    covariances: int,
    window: list[int],
    many: list[int],
    points: int,
    seed: int,
) -> "Dataset":
    """Floors for random covariances (eq. 88), for the eigenbasis, and by the law of large numbers up to very many levels."""
    import xarray as xr

    counts = np.unique(np.geomspace(window[0], window[1], points).astype(int))
    rotations = _rotations(levels, covariances, seed)
    raw = np.stack(
        [[_floors(Q, beta, scale, counts) for beta in betas] for Q in rotations]
    )  # (covariance, beta, count)
    aligned = np.array([_aligned(beta, levels, scale, counts) for beta in betas])
    law = [
        tutelage_papers.power_law.random_basis_floors(
            tu.PowerLaw(beta, levels), counts / levels, scale=scale
        )
        for beta in betas
    ]
    wide = [
        [
            tutelage_papers.power_law.random_basis_floors(
                tu.PowerLaw(beta, L), counts / L, scale=scale
            )
            for beta in betas
        ]
        for L in many
    ]
    linear = tu.Network(1, "linear")
    problem = tu.Problem(
        linear, linear, inputs=tu.PowerLaw(betas[-1], levels), optimizer=tu.SGD(0.05)
    )
    library = tutelage_papers.power_law.raw_features(
        problem, int(counts[0]), seed=seed, scale=scale
    ).floors(counts)
    sums = [
        [
            tutelage_papers.power_law.PowerLawSum(
                beta, levels, 1.0, scale, int(n)
            ).floor_integral
            for n in counts
        ]
        for beta in betas
    ]
    mean = raw.mean(axis=0)
    return xr.Dataset(
        {
            "raw": (("beta", "count"), mean),
            "aligned": (("beta", "count"), aligned),
            "integral": (("beta", "count"), sums),
            "law": (("beta", "count"), law),
            "ratio": (("beta",), (raw / aligned).min(axis=(0, 2))),
            "library_gap": float(np.max(np.abs(library / raw[0, -1] - 1))),
            "law_gap": ("beta", np.max(np.abs(mean / np.array(law) - 1), axis=1)),
            "raw_beta": ("beta", [_fitted(counts, levels, x) for x in mean]),
            "aligned_beta": ("beta", [_fitted(counts, levels, x) for x in aligned]),
            "wide_beta": (
                ("many", "beta"),
                [
                    [_fitted(counts, L, x) for x in row]
                    for L, row in zip(many, wide, strict=True)
                ],
            ),
        },
        coords={"beta": betas, "count": counts, "many": many},
    )


def _rotations(levels: int, covariances: int, seed: int) -> Iterator[np.ndarray]:
    """Random orthogonal matrices, uniformly: as `raw_features` draws them from these seeds."""
    for i in range(covariances):
        Q, R = np.linalg.qr(
            np.random.default_rng(seed + i).standard_normal((levels, levels))
        )
        yield Q * np.sign(np.diag(R))


def _floors(
    rotation: np.ndarray, beta: float, scale: float, counts: np.ndarray
) -> np.ndarray:
    """Equation 88 for every count: squares of the Cholesky factor, summed from the last corner."""
    lam = np.asarray(tu.PowerLaw(beta, len(rotation)).eigenvalues)
    squares = np.linalg.cholesky((rotation.T * lam) @ rotation) ** 2
    corner = np.cumsum(np.cumsum(squares[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
    return (1 + scale**2) / (2 * lam.size) * corner[counts, counts]


def _aligned(beta: float, levels: int, scale: float, counts: np.ndarray) -> np.ndarray:
    return np.array(
        [
            tutelage_papers.power_law.PowerLawSum(
                beta, levels, 1.0, scale, int(n)
            ).floor
            for n in counts
        ]
    )


def _fitted(counts: np.ndarray, levels: int, floors: np.ndarray) -> float:
    """beta of A (n^-beta - L^-beta), least squares in the logarithm."""
    from scipy.optimize import curve_fit

    def model(n: np.ndarray, height: float, beta: float) -> np.ndarray:
        return height + np.log((n**-beta - float(levels) ** -beta) / beta)

    start = -np.polyfit(
        np.log(counts[: counts.size // 2]), np.log(floors[: counts.size // 2]), 1
    )[0]
    return float(
        curve_fit(model, counts.astype(float), np.log(floors), p0=[0.0, start])[0][1]
    )


def claims_16(data: "Dataset") -> list[Claim]:
    """Fitted exponents, in and out of the eigenbasis; who lies below whom."""
    claims = [
        at_most(
            "gap to raw_features, one covariance", float(data["library_gap"]), 1e-8
        ),
        above(
            "smallest ratio of a random basis to the eigenbasis",
            float(data["ratio"].min()),
            1.0,
        ),
    ]
    most = float(data["many"].max())
    for beta in data["beta"].values:
        case = data.sel(beta=beta)
        raw = float(case["raw_beta"])
        wide = case["wide_beta"].values
        claims.append(
            close(
                f"eigenbasis: fitted beta, {beta:g}",
                float(case["aligned_beta"]),
                beta,
                rel=WITHIN,
            )
        )
        fit = close(
            f"random basis: fitted beta, {beta:g}",
            raw,
            beta,
            rel=WITHIN,
            says="the same power law N_l^-β in both scenarios",
        )
        trend = ", ".join(
            f"{x:.3f} at L = {L:g}"
            for x, L in zip(wide, data["many"].values, strict=True)
        )
        evidence = f"law of large numbers for the same N_l: {trend}; corrections are of order (N_l/L)^beta"
        claims.append(refuted(fit, evidence) if beta < 0.8 else fit)
        claims.append(
            close(
                f"random basis, law of large numbers at L = {most:g}: fitted beta, {beta:g}",
                wide[-1],
                beta,
                rel=WITHIN,
            )
        )
    return claims


def draw_16(data: "Dataset") -> "Figure":
    """Floors, and the fitted exponent against the number of levels."""
    small = r"Lines: eigenbasis (eq. 74); marks: random covariances (eq. 88); dashed: their law of large numbers."
    figure, axes = panel_grid(
        1, 3, "Floors fall with the number of inputs that learn", small, height=3.1
    )
    for look, beta in enumerate(data["beta"].values):
        case = data.sel(beta=beta)
        panel = axes[0, look // 2]
        color = COLORS[look]
        panel.plot(
            case["count"], case["integral"], color=color, label=rf"$\beta = {beta:g}$"
        )
        panel.plot(
            case["count"], case["law"], color=color, linestyle=DASHES[1], linewidth=1.0
        )
        marks = {
            "linestyle": "none",
            "marker": MARKERS[look],
            "markersize": 3.4,
            "markerfacecolor": "white",
        }
        panel.plot(case["count"], case["raw"], color=color, **marks)
        axes[0, 2].plot(
            case["many"],
            case["wide_beta"] / beta,
            color=color,
            marker=MARKERS[look],
            markersize=3.4,
        )
    for panel in axes[0, :2]:
        panel.set(
            xlabel=r"inputs that learn, $N_l$",
            ylabel=r"floor of $\epsilon_g$",
            xscale="log",
            yscale="log",
        )
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        tick_each(panel, [20, 50, 100, 200, 500], room=0.02)
    axes[0, 2].axhline(1.0, color=FAINT, linewidth=0.8)
    axes[0, 2].set(
        xlabel=r"levels $L$", ylabel=r"fitted $\beta$ / $\beta$", xscale="log"
    )
    label_panel(axes[0, 2], "random basis, the same $N_l$")
    return figure


SIXTEEN = {
    "levels": 1024,
    "betas": [0.3, 0.75, 1.0, 1.5],
    "scale": 0.01,
    "window": [20, 512],
    "many": [1024, 10_000, 100_000, 1_000_000],
    "seed": 0,
}

FIGURES = (
    Replica(
        id="power-16",
        source="power",
        figure="Fig. 16",
        title="linear network: floors against the number of trained inputs, in and out of the eigenbasis",
        full=SIXTEEN | {"covariances": 100, "points": 30},
        quick=SIXTEEN | {"covariances": 8, "points": 10},
        compute=compute_16,
        draw=draw_16,
        claims=claims_16,
    ),
)
