"""Figures 6 and 20 of the power-law paper: how the error decays when every student has found its teacher.

Left of figure 6: gradient flow of 40 units on as many levels as inputs, which the paper could only simulate; its slopes
against those of the sum over levels, e = sum_l p_l lam_l sum_k a_k exp(-2 eta lam_l a_k alpha), a_k the eigenvalues of -A at
perfect learning. Right of figure 6, and figure 20: the linear theory from alpha_0 on, in the weights and in the overlaps.
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
from tutelage_papers.claims import Claim, at_most, below, close, refuted
from tutelage_papers.drawing import draw_power
from tutelage_papers.figures.power.committees import (
    SETTING,
    largest_gap,
    network_slopes,
    own_rates,
    solved_committee,
    split_power_law,
    unit_spread,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

POINTS = 241
FOUND = 0.9  # share of the teacher's square beyond which a student has found it
APART = 1e-2  # distance of the units beyond which they have left the common student


def _decays(
    levels: list[int],
    total: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    begins: list[float],
    seed: int,
) -> Any:
    """Solved curves of two units, and the linear theories from each of `begins`, over a time begins[0] long; by L."""
    import xarray as xr

    times = np.linspace(0.0, begins[-1] + begins[0], POINTS)
    rows = []
    for L in levels:
        problem, start, curve = solved_committee(
            2, split_power_law(beta, L, total), dim, scale, lr, times, seed
        )
        row: dict[str, Any] = {
            "error": ("time", curve.error),
            "S_end": _off(curve.R[-1]),
            "T": _own(curve.T),
        }
        row["C_end"] = float(np.abs(curve.Q[-1, 0, 1]))
        late = []
        for begin in begins:
            first = int(np.searchsorted(times, begin))
            window = slice(first, int(np.searchsorted(times, begin + begins[0])) + 1)
            after = times[window] - times[first]
            decay = tutelage_papers.power_law.asymptotic_decay(
                problem, tu.Start(curve.r[first], curve.q[first], start.T)
            )
            solved = tutelage_papers.power_law.asymptotic_decay(
                problem, tu.Start(curve.r[window][-1], curve.q[window][-1], start.T)
            )
            late.append(
                {
                    "solved": ("after", np.asarray(curve.error[window])),
                    "weights": ("after", decay.error(after)),
                    "overlaps": ("after", decay.first_order(after)),
                    "overlaps_end": float(solved.first_order(0.0)[0]),
                }
            )
        cases = xr.DataArray(begins, dims="begin", name="begin")
        rows.append(
            xr.concat([xr.Dataset(x) for x in late], dim=cases)
            .assign(row)
            .assign_coords(after=after)
        )
    return xr.concat(
        rows, dim=xr.DataArray(levels, dims="levels", name="levels")
    ).assign_coords(time=times)


def _own(T: Any) -> float:
    return float(np.mean(np.diag(T)))


def _off(R: np.ndarray) -> float:
    """The smaller overlap of each of two students: with the other's teacher."""
    return float(np.mean(np.min(np.abs(R), axis=1)))


def compute_20(
    levels: list[int],
    total: int,
    beta: float,
    dim: int,
    scale: float,
    lr: float,
    begins: list[float],
    sizes: list[int],
    seed: int,
) -> "Dataset":
    """The curves and both linear theories; and the eigenvalues of the reduced system for several M."""
    groups = np.array([_groups(M) for M in sizes])
    data = _decays(levels, total, beta, dim, scale, lr, begins, seed).assign_coords(
        units=sizes
    )
    return data.assign(groups=(("units", "group"), groups))


def _groups(M: int) -> list[float]:
    """Fast and slow eigenvalue of a level's own part of e_g, and the largest of the shared part, in the paper's units."""
    system = tutelage_papers.power_law.reduced_system(
        tutelage_papers.power_law.committee(M), "perfect"
    )
    unit = 2 / (np.sqrt(3) * np.pi * M)
    own = system.own_rates / unit
    shared = system.shared_rates / unit
    return [-own[0], -own[2], shared[-1]]


