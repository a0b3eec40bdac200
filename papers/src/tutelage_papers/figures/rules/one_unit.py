"""One unit that learns the sign of its teacher by six rules, and the laws by which their errors fall.

Laws: exact asymptotics. Digits: integrations by independent code (plain nodes, SciPy's DOP853).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    TIME,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import draw_band
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

RULES: dict[str, dict[str, str]] = {
    "Hebb": {"rule": "hebbian"},
    "perceptron": {"rule": "perceptron"},
    "AdaTron": {"rule": "adatron"},
    "logistic": {"loss": "logistic"},
    "hinge": {"loss": "hinge"},
    "squared": {"loss": "squared"},
}
# the law of each error, when it is checked, and how closely
LAWS: dict[str, tuple[Callable[[Any], Any], str, float, float]] = {
    "Hebb": (lambda a: 1 / np.sqrt(2 * np.pi * a), "1/sqrt(2 pi alpha)", 100.0, 0.005),
    "perceptron": (
        lambda a: (2 / 3) ** (1 / 3) / np.pi * a ** (-1 / 3),
        "(2/3)^(1/3)/pi alpha^(-1/3)",
        1000.0,
        0.003,
    ),
    "AdaTron": (lambda a: 3 / (2 * a), "3/(2 alpha)", 1000.0, 0.002),
}
DIGIT_TIMES = [1.0, 5.0, 10.0, 20.0]
DIGITS = {
    "logistic": {
        "R": [0.438270, 1.316988, 1.964790, 2.779945],
        "Q": [0.691476, 2.131069, 4.176763, 7.992894],
        "error": [0.323297, 0.141982, 0.088749, 0.058262],
    },
    "perceptron": {
        "R": [0.362256, 0.765507, 0.972774, 1.224313],
        "error": [0.331863, 0.171051, 0.129165, 0.102174],
    },
    "levels": {
        "R": [0.597840, 1.258083, 1.579885, 1.911161],
        "error": [0.292390, 0.189431, 0.150069, 0.117401],
    },
}
PRINTED_TO = 5e-7  # half a unit of the last printed digit


def one_unit(**rule: Any) -> "tu.Problem":
    """A linear unit that learns sign(rho), at rate one."""
    unit = tu.Network(1, "linear")
    options: dict[str, Any] = {"labels": "sign", **rule}
    return tu.Problem(unit, unit, optimizer=tu.SGD(lr=1.0), **options)


def compute_1(
    R: float,
    Q: float,
    end: float,
    last: float,
    points: int,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """For each rule: theory, runs and the wrong theory up to `end`; the theory alone up to `last` (error_late)."""
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start([[R]], [[Q]])
    times = tu.linear_times(end, points)
    late = np.geomspace(0.1, last, points)
    problems = {name: one_unit(**rule) for name, rule in RULES.items()}
    parts = [
        against_runs(problem, start, dim=dim, times=times, runs=runs, seed=seed + i)
        for i, problem in enumerate(problems.values())
    ]
    names = xr.DataArray(list(problems), dims="rule", name="rule")
    errors = [
        np.asarray(tu.solve(problem, start, late).error)
        for problem in problems.values()
    ]
    levels = _two_levels()
    return xr.concat(parts, dim=names).assign(
        error_late=(("rule", "late"), np.array(errors)),
        levels_R=("digit_time", np.ravel(levels.R)),
        levels_error=("digit_time", np.asarray(levels.error)),
        late=late,
        digit_time=DIGIT_TIMES,
        dim=dim,
        runs=runs,
    )


def _two_levels() -> "tu.Trajectory":
    """Logistic loss on inputs with two eigenvalues, a tenth of the labels flipped."""
    inputs = tu.Spectrum([3.0, 0.5], [0.2, 0.8], normalize=False)
    problem = one_unit(loss="logistic").replace(
        labels=tu.labels.Sign(flip=0.1), inputs=inputs
    )
    start = tu.Start([[[0.3]], [[0.05]]], [[[0.6]], [[0.475]]], np.ones((2, 1, 1)))
    return tu.solve(problem, start, DIGIT_TIMES)


def claims_1(data: "Dataset") -> list[Claim]:
    """The laws, the digits, and the bands of all six."""
    from tutelage_papers.bands import inside_claims

    claims = []
    for name, (law, words, at, within) in LAWS.items():
        error = float(data["error_late"].sel(rule=name, late=at))
        claims.append(
            close(
                f"{name}: error / ({words}) at alpha = {at:g}",
                error / law(at),
                1.0,
                rel=within,
            )
        )
    for name, digits in DIGITS.items():
        gap = max(
            np.abs(_at_digits(data, name, what) - values).max()
            for what, values in digits.items()
        )
        what = ", ".join(digits)
        label = "logistic, two levels, flips" if name == "levels" else name
        claims.append(
            at_most(f"{label}: largest gap to the digits of {what}", gap, PRINTED_TO)
        )
    for name in data["rule"].values:
        claims += inside_claims(data.sel(rule=name), str(name))
    return claims


def _at_digits(data: "Dataset", name: str, what: str) -> np.ndarray:
    if name == "levels":
        return data[f"levels_{what}"].values
    return np.ravel(data[what].sel(rule=name, time=DIGIT_TIMES).values)


def draw_1(data: "Dataset") -> "Figure":
    """Runs beside theory; the fall over four decades with the laws; error over law."""
    small = (
        f"Left: lines: theory; marks: mean of {int(data['runs'])} runs, N = {int(data['dim'])}; bands: ± 2 standard errors "
        "of it. Middle: theory; dotted: laws. Labels: sign of the teacher's field; η = 1."
    )
    figure, axes = panel_grid(
        1,
        3,
        "One unit learns the sign of its teacher by six rules",
        small,
        height=3.1,
        width=10.0,
    )
    left, middle, right = axes[0]
    times = data["time"].values
    late = data["late"].values
    for look, name in enumerate(data["rule"].values):
        part = data.sel(rule=name)
        color = COLORS[look]
        dashes = DASHES[look % len(DASHES)]
        columns = (part[f"error{ending}"].values for ending in ("", "_mean", "_se"))
        draw_band(left, times, *columns, look=look)
        middle.plot(late, part["error_late"], color=color, linestyle=dashes)
        if name in LAWS:
            law = LAWS[str(name)][0]
            after = late >= 3.0
            middle.plot(
                late[after],
                law(late[after]),
                color=color,
                linestyle=DASHES[2],
                linewidth=0.9,
            )
            right.plot(
                late[after],
                part["error_late"].values[after] / law(late[after]),
                color=color,
                linestyle=dashes,
            )
    for look, name in enumerate(data["rule"].values):
        right.plot(
            [],
            [],
            color=COLORS[look],
            linestyle=DASHES[look % len(DASHES)],
            label=str(name),
        )
    right.axhline(1.0, color=FAINT, linewidth=1.0, linestyle=DASHES[2], label="law")
    left.set(xlabel=TIME, ylabel="share of wrong classes", yscale="log")
    middle.set(xlabel=TIME, ylabel="share of wrong classes", xscale="log", yscale="log")
    right.set(xlabel=TIME, ylabel="theory / law", xscale="log")
    for panel, text in zip(
        axes[0], ("theory and runs", "late theory", "approach to the laws"), strict=True
    ):
        label_panel(panel, text)
    outside_legend(right)
    return figure


PRINTED: dict[str, Any] = {
    "R": 0.1,
    "Q": 0.5,
    "end": 20.0,
    "last": 1000.0,
    "points": 41,
    "dim": 500,
    "seed": 1,
}

FIGURES = (
    Replica(
        id="rules-1",
        source="rules",
        figure="six rules",
        title="one unit learns the sign of its teacher by six rules",
        full=PRINTED | {"runs": 200},
        quick=PRINTED | {"runs": 60},
        compute=compute_1,
        draw=draw_1,
        claims=claims_1,
    ),
)
