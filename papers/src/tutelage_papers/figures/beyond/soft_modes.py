"""The slow approach to zero error of students with more units than the teacher.

Gradient flow (terms of order eta), erf units, orthonormal teachers of readout 1. With one
extra unit the state of zero error is isolated, and the error decays exponentially; the
extra unit alone decides how fast. Two or more extra units leave soft modes, directions
without a linear force:
- Extra units of equal readouts may cancel each other, g(x) + g(-x) = 0: zero error, and
  they never vanish.
- Of unequal readouts they cancel to first order only. The output is of third order in
  their length s, so ds/dt ~ -s^5 and e_g ~ s^6 ~ t^(-3/2).
- Two units that share a teacher unit, 1/2 each, may move apart by s in opposite
  directions. The output is of second order, so ds/dt ~ -s^3 and e_g ~ s^4 ~ t^(-2).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import tutelage as tu
from tutelage.plot import (
    COLORS,
    ERROR,
    MARKERS,
    label_panel,
    outside_legend,
    panel_grid,
)
from tutelage_papers.claims import Claim, above, at_most, close
from tutelage_papers.drawing import GUIDE, line_of, tick_each
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SMALL_RATE = 1e-7  # of the learning rate at which the Jacobian is that of gradient flow
SIZE = 0.05  # of deviations from zero error, after each restart
RESTARTS = 2  # each leaves the slowest mode alone
E_FOLDINGS = 25.0  # of the error, followed in each run
ROUNDING = 1e-12  # of e_g: below it no slope is fitted
SOFT_CASES = ("canceling extras", "unequal extras", "shared teacher")


def compute_soft_modes(
    teachers: list[int], readouts: list[float], end: float, seed: int
) -> "Dataset":
    """Return rates of zero error by two routes, and curves with soft modes.

    readouts: of one extra unit next to two units that copy their teachers. end: of the
    soft curves.
    """
    import xarray as xr

    alone = [_rates(_committee(M, []), seed) for M in teachers]
    extra = [_rates(_committee(M, [1.0]), seed) for M in teachers]
    by_readout = [_rates(_committee(2, [v]), seed) for v in readouts]
    times = np.concatenate([[0.0], np.geomspace(1.0, end, 121)])
    curves = [_soft_curve(case, times, seed) for case in SOFT_CASES]
    return xr.Dataset(
        {
            "alone": (("teachers", "route"), alone),
            "extra": (("teachers", "route"), extra),
            "by_readout": (("readout", "route"), by_readout),
            "error": (("case", "time"), [error for error, _ in curves]),
            "length": ("case", [length for _, length in curves]),
            "zero_modes": ("case", [_zero_modes(case) for case in SOFT_CASES]),
        },
        coords={
            "teachers": teachers,
            "readout": readouts,
            "route": ["Jacobian", "fitted"],
            "case": list(SOFT_CASES),
            "time": times,
        },
    )


def _committee(M: int, extra_readouts: list[float]) -> "tu.Problem":
    """Return M units of readout 1 and extra units; time is eta alpha."""
    readout = np.concatenate([np.ones(M), extra_readouts])
    student = tu.Network(M + len(extra_readouts), "erf", readout=readout)
    return tu.Problem(student, tu.Network(M, "erf"), optimizer=tu.SGD(lr=1.0))


def _rates(problem: "tu.Problem", seed: int) -> tuple[float, float]:
    """Return the decay rate of e_g from the Jacobian, and fitted to a solved curve."""
    small = tu.analysis.decay_rate(problem.replace(lr=SMALL_RATE))
    rate = small.rate / SMALL_RATE
    return rate, _fitted_rate(problem, rate, seed)


def _fitted_rate(problem: "tu.Problem", rate: float, seed: int) -> float:
    """Return the slope of ln e_g, after the faster modes have gone.

    Restarts scale the deviations up again, in which the slowest mode then dominates. rate:
    sets the unit of time only.
    """
    K = problem.student.hidden
    M = problem.labeler.hidden
    rng = np.random.default_rng(seed)
    perfect = np.eye(K, M)
    deviation = SIZE * rng.standard_normal((K, M))
    factor = SIZE * rng.standard_normal((K, K))
    outside = factor @ factor.T
    times = np.linspace(0.0, E_FOLDINGS / rate, 301)
    slope = np.nan
    for _ in range(RESTARTS + 1):
        R = perfect + deviation
        theory = tu.solve(
            problem,
            tu.Start(R, R @ R.T + outside),
            times,
            gradient_flow=True,
            rtol=1e-9,
            atol=1e-14,
            max_steps=200_000,
        )
        late = (theory.times > 8.0 / rate) & (theory.error > ROUNDING)
        slope = -np.polyfit(theory.times[late], np.log(theory.error[late]), 1)[0]
        deviation, outside = _scaled_up(theory, perfect, int(np.flatnonzero(late)[-1]))
    return float(slope)


def _scaled_up(
    theory: "tu.Trajectory", perfect: np.ndarray, index: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the deviations of R, and Q - R R^T, at a time, at the original size.

    e_g is of second order in the former and of first order in the latter.
    """
    deviation = theory.R[index] - perfect
    outside = theory.Q[index] - theory.R[index] @ theory.R[index].T
    values, vectors = np.linalg.eigh(outside)
    outside = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = max(np.max(np.abs(deviation)), np.sqrt(np.max(np.abs(outside))))
    return SIZE / size * deviation, (SIZE / size) ** 2 * outside


