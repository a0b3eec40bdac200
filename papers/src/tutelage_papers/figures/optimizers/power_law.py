"""Adaptive optimizers on a power-law spectrum, in the eigenbasis and in a random basis.

A linear unit learns a linear teacher. With d_l = t_l - 2 r_l + q_l, the squared distance
from the teacher per dimension of level l, and e = sum_l p_l lam_l d_l = 2 e_g, for inputs
of mean eigenvalue one,

    SGD                  dd_l = -2 eta lam_l d_l + eta^2 lam_l e
    Adam, eigenbasis     dd_l = -2 eta lam_l d_l / sqrt(v_l) + eta^2 lam_l e / v_l,
                         dv_l = (lam_l e - v_l) / memory
    sign, eigenbasis     dd_l = -(4 / pi) eta sqrt(lam_l / e) d_l + eta^2.

In a random basis every coordinate has the variance one: Adam has a single scale v,
dv = (e - v) / memory, and

    sign, random basis   dd_l = -(4 / pi) eta lam_l d_l / sqrt(e)
                                + eta^2 ((2 / pi) lam_l + 1 - 2 / pi),

because the signs of two coordinates with the covariance c have (2 / pi) arcsin(c). v
stands for v / (1 - e^(-alpha / memory)).
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    ERROR,
    MARKERS,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_least, at_most, below
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SGD = "SGD"
ADAM = "Adam, eigenbasis"
ADAM_TURNED = "Adam, random basis"
SIGN = "sign-SGD, eigenbasis"
SIGN_TURNED = "sign-SGD, random basis"
CASES = (SGD, ADAM, ADAM_TURNED, SIGN, SIGN_TURNED)
SCALED = (ADAM, ADAM_TURNED)
TURNED = (ADAM_TURNED, SIGN_TURNED)
MEMORY = 1.0
SIGN_FACTOR = 2 / np.pi
INSIDE = 0.95


def drift(
    case: str, lam: np.ndarray, p: np.ndarray, lr: float
) -> Callable[[float, np.ndarray], np.ndarray]:
    """Return the derivative of (d, v) of an optimizer; v is unused by most."""

    def derivative(t: float, state: np.ndarray) -> np.ndarray:
        d, v = state.reshape(2, -1)
        e = float(p @ (lam * d))
        squares = lam * e if case == ADAM else np.full_like(lam, e)
        if case in SCALED:
            share = -np.expm1(-t / MEMORY)
            used = v / share if share > 1e-9 else squares
            dd = -2 * lr * lam * d / np.sqrt(used) + lr**2 * lam * e / used
        elif case == SGD:
            dd = -2 * lr * lam * d + lr**2 * lam * e
        elif case == SIGN:
            dd = -2 * lr * SIGN_FACTOR * np.sqrt(lam / e) * d + lr**2
        else:
            noise = SIGN_FACTOR * lam + 1 - SIGN_FACTOR
            dd = -2 * lr * SIGN_FACTOR * lam * d / np.sqrt(e) + lr**2 * noise
        return np.concatenate([dd, (squares - v) / MEMORY])

    return derivative


def curve(
    case: str, lam: np.ndarray, p: np.ndarray, lr: float, times: np.ndarray
) -> np.ndarray:
    """Return e_g at the times; the student begins at zero."""
    from scipy.integrate import solve_ivp

    state = np.concatenate([np.ones_like(lam), np.zeros_like(lam)])
    solution = solve_ivp(
        drift(case, lam, p, lr),
        (0.0, times[-1]),
        state,
        method="LSODA",
        t_eval=times,
        rtol=1e-7,
        atol=1e-10,
    )
    return (p * lam) @ solution.y[: lam.size] / 2


def plain_runs(
    case: str, lam: np.ndarray, lr: float, times: np.ndarray, runs: int, seed: int
) -> np.ndarray:
    """Return e_g (runs, times) of plain loops over weights.

    lam: the eigenvalue of each of the N dimensions. Adam has beta1 = 0.
    """
    rng = np.random.default_rng(seed)
    dim = lam.size
    basis = np.eye(dim)
    if case in TURNED:
        basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    roots = np.sqrt(lam)
    # w* - w in the optimizer's coordinates; each level has its exact length
    gap = _levels_of_exact_length(rng, lam, runs) @ basis
    scale = np.zeros_like(gap)
    forget = 1 / (dim * MEMORY)
    steps = np.ceil(times * dim - 1e-9).astype(int)
    errors = np.zeros((runs, times.size))
    for step in range(steps[-1] + 1):
        for place in np.flatnonzero(steps == step):
            errors[:, place] = np.mean(lam * (gap @ basis.T) ** 2, axis=1) / 2
        x = rng.standard_normal((runs, dim)) * roots
        if basis[0, 0] != 1.0:
            x = x @ basis
        delta = np.sum(gap * x, axis=1, keepdims=True) / np.sqrt(dim)
        gradient = delta * x
        if case in SCALED:
            scale += forget * (gradient**2 - scale)
            gradient = gradient / np.sqrt(
                scale / -np.expm1(np.log1p(-forget) * (step + 1))
            )
        elif case != SGD:
            gradient = np.sign(gradient)
        gap = gap - lr / np.sqrt(dim) * gradient
    return errors


def _levels_of_exact_length(
    rng: np.random.Generator, lam: np.ndarray, runs: int
) -> np.ndarray:
    """Return vectors with a mean square of one in each level."""
    vectors = rng.standard_normal((runs, lam.size))
    for value in np.unique(lam):
        here = lam == value
        vectors[:, here] /= np.sqrt(np.mean(vectors[:, here] ** 2, axis=1))[:, None]
    return vectors


def compute_3(
    levels: int,
    rates: dict[str, list[float]],
    end: float,
    share: float,
    per_level: int,
    per_level_turned: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return the time to a share of the first error, against the rate; runs at the best.

    per_level: dimensions of each level in the runs, per_level_turned: the same in a
    random basis, where a step costs N^2. library: the largest relative gap of
    `tu.solve` to the equations above, in the eigenbasis.
    """
    import xarray as xr

    inputs = tu.PowerLaw(beta=1.0, levels=levels)
    lam = np.asarray(inputs.eigenvalues)
    p = np.asarray(inputs.fractions)
    times = np.concatenate([[0.0], np.geomspace(1e-2, end, 400)])
    parts: list[Dataset] = []
    for place, case in enumerate(CASES):
        reached = []
        for lr in rates[case]:
            error = curve(case, lam, p, lr, times)
            below_target = error < share * error[0]
            first = times[np.argmax(below_target)] if below_target.any() else np.inf
            reached.append(float(first))
        best = int(np.argmin(reached))
        shown = np.linspace(0.0, min(1.5 * reached[best], end), 13)
        theory = curve(case, lam, p, rates[case][best], shown)
        seen = plain_runs(
            case,
            np.repeat(lam, per_level_turned if case in TURNED else per_level),
            rates[case][best],
            shown,
            runs,
            seed + place,
        )
        part = xr.Dataset(
            {
                "lr": ("place", np.array(rates[case])),
                "reached": ("place", np.array(reached)),
                "time": ("moment", shown),
                "error": ("moment", theory),
                "error_mean": ("moment", seen.mean(axis=0)),
                "error_se": ("moment", seen.std(axis=0, ddof=1) / np.sqrt(runs)),
            }
        )
        # the lists of rates differ in length: the rest is NaN
        part = part.assign_coords(place=np.arange(part.sizes["place"]))
        part["best_rate"] = rates[case][best]
        part["best_time"] = reached[best]
        part["library"] = _library_gap(case, inputs, rates[case][best], shown, theory)
        parts.append(part)
    names = xr.DataArray(list(CASES), dims="case", name="case")
    data = xr.concat(parts, dim=names, join="outer")
    return data.assign(
        runs=runs,
        dim=levels * per_level,
        dim_turned=levels * per_level_turned,
        share=share,
    )


