"""The smallest error that a data set allows: one unit, and two units that specialize.

Each number has a second route in this file. One unit: I(q) by trapezoids and the fixed
point by bisection. Two sign units: their labels depend on rho+ and on |rho-| alone, so that
the threshold of specialization is a matter of integrals over one field.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, DASHES, FAINT, INK, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_least, at_most, below, close
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RATIO = "samples per input dimension, $n/N$"
# Overlap, error, and probability of a wrong label: ratio, flips, and digits of an
# independent program.
SIGN_DIGITS = (
    (1.0, 0.0, 0.48626364, 0.25437297, 0.25437297),
    (2.0, 0.0, 0.72829817, 0.17453419, 0.17453419),
    (5.0, 0.0, 0.93206425, 0.08393517, 0.08393517),
    (5.0, 0.1, 0.80118474, 0.14711170, 0.21768936),
)
ASYMPTOTE = ((20.0, 0.44018), (80.0, 0.44160))  # ratio times error of signs
FLIPS = 0.1
NOISE = 0.5
EDGE = 9.0


def unit_problem(**options: Any) -> "tu.Problem":
    """One linear unit as student and teacher."""
    unit = tu.Network(1, "linear")
    return tu.Problem(unit, unit, **options)


def absolute_value(rho: Any, xi: Any) -> Any:
    """The label |rho|."""
    return abs(rho[0])


def problems() -> "dict[str, tu.Problem]":
    """The label laws of the figure."""
    return {
        "signs": unit_problem(labels="sign"),
        "signs, 10% flipped": unit_problem(labels=tu.labels.Sign(FLIPS)),
        "real, noise 0.5": unit_problem(noise=NOISE),
        "absolute value": unit_problem(labels=absolute_value),
    }


def information_of_signs(q: float, flip: float) -> float:
    """I(q) of signs with flips, by a trapezoid."""
    from scipy.stats import norm

    u = np.linspace(-EDGE, EDGE, 20_001)
    omega = np.sqrt(q) * u
    V = 1 - q
    x = omega / np.sqrt(V)
    slope = (1 - 2 * flip) * norm.pdf(x) / np.sqrt(V)
    both = np.zeros_like(u)
    for sign in (-1, 1):
        Z = flip + (1 - 2 * flip) * norm.cdf(sign * x)
        both += slope**2 / np.maximum(Z, 1e-300)
    return float(np.trapezoid(norm.pdf(u) * both, u))


def information_of_absolute_value(q: float) -> float:
    """I(q) of |rho|: the sign of rho is what the label leaves open."""
    from scipy.stats import norm

    V = 1 - q
    u = np.linspace(-EDGE, EDGE, 1201)
    omega = np.sqrt(q) * u[:, None]
    rho = omega + np.sqrt(V) * u[None, :]
    y = np.abs(rho)
    score = (y * np.tanh(y * omega / V) - omega) / V
    inner = np.trapezoid(norm.pdf(u)[None, :] * score**2, u, axis=1)
    return float(np.trapezoid(norm.pdf(u) * inner, u))


def overlap_of_signs(ratio: float, flip: float) -> float:
    """The overlap q with q = qhat / (1 + qhat), qhat = ratio I(q), by bisection."""
    from scipy.optimize import brentq

    def excess(q: float) -> float:
        return q / (1 - q) - ratio * information_of_signs(q, flip)

    return float(brentq(excess, 1e-9, 1 - 1e-6, xtol=1e-13))  # pyright: ignore


def compute_2(ratios: int, branch_points: int) -> "Dataset":
    """Compute smallest errors, branches of the absolute value, and second routes."""
    import xarray as xr

    grid = np.geomspace(0.1, 20.0, ratios)
    laws = problems()
    found = {name: tu.analysis.bayes_optimal(p, grid) for name, p in laws.items()}
    digits = []
    routes = []
    for ratio, flip, *_ in SIGN_DIGITS:
        here = tu.analysis.bayes_optimal(
            unit_problem(labels=tu.labels.Sign(flip)), ratio
        )
        digits.append([float(here.Q[0, 0]), float(here.error), float(here.label_error)])
        routes.append(overlap_of_signs(ratio, flip))
    many = tu.analysis.bayes_optimal(laws["signs"], [ratio for ratio, _ in ASYMPTOTE])
    # fixed points of the absolute value, and their ratio by the second route
    near = np.linspace(0.45, 1.2, branch_points)
    points = [
        (ratio, point.Q[0, 0], point.stable)
        for ratio, at_ratio in zip(
            near,
            tu.analysis.bayes_optimal(laws["absolute value"], near).fixed_points,
            strict=True,
        )
        for point in at_ratio
    ]
    branch = np.array(points, float)
    inside = (branch[:, 1] > 1e-3) & (branch[:, 1] < 0.95)
    expected = np.full(len(branch), np.nan)
    for place in np.flatnonzero(inside):
        q = branch[place, 1]
        expected[place] = q / ((1 - q) * information_of_absolute_value(q))
    absolute = found["absolute value"]
    return xr.Dataset(
        {
            "error": (("law", "ratio"), np.array([x.error for x in found.values()])),
            "reached": (
                ("law", "ratio"),
                np.array([x.reached_error for x in found.values()]),
            ),
            "digits": (("case", "number"), np.array(digits)),
            "routes": ("case", np.array(routes)),
            "asymptote": ("many", np.array([r for r, _ in ASYMPTOTE]) * many.error),
            "branch": (("point", "column"), branch),
            "branch_ratio": ("point", expected),
            "weak": absolute.weak_recovery,
            "algorithmic": absolute.algorithmic_threshold,
            "information": absolute.information_threshold,
        },
        coords={"law": list(laws), "ratio": grid},
    )


def claims_2(data: "Dataset") -> Iterator[Claim]:
    """Digits, second routes, the asymptote, and thresholds of the absolute value."""
    for row, route, (ratio, flip, *expected) in zip(
        data["digits"].values, data["routes"].values, SIGN_DIGITS, strict=True
    ):
        where = f"signs, ratio {ratio:g}, flips {flip:g}"
        names = ("overlap", "error", "probability of a wrong label")
        for name, measured, value in zip(names, row, expected, strict=True):
            yield close(f"{where}: {name}", measured, value, absolute=1e-7)
        yield close(f"{where}: overlap by bisection", route, row[0], absolute=1e-6)
    for measured, (ratio, value) in zip(
        data["asymptote"].values, ASYMPTOTE, strict=True
    ):
        yield close(
            f"signs: ratio times error at ratio {ratio:g}", measured, value, rel=1e-4
        )
    # Gibbs learning, a student drawn from the posterior, has another constant
    yield above(
        "signs: distance from Gibbs learning's ratio times error, .625 (control)",
        abs(float(data["asymptote"][-1]) - 0.625),
        0.1,
    )
    thresholds = (("weak", 0.5), ("algorithmic", 1.1285), ("information", 1.0))
    words = {
        "weak": "weak recovery",
        "algorithmic": "algorithmic threshold",
        "information": "information-theoretic threshold",
    }
    for name, value in thresholds:
        yield close(f"absolute value: {words[name]}", data[name], value, absolute=2e-4)
    branch = data["branch"].values
    gap = np.abs(data["branch_ratio"].values / branch[:, 0] - 1)
    yield below("absolute value: branches against quadrature", np.nanmax(gap), 1e-5)
    stable = branch[:, 2] > 0.5
    unstable = ~stable & (branch[:, 1] > 1e-3)
    words = "absolute value: ratio of an unstable point of positive overlap"
    yield at_least(f"{words}, smallest", branch[unstable, 0].min(), 1.0)
    yield at_most(f"{words}, largest", branch[unstable, 0].max(), 1.1285)
    ridge = tu.analysis.empirical_minimum(
        problems()["real, noise 0.5"], data["ratio"].values, ridge=NOISE**2
    )
    gap = np.abs(data.sel(law="real, noise 0.5")["error"] - ridge.error)
    yield below("real labels: distance from the best ridge regression", gap.max(), 1e-8)


def draw_2(data: "Dataset") -> "Figure":
    """Errors against the ratio; branches of the absolute value."""
    small = (
        "Left: smallest error at large N; dotted: what algorithms reach. Right: fixed "
        "points of the absolute value; dotted: thresholds."
    )
    figure, axes = panel_grid(
        1, 2, "The smallest possible error", small, height=3.4, width=10.0
    )
    left, right = axes[0]
    for place, law in enumerate(data["law"].values):
        one = data.sel(law=law)
        look = {"color": COLORS[place]}
        error = np.maximum(one["error"], 1e-12)
        left.plot(data["ratio"], error, label=str(law), **look)
        left.plot(data["ratio"], one["reached"], linestyle=DASHES[2], **look)
    left.set(xlabel=RATIO, ylabel="error", xscale="log", yscale="log")
    left.set_ylim(1e-2, 1.5)
    left.legend(loc="lower left")
    branch = data["branch"].values
    stable = branch[:, 2] > 0.5
    for words, kept, marker, place in (
        ("stable", stable, "o", 3),
        ("unstable", ~stable, "^", 1),
    ):
        right.plot(
            branch[kept, 0],
            branch[kept, 1],
            marker,
            markersize=4,
            color=COLORS[place],
            label=words,
        )
    for name, color in (("weak", FAINT), ("information", INK), ("algorithmic", FAINT)):
        right.axvline(float(data[name]), color=color, linestyle=DASHES[2], linewidth=1)
    right.set(xlabel=RATIO, ylabel="overlap $q$")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    label_panel(left, "errors")
    label_panel(right, "absolute value; thresholds 0.5, 1 and 1.1285")
    return figure


def three_labels(rho: Any, xi: Any) -> Any:
    """Half the sum of two signs: ties are a label of their own."""
    import jax.numpy as jnp

    return (jnp.sign(rho[0]) + jnp.sign(rho[1])) / 2


def random_ties(rho: Any, xi: Any) -> Any:
    """The sign of the sum of two signs; ties are split at random."""
    import jax.numpy as jnp

    total = jnp.sign(rho[0]) + jnp.sign(rho[1])
    return jnp.where(total == 0, jnp.where(xi < 0.5, 1.0, -1.0), jnp.sign(total))


class OneField:
    """Labels of two sign units as integrals over rho+ alone.

    Both signs agree if |rho-| < |rho+|; at l- = 0 rho- is N(0, 1). For each label Z is
    its probability given omega+, `slope` the derivative by omega+, and `curvature`
    E[(rho-^2 - 1); label], the second derivative by omega-. Near l- = 0,
    I- = l- E[(curvature / Z)^2], so that units specialize where ratio times this mean
    exceeds 1.
    """

    def __init__(self, ties_are_split: bool):
        self.ties_are_split = ties_are_split

    def sums(self, plus: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Z, slope and curvature of each label at nodes of omega+."""
        from scipy.special import erf

        u = np.linspace(-8.0, 8.0, 801)
        V = 1 - plus
        omega = np.sqrt(plus) * u[:, None]
        x = np.linspace(0.0, 12.0, 6001)[None, :]  # rho+ of labels +1
        inside = erf(x / np.sqrt(2))
        density = np.exp(-((x - omega) ** 2) / (2 * V)) / np.sqrt(2 * np.pi * V)
        moment = -2 * x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        positive = np.trapezoid(density * inside, x[0], axis=1)
        slope = np.trapezoid(density * (x - omega) / V * inside, x[0], axis=1)
        curvature = np.trapezoid(density * moment, x[0], axis=1)
        # omega+ of label -1 is that of label +1 with the opposite sign
        Z = np.stack([positive, positive[::-1]])
        slopes = np.stack([slope, -slope[::-1]])
        curvatures = np.stack([curvature, curvature[::-1]])
        tie = 1 - Z.sum(axis=0)
        tie_slope = -slopes.sum(axis=0)
        tie_curvature = -curvatures.sum(axis=0)
        if self.ties_are_split:
            return Z + tie / 2, slopes + tie_slope / 2, curvatures + tie_curvature / 2
        return (
            np.concatenate([Z, tie[None]]),
            np.concatenate([slopes, tie_slope[None]]),
            np.concatenate([curvatures, tie_curvature[None]]),
        )

    def ratio_and_growth(self, plus: float) -> tuple[float, float]:
        """Return the ratio at l+, and by how much l- grows in one iteration there."""
        u = np.linspace(-8.0, 8.0, 801)
        weight = np.exp(-(u**2) / 2)
        weight /= weight.sum()
        Z, slopes, curvatures = self.sums(plus)
        Z = np.maximum(Z, 1e-300)
        information = float(np.sum(slopes**2 / Z, axis=0) @ weight)
        ratio = plus / (1 - plus) / information
        growth = ratio * float(np.sum(curvatures**2 / Z, axis=0) @ weight)
        return ratio, growth

    def threshold(self) -> float:
        """Return the ratio at which units begin to specialize."""
        from scipy.optimize import brentq

        def excess(plus: float) -> float:
            return self.ratio_and_growth(plus)[1] - 1.0

        overlap: Any = brentq(excess, 0.05, 0.995, xtol=1e-9)
        return self.ratio_and_growth(float(overlap))[0]


