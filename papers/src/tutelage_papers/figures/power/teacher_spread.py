"""Moments of random teachers: how they differ from teacher to teacher, and how they grow with the number of levels."""

from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
import tutelage_papers
from tutelage.plot import COLORS, DASHES, FAINT, MARKERS, panel_grid
from tutelage_papers.claims import Claim, above, at_most, close, refuted
from tutelage_papers.drawing import draw_power
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
    """Variances over drawn pairs of teachers beside the formula; the same against N; moments and conditions against L."""
    import xarray as xr

    inputs = tu.PowerLaw(beta, levels)
    expected = tutelage_papers.power_law.teacher_moments(inputs, dim, orders)
    same, other = _drawn(inputs, dim, orders, teachers, np.random.default_rng(seed))
    lam = np.asarray(inputs.eigenvalues)
    fixed = [tutelage_papers.power_law.teacher_moments(inputs, n, orders) for n in dims]
    growing = [
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(beta, n), n, orders)
        for n in dims
    ]
    steep = [
        tutelage_papers.power_law.teacher_moments(tu.PowerLaw(beta, n)) for n in many
    ]
    return xr.Dataset(
        {
            "same": ("order", same),
            "other": ("order", other),
            "same_expected": ("order", expected.diagonal_sd**2),
            "other_expected": ("order", expected.other_sd**2),
            "other_printed": ("order", [float(np.mean(lam**2)) / dim for _ in orders]),
            "fixed": (("dim", "order"), [m.other_sd**2 for m in fixed]),
            "growing": (("dim", "order"), [m.other_sd**2 for m in growing]),
            "growth": ("levels", [m.growth for m in steep]),
            "condition": ("levels", [m.condition for m in steep]),
            "block": ("levels", [_largest_block(n, beta, seed) for n in many]),
        },
        coords={"order": orders, "dim": dims, "levels": many},
        attrs={"teachers": teachers},
    )


