"""Figure 1 of the power-law paper: the plateau shortens with the number of levels and is gone; runs beside the theory.

The weights start so small that noise and start decide together when a network leaves the plateau (MATH: 5b in the docs), so
runs are compared with the curve before they leave, and with the law of escape times after. The start is shared by all runs.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    INK,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import (
    Claim,
    above,
    at_least,
    at_most,
    below,
    close,
    refuted,
)
from tutelage_papers.figures.power.committees import split_power_law
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

FLAT = 0.1  # |d ln e_g / d ln alpha| below which a curve is on a plateau
SHARE = 0.95
FIELDS = np.array(
    [
        [0.6, 0.2, 0.4, 0.1],
        [0.2, 0.7, 0.0, 0.5],
        [0.4, 0.0, 1.0, 0.1],
        [0.1, 0.5, 0.1, 1.1],
    ]
)
NEARLY_NONE = 0.01  # of G, in the theory that must fail


def compute_1(
    levels: list[int],
    beta: float,
    lr: float,
    scale: float,
    dim: int,
    end: float,
    band_levels: list[int],
    band_end: float,
    band_runs: int,
    law_levels: list[int],
    law_ends: list[float],
    law_runs: int,
    samples: int,
    seed: int,
) -> "Dataset":
    """Curves for each L; for some L, runs before the escape (band) and escape times of runs beside their law."""
    import xarray as xr

    times = tu.log_times(1.0, end, 301)
    starts = {
        L: _start(L, beta, lr, scale, dim, seed)
        for L in {*levels, *band_levels, *law_levels}
    }
    curves = [
        tu.solve(*_split(*starts[L], beta, max(levels)), times, keep="fields").error
        for L in levels
    ]
    bands = [_band(*starts[L], dim, band_end, band_runs, seed) for L in band_levels]
    laws = [
        _law(*starts[L], dim, e, law_runs, samples, seed)
        for L, e in zip(law_levels, law_ends, strict=True)
    ]
    table = xr.Dataset(
        {
            "error": (("levels", "time"), np.array(curves)),
            "flat": ("levels", [_flat_time(times, e) for e in curves]),
            "inside": ("band_levels", [b[0] for b in bands]),
            "inside_wrong": ("band_levels", [b[1] for b in bands]),
            "band_mean": (
                ("band_levels", "band_time"),
                np.array([b[2] for b in bands]),
            ),
            "escapes": (("law_levels", "run"), np.array([law[0] for law in laws])),
            "law": (("law_levels", "sample"), np.array([law[1] for law in laws])),
            "own": ("law_levels", [law[2] for law in laws]),
            "I4": ("form", _fourth_averages()),
            "e_g": ("form", _errors(starts[levels[0]][0])),
            "drift": ("form", _drifts()),
        },
        coords={
            "time": times,
            "levels": levels,
            "band_levels": band_levels,
            "law_levels": law_levels,
        },
    )
    return table.assign_coords(band_time=_band_times(band_end))


def _start(
    L: int, beta: float, lr: float, scale: float, dim: int, seed: int
) -> tuple[Any, Any]:
    """Problem and start of real random weights; the problem's teachers are those of the start."""
    problem = tutelage_papers.power_law.committee(2, inputs=tu.PowerLaw(beta, L), lr=lr)
    start = tu.random_start(problem, dim=dim, scale=scale, seed=seed)
    r, q, t = start.blocks(problem)
    return problem.replace(**{"teacher.gram": t}), tu.Start(r, q, dim=dim)


def _split(problem: Any, start: Any, beta: float, total: int) -> tuple[Any, Any]:
    """The same problem and start on `total` levels, some of which are alike: one program for all L."""
    inputs, (r, q, t) = (
        split_power_law(beta, problem.inputs.levels, total),
        start.blocks(problem),
    )
    from_level = np.searchsorted(
        -np.asarray(problem.inputs.eigenvalues), -np.asarray(inputs.eigenvalues) - 1e-9
    )
    r, q, t = (x[from_level] for x in (r, q, t))
    return problem.replace(inputs=inputs, **{"teacher.gram": t}), tu.Start(r, q)


def _band_times(end: float) -> np.ndarray:
    return np.linspace(0.0, end, 26)


def _band(
    problem: Any, start: Any, dim: int, end: float, runs: int, seed: int
) -> tuple[float, float, np.ndarray]:
    """Shares of times inside the band of the runs, of the theory and of one nearly without G; mean e_g of the runs."""
    from tutelage_papers.bands import band, wrong_theory

    times = _band_times(end)
    theory = tu.solve(problem, start, times)
    wrong = wrong_theory(problem, start, times, NEARLY_NONE)
    found = band(
        theory,
        tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed),
        wrong,
    )
    return (
        float(found["inside"]),
        float(found["inside_wrong"]),
        found["error_mean"].values,
    )