def claims_20(data: "Dataset") -> list[Claim]:
    """Linear in the weights holds; linear in the overlaps does not; and the groups of eigenvalues for M > 2."""
    out = []
    for L in data["levels"].values:
        gaps = {
            b: _gap_of(data.sel(levels=L, begin=b), "weights")
            for b in data["begin"].values
        }
        early, late = gaps.values()
        name = f"L = {L}: decay linear in the weights from alpha_0 = {data['begin'].values[0]:g}, largest gap"
        out += [at_most(name, early, 0.04)] if data["levels"].values[-1] == L else []
        out.append(
            at_most(
                f"L = {L}: the same gap, from twice alpha_0 over from alpha_0",
                late / early,
                1.0,
            )
        )
        missed = _gap_of(data.sel(levels=L).isel(begin=0), "overlaps")
        out.append(
            refuted(
                at_most(
                    f"L = {L}: eq. 122, linear in the overlaps, largest gap",
                    missed,
                    0.04,
                    says="excellent agreement",
                ),
                evidence=f"the same start, linear in the weights and exact in e_g, is {100 * early:.2g}% off: u T u^T is as "
                "large as what eq. 121 keeps",
            )
        )
    root, T, S, C = (
        np.sqrt(3),
        *(float(data[name][-1]) for name in ("T", "S_end", "C_end")),
    )
    for M, (fast, slow, shared) in zip(
        data["units"].values, data["groups"].values, strict=True
    ):
        out += [
            close(
                f"M = {M}: fast group 2 + (M-1) sqrt(3)",
                fast,
                2 + (M - 1) * root,
                rel=1e-6,
            ),
            close(f"M = {M}: slow group 2 - sqrt(3)", slow, 2 - root, rel=1e-6),
        ]
        if M > 2:
            whole = "eigenvalues of the reduced system, which are modes of the whole Jacobian (tests)"
            out += [
                refuted(
                    close(
                        f"M = {M}: fast group 2 + sqrt(3) of eq. 17",
                        fast,
                        2 + root,
                        rel=0.01,
                    ),
                    evidence=whole,
                ),
                refuted(
                    close(
                        f"M = {M}: 1/3 + sqrt(43)/12 of H",
                        shared,
                        1 / 3 + np.sqrt(43) / 12,
                        rel=0.01,
                    ),
                    evidence=whole,
                ),
            ]
    return [
        *out,
        at_most(
            "overlap with another's teacher at the end, over T (S = s)", S / T, 0.1
        ),
        refuted(
            close("the same, as printed: S = T + s", S / T, 1.0, absolute=0.1),
            evidence="the solved curve tends to zero error",
        ),
        at_most("overlap of two students at the end, over T (C = c)", C / T, 0.1),
        refuted(
            close("the same, as printed: C = T + c", C / T, 1.0, absolute=0.1),
            evidence="the solved curve tends to zero error",
        ),
    ]


def _gap_of(row: "Dataset", name: str) -> float:
    return largest_gap(row[name], row["solved"])


def draw_20(data: "Dataset") -> "Figure":
    """The whole curves, and the two linear theories for each L."""
    levels = data["levels"].values
    small = f"K = M = 2, {SETTING}"
    figure, axes = panel_grid(
        1,
        1 + len(levels),
        "The last stage: linear in the weights, or in the overlaps",
        small,
        height=3.2,
    )
    for i, L in enumerate(levels):
        row = data.sel(levels=L).isel(begin=0)
        axes[0, 0].semilogy(
            data["time"], data["error"].sel(levels=L), color=COLORS[i], label=f"$L={L}$"
        )
        _draw_theories(axes[0, 1 + i], row)
        label_panel(
            axes[0, 1 + i], f"$L={L}$, from $\\alpha_0={float(row['begin']):g}$"
        )
    axes[0, 0].set(xlabel=TIME, ylabel=ERROR)
    axes[0, 0].legend(loc="upper right")
    axes[0, -1].legend(loc="upper right", fontsize=7)
    return figure


