"""The limits of the theory (primer).

The figure shows at which learning rates, label noise and network sizes it still
describes a network.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_least, at_most, below, close
from tutelage_papers.drawing import draw_power, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

LOST = 1e-4  # an error above this, long after, is no longer zero
# Recorded times of every solve: one compiled program serves all. Of alpha = 10 these
# are whole steps at any N.
POINTS = 11
# Distance to the critical rate, as a share of it, from which the final state is reached
# in time.
AWAY = 0.01


def problem(lr: float, noise: float = 0.0) -> "tu.Problem":
    """Two erf units learn from two others."""
    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf")
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=lr), noise=noise)


def compute_5(
    starts: list[list[Any]],
    shares: list[float],
    end: float,
    loss_shares: list[float],
    loss_dims: list[int],
    loss_runs: int,
    loss_end: float,
    noises: list[float],
    rates: int,
    map_dim: int,
    map_runs: int,
    map_end: float,
    cases: list[list[float]],
    dims: list[int],
    runs: list[int],
    seed: int,
) -> "Dataset":
    """Return the loss of zero error in theory and runs, and gaps between the two.

    The gaps are those over the plane of rates and noises, and those against N.
    """
    critical = float(tu.analysis.critical_learning_rate(problem(1.0)))
    first, *others = [tu.Start(*start) for start in starts]
    rates_of_plane = np.linspace(0.1, 1.3 * critical, rates)
    pairs = [(share * critical, noise) for share, noise in cases]
    lost = _lost_by_theory(critical, [first, *others], shares, end)
    lost_runs = _lost_by_runs(
        critical, first, loss_shares, loss_dims, loss_runs, loss_end, seed
    )
    plane = _plane(first, rates_of_plane, noises, map_dim, map_runs, map_end, seed)
    sizes = _sizes(first, pairs, dims, runs, map_end, seed)
    data = lost.merge(lost_runs).merge(plane).merge(sizes)
    return data.assign(critical=critical, map_dim=map_dim, map_runs=map_runs)


def _lost_by_theory(
    critical: float, starts: "list[tu.Start]", shares: list[float], end: float
) -> "Dataset":
    """The error at the end (final) from each start, at shares of the critical rate."""
    import xarray as xr

    times = tu.linear_times(end, POINTS)
    final = np.empty((len(starts), len(shares)))
    for row, start in enumerate(starts):
        for column, share in enumerate(shares):
            solved = tu.solve(problem(share * critical), start, times)
            final[row, column] = solved.error[-1]
    return xr.Dataset({"final": (("start", "share"), final)}, coords={"share": shares})


def _lost_by_runs(
    critical: float,
    start: "tu.Start",
    shares: list[float],
    dims: list[int],
    runs: int,
    end: float,
    seed: int,
) -> "Dataset":
    """The median of the error over runs at the end (final_runs)."""
    import xarray as xr

    final = np.empty((len(dims), len(shares)))
    for row, dim in enumerate(dims):
        for column, share in enumerate(shares):
            networks = tu.simulate(
                problem(share * critical),
                start,
                dim=dim,
                times=[0.0, end],
                runs=runs,
                seed=seed,
            )
            final[row, column] = float(np.median(networks.error[:, -1]))
    return xr.Dataset(
        {"final_runs": (("loss_dim", "loss_share"), final)},
        coords={"loss_dim": dims, "loss_share": shares},
    )


def _relative_gaps(
    start: "tu.Start",
    lr: float,
    noise: float,
    dim: int,
    runs: int,
    end: float,
    seed: int,
) -> tuple[np.ndarray, float]:
    """Each run's error over the theory minus one, and that of the theory with 0.9 G.

    Both are averaged over the last two thirds of the times.
    """
    from tutelage_papers.bands import wrong_theory

    times = tu.linear_times(end, POINTS)
    late = slice(POINTS // 3, None)
    task = problem(lr, noise)
    theory = tu.solve(task, start, times).error[late]
    wrong = wrong_theory(task, start, times).error[late]
    networks = tu.simulate(task, start, dim=dim, times=times, runs=runs, seed=seed)
    gaps = (networks.error[:, late] / theory).mean(axis=1) - 1
    return gaps, float((wrong / theory).mean()) - 1


def _plane(
    start: "tu.Start",
    rates: np.ndarray,
    noises: list[float],
    dim: int,
    runs: int,
    end: float,
    seed: int,
) -> "Dataset":
    """Networks of one size: spread of the relative gap, z of its mean, and z_wrong.

    z_wrong is against the theory with 0.9 G.
    """
    import xarray as xr

    shape = (len(noises), rates.size)
    spread = np.empty(shape)
    z = np.empty(shape)
    z_wrong = np.empty(shape)
    for row, noise in enumerate(noises):
        for column, lr in enumerate(rates):
            place = row * rates.size + column
            gaps, wrong = _relative_gaps(
                start, float(lr), noise, dim, runs, end, seed + 1 + place
            )
            error = gaps.std(ddof=1) / np.sqrt(runs)
            spread[row, column] = gaps.std(ddof=1)
            z[row, column] = gaps.mean() / error
            z_wrong[row, column] = (gaps.mean() - wrong) / error
    dims = ("noise", "lr")
    variables: dict[str, Any] = {
        "spread": (dims, spread),
        "z": (dims, z),
        "z_wrong": (dims, z_wrong),
    }
    return xr.Dataset(variables, coords={"noise": noises, "lr": rates})


def _sizes(
    start: "tu.Start",
    cases: list[tuple[float, float]],
    dims: list[int],
    runs: list[int],
    end: float,
    seed: int,
) -> "Dataset":
    """Relative gaps at several N, and their powers of N, for several (lr, noise).

    mean: the gap of the mean of the runs. single: the spread of single runs around it.

    With m N runs of N inputs the gap of the mean, c / N, is known to a share k /
    sqrt(m) of it, k = sqrt(N) spread / c. The numbers of runs were chosen from k (0.44
    and 0.6 in pilot runs of these two cases, more than 1 at larger noise, where c
    happens to be small), so that the exponent is known to 0.05. Smaller N need fewer
    steps for that: steps go as m N^2.
    """
    import xarray as xr

    parts: list[Dataset] = []
    for place, (lr, noise) in enumerate(cases):
        single = np.empty(len(dims))
        mean = np.empty(len(dims))
        for column, (dim, count) in enumerate(zip(dims, runs, strict=True)):
            case_seed = seed + 1000 * (place + 1) + column
            gaps, _ = _relative_gaps(start, lr, noise, dim, count, end, case_seed)
            single[column] = gaps.std(ddof=1)
            mean[column] = gaps.mean()
        single_se = single / np.sqrt(2 * np.asarray(runs))
        mean_se = single / np.sqrt(runs)
        single_power, single_power_se = _power(dims, single, single_se, -0.5)
        mean_power, mean_power_se = _power(dims, mean, mean_se, -1.0)
        variables: dict[str, Any] = {
            "single": ("dim", single),
            "single_se": ("dim", single_se),
            "mean": ("dim", mean),
            "mean_se": ("dim", mean_se),
            "single_power": single_power,
            "single_power_se": single_power_se,
            "mean_power": mean_power,
            "mean_power_se": mean_power_se,
            "case_lr": lr,
            "case_noise": noise,
        }
        parts.append(xr.Dataset(variables, coords={"dim": dims}))
    return xr.concat(parts, dim="case")


def _power(
    dims: list[int], values: np.ndarray, errors: np.ndarray, guess: float
) -> tuple[float, float]:
    """The exponent s of values = c (N / N_0)^s, and its error.

    Weighted least squares also work where single values vanish in their errors.
    """
    from scipy.optimize import curve_fit

    size = np.asarray(dims, dtype=float) / dims[0]
    parameters, covariance, *_ = curve_fit(
        lambda n, c, s: c * n**s,
        size,
        values,
        p0=(values[0], guess),
        sigma=errors,
        absolute_sigma=True,
    )
    return float(parameters[1]), float(np.sqrt(covariance[1, 1]))


def threshold(shares: Any, errors: Any) -> float:
    """Return the share of the critical rate at which the final error passes 1e-4.

    The logarithm of the error is interpolated between two rates. NaN: it does not pass.
    """
    shares = np.asarray(shares, dtype=float)
    logs = np.log(np.maximum(np.asarray(errors), 1e-16) / LOST)
    if logs[0] > 0 or np.all(logs <= 0):
        return float("nan")
    after = int(np.argmax(logs > 0))
    before = after - 1
    slope_inverse = (shares[after] - shares[before]) / (logs[after] - logs[before])
    return float(shares[before] - logs[before] * slope_inverse)


def claims_5(data: "Dataset") -> Iterator[Claim]:
    """Zero error is lost at the critical rate; the gap of runs falls with N.

    The theory holds over the plane of rates and noises.
    """
    yield close("critical rate", data["critical"], 2.3068277, rel=1e-7)
    yield from _theory_claims(data)
    for dim in data["loss_dim"].values:
        share = threshold(data["loss_share"], data["final_runs"].sel(loss_dim=dim))
        yield close(
            f"zero error is lost in networks with N = {dim} at this share",
            share,
            1.0,
            rel=0.05,
        )
    yield at_least(
        "share of learning rates and noises at which the theory is inside the band "
        "of the runs",
        (abs(data["z"]) < 4).mean(),
        0.95,
    )
    yield below(
        "the same with 0.9 G, which must fail", (abs(data["z_wrong"]) < 4).mean(), 0.95
    )
    for place in range(data.sizes["case"]):
        yield from _size_claims(data.isel(case=place))


def _theory_claims(data: "Dataset") -> Iterator[Claim]:
    """The rate at which the theory loses zero error; its final error has no memory."""
    shares = data["share"].values
    final = data["final"].values
    thresholds = [threshold(shares, row) for row in final]
    yield close(
        "zero error is lost in the theory at this share of it, worst start",
        _worst(thresholds),
        1.0,
        rel=0.01,
    )
    away = np.abs(shares - 1) > 0.99 * AWAY
    yield at_most(
        "difference of the final error between starts, below and above",
        np.ptp(final, axis=0)[away].max(),
        1e-6,
    )
    beyond = shares > 1 + 0.99 * AWAY
    yield above("final error beyond, smallest", final[:, beyond].min(), LOST)


def _size_claims(case: "Dataset") -> Iterator[Claim]:
    """Single runs spread as N^(-1/2), and the gap of their mean falls as 1/N."""
    lr = float(case["case_lr"])
    noise = float(case["case_noise"])
    name = f"eta = {lr:.3g}, sigma = {noise:g}"
    yield close(
        f"{name}: exponent of N in the spread of single runs",
        case["single_power"],
        -0.5,
        absolute=0.15,
    )
    yield close(
        f"{name}: exponent of N in the gap of their mean",
        case["mean_power"],
        -1.0,
        absolute=0.15,
    )
    yield at_most(
        f"{name}: standard error of that exponent", case["mean_power_se"], 0.05
    )


def _worst(values: list[float]) -> float:
    return max(values, key=lambda x: abs(x - 1))


def draw_5(data: "Dataset") -> "Figure":
    """Zero error lost, in theory and runs; the gap by N, and by rate and noise."""
    title = "Where the theory ends, K = M = 2"
    small = (
        "Top: learning rates beyond which zero error is unstable. Bottom: networks of "
        "finite size beside the theory."
    )
    figure, axes = panel_grid(2, 2, title, small, height=2.9)
    _draw_late_errors(axes[0, 0], data)
    _draw_thresholds(axes[0, 1], data)
    _draw_sizes(axes[1, 0], data)
    _draw_plane(figure, axes[1, 1], data)
    return figure


def _marks(place: int) -> dict[str, Any]:
    """The look of networks of one size."""
    return {
        "color": COLORS[place],
        "marker": MARKERS[place],
        "linestyle": "none",
        "markerfacecolor": "white",
        "markersize": 4.5,
    }


def _draw_late_errors(panel: Any, data: "Dataset") -> None:
    for place, row in enumerate(data["final"].values):
        line = {"color": INK, "linestyle": DASHES[place % len(DASHES)]}
        label = f"theory, start {place + 1}"
        error = np.maximum(row, 1e-16)
        panel.plot(data["share"], error, **line, linewidth=1.2, label=label)
    for place, dim in enumerate(data["loss_dim"].values):
        error = np.maximum(data["final_runs"].sel(loss_dim=dim), 1e-16)
        panel.plot(data["loss_share"], error, **_marks(place), label=f"$N = {dim}$")
    panel.axhline(LOST, color=FAINT, linewidth=0.8)
    panel.set(
        xlabel=r"learning rate $\eta / \eta_c$",
        ylabel=r"late error $\epsilon_g$",
        yscale="log",
    )
    outside_legend(panel)
    label_panel(panel, f"late error, $\\eta_c = {float(data['critical']):.5g}$")


def _draw_thresholds(panel: Any, data: "Dataset") -> None:
    """The rate at which zero error is lost, of the theory and of networks by size."""
    for place, dim in enumerate(data["loss_dim"].values):
        share = threshold(data["loss_share"], data["final_runs"].sel(loss_dim=dim))
        panel.plot([dim], [share], **_marks(place))
    panel.axhspan(0.95, 1.05, color=FAINT, alpha=0.2, linewidth=0)
    panel.axhline(threshold(data["share"], data["final"].values[0]), color=INK)
    panel.set(
        xlabel="input dimension $N$",
        ylabel=r"zero error is lost at $\eta / \eta_c$",
        xscale="log",
        ylim=(0.9, 1.1),
    )
    tick_each(panel, data["loss_dim"].values, room=0.1)
    label_panel(panel, "marks: runs; line: theory; gray: within 5%")


def _draw_plane(figure: "Figure", panel: Any, data: "Dataset") -> None:
    """Spread in color, with the points outside the band crossed out."""
    dim = int(data["map_dim"])
    runs = int(data["map_runs"])
    share = data["lr"].values / float(data["critical"])
    noise = np.arange(data.sizes["noise"])
    spread = np.sqrt(dim) * data["spread"]
    colors = panel.pcolormesh(share, noise, spread, cmap="viridis", shading="nearest")
    label = r"spread of $\epsilon_g$ / theory, times $\sqrt{N}$"
    figure.colorbar(colors, ax=panel, label=label)
    rows, columns = np.nonzero(abs(data["z"].values) >= 4)
    panel.plot(share[columns], noise[rows], "x", color="white", markersize=6)
    panel.axvline(1.0, color="white", linewidth=1.2, linestyle=DASHES[1])
    panel.set(xlabel=r"learning rate $\eta / \eta_c$", ylabel=r"label noise $\sigma$")
    panel.set_yticks(noise, [f"{value:g}" for value in data["noise"].values])
    panel.grid(False)
    label_panel(panel, f"$N = {dim}$, {runs} runs; ×: outside the band")


def _draw_sizes(panel: Any, data: "Dataset") -> None:
    """The spread of single runs and the gap of their mean, with straight lines."""
    dims = data["dim"].values
    for place in range(data.sizes["case"]):
        case = data.isel(case=place)
        lr = float(case["case_lr"])
        noise = float(case["case_noise"])
        name = f"$\\eta = {lr:.3g}$, $\\sigma = {noise:g}$"
        look = _marks(place)
        single_look = look | {"marker": "o", "label": f"single, {name}"}
        mean_look = look | {"marker": "s", "label": f"mean, {name}"}
        panel.errorbar(dims, case["single"], yerr=2 * case["single_se"], **single_look)
        mean = abs(case["mean"].values)
        error = 2 * case["mean_se"].values
        seen = mean > error
        panel.errorbar(dims[seen], mean[seen], yerr=error[seen], **mean_look)
    single = float(data["single"].values[:, 0].max())
    mean = float(abs(data["mean"].values[:, 0]).max())
    draw_power(panel, dims, single, -0.5, "$N^{-1/2}$")
    draw_power(panel, dims, mean, -1.0, "$N^{-1}$", dashes=3)
    panel.set(
        xlabel="input dimension $N$",
        ylabel=r"relative gap of $\epsilon_g$",
        xscale="log",
        yscale="log",
    )
    tick_each(panel, dims)
    outside_legend(panel)
    label_panel(panel, "runs against theory")


# Learning rates of the full version, over the critical one.
SHARES = [0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995]
SHARES += [1.0, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.3]

PRINTED_5: dict[str, Any] = {
    "starts": [
        [[[0.5, 0.1], [-0.1, 0.4]], [[0.5, 0.05], [0.05, 0.6]]],
        [[[0.1, 0.0], [0.0, 0.08]], [[0.05, 0.0], [0.0, 0.05]]],
        [[[0.3, 0.1], [-0.2, 0.4]], [[1.5, 0.2], [0.2, 1.2]]],
    ],
    "end": 2000.0,
    "loss_end": 1000.0,
    "map_end": 10.0,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="primer-5",
        source="primer",
        figure="Limits of the setting",
        title="where the theory ends: learning rates, label noise and network sizes",
        full=PRINTED_5
        | {
            "shares": SHARES,
            "loss_shares": [0.9, 0.96, 0.99, 1.0, 1.01, 1.04, 1.1],
            "loss_dims": [50, 100, 200, 400, 800],
            "loss_runs": 10,
            "noises": [0.0, 0.1, 0.2, 0.5, 1.0],
            "rates": 12,
            "map_dim": 400,
            "map_runs": 100,
            "cases": [[0.6, 0.0], [0.6, 0.1]],
            "dims": [50, 100, 200, 400, 800, 1600, 3200],
            "runs": [15000, 20000, 20000, 10000, 5000, 2500, 1250],
        },
        quick=PRINTED_5
        | {
            "shares": [0.5, 0.99, 1.0, 1.01, 1.3],
            "loss_shares": [0.96, 0.99, 1.01, 1.04],
            "loss_dims": [50, 200],
            "loss_runs": 3,
            "noises": [0.0, 0.3, 1.0],
            "rates": 4,
            "map_dim": 200,
            "map_runs": 40,
            "cases": [[0.6, 0.0]],
            "dims": [20, 40, 80],
            "runs": [4000, 2400, 4000],
        },
        compute=compute_5,
        draw=draw_5,
        claims=claims_5,
    ),
)
