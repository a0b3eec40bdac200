"""Figure 1 of the power-law paper: the plateau shortens with the number of levels.

It is gone at 64. Runs beside the theory: the weights start so small that noise and start
decide together when a network leaves the plateau (MATH: 5b in the docs), so runs are
compared with the curve before they leave, and with the law of escape times after. The start
is shared by all runs.
"""

from collections.abc import Iterator
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
    plain_dots,
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
NEARLY_NONE = 0.01  # of G, in the theory that must fail
DRAWS = 400_000  # of the averages that check printed formulas
# A covariance of two students' and two teachers' fields.
FIELDS = np.array(
    [
        [0.6, 0.2, 0.4, 0.1],
        [0.2, 0.7, 0.0, 0.5],
        [0.4, 0.0, 1.0, 0.1],
        [0.1, 0.5, 0.1, 1.1],
    ]
)
# A covariance at which eq. 91 is checked.
FOUR_FIELDS = np.array(
    [
        [1.0, 0.3, 0.4, -0.2],
        [0.3, 0.8, 0.1, 0.3],
        [0.4, 0.1, 1.2, 0.5],
        [-0.2, 0.3, 0.5, 0.9],
    ]
)


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
    """Return curves for each L.

    For some L, runs before the escape (band), and escape times of runs beside their law.
    """
    import xarray as xr

    times = tu.log_times(1.0, end, 301)
    starts: dict[int, tuple[Any, Any]] = {}
    for L in {*levels, *band_levels, *law_levels}:
        starts[L] = _start(L, beta, lr, scale, dim, seed)
    curves = []
    for L in levels:
        problem, start = _split(*starts[L], beta, max(levels))
        curves.append(tu.solve(problem, start, times, keep="fields").error)
    data = xr.Dataset(coords={"time": times, "levels": levels})
    data["error"] = (("levels", "time"), np.array(curves))
    data["flat"] = ("levels", [_flat_time(times, error) for error in curves])
    bands = [_band(*starts[L], dim, band_end, band_runs, seed) for L in band_levels]
    data = data.merge(xr.concat(bands, dim=_axis("band_levels", band_levels)))
    laws = []
    for L, law_end in zip(law_levels, law_ends, strict=True):
        laws.append(_law(*starts[L], dim, law_end, law_runs, samples, seed))
    data = data.merge(xr.concat(laws, dim=_axis("law_levels", law_levels)))
    data["I4"] = ("form", _fourth_averages())
    data["e_g"] = ("form", _errors(starts[levels[0]][0]))
    data["drift"] = ("form", _drifts())
    return data


def _axis(name: str, values: list[int]) -> Any:
    import xarray as xr

    return xr.DataArray(values, dims=name, name=name)


def _start(
    L: int, beta: float, lr: float, scale: float, dim: int, seed: int
) -> tuple[Any, Any]:
    """A problem and a start of real random weights.

    The problem's teachers are those of the start.
    """
    problem = tutelage_papers.power_law.committee(2, inputs=tu.PowerLaw(beta, L), lr=lr)
    start = tu.random_start(problem, dim=dim, scale=scale, seed=seed)
    r, q, t = start.blocks(problem)
    return problem.replace(**{"teacher.gram": t}), tu.Start(r, q, dim=dim)


def _split(problem: Any, start: Any, beta: float, total: int) -> tuple[Any, Any]:
    """Split levels of a problem and start up to `total` levels, some of them alike.

    One program for all L.
    """
    inputs = split_power_law(beta, problem.inputs.levels, total)
    old = np.asarray(problem.inputs.eigenvalues)
    new = np.asarray(inputs.eigenvalues)
    # Both descend; np.searchsorted needs ascending values.
    from_level = np.searchsorted(-old, -new - 1e-9)
    r, q, t = start.blocks(problem)
    split = problem.replace(inputs=inputs, **{"teacher.gram": t[from_level]})
    return split, tu.Start(r[from_level], q[from_level])


def _band(
    problem: Any, start: Any, dim: int, end: float, runs: int, seed: int
) -> "Dataset":
    """Shares of times inside the band of the runs, and mean e_g of the runs.

    Of the theory, and of one nearly without G.
    """
    import xarray as xr

    from tutelage_papers.bands import band, wrong_theory

    times = np.linspace(0.0, end, 26)
    theory = tu.solve(problem, start, times)
    wrong = wrong_theory(problem, start, times, NEARLY_NONE)
    networks = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    inside = band(theory, networks, wrong)
    data = xr.Dataset(coords={"band_time": times})
    data["inside"] = float(inside["inside"])
    data["inside_wrong"] = float(inside["inside_wrong"])
    data["band_mean"] = ("band_time", inside["error_mean"].values)
    return data


