"""Figure 16 of the power-law paper: the error that frozen inputs leave.

Against the number of those that learn: eigenbasis, random basis, very many levels.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    MARKERS,
    label_panel,
    panel_grid,
    plain_dots,
)
from tutelage_papers.claims import Claim, above, at_most, close, refuted
from tutelage_papers.drawing import legend_below, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

WITHIN = 0.05
# Below this beta the corrections of order (N_l/L)^beta are too large for the window.
STEEP = 0.8


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
    """Return floors for random covariances (eq. 88) and for the eigenbasis.

    And by the law of large numbers up to very many levels.
    """
    import xarray as xr

    counts = np.unique(np.geomspace(window[0], window[1], points).astype(int))
    random_basis = []  # by (covariance, beta, count)
    for rotation in _rotations(levels, covariances, seed):
        random_basis.append([_floors(rotation, beta, scale, counts) for beta in betas])
    raw = np.stack(random_basis)
    mean = raw.mean(axis=0)
    aligned = np.array([_aligned(beta, levels, scale, counts) for beta in betas])
    integral = [_integrals(beta, levels, scale, counts) for beta in betas]
    law = [_law(beta, levels, scale, counts) for beta in betas]
    wide_beta = []
    for L in many:
        floors = [_law(beta, L, scale, counts) for beta in betas]
        wide_beta.append([_fitted(counts, L, row) for row in floors])
    library = _library_floors(levels, betas[-1], scale, counts, seed)
    data = xr.Dataset(coords={"beta": betas, "count": counts, "many": many})
    data["raw"] = (("beta", "count"), mean)
    data["aligned"] = (("beta", "count"), aligned)
    data["integral"] = (("beta", "count"), integral)
    data["law"] = (("beta", "count"), law)
    data["ratio"] = ("beta", (raw / aligned).min(axis=(0, 2)))
    data["library_gap"] = float(np.max(np.abs(library / raw[0, -1] - 1)))
    data["law_gap"] = ("beta", np.max(np.abs(mean / np.array(law) - 1), axis=1))
    data["raw_beta"] = ("beta", [_fitted(counts, levels, row) for row in mean])
    data["aligned_beta"] = ("beta", [_fitted(counts, levels, row) for row in aligned])
    data["wide_beta"] = (("many", "beta"), wide_beta)
    return data


def _rotations(levels: int, covariances: int, seed: int) -> Iterator[np.ndarray]:
    """Random orthogonal matrices, uniformly.

    As `raw_features` draws them from these seeds.
    """
    for i in range(covariances):
        rng = np.random.default_rng(seed + i)
        Q, R = np.linalg.qr(rng.standard_normal((levels, levels)))
        yield Q * np.sign(np.diag(R))


def _floors(
    rotation: np.ndarray, beta: float, scale: float, counts: np.ndarray
) -> np.ndarray:
    """Equation 88 for every count.

    Squares of the Cholesky factor, summed from the last corner.
    """
    lam = np.asarray(tu.PowerLaw(beta, len(rotation)).eigenvalues)
    squares = np.linalg.cholesky((rotation.T * lam) @ rotation) ** 2
    backwards = squares[::-1, ::-1]
    corner = np.cumsum(np.cumsum(backwards, axis=0), axis=1)[::-1, ::-1]
    return (1 + scale**2) / (2 * lam.size) * corner[counts, counts]


def _library_floors(
    levels: int, beta: float, scale: float, counts: np.ndarray, seed: int
) -> np.ndarray:
    """The floors of one covariance by `raw_features`."""
    linear = tu.Network(1, "linear")
    inputs = tu.PowerLaw(beta, levels)
    problem = tu.Problem(linear, linear, inputs=inputs, optimizer=tu.SGD(0.05))
    features = tutelage_papers.power_law.raw_features(
        problem, int(counts[0]), seed=seed, scale=scale
    )
    return features.floors(counts)


def _sums(beta: float, levels: int, scale: float, counts: np.ndarray) -> list[Any]:
    """The power-law sums of the eigenbasis, for every count."""
    return [
        tutelage_papers.power_law.PowerLawSum(beta, levels, 1.0, scale, int(n))
        for n in counts
    ]


def _aligned(beta: float, levels: int, scale: float, counts: np.ndarray) -> np.ndarray:
    """Floors in the eigenbasis (eq. 71), for every count."""
    return np.array([each.floor for each in _sums(beta, levels, scale, counts)])


def _integrals(beta: float, levels: int, scale: float, counts: np.ndarray) -> list[Any]:
    """Floors in the eigenbasis as an integral (eq. 74), for every count."""
    return [each.floor_integral for each in _sums(beta, levels, scale, counts)]


def _law(beta: float, levels: int, scale: float, counts: np.ndarray) -> np.ndarray:
    """Floors in a random basis by the law of large numbers."""
    inputs = tu.PowerLaw(beta, levels)
    return tutelage_papers.power_law.random_basis_floors(
        inputs, counts / levels, scale=scale
    )


def _fitted(counts: np.ndarray, levels: int, floors: np.ndarray) -> float:
    """beta of A (n^-beta - L^-beta), least squares in the logarithm."""
    from scipy.optimize import curve_fit

    def model(n: np.ndarray, height: float, beta: float) -> np.ndarray:
        return height + np.log((n**-beta - float(levels) ** -beta) / beta)

    # L^-beta matters little for the first half of the counts: a straight line.
    half = counts.size // 2
    first_slope, _ = np.polyfit(np.log(counts[:half]), np.log(floors[:half]), 1)
    first = [0.0, -first_slope]
    fit, _ = curve_fit(model, counts.astype(float), np.log(floors), p0=first)
    return float(fit[1])


def claims_16(data: "Dataset") -> Iterator[Claim]:
    """Compare fitted exponents, in and out of the eigenbasis, and who lies below."""
    yield at_most("gap to raw_features, one covariance", data["library_gap"], 1e-8)
    words = "smallest ratio of a random basis to the eigenbasis"
    yield above(words, data["ratio"].min(), 1.0)
    for beta in data["beta"].values:
        yield from _beta_claims(data.sel(beta=beta), beta)


def _beta_claims(case: "Dataset", beta: float) -> Iterator[Claim]:
    """Fitted exponents for one beta."""
    words = f"eigenbasis: fitted beta, {beta:g}"
    yield close(words, case["aligned_beta"], beta, rel=WITHIN)
    same_law = close(
        f"random basis: fitted beta, {beta:g}",
        case["raw_beta"],
        beta,
        rel=WITHIN,
        says="the same power law N_l^-β in both scenarios",
    )
    many = case["many"].values
    wide = case["wide_beta"].values
    pairs = zip(wide, many, strict=True)
    trend = ", ".join(f"{fitted:.3f} at L = {L:g}" for fitted, L in pairs)
    if beta < STEEP:
        same_law = refuted(
            same_law,
            evidence=f"law of large numbers for the same N_l: {trend}; corrections are "
            "of order (N_l/L)^beta",
        )
    yield same_law
    most = float(many.max())
    words = f"random basis, law of large numbers at L = {most:g}: fitted beta, {beta:g}"
    yield close(words, wide[-1], beta, rel=WITHIN)


def draw_16(data: "Dataset") -> "Figure":
    """Draw floors, and the fitted exponent against the number of levels."""
    title = "Floors fall with the number of inputs that learn"
    small = (
        r"Lines: eigenbasis (eq. 74); marks: random covariances (eq. 88); dashed: "
        "their law of large numbers."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.1)
    fitted = axes[0, 2]
    for look, beta in enumerate(data["beta"].values):
        case = data.sel(beta=beta)
        # Two betas to a panel.
        _draw_floors(axes[0, look // 2], case, look, rf"$\beta = {beta:g}$")
        marks = {"color": COLORS[look], "marker": MARKERS[look], "markersize": 3.4}
        fitted.plot(case["many"], case["wide_beta"] / beta, **marks)
    for panel in axes[0, :2]:
        panel.set(xlabel=r"inputs that learn, $N_l$", ylabel=r"floor of $\epsilon_g$")
        panel.set(xscale="log", yscale="log")
        legend_below(panel)
        tick_each(panel, [20, 50, 100, 200, 500], room=0.02)
    fitted.axhline(1.0, color=FAINT, linewidth=0.8)
    fitted.set(xlabel=r"levels $L$", ylabel=r"fitted $\beta$ / $\beta$", xscale="log")
    label_panel(fitted, "random basis, the same $N_l$")
    return figure


def _draw_floors(panel: Any, case: "Dataset", look: int, label: str) -> None:
    """Floors of one beta against the number of inputs that learn."""
    color = COLORS[look]
    dashed = {"color": color, "linestyle": DASHES[1], "linewidth": 1.0}
    panel.plot(case["count"], case["integral"], color=color, label=label)
    panel.plot(case["count"], case["law"], **dashed)
    panel.plot(case["count"], case["raw"], **plain_dots(look, 3.4, MARKERS[look]))


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
        title="linear network: floors against the number of trained inputs, in and out "
        "of the eigenbasis",
        full=SIXTEEN | {"covariances": 100, "points": 30},
        quick=SIXTEEN | {"covariances": 8, "points": 10},
        compute=compute_16,
        draw=draw_16,
        claims=claims_16,
    ),
)
