"""Figure 15 of the power-law paper: only some raw inputs learn.

Outside the eigenbasis of their covariance.
"""

from collections.abc import Iterator
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

    from tutelage_papers.power_law import RawFeatures


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
    """Return runs in raw coordinates against the exact mean for their weights.

    From random weights and from the end of eq. 85.
    """
    import xarray as xr

    rng = np.random.default_rng(seed)
    problem = problem_of(tu.PowerLaw(beta, levels), rate)
    covariance = tutelage_papers.power_law.raw_features(
        problem, trained[0], seed=seed
    ).covariance
    factor = np.linalg.cholesky(covariance)

    def draw(count: int) -> np.ndarray:
        return rng.standard_normal((count, starts, levels)) @ factor.T

    def error(D: np.ndarray) -> np.ndarray:
        return np.einsum("crn,crn->cr", D @ covariance, D) / (2 * levels)

    W, W_teacher = random_weights(rng, starts, levels, scale)
    ended = np.stack([_at_rest(covariance, W, W_teacher, count) for count in trained])
    mask = np.arange(levels) < np.array(trained)[:, None]
    times = np.geomspace(0.1, end, points)
    even = np.linspace(SETTLED_FROM * settle, settle, SETTLED_TIMES)
    mismatch = np.broadcast_to(W_teacher - W, ended.shape)
    runs = linear_sgd(mismatch, draw, rate, steps_at(times, levels), error, mask)
    settled = linear_sgd(
        W_teacher - ended, draw, rate, steps_at(even, levels), error, mask
    )
    rows: list[Dataset] = []
    for i, count in enumerate(trained):
        typical = tutelage_papers.power_law.RawFeatures(
            problem, covariance, count, scale
        )
        random = _from_starts(typical, W, W_teacher)
        resting = _from_starts(typical, ended[i], W_teacher)
        row = _closed_forms(random, resting, times, even)
        row["typical_floor"] = typical.floor
        row["eq_88"] = _equation_88(covariance, count, scale)
        row["overlap_z"] = ("letter", _overlap_z(covariance, count, scale, rng))
        rows.append(row)
    data = xr.concat(rows, dim=xr.DataArray(trained, dims="trained", name="trained"))
    means = data["means"].values
    bare = data["bare"].values
    data["runs"] = (("trained", "time"), runs.mean(axis=1))
    data["z"] = (("trained", "time"), z_scores(runs, means))
    data["floor"] = ("trained", settled.mean(axis=(1, 2)))
    data["floor_z"] = ("trained", floor_z(settled, data["rest"].values))
    data["bare_z"] = ("trained", floor_z(settled, bare[..., None]))
    data["bare_floor"] = ("trained", bare.mean(axis=1))
    data = data.drop_vars(["means", "rest", "bare"])
    return data.assign_coords(letter=["R", "Q"])


def _from_starts(
    typical: "RawFeatures", students: np.ndarray, teachers: np.ndarray
) -> "list[RawFeatures]":
    """The closed forms for the weights of each start."""
    return [
        tutelage_papers.power_law.RawFeatures(
            typical.problem, typical.covariance, typical.trained, typical.scale, weights
        )
        for weights in zip(students, teachers, strict=True)
    ]


def _closed_forms(
    random: "list[RawFeatures]",
    resting: "list[RawFeatures]",
    times: np.ndarray,
    even: np.ndarray,
) -> "Dataset":
    """Exact means from random starts and from starts at rest, and small-rate floors."""
    import xarray as xr

    late = np.geomspace(0.1, 1e4, 61)
    data = xr.Dataset(coords={"time": times, "late": late})
    data["means"] = (("start", "time"), [each.error(times) for each in random])
    data["rest"] = (("start", "even"), [each.error(even) for each in resting])
    data["bare"] = ("start", [each.floor for each in random])
    late_errors = [each.error(late) for each in random]
    data["expected"] = ("late", np.mean(late_errors, axis=0))
    data["flow_gap"] = _flow_gap(random[0])
    return data


def _at_rest(
    covariance: np.ndarray, W: np.ndarray, W_teacher: np.ndarray, n: int
) -> np.ndarray:
    """Equation 85: trained components J = B + S^-1 C (B_frozen - J_frozen)."""
    S = covariance[:n, :n]
    C = covariance[:n, n:]
    frozen = (W_teacher - W)[:, n:]
    answer = np.linalg.solve(S, C @ frozen.T).T
    return np.concatenate([W_teacher[:, :n] + answer, W[:, n:]], axis=1)