def _library_gap(
    case: str, inputs: "tu.PowerLaw", lr: float, times: np.ndarray, theory: np.ndarray
) -> float:
    """Return the largest relative gap of the library's error; NaN in a random basis."""
    known = {
        SGD: tu.SGD(lr),
        ADAM: tu.optimizers.Adam(lr, memory=MEMORY),
        SIGN: tu.optimizers.SignSGD(lr),
    }
    if case not in known:
        return float("nan")
    unit = tu.Network(1, "linear")
    problem = tu.Problem(unit, unit, inputs=inputs, optimizer=known[case])
    shape = (inputs.levels, 1, 1)
    start = tu.Start(R=np.zeros(shape), Q=np.zeros(shape), T=np.ones(shape))
    error = np.asarray(tu.solve(problem, start, times).error)
    return float(np.max(np.abs(error / theory - 1)))


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Runs and library follow the equations; only the eigenbasis preconditions."""
    limit = _limit(int(data["runs"]))
    for case in data["case"].values:
        part = data.sel(case=case)
        z = np.abs(_z(part, part))[1:]
        words = f"{case}: share of times inside the band of the runs"
        yield at_least(words, np.mean(z < limit), INSIDE)
        if np.isfinite(part["library"]):
            words = f"{case}: largest relative gap of the library"
            yield at_most(words, part["library"], 2e-3)
    for case, other in ((ADAM, ADAM_TURNED), (SIGN, SIGN_TURNED)):
        one = float(data["best_time"].sel(case=case))
        turned = float(data["best_time"].sel(case=other))
        plain = float(data["best_time"].sel(case=SGD))
        yield above(
            f"{other}: least time over that in the eigenbasis", turned / one, 2.0
        )
        yield below(f"{case}: least time over that of SGD", one / plain, 1.0)
        yield above(f"{other}: least time over that of SGD", turned / plain, 1.0)
        control = _theory_at(data, other, data["time"].sel(case=case).values)
        wrong = np.abs(_z(data.sel(case=case), data.sel(case=case), control))[1:]
        words = f"{case}: the band with the other basis, which must fail"
        yield below(words, np.mean(wrong < limit), INSIDE)


def _limit(runs: int) -> float:
    """Return the standard errors as improbable as four are for many runs."""
    from scipy.stats import norm, t

    return float(t.isf(norm.sf(4.0), runs - 1))


def _theory_at(data: "Dataset", case: str, times: np.ndarray) -> np.ndarray:
    """Return the theory of a case at other times, interpolated."""
    part = data.sel(case=case)
    return np.interp(times, part["time"].values, part["error"].values)


def _z(
    theory: "Dataset", seen: "Dataset", values: np.ndarray | None = None
) -> np.ndarray:
    """Return the gap of a theory in standard errors of the mean of the runs."""
    expected = theory["error"].values if values is None else values
    scatter = np.maximum(seen["error_se"].values, 1e-12)
    return (expected - seen["error_mean"].values) / scatter


def draw_3(data: "Dataset") -> "Figure":
    """Draw the time against the rate, and theory with runs at the best rate."""
    small = (
        f"Linear unit, {float(data['share']):.0%} of the first error as target. Left: "
        "theory. Right, best rates: lines are theory, marks the mean of "
        f"{int(data['runs'])} runs, N = {int(data['dim'])} "
        f"({int(data['dim_turned'])} in a random basis)."
    )
    title = "A power-law spectrum: the preconditioning belongs to the eigenbasis"
    figure, axes = panel_grid(1, 2, title, small, height=3.2, width=9.8)
    left, right = axes[0]
    for look, case in enumerate(data["case"].values):
        part = data.sel(case=case)
        known = np.isfinite(part["lr"].values) & np.isfinite(part["reached"].values)
        left.plot(
            part["lr"].values[known],
            part["reached"].values[known],
            color=COLORS[look],
            marker=MARKERS[look],
            markersize=3.5,
        )
        draw_band(
            right,
            part["time"].values,
            part["error"].values,
            part["error_mean"].values,
            part["error_se"].values,
            look=look,
            label=f"{case}: η = {float(part['best_rate']):.3g}",
        )
    left.set(xlabel="η", ylabel="time to the target", xscale="log", yscale="log")
    right.set(xlabel=TIME, ylabel=ERROR, xscale="symlog", yscale="log")
    label_panel(left, "every rate")
    label_panel(right, "best rates, with runs")
    outside_legend(right)
    return figure


def _rates(low: float, high: float, count: int) -> list[float]:
    return [float(rate) for rate in np.geomspace(low, high, count).round(4)]


RATES = {
    SGD: _rates(0.2, 1.8, 12),
    ADAM: _rates(0.02, 2.0, 14),
    ADAM_TURNED: _rates(0.01, 0.5, 14),
    SIGN: _rates(0.01, 0.5, 14),
    SIGN_TURNED: _rates(0.01, 0.5, 14),
}
COMMON: dict[str, Any] = {
    "levels": 32,
    "rates": RATES,
    "end": 400.0,
    "share": 0.05,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="optim-3",
        source="optim",
        figure="power law",
        title="adaptive optimizers on a power-law spectrum, in two bases",
        full=COMMON | {"per_level": 64, "per_level_turned": 32, "runs": 40},
        quick=COMMON | {"per_level": 48, "per_level_turned": 16, "runs": 20},
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
