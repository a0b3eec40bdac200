"""One unit learns the sign of its teacher by six rules; laws by which errors fall.

Laws: exact asymptotics. Digits: integrations by independent code (plain nodes, SciPy's
DOP853).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import TIME, label_panel, outside_legend, panel_grid
from tutelage_papers.claims import Claim, at_most, close
from tutelage_papers.drawing import GUIDE, draw_error, line_of
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


@dataclass(frozen=True)
class Law:
    """The law of an error, in words, and where and how closely it is checked."""

    error: Callable[[Any], Any]
    words: str
    time: float
    within: float


def _perceptron_law(time: Any) -> Any:
    return (2 / 3) ** (1 / 3) / np.pi * time ** (-1 / 3)


LAWS = {
    "Hebb": Law(
        error=lambda time: 1 / np.sqrt(2 * np.pi * time),
        words="1/sqrt(2 pi alpha)",
        time=100.0,
        within=0.005,
    ),
    "perceptron": Law(
        error=_perceptron_law,
        words="(2/3)^(1/3)/pi alpha^(-1/3)",
        time=1000.0,
        within=0.003,
    ),
    "AdaTron": Law(
        error=lambda time: 3 / (2 * time),
        words="3/(2 alpha)",
        time=1000.0,
        within=0.002,
    ),
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
    """Return theory, runs and the wrong theory of each rule up to `end`.

    error_late: the theory alone, up to `last`.
    """
    import xarray as xr

    from tutelage_papers.bands import against_runs

    start = tu.Start([[R]], [[Q]])
    times = tu.linear_times(end, points)
    late = np.geomspace(0.1, last, points)
    parts: list[Dataset] = []
    for place, rule in enumerate(RULES.values()):
        problem = one_unit(**rule)
        part = against_runs(
            problem, start, dim=dim, times=times, runs=runs, seed=seed + place
        )
        late_error = tu.solve(problem, start, late).error
        part["error_late"] = ("late", np.asarray(late_error))
        parts.append(part)
    names = xr.DataArray(list(RULES), dims="rule", name="rule")
    data = xr.concat(parts, dim=names)
    levels = _two_levels()
    data["late"] = late
    data["digit_time"] = DIGIT_TIMES
    data["levels_R"] = ("digit_time", np.ravel(levels.R))
    data["levels_error"] = ("digit_time", np.asarray(levels.error))
    return data.assign(dim=dim, runs=runs)


def _two_levels() -> "tu.Trajectory":
    """Logistic loss on inputs with two eigenvalues, a tenth of the labels flipped."""
    inputs = tu.Spectrum([3.0, 0.5], [0.2, 0.8], normalize=False)
    labels = tu.labels.Sign(flip=0.1)
    problem = one_unit(loss="logistic").replace(labels=labels, inputs=inputs)
    start = tu.Start([[[0.3]], [[0.05]]], [[[0.6]], [[0.475]]], np.ones((2, 1, 1)))
    return tu.solve(problem, start, DIGIT_TIMES)


def claims_1(data: "Dataset") -> Iterator[Claim]:
    """The laws, the digits, and the bands of all six."""
    from tutelage_papers.bands import inside_claims

    for name, law in LAWS.items():
        error = float(data["error_late"].sel(rule=name, late=law.time))
        yield close(
            f"{name}: error / ({law.words}) at alpha = {law.time:g}",
            error / law.error(law.time),
            1.0,
            rel=law.within,
        )
    for name, digits in DIGITS.items():
        gaps = []
        for quantity, values in digits.items():
            gaps.append(np.abs(_at_digits(data, name, quantity) - values).max())
        label = "logistic, two levels, flips" if name == "levels" else name
        yield at_most(
            f"{label}: largest gap to the digits of {', '.join(digits)}",
            max(gaps),
            PRINTED_TO,
        )
    for name in data["rule"].values:
        yield from inside_claims(data.sel(rule=name), str(name))


def _at_digits(data: "Dataset", name: str, quantity: str) -> np.ndarray:
    """A quantity of a rule at the times of the digits."""
    if name == "levels":
        return data[f"levels_{quantity}"].values
    return np.ravel(data[quantity].sel(rule=name, time=DIGIT_TIMES).values)


def draw_1(data: "Dataset") -> "Figure":
    """Runs beside theory; the fall over four decades with the laws; error over law."""
    small = (
        f"Left: lines: theory; marks: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}; bands: ± 2 standard errors of it. Middle: theory; "
        "dotted: laws. Labels: sign of the teacher's field; η = 1."
    )
    title = "One unit learns the sign of its teacher by six rules"
    figure, axes = panel_grid(1, 3, title, small, height=3.1, width=10.0)
    runs, late, ratios = axes[0]
    for look, name in enumerate(data["rule"].values):
        part = data.sel(rule=name)
        draw_error(runs, part, look=look)
        late.plot(data["late"], part["error_late"], **line_of(look))
        if name in LAWS:
            _draw_law(late, ratios, part, LAWS[str(name)], look)
    # The legend names all six, also those without a law.
    for look, name in enumerate(data["rule"].values):
        ratios.plot([], [], **line_of(look), label=str(name))
    ratios.axhline(1.0, **GUIDE, linewidth=1.0, label="law")
    runs.set(xlabel=TIME, ylabel="share of wrong classes", yscale="log")
    late.set(xlabel=TIME, ylabel="share of wrong classes", xscale="log", yscale="log")
    ratios.set(xlabel=TIME, ylabel="theory / law", xscale="log")
    label_panel(runs, "theory and runs")
    label_panel(late, "late theory")
    label_panel(ratios, "approach to the laws")
    outside_legend(ratios)
    return figure


def _draw_law(late: Any, ratios: Any, part: "Dataset", law: Law, look: int) -> None:
    """A law beside the error, and the ratio of both."""
    part = part.sel(late=part["late"] >= 3.0)
    times = part["late"].values
    expected = law.error(times)
    late.plot(times, expected, **line_of(look, dashes=2), linewidth=0.9)
    ratios.plot(times, part["error_late"].values / expected, **line_of(look))


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