def _draw_theories(axis: Any, row: "Dataset") -> None:
    after = row["after"].values
    axis.semilogy(after, row["solved"], color=COLORS[0], linewidth=2.4, label="solved")
    axis.semilogy(
        after,
        row["weights"],
        color=INK,
        linestyle=DASHES[1],
        label="linear in the weights",
    )
    axis.semilogy(
        after,
        row["overlaps"],
        color=COLORS[1],
        linestyle=DASHES[2],
        label="eq. 122, linear in the overlaps",
    )
    axis.set(xlabel=r"$\alpha-\alpha_0$", ylabel=ERROR)


def compute_6(
    units: int,
    dim: int,
    betas: list[float],
    lr: float,
    scale: float,
    end: float,
    window: list[float],
    starts: int,
    run_beta: float,
    run_end: float,
    near: float,
    right: dict[str, Any],
    seed: int,
) -> "Dataset":
    """Gradient flows for each beta and start, from afar and from `near` times the teachers; one network; the right panel.

    end, window: the last time, and the times between which late slopes are fitted. run_end: where the network stops.
    """
    import xarray as xr

    times = np.concatenate([[0.0], np.geomspace(1.0, end, 160)])
    rows = [
        _flows(units, dim, beta, lr, scale, times, starts, window, seed)
        for beta in betas
    ]
    flows, sums, found = zip(*rows, strict=True)
    decade = np.geomspace(10**-0.5, 10**0.5, times.size - 1)
    close_by = [
        network_slopes(units, dim, beta, near, starts, seed, decade) for beta in betas
    ]
    problem, weights = _network(units, dim, run_beta, lr, scale, seed)
    run_times = np.concatenate([[0.0], np.geomspace(1.0, run_end, 60)])
    run = tu.simulate(
        problem, weights=weights, inputs="gaussian", times=run_times, runs=1, seed=seed
    )
    left = xr.Dataset(
        {
            "flow": (("beta", "start", "late_time"), np.array(flows)),
            "sum": (("beta", "start", "late_time"), np.array(sums)),
            "found": (("beta", "start", "edge"), np.array(found)),
            "near_slope": (("beta", "start"), [x[0] for x in close_by]),
            "near_sum": (("beta", "start"), [x[1] for x in close_by]),
            "run": ("run_time", run.error[0]),
            "run_parting": ("run_time", unit_spread(np.asarray(run.R[0]))),
            "run_beta": run_beta,
            "run_dim": dim,
            "window": ("edge", window),
            "limit_ratio": lr * float(problem.inputs.eigenvalues[0]) / dim,
        },
        coords={"beta": betas, "late_time": times, "run_time": run_times},
    )
    return left.merge(_decays(**right, seed=seed))


def _network(
    units: int, dim: int, beta: float, lr: float, scale: float, seed: int
) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    problem = tutelage_papers.power_law.committee(
        units, inputs=tu.PowerLaw(beta, dim), lr=lr
    )
    return problem, (
        scale * rng.standard_normal((units, dim)),
        rng.standard_normal((units, dim)),
    )


def _flows(
    units: int,
    dim: int,
    beta: float,
    lr: float,
    scale: float,
    times: np.ndarray,
    starts: int,
    window: Any,
    seed: int,
) -> tuple[list[np.ndarray], list[np.ndarray], list[list[float]]]:
    """e_g of each start, the sum over levels with the rates of its teachers, and the share of units that found theirs."""
    errors = []
    sums = []
    found = []
    for i in range(starts):
        problem, weights = _network(units, dim, beta, lr, scale, seed + i)
        curve = tutelage_papers.power_law.weight_flow(
            problem, weights, times, rtol=1e-4
        ).trajectory
        errors.append(np.asarray(curve.error))
        found.append(
            [
                _found(curve.R[np.argmin(np.abs(times - edge))], curve.T)
                for edge in window
            ]
        )
        lam = np.asarray(problem.inputs.eigenvalues)
        W = weights[1]
        rates = lr * np.multiply.outer(own_rates((W * lam) @ W.T / dim), lam)
        sums.append(
            np.array([np.sum(rates * np.exp(-2 * rates * t)) for t in times])
            / (2 * lr * dim)
        )
    return errors, sums, found