LAWS: dict[str, tuple[Callable[..., Any], bool]] = {
    "ties are a third label": (three_labels, False),
    "ties are split at random": (random_ties, True),
}


def compute_3(ratios: dict[str, list[float]], points: int) -> "Dataset":
    """Compute errors and overlaps of both laws, and thresholds by both routes."""
    import xarray as xr

    grids = []
    errors = []
    same = []
    other = []
    thresholds = []
    routes = []
    for name, (law, split) in LAWS.items():
        labels = tu.labels.Function(law) if not split else None
        if labels is None:
            labels = tu.labels.Function(law, metric="class")
        unit = tu.Network(1, "linear")
        problem = tu.Problem(unit, tu.Network(2, "linear"), labels=labels)
        smallest, largest = ratios[name]
        grid = np.geomspace(smallest, largest, points)
        found = tu.analysis.bayes_optimal(problem, grid)
        grids.append(grid)
        errors.append(found.error)
        same.append(found.Q[:, 0, 0])
        other.append(found.Q[:, 0, 1])
        thresholds.append(found.algorithmic_threshold)
        routes.append(OneField(split).threshold())
    dims = ("law", "place")
    return xr.Dataset(
        {
            "ratio": (dims, np.array(grids)),
            "error": (dims, np.array(errors)),
            "same": (dims, np.array(same)),
            "other": (dims, np.array(other)),
            "threshold": ("law", np.array(thresholds)),
            "route": ("law", np.array(routes)),
        },
        coords={"law": list(LAWS)},
    )