def _drawn(
    inputs: "tu.Inputs",
    dim: int,
    orders: list[int],
    teachers: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of T^(j)_nn and T^(j)_nm over pairs of teachers, from the sums over each level.

    A level of n components adds a chi-square variable, and to a pair's entry sqrt(chi-square) times a normal one: exactly.
    """
    counts = inputs.level_dims(dim)
    squares = rng.chisquare(counts, size=(teachers, counts.size))
    products = np.sqrt(squares) * rng.standard_normal(squares.shape)
    powers = np.asarray(inputs.eigenvalues)[:, None] ** np.array(orders) / dim
    return (squares @ powers).var(axis=0, ddof=1), (products @ powers).var(
        axis=0, ddof=1
    )


def _largest_block(levels: int, beta: float, seed: int) -> float:
    """log10 of the largest overlap per level of one drawn teacher in 100 dimensions a level."""
    linear = tu.Network(1, "linear")
    problem = tu.Problem(linear, linear, inputs=tu.PowerLaw(beta, levels))
    blocks = tu.random_start(problem, dim=100 * levels, seed=seed).blocks(problem)
    return float(np.log10(np.max(np.asarray(blocks[2]))))


def claims_21(data: "Dataset") -> list[Claim]:
    """Variances, their dependence on N, and what the moment form costs."""
    claims = []
    for order in data["order"].values:
        case = data.sel(order=order)
        claims += [
            close(
                f"variance of T^({order})_nn over teachers",
                float(case["same"]),
                float(case["same_expected"]),
                rel=0.03,
            ),
            close(
                f"variance of T^({order})_nm over teachers",
                float(case["other"]),
                float(case["other_expected"]),
                rel=0.03,
            ),
        ]
    high = data.isel(order=-1)
    first = data.sel(order=1)
    exponents = [
        float(np.polyfit(np.log(data["dim"]), np.log(first[name]), 1)[0])
        for name in ("fixed", "growing")
    ]
    at_most_block = float(data["block"].max())
    twenty = data.sel(levels=20)
    last = data.isel(levels=-1)
    return [
        *claims,
        refuted(
            close(
                f"variance of T^({int(high['order'])})_nm with lam^2 for every order, as extracted",
                float(high["other_printed"]),
                float(high["other_expected"]),
                rel=0.03,
            ),
            f"{data.attrs['teachers']} drawn teachers give {float(high['other']):.4g}: the power of lam is 2 l",
        ),
        close(
            "exponent of Var T^(1) in N, ten levels", exponents[0], -1.0, absolute=0.01
        ),
        close(
            "exponent of Var T^(1) in N, as many levels as inputs",
            exponents[1],
            0.0,
            absolute=0.02,
        ),
        above("log10 of the highest moment, 20 levels", float(twenty["growth"]), 16.0),
        above(
            "log10 of the condition of the moment form, 20 levels",
            float(twenty["condition"]),
            16.0,
        ),
        above(
            "log10 of the highest moment per level, 200 levels over 20",
            _per_level(last) / _per_level(twenty),
            1.0,
        ),
        at_most("log10 of the largest overlap per level", at_most_block, 0.5),
    ]


def _per_level(case: "Dataset") -> float:
    return float(case["growth"] / case["levels"])


def draw_21(data: "Dataset") -> "Figure":
    """Variances against the order and against N; growth against L."""
    small = "Left: marks drawn, lines expected, dotted as extracted. Center: lines L = 10, dashed L = N."
    figure, axes = panel_grid(
        1,
        3,
        "Moments of the teacher are not self-averaging, overlaps per level are",
        small,
        height=3.0,
    )
    left, middle, right = axes[0]
    for look, (name, label) in enumerate((("same", "$T_{nn}$"), ("other", "$T_{nm}$"))):
        left.plot(
            data["order"], data[f"{name}_expected"], color=COLORS[look], label=label
        )
        left.plot(
            data["order"],
            data[name],
            color=COLORS[look],
            linestyle="none",
            marker=MARKERS[look],
            markerfacecolor="white",
        )
    left.plot(
        data["order"],
        data["other_printed"],
        color=COLORS[1],
        linestyle=DASHES[2],
        label="$T_{nm}$, as extracted",
    )
    left.set(xlabel="order $l$", ylabel="variance over teachers", yscale="log")
    for look, order in enumerate(data["order"].values[:3]):
        case = data.sel(order=order)
        middle.plot(
            case["dim"], case["fixed"], color=COLORS[look], label=f"$l = {order}$"
        )
        middle.plot(
            case["dim"], case["growing"], color=COLORS[look], linestyle=DASHES[1]
        )
    draw_power(
        middle, data["dim"].values, float(data["fixed"][0, 0]) * 3, -1.0, "$1/N$"
    )
    middle.set(
        xlabel="inputs $N$",
        ylabel=r"variance of $T^{(l)}_{nm}$",
        xscale="log",
        yscale="log",
    )
    names = (
        ("condition", "condition of the moment form"),
        ("growth", "highest moment"),
        ("block", "largest overlap per level"),
    )
    for look, (name, label) in enumerate(names):
        right.plot(
            data["levels"],
            data[name],
            color=COLORS[look],
            marker=MARKERS[look],
            markersize=3.4,
            label=label,
        )
    right.axhline(16.0, color=FAINT, linestyle=DASHES[2], label="digits of float64")
    right.set(
        xlabel="levels $L$",
        ylabel=r"$\log_{10}$",
        xscale="log",
        yscale="symlog",
        ylim=(-0.5, 2000),
    )
    for panel in axes[0]:
        panel.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.2),
            ncols=2 if panel is middle else 1,
        )
    return figure


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
        title="moments of random teachers: spread from teacher to teacher, growth with the number of levels",
        full=SETTING | {"teachers": 400_000},
        quick=SETTING | {"teachers": 100_000},
        compute=compute_21,
        draw=draw_21,
        claims=claims_21,
    ),
)
