"""Figure 15 of the power-law paper: only some raw inputs learn, outside the eigenbasis of their covariance."""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    MARKERS,
    TIME,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most
from tutelage_papers.figures.power.linear_units import (
    CHANCE_Z,
    COMMON,
    SETTLED_FROM,
    SETTLED_TIMES,
    floor_z,
    linear_sgd,
    problem_of,
    random_weights,
    run_claims,
    steps_at,
    z_scores,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def compute_15(
    levels: int,
    beta: float,
    rate: float,
    scale: float,
    trained: list[int],
    starts: int,
    end: float,
    settle: float,
    points: int,
    seed: int,
) -> "Dataset":
    """Runs in raw coordinates, from random weights and from the end of eq. 85, against the exact mean for these weights."""
    import xarray as xr

    rng = np.random.default_rng(seed)
    problem = problem_of(tu.PowerLaw(beta, levels), rate)
    covariance = tutelage_papers.power_law.raw_features(
        problem, trained[0], seed=seed
    ).covariance
    factor = np.linalg.cholesky(covariance)
    W, W_teacher = random_weights(rng, starts, levels, scale)
    ended = np.stack([_at_rest(covariance, W, W_teacher, count) for count in trained])
    mask = np.arange(levels) < np.array(trained)[:, None]
    source = lambda count: rng.standard_normal((count, starts, levels)) @ factor.T  # noqa: E731
    error = lambda D: np.einsum("crn,crn->cr", D @ covariance, D) / (2 * levels)  # noqa: E731
    times = np.geomspace(0.1, end, points)
    even = np.linspace(SETTLED_FROM * settle, settle, SETTLED_TIMES)
    random = np.broadcast_to(W_teacher - W, ended.shape)
    runs = linear_sgd(random, source, rate, steps_at(times, levels), error, mask)
    settled = linear_sgd(
        W_teacher - ended, source, rate, steps_at(even, levels), error, mask
    )
    features = [
        [
            tutelage_papers.power_law.RawFeatures(
                problem, covariance, count, scale, pair
            )
            for pair in zip(W, W_teacher, strict=True)
        ]
        for count in trained
    ]
    resting = [
        [
            tutelage_papers.power_law.RawFeatures(problem, covariance, n, scale, pair)
            for pair in zip(ended[i], W_teacher, strict=True)
        ]
        for i, n in enumerate(trained)
    ]
    means = np.array([[one.error(times) for one in row] for row in features])
    rest = np.array([[one.error(even) for one in row] for row in resting])
    bare = np.array([[one.floor for one in row] for row in features])
    late = np.geomspace(0.1, 1e4, 61)
    typical = [
        tutelage_papers.power_law.RawFeatures(problem, covariance, count, scale)
        for count in trained
    ]
    return xr.Dataset(
        {
            "runs": (("trained", "time"), runs.mean(axis=1)),
            "z": (("trained", "time"), z_scores(runs, means)),
            "floor": ("trained", settled.mean(axis=(1, 2))),
            "floor_z": ("trained", floor_z(settled, rest)),
            "bare_z": ("trained", floor_z(settled, bare[..., None])),
            "expected": (
                ("trained", "late"),
                [np.mean([one.error(late) for one in row], axis=0) for row in features],
            ),
            "bare_floor": ("trained", bare.mean(axis=1)),
            "typical_floor": ("trained", [one.floor for one in typical]),
            "eq_88": (
                "trained",
                [_equation_88(covariance, count, scale) for count in trained],
            ),
            "flow_gap": ("trained", [_flow_gap(row[0], rate) for row in features]),
            "overlap_z": (
                ("trained", "letter"),
                [_overlap_z(covariance, n, scale, rng) for n in trained],
            ),
        },
        coords={"trained": trained, "time": times, "late": late, "letter": ["R", "Q"]},
    )


def _at_rest(
    covariance: np.ndarray, W: np.ndarray, W_teacher: np.ndarray, n: int
) -> np.ndarray:
    """Equation 85: trained components J = B + S^-1 C (B_frozen - J_frozen)."""
    answer = np.linalg.solve(
        covariance[:n, :n], covariance[:n, n:] @ (W_teacher - W)[:, n:].T
    ).T
    return np.concatenate([W_teacher[:, :n] + answer, W[:, n:]], axis=1)


def _equation_88(covariance: np.ndarray, n: int, scale: float) -> float:
    """As printed."""
    S = covariance[:n, :n]
    C = covariance[:n, n:]
    H = covariance[n:, n:]
    N = len(covariance)
    cross = np.trace(C.T @ np.linalg.solve(S, C))
    return (
        float(
            1
            - np.trace(S) / N
            + scale**2 * np.trace(H) / N
            - (1 + scale**2) / N * cross
        )
        / 2
    )


def _flow_gap(one: "tutelage_papers.power_law.RawFeatures", rate: float) -> float:
    """Equation 84 by matrix exponentials against the closed small-rate error, largest relative gap at a few times."""
    from scipy.linalg import expm

    assert one.weights is not None
    (W, B), n, Sigma = one.weights, one.trained, one.covariance
    end = _at_rest(Sigma, W[None], B[None], n)[0]
    times = [0.5, 5.0, 50.0]
    gaps = []
    for time in times:
        J = W.copy()
        J[:n] = end[:n] + expm(-rate * time * Sigma[:n, :n]) @ (W[:n] - end[:n])
        gaps.append(
            abs(
                (B - J) @ Sigma @ (B - J) / (2 * one.dim) / float(one.small_rate(time))
                - 1
            )
        )
    return float(max(gaps))


def _overlap_z(
    covariance: np.ndarray, n: int, scale: float, rng: np.random.Generator
) -> list[float]:
    """R and Q of eq. 87 against their mean over drawn weights at rest (eq. 85), in standard errors."""
    N, (J, B) = len(covariance), random_weights(rng, 4000, len(covariance), scale)
    J = _at_rest(covariance, J, B, n)
    S = covariance[:n, :n]
    C = covariance[:n, n:]
    H = covariance[n:, n:]
    cross = np.trace(C.T @ np.linalg.solve(S, C))
    R = (np.trace(S) + cross) / N
    Q = (
        np.trace(S)
        + (1 + scale**2) * cross
        + scale**2 * np.trace(H)
        - 2 * scale**2 * cross
    ) / N
    found = [np.einsum("rn,rn->r", J @ covariance, x) / N for x in (B, J)]
    return [
        float((x.mean() - y) / (x.std(ddof=1) / np.sqrt(x.size)))
        for x, y in zip(found, (R, Q), strict=True)
    ]


def claims_15(data: "Dataset") -> list[Claim]:
    """Curves, floors, and equations 84 to 88."""
    claims = [
        claim
        for count in data["trained"].values
        for claim in run_claims(data.sel(trained=count), f"N_l = {count}")
    ]
    floors = np.abs(data["eq_88"] / data["typical_floor"] - 1).max()
    return [
        *claims,
        at_most(
            "largest gap of eq. 88 to the floor from a Cholesky factor",
            float(floors),
            1e-8,
        ),
        at_most(
            "largest gap of eq. 84, by matrix exponentials, to the closed small-rate error",
            float(data["flow_gap"].max()),
            1e-8,
        ),
        at_most(
            "largest |z| of R in eqs. 86 and 87 against drawn weights",
            float(np.abs(data["overlap_z"][:, 0]).max()),
            CHANCE_Z,
        ),
        at_most(
            "largest |z| of Q in eqs. 86 and 87 against drawn weights",
            float(np.abs(data["overlap_z"][:, 1]).max()),
            CHANCE_Z,
        ),
    ]


def draw_15(data: "Dataset") -> "Figure":
    """Runs, the exact mean, and eq. 88."""
    small = "Lines: mean of runs; dashes: exact mean for their starts; dotted: eq. 88; marks: settled networks."
    figure, axes = panel_grid(
        1,
        1,
        "Only the first $N_l$ raw inputs learn, outside the eigenbasis",
        small,
        height=3.4,
        width=7.4,
    )
    panel = axes[0, 0]
    for look, count in enumerate(data["trained"].values):
        case = data.sel(trained=count)
        panel.plot(
            case["time"], case["runs"], color=COLORS[look], label=f"$N_l = {count}$"
        )
        panel.plot(
            case["late"],
            case["expected"],
            color=INK,
            linestyle=DASHES[1],
            linewidth=0.9,
        )
        panel.axhline(
            float(case["bare_floor"]),
            color=COLORS[look],
            linestyle=DASHES[2],
            linewidth=1.0,
        )
        panel.plot(
            1e4,
            case["floor"],
            color=COLORS[look],
            marker=MARKERS[look],
            markersize=5,
            clip_on=False,
        )
    panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
    outside_legend(panel)
    return figure


FIGURES = (
    Replica(
        id="power-15",
        source="power",
        figure="Fig. 15",
        title="linear network: only some raw inputs learn, outside the eigenbasis of the covariance",
        full=COMMON | {"starts": 300, "end": 30.0, "settle": 20.0, "points": 41},
        quick=COMMON | {"starts": 16, "end": 10.0, "settle": 6.0, "points": 25},
        compute=compute_15,
        draw=draw_15,
        claims=claims_15,
    ),
)