def claims_3(data: "Dataset") -> Iterator[Claim]:
    """Thresholds by two routes, and overlaps on both sides of them."""
    first, second = (str(law) for law in data["law"].values)
    for law in (first, second):
        here = data.sel(law=law)
        yield close(
            f"{law}: threshold, integrals over one field against quadrants",
            here["route"],
            here["threshold"],
            rel=1e-3,
        )
        difference = (here["same"] - here["other"]).values
        below_it = here["ratio"].values < float(here["threshold"])
        yield below(
            f"{law}: largest difference of the overlaps below the threshold",
            np.max(np.abs(difference[below_it])),
            1e-6,
        )
        yield above(
            f"{law}: difference of the overlaps at the largest ratio",
            difference[-1],
            0.1,
        )
    yield close(
        f"{first}: threshold of the literature",
        data.sel(law=first)["threshold"],
        2.04,
        rel=0.03,
    )
    late = data.sel(law=second)["threshold"] / data.sel(law=first)["threshold"]
    yield above(f"{second}: threshold over that of a third label", late, 1.5)


def draw_3(data: "Dataset") -> "Figure":
    """Overlaps and errors of both laws."""
    small = (
        "Labels are the sum of two signs. Lines: overlaps with the own and with the "
        "other unit; dotted: where units are distinguished."
    )
    figure, axes = panel_grid(
        1, 2, "Two units: when are they distinguished?", small, height=3.2, width=9.0
    )
    for panel, law in zip(axes[0], data["law"].values, strict=True):
        here = data.sel(law=law)
        panel.plot(here["ratio"], here["same"], color=COLORS[0], label="own unit")
        panel.plot(
            here["ratio"],
            here["other"],
            color=COLORS[1],
            linestyle=DASHES[1],
            label="other unit",
        )
        panel.plot(
            here["ratio"],
            here["error"],
            color=COLORS[2],
            linestyle=DASHES[3],
            label="error",
        )
        threshold = float(here["threshold"])
        panel.axvline(threshold, color=FAINT, linestyle=DASHES[2])
        panel.set(xlabel=RATIO, xscale="log", ylim=(-0.05, 1.05))
        label_panel(panel, f"{law}: {threshold:.4g}")
    axes[0, 0].set_ylabel("overlap or error")
    axes[0, 0].legend(loc="upper left")
    return figure


FIGURES = (
    Replica(
        id="static-2",
        source="static",
        figure="smallest error",
        title="The smallest error: signs, noise, and the jump of the absolute value",
        full={"ratios": 61, "branch_points": 61},
        quick={"ratios": 8, "branch_points": 7},
        compute=compute_2,
        draw=draw_2,
        claims=claims_2,
    ),
    Replica(
        id="static-3",
        source="static",
        figure="specialization",
        title="Two units specialize in the Bayes-optimal error",
        full={
            "ratios": {
                "ties are a third label": [0.5, 8.0],
                "ties are split at random": [0.5, 60.0],
            },
            "points": 33,
        },
        quick={
            "ratios": {
                "ties are a third label": [1.0, 6.0],
                "ties are split at random": [1.0, 50.0],
            },
            "points": 5,
        },
        compute=compute_3,
        draw=draw_3,
        claims=claims_3,
    ),
)