def _law(
    problem: Any, start: Any, dim: int, end: float, runs: int, samples: int, seed: int
) -> "Dataset":
    """Escape times of runs, of the law, and of the solved curve."""
    import xarray as xr

    law = tu.analysis.escape_distribution(
        problem, start, dim, samples=samples, seed=seed
    )
    times = np.linspace(0.0, end, 401)
    networks = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed)
    data = xr.Dataset()
    data["escapes"] = ("run", law.measured(networks)[0])
    data["law"] = ("sample", law.times)
    data["own"] = float(law.theory or np.nan)
    return data


def _flat_time(times: np.ndarray, error: np.ndarray) -> float:
    """The time in alpha for which a curve is flat.

    After its first fall and above a hundredth of its beginning.
    """
    times = times[1:]
    slope = np.abs(np.gradient(np.log(error[1:]), np.log(times)))
    above_end = error[1:] > 1e-2 * error[0]
    flat = (slope < FLAT) & (times > 5.0) & above_end
    return float(np.sum(np.gradient(times)[flat]))


def _fourth_averages() -> list[float]:
    """E[g' g' g g]: by the library, by averaging, and by eq. 91 as extracted."""
    z = _draws(0, FOUR_FIELDS)
    g = _erf(z)
    slope = _erf_slope(z)
    drawn = np.mean(slope[:, 0] * slope[:, 1] * g[:, 2] * g[:, 3])
    exact = float(tu.moments.I4("erf", FOUR_FIELDS))
    return [exact, float(drawn), _eq_91(FOUR_FIELDS)]


def _eq_91(C: np.ndarray) -> float:
    """E[g' g' g g] by eq. 91 as extracted."""
    d = 1 + np.diag(C)
    A4 = d[0] * d[1] - C[0, 1] ** 2
    A0 = A4 * C[2, 3] + C[1, 2] * C[1, 3] * d[0]
    A0 = A0 + C[0, 2] * C[0, 3] * d[1]
    A0 = A0 + (C[0, 1] * C[0, 2] * C[1, 3]) ** 2
    A1 = A4 * d[2] + C[1, 2] * d[0] - C[0, 2] * d[1]
    A1 = A1 + 2 * C[0, 1] * C[0, 2] * C[1, 2]
    A2 = A4 * d[3] - C[1, 3] * d[0] - C[0, 3] * d[1]
    A2 = A2 + 2 * C[0, 1] * C[0, 3] * C[1, 3]
    return float(4 / np.pi**2 / np.sqrt(A4) * np.arcsin(A0 / np.sqrt(A1 * A2)))