def _found(R: Any, T: Any) -> float:
    """The share of students whose overlap with a teacher of their own is above nine tenths of that teacher's square."""
    from scipy.optimize import linear_sum_assignment

    own = np.asarray(R) / np.diag(T)
    return float(np.mean(own[linear_sum_assignment(-own)] > FOUND))


def claims_6(data: "Dataset") -> list[Claim]:
    """Late slopes are those of the sum over levels; the exponent -beta/(1+beta) is not yet reached; the right panel."""
    betas = data["beta"].values
    flow, linear = (
        np.array([_late_slope(data, name, beta) for beta in betas])
        for name in ("flow", "sum")
    )
    off = np.abs(flow * (1 + betas) / -betas - 1)
    row = data.isel(levels=0, begin=0)
    first = float(row["overlaps"][0] / row["solved"][0]) - 1
    run, reference = _before_escape(data)
    return [
        *_slope_claims(data, flow / linear),
        refuted(
            at_most(
                "late slopes against -beta/(1+beta): largest relative distance",
                off.max(),
                0.1,
                says="in all configurations we observe the scaling alpha^(-beta/(1+beta))",
            ),
            evidence=f"the sum over levels itself has the slopes {np.round(linear, 2).tolist()}: L is too small",
        ),
        at_most(
            "one network against gradient flow until its units part, largest gap times sqrt(N) / 2",
            largest_gap(run, reference) * np.sqrt(int(data["run_dim"])) / 2,
            1.0,
        ),
        at_most("eta lam_1 / N of that network", float(data["limit_ratio"]), 0.05),
        at_most(
            "right: decay linear in the weights, largest gap",
            _gap_of(row, "weights"),
            0.05,
        ),
        refuted(
            at_most("right: eq. 121 at alpha_0, relative gap", first, 0.05),
            evidence="both sides are evaluated at one state; the exact e_g of the overlaps is the solved one",
        ),
    ]


def _slope_claims(data: "Dataset", ratio: np.ndarray) -> list[Claim]:
    """Slopes over those of the sum over levels, by beta: near the teachers, and in the window of the random starts."""
    near = np.mean(data["near_slope"].values / data["near_sum"].values, axis=1)
    (early, late), low = (
        data["found"].values.mean(axis=(0, 1)),
        data["window"].values[0],
    )
    out = []
    for beta, value in zip(data["beta"].values, near, strict=True):
        out.append(
            close(
                f"beta = {beta:g}: slope over that of the sum over levels, near the teachers",
                value,
                1.0,
                rel=0.1,
            )
        )
    evidence = (
        f"not the last stage yet: {100 * early:.0f}% of the units have found their teachers where the window begins and "
        f"{100 * late:.0f}% where it ends; near the teachers the ratios are {near.min():.2f} to {near.max():.2f}"
    )
    shown = (
        early < 0.5 and np.abs(near - 1).max() < 0.1
    )  # the evidence is measured, too
    for beta, value in zip(data["beta"].values, ratio, strict=True):
        claim = close(
            f"beta = {beta:g}: the same from random starts, alpha > {low:g}",
            value,
            1.0,
            rel=0.1,
        )
        out.append(
            refuted(claim, evidence) if shown and claim.verdict == "fail" else claim
        )
    return [
        *out,
        below(
            "share of the units that have found their teachers where that window begins",
            early,
            0.9,
        ),
    ]


def _before_escape(data: "Dataset") -> tuple[np.ndarray, np.ndarray]:
    """e_g of the network and of its gradient flow, until the units of the network part."""
    flow = data["flow"].sel(beta=float(data["run_beta"])).values[0]
    reference = np.interp(data["run_time"].values, data["late_time"].values, flow)
    seen = np.cumsum(data["run_parting"].values > APART) == 0
    return data["run"].values[seen], reference[seen]


def _late_slope(data: "Dataset", name: str, beta: float) -> float:
    """Fitted d ln e / d ln alpha inside the window, of the geometric mean over starts."""
    return _slope(data, name, beta, slice(None))


