"""Moments of random teachers (sec. 5.1.1 and appendix D of the power-law paper).

How they differ from teacher to teacher, and grow with the number of levels.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, MARKERS, panel_grid
from tutelage_papers.claims import Claim, above, at_most, close, refuted
from tutelage_papers.drawing import GUIDE, draw_power, legend_below, line_of
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


def compute_21(
    levels: int,
    dim: int,
    beta: float,
    orders: list[int],
    teachers: int,
    dims: list[int],
    many: list[int],
    seed: int,
) -> "Dataset":
    """Return variances over drawn pairs of teachers beside the formula.

    The same against N; moments and conditions against L.
    """
    import xarray as xr

    inputs = tu.PowerLaw(beta, levels)
    expected = tutelage_papers.power_law.teacher_moments(inputs, dim, orders)
    rng = np.random.default_rng(seed)
    same, other = _drawn(inputs, dim, orders, teachers, rng)
    lam = np.asarray(inputs.eigenvalues)
    fixed = []
    growing = []
    for N in dims:
        few = tutelage_papers.power_law.teacher_moments(inputs, N, orders)
        fixed.append(few.other_sd**2)
        spectrum = tu.PowerLaw(beta, N)
        as_many = tutelage_papers.power_law.teacher_moments(spectrum, N, orders)
        growing.append(as_many.other_sd**2)
    steep = []
    for L in many:
        steep.append(tutelage_papers.power_law.teacher_moments(tu.PowerLaw(beta, L)))
    coords = {"order": orders, "dim": dims, "levels": many}
    data = xr.Dataset(coords=coords, attrs={"teachers": teachers})
    data["same"] = ("order", same)
    data["other"] = ("order", other)
    data["same_expected"] = ("order", expected.diagonal_sd**2)
    data["other_expected"] = ("order", expected.other_sd**2)
    # As extracted: lam^2 for every order.
    data["other_printed"] = ("order", [float(np.mean(lam**2)) / dim] * len(orders))
    data["fixed"] = (("dim", "order"), fixed)
    data["growing"] = (("dim", "order"), growing)
    data["growth"] = ("levels", [moments.growth for moments in steep])
    data["condition"] = ("levels", [moments.condition for moments in steep])
    data["block"] = ("levels", [_largest_block(L, beta, seed) for L in many])
    return data


def _drawn(
    inputs: "tu.Inputs",
    dim: int,
    orders: list[int],
    teachers: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of T^(j)_nn and T^(j)_nm over pairs of teachers.

    From the sums over each level: a level of n components adds a chi-square variable, and
    to a pair's entry sqrt(chi-square) times a normal one, exactly.
    """
    counts = inputs.level_dims(dim)
    squares = rng.chisquare(counts, size=(teachers, counts.size))
    products = np.sqrt(squares) * rng.standard_normal(squares.shape)
    powers = np.asarray(inputs.eigenvalues)[:, None] ** np.array(orders) / dim
    same = (squares @ powers).var(axis=0, ddof=1)
    other = (products @ powers).var(axis=0, ddof=1)
    return same, other


def _largest_block(levels: int, beta: float, seed: int) -> float:
    """log10 of the largest overlap per level of one drawn teacher.

    In 100 dimensions a level.
    """
    linear = tu.Network(1, "linear")
    problem = tu.Problem(linear, linear, inputs=tu.PowerLaw(beta, levels))
    start = tu.random_start(problem, dim=100 * levels, seed=seed)
    _, _, t = start.blocks(problem)
    return float(np.log10(np.max(np.asarray(t))))


def claims_21(data: "Dataset") -> Iterator[Claim]:
    """Compare variances, their dependence on N, and the cost of the moment form."""
    for order in data["order"].values:
        case = data.sel(order=order)
        words = f"variance of T^({order})_nn over teachers"
        yield close(words, case["same"], case["same_expected"], rel=0.03)
        words = f"variance of T^({order})_nm over teachers"
        yield close(words, case["other"], case["other_expected"], rel=0.03)
    highest = data.isel(order=-1)
    words = (
        f"variance of T^({int(highest['order'])})_nm with lam^2 for every order, as "
        "extracted"
    )
    yield refuted(
        close(words, highest["other_printed"], highest["other_expected"], rel=0.03),
        evidence=f"{data.attrs['teachers']} drawn teachers give "
        f"{float(highest['other']):.4g}: the power of lam is 2 l",
    )
    yield from _size_claims(data)