def _draws(seed: int, covariance: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(np.zeros(4), covariance, size=DRAWS)


def _residual(z: np.ndarray) -> np.ndarray:
    """Teachers' less students' outputs, without their readouts."""
    g = _erf(z)
    return g[:, 2:].sum(axis=1) - g[:, :2].sum(axis=1)


def _errors(problem: Any) -> list[float]:
    """e_g at generic overlaps.

    By the library, by averaging, and by eq. 19 as printed (without 1/M).
    """
    residual = _residual(_draws(1, FIELDS))
    Q = FIELDS[:2, :2]
    R = FIELDS[:2, 2:]
    T = FIELDS[2:, 2:]
    exact = float(tu.generalization_error(problem, R, Q, T))
    printed = float(np.mean(residual**2) / 2)
    averaged = float(np.mean(residual**2) / 2 / 2)
    return [exact, averaged, printed]


def _drifts() -> list[float]:
    """dR_11 / (eta dalpha) on isotropic inputs.

    Sums of I3 over M, by averaging, and by eq. 18 as printed (without 1/M).
    """
    terms = []
    for field, sign in enumerate([-1, -1, 1, 1]):
        chosen = [0, 2, field]
        C = FIELDS[np.ix_(chosen, chosen)]
        terms.append(sign * float(tu.moments.I3("erf", C)))
    z = _draws(2, FIELDS)
    averaged = np.mean(_residual(z) * _erf_slope(z[:, 0]) * z[:, 2]) / 2
    return [sum(terms) / 2, float(averaged), sum(terms)]


def _erf(z: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return erf(z / np.sqrt(2))


def _erf_slope(z: np.ndarray) -> np.ndarray:
    return np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """Compare plateaus, runs before they leave, escape times, and printed formulas."""
    yield from _plateau_claims(data)
    yield from _band_claims(data)
    yield from _law_claims(data)
    yield from _formula_claims(data)


def _plateau_claims(data: "Dataset") -> Iterator[Claim]:
    """Plateaus shorten and vanish."""
    flat = data["flat"].values
    for i, L in enumerate(data["levels"].values):
        # Nothing is shorter than no plateau.
        if i > 0 and flat[i - 1] > 0:
            words = f"time on the plateau, L = {L} over the L before"
            yield below(words, flat[i] / flat[i - 1], 1.0)
    words = "time on the plateau at the largest L, over that at the smallest"
    yield at_most(words, flat[-1] / flat[0], 0.01)


def _band_claims(data: "Dataset") -> Iterator[Claim]:
    """Runs agree with the theory before they leave."""
    for L in data["band_levels"].values:
        band = data.sel(band_levels=L)
        words = (
            f"L = {L}: share of times inside the band of the runs, before they leave"
        )
        yield at_least(words, band["inside"], SHARE)
        words = f"L = {L}: the same with 0.01 G, which must fail"
        yield below(words, band["inside_wrong"], SHARE)


def _law_claims(data: "Dataset") -> Iterator[Claim]:
    """Escape times follow their law; 1.95 is exceeded by chance in 0.1% of cases."""
    for L in data["law_levels"].values:
        case = data.sel(law_levels=L)
        runs = case["escapes"].values
        law = case["law"].values
        unit = np.sqrt(runs.size * law.size / (runs.size + law.size))
        own = np.full(law.size, float(case["own"]))
        name = (
            f"L = {L}: largest distance of escape times' distributions, in units of "
            "its error"
        )
        yield at_most(f"{name} (1.95: 0.1%)", unit * _distance(runs, law), 1.95)
        words = f"{name}, all at the time of the solved curve, which must fail"
        yield above(words, unit * _distance(runs, own), 1.95)


def _formula_claims(data: "Dataset") -> Iterator[Claim]:
    """Averages against printed formulas (eqs. 18, 19 and 91)."""
    I4, drawn, printed = data["I4"].values
    yield close("E[g' g' g g] against averaging", I4, drawn, rel=0.01)
    yield refuted(
        close("eq. 91 as extracted", printed, I4, rel=0.01),
        evidence=f"averaging over 400000 draws gives {drawn:.4g}",
    )
    error, averaged, plain = data["e_g"].values
    drift, mean_drift, full_drift = data["drift"].values
    yield close("e_g against averaging", error, averaged, rel=0.01)
    yield close("dR/dalpha against averaging", drift, mean_drift, rel=0.02)
    yield refuted(
        close("eq. 18 as printed, without 1/M", full_drift, drift, rel=0.02),
        evidence="readouts are 1/sqrt(M)",
    )
    yield refuted(
        close("eq. 19 as printed, without 1/M", plain, error, rel=0.01),
        evidence="readouts are 1/sqrt(M)",
    )


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest distance of two distribution functions."""
    both = np.sort(np.concatenate([a, b]))
    return float(np.max(np.abs(_share_below(a, both) - _share_below(b, both))))


def _share_below(values: np.ndarray, limits: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(values), limits, side="right") / values.size


def draw_1(data: "Dataset") -> "Figure":
    """Draw curves with the mean of the runs, and the escape times."""
    title = "The plateau shortens with the number of levels, and is gone"
    small = (
        "K = M = 2 erf units, random weights and teachers; marks: mean of runs before "
        "they leave the plateau"
    )
    figure, axes = panel_grid(1, 2, title, small, height=3.4, width=10.5)
    curves, escapes = axes[0]
    _draw_curves(curves, data)
    _draw_escapes(escapes, data)
    return figure


def _draw_curves(panel: Any, data: "Dataset") -> None:
    """The error for each L; for some, the mean of the runs before they leave."""
    # Time zero has no place on a logarithmic axis.
    shown = data.isel(time=slice(1, None), band_time=slice(1, None))
    for look, L in enumerate(data["levels"].values):
        error = shown["error"].sel(levels=L)
        panel.loglog(shown["time"], error, color=COLORS[look % 7], label=f"$L={L}$")
        if L in data["band_levels"].values:
            mean = shown["band_mean"].sel(band_levels=L)
            panel.loglog(shown["band_time"], mean, **plain_dots(look, 3))
    panel.set(xlabel=TIME, ylabel=ERROR)
    panel.legend(loc="lower left")


def _draw_escapes(panel: Any, data: "Dataset") -> None:
    """Distribution functions of escape times: runs, law, and the solved curve."""
    levels = data["levels"].values.tolist()
    for L in data["law_levels"].values:
        case = data.sel(law_levels=L)
        color = INK
        if L in levels:
            color = COLORS[levels.index(L) % 7]
        _draw_distribution(panel, case["law"], color, DASHES[1], f"$L={L}$, law")
        _draw_distribution(panel, case["escapes"], color, DASHES[0], f"$L={L}$, runs")
        own = float(case["own"])
        label = f"$L={L}$, solved curve"
        panel.axvline(own, color=color, linestyle=DASHES[2], label=label)
    panel.set(xlabel=r"escape time $\alpha$", ylabel="share of networks")
    label_panel(panel, "escape times of runs and their law")
    outside_legend(panel)


def _draw_distribution(
    panel: Any, values: Any, color: str, dashes: Any, label: str
) -> None:
    ordered = np.sort(values)
    share = np.arange(1, ordered.size + 1) / ordered.size
    panel.step(ordered, share, color=color, linestyle=dashes, label=label)


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
