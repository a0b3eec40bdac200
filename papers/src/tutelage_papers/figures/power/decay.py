"""Figures 6 and 20 of the power-law paper: how the error decays at the end.

When every student has found its teacher. Left of figure 6: gradient flow of 40 units on as
many levels as inputs, which the paper could only simulate; its slopes against those of the
sum over levels,

    e = sum_l p_l lam_l sum_k a_k exp(-2 eta lam_l a_k alpha),

a_k the eigenvalues of -A at perfect learning. Right of figure 6, and figure 20: the linear
theory from alpha_0 on, in the weights and in the overlaps.
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
)
from tutelage_papers.claims import FAIL, Claim, at_most, below, close, refuted
from tutelage_papers.drawing import draw_power, line_of
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
    from xarray import DataArray, Dataset

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
) -> "Dataset":
    """Solved curves of two units by L, and the linear theories from each of `begins`.

    Each theory covers a time of begins[0].
    """
    import xarray as xr

    times = np.linspace(0.0, begins[-1] + begins[0], POINTS)
    rows = []
    for L in levels:
        inputs = split_power_law(beta, L, total)
        problem, start, curve = solved_committee(2, inputs, dim, scale, lr, times, seed)
        late = []
        for begin in begins:
            first = int(np.searchsorted(times, begin))
            last = int(np.searchsorted(times, begin + begins[0]))
            window = slice(first, last + 1)
            late.append(_linear_theories(problem, start.T, curve, times, window))
        cases = xr.DataArray(begins, dims="begin", name="begin")
        row = xr.concat(late, dim=cases)
        row["error"] = ("time", curve.error)
        row["S_end"] = _other_overlap(curve.R[-1])
        row["T"] = float(np.mean(np.diag(np.asarray(curve.T))))
        row["C_end"] = float(np.abs(curve.Q[-1, 0, 1]))
        rows.append(row)
    axis = xr.DataArray(levels, dims="levels", name="levels")
    return xr.concat(rows, dim=axis).assign_coords(time=times)


def _linear_theories(
    problem: "tu.Problem",
    T: Any,
    curve: "tu.Trajectory",
    times: np.ndarray,
    window: slice,
) -> "Dataset":
    """The solved curve in a window, and theories linear in weights and in overlaps.

    Both begin where the window begins.
    """
    import xarray as xr

    def theory_from(index: int) -> Any:
        start = tu.Start(curve.r[index], curve.q[index], T)
        return tutelage_papers.power_law.asymptotic_decay(problem, start)

    after = times[window] - times[window.start]
    decay = theory_from(window.start)
    at_end = theory_from(window.stop - 1)
    data = xr.Dataset(coords={"after": after})
    data["solved"] = ("after", np.asarray(curve.error[window]))
    data["weights"] = ("after", decay.error(after))
    data["overlaps"] = ("after", decay.first_order(after))
    data["overlaps_end"] = float(at_end.first_order(0.0)[0])
    return data


def _other_overlap(R: np.ndarray) -> float:
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
    """Return the curves and both linear theories.

    And the eigenvalues of the reduced system for several M.
    """
    data = _decays(levels, total, beta, dim, scale, lr, begins, seed)
    groups = np.array([_groups(M) for M in sizes])
    data = data.assign_coords(units=sizes)
    return data.assign(groups=(("units", "group"), groups))


def _groups(M: int) -> list[float]:
    """Eigenvalues of the reduced system in the paper's units.

    Fast and slow ones of a level's own part of e_g, the largest of the shared part.
    """
    problem = tutelage_papers.power_law.committee(M)
    system = tutelage_papers.power_law.reduced_system(problem, "perfect")
    unit = 2 / (np.sqrt(3) * np.pi * M)
    own = system.own_rates / unit
    shared = system.shared_rates / unit
    return [-own[0], -own[2], shared[-1]]


def claims_20(data: "Dataset") -> Iterator[Claim]:
    """Compare theories linear in weights and overlaps, and groups of eigenvalues."""
    yield from _linear_claims(data)
    for M, groups in zip(data["units"].values, data["groups"].values, strict=True):
        yield from _group_claims(M, groups)
    yield from _end_claims(data.isel(levels=-1))


def _linear_claims(data: "Dataset") -> Iterator[Claim]:
    """Linear in the weights holds; linear in the overlaps does not."""
    last = data["levels"].values[-1]
    first_begin, second_begin = data["begin"].values
    for L in data["levels"].values:
        row = data.sel(levels=L)
        early = _gap_of(row.sel(begin=first_begin), "weights")
        late = _gap_of(row.sel(begin=second_begin), "weights")
        if last == L:
            words = (
                f"L = {L}: decay linear in the weights from alpha_0 = {first_begin:g}, "
                "largest gap"
            )
            yield at_most(words, early, 0.04)
        words = f"L = {L}: the same gap, from twice alpha_0 over from alpha_0"
        yield at_most(words, late / early, 1.0)
        agreement = at_most(
            f"L = {L}: eq. 122, linear in the overlaps, largest gap",
            _gap_of(row.sel(begin=first_begin), "overlaps"),
            0.04,
            says="excellent agreement",
        )
        yield refuted(
            agreement,
            evidence="the same start, linear in the weights and exact in e_g, is "
            f"{100 * early:.2g}% off: u T u^T is as large as what eq. 121 keeps",
        )


def _gap_of(row: "Dataset", name: str) -> float:
    return largest_gap(row[name], row["solved"])


def _group_claims(M: int, groups: np.ndarray) -> Iterator[Claim]:
    """The two groups of rates for M units (eq. 17)."""
    fast, slow, shared = groups
    root = np.sqrt(3)
    words = f"M = {M}: fast group 2 + (M-1) sqrt(3)"
    yield close(words, fast, 2 + (M - 1) * root, rel=1e-6)
    yield close(f"M = {M}: slow group 2 - sqrt(3)", slow, 2 - root, rel=1e-6)
    if M > 2:
        evidence = (
            "eigenvalues of the reduced system, which are modes of the whole Jacobian "
            "(tests)"
        )
        words = f"M = {M}: fast group 2 + sqrt(3) of eq. 17"
        yield refuted(close(words, fast, 2 + root, rel=0.01), evidence)
        words = f"M = {M}: 1/3 + sqrt(43)/12 of H"
        printed = 1 / 3 + np.sqrt(43) / 12
        yield refuted(close(words, shared, printed, rel=0.01), evidence)


def _end_claims(row: "Dataset") -> Iterator[Claim]:
    """Overlaps at the end of learning: the printed forms have T in them."""
    S = row["S_end"] / row["T"]
    C = row["C_end"] / row["T"]
    evidence = "the solved curve tends to zero error"
    words = "overlap with another's teacher at the end, over T (S = s)"
    yield at_most(words, S, 0.1)
    words = "the same, as printed: S = T + s"
    yield refuted(close(words, S, 1.0, absolute=0.1), evidence)
    yield at_most("overlap of two students at the end, over T (C = c)", C, 0.1)
    words = "the same, as printed: C = T + c"
    yield refuted(close(words, C, 1.0, absolute=0.1), evidence)


def draw_20(data: "Dataset") -> "Figure":
    """Draw the whole curves, and the two linear theories for each L."""
    levels = data["levels"].values
    columns = 1 + len(levels)
    title = "The last stage: linear in the weights, or in the overlaps"
    figure, axes = panel_grid(1, columns, title, f"K = M = 2, {SETTING}", height=3.2)
    curves = axes[0, 0]
    for look, L in enumerate(levels):
        row = data.sel(levels=L)
        label = f"$L={L}$"
        curves.semilogy(data["time"], row["error"], color=COLORS[look], label=label)
        panel = axes[0, 1 + look]
        _draw_theories(panel, row.isel(begin=0))
        begin = float(row["begin"][0])
        label_panel(panel, f"$L={L}$, from $\\alpha_0={begin:g}$")
    curves.set(xlabel=TIME, ylabel=ERROR)
    curves.legend(loc="upper right")
    axes[0, -1].legend(loc="upper right", fontsize=7)
    return figure


def _draw_theories(panel: Any, row: "Dataset") -> None:
    """The solved curve and both linear theories."""
    after = row["after"].values
    solved = {"color": COLORS[0], "linewidth": 2.4}
    weights = {"color": INK, "linestyle": DASHES[1]}
    overlaps = "eq. 122, linear in the overlaps"
    panel.semilogy(after, row["solved"], label="solved", **solved)
    panel.semilogy(after, row["weights"], label="linear in the weights", **weights)
    panel.semilogy(after, row["overlaps"], label=overlaps, **line_of(1, 2))
    panel.set(xlabel=r"$\alpha-\alpha_0$", ylabel=ERROR)


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
    """Return gradient flows for each beta and start; one network; the right panel.

    From afar and from `near` times the teachers. end, window: the last time, and the times
    between which late slopes are fitted. run_end: where the network stops.
    """
    import xarray as xr

    times = np.concatenate([[0.0], np.geomspace(1.0, end, 160)])
    decade = np.geomspace(10**-0.5, 10**0.5, times.size - 1)
    flows = []
    near_slopes = []
    near_sums = []
    for beta in betas:
        flows.append(_flows(units, dim, beta, lr, scale, times, starts, window, seed))
        of_flow, of_sum = network_slopes(units, dim, beta, near, starts, seed, decade)
        near_slopes.append(of_flow)
        near_sums.append(of_sum)
    left = xr.concat(flows, dim=xr.DataArray(betas, dims="beta", name="beta"))
    left = left.assign_coords(late_time=times)
    left["near_slope"] = (("beta", "start"), near_slopes)
    left["near_sum"] = (("beta", "start"), near_sums)
    left["window"] = ("edge", window)
    left = left.merge(_run(units, dim, run_beta, lr, scale, run_end, seed))
    return left.merge(_decays(**right, seed=seed))


def _network(
    units: int, dim: int, beta: float, lr: float, scale: float, seed: int
) -> tuple["tu.Problem", tuple[np.ndarray, np.ndarray]]:
    """A committee with as many levels as inputs, and random weights."""
    rng = np.random.default_rng(seed)
    inputs = tu.PowerLaw(beta, dim)
    problem = tutelage_papers.power_law.committee(units, inputs=inputs, lr=lr)
    students = scale * rng.standard_normal((units, dim))
    teachers = rng.standard_normal((units, dim))
    return problem, (students, teachers)


def _run(
    units: int, dim: int, beta: float, lr: float, scale: float, end: float, seed: int
) -> "Dataset":
    """One network trained by SGD, and how far its units are apart."""
    import xarray as xr

    problem, weights = _network(units, dim, beta, lr, scale, seed)
    times = np.concatenate([[0.0], np.geomspace(1.0, end, 60)])
    run = tu.simulate(
        problem, weights=weights, inputs="gaussian", times=times, runs=1, seed=seed
    )
    data = xr.Dataset(coords={"run_time": times})
    data["run"] = ("run_time", run.error[0])
    data["run_parting"] = ("run_time", unit_spread(np.asarray(run.R[0])))
    data["run_beta"] = beta
    data["run_dim"] = dim
    data["limit_ratio"] = lr * float(problem.inputs.eigenvalues[0]) / dim
    return data


def _flows(
    units: int,
    dim: int,
    beta: float,
    lr: float,
    scale: float,
    times: np.ndarray,
    starts: int,
    window: list[float],
    seed: int,
) -> "Dataset":
    """The error of each start, and the sum over levels with the rates of its teachers.

    found: the share of units that have found their teachers at the edges of the window.
    """
    import xarray as xr

    errors = []
    sums = []
    found = []
    for i in range(starts):
        problem, weights = _network(units, dim, beta, lr, scale, seed + i)
        flow = tutelage_papers.power_law.weight_flow(problem, weights, times, rtol=1e-4)
        curve = flow.trajectory
        errors.append(np.asarray(curve.error))
        edges = [np.argmin(np.abs(times - edge)) for edge in window]
        found.append([_found(curve.R[edge], curve.T) for edge in edges])
        lam = np.asarray(problem.inputs.eigenvalues)
        _, teachers = weights
        own = own_rates((teachers * lam) @ teachers.T / dim)
        rates = lr * np.multiply.outer(own, lam)
        decay = np.array([np.sum(rates * np.exp(-2 * rates * t)) for t in times])
        sums.append(decay / (2 * lr * dim))
    data = xr.Dataset()
    data["flow"] = (("start", "late_time"), np.array(errors))
    data["sum"] = (("start", "late_time"), np.array(sums))
    data["found"] = (("start", "edge"), np.array(found))
    return data


def _found(R: Any, T: Any) -> float:
    """The share of students that have found a teacher of their own.

    Their overlap with it is above nine tenths of that teacher's square.
    """
    from scipy.optimize import linear_sum_assignment

    share = np.asarray(R) / np.diag(T)
    matched = share[linear_sum_assignment(-share)]
    return float(np.mean(matched > FOUND))


def claims_6(data: "Dataset") -> Iterator[Claim]:
    """Compare late slopes with the sum over levels and the exponent; the right panel."""
    yield from _slope_claims(data)
    yield _exponent_claim(data)
    run, flow = _before_escape(data)
    words = (
        "one network against gradient flow until its units part, largest gap times "
        "sqrt(N) / 2"
    )
    gap = largest_gap(run, flow) * np.sqrt(int(data["run_dim"])) / 2
    yield at_most(words, gap, 1.0)
    yield at_most("eta lam_1 / N of that network", data["limit_ratio"], 0.05)
    row = data.isel(levels=0, begin=0)
    words = "right: decay linear in the weights, largest gap"
    yield at_most(words, _gap_of(row, "weights"), 0.05)
    first = row["overlaps"][0] / row["solved"][0] - 1
    yield refuted(
        at_most("right: eq. 121 at alpha_0, relative gap", first, 0.05),
        evidence="both sides are evaluated at one state; the exact e_g of the overlaps "
        "is the solved one",
    )


def _slope_claims(data: "Dataset") -> Iterator[Claim]:
    """Slopes over those of the sum over levels, by beta.

    Near the teachers, and in the window of the random starts.
    """
    betas = data["beta"].values
    near = (data["near_slope"] / data["near_sum"]).mean("start").values
    for beta, ratio in zip(betas, near, strict=True):
        words = f"beta = {beta:g}: slope over that of the sum over levels, near the teachers"
        yield close(words, ratio, 1.0, rel=0.1)
    early, late = data["found"].values.mean(axis=(0, 1))
    evidence = (
        f"not the last stage yet: {100 * early:.0f}% of the units have found their "
        f"teachers where the window begins and {100 * late:.0f}% where it ends; near "
        f"the teachers the ratios are {near.min():.2f} to {near.max():.2f}"
    )
    # The evidence is measured, too.
    shown = early < 0.5 and np.abs(near - 1).max() < 0.1
    begin = float(data["window"][0])
    ratios = _late_slopes(data["flow"], data) / _late_slopes(data["sum"], data)
    for beta, ratio in zip(betas, ratios, strict=True):
        words = f"beta = {beta:g}: the same from random starts, alpha > {begin:g}"
        claim = close(words, ratio, 1.0, rel=0.1)
        if shown and claim.verdict == FAIL:
            claim = refuted(claim, evidence)
        yield claim
    words = "share of the units that have found their teachers where that window begins"
    yield below(words, early, 0.9)


def _exponent_claim(data: "Dataset") -> Claim:
    """The exponent -beta/(1+beta) is not reached yet."""
    betas = data["beta"].values
    slopes = _late_slopes(data["flow"], data)
    of_sum = np.round(_late_slopes(data["sum"], data), 2).tolist()
    observed = at_most(
        "late slopes against -beta/(1+beta): largest relative distance",
        np.abs(slopes * (1 + betas) / -betas - 1).max(),
        0.1,
        says="in all configurations we observe the scaling alpha^(-beta/(1+beta))",
    )
    return refuted(
        observed,
        evidence=f"the sum over levels itself has the slopes {of_sum}: L is too small",
    )


def _before_escape(data: "Dataset") -> tuple[np.ndarray, np.ndarray]:
    """The error of the network and of its gradient flow, until its units part."""
    flow = data["flow"].sel(beta=float(data["run_beta"])).values[0]
    at_run_times = np.interp(data["run_time"].values, data["late_time"].values, flow)
    together = np.cumsum(data["run_parting"].values > APART) == 0
    return data["run"].values[together], at_run_times[together]


def _late_slopes(errors: "DataArray", data: "Dataset") -> np.ndarray:
    """Fitted d ln e / d ln alpha inside the window, by beta.

    Of the geometric mean over starts.
    """
    late = _inside_window(data)
    logarithm = np.log(data["late_time"].values[late])
    means = np.log(errors.values).mean(axis=1)
    return np.array([np.polyfit(logarithm, mean[late], 1)[0] for mean in means])


def _inside_window(data: "Dataset") -> np.ndarray:
    """Times at which late slopes are fitted."""
    t = data["late_time"].values
    low, high = data["window"].values
    return (t >= low) & (t <= high)


def draw_6(data: "Dataset") -> "Figure":
    """Draw learning curves of each beta with the sum over levels; linear theories."""
    levels = int(data["levels"][0])
    title = "Late learning: a sum over levels, not yet a power law"
    small = f"Left: {SETTING}, as many levels as inputs. Right: K = M = 2, L = {levels}"
    figure, axes = panel_grid(1, 2, title, small, height=3.6, width=10.5)
    curves, theories = axes[0]
    for look, beta in enumerate(data["beta"].values):
        _draw_beta(curves, data, look, beta)
    _draw_run(curves, data)
    curves.set(xlabel=TIME, ylabel=ERROR)
    label_panel(curves, r"dashed: sum over levels; dotted: $\alpha^{-\beta/(1+\beta)}$")
    outside_legend(curves)
    _draw_theories(theories, data.isel(levels=0, begin=0))
    theories.legend(loc="upper right")
    return figure


def _draw_beta(panel: Any, data: "Dataset", look: int, beta: float) -> None:
    """Mean curve of one beta, the sum over levels at its height, and the power law."""
    t = data["late_time"].values
    case = data.sel(beta=beta)
    flow = np.exp(np.log(case["flow"].values).mean(axis=0))
    of_levels = np.exp(np.log(case["sum"].values).mean(axis=0))
    panel.loglog(t[1:], flow[1:], color=COLORS[look], label=rf"$\beta={beta:g}$")
    late = _inside_window(data)
    scale = flow[late].mean() / of_levels[late].mean()
    dashed = {"color": INK, "linestyle": DASHES[1], "linewidth": 1.0}
    panel.loglog(t[late], scale * of_levels[late], **dashed)
    draw_power(panel, t[late], 0.7 * flow[late][0], -beta / (1 + beta), "")


def _draw_run(panel: Any, data: "Dataset") -> None:
    """One network and the gradient flow of its start."""
    beta = float(data["run_beta"])
    flow = data["flow"].sel(beta=beta).isel(start=0, late_time=slice(1, None))
    run = data["run"].isel(run_time=slice(1, None))
    thin = {"color": INK, "linewidth": 0.8}
    dots = {"color": INK, "marker": "o", "markersize": 2.5, "linestyle": "none"}
    panel.loglog(flow["late_time"], flow, label="gradient flow of its start", **thin)
    panel.loglog(run["run_time"], run, label=rf"network, $\beta={beta:g}$", **dots)


DECAY = {"beta": 1.0, "dim": 9000, "scale": 0.01, "lr": 0.25}
RIGHT = DECAY | {"levels": [9], "total": 9, "begins": [1000.0, 2000.0]}
SIX = {"lr": 0.01, "scale": 1e-6, "near": 0.9, "right": RIGHT, "seed": 0}
TWENTY = DECAY | {"levels": [3, 9], "total": 9, "begins": [1000.0, 2000.0], "seed": 0}

FIGURES = (
    Replica(
        id="power-6",
        source="power",
        figure="Fig. 6",
        title="late decay of 40 units on 512 levels, and the linear theory of the last "
        "stage",
        full=SIX
        | {
            "units": 40,
            "dim": 512,
            "betas": [0.5, 0.75, 1.0, 1.25, 1.5],
            "end": 1e6,
            "window": [1e5, 1e6],
            "starts": 8,
            "run_beta": 1.5,
            "run_end": 3000.0,
        },
        quick=SIX
        | {
            "units": 6,
            "dim": 256,
            "betas": [0.5, 1.0, 1.5],
            "end": 1.5e5,
            "window": [1.5e4, 1.5e5],
            "starts": 4,
            "run_beta": 1.5,
            "run_end": 500.0,
        },
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