def _slope(data: "Dataset", name: str, beta: float, starts: Any) -> float:
    t = data["late_time"].values
    low, high = data["window"].values
    inside = (t >= low) & (t <= high)
    mean = np.atleast_2d(np.log(data[name].sel(beta=beta).values[starts])).mean(axis=0)
    return float(np.polyfit(np.log(t[inside]), mean[inside], 1)[0])


def draw_6(data: "Dataset") -> "Figure":
    """Learning curves of each beta with the sum over levels; the linear theories."""
    small = f"Left: {SETTING}, as many levels as inputs. Right: K = M = 2, L = {int(data['levels'][0])}"
    figure, axes = panel_grid(
        1,
        2,
        "Late learning: a sum over levels, not yet a power law",
        small,
        height=3.6,
        width=10.5,
    )
    t, (low, high) = data["late_time"].values, data["window"].values
    for i, beta in enumerate(data["beta"].values):
        flow, linear = (
            np.exp(np.log(data[name].sel(beta=beta).values).mean(axis=0))
            for name in ("flow", "sum")
        )
        axes[0, 0].loglog(t[1:], flow[1:], color=COLORS[i], label=rf"$\beta={beta:g}$")
        late = (t >= low) & (t <= high)
        scale = flow[late].mean() / linear[late].mean()
        axes[0, 0].loglog(
            t[late], scale * linear[late], color=INK, linestyle=DASHES[1], linewidth=1.0
        )
        draw_power(axes[0, 0], t[late], 0.7 * flow[late][0], -beta / (1 + beta), "")
    own = data["flow"].sel(beta=float(data["run_beta"])).values[0]
    axes[0, 0].loglog(
        t[1:], own[1:], color=INK, linewidth=0.8, label="gradient flow of its start"
    )
    look = {"color": INK, "marker": "o", "markersize": 2.5, "linestyle": "none"}
    axes[0, 0].loglog(
        data["run_time"][1:],
        data["run"][1:],
        **look,
        label=rf"network, $\beta={float(data['run_beta']):g}$",
    )
    axes[0, 0].set(xlabel=TIME, ylabel=ERROR)
    label_panel(
        axes[0, 0], r"dashed: sum over levels; dotted: $\alpha^{-\beta/(1+\beta)}$"
    )
    outside_legend(axes[0, 0])
    _draw_theories(axes[0, 1], data.isel(levels=0, begin=0))
    axes[0, 1].legend(loc="upper right")
    return figure


DECAY = {"beta": 1.0, "dim": 9000, "scale": 0.01, "lr": 0.25}
RIGHT = DECAY | {"levels": [9], "total": 9, "begins": [1000.0, 2000.0]}
SIX = {"lr": 0.01, "scale": 1e-6, "near": 0.9, "right": RIGHT, "seed": 0}
TWENTY = DECAY | {"levels": [3, 9], "total": 9, "begins": [1000.0, 2000.0], "seed": 0}

FIGURES = (
    Replica(
        id="power-6",
        source="power",
        figure="Fig. 6",
        title="late decay of 40 units on 512 levels, and the linear theory of the last stage",
        full=SIX
        | {
            "units": 40,
            "dim": 512,
            "betas": [0.5, 0.75, 1.0, 1.25, 1.5],
            "end": 1e6,
            "window": [1e5, 1e6],
            "starts": 8,
        }
        | {"run_beta": 1.5, "run_end": 3000.0},
        quick=SIX
        | {
            "units": 6,
            "dim": 256,
            "betas": [0.5, 1.0, 1.5],
            "end": 1.5e5,
            "window": [1.5e4, 1.5e5],
            "starts": 4,
        }
        | {"run_beta": 1.5, "run_end": 500.0},
        compute=compute_6,
        draw=draw_6,
        claims=claims_6,
    ),
    Replica(
        id="power-20",
        source="power",
        figure="Fig. 20",
        title="the last stage of two units, linear in the weights or in the overlaps",
        full=TWENTY | {"sizes": [2, 3, 5]},
        quick=TWENTY | {"sizes": [2, 3]},
        compute=compute_20,
        draw=draw_20,
        claims=claims_20,
    ),
)
