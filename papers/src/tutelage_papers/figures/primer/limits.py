"""The limits of the theory (primer): learning rates, label noise and network sizes at which it still describes a network."""

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
POINTS = 11  # recorded times of every solve: one compiled program serves all. Of alpha = 10 these are whole steps at any N
AWAY = 0.01  # distance to the critical rate, as a share of it, from which the final state is reached in time


def problem(lr: float, noise: float = 0.0) -> "tu.Problem":
    """Two erf units learn from two others."""
    return tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=lr), noise=noise
    )


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
    """Four parts: zero error lost in the theory, and in runs; theory and runs over rates and noises; the gap against N."""
    critical = float(tu.analysis.critical_learning_rate(problem(1.0)))
    begin = [tu.Start(*start) for start in starts]
    data = _lost_by_theory(critical, begin, shares, end)
    data = data.merge(
        _lost_by_runs(
            critical, begin[0], loss_shares, loss_dims, loss_runs, loss_end, seed
        )
    )
    plane = np.linspace(0.1, 1.3 * critical, rates)
    data = data.merge(_plane(begin[0], plane, noises, map_dim, map_runs, map_end, seed))
    pairs = [(share * critical, noise) for share, noise in cases]
    data = data.merge(_sizes(begin[0], pairs, dims, runs, map_end, seed))
    return data.assign(critical=critical, map_dim=map_dim, map_runs=map_runs)


def _lost_by_theory(
    critical: float, starts: "list[tu.Start]", shares: list[float], end: float
) -> "Dataset":
    """final: e_g at the end from each start, at each learning rate (a share of the critical one)."""
    import xarray as xr

    times = tu.linear_times(end, POINTS)
    final = [
        [
            tu.solve(problem(share * critical), start, times).error[-1]
            for share in shares
        ]
        for start in starts
    ]
    return xr.Dataset(
        {"final": (("start", "share"), np.array(final))}, coords={"share": shares}
    )