def _law(
    problem: Any, start: Any, dim: int, end: float, runs: int, samples: int, seed: int
) -> tuple[Any, Any, float]:
    """Escape times of runs, of the law, and of the solved curve."""
    law = tu.analysis.escape_distribution(
        problem, start, dim, samples=samples, seed=seed
    )
    seen = tu.simulate(
        problem, start, dim=dim, times=np.linspace(0.0, end, 401), runs=runs, seed=seed
    )
    return law.measured(seen)[0], law.times, float(law.theory or np.nan)


def _flat_time(times: np.ndarray, error: np.ndarray) -> float:
    """How long, in alpha, a curve is flat after its first fall and above a hundredth of its beginning."""
    slope = np.abs(np.gradient(np.log(error[1:]), np.log(times[1:])))
    flat = (slope < FLAT) & (times[1:] > 5.0) & (error[1:] > 1e-2 * error[0])
    return float(np.sum(np.gradient(times[1:])[flat]))


def _fourth_averages() -> list[float]:
    """E[g' g' g g] at one covariance: by the library, by averaging, and by eq. 91 as extracted."""
    C = np.array(
        [
            [1.0, 0.3, 0.4, -0.2],
            [0.3, 0.8, 0.1, 0.3],
            [0.4, 0.1, 1.2, 0.5],
            [-0.2, 0.3, 0.5, 0.9],
        ]
    )
    z = np.random.default_rng(0).multivariate_normal(np.zeros(4), C, size=400_000)
    g = _erf(z)
    slope = np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
    d = 1 + np.diag(C)
    A4 = d[0] * d[1] - C[0, 1] ** 2
    A0 = (
        A4 * C[2, 3]
        + C[1, 2] * C[1, 3] * d[0]
        + C[0, 2] * C[0, 3] * d[1]
        + (C[0, 1] * C[0, 2] * C[1, 3]) ** 2
    )
    A1 = A4 * d[2] + C[1, 2] * d[0] - C[0, 2] * d[1] + 2 * C[0, 1] * C[0, 2] * C[1, 2]
    A2 = A4 * d[3] - C[1, 3] * d[0] - C[0, 3] * d[1] + 2 * C[0, 1] * C[0, 3] * C[1, 3]
    printed = 4 / np.pi**2 / np.sqrt(A4) * np.arcsin(A0 / np.sqrt(A1 * A2))
    drawn = np.mean(slope[:, 0] * slope[:, 1] * g[:, 2] * g[:, 3])
    return [float(tu.moments.I4("erf", C)), float(drawn), float(printed)]


def _errors(problem: Any) -> list[float]:
    """e_g at generic overlaps: by the library, by averaging, and by eq. 19 as printed (without 1/M)."""
    z = np.random.default_rng(1).multivariate_normal(np.zeros(4), FIELDS, size=400_000)
    Q = FIELDS[:2, :2]
    R = FIELDS[:2, 2:]
    T = FIELDS[2:, 2:]
    difference = _erf(z)[:, 2:].sum(axis=1) - _erf(z)[:, :2].sum(axis=1)
    plain = float(tu.generalization_error(problem, R, Q, T))
    return [
        plain,
        float(np.mean(difference**2) / 2 / 2),
        float(np.mean(difference**2) / 2),
    ]


def _drifts() -> list[float]:
    """dR_11 / (eta dalpha) on isotropic inputs: sums of I3 over M, by averaging, and by eq. 18 as printed (without 1/M)."""
    terms = [
        sign * float(tu.moments.I3("erf", FIELDS[np.ix_([0, 2, c], [0, 2, c])]))
        for c, sign in enumerate([-1, -1, 1, 1])
    ]
    z = np.random.default_rng(2).multivariate_normal(np.zeros(4), FIELDS, size=400_000)
    difference = _erf(z)[:, 2:].sum(axis=1) - _erf(z)[:, :2].sum(axis=1)
    slope = np.sqrt(2 / np.pi) * np.exp(-(z[:, 0] ** 2) / 2)
    return [
        sum(terms) / 2,
        float(np.mean(difference * slope * z[:, 2]) / 2),
        sum(terms),
    ]


