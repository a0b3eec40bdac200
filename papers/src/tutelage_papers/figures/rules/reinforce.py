"""The RL perceptron: T decisions, one reward if all are right.

Penalties can capture it at a bad fixed point.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tutelage as tu
from tutelage.plot import COLORS, ERROR, label_panel, panel_grid
from tutelage_papers.claims import Claim, above, at_most, below, close
from tutelage_papers.drawing import (
    draw_error,
    draw_wrong_error,
    legend_below,
    line_of,
)
from tutelage_papers.registry import Replica

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

R0 = 0.3
Q0 = 1.0
# By time: R and the error of T = 3 without penalty.
DIGITS = {
    1.0: (0.505284, 0.366426),
    5.0: (1.684416, 0.269125),
    10.0: (3.716924, 0.207726),
    20.0: (8.739384, 0.151685),
}
# By T: the penalty, over the reward, above which learning is captured.
CAPTURED = {2: 8.47, 3: 1.954, 5: 0.539, 9: 0.099, 13: 0.0192}
TARGET = 0.2
# By T: times at which the error is TARGET, without penalty; then T, penalty and time.
REACH = {1: 10.3, 3: 10.9, 5: 18.7, 13: 333.0}
PENALIZED = (5, 0.05, 14.7)
LEARNED = 0.05  # an error that no captured student falls below
EPISODES = r"time $\alpha$ = episodes / N"


def episodes(decisions: int, penalty: float) -> "tu.Problem":
    """A unit learns signs from rewards of one."""
    unit = tu.Network(1, "linear")
    rule = tu.rules.Reinforce(decisions, 1.0, penalty)
    return tu.Problem(unit, unit, optimizer=tu.SGD(1.0), labels="sign", rule=rule)


def slopes(decisions: int, penalty: float, state: Any) -> list[float]:
    """Slopes of R and Q in closed form.

    With c = R / sqrt(Q) and P = 1 - arccos(c) / pi, the probability that one decision
    is right, f = (1 + penalty) P^(T-1) (1 + c).
    """
    R, Q = state
    c = min(R / np.sqrt(Q), 1.0)
    P = 1 - np.arccos(c) / np.pi
    f = (1 + penalty) * P ** (decisions - 1) * (1 + c)
    all_right = P**decisions
    noise = (all_right + penalty**2 * (1 - all_right)) / decisions
    root = np.sqrt(2 * np.pi)
    dR = (f - 2 * penalty * c) / root
    dQ = 2 * np.sqrt(Q) * (f - 2 * penalty) / root + noise
    return [dR, dQ]


def closed_form(decisions: int, penalty: float, times: Any) -> np.ndarray:
    """Return the error at the times."""
    return _error(_solved(decisions, penalty, times[-1], times).y)


def captured_balance(decisions: int, penalty: float, end: float) -> float:
    """Return the balance of the last state, one where R does not move.

    It is (1 + penalty) P^(T-1) (1 + c) / (2 penalty c).
    """
    error = _error(_solved(decisions, penalty, end, [end]).y)[-1]
    c = np.cos(np.pi * error)
    P = 1 - error
    gain = (1 + penalty) * P ** (decisions - 1) * (1 + c)
    return float(gain / (2 * penalty * c))


def learns(decisions: int, penalty: float, end: float) -> bool:
    """Return whether the error falls below LEARNED before the end."""

    def gap(_: float, state: Any) -> float:
        return float(_error(state) - LEARNED)

    gap.terminal = True  # type: ignore[attr-defined]
    solved = _solved(decisions, penalty, end, None, events=gap)
    return bool(solved.t_events[0].size)


def _solved(
    decisions: int, penalty: float, end: float, times: Any, events: Any = None
) -> Any:
    from scipy.integrate import solve_ivp

    return solve_ivp(
        lambda _, state: slopes(decisions, penalty, state),
        (0.0, end),
        [R0, Q0],
        method="LSODA",
        t_eval=times,
        events=events,
        rtol=1e-9,
        atol=1e-12,
    )


def _error(state: Any) -> Any:
    """The share of wrong decisions for R and Q."""
    R, Q = state
    return np.arccos(np.minimum(R / np.sqrt(Q), 1.0)) / np.pi


def threshold(decisions: int, guess: float, end: float) -> float:
    """The penalty above which learning is captured.

    It is found by bisection within a factor of two of a guess.
    """
    low = guess / 2
    high = guess * 2
    for _ in range(11):
        middle = np.sqrt(low * high)
        if learns(decisions, middle, end):
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))


def compute_7(
    decisions: list[int],
    end: float,
    points: int,
    long: float,
    near: float,
    near_end: float,
    near_dims: list[int],
    near_runs: int,
    penalty: float,
    runs_end: float,
    dim: int,
    runs: int,
    seed: int,
) -> "Dataset":
    """Return curves for several T, thresholds, and theory and runs near one of them.

    The curves are those of the general theory and of the closed form. long: the time at
    which a student that has not learned is captured. near: the penalty above a
    threshold, as a factor. penalty, runs_end, dim, runs: of the runs inside a band.
    """
    from tutelage_papers.bands import against_runs

    start = tu.Start([[R0]], [[Q0]])
    times = np.concatenate([[0.0], np.geomspace(0.1, end, points - 1)])
    general = [tu.solve(episodes(T, 0.0), start, times).error for T in decisions]
    closed = [closed_form(T, 0.0, times) for T in decisions]
    R, error = _solved_digits(start, points)
    thresholds = {T: threshold(T, guess, long) for T, guess in CAPTURED.items()}
    balance = [captured_balance(T, 1.05 * x, long) for T, x in thresholds.items()]

    data = against_runs(
        episodes(3, penalty),
        start,
        dim=dim,
        times=tu.linear_times(runs_end, 11),
        runs=runs,
        seed=seed,
    )
    data["decisions"] = decisions
    data["alpha"] = times
    data["general"] = (("decisions", "alpha"), np.array(general))
    data["closed"] = (("decisions", "alpha"), np.array(closed))
    data["penalized"] = ("alpha", closed_form(*PENALIZED[:2], times))
    data["digit"] = list(DIGITS)
    data["digit_R"] = ("digit", R)
    data["digit_error"] = ("digit", error)
    data["captured"] = list(CAPTURED)
    data["threshold"] = ("captured", list(thresholds.values()))
    data["balance"] = ("captured", balance)
    data["free"] = float(learns(1, 100.0, long))

    # Both sides of the threshold of T = 3, at a little less and a little more penalty.
    penalties = [thresholds[3] * (2 - near), thresholds[3] * near]
    sides = _near_threshold(penalties, near_end, near_dims, near_runs, seed)
    data = data.merge(sides)
    return data.assign(penalty=penalty, dim=dim, runs=runs)


def _near_threshold(
    penalties: list[float], end: float, dims: list[int], runs: int, seed: int
) -> "Dataset":
    """Theory at two penalties, and single runs of several sizes at the larger one."""
    import xarray as xr

    start = tu.Start([[R0]], [[Q0]])
    theory_times = tu.linear_times(end, 101)
    run_times = tu.linear_times(end, 11)
    sides = tu.solve_batch(
        episodes(3, 0.0), {"rule.penalty": penalties}, start, theory_times
    )
    errors = []
    for dim in dims:
        seen = tu.simulate(
            episodes(3, penalties[1]),
            start,
            dim=dim,
            times=run_times,
            runs=runs,
            seed=seed + dim,
            together=True,
        )
        errors.append(seen.error)
    coordinates = {"near_time": theory_times, "near_dim": dims, "run_time": run_times}
    data = xr.Dataset(coords=coordinates)
    data["near_penalty"] = ("side", penalties)
    data["near_error"] = (("side", "near_time"), np.asarray(sides.error))
    data["left_error"] = (("near_dim", "run", "run_time"), np.array(errors))
    return data


def _solved_digits(start: "tu.Start", points: int) -> tuple[np.ndarray, np.ndarray]:
    """R and the error of T = 3 at the times of DIGITS."""
    knots = np.linspace(0, points - 1, 5)
    times = np.interp(np.arange(points), knots, [0.0, *DIGITS])
    solved = tu.solve(episodes(3, 0.0), start, times)
    picked = knots.astype(int)[1:]
    return np.asarray(solved.R)[picked, 0, 0], np.asarray(solved.error)[picked]


def claims_7(data: "Dataset") -> Iterator[Claim]:
    """Digits, closed form, thresholds, times of learning, and runs near a threshold."""
    from tutelage_papers.bands import inside_claims

    for place, (time, (R, error)) in enumerate(DIGITS.items()):
        yield close(f"T = 3: R({time:g})", data["digit_R"][place], R, rel=2e-6)
        yield close(
            f"T = 3: error({time:g})", data["digit_error"][place], error, rel=4e-6
        )
    yield at_most(
        "general theory over closed form - 1, all T and times",
        np.max(np.abs(data["general"] / data["closed"] - 1)),
        1e-5,
    )
    for T, penalty in CAPTURED.items():
        yield close(
            f"T = {T}: captured above a penalty of",
            data["threshold"].sel(captured=T),
            penalty,
            rel=0.005,
        )
        balance = data["balance"].sel(captured=T)
        yield close(
            f"T = {T}: balance where it is captured", balance, 1.0, absolute=1e-4
        )
    yield close(
        "T = 1: learns even with a penalty of 100", data["free"], 1.0, absolute=0.0
    )
    yield from _time_claims(data)
    yield from _escape_claims(data)
    name = f"T = 3, penalty {float(data['penalty']):g}, N = {int(data['dim'])}"
    yield from inside_claims(data, name)


def _time_claims(data: "Dataset") -> Iterator[Claim]:
    """Times at which the error has fallen to the target."""
    times = data["alpha"].values
    for T in data["decisions"].values:
        if T in REACH:
            yield close(
                f"T = {T}: time to an error of {TARGET:g}",
                _time(times, data["closed"].sel(decisions=T).values),
                REACH[int(T)],
                rel=0.005,
            )
    T, penalty, expected = PENALIZED
    time = _time(times, data["penalized"].values)
    yield close(
        f"T = {T}, penalty {penalty:g}: the same, sooner", time, expected, rel=0.005
    )


def _escape_claims(data: "Dataset") -> Iterator[Claim]:
    """The theory is captured above the threshold; small networks escape."""
    weaker, stronger = data["near_penalty"].values
    learned, captured = data["near_error"].isel(near_time=-1).values
    end = float(data["run_time"][-1])
    yield below(
        f"T = 3, penalty {weaker:.3g}: general theory, error({end:g})", learned, 0.1
    )
    yield above(
        f"T = 3, penalty {stronger:.3g}: general theory, error({end:g})", captured, 0.3
    )
    halfway = learned + (captured - learned) / 2
    share = (data["left_error"].isel(run_time=-1) < halfway).mean("run")
    words = f"T = 3, penalty {stronger:.3g}: share of runs that escape"
    yield above(f"{words}, N = {int(data['near_dim'][0])}", share[0], 0.5)
    yield below(
        f"{words}, N = {int(data['near_dim'][-1])}",
        share[-1],
        0.1 + 0.4 * float(share[0]),
    )


def _time(times: np.ndarray, error: np.ndarray) -> float:
    """The time at which the error has fallen to the target."""
    return float(np.interp(-TARGET, -error[1:], times[1:]))


def draw_7(data: "Dataset") -> "Figure":
    """Curves by number of decisions, theory and runs near a threshold, and a band."""
    small = (
        "Left: no penalty; lines: general theory; dots: closed form. Middle: T = 3; "
        "thick: theory; thin: single runs, "
        f"N = {int(data['near_dim'][0])}. Right: mean of {int(data['runs'])} runs, "
        f"N = {int(data['dim'])}, ± 2 standard errors."
    )
    figure, axes = panel_grid(1, 3, "The RL perceptron", small, height=3.0, width=10.5)
    left, middle, right = axes[0]
    _draw_decisions(left, data)
    _draw_threshold(middle, data)
    draw_error(right, data, label=f"penalty {float(data['penalty']):g}")
    draw_wrong_error(right, data)
    label_panel(left, "number of decisions")
    label_panel(middle, "a penalty captures")
    label_panel(right, "networks")
    for panel in axes[0]:
        panel.set(xlabel=EPISODES, ylabel=ERROR)
        legend_below(panel)
    return figure


def _draw_decisions(panel: Any, data: "Dataset") -> None:
    times = data["alpha"].values[1:]
    for look, T in enumerate(data["decisions"].values):
        general = data["general"].sel(decisions=T).values[1:]
        closed = data["closed"].sel(decisions=T).values[1:]
        line = line_of(look)
        panel.plot(times, general, **line, label=f"T = {T}")
        panel.plot(times[::25], closed[::25], ".", color=line["color"], markersize=3)
    panel.set(xscale="log")


def _draw_threshold(panel: Any, data: "Dataset") -> None:
    penalties = data["near_penalty"].values
    for look, (penalty, error) in enumerate(
        zip(penalties, data["near_error"].values, strict=True)
    ):
        label = f"penalty {penalty:.3g}"
        panel.plot(data["near_time"], error, **line_of(look), label=label)
    thin = {"color": COLORS[2], "linewidth": 0.5}
    runs = data["left_error"].values[0][:15]
    panel.plot(
        data["run_time"], runs[0], **thin, label=f"runs, penalty {penalties[1]:.3g}"
    )
    for run in runs[1:]:
        panel.plot(data["run_time"], run, **thin)


PRINTED: dict[str, Any] = {
    "end": 400.0,
    "points": 201,
    "long": 3000.0,
    "near": 1.05,
    "near_end": 100.0,
    "seed": 7,
}

FIGURES = (
    Replica(
        id="rules-7",
        source="rules",
        figure="reinforce",
        title="The RL perceptron: one reward for several decisions",
        full=PRINTED
        | {
            "decisions": [1, 2, 3, 5, 9, 13],
            "near_dims": [100, 400, 1600],
            "near_runs": 200,
            "penalty": 1.0,
            "runs_end": 20.0,
            "dim": 1000,
            "runs": 200,
        },
        quick=PRINTED
        | {
            "decisions": [1, 3, 5],
            "near_dims": [100, 400],
            "near_runs": 60,
            "penalty": 1.0,
            "runs_end": 5.0,
            "dim": 400,
            "runs": 60,
        },
        compute=compute_7,
        draw=draw_7,
        claims=claims_7,
    ),
)