def _soft_problem(case: str) -> "tu.Problem":
    """Return a problem whose states of zero error have soft modes."""
    if case == "canceling extras":
        return _committee(2, [1.0, 1.0])
    if case == "unequal extras":
        return _committee(2, [1.0, 0.5])
    student = tu.Network(2, "erf", readout=0.5)
    return tu.Problem(student, tu.Network(1, "erf"), optimizer=tu.SGD(lr=1.0))


def _perfect_rows(case: str) -> np.ndarray:
    """Return R of a state of zero error."""
    return np.ones((2, 1)) if case == "shared teacher" else np.eye(4, 2)


def _soft_curve(case: str, times: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Return e_g of a soft case, and the final length of its last unit."""
    rng = np.random.default_rng(seed)
    perfect = _perfect_rows(case)
    K = len(perfect)
    R = perfect + 0.1 * rng.standard_normal(perfect.shape)
    outside = 0.3 * rng.standard_normal((K, K))
    start = tu.Start(R, R @ R.T + outside @ outside.T)
    theory = tu.solve(
        _soft_problem(case), start, times, gradient_flow=True, rtol=1e-8, atol=1e-13
    )
    return theory.error, float(np.sqrt(theory.Q[-1, -1, -1]))


def _zero_modes(case: str) -> int:
    """Return how many eigenvalues of the Jacobian vanish at zero error."""
    R = _perfect_rows(case)
    point = tu.analysis.fixed_point(
        _soft_problem(case), tu.Start(R, R @ R.T), gradient_flow=True
    )
    return sum(abs(mode.rate) < 1e-7 for mode in point.modes)


def _late_slope(
    data: "Dataset", case: str, earliest: float = 0.05, latest: float = 1.0
) -> float:
    """Return d ln e_g / d ln t between two shares of the time."""
    times = data["time"].values
    error = data["error"].sel(case=case).values
    late = (times > earliest * times[-1]) & (times <= latest * times[-1]) & (error > 0)
    return float(np.polyfit(np.log(times[late]), np.log(error[late]), 1)[0])


def claims_soft_modes(data: "Dataset") -> Iterator[Claim]:
    """Yield the agreement of both routes, the trends, and the powers of the soft modes."""
    gaps = [abs(data[name][:, 1] / data[name][:, 0] - 1).max() for name in RATES]
    yield at_most("rates: fitted against the Jacobian, worst of all", max(gaps), 0.02)
    swapped = abs(data["alone"][:, 1] / data["extra"][:, 0] - 1).min()
    yield above(
        "the same against the student with one unit more, which must fail",
        swapped,
        0.02,
    )
    ratio = data["extra"][:, 0] / data["alone"][:, 0]
    yield at_most(
        "one extra unit: rate over that without it, largest", ratio.max(), 0.6
    )
    small, large = data["by_readout"][:2, 0].values
    power = np.log(large / small) / np.log(data["readout"][1] / data["readout"][0])
    yield close("power of the extra readout in the rate", power, 2.0, absolute=0.25)
    for case, slope in (("unequal extras", -1.5), ("shared teacher", -2.0)):
        yield close(
            f"{case}: d ln e_g / d ln t", _late_slope(data, case), slope, absolute=0.15
        )
        zero = data["zero_modes"].sel(case=case)
        yield above(f"{case}: zero eigenvalues of the Jacobian", zero, 0.5)
        steeper = _late_slope(data, case) / _late_slope(data, case, 0.005, 0.05)
        yield at_most(
            f"{case}: slope of the last decade over that of the one before (an "
            "exponential: 10)",
            steeper,
            1.3,
        )
    canceling = data.sel(case="canceling extras")
    yield at_most("canceling extras: final error", canceling["error"][-1], 1e-12)
    yield above("canceling extras: final length of a unit", canceling["length"], 0.02)


RATES = ("alone", "extra", "by_readout")


def draw_soft_modes(data: "Dataset") -> "Figure":
    """Draw the rates against M and the readout, and the soft curves."""
    small = (
        "erf units, orthonormal teachers, gradient flow, time η α. Lines: slowest rate of "
        "the Jacobian; marks: fitted to solved curves."
    )
    figure, axes = panel_grid(
        1, 3, "Extra units slow learning down, or end it as a power", small, height=3.2
    )
    left, middle, right = axes[0]
    for place, (name, label) in enumerate((("alone", "K = M"), ("extra", "K = M + 1"))):
        look = {"color": COLORS[place], "label": label}
        left.plot(data["teachers"], data[name][:, 0], **look)
        left.plot(
            data["teachers"], data[name][:, 1], MARKERS[place], color=COLORS[place]
        )
    left.set(
        xlabel="teacher units M", ylabel="decay rate of $\\epsilon_g$", yscale="log"
    )
    left.legend()
    middle.plot(data["readout"], data["by_readout"][:, 0], color=COLORS[1])
    middle.plot(data["readout"], data["by_readout"][:, 1], MARKERS[1], color=COLORS[1])
    middle.set(
        xlabel="readout of the extra unit",
        ylabel="decay rate of $\\epsilon_g$",
        xscale="log",
        yscale="log",
    )
    times = data["time"].values[1:]
    for place, case in enumerate(SOFT_CASES):
        error = np.where(
            data["error"].sel(case=case) > 1e-15, data["error"].sel(case=case), np.nan
        )
        right.plot(times, error[1:], label=case, **line_of(place))
    for power, at in ((-1.5, "unequal extras"), (-2.0, "shared teacher")):
        last = data["error"].sel(case=at).values[-1]
        right.plot(times[60:], 3 * last * (times[60:] / times[-1]) ** power, **GUIDE)
    right.set(xlabel="$\\eta\\alpha$", ylabel=ERROR, xscale="log", yscale="log")
    tick_each(left, data["teachers"].values)
    tick_each(middle, data["readout"].values)
    outside_legend(right)
    for panel, text in zip(
        axes[0], ("one extra unit", "its readout, M = 2", "soft modes"), strict=True
    ):
        label_panel(panel, text)
    return figure


PRINTED = {"readouts": [0.2, 0.5, 1.0, 2.0], "seed": 1}

FIGURES = (
    Replica(
        id="ext-1",
        source="beyond",
        figure="soft modes",
        title="how slowly students with extra units reach zero error",
        full=PRINTED | {"teachers": [1, 2, 3, 4, 6], "end": 1e7},
        quick=PRINTED | {"teachers": [1, 2], "readouts": [0.25, 0.5, 1.0], "end": 1e6},
        compute=compute_soft_modes,
        draw=draw_soft_modes,
        claims=claims_soft_modes,
    ),
)