def _erf(z: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return erf(z / np.sqrt(2))


def claims_1(data: "Dataset") -> list[Claim]:
    """Plateaus shorten and vanish; runs agree before they leave; escape times follow their law; two printed formulas."""
    flat = data["flat"].values
    out = [
        below(f"time on the plateau, L = {L} over the L before", float(b / a), 1.0)
        for L, a, b in _pairs(data)
    ]
    out.append(
        at_most(
            "time on the plateau at the largest L, over that at the smallest",
            float(flat[-1] / flat[0]),
            0.01,
        )
    )
    for i, L in enumerate(data["band_levels"].values):
        out += [
            at_least(
                f"L = {L}: share of times inside the band of the runs, before they leave",
                float(data["inside"][i]),
                SHARE,
            ),
            below(
                f"L = {L}: the same with 0.01 G, which must fail",
                float(data["inside_wrong"][i]),
                SHARE,
            ),
        ]
    for i, L in enumerate(data["law_levels"].values):
        runs = data["escapes"].values[i]
        law = data["law"].values[i]
        size = np.sqrt(runs.size * law.size / (runs.size + law.size))
        own = np.full(law.size, float(data["own"][i]))
        name = f"L = {L}: largest distance of escape times' distributions, in units of its error"
        out += [
            at_most(f"{name} (1.95: 0.1%)", size * _distance(runs, law), 1.95),
            above(
                f"{name}, all at the time of the solved curve, which must fail",
                size * _distance(runs, own),
                1.95,
            ),
        ]
    drift, mean_drift, full_drift = data["drift"].values
    (I4, drawn, printed), (error, averaged, plain) = (
        data["I4"].values,
        data["e_g"].values,
    )
    return [
        *out,
        close("E[g' g' g g] against averaging", I4, drawn, rel=0.01),
        refuted(
            close("eq. 91 as extracted", printed, I4, rel=0.01),
            evidence=f"averaging over 400000 draws gives {drawn:.4g}",
        ),
        close("e_g against averaging", error, averaged, rel=0.01),
        close("dR/dalpha against averaging", drift, mean_drift, rel=0.02),
        refuted(
            close("eq. 18 as printed, without 1/M", full_drift, drift, rel=0.02),
            evidence="readouts are 1/sqrt(M)",
        ),
        refuted(
            close("eq. 19 as printed, without 1/M", plain, error, rel=0.01),
            evidence="readouts are 1/sqrt(M)",
        ),
    ]


def _pairs(data: "Dataset") -> list[tuple[int, float, float]]:
    L = data["levels"].values
    flat = data["flat"].values
    return [
        (int(L[i]), float(flat[i - 1]), float(flat[i]))
        for i in range(1, len(L))
        if flat[i - 1] > 0
    ]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest distance of two distribution functions."""
    both = np.sort(np.concatenate([a, b]))
    return float(np.max(np.abs(_share(a, both) - _share(b, both))))


def _share(a: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(a), at, side="right") / a.size


def draw_1(data: "Dataset") -> "Figure":
    """Curves with the mean of the runs, and the escape times."""
    small = "K = M = 2 erf units, random weights and teachers; marks: mean of runs before they leave the plateau"
    figure, axes = panel_grid(
        1,
        2,
        "The plateau shortens with the number of levels, and is gone",
        small,
        height=3.4,
        width=10.5,
    )
    curve, law = axes[0]
    for i, L in enumerate(data["levels"].values):
        curve.loglog(
            data["time"][1:],
            data["error"][i, 1:],
            color=COLORS[i % 7],
            label=f"$L={L}$",
        )
        if L in data["band_levels"].values:
            mean = data["band_mean"].sel(band_levels=L)
            look = {
                "color": COLORS[i % 7],
                "marker": "o",
                "markersize": 3,
                "linestyle": "none",
                "markerfacecolor": "white",
            }
            curve.loglog(data["band_time"][1:], mean[1:], **look)
    curve.set(xlabel=TIME, ylabel=ERROR)
    curve.legend(loc="lower left")
    for i, L in enumerate(data["law_levels"].values):
        color = (
            COLORS[list(data["levels"].values).index(L) % 7]
            if L in data["levels"].values
            else INK
        )
        for values, dashes, words in (
            (data["law"].values[i], DASHES[1], "law"),
            (data["escapes"].values[i], DASHES[0], "runs"),
        ):
            at = np.sort(values)
            law.step(
                at,
                np.arange(1, at.size + 1) / at.size,
                color=color,
                linestyle=dashes,
                label=f"$L={L}$, {words}",
            )
        law.axvline(
            float(data["own"][i]),
            color=color,
            linestyle=DASHES[2],
            label=f"$L={L}$, solved curve",
        )
    law.set(xlabel=r"escape time $\alpha$", ylabel="share of networks")
    label_panel(law, "escape times of runs and their law")
    outside_legend(law)
    return figure


ONE = {"beta": 1.0, "lr": 0.1, "scale": 0.01, "dim": 1024, "seed": 0}

FIGURES = (
    Replica(
        id="power-1",
        source="power",
        figure="Fig. 1",
        title="the plateau shortens with the number of levels and is gone at 64",
        full=ONE
        | {
            "levels": [1, 4, 16, 64],
            "end": 4000.0,
            "band_levels": [1, 4, 16],
            "band_end": 150.0,
            "band_runs": 200,
        }
        | {
            "law_levels": [1, 4, 16],
            "law_ends": [3200.0, 1600.0, 700.0],
            "law_runs": 40,
            "samples": 500,
        },
        quick=ONE
        | {
            "levels": [1, 4, 64],
            "end": 1500.0,
            "band_levels": [4],
            "band_end": 60.0,
            "band_runs": 60,
        }
        | {
            "law_levels": [4],
            "law_ends": [700.0],
            "law_runs": 20,
            "samples": 300,
            "dim": 256,
            "lr": 0.3,
        },
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