def _equation_88(covariance: np.ndarray, n: int, scale: float) -> float:
    """Equation 88 as printed."""
    S = covariance[:n, :n]
    C = covariance[:n, n:]
    H = covariance[n:, n:]
    N = len(covariance)
    cross = np.trace(C.T @ np.linalg.solve(S, C))
    own = 1 - np.trace(S) / N + scale**2 * np.trace(H) / N
    return float(own - (1 + scale**2) / N * cross) / 2


def _flow_gap(features: "RawFeatures") -> float:
    """Equation 84 by matrix exponentials against the closed small-rate error.

    The largest relative gap at a few times.
    """
    from scipy.linalg import expm

    assert features.weights is not None
    student, teacher = features.weights
    n = features.trained
    Sigma = features.covariance
    rate = float(features.problem.optimizer.lr)
    end = _at_rest(Sigma, student[None], teacher[None], n)[0]
    gaps = []
    for time in (0.5, 5.0, 50.0):
        J = student.copy()
        J[:n] = end[:n] + expm(-rate * time * Sigma[:n, :n]) @ (student[:n] - end[:n])
        error = (teacher - J) @ Sigma @ (teacher - J) / (2 * features.dim)
        gaps.append(abs(error / float(features.small_rate(time)) - 1))
    return float(max(gaps))


def _overlap_z(
    covariance: np.ndarray, n: int, scale: float, rng: np.random.Generator
) -> list[float]:
    """R and Q of eq. 87 against their mean over drawn weights at rest (eq. 85).

    In standard errors.
    """
    N = len(covariance)
    student, B = random_weights(rng, 4000, N, scale)
    J = _at_rest(covariance, student, B, n)
    S = covariance[:n, :n]
    C = covariance[:n, n:]
    H = covariance[n:, n:]
    cross = np.trace(C.T @ np.linalg.solve(S, C))
    R = (np.trace(S) + cross) / N
    trained = np.trace(S) + (1 + scale**2) * cross
    Q = (trained + scale**2 * np.trace(H) - 2 * scale**2 * cross) / N
    scores = []
    for vectors, expected in ((B, R), (J, Q)):
        overlaps = np.einsum("rn,rn->r", J @ covariance, vectors) / N
        error = overlaps.std(ddof=1) / np.sqrt(overlaps.size)
        scores.append(float((overlaps.mean() - expected) / error))
    return scores


def claims_15(data: "Dataset") -> Iterator[Claim]:
    """Compare curves, floors, and equations 84 to 88."""
    for count in data["trained"].values:
        yield from run_claims(data.sel(trained=count), f"N_l = {count}")
    gaps = np.abs(data["eq_88"] / data["typical_floor"] - 1)
    words = "largest gap of eq. 88 to the floor from a Cholesky factor"
    yield at_most(words, gaps.max(), 1e-8)
    words = (
        "largest gap of eq. 84, by matrix exponentials, to the closed small-rate error"
    )
    yield at_most(words, data["flow_gap"].max(), 1e-8)
    for letter in data["letter"].values:
        score = np.abs(data["overlap_z"].sel(letter=letter)).max()
        words = f"largest |z| of {letter} in eqs. 86 and 87 against drawn weights"
        yield at_most(words, score, CHANCE_Z)


def draw_15(data: "Dataset") -> "Figure":
    """Draw runs, the exact mean, and eq. 88."""
    title = "Only the first $N_l$ raw inputs learn, outside the eigenbasis"
    small = (
        "Lines: mean of runs; dashes: exact mean for their starts; dotted: eq. 88; "
        "marks: settled networks."
    )
    figure, axes = panel_grid(1, 1, title, small, height=3.4, width=7.4)
    panel = axes[0, 0]
    for look, count in enumerate(data["trained"].values):
        case = data.sel(trained=count)
        color = COLORS[look]
        dashed = {"color": INK, "linestyle": DASHES[1], "linewidth": 0.9}
        dotted = {"color": color, "linestyle": DASHES[2], "linewidth": 1.0}
        mark = {"color": color, "marker": MARKERS[look], "markersize": 5}
        panel.plot(case["time"], case["runs"], color=color, label=f"$N_l = {count}$")
        panel.plot(case["late"], case["expected"], **dashed)
        panel.axhline(float(case["bare_floor"]), **dotted)
        panel.plot(1e4, case["floor"], clip_on=False, **mark)
    panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
    outside_legend(panel)
    return figure


FIGURES = (
    Replica(
        id="power-15",
        source="power",
        figure="Fig. 15",
        title="linear network: only some raw inputs learn, outside the eigenbasis of the "
        "covariance",
        full=COMMON | {"starts": 300, "end": 30.0, "settle": 20.0, "points": 41},
        quick=COMMON | {"starts": 16, "end": 10.0, "settle": 6.0, "points": 25},
        compute=compute_15,
        draw=draw_15,
        claims=claims_15,
    ),
)
