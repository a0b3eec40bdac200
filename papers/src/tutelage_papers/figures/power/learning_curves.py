"""Learning curves of a linear network: the exact solution, its small-rate limit, networks of finite N, local slopes."""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    FAINT,
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
    between,
    close,
    refuted,
)
from tutelage_papers.figures.power.linear_units import (
    diagonal_error,
    gaussian,
    linear_sgd,
    z_scores,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

AT = 10.0  # where the curves of the left panel are compared
SHOWN = 5  # runs drawn, as many as in the source; the mean is over all


def network_of(
    levels: int, beta: float, rate: float, scale: float
) -> "tutelage_papers.power_law.LinearNetwork":
    """One linear unit on a power law; the mean over teacher weights N(0, 1) and student weights N(0, scale^2)."""
    linear = tu.Network(1, "linear")
    problem = tu.Problem(
        linear, linear, inputs=tu.PowerLaw(beta, levels), optimizer=tu.SGD(rate)
    )
    return tutelage_papers.power_law.linear_network(
        problem, tu.Start(R=[[0.0]], Q=[[scale**2]], T=[[1.0]])
    )


def step_by_step(
    network: "tutelage_papers.power_law.LinearNetwork", dim: int, time: float
) -> float:
    """The exact mean error at finite N by iterating its recursion: E_l of every component, one step after another."""
    lam = np.asarray(network.problem.inputs.eigenvalues)
    h = float(network.problem.optimizer.lr) / dim
    E = network.levels(0.0)
    for _ in range(round(time * dim)):
        E = E - 2 * h * lam * E + h * h * (lam * np.sum(lam * E) + 2 * lam**2 * E)
    return float(np.sum(lam * E) / (2 * dim))


def runs_of(
    levels: int,
    beta: float,
    rate: float,
    scale: float,
    runs: int,
    times: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of runs from random weights (run, time); exact mean and small-rate error for the weights of each."""
    rng = np.random.default_rng(seed)
    lam = np.asarray(tu.PowerLaw(beta, levels).eigenvalues)
    W_teacher = rng.standard_normal((runs, levels))
    W = scale * rng.standard_normal((runs, levels))
    steps = np.ceil(times * levels - 1e-9).astype(int)
    found = linear_sgd(
        (W_teacher - W)[None],
        gaussian(rng, lam, runs),
        rate,
        steps,
        diagonal_error(lam),
    )[0]
    problem = network_of(levels, beta, rate, scale).problem
    starts = [
        tu.start_from_weights(problem, w[None], t[None])
        for w, t in zip(W, W_teacher, strict=True)
    ]
    networks = [
        tutelage_papers.power_law.linear_network(problem, start) for start in starts
    ]
    means = np.array([network.exact_mean(times, levels) for network in networks])
    return found, means, np.array([network.small_rate(times) for network in networks])


def compute_2(
    left: list[float],
    left_runs: int,
    left_end: float,
    right: list[float],
    runs: int,
    end: float,
    points: int,
    seed: int,
) -> "Dataset":
    """left, right: levels, beta, rate, scale of each panel."""
    import xarray as xr

    (L, beta, rate, scale), (N, own_beta, own_rate, own_scale) = left, right
    L = int(L)
    N = int(N)
    edge = network_of(L, beta, rate, scale)
    times = np.geomspace(0.1, 100.0, points)
    seen = times[times <= left_end * (1 + 1e-9)]
    many, _, _ = runs_of(L, beta, rate, scale, left_runs, seen, seed)
    law = tutelage_papers.power_law.PowerLawSum(own_beta, N, own_rate, own_scale)
    slow = network_of(N, own_beta, own_rate, own_scale)
    late = np.geomspace(1.0, 1000.0, points)
    watched = late[late <= end * (1 + 1e-9)]
    few, expected, wrong = runs_of(
        N, own_beta, own_rate, own_scale, runs, watched, seed + 1
    )
    sizes = [N, 10**3, 10**4, 10**5, 10**6]
    wider = [
        tutelage_papers.power_law.PowerLawSum(own_beta, size, own_rate)
        for size in sizes
    ]
    return xr.Dataset(
        {
            "ode": ("time", edge.error(times)),
            "small_rate": ("time", edge.small_rate(times)),
            "exact": ("time", edge.exact_mean(times, L)),
            "left_runs": (("left_run", "seen"), many),
            "at_ten": (
                "form",
                [
                    float(f(AT))
                    for f in (edge.small_rate, edge.error, edge.finite(L).error)
                ],
            ),
            "by_steps": step_by_step(edge, L, AT),
            "critical": edge.finite(L).critical_rate,
            "integral": ("late", law.integral(late)),
            "late_exact": ("late", slow.exact_mean(late, N)),
            "slope_integral": ("late", law.local_slope(late, "integral")),
            "slope_exact": ("late", slow.finite(N).local_slope(late)),
            "runs": (("run", "watched"), few),
            "expected": (("run", "watched"), expected),
            "wrong": (("run", "watched"), wrong),
            "slope_middle": (
                "size",
                [float(law.local_slope(np.sqrt(np.prod(law.window)))) for law in wider],
            ),
            "exponent": -law.exponent,
        },
        coords={
            "time": times,
            "late": late,
            "seen": seen,
            "watched": watched,
            "size": sizes,
        },
    )


def claims_2(data: "Dataset") -> list[Claim]:
    """Left: who lies above whom, and what the ODE misses. Right: local slopes."""
    small, ode, exact = data["at_ten"].values
    typical = float(np.median(data["left_runs"].sel(seen=AT, method="nearest")))
    slopes = np.abs(data["slope_exact"] / data["slope_integral"] - 1)
    middle = data["slope_middle"].values
    exponent = float(data["exponent"])
    inside, wrong = (
        float(np.mean(np.abs(z_scores(data["runs"].values, data[name].values)) < 4))
        for name in ("expected", "wrong")
    )
    fit, own = (
        _fitted_slope(data["watched"].values, x)
        for x in (data["runs"].values, data["expected"].values)
    )
    return [
        above(
            "left: smallest ratio of the ODE solution to the small-rate one",
            float((data["ode"] / data["small_rate"]).min()),
            1.0,
        ),
        close("left: ODE solution at alpha = 10", ode, 0.0184, rel=0.01),
        close("left: exact mean at N = 128, alpha = 10", exact, 1.43, rel=0.01),
        close("left: the same, step by step", float(data["by_steps"]), exact, rel=1e-8),
        above(
            "left: exact mean at N = 128 over the small-rate solution, alpha = 10",
            exact / small,
            100.0,
        ),
        close(
            "left: critical rate at N = 128", float(data["critical"]), 1.0013, rel=1e-3
        ),
        between(
            "left: median run over the ODE solution, alpha = 10",
            typical / ode,
            1.0,
            2.0,
        ),
        below("left: median run over the exact mean, alpha = 10", typical / exact, 0.1),
        at_most(
            "right: largest gap of the exact mean's local slope to that of eq. 50",
            float(slopes.max()),
            0.02,
        ),
        close(
            "right: slope of the runs over that of the exact means of their starts",
            fit / own,
            1.0,
            rel=0.02,
        ),
        at_least(
            "right: share of the times at which |z| < 4, runs against exact means of their starts",
            inside,
            0.95,
        ),
        below(
            "right: the same share against the small-rate solution (must fail)",
            wrong,
            0.95,
        ),
        refuted(
            close(
                "right: local slope in the middle of the window, L = 256",
                float(middle[0]),
                exponent,
                rel=0.1,
            ),
            f"it is {middle[2]:.4f} at L = 10^4 and {middle[-1]:.4f} at 10^6: at L = 256 the window has no power-law middle",
        ),
        close("right: the same at L = 10^6", float(middle[-1]), exponent, rel=0.01),
    ]


def _fitted_slope(times: np.ndarray, errors: np.ndarray) -> float:
    """Of a straight line through the logarithm of the mean over runs."""
    return float(np.polyfit(np.log(times), np.log(errors.mean(axis=0)), 1)[0])


def draw_2(data: "Dataset") -> "Figure":
    """The exact solution against its small-rate limit; runs against eq. 50; local slopes."""
    small = "Left: at this rate a network of N = 128 is about to diverge; rare runs carry the mean."
    figure, axes = panel_grid(
        1, 3, "A linear network on a power law: any rate, any size", small, height=3.1
    )
    left, middle, right = axes[0]
    for look, (name, label) in enumerate(
        (
            ("small_rate", "small rate"),
            ("ode", "limit of large N"),
            ("exact", "exact mean, N = 128"),
        )
    ):
        left.plot(
            data["time"],
            data[name],
            color=COLORS[look],
            linestyle=DASHES[look],
            label=label,
        )
    left.plot(
        data["seen"],
        data["left_runs"].median("left_run"),
        color=FAINT,
        linewidth=2.0,
        label="median run, N = 128",
    )
    low, high = (data["left_runs"].quantile(q, "left_run") for q in (0.25, 0.75))
    left.fill_between(data["seen"], low, high, color=FAINT, alpha=0.3, linewidth=0)
    label_panel(left, r"$N = 128$, $\beta = 1$, $\eta = 1$")
    for run in range(SHOWN):
        middle.plot(
            data["watched"],
            data["runs"][run],
            color=FAINT,
            linewidth=0.7,
            label=None if run else "runs, N = 256",
        )
    middle.plot(
        data["watched"], data["runs"].mean("run"), color=COLORS[0], label="mean of all"
    )
    middle.plot(
        data["late"],
        data["integral"],
        color=COLORS[1],
        linestyle=DASHES[1],
        label="eq. 50",
    )
    middle.plot(
        data["late"],
        data["late_exact"],
        color=COLORS[2],
        linestyle=DASHES[2],
        label="exact mean",
    )
    label_panel(middle, r"$N = L = 256$, $\beta = 0.75$, $\eta = 0.1$")
    right.plot(
        data["late"],
        data["slope_exact"],
        color=COLORS[2],
        linestyle=DASHES[2],
        label="exact mean",
    )
    right.plot(
        data["late"],
        data["slope_integral"],
        color=COLORS[1],
        linestyle=DASHES[1],
        label="eq. 50",
    )
    right.axhline(float(data["exponent"]), color=FAINT, label=r"$-\beta/(1+\beta)$")
    right.set(
        xlabel=TIME, ylabel=r"local slope $d\ln\epsilon_g/d\ln\alpha$", xscale="log"
    )
    for panel in (left, middle):
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
    for panel in axes[0]:
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return figure


def compute_13(levels: int, beta: float, rates: list[float], points: int) -> "Dataset":
    """Error and local slope at each rate, beside those of the small-rate limit and of a network with N = levels."""
    import xarray as xr

    times = np.geomspace(1.0, 100.0, points)
    networks = [network_of(levels, beta, rate, 0.0) for rate in rates]
    sums = [tutelage_papers.power_law.PowerLawSum(beta, levels, rate) for rate in rates]
    over = ("rate", "time")
    return xr.Dataset(
        {
            "ode": (over, [n.error(times) for n in networks]),
            "small_rate": (over, [n.small_rate(times) for n in networks]),
            "exact": (over, [n.exact_mean(times, levels) for n in networks]),
            "slope": (over, [n.local_slope(times) for n in networks]),
            "slope_small": (over, [s.local_slope(times) for s in sums]),
            "slope_exact": (
                over,
                [n.finite(levels).local_slope(times) for n in networks],
            ),
            "deviation": (
                "rate",
                [
                    np.abs(np.log(levels * n.modes.weights / n.modes.levels)).max()
                    for n in networks
                ],
            ),
        },
        coords={"rate": rates, "time": times},
    )


def claims_13(data: "Dataset") -> list[Claim]:
    """The slope hardly changes, the height does, and the shares of the modes do."""
    claims = []
    for rate in data["rate"].values:
        case = data.sel(rate=rate)
        change = np.abs(case["slope"] - case["slope_small"]).max()
        late = float((case["ode"] / case["small_rate"])[-1])
        claims += [
            at_most(
                f"change of the local slope of the error, eta = {rate:g}",
                float(change),
                0.01,
            ),
            above(
                f"largest |ln| of shares over eigenvalues, over that change, eta = {rate:g}",
                float(case["deviation"] / change),
                10.0,
            ),
            close(
                f"late error over the small-rate one, against 2/(2 - eta), eta = {rate:g}",
                late,
                2 / (2 - rate),
                rel=0.02,
            ),
        ]
    edge = data.isel(rate=-1)
    gap = float(np.abs(edge["slope_exact"] - edge["slope_small"]).max())
    return [
        *claims,
        above("the same change for the exact mean at N = 128, eta = 1", gap, 0.1),
    ]


def draw_13(data: "Dataset") -> "Figure":
    """One panel for each rate, and the slopes."""
    small = r"$N = 128$, $\beta = 1$, student starts at zero. A network with 128 inputs is on its edge at $\eta = 1$."
    figure, axes = panel_grid(
        2,
        2,
        "A large learning rate raises the error and keeps its slope",
        small,
        height=2.5,
    )
    for i, rate in enumerate(data["rate"].values):
        panel = axes.flat[i]
        case = data.sel(rate=rate)
        for look, (name, label) in enumerate(
            (
                ("small_rate", "small rate"),
                ("ode", "no approximation"),
                ("exact", "exact mean, N = 128"),
            )
        ):
            panel.plot(
                case["time"],
                case[name],
                color=COLORS[look],
                linestyle=DASHES[look],
                label=label,
            )
        axes[1, 1].plot(
            case["time"],
            case["slope"],
            color=COLORS[3 + i],
            label=rf"slope, $\eta = {rate:g}$",
        )
        axes[1, 1].plot(
            case["time"],
            case["slope_small"],
            color=COLORS[3 + i],
            linestyle=DASHES[2],
            linewidth=2.4,
        )
        panel.set(xlabel=TIME, ylabel=ERROR, xscale="log", yscale="log")
        label_panel(panel, rf"$\eta = {rate:g}$")
    axes[1, 1].set(xlabel=TIME, ylabel=r"$d\ln\epsilon_g/d\ln\alpha$", xscale="log")
    label_panel(axes[1, 1], "lines: no approximation; dotted: small rate")
    for panel in axes[:, 1]:
        outside_legend(panel)
    return figure


TWO = {
    "left": [128, 1.0, 1.0, 1.0],
    "right": [256, 0.75, 0.1, 0.01],
    "runs": 60,
    "seed": 1,
}
THIRTEEN = {"levels": 128, "beta": 1.0, "rates": [0.1, 0.5, 1.0]}

FIGURES = (
    Replica(
        id="power-2",
        source="power",
        figure="Fig. 2",
        title="linear network: exact solution against a small rate and finite N; local slope against the power law",
        full=TWO | {"left_runs": 300, "left_end": 100.0, "end": 1000.0, "points": 121},
        quick=TWO | {"left_runs": 100, "left_end": 10.0, "end": 30.0, "points": 61},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
    Replica(
        id="power-13",
        source="power",
        figure="Fig. 13",
        title="linear network: error and its local slope at small and large learning rates",
        full=THIRTEEN | {"points": 201},
        quick=THIRTEEN | {"points": 41},
        compute=compute_13,
        draw=draw_13,
        claims=claims_13,
    ),
)