def _size_claims(data: "Dataset") -> Iterator[Claim]:
    """The variance against N, and sizes of moments against L."""
    first = data.sel(order=1)
    words = "exponent of Var T^(1) in N, ten levels"
    yield close(words, _exponent(first, "fixed"), -1.0, absolute=0.01)
    words = "exponent of Var T^(1) in N, as many levels as inputs"
    yield close(words, _exponent(first, "growing"), 0.0, absolute=0.02)
    twenty = data.sel(levels=20)
    words = "log10 of the highest moment, 20 levels"
    yield above(words, twenty["growth"], 16.0)
    words = "log10 of the condition of the moment form, 20 levels"
    yield above(words, twenty["condition"], 16.0)
    per_level = data["growth"] / data["levels"]
    words = "log10 of the highest moment per level, 200 levels over 20"
    yield above(words, per_level[-1] / per_level.sel(levels=20), 1.0)
    yield at_most("log10 of the largest overlap per level", data["block"].max(), 0.5)


def _exponent(case: "Dataset", name: str) -> float:
    """The power of N in a variance."""
    return float(np.polyfit(np.log(case["dim"]), np.log(case[name]), 1)[0])


def draw_21(data: "Dataset") -> "Figure":
    """Draw variances against the order and against N, and growth against L."""
    title = "Moments of the teacher are not self-averaging, overlaps per level are"
    small = (
        "Left: marks drawn, lines expected, dotted as extracted. Center: lines L = 10, "
        "dashed L = N."
    )
    figure, axes = panel_grid(1, 3, title, small, height=3.0)
    by_order, by_dim, by_levels = axes[0]
    _draw_orders(by_order, data)
    legend_below(by_order, columns=1)
    _draw_dims(by_dim, data)
    legend_below(by_dim)
    _draw_levels(by_levels, data)
    legend_below(by_levels, columns=1)
    return figure


def _draw_orders(panel: Any, data: "Dataset") -> None:
    """Variances against the order: expected, drawn, and as extracted."""
    order = data["order"]
    for look, (name, label) in enumerate({"same": "nn", "other": "nm"}.items()):
        color = COLORS[look]
        marks = {"linestyle": "none", "marker": MARKERS[look]}
        expected = data[f"{name}_expected"]
        panel.plot(order, expected, color=color, label=f"$T_{{{label}}}$")
        panel.plot(order, data[name], color=color, markerfacecolor="white", **marks)
    extracted = data["other_printed"]
    panel.plot(order, extracted, label="$T_{nm}$, as extracted", **line_of(1, 2))
    panel.set(xlabel="order $l$", ylabel="variance over teachers", yscale="log")


def _draw_dims(panel: Any, data: "Dataset") -> None:
    """Variances against N: ten levels, and as many levels as inputs."""
    dim = data["dim"].values
    for look, order in enumerate(data["order"].values[:3]):
        case = data.sel(order=order)
        color = COLORS[look]
        panel.plot(dim, case["fixed"], color=color, label=f"$l = {order}$")
        panel.plot(dim, case["growing"], color=color, linestyle=DASHES[1])
    draw_power(panel, dim, float(data["fixed"][0, 0]) * 3, -1.0, "$1/N$")
    panel.set(xlabel="inputs $N$", ylabel=r"variance of $T^{(l)}_{nm}$")
    panel.set(xscale="log", yscale="log")


def _draw_levels(panel: Any, data: "Dataset") -> None:
    """Condition of the moment form, highest moment, and largest overlap, against L."""
    names = {
        "condition": "condition of the moment form",
        "growth": "highest moment",
        "block": "largest overlap per level",
    }
    for look, (name, label) in enumerate(names.items()):
        marks = {"marker": MARKERS[look], "markersize": 3.4}
        panel.plot(data["levels"], data[name], color=COLORS[look], label=label, **marks)
    panel.axhline(16.0, label="digits of float64", **GUIDE)
    panel.set(xlabel="levels $L$", ylabel=r"$\log_{10}$")
    panel.set(xscale="log", yscale="symlog", ylim=(-0.5, 2000))


SETTING = {
    "levels": 10,
    "dim": 7000,
    "beta": 1.0,
    "orders": [0, 1, 2, 4, 6],
    "dims": [100, 300, 1000, 3000, 10000],
    "many": [2, 5, 10, 20, 50, 100, 200],
    "seed": 1,
}

FIGURES = (
    Replica(
        id="power-21",
        source="power",
        figure="Sec. 5.1.1, App. D",
        title="moments of random teachers: spread from teacher to teacher, growth with "
        "the number of levels",
        full=SETTING | {"teachers": 400_000},
        quick=SETTING | {"teachers": 100_000},
        compute=compute_21,
        draw=draw_21,
        claims=claims_21,
    ),
)