def _lost_by_runs(
    critical: float,
    start: "tu.Start",
    shares: list[float],
    dims: list[int],
    runs: int,
    end: float,
    seed: int,
) -> "Dataset":
    """final_runs: the median of e_g over runs at the end."""
    import xarray as xr

    def median(dim: int, share: float) -> float:
        networks = tu.simulate(
            problem(share * critical),
            start,
            dim=dim,
            times=[0.0, end],
            runs=runs,
            seed=seed,
        )
        return float(np.median(networks.error[:, -1]))

    final = [[median(dim, share) for share in shares] for dim in dims]
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
    """e_g of each run over the theory, averaged over the last two thirds of the times, minus one; and that of 0.9 G."""
    from tutelage_papers.bands import wrong_theory

    times = tu.linear_times(end, POINTS)
    late = slice(POINTS // 3, None)
    theory = tu.solve(problem(lr, noise), start, times).error[late]
    wrong = wrong_theory(problem(lr, noise), start, times).error[late]
    networks = tu.simulate(
        problem(lr, noise), start, dim=dim, times=times, runs=runs, seed=seed
    )
    return (networks.error[:, late] / theory).mean(axis=1) - 1, float(
        (wrong / theory).mean()
    ) - 1


def _plane(
    start: "tu.Start",
    rates: np.ndarray,
    noises: list[float],
    dim: int,
    runs: int,
    end: float,
    seed: int,
) -> "Dataset":
    """Of networks of one size: spread of the relative gap, z of its mean, and z against the theory with 0.9 G."""
    import xarray as xr

    columns = {
        name: np.empty((len(noises), rates.size)) for name in ("spread", "z", "z_wrong")
    }
    for i, noise in enumerate(noises):
        for j, lr in enumerate(rates):
            gaps, wrong = _relative_gaps(
                start, float(lr), noise, dim, runs, end, seed + 1 + i * rates.size + j
            )
            error = gaps.std(ddof=1) / np.sqrt(runs)
            columns["spread"][i, j] = gaps.std(ddof=1)
            columns["z"][i, j], columns["z_wrong"][i, j] = (
                gaps.mean() / error,
                (gaps.mean() - wrong) / error,
            )
    variables = {name: (("noise", "lr"), values) for name, values in columns.items()}
    return xr.Dataset(variables, coords={"noise": noises, "lr": rates})


def _sizes(
    start: "tu.Start",
    cases: list[tuple[float, float]],
    dims: list[int],
    runs: list[int],
    end: float,
    seed: int,
) -> "Dataset":
    """The relative gap of the mean of the runs, and of single runs around it (spread); at several N, and their powers of N.

    With m N runs of N inputs the gap of the mean, c / N, is known to a share k / sqrt(m) of it, k = sqrt(N) spread / c. The
    numbers of runs were chosen from k (0.44 and 0.6 in pilot runs of these two cases, more than 1 at larger noise, where c
    happens to be small), so that the exponent is known to 0.05. Smaller N need fewer steps for that: steps go as m N^2.
    """
    import xarray as xr

    columns = {
        name: np.empty((len(cases), len(dims)))
        for name in ("single", "single_se", "mean", "mean_se")
    }
    powers = np.empty((2, 2, len(cases)))
    for i, (lr, noise) in enumerate(cases):
        for j, (dim, count) in enumerate(zip(dims, runs, strict=True)):
            gaps, _ = _relative_gaps(
                start, lr, noise, dim, count, end, seed + 1000 * (i + 1) + j
            )
            spread = gaps.std(ddof=1)
            columns["single"][i, j], columns["single_se"][i, j] = (
                spread,
                spread / np.sqrt(2 * count),
            )
            columns["mean"][i, j], columns["mean_se"][i, j] = (
                gaps.mean(),
                spread / np.sqrt(count),
            )
        powers[0, :, i] = _power(
            dims, columns["single"][i], columns["single_se"][i], -0.5
        )
        powers[1, :, i] = _power(dims, columns["mean"][i], columns["mean_se"][i], -1.0)
    variables: dict[str, Any] = {
        name: (("case", "dim"), values) for name, values in columns.items()
    }
    for name, (power, error) in zip(
        ("single_power", "mean_power"), powers, strict=True
    ):
        variables |= {name: ("case", power), f"{name}_se": ("case", error)}
    variables |= {
        "case_lr": ("case", [c[0] for c in cases]),
        "case_noise": ("case", [c[1] for c in cases]),
    }
    return xr.Dataset(variables, coords={"dim": dims})


def _power(
    dims: list[int], values: np.ndarray, errors: np.ndarray, guess: float
) -> tuple[float, float]:
    """s of values = c (N / N_0)^s by weighted least squares, also where single values vanish in their errors; its error."""
    from scipy.optimize import curve_fit

    size = np.asarray(dims, dtype=float) / dims[0]
    found, covariance, *_ = curve_fit(
        lambda n, c, s: c * n**s,
        size,
        values,
        p0=(values[0], guess),
        sigma=errors,
        absolute_sigma=True,
    )
    return float(found[1]), float(np.sqrt(covariance[1, 1]))


def threshold(shares: Any, errors: Any) -> float:
    """The share of the critical rate at which the final error passes 1e-4, between two rates in the logarithm."""
    shares = np.asarray(shares, dtype=float)
    logs = np.log(np.maximum(np.asarray(errors), 1e-16) / LOST)
    if logs[0] > 0 or np.all(logs <= 0):
        return float("nan")
    i = int(np.argmax(logs > 0))
    return float(
        shares[i - 1]
        - logs[i - 1] * (shares[i] - shares[i - 1]) / (logs[i] - logs[i - 1])
    )


def claims_5(data: "Dataset") -> list[Claim]:
    """Zero error is lost at the critical rate; the theory holds over the plane; the gap falls as it should."""
    shares = data["share"].values
    final = data["final"].values
    theory = [threshold(shares, row) for row in final]
    runs = [threshold(data["loss_share"], row) for row in data["final_runs"].values]
    away = np.abs(shares - 1) > 0.99 * AWAY
    spread = np.ptp(final, axis=0)
    beyond = shares > 1 + 0.99 * AWAY
    claims = [
        close("critical rate", float(data["critical"]), 2.3068277, rel=1e-7),
        close(
            "zero error is lost in the theory at this share of it, worst start",
            _worst(theory),
            1.0,
            rel=0.01,
        ),
        at_most(
            "difference of the final error between starts, below and above",
            float(spread[away].max()),
            1e-6,
        ),
        above("final error beyond, smallest", float(final[:, beyond].min()), LOST),
    ]
    for dim, share in zip(data["loss_dim"].values, runs, strict=True):
        claims.append(
            close(
                f"zero error is lost in networks with N = {dim} at this share",
                share,
                1.0,
                rel=0.05,
            )
        )
    inside, wrong = (float((abs(data[name]) < 4).mean()) for name in ("z", "z_wrong"))
    claims += [
        at_least(
            "share of learning rates and noises at which the theory is inside the band of the runs",
            inside,
            0.95,
        ),
        below("the same with 0.9 G, which must fail", wrong, 0.95),
    ]
    for i in range(data.sizes["case"]):
        case = data.isel(case=i)
        name = (
            f"eta = {float(case['case_lr']):.3g}, sigma = {float(case['case_noise']):g}"
        )
        claims += [
            close(
                f"{name}: exponent of N in the spread of single runs",
                float(case["single_power"]),
                -0.5,
                absolute=0.15,
            ),
            close(
                f"{name}: exponent of N in the gap of their mean",
                float(case["mean_power"]),
                -1.0,
                absolute=0.15,
            ),
            at_most(
                f"{name}: standard error of that exponent",
                float(case["mean_power_se"]),
                0.05,
            ),
        ]
    return claims


def _worst(values: list[float]) -> float:
    return max(values, key=lambda x: abs(x - 1))


def draw_5(data: "Dataset") -> "Figure":
    """Zero error lost, in the theory and in runs; the gap against N; and over rates and noises."""
    title = "Where the theory ends, K = M = 2"
    small = "Top: learning rates beyond which zero error is unstable. Bottom: networks of finite size beside the theory."
    figure, axes = panel_grid(2, 2, title, small, height=2.9)
    _draw_lost(axes[0, 0], axes[0, 1], data)
    _draw_sizes(axes[1, 0], data)
    _draw_plane(figure, axes[1, 1], data)
    return figure


def _draw_lost(left: Any, right: Any, data: "Dataset") -> None:
    for i, row in enumerate(data["final"].values):
        line = {"color": INK, "linestyle": DASHES[i % len(DASHES)], "linewidth": 1.2}
        left.plot(
            data["share"],
            np.maximum(row, 1e-16),
            label=f"theory, start {i + 1}",
            **line,
        )
    for i, dim in enumerate(data["loss_dim"].values):
        look = {
            "color": COLORS[i],
            "marker": MARKERS[i],
            "linestyle": "none",
            "markerfacecolor": "white",
            "markersize": 4.5,
        }
        row = data["final_runs"].sel(loss_dim=dim)
        left.plot(
            data["loss_share"], np.maximum(row, 1e-16), label=f"$N = {dim}$", **look
        )
        right.plot([dim], [threshold(data["loss_share"], row)], **look)
    left.axhline(LOST, color=FAINT, linewidth=0.8)
    left.set(
        xlabel=r"learning rate $\eta / \eta_c$",
        ylabel=r"late error $\epsilon_g$",
        yscale="log",
    )
    outside_legend(left)
    label_panel(left, f"late error, $\\eta_c = {float(data['critical']):.5g}$")
    right.axhspan(0.95, 1.05, color=FAINT, alpha=0.2, linewidth=0)
    right.axhline(threshold(data["share"], data["final"].values[0]), color=INK)
    right.set(
        xlabel="input dimension $N$",
        ylabel=r"zero error is lost at $\eta / \eta_c$",
        xscale="log",
        ylim=(0.9, 1.1),
    )
    tick_each(right, data["loss_dim"].values, room=0.1)
    label_panel(right, "marks: runs; line: theory; gray: within 5%")


def _draw_plane(figure: "Figure", panel: Any, data: "Dataset") -> None:
    """Spread in color, with the points outside the band crossed out."""
    dim = int(data["map_dim"])
    runs = int(data["map_runs"])
    share = data["lr"].values / float(data["critical"])
    noise = np.arange(data.sizes["noise"])
    colors = panel.pcolormesh(
        share, noise, np.sqrt(dim) * data["spread"], cmap="viridis", shading="nearest"
    )
    figure.colorbar(
        colors, ax=panel, label=r"spread of $\epsilon_g$ / theory, times $\sqrt{N}$"
    )
    rows, columns = np.nonzero(abs(data["z"].values) >= 4)
    panel.plot(share[columns], noise[rows], "x", color="white", markersize=6)
    panel.axvline(1.0, color="white", linewidth=1.2, linestyle=DASHES[1])
    panel.set(xlabel=r"learning rate $\eta / \eta_c$", ylabel=r"label noise $\sigma$")
    panel.set_yticks(noise, [f"{value:g}" for value in data["noise"].values])
    panel.grid(False)
    label_panel(panel, f"$N = {dim}$, {runs} runs; ×: outside the band")


def _draw_sizes(panel: Any, data: "Dataset") -> None:
    dims = data["dim"].values
    for i in range(data.sizes["case"]):
        case = data.isel(case=i)
        look = {
            "color": COLORS[i],
            "markerfacecolor": "white",
            "markersize": 4.5,
            "linestyle": "none",
        }
        name = f"$\\eta = {float(case['case_lr']):.3g}$, $\\sigma = {float(case['case_noise']):g}$"
        panel.errorbar(
            dims,
            case["single"],
            yerr=2 * case["single_se"],
            marker="o",
            label=f"single, {name}",
            **look,
        )
        mean = abs(case["mean"].values)
        error = 2 * case["mean_se"].values
        seen = mean > error
        panel.errorbar(
            dims[seen],
            mean[seen],
            yerr=error[seen],
            marker="s",
            label=f"mean, {name}",
            **look,
        )
    draw_power(
        panel, dims, float(data["single"].values[:, 0].max()), -0.5, "$N^{-1/2}$"
    )
    draw_power(
        panel,
        dims,
        float(abs(data["mean"].values[:, 0]).max()),
        -1.0,
        "$N^{-1}$",
        dashes=3,
    )
    panel.set(
        xlabel="input dimension $N$",
        ylabel=r"relative gap of $\epsilon_g$",
        xscale="log",
        yscale="log",
    )
    tick_each(panel, dims)
    outside_legend(panel)
    label_panel(panel, "runs against theory")


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
            "shares": [
                0.05,
                0.2,
                0.4,
                0.6,
                0.8,
                0.9,
                0.95,
                0.98,
                0.99,
                0.995,
                1.0,
                1.005,
                1.01,
                1.02,
                1.05,
                1.1,
                1.2,
                1.3,
            ],
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
